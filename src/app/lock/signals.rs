//! Signals: those that are passed on to the command, and those that end a wait.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

/// Signals that are passed on to the command.
pub(super) const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Receiver of signals. Signals that the parent has set to be ignored, as `nohup` does, stay ignored, here and in the
/// command.
pub(super) struct SignalReceiver {
    listeners: Vec<(Signal, unix::Signal)>,
    /// Listener for SIGCHLD: a parent that ignores the signal must not keep us from learning how the command ended.
    _child: unix::Signal,
}

impl SignalReceiver {
    /// Begins to receive signals.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = PASSED_ON.iter().filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0);
        let listen = |wanted: &Signal| Ok((*wanted, signal(SignalKind::from_raw(wanted.as_raw()))?));
        let listeners = wanted.map(listen).collect::<io::Result<_>>()?;
        Ok(SignalReceiver { listeners, _child: signal(SignalKind::child())? })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, listener) in &mut self.listeners {
                if listener.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a signal that ends a wait; the others mean something to the command only, which does not run yet.
    pub(super) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::USR1 | Signal::USR2 => {}
                signal => return signal,
            }
        }
    }
}

/// Returns the signals that are ignored, by the bits of their numbers less one; none if the system does not report
/// them.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
