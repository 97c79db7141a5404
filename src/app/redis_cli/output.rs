//! Helpers of several files: printing, pauses, comparison of words.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use crate::text::system_text;

/// Returns true if a word equals a name, in any case.
pub(super) fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// Prints bytes at once.
///
/// # Errors
/// If standard output fails.
pub(super) fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Prints text, for a mode that ends when nobody reads it.
///
/// # Errors
/// If standard output fails.
pub(super) fn say(text: &str) -> Result<(), String> {
    print(text.as_bytes()).map_err(|cause| unwritten(&cause))
}

/// Returns the reason for which standard output failed; nothing if nobody reads it any more, as in `--scan | head`.
pub(super) fn unwritten(cause: &io::Error) -> String {
    if cause.kind() == io::ErrorKind::BrokenPipe { String::new() } else { system_text(cause) }
}

/// Pauses between commands or cycles.
pub(super) fn pause(interval: Duration) {
    if interval > Duration::ZERO {
        thread::park_timeout(interval);
    }
}
