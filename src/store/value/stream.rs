//! Streams: an ordered map of packed chunks of entries, and the groups of consumers beside.

use crate::store::entry::Entry;
use crate::store::value::{Kind, Type, Value};

/// The data type of streams.
pub(crate) enum Stream {}

/// A borrowed stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRef<'e>(Option<&'e BigStream>);

/// A stream borrowed to be changed.
pub(crate) struct StreamMut<'e>(&'e mut BigStream);

/// A stream.
#[derive(Debug, Default)]
pub(crate) struct BigStream {}

impl BigStream {
    /// Returns the bytes allocated, without this struct itself.
    pub(super) fn memory(&self) -> usize {
        0
    }

    /// Returns the cost of freeing it, in units of one allocation.
    pub(super) fn effort(&self) -> usize {
        1
    }

    /// Returns a copy that shares no memory with the original.
    pub(super) fn copy(&self) -> Self {
        BigStream {}
    }
}

impl Kind for Stream {
    const TYPE: Type = Type::Stream;
    type Ref<'e> = StreamRef<'e>;
    type Mut<'e> = StreamMut<'e>;

    fn read(entry: &Entry) -> StreamRef<'_> {
        match entry.value() {
            Some(Value::Stream(stream)) => StreamRef(Some(stream)),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn write(entry: &mut Entry) -> StreamMut<'_> {
        match entry.value_mut() {
            Some(Value::Stream(stream)) => StreamMut(stream),
            _ => unreachable!("the type of the value was checked"),
        }
    }

    fn nothing<'e>() -> StreamRef<'e> {
        StreamRef(None)
    }

    fn create(key: &[u8]) -> Entry {
        Entry::boxed(key, Type::Stream, Box::new(Value::Stream(Box::default())), None)
    }

    /// A stream without entries stays: it has a last identifier, and groups.
    fn is_empty(_: StreamRef<'_>) -> bool {
        false
    }
}
