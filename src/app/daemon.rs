//! Daemonising, for `daemonize`: the process forks before it starts threads, and the parent waits for the result of the
//! startup, so that `keylatch --daemonize yes && next` runs `next` when the server accepts connections.
//!
//! Nothing here knows settings or a server. Forking needs an `unsafe` call, which a crate wraps. The safe alternative,
//! executing the binary again, would read settings twice, which is impossible for settings that come from a pipe.

use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

use fork::Fork;
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// First byte of the daemon's report: ready, followed by the text to print; or failed, followed by the reason.
const READY: u8 = b'+';
const FAILED: u8 = b'-';

/// The two processes after a fork.
pub(crate) enum ForkedProcess {
    /// The parent, which only has to print this text or report the failure of the start.
    Starter(io::Result<String>),
    /// The daemon, in the background.
    Daemon(Report),
}

/// Sender of the result of the startup to the waiting parent; if it is dropped, the parent learns that the daemon has
/// exited.
pub(crate) struct Report(PipeWriter);

impl Report {
    /// Reports that the server is ready, with the text to print.
    pub(crate) fn ready(self, text: &str) {
        self.send(READY, text);
    }

    /// Reports the reason for which the server could not start.
    pub(crate) fn failed(self, reason: &str) {
        self.send(FAILED, reason);
    }

    fn send(mut self, first: u8, text: &str) {
        // If the parent has stopped waiting, the report is not needed.
        let _ = self.0.write_all(&[&[first], text.as_bytes()].concat());
    }
}

/// Forks. Must be called while the process has a single thread; in the daemon it returns at once, in the parent when
/// the daemon has reported or exited. The daemon leads a session without a terminal and has no standard input and
/// output.
///
/// # Errors
/// If the system cannot provide another process or file descriptor.
pub(crate) fn fork() -> io::Result<ForkedProcess> {
    let (from_daemon, to_starter) = io::pipe()?;
    match fork::fork()? {
        Fork::Parent(_) => {
            // The daemon must hold the only copy of its end of the pipe.
            drop(to_starter);
            Ok(ForkedProcess::Starter(hear(from_daemon)))
        }
        Fork::Child => {
            drop(from_daemon);
            rustix::process::setsid()?;
            let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null")?;
            dup2_stdin(&nowhere)?;
            dup2_stdout(&nowhere)?;
            dup2_stderr(&nowhere)?;
            Ok(ForkedProcess::Daemon(Report(to_starter)))
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
        None => Err(io::Error::other("the server in the background exited before it was ready")),
    }
}
