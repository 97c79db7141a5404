//! Locks of one server, and how they are described.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::acquire;
use crate::connect::Connect;
use crate::error::{AcquireError, NotAcquired};
use crate::held::Held;
use crate::owners::Owners;
use crate::terms::{Mode, Terms};
use crate::wire::Source;

/// Number of random bytes of a token.
const TOKEN_LEN: usize = 16;

/// A time that nobody waits for.
pub(crate) const FOREVER: Duration = Duration::from_secs(100 * 365 * 86400);

/// The locks of one server. A clone is the same.
#[derive(Clone)]
pub struct Locks {
    source: Arc<Source>,
    owners: Arc<Owners>,
}

/// A lock that can be acquired, by several tasks at a time, who exclude each other.
#[derive(Clone, Debug)]
#[must_use]
pub struct Lock {
    locks: Locks,
    terms: Terms,
}

impl Locks {
    /// Describes the server; nothing is sent. Each lock that is held or waited for has a connection of its own.
    pub fn new(connect: impl Connect) -> Self {
        Locks { source: Arc::new(Source::new(connect)), owners: Arc::default() }
    }

    /// Describes a lock; nothing is sent.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.several([name])
    }

    /// Describes several locks that are acquired together: all of them at once, or none.
    pub fn several<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        let names = names.into_iter().map(|name| name.as_ref().to_vec()).collect();
        Lock { locks: self.clone(), terms: Terms::new(names) }
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

impl Lock {
    /// Sets for how long the lock outlives its last renewal; 30 seconds without this.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl.min(FOREVER);
        self
    }

    /// Limits the wait in the queue; zero for not at all, and without this it takes as long as it takes.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.terms.wait = Some(wait.min(FOREVER));
        self
    }

    /// Shares the lock with others who share it; without this it is exclusive.
    pub fn shared(mut self) -> Self {
        self.terms.has_two_modes = self.terms.mode != Mode::Exclusive;
        self.terms.mode = Mode::Shared;
        self
    }

    /// Takes this many permits of a semaphore.
    pub fn permits(mut self, count: u32) -> Self {
        self.terms.has_two_modes = self.terms.mode == Mode::Shared;
        self.terms.mode = Mode::Permits(count);
        self
    }

    /// Says how many permits the semaphore has; not needed where it exists.
    pub fn of(mut self, size: u32) -> Self {
        self.terms.size = Some(size);
        self
    }

    /// Sets the time from one renewal to the next; a third of the TTL without this.
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.terms.renew_every = Some(interval);
        self
    }

    /// Limits the time for which the lock is renewed, from its acquisition; zero for no renewal. The lock then ends by its
    /// TTL, so that work which never ends does not hold it for ever.
    pub fn renew_for(mut self, limit: Duration) -> Self {
        self.terms.renew_for = Some(limit.min(FOREVER));
        self
    }

    /// Says to others what the lock is for, in LOCK.INFO.
    pub fn meta(mut self, text: impl Into<String>) -> Self {
        self.terms.meta = Some(text.into());
        self
    }

    /// Has the server release the lock when the connection ends, after its `session-grace-ms`, in which a broken connection
    /// is made again.
    pub fn session(mut self) -> Self {
        self.terms.is_session = true;
        self
    }

    /// Names the owner, a token of its own for all locks of one thread of work. A wait that would never end because of a lock
    /// of the same owner is refused at once. A lock that its owner holds in the same mode by the same [`Locks`] is
    /// acquired again at once, on the terms of the first time, and released with the last. A name that the owner has alone
    /// cannot be acquired together with others, nor the reverse.
    pub fn owner(mut self, token: impl Into<String>) -> Self {
        self.terms.owner = Some(token.into());
        self
    }

    /// Acquires the lock, in the order of arrival. If the future is dropped, the queue is left, and a lock that was granted
    /// at that moment is given back.
    ///
    /// # Errors
    /// If the lock is not obtained in time, the terms exclude each other, or the server is not reached or refuses.
    ///
    /// # Panics
    /// If there is no tokio runtime.
    pub async fn acquire(&self) -> Result<Held, AcquireError> {
        let (began, mut terms) = (Instant::now(), self.terms.clone());
        if let Some(fault) = terms.fault() {
            return Err(AcquireError::Terms(fault));
        }
        terms.token = match &terms.owner {
            Some(owner) => owner.clone(),
            None => new_token()?,
        };
        let wait = terms.wait.unwrap_or(FOREVER);
        // Another task of the owner is still acquiring it.
        let late = || AcquireError::NotAcquired(Box::new(NotAcquired::unknown(&terms)));
        let mut turn = None;
        if let Some(owned) = self.locks.owners.of(&terms)? {
            let own = timeout(wait, owned.lock_owned()).await.map_err(|_| late())?;
            if let Some(hold) = own.upgrade() {
                if let Some(held) = hold.join() {
                    return Ok(held);
                }
                let left = wait.saturating_sub(began.elapsed());
                timeout(left, hold.released()).await.map_err(|_| late())?;
            }
            turn = Some(own);
        }
        acquire::acquire(self.locks.source.clone(), Arc::new(terms), began, turn).await
    }
}

fn new_token() -> Result<String, AcquireError> {
    let mut chance = [0; TOKEN_LEN];
    getrandom::fill(&mut chance)
        .map_err(|cause| std::io::Error::other(cause.to_string()))
        .map_err(redis::RedisError::from)?;
    Ok(chance.iter().map(|byte| format!("{byte:02x}")).collect())
}
