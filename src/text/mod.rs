//! Text and numbers as Redis writes them, whatever they are about: words and quotes, numbers, whose wording is used.
//!
//! Nothing here knows a setting, a user or a command.

mod dialect;
pub(crate) mod long_double;
mod number;
mod words;

pub(crate) use dialect::Dialect;
pub use dialect::REDIS_VERSION;
pub(crate) use number::{parse_c_integer, parse_integer, parse_memory};
pub use words::{quote, split_words};

/// Cuts a word where C's strings end: before the first zero byte.
pub(crate) fn until_nul(word: &[u8]) -> &[u8] {
    &word[..memchr::memchr(0, word).unwrap_or(word.len())]
}

/// Gives the operating system's text without the number that Rust adds.
pub(crate) fn system_text(cause: &std::io::Error) -> String {
    let text = cause.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
