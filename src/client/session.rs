//! What only a connection has: a transaction, watched keys, subscriptions. Touched only by the client's own task.
//!
//! What others may see of a client, for `CLIENT LIST`, is mirrored in [`ClientInfo`].

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::acl::Acl;
use crate::client::caller::Caller;
use crate::client::outbox::PUSHED;
use crate::client::registry::ClientInfo;
use crate::client::subscriptions::Subscriptions;
use crate::memory::heap::list_len;
use crate::resp::{Mark, Output, OwnedRequest, Request};
use crate::spec::{ALLOW_SUBSCRIBED, CommandSpec, EVERY, Flags, Group};
use crate::store::{Store, View, WatchFlag};

/// Holds the state of one connection: who calls, and what only a connection has.
pub struct Client {
    /// Who calls.
    pub caller: Caller,
    /// What commands about the connection itself work on.
    pub session: Session,
}

/// Holds what a caller has only by its connection.
#[derive(Default)]
pub struct Session {
    /// The transaction being queued.
    pub transaction: Option<Transaction>,
    /// The keys being watched.
    pub watch: Watch,
    /// Watches that ended while the shards were locked by a script that runs for too long.
    #[allow(clippy::box_collection, reason = "hardly ever there, and every session has room for it")]
    dropped_watches: Option<Box<Vec<Watch>>>,
    /// Commands with any of these flags are refused: those on keys, while the client is a monitor.
    pub barred: Flags,
    /// The channels and patterns that it has subscribed to.
    pub subscriptions: Subscriptions,
    /// Whether replies are written.
    pub replies: Replies,
    /// Set by a command inside EXEC after which another batch begins, see `Call::end_batch`.
    pub batch_is_over: bool,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// Yes.
    #[default]
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

    /// Takes back what a request has written since `mark`, if replies are off. Confirmations of subscriptions are pushes and
    /// stay.
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

impl Client {
    /// Creates the state of a fresh connection.
    pub fn new(info: Arc<ClientInfo>, acl: &Acl) -> Self {
        Client { caller: Caller::new(info, acl), session: Session::default() }
    }

    /// Returns the flags of commands that the gate has to look at for this client, which may need attention: all, unless it
    /// is a plain one.
    #[inline]
    pub fn closed(&self, needs_attention: bool) -> Flags {
        let is_plain = !needs_attention && self.caller.access.is_free() && self.session.transaction.is_none();
        if is_plain { self.session.barred } else { EVERY }
    }

    /// Returns whether its calls are followed by more than their replies, or by none: pushes, no replies, no use of keys.
    #[inline]
    pub fn needs_attention(&self) -> bool {
        self.session.replies != Replies::On || self.caller.is_pushed_to() || self.caller.info.is_silent()
    }

    /// Writes what was pushed to it so far, by others or by its own calls, if it is of a kind that expects pushes.
    pub fn take_pushes(&self, out: &mut Output) {
        if self.caller.is_pushed_to() && self.caller.info.outbox.signals() & PUSHED != 0 {
            self.caller.info.outbox.take_into(out, usize::MAX);
        }
    }
}

impl Session {
    /// Drops the watches of `caller`, and what the shards remember of them: later, while a script keeps the shards locked.
    pub fn stop_watching(&mut self, caller: &Caller, view: &mut View<'_>, store: &Store) {
        let watch = std::mem::take(&mut self.watch);
        caller.info.set_watched(0);
        if view.is_closed() {
            return self.dropped_watches.get_or_insert_default().push(watch);
        }
        for watch in std::iter::once(watch).chain(self.dropped_watches.take().into_iter().flat_map(|dropped| *dropped))
        {
            for (db, key) in &watch.keys {
                caller.info.add_names_len(-(key.len() as isize));
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
