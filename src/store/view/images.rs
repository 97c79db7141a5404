//! Images of keys as a call sees them, which is declared EXCLUSIVE; see [`store::image`](crate::store::image).

use std::sync::Arc;

use crate::store::image::{ByKey, CopyLimit, Image, LockImage, TooLarge};
use crate::store::shard::{Key, Shard};
use crate::store::view::{Access, NOT_EXCLUSIVE, View, shard_of};
use crate::store::{Cx, LockHolder};

impl View<'_> {
    /// Returns the image of a key of any database; `None` of a missing key.
    ///
    /// # Errors
    /// When more would be copied than the limit admits.
    pub(crate) fn image(
        &mut self,
        db: usize,
        key: Key<'_>,
        limit: &mut CopyLimit,
    ) -> Result<Option<Arc<Image>>, TooLarge> {
        let image = self.in_shard(db, key, |shard, _| shard.image(key, limit))?;
        Ok(image.map(Arc::new))
    }

    /// Returns the images of all keys of all databases, and the keys whose images would be too large.
    pub(crate) fn images(&mut self, mut limit: CopyLimit) -> (ByKey<Arc<Image>>, ByKey<()>) {
        let (mut images, mut too_large) = (ByKey::default(), ByKey::default());
        self.each_shard(|shard, _| {
            let mut keys: Vec<(u64, Arc<[u8]>)> = Vec::new();
            shard.for_each_key(|key| keys.push((key.hash, key.bytes.into())));
            for (hash, bytes) in keys {
                match shard.image(Key { bytes: &bytes, hash }, &mut limit) {
                    Ok(Some(image)) => _ = images.insert(shard.db(), bytes, Arc::new(image)),
                    Ok(None) => {}
                    Err(TooLarge) => _ = too_large.insert(shard.db(), bytes, ()),
                }
            }
        });
        (images, too_large)
    }

    /// Sets a key of any database back to what it was, or removes it; returns whether it is what the image says. Watchers
    /// and caches are told by [`View::raise_watchers`] and [`View::announce_restored`].
    pub(crate) fn restore(&mut self, db: usize, key: Key<'_>, image: Option<&Image>) -> bool {
        self.in_shard(db, key, |shard, cx| shard.restore(key, image, cx))
    }

    /// Lets a key of any database be the lock again that it was; returns whether it is that now.
    pub(crate) fn restore_lock(
        &mut self,
        db: usize,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
    ) -> bool {
        self.in_shard(db, key, |shard, cx| shard.restore_lock(key, lock, is_connected, cx))
    }

    /// Raises the flags of those who watch existing keys; to be called before and after keys are restored.
    pub(crate) fn raise_watchers(&mut self) {
        self.each_shard(Shard::raise_watchers);
    }

    /// Tells the clients that cache keys to forget all.
    pub(crate) fn announce_restored(&mut self) {
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        databases.services().events.emit_flush();
    }

    fn in_shard<T>(&mut self, db: usize, key: Key<'_>, act: impl FnOnce(&mut Shard, &Cx) -> T) -> T {
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        act(databases.at_mut(db).shard_mut(shard_of(key.hash)), &self.cx)
    }

    fn each_shard(&mut self, mut act: impl FnMut(&mut Shard, &Cx)) {
        let Access::Whole(databases, _) = &mut self.access else { unreachable!("{NOT_EXCLUSIVE}") };
        databases.each_shard_mut(|shard| act(shard, &self.cx));
    }
}
