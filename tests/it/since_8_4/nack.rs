//! XNACK: entries that are pending for no consumer.

use keylatch::internals::resp::Frame;

use crate::harness::{Client, Dice, TestServer};

/// Adds entries `1-1` to `1-n` to a stream, which a consumer of a group gets.
fn deliver(client: &mut Client, count: usize) {
    (1..=count).for_each(|number| drop(client.call(&format!("XADD s 1-{number} f v"))));
    client.call("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g alice STREAMS s >");
}

#[test]
fn a_released_entry_belongs_to_nobody_and_counts_as_the_mode_says() {
    let server = TestServer::start();
    let mut client = server.client();
    deliver(&mut client, 5);
    client.expect(&[
        ("XNACK s g FAIL IDS 1 1-2", ":1"),
        ("XNACK s g silent ids 2 1-1 9-9", ":1"),
        ("XNACK s g FATAL IDS 1 1-3", ":1"),
        ("XNACK s g FAIL IDS 1 1-4 RETRYCOUNT 7", ":1"),
        ("XNACK s g SILENT IDS 1 1-1", ":1"),
        ("XPENDING s g", "*4 :5 $3 1-1 $3 1-5 *1 *2 $5 alice $1 1"),
    ]);
    let pending = [
        "*4 $3 1-1 $0  :-1 :0",
        "*4 $3 1-2 $0  :-1 :1",
        "*4 $3 1-3 $0  :-1 :9223372036854775807",
        "*4 $3 1-4 $0  :-1 :7",
    ];
    assert_eq!(client.call("XPENDING s g - + 10"), format!("*5 {} *4 $3 1-5 $5 alice :0 :1", pending.join(" ")));
    assert_eq!(client.call("XPENDING s g IDLE 99999999 - + 10"), format!("*4 {}", pending.join(" ")));
    client.expect(&[
        ("XPENDING s g - + 10 alice", "*1 *4 $3 1-5 $5 alice :0 :1"),
        ("XACK s g 1-1", ":1"),
        ("XREADGROUP GROUP g alice STREAMS s 0", "*1 *2 $1 s *1 *2 $3 1-5 *2 $1 f $1 v"),
        ("XCLAIM s g bob 99999999 1-3 JUSTID", "*1 $3 1-3"),
        ("XCLAIM s g bob 99999999 1-4", "*1 *2 $3 1-4 *2 $1 f $1 v"),
        ("XPENDING s g - + 10 bob", "*2 *4 $3 1-3 $3 bob :0 :9223372036854775807 *4 $3 1-4 $3 bob :0 :8"),
        ("XAUTOCLAIM s g bob 99999999 0 JUSTID", "*3 $3 0-0 *1 $3 1-2 *0"),
        ("XGROUP DELCONSUMER s g bob", ":3"),
        ("XNACK s g FAIL IDS 1 1-2", ":0"),
        ("XINFO CONSUMERS missing g", "-ERR no such key"),
    ]);
    assert!(client.call("XINFO CONSUMERS s g").starts_with("*1 "), "nobody is no consumer");
}

#[test]
fn an_entry_that_is_not_pending_is_released_by_force() {
    let server = TestServer::start();
    server.client().expect(&[
        ("XADD s 1-1 f v", "$3 1-1"),
        ("XADD s 1-2 f v", "$3 1-2"),
        ("XADD s 1-3 f v", "$3 1-3"),
        ("XGROUP CREATE s g 0", "+OK"),
        ("XNACK s g FAIL IDS 1 1-1", ":0"),
        ("XNACK s g FAIL IDS 2 1-1 7-7 FORCE", ":1"),
        ("XNACK s g FATAL IDS 1 1-2 force", ":1"),
        ("XNACK s g SILENT IDS 1 1-3 FORCE RETRYCOUNT 3", ":1"),
        ("XPENDING s g", "*4 :3 $3 1-1 $3 1-3 *0"),
        ("XPENDING s g - + 9", "*3 *4 $3 1-1 $0  :-1 :0 *4 $3 1-2 $0  :-1 :9223372036854775807 *4 $3 1-3 $0  :-1 :3"),
    ]);
}

#[test]
fn released_entries_are_claimed_first_in_the_order_of_their_release() {
    let server = TestServer::start();
    let mut client = server.client();
    deliver(&mut client, 4);
    server.advance_ms(100);
    client.expect(&[("XNACK s g FAIL IDS 2 1-3 1-2", ":2"), ("XADD s 2-1 f v", "$3 2-1")]);
    let shown = client.call("XREADGROUP GROUP g bob CLAIM 50 STREAMS s >");
    let ids: Vec<&str> = shown.split(' ').filter(|word| word.contains('-')).collect();
    assert_eq!(ids, ["1-3", "1-2", "1-1", "1-4", "2-1"]);
    client.expect(&[("XNACK s g FAIL IDS 1 1-4", ":1")]);
    let shown = client.call("XREADGROUP GROUP g carol CLAIM 99999999 STREAMS s >");
    assert!(shown.starts_with("*1 *2 $1 s *1 *4 $3 1-4 *2 $1 f $1 v :"), "{shown}");
}

#[test]
fn a_release_wakes_those_that_wait_for_entries_to_claim() {
    let server = TestServer::start();
    let mut client = server.client();
    deliver(&mut client, 1);
    let mut waiting = server.block("XREADGROUP GROUP g bob BLOCK 0 CLAIM 99999999 STREAMS s >");
    client.expect(&[("XNACK s g FAIL IDS 1 1-1", ":1")]);
    let shown = waiting.reply();
    assert!(shown.starts_with("*1 *2 $1 s *1 *4 $3 1-1 *2 $1 f $1 v :"), "{shown}");
    client.expect(&[("XPENDING s g - + 9", "*1 *4 $3 1-1 $3 bob :0 :2")]);
}

#[test]
fn a_group_with_released_entries_tells_their_number() {
    let server = TestServer::start();
    let mut client = server.client();
    deliver(&mut client, 2);
    assert!(!client.call("XINFO STREAM s FULL").contains("nacked-count"));
    client.expect(&[("XNACK s g FAIL IDS 1 1-2", ":1")]);
    let shown = client.call("XINFO STREAM s FULL");
    assert!(shown.contains("$9 pel-count :2 $12 nacked-count :1 $7 pending *2 *4 $3 1-1 $5 alice"), "{shown}");
    assert!(shown.contains("*4 $3 1-2 $0  :0 :1 $9 consumers *1 "), "{shown}");
}

#[test]
fn wrong_arguments_of_xnack_are_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    deliver(&mut client, 1);
    client.call("SET t v");
    client.expect(&[
        ("XNACK missing g FAIL IDS 1 1-1", "-NOGROUP No such key 'missing' or consumer group 'g'"),
        ("XNACK s other FAIL IDS 1 1-1", "-NOGROUP No such key 's' or consumer group 'other'"),
        ("XNACK t g FAIL IDS 1 1-1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("XNACK s g MAYBE IDS 1 1-1", "-ERR mode must be SILENT, FAIL, or FATAL"),
        ("XNACK s g FAIL ID 1 1-1", "-ERR syntax error, expected IDS keyword"),
        ("XNACK s g FAIL IDS 0 1-1", "-ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS x 1-1", "-ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS 2 1-1", "-ERR number of IDs doesn't match numids"),
        ("XNACK s g FAIL IDS 1 1-1 1-2", "-ERR Unrecognized XNACK option '1-2'"),
        ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT", "-ERR Unrecognized XNACK option 'RETRYCOUNT'"),
        ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT -1", "-ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-1 RETRYCOUNT x", "-ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"),
        ("XNACK s g FAIL IDS 1", "-ERR wrong number of arguments for 'xnack' command"),
        ("XPENDING s g - + 9", "*1 *4 $3 1-1 $5 alice :0 :1"),
    ]);
}

/// Returns everything that a group has, in the order in which it is claimed.
fn state(client: &mut Client, key: &str) -> String {
    let pending = client.call(&format!("XPENDING {key} g - + 1000"));
    let names: Vec<String> =
        ["alice", "bob"].map(|name| client.call(&format!("XPENDING {key} g - + 1000 {name}"))).into();
    format!("{pending} {names:?}")
}

#[test]
fn released_entries_outlive_copies_dumps_and_a_restart() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let (mut client, mut dice) = (server.client(), Dice::new(5));
    deliver(&mut client, 40);
    for _ in 0..60 {
        let (id, mode) = (1 + dice.roll(40), ["SILENT", "FAIL", "FATAL"][dice.roll(3) as usize]);
        client.call(&format!("XNACK s g {mode} IDS 1 1-{id}"));
        if dice.roll(3) == 0 {
            client.call(&format!("XCLAIM s g bob 0 1-{}", 1 + dice.roll(40)));
        }
    }
    client.call("XGROUP CREATECONSUMER s g carol");
    let before = state(&mut client, "s");
    assert!(before.contains("$0  :-1"), "{before}");
    client.expect(&[("COPY s copy", ":1")]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "s"]) else { panic!("no dump") };
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK");
    client.expect(&[("DEBUG RELOAD", "+OK")]);
    let order = |client: &mut Client, key: &str| {
        client.call(&format!("XREADGROUP GROUP g dave CLAIM 99999999 STREAMS {key} >"))
    };
    let shown = ["s", "copy", "restored"].map(|key| {
        assert_eq!(state(&mut client, key), before, "{key}");
        let ids: Vec<String> =
            order(&mut client, key).split(' ').filter(|word| word.starts_with("1-")).map(str::to_owned).collect();
        ids
    });
    assert!(shown[0].len() > 3 && shown.iter().all(|ids| *ids == shown[0]), "{shown:?}");
    assert!(client.call("XINFO CONSUMERS s g").starts_with("*4 "), "alice, bob, carol and dave");
}
