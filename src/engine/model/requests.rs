//! Requests of the model's clients, and interpretation of the replies.

use crate::engine::model::history::{Action, Told};
use crate::engine::model::ledger::LOCK;

/// The key that is no lock.
const NUMBER: &str = "n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A number.
    Number,
    /// A lock, whose values are tokens.
    Lock,
}

impl Key {
    pub(super) fn name(self) -> &'static str {
        match self {
            Key::Number => NUMBER,
            Key::Lock => LOCK,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Get(Key),
    SetNx(Key, i64),
    GetSet(Key, i64),
    Del(Key),
    Incr(Key),
    /// SET with NX and PX, of the lock.
    SetNxPx(i64, u64),
    /// LOCK.ACQUIRE with PX, and BLOCK if there is a timeout.
    Acquire(i64, u64, Option<u64>),
    /// LOCK.ACQUIRE with SESSION and BLOCK 0.
    AcquireSession(i64),
    /// LOCK.RELEASE, unless the client has been told that it has not got the lock.
    Release(i64),
    /// The connection closes, even while a request is in flight.
    Close,
}

impl Request {
    pub(super) fn words(self) -> Vec<String> {
        let text = match self {
            Request::Get(key) => format!("GET {}", key.name()),
            Request::SetNx(key, value) => format!("SETNX {} {value}", key.name()),
            Request::GetSet(key, value) => format!("GETSET {} {value}", key.name()),
            Request::Del(key) => format!("DEL {}", key.name()),
            Request::Incr(key) => format!("INCR {}", key.name()),
            Request::SetNxPx(token, ms) => format!("SET {LOCK} {token} NX PX {ms}"),
            Request::Acquire(token, ms, None) => format!("LOCK.ACQUIRE {LOCK} {token} PX {ms}"),
            Request::Acquire(token, ms, Some(block)) => format!("LOCK.ACQUIRE {LOCK} {token} PX {ms} BLOCK {block}"),
            Request::AcquireSession(token) => format!("LOCK.ACQUIRE {LOCK} {token} SESSION BLOCK 0"),
            Request::Release(token) => format!("LOCK.RELEASE {LOCK} {token}"),
            Request::Close => String::new(),
        };
        text.split(' ').map(str::to_owned).collect()
    }

    /// Returns the key and the operation on it.
    pub(super) fn action(self) -> Option<(Key, Action)> {
        Some(match self {
            Request::Get(key) => (key, Action::Get),
            Request::SetNx(key, value) => (key, Action::SetNx(value)),
            Request::GetSet(key, value) => (key, Action::GetSet(value)),
            Request::Del(key) => (key, Action::Del),
            Request::Incr(key) => (key, Action::Incr),
            Request::SetNxPx(token, _) => (Key::Lock, Action::SetNxPx(token)),
            Request::Acquire(token, ..) | Request::AcquireSession(token) => (Key::Lock, Action::Take(token)),
            Request::Release(token) => (Key::Lock, Action::Release(token)),
            Request::Close => return None,
        })
    }

    /// Returns the token with which the request asks for the lock.
    pub(super) fn token(self) -> Option<i64> {
        match self {
            Request::SetNx(Key::Lock, token)
            | Request::SetNxPx(token, _)
            | Request::Acquire(token, ..)
            | Request::AcquireSession(token) => Some(token),
            _ => None,
        }
    }

    /// Returns true if the client may be queued.
    pub(super) fn may_queue(self) -> bool {
        matches!(self, Request::Acquire(_, _, Some(_)) | Request::AcquireSession(_))
    }

    /// Returns the token, if this is a lock command, which gives back a lock that its client does not learn of.
    pub(super) fn acquires(self) -> Option<i64> {
        self.token().filter(|_| matches!(self, Request::Acquire(..) | Request::AcquireSession(_)))
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
            ("$", rest) => number(rest.split_once(' ')?.1).map(Told::Value),
            (":", _) if self.acquires().is_some() => Some(Told::Fence),
            (":", rest) => number(rest).map(Told::Number),
            _ => None,
        }
    }
}
