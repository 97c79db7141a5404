//! Vector sets in dumps, files and at replicas.

use keylatch::Clock;

use crate::append_only::copy_of_end;
use crate::files::{assert_same, dir, start_in};
use crate::harness::{Client, Dice, TestServer, wait_until};
use crate::vector_sets::redis_8::{FORMS, additions};

/// Fills a server with sets of every form; the large ones are written to files in parts.
fn fill(client: &mut Client) {
    let mut dice = Dice::new(9);
    for (at, form) in FORMS.iter().enumerate() {
        for (size, elements) in [("small", (3, 5)), ("large", (3000, 40))] {
            for request in additions(&format!("{size}:{at}"), form, elements, &mut dice) {
                client.call_args(&request);
            }
        }
    }
    client.expect(&[
        ("VADD reduced REDUCE 3 VALUES 6 1 2 3 4 5 6 a SETATTR {}", ":1"),
        ("VADD reduced REDUCE 3 VALUES 6 1 2 3 4 5 9 b", ":1"),
        ("VREM large:0 e7", ":1"),
        ("VADD small:0 VALUES 5 1 2 3 4 5 e1", ":0"),
        ("VSETATTR small:0 e2 x", ":1"),
        ("EXPIRE small:1 1000", ":1"),
    ]);
}

const KEYS: [&str; 4] = ["small:0", "large:1", "large:2", "reduced"];

#[test]
fn a_dump_is_restored_and_a_copy_is_equal_and_independent() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    fill(&mut client);
    for key in KEYS {
        let digest = client.call(&format!("DEBUG DIGEST-VALUE {key}"));
        let payload = client.frame(&["DUMP", key]).as_bytes().expect("a payload").to_vec();
        assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &payload]), "+OK");
        assert_eq!(client.call(&format!("COPY {key} copied")), ":1");
        for other in ["restored", "copied"] {
            assert_eq!(client.call(&format!("DEBUG DIGEST-VALUE {other}")), digest, "{key}");
            assert_eq!(client.call(&format!("VREM {other} e0")), client.call(&format!("VISMEMBER {key} e0")));
        }
        assert_eq!(client.call(&format!("DEBUG DIGEST-VALUE {key}")), digest, "{key}");
        assert_eq!(client.call("DEL restored copied"), ":2");
        // The next vector has the next number.
        assert_eq!(client.call("VADD reduced REDUCE 3 VALUES 6 1 2 3 4 5 6 a"), ":0");
    }
}

#[test]
fn sets_come_back_from_snapshots_and_from_every_kind_of_append_only_file() {
    for settings in [&[][..], &[("appendonly", "yes")], &[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]] {
        let dir = dir();
        let server = start_in(dir.path(), settings);
        let mut client = server.client();
        fill(&mut client);
        if settings.is_empty() {
            client.expect(&[("SAVE", "+OK"), ("DEBUG RELOAD", "+OK"), ("SAVE", "+OK")]);
        } else {
            let copy = copy_of_end(dir.path(), &server);
            assert_same(&server, &start_in(copy.path(), settings));
            client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
            wait_until(|| client.info("aof_rewrite_in_progress") == "0");
            assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
        }
        client.call("VADD small:0 VALUES 5 1 2 3 4 5 late");
        client.call("VREM large:1 e1");
        if settings.is_empty() {
            client.call("SAVE");
        }
        let before: Vec<String> = KEYS.iter().map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}"))).collect();
        let found = client.call("VSIM large:0 ELE e9 WITHSCORES COUNT 50");
        drop((client, server));
        let server = start_in(dir.path(), settings);
        let mut client = server.client();
        let after: Vec<String> = KEYS.iter().map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}"))).collect();
        assert_eq!(after, before, "{settings:?}");
        assert_eq!(client.call("VSIM large:0 ELE e9 WITHSCORES COUNT 50"), found);
        client.expect(&[("VISMEMBER small:0 late", ":1"), ("VISMEMBER large:1 e1", ":0"), ("TTL small:1", ":1000")]);
    }
}

#[test]
fn a_snapshot_has_large_sets_as_they_were_however_they_change_meanwhile() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    fill(&mut client);
    let before: Vec<String> = KEYS.iter().map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}"))).collect();
    assert_eq!(client.call("BGSAVE"), "+Background saving started");
    for at in 0..200 {
        client.call(&format!("VREM large:1 e{at}"));
        client.call(&format!("VADD large:2 VALUES 1 {at} new{at} BIN"));
        client.call(&format!("VSETATTR large:2 e{at} changed"));
    }
    client.call("DEL reduced");
    wait_until(|| client.info("rdb_bgsave_in_progress") == "0");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    let saved = dir.path().join("dump.rdb");
    let other = crate::files::dir();
    std::fs::copy(saved, other.path().join("dump.rdb")).expect("a file");
    let restored = start_in(other.path(), &[]);
    let mut client = restored.client();
    let after: Vec<String> = KEYS.iter().map(|key| client.call(&format!("DEBUG DIGEST-VALUE {key}"))).collect();
    assert_eq!(after, before);
}

#[test]
fn a_replica_has_the_same_sets_after_a_full_synchronisation_and_after_each_change() {
    let primary =
        TestServer::start_on(Clock::system(), &[("enable-debug-command", "yes"), ("repl-diskless-sync-delay", "0")]);
    let mut client = primary.client();
    fill(&mut client);
    let of = format!("127.0.0.1 {}", primary.addr().port());
    let replica = TestServer::start_on(Clock::system(), &[("replicaof", &*of), ("enable-debug-command", "yes")]);
    let mut other = replica.client();
    wait_until(|| other.info("master_link_status") == "up");
    client.expect(&[
        ("VADD small:0 VALUES 5 5 4 3 2 1 late CAS EF 10 SETATTR {}", ":1"),
        ("VADD small:0 VALUES 5 5 4 3 2 1 e1", ":0"),
        ("VREM small:0 e0", ":1"),
        ("VSETATTR large:3 e3 {}", ":1"),
        ("VADD reduced REDUCE 3 VALUES 6 6 5 4 3 2 1 c", ":1"),
        ("VADD new VALUES 1 1 a NOQUANT M 9", ":1"),
        ("WAIT 1 30000", ":1"),
    ]);
    assert_eq!(other.call("DEBUG DIGEST"), client.call("DEBUG DIGEST"));
    for request in ["VINFO new", "VEMB small:0 late RAW", "VSIM large:0 ELE e5 WITHSCORES", "VRANGE small:1 - +"] {
        let known = |reply: String| reply.split(" +vset-uid ").next().map(str::to_owned);
        assert_eq!(known(other.call(request)), known(client.call(request)), "{request}");
    }
    assert!(other.call("VADD new VALUES 1 1 b NOQUANT M 9").starts_with("-READONLY"));
}
