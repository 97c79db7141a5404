//! `keylatch copy`: copies all keys with their TTLs from one server to another, as their client. So data moves from one
//! process to a cluster and back, and between keylatch, Redis and Valkey. It is not part of the server.
//!
//! While the target executes a batch, the source reads the next one.
//!
//! Invariant: a lock is never shorter at the target than at the source. Its value and its TTL are read at the same
//! instant, and the TTL counts again from when the key is written.

mod options;
mod peer;
mod source;
mod tally;
mod target;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use crate::app::process::Console;
use crate::time::clock::Clock;

use options::{CopyInvocation, CopyOptions};
use source::Source;
use tally::CopyTally;
use target::TargetServer;

/// The exit status when some keys were not copied.
const INCOMPLETE: u8 = 1;

/// The exit status when the copy could not be done.
const FAILED: u8 = 2;

/// Interval of the display of the progress, in milliseconds.
const PROGRESS_MS: u64 = 1000;

/// Runs with the arguments after `copy`; returns the exit status.
pub(crate) fn run(words: Vec<Vec<u8>>, console: Console) -> ExitCode {
    let options = match options::read(words, |name| std::env::var_os(name)) {
        Ok(CopyInvocation::Copy(options)) => *options,
        Ok(CopyInvocation::Print(text)) => {
            (console.say)(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            (console.complain)(&reason);
            return FAILED.into();
        }
    };
    let mut progress = Progress::new(&options);
    let mut tally = CopyTally::default();
    let copied = copy(&options, &mut tally, &mut progress);
    progress.clear();
    let summary = progress.summary(&tally);
    tally.failures().iter().for_each(|line| (console.complain)(line));
    match copied {
        Err(reason) => {
            let report = if progress.has_begun { format!("{reason}\nUntil then: {summary}") } else { reason };
            (console.complain)(&report);
            FAILED.into()
        }
        Ok(()) => {
            (console.say)(&summary);
            if tally.failures().is_empty() { ExitCode::SUCCESS } else { INCOMPLETE.into() }
        }
    }
}

/// Copies all databases.
fn copy(options: &CopyOptions, tally: &mut CopyTally, progress: &mut Progress) -> Result<(), String> {
    let mut source = Source::connect(options)?;
    let mut target = TargetServer::connect(options)?;
    for database in source.databases(&options.from)? {
        tally.begin(database);
        source.open(database)?;
        match target.select(options.to.database.unwrap_or(database))? {
            Some(refusal) => tally.without_database(&refusal),
            None => copy_database(&mut source, &mut target, tally, progress)?,
        }
    }
    Ok(())
}

/// Copies the selected database.
fn copy_database(
    source: &mut Source,
    target: &mut TargetServer,
    tally: &mut CopyTally,
    progress: &mut Progress,
) -> Result<(), String> {
    let mut held = Vec::new();
    loop {
        let keys = source.next_keys()?;
        source.request(&keys)?;
        target.put(held, tally)?;
        progress.show(tally);
        if keys.is_empty() {
            return Ok(());
        }
        held = source.take(keys, tally)?;
    }
}

/// Display of the progress on a terminal.
struct Progress {
    clock: Clock,
    begun_ms: u64,
    shown_ms: u64,
    verb: &'static str,
    is_terminal: bool,
    /// True once a first batch was copied.
    has_begun: bool,
}

impl Progress {
    fn new(options: &CopyOptions) -> Self {
        let clock = Clock::system();
        let begun_ms = clock.now().mono_ms();
        let verb = if options.dry_run { "Would copy" } else { "Copied" };
        let is_terminal = io::stderr().is_terminal();
        Progress { clock, begun_ms, shown_ms: begun_ms, verb, is_terminal, has_begun: false }
    }

    fn summary(&self, tally: &CopyTally) -> String {
        tally.summary(self.verb, self.clock.now().mono_ms() - self.begun_ms)
    }

    /// Shows the progress, if the interval is over.
    fn show(&mut self, tally: &CopyTally) {
        self.has_begun = true;
        let now_ms = self.clock.now().mono_ms();
        if self.is_terminal && now_ms >= self.shown_ms + PROGRESS_MS {
            self.shown_ms = now_ms;
            draw(&self.summary(tally));
        }
    }

    /// Removes the line of the progress.
    fn clear(&self) {
        if self.shown_ms > self.begun_ms {
            draw("");
        }
    }
}

/// Replaces the line of the terminal.
fn draw(text: &str) {
    let mut out = io::stderr().lock();
    // A terminal that has gone shows nothing.
    let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
}
