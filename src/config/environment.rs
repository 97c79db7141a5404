//! Settings from the environment, as containers give them: `KEYLATCH_MAXCLIENTS=500`.
//!
//! Each variable becomes one line of a config file, behind the file and before the command line. With `_FILE` at the
//! end of its name the value is read from that file, because secrets are mounted and not passed on.
//!
//! Invariant: a variable that means nothing here is passed over, never refused: the environment belongs to others too.

use std::path::PathBuf;

use super::kind::{bytes_to_os, system_text};
use super::text::quote;
use super::{LoadError, Setting};

const PREFIX: &[u8] = b"KEYLATCH_";
/// The end of a variable that names a file, once it is spelt as a setting.
const FROM_FILE: &[u8] = b"-file";
/// What Kubernetes puts into the `_PORT` variable of every service: the address of a service that is called keylatch.
const SERVICE_ADDRESS: &[u8] = b"tcp://";

/// Turns the variables that name settings into the lines of a config file.
///
/// # Errors
///
/// A file named by a `_FILE` variable that cannot be read.
pub fn environment_text(variables: impl Iterator<Item = (Vec<u8>, Vec<u8>)>) -> Result<Vec<u8>, LoadError> {
    let mut lines = Vec::new();
    for (variable, value) in variables {
        if let Some((name, value)) = directive(&variable, value)? {
            lines.push(format!("{name} {}\n", quote(&value)));
        }
    }
    // The environment has no order; a start must not depend on chance.
    lines.sort_unstable();
    Ok(lines.concat().into_bytes())
}

fn directive(variable: &[u8], value: Vec<u8>) -> Result<Option<(&'static str, Vec<u8>)>, LoadError> {
    let Some(name) = variable.strip_prefix(PREFIX) else { return Ok(None) };
    let name: Vec<u8> = name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }).collect();
    if let Some((_, setting)) = Setting::find(&name) {
        return Ok((!value.starts_with(SERVICE_ADDRESS)).then_some((setting.name, value)));
    }
    let Some((_, setting)) = name.strip_suffix(FROM_FILE).and_then(Setting::find) else { return Ok(None) };
    let path = PathBuf::from(bytes_to_os(&value));
    let secret = std::fs::read(&path).map_err(|cause| LoadError::Unreadable { path, cause: system_text(&cause) })?;
    // An editor puts a line end behind the last line, which is no part of the secret.
    let secret = secret.strip_suffix(b"\n").map_or(&secret[..], |line| line.strip_suffix(b"\r").unwrap_or(line));
    Ok(Some((setting.name, secret.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(variables: &[(&str, &str)]) -> String {
        let variables = variables.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        String::from_utf8(environment_text(variables).expect("readable")).expect("the tests use ASCII")
    }

    #[test]
    fn variables_become_lines_in_a_fixed_order() {
        let variables = [
            ("PATH", "/bin"),
            ("KEYLATCH_TIMEOUT", "5"),
            ("KEYLATCH_PROTECTED_MODE", "no"),
            ("KEYLATCH_REQUIREPASS", "a \"b\""),
            ("keylatch_hz", "1"),
        ];
        assert_eq!(text(&variables), "protected-mode \"no\"\nrequirepass \"a \\\"b\\\"\"\ntimeout \"5\"\n");
    }

    #[test]
    fn what_others_put_into_the_environment_is_passed_over() {
        let kubernetes = [
            ("KEYLATCH_PORT", "tcp://10.0.0.7:6379"),
            ("KEYLATCH_PORT_6379_TCP", "tcp://10.0.0.7:6379"),
            ("KEYLATCH_SERVICE_HOST", "10.0.0.7"),
        ];
        assert_eq!(text(&kubernetes), "");
    }

    #[test]
    fn secrets_are_read_from_files_without_their_line_end() {
        let path = std::env::temp_dir().join(format!("keylatch-secret-{}", std::process::id()));
        std::fs::write(&path, "s3cret\r\n").expect("the temporary directory is writable");
        let shown = path.display().to_string();
        assert_eq!(text(&[("KEYLATCH_REQUIREPASS_FILE", &shown)]), "requirepass \"s3cret\"\n");
        std::fs::remove_file(&path).expect("the file was just written");
        let missing = [(b"KEYLATCH_REQUIREPASS_FILE".to_vec(), shown.into_bytes())].into_iter();
        assert!(environment_text(missing).expect_err("the file is gone").to_string().contains("can't open"));
    }
}
