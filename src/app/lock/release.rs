//! `keylatch lock --release`: takes a lock away from its holder, after a look at the holder.
//!
//! Invariant: only the lock that was shown is released, not one that somebody else has acquired since.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use crate::app::lock::claim::RELEASE;
use crate::app::lock::connection::integer;
use crate::app::lock::failure::{LockFailure, RequestError, exit};
use crate::app::lock::info;
use crate::app::lock::options::ServerOptions;
use crate::app::lock::primary;
use crate::app::lock::shown::shown;
use crate::app::process::Console;

/// Releases a lock, after the user was asked unless it is forced.
///
/// # Errors
/// If the server refuses, or there is no terminal to ask on.
pub(super) async fn release(
    server: &ServerOptions,
    name: &[u8],
    is_forced: bool,
    console: Console,
) -> Result<ExitCode, LockFailure> {
    if !is_forced && !io::stdin().is_terminal() {
        let reason = "there is no terminal to ask on whether to release the lock: see --force".into();
        return Err(LockFailure { reason, status: Some(exit::USAGE) });
    }
    let failed = |error| LockFailure::of(error, name);
    let mut connection = primary::connect(server).await.map_err(failed)?;
    let safe = shown(name);
    let (token, held, has_locks) = match info::ask(&mut connection, name).await {
        Ok(None) => return Ok(nothing(&format!("{safe} is not held"), console)),
        Ok(Some(info)) => (info.token.clone(), info.held(), true),
        Err(RequestError::UnknownCommand) => {
            let token = connection.ask(&[b"GET", name]).await.map_err(failed)?.as_bytes().map(<[u8]>::to_vec);
            match token {
                None => return Ok(nothing(&format!("{safe} is not held"), console)),
                token => (token, "another".into(), false),
            }
        }
        Err(error) => return Err(failed(error)),
    };
    let Some(token) = token else {
        let reason = format!("{safe} is held by several ({held}): each has a token of its own");
        return Err(LockFailure { reason, status: Some(exit::REFUSED) });
    };
    if !is_forced && !confirmed(&format!("Release {safe}, held by {held}? [y/N] ")) {
        return Ok(nothing("not released", console));
    }
    let reply = if has_locks {
        connection.ask(&[b"LOCK.RELEASE", name, &token]).await
    } else {
        connection.ask(&[b"EVAL", RELEASE.as_bytes(), b"1", name, &token]).await
    };
    match reply.map_err(failed).map(|reply| integer(&reply))? {
        Some(1) => Ok(ExitCode::SUCCESS),
        _ => Ok(nothing(&format!("{safe} has passed on meanwhile"), console)),
    }
}

/// Reports that nothing was released.
fn nothing(reason: &str, console: Console) -> ExitCode {
    (console.complain)(&format!("keylatch lock: {reason}"));
    ExitCode::FAILURE
}

/// Asks on the terminal.
fn confirmed(question: &str) -> bool {
    let mut out = io::stderr().lock();
    let mut answer = String::new();
    let asked = out.write_all(question.as_bytes()).and_then(|()| out.flush());
    asked.and_then(|()| io::stdin().read_line(&mut answer)).is_ok()
        && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
