//! BITOP: combines several strings into one, eight bytes at a time, and block by block.
//!
//! Invariant: the result is as long as the longest string; shorter ones are padded with zero bytes.

use bytes::Bytes;

use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::store::Str;
use crate::store::value::SHARED_MIN;

const WORD: usize = size_of::<u64>();
/// The number of bytes of each string that are combined at a time: intermediate results stay in the processor's cache.
/// Only shared strings are longer, so none is copied to be combined, however often a key is named.
const BLOCK: usize = SHARED_MIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    And,
    Or,
    Xor,
    Not,
    /// Bits set in the first string and in no other.
    Diff,
    /// Bits set in any string but not in the first.
    Diff1,
    /// Bits set in the first string and in any other.
    AndOr,
    /// Bits set in exactly one string.
    One,
}

const OPERATORS: [(&str, Operator); 8] = [
    ("AND", Operator::And),
    ("OR", Operator::Or),
    ("XOR", Operator::Xor),
    ("NOT", Operator::Not),
    ("DIFF", Operator::Diff),
    ("DIFF1", Operator::Diff1),
    ("ANDOR", Operator::AndOr),
    ("ONE", Operator::One),
];

impl Operator {
    pub(crate) fn read(word: &[u8]) -> Result<Self> {
        OPERATORS.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, operator)| operator).ok_or(Error::Syntax)
    }

    /// Rejects a wrong number of strings for the operator.
    pub(crate) fn check_count(self, count: usize) -> Result<()> {
        match self {
            Operator::Not if count != 1 => Err(Error::other("BITOP NOT must be called with a single source key.")),
            Operator::Diff | Operator::Diff1 | Operator::AndOr if count < 2 => {
                let name = OPERATORS.into_iter().find(|(_, operator)| *operator == self).map_or("", |(name, _)| name);
                Err(Error::other(format!("BITOP {name} must be called with at least two source keys.")))
            }
            _ => Ok(()),
        }
    }
}

/// Combines strings. The first block of a string is combined when it is added; the rest of a longer string is shared,
/// and combined at the end.
pub(crate) struct Combination {
    first: Block,
    /// The part of each string beyond its first block.
    rests: Vec<Bytes>,
}

impl Combination {
    pub(crate) fn new(operator: Operator) -> Self {
        Combination { first: Block::new(operator), rests: Vec::new() }
    }

    pub(crate) fn add(&mut self, text: Str<'_>) {
        let bytes = text.as_slice();
        self.first.add(&bytes[..bytes.len().min(BLOCK)]);
        self.rests.push(if bytes.len() > BLOCK { text.to_bytes().slice(BLOCK..) } else { Bytes::new() });
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        let Combination { first, rests } = self;
        let (operator, mut result) = (first.operator, first.finish());
        let len = rests.iter().map(Bytes::len).max().unwrap_or(0);
        result.reserve_exact(len);
        for start in (0..len).step_by(BLOCK) {
            let mut block = Block::new(operator);
            rests.iter().for_each(|rest| block.add(&rest[start.min(rest.len())..rest.len().min(start + BLOCK)]));
            result.extend_from_slice(&block.finish());
        }
        result
    }
}

/// Combines a block of several strings, one after the other.
struct Block {
    operator: Operator,
    /// The number of strings added.
    count: usize,
    result: Vec<u8>,
    /// Intermediate data of some operators: the first string, or the bits set in more than one.
    aside: Vec<u8>,
}

impl Block {
    fn new(operator: Operator) -> Self {
        Block { operator, count: 0, result: Vec::new(), aside: Vec::new() }
    }

    fn add(&mut self, text: &[u8]) {
        let (result, aside) = (&mut self.result, &mut self.aside);
        match (self.operator, self.count) {
            (Operator::Diff | Operator::Diff1 | Operator::AndOr, 0) => aside.extend_from_slice(text),
            (_, 0) => result.extend_from_slice(text),
            (Operator::And, _) => {
                fold(result, text, |a, b| a & b);
                result[text.len()..].fill(0);
            }
            (Operator::Xor, _) => fold(result, text, |a, b| a ^ b),
            (Operator::One, _) => {
                let mut again = text.to_vec();
                fold(&mut again, &result[..text.len().min(result.len())], |a, b| a & b);
                again[result.len().min(text.len())..].fill(0);
                fold(aside, &again, |a, b| a | b);
                fold(result, text, |a, b| a | b);
            }
            _ => fold(result, text, |a, b| a | b),
        }
        self.count += 1;
    }

    fn finish(self) -> Vec<u8> {
        let Block { operator, mut result, mut aside, .. } = self;
        let len = result.len().max(aside.len());
        result.resize(len, 0);
        aside.resize(len, 0);
        match operator {
            Operator::And | Operator::Or | Operator::Xor => {}
            Operator::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
            Operator::Diff => fold(&mut result, &aside, |others, first| first & !others),
            Operator::Diff1 => fold(&mut result, &aside, |others, first| others & !first),
            Operator::AndOr => fold(&mut result, &aside, |others, first| others & first),
            Operator::One => fold(&mut result, &aside, |any, several| any & !several),
        }
        result
    }
}

/// Combines a string into the start of another, in machine words; the target is padded with zero bytes as needed.
fn fold(into: &mut Vec<u8>, other: &[u8], operation: impl Fn(u64, u64) -> u64) {
    if into.len() < other.len() {
        into.resize(other.len(), 0);
    }
    let (words, rest) = into[..other.len()].as_chunks_mut::<WORD>();
    let (other_words, other_rest) = other.as_chunks::<WORD>();
    for (word, other) in words.iter_mut().zip(other_words) {
        *word = operation(u64::from_ne_bytes(*word), u64::from_ne_bytes(*other)).to_ne_bytes();
    }
    for (byte, other) in rest.iter_mut().zip(other_rest) {
        *byte = operation(u64::from(*byte), u64::from(*other)) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a bit of the result, given the number of strings in which it is set, and its value in the first.
    fn expected(operator: Operator, total: usize, ones: usize, first: bool) -> bool {
        match operator {
            Operator::And => ones == total,
            Operator::Or => ones > 0,
            Operator::Xor => ones % 2 == 1,
            Operator::Not => ones == 0,
            Operator::Diff => first && ones == 1,
            Operator::Diff1 => !first && ones > 0,
            Operator::AndOr => first && ones > 1,
            Operator::One => ones == 1,
        }
    }

    #[test]
    fn every_operator_says_of_each_bit_what_counting_it_says() {
        let texts: [&[u8]; 5] = [b"\xff\x00\x55\xaa123456789abc", b"", b"\x0f", b"0123456789abcdefghijk", b"\x33\xcc"];
        // Within a block, and across the end of one.
        for (rotation, before) in (0..texts.len()).flat_map(|rotation| [(rotation, 0), (rotation, BLOCK - 7)]) {
            let mut texts = texts.map(|text| Bytes::from([&vec![0x5a; before], text].concat()));
            texts.rotate_left(rotation);
            for (count, (name, operator)) in (1..=texts.len()).flat_map(|n| OPERATORS.map(|operator| (n, operator))) {
                if operator.check_count(count).is_err() {
                    continue;
                }
                let mut combination = Combination::new(operator);
                texts[..count].iter().for_each(|text| combination.add(Str::Shared(text)));
                let result = combination.finish();
                assert_eq!(result.len(), texts[..count].iter().map(|text| text.len()).max().unwrap_or(0));
                for bit in before * 8..result.len() * 8 {
                    let is_set = |text: &[u8]| text.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1);
                    let ones = texts[..count].iter().filter(|text| is_set(text)).count();
                    let wanted = expected(operator, count, ones, is_set(&texts[0]));
                    assert_eq!(is_set(&result), wanted, "{name} of {count}, bit {bit}");
                }
            }
        }
    }
}
