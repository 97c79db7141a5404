//! Helpers for the kinds of settings with one argument and with several: the origin of a value, and words of a fixed
//! list.

/// Origin of a setting's value: some settings accumulate over the lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A config file, standard input or the command line.
    File,
    /// `CONFIG SET`.
    Runtime,
}

/// Returns the canonical text of a number.
pub(super) fn text(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Returns the error for a value that is not in the list.
pub(super) fn not_among(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

/// Returns the word of the list that equals `word`, whatever its case.
pub(super) fn choice(word: &[u8], words: &[&str]) -> Option<Vec<u8>> {
    let found = words.iter().find(|known| known.as_bytes().eq_ignore_ascii_case(word))?;
    Some(found.as_bytes().to_vec())
}
