//! Members of sets in replies, and how those that are added are stored.

use crate::command::elements::reply_item;
use crate::dispatch::Call;
use crate::resp::Reply;
use crate::store::value::{SetRef, SetRules};

/// Returns what decides how a set is stored that this call adds to.
#[inline]
pub(super) fn rules<'a>(call: &Call<'a>) -> SetRules<'a> {
    SetRules::new(call.config.limits(), call.namespace.store.hasher())
}

/// Writes all members of a set.
pub(super) fn reply_set(reply: &mut Reply<'_>, set: SetRef<'_>) {
    reply.set(set.len());
    set.iter().for_each(|member| reply_item(reply, member));
}
