//! Reasons for which a namespace does not execute commands: too few replicas, a start after a crash, data that is being
//! loaded or cannot be saved, test mode, being private, a replica, a sentinel or a node of a cluster, data in etcd, CLIENT
//! PAUSE.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::client::pause::Pause;
use crate::config::Config;
use crate::time::clock::Now;

/// The settings ask for more replicas than there are.
pub(crate) const LACKS_REPLICAS: u32 = 1;
/// The server was started after a crash and may still serve no keys.
pub(crate) const RESTARTING: u32 = 1 << 1;
/// The server is in test mode, where a fault may be injected into any call.
pub(crate) const IN_TEST_MODE: u32 = 1 << 2;
/// The namespace is a private one, whose commands must not affect the process.
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
/// The server is a node of a cluster: the keys of a call are in one slot.
pub(crate) const IN_CLUSTER: u32 = 1 << 10;
/// The namespace is a node of a topology, whose keys may belong to other nodes.
pub(crate) const IN_TOPOLOGY: u32 = 1 << 11;
/// The namespace is a sentinel, which has no keys.
pub(crate) const IS_SENTINEL: u32 = 1 << 12;
/// The namespace reads and writes nothing, like a process that was suspended.
pub(crate) const IS_FROZEN: u32 = 1 << 13;
/// The namespace answers as another service or version does.
pub(crate) const HAS_PROFILE: u32 = 1 << 14;
/// Number of bits of the restrictions above.
pub(crate) const RESTRICTION_BITS: u32 = 15;

/// The reasons for which commands are rejected or paused, or may be.
#[derive(Default)]
pub struct Restrictions {
    /// See [`Restrictions::bits`].
    bits: AtomicU32,
    /// End of the grace time after a crash, in which no keys are served, in monotonic milliseconds.
    grace_until_ms: AtomicU64,
    /// CLIENT PAUSE.
    pub pause: Pause,
}

impl Restrictions {
    /// Creates the restrictions that settings ask for as long as the server runs.
    pub(super) fn by(config: &Config) -> Self {
        let restrictions = Restrictions::default();
        restrictions.set(IN_TEST_MODE, config.test_mode);
        restrictions.set(IN_CLUSTER, config.cluster_enabled);
        restrictions
    }

    /// Returns the reasons in the state of the server for which commands are rejected, or may be: a set of
    /// [`LACKS_REPLICAS`], [`RESTARTING`], [`IN_TEST_MODE`], [`IS_PRIVATE`], [`LOADING_DATA`], [`FAILS_TO_SAVE`],
    /// [`IS_READ_ONLY`], [`IS_STALE`], [`LOADING_BESIDE`], [`ON_ENGINE`], [`IN_CLUSTER`], [`IN_TOPOLOGY`], [`IS_SENTINEL`],
    /// [`IS_FROZEN`] and [`HAS_PROFILE`].
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.bits.load(Relaxed)
    }

    /// Returns true if writes are rejected because the settings ask for more replicas.
    #[inline]
    pub fn lacks_replicas(&self) -> bool {
        self.bits.load(Relaxed) & LACKS_REPLICAS != 0
    }

    /// Returns true if data is being loaded and no keys are served.
    pub(crate) fn is_loading(&self) -> bool {
        self.bits.load(Relaxed) & LOADING_DATA != 0
    }

    /// Returns true if data is being loaded beside the present data.
    pub(crate) fn is_loading_beside(&self) -> bool {
        self.bits.load(Relaxed) & LOADING_BESIDE != 0
    }

    /// Returns true if data is being loaded in either way.
    pub(crate) fn is_loading_anything(&self) -> bool {
        self.bits.load(Relaxed) & (LOADING_DATA | LOADING_BESIDE) != 0
    }

    /// Returns true if writes are rejected because data cannot be saved.
    pub(crate) fn fails_to_save(&self) -> bool {
        self.bits.load(Relaxed) & FAILS_TO_SAVE != 0
    }

    /// Returns true if writes of clients are rejected because this is a replica.
    pub(crate) fn is_read_only(&self) -> bool {
        self.bits.load(Relaxed) & IS_READ_ONLY != 0
    }

    /// Returns true if a replica shows no data because it has no link to its primary.
    pub(crate) fn is_stale(&self) -> bool {
        self.bits.load(Relaxed) & IS_STALE != 0
    }

    /// Returns true if the server is a node of a cluster.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.bits.load(Relaxed) & IN_CLUSTER != 0
    }

    /// Returns true if the namespace is a sentinel.
    pub(crate) fn is_sentinel(&self) -> bool {
        self.bits.load(Relaxed) & IS_SENTINEL != 0
    }

    /// Returns true if the namespace is a node of a cluster in this process.
    pub(crate) fn is_in_topology(&self) -> bool {
        self.bits.load(Relaxed) & IN_TOPOLOGY != 0
    }

    /// Returns true if the namespace neither reads nor writes.
    #[inline]
    pub(crate) fn is_frozen(&self) -> bool {
        self.bits.load(Relaxed) & IS_FROZEN != 0
    }

    /// Adds or removes a restriction; returns true if that is a change.
    pub(super) fn set(&self, restriction: u32, is_on: bool) -> bool {
        let before =
            if is_on { self.bits.fetch_or(restriction, Relaxed) } else { self.bits.fetch_and(!restriction, Relaxed) };
        (before & restriction != 0) != is_on
    }

    /// Serves no keys for `ms` milliseconds from `now` on, because the server has crashed before and clients may still
    /// believe that they hold its locks.
    pub fn begin_grace(&self, ms: u64, now: Now) {
        self.grace_until_ms.store(now.ms_later(ms), Relaxed);
        self.set(RESTARTING, true);
    }

    /// Returns the milliseconds for which no keys will be served yet; `None` if they are served.
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
