//! Moves a steered clock over everything that is due on the way: each at its own instant, in order.
//!
//! At an instant, keys and fields expire first, and what was waiting for them is served; then blocked calls are made
//! again whose time has come; then waits end whose timeout it is. Meanwhile `steering` in [`Namespace::upkeep`] keeps
//! the sweeper and the tasks of blocked clients from doing so by themselves, so the order is always the same.

use std::sync::Arc;
use std::time::Duration;

use crate::dispatch::serve::{serve_keys, serve_unserved};
use crate::dispatch::{Handlers, TimeTravel};
use crate::namespace::Namespace;
use crate::store::NEVER;
use crate::time::clock::{Clock, END_MS, Now};
use crate::upkeep::{BUSY_PAUSE, check_clients, sweep_once};

/// How often a client's task is given a chance to fetch its answer before this one sleeps in between.
const PROMPT_TURNS: u32 = 100;

/// Steers the clock of a namespace. When it is done, everything that was due has happened, and blocked clients that this
/// has answered are not blocked any more.
pub(crate) async fn travel(namespace: &Arc<Namespace>, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = namespace.upkeep.steering.lock().await;
    let mut steps = Steps::begin(namespace, travel);
    // What replicas have at an instant decides what clients are told then.
    let has_replicas = steps.kin.len() > 1;
    while steps.next(handlers) {
        match steps.is_busy() {
            true => tokio::time::sleep(BUSY_PAUSE).await,
            false if has_replicas => let_clients_notice(&steps.kin).await,
            false => tokio::task::yield_now().await,
        }
    }
    drop(turn);
    steps.kin.iter().for_each(|namespace| finish(namespace));
    let_clients_notice(&steps.kin).await;
}

/// Waits until the tasks of the clients that were answered have noticed.
async fn let_clients_notice(kin: &[Arc<Namespace>]) {
    let mut turns = 0;
    for namespace in kin {
        let answered = namespace.clients.answered();
        while !namespace.clients.have_noticed(&answered) {
            turns += 1;
            match turns < PROMPT_TURNS {
                true => tokio::task::yield_now().await,
                false => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

/// Moves the clock, as [`travel`] does, on the calling thread, which may be the one that serves the clients: it waits for none of their tasks.
pub(crate) fn travel_blocking(namespace: &Arc<Namespace>, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = loop {
        match namespace.upkeep.steering.try_lock() {
            Ok(turn) => break turn,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut steps = Steps::begin(namespace, travel);
    while steps.next(handlers) {
        if steps.is_busy() {
            namespace.clock.advance_to(steps.target_us); // what was due on the way is done when the script has ended
            break;
        }
    }
    drop(turn);
    steps.kin.iter().for_each(|namespace| finish(namespace));
}

/// The way to a time, of all namespaces with the same clock.
struct Steps {
    kin: Vec<Arc<Namespace>>,
    clock: Clock,
    target_us: u64,
    /// Whether all else that is due at this instant is done.
    is_arrivals_turn: bool,
}

impl Steps {
    /// Does what is not a matter of time passing. From now on, scripts are limited as if the clock were at its target: what
    /// is due on the way cannot happen before they end.
    fn begin(namespace: &Arc<Namespace>, travel: TimeTravel) -> Self {
        let (kin, clock) = (namespace.kin(), namespace.clock.clone());
        // What was written before the clock is moved is on its way since then.
        deliver(&kin, clock.now());
        let now = clock.now();
        let target_us = match travel {
            TimeTravel::By(time) => {
                // What expires after so many milliseconds has expired after a move by so many, also if the clock is running.
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
        clock.head_for(target_us);
        Steps { kin, clock, target_us, is_arrivals_turn: false }
    }

    /// Returns whether a script keeps a store busy.
    fn is_busy(&self) -> bool {
        self.kin.iter().any(|namespace| namespace.store.busy_flag().is_occupied())
    }

    /// Does what is due now, and moves the clock to the next instant at which something is due; returns false at the end.
    fn next(&mut self, handlers: &'static Handlers) -> bool {
        let now = self.clock.now();
        let mut swept_ms = NEVER;
        for namespace in &self.kin {
            match do_due(namespace, handlers, now) {
                Some(due_ms) => swept_ms = swept_ms.min(due_ms),
                None => return true, // there is more
            }
        }
        // At an instant, waits end before anything arrives, so that clients are told of neither too much nor too little.
        if !std::mem::replace(&mut self.is_arrivals_turn, true) || deliver(&self.kin, now) {
            return true;
        }
        if now.mono_us() >= self.target_us {
            return false;
        }
        // Asked for last: what has happened at this instant may have made something due earlier.
        let due_ms = self.kin.iter().map(|namespace| next_due_ms(namespace, now)).fold(swept_ms, u64::min);
        if due_ms <= now.mono_ms() {
            return true;
        }
        self.is_arrivals_turn = false;
        self.clock.advance_to(due_ms.saturating_mul(1000).min(self.target_us));
        true
    }
}

/// Does what is due now in a namespace; returns when the next sweep is, in monotonic milliseconds, or `None` if there is more
/// to do.
fn do_due(namespace: &Namespace, handlers: &'static Handlers, now: Now) -> Option<u64> {
    let swept_ms = sweep_once(namespace, handlers, now);
    serve_unserved(namespace, handlers);
    let has_unserved = {
        // Other tasks have served whom they were about to serve, and set new deadlines.
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

/// Returns when something is due in a namespace, in monotonic milliseconds.
fn next_due_ms(namespace: &Namespace, now: Now) -> u64 {
    let paused_until_ms = namespace.restrictions.pause.in_force(now).map_or(NEVER, |(_, until_ms)| until_ms);
    let arrivals = namespace.links.to_replicas().into_iter().map(|link| link.next_arrival_ms());
    let arrival_ms = arrivals.min().unwrap_or(NEVER);
    namespace.next_sweep_ms(now).min(namespace.clients.next_due_ms(now)).min(paused_until_ms).min(arrival_ms)
}

/// Lets replicas in the process have what their primaries have written and what has arrived; returns whether there was
/// anything.
fn deliver(kin: &[Arc<Namespace>], now: Now) -> bool {
    let mut has_delivered = false;
    for link in kin.iter().flat_map(|namespace| namespace.links.to_replicas()) {
        has_delivered |= link.deliver(now);
    }
    has_delivered
}

/// Does what does not depend on exact instants.
fn finish(namespace: &Namespace) {
    check_clients(namespace);
    namespace.limit_replicas(namespace.clock.now());
    namespace.tend_replicas(namespace.clock.now());
    namespace.clients.nudge_blocked();
    namespace.engine().iter().for_each(|engine| engine.follow_clock());
    namespace.upkeep.sweep_notify.notify_one();
    namespace.sample();
    namespace.links.to_primary().iter().for_each(|link| link.wake());
}
