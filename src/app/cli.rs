//! The command line: `keylatch [/path/to/redis.conf|-] [--option value ...]`.
//!
//! clap parses `--help`, `--version`, the health check, `copy` and `lock`; all other arguments follow Redis' own
//! grammar, which `config` parses, so that any command line of redis-server works. Under the name `redis-cli` the
//! binary is a client. Nothing here prints or exits: `main` does.
//!
//! Invariant: the path of the config file is absolute, because the server changes its working directory later.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf, absolute};
use std::{error, fmt};

use clap::Parser;

use crate::app::healthcheck::HealthCheckTarget;
use crate::command;
use crate::config::{
    Config, Environment, Setting, SettingsError, load_with, options_text, read_environment, setting_help, settings_help,
};
use crate::text::{REDIS_VERSION, system_text};

const ABOUT: &str = "keylatch: an in-memory key-value server that speaks RESP, the Redis protocol";

const USAGE: &str = "\
Usage: keylatch [/path/to/redis.conf | -] [--option value ...]
       keylatch --healthcheck [-h host] [-p port] [-s socket] [--tls] [--running] [/path/to/redis.conf] [--option value ...]
       keylatch copy [options] FROM TO    (keylatch copy --help)
       keylatch lock [options] NAME -- COMMAND    (keylatch lock --help)
       keylatch drain [options] SERVER --to HOST:PORT    (keylatch drain --help)
       redis-cli [options] command...     (a link of that name to this binary, or its first argument)
       keylatch --version | --help | --help-all
";

const EXAMPLES: &str = "\
Examples:
  keylatch                                  run with the defaults
  keylatch /etc/redis/redis.conf            use a config file written for Redis
  keylatch redis.conf --port 7000           options override the file
  keylatch --bind 127.0.0.1 ::1 --save ''   a list, and an empty value
  echo 'timeout 60' | keylatch -            read the config file from standard input
  KEYLATCH_TIMEOUT=60 keylatch              set a setting by environment variable (overrides the file)
  KEYLATCH_REQUIREPASS_FILE=/run/pw keylatch   read a secret from a file
  keylatch --port 0 --test-mode             serve a test: a free port, and the commands TEST.*
  keylatch --healthcheck --port 7000        check the server with these settings
  keylatch copy redis://a redis://b:7000    copy all keys with their TTLs from one server to another
  keylatch lock report -- make report       run a command while it holds a lock, as flock does
  keylatch --healthcheck --running          check the running servers of this binary, as in a container
";

/// The settings shown by `--help`; all others are shown by `--help-all`.
const OFTEN_USED: [&str; 29] = [
    "port",
    "bind",
    "unixsocket",
    "protected-mode",
    "requirepass",
    "aclfile",
    "tls-port",
    "tls-cert-file",
    "tls-key-file",
    "tls-ca-cert-file",
    "tls-auth-clients",
    "metrics-port",
    "maxclients",
    "timeout",
    "maxmemory",
    "maxmemory-policy",
    "databases",
    "notify-keyspace-events",
    "worker-threads",
    "dir",
    "logfile",
    "loglevel",
    "daemonize",
    "pidfile",
    "supervised",
    "enable-debug-command",
    "test-mode",
    "port-file",
    "exit-on-stdin-close",
];

/// The arguments of a server, as parsed by clap.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true, no_binary_name = true)]
struct ServerArgs {
    #[arg(short, long)]
    help: bool,
    #[arg(long)]
    help_all: bool,
    #[arg(short, long)]
    version: bool,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    settings: Vec<OsString>,
}

/// The options of a health check, as parsed by clap; `-h` is the host, as in redis-cli.
#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true, no_binary_name = true)]
struct HealthcheckArgs {
    #[arg(short = 'h', allow_hyphen_values = true)]
    host: Option<String>,
    #[arg(short)]
    port: Option<u16>,
    #[arg(short)]
    socket: Option<PathBuf>,
    #[arg(long)]
    tls: bool,
    #[arg(long)]
    running: bool,
}

/// Request of the command line.
#[derive(Debug)]
pub(crate) enum CommandLine {
    /// Run a server.
    Run {
        /// The settings from file, standard input and options.
        config: Box<Config>,
        /// The absolute path of the config file.
        config_file: Option<PathBuf>,
    },
    /// Check whether a server is alive.
    Healthcheck {
        /// The server to check.
        target: HealthCheckTarget,
        /// The settings of the server, used where the options do not say otherwise.
        config: Box<Config>,
    },
    /// Act as redis-cli with these arguments.
    RedisCli(Vec<Vec<u8>>),
    /// Copy the keys of a server to another, with these arguments.
    Copy(Vec<Vec<u8>>),
    /// Run a command with a lock, or show locks, with these arguments.
    Lock(Vec<Vec<u8>>),
    /// Send the clients of a server elsewhere; the arguments after `drain`.
    Drain(Vec<Vec<u8>>),
    /// Print this text and exit with status 0.
    Print(String),
}

/// Error of an invalid command line; `Display` is the text for standard error.
#[derive(Debug)]
pub(crate) enum CliError {
    /// An option of the health check is misused.
    Usage(String),
    /// The settings are invalid.
    Config(SettingsError),
    /// The config file cannot be found or standard input cannot be read.
    Io(io::Error),
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliError::Usage(text) => f.write_str(text),
            CliError::Config(cause) => cause.fmt(f),
            CliError::Io(cause) => write!(f, "Fatal error, can't read the configuration: {}", system_text(cause)),
        }
    }
}

impl error::Error for CliError {}

/// Parses the command line including the program name, the config file it names, and the environment.
///
/// # Errors
///
/// The text to print on standard error before exiting with status 1.
pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<CommandLine, CliError> {
    let environment = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    let environment = || read_environment(environment).map_err(CliError::Config);
    parse_with(args, environment, &mut io::stdin())
}

fn parse_with(
    mut args: impl Iterator<Item = OsString>,
    environment: impl FnOnce() -> Result<Environment, CliError>,
    stdin: &mut dyn Read,
) -> Result<CommandLine, CliError> {
    let program = args.next().unwrap_or_default();
    let mut raw: Vec<Vec<u8>> = args.map(OsString::into_vec).collect();
    let is_client = |word: &Path| word.file_name().is_some_and(|name| name == "redis-cli");
    if is_client(Path::new(&program)) || take_program_name(&mut raw, &["redis-cli"]) {
        return Ok(CommandLine::RedisCli(raw));
    }
    take_program_name(&mut raw, &["redis-server", "keylatch"]);
    if take_copy(&mut raw) {
        return Ok(CommandLine::Copy(raw));
    }
    if take_lock(&mut raw) {
        return Ok(CommandLine::Lock(raw));
    }
    if take_drain(&mut raw) {
        return Ok(CommandLine::Drain(raw));
    }
    let target = if raw.first().is_some_and(|word| word == b"--healthcheck") {
        raw.remove(0);
        Some(take_healthcheck_target(&mut raw)?)
    } else {
        let args = read_args::<ServerArgs>(raw)?;
        if args.help || args.help_all || args.version {
            let text = if args.help_all { help_all() } else { help() };
            return Ok(CommandLine::Print(if args.version { version("Redis server") } else { text }));
        }
        raw = args.settings.into_iter().map(OsString::into_vec).collect();
        None
    };
    let config_file = take_config_file(&mut raw).map_err(CliError::Io)?;
    let piped = if take_dash(&mut raw) { Some(read_all(stdin).map_err(CliError::Io)?) } else { None };
    let environment = environment()?;
    complete_switches(&mut raw);
    let (piped, options) = (piped.as_deref(), options_text(&raw));
    let loaded = load_with(command::table(), config_file.as_deref(), piped, &environment.lines, &options);
    let mut config = loaded.map_err(CliError::Config).map(Box::new)?;
    config.directives.unknown_variables = environment.unknown;
    Ok(match target {
        Some(target) => CommandLine::Healthcheck { target, config },
        None => CommandLine::Run { config, config_file },
    })
}

/// Returns the short help, with the most used settings.
fn help() -> String {
    let mut text =
        format!("{ABOUT}\n\n{USAGE}\n{EXAMPLES}\nCommon settings, as --name value or as lines of a config file:\n");
    for (_, setting) in OFTEN_USED.iter().filter_map(|name| Setting::find(name.as_bytes())) {
        text.push_str(&shortened(&setting_help(setting)));
    }
    text.push_str("\n  keylatch --help-all lists all settings; redis.conf.example documents them.\n");
    text
}

/// Shortens the documentation of a setting to its first part; the default stays.
fn shortened(line: &str) -> String {
    let line = line.trim_end();
    let (text, default) = line.find(" [").map_or((line, ""), |at| line.split_at(at));
    match [": ", "; "].iter().filter_map(|mark| text.find(mark)).min() {
        Some(at) => format!("{}.{default}\n", &text[..at]),
        None => format!("{text}{default}\n"),
    }
}

fn help_all() -> String {
    format!("{ABOUT}\n\n{USAGE}\n{EXAMPLES}\n{}", settings_help())
}

/// Returns the version line, from which tools read the versions of Redis and keylatch.
pub(crate) fn version(program: &str) -> String {
    #[cfg(feature = "jemalloc")]
    let malloc = format!("jemalloc-{}", tikv_jemalloc_ctl::version::read().unwrap_or_default());
    #[cfg(not(feature = "jemalloc"))]
    let malloc = "libc".to_owned();
    let malloc = malloc.splitn(3, '-').take(2).collect::<Vec<_>>().join("-");
    let (bits, keylatch) = (usize::BITS, env!("CARGO_PKG_VERSION"));
    format!("{program} v={REDIS_VERSION} sha=00000000:0 malloc={malloc} bits={bits} build=0 keylatch={keylatch}\n")
}

/// Removes a program name that the command of a container made for Redis repeats: `redis-server --port 7000`.
fn take_program_name(raw: &mut Vec<Vec<u8>>, names: &[&str]) -> bool {
    let is_program = |word: &Vec<u8>| names.iter().any(|name| word == name.as_bytes());
    let is_named =
        raw.first().is_some_and(|word| is_program(word) && !Path::new(&OsString::from_vec(word.clone())).is_file());
    if is_named {
        raw.remove(0);
    }
    is_named
}

/// Removes `copy` in front of addresses. Without addresses, a file of that name is a config file.
fn take_copy(raw: &mut Vec<Vec<u8>>) -> bool {
    let has_address = raw.iter().any(|word| memchr::memmem::find(word, b"://").is_some());
    let is_copy = has_address && raw.first().is_some_and(|word| word == b"copy");
    if is_copy {
        raw.remove(0);
    }
    is_copy || take_program_name(raw, &["copy"])
}

/// Removes `lock` in front of arguments that no server takes. Without them, a file of that name is a config file.
fn take_lock(raw: &mut Vec<Vec<u8>>) -> bool {
    const OWN: [&[u8]; 5] = [b"--", b"--list", b"--watch", b"--release", b"--help"];
    let is_lock = raw.first().is_some_and(|word| word == b"lock") && raw.iter().any(|word| OWN.contains(&&word[..]));
    if is_lock {
        raw.remove(0);
    }
    is_lock || take_program_name(raw, &["lock"])
}

/// Removes `drain` in front of an address. Without one, a file of that name is a config file.
fn take_drain(raw: &mut Vec<Vec<u8>>) -> bool {
    let is_drain = raw.first().is_some_and(|word| word == b"drain") && raw.iter().any(|word| word.starts_with(b"--to"));
    if is_drain {
        raw.remove(0);
    }
    is_drain || take_program_name(raw, &["drain"])
}

/// Removes the options of the health check, wherever they are except as the value of a setting.
fn take_healthcheck_target(raw: &mut Vec<Vec<u8>>) -> Result<HealthCheckTarget, CliError> {
    let (mut options, mut settings) = (Vec::new(), Vec::new());
    let mut words = std::mem::take(raw).into_iter();
    let mut is_value = false;
    while let Some(word) = words.next() {
        let is_flag = matches!(&word[..], b"--tls" | b"--running");
        let takes_value = !is_value && matches!(&word[..], b"-h" | b"-p" | b"-s");
        if !is_flag && !takes_value {
            is_value = word.starts_with(b"--");
            settings.push(word);
            continue;
        }
        options.push(word);
        options.extend(takes_value.then(|| words.next()).flatten());
        is_value = false;
    }
    *raw = settings;
    let HealthcheckArgs { host, port, socket, tls, running } = read_args(options)?;
    Ok(HealthCheckTarget { host, port, socket, tls, running })
}

/// Parses arguments with clap.
fn read_args<A: Parser>(raw: Vec<Vec<u8>>) -> Result<A, CliError> {
    A::try_parse_from(raw.into_iter().map(OsString::from_vec)).map_err(|error| {
        let text = error.to_string();
        CliError::Usage(text.trim_start_matches("error: ").trim_end().to_owned())
    })
}

/// Removes the first argument if it names a file, that is, if it does not start with a dash.
fn take_config_file(raw: &mut Vec<Vec<u8>>) -> io::Result<Option<PathBuf>> {
    match raw.first() {
        Some(word) if !word.starts_with(b"-") => {
            let word = OsString::from_vec(raw.remove(0));
            absolute(Path::new(&word)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Removes a lone dash, which means standard input at the start or at the end of the command line.
fn take_dash(raw: &mut Vec<Vec<u8>>) -> bool {
    let before = raw.len();
    if raw.first().is_some_and(|word| word == b"-") {
        raw.remove(0);
    }
    if raw.last().is_some_and(|word| word == b"-") {
        raw.pop();
    }
    raw.len() != before
}

/// Adds the value `yes` to switches of keylatch that are given without one; switches of Redis need a value.
fn complete_switches(raw: &mut Vec<Vec<u8>>) {
    for at in (0..raw.len()).rev() {
        let has_value = raw.get(at + 1).is_some_and(|word| !word.starts_with(b"--"));
        let setting = raw[at].strip_prefix(b"--").and_then(Setting::find);
        if setting.is_some_and(|(_, setting)| setting.is_own_switch()) && !has_value {
            raw.insert(at + 1, b"yes".to_vec());
        }
    }
}

fn read_all(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Setting;

    fn invoke(words: &[&str], stdin: &str) -> Result<CommandLine, String> {
        let args = ["keylatch"].iter().chain(words).map(OsString::from);
        let lines = b"maxclients \"77\"\n".to_vec();
        let environment = || Ok(Environment { lines, unknown: Vec::new() });
        parse_with(args, environment, &mut stdin.as_bytes()).map_err(|error| error.to_string())
    }

    fn config(words: &[&str], stdin: &str) -> Config {
        match invoke(words, stdin) {
            Ok(CommandLine::Run { config, .. }) => *config,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn options_set_what_they_name() {
        let cases: &[(&[&str], &str, &str)] = &[
            (&[], "timeout", "0"),
            (&["--timeout", "5"], "timeout", "5"),
            (&["--timeout 5", "--hz", "3"], "timeout", "5"),
            (&["--TIMEOUT", "5", "--timeout", "6"], "timeout", "6"),
            (&["--unixsocket", "--foo"], "unixsocket", "--foo"),
            (&["--requirepass", "-v"], "requirepass", "-v"),
            (&["--requirepass", "--help"], "requirepass", "--help"),
            (&["--bind", "127.0.0.1", "::1", "--hz", "3"], "bind", "127.0.0.1 ::1"),
            (&["--save", "60", "1", "--save", "30", "2"], "save", "60 1 30 2"),
            (&["--save", "60", "1", "--save", ""], "save", ""),
            (&["-", "--hz", "7"], "timeout", "9"),
            (&["--hz", "7", "-"], "timeout", "9"),
            (&["--timeout", "3", "-"], "timeout", "3"),
            (&[], "maxclients", "77"),
            (&["--maxclients", "78"], "maxclients", "78"),
            (&["redis-server", "--timeout", "4"], "timeout", "4"),
        ];
        for (words, name, expected) in cases {
            let (_, setting) = Setting::find(name.as_bytes()).expect("a setting");
            let found = setting.get(&config(words, "timeout 9\n"));
            assert_eq!(found, expected.as_bytes(), "{words:?}");
        }
    }

    #[test]
    fn rejected_arguments_are_quoted_in_the_error() {
        let cases: &[(&[&str], &str)] = &[
            (
                &["--port", "abc"],
                "Reading the option --port\n>>> 'port \"abc\"'\nargument couldn't be parsed into an integer",
            ),
            (&["--foo", "bar"], ">>> 'foo \"bar\"'\nBad directive or wrong number of arguments"),
            (
                &["--prot", "7000"],
                ">>> 'prot \"7000\"'\nBad directive or wrong number of arguments\nDid you mean 'port'?",
            ),
            (
                &["-x"],
                "Reading the argument -x of the command line\n>>> '\"-x\"'\nBad directive or wrong number of arguments",
            ),
            (&["--port"], ">>> 'port'\nwrong number of arguments"),
            (&["--loglevel", "a", "b"], ">>> 'loglevel \"a\" \"b\"'\nwrong number of arguments"),
            (&["/nope.conf"], "can't open config file '/nope.conf': No such file or directory"),
        ];
        for (words, expected) in cases {
            let error = invoke(words, "").expect_err("refused");
            assert!(error.ends_with(expected), "{words:?}: {error}");
        }
    }

    fn printed(words: &[&str]) -> String {
        match invoke(words, "") {
            Ok(CommandLine::Print(text)) => text,
            other => panic!("{words:?}: {other:?}"),
        }
    }

    #[test]
    fn the_help_fits_two_screens_and_names_the_one_with_everything() {
        for flag in ["-h", "--help"] {
            let text = printed(&[flag]);
            assert!(text.lines().count() <= 60 && !text.contains("no effect"), "{text}");
            for part in [USAGE, "--maxclients <number>", "--requirepass", "Examples:", "--help-all"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            let settings = text.lines().filter(|line| line.starts_with("    --")).count();
            assert_eq!(settings, OFTEN_USED.len(), "one of them is no setting");
        }
        let text = printed(&["--help-all"]);
        assert!(text.contains("--maxclients <number>") && text.contains("--activerehashing"), "{text}");
    }

    #[test]
    fn the_version_has_the_form_of_redis_server() {
        for words in [&["-v"][..], &["--version"], &["redis-server", "--version"]] {
            let text = printed(words);
            assert!(text.starts_with(&format!("Redis server v={REDIS_VERSION} sha=")), "{text}");
            assert!(text.ends_with(&format!(" keylatch={}\n", env!("CARGO_PKG_VERSION"))), "{text}");
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }

    #[test]
    fn the_name_of_the_program_makes_it_a_client() {
        let invoke = |args: &[&str]| {
            parse_with(args.iter().map(OsString::from), || Ok(Environment::default()), &mut &b""[..])
                .expect("no settings")
        };
        for args in [&["redis-cli", "-p", "1", "ping"][..], &["/usr/bin/redis-cli", "-p", "1", "ping"]] {
            assert!(matches!(invoke(args), CommandLine::RedisCli(words) if words == [&b"-p"[..], b"1", b"ping"]));
        }
        assert!(
            matches!(invoke(&["keylatch", "redis-cli", "ping"]), CommandLine::RedisCli(words) if words == [b"ping"])
        );
        for args in [&["keylatch", "copy", "redis://a"][..], &["keylatch", "keylatch", "copy", "redis://a"]] {
            assert!(matches!(invoke(args), CommandLine::Copy(words) if words == [b"redis://a"]), "{args:?}");
        }
        assert!(matches!(invoke(&["keylatch", "copy", "--help"]), CommandLine::Copy(words) if words == [b"--help"]));
        for args in [&["keylatch", "lock", "--list"][..], &["keylatch", "keylatch", "lock", "--list"]] {
            assert!(matches!(invoke(args), CommandLine::Lock(words) if words == [b"--list"]), "{args:?}");
        }
        assert!(matches!(invoke(&["keylatch", "lock", "job"]), CommandLine::Lock(words) if words == [b"job"]));
        for args in [&["keylatch", "drain", "a", "--to=b:1"][..], &["keylatch", "keylatch", "drain", "a", "--to=b:1"]] {
            assert!(matches!(invoke(args), CommandLine::Drain(words) if words == [&b"a"[..], b"--to=b:1"]), "{args:?}");
        }
    }

    #[test]
    fn the_health_check_takes_its_options_and_leaves_the_settings() {
        let Ok(CommandLine::Healthcheck { target, config }) =
            invoke(&["--healthcheck", "-h", "db", "--requirepass", "-p", "-p", "7000", "--timeout", "5", "--tls"], "")
        else {
            panic!("a health check")
        };
        let expected =
            HealthCheckTarget { host: Some("db".into()), port: Some(7000), tls: true, ..HealthCheckTarget::default() };
        assert_eq!((target, config.timeout_s, config.requirepass), (expected, 5, Some(b"-p".to_vec())));
        for (words, expected) in [
            (&["--healthcheck", "-h"][..], "a value is required for '-h <HOST>' but none was supplied"),
            (&["--healthcheck", "-p", "x"], "invalid value 'x' for '-p <PORT>': invalid digit found in string"),
        ] {
            assert_eq!(invoke(words, "").expect_err("refused"), expected);
        }
    }

    #[test]
    fn the_config_file_is_read_first_and_its_path_is_absolute() {
        let path = std::env::temp_dir().join(format!("keylatch-cli-{}", std::process::id()));
        std::fs::write(&path, "timeout 5\nhz 20\n").expect("the temporary directory is writable");
        let invoked = invoke(&[path.to_str().expect("a plain path"), "--hz", "30"], "");
        std::fs::remove_file(&path).expect("the file was just written");
        let Ok(CommandLine::Run { config, config_file }) = invoked else { panic!("{invoked:?}") };
        assert_eq!((config.timeout_s, config.hz, config_file), (5, 30, Some(path)));
        let mut raw = vec![b"redis.conf".to_vec()];
        assert!(take_config_file(&mut raw).expect("a file").is_some_and(|path| path.is_absolute()));
    }
}
