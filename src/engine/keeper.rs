//! The thread of the lease: registers the process, keeps its lease alive, and ends its sessions before the lease is
//! over. It has connections of its own and executes no calls, so no script and no queue of calls can hold it up.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tracing::warn;

use crate::engine::cluster::{ClusterChange, ClusterFailure, ClusterTransaction, Test};
use crate::engine::driver::{DriverInput, RETRY};
use crate::engine::etcd::Cluster;
use crate::engine::lanes::Lanes;
use crate::engine::lease::Lease;
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::nodes::Announcement;
use crate::namespace::Namespace;

/// Duration of a lease that is not renewed, in seconds.
pub(super) const LEASE_S: i64 = 10;
/// Time before the end of the lease at which a process ends everything bound to it, in milliseconds.
const LEASE_MARGIN_MS: u64 = 2000;
/// Interval of renewals.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(3);
/// Interval of attempts to close connections while the lease may be over.
const CLOSE_EVERY_MS: u64 = 100;

pub(super) struct LeaseKeeper {
    pub(super) namespace: Arc<Namespace>,
    pub(super) cluster: Cluster,
    pub(super) prefix: NamePrefix,
    pub(super) lease: Arc<Lease>,
    pub(super) tell: mpsc::UnboundedSender<DriverInput>,
    /// The lease in the cluster, from the time of its grant.
    pub(super) granted: Cell<Option<i64>>,
    pub(super) announcement: Announcement,
}

impl LeaseKeeper {
    /// Starts the thread. It registers the process at each request, and ends when the channel of requests is closed.
    pub(super) fn start(self, asked: mpsc::UnboundedReceiver<()>) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("lease".into());
        thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = self.run(asked) => {}
                    () = self.watch() => {}
                }
            });
        })?;
        Ok(())
    }

    async fn run(&self, mut asked: mpsc::UnboundedReceiver<()>) {
        let mut next = asked.recv().await;
        while next.is_some() {
            next = tokio::select! {
                next = asked.recv() => next,
                () = self.keep() => asked.recv().await,
            };
            if next.is_some() {
                self.withdraw().await;
            }
        }
    }

    /// Ends all sessions as soon as the lease may be over.
    async fn watch(&self) {
        let clock = &self.namespace.clock;
        loop {
            let now = clock.now();
            let is_over = self.lease.check(now);
            #[cfg(feature = "lua")]
            if self.lease.has_ended_sessions() {
                // A script may hold up the threads that are to close the connections.
                self.namespace.scripts.control.make_busy();
            }
            let again_ms = if is_over { None } else { self.lease.until_ms() };
            clock.reach(again_ms.unwrap_or(now.ms_later(CLOSE_EVERY_MS))).await;
        }
    }

    /// Registers the process, and renews its lease until it is over.
    async fn keep(&self) {
        // Measured from before the request: the lease lasts from the time of its grant.
        let held_until_ms = || self.namespace.clock.now().ms_later((LEASE_S as u64) * 1000 - LEASE_MARGIN_MS);
        let (process, lease, mut announced) = loop {
            let marker = self.announcement.marker().await;
            let until_ms = held_until_ms();
            match self.register(marker.clone()).await {
                Ok((process, lease)) => {
                    self.lease.hold(process, until_ms);
                    break (process, lease, marker);
                }
                Err(failure) => warn!("etcd: this process cannot be registered: {}", failure.reason()),
            }
            self.withdraw().await; // the registration may have succeeded
            tokio::time::sleep(RETRY).await;
        };
        let _ = self.tell.send(DriverInput::Registered(process, lease)); // the engine may have ended
        loop {
            tokio::time::sleep(KEEP_ALIVE_EVERY).await;
            let mut until_ms = held_until_ms();
            while let Err(failure) = self.cluster.keep_alive(lease).await {
                if failure == ClusterFailure::LeaseExpired {
                    self.lease.end();
                    let _ = self.tell.send(DriverInput::LeaseExpired(process)); // as above
                    return;
                }
                tokio::time::sleep(RETRY).await;
                until_ms = held_until_ms();
            }
            self.lease.hold(process, until_ms);
            let _ = self.tell.send(DriverInput::LeaseHeld); // as above
            self.announce(process, lease, &mut announced).await;
        }
    }

    /// Registers the process with a number and a lease of its own, and this value of its marker.
    async fn register(&self, value: Vec<u8>) -> Result<(u64, i64), ClusterFailure> {
        let process = getrandom::u64().map_err(|error| ClusterFailure::Refused(error.to_string()))?;
        let lease = self.cluster.lease(LEASE_S).await?;
        self.granted.set(Some(lease));
        let marker = self.prefix.name(&EtcdName::Process(process));
        let tests = vec![Test::Unchanged(marker.clone(), 0)];
        let lanes = Lanes::create(&self.prefix, process);
        let changes = std::iter::once(ClusterChange::PutLeased(marker, value)).chain(lanes).collect();
        let done = self.cluster.commit(ClusterTransaction { tests, changes, reads: Vec::new() }, lease).await?;
        if done.is_committed {
            Ok((process, lease))
        } else {
            Err(ClusterFailure::Refused("another process has the same number".into()))
        }
    }

    /// Changes the marker after a change of the settings that it depends on.
    async fn announce(&self, process: u64, lease: i64, announced: &mut Vec<u8>) {
        let value = self.announcement.marker().await;
        if value != *announced {
            let marker = self.prefix.name(&EtcdName::Process(process));
            let tests = vec![Test::Exists(marker.clone())];
            let changes = vec![ClusterChange::PutLeased(marker, value.clone())];
            let done = self.cluster.commit(ClusterTransaction { tests, changes, reads: Vec::new() }, lease).await;
            if done.is_ok_and(|done| done.is_committed) {
                *announced = value; // otherwise it is tried again at the next renewal
            }
        }
    }

    /// Ends the former registration, so that no process takes it for that of a live one.
    async fn withdraw(&self) {
        self.lease.end();
        if let Some(lease) = self.granted.take() {
            let _ = self.cluster.revoke(lease).await; // the lease ends anyway
        }
    }
}
