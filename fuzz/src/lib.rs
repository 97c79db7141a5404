//! What the fuzz targets do with their input. `tests/it/corpus.rs` includes this file too and replays the corpus, so that
//! what a fuzzer once found stays found without one.
//!
//! A target panics when a claim does not hold; a crash, a hang and memory without bound are for the fuzzer to see.

mod clients;

use bytes::BytesMut;
use keylatch::config;
use keylatch::resp::{Limits, RequestDecoder};
use tokio_util::codec::Decoder;

pub use clients::dispatcher;

/// What is done with one input.
pub type Target = fn(&[u8]);

/// Makes every target known by its name, for the replay.
pub const TARGETS: &[(&str, Target)] = &[("decoder", decoder), ("dispatcher", dispatcher), ("config", config)];

/// Decodes a stream in pieces: the first bytes say where it is split. Any split gives the same requests and error.
pub fn decoder(data: &[u8]) {
    let Some((&flags, data)) = data.split_first() else { return };
    let (cuts, stream) = data.split_at(usize::from(flags >> 1).min(data.len()));
    let limits = Limits { authenticated: flags & 1 != 0, ..Limits::default() };
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
fn decode<'a>(limits: Limits, pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut decoder, mut src, mut requests) = (RequestDecoder::new(limits), BytesMut::new(), Vec::new());
    for piece in pieces {
        src.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut src) {
                Ok(Some(batch)) => {
                    requests.extend(batch.iter().map(|request| request.args().map(<[u8]>::to_vec).collect()));
                    decoder.recycle(batch);
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
    }
    (requests, None)
}

/// Reads a config file and command-line words; what is accepted, written as a file, gives the same settings again.
pub fn config(data: &[u8]) {
    // Files named by the input are not for a fuzzer to open.
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
