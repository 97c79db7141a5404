//! Parts of random logs, read from the files of a writer.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::persist::aof::frames::{self, LogFrame};
use crate::persist::aof::{
    AofDir, AofOptions, BlockStamp, FsyncPolicy, HistoryId, LogRange, Start, Writer, WriterStep, WrittenFiles,
    read_range,
};
use crate::persist::disk::Disk;
use crate::persist::disk::simulated::SimulatedDisk;
use crate::persist::{Effects, Log, ReaderPurpose};
use crate::random::Random;

const ID: HistoryId = [b'a'; 40];
const ASIDE: &[u8] = b"*2\r\n$4\r\nPING\r\n$7\r\nfence:9\r\n";

/// A log, all of it as replicas read it, and the files that a writer has made of it.
struct Written {
    disk: SimulatedDisk,
    files: WrittenFiles,
    all: Vec<u8>,
    ends: Vec<usize>,
}

/// Returns the length of the command at the start of the bytes.
fn command_len(bytes: &[u8]) -> usize {
    match frames::command(bytes) {
        LogFrame::Whole(len) => len,
        other => panic!("{other:?} at {}", bytes[..bytes.len().min(40)].escape_ascii()),
    }
}

/// Returns the commands that are not for replicas alone, each with its position.
fn changes(mut bytes: &[u8], begin: usize) -> Vec<(usize, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), begin);
    while !bytes.is_empty() {
        let (command, rest) = bytes.split_at(command_len(bytes));
        if [&b"SET"[..], b"SELECT", b"MULTI", b"EXEC"].iter().any(|name| command[8..].starts_with(name)) {
            found.push((at, command.to_vec()));
        }
        at += command.len();
        bytes = rest;
    }
    found
}

fn write_log(seed: u64) -> Written {
    let (disk, mut random) = (SimulatedDisk::new(seed), Random::new(seed));
    disk.create_dir(Path::new("/data")).expect("created");
    let dir = AofDir::open(Arc::new(disk.clone()), Path::new("/data"), "aof", "a", true).expect("opened");
    let (dir, log, now_ms) = (Arc::new(dir), Arc::new(Log::default()), Arc::new(AtomicU64::new(1)));
    let (dirname, filename) = ("aof".to_owned(), "a".to_owned());
    let options = AofOptions {
        dir: "/data".into(),
        dirname,
        filename,
        policy: FsyncPolicy::No,
        checksums: true,
        timestamps: true,
    };
    let stamp = move || {
        let now_ms = now_ms.fetch_add(700, Relaxed);
        BlockStamp { wall_ms: now_ms as i64, boot_ms: now_ms, fence: 0, history: Some(ID) }
    };
    let all = log.reader(ReaderPurpose::Replicate);
    let reader = log.reader(ReaderPurpose::Copy);
    let mut writer = Writer::open(dir.clone(), reader, Start::New, &options, "boot", Box::new(stamp)).expect("opened");
    let handle = writer.handle();
    // The start of a file is known for the last one alone.
    log.append(&mut Effects::one(0, &[b"SET", b"first", b""]));
    for number in 0..200 {
        match random.below(8) {
            0 => _ = log.append_aside(b"*1\r\n$4\r\nPING\r\n"),
            1 => _ = log.append_aside(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$0\r\n\r\n"),
            2 => _ = log.append_aside(ASIDE),
            3 => while writer.step() == WriterStep::Again {},
            4 if number % 50 == 0 => _ = handle.rotate(Box::new(|result| assert!(result.is_ok()))),
            _ => {
                let value = vec![b'v'; random.below(300)];
                log.append(&mut Effects::one(random.below(3), &[b"SET", format!("key:{number}").as_bytes(), &value]));
            }
        }
    }
    handle.sync(Box::new(|result| assert!(result.is_ok())));
    while writer.step() == WriterStep::Again {}
    let all = all.read_all().expect("its place");
    let mut ends = vec![0];
    while let Some(end) = ends.last().copied().filter(|end| *end < all.len()) {
        ends.push(end + command_len(&all[end..]));
    }
    let mut parts = dir.parts().expect("files");
    parts.last_mut().expect("an increment").len = handle.status().file_len;
    Written { disk, files: WrittenFiles { parts, last_begin: handle.status().file_begin }, all, ends }
}

impl Written {
    fn read(&self, from: usize, to: usize, id: HistoryId) -> io::Result<Vec<u8>> {
        let is_of_history = |found: &HistoryId, _: u64| *found == id;
        let range = LogRange { from: from as u64, to: to as u64, is_of_history: &is_of_history, aside: ASIDE };
        let mut read = Vec::new();
        read_range(&self.disk, &self.files, &range, &mut |bytes| {
            read.extend_from_slice(&bytes);
            Ok(())
        })?;
        Ok(read)
    }
}

#[test]
fn every_part_of_a_log_is_read_with_each_change_at_its_position() {
    let mut is_filled = false;
    for seed in 0..60 {
        let (written, mut random) = (write_log(seed), Random::new(seed + 1000));
        for _ in 0..30 {
            let (a, b) = (random.below(written.ends.len()), random.below(written.ends.len()));
            let (from, to) = (written.ends[a.min(b)], written.ends[a.max(b)]);
            let read =
                written.read(from, to, ID).unwrap_or_else(|cause| panic!("seed {seed}, {from} to {to}: {cause}"));
            assert_eq!(read.len(), to - from, "seed {seed}, {from} to {to}");
            let expected = changes(&written.all[from..to], from);
            assert_eq!(changes(&read, from), expected, "seed {seed}, {from} to {to}");
            is_filled |= read.windows(8).any(|bytes| bytes == b"........");
        }
    }
    assert!(is_filled, "there are gaps that one command does not fill");
}

#[test]
fn what_the_files_do_not_have_is_not_made_up() {
    let written = write_log(7);
    let end = written.all.len();
    let reason = |result: io::Result<Vec<u8>>| result.expect_err("it is not there").to_string();
    let missing = "the append only file has not all of it: ";
    assert_eq!(reason(written.read(0, end, [b'b'; 40])), format!("{missing}it begins later, or has another history"));
    // One byte less than before.
    let mut shorter = write_log(7);
    shorter.files.parts.last_mut().expect("an increment").len -= 1;
    assert!(reason(shorter.read(0, end, ID)).starts_with(missing));
    // A byte that has changed, anywhere in the last file.
    let path = written.files.parts.last().expect("an increment").path.clone();
    let len = written.disk.len(&path).expect("read").expect("a file");
    for at in (0..len).step_by(97) {
        let mut damaged = write_log(7);
        let byte = { io::Read::bytes(damaged.disk.read(&path).expect("a file").0).nth(at as usize).expect("a byte") };
        let changed = [byte.expect("read") ^ 1];
        damaged.disk.update(&path).expect("opened").write_at(&changed, at).expect("written");
        damaged.files.last_begin = None;
        assert!(reason(damaged.read(0, end, ID)).starts_with(missing), "at {at}");
    }
}
