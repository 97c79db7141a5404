//! Former states of keys, for calls declared EXCLUSIVE; see [`store::image`](crate::store::image).

use std::sync::Arc;

use crate::store::changes::ChangeCx;
use crate::store::image::{ByKey, CopyLimit, Image, LockImage, TooLarge};
use crate::store::key::{Key, shard_of};
use crate::store::lock::LockHolder;
use crate::store::view::View;

/// The keys of all databases as they are and were.
pub(crate) struct Images<'v, 'a>(&'v mut View<'a>);

impl<'a> View<'a> {
    /// Returns the keys of all databases as they are and were; for calls declared EXCLUSIVE.
    pub(crate) fn images(&mut self) -> Images<'_, 'a> {
        Images(self)
    }
}

impl Images<'_, '_> {
    /// Returns the image of a key of any database; `None` of a missing key.
    ///
    /// # Errors
    /// When more would be copied than the limit admits.
    pub(crate) fn of(
        &mut self,
        db: usize,
        key: Key<'_>,
        limit: &mut CopyLimit,
    ) -> Result<Option<Arc<Image>>, TooLarge> {
        let image = self.0.access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.image(key, limit))?;
        Ok(image.map(Arc::new))
    }

    /// Returns the images of all keys of all databases, and the keys whose images would be too large.
    pub(crate) fn all(&mut self, mut limit: CopyLimit) -> (ByKey<Arc<Image>>, ByKey<()>) {
        let (mut images, mut too_large) = (ByKey::default(), ByKey::default());
        self.0.access.whole().0.each_shard_mut(|shard| {
            let keys = &shard.keys;
            let mut names: Vec<(u64, Arc<[u8]>)> = Vec::new();
            keys.for_each_key(|key| names.push((key.hash, key.bytes.into())));
            for (hash, bytes) in names {
                match keys.image(Key { bytes: &bytes, hash }, &mut limit) {
                    Ok(Some(image)) => _ = images.insert(keys.db(), bytes, Arc::new(image)),
                    Ok(None) => {}
                    Err(TooLarge) => _ = too_large.insert(keys.db(), bytes, ()),
                }
            }
        });
        (images, too_large)
    }

    /// Sets a key of any database back to what it was, or removes it; returns whether it is what the image says. Watchers
    /// and caches are told by [`Images::raise_watchers`] and [`Images::announce`]. What the call logs does not depend on it.
    pub(crate) fn restore(&mut self, db: usize, key: Key<'_>, image: Option<&Image>) -> bool {
        let View { access, cx, .. } = &mut *self.0;
        let cx = &mut ChangeCx::new(**cx);
        access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.restore(key, image, cx))
    }

    /// Lets a key of any database be the lock again that it was; returns whether it is that now.
    pub(crate) fn restore_lock(
        &mut self,
        db: usize,
        key: Key<'_>,
        lock: &LockImage,
        is_connected: impl Fn(&dyn LockHolder) -> bool,
    ) -> bool {
        let View { access, cx, .. } = &mut *self.0;
        let cx = &mut ChangeCx::new(**cx);
        access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.restore_lock(key, lock, is_connected, cx))
    }

    /// Raises the flags of those who watch existing keys; to be called before and after keys are restored.
    pub(crate) fn raise_watchers(&mut self) {
        let View { access, cx, .. } = &mut *self.0;
        access.whole().0.each_shard_mut(|shard| shard.keys.raise_watchers(cx));
    }

    /// Tells the clients that cache keys to forget all.
    pub(crate) fn announce(&mut self) {
        self.0.access.whole().0.services().events.emit_flush();
    }
}
