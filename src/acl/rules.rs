//! Common parts of all rules: their errors, comparison of names, and selectors split over several words.

use std::fmt;

use crate::profile::Profile;
use crate::text::until_nul;

/// The settings by which rules are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleSettings {
    /// True if new users may use every channel.
    pub all_channels: bool,
    /// The profile: rules name no commands that its version lacks.
    pub(crate) profile: Option<&'static Profile>,
}

/// The cause of an invalid rule; `Display` gives Redis' text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// Not a rule, or a pattern that contains a blank.
    Syntax,
    /// The name of an unknown command or category.
    Unknown,
    /// A pattern of keys added where all keys are allowed.
    KeysAreAll,
    /// A pattern of channels added where all channels are allowed.
    ChannelsAreAll,
    /// A removed password that the user does not have.
    NoSuchPassword,
    /// A hash that is not 64 lower-case hexadecimal digits.
    BadHash,
    /// A first argument of a subcommand.
    FirstArgOfSubcommand,
    /// A user declared again in the settings.
    DuplicateUser,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleError::Syntax => "Syntax error",
            RuleError::Unknown => "Unknown command or category name in ACL",
            RuleError::KeysAreAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            RuleError::ChannelsAreAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            RuleError::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            RuleError::BadHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            RuleError::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            RuleError::DuplicateUser => "Duplicate user found. A user can only be defined once in config files",
        })
    }
}

/// Compares names as C does: case-insensitive, up to the first NUL.
pub(super) fn same_word(a: &[u8], b: &[u8]) -> bool {
    until_nul(a).eq_ignore_ascii_case(until_nul(b))
}

/// Returns true if a name or pattern contains a blank or NUL, which an ACL file cannot hold.
pub(crate) fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b))
}

/// Joins selectors that are split over several arguments: from one that starts with `(` to the next that ends with `)`.
/// Another `(` in between becomes part of the selector, which makes it invalid.
///
/// # Errors
/// The position of the first word whose parenthesis is not closed.
pub(super) fn merge_selectors(words: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged = Vec::with_capacity(words.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().map(AsRef::as_ref).enumerate() {
        let closes = word.last() == Some(&b')');
        if let Some((_, selector)) = &mut open {
            selector.push(b' ');
            selector.extend_from_slice(word);
            if closes {
                merged.extend(open.take().map(|(_, selector)| selector));
            }
        } else if word.first() == Some(&b'(') && !closes {
            open = Some((at, word.to_vec()));
        } else {
            merged.push(word.to_vec());
        }
    }
    match open {
        Some((at, _)) => Err(at),
        None => Ok(merged),
    }
}
