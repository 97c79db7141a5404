//! The arguments of `keylatch copy`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;

use crate::app::uri::{Login, Uri};
use crate::dial::{Address, TlsOptions};

/// The port of a `redis://` address that names none.
const DEFAULT_PORT: u16 = 6379;

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
    /// Trusted authorities for TLS (default: those of the system)
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Client certificate for TLS
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Server name for TLS (SNI)
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Accept any server certificate
    #[arg(long)]
    insecure: bool,
}

/// What the arguments request.
#[derive(Debug)]
pub(super) enum Request {
    /// Print this text and exit.
    Print(String),
    /// Copy keys.
    Copy(Box<Options>),
}

/// The parsed arguments.
#[derive(Debug)]
pub(super) struct Options {
    /// The server that is read.
    pub from: Endpoint,
    /// The server that is written.
    pub to: Endpoint,
    /// How to use TLS, with those servers that are asked to.
    pub tls: TlsOptions,
    /// Whether keys that exist at the target are overwritten.
    pub replace: bool,
    /// The pattern that keys must match.
    pub pattern: Option<Vec<u8>>,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// A server, and how to log in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Its address.
    pub address: Address,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// What AUTH sends, if it is sent.
    pub login: Option<Credentials>,
    /// The number of its only database.
    pub database: Option<u32>,
}

/// The words of AUTH.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The user; without one, that is the default user.
    pub user: Option<Vec<u8>>,
    /// The password.
    pub password: Vec<u8>,
}

/// Parses the arguments after `copy`; `variable` reads the environment.
///
/// # Errors
/// What is wrong with them.
pub(super) fn read(words: Vec<Vec<u8>>, variable: impl Fn(&str) -> Option<OsString>) -> Result<Request, String> {
    let words = match Words::try_parse_from(words.into_iter().map(OsString::from_vec)) {
        Ok(words) => words,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => return Ok(Request::Print(error.to_string())),
        Err(error) => return Err(error.to_string().trim_start_matches("error: ").trim_end().to_owned()),
    };
    let endpoint = |uri: &OsString, name: &str, password: &str| {
        let uri = uri.to_string_lossy();
        endpoint(&uri, variable(password).map(OsString::into_vec))
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
    let tls = TlsOptions {
        insecure: words.insecure,
        cacert: words.cacert,
        identity: words.cert.zip(words.key),
        sni: words.sni,
    };
    let (replace, dry_run) = (words.replace, words.dry_run);
    let pattern = words.pattern.map(OsString::into_vec);
    Ok(Request::Copy(Box::new(Options { from, to, tls, replace, pattern, dry_run })))
}

/// Takes an address apart. A password of the environment is used if the address has none.
fn endpoint(text: &str, password: Option<Vec<u8>>) -> Result<Endpoint, String> {
    let invalid =
        || "an address is redis://[user[:password]@]host[:port][/database], rediss://..., or unix:///path".to_owned();
    if let Some(rest) = text.strip_prefix("unix://") {
        let (login, path) = rest.split_at(rest.find('/').ok_or_else(invalid)?);
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let database = match query {
            Some(query) => Some(query.strip_prefix("db=").and_then(|db| db.parse().ok()).ok_or_else(invalid)?),
            None => None,
        };
        let login = match login.strip_suffix('@') {
            Some(login) => Login::read(login),
            None if login.is_empty() => Login::default(),
            None => return Err(invalid()),
        };
        let address = Address::Unix(PathBuf::from(OsString::from_vec(path.as_bytes().to_vec())));
        return Ok(Endpoint { address, is_tls: false, login: credentials(login, password)?, database });
    }
    let uri = Uri::read(text).ok_or_else(invalid)?;
    let address = Address::Tcp(uri.host.unwrap_or_else(|| "127.0.0.1".into()), uri.port.unwrap_or(DEFAULT_PORT));
    Ok(Endpoint { address, is_tls: uri.is_tls, login: credentials(uri.login, password)?, database: uri.database })
}

/// Returns the user and the password. A user without a password is refused: it might be a password.
fn credentials(login: Login, password: Option<Vec<u8>>) -> Result<Option<Credentials>, String> {
    let user = login.user.or(login.word);
    match login.password.or(password) {
        Some(password) => Ok(Some(Credentials { user, password })),
        None if user.is_some() => Err("a user without a password: write user:password@, or set PASSWORD".into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint_of(text: &str) -> Result<Endpoint, String> {
        endpoint(text, None)
    }

    fn plain(address: Address, database: Option<u32>) -> Endpoint {
        Endpoint { address, is_tls: false, login: None, database }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let cases = [
            ("redis://db", plain(tcp("db", 6379), None)),
            ("redis://db:7/3", plain(tcp("db", 7), Some(3))),
            ("rediss://[::1]", Endpoint { is_tls: true, ..plain(tcp("::1", 6379), None) }),
            ("unix:///run/a b.sock", plain(Address::Unix("/run/a b.sock".into()), None)),
            ("unix:///run/s?db=2", plain(Address::Unix("/run/s".into()), Some(2))),
        ];
        for (text, expected) in cases {
            assert_eq!(endpoint_of(text), Ok(expected), "{text}");
        }
        for bad in ["db", "http://db", "redis://db/x", "unix://run", "unix://a/b", "unix:///s?x=1", "redis://bob@db"] {
            assert!(endpoint_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_comes_from_the_address_or_else_from_the_environment() {
        let cases = [
            ("redis://db", None),
            ("redis://:a%40b@db", Some((None, "a@b"))),
            ("redis://bob:pw@db", Some((Some("bob"), "pw"))),
            ("unix://bob:pw@/run/s", Some((Some("bob"), "pw"))),
        ];
        let bytes = |text: &str| text.as_bytes().to_vec();
        for (text, expected) in cases {
            let expected = expected.map(|(user, password): (Option<&str>, &str)| Credentials {
                user: user.map(bytes),
                password: bytes(password),
            });
            assert_eq!(endpoint_of(text).map(|found| found.login), Ok(expected), "{text}");
        }
        let found = endpoint("redis://bob@db", Some(bytes("env"))).map(|found| found.login);
        assert_eq!(found, Ok(Some(Credentials { user: Some(bytes("bob")), password: bytes("env") })));
    }

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
