//! Fields of hashes: the key of a call, the growth of a hash, texts in replies, and the events of fields set or
//! removed.

use crate::dispatch::Call;
use crate::error::Result;
use crate::resp::Reply;
use crate::spec::WRITE;
use crate::store::value::{HashGrowth, HashText};
use crate::store::{Classes, Event, Key};

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

/// Takes the key of a call, and removes the fields that have expired, so that no handler finds them.
#[inline]
pub(super) fn hash_key<'a>(call: &mut Call<'a>) -> Result<Key<'a>> {
    let key = call.args.key()?;
    call.view.expire_fields(key, call.command.flags & WRITE != 0);
    Ok(key)
}
