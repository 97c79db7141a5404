//! Latency histogram with a relative error of at most one per cent.
//!
//! The buckets are those of an HDR histogram from 1 ns to 1 s with two significant digits, as Redis has it, so that
//! quantiles come out the same. Values below 256 have a bucket each; every doubling after that has 128. Each run of 128
//! is a page, allocated on first use: a command's durations lie in two or three of them.
//!
//! One thread at a time records, with plain loads and stores; others may read meanwhile.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use once_cell::race::OnceBox;

/// Minimum of counted durations, in nanoseconds; shorter ones count as this one.
const MIN_NS: u64 = 1;
/// Maximum of counted durations, in nanoseconds; longer ones count as this one.
const MAX_NS: u64 = 1_000_000_000;
const PAGE: usize = 128;
const PAGES: usize = 24;
/// The last power of two that [`Counts::steps`] reports; the next one would be beyond the last bucket.
const LAST_STEP: u32 = 29;

type Page = [AtomicU64; PAGE];

type Pages = [OnceBox<Page>; PAGES];

/// Histogram of durations; until the first one it takes eight bytes, because most commands are never called.
#[derive(Default)]
pub(crate) struct Histogram(OnceBox<Pages>);

impl Histogram {
    /// Counts one duration.
    #[inline(always)]
    pub(crate) fn record(&self, ns: u64) {
        let (page, at) = place(ns);
        match self.0.get().and_then(|pages| pages.get(page)).and_then(OnceBox::get) {
            Some(page) => page[at].store(page[at].load(Relaxed) + 1, Relaxed),
            None => self.record_beyond(page, at),
        }
    }

    /// Counts the first duration of a page, or one beyond the last page.
    #[cold]
    fn record_beyond(&self, page: usize, at: usize) {
        let (page, at) = if page < PAGES { (page, at) } else { (PAGES - 1, PAGE - 1) };
        let page = self.make(page);
        page[at].store(page[at].load(Relaxed) + 1, Relaxed);
    }

    /// Takes back a duration that was counted.
    pub(crate) fn forget(&self, ns: u64) {
        let (page, at) = place(ns);
        let (page, at) = if page < PAGES { (page, at) } else { (PAGES - 1, PAGE - 1) };
        if let Some(page) = self.0.get().and_then(|pages| pages[page].get()) {
            page[at].store(page[at].load(Relaxed).saturating_sub(1), Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.add_to(&mut counts);
        counts
    }

    fn make(&self, page: usize) -> &Page {
        let pages = self.0.get_or_init(Box::default);
        pages[page].get_or_init(|| Box::new([const { AtomicU64::new(0) }; PAGE]))
    }

    /// Resets all counts; no thread may record meanwhile.
    pub(crate) fn clear(&self) {
        let pages = self.0.get().into_iter().flat_map(|pages| pages.iter());
        pages.filter_map(OnceBox::get).flat_map(|page| page.iter()).for_each(|count| count.store(0, Relaxed));
    }

    /// Adds the counts to `counts`.
    pub(crate) fn add_to(&self, counts: &mut Counts) {
        let pages = self.0.get().into_iter().flat_map(|pages| pages.iter());
        for (page, sums) in pages.zip(counts.0.chunks_exact_mut(PAGE)) {
            let page = page.get().into_iter().flat_map(|page| page.iter());
            page.zip(sums).for_each(|(count, sum)| *sum += count.load(Relaxed));
        }
        counts.limit();
    }
}

/// Returns the bucket of a duration: its page, and the index in it.
#[inline]
fn place(ns: u64) -> (usize, usize) {
    let doublings = (u64::BITS - (ns | 255).leading_zeros() - 8) as usize;
    // From 0 to 255 before the first doubling, from 128 to 255 after it.
    let step = (ns >> doublings) as usize;
    (doublings + step / PAGE, step % PAGE)
}

/// Returns the shortest and the longest duration of a bucket.
fn bounds(bucket: usize) -> (u64, u64) {
    let (page, at) = (bucket / PAGE, bucket % PAGE);
    let (first, doublings) = if page == 0 { (0, 0) } else { (PAGE, page - 1) };
    let step = (first + at) as u64;
    (step << doublings, ((step + 1) << doublings) - 1)
}

/// The counts of one histogram, or the sum of several. The unit is that of what was recorded: nanoseconds for commands.
pub struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Self {
        Counts(vec![0; PAGE * PAGES])
    }
}

impl Counts {
    /// Clamps durations outside the limits.
    fn limit(&mut self) {
        let number = |ns| {
            let (page, at) = place(ns);
            page * PAGE + at
        };
        let (shortest, longest) = (number(MIN_NS), number(MAX_NS));
        self.0[shortest] += self.0[..shortest].iter_mut().map(std::mem::take).sum::<u64>();
        self.0[longest] += self.0[longest + 1..].iter_mut().map(std::mem::take).sum::<u64>();
    }

    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of durations in each of the ranges between ascending bounds; the last range has the durations
    /// beyond the last bound. A bucket across a bound counts below it.
    #[cfg(feature = "metrics")]
    pub fn between(&self, bounds: &[u64]) -> Vec<u64> {
        let mut ranges = vec![0; bounds.len() + 1];
        for (bucket, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (shortest, _) = self::bounds(bucket);
            ranges[bounds.partition_point(|bound| *bound < shortest)] += count;
        }
        ranges
    }

    /// Returns the sum of the durations, each being the middle of its bucket.
    #[cfg(feature = "metrics")]
    pub fn sum(&self) -> f64 {
        let middle = |(shortest, longest): (u64, u64)| (shortest + longest) as f64 / 2.0;
        let counts = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.fold(0.0, |sum, (bucket, count)| sum + middle(bounds(bucket)) * *count as f64)
    }

    /// Returns the duration at a percentile, in the unit that was recorded; 0 when there is none.
    pub fn at_percentile(&self, percent: f64) -> u64 {
        let wanted = ((percent.clamp(0.0, 100.0) / 100.0 * self.total() as f64) + 0.5) as u64;
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        let Some((shortest, longest)) = bucket.map(bounds) else { return 0 };
        if percent == 0.0 { shortest } else { longest }
    }

    /// Returns the cumulative distribution at powers of two, from 2 to the power of `first` on; steps that add nothing
    /// are left out. A step ends with the bucket that begins with the power.
    pub fn steps(&self, first: u32) -> Vec<(u64, u64)> {
        let (mut steps, mut counted) = (Vec::new(), 0);
        for power in first..=LAST_STEP {
            let (page, at) = place(1 << power);
            let bucket = page * PAGE + at;
            let sum = self.0[..=bucket].iter().sum();
            if sum > counted {
                steps.push((bounds(bucket).1, sum));
                counted = sum;
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(durations: &[u64]) -> Counts {
        let histogram = Histogram::default();
        durations.iter().for_each(|ns| histogram.record(*ns));
        let mut counts = Counts::default();
        histogram.add_to(&mut counts);
        counts
    }

    #[test]
    fn every_duration_falls_into_a_bucket_that_is_no_wider_than_a_hundredth() {
        for ns in (0..2000).chain((0..30).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let (page, at) = place(ns);
            let (shortest, longest) = bounds(page * PAGE + at);
            assert!((shortest..=longest).contains(&ns), "{ns} in {shortest}..={longest}");
            assert!((longest - shortest) * 100 <= ns, "{ns} in {shortest}..={longest}");
        }
    }

    #[test]
    fn percentiles_are_the_ends_of_buckets() {
        assert_eq!(counts(&[]).at_percentile(50.0), 0);
        let few = counts(&[0, 3, 1000, 2_000_000_000]);
        let at = [0.0, 25.0, 50.0, 75.0, 99.9, 100.0, 200.0].map(|percent| few.at_percentile(percent));
        assert_eq!(at, [1, 1, 3, 1003, 1_002_438_655, 1_002_438_655, 1_002_438_655]);
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn ranges_have_what_is_not_above_their_bound_and_the_sum_is_off_by_half_a_hundredth_at_most() {
        let few = counts(&[0, 1, 2, 100, 101, 5000, u64::MAX]);
        assert_eq!(few.between(&[1, 100, 6000]), [2, 2, 2, 1]);
        assert_eq!(few.between(&[]), [7]);
        let sum: f64 = 1.0 + 1.0 + 2.0 + 100.0 + 101.0 + 5000.0 + 1e9;
        assert!((few.sum() / sum - 1.0).abs() < 0.005, "{}", few.sum());
        assert_eq!(counts(&[]).sum().to_string(), "0"); // and not -0
    }

    #[test]
    fn steps_double_and_those_that_add_nothing_are_left_out() {
        let few = counts(&[1, 1000, 1024, 1031, 1032, 30_000, 40_000]);
        assert_eq!(few.steps(10), [(1031, 4), (2063, 5), (33_023, 6), (66_047, 7)]);
        let endless = counts(&[u64::MAX]);
        assert_eq!((endless.total(), endless.steps(10)), (1, vec![]));
    }
}
