//! Counters of the keys of a shard, and the recount after a panic.

use crate::store::cx::Cx;
use crate::store::expire::DeadlineTree;
use crate::store::shard::Keys;
use crate::store::shard::findings::Findings;
use crate::store::shard::totals::Totals;

impl Keys {
    /// Returns the totals of the keys.
    pub(in crate::store) fn totals(&self) -> Totals {
        Totals {
            keys: self.table.count(),
            with_ttl: self.with_ttl,
            memory: self.memory + self.overhead(),
            changes: self.changes,
            expired: self.expired,
            expired_fields: self.fields.as_ref().map_or(0, |fields| fields.expired),
            swept_fields: self.fields.as_ref().map_or(0, |fields| fields.swept),
            with_field_ttl: self.fields.as_ref().map_or(0, |fields| fields.hashes),
            with_member_ttl: self.fields.as_ref().map_or(0, |fields| fields.sets),
            watched: self.interests.counts().watched as usize,
            blocking: self.interests.counts().blocking as usize,
            locks: self.interests.counts().held as usize,
            queued: self.interests.counts().queued as usize,
            retired_fences: self.interests.fences().remembered().0,
            retired_fence_bytes: self.interests.fences().remembered().1,
            ..Totals::default()
        }
    }

    /// Recounts the keys, their memory and their deadlines; returns the keys of empty collections.
    pub(in crate::store::shard) fn recount(&mut self, cx: &Cx) -> Vec<Box<[u8]>> {
        self.table.recount();
        self.interests.recount(self.index());
        self.deadlines = DeadlineTree::default();
        if let Some(fields) = &mut self.fields {
            drop(fields.take_bounds());
        }
        self.follow_wall_clock(cx.now);
        (self.memory, self.with_ttl) = (0, 0);
        let (mut empty, mut with_fields) = (Vec::new(), Vec::new());
        let Keys { table, deadlines, sweep_timer, memory, with_ttl, .. } = self;
        for bucket in 0..table.buckets() {
            table.for_each_in(bucket, |entry| {
                let found = Findings::of(entry);
                *memory += found.memory;
                if let Some(deadline) = found.deadline {
                    let at_ms = deadline.mono_ms(cx.now);
                    *with_ttl += 1;
                    deadlines.lower(bucket, at_ms);
                    sweep_timer.lower(at_ms);
                }
                with_fields.extend(found.field_deadline.map(|at_ms| (entry.key().to_vec(), entry.kind(), at_ms)));
                if found.is_empty {
                    empty.push(entry.key().into());
                }
            });
        }
        for (bytes, of, at_ms) in &with_fields {
            self.record_fields(self.key(bytes), *of, false, Some(*at_ms), cx);
        }
        empty
    }
}
