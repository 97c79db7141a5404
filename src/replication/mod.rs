//! The link of a replica to its primary: a thread that connects, requests the missing records, and executes them.
//!
//! The role names the primary ([`Role`](crate::namespace::role::Role)) in a term; a thread belongs to a term, and
//! changes nothing in another one. The thread blocks while it waits for the primary, as it has nothing else to do.

mod acknowledgements;
mod handshake;
mod link;
mod local;
mod payload;
#[cfg(test)]
mod simulation_tests;
mod stream;
mod time;
mod wire;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tracing::warn;

use crate::dispatch::Handlers;
use crate::namespace::Namespace;
use crate::namespace::failover::FailoverStage;
use crate::namespace::role::WantedPrimary;
use crate::persist::disk::Disk;
use crate::replication::link::Link;
use crate::replication::time::{ASK_EVERY, ask_apart};
use crate::text::system_text;

pub(crate) use local::{begin_link, replicate_locally};

/// Interval of checks that the time for a failover is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the links that the role of a namespace asks for, until the server stops.
pub(crate) async fn keep_link(namespace: Arc<Namespace>, handlers: &'static Handlers, disk: Arc<dyn Disk>) {
    let (mut role, mut last_term) = (namespace.role.follow(), 0);
    loop {
        let wanted = role.borrow_and_update().clone();
        let is_new = std::mem::replace(&mut last_term, wanted.term) != wanted.term;
        if let WantedPrimary { term, primary: Some(primary), .. } = &wanted
            && is_new
        {
            let link = Link::new((&namespace, handlers, disk.clone()), *term, primary.clone());
            // The thread of a former term ends by itself, because its connection was ended.
            if let Err(cause) = thread::Builder::new().name("replica".into()).spawn(move || link.run()) {
                warn!("There is no link to the primary, because no thread can be started: {}", system_text(&cause));
            }
        }
        tokio::select! {
            () = namespace.tenant.stop.cancelled() => return namespace.role.hang_up(),
            changed = role.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(ASK_EVERY) => ask_apart(&namespace, wanted),
        }
    }
}

/// Performs the steps of failovers as they become due, until the server stops.
pub(crate) async fn run_failover(namespace: Arc<Namespace>) {
    loop {
        tokio::select! {
            () = namespace.tenant.stop.cancelled() => return,
            () = namespace.failover.begun.notified() => {}
        }
        while namespace.failover.stage() == Some(FailoverStage::Waiting) {
            // A step waits for the whole store, which a script may hold for long; other tasks run on this thread
            // meanwhile.
            let stepped = namespace.clone();
            let _ = spawn_blocking(move || stepped.continue_failover()).await;
            tokio::select! {
                () = namespace.tenant.stop.cancelled() => return,
                () = namespace.replicas.next_acknowledgement() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }
}
