//! The task that holds a lock: renews it, moves it to other connections, and releases it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisError, RedisResult, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::convert::{Conversion, Order, Restoration};
use crate::held::Hold;
use crate::terms::{Dialect, Mode, Terms};
use crate::wire::{Event, Source, Wire, is_passing, is_reply, lacks_command, later, redirected};

/// Number of times that a release is sent that is not answered.
const RELEASES: u32 = 3;
/// Time for leaving a queue or giving back the rest of a lost lock, at a server that does not answer.
pub(crate) const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Interval of looks at a connection that does not tell its end, and has a session.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// Line to the server, for the requests about one lock.
pub(crate) struct Line {
    pub(crate) source: Arc<Source>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) dialect: Dialect,
    /// Node of a cluster that connections go to.
    pub(crate) node: Option<(String, u16)>,
    pub(crate) wire: Option<Wire>,
    /// True if the server has bound the lock to this connection.
    pub(crate) is_bound: bool,
    /// True if the server was ever asked to move the lock to a new connection of the line.
    pub(crate) has_moved: bool,
    /// Former connections, which are not closed before another one has the lock.
    pub(crate) stuck: Vec<Wire>,
    pub(crate) events: UnboundedSender<Event>,
}

/// Task that holds a lock.
pub(crate) struct Keeper {
    pub(crate) line: Line,
    pub(crate) hold: Arc<Hold>,
    renew_at: Option<Instant>,
    renew_until: Option<Instant>,
    /// Who waits for the first renewal, which extends the lock in any case.
    first: Option<oneshot::Sender<()>>,
    /// Conversion with an unknown outcome.
    restoration: Option<Restoration>,
    /// True if there has been such a conversion: its request may still come late.
    has_restored: bool,
}

impl Line {
    pub(crate) fn new(source: Arc<Source>, terms: Arc<Terms>, events: UnboundedSender<Event>) -> Self {
        Line {
            source,
            terms,
            dialect: Dialect::Locks,
            node: None,
            wire: None,
            is_bound: false,
            has_moved: false,
            stuck: Vec::new(),
            events,
        }
    }

    /// Sends a command over the connection, which is opened and closed as need be.
    pub(crate) async fn call(&mut self, cmd: &Cmd, until: Option<Instant>) -> RedisResult<Value> {
        self.connect(until).await?;
        let Some(wire) = &mut self.wire else { return Ok(Value::Nil) };
        let reply = wire.call(cmd, until).await;
        if let Err(error) = &reply {
            if let Some(node) = redirected(error) {
                self.node = Some(node).filter(|(host, _)| !host.is_empty());
                self.drop_wire(false); // the next one goes there
            } else if !is_reply(error) {
                self.drop_wire(error.is_timeout());
            }
        }
        reply
    }

    /// Opens the connection unless there is one.
    pub(crate) async fn connect(&mut self, until: Option<Instant>) -> RedisResult<()> {
        if self.wire.is_none() {
            let opened = self.source.open(&self.events, self.node.as_ref(), until).await;
            if opened.is_err() {
                self.node = None; // it may be gone: any other knows
            }
            self.wire = Some(opened?);
        }
        Ok(())
    }

    /// Lets go of the connection; of one that is stuck and has the session, or may have got it by a conversion, only when
    /// another one has taken that over.
    fn drop_wire(&mut self, is_stuck: bool) {
        let wire = self.wire.take();
        if (self.is_bound || self.terms.converts) && is_stuck {
            self.stuck.extend(wire);
        }
        self.is_bound = false;
    }

    /// Returns all connections.
    pub(crate) fn into_wires(self) -> Vec<Wire> {
        self.stuck.into_iter().chain(self.wire).collect()
    }

    /// Releases each name; returns whether all were held. A lock that is gone may have gone by a release whose reply is lost,
    /// which is no loss if the lock was believed to be held when that was sent.
    pub(crate) async fn give_back(
        &mut self,
        until: Instant,
        is_believed: impl Fn() -> bool + Send + Sync,
    ) -> RedisResult<bool> {
        let (terms, mut all, mut failed) = (self.terms.clone(), true, None);
        for name in &terms.names {
            match self.give_back_one(name, until, &is_believed).await {
                Ok(is_held) => all &= is_held,
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(all), Err)
    }

    async fn give_back_one(
        &mut self,
        name: &[u8],
        until: Instant,
        is_believed: impl Fn() -> bool + Send + Sync,
    ) -> RedisResult<bool> {
        let (cmd, mut is_unanswered, mut attempt) = (self.terms.release(name, self.dialect), false, 1);
        loop {
            let was_held = is_believed();
            let limit = later(self.terms.patience()).min(until);
            let connected = self.connect(Some(limit)).await;
            let was_sent = connected.is_ok();
            let reply = match connected {
                Ok(()) => self.call(&cmd, Some(limit)).await,
                Err(error) => Err(error),
            };
            let error = match reply {
                Ok(reply) => return Ok(reply == Value::Int(1) || is_unanswered),
                Err(error) => error,
            };
            is_unanswered |= was_sent && was_held && !is_reply(&error);
            let is_redirected = redirected(&error).is_some();
            if is_reply(&error) && !is_redirected || attempt == RELEASES || Instant::now() >= until {
                return Err(error);
            }
            if attempt > 1 {
                sleep_until(later(self.terms.pause()).min(until)).await;
            }
            attempt += 1;
        }
    }
}

impl Keeper {
    /// Creates the task of a lock that was granted over the line. After a wait it is not known when the TTL began: somebody
    /// waits for a first renewal then.
    pub(crate) fn new(line: Line, hold: Arc<Hold>, first: Option<oneshot::Sender<()>>) -> Self {
        let renew_until = line.terms.renew_for.map(later);
        let (renew_at, restoration, has_restored) = (None, None, false);
        let mut keeper = Keeper { line, hold, renew_at, renew_until, first, restoration, has_restored };
        keeper.renew_at = if keeper.first.is_some() { Some(Instant::now()) } else { keeper.next(Instant::now()) };
        keeper
    }

    /// Holds the lock until its release is ordered.
    pub(crate) async fn keep(mut self, mut events: UnboundedReceiver<Event>, mut orders: UnboundedReceiver<Order>) {
        let hold = self.hold.clone();
        loop {
            let look_at = self.look_at();
            let next = [self.renew_at, look_at].into_iter().flatten().min().unwrap_or(hold.until());
            let is_over = hold.is_lost();
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                Some(event) = events.recv() => {
                    self.hear(event);
                    None
                }
                () = sleep_until(next), if !is_over => listen(self.wake(next), &hold, &mut events, &mut orders).await,
            };
            match order {
                Some(Order::Release(answer)) => {
                    let outcome = self.release().await;
                    hold.end();
                    return drop(answer.send(outcome)); // who has dropped the lock does not wait
                }
                Some(Order::Convert(conversion)) => events = self.convert(*conversion, events),
                Some(Order::Restore(restoration)) => self.restore(restoration),
                None => {}
            }
        }
    }

    /// Holds the lock in the mode that was granted, over the connection that has asked for it; returns what is told of it. The
    /// former connection is closed, and nothing more is sent over it.
    fn convert(&mut self, conversion: Conversion, former: UnboundedReceiver<Event>) -> UnboundedReceiver<Event> {
        let Conversion { mut line, events, grant, turn, done } = conversion;
        if self.hold.is_lost() {
            tokio::spawn(async move { line.give_back(later(LEAVE_LIMIT), || true).await });
            return former;
        }
        if done.is_closed() {
            self.restore(Restoration { _turn: turn, waiter: None, wires: line.into_wires() });
            return former;
        }
        // It may have been moved to the former connection after the grant, and has to be moved from there.
        line.has_moved = self.line.has_moved;
        line.is_bound = !line.has_moved;
        self.renew_at = if line.is_bound { self.next(grant.asked) } else { Some(Instant::now()) };
        let former = std::mem::replace(&mut self.line, line);
        if former.has_moved {
            self.line.stuck.extend(former.into_wires());
        }
        self.hold.converted(grant.fences);
        self.hold.renewed(grant.asked);
        drop(turn);
        _ = done.send(());
        events
    }

    /// Sees to it that the lock has its former mode again, whatever has become of a conversion.
    fn restore(&mut self, mut restoration: Restoration) {
        self.line.stuck.append(&mut restoration.wires);
        self.restoration = Some(restoration);
        self.has_restored = true;
        self.renew_at = Some(Instant::now());
    }

    /// Returns the time at which the connection is looked at that does not tell its end.
    fn look_at(&self) -> Option<Instant> {
        let is_silent = self.line.wire.as_ref().is_none_or(|wire| !wire.tells);
        (self.line.terms.is_session && is_silent).then(|| later(LOOK_AFTER))
    }

    /// Does what is due.
    async fn wake(&mut self, due: Instant) {
        if self.hold.check().is_err() {
            return;
        }
        if self.renew_at.is_some_and(|at| at <= due) || self.is_broken().await {
            self.renew().await;
        }
    }

    /// Looks at the connection of a session, which has to be made again before its grace is over.
    async fn is_broken(&mut self) -> bool {
        let until = self.in_time();
        matches!(self.line.call(&redis::cmd("PING"), Some(until)).await, Err(error) if !is_reply(&error))
    }

    /// Notes what a connection has told.
    fn hear(&mut self, event: Event) {
        match event {
            Event::Ended(number) => {
                if self.line.wire.as_ref().is_some_and(|wire| wire.number == number) {
                    self.line.drop_wire(false);
                    self.renew_at = Some(Instant::now());
                }
            }
            event => heard(&self.hold, event),
        }
    }

    /// Renews each name; if one is not held any more, the lock is lost.
    async fn renew(&mut self) {
        let (since, was_bound, until) = (Instant::now(), self.line.is_bound, self.in_time());
        let first = self.first.take();
        let extends = first.is_some() || self.renew_until.is_none_or(|until| since < until);
        let renewed = self.try_renew(extends, until).await;
        let is_session = self.line.terms.is_session;
        self.renew_at = match renewed {
            Ok(true) => {
                if extends {
                    self.hold.renewed(since);
                }
                self.line.stuck.clear();
                if self.restoration.is_some() { Some(Instant::now()) } else { self.next(since) }
            }
            Ok(false) => {
                let is_gone = is_session && !self.line.is_bound;
                yield_now().await; // what was told before the reply is heard, and has the reason
                self.hold.lose(if is_gone { "disconnected" } else { "expired" });
                None
            }
            Err(_) if was_bound && !self.line.is_bound => Some(Instant::now()), // it has just broken
            Err(_) => Some(later(self.line.terms.pause())),                     // says nothing of the lock
        };
        if let Some(first) = first {
            _ = first.send(());
        }
    }

    /// Returns the time of the renewal after one at a time, unless the time of all is over.
    fn next(&self, since: Instant) -> Option<Instant> {
        let at = since + self.line.terms.renewal();
        self.renew_until.is_none_or(|until| at < until).then_some(at)
    }

    /// Extends the lock, or only looks whether it is held; returns whether it is.
    async fn try_renew(&mut self, extends: bool, until: Instant) -> RedisResult<bool> {
        if !self.resume(until).await? || !self.settle(until).await? {
            return Ok(false);
        }
        let (terms, fences) = (self.line.terms.clone(), self.hold.fences());
        for (name, fence) in terms.names.iter().zip(fences) {
            let cmd = if extends { terms.renew(name, self.line.dialect) } else { terms.look(name, self.line.dialect) };
            let renewed = self.line.call(&cmd, Some(until)).await?;
            let expected = fence.or((self.line.dialect == Dialect::Scripts).then_some(1));
            let told = Option::<i64>::from_redis_value(renewed)?;
            if told != expected && (told.is_none() || !self.may_be_converted()) {
                return Ok(false);
            }
        }
        // An owner may have acquired again what is lost, and this would be released as another one's.
        if self.line.is_bound || self.hold.check().is_err() { Ok(true) } else { self.bind(until).await }
    }

    /// Returns true if another fence may be that of a conversion. One that has come late is undone.
    fn may_be_converted(&mut self) -> bool {
        let turn = self.hold.turn.clone().try_lock_owned();
        if let Ok(turn) = turn {
            if !self.has_restored {
                return false;
            }
            self.restoration = Some(Restoration { _turn: turn, waiter: None, wires: Vec::new() });
        }
        true
    }

    /// Asks for the lock in its former mode if it may have changed; returns whether it is held. One that is shared and cannot
    /// be had alone again stays so.
    async fn settle(&mut self, until: Instant) -> RedisResult<bool> {
        let Some(restoration) = &self.restoration else { return Ok(true) };
        let terms = self.line.terms.clone();
        if let Some(id) = restoration.waiter {
            match self.line.call(redis::cmd("CLIENT").arg("UNBLOCK").arg(id), Some(until)).await {
                Err(error) if !is_reply(&error) => return Err(error),
                _ => {} // it does not wait any more, or the user may not do this
            }
        }
        let reply = match self.line.call(&terms.converted(terms.mode, None).again(), Some(until)).await {
            Ok(Value::Nil) if terms.mode == Mode::Exclusive => {
                self.line.terms = Arc::new(terms.converted(Mode::Shared, None));
                self.line.call(&terms.look(&terms.names[0], Dialect::Locks), Some(until)).await?
            }
            Err(error) if is_reply(&error) && !is_passing(&error) && redirected(&error).is_none() => {
                self.restoration = None; // the mode cannot be changed, and so was not
                return Ok(true);
            }
            reply => reply?,
        };
        let Some(fences) = fences(reply)? else { return Ok(false) };
        self.hold.converted(fences);
        self.restoration = None;
        Ok(true)
    }

    /// Returns the time until which a reply about a held lock is waited for: it leaves time for another connection.
    fn in_time(&self) -> Instant {
        later(self.line.terms.patience()).min(self.hold.until())
    }

    /// Has the server move the lock to a new connection, before anything else is sent for it; returns whether the lock may
    /// still be held. Locks of the same owner would move as well, away from connections that are well: see `bind`.
    async fn resume(&mut self, until: Instant) -> RedisResult<bool> {
        let terms = self.line.terms.clone();
        if self.line.is_bound || terms.owner.is_some() || self.line.dialect == Dialect::Scripts {
            return Ok(true);
        }
        self.line.has_moved = true;
        let mut cmd = redis::cmd("LOCK.RESUME");
        cmd.arg(&terms.token);
        self.line.is_bound = match self.line.call(&cmd, Some(until)).await {
            Ok(Value::Array(resumed)) => resumed.len() == terms.names.len() || !terms.is_session,
            Ok(_) => !terms.is_session,
            Err(error) if lacks_command(&error) => !terms.is_session, // there is nothing more to be moved
            Err(error) => return Err(error),
        };
        Ok(self.line.is_bound)
    }

    /// Has the server move a lock of an owner to a new connection, which knows of it by its renewal.
    async fn bind(&mut self, until: Instant) -> RedisResult<bool> {
        let terms = self.line.terms.clone();
        if terms.is_session {
            let reply = self.line.call(&terms.again(), Some(until)).await?;
            let Some(fences) = fences(reply)? else { return Ok(false) };
            let mut is_held = true;
            for ((name, fence), expected) in terms.names.iter().zip(fences).zip(self.hold.fences()) {
                if fence != expected {
                    is_held = false; // it went in between, and this is another
                    _ = self.line.call(&terms.release(name, self.line.dialect), Some(until)).await;
                }
            }
            if !is_held {
                return Ok(false);
            }
        }
        self.line.is_bound = true;
        Ok(true)
    }

    /// Releases the lock; returns whether it was held. Of lost ones the rest is released, unless they have
    /// an owner, who may have acquired them again.
    async fn release(&mut self) -> RedisResult<bool> {
        let (is_lost, terms) = (self.hold.is_lost(), &self.line.terms);
        if is_lost && (terms.names.len() == 1 || terms.owner.is_some()) {
            return Ok(false);
        }
        let held_until = self.hold.until();
        // Nobody waits for the end of what is lost.
        let until = if is_lost { later(LEAVE_LIMIT) } else { held_until };
        let given_back = self.line.give_back(until, || !is_lost && Instant::now() < held_until).await;
        if is_lost { Ok(false) } else { given_back }
    }
}

/// Waits for a renewal, and hears meanwhile what is told. An order ends the renewal, which says nothing then.
async fn listen(
    renewing: impl Future<Output = ()>,
    hold: &Hold,
    events: &mut UnboundedReceiver<Event>,
    orders: &mut UnboundedReceiver<Order>,
) -> Option<Order> {
    let mut renewing = pin!(renewing);
    loop {
        tokio::select! {
            biased;
            () = &mut renewing => return None,
            Some(event) = events.recv() => heard(hold, event),
            order = orders.recv() => return order,
        }
    }
}

/// Notes the loss of this very lock. Readers of a lock have the same fence, and locks of an owner the same token. The fence
/// of a lock that changes its mode is not known.
fn heard(hold: &Hold, event: Event) {
    let Event::Lost { name, token, fence, reason } = event else { return };
    let at = hold.terms.names.iter().position(|known| *known == name);
    let is_fence = |at: usize| hold.fences()[at] == Some(fence) || hold.is_converting();
    if token == hold.terms.token && at.is_some_and(is_fence) {
        hold.lose(&reason);
    }
}

/// Reads the fences of a grant: one, or an array; none if the lock was not granted.
pub(crate) fn fences(reply: Value) -> Result<Option<Vec<Option<i64>>>, RedisError> {
    match reply {
        Value::Nil => Ok(None),
        Value::Int(fence) => Ok(Some(vec![Some(fence)])),
        reply => Ok(Some(Vec::<Option<i64>>::from_redis_value(reply)?)),
    }
}
