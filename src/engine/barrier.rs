//! Barriers: a read of the cluster tells a revision that includes everything which was acknowledged before it was begun. Who
//! reads the mirror waits until it has that revision. Those that come while such a read is on the way share the next one.

use crate::engine::cluster::Revision;

/// Those that wait for barriers.
pub(super) struct Barriers<W> {
    /// Those that the read on the way is for; `None` if none is.
    reading: Option<Vec<W>>,
    /// Those that the next one is for.
    next: Vec<W>,
    /// Those that wait for the mirror, each list with its revision, in order.
    following: Vec<(Revision, Vec<W>)>,
}

impl<W> Default for Barriers<W> {
    fn default() -> Self {
        Barriers { reading: None, next: Vec::new(), following: Vec::new() }
    }
}

impl<W> Barriers<W> {
    /// Adds one that waits.
    pub(super) fn add(&mut self, waiter: W) {
        self.next.push(waiter);
    }

    /// Returns whether a read is to be begun; it is then.
    pub(super) fn begin(&mut self) -> bool {
        let begins = self.reading.is_none() && !self.next.is_empty();
        if begins {
            self.reading = Some(std::mem::take(&mut self.next));
        }
        begins
    }

    /// Ends the read with a revision.
    pub(super) fn reach(&mut self, revision: Revision) {
        self.following.extend(self.reading.take().map(|waiters| (revision, waiters)));
    }

    /// Ends the read without a revision: those that it was for wait for another one.
    pub(super) fn fail(&mut self) {
        let mut waiters = self.reading.take().unwrap_or_default();
        waiters.append(&mut self.next);
        self.next = waiters;
    }

    /// Takes those that wait for no more than what a mirror has.
    pub(super) fn take_until(&mut self, revision: Revision) -> Vec<W> {
        let (reached, left) = std::mem::take(&mut self.following).into_iter().partition(|(at, _)| *at <= revision);
        self.following = left;
        let reached: Vec<(Revision, Vec<W>)> = reached;
        reached.into_iter().flat_map(|(_, waiters)| waiters).collect()
    }

    /// Returns whether any wait for the mirror.
    pub(super) fn is_following(&self) -> bool {
        !self.following.is_empty()
    }

    /// Returns whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.reading.is_none() && self.next.is_empty() && self.following.is_empty()
    }

    /// Takes those that have waited for too long.
    pub(super) fn take_overdue(&mut self, is_overdue: impl Fn(&W) -> bool) -> Vec<W> {
        let mut overdue = Vec::new();
        let lists = self.following.iter_mut().map(|(_, waiters)| waiters);
        for waiters in lists.chain(&mut self.reading).chain([&mut self.next]) {
            overdue.extend(waiters.extract_if(.., |waiter| is_overdue(waiter)));
        }
        self.following.retain(|(_, waiters)| !waiters.is_empty());
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_while_the_cluster_is_read_wait_for_the_next_read() {
        let mut barriers = Barriers::default();
        barriers.add("first");
        assert!(barriers.begin());
        barriers.add("second");
        assert!(!barriers.begin());
        barriers.reach(7);
        assert!(barriers.begin());
        assert_eq!(barriers.take_until(6), Vec::<&str>::new());
        assert_eq!(barriers.take_until(7), ["first"]);
        barriers.fail();
        barriers.add("third");
        assert!(barriers.begin());
        barriers.reach(8);
        assert_eq!(barriers.take_until(9), ["second", "third"]);
    }
}
