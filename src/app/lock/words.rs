//! The words of the command line of `keylatch lock`: a table of options for clap, and the values that they have.
//!
//! The table is shorter in the binary than what clap derives for a struct.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};

use crate::app::endpoint::TlsArgs;

const USAGE: &str = "\
keylatch lock [options] NAME... -- COMMAND [ARGUMENT...]
       keylatch lock [options] --list [PATTERN] [--json]
       keylatch lock [options] --watch [NAME]
       keylatch lock [options] --release NAME [--force]";

const DETAILS: &str = "\
A time is 500ms, 30s, 5m, 2h, or a number of seconds. Without --wait, a lock that is held is waited for
without limit, and a server that is not there not at all.
The password can also come from the environment, which other users cannot see: REDISCLI_AUTH.

COMMAND runs with the variables KEYLATCH_LOCK (the names), KEYLATCH_FENCE (for each the fencing token, a
number that increases from holder to holder; unset where the server has none) and KEYLATCH_TOKEN (what
the locks are held with). They are renewed at a third of their TTL, and released when COMMAND ends.
TERM, INT, HUP, QUIT, USR1 and USR2 are passed on to COMMAND, unless they were sent to its whole process
group, as a terminal does with Ctrl-C. If this program is killed, COMMAND is ended as by --on-lost.
In COMMAND, keylatch lock on the same names holds the same locks, and leaves them as they are.

A lock is lost when the server says so, or when the server could not be reached for its TTL. COMMAND and
what it has started are then sent TERM, and KILL if it is still there after --kill-after. With --on-lost
kill that comes at once, with --on-lost warn nothing but a message. Of several --url the first that
is a primary is used, or the one that --sentinel finds. After a failover the primary is looked for again;
a lock that it does not have is lost.

Redis and Valkey have no LOCK commands: there one lock is taken by SET NX PX, by one holder, without
queue and fence.

Exit status: that of COMMAND; 128 + n when signal n has ended it; 127 when there is no such command, 126
when it cannot be executed. Of keylatch lock itself, when COMMAND has not run, or not to its end:
  75   the lock is held by another (--conflict-exit-code)
  79   the lock was lost, and COMMAND was ended, or was found to have lost it when it ended
  69   no server: not reachable, loading, a replica
  77   the server refuses: password, permission, a key that is no lock, a lock that it does not have
  64   wrong options
  71   the system starts no process, or standard output cannot be written
--list, --watch and --release exit with 0, or these; --release with 1 when there was nothing to release.";

/// The options: the name, the letter, the name of the value, and the help. `-h` is the host, as in redis-cli.
const OPTIONS: [(&str, &str, &str, &str); 28] = [
    ("shared", "", "", "Hold it together with others who share it"),
    ("permits", "", "N", "Hold this many permits of a semaphore"),
    ("of", "", "M", "The permits that there are; needed where there is no semaphore yet"),
    ("ttl", "", "TIME", "The TTL of the lock after each renewal [default: 30s]"),
    ("wait", "w", "TIME", "The time to wait for the server and the lock, at most; 0 not at all"),
    ("nonblock", "n", "", "Do not wait, as --wait 0"),
    ("at-least", "", "TIME", "The minimum time to hold the lock, also after COMMAND has ended"),
    ("conflict-exit-code", "E", "NUMBER", "The exit status when the lock is held by another [default: 75]"),
    ("on-lost", "", "HOW", "On the loss of the lock: term, kill, or warn [default: term]"),
    ("kill-after", "k", "TIME", "The time from TERM to KILL after a lost lock [default: 10s]"),
    ("meta", "", "TEXT", "The purpose of the lock; others are shown it after user@host:pid"),
    ("verbose", "", "", "Tell about the wait also without a terminal"),
    ("quiet", "q", "", "Tell nothing about the wait, nor of a lock that is held"),
    ("list", "", "", "List the locks"),
    ("json", "", "", "List them as JSON, an object in a line"),
    ("watch", "", "", "Follow a lock and its queue, or all locks"),
    ("release", "", "", "Release a lock, whoever holds it"),
    ("force", "", "", "Release it without asking"),
    ("host", "h", "HOST", "The server (default: 127.0.0.1)"),
    ("port", "p", "PORT", "Its port (default: 6379)"),
    ("socket", "s", "PATH", "Its Unix socket, instead of host and port"),
    ("url", "u", "URL", "redis://[user:password@]host[:port][/db], rediss:// or unix:///path"),
    ("sentinel", "", "HOST:PORT", "The sentinels that are asked for the primary, separated by commas"),
    ("master", "", "NAME", "The name of the primary at the sentinels"),
    ("user", "", "NAME", "The user"),
    ("pass", "a", "PASSWORD", "The password"),
    ("db", "", "NUMBER", "The number of the database"),
    ("tls", "", "", "Use TLS"),
];

/// Options that exclude others.
const CONFLICTS: [(&str, &[&str]); 10] = [
    ("shared", &["permits"]),
    ("nonblock", &["wait"]),
    ("quiet", &["verbose"]),
    ("list", &["watch", "release"]),
    ("watch", &["release"]),
    ("socket", &["host", "port"]),
    ("url", &["host", "port", "socket"]),
    ("sentinel", &["host", "port", "socket", "url"]),
    ("tls", &["socket"]),
    ("master", &["url"]),
];

/// Options that need another one.
const NEEDS: [(&str, &str); 3] = [("of", "permits"), ("sentinel", "master"), ("master", "sentinel")];

/// The words, by option.
pub(super) struct Words {
    pub names: Vec<OsString>,
    pub command: Vec<OsString>,
    pub shared: bool,
    pub permits: Option<u32>,
    pub of: Option<u32>,
    pub ttl: Duration,
    pub wait: Option<Duration>,
    pub nonblock: bool,
    pub at_least: Duration,
    pub conflict_exit_code: u8,
    pub on_lost: OnLost,
    pub kill_after: Duration,
    pub meta: Option<OsString>,
    pub verbose: bool,
    pub quiet: bool,
    pub list: bool,
    pub json: bool,
    pub watch: bool,
    pub release: bool,
    pub force: bool,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket: Option<PathBuf>,
    pub url: Vec<OsString>,
    pub sentinel: Option<String>,
    pub master: Option<OsString>,
    pub user: Option<OsString>,
    pub password: Option<OsString>,
    pub db: Option<u32>,
    pub tls: bool,
    pub tls_files: TlsArgs,
}

/// Reaction to the loss of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnLost {
    /// TERM, and later KILL
    Term,
    /// KILL at once
    Kill,
    /// Nothing but a message
    Warn,
}

impl Words {
    /// Sorts words by option.
    ///
    /// # Errors
    /// If an option is unknown, lacks its value, or excludes another one; or the help, if it is asked for.
    pub(super) fn matches(words: Vec<OsString>) -> Result<ArgMatches, clap::Error> {
        let several = |name: &'static str| {
            Arg::new(name).num_args(1..).action(ArgAction::Append).value_parser(value_parser!(OsString))
        };
        let name = several("NAME").help("The lock: a key of the server; several are taken together, all or none");
        let run = several("COMMAND").last(true).help("The command to run while the lock is held");
        let mut command = Command::new("lock")
            .about("Runs a command while it holds a lock; waits for the lock in the order of arrival.")
            .override_usage(USAGE)
            .after_help(DETAILS)
            .args_override_self(true)
            .disable_help_flag(true)
            .no_binary_name(true)
            .args([name, run]);
        for (name, letter, value, help) in OPTIONS {
            let mut option = Arg::new(name).long(name).help(help);
            option = match value {
                "" => option.action(ArgAction::SetTrue),
                "URL" => option.action(ArgAction::Append),
                _ => option.action(ArgAction::Set),
            };
            if !value.is_empty() {
                option = option.value_name(value).value_parser(value_parser!(OsString));
            }
            option = option.allow_hyphen_values(matches!(name, "meta" | "pass"));
            if name == "wait" {
                option = option.alias("timeout");
            }
            for letter in letter.chars() {
                option = option.short(letter);
            }
            for (_, others) in CONFLICTS.iter().filter(|(one, _)| *one == name) {
                option = option.conflicts_with_all(*others);
            }
            for (_, other) in NEEDS.iter().filter(|(one, _)| *one == name) {
                option = option.requires(*other);
            }
            command = command.arg(option);
        }
        let help = Arg::new("help").long("help").help("Print this help").action(ArgAction::HelpShort);
        TlsArgs::augment_args(command).arg(help).try_get_matches_from(words)
    }

    /// Reads the values.
    ///
    /// # Errors
    /// The reason for which one is invalid.
    pub(super) fn read(matches: &mut ArgMatches) -> Result<Self, String> {
        let tls_files = TlsArgs::from_arg_matches_mut(matches).map_err(|error| error.to_string())?;
        let mut text = |name: &str| text_of(matches, name);
        let lossy = |text: OsString| text.to_string_lossy().into_owned();
        let how = text("on-lost").map_or_else(|| "term".into(), lossy);
        let on_lost = match &how[..] {
            "term" => OnLost::Term,
            "kill" => OnLost::Kill,
            "warn" => OnLost::Warn,
            _ => return Err(invalid("on-lost", &how, "possible values: term, kill, warn")),
        };
        let mut number = |name: &str, most: u32| match text(name).map(lossy) {
            None => Ok(None),
            Some(text) => match text.parse().ok().filter(|number| *number <= most) {
                Some(number) => Ok(Some(number)),
                None => Err(invalid(name, &text, &format!("it is not in 0..={most}"))),
            },
        };
        let conflict_exit_code = number("conflict-exit-code", u8::MAX.into())?.map_or(75, |code| code as u8);
        let port = number("port", u16::MAX.into())?.map(|port| port as u16);
        let (permits, of, db) = (number("permits", u32::MAX)?, number("of", u32::MAX)?, number("db", u32::MAX)?);
        let mut time = |name: &str| match text(name).map(lossy) {
            None => Ok(None),
            Some(text) => duration(&text).map(Some).map_err(|reason| invalid(name, &text, &reason)),
        };
        let (ttl, wait) = (time("ttl")?.unwrap_or(Duration::from_secs(30)), time("wait")?);
        let (at_least, kill_after) = (time("at-least")?, time("kill-after")?);
        let mut several =
            |name: &str| matches.remove_many::<OsString>(name).map(Iterator::collect::<Vec<_>>).unwrap_or_default();
        let (names, command, url) = (several("NAME"), several("COMMAND"), several("url"));
        let flag = |name: &str| matches.get_flag(name);
        Ok(Words {
            names,
            command,
            shared: flag("shared"),
            permits,
            of,
            ttl,
            wait,
            nonblock: flag("nonblock"),
            at_least: at_least.unwrap_or_default(),
            conflict_exit_code,
            on_lost,
            kill_after: kill_after.unwrap_or(Duration::from_secs(10)),
            verbose: flag("verbose"),
            quiet: flag("quiet"),
            list: flag("list"),
            json: flag("json"),
            watch: flag("watch"),
            release: flag("release"),
            force: flag("force"),
            tls: flag("tls"),
            port,
            url,
            db,
            tls_files,
            meta: text_of(matches, "meta"),
            host: text_of(matches, "host").map(lossy),
            socket: text_of(matches, "socket").map(PathBuf::from),
            sentinel: text_of(matches, "sentinel").map(lossy),
            master: text_of(matches, "master"),
            user: text_of(matches, "user"),
            password: text_of(matches, "pass"),
        })
    }
}

fn text_of(matches: &mut ArgMatches, name: &str) -> Option<OsString> {
    matches.remove_one::<OsString>(name)
}

/// Returns the message about an invalid value.
fn invalid(name: &str, text: &str, reason: &str) -> String {
    let value = OPTIONS.iter().find(|option| option.0 == name).map_or("", |option| option.2);
    format!("invalid value '{text}' for '--{name} <{value}>': {reason}")
}

/// Parses a time.
fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    /// A century, which every server can count.
    const MOST: f64 = 100.0 * 365.0 * 86400.0;
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits, *unit)))
        .unwrap_or((text, 1.0));
    let is_plain =
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    let number: Option<f64> = digits.parse().ok().filter(|number| is_plain && number * unit <= MOST);
    match number {
        Some(number) => Ok(Duration::from_millis((number * unit * 1000.0).round() as u64)),
        None => Err("a time is 500ms, 30s, 5m, 2h, or a number of seconds".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_a_bare_number_is_seconds() {
        for (text, ms) in [("0", 0), ("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), ("1.5", 1500)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "s", "-1s", "+1", "x", "10x", "1.5.2", "1e9", "nan", "inf", " 1", "9999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
