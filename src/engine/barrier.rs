//! Barriers: a read of the cluster returns a revision that includes everything acknowledged before its start. A read of
//! the mirror waits until the mirror has that revision. Waiters that arrive during such a read share the next one.

use crate::engine::cluster::Revision;

pub(super) struct Barriers<W> {
    /// Waiters of the read in progress; `None` if there is none.
    reading: Option<Vec<W>>,
    /// Waiters of the next read.
    next: Vec<W>,
    /// Number of waiters of the last read.
    last: usize,
    /// Waiters for the mirror, each list with its revision, in order.
    following: Vec<(Revision, Vec<W>)>,
}

/// Returns whether as many wait as it takes to go on after others: with fewer, the cluster would be asked more often for
/// the same.
pub(super) fn are_enough(waiting: usize, before: usize) -> bool {
    waiting * 2 >= before
}

impl<W> Default for Barriers<W> {
    fn default() -> Self {
        Barriers { reading: None, next: Vec::new(), last: 0, following: Vec::new() }
    }
}

impl<W> Barriers<W> {
    pub(super) fn add(&mut self, waiter: W) {
        self.next.push(waiter);
    }

    /// Returns true if a read may be begun.
    pub(super) fn is_wanted(&self) -> bool {
        self.reading.is_none() && !self.next.is_empty()
    }

    /// Returns true if a read is to be begun, and counts it as begun. A few waiters wait for others after a read that
    /// had many, unless it is `late`.
    pub(super) fn begin(&mut self, late: bool) -> bool {
        let begins = self.is_wanted() && (late || are_enough(self.next.len(), self.last));
        if begins {
            self.last = self.next.len();
            self.reading = Some(std::mem::take(&mut self.next));
        }
        begins
    }

    /// Ends the read with a revision.
    pub(super) fn reach(&mut self, revision: Revision) {
        self.following.extend(self.reading.take().map(|waiters| (revision, waiters)));
    }

    /// Ends the read without a revision: its waiters wait for another one.
    pub(super) fn fail(&mut self) {
        let mut waiters = self.reading.take().unwrap_or_default();
        waiters.append(&mut self.next);
        self.next = waiters;
    }

    /// Takes the waiters whose revision a mirror has reached.
    pub(super) fn take_until(&mut self, revision: Revision) -> Vec<W> {
        let (reached, left) = std::mem::take(&mut self.following).into_iter().partition(|(at, _)| *at <= revision);
        self.following = left;
        let reached: Vec<(Revision, Vec<W>)> = reached;
        reached.into_iter().flat_map(|(_, waiters)| waiters).collect()
    }

    /// Returns true if any waiter waits for the mirror.
    pub(super) fn is_following(&self) -> bool {
        !self.following.is_empty()
    }

    /// Returns true if there are no waiters.
    pub(super) fn is_empty(&self) -> bool {
        self.reading.is_none() && self.next.is_empty() && self.following.is_empty()
    }

    /// Takes the waiters that have waited too long.
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
    fn a_few_wait_for_others_after_many() {
        let mut barriers = Barriers::default();
        ["a", "b", "c", "d"].into_iter().for_each(|waiter| barriers.add(waiter));
        assert!(barriers.begin(false));
        barriers.reach(7);
        barriers.add("a");
        assert!(!barriers.begin(false));
        barriers.add("b");
        assert!(barriers.begin(false));
        barriers.reach(8);
        barriers.add("c");
        assert!(barriers.begin(false));
        barriers.fail();
        assert!(barriers.begin(true));
    }

    #[test]
    fn those_that_come_while_the_cluster_is_read_wait_for_the_next_read() {
        let mut barriers = Barriers::default();
        barriers.add("first");
        assert!(barriers.begin(false));
        barriers.add("second");
        assert!(!barriers.begin(false));
        barriers.reach(7);
        assert!(barriers.begin(false));
        assert_eq!(barriers.take_until(6), Vec::<&str>::new());
        assert_eq!(barriers.take_until(7), ["first"]);
        barriers.fail();
        barriers.add("third");
        assert!(barriers.begin(false));
        barriers.reach(8);
        assert_eq!(barriers.take_until(9), ["second", "third"]);
    }
}
