//! Keys in the format of etcd, read and written.

use bytes::Bytes;

use crate::engine::stored::StoredKey;
use crate::engine::ttl::CountedTtl;
use crate::memory::marked::MarkedBytes;
use crate::rdb::{Compression, Reader, VERSION_7_4};
use crate::store::entry::Entry;
use crate::store::limits::ValueLimits;
use crate::store::value::Type;
use crate::store::{Hasher, StringHint};
use crate::time::clock::{Deadline, Now};
use crate::types::payload::{ValueOptions, ValueTarget, kind_of, read_dump, write_body};

/// Converts an entry to its stored form.
pub(super) fn encode(entry: &Entry, fence: i64, ttl: Option<CountedTtl>, now: Now) -> StoredKey {
    let (mut body, kind) = (MarkedBytes::default(), kind_of(entry, VERSION_7_4));
    write_body(&mut body, kind, entry, ValueOptions { compression: Compression::Never, len_max: 0 });
    StoredKey {
        kind: kind.into(),
        body: Bytes::from(body.into_parts().0),
        ttl: ttl.map(|ttl| ttl.stored(now)),
        fence,
        hint: entry.hint() as u32,
        ..StoredKey::default()
    }
}

/// Reads an entry; `None` if it is malformed.
pub(super) fn decode(
    stored: &StoredKey,
    key: &[u8],
    deadline: Option<Deadline>,
    limits: ValueLimits,
    hasher: &Hasher,
) -> Option<Entry> {
    let options = ValueOptions { compression: Compression::Never, len_max: stored.body.len() };
    let target = ValueTarget { key, deadline, limits, hasher };
    let mut reader = Reader::new(&stored.body);
    let mut entry = read_dump(u8::try_from(stored.kind).ok()?, &mut reader, target, options).ok()?;
    let hints = [StringHint::Plain, StringHint::NotInt, StringHint::Raw];
    let hint = hints.into_iter().find(|hint| *hint as u32 == stored.hint && *hint != StringHint::Plain);
    if let Some(hint) = hint.filter(|_| entry.is_of(Type::String)) {
        entry.set_hint(hint);
    }
    reader.rest().is_empty().then_some(entry)
}
