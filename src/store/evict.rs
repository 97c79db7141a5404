//! Eviction: the removal of keys when memory runs out.
//!
//! LRU, LRM and LFU are approximated as in Redis: a few keys are sampled, the best candidates of many samples are kept in a
//! pool, and the best of these is evicted. Two things differ from Redis. Candidates are scored again every time, and
//! one that was used since it entered the pool is skipped. `volatile-ttl` is not approximated: the index of deadlines
//! is exact.
//!
//! Invariant: a step removes no more keys than it was allowed to, and gives up when no key can be removed.

use std::sync::Arc;

use crate::store::cx::Cx;
use crate::store::expire::NEVER;
use crate::store::hold::GateGuard;
use crate::store::key::{Key, SHARDS, shard_of};
use crate::store::memory_account::MemoryAccount;
use crate::store::shard::Shard;
use crate::store::table::Hasher;
use crate::store::usage::{Dice, UsageRule};
use crate::time::clock::Now;

const POOL_MAX: usize = 16;
/// Limit of samplings in one eviction: other threads may use or remove all candidates meanwhile.
const ATTEMPTS_MAX: usize = 100;

/// The keys to evict, as set by `maxmemory-policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictionPolicy {
    /// The least recently used key with a TTL.
    VolatileLru,
    /// The least recently modified key with a TTL.
    VolatileLrm,
    /// The least frequently used key with a TTL.
    VolatileLfu,
    /// A random key with a TTL.
    VolatileRandom,
    /// The key with the nearest deadline.
    VolatileTtl,
    /// The least recently used key.
    AllkeysLru,
    /// The least recently modified key.
    AllkeysLrm,
    /// The least frequently used key.
    AllkeysLfu,
    /// A random key.
    AllkeysRandom,
    /// No key.
    #[default]
    Noeviction,
}

impl EvictionPolicy {
    /// The names of the policies, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &[
        "volatile-lru",
        "volatile-lrm",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
        "allkeys-lru",
        "allkeys-lrm",
        "allkeys-lfu",
        "allkeys-random",
        "noeviction",
    ];

    const ALL: [EvictionPolicy; 10] = [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLrm,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
        EvictionPolicy::AllkeysLru,
        EvictionPolicy::AllkeysLrm,
        EvictionPolicy::AllkeysLfu,
        EvictionPolicy::AllkeysRandom,
        EvictionPolicy::Noeviction,
    ];

    /// Returns the name of the policy.
    pub fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// Returns the policy with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }

    /// Returns true if the policy needs the time of the last change of keys.
    pub fn is_lrm(self) -> bool {
        matches!(self, EvictionPolicy::VolatileLrm | EvictionPolicy::AllkeysLrm)
    }

    /// Returns true if the policy needs the frequency of use of keys.
    pub fn is_lfu(self) -> bool {
        matches!(self, EvictionPolicy::VolatileLfu | EvictionPolicy::AllkeysLfu)
    }

    /// Returns true if the policy needs the usage of keys: their frequency, or their last use or change.
    pub(crate) fn needs_usage(self) -> bool {
        self.is_lfu() || self.is_lrm() || matches!(self, EvictionPolicy::VolatileLru | EvictionPolicy::AllkeysLru)
    }

    fn is_volatile(self) -> bool {
        matches!(
            self,
            EvictionPolicy::VolatileLru
                | EvictionPolicy::VolatileLrm
                | EvictionPolicy::VolatileLfu
                | EvictionPolicy::VolatileRandom
                | EvictionPolicy::VolatileTtl
        )
    }
}

/// The result of an attempt to free memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Memory usage is within the limit.
    Enough,
    /// Memory usage is still over the limit; call again.
    Unfinished,
    /// No key can be removed.
    None,
}

/// Evicts keys one at a time.
pub(crate) struct Evictor {
    policy: EvictionPolicy,
    samples: usize,
    pool: Vec<Candidate>,
    dice: Dice,
    hasher: Hasher,
}

/// A key that may be evicted.
struct Candidate {
    db: usize,
    hash: u64,
    key: Box<[u8]>,
    /// Usage of the key when it was sampled.
    usage: u32,
}

impl Evictor {
    /// Creates an evictor with the policy not to evict.
    pub(crate) fn new(hasher: Hasher) -> Self {
        let dice = Dice::new(hasher.hash_one("evictor"));
        Evictor { policy: EvictionPolicy::Noeviction, samples: 1, pool: Vec::new(), dice, hasher }
    }

    /// Sets the policy and the number of keys sampled per choice.
    pub(super) fn set_policy(&mut self, policy: EvictionPolicy, samples: usize) {
        self.pool.clear();
        (self.policy, self.samples) = (policy, samples);
    }

    /// Evicts keys, `max` at most, until no more than `goal` bytes are used.
    pub(super) fn evict_to(
        &mut self,
        goal: isize,
        hold: &mut GateGuard<'_>,
        memory_account: &Arc<MemoryAccount>,
        (cx, max): (&Cx, usize),
    ) -> Eviction {
        for _ in 0..max {
            if memory_account.held() <= goal {
                return Eviction::Enough;
            }
            if !self.evict_one(hold, memory_account, cx) {
                return Eviction::None;
            }
        }
        if memory_account.held() > goal { Eviction::Unfinished } else { Eviction::Enough }
    }

    /// Evicts one key; returns false if there is none to evict.
    fn evict_one(&mut self, hold: &mut GateGuard<'_>, memory_account: &Arc<MemoryAccount>, cx: &Cx) -> bool {
        match self.policy {
            EvictionPolicy::Noeviction => false,
            EvictionPolicy::VolatileTtl => self.evict_nearest_ttl(hold, cx),
            EvictionPolicy::VolatileRandom | EvictionPolicy::AllkeysRandom => self.evict_any(hold, cx),
            _ => self.evict_least_used(hold, memory_account.rule(), cx),
        }
    }

    fn evict_least_used(&mut self, hold: &mut GateGuard<'_>, rule: UsageRule, cx: &Cx) -> bool {
        for _ in 0..ATTEMPTS_MAX {
            let mut looked_at = 0;
            for db in hold.used() {
                looked_at += self.sample_candidates(hold, db, rule, cx.now);
            }
            if looked_at == 0 {
                self.pool.clear();
                return false;
            }
            while let Some(candidate) = self.best_candidate(rule, cx.now) {
                let Candidate { db, hash, key, usage } = candidate;
                let key = Key { bytes: &key, hash };
                if hold.change_shard((db, shard_of(hash)), cx, |shard, cx| shard.evict(key, Some(usage), cx))
                    == Some(true)
                {
                    return true;
                }
            }
        }
        false
    }

    /// Samples a few keys of a database and keeps the good candidates; returns the number of keys sampled.
    fn sample_candidates(&mut self, hold: &mut GateGuard<'_>, db: usize, rule: UsageRule, now: Now) -> usize {
        let Evictor { samples, pool, dice, hasher, policy } = self;
        let (first, mut found) = (dice.below(SHARDS), 0);
        for index in (first..SHARDS).chain(0..first) {
            let rest = *samples - found.min(*samples);
            let look = |entry: &crate::store::entry::Entry| {
                let worst_candidate = worst_candidate(pool, rule, now);
                let is_better = |(_, least)| rule.eviction_score(entry.usage(), now) > least;
                if pool.len() >= POOL_MAX && !worst_candidate.is_some_and(is_better) {
                    return;
                }
                let hash = hasher.hash_one(entry.key());
                if pool.iter().any(|other| other.hash == hash && other.db == db) {
                    return;
                }
                if let Some((worst_candidate, _)) = worst_candidate.filter(|_| pool.len() >= POOL_MAX) {
                    pool.swap_remove(worst_candidate);
                }
                pool.push(Candidate { db, hash, key: entry.key().into(), usage: entry.usage() });
            };
            match hold.with_shard(db, index, |shard| shard.sample(rest, policy.is_volatile(), look)) {
                Some(looked_at) => found += looked_at,
                None => break,
            }
            if found >= *samples {
                break;
            }
        }
        found
    }

    fn best_candidate(&mut self, rule: UsageRule, now: Now) -> Option<Candidate> {
        let judged = self.pool.iter().enumerate();
        let best = judged.max_by_key(|(_, candidate)| rule.eviction_score(candidate.usage, now))?.0;
        Some(self.pool.swap_remove(best))
    }

    /// Evicts a random key of a random database; Redis takes the databases in turn.
    fn evict_any(&mut self, hold: &mut GateGuard<'_>, cx: &Cx) -> bool {
        let used = hold.used();
        let (volatile, first_shard) = (self.policy.is_volatile(), self.dice.below(SHARDS));
        let first = if used.is_empty() { 0 } else { self.dice.below(used.len()) };
        for step in 0..used.len() * SHARDS {
            let (db, index) = (used[(first + step / SHARDS) % used.len()], (first_shard + step) % SHARDS);
            let mut keys: Vec<Box<[u8]>> = Vec::new();
            hold.with_shard(db, index, |shard| shard.sample(1, volatile, |entry| keys.push(entry.key().into())));
            if keys.is_empty() {
                continue;
            }
            let bytes = keys.swap_remove(self.dice.below(keys.len()));
            let key = Key { bytes: &bytes, hash: self.hasher.hash_one(&bytes[..]) };
            if hold.change_shard((db, index), cx, |shard, cx| shard.evict(key, None, cx)) == Some(true) {
                return true;
            }
        }
        false
    }

    /// Evicts the key with the nearest deadline.
    fn evict_nearest_ttl(&mut self, hold: &mut GateGuard<'_>, cx: &Cx) -> bool {
        loop {
            let mut first = (NEVER, 0, 0);
            for db in hold.used() {
                for index in 0..SHARDS {
                    match hold.with_shard(db, index, |shard| shard.earliest(cx.now)) {
                        Some(at_ms) => first = first.min((at_ms, db, index)),
                        None => break,
                    }
                }
            }
            let (at_ms, db, index) = first;
            if at_ms == NEVER {
                return false;
            }
            let hasher = &self.hasher;
            let evicted = hold.change_shard((db, index), cx, |shard, cx| {
                let found = shard.nearest_ttl(cx.now);
                found.is_some_and(|bytes| {
                    shard.evict(Key { bytes: &bytes, hash: hasher.hash_one(&bytes[..]) }, None, cx)
                })
            });
            // A bound that was too early was corrected, so the loop terminates.
            if evicted == Some(true) {
                return true;
            }
        }
    }
}

/// Forgets the fences of removed keys; returns true if there were any.
pub(super) fn forget_retired_fences(hold: &mut GateGuard<'_>) -> bool {
    let mut has_any = false;
    for db in hold.used() {
        for index in 0..SHARDS {
            has_any |= hold.with_shard(db, index, Shard::forget_retired_fences) == Some(true);
        }
    }
    has_any
}

/// Finds the worst candidate for eviction, with its score.
fn worst_candidate(pool: &[Candidate], rule: UsageRule, now: Now) -> Option<(usize, u32)> {
    let judged = pool.iter().map(|candidate| rule.eviction_score(candidate.usage, now));
    judged.enumerate().min_by_key(|(_, score)| *score)
}
