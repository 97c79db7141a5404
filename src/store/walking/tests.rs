//! The walk visits the keys of the cut as they were then, whatever happens meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use crate::store::entry::Entry;
use crate::store::event::{ChangeLog, Event, EventSink, KeyspaceObserver};
use crate::store::expire::SweepTimer;
use crate::store::walk::WalkSink;
use crate::store::walking::{WalkCursor, Walked};
use crate::store::{Cx, LockRecord, LostLock, Origin, Store, Str, Ttl};
use crate::time::clock::{Deadline, Now};

/// Keys with their databases: the value and the fence.
type Keys = BTreeMap<(usize, Vec<u8>), (Vec<u8>, i64)>;

/// Nobody is told of anything.
struct Nobody;

impl ChangeLog for Nobody {
    fn append_removal(&self, _: usize, _: &[u8]) {}
    fn append_field_removal(&self, _: usize, _: &[u8], _: &[u8]) {}
    fn record_change(&self, _: usize, _: &[u8]) {}
    fn record_all(&self) {}
    fn record_lock(&self, _: usize, _: &[u8], _: Option<&LockRecord>) {}
}

impl KeyspaceObserver for Nobody {
    fn on_event(&self, _: usize, _: &[u8], _: &'static str) {}
    fn on_change(&self, _: &[u8], _: Origin, _: Origin) {}
    fn on_flush(&self) {}
    fn on_lost_lock(&self, _: &LostLock<'_>) {}
}

/// Collects what the walk is given.
#[derive(Default)]
struct Collected(Mutex<Keys>);

impl Collected {
    /// Adds a key, which nobody may have added before.
    fn add(&self, db: usize, entry: &Entry, fence: i64) {
        let value = entry.get::<Str>().expect("a string").as_slice().to_vec();
        let before = self.0.lock().insert((db, entry.key().to_vec()), (value, fence));
        assert!(before.is_none(), "{} of database {db} was visited twice", entry.key().escape_ascii());
    }
}

impl WalkSink for Collected {
    fn add_former(&self, db: usize, entry: &Entry, fence: i64) {
        self.add(db, entry, fence);
    }
}

/// What happens to the store.
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
    /// The walk goes on by so many buckets.
    Walk {
        steps: u8,
    },
}

/// How many different keys a database may have.
const KEYS: u16 = 600;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => (0..2_usize, 0..KEYS, any::<u8>()).prop_map(|(db, key, value)| Action::Set { db, key, value }),
        2 => (0..2_usize, 0..KEYS, any::<u8>()).prop_map(|(db, key, at_ms)| Action::SetUntil { db, key, at_ms }),
        8 => (0..2_usize, 0..KEYS).prop_map(|(db, key)| Action::Remove { db, key }),
        1 => any::<u8>().prop_map(|now_ms| Action::Expire { now_ms }),
        1 => Just(Action::Swap),
        1 => (0..2_usize).prop_map(|db| Action::Flush { db }),
        1 => Just(Action::FlushAll),
        6 => any::<u8>().prop_map(|steps| Action::Walk { steps }),
    ]
}

fn new_store() -> Store {
    let events = EventSink::new(Nobody, Arc::new(Nobody));
    Store::new((2, false), 1, Arc::new(SweepTimer::new(|| {})), Arc::default(), events)
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
                let value = entry.get::<Str>().expect("a string").as_slice().to_vec();
                names.push((entry.key().to_vec(), value));
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

/// Takes steps of the walk, of a bucket each; returns whether it is over.
fn walk(store: &Store, cursor: &mut WalkCursor, collected: &Collected, steps: usize) -> bool {
    let mut visit = |db: usize, entry: &Entry, fence: i64| collected.add(db, entry, fence);
    (0..steps).any(|_| store.walk(cursor, &|| true, &mut visit) == Walked::All)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_key_of_the_cut_is_visited_once_as_it_was(
        before in prop::collection::vec(action(), 0..1500),
        after in prop::collection::vec(action(), 0..1500),
    ) {
        let (store, mut now) = (new_store(), Now::at_ms(0, 0));
        before.iter().for_each(|action| perform(&store, action, &mut now));
        store.sweep(Cx::new(now, Origin::Expiry), || false, &|_| {});
        let expected = all(&store, now);
        let collected = Arc::<Collected>::default();
        let sink: Arc<dyn WalkSink> = collected.clone();
        let keys = store.begin_walk(&mut store.exclusive(), &sink);
        prop_assert_eq!(keys, expected.len());
        let mut cursor = WalkCursor::default();
        for action in &after {
            perform(&store, action, &mut now);
            if let Action::Walk { steps } = action {
                walk(&store, &mut cursor, &collected, usize::from(*steps));
            }
        }
        while !walk(&store, &mut cursor, &collected, 1) {}
        store.end_walk();
        prop_assert_eq!(&*collected.0.lock(), &expected);
        prop_assert!(store.reclaimer().take_unvisited().is_none());
    }
}

#[test]
fn a_walk_that_is_given_up_leaves_nothing_behind() {
    let (store, mut now) = (new_store(), Now::at_ms(0, 0));
    for key in 0..KEYS {
        perform(&store, &Action::Set { db: 0, key, value: 1 }, &mut now);
    }
    let collected = Arc::<Collected>::default();
    let sink: Arc<dyn WalkSink> = collected.clone();
    store.begin_walk(&mut store.exclusive(), &sink);
    perform(&store, &Action::FlushAll, &mut now);
    perform(&store, &Action::Set { db: 0, key: 1, value: 2 }, &mut now);
    store.end_walk();
    drop(sink);
    perform(&store, &Action::Remove { db: 0, key: 1 }, &mut now);
    assert_eq!((collected.0.lock().len(), Arc::strong_count(&collected)), (0, 1));
}
