//! Shutdown, and the events that it waits for: replicas that lack changes, then its snapshot.
//!
//! With save points, or with `save`, the server stops when a last snapshot is saved, and continues if that fails,
//! unless `force` is given. Without `force` it does not stop either while the first base of an append-only file is
//! written. A server that is still loading its data saves no snapshot. A task finishes a waiting shutdown, even if its
//! client is gone; see [`PendingShutdown`](crate::namespace::pending_shutdown::PendingShutdown).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::pause::PauseScope;
use crate::client::replica::{Replica, ReplicaState};
use crate::config::ShutdownOptions;
use crate::namespace::Namespace;
use crate::namespace::pending_shutdown::{ShutdownWait, WaitingShutdown};
use crate::persist::{Busy, FileFigures, Job, Order};
use crate::store::NEVER;

/// Interval of checks that the time for replicas is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Result of a request to shut down.
#[derive(Debug)]
pub(crate) enum Shutdown {
    /// The server stops.
    Begun,
    /// The server stops once replicas have all records, and a snapshot is saved. The token is cancelled if it continues
    /// instead.
    Waiting(CancellationToken),
    /// The server continues.
    Refused,
}

impl Namespace {
    /// Stops the server by the options, or joins a shutdown that waits for replicas already.
    pub(crate) fn shut_down(&self, options: ShutdownOptions) -> Shutdown {
        let timeout_ms = self.settings.current().shutdown_timeout_s.saturating_mul(1000);
        let mut current = self.pending_shutdown.current.lock();
        match &*current {
            Some(WaitingShutdown { awaited: ShutdownWait::Replicas { .. }, goes_on, .. }) => {
                return Shutdown::Waiting(goes_on.clone());
            }
            None if !options.now && timeout_ms > 0 && !self.replica_clients().is_empty() => {
                info!("User requested shutdown...");
                let until_ms = self.clock.now().mono_ms().saturating_add(timeout_ms);
                let pending = self.hold_for_shutdown(options, ShutdownWait::Replicas { until_ms });
                let goes_on = pending.goes_on.clone();
                *current = Some(pending);
                self.pending_shutdown.begun.notify_one();
                return Shutdown::Waiting(goes_on);
            }
            _ => {}
        }
        drop(current);
        info!("User requested shutdown...");
        self.shut_down_without(self.log.end(), options)
    }

    /// Stops the server without waiting for replicas that lack changes up to a position; saves a snapshot first if the
    /// options require it.
    fn shut_down_without(&self, position: u64, options: ShutdownOptions) -> Shutdown {
        self.report_lagging(position);
        // The next start would load the append-only file, whatever is saved beside it.
        if self.persistence.read(FileFigures::begins_log) {
            if !options.force {
                warn!("Writing initial AOF, can't exit.");
                return refused();
            }
            warn!("Writing initial AOF. Exit anyway.");
        }
        let config = self.settings.current();
        let is_due = options.save || !options.nosave && !config.save_points.is_empty();
        // Data that is partly loaded must not replace the file that it comes from.
        if is_due && !self.restrictions.is_loading_anything() {
            let refusal = match config.dbfilename {
                None => "there is no snapshot file: 'dbfilename' is empty",
                Some(_) => match self.shut_down_after_save(options) {
                    Ok(goes_on) => {
                        info!("Saving the final RDB snapshot before exiting.");
                        return Shutdown::Waiting(goes_on);
                    }
                    Err(_) => "this server writes no files",
                },
            };
            if options.save && !options.force {
                warn!("Error trying to save the DB, can't exit: {refusal}");
                return refused();
            }
            warn!("Error trying to save the DB: {refusal}. Exit anyway: the data is lost.");
        }
        self.begin_shutdown();
        Shutdown::Begun
    }

    /// Begins a shutdown after a snapshot, or joins one that waits for a snapshot already. Returns a token that is
    /// cancelled if the server continues instead.
    fn shut_down_after_save(&self, options: ShutdownOptions) -> Result<CancellationToken, Busy> {
        let mut current = self.pending_shutdown.current.lock();
        if let Some(WaitingShutdown { awaited: ShutdownWait::Snapshot(_), goes_on, .. }) = &*current {
            return Ok(goes_on.clone());
        }
        let order_save = || {
            [Job::Save, Job::Rewrite].iter().for_each(|job| self.persistence.cancel(*job));
            self.persistence.cancel_sending();
            self.persistence.order_awaited_save()
        };
        let goes_on = match &mut *current {
            Some(pending) => {
                pending.awaited = ShutdownWait::Snapshot(order_save()?);
                pending.goes_on.clone()
            }
            None => {
                // Before the order: writes before the start of the snapshot are in it, and then there are none.
                let pending = self.hold_for_shutdown(options, ShutdownWait::Replicas { until_ms: 0 });
                let order = order_save().inspect_err(|_| self.release_writes(pending.paused_before))?;
                let goes_on = pending.goes_on.clone();
                *current = Some(WaitingShutdown { awaited: ShutdownWait::Snapshot(order), ..pending });
                goes_on
            }
        };
        self.pending_shutdown.begun.notify_one();
        Ok(goes_on)
    }

    /// Begins a waiting shutdown, during which clients that write wait, too.
    fn hold_for_shutdown(&self, options: ShutdownOptions, awaited: ShutdownWait) -> WaitingShutdown {
        // A script that has written continues: replicas and the snapshot are to have all of its writes.
        #[cfg(feature = "lua")]
        [false, true].iter().for_each(|is_function| _ = self.scripts.control.kill(*is_function));
        let paused_before = self.hold_writes();
        WaitingShutdown { options, awaited, goes_on: CancellationToken::new(), paused_before }
    }

    /// Aborts a waiting shutdown, so that the server continues; returns true if there was one.
    pub(crate) fn abort_shutdown(&self) -> bool {
        let Some(pending) = self.pending_shutdown.current.lock().take() else { return false };
        self.release_writes(pending.paused_before);
        pending.goes_on.cancel();
        true
    }

    /// Finishes waiting shutdowns, one after the other, until the server stops.
    pub(crate) async fn finish_shutdowns(self: &Arc<Self>) {
        while !self.instance.stop.is_cancelled() {
            tokio::select! {
                () = self.instance.stop.cancelled() => return,
                () = self.pending_shutdown.begun.notified() => self.continue_shutdown().await,
            }
        }
    }

    /// Performs the next step of the waiting shutdown, once its event has come.
    async fn continue_shutdown(self: &Arc<Self>) {
        let Some(pending) = self.pending_shutdown.current.lock().clone() else { return };
        match pending.awaited {
            ShutdownWait::Replicas { until_ms } => {
                let Some(position) = self.wait_for_replicas(until_ms, &pending.goes_on).await else { return };
                if pending.goes_on.is_cancelled() {
                    return; // aborted at the last moment
                }
                if matches!(self.shut_down_without(position, pending.options), Shutdown::Refused) {
                    self.abort_shutdown();
                }
            }
            ShutdownWait::Snapshot(order) => self.stop_after(order, &pending).await,
        }
    }

    /// Waits until the replicas have all changes, or their time is over; returns the log position that they had to
    /// reach, or `None` if the server stops or continues meanwhile.
    async fn wait_for_replicas(self: &Arc<Self>, until_ms: u64, goes_on: &CancellationToken) -> Option<u64> {
        let held = self.clone();
        let no_write_is_under_way = spawn_blocking(move || drop(held.store.exclusive()));
        self.within(until_ms, goes_on, async { _ = no_write_is_under_way.await }).await?;
        let position = self.log.end();
        // A replica that has not been sent a whole snapshot cannot have the changes behind it in time.
        let is_sent_snapshot = |state| matches!(state, ReplicaState::Online | ReplicaState::Loading);
        let lags = |replica: &Replica| is_sent_snapshot(replica.state()) && replica.acknowledged() < position;
        let lag = || self.replica_clients().iter().any(|(replica, _)| lags(replica));
        if lag() {
            info!("Waiting for replicas before shutting down.");
            self.ask_replicas();
            let none_lags = async {
                while lag() {
                    tokio::select! {
                        () = self.replicas.next_acknowledgement() => {}
                        () = sleep(LOOK_EVERY) => {}
                    }
                }
            };
            self.within(until_ms, goes_on, none_lags).await?;
        }
        Some(position)
    }

    /// Runs `work` up to a time, in monotonic milliseconds; returns `None` if the server stops or continues meanwhile.
    async fn within(&self, until_ms: u64, goes_on: &CancellationToken, work: impl Future<Output = ()>) -> Option<()> {
        // No client may move a clock that stands still: then as much real time has to pass.
        let left = Duration::from_millis(until_ms.saturating_sub(self.clock.now().mono_ms()));
        let time_is_over = async {
            while self.clock.now().mono_ms() < until_ms {
                sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            biased;
            () = self.instance.stop.cancelled() => None,
            () = goes_on.cancelled() => None,
            () = work => Some(()),
            () = time_is_over => Some(()),
            () = sleep(left) => Some(()),
        }
    }

    /// Logs the replicas that have not acknowledged the changes up to a position.
    fn report_lagging(&self, position: u64) {
        let (replicas, now) = (self.replica_clients(), self.clock.now());
        let lagging = replicas.iter().filter(|(replica, _)| replica.acknowledged() < position);
        for (replica, _) in lagging.clone() {
            let (state, name) = (replica.state(), replica.shown_name());
            let lag_s = if state == ReplicaState::Online { replica.lag_ms(now) / 1000 } else { 0 };
            warn!(
                "Lagging replica {name} reported offset {} behind master, lag={lag_s}, state={}.",
                position.saturating_sub(replica.acknowledged()), // the replica may have acknowledged more meanwhile
                state.name()
            );
        }
        if !replicas.is_empty() {
            let (all, in_sync) = (replicas.len(), replicas.len() - lagging.count());
            info!("{in_sync} of {all} replicas are in sync when shutting down.");
        }
    }

    /// Stops the server when the snapshot is saved; on failure the server continues, unless forced.
    async fn stop_after(&self, order: Order, pending: &WaitingShutdown) {
        let error = tokio::select! {
            () = self.instance.stop.cancelled() => return,
            () = pending.goes_on.cancelled() => return,
            error = self.persistence.ended(order) => error,
        };
        match error {
            None => {}
            Some(reason) if pending.options.force => warn!("Error trying to save the DB: {reason}. Exit anyway."),
            Some(reason) => {
                warn!("Error trying to save the DB, can't exit: {reason}");
                refused();
                self.abort_shutdown();
                return;
            }
        }
        self.begin_shutdown();
    }

    /// Makes clients that write wait, as CLIENT PAUSE does, until [`Namespace::release_writes`]. Returns the pause in
    /// force before.
    pub(super) fn hold_writes(&self) -> Option<(PauseScope, u64)> {
        let now = self.clock.now();
        let before = self.restrictions.pause.in_force(now);
        self.restrictions.pause.begin(PauseScope::Writes, NEVER, now);
        self.store.freeze(NEVER);
        self.store.renew_generation();
        before
    }

    /// Ends the pause of [`Namespace::hold_writes`]; the pause before it continues.
    pub(super) fn release_writes(&self, before: Option<(PauseScope, u64)>) {
        self.restrictions.pause.end();
        if let Some((held, until_ms)) = before {
            self.restrictions.pause.begin(held, until_ms, self.clock.now());
        }
        self.store.freeze(before.map_or(0, |(_, until_ms)| until_ms));
        self.store.renew_generation();
        self.clients.end_pause();
    }
}

fn refused() -> Shutdown {
    warn!("Errors trying to shut down the server. Check the logs for more information.");
    Shutdown::Refused
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::config::Config;
    use crate::persist::FileTask;
    use crate::spec::sample::commands;
    use crate::time::clock::Clock;

    const FORCED: ShutdownOptions = ShutdownOptions { save: false, nosave: false, now: false, force: true };

    fn namespace() -> Arc<Namespace> {
        let namespace = Arc::new(Namespace::for_test(commands(), Config::default(), Clock::manual()));
        namespace.persistence.set_enabled(true);
        namespace
    }

    fn end(namespace: &Namespace, error: Option<&str>) {
        let order = loop {
            match namespace.persistence.next_task(None) {
                FileTask::Write(_, order) => break order,
                FileTask::Look => {}
                other => panic!("{other:?}"),
            }
        };
        namespace.persistence.end(order, error.map(Into::into));
    }

    fn poll(work: impl Future<Output = ()>) -> Poll<()> {
        pin!(work).as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn holds(namespace: &Namespace) -> Option<(PauseScope, u64)> {
        namespace.restrictions.pause.in_force(namespace.clock.now())
    }

    #[test]
    fn a_shutdown_waits_for_its_snapshot_and_no_client_writes_meanwhile() {
        let namespace = namespace();
        let goes_on = namespace.shut_down_after_save(ShutdownOptions::default()).expect("it is ordered");
        assert_eq!(holds(&namespace), Some((PauseScope::Writes, NEVER)));
        assert!(poll(namespace.finish_shutdowns()).is_pending());
        assert!(!namespace.instance.stop.is_cancelled() && namespace.pending_shutdown.is_running());
        namespace.pending_shutdown.begun.notify_one();
        end(&namespace, None);
        assert!(poll(namespace.finish_shutdowns()).is_ready());
        assert!(namespace.instance.stop.is_cancelled() && !goes_on.is_cancelled());
    }

    #[test]
    fn a_snapshot_that_fails_lets_the_server_go_on_unless_the_shutdown_is_forced() {
        for (options, stops) in [(ShutdownOptions::default(), false), (FORCED, true)] {
            let namespace = namespace();
            namespace.restrictions.pause.begin(PauseScope::Everything, 700, namespace.clock.now());
            let goes_on = namespace.shut_down_after_save(options).expect("it is ordered");
            end(&namespace, Some("No space left on device"));
            assert_eq!(poll(namespace.finish_shutdowns()).is_ready(), stops);
            assert_eq!((namespace.instance.stop.is_cancelled(), goes_on.is_cancelled()), (stops, !stops));
            if !stops {
                assert_eq!(holds(&namespace), Some((PauseScope::Everything, 700)), "the pause before it goes on");
            }
        }
    }

    #[test]
    fn a_shutdown_that_waits_can_be_joined_and_aborted() {
        let namespace = namespace();
        assert!(!namespace.abort_shutdown());
        let goes_on = namespace.shut_down_after_save(ShutdownOptions::default()).expect("it is ordered");
        let joined = namespace.shut_down_after_save(FORCED).expect("it joins");
        assert!(namespace.abort_shutdown() && !namespace.abort_shutdown());
        assert!(goes_on.is_cancelled() && joined.is_cancelled());
        assert_eq!(holds(&namespace), None);
        end(&namespace, None);
        assert!(poll(namespace.finish_shutdowns()).is_pending());
        assert!(!namespace.instance.stop.is_cancelled(), "the snapshot of an aborted shutdown stops nothing");
    }

    #[test]
    fn where_nothing_takes_orders_nothing_is_held() {
        let namespace = Namespace::for_test(commands(), Config::default(), Clock::manual());
        assert_eq!(namespace.shut_down_after_save(ShutdownOptions::default()).err(), Some(Busy::Disabled));
        assert!(holds(&namespace).is_none() && !namespace.pending_shutdown.is_running());
    }
}
