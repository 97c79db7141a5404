//! Failures, their meaning for the caller who wants the lock, and their exit statuses.

use crate::app::lock::shown::shown;

/// The exit statuses of this command itself: of `sysexits.h`, and one beyond, which no command returns by that table.
pub(super) mod exit {
    /// The options are wrong: `EX_USAGE`.
    pub(in crate::app::lock) const USAGE: u8 = 64;
    /// There is no server: `EX_UNAVAILABLE`.
    pub(in crate::app::lock) const UNAVAILABLE: u8 = 69;
    /// The system fails: `EX_OSERR`.
    pub(in crate::app::lock) const SYSTEM: u8 = 71;
    /// The server refuses: `EX_NOPERM`.
    pub(in crate::app::lock) const REFUSED: u8 = 77;
    /// The lock was lost.
    pub(in crate::app::lock) const LOST: u8 = 79;
    /// The command cannot be executed, as in shells.
    pub(in crate::app::lock) const NOT_EXECUTABLE: u8 = 126;
    /// There is no such command, as in shells.
    pub(in crate::app::lock) const NO_COMMAND: u8 = 127;
    /// Number that is added to that of the signal that has ended the command, as in shells.
    pub(in crate::app::lock) const SIGNAL: u8 = 128;
}

/// Error of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// There is no connection; a later attempt may succeed.
    Unreachable(String),
    /// The server does not serve now, because it loads or waits for its primary; a later attempt may succeed.
    Busy(String),
    /// The server knows no such command.
    UnknownCommand,
    /// The server replies with this error.
    Refused(Vec<u8>),
}

impl RequestError {
    /// Classifies an error of the server.
    pub(super) fn of_error(text: &[u8]) -> Self {
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let is_unknown = code == b"ERR" && text[3..].to_ascii_lowercase().starts_with(b" unknown command");
        match code {
            _ if is_unknown => RequestError::UnknownCommand,
            // A server that becomes a replica ends the waits of its clients so.
            b"UNBLOCKED" if text.windows(8).any(|words| words == b"instance") => RequestError::Busy(shown(text)),
            b"LOADING" | b"MASTERDOWN" | b"BUSY" | b"TRYAGAIN" | b"CLUSTERDOWN" => RequestError::Busy(shown(text)),
            _ => RequestError::Refused(text.to_vec()),
        }
    }
}

/// Failure to get the lock; no command has run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockFailure {
    /// Text for standard error.
    pub reason: String,
    /// Exit status; `None` for that of a lock that is held by another.
    pub status: Option<u8>,
}

impl LockFailure {
    /// Returns the failure of a server that cannot be used.
    pub(super) fn unavailable(reason: String) -> Self {
        LockFailure { reason, status: Some(exit::UNAVAILABLE) }
    }

    /// Returns the failure of a lock that is held by another.
    pub(super) fn held(reason: String) -> Self {
        LockFailure { reason, status: None }
    }

    /// Returns the failure of a system call.
    pub(super) fn of_system(reason: String) -> Self {
        LockFailure { reason, status: Some(exit::SYSTEM) }
    }

    /// Returns the failure of a refused request, in words that tell the user the remedy.
    pub(super) fn refused(text: &[u8], name: &[u8]) -> Self {
        let (name, error) = (shown(name), shown(text));
        let code = error.split(' ').next().unwrap_or_default();
        let refused = |reason: String| LockFailure { reason, status: Some(exit::REFUSED) };
        match code {
            "NOAUTH" => refused("the server wants a password: --pass, or REDISCLI_AUTH".into()),
            "WRONGPASS" => refused(format!("wrong user or password: {error}")),
            "NOPERM" => refused(format!("the user may not do this: {error}")),
            "WRONGTYPE" => refused(format!("{name} is no lock: the key holds data of another type")),
            "DEADLOCK" => LockFailure::held(format!("to wait for {name} would never end: {error}")),
            "UNBLOCKED" => LockFailure::held(format!("the wait for {name} was ended by CLIENT UNBLOCK")),
            "MOVED" | "ASK" => {
                let there = error.rsplit(' ').next().unwrap_or_default();
                LockFailure::unavailable(format!("{name} belongs to another server of the cluster: {there}"))
            }
            "READONLY" => LockFailure::unavailable("the server is a replica: connect to its primary".into()),
            "OOM" | "MISCONF" | "NOREPLICAS" => {
                LockFailure::unavailable(format!("the server takes no writes: {error}"))
            }
            _ => refused(format!("the server refuses: {error}")),
        }
    }

    /// Returns the failure for an error after which no other attempt is made.
    pub(super) fn of(error: RequestError, name: &[u8]) -> Self {
        match error {
            RequestError::Unreachable(reason) | RequestError::Busy(reason) => LockFailure::unavailable(reason),
            RequestError::UnknownCommand => LockFailure { reason: NO_LOCKS.into(), status: Some(exit::REFUSED) },
            RequestError::Refused(text) => LockFailure::refused(&text, name),
        }
    }
}

/// Reason for which locks cannot be shown.
const NO_LOCKS: &str = "the server has no LOCK commands: it cannot show its locks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_sorted_by_what_they_mean_for_the_lock() {
        let status = |text: &[u8]| match RequestError::of_error(text) {
            RequestError::Busy(_) => "busy".to_owned(),
            RequestError::UnknownCommand => "unknown".to_owned(),
            error => format!("{:?}", LockFailure::of(error, b"job").status),
        };
        for (text, expected) in [
            (&b"ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'a' "[..], "unknown"),
            (b"ERR Unknown command", "unknown"),
            (b"LOADING Redis is loading the dataset in memory", "busy"),
            (b"NOAUTH Authentication required.", "Some(77)"),
            (b"NOPERM User bob has no permissions", "Some(77)"),
            (b"WRONGTYPE Operation against a key", "Some(77)"),
            (b"MOVED 3999 127.0.0.1:6381", "Some(69)"),
            (b"UNBLOCKED client unblocked via CLIENT UNBLOCK", "None"),
            (b"UNBLOCKED force unblock from blocking operation, instance state changed", "busy"),
            (b"READONLY You can't write against a read only replica.", "Some(69)"),
            (b"DEADLOCK a held by client 1 waits for a held by client 1", "None"),
            (b"ERR", "Some(77)"),
            (b"", "Some(77)"),
        ] {
            assert_eq!(status(text), expected, "{}", text.escape_ascii());
        }
        let moved = LockFailure::refused(b"MOVED 3999 127.0.0.1:6381", b"job\x1b[2J");
        assert_eq!(moved.reason, r"job\u{1b}[2J belongs to another server of the cluster: 127.0.0.1:6381");
    }
}
