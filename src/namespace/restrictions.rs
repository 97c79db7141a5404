//! What keeps a namespace from executing commands: too few replicas, a start after a crash, data that is being loaded or
//! cannot be saved, test mode, being private or a replica, data in a cluster, CLIENT PAUSE.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::client::pause::Pause;
use crate::time::clock::Now;

/// The settings ask for more replicas than there are.
pub(crate) const LACKS_REPLICAS: u32 = 1;
/// The server has begun after a crash and may still serve no keys.
pub(crate) const RESTARTING: u32 = 1 << 1;
/// The server is in test mode, where a fault may be injected into any call.
pub(crate) const IN_TEST_MODE: u32 = 1 << 2;
/// The namespace is a private one, of which the process is not a part.
pub(crate) const IS_PRIVATE: u32 = 1 << 3;
/// Data is being loaded: no keys are served.
pub(crate) const LOADING_DATA: u32 = 1 << 4;
/// Data cannot be saved: no keys are changed.
pub(crate) const FAILS_TO_SAVE: u32 = 1 << 5;
/// The namespace is a replica that takes no writes of clients.
pub(crate) const IS_READ_ONLY: u32 = 1 << 6;
/// The namespace is a replica without a link to its primary, whose data may be too old to be shown.
pub(crate) const IS_STALE: u32 = 1 << 7;
/// Data is being loaded beside the present data, which is served meanwhile.
pub(crate) const LOADING_BESIDE: u32 = 1 << 8;
/// The data is in a cluster, where an engine reads and changes it.
pub(crate) const ON_ENGINE: u32 = 1 << 9;
/// How many bits the restrictions above may have.
pub(crate) const RESTRICTION_BITS: u32 = 10;

/// Why commands are rejected or paused, or may be.
#[derive(Default)]
pub struct Restrictions {
    /// See [`Restrictions::bits`].
    bits: AtomicU32,
    /// Until when a start after a crash serves no keys, in monotonic milliseconds.
    grace_until_ms: AtomicU64,
    /// CLIENT PAUSE.
    pub pause: Pause,
}

impl Restrictions {
    /// Returns why commands are rejected, or may be, because of the state of the server: a set of [`LACKS_REPLICAS`],
    /// [`RESTARTING`], [`IN_TEST_MODE`], [`IS_PRIVATE`], [`LOADING_DATA`], [`FAILS_TO_SAVE`], [`IS_READ_ONLY`],
    /// [`IS_STALE`], [`LOADING_BESIDE`] and [`ON_ENGINE`].
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.bits.load(Relaxed)
    }

    /// Returns whether writes are rejected because the settings ask for replicas.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.bits.load(Relaxed) & LACKS_REPLICAS != 0
    }

    /// Returns whether data is being loaded and no keys are served.
    pub(crate) fn is_loading(&self) -> bool {
        self.bits.load(Relaxed) & LOADING_DATA != 0
    }

    /// Returns whether data is being loaded beside the present data.
    pub(crate) fn is_loading_beside(&self) -> bool {
        self.bits.load(Relaxed) & LOADING_BESIDE != 0
    }

    /// Returns whether data is being loaded, whatever is served meanwhile.
    pub(crate) fn is_loading_anything(&self) -> bool {
        self.bits.load(Relaxed) & (LOADING_DATA | LOADING_BESIDE) != 0
    }

    /// Returns whether writes are rejected because data cannot be saved.
    pub(crate) fn fails_to_save(&self) -> bool {
        self.bits.load(Relaxed) & FAILS_TO_SAVE != 0
    }

    /// Returns whether writes of clients are rejected because this is a replica.
    pub(crate) fn is_read_only(&self) -> bool {
        self.bits.load(Relaxed) & IS_READ_ONLY != 0
    }

    /// Returns whether a replica shows no data because it has no link to its primary.
    pub(crate) fn is_stale(&self) -> bool {
        self.bits.load(Relaxed) & IS_STALE != 0
    }

    /// Adds or removes a restriction; returns whether that is a change.
    pub(super) fn set(&self, restriction: u32, is_on: bool) -> bool {
        let before = match is_on {
            true => self.bits.fetch_or(restriction, Relaxed),
            false => self.bits.fetch_and(!restriction, Relaxed),
        };
        (before & restriction != 0) != is_on
    }

    /// Serves no keys from `now` on for a time, in milliseconds, because the server has crashed before and its locks may
    /// still be believed to be held.
    pub fn begin_grace(&self, ms: u64, now: Now) {
        self.grace_until_ms.store(now.ms_later(ms), Relaxed);
        self.set(RESTARTING, true);
    }

    /// Returns for how many milliseconds no keys will be served yet; `None` when they are.
    pub fn grace_left_ms(&self, now: Now) -> Option<u64> {
        if self.bits.load(Relaxed) & RESTARTING == 0 {
            return None;
        }
        let left_ms = self.grace_until_ms.load(Relaxed).checked_sub(now.mono_ms()).filter(|left_ms| *left_ms > 0);
        if left_ms.is_none() {
            self.set(RESTARTING, false);
        }
        left_ms
    }
}
