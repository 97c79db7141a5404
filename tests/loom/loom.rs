//! Model checks of the sweep timer, the tickets of blocked calls, the queue for a lock, the barrier at the gate, and
//! throttled clients: every interleaving of threads, and every stale value that the memory model allows.
//!
//! ```text
//! cargo test --manifest-path tests/loom/Cargo.toml
//! ```
//!
//! `store/expire.rs` is compiled in here with loom's atomics in place of `store/sync.rs`. The shards are modelled as
//! mutexes around a real [`DeadlineTree`], the sweeper as the task in `server.rs`, and `tokio::sync::Notify`, which
//! stores one wakeup for a task that is not waiting, as a flag that is only exchanged. The invariant: a deadline that
//! was set is known to the sweeper, or a wakeup is on its way to it.

#![cfg(test)]

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use expire::{DeadlineTree, NEVER, SweepTimer};

#[allow(dead_code, missing_docs, reason = "only part of it is modelled")]
#[path = "../../src/store/expire.rs"]
mod expire;

#[allow(dead_code, missing_docs, reason = "only part of it is modelled")]
#[path = "../../src/client/ticket.rs"]
mod ticket;

#[path = "../../src/store/generation.rs"]
mod generation;

#[allow(dead_code, missing_docs, reason = "only part of it is modelled")]
#[path = "../../src/client/backlog.rs"]
mod backlog;

mod client {
    /// Replacement of `client/sync.rs`.
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering, fence};

        pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

        impl<T> Mutex<T> {
            pub(crate) fn new(value: T) -> Self {
                Mutex(loom::sync::Mutex::new(value))
            }

            pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
                self.0.lock().expect("no test panics")
            }
        }
    }
}

mod store {
    /// Replacement of `store/sync.rs`.
    pub(crate) mod sync {
        pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    }
}

/// Model of a store with two databases of one shard each, the second of which has not been used yet, and of its
/// sweeper.
struct Model {
    shards: [Mutex<DeadlineTree>; 2],
    second_in_use: AtomicBool,
    timer: SweepTimer,
    wanted: Arc<AtomicBool>,
}

impl Model {
    /// Creates a store with a key that expires at 3 ms, which the sweeper knows.
    fn new() -> Arc<Self> {
        let wanted = Arc::new(AtomicBool::new(false));
        let wake = wanted.clone();
        let timer = SweepTimer::new(move || {
            wake.swap(true, Ordering::AcqRel);
        });
        let shards = [Mutex::new(DeadlineTree::default()), Mutex::new(DeadlineTree::default())];
        let model = Arc::new(Model { shards, second_in_use: AtomicBool::new(false), timer, wanted });
        model.set(0, 3);
        model.wait_and_sweep(0);
        model
    }

    /// Models `Shard::record_deadline`, with `Database::shards` before it.
    fn set(&self, db: usize, at_ms: u64) {
        if db == 1 && !self.second_in_use.load(Ordering::Acquire) {
            self.second_in_use.store(true, Ordering::Release);
            self.timer.wake();
        }
        let mut deadlines = self.shards[db].lock().expect("no poison");
        deadlines.lower(at_ms as usize, at_ms); // one key per bucket
        self.timer.lower(at_ms);
    }

    /// Models `Store::sweep`.
    fn sweep(&self, now_ms: u64) -> u64 {
        self.timer.rearm(|| {
            let in_use = 1 + usize::from(self.second_in_use.load(Ordering::Acquire));
            let sweep_shard = |shard: &Mutex<DeadlineTree>| {
                let mut deadlines = shard.lock().expect("no poison");
                while let Some(bucket) = deadlines.due(now_ms) {
                    deadlines.set(bucket, NEVER);
                }
                deadlines.earliest()
            };
            self.shards[..in_use].iter().map(sweep_shard).min().unwrap_or(NEVER)
        })
    }

    /// Runs one round of the sweeper, after a wakeup or at its time. Returns the time until which it would sleep then.
    fn wait_and_sweep(&self, now_ms: u64) -> u64 {
        self.wanted.swap(false, Ordering::AcqRel);
        self.sweep(now_ms)
    }

    #[track_caller]
    fn assert_knows(&self, until_ms: u64, at_ms: u64) {
        let is_woken = self.wanted.swap(false, Ordering::AcqRel);
        assert!(is_woken || until_ms <= at_ms, "asleep until {until_ms} with a key that expires at {at_ms}");
    }
}

/// Runs a scenario in every order with at most three preemptions; without a bound it takes a minute and finds no more.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(scenario);
}

#[test]
fn a_deadline_set_while_a_sweep_runs_is_known_or_wakes_the_sweeper() {
    explore(|| {
        let model = Model::new();
        let setters = [4, 5].map(|at_ms| {
            let model = model.clone();
            thread::spawn(move || model.set(0, at_ms))
        });
        let until_ms = model.wait_and_sweep(3);
        setters.into_iter().for_each(|setter| setter.join().expect("no panic"));
        model.assert_knows(until_ms, 4);
    });
}

#[test]
fn a_deadline_set_over_two_sweeps_is_known_or_wakes_the_sweeper() {
    explore(|| {
        let model = Model::new();
        let setter = thread::spawn({
            let model = model.clone();
            move || [5, 4].map(|at_ms| model.set(0, at_ms))
        });
        model.wait_and_sweep(0);
        let until_ms = model.wait_and_sweep(3);
        setter.join().expect("no panic");
        model.assert_knows(until_ms, 4);
    });
}

#[test]
fn the_first_deadline_of_a_database_is_known_or_wakes_the_sweeper() {
    explore(|| {
        let model = Model::new();
        let setter = thread::spawn({
            let model = model.clone();
            move || model.set(1, 5)
        });
        let until_ms = model.wait_and_sweep(3);
        setter.join().expect("no panic");
        model.assert_knows(until_ms, 5);
    });
}

#[test]
fn a_sweep_by_another_thread_hides_no_deadline_from_the_sweeper() {
    explore(|| {
        let model = Model::new();
        let other = thread::spawn({
            let model = model.clone();
            move || model.sweep(3)
        });
        let setter = thread::spawn({
            let model = model.clone();
            move || model.set(0, 5)
        });
        let until_ms = model.wait_and_sweep(3);
        other.join().expect("no panic");
        setter.join().expect("no panic");
        model.assert_knows(until_ms, 5);
    });
}

/// A blocked call, and all events that may end it at the same moment.
mod tickets {
    use loom::sync::Arc;
    use loom::thread;

    use super::ticket::Ticket;

    /// Event that has ended the call.
    #[derive(Debug, PartialEq)]
    enum Answer {
        Served,
        Unblocked,
    }

    #[test]
    fn of_all_that_end_a_blocked_call_one_does() {
        loom::model(|| {
            let ticket = Arc::new(Ticket::new(()));
            let end = |answer: fn() -> Answer| {
                let ticket = ticket.clone();
                thread::spawn(move || ticket.serve(|()| Some(answer())))
            };
            let (server, unblocker) = (end(|| Answer::Served), end(|| Answer::Unblocked));
            let has_timed_out = ticket.take().is_some();
            let (is_served, is_unblocked) =
                (server.join().expect("no test panics"), unblocker.join().expect("no test panics"));
            let ended = [has_timed_out, is_served, is_unblocked].into_iter().filter(|has_ended| *has_ended).count();
            assert_eq!(ended, 1);
            let answer = ticket.fetch();
            assert_eq!(answer == Some(Answer::Served), is_served);
            assert_eq!(answer == Some(Answer::Unblocked), is_unblocked);
        });
    }

    #[test]
    fn a_call_that_cannot_be_served_yet_can_still_be_unblocked_by_others() {
        loom::model(|| {
            let ticket = Arc::new(Ticket::new(()));
            let tries = {
                let ticket = ticket.clone();
                thread::spawn(move || ticket.serve(|()| None::<Answer>))
            };
            // An UNBLOCK during an attempt to serve the call is not lost.
            assert!(ticket.serve(|()| Some(Answer::Unblocked)));
            assert!(!tries.join().expect("no test panics"));
            assert_eq!(ticket.fetch(), Some(Answer::Unblocked));
        });
    }
}

/// A lock, the clients in its queue, and events that may affect them at the same moment. The shard is modelled as a
/// mutex around the lock and its queue; the tickets are the real ones.
mod hand_over {
    use std::collections::VecDeque;

    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::explore;
    use super::ticket::Ticket;

    /// Event that has ended a wait.
    #[derive(Debug, PartialEq)]
    enum Answer {
        Acquired,
        Unblocked,
    }

    #[derive(Default)]
    struct Lock {
        holder: Option<usize>,
        line: VecDeque<usize>,
    }

    /// Lock held by client 0. Each other client has the ticket of its only wait.
    struct Model {
        lock: Mutex<Lock>,
        tickets: [Ticket<usize, Answer>; 3],
    }

    impl Model {
        fn new(line: &[usize]) -> Arc<Self> {
            let lock = Lock { holder: Some(0), line: line.iter().copied().collect() };
            Arc::new(Model { lock: Mutex::new(lock), tickets: [0, 1, 2].map(Ticket::new) })
        }

        /// Models LOCK.ACQUIRE with BLOCK; returns whether the lock was free.
        fn acquire(&self, client: usize) -> bool {
            let mut lock = self.lock.lock().expect("no poison");
            let is_free = lock.holder.is_none();
            if is_free {
                lock.holder = Some(client)
            } else {
                lock.line.push_back(client)
            }
            is_free
        }

        /// Models LOCK.RELEASE.
        fn release(&self) {
            self.hand_over(&mut self.lock.lock().expect("no poison"));
        }

        /// Models the removal of the key, with `serve_line` at the end of the call.
        fn hand_over(&self, lock: &mut Lock) {
            lock.holder = None;
            while lock.holder.is_none()
                && let Some(first) = lock.line.front().copied()
            {
                self.tickets[first].serve(|client| {
                    lock.holder = Some(*client);
                    Some(Answer::Acquired)
                });
                lock.line.retain(|waiter| *waiter != first);
            }
        }

        /// Models a timeout: the client's task ends the wait first and then leaves the queue. Returns whether it has
        /// ended the wait.
        fn give_up(&self, client: usize) -> bool {
            let has_ended = self.tickets[client].take().is_some();
            self.lock.lock().expect("no poison").line.retain(|waiter| *waiter != client);
            has_ended
        }

        /// Models a disconnect: the client's task ends the wait as soon as it knows, then leaves the queue, and
        /// releases a lock that it was given before.
        fn leave(&self, client: usize) {
            self.tickets[client].take();
            let mut lock = self.lock.lock().expect("no poison");
            lock.line.retain(|waiter| *waiter != client);
            if self.tickets[client].fetch() == Some(Answer::Acquired) && lock.holder == Some(client) {
                self.hand_over(&mut lock);
            }
        }

        /// Returns whether the client was given the lock, and asserts that it then holds the lock.
        fn has_acquired(&self, client: usize) -> bool {
            let has_acquired = self.tickets[client].fetch() == Some(Answer::Acquired);
            assert_eq!(has_acquired, self.holder() == Some(client), "client {client}");
            has_acquired
        }

        fn holder(&self) -> Option<usize> {
            self.lock.lock().expect("no poison").holder
        }

        #[track_caller]
        fn assert_nobody_waits_for_a_free_lock(&self) {
            let lock = self.lock.lock().expect("no poison");
            assert!(lock.holder.is_some() || lock.line.is_empty(), "{:?} wait", lock.line);
        }
    }

    fn spawn<T: 'static>(model: &Arc<Model>, act: impl FnOnce(&Model) -> T + 'static) -> thread::JoinHandle<T> {
        let model = model.clone();
        thread::spawn(move || act(&model))
    }

    #[test]
    fn of_two_that_join_while_the_lock_is_released_one_gets_it() {
        explore(|| {
            let model = Model::new(&[]);
            let joins = [1, 2].map(|client| spawn(&model, move |model| model.acquire(client)));
            model.release();
            let were_free = joins.map(|join| join.join().expect("no test panics"));
            model.assert_nobody_waits_for_a_free_lock();
            let winners = [1, 2].into_iter().zip(were_free).filter(|(client, was_free)| {
                let was_handed = !was_free && model.has_acquired(*client);
                *was_free || was_handed
            });
            assert_eq!(winners.count(), 1);
        });
    }

    #[test]
    fn a_lock_whose_first_waiter_gives_up_goes_to_the_next() {
        explore(|| {
            let model = Model::new(&[1, 2]);
            let gives_up = spawn(&model, |model| model.give_up(1));
            model.release();
            let has_given_up = gives_up.join().expect("no test panics");
            model.assert_nobody_waits_for_a_free_lock();
            assert_eq!((model.has_acquired(1), model.has_acquired(2)), (!has_given_up, has_given_up));
        });
    }

    #[test]
    fn a_lock_is_free_when_the_only_waiter_has_given_up() {
        explore(|| {
            let model = Model::new(&[1]);
            let gives_up = spawn(&model, |model| model.give_up(1));
            model.release();
            let has_given_up = gives_up.join().expect("no test panics");
            model.assert_nobody_waits_for_a_free_lock();
            assert_eq!(model.holder(), (!has_given_up).then_some(1));
        });
    }

    #[test]
    fn a_lock_is_never_kept_by_a_client_that_has_left() {
        explore(|| {
            let model = Model::new(&[1, 2]);
            let leaves = spawn(&model, |model| model.leave(1));
            model.release();
            leaves.join().expect("no test panics");
            model.assert_nobody_waits_for_a_free_lock();
            assert!(model.has_acquired(2));
        });
    }

    #[test]
    fn of_a_release_a_timeout_and_client_unblock_one_ends_the_wait() {
        explore(|| {
            let model = Model::new(&[1, 2]);
            let gives_up = spawn(&model, |model| model.give_up(1));
            let unblocks = spawn(&model, |model| model.tickets[1].serve(|_| Some(Answer::Unblocked)));
            model.release();
            let (has_given_up, is_unblocked) =
                (gives_up.join().expect("no test panics"), unblocks.join().expect("no test panics"));
            model.assert_nobody_waits_for_a_free_lock();
            let is_first = model.holder() == Some(1);
            assert_eq!([has_given_up, is_unblocked, is_first].into_iter().filter(|has_ended| *has_ended).count(), 1);
            assert_eq!(model.has_acquired(2), !is_first);
        });
    }

    #[test]
    fn two_releases_at_once_hand_the_lock_on_in_order() {
        explore(|| {
            let model = Model::new(&[1, 2]);
            // The first waiter releases the lock as soon as it has it; that may be before the other call has ended.
            let passes_on = spawn(&model, |model| {
                let has_acquired = model.tickets[1].fetch() == Some(Answer::Acquired);
                if has_acquired {
                    model.release();
                }
                has_acquired
            });
            model.release();
            let is_passed_on = passes_on.join().expect("no test panics");
            model.assert_nobody_waits_for_a_free_lock();
            assert_eq!(model.holder(), Some(if is_passed_on { 2 } else { 1 }));
        });
    }
}

/// The barrier at the gate: a thread that changes the admission state, and batches of calls on other threads. The gate
/// is modelled as a reader-writer lock.
mod barrier {
    use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use loom::sync::{Arc, Mutex, RwLock};
    use loom::thread;

    use super::explore;
    use super::generation::Generation;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Event {
        Called,
        Answered,
    }

    struct Model {
        gate: RwLock<()>,
        generation: Generation,
        /// Admission state: true if calls are forbidden.
        is_closed: AtomicBool,
        events: Mutex<Vec<Event>>,
    }

    impl Model {
        fn new() -> Arc<Self> {
            Arc::new(Model {
                gate: RwLock::new(()),
                generation: Generation::first(),
                is_closed: AtomicBool::new(false),
                events: Mutex::new(Vec::new()),
            })
        }

        /// Models CLIENT PAUSE with `BatchRun::pass_barrier`.
        fn close(&self) {
            self.is_closed.store(true, Relaxed);
            self.generation.renew();
            drop(self.gate.write().expect("no poison"));
            self.record(Event::Answered);
        }

        /// Models `Connection::catch_up` and the mask of `BatchRun::new`.
        fn look(&self) -> (u64, bool) {
            (self.generation.present(), self.is_closed.load(Relaxed))
        }

        /// Models `BatchRun::execute` for the calls of a client, with the gate released after each.
        fn make_calls(&self, calls: usize) {
            let (mut generation, mut is_closed) = self.look();
            for _ in 0..calls {
                let gate = loop {
                    let gate = self.gate.read().expect("no poison");
                    if self.generation.present() == generation {
                        break gate;
                    }
                    drop(gate);
                    (generation, is_closed) = self.look();
                };
                if is_closed {
                    return;
                }
                self.record(Event::Called);
                drop(gate);
            }
        }

        fn record(&self, event: Event) {
            self.events.lock().expect("no poison").push(event);
        }

        #[track_caller]
        fn assert_nothing_was_called_after_the_answer(&self) {
            let events = self.events.lock().expect("no poison");
            assert_eq!(events.last(), Some(&Event::Answered), "{events:?}");
        }
    }

    fn check(batches: &'static [usize]) {
        explore(|| {
            let model = Model::new();
            let spawn = |calls: &usize| {
                let (model, calls) = (model.clone(), *calls);
                thread::spawn(move || model.make_calls(calls))
            };
            let batches: Vec<_> = batches.iter().map(spawn).collect();
            model.close();
            batches.into_iter().for_each(|batch| batch.join().expect("no test panics"));
            model.assert_nothing_was_called_after_the_answer();
        });
    }

    #[test]
    fn no_call_of_a_batch_is_made_after_the_reply_of_what_forbids_it() {
        check(&[2]);
    }

    #[test]
    fn the_barrier_waits_for_the_batches_of_all_threads() {
        check(&[1, 1]);
    }
}

/// A client that becomes throttled while another client's replies are read.
mod throttling {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use loom::thread;

    use super::backlog::Backlog;

    const MB: usize = 1 << 20;

    struct Model {
        backlog: Backlog,
        is_throttled: AtomicBool,
        is_nudged: AtomicBool,
    }

    impl Model {
        /// Models `Connection::check_backlog`; returns whether the client sleeps then.
        fn check_backlog(&self, waiting: usize) -> bool {
            self.set_throttled(true);
            let may_continue = self.backlog.may_continue(waiting, waiting);
            if may_continue {
                self.set_throttled(false);
            }
            !may_continue
        }

        /// Models `Clients::set_throttled`.
        fn set_throttled(&self, is_throttled: bool) {
            self.is_throttled.swap(is_throttled, Relaxed);
            self.backlog.record_throttled(is_throttled);
        }

        /// Models `Clients::report_backlog`.
        fn report(&self, before: usize, bytes: usize) {
            if self.backlog.report(before, bytes) && self.is_throttled.load(Relaxed) {
                self.is_nudged.store(true, Relaxed);
            }
        }
    }

    #[test]
    fn a_client_that_becomes_throttled_sees_that_the_sum_has_fallen_or_is_woken() {
        loom::model(|| {
            let model = Arc::new(Model {
                backlog: Backlog::default(),
                is_throttled: AtomicBool::new(false),
                is_nudged: AtomicBool::new(false),
            });
            model.report(0, 300 * MB);
            model.report(0, 115 * MB);
            let other = thread::spawn({
                let model = model.clone();
                move || model.report(300 * MB, 100 * MB)
            });
            let sleeps = model.check_backlog(115 * MB);
            other.join().expect("no test panics");
            assert!(!sleeps || model.is_nudged.load(Relaxed), "asleep for ever");
        });
    }
}
