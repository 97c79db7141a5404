//! Locks and their records over a restart: from the append-only file, from snapshots, and at replicas.

use std::mem::ManuallyDrop;
use std::path::Path;

use super::{block, fence, locks_info};
use crate::files::{dir, start_at, start_in};
use crate::harness::{Client, TestServer, wait_until};

const LOG: &[(&str, &str)] = &[("appendonly", "yes"), ("session-grace-ms", "5000")];
const COMMANDS: &[(&str, &str)] =
    &[("appendonly", "yes"), ("aof-use-rdb-preamble", "no"), ("session-grace-ms", "5000")];
const SNAPSHOT: &[(&str, &str)] = &[("session-grace-ms", "5000")];

/// Makes clients hold locks of every kind; returns the output of LOCK.INFO for them.
fn hold_all(server: &TestServer, client: &mut Client) -> Vec<String> {
    fence(client, "LOCK.ACQUIRE exclusive mine PX 60000 META note NOTIFY");
    fence(client, "LOCK.ACQUIRE shared one SHARED PX 50000");
    server.advance_ms(1000);
    fence(client, "LOCK.ACQUIRE shared two SHARED PX 90000 META of-two");
    fence(client, "LOCK.ACQUIRE pool one PERMITS 2 OF 7 PX 50000");
    fence(client, "LOCK.ACQUIRE pool two PERMITS 1 PX 70000");
    fence(client, "LOCK.ACQUIRE pool three PERMITS 1 PX 20000");
    client.expect(&[("LOCK.RELEASE pool three", ":1"), ("LOCK.RESIZE pool 5", ":1"), ("SET plain token NX", "+OK")]);
    fence(client, "LOCK.RENEW pool one PX 40000");
    fence(client, "LOCK.FENCE plain token");
    fence(client, "LOCK.ACQUIRE released mine PX 60000");
    client.expect(&[("LOCK.RELEASE released mine", ":1")]);
    fence(client, "LOCK.ACQUIRE overwritten mine SHARED PX 60000");
    client.expect(&[("SET overwritten shared:", "+OK"), ("SELECT 3", "+OK")]);
    fence(client, "LOCK.ACQUIRE elsewhere mine PX 60000");
    client.expect(&[("SELECT 0", "+OK")]);
    described(client)
}

/// Returns the output of LOCK.INFO for the locks of [`hold_all`], without the clients and the times.
fn described(client: &mut Client) -> Vec<String> {
    let mut said = Vec::new();
    for (db, key) in [(0, "exclusive"), (0, "shared"), (0, "pool"), (0, "plain"), (0, "overwritten"), (3, "elsewhere")]
    {
        client.expect(&[(&format!("SELECT {db}"), "+OK")]);
        let info = client.call(&format!("LOCK.INFO {key}"));
        let words: Vec<&str> = info.split(' ').collect();
        let kept = ["token", "fence", "meta", "session", "mode", "permits", "free", "holders"];
        let mut shown = Vec::new();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| kept.contains(word)) {
            shown.push(format!("{word}={}", words[at + 1..].iter().take(2).copied().collect::<Vec<_>>().join(" ")));
        }
        said.push(format!("{key}: {}", shown.join(", ")));
    }
    client.expect(&[("SELECT 0", "+OK")]);
    said
}

/// Returns the TTLs of the holders of a lock in order.
fn ttls(client: &mut Client, key: &str) -> Vec<i64> {
    let info = client.call(&format!("LOCK.INFO {key}"));
    let words: Vec<&str> = info.split(' ').collect();
    let ttls = words.windows(2).filter(|pair| pair[0] == "pttl").map(|pair| pair[1].trim_start_matches(':'));
    ttls.skip(1).map(|ttl| ttl.parse().expect("a number")).collect()
}

/// Stops or kills a server, and starts another one with its files.
fn restart(dir: &Path, server: TestServer, settings: &[(&str, &str)]) -> TestServer {
    server.end();
    start_in(dir, settings)
}

#[test]
fn what_is_known_of_locks_is_there_after_a_restart() {
    for settings in [LOG, COMMANDS, SNAPSHOT] {
        for rewrites in [false, true] {
            let dir = dir();
            let server = start_in(dir.path(), settings);
            let mut client = server.client();
            let before = hold_all(&server, &mut client);
            let last = fence(&mut client, "LOCK.ACQUIRE last t PX 60000");
            let rewrite = if settings == SNAPSHOT { "SAVE" } else { "BGREWRITEAOF" };
            if rewrites || settings == SNAPSHOT {
                assert!(!client.call(rewrite).starts_with('-'));
                wait_until(|| client.info("aof_rewrite_in_progress") == "0");
            }
            let server = restart(dir.path(), server, settings);
            let mut client = server.client();
            assert_eq!(described(&mut client), before, "{settings:?}");
            for (key, expected) in [("shared", [49_000, 90_000]), ("pool", [40_000, 70_000])] {
                let ttls = ttls(&mut client, key);
                let is_close = |(ttl, expected): (&i64, i64)| (expected - 5000..=expected + 1000).contains(ttl);
                assert!(ttls.len() == 2 && ttls.iter().zip(expected).all(is_close), "{key}: {ttls:?}");
            }
            assert_eq!(locks_info(&mut client, "held"), 6);
            // They are held as before: each by its holder's token, and until its own deadline.
            client.expect(&[
                ("LOCK.ACQUIRE shared w PX 1000", "$-1"),
                ("LOCK.RELEASE shared two", ":1"),
                ("LOCK.RELEASE pool two", ":1"),
                ("LOCK.ACQUIRE pool four PERMITS 4 PX 1000", "$-1"),
                ("LOCK.RELEASE exclusive mine", ":1"),
                ("LOCK.FENCE overwritten shared:", "$-1"),
                ("LOCK.RELEASE overwritten shared:", ":0"),
            ]);
            let mut writer = block(&server, server.client(), "LOCK.ACQUIRE shared w PX 1000 BLOCK 0");
            server.advance_ms(50_000);
            assert!(super::acquired(&mut writer) > last, "fences go on");
            assert_eq!(client.call("EXISTS pool"), ":0");
        }
    }
}

#[test]
fn sessions_of_before_a_restart_last_for_the_grace_in_which_their_clients_may_resume() {
    for settings in [LOG, SNAPSHOT] {
        let dir = dir();
        let server = start_in(dir.path(), settings);
        let (mut one, mut other) = (server.client(), server.client());
        let first = fence(&mut one, "LOCK.ACQUIRE k t SESSION META note");
        fence(&mut one, "LOCK.ACQUIRE s t SHARED SESSION");
        fence(&mut one, "LOCK.ACQUIRE gone u SESSION");
        fence(&mut other, "LOCK.ACQUIRE lasting t PX 600000");
        assert!(!other.call("SAVE").starts_with('-'));
        let server = restart(dir.path(), server, settings);
        let (mut back, mut other) = (server.client(), server.client());
        let info = other.call("LOCK.INFO k");
        assert!(info.contains("client-id $-1 $4 addr $-1") && info.contains("session :1"), "{info}");
        let resumed = back.call("LOCK.RESUME t");
        assert!(resumed.starts_with("*3 ") && !resumed.contains("gone"), "{resumed}");
        assert_eq!(other.call("EXISTS k s gone lasting"), ":4");
        server.advance_ms(5000);
        assert_eq!(other.call("EXISTS k s gone lasting"), ":3");
        assert_eq!(fence(&mut other, "LOCK.FENCE k t"), first);
        drop(back);
        wait_until(|| other.call("LOCK.INFO k").contains("client-id $-1"));
        server.advance_ms(5000);
        assert_eq!(other.call("EXISTS k s gone lasting"), ":1");
    }
}

#[test]
fn without_a_grace_sessions_end_at_the_start() {
    let dir = dir();
    let server = start_in(dir.path(), &[("appendonly", "yes")]);
    let mut one = server.client();
    fence(&mut one, "LOCK.ACQUIRE k t SESSION");
    fence(&mut one, "LOCK.ACQUIRE s t SHARED SESSION PX 600000");
    fence(&mut one, "LOCK.ACQUIRE s u SHARED PX 300000");
    let _still_there = one;
    let copy = crate::append_only::copy_of_end(dir.path(), &server);
    let again = start_in(copy.path(), &[("appendonly", "yes")]);
    let mut client = again.client();
    client.expect(&[("EXISTS k", ":0"), ("LOCK.FENCE s t", "$-1")]);
    let ttl = client.int("PTTL s");
    assert!((290_000..=300_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_replica_knows_of_locks_what_its_primary_does_and_ends_their_sessions_when_it_is_promoted() {
    let settings = [("repl-diskless-sync-delay", "0"), ("session-grace-ms", "5000")];
    let (primary, replica) = (TestServer::start_with(&settings), TestServer::start_with(&settings));
    let (mut client, mut there) = (primary.client(), replica.client());
    fence(&mut client, "LOCK.ACQUIRE early t PX 600000 META by-all-data");
    let follow = format!("REPLICAOF 127.0.0.1 {}", primary.addr().port());
    there.expect(&[(&follow, "+OK")]);
    wait_until(|| there.info("master_link_status") == "up");
    let before = hold_all(&primary, &mut client);
    fence(&mut client, "LOCK.ACQUIRE k t SESSION");
    let mut session = primary.client();
    fence(&mut session, "LOCK.ACQUIRE s t SHARED SESSION");
    fence(&mut client, "LOCK.ACQUIRE s u SHARED PX 600000");
    client.expect(&[("WAIT 1 0", ":1")]);
    assert_eq!(described(&mut there), before);
    assert!(there.call("LOCK.INFO early").contains("by-all-data"));
    assert_eq!(there.call("PTTL s"), ":-1");
    // The end of a session at the primary, with a lock that others hold, too.
    assert_eq!(session.call("QUIT"), "+OK");
    wait_until(|| there.int("PTTL s") > 0);
    there.expect(&[("REPLICAOF NO ONE", "+OK"), ("EXISTS k", ":1"), ("LOCK.RELEASE shared two", ":1")]);
    assert!(there.call("LOCK.RESUME nobody").starts_with("*0"));
    replica.advance_ms(5000);
    there.expect(&[("EXISTS k", ":0"), ("LOCK.RELEASE early t", ":1")]);
}

#[test]
fn without_a_grace_a_replica_that_is_promoted_ends_the_sessions_of_its_primary() {
    let settings = [("repl-diskless-sync-delay", "0")];
    // A server that waits for itself cannot be stopped either.
    let (primary, replica) = (TestServer::start_with(&settings), ManuallyDrop::new(TestServer::start_with(&settings)));
    let (mut client, mut there) = (primary.client(), replica.client());
    there.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", primary.addr().port()), "+OK")]);
    wait_until(|| there.info("master_link_status") == "up");
    fence(&mut client, "LOCK.ACQUIRE k t SESSION");
    fence(&mut client, "LOCK.ACQUIRE lasting t PX 600000");
    client.expect(&[("WAIT 1 0", ":1")]);
    there.expect(&[("EXISTS k", ":1"), ("REPLICAOF NO ONE", "+OK")]);
    let replica = ManuallyDrop::into_inner(replica);
    replica.advance_ms(1);
    there.expect(&[("EXISTS k", ":0"), ("EXISTS lasting", ":1")]);
}

#[test]
fn how_long_a_lock_has_been_held_counts_from_before_the_restart() {
    for settings in [LOG, SNAPSHOT] {
        let dir = dir();
        let server = start_in(dir.path(), settings);
        let mut client = server.client();
        fence(&mut client, "LOCK.ACQUIRE k t PX 600000");
        fence(&mut client, "LOCK.ACQUIRE s t SHARED PX 600000");
        server.advance_ms(3000);
        assert!(!client.call("SAVE").starts_with('-'));
        server.end();
        let server = start_at(dir.path(), 5000, settings);
        server.advance_ms(1000);
        let mut client = server.client();
        for key in ["k", "s"] {
            let info = client.call(&format!("LOCK.INFO {key}"));
            assert_eq!(info.matches(" age-ms :6000 ").count(), 2, "of the lock and of its holder: {info}");
        }
    }
}

#[test]
fn a_lock_that_was_taken_by_another_command_is_still_nobodys_after_a_restart() {
    let dir = dir();
    let server = start_in(dir.path(), LOG);
    let mut client = server.client();
    client.expect(&[("SET plain t NX", "+OK")]);
    fence(&mut client, "LOCK.FENCE plain t");
    let server = restart(dir.path(), server, LOG);
    let mut one = server.client();
    fence(&mut one, "LOCK.ACQUIRE k u SESSION");
    let _same_token = block(&server, server.client(), "LOCK.ACQUIRE k t PX 1000 BLOCK 0");
    // Any client may delete it, so this is no cycle.
    let _waits = block(&server, one, "LOCK.ACQUIRE plain u PX 1000 BLOCK 0");
}

#[test]
fn a_lock_that_is_taken_back_because_replicas_do_not_have_it_is_not_there_after_a_restart() {
    let dir = dir();
    let server = start_in(dir.path(), LOG);
    let mut client = server.client();
    for mode in ["", " SHARED", " PERMITS 1 OF 2"] {
        let request = format!("LOCK.ACQUIRE k t{mode} PX 60000 BLOCK 10 REPLICAS 1");
        let mut holder = server.block(&request);
        server.advance_ms(10);
        assert_eq!(holder.reply(), "$-1", "{mode}");
        assert_eq!(client.call("EXISTS k"), ":0", "{mode}");
        let copy = crate::append_only::copy_of_end(dir.path(), &server);
        let again = start_in(copy.path(), LOG);
        assert_eq!(again.client().call("EXISTS k"), ":0", "{mode}");
    }
}
