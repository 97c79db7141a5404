//! The history of a namespace: the images of all keys as of the last checkpoint, the snapshots, and the latest writes with the
//! images that they have replaced.
//!
//! A checkpoint brings the images up to date, for the keys that have changed since the last one. So an image is made once for
//! each key that has changed between two checkpoints, whatever was done to it, and is shared by all that need it.
//!
//! An image is a copy of the whole value, and a checkpoint stops all clients, so only so much is copied for one that no client
//! has asked for ([`CopyLimit::of_checkpoint`]). The images of larger values are missing until a snapshot is taken. What such a
//! value was before a change is not known: the writes up to the checkpoint behind that change are forgotten.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::{ByKey, CopyLimit, Image, LockHolder, LockImage, Store, TooLarge, View};
use crate::test_mode::recorder::{Changes, Touched, Write};

/// The maximum number of snapshots of a namespace.
const SNAPSHOTS_MAX: usize = 100;
/// The maximum number of bytes of writes that are remembered, at the next checkpoint.
const BYTES_MAX: usize = 64 << 20;

/// The images of keys.
pub(crate) type Images = ByKey<Arc<Image>>;

/// The texts of scripts and libraries.
#[derive(Clone, Default)]
pub(crate) struct ScriptTexts {
    /// The libraries of functions.
    pub(crate) libraries: Arc<Vec<Vec<u8>>>,
    /// The cached scripts, and whether each was loaded to stay.
    pub(crate) scripts: Arc<Vec<(Box<[u8]>, bool)>>,
}

/// What the namespace was.
#[derive(Default)]
pub(crate) struct History {
    /// The images as of the last checkpoint.
    now: Images,
    /// The keys that there were as of the last checkpoint without an image, because it would have been too large.
    without: ByKey<()>,
    /// The libraries as of the last checkpoint.
    libraries: Arc<Vec<Vec<u8>>>,
    /// What was written between checkpoints, oldest first.
    spans: VecDeque<Span>,
    /// How many of the last writes can be lost: no more than the settings say, even if the first span has others.
    remembered: usize,
    /// From where in the log on all writes are known.
    known_from: u64,
    /// In the order in which the namespace was last what they say.
    snapshots: Vec<Snapshot>,
}

/// What has happened between two checkpoints.
struct Span {
    writes: Vec<Write>,
    /// What the keys were before that have changed.
    before: ByKey<Option<Arc<Image>>>,
    /// Whether that has all keys that there were.
    is_whole: bool,
    libraries: Arc<Vec<Vec<u8>>>,
}

/// What the keys that have changed were at the last checkpoint.
#[derive(Default)]
struct Before {
    images: ByKey<Option<Arc<Image>>>,
    /// Whether all are known.
    is_complete: bool,
}

/// A state to go back to.
struct Snapshot {
    name: Box<[u8]>,
    images: Images,
    texts: ScriptTexts,
    /// The keys that have changed since then, up to the next snapshot.
    changed: ByKey<()>,
}

/// The state before the last writes.
#[derive(Default)]
pub(crate) struct Former {
    /// What the keys were before the writes to repeat.
    pub(crate) before: ByKey<Option<Arc<Image>>>,
    /// The libraries at that time.
    pub(crate) libraries: Arc<Vec<Vec<u8>>>,
    /// The writes to repeat.
    pub(crate) writes: Vec<Write>,
    /// What was known of locks when these were executed.
    pub(crate) locks: ByKey<Option<LockImage>>,
}

impl History {
    /// Brings the images up to date, and remembers at most about `max_writes` writes.
    pub(crate) fn checkpoint(
        &mut self,
        changes: Changes,
        libraries: Arc<Vec<Vec<u8>>>,
        max_writes: usize,
        (store, view): (&Store, &mut View<'_>),
    ) {
        let is_whole = matches!(changes.touched, Touched::All);
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
            match max_writes > 0 {
                true => self.spans.push_back(span),
                false => store.reclaimer().free_later(span),
            }
        }
        self.trim(max_writes, store);
    }

    /// Forgets the last `lost` writes, which were undone just now, and brings the images up to date.
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
                // Keys that were only there in between are there again.
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

    /// Takes images of what has changed; returns the former ones.
    fn follow(&mut self, touched: Touched, store: &Store, view: &mut View<'_>) -> Before {
        let before = match touched {
            Touched::Keys(keys) => self.refresh(&keys, store, view),
            Touched::All => self.refresh_all(view),
        };
        if let Some(snapshot) = self.snapshots.last_mut() {
            snapshot.changed.add_keys(&before.images);
        }
        before
    }

    /// Takes images of some keys; returns the former ones.
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

    /// Takes images of all keys; returns the former ones.
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

    /// Takes the images that are missing, however large they are: a snapshot must have all of them. There was a checkpoint just
    /// now.
    pub(crate) fn complete(&mut self, store: &Store, view: &mut View<'_>) {
        for (db, key, ()) in std::mem::take(&mut self.without).iter() {
            if let Ok(Some(image)) = view.images().of(db, store.key(key), &mut CopyLimit::none()) {
                self.now.insert(db, key.clone(), image);
            }
        }
    }

    /// Forgets the oldest writes that are too many.
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

    /// Forgets what is needed only for writes, which are not remembered any more.
    pub(crate) fn stop_remembering(&mut self, position: u64) {
        self.forget_writes(position);
        if self.snapshots.is_empty() {
            (self.now, self.without) = Default::default();
        }
    }

    /// Returns how many writes before the last checkpoint can be lost.
    pub(crate) fn remembered(&self) -> usize {
        self.remembered
    }

    /// Returns how many of the writes before the last checkpoint lie behind a position in the log; `None` if not all are known.
    pub(crate) fn behind(&self, position: u64) -> Option<usize> {
        let latest = self.spans.iter().rev().flat_map(|span| span.writes.iter().rev());
        (position >= self.known_from).then(|| latest.take_while(|write| write.end > position).count())
    }

    /// Returns what there was before the last `lost` writes, if they are remembered. There was a checkpoint just now.
    pub(crate) fn former(&self, mut lost: usize) -> Option<Former> {
        let mut former = Former::default();
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

    /// Remembers the state as of the last checkpoint, which was just now, by a name; false if there are too many.
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

    /// Returns whether there is a snapshot of this name.
    pub(crate) fn has_snapshot(&self, name: &[u8]) -> bool {
        self.position(name).is_some()
    }

    /// Takes a snapshot out; what has changed since then has also changed since the one before.
    fn take_snapshot(&mut self, at: usize) -> Snapshot {
        let taken = self.snapshots.remove(at);
        if let Some(earlier) = at.checked_sub(1).map(|at| &mut self.snapshots[at]) {
            earlier.changed.add_keys(&taken.changed);
        }
        taken
    }

    /// Sets the keys back to a snapshot, and their images; there was a checkpoint just now. `is_connected` tells which clients
    /// are. Returns the texts to go back to.
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
                is_exact &= view.images().restore_lock(db, key, lock, &is_connected);
            }
            let image = match is_exact {
                true => image.cloned(),
                false => view.images().of(db, key, &mut CopyLimit::none()).unwrap_or_default(),
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
        // For the others, the way back leads through this one.
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
