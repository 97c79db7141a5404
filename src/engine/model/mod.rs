//! The protocol of the engine, as a model: real cores on a simulated etcd, with clients, lost answers, late changes,
//! wrong clocks, and processes that die. Random histories by seed, and the orders of the events of small scenarios.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories; `KEYLATCH_ORDERS` limits the orders
//! of a scenario.
//!
//! Checked properties: the replies are linearizable; no client is told that it has a lock while another one has it, and
//! no lock ends before its TTL, whatever the clocks show; fencing tokens ascend; the queue is served in the order of
//! its revisions, and no client gets the lock without queueing before one that waits; no client waits for ever; and in
//! the end all mirrors equal the cluster. In some histories readers share the lock and convert it, or it is a semaphore,
//! or clients acquire two locks at once: a writer is alone, no reader joins one that waits to be alone, no more permits
//! are taken than there are, and two locks are acquired together.

mod blocked;
#[cfg(feature = "lua")]
mod busy;
mod cluster;
mod explore;
mod history;
mod ledger;
mod mutant;
mod process;
mod random;
mod requests;
mod scenarios;
mod world;

use self::explore::explore;
use self::mutant::Mutant;
use self::scenarios::{RELEASE_BESIDE_A_POLLER, SCENARIOS};
use self::world::SeenCounts;

/// Number of random histories, unless `KEYLATCH_HISTORIES` is set.
const HISTORIES: u64 = 1500;

/// Largest number of worlds in which each scenario is tried, unless `KEYLATCH_ORDERS` is set.
const ORDERS: u64 = 800;

/// Least number of scenarios of which these are all orders.
const COMPLETE_MIN: usize = 4;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Returns the first failure of the random histories, with its seed.
fn first_failure(mutant: Mutant, seen: &mut Vec<SeenCounts>) -> Option<(u64, String)> {
    let (first, histories) = (number("KEYLATCH_SEED", 0), number("KEYLATCH_HISTORIES", HISTORIES));
    (first..first + histories).find_map(|seed| Some((seed, random::run(seed, mutant, seen)?)))
}

#[test]
fn random_histories_break_no_promise() {
    let mut seen = Vec::new();
    if let Some((seed, failure)) = first_failure(Mutant::None, &mut seen) {
        panic!("{failure}\n(KEYLATCH_SEED={seed} KEYLATCH_HISTORIES=1)");
    }
    let sum = |count: fn(&SeenCounts) -> usize| seen.iter().map(count).sum::<usize>();
    let counts = [
        ("replies", sum(|seen| seen.replies)),
        ("errors", sum(|seen| seen.errors)),
        ("conflicts", sum(|seen| seen.conflicts)),
        ("lost answers", sum(|seen| seen.lost)),
        ("late transactions", sum(|seen| seen.late)),
        ("hand-overs", sum(|seen| seen.hand_overs)),
        ("locks that ended by themselves", sum(|seen| seen.expired)),
        ("crashes", sum(|seen| seen.crashes)),
        ("lost leases", sum(|seen| seen.lost_leases)),
        ("stuck processes", sum(|seen| seen.stuck)),
        ("times without space", sum(|seen| seen.full)),
        ("conversions", sum(|seen| seen.converted)),
        ("acquisitions of permits", sum(|seen| seen.permits)),
        ("acquisitions of two locks", sum(|seen| seen.several)),
    ];

    let is_rare = counts.iter().any(|(_, count)| *count < 20);
    assert!(seen.len() < HISTORIES as usize || !is_rare, "the histories do not have what they are for: {counts:?}");
}

#[test]
fn no_order_of_events_breaks_a_promise() {
    let mut complete = Vec::new();
    for scenario in SCENARIOS {
        let explored = explore(|| scenario.begin(Mutant::None), number("KEYLATCH_ORDERS", ORDERS));
        assert!(explored.failure.is_none(), "{}: {}", scenario.name, explored.failure.unwrap_or_default());
        assert!(explored.orders > 0, "{}: no order was tried to its end", scenario.name);
        complete.extend(explored.is_complete.then_some(scenario.name));
    }
    assert!(complete.len() >= COMPLETE_MIN, "all orders were tried of {complete:?} alone");
}

/// Checks that a fault is found by the random histories.
fn expect_found(mutant: Mutant) {
    let found = first_failure(mutant, &mut Vec::new());
    assert!(found.is_some(), "{mutant:?} is not found");
}

#[test]
fn reads_without_a_barrier_are_found() {
    expect_found(Mutant::NoBarrier);
}

#[test]
fn ttls_by_the_writers_clock_are_found() {
    expect_found(Mutant::WritersClock);
}

#[test]
fn transactions_without_a_lane_are_found() {
    expect_found(Mutant::NoLane);
}

#[test]
fn a_hand_over_in_two_transactions_is_found() {
    expect_found(Mutant::TwoTransactions);
    let scenario =
        SCENARIOS.iter().find(|scenario| scenario.name == RELEASE_BESIDE_A_POLLER).expect("it is one of them");
    let found = explore(|| scenario.begin(Mutant::TwoTransactions), ORDERS).failure.unwrap_or_default();
    assert!(found.contains("without having queued"), "the poller gets the lock: {found}");
}
