//! Holder of a lock, as the server knows it: requests, renews and releases the lock, and learns of its loss.
//!
//! The lock has a TTL and is not bound to the connection (`SESSION`): a connection may break and come back within the
//! TTL, and if this process is killed, the lock outlives the remains of the command, up to the TTL.
//!
//! Invariant: the lock is believed held for no longer than its TTL, counted from before the sending of the request by
//! which the server last confirmed it.

use std::time::Duration;

use tokio::time::timeout;

use crate::app::lock::claim::{Claim, HeldGrant, LockDialect};
use crate::app::lock::connection::LockConnection;
use crate::app::lock::failure::{LockFailure, RequestError, exit};
use crate::app::lock::messages::Messages;
use crate::app::lock::options::{LockedCommand, ServerOptions};
use crate::app::lock::primary;
use crate::app::lock::shown::shown;
use crate::app::lock::waiting::WaitReport;
use crate::resp::Frame;
use crate::time::clock::Clock;

/// Timeout of a reply that does not wait for anything.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a release.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pauses between attempts where the server has no queue, in milliseconds. Their length is random, so that waiting
/// clients do not ask all at once.
const POLL_MS: std::ops::Range<u64> = 50..150;
/// Pauses between attempts where the server does not answer, in milliseconds, of random length as well.
const RETRY_MS: std::ops::Range<u64> = 100..300;

/// Shortest pause between two looks at a lock whose TTL another renews, in milliseconds.
const RENEWAL_MIN_MS: u64 = 10;

/// Outcome of the release of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// The lock was held to the end.
    Done,
    /// The lock of this name was no longer held.
    Lost(String),
    /// The outcome is not known, for a reason: the lock ends by its TTL.
    Unknown(String),
}

/// A lock that is held, or requested.
pub(super) struct JobLock<'a> {
    server: &'a ServerOptions,
    claim: Claim,
    messages: &'a Messages,
    clock: Clock,
    connection: Option<LockConnection>,
    /// The fences, once the lock is held.
    grant: HeldGrant,
    /// Time for which the server holds the lock after a renewal, in milliseconds.
    term_ms: u64,
    /// Time at which the lock was taken, in monotonic milliseconds.
    taken_ms: u64,
    /// Time at which the lock is believed lost, in monotonic milliseconds.
    valid_until_ms: u64,
    /// Time at which the lock is renewed, in monotonic milliseconds.
    renew_at_ms: u64,
    /// True if a request for the lock was sent whose reply is not known.
    is_in_doubt: bool,
    /// True once the user was told that the server is away.
    is_absence_told: bool,
}

impl<'a> JobLock<'a> {
    /// Creates the holder; nothing is sent yet.
    pub(super) fn new(server: &'a ServerOptions, claim: Claim, messages: &'a Messages) -> Self {
        JobLock {
            term_ms: claim.ttl_ms,
            server,
            claim,
            messages,
            clock: Clock::system(),
            connection: None,
            grant: HeldGrant::default(),
            taken_ms: 0,
            valid_until_ms: 0,
            renew_at_ms: 0,
            is_in_doubt: false,
            is_absence_told: false,
        }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn grant(&self) -> &HeldGrant {
        &self.grant
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// If it is not obtained.
    pub(super) async fn acquire(
        &mut self,
        run: &LockedCommand,
        waiting: &mut WaitReport<'_>,
    ) -> Result<(), LockFailure> {
        let until_ms = run.wait.map(|wait| self.now_ms() + ms(wait));
        let mut was_connected = false;
        loop {
            let tried = self.try_acquire(run, until_ms, waiting).await;
            was_connected |= self.connection.is_some();
            waiting.clear();
            let error = match tried {
                Ok(true) => {
                    self.taken_ms = self.now_ms();
                    return Ok(());
                }
                Ok(false) => return Err(LockFailure::held(self.held_by(waiting).await)),
                Err(RequestError::UnknownCommand) if self.claim.dialect == LockDialect::Locks => {
                    if self.claim.needs_locks() {
                        let reason = "the server has no LOCK commands: one name only, no --shared, no --permits";
                        return Err(LockFailure { reason: reason.into(), status: Some(exit::REFUSED) });
                    }
                    self.claim.dialect = LockDialect::Scripts;
                    waiting.say("the server has no LOCK commands: no queue, no fence");
                    continue;
                }
                Err(error) => error,
            };
            let is_over = until_ms.is_some_and(|until_ms| self.now_ms() >= until_ms);
            let can_retry = match &error {
                RequestError::Unreachable(_) => was_connected || run.wait.is_some(),
                RequestError::Busy(_) => true,
                RequestError::Refused(text) => {
                    text.starts_with(b"READONLY") && (run.wait.is_some() || self.server.has_choice())
                }
                RequestError::UnknownCommand => false,
            };
            self.is_in_doubt |= was_connected && matches!(error, RequestError::Unreachable(_));
            let failure = LockFailure::of(error, &self.claim.name());
            if is_over || !can_retry {
                return Err(failure);
            }
            self.connection = None;
            if !std::mem::replace(&mut self.is_absence_told, true) {
                waiting.say(&format!("{}; trying again", failure.reason));
            }
            let mut pause_ms = chance(RETRY_MS);
            if let Some(until_ms) = until_ms {
                pause_ms = pause_ms.min(until_ms.saturating_sub(self.now_ms()));
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
    }

    /// Requests the lock, and waits for it; returns true if it is held.
    async fn try_acquire(
        &mut self,
        run: &LockedCommand,
        until_ms: Option<u64>,
        waiting: &mut WaitReport<'_>,
    ) -> Result<bool, RequestError> {
        let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(self.now_ms()).max(RETRY_MS.end));
        let left = left_ms.filter(|_| run.wait != Some(Duration::ZERO)).map(Duration::from_millis);
        self.connect(left.unwrap_or(REPLY_TIMEOUT).min(REPLY_TIMEOUT)).await?;
        if let (Some(token), Some(connection)) = (&run.enclosing, &mut self.connection)
            && let Some(grant) = in_time(Some(REPLY_TIMEOUT), self.claim.borrow(connection, token)).await?
        {
            self.grant = grant;
            self.is_in_doubt = false;
            // It is not known for how long it is held: so the first renewal comes at once.
            self.confirm(self.now_ms());
            self.renew_at_ms = self.now_ms();
            return Ok(true);
        }
        match self.claim.dialect {
            LockDialect::Locks => self.queue_up(until_ms, waiting).await,
            LockDialect::Scripts => self.poll(until_ms, waiting).await,
        }
    }

    /// Waits in the server's queue.
    async fn queue_up(&mut self, until_ms: Option<u64>, waiting: &mut WaitReport<'_>) -> Result<bool, RequestError> {
        let since_ms = self.now_ms();
        let left_ms = until_ms.map(|until_ms| until_ms.saturating_sub(since_ms));
        let Some(connection) = &mut self.connection else { return Err(closed()) };
        // The server takes 0 for no limit.
        let block_ms = left_ms.map_or(Some(0), |left_ms| Some(left_ms).filter(|left_ms| *left_ms > 0));
        let limit = left_ms.map(|left_ms| Duration::from_millis(left_ms) + REPLY_TIMEOUT);
        let id = connection.id;
        let granted = tokio::select! {
            biased;
            granted = in_time(limit, self.claim.acquire(connection, block_ms)) => granted?,
            () = waiting.follow(id) => None,
        };
        let Some(grant) = granted else { return Ok(false) };
        self.grant = grant;
        self.confirm(since_ms);
        // The lock was granted at an unknown time within the wait, and its TTL counts from then.
        if self.now_ms() >= self.renew_at_ms {
            return match self.renew_within(self.renewal_limit_ms()).await? {
                None => Ok(true),
                Some(_) => Err(RequestError::Busy("the lock was lost before it was used".into())),
            };
        }
        Ok(true)
    }

    /// Requests the lock again and again.
    async fn poll(&mut self, until_ms: Option<u64>, waiting: &mut WaitReport<'_>) -> Result<bool, RequestError> {
        let mut is_type_known = false;
        loop {
            let since_ms = self.now_ms();
            let Some(connection) = &mut self.connection else { return Err(closed()) };
            let mut granted = in_time(Some(REPLY_TIMEOUT), self.claim.acquire(connection, None)).await?;
            if granted.is_none() && self.is_in_doubt {
                // The lock may be ours, if the reply that said so was lost.
                let missing =
                    in_time(Some(REPLY_TIMEOUT), self.claim.renew(connection, &self.grant, self.claim.ttl_ms)).await?;
                granted = missing.is_none().then(HeldGrant::default);
            }
            self.is_in_doubt = false;
            if let Some(grant) = granted {
                self.grant = grant;
                self.confirm(since_ms);
                return Ok(true);
            }
            if !std::mem::replace(&mut is_type_known, true) {
                let kind = in_time(Some(REPLY_TIMEOUT), connection.ask(&[b"TYPE", &self.claim.names[0]])).await?;
                if !matches!(kind.as_bytes(), Some(b"string" | b"none")) {
                    return Err(RequestError::Refused(b"WRONGTYPE".to_vec()));
                }
            }
            let left_ms = until_ms.map_or(u64::MAX, |until_ms| until_ms.saturating_sub(self.now_ms()));
            if left_ms == 0 {
                return Ok(false);
            }
            waiting.tell_poll();
            tokio::time::sleep(Duration::from_millis(chance(POLL_MS).min(left_ms))).await;
        }
    }

    /// Returns a message that names the holder of the lock that was not obtained.
    async fn held_by(&mut self, waiting: &WaitReport<'_>) -> String {
        let holder = match (&mut self.connection, self.claim.dialect) {
            (Some(connection), LockDialect::Locks) => {
                timeout(RELEASE_TIMEOUT, waiting.holder(connection)).await.ok().flatten()
            }
            _ => None,
        };
        match holder {
            Some((name, holder)) => format!("{} is held by {holder}", shown(name)),
            None => format!("{} is held by another", shown(&self.claim.name())),
        }
    }

    /// Renews the lock in time; returns once it is lost, with the name and the reason.
    pub(super) async fn keep(&mut self) -> String {
        let clock = self.clock.clone();
        loop {
            if self.now_ms() >= self.valid_until_ms {
                let name = shown(&self.claim.name());
                let is_away = self.is_absence_told;
                let reason = if is_away { "the server was not reachable for its TTL" } else { "its TTL is over" };
                return format!("{name} was lost ({reason})");
            }
            let (renew_at_ms, valid_until_ms) = (self.renew_at_ms, self.valid_until_ms);
            tokio::select! {
                push = next_push(&mut self.connection) => match push {
                    Some(push) => {
                        if let Some((at, reason)) = self.claim.loss(&push, &self.grant) {
                            if reason == "flushed" && self.server.has_choice() {
                                // A primary that becomes a replica loads the data of the new primary, which is asked.
                                self.connection = None;
                                self.renew_at_ms = self.now_ms();
                                continue;
                            }
                            return format!("{} was lost ({})", self.name(at), shown(&reason));
                        }
                    }
                    // The lock may have gone with the connection, without a message about that.
                    None => self.renew_at_ms = self.now_ms() + self.pause_ms(),
                },
                () = clock.reach(renew_at_ms.min(valid_until_ms)) => {
                    let error = match self.renew().await {
                        Ok(None) => continue,
                        Ok(Some(at)) => return format!("{} was lost (it has expired, or was taken)", self.name(at)),
                        Err(error) => error,
                    };
                    self.plan_retry(error);
                }
            }
        }
    }

    /// Plans the next attempt after a renewal that has failed.
    fn plan_retry(&mut self, error: RequestError) {
        self.connection = None;
        self.renew_at_ms = self.now_ms() + self.pause_ms();
        let reason = match error {
            RequestError::UnknownCommand => "the server knows the command no more".into(),
            error => LockFailure::of(error, &self.claim.name()).reason,
        };
        if !std::mem::replace(&mut self.is_absence_told, true) {
            self.messages.complain(&format!("the lock could not be renewed: {reason}; trying again"));
        }
    }

    /// Sets the TTL again, over a new connection if need be; returns the position of a name that is not held any more.
    /// An attempt takes no longer than until the next one, or the end of the lock.
    async fn renew(&mut self) -> Result<Option<usize>, RequestError> {
        let left_ms = self.valid_until_ms.saturating_sub(self.now_ms());
        self.renew_within(left_ms.min(self.renewal_limit_ms())).await
    }

    /// Returns the maximum duration of an attempt to set the TTL again, in milliseconds.
    fn renewal_limit_ms(&self) -> u64 {
        self.claim.ttl_ms / 3
    }

    async fn renew_within(&mut self, limit_ms: u64) -> Result<Option<usize>, RequestError> {
        let since_ms = self.now_ms();
        let missing = in_time(Some(Duration::from_millis(limit_ms)), self.try_renew()).await?;
        if missing.is_none() {
            self.confirm(since_ms);
        }
        Ok(missing)
    }

    async fn try_renew(&mut self) -> Result<Option<usize>, RequestError> {
        self.follow_primary().await;
        let is_new = self.connect(REPLY_TIMEOUT).await?;
        let Some(connection) = &mut self.connection else { return Err(closed()) };
        if self.claim.is_borrowed {
            return Ok(match self.claim.look(connection, &self.grant).await? {
                Ok(term_ms) => {
                    self.term_ms = term_ms;
                    None
                }
                Err(at) => Some(at),
            });
        }
        let missing = self.claim.renew(connection, &self.grant, self.claim.ttl_ms).await?;
        if missing.is_some() {
            return Ok(missing);
        }
        if is_new && self.claim.dialect == LockDialect::Locks {
            // The server has to know the new connection, to report a loss there.
            let again = self.claim.acquire(connection, None).await?;
            if again.as_ref() != Some(&self.grant) {
                let fences = again.unwrap_or_default().0;
                if !fences.is_empty() {
                    self.claim.release(connection).await?; // another lock, taken just now
                }
                return Ok(Some(fences.iter().zip(&self.grant.0).position(|(new, old)| new != old).unwrap_or(0)));
            }
        }
        Ok(None)
    }

    /// Releases the lock, or sets its TTL to the rest of the minimum hold time. A lock that is not held any more was not
    /// lost if a release was sent while it was believed held, and the reply did not arrive.
    pub(super) async fn release(&mut self, at_least: Duration) -> Release {
        let kept_until_ms = if self.claim.is_borrowed { 0 } else { self.taken_ms + ms(at_least) };
        let rest_ms = kept_until_ms.saturating_sub(self.now_ms());
        let is_believed = rest_ms == 0 && self.now_ms() < self.valid_until_ms;
        let released = timeout(RELEASE_TIMEOUT, async {
            let mut is_unanswered = false;
            self.follow_primary().await;
            if let Some(connection) = &mut self.connection {
                match self.claim.end(connection, &self.grant, rest_ms).await {
                    // A connection that has broken meanwhile shows it only now.
                    Err(RequestError::Unreachable(_)) => is_unanswered = is_believed,
                    // There may be another primary.
                    Err(_) if self.server.has_choice() => {}
                    released => return released,
                }
            }
            let mut connection = primary::connect(self.server).await?;
            let missing = self.claim.end(&mut connection, &self.grant, rest_ms).await?;
            Ok(missing.filter(|_| !is_unanswered))
        });
        let reason = match released.await {
            Ok(Ok(None)) => return Release::Done,
            Ok(Ok(Some(at))) => return Release::Lost(self.name(at)),
            Ok(Err(error)) => LockFailure::of(error, &self.claim.name()).reason,
            Err(_) => "the server does not answer".into(),
        };
        let done = if rest_ms == 0 { "released" } else { "kept for --at-least" };
        Release::Unknown(format!("{} was not {done} ({reason})", shown(&self.claim.name())))
    }

    /// Leaves the queue. A lock that was granted meanwhile is released: by a release queued behind the wait, or else
    /// over another connection.
    pub(super) async fn leave(mut self) {
        let (connection, is_in_doubt) = (self.connection.take(), self.is_in_doubt);
        let left = async {
            match connection {
                _ if self.claim.is_borrowed => return,
                None if !is_in_doubt => return,
                None => {}
                Some(mut connection) => {
                    self.claim.queue_release(&mut connection);
                    if connection.finish().await.is_ok() {
                        return;
                    }
                }
            }
            if let Ok(mut connection) = primary::connect(self.server).await {
                let _ = self.claim.release(&mut connection).await;
            }
        };
        // The TTL ends a lock that this leaves behind.
        let _ = timeout(RELEASE_TIMEOUT, left).await;
    }

    /// Gives up a connection to a server that is not the primary any more, as sentinels say.
    async fn follow_primary(&mut self) {
        let Some(connection) = &self.connection else { return };
        let limit = Duration::from_millis(self.claim.ttl_ms / 10).min(RELEASE_TIMEOUT / 2);
        if timeout(limit, primary::has_moved(self.server, connection)).await == Ok(true) {
            self.connection = None;
        }
    }

    /// Connects unless there is a connection; returns true if it is new.
    async fn connect(&mut self, limit: Duration) -> Result<bool, RequestError> {
        if self.connection.is_some() {
            return Ok(false);
        }
        let connection = in_time(Some(limit), primary::connect(self.server)).await?;
        self.connection = Some(connection);
        Ok(true)
    }

    /// Returns one of the names, safe to be shown.
    fn name(&self, at: usize) -> String {
        self.claim.names.get(at).map(|name| shown(name)).unwrap_or_default()
    }

    /// Records that the server held the lock for us at a time, with a whole term to come.
    fn confirm(&mut self, since_ms: u64) {
        self.valid_until_ms = since_ms + self.term_ms;
        self.renew_at_ms = since_ms + (self.term_ms / 3).max(RENEWAL_MIN_MS);
        self.is_absence_told = false;
    }

    /// Returns the time from a failed renewal, or a broken connection, to the next attempt, in milliseconds.
    fn pause_ms(&self) -> u64 {
        (self.claim.ttl_ms / 10).min(RETRY_MS.start)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().mono_ms()
    }
}

/// Waits for a push; if the connection breaks, drops it and returns `None`.
async fn next_push(connection: &mut Option<LockConnection>) -> Option<Vec<Frame>> {
    let Some(open) = connection else { return std::future::pending().await };
    let push = open.next_push().await.ok();
    if push.is_none() {
        *connection = None;
    }
    push
}

/// Waits for an answer, for at most this long.
async fn in_time<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    match limit {
        None => answer.await,
        Some(limit) => timeout(limit, answer).await.unwrap_or_else(|_| Err(RequestError::Unreachable(SILENT.into()))),
    }
}

/// Error for a server that does not answer in time.
const SILENT: &str = "the server does not answer";

fn closed() -> RequestError {
    RequestError::Unreachable("there is no connection".into())
}

/// Returns a time in milliseconds.
pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a random number of a range.
fn chance(range: std::ops::Range<u64>) -> u64 {
    let mut bytes = [0; 8];
    // Without random numbers, which no system lacks, the pauses are all the same.
    let _ = getrandom::fill(&mut bytes);
    range.start + u64::from_ne_bytes(bytes) % (range.end - range.start)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::app::endpoint::Endpoint;
    use crate::app::lock::options::ClaimMode;
    use crate::app::process::Console;
    use crate::dial::TlsOptions;

    const TTL_MS: u64 = 600_000;

    /// Renews a lock with the fence 5 over a new connection to a server that expects some commands, gives these
    /// replies, and takes half a second for each. Returns the position of a name that is not held any more, and by how
    /// much the validity was extended.
    async fn renew(exchange: &[(&str, &str)]) -> (Result<Option<usize>, RequestError>, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let clock = Clock::manual();
        let serve = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for (command, reply) in exchange {
                let mut request = Vec::new();
                while !request.windows(command.len()).any(|words| words == command.as_bytes()) {
                    assert_ne!(stream.read_buf(&mut request).await.expect("a request"), 0, "no {command}");
                }
                clock.advance(Duration::from_millis(500));
                stream.write_all(format!("{reply}\r\n").as_bytes()).await.expect("it reads");
            }
        };
        let server = ServerOptions {
            endpoints: vec![Endpoint::read(&format!("redis://{address}"), None).expect("an address")],
            sentinels: None,
            next: Cell::new(0),
            tls: TlsOptions::default(),
            own_name: b"test".to_vec(),
        };
        let messages = Messages::start(Console { say: |_| {}, complain: |_| {} }).expect("a thread");
        let claim = Claim::new(vec![b"job".to_vec()], ClaimMode::Exclusive, TTL_MS, Vec::new()).expect("a token");
        let mut holder = JobLock::new(&server, claim, &messages);
        (holder.clock, holder.grant) = (clock.clone(), HeldGrant(vec![5]));
        holder.confirm(clock.now().mono_ms());
        let before_ms = holder.valid_until_ms;
        clock.advance(Duration::from_secs(60));
        let renewed = async move {
            let missing = holder.renew().await;
            (missing, holder.valid_until_ms - before_ms) // the end of its connection is the end of the exchange
        };
        tokio::join!(renewed, serve).0
    }

    #[tokio::test]
    async fn the_ttl_counts_from_before_the_renewal() {
        let exchange = [("HELLO", "+OK"), ("LOCK.RENEW", ":5"), ("LOCK.ACQUIRE", ":5")];
        assert_eq!(renew(&exchange).await, (Ok(None), 60_000));
    }

    #[tokio::test]
    async fn a_lock_that_went_while_the_connection_was_made_again_is_given_back() {
        let exchange = [("HELLO", "+OK"), ("LOCK.RENEW", ":5"), ("LOCK.ACQUIRE", ":6"), ("LOCK.RELEASE", ":1")];
        assert_eq!(renew(&exchange).await, (Ok(Some(0)), 0));
    }
}
