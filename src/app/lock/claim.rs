//! Requests to the server about a lock, or several that are held together: by `LOCK.*`, or by SET NX PX and scripts,
//! where the server has no `LOCK.*`.

use bytes::Bytes;

use crate::app::lock::connection::{LockConnection, integer};
use crate::app::lock::failure::RequestError;
use crate::app::lock::options::ClaimMode;
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

/// Locks that are held together, or could be.
pub(super) struct Claim {
    /// Names of the locks: keys.
    pub names: Vec<Vec<u8>>,
    pub mode: ClaimMode,
    pub token: String,
    /// The TTL, in milliseconds.
    pub ttl_ms: u64,
    /// Text about the lock that other clients are shown.
    pub meta: Vec<u8>,
    /// Commands by which the server is asked.
    pub dialect: LockDialect,
    /// True if the locks are those of an enclosing `keylatch lock`.
    pub is_borrowed: bool,
}

/// Grant of the locks with our token: their fences, where the server has fences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldGrant(pub Vec<i64>);

impl Claim {
    /// Creates the claim of locks, with a unique token.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(super) fn new(names: Vec<Vec<u8>>, mode: ClaimMode, ttl_ms: u64, meta: Vec<u8>) -> Result<Self, String> {
        let mut chance = [0; TOKEN_LEN];
        getrandom::fill(&mut chance).map_err(|cause| format!("no random numbers: {cause}"))?;
        let token = chance.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Claim { names, mode, token, ttl_ms, meta, dialect: LockDialect::Locks, is_borrowed: false })
    }

    /// Returns all names, separated by blanks.
    pub(super) fn name(&self) -> Vec<u8> {
        self.names.join(&b' ')
    }

    /// Returns true if a server without `LOCK.*` cannot grant this.
    pub(super) fn needs_locks(&self) -> bool {
        self.names.len() > 1 || self.mode != ClaimMode::Exclusive
    }

    /// Requests the locks, and waits for them in the queue for `block_ms` milliseconds, 0 for as long as it takes. If the
    /// token holds them already, the server grants them again.
    ///
    /// # Errors
    /// If it is not known whether they were granted, or the server refuses.
    pub(super) async fn acquire(
        &self,
        connection: &mut LockConnection,
        block_ms: Option<u64>,
    ) -> Result<Option<HeldGrant>, RequestError> {
        let number = |number: u64| number.to_string().into_bytes();
        let (token, ttl) = (self.token.as_bytes(), number(self.ttl_ms));
        if self.dialect == LockDialect::Scripts {
            let reply = connection.ask(&[b"SET", &self.names[0], token, b"NX", b"PX", &ttl]).await?;
            return Ok(matches!(reply, Frame::Simple(_)).then(HeldGrant::default));
        }
        let (count, block) = (number(self.names.len() as u64), block_ms.map(number));
        let mut words = match self.names.len() {
            1 => vec![&b"LOCK.ACQUIRE"[..]],
            _ => vec![&b"LOCK.ACQUIREMULTI"[..], &count],
        };
        words.extend(self.names.iter().map(Vec::as_slice));
        words.extend([token, b"PX", &ttl, b"NOTIFY"]);
        let (permits, size) = match self.mode {
            ClaimMode::Permits(permits, size) => (Some(number(permits.into())), size.map(|size| number(size.into()))),
            _ => (None, None),
        };
        if self.mode == ClaimMode::Shared {
            words.push(b"SHARED");
        }
        let meta = Some(&self.meta).filter(|meta| !meta.is_empty());
        for (word, value) in
            [("PERMITS", permits.as_ref()), ("OF", size.as_ref()), ("BLOCK", block.as_ref()), ("META", meta)]
        {
            words.extend(value.iter().flat_map(|value| [word.as_bytes(), value]));
        }
        connection.ask(&words).await.map(|reply| match reply {
            Frame::Integer(fence) => Some(HeldGrant(vec![fence])),
            Frame::Array(fences) => Some(HeldGrant(fences.iter().filter_map(integer).collect())),
            _ => None,
        })
    }

    /// Sets the TTL of the locks; returns the position of the first name that is not held as it was granted.
    ///
    /// # Errors
    /// If it is not known whether the locks are still held.
    pub(super) async fn renew(
        &self,
        connection: &mut LockConnection,
        grant: &HeldGrant,
        ttl_ms: u64,
    ) -> Result<Option<usize>, RequestError> {
        let (token, ttl) = (self.token.as_bytes(), ttl_ms.to_string());
        for name in &self.names {
            match self.dialect {
                LockDialect::Locks => connection.queue(&[b"LOCK.RENEW", name, token, b"PX", ttl.as_bytes()]),
                LockDialect::Scripts => {
                    connection.queue(&[b"EVAL", RENEW.as_bytes(), b"1", name, token, ttl.as_bytes()]);
                }
            }
        }
        let renewed = self.integers(connection).await?;
        Ok(renewed.iter().enumerate().position(|(at, reply)| match self.dialect {
            LockDialect::Locks => reply.is_none() || reply.as_ref() != grant.0.get(at),
            LockDialect::Scripts => *reply != Some(1),
        }))
    }

    /// Ends the hold: releases the locks, or sets their TTL if it is not 0. Borrowed locks stay. Returns the position of
    /// the first name that was not held.
    ///
    /// # Errors
    /// If it is not known whether all locks were released.
    pub(super) async fn end(
        &self,
        connection: &mut LockConnection,
        grant: &HeldGrant,
        rest_ms: u64,
    ) -> Result<Option<usize>, RequestError> {
        match rest_ms {
            _ if self.is_borrowed => Ok(self.look(connection, grant).await?.err()),
            0 => self.release(connection).await,
            rest_ms => self.renew(connection, grant, rest_ms).await,
        }
    }

    /// Releases the locks; returns the position of the first name that was not held with the token.
    ///
    /// # Errors
    /// If it is not known whether all were released.
    pub(super) async fn release(&self, connection: &mut LockConnection) -> Result<Option<usize>, RequestError> {
        self.queue_release(connection);
        Ok(self.integers(connection).await?.iter().position(|reply| *reply != Some(1)))
    }

    /// Waits for the reply to a request for each name: an integer or null.
    async fn integers(&self, connection: &mut LockConnection) -> Result<Vec<Option<i64>>, RequestError> {
        let replies = connection.replies(self.names.len()).await?;
        let read = |reply: &Frame| match reply {
            Frame::Error(text) => Err(RequestError::of_error(text)),
            reply => Ok(integer(reply)),
        };
        replies.iter().map(read).collect()
    }

    /// Queues the release behind the requests that were sent before.
    pub(super) fn queue_release(&self, connection: &mut LockConnection) {
        let token = self.token.as_bytes();
        for name in &self.names {
            match self.dialect {
                LockDialect::Locks => connection.queue(&[b"LOCK.RELEASE", name, token]),
                LockDialect::Scripts => connection.queue(&[b"EVAL", RELEASE.as_bytes(), b"1", name, token]),
            }
        }
    }

    /// Returns the position of a name and the reason, if a push reports the loss of this very lock.
    pub(super) fn loss(&self, push: &[Frame], grant: &HeldGrant) -> Option<(usize, Bytes)> {
        let [Frame::Bulk(kind), Frame::Bulk(name), Frame::Bulk(token), Frame::Integer(of), Frame::Bulk(reason)] = push
        else {
            return None;
        };
        let at = self.names.iter().position(|known| **known == **name)?;
        let is_ours = kind == "lock-lost" && **token == *self.token.as_bytes() && Some(of) == grant.0.get(at);
        is_ours.then(|| (at, reason.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_of_another_lock_of_the_same_name_is_none() {
        let names = vec![b"other".to_vec(), b"job".to_vec()];
        let claim = Claim::new(names, ClaimMode::Exclusive, 1000, Vec::new()).expect("a token");
        let loss = |token: &str, fence: i64| {
            let words = ["lock-lost", "job", token].map(|word| Frame::Bulk(Bytes::copy_from_slice(word.as_bytes())));
            let push = [&words[..], &[Frame::Integer(fence), Frame::Bulk(Bytes::from_static(b"deleted"))]].concat();
            claim.loss(&push, &HeldGrant(vec![4, 5]))
        };
        assert_eq!(loss(&claim.token, 5), Some((1, Bytes::from_static(b"deleted"))));
        assert_eq!((loss(&claim.token, 4), loss("other", 5)), (None, None));
    }
}
