//! Lives of a writer on a disk that fails and loses power: what is recovered after each is a prefix of what was appended,
//! in whole records, with all that was confirmed or known to be durable.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::BytesMut;
use parking_lot::Mutex;

use crate::persist::aof::sync::Syncer;
use crate::persist::aof::{
    AofDir, AofHandle, AofOptions, Policy, SegmentReader, Stamp, Start, Step, Tail, Verdict, Writer, cut_tail,
};
use crate::persist::disk::simulated::SimulatedDisk;
use crate::persist::disk::simulated::faults::Faults;
use crate::persist::disk::simulated::random::Random;
use crate::persist::disk::{Disk, DiskFile, read_small_file, write_all};
use crate::persist::{Effects, Log, Purpose};

/// How many seeds are run.
const SEEDS: u64 = 2500;
/// How many lives each has.
const LIVES: usize = 4;

/// Syncs some time after it was begun.
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

/// What is recovered from a disk.
struct Recovered {
    dir: Arc<AofDir>,
    /// The numbers of the records.
    records: Vec<u64>,
    tail: Option<Tail>,
}

fn options(policy: Policy, random: &mut Random) -> AofOptions {
    AofOptions { policy, checksums: random.below(8) > 0, timestamps: random.below(2) == 0 }
}

/// Returns the numbers of the records in commands, in which each record has the number as its only key, once or twice. A
/// `MULTI` is counted only with its `EXEC`.
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

/// Recovers what a disk has, as a start does.
fn recover(disk: &SimulatedDisk) -> Result<Recovered, String> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let dir = AofDir::open(shared, Path::new("/data"), "aof", "a").map_err(|error| error.to_string())?;
    let (mut numbers, mut tail) = (Vec::new(), None);
    for file in dir.parts().map_err(|error| error.to_string())? {
        if file.path.to_string_lossy().ends_with(".base.rdb") {
            let text = read_small_file(disk, &file.path, u64::MAX).map_err(|error| error.to_string())?;
            let words = String::from_utf8(text).map_err(|error| error.to_string())?;
            numbers.extend(words.split_whitespace().map(|word| word.parse::<u64>().expect("a number")));
            continue;
        }
        let (read, len) = disk.read(&file.path).map_err(|error| error.to_string())?;
        let mut reader = SegmentReader::new(read, len);
        let mut commands = BytesMut::new();
        while let Some(piece) = reader.next().map_err(|error| error.to_string())? {
            commands.extend_from_slice(&piece.bytes);
        }
        numbers.extend(records(&commands));
        match reader.verdict() {
            Verdict::Complete => {}
            Verdict::TornTail { valid_len, .. } if file.is_last => {
                cut_tail(disk, &file.path, valid_len, 1_700_000_000).map_err(|error| error.to_string())?;
            }
            verdict => return Err(format!("{}: {verdict:?}, last: {}", file.path.display(), file.is_last)),
        }
        tail = Some(reader.tail().clone());
    }
    Ok(Recovered { dir: Arc::new(dir), records: numbers, tail })
}

/// A life of a server.
struct Life {
    disk: SimulatedDisk,
    random: Random,
    log: Arc<Log>,
    dir: Arc<AofDir>,
    writer: Writer,
    handle: AofHandle,
    now_ms: Arc<AtomicU64>,
    /// The numbers of all records, and the position behind each that was appended in this life.
    records: Vec<u64>,
    ends: Vec<u64>,
    recovered: usize,
    next: u64,
    /// What a rewrite that was begun has to write, and the increment that then follows it.
    rewrite: Option<(Vec<u64>, Arc<Mutex<Option<u64>>>)>,
    has_stopped: bool,
}

impl Life {
    fn begin(disk: SimulatedDisk, found: Recovered, next: u64, mut random: Random) -> Self {
        let kept = if random.below(4) == 0 { 30_000 } else { 10 << 20 };
        let log = Arc::new(Log::with_limit(kept));
        let policy = [Policy::Always, Policy::EverySec, Policy::No][random.below(3)];
        let options = options(policy, &mut random);
        let now_ms = Arc::new(AtomicU64::new(random.below(100_000) as u64));
        let time = now_ms.clone();
        let clock =
            move || Stamp { wall_ms: 1_700_000_000_000 + time.load(Relaxed) as i64, boot_ms: time.load(Relaxed) };
        let start = found.tail.map_or(Start::New, Start::Append);
        let reader = log.reader(Purpose::Copy);
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
            effects.push(0, [&b"DEL"[..], key.as_bytes()].into_iter());
        }
        self.ends.push(self.log.append(&mut effects));
        self.records.push(self.next);
        self.next += 1;
    }

    /// Begins a rewrite: of a file that lacks something, in a detached increment.
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

    /// Ends a rewrite if its increment is there.
    fn end_rewrite(&mut self) {
        let Some((records, seq)) = self.rewrite.take() else { return };
        let Some(first) = *seq.lock() else {
            self.rewrite = Some((records, seq.clone()));
            return;
        };
        let text: String = records.iter().map(|number| format!("{number} ")).collect();
        let path = self.dir.temporary_base();
        let written = self.disk.create(&path).and_then(|file| write_all(&*file, text.as_bytes()));
        if written.is_ok() && self.dir.install_base(&path, true, first, 1).is_ok() {
            self.handle.base_installed();
            if self.random.below(2) == 0 {
                _ = self.dir.remove_history(); // the disk may fail
            }
        } else if self.dir.is_detached() {
            self.rewrite = Some((records, seq)); // tried again: without a base there is nothing
        }
    }

    fn act(&mut self) {
        match self.random.below(20) {
            0..8 => (0..self.random.below(6)).for_each(|_| self.append()),
            8..14 => {
                if self.writer.step() == Step::Stopped {
                    self.has_stopped = true;
                }
            }
            14 => _ = self.now_ms.fetch_add(self.random.below(3000) as u64, Relaxed),
            15 => self.end_rewrite(),
            16 if self.rewrite.is_none() || self.handle.status().needs_rewrite.is_some() => self.begin_rewrite(),
            17 => self.handle.sync(Box::new(|_| {})),
            18 => self.handle.set_policy([Policy::Always, Policy::EverySec, Policy::No][self.random.below(3)]),
            19 => {
                let per_thousand = [0, 0, 20, 200][self.random.below(4)];
                let capacity = (self.random.below(6) == 0).then_some(40_000);
                self.disk.set_faults(Faults { per_thousand, short_per_thousand: 100, capacity, ..Faults::default() });
            }
            _ => {}
        }
    }

    /// Returns how many records there are up to a position.
    fn count(&self, position: u64) -> usize {
        self.recovered + self.ends.partition_point(|end| *end <= position)
    }

    /// Ends the life; returns the disk, how many records must be recovered, and the reason.
    fn end(mut self) -> (SimulatedDisk, usize, &'static str, Self) {
        let status = self.handle.status();
        let confirmed = match self.log.confirmed() {
            u64::MAX => 0,
            confirmed => self.count(confirmed),
        };
        let durable = self.count(status.synced).max(confirmed);
        match self.random.below(4) {
            0 if status.needs_rewrite.is_none() && !self.dir.is_detached() => {
                (self.disk.kill(), self.count(status.written).max(confirmed), "kill", self)
            }
            1 if !self.has_stopped => {
                self.disk.set_faults(Faults::default());
                let result = Arc::new(Mutex::new(None));
                let slot = result.clone();
                self.handle.stop(true, Box::new(move |done| *slot.lock() = Some(done.is_ok())));
                while self.writer.step() != Step::Stopped {
                    self.now_ms.fetch_add(300, Relaxed);
                }
                let is_complete = *result.lock() == Some(true);
                (self.disk.power_cut(), if is_complete { self.records.len() } else { durable }, "stop", self)
            }
            _ => (self.disk.power_cut(), durable, "power cut", self),
        }
    }
}

/// Runs the lives of a seed.
fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut disk = SimulatedDisk::new(random.next());
    disk.create_dir(Path::new("/data")).expect("created");
    disk.sync_dir(Path::new("/")).expect("synced");
    let mut next = 1;
    for number in 0..LIVES {
        let found = recover(&disk).unwrap_or_else(|error| panic!("seed {seed}, life {number}: {error}"));
        let mut life = Life::begin(disk.clone(), found, next, Random::new(random.next()));
        for _ in 0..random.below(120) {
            if !life.has_stopped {
                life.act();
            }
        }
        let (after, least, how, life) = life.end();
        let found = recover(&after).unwrap_or_else(|error| panic!("seed {seed}, after life {number}, {how}: {error}"));
        let (got, all) = (&found.records, &life.records);
        assert!(all.starts_with(got), "seed {seed}, after life {number}, {how}: {got:?} is no prefix of {all:?}");
        assert!(
            got.len() >= least,
            "seed {seed}, after life {number}, {how}: {} of {} records, {least} were durable",
            got.len(),
            all.len()
        );
        (disk, next) = (after, life.next);
    }
}

#[test]
fn what_is_recovered_is_a_prefix_with_all_that_was_durable() {
    let first = std::env::var("KEYLATCH_SEED").ok().and_then(|seed| seed.parse().ok());
    match first {
        Some(seed) => run(seed),
        None => (0..SEEDS).for_each(run),
    }
}
