//! Errors: a lock that is not obtained, or lost.

use std::fmt;
use std::time::{Duration, SystemTime};

use redis::RedisError;

use crate::terms::Terms;

/// The reason for which a lock was not acquired, or its mode was not changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// Others held the lock until the wait was over.
    NotAcquired(Box<NotAcquired>),
    /// The wait would never end: clients before this one wait for a lock of the same owner. The text names the cycle.
    Deadlock(String),
    /// The terms exclude each other.
    Terms(&'static str),
    /// The lock whose mode was to be changed is released.
    Released,
    /// The lock whose mode was to be changed is lost.
    Lost(Box<LockLost>),
    /// The server has no locks of this kind: it is no keylatch server, or an older one.
    Unsupported(&'static str),
    /// The server was not reached, or has refused.
    Redis(RedisError),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::NotAcquired(error) => error.fmt(f),
            AcquireError::Deadlock(cycle) => write!(f, "the wait would never end: {cycle}"),
            AcquireError::Terms(fault) => f.write_str(fault),
            AcquireError::Released => f.write_str("the lock is released"),
            AcquireError::Lost(lost) => lost.fmt(f),
            AcquireError::Unsupported(lacked) => f.write_str(lacked),
            AcquireError::Redis(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AcquireError::Redis(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RedisError> for AcquireError {
    fn from(error: RedisError) -> Self {
        AcquireError::Redis(error)
    }
}

/// A lock that was not obtained within the wait, and who held it then, where the server has LOCK.INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotAcquired {
    /// The name; of several the first that was held.
    pub name: String,
    /// The holder; of several that share the lock one of them.
    pub holder: Option<Holder>,
    /// The time for which the lock had been held.
    pub age: Option<Duration>,
    /// The rest of the lock's TTL.
    pub ttl: Option<Duration>,
}

/// The holder of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name of its connection (CLIENT SETNAME); empty without one.
    pub client_name: String,
    /// The address of its connection; empty while it has none.
    pub addr: String,
    /// The text that it has given for others; empty without one.
    pub meta: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.meta, &self.client_name, &self.addr].map(String::as_str);
        let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        f.write_str(if known.is_empty() { "a client that is away" } else { "" })?;
        f.write_str(&known.join(", "))
    }
}

impl NotAcquired {
    /// Creates the error of a lock whose holder is not known.
    pub(crate) fn unknown(terms: &Terms) -> Self {
        NotAcquired { name: terms.shown().remove(0), holder: None, age: None, ttl: None }
    }
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock {} was not obtained in time", self.name)?;
        if let Some(holder) = &self.holder {
            write!(f, "; it is held by {holder}")?;
        }
        if let Some(age) = self.age {
            write!(f, " for {:.1} s", age.as_secs_f64())?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, "; its TTL is over in {:.1} s", ttl.as_secs_f64())?;
        }
        Ok(())
    }
}

impl std::error::Error for NotAcquired {}

/// The loss of a lock before its release.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockLost {
    /// The names that were held together.
    pub names: Vec<String>,
    /// `expired`, `disconnected`, or a reason of NOTIFY: `deleted`, `overwritten` and others.
    pub reason: String,
    /// The time of the loss, as this process has noticed it.
    pub at: SystemTime,
    /// The time for which the lock was held until then.
    pub age: Duration,
}

impl fmt::Display for LockLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (names, age) = (self.names.join(", "), self.age.as_secs_f64());
        write!(f, "the lock {names} was lost after {age:.1} s: {}", self.reason)
    }
}

impl std::error::Error for LockLost {}
