//! Whether a namespace is a primary or a replica, and how the link of a replica to its primary is.
//!
//! Commands change the role. The link is kept by a thread (`replication/`), which receives each change and checks before
//! everything that it does whether its *term* is still the present one: with each change of the primary another one begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::client::info::{ClientInfo, Peer};
use crate::config::Address;
use crate::time::clock::Now;

/// How far the link to a primary is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LinkState {
    /// It is to be connected.
    #[default]
    Connect,
    /// The connection is being opened.
    Connecting,
    /// The replica introduces itself and asks for data.
    Handshake,
    /// All data is being received or loaded.
    Sync,
    /// Changes are received.
    Connected,
}

impl LinkState {
    /// Returns its name in ROLE.
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

/// What is known of the link.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) state: LinkState,
    /// When anything was received last, in monotonic milliseconds.
    pub(crate) heard_ms: u64,
    /// Since when it is down, in monotonic milliseconds; `None` if it never was up.
    pub(crate) down_since_ms: Option<u64>,
    /// The length of the data that is being received, if the primary has told it, and how much is here.
    pub(crate) total: Option<u64>,
    pub(crate) received: u64,
    /// Whether the primary says what its time is.
    pub(crate) tells_time: bool,
    /// Whether the primary's clock was set forward, so that its deadlines are late here.
    pub(crate) is_late: bool,
}

/// Which primary the link is to have, and in which term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) term: u64,
    pub(crate) primary: Option<Address>,
    /// Whether the data may be of the primary's history, so that what it lacks may be enough.
    pub(crate) continues: bool,
}

/// The role of a namespace.
#[derive(Default)]
pub(crate) struct Role {
    link: Mutex<Link>,
    wanted: watch::Sender<Wanted>,
    connection: Mutex<Option<Connection>>,
    /// Whether nothing is known of the clock by which the deadlines were given.
    lacks_time: AtomicBool,
}

/// The connection of the link.
pub(crate) struct Connection {
    /// Its two ends.
    pub(crate) peer: Peer,
    /// Ends it.
    pub(crate) hang_up: Box<dyn Fn() + Send>,
    /// What clients see of it, once changes are received.
    pub(crate) client: Option<Arc<ClientInfo>>,
}

impl Role {
    /// Returns the primary, in a replica.
    pub(crate) fn primary(&self) -> Option<Address> {
        self.wanted.borrow().primary.clone()
    }

    /// Returns whether this is a replica.
    pub(crate) fn is_replica(&self) -> bool {
        self.wanted.borrow().primary.is_some()
    }

    /// Returns the present term.
    pub(crate) fn term(&self) -> u64 {
        self.wanted.borrow().term
    }

    /// Returns a receiver of each change of the role.
    pub(crate) fn follow(&self) -> watch::Receiver<Wanted> {
        self.wanted.subscribe()
    }

    /// Returns what is known of the link.
    pub(crate) fn link(&self) -> Link {
        *self.link.lock()
    }

    /// Returns whether the data may be of the history of the primary.
    pub(crate) fn continues(&self) -> bool {
        self.wanted.borrow().continues
    }

    /// Notes that the data may be of the history of the primary.
    pub(super) fn may_continue(&self) {
        self.wanted.send_modify(|wanted| wanted.continues = true);
    }

    /// Returns whether nothing is known of the clock by which the deadlines were given.
    pub(super) fn lacks_time(&self) -> bool {
        self.lacks_time.load(Relaxed)
    }

    /// Sets whether nothing is known of the clock by which the deadlines were given.
    pub(super) fn set_lacks_time(&self, lacks_time: bool) {
        self.lacks_time.store(lacks_time, Relaxed);
    }

    /// Begins a term with a primary, which may have the same history, or without one.
    pub(super) fn begin_term(&self, primary: Option<Address>, continues: bool) {
        *self.link.lock() = Link::default();
        // The next connection comes after the lock: it must not be ended in place of the former one.
        let mut former = self.connection.lock();
        self.wanted.send_modify(|wanted| *wanted = Wanted { term: wanted.term + 1, primary, continues });
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
    pub(crate) fn connected(&self, term: u64, connection: Option<Connection>) -> bool {
        let mut present = self.connection.lock();
        let is_current = self.term() == term;
        if is_current {
            *present = connection;
        }
        is_current
    }

    /// Changes what is known of the link, if the term is the present one; returns whether it is.
    pub(super) fn update(&self, term: u64, change: impl FnOnce(&mut Link)) -> bool {
        let mut link = self.link.lock();
        let is_current = self.term() == term;
        if is_current {
            change(&mut link);
        }
        is_current
    }
}

impl Link {
    /// Returns whether changes are received.
    pub(crate) fn is_up(&self) -> bool {
        self.state == LinkState::Connected
    }

    /// Notes that something was received.
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
        let primary = || Some(Address { host: "host".into(), port: 1 });
        for _ in 0..2000 {
            let (role, ended) = (Role::default(), Arc::new(Mutex::new(Vec::new())));
            let connection = |term: u64| {
                let ended = ended.clone();
                let peer = Peer { addr: "".into(), laddr: "".into(), fd: -1, is_unix: false };
                Some(Connection { peer, hang_up: Box::new(move || ended.lock().push(term)), client: None })
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
}
