//! Locks of an enclosing `keylatch lock`: this one holds them with the same token, and leaves their renewal and their
//! release to the enclosing one.

use crate::app::lock::claim::{Claim, HeldGrant, LockDialect};
use crate::app::lock::connection::{LockConnection, field, integer};
use crate::app::lock::failure::RequestError;
use crate::app::lock::options::ClaimMode;
use crate::resp::Frame;

/// A lock that is held with the token of the enclosing `keylatch lock`.
struct EnclosingHold {
    /// The fence, where the server has fences.
    fence: Option<i64>,
    /// Remaining TTL, in milliseconds, if the server reports it.
    ttl_ms: Option<u64>,
    /// True if the hold includes the one that is requested.
    is_enough: bool,
}

impl Claim {
    /// Takes the locks as those of the enclosing `keylatch lock`, if they are held with its token.
    ///
    /// # Errors
    /// If the server does not tell, or a wait for the locks would never end.
    pub(super) async fn borrow(
        &mut self,
        connection: &mut LockConnection,
        token: &str,
    ) -> Result<Option<HeldGrant>, RequestError> {
        let holds = self.holds(connection, token).await?;
        if holds.iter().all(Option::is_none) {
            return Ok(None);
        }
        if !holds.iter().all(|hold| hold.as_ref().is_some_and(|hold| hold.is_enough)) {
            return Err(RequestError::Refused(PARTLY_HELD.to_vec()));
        }
        (self.token, self.is_borrowed) = (token.to_owned(), true);
        Ok(Some(HeldGrant(holds.iter().flatten().filter_map(|hold| hold.fence).collect())))
    }

    /// Returns the position of the first borrowed lock that is not held as it was granted, or else the shortest TTL.
    ///
    /// # Errors
    /// If the server does not tell.
    pub(super) async fn look(
        &self,
        connection: &mut LockConnection,
        HeldGrant(fences): &HeldGrant,
    ) -> Result<Result<u64, usize>, RequestError> {
        let holds = self.holds(connection, &self.token).await?;
        let is_gone = |(at, hold): (usize, &Option<EnclosingHold>)| {
            hold.as_ref().is_none_or(|hold| hold.fence.as_ref() != fences.get(at))
        };
        Ok(match holds.iter().enumerate().position(is_gone) {
            Some(at) => Err(at),
            None => Ok(holds.iter().flatten().filter_map(|hold| hold.ttl_ms).fold(self.ttl_ms, u64::min)),
        })
    }

    /// Asks which of the locks are held with a token.
    async fn holds(
        &self,
        connection: &mut LockConnection,
        token: &str,
    ) -> Result<Vec<Option<EnclosingHold>>, RequestError> {
        let command = if self.dialect == LockDialect::Locks { &b"LOCK.INFO"[..] } else { b"GET" };
        self.names.iter().for_each(|name| connection.queue(&[command, name]));
        let replies = connection.replies(self.names.len()).await?;
        let is_ours = |value: Option<&Frame>| value.and_then(Frame::as_bytes) == Some(token.as_bytes());
        let read = |reply: &Frame| match reply {
            Frame::Error(text) => Err(RequestError::of_error(text)),
            value if is_ours(Some(value)) => Ok(Some(EnclosingHold { fence: None, ttl_ms: None, is_enough: true })),
            info => {
                let Some(Frame::Array(holders)) = field(info, "holders") else { return Ok(None) };
                let holder = holders.iter().find(|holder| is_ours(field(holder, "token")));
                Ok(holder.map(|holder| self.hold(info, holder)))
            }
        };
        replies.iter().map(read).collect()
    }

    /// Reads a holder of LOCK.INFO.
    fn hold(&self, info: &Frame, holder: &Frame) -> EnclosingHold {
        let number = |name: &str| field(holder, name).and_then(integer);
        let is_enough = match (field(info, "mode").and_then(Frame::as_bytes), self.mode) {
            (Some(b"shared"), mode) => mode == ClaimMode::Shared,
            (Some(b"permits"), ClaimMode::Permits(permits, _)) => number("permits") >= Some(permits.into()),
            (Some(b"permits"), _) => false,
            _ => true,
        };
        let ttl_ms = number("pttl").and_then(|ttl_ms| u64::try_from(ttl_ms).ok());
        EnclosingHold { fence: number("fence"), ttl_ms, is_enough }
    }
}

/// Refusal of a request for which the enclosing `keylatch lock` holds too little.
const PARTLY_HELD: &[u8] = b"DEADLOCK the enclosing keylatch lock holds a part of it, or in another mode";
