//! The documented lock pattern: `SETNX`, then `GET`, then `GETSET`, and `DEL` to release, from many connections.
//!
//! The lock's value is the second at which it expires: the time of acquisition, plus a timeout, plus one. The algorithm
//! compares it with its own time, which these tests pass as a number; no test reads a clock or sleeps. Locks with a TTL
//! (`SET NX PX`) follow the server's manual clock.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use keylatch::internals::resp::Frame;

use crate::harness::{Client, TestServer};

const LOCK: &str = "lock.foo";

/// Maximum time that a holder may keep the lock, in seconds.
const TIMEOUT_S: i64 = 10;

/// Data of a lock that its holder knows.
#[derive(Debug)]
pub(crate) struct Held {
    until_s: i64,
}

/// Runs the documented algorithm once; `None` if another client holds the lock.
pub(crate) fn try_acquire(client: &mut Client, now_s: i64) -> Option<Held> {
    let until_s = now_s + TIMEOUT_S + 1;
    if set_if_absent(client, LOCK, until_s) {
        return Some(Held { until_s });
    }
    (is_expired(get(client, LOCK), now_s) && take_over(client, now_s)).then_some(Held { until_s })
}

/// Runs the step without a race: swap the value, then check whether the old one had expired.
fn take_over(client: &mut Client, now_s: i64) -> bool {
    let until_s = (now_s + TIMEOUT_S + 1).to_string();
    match number(client.frame(&["GETSET", LOCK, &until_s])) {
        // Deleted since it was read: this GETSET created the key, so the lock is ours.
        None => true,
        old => is_expired(old, now_s),
    }
}

/// Releases the lock, unless it has expired: then another client may hold it. Returns whether it was deleted.
pub(crate) fn release(client: &mut Client, held: &Held, now_s: i64) -> bool {
    now_s < held.until_s && client.call("DEL lock.foo") == ":1"
}

fn is_expired(until_s: Option<i64>, now_s: i64) -> bool {
    until_s.is_some_and(|until_s| now_s > until_s)
}

fn set_if_absent(client: &mut Client, key: &str, value: i64) -> bool {
    client.call(&format!("SETNX {key} {value}")) == ":1"
}

fn get(client: &mut Client, key: &str) -> Option<i64> {
    number(client.frame(&["GET", key]))
}

fn number(reply: Frame) -> Option<i64> {
    match reply {
        Frame::Null => None,
        Frame::Bulk(digits) => Some(str::from_utf8(&digits).expect("digits").parse().expect("digits")),
        other => panic!("not a number or null: {other:?}"),
    }
}

/// Runs `work` on many connections at once, each on a thread of its own, and returns the results.
fn on_clients<T: Send>(
    server: &TestServer,
    count: usize,
    work: impl Fn(usize, &mut Client, &Barrier) -> T + Sync,
) -> Vec<T> {
    let barrier = Barrier::new(count);
    let (barrier, work) = (&barrier, &work);
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..count).map(|number| scope.spawn(move || work(number, &mut server.client(), barrier))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the client's assertions hold")).collect()
    })
}

fn counters(count: usize) -> Vec<AtomicUsize> {
    (0..count).map(|_| AtomicUsize::new(0)).collect()
}

/// Fails unless every round was counted exactly once.
#[track_caller]
fn assert_once_each(rounds: &[AtomicUsize]) {
    let counts: Vec<usize> = rounds.iter().map(|count| count.load(SeqCst)).collect();
    assert!(counts.iter().all(|count| *count == 1), "not once in every round: {counts:?}");
}

#[test]
fn setnx_wins_exactly_once_among_64_clients() {
    const ROUNDS: usize = 50;
    let server = TestServer::start();
    let winners = counters(ROUNDS);
    on_clients(&server, 64, |number, client, start| {
        for (round, winners) in winners.iter().enumerate() {
            let key = format!("lock.{round}");
            start.wait();
            let won = set_if_absent(client, &key, number as i64);
            let holder = get(client, &key).expect("a client has won by now");
            assert_eq!(won, holder == number as i64, "the value is the winner's");
            winners.fetch_add(usize::from(won), SeqCst);
        }
    });
    assert_once_each(&winners);
}

/// Covers holders that crash: in every round the lock is not deleted, and the next round takes place after its expiry.
#[test]
fn a_crashed_holders_lock_is_taken_over_by_exactly_one_of_8_contenders_a_thousand_times() {
    const ROUNDS: usize = 1000;
    let server = TestServer::start_on_workers(2);
    assert!(try_acquire(&mut server.client(), 0).is_some(), "C3 takes the lock and crashes");
    let winners = counters(ROUNDS);
    on_clients(&server, 8, |_, client, step| {
        for (round, winners) in winners.iter().enumerate() {
            let now_s = (round as i64 + 1) * (TIMEOUT_S + 2);
            step.wait();
            // In even rounds all clients have seen the expired value before the first of them swaps it; in odd ones
            // they race through the whole algorithm.
            let won = if round % 2 == 0 {
                assert!(!set_if_absent(client, LOCK, now_s + TIMEOUT_S + 1));
                assert!(is_expired(get(client, LOCK), now_s));
                step.wait();
                take_over(client, now_s)
            } else {
                try_acquire(client, now_s).is_some()
            };
            winners.fetch_add(usize::from(won), SeqCst);
            step.wait();
            assert!(!is_expired(get(client, LOCK), now_s), "the losers' GETSET leaves the lock taken");
            assert!(try_acquire(client, now_s).is_none(), "the lock stays taken until its time is over");
        }
    });
    assert_once_each(&winners);
}

#[test]
fn a_counter_guarded_by_the_lock_loses_no_update() {
    const CLIENTS: usize = 8;
    const SECTIONS: usize = 100;
    let server = TestServer::start_on_workers(2);
    server.client().expect(&[("SET counter 0", "+OK")]);
    on_clients(&server, CLIENTS, |_, client, start| {
        start.wait();
        for _ in 0..SECTIONS {
            let held = loop {
                match try_acquire(client, 100) {
                    Some(held) => break held,
                    None => thread::yield_now(),
                }
            };
            let count = get(client, "counter").expect("set before");
            client.expect(&[(&format!("SET counter {}", count + 1), "+OK")]);
            assert!(release(client, &held, 100), "the holder's own lock");
        }
    });
    assert_eq!(get(&mut server.client(), "counter"), Some((CLIENTS * SECTIONS) as i64));
    assert_eq!(get(&mut server.client(), LOCK), None);
}

/// Runs steps on two connections, one after the other; a step names its client, C1 or C2.
#[track_caller]
fn play(clients: &mut [Client; 2], steps: &[(usize, &str, &str)]) {
    for (number, words, reply) in steps {
        assert_eq!(clients[number - 1].call(words), *reply, "C{number}: {words}");
    }
}

#[test]
fn taking_over_with_del_and_setnx_gives_the_lock_to_two_clients() {
    let server = TestServer::start();
    let mut clients = [server.client(), server.client()];
    play(
        &mut clients,
        &[
            (1, "SET lock.foo 100", "+OK"), // C3's, which has crashed; it is now past 100
            (1, "SETNX lock.foo 211", ":0"),
            (2, "SETNX lock.foo 212", ":0"),
            (1, "GET lock.foo", "$3 100"),
            (2, "GET lock.foo", "$3 100"),
            (1, "DEL lock.foo", ":1"),
            (1, "SETNX lock.foo 211", ":1"), // C1 holds the lock
            (2, "DEL lock.foo", ":1"),       // C1's lock, not C3's
            (2, "SETNX lock.foo 212", ":1"), // and so does C2: the documented race
            (1, "GET lock.foo", "$3 212"),
        ],
    );
}

#[test]
fn taking_over_with_getset_gives_the_lock_to_one_client_in_the_same_interleaving() {
    let now_s = 200;
    let server = TestServer::start();
    let mut clients = [server.client(), server.client()];
    play(
        &mut clients,
        &[
            (1, "SET lock.foo 100", "+OK"),
            (1, "SETNX lock.foo 211", ":0"),
            (2, "SETNX lock.foo 212", ":0"),
            (1, "GET lock.foo", "$3 100"),
            (2, "GET lock.foo", "$3 100"),
            (1, "GETSET lock.foo 211", "$3 100"), // expired: C1 holds the lock
            (2, "GETSET lock.foo 212", "$3 211"), // not expired: C2 starts again
            (2, "SETNX lock.foo 212", ":0"),
            (2, "GET lock.foo", "$3 212"), // C2 has extended C1's lock slightly, which is harmless
        ],
    );
    assert!(is_expired(Some(100), now_s) && !is_expired(Some(211), now_s));
    assert!(release(&mut clients[0], &Held { until_s: 211 }, now_s));
    assert!(try_acquire(&mut clients[1], now_s).is_some());
}

#[test]
fn of_many_clients_that_miss_the_cache_at_once_one_loads_from_the_database() {
    const ROUNDS: usize = 50;
    let server = TestServer::start_on_workers(2);
    let loads = counters(ROUNDS);
    on_clients(&server, 32, |_, client, step| {
        for (round, loads) in loads.iter().enumerate() {
            let key = format!("cache.{round}");
            step.wait();
            assert_eq!(get(client, &key), None);
            step.wait(); // all have missed
            assert_eq!(read_through(client, &key, loads), 42 + round as i64);
            step.wait();
        }
    });
    assert_once_each(&loads);
}

/// Reads the cache, or fills it under the lock.
fn read_through(client: &mut Client, key: &str, loads: &AtomicUsize) -> i64 {
    loop {
        if let Some(held) = try_acquire(client, 100) {
            // The cache may have been filled between the miss and the lock: look again.
            let value = get(client, key).unwrap_or_else(|| load(client, key, loads));
            assert!(release(client, &held, 100));
            return value;
        }
        if let Some(value) = get(client, key) {
            return value;
        }
        thread::yield_now();
    }
}

/// Reads from the database, which counts the reads, and fills the cache.
fn load(client: &mut Client, key: &str, loads: &AtomicUsize) -> i64 {
    loads.fetch_add(1, SeqCst);
    let round: i64 = key.trim_start_matches("cache.").parse().expect("the round");
    client.expect(&[(&format!("SET {key} {} EX 60", 42 + round), "+OK")]);
    42 + round
}

#[test]
fn a_holder_that_checks_its_timeout_before_del_does_not_delete_anothers_lock() {
    let server = TestServer::start();
    let (mut slow, mut next, mut third) = (server.client(), server.client(), server.client());
    let slows = try_acquire(&mut slow, 100).expect("the lock is free");
    assert!(try_acquire(&mut next, 111).is_none(), "in its last second the lock is still held");
    let nexts = try_acquire(&mut next, 112).expect("the lock's time is over");

    assert!(!release(&mut slow, &slows, 112), "too late to delete");
    assert!(try_acquire(&mut third, 112).is_none(), "the next holder still has it");
    assert!(release(&mut next, &nexts, 113));
    assert!(try_acquire(&mut third, 113).is_some());
}

#[test]
fn a_holder_that_does_not_check_its_timeout_deletes_anothers_lock() {
    let server = TestServer::start();
    let (mut slow, mut next, mut third) = (server.client(), server.client(), server.client());
    assert!(try_acquire(&mut slow, 100).is_some());
    assert!(try_acquire(&mut next, 112).is_some());
    slow.expect(&[("DEL lock.foo", ":1")]);
    assert!(try_acquire(&mut third, 112).is_some(), "two holders: why the check is there");
}

#[test]
fn a_lock_with_a_ttl_passes_to_the_next_client_when_its_time_is_over() {
    let server = TestServer::start();
    let (mut first, mut next) = (server.client(), server.client());
    first.expect(&[("SET lock.foo first NX PX 3000", "+OK")]);
    next.expect(&[("SET lock.foo next NX PX 3000", "$-1"), ("SETNX lock.foo next", ":0")]);
    server.advance_ms(2999);
    next.expect(&[("SET lock.foo next NX PX 3000", "$-1"), ("PTTL lock.foo", ":1")]);
    server.advance_ms(1);
    next.expect(&[("SET lock.foo next NX PX 3000", "+OK"), ("PTTL lock.foo", ":3000")]);
    first.expect(&[("SET lock.foo first NX PX 3000", "$-1"), ("GET lock.foo", "$4 next")]);
}

#[test]
fn a_lock_with_a_ttl_passes_to_exactly_one_of_8_contenders() {
    const ROUNDS: usize = 100;
    let server = TestServer::start_on_workers(2);
    let winners = counters(ROUNDS);
    on_clients(&server, 8, |number, client, step| {
        for winners in &winners {
            if step.wait().is_leader() {
                server.advance_ms(3000); // the lock of the previous round expires
            }
            step.wait();
            let reply = client.call(&format!("SET lock.foo {number} NX PX 3000"));
            winners.fetch_add(usize::from(reply == "+OK"), SeqCst);
        }
    });
    assert_once_each(&winners);
}

#[test]
fn a_jump_of_the_wall_clock_neither_expires_nor_extends_a_lock_with_a_ttl() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let server = TestServer::start();
    let mut client = server.client();
    let wall_ms = server.server().namespace().clock.now().wall_ms();
    for jump_ms in [DAY_MS, -DAY_MS] {
        client.expect(&[("SET lock.foo me NX PX 3000", "+OK"), ("SET lock.bar me NX EX 3", "+OK")]);
        server.server().set_wall_ms(wall_ms + jump_ms);
        client.expect(&[("SETNX lock.foo other", ":0"), ("PTTL lock.foo", ":3000"), ("PTTL lock.bar", ":3000")]);
        server.advance_ms(2999);
        client.expect(&[("SETNX lock.foo other", ":0"), ("SETNX lock.bar other", ":0")]);
        server.advance_ms(1);
        client.expect(&[("DBSIZE", ":0")]);
    }
}
