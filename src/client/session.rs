//! What one client has chosen: database, protocol, name, transaction. Touched only by its own task.
//!
//! What others may see of a client, for `CLIENT LIST`, is mirrored in [`ClientInfo`],
//! which the session keeps up to date.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::acl::{Access, Acl};
use crate::client::outbox::PUSHED;
use crate::client::registry::{Class, ClientInfo};
use crate::client::subscriptions::Subscriptions;
use crate::memory::heap::list_len;
use crate::resp::{Mark, Output, OwnedRequest, Protocol, Reply, Request};
use crate::spec::{ALLOW_SUBSCRIBED, CommandSpec, Flags, Group};
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
    /// Watches that ended while the shards could not be told.
    #[allow(clippy::box_collection, reason = "hardly ever there, and every session has room for it")]
    dropped_watches: Option<Box<Vec<Watch>>>,
    /// The command called last, for CLIENT LIST.
    pub last_command: Option<&'static CommandSpec>,
    /// How many commands were carried out, also by EXEC and scripts.
    pub commands: u64,
    /// Commands with any of these flags are refused: those on keys, while the client watches others by MONITOR.
    pub barred: Flags,
    /// What it listens to.
    pub subscriptions: Subscriptions,
    /// Whether replies are written.
    pub replies: Replies,
    /// Whether a script calls commands in the client's name.
    pub is_in_script: bool,
    /// Whether too much memory was used, and none could be freed, when the present request was admitted.
    pub is_short_of_memory: bool,
    /// The time in microseconds that TIME tells throughout the present script or EXEC, once it was asked.
    pub frozen_us: Option<i64>,
    /// Set inside EXEC by a command that ends the turn, see [`Call::end_turn`](crate::dispatch::Call::end_turn).
    pub turn_is_over: bool,
    /// Set when the connection is to be closed after the replies so far.
    pub closing: bool,
}

/// Collects the commands between MULTI and EXEC.
#[derive(Default)]
pub struct Transaction {
    /// The requests so far, each with its command.
    pub queue: Vec<(&'static CommandSpec, OwnedRequest)>,
    /// Set when a command was refused, so that EXEC will refuse too.
    pub failed: bool,
    /// Bytes taken by the requests.
    memory: usize,
}

impl Transaction {
    /// Queues a request.
    pub fn push(&mut self, command: &'static CommandSpec, request: Request<'_>) {
        let owned = request.to_owned();
        self.memory += owned.memory();
        self.queue.push((command, owned));
    }

    /// Returns the bytes that the queue takes.
    pub fn memory(&self) -> usize {
        self.memory + list_len::<(&CommandSpec, OwnedRequest)>(self.queue.capacity())
    }
}

/// Remembers which keys are watched, to be able to stop.
#[derive(Default)]
pub struct Watch {
    /// Raised by the store when one of the keys changes.
    pub flag: WatchFlag,
    /// The keys, each with its database: in order, so that each of many is found quickly.
    pub keys: BTreeSet<(usize, Box<[u8]>)>,
}

/// Says whether replies are written; CLIENT REPLY changes it. What is pushed is written in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// Yes.
    On,
    /// No.
    Off,
    /// Not that of the next request.
    SkipNext,
    /// Not that of this request.
    Skip,
}

impl Replies {
    /// Takes note that a request begins.
    pub fn begin_request(&mut self) {
        if *self == Replies::SkipNext {
            *self = Replies::Skip;
        }
    }

    /// Takes back what a request has written since `mark`, if that is not wanted. Confirmations of subscriptions are
    /// pushes and stay.
    pub fn end_request(&mut self, out: &mut Output, mark: Mark, command: Option<&CommandSpec>) {
        let is_push = command.is_some_and(|command| {
            command.command.group == Group::PubSub && command.command.flags & ALLOW_SUBSCRIBED != 0
        });
        if matches!(self, Replies::Off | Replies::Skip) && !is_push {
            out.rollback(mark);
        }
        if *self == Replies::Skip {
            *self = Replies::On;
        }
    }
}

impl Session {
    /// Lets others see which command the client has called: inside EXEC and scripts these.
    pub fn show_command(&self) {
        self.last_command.iter().for_each(|command| self.info.set_last_command(command));
    }

    /// Returns whether the client itself has called this command, not EXEC or a script.
    pub fn has_called(&self, command: &CommandSpec) -> bool {
        self.last_command.is_some_and(|called| std::ptr::eq(called, command))
    }

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
            dropped_watches: None,
            last_command: None,
            commands: 0,
            barred: 0,
            subscriptions: Subscriptions::default(),
            replies: Replies::On,
            is_in_script: false,
            is_short_of_memory: false,
            frozen_us: None,
            turn_is_over: false,
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

    /// Returns whether its requests need more care than the gate's quick way takes. Asked once in a turn.
    pub fn is_restrained(&self) -> bool {
        self.replies != Replies::On || self.is_pushed_to() || self.info.is_silent()
    }

    /// Returns whether others may have something for it that belongs between its replies.
    pub fn is_pushed_to(&self) -> bool {
        self.info.class() == Class::Subscriber || self.info.tracking.is_on()
    }

    /// Writes what others, or its own doings, have left for it so far, if it is the kind that this is expected of.
    pub fn take_pushes(&self, out: &mut Output) {
        if self.is_pushed_to() && self.info.outbox.signals() & PUSHED != 0 {
            self.info.outbox.take_into(out, usize::MAX);
        }
    }

    /// Returns whether it has subscribed to something in RESP2, where replies cannot be told from messages.
    pub fn only_listens(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.info.class() == Class::Subscriber
    }

    /// Returns whether a client that may only listen may call a command.
    pub fn allows(&self, command: &CommandSpec) -> bool {
        !self.only_listens() || command.command.flags & ALLOW_SUBSCRIBED != 0
    }

    /// Drops the watches, and what the shards remember of them: while a script holds the store for long, later.
    pub fn stop_watching(&mut self, view: &mut View<'_>, store: &Store) {
        let watch = std::mem::take(&mut self.watch);
        self.info.set_watched(0);
        if view.is_closed() {
            return self.dropped_watches.get_or_insert_default().push(watch);
        }
        for watch in std::iter::once(watch).chain(self.dropped_watches.take().into_iter().flat_map(|dropped| *dropped))
        {
            for (db, key) in &watch.keys {
                self.info.add_names_len(-(key.len() as isize));
                view.unwatch(*db, store.key(key), &watch.flag);
            }
        }
    }

    /// Returns whether shards remember anything of this session.
    pub fn is_known_to_shards(&self) -> bool {
        !self.watch.keys.is_empty() || self.dropped_watches.is_some()
    }

    /// Notes that a queued command was refused, so that EXEC must not run.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
    }
}
