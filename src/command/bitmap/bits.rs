//! Counting and finding bits, eight bytes at a time.

use std::ops::Range;

const WORD: usize = size_of::<u64>();
/// The number of bytes without the bit sought that are skipped at once.
const BLOCK: usize = 32 * WORD;

/// Counts the bits that are set in a range of the bits of `bytes`.
pub(crate) fn count(bytes: &[u8], range: Range<u64>) -> u64 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = ((range.start / 8) as usize, ((range.end - 1) / 8) as usize);
    // Whole bytes are counted; bits of the outer two beyond the range are subtracted.
    let before = !(0xff >> (range.start % 8)) & bytes[first];
    let after = (0x7f >> ((range.end - 1) % 8)) & bytes[last];
    count_all(&bytes[first..=last]) - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

fn count_all(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<WORD>();
    let in_words: u64 = words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    in_words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Finds the first bit that is set, or clear, in a range of the bits of `bytes`.
pub(crate) fn find(bytes: &[u8], is_set: bool, range: Range<u64>) -> Option<u64> {
    let (first, end) = ((range.start / 8) as usize, range.end.div_ceil(8) as usize);
    let other = if is_set { 0 } else { 0xff };
    // Blocks without the bit sought are skipped.
    let has_one = |block: &[u8]| block.iter().fold(0, |seen, byte| seen | (byte ^ other)) != 0;
    let mut blocks = (first..end).step_by(BLOCK).map(|at| (at, &bytes[at..end.min(at + BLOCK)]));
    let found = blocks.find_map(|(at, block)| {
        let offset = at as u64 * 8;
        let found = if has_one(block) { find_from(block, is_set, range.start.saturating_sub(offset)) } else { None };
        found.map(|found| offset + found)
    });
    found.filter(|found| *found < range.end)
}

/// Finds the first bit that is set, or clear, among all but the first `before` bits, of which there are less than
/// eight.
fn find_from(bytes: &[u8], is_set: bool, before: u64) -> Option<u64> {
    let mut mask = u64::MAX >> before;
    for (at, chunk) in bytes.chunks(WORD).enumerate() {
        // The bit sought becomes a one, the highest bit first; missing bytes become zeros.
        let mut word = load(chunk);
        if !is_set {
            word = !word & load(&[0xff; WORD][..chunk.len()]);
        }
        word &= std::mem::replace(&mut mask, u64::MAX);
        if word != 0 {
            return Some(at as u64 * u64::from(u64::BITS) + u64::from(word.leading_zeros()));
        }
    }
    None
}

/// Reads up to eight bytes, the first the highest; missing bytes are zero.
fn load(chunk: &[u8]) -> u64 {
    if let Ok(word) = chunk.try_into() {
        return u64::from_be_bytes(word);
    }
    let mut word = [0; WORD];
    word[..chunk.len()].copy_from_slice(chunk);
    u64::from_be_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_and_finding_agree_with_going_bit_by_bit_in_every_range() {
        let texts: [&[u8]; 4] =
            [&[0xff; 19], &[0; 19], b"\0\0\0\0\0\0\0\0\x01\x80\0\xff\xfe\x7f\x55\xaa\x11\0\x10", b""];
        for text in texts {
            let bits: Vec<bool> =
                text.iter().flat_map(|byte| (0..8).map(move |at| byte >> (7 - at) & 1 == 1)).collect();
            for start in 0..=bits.len() {
                for end in start..=bits.len() {
                    let (range, part) = (start as u64..end as u64, &bits[start..end]);
                    assert_eq!(count(text, range.clone()), part.iter().filter(|bit| **bit).count() as u64);
                    for is_set in [false, true] {
                        let expected = part.iter().position(|bit| *bit == is_set).map(|at| (start + at) as u64);
                        assert_eq!(find(text, is_set, range.clone()), expected, "{is_set} in {range:?} of {text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_single_bit_is_found_in_whichever_block_it_lies() {
        let len = 3 * BLOCK - 5;
        for (is_set, bit) in (0..len * 8).step_by(61).flat_map(|bit| [(false, bit), (true, bit)]) {
            let mut text = vec![if is_set { 0 } else { 0xff }; len];
            text[bit / 8] ^= 0x80 >> (bit % 8);
            for range in [0..len * 8, bit..len * 8, 3..bit.max(3) + 1, 1..bit.max(1), BLOCK * 8 - 1..BLOCK * 16 + 1] {
                let expected = range.contains(&bit).then_some(bit as u64);
                let found = find(&text, is_set, range.start as u64..range.end as u64);
                assert_eq!(found, expected, "{is_set}, bit {bit}, {range:?}");
            }
        }
    }
}
