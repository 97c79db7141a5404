//! The role of a namespace as primary or replica, and the state of a replica's link to its primary.
//!
//! Commands change the role. A thread (`replication/`) runs the link. It receives each change, and checks before each
//! action that its *term* is still the present one: each change of the primary begins another term.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::client::info::{ClientInfo, Peer};
use crate::config::HostPort;
use crate::time::clock::Now;

/// State of the link to a primary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// A connection is to be opened.
    #[default]
    Connect,
    /// The connection is being opened.
    Connecting,
    /// The replica describes itself and requests data.
    Handshake,
    /// All data is being received or loaded.
    Sync,
    /// Changes are received.
    Connected,
}

impl LinkState {
    /// Returns the name of the state in ROLE.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Handshake => "handshake",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// State and figures of the link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkStatus {
    pub(crate) state: LinkState,
    /// Time of the last received bytes, in monotonic milliseconds.
    pub(crate) heard_ms: u64,
    /// Time at which the link went down, in monotonic milliseconds; `None` if it never was up.
    pub(crate) down_since_ms: Option<u64>,
    /// Length of the data that is being received, if the primary has sent it, and number of bytes received.
    pub(crate) total: Option<u64>,
    pub(crate) received: u64,
    /// True if the primary sends its time.
    pub(crate) tells_time: bool,
    /// True if the primary's clock was set forward, so that its deadlines are late here.
    pub(crate) is_late: bool,
}

/// The primary that the link is to have, and the term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedPrimary {
    pub(crate) term: u64,
    pub(crate) primary: Option<HostPort>,
    /// True if the data may be of the primary's history, so that a partial resynchronisation may do.
    pub(crate) continues: bool,
}

#[derive(Default)]
pub(crate) struct Role {
    link: Mutex<LinkStatus>,
    wanted: watch::Sender<WantedPrimary>,
    connection: Mutex<Option<LinkConnection>>,
    /// True if the clock by which the deadlines were set is not known.
    lacks_time: AtomicBool,
    /// Number of steps of the clock: a time that replicas were told before the last one is wrong.
    clock_steps: AtomicU64,
}

/// The connection of the link.
pub(crate) struct LinkConnection {
    /// The two ends of the connection.
    pub(crate) peer: Peer,
    /// Function that ends the connection.
    pub(crate) hang_up: Box<dyn Fn() + Send>,
    /// The connection as shown to clients, once changes are received.
    pub(crate) client: Option<Arc<ClientInfo>>,
}

impl Role {
    /// Returns the primary, in a replica.
    pub(crate) fn primary(&self) -> Option<HostPort> {
        self.wanted.borrow().primary.clone()
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.wanted.borrow().primary.is_some()
    }

    pub(crate) fn term(&self) -> u64 {
        self.wanted.borrow().term
    }

    /// Returns a receiver of each change of the role.
    pub(crate) fn follow(&self) -> watch::Receiver<WantedPrimary> {
        self.wanted.subscribe()
    }

    pub(crate) fn link(&self) -> LinkStatus {
        *self.link.lock()
    }

    /// Returns true if the data may be of the history of the primary.
    pub(crate) fn continues(&self) -> bool {
        self.wanted.borrow().continues
    }

    /// Notes that the data may be of the history of the primary.
    pub(super) fn may_continue(&self) {
        self.wanted.send_modify(|wanted| wanted.continues = true);
    }

    /// Returns true if the clock by which the deadlines were set is not known.
    pub(super) fn lacks_time(&self) -> bool {
        self.lacks_time.load(Relaxed)
    }

    /// Sets if the clock by which the deadlines were set is not known.
    pub(super) fn set_lacks_time(&self, lacks_time: bool) {
        self.lacks_time.store(lacks_time, Relaxed);
    }

    /// Returns the number of steps of the clock.
    pub(crate) fn clock_steps(&self) -> u64 {
        self.clock_steps.load(Relaxed)
    }

    /// Counts a step of the clock.
    pub(super) fn note_clock_step(&self) {
        self.clock_steps.fetch_add(1, Relaxed);
    }

    /// Begins a term with a primary, which may have the same history, or without one.
    pub(super) fn begin_term(&self, primary: Option<HostPort>, continues: bool) {
        *self.link.lock() = LinkStatus::default();
        // The lock is taken before the next connection can be set, so that this is not ended in place of the former
        // one.
        let mut former = self.connection.lock();
        self.wanted.send_modify(|wanted| *wanted = WantedPrimary { term: wanted.term + 1, primary, continues });
        if let Some(former) = former.take() {
            (former.hang_up)();
        }
    }

    /// Ends the connection of the link, if there is one.
    pub(crate) fn hang_up(&self) {
        if let Some(connection) = &*self.connection.lock() {
            (connection.hang_up)();
        }
    }

    /// Returns the link as a client, while it is up.
    pub(crate) fn client(&self) -> Option<Arc<ClientInfo>> {
        let connection = self.connection.lock();
        connection.as_ref().filter(|_| self.link().is_up())?.client.clone()
    }

    /// Shows the link of a term as a client from now on, which `describe` creates.
    pub(super) fn show_client(&self, term: u64, describe: impl FnOnce(Peer) -> Arc<ClientInfo>) {
        let mut connection = self.connection.lock();
        if let Some(connection) = connection.as_mut().filter(|_| self.term() == term) {
            connection.client = Some(describe(connection.peer.clone()));
        }
    }

    /// Sets the connection of the link; returns false in another term.
    pub(crate) fn connected(&self, term: u64, connection: Option<LinkConnection>) -> bool {
        let mut present = self.connection.lock();
        let is_current = self.term() == term;
        if is_current {
            *present = connection;
        }
        is_current
    }

    /// Updates the state of the link, if the term is the present one; returns true if it is.
    pub(super) fn update(&self, term: u64, change: impl FnOnce(&mut LinkStatus)) -> bool {
        let mut link = self.link.lock();
        let is_current = self.term() == term;
        if is_current {
            change(&mut link);
        }
        is_current
    }
}

impl LinkStatus {
    /// Returns true if changes are received.
    pub(crate) fn is_up(&self) -> bool {
        self.state == LinkState::Connected
    }

    /// Notes the time at which bytes were received.
    pub(crate) fn hear(&mut self, now: Now) {
        self.heard_ms = now.mono_ms();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_term_ends_the_connection_of_the_former_one_and_not_its_own() {
        let primary = || Some(HostPort { host: "host".into(), port: 1 });
        for _ in 0..2000 {
            let (role, ended) = (Role::default(), Arc::new(Mutex::new(Vec::new())));
            let connection = |term: u64| {
                let ended = ended.clone();
                let peer = Peer { addr: "".into(), laddr: "".into(), fd: -1, is_unix: false };
                Some(LinkConnection { peer, hang_up: Box::new(move || ended.lock().push(term)), client: None })
            };
            role.begin_term(primary(), false);
            assert!(role.connected(1, connection(1)));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while role.term() == 1 {
                        std::hint::spin_loop();
                    }
                    assert!(role.connected(2, connection(2)) && !role.connected(1, None));
                });
                role.begin_term(primary(), true);
            });
            assert_eq!(*ended.lock(), [1]);
            role.hang_up();
            assert_eq!(*ended.lock(), [1, 2]);
        }
    }

    #[test]
    fn the_link_of_a_term_is_not_up_because_that_of_the_former_one_was() {
        let role = Role::default();
        let primary = |port| Some(HostPort { host: "h".into(), port });
        role.begin_term(primary(1), false);
        assert!(role.update(role.term(), |link| link.state = LinkState::Connected) && role.link().is_up());
        role.begin_term(primary(2), false);
        assert_eq!(role.link().state, LinkState::Connect);
    }
}
