//! Who calls a command: all that a handler of data may know of a client.

use std::sync::Arc;

use crate::acl::{Access, Acl};
use crate::client::registry::{Class, ClientInfo};
use crate::persist::Effects;
use crate::resp::{Protocol, Reply};
use crate::spec::CommandSpec;

/// Identifies the caller of a command and holds what its calls depend on.
///
/// A client's own task has one for as long as the client is connected. A call that another task carries out for the client
/// has a copy of what is needed.
#[derive(Clone)]
pub struct Caller {
    /// What others may see of the client.
    pub info: Arc<ClientInfo>,
    /// The selected database.
    pub db: usize,
    /// The protocol replies are written in.
    pub protocol: Protocol,
    /// The client's user, and so what it may do.
    pub access: Access,
    /// The command that the client itself called last, not EXEC or a script in its name.
    pub called: Option<&'static CommandSpec>,
    /// How many commands were executed, those of EXEC and scripts included.
    pub commands: u64,
    /// Whether a script calls commands in the client's name.
    pub is_in_script: bool,
    /// Whether too much memory was used, and no key could be evicted, when the present request was admitted.
    pub is_short_of_memory: bool,
    /// The time in microseconds that TIME replies throughout the present script or EXEC, once it was called there.
    pub frozen_us: Option<i64>,
    /// Set when the connection is to be closed after the replies so far.
    pub closing: bool,
    /// What the call that is being executed has changed so far, for the log; made when there is one.
    effects: Option<Box<Effects>>,
}

impl Caller {
    /// Creates the caller of a fresh connection.
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
            is_short_of_memory: false,
            frozen_us: None,
            closing: false,
            effects: None,
        }
    }

    /// Adds a command that repeats what the call that is being executed has changed in the selected database.
    pub(crate) fn push_effect<'a>(&mut self, args: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.effects.get_or_insert_default().push(self.db, args);
    }

    /// Returns what the call that is being executed has changed, unless that is nothing.
    pub(crate) fn effects(&mut self) -> Option<&mut Effects> {
        self.effects.as_deref_mut().filter(|effects| effects.count() > 0)
    }

    /// Shows others which command the client has called: inside EXEC and scripts these.
    pub fn show_command(&self) {
        self.called.iter().for_each(|command| self.info.set_last_command(command));
    }

    /// Returns whether the client itself has called this command, not EXEC or a script.
    pub fn has_called(&self, command: &CommandSpec) -> bool {
        self.called.is_some_and(|called| std::ptr::eq(called, command))
    }

    /// Selects a database.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.set_db(db);
    }

    /// Switches the protocol, for the reply that goes on in `reply` too.
    pub fn set_protocol(&mut self, protocol: Protocol, reply: &mut Reply<'_>) {
        self.protocol = protocol;
        self.info.set_protocol(protocol, reply.output());
        reply.set_protocol(protocol);
    }

    /// Takes over changes of the users; a client whose user was deleted is to be closed.
    #[inline]
    pub fn follow_users(&mut self, acl: &Acl) {
        if !self.access.follow(acl) {
            self.info.set_user(&self.access.user().name);
            self.closing = true;
        }
    }

    /// Logs in; returns whether name and password are right.
    pub fn log_in(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> bool {
        let is_right = self.access.log_in(acl, name, password);
        if is_right {
            self.info.set_user(&self.access.user().name);
        }
        is_right
    }

    /// Becomes the default user, as a fresh connection.
    pub fn log_out(&mut self, acl: &Acl) {
        self.access = Access::new(acl);
        self.info.set_user(&self.access.user().name);
    }

    /// Returns whether others may push something to it that belongs between its replies.
    pub fn is_pushed_to(&self) -> bool {
        self.info.class() == Class::Subscriber || self.info.tracking.is_on()
    }

    /// Returns whether it has subscribed to something in RESP2, where replies cannot be told from messages.
    pub fn is_subscribed_in_resp2(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.info.class() == Class::Subscriber
    }
}
