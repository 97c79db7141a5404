//! Acquiring a lock: queueing for it, again if the connection breaks, and leaving the queue.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::error::{AcquireError, Holder, NotAcquired};
use crate::held::{Held, Hold};
use crate::keeper::{Keeper, LEAVE_LIMIT, Line, fences};
use crate::owners::OwnerTurn;
use crate::terms::{Dialect, Terms};
use crate::wire::{Event, Source, is_passing, is_reply, later, redirected, says};

/// Shortest pause between two tries at a server that has no queue, in milliseconds; up to twice as much is added by chance.
const POLL_MS: u64 = 50;

/// Number of redirections that are followed one after the other.
const REDIRECTIONS: usize = 5;

/// Grant of a lock.
pub(crate) struct Grant {
    pub(crate) fences: Vec<Option<i64>>,
    /// Time at which the request was sent.
    pub(crate) asked: Instant,
    /// True if the request may have waited in the queue.
    is_queued: bool,
}

/// Client that wants a lock, or another mode for one that it has.
pub(crate) struct Seeker {
    terms: Arc<Terms>,
    /// None once the lock is granted, or the queue left.
    pub(crate) line: Option<Line>,
    /// Turn of the owner: what it acquires next has the same token, and has to wait until the queue is left.
    turn: Option<OwnerTurn>,
    began: Instant,
    /// Time at which the server was last reached.
    reached: Option<Instant>,
    /// ID of the connection that asks.
    pub(crate) id: Option<i64>,
    /// True while a request may be at the server that was not answered.
    pub(crate) is_asking: bool,
}

/// Acquires a lock, and starts the task that holds it.
///
/// If the future is dropped, the queue is left, and a lock that was granted at that moment is given back.
pub(crate) async fn acquire(
    source: Arc<Source>,
    terms: Arc<Terms>,
    began: Instant,
    turn: Option<OwnerTurn>,
) -> Result<Held, AcquireError> {
    let (mut seeker, told) = Seeker::new(source.clone(), terms, began, turn);
    let grant = seeker.seek().await?;
    let Some(mut line) = seeker.line.take() else { return Err(gone()) };
    line.is_bound = true;
    // A lock that was waited for has been granted at some time since then.
    let has_waited = grant.is_queued && grant.asked.elapsed() > line.terms.pause();
    let since = if has_waited { Instant::now() } else { grant.asked };
    let (orders, ordered) = unbounded_channel();
    let (first, renewed) = oneshot::channel();
    let hold = Arc::new(Hold::new(source, line.terms.clone(), grant.fences, since, orders));
    if let Some(turn) = &mut seeker.turn {
        **turn = Arc::downgrade(&hold);
    }
    let held = hold.clone().first(); // which is released if this future is dropped
    tokio::spawn(Keeper::new(line, hold, has_waited.then_some(first)).keep(told, ordered));
    if has_waited {
        _ = renewed.await;
    }
    Ok(held)
}

fn gone() -> AcquireError {
    RedisError::from((ErrorKind::Client, "the lock is being acquired already")).into()
}

impl Seeker {
    /// Describes a client; returns also what its connections tell.
    pub(crate) fn new(
        source: Arc<Source>,
        terms: Arc<Terms>,
        began: Instant,
        turn: Option<OwnerTurn>,
    ) -> (Self, UnboundedReceiver<Event>) {
        let (events, told) = unbounded_channel();
        let line = Some(Line::new(source, terms.clone(), events));
        (Seeker { terms, line, turn, began, reached: None, id: None, is_asking: false }, told)
    }

    /// Asks for the lock until it is granted or refused, or the wait is over.
    pub(crate) async fn seek(&mut self) -> Result<Grant, AcquireError> {
        let (mut breaks, mut redirections) = (0, 0);
        loop {
            let error = match self.ask().await {
                Ok(Some(grant)) => return Ok(grant),
                Ok(None) => return Err(AcquireError::NotAcquired(Box::new(self.not_acquired().await))),
                Err(error) => error,
            };
            if redirected(&error).is_some() && redirections < REDIRECTIONS {
                redirections += 1;
            } else if is_reply(&error) && !is_passing(&error) {
                self.is_asking = false;
                return Err(self.refusal(error));
            } else {
                breaks += 1;
                if !self.asks_again(breaks) {
                    self.leave().await;
                    return Err(error.into());
                }
                if breaks > 1 {
                    sleep(self.terms.pause()).await;
                }
            }
        }
    }

    /// Sends the request, and waits for its reply; none if the lock is not obtained.
    async fn ask(&mut self) -> RedisResult<Option<Grant>> {
        let (began, terms) = (self.began, self.terms.clone());
        let Some(line) = &mut self.line else { return Ok(None) };
        let limit = terms.wait.map(|wait| later(terms.patience() + wait.saturating_sub(began.elapsed())));
        self.id = None;
        line.connect(Some(later(terms.ttl))).await?;
        self.id = match line.call(redis::cmd("CLIENT").arg("ID"), Some(later(terms.patience()))).await {
            Ok(id) => i64::from_redis_value(id).ok(),
            Err(error) if is_reply(&error) => None, // the user may not ask
            Err(error) => return Err(error),
        };
        self.reached = Some(Instant::now());
        if line.dialect == Dialect::Scripts {
            return self.poll().await;
        }
        let (asked, was_asking) = (Instant::now(), self.is_asking);
        self.is_asking = true;
        match line.call(&terms.acquire(began.elapsed()), limit).await {
            Ok(reply) => {
                self.is_asking = false;
                let is_queued = terms.wait != Some(Duration::ZERO);
                Ok(fences(reply)?.map(|fences| Grant { fences, asked, is_queued }))
            }
            Err(error) if says(&error, "unknown command") && terms.is_plain() => {
                self.is_asking = was_asking;
                line.dialect = Dialect::Scripts;
                self.poll().await
            }
            Err(error) => {
                if is_passing(&error) {
                    line.wire = None; // the next one may go to the primary
                }
                Err(error)
            }
        }
    }

    /// Tries to set the key until it is free, or the wait is over.
    async fn poll(&mut self) -> RedisResult<Option<Grant>> {
        let (began, terms) = (self.began, self.terms.clone());
        let Some(line) = &mut self.line else { return Ok(None) };
        loop {
            let (asked, limit, was_asking) = (Instant::now(), Some(later(terms.patience())), self.is_asking);
            self.is_asking = true;
            let mut is_set = line.call(&terms.set(), limit).await? == Value::Okay;
            if !is_set && was_asking {
                // A request whose reply was lost may have set it.
                let renewal = terms.renew(&terms.names[0], Dialect::Scripts);
                is_set = line.call(&renewal, limit).await? == Value::Int(1);
            }
            self.is_asking = false;
            self.reached = Some(Instant::now());
            if is_set {
                return Ok(Some(Grant { fences: vec![None], asked, is_queued: false }));
            }
            let left = terms.wait.map_or(Duration::MAX, |wait| wait.saturating_sub(began.elapsed()));
            if left.is_zero() {
                return Ok(None);
            }
            let mut chance = [0];
            _ = getrandom::fill(&mut chance);
            sleep(left.min(Duration::from_millis(POLL_MS + POLL_MS * u64::from(chance[0]) / 128))).await;
        }
    }

    /// Returns true if a request is sent again whose connection broke. The first time it always is: its reply may be all that
    /// was lost. Later, while the wait lasts, and unless the server has not been reached for a TTL.
    fn asks_again(&self, breaks: usize) -> bool {
        let terms = self.terms.clone();
        let Some(reached) = self.reached else { return false };
        breaks == 1 || terms.wait.is_none_or(|wait| self.began.elapsed() < wait) && reached.elapsed() < terms.ttl
    }

    /// Tells what an error of the server says of the lock.
    fn refusal(&self, error: RedisError) -> AcquireError {
        if error.code() == Some("DEADLOCK") {
            return AcquireError::Deadlock(error.detail().unwrap_or_default().to_owned());
        }
        let terms = self.terms.clone();
        let is_too_old = says(&error, "syntax error") && !terms.is_plain();
        match says(&error, "unknown command") || is_too_old {
            true => AcquireError::Unsupported(terms.lacked()),
            false => AcquireError::Redis(error),
        }
    }

    /// Asks who holds the lock.
    async fn not_acquired(&mut self) -> NotAcquired {
        let terms = self.terms.clone();
        let mut told = NotAcquired::unknown(&terms);
        let Some(line) = &mut self.line else { return told };
        let limit = Some(later(terms.patience()));
        for (name, shown) in terms.names.iter().zip(terms.shown()) {
            if line.dialect == Dialect::Scripts {
                let ttl = line.call(redis::cmd("PTTL").arg(name), limit).await;
                told.ttl = ttl.ok().and_then(|ttl| milliseconds(&ttl));
                return told;
            }
            let reply = line.call(redis::cmd("LOCK.INFO").arg(name), limit).await.unwrap_or(Value::Nil);
            let Ok(Some(info)) = Option::<HashMap<String, Value>>::from_redis_value(reply) else { continue };
            if text(&info, "mode") != "free" {
                told.name = shown;
                told.holder = Some(holder(&info, &terms.token));
                told.age = info.get("age-ms").and_then(milliseconds);
                told.ttl = info.get("pttl").and_then(milliseconds);
                return told;
            }
        }
        told
    }

    /// Leaves the queue, and gives back a lock that was granted meanwhile; also if this is not waited for. A lock that was
    /// held before is not given back.
    async fn leave(&mut self) {
        if !self.terms.converts
            && let Some(line) = self.line.take()
        {
            _ = tokio::spawn(leave(line, self.id, self.turn.take())).await;
        }
    }
}

impl Drop for Seeker {
    fn drop(&mut self) {
        let line = self.line.take().filter(|_| self.is_asking && !self.terms.converts);
        if let (Some(line), Ok(runtime)) = (line, Handle::try_current()) {
            runtime.spawn(leave(line, self.id, self.turn.take()));
        }
    }
}

async fn leave(mut line: Line, id: Option<i64>, turn: Option<OwnerTurn>) {
    let until = later(LEAVE_LIMIT);
    let waiting = line.wire.take(); // is closed at the end: before that, its request can still be granted
    if let Some(id) = id {
        _ = line.call(redis::cmd("CLIENT").arg("UNBLOCK").arg(id), Some(until)).await;
    }
    _ = line.give_back(until, || true).await;
    drop((waiting, turn));
}

/// Reads a holder, another one than that with a token: the lock itself shows an exclusive one, and a list those who share it.
fn holder(info: &HashMap<String, Value>, own: &str) -> Holder {
    let listed = info.get("holders").cloned().unwrap_or(Value::Nil);
    let listed = Vec::<HashMap<String, Value>>::from_redis_value(listed).unwrap_or_default();
    let first = listed.iter().find(|each| text(each, "token") != own).unwrap_or(info);
    Holder { client_name: text(first, "client-name"), addr: text(first, "addr"), meta: text(first, "meta") }
}

fn text(info: &HashMap<String, Value>, field: &str) -> String {
    info.get(field).and_then(|value| String::from_redis_value(value.clone()).ok()).unwrap_or_default()
}

fn milliseconds(value: &Value) -> Option<Duration> {
    u64::from_redis_value(value.clone()).ok().map(Duration::from_millis)
}
