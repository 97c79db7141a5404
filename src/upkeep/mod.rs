//! Upkeep of a namespace outside of commands: expiry, eviction, limits of clients, rates.
//!
//! While the clock runs, tasks do it in time. While the clock is steered, [`time_travel`] does it at every instant that
//! the clock is moved over.

pub(crate) mod time_travel;

use std::sync::Arc;
use std::time::Duration;

use tracing::info;

use crate::client::info::Class;
use crate::client::outbox::END;
use crate::dispatch::Handlers;
use crate::dispatch::history::checkpoint_if_many_keys;
use crate::dispatch::interrupted::log_interrupted;
use crate::dispatch::serve::{serve_remaining_keys, serve_unserved};
use crate::namespace::Namespace;
use crate::runtime::panics::Site;
use crate::store::{Cx, Eviction, NEVER, Origin};
use crate::time::clock::Now;
use crate::time::timer::Timer;

/// Interval of housekeeping, and the longest sleep of the sweeper, so that it notices a wall clock set forward.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Interval of retries of upkeep, while a script keeps the store busy or some clients are not served yet.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// Deletes some expired keys, releases the locks of closed connections, and serves clients blocked on them; returns the
/// time of the next sweep, in monotonic milliseconds.
fn sweep_once(namespace: &Namespace, handlers: &'static Handlers, now: Now) -> u64 {
    log_interrupted(namespace);
    let session_ms = namespace.end_departed_sessions(now);
    let swept_ms = namespace.sweep(now);
    checkpoint_if_many_keys(namespace, now);
    serve_remaining_keys(namespace, handlers);
    // Computed last: a lock that was handed over may expire before everything else.
    swept_ms.min(namespace.next_sweep_ms(now)).min(session_ms)
}

/// Deletes keys the moment they expire; a large number of them in several steps.
pub(crate) async fn sweep(namespace: Arc<Namespace>, handlers: &'static Handlers) {
    let (store, clock, timer) = (&namespace.store, &namespace.clock, Timer::open());
    let mut has_waited = false;
    loop {
        namespace.instance.panics.pass(Site::Sweep);
        let turn = namespace.upkeep.steering.lock().await;
        let now = clock.now();
        // While the clock stands still, only a move of the clock expires keys.
        let due_ms = if clock.is_stopped() { NEVER } else { sweep_once(&namespace, handlers, now) };
        let is_short = store.memory_account().is_over()
            && namespace.evict_to_fit(&mut store.hold(1), Cx::new(now, Origin::Eviction)) == Eviction::Unfinished;
        if std::mem::take(&mut has_waited) {
            serve_unserved(&namespace, handlers);
        }
        drop(turn);
        if (is_short || due_ms <= now.mono_ms()) && !namespace.tenant.stop.is_cancelled() {
            tokio::task::yield_now().await;
            continue;
        }
        let wait = match due_ms {
            _ if namespace.upkeep.has_unserved() => BUSY_PAUSE,
            NEVER => HOUSEKEEPING,
            due_ms => HOUSEKEEPING.min(clock.time_until(due_ms)),
        };
        tokio::select! {
            () = namespace.tenant.stop.cancelled() => return,
            () = namespace.upkeep.sweep_notify.notified() => {}
            () = timer.wait(wait) => has_waited = true,
        }
    }
}

/// Runs the housekeeping of all namespaces: checks the clients' total memory `hz` times a second, and every client each
/// second.
pub(crate) async fn housekeeping(namespace: Arc<Namespace>) {
    let mut rounds = 0;
    loop {
        let hz = namespace.settings.current().hz.max(1);
        tokio::select! {
            () = namespace.instance.stop.cancelled() => return,
            () = tokio::time::sleep(HOUSEKEEPING / hz) => {
                namespace.instance.panics.pass(Site::Housekeeping);
                rounds += 1;
                let is_full = rounds >= hz;
                if is_full {
                    rounds = 0;
                }
                let panics = &namespace.instance.panics;
                namespace.each(|namespace| {
                    panics.catch("housekeeping", || run_housekeeping(namespace, is_full));
                });
            }
        }
    }
}

/// Runs one round of housekeeping in a namespace.
fn run_housekeeping(namespace: &Namespace, is_full: bool) {
    let begun = namespace.clock.ticks();
    namespace.limit_replicas(namespace.clock.now());
    if is_full {
        check_clients(namespace);
        namespace.tend_replicas(namespace.clock.now());
        namespace.sample();
    } else {
        relieve_clients(namespace);
    }
    namespace.record_housekeeping(begun);
}

/// Disconnects the largest clients while all clients together exceed `maxmemory-clients`.
fn relieve_clients(namespace: &Namespace) {
    if let Some(limit) = namespace.settings.current().client_memory_max() {
        namespace.clients.evict(limit);
    }
}

/// Disconnects clients that were idle for `timeout` seconds, exceeded the soft output limit for too long, or use too
/// much memory.
fn check_clients(namespace: &Namespace) {
    let config = namespace.settings.current();
    let timeout_ms = u64::from(config.timeout_s) * 1000;
    relieve_clients(namespace);
    let has_subscribers = namespace.push.hub.has_subscribers();
    let normal = config.client_output_buffer_limit[Class::Normal as usize];
    if timeout_ms == 0 && normal.soft_bytes == 0 && !has_subscribers {
        return;
    }
    let now = namespace.clock.now();
    for client in namespace.clients.all() {
        client.record_soft_limit(client.output_limit(&config), now);
        let is_waiting = client.flags.is_blocked() || client.session.class() != Class::Normal;
        if timeout_ms != 0 && client.traffic.idle_ms(now) > timeout_ms && !is_waiting {
            info!(client = client.id, "closing an idle or slow client");
            client.outbox.signal(END);
        }
    }
}
