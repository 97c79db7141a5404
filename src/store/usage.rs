//! The usage of a key: the time of its last use or the frequency of its use, in 24 bits of its entry.
//!
//! Without an LFU policy, the bits are the time of the last use, in ticks of a coarse clock: `OBJECT IDLETIME` reports
//! it and LRU policies compare it. With an LRM policy, they are the time of the last change. With an LFU policy, they are the frequency: a counter of eight bits that rises with
//! falling probability and falls with time, and, in sixteen bits, the minute of its last update.
//!
//! Both clocks are monotonic and wrap around: ticks after 38 days, minutes after 45. Entries do not record the rule by
//! which their bits were written, so after a change of the policy the bits are meaningless until keys are used again,
//! as in Redis.

use crate::time::clock::Now;

/// Number of bits of a usage.
const BITS: u32 = 24;
const MASK: u32 = (1 << BITS) - 1;
/// Length of a tick, in milliseconds. A second, as in Redis, is too long to order the keys of a small and busy cache.
const TICK_MS: u64 = 200;

const COUNT_BITS: u32 = 8;
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;
const MINUTES_MASK: u32 = MASK >> COUNT_BITS;
const MINUTE_MS: u64 = 60_000;
/// Count of a new key; with 0 it would be the first to be evicted.
const FIRST_COUNT: u32 = 5;

/// The rule by which the usage of keys is recorded. Packed, because it is read at every look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageRule(u64);

impl UsageRule {
    /// Rule that records the time of the last use.
    pub const RECENCY: UsageRule = UsageRule(0);

    /// Rule that records the time of the last change.
    pub const MODIFICATION: UsageRule = UsageRule(1 << 62);

    const COUNTS: u64 = 1 << 63;
    const HALF: u32 = 31;

    /// Returns a rule that records the frequency of use; `factor` slows the counter down, and every `decay_minutes`
    /// without use lower it by one.
    pub fn frequency(factor: u32, decay_minutes: u32) -> Self {
        let half = |number: u32| u64::from(number) & ((1 << Self::HALF) - 1);
        UsageRule(Self::COUNTS | half(factor) << Self::HALF | half(decay_minutes))
    }

    /// Returns the rule that [`UsageRule::to_bits`] was called on.
    pub fn from_bits(bits: u64) -> Self {
        UsageRule(bits)
    }

    /// Returns the rule as a number.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns true if the frequency of use is recorded.
    #[inline]
    pub fn counts(self) -> bool {
        self.0 & Self::COUNTS != 0
    }

    /// Returns true if the time of the last change is recorded, so that a use is not.
    #[inline]
    pub fn is_of_changes(self) -> bool {
        self == UsageRule::MODIFICATION
    }

    /// Returns the usage of a new key, or with the rule of changes, of a key that is changed now.
    #[inline]
    pub fn fresh(self, now: Now) -> u32 {
        if self.counts() { minutes(now) << COUNT_BITS | FIRST_COUNT } else { ticks(now) }
    }

    /// Returns the new usage of a key that had `usage` and is used now.
    #[inline]
    pub fn used(self, usage: u32, now: Now, dice: &mut Dice) -> u32 {
        match self {
            UsageRule::MODIFICATION => usage,
            _ if self.counts() => self.counted(usage, now, dice),
            _ => ticks(now),
        }
    }

    fn counted(self, usage: u32, now: Now, dice: &mut Dice) -> u32 {
        let count = self.count(usage, now);
        let factor = self.0 >> Self::HALF & ((1 << Self::HALF) - 1);
        // The counter rises with probability 1/`chance`.
        let chance = u64::from(count.saturating_sub(FIRST_COUNT)) * factor + 1;
        let rises = count < COUNT_MAX && dice.roll() < (1 << 32) / chance;
        minutes(now) << COUNT_BITS | (count + u32::from(rises))
    }

    /// Returns the frequency of a key's use, on a logarithmic scale up to 255.
    pub fn count(self, usage: u32, now: Now) -> u32 {
        let decay_minutes = self.0 & ((1 << Self::HALF) - 1);
        let elapsed = minutes(now).wrapping_sub(usage >> COUNT_BITS) & MINUTES_MASK;
        let periods = u64::from(elapsed).checked_div(decay_minutes).unwrap_or(0);
        (usage & COUNT_MAX).saturating_sub(periods as u32)
    }

    /// Returns the score by which keys are evicted, the highest first; comparable among keys at the same time.
    pub fn eviction_score(self, usage: u32, now: Now) -> u32 {
        if self.counts() {
            let elapsed = minutes(now).wrapping_sub(usage >> COUNT_BITS) & MINUTES_MASK;
            (COUNT_MAX - self.count(usage, now)) << (BITS - COUNT_BITS) | elapsed
        } else {
            ticks(now).wrapping_sub(usage) & MASK
        }
    }
}

/// Returns the number of seconds since the last use of a key, or its last change with the rule of changes.
pub(crate) fn idle_s(usage: u32, now: Now) -> u64 {
    u64::from(ticks(now).wrapping_sub(usage) & MASK) * TICK_MS / 1000
}

/// Returns the second of the last use, counted from an arbitrary origin, with a policy that records it.
pub(crate) fn second(usage: u32) -> u64 {
    u64::from(usage) * TICK_MS / 1000
}

/// Returns the usage of a key that has been idle for `idle_s` seconds, limited to 24 bits.
pub(crate) fn idle_for(idle_s: u64, now: Now) -> u32 {
    let idle_ticks = idle_s.saturating_mul(1000).div_ceil(TICK_MS).min(u64::from(MASK));
    ticks(now).wrapping_sub(idle_ticks as u32) & MASK
}

/// Returns the usage of a key with the count `count`, on the scale of [`UsageRule::count`].
pub(crate) fn used_often(count: u8, now: Now) -> u32 {
    minutes(now) << COUNT_BITS | u32::from(count)
}

#[inline]
fn ticks(now: Now) -> u32 {
    (now.mono_ms() / TICK_MS) as u32 & MASK
}

fn minutes(now: Now) -> u32 {
    (now.mono_ms() / MINUTE_MS) as u32 & MINUTES_MASK
}

/// A random number generator with evenly distributed but predictable numbers (Marsaglia's xorshift).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Dice(seed | 1)
    }

    /// Returns a random number of 32 bits.
    #[inline]
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 32
    }

    /// Creates another generator, whose numbers do not depend on later draws from this one.
    pub fn split(&mut self) -> Self {
        Dice::new(self.roll() << 32 | self.roll())
    }

    /// Returns a random number below `below`, which is not 0.
    pub fn below(&mut self, below: usize) -> usize {
        self.roll() as usize % below
    }
}

/// Random selection from items that are visited one by one: every subset of the wanted size has the same probability.
pub(crate) struct RandomSelection {
    wanted: usize,
    left: usize,
}

impl RandomSelection {
    /// Creates a selection of `wanted` items of `count`, or of all if there are fewer.
    pub(crate) fn new(wanted: usize, count: usize) -> Self {
        RandomSelection { wanted: wanted.min(count), left: count }
    }

    /// Returns true if the next item is selected: with the probability of the wanted items among the remaining ones.
    #[inline]
    pub(crate) fn takes(&mut self, dice: &mut Dice) -> bool {
        let is_taken = self.wanted > 0 && dice.below(self.left.max(1)) < self.wanted;
        self.wanted -= usize::from(is_taken);
        self.left = self.left.saturating_sub(1);
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_s(seconds: u64) -> Now {
        Now::at_ms(seconds * 1000, 0)
    }

    #[test]
    fn a_key_is_idle_for_as_long_as_it_was_not_used() {
        let used = UsageRule::RECENCY.fresh(at_s(100));
        for (now, max) in [(100, 0), (101, 1), (700, 600), (100 + 86_400 * 38, 86_400 * 38)] {
            let idle = idle_s(used, at_s(now));
            assert!(idle <= max && idle + 1 >= max, "{idle} of {max}");
        }
        for idle in [0, 1, 1000, 86_400 * 38] {
            let told = idle_s(idle_for(idle, at_s(5)), at_s(5));
            assert!(told >= idle && told <= idle + 1, "{told} of {idle}");
        }
        assert!(idle_s(idle_for(u64::MAX, at_s(5)), at_s(5)) > 86_400 * 38);
    }

    #[test]
    fn the_count_rises_like_the_logarithm_and_falls_by_the_minute() {
        let (rule, mut dice) = (UsageRule::frequency(10, 1), Dice::new(7));
        assert_eq!(rule.count(rule.fresh(at_s(0)), at_s(59)), FIRST_COUNT);
        let after = |uses: usize, dice: &mut Dice| {
            let usage = (0..uses).fold(rule.fresh(at_s(0)), |usage, _| rule.used(usage, at_s(0), dice));
            rule.count(usage, at_s(0))
        };
        // The figures of Redis' documentation: 10, 18, 142 and 255 after 100, 1000, 100,000 and a million uses.
        for (uses, expected) in [(100, 7..=13), (1000, 14..=24), (100_000, 130..=155), (1_000_000, 255..=255)] {
            let count = after(uses, &mut dice);
            assert!(expected.contains(&count), "{count} after {uses} uses");
        }
        let usage = used_often(100, at_s(0));
        assert_eq!([60, 600, 60_000].map(|s| rule.count(usage, at_s(s))), [99, 90, 0]);
        assert_eq!(UsageRule::frequency(10, 0).count(usage, at_s(600)), 100);
        assert_eq!(UsageRule::frequency(10, 5).count(usage, at_s(600)), 98);
    }

    #[test]
    fn a_factor_of_nothing_counts_every_use() {
        let (rule, mut dice) = (UsageRule::frequency(0, 1), Dice::new(3));
        let usage = (0..50).fold(rule.fresh(at_s(0)), |usage, _| rule.used(usage, at_s(0), &mut dice));
        assert_eq!(rule.count(usage, at_s(0)), FIRST_COUNT + 50);
    }

    #[test]
    fn who_is_used_less_can_be_done_without() {
        let (rule, now) = (UsageRule::frequency(10, 1), at_s(600));
        assert!(rule.eviction_score(used_often(5, now), now) > rule.eviction_score(used_often(6, now), now));
        let (old, new) = (used_often(15, at_s(0)), used_often(5, now));
        assert_eq!(rule.count(old, now), rule.count(new, now));
        assert!(rule.eviction_score(old, now) > rule.eviction_score(new, now));
        let recency = UsageRule::RECENCY;
        assert!(
            recency.eviction_score(recency.fresh(at_s(1)), now) > recency.eviction_score(recency.fresh(at_s(9)), now)
        );
    }
}
