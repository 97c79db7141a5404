//! Streams, which are never packed: an entry holds a [`BigStream`] behind a pointer (`big/stream/`).

use crate::store::entry::Entry;
use crate::store::value::big::boxes_len;
use crate::store::value::big::form::LargeForm;
use crate::store::value::{DataType, Type, Value};
use crate::time::clock::Deadline;

pub(crate) use crate::store::value::big::stream::{
    BigStream, Bound, Consumer, ConsumerGroup, ConsumerNumber, PendingEntry, Producers, References, Remembrance,
    StreamChunk, StreamEntry, StreamId, Trim, Trimmed, entries_of,
};

/// The data type of streams.
pub(crate) enum Stream {}

/// A borrowed stream.
pub(crate) type StreamRef<'e> = &'e BigStream;

/// A stream borrowed for a change.
pub(crate) type StreamMut<'e> = &'e mut BigStream;

/// The memory of the boxes between an entry and its stream.
const BOXES_LEN: usize = boxes_len::<BigStream>();

impl Entry {
    /// Creates an entry that holds a stream.
    pub(crate) fn stream(key: &[u8], stream: BigStream, deadline: Option<Deadline>) -> Self {
        Entry::boxed(key, Type::Stream, Box::new(Value::Stream(Box::new(stream))), deadline)
    }
}

impl DataType for Stream {
    const TYPE: Type = Type::Stream;
    type Ref<'e> = StreamRef<'e>;
    type Mut<'e> = StreamMut<'e>;

    fn read(entry: &Entry) -> StreamRef<'_> {
        match entry.value() {
            Some(Value::Stream(stream)) => stream,
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> StreamMut<'_> {
        match entry.value_mut() {
            Some(Value::Stream(stream)) => stream,
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn nothing<'e>() -> StreamRef<'e> {
        const { &BigStream::EMPTY }
    }

    fn create(key: &[u8]) -> Entry {
        Entry::stream(key, BigStream::default(), None)
    }

    /// Returns false: a stream without entries stays, because it has a last ID, and groups.
    fn is_empty(_: &Entry) -> bool {
        false
    }

    #[inline]
    fn memory(entry: &Entry) -> usize {
        match entry.value() {
            Some(Value::Stream(stream)) => entry.own_memory() + BOXES_LEN + stream.memory(),
            _ => entry.memory(),
        }
    }
}
