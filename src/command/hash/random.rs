//! HRANDFIELD: random fields of a hash.

use crate::command::hash::{hash_key, reply_text};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::Lookup;
use crate::store::usage::Dice;
use crate::store::value::{Hash, HashRef, HashText};

/// How many fields, with repetitions, are returned at most: a larger number is a mistake, and its reply would not fit
/// into memory.
const REPEATED_MAX: u64 = 10_000_000;

const OUT_OF_RANGE: &str = "value is out of range";
const COUNT_RANGE: &str = "value is out of range, value must between -9223372036854775807 and 9223372036854775807";

pub(super) fn hrandfield(call: &mut Call<'_>) -> Result<()> {
    let key = hash_key(call)?;
    let wanted = Wanted::read(call)?;
    let mut dice = call.view.dice(key);
    let hash = call.view.get::<Hash>(key, Lookup::READ)?;
    match (hash, wanted) {
        (None, None) => call.reply.null(),
        (None, Some(_)) => call.reply.array(0),
        (Some(hash), None) => match hash.random(&mut dice) {
            Some((field, _)) => reply_text(&mut call.reply, field),
            None => call.reply.null(),
        },
        (Some(hash), Some(wanted)) => wanted.reply(&mut call.reply, hash, &mut dice)?,
    }
    Ok(())
}

/// The options of HRANDFIELD.
struct Wanted {
    count: u64,
    /// Whether the same field may be returned more than once.
    repeats: bool,
    with_values: bool,
}

impl Wanted {
    /// Reads the options; `None` without any, where a single field is the reply.
    fn read(call: &mut Call<'_>) -> Result<Option<Self>> {
        if call.args.left() == 0 {
            return Ok(None);
        }
        let count = call.args.int()?;
        if count == i64::MIN {
            return Err(Error::other(COUNT_RANGE));
        }
        let with_values = match (call.args.next_arg(), call.args.left()) {
            (None, _) => false,
            (Some(word), 0) if is_word(word, "WITHVALUES") => true,
            _ => return Err(Error::Syntax),
        };
        if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(Error::other(OUT_OF_RANGE));
        }
        Ok(Some(Wanted { count: count.unsigned_abs(), repeats: count < 0, with_values }))
    }

    fn reply(&self, reply: &mut Reply<'_>, hash: HashRef<'_>, dice: &mut Dice) -> Result<()> {
        if self.repeats {
            if self.count > REPEATED_MAX {
                return Err(Error::other(OUT_OF_RANGE));
            }
            self.announce(reply, self.count as usize);
            for (field, value) in (0..self.count).filter_map(|_| hash.random(dice)) {
                self.reply_pair(reply, field, value);
            }
            return Ok(());
        }
        let len = hash.len();
        match usize::try_from(self.count) {
            Ok(count) if count < len => {
                self.announce(reply, count);
                hash.sample(count, dice).into_iter().for_each(|(field, value)| self.reply_pair(reply, field, value));
            }
            _ => {
                self.announce(reply, len);
                hash.for_each(|field, value| self.reply_pair(reply, field, value));
            }
        }
        Ok(())
    }

    fn announce(&self, reply: &mut Reply<'_>, count: usize) {
        match self.with_values {
            true => reply.pairs(count),
            false => reply.array(count),
        }
    }

    fn reply_pair(&self, reply: &mut Reply<'_>, field: HashText<'_>, value: HashText<'_>) {
        if self.with_values {
            reply.pair();
        }
        reply_text(reply, field);
        if self.with_values {
            reply_text(reply, value);
        }
    }
}
