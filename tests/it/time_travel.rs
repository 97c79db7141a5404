//! TEST.TIME: a clock that tests stop, move and start by commands, and with it everything that depends on time.

use crate::harness::{Client, Dice, TestServer, wait_until};

const MS_MIN: i64 = 1_600_000_000_000;

/// Starts a server in test mode, with its clock frozen.
fn frozen() -> (TestServer, Client) {
    let server = TestServer::start_on(keylatch::Clock::system(), &[("test-mode", "yes")]);
    let mut client = server.client();
    assert!(client.int("TEST.TIME FREEZE") > MS_MIN);
    (server, client)
}

fn advance(client: &mut Client, ms: u64) -> i64 {
    client.int(&format!("TEST.TIME ADVANCE {ms}"))
}

#[test]
fn without_test_mode_the_commands_do_not_exist() {
    let server = TestServer::start();
    let mut client = server.client();
    assert!(client.call("TEST.TIME GET").starts_with("-ERR unknown command 'TEST.TIME'"));
    client.expect(&[("COMMAND INFO test.time", "*1 $-1"), ("CONFIG GET test-mode", "*2 $9 test-mode $2 no")]);
}

#[test]
fn advance_moves_the_frozen_clock_and_returns_the_new_time() {
    let (server, mut client) = frozen();
    let begun = client.int("TEST.TIME GET");
    client.expect(&[("SET a 1 PX 100", "+OK"), ("SET b 1 PX 101", "+OK"), ("PTTL a", ":100")]);
    assert_eq!(advance(&mut client, 100), begun + 100);
    client.expect(&[("EXISTS a", ":0"), ("PTTL b", ":1"), ("DBSIZE", ":1")]);
    assert_eq!(server.client().int("TEST.TIME GET"), begun + 100);
    let seconds = (begun + 100) / 1000;
    assert!(client.call("TIME").starts_with(&format!("*2 ${} {seconds} ", seconds.to_string().len())));
}

#[test]
fn deadlines_by_date_and_of_fields_follow_the_clock() {
    let (_server, mut client) = frozen();
    let begun = client.int("TEST.TIME GET");
    client.call(&format!("SET dated 1 PXAT {}", begun + 5000));
    client.expect(&[("HSET h f 1 g 2", ":2"), ("HPEXPIRE h 7000 FIELDS 1 f", "*1 :1")]);
    advance(&mut client, 4999);
    client.expect(&[("EXISTS dated", ":1")]);
    advance(&mut client, 1);
    client.expect(&[("EXISTS dated", ":0"), ("HLEN h", ":2")]);
    advance(&mut client, 2000);
    client.expect(&[("HLEN h", ":1"), ("HKEYS h", "*1 $1 g")]);
}

#[test]
fn what_is_due_happens_in_order_and_each_at_its_own_instant() {
    let (server, mut client) = frozen();
    let begun = client.int("TEST.TIME GET");
    client.expect(&[("SET l first PX 50", "+OK")]);
    let mut second = server.block("LOCK.ACQUIRE l second PX 100 BLOCK 0");
    let mut third = server.block("LOCK.ACQUIRE l third PX 1000 BLOCK 120");
    let mut fourth = server.block("LOCK.ACQUIRE l fourth PX 1000 BLOCK 0");
    assert_eq!(advance(&mut client, 1000), begun + 1000);
    // The second held it from 50 to 150, the third gave up at 120, the fourth has it until 1150.
    client.expect(&[("GET l", "$6 fourth"), ("PTTL l", ":150")]);
    assert!(second.reply().starts_with(':'));
    assert_eq!(third.reply(), "$-1");
    assert!(fourth.reply().starts_with(':'));
}

#[test]
fn a_lock_that_is_handed_over_on_the_way_expires_on_the_way() {
    let (server, mut client) = frozen();
    client.expect(&[("SET l first PX 10", "+OK")]);
    let acquire = |number| server.block(&format!("LOCK.ACQUIRE l t{number} PX 10 BLOCK 0"));
    let mut line: Vec<Client> = (0..50).map(acquire).collect();
    advance(&mut client, 505);
    client.expect(&[("GET l", "$3 t49"), ("PTTL l", ":5")]);
    line.iter_mut().for_each(|waiter| assert!(waiter.reply().starts_with(':')));
    advance(&mut client, 5);
    client.expect(&[("EXISTS l", ":0")]);
}

/// Ways in which the first holder of a lock loses it, with the time in milliseconds.
const LOSSES: [(&str, u64); 3] = [("TTL", 10), ("TTL before the end of a pause", 15), ("session", 0)];

#[test]
fn each_in_line_holds_the_lock_for_its_own_time_however_far_the_clock_is_moved() {
    let mut dice = Dice::new(7);
    for round in 0..10 {
        for (loss, lost_after_ms) in LOSSES {
            let (server, mut client) = frozen();
            let mut first = server.client();
            let acquire = if loss == "session" { "SESSION" } else { "PX 10" };
            assert!(first.call(&format!("LOCK.ACQUIRE l first {acquire}")).starts_with(':'));
            let times: Vec<u64> = (0..6).map(|_| 1 + dice.roll(30)).collect();
            let join = |(number, px)| server.block(&format!("LOCK.ACQUIRE l t{number} PX {px} BLOCK 0"));
            let _line: Vec<Client> = times.iter().enumerate().map(join).collect();
            match loss {
                "session" => {
                    drop(first);
                    wait_until(|| client.call("GET l") == "$2 t0");
                }
                "TTL" => {}
                _ => client.expect(&[(&format!("CLIENT PAUSE {lost_after_ms} WRITE"), "+OK")]),
            }
            let advanced_ms = lost_after_ms + dice.roll(times.iter().sum::<u64>() + 5);
            advance(&mut client, advanced_ms);
            let mut end_ms = lost_after_ms;
            let holder = times.iter().enumerate().find(|(_, px)| {
                end_ms += *px;
                advanced_ms < end_ms
            });
            let (get, pttl) = match holder {
                Some((number, _)) => (format!("$2 t{number}"), format!(":{}", end_ms - advanced_ms)),
                None => ("$-1".to_owned(), ":-2".to_owned()),
            };
            let seen = [client.call("GET l"), client.call("PTTL l")];
            assert_eq!(seen, [get, pttl], "round {round}, {loss}, {times:?}, after {advanced_ms} ms");
        }
    }
}

#[test]
fn what_is_due_exactly_now_has_happened() {
    let (server, mut client) = frozen();
    client.expect(&[("SET k v PX 250", "+OK")]);
    let mut waiting = server.block("BLPOP q 0.25");
    advance(&mut client, 249);
    assert!(client.call("CLIENT LIST").contains(" flags=b "));
    advance(&mut client, 1);
    assert!(!client.call("CLIENT LIST").contains(" flags=b "));
    client.expect(&[("DBSIZE", ":0")]);
    assert_eq!(waiting.reply(), "*-1");
}

#[test]
fn expired_events_stand_before_the_next_reply_of_a_subscriber() {
    let (server, mut client) = frozen();
    let mut subscriber = server.client3();
    client.expect(&[("CONFIG SET notify-keyspace-events Ex", "+OK")]);
    subscriber.send(b"SUBSCRIBE __keyevent@0__:expired\r\n");
    assert!(subscriber.reply().starts_with(">3 $9 subscribe"));
    client.expect(&[("SET a 1 PX 10", "+OK"), ("SET b 1 PX 20", "+OK")]);
    advance(&mut client, 20);
    subscriber.send(b"PING\r\n");
    let event = |key| format!(">3 $7 message $22 __keyevent@0__:expired $1 {key}");
    assert_eq!([subscriber.reply(), subscriber.reply(), subscriber.reply()], [event("a"), event("b"), "+PONG".into()]);
}

#[test]
fn set_moves_forward_to_a_date_and_sets_only_the_wall_clock_back() {
    let (_server, mut client) = frozen();
    let begun = client.int("TEST.TIME GET");
    client.expect(&[("SET k v PX 1000", "+OK")]);
    assert_eq!(client.int(&format!("TEST.TIME SET {}", begun + 400)), begun + 400);
    client.expect(&[("PTTL k", ":600")]);
    assert_eq!(client.int(&format!("TEST.TIME SET {}", begun - 86_400_000)), begun - 86_400_000);
    client.expect(&[("PTTL k", ":600")]);
    advance(&mut client, 600);
    client.expect(&[("EXISTS k", ":0")]);
}

#[test]
fn a_clock_that_runs_can_be_moved_as_well_and_runs_on() {
    let server = TestServer::start_on(keylatch::Clock::system(), &[("test-mode", "yes")]);
    let mut client = server.client();
    let begun = client.int("TEST.TIME GET");
    client.expect(&[("SET k v PX 3600000", "+OK"), ("SET l v PX 3600001", "+OK")]);
    assert!(advance(&mut client, 3_600_000) >= begun + 3_600_000);
    client.expect(&[("EXISTS k", ":0")]);
    wait_until(|| client.call("EXISTS l") == ":0"); // due a millisecond later, to which no test moves the clock
    let moved = client.int("TEST.TIME GET");
    wait_until(|| client.int("TEST.TIME GET") > moved + 1);
    let stopped = client.int("TEST.TIME FREEZE");
    assert_eq!(client.int("TEST.TIME GET"), stopped);
    client.expect(&[("SET k v PX 2", "+OK")]);
    assert_eq!(client.int("TEST.TIME RUN"), stopped);
    wait_until(|| client.call("EXISTS k") == ":0");
}

#[test]
fn a_client_that_blocked_before_the_clock_stopped_or_started_follows_it() {
    let server = TestServer::start_on(keylatch::Clock::system(), &[("test-mode", "yes")]);
    let mut client = server.client();
    let mut waiting = server.block("BLPOP q 3600");
    client.int("TEST.TIME FREEZE");
    let mut later = server.block("BLPOP q 3600.001");
    client.int("TEST.TIME RUN");
    advance(&mut client, 3_600_000);
    assert_eq!(waiting.reply(), "*-1");
    assert_eq!(later.reply(), "*-1");
}

#[test]
fn a_pause_ends_when_time_is_moved_over_its_end() {
    let (server, mut client) = frozen();
    client.expect(&[("CLIENT PAUSE 500", "+OK")]);
    let mut other = server.client();
    other.send(b"SET k v\r\n");
    advance(&mut client, 500);
    assert_eq!(other.reply(), "+OK");
}

#[test]
fn two_clients_that_advance_at_once_move_the_clock_by_both() {
    let (server, mut client) = frozen();
    let begun = client.int("TEST.TIME GET");
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.send(b"TEST.TIME ADVANCE 1000\r\n"));
    clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
    assert_eq!(client.int("TEST.TIME GET"), begun + 8000);
}

#[test]
#[cfg(feature = "lua")]
fn scripts_see_the_same_time_and_are_limited_by_the_real_one() {
    let (server, mut client) = frozen();
    let begun = advance(&mut client, 3_600_000);
    let script = "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)";
    assert_eq!(client.call_args(&["EVAL", script, "0"]), format!(":{begun}"));
    client.expect(&[("CONFIG SET busy-reply-threshold 1", "+OK")]);
    let mut other = server.client();
    client.send(&crate::harness::encode(&["EVAL", "while true do end", "0"]));
    wait_until(|| other.call("PING").starts_with("-BUSY"));
    assert!(other.call("TEST.TIME ADVANCE 1").starts_with("-BUSY"));
    wait_until(|| other.call("SCRIPT KILL") == "+OK");
    assert!(client.reply().contains("Script killed by user"));
    assert_eq!(other.int("TEST.TIME GET"), begun);
}

#[test]
fn the_clock_stops_before_it_overflows() {
    let (server, mut client) = frozen();
    let step = "TEST.TIME ADVANCE 9000000000000";
    wait_until(|| client.call(step) == "-ERR milliseconds are out of range");
    let (now, wall) = (client.int("TEST.TIME GET"), "TEST.TIME SET 9000000000000");
    assert!(now > 4_000_000_000_000_000, "{now}");
    client.expect(&[
        ("TEST.TIME ADVANCE 1", &format!(":{}", now + 1)),
        ("SET k v PX 1", "+OK"),
        (wall, ":9000000000000"),
    ]);
    client.expect(&[(step, "-ERR milliseconds are out of range"), ("TEST.TIME ADVANCE 1", ":9000000000001")]);
    client.expect(&[("EXISTS k", ":0")]);
    server.server().advance(std::time::Duration::MAX);
    assert!(client.int("TEST.TIME GET") > 9_000_000_000_001);
}

#[test]
fn what_steers_time_is_refused_in_transactions_and_with_wrong_arguments() {
    let (_server, mut client) = frozen();
    client.expect(&[
        ("TEST.TIME ADVANCE -1", "-ERR milliseconds must not be negative"),
        ("TEST.TIME ADVANCE x", "-ERR value is not an integer or out of range"),
        ("TEST.TIME ADVANCE 9223372036854775807", "-ERR milliseconds are out of range"),
        ("TEST.TIME ADVANCE", "-ERR wrong number of arguments for 'test.time|advance' command"),
        ("TEST.TIME STOP", "-ERR unknown subcommand 'STOP'. Try TEST.TIME HELP."),
        ("MULTI", "+OK"),
        ("TEST.TIME GET", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
}
