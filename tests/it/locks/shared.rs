//! Shared locks: readers together, a writer alone, in order of arrival.

use keylatch::internals::resp::Frame;

use super::{acquired, block, fence, locks_info};
use crate::harness::{Client, TestServer};

/// Queues a new client for lock `k`, with a token and options.
fn wait_for(server: &TestServer, token: &str, options: &str) -> Client {
    block(server, server.client(), &format!("LOCK.ACQUIRE k {token} {options} PX 60000 BLOCK 0"))
}

#[test]
fn readers_hold_a_lock_together_with_one_fence_and_a_writer_alone() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let before = fence(&mut one, "LOCK.ACQUIRE k w PX 1000");
    other.expect(&[("LOCK.ACQUIRE k r SHARED PX 1000", "$-1"), ("LOCK.RELEASE k w", ":1")]);
    let period = fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 1000");
    assert!(period > before);
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k r2 PX 3000 shared"), period);
    assert_eq!(fence(&mut other, "LOCK.FENCE k r1"), period);
    other.expect(&[
        ("GET k", "$7 shared:"),
        ("PTTL k", ":3000"),
        ("SET k x NX", "$-1"),
        ("SETNX k x", ":0"),
        ("LOCK.ACQUIRE k w PX 1000", "$-1"),
        ("LOCK.FENCE k shared:", "$-1"),
        ("LOCK.RELEASE k shared:", ":0"),
        ("LOCK.RENEW k shared: PX 1", "$-1"),
        ("LOCK.RELEASE k r2", ":1"),
        ("LOCK.RELEASE k r2", ":0"),
        ("PTTL k", ":1000"),
        ("LOCK.RELEASE k r1", ":1"),
        ("EXISTS k", ":0"),
    ]);
    assert!(fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 1000") > period, "a period without holders is over");
    assert_eq!(locks_info(&mut other, "acquired_total"), 4);
}

#[test]
fn each_reader_has_a_deadline_of_its_own_and_the_key_that_of_the_last() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 1000");
    fence(&mut one, "LOCK.ACQUIRE k r2 SHARED PX 2000");
    assert_eq!(locks_info(&mut other, "held"), 1, "one lock, of two holders");
    server.advance_ms(999);
    fence(&mut other, "LOCK.FENCE k r1");
    server.advance_ms(1);
    other.expect(&[("LOCK.FENCE k r1", "$-1"), ("PTTL k", ":1000")]);
    assert_eq!(locks_info(&mut other, "held"), 1);
    assert_eq!(locks_info(&mut other, "expired_while_held_total"), 1);
    fence(&mut other, "LOCK.ACQUIRE k r3 SHARED SESSION");
    other.expect(&[("PTTL k", ":-1"), ("LOCK.RENEW k none PX 5", "$-1")]);
    fence(&mut other, "LOCK.RENEW k r2 PX 5");
    server.advance_ms(5);
    other.expect(&[("LOCK.FENCE k r2", "$-1"), ("PTTL k", ":-1"), ("EXISTS k", ":1")]);
    fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 700");
    assert_eq!(other.call("RESET"), "+RESET");
    assert_eq!(other.call("PTTL k"), ":700");
    server.advance_ms(700);
    assert_eq!(other.call("EXISTS k"), ":0");
    assert_eq!(locks_info(&mut other, "held"), 0);
}

#[test]
fn acquiring_again_without_px_leaves_the_deadline_of_a_holder_as_it_is() {
    let server = TestServer::start();
    let mut client = server.client();
    for mode in ["SHARED", "PERMITS 1 OF 2"] {
        let first = fence(&mut client, &format!("LOCK.ACQUIRE k t {mode} PX 1000"));
        assert_eq!(fence(&mut client, &format!("LOCK.ACQUIRE k t {mode} SESSION")), first);
        assert_eq!(client.call("PTTL k"), ":1000");
        server.advance_ms(1000);
        assert_eq!(client.call("EXISTS k"), ":0");
    }
}

#[test]
fn a_writer_that_waits_is_not_overtaken_by_readers_that_come_later() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 60000");
    let mut writer = wait_for(&server, "w", "");
    let (mut two, mut three) = (wait_for(&server, "r2", "SHARED"), wait_for(&server, "r3", "SHARED"));
    let mut late = wait_for(&server, "w2", "");
    let mut last = wait_for(&server, "r4", "SHARED");
    other.expect(&[("LOCK.ACQUIRE k r5 SHARED PX 1000", "$-1"), ("LOCK.RELEASE k r1", ":1")]);
    let written = acquired(&mut writer);
    assert_eq!(other.call("LOCK.RELEASE k w"), ":1");
    let period = acquired(&mut two);
    assert_eq!(acquired(&mut three), period, "readers next to each other are served together");
    assert!(period > written);
    assert_eq!(locks_info(&mut other, "waiting"), 2);
    other.expect(&[("LOCK.RELEASE k r2", ":1"), ("LOCK.RELEASE k r3", ":1")]);
    acquired(&mut late);
    assert_eq!(other.call("LOCK.RELEASE k w2"), ":1");
    acquired(&mut last);
}

#[test]
fn readers_behind_a_writer_are_served_when_it_gives_up() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let period = fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 60000");
    let mut writer = block(&server, server.client(), "LOCK.ACQUIRE k w PX 1000 BLOCK 500");
    let mut two = wait_for(&server, "r2", "SHARED");
    server.advance_ms(500);
    assert_eq!(writer.reply(), "$-1");
    assert_eq!(acquired(&mut two), period);
    // The same if it disconnects, or is unblocked.
    let writer = wait_for(&server, "w", "");
    let mut three = wait_for(&server, "r3", "SHARED");
    drop(writer);
    assert_eq!(acquired(&mut three), period);
    let mut writer = server.client();
    let id = writer.int("CLIENT ID");
    let mut writer = block(&server, writer, "LOCK.ACQUIRE k w PX 1000 BLOCK 0");
    let mut four = wait_for(&server, "r4", "SHARED");
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), ":1");
    assert_eq!((writer.reply().as_str(), acquired(&mut four)), ("$-1", period));
}

#[test]
fn a_writer_is_served_when_the_last_reader_has_expired() {
    let server = TestServer::start();
    let mut one = server.client();
    fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 1000");
    fence(&mut one, "LOCK.ACQUIRE k r2 SHARED PX 2000");
    let mut writer = wait_for(&server, "w", "");
    server.advance_ms(1000);
    assert_eq!(locks_info(&mut one, "waiting"), 1);
    server.advance_ms(1000);
    acquired(&mut writer);
    assert_eq!(one.call("GET k"), "$1 w");
}

#[test]
fn a_token_holds_a_lock_in_one_mode() {
    const OTHER: &str = "-ERR token holds this lock in another mode";
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let period = fence(&mut one, "LOCK.ACQUIRE k t SHARED PX 1000");
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k t SHARED PX 5000 META again"), period);
    other.expect(&[
        ("PTTL k", ":5000"),
        ("LOCK.ACQUIRE k t PX 1000", OTHER),
        ("LOCK.ACQUIRE k t PX 1000 BLOCK 0", OTHER),
        ("LOCK.ACQUIRE k t PERMITS 1 OF 2 PX 1000", OTHER),
        ("LOCK.ACQUIREMULTI 2 k l t PX 1000", OTHER),
        ("EXISTS l", ":0"),
        ("SET plain t", "+OK"),
        ("LOCK.ACQUIRE plain t SHARED PX 1000", OTHER),
        ("LOCK.ACQUIRE k shared:x PX 1000", "-ERR a token cannot begin with 'shared:' or 'permits:'"),
        ("LOCK.ACQUIRE k permits: PX 1000", "-ERR a token cannot begin with 'shared:' or 'permits:'"),
        ("LOCK.ACQUIRE k u SHARED SHARED PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k u SHARED PERMITS 1 OF 1 PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k u SHARED OF 1 PX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k u SHARED", "-ERR LOCK.ACQUIRE needs PX or SESSION"),
    ]);
    // A waiter in another mode with the token of a new holder gets an error then.
    let mut writer = wait_for(&server, "w", "");
    let (mut reader, mut alone) = (wait_for(&server, "x", "SHARED"), wait_for(&server, "x", ""));
    let mut same = wait_for(&server, "x", "SHARED");
    other.call("LOCK.RELEASE k t");
    acquired(&mut writer);
    other.call("LOCK.RELEASE k w");
    assert_eq!((acquired(&mut reader), alone.reply().as_str()), (acquired(&mut same), OTHER));
    assert_eq!(locks_info(&mut other, "held"), 1);
}

#[test]
fn ordinary_commands_on_a_shared_lock_are_safe() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client3(), server.client());
    let acquire = |client: &mut Client| {
        client.int("LOCK.ACQUIRE k r1 SHARED NOTIFY PX 1000");
        client.int("LOCK.ACQUIRE k r2 SHARED PX 2000")
    };
    // A new deadline applies to each holder.
    acquire(&mut one);
    other.expect(&[("PEXPIRE k 5000", ":1"), ("LOCK.RELEASE k r1", ":1"), ("PTTL k", ":5000"), ("PERSIST k", ":1")]);
    assert!(one.reply().ends_with("$8 released"), "another client has released it");
    server.advance_ms(100_000);
    other.expect(&[("LOCK.FENCE k none", "$-1"), ("PTTL k", ":-1"), ("LOCK.RELEASE k r2", ":1")]);
    // A new value ends all of them, and so does the same value.
    for (command, reason) in [
        ("SET k x", "overwritten"),
        ("SET k shared: KEEPTTL", "overwritten"),
        ("GETSET k shared:", "overwritten"),
        ("APPEND k x", "overwritten"),
        ("SETRANGE k 0 s", "overwritten"),
        ("DEL k", "deleted"),
        ("RENAME k l", "renamed"),
        ("MOVE k 3", "moved"),
        ("FLUSHDB", "flushed"),
        ("PEXPIREAT k 1", "deleted"),
    ] {
        let period = acquire(&mut one);
        other.call(command);
        assert_eq!(
            one.reply(),
            format!(">5 $9 lock-lost $1 k $2 r1 :{period} ${} {reason}", reason.len()),
            "{command}"
        );
        other.expect(&[("LOCK.FENCE k r2", "$-1"), ("LOCK.RELEASE k r1", ":0")]);
        assert_eq!(locks_info(&mut other, "held"), 0, "{command}");
        other.call("FLUSHALL");
    }
}

#[test]
fn each_holder_is_told_when_a_command_takes_the_lock_from_all() {
    let server = TestServer::start();
    let (mut holders, mut other) = ([server.client3(), server.client3()], server.client());
    for (removal, reason) in [("DEL k", "deleted"), ("SET k shared:", "overwritten"), ("FLUSHALL", "flushed")] {
        let [period, _] =
            [0, 1].map(|at| fence(&mut holders[at], &format!("LOCK.ACQUIRE k r{at} SHARED PX 60000 NOTIFY")));
        other.call(removal);
        for (at, holder) in holders.iter_mut().enumerate() {
            let told = format!(">5 $9 lock-lost $1 k $2 r{at} :{period} ${} {reason}", reason.len());
            assert_eq!(holder.reply(), told, "after {removal}");
        }
        other.expect(&[("FLUSHALL", "+OK")]);
    }
}

#[test]
fn a_key_that_says_so_and_is_no_shared_lock_is_held_by_nobody_however_it_came() {
    let server = TestServer::start();
    let mut client = server.client();
    client.int("LOCK.ACQUIRE k r SHARED PX 60000");
    client.expect(&[
        ("COPY k copy", ":1"),
        ("SET plain shared:", "+OK"),
        ("SET longer shared:x", "+OK"),
        ("SET pool permits:3", "+OK"),
        ("COPY plain name", ":1"),
        ("RENAME name renamed", "+OK"),
    ]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "k"]) else { panic!("no dump") };
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK");
    let keys = [
        ("copy", "shared:"),
        ("plain", "shared:"),
        ("longer", "shared:x"),
        ("pool", "permits:3"),
        ("renamed", "shared:"),
        ("restored", "shared:"),
    ];
    for (key, value) in keys {
        client.expect(&[
            (&format!("LOCK.FENCE {key} {value}"), "$-1"),
            (&format!("LOCK.RENEW {key} {value} PX 1000"), "$-1"),
            (&format!("LOCK.RELEASE {key} {value}"), ":0"),
            (&format!("LOCK.ACQUIRE {key} r SHARED PX 1"), "$-1"),
            (&format!("LOCK.ACQUIRE {key} r PERMITS 1 OF 3 PX 1"), "$-1"),
            (&format!("LOCK.RESIZE {key} 9"), "$-1"),
            (&format!("GET {key}"), &format!("${} {value}", value.len())),
        ]);
    }
    assert_eq!(locks_info(&mut client, "held"), 1);
    let info = client.call("LOCK.INFO copy");
    assert!(info.contains("$5 token $7 shared:") && info.contains("mode $9 exclusive"), "{info}");
}

#[test]
fn info_shows_all_holders_and_how_those_in_the_queue_ask() {
    let server = TestServer::start();
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    one.call("CLIENT SETNAME one");
    let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
    let period = fence(&mut one, "LOCK.ACQUIRE k r1 SHARED PX 1000 META note");
    server.advance_ms(10);
    fence(&mut two, "LOCK.ACQUIRE k r2 SHARED SESSION");
    let _writer = wait_for(&server, "w", "");
    let _reader = wait_for(&server, "r3", "SHARED");
    let info = other.call("LOCK.INFO k");
    for part in [
        format!("*34 $5 token $-1 $5 fence :{period} $4 pttl :-1 $6 age-ms :10 $9 client-id $-1 "),
        "$4 meta $-1 $7 session $-1 $4 mode $6 shared $7 permits $-1 $4 free $-1 $7 holders *2 *24 ".to_owned(),
        format!("*24 $5 token $2 r1 $5 fence :{period} $4 pttl :990 $6 age-ms :10 $9 client-id :{first} "),
        format!("*24 $5 token $2 r2 $5 fence :{period} $4 pttl :-1 $6 age-ms :0 $9 client-id :{second} "),
        "$11 client-name $3 one $3 lib $0  $4 user $7 default $4 meta $4 note $7 session :0 $7 permits $-1".to_owned(),
        "$4 mode $9 exclusive $7 permits $-1 *12".to_owned(),
        "$4 mode $6 shared $7 permits $-1 $8 deadlock *-1".to_owned(),
    ] {
        assert!(info.contains(&part), "{part} is not in {info}");
    }
    let list = other.call("LOCK.LIST 0");
    assert!(list.contains("$7 waiting :2 $11 client-name $-1 $4 mode $6 shared $7 holders :2"), "{list}");
    assert!(other.call(&format!("CLIENT LIST ID {first}")).contains(" locks=1 "));
}

#[test]
fn watchers_see_that_a_shared_lock_is_made_goes_and_gets_another_ttl_and_nothing_else() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let mut is_seen = |command: &str, is_change: bool| {
        other.expect(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("PING", "+QUEUED")]);
        one.call(command);
        let reply = if is_change { "*-1" } else { "*1 +PONG" };
        assert_eq!(other.call("EXEC"), reply, "{command}");
    };
    is_seen("LOCK.ACQUIRE k r1 SHARED PX 5000", true);
    is_seen("LOCK.ACQUIRE k r2 SHARED PX 1000", false);
    is_seen("LOCK.ACQUIRE k r3 SHARED PX 9000", true);
    is_seen("LOCK.RENEW k r2 PX 2000", false);
    is_seen("LOCK.RELEASE k r2", false);
    is_seen("LOCK.RELEASE k r3", true);
    is_seen("LOCK.RELEASE k r1", true);
}

/// Makes a writer hold lock `k`, with this many readers queued for it, more than are served at once.
fn queue_readers(server: &TestServer, writer: &mut Client, count: usize) -> Vec<Client> {
    fence(writer, "LOCK.ACQUIRE k w PX 60000");
    (0..count).map(|at| wait_for(server, &format!("r{at}"), "SHARED")).collect()
}

#[test]
fn all_readers_get_the_lock_that_a_writer_releases_also_while_the_clock_stands_still() {
    let server = TestServer::start_on(keylatch::Clock::system(), &[("test-mode", "yes")]);
    let mut writer = server.client();
    assert!(writer.int("TEST.TIME FREEZE") > 0);
    let mut readers = queue_readers(&server, &mut writer, 300);
    let behind = wait_for(&server, "last", "");
    writer.expect(&[("LOCK.RELEASE k w", ":1")]);
    let fences: Vec<i64> = readers.iter_mut().map(acquired).collect();
    assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
    assert_eq!(locks_info(&mut writer, "held"), 1);
    assert_eq!(locks_info(&mut writer, "waiting"), 1);
    drop(behind);
}

#[test]
fn many_readers_whose_lock_ends_while_the_clock_is_moved_are_all_served_at_that_instant() {
    let server = TestServer::start_on(keylatch::Clock::system(), &[("test-mode", "yes")]);
    let mut writer = server.client();
    assert!(writer.int("TEST.TIME FREEZE") > 0);
    let mut readers = queue_readers(&server, &mut writer, 300);
    writer.int("TEST.TIME ADVANCE 60010");
    assert_eq!(writer.call("PTTL k"), ":59990");
    assert_eq!(locks_info(&mut writer, "held"), 1);
    readers.iter_mut().for_each(|reader| _ = acquired(reader));
}

#[test]
fn a_call_on_a_lock_that_is_handed_over_to_many_comes_after_all_of_them() {
    let server = TestServer::start();
    let mut writer = server.client();
    let mut readers = queue_readers(&server, &mut writer, 300);
    let pipeline =
        ["LOCK.RELEASE k w", "LOCK.ACQUIRE k late SHARED PX 1000", "LOCK.ACQUIRE k w PX 1000"].map(String::from);
    let replies = writer.pipeline(&pipeline);
    assert_eq!((&*replies[0], &*replies[2]), (":1", "$-1"));
    let late: i64 = replies[1][1..].parse().expect("nobody is queued before it any more");
    assert!(readers.iter_mut().all(|reader| acquired(reader) == late));
    writer.expect(&[("LOCK.RELEASE k late", ":1")]);
}

#[test]
fn databases_are_swapped_after_a_lock_was_handed_over_to_all_of_its_readers() {
    let server = TestServer::start();
    let mut writer = server.client();
    let mut readers = queue_readers(&server, &mut writer, 300);
    let replies = writer.pipeline(&["LOCK.RELEASE k w", "SWAPDB 0 1", "SELECT 1", "EXISTS k"].map(String::from));
    assert_eq!(replies, [":1", "+OK", "+OK", ":1"]);
    let fences: Vec<i64> = readers.iter_mut().map(acquired).collect();
    assert!(fences.iter().all(|fence| *fence == fences[0]), "{fences:?}");
}
