//! Changes of a lock's mode by its holder: from exclusive to shared, and from shared to exclusive.

use super::{acquired, block, fence, locks_info, wait_for};
use crate::harness::{Client, TestServer};

/// Queues a new client that changes a lock it shares to an exclusive one.
fn upgrades(server: &TestServer, token: &str) -> Client {
    block(server, server.client(), &format!("LOCK.ACQUIRE k {token} CONVERT PX 1000 BLOCK 0"))
}

#[test]
fn an_exclusive_lock_becomes_a_shared_one_in_one_step_and_the_readers_first_in_the_queue_get_it() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client3(), server.client());
    let alone = fence(&mut one, "LOCK.ACQUIRE k t PX 60000 NOTIFY META text");
    let reader =
        |token: &str| block(&server, server.client(), &format!("LOCK.ACQUIRE k {token} SHARED PX 1000 BLOCK 0"));
    let (mut first, mut second) = (reader("r1"), reader("r2"));
    let mut writer = wait_for(&server, "w");
    let mut third = reader("r3");
    server.advance_ms(10);
    let shared = fence(&mut one, "LOCK.ACQUIRE k t SHARED CONVERT SESSION");
    assert!(shared > alone);
    assert_eq!((acquired(&mut first), acquired(&mut second)), (shared, shared));
    other.expect(&[("GET k", "$7 shared:"), ("PTTL k", ":59990"), ("LOCK.FENCE k w", "$-1")]);
    let info = other.call("LOCK.INFO k");
    assert!(info.contains("$4 meta $4 text") && info.contains("$6 age-ms :10 "), "{info}");
    // A retry after a lost reply.
    assert_eq!(fence(&mut one, "LOCK.ACQUIRE k t CONVERT SHARED PX 60000"), shared);
    assert_eq!(locks_info(&mut other, "waiting"), 2);
    other.expect(&[("LOCK.RELEASE k r1", ":1"), ("LOCK.RELEASE k r2", ":1"), ("DEL k", ":1")]);
    assert_eq!(one.reply(), format!(">5 $9 lock-lost $1 k $1 t :{shared} $7 deleted"), "of this loss alone");
    assert!(acquired(&mut writer) > shared);
    other.expect(&[("LOCK.RELEASE k w", ":1")]);
    acquired(&mut third);
}

#[test]
fn the_only_reader_of_a_lock_gets_it_alone_and_keeps_its_ttl() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let shared = fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 60000 META text");
    fence(&mut other, "LOCK.ACQUIRE k r SHARED PX 90000");
    one.expect(&[("LOCK.ACQUIRE k t CONVERT PX 1000", "$-1"), ("GET k", "$7 shared:")]);
    other.expect(&[
        ("LOCK.RELEASE k r", ":1"),
        ("LOCK.ACQUIRE k t PX 1000", "-ERR token holds this lock in another mode"),
    ]);
    let alone = fence(&mut one, "LOCK.ACQUIRE k t CONVERT SESSION");
    assert!(alone > shared);
    other.expect(&[("GET k", "$1 t"), ("PTTL k", ":60000"), ("LOCK.ACQUIRE k r SHARED PX 1000", "$-1")]);
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k t CONVERT PX 5000"), alone, "a retry after a lost reply");
    other.expect(&[("PTTL k", ":5000")]);
    drop(one);
    crate::harness::wait_until(|| other.call("EXISTS k") == ":0");
}

#[test]
fn a_reader_that_is_to_have_the_lock_alone_comes_before_clients_that_are_queued_already() {
    let server = TestServer::start();
    let mut one = server.client();
    let shared = fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 60000");
    fence(&mut one, "LOCK.ACQUIRE k r SHARED PX 60000");
    let mut writer = wait_for(&server, "w");
    let mut upgraded = upgrades(&server, "t");
    let mut same = upgrades(&server, "t");
    let mut reader = block(&server, server.client(), "LOCK.ACQUIRE k late SHARED PX 1000 BLOCK 0");
    let info = one.call("LOCK.INFO k");
    let modes: Vec<&str> = info.split("$4 mode ").skip(1).filter_map(|rest| rest.split(' ').nth(1)).collect();
    assert_eq!(modes, ["shared", "upgrade", "upgrade", "exclusive", "shared"], "{info}");
    one.expect(&[("LOCK.ACQUIRE k now SHARED PX 1000", "$-1"), ("LOCK.RELEASE k r", ":1")]);
    let alone = acquired(&mut upgraded);
    assert!(alone > shared);
    assert_eq!(acquired(&mut same), alone, "with the same token");
    one.expect(&[("GET k", "$1 t"), ("PTTL k", ":1000"), ("LOCK.RELEASE k t", ":1")]);
    assert!(acquired(&mut writer) > alone);
    one.expect(&[("LOCK.RELEASE k w", ":1")]);
    acquired(&mut reader);
}

#[test]
fn others_are_served_when_a_reader_gives_up_having_the_lock_alone() {
    let server = TestServer::start();
    let mut one = server.client();
    let shared = fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 60000");
    fence(&mut one, "LOCK.ACQUIRE k r SHARED PX 60000");
    let mut upgrade = block(&server, server.client(), "LOCK.ACQUIRE k t CONVERT PX 1000 BLOCK 500");
    let mut late = block(&server, server.client(), "LOCK.ACQUIRE k late SHARED PX 60000 BLOCK 0");
    server.advance_ms(500);
    assert_eq!(upgrade.reply(), "$-1");
    assert_eq!(acquired(&mut late), shared);
    assert_eq!(fence(&mut one, "LOCK.FENCE k t"), shared, "it goes on to share it");
    drop(upgrades(&server, "t"));
    assert_eq!(fence(&mut one, "LOCK.FENCE k t"), shared);
}

#[test]
fn of_two_readers_that_are_to_have_the_lock_alone_the_second_one_is_in_a_deadlock() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.client(), server.client());
    let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
    fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 60000");
    fence(&mut two, "LOCK.ACQUIRE k u SHARED PX 60000");
    let mut one = block(&server, one, "LOCK.ACQUIRE k t CONVERT PX 60000 BLOCK 0");
    assert_eq!(
        two.call("LOCK.ACQUIRE k u CONVERT PX 60000 BLOCK 0"),
        format!("-DEADLOCK k held by client {first} waits for k held by client {second}")
    );
    two.expect(&[("LOCK.ACQUIRE k u CONVERT PX 60000", "$-1"), ("LOCK.RELEASE k u", ":1")]);
    acquired(&mut one);
}

#[test]
fn whoever_waits_to_have_a_lock_alone_is_refused_when_its_share_is_lost() {
    let server = TestServer::start();
    let mut one = server.client();
    for (loss, is_free) in
        [("PEXPIRE k 1", true), ("DEL k", true), ("SET k x", false), ("LOCK.RELEASE k t", true), ("FLUSHALL", true)]
    {
        fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 60000");
        fence(&mut one, "LOCK.ACQUIRE k r SHARED PX 60000");
        let mut upgrade = upgrades(&server, "t");
        let mut next = wait_for(&server, "next");
        one.call(loss);
        server.advance_ms(1);
        assert_eq!(upgrade.reply(), "$-1", "{loss}");
        if !is_free {
            one.expect(&[("DEL k", ":1")]);
        } else if loss.contains("RELEASE") {
            one.expect(&[("LOCK.RELEASE k r", ":1")]);
        }
        acquired(&mut next);
        one.expect(&[("DEL k", ":1")]);
    }
}

#[test]
fn only_a_holder_of_an_exclusive_or_a_shared_lock_changes_its_mode() {
    const OTHER: &str = "-ERR token holds this lock in another mode";
    let server = TestServer::start();
    let mut one = server.client();
    one.expect(&[
        ("LOCK.ACQUIRE k t CONVERT PX 1000", "$-1"),
        ("LOCK.ACQUIRE k t CONVERT PX 1000 BLOCK 0", "$-1"),
        ("LOCK.ACQUIRE k t CONVERT SHARED PX 1000", "$-1"),
        ("EXISTS k", ":0"),
        ("LOCK.ACQUIRE k t CONVERT", "-ERR LOCK.ACQUIRE needs PX or SESSION"),
        ("LOCK.ACQUIRE k t CONVERT CONVERT PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k t PERMITS 1 OF 2 CONVERT PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k t CONVERT REPLICAS 0 PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 1 k t CONVERT PX 1", "-ERR syntax error"),
        ("SET k other", "+OK"),
        ("LOCK.ACQUIRE k t CONVERT PX 1000", "$-1"),
        ("LOCK.ACQUIRE k t CONVERT SHARED PX 1000", "$-1"),
        ("LPUSH list x", ":1"),
        ("LOCK.ACQUIRE list t CONVERT PX 1000", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("DEL k", ":1"),
    ]);
    fence(&mut one, "LOCK.ACQUIRE k r SHARED PX 60000");
    one.expect(&[("LOCK.ACQUIRE k t CONVERT PX 1000", "$-1"), ("LOCK.ACQUIRE k t CONVERT SHARED PX 1000", "$-1")]);
    fence(&mut one, "LOCK.ACQUIRE pool t PERMITS 1 OF 2 PX 60000");
    one.expect(&[
        ("LOCK.ACQUIRE pool t CONVERT PX 1000", OTHER),
        ("LOCK.ACQUIRE pool t CONVERT SHARED PX 1000", OTHER),
        ("LOCK.ACQUIRE pool other CONVERT PX 1000", "$-1"),
        ("SET plain t PX 5000", "+OK"),
    ]);
    // A plain lock is an exclusive one.
    let shared = fence(&mut one, "LOCK.ACQUIRE plain t CONVERT SHARED SESSION");
    assert_eq!(fence(&mut one, "LOCK.ACQUIRE plain r SHARED PX 1000"), shared);
    one.expect(&[("PTTL plain", ":5000"), ("MULTI", "+OK")]);
    one.expect(&[("LOCK.ACQUIRE plain t CONVERT PX 1000 BLOCK 0", "+QUEUED"), ("EXEC", "*1 $-1")]);
}
