//! Settings from environment variables, as used with containers: `KEYLATCH_MAXCLIENTS=500`.
//!
//! Each variable becomes one line of a config file, applied after the file and before the command line. If its name
//! ends in `_FILE`, the value is read from that file, because secrets are mounted as files.
//!
//! A variable whose name resembles a setting is an error, as on the command line. Others are only reported as unknown,
//! because the environment may contain variables for other purposes.

use std::io;

use crate::config::kind::bytes_to_os;
use crate::config::suggest::nearest_name;
use crate::config::{Setting, SettingsError};
use crate::text::{quote, system_text};

const PREFIX: &[u8] = b"KEYLATCH_";
/// The suffix of a variable that names a file, spelled as in a setting.
const FROM_FILE: &[u8] = b"-file";
/// The value that Kubernetes sets in the `_PORT` variable of every service, here of one called keylatch.
const SERVICE_ADDRESS: &[u8] = b"tcp://";
/// Suffixes of the variables that `keylatch lock` sets for the command that it runs, which may be a server.
const OF_LOCK: [&[u8]; 3] = [b"FENCE", b"LOCK", b"TOKEN"];

/// The settings from the environment.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// The equivalent lines of a config file.
    pub lines: Vec<u8>,
    /// The variables with the prefix that name no setting.
    pub unknown: Vec<String>,
}

/// Reads the variables that name settings.
///
/// # Errors
///
/// If a file named by a `_FILE` variable cannot be read, or a variable's name resembles a setting.
pub(crate) fn read_environment(
    variables: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<Environment, SettingsError> {
    let (mut lines, mut unknown) = (Vec::new(), Vec::new());
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix(PREFIX) else { continue };
        match directive(name, value)? {
            Meaning::Line(name, value) => lines.push(format!("{name} {}\n", quote(&value))),
            Meaning::Foreign => {}
            Meaning::Unknown => unknown.push(String::from_utf8_lossy(&variable).into_owned()),
        }
    }
    // The environment has no order; the start must not depend on it.
    lines.sort_unstable();
    unknown.sort_unstable();
    Ok(Environment { lines: lines.concat().into_bytes(), unknown })
}

/// The meaning of a variable.
enum Meaning {
    /// The value of a setting.
    Line(&'static str, Vec<u8>),
    /// A variable set by other software.
    Foreign,
    /// An unknown name.
    Unknown,
}

/// Returns the meaning of a variable, from its name after the prefix.
fn directive(variable: &[u8], value: Vec<u8>) -> Result<Meaning, SettingsError> {
    let spell = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    let name: Vec<u8> = variable.iter().map(spell).collect();
    if let Some((_, setting)) = Setting::find(&name) {
        let is_foreign = value.starts_with(SERVICE_ADDRESS);
        return Ok(if is_foreign { Meaning::Foreign } else { Meaning::Line(setting.name, value) });
    }
    if let Some((_, setting)) = name.strip_suffix(FROM_FILE).and_then(Setting::find) {
        return read_secret(&value).map(|secret| Meaning::Line(setting.name, secret)).map_err(|cause| {
            SettingsError::RefusedOption {
                option: format!("the environment variable KEYLATCH_{}", String::from_utf8_lossy(variable)),
                text: String::from_utf8_lossy(&value).into_owned(),
                reason: format!("Can't read this file: {}", system_text(&cause)),
            }
        });
    }
    if is_of_service(variable, &value) || OF_LOCK.contains(&variable) {
        return Ok(Meaning::Foreign);
    }
    match nearest_name(name.strip_suffix(FROM_FILE).unwrap_or(&name)) {
        None => Ok(Meaning::Unknown),
        Some(near) => {
            let shown = |name: &[u8]| format!("KEYLATCH_{}", String::from_utf8_lossy(name));
            let near = near.to_ascii_uppercase().replace('-', "_");
            Err(SettingsError::RefusedOption {
                option: format!("the environment variable {}", shown(variable)),
                text: String::from_utf8_lossy(&name).into_owned(),
                reason: format!("There is no setting of this name\nDid you mean {}?", shown(near.as_bytes())),
            })
        }
    }
}

/// Returns true if Kubernetes has set a variable because a service is called keylatch.
fn is_of_service(variable: &[u8], value: &[u8]) -> bool {
    value.starts_with(SERVICE_ADDRESS) || variable.starts_with(b"SERVICE_") || variable.starts_with(b"PORT_")
}

/// Reads a secret from a file. A line end after the last line is not part of the secret.
fn read_secret(path: &[u8]) -> io::Result<Vec<u8>> {
    let secret = std::fs::read(bytes_to_os(path))?;
    Ok(secret.strip_suffix(b"\n").map_or(&secret[..], |line| line.strip_suffix(b"\r").unwrap_or(line)).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, SettingsError> {
        read_environment(variables.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())))
    }

    fn text(variables: &[(&str, &str)]) -> String {
        String::from_utf8(read(variables).expect("readable").lines).expect("the tests use ASCII")
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
        let others = [
            ("KEYLATCH_PORT", "tcp://10.0.0.7:6379"),
            ("KEYLATCH_PORT_6379_TCP", "tcp://10.0.0.7:6379"),
            ("KEYLATCH_SERVICE_HOST", "10.0.0.7"),
            ("KEYLATCH_LOCK", "primary"),
            ("KEYLATCH_FENCE", "1795736903737052"),
            ("KEYLATCH_TOKEN", "6b9bbac43e7b1d5ada5fbedf4b642226"),
        ];
        assert_eq!(text(&others), "");
        let unknown = [&others[..], &[("KEYLATCH_BUILD", "7"), ("KEYLATCHED", "1")]].concat();
        assert_eq!(read(&unknown).expect("readable").unknown, ["KEYLATCH_BUILD"]);
    }

    #[test]
    fn a_mistyped_setting_is_rejected() {
        let refusal = |name| read(&[(name, "1")]).expect_err("it is a slip").to_string();
        let error = refusal("KEYLATCH_MAXMEMROY");
        assert!(error.contains("Reading the environment variable KEYLATCH_MAXMEMROY\n"), "{error}");
        assert!(error.ends_with("\nDid you mean KEYLATCH_MAXMEMORY?"), "{error}");
        assert!(refusal("KEYLATCH_REQUIREPAS_FILE").ends_with("Did you mean KEYLATCH_REQUIREPASS?"));
    }

    #[test]
    fn secrets_are_read_from_files_without_their_line_end() {
        let path = std::env::temp_dir().join(format!("keylatch-secret-{}", std::process::id()));
        std::fs::write(&path, "s3cret\r\n").expect("the temporary directory is writable");
        let shown = path.display().to_string();
        assert_eq!(text(&[("KEYLATCH_REQUIREPASS_FILE", &shown)]), "requirepass \"s3cret\"\n");
        std::fs::remove_file(&path).expect("the file was just written");
        let missing = read(&[("KEYLATCH_REQUIREPASS_FILE", &shown)]);
        let text = missing.expect_err("the file is gone").to_string();
        assert!(text.contains("KEYLATCH_REQUIREPASS_FILE") && text.contains("Can't read this file"), "{text}");
    }
}
