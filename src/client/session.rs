//! The state of a connection: transaction, watched keys, subscriptions. Touched only by the client's own task.
//!
//! The part that CLIENT LIST shows is mirrored in [`ClientInfo`].

use std::sync::Arc;
use std::time::Duration;

use crate::acl::Acl;
use crate::client::caller::Caller;
use crate::client::fieldsets::Fieldsets;
use crate::client::info::ClientInfo;
use crate::client::outbox::PUSHED;
use crate::client::replica::Replica;
use crate::client::replica::feed::Feed;
use crate::client::staged::Freshness;
use crate::client::subscriptions::Subscriptions;
use crate::memory::heap::list_len;
use crate::memory::ordered_map::OrderedMap;
use crate::resp::{Mark, Output, OwnedRequest, Request};
use crate::spec::CommandSpec;
use crate::store::{KeyName, Store, View, WatchFlag};
use crate::test_mode::FaultKind;

/// The state of one connection: the caller, and the session.
pub struct Client {
    /// The caller.
    pub caller: Caller,
    /// The state that only connection commands use.
    pub session: Session,
}

/// The part of a connection's state that is not in its caller.
#[derive(Default)]
pub struct Session {
    /// The transaction being queued.
    pub transaction: Option<Box<Transaction>>,
    /// The keys being watched.
    pub watch: Watch,
    /// Watches that were dropped while a long-running script kept the shards locked, so that the shards still have
    /// them.
    #[allow(clippy::box_collection, reason = "rarely set, and part of every session")]
    dropped_watches: Option<Box<Vec<Watch>>>,
    /// True while the client runs MONITOR.
    pub(crate) is_monitor: bool,
    /// True if the client follows `-REDIRECT` to the primary.
    pub(crate) is_redirected: bool,
    /// State of the client as a replica, if it acts as one.
    pub(crate) replica: Option<Arc<Replica>>,
    /// Feed of the client, if it is sent data as a replica.
    pub(crate) feed: Option<Box<Feed>>,
    /// The client's subscriptions.
    pub subscriptions: Subscriptions,
    /// The fieldsets of HIMPORT, if there were any.
    pub(crate) fieldsets: Option<Box<Fieldsets>>,
    /// Mode of replies, set by CLIENT REPLY.
    pub replies: Replies,
    /// Known freshness of the mirror, where the data is in a cluster.
    pub(crate) freshness: Option<Box<Freshness>>,
    /// Fault to apply to the reply of the present request; boxed, because only tests inject faults.
    pub(crate) tampering: Option<Box<FaultKind>>,
    /// True if the present request is dispatched again after a fault has changed the data, which happens to it once.
    pub(crate) was_struck: bool,
    /// Set by a command inside EXEC after which another batch begins, see `Call::end_batch`.
    pub batch_is_over: bool,
}

/// A reply that a fault holds back.
pub(crate) struct DelayedReply {
    pub(crate) reply: Output,
    pub(crate) until: DelayedUntil,
}

/// The time at which a reply is sent that a fault holds back.
#[derive(Clone, Copy)]
pub(crate) enum DelayedUntil {
    /// After so much real time.
    Later(Duration),
    /// After the clock was moved by so much.
    Advanced(Duration),
}

/// The commands queued between MULTI and EXEC.
#[derive(Clone, Default)]
pub struct Transaction {
    /// The requests so far, each with its command.
    pub queue: Vec<(&'static CommandSpec, OwnedRequest)>,
    /// Set when a command was rejected, so that EXEC fails.
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

    /// Returns the memory of the queue, in bytes.
    pub fn memory(&self) -> usize {
        self.memory + list_len::<(&CommandSpec, OwnedRequest)>(self.queue.capacity())
    }
}

/// The watched keys of a session.
#[derive(Default)]
pub struct Watch {
    /// Raised by the store when one of the keys changes.
    pub flag: WatchFlag,
    /// The keys, each with its database, in order, so that any of many is found quickly.
    pub(crate) keys: OrderedMap<KeyName, ()>,
}

impl Watch {
    /// Ends the watches of a client, in the shards as well. The view must have declared either no keys or all of these.
    pub(crate) fn end(&self, client: &ClientInfo, view: &mut View<'_>, store: &Store) {
        for (db, key) in self.keys.keys() {
            client.buffers.add_kept_len(-(key.len() as isize));
            view.waiting().unwatch(*db, store.key(key), &self.flag);
        }
    }
}

/// Mode of replies, set by CLIENT REPLY. Pushes are written in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// Replies are written.
    #[default]
    On,
    /// Replies are not written.
    Off,
    /// The reply to the next request is skipped.
    SkipNext,
    /// The reply to this request is skipped.
    Skip,
}

impl Replies {
    /// Updates the state at the beginning of a request.
    pub fn begin_request(&mut self) {
        if *self == Replies::SkipNext {
            *self = Replies::Skip;
        }
    }

    /// Updates the state after an empty request, which has no reply but counts as the one whose reply is skipped.
    pub fn pass_empty_request(&mut self) {
        if *self == Replies::SkipNext {
            *self = Replies::On;
        }
    }

    /// Removes what a request has written since `mark`, if replies are off. Confirmations of subscriptions are pushes
    /// and stay.
    pub fn end_request(&mut self, out: &mut Output, mark: Mark, command: Option<&CommandSpec>) {
        let is_push = command.is_some_and(CommandSpec::replies_with_pushes);
        if matches!(self, Replies::Off | Replies::Skip) && !is_push {
            out.rollback(mark);
        }
        if *self == Replies::Skip {
            *self = Replies::On;
        }
    }
}

impl Client {
    /// Creates the state of a new connection.
    pub fn new(info: Arc<ClientInfo>, acl: &Acl) -> Self {
        Client { caller: Caller::new(info, acl), session: Session::default() }
    }

    /// Returns true if calls of the client need work besides the reply: pushes, suppressed replies, tracking, CLIENT
    /// NO-TOUCH.
    #[inline]
    pub fn needs_attention(&self) -> bool {
        self.session.replies != Replies::On || self.caller.is_pushed_to() || self.caller.info.flags.is_no_touch()
    }

    /// Ends a request whose reply was written since `mark`: removes a suppressed reply, or applies a fault to the
    /// reply. Returns a reply that is held back.
    pub(crate) fn end_request(
        &mut self,
        out: &mut Output,
        mark: Mark,
        command: Option<&CommandSpec>,
    ) -> Option<Box<DelayedReply>> {
        self.session.replies.end_request(out, mark, command);
        self.session.tampering.take().and_then(|fault| self.tamper(*fault, out, mark))
    }

    #[cold]
    fn tamper(&mut self, fault: FaultKind, out: &mut Output, mark: Mark) -> Option<Box<DelayedReply>> {
        let mut reply = out.split_off(mark);
        match fault {
            FaultKind::Delay(time) => {
                return Some(Box::new(DelayedReply { reply, until: DelayedUntil::Later(time) }));
            }
            FaultKind::Advance(time) => {
                return Some(Box::new(DelayedReply { reply, until: DelayedUntil::Advanced(time) }));
            }
            FaultKind::Partial(len) => {
                reply.truncate(len);
                out.append(reply);
            }
            _ => {}
        }
        self.cut_off();
        None
    }

    /// Delays the reply to the present request, unless something else happens to it.
    pub(crate) fn delay_reply(&mut self, time: Duration) {
        self.session.tampering.get_or_insert_with(|| Box::new(FaultKind::Delay(time)));
    }

    /// Closes the connection instead of replying to the present request.
    pub(crate) fn lose_reply(&mut self) {
        self.session.tampering = Some(Box::new(FaultKind::LoseReply));
    }

    /// Closes the connection once its present output has been written; nothing comes after that.
    pub(crate) fn cut_off(&mut self) {
        self.caller.closing = true;
        self.caller.info.outbox.close();
    }

    /// Writes the pushed frames so far, if the client is of a kind that expects pushes.
    pub fn take_pushes(&self, out: &mut Output) {
        if self.caller.is_pushed_to() && self.caller.info.outbox.signals() & PUSHED != 0 {
            self.caller.info.outbox.take_into(out, usize::MAX);
        }
    }
}

impl Session {
    /// Creates a session with a transaction, for an EXEC that an engine calls.
    pub(crate) fn of_transaction(transaction: Box<Transaction>) -> Self {
        Session { transaction: Some(transaction), ..Session::default() }
    }

    /// Removes all watches of the session, in the shards as well: later, while a script keeps the shards locked.
    pub fn stop_watching(&mut self, caller: &Caller, view: &mut View<'_>, store: &Store) {
        if !self.is_known_to_shards() {
            return;
        }
        let watch = std::mem::take(&mut self.watch);
        caller.info.session.set_watched(0);
        if view.is_closed() {
            return self.dropped_watches.get_or_insert_default().push(watch);
        }
        for watch in std::iter::once(watch).chain(self.dropped_watches.take().into_iter().flat_map(|dropped| *dropped))
        {
            watch.end(&caller.info, view, store);
        }
    }

    /// Returns true if shards have state of this session.
    pub fn is_known_to_shards(&self) -> bool {
        !self.watch.keys.is_empty() || self.dropped_watches.is_some()
    }

    /// Returns true if the shards know this session to watch keys of one database only.
    pub(crate) fn watches_in(&self, db: usize) -> bool {
        self.dropped_watches.is_none() && self.watch.keys.keys().all(|(watched, _)| *watched == db)
    }

    /// Marks the transaction as failed because a command was rejected, so that EXEC is rejected too.
    pub fn fail_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.failed = true;
        }
    }
}
