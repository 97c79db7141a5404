//! The ACL file (`aclfile`): one line per user, `user <name> <rule> ...`, and nothing else.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::acl::rules::{RuleError, RuleSettings, has_blanks, merge_selectors};
use crate::acl::user::User;
use crate::spec::CommandTable;

/// Parses the users in a file's text; `name` is the file's name in errors.
///
/// # Errors
/// All errors of the file, in one line.
pub(super) fn read_users(
    commands: &'static CommandTable,
    text: &[u8],
    name: &[u8],
    by: RuleSettings,
) -> Result<Vec<User>, Vec<u8>> {
    let (mut users, mut complaints) = (Vec::<User>::new(), Vec::new());
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = trim(line, b" \t\r\n");
        if line.is_empty() {
            continue;
        }
        let mut reader = LineReader { commands, file: name, number, complaints: &mut complaints };
        if let Some(user) = reader.read(line, &users, by) {
            users.push(user);
        }
    }
    if complaints.is_empty() {
        return Ok(users);
    }
    complaints
        .extend_from_slice(b"WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    Err(complaints)
}

/// Parses lines and collects their errors.
struct LineReader<'a> {
    commands: &'static CommandTable,
    file: &'a [u8],
    number: usize,
    complaints: &'a mut Vec<u8>,
}

impl LineReader<'_> {
    fn read(&mut self, line: &[u8], earlier: &[User], by: RuleSettings) -> Option<User> {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let [b"user", name, rules @ ..] = &words[..] else {
            self.complain(&[b" should start with user keyword followed by the username. "]);
            return None;
        };
        if has_blanks(name) {
            self.complaints.push(b'\'');
            self.complain(&[b": username '", name, b"' contains invalid characters. "]);
            return None;
        }
        if earlier.iter().any(|user| *user.name == **name) {
            let place = format!("' found on line {}. ", self.number);
            self.complaints.extend_from_slice(&[b"WARNING: Duplicate user '", *name, place.as_bytes()].concat());
            return None;
        }
        let mut user = User::new(self.commands, name, by.all_channels);
        self.apply(&mut user, rules, by);
        Some(user)
    }

    /// Applies all rules; of the invalid ones it reports every one with an unknown command, and otherwise the first.
    fn apply(&mut self, user: &mut User, rules: &[&[u8]], by: RuleSettings) {
        let Ok(rules) = merge_selectors(rules) else {
            return self.complain(&[b": Unmatched parenthesis in selector definition."]);
        };
        let mut is_first = true;
        for rule in rules {
            let rule = trim(&rule, b"\t\r\n");
            match user.apply(rule, by) {
                Ok(()) => {}
                Err(error @ RuleError::Unknown) => {
                    let reason = format!("': {error}. ");
                    self.complain(&[b": Error in applying operation '", rule, reason.as_bytes()]);
                }
                Err(error) if is_first => {
                    is_first = false;
                    self.complain(&[format!(": {error}. ").as_bytes()]);
                }
                Err(_) => {}
            }
        }
    }

    fn complain(&mut self, parts: &[&[u8]]) {
        self.complaints.extend_from_slice(&[self.file, format!(":{}", self.number).as_bytes()].concat());
        self.complaints.extend_from_slice(&parts.concat());
    }
}

fn trim<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let is_text = |byte: &u8| !blanks.contains(byte);
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Replaces the file atomically: readers see either the old or the new one. `mark` makes the temporary name unique.
///
/// # Errors
/// An I/O error if the file cannot be written; the old file is unchanged then.
pub(super) fn replace(path: &Path, text: &[u8], mark: impl std::fmt::Display) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".tmp-{}-{mark}", std::process::id()));
    let temporary = Path::new(&name);
    let write = || {
        let mut file = File::create(temporary)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(temporary, path)
    };
    write().inspect_err(|_| {
        // If the file could not be created, it cannot be removed either.
        let _ = fs::remove_file(temporary);
    })
}
