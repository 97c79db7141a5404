//! Members of sets in replies, the rules for the encoding of sets, and the events of members added or removed.

use crate::command::elements::reply_item;
use crate::dispatch::Call;
use crate::resp::Reply;
use crate::store::value::{SetRef, SetRules};
use crate::store::{Classes, Event};

/// The event of adding members to a set.
pub(super) const SADD: &Event = &Event::one(Classes::SET, "sadd");
/// The event of removing members from a set.
pub(super) const SREM: &Event = &Event::one(Classes::SET, "srem");

/// Returns the rules for the encoding of a set to which this call adds members.
#[inline]
pub(super) fn rules<'a>(call: &Call<'a>) -> SetRules<'a> {
    SetRules::new(call.config.limits(), call.namespace.store.hasher())
}

pub(super) fn reply_set(reply: &mut Reply<'_>, set: SetRef<'_>) {
    reply.set(set.len());
    set.iter().for_each(|member| reply_item(reply, member));
}
