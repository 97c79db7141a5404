//! The witness: a process in the group of this one, which tells whether a signal was sent to the whole group.
//!
//! A terminal sends its keys to the whole group, as `kill` may do, and a supervisor sends TERM to each process of a
//! service: then the command has got the signal already. A signal to this process alone is passed on. The kernel does
//! not tell one from the other, so the witness is asked, which gets every signal that the command gets.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, getpgrp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::app::lock::command::{SELF, send};
use crate::app::lock::failure::exit;
use crate::app::lock::signals::{PASSED_ON, SignalReceiver};

/// The first argument of the witness, which no user gives.
pub(super) const WITNESS: &str = "--witness";

/// Pause between a signal and the question to the witness: a sender signals several processes one after the other.
const PAUSE: Duration = Duration::from_millis(10);

/// Time that the witness waits for signals that its runtime has not seen yet.
const SETTLE: Duration = Duration::from_millis(1);

/// Timeout of the answer.
const LIMIT: Duration = Duration::from_secs(1);

/// The witness, as its parent sees it.
pub(super) struct Witness {
    child: Child,
    questions: ChildStdin,
    answers: ChildStdout,
    /// True once the witness has reported that it receives signals.
    is_ready: bool,
    /// True once the witness has ended, or has left a question without an answer.
    is_lost: bool,
}

impl Witness {
    /// Starts the witness; `None` where the system cannot.
    pub(super) fn start() -> Option<Self> {
        let mut command = process::Command::new(SELF);
        command
            .arg0("keylatch")
            .args(["lock", WITNESS, "--"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Command::from(command).kill_on_drop(true).spawn().ok()?;
        let (questions, answers) = (child.stdin.take()?, child.stdout.take()?);
        Some(Witness { child, questions, answers, is_ready: false, is_lost: false })
    }

    /// Returns true if the witness has got this signal, too.
    async fn has_got(&mut self, signal: Signal) -> bool {
        if self.is_lost {
            return false;
        }
        sleep(PAUSE).await;
        let answer = timeout(LIMIT, self.ask()).await;
        self.is_lost = !matches!(answer, Ok(Ok(_)));
        match answer {
            Ok(Ok(signals)) => signals & bit(signal) != 0,
            // A signal that comes before the witness is ready ends it.
            Ok(Err(_)) => {
                let ended = timeout(LIMIT, self.child.wait()).await;
                ended.is_ok_and(|ended| ended.is_ok_and(|status| status.signal() == Some(signal.as_raw())))
            }
            Err(_) => false,
        }
    }

    /// Returns the signals that the witness has got since it was asked before, by the bits of [`bit`].
    async fn ask(&mut self) -> io::Result<u8> {
        if !self.is_ready {
            self.answers.read_u8().await?;
            self.is_ready = true;
        }
        self.questions.write_all(&[0]).await?;
        self.answers.read_u8().await
    }
}

/// Passes signals on to the command, except for those that the command has got already; never returns.
pub(super) async fn pass_on(signals: &mut SignalReceiver, mut witness: Option<Witness>, command: Option<u32>) {
    let Some(command) = command else { return std::future::pending().await };
    loop {
        let signal = signals.next().await;
        let has_got = match &mut witness {
            Some(witness) if is_in_own_group(command) => witness.has_got(signal).await,
            _ => false,
        };
        if !has_got {
            send(command, signal);
        }
    }
}

/// Returns true if a process is in the process group of this one.
fn is_in_own_group(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| getpgid(Some(process)).is_ok_and(|group| group == getpgrp()))
}

/// Returns the bit that stands for a signal in an answer.
fn bit(signal: Signal) -> u8 {
    PASSED_ON.iter().position(|passed_on| *passed_on == signal).map_or(0, |at| 1 << at)
}

/// Receives signals, and answers each question with the signals received, until nobody asks any more.
pub(super) fn run() -> ExitCode {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return exit::SYSTEM.into() };
    runtime.block_on(answer()).map_or(exit::SYSTEM.into(), |()| ExitCode::SUCCESS)
}

async fn answer() -> io::Result<()> {
    let mut signals = SignalReceiver::new()?;
    let mut questions = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    say(0)?;
    while questions.read_u8().await.is_ok() {
        let mut got = 0;
        while let Ok(signal) = timeout(SETTLE, signals.next()).await {
            got |= bit(signal);
        }
        say(got)?;
    }
    Ok(())
}

fn say(answer: u8) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(&[answer])?;
    out.flush()
}
