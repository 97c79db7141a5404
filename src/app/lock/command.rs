//! The command that runs with the lock, as a process.
//!
//! The command stays in the process group of this program, so that a terminal treats both as one job: Ctrl-C, Ctrl-Z
//! and reading work as if the command ran alone. It inherits standard streams and all open files of the caller, and
//! none of ours.
//!
//! If this program is killed, the lock is not renewed, and passes on at the end of its TTL. So the kernel is asked to
//! end the command, too. The kernel takes that request only from the child itself, before it becomes the command: hence
//! the intermediate step.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use tokio::process::Child;
use tokio::runtime::Builder;
use tokio::signal::unix::{self, SignalKind};

use crate::app::lock::claim::{Claim, HeldGrant};
use crate::app::lock::failure::exit;
use crate::app::lock::options::LockedCommand;
use crate::app::lock::shown::shown;
use crate::app::lock::words::OnLost;
use crate::app::process::Console;
use crate::text::system_text;

/// First argument of the intermediate step, which no user gives.
pub(super) const STEP: &[u8] = b"--become";

/// First argument that makes this program terminate itself by SIGINT.
pub(super) const INTERRUPTED: &[u8] = b"--interrupted";

/// This very executable, also after it was replaced by another version.
pub(super) const SELF: &str = "/proc/self/exe";

/// Starts the command.
///
/// # Errors
/// If the system starts no process.
pub(super) fn start(run: &LockedCommand, claim: &Claim, HeldGrant(fences): &HeldGrant) -> io::Result<Child> {
    let death = match run.on_lost {
        OnLost::Term => Some(Signal::TERM),
        OnLost::Kill => Some(Signal::KILL),
        OnLost::Warn => None,
    };
    let mut command = match death.filter(|_| Path::new(SELF).exists()) {
        Some(signal) => {
            let mut command = process::Command::new(SELF);
            let words = [signal.as_raw().to_string(), process::id().to_string()];
            command.arg0("keylatch").arg("lock").arg(OsStr::from_bytes(STEP)).args(words).arg("--").args(&run.command);
            command
        }
        None => {
            let mut command = process::Command::new(&run.command[0]);
            command.args(&run.command[1..]);
            command
        }
    };
    command.env("KEYLATCH_LOCK", OsStr::from_bytes(&claim.name())).env("KEYLATCH_TOKEN", &claim.token);
    let fences: Vec<String> = fences.iter().map(i64::to_string).collect();
    match fences[..] {
        [] => command.env_remove("KEYLATCH_FENCE"), // the variable of an enclosing lock
        _ => command.env("KEYLATCH_FENCE", fences.join(" ")),
    };
    tokio::process::Command::from(command).spawn()
}

/// Becomes the command: `SIGNAL PARENT -- COMMAND [ARGUMENT...]`. Returns only if that fails.
pub(super) fn become_command(words: &[OsString], console: Console) -> ExitCode {
    let number = |at: usize| words.get(at).and_then(|word| word.to_str()?.parse::<i32>().ok());
    let (Some(signal), Some(parent), Some(command)) =
        (number(0).and_then(Signal::from_named_raw), number(1), words.get(3))
    else {
        return exit::USAGE.into();
    };
    // A kernel without this request runs the command all the same.
    let _ = set_parent_process_death_signal(Some(signal));
    if getppid().map(|id| id.as_raw_pid()) != Some(parent) {
        return exit::LOST.into(); // the parent has ended before the request
    }
    let cause = process::Command::new(command).args(&words[4..]).exec();
    // The attempt has set SIGPIPE to its default action: where nobody reads standard error, the report would end this
    // process.
    let runtime = Builder::new_current_thread().enable_all().build();
    let _caught = runtime.as_ref().ok().map(|runtime| {
        let _entered = runtime.enter();
        unix::signal(SignalKind::pipe())
    });
    cannot_run(command, &cause, |text| (console.complain)(&format!("keylatch lock: {text}"))).into()
}

/// Reports that the command cannot be executed, with the status that shells use.
pub(super) fn cannot_run(command: &OsStr, cause: &io::Error, complain: impl Fn(&str)) -> u8 {
    complain(&format!("{}: {}", shown(command.as_bytes()), system_text(cause)));
    match cause.kind() {
        io::ErrorKind::NotFound => exit::NO_COMMAND,
        _ => exit::NOT_EXECUTABLE,
    }
}

/// Returns the exit status for the way in which the command has ended.
pub(super) fn status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| i32::from(exit::SIGNAL) + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::SYSTEM)
}

/// Ends this process by SIGINT, as a shell expects it of programs that Ctrl-C ends: else a loop would go on. Another
/// program does that, because this one catches the signal, which no safe code can undo. Returns if it fails.
pub(super) fn end_by_interrupt() -> ExitCode {
    let mut command = process::Command::new(SELF);
    let _ = command.arg0("keylatch").arg("lock").arg(OsStr::from_bytes(INTERRUPTED)).arg("--").exec();
    (exit::SIGNAL + INT).into()
}

/// Sends SIGINT to this process; returns if it is ignored.
pub(super) fn interrupted() -> ExitCode {
    send(process::id(), Signal::INT);
    (exit::SIGNAL + INT).into()
}

/// The number of SIGINT.
pub(super) const INT: u8 = Signal::INT.as_raw() as u8;

/// Sends a signal to a process, which may have ended.
pub(super) fn send(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, signal);
    }
}
