//! Replicas that lack more than the backlog has: they continue with the append-only file, if there is one.

use super::nodes::{Kind, Node};
use super::parties::{Primary, RawReplica};
use crate::harness::{Client, wait_until};

/// Settings of a primary with an append-only file and the shortest backlog.
const SETTINGS: [(&str, &str); 2] = [("appendonly", "yes"), ("repl-backlog-size", "16kb")];

/// Returns the numbers of full, partial and refused partial synchronisations.
fn syncs(client: &mut Client) -> [String; 3] {
    ["sync_full", "sync_partial_ok", "sync_partial_err"].map(|field| client.info(field))
}

/// Writes more than the backlog can have; the log retains the part that is not in the file.
fn write_much(client: &mut Client, name: &str) {
    client.pipeline(&(0..6000).map(|n| format!("SET {name}:{n} {n}")).collect::<Vec<_>>());
    client.call("WAITAOF 1 0 0");
}

/// Returns the only incremental file of a server's append-only file.
fn increment(dir: &std::path::Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(dir.join("appendonlydir")).expect("a directory");
    let paths = files.map(|file| file.expect("a file").path());
    let mut increments = paths.filter(|path| path.to_str().is_some_and(|name| name.ends_with(".incr.aof")));
    increments.next().expect("an increment")
}

/// Runs a test with a primary that has an append-only file, and a replica of either kind that has all data and cannot
/// read.
fn with_replica_behind(settings: &[(&str, &str)], test: impl Fn(&Node, &Node)) {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[&SETTINGS[..], settings].concat());
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.assert_same(&primary);
        replica.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
        wait_until(|| primary.info("connected_slaves") == "0");
        primary.client().expect(&[("CONFIG RESETSTAT", "+OK")]);
        write_much(&mut primary.client(), "missed");
        test(&primary, &replica);
    }
}

#[test]
fn a_replica_that_lacks_more_than_the_backlog_has_gets_it_from_the_append_only_file() {
    with_replica_behind(&[], |primary, replica| {
        let mut client = primary.client();
        client.expect(&[("SELECT 3", "+OK"), ("SET there v", "+OK"), ("MULTI", "+OK"), ("SET a 1", "+QUEUED")]);
        client.expect(&[("SET b 2", "+QUEUED"), ("EXEC", "*2 +OK +OK")]);
        replica.follow(primary);
        replica.assert_same(primary);
        assert_eq!(syncs(&mut client), ["0", "1", "0"]);
        client.call("SET then v");
        assert_eq!(client.call("WAIT 1 0"), ":1");
        assert_eq!(replica.client().info("slave_repl_offset"), client.info("master_repl_offset"));
    });
}

#[test]
fn what_the_file_has_is_sent_byte_by_byte_and_the_place_of_messages_is_filled() {
    let primary = Primary::start(&SETTINGS);
    let (mut raw, mut client) = (RawReplica::synchronized(primary.addr()), primary.client());
    client.call("SET first v");
    assert_eq!((raw.change(), raw.change()), ("select 0".into(), "set first v".into()));
    let (id, mut offset) = (raw.id.clone(), raw.offset);
    let mut live = Vec::new();
    for n in 0..200 {
        // An empty message on a channel with one letter is the shortest, and has a length that no PING has.
        let message = "m".repeat(n % 11);
        client.expect(&[("PUBLISH c ", ":0"), (&format!("PUBLISH news {message}"), ":0")]);
        client.expect(&[(&format!("SET k{n} {}", "x".repeat(800)), "+OK"), ("WAIT 2 1", ":0")]);
        if n == 100 {
            client.expect(&[
                ("MULTI", "+OK"),
                ("SET a 1", "+QUEUED"),
                ("PUBLISH c m", "+QUEUED"),
                ("SET b 2", "+QUEUED"),
            ]);
            client.expect(&[("EXEC", "*3 +OK :0 +OK")]);
        }
    }
    client.expect(&[("SET last v", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    while live.last().is_none_or(|command| command != "set last v") {
        live.push(raw.command());
    }
    assert!(primary.info("repl_backlog_first_byte_offset").parse::<u64>().expect("an offset") > offset + 1);
    let mut late = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(late.resume(&id, offset), format!("+CONTINUE {id}"));
    late.offset = offset;
    let own = |command: &String| {
        ["ping", "replconf getack", "publish", "exists"].iter().all(|word| !command.starts_with(word))
    };
    let mut sent = Vec::new();
    while sent.last().is_none_or(|command| command != "set last v") {
        sent.push(late.command());
    }
    assert_eq!(late.offset, raw.offset, "positions are the same");
    let kept = |commands: Vec<String>| commands.into_iter().filter(own).collect::<Vec<_>>();
    assert_eq!(kept(sent), kept(live));
    // Also from each position in between.
    for _ in 0..20 {
        raw = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
        assert_eq!(raw.resume(&id, offset), format!("+CONTINUE {id}"));
        raw.offset = offset;
        (0..13).for_each(|_| _ = raw.command());
        offset = raw.offset;
        drop(raw);
    }
    assert_eq!(syncs(&mut client), ["1", "21", "0"]);
}

#[test]
fn a_primary_that_was_started_again_sends_what_was_written_before() {
    with_replica_behind(&[], |_, _| {}); // both kinds can be started
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&SETTINGS);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.assert_same(&primary);
        replica.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
        write_much(&mut primary.client(), "before");
        let primary = Node::start_in(primary.stop(), Kind::Keylatch, &SETTINGS).expect("keylatch");
        write_much(&mut primary.client(), "after");
        replica.follow_again(&primary);
        replica.assert_same(&primary);
        assert_eq!(syncs(&mut primary.client()), ["0", "1", "0"]);
    }
}

#[test]
fn a_replica_that_has_an_append_only_file_sends_it_to_its_own_replicas() {
    let primary = Node::keylatch(&[]);
    let middle = Node::replica_of(&primary, &SETTINGS);
    let last = Node::replica_of(&middle, &[]);
    last.wait_for(&middle);
    wait_until(|| middle.info("aof_rewrite_in_progress") == "0" && middle.info("aof_rewrite_scheduled") == "0");
    last.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    primary.client().call("PUBLISH news m");
    primary.client().pipeline(&(0..6000).map(|n| format!("SET missed:{n} {n}")).collect::<Vec<_>>());
    middle.wait_for(&primary);
    middle.client().call("WAITAOF 1 0 0");
    let before = syncs(&mut middle.client());
    last.follow(&middle);
    last.assert_same(&middle);
    let [full, partial, refused] = syncs(&mut middle.client());
    assert_eq!((full, refused), (before[0].clone(), before[2].clone()));
    assert_eq!(partial.parse(), before[1].parse::<u64>().map(|count| count + 1));
}

#[test]
fn all_data_is_sent_where_the_file_has_not_all_that_is_missing() {
    // A rewrite has removed it.
    with_replica_behind(&[], |primary, replica| {
        let mut client = primary.client();
        client.call("BGREWRITEAOF");
        wait_until(|| client.info("aof_rewrites") == "1" && client.info("aof_rewrite_in_progress") == "0");
        write_much(&mut client, "after");
        replica.follow(primary);
        replica.assert_same(primary);
        assert_eq!(syncs(&mut client), ["1", "0", "1"]);
    });
    // The file does not contain positions.
    with_replica_behind(&[("aof-checksum", "no")], |primary, replica| {
        replica.follow(primary);
        replica.assert_same(primary);
        assert_eq!(syncs(&mut primary.client()), ["1", "0", "1"]);
    });
}

#[test]
fn a_file_that_is_damaged_in_between_is_not_sent() {
    with_replica_behind(&[], |primary, replica| {
        let mut client = primary.client();
        client.call("WAITAOF 1 0 0");
        let path = increment(primary.dir.path());
        let mut bytes = std::fs::read(&path).expect("a file");
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        replica.follow(primary);
        replica.assert_same(primary);
        assert_eq!(syncs(&mut client), ["1", "0", "1"]);
    });
}

#[test]
fn a_replica_that_read_on_from_the_file_knows_which_fences_were_given() {
    let primary = Node::keylatch(&SETTINGS);
    let replica = Node::replica_of(&primary, &[]);
    replica.assert_same(&primary);
    replica.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    wait_until(|| primary.info("connected_slaves") == "0");
    let mut client = primary.client();
    let fence = client.int("LOCK.ACQUIRE k mine PX 60000");
    client.expect(&[("LOCK.RELEASE k mine", ":1")]);
    write_much(&mut client, "missed");
    replica.follow(&primary);
    replica.assert_same(&primary);
    assert_eq!(syncs(&mut client), ["1", "1", "0"]);
    let mut client = replica.client();
    client.expect(&[("REPLICAOF NO ONE", "+OK")]);
    assert!(client.int("LOCK.ACQUIRE k other PX 60000") > fence);
}
