//! `keylatch lock`: runs a command while it holds a lock, and shows and releases locks. So shell scripts and jobs of
//! cron lock across machines as `flock` does on one. It is a client, and not part of the server.
//!
//! One task does everything: it waits for the lock, the command, signals and the renewal at once.

mod claim;
mod command;
mod connection;
mod failure;
mod holder;
mod info;
mod list;
mod messages;
mod nested;
mod options;
mod primary;
mod release;
mod run;
mod screen;
mod shown;
mod signals;
mod tree;
mod waiting;
mod watch;
mod witness;
mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use tokio::runtime::Builder;

use crate::app::process::Console;
use crate::text::system_text;

use failure::{LockFailure, exit};
use options::{LockInvocation, LockTask, ServerOptions};

/// Runs with the arguments after `lock`; returns the exit status.
pub(crate) fn run(words: Vec<Vec<u8>>, console: Console) -> ExitCode {
    match words.first().map(Vec::as_slice) {
        Some(command::STEP) => {
            let words: Vec<OsString> = words.into_iter().skip(1).map(OsString::from_vec).collect();
            return command::become_command(&words, console);
        }
        Some(command::INTERRUPTED) => return command::interrupted(),
        Some(word) if word == witness::WITNESS.as_bytes() => return witness::run(),
        _ => {}
    }
    let (server, task) = match options::read(words, |name| std::env::var_os(name)) {
        Ok(LockInvocation::Do(server, task)) => (server, task),
        Ok(LockInvocation::Print(text)) => {
            (console.say)(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            (console.complain)(&reason);
            return exit::USAGE.into();
        }
    };
    let conflict = if let LockTask::Run(run) = &task { run.conflict } else { exit::UNAVAILABLE };
    let done = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let done = runtime.block_on(perform(&server, &task, console));
            runtime.shutdown_background(); // a name that is still looked up is not waited for
            done
        }
        Err(cause) => Err(LockFailure::of_system(system_text(&cause))),
    };
    done.unwrap_or_else(|failure| {
        if !failure.reason.is_empty() {
            (console.complain)(&format!("keylatch lock: {}", failure.reason));
        }
        failure.status.unwrap_or(conflict).into()
    })
}

async fn perform(server: &ServerOptions, task: &LockTask, console: Console) -> Result<ExitCode, LockFailure> {
    match task {
        LockTask::Run(run) => run::run(server, run, console).await,
        LockTask::List { pattern, is_json } => list::list(server, pattern.as_deref(), *is_json).await,
        LockTask::Watch(name) => watch::watch(server, name.as_deref(), console).await,
        LockTask::Release { name, is_forced } => release::release(server, name, *is_forced, console).await,
    }
}
