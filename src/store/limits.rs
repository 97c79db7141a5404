//! The sizes up to which a collection is stored packed: the values of the `*-max-listpack-*` settings and their like.

/// All limits of packed collections. Handlers pass the limit concerned to the functions that add to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLimits {
    /// Limit of a packed hash; an entry is a field with its value.
    pub hash: PackedLimit,
    /// Limit of a packed list, and of each node of a longer one.
    pub list: ListLimit,
    /// Limit of a packed set.
    pub set: PackedLimit,
    /// Maximum number of members of a set in the encoding for integers.
    pub intset_entries: usize,
    /// Limit of a packed sorted set; an entry is a member with its score.
    pub zset: PackedLimit,
    /// Limit of each node of a stream.
    pub stream: StreamLimit,
}

impl Default for ValueLimits {
    /// Returns the limits by the defaults of the settings.
    fn default() -> Self {
        ValueLimits {
            hash: PackedLimit { entries: 512, len: 64 },
            list: ListLimit::new(-2),
            set: PackedLimit { entries: 128, len: 64 },
            intset_entries: 512,
            zset: PackedLimit { entries: 128, len: 64 },
            stream: StreamLimit { bytes: 4096, entries: 100 },
        }
    }
}

/// The limit of a packed hash, set or sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLimit {
    /// The maximum number of entries.
    pub entries: usize,
    /// The maximum length of a field, value or member, in bytes.
    pub len: usize,
}

impl PackedLimit {
    /// Returns true if a collection of so many entries, the longest part of which has `len` bytes, may be packed.
    #[inline]
    pub fn admits(self, entries: usize, len: usize) -> bool {
        entries <= self.entries && len <= self.len
    }
}

/// The limit of a list's node, as set by `list-max-listpack-size`: a number of entries, or if negative one of five
/// sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit(i32);

/// The sizes for -1 to -5; smaller numbers mean the last.
const LIST_NODE_BYTES: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];

/// The maximum size of a node that is limited by its number of entries.
const COUNTED_NODE_BYTES_MAX: usize = 8 << 10;

impl ListLimit {
    /// Creates the limit for a value of the setting.
    pub const fn new(setting: i32) -> Self {
        ListLimit(setting)
    }

    /// Returns the value of the setting.
    pub const fn setting(self) -> i32 {
        self.0
    }

    /// Returns true if a node of so many bytes and entries is within the limit.
    #[inline]
    pub fn admits(self, bytes: usize, entries: usize) -> bool {
        bytes <= self.bytes_max() && (self.0 < 0 || entries <= self.entries_max())
    }

    /// Returns true if a list fits in one node with at most half of the limit used, so that a list of nodes is
    /// converted back. Half, so that not every change converts the list.
    pub fn half_admits(self, bytes: usize, entries: usize) -> bool {
        match self.0 {
            0.. => entries <= self.entries_max() / 2,
            _ => bytes <= self.bytes_max() / 2,
        }
    }

    /// Returns the maximum size of a node in bytes.
    #[inline]
    pub fn bytes_max(self) -> usize {
        match self.0 {
            0.. => COUNTED_NODE_BYTES_MAX,
            _ => LIST_NODE_BYTES[(self.0.unsigned_abs() as usize - 1).min(LIST_NODE_BYTES.len() - 1)],
        }
    }

    fn entries_max(self) -> usize {
        usize::try_from(self.0).unwrap_or(0).max(1)
    }
}

/// The limit of a stream's node; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimit {
    /// The size of a node in bytes from which on entries are added to a new one.
    pub bytes: usize,
    /// The number of entries of a node from which on entries are added to a new one.
    pub entries: usize,
}

impl StreamLimit {
    /// Returns true if a node of so many bytes and entries, deleted ones included, takes another entry.
    #[inline]
    pub fn has_room(self, bytes: usize, entries: usize) -> bool {
        (self.bytes == 0 || bytes < self.bytes) && (self.entries == 0 || entries < self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_collections_are_limited_by_number_and_length() {
        let limit = PackedLimit { entries: 2, len: 3 };
        assert!(limit.admits(2, 3) && limit.admits(0, 0));
        assert!(!limit.admits(3, 3) && !limit.admits(2, 4));
    }

    #[test]
    fn nodes_of_lists_are_limited_by_bytes_or_by_entries() {
        let limit = ListLimit::new;
        for (setting, max) in [(-1, 4096), (-2, 8192), (-5, 65536), (-6, 65536), (i32::MIN, 65536)] {
            assert!(limit(setting).admits(max, usize::MAX) && !limit(setting).admits(max + 1, 1), "{setting}");
        }
        assert!(limit(3).admits(8192, 3) && !limit(3).admits(8192, 4) && !limit(3).admits(8193, 1));
        assert!(limit(0).admits(10, 1) && !limit(0).admits(10, 2));
        assert_eq!(limit(i32::MIN).setting(), i32::MIN);
        assert!(limit(-2).half_admits(4096, 9000) && !limit(-2).half_admits(4097, 1));
        assert!(limit(5).half_admits(9000, 2) && !limit(5).half_admits(1, 3) && !limit(0).half_admits(1, 1));
    }

    #[test]
    fn nodes_of_streams_are_full_at_the_first_limit_and_without_limits_never() {
        let limit = StreamLimit { bytes: 100, entries: 10 };
        assert!(limit.has_room(99, 9) && !limit.has_room(100, 9) && !limit.has_room(99, 10));
        let unlimited = StreamLimit { bytes: 0, entries: 0 };
        assert!(unlimited.has_room(usize::MAX, usize::MAX));
    }
}
