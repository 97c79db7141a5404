//! keylatch as a replica: full and partial synchronisations, and errors that it survives.

use super::nodes::{Kind, Node};
use super::parties::answer_replica;
use super::snapshots::fill;
use crate::harness::{Client, wait_until};

const KINDS: [Kind; 2] = [Kind::Keylatch, Kind::Redis];

/// Starts a primary of each kind with data of all types, and a replica that has it.
fn with_replica(settings: &[(&str, &str)], mut act: impl FnMut(&Node, &Node)) {
    for kind in KINDS {
        let Some(primary) = Node::start(kind, settings) else { return };
        fill(&mut primary.client());
        let replica = Node::replica_of(&primary, &[]);
        replica.assert_same(&primary);
        act(&primary, &replica);
        replica.assert_same(&primary);
    }
}

#[test]
fn a_replica_has_all_data_of_its_primary_and_what_follows() {
    with_replica(&[], |primary, replica| {
        let mut there = replica.client();
        #[cfg(feature = "lua")]
        assert!(there.call("FUNCTION LIST").contains(" mylib "));
        let mut client = primary.client();
        let mut changes: Vec<String> = (0..3000).map(|n| format!("SET key:{} {n}", n % 700)).collect();
        changes.extend((0..300).map(|n| format!("ZADD z{} {n} m{n}", n % 7)));
        changes.extend(["SELECT 9".into(), "HSET h f v".into(), "SELECT 0".into(), "SWAPDB 0 3".into()]);
        changes.extend(["MULTI".into(), "SET a 1".into(), "SELECT 5".into(), "LPUSH l x".into(), "EXEC".into()]);
        changes.extend(["SELECT 0".into(), "SET t v PX 100000".into(), "SPOP words".into(), "GETEX t PX 70000".into()]);
        client.pipeline(&changes);
        #[cfg(feature = "lua")]
        client.call_args(&["EVAL", "for i = 1, 9 do redis.call('incr', KEYS[1]) end", "1", "counted"]);
        replica.assert_same(primary);
        assert_eq!(there.call("GET counted"), if cfg!(feature = "lua") { "$1 9" } else { "$-1" });
        assert_eq!((primary.info("connected_slaves"), primary.info("sync_full")), ("1".into(), "1".into()));
        let line = primary.info("slave0");
        assert!(line.starts_with(&format!("ip=127.0.0.1,port={},state=online,", replica.port())), "{line}");
    });
}

#[test]
fn a_replica_says_of_its_link_what_redis_says() {
    let Some(primary) = Node::start(Kind::Redis, &[]) else { return };
    let replica = Node::replica_of(&primary, &[("replica-priority", "7"), ("replica-announced", "no")]);
    let Some(other) = Node::start(Kind::Redis, &[("replica-priority", "7"), ("replica-announced", "no")]) else {
        return;
    };
    other.follow(&primary);
    primary.client().call("SET k v");
    replica.wait_for(&primary);
    other.wait_for(&primary);
    let fields = |node: &Node| -> Vec<String> {
        let info = node.client().call("INFO replication");
        let is_steady = |field: &&str| !field.contains("last_io") && !field.starts_with("repl_backlog");
        info.split(' ').filter(is_steady).map(str::to_owned).collect()
    };
    wait_until(|| fields(&replica)[1..] == fields(&other)[1..]);
    let role = |node: &Node| node.client().call("ROLE");
    wait_until(|| role(&replica) == role(&other));
    drop(primary);
    for node in [&replica, &other] {
        wait_until(|| node.info("master_link_status") == "down");
        assert!(node.info("master_link_down_since_seconds").parse::<u64>().is_ok());
        assert!(node.client().call("ROLE").starts_with("*5 $5 slave $9 127.0.0.1 :"));
        assert!(node.client().call("ROLE").ends_with(" :-1"), "{}", node.client().call("ROLE"));
    }
}

#[test]
fn a_replica_whose_link_was_cut_continues_where_it_was() {
    with_replica(&[], |primary, replica| {
        let mut client = primary.client();
        for round in 0..5 {
            client.expect(&[("SELECT 4", "+OK")]);
            client.pipeline(&(0..200).map(|n| format!("RPUSH l{round} {n}")).collect::<Vec<_>>());
            let cut = if round % 2 == 0 { "CLIENT KILL TYPE replica" } else { "CLIENT KILL TYPE master" };
            let mut side = if round % 2 == 0 { primary.client() } else { replica.client() };
            wait_until(|| replica.info("master_link_status") == "up");
            assert_eq!(side.call(cut), ":1");
            client.pipeline(&(0..200).map(|n| format!("RPUSH m{round} {n}")).collect::<Vec<_>>());
            replica.assert_same(primary);
        }
        assert_eq!(primary.info("sync_full"), "1");
        assert_eq!(primary.info("sync_partial_ok"), "5");
    });
}

#[test]
fn a_replica_that_missed_too_much_gets_all_data_again() {
    with_replica(&[("repl-backlog-size", "16384")], |primary, replica| {
        // It has another primary for a while, so that it cannot read.
        replica.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
        primary.client().pipeline(&(0..3000).map(|n| format!("SET missed:{n} {n}")).collect::<Vec<_>>());
        replica.follow(primary);
        replica.assert_same(primary);
        assert_eq!((primary.info("sync_full"), primary.info("sync_partial_err")), ("2".into(), "1".into()));
        assert_eq!(replica.client().call("GET missed:2999"), "$4 2999");
    });
}

#[test]
fn a_replica_keeps_its_data_until_all_of_the_primary_is_here() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let replica = Node::keylatch(&[]);
    replica.client().expect(&[("SET old data", "+OK")]);
    let port = listener.local_addr().expect("an address").port();
    replica.client().expect(&[(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK")]);
    let id = "f".repeat(40);
    let mut dump = b"REDIS0010\xfe\x00\x00\x03new\x04data\xff".to_vec();
    dump.extend_from_slice(&[0; 8]); // no checksum
    let whole = [format!("${}\r\n", dump.len()).as_bytes(), &dump].concat();
    let cases: [(&[u8], &[u8]); 10] = [
        (b"-LOADING Redis is loading the dataset in memory\r\n", b""),
        (b"+FULLRESYNC short 0\r\n", b""),
        (b"+FULLRESYNC \r\n", b""),
        (b"+WHAT\r\n", b""),
        (b"FULL", b"-ERR no\r\n"),
        (b"FULL", b"$-1\r\n"),
        (b"FULL", b"$EOF:short\r\n"),
        (b"FULL", b"$99999999999999999999\r\n"),
        (b"FULL", &whole[..whole.len() - 1]),
        (b"FULL", b"$EOF:0123456789012345678901234567890123456789\r\nREDIS0010"),
    ];
    let full = format!("+FULLRESYNC {id} 1000\r\n");
    let serve = |answer: &[u8], payload: &[u8]| {
        let answer = if answer == b"FULL" { full.as_bytes() } else { answer };
        answer_replica(&listener, &[answer, payload].concat())
    };
    for (answer, payload) in cases {
        drop(serve(answer, payload));
        assert_eq!(replica.client().call("GET old"), "$4 data", "after {}", answer.escape_ascii());
    }
    wait_until(|| std::fs::read_dir(replica.dir.path()).expect("a directory").count() == 0); // no file is left
    let mut link = serve(b"FULL", &whole);
    wait_until(|| replica.client().call("GET new") == "$4 data");
    assert_eq!(replica.client().call("DBSIZE"), ":1");
    let stream = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*1\r\n$7\r\nUNKNOWN\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    link.write_all(stream).expect("it reads");
    wait_until(|| replica.info("slave_repl_offset") == (1000 + stream.len()).to_string());
    assert_eq!(replica.client().call("GET k"), "$1 v");
    // A transaction counts when it is complete.
    let begun = b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nw\r\n";
    link.write_all(begun).expect("it reads");
    link.write_all(b"*2\r\n$3\r\nDEL\r\n$1\r\n").expect("it reads");
    assert_eq!(replica.client().call("GET k"), "$1 v");
    drop(link);
    let mut link = serve(b"+CONTINUE\r\n", b"");
    wait_until(|| replica.info("master_link_status") == "up");
    assert_eq!(replica.info("slave_repl_offset"), (1000 + stream.len()).to_string());
    // Bytes that are no replication stream end the link, and change nothing.
    for garbage in [&b"*1\r\n$4\r\nEXEC\r\n"[..], b"*1\r\n$x\r\n", b"PING\r\n", b"*2\r\n$6\r\nSELECT\r\n$2\r\n99\r\n"] {
        link.write_all(garbage).expect("it reads");
        link = serve(b"+CONTINUE\r\n", b"");
        assert_eq!(replica.client().call("GET k"), "$1 v", "after {}", garbage.escape_ascii());
    }
}

#[test]
fn readers_of_a_replica_see_transactions_and_scripts_whole() {
    with_replica(&[], |primary, replica| {
        let mut client = primary.client();
        client.expect(&[("MSET one 0 two 0", "+OK")]);
        replica.wait_for(primary);
        let writer = std::thread::spawn({
            let mut client = primary.client();
            move || {
                for n in 1..=300 {
                    let requests = ["MULTI".into(), format!("SET one {n}"), format!("SET two {n}"), "EXEC".into()];
                    client.pipeline(&requests);
                }
            }
        });
        let mut reader = replica.client();
        loop {
            let both = reader.call("MGET one two");
            let values: Vec<&str> = both.split(' ').collect();
            assert_eq!(values[2], values[4], "{both}");
            if values[2] == "300" {
                break;
            }
        }
        writer.join().expect("it writes");
    });
}

#[test]
fn what_is_published_at_the_primary_reaches_subscribers_of_the_replica() {
    with_replica(&[], |primary, replica| {
        let (mut subscriber, mut sharded) = (replica.client(), replica.client());
        assert_eq!(subscriber.call("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
        assert_eq!(sharded.call("SSUBSCRIBE shard"), "*3 $10 ssubscribe $5 shard :1");
        primary.client().expect(&[("PUBLISH news all", ":0"), ("SPUBLISH shard some", ":0")]);
        assert_eq!(subscriber.reply(), "*3 $7 message $4 news $3 all");
        assert_eq!(sharded.reply(), "*3 $8 smessage $5 shard $4 some");
    });
}

#[test]
fn blocked_readers_of_a_replica_are_served_by_what_the_primary_sends() {
    with_replica(&[], |primary, replica| {
        let mut reader = replica.client();
        reader.send(b"XREAD BLOCK 0 STREAMS added $\r\n");
        wait_until(|| replica.info("blocked_clients") == "1");
        assert_eq!(primary.client().call("XADD added 7-7 f v"), "$3 7-7");
        assert_eq!(reader.reply(), "*1 *2 $5 added *1 *2 $3 7-7 *2 $1 f $1 v");
    });
}

#[test]
fn what_has_expired_is_hidden_on_a_replica_until_the_primary_deletes_it() {
    let Some(primary) = Node::start(Kind::Redis, &[]) else { return };
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let mut client = primary.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k v PX 1", "+OK"), ("SET l v PX 1", "+OK")]);
    let mut there = replica.client();
    wait_until(|| there.call("DBSIZE") == ":2" && there.call("GET k") == "$-1" && there.call("EXISTS l") == ":0");
    assert_eq!(
        (there.call("DBSIZE"), there.call("TTL k"), there.info("expired_keys")),
        (":2".into(), ":-2".into(), "0".into())
    );
    wait_until(|| client.call("GET k") == "$-1"); // redis-server expires a key one millisecond later
    wait_until(|| there.call("DBSIZE") == ":1");
    // As a primary it does that itself.
    there.expect(&[("REPLICAOF NO ONE", "+OK")]);
    wait_until(|| there.call("DBSIZE") == ":0");
    assert_eq!(there.info("expired_keys"), "1");
}

#[test]
fn a_replica_logs_in_to_its_primary_as_the_user_that_the_settings_name() {
    for kind in KINDS {
        let Some(primary) = Node::start(kind, &[("requirepass", "secret")]) else { return };
        let mut client = primary.client();
        client.expect(&[
            ("AUTH secret", "+OK"),
            ("ACL SETUSER copier on >word +psync +replconf +ping", "+OK"),
            ("SET k v", "+OK"),
        ]);
        let replica = Node::replica_of(&primary, &[("masterauth", "wrong")]);
        let mut there = replica.client();
        wait_until(|| ["connect", "connecting"].iter().any(|state| there.call("ROLE").contains(state)));
        assert_eq!(there.call("GET k"), "$-1");
        there.expect(&[("CONFIG SET masterauth word masteruser copier", "+OK")]);
        wait_until(|| there.call("GET k") == "$1 v");
        there.expect(&[("REPLICAOF NO ONE", "+OK"), ("CONFIG SET masterauth secret masteruser ", "+OK")]);
        client.call("SET k w");
        there.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.port()), "+OK")]);
        wait_until(|| there.call("GET k") == "$1 w");
    }
}

/// Returns the numbers of synchronisations of a primary.
fn syncs(node: &Node) -> [String; 2] {
    let mut client: Client = node.client();
    [client.info("sync_full"), client.info("sync_partial_ok")]
}

#[test]
fn a_restarted_replica_continues_from_its_append_only_file() {
    for kind in KINDS {
        let Some(primary) = Node::start(kind, &[]) else { return };
        fill(&mut primary.client());
        let of_primary = format!("127.0.0.1 {}", primary.port());
        let settings = [("replicaof", &*of_primary), ("appendonly", "yes")];
        let replica = Node::keylatch(&settings);
        replica.assert_same(&primary);
        wait_until(|| replica.info("aof_rewrite_in_progress") == "0");
        // In the middle of the stream, in another database than the first.
        primary.client().expect(&[("SELECT 11", "+OK"), ("RPUSH l a", ":1")]);
        replica.wait_for(&primary);
        assert!(replica.client().call("BGREWRITEAOF").starts_with("+Background"));
        wait_until(|| replica.info("aof_rewrite_in_progress") == "0" && replica.info("aof_rewrite_scheduled") == "0");
        let mut client = primary.client();
        client.expect(&[("SELECT 11", "+OK"), ("RPUSH l b", ":2")]);
        replica.wait_for(&primary);
        let dir = replica.stop();
        client.expect(&[("RPUSH l c", ":3")]);
        let replica = Node::start_in(dir, Kind::Keylatch, &settings).expect("keylatch");
        replica.assert_same(&primary);
        assert_eq!(syncs(&primary), ["1", "1"], "{kind:?}");
        client.expect(&[("RPUSH l d", ":4")]);
        replica.assert_same(&primary);
        // The file has everything, also for a start as a primary.
        let dir = replica.stop();
        let alone = Node::start_in(dir, Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
        assert_eq!(alone.client().call("DEBUG DIGEST"), primary.client().call("DEBUG DIGEST"));
    }
}

#[test]
fn replicas_of_a_restarted_primary_continue_where_they_were() {
    for settings in [&[("appendonly", "yes")][..], &[("appendonly", "no"), ("save", "3600 1")]] {
        let primary = Node::keylatch(settings);
        fill(&mut primary.client());
        let replicas = KINDS.map(|kind| {
            let replica = Node::start(kind, &[])?;
            replica.follow(&primary);
            replica.assert_same(&primary);
            Some(replica)
        });
        primary.client().expect(&[("SELECT 3", "+OK"), ("SET last write", "+OK")]);
        replicas.iter().flatten().for_each(|replica| replica.wait_for(&primary));
        assert_eq!(primary.client().call("SAVE"), "+OK");
        let dir = primary.stop();
        let primary = Node::start_in(dir, Kind::Keylatch, settings).expect("keylatch");
        for replica in replicas.iter().flatten() {
            replica.follow_again(&primary);
            replica.assert_same(&primary);
        }
        let count = replicas.iter().flatten().count().to_string();
        assert_eq!(syncs(&primary), ["0".into(), count], "{settings:?}");
        primary.client().expect(&[("SELECT 3", "+OK"), ("SET next write", "+OK")]);
        replicas.iter().flatten().for_each(|replica| replica.assert_same(&primary));
    }
}

#[test]
fn the_link_of_a_replica_is_a_client_that_is_a_master() {
    let primary = Node::keylatch(&[]);
    for kind in KINDS {
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.assert_same(&primary);
        primary.client().expect(&[("SELECT 6", "+OK"), ("SET k v", "+OK")]);
        let mut client = replica.client();
        wait_until(|| client.call("CLIENT LIST TYPE master").contains(" db=6 "));
        let field = |line: &str, name: &str| -> String {
            let found = line.split(' ').find_map(|field| field.strip_prefix(&format!("{name}=")));
            found.unwrap_or_else(|| panic!("{name} in {line}")).to_owned()
        };
        let line = client.call("CLIENT LIST TYPE master");
        assert_eq!(field(&line, "addr"), format!("127.0.0.1:{}", primary.port()), "{kind:?}");
        for (name, value) in [("flags", "M"), ("user", "(superuser)"), ("name", ""), ("sub", "0"), ("resp", "2")] {
            assert_eq!(field(&line, name), value, "{kind:?}: {line}");
        }
        let id = field(&line, "id");
        assert!(client.call("CLIENT LIST").contains(&format!("id={id} ")));
        assert!(client.call(&format!("CLIENT LIST ID {id}")).contains("flags=M"));
        assert!(!client.call("CLIENT LIST TYPE normal").contains("flags=M"));
        assert_eq!(client.info("connected_clients"), "2", "{kind:?}");
        // Once ended, it comes back.
        assert_eq!(client.call("CLIENT KILL USER default TYPE master"), ":0", "{kind:?}");
        for by in ["type", "id", "laddr"] {
            let line = client.call("CLIENT LIST TYPE master");
            let value = if by == "type" { "master".to_owned() } else { field(&line, by) };
            assert_eq!(client.call(&format!("CLIENT KILL {by} {value}")), ":1", "{kind:?}: {by}");
            let before = field(&line, "laddr");
            wait_until(|| {
                let line = client.call("CLIENT LIST TYPE master");
                line.contains("flags=M") && field(&line, "laddr") != before
            });
        }
        replica.assert_same(&primary);
        client.expect(&[("REPLICAOF NO ONE", "+OK")]);
        assert!(!client.call("CLIENT LIST").contains("flags=M"), "{kind:?}");
    }
    assert!(!primary.client().call("CLIENT LIST TYPE master").contains("id="));
}

#[test]
fn an_append_only_file_counts_as_begun_when_it_has_the_data_of_the_primary() {
    let (one, other) = (Node::keylatch(&[]), Node::keylatch(&[]));
    one.client().expect(&[("SET k one", "+OK")]);
    other.client().expect(&[("SET k other", "+OK")]);
    let replica = Node::keylatch(&[("appendonly", "yes")]);
    let mut client = replica.client();
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("CONFIG SET rdb-key-save-delay 1000000000", "+OK")]);
    replica.follow(&one);
    replica.assert_same(&one);
    // It would end together with the data.
    assert_eq!(client.info("aof_rewrite_in_progress"), "1");
    client.expect(&[("SHUTDOWN NOSAVE", "-ERR Errors trying to SHUTDOWN. Check logs.")]);
    wait_until(|| client.info("current_save_keys_total") == "1");
    // A rewrite that was dropped for the next data begins again at once.
    client.expect(&[("CONFIG SET rdb-key-save-delay 0", "+OK")]);
    replica.follow(&other);
    replica.assert_same(&other);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    let alone = Node::start_in(replica.stop(), Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
    assert_eq!(alone.client().call("GET k"), "$5 other");
}

#[test]
fn what_a_later_version_sends_is_passed_over_and_does_not_prevent_a_start_with_the_append_only_file() {
    use std::io::Write;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let replica = Node::keylatch(&[("appendonly", "yes")]);
    let mut client = replica.client();
    client.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", listener.local_addr().expect("an address").port()), "+OK")]);
    let mut empty = b"REDIS0010\xff".to_vec();
    empty.extend_from_slice(&[0; 8]); // no checksum
    let answer = format!("+FULLRESYNC {} 1000\r\n${}\r\n", "f".repeat(40), empty.len());
    let mut link = answer_replica(&listener, &[answer.as_bytes(), &empty].concat());
    wait_until(|| client.info("master_link_status") == "up" && client.info("aof_rewrite_in_progress") == "0");
    let commands: [&[&str]; 10] = [
        &["SELECT", "3"],
        &["SET", "before", "v"],
        &["MULTI"],
        &["SET", "within", "v"],
        &["SELECT", "5"],
        &["NEWEST", "k"],
        &["EXEC"],
        &["SET", "behind", "v"],
        &["NEWEST", "k"],
        &["SET", "last", "v"],
    ];
    let stream = commands.map(crate::harness::encode).concat();
    link.write_all(&stream).expect("it reads");
    wait_until(|| client.info("slave_repl_offset") == (1000 + stream.len()).to_string());
    wait_until(|| client.info("aof_rewrites") == "3" && client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("unexpected_error_replies"), "2");
    let alone = Node::start_in(replica.stop(), Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch");
    let mut client = alone.client();
    client.expect(&[("SELECT 3", "+OK"), ("GET before", "$1 v"), ("DBSIZE", ":1"), ("SELECT 5", "+OK")]);
    client.expect(&[("GET behind", "$1 v"), ("GET last", "$1 v"), ("DBSIZE", ":2")]);
}
