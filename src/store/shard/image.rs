//! Images of the keys of a shard, and restoring keys from them: a bulk version of the funnel, whose caller notifies
//! watchers and caches of all keys at once.

use crate::store::changes::ChangeCx;
use crate::store::cx::Cx;
use crate::store::event::Event;
use crate::store::image::{CopyLimit, Image, TooLarge};
use crate::store::key::Key;
use crate::store::shard::Keys;
use crate::store::shard::field_deadlines::nearest_deadline;
use crate::store::shard::keys::is_expired;

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
        Ok(Some(Image { entry: entry.copy(key.bytes), fence: self.fence(key), lock: self.lock_image(key) }))
    }

    /// Restores a key from an image, or removes it, without an event; returns false if the image has expired meanwhile,
    /// so that the key was removed instead. The present lock of the key is lost, unless the image contains the same
    /// lock.
    pub(crate) fn restore(&mut self, key: Key<'_>, image: Option<&Image>, cx: &mut ChangeCx<'_>) -> bool {
        let alive = image.filter(|image| !is_expired(&image.entry, cx));
        self.lose_other_lock(key, alive.and_then(|image| image.lock.as_ref()), cx);
        self.drop_entry(key, cx);
        if let Some(image) = alive {
            let entry = image.entry.copy(key.bytes);
            let (of, nearest) = (entry.kind(), nearest_deadline(&entry));
            self.attach(key, entry, cx);
            self.record_fields(key, of, false, nearest, cx);
            self.set_fence(key, image.fence);
        }
        image.is_some() == alive.is_some()
    }

    pub(super) fn drop_entry(&mut self, key: Key<'_>, cx: &mut ChangeCx<'_>) {
        self.changes += 1;
        cx.changes_mut().add();
        self.record_change(key, Event::NONE);
        self.sidecars_forget_value(key);
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
            self.notify_waiters(Key { bytes, hash: *hash });
        }
    }
}
