//! Directives of config files that are no settings: `rename-command`, `user`, `loadmodule`, `include` and a few that
//! Redis itself ignores by now.
//!
//! Invariant: what is kept here has been checked as far as it can be before the server starts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::acl::{Declared, RuleError};
use crate::config::kind::{bytes_to_os, os_to_bytes};
use crate::glob;
use crate::spec::{CommandTable, Renames};

/// Directives that Redis accepts with one word and ignores.
const FORGOTTEN: [&str; 3] = ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// What directives that are no settings have said.
#[derive(Clone, Debug, Default)]
pub struct Directives {
    /// The commands that go by other names (`rename-command`).
    pub renames: Renames,
    /// The users (`user`), in their order.
    pub users: Vec<Declared>,
    /// The modules to load (`loadmodule`), each in the words of its line: the path, then the arguments.
    pub modules: Vec<Vec<Vec<u8>>>,
    /// The settings of modules, by their names, which have a dot in them.
    pub module_settings: Vec<Vec<u8>>,
    /// Variables of the environment that look like settings and are none.
    pub unknown_variables: Vec<String>,
}

impl Directives {
    /// Takes a line of a config file whose first word is no setting. New users may use all channels where
    /// `acl-pubsub-default` says so.
    ///
    /// # Errors
    /// The reason, in the words of Redis.
    pub(super) fn take(
        &mut self,
        commands: &'static CommandTable,
        name: &[u8],
        values: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<(), String> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match values {
            [_] if FORGOTTEN.into_iter().any(is) => {}
            [from, to] if is("rename-command") => self.renames.rename(commands, from, to)?,
            [_, ..] if is("user") => self.declare_user(commands, values, all_channels)?,
            [_, ..] if is("loadmodule") => self.modules.push(values.to_vec()),
            [] if name.contains(&b'.') => return Err("Module config specified without value".into()),
            [_, ..] if name.contains(&b'.') => self.module_settings.push(name.to_vec()),
            _ if is("sentinel") => return Err("sentinel directive while not in sentinel mode".into()),
            _ => return Err("Bad directive or wrong number of arguments".into()),
        }
        Ok(())
    }

    /// Adds the user whom a `user` line declares, from the words behind `user`.
    fn declare_user(
        &mut self,
        commands: &'static CommandTable,
        words: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<(), String> {
        let refused = |word: &[u8], error| {
            let word = String::from_utf8_lossy(word);
            format!("Error in user declaration '{word}': {error}")
        };
        if self.users.iter().any(|user| words.first() == Some(&user.name)) {
            return Err(refused(&words[0], RuleError::DuplicateUser));
        }
        let declared = Declared::read(commands, words, all_channels)
            .map_err(|(error, at)| refused(at.checked_sub(1).map_or(b"user", |at| &words[at]), error))?;
        self.users.push(declared);
        Ok(())
    }
}

/// The directives that are no settings and that Redis knows.
pub(super) const DIRECTIVES: [&str; 5] = ["include", "rename-command", "user", "loadmodule", "sentinel"];

/// Tells whether a directive is one of those that are no settings and that Redis knows.
pub(super) fn is_directive(name: &[u8]) -> bool {
    DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns the files that `include` means: those that match, by name, where the path has wildcards.
pub(super) fn included_files(path: &[u8]) -> Vec<PathBuf> {
    let has_wildcards = |name: &[u8]| name.iter().any(|byte| b"*?[".contains(byte));
    if !has_wildcards(path) {
        return vec![PathBuf::from(bytes_to_os(path))];
    }
    let mut found = vec![PathBuf::new()];
    for part in Path::new(bytes_to_os(path)).components() {
        let name = os_to_bytes(part.as_os_str());
        found = match has_wildcards(name) {
            true => found.iter().flat_map(|folder| matching_entries(folder, name)).collect(),
            false => found.into_iter().map(|folder| folder.join(part)).collect(),
        };
    }
    found.retain(|file| file.exists());
    found
}

/// As in a shell, a leading dot is matched by a dot alone.
fn matching_entries(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(listed).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| {
        let name = os_to_bytes(name);
        (pattern.starts_with(b".") || !name.starts_with(b".")) && glob::matches(pattern, name, false)
    });
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}
