//! Damaged append-only files: a start has a state that the data has had, or fails with the file and the position,
//! without changing any file.

use std::path::{Path, PathBuf};

use keylatch::internals::disk::SimulatedDisk;
use keylatch::internals::image;
use keylatch::{Clock, Server};

use crate::harness::{Client, Dice};
use crate::log::{BEGIN_MS, first_seed};

/// Number of damaged files with checksums, and number without, unless set by `KEYLATCH_LOGS`.
const DAMAGED: u64 = 500;

type Files = Vec<(PathBuf, Vec<u8>)>;

const REQUESTS: &[&str] = &[
    "SET a 1",
    "RPUSH l a b c",
    "MULTI; SET b 2; INCR a; RPUSH l d; EXEC",
    "SET t v PX 100000",
    "HSET h f 1 g 2",
    "HPEXPIRE h 5000 FIELDS 1 f",
    "MULTI; SELECT 3; SET c 3; SELECT 0; SADD s a b c; EXEC",
    "XADD x 1-1 f v",
    "ZADD z 1 a 2 b",
    "LOCK.ACQUIRE lock token PX 5000",
    "SET long xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "DEL a",
    "MULTI; APPEND b 3; LPOP l; EXEC",
];

fn start(disk: &SimulatedDisk, checksum: &str) -> std::io::Result<Server> {
    let clock = Clock::manual();
    clock.set_wall_ms(BEGIN_MS);
    let builder = Server::builder().clock(clock).disk(disk.clone()).set("dir", "/").set("appendonly", "yes");
    builder.set("aof-checksum", checksum).start_blocking()
}

/// Returns the files of a server, and the states that its data has had.
fn written(checksum: &str) -> (Files, Vec<Vec<String>>) {
    let disk = SimulatedDisk::new(1);
    let server = start(&disk, checksum).expect("started");
    let (mut client, mut states) = (Client::connect(server.addr()), vec![image(server.namespace())]);
    for request in REQUESTS {
        request.split("; ").for_each(|words| assert!(!client.call(words).starts_with('-'), "{words}"));
        assert_eq!(client.call("WAITAOF 1 0 0"), "*2 :1 :0");
        states.push(image(server.namespace()));
    }
    server.shutdown_blocking();
    (disk.contents(), states)
}

fn increment(files: &mut Files) -> &mut Vec<u8> {
    let found = files.iter_mut().find(|(path, _)| path.extension().is_some_and(|end| end == "aof"));
    &mut found.expect("an increment").1
}

/// Damages the bytes of a file; returns a description.
fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) -> String {
    let (len, kind) = (bytes.len() as u64, dice.roll(8));
    let (at, count) = (dice.roll(len) as usize, 1 + dice.roll(120) as usize);
    let end = (at + count).min(bytes.len());
    match kind {
        0 => bytes.truncate(bytes.len() - dice.roll(300) as usize),
        1 => bytes[at] ^= 1 << dice.roll(8),
        2 => bytes[at..end].fill(0),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let copied = bytes[at..end].to_vec();
            bytes.splice(at..at, copied);
        }
        5 => {
            let digits = [&b"9223372036854775807"[..], b"536870912", b"-1", b"18446744073709551616", b"0"];
            let lengths: Vec<usize> =
                (0..bytes.len() - 1).filter(|at| matches!(bytes[*at], b'$' | b'*' | b':')).collect();
            let at = lengths[dice.roll(lengths.len() as u64) as usize] + 1;
            let end = bytes[at..].iter().position(|byte| !byte.is_ascii_digit()).map_or(at, |len| at + len);
            bytes.splice(at..end, digits[dice.roll(5) as usize].iter().copied());
        }
        6 => bytes.extend((0..count).map(|_| dice.roll(256) as u8)),
        _ => {
            // Blocks are swapped.
            let starts: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"#HDR")).collect();
            if let [.., begin, middle, end] = starts[..] {
                let block = bytes[begin..middle].to_vec();
                bytes.splice(end..end, block);
                bytes.drain(begin..middle);
            }
        }
    }
    format!("damage {kind} at {at}, {count} bytes")
}

/// Starts a server on damaged files; returns whether it has started.
fn try_files(files: &Files, checksum: &str, states: Option<&[Vec<String>]>, how: &str) -> bool {
    let disk = SimulatedDisk::with_contents(files);
    let server = match start(&disk, checksum) {
        Ok(server) => server,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("/appendonlydir/appendonly.aof"), "{how}: {text}");
            assert!(
                ["offset", "byte", "line", "not there", "manifest"].iter().any(|word| text.contains(word)),
                "{how}: {text}"
            );
            let mut after = disk.contents();
            after.sort();
            let mut before = files.clone();
            before.sort();
            assert!(after == before, "{how}: a refused start has changed files");
            return false;
        }
    };
    let found = image(server.namespace());
    assert!(states.is_none_or(|states| states.contains(&found)), "{how}: {found:#?}");
    // Cut off parts are kept.
    let content = |end: fn(&Path) -> bool| {
        let parts = disk.contents();
        parts.into_iter().find(|(path, _)| end(path)).map(|(_, bytes)| bytes).unwrap_or_default()
    };
    let kept = content(|path| path.to_string_lossy().contains(".tail-"));
    let valid = content(|path| path.extension().is_some_and(|end| end == "aof"));
    let mut files = files.clone();
    assert!([valid, kept].concat() == *increment(&mut files), "{how}: bytes are lost");
    // Writes continue after the valid part.
    let mut client = Client::connect(server.addr());
    assert_eq!(client.call("SET later 1"), "+OK", "{how}");
    let last = image(server.namespace());
    server.shutdown_blocking();
    let again = start(&disk, checksum).unwrap_or_else(|error| panic!("{how}: the second start: {error}"));
    assert_eq!(image(again.namespace()), last, "{how}: after the second start");
    true
}

fn try_damaged(checksum: &str) {
    let (files, states) = written(checksum);
    assert!(try_files(&files, checksum, Some(&states[states.len() - 1..]), "no damage"));
    let count = std::env::var("KEYLATCH_LOGS").map_or(DAMAGED, |text| text.parse().expect("a number"));
    let mut started = 0;
    for seed in first_seed()..first_seed() + count {
        let (mut damaged, mut dice) = (files.clone(), Dice::new(seed));
        let how = damage(increment(&mut damaged), &mut dice);
        // Without checksums a damaged value cannot be recognised.
        let states = (checksum == "yes").then_some(&states[..]);
        started += u64::from(try_files(&damaged, checksum, states, &format!("seed {seed}, {how}")));
    }
    assert!(started > count / 20 && started < count * 9 / 10, "{started} of {count} have started");
}

#[test]
fn a_damaged_file_with_checksums_gives_a_state_that_there_was_or_is_refused() {
    try_damaged("yes");
}

#[test]
fn a_damaged_file_without_checksums_does_no_harm() {
    try_damaged("no");
}

#[test]
fn a_damaged_base_or_manifest_is_refused_and_stays_as_it_is() {
    let (files, states) = written("yes");
    for (number, (path, bytes)) in files.iter().enumerate() {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".incr.aof") {
            continue;
        }
        // An incremental file of another type would be one that a rewrite has replaced.
        let is_type = |at: usize| bytes[..at].ends_with(b" type ") && bytes[at] == b'i';
        for at in (0..bytes.len()).filter(|at| !is_type(*at)) {
            for value in [bytes[at] ^ 1, 0, b'9'] {
                let mut damaged = files.clone();
                damaged[number].1[at] = value;
                if damaged == files {
                    continue;
                }
                let disk = SimulatedDisk::with_contents(&damaged);
                let how = format!("{name}, byte {at} is {value}");
                match start(&disk, "yes") {
                    // For example, the length that the file had after the rewrite.
                    Ok(server) => assert_eq!(Some(&image(server.namespace())), states.last(), "{how}"),
                    Err(error) => {
                        assert!(error.to_string().contains("/appendonlydir"), "{how}: {error}");
                        assert_eq!(disk.contents().len(), damaged.len(), "{how}");
                        assert!(disk.contents().iter().all(|file| damaged.contains(file)), "{how}");
                    }
                }
            }
        }
    }
}
