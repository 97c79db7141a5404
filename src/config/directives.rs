//! Directives of config files that are not settings: `rename-command`, `user`, `loadmodule`, `include` and a few that
//! Redis itself ignores.
//!
//! Invariant: the directives stored here were validated, as far as that is possible, before the server starts.

use std::fs;
use std::path::{Path, PathBuf};

use crate::acl::{DeclaredUser, RuleError};
use crate::config::kind::{bytes_to_os, os_to_bytes};
use crate::glob::Pattern;
use crate::spec::{CommandTable, Renames};

/// Directives that Redis accepts with one argument and ignores.
const FORGOTTEN: [&str; 3] = ["list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"];

/// The values of the directives that are not settings.
#[derive(Clone, Debug, Default)]
pub struct Directives {
    /// The renamed commands (`rename-command`).
    pub renames: Renames,
    /// The users (`user`), in order.
    pub users: Vec<DeclaredUser>,
    /// The modules to load (`loadmodule`): for each the path and the arguments.
    pub modules: Vec<Vec<Vec<u8>>>,
    /// The settings of modules, by name; such names contain a dot.
    pub module_settings: Vec<Vec<u8>>,
    /// Environment variables with the prefix of settings that name none.
    pub unknown_variables: Vec<String>,
}

impl Directives {
    /// Handles a line of a config file whose first word is not a setting. New users may use all channels if
    /// `acl-pubsub-default` says so.
    ///
    /// # Errors
    /// The reason, in Redis' words.
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

    /// Adds the user of a `user` line, from the arguments.
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
        let declared = DeclaredUser::read(commands, words, all_channels)
            .map_err(|(error, at)| refused(at.checked_sub(1).map_or(b"user", |at| &words[at]), error))?;
        self.users.push(declared);
        Ok(())
    }
}

/// The directives of Redis that are not settings.
pub(super) const DIRECTIVES: [&str; 5] = ["include", "rename-command", "user", "loadmodule", "sentinel"];

/// Returns true if a name is one of [`DIRECTIVES`].
pub(super) fn is_directive(name: &[u8]) -> bool {
    DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns the files of an `include`: the path, or the matching files by name if it has wildcards.
pub(super) fn included_files(path: &[u8]) -> Vec<PathBuf> {
    let has_wildcards = |name: &[u8]| name.iter().any(|byte| b"*?[".contains(byte));
    if !has_wildcards(path) {
        return vec![PathBuf::from(bytes_to_os(path))];
    }
    let mut found = vec![PathBuf::new()];
    for part in Path::new(bytes_to_os(path)).components() {
        let name = os_to_bytes(part.as_os_str());
        found = if has_wildcards(name) {
            found.iter().flat_map(|folder| matching_entries(folder, name)).collect()
        } else {
            found.into_iter().map(|folder| folder.join(part)).collect()
        };
    }
    found.retain(|file| file.exists());
    found
}

/// Returns the entries of a directory that match a pattern, by name. A leading dot is matched only by a dot, as in a
/// shell.
fn matching_entries(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let listed = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(listed).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    let matcher = Pattern::new(pattern);
    names.retain(|name| {
        let name = os_to_bytes(name);
        (pattern.starts_with(b".") || !name.starts_with(b".")) && matcher.matches(name)
    });
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}
