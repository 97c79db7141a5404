//! A holder of a lock, named by what the metrics page shows of it, which is never its token.

use crate::store::{Key, Lookup, View};

/// A holder, as a page has shown it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedHolder {
    /// Its fencing token. Readers have the same one.
    pub(crate) fence: i64,
    /// Its number among the holders of a shared lock or a semaphore, which no later one of them has.
    pub(crate) number: Option<u64>,
}

/// Why there is no such holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Nobody holds the lock, as far as it is known.
    Free,
    /// Others hold it.
    Others,
}

impl NamedHolder {
    /// Returns the token of the holder, if it still holds the lock.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn token(self, view: &mut View<'_>, key: Key<'_>) -> Result<Box<[u8]>, Absence> {
        view.lookup(key, Lookup::PEEK); // an expired key is deleted
        let record = match view.locks().holders(key) {
            Some(holders) => {
                let holder = self.number.and_then(|number| holders.get(number)).ok_or(Absence::Others)?;
                &holder.record
            }
            None => view.locks().record(key).ok_or(Absence::Free)?,
        };
        let is_it = record.fence == self.fence;
        is_it.then(|| record.token.clone()).ok_or(Absence::Others)
    }
}
