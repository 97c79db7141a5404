//! The time of a call: a lock lives for its whole TTL, and no client sees a key after its deadline, however long
//! earlier calls or waits took.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer, wait_until};

/// String that takes about a millisecond to count, and several in an unoptimized server.
const BIG: &str = "SETRANGE big 8388607 x";

fn bulk(reply: &str) -> i64 {
    reply.split(' ').next_back().and_then(|digits| digits.trim_start_matches(':').parse().ok()).expect("a number")
}

/// Returns the time in milliseconds from a reply of TIME.
fn time_ms(reply: &str) -> i64 {
    let numbers: Vec<i64> = reply.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers[0] * 1000 + numbers[1] / 1000
}

#[test]
fn a_ttl_counts_from_its_command_and_not_from_the_first_of_a_slow_batch() {
    for workers in [1, 2] {
        let server = TestServer::start_with_workers(Server::builder(), workers);
        let mut client = server.client();
        client.call(BIG);
        for set in ["SET L me NX PX 100000", "PSETEX L 100000 me", "GETEX old PX 100000", "MSETEX 1 L me PX 100000"] {
            client.expect(&[("DEL L old", ":0"), ("SET old 1", "+OK")]);
            let key = if set.starts_with("GETEX") { "old" } else { "L" };
            client.send(format!("{}TIME\r\n{set}\r\nPEXPIRETIME {key}\r\n", "BITCOUNT big\r\n".repeat(20)).as_bytes());
            (0..20).for_each(|_| assert_eq!(client.reply(), ":4"));
            let before_ms = time_ms(&client.reply());
            client.reply();
            let ends_ms = bulk(&client.reply());
            assert!(ends_ms >= before_ms + 100_000, "{set}: {} ms short", before_ms + 100_000 - ends_ms);
            client.call("DEL L old");
        }
    }
}

#[test]
fn a_key_that_expires_during_a_slow_batch_is_not_seen_by_its_later_requests() {
    for workers in [1, 2] {
        let server = TestServer::start_with_workers(Server::builder(), workers);
        let mut client = server.client();
        client.call(BIG);
        client.send(format!("SET k v PX 1\r\n{}GET k\r\n", "BITCOUNT big\r\n".repeat(20)).as_bytes());
        assert_eq!(client.reply(), "+OK");
        (0..20).for_each(|_| assert_eq!(client.reply(), ":4"));
        assert_eq!(client.reply(), "$-1");
    }
}

#[test]
fn a_lock_that_was_waited_for_lives_from_when_it_was_taken() {
    for workers in [1, 2] {
        let server = TestServer::start_on_workers(workers);
        let namespace = server.server().namespace();
        let mut client = server.client();
        for requests in ["SET L me NX PX 1000\r\n", "PING\r\nPING\r\nPING\r\nPING\r\nSET L me NX PX 1000\r\n"] {
            let read = || namespace.observed.stats.bytes_in.load(Ordering::Relaxed);
            let before = read();
            let held = namespace.store.exclusive();
            client.send(requests.as_bytes());
            wait_until(|| read() > before);
            namespace.clock.advance(Duration::from_millis(1650));
            drop(held);
            requests.lines().for_each(|_| assert!(client.reply().starts_with('+')));
            client.expect(&[("PTTL L", ":1000"), ("DEL L", ":1")]);
        }
    }
}

#[test]
fn a_call_that_waited_for_the_gate_does_not_find_a_key_that_expired_meanwhile() {
    for workers in [1, 2] {
        let server = TestServer::start_on_workers(workers);
        let namespace = server.server().namespace();
        let mut client = server.client();
        let read = || namespace.observed.stats.bytes_in.load(Ordering::Relaxed);
        for requests in ["GET k\r\n", "GET k\r\nGET k\r\nGET k\r\nGET k\r\nGET k\r\n", "EXEC\r\n"] {
            client.expect(&[("SET k v PX 100", "+OK")]);
            if requests == "EXEC\r\n" {
                client.expect(&[("MULTI", "+OK"), ("GET k", "+QUEUED")]);
            }
            let (before, held) = (read(), namespace.store.exclusive());
            client.send(requests.as_bytes());
            wait_until(|| read() > before);
            namespace.clock.advance(Duration::from_millis(200));
            drop(held);
            let expected = if requests == "EXEC\r\n" { "*1 $-1" } else { "$-1" };
            requests.lines().for_each(|_| assert_eq!(client.reply(), expected, "{requests}"));
        }
    }
}

#[test]
fn a_call_that_waited_for_a_shard_does_not_find_a_key_that_expired_meanwhile() {
    let server = TestServer::start_on_workers(2);
    let namespace = server.server().namespace();
    let mut client = server.client();
    let read = || namespace.observed.stats.bytes_in.load(Ordering::Relaxed);
    // Several rounds, because the call has begun when the time passes only with a high probability.
    for _ in 0..10 {
        client.expect(&[("SET k v PX 100", "+OK")]);
        keylatch::internals::with_shard_locked(namespace, b"k", || {
            let before = read();
            client.send(b"GET k\r\n");
            wait_until(|| read() > before);
            namespace.clock.advance(Duration::from_millis(200));
        });
        assert_eq!(client.reply(), "$-1");
    }
}

#[test]
#[cfg(feature = "lua")]
fn a_lock_that_a_script_takes_late_lives_for_its_time_from_then_on() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    client.expect(&[("DEBUG SET-DISABLE-DENY-SCRIPTS 1", "+OK")]);
    let began_ms = time_ms(&client.call("TIME"));
    // The sleep moves the manual clock; the script's own time does not change.
    let script = "redis.call('DEBUG', 'SLEEP', '1.65') redis.call('SET', KEYS[1], 'me', 'PX', 1000) \
                  return {redis.call('PTTL', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}";
    let expected = format!("*2 :1000 :{}", began_ms + 2650);
    assert_eq!(client.call_args(&["EVAL", script, "1", "L"]), expected);
    client.expect(&[("PTTL L", ":1000")]);
}

#[test]
fn no_client_sees_a_longer_ttl_than_was_set_nor_an_early_expiry() {
    let server = TestServer::start_in_real_time();
    let mut client = server.client();
    for round in 0..500 {
        let before_ms = time_ms(&client.call("TIME"));
        client.send(b"SET k v PX 5\r\nPTTL k\r\nPEXPIRETIME k\r\n");
        assert_eq!(client.reply(), "+OK");
        let (left, ends) = (bulk(&client.reply()), bulk(&client.reply()));
        // Requested alone: requests of one batch may get a time that is a tenth of a millisecond old.
        let after_ms = time_ms(&client.call("TIME"));
        assert!(left <= 5, "round {round}: {left} ms left of 5");
        if ends > 0 {
            assert!((before_ms + 5..=after_ms + 6).contains(&ends), "round {round}: {before_ms} {ends} {after_ms}");
        }
    }
}

/// Period in which a holder may believe that it holds the lock.
struct Tenure {
    from: Instant,
    until: Instant,
}

/// Covers careful holders, which count the TTL from before their request: each may believe that it holds the lock from
/// the reply until its TTL is over. No two of them may do so at once, whatever other work the server has.
#[test]
#[expect(clippy::disallowed_methods, reason = "the holders are other processes, with a clock of their own")]
fn careful_holders_never_overlap() {
    const LIFE: Duration = Duration::from_millis(3);
    const TENURES: u64 = 300;
    for workers in [1, 2, 4] {
        let server = TestServer::start_with_workers(Server::builder().clock(Clock::system()), workers);
        server.client().call(BIG);
        let (tenures, taken, is_over) = (Mutex::new(Vec::new()), AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..6 {
                let (mut client, tenures, taken, is_over) = (server.client(), &tenures, &taken, &is_over);
                let request = format!("SET lock {number} NX PX {}", LIFE.as_millis());
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let asked = Instant::now();
                        if client.call(&request) != "+OK" {
                            continue;
                        }
                        let tenure = Tenure { from: Instant::now(), until: asked + LIFE };
                        if tenure.from < tenure.until {
                            tenures.lock().expect("no panic").push(tenure);
                        }
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let (disturber, is_over) = (server.client(), &is_over);
            scope.spawn(move || disturb(disturber, is_over));
            // Limited by the number of acquisitions, which take longer on a slow machine.
            for tenure in 1..=TENURES {
                wait_until(|| taken.load(Ordering::Relaxed) >= tenure);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut tenures = tenures.into_inner().expect("no panic");
        tenures.sort_by_key(|tenure| tenure.from);
        for pair in tenures.windows(2) {
            let overlap = pair[0].until.saturating_duration_since(pair[1].from);
            assert!(overlap.is_zero(), "two holders for {overlap:?} with {workers} workers");
        }
    }
}

/// Occupies the server with long commands, long batches and scripts.
fn disturb(mut client: Client, is_over: &AtomicBool) {
    let batch = format!("{}PING\r\n", "BITCOUNT big\r\n".repeat(3));
    while !is_over.load(Ordering::Relaxed) {
        client.send(batch.as_bytes());
        (0..4).for_each(|_| drop(client.reply()));
        client.call_args(&["EVAL", "for i = 1, 200000 do end return redis.call('EXISTS', 'lock')", "0"]);
        client.call("KEYS *");
    }
}
