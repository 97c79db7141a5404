//! The command line: `keylatch [/path/to/redis.conf|-] [--option value ...]`.
//!
//! clap handles `--help` and `--version`; every other word follows Redis' own grammar, which `config` reads, so that
//! any start line of redis-server works. Nothing here prints or ends the process: `main` does.
//!
//! Invariant: the path of the config file is absolute, because the server changes its directory later.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf, absolute};
use std::{error, fmt};

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::config::{Config, LoadError, environment_text, load, options_text, settings_help};

const USAGE: &str = "keylatch [/path/to/redis.conf | -] [--option value ...]";

const EXAMPLES: &str = "\
Examples:
  keylatch                                  run with the defaults
  keylatch /etc/redis/redis.conf            read a config file written for Redis
  keylatch redis.conf --port 7000           options come after the file and win
  keylatch --bind 127.0.0.1 ::1 --save ''   a list, and an empty value
  echo 'timeout 60' | keylatch -            read the config file from standard input
  KEYLATCH_TIMEOUT=60 keylatch              set anything through the environment, between file and options
  KEYLATCH_REQUIREPASS_FILE=/run/pw keylatch   read a secret from a file
  keylatch --healthcheck --port 7000        ask a running server whether it is alive
";

/// The words of the command line, as clap sees them.
#[derive(Debug, Parser)]
#[command(
    name = "keylatch",
    about = "An in-memory key-value server that speaks RESP, the Redis protocol",
    override_usage = USAGE,
    disable_version_flag = true,
    disable_help_flag = true
)]
struct Words {
    /// Print this help.
    #[arg(short, long)]
    help: bool,
    /// Print the version.
    #[arg(short, long)]
    version: bool,
    /// Ask the server that these settings would start whether it is alive: exit status 0 if so.
    #[arg(long)]
    healthcheck: bool,
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    raw: Vec<OsString>,
}

/// Says what the command line asks for.
#[derive(Debug)]
pub enum Invocation {
    /// Run a server.
    Run {
        /// The settings from file, standard input and options.
        config: Box<Config>,
        /// The absolute path of the config file.
        config_file: Option<PathBuf>,
    },
    /// Ask the server with these settings whether it is alive.
    Healthcheck(Box<Config>),
    /// Print this text and end with status 0.
    Print(String),
}

/// Says why no server can be started; `Display` is the text for standard error.
#[derive(Debug)]
pub enum CliError {
    /// The words do not fit the usage.
    Usage(String),
    /// The settings are refused.
    Config(LoadError),
    /// The config file cannot be found or standard input cannot be read.
    Io(io::Error),
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliError::Usage(text) => f.write_str(text),
            CliError::Config(cause) => cause.fmt(f),
            CliError::Io(cause) => write!(f, "Fatal error, can't read the configuration: {cause}"),
        }
    }
}

impl error::Error for CliError {}

/// Reads the command line, with the name of the program in front, the config file it names, and the environment.
///
/// # Errors
///
/// The text to print on standard error before ending with status 1.
pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Invocation, CliError> {
    let environment = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
    let environment = environment_text(environment).map_err(CliError::Config)?;
    parse_with(args, &environment, &mut io::stdin())
}

fn parse_with(
    args: impl Iterator<Item = OsString>,
    environment: &[u8],
    stdin: &mut dyn Read,
) -> Result<Invocation, CliError> {
    let usage = |error: clap::Error| CliError::Usage(error.to_string());
    let matches = Words::command().try_get_matches_from(args).map_err(usage)?;
    let words = Words::from_arg_matches(&matches).map_err(usage)?;
    if words.help {
        return Ok(Invocation::Print(help()));
    }
    if words.version {
        return Ok(Invocation::Print(version()));
    }
    let mut raw: Vec<Vec<u8>> = words.raw.into_iter().map(OsString::into_vec).collect();
    take_program_name(&mut raw);
    let config_file = take_config_file(&mut raw).map_err(CliError::Io)?;
    let piped = if take_dash(&mut raw) { Some(read_all(stdin).map_err(CliError::Io)?) } else { None };
    let options = [environment, &options_text(&raw)].concat();
    let config = load(config_file.as_deref(), piped.as_deref(), &options).map_err(CliError::Config).map(Box::new)?;
    Ok(match words.healthcheck {
        true => Invocation::Healthcheck(config),
        false => Invocation::Run { config, config_file },
    })
}

fn help() -> String {
    let mut command = Words::command().after_help(format!("{EXAMPLES}\n{}", settings_help()));
    command.render_help().to_string()
}

fn version() -> String {
    format!("keylatch v={} bits={} protocol=redis-7.0\n", env!("CARGO_PKG_VERSION"), usize::BITS)
}

/// Takes the name of the program off, which the command of a container made for Redis repeats: `redis-server --port 7000`.
fn take_program_name(raw: &mut Vec<Vec<u8>>) {
    let is_program = |word: &Vec<u8>| word == b"redis-server" || word == b"keylatch";
    if raw.first().is_some_and(|word| is_program(word) && !Path::new(&OsString::from_vec(word.clone())).is_file()) {
        raw.remove(0);
    }
}

/// Takes the first word off when it names a file, which is when it does not start with a dash.
fn take_config_file(raw: &mut Vec<Vec<u8>>) -> io::Result<Option<PathBuf>> {
    match raw.first() {
        Some(word) if !word.starts_with(b"-") => {
            let word = OsString::from_vec(raw.remove(0));
            absolute(Path::new(&word)).map(Some)
        }
        _ => Ok(None),
    }
}

/// Takes a lone dash off, which means standard input at the start and at the end of the line.
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

fn read_all(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoke(words: &[&str], stdin: &str) -> Result<Invocation, String> {
        let args = ["keylatch"].iter().chain(words).map(OsString::from);
        parse_with(args, b"maxclients \"77\"\n", &mut stdin.as_bytes()).map_err(|error| error.to_string())
    }

    fn config(words: &[&str], stdin: &str) -> Config {
        match invoke(words, stdin) {
            Ok(Invocation::Run { config, .. }) => *config,
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
            let found = config(words, "timeout 9\n").get(&[name.as_bytes()]);
            assert_eq!(found, [((*name).to_owned(), expected.as_bytes().to_vec())], "{words:?}");
        }
    }

    #[test]
    fn refused_words_are_quoted_in_the_error() {
        let cases: &[(&[&str], &str)] = &[
            (&["--port", "abc"], "at line 3\n>>> 'port \"abc\"'\nargument couldn't be parsed into an integer"),
            (&["--foo", "bar"], ">>> 'foo \"bar\"'\nBad directive or wrong number of arguments"),
            (&["-x"], ">>> '\"-x\"'\nBad directive or wrong number of arguments"),
            (&["--port"], ">>> 'port'\nwrong number of arguments"),
            (&["--loglevel", "a", "b"], ">>> 'loglevel \"a\" \"b\"'\nwrong number of arguments"),
            (&["/nope.conf"], "can't open config file '/nope.conf': No such file or directory"),
        ];
        for (words, expected) in cases {
            let error = invoke(words, "").expect_err("refused");
            assert!(error.ends_with(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn help_and_version_are_printed() {
        for words in [["-h"], ["--help"]] {
            let Ok(Invocation::Print(text)) = invoke(&words, "") else { panic!("{words:?}") };
            assert!(
                text.contains(USAGE) && text.contains("--maxclients <number>") && text.contains("Examples:"),
                "{text}"
            );
        }
        for words in [["-v"], ["--version"]] {
            let Ok(Invocation::Print(text)) = invoke(&words, "") else { panic!("{words:?}") };
            assert!(text.starts_with("keylatch v=") && text.lines().count() == 1, "{text}");
        }
    }

    #[test]
    fn the_config_file_is_read_first_and_its_path_is_absolute() {
        let path = std::env::temp_dir().join(format!("keylatch-cli-{}", std::process::id()));
        std::fs::write(&path, "timeout 5\nhz 20\n").expect("the temporary directory is writable");
        let invoked = invoke(&[path.to_str().expect("a plain path"), "--hz", "30"], "");
        std::fs::remove_file(&path).expect("the file was just written");
        let Ok(Invocation::Run { config, config_file }) = invoked else { panic!("{invoked:?}") };
        assert_eq!((config.timeout_s, config.hz, config_file), (5, 30, Some(path)));
        let mut raw = vec![b"redis.conf".to_vec()];
        assert!(take_config_file(&mut raw).expect("a file").is_some_and(|path| path.is_absolute()));
    }
}
