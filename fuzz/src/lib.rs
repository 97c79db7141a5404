//! Fuzz targets. `tests/it/corpus.rs` includes this file too and replays the corpus, so that earlier findings are
//! tested without a fuzzer. `fuzz/corpus.sh` unpacks the corpus for the fuzzer, and packs the inputs that the fuzzer
//! keeps.
//!
//! A target panics when an asserted property does not hold; the fuzzer itself detects crashes, hangs and unbounded
//! memory.

mod clients;
#[cfg(any(feature = "json", feature = "probabilistic", feature = "vectors"))]
mod parts;
#[cfg(feature = "lua")]
mod scripts;

use std::io::{self, Read};

use bytes::BytesMut;
use keylatch::internals::append_only as log;
use keylatch::internals::config;
use keylatch::internals::resp::{Batch, RequestDecoder, RequestLimits};
use keylatch::internals::table;
use keylatch::internals::{RuleSettings, User};
use keylatch::internals::{packed, payload, rdb};

pub use clients::dispatcher;
#[cfg(feature = "vectors")]
pub use parts::filter;
#[cfg(feature = "json")]
pub use parts::json;
#[cfg(feature = "probabilistic")]
pub use parts::load_chunk;
#[cfg(feature = "lua")]
pub use scripts::script;

/// Function that processes one input.
pub type Target = fn(&[u8]);

/// Targets by name, for the replay.
pub const TARGETS: &[(&str, Target)] = &[
    ("decoder", decoder),
    ("dispatcher", dispatcher),
    ("config", config),
    ("restore", restore),
    ("packed", packed_formats),
    ("rdb_file", rdb_file),
    ("append_only", append_only),
    ("acl", acl),
    #[cfg(feature = "json")]
    ("json", json),
    #[cfg(feature = "vectors")]
    ("filter", filter),
    #[cfg(feature = "probabilistic")]
    ("load_chunk", load_chunk),
    #[cfg(feature = "lua")]
    ("script", script),
];

/// Decodes a stream in pieces, split as the first bytes say. Any split gives the same requests and error.
pub fn decoder(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    let (cuts, stream) = data.split_at(usize::from(flags >> 1).min(data.len()));
    let limits = RequestLimits { authenticated: flags & 1 != 0, ..RequestLimits::default() };
    let whole = decode(limits, std::iter::once(stream));
    let mut rest = stream;
    let pieces = cuts.iter().map(|&cut| {
        let (piece, behind) = rest.split_at(usize::from(cut).min(rest.len()));
        rest = behind;
        piece
    });
    let pieces: Vec<&[u8]> = pieces.collect();
    let parted = decode(limits, pieces.into_iter().chain([rest]));
    assert_eq!(whole, parted, "a split changes what is read");
}

/// Returns the requests of a stream, and the text of the error that ends it.
fn decode<'a>(limits: RequestLimits, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut decoder, mut src) = (RequestDecoder::new(limits), BytesMut::new());
    let (mut batch, mut requests) = (Batch::default(), Vec::new());
    for piece in pieces {
        src.extend_from_slice(piece);
        loop {
            match decoder.decode_into(&mut src, &mut batch) {
                Ok(true) => {
                    requests.extend(batch.iter().map(|request| request.args().map(<[u8]>::to_vec).collect()));
                    batch.recycle(&mut src);
                }
                Ok(false) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
    }
    (requests, None)
}

/// Parses a config file and command-line words. Accepted settings, written as a file, must be parsed again as the same
/// settings.
pub fn config(data: &[u8]) {
    // A fuzzer must not open files named by the input.
    if data.to_ascii_lowercase().windows(7).any(|word| word == b"include") {
        return;
    }
    let words: Vec<Vec<u8>> = data.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    let _ = config::load(None, None, &config::options_text(&words));
    let Ok(settings) = config::load(None, Some(data), b"") else { return };
    let every = || config::Setting::all().filter(|setting| setting.name != "dir");
    let changed = every().filter(|setting| setting.get(&settings) != setting.default.as_bytes());
    let file: Vec<u8> = changed.flat_map(|setting| line(setting, &settings)).collect();
    let again = config::load(None, Some(&file), b"").unwrap_or_else(|error| panic!("{error}"));
    every().for_each(|setting| assert_eq!(setting.get(&again), setting.get(&settings), "{}", setting.name));
}

fn line(setting: &config::Setting, settings: &config::Config) -> Vec<u8> {
    format!("{} {}\n", setting.name, config::quote(&setting.get(settings))).into_bytes()
}

/// Restores a payload, as it is and with a correct footer. A restored value, dumped again, must be restored as the same
/// value.
pub fn restore(data: &[u8]) {
    let _ = payload::rewrite(data, true);
    let sealed = rdb::seal(data.to_vec(), rdb::VERSION_7_4);
    let _ = rdb::library::parse(&sealed);
    if let Ok(dumped) = payload::rewrite(&sealed, true) {
        let plain = payload::rewrite(&dumped, false).expect("what was written can be read");
        assert_eq!(payload::rewrite(&plain, true), Ok(dumped));
    }
}

/// Reader that returns at most three bytes at once.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = out.len().min(3);
        self.0.read(&mut out[..room])
    }
}

/// Reads an RDB file, as it is and without its checksum, as a whole and in pieces. Its contents, written as a file,
/// must be read as the same contents.
pub fn rdb_file(data: &[u8]) {
    let mut unsummed = data.to_vec();
    if let Some(sum) = unsummed.last_chunk_mut::<8>() {
        sum.fill(0);
    }
    for file in [data, &unsummed] {
        let whole = payload::rewrite_file(file, Some(file.len() as u64));
        let parted = payload::rewrite_file(Pieces(file), None);
        // Members of large sets have no order.
        assert_eq!(whole.as_ref().map(Vec::len).ok(), parted.map(|file| file.len()).ok(), "pieces change what is read");
        if let Ok(file) = whole {
            let again =
                payload::rewrite_file(&file[..], Some(file.len() as u64)).expect("what was written can be read");
            assert_eq!(again.len(), file.len());
        }
    }
}

/// Reads a file of an append-only file as a whole and in pieces, and a manifest. The valid part must be read the same
/// without the invalid rest; a manifest that was read and written must be read the same.
pub fn append_only(data: &[u8]) {
    let len = data.len() as u64;
    let whole = log::read(data, len).expect("nothing fails");
    assert_eq!(log::read(Pieces(data), len).expect("nothing fails"), whole, "pieces change what is read");
    assert!(whole.valid_len <= len && whole.commands.len() as u64 <= whole.valid_len);
    let valid = &data[..whole.valid_len as usize];
    let again = log::read(valid, whole.valid_len).expect("nothing fails");
    assert_eq!((again.commands, again.damage), (whole.commands, None), "what is valid depends on what follows");
    if let Some(text) = log::manifest(data) {
        assert_eq!(log::manifest(text.as_bytes()), Some(text.clone()), "a manifest is another when read again");
    }
}

/// Checks bytes as a listpack and as an intset, as they are and with a correct length. Accepted bytes must read the
/// same in both directions, and integers must ascend.
pub fn packed_formats(data: &[u8]) {
    let mut sealed = data.to_vec();
    if let Some(header) = sealed.first_chunk_mut() {
        *header = (data.len() as u32).to_le_bytes();
    }
    for bytes in [data, &sealed[..]] {
        if let Some([forward, mut backward]) = packed::listpack(bytes) {
            backward.reverse();
            assert_eq!(forward, backward, "the elements depend on the direction");
        }
    }
    if let Some(ints) = packed::intset(data) {
        assert!(!ints.is_empty() && ints.is_sorted_by(|low, high| low < high), "{ints:?}");
    }
}

/// Applies ACL rules to a user. A rejected rule must change nothing, and the user's description must create the same
/// user again.
pub fn acl(data: &[u8]) {
    let mut user = User::new(table(), b"alice", false);
    for rule in data.split(|&byte| byte == b' ' || byte == b'\n') {
        let before = user.line();
        if user.apply(rule, RuleSettings::default()).is_err() {
            assert_eq!(user.line(), before, "a refused rule has changed the user");
        }
    }
    // `%RW~*` is a pattern, but is described as the pattern that makes all others redundant: the first description may
    // say too much.
    let Some(again) = read_again(&user) else { return };
    if let Some(more) = read_again(&again) {
        assert_eq!(more.line(), again.line(), "a described user is another when read again");
    }
}

/// Creates a user from the description of another one, as an ACL file does.
fn read_again(user: &User) -> Option<User> {
    let line = user.line();
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let mut again = User::new(table(), b"alice", false);
    // A selector is one rule of several words.
    let text = words.get(2..).unwrap_or_default().join(&b' ');
    again.apply_all(&rules(&text), RuleSettings::default()).ok()?;
    Some(again)
}

/// Splits a line of rules at blanks that are not inside parentheses.
fn rules(text: &[u8]) -> Vec<Vec<u8>> {
    let (mut rules, mut depth) = (vec![Vec::new()], 0_usize);
    for &byte in text {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match (byte, depth, rules.last_mut()) {
            (b' ', 0, _) => rules.push(Vec::new()),
            (_, _, Some(rule)) => rule.push(byte),
            _ => {}
        }
    }
    rules
}
