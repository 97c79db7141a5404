//! LZF, the compression inside of dumps: runs of literal bytes and references to earlier bytes.
//!
//! ```text
//! 000lllll                    l + 1 literal bytes follow
//! lllooooo oooooooo           repeat l + 2 bytes (l from 1 to 6) from o + 1 bytes back
//! 111ooooo llllllll oooooooo  repeat l + 9 bytes from o + 1 bytes back
//! ```
//!
//! The format does not say where a compressor looks for repetitions. This implementation looks where `lzf_compress` of
//! Redis does, so that dumps have the same bytes. Redis leaves its table of positions uninitialised, so it occasionally
//! finds one more repetition by chance; such input decompresses as well.

use std::cell::RefCell;

/// The maximum expansion: the bytes to which one byte of input can decompress. Three bytes repeat 264.
pub const EXPANSION_MAX: usize = 88;

/// The longest run of literal bytes.
const LITERALS_MAX: usize = 32;
/// The distance that a reference can reach back.
const OFFSET_MAX: usize = 1 << 13;
/// The longest repetition that is searched for.
const REPEAT_MAX: usize = 264;
/// The length from which a reference has an extra length byte.
const LONG_REPEAT: usize = 7;
/// The bytes of a repetition, behind the first three, that Redis compares without checking the maximum length, when
/// that is more than 16.
const UNCHECKED: usize = 16;
/// The number of bytes compared at once.
const WORD: usize = size_of::<u64>();

const HASH_BITS: u32 = 16;

const SLOTS: usize = 1 << HASH_BITS;

thread_local! {
    static PLACES: RefCell<Places> = const { RefCell::new(Places { cells: Vec::new(), former: 0 }) };
}

/// The last place of each slot. A place is a position plus one; 0 means none. The table is kept for the next input of
/// the thread, because clearing it takes longer than compressing a short input: entries of former inputs are below the
/// entries of the present one.
struct Places {
    cells: Vec<u32>,
    /// The highest entry that comes from former inputs.
    former: u32,
}

impl Places {
    /// Makes room for the places of an input.
    fn begin(&mut self, len: usize) {
        if self.cells.is_empty() || self.former.checked_add(len as u32).is_none() {
            (self.cells, self.former) = (vec![0; SLOTS], 0);
        }
    }

    /// Sets the place of a slot; returns the previous place.
    fn replace(&mut self, slot: usize, place: u32) -> u32 {
        std::mem::replace(&mut self.cells[slot], self.former + place).saturating_sub(self.former)
    }

    /// Invalidates the places of the input, of which `len` was the last.
    fn end(&mut self, len: usize) {
        self.former += len as u32;
    }
}

/// Compresses `input` to at most `room` bytes; `None` when it does not fit.
pub fn compress(input: &[u8], room: usize) -> Option<Vec<u8>> {
    if input.len() < 3 || u32::try_from(input.len()).is_err() {
        return None;
    }
    PLACES.with_borrow_mut(|places| {
        places.begin(input.len());
        let packed = compress_with(input, room, places);
        places.end(input.len());
        packed
    })
}

fn compress_with(input: &[u8], room: usize, places: &mut Places) -> Option<Vec<u8>> {
    if room == 0 {
        return None;
    }
    let mut packer = Packer { input, out: Vec::with_capacity(room + 2), literals: 0, room };
    let mut at = 0;
    while at < input.len() - 2 {
        // The very first position is never referred to.
        let bytes = three(input, at);
        let before = places.replace(slot(bytes), at as u32 + 1) as usize;
        if before <= 1 || at - before >= OFFSET_MAX || three(input, before - 1) != bytes {
            packer.literal(at)?;
            at += 1;
            continue;
        }
        let len = repetition(input, before - 1, at);
        packer.reference(at, at - before, len)?;
        at += len;
        if at >= input.len() - 2 {
            break;
        }
        // Of the positions inside a repetition only the last two are recorded.
        places.replace(slot(three(input, at - 2)), at as u32 - 1);
        places.replace(slot(three(input, at - 1)), at as u32);
    }
    packer.finish(at)
}

/// Returns the three bytes at a position as a number, the first byte the highest.
fn three(input: &[u8], at: usize) -> u32 {
    let bytes = &input[at..at + 3];
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

fn slot(bytes: u32) -> usize {
    ((bytes >> (24 - HASH_BITS)).wrapping_sub(bytes.wrapping_mul(5)) & ((1 << HASH_BITS) - 1)) as usize
}

/// Returns the number of bytes at `at` that repeat those at `before`, the first three of which are known to match.
fn repetition(input: &[u8], before: usize, at: usize) -> usize {
    let max_len = (input.len() - at - 2).min(REPEAT_MAX);
    let max_len = max_len.max(if max_len > UNCHECKED { 3 + UNCHECKED } else { 3 });
    let (one, other) = (&input[before..before + max_len], &input[at..at + max_len]);
    let (words, other_words) = (one.as_chunks::<WORD>().0, other.as_chunks::<WORD>().0);
    let same = words.iter().zip(other_words).take_while(|(word, other)| word == other).count() * WORD;
    same + one[same..].iter().zip(&other[same..]).take_while(|(byte, other)| byte == other).count()
}

/// Writes runs and references. A run is copied when it ends.
struct Packer<'a> {
    input: &'a [u8],
    out: Vec<u8>,
    /// The length of the run so far.
    literals: usize,
    room: usize,
}

impl Packer<'_> {
    /// Returns the length of the output, including the run with its header byte, even where the run is empty.
    fn len(&self) -> usize {
        self.out.len() + 1 + self.literals
    }

    /// Writes the run, which ends at the position `end` of the input.
    fn end_run(&mut self, end: usize) {
        if let Some(len) = self.literals.checked_sub(1) {
            self.out.push(len as u8);
            append(&mut self.out, &self.input[end - self.literals..], self.literals);
            self.literals = 0;
        }
    }

    fn push(&mut self, at: usize) {
        self.literals += 1;
        if self.literals == LITERALS_MAX {
            self.end_run(at + 1);
        }
    }

    /// Adds the byte at a position to the run.
    fn literal(&mut self, at: usize) -> Option<()> {
        if self.len() >= self.room {
            return None;
        }
        self.push(at);
        Some(())
    }

    /// Writes, for the position `at`, a reference to `len` bytes that begin `offset` + 1 bytes back.
    fn reference(&mut self, at: usize, offset: usize, len: usize) -> Option<()> {
        if self.len() - usize::from(self.literals == 0) + 4 >= self.room {
            return None;
        }
        self.end_run(at);
        let (high, len) = ((offset >> 8) as u8, len - 2);
        match len.checked_sub(LONG_REPEAT) {
            None => self.out.push((len as u8) << 5 | high),
            Some(rest) => self.out.extend_from_slice(&[(LONG_REPEAT as u8) << 5 | high, rest as u8]),
        }
        self.out.push(offset as u8);
        Some(())
    }

    /// Writes the last bytes, at most three, as literals.
    fn finish(mut self, at: usize) -> Option<Vec<u8>> {
        if self.len() + 3 > self.room {
            return None;
        }
        (at..self.input.len()).for_each(|at| self.push(at));
        self.end_run(self.input.len());
        Some(self.out)
    }
}

/// Appends the first bytes of `from`, at most [`LITERALS_MAX`].
fn append(out: &mut Vec<u8>, from: &[u8], len: usize) {
    // Copying a fixed length takes no call; a call takes longer than the copy.
    match from.first_chunk::<LITERALS_MAX>() {
        Some(more) if out.capacity() - out.len() >= LITERALS_MAX => {
            let end = out.len() + len;
            out.extend_from_slice(more);
            out.truncate(end);
        }
        _ => out.extend_from_slice(&from[..len]),
    }
}

/// Decompresses input whose decompressed length is known to be `len`; `None` if the length differs.
pub fn decompress(packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        // Redis returns 0 both for a failure and for this length, so it accepts any input here.
        return Some(Vec::new());
    }
    if len / EXPANSION_MAX > packed.len() {
        return None;
    }
    let (mut out, mut rest) = (Vec::with_capacity(len), packed.iter());
    while let Some(&control) = rest.next() {
        match usize::from(control >> 5) {
            0 => {
                let (len, literals) = (usize::from(control) + 1, rest.as_slice());
                rest = literals.get(len..)?.iter();
                append(&mut out, literals, len);
            }
            short => {
                let extra = if short == LONG_REPEAT { usize::from(*rest.next()?) } else { 0 };
                let offset = usize::from(control & 0x1f) << 8 | usize::from(*rest.next()?);
                repeat(&mut out, offset + 1, short + extra + 2)?;
            }
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

/// Appends `len` bytes that begin `back` bytes before the end; the source may overlap the appended bytes.
fn repeat(out: &mut Vec<u8>, back: usize, len: usize) -> Option<()> {
    let (from, end) = (out.len().checked_sub(back)?, out.len() + len);
    if let (Some(&bytes), 0..=LITERALS_MAX) = (out[from..].first_chunk::<LITERALS_MAX>(), len) {
        append(out, &bytes, len);
        return Some(());
    }
    // The appended bytes are appended again, twice as long each time.
    while out.len() < end {
        out.extend_from_within(from..from + (end - out.len()).min(out.len() - from));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_former_inputs_have_left_in_the_table_changes_nothing(
            inputs in prop::collection::vec(prop_oneof![
                prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 3..5000),
                prop::collection::vec(any::<u8>(), 3..5000),
                prop::collection::vec(prop_oneof![Just(0), Just(1)], 3..300),
            ], 1..5),
            room in 0..5000_usize,
            former in prop_oneof![Just(0), u32::MAX - 10_000..u32::MAX],
        ) {
            let fresh = || Places { cells: vec![0; SLOTS], former: 0 };
            let mut kept = Places { former, ..fresh() };
            for input in inputs {
                kept.begin(input.len());
                let packed = compress_with(&input, room, &mut kept);
                kept.end(input.len());
                prop_assert_eq!(&packed, &compress_with(&input, room, &mut fresh()));
                if let Some(packed) = packed {
                    prop_assert_eq!(decompress(&packed, input.len()), Some(input));
                }
            }
        }
    }
}
