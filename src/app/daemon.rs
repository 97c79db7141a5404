//! Going into the background, for `daemonize`: the process forks before it has a thread, and its first half waits to
//! hear how the start went, so that `keylatch --daemonize yes && next` runs `next` when the server can be used.
//!
//! What it is not: it knows no settings and no server. Forking needs an `unsafe` call, which a crate wraps; running the
//! binary again in its place would not, but would read settings a second time that can be read only once, such as those
//! that come from a pipe.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

use fork::Fork;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// What the daemon sends first: that it is ready, then what is to be printed, or that it is not, then why.
const READY: u8 = b'+';
const FAILED: u8 = b'-';

/// The two processes after a fork.
pub(crate) enum Side {
    /// The one that was started, which has nothing left to do: what to print, or why there is no server.
    Starter(io::Result<String>),
    /// The one in the background.
    Daemon(Report),
}

/// Tells the process that waits how the start went; without a word, it hears that the daemon has ended.
pub(crate) struct Report(PipeWriter);

impl Report {
    /// Says that the server is ready, and what is to be printed.
    pub(crate) fn ready(self, text: &str) {
        self.send(READY, text);
    }

    /// Says why there will be no server.
    pub(crate) fn failed(self, reason: &str) {
        self.send(FAILED, reason);
    }

    fn send(mut self, first: u8, text: &str) {
        // Whoever has stopped waiting does not want to know.
        let _ = self.0.write_all(&[&[first], text.as_bytes()].concat());
    }
}

/// Forks. Must be called while the process has one thread; in the daemon it returns at once, in the other half when the
/// daemon has reported or ended. The daemon leads a session without a terminal and has no standard input and output.
///
/// # Errors
/// When the system has no more processes or files to give.
pub(crate) fn fork() -> io::Result<Side> {
    let (from_daemon, to_starter) = io::pipe()?;
    match fork::fork()? {
        Fork::Parent(_) => {
            // The end that the daemon holds must be the only one.
            drop(to_starter);
            Ok(Side::Starter(hear(from_daemon)))
        }
        Fork::Child => {
            drop(from_daemon);
            rustix::process::setsid()?;
            let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
            dup2_stdin(&nowhere)?;
            dup2_stdout(&nowhere)?;
            dup2_stderr(&nowhere)?;
            Ok(Side::Daemon(Report(to_starter)))
        }
    }
}

fn hear(mut from_daemon: PipeReader) -> io::Result<String> {
    let mut heard = Vec::new();
    from_daemon.read_to_end(&mut heard)?;
    let text = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
    match heard.split_first() {
        Some((&READY, rest)) => Ok(text(rest)),
        Some((_, rest)) => Err(io::Error::other(text(rest))),
        None => Err(io::Error::other("the server in the background ended before it was ready")),
    }
}
