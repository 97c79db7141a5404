//! HRANDFIELD: random fields of a hash.

use crate::command::element_expiry::unexpired_key;
use crate::command::elements::{RandomSample, announce, reply_repeated};
use crate::command::hash::fields::reply_text;
use crate::dispatch::Call;
use crate::error::Result;
use crate::resp::Reply;
use crate::store::Lookup;
use crate::store::usage::Dice;
use crate::store::value::{HashText, VisibleHash};

pub(super) fn hrandfield(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let sample = RandomSample::read(&mut call.args, "WITHVALUES")?;
    let mut dice = call.view.dice(key);
    let hash = call.view.get_hash(key, Lookup::READ)?;
    match (hash, sample) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.array(0),
        (Some(hash), None) => match hash.draw().one(&mut dice) {
            Some((field, _)) => reply_text(&mut call.reply, field),
            None => call.reply.null(),
        },
        (Some(hash), Some((sample, with_values))) => {
            reply_sample(&mut call.reply, hash, &mut dice, sample, with_values)?
        }
    }
    Ok(())
}

fn reply_sample(
    reply: &mut Reply<'_>,
    hash: VisibleHash<'_>,
    dice: &mut Dice,
    sample: RandomSample,
    with_values: bool,
) -> Result<()> {
    let pair = |reply: &mut Reply<'_>, field, value| reply_pair(reply, field, value, with_values);
    let draw = hash.draw();
    match sample {
        RandomSample::Repeated(count) => {
            let each = |reply: &mut Reply<'_>| {
                if let Some((field, value)) = draw.one(dice) {
                    pair(reply, field, value);
                }
            };
            reply_repeated(reply, count, |reply, count| announce(reply, count, with_values), each)?;
        }
        RandomSample::Different(count) if count < hash.len() => {
            announce(reply, count, with_values);
            draw.several(count, dice).into_iter().for_each(|(field, value)| pair(reply, field, value));
        }
        RandomSample::Different(_) => {
            announce(reply, hash.len(), with_values);
            hash.for_each(|field, value| pair(reply, field, value));
        }
    }
    Ok(())
}

fn reply_pair(reply: &mut Reply<'_>, field: HashText<'_>, value: HashText<'_>, with_values: bool) {
    if with_values {
        reply.pair();
    }
    reply_text(reply, field);
    if with_values {
        reply_text(reply, value);
    }
}
