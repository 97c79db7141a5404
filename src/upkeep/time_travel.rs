//! Moves a steered clock over everything that is due on the way: each at its own instant, in order.
//!
//! At an instant, keys and fields expire first, and what was waiting for them is served; then blocked calls are made
//! again whose time has come; then waits end whose timeout it is. Meanwhile `steering` in [`Namespace::upkeep`] keeps
//! the sweeper and the tasks of blocked clients from doing so by themselves, so the order is always the same.

use std::time::Duration;

use crate::dispatch::serve::serve_keys;
use crate::dispatch::{Handlers, TimeTravel};
use crate::namespace::Namespace;
use crate::store::NEVER;
use crate::time::clock::END_MS;
use crate::upkeep::{check_clients, sweep_once};

/// How often a client's task is given a chance to fetch its answer before this one sleeps in between.
const PROMPT_TURNS: u32 = 100;

/// The interval at which the clock tries to move on while a script keeps the store busy.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Steers the clock of a namespace. When it is done, everything that was due has happened, and blocked clients that this
/// has answered are not blocked any more.
pub(crate) async fn travel(namespace: &Namespace, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = namespace.upkeep.steering.lock().await;
    let mut steps = Steps::begin(namespace, travel);
    while steps.next(namespace, handlers) {
        match namespace.store.busy_flag().is_occupied() {
            true => tokio::time::sleep(BUSY_PAUSE).await,
            false => tokio::task::yield_now().await,
        }
    }
    drop(turn);
    finish(namespace);
    let answered = namespace.clients.answered();
    let mut turns = 0;
    while !namespace.clients.have_noticed(&answered) {
        turns += 1;
        match turns < PROMPT_TURNS {
            true => tokio::task::yield_now().await,
            false => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

/// Moves the clock, as [`travel`] does, on the calling thread, which may be the one that serves the clients: it waits for none of their tasks.
pub(crate) fn travel_blocking(namespace: &Namespace, handlers: &'static Handlers, travel: TimeTravel) {
    let turn = loop {
        match namespace.upkeep.steering.try_lock() {
            Ok(turn) => break turn,
            Err(_) => std::thread::yield_now(),
        }
    };
    let mut steps = Steps::begin(namespace, travel);
    while steps.next(namespace, handlers) {
        if namespace.store.busy_flag().is_occupied() {
            namespace.clock.advance_to(steps.target_us); // what was due on the way is done when the script has ended
            break;
        }
    }
    drop(turn);
    finish(namespace);
}

/// The way to a time.
struct Steps {
    target_us: u64,
}

impl Steps {
    /// Does what is not a matter of time passing. From now on, scripts are limited as if the clock were at its target: what
    /// is due on the way cannot happen before they end.
    fn begin(namespace: &Namespace, travel: TimeTravel) -> Self {
        let clock = &namespace.clock;
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
        Steps { target_us }
    }

    /// Does what is due now, and moves the clock to the next instant at which something is due; returns false at the end.
    fn next(&mut self, namespace: &Namespace, handlers: &'static Handlers) -> bool {
        let now = namespace.clock.now();
        let swept_ms = sweep_once(namespace, handlers, now);
        namespace.store.pass_barrier(); // other tasks have served the ready keys that they took, and set new deadlines
        if swept_ms <= now.mono_ms() || namespace.store.busy_flag().is_occupied() {
            return true; // there is more
        }
        let clients = &namespace.clients;
        let paused_until_ms = namespace.restrictions.pause.in_force(now).map_or(NEVER, |(_, until_ms)| until_ms);
        if paused_until_ms == NEVER {
            serve_keys(namespace, handlers, now, clients.due_keys(now));
        }
        clients.end_overdue(now);
        if now.mono_us() >= self.target_us {
            return false;
        }
        // Asked for last: what has happened at this instant may have made something due earlier.
        let sweep_ms = swept_ms.min(namespace.next_sweep_ms(now));
        let due_ms = sweep_ms.min(clients.next_due_ms(now)).min(paused_until_ms);
        if due_ms <= now.mono_ms() {
            return true;
        }
        namespace.clock.advance_to(due_ms.saturating_mul(1000).min(self.target_us));
        true
    }
}

/// Does what does not depend on exact instants.
fn finish(namespace: &Namespace) {
    check_clients(namespace);
    namespace.limit_replicas(namespace.clock.now());
    namespace.tend_replicas(namespace.clock.now());
    namespace.clients.nudge_blocked();
    namespace.upkeep.sweep_notify.notify_one();
    namespace.sample();
}
