//! ZRANDMEMBER: random members of a sorted set.

use std::collections::HashSet;

use crate::command::sorted_set::{reply_elements, reply_member};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::Lookup;
use crate::store::usage::Dice;
use crate::store::value::{SortedSet, SortedSetRef};

/// How many members, with repetitions, are returned at most: a larger number is a mistake, and its reply would not fit
/// into memory.
const REPEATED_MAX: u64 = 10_000_000;

/// A sample of more than one in so many members is drawn by visiting all of them.
const SPARSE: usize = 8;

const OUT_OF_RANGE: &str = "value is out of range";
const COUNT_RANGE: &str = "value is out of range, value must between -9223372036854775807 and 9223372036854775807";

pub(super) fn zrandmember(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let wanted = Wanted::read(call)?;
    let mut dice = call.view.dice(key);
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    match (set, wanted) {
        (None, Some(_)) => call.reply.array(0),
        (Some(set), Some(wanted)) => wanted.reply(&mut call.reply, set, &mut dice)?,
        (set, None) => match set.and_then(|set| set.random(&mut dice)) {
            Some((member, _)) => reply_member(&mut call.reply, member),
            None => call.reply.null(),
        },
    }
    Ok(())
}

/// The options of ZRANDMEMBER.
struct Wanted {
    count: u64,
    /// Whether the same member may be returned more than once.
    repeats: bool,
    with_scores: bool,
}

impl Wanted {
    /// Reads the options; `None` without any, where a single member is the reply.
    fn read(call: &mut Call<'_>) -> Result<Option<Self>> {
        if call.args.left() == 0 {
            return Ok(None);
        }
        let count = call.args.int()?;
        if count == i64::MIN {
            return Err(Error::other(COUNT_RANGE));
        }
        let with_scores = match (call.args.next_arg(), call.args.left()) {
            (None, _) => false,
            (Some(word), 0) if is_word(word, "WITHSCORES") => true,
            _ => return Err(Error::Syntax),
        };
        if with_scores && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(Error::other(OUT_OF_RANGE));
        }
        Ok(Some(Wanted { count: count.unsigned_abs(), repeats: count < 0, with_scores }))
    }

    fn reply(&self, reply: &mut Reply<'_>, set: SortedSetRef<'_>, dice: &mut Dice) -> Result<()> {
        let len = set.len();
        if self.repeats {
            if self.count > REPEATED_MAX {
                return Err(Error::other(OUT_OF_RANGE));
            }
            let elements = (0..self.count).filter_map(|_| set.random(dice));
            reply_elements(reply, self.count as usize, elements, self.with_scores);
            return Ok(());
        }
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(len);
        if count == len {
            reply_elements(reply, len, set.iter(), self.with_scores);
        } else if matches!(set, SortedSetRef::Packed(_)) || count > len / SPARSE {
            // Each is taken with the probability that the rest of the sample has among the rest of the elements.
            let mut wanted = count;
            let sample = (0..len).rev().zip(set.iter()).filter_map(|(behind, element)| {
                let is_taken = dice.below(behind + 1) < wanted;
                wanted -= usize::from(is_taken);
                is_taken.then_some(element)
            });
            reply_elements(reply, count, sample, self.with_scores);
        } else {
            let mut taken = HashSet::with_capacity(count);
            let ranks = std::iter::repeat_with(|| dice.below(len)).filter(|rank| taken.insert(*rank)).take(count);
            let sample = ranks.filter_map(|rank| set.elements(rank..rank + 1, false).next());
            reply_elements(reply, count, sample, self.with_scores);
        }
        Ok(())
    }
}
