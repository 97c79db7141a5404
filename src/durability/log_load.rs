//! Load of the append-only file: its base, then the commands of its increments.

use std::fmt::Display;
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::BytesMut;
use tracing::{info, warn};

use crate::dispatch::Env;
use crate::dispatch::replay::{Replay, ReplayError};
use crate::durability::deadlines::ClockSteps;
use crate::durability::load::{Duplicates, LoadRules, RdbContent};
use crate::durability::progress::LoadProgress;
use crate::durability::worker::FilesWorker;
use crate::namespace::history::HistoryPosition;
use crate::persist::aof::{
    AofDir, AofOptions, FsyncPolicy, PartFile, PartType, SegmentReader, Tail, Timestamp, Verdict, cut_tail,
};
use crate::store::{Cx, Origin};
use crate::text::system_text;

/// Starts of RDB files.
const RDB_MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKE"];

/// Texts that tools and administrators look for when a file is damaged, or ends early.
const BAD_FORMAT: &str = "Bad file format reading the append only file";
const SHORT_READ: &str = "Unexpected end of file reading the append only file";

/// The advice in such messages.
const ADVICE: &str = "make a backup of it, then see what redis-check-aof says of the manifest";

pub(super) struct LoadedLog {
    /// The end of the last increment, if there is one.
    pub(super) tail: Option<Tail>,
    /// Number of bytes of an incomplete end that were cut off.
    pub(super) cut: u64,
    /// True if the clock was set since a part was written.
    pub(super) has_moved_deadlines: bool,
    /// The replication ID and offset of the data, if the end of the file has them.
    pub(super) place: Option<HistoryPosition>,
}

/// The end of a part.
enum End {
    /// The part ends with a whole command, or transaction.
    Complete(Tail),
    /// The part ends inside a command or transaction, behind `valid_len` valid bytes.
    Torn { valid_len: u64, reason: String },
}

impl FilesWorker {
    /// Opens the directory of the append-only file that the settings name.
    ///
    /// # Errors
    /// A directory that cannot be opened, or lacks a file.
    pub(super) fn open_log_dir(&self) -> Result<Arc<AofDir>, String> {
        let AofOptions { dir, dirname, filename, checksums, .. } = self.log_options(FsyncPolicy::No);
        let opened = AofDir::open(self.disk.clone(), &dir, &dirname, &filename, checksums);
        opened.map(Arc::new).map_err(|error| error.to_string())
    }

    /// Loads the append-only file.
    ///
    /// # Errors
    /// The fault, with the file and the offset.
    pub(super) fn load_log(&self, dir: &AofDir) -> Result<LoadedLog, String> {
        let parts = dir.parts().map_err(|error| error.to_string())?;
        self.begin_loading(parts.iter().map(|part| part.len).sum());
        let begun = self.namespace.clock.now();
        let (mut loaded, mut read) = (LoadedLog { tail: None, cut: 0, has_moved_deadlines: false, place: None }, 0);
        let mut steps = ClockSteps::default();
        for part in &parts {
            let part_begun = self.namespace.clock.now();
            let kind = if part.part.kind == PartType::Increment { "incr" } else { "base" };
            let name = &part.part.name;
            let kept = match self.load_part(part, read, &mut steps, &mut loaded.place)? {
                End::Complete(tail) => tail,
                End::Torn { valid_len, reason } => {
                    loaded.cut += self.cut(part, valid_len, &reason)?;
                    let tail = Tail::read(&*self.disk, &part.path, valid_len);
                    tail.map_err(|cause| format!("{}: {}", part.path.display(), system_text(&cause)))?
                }
            };
            let took_s = self.seconds_since(part_begun);
            info!("DB loaded from {kind} file {name}: {took_s:.3} seconds");
            read += part.len;
            loaded.tail = (part.part.kind == PartType::Increment).then_some(kept);
        }
        self.arrive_at_present(&mut steps)?;
        loaded.has_moved_deadlines = steps.has_any;
        if steps.has_any && loaded.place.take().is_some() {
            info!("The deadlines are not those of the data's history any more, so replicas get all data again");
        }
        info!("DB loaded from append only file: {:.3} seconds", self.seconds_since(begun));
        // The process that wrote the files may have ended before they were durable, and clients must not see data that
        // a crash takes back.
        if let Err(error) = dir.sync_found() {
            warn!("The append only file was loaded, and may be lost in a power cut: {error}");
        }
        Ok(loaded)
    }

    /// Loads a part, which may be a snapshot, commands, or commands behind a snapshot. `read` bytes of other parts were
    /// read before.
    fn load_part(
        &self,
        part: &PartFile,
        read: u64,
        steps: &mut ClockSteps,
        place: &mut Option<HistoryPosition>,
    ) -> Result<End, String> {
        let named = |reason: &dyn Display| format!("{}: {reason}", part.path.display());
        let (mut file, len) = self.disk.read(&part.path).map_err(|cause| named(&system_text(&cause)))?;
        let mut magic = Vec::new();
        let begun = (&mut file).take(RDB_MAGICS[0].len() as u64).read_to_end(&mut magic);
        begun.map_err(|cause| named(&system_text(&cause)))?;
        let is_snapshot = RDB_MAGICS.contains(&&magic[..]);
        let whole = Cursor::new(magic).chain(file);
        if !is_snapshot {
            return self.replay(part, SegmentReader::new(whole, len), (0, len, read), steps, place);
        }
        let rules = LoadRules { beside: None, duplicates: Duplicates::Refuse, keeps_expired: true };
        let content = self.load_rdb(&part.path, whole, Some(len), rules)?;
        let RdbContent { cut_at, end, rest, .. } = content;
        *place = content.place;
        match cut_at {
            Some(cut_at) => self.move_deadlines(steps.note(cut_at))?,
            None => steps.forget(),
        }
        self.replay(part, SegmentReader::new(rest, len.saturating_sub(end)), (end, len, read), steps, place)
    }

    /// Executes the commands of a part, which begin at an offset of its file and end at its length; `read` bytes of
    /// other parts were read before.
    fn replay(
        &self,
        part: &PartFile,
        mut reader: SegmentReader<impl Read>,
        (begin, len, read): (u64, u64, u64),
        steps: &mut ClockSteps,
        place: &mut Option<HistoryPosition>,
    ) -> Result<End, String> {
        let (namespace, path) = (&*self.namespace, &part.path);
        let (mut replay, mut log) = (Replay::new(namespace), BytesMut::new());
        let mut progress = LoadProgress::new(&namespace.clock);
        // The pieces that are not completely executed, with the start of each in the stream of commands and in the
        // file.
        let (mut fed, mut pieces) = (0, vec![(0, begin)]);
        let named = |offset: u64, reason: &dyn Display| format!("{}, offset {offset}: {reason}", path.display());
        while let Some(piece) = reader.next().map_err(|cause| named(begin, &system_text(&cause)))? {
            if namespace.persistence.cancelled().load(Relaxed) {
                return Err("the server was stopped while it loaded its data".into());
            }
            let offset = begin + piece.offset;
            let tail = reader.tail();
            match &tail.last {
                Some(last) if tail.position.is_some() || part.part.kind == PartType::Base => {
                    self.move_deadlines(steps.note(Timestamp::of(last)))?;
                }
                // Redis has appended these commands, at an unknown time.
                _ => steps.forget(),
            }
            pieces.push((fed, offset));
            fed += piece.bytes.len() as u64;
            log.extend_from_slice(&piece.bytes);
            let mut held = namespace.store.exclusive();
            let mut view = held.view(0, Cx::new(namespace.clock.now(), Origin::Replay));
            let executed = Env::with_present(namespace, self.handlers, 0, |env| {
                replay.go_on(env, &mut view, &mut log, |repeated| repeated.caller.forget_effects())
            });
            executed.map_err(|error| match error {
                ReplayError::Unknown(_) => {
                    format!("{error} reading the append only file {}", named(offset, &ADVICE))
                }
                ReplayError::Format | ReplayError::NoDatabase | ReplayError::Truncated | ReplayError::NotCanonical => {
                    format!("{BAD_FORMAT} {}", named(offset, &format!("{error}; {ADVICE}")))
                }
            })?;
            let done = pieces.partition_point(|(start, _)| *start < replay.executed()).saturating_sub(1);
            pieces.drain(..done);
            self.note_read(read + offset, &mut progress);
        }
        self.note_end(reader.tail(), &replay, place);
        match reader.verdict() {
            Verdict::Corrupt { offset, reason } if len - (begin + offset) <= self.tolerated_damage() => {
                Ok(End::Torn { valid_len: begin + offset, reason })
            }
            Verdict::Corrupt { offset, reason } => {
                Err(format!("{BAD_FORMAT} {}", named(begin + offset, &format!("{reason}; {ADVICE}"))))
            }
            _ if !replay.is_between_writes() => {
                *place = None; // the end of the last block is not reached
                let (start, offset) = pieces[0];
                let valid_len = offset + (replay.executed() - start);
                Ok(End::Torn { valid_len, reason: "it ends inside a transaction".into() })
            }
            // A torn block has no position; the blocks before it have one.
            Verdict::TornTail { valid_len, reason } => Ok(End::Torn { valid_len: begin + valid_len, reason }),
            Verdict::Complete => Ok(End::Complete(reader.tail().clone())),
        }
    }

    /// Applies the fencing token and the replication offset at the end of a file of commands.
    fn note_end(&self, tail: &Tail, replay: &Replay, place: &mut Option<HistoryPosition>) {
        if let Some(last) = &tail.last {
            self.namespace.lock_holders.continue_after(last.at.fence);
        }
        if replay.executed() > 0 || tail.last.is_some() {
            *place = place_of(tail, replay.db());
        }
    }

    /// Returns the number of damaged bytes at its end that a file may have to be loaded without them.
    fn tolerated_damage(&self) -> u64 {
        self.namespace.settings.current().aof_load_corrupt_tail_max_size
    }

    /// Cuts an incomplete end off a file, and keeps it in another file; returns its length.
    fn cut(&self, PartFile { path, len, is_last, .. }: &PartFile, valid_len: u64, reason: &str) -> Result<u64, String> {
        let named = |reason: &dyn Display| format!("{}, offset {valid_len}: {reason}", path.display());
        if !is_last {
            let reason = format!("{reason}, and further files follow; {ADVICE}");
            return Err(format!("{SHORT_READ} {}. The truncated file is not the last file", named(&reason)));
        }
        if !self.namespace.settings.current().aof_load_truncated {
            let reason = format!("{reason}, and aof-load-truncated is no; {ADVICE}");
            return Err(format!("{SHORT_READ} {}", named(&reason)));
        }
        let seconds = self.namespace.clock.now().wall_ms().div_euclid(1000);
        let cut = cut_tail(&*self.disk, path, valid_len, seconds).map_err(|error| error.to_string())?;
        if let Some(cut) = &cut {
            let (count, kept) = (cut.len, cut.kept_in.display());
            warn!(
                "Short read while loading the AOF file {}: the last {count} of {len} bytes were cut off, and are kept in \
                 {kept}; loaded anyway because aof-load-truncated is enabled",
                named(&reason)
            );
        }
        Ok(cut.map_or(0, |cut| cut.len))
    }
}

/// Returns the replication ID and offset of the data up to the end of a file.
fn place_of(tail: &Tail, db: usize) -> Option<HistoryPosition> {
    let (id, position) = (tail.last.as_ref()?.at.history?, tail.position?);
    Some(HistoryPosition { id: id.escape_ascii().to_string(), position, db })
}
