//! LZF, the compression inside of dumps: runs of literal bytes and references to what came before.
//!
//! ```text
//! 000lllll                    l + 1 literal bytes follow
//! lllooooo oooooooo           repeat l + 2 bytes (l from 1 to 6) from o + 1 bytes back
//! 111ooooo llllllll oooooooo  repeat l + 9 bytes from o + 1 bytes back
//! ```
//!
//! The format does not say where a compressor looks for repetitions. This one looks where `lzf_compress` of Redis
//! looks, so that dumps have the same bytes. Redis leaves its table of positions uninitialised, so it occasionally
//! finds one more repetition by chance; such input decompresses as well.

/// The maximum expansion: how many bytes one byte of input can decompress to. Three bytes repeat 264.
pub const EXPANSION_MAX: usize = 88;

/// The longest run of literal bytes.
const LITERALS_MAX: usize = 32;
/// How far back a reference reaches.
const OFFSET_MAX: usize = 1 << 13;
/// The longest repetition that is searched for.
const REPEAT_MAX: usize = 264;
/// The length from which a reference has an extra length byte.
const LONG_REPEAT: usize = 7;
/// How many bytes of a repetition are compared without checking the maximum length, when that is more than 16.
const UNCHECKED: usize = 16;

const HASH_BITS: u32 = 16;

/// Compresses `input` to at most `room` bytes; `None` when it does not fit.
pub fn compress(input: &[u8], room: usize) -> Option<Vec<u8>> {
    if input.len() < 3 || room == 0 {
        return None;
    }
    let mut packer = Packer { out: Vec::with_capacity(room + 2), literals: 0, room };
    let mut places = vec![0_u32; 1 << HASH_BITS];
    packer.begin_run();
    let mut at = 0;
    while at < input.len() - 2 {
        // A position is stored plus one; 0 means none. The very first position is never referred to.
        let before = std::mem::replace(&mut places[hash(input, at)], at as u32 + 1) as usize;
        if before <= 1 || at - before >= OFFSET_MAX || input[before - 1..before + 2] != input[at..at + 3] {
            packer.literal(input[at])?;
            at += 1;
            continue;
        }
        let len = repetition(input, before - 1, at);
        packer.reference(at - before, len)?;
        at += len;
        if at >= input.len() - 2 {
            break;
        }
        // Of the positions inside a repetition only the last two are recorded.
        places[hash(input, at - 2)] = at as u32 - 1;
        places[hash(input, at - 1)] = at as u32;
    }
    packer.finish(&input[at..])
}

/// Returns the table slot for the three bytes at a position.
fn hash(input: &[u8], at: usize) -> usize {
    let bytes = u32::from_be_bytes([0, input[at], input[at + 1], input[at + 2]]);
    ((bytes >> (24 - HASH_BITS)).wrapping_sub(bytes.wrapping_mul(5)) & ((1 << HASH_BITS) - 1)) as usize
}

/// Returns how many bytes at `at` repeat those at `before`, the first three of which are known to match.
fn repetition(input: &[u8], before: usize, at: usize) -> usize {
    let max_len = (input.len() - at - 2).min(REPEAT_MAX);
    let same = |len: &usize| input[before + len] == input[at + len];
    let mut len = 2;
    if max_len > UNCHECKED {
        match (3..3 + UNCHECKED).find(|len| !same(len)) {
            Some(different) => return different,
            None => len += UNCHECKED,
        }
    }
    len += 1;
    while len < max_len && same(&len) {
        len += 1;
    }
    len
}

/// Writes runs and references. A run's first byte, its length, is filled in when the run ends.
struct Packer {
    out: Vec<u8>,
    /// The length of the run so far.
    literals: usize,
    room: usize,
}

impl Packer {
    fn begin_run(&mut self) {
        self.literals = 0;
        self.out.push(0);
    }

    fn end_run(&mut self) {
        let head = self.out.len() - self.literals - 1;
        match self.literals.checked_sub(1) {
            Some(len) => self.out[head] = len as u8,
            None => drop(self.out.pop()),
        }
    }

    fn push(&mut self, byte: u8) {
        self.literals += 1;
        self.out.push(byte);
        if self.literals == LITERALS_MAX {
            self.end_run();
            self.begin_run();
        }
    }

    fn literal(&mut self, byte: u8) -> Option<()> {
        if self.out.len() >= self.room {
            return None;
        }
        self.push(byte);
        Some(())
    }

    /// Writes a reference to `len` bytes that begin `offset` + 1 bytes back.
    fn reference(&mut self, offset: usize, len: usize) -> Option<()> {
        if self.out.len() - usize::from(self.literals == 0) + 4 >= self.room {
            return None;
        }
        self.end_run();
        let (high, len) = ((offset >> 8) as u8, len - 2);
        match len.checked_sub(LONG_REPEAT) {
            None => self.out.push((len as u8) << 5 | high),
            Some(rest) => self.out.extend_from_slice(&[(LONG_REPEAT as u8) << 5 | high, rest as u8]),
        }
        self.out.push(offset as u8);
        self.begin_run();
        Some(())
    }

    /// Writes the last bytes, at most three, as literals.
    fn finish(mut self, rest: &[u8]) -> Option<Vec<u8>> {
        if self.out.len() + 3 > self.room {
            return None;
        }
        rest.iter().for_each(|byte| self.push(*byte));
        self.end_run();
        Some(self.out)
    }
}

/// Decompresses input whose decompressed length is known to be `len`; `None` when it is not.
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
                let (literals, after) = rest.as_slice().split_at_checked(usize::from(control) + 1)?;
                out.extend_from_slice(literals);
                rest = after.iter();
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
    let from = out.len().checked_sub(back)?;
    if back >= len {
        out.extend_from_within(from..from + len);
    } else {
        (from..from + len).for_each(|at| out.push(out[at]));
    }
    Some(())
}
