//! Clients that wait for each other's locks.

use super::{acquired, block, locks_info, wait_for};
use crate::harness::{Client, TestServer, wait_until};

/// Connects a client that holds a session lock; returns it with its id.
fn holder(server: &TestServer, key: &str) -> (Client, i64) {
    let mut client = server.client();
    let id = client.int("CLIENT ID");
    client.int(&format!("LOCK.ACQUIRE {key} of-{key} SESSION"));
    (client, id)
}

/// Queues a client for a lock with the token `new`.
fn waits(server: &TestServer, client: Client, key: &str) -> Client {
    block(server, client, &format!("LOCK.ACQUIRE {key} new PX 1000 BLOCK 5000"))
}

#[test]
fn the_last_client_of_a_cycle_gets_an_error_at_once_that_names_locks_and_clients() {
    let server = TestServer::start();
    let (one, one_id) = holder(&server, "a");
    let (two, two_id) = holder(&server, "b");
    let (mut three, three_id) = holder(&server, "c");
    let mut one = block(&server, one, "LOCK.ACQUIRE b one PX 1000 BLOCK 5000");
    let mut two = block(&server, two, "LOCK.ACQUIRE c two PX 1000 BLOCK 5000");
    assert_eq!(
        three.call("LOCK.ACQUIRE a three PX 1000 BLOCK 5000"),
        format!(
            "-DEADLOCK a held by client {one_id} waits for b held by client {two_id} waits for c held by client \
             {three_id}"
        )
    );
    let mut other = server.client();
    assert_eq!(other.call("LOCK.INFO a").split("waiters ").nth(1), Some("*0 $8 deadlock *-1"));
    assert!(other.call(&format!("CLIENT LIST ID {three_id}")).contains(" lwait=0"));
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 1);
    assert_eq!(locks_info(&mut other, "contended_total"), 3);
    // It was examined twice, and counts once.
    assert!(other.call("INFO commandstats").contains("cmdstat_lock.acquire:calls=4,"));
    assert!(other.call("INFO errorstats").contains("errorstat_DEADLOCK:count=1"));
    // The others continue to wait, and are served when it releases its lock.
    assert_eq!(three.call("LOCK.RELEASE c of-c"), ":1");
    acquired(&mut two);
    assert_eq!(two.call("LOCK.RELEASE b of-b"), ":1");
    acquired(&mut one);
    other.expect(&[("CONFIG RESETSTAT", "+OK")]);
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 0);
}

#[test]
fn a_client_that_waits_with_the_token_of_a_lock_is_its_holder_on_whatever_connection() {
    let server = TestServer::start();
    let (mut pooled, mut other) = (server.client(), server.client());
    pooled.int("LOCK.ACQUIRE a t PX 60000");
    let mut waiting = server.client();
    let waiting_id = waiting.int("CLIENT ID");
    let (mut two, two_id) = holder(&server, "b");
    let _waiting = block(&server, waiting, "LOCK.ACQUIRE b t PX 60000 BLOCK 0");
    let expected = format!("-DEADLOCK a held by client {waiting_id} waits for b held by client {two_id}");
    assert_eq!(two.call("LOCK.ACQUIRE a u PX 1000 BLOCK 0"), expected);
    // The lock of a token that waits on several connections is held for ever only if none of them is served.
    let _served = wait_for_key(&server, "c", "t");
    let _two = block(&server, two, "LOCK.ACQUIRE a u PX 1000 BLOCK 0");
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 1);
}

/// Queues a new client with a token for a lock that may be released at any time.
fn wait_for_key(server: &TestServer, key: &str, token: &str) -> Client {
    server.client().int(&format!("LOCK.ACQUIRE {key} another PX 60000"));
    block(server, server.client(), &format!("LOCK.ACQUIRE {key} {token} PX 1000 BLOCK 0"))
}

#[test]
fn a_client_that_waits_for_its_own_session_lock_under_another_token_is_a_cycle() {
    let server = TestServer::start();
    let (mut one, id) = holder(&server, "a");
    assert_eq!(one.call("LOCK.ACQUIRE a other PX 1000 BLOCK 0"), format!("-DEADLOCK a held by client {id}"));
    // Without SESSION another connection may release it.
    one.int("LOCK.ACQUIRE b mine PX 60000");
    let mut one = waits(&server, one, "b");
    assert_eq!(server.client().call("LOCK.RELEASE b mine"), ":1");
    acquired(&mut one);
}

#[test]
fn who_can_still_be_served_waits() {
    let server = TestServer::start();
    let mut other = server.client();
    // Held by tokens without sessions that no client waits with.
    let (mut one, mut two) = (server.client(), server.client());
    one.int("LOCK.ACQUIRE a t1 PX 60000");
    two.int("LOCK.ACQUIRE b t2 PX 60000");
    let _one = waits(&server, one, "b");
    let _two = waits(&server, two, "a");
    // Taken by SET NX.
    let (three, _) = holder(&server, "c");
    assert_eq!(other.call("SET d new NX"), "+OK");
    let _three = block(&server, three, "LOCK.ACQUIRE d t3 PX 1000 BLOCK 0");
    let _fourth = wait_for_key(&server, "e", "new");
    let (five, _) = holder(&server, "f");
    let _five = block(&server, five, "LOCK.ACQUIRE c t5 PX 1000 BLOCK 0");
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 0);
}

#[test]
fn who_waits_for_permits_is_refused_only_if_those_that_can_be_given_back_are_too_few() {
    let server = TestServer::start();
    let (mut one, mut two, mut three) = (server.client(), server.client(), server.client());
    let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
    one.int("LOCK.ACQUIRE p of-one PERMITS 2 OF 4 SESSION");
    three.int("LOCK.ACQUIRE p of-three PERMITS 1 PX 60000");
    two.int("LOCK.ACQUIRE k of-two SESSION");
    let _one = waits(&server, one, "k");
    let deadlock = format!("-DEADLOCK p held by client {first} waits for k held by client {second}");
    assert_eq!(two.call("LOCK.ACQUIRE p two PERMITS 3 PX 1000 BLOCK 0"), deadlock);
    // One is free, and another can become free.
    let mut two = super::block(&server, two, "LOCK.ACQUIRE p two PERMITS 2 PX 1000 BLOCK 0");
    assert_eq!(three.call("LOCK.RELEASE p of-three"), ":1");
    super::acquired(&mut two);
}

#[test]
fn nobody_is_refused_who_would_not_wait() {
    let server = TestServer::start();
    let (one, _) = holder(&server, "a");
    let (mut two, _) = holder(&server, "b");
    let _one = waits(&server, one, "b");
    two.expect(&[
        ("LOCK.ACQUIRE a t PX 1000", "$-1"),
        ("MULTI", "+OK"),
        ("LOCK.ACQUIRE a t PX 1000 BLOCK 0", "+QUEUED"),
        ("EXEC", "*1 $-1"),
        #[cfg(feature = "lua")]
        ("EVAL return(redis.call('lock.acquire','a','t','PX','1000','BLOCK','0')) 0", "$-1"),
    ]);
    let error = two.call("LOCK.ACQUIRE a t PX 1000 BLOCK 0");
    assert!(error.starts_with("-DEADLOCK "), "{error}");
}

#[test]
fn a_lock_that_has_expired_is_free() {
    let server = TestServer::start();
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    one.int("LOCK.ACQUIRE a t1 PX 60000 SESSION");
    two.int("LOCK.ACQUIRE b t2 PX 100 SESSION");
    let mut one = waits(&server, one, "b");
    // Nothing is swept: the examination itself finds that the lock has expired.
    server.server().namespace().clock.advance(std::time::Duration::from_millis(200));
    let _two = waits(&server, two, "a");
    acquired(&mut one);
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 0);
}

#[test]
fn a_cycle_is_waited_out_and_shown_if_the_setting_says_so() {
    let server = TestServer::start_with(&[("lock-deadlock", "wait")]);
    let (one, one_id) = holder(&server, "a");
    let (two, two_id) = holder(&server, "b");
    let (three, _) = holder(&server, "c");
    let mut other = server.client();
    let mut one = waits(&server, one, "b");
    let mut two = waits(&server, two, "a");
    let _three = waits(&server, three, "a");
    let cycle = |key: &str, other: &mut Client| {
        other.call(&format!("LOCK.INFO {key}")).split("deadlock ").nth(1).map(str::to_owned)
    };
    assert_eq!(cycle("a", &mut other), Some(format!("*4 $1 a :{one_id} $1 b :{two_id}")));
    assert_eq!(cycle("b", &mut other), Some(format!("*4 $1 b :{two_id} $1 a :{one_id}")));
    // A lock whose holder waits for one of the cycle.
    assert_eq!(cycle("c", &mut other), Some(format!("*4 $1 a :{one_id} $1 b :{two_id}")));
    server.advance_ms(5000);
    assert_eq!((one.reply(), two.reply()), ("$-1".to_owned(), "$-1".to_owned()));
    other.expect(&[
        ("CONFIG SET lock-deadlock error", "+OK"),
        ("CONFIG GET lock-deadlock", "*2 $13 lock-deadlock $5 error"),
    ]);
    let _one = waits(&server, one, "b");
    assert!(two.call("LOCK.ACQUIRE a new PX 1000 BLOCK 5000").starts_with("-DEADLOCK a held by client "));
}

#[test]
fn a_key_in_the_error_is_quoted_and_cut() {
    let server = TestServer::start();
    for (number, (key, shown)) in [
        ("plain:1", "plain:1".to_owned()),
        ("a\r\n+OK", r#""a\r\n+OK""#.to_owned()),
        ("a held by client 3", r#""a held by client 3""#.to_owned()),
        ("", r#""""#.to_owned()),
        ("\u{e4}", r#""\xc3\xa4""#.to_owned()),
        (&"x".repeat(65), "x".repeat(64)),
    ]
    .into_iter()
    .enumerate()
    {
        let other_key = format!("b{number}");
        let (mut one, mut two) = (server.client(), server.client());
        let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
        one.call_args(&["LOCK.ACQUIRE", key, "one", "SESSION"]);
        two.int(&format!("LOCK.ACQUIRE {other_key} two SESSION"));
        let _one = block(&server, one, &format!("LOCK.ACQUIRE {other_key} new PX 1000 BLOCK 0"));
        let expected =
            |key: &str| format!("-DEADLOCK {key} held by client {first} waits for {other_key} held by client {second}");
        let request = ["LOCK.ACQUIRE", key, "new", "PX", "1000", "BLOCK", "0"];
        assert_eq!(two.call_args(&request), expected(&shown.replace('\\', r"\\")));
        assert_eq!(two.call("PING"), "+PONG");
    }
}

#[test]
fn locks_that_a_user_may_not_read_are_question_marks() {
    let server = TestServer::start();
    let mut other = server.client();
    assert_eq!(other.call("ACL SETUSER u on nopass ~mine +@all"), "+OK");
    let (one, one_id) = holder(&server, "mine");
    let (two, two_id) = holder(&server, "secret");
    let (mut three, three_id) = holder(&server, "b");
    let _one = waits(&server, one, "secret");
    let _two = waits(&server, two, "b");
    assert_eq!(three.call("AUTH u x"), "+OK");
    assert_eq!(
        three.call("LOCK.ACQUIRE mine u PX 1000 BLOCK 0"),
        format!(
            "-DEADLOCK mine held by client {one_id} waits for ? held by client {two_id} waits for ? held by client \
             {three_id}"
        )
    );
    assert_eq!(other.call("CONFIG SET lock-deadlock wait"), "+OK");
    let _three = waits(&server, three, "mine");
    let mut user = server.client();
    assert_eq!(user.call("AUTH u x"), "+OK");
    let shown = format!("deadlock *6 $4 mine :{one_id} $1 ? :{two_id} $1 ? :{three_id}");
    assert!(user.call("LOCK.INFO mine").ends_with(&shown));
}

#[test]
fn of_a_cycle_that_is_closed_on_two_workers_at_once_exactly_one_is_refused() {
    let server = TestServer::start();
    let mut other = server.client();
    for round in 1..=200 {
        let mut clients = [server.client(), server.client(), server.client()];
        let count = 2 + (round as usize) % 2;
        let clients = &mut clients[..count];
        for (at, client) in clients.iter_mut().enumerate() {
            client.int(&format!("LOCK.ACQUIRE {round}:{at} t{at} SESSION"));
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let next = (at + 1) % count;
            client.send(format!("LOCK.ACQUIRE {round}:{next} u{at} SESSION BLOCK 0\r\n").as_bytes());
        }
        wait_until(|| locks_info(&mut other, "deadlocks_total") == round);
        wait_until(|| locks_info(&mut other, "waiting") == count as i64 - 1);
        assert_eq!(other.call("FLUSHALL"), "+OK");
        let replies: Vec<String> = clients.iter_mut().map(Client::reply).collect();
        let refused = replies.iter().filter(|reply| reply.starts_with("-DEADLOCK ")).count();
        let served = replies.iter().filter(|reply| reply.starts_with(':')).count();
        assert_eq!((refused, served), (1, count - 1), "{replies:?}");
    }
}

#[test]
fn a_client_that_was_refused_is_served_in_line_when_it_asks_for_another_lock() {
    let server = TestServer::start();
    let (one, _) = holder(&server, "a");
    let (mut two, _) = holder(&server, "b");
    let mut keeper = server.client();
    keeper.int("LOCK.ACQUIRE k t PX 60000");
    let mut first = wait_for(&server, "first");
    let _one = waits(&server, one, "b");
    assert!(two.call("LOCK.ACQUIRE a new PX 1000 BLOCK 0").starts_with("-DEADLOCK "));
    let mut two = waits(&server, two, "k");
    assert_eq!(keeper.call("LOCK.RELEASE k t"), ":1");
    acquired(&mut first);
    assert_eq!(first.call("LOCK.RELEASE k first"), ":1");
    acquired(&mut two);
}

#[test]
fn a_place_that_is_kept_for_a_client_that_has_gone_is_in_no_cycle() {
    let server = TestServer::start_with(&[("session-grace-ms", "5000")]);
    let (mut one, mut two, mut three, mut other) = (server.client(), server.client(), server.client(), server.client());
    let first = one.int("CLIENT ID");
    one.int("LOCK.ACQUIRE p of-one PERMITS 2 OF 4 SESSION");
    three.int("LOCK.ACQUIRE p of-three PERMITS 1 PX 60000");
    two.int("LOCK.ACQUIRE k of-two SESSION");
    let _one = waits(&server, one, "k");
    // It would need a permit of the first one; the client behind it would not.
    let leaving = block(&server, server.client(), "LOCK.ACQUIRE p away PERMITS 3 SESSION BLOCK 0");
    let error = two.call("LOCK.ACQUIRE p two PERMITS 2 PX 1000 BLOCK 0");
    assert!(error.starts_with(&format!("-DEADLOCK p held by client {first} ")), "{error}");
    drop(leaving);
    wait_until(|| locks_info(&mut other, "kept_places") == 1);
    let mut two = block(&server, two, "LOCK.ACQUIRE p two PERMITS 2 PX 1000 BLOCK 0");
    assert_eq!(three.call("LOCK.RELEASE p of-three"), ":1");
    acquired(&mut two);
    assert_eq!(locks_info(&mut other, "deadlocks_total"), 1);
}
