//! Text and numbers as Redis parses and formats them: quoting, numbers, dialects; and files that a running server is
//! told to read.
//!
//! Nothing here depends on a setting, a user or a command.

pub(crate) mod bounds;
mod dialect;
pub(crate) mod double;
pub(crate) mod long_double;
mod number;
mod words;

use std::path::Path;
use std::{fs, io};

pub(crate) use dialect::Dialect;
pub use dialect::REDIS_VERSION;
pub(crate) use dialect::VALKEY_VERSION;
pub(crate) use number::{
    DIGITS_MAX, is_c_blank, parse_c_integer, parse_c_unsigned, parse_integer, parse_memory, put_digits,
};
pub use words::{quote, split_words};

/// Truncates at the first zero byte, as C strings do.
pub(crate) fn until_nul(word: &[u8]) -> &[u8] {
    &word[..memchr::memchr(0, word).unwrap_or(word.len())]
}

/// Returns the operating system's error text without Rust's additions: the number, or the note that a name was looked
/// up.
pub(crate) fn system_text(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    let own = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    own.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Reads a regular file. Any other file is refused: a pipe without a writer, or a terminal, would block the thread that
/// reads it, and with it all clients that this thread serves.
///
/// # Errors
/// If the file is not regular, or cannot be read.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "Not a regular file"))
    }
}
