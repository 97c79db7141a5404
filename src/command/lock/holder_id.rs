//! A holder of a lock, identified by numbers that the metrics page may show, unlike its token.

use crate::store::{Key, Lookup, View};

/// A holder, as a page has shown it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedHolder {
    /// The fencing token, which all readers of a lock share.
    pub(crate) fence: i64,
    /// The number among the holders of a shared lock or a semaphore, which is not reused.
    pub(crate) number: Option<u64>,
}

/// The reason why a holder is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderNotFound {
    /// The lock has no holder, as far as is known.
    Free,
    /// The lock has other holders.
    Others,
}

impl NamedHolder {
    /// Returns the token of the holder, if it still holds the lock.
    ///
    /// # Errors
    /// The holder does not hold the lock any more.
    pub(crate) fn token(self, view: &mut View<'_>, key: Key<'_>) -> Result<Box<[u8]>, HolderNotFound> {
        view.lookup(key, Lookup::PEEK); // an expired key is deleted
        let record = match view.locks().holders(key) {
            Some(holders) => {
                let holder = self.number.and_then(|number| holders.get(number)).ok_or(HolderNotFound::Others)?;
                &holder.record
            }
            None => view.locks().record(key).ok_or(HolderNotFound::Free)?,
        };
        let is_it = record.fence == self.fence;
        is_it.then(|| record.token.clone()).ok_or(HolderNotFound::Others)
    }
}
