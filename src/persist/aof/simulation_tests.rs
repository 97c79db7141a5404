//! Lives of a writer on a disk that fails and loses power: the records recovered after each are a prefix of the
//! appended ones, whole, and include all that were confirmed or known to be durable.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memchr::memmem;
use parking_lot::Mutex;

use crate::persist::aof::sync::Syncer;
use crate::persist::aof::writer::RemainingWork;
use crate::persist::aof::{
    AofDir, AofHandle, AofOptions, BlockStamp, FsyncPolicy, Piece, SegmentReader, Start, Tail, Verdict, Writer,
    WriterStep, cut_tail,
};
use crate::persist::disk::simulated::SimulatedDisk;
use crate::persist::disk::simulated::faults::DiskFaults;
use crate::persist::disk::{Disk, DiskFile, read_small_file, write_all};
use crate::persist::{Effects, Log, ReaderPurpose};
use crate::random::Random;

const SEEDS: u64 = 500;
/// Number of lives for each seed.
const LIVES: usize = 4;

/// Syncer that finishes some time after a sync was begun.
struct LateSyncer {
    file: Option<Arc<dyn DiskFile>>,
    random: Random,
}

impl Syncer for LateSyncer {
    fn start(&mut self, file: Arc<dyn DiskFile>) {
        self.file = Some(file);
    }

    fn poll(&mut self) -> Option<std::io::Result<()>> {
        match self.random.below(3) {
            0 => self.file.take().map(|file| file.sync_data()),
            _ => None,
        }
    }
}

/// State recovered from a disk.
struct Recovered {
    dir: Arc<AofDir>,
    records: Vec<u64>,
    tail: Option<Tail>,
    is_torn: bool,
}

fn options(policy: FsyncPolicy, random: &mut Random) -> AofOptions {
    AofOptions {
        dir: "/data".into(),
        dirname: "aof".to_owned(),
        filename: "a".to_owned(),
        policy,
        checksums: random.below(8) > 0,
        timestamps: random.below(2) == 0,
    }
}

/// Returns the numbers of the records in commands; each record has its number as its only key, once or twice. A `MULTI`
/// is counted only with its `EXEC`.
fn records(commands: &[u8]) -> Vec<u64> {
    let words: Vec<&[u8]> = commands.split(|byte| *byte == b'\n').collect();
    let (mut found, mut open) = (Vec::new(), None);
    for at in 0..words.len() {
        match words[at] {
            b"MULTI\r" => open = Some(found.len()),
            b"EXEC\r" => open = None,
            b"DEL\r" => {
                let number = words.get(at + 2).map(|word| String::from_utf8_lossy(word).trim().to_owned());
                let number = number.and_then(|number| number.parse().ok()).expect("a number");
                if found.last() != Some(&number) {
                    found.push(number);
                }
            }
            _ => {}
        }
    }
    assert_eq!(open, None, "a transaction is cut");
    found
}

/// Returns the offset in the file of a `MULTI` without an `EXEC`.
fn open_transaction(pieces: &[Piece]) -> Option<u64> {
    let find = |word: &[u8]| {
        let last = pieces.iter().rev().find_map(|piece| Some(piece.offset + memmem::rfind(&piece.bytes, word)? as u64));
        last.unwrap_or(0)
    };
    let (multi, exec) = (find(b"*1\r\n$5\r\nMULTI\r\n"), find(b"*1\r\n$4\r\nEXEC\r\n"));
    let is_first = pieces.first().is_some_and(|piece| piece.bytes.starts_with(b"*1\r\n$5\r\nMULTI\r\n"));
    (multi > exec || is_first && exec == 0).then_some(multi)
}

/// Recovers the state of a disk, as a start does.
fn recover(disk: &SimulatedDisk) -> Result<Recovered, String> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let dir = AofDir::open(shared, Path::new("/data"), "aof", "a", true).map_err(|error| error.to_string())?;
    let (mut numbers, mut tail, mut has_torn) = (Vec::new(), None, false);
    for file in dir.parts().map_err(|error| error.to_string())? {
        if file.path.to_string_lossy().ends_with(".base.rdb") {
            let text = read_small_file(disk, &file.path, u64::MAX).map_err(|error| error.to_string())?;
            let words = String::from_utf8(text).map_err(|error| error.to_string())?;
            numbers.extend(words.split_whitespace().map(|word| word.parse::<u64>().expect("a number")));
            continue;
        }
        let (read, len) = disk.read(&file.path).map_err(|error| error.to_string())?;
        let mut reader = SegmentReader::new(read, len);
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next().map_err(|error| error.to_string())? {
            pieces.push(piece);
        }
        let (mut valid_len, verdict) = (reader.tail().len, reader.verdict());
        let is_torn = matches!(verdict, Verdict::TornTail { .. });
        if verdict != Verdict::Complete && !(is_torn && file.is_last) {
            return Err(format!("{}: {verdict:?}, last: {}", file.path.display(), file.is_last));
        }
        has_torn |= is_torn;
        if let Some(multi) = open_transaction(&pieces) {
            assert!(file.is_last);
            pieces.retain(|piece| piece.offset <= multi);
            pieces.iter_mut().for_each(|piece| piece.bytes.truncate((multi - piece.offset) as usize));
            valid_len = multi;
        }
        numbers.extend(records(&pieces.iter().flat_map(|piece| piece.bytes.to_vec()).collect::<Vec<u8>>()));
        cut_tail(disk, &file.path, valid_len, 1_700_000_000).map_err(|error| error.to_string())?;
        tail = Some(if valid_len == reader.tail().len {
            reader.tail().clone()
        } else {
            Tail::read(disk, &file.path, valid_len).map_err(|error| error.to_string())?
        });
    }
    Ok(Recovered { dir: Arc::new(dir), records: numbers, tail, is_torn: has_torn })
}

/// The records that a rewrite has to write, and the increment that follows it.
type Rewrite = (Vec<u64>, Arc<Mutex<Option<u64>>>);

struct Life {
    disk: SimulatedDisk,
    random: Random,
    log: Arc<Log>,
    dir: Arc<AofDir>,
    writer: Writer,
    handle: AofHandle,
    now_ms: Arc<AtomicU64>,
    /// The numbers of all records, and the position behind each record appended in this life.
    records: Vec<u64>,
    ends: Vec<u64>,
    recovered: usize,
    next: u64,
    rewrite: Option<Rewrite>,
    has_stopped: bool,
    has_checksums: bool,
    /// The position up to which a requested sync has worked.
    asked: Arc<AtomicU64>,
    seen: Seen,
}

/// Numbers of the events seen.
#[derive(Debug, Default)]
struct Seen {
    torn: usize,
    lost: usize,
    attached: usize,
    rewritten: usize,
    asked: usize,
    errors: usize,
}

impl Life {
    fn begin(disk: SimulatedDisk, found: Recovered, next: u64, seen: Seen, mut random: Random) -> Self {
        let kept = if random.below(4) == 0 { 30_000 } else { 10 << 20 };
        let log = Arc::new(Log::with_limit(kept));
        let policy = [FsyncPolicy::Always, FsyncPolicy::EverySec, FsyncPolicy::No][random.below(3)];
        let options = options(policy, &mut random);
        let now_ms = Arc::new(AtomicU64::new(random.below(100_000) as u64));
        let time = now_ms.clone();
        let clock = move || BlockStamp {
            wall_ms: 1_700_000_000_000 + time.load(Relaxed) as i64,
            boot_ms: time.load(Relaxed),
            fence: 0,
            history: None,
        };
        let start = found.tail.map_or(Start::New, Start::Append);
        let reader = log.reader(ReaderPurpose::Copy);
        let mut writer =
            Writer::open(found.dir.clone(), reader, start, &options, "boot", Box::new(clock)).expect("opened");
        if random.below(2) == 0 {
            writer.set_syncer(Box::new(LateSyncer { file: None, random: Random::new(random.next()) }));
        }
        Life {
            handle: writer.handle(),
            recovered: found.records.len(),
            records: found.records,
            dir: found.dir,
            ends: Vec::new(),
            rewrite: None,
            has_stopped: false,
            asked: Arc::new(AtomicU64::new(0)),
            seen,
            has_checksums: options.checksums,
            disk,
            random,
            log,
            writer,
            now_ms,
            next,
        }
    }

    fn append(&mut self) {
        let key = self.next.to_string();
        let value = vec![b'x'; self.random.below(10) * self.random.below(300)];
        let mut effects = Effects::one(self.random.below(2), &[b"DEL", key.as_bytes(), &value]);
        if self.random.below(4) == 0 {
            effects.push(0, &[b"DEL", key.as_bytes()]);
        }
        self.ends.push(self.log.append(&mut effects));
        self.records.push(self.next);
        self.next += 1;
    }

    /// Begins a rewrite; for a file that lacks records, in a detached increment.
    fn begin_rewrite(&mut self) {
        let seq = Arc::new(Mutex::new(None));
        let slot = seq.clone();
        let done = Box::new(move |result: Result<u64, _>| *slot.lock() = result.ok());
        let position = match self.handle.status().needs_rewrite {
            Some(_) => self.handle.restart(done),
            None => self.handle.rotate(done),
        };
        assert_eq!(position, self.log.end());
        self.rewrite = Some((self.records.clone(), seq));
    }

    /// Ends a rewrite if its increment exists.
    fn end_rewrite(&mut self) {
        let Some((records, seq)) = self.rewrite.take() else { return };
        let Some(first) = *seq.lock() else {
            self.rewrite = Some((records, seq.clone()));
            return;
        };
        let text: String = records.iter().map(|number| format!("{number} ")).collect();
        let path = self.dir.temporary_base();
        let written = self.disk.create(&path).and_then(|file| write_all(&*file, text.as_bytes()));
        let was_detached = self.dir.is_detached();
        if written.is_ok() && self.dir.install_base(&path, true, first, 1).is_ok() {
            self.handle.base_installed();
            self.seen.rewritten += 1;
            self.seen.attached += usize::from(was_detached);
            if self.random.below(2) == 0 {
                _ = self.dir.remove_history(); // the disk may fail
            }
        } else if self.dir.is_detached() {
            self.rewrite = Some((records, seq)); // tried again: without a base no record counts
        }
    }

    fn act(&mut self) {
        match self.random.below(20) {
            0..8 => (0..self.random.below(6)).for_each(|_| self.append()),
            8..12 => self.has_stopped |= self.writer.step() == WriterStep::Stopped,
            12..14 => {
                self.has_stopped |= self.writer.write_for_worker() == RemainingWork::IsOfThread && self.step_stops()
            }
            14 => _ = self.now_ms.fetch_add(self.random.below(3000) as u64, Relaxed),
            15 => self.end_rewrite(),
            16 if self.rewrite.is_none() || self.handle.status().needs_rewrite.is_some() => self.begin_rewrite(),
            17 => {
                let (position, asked) = (self.log.end(), self.asked.clone());
                self.handle.sync(Box::new(move |done| {
                    if done.is_ok() {
                        asked.fetch_max(position, Relaxed);
                    }
                }));
            }
            18 => self
                .handle
                .set_policy([FsyncPolicy::Always, FsyncPolicy::EverySec, FsyncPolicy::No][self.random.below(3)]),
            19 => {
                let per_thousand = [0, 0, 20, 200][self.random.below(4)];
                let capacity = (self.random.below(6) == 0).then_some(40_000);
                self.disk.set_faults(DiskFaults {
                    per_thousand,
                    short_per_thousand: 100,
                    capacity,
                    ..DiskFaults::default()
                });
            }
            _ => {}
        }
    }

    fn step_stops(&mut self) -> bool {
        self.writer.step() == WriterStep::Stopped
    }

    /// Returns the number of records up to a position.
    fn count(&self, position: u64) -> usize {
        self.recovered + self.ends.partition_point(|end| *end <= position)
    }

    /// Ends the life; returns the disk, the number of records that must be recovered, and the reason.
    fn end(mut self) -> (SimulatedDisk, usize, &'static str, Self) {
        let status = self.handle.status();
        let confirmed = match self.log.confirmed() {
            u64::MAX => 0,
            confirmed => self.count(confirmed),
        };
        let is_always = *self.handle.0.policy.lock() == FsyncPolicy::Always;
        let asked = self.asked.load(Relaxed);
        let durable = self.count(status.synced.max(asked)).max(if is_always { confirmed } else { 0 });
        // After a failed sync, the file is cut before the same records are written again.
        let confirmed = if is_always || status.error.is_none() { confirmed } else { 0 };
        self.seen.asked += usize::from(asked > 0);
        self.seen.lost += usize::from(status.needs_rewrite.is_some());
        self.seen.errors += usize::from(status.error.is_some());
        // Without checksums the effects of a power cut cannot be detected.
        match if self.has_checksums { self.random.below(4) } else { 0 } {
            0 => {
                let is_whole = status.needs_rewrite.is_none() && !self.dir.is_detached();
                let written = if is_whole { self.count(status.written) } else { durable };
                (self.disk.kill(), written.max(confirmed), "kill", self)
            }
            1 if !self.has_stopped => {
                self.disk.set_faults(DiskFaults::default());
                let result = Arc::new(Mutex::new(None));
                let slot = result.clone();
                self.handle.stop(true, Box::new(move |done| *slot.lock() = Some(done.is_ok())));
                while self.writer.step() != WriterStep::Stopped {
                    self.now_ms.fetch_add(300, Relaxed);
                }
                let is_complete = *result.lock() == Some(true);
                (self.disk.power_cut(), if is_complete { self.records.len() } else { durable }, "stop", self)
            }
            _ => (self.disk.power_cut(), durable, "power cut", self),
        }
    }
}

/// Runs all lives of a seed.
fn run(seed: u64, mut seen: Seen) -> Seen {
    let mut random = Random::new(seed);
    let mut disk = SimulatedDisk::new(random.next());
    disk.create_dir(Path::new("/data")).expect("created");
    disk.sync_dir(Path::new("/")).expect("synced");
    let mut next = 1;
    for number in 0..LIVES {
        let found = recover(&disk).unwrap_or_else(|error| panic!("seed {seed}, life {number}: {error}"));
        let mut life = Life::begin(disk.clone(), found, next, seen, Random::new(random.next()));
        for _ in 0..random.below(120) {
            if !life.has_stopped {
                life.act();
            }
        }
        let (after, least, how, life) = life.end();
        let when = format!("seed {seed}, after life {number}, {how}");
        let found = recover(&after).unwrap_or_else(|error| panic!("{when}: {error}"));
        let (got, all) = (&found.records, &life.records);
        assert!(all.starts_with(got), "{when}: {got:?} is no prefix of {all:?}");
        assert!(got.len() >= least, "{when}: {} of {} records, {least} were durable", got.len(), all.len());
        (disk, next, seen) = (after, life.next, life.seen);
        seen.torn += usize::from(found.is_torn);
    }
    seen
}

#[test]
fn what_is_recovered_is_a_prefix_with_all_that_was_durable() {
    let first: u64 = std::env::var("KEYLATCH_SEED").map_or(0, |seed| seed.parse().expect("KEYLATCH_SEED is a number"));
    let seen = (first..first + SEEDS).fold(Seen::default(), |seen, seed| run(seed, seen));
    let Seen { torn, lost, attached, rewritten, asked, errors } = seen;
    let least = [torn, lost, attached, rewritten, asked, errors].into_iter().min();
    assert!(least >= Some(SEEDS as usize / 50), "too little was tried: {seen:?}");
}
