//! A hundred clients contend for one lock and die at random, in real time, and the recorded history is checked.
//!
//! A client dies while it waits or while it holds the lock: its connection is closed, or its sending side alone, or its
//! lock expires. Every attempt is one connection, so the server's id identifies it.
//!
//! A general search for a linearization is not needed. The lock's fences give the order of all acquisitions, so there
//! is one candidate, and it is valid if it contradicts no observed order: no acquisition had returned before one with a
//! smaller fence was called, and no lock was released, by a call that succeeded, after a later one was acquired. The
//! order of the waiters in LOCK.INFO must be the order of their fences.
//!
//! `KEYLATCH_LOCK_SECONDS` sets the duration, such as an hour; `KEYLATCH_LOCK_SEED` repeats the decisions of the
//! clients.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use keylatch::Clock;

use super::locks_info;
use crate::harness::{Dice, TestServer, wait_until};

const CLIENTS: u64 = 100;
/// Number of attempts of each client, unless a duration is set.
const ATTEMPTS: u64 = 10;

/// Acquisition of the lock, with ticks of a shared counter.
#[derive(Clone, Debug)]
struct Hold {
    client: u64,
    fence: i64,
    called: u64,
    returned: u64,
    /// Time when the holder began to release the lock, by a call that has succeeded.
    released: Option<u64>,
    /// Time when the holder knew that the release was done.
    ended: Option<u64>,
}

#[derive(Default)]
struct History {
    ticks: AtomicU64,
    holds: Mutex<Vec<Hold>>,
    /// Queues that LOCK.INFO has shown, without repetitions.
    lines: Mutex<BTreeSet<Vec<u64>>>,
}

impl History {
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, SeqCst)
    }
}

/// End of an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Release,
    /// The connection closes, and with it the session.
    Close,
    /// Only the sending side closes.
    HalfClose,
    /// The lock has a short TTL and no session, and its holder does nothing.
    Expire,
    /// The client closes its connection while it waits for the lock.
    CloseWaiting,
}

fn choose(dice: &mut Dice) -> End {
    match dice.roll(20) {
        0..=9 => End::Release,
        10..=12 => End::Close,
        13..=14 => End::HalfClose,
        15..=16 => End::Expire,
        _ => End::CloseWaiting,
    }
}

/// One attempt to acquire the lock and to write with its fence.
fn attempt(server: &TestServer, history: &History, dice: &mut Dice) {
    let (mut client, end) = (server.client(), choose(dice));
    let id = client.int("CLIENT ID") as u64;
    let lifetime = if end == End::Expire { "PX 5" } else { "SESSION" };
    let called = history.tick();
    client.send(format!("LOCK.ACQUIRE lock {id} {lifetime} BLOCK 0\r\n").as_bytes());
    if end == End::CloseWaiting {
        return;
    }
    let reply = client.reply();
    let returned = history.tick();
    let fence = reply.strip_prefix(':').and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("{id}: {reply}"));
    let mut hold = Hold { client: id, fence, called, returned, released: None, ended: None };
    if dice.roll(2) == 0 {
        thread::yield_now();
    }
    let written = client.call(&format!("SETIFGREATER written {id} {fence} NOGET"));
    let is_written = written == format!("*2 :{fence} $-1");
    // Only a lock that may have expired in the meantime has a successor that may have written.
    assert!(is_written || end == End::Expire, "{id} with {fence}: {written}");
    match end {
        End::Release => {
            hold.released = Some(history.tick());
            assert_eq!(client.call(&format!("LOCK.RELEASE lock {id}")), ":1", "{id}");
            hold.ended = Some(history.tick());
        }
        End::HalfClose => {
            hold.released = Some(history.tick());
            client.shut_write();
            assert!(client.read_to_end().is_empty());
        }
        End::Close => hold.released = Some(history.tick()),
        End::Expire | End::CloseWaiting => {}
    }
    history.holds.lock().expect("no poison").push(hold);
}

/// Records the queue repeatedly.
fn observe(server: &TestServer, history: &History, is_over: &AtomicBool) {
    let mut client = server.client();
    while !is_over.load(SeqCst) {
        let info = client.call("LOCK.INFO lock");
        let waiters = info.split_once("$7 waiters").map_or("", |(_, waiters)| waiters);
        let ids = waiters.split("$9 client-id :").skip(1);
        let line: Vec<u64> = ids.filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect();
        history.lines.lock().expect("no poison").insert(line);
        thread::yield_now();
    }
}

/// Asserts that the acquisitions can be explained by a mutex whose acquisitions are in the order of their fences.
fn check_order(holds: &mut [Hold]) {
    holds.sort_by_key(|hold| hold.fence);
    let (mut latest_call, mut latest_release) = (0, 0);
    for pair in holds.windows(2) {
        let [before, after] = pair else { unreachable!("windows of two") };
        assert!(before.fence < after.fence, "a fence was given twice: {before:?} {after:?}");
    }
    for hold in &*holds {
        assert!(latest_call < hold.returned, "it returned before one with a smaller fence was called: {hold:?}");
        assert!(latest_release < hold.returned, "it returned before the holder before it has released: {hold:?}");
        assert!(hold.ended.is_none_or(|ended| hold.returned < ended));
        latest_call = latest_call.max(hold.called);
        latest_release = latest_release.max(hold.released.unwrap_or(0));
    }
}

/// Asserts that queued clients have acquired the lock in the order that was shown; returns the number of pairs that
/// were compared. A lock with a short TTL may expire before its client is told, which then goes to the end of the queue.
fn check_lines(holds: &[Hold], lines: &BTreeSet<Vec<u64>>) -> usize {
    let lasting = holds.iter().filter(|hold| hold.released.is_some());
    let fences: BTreeMap<u64, i64> = lasting.map(|hold| (hold.client, hold.fence)).collect();
    let mut compared = 0;
    for line in lines {
        let acquired: Vec<i64> = line.iter().filter_map(|id| fences.get(id).copied()).collect();
        assert!(acquired.is_sorted_by(|before, after| before < after), "{line:?} acquired it as {acquired:?}");
        compared += acquired.len().saturating_sub(1);
    }
    compared
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures of a long run are shown with --nocapture")]
fn a_hundred_clients_that_die_at_random_hold_a_lock_one_after_the_other() {
    let setting = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let (seconds, seed) = (setting("KEYLATCH_LOCK_SECONDS"), setting("KEYLATCH_LOCK_SEED").unwrap_or(1));
    let (clock, server) = (Clock::system(), TestServer::start_in_real_time());
    let (begun_ms, mut rounds, mut acquired, mut compared) = (clock.now().mono_ms(), 0, 0, 0);
    let mut admin = server.client();
    loop {
        let (history, is_over) = (History::default(), AtomicBool::new(false));
        let contend = |number: u64| {
            let mut dice = Dice::new((seed + rounds) * CLIENTS + number);
            (0..ATTEMPTS).for_each(|_| attempt(&server, &history, &mut dice));
        };
        let contend = &contend;
        let ended = thread::scope(|scope| {
            let observer = scope.spawn(|| observe(&server, &history, &is_over));
            let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || contend(number))).collect();
            // All of them end: no waiter is forgotten.
            let ended = clients.into_iter().map(|client| client.join().is_ok()).collect::<Vec<bool>>();
            is_over.store(true, SeqCst);
            observer.join().expect("the observer ends well");
            ended
        });
        assert_eq!(ended, [true; CLIENTS as usize], "KEYLATCH_LOCK_SEED={}", seed + rounds);
        let mut holds = history.holds.into_inner().expect("no poison");
        assert!(holds.len() as u64 > CLIENTS * ATTEMPTS / 2, "{} locks", holds.len());
        check_order(&mut holds);
        acquired += holds.len();
        compared += check_lines(&holds, &history.lines.into_inner().expect("no poison"));
        // The dead have left no lock, and no client waits for one.
        wait_until(|| admin.call("EXISTS lock") == ":0");
        assert_eq!(["held", "waiting"].map(|name| locks_info(&mut admin, name)), [0, 0]);
        rounds += 1;
        if seconds.is_none_or(|seconds| clock.now().mono_ms() - begun_ms >= seconds * 1000) {
            break;
        }
    }
    assert!(compared > 0, "no line was ever seen");
    println!("{rounds} rounds, {acquired} acquisitions, {compared} pairs of waiters compared, no violation");
}

#[test]
fn the_checks_find_histories_that_no_mutex_has() {
    let hold =
        |client, fence, called, returned, released| Hold { client, fence, called, returned, released, ended: None };
    let is_refused = |mut holds: Vec<Hold>| std::panic::catch_unwind(move || check_order(&mut holds)).is_err();
    assert!(!is_refused(vec![hold(1, 10, 1, 2, Some(3)), hold(2, 11, 2, 4, None)]));
    assert!(is_refused(vec![hold(1, 10, 1, 2, None), hold(2, 10, 3, 4, None)]), "the same fence");
    assert!(is_refused(vec![hold(1, 11, 1, 2, None), hold(2, 10, 3, 4, None)]), "fences against the time");
    assert!(is_refused(vec![hold(1, 10, 1, 2, Some(5)), hold(2, 11, 3, 4, None)]), "two holders at once");
    let holds = [hold(1, 10, 1, 2, Some(3)), hold(2, 11, 2, 4, Some(5))];
    assert_eq!(check_lines(&holds, &BTreeSet::from([vec![1, 3, 2]])), 1);
    let overtaken = std::panic::catch_unwind(|| check_lines(&holds, &BTreeSet::from([vec![2, 1]])));
    assert!(overtaken.is_err(), "a client was overtaken");
}
