//! Heap usage of data structures, in bytes: pure arithmetic, because asking the allocator costs more than most
//! commands.
//!
//! The size classes are jemalloc's, the binary's allocator. With another allocator the figures are estimates.

/// Size of the control block of shared bytes ([`bytes::Bytes`]), allocated once they are cloned or have spare capacity.
pub(crate) const SHARED_BYTES_LEN: usize = allocation_len(3 * size_of::<usize>());

/// Size of the two reference counters that [`std::sync::Arc`] puts before its value.
pub(crate) const COUNTED_LEN: usize = 16;

/// Distance of the allocator's smallest size classes, in bytes: jemalloc was built with the same variable
/// (`.cargo/config.toml`).
pub(crate) const QUANTUM: usize = match option_env!("JEMALLOC_SYS_WITH_LG_QUANTUM") {
    Some(lg) if matches!(lg.as_bytes(), b"3") => 8,
    _ => 16,
};

/// Last of the size classes that are [`QUANTUM`] apart.
const LINEAR_MAX: usize = 8 * QUANTUM;

/// Returns the bytes that the allocator reserves for `len`: multiples of 8 up to 64, or of 16 up to 128, then four
/// sizes between a power of two and the next.
#[inline]
pub(crate) const fn allocation_len(len: usize) -> usize {
    match len {
        0..=8 => 8,
        9..=LINEAR_MAX => len.next_multiple_of(QUANTUM),
        _ => len.next_multiple_of(1 << ((len - 1).ilog2() - 2)),
    }
}

/// Returns the bytes of a list with room for `capacity` elements.
pub(crate) const fn list_len<T>(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { allocation_len(capacity * size_of::<T>()) }
}

/// Returns the bytes of a hash map's table with room for `capacity` entries: an eighth of the buckets stays free, and
/// each bucket has a byte of control data beside its entry.
pub(crate) const fn hash_map_len<K, V>(capacity: usize) -> usize {
    const GROUP: usize = 16;
    let buckets = match capacity {
        0 => return 0,
        1..=3 => 4,
        4..=7 => 8,
        _ => (capacity * 8).div_ceil(7).next_power_of_two(),
    };
    allocation_len((buckets * size_of::<(K, V)>()).next_multiple_of(GROUP) + buckets + GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_to_four_classes_for_each_doubling() {
        let small = [(0, 8), (8, 8), (9, 16), (17, 32.min(16 + QUANTUM)), (48, 48), (49, 48 + QUANTUM), (65, 80)];
        let classes = [(128, 128), (129, 160), (160, 160), (161, 192), (257, 320)];
        let large = [(16_384, 16_384), (16_385, 20_480), (17_000, 20_480), (1_000_001, 1_048_576), (1 << 20, 1 << 20)];
        for (len, class) in small.into_iter().chain(classes).chain(large) {
            assert_eq!(allocation_len(len), class, "{len}");
        }
    }

    #[test]
    fn a_hash_map_has_room_for_what_it_says() {
        let mut map = std::collections::HashMap::<u64, u64>::new();
        for number in 0..10_000 {
            map.insert(number, number);
            let (len, entries) = (hash_map_len::<u64, u64>(map.capacity()), map.capacity() * 16);
            assert!(len > entries && (len < entries * 3 / 2 || number < 16), "{len} for {}", map.capacity());
        }
    }
}
