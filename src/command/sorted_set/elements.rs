//! Elements of sorted sets in replies, and the rules for the encoding of sorted sets.

use crate::command::elements::{announce, reply_item};
use crate::dispatch::Call;
use crate::resp::Reply;
use crate::store::value::listpack::StoredElement;
use crate::store::value::sorted_set::Score;
use crate::store::{Hasher, PackedLimit};

/// Returns the rules for the encoding of a sorted set to which this call adds: the limit of the packed encoding, and
/// the hasher for members in the other one.
#[inline]
pub(super) fn growth<'a>(call: &Call<'a>) -> (PackedLimit, &'a Hasher) {
    (call.config.limits().zset, call.namespace.store.hasher())
}

/// Replies with members, or with members and scores.
pub(super) fn reply_elements<'e>(
    reply: &mut Reply<'_>,
    count: usize,
    elements: impl Iterator<Item = (StoredElement<'e>, Score<'e>)>,
    with_scores: bool,
) {
    announce(reply, count, with_scores);
    elements.for_each(|element| reply_element(reply, element, with_scores));
}

/// Replies with a member, or with a member and its score.
#[inline]
pub(super) fn reply_element(reply: &mut Reply<'_>, (member, score): (StoredElement<'_>, Score<'_>), with_scores: bool) {
    if with_scores {
        reply.pair();
    }
    reply_item(reply, member);
    if with_scores {
        reply.double(score.get());
    }
}
