//! Back-pressure across clients: the pending replies of all clients together, and the allowance of each.
//!
//! A client that sends requests but reads no replies is not read from any more once too many of its replies are
//! pending: further requests stay in its socket, and nothing is lost. The allowance of a client is what remains of a
//! common limit. So one client gets half of [`LIMIT`], and each of `n` clients gets `LIMIT / (n + 1)`, without a
//! central division.

use crate::client::sync::{AtomicUsize, Ordering, Ordering::Relaxed, fence};

/// The limit of pending replies of all clients together, in bytes.
const LIMIT: usize = 512 * 1024 * 1024;
/// The minimum allowance of a client, in bytes, whatever the others use.
pub(crate) const SHARE_MIN: usize = 64 * 1024;
/// Throttled clients check again each time the sum has fallen by this many bytes.
const RETRY_STEP: usize = 1024 * 1024;

/// The sum of the pending replies of all clients.
///
/// A client is registered as throttled before it looks at the sum, and a client that lowers the sum looks for throttled
/// clients afterwards, with a fence in between: one of the two sees the other, and no client waits for ever.
/// `tests/loom` checks every interleaving.
pub struct Backlog {
    waiting: AtomicUsize,
    throttled: AtomicUsize,
}

impl Default for Backlog {
    fn default() -> Self {
        Backlog { waiting: AtomicUsize::new(0), throttled: AtomicUsize::new(0) }
    }
}

impl Backlog {
    /// Records that a client has `bytes` pending; `before` is its previous report. Returns whether throttled clients
    /// should check again.
    pub fn report(&self, before: usize, bytes: usize) -> bool {
        let old = self.waiting.fetch_add(bytes.wrapping_sub(before), Relaxed);
        let new = old.wrapping_add(bytes.wrapping_sub(before));
        if new / RETRY_STEP >= old / RETRY_STEP {
            return false;
        }
        fence(Ordering::SeqCst);
        self.throttled.load(Relaxed) > 0
    }

    /// Returns true if a client with `waiting` pending bytes, of which `reported` are reported, may be read from.
    #[inline]
    pub fn may_continue(&self, waiting: usize, reported: usize) -> bool {
        waiting < SHARE_MIN || waiting < self.allowance(reported)
    }

    /// Returns the allowance in bytes of a client that has reported `reported` bytes.
    fn allowance(&self, reported: usize) -> usize {
        let of_others = self.waiting.load(Relaxed).saturating_sub(reported);
        (LIMIT.saturating_sub(of_others) / 2).max(SHARE_MIN)
    }

    /// Records that a client is throttled, or not any more. A throttled client must look at the sum afterwards.
    pub fn record_throttled(&self, is_throttled: bool) {
        if is_throttled {
            self.throttled.fetch_add(1, Relaxed);
        } else {
            self.throttled.fetch_sub(1, Relaxed);
        }
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(feature = "loom")))] // not where the atomics are loom's
mod tests {
    use super::*;

    /// Fills the allowances of clients that read nothing, in small steps and in rotation; returns the pending bytes of
    /// each at the end.
    fn filled(clients: usize) -> usize {
        const PIECE: usize = 16 * 1024;
        let backlog = Backlog::default();
        let mut waiting = vec![0; clients];
        loop {
            let before = waiting.clone();
            for own in &mut waiting {
                if backlog.may_continue(*own, *own) {
                    backlog.report(*own, *own + PIECE);
                    *own += PIECE;
                }
            }
            if waiting == before {
                return waiting[0];
            }
        }
    }

    #[test]
    fn one_client_gets_half_and_many_share_it_all() {
        for (clients, share) in [(1, LIMIT / 2), (3, LIMIT / 4), (20, LIMIT / 21), (20_000, SHARE_MIN)] {
            let filled = filled(clients);
            assert!(filled >= share && filled <= share + 32 * 1024, "{filled} for each of {clients}");
        }
    }

    #[test]
    fn in_all_it_is_the_limit_and_a_share_and_a_reply_of_each_client() {
        // As many clients as in the report of 1.7 GB, and the replies that they asked for.
        const REPLY: usize = 21 * 1024 * 1024;
        let backlog = Backlog::default();
        let mut waiting = [0; 60];
        for _ in 0..10 {
            for own in &mut waiting {
                if backlog.may_continue(*own, *own) {
                    backlog.report(*own, *own + REPLY);
                    *own += REPLY;
                }
            }
        }
        let all: usize = waiting.iter().sum();
        assert!(all > LIMIT && all <= LIMIT + waiting.len() * (SHARE_MIN + REPLY), "{all}");
    }

    #[test]
    fn who_is_held_up_looks_again_when_the_sum_falls() {
        let backlog = Backlog::default();
        assert!(!backlog.report(0, 300 << 20));
        assert!(!backlog.report(300 << 20, 200 << 20), "no client is throttled");
        backlog.record_throttled(true);
        assert!(!backlog.report(200 << 20, 201 << 20));
        assert!(backlog.report(201 << 20, 199 << 20));
        assert!(!backlog.report(199 << 20, (199 << 20) - 1) || (199 << 20) % RETRY_STEP == 0);
        backlog.record_throttled(false);
        assert!(!backlog.report((199 << 20) - 1, 0));
    }
}
