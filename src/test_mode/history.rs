//! History of a namespace: the images of all keys as of the last checkpoint, the snapshots, and the latest writes with
//! the images that they have replaced.
//!
//! A checkpoint brings the images up to date for the keys that have changed since the last one. So an image is made
//! once for each key that has changed between two checkpoints, regardless of the number of changes, and is shared by
//! all its users.
//!
//! An image is a copy of the whole value, and a checkpoint stops all clients, so the copying at checkpoints that no
//! client has asked for is limited ([`CopyLimit::of_checkpoint`]). The images of larger values are missing until a
//! snapshot is taken. The value of such a key before a change is unknown: the writes up to the checkpoint after that
//! change are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::{ByKey, CopyLimit, Image, LockHolder, LockImage, Store, TooLarge, View};
use crate::test_mode::recorder::{ChangedKeys, Changes, Write};

/// Maximum number of snapshots of a namespace.
const SNAPSHOTS_MAX: usize = 100;
/// Maximum size of the remembered writes after a checkpoint, in bytes.
const BYTES_MAX: usize = 64 << 20;

pub(crate) type ImageMap = ByKey<Arc<Image>>;

/// Source texts of scripts and libraries.
#[derive(Clone, Default)]
pub(crate) struct ScriptTexts {
    /// Libraries of functions.
    pub(crate) libraries: Arc<Vec<Vec<u8>>>,
    /// Cached scripts, each with a flag that is true if it was loaded to stay.
    pub(crate) scripts: Arc<Vec<(Box<[u8]>, bool)>>,
}

/// Former states of the namespace.
#[derive(Default)]
pub(crate) struct NamespaceHistory {
    /// Images as of the last checkpoint.
    now: ImageMap,
    /// Keys without an image as of the last checkpoint, because it would have been too large.
    without: ByKey<()>,
    /// Libraries as of the last checkpoint.
    libraries: Arc<Vec<Vec<u8>>>,
    /// Spans between checkpoints, oldest first.
    spans: VecDeque<Span>,
    /// Number of the last writes that can be undone: limited by the settings, even if the first span has more writes.
    remembered: usize,
    /// Position in the log from which on all writes are known.
    known_from: u64,
    /// Snapshots in the order in which the namespace last was in their states.
    snapshots: Vec<Snapshot>,
}

/// Writes and changes between two checkpoints.
struct Span {
    writes: Vec<Write>,
    /// Images of the changed keys at the beginning.
    before: ByKey<Option<Arc<Image>>>,
    /// True if `before` has all keys that existed at the beginning.
    is_whole: bool,
    libraries: Arc<Vec<Vec<u8>>>,
}

/// Images of the changed keys as of the last checkpoint.
#[derive(Default)]
struct Before {
    images: ByKey<Option<Arc<Image>>>,
    /// True if all these images are known.
    is_complete: bool,
}

/// State that can be restored.
struct Snapshot {
    name: Box<[u8]>,
    images: ImageMap,
    texts: ScriptTexts,
    /// Keys that have changed since then, up to the next snapshot.
    changed: ByKey<()>,
}

/// State before the last writes.
#[derive(Default)]
pub(crate) struct PreviousState {
    /// Images of the keys before the writes to be repeated.
    pub(crate) before: ByKey<Option<Arc<Image>>>,
    /// Libraries at that time.
    pub(crate) libraries: Arc<Vec<Vec<u8>>>,
    /// Writes to be repeated.
    pub(crate) writes: Vec<Write>,
    /// Lock records after these writes.
    pub(crate) locks: ByKey<Option<LockImage>>,
}

impl NamespaceHistory {
    /// Brings the images up to date, and remembers about `max_writes` writes at most.
    pub(crate) fn checkpoint(
        &mut self,
        changes: Changes,
        libraries: Arc<Vec<Vec<u8>>>,
        max_writes: usize,
        (store, view): (&Store, &mut View<'_>),
    ) {
        let is_whole = matches!(changes.touched, ChangedKeys::All);
        let Before { images: before, is_complete } = self.follow(changes.touched, store, view);
        let libraries = std::mem::replace(&mut self.libraries, libraries);
        if !is_complete {
            return self.forget_writes(changes.end);
        }
        if !changes.has_all || max_writes == 0 {
            self.known_from = changes.end;
        }
        self.remembered = (self.remembered + changes.writes.len()).min(max_writes);
        let span = Span { writes: changes.writes, before, is_whole, libraries };
        if span.before.len() + span.writes.len() > 0 {
            if max_writes > 0 { self.spans.push_back(span) } else { store.reclaimer().free_later(span) }
        }
        self.trim(max_writes, store);
    }

    /// Removes the last `lost` writes, which have just been undone, and brings the images up to date.
    pub(crate) fn lose(
        &mut self,
        mut lost: usize,
        changes: Changes,
        libraries: Arc<Vec<Vec<u8>>>,
        (store, view): (&Store, &mut View<'_>),
    ) {
        let undone = self.follow(changes.touched, store, view).images;
        self.libraries = libraries;
        self.remembered -= lost;
        while let Some(latest) = self.spans.back_mut() {
            if let Some(kept) = latest.writes.len().checked_sub(lost) {
                latest.writes.truncate(kept);
                // Keys that existed only in between exist again.
                let between =
                    undone.iter().filter(|(db, key, _)| latest.is_whole && latest.before.get(*db, key).is_none());
                let between: Vec<_> = between.map(|(db, key, _)| (db, key.clone())).collect();
                between.into_iter().for_each(|(db, key)| _ = latest.before.insert(db, key, None));
                return;
            }
            lost -= latest.writes.len();
            self.spans.pop_back();
        }
    }

    /// Takes images of the changed keys; returns the former images.
    fn follow(&mut self, touched: ChangedKeys, store: &Store, view: &mut View<'_>) -> Before {
        let before = match touched {
            ChangedKeys::Keys(keys) => self.refresh(&keys, store, view),
            ChangedKeys::All => self.refresh_all(view),
        };
        if let Some(snapshot) = self.snapshots.last_mut() {
            snapshot.changed.add_keys(&before.images);
        }
        before
    }

    /// Takes images of some keys; returns the former images.
    fn refresh(&mut self, keys: &ByKey<()>, store: &Store, view: &mut View<'_>) -> Before {
        let (mut before, mut limit) = (Before { is_complete: true, ..Before::default() }, CopyLimit::of_checkpoint());
        for (db, key, ()) in keys.iter() {
            before.is_complete &= self.without.remove(db, key).is_none();
            let former = match view.images().of(db, store.key(key), &mut limit) {
                Ok(Some(image)) => self.now.insert(db, key.clone(), image),
                Ok(None) => self.now.remove(db, key),
                Err(TooLarge) => {
                    self.without.insert(db, key.clone(), ());
                    self.now.remove(db, key)
                }
            };
            before.images.insert(db, key.clone(), former);
        }
        before
    }

    /// Takes images of all keys; returns the former images.
    fn refresh_all(&mut self, view: &mut View<'_>) -> Before {
        let (now, without) = view.images().all(CopyLimit::of_checkpoint());
        let (former, unknown) = (std::mem::replace(&mut self.now, now), std::mem::replace(&mut self.without, without));
        let mut images = ByKey::default();
        images.add_keys(&self.now);
        images.add_keys(&self.without);
        images.add_keys(&unknown);
        former.iter().for_each(|(db, key, image)| _ = images.insert(db, key.clone(), Some(image.clone())));
        Before { images, is_complete: unknown.len() == 0 }
    }

    /// Takes the missing images, regardless of their size: a snapshot must have all of them. A checkpoint was made just
    /// before.
    pub(crate) fn complete(&mut self, store: &Store, view: &mut View<'_>) {
        for (db, key, ()) in std::mem::take(&mut self.without).iter() {
            if let Ok(Some(image)) = view.images().of(db, store.key(key), &mut CopyLimit::none()) {
                self.now.insert(db, key.clone(), image);
            }
        }
    }

    /// Forgets the oldest writes beyond the limits.
    fn trim(&mut self, max_writes: usize, store: &Store) {
        let mut writes: usize = self.spans.iter().map(|span| span.writes.len()).sum();
        let mut bytes: usize = self.spans.iter().map(Span::bytes).sum();
        while let Some(oldest) = self.spans.front()
            && (writes - oldest.writes.len() >= max_writes || bytes > BYTES_MAX)
        {
            (writes, bytes) = (writes - oldest.writes.len(), bytes - oldest.bytes());
            self.known_from = oldest.writes.last().map_or(self.known_from, |write| write.end);
            store.reclaimer().free_later(self.spans.pop_front());
        }
        self.remembered = self.remembered.min(writes);
    }

    /// Forgets all writes, up to a position in the log.
    pub(crate) fn forget_writes(&mut self, position: u64) {
        self.spans.clear();
        (self.remembered, self.known_from) = (0, position);
    }

    /// Forgets the state that serves only remembered writes, because no writes are remembered any more.
    pub(crate) fn stop_remembering(&mut self, position: u64) {
        self.forget_writes(position);
        if self.snapshots.is_empty() {
            (self.now, self.without) = Default::default();
        }
    }

    /// Returns the number of writes before the last checkpoint that can be undone.
    pub(crate) fn remembered(&self) -> usize {
        self.remembered
    }

    /// Returns the number of writes before the last checkpoint that lie behind a position in the log; `None` if some
    /// are unknown.
    pub(crate) fn behind(&self, position: u64) -> Option<usize> {
        let latest = self.spans.iter().rev().flat_map(|span| span.writes.iter().rev());
        (position >= self.known_from).then(|| latest.take_while(|write| write.end > position).count())
    }

    /// Returns the state before the last `lost` writes, if they are remembered. A checkpoint was made just before.
    pub(crate) fn former(&self, mut lost: usize) -> Option<PreviousState> {
        let mut former = PreviousState::default();
        for span in self.spans.iter().rev() {
            for (db, key, image) in span.before.iter() {
                former.before.insert(db, key.clone(), image.clone());
            }
            if lost > span.writes.len() {
                lost -= span.writes.len();
                continue;
            }
            former.libraries = span.libraries.clone();
            for (db, key, image) in former.before.iter() {
                if let Some(lock) = image.as_ref().and_then(|image| image.lock.clone()) {
                    former.locks.insert(db, key.clone(), Some(lock));
                }
            }
            former.writes = span.writes[..span.writes.len() - lost].to_vec();
            for write in &former.writes {
                for (db, key, lock) in write.locks.iter() {
                    former.locks.insert(db, key.clone(), lock.clone());
                }
            }
            return Some(former);
        }
        None
    }

    /// Saves the state as of the last checkpoint, which was made just before, under a name. Returns false if there are
    /// too many snapshots.
    pub(crate) fn add_snapshot(&mut self, name: &[u8], texts: ScriptTexts, store: &Store) -> bool {
        if let Some(at) = self.position(name) {
            store.reclaimer().free_later(self.take_snapshot(at));
        }
        let has_room = self.snapshots.len() < SNAPSHOTS_MAX;
        if has_room {
            let (name, images) = (name.into(), self.now.clone());
            self.snapshots.push(Snapshot { name, images, texts, changed: ByKey::default() });
        }
        has_room
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.snapshots.iter().position(|snapshot| *snapshot.name == *name)
    }

    /// Returns whether a snapshot of this name exists.
    pub(crate) fn has_snapshot(&self, name: &[u8]) -> bool {
        self.position(name).is_some()
    }

    /// Removes a snapshot. Its set of changed keys is added to that of the snapshot before it.
    fn take_snapshot(&mut self, at: usize) -> Snapshot {
        let taken = self.snapshots.remove(at);
        if let Some(earlier) = at.checked_sub(1).map(|at| &mut self.snapshots[at]) {
            earlier.changed.add_keys(&taken.changed);
        }
        taken
    }

    /// Restores the keys of a snapshot, and their images. A checkpoint was made just before. `is_connected` tells
    /// whether a lock holder is a connected client. Returns the texts to be restored.
    pub(crate) fn restore(
        &mut self,
        name: &[u8],
        (store, view): (&Store, &mut View<'_>),
        is_connected: impl Fn(&dyn LockHolder) -> bool,
    ) -> Option<ScriptTexts> {
        let at = self.position(name)?;
        let mut changed: ByKey<()> = ByKey::default();
        self.snapshots[at..].iter().for_each(|snapshot| changed.add_keys(&snapshot.changed));
        let (mut snapshot, mut inexact) = (self.take_snapshot(at), ByKey::default());
        let mut replaced = Vec::new();
        for (db, bytes, ()) in changed.iter() {
            let (image, key) = (snapshot.images.get(db, bytes), store.key(bytes));
            let is_known = self.without.remove(db, bytes).is_none();
            let is_same = match (image, self.now.get(db, bytes)) {
                _ if !is_known => false,
                (Some(image), Some(now)) => Arc::ptr_eq(image, now),
                (image, now) => image.is_none() && now.is_none(),
            };
            if is_same {
                continue;
            }
            let mut is_exact = view.images().restore(db, key, image.map(|image| &**image));
            if let Some(lock) = image.and_then(|image| image.lock.as_ref()) {
                is_exact &= view.locks().restore(db, key, lock, &is_connected);
            }
            let image = if is_exact {
                image.cloned()
            } else {
                view.images().of(db, key, &mut CopyLimit::none()).unwrap_or_default()
            };
            if !is_exact {
                inexact.insert(db, bytes.clone(), ());
            }
            replaced.push(match image {
                Some(image) => self.now.insert(db, bytes.clone(), image),
                None => self.now.remove(db, bytes),
            });
        }
        store.reclaimer().free_later(replaced);
        // The other snapshots are now reached from this one.
        if let Some(latest) = self.snapshots.last_mut() {
            latest.changed.add_keys(&changed);
        }
        let texts = snapshot.texts.clone();
        snapshot.changed = inexact;
        self.snapshots.push(snapshot);
        Some(texts)
    }
}

impl Span {
    fn bytes(&self) -> usize {
        self.writes.iter().map(Write::bytes).sum()
    }
}
