//! Ranges of ranks, of scores and of members: ZRANGE and its older forms, ZRANGESTORE, ZREMRANGEBYRANK and related
//! commands.

use std::ops::Range;

use crate::command::elements::{resolve_range, store_result};
use crate::command::sorted_set::elements::{growth, reply_elements};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::shard::Edit;
use crate::store::value::{SortedSet, SortedSetRef};
use crate::store::{Classes, Event, Lookup};
use crate::text::bounds::{LexRange, ScoreRange};

/// The event of removing the members in a range of ranks.
const ZREMRANGEBYRANK: &Event = &Event::one(Classes::ZSET, "zremrangebyrank");
/// The event of removing the members with scores in a range.
const ZREMRANGEBYSCORE: &Event = &Event::one(Classes::ZSET, "zremrangebyscore");
/// The event of removing the members in a range of members.
const ZREMRANGEBYLEX: &Event = &Event::one(Classes::ZSET, "zremrangebylex");
/// The event of storing the elements of a range.
const ZRANGESTORE: &Event = &Event::one(Classes::ZSET, "zrangestore");

const LIMIT_BY_RANK: &str = "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
const SCORES_BY_MEMBER: &str = "syntax error, WITHSCORES not supported in combination with BYLEX";
const NOT_A_SCORE: &str = "min or max is not a float";
const NOT_A_MEMBER: &str = "min or max not valid string range item";

/// The kind of a range's ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ranks,
    Scores,
    Members,
}

/// The two ends of a range.
#[derive(Clone, Copy)]
enum Ends<'a> {
    /// The indexes of the first and the last element; negative ones count from the end.
    Ranks(i64, i64),
    Scores(ScoreRange),
    Members(LexRange<'a>),
}

/// The parsed arguments of a command.
struct Query<'a> {
    ends: Ends<'a>,
    is_reversed: bool,
    with_scores: bool,
    /// The number of elements of the range to skip; with a negative number, nothing is left.
    offset: i64,
    /// The number of elements to take from the rest; negative for all.
    count: i64,
}

/// The properties that a command fixes by its name, so that they are not options.
#[derive(Clone, Copy)]
struct Form {
    order: Option<Order>,
    is_reversed: Option<bool>,
    /// True if the elements are stored, so that scores need not be requested.
    stores: bool,
}

impl Form {
    const FREE: Form = Form { order: None, is_reversed: None, stores: false };
    const STORE: Form = Form { stores: true, ..Form::FREE };

    const fn fixed(order: Order, is_reversed: bool) -> Self {
        Form { order: Some(order), is_reversed: Some(is_reversed), stores: false }
    }
}

impl<'a> Query<'a> {
    /// Reads both ends and the options, which are checked first.
    fn read(args: &mut Args<'a>, form: Form) -> Result<Self> {
        let (first, second) = (args.bytes()?, args.bytes()?);
        let Form { mut order, mut is_reversed, stores } = form;
        let (mut with_scores, mut offset, mut count) = (false, 0, -1);
        while let Some(word) = args.next_arg() {
            if !stores && is_word(word, "WITHSCORES") {
                with_scores = true;
            } else if is_word(word, "LIMIT") && args.left() >= 2 {
                (offset, count) = (args.int()?, args.int()?);
            } else if form.is_reversed.is_none() && is_reversed.is_none() && is_word(word, "REV") {
                is_reversed = Some(true);
            } else if order.is_none() && is_word(word, "BYLEX") {
                order = Some(Order::Members);
            } else if order.is_none() && is_word(word, "BYSCORE") {
                order = Some(Order::Scores);
            } else {
                return Err(Error::Syntax);
            }
        }
        let (order, is_reversed) = (order.unwrap_or(Order::Ranks), is_reversed.unwrap_or(false));
        if count != -1 && order == Order::Ranks {
            return Err(Error::other(LIMIT_BY_RANK));
        }
        if with_scores && order == Order::Members {
            return Err(Error::other(SCORES_BY_MEMBER));
        }
        let is_swapped = is_reversed && order != Order::Ranks;
        let ends = Ends::read(order, if is_swapped { (second, first) } else { (first, second) })?;
        Ok(Query { ends, is_reversed, with_scores, offset, count })
    }

    /// Returns the ranks, from the lowest score, of the requested elements.
    fn ranks(&self, set: SortedSetRef<'_>) -> Range<usize> {
        let range = match &self.ends {
            Ends::Ranks(first, last) => {
                let (len, range) = (set.len(), resolve_range(*first, *last, set.len()));
                return if self.is_reversed { len - range.end..len - range.start } else { range };
            }
            Ends::Scores(range) => set.ranks_by_score(range),
            Ends::Members(range) => set.ranks_by_member(range, self.is_reversed),
        };
        let Some(offset) = usize::try_from(self.offset).ok().filter(|offset| *offset <= range.len()) else {
            return 0..0;
        };
        let count = usize::try_from(self.count).unwrap_or(usize::MAX).min(range.len() - offset);
        if self.is_reversed {
            range.end - offset - count..range.end - offset
        } else {
            range.start + offset..range.start + offset + count
        }
    }
}

impl<'a> Ends<'a> {
    fn read(order: Order, (min, max): (&'a [u8], &'a [u8])) -> Result<Self> {
        match order {
            Order::Ranks => match (parse_int(min), parse_int(max)) {
                (Some(first), Some(last)) => Ok(Ends::Ranks(first, last)),
                _ => Err(Error::NotInteger),
            },
            Order::Scores => ScoreRange::parse(min, max).map(Ends::Scores).ok_or_else(|| Error::other(NOT_A_SCORE)),
            Order::Members => LexRange::parse(min, max).map(Ends::Members).ok_or_else(|| Error::other(NOT_A_MEMBER)),
        }
    }

    fn ranks(&self, set: SortedSetRef<'_>) -> Range<usize> {
        match self {
            Ends::Ranks(first, last) => resolve_range(*first, *last, set.len()),
            Ends::Scores(range) => set.ranks_by_score(range),
            Ends::Members(range) => set.ranks_by_member(range, false),
        }
    }
}

pub(super) fn zrange(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::FREE)
}

pub(super) fn zrevrange(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::fixed(Order::Ranks, true))
}

pub(super) fn zrangebyscore(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::fixed(Order::Scores, false))
}

pub(super) fn zrevrangebyscore(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::fixed(Order::Scores, true))
}

pub(super) fn zrangebylex(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::fixed(Order::Members, false))
}

pub(super) fn zrevrangebylex(call: &mut Call<'_>) -> Result<()> {
    reply_range(call, Form::fixed(Order::Members, true))
}

fn reply_range(call: &mut Call<'_>, form: Form) -> Result<()> {
    let key = call.args.key()?;
    let query = Query::read(&mut call.args, form)?;
    let Some(set) = call.view.get::<SortedSet>(key, Lookup::READ)? else {
        call.reply.array(0);
        return Ok(());
    };
    let ranks = query.ranks(set);
    let elements = set.elements(ranks.clone(), query.is_reversed);
    reply_elements(&mut call.reply, ranks.len(), elements, query.with_scores);
    Ok(())
}

pub(super) fn zrangestore(call: &mut Call<'_>) -> Result<()> {
    let (target, source) = (call.args.key()?, call.args.key()?);
    let query = Query::read(&mut call.args, Form::STORE)?;
    let growth = growth(call);
    let stored = call.view.get::<SortedSet>(source, Lookup::READ)?.and_then(|set| {
        let ranks = query.ranks(set);
        let count = ranks.len();
        (count > 0).then(|| (SortedSet::entry(target.bytes, set.elements(ranks, false), growth), count))
    });
    store_result(call, target, stored, ZRANGESTORE);
    Ok(())
}

pub(super) fn zremrangebyrank(call: &mut Call<'_>) -> Result<()> {
    remove_range(call, Order::Ranks, ZREMRANGEBYRANK)
}

pub(super) fn zremrangebyscore(call: &mut Call<'_>) -> Result<()> {
    remove_range(call, Order::Scores, ZREMRANGEBYSCORE)
}

pub(super) fn zremrangebylex(call: &mut Call<'_>) -> Result<()> {
    remove_range(call, Order::Members, ZREMRANGEBYLEX)
}

/// Removes the elements at a range of ranks, which exist. A value that loses all its elements is freed as a whole.
pub(super) fn remove_ranks(edit: &mut Edit<'_, '_, SortedSet>, ranks: Range<usize>) {
    match ranks.len() {
        0 => {}
        all if all == edit.value().len() => edit.empty(all),
        some => {
            edit.change().remove_ranks(ranks);
            edit.count_more(some - 1);
        }
    }
}

fn remove_range(call: &mut Call<'_>, order: Order, event: &'static Event) -> Result<()> {
    let key = call.args.key()?;
    let ends = Ends::read(order, (call.args.bytes()?, call.args.bytes()?))?;
    let mut edit = call.view.edit::<SortedSet>(key, event)?;
    let ranks = ends.ranks(edit.value());
    let count = ranks.len();
    remove_ranks(&mut edit, ranks);
    drop(edit);
    call.reply.int(count as i64);
    Ok(())
}
