//! The queue for a lock: the order of grants, several locks that become free at once, and several workers.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use super::{acquired, block, fence};
use crate::harness::TestServer;

#[test]
fn locks_that_one_command_frees_are_handed_over_in_the_order_in_which_those_in_line_have_come() {
    let server = TestServer::start();
    let mut client = server.client();
    for command in ["DEL a b c d", "DEL d c b a", "FLUSHALL", "SWAPDB 0 1"] {
        client.expect(&[("FLUSHALL", "+OK")]);
        let keys = ["c", "a", "d", "b"];
        keys.iter().for_each(|key| _ = fence(&mut client, &format!("LOCK.ACQUIRE {key} t PX 60000")));
        let waits = |key: &&str| block(&server, server.client(), &format!("LOCK.ACQUIRE {key} u PX 1000 BLOCK 0"));
        let mut waiting: Vec<_> = keys.iter().map(waits).collect();
        client.call(command);
        let fences: Vec<i64> = waiting.iter_mut().map(acquired).collect();
        assert!(fences.is_sorted(), "{fences:?} after {command}");
    }
}

/// Guard that sets a flag, also when the test fails, because other threads wait for the flag.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_poller_on_another_worker_never_comes_between_a_release_and_the_next_in_line() {
    const ROUNDS: usize = 300;
    let server = TestServer::start_on_workers(2);
    let is_over = AtomicBool::new(false);
    let mut holder = server.client();
    fence(&mut holder, "LOCK.ACQUIRE k 0 PX 3600000");
    thread::scope(|scope| {
        // Connections go to the workers in turn.
        for _ in 0..4 {
            let mut poller = server.client();
            let is_over = &is_over;
            scope.spawn(move || {
                let requests = vec!["SETNX k poller".to_owned(); 50];
                while !is_over.load(SeqCst) {
                    assert!(poller.pipeline(&requests).iter().all(|reply| reply == ":0"));
                }
            });
        }
        let _end = SetOnDrop(&is_over);
        let mut waiting = Vec::new();
        let is_handed_over = (0..ROUNDS).all(|round| {
            let next = format!("LOCK.ACQUIRE k {} PX 3600000 BLOCK 0", round + 1);
            waiting.push(block(&server, server.client(), &next));
            holder.call(&format!("LOCK.RELEASE k {round}")) == ":1" && !holder.call("GET k").contains("poller")
        });
        assert!(is_handed_over);
    });
}

#[test]
fn a_client_that_may_not_have_the_lock_in_its_turn_makes_way_for_the_next() {
    let server = TestServer::start();
    let (mut client, mut bob) = (server.client(), server.client());
    client.expect(&[("ACL SETUSER bob on nopass ~k +@all", "+OK")]);
    fence(&mut client, "LOCK.ACQUIRE k t PX 60000");
    bob.expect(&[("AUTH bob x", "+OK")]);
    let mut bob = block(&server, bob, "LOCK.ACQUIRE k b PX 60000 BLOCK 0");
    let mut next = block(&server, server.client(), "LOCK.ACQUIRE k next PX 60000 BLOCK 0");
    client.expect(&[("ACL SETUSER bob resetkeys", "+OK"), ("LOCK.RELEASE k t", ":1"), ("GET k", "$4 next")]);
    assert!(bob.reply().starts_with("-NOPERM "));
    acquired(&mut next);
}

#[test]
fn a_hold_is_over_at_its_deadline_also_before_the_sweeper_comes() {
    let server = TestServer::start();
    let mut client = server.client();
    let late = |ms| server.server().namespace().clock.advance(std::time::Duration::from_millis(ms));
    for mode in ["SHARED", "PERMITS 1 OF 2"] {
        for (request, reply) in [
            ("LOCK.RENEW k a PX 60000", "$-1"),
            ("LOCK.RELEASE k a", ":0"),
            ("LOCK.FENCE k a", "$-1"),
            ("LOCK.ACQUIRE k a PX 60000", "$-1"),
        ] {
            client.expect(&[("FLUSHALL", "+OK")]);
            fence(&mut client, &format!("LOCK.ACQUIRE k a {mode} PX 1000"));
            fence(&mut client, &format!("LOCK.ACQUIRE k b {mode} PX 90000"));
            late(1000);
            client.expect(&[(request, reply), ("LOCK.RELEASE k b", ":1"), ("EXISTS k", ":0")]);
        }
    }
}

#[test]
fn who_waits_for_several_locks_and_may_not_have_them_in_its_turn_makes_way_for_the_next_at_each() {
    let server = TestServer::start();
    let (mut client, mut bob) = (server.client(), server.client());
    client.expect(&[("ACL SETUSER bob on nopass ~* +@all", "+OK")]);
    fence(&mut client, "LOCK.ACQUIRE a t PX 60000");
    bob.expect(&[("AUTH bob x", "+OK")]);
    let mut bob = block(&server, bob, "LOCK.ACQUIREMULTI 2 a b bob PX 60000 BLOCK 0");
    let mut next =
        ["a", "b"].map(|key| block(&server, server.client(), &format!("LOCK.ACQUIRE {key} u PX 1000 BLOCK 0")));
    client.expect(&[("ACL SETUSER bob resetkeys ~a", "+OK"), ("LOCK.RELEASE a t", ":1")]);
    assert!(bob.reply().starts_with("-NOPERM "));
    next.iter_mut().for_each(|next| _ = acquired(next));
}
