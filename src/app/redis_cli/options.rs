//! The supported options of redis-cli.

use std::path::PathBuf;

use crate::app::endpoint::{DEFAULT_HOST, DEFAULT_PORT};
use crate::app::uri::{Login, Uri};
use crate::dial::{Address, TlsOptions};

/// The text of `redis-cli --help`.
pub(super) const HELP: &str = "\
redis-cli of keylatch: sends one command, or the lines of standard input, and prints the replies.

Usage: redis-cli [options] [command [argument ...]]
  -h <host>            Server to connect to (default: 127.0.0.1)
  -p <port>            Port (default: 6379)
  -s <socket>          Unix socket, instead of host and port
  -u <uri>             redis://user:password@host:port/database, or rediss:// for TLS
  -a, --pass <pass>    Password; the environment variable REDISCLI_AUTH is safer
  --user <name>        User name for the password
  -n <database>        Database number
  -2, -3               Use RESP2 (the default) or RESP3
  -x                   Read the last argument from standard input
  -e                   Exit with status 1 when the reply is an error
  --raw, --no-raw      Print raw replies, or with types and numbers as on a terminal
  --tls                Use TLS
  --cacert <file>      Trusted authorities (default: those of the system)
  --cert <file>, --key <file>   Client certificate and private key
  --sni <name>         Server name for TLS (SNI)
  --insecure           Accept any server certificate
  --help, --version

There is no interactive mode. SUBSCRIBE and MONITOR print messages until the connection closes.
";

/// What the arguments request.
#[derive(Debug)]
pub(super) enum Request {
    /// Print this text and exit.
    Print(String),
    /// Connect to a server.
    Talk(Box<Options>),
}

/// The parsed options.
#[derive(Debug)]
pub(super) struct Options {
    /// The address of the server.
    pub address: Address,
    /// The TLS options, if TLS is used.
    pub tls: Option<TlsOptions>,
    /// The user name for AUTH.
    pub user: Option<Vec<u8>>,
    /// The password; without one, AUTH is not sent.
    pub password: Option<Vec<u8>>,
    /// The database to select, unless it is 0.
    pub database: u32,
    /// Whether to use RESP3.
    pub resp3: bool,
    /// Whether an error reply leads to exit status 1.
    pub error_status: bool,
    /// Whether the last argument comes from standard input.
    pub last_from_stdin: bool,
    /// Whether replies are printed without types; by default only if standard output is no terminal.
    pub raw: Option<bool>,
    /// The command and its arguments; empty for those of standard input.
    pub command: Vec<Vec<u8>>,
}

/// Parses the arguments after the program name.
///
/// # Errors
/// What is wrong with them.
pub(super) fn read(words: Vec<Vec<u8>>, version: &str, password: Option<Vec<u8>>) -> Result<Request, String> {
    let mut options = Options {
        address: Address::Tcp(DEFAULT_HOST.into(), DEFAULT_PORT),
        tls: None,
        user: None,
        password,
        database: 0,
        resp3: false,
        error_status: false,
        last_from_stdin: false,
        raw: None,
        command: Vec::new(),
    };
    let (mut host, mut port, mut socket) = (None, None, None);
    let mut tls = TlsWords::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if !word.starts_with(b"-") || word == b"-" {
            options.command = std::iter::once(word).chain(words).collect();
            break;
        }
        let option = String::from_utf8_lossy(&word).into_owned();
        let mut value = || words.next().ok_or_else(|| unknown(&option));
        match option.as_str() {
            "-h" => host = Some(text(value()?)),
            "-p" => port = Some(number(&option, value()?)?),
            "-s" => socket = Some(path(value()?)),
            "-u" => {
                let uri = Uri::read(&text(value()?)).ok_or_else(invalid_uri)?;
                apply(uri, &mut options, &mut host, &mut port, &mut tls);
            }
            "-a" | "--pass" => options.password = Some(value()?),
            "--user" => options.user = Some(value()?),
            "-n" => options.database = number(&option, value()?)?,
            "-2" => options.resp3 = false,
            "-3" => options.resp3 = true,
            "-x" => options.last_from_stdin = true,
            "-e" => options.error_status = true,
            "--raw" => options.raw = Some(true),
            "--no-raw" => options.raw = Some(false),
            // The warning that this option silences is never printed.
            "--no-auth-warning" => {}
            "--tls" => tls.wanted = true,
            "--insecure" => tls.options.insecure = true,
            "--cacert" => tls.options.cacert = Some(path(value()?)),
            "--cert" => tls.cert = Some(path(value()?)),
            "--key" => tls.key = Some(path(value()?)),
            "--sni" => tls.options.sni = Some(text(value()?)),
            "--help" => return Ok(Request::Print(HELP.to_owned())),
            "-v" | "--version" => return Ok(Request::Print(version.to_owned())),
            _ => return Err(unknown(&option)),
        }
    }
    options.tls = tls.finish()?;
    options.address = match socket {
        Some(path) => Address::Unix(path),
        None => Address::Tcp(host.unwrap_or_else(|| DEFAULT_HOST.into()), port.unwrap_or(DEFAULT_PORT)),
    };
    Ok(Request::Talk(Box::new(options)))
}

/// The TLS options while they are parsed.
#[derive(Default)]
struct TlsWords {
    wanted: bool,
    options: TlsOptions,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl TlsWords {
    fn finish(mut self) -> Result<Option<TlsOptions>, String> {
        if self.cert.is_some() != self.key.is_some() {
            return Err("--cert and --key must be used together".into());
        }
        self.options.identity = self.cert.zip(self.key);
        Ok(self.wanted.then_some(self.options))
    }
}

/// Sets the options that an address stands for.
fn apply(uri: Uri, options: &mut Options, host: &mut Option<String>, port: &mut Option<u16>, tls: &mut TlsWords) {
    let Login { user, password, word } = uri.login;
    tls.wanted |= uri.is_tls;
    options.user = user.or(options.user.take());
    options.password = password.or(word).or(options.password.take());
    options.database = uri.database.unwrap_or(options.database);
    *host = uri.host.or(host.take());
    *port = uri.port.or(*port);
}

fn invalid_uri() -> String {
    "Invalid URI: redis://[[user]:password@]host[:port][/database] is understood".into()
}

fn unknown(option: &str) -> String {
    format!("Unrecognized option or bad number of args for: '{option}' (redis-cli of keylatch; see --help)")
}

fn text(word: Vec<u8>) -> String {
    String::from_utf8_lossy(&word).into_owned()
}

fn path(word: Vec<u8>) -> PathBuf {
    PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(word))
}

fn number<N: std::str::FromStr>(option: &str, word: Vec<u8>) -> Result<N, String> {
    text(word).parse().map_err(|_| format!("The value of {option} is not a valid number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> Options {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        match read(words, "v", None) {
            Ok(Request::Talk(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let found = options(&["-h", "db", "-p", "7000", "-a", "pw", "-n", "3", "--tls", "SET", "-p", "1"]);
        assert_eq!(found.address, Address::Tcp("db".into(), 7000));
        assert_eq!((found.password.as_deref(), found.database), (Some(&b"pw"[..]), 3));
        assert!(found.tls.is_some());
        assert_eq!(found.command, [&b"SET"[..], b"-p", b"1"]);
    }

    #[test]
    fn addresses_are_taken_apart() {
        let found = options(&["-u", "rediss://bob:p%40ss@[::1]:7000/5", "ping"]);
        assert_eq!(found.address, Address::Tcp("::1".into(), 7000));
        assert_eq!((found.user.as_deref(), found.password.as_deref()), (Some(&b"bob"[..]), Some(&b"p@ss"[..])));
        assert_eq!((found.database, found.tls.is_some()), (5, true));
        let found = options(&["-u", "redis://secret@db", "ping"]);
        assert_eq!((found.user, found.password.as_deref()), (None, Some(&b"secret"[..])));
        assert_eq!(found.address, Address::Tcp("db".into(), 6379));
        for bad in ["http://db", "redis://db:port", "redis://db/x"] {
            assert!(Uri::read(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for words in [&["--bigkeys"][..], &["-h"], &["-p", "x"], &["--cert", "a", "--tls"]] {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            let error = read(words.clone(), "v", None).expect_err("refused");
            assert!(error.contains(&text(words[0].clone())), "{error}");
        }
    }
}
