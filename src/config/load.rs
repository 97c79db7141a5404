//! Loading of the settings at startup: a config file, standard input and command-line options, in this order.
//!
//! Options become lines after the file, as in Redis. An error names the line of the file, or the option or variable as
//! it was written. This module does not print or exit.
//!
//! Invariant: included files are applied at the position of `include`, at most `INCLUDE_DEPTH_MAX` deep.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use crate::config::directives::{included_files, is_directive};
use crate::config::kind::{bytes_to_os, os_to_bytes};
use crate::config::suggest::nearest_name;
use crate::config::{Config, Setting, SettingOrigin};
use crate::spec::CommandTable;
use crate::text::{quote, split_words, system_text};

/// Maximum depth of includes: a file that includes itself fails there instead of overflowing the stack.
const INCLUDE_DEPTH_MAX: usize = 16;

/// Error of loading the settings; `Display` gives the text that Redis prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// A line is invalid.
    Refused {
        /// The file, if another one includes it.
        file: Option<PathBuf>,
        /// The number of the line, from 1.
        line: usize,
        /// The line without the blanks around it.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A command-line option or an environment variable is invalid.
    RefusedOption {
        /// The option or variable, as it was written.
        option: String,
        /// The equivalent line of a config file.
        text: String,
        /// The reason.
        reason: String,
    },
    /// A file cannot be read.
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// The error text of the operating system.
        cause: String,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::Refused { file, line, text, reason } => {
                let file = file.as_ref().map_or_else(String::new, |file| format!(" {}", file.display()));
                writeln!(f, "\n*** FATAL CONFIG FILE ERROR (keylatch {}) ***", env!("CARGO_PKG_VERSION"))?;
                writeln!(f, "Reading the configuration file{file}, at line {line}")?;
                write!(f, ">>> '{text}'\n{reason}")
            }
            SettingsError::RefusedOption { option, text, reason } => {
                writeln!(f, "\n*** FATAL OPTION ERROR (keylatch {}) ***", env!("CARGO_PKG_VERSION"))?;
                writeln!(f, "Reading {option}")?;
                write!(f, ">>> '{text}'\n{reason}")
            }
            SettingsError::Unreadable { path, cause } => {
                write!(f, "Fatal error, can't open config file '{}': {cause}", path.display())
            }
        }
    }
}

impl std::error::Error for SettingsError {}

/// Loads the settings, without an environment; see [`load_with`].
///
/// # Errors
///
/// The errors of [`load_with`].
#[cfg(feature = "internals")]
pub(crate) fn load(
    commands: &'static CommandTable,
    file: Option<&Path>,
    stdin: Option<&[u8]>,
    options: &[u8],
) -> Result<Config, SettingsError> {
    load_with(commands, file, stdin, b"", options)
}

/// Loads a file, then text from standard input, then the lines of the environment and those that [`options_text`] made
/// of the command line. Users and renamed commands are checked against `commands`. In test mode, settings that were not
/// set have the defaults of a server that touches no files.
///
/// # Errors
///
/// The first invalid line, or a file that cannot be read.
pub(crate) fn load_with(
    commands: &'static CommandTable,
    file: Option<&Path>,
    stdin: Option<&[u8]>,
    environment: &[u8],
    options: &[u8],
) -> Result<Config, SettingsError> {
    let mut text = match file {
        Some(path) => read(path, path)?,
        None => Vec::new(),
    };
    text.extend_from_slice(stdin.unwrap_or_default());
    let mut loader = Loader::new(commands, Config::default());
    loader.apply(&text, None, 0)?;
    loader.apply_options(environment, environment_name)?;
    loader.apply_options(options, option_name)?;
    let mut config = loader.finish()?;
    if config.test_mode {
        config.use_memory_defaults();
    }
    Ok(config)
}

/// Applies lines of a config file on top of settings, for a program that embeds the server.
///
/// # Errors
/// The first invalid line, and the reason.
pub(crate) fn apply_lines(commands: &'static CommandTable, config: Config, lines: &str) -> Result<Config, String> {
    let mut loader = Loader::new(commands, config);
    match loader.apply(lines.as_bytes(), None, 0).and_then(|()| loader.finish()) {
        Ok(config) => Ok(config),
        Err(SettingsError::Refused { text, reason, .. } | SettingsError::RefusedOption { text, reason, .. }) => {
            Err(format!("the line '{text}' is not a valid setting: {reason}"))
        }
        Err(error @ SettingsError::Unreadable { .. }) => Err(error.to_string()),
    }
}

/// Sets one setting or directive by its name, for a program that embeds the server. A list is given as in a line of a
/// config file.
///
/// # Errors
/// If there is no setting of this name, or it rejects the value.
pub(crate) fn set_by_name(
    commands: &'static CommandTable,
    config: Config,
    name: &str,
    value: &str,
) -> Result<Config, String> {
    if Setting::find(name.as_bytes()).is_none() && !is_directive(name.as_bytes()) {
        let hint = nearest_name(name.as_bytes()).map(|near| format!("; did you mean '{near}'?"));
        return Err(format!("there is no setting '{name}'{}", hint.unwrap_or_default()));
    }
    let mut loader = Loader::new(commands, config);
    let refused = |reason: String| format!("the setting '{name}' cannot be '{value}': {reason}");
    let words = if is_directive(name.as_bytes()) {
        split_words(value.as_bytes()).ok_or_else(|| refused(UNBALANCED.to_owned()))?
    } else {
        vec![value.as_bytes().to_vec()]
    };
    match loader.apply_words(name.as_bytes(), &words, 0) {
        Ok(()) => Ok(loader.config),
        Err(LineError::Here(reason) | LineError::Directory(reason)) => Err(refused(reason)),
        Err(LineError::Nested(error)) => Err(error.to_string()),
    }
}

/// Returns the name of the environment variable for the first word of a line.
fn environment_name(word: &str) -> String {
    format!("the environment variable KEYLATCH_{}", word.to_ascii_uppercase().replace('-', "_"))
}

/// Returns the command-line option for the first word of a line; a quoted word was written without dashes.
fn option_name(word: &str) -> String {
    match word.strip_prefix('"') {
        Some(word) => format!("the argument {} of the command line", word.trim_end_matches('"')),
        None => format!("the option --{word}"),
    }
}

/// Turns command-line arguments into the lines of a config file.
///
/// An argument that starts with `--` begins a line, unless it directly follows an option name: then it is the value.
/// `--save` without a value is `save ""`.
pub fn options_text(words: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut awaits_value = false;
    for (at, word) in words.iter().enumerate() {
        let Some(name) = word.strip_prefix(b"--").filter(|_| !awaits_value) else {
            text.extend_from_slice(quote(word).as_bytes());
            text.push(b' ');
            awaits_value = false;
            continue;
        };
        if !text.is_empty() {
            text.push(b'\n');
        }
        text.extend_from_slice(name);
        text.push(b' ');
        awaits_value = split_words(word).is_some_and(|parts| parts.len() == 1);
        let value_is_missing = words.get(at + 1).is_none_or(|next| next.starts_with(b"--"));
        if word.eq_ignore_ascii_case(b"--save") && value_is_missing {
            text.extend_from_slice(b"\"\"");
            awaits_value = false;
        }
    }
    text
}

fn read(path: &Path, named: &Path) -> Result<Vec<u8>, SettingsError> {
    fs::read(path).map_err(|cause| SettingsError::Unreadable { path: named.to_owned(), cause: system_text(&cause) })
}

/// Error of a line: in the line itself, of a directory that cannot be entered, which matters only if no later line
/// names another one, or in an included file.
enum LineError {
    Here(String),
    Directory(String),
    Nested(SettingsError),
}

const UNBALANCED: &str = "Unbalanced quotes in configuration line";

/// Settings while their lines are applied.
struct Loader {
    commands: &'static CommandTable,
    config: Config,
    /// True once the present part of a file had a `save` line: the first one replaces the earlier save points, the
    /// others add to them. A part ends where another file is included, and with that file.
    save_was_seen: bool,
    /// The error of the last `dir` line, if its directory cannot be entered: a later line may name another one.
    refused_dir: Option<SettingsError>,
}

impl Loader {
    fn new(commands: &'static CommandTable, config: Config) -> Self {
        Loader { commands, config, save_was_seen: false, refused_dir: None }
    }

    /// Returns the settings, or the error of the last `dir` line.
    fn finish(self) -> Result<Config, SettingsError> {
        self.refused_dir.map_or(Ok(self.config), Err)
    }

    /// Applies the lines of one text, which is that of an included file if `file` is given.
    fn apply(&mut self, text: &[u8], file: Option<&Path>, depth: usize) -> Result<(), SettingsError> {
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let refused = |reason| SettingsError::Refused {
                file: file.map(Path::to_owned),
                line: at + 1,
                text: String::from_utf8_lossy(line).into_owned(),
                reason,
            };
            self.apply_line(line, depth, refused)?;
        }
        Ok(())
    }

    /// Applies lines that do not come from a file; `name` turns their first word into the name in errors.
    fn apply_options(&mut self, text: &[u8], name: fn(&str) -> String) -> Result<(), SettingsError> {
        for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            let refused = |reason| {
                let text = String::from_utf8_lossy(line).into_owned();
                let option = name(text.split_whitespace().next().unwrap_or_default());
                SettingsError::RefusedOption { option, text, reason }
            };
            self.apply_line(line, 0, refused)?;
        }
        Ok(())
    }

    /// Applies one line; `refused` turns the reason for which it is invalid into an error with its position.
    fn apply_line(
        &mut self,
        line: &[u8],
        depth: usize,
        refused: impl FnOnce(String) -> SettingsError,
    ) -> Result<(), SettingsError> {
        let words = split_words(line).ok_or_else(|| LineError::Here(UNBALANCED.to_owned()));
        let applied = words.and_then(|words| match words.split_first() {
            Some((name, values)) => self.apply_words(name, values, depth),
            None => Ok(()),
        });
        match applied {
            Ok(()) => Ok(()),
            Err(LineError::Nested(error)) => Err(error),
            Err(LineError::Here(reason)) => Err(refused(reason)),
            Err(LineError::Directory(reason)) => {
                self.refused_dir = Some(refused(reason));
                Ok(())
            }
        }
    }

    fn apply_words(&mut self, name: &[u8], values: &[Vec<u8>], depth: usize) -> Result<(), LineError> {
        let here = |reason: &str| LineError::Here(reason.to_owned());
        if let [path] = values
            && name.eq_ignore_ascii_case(b"include")
        {
            if depth == INCLUDE_DEPTH_MAX {
                return Err(here("Too many nested includes"));
            }
            return self.include(path, depth).map_err(LineError::Nested);
        }
        match Setting::find(name) {
            Some((_, setting)) if setting.name == "dir" => return self.set_dir(setting, values),
            Some((_, setting)) => self.set(setting, values),
            None => {
                let all_channels = self.config.all_channels();
                let taken = self.config.directives.take(self.commands, name, values, all_channels);
                taken.map_err(|reason| match nearest_name(name) {
                    Some(near) => format!("{reason}\nDid you mean '{near}'?"),
                    None => reason,
                })
            }
        }
        .map_err(LineError::Here)
    }

    /// Changes the directory, unless it cannot be entered. A relative directory is relative to the one before it.
    fn set_dir(&mut self, setting: &Setting, values: &[Vec<u8>]) -> Result<(), LineError> {
        let is_absolute = matches!(values, [path] if path.starts_with(b"/"));
        if !is_absolute && let Some(error) = self.refused_dir.take() {
            return Err(LineError::Nested(error));
        }
        self.set(setting, values).map_err(if is_absolute { LineError::Directory } else { LineError::Here })?;
        self.refused_dir = None;
        Ok(())
    }

    /// Sets a setting. A list given as one argument is split like a line.
    fn set(&mut self, setting: &Setting, values: &[Vec<u8>]) -> Result<(), String> {
        if setting.name == "save" && !std::mem::replace(&mut self.save_was_seen, true) {
            self.config.change(setting, &[], SettingOrigin::Runtime)?;
        }
        match values {
            [value] if setting.kind.takes_many_words() && !value.is_empty() => {
                let words = split_words(value).ok_or(UNBALANCED)?;
                self.config.change(setting, &words, SettingOrigin::File)?;
            }
            values => self.config.change(setting, values, SettingOrigin::File)?,
        }
        self.config.note_named(setting.name);
        Ok(())
    }

    /// Applies included files. A relative path is relative to the working directory, which a `dir` line above may have
    /// changed.
    fn include(&mut self, path: &[u8], depth: usize) -> Result<(), SettingsError> {
        if !path.starts_with(b"/")
            && let Some(error) = self.refused_dir.take()
        {
            return Err(error);
        }
        let inside = os_to_bytes(self.config.dir.join(bytes_to_os(path)).as_os_str()).to_vec();
        let mut texts = Vec::new();
        for file in included_files(&inside) {
            // Redis names a file as in the line; files found by wildcards have their own names.
            let named = if file == Path::new(bytes_to_os(&inside)) { Path::new(bytes_to_os(path)) } else { &file };
            texts.push((named.to_owned(), read(&file, named)?));
        }
        // Otherwise CONFIG REWRITE could not replace the save points of another file.
        self.save_was_seen = false;
        for (named, text) in texts {
            self.apply(&text, Some(&named), depth + 1)?;
        }
        self.save_was_seen = false;
        Ok(())
    }
}

#[cfg(test)]
pub(in crate::config) mod tests {
    use tempfile::NamedTempFile;

    use super::*;
    use crate::spec::sample::commands;

    fn from_text(text: &str) -> Result<Config, String> {
        load(commands(), None, Some(text.as_bytes()), b"").map_err(|error| error.to_string())
    }

    fn options(words: &[&str]) -> String {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        String::from_utf8(options_text(&words)).expect("the tests use ASCII")
    }

    fn value(config: &Config, name: &str) -> String {
        let (_, setting) = Setting::find(name.as_bytes()).expect("a known name");
        String::from_utf8(setting.get(config)).expect("the tests use ASCII")
    }

    /// Returns a temporary file with a text.
    pub(in crate::config) fn file_of(text: &str) -> NamedTempFile {
        let file = NamedTempFile::new().expect("the temporary directory is writable");
        fs::write(&file, text).expect("it is writable");
        file
    }

    #[test]
    fn directives_are_read_as_redis_reads_them() {
        let cases = [
            ("TimeOut 5\r\n# timeout 6\n\n\ttimeout 7 \n", "timeout", "7"),
            ("LOGLEVEL Debug", "loglevel", "debug"),
            ("logfile ''", "logfile", ""),
            ("requirepass \"a b\\x41\"", "requirepass", "a bA"),
            ("save 5 5\nsave 10 10 20 20", "save", "5 5 10 10 20 20"),
            ("save 5 5\nsave ''\nsave \"1 1\"", "save", "1 1"),
            ("save 5 5\nsave", "save", ""),
            ("timeout 1", "save", "3600 1 300 100 60 10000"),
            ("save", "save", ""),
            ("shutdown-on-sigterm \"now  'force'\"", "shutdown-on-sigterm", "now force"),
            ("slave-priority 7", "replica-priority", "7"),
            ("activedefrag yes", "activedefrag", "yes"),
            ("", "save", "3600 1 300 100 60 10000"),
            ("save 5 5\nsave \"\"\nsave 6 6", "save", "6 6"),
            ("test-mode yes", "save", ""),
            ("test-mode yes", "dbfilename", ""),
            ("dir .\ntest-mode yes", "dbfilename", "dump.rdb"),
            ("save 7 7\ntest-mode yes", "dbfilename", "dump.rdb"),
            ("list-max-ziplist-value 64\nuser a on\nmy.setting x", "timeout", "0"),
            ("bind \"127.0.0.1 ::1\"", "bind", "127.0.0.1 ::1"),
            ("bind 127.0.0.1 ::1\nbind 127.0.0.1", "bind", "127.0.0.1"),
            ("bind ''", "bind", ""),
            ("bind", "bind", ""),
            (
                "client-output-buffer-limit \"normal 1 1 1\"\nclient-output-buffer-limit pubsub 2mb 1mb 60",
                "client-output-buffer-limit",
                "normal 1 1 1 slave 268435456 67108864 60 pubsub 2097152 1048576 60",
            ),
            ("dir /\ndir tmp", "dir", "/tmp"),
            ("dir /nope\ndir /dev/null\ndir /tmp\ninclude /dev/null\ndir .", "dir", "/tmp"),
        ];
        for (text, name, expected) in cases {
            assert_eq!(value(&from_text(text).expect("valid"), name), expected, "{text:?}");
        }
    }

    #[test]
    fn a_bad_line_is_named_with_its_number_and_reason() {
        let cases = [
            (
                "timeout 1\n# x\n  prot 123  \n",
                3,
                "prot 123",
                "Bad directive or wrong number of arguments\nDid you mean 'port'?",
            ),
            ("timeout", 1, "timeout", "wrong number of arguments"),
            ("timeout 1 2", 1, "timeout 1 2", "wrong number of arguments"),
            ("databases 16 # hi", 1, "databases 16 # hi", "wrong number of arguments"),
            ("port ''", 1, "port ''", "argument couldn't be parsed into an integer"),
            ("timeout \"abc", 1, "timeout \"abc", "Unbalanced quotes in configuration line"),
            ("include", 1, "include", "Bad directive or wrong number of arguments"),
            ("include a b", 1, "include a b", "Bad directive or wrong number of arguments"),
            ("\"\" 1", 1, "\"\" 1", "Bad directive or wrong number of arguments"),
            ("save 0 1", 1, "save 0 1", "Invalid save parameters"),
            ("rename-command nosuch x", 1, "rename-command nosuch x", "No such command in rename-command"),
            ("rename-command get SET", 1, "rename-command get SET", "Target command name already exists"),
            ("rename-command get", 1, "rename-command get", "Bad directive or wrong number of arguments"),
            ("user", 1, "user", "Bad directive or wrong number of arguments"),
            ("user alice on foo", 1, "user alice on foo", "Error in user declaration 'alice': Syntax error"),
            (
                "user alice on (+get",
                1,
                "user alice on (+get",
                "Error in user declaration 'alice': Unknown command or category name in ACL",
            ),
            (
                "user alice on\nUSER alice off",
                2,
                "USER alice off",
                "Error in user declaration 'alice': Duplicate user found. A user can only be defined once in config files",
            ),
            ("my.setting", 1, "my.setting", "Module config specified without value"),
            ("sentinel x", 1, "sentinel x", "sentinel directive while not in sentinel mode"),
            ("replicaof h x", 1, "replicaof h x", "Invalid master port"),
            ("timeout 1\ndir /nope\nport 1", 2, "dir /nope", "No such file or directory"),
            ("dir /nope\ndir /tmp\ndir nope", 3, "dir nope", "No such file or directory"),
            ("dir /nope\ndir tmp\ndir /tmp", 1, "dir /nope", "No such file or directory"),
            ("dir /nope\ninclude x.conf\ndir /tmp", 1, "dir /nope", "No such file or directory"),
        ];
        for (text, line, shown, reason) in cases {
            let expected = format!(
                "\n*** FATAL CONFIG FILE ERROR (keylatch {}) ***\nReading the configuration file, at line {line}\n>>> '{shown}'\n{reason}",
                env!("CARGO_PKG_VERSION")
            );
            assert_eq!(from_text(text).expect_err("refused"), expected, "{text:?}");
        }
    }

    #[test]
    fn users_add_up_with_selectors_put_together() {
        let config = from_text("user alice on +nosuch (+get ~a)\nUser 'bob' >\"a b\"").expect("valid");
        let users = &config.directives.users;
        let words = |at: usize| users[at].rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect::<Vec<_>>();
        assert_eq!(users[0].name, b"alice");
        assert_eq!(
            (words(0), words(1)),
            (vec!["on".into(), "+nosuch".into(), "(+get ~a)".into()], vec![">a b".into()])
        );
    }

    #[test]
    fn command_line_words_become_lines() {
        let cases: &[(&[&str], &str)] = &[
            (&["--port", "7000", "--bind", "*", "::1"], "port \"7000\" \nbind \"*\" \"::1\" "),
            (&["--port 7000", "--hz", "3"], "port 7000 \nhz \"3\" "),
            (&["--loglevel", "--a", "--b"], "loglevel \"--a\" \nb "),
            (&["--timeout ", "5"], "timeout  \"5\" "),
            (&["--save", "--timeout", "4"], "save \"\"\ntimeout \"4\" "),
            (&["--save"], "save \"\""),
            (&["--save", ""], "save \"\" "),
            (&["--SAVE", "60", "1"], "SAVE \"60\" \"1\" "),
            (&["--timeout"], "timeout "),
            (&["timeout", "x"], "\"timeout\" \"x\" "),
            (&["-x"], "\"-x\" "),
        ];
        for (words, expected) in cases {
            assert_eq!(options(words), *expected, "{words:?}");
        }
    }

    #[test]
    fn options_come_behind_the_file_and_are_named_in_errors() {
        let file = file_of("timeout 1\nsave 5 5\n");
        let config =
            load(commands(), Some(file.path()), Some(b"hz 20\n"), b"timeout \"2\" \nsave \"1\" \"1\" ").expect("valid");
        assert_eq!((config.timeout_s, config.hz), (2, 20));
        assert_eq!(value(&config, "save"), "5 5 1 1");
        let error = load(commands(), Some(file.path()), None, b"foo \"bar\" ").expect_err("unknown");
        let SettingsError::RefusedOption { option, text, .. } = error else { panic!("{error}") };
        assert_eq!((option.as_str(), text.as_str()), ("the option --foo", "foo \"bar\""));
        let error = load(commands(), Some(file.path()), Some(b"foo bar"), b"").expect_err("unknown");
        assert!(matches!(error, SettingsError::Refused { line: 3, .. }), "{error}");
    }

    #[test]
    fn includes_are_read_at_their_place() {
        let inner = file_of("timeout 9\nhz 11\n");
        let outer = file_of(&format!("timeout 1\ninclude \"{}\"\nhz 12", inner.path().display()));
        let config = load(commands(), Some(outer.path()), None, b"").expect("valid");
        assert_eq!((config.timeout_s, config.hz), (9, 12));
        fs::write(&inner, "timeout 9\nfoo bar\n").expect("writable");
        let error = load(commands(), Some(outer.path()), None, b"").expect_err("the included file is bad").to_string();
        let place = format!("Reading the configuration file {}, at line 2\n>>> 'foo bar'", inner.path().display());
        assert!(error.contains(&place), "{error}");
    }

    #[test]
    fn the_first_save_line_of_a_file_and_after_an_include_replaces_what_another_file_says() {
        let inner = file_of("save 1 1\nsave 2 2\n");
        let include = format!("include \"{}\"", inner.path().display());
        for (text, expected) in [
            (format!("{include}\nsave 900 1\nsave 800 2"), "900 1 800 2"),
            (format!("save 900 1\n{include}"), "1 1 2 2"),
            (format!("save 900 1\n{include}\nsave \"\""), ""),
            (format!("save 900 1\n{include}\nsave 800 2"), "800 2"),
            (include.clone(), "1 1 2 2"),
        ] {
            assert_eq!(value(&from_text(&text).expect("valid"), "save"), expected, "{text}");
        }
    }

    #[test]
    fn an_include_with_wildcards_reads_what_matches_and_may_find_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, text) in [("b.conf", "timeout 2\n"), ("a.conf", "timeout 1\nhz 11\n"), (".c.conf", "timeout 3\n")] {
            fs::write(dir.path().join(name), text).expect("writable");
        }
        let path = dir.path().display();
        let config = from_text(&format!("include {path}/*.conf\ninclude {path}/none*\n")).expect("valid");
        assert_eq!((config.timeout_s, config.hz), (2, 11));
        let config = from_text(&format!("dir {path}\ninclude ?.conf")).expect("valid");
        assert_eq!(config.timeout_s, 2);
    }

    #[test]
    fn an_include_without_end_or_file_is_an_error() {
        let file = file_of("");
        fs::write(file.path(), format!("include {}", file.path().display())).expect("writable");
        let error = load(commands(), Some(file.path()), None, b"").expect_err("endless").to_string();
        assert!(error.ends_with("Too many nested includes"), "{error}");
        assert_eq!(
            from_text("include nope.conf").expect_err("missing"),
            "Fatal error, can't open config file 'nope.conf': No such file or directory"
        );
    }
}
