//! `keylatch lock --watch`: follows a lock and its queue, or all locks. On a terminal it draws the screen again and
//! again; elsewhere it prints a line for each change.

use std::collections::BTreeMap;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use crate::app::lock::connection::LockConnection;
use crate::app::lock::failure::{LockFailure, RequestError};
use crate::app::lock::info::{self, Info};
use crate::app::lock::list::{print_lines, table};
use crate::app::lock::options::ServerOptions;
use crate::app::lock::primary;
use crate::app::lock::screen::{Screen, keys};
use crate::app::lock::shown::{shown, time};
use crate::app::lock::signals::SignalReceiver;
use crate::app::process::Console;
use crate::text::system_text;

/// Interval of the looks at the locks.
const EVERY: Duration = Duration::from_millis(500);

/// Locks by name, as they are now.
type Locks = Vec<(Vec<u8>, Info)>;

/// Follows a lock, or all of them.
///
/// # Errors
/// If the server does not tell, or standard output cannot be written.
pub(super) async fn watch(
    server: &ServerOptions,
    name: Option<&[u8]>,
    console: Console,
) -> Result<ExitCode, LockFailure> {
    let failed = |error| LockFailure::of(error, name.unwrap_or_default());
    let of_system = |cause: io::Error| LockFailure::of_system(system_text(&cause));
    let mut connection = Some(primary::connect(server).await.map_err(failed)?);
    // The first look tells whether the server shows its locks at all.
    let mut locks = look(&mut connection, server, name).await.map_err(failed)?;
    let (mut signals, mut resumed) =
        (SignalReceiver::new().map_err(of_system)?, signal(SignalKind::from_raw(SIGCONT)).map_err(of_system)?);
    let mut view = View::open(console);
    loop {
        view.show(name, &locks)?;
        tokio::select! {
            _ = signals.end() => break,
            () = view.until_quit() => break,
            _ = resumed.recv() => view.resume(),
            () = tokio::time::sleep(EVERY) => {}
        }
        if view.is_closed {
            break;
        }
        locks = tokio::select! {
            _ = signals.end() => break,
            () = view.until_quit() => break,
            found = look(&mut connection, server, name) => match found {
                Ok(locks) => locks,
                Err(RequestError::Unreachable(reason) | RequestError::Busy(reason)) => {
                    connection = None;
                    view.tell(&reason);
                    continue;
                }
                Err(error) => return Err(failed(error)),
            }
        };
        view.absence = None;
    }
    Ok(ExitCode::SUCCESS)
}

/// Number of the signal that a process gets when it continues after a stop.
const SIGCONT: i32 = rustix::process::Signal::CONT.as_raw();

/// Asks for the locks.
async fn look(
    connection: &mut Option<LockConnection>,
    server: &ServerOptions,
    name: Option<&[u8]>,
) -> Result<Locks, RequestError> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(primary::connect(server).await?),
    };
    match name {
        Some(name) => Ok(info::ask(open, name).await?.map(|info| (name.to_vec(), info)).into_iter().collect()),
        None => info::list(open, None).await,
    }
}

/// State of the display.
struct View {
    console: Console,
    /// The screen and its keys, on a terminal.
    screen: Option<(Screen, Receiver<u8>)>,
    /// State of each lock that was printed last, where there is no terminal.
    said: BTreeMap<Vec<u8>, String>,
    /// Reason for which the server does not answer at present.
    absence: Option<String>,
    /// True once nobody reads what is printed.
    is_closed: bool,
}

impl View {
    fn open(console: Console) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let screen = is_terminal.then(|| (Screen::open(), if io::stdin().is_terminal() { keys() } else { no_keys() }));
        View { console, screen, said: BTreeMap::new(), absence: None, is_closed: false }
    }

    /// Waits for the key that ends the display.
    async fn until_quit(&mut self) {
        while let Some((_, keys)) = &mut self.screen {
            match keys.recv().await {
                Some(b'q' | b'Q') => return,
                Some(_) => {}
                None => break,
            }
        }
        pending().await
    }

    fn resume(&self) {
        if let Some((screen, _)) = &self.screen {
            screen.listen();
        }
    }

    /// Reports once that the server is away.
    fn tell(&mut self, reason: &str) {
        if self.screen.is_none() && self.absence.is_none() {
            (self.console.complain)(&format!("keylatch lock: {reason}; trying again"));
        }
        self.absence = Some(reason.to_owned());
    }

    fn show(&mut self, name: Option<&[u8]>, locks: &Locks) -> Result<(), LockFailure> {
        match &self.screen {
            Some((screen, _)) => {
                let mut lines = match name {
                    Some(name) => queue(name, locks.first().map(|(_, info)| info)),
                    None => table(locks),
                };
                lines.push(String::new());
                lines.push(
                    self.absence.as_ref().map_or("q ends this".into(), |reason| format!("{reason}; trying again")),
                );
                screen.draw(&lines);
                Ok(())
            }
            None => self.print_changes(name, locks),
        }
    }

    fn print_changes(&mut self, name: Option<&[u8]>, locks: &Locks) -> Result<(), LockFailure> {
        let mut gone: Vec<Vec<u8>> = self.said.keys().chain(name.map(<[u8]>::to_vec).as_ref()).cloned().collect();
        gone.retain(|name| !locks.iter().any(|(held, _)| held == name));
        let now = locks.iter().map(|(name, info)| (name.clone(), state(info)));
        let mut lines = Vec::new();
        for (name, state) in now.chain(gone.into_iter().map(|name| (name, "free".to_owned()))) {
            if self.said.get(&name) != Some(&state) {
                lines.push(format!("{}: {state}", shown(&name)));
                self.said.insert(name, state);
            }
        }
        // A lock that is gone is reported once, and is new when it comes back.
        self.said.retain(|known, state| state != "free" || name == Some(known));
        self.is_closed |= !print_lines(&lines)?;
        Ok(())
    }
}

/// Returns a receiver of keys that never come.
fn no_keys() -> Receiver<u8> {
    tokio::sync::mpsc::channel(1).1
}

/// Describes a lock, without the parts that change with time.
fn state(info: &Info) -> String {
    let fence = info.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    format!("held by {}, {} waiting{fence}", info.holder(), info.waiters.len())
}

/// Returns a lock with its queue as lines.
fn queue(name: &[u8], info: Option<&Info>) -> Vec<String> {
    let name = shown(name);
    let Some(info) = info else { return vec![format!("{name} is free")] };
    let ttl = if info.ttl_ms < 0 { "no TTL".into() } else { format!("TTL {}", time(info.ttl_ms)) };
    let fence = info.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let mut lines = vec![format!("{name} is held by {}", info.held()), format!("{ttl}{fence}"), String::new()];
    lines.push(format!("{} waiting", info.waiters.len()));
    lines.extend(
        info.waiters
            .iter()
            .enumerate()
            .map(|(at, waiter)| format!("{:>4}  {:>7}  {}", at + 1, time(waiter.waited_ms), waiter.client.describe())),
    );
    lines
}
