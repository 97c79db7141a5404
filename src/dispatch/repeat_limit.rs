//! The number of blocked calls that an engine repeats after a change of a key.

use std::collections::HashMap;
use std::sync::Arc;

use crate::client::registry::{BlockedCall, ClientWait};
use crate::dispatch::Env;
use crate::spec::WRITE;
use crate::store::entry::Entry;
use crate::store::value::{List, SortedSet, Type};
use crate::store::{Key, Lookup, Stream, StreamId, View};

/// Limit of the blocked calls that an engine is to repeat because of a key. Each call takes at least one element, but
/// the mirror keeps all elements until the cluster has executed the calls.
pub(super) enum RepeatLimit {
    /// All calls are repeated.
    Unlimited,
    /// The number of elements for which no call was repeated yet.
    Elements(usize),
    /// For each consumer group of a stream, the last entry for which a call was repeated.
    Entries(HashMap<Arc<[u8]>, StreamId>),
}

impl RepeatLimit {
    /// Returns the limit for a key.
    pub(super) fn of(view: &mut View<'_>, key: Key<'_>, env: Env<'_>) -> Self {
        if env.namespace.engine().is_none() {
            return RepeatLimit::Unlimited;
        }
        let elements = match view.lookup(key, Lookup::PEEK).map(Entry::kind) {
            Some(Type::List) => view.get::<List>(key, Lookup::PEEK).ok().flatten().map(|list| list.len()),
            Some(Type::SortedSet) => view.get::<SortedSet>(key, Lookup::PEEK).ok().flatten().map(|set| set.len()),
            Some(Type::Stream) => return RepeatLimit::Entries(HashMap::new()),
            _ => return RepeatLimit::Unlimited,
        };
        RepeatLimit::Elements(elements.unwrap_or(0))
    }

    /// Returns true if no call is to be repeated any more.
    pub(super) fn is_reached(&self) -> bool {
        matches!(self, RepeatLimit::Elements(0))
    }

    /// Returns whether the call of a client is to be repeated by the engine; `None` if it reads only, or the client is
    /// not blocked any more.
    pub(super) fn admit(&mut self, view: &mut View<'_>, key: Key<'_>, wait: &ClientWait) -> Option<bool> {
        let writing = |call: &BlockedCall| (call.command.flags & WRITE != 0).then(|| call.group.clone());
        let group = wait.call(writing)??;
        match self {
            RepeatLimit::Unlimited => {}
            RepeatLimit::Elements(left) => *left = left.saturating_sub(1),
            RepeatLimit::Entries(last) => {
                if let Some(group) = group.filter(|group| !group.claims) {
                    return Some(advance(view, key, group.name, last));
                }
            }
        }
        Some(true)
    }
}

/// Goes to the next entry that a group has not delivered; returns false if there is none. Without the group the call is
/// repeated for its error.
fn advance(view: &mut View<'_>, key: Key<'_>, group: Arc<[u8]>, last: &mut HashMap<Arc<[u8]>, StreamId>) -> bool {
    let Ok(Some(stream)) = view.get::<Stream>(key, Lookup::PEEK) else { return true };
    let Some(delivered) = stream.group(&group).map(|group| group.last) else { return true };
    let after = last.get(&group).copied().unwrap_or(delivered);
    let next = after.next().and_then(|start| stream.range(start, StreamId::MAX).next());
    if let Some(entry) = &next {
        last.insert(group, entry.id);
    }
    next.is_some()
}
