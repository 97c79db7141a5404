//! Austin Appleby's MurmurHash2 for 32 and 64 bits: the hashes of HyperLogLogs and of the probabilistic types. Words are
//! read in little-endian order everywhere.

/// Computes MurmurHash2 of 64 bits, variant A.
pub(crate) fn murmur_hash_64a(bytes: &[u8], seed: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mix = |word: u64| (word ^ word >> SHIFT).wrapping_mul(MULTIPLIER);
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = mix(u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER));
        hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    let hash = mix(hash);
    hash ^ hash >> SHIFT
}

/// Computes MurmurHash2 of 32 bits.
pub(crate) fn murmur_hash_32(bytes: &[u8], seed: u32) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let mut hash = seed ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        let word = (word ^ word >> 24).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    let hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        // Computed with the public-domain original.
        for (text, seed, hash) in HASHES_32 {
            assert_eq!(murmur_hash_32(text.as_bytes(), *seed), *hash, "{text}");
        }
        for (text, seed, hash) in HASHES_64 {
            assert_eq!(murmur_hash_64a(text.as_bytes(), *seed), *hash, "{text}");
        }
    }

    const HASHES_32: &[(&str, u32, u32)] = &[
        ("", 0, 0x0000_0000),
        ("a", 7, 0xfbeb_9e30),
        ("ab", 14, 0x283a_e207),
        ("abc", 21, 0x78c1_af59),
        ("abcd", 28, 0x80f7_1e3d),
        ("abcde", 35, 0xec79_a969),
        ("seven b", 42, 0x824d_60a0),
        ("eight by", 49, 0x1624_9107),
        ("nine byte", 56, 0xdecf_5cc6),
        ("The quick brown fox jumps over the lazy dog", 63, 0x56c5_c077),
    ];
    const HASHES_64: &[(&str, u64, u64)] = &[
        ("", 0, 0x0000_0000_0000_0000),
        ("a", 7, 0x5647_bce9_4f90_d9aa),
        ("ab", 14, 0xa51a_a8e7_c413_aaf6),
        ("abc", 21, 0x4985_51cb_be8b_cb57),
        ("abcd", 28, 0x82c9_c824_9b8a_a74d),
        ("abcde", 35, 0x1cee_261f_837e_dda7),
        ("seven b", 42, 0x8b4a_d8b7_43ea_4831),
        ("eight by", 49, 0x70e5_0af3_f71f_f8d9),
        ("nine byte", 56, 0x4d3d_8505_d477_4998),
        ("The quick brown fox jumps over the lazy dog", 63, 0x15cc_626d_0d92_9ca1),
    ];
}
