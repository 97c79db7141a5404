//! Prompt on a terminal: line editing, with history, completion and hints.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use rustix::termios::tcgetwinsize;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::app::redis_cli::hints::ServerCommands;
use crate::app::redis_cli::history::{LINES_MAX, dot_file, is_secret, save};
use crate::app::redis_cli::interrupts::Interrupts;
use crate::app::redis_cli::lines::{LineOutcome, Lines, UNBALANCED, split};
use crate::app::redis_cli::session::CliSession;
use crate::text::{split_words, system_text};

/// Width of a terminal that does not report it.
const COLUMNS: usize = 80;

/// Reads lines at a prompt and executes them.
///
/// # Errors
/// If the terminal fails.
pub(super) fn run(mut session: CliSession, version: &str) -> Result<bool, String> {
    session.interrupts = Some(Interrupts::start().map_err(|cause| system_text(&cause))?);
    let mut lines = Lines::new(session, version);
    load_preferences(&mut lines);
    let mut typed = Typed::new().map_err(|error| error.to_string())?;
    loop {
        lines.learn_commands();
        let prompt = lines.session.prompt();
        typed.show_hints(&mut lines, prompt.chars().count());
        let line = typed.editor.readline(&prompt);
        typed.keep_commands(&mut lines);
        match line {
            Ok(line) => {
                typed.remember(&line);
                if let LineOutcome::End(is_success) = lines.take(line.as_bytes()) {
                    return Ok(is_success);
                }
            }
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => return Ok(true),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Reads the preferences of the user.
fn load_preferences(lines: &mut Lines) {
    let file = dot_file("REDISCLI_RCFILE", ".redisclirc").and_then(|path| std::fs::read(path).ok());
    for line in file.unwrap_or_default().split(|byte| *byte == b'\n') {
        if let Some(text) = lines.set_preference(&split_words(line).unwrap_or_default()) {
            (lines.session.complain)(&format!(".redisclirc: {}", text.trim_end()));
        }
    }
}

/// The editor and the file of its history.
struct Typed {
    editor: Editor<Assistant, MemHistory>,
    file: Option<PathBuf>,
}

impl Typed {
    fn new() -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(LINES_MAX)?
            .history_ignore_dups(true)?
            .completion_type(CompletionType::Circular)
            // Lines that are pasted are executed one by one.
            .bracketed_paste(false)
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history)?;
        let file = dot_file("REDISCLI_HISTFILE", ".rediscli_history");
        let lines = file.as_ref().and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
        for line in String::from_utf8_lossy(&lines).lines() {
            editor.add_history_entry(line)?;
        }
        Ok(Typed { editor, file })
    }

    /// Lends the commands to the editor.
    fn show_hints(&mut self, lines: &mut Lines, prompt_width: usize) {
        let commands = std::mem::take(&mut lines.commands);
        self.editor.set_helper(Some(Assistant { commands, has_hints: lines.has_hints, prompt_width }));
    }

    fn keep_commands(&mut self, lines: &mut Lines) {
        let assistant = self.editor.helper_mut();
        lines.commands = assistant.map(|assistant| std::mem::take(&mut assistant.commands)).unwrap_or_default();
    }

    /// Adds a line to the history, unless it contains a password.
    fn remember(&mut self, line: &str) {
        let words = match split(line.as_bytes()) {
            Ok((_, words)) => words,
            // A quote that is not closed does not make a password public.
            Err(reason) if reason != UNBALANCED => return,
            Err(_) => line.split_ascii_whitespace().map(|word| word.as_bytes().to_vec()).collect(),
        };
        if words.is_empty() || is_secret(&words) {
            return;
        }
        // A history that cannot be written is lost, as with redis-cli.
        let _ = self.editor.add_history_entry(line);
        if let Some(file) = &self.file {
            let _ = save(file, self.editor.history().into_iter());
        }
    }
}

/// Completion and hints while a line is typed.
struct Assistant {
    commands: ServerCommands,
    has_hints: bool,
    prompt_width: usize,
}

impl Assistant {
    /// Returns how many columns of the first row are left after a line; after the last one the cursor would wrap.
    fn room(&self, line: &str) -> usize {
        let columns = tcgetwinsize(io::stdout()).map_or(COLUMNS, |size| usize::from(size.ws_col));
        columns.saturating_sub(self.prompt_width + line.chars().count() + 1)
    }
}

/// Hint with arguments, which are shown and not inserted.
struct Arguments(String);

impl Hint for Arguments {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = Arguments;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<Arguments> {
        let hint = self.commands.hint(line).filter(|_| self.has_hints)?;
        Some(Arguments(hint.chars().take(self.room(line)).collect()))
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let found = self.commands.complete(&line[..position]).into_iter();
        Ok((0, found.map(|line| Pair { display: line.clone(), replacement: line }).collect()))
    }
}

impl Highlighter for Assistant {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[0;90;49m{hint}\x1b[0m"))
    }
}

impl Validator for Assistant {}

impl Helper for Assistant {}
