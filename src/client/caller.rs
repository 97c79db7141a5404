//! The caller of a command: all that a data handler may know of a client.

use std::cell::Cell;
use std::sync::Arc;

use crate::acl::{Access, Acl};
use crate::client::info::{Class, ClientInfo, RemoteClient};
use crate::client::staged::{HeldToken, Staged};
use crate::persist::Effects;
use crate::resp::{Output, Protocol};
use crate::spec::CommandSpec;
use crate::store::{Key, LockHolder};
use crate::topology::Slot;

/// The caller of a command and the state its calls depend on.
///
/// A client's own task keeps one for the lifetime of the connection. A call that another task executes for the client
/// has a copy.
#[derive(Clone)]
pub struct Caller {
    /// The client's entry in the registry.
    pub info: Arc<ClientInfo>,
    /// The selected database.
    pub db: usize,
    /// The protocol replies are written in.
    pub protocol: Protocol,
    /// The client's user and its permissions.
    pub access: Access,
    /// The command that the client itself called last, not one called by EXEC or a script on its behalf.
    pub called: Option<&'static CommandSpec>,
    /// The number of commands executed, including those in EXEC and scripts.
    pub commands: u64,
    /// True while a script calls commands on the client's behalf.
    pub is_in_script: bool,
    /// True if memory was over the limit, with no key to evict, when the present request was admitted.
    pub is_short_of_memory: bool,
    /// The time in microseconds that TIME replies throughout the present script or EXEC, once it was called there.
    pub frozen_us: Option<i64>,
    /// True if a script of the present call was interrupted after some of its changes, because the server stops: nothing
    /// of the call may get to the log or to a cluster.
    pub(crate) is_half_done: bool,
    /// Set when the connection must be closed after the replies so far.
    pub closing: bool,
    /// The slot of the keys of the present call, or of the first call of its script, where the server is a node of a cluster.
    pub(crate) slot: Cell<Option<Slot>>,
    /// True if the client reads from a replica (READONLY).
    pub(crate) reads_replica: bool,
    /// True if the next call may be for a slot that is being moved to this node (ASKING).
    pub(crate) is_asking: bool,
    /// State of a call that an engine executes; `None` for other calls.
    pub(crate) staged: Option<Box<Staged>>,
    /// Effects of the present call so far, for the log; allocated with the first one.
    effects: Option<Box<Effects>>,
}

impl Caller {
    /// Creates the caller of a new connection.
    pub fn new(info: Arc<ClientInfo>, acl: &Acl) -> Self {
        let access = Access::new(acl);
        info.set_user(&access.user().name);
        Caller {
            info,
            db: 0,
            protocol: Protocol::default(),
            access,
            called: None,
            commands: 0,
            is_in_script: false,
            is_half_done: false,
            is_short_of_memory: false,
            frozen_us: None,
            closing: false,
            slot: Cell::default(),
            reads_replica: false,
            is_asking: false,
            staged: None,
            effects: None,
        }
    }

    /// Returns the client as the holder of a lock; for a call that an engine executes, a copy, because the call may not
    /// take effect.
    pub(crate) fn as_lock_holder(&self) -> Arc<dyn LockHolder> {
        match self.staged {
            Some(_) => Arc::new(RemoteClient::of(&self.info)),
            None => self.info.as_lock_holder(),
        }
    }

    /// Records a lock that the present call acquires or renews with a token, if an engine executes the call.
    pub(crate) fn record_held(&mut self, key: Key<'_>, token: &[u8]) {
        if let Some(staged) = &mut self.staged {
            staged.held.push(HeldToken { key: (self.db, key.bytes.into()), token: token.into() });
        }
    }

    /// Adds an effect to the record of the present call: a command that repeats a change in the selected database.
    pub(crate) fn push_effect(&mut self, args: &[&[u8]]) {
        self.effects.get_or_insert_default().push(self.db, args);
    }

    /// Adds an effect in a database.
    pub(crate) fn push_effect_in(&mut self, db: usize, args: &[&[u8]]) {
        self.effects.get_or_insert_default().push(db, args);
    }

    /// Begins an effect in the selected database; the caller appends the command.
    pub(crate) fn begin_effect(&mut self) -> &mut Vec<u8> {
        self.effects.get_or_insert_default().begin(self.db)
    }

    /// Begins a command for replicas alone; the caller appends it.
    pub(crate) fn begin_aside(&mut self) -> &mut Vec<u8> {
        self.effects.get_or_insert_default().begin_aside()
    }

    /// Stops logging effects, or logs them again.
    #[cfg(feature = "lua")]
    pub(crate) fn withhold_effects(&mut self, is_withheld: bool) {
        if is_withheld || self.effects.is_some() {
            self.effects.get_or_insert_default().withhold(is_withheld);
        }
    }

    /// Returns the effects of the present call, unless there are none.
    pub(crate) fn effects(&mut self) -> Option<&mut Effects> {
        self.effects.as_deref_mut().filter(|effects| !effects.is_empty())
    }

    /// Forgets the effects of the present call.
    pub(crate) fn forget_effects(&mut self) {
        self.effects = None;
    }

    /// Shows the present command in CLIENT LIST; inside EXEC and scripts, the inner command.
    pub fn show_command(&self) {
        if let Some(command) = self.called {
            self.info.traffic.set_last_command(command);
        }
    }

    /// Returns true if the client itself has called this command, not EXEC or a script.
    pub fn has_called(&self, command: &CommandSpec) -> bool {
        self.called.is_some_and(|called| std::ptr::eq(called, command))
    }

    /// Selects a database.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.session.set_db(db);
    }

    /// Switches the protocol. Frames pushed before are moved to the output, if there is one.
    pub fn set_protocol(&mut self, protocol: Protocol, out: Option<&mut Output>) {
        self.protocol = protocol;
        self.info.set_protocol(protocol, out);
    }

    /// Reloads the user if users have changed; a client whose user was deleted is marked for closing.
    #[inline]
    pub fn follow_users(&mut self, acl: &Acl) {
        if !self.access.follow(acl) {
            self.info.set_user(&self.access.user().name);
            self.closing = true;
        }
    }

    /// Authenticates; returns whether user name and password are right.
    pub fn log_in(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> bool {
        let is_right = self.access.log_in(acl, name, password);
        if is_right {
            self.info.set_user(&self.access.user().name);
        }
        is_right
    }

    /// Continues as a client of another namespace.
    pub(crate) fn enter(&mut self, info: Arc<ClientInfo>, access: Access) {
        (self.info, self.access) = (info, access);
        self.info.set_user(&self.access.user().name);
        self.info.session.set_db(self.db);
    }

    /// Resets to the default user, as in a new connection.
    pub fn log_out(&mut self, acl: &Acl) {
        self.access = Access::new(acl);
        self.info.set_user(&self.access.user().name);
    }

    /// Returns true if other clients may push frames to this client that belong between its replies.
    pub fn is_pushed_to(&self) -> bool {
        self.info.session.class() == Class::Subscriber || self.info.tracking.is_on()
    }

    /// Returns true if the client has a subscription in RESP2, where replies and messages cannot be told apart.
    pub fn is_subscribed_in_resp2(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.info.session.class() == Class::Subscriber
    }
}
