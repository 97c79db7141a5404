//! Execution of a command while the lock is held.

use std::future::pending;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::time::timeout;

use crate::app::lock::claim::Claim;
use crate::app::lock::command::{self, cannot_run};
use crate::app::lock::failure::{LockFailure, exit};
use crate::app::lock::holder::{JobLock, Release, ms};
use crate::app::lock::messages::Messages;
use crate::app::lock::options::{LockedCommand, ServerOptions};
use crate::app::lock::shown::time;
use crate::app::lock::signals::SignalReceiver;
use crate::app::lock::tree::Tree;
use crate::app::lock::waiting::WaitReport;
use crate::app::lock::witness::{Witness, pass_on};
use crate::app::lock::words::OnLost;
use crate::app::process::Console;
use crate::text::system_text;

/// Interval of the looks whether all processes of the command have ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Acquires the lock, runs the command, and releases the lock; returns the exit status.
///
/// # Errors
/// The reason for which the command has not run.
pub(super) async fn run(
    server: &ServerOptions,
    run: &LockedCommand,
    console: Console,
) -> Result<ExitCode, LockFailure> {
    let messages = Messages::start(console).map_err(|cause| LockFailure::of_system(system_text(&cause)))?;
    let done = run_with_messages(server, run, &messages).await;
    messages.finish();
    done.map(End::exit_code)
}

/// End of the program.
enum End {
    /// Exit with a status.
    Status(u8),
    /// Exit as a program that a signal has ended, with the status of shells for it.
    Signal(u8),
}

impl End {
    /// Returns the exit status, unless this process ends as one that Ctrl-C has ended.
    fn exit_code(self) -> ExitCode {
        match self {
            End::Signal(status) if status == exit::SIGNAL + command::INT => command::end_by_interrupt(),
            End::Signal(status) | End::Status(status) => status.into(),
        }
    }
}

async fn run_with_messages(
    server: &ServerOptions,
    run: &LockedCommand,
    messages: &Messages,
) -> Result<End, LockFailure> {
    let mut signals = SignalReceiver::new().map_err(|cause| LockFailure::of_system(system_text(&cause)))?;
    let claim = Claim::new(run.names.clone(), run.mode, ms(run.ttl), run.meta.clone());
    let claim = claim.map_err(LockFailure::of_system)?;
    let mut holder = JobLock::new(server, claim, messages);
    let mut waiting = WaitReport::new(server, &run.names, run.verbosity, messages);
    let acquired = tokio::select! {
        biased;
        signal = signals.end() => Err(signal),
        acquired = holder.acquire(run, &mut waiting) => Ok(acquired),
    };
    waiting.clear();
    match acquired {
        Ok(Ok(())) => {}
        Ok(Err(mut failure)) => {
            match failure.status {
                // The lock may be ours, if the last reply did not arrive.
                Some(_) => holder.leave().await,
                None if waiting.is_quiet() => failure.reason.clear(),
                None => {}
            }
            return Err(failure);
        }
        Err(signal) => {
            holder.leave().await;
            return Ok(End::Signal(exit::SIGNAL + u8::try_from(signal.as_raw()).unwrap_or(0)));
        }
    }
    let witness = Witness::start();
    let tree = Tree::new(); // without the witness
    let mut child = match command::start(run, holder.claim(), holder.grant()) {
        Ok(child) => child,
        Err(cause) => {
            holder.release(Duration::ZERO).await;
            return Ok(End::Status(cannot_run(&run.command[0], &cause, |text| messages.complain(text))));
        }
    };
    let passing = pass_on(&mut signals, witness, child.id());
    let (status, is_lost) = accompany(&mut child, tree, &mut holder, passing, run, messages).await?;
    if is_lost && run.names.len() > 1 {
        holder.release(Duration::ZERO).await; // the other locks, which are still held
    }
    let is_lost = is_lost || give_back(&mut holder, run, messages).await;
    Ok(if is_lost && run.on_lost != OnLost::Warn {
        End::Status(exit::LOST)
    } else if status.code().is_some() {
        End::Status(command::status(status))
    } else {
        End::Signal(command::status(status))
    })
}

/// Waits for the end of the command while the lock is kept; returns the command's status, and true if the lock was lost
/// before.
async fn accompany(
    child: &mut Child,
    tree: Tree,
    holder: &mut JobLock<'_>,
    passing: impl Future<Output = ()>,
    run: &LockedCommand,
    messages: &Messages,
) -> Result<(ExitStatus, bool), LockFailure> {
    let (mut tree, mut is_lost) = (Some(tree), false);
    let (mut keep, mut passing) = (pin!(holder.keep()), pin!(passing));
    let mut ending = pin!(None);
    let mut status = None;
    loop {
        tokio::select! {
            biased;
            ended = child.wait(), if status.is_none() => {
                status = Some(ended.map_err(|cause| LockFailure::of_system(system_text(&cause)))?);
            }
            () = &mut passing, if status.is_none() => {}
            loss = &mut keep, if !is_lost => {
                is_lost = true;
                let follows = match run.on_lost {
                    OnLost::Warn => "the command goes on without it",
                    _ => "ending the command",
                };
                messages.complain(&format!("{loss}: {follows}"));
                if run.on_lost != OnLost::Warn {
                    ending.set(tree.take().map(|tree| end(run, tree)));
                }
            }
            () = done(ending.as_mut().as_pin_mut()) => ending.set(None),
        }
        if let Some(status) = status
            && ending.is_none()
        {
            return Ok((status, is_lost));
        }
    }
}

/// Ends the command and all processes that it has started.
async fn end(run: &LockedCommand, mut tree: Tree) {
    tree.adopt();
    if run.on_lost == OnLost::Term {
        tree.send(Signal::TERM);
        if timeout(run.kill_after, gone(&tree)).await.is_ok() {
            return;
        }
    }
    tree.send(Signal::KILL);
}

/// Waits until no process of the tree runs: by polling, because the system reports only the end of children.
async fn gone(tree: &Tree) {
    while !tree.is_empty() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits for a future; never returns if there is none.
async fn done(what: Option<impl Future<Output = ()>>) {
    match what {
        Some(what) => what.await,
        None => pending().await,
    }
}

/// Releases the lock, or leaves it to its TTL; returns true if it turns out to have been lost.
async fn give_back(holder: &mut JobLock<'_>, run: &LockedCommand, messages: &Messages) -> bool {
    match holder.release(run.at_least).await {
        Release::Done => false,
        Release::Lost(name) => {
            messages.complain(&format!("{name} was lost before the command ended"));
            true
        }
        Release::Unknown(reason) => {
            let ttl = time(i64::try_from(ms(run.ttl)).unwrap_or(i64::MAX));
            messages.complain(&format!("{reason}: it ends within {ttl}"));
            false
        }
    }
}
