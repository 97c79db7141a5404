//! Messages while the lock is waited for: its holder, the duration of the hold, and the place in the queue.
//!
//! The information comes over a connection of its own, because the waiting one is busy.

use std::io::{self, IsTerminal};
use std::time::Duration;

use crate::app::lock::connection::LockConnection;
use crate::app::lock::failure::RequestError;
use crate::app::lock::info::{Info, ask};
use crate::app::lock::messages::Messages;
use crate::app::lock::options::{ServerOptions, WaitVerbosity};
use crate::app::lock::primary;
use crate::app::lock::screen::columns;
use crate::app::lock::shown::{cut, shown, time};

/// Duration of a wait before anything is told.
const FIRST: Duration = Duration::from_millis(200);

/// Interval of the looks at the lock; each further [`CROWD`] of queued clients adds this pause once more, since a long
/// queue is a long reply, and all of them may ask for it.
const EVERY: Duration = Duration::from_millis(500);
const CROWD: usize = 50;

/// Reporter of a wait.
pub(super) struct WaitReport<'a> {
    server: &'a ServerOptions,
    names: &'a [Vec<u8>],
    messages: &'a Messages,
    is_told: bool,
    is_quiet: bool,
    is_terminal: bool,
    /// Last message.
    told: String,
    /// True while a line stands on the terminal that is to be replaced.
    is_line_open: bool,
}

impl<'a> WaitReport<'a> {
    /// Creates the reporter; nothing is told yet.
    pub(super) fn new(
        server: &'a ServerOptions,
        names: &'a [Vec<u8>],
        verbosity: WaitVerbosity,
        messages: &'a Messages,
    ) -> Self {
        let is_terminal = io::stderr().is_terminal();
        WaitReport {
            server,
            names,
            messages,
            is_told: verbosity == WaitVerbosity::Always || verbosity == WaitVerbosity::OnTerminal && is_terminal,
            is_quiet: verbosity == WaitVerbosity::Quiet,
            is_terminal,
            told: String::new(),
            is_line_open: false,
        }
    }

    /// Reports the wait of a connection, and never returns.
    pub(super) async fn follow(&mut self, id: Option<i64>) {
        if !self.is_told {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(FIRST).await;
        let (mut connection, mut crowds) = (None, 0);
        loop {
            if connection.is_none() {
                connection = primary::connect(self.server).await.ok();
            }
            if let Some(open) = &mut connection {
                match held(open, self.names).await {
                    Ok(Some((name, info))) => {
                        crowds = u32::try_from(info.waiters.len() / CROWD).unwrap_or(u32::MAX);
                        self.show(name, &info, id);
                    }
                    Ok(None) => {}
                    Err(RequestError::Unreachable(_) | RequestError::Busy(_)) => connection = None,
                    // A user who may not look at the lock is told nothing of it.
                    Err(_) => std::future::pending().await,
                }
            }
            tokio::time::sleep(EVERY.saturating_mul(crowds.saturating_add(1))).await;
        }
    }

    /// Reports the lock that is waited for.
    fn show(&mut self, name: &[u8], info: &Info, id: Option<i64>) {
        let place = info.waiters.iter().position(|waiter| waiter.id.is_some() && waiter.id == id);
        let place = match place {
            Some(place) => format!("place {} of {}", place + 1, info.waiters.len()),
            None => format!("{} waiting", info.waiters.len()),
        };
        let holder = info.holder();
        // Without a terminal, the age alone is no change.
        let told = format!("{holder}, {place}");
        if !self.is_terminal {
            if told != self.told {
                self.say(&format!("waiting for {}: held by {told}", shown(name)));
                self.told = told;
            }
            return;
        }
        let age = info.age_ms.map(|ms| format!(" for {}", time(ms))).unwrap_or_default();
        self.draw(&format!("waiting for {}: held by {holder}{age}, {place}", shown(name)));
    }

    /// Reports once that a lock is requested again and again.
    pub(super) fn tell_poll(&mut self) {
        let told = format!("waiting for {}", shown(&self.names[0]));
        if self.is_told && told != self.told {
            if self.is_terminal {
                self.draw(&told);
            } else {
                self.say(&told);
            }
            self.told = told;
        }
    }

    /// Reports anything else, in a line of its own.
    pub(super) fn say(&mut self, text: &str) {
        self.clear();
        if self.is_quiet {
            return;
        }
        self.messages.complain(text);
    }

    /// Returns a lock that is held and its holder, unless the reporter is quiet.
    pub(super) async fn holder(&self, connection: &mut LockConnection) -> Option<(&[u8], String)> {
        if self.is_quiet {
            return None;
        }
        held(connection, self.names).await.ok().flatten().map(|(name, info)| (name, info.held()))
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    fn draw(&mut self, text: &str) {
        let line = cut(text, columns(&io::stderr()).saturating_sub(1));
        self.messages.draw(format!("\r\x1b[K{line}"));
        self.is_line_open = true;
    }

    /// Removes the line of the terminal.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            self.messages.draw("\r\x1b[K".to_owned());
        }
    }
}

/// Asks for the first of some locks that is held.
async fn held<'n>(
    connection: &mut LockConnection,
    names: &'n [Vec<u8>],
) -> Result<Option<(&'n [u8], Info)>, RequestError> {
    for name in names {
        if let Some(info) = ask(connection, name).await?.filter(|info| !info.is_free) {
            return Ok(Some((name, info)));
        }
    }
    Ok(None)
}
