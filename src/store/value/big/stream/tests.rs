//! Tests of streams against an ordered map of the standard library.

use std::collections::BTreeMap;

use super::*;
use crate::store::limits::StreamLimit;
use proptest::prelude::*;

const LIMIT: StreamLimit = StreamLimit { bytes: 4096, entries: 7 };

type Pairs = Vec<Vec<u8>>;

fn parts(pairs: &[Vec<u8>]) -> Vec<&[u8]> {
    pairs.iter().map(Vec::as_slice).collect()
}

fn pairs_of(entry: &StreamEntry<'_>) -> Pairs {
    entry.fields.clone().flat_map(|(field, value)| [field.to_cow().into_owned(), value.to_cow().into_owned()]).collect()
}

fn id(ms: u64) -> StreamId {
    StreamId::new(ms, 0)
}

fn stream_of(count: u64) -> BigStream {
    let mut stream = BigStream::default();
    (1..=count).for_each(|ms| stream.append(id(ms), &[b"f", ms.to_string().as_bytes()], LIMIT));
    stream
}

fn ids(stream: &BigStream) -> Vec<u64> {
    stream.range(StreamId::MIN, StreamId::MAX).map(|entry| entry.id.ms).collect()
}

/// Checks a stream against the entries that it must have.
fn check(stream: &BigStream, model: &BTreeMap<StreamId, Pairs>) {
    assert_eq!(stream.len(), model.len());
    assert_eq!(stream.first(), model.keys().next().copied().unwrap_or_default());
    let expected: Vec<_> = model.iter().map(|(id, pairs)| (*id, pairs.clone())).collect();
    let read = |walk: EntryWalk<'_>| walk.map(|entry| (entry.id, pairs_of(&entry))).collect::<Vec<_>>();
    assert_eq!(read(stream.range(StreamId::MIN, StreamId::MAX)), expected);
    let mut backwards = read(stream.range_back(StreamId::MIN, StreamId::MAX));
    backwards.reverse();
    assert_eq!(backwards, expected);
    assert_eq!(stream.chunks_len, stream.chunks.values().map(StreamChunk::memory).sum::<usize>());
    let mut live = 0;
    for (id, chunk) in stream.chunks() {
        let (of_chunk, first, _) = StreamChunk::validate(&chunk.to_listpack(), id).expect("a chunk is valid");
        assert!(of_chunk > 0 && first >= id);
        live += of_chunk;
    }
    assert_eq!(live, stream.len());
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64, Pairs),
    Delete(usize),
    Trim(usize, bool),
    TrimId(usize, bool),
    Range(usize, usize),
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-c]{1,2}".prop_map(String::into_bytes),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        Just(Vec::new()),
        Just(vec![b'x'; 100]),
        Just(vec![b'y'; 5000]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let pairs = prop::collection::vec(part(), 2..7).prop_map(|mut pairs| {
        pairs.truncate(pairs.len() / 2 * 2);
        pairs
    });
    let same = part().prop_map(|value| vec![b"field".to_vec(), value]);
    prop_oneof![
        6 => (1..1000u64, prop_oneof![pairs, same]).prop_map(|(gap, pairs)| Step::Add(gap, pairs)),
        3 => any::<usize>().prop_map(Step::Delete),
        1 => (0..60usize, any::<bool>()).prop_map(|(max_len, exact)| Step::Trim(max_len, exact)),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, exact)| Step::TrimId(at, exact)),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(start, end)| Step::Range(start, end)),
    ]
}

fn nth(model: &BTreeMap<StreamId, Pairs>, at: usize) -> StreamId {
    match model.len() {
        0 => id(at as u64),
        len => *model.keys().nth(at % len).expect("it is below the length"),
    }
}

fn apply(stream: &mut BigStream, model: &mut BTreeMap<StreamId, Pairs>, step: Step) {
    match step {
        Step::Add(gap, pairs) => {
            let next = StreamId::new(stream.last().ms + gap / 3, if gap % 3 == 0 { u64::MAX - gap } else { gap });
            if next > stream.last() {
                stream.append(next, &parts(&pairs), LIMIT);
                model.insert(next, pairs);
            }
        }
        Step::Delete(at) => {
            let id = nth(model, at);
            assert_eq!(stream.delete(id), model.remove(&id).is_some());
            assert!(!stream.delete(id));
        }
        Step::Trim(max_len, is_exact) => {
            let trim =
                Trim { bound: Bound::Len(max_len), is_approximate: !is_exact, limit: 0, references: References::Keep };
            let deleted = stream.trim(&trim).deleted;
            (0..deleted).for_each(|_| {
                model.pop_first();
            });
            assert!(!is_exact || model.len() <= max_len);
        }
        Step::TrimId(at, is_exact) => {
            let min = nth(model, at);
            let trim =
                Trim { bound: Bound::MinId(min), is_approximate: !is_exact, limit: 0, references: References::Keep };
            let deleted = stream.trim(&trim).deleted;
            (0..deleted).for_each(|_| {
                assert!(model.pop_first().is_some_and(|(id, _)| id < min));
            });
            assert!(!is_exact || model.keys().next().is_none_or(|first| *first >= min));
        }
        Step::Range(start, end) => {
            let (start, end) = (nth(model, start), nth(model, end));
            let expected: Vec<_> =
                if start <= end { model.range(start..=end).map(|(id, _)| *id).collect() } else { Vec::new() };
            assert_eq!(stream.range(start, end).map(|entry| entry.id).collect::<Vec<_>>(), expected);
            let back: Vec<_> = stream.range_back(start, end).map(|entry| entry.id).collect();
            assert_eq!(back, expected.iter().rev().copied().collect::<Vec<_>>());
            assert_eq!(stream.get(start).is_some(), model.contains_key(&start));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_stream_does_what_an_ordered_map_does(steps in prop::collection::vec(step(), 1..120)) {
        let (mut stream, mut model) = (BigStream::default(), BTreeMap::new());
        for step in steps {
            apply(&mut stream, &mut model, step);
            check(&stream, &model);
        }
        check(&stream.copy(), &model);
    }

    #[test]
    fn damaged_chunks_are_refused_or_can_be_read(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut stream = stream_of(5);
        stream.append(id(9), &[b"other", b"value", b"x", b"1"], LIMIT);
        stream.delete(id(3));
        let (master, chunk) = stream.chunks().next().expect("there is one");
        let mut bytes = chunk.to_listpack();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some((live, _, last)) = StreamChunk::validate(&bytes, master) {
            let mut damaged = BigStream::default();
            damaged.push_chunk(master, &bytes, live);
            damaged.restore_first();
            let read: Vec<Pairs> =
                damaged.range(StreamId::MIN, StreamId::MAX).map(|entry| pairs_of(&entry)).collect();
            prop_assert_eq!(read.len(), live);
            prop_assert_eq!(damaged.range_back(StreamId::MIN, StreamId::MAX).count(), live);
            damaged.append(StreamId::MAX, &[b"f", b"added"], LIMIT);
            prop_assert_eq!(damaged.range(StreamId::MIN, StreamId::MAX).count(), live + 1);
            damaged.delete(last);
            damaged.trim(&Trim { bound: Bound::Len(1), is_approximate: false, limit: 0, references: References::Keep });
        }
    }
}

#[test]
fn an_approximate_trim_deletes_whole_chunks_up_to_a_limit() {
    let mut stream = stream_of(30);
    let trim =
        |max_len, limit| Trim { bound: Bound::Len(max_len), is_approximate: true, limit, references: References::Keep };
    assert_eq!(stream.trim(&trim(25, 0)).deleted, 0);
    assert_eq!(stream.trim(&trim(15, 0)).deleted, 14);
    assert_eq!(stream.first(), id(15));
    assert_eq!(stream.trim(&trim(0, 13)).deleted, 7);
    assert_eq!(stream.len(), 9);
}

#[test]
fn entries_that_a_group_needs_stay_or_are_forgotten_by_it() {
    let mut stream = stream_of(10);
    assert!(
        stream.add_group(b"g", ConsumerGroup::new(id(6), None)) && !stream.add_group(b"g", ConsumerGroup::default())
    );
    let mut group = stream.group_mut(b"g").expect("it was added");
    let (alice, is_new) = group.create_consumer(b"alice", 5);
    assert!(is_new && group.create_consumer(b"alice", 6) == (alice, false));
    [2, 4].iter().for_each(|ms| group.assign(id(*ms), PendingEntry { time: 7, count: 1, consumer: Some(alice) }));
    drop(group);
    let trim = |max_len, references| Trim { bound: Bound::Len(max_len), is_approximate: false, limit: 0, references };
    assert_eq!(stream.trim(&trim(0, References::Acknowledged)).deleted, 4);
    assert_eq!(ids(&stream), [2, 4, 7, 8, 9, 10]);
    assert_eq!(stream.trim(&trim(5, References::Delete)).deleted, 1);
    let group = stream.group(b"g").expect("it was added");
    assert_eq!(group.pending().keys().copied().collect::<Vec<_>>(), [id(4)]);
    assert_eq!(group.consumer(alice).pending.len(), 1);
}

#[test]
fn a_pending_entry_has_one_consumer_and_leaves_with_it() {
    let mut stream = BigStream::default();
    stream.add_group(b"g", ConsumerGroup::default());
    let empty = stream.memory();
    let mut group = stream.group_mut(b"g").expect("it was added");
    let (alice, bob) = (group.create_consumer(b"alice", 1).0, group.create_consumer(b"bob", 1).0);
    (1..=20).for_each(|ms| group.assign(id(ms), PendingEntry { time: 1, count: 1, consumer: Some(alice) }));
    group.assign(id(3), PendingEntry { time: 2, count: 2, consumer: Some(bob) });
    assert_eq!((group.consumer(alice).pending.len(), group.consumer(bob).pending.len()), (19, 1));
    assert_eq!(group.release(id(3)).and_then(|pending| pending.consumer), Some(bob));
    assert_eq!(group.delete_consumer(b"alice"), Some(19));
    assert!(group.pending().is_empty());
    assert_eq!(group.delete_consumer(b"alice"), None);
    let carol = group.create_consumer(b"carol", 9).0;
    assert_eq!(group.consumers().map(|consumer| &*consumer.name).collect::<Vec<_>>(), [b"bob".as_slice(), b"carol"]);
    assert_eq!(carol, alice);
    group.delete_consumer(b"bob");
    group.delete_consumer(b"carol");
    drop(group);
    assert_eq!(stream.memory(), empty);
}

/// A step of a test with a group: assigns an entry, releases one, or deletes a consumer.
type GroupStep = (u8, u64, i64, u8);

proptest! {
    #[test]
    fn pending_entries_are_found_by_time_and_by_consumer(
        steps in prop::collection::vec((0u8..12, 0u64..30, 0i64..6, 0u8..3), 0..80),
    ) {
        let steps: Vec<GroupStep> = steps;
        let mut stream = BigStream::default();
        stream.add_group(b"g", ConsumerGroup::default());
        let empty = stream.memory();
        let mut model: BTreeMap<StreamId, (i64, u8)> = BTreeMap::new();
        for (what, at, time, name) in steps {
            let mut group = stream.group_mut(b"g").expect("it was added");
            match what {
                0..8 => {
                    let consumer = group.create_consumer(&[name], 0).0;
                    group.assign(id(at), PendingEntry { time, count: 1, consumer: Some(consumer) });
                    model.insert(id(at), (time, name));
                }
                8..11 => {
                    let released = group.release(id(at)).map(|pending| pending.time);
                    prop_assert_eq!(released, model.remove(&id(at)).map(|(time, _)| time));
                }
                _ => {
                    group.delete_consumer(&[name]);
                    model.retain(|_, (_, owner)| *owner != name);
                }
            }
            let mut by_time: Vec<(i64, StreamId)> = model.iter().map(|(id, (time, _))| (*time, *id)).collect();
            by_time.sort();
            prop_assert_eq!(group.pending_by_time().collect::<Vec<_>>(), by_time);
            prop_assert!(group.pending().keys().eq(model.keys()));
            for consumer in group.consumers() {
                let owned = model.iter().filter(|(_, (_, owner))| [*owner] == *consumer.name).map(|(id, _)| *id);
                prop_assert_eq!(consumer.pending.keys().copied().collect::<Vec<_>>(), owned.collect::<Vec<_>>());
            }
        }
        let mut group = stream.group_mut(b"g").expect("it was added");
        for name in 0..3 {
            group.delete_consumer(&[name]);
        }
        drop(group);
        prop_assert_eq!(stream.memory(), empty);
    }
}

#[test]
fn a_copy_counts_the_memory_that_its_own_groups_have() {
    let mut stream = BigStream::default();
    stream.add_group(b"g", ConsumerGroup::default());
    let mut group = stream.group_mut(b"g").expect("it was added");
    (0..5).for_each(|number| _ = group.create_consumer(format!("{number}").as_bytes(), 1));
    group.delete_consumer(b"3");
    drop(group);
    let mut copy = stream.copy();
    assert_eq!(copy.group(b"g").map(ConsumerGroup::consumer_count), Some(4));
    assert!(copy.memory() <= stream.memory());
    for stream in [&mut stream, &mut copy] {
        stream.remove_group(b"g");
        assert_eq!(stream.memory(), BigStream::default().memory());
    }
}

#[test]
fn memory_per_entry_is_close_to_the_packed_bytes() {
    let mut stream = BigStream::default();
    let limit = StreamLimit { bytes: 4096, entries: 100 };
    for number in 0..100_000u64 {
        stream.append(id(1_700_000_000_000 + number), &[b"f", &[b'v'; 32]], limit);
    }
    let per_entry = stream.memory() as f64 / 100_000.0;
    assert!(per_entry < 33.0 + 10.5, "{per_entry}");
}

#[test]
fn the_lag_is_known_while_nothing_was_deleted_in_between() {
    let mut stream = stream_of(5);
    let group = |last: u64, read| ConsumerGroup::new(id(last), read);
    assert_eq!(stream.lag(&group(0, None)), Some(5));
    assert_eq!(stream.lag(&group(5, None)), Some(0));
    assert_eq!(stream.lag(&group(3, None)), None);
    assert_eq!(stream.lag(&group(3, Some(3))), Some(2));
    assert_eq!(stream.added_up_to(id(1)), Some(1));
    stream.delete(id(4));
    assert_eq!(stream.lag(&group(3, Some(3))), None);
    assert_eq!(stream.lag(&group(5, Some(5))), Some(0));
    assert_eq!(stream.added_up_to(id(9)), None);
    assert_eq!(BigStream::default().lag(&group(0, None)), Some(0));
}
