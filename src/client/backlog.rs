//! How many bytes of replies wait for all clients together, and how many may wait for one.
//!
//! A client that sends requests and reads no replies is not read from any more once too much waits for it: what it has
//! sent stays in its socket, and nothing is lost. How much that is depends on how much memory others take in the same
//! way: a client may have waiting what is left of a common limit. So one client gets half of [`LIMIT`], and `n` of them
//! a share of `LIMIT / (n + 1)` each, without anybody dividing it among them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many bytes of replies may wait for all clients together.
const LIMIT: usize = 512 * 1024 * 1024;
/// How many may wait for a client whatever the others do, in bytes.
pub(crate) const SHARE_MIN: usize = 64 * 1024;
/// Clients whose requests wait for that check again each time the sum has fallen by this many bytes.
const RETRY_STEP: usize = 1024 * 1024;

/// Sums up the replies that wait.
#[derive(Default)]
pub struct Backlog {
    waiting: AtomicUsize,
    held_up: AtomicUsize,
}

impl Backlog {
    /// Takes note that `bytes` wait for a client instead of those reported before. Returns whether clients that are held
    /// up should look again.
    pub fn report(&self, before: usize, bytes: usize) -> bool {
        let old = self.waiting.fetch_add(bytes.wrapping_sub(before), Relaxed);
        let new = old.wrapping_add(bytes.wrapping_sub(before));
        new / RETRY_STEP < old / RETRY_STEP && self.held_up.load(Relaxed) > 0
    }

    /// Returns whether a client for which `waiting` bytes wait, of which `reported` are reported, may go on.
    #[inline]
    pub fn may_go_on(&self, waiting: usize, reported: usize) -> bool {
        waiting < SHARE_MIN || waiting < self.most(reported)
    }

    /// Returns how many bytes may wait for a client of which `reported` are reported.
    fn most(&self, reported: usize) -> usize {
        let of_others = self.waiting.load(Relaxed).saturating_sub(reported);
        (LIMIT.saturating_sub(of_others) / 2).max(SHARE_MIN)
    }

    /// Takes note that a client is held up, or no more.
    pub fn note_held_up(&self, is_held_up: bool) {
        match is_held_up {
            true => self.held_up.fetch_add(1, Relaxed),
            false => self.held_up.fetch_sub(1, Relaxed),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets clients that read nothing take what they may, in turn and in pieces; returns what each has waiting then.
    fn filled(clients: usize) -> usize {
        const PIECE: usize = 16 * 1024;
        let backlog = Backlog::default();
        let mut waiting = vec![0; clients];
        loop {
            let before = waiting.clone();
            for own in &mut waiting {
                if backlog.may_go_on(*own, *own) {
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
    fn who_is_held_up_looks_again_when_the_sum_falls() {
        let backlog = Backlog::default();
        assert!(!backlog.report(0, 300 << 20));
        assert!(!backlog.report(300 << 20, 200 << 20), "nobody is held up");
        backlog.note_held_up(true);
        assert!(!backlog.report(200 << 20, 201 << 20));
        assert!(backlog.report(201 << 20, 199 << 20));
        assert!(!backlog.report(199 << 20, (199 << 20) - 1) || (199 << 20) % RETRY_STEP == 0);
        backlog.note_held_up(false);
        assert!(!backlog.report((199 << 20) - 1, 0));
    }
}
