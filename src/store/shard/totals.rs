//! Totals of the counters of shards.

/// Totals of one or more shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Keys, including expired ones that are not deleted yet.
    pub keys: usize,
    /// Keys with a TTL.
    pub with_ttl: usize,
    /// Bytes taken by entries and buckets.
    pub memory: usize,
    /// Changes since the store was created.
    pub changes: u64,
    /// Keys that have expired since the store was created.
    pub expired: u64,
    /// Part of `expired`: keys that the sweeper deleted before they were looked up.
    pub swept: u64,
    /// Keys evicted since the store was created.
    pub evicted: u64,
    /// Fields of hashes, and members of sets, that have expired since the store was created.
    pub expired_fields: u64,
    /// Part of `expired_fields`: fields that the sweeper removed before a call could find them.
    pub swept_fields: u64,
    /// Hashes with a TTL on a field.
    pub with_field_ttl: usize,
    /// Sets with a TTL on a member.
    pub with_member_ttl: usize,
    /// Watched keys, existing or not.
    pub watched: usize,
    /// Keys with blocked clients, existing or not.
    pub blocking: usize,
    /// Locks that are held through `LOCK.*`.
    pub locks: usize,
    /// Clients queued for locks.
    pub queued: usize,
    /// Remembered fences of removed keys.
    pub retired_fences: usize,
    /// Bytes taken by the names of the keys of `retired_fences`.
    pub retired_fence_bytes: usize,
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.keys += other.keys;
        self.with_ttl += other.with_ttl;
        self.memory += other.memory;
        self.changes += other.changes;
        self.expired += other.expired;
        self.swept += other.swept;
        self.evicted += other.evicted;
        self.expired_fields += other.expired_fields;
        self.swept_fields += other.swept_fields;
        self.with_field_ttl += other.with_field_ttl;
        self.with_member_ttl += other.with_member_ttl;
        self.watched += other.watched;
        self.blocking += other.blocking;
        self.locks += other.locks;
        self.queued += other.queued;
        self.retired_fences += other.retired_fences;
        self.retired_fence_bytes += other.retired_fence_bytes;
    }
}
