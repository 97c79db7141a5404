//! Tests of the walk: it visits the keys of the cut as they were then, whatever changes meanwhile.

mod large;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use crate::memory::marked::MarkedBytes;
use crate::store::entry::Entry;
use crate::store::event::{Event, EventSink};
use crate::store::expire::SweepTimer;
use crate::store::fences::Retired;
use crate::store::value::listpack::Items;
use crate::store::value::{
    DataType, Hash, List, Record, RecordBody, RecordPart, Set, SortedSet, Toy, Type, WalkProgress, WalkedElement,
};
use crate::store::walk::{Beside, Visitor, WalkSink};
use crate::store::walking::{WalkCursor, Walked};
use crate::store::{Cx, Origin, Store, Stream, StreamId, Ttl};
use crate::time::clock::{Deadline, Now};

use large::change;

/// Keys with their databases: the value and the fence.
type Keys = BTreeMap<(usize, Vec<u8>), (Vec<u8>, i64)>;

/// Removed keys with their databases: the fence.
type Fences = BTreeMap<(usize, Vec<u8>), i64>;

/// Collector of all that the walk is given.
#[derive(Default)]
struct Collected {
    keys: Mutex<Keys>,
    /// The fences of removed keys, with their databases.
    retired: Mutex<Fences>,
    /// Records of large values, as far as they were read.
    records: Mutex<BTreeMap<u64, MarkedBytes>>,
    progress: Arc<WalkProgress>,
}

impl Collected {
    /// Adds a key, which must not have been added before.
    fn add(&self, db: usize, key: &[u8], value: Vec<u8>, fence: i64) {
        let before = self.keys.lock().insert((db, key.to_vec()), (value, fence));
        assert!(before.is_none(), "{} of database {db} was visited twice", key.escape_ascii());
    }
}

impl WalkSink for Collected {
    fn add_former(&self, db: usize, entry: &Entry, Beside { fence, .. }: Beside<'_>) {
        self.add(db, entry.key(), shown(entry), fence);
    }

    fn add_retired(&self, db: usize, key: &[u8], retired: Retired) {
        let before = self.retired.lock().insert((db, key.to_vec()), retired.fence);
        assert!(before.is_none_or(|fence| fence == retired.fence), "{} of database {db}", key.escape_ascii());
    }

    fn begin_record(&self, db: usize, entry: &Entry, Beside { fence, .. }: Beside<'_>) -> Option<Record> {
        let head = format!("{db} {} {fence}\n", u16::from_le_bytes(*entry.key().first_chunk().expect("a key")));
        let mut tail = MarkedBytes::default();
        let elements = match entry.kind() {
            Type::List => List::read(entry).nodes().len(),
            Type::Set => Set::read(entry).len(),
            Type::SortedSet => SortedSet::read(entry).len(),
            Type::Hash => Hash::read(entry).len(),
            Type::String => entry.long_text().expect("a long one").pieces(),
            #[cfg(feature = "vectors")]
            Type::VectorSet => unreachable!("no action creates it"),
            Type::Stream => {
                let stream = Stream::read(entry);
                tail.extend_from_slice(format!("{:?}", stream.last()).as_bytes());
                stream.chunk_count()
            }
            _ => unreachable!("flat values are written as a whole"),
        };
        let body = RecordBody { elements, write: Box::new(write), tail };
        Some(Record::new(&self.progress, head.into_bytes().into(), body))
    }

    fn lose(&self) {
        self.progress.lose();
    }
}

impl Visitor for &Collected {
    fn visit(&mut self, db: usize, entry: &Entry, Beside { fence, .. }: Beside<'_>) {
        self.add(db, entry.key(), shown(entry), fence);
    }

    fn visit_retired(&mut self, db: usize, key: &[u8], retired: Retired) {
        self.add_retired(db, key, retired);
    }

    fn add_part(&mut self, part: RecordPart) {
        let mut records = self.records.lock();
        assert!(records.keys().all(|number| *number == part.number), "two records at a time");
        records.entry(part.number).or_default().append(&part.bytes);
        if part.is_last {
            let record = records.remove(&part.number).expect("it was added");
            let text = String::from_utf8(record.to_vec()).expect("text");
            let (head, elements) = text.split_once('\n').expect("a head");
            let numbers: Vec<i64> = head.split(' ').map(|number| number.parse().expect("a number")).collect();
            let key = u16::try_from(numbers[1]).expect("a key");
            self.add(numbers[0] as usize, &key.to_le_bytes(), ordered(elements, is_ordered(key)), numbers[2]);
        }
    }
}

/// Appends an element as a line.
fn write(element: WalkedElement<'_>, out: &mut MarkedBytes) {
    match element {
        WalkedElement::Piece(bytes) => return out.extend_from_slice(bytes),
        WalkedElement::Field(field, value, deadline) => {
            out.extend([field, b"=", value].concat());
            out.extend(format!("@{deadline:?}").bytes());
        }
        WalkedElement::Member(member) | WalkedElement::TimedMember(member, None) => {
            out.extend_from_slice(&member.to_cow());
        }
        WalkedElement::TimedMember(member, deadline) => {
            out.extend_from_slice(&member.to_cow());
            out.extend(format!("@{deadline:?}").bytes());
        }
        WalkedElement::Scored(member, score) => out.extend([member, format!("={score}").as_bytes()].concat()),
        WalkedElement::Plain(text) => out.extend_from_slice(text),
        WalkedElement::Chunk(id, listpack) => {
            out.extend(format!("{:?} {}", StreamId::from_bytes(id), listpack.escape_ascii()).bytes());
        }
        WalkedElement::Packed(elements, count) => {
            let items: Vec<Vec<u8>> = Items::new(elements).map(|item| item.to_cow().into_owned()).collect();
            assert_eq!(items.len(), count);
            out.extend(items.join(&b'\n'));
        }
        #[cfg(feature = "vectors")]
        WalkedElement::Vector(..) => unreachable!("no action creates it"),
    }
    out.push(b'\n');
}

/// Returns the lines, whose order matters in lists only.
fn ordered(elements: &str, is_list: bool) -> Vec<u8> {
    let mut lines: Vec<&str> = elements.lines().collect();
    if !is_list {
        lines.sort_unstable();
    }
    lines.join("\n").into_bytes()
}

/// Returns the value of a key.
fn shown(entry: &Entry) -> Vec<u8> {
    let mut lines = MarkedBytes::default();
    match entry.kind() {
        Type::String => return entry.string().as_slice().to_vec(),
        Type::List => {
            let list = List::read(entry);
            list.iter().for_each(|item| item.with_text(|text| write(WalkedElement::Plain(text), &mut lines)))
        }
        Type::Set => {
            let set = Set::read(entry);
            set.iter().for_each(|member| {
                let deadline = set.deadline(member).flatten();
                write(WalkedElement::TimedMember(member, deadline), &mut lines);
            });
        }
        Type::SortedSet => SortedSet::read(entry).iter().for_each(|(member, score)| {
            member.with_text(|member| write(WalkedElement::Scored(member, score.get()), &mut lines));
        }),
        Type::Hash => Hash::read(entry).for_each_timed(|field, value, deadline| {
            field.with(|field| value.with(|value| write(WalkedElement::Field(field, value, deadline), &mut lines)));
        }),
        #[cfg(feature = "vectors")]
        Type::VectorSet => unreachable!("no action creates it"),
        Type::Stream => {
            let stream = Stream::read(entry);
            let chunks = stream.chunks();
            chunks.for_each(|(id, chunk)| write(WalkedElement::Chunk(id.to_bytes(), &chunk.to_listpack()), &mut lines));
            lines.extend(format!("{:?}", stream.last()).bytes());
        }
        _ => return Toy::read(entry).to_vec(), // as that of any flat type
    }
    let lines = String::from_utf8(lines.to_vec()).expect("text");
    ordered(&lines, matches!(entry.kind(), Type::List | Type::Stream))
}

/// An action on the store.
#[derive(Clone, Debug)]
enum Action {
    Set {
        db: usize,
        key: u16,
        value: u8,
    },
    SetUntil {
        db: usize,
        key: u16,
        at_ms: u8,
    },
    Remove {
        db: usize,
        key: u16,
    },
    Expire {
        now_ms: u8,
    },
    Swap,
    Flush {
        db: usize,
    },
    FlushAll,
    /// Sets or adds an element of a collection.
    Add {
        db: usize,
        key: u16,
        element: u16,
        value: u8,
    },
    /// Removes an element of a collection.
    Take {
        db: usize,
        key: u16,
        element: u16,
    },
    /// Gives a collection the key of another.
    Rename {
        db: usize,
        from: u16,
        to: u16,
    },
    /// Takes `steps` steps of the walk.
    Walk {
        steps: u8,
    },
}

/// Number of different keys of a database.
const KEYS: u16 = 600;

/// Numbers of the keys with large values, above the numbers of the other keys.
const COLLECTIONS: std::ops::Range<u16> = KEYS..KEYS + 12;

/// Number of different elements of a collection.
const ELEMENTS: u16 = 120;

fn is_ordered(key: u16) -> bool {
    key % 6 == 3 || key % 6 == 5
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        200 => (0..2_usize, COLLECTIONS, 0..ELEMENTS, any::<u8>())
            .prop_map(|(db, key, element, value)| Action::Add { db, key, element, value }),
        100 => (0..2_usize, COLLECTIONS, 0..ELEMENTS)
            .prop_map(|(db, key, element)| Action::Take { db, key, element }),
        2 => (0..2_usize, COLLECTIONS).prop_map(|(db, key)| Action::Remove { db, key }),
        4 => (0..2_usize, COLLECTIONS, 0..2_u16)
            .prop_map(|(db, from, way)| Action::Rename { db, from, to: (from - KEYS + 6 * way) % 12 + KEYS }),
        100 => (0..2_usize, 0..KEYS, any::<u8>()).prop_map(|(db, key, value)| Action::Set { db, key, value }),
        20 => (0..2_usize, 0..KEYS, any::<u8>()).prop_map(|(db, key, at_ms)| Action::SetUntil { db, key, at_ms }),
        60 => (0..2_usize, 0..KEYS).prop_map(|(db, key)| Action::Remove { db, key }),
        // Keys with fences.
        40 => (0..2_usize, 0..9_u16).prop_map(|(db, key)| Action::Set { db, key: 16 * key, value: 3 }),
        40 => (0..2_usize, 0..9_u16).prop_map(|(db, key)| Action::Remove { db, key: 16 * key }),
        2 => any::<u8>().prop_map(|now_ms| Action::Expire { now_ms }),
        1 => Just(Action::Swap),
        1 => (0..2_usize).prop_map(|db| Action::Flush { db }),
        1 => Just(Action::FlushAll),
        60 => (0..20_u8).prop_map(|steps| Action::Walk { steps }),
    ]
}

/// Makes every collection a large one.
fn fill(store: &Store, now: Now) {
    for (db, key) in [0, 1].into_iter().flat_map(|db| COLLECTIONS.map(move |key| (db, key))) {
        (0..ELEMENTS / 2)
            .for_each(|element| change(store, (db, key), 2 * element, Some(7), Cx::new(now, Origin::HOST)));
    }
}

fn new_store() -> Store {
    let events = EventSink::silent();
    let store = Store::new((2, false), 1, Arc::new(SweepTimer::new(|| {})), Arc::default(), events);
    store.remember_fences(1_000_000);
    store
}

fn set(store: &Store, (db, number): (usize, u16), value: &[u8], ttl: Ttl, cx: Cx) {
    let name = number.to_le_bytes();
    let key = store.key(&name);
    let (mut hold, hashes) = (store.hold(1), [key.hash]);
    let mut view = hold.view(db, &hashes, cx);
    view.set(key, value, ttl, Event::NONE);
    if number % 16 == 0 {
        view.locks().set_fence(key, i64::from(number) + 1);
    }
}

fn perform(store: &Store, action: &Action, now: &mut Now) {
    let cx = Cx::new(*now, Origin::HOST);
    match *action {
        Action::Set { db, key, value } => set(store, (db, key), &[value], Ttl::Clear, cx),
        Action::SetUntil { db, key, at_ms } => {
            let at_ms = now.wall_ms() + 1 + i64::from(at_ms);
            set(store, (db, key), b"until", Ttl::At(Deadline::at_wall_ms(at_ms)), cx);
        }
        Action::Remove { db, key } => {
            let name = key.to_le_bytes();
            let key = store.key(&name);
            store.hold(1).view(db, &[key.hash], cx).remove(key);
        }
        Action::Expire { now_ms } => {
            *now = now.later_by_us(u64::from(now_ms) * 1000);
            store.sweep(Cx::new(*now, Origin::Expiry), || false, &|_| {});
        }
        Action::Swap => store.exclusive().view(0, cx).swap(0, 1),
        Action::Flush { db } => store.exclusive().view(db, cx).clear(false),
        Action::FlushAll => store.exclusive().view(0, cx).clear(true),
        Action::Add { db, key, element, value } => change(store, (db, key), element, Some(value), cx),
        Action::Take { db, key, element } => change(store, (db, key), element, None, cx),
        Action::Rename { db, from, to } => {
            let names = [from, to].map(u16::to_le_bytes);
            let [from, to] = [0, 1].map(|name| store.key(&names[name]));
            store.hold(2).view(db, &[from.hash, to.hash], cx).rename((from, to), [Event::NONE; 2]);
        }
        Action::Walk { .. } => {}
    }
}

/// Returns all keys that have not expired.
fn all(store: &Store, now: Now) -> Keys {
    let (mut keys, cx) = (Keys::new(), Cx::new(now, Origin::HOST));
    let mut held = store.exclusive();
    for db in 0..2 {
        let mut names = Vec::new();
        let mut view = held.view(db, cx);
        let mut cursor = 0;
        loop {
            cursor = view.scan(cursor, |entry| {
                names.push((entry.key().to_vec(), shown(entry)));
            });
            if cursor == 0 {
                break;
            }
        }
        for (name, value) in names {
            let fence = view.locks().fence(store.key(&name));
            keys.insert((db, name), (value, fence));
        }
    }
    keys
}

/// Returns the fences of removed keys.
fn all_retired(store: &Store, now: Now) -> Fences {
    let mut held = store.exclusive();
    let mut retired = Fences::new();
    for (db, number) in [0, 1].into_iter().flat_map(|db| (0..KEYS).map(move |number| (db, number))) {
        let (name, mut view) = (number.to_le_bytes(), held.view(db, Cx::new(now, Origin::HOST)));
        let key = store.key(&name);
        let fence = view.locks().fence_or_memory(key);
        if fence != 0 && !view.exists(key) {
            retired.insert((db, name.to_vec()), fence);
        }
    }
    retired
}

/// Takes `steps` steps of the walk, of a bucket each; returns true if it is over.
fn walk(store: &Store, cursor: &mut WalkCursor, mut collected: &Collected, steps: usize) -> bool {
    (0..steps).any(|_| store.walk(cursor, &|| true, &mut collected) == Walked::All)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_key_of_the_cut_is_visited_once_as_it_was(
        before in prop::collection::vec(action(), 0..500),
        after in prop::collection::vec(action(), 0..1000),
    ) {
        let (store, mut now) = (new_store(), Now::at_ms(0, 0));
        fill(&store, now);
        before.iter().for_each(|action| perform(&store, action, &mut now));
        store.sweep(Cx::new(now, Origin::Expiry), || false, &|_| {});
        let (expected, retired) = (all(&store, now), all_retired(&store, now));
        let collected = Arc::<Collected>::default();
        let sink: Arc<dyn WalkSink> = collected.clone();
        let keys = store.begin_walk(&mut store.exclusive(), &sink);
        prop_assert_eq!(keys, expected.len());
        let mut cursor = WalkCursor::new(&collected.progress);
        for action in &after {
            perform(&store, action, &mut now);
            if let Action::Walk { steps } = action {
                walk(&store, &mut cursor, &collected, usize::from(*steps));
            }
        }
        prop_assert!(walk(&store, &mut cursor, &collected, 1_000_000), "the walk does not end");
        store.end_walk();
        prop_assert!(!collected.progress.is_lost());
        prop_assert_eq!(&*collected.keys.lock(), &expected);
        prop_assert_eq!(&*collected.retired.lock(), &retired);
        let unvisited = store.reclaimer().unvisited();
        prop_assert!(unvisited.shards.is_empty() && unvisited.entries.is_empty());
    }
}

#[test]
fn a_walk_that_is_given_up_leaves_nothing_behind() {
    let (store, mut now) = (new_store(), Now::at_ms(0, 0));
    fill(&store, now);
    for key in 0..KEYS {
        perform(&store, &Action::Set { db: 0, key, value: 1 }, &mut now);
    }
    let collected = Arc::<Collected>::default();
    let sink: Arc<dyn WalkSink> = collected.clone();
    store.begin_walk(&mut store.exclusive(), &sink);
    // The records of these keys have begun: one key is deleted, one goes with all keys, and one stays.
    [600, 601].into_iter().for_each(|key| perform(&store, &Action::Take { db: 0, key, element: 0 }, &mut now));
    perform(&store, &Action::Remove { db: 0, key: 600 }, &mut now);
    perform(&store, &Action::Flush { db: 0 }, &mut now);
    perform(&store, &Action::Take { db: 1, key: 601, element: 0 }, &mut now);
    perform(&store, &Action::Set { db: 0, key: 1, value: 2 }, &mut now);
    store.end_walk();
    drop(sink);
    assert!(!collected.progress.has_unfinished());
    perform(&store, &Action::Remove { db: 0, key: 1 }, &mut now);
    assert_eq!((collected.keys.lock().len(), Arc::strong_count(&collected)), (0, 1));
}

#[test]
fn a_list_whose_record_has_begun_is_not_packed_when_little_is_left_of_it() {
    let (store, mut now) = (new_store(), Now::at_ms(0, 0));
    fill(&store, now);
    let key = COLLECTIONS.start + 3;
    let (expected, collected) = (all(&store, now), Arc::<Collected>::default());
    let sink: Arc<dyn WalkSink> = collected.clone();
    store.begin_walk(&mut store.exclusive(), &sink);
    (0..ELEMENTS / 2 - 1).for_each(|_| perform(&store, &Action::Take { db: 0, key, element: 1 }, &mut now));
    assert!(walk(&store, &mut WalkCursor::new(&collected.progress), &collected, 1_000_000));
    store.end_walk();
    assert!(!collected.progress.is_lost() && *collected.keys.lock() == expected);
}
