//! Requests of the model's clients, and interpretation of the replies.

use crate::engine::model::history::{HistoryAction, Told};
use crate::engine::model::ledger::{LOCK, OTHER_LOCK};

/// The key that is no lock.
const NUMBER: &str = "n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelKey {
    /// A number.
    Number,
    /// A lock, whose values are tokens.
    Lock,
}

impl ModelKey {
    pub(super) fn name(self) -> &'static str {
        match self {
            ModelKey::Number => NUMBER,
            ModelKey::Lock => LOCK,
        }
    }
}

/// The use that the clients of a world make of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockUse {
    /// One client holds the lock at a time.
    Exclusive,
    /// Readers share the lock, and holders convert it.
    Shared,
    /// The lock is a semaphore.
    Permits,
    /// Clients acquire two locks at once.
    Several,
}

/// Number of permits of the semaphore.
const PERMITS: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelRequest {
    Get(ModelKey),
    SetNx(ModelKey, i64),
    GetSet(ModelKey, i64),
    Del(ModelKey),
    Incr(ModelKey),
    FlushAll,
    /// SET with NX and PX, of the lock.
    SetNxPx(i64, u64),
    /// LOCK.ACQUIRE with PX, and BLOCK if there is a timeout.
    Acquire(i64, u64, Option<u64>),
    /// LOCK.ACQUIRE with SHARED, PX and BLOCK 0.
    AcquireShared(i64, u64),
    /// LOCK.ACQUIRE with SESSION and BLOCK 0.
    AcquireSession(i64),
    /// LOCK.ACQUIRE with CONVERT, with SHARED if true, PX and BLOCK 0.
    Convert(i64, bool, u64),
    /// LOCK.ACQUIRE with this number of PERMITS, PX and BLOCK 0.
    AcquirePermits(i64, u32, u64),
    /// LOCK.ACQUIREMULTI of both locks with PX and BLOCK 0.
    AcquireBoth(i64, u64),
    /// LOCK.ACQUIRE of the other lock with PX and BLOCK 0.
    AcquireOther(i64, u64),
    /// LOCK.RELEASE, unless the client has been told that it has not got the lock.
    Release(i64),
    /// The same of the other lock.
    ReleaseOther(i64),
    /// The connection closes, even while a request is in flight.
    Close,
}

impl ModelRequest {
    pub(super) fn words(self) -> Vec<String> {
        let text = match self {
            ModelRequest::Get(key) => format!("GET {}", key.name()),
            ModelRequest::SetNx(key, value) => format!("SETNX {} {value}", key.name()),
            ModelRequest::GetSet(key, value) => format!("GETSET {} {value}", key.name()),
            ModelRequest::Del(key) => format!("DEL {}", key.name()),
            ModelRequest::Incr(key) => format!("INCR {}", key.name()),
            ModelRequest::FlushAll => "FLUSHALL".to_owned(),
            ModelRequest::SetNxPx(token, ms) => format!("SET {LOCK} {token} NX PX {ms}"),
            ModelRequest::Acquire(token, ms, None) => format!("LOCK.ACQUIRE {LOCK} {token} PX {ms}"),
            ModelRequest::Acquire(token, ms, Some(block)) => {
                format!("LOCK.ACQUIRE {LOCK} {token} PX {ms} BLOCK {block}")
            }
            ModelRequest::AcquireShared(token, ms) => format!("LOCK.ACQUIRE {LOCK} {token} SHARED PX {ms} BLOCK 0"),
            ModelRequest::AcquireSession(token) => format!("LOCK.ACQUIRE {LOCK} {token} SESSION BLOCK 0"),
            ModelRequest::Convert(token, true, ms) => format!("LOCK.ACQUIRE {LOCK} {token} SHARED CONVERT PX {ms}"),
            ModelRequest::Convert(token, false, ms) => format!("LOCK.ACQUIRE {LOCK} {token} CONVERT PX {ms} BLOCK 0"),
            ModelRequest::AcquirePermits(token, count, ms) => {
                format!("LOCK.ACQUIRE {LOCK} {token} PERMITS {count} OF {PERMITS} PX {ms} BLOCK 0")
            }
            ModelRequest::AcquireBoth(token, ms) => {
                format!("LOCK.ACQUIREMULTI 2 {LOCK} {OTHER_LOCK} {token} PX {ms} BLOCK 0")
            }
            ModelRequest::AcquireOther(token, ms) => format!("LOCK.ACQUIRE {OTHER_LOCK} {token} PX {ms} BLOCK 0"),
            ModelRequest::Release(token) => format!("LOCK.RELEASE {LOCK} {token}"),
            ModelRequest::ReleaseOther(token) => format!("LOCK.RELEASE {OTHER_LOCK} {token}"),
            ModelRequest::Close => String::new(),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// Returns the key, of two the lock, and the operation on it.
    pub(super) fn action(self) -> Option<(ModelKey, HistoryAction)> {
        Some(match self {
            ModelRequest::Get(key) => (key, HistoryAction::Get),
            ModelRequest::SetNx(key, value) => (key, HistoryAction::SetNx(value)),
            ModelRequest::GetSet(key, value) => (key, HistoryAction::GetSet(value)),
            ModelRequest::Del(key) => (key, HistoryAction::Del),
            ModelRequest::Incr(key) => (key, HistoryAction::Incr),
            ModelRequest::FlushAll => (ModelKey::Lock, HistoryAction::Flush),
            ModelRequest::SetNxPx(token, _) => (ModelKey::Lock, HistoryAction::SetNxPx(token)),
            ModelRequest::Release(token) | ModelRequest::ReleaseOther(token) => {
                (ModelKey::Lock, HistoryAction::Release(token))
            }
            ModelRequest::Close => return None,
            acquisition => (ModelKey::Lock, HistoryAction::Take(acquisition.acquires()?)),
        })
    }

    /// Returns the token with which the request asks for the lock.
    pub(super) fn token(self) -> Option<i64> {
        match self {
            ModelRequest::SetNx(ModelKey::Lock, token) | ModelRequest::SetNxPx(token, _) => Some(token),
            acquisition => acquisition.acquires(),
        }
    }

    /// Returns the locks that the request is about.
    pub(super) fn locks(self) -> &'static [&'static str] {
        match self {
            ModelRequest::AcquireBoth(..) => &[LOCK, OTHER_LOCK],
            ModelRequest::AcquireOther(..) | ModelRequest::ReleaseOther(_) => &[OTHER_LOCK],
            _ => &[LOCK],
        }
    }

    /// Returns false if the request makes a lock one that several clients hold, or is about several locks.
    pub(super) fn is_exclusive(self) -> bool {
        let is_one = matches!(self, ModelRequest::Acquire(..) | ModelRequest::AcquireSession(_));
        is_one || self.acquires().is_none()
    }

    /// Returns true if the client has the lock already, and keeps it if the request fails.
    pub(super) fn is_conversion(self) -> bool {
        matches!(self, ModelRequest::Convert(..))
    }

    /// Returns true if the client may be queued.
    pub(super) fn may_queue(self) -> bool {
        let waits_not = matches!(self, ModelRequest::Acquire(_, _, None) | ModelRequest::Convert(_, true, _));
        self.acquires().is_some() && !waits_not
    }

    /// Returns the token, if this is a lock command, which gives back a lock that its client does not learn of.
    pub(super) fn acquires(self) -> Option<i64> {
        match self {
            ModelRequest::Acquire(token, ..)
            | ModelRequest::AcquireShared(token, _)
            | ModelRequest::AcquireSession(token)
            | ModelRequest::Convert(token, ..)
            | ModelRequest::AcquirePermits(token, ..)
            | ModelRequest::AcquireBoth(token, _)
            | ModelRequest::AcquireOther(token, _) => Some(token),
            _ => None,
        }
    }

    /// Returns true for an error after which it is unknown whether the request was executed, or has given back the
    /// lock.
    pub(super) fn is_known_error(reply: &str) -> bool {
        ["-UNCERTAIN ", "-UNBLOCKED ", "-DEADLOCK "].iter().any(|code| reply.starts_with(code))
    }

    /// Interprets a reply; `None` for an error.
    pub(super) fn told(self, reply: &str) -> Option<Told> {
        let number = |text: &str| text.parse::<i64>().ok();
        match reply.split_at_checked(1)? {
            ("+", _) => Some(Told::Ok),
            ("$", "-1") => Some(Told::Null),
            ("*", "-1") => Some(Told::Null),
            ("*", _) => Some(Told::Fence),
            ("$", rest) => match rest.split_once(' ')?.1 {
                "shared:" | "permits:3" => Some(Told::Value(i64::MAX)), // the value of no request
                value => number(value).map(Told::Value),
            },
            (":", _) if self.acquires().is_some() => Some(Told::Fence),
            (":", rest) => number(rest).map(Told::Number),
            _ => None,
        }
    }
}
