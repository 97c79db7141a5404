//! Requests to the server about one lock: by `LOCK.*`, or by SET NX PX and scripts, where the server has no `LOCK.*`.

use bytes::Bytes;

use crate::app::lock::connection::{LockConnection, integer};
use crate::app::lock::failure::RequestError;
use crate::resp::Frame;

/// Script that sets the TTL of a lock that is held with a token.
const RENEW: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// Script that deletes a lock that is held with a token.
pub(super) const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// Number of random bytes of a token.
const TOKEN_LEN: usize = 16;

/// Commands that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockDialect {
    /// `LOCK.*`.
    Locks,
    /// Commands of Redis and Valkey.
    Scripts,
}

/// A lock that is held, or could be.
pub(super) struct Claim {
    /// Name of the lock: a key.
    pub name: Vec<u8>,
    pub token: String,
    /// The TTL, in milliseconds.
    pub ttl_ms: u64,
    /// Text about the lock that other clients are shown.
    pub meta: Vec<u8>,
    /// Commands by which the server is asked.
    pub dialect: LockDialect,
}

/// Grant of a lock with our token: its fence, where the server has fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldGrant(pub Option<i64>);

impl Claim {
    /// Creates the claim of a lock, with a unique token.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(name: Vec<u8>, ttl_ms: u64, meta: Vec<u8>) -> Result<Self, String> {
        let mut chance = [0; TOKEN_LEN];
        getrandom::fill(&mut chance).map_err(|cause| format!("no random numbers: {cause}"))?;
        let token = chance.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Claim { name, token, ttl_ms, meta, dialect: LockDialect::Locks })
    }

    /// Requests the lock, and waits for it in the queue for `block_ms` milliseconds, 0 for as long as it takes. If the
    /// token holds the lock already, the server grants it again.
    ///
    /// # Errors
    /// If it is not known whether the lock was granted, or the server refuses.
    pub(super) async fn acquire(
        &self,
        connection: &mut LockConnection,
        block_ms: Option<u64>,
    ) -> Result<Option<HeldGrant>, RequestError> {
        let (ttl, block) = (self.ttl_ms.to_string(), block_ms.map(|ms| ms.to_string()));
        let (name, token, ttl) = (&self.name[..], self.token.as_bytes(), ttl.as_bytes());
        if self.dialect == LockDialect::Scripts {
            let reply = connection.ask(&[b"SET", name, token, b"NX", b"PX", ttl]).await?;
            return Ok(matches!(reply, Frame::Simple(_)).then_some(HeldGrant(None)));
        }
        let mut words = vec![&b"LOCK.ACQUIRE"[..], name, token, b"PX", ttl, b"NOTIFY"];
        words.extend(block.iter().flat_map(|ms| [&b"BLOCK"[..], ms.as_bytes()]));
        if !self.meta.is_empty() {
            words.extend([&b"META"[..], &self.meta]);
        }
        connection.ask(&words).await.map(|reply| integer(&reply).map(|fence| HeldGrant(Some(fence))))
    }

    /// Sets the TTL again; returns `None` if the lock is not held with the token.
    ///
    /// # Errors
    /// If it is not known whether the lock is still held.
    pub(super) async fn renew(&self, connection: &mut LockConnection) -> Result<Option<HeldGrant>, RequestError> {
        let ttl = self.ttl_ms.to_string();
        let (name, token, ttl) = (&self.name[..], self.token.as_bytes(), ttl.as_bytes());
        match self.dialect {
            LockDialect::Locks => {
                let reply = connection.ask(&[b"LOCK.RENEW", name, token, b"PX", ttl]).await?;
                Ok(integer(&reply).map(|fence| HeldGrant(Some(fence))))
            }
            LockDialect::Scripts => {
                let reply = connection.ask(&[b"EVAL", RENEW.as_bytes(), b"1", name, token, ttl]).await?;
                Ok((integer(&reply) == Some(1)).then_some(HeldGrant(None)))
            }
        }
    }

    /// Releases the lock; returns true if it was held with the token.
    ///
    /// # Errors
    /// If it is not known whether it was released.
    pub(super) async fn release(&self, connection: &mut LockConnection) -> Result<bool, RequestError> {
        self.queue_release(connection);
        connection.reply().await.map(|reply| integer(&reply) == Some(1))
    }

    /// Queues the release behind the requests that were sent before.
    pub(super) fn queue_release(&self, connection: &mut LockConnection) {
        let (name, token) = (&self.name[..], self.token.as_bytes());
        match self.dialect {
            LockDialect::Locks => connection.queue(&[b"LOCK.RELEASE", name, token]),
            LockDialect::Scripts => connection.queue(&[b"EVAL", RELEASE.as_bytes(), b"1", name, token]),
        }
    }

    /// Returns the reason if a push reports the loss of this very lock.
    pub(super) fn loss(&self, push: &[Frame], HeldGrant(fence): HeldGrant) -> Option<Bytes> {
        let [Frame::Bulk(kind), _, Frame::Bulk(token), Frame::Integer(of), Frame::Bulk(reason)] = push else {
            return None;
        };
        let is_ours = kind == "lock-lost" && **token == *self.token.as_bytes() && Some(*of) == fence;
        is_ours.then(|| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_another_lock_of_the_same_name_is_none() {
        let claim = Claim::new(b"job".to_vec(), 1000, Vec::new()).expect("a token");
        let loss = |token: &str, fence: i64| {
            let words = ["lock-lost", "job", token].map(|word| Frame::Bulk(Bytes::copy_from_slice(word.as_bytes())));
            let push = [&words[..], &[Frame::Integer(fence), Frame::Bulk(Bytes::from_static(b"deleted"))]].concat();
            claim.loss(&push, HeldGrant(Some(5)))
        };
        assert_eq!(loss(&claim.token, 5).as_deref(), Some(&b"deleted"[..]));
        assert_eq!((loss(&claim.token, 4), loss("other", 5)), (None, None));
    }
}
