//! Full synchronisations that a replica loads beside its own data (`repl-diskless-load swapdb`). Redis behaves in the
//! same way.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use keylatch::Clock;

use super::nodes::{Kind, Node};
use super::parties::{hear_replica, no_time};
use super::snapshots::fill;
use crate::harness::{Client, encode, wait_until};

const KINDS: [Kind; 2] = [Kind::Keylatch, Kind::Redis];
const LOADING: &str = "-LOADING Redis is loading the dataset in memory";

/// End mark of the data that a primary sends.
const MARK: &str = "0123456789abcdef0123456789abcdef01234567";

/// Offset of the data in the history of the primary.
const POSITION: u64 = 1000;

/// RDB file of all data, as a primary sends it.
#[derive(Clone)]
struct Dump(Vec<u8>);

impl Dump {
    fn new() -> Self {
        Dump(b"REDIS0010\xfe\0".to_vec())
    }

    /// Returns a file with a few values and a function `f`, all of which contain the version.
    fn of_version(version: &str) -> Self {
        let code = format!(
            "#!lua name=l\nredis.register_function{{function_name='f', callback=function() return '{version}' end, \
             flags={{'no-writes'}}}}"
        );
        let dump = Dump::new().text("a", version).text("b", version).text("c", version);
        if cfg!(feature = "lua") { dump.add(b"\xf5").word(code.as_bytes()) } else { dump }
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn word(self, word: &[u8]) -> Self {
        let len = u32::try_from(word.len()).expect("a short word");
        self.add(b"\x80").add(&len.to_be_bytes()).add(word)
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.add(b"\0").word(key.as_bytes()).word(value.as_bytes())
    }

    fn list(self, key: &str, element: &str) -> Self {
        self.add(b"\x01").word(key.as_bytes()).add(b"\x01").word(element.as_bytes())
    }

    fn text_until(self, key: &str, at_ms: i64) -> Self {
        self.add(b"\xfc").add(&at_ms.to_le_bytes()).text(key, "v")
    }
}

/// Returns the bytes after the last key: no checksum, and the mark.
fn end() -> Vec<u8> {
    [b"\xff\0\0\0\0\0\0\0\0", MARK.as_bytes()].concat()
}

/// Primary that sends arbitrary data.
struct Source(TcpListener);

/// Running transfer: keys are sent until it is ended.
struct Transfer {
    must_end: Arc<AtomicBool>,
    sender: JoinHandle<(TcpStream, usize)>,
    /// Request of the replica.
    asked: String,
}

impl Source {
    /// Starts a primary, and a replica of it, which loads slowly.
    fn with_replica(kind: Kind, settings: &[(&str, &str)]) -> Option<(Self, Node)> {
        let source = Source(TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let own = [("repl-diskless-load", "swapdb"), ("loading-process-events-interval-bytes", "1024")];
        let replica = Node::start(kind, &[&own[..], settings].concat())?;
        let port = source.0.local_addr().expect("an address").port();
        replica.client().expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
        Some((source, replica))
    }

    fn head(history: char) -> Vec<u8> {
        let id = history.to_string().repeat(40);
        format!("+FULLRESYNC {id} {POSITION}\r\n$EOF:{MARK}\r\n").into_bytes()
    }

    /// Sends a whole file, and waits until the replica has loaded it.
    fn send(&self, replica: &Node, history: char, dump: Dump) -> TcpStream {
        let (mut link, _) = hear_replica(&self.0, no_time);
        link.write_all(&[Self::head(history), dump.0, end()].concat()).expect("it reads");
        let mut client = replica.client();
        wait_until(|| client.info("master_link_status") == "up");
        link
    }

    /// Starts a transfer, and waits until the replica reports that it is loading.
    fn begin(&self, replica: &Node, history: char, dump: Dump, how: &str) -> Transfer {
        let mut client = replica.client();
        client.expect(&[("CONFIG SET key-load-delay 300", "+OK")]);
        let (mut link, asked) = hear_replica(&self.0, no_time);
        link.write_all(&[Self::head(history), dump.0].concat()).expect("it reads");
        let must_end = Arc::<AtomicBool>::default();
        let sender = std::thread::spawn({
            let must_end = must_end.clone();
            move || {
                let mut count = 0;
                while !must_end.load(Relaxed) {
                    let key = Dump(Vec::new()).text(&format!("more:{count}"), &"x".repeat(4000));
                    link.write_all(&key.0).expect("it reads");
                    count += 1;
                }
                (link, count)
            }
        });
        wait_until(|| client.info(how) == "1");
        Transfer { must_end, sender, asked }
    }
}

impl Transfer {
    fn stop(self, replica: &Node) -> (TcpStream, usize) {
        replica.client().expect(&[("CONFIG SET key-load-delay 0", "+OK")]);
        self.must_end.store(true, Relaxed);
        self.sender.join().expect("it sends")
    }

    /// Sends the end; returns the number of keys besides those of the file.
    fn end(self, replica: &Node) -> (TcpStream, usize) {
        let (mut link, count) = self.stop(replica);
        link.write_all(&end()).expect("it reads");
        let mut client = replica.client();
        wait_until(|| client.info("master_link_status") == "up");
        wait_until(|| ["loading", "async_loading"].iter().all(|field| client.info(field) == "0"));
        (link, count)
    }

    /// Closes the connection in the middle.
    fn break_off(self, replica: &Node) {
        drop(self.stop(replica));
        let mut client = replica.client();
        wait_until(|| ["loading", "async_loading"].iter().all(|field| client.info(field) == "0"));
    }
}

/// Asserts that all data of a server is of one version, and the number of keys.
#[track_caller]
fn assert_version(client: &mut Client, version: &str, keys: usize) {
    let text = format!("${} {version}", version.len());
    client.expect(&[("GET a", &text), ("MGET b c", &format!("*2 {text} {text}")), ("DBSIZE", &format!(":{keys}"))]);
    if cfg!(feature = "lua") {
        client.expect(&[("FCALL f 0", &text)]);
    }
}

#[test]
fn the_present_data_is_served_while_later_data_of_its_history_is_loaded_and_then_that() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old")));
        let transfer = source.begin(&replica, '1', Dump::of_version("new"), "async_loading");
        let mut client = replica.client();
        assert_version(&mut client, "old", 3);
        client.expect(&[("SET a w", "-READONLY You can't write against a read only replica.")]);
        for field in ["loading_start_time", "loading_loaded_bytes", "loading_eta_seconds"] {
            wait_until(|| client.info(field).parse::<u64>().is_ok_and(|value| value > 0));
        }
        assert_eq!(client.info("rdb_changes_since_last_save"), "1"); // the data itself
        assert_eq!(client.info("loading_total_bytes"), "0");
        assert_eq!(["loading", "async_loading"].map(|field| client.info(field)), ["0", "1"]);
        let (_link, more) = transfer.end(&replica);
        assert_version(&mut client, "new", 3 + more);
        assert_eq!(client.info("rdb_last_load_keys_loaded"), (3 + more).to_string());
        assert_eq!(client.info("rdb_changes_since_last_save"), "2");
    }
}

#[test]
fn what_would_come_between_is_rejected_while_data_is_loaded_beside_the_present_data() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old")));
        let transfer = source.begin(&replica, '1', Dump::of_version("new"), "async_loading");
        let mut client = replica.client();
        for refused in [
            "BGSAVE",
            "SAVE",
            "BGREWRITEAOF",
            "REPLICAOF NO ONE",
            "SLAVEOF NO ONE",
            "PSYNC ? -1",
            "SYNC",
            "CONFIG SET appendonly no",
            "CONFIG SET repl-diskless-load disabled",
        ] {
            client.expect(&[(refused, LOADING)]);
        }
        client.expect(&[("MULTI", "+OK"), ("BGSAVE", LOADING)]);
        client.expect(&[("EXEC", "-EXECABORT Transaction discarded because of previous errors.")]);
        client.expect(&[("CONFIG SET maxmemory-samples 6", "+OK")]);
        assert_eq!(client.info("async_loading"), "1", "{kind:?}");
        let (_link, more) = transfer.end(&replica);
        client.expect(&[("REPLICAOF NO ONE", "+OK"), ("DBSIZE", &format!(":{}", 3 + more)), ("SAVE", "+OK")]);
    }
}

#[test]
fn a_transfer_that_breaks_leaves_the_present_data_and_its_place_in_the_history() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old")));
        source.begin(&replica, '1', Dump::of_version("new"), "async_loading").break_off(&replica);
        let mut client = replica.client();
        assert_version(&mut client, "old", 3);
        client.expect(&[("SET a w", "-READONLY You can't write against a read only replica.")]);
        assert_eq!(client.info("master_replid"), "1".repeat(40));
        let again = source.begin(&replica, '1', Dump::of_version("new"), "async_loading");
        assert!(again.asked.contains(&format!("{}\r\n$4\r\n{}\r\n", "1".repeat(40), POSITION + 1)), "{}", again.asked);
        assert_version(&mut client, "old", 3);
        let (_link, more) = again.end(&replica);
        assert_version(&mut client, "new", 3 + more);
    }
}

#[test]
fn clients_are_rejected_while_data_of_another_history_is_loaded_and_the_former_data_is_kept_until_that_succeeds() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old")));
        let transfer = source.begin(&replica, '2', Dump::of_version("new"), "loading");
        let mut client = replica.client();
        client.expect(&[("GET a", LOADING), ("REPLICAOF NO ONE", LOADING)]);
        assert_eq!(["loading", "async_loading"].map(|field| client.info(field)), ["1", "0"]);
        transfer.break_off(&replica);
        assert_version(&mut client, "old", 3);
        assert_eq!(client.info("master_replid"), "1".repeat(40));
        let again = source.begin(&replica, '2', Dump::of_version("new"), "loading");
        assert!(again.asked.contains(&"1".repeat(40)), "{}", again.asked);
        let (_link, more) = again.end(&replica);
        assert_version(&mut client, "new", 3 + more);
        assert_eq!(client.info("master_replid"), "2".repeat(40));
    }
}

#[test]
fn who_watches_tracks_or_waits_for_keys_is_told_that_they_were_exchanged() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[("replica-read-only", "no")]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old")));
        let transfer = source.begin(&replica, '1', Dump::of_version("new").list("l", "element"), "async_loading");
        let [mut watcher, mut other, mut tracker, mut waiter] = [(); 4].map(|()| replica.client());
        watcher.expect(&[("WATCH a", "+OK")]);
        other.expect(&[("WATCH missing", "+OK")]);
        tracker.call("HELLO 3");
        tracker.expect(&[("CLIENT TRACKING ON", "+OK"), ("GET a", "$3 old")]);
        waiter.send(&encode(&["BLPOP", "l", "0"]));
        wait_until(|| other.info("blocked_clients") == "1");
        replica.client().expect(&[("SET mine v", "+OK"), ("GET mine", "$1 v")]);
        let (_link, more) = transfer.end(&replica);
        watcher.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "*-1")]);
        other.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "*1 +PONG")]);
        assert_eq!(tracker.reply(), ">2 $10 invalidate _");
        assert_eq!(waiter.reply(), "*2 $1 l $7 element");
        assert_version(&mut other, "new", 3 + more);
        other.expect(&[("GET mine", "$-1"), ("EXISTS l", ":0")]);
    }
}

#[test]
fn keys_that_have_expired_stay_hidden_while_data_is_loaded_beside_them_though_redis_shows_them() {
    for kind in KINDS {
        let Some((source, replica)) = Source::with_replica(kind, &[]) else { return };
        drop(source.send(&replica, '1', Dump::of_version("old").text_until("gone", 1)));
        let transfer = source.begin(&replica, '1', Dump::of_version("new"), "async_loading");
        let mut client = replica.client();
        client.expect(&[("GET gone", if kind == Kind::Redis { "$1 v" } else { "$-1" })]);
        assert_version(&mut client, "old", 4);
        let (_link, more) = transfer.end(&replica);
        assert_version(&mut client, "new", 3 + more);
    }
}

#[test]
fn no_call_sees_a_part_of_the_former_data_and_a_part_of_the_later_data() {
    const ROUNDS: usize = 40;
    let (source, replica) = Source::with_replica(Kind::Keylatch, &[]).expect("keylatch");
    let mut link = source.send(&replica, '1', Dump::of_version("0"));
    let is_over = &AtomicBool::new(false);
    let read = || {
        let (mut client, mut last) = (replica.client(), 0);
        while !is_over.load(Relaxed) {
            let mut calls = vec!["MULTI", "GET a", "GET b", "GET c", "DBSIZE", "EXEC"];
            if cfg!(feature = "lua") {
                calls.insert(4, "FCALL f 0");
            }
            let replies: Vec<String> = calls.iter().map(|call| client.call(call)).collect();
            let words: Vec<&str> = replies.last().expect("a reply").split([' ', '$', '*']).collect();
            let [first, rest @ ..] = &words[4..words.len() - 1] else { panic!("{replies:?}") };
            let version: usize = first.parse().unwrap_or_else(|_| panic!("{replies:?}"));
            assert!(rest.iter().skip(2).step_by(3).all(|other| other == first), "{replies:?}");
            assert!(version >= last, "{version} behind {last}");
            last = version;
        }
    };
    std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(read));
        for round in 1..=ROUNDS {
            drop(link);
            link = source.send(&replica, '1', Dump::of_version(&round.to_string()));
        }
        is_over.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("it has read"));
    });
    assert_version(&mut replica.client(), &ROUNDS.to_string(), 3);
}

#[test]
fn deadlines_of_data_that_was_loaded_beside_are_kept_once_the_replica_is_a_primary() {
    let (source, replica) = Source::with_replica(Kind::Keylatch, &[]).expect("keylatch");
    let at_ms = Clock::system().now().wall_ms() + 300;
    let _link = source.send(&replica, '1', Dump::new().text("stays", "v").text_until("goes", at_ms));
    let mut client = replica.client();
    client.expect(&[("DBSIZE", ":2"), ("REPLICAOF NO ONE", "+OK")]);
    wait_until(|| client.call("DBSIZE") == ":1"); // no client has asked for the key
    client.expect(&[("GET stays", "$1 v"), ("GET goes", "$-1")]);
}

#[test]
fn replicas_and_the_append_only_file_of_a_replica_get_what_it_has_loaded_beside() {
    let Some(primary) = Node::start(Kind::Redis, &[("repl-backlog-size", "16384")]) else { return };
    fill(&mut primary.client());
    let settings = [("repl-diskless-load", "swapdb"), ("appendonly", "yes")];
    let replica = Node::replica_of(&primary, &settings);
    let below = Node::replica_of(&replica, &settings);
    replica.assert_same(&primary);
    below.assert_same(&replica);
    let long = "x".repeat(200_000);
    let mut client = primary.client();
    for round in 1..4 {
        // No link can continue after this. The history stays the same.
        client.expect(&[("MULTI", "+OK"), ("CLIENT KILL TYPE replica", "+QUEUED")]);
        client.expect(&[(&format!("SET long:{round} {long}"), "+QUEUED"), ("DEL longlist", "+QUEUED")]);
        assert!(client.call("EXEC").starts_with("*3 :1 +OK"));
        replica.assert_same(&primary);
        below.assert_same(&replica);
        assert_eq!(primary.info("sync_full"), (1 + round).to_string());
    }
    let digest = client.call("DEBUG DIGEST");
    for node in [replica, below] {
        let mut client = node.client();
        wait_until(|| client.info("aof_rewrite_in_progress") == "0" && client.info("aof_rewrite_scheduled") == "0");
        let again = Node::start_in(node.stop(), Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
        assert_eq!(again.client().call("DEBUG DIGEST"), digest);
    }
}

#[test]
fn an_append_only_file_that_was_given_up_for_data_that_did_not_come_is_written_all_the_same() {
    let (source, replica) = Source::with_replica(Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
    let mut client = replica.client();
    client.expect(&[("CONFIG SET rdb-key-save-delay 1000000000", "+OK")]);
    drop(source.send(&replica, '1', Dump::of_version("old")));
    wait_until(|| client.info("current_save_keys_total") == "3");
    let transfer = source.begin(&replica, '1', Dump::of_version("new"), "async_loading");
    client.expect(&[("CONFIG SET rdb-key-save-delay 0", "+OK")]);
    transfer.break_off(&replica);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0" && client.info("aof_rewrite_scheduled") == "0");
    let alone = Node::start_in(replica.stop(), Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
    assert_version(&mut alone.client(), "old", 3);
}
