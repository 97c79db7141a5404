//! Recovery of a shard after a panic has interrupted the change of a key: a recount.
//!
//! A panic is a bug, and the state that it leaves behind is unknown: the keys are the truth, but memory, deadlines and
//! counters are maintained by differences, and would stay wrong. So a change that has begun is counted as unfinished
//! until it ends, and a shard with an unfinished change left over is recounted once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::store::changes::ChangeCx;
use crate::store::cx::Removal;
use crate::store::event;
use crate::store::key::Key;
use crate::store::shard::Keys;

impl Keys {
    /// Recounts everything if a panic has interrupted a change. All that have an interest in a key are notified of a
    /// change: any key may have changed.
    pub(crate) fn recover(&mut self, cx: &mut ChangeCx<'_>) {
        if self.unfinished == 0 {
            return;
        }
        for bytes in &self.recount(cx) {
            let delete = AssertUnwindSafe(|| cx.aside(|cx| self.delete(self.key(bytes), event::RELEASED, cx)));
            if catch_unwind(delete).is_err() {
                self.recount(cx); // an empty collection stays
                self.events.interrupt(&cx.take_records());
            }
        }
        self.unfinished = 0;
        self.report();
        let concerned: Vec<(u64, Box<[u8]>)> = self.interests.keys().map(|key| (key.hash, key.bytes.into())).collect();
        for (hash, bytes) in &concerned {
            let key = Key { bytes, hash: *hash };
            self.sidecars_on_bulk_change(key, Removal::Deleted, cx);
        }
        self.events.emit_flush();
        self.events.record_all(None);
    }
}
