//! Changes of elements of large values of every type.

use crate::store::event::Event;
use crate::store::limits::{ListLimit, PackedLimit, StreamLimit, ValueLimits};
use crate::store::value::{Hash, HashGrowth, List, ListEnd, NodeLimit, Set, SetRules, SortedSet, StoredElement};
use crate::store::view::View;
use crate::store::{Bound, Cx, Hasher, Key, References, Store, Str, Stream, StreamId, Trim};

/// Limits above which collections are not packed.
fn limits() -> ValueLimits {
    let small = PackedLimit { entries: 4, len: 64 };
    ValueLimits { hash: small, zset: small, set: small, ..ValueLimits::default() }
}

/// A change of an element.
struct Change<'c> {
    key: Key<'c>,
    hasher: &'c Hasher,
    /// The number of the element.
    element: u16,
    /// The element, long enough for a value of many to be a large one.
    text: &'c [u8],
    /// New value of the element; `None` to remove it.
    value: Option<u8>,
}

/// Sets, adds or removes an element of a value, whose type follows from the number of its key.
pub(super) fn change(store: &Store, (db, key): (usize, u16), element: u16, value: Option<u8>, cx: Cx) {
    let name = key.to_le_bytes();
    let text = format!("element {element} {}", "x".repeat(usize::from(element) % 40));
    let change = Change { key: store.key(&name), hasher: store.hasher(), element, text: text.as_bytes(), value };
    let act =
        [change_hash, change_set, change_sorted_set, change_list, change_string, change_stream][usize::from(key % 6)];
    let (mut hold, hashes) = (store.hold(1), [change.key.hash]);
    act(&mut hold.view(db, &hashes, cx), &change);
}

fn change_hash(view: &mut View<'_>, change: &Change<'_>) {
    let mut hash = view.edit::<Hash>(change.key, Event::NONE).expect("a hash");
    let growth = HashGrowth { limit: limits().hash, hasher: change.hasher };
    match change.value {
        Some(value) => {
            hash.change().set(change.text, &[b'a' + value % 26], growth);
            let deadline = (value % 4 == 0).then_some(i64::from(value) + 1_000_000);
            hash.change().set_deadline(change.text, deadline);
        }
        None if hash.exists() => _ = hash.change().remove(change.text),
        None => {}
    }
}

fn change_set(view: &mut View<'_>, change: &Change<'_>) {
    let mut set = view.edit::<Set>(change.key, Event::NONE).expect("a set");
    let (rules, number) = (SetRules::new(limits(), change.hasher), i64::from(change.element));
    let item =
        if change.element.is_multiple_of(3) { StoredElement::Int(number) } else { StoredElement::Text(change.text) };
    match change.value {
        Some(value) => {
            set.change().add(item, rules);
            if value % 4 == 0 {
                let deadline = (value % 8 == 0).then_some(i64::from(value) + 1_000_000);
                set.change().set_deadline(item, deadline, rules);
            }
        }
        None if set.exists() => _ = set.change().remove(item),
        None => {}
    }
}

fn change_sorted_set(view: &mut View<'_>, change: &Change<'_>) {
    let mut set = view.edit::<SortedSet>(change.key, Event::NONE).expect("a sorted set");
    match change.value {
        Some(value) => {
            set.change().put(change.text, (limits().zset, change.hasher), |_| Some(f64::from(value)));
        }
        None if set.exists() => _ = set.change().remove(change.text),
        None => {}
    }
}

fn change_list(view: &mut View<'_>, change: &Change<'_>) {
    let limit = NodeLimit { node: ListLimit::new(5), large_min: 0 };
    let mut list = view.edit::<List>(change.key, Event::NONE).expect("a list");
    let len = list.value().len();
    let index = usize::from(change.element) % len.max(1);
    let end = if change.element.is_multiple_of(2) { ListEnd::Head } else { ListEnd::Tail };
    match change.value {
        Some(value) if len > 0 && value % 8 == 0 => list.change().set(index, change.text, limit),
        Some(value) if len > 0 && value % 8 == 1 => {
            let pivot = list.value().get(index).expect("it is there").to_cow().into_owned();
            list.change().insert_beside(&pivot, value > 99, b"beside", limit);
        }
        Some(value) if len > 4 && value % 64 == 2 => {
            list.change().remove_equal(b"beside", 3, ListEnd::Tail, limit);
        }
        Some(_) => _ = list.change().push(std::iter::once(change.text), end, limit),
        None if len > 4 && change.element.is_multiple_of(5) => list.change().remove(index.min(len - 4), 3, limit),
        None if len > 0 => _ = list.change().pop(end, limit, |_| {}),
        None => {}
    }
}

fn change_string(view: &mut View<'_>, change: &Change<'_>) {
    let mut string = view.edit::<Str>(change.key, Event::NONE).expect("a string");
    let (len, at) = (string.value().len(), usize::from(change.element) * 150);
    match change.value {
        Some(value) => string.change().write_range(at, &vec![b'a' + value % 26; at % 4000]),
        None => string.change().write_range(len, change.text),
    }
}

fn change_stream(view: &mut View<'_>, change: &Change<'_>) {
    let mut stream = view.edit::<Stream>(change.key, Event::NONE).expect("a stream");
    let (first, last) = (stream.value().first(), stream.value().last());
    let limit = StreamLimit { bytes: 0, entries: 5 };
    match change.value {
        Some(value) if value % 16 == 0 => {
            let bound = Bound::Len(stream.value().len().saturating_sub(usize::from(value / 16)));
            let trim = Trim { bound, is_approximate: false, limit: 0, references: References::Keep };
            stream.change().trim(&trim);
        }
        Some(_) => stream.change().append(last.next().expect("no end"), &[b"field", change.text], limit),
        None => {
            let id = StreamId { ms: 0, seq: first.seq + u64::from(change.element) };
            stream.change().delete(id);
        }
    }
}
