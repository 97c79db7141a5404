//! The terms of a lock, and the commands that say them.

use std::time::Duration;

use redis::Cmd;

/// Parts of a TTL: the lock is renewed after one, and no reply is waited for longer than another.
const PARTS: u32 = 3;

/// What a server lacks that cannot change the mode of a lock.
pub(crate) const CANNOT_CONVERT: &str = "the server cannot change the mode of a lock";

/// Script that sets the TTL of a key that has the token as its value.
const RENEW: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";

/// Script that tells whether a key has the token as its value.
const LOOK: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0";

/// Script that deletes a key that has the token as its value.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    Permits(u32),
}

/// Commands that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `LOCK.*`.
    Locks,
    /// Those of Redis and Valkey: SET NX PX, and scripts.
    Scripts,
}

/// The terms on which a lock is acquired and held.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) token: String,
    pub(crate) mode: Mode,
    /// True if a lock that is held is to change its mode.
    pub(crate) converts: bool,
    /// True if it was to be shared and to have permits.
    pub(crate) has_two_modes: bool,
    pub(crate) size: Option<u32>,
    pub(crate) ttl: Duration,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) renew_for: Option<Duration>,
    pub(crate) meta: Option<String>,
    pub(crate) is_session: bool,
    pub(crate) owner: Option<String>,
}

impl Terms {
    pub(crate) fn new(names: Vec<Vec<u8>>) -> Self {
        Terms {
            names,
            token: String::new(),
            mode: Mode::Exclusive,
            converts: false,
            has_two_modes: false,
            size: None,
            ttl: Duration::from_secs(30),
            wait: None,
            renew_every: None,
            renew_for: None,
            meta: None,
            is_session: false,
            owner: None,
        }
    }

    /// Returns the terms on which a lock that is held on these changes its mode.
    pub(crate) fn converted(&self, mode: Mode, wait: Option<Duration>) -> Self {
        Terms { mode, converts: true, wait, ..self.clone() }
    }

    /// Returns what is wrong with the terms.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let is_exclusive = self.mode == Mode::Exclusive;
        match () {
            () if self.names.is_empty() => Some("a lock needs a name"),
            () if self.names.len() > 1 && !is_exclusive => Some("several locks at once are exclusive"),
            () if self.has_two_modes => Some("a lock is shared or has permits, not both"),
            () if self.size.is_some() && is_exclusive => Some("a size needs permits"),
            () if self.ttl < Duration::from_millis(1) => Some("the TTL has to be at least a millisecond"),
            () if self.renewal().is_zero() || self.renewal() >= self.ttl => {
                Some("a lock has to be renewed before its TTL is over")
            }
            () => None,
        }
    }

    /// Returns the time from one renewal to the next.
    pub(crate) fn renewal(&self) -> Duration {
        self.renew_every.unwrap_or(self.patience())
    }

    /// Returns how long a reply is waited for before the connection counts as stuck.
    pub(crate) fn patience(&self) -> Duration {
        self.ttl / PARTS
    }

    /// Returns the pause between two tries.
    pub(crate) fn pause(&self) -> Duration {
        (self.ttl / 10).min(Duration::from_millis(100))
    }

    /// Returns true if a server without `LOCK.*` can grant this.
    pub(crate) fn is_plain(&self) -> bool {
        self.names.len() == 1 && self.mode == Mode::Exclusive && !self.is_session && !self.converts
    }

    /// Says the name of what a server lacks that refuses these terms.
    pub(crate) fn lacked(&self) -> &'static str {
        match self.mode {
            _ if self.converts => CANNOT_CONVERT,
            _ if self.names.len() > 1 => "the server cannot lock several names at once",
            Mode::Shared => "the server has no shared locks",
            Mode::Permits(_) => "the server has no permits",
            Mode::Exclusive => "the server has no sessions",
        }
    }

    /// Returns the names as texts.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// Makes the command that acquires the lock, and waits for it in the queue. The same token again is safe: a lock that
    /// is held with it is granted again.
    pub(crate) fn acquire(&self, waited: Duration) -> Cmd {
        let mut cmd = self.opening(self.size);
        match self.wait {
            None => _ = cmd.arg("BLOCK").arg(0),
            Some(wait) => {
                let left = wait.saturating_sub(waited).as_millis();
                if left > 0 {
                    cmd.arg("BLOCK").arg(left.to_string());
                }
            }
        }
        if let Some(meta) = &self.meta {
            cmd.arg("META").arg(meta);
        }
        cmd
    }

    /// Makes the command that acquires a held lock again. The size of a semaphore may be another now.
    pub(crate) fn again(&self) -> Cmd {
        self.opening(None)
    }

    fn opening(&self, size: Option<u32>) -> Cmd {
        let mut cmd = Cmd::new();
        match &self.names[..] {
            [name] => cmd.arg("LOCK.ACQUIRE").arg(name),
            names => cmd.arg("LOCK.ACQUIREMULTI").arg(names.len()).arg(names),
        };
        cmd.arg(&self.token);
        match self.mode {
            Mode::Exclusive => {}
            Mode::Shared => _ = cmd.arg("SHARED"),
            Mode::Permits(count) => _ = cmd.arg("PERMITS").arg(count),
        }
        if self.converts {
            cmd.arg("CONVERT");
        }
        if let Some(size) = size {
            cmd.arg("OF").arg(size);
        }
        cmd.arg("PX").arg(self.ttl_ms()).arg("NOTIFY");
        if self.is_session {
            cmd.arg("SESSION");
        }
        cmd
    }

    /// Makes the command that takes the lock where there is no `LOCK.*`.
    pub(crate) fn set(&self) -> Cmd {
        let mut cmd = redis::cmd("SET");
        cmd.arg(&self.names[0]).arg(&self.token).arg("NX").arg("PX").arg(self.ttl_ms());
        cmd
    }

    /// Makes the command that renews one of the names.
    pub(crate) fn renew(&self, name: &[u8], dialect: Dialect) -> Cmd {
        let mut cmd = Cmd::new();
        match dialect {
            Dialect::Locks => cmd.arg("LOCK.RENEW").arg(name).arg(&self.token).arg("PX"),
            Dialect::Scripts => cmd.arg("EVAL").arg(RENEW).arg(1).arg(name).arg(&self.token),
        };
        cmd.arg(self.ttl_ms());
        cmd
    }

    /// Makes the command that tells whether one of the names is held, as `renew` does.
    pub(crate) fn look(&self, name: &[u8], dialect: Dialect) -> Cmd {
        let mut cmd = Cmd::new();
        match dialect {
            Dialect::Locks => cmd.arg("LOCK.FENCE").arg(name).arg(&self.token),
            Dialect::Scripts => cmd.arg("EVAL").arg(LOOK).arg(1).arg(name).arg(&self.token),
        };
        cmd
    }

    /// Makes the command that releases one of the names.
    pub(crate) fn release(&self, name: &[u8], dialect: Dialect) -> Cmd {
        let mut cmd = Cmd::new();
        match dialect {
            Dialect::Locks => cmd.arg("LOCK.RELEASE"),
            Dialect::Scripts => cmd.arg("EVAL").arg(RELEASE).arg(1),
        };
        cmd.arg(name).arg(&self.token);
        cmd
    }

    fn ttl_ms(&self) -> String {
        self.ttl.as_millis().to_string()
    }
}
