//! Values of every type, and their contents in a form that does not depend on the encoding.

use proptest::prelude::*;

use crate::memory::marked::MarkedBytes;
use crate::rdb::{Compression, kind};
use crate::store::entry::Entry;
use crate::store::limits::ValueLimits;
use crate::store::value::{DataType, Hash, HashGrowth, Packing, Set, SetRules, SortedSet, StoredElement, Toy, Type};
use crate::store::{
    BigStream, ConsumerGroup, Hasher, List, ListBuilder, NodeLimit, PendingEntry, Producers, Remembrance, StreamId,
};
use crate::types::payload::{self, ValueOptions};

/// A field of a hash: name, value, deadline.
type Field = (Vec<u8>, Vec<u8>, Option<i64>);

/// The description of a value.
#[derive(Clone, Debug)]
pub(super) enum SampleValue {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    SortedSet(Vec<(Vec<u8>, f64)>),
    Hash(Vec<Field>),
    /// A number of entries, and a group with a consumer that was seen at 5 and active at another time; at will, with
    /// producers and pending entries without a consumer.
    Stream {
        count: u64,
        active: i64,
        is_new: bool,
    },
}

/// The type of a value, and its elements; their order where it matters.
pub(super) type Described = (&'static str, Vec<Vec<u8>>);

impl SampleValue {
    /// Builds the value.
    pub(super) fn entry(&self, key: &[u8], limits: ValueLimits, hasher: &Hasher) -> Entry {
        match self {
            SampleValue::Text(text) => Entry::text(key, text, None),
            SampleValue::List(elements) => {
                let mut list = ListBuilder::new(NodeLimit { node: limits.list, large_min: 100 });
                elements.iter().for_each(|element| list.push(element));
                list.finish(key, None)
            }
            SampleValue::Set(members) => {
                let (mut entry, rules) = (Set::draft(key, Packing::Other, None), SetRules::new(limits, hasher));
                for member in members {
                    Set::write(&mut entry).add(StoredElement::of(member), rules);
                }
                entry
            }
            SampleValue::SortedSet(elements) => {
                let mut entry = SortedSet::create(key);
                for (member, score) in elements {
                    SortedSet::write(&mut entry).put(member, (limits.zset, hasher), |_| Some(*score));
                }
                entry
            }
            SampleValue::Hash(fields) => {
                let mut entry = Hash::create(key);
                for (field, value, deadline) in fields {
                    Hash::write(&mut entry).set(field, value, HashGrowth { limit: limits.hash, hasher });
                    Hash::write(&mut entry).set_deadline(field, *deadline);
                }
                entry
            }
            SampleValue::Stream { count, active, is_new } => {
                Entry::stream(key, stream(*count, *active, *is_new, limits), None)
            }
        }
    }
}

fn stream(count: u64, active: i64, is_new: bool, limits: ValueLimits) -> BigStream {
    let mut stream = BigStream::default();
    for at in 1..=count {
        stream.append(StreamId::new(at, at % 3), &[b"field", b"value", b"n", b"17"], limits.stream);
    }
    let mut group = ConsumerGroup::new(StreamId::new(1, 1), Some(1));
    let (consumer, _) = group.create_consumer(b"alice", 5);
    group.consumer_mut(consumer).active = active;
    if count > 0 {
        group.assign(StreamId::new(1, 1), PendingEntry { time: 1_700_000_000_000, count: 3, consumer: Some(consumer) });
    }
    if is_new {
        (5..5 + count).rev().for_each(|ms| group.disown(StreamId::new(ms, 0), ms));
        let mut producers = Producers::new(Remembrance { duration_s: 9, max_size: 2 });
        for at in 0..count {
            producers.add(format!("producer {}", at % 2).as_bytes(), format!("{at}").as_bytes(), StreamId::new(at, 1));
        }
        producers.find_again(b"producer 0", b"0", 0);
        *stream.producers_mut() = Some(Box::new(producers));
    }
    stream.add_group(b"group", group);
    stream.add_group(b"other", ConsumerGroup::new(StreamId::MIN, None));
    stream
}

/// Returns the contents of an entry.
pub(super) fn describe(entry: &Entry) -> Described {
    let mut elements: Vec<Vec<u8>> = Vec::new();
    let name = match entry.kind() {
        Type::String => {
            elements.push(entry.string().as_slice().to_vec());
            return ("string", elements);
        }
        Type::List => {
            let list = List::read(entry);
            list.iter().for_each(|item| elements.push(item.with_text(<[u8]>::to_vec)));
            return ("list", elements);
        }
        #[cfg(feature = "vectors")]
        Type::VectorSet => {
            let (mut body, options) =
                (MarkedBytes::default(), ValueOptions { compression: Compression::Never, len_max: 0 });
            payload::write_body(&mut body, kind::MODULE_2, entry, options);
            return ("vectorset", vec![body.to_vec()]);
        }
        Type::Stream => {
            let (mut body, options) =
                (MarkedBytes::default(), ValueOptions { compression: Compression::Never, len_max: 0 });
            payload::write_body(&mut body, kind::STREAM_LISTPACKS_5, entry, options);
            return ("stream", vec![body.to_vec()]);
        }
        Type::Set => {
            let set = Set::read(entry);
            set.iter().for_each(|member| elements.push(member.with_text(<[u8]>::to_vec)));
            "set"
        }
        Type::SortedSet => {
            let set = SortedSet::read(entry);
            for (member, score) in set.iter() {
                elements.push(member.with_text(|member| [&score.get().to_be_bytes()[..], member].concat()));
            }
            "sorted set"
        }
        Type::Hash => {
            let hash = Hash::read(entry);
            hash.for_each_timed(|field, value, deadline| {
                let pair = field.with(|field| value.with(|value| format!("{field:?} {value:?} {deadline:?}")));
                elements.push(pair.into_bytes());
            });
            "hash"
        }
        _ => {
            elements.push(Toy::read(entry).to_vec()); // as of any flat type
            return ("flat", elements);
        }
    };
    elements.sort();
    (name, elements)
}

/// Returns a few values of each type.
pub(super) fn samples() -> Vec<SampleValue> {
    let texts = |count: u8| (0..count).map(|at| format!("text:{at}").into_bytes()).collect::<Vec<_>>();
    let ints = |count: u8| (0..count).map(|at| (7 * i64::from(at) - 3).to_string().into_bytes()).collect::<Vec<_>>();
    let scores = [0.5, -1.0, f64::INFINITY, f64::NEG_INFINITY, 3.0e300];
    let field = |(at, text): (usize, Vec<u8>)| (text, at.to_string().into_bytes(), None);
    let timed = |(at, text): (usize, Vec<u8>)| (text, vec![b'v'; at], (at % 2 == 0).then_some(2_000_000_000_000));
    vec![
        SampleValue::Text(b"plain".to_vec()),
        SampleValue::Text(b"-12345".to_vec()),
        SampleValue::Text(vec![b'z'; 80]),
        SampleValue::List(texts(3)),
        SampleValue::List([texts(2), ints(2), vec![vec![b'l'; 150]], texts(1)].concat()),
        SampleValue::Set(ints(5)),
        SampleValue::Set(texts(5)),
        SampleValue::SortedSet(texts(5).into_iter().zip(scores).collect()),
        SampleValue::Hash(texts(4).into_iter().enumerate().map(field).collect()),
        SampleValue::Hash(texts(4).into_iter().enumerate().map(timed).collect()),
        SampleValue::Stream { count: 4, active: 5, is_new: false },
        SampleValue::Stream { count: 4, active: -1, is_new: false },
        SampleValue::Stream { count: 0, active: 5, is_new: false },
        SampleValue::Stream { count: 4, active: -1, is_new: true },
        SampleValue::Stream { count: 0, active: 5, is_new: true },
    ]
}

/// Returns texts: words, integers and arbitrary bytes.
pub(super) fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..30_u32).prop_map(|number| format!("word:{number}").into_bytes()),
        prop_oneof![-9..9_i64, any::<i64>()].prop_map(|number| number.to_string().into_bytes()),
        prop::collection::vec(prop_oneof![Just(b'a'), any::<u8>()], 0..100),
    ]
}

/// Returns values of every type, none of which is empty.
pub(super) fn any_sample() -> impl Strategy<Value = SampleValue> {
    let deadline = prop::option::of(1..1_i64 << 48);
    prop_oneof![
        any_text().prop_map(SampleValue::Text),
        prop::collection::vec(any_text(), 1..20).prop_map(SampleValue::List),
        prop::collection::vec(any_text(), 1..20).prop_map(SampleValue::Set),
        prop::collection::vec((-9..9_i64).prop_map(|number| number.to_string().into_bytes()), 1..20)
            .prop_map(SampleValue::Set),
        prop::collection::vec((any_text(), -1e9..1e9), 1..20).prop_map(SampleValue::SortedSet),
        prop::collection::vec((any_text(), any_text(), deadline), 1..20).prop_map(SampleValue::Hash),
        (0..20_u64, -1..9_i64, any::<bool>()).prop_map(|(count, active, is_new)| SampleValue::Stream {
            count,
            active,
            is_new
        }),
    ]
}
