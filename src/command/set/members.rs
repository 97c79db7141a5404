//! Members of sets in replies, and the rules for the encoding of sets.

use crate::command::elements::reply_item;
use crate::dispatch::Call;
use crate::resp::Reply;
use crate::store::value::{SetRef, SetRules};

/// Returns the rules for the encoding of a set to which this call adds members.
#[inline]
pub(super) fn rules<'a>(call: &Call<'a>) -> SetRules<'a> {
    SetRules::new(call.config.limits(), call.namespace.store.hasher())
}

pub(super) fn reply_set(reply: &mut Reply<'_>, set: SetRef<'_>) {
    reply.set(set.len());
    set.iter().for_each(|member| reply_item(reply, member));
}
