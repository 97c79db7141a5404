//! Deadlocks in the reference: a search of all waiters.

use std::collections::BTreeSet;

use super::{Ask, Holder, Kind, Mode, Model};

impl Model {
    /// Returns whether a client, which takes a place in the queue, would be part of a deadlock. It would not be served
    /// even if all clients that do not wait released their locks, and so did each client that is then served; and it is
    /// among the clients that it waits for in vain, directly or through others.
    pub(super) fn is_cycle(&self, newcomer: &Ask, place: usize) -> bool {
        let is_here = |ask: &&Ask| !ask.is_away();
        let newcomer_at = self.waiting[..place].iter().filter(is_here).count();
        let behind = self.waiting[place..].iter().filter(is_here);
        let all: Vec<&Ask> = self.waiting[..place].iter().filter(is_here).chain([newcomer]).chain(behind).collect();
        let mut served = vec![false; all.len()];
        // Returns the waiters of whom one has to release a lock of the holder.
        let hanging = |holder: &Holder| -> Vec<usize> {
            let hangs = |ask: &Ask| holder.session == Some(ask.client) || ask.token == holder.token;
            (0..all.len()).filter(|at| holder.client.is_some() && hangs(all[*at])).collect()
        };
        let before = |at: usize, key: usize| (0..at).rev().find(|before| all[*before].keys.contains(&key));
        let is_gone = |holder: &Holder, served: &[bool]| {
            let hanging = hanging(holder);
            hanging.is_empty() || hanging.iter().any(|at| served[*at])
        };
        let is_had = |at: usize, key: usize, served: &[bool]| {
            self.has_already(key, all[at])
                || before(at, key).is_none_or(|before| served[before])
                    && self.is_had(key, all[at], |holder| is_gone(holder, served))
        };
        let is_next =
            |at: &usize, served: &[bool]| !served[*at] && all[*at].keys.iter().all(|key| is_had(*at, *key, served));
        while let Some(next) = (0..all.len()).find(|at| is_next(at, &served)) {
            served[next] = true;
        }
        let (mut found, mut next) = (BTreeSet::new(), vec![newcomer_at]);
        while let Some(at) = next.pop().filter(|_| !served[newcomer_at]) {
            for key in all[at].keys.iter().filter(|key| !is_had(at, **key, &served)) {
                let held = self.values.get(key).into_iter().flat_map(|value| &value.holders);
                let others = held.filter(|holder| !is_own_hold(all[at], holder) && !is_gone(holder, &served));
                let held = others.flat_map(hanging);
                let blockers: Vec<usize> = before(at, *key).filter(|at| !served[*at]).into_iter().chain(held).collect();
                next.extend(blockers.into_iter().filter(|at| found.insert(*at)));
            }
        }
        found.contains(&newcomer_at)
    }

    /// Returns whether a client that wants several locks has this one already, whoever is queued for it.
    fn has_already(&self, key: usize, ask: &Ask) -> bool {
        let is_own = |holder: &Holder| holder.client.is_some() && holder.token == ask.token;
        let value = self.values.get(&key).filter(|value| matches!(value.kind, Kind::Exclusive));
        ask.mode == Mode::Several && value.is_some_and(|value| value.holders.iter().any(is_own))
    }

    /// Returns whether a client gets a lock once the matching holders are gone.
    fn is_had(&self, key: usize, ask: &Ask, is_gone: impl Fn(&Holder) -> bool) -> bool {
        let Some(value) = self.values.get(&key) else { return true };
        match (value.kind, ask.mode) {
            (Kind::Shared(..), Mode::Shared) => true,
            (Kind::Permits(..), Mode::Permits(count, _)) => {
                let gone: u64 =
                    value.holders.iter().filter(|holder| is_gone(holder)).map(|holder| holder.permits).sum();
                value.free().unwrap_or(0) + gone >= count
            }
            _ => value.holders.iter().all(|holder| is_own_hold(ask, holder) || is_gone(holder)),
        }
    }
}

/// Returns whether a client does not wait for this holder, which is itself.
fn is_own_hold(ask: &Ask, holder: &Holder) -> bool {
    matches!(ask.mode, Mode::Several | Mode::Upgrade) && holder.token == ask.token
}
