//! What a shard does after a panic has interrupted the change of a key: it counts again what it has.
//!
//! A panic is a bug, and what it leaves half done is unknown: the keys are what they are, but memory, deadlines and
//! counters are kept by differences, and would stay wrong. So a change that has begun is marked until it ends, and a shard
//! with a mark left over is gone through once.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::event;
use crate::store::key::Key;
use crate::store::lock::Loss;
use crate::store::shard::Keys;

impl Keys {
    /// Counts everything again if a panic has interrupted a change. Whoever is interested in a key is told that it has
    /// changed: any of them may have.
    pub(crate) fn recover(&mut self, cx: &Cx) {
        if self.unfinished == 0 {
            return;
        }
        for bytes in &self.recount(cx) {
            let delete = AssertUnwindSafe(|| self.delete(self.key(bytes), event::RELEASED, &mut ChangeCx::new(*cx)));
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
        self.events.record_all(None);
    }
}
