//! Ctrl-C while a command runs: it ends the program, or only the messages of MONITOR and SUBSCRIBE.
//!
//! While a line is edited, Ctrl-C is a key and no signal.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::{process, thread};

use parking_lot::Mutex;
use socket2::SockRef;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Handler of the signal, in a thread of its own.
pub(super) struct Interrupts(Arc<Mutex<Effect>>);

/// Effect of the signal.
enum Effect {
    /// The signal ends the program.
    Exit,
    /// The signal closes this connection.
    Close(OwnedFd),
    /// The signal has closed the connection.
    Closed,
}

impl Interrupts {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn start() -> io::Result<Self> {
        let effect = Arc::new(Mutex::new(Effect::Exit));
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let mut interrupts = {
            let _context = runtime.enter();
            signal(SignalKind::interrupt())?
        };
        let shared = effect.clone();
        thread::Builder::new().name("interrupts".into()).spawn(move || {
            while runtime.block_on(interrupts.recv()).is_some() {
                shared.lock().happen();
            }
        })?;
        Ok(Interrupts(effect))
    }

    /// Makes the signal close the connection instead of ending the program.
    pub(super) fn may_close(&self, socket: BorrowedFd<'_>) {
        if let Ok(socket) = socket.try_clone_to_owned() {
            *self.0.lock() = Effect::Close(socket);
        }
    }

    /// Makes the signal end the program again; returns true if it has closed the connection.
    pub(super) fn has_closed(&self) -> bool {
        matches!(std::mem::replace(&mut *self.0.lock(), Effect::Exit), Effect::Closed)
    }
}

impl Effect {
    fn happen(&mut self) {
        match std::mem::replace(self, Effect::Closed) {
            Effect::Exit => process::exit(1),
            // A connection that has ended already needs no shutdown.
            Effect::Close(socket) => drop(SockRef::from(&socket).shutdown(std::net::Shutdown::Both)),
            Effect::Closed => {}
        }
    }
}
