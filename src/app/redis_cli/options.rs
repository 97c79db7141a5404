//! The supported options of redis-cli.

use std::path::PathBuf;
use std::time::Duration;

use crate::app::endpoint::{DEFAULT_HOST, DEFAULT_PORT};
use crate::app::redis_cli::show::{ReplyForm, ReplyFormat};
use crate::app::redis_cli::tls_words::TlsWords;
use crate::app::redis_cli::usage::HELP;
use crate::app::uri::{Login, Uri};
use crate::dial::{Address, TlsOptions};
use crate::text::split_words;

/// Timeout of the last reply with `--pipe`.
const PIPE_TIMEOUT: Duration = Duration::from_secs(30);

/// Request of the arguments.
#[derive(Debug)]
pub(super) enum CliInvocation {
    /// Print this text and exit.
    Print(String),
    /// Connect to a server.
    Talk(Box<CliOptions>),
}

/// Use of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CliMode {
    /// Send the command, or the lines of standard input.
    Commands,
    /// List the keys.
    Scan,
    /// Look for the largest keys.
    BigKeys,
    /// Print statistics of the server.
    Stat,
    /// Measure the latency of PING.
    Latency,
    /// Send standard input as it is.
    Pipe,
}

/// Keys to scan.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySelection {
    /// Pattern of the names.
    pub pattern: Option<Vec<u8>>,
    /// Number of keys that one call of SCAN looks at.
    pub count: Option<u64>,
    /// Type of the keys.
    pub kind: Option<Vec<u8>>,
}

/// Choice of RESP3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resp3 {
    /// Use RESP2.
    No,
    /// Use RESP3.
    Yes,
    /// Use RESP3 because the format suggests it.
    Default,
}

/// The parsed options.
#[derive(Debug)]
pub(super) struct CliOptions {
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
    /// Choice of RESP3; `None` without an option.
    pub resp3: Option<Resp3>,
    /// True if an error reply leads to exit status 1.
    pub error_status: bool,
    /// True if the last argument comes from standard input.
    pub last_from_stdin: bool,
    /// Format of printed replies.
    pub format: ReplyFormat,
    /// Use of the connection.
    pub mode: CliMode,
    /// Number of times that the command is sent; -1 is without an end.
    pub repeat: i64,
    /// The pause after each command or cycle.
    pub interval: Duration,
    /// Keys to scan.
    pub selection: KeySelection,
    /// Timeout of the last reply with `--pipe`; `None` for no limit.
    pub pipe_timeout: Option<Duration>,
    /// The command and its arguments; empty for the lines of standard input.
    pub command: Vec<Vec<u8>>,
}

impl CliOptions {
    fn new(password: Option<Vec<u8>>) -> Self {
        CliOptions {
            address: Address::Tcp(DEFAULT_HOST.into(), DEFAULT_PORT),
            tls: None,
            user: None,
            password,
            database: 0,
            resp3: None,
            error_status: false,
            last_from_stdin: false,
            format: ReplyFormat::default(),
            mode: CliMode::Commands,
            repeat: 1,
            interval: Duration::ZERO,
            selection: KeySelection::default(),
            pipe_timeout: Some(PIPE_TIMEOUT),
            command: Vec::new(),
        }
    }

    /// Takes an option about the mode or the output; returns true if it is one.
    fn take(&mut self, option: &str, mut value: impl FnMut() -> Result<Vec<u8>, String>) -> Result<bool, String> {
        match option {
            "-r" => self.repeat = number(option, value()?)?,
            "-i" => self.interval = seconds(option, value()?)?,
            "-d" => self.format.between_items = value()?,
            "-D" => self.format.after_reply = value()?,
            "--raw" => self.format.form = ReplyForm::Raw,
            "--no-raw" => self.format.form = ReplyForm::Typed,
            "--csv" => self.format.form = ReplyForm::Csv,
            "--json" | "--quoted-json" => {
                self.format.form = if option == "--json" { ReplyForm::Json } else { ReplyForm::QuotedJson };
                self.resp3 = self.resp3.or(Some(Resp3::Default));
            }
            "--scan" => self.mode = CliMode::Scan,
            "--bigkeys" => self.mode = CliMode::BigKeys,
            "--stat" => self.mode = CliMode::Stat,
            "--latency" => self.mode = CliMode::Latency,
            "--pipe" => self.mode = CliMode::Pipe,
            "--pipe-timeout" => {
                let limit = seconds(option, value()?)?;
                self.pipe_timeout = (limit > Duration::ZERO).then_some(limit);
            }
            "--pattern" => self.selection.pattern = Some(value()?),
            "--quoted-pattern" => self.selection.pattern = Some(unquoted(&value()?)?),
            "--count" => self.selection.count = Some(number(option, value()?)?),
            "--type" => self.selection.kind = Some(value()?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Parses the arguments after the program name.
///
/// # Errors
/// The reason for which the arguments are invalid.
pub(super) fn read(words: Vec<Vec<u8>>, version: &str, password: Option<Vec<u8>>) -> Result<CliInvocation, String> {
    let mut options = CliOptions::new(password);
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
            "-2" => options.resp3 = Some(Resp3::No),
            "-3" => options.resp3 = Some(Resp3::Yes),
            "-x" => options.last_from_stdin = true,
            "-e" => options.error_status = true,
            // The warning that this option silences is never printed.
            "--no-auth-warning" => {}
            "--tls" => tls.wanted = true,
            "--insecure" => tls.options.insecure = true,
            "--cacert" => tls.options.cacert = Some(path(value()?)),
            "--cert" => tls.cert = Some(path(value()?)),
            "--key" => tls.key = Some(path(value()?)),
            "--sni" => tls.options.sni = Some(text(value()?)),
            "--help" => return Ok(CliInvocation::Print(HELP.to_owned())),
            "-v" | "--version" => return Ok(CliInvocation::Print(version.to_owned())),
            _ if options.take(&option, value)? => {}
            _ => return Err(unknown(&option)),
        }
    }
    options.tls = tls.finish()?;
    options.address = match socket {
        Some(path) => Address::Unix(path),
        None => Address::Tcp(host.unwrap_or_else(|| DEFAULT_HOST.into()), port.unwrap_or(DEFAULT_PORT)),
    };
    Ok(CliInvocation::Talk(Box::new(options)))
}

/// Sets the options that an address stands for.
fn apply(uri: Uri, options: &mut CliOptions, host: &mut Option<String>, port: &mut Option<u16>, tls: &mut TlsWords) {
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

/// Reads a time in seconds, with a fraction.
fn seconds(option: &str, word: Vec<u8>) -> Result<Duration, String> {
    let seconds: f64 = number(option, word)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("The value of {option} is not a valid number of seconds"))
}

/// Removes the quotes of a single word.
fn unquoted(word: &[u8]) -> Result<Vec<u8>, String> {
    match split_words(word).as_deref() {
        Some([word]) => Ok(word.clone()),
        _ => Err("Invalid quoted string specified for --quoted-pattern.".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &[&str]) -> CliOptions {
        let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        match read(words, "v", None) {
            Ok(CliInvocation::Talk(options)) => *options,
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
        for words in [&["--hotkeys"][..], &["-h"], &["-p", "x"], &["--cert", "a", "--tls"]] {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            let error = read(words.clone(), "v", None).expect_err("refused");
            assert!(error.contains(&text(words[0].clone())), "{error}");
        }
    }
}
