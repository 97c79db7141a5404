//! A shutdown that waits for its snapshot; see [`FinalSave`](crate::namespace::final_save::FinalSave).

use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::client::pause::Held;
use crate::namespace::Namespace;
use crate::namespace::final_save::Waiting;
use crate::persist::{Busy, Job};
use crate::store::NEVER;

impl Namespace {
    /// Begins to shut down after a snapshot, or joins the shutdown that waits already. Returns what is cancelled if the
    /// server goes on instead.
    ///
    /// # Errors
    /// When nothing takes orders.
    pub(crate) fn shut_down_after_save(&self, is_forced: bool) -> Result<CancellationToken, Busy> {
        let mut current = self.final_save.current.lock();
        if let Some(waiting) = &*current {
            return Ok(waiting.goes_on.clone());
        }
        // One that has written goes on: the snapshot is to have all of it.
        #[cfg(feature = "lua")]
        [false, true].iter().for_each(|is_function| _ = self.scripts.control.kill(*is_function));
        // Before the order: what is written until the snapshot begins is in it, and then nothing is.
        let paused_before = self.hold_writes();
        [Job::Save, Job::Rewrite].iter().for_each(|job| self.persistence.cancel(*job));
        let order = self.persistence.order_awaited_save().inspect_err(|_| self.release_writes(paused_before))?;
        let goes_on = CancellationToken::new();
        *current = Some(Waiting { order, is_forced, goes_on: goes_on.clone(), paused_before });
        self.final_save.begun.notify_one();
        Ok(goes_on)
    }

    /// Lets the server go on instead of a shutdown that waits for its snapshot; returns whether there was one.
    pub(crate) fn abort_shutdown(&self) -> bool {
        let Some(waiting) = self.final_save.current.lock().take() else { return false };
        self.release_writes(waiting.paused_before);
        waiting.goes_on.cancel();
        true
    }

    /// Finishes shutdowns that wait for their snapshots, one after the other, until the server stops.
    pub(crate) async fn finish_shutdowns(&self) {
        while !self.instance.stop.is_cancelled() {
            tokio::select! {
                () = self.instance.stop.cancelled() => return,
                () = self.final_save.begun.notified() => self.finish_shutdown().await,
            }
        }
    }

    /// Stops the server when the snapshot is saved; otherwise lets it go on.
    async fn finish_shutdown(&self) {
        let Some(waiting) = self.final_save.current.lock().clone() else { return };
        let error = tokio::select! {
            () = self.instance.stop.cancelled() => return,
            () = waiting.goes_on.cancelled() => return,
            error = self.persistence.ended(waiting.order) => error,
        };
        match error {
            None => {}
            Some(reason) if waiting.is_forced => warn!("Error trying to save the DB: {reason}. Exit anyway."),
            Some(reason) => {
                warn!("Error trying to save the DB, can't exit: {reason}");
                warn!("Errors trying to shut down the server. Check the logs for more information.");
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

    fn namespace() -> Namespace {
        let namespace = Namespace::for_test(commands(), Config::default(), Clock::manual());
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
        let goes_on = namespace.shut_down_after_save(false).expect("it is ordered");
        assert_eq!(holds(&namespace), Some((Held::Writes, NEVER)));
        assert!(poll(namespace.finish_shutdowns()).is_pending());
        assert!(!namespace.instance.stop.is_cancelled() && namespace.final_save.is_running());
        namespace.final_save.begun.notify_one();
        end(&namespace, None);
        assert!(poll(namespace.finish_shutdowns()).is_ready());
        assert!(namespace.instance.stop.is_cancelled() && !goes_on.is_cancelled());
    }

    #[test]
    fn a_snapshot_that_fails_lets_the_server_go_on_unless_the_shutdown_is_forced() {
        for (is_forced, stops) in [(false, false), (true, true)] {
            let namespace = namespace();
            namespace.restrictions.pause.begin(Held::Everything, 700, namespace.clock.now());
            let goes_on = namespace.shut_down_after_save(is_forced).expect("it is ordered");
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
        let goes_on = namespace.shut_down_after_save(false).expect("it is ordered");
        let joined = namespace.shut_down_after_save(true).expect("it joins");
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
        assert_eq!(namespace.shut_down_after_save(false).err(), Some(Busy::Disabled));
        assert!(holds(&namespace).is_none() && !namespace.final_save.is_running());
    }
}
