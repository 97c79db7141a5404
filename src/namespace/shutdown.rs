//! A shutdown, and what it waits for: replicas that lack changes, then its snapshot.
//!
//! With save points, or with `save`, the server stops when a last snapshot is saved, and goes on if that fails, unless
//! `force` is given. Neither does it stop, without `force`, while the first base of an append-only file is written. A server
//! that is still loading its data saves none. A task finishes a shutdown that waits, whether its client is there or not; see
//! [`PendingShutdown`](crate::namespace::pending_shutdown::PendingShutdown).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::pause::Held;
use crate::client::replica::{Replica, ReplicaState};
use crate::config::ShutdownOptions;
use crate::namespace::Namespace;
use crate::namespace::pending_shutdown::{Awaited, Pending};
use crate::persist::{Busy, Figures, Job, Order};
use crate::store::NEVER;

/// How often to look whether the time for replicas is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a request to shut down has led to.
#[derive(Debug)]
pub(crate) enum Shutdown {
    /// The server stops.
    Begun,
    /// It stops when replicas have what they lack, and a snapshot is saved. The token is cancelled if it goes on instead.
    Waiting(CancellationToken),
    /// It goes on.
    Refused,
}

impl Namespace {
    /// Stops the server as the options say, or joins the shutdown that waits for replicas already.
    pub(crate) fn shut_down(&self, options: ShutdownOptions) -> Shutdown {
        let timeout_ms = self.settings.current().shutdown_timeout_s.saturating_mul(1000);
        let mut current = self.pending_shutdown.current.lock();
        match &*current {
            Some(Pending { awaited: Awaited::Replicas { .. }, goes_on, .. }) => {
                return Shutdown::Waiting(goes_on.clone());
            }
            None if !options.now && timeout_ms > 0 && !self.replica_clients().is_empty() => {
                info!("User requested shutdown...");
                let until_ms = self.clock.now().mono_ms().saturating_add(timeout_ms);
                let pending = self.hold_for_shutdown(options, Awaited::Replicas { until_ms });
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

    /// Stops the server without waiting for replicas that lack changes up to a position, if the options require it after a
    /// snapshot.
    fn shut_down_without(&self, position: u64, options: ShutdownOptions) -> Shutdown {
        self.report_lagging(position);
        // The next start would load the append-only file, whatever is saved beside it.
        if self.persistence.read(Figures::begins_log) {
            if !options.force {
                warn!("Writing initial AOF, can't exit.");
                return refused();
            }
            warn!("Writing initial AOF. Exit anyway.");
        }
        let config = self.settings.current();
        let is_due = options.save || !options.nosave && !config.save_points.is_empty();
        // What is loaded so far must not replace the file that it comes from.
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

    /// Begins to shut down after a snapshot, or joins the shutdown that waits for one already. Returns what is cancelled if
    /// the server goes on instead.
    fn shut_down_after_save(&self, options: ShutdownOptions) -> Result<CancellationToken, Busy> {
        let mut current = self.pending_shutdown.current.lock();
        if let Some(Pending { awaited: Awaited::Snapshot(_), goes_on, .. }) = &*current {
            return Ok(goes_on.clone());
        }
        let order_save = || {
            [Job::Save, Job::Rewrite].iter().for_each(|job| self.persistence.cancel(*job));
            self.persistence.cancel_sending();
            self.persistence.order_awaited_save()
        };
        let goes_on = match &mut *current {
            Some(pending) => {
                pending.awaited = Awaited::Snapshot(order_save()?);
                pending.goes_on.clone()
            }
            None => {
                // Before the order: what is written until the snapshot begins is in it, and then nothing is.
                let pending = self.hold_for_shutdown(options, Awaited::Replicas { until_ms: 0 });
                let order = order_save().inspect_err(|_| self.release_writes(pending.paused_before))?;
                let goes_on = pending.goes_on.clone();
                *current = Some(Pending { awaited: Awaited::Snapshot(order), ..pending });
                goes_on
            }
        };
        self.pending_shutdown.begun.notify_one();
        Ok(goes_on)
    }

    /// Begins a shutdown that waits: clients that write wait, too.
    fn hold_for_shutdown(&self, options: ShutdownOptions, awaited: Awaited) -> Pending {
        // One that has written goes on: replicas and the snapshot are to have all of it.
        #[cfg(feature = "lua")]
        [false, true].iter().for_each(|is_function| _ = self.scripts.control.kill(*is_function));
        let paused_before = self.hold_writes();
        Pending { options, awaited, goes_on: CancellationToken::new(), paused_before }
    }

    /// Lets the server go on instead of a shutdown that waits; returns whether there was one.
    pub(crate) fn abort_shutdown(&self) -> bool {
        let Some(pending) = self.pending_shutdown.current.lock().take() else { return false };
        self.release_writes(pending.paused_before);
        pending.goes_on.cancel();
        true
    }

    /// Finishes shutdowns that wait, one after the other, until the server stops.
    pub(crate) async fn finish_shutdowns(self: &Arc<Self>) {
        while !self.instance.stop.is_cancelled() {
            tokio::select! {
                () = self.instance.stop.cancelled() => return,
                () = self.pending_shutdown.begun.notified() => self.continue_shutdown().await,
            }
        }
    }

    /// Makes the next step of the shutdown that waits, once what it waits for is there.
    async fn continue_shutdown(self: &Arc<Self>) {
        let Some(pending) = self.pending_shutdown.current.lock().clone() else { return };
        match pending.awaited {
            Awaited::Replicas { until_ms } => {
                let Some(position) = self.wait_for_replicas(until_ms, &pending.goes_on).await else { return };
                if pending.goes_on.is_cancelled() {
                    return; // at the last moment
                }
                if matches!(self.shut_down_without(position, pending.options), Shutdown::Refused) {
                    self.abort_shutdown();
                }
            }
            Awaited::Snapshot(order) => self.stop_after(order, &pending).await,
        }
    }

    /// Waits until the replicas have all changes, or for as long as they are given; returns up to where in the log that was
    /// asked of them, or `None` if the server stops or goes on meanwhile.
    async fn wait_for_replicas(self: &Arc<Self>, until_ms: u64, goes_on: &CancellationToken) -> Option<u64> {
        let held = self.clone();
        let no_write_is_under_way = spawn_blocking(move || drop(held.store.exclusive()));
        self.within(until_ms, goes_on, async { _ = no_write_is_under_way.await }).await?;
        let position = self.log.end();
        // One that has not been sent all of a snapshot cannot have the changes behind it in time.
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

    /// Works up to a time, in monotonic milliseconds; returns `None` if the server stops or goes on meanwhile.
    async fn within(&self, until_ms: u64, goes_on: &CancellationToken, work: impl Future<Output = ()>) -> Option<()> {
        // Nobody may move a clock that stands still: then as much time as that has to pass.
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

    /// Logs which replicas have not acknowledged the changes up to a position.
    fn report_lagging(&self, position: u64) {
        let (replicas, now) = (self.replica_clients(), self.clock.now());
        let lagging = replicas.iter().filter(|(replica, _)| replica.acknowledged() < position);
        for (replica, _) in lagging.clone() {
            let (state, name) = (replica.state(), replica.shown_name());
            let lag_s = if state == ReplicaState::Online { replica.lag_ms(now) / 1000 } else { 0 };
            warn!(
                "Lagging replica {name} reported offset {} behind master, lag={lag_s}, state={}.",
                position.saturating_sub(replica.acknowledged()), // it may have said more meanwhile
                state.name()
            );
        }
        if !replicas.is_empty() {
            let (all, in_sync) = (replicas.len(), replicas.len() - lagging.count());
            info!("{in_sync} of {all} replicas are in sync when shutting down.");
        }
    }

    /// Stops the server when the snapshot is saved; otherwise lets it go on.
    async fn stop_after(&self, order: Order, pending: &Pending) {
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

    /// Lets clients that write wait, as CLIENT PAUSE does, for as long as it takes. Returns the pause in force before.
    pub(super) fn hold_writes(&self) -> Option<(Held, u64)> {
        let now = self.clock.now();
        let before = self.restrictions.pause.in_force(now);
        self.restrictions.pause.begin(Held::Writes, NEVER, now);
        self.store.freeze(NEVER);
        self.store.renew_generation();
        before
    }

    /// Ends what [`Namespace::hold_writes`] has begun; the pause before it goes on.
    pub(super) fn release_writes(&self, before: Option<(Held, u64)>) {
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
    use crate::persist::Task;
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
                Task::Write(_, order) => break order,
                Task::Look => {}
                other => panic!("{other:?}"),
            }
        };
        namespace.persistence.end(order, error.map(Into::into));
    }

    fn poll(work: impl Future<Output = ()>) -> Poll<()> {
        pin!(work).as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn holds(namespace: &Namespace) -> Option<(Held, u64)> {
        namespace.restrictions.pause.in_force(namespace.clock.now())
    }

    #[test]
    fn a_shutdown_waits_for_its_snapshot_and_no_client_writes_meanwhile() {
        let namespace = namespace();
        let goes_on = namespace.shut_down_after_save(ShutdownOptions::default()).expect("it is ordered");
        assert_eq!(holds(&namespace), Some((Held::Writes, NEVER)));
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
            namespace.restrictions.pause.begin(Held::Everything, 700, namespace.clock.now());
            let goes_on = namespace.shut_down_after_save(options).expect("it is ordered");
            end(&namespace, Some("No space left on device"));
            assert_eq!(poll(namespace.finish_shutdowns()).is_ready(), stops);
            assert_eq!((namespace.instance.stop.is_cancelled(), goes_on.is_cancelled()), (stops, !stops));
            if !stops {
                assert_eq!(holds(&namespace), Some((Held::Everything, 700)), "the pause before it goes on");
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
