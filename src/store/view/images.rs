//! Former states of keys, for calls declared EXCLUSIVE; see [`store::image`](crate::store::image).

use std::sync::Arc;

use crate::store::image::{ByKey, CopyLimit, Image, TooLarge};
use crate::store::key::{Key, shard_of};
use crate::store::view::View;

/// Access to the images of the keys of all databases.
pub(crate) struct Images<'v, 'a>(&'v mut View<'a>);

impl<'a> View<'a> {
    /// Returns access to the images of keys; for calls declared EXCLUSIVE.
    pub(crate) fn images(&mut self) -> Images<'_, 'a> {
        Images(self)
    }
}

impl Images<'_, '_> {
    /// Returns the image of a key of any database; `None` for a missing key.
    ///
    /// # Errors
    /// [`TooLarge`] if more would be copied than the limit admits.
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

    /// Restores a key of any database from an image, or removes it; returns false if the image has expired meanwhile.
    /// Watchers and caches are notified by [`Images::raise_watchers`] and [`Images::announce`]. It adds nothing to the
    /// call's log record.
    pub(crate) fn restore(&mut self, db: usize, key: Key<'_>, image: Option<&Image>) -> bool {
        let View { access, cx, .. } = &mut *self.0;
        let cx = &mut cx.uncounted();
        access.with_shard(Some(db), shard_of(key.hash), |shard| shard.keys.restore(key, image, cx))
    }

    /// Raises the flags of the watchers of existing keys; to be called before and after keys are restored.
    pub(crate) fn raise_watchers(&mut self) {
        let View { access, cx, .. } = &mut *self.0;
        access.whole().0.each_shard_mut(|shard| shard.keys.raise_watchers(cx));
    }

    /// Tells the clients that cache keys to forget all keys.
    pub(crate) fn announce(&mut self) {
        self.0.access.whole().0.services().events.emit_flush();
    }
}
