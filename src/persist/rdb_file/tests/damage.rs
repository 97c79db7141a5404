//! Damaged files: each is refused, without a panic, without more memory than the file has bytes, and without reading
//! on.

use std::cell::Cell;
use std::io::{self, Read};

use proptest::prelude::*;

use super::*;
use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::grammar::{Extent, Measure};
use crate::rdb::{Reader, VERSION_8_8, compressed};
use crate::types::hash_template::{HashTemplate, HashTemplates};

/// A source that counts the bytes read from it.
struct Counted<'a, R>(R, &'a Cell<usize>);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(out)?;
        self.1.set(self.1.get() + len);
        Ok(len)
    }
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let (hasher, file) = (Hasher::new(), file_of_everything(false));
    for cut in 0..file.len() {
        for len in [None, Some(cut as u64), Some(file.len() as u64)] {
            let (_, error) = read_all(&file[..cut], len, options(&hasher, ValueLimits::default()));
            let error = error.expect("a refusal");
            let is_told = match error.reason {
                FileDefect::Truncated { missing } => missing > 0 && cut as u64 + missing <= file.len() as u64,
                FileDefect::Magic => cut < 9,
                _ => false,
            };
            assert!(is_told && error.offset <= cut as u64, "{cut}: {error}");
        }
    }
}

#[test]
fn every_flipped_bit_is_detected() {
    let (hasher, mut file) = (Hasher::new(), file_of_everything(true));
    for bit in 0..8 * file.len() {
        let mask = 1 << (bit % 8);
        file[bit / 8] ^= mask;
        let (_, error) = read_all(&file[..], Some(file.len() as u64), options(&hasher, ValueLimits::default()));
        assert!(error.is_some(), "bit {} of byte {}", bit % 8, bit / 8);
        let unchecked = ReadOptions { checks: false, ..options(&hasher, ValueLimits::default()) };
        let _ = read_all(&file[..], None, unchecked);
        file[bit / 8] ^= mask;
    }
}

#[test]
fn a_wrong_checksum_is_named_and_none_is_not_compared() {
    let mut file = file_of(VERSION, b"\0\x01a\x01b");
    let (sum_at, right) = (file.len() - 8, checksum::of(&file[..file.len() - 8]));
    file[sum_at..].copy_from_slice(&1_u64.to_le_bytes());
    let expected = format!(
        "Wrong RDB checksum: CRC error (expected 0000000000000001, computed {right:016x}) at byte 14 of the RDB file"
    );
    assert_eq!(refusal(&file), expected);
    file[sum_at..].fill(0);
    assert_eq!(read_file(&file).last(), Some(&Seen::End(false)));
    file[sum_at..].fill(1);
    let (hasher, len) = (Hasher::new(), Some(file.len() as u64));
    let unchecked = ReadOptions { checks: false, ..options(&hasher, ValueLimits::default()) };
    let (seen, error) = read_all(&file[..], len, unchecked);
    assert!(error.is_none() && seen.last() == Some(&Seen::End(false)));
}

#[test]
fn a_malformed_record_is_refused_without_reading_on() {
    let records: [(&[u8], &str); 22] = [
        (b"\x08", "Unknown type or opcode 8"),
        (b"\x22", "Unknown type or opcode 34"),
        (b"\xf1", "Unknown type or opcode 241"),
        (b"\xf2\x01\0", "Malformed record with opcode 242"),
        (b"\xf3\x08", "Malformed record with opcode 243"),
        (b"\xf3\x01\x01\0\0\0\x07", "Malformed record with opcode 243"),
        (b"\x1e\x01a\x0b\x0b\0\0\0\x02\0\0\x01\x01\x01\xff", "Malformed value of type 30 for the key \"a\""),
        (b"\x20\x01a\x01\x01v", "Malformed value of type 32 for the key \"a\""),
        (b"\0\xc4", "Malformed record with opcode 0"),
        (b"\xfa\x01a\xc5", "Malformed record with opcode 250"),
        (b"\xfe\x82", "Malformed record with opcode 254"),
        (b"\xfa\x0ekeylatch-fence\x01x", "Malformed record with opcode 250"),
        (b"\xfa\x16keylatch-retired-fence\x051 2 3", "Malformed record with opcode 250"),
        (b"\xfa\x16keylatch-retired-fence\x091 2 x key", "Malformed record with opcode 250"),
        (b"\xfa\x16keylatch-retired-fence\x0a-1 2 3 key", "Malformed record with opcode 250"),
        (b"\x04\x01a\x03\x01f\x01v\x01f\x01v\x01g\x01v", "Malformed value of type 4 for the key \"a\""),
        (b"\x0b\x01a\x08\x02\0\0\0\0\0\0\0", "Malformed value of type 11 for the key \"a\""),
        (b"\x10\x02\xff\"\x03abc", "Malformed value of type 16 for the key \"\\xff\\\"\""),
        (b"\0\x01a\xc3\x02\x0a\xff\xff", "Malformed value of type 0 for the key \"a\""),
        // Lengths and counts beyond the end of the file.
        (b"\0\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff", "Short read: a record that lacks"),
        (b"\x02\x01a\x81\x10\0\0\0\0\0\0\0", "Short read: a record that lacks"),
        (b"\x04\x81\0\0\0\xff\0\0\0\0", "Short read: a record that lacks"),
    ];
    let hasher = Hasher::new();
    for (record, expected) in records {
        let mut file = file_of(VERSION, record);
        file.truncate(9 + record.len());
        let len = 50 << 20;
        let count = Cell::new(0);
        let source = Counted(file.chain(io::repeat(1)), &count);
        let (seen, error) = read_all(source, Some(len), options(&hasher, ValueLimits::default()));
        let error = error.expect("a refusal");
        assert!(seen.is_empty() && error.offset == 9, "{error}");
        assert!(error.to_string().starts_with(expected), "{error}, not {expected}");
        assert!(count.get() < 1 << 20, "{} bytes were read for {error}", count.get());
    }
}

#[test]
fn what_claims_more_than_a_source_of_unknown_length_has_is_refused_at_its_end() {
    let hasher = Hasher::new();
    for claim in [&b"\0\x01a\x81\x7f\xff\xff\xff\xff\xff\xff\xff"[..], b"\x01\x01a\x81\xff\xff\xff\xff\xff\xff\xff\xff"]
    {
        let file = [b"REDIS0010", claim, &[1; 1000]].concat();
        let (_, error) = read_all(Pieces(&file, 100), None, options(&hasher, ValueLimits::default()));
        assert!(matches!(error.expect("a refusal").reason, FileDefect::Truncated { .. }));
    }
}

#[test]
fn an_error_of_the_source_is_passed_on_and_an_interrupted_read_is_repeated() {
    struct Failing(u8);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => Err(io::ErrorKind::Interrupted.into()),
                2 => (&b"REDIS0010"[..]).read(out),
                _ => Err(io::Error::other("the disk is gone")),
            }
        }
    }
    let hasher = Hasher::new();
    let (_, error) = read_all(Failing(0), None, options(&hasher, ValueLimits::default()));
    let error = error.expect("a refusal").to_string();
    assert_eq!(error, "Reading failed (the disk is gone) at byte 9 of the RDB file");
}

#[test]
fn a_record_is_measured_the_same_in_any_pieces() {
    let (hasher, mut templates) = (Hasher::new(), HashTemplates::default());
    assert!(templates.add(HashTemplate::read(&mut Reader::new(b"\x09\x02\x01a\x02bb")).expect("a template")));
    let write = FileOptions { version: VERSION_8_8, compresses: true };
    let mut records: Vec<Vec<u8>> = Vec::new();
    for sample in samples() {
        for limits in [ValueLimits::default(), low_limits()] {
            let mut record = MarkedBytes::default();
            entry(&mut record, &sample.entry(b"key", limits, &hasher), KeyMeta::default(), write);
            records.push(compressed(record));
        }
    }
    records.push(b"\xf7\x81\0\0\0\0\0\0\0\x07\x02\x01\x01\x05\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x05\x02ab\0".to_vec());
    records.push(b"\x03\x01k\x02\x01a\xfe\x01b\x031.5".to_vec());
    records.push(b"\xf2\x05\x02\x01a\x02bb".to_vec());
    records.push(b"\xf3\x02\x01\0\0\0\x02\x05\x05\x01a\0\x01\0\0\0\0".to_vec());
    records.push(b"\x20\x01k\x09\x01v\xc0\x05".to_vec());
    for record in records {
        let mut measure = Measure::new(record[0], Family::Redis).expect("a known record");
        for len in 1..record.len() {
            let extent = measure.advance(&record[..len], u64::MAX, &templates);
            let Extent::Missing(missing) = extent else { panic!("{extent:?} after {len} bytes of {record:?}") };
            assert!((1..=(record.len() - len) as u64).contains(&missing), "{missing} after {len} bytes of {record:?}");
        }
        let longer = [&record[..], b"more"].concat();
        assert_eq!(measure.advance(&longer, 0, &templates), Extent::Whole(record.len()), "{record:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_records_are_read_or_refused(
        first in any::<u8>(),
        record in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..200),
        size in 1..300_usize,
        is_valkey in any::<bool>(),
    ) {
        let magic = if is_valkey { b"VALKEY080" } else { b"REDIS0015" };
        let file = [magic, &[first][..], &record].concat();
        let hasher = Hasher::new();
        let (whole, error) = read_all(&file[..], Some(file.len() as u64), options(&hasher, ValueLimits::default()));
        let (parted, other) = read_all(Pieces(&file, size), None, options(&hasher, low_limits()));
        prop_assert_eq!(whole, parted);
        prop_assert_eq!(error.is_some(), other.is_some());
    }
}
