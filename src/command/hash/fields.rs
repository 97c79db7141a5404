//! Fields of hashes: the growth of a hash, texts in replies, and the events of fields set or
//! removed.

use crate::dispatch::Call;
use crate::resp::Reply;
use crate::store::value::{HashGrowth, HashText};
use crate::store::{Classes, Event};

/// The event of fields that were set.
pub(super) const HSET: &Event = &Event::one(Classes::HASH, "hset");
/// The event of fields that were removed.
pub(super) const HDEL: &Event = &Event::one(Classes::HASH, "hdel");

/// Writes a field or a value; a long text is shared.
#[inline]
pub(super) fn reply_text(reply: &mut Reply<'_>, text: HashText<'_>) {
    match text {
        HashText::Inline(text) => reply.bulk(text),
        HashText::Int(int) => reply.bulk_int(int),
        HashText::Shared(bytes) => reply.bulk_shared(bytes.clone()),
    }
}

/// Returns the rules for the encoding of a hash to which this call adds fields.
#[inline]
pub(super) fn growth<'a>(call: &Call<'a>) -> HashGrowth<'a> {
    HashGrowth { limit: call.config.limits().hash, hasher: call.namespace.store.hasher() }
}
