//! Random histories: three nodes, three servers, clients on all of them, and random faults meanwhile. One order
//! explains all replies, no two clients hold a lock at once, and in the end everything is served again.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories of each kind. The seed determines
//! the faults and requests, but not their timing.
//!
//! - [`site`] has the nodes, the links and the servers;
//! - [`trouble`] has the faults;
//! - [`callers`] has the clients whose requests and replies are recorded;
//! - [`holders`] has the clients that acquire locks with TTLs.

mod callers;
mod holders;
mod site;
mod trouble;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use keylatch::Clock;

use self::callers::Objects;
use self::holders::Locks;
use self::site::{Kind, Site};
use self::trouble::Trouble;
use crate::engine::etcd::Etcd;
use crate::harness::{Dice, wait_for, wait_until};
use crate::log::first_seed;

/// Number of servers.
const SERVERS: usize = 3;
/// Number of nodes.
const NODES: usize = 3;
/// Maximum time after the faults until every server serves everything again.
const RECOVERY: Duration = Duration::from_secs(15);

/// Parameters of a history.
#[derive(Clone, Copy)]
struct Plan {
    kind: Kind,
    /// Number of clients that record their calls.
    callers: usize,
    /// Number of clients that acquire locks.
    holders: usize,
    /// Number of times that a fault begins or ends.
    steps: usize,
}

/// Running history.
struct Run {
    site: Site,
    seed: u64,
    clock: Clock,
    /// Time of the recorded events.
    ticks: AtomicU64,
    /// Number of requests that were answered or given up.
    turns: AtomicU64,
    is_over: AtomicBool,
    objects: Objects,
    locks: Locks,
    trouble: Trouble,
}

impl Run {
    /// Creates a history that has not begun.
    fn new(site: Site, seed: u64) -> Self {
        let (clock, ticks, turns, is_over) = (Clock::system(), AtomicU64::new(0), AtomicU64::new(0), false.into());
        let (objects, locks, trouble) = (Objects::new(), Locks::default(), Trouble::default());
        Run { site, seed, clock, ticks, turns, is_over, objects, locks, trouble }
    }

    /// Returns a unique time.
    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, SeqCst)
    }

    /// Returns the monotonic time in microseconds.
    fn now_us(&self) -> u64 {
        self.clock.now().mono_us()
    }

    /// Returns whether the clients have to end.
    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Waits until a condition holds or the history is over, for some milliseconds at most.
    fn wait_at_most(&self, ms: u64, holds: impl Fn() -> bool) {
        let until_us = self.now_us() + 1000 * ms;
        wait_until(|| self.is_over() || holds() || self.now_us() >= until_us);
    }

    /// Runs the clients during the faults; returns the time after the faults until every server serves everything
    /// again.
    fn go(&self, plan: Plan) -> Duration {
        thread::scope(|scope| {
            // Ends the clients in any case.
            let _end = End(&self.is_over);
            (0..plan.callers).for_each(|number| _ = scope.spawn(move || callers::work(self, number as u64)));
            (0..plan.holders).for_each(|number| _ = scope.spawn(move || holders::work(self, number as u64)));
            self.trouble.make(self, plan.steps);
            let healed_us = self.now_us();
            self.await_service();
            let took = Duration::from_micros(self.now_us() - healed_us);
            // The recovered service still works a little later.
            let enough = self.turns.load(SeqCst) + 50;
            self.wait_at_most(1000, || self.turns.load(SeqCst) >= enough);
            took
        })
    }

    /// Waits until every server executes reads and writes.
    fn await_service(&self) {
        let mut serving = [false; SERVERS];
        wait_for(RECOVERY, || {
            self.site.tend();
            for (server, serves) in serving.iter_mut().enumerate().filter(|(_, serves)| !**serves) {
                let call = |words: &[&str]| self.site.session(server).and_then(|mut session| session.call(words));
                let name = format!("probe:{server}");
                let replies = (call(&["SET", &name, "v"]), call(&["GET", &name]));
                *serves = matches!(&replies, (Some(set), Some(get)) if set == "+OK" && get == "$1 v");
                self.trouble.note(self, format!("server {server} says {replies:?}"));
            }
            serving.iter().all(|serves| *serves)
        });
    }

    /// Returns the first error in the history, if any.
    fn fault(&self) -> Option<String> {
        self.objects.fault(self).or_else(|| self.locks.fault())
    }
}

/// Guard that ends a history when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Guard that prints the history's seed when the test fails.
struct Named<'a>(&'a Run);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let faults = self.0.trouble.shown();
            tell(&format!("it was the history of KEYLATCH_SEED={}, with these faults:\n{faults}\n", self.0.seed));
        }
    }
}

/// Writes to standard error.
fn tell(text: &str) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
}

/// Counts of the contents of histories.
#[derive(Default)]
struct Figures {
    counts: BTreeMap<String, u64>,
    slowest: Duration,
}

impl Figures {
    /// Adds to a count.
    fn add(&mut self, name: &str, count: u64) {
        *self.counts.entry(name.to_owned()).or_default() += count;
    }

    /// Prints the counts if a number of histories was requested.
    fn show(&self) {
        if std::env::var_os("KEYLATCH_HISTORIES").is_some() {
            let mut text = format!("served again after {:?} at the latest", self.slowest);
            self.counts.iter().for_each(|(name, count)| write!(text, ", {name}: {count}").expect("memory"));
            tell(&format!("{text}\n"));
        }
    }
}

/// Runs histories of a kind, one after the other on the same nodes.
fn run(plan: Plan, count: u64) {
    let Some(etcd) = Etcd::start(NODES).map(Arc::new) else { return };
    let mut figures = Figures::default();
    let count = std::env::var("KEYLATCH_HISTORIES").map_or(count, |text| text.parse().expect("a number"));
    for seed in first_seed()..first_seed() + count {
        let site = Site::start(etcd.clone(), plan.kind, &mut Dice::new(seed));
        let run = Run::new(site, seed);
        let _named = Named(&run);
        let took = run.go(plan);
        if let Some(fault) = run.fault() {
            panic!("{fault}");
        }
        figures.slowest = figures.slowest.max(took);
        figures.add("histories", 1);
        run.objects.count(&mut figures);
        run.locks.count(&mut figures);
        run.trouble.count(&mut figures);
    }
    figures.show();
}

#[test]
fn one_order_explains_all_replies_whatever_becomes_of_nodes_and_links() {
    run(Plan { kind: Kind::Inside, callers: 6, holders: 0, steps: 10 }, 2);
}

#[cfg(feature = "binary")]
#[test]
fn one_order_explains_all_replies_whatever_becomes_of_the_servers_processes() {
    run(Plan { kind: Kind::Processes, callers: 6, holders: 0, steps: 10 }, 2);
}

#[cfg(feature = "binary")]
#[test]
fn no_two_clients_believe_that_they_hold_a_lock_whatever_becomes_of_processes_and_clocks() {
    run(Plan { kind: Kind::Processes, callers: 1, holders: 6, steps: 10 }, 1);
}
