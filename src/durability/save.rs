//! Writes the snapshot file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tracing::{info, warn};

use crate::config::Config;
use crate::dispatch::texts;
use crate::durability::progress::LoadProgress;
use crate::durability::worker::{FilesWorker, annotations};
use crate::memory::marked::MarkedBytes;
use crate::namespace::Namespace;
use crate::namespace::history::HistoryPosition;
use crate::persist::aof::Timestamp;
use crate::persist::disk::write_all;
use crate::persist::rdb_file::{self, FileOptions};
use crate::persist::snapshot::{Snapshot, SnapshotForm, SnapshotOptions, WrittenSnapshot};
use crate::persist::{FileJob, Job, Order};
use crate::rdb;
use crate::store::{Cx, ExclusiveHold, Origin, Totals};
use crate::text::{REDIS_VERSION, system_text};
use crate::time::clock::Now;

/// AUX field with the last fencing token that was given.
pub(super) const LAST_FENCE: &[u8] = b"keylatch-last-fence";

/// AUX field with the time of the cut.
pub(super) const CUT_AT: &[u8] = b"keylatch-cut-at";

/// AUX fields with the replication ID and offset of the data.
pub(super) const STREAM_DB: &[u8] = b"repl-stream-db";
pub(super) const HISTORY: &[u8] = b"repl-id";
pub(super) const POSITION: &[u8] = b"repl-offset";

/// A written snapshot.
pub(super) struct SavedSnapshot {
    pub(super) written: WrittenSnapshot,
    /// Number of changes at the cut.
    pub(super) changes: u64,
    /// True for an RDB file, false for commands.
    pub(super) is_rdb: bool,
}

impl FilesWorker {
    /// Writes a snapshot and updates the figures.
    ///
    /// # Errors
    /// The reason of the failure.
    pub(super) fn write(&mut self, job: Job, order: Option<Order>) -> Result<(), String> {
        let (namespace, begun) = (self.namespace.clone(), self.namespace.clock.now());
        self.due.tried_ms = begun.mono_ms();
        namespace.persistence.begin_job();
        let is_awaited = order.is_some_and(Order::is_awaited);
        namespace.persistence.update(|figures| figures.begun_in_background += u64::from(!is_awaited));
        if !is_awaited {
            info!("Background {} started", name(job));
        }
        let saved = namespace.instance.panics.catch("snapshot", || match job {
            Job::Save => self.save(order, begun),
            Job::Rewrite => self.rewrite(order, begun),
        });
        let saved = saved.unwrap_or_else(|| Err("the thread has panicked".into()));
        // A disk that stands still is no reason to reject writes before it reports an error.
        let is_given_up = saved.is_err() && namespace.store.reclaimer().has_given_up();
        self.due.has_failed = saved.is_err();
        let ended = namespace.clock.now();
        let took_s = ended.ms_since(begun.mono_us()) / 1000;
        namespace.persistence.update(|figures| {
            figures.work = None;
            if let (Ok(saved), Job::Save) = (&saved, job) {
                // By the clock as it is now.
                let saved_ms = ended.wall_offset_ms().saturating_add_unsigned(begun.mono_ms());
                (figures.saved_ms, figures.saved_changes) = (saved_ms, saved.changes);
            }
            let is_told = saved.is_err() && is_awaited || is_given_up;
            if !is_told && !namespace.persistence.cancelled().load(Relaxed) {
                figures.outcome(job).record(saved.as_ref().err().cloned(), took_s);
            }
        });
        match &saved {
            Ok(SavedSnapshot { written, .. }) => {
                let (len, former) = (written.len, written.former_len);
                if job == Job::Save {
                    info!("DB saved on disk: {len} bytes, of them {former} of keys changed meanwhile");
                }
                if !is_awaited {
                    info!("Background {} terminated with success", name(job));
                }
            }
            Err(reason) if is_awaited => warn!("Error saving DB on disk: {reason}"),
            Err(reason) => warn!("Background {} error: {reason}", name(job)),
        }
        namespace.follow_files();
        if let Some(order) = order {
            namespace.persistence.end(order, saved.as_ref().err().cloned());
        }
        saved.map(drop)
    }

    /// Writes the snapshot file.
    pub(super) fn save(&mut self, order: Option<Order>, begun: Now) -> Result<SavedSnapshot, String> {
        let config = self.namespace.settings.current();
        let Some(name) = &config.dbfilename else {
            return Err("no file is set to save to (dbfilename)".into());
        };
        let (dir, path) = (config.dir.clone(), config.dir.join(name));
        let part = unfinished(&dir);
        let saved = self.write_file(&part, (Job::Save, order), begun, || {}).and_then(|saved| {
            self.disk.rename(&part, &path)?;
            self.disk.sync_dir(&dir)?;
            Ok(saved)
        });
        saved.map_err(|cause| {
            let _ = self.disk.remove(&part); // if the file exists
            let free = self.disk.free_space(&dir).map_or(String::new(), |free| format!(", {free} bytes are free"));
            format!("{} (writing {}{free})", system_text(&cause), part.display())
        })
    }

    /// Writes a snapshot to a new file and syncs it; `at_cut` is called while the gate is held exclusively.
    pub(super) fn write_file(
        &self,
        path: &Path,
        (job, order): (Job, Option<Order>),
        begun: Now,
        at_cut: impl FnOnce(),
    ) -> io::Result<SavedSnapshot> {
        let namespace = &*self.namespace;
        let config = namespace.settings.current();
        let output = namespace.persistence.begin_file(|| self.disk.create(path))?;
        let mut held = namespace.store.exclusive();
        let databases = totals(&mut held, begun);
        let mut sum = Totals::default();
        databases.iter().for_each(|(_, totals)| sum += *totals);
        let (options, moment) = (options(&config, job), self.moment());
        let (libraries, place) = (texts::libraries(namespace), namespace.place());
        at_cut();
        let snapshot = Snapshot::cut(&namespace.store, &mut held, options, begun);
        drop(held);
        let keys = snapshot.keys as u64;
        namespace.persistence.update(|figures| {
            figures.work = Some(FileJob { job, begun_ms: begun.wall_ms(), keys, written: 0 });
        });
        if let Some(order) = order {
            namespace.persistence.begin(order);
        }
        let head = match options.form {
            SnapshotForm::File(..) => {
                let is_base = job == Job::Rewrite;
                // A replica that is restarted continues from this time.
                let cut_at = Some(&moment).filter(|_| is_base || namespace.clock.is_following());
                head(namespace, options.form, (&databases, &libraries), begun, (is_base, cut_at), place.as_ref())
            }
            SnapshotForm::Commands => head_of_commands(namespace, &libraries, &moment),
        };
        let (mut progress, mut len) = (LoadProgress::new(&namespace.clock), 0);
        let written = snapshot.write(
            head,
            &namespace.clock,
            namespace.persistence.cancelled(),
            &mut |bytes| {
                len += bytes.len() as u64;
                progress.tell("keys", || {
                    let work = namespace.persistence.read(|figures| figures.work);
                    (format!("Progress of {}", name(job)), (work.map_or(0, |work| work.written), keys), len)
                });
                write_all(&*output, bytes)
            },
            &|keys| {
                namespace.persistence.update(|figures| {
                    if let Some(work) = &mut figures.work {
                        work.written += keys;
                    }
                });
            },
        )?;
        if written.version > options.form.version() {
            if config.rdb_version != 0 {
                let reason =
                    format!("the data needs version {}, and rdb-version is {}", written.version, config.rdb_version);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            let mut header = Vec::new();
            rdb_file::header(&mut header, written.version);
            self.disk.update(path)?.write_at(&header, 0)?;
        }
        output.sync_data()?;
        Ok(SavedSnapshot { written, changes: sum.changes, is_rdb: matches!(options.form, SnapshotForm::File(..)) })
    }
}

/// Returns the path of a snapshot while it is written, as Redis names it.
pub(crate) fn unfinished(dir: &Path) -> PathBuf {
    dir.join(format!("temp-{}.rdb", std::process::id()))
}

/// Returns the name of a job in the log of Redis.
fn name(job: Job) -> &'static str {
    match job {
        Job::Save => "saving",
        Job::Rewrite => "append only file rewriting",
    }
}

/// Returns the totals of each database that has keys.
pub(super) fn totals(held: &mut ExclusiveHold<'_>, at: Now) -> Vec<(usize, Totals)> {
    let mut view = held.view(0, Cx::new(at, Origin::HOST));
    let databases = view.used_databases();
    databases.into_iter().map(|db| (db, view.in_db(db, |view| view.totals()))).collect()
}

/// Returns the options of a snapshot: the lowest version that expresses the data, unless one is set; or commands, if
/// the base of an append-only file is to consist of these.
fn options(config: &Config, job: Job) -> SnapshotOptions {
    let version = match config.rdb_version {
        0 => rdb::VERSION,
        version => version as u16,
    };
    let form = if job == Job::Save || config.aof_use_rdb_preamble {
        SnapshotForm::File(FileOptions { version, compresses: config.rdbcompression }, config.rdbchecksum)
    } else {
        SnapshotForm::Commands
    };
    SnapshotOptions { form, ..snapshot_options(config) }
}

/// Returns the options of a snapshot in the lowest version of the format.
pub(super) fn snapshot_options(config: &Config) -> SnapshotOptions {
    let options = FileOptions { version: rdb::VERSION, compresses: config.rdbcompression };
    SnapshotOptions {
        form: SnapshotForm::File(options, config.rdbchecksum),
        has_usage: config.maxmemory_policy.needs_usage(),
        delay: Duration::from_micros(u64::try_from(config.rdb_key_save_delay).unwrap_or(0)),
    }
}

/// Returns the start of an RDB file, up to the first key; that of a base has the time of its cut.
pub(super) fn head(
    namespace: &Namespace,
    form: SnapshotForm,
    (databases, libraries): (&[(usize, Totals)], &[Vec<u8>]),
    at: Now,
    (is_base, cut_at): (bool, Option<&Timestamp>),
    place: Option<&HistoryPosition>,
) -> MarkedBytes {
    let (mut head, mut number) = (MarkedBytes::default(), itoa::Buffer::new());
    rdb_file::header(&mut head, form.version());
    rdb_file::aux(&mut head, b"redis-ver", REDIS_VERSION.as_bytes());
    rdb_file::aux(&mut head, b"redis-bits", b"64");
    rdb_file::aux(&mut head, b"ctime", number.format(at.wall_ms().div_euclid(1000)).as_bytes());
    rdb_file::aux(&mut head, b"used-mem", number.format(namespace.store.memory_account().used()).as_bytes());
    if let Some(HistoryPosition { id, position, db }) = place {
        rdb_file::aux(&mut head, STREAM_DB, number.format(*db).as_bytes());
        rdb_file::aux(&mut head, HISTORY, id.as_bytes());
        rdb_file::aux(&mut head, POSITION, number.format(*position).as_bytes());
    }
    rdb_file::aux(&mut head, b"aof-base", if is_base { b"1" } else { b"0" });
    rdb_file::aux(&mut head, LAST_FENCE, number.format(namespace.lock_holders.fence_bound()).as_bytes());
    if let Some(moment) = cut_at {
        rdb_file::aux(&mut head, CUT_AT, moment.to_text().as_bytes());
    }
    libraries.iter().for_each(|code| form.library(&mut head, code));
    for (db, totals) in databases.iter().filter(|(_, totals)| totals.keys > 0) {
        rdb_file::select(&mut head, *db);
        rdb_file::resize(&mut head, totals.keys, totals.with_ttl);
    }
    head
}

/// Returns the start of a base of commands, up to the first key.
fn head_of_commands(namespace: &Namespace, libraries: &[Vec<u8>], moment: &Timestamp) -> MarkedBytes {
    let (wanted, fence) = (annotations(&namespace.settings.current()), namespace.lock_holders.last_fence());
    let mut head: MarkedBytes = moment.annotations(wanted, fence).into();
    libraries.iter().for_each(|code| SnapshotForm::Commands.library(&mut head, code));
    head
}
