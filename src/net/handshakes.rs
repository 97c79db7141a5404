//! TLS handshakes in progress, and requests to the metrics port: connections that are not clients and are counted
//! separately.
//!
//! Otherwise a peer that opens connections and sends nothing could occupy all of `maxclients` for as long as a
//! handshake may last. Here it can only drop older handshakes: when there are too many, the oldest is dropped.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Number of handshakes that are allowed whatever the number of clients.
const ALWAYS: usize = 16;

/// The handshakes of one server.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// Oldest first; the key counts all handshakes begun before.
    in_progress: Mutex<(u64, BTreeMap<u64, CancellationToken>)>,
}

/// Handshake in progress, until it is dropped.
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    is_dropped: CancellationToken,
}

impl Handshakes {
    /// Begins a handshake; drops the oldest if there are more than `places`, the number of clients that could still
    /// connect. The handshake also ends when `stop` is cancelled.
    pub(crate) fn begin(self: &Arc<Self>, places: usize, stop: &CancellationToken) -> Handshake {
        let is_dropped = stop.child_token();
        let (begun, in_progress) = &mut *self.in_progress.lock();
        *begun += 1;
        in_progress.insert(*begun, is_dropped.clone());
        if in_progress.len() > places.max(ALWAYS)
            && let Some((_, oldest)) = in_progress.pop_first()
        {
            oldest.cancel();
        }
        Handshake { all: self.clone(), number: *begun, is_dropped }
    }
}

impl Handshake {
    /// Returns the token that is cancelled when the handshake is dropped for a later one, or because the server stops.
    #[cfg(feature = "metrics")]
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.is_dropped
    }

    /// Performs the handshake.
    ///
    /// # Errors
    /// Errors of the handshake itself, or when it is dropped for a later one or because the server stops.
    pub(crate) async fn shake<T>(self, hands: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::select! {
            shaken = hands => shaken,
            () = self.is_dropped.cancelled() => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.in_progress.lock().1.remove(&self.number);
    }
}
