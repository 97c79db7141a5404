//! Streams: features that Redis 7.0 lacks or handles differently, and blocked readers.

use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer};

const NOW_MS: i64 = 1_700_000_000_000;

fn start() -> TestServer {
    let server = TestServer::start_with_workers(Server::builder().clock(Clock::manual()), 2);
    server.server().set_wall_ms(NOW_MS);
    server
}

/// Adds entries with these times.
fn fill(client: &mut Client, key: &str, times: std::ops::RangeInclusive<u32>) {
    for ms in times {
        assert_eq!(client.call(&format!("XADD {key} {ms} f {ms}")), format!("${} {ms}-0", format!("{ms}-0").len()));
    }
}

#[test]
fn an_automatic_id_is_the_time_and_a_number_within_it() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("XADD s * f v", "$15 1700000000000-0"),
        ("XADD s * f v", "$15 1700000000000-1"),
        ("XADD s 1800000000000-5 f v", "$15 1800000000000-5"),
        ("XADD s * f v", "$15 1800000000000-6"),
        ("XADD u 7-18446744073709551615 f v", "$22 7-18446744073709551615"),
        ("XADD u 7-* f v", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
    ]);
    server.advance_ms(7);
    client.expect(&[("XADD t * f v", "$15 1700000000007-0")]);
}

#[test]
fn consumers_have_the_times_of_their_last_attempt_and_their_last_success() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=2);
    client.expect(&[
        ("XGROUP CREATE s g 1", "+OK"),
        ("XREADGROUP GROUP g c STREAMS s >", "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 2"),
    ]);
    server.advance_ms(100);
    client.expect(&[("XREADGROUP GROUP g c STREAMS s >", "*-1"), ("XREADGROUP GROUP g idler STREAMS s >", "*-1")]);
    server.advance_ms(20);
    client.expect(&[
        (
            "XINFO CONSUMERS s g",
            "*2 *8 $4 name $1 c $7 pending :1 $4 idle :20 $8 inactive :120 \
             *8 $4 name $5 idler $7 pending :0 $4 idle :20 $8 inactive :-1",
        ),
        (
            "XINFO STREAM s FULL COUNT 1",
            "*18 $6 length :2 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id $3 2-0 \
             $20 max-deleted-entry-id $3 0-0 $13 entries-added :2 $23 recorded-first-entry-id $3 1-0 \
             $7 entries *1 *2 $3 1-0 *2 $1 f $1 1 $6 groups *1 *14 $4 name $1 g $17 last-delivered-id $3 2-0 \
             $12 entries-read :2 $3 lag :0 $9 pel-count :1 $7 pending *1 *4 $3 2-0 $1 c :1700000000000 :1 \
             $9 consumers *2 \
             *10 $4 name $1 c $9 seen-time :1700000000100 $11 active-time :1700000000000 $9 pel-count :1 \
             $7 pending *1 *3 $3 2-0 :1700000000000 :1 \
             *10 $4 name $5 idler $9 seen-time :1700000000100 $11 active-time :-1 $9 pel-count :0 $7 pending *0",
        ),
    ]);
}

#[test]
fn the_lag_is_unknown_while_entries_ahead_were_deleted() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=5);
    let groups = |read: &str, lag: &str, last: u32| {
        format!(
            "*1 *12 $4 name $1 g $9 consumers :1 $7 pending :0 $17 last-delivered-id $3 {last}-0 \
             $12 entries-read {read} $3 lag {lag}"
        )
    };
    client.expect(&[("XGROUP CREATE s g 0", "+OK")]);
    client.call("XREADGROUP GROUP g c COUNT 2 NOACK STREAMS s >");
    assert_eq!(client.call("XINFO GROUPS s"), groups(":2", ":3", 2));
    client.expect(&[("XDEL s 4", ":1")]);
    assert_eq!(client.call("XINFO GROUPS s"), groups(":2", "$-1", 2));
    client.call("XREADGROUP GROUP g c COUNT 1 NOACK STREAMS s >");
    assert_eq!(client.call("XINFO GROUPS s"), groups("$-1", "$-1", 3));
    client.call("XREADGROUP GROUP g c NOACK STREAMS s >");
    assert_eq!(client.call("XINFO GROUPS s"), groups(":5", ":0", 5));
    client.expect(&[("XGROUP SETID s g 2 ENTRIESREAD 99", "+OK")]);
    assert_eq!(client.call("XINFO GROUPS s"), groups(":5", "$-1", 2));
}

#[test]
fn the_last_entry_can_be_read_by_its_symbol() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=3);
    client.expect(&[
        ("XREAD COUNT 5 STREAMS s +", "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 3"),
        ("XREAD STREAMS s missing + +", "*1 *2 $1 s *1 *2 $3 3-0 *2 $1 f $1 3"),
        ("XDEL s 3", ":1"),
        ("XREAD STREAMS s +", "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 2"),
    ]);
    assert!(client.call("XGROUP CREATE s g 0").starts_with('+'));
    let refused = client.call("XREADGROUP GROUP g c STREAMS s +");
    assert!(refused.starts_with("-ERR The + ID is meaningless in the context of XREADGROUP: "), "{refused}");
}

#[test]
fn entries_are_deleted_with_or_without_the_references_of_groups() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=6);
    client.expect(&[("XGROUP CREATE s g 0", "+OK"), ("XGROUP CREATE s h 6", "+OK")]);
    client.call("XREADGROUP GROUP g c COUNT 4 STREAMS s >");
    client.expect(&[
        ("XDELEX missing IDS 2 1 2", "*2 :-1 :-1"),
        ("XDELEX s ACKED IDS 3 1 5 9", "*3 :2 :2 :2"),
        ("XDELEX s IDS 2 1-0 9-0", "*2 :1 :-1"),
        ("XPENDING s g", "*4 :4 $3 1-0 $3 4-0 *1 *2 $1 c $1 4"),
        ("XDELEX s IDS 1 2 DELREF", "*1 :1"),
        ("XPENDING s g", "*4 :3 $3 1-0 $3 4-0 *1 *2 $1 c $1 3"),
        ("XACK s g 3", ":1"),
        ("XDELEX s ACKED IDS 2 3 4", "*2 :1 :2"),
        ("XACKDEL s g IDS 3 1 4 9", "*3 :1 :1 :-1"),
        ("XACKDEL s nog IDS 1 1", "*1 :-1"),
        ("XACKDEL missing g IDS 1 1", "*1 :-1"),
        ("XRANGE s - +", "*2 *2 $3 5-0 *2 $1 f $1 5 *2 $3 6-0 *2 $1 f $1 6"),
        ("XGROUP SETID s h 0", "+OK"),
        ("XREADGROUP GROUP g c COUNT 1 STREAMS s >", "*1 *2 $1 s *1 *2 $3 5-0 *2 $1 f $1 5"),
        ("XACKDEL s g ACKED IDS 1 5", "*1 :2"),
        ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ("XLEN s", ":2"),
    ]);
}

#[test]
fn options_of_deletions_are_checked_in_order() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("SET k v", "+OK"),
        ("XDELEX k FOO BAR BAZ", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XDELEX s IDS 0 1", "-ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS x 1", "-ERR Number of IDs must be a positive integer"),
        ("XDELEX s IDS 2 1", "-ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s IDS 9223372036854775807 1", "-ERR The `numids` parameter must match the number of arguments"),
        ("XDELEX s IDS 1 1 2", "-ERR syntax error"),
        ("XDELEX s ACKED KEEPREF IDS 1 1", "-ERR syntax error"),
        ("XDELEX s IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XACKDEL s g ACKED DELREF KEEPREF", "-ERR syntax error"),
        ("XACKDEL s g keepref IDS x", "-ERR Number of IDs must be a positive integer"),
    ]);
}

#[test]
fn a_trim_may_spare_what_groups_need() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=6);
    client.expect(&[("XGROUP CREATE s g 0", "+OK")]);
    client.call("XREADGROUP GROUP g c COUNT 4 STREAMS s >");
    client.expect(&[
        ("XACK s g 1 3", ":2"),
        ("XTRIM s MAXLEN 2 ACKED", ":2"),
        ("XLEN s", ":4"),
        ("XTRIM s DELREF MAXLEN 3", ":1"),
        ("XPENDING s g", "*4 :1 $3 4-0 $3 4-0 *1 *2 $1 c $1 1"),
        ("XADD s MAXLEN 2 DELREF 7 f 7", "$3 7-0"),
        ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ("XTRIM s ACKED DELREF MAXLEN 3", "-ERR syntax error"),
        ("XADD s ACKED KEEPREF * f v", "-ERR Invalid stream ID specified as stream command argument"),
    ]);
}

#[test]
fn references_to_entries_that_were_deleted_before_are_deleted_with_them_and_logged() {
    for (delete, reply, logged) in [
        ("XDELEX s DELREF IDS 2 1 2", "*2 :-1 :-1", "XACK"),
        ("XTRIM s DELREF MINID 3", ":0", "DELREF"),
        ("XADD s MINID 3 DELREF 9 f 9", "$3 9-0", "DELREF"),
        ("XTRIM s DELREF MAXLEN 1", ":1", "DELREF"),
    ] {
        let server = start();
        server.begin_log();
        let mut client = server.client();
        fill(&mut client, "s", 1..=4);
        client.expect(&[("XGROUP CREATE s g 0", "+OK")]);
        client.call("XREADGROUP GROUP g c COUNT 2 STREAMS s >");
        client.expect(&[
            ("XDEL s 1 2", ":2"),
            ("XPENDING s g", "*4 :2 $3 1-0 $3 2-0 *1 *2 $1 c $1 2"),
            (delete, reply),
            ("XPENDING s g", "*4 :0 $-1 $-1 *-1"),
        ]);
        let log = String::from_utf8_lossy(&server.take_log()).into_owned();
        assert!(log.contains(logged), "{delete} is not logged: {log}");
    }
}

#[test]
fn idle_entries_are_claimed_before_new_ones_are_read() {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=4);
    client.expect(&[("XGROUP CREATE s g 0", "+OK")]);
    client.call("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    server.advance_ms(50);
    client.call("XREADGROUP GROUP g a COUNT 2 STREAMS s >");
    server.advance_ms(50);
    client.expect(&[
        ("XDEL s 2", ":1"),
        (
            "XREADGROUP GROUP g b COUNT 3 CLAIM 50 STREAMS s >",
            "*1 *2 $1 s *3 *4 $3 1-0 *2 $1 f $1 1 :100 :1 *4 $3 3-0 *2 $1 f $1 3 :50 :1 *4 $3 4-0 *2 $1 f $1 4 :0 :0",
        ),
        ("XPENDING s g - + 10 b", "*3 *4 $3 1-0 $1 b :0 :2 *4 $3 3-0 $1 b :0 :2 *4 $3 4-0 $1 b :0 :1"),
        ("XREADGROUP GROUP g b CLAIM 50 STREAMS s >", "*-1"),
        ("XREADGROUP GROUP g b CLAIM x STREAMS s >", "-ERR min-idle-time is not an integer or out of range"),
        ("XREADGROUP GROUP g b CLAIM -1 STREAMS s >", "-ERR min-idle-time must be a positive integer"),
        (
            "XREAD CLAIM 1 STREAMS s 0",
            "-ERR The CLAIM option is only supported by XREADGROUP. You called XREAD instead.",
        ),
    ]);
}

#[test]
fn a_reader_of_the_last_entry_waits_for_the_first() {
    let server = start();
    let mut other = server.client();
    let mut last = server.block("XREAD BLOCK 0 STREAMS new +");
    other.expect(&[("XADD new 1 f v", "$3 1-0")]);
    assert_eq!(last.reply(), "*1 *2 $3 new *1 *2 $3 1-0 *2 $1 f $1 v");
}

#[test]
fn a_reader_sleeps_through_deletion_and_foreign_values_and_a_consumer_does_not() {
    let server = start();
    let mut other = server.client();
    fill(&mut other, "s", 5..=5);
    let no_group = "-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option";
    let mut reader = server.block("XREAD BLOCK 0 STREAMS s $");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for (undoing, error) in [
        ("DEL s", no_group),
        ("SET s v", wrong),
        ("RENAME s t", no_group),
        ("XGROUP DESTROY s g", no_group),
        ("FLUSHALL", no_group),
        ("PEXPIRE s 0", no_group),
    ] {
        other.call("XGROUP CREATE s g $ MKSTREAM");
        let mut consumer = server.block("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
        other.call(undoing);
        assert_eq!(consumer.reply(), error, "{undoing}");
        other.call("DEL s");
    }
    other.expect(&[("XADD s 6 f v", "$3 6-0")]);
    assert_eq!(reader.reply(), "*1 *2 $1 s *1 *2 $3 6-0 *2 $1 f $1 v");
}

/// Starts a server with a stream whose entry is pending for the consumer `a`.
fn start_with_pending() -> (TestServer, Client) {
    let server = start();
    let mut client = server.client();
    fill(&mut client, "s", 1..=1);
    client.expect(&[
        ("XGROUP CREATE s g 0", "+OK"),
        ("XREADGROUP GROUP g a STREAMS s >", "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 1"),
    ]);
    (server, client)
}

/// Returns the reply with the claimed entry.
fn claimed(idle: u64, count: u64) -> String {
    format!("*1 *2 $1 s *1 *4 $3 1-0 *2 $1 f $1 1 :{idle} :{count}")
}

#[test]
fn a_blocked_consumer_claims_an_entry_when_it_has_been_pending_for_long_enough() {
    let (server, mut client) = start_with_pending();
    let mut blocked = server.block("XREADGROUP GROUP g b BLOCK 0 CLAIM 50 STREAMS s >");
    server.advance_ms(49);
    assert_eq!(client.info("blocked_clients"), "1");
    server.advance_ms(1);
    assert_eq!(blocked.reply(), claimed(50, 1));
    assert_eq!(client.call("XPENDING s g"), "*4 :1 $3 1-0 $3 1-0 *1 *2 $1 b $1 1");
    // Both times have passed: its own entries come first.
    let mut late = server.block("XREADGROUP GROUP g c BLOCK 60 CLAIM 70 STREAMS s >");
    server.advance_ms(100);
    assert_eq!(late.reply(), "*-1");
}

#[test]
fn of_several_blocked_consumers_one_after_the_other_claims_an_entry() {
    let (server, mut client) = start_with_pending();
    client.call("XGROUP CREATE other g 0 MKSTREAM");
    let request = |at: u64| format!("XREADGROUP GROUP g b{at} BLOCK 0 CLAIM 50 STREAMS other s > >");
    let mut blocked: Vec<Client> = (0..10).map(|at| server.block(&request(at))).collect();
    for (at, client) in (1..).zip(&mut blocked) {
        server.advance_ms(50);
        assert_eq!(client.reply(), claimed(50, at));
    }
    assert_eq!(client.info("blocked_clients"), "0");
    assert_eq!(client.call("XPENDING s g"), "*4 :1 $3 1-0 $3 1-0 *1 *2 $2 b9 $1 1");
}

#[test]
fn an_entry_that_becomes_pending_while_consumers_are_blocked_is_claimed_by_them_too() {
    let (server, mut client) = start_with_pending();
    client.call("XACK s g 1");
    let mut blocked = server.block("XREADGROUP GROUP g b BLOCK 0 CLAIM 50 STREAMS s >");
    server.advance_ms(1000);
    // None of these is content of the stream, so a blocked reader would continue to sleep.
    assert_eq!(client.call("XCLAIM s g a 0 1 FORCE JUSTID"), "*1 $3 1-0");
    server.advance_ms(49);
    assert_eq!(client.info("blocked_clients"), "1");
    server.advance_ms(1);
    assert_eq!(blocked.reply(), claimed(50, 1));
    // An entry that is made older is claimed at once.
    let mut blocked = server.block("XREADGROUP GROUP g c BLOCK 0 CLAIM 50 STREAMS s >");
    assert_eq!(client.call("XCLAIM s g a 0 1 IDLE 60 JUSTID"), "*1 $3 1-0");
    assert_eq!(blocked.reply(), claimed(60, 2));
    // An entry that is acknowledged or deleted is not.
    let mut blocked = server.block("XREADGROUP GROUP g d BLOCK 200 CLAIM 50 STREAMS s >");
    client.call("XDEL s 1");
    server.advance_ms(199);
    assert_eq!(client.info("blocked_clients"), "1");
    server.advance_ms(1);
    assert_eq!(blocked.reply(), "*-1");
}

#[test]
fn nothing_is_claimed_while_clients_are_paused() {
    let (server, mut client) = start_with_pending();
    let mut blocked = server.block("XREADGROUP GROUP g b BLOCK 0 CLAIM 50 STREAMS s >");
    client.call("CLIENT PAUSE 1000 WRITE");
    server.advance_ms(60);
    assert_eq!(client.info("blocked_clients"), "1");
    client.call("CLIENT UNPAUSE");
    assert_eq!(blocked.reply(), claimed(60, 1));
    let mut blocked = server.block("XREADGROUP GROUP g c BLOCK 0 CLAIM 50 STREAMS s >");
    client.call("CLIENT PAUSE 1000 WRITE");
    server.advance_ms(1000);
    assert_eq!(blocked.reply(), claimed(1000, 2));
}

#[test]
fn a_consumer_that_claims_in_real_time_wakes_by_itself() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    fill(&mut client, "s", 1..=1);
    client.call("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g a STREAMS s >");
    let reply = client.call("XREADGROUP GROUP g b BLOCK 0 CLAIM 20 STREAMS s >");
    let idle_ms = reply.strip_prefix("*1 *2 $1 s *1 *4 $3 1-0 *2 $1 f $1 1 :").and_then(|rest| rest.split(' ').next());
    assert!(idle_ms.and_then(|ms| ms.parse().ok()).is_some_and(|ms: u64| ms >= 20), "{reply}");
}

#[test]
fn a_blocked_consumer_wakes_by_itself_for_an_entry_that_another_one_is_given_meanwhile() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    fill(&mut client, "s", 1..=1);
    client.call("XGROUP CREATE s g $");
    // Nothing is pending when it blocks, so it has no time to wake at except the end of its wait.
    let mut blocked = server.block("XREADGROUP GROUP g b BLOCK 20000 CLAIM 20 STREAMS s >");
    assert_eq!(client.call("XCLAIM s g a 0 1 FORCE JUSTID"), "*1 $3 1-0");
    let reply = blocked.reply();
    assert!(reply.starts_with("*1 *2 $1 s *1 *4 $3 1-0 *2 $1 f $1 1 :"), "{reply}");
}
