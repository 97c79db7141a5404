//! The bytes of a HyperLogLog: 16384 registers after a header, in one of two encodings.
//!
//! ```text
//! | "HYLL" | encoding | unused, 3 | cardinality, 8, little-endian | registers              |
//!
//! dense:   six bits per register, from the low bits of a byte to the high ones
//! sparse:  00llllll           l + 1 registers are zero
//!          01llllll llllllll  l + 1 registers are zero
//!          1vvvvvll           l + 1 registers are v + 1
//! ```
//!
//! The cardinality is a cache, which is stale while the highest bit of its last byte is set. A sparse sketch becomes
//! dense when a register exceeds the maximum of five bits, or when the sketch would grow beyond `hll-sparse-max-bytes`.
//!
//! Invariant: the bytes are those that Redis 7.0 creates from the same elements, also for a damaged sketch.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::error::{Error, Result};
use crate::murmur::murmur_hash_64a;

/// The number of registers; the lower 14 bits of a hash select one.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;
const INDEX_BITS: u32 = 14;
/// The maximum rank of the 50 other bits of a hash.
const RANK_MAX: usize = 64 - INDEX_BITS as usize + 1;

const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
/// The offset of the cached cardinality.
pub(crate) const CARDINALITY_AT: usize = 8;
const HEADER: usize = 16;
/// The bit that marks the cached cardinality as stale, in its last byte.
const STALE: u8 = 0x80;

const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u16 = (1 << REGISTER_BITS) - 1;
/// The length of a dense sketch, in bytes.
pub(crate) const DENSE_LEN: usize = HEADER + REGISTERS * REGISTER_BITS / 8;

/// The longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// The largest register value, and the longest run of such a value, that a sparse sketch stores in one byte.
const SPARSE_VALUE_MAX: u8 = 32;
const SPARSE_RUN_MAX: usize = 4;
/// The number of runs that are checked for neighbours to join after a change.
const JOIN_RUNS: usize = 5;

/// Half of 1 / ln 2: the factor of the harmonic mean for infinitely many registers.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The encoding of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Dense,
    Sparse,
}

impl Encoding {
    /// Returns the name that PFDEBUG shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Dense => "dense",
            Encoding::Sparse => "sparse",
        }
    }
}

/// Checks the header of a sketch and returns its encoding. The runs are checked when they are used.
pub(crate) fn encoding(bytes: &[u8]) -> Result<Encoding> {
    match bytes.get(ENCODING_AT) {
        _ if bytes.len() < HEADER || !bytes.starts_with(MAGIC) => Err(Error::NotHyperLogLog),
        Some(0) if bytes.len() == DENSE_LEN => Ok(Encoding::Dense),
        Some(1) => Ok(Encoding::Sparse),
        _ => Err(Error::NotHyperLogLog),
    }
}

/// Returns the cached cardinality, unless it is stale.
pub(crate) fn known_cardinality(bytes: &[u8]) -> Option<u64> {
    let cached = u64::from_le_bytes(*bytes[CARDINALITY_AT..].first_chunk()?);
    (cached >> 56 & u64::from(STALE) == 0).then_some(cached)
}

/// Estimates the number of distinct elements in a sketch.
pub(crate) fn count(bytes: &[u8]) -> Result<u64> {
    let mut histogram = Histogram::default();
    match encoding(bytes)? {
        Encoding::Dense => dense_registers(bytes).for_each(|register| histogram.add(register, 1)),
        Encoding::Sparse => {
            let mut covered = 0;
            for run in runs(bytes) {
                histogram.add(run.value, run.len);
                covered += run.len;
            }
            if covered != REGISTERS {
                return Err(Error::CorruptHyperLogLog);
            }
        }
    }
    Ok(histogram.estimate())
}

/// Formats the runs of a sparse sketch; `None` for a dense one.
pub(crate) fn decode(bytes: &[u8]) -> Option<String> {
    if encoding(bytes) != Ok(Encoding::Sparse) {
        return None;
    }
    let spelled = runs(bytes).map(|run| match (run.value, run.size) {
        (0, 1) => format!("z:{}", run.len),
        (0, _) => format!("Z:{}", run.len),
        (value, _) => format!("v:{value},{}", run.len),
    });
    Some(spelled.collect::<Vec<_>>().join(" "))
}

/// Returns an element's register and rank: the number of bits of the hash from the fifteenth up to the first that is
/// set.
pub(crate) fn place(element: &[u8]) -> (usize, u8) {
    const SEED: u64 = 0xadc8_3b19;
    let hash = murmur_hash_64a(element, SEED);
    // A bit above the last one ends the count if all others are clear.
    let rest = hash >> INDEX_BITS | 1 << (RANK_MAX - 1);
    (hash as usize % REGISTERS, rest.trailing_zeros() as u8 + 1)
}

/// Returns the offset and the value of the two bytes around a dense register, and the distance from their lowest bit to
/// the register's.
fn dense_window(bytes: &[u8], index: usize) -> (usize, u16, usize) {
    let at = HEADER + index * REGISTER_BITS / 8;
    // The last register ends with the last byte.
    let next = bytes.get(at + 1).copied().unwrap_or(0);
    (at, u16::from_le_bytes([bytes[at], next]), index * REGISTER_BITS % 8)
}

/// Returns the registers of a dense sketch.
pub(crate) fn dense_registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    // Three bytes hold four registers.
    let (groups, _) = bytes[HEADER..].as_chunks::<3>();
    groups.iter().flat_map(|[low, middle, high]| {
        let group = u32::from_le_bytes([*low, *middle, *high, 0]);
        [0, 6, 12, 18].map(|shift| (group >> shift) as u8 & REGISTER_MAX as u8)
    })
}

/// Bytes to write, after their offset.
pub(crate) type Patch = (usize, SmallVec<[u8; 2]>);

/// Returns the patch that adds an element to a dense sketch; `None` if it changes nothing.
pub(crate) fn dense_patch(bytes: &[u8], element: &[u8]) -> Option<Patch> {
    let (index, rank) = place(element);
    raising_patch(bytes, index, rank)
}

/// Returns the patch that raises a register of a dense sketch to at least a value.
fn raising_patch(bytes: &[u8], index: usize, value: u8) -> Option<Patch> {
    let (at, window, shift) = dense_window(bytes, index);
    if u16::from(value) <= window >> shift & REGISTER_MAX {
        return None;
    }
    let [low, high] = (window & !(REGISTER_MAX << shift) | u16::from(value) << shift).to_le_bytes();
    let is_split = shift + REGISTER_BITS > 8;
    Some((at, if is_split { smallvec![low, high] } else { smallvec![low] }))
}

/// Returns the patch that marks the cached cardinality as stale; `None` if it is stale already.
pub(crate) fn forgetting_patch(bytes: &[u8]) -> Option<(usize, u8)> {
    let last = bytes[HEADER - 1];
    (last & STALE == 0).then_some((HEADER - 1, last | STALE))
}

/// One run of equal registers in a sparse sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The offset of the run's bytes.
    at: usize,
    /// The length in bytes, even where the last one is missing.
    size: usize,
    value: u8,
    /// The number of registers that the run covers.
    len: usize,
}

/// Parses the run at an offset; `None` at the end.
fn run_at(bytes: &[u8], at: usize) -> Option<Run> {
    let first = *bytes.get(at)?;
    let low = usize::from(first & 0x3f);
    Some(match first >> 6 {
        0 => Run { at, size: 1, value: 0, len: low + 1 },
        1 => {
            // A truncated run is read as if a zero byte followed, as one does after every string in Redis.
            let second = bytes.get(at + 1).copied().unwrap_or(0);
            Run { at, size: 2, value: 0, len: (low << 8 | usize::from(second)) + 1 }
        }
        _ => Run { at, size: 1, value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1 },
    })
}

fn runs(bytes: &[u8]) -> impl Iterator<Item = Run> {
    let mut at = HEADER;
    std::iter::from_fn(move || {
        let run = run_at(bytes, at)?;
        at += run.size;
        Some(run)
    })
}

/// Calls `act` with every register of a sparse sketch that is not zero.
fn for_each_set(bytes: &[u8], mut act: impl FnMut(usize, u8)) -> Result<()> {
    let mut index = 0;
    for run in runs(bytes) {
        let end = index + run.len;
        if end > REGISTERS {
            return Err(Error::CorruptHyperLogLog);
        }
        if run.value > 0 {
            (index..end).for_each(|index| act(index, run.value));
        }
        index = end;
    }
    if index == REGISTERS { Ok(()) } else { Err(Error::CorruptHyperLogLog) }
}

/// Appends a run of fewer than all registers to `bytes`.
fn push_run(bytes: &mut SmallVec<[u8; 8]>, value: u8, len: usize) {
    match len.wrapping_sub(1) {
        _ if len == 0 => {}
        last if value > 0 => bytes.push(0x80 | (value - 1) << 2 | last as u8),
        last if len <= SHORT_ZEROS_MAX => bytes.push(last as u8),
        last => bytes.extend_from_slice(&[0x40 | (last >> 8) as u8, last as u8]),
    }
}

/// A sketch that is being changed. The bytes have passed [`encoding`].
pub(crate) struct Sketch(Vec<u8>);

impl From<&[u8]> for Sketch {
    fn from(bytes: &[u8]) -> Self {
        Sketch(bytes.to_vec())
    }
}

impl Sketch {
    /// Creates an empty sparse sketch.
    pub(crate) fn empty() -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[..MAGIC.len()].copy_from_slice(MAGIC);
        bytes[ENCODING_AT] = 1;
        bytes.extend_from_slice(&[0x7f, 0xff]); // all registers are zero
        Sketch(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    /// Returns true if the encoding is dense.
    pub(crate) fn is_dense(&self) -> bool {
        self.0[ENCODING_AT] == 0
    }

    /// Marks the cached cardinality as stale.
    pub(crate) fn forget_cardinality(&mut self) {
        self.0[HEADER - 1] |= STALE;
    }

    /// Rewrites all registers, in the sparse encoding where that is possible and takes at most `sparse_max` bytes.
    pub(crate) fn set_all(&mut self, registers: &Registers, sparse_max: usize) {
        self.forget_cardinality();
        let mut runs = SmallVec::new();
        for same in registers.0.chunk_by(|one, other| one == other) {
            let longest = if same[0] == 0 { REGISTERS } else { SPARSE_RUN_MAX };
            same.chunks(longest).for_each(|run| push_run(&mut runs, run[0], run.len()));
        }
        let is_sparse = registers.0.iter().all(|value| *value <= SPARSE_VALUE_MAX);
        self.0.truncate(HEADER);
        if is_sparse && HEADER + runs.len() <= sparse_max {
            self.0[ENCODING_AT] = 1;
            self.0.extend_from_slice(&runs);
            return;
        }
        self.0[ENCODING_AT] = 0;
        self.0.resize(DENSE_LEN, 0);
        for (index, value) in registers.0.iter().enumerate() {
            // A dense sketch has no runs that could be damaged.
            let _ = self.raise(index, *value, 0);
        }
    }

    /// Raises a register to a value; returns true if it was lower.
    pub(crate) fn raise(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool> {
        if !self.is_dense() {
            return self.raise_sparse(index, value, sparse_max);
        }
        let patch = raising_patch(&self.0, index, value);
        if let Some((at, bytes)) = &patch {
            self.0[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        Ok(patch.is_some())
    }

    fn raise_sparse(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool> {
        if value > SPARSE_VALUE_MAX {
            self.make_dense()?;
            return self.raise(index, value, sparse_max);
        }
        let (mut first, mut before) = (0, None);
        let found = runs(&self.0).find(|run| {
            let is_here = index < first + run.len;
            if !is_here {
                (first, before) = (first + run.len, Some(run.at));
            }
            is_here
        });
        let run = found.ok_or(Error::CorruptHyperLogLog)?;
        if run.value >= value {
            return Ok(false);
        }
        let mut split = SmallVec::new();
        push_run(&mut split, run.value, index - first);
        push_run(&mut split, value, 1);
        push_run(&mut split, run.value, first + run.len - 1 - index);
        let len = self.0.len() + split.len() - run.size;
        if split.len() > run.size && len > sparse_max {
            self.make_dense()?;
            return self.raise(index, value, sparse_max);
        }
        let end = (run.at + run.size).min(self.0.len());
        self.0.splice(run.at..end, split);
        self.0.truncate(len); // a truncated run had one byte less to replace
        self.join_neighbours(before.unwrap_or(HEADER));
        self.forget_cardinality();
        Ok(true)
    }

    /// Joins runs of the same value that fit into one byte, checking a few runs from an offset on.
    fn join_neighbours(&mut self, mut at: usize) {
        for _ in 0..JOIN_RUNS {
            let Some(run) = run_at(&self.0, at) else { return };
            let next = run_at(&self.0, at + run.size).filter(|next| run.value > 0 && next.value == run.value);
            match next.map(|next| run.len + next.len) {
                Some(len) if len <= SPARSE_RUN_MAX => {
                    self.0.remove(at);
                    self.0[at] = 0x80 | (run.value - 1) << 2 | (len - 1) as u8;
                }
                _ => at += run.size,
            }
        }
    }

    /// Converts a sparse sketch to a dense one.
    pub(crate) fn make_dense(&mut self) -> Result<()> {
        if self.is_dense() {
            return Ok(());
        }
        let mut dense = Sketch(vec![0; DENSE_LEN]);
        dense.0[..HEADER].copy_from_slice(&self.0[..HEADER]);
        dense.0[ENCODING_AT] = 0;
        for_each_set(&self.0, |index, value| {
            // A dense sketch has no runs that could be damaged.
            let _ = dense.raise(index, value, usize::MAX);
        })?;
        *self = dense;
        Ok(())
    }
}

/// Registers, one per byte: the maximum of several sketches.
pub(crate) struct Registers(Box<[u8]>);

impl Registers {
    /// Creates registers that are all zero.
    pub(crate) fn new() -> Self {
        Registers(vec![0; REGISTERS].into())
    }

    /// Returns the registers of a sketch.
    ///
    /// # Errors
    /// The runs do not add up.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self> {
        let mut registers = Registers::new();
        registers.merge(bytes)?;
        Ok(registers)
    }

    pub(crate) fn value(&self, index: usize) -> u8 {
        self.0[index]
    }

    /// Raises one register to a value; returns true if it was lower.
    pub(crate) fn raise(&mut self, index: usize, value: u8) -> bool {
        let is_lower = self.0[index] < value;
        self.0[index] = self.0[index].max(value);
        is_lower
    }

    /// Raises every register to its value in a sketch.
    pub(crate) fn merge(&mut self, bytes: &[u8]) -> Result<()> {
        let registers = &mut self.0;
        match encoding(bytes)? {
            Encoding::Sparse => for_each_set(bytes, |index, value| registers[index] = registers[index].max(value)),
            Encoding::Dense => {
                for (register, value) in registers.iter_mut().zip(dense_registers(bytes)) {
                    *register = value.max(*register);
                }
                Ok(())
            }
        }
    }

    /// Estimates the number of distinct elements in the merged sketches.
    pub(crate) fn count(&self) -> u64 {
        let mut histogram = Histogram::default();
        self.0.iter().for_each(|register| histogram.add(*register, 1));
        histogram.estimate()
    }
}

/// Counts of the registers by value; damaged sketches have values up to 63.
struct Histogram([usize; REGISTER_MAX as usize + 1]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; REGISTER_MAX as usize + 1])
    }
}

impl Histogram {
    fn add(&mut self, value: u8, registers: usize) {
        self.0[usize::from(value)] += registers;
    }

    /// Estimates the cardinality as Otmar Ertl does in "New cardinality estimation algorithms for HyperLogLog
    /// sketches". The operations and their order are the same as in Redis, so that both round equally.
    fn estimate(&self) -> u64 {
        let m = REGISTERS as f64;
        let of = |value: usize| self.0[value] as f64;
        let mut z = m * tau((m - of(RANK_MAX)) / m);
        for value in (1..RANK_MAX).rev() {
            z += of(value);
            z *= 0.5;
        }
        z += m * sigma(of(0) / m);
        round_as_c(ALPHA * m * m / z)
    }
}

/// Rounds as `llroundl` and two conversions do on x86: a number out of range, such as infinity, becomes the minimum.
fn round_as_c(estimate: f64) -> u64 {
    let rounded = estimate.round();
    if rounded < i64::MAX as f64 { rounded as u64 } else { i64::MIN as u64 }
}

/// Returns the correction for registers that are zero.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

/// Returns the correction for registers at the maximum.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}
