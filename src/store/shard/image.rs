//! Images of the keys of a shard, and setting keys back to them: a bulk version of the funnel, whose caller tells watchers
//! and caches of all keys at once.

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::event::Event;
use crate::store::image::{CopyLimit, HolderImage, Image, LockImage, TooLarge};
use crate::store::key::Key;
use crate::store::lock::{LockHolder, Loss};
use crate::store::shard::Keys;
use crate::store::shard::field_deadlines::nearest_deadline;
use crate::store::shard::keys::is_expired;
use crate::store::shard::locks::is_text;
use crate::store::unlogged;

impl Keys {
    /// Returns the image of a key, even of one that has expired and is not deleted yet; `None` of a missing key.
    ///
    /// # Errors
    /// When more would be copied than the limit admits.
    pub(crate) fn image(&self, key: Key<'_>, limit: &mut CopyLimit) -> Result<Option<Image>, TooLarge> {
        let Some(entry) = self.find_undeleted(key) else { return Ok(None) };
        if !limit.admits(entry) {
            return Err(TooLarge);
        }
        let lock = self.held_lock(key).map(LockImage::of);
        Ok(Some(Image { entry: entry.copy(key.bytes), fence: self.fence(key), lock }))
    }

    /// Sets a key back to what it was, without an event, or removes it; returns whether it is what the image says. One that
    /// has expired meanwhile is removed. A lock that the key is now is lost, unless it is that of the image.
    pub(crate) fn restore(&mut self, key: Key<'_>, image: Option<&Image>, cx: &mut ChangeCx) -> bool {
        let alive = image.filter(|image| !is_expired(&image.entry, cx));
        let lock = alive.and_then(|image| image.lock.as_ref());
        self.lose_holders_unless(key, Loss::Flushed, |record| lock.is_some_and(|lock| lock.has(record)), cx);
        self.drop_entry(key, cx);
        if let Some(image) = alive {
            let entry = image.entry.copy(key.bytes);
            let nearest = nearest_deadline(&entry);
            self.attach(key, entry, cx);
            self.record_fields(key, false, nearest, cx);
            self.set_fence(key, image.fence);
        }
        image.is_some() == alive.is_some()
    }

    /// Lets a key be the lock again that it was, if it still has that value. What belongs to a session that is over is
    /// released. Returns whether it is that lock now.
    pub(crate) fn restore_lock(
        &mut self,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
        cx: &mut ChangeCx,
    ) -> bool {
        if !self.unexpired(key, cx).is_some_and(|entry| is_text(entry, &lock.value())) {
            return false;
        }
        let is_over = |holder: &&HolderImage| holder.session.as_ref().is_some_and(|session| !is_connected(&**session));
        let (over, left): (Vec<_>, Vec<_>) = lock.holders.iter().partition(is_over);
        let record = |keys: &Keys, holder: &HolderImage| holder.record(keys.key(&holder.token).hash);
        match lock.shared {
            None => self.adopt_lock(key, left.first().map(|holder| record(self, holder))),
            Some((sharing, since_us)) => {
                let holders = left.iter().map(|image| (record(self, image), image.permits, image.until_ms));
                let holders: Vec<_> = holders.collect();
                self.adopt_holders(key, sharing, since_us, holders.into_iter());
                self.end_due_holders(key, cx);
            }
        }
        if left.is_empty() {
            self.drop_entry(key, cx);
        }
        unlogged::remove_lock(self.db(), key.bytes); // who sets it back logs that, if it is to be
        over.is_empty()
    }

    fn drop_entry(&mut self, key: Key<'_>, cx: &mut ChangeCx) {
        self.changes += 1;
        cx.changes_mut().add();
        self.record_change(key, Event::NONE);
        self.interests.forget_fence(key);
        if let Some(entry) = self.detach(key) {
            self.reclaimer.free(entry);
        }
    }

    /// Calls `visit` with the key of each entry.
    pub(crate) fn for_each_key(&self, mut visit: impl FnMut(Key<'_>)) {
        for bucket in 0..self.table().buckets() {
            self.table().for_each_in(bucket, |entry| visit(self.key(entry.key())));
        }
    }

    /// Raises the flags of those who watch existing keys.
    pub(crate) fn raise_watchers(&mut self, cx: &Cx) {
        let existing = self.interests.keys().filter(|key| self.unexpired(*key, cx).is_some());
        let existing: Vec<(u64, Box<[u8]>)> = existing.map(|key| (key.hash, key.bytes.into())).collect();
        for (hash, bytes) in &existing {
            self.notify_interested(Key { bytes, hash: *hash });
        }
    }
}
