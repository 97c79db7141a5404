//! Images of the keys of a shard, and restoring keys from them: a bulk version of the funnel, whose caller notifies
//! watchers and caches of all keys at once.

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::event::Event;
use crate::store::image::{CopyLimit, HolderImage, Image, LockImage, TooLarge};
use crate::store::key::Key;
use crate::store::lock::{LockHolder, LossReason};
use crate::store::shard::Keys;
use crate::store::shard::field_deadlines::nearest_deadline;
use crate::store::shard::keys::is_expired;
use crate::store::shard::locks::is_text;

impl Keys {
    /// Returns the image of a key, or `None` for a missing key. An expired key that is not deleted yet has an image,
    /// too.
    ///
    /// # Errors
    /// [`TooLarge`] if more would be copied than the limit admits.
    pub(crate) fn image(&self, key: Key<'_>, limit: &mut CopyLimit) -> Result<Option<Image>, TooLarge> {
        let Some(entry) = self.find_undeleted(key) else { return Ok(None) };
        if !limit.admits(entry) {
            return Err(TooLarge);
        }
        let lock = self.held_lock(key).map(LockImage::of);
        Ok(Some(Image { entry: entry.copy(key.bytes), fence: self.fence(key), lock }))
    }

    /// Restores a key from an image, or removes it, without an event; returns false if the image has expired meanwhile,
    /// so that the key was removed instead. The present lock of the key is lost, unless the image contains the same
    /// lock.
    pub(crate) fn restore(&mut self, key: Key<'_>, image: Option<&Image>, cx: &mut ChangeCx<'_>) -> bool {
        let alive = image.filter(|image| !is_expired(&image.entry, cx));
        let lock = alive.and_then(|image| image.lock.as_ref());
        self.lose_holders_unless(key, LossReason::Flushed, |record| lock.is_some_and(|lock| lock.has(record)), cx);
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

    /// Restores the lock of a key from an image, if the key still has the lock's value. Holders bound to a session that
    /// is over are released. Returns true if all holders were restored.
    pub(crate) fn restore_lock(
        &mut self,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
        cx: &mut ChangeCx<'_>,
    ) -> bool {
        if !self.unexpired(key, cx).is_some_and(|entry| is_text(entry, &lock.value())) {
            return false;
        }
        let is_over = |holder: &&HolderImage| holder.session.as_ref().is_some_and(|session| !is_connected(&**session));
        let (over, left): (Vec<_>, Vec<_>) = lock.holders.iter().partition(is_over);
        let record = |keys: &Keys, holder: &HolderImage| holder.record(keys.key(&holder.token).hash);
        match lock.shared {
            None => {
                let record = left.first().map(|holder| record(self, holder));
                self.adopt_lock(key, record, cx);
            }
            Some((sharing, since_us)) => {
                let holders = left.iter().map(|image| (record(self, image), image.permits, image.until_ms));
                let holders: Vec<_> = holders.collect();
                self.adopt_holders(key, sharing, since_us, holders.into_iter(), cx);
                self.end_due_holders(key, cx);
            }
        }
        if left.is_empty() {
            self.drop_entry(key, cx);
        }
        over.is_empty()
    }

    fn drop_entry(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        self.changes += 1;
        cx.changes_mut().add();
        self.record_change(key, Event::NONE);
        self.interests.forget_fence(key);
        if let Some(entry) = self.detach(key, cx) {
            self.reclaimer.free(entry);
        }
    }

    pub(crate) fn for_each_key(&self, mut visit: impl FnMut(Key<'_>)) {
        for bucket in 0..self.table().buckets() {
            self.table().for_each_in(bucket, |entry| visit(self.key(entry.key())));
        }
    }

    /// Raises the flags of the watchers of existing keys.
    pub(crate) fn raise_watchers(&mut self, cx: &Cx) {
        let existing = self.interests.keys().filter(|key| self.unexpired(*key, cx).is_some());
        let existing: Vec<(u64, Box<[u8]>)> = existing.map(|key| (key.hash, key.bytes.into())).collect();
        for (hash, bytes) in &existing {
            self.notify_interested(Key { bytes, hash: *hash });
        }
    }
}
