//! ZADD, ZINCRBY and ZREM.

use smallvec::SmallVec;

use crate::command::sorted_set::elements::growth;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::store::value::SortedSet;
use crate::store::{Classes, Event, Key};
use crate::text::double::parse_double;

/// The event of adding members, or changing their scores.
const ZADD: &Event = &Event::one(Classes::ZSET, "zadd");
/// The event of incrementing a score.
const ZINCR: &Event = &Event::one(Classes::ZSET, "zincr");
/// The event of removing members.
pub(super) const ZREM: &Event = &Event::one(Classes::ZSET, "zrem");

const NX_AND_XX: &str = "XX and NX options at the same time are not compatible";
const GT_AND_LT: &str = "GT, LT, and/or NX options at the same time are not compatible";
const SINGLE_INCREMENT: &str = "INCR option supports a single increment-element pair";
const NOT_A_NUMBER: &str = "resulting score is not a number (NaN)";

/// The options of ZADD: conditions for setting a score, and the contents of the reply.
#[derive(Clone, Copy, Default)]
pub(in crate::command) struct ZaddOptions {
    pub only_new: bool,
    pub only_existing: bool,
    only_greater: bool,
    only_less: bool,
    pub counts_changes: bool,
    increments: bool,
}

/// The outcome for a member.
#[derive(Clone, Copy)]
enum Outcome {
    /// The conditions are not met.
    Refused,
    /// The sum of two infinite scores is not a number.
    NotANumber,
    /// The member gets this score, which may be its present one.
    Set(f64),
}

impl ZaddOptions {
    /// Reads the options before the first score.
    fn read(args: &mut Args<'_>) -> Self {
        let mut options = ZaddOptions::default();
        while let Some(word) = args.rest().next() {
            match word {
                // A number is not an option; most calls have none.
                [b'0'..=b'9' | b'-' | b'+' | b'.', ..] => break,
                word if is_word(word, "NX") => options.only_new = true,
                word if is_word(word, "XX") => options.only_existing = true,
                word if is_word(word, "GT") => options.only_greater = true,
                word if is_word(word, "LT") => options.only_less = true,
                word if is_word(word, "CH") => options.counts_changes = true,
                word if is_word(word, "INCR") => options.increments = true,
                _ => break,
            }
            args.next_arg();
        }
        options
    }

    fn check(self, elements: usize) -> Result<()> {
        let ZaddOptions { only_new, only_existing, only_greater, only_less, increments, .. } = self;
        if only_new && only_existing {
            Err(Error::other(NX_AND_XX))
        } else if only_new && (only_greater || only_less) || only_greater && only_less {
            Err(Error::other(GT_AND_LT))
        } else if increments && elements > 1 {
            Err(Error::other(SINGLE_INCREMENT))
        } else {
            Ok(())
        }
    }

    /// Decides the outcome for a member that has the score `old`, or is missing.
    #[inline]
    fn judge(self, old: Option<f64>, score: f64) -> Outcome {
        let Some(old) = old else {
            return if self.only_existing { Outcome::Refused } else { Outcome::Set(score) };
        };
        let new = if self.increments { old + score } else { score };
        match new {
            _ if self.only_new => Outcome::Refused,
            _ if new.is_nan() => Outcome::NotANumber,
            _ if self.only_less && new >= old || self.only_greater && new <= old => Outcome::Refused,
            _ => Outcome::Set(new),
        }
    }
}

pub(super) fn zadd(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let options = ZaddOptions::read(&mut call.args);
    add(call, key, options)
}

pub(super) fn zincrby(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    add(call, key, ZaddOptions { increments: true, ..ZaddOptions::default() })
}

/// Adds the pairs of score and member to the end of the request.
fn add(call: &mut Call<'_>, key: Key<'_>, options: ZaddOptions) -> Result<()> {
    let pairs = call.args.rest();
    if pairs.len() == 0 || !pairs.len().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    options.check(pairs.len() / 2)?;
    // All scores are parsed before the first one is stored.
    let mut scores: SmallVec<[f64; 8]> = SmallVec::with_capacity(pairs.len() / 2);
    for word in pairs.clone().step_by(2) {
        scores.push(parse_double(word).ok_or(Error::NotFloat)?);
    }
    let members = pairs.skip(1).step_by(2);
    let tally = put(call, key, options, &scores, members)?;
    match (tally.last, options.increments) {
        (Outcome::NotANumber, _) => return Err(Error::other(NOT_A_NUMBER)),
        (Outcome::Set(score), true) => call.reply.double(score),
        (Outcome::Refused, true) => call.reply.null(),
        (_, false) => call.reply.int(tally.count(options) as i64),
    }
    Ok(())
}

/// The effects of a call.
pub(in crate::command) struct ZaddCounts {
    added: usize,
    updated: usize,
    /// The outcome for the last member.
    last: Outcome,
}

impl ZaddCounts {
    /// Returns the number of members to reply with.
    pub(in crate::command) fn count(&self, options: ZaddOptions) -> usize {
        if options.counts_changes { self.added + self.updated } else { self.added }
    }
}

/// Sets the scores of members, each if the options allow it.
///
/// # Errors
/// [`Error::WrongType`].
pub(in crate::command) fn put<'a>(
    call: &mut Call<'_>,
    key: Key<'_>,
    options: ZaddOptions,
    scores: &[f64],
    members: impl Iterator<Item = &'a [u8]>,
) -> Result<ZaddCounts> {
    let growth = growth(call);
    let mut tally = ZaddCounts { added: 0, updated: 0, last: Outcome::Refused };
    let event: &'static Event = if options.increments { ZINCR } else { ZADD };
    let mut edit = call.view.edit::<SortedSet>(key, event)?;
    let is_new = !edit.exists();
    if is_new && options.only_existing {
        return Ok(tally);
    }
    // Creating the key is a change by itself; of an existing key only the changes below count.
    let set = if is_new { Some(edit.change()) } else { edit.annotate() };
    let Some(mut set) = set else { return Ok(tally) };
    if is_new {
        set.prepare_for(scores.len(), growth);
    }
    for (score, member) in scores.iter().zip(members) {
        set.put(member, growth, |old| {
            tally.last = options.judge(old, *score);
            let Outcome::Set(new) = tally.last else { return None };
            match old {
                None => tally.added += 1,
                Some(old) => tally.updated += usize::from(old != new),
            }
            Some(new)
        });
    }
    edit.count_more(tally.added + tally.updated - usize::from(is_new));
    Ok(tally)
}

pub(super) fn zrem(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut edit = call.view.edit::<SortedSet>(key, ZREM)?;
    let mut removed = 0;
    if let Some(mut set) = edit.annotate() {
        removed = call.args.rest().filter(|member| set.remove(member)).count();
    }
    edit.count_more(removed);
    drop(edit);
    call.reply.int(removed as i64);
    Ok(())
}
