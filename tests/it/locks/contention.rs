//! Three kinds of clients contend for one key: SETNX with a timestamp, SET NX PX with a compare-and-delete, and
//! `LOCK.*`.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use keylatch::Clock;

use crate::harness::{Client, TestServer};

const CLIENTS_OF_EACH_KIND: usize = 3;
const TURNS: usize = 40;

/// Script that deletes a key only if it contains a token.
#[cfg(feature = "lua")]
const RELEASE: [&str; 3] =
    ["EVAL", "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end", "1"];

/// Data that only the holder of the lock may change.
#[derive(Default)]
struct Resource {
    inside: AtomicUsize,
    turns: AtomicUsize,
}

impl Resource {
    fn use_alone(&self, kind: &str) {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "{kind} overlaps");
        thread::yield_now();
        self.turns.fetch_add(1, SeqCst);
        assert_eq!(self.inside.fetch_sub(1, SeqCst), 1, "{kind} overlaps");
    }
}

/// Returns the timestamp of a lock that ends in a minute, different from those of all other clients.
fn timestamp(clock: &Clock, number: usize) -> i64 {
    (clock.now().wall_ms() + 60_000) * 1000 + number as i64
}

/// Returns whether a value is the timestamp of a lock that has ended.
fn has_ended(clock: &Clock, value: &str) -> bool {
    let digits = value.split(' ').next_back().unwrap_or_default();
    digits.parse::<i64>().is_ok_and(|timestamp| timestamp / 1000 < clock.now().wall_ms())
}

/// Acquires the lock by SETNX, or by GETSET if the timestamp of the holder has passed.
fn acquire_by_timestamp(client: &mut Client, clock: &Clock, number: usize) {
    loop {
        if client.call(&format!("SETNX k {}", timestamp(clock, number))) == ":1" {
            return;
        }
        let seen = client.call("GET k");
        if has_ended(clock, &seen) {
            let before = client.call(&format!("GETSET k {}", timestamp(clock, number)));
            if has_ended(clock, &before) {
                return;
            }
        }
        thread::yield_now();
    }
}

fn contend_by_timestamp(client: &mut Client, clock: &Clock, number: usize, resource: &Resource) {
    for _ in 0..TURNS {
        acquire_by_timestamp(client, clock, number);
        resource.use_alone("SETNX");
        assert_eq!(client.call("DEL k"), ":1");
    }
}

fn contend_by_set_nx(client: &mut Client, number: usize, resource: &Resource) {
    for turn in 0..TURNS {
        let token = format!("set-{number}-{turn}");
        while client.call(&format!("SET k {token} NX PX 600000")) != "+OK" {
            thread::yield_now();
        }
        resource.use_alone("SET NX");
        #[cfg(feature = "lua")]
        let released = client.call_args(&[&RELEASE[..], &["k", &token]].concat());
        #[cfg(not(feature = "lua"))]
        let released = client.call(&format!("DELEX k IFEQ {token}"));
        assert_eq!(released, ":1");
    }
}

fn contend_by_lock(client: &mut Client, number: usize, resource: &Resource) {
    let mut last = 0;
    for turn in 0..TURNS {
        let token = format!("lock-{number}-{turn}");
        let fence = client.int(&format!("LOCK.ACQUIRE k {token} PX 600000 BLOCK 0"));
        assert!(fence > last);
        last = fence;
        resource.use_alone("LOCK.ACQUIRE");
        assert_eq!(client.call(&format!("LOCK.RELEASE k {token}")), ":1");
    }
}

#[test]
fn clients_of_all_patterns_exclude_each_other() {
    let server = TestServer::start_in_real_time();
    let (clock, resource) = (Clock::system(), Resource::default());
    // The lock of a client that has died long ago: one of the clients that take it over by GETSET gets it.
    assert_eq!(server.client().call("SET k 1000000"), "+OK");
    let (all, have_taken_over) = (Barrier::new(3 * CLIENTS_OF_EACH_KIND), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS_OF_EACH_KIND {
            let (server, clock, resource, all, taken_over) = (&server, &clock, &resource, &all, &have_taken_over);
            scope.spawn(move || {
                let mut client = server.client();
                let before = client.call(&format!("GETSET k {}", timestamp(clock, number)));
                taken_over.fetch_add(usize::from(has_ended(clock, &before)), SeqCst);
                if all.wait().is_leader() || number == 0 {
                    client.call("DEL k");
                }
                all.wait();
                contend_by_timestamp(&mut client, clock, number, resource);
            });
            scope.spawn(move || {
                let mut client = server.client();
                all.wait();
                all.wait();
                contend_by_set_nx(&mut client, number, resource);
            });
            scope.spawn(move || {
                let mut client = server.client();
                all.wait();
                all.wait();
                contend_by_lock(&mut client, number, resource);
            });
        }
    });
    assert_eq!(have_taken_over.into_inner(), 1);
    assert_eq!(resource.turns.into_inner(), 3 * CLIENTS_OF_EACH_KIND * TURNS);
    assert_eq!(server.client().call("EXISTS k"), ":0");
}
