//! Loads a snapshot file.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use tracing::{info, warn};

use crate::dispatch::texts;
use crate::durability::deadlines::step_ms;
use crate::durability::progress::LoadProgress;
use crate::durability::save::{CUT_AT, HISTORY, LAST_FENCE, POSITION, STREAM_DB};
use crate::durability::worker::FilesWorker;
use crate::namespace::Namespace;
use crate::namespace::history::{HistoryPosition, ID_LEN};
use crate::persist::Loading;
use crate::persist::aof::Timestamp;
use crate::persist::disk::sync_found;
use crate::persist::rdb_file::{FileItem, FileReader, ReadOptions, RetiredFence, Usage};
use crate::resp::parse_int;
use crate::store::entry::Entry;
use crate::store::fences::Retired;
use crate::store::{Cx, Key as StoredKey, Origin, Store, View, usage};
use crate::text::system_text;
use crate::time::clock::Now;

/// Number of keys that are added before other clients get their turn.
const BATCH: usize = 1_000;

/// Number of keys that are prefetched before the first of them is added: enough to overlap their cache misses.
const PREFETCHED: usize = 64;

/// Least number of bytes of a key in a file.
const KEY_LEN_MIN: u64 = 4;

/// Largest number of keys to reserve room for, if the length of a file is not known.
const RESERVED_MAX: u64 = 1 << 20;

/// Number of batches that may be read ahead of the added ones.
const BATCHES_AHEAD: usize = 8;

/// Treatment of keys that exist already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    /// An existing key means that the file is damaged.
    Refuse,
    /// An existing key is replaced.
    Replace,
}

/// Rules for adding the keys of a file.
#[derive(Clone, Copy)]
pub(super) struct LoadRules<'s> {
    /// The target store, if it is not that of the namespace. The libraries of functions are not added then.
    pub(super) beside: Option<&'s Store>,
    pub(super) duplicates: Duplicates,
    /// Set if expired keys are added, too: commands that follow may give them another deadline.
    pub(super) keeps_expired: bool,
}

/// Numbers of keys loaded from a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LoadedKeys {
    pub(super) keys: u64,
    pub(super) expired: u64,
}

/// Content of an RDB file besides its keys.
pub(super) struct RdbContent<R> {
    /// Time of the cut, if the file has it.
    pub(super) cut_at: Option<Timestamp>,
    /// The replication ID and offset of the data, if the file has them.
    pub(super) place: Option<HistoryPosition>,
    /// The database that is selected in the replication stream behind the data.
    pub(super) stream_db: usize,
    /// Source codes of the libraries of functions.
    pub(super) libraries: Vec<Vec<u8>>,
    /// Length of the RDB data.
    pub(super) end: u64,
    /// Data behind the RDB data.
    pub(super) rest: R,
}

impl FilesWorker {
    /// Loads the snapshot file, if there is one; returns the replication ID and offset of the data, if the file has
    /// them.
    pub(super) fn load_snapshot(&self, duplicates: Duplicates) -> Result<Option<Option<HistoryPosition>>, String> {
        let config = self.namespace.settings.current();
        let Some(name) = &config.dbfilename else { return Ok(None) };
        let path = config.dir.join(name);
        let (file, len) = match self.disk.read(&path) {
            Ok(opened) => opened,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(format!("can't open {}: {}", path.display(), system_text(&cause))),
        };
        self.begin_loading(len);
        let begun = self.namespace.clock.now();
        let keeps_expired = self.namespace.role.is_replica(); // the primary deletes expired keys
        let content = self.load_rdb(&path, file, Some(len), LoadRules { beside: None, duplicates, keeps_expired })?;
        self.continue_time(content.cut_at.as_ref());
        info!("DB loaded from disk: {:.3} seconds", self.seconds_since(begun));
        // The process that wrote the file may have ended before it was durable, and clients must not see data that a
        // crash takes back.
        if let Err(cause) = sync_found(&*self.disk, &path) {
            let cause = system_text(&cause);
            warn!("{} was loaded, and may be lost in a power cut: it cannot be synced: {cause}", path.display());
        }
        Ok(Some(content.place))
    }

    pub(super) fn seconds_since(&self, begun: Now) -> f64 {
        (self.namespace.clock.now().mono_us() - begun.mono_us()) as f64 / 1e6
    }

    /// Resets the figures at the start of a load of `total` bytes.
    pub(super) fn begin_loading(&self, total: u64) {
        let begun_ms = self.namespace.clock.now().wall_ms();
        let is_beside = self.namespace.restrictions.is_loading_beside();
        self.namespace.persistence.update(|figures| {
            (figures.keys_loaded, figures.keys_expired) = (0, 0);
            figures.loading = Some(Loading { begun_ms, total, read: 0, is_beside });
        });
    }

    /// Loads the keys of an RDB file: this thread reads them, another one adds them.
    ///
    /// # Errors
    /// The fault in the file, and its place.
    pub(super) fn load_rdb<R: Read>(
        &self,
        path: &Path,
        file: R,
        len: Option<u64>,
        rules: LoadRules<'_>,
    ) -> Result<RdbContent<impl Read + use<R>>, String> {
        let namespace = &*self.namespace;
        let store = rules.beside.unwrap_or(&namespace.store);
        let (config, now) = (namespace.settings.current(), namespace.clock.now());
        let options =
            ReadOptions { limits: config.limits(), hasher: namespace.store.hasher(), checks: config.rdbchecksum };
        let named = |reason: &dyn Display| format!("{}: {reason}", path.display());
        let mut reader = FileReader::new(file, len, options).map_err(|error| named(&error))?;
        info!("Loading {}, an RDB file of version {}", path.display(), reader.version());
        let keys_max = len.map_or(RESERVED_MAX, |len| len / KEY_LEN_MIN);
        let mut content = Content { keys_max, ..Content::default() };
        let added = thread::scope(|scope| {
            let (send, batches) = mpsc::sync_channel(BATCHES_AHEAD);
            let (loaded, is_followed) = (LoadedKeys::default(), self.log.is_some());
            let add = move || KeyAdder { namespace, store, now, rules, is_followed, loaded }.add_all(batches);
            let thread = thread::Builder::new().name("load".into()).spawn_scoped(scope, add);
            let thread = thread.map_err(|cause| system_text(&cause))?;
            let read = self.read_all(&mut content, &mut reader, &send, (store, config.databases));
            drop(send);
            let added = thread.join().unwrap_or_else(|_| Err("a thread has panicked".into()));
            // The reader only stops early because of its own error, or because the other thread has ended with one.
            read.and(added)
        });
        let loaded = added.map_err(|reason| named(&reason))?;
        let (LoadedKeys { keys, expired }, empty) = (loaded, content.empty);
        info!("Done loading RDB, keys loaded: {keys}, keys expired: {expired}, empty keys skipped: {empty}.");
        if !content.libraries.is_empty() && rules.beside.is_none() {
            let added = texts::add_libraries(namespace, &content.libraries, rules.duplicates == Duplicates::Replace);
            added.map_err(|error| named(&String::from_utf8_lossy(&error.wire_text())))?;
        }
        let end = reader.offset();
        let (Content { cut_at, history, position, stream_db, libraries, .. }, rest) = (content, reader.into_rest());
        let place = history.zip(position).map(|(id, position)| HistoryPosition { id, position, db: stream_db });
        Ok(RdbContent { cut_at, place, stream_db, libraries, end, rest })
    }

    /// Reads a file to its end, and passes the keys on.
    fn read_all(
        &self,
        content: &mut Content,
        reader: &mut FileReader<'_, impl Read>,
        send: &SyncSender<Batch>,
        into: (&Store, u32),
    ) -> Result<(), String> {
        let namespace = &*self.namespace;
        let (mut is_over, mut progress, present) = (false, LoadProgress::new(&namespace.clock), self.moment());
        while !is_over {
            if namespace.persistence.cancelled().load(Relaxed) {
                return Err("the server was stopped while it loaded its data".into());
            }
            let mut batch = Batch { keys: Vec::with_capacity(BATCH), retired: Vec::new(), has_place: false };
            is_over = content.read_batch((namespace, &present), reader, into, &mut batch)?;
            batch.has_place = content.history.is_some();
            self.delay(batch.keys.len());
            if send.send(batch).is_err() {
                return Ok(()); // the other thread returns the reason
            }
            self.note_read(reader.offset(), &mut progress);
        }
        Ok(())
    }

    /// Waits for `key-load-delay` after each of `keys` keys, for tests.
    fn delay(&self, keys: usize) {
        let each = self.namespace.settings.current().key_load_delay;
        let us = if each < 0 { keys as u64 / each.unsigned_abs() } else { keys as u64 * each.unsigned_abs() };
        let mut left = Duration::from_micros(us);
        while !left.is_zero() && !self.namespace.persistence.cancelled().load(Relaxed) {
            let part = left.min(Duration::from_millis(50));
            thread::park_timeout(part);
            left -= part;
        }
    }
}

struct Key {
    db: usize,
    hash: u64,
    entry: Entry,
    usage: Option<Usage>,
    fence: i64,
    lock: Option<Box<[u8]>>,
}

/// A part of a file's content, in any order: a key in a batch has not been removed.
struct Batch {
    keys: Vec<Key>,
    retired: Vec<RetiredFence<Box<[u8]>>>,
    /// Set if the file names the replication ID of the data, from which replicas may continue.
    has_place: bool,
}

/// Content read so far besides the keys.
#[derive(Default)]
struct Content {
    /// The largest number of keys that fit in the file.
    keys_max: u64,
    /// The database that was selected last.
    db: usize,
    libraries: Vec<Vec<u8>>,
    cut_at: Option<Timestamp>,
    /// Replication ID and offset of the data.
    history: Option<String>,
    position: Option<u64>,
    stream_db: usize,
    /// The milliseconds by which the clock was set since the cut.
    step_ms: i64,
    /// Number of keys without elements, which Redis leaves out, too.
    empty: u64,
}

impl Content {
    /// Reads some keys; returns true at the end of the file.
    fn read_batch(
        &mut self,
        (namespace, present): (&Namespace, &Timestamp),
        reader: &mut FileReader<'_, impl Read>,
        (store, databases): (&Store, u32),
        batch: &mut Batch,
    ) -> Result<bool, String> {
        while batch.keys.len() + batch.retired.len() < BATCH {
            match reader.read().map_err(|error| error.to_string())? {
                FileItem::Entry { entry, usage, fence, lock } => {
                    let hash = store.hash(entry.key());
                    batch.keys.push(Key { db: self.db, hash, entry, usage, fence, lock });
                }
                // Clients cannot write to a database that does not exist.
                FileItem::RetiredFence(retired)
                    if !store.may_use(usize::try_from(retired.db).unwrap_or(usize::MAX)) => {}
                FileItem::RetiredFence(retired) => {
                    let removed_ms = retired.removed_ms.saturating_add(self.step_ms);
                    batch.retired.push(RetiredFence { removed_ms, ..retired });
                }
                FileItem::Select(db) if store.may_use(usize::try_from(db).unwrap_or(usize::MAX)) => {
                    self.db = db as usize;
                }
                FileItem::Select(db) => {
                    return Err(format!("it has keys of database {db}, and 'databases' is {databases}"));
                }
                FileItem::Aux { key, value } if *key == *LAST_FENCE => {
                    parse_int(&value).into_iter().for_each(|fence| namespace.lock_holders.continue_after(fence));
                }
                FileItem::Aux { key, value } if *key == *CUT_AT => {
                    self.cut_at = Timestamp::parse(&value);
                    self.step_ms = self.cut_at.as_ref().map_or(0, |cut_at| step_ms(cut_at, present));
                }
                FileItem::Aux { key, value } if *key == *STREAM_DB => {
                    self.stream_db = parse_int(&value).and_then(|db| usize::try_from(db).ok()).unwrap_or(0);
                }
                FileItem::Aux { key, value } if *key == *POSITION => {
                    self.position = parse_int(&value).and_then(|position| u64::try_from(position).ok());
                }
                FileItem::Aux { key, value } if *key == *HISTORY && value.len() == ID_LEN => {
                    self.history = String::from_utf8(value.into()).ok();
                }
                FileItem::Aux { .. } => {}
                FileItem::Resize { keys, with_ttl } => {
                    // Keys with a deadline may have expired. A damaged file has no more keys than fit in it.
                    let keys = keys.saturating_sub(with_ttl).min(self.keys_max);
                    let mut hold = store.hold(1);
                    let cx = Cx::new(namespace.clock.now(), Origin::Replay);
                    hold.view(0, &[], cx).reserve(self.db, keys as usize);
                }
                FileItem::Library(code) => self.libraries.push(code.into()),
                FileItem::Skipped { key } => {
                    info!("skipping empty key: {}", key.escape_ascii());
                    self.empty += 1;
                }
                FileItem::End { is_checked } => {
                    if !is_checked {
                        info!("The RDB file has no checksum, or none is wanted: not checked");
                    }
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Adder of a file's keys to the store.
struct KeyAdder<'n> {
    namespace: &'n Namespace,
    store: &'n Store,
    now: Now,
    rules: LoadRules<'n>,
    /// True if replicas or the append-only file may have the same keys, and so have to be told of a deleted one: an
    /// expired key is added then, and deleted by the sweeper, which logs that.
    is_followed: bool,
    loaded: LoadedKeys,
}

impl KeyAdder<'_> {
    /// Adds the keys of all batches.
    fn add_all(mut self, batches: Receiver<Batch>) -> Result<LoadedKeys, String> {
        let now = self.now;
        let cx = || Cx::new(now, Origin::Replay);
        for batch in batches {
            self.is_followed |= batch.has_place;
            let (mut hold, mut keys) = (self.store.hold(1), batch.keys.into_iter());
            while let [first, ..] = keys.as_slice() {
                let (db, window) = (first.db, keys.as_slice().iter().take(PREFETCHED));
                let count = window.take_while(|key| key.db == db).count();
                hold.prefetch_insertions(db, keys.as_slice()[..count].iter().map(|key| (key.hash, &key.entry)));
                let mut view = hold.view(0, &[], cx());
                keys.by_ref().take(count).try_for_each(|key| self.add(&mut view, key))?;
            }
            let mut view = hold.view(0, &[], cx());
            batch.retired.into_iter().for_each(|retired| self.add_retired(&mut view, &retired));
            let LoadedKeys { keys, expired } = self.loaded;
            self.namespace.persistence.update(|figures| (figures.keys_loaded, figures.keys_expired) = (keys, expired));
        }
        Ok(self.loaded)
    }

    /// Retains the fence of a removed key for the rest of its time.
    fn add_retired(&self, view: &mut View<'_>, RetiredFence { db, fence, removed_ms, key }: &RetiredFence<Box<[u8]>>) {
        // A clock that was set back makes no age negative.
        let age_ms = self.now.wall_ms().saturating_sub(*removed_ms).max(0);
        let retired = Retired { fence: *fence, at_ms: self.now.mono_ms().cast_signed().saturating_sub(age_ms) };
        let key = StoredKey { bytes: key, hash: self.namespace.store.hash(key) };
        view.load_retired_fence(*db as usize, key, retired);
    }

    fn add(&mut self, view: &mut View<'_>, Key { db, hash, entry, usage, fence, lock }: Key) -> Result<(), String> {
        let has_expired = entry.deadline().is_some_and(|deadline| deadline.is_due(self.now));
        let is_over = has_expired && !self.rules.keeps_expired;
        if is_over && !self.is_followed {
            self.loaded.expired += 1;
            if let Some(deadline) = entry.deadline().filter(|_| fence != 0) {
                let (db, removed_ms) = (db as u64, deadline.wall_ms(self.now));
                self.add_retired(view, &RetiredFence { db, fence, removed_ms, key: entry.key().into() });
            }
            return Ok(());
        }
        let rule = self.namespace.store.memory_account().rule();
        entry.set_usage(match usage {
            Some(Usage::Frequency(count)) if rule.counts() => usage::used_often(count, self.now),
            Some(Usage::Idle(idle_s)) if !rule.counts() => usage::idle_for(idle_s, self.now),
            _ => rule.fresh(self.now),
        });
        let lock = lock.map(|text| (Box::<[u8]>::from(entry.key()), text));
        let replaced = view.load(db, hash, entry, fence);
        if let Some((key, text)) = lock {
            self.namespace.adopt_lock((db, StoredKey { bytes: &key, hash }), &text, view);
        }
        if let Some(name) = replaced
            && self.rules.duplicates == Duplicates::Refuse
        {
            return Err(format!("it has the key '{}' of database {db} twice", name.escape_ascii()));
        }
        if is_over {
            self.loaded.expired += 1;
        } else {
            self.loaded.keys += 1;
        }
        Ok(())
    }
}
