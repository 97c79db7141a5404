//! What one client has chosen: database, protocol, name, transaction. Touched only by its own task.
//!
//! What others may see of a client, for `CLIENT LIST`, is mirrored in [`ClientInfo`],
//! which the session keeps up to date.

use std::sync::Arc;

use crate::acl::{Access, Acl};
use crate::clients::ClientInfo;
use crate::command::Registered;
use crate::resp::{OwnedRequest, Protocol, Reply};
use crate::store::{Store, View, WatchFlag};

/// Holds the state of one connection.
pub struct Session {
    /// What others may see.
    pub info: Arc<ClientInfo>,
    /// The selected database.
    pub db: usize,
    /// The protocol replies are written in.
    pub protocol: Protocol,
    /// The client's user, and so what it may do.
    pub access: Access,
    /// The transaction being queued.
    pub transaction: Option<Transaction>,
    /// The keys being watched.
    pub watch: Watch,
    /// The command called last, for CLIENT LIST.
    pub last_command: Option<&'static Registered>,
    /// Commands carried out, those inside EXEC included, that are not in the server's statistics yet.
    pub calls: u64,
    /// Set when the connection is to be closed after the replies so far.
    pub closing: bool,
}

/// Collects the commands between MULTI and EXEC.
#[derive(Default)]
pub struct Transaction {
    /// The requests so far, each with its command.
    pub queue: Vec<(&'static Registered, OwnedRequest)>,
    /// Set when a command was refused, so that EXEC will refuse too.
    pub failed: bool,
}

/// Remembers which keys are watched, to be able to stop.
#[derive(Default)]
pub struct Watch {
    /// Raised by the store when one of the keys changes.
    pub flag: WatchFlag,
    /// The keys, each with its database.
    pub keys: Vec<(usize, Box<[u8]>)>,
}

impl Session {
    /// Creates the session of a fresh connection.
    pub fn new(info: Arc<ClientInfo>, acl: &Acl) -> Self {
        let access = Access::new(acl);
        info.set_user(&access.user().name);
        Session {
            info,
            db: 0,
            protocol: Protocol::default(),
            access,
            transaction: None,
            watch: Watch::default(),
            last_command: None,
            calls: 0,
            closing: false,
        }
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

    /// Takes over what has changed about the users; whose user is gone is to leave.
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

    /// Becomes what a fresh connection is: the default user.
    pub fn log_out(&mut self, acl: &Acl) {
        self.access = Access::new(acl);
        self.info.set_user(&self.access.user().name);
    }

    /// Drops the watches, and what the shards remember of them.
    pub fn stop_watching(&mut self, view: &mut View<'_>, store: &Store) {
        let watch = std::mem::take(&mut self.watch);
        for (db, key) in &watch.keys {
            view.unwatch(*db, store.key(key), &watch.flag);
        }
        self.info.set_watched(0);
    }

    /// Notes that a queued command was refused, so that EXEC must not run.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
    }
}
