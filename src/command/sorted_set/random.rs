//! ZRANDMEMBER: random members of a sorted set.

use std::collections::HashSet;

use crate::command::elements::{RandomSample, announce, reply_item, reply_repeated};
use crate::command::sorted_set::elements::{reply_element, reply_elements};
use crate::dispatch::Call;
use crate::error::Result;
use crate::resp::Reply;
use crate::store::Lookup;
use crate::store::usage::{Dice, RandomSelection};
use crate::store::value::{SortedSet, SortedSetRef};

/// The part of the members above which a sample is drawn by visiting all of them: 1 in this many.
const SPARSE: usize = 8;

pub(super) fn zrandmember(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let sample = RandomSample::read(&mut call.args, "WITHSCORES")?;
    let mut dice = call.view.dice(key);
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    match (set, sample) {
        (None, Some(_)) => call.reply.array(0),
        (Some(set), Some((sample, with_scores))) => reply_sample(&mut call.reply, set, &mut dice, sample, with_scores)?,
        (set, None) => match set.and_then(|set| set.random(&mut dice)) {
            Some((member, _)) => reply_item(&mut call.reply, member),
            None => call.reply.null(),
        },
    }
    Ok(())
}

fn reply_sample(
    reply: &mut Reply<'_>,
    set: SortedSetRef<'_>,
    dice: &mut Dice,
    sample: RandomSample,
    with_scores: bool,
) -> Result<()> {
    let len = set.len();
    let count = match sample {
        RandomSample::Repeated(count) => {
            let each = |reply: &mut Reply<'_>| {
                if let Some(element) = set.random(dice) {
                    reply_element(reply, element, with_scores);
                }
            };
            return reply_repeated(reply, count, |reply, count| announce(reply, count, with_scores), each);
        }
        RandomSample::Different(count) => count.min(len),
    };
    if count == len {
        reply_elements(reply, len, set.iter(), with_scores);
    } else if matches!(set, SortedSetRef::Packed(_)) || count > len / SPARSE {
        let mut selection = RandomSelection::new(count, len);
        reply_elements(reply, count, set.iter().filter(|_| selection.takes(dice)), with_scores);
    } else {
        let mut taken = HashSet::with_capacity(count);
        let ranks = std::iter::repeat_with(|| dice.below(len)).filter(|rank| taken.insert(*rank)).take(count);
        let sample = ranks.filter_map(|rank| set.elements(rank..rank + 1, false).next());
        reply_elements(reply, count, sample, with_scores);
    }
    Ok(())
}
