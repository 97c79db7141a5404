//! Deadlines of fields: HEXPIRE, HTTL, HPERSIST and related commands.

use crate::command::element_expiry::{self, Expiring, ExpiryWords, in_seconds};
use crate::command::hash::fields::HDEL;
use crate::command::ttl::Unit;
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::value::{Hash, HashMut, HashRef, SetRules};
use crate::store::{Classes, Event};

/// The words of the commands on fields, and their errors.
pub(super) const WORDS: &ExpiryWords = &ExpiryWords {
    block: "FIELDS",
    not_in_place: "Mandatory argument FIELDS is missing or not at the right position",
    no_such_number: "The `numfields` parameter must match the number of arguments",
    not_greater: "Parameter `numFields` should be greater than 0",
    not_positive: "Number of fields must be a positive integer",
    no_count: "FIELDS requires at least numfields and one field argument",
    two_blocks: "FIELDS keyword specified multiple times",
    no_block: "missing FIELDS argument",
    remove: "HDEL",
    expire_at: "HPEXPIREAT",
};

impl Expiring for Hash {
    const WORDS: &'static ExpiryWords = WORDS;
    const REMOVED: &'static Event = HDEL;
    const EXPIRES: &'static Event = &Event::one(Classes::HASH, "hexpire");
    const PERSISTED: &'static Event = &Event::one(Classes::HASH, "hpersist");

    fn deadline(hash: &HashRef<'_>, field: &[u8]) -> Option<Option<i64>> {
        hash.deadline(field)
    }

    fn set_deadline(hash: &mut HashMut<'_>, field: &[u8], deadline: Option<i64>, _: SetRules<'_>) {
        hash.set_deadline(field, deadline);
    }

    fn remove(hash: &mut HashMut<'_>, field: &[u8]) -> bool {
        hash.remove(field)
    }
}

pub(super) fn hexpire(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Hash>(call, Unit::Seconds)
}

pub(super) fn hpexpire(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Hash>(call, Unit::Milliseconds)
}

pub(super) fn hexpireat(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Hash>(call, Unit::UnixSeconds)
}

pub(super) fn hpexpireat(call: &mut Call<'_>) -> Result<()> {
    element_expiry::expire::<Hash>(call, Unit::UnixMilliseconds)
}

pub(super) fn httl(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Hash>(call, |end_ms, now_ms| in_seconds((end_ms - now_ms).max(0)))
}

pub(super) fn hpttl(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Hash>(call, |end_ms, now_ms| (end_ms - now_ms).max(0))
}

pub(super) fn hexpiretime(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Hash>(call, |end_ms, _| in_seconds(end_ms))
}

pub(super) fn hpexpiretime(call: &mut Call<'_>) -> Result<()> {
    element_expiry::reply_times::<Hash>(call, |end_ms, _| end_ms)
}

pub(super) fn hpersist(call: &mut Call<'_>) -> Result<()> {
    element_expiry::persist::<Hash>(call)
}
