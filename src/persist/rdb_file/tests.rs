//! Files are read as they were written, in pieces of any size, and refused where they are damaged.

mod damage;
mod foreign;
mod samples;

use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::memory::marked::MarkedBytes;
use crate::rdb::{VERSION, VERSION_7_2, VERSION_7_4, VERSION_8_6, VERSION_8_8, checksum, compressed, kind};
use crate::store::Hasher;
use crate::store::entry::Entry;
use crate::store::limits::{PackedLimit, ValueLimits};
use crate::time::clock::Deadline;

use samples::{Described, SampleValue, any_sample, describe, samples};

/// A source that returns at most this many bytes at once.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let room = out.len().min(self.1);
        self.0.read(&mut out[..room])
    }
}

/// Limits by which values with more than two elements are not packed.
fn low_limits() -> ValueLimits {
    let packed = PackedLimit { entries: 2, len: 8 };
    ValueLimits { hash: packed, set: packed, zset: packed, intset_entries: 2, ..ValueLimits::default() }
}

fn options<'a>(hasher: &'a Hasher, limits: ValueLimits) -> ReadOptions<'a> {
    ReadOptions { limits, hasher, checks: true }
}

/// An item, in a comparable form.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Aux(Vec<u8>, Vec<u8>),
    Select(u64),
    Resize(u64, u64),
    Library(Vec<u8>),
    Entry(Vec<u8>, Described, Option<i64>, Option<Usage>, i64),
    Retired(RetiredFence<Box<[u8]>>),
    Skipped(Vec<u8>),
    End(bool),
}

impl From<FileItem> for Seen {
    fn from(item: FileItem) -> Self {
        match item {
            FileItem::Aux { key, value } => Seen::Aux(key.into(), value.into()),
            FileItem::Select(db) => Seen::Select(db),
            FileItem::Resize { keys, with_ttl } => Seen::Resize(keys, with_ttl),
            FileItem::Library(code) => Seen::Library(code.into()),
            FileItem::Entry { entry, usage, fence, .. } => {
                let deadline = entry.deadline().map(Deadline::absolute_ms);
                Seen::Entry(entry.key().to_vec(), describe(&entry), deadline, usage, fence)
            }
            FileItem::RetiredFence(retired) => Seen::Retired(retired),
            FileItem::Skipped { key } => Seen::Skipped(key.into()),
            FileItem::End { is_checked } => Seen::End(is_checked),
        }
    }
}

/// Reads all items, up to the end or an error.
fn read_all(source: impl Read, len: Option<u64>, options: ReadOptions<'_>) -> (Vec<Seen>, Option<FileError>) {
    let mut reader = match FileReader::new(source, len, options) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut seen = Vec::new();
    loop {
        match reader.read().map(Seen::from) {
            Ok(Seen::End(is_checked)) => {
                seen.push(Seen::End(is_checked));
                return (seen, None);
            }
            Ok(item) => seen.push(item),
            Err(error) => return (seen, Some(error)),
        }
    }
}

/// Reads a valid file.
#[track_caller]
fn read_file(file: &[u8]) -> Vec<Seen> {
    let hasher = Hasher::new();
    let (seen, error) = read_all(file, Some(file.len() as u64), options(&hasher, ValueLimits::default()));
    assert!(error.is_none(), "{}", error.map(|error| error.to_string()).unwrap_or_default());
    seen
}

/// Returns the error with which a file is refused.
#[track_caller]
fn refusal(file: &[u8]) -> String {
    let hasher = Hasher::new();
    let (_, error) = read_all(file, Some(file.len() as u64), options(&hasher, ValueLimits::default()));
    error.expect("a refusal").to_string()
}

/// Appends the end record and the checksum.
fn seal(file: MarkedBytes) -> Vec<u8> {
    let mut file = compressed(file);
    end(&mut file);
    let sum = checksum::of(&file);
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// Builds a file of a version from records.
fn file_of(version: u16, records: &[u8]) -> Vec<u8> {
    let mut file = MarkedBytes::default();
    header(&mut file, version);
    file.extend_from_slice(records);
    seal(file)
}

/// Builds a file that has a record of each kind and each type, and is as short as possible.
fn file_of_everything(compresses: bool) -> Vec<u8> {
    let (hasher, mut file) = (Hasher::new(), MarkedBytes::default());
    let write = FileOptions { version: VERSION_8_8, compresses };
    header(&mut file, VERSION_8_8);
    aux(&mut file, b"redis-ver", b"7.0.15");
    aux(&mut file, b"ctime", b"1700000000");
    library(&mut file, b"#!lua name=lib\nredis.register_function('f', function() return 1 end)", write);
    select(&mut file, 0);
    resize(&mut file, 20, 1);
    let metas = [
        KeyMeta::default(),
        KeyMeta { expires_ms: Some(1_900_000_000_123), usage: Some(Usage::Idle(70_000)), fence: 0, lock: None },
        KeyMeta { expires_ms: None, usage: Some(Usage::Frequency(255)), fence: 1 << 40, lock: None },
    ];
    for (at, sample) in samples().iter().enumerate() {
        for (limits, place) in [(ValueLimits::default(), "packed"), (low_limits(), "big")] {
            let key = format!("{place}:{at}");
            entry(&mut file, &sample.entry(key.as_bytes(), limits, &hasher), metas[at % metas.len()], write);
        }
    }
    retired_fence(&mut file, &RetiredFence { db: 3, fence: i64::MAX, removed_ms: -5, key: b"a \xff key" });
    select(&mut file, 300);
    entry(&mut file, &Entry::text(b"", b"", None), KeyMeta::default(), write);
    seal(file)
}

#[test]
fn a_file_of_everything_is_read_the_same_in_any_pieces() {
    for compresses in [false, true] {
        let file = file_of_everything(compresses);
        let expected = read_file(&file);
        assert_eq!(expected.last(), Some(&Seen::End(true)));
        let retired = RetiredFence { db: 3, fence: i64::MAX, removed_ms: -5, key: b"a \xff key"[..].into() };
        assert!(expected.contains(&Seen::Retired(retired)));
        assert_eq!(expected.iter().filter(|item| matches!(item, Seen::Entry(..))).count(), 2 * samples().len() + 1);
        let hasher = Hasher::new();
        for size in [1, 2, 3, 7, 100, usize::MAX] {
            for len in [None, Some(file.len() as u64)] {
                for limits in [ValueLimits::default(), low_limits()] {
                    let (seen, error) = read_all(Pieces(&file, size), len, options(&hasher, limits));
                    assert!(error.is_none() && seen == expected, "pieces of {size}");
                }
            }
        }
    }
}

#[test]
fn an_entry_is_written_as_redis_writes_it() {
    let write = FileOptions { version: VERSION, compresses: true };
    let meta = KeyMeta {
        expires_ms: Some(0x0102_0304_0506_0708),
        usage: Some(Usage::Frequency(9)),
        fence: 5,
        lock: Some(b"a lock"),
    };
    let mut out = MarkedBytes::default();
    assert_eq!(entry(&mut out, &Entry::text(b"key", b"12", None), meta, write), VERSION);
    let fence = b"\xfa\x0ekeylatch-fence\xc0\x05\xfa\x0dkeylatch-lock\x06a lock";
    assert_eq!(*out, [&fence[..], b"\xfc\x08\x07\x06\x05\x04\x03\x02\x01", b"\xf9\x09", b"\0\x03key\xc0\x0c"].concat());
    let mut out = MarkedBytes::default();
    let meta = KeyMeta { usage: Some(Usage::Idle(64)), ..KeyMeta::default() };
    entry(&mut out, &Entry::text(b"-1", b"", None), meta, write);
    assert_eq!(*out, b"\xf8\x40\x40\0\xc0\xff\0");
    let mut out = MarkedBytes::default();
    header(&mut out, VERSION);
    select(&mut out, 15);
    resize(&mut out, 300, 0);
    end(&mut out);
    assert_eq!(*out, b"REDIS0010\xfe\x0f\xfb\x41\x2c\0\xff");
}

#[test]
fn an_entry_asks_for_the_lowest_version_that_has_its_type() {
    let hasher = Hasher::new();
    let needed = |sample: &SampleValue, limits, version| {
        let (mut out, write) = (MarkedBytes::default(), FileOptions { version, compresses: false });
        let needed = entry(&mut out, &sample.entry(b"", limits, &hasher), KeyMeta::default(), write);
        (needed, out[0])
    };
    let (packed, big) = (ValueLimits::default(), low_limits());
    let timed = SampleValue::Hash(vec![(b"a".to_vec(), b"1".to_vec(), Some(9)), (b"b".to_vec(), b"2".to_vec(), None)]);
    let timed_big = SampleValue::Hash((0..9).map(|at| (vec![b'a' + at], vec![at], Some(9))).collect());
    let words = SampleValue::Set(vec![b"a".to_vec(), b"b".to_vec()]);
    let [used, same] = [7, 5].map(|active| SampleValue::Stream { count: 3, active, is_new: false });
    let [new, named] = [3, 0].map(|count| SampleValue::Stream { count, active: 5, is_new: true });
    assert_eq!(needed(&timed, packed, VERSION), (VERSION_7_4, kind::HASH_LISTPACK_EX));
    assert_eq!(needed(&timed_big, big, VERSION), (VERSION_7_4, kind::HASH_METADATA));
    assert_eq!(needed(&words, packed, VERSION_7_4), (VERSION, kind::SET));
    assert_eq!(needed(&used, packed, VERSION), (VERSION, kind::STREAM_LISTPACKS_2));
    assert_eq!(needed(&used, packed, VERSION_7_2), (VERSION_7_2, kind::STREAM_LISTPACKS_3));
    assert_eq!(needed(&same, packed, VERSION_8_8), (VERSION, kind::STREAM_LISTPACKS_2));
    assert_eq!(needed(&new, packed, VERSION_8_8), (VERSION_8_8, kind::STREAM_LISTPACKS_5));
    assert_eq!(needed(&new, packed, VERSION_8_6), (VERSION_8_6, kind::STREAM_LISTPACKS_4));
    assert_eq!(needed(&named, packed, VERSION_8_8), (VERSION_8_6, kind::STREAM_LISTPACKS_4));
    assert_eq!(needed(&new, packed, VERSION_7_4), (VERSION, opcode::AUX), "the producers are before the key");
}

#[test]
fn the_version_of_a_header_can_be_replaced_at_the_end() {
    let hasher = Hasher::new();
    let mut file = file_of_everything(false);
    file.truncate(file.len() - checksum::LEN);
    let mut sum = checksum::Checksum::new();
    for version in [VERSION, VERSION_7_2, VERSION_7_4] {
        sum = checksum::Checksum::new();
        let mut start = Vec::new();
        header(&mut start, version);
        file[..start.len()].copy_from_slice(&start);
        file.chunks(100).for_each(|chunk| sum.update(chunk));
        replace_version(&mut sum, version, VERSION_7_4);
    }
    file.extend_from_slice(&sum.value().to_le_bytes());
    let (seen, error) = read_all(&file[..], None, options(&hasher, ValueLimits::default()));
    assert!(error.is_none() && seen.last() == Some(&Seen::End(true)));
}

#[test]
fn what_follows_a_file_is_left_to_the_caller() {
    let hasher = Hasher::new();
    let file = [&file_of_everything(true)[..], b"*1\r\n$4\r\nPING\r\n"].concat();
    for size in [1, 10, usize::MAX] {
        let source = Pieces(&file, size);
        let mut reader = FileReader::new(source, None, options(&hasher, ValueLimits::default())).expect("a file");
        while !matches!(reader.read(), Ok(FileItem::End { .. })) {}
        assert_eq!(reader.offset(), file.len() as u64 - 14);
        let mut rest = Vec::new();
        reader.into_rest().read_to_end(&mut rest).expect("bytes");
        assert_eq!(rest, b"*1\r\n$4\r\nPING\r\n");
    }
}

#[test]
fn the_position_is_that_of_the_next_record() {
    let hasher = Hasher::new();
    let file = file_of(VERSION, b"\xfe\0\0\x01a\x01b\xfe\x01");
    let mut reader = FileReader::new(&file[..], None, options(&hasher, ValueLimits::default())).expect("a file");
    let mut offsets = vec![reader.offset()];
    while !matches!(reader.read(), Ok(FileItem::End { .. })) {
        offsets.push(reader.offset());
    }
    assert_eq!((offsets, reader.offset(), reader.version()), (vec![9, 11, 16, 18], file.len() as u64, VERSION));
}

proptest! {
    #[test]
    fn every_key_comes_back(
        keys in prop::collection::vec((samples::any_text(), any_sample()), 0..8),
        ms in prop::option::of(0..1_i64 << 50),
        usage in prop::option::of(prop_oneof![
            any::<u32>().prop_map(|seconds| Usage::Idle(seconds.into())),
            any::<u8>().prop_map(Usage::Frequency),
        ]),
        fence in prop_oneof![Just(0), any::<i64>()],
        (writes_low, reads_low, compresses, is_new) in any::<(bool, bool, bool, bool)>(),
        size in prop_oneof![1..50_usize, Just(usize::MAX)],
    ) {
        let limits = |is_low| if is_low { low_limits() } else { ValueLimits::default() };
        let (hasher, mut file, mut expected, mut version) = (Hasher::new(), MarkedBytes::default(), Vec::new(), VERSION);
        let highest = if is_new { VERSION_8_8 } else { VERSION_7_4 };
        header(&mut file, highest);
        let write = FileOptions { version: highest, compresses };
        let meta = KeyMeta { expires_ms: ms, usage, fence, lock: None };
        for (key, sample) in &keys {
            let built = sample.entry(key, limits(writes_low), &hasher);
            version = version.max(entry(&mut file, &built, meta, write));
            expected.push(Seen::Entry(key.clone(), describe(&built), ms, usage, fence));
        }
        expected.push(Seen::End(true));
        let file = seal(file);
        prop_assert!(version <= highest);
        let (seen, error) = read_all(Pieces(&file, size), None, options(&hasher, limits(reads_low)));
        prop_assert!(error.is_none());
        prop_assert_eq!(seen, expected);
    }
}
