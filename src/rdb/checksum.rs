//! The CRC-64 at the end of dumps and files: over a slice, or over chunks as they come.

use crc_fast::{CrcAlgorithm, Digest};

/// The length in bytes.
pub(crate) const LEN: usize = 8;

/// The CRC-64 of dumps, files, and blocks of append-only files.
const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Redis;

/// The polynomial with its bits reversed, as a checksum's bits are: the highest bit stands for 1.
const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
/// The polynomial 1.
const ONE: u64 = 1 << 63;
/// The polynomial by which a checksum is multiplied when a zero byte is appended.
const BYTE: u64 = ONE >> 8;

pub(crate) fn of(bytes: &[u8]) -> u64 {
    crc_fast::checksum(ALGORITHM, bytes)
}

/// Returns the checksum of two consecutive pieces: `before` is the checksum of the first, `bytes` is the second.
pub(crate) fn continued(before: u64, bytes: &[u8]) -> u64 {
    let mut digest = Digest::new_with_init_state(ALGORITHM, before);
    digest.update(bytes);
    digest.finalize()
}

/// A running checksum.
#[derive(Clone)]
pub(crate) struct Checksum {
    value: u64,
    /// The number of bytes so far.
    len: u64,
    /// The change of the checksum by [`Checksum::replace_start`].
    difference: u64,
}

impl Checksum {
    pub(crate) fn new() -> Self {
        Checksum { value: 0, len: 0, difference: 0 }
    }

    /// Adds the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.value = continued(self.value, bytes);
        self.len += bytes.len() as u64;
        if self.difference != 0 {
            self.difference = shifted(self.difference, bytes.len() as u64);
        }
    }

    /// Replaces the first bytes by as many others: changes a header without summing the content again.
    pub(crate) fn replace_start(&mut self, before: &[u8], after: &[u8]) {
        debug_assert!(before.len() == after.len() && before.len() as u64 <= self.len);
        // The checksum begins with zero, so the checksum of the difference is the difference of the checksums.
        self.difference ^= shifted(of(before) ^ of(after), self.len - before.len() as u64);
    }

    pub(crate) fn value(&self) -> u64 {
        self.value ^ self.difference
    }
}

/// Returns a checksum continued over a number of zero bytes.
fn shifted(checksum: u64, mut zeros: u64) -> u64 {
    let (mut factor, mut power) = (ONE, BYTE);
    while zeros > 0 {
        if zeros & 1 == 1 {
            factor = product(factor, power);
        }
        power = product(power, power);
        zeros >>= 1;
    }
    product(factor, checksum)
}

/// Returns the product of two polynomials, modulo the polynomial of the checksum.
fn product(one: u64, mut other: u64) -> u64 {
    let mut product = 0;
    for bit in (0..u64::BITS).rev() {
        if one >> bit & 1 == 1 {
            product ^= other;
        }
        let carry = if other & 1 == 1 { POLYNOMIAL } else { 0 };
        other = other >> 1 ^ carry;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_the_one_that_redis_tests_itself_with() {
        assert_eq!(of(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    proptest! {
        #[test]
        fn chunks_have_the_checksum_of_the_whole(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..9)) {
            let mut sum = Checksum::new();
            chunks.iter().for_each(|chunk| sum.update(chunk));
            prop_assert_eq!(sum.value(), of(&chunks.concat()));
        }

        #[test]
        fn a_start_is_replaced_before_or_after_what_follows(
            start in prop::collection::vec(any::<(u8, u8)>(), 0..20),
            between in prop::collection::vec(any::<u8>(), 0..300),
            rest in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let (before, after): (Vec<u8>, Vec<u8>) = start.into_iter().unzip();
            let mut sum = Checksum::new();
            sum.update(&before);
            sum.update(&between);
            sum.replace_start(&before, &after);
            sum.update(&rest);
            prop_assert_eq!(sum.value(), of(&[after, between, rest].concat()));
        }
    }
}
