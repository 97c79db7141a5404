//! The lease of this process, and the sessions that last as long as the lease.
//!
//! The thread `lease` renews the lease and closes the connections of sessions when it may be over (`keeper.rs`); the
//! thread `engine`, which a script or the gate may hold up, records here which sessions these are. So guarantees to
//! other processes never wait for the execution of calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;

use crate::client::registry::Clients;
use crate::engine::cluster::Revision;
use crate::time::clock::Now;

/// State of the lease.
pub(super) struct Lease {
    clients: Arc<Clients>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the process with the lease, and the time until which the lease is certain to last, in monotonic
    /// milliseconds; `None` while there is no lease, or it may be over.
    held: Option<(u64, u64)>,
    /// The clients to whose sessions locks of the mirror are bound, each with the number of locks.
    sessions: HashMap<u64, usize, ahash::RandomState>,
    /// Clients whose locks the mirror does not have yet, by the revisions of the locks.
    ahead: BTreeMap<Revision, Vec<u64>>,
}

impl State {
    fn clients(&self) -> Vec<u64> {
        self.sessions.keys().chain(self.ahead.values().flatten()).copied().collect()
    }

    fn is_held_by(&self, process: u64) -> bool {
        self.held.is_some_and(|(holder, _)| holder == process)
    }
}

impl Lease {
    /// Creates the lease of a process that has none yet.
    pub(super) fn new(clients: Arc<Clients>) -> Self {
        Lease { clients, state: Mutex::default() }
    }

    /// Records the time until which the lease of a process is certain to last, in monotonic milliseconds.
    pub(super) fn hold(&self, process: u64, until_ms: u64) {
        self.state.lock().held = Some((process, until_ms));
    }

    /// Returns the time at which the lease may be over, in monotonic milliseconds; `None` if it may be already.
    pub(super) fn until_ms(&self) -> Option<u64> {
        self.state.lock().held.map(|(_, until_ms)| until_ms)
    }

    /// Ends all sessions if the lease may be over, as other processes may take their locks. Returns true if it may be
    /// over.
    pub(super) fn check(&self, now: Now) -> bool {
        let mut state = self.state.lock();
        if state.held.take_if(|(_, until_ms)| now.mono_ms() >= *until_ms).is_some() {
            warn!("etcd: the lease of this process cannot be kept alive, its sessions are ended");
            self.close(state.clients());
        }
        state.held.is_none()
    }

    /// Ends all sessions, as the lease is over.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.held = None;
        self.close(state.clients());
    }

    /// Returns true if the lease may be over, and locks are bound to sessions that have ended with it.
    pub(super) fn has_ended_sessions(&self) -> bool {
        let state = self.state.lock();
        state.held.is_none() && !(state.sessions.is_empty() && state.ahead.is_empty())
    }

    /// Records that a lock of the mirror is bound to the session of a client; ends the session if the lease is over.
    pub(super) fn bind(&self, process: u64, client: u64) {
        let mut state = self.state.lock();
        *state.sessions.entry(client).or_default() += 1;
        if !state.is_held_by(process) {
            self.close([client]);
        }
    }

    /// Reverts [`Lease::bind`].
    pub(super) fn unbind(&self, client: u64) {
        let mut state = self.state.lock();
        if let Some(count) = state.sessions.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                state.sessions.remove(&client);
            }
        }
    }

    /// Records that a lock, which the mirror has from a revision on, is bound to the session of a client; called before
    /// the client is told of the lock.
    pub(super) fn bind_ahead(&self, process: u64, client: u64, revision: Revision) {
        let mut state = self.state.lock();
        state.ahead.entry(revision).or_default().push(client);
        if !state.is_held_by(process) {
            self.close([client]);
        }
    }

    /// Removes records of locks that the mirror has by now.
    pub(super) fn follow_mirror(&self, revision: Revision) {
        let mut state = self.state.lock();
        while let Some(entry) = state.ahead.first_entry().filter(|entry| *entry.key() <= revision) {
            entry.remove();
        }
    }

    fn close(&self, clients: impl IntoIterator<Item = u64>) {
        let found = clients.into_iter().filter_map(|client| self.clients.find(client));
        found.for_each(|client| self.clients.kill(&client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::info::Peer;
    use crate::time::clock::Clock;

    #[test]
    fn a_session_ends_with_the_lease_whenever_its_lock_is_learned_of() {
        let (clients, clock) = (Arc::new(Clients::default()), Clock::manual());
        let connect = || {
            let peer = Peer { addr: "test:0".into(), laddr: "test:0".into(), fd: -1, is_unix: true };
            clients.admit(peer, clock.now(), usize::MAX).expect("there is room")
        };
        let [mirrored, ahead, released, late, of_former, free] = std::array::from_fn(|_| connect());
        let lease = Lease::new(clients.clone());
        lease.hold(1, clock.now().mono_ms() + 1000);
        lease.bind(1, mirrored.id);
        lease.bind_ahead(1, ahead.id, 7);
        lease.bind(1, released.id);
        lease.unbind(released.id);
        clock.advance(std::time::Duration::from_millis(999));
        assert!(!lease.check(clock.now()));
        assert!(!mirrored.outbox.is_ending() && !ahead.outbox.is_ending());
        clock.advance(std::time::Duration::from_millis(1));
        assert!(lease.check(clock.now()) && lease.has_ended_sessions());
        lease.bind(1, late.id);
        lease.hold(2, clock.now().mono_ms() + 1000);
        lease.bind(1, of_former.id);
        lease.bind(2, free.id);
        let ended = [&mirrored, &ahead, &released, &late, &of_former, &free].map(|client| client.outbox.is_ending());
        assert_eq!(ended, [true, true, false, true, true, false]);
    }
}
