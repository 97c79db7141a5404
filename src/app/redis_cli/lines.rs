//! Lines of commands, from standard input or the prompt: repetitions, and lines that are no commands of the server.

use std::io::{self, BufRead};

use crate::app::redis_cli::help;
use crate::app::redis_cli::hints::ServerCommands;
use crate::app::redis_cli::output::{is, print, say};
use crate::app::redis_cli::session::CliSession;
use crate::app::redis_cli::show::ReplyForm;
use crate::dial::Address;
use crate::text::{split_words, system_text};
use crate::time::clock::Clock;

/// Duration from which on the time that a command took is printed, in milliseconds.
const SLOW_MS: u64 = 500;

/// Consequence of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineOutcome {
    /// The next line.
    Line,
    /// The end; true for exit status 0.
    End(bool),
}

/// Executor of lines.
pub(super) struct Lines {
    /// The session that sends the commands.
    pub session: CliSession,
    /// Known commands of the server.
    pub commands: ServerCommands,
    /// True if arguments are shown while a command is typed.
    pub has_hints: bool,
    version: String,
    clock: Clock,
}

/// Sends the lines of standard input.
///
/// # Errors
/// If standard input fails.
pub(super) fn run(session: CliSession, version: &str) -> Result<bool, String> {
    let mut lines = Lines::new(session, version);
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(|cause| system_text(&cause))?;
        if let LineOutcome::End(is_success) = lines.take(&line) {
            return Ok(is_success);
        }
    }
    Ok(true)
}

/// Error for a line with unbalanced quotes.
pub(super) const UNBALANCED: &str = "Invalid argument(s)\n";

/// Splits a line into words and the number of repetitions; `Err` has the error text.
pub(super) fn split(line: &[u8]) -> Result<(Option<i64>, Vec<Vec<u8>>), &'static str> {
    let Some(mut words) = split_words(line) else { return Err(UNBALANCED) };
    if words.len() < 2 || !is_integer(&words[0]) {
        return Ok((None, words));
    }
    let times = std::str::from_utf8(&words[0]).ok().and_then(|word| word.parse().ok()).filter(|times| *times > 0);
    words.remove(0);
    times.map(|times| (Some(times), words)).ok_or("Invalid redis-cli repeat command option value.\n")
}

fn is_integer(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").or(word.strip_prefix(b"+")).unwrap_or(word);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

impl Lines {
    /// Creates the executor of a session's lines.
    pub(super) fn new(session: CliSession, version: &str) -> Self {
        let commands = ServerCommands::default();
        Lines { session, commands, has_hints: true, version: version.into(), clock: Clock::system() }
    }

    /// Executes a line.
    pub(super) fn take(&mut self, line: &[u8]) -> LineOutcome {
        match split(line) {
            Ok((_, words)) if words.is_empty() => LineOutcome::Line,
            Ok((times, words)) => self.execute(times, &words),
            // Where standard output is closed, the next command finds out.
            Err(text) => {
                let _ = print(text.as_bytes());
                LineOutcome::Line
            }
        }
    }

    /// Executes a command, `times` times if the line has a number. After a number, everything but `help` is sent to the
    /// server.
    fn execute(&mut self, times: Option<i64>, words: &[Vec<u8>]) -> LineOutcome {
        let name = words[0].to_ascii_lowercase();
        if let Some(times) = times.filter(|_| !matches!(&name[..], b"help" | b"?")) {
            return self.send(times, words);
        }
        let shown = match (&name[..], words) {
            (b"help" | b"?", [_, topic @ ..]) => self.help_text(topic),
            (b"quit" | b"exit", _) => return LineOutcome::End(true),
            ([b':', ..], _) => self.set_preference(words).unwrap_or_default(),
            (b"restart", _) => "Use 'restart' only in Lua debugging mode.\n".into(),
            (b"clear", [_]) => "\x1b[H\x1b[2J".into(),
            (b"connect", [_, host, port]) => {
                let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok()).unwrap_or_default();
                self.session.options.address = Address::Tcp(String::from_utf8_lossy(host).into_owned(), port);
                self.connect();
                return LineOutcome::Line;
            }
            _ => return self.send(1, words),
        };
        // Where standard output is closed, the next command finds out.
        let _ = print(shown.as_bytes());
        LineOutcome::Line
    }

    /// Prints the help on a topic.
    ///
    /// # Errors
    /// If standard output fails.
    pub(super) fn help(&mut self, topic: &[Vec<u8>]) -> Result<bool, String> {
        let text = self.help_text(topic);
        say(&text).map(|()| true)
    }

    fn help_text(&mut self, topic: &[Vec<u8>]) -> String {
        self.learn_commands();
        help::text(topic, &self.commands, &self.version)
    }

    fn connect(&mut self) -> bool {
        let connected = self.session.connect();
        let is_connected = connected.is_ok();
        connected.map_or_else(|reason| (self.session.complain)(&reason), drop);
        is_connected
    }

    fn send(&mut self, times: i64, words: &[Vec<u8>]) -> LineOutcome {
        if !self.session.is_connected() && !self.connect() {
            return LineOutcome::Line;
        }
        let began = self.clock.now();
        match self.session.repeat(words, times) {
            Ok(is_success) if !is_success || self.session.is_unread => return LineOutcome::End(is_success),
            Ok(_) => {}
            Err(reason) => (self.session.complain)(&reason),
        }
        let took_ms = self.clock.now().ms_since(began.mono_us());
        if took_ms >= SLOW_MS && self.session.options.format.form == ReplyForm::Typed {
            let _ = print(format!("({:.2}s)\n", took_ms as f64 / 1000.0).as_bytes());
        }
        LineOutcome::Line
    }

    /// Asks the server for its commands, if it may answer now.
    pub(super) fn learn_commands(&mut self) {
        if std::mem::take(&mut self.session.may_know_commands) && self.commands.is_empty() {
            let docs = self.session.ask(&[b"COMMAND".to_vec(), b"DOCS".to_vec()]);
            self.commands = docs.map(|docs| ServerCommands::of(&docs)).unwrap_or_default();
        }
    }

    /// Changes a preference; returns an error text if that is not possible.
    pub(super) fn set_preference(&mut self, words: &[Vec<u8>]) -> Option<String> {
        let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        match words {
            [set, name, ..] if is(set, b":set") && is(name, b"hints") => self.has_hints = true,
            [set, name, ..] if is(set, b":set") && is(name, b"nohints") => self.has_hints = false,
            [set, name, ..] if is(set, b":set") => {
                return Some(format!("unknown redis-cli preference '{}'\n", text(name)));
            }
            [word, ..] => return Some(format!("unknown redis-cli internal command '{}'\n", text(word))),
            [] => {}
        }
        None
    }
}
