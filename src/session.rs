//! What one client has chosen: database, protocol, name, transaction. Touched only by its own task.
//!
//! What others may see of a client, for `CLIENT LIST`, is mirrored in [`ClientInfo`],
//! which the session keeps up to date.

use std::sync::Arc;

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
    /// Whether the client has authenticated, or need not.
    pub authenticated: bool,
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
    pub fn new(info: Arc<ClientInfo>, authenticated: bool) -> Self {
        Session {
            info,
            db: 0,
            protocol: Protocol::default(),
            authenticated,
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
