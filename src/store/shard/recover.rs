//! What a shard does after a panic has interrupted the change of a key: it counts again what it has.
//!
//! A panic is a bug, and what it leaves half done is unknown: the keys are what they are, but memory, deadlines and
//! counters are kept by differences, and would stay wrong. So a change that has begun is marked until it ends, and a shard
//! with a mark left over is gone through once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::store::cx::Cx;
use crate::store::entry::Entry;
use crate::store::event::Event;
use crate::store::expire::DeadlineTree;
use crate::store::lock::Loss;
use crate::store::shard::{Key, Shard, fields};
use crate::store::value::{Hash, Kind, List, Set, SortedSet, Type};
use crate::time::clock::Deadline;

/// What is found out about an entry; a value that panics even when it is looked at counts as nothing.
#[derive(Default)]
struct Findings {
    memory: usize,
    deadline: Option<Deadline>,
    field_deadline: Option<i64>,
    is_empty: bool,
}

impl Findings {
    fn of(entry: &Entry) -> Self {
        let look = || Findings {
            memory: entry.memory(),
            deadline: entry.deadline(),
            field_deadline: fields::nearest_deadline(entry),
            is_empty: is_empty(entry),
        };
        catch_unwind(AssertUnwindSafe(look)).unwrap_or_default()
    }
}

/// Returns whether the value is one whose key is deleted.
fn is_empty(entry: &Entry) -> bool {
    match entry.kind() {
        Type::Hash => Hash::is_empty(entry),
        Type::List => List::is_empty(entry),
        Type::Set => Set::is_empty(entry),
        Type::SortedSet => SortedSet::is_empty(entry),
        Type::String | Type::Stream => false,
    }
}

impl Shard {
    /// Counts everything again if a panic has interrupted a change. Whoever is interested in a key is told that it has
    /// changed: any of them may have.
    pub(crate) fn recover(&mut self, cx: &Cx) {
        if self.unfinished == 0 {
            return;
        }
        for bytes in &self.recount(cx) {
            let delete = AssertUnwindSafe(|| self.delete(self.key(bytes), Event::DEL, cx));
            if catch_unwind(delete).is_err() {
                self.recount(cx); // an empty collection stays
            }
        }
        self.unfinished = 0;
        self.report();
        let concerned: Vec<(u64, Box<[u8]>)> = self.interests.keys().map(|key| (key.hash, key.bytes.into())).collect();
        for (hash, bytes) in &concerned {
            let key = Key { bytes, hash: *hash };
            self.notify_interested(key);
            self.follow_lock(key, Loss::Deleted, cx);
        }
        self.events.emit_flush();
        self.events.note_all();
    }

    /// Counts the keys, their memory and their deadlines; returns the keys of collections that were left empty.
    fn recount(&mut self, cx: &Cx) -> Vec<Box<[u8]>> {
        self.table.recount();
        self.interests.recount();
        self.deadlines = DeadlineTree::default();
        self.fields.iter_mut().for_each(|fields| drop(fields.take_bounds()));
        self.follow_wall_clock(cx.now);
        (self.memory, self.with_ttl) = (0, 0);
        let (mut empty, mut with_fields) = (Vec::new(), Vec::new());
        let Shard { table, deadlines, sweep_timer, memory, with_ttl, .. } = self;
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
                with_fields.extend(found.field_deadline.map(|at_ms| (entry.key().to_vec(), at_ms)));
                if found.is_empty {
                    empty.push(entry.key().into());
                }
            });
        }
        for (bytes, at_ms) in &with_fields {
            self.note_fields(self.key(bytes), false, Some(*at_ms), cx);
        }
        empty
    }
}
