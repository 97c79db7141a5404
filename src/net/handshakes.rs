//! TLS handshakes under way: connections that are no clients yet, counted apart from them.
//!
//! A peer that opens connections and says nothing would otherwise take all the places of `maxclients` for as long as a
//! handshake may last. Here it can only drop handshakes that began before its own: when there are too many, the oldest ends.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// How many handshakes may be under way however many clients there are.
const ALWAYS: usize = 16;

/// Counts the handshakes of one server.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// Oldest first; each by the number of all that began before it.
    under_way: Mutex<(u64, BTreeMap<u64, CancellationToken>)>,
}

/// One handshake under way, until this is dropped.
pub(crate) struct Handshake {
    all: Arc<Handshakes>,
    number: u64,
    is_dropped: CancellationToken,
}

impl Handshakes {
    /// Begins a handshake; drops the oldest if there are more than `places` then, which are those that clients leave free.
    /// It also ends when `stop` says so.
    pub(crate) fn begin(self: &Arc<Self>, places: usize, stop: &CancellationToken) -> Handshake {
        let is_dropped = stop.child_token();
        let (begun, under_way) = &mut *self.under_way.lock();
        *begun += 1;
        under_way.insert(*begun, is_dropped.clone());
        if under_way.len() > places.max(ALWAYS)
            && let Some((_, oldest)) = under_way.pop_first()
        {
            oldest.cancel();
        }
        Handshake { all: self.clone(), number: *begun, is_dropped }
    }
}

impl Handshake {
    /// Shakes hands.
    ///
    /// # Errors
    /// Those of the handshake, and when it is dropped for a later one or the server stops.
    pub(crate) async fn shake<T>(self, hands: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        tokio::select! {
            shaken = hands => shaken,
            () = self.is_dropped.cancelled() => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.under_way.lock().1.remove(&self.number);
    }
}
