//! Tests of reading files with blocks, without blocks, and damaged ones.

use std::io::Cursor;

use crate::persist::aof::block::{BlockStamp, Header, RunningChecksum, timestamp};
use crate::persist::aof::segment::{Piece, SegmentReader, Tail, Verdict};
use crate::persist::disk::simulated::SimulatedDisk;
use crate::persist::disk::{Disk, write_all};
use crate::random::Random;

/// A file as it is written: its bytes, its commands, and the bounds of its blocks.
#[derive(Clone, Default)]
struct Written {
    bytes: Vec<u8>,
    sum: RunningChecksum,
    commands: Vec<u8>,
    /// For each block or command: the start of its header, its end, and the number of bytes of commands up to there.
    parts: Vec<(usize, usize, usize)>,
}

/// Returns a command with an argument of a given length.
fn command(number: usize, len: usize) -> Vec<u8> {
    let value = format!("{number:_>len$}");
    format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{value}\r\n", value.len()).into_bytes()
}

impl Written {
    /// Appends a block whose header says how much was durable.
    fn block(mut self, commands: &[u8], synced: usize) -> Self {
        let begin = self.bytes.len();
        let stamp = timestamp(1_700_000_000_000 + begin as i64 * 1000);
        self.sum.add(&stamp);
        self.bytes.extend_from_slice(&stamp);
        let at = BlockStamp { wall_ms: 1_700_000_000_000, boot_ms: 77, fence: 0, history: None };
        let (position, len) = (self.commands.len() as u64, commands.len() as u64);
        let header = Header { position, len, end: position + len, boot: "b0".to_owned(), at, synced: synced as u64 };
        let line = header.write([commands], &mut self.sum);
        self.bytes.extend_from_slice(&line);
        self.append(commands, begin)
    }

    /// Appends commands as Redis does.
    fn plain(mut self, commands: &[u8]) -> Self {
        self.sum.add(commands);
        let begin = self.bytes.len();
        self.append(commands, begin)
    }

    fn append(mut self, commands: &[u8], begin: usize) -> Self {
        self.bytes.extend_from_slice(commands);
        self.commands.extend_from_slice(commands);
        self.parts.push((begin, self.bytes.len(), self.commands.len()));
        self
    }

    /// Returns the number of bytes of commands in the parts that end within a length.
    fn commands_within(&self, len: usize) -> usize {
        self.parts.iter().rev().find(|(_, end, _)| *end <= len).map_or(0, |(.., commands)| *commands)
    }
}

/// Reads a file; returns its commands, its verdict and its tail.
fn read(bytes: &[u8]) -> (Vec<u8>, Verdict, Tail) {
    let mut reader = SegmentReader::new(Cursor::new(bytes), bytes.len() as u64);
    let mut commands = Vec::new();
    while let Some(Piece { offset, bytes: piece, .. }) = reader.next().expect("read") {
        assert_eq!(bytes[offset as usize..][..piece.len()], piece, "a piece says where it is");
        commands.extend_from_slice(&piece);
    }
    (commands, reader.verdict(), reader.tail().clone())
}

/// Returns six blocks, each written after everything before the last one was durable.
fn blocks() -> Written {
    (0..6).fold(Written::default(), |file, number| {
        let synced = file.parts.iter().rev().nth(1).map_or(0, |(_, end, _)| *end);
        file.block(&[command(number, 40), command(number, 700)].concat(), synced)
    })
}

#[test]
fn files_with_blocks_without_and_with_both_are_read() {
    let value = b"*2\r\n$3\r\nGET\r\n$12\r\n\r\n#HDR:v1;\r\n\r\n".to_vec();
    let plain = Written::default()
        .plain(&command(1, 5))
        .plain(&value)
        .plain(&command(2, 60_000))
        .plain(&command(2, 65_000))
        .plain(&command(3, 1));
    let mixed = plain.clone().block(&value, 0).plain(&command(4, 7)).block(&command(5, 9), 3).block(b"", 9);
    let large = (0..9000).fold(Written::default(), |file, number| file.plain(&command(number, 50)));
    for file in [Written::default(), plain, mixed.clone(), blocks(), large] {
        let (commands, verdict, tail) = read(&file.bytes);
        assert!(commands == file.commands);
        assert_eq!((verdict, tail.len, tail.sum), (Verdict::Complete, file.bytes.len() as u64, file.sum));
    }
    let (_, _, tail) = read(&mixed.bytes);
    assert_eq!((tail.synced, tail.position), (9, Some(mixed.commands.len() as u64)));
    assert_eq!(read(&mixed.clone().plain(&command(6, 1)).bytes).2.position, None);
    let redis = [b"#TS:1700000000\r\n", &command(1, 5)[..], b"#anything\r\n", &command(2, 5)].concat();
    assert_eq!(read(&redis).0, [command(1, 5), command(2, 5)].concat());
}

#[test]
fn a_file_cut_at_any_byte_gives_its_whole_blocks() {
    for file in [blocks(), blocks().plain(&command(9, 30)).plain(&command(9, 40))] {
        for len in 0..=file.bytes.len() {
            let (commands, verdict, tail) = read(&file.bytes[..len]);
            assert_eq!(commands, file.commands[..file.commands_within(len)], "cut at {len}");
            match verdict {
                Verdict::Complete => assert_eq!(tail.len, len as u64),
                Verdict::TornTail { valid_len, .. } => assert!(valid_len < len as u64 && valid_len == tail.len),
                Verdict::Corrupt { .. } => panic!("cut at {len}: {verdict:?}"),
            }
        }
    }
}

#[test]
fn zeros_behind_the_last_whole_block_are_a_torn_tail() {
    let file = blocks();
    let last = file.parts[5].0;
    for len in (last..file.bytes.len()).step_by(7) {
        let mut bytes = file.bytes[..len].to_vec();
        bytes.resize(file.bytes.len() + 5000, 0);
        let (commands, verdict, _) = read(&bytes);
        assert_eq!(commands, file.commands[..file.parts[4].2]);
        assert!(matches!(verdict, Verdict::TornTail { .. }), "{len}: {verdict:?}");
    }
    let mut plain = Written::default().plain(&command(1, 10)).bytes;
    plain.extend_from_slice(&[0; 3000]);
    assert!(matches!(read(&plain).1, Verdict::TornTail { .. }));
    assert!(matches!(read(&[0; 3000]).1, Verdict::TornTail { valid_len: 0, .. }));
}

#[test]
fn a_changed_byte_is_a_torn_tail_where_it_may_not_have_been_durable_and_corrupt_where_it_was() {
    let file = blocks();
    let last = file.bytes.len();
    // The last block says that the first four were durable, the one before says it of the first three.
    let durable = file.parts[3].1;
    for at in 0..last {
        let mut bytes = file.bytes.clone();
        bytes[at] ^= 0x21;
        let (commands, verdict, _) = read(&bytes);
        let intact = file.commands_within(at);
        assert!(commands.len() <= intact && file.commands.starts_with(&commands), "{at}: {verdict:?}");
        let part = file.parts.iter().position(|(begin, end, _)| (begin..end).contains(&&at)).expect("a part");
        match verdict {
            // A changed timestamp is noticed by the block behind it.
            Verdict::Corrupt { offset, .. } => assert!(at < durable && offset <= at as u64 + 16, "{at}"),
            // Without a header that can be read, the block after is not checked.
            Verdict::TornTail { .. } => assert!(at >= durable || part == 3, "{at} in {part}: {verdict:?}"),
            Verdict::Complete => panic!("{at} was not noticed"),
        }
    }
}

#[test]
fn blocks_that_are_missing_swapped_or_there_twice_are_noticed() {
    let file = blocks();
    let part = |number: usize| file.bytes[file.parts[number].0..file.parts[number].1].to_vec();
    for order in [&[0, 2, 3, 4, 5][..], &[0, 2, 1, 3, 4, 5], &[0, 1, 1, 2, 3, 4, 5], &[1, 2, 3, 4, 5]] {
        let bytes: Vec<u8> = order.iter().flat_map(|number| part(*number)).collect();
        let (commands, verdict, _) = read(&bytes);
        assert!(file.commands.starts_with(&commands) && commands.len() < file.commands.len() / 2);
        assert!(matches!(verdict, Verdict::Corrupt { .. }), "{order:?}: {verdict:?}");
    }
    let lost_tail: Vec<u8> = [0, 1, 2, 4].into_iter().flat_map(part).collect();
    assert!(matches!(read(&lost_tail).1, Verdict::TornTail { .. }));
}

#[test]
fn commands_of_redis_that_are_damaged_are_corrupt_unless_the_file_ends_in_them() {
    let (one, two) = (command(1, 10), command(2, 10));
    for (bytes, valid) in [
        ([&one[..], b"garbage", &two].concat(), one.len()),
        ([&one[..], b"*3\r\n$3\r\nSETT\r\n", &two].concat(), one.len()),
        (b"not a file of commands".to_vec(), 0),
        ([&one[..], &b"#".repeat(2000), &two].concat(), one.len()),
    ] {
        let (commands, verdict, _) = read(&bytes);
        assert_eq!(commands, one[..valid]);
        assert!(matches!(verdict, Verdict::Corrupt { offset, .. } if offset == valid as u64), "{verdict:?}");
    }
    // Damage in commands of Redis is noticed by the checksum of the next block.
    let file = Written::default().plain(&one).block(&two, one.len()).block(&one, one.len() + two.len());
    let mut bytes = file.bytes.clone();
    bytes[one.len() - 4] ^= 1;
    assert!(matches!(read(&bytes).1, Verdict::Corrupt { offset, .. } if offset as usize > one.len()));
}

#[test]
fn what_redis_has_appended_to_a_torn_block_is_no_torn_tail() {
    let file = blocks();
    let torn = file.parts[5].0 + 200;
    let appended = (0..50).fold(Written::default(), |file, number| file.plain(&command(number, 100)));
    let bytes = [&file.bytes[..torn], &appended.bytes].concat();
    let (commands, verdict, _) = read(&bytes);
    assert_eq!(commands, file.commands[..file.parts[4].2]);
    assert!(matches!(verdict, Verdict::Corrupt { .. }), "{verdict:?}");
}

#[test]
fn a_line_that_ends_in_lost_bytes_is_no_annotation() {
    let next = [&b"\n"[..], &command(1, 30)].concat();
    for start in [&b"#TS:17"[..], b"#HD"] {
        let bytes = [&blocks().bytes, start, &[0; 300], &next].concat();
        let (commands, verdict, tail) = read(&bytes);
        assert_eq!((commands.len(), tail.len), (blocks().commands.len(), blocks().bytes.len() as u64));
        assert!(matches!(verdict, Verdict::TornTail { .. }), "{verdict:?}");
    }
}

#[test]
fn nothing_that_is_read_panics() {
    let file = blocks().plain(&command(1, 9)).block(&command(2, 2), 5);
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let mut bytes = file.bytes.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => _ = bytes.drain(at..(at + random.below(600)).min(bytes.len())),
                2 => bytes[at] = b"#*$\r\n;:9"[random.below(8)],
                _ => bytes.truncate(at.max(1)),
            }
        }
        let (commands, verdict, tail) = read(&bytes);
        assert!(commands.len() as u64 <= tail.len && tail.len <= bytes.len() as u64, "{verdict:?}");
    }
}

#[test]
fn the_tail_of_the_valid_part_is_read_for_going_on_there() {
    let (disk, path) = (SimulatedDisk::new(1), std::path::Path::new("/file"));
    let file = blocks().plain(&command(9, 30));
    let first = file.parts[5].1 as u64;
    write_all(&*disk.create(path).expect("created"), &file.bytes).expect("written");
    let tail = Tail::read(&disk, path, first).expect("a tail");
    assert_eq!((tail.len, tail.sum), (first, blocks().sum));
    assert!(Tail::read(&disk, path, first + 3).is_err());
    assert!(Tail::read(&disk, path, file.bytes.len() as u64 + 1).is_err());
}
