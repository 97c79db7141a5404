//! The queue of calls: selects calls to be executed together, as one transaction.
//!
//! Calls whose keys overlap are executed one after the other, in order of arrival. Quick calls that wait at the same time
//! go together whatever their keys are: what a transaction costs beside its changes is then shared.

use crate::store::KeyName;
use std::collections::{HashSet, VecDeque};

/// Largest number of calls that are executed together.
pub(super) const CALLS_MAX: usize = 64;
/// Largest number of keys of calls that are executed together: a transaction has a limit on tests and changes.
pub(super) const KEYS_MAX: usize = 100;

/// Queued work with keys.
pub(super) trait HasKeys {
    /// Returns the keys, each once and in order.
    fn keys(&self) -> &[KeyName];

    /// Returns true if the call can go together with calls of other clients.
    fn is_quick(&self) -> bool;
}

pub(super) struct CallQueue<C> {
    waiting: VecDeque<C>,
    /// The keys of calls that were taken and have not ended.
    busy: HashSet<KeyName, ahash::RandomState>,
}

impl<C> Default for CallQueue<C> {
    fn default() -> Self {
        CallQueue { waiting: VecDeque::new(), busy: HashSet::default() }
    }
}

impl<C: HasKeys> CallQueue<C> {
    pub(super) fn push(&mut self, call: C) {
        self.waiting.push_back(call);
    }

    /// Puts calls back that were taken and could not be executed with the others: they are the next.
    pub(super) fn put_back(&mut self, calls: Vec<C>) {
        calls.into_iter().rev().for_each(|call| self.waiting.push_front(call));
    }

    /// Returns the number of waiting calls.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the first calls that can be executed together, in order, without keys that are busy or to be left to other
    /// processes. Quick calls are taken only if there is room for them.
    pub(super) fn take(&mut self, has_room: bool, mut is_of_others: impl FnMut(&KeyName) -> bool) -> Vec<C> {
        let (mut group, mut keys): (Vec<C>, HashSet<KeyName>) = (Vec::new(), HashSet::new());
        // The keys of calls that stay, which other calls must not overtake.
        let mut passed: HashSet<KeyName> = HashSet::new();
        let (mut at, mut are_quick) = (0, true);
        while at < self.waiting.len() && group.len() < CALLS_MAX {
            let call = &self.waiting[at];
            let is_free = call.keys().iter().all(|key| !self.busy.contains(key) && !passed.contains(key));
            let is_free = is_free && !call.keys().iter().any(&mut is_of_others);
            let is_quick = call.is_quick();
            let goes_along = if group.is_empty() { has_room || !is_quick } else { is_quick && are_quick };
            let joins = goes_along || call.keys().iter().any(|key| keys.contains(key));
            let added = call.keys().iter().filter(|key| !keys.contains(*key)).count();
            if is_free && joins && (group.is_empty() || keys.len() + added <= KEYS_MAX) {
                are_quick &= is_quick;
                keys.extend(call.keys().iter().cloned());
                group.extend(self.waiting.remove(at));
            } else {
                passed.extend(call.keys().iter().cloned());
                at += 1;
            }
        }
        self.busy.extend(keys);
        group
    }

    /// Marks keys as those of calls that were taken.
    pub(super) fn hold<'k>(&mut self, keys: impl IntoIterator<Item = &'k KeyName>) {
        self.busy.extend(keys.into_iter().cloned());
    }

    /// Ends calls that were taken: their keys are free.
    pub(super) fn release<'k>(&mut self, keys: impl IntoIterator<Item = &'k KeyName>) {
        keys.into_iter().for_each(|key| _ = self.busy.remove(key));
    }

    /// Returns true if calls with a key wait, or were taken.
    pub(super) fn has(&self, key: &KeyName) -> bool {
        self.busy.contains(key) || self.waiting.iter().any(|call| call.keys().contains(key))
    }

    /// Removes the waiting calls that meet a condition.
    pub(super) fn remove(&mut self, is_over: impl Fn(&C) -> bool) -> Vec<C> {
        let (over, left) = std::mem::take(&mut self.waiting).into_iter().partition(is_over);
        self.waiting = left;
        Vec::from(over)
    }
}

/// Divides calls into the ones that depend on some keys, directly or by keys in common with others, and the rest; all
/// of them do if that is known of none.
pub(super) fn split<C: HasKeys>(calls: Vec<C>, mut keys: HashSet<KeyName>) -> (Vec<C>, Vec<C>) {
    let mut depends = vec![false; calls.len()];
    loop {
        let before = keys.len();
        for (call, depends) in calls.iter().zip(&mut depends) {
            *depends |= call.keys().iter().any(|key| keys.contains(key));
            if *depends {
                keys.extend(call.keys().iter().cloned());
            }
        }
        if keys.len() == before {
            break;
        }
    }
    if !depends.contains(&true) {
        return (calls, Vec::new()); // the keys are those of no call, or not known
    }
    let (dependent, rest): (Vec<_>, Vec<_>) = calls.into_iter().zip(depends).partition(|(_, depends)| *depends);
    let calls = |list: Vec<(C, bool)>| list.into_iter().map(|(call, _)| call).collect();
    (calls(dependent), calls(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, Vec<KeyName>);

    impl HasKeys for Named {
        fn keys(&self) -> &[KeyName] {
            &self.1
        }

        fn is_quick(&self) -> bool {
            self.0.ends_with('!')
        }
    }

    /// Appends calls, each named by its keys; quick ones end with an exclamation mark.
    fn queue(calls: &[&'static str]) -> CallQueue<Named> {
        let mut queue = CallQueue::default();
        let keys = |call: &str| call.trim_end_matches('!').bytes().map(|key| (0, [key].into())).collect();
        calls.iter().for_each(|call| queue.push(Named(call, keys(call))));
        queue
    }

    fn take(queue: &mut CallQueue<Named>) -> String {
        queue.take(true, |key| *key == (0, b"z"[..].into())).iter().map(|call| call.0).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn calls_whose_keys_overlap_go_together_and_others_beside_them() {
        let mut queue = queue(&["a", "b", "a", "ac", "ab", "d"]);
        assert_eq!(take(&mut queue), "a a ac");
        assert_eq!(take(&mut queue), "b");
        assert_eq!(take(&mut queue), "d");
        assert_eq!(take(&mut queue), "");
    }

    #[test]
    fn a_key_that_is_to_be_left_to_others_holds_up_nobody_but_those_who_want_it_too() {
        let mut queue = queue(&["az", "b", "a", "c"]);
        assert_eq!((take(&mut queue), take(&mut queue), take(&mut queue)), ("b".into(), "c".into(), "".into()));
        assert!(queue.has(&(0, b"a"[..].into())) && !queue.has(&(0, b"d"[..].into())));
    }

    #[test]
    fn quick_calls_go_together_and_others_by_themselves() {
        let mut queue = queue(&["a!", "b", "c!", "a!", "bd!", "e", "f!"]);
        assert_eq!(take(&mut queue), "a! c! a! f!");
        assert_eq!((take(&mut queue), take(&mut queue), take(&mut queue)), ("b bd!".into(), "e".into(), "".into()));
    }

    #[test]
    fn without_room_quick_calls_wait_and_others_pass_them() {
        let mut queue = queue(&["a!", "b", "a", "c"]);
        let mut take =
            |has_room| queue.take(has_room, |_| false).iter().map(|call| call.0).collect::<Vec<_>>().join(" ");
        assert_eq!([take(false), take(false), take(false)], ["b", "c", ""]);
        assert_eq!(take(true), "a! a");
    }

    #[test]
    fn calls_are_divided_by_the_keys_on_which_they_depend() {
        let names = |calls: Vec<Named>| calls.iter().map(|call| call.0).collect::<Vec<_>>().join(" ");
        let divide = |keys: &str| {
            let calls = queue(&["ab", "c", "bd", "e", "d"]).waiting.into_iter().collect();
            let (dependent, rest) = split(calls, keys.bytes().map(|key| (0, [key].into())).collect());
            (names(dependent), names(rest))
        };
        assert_eq!(divide("a"), ("ab bd d".into(), "c e".into()));
        assert_eq!(divide("ce"), ("c e".into(), "ab bd d".into()));
        assert_eq!([divide(""), divide("z")], [(); 2].map(|()| ("ab c bd e d".into(), "".into())));
    }

    #[test]
    fn nobody_overtakes_one_that_waits_for_the_same_key() {
        let mut queue = queue(&["a", "b", "bc", "c"]);
        assert_eq!((take(&mut queue), take(&mut queue)), ("a".into(), "b bc c".into()));
    }
}
