//! Numbers and digests for the tests of the structures.

/// A pseudo-random sequence, the same for the same seed (SplitMix64).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns bytes with some of them changed, or another length.
    pub(super) fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = match self.below(3) {
                0 => bytes[at] ^ 1 << self.below(8),
                1 => 0xff * self.below(2) as u8,
                _ => self.next() as u8,
            };
        }
        match self.below(20) {
            0 => bytes.truncate(self.below(bytes.len() + 1)),
            1 => bytes.extend(vec![self.next() as u8; self.below(100)]),
            _ => {}
        }
        bytes
    }
}

/// The linear congruential numbers by which the figures were made.
pub(super) struct Congruence(pub(super) u64);

impl Congruence {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Computes FNV-1a of 64 bits.
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(1_469_598_103_934_665_603, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211))
}
