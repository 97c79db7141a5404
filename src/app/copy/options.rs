//! The arguments of `keylatch copy`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use clap::error::ErrorKind;

use crate::app::endpoint::{Endpoint, TlsArgs};
use crate::dial::TlsOptions;

/// The environment variables with the passwords of the two servers.
const PASSWORDS: [&str; 2] = ["KEYLATCH_FROM_AUTH", "KEYLATCH_TO_AUTH"];

const USAGE: &str = "keylatch copy [options] FROM TO";

const DETAILS: &str = "\
FROM and TO are one of
  redis://[user[:password]@]host[:port][/database]
  rediss://...                                      the same over TLS
  unix://[user[:password]@]/path[?db=database]
A password can also come from the environment, which other users cannot see:
KEYLATCH_FROM_AUTH and KEYLATCH_TO_AUTH.

With a database in FROM that one is copied, into the database of TO or the one with the same number.
Otherwise all databases are copied.

It does not stop writers: stop writers first, or run it twice, the second time with --replace;
keys deleted at the source meanwhile stay at the target.

A lock, a key with a TTL, never ends early: its TTL counts again from when it was read, so that the copy
can only extend it. A value and its TTL are read at the same instant. Deadlines of hash fields are dates,
which stay as they are.

Values travel as DUMP payloads. A server older than the source may refuse some of them.
Not copied: functions, users, settings, what waits for a lock, and the fences of SETIFGREATER.

Exit status: 0 when all keys were copied, 1 when some were not, 2 when the copy could not be done.";

/// The arguments, as parsed by clap.
#[derive(Debug, Parser)]
#[command(
    about = "Copies all keys with their TTLs from one server to another: keylatch, Redis or Valkey.",
    override_usage = USAGE,
    after_help = DETAILS,
    no_binary_name = true
)]
struct Words {
    /// The server that is read
    #[arg(value_name = "FROM")]
    from: OsString,
    /// The server that is written
    #[arg(value_name = "TO")]
    to: OsString,
    /// Overwrite keys that exist at the target; otherwise they are kept and named
    #[arg(long)]
    replace: bool,
    /// Copy only keys that match this pattern, as in SCAN
    #[arg(long = "match", value_name = "PATTERN", allow_hyphen_values = true)]
    pattern: Option<OsString>,
    /// Count what would be copied, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Request of the arguments.
#[derive(Debug)]
pub(super) enum CopyInvocation {
    /// Print this text and exit.
    Print(String),
    /// Copy keys.
    Copy(Box<CopyOptions>),
}

/// The parsed arguments.
#[derive(Debug)]
pub(super) struct CopyOptions {
    /// The server that is read.
    pub from: Endpoint,
    /// The server that is written.
    pub to: Endpoint,
    /// TLS options, for the servers that use TLS.
    pub tls: TlsOptions,
    /// True if keys that exist at the target are overwritten.
    pub replace: bool,
    /// The pattern that keys must match.
    pub pattern: Option<Vec<u8>>,
    /// True if nothing is written.
    pub dry_run: bool,
}

/// Parses the arguments after `copy`; `variable` reads the environment.
///
/// # Errors
/// The reason for which the arguments are invalid.
pub(super) fn read(words: Vec<Vec<u8>>, variable: impl Fn(&str) -> Option<OsString>) -> Result<CopyInvocation, String> {
    let words = match Words::try_parse_from(words.into_iter().map(OsString::from_vec)) {
        Ok(words) => words,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => return Ok(CopyInvocation::Print(error.to_string())),
        Err(error) => return Err(error.to_string().trim_start_matches("error: ").trim_end().to_owned()),
    };
    let endpoint = |uri: &OsString, name: &str, password: &str| {
        let uri = uri.to_string_lossy();
        Endpoint::read(&uri, variable(password).map(OsString::into_vec))
            .map_err(|reason| format!("{name}: {}", reason.replace("PASSWORD", password)))
    };
    let from = endpoint(&words.from, "FROM", PASSWORDS[0])?;
    let to = endpoint(&words.to, "TO", PASSWORDS[1])?;
    if from.database.is_none() && to.database.is_some() {
        return Err("TO names a database, so FROM has to name one, too".into());
    }
    if (&from.address, from.database) == (&to.address, to.database.or(from.database)) {
        return Err("FROM and TO are the same".into());
    }
    let tls = words.tls.options();
    let (replace, dry_run) = (words.replace, words.dry_run);
    let pattern = words.pattern.map(OsString::into_vec);
    Ok(CopyInvocation::Copy(Box::new(CopyOptions { from, to, tls, replace, pattern, dry_run })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refusal = |words: &[&str]| {
            let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            read(words, |_| None).expect_err("refused")
        };
        for (words, part) in [
            (&["redis://a"][..], "<TO>"),
            (&["redis://a", "redis://b", "--nosuch"], "--nosuch"),
            (&["redis://a", "redis://b", "--cert", "c"], "--key"),
            (&["redis://a", "redis://b/1"], "FROM has to name one"),
            (&["redis://a/1", "redis://a:6379"], "are the same"),
            (
                &["redis://a", "redis://bob@b"],
                "TO: a user without a password: write user:password@, or set KEYLATCH_TO_AUTH",
            ),
        ] {
            assert!(refusal(words).contains(part), "{words:?}: {}", refusal(words));
        }
    }
}
