//! History of typed lines, for the next time: a file like that of redis-cli, and the lines that are not written there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use crate::app::redis_cli::output::is;

/// Maximum number of lines that are kept.
pub(super) const LINES_MAX: usize = 100;

/// Permission bits of the file.
const OWNER_ONLY: u32 = 0o600;

/// Returns the path of a file in the home directory, or the one that a variable names; `/dev/null` is none.
pub(super) fn dot_file(variable: &str, name: &str) -> Option<PathBuf> {
    match std::env::var_os(variable).filter(|path| !path.is_empty()) {
        Some(path) => Some(PathBuf::from(path)).filter(|path| path.as_os_str() != "/dev/null"),
        None => std::env::var_os("HOME").filter(|home| !home.is_empty()).map(|home| PathBuf::from(home).join(name)),
    }
}

/// Replaces the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn save<'a>(path: &PathBuf, lines: impl Iterator<Item = &'a String>) -> io::Result<()> {
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path)?;
    // A file that others could read until now may be there already.
    fs::set_permissions(path, fs::Permissions::from_mode(OWNER_ONLY))?;
    file.write_all(text.as_bytes())
}

/// Returns true if a command contains a password, or may.
pub(super) fn is_secret(words: &[Vec<u8>]) -> bool {
    let has = |at: usize, names: &[&[u8]]| words.get(at).is_some_and(|word| names.iter().any(|name| is(word, name)));
    if has(0, &[b"auth"]) {
        return true;
    }
    if has(0, &[b"acl"]) {
        return has(1, &[b"setuser", b"deluser"]);
    }
    if has(0, &[b"config"]) && has(1, &[b"set"]) {
        return (2..words.len()).step_by(2).any(|at| has(at, &[b"masterauth", b"masteruser", b"requirepass"]));
    }
    // HELLO version AUTH user password, MIGRATE ... AUTH password or AUTH2 user password. A key may be called so too.
    if has(0, &[b"hello", b"migrate"]) {
        return (2..words.len()).any(|at| has(at, &[b"auth", b"auth2"]));
    }
    if has(0, &[b"sentinel"]) {
        let config = has(1, &[b"config"]) && has(2, &[b"set"]) && has(3, &[b"sentinel-pass", b"sentinel-user"]);
        return config || has(1, &[b"set"]) && has(3, &[b"auth-pass", b"auth-user"]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::split_words;

    #[test]
    fn commands_with_passwords_are_secret() {
        let is_secret = |line: &str| is_secret(&split_words(line.as_bytes()).expect("words"));
        for line in [
            "AUTH pw",
            "acl setuser bob >pw",
            "ACL DELUSER bob",
            "config set maxmemory 1 requirepass pw",
            "CONFIG SET masterauth pw",
            "HELLO 3 AUTH bob pw",
            "hello 3 setname me auth bob pw",
            "MIGRATE h 1 k 0 10 COPY AUTH pw",
            "MIGRATE h 1 '' 0 10 AUTH2 bob pw KEYS a b",
            "SENTINEL SET m auth-pass pw",
        ] {
            assert!(is_secret(line), "{line}");
        }
        for line in
            ["GET auth", "ACL LIST", "CONFIG GET requirepass", "CONFIG SET maxmemory 1", "HELLO 3", "ACL WHOAMI"]
        {
            assert!(!is_secret(line), "{line}");
        }
    }
}
