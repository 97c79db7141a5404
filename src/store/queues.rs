//! The clients that are blocked on one key, in queues by the type of value that they wait for: a change to another type
//! concerns none of them and costs the same however many there are.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::value::Type;

/// A client that is blocked on a key.
#[derive(Clone)]
pub(crate) struct Waiter {
    /// Number of the wait, larger than the numbers of all waits that began before.
    pub(crate) number: u64,
    /// Type of value that the client waits for.
    pub(crate) wanted: Type,
    /// True if the client is to be served also when the key is deleted or holds another type.
    pub(crate) wake_on_delete: bool,
    /// Ticket through which the client is served.
    pub(crate) ticket: Arc<dyn Any + Send + Sync>,
}

impl Waiter {
    /// Returns true if the client is to be served while the key holds a value of type `of`, or none.
    pub(crate) fn wants(&self, of: Option<Type>) -> bool {
        of == Some(self.wanted) || self.wake_on_delete
    }
}

/// The clients that are blocked on one key.
#[derive(Default)]
pub(super) struct Queues(Vec<Queue>);

/// The clients that wait for a value of the same type, in the order of their arrival and of their numbers.
struct Queue {
    wanted: Type,
    waiters: VecDeque<Waiter>,
    /// Number of clients that are served in the absence of such a value, too.
    waking_on_delete: usize,
}

impl Queue {
    fn next(&self, of: Option<Type>, after: u64) -> Option<&Waiter> {
        let start = self.waiters.partition_point(|waiter| waiter.number <= after);
        self.waiters.range(start..).find(|waiter| waiter.wants(of))
    }
}

impl Queues {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|queue| queue.waiters.len()).sum()
    }

    /// Appends a client, unless it is the last in its queue already; returns true if it was appended.
    pub(super) fn push(&mut self, waiter: Waiter) -> bool {
        let at = self.0.iter().position(|queue| queue.wanted == waiter.wanted).unwrap_or_else(|| {
            self.0.push(Queue { wanted: waiter.wanted, waiters: VecDeque::new(), waking_on_delete: 0 });
            self.0.len() - 1
        });
        let queue = &mut self.0[at];
        let last = queue.waiters.back().map_or(0, |last| last.number);
        debug_assert!(last <= waiter.number, "a wait that began before stands before it");
        if last == waiter.number {
            return false;
        }
        queue.waking_on_delete += usize::from(waiter.wake_on_delete);
        queue.waiters.push_back(waiter);
        true
    }

    /// Removes a client; returns true if it was queued.
    pub(super) fn remove(&mut self, number: u64) -> bool {
        let place = |(at, queue): (usize, &Queue)| {
            queue.waiters.binary_search_by_key(&number, |waiter| waiter.number).ok().map(|place| (at, place))
        };
        let Some((at, place)) = self.0.iter().enumerate().find_map(place) else { return false };
        let queue = &mut self.0[at];
        let removed = queue.waiters.remove(place);
        queue.waking_on_delete -= usize::from(removed.is_some_and(|waiter| waiter.wake_on_delete));
        if queue.waiters.is_empty() {
            self.0.swap_remove(at);
        }
        true
    }

    /// Returns true if any client is to be served while the key holds a value of type `of`, or none.
    pub(super) fn wait_for(&self, of: Option<Type>) -> bool {
        self.concerned(of).next().is_some()
    }

    /// Returns the first client, after the wait `after`, that is to be served while the key holds a value of type `of`,
    /// or none.
    pub(super) fn next(&self, of: Option<Type>, after: u64) -> Option<&Waiter> {
        self.concerned(of).filter_map(|queue| queue.next(of, after)).min_by_key(|waiter| waiter.number)
    }

    /// Iterates over the queues with clients that are to be served while the key holds a value of type `of`, or none.
    fn concerned(&self, of: Option<Type>) -> impl Iterator<Item = &Queue> {
        self.0.iter().filter(move |queue| of == Some(queue.wanted) || queue.waking_on_delete > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(number: u64, wanted: Type, wake_on_delete: bool) -> Waiter {
        Waiter { number, wanted, wake_on_delete, ticket: Arc::new(()) }
    }

    /// Returns the numbers of all clients that are to be served while the key holds a value of type `of`, in order.
    fn served(queues: &Queues, of: Option<Type>) -> Vec<u64> {
        let first = queues.next(of, 0);
        std::iter::successors(first, |last| queues.next(of, last.number)).map(|waiter| waiter.number).collect()
    }

    fn queues() -> Queues {
        let mut queues = Queues::default();
        for (number, wanted, wake_on_delete) in
            [(1, Type::List, false), (2, Type::Stream, true), (4, Type::List, false), (7, Type::Stream, false)]
        {
            assert!(queues.push(waiter(number, wanted, wake_on_delete)));
        }
        queues
    }

    #[test]
    fn those_that_wait_for_the_type_come_in_order() {
        let queues = queues();
        assert_eq!(served(&queues, Some(Type::List)), [1, 2, 4]);
        assert_eq!(served(&queues, Some(Type::Stream)), [2, 7]);
        assert_eq!(served(&queues, Some(Type::Hash)), [2]);
        assert_eq!(served(&queues, None), [2]);
    }

    #[test]
    fn a_type_that_nobody_waits_for_concerns_nobody() {
        let mut queues = queues();
        assert!(queues.wait_for(None) && queues.wait_for(Some(Type::Hash)));
        assert!(queues.remove(2) && !queues.remove(2) && !queues.remove(3));
        assert!(!queues.wait_for(None) && !queues.wait_for(Some(Type::Hash)));
        assert!(queues.wait_for(Some(Type::List)) && queues.wait_for(Some(Type::Stream)));
        assert!(queues.remove(7));
        assert!(!queues.wait_for(Some(Type::Stream)) && !queues.is_empty());
        assert!(queues.remove(1) && queues.remove(4) && queues.is_empty());
    }

    #[test]
    fn a_client_that_names_a_key_twice_is_there_once() {
        let mut queues = queues();
        assert!(!queues.push(waiter(7, Type::Stream, false)));
        assert!(queues.remove(7) && served(&queues, Some(Type::Stream)) == [2]);
    }
}
