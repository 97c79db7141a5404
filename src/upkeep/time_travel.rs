//! Moves of a steered clock: everything due on the way is done at its own instant, in order.
//!
//! At an instant, keys and fields expire first, and clients waiting for them are served; then blocked calls whose retry
//! time has come are repeated; then waits time out; then data arrives at replicas; then topologies notice failed nodes. Meanwhile `steering` in [`Namespace::upkeep`] keeps the sweeper and
//! the tasks of blocked clients from doing so by themselves, so the order is always the same.

use std::ops::BitOr;
use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::serve::{serve_keys, serve_unserved};
use crate::dispatch::{Handlers, TimeTravel};
use crate::namespace::Namespace;
use crate::store::NEVER;
use crate::time::clock::{Clock, END_MS, Now};
use crate::upkeep::{BUSY_PAUSE, check_clients, sweep_once};

/// Number of times that this task yields to the clients' tasks before it sleeps in between.
const PROMPT_TURNS: u32 = 100;

/// Steers the clock of a namespace. Afterwards, everything that was due has been done, and blocked clients that were
/// answered are not blocked any more.
pub(crate) async fn travel(namespace: &Arc<Namespace>, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = namespace.upkeep.steering.lock().await;
    let mut steps = Steps::begin(namespace, travel);
    // The data of replicas at an instant decides the replies that clients get then.
    let has_replicas = steps.kin.len() > 1;
    while steps.next(handlers) {
        if steps.is_busy() {
            tokio::time::sleep(BUSY_PAUSE).await;
        } else {
            if has_replicas {
                let_clients_notice(&steps.kin).await;
            }
            tokio::task::yield_now().await; // a move of any length lets other clients be served
        }
    }
    drop(turn);
    steps.kin.iter().for_each(|namespace| finish(namespace));
    let_clients_notice(&steps.kin).await;
}

/// Waits until the tasks of the answered clients have noticed their answers, and the clients are not blocked any more.
async fn let_clients_notice(kin: &[Arc<Namespace>]) {
    let mut turns = 0;
    for namespace in kin {
        let answered = namespace.clients.answered();
        while !namespace.clients.have_noticed(&answered) {
            turns += 1;
            if turns < PROMPT_TURNS {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// Moves the clock as [`travel`] does, on the calling thread, which may be the one that serves the clients: it waits
/// for none of their tasks.
pub(crate) fn travel_blocking(namespace: &Arc<Namespace>, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = namespace.upkeep.wait_for_turn();
    let mut steps = Steps::begin(namespace, travel);
    while steps.next(handlers) {
        if steps.is_busy() {
            namespace.clock.advance_to(steps.target_us); // the rest is done when the script has ended
            break;
        }
    }
    drop(turn);
    steps.kin.iter().for_each(|namespace| finish(namespace));
}

/// Move of the clock shared by several namespaces, instant by instant.
struct Steps {
    kin: Vec<Arc<Namespace>>,
    clock: Clock,
    target_us: u64,
    /// True once everything else due at this instant is done.
    is_arrivals_turn: bool,
}

impl Steps {
    /// Starts a move. From now on, scripts are limited as if the clock were at its target: work due on the way cannot
    /// be done before they end.
    fn begin(namespace: &Arc<Namespace>, travel: TimeTravel) -> Self {
        let (kin, clock) = (namespace.clock_group(), namespace.clock.clone());
        // Records written before the move are on their way since then.
        deliver(&kin, clock.now());
        let now = clock.now();
        let target_us = match travel {
            TimeTravel::By(time) => {
                // A key with a TTL of n milliseconds must expire in a move by n milliseconds, even if the clock is
                // running.
                let start = if clock.is_stopped() { now } else { now.at_next_ms() };
                start.mono_us().saturating_add(time.as_micros().try_into().unwrap_or(u64::MAX))
            }
            TimeTravel::To { unix_ms } => match u64::try_from(unix_ms.saturating_sub(now.wall_ms())) {
                Ok(ahead_ms @ 1..) => now.mono_ms().saturating_add(ahead_ms).saturating_mul(1000),
                _ => {
                    clock.set_wall_ms(unix_ms);
                    now.mono_us()
                }
            },
            TimeTravel::Stop => {
                clock.stop();
                clock.now().mono_us()
            }
            TimeTravel::Run => {
                clock.run();
                now.mono_us()
            }
        };
        let target_us = target_us.min(END_MS as u64 * 1000);
        clock.set_target(target_us);
        Steps { kin, clock, target_us, is_arrivals_turn: false }
    }

    fn is_busy(&self) -> bool {
        self.kin.iter().any(|namespace| namespace.store.busy_flag().is_occupied())
    }

    /// Performs the work due now, and moves the clock to the next instant with due work. Returns false at the end.
    fn next(&mut self, handlers: &'static Handlers) -> bool {
        let now = self.clock.now();
        let mut swept_ms = NEVER;
        for namespace in &self.kin {
            match do_due(namespace, handlers, now) {
                Some(due_ms) => swept_ms = swept_ms.min(due_ms),
                None => return true, // more is due
            }
        }
        // At an instant, waits end before data arrives, so that clients are told neither too much nor too little.
        if !std::mem::replace(&mut self.is_arrivals_turn, true) || deliver(&self.kin, now) {
            return true;
        }
        let topologies = self.kin.first().map(|namespace| namespace.driven_topologies()).unwrap_or_default();
        if topologies.iter().map(|topology| topology.tick(now)).fold(false, BitOr::bitor) {
            return true;
        }
        if now.mono_us() >= self.target_us {
            return false;
        }
        // Computed last: the work at this instant may have made something due earlier.
        let due_ms = self.kin.iter().map(|namespace| next_due_ms(namespace, now)).fold(swept_ms, u64::min);
        let due_ms = topologies.iter().map(|topology| topology.next_due_ms()).fold(due_ms, u64::min);
        if due_ms <= now.mono_ms() {
            return true;
        }
        self.is_arrivals_turn = false;
        self.clock.advance_to(due_ms.saturating_mul(1000).min(self.target_us));
        true
    }
}

/// Performs the work due now in a namespace. Returns the time of the next sweep, in monotonic milliseconds; `None` if
/// more work is due now.
fn do_due(namespace: &Namespace, handlers: &'static Handlers, now: Now) -> Option<u64> {
    let swept_ms = sweep_once(namespace, handlers, now);
    serve_unserved(namespace, handlers);
    let has_unserved = {
        // After this, other tasks have served their clients and set new deadlines.
        let _exclusive = namespace.store.lock_exclusive();
        namespace.upkeep.has_unserved()
    };
    if swept_ms <= now.mono_ms() || namespace.store.busy_flag().is_occupied() || has_unserved {
        return None;
    }
    if namespace.restrictions.pause.in_force(now).is_none() {
        serve_keys(namespace, handlers, now, namespace.clients.due_keys(now));
    }
    namespace.clients.end_overdue(now);
    Some(swept_ms)
}

/// Returns the next time with due work in a namespace, in monotonic milliseconds.
fn next_due_ms(namespace: &Namespace, now: Now) -> u64 {
    let paused_until_ms = namespace.restrictions.pause.in_force(now).map_or(NEVER, |(_, until_ms)| until_ms);
    let arrivals = namespace.links.to_replicas().into_iter().map(|link| link.next_arrival_ms());
    let arrival_ms = arrivals.min().unwrap_or(NEVER);
    namespace.next_sweep_ms(now).min(namespace.clients.next_due_ms(now)).min(paused_until_ms).min(arrival_ms)
}

/// Delivers the records of primaries, and the data that has arrived, to their replicas in the process; returns whether
/// any were delivered.
fn deliver(kin: &[Arc<Namespace>], now: Now) -> bool {
    let mut has_delivered = false;
    for link in kin.iter().flat_map(|namespace| namespace.links.to_replicas()) {
        has_delivered |= link.deliver(now);
    }
    has_delivered
}

/// Performs the work that does not depend on exact instants.
fn finish(namespace: &Namespace) {
    check_clients(namespace);
    namespace.limit_replicas(namespace.clock.now());
    namespace.tend_replicas(namespace.clock.now());
    namespace.clients.nudge_blocked();
    if let Some(engine) = namespace.engine() {
        engine.follow_clock();
    }
    namespace.upkeep.sweep_notify.notify_one();
    namespace.sample();
    if let Some(link) = namespace.links.to_primary() {
        link.wake();
    }
}
