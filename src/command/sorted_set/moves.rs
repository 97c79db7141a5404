//! ZMOVE, BZMOVE and ZMOVEMEMBER: members are moved from one sorted set to another with their scores.

use std::collections::HashSet;
use std::ops::Range;

use crate::command::sorted_set::add::{ZREM, ZaddOptions, put};
use crate::command::sorted_set::pop::{End, is_served, read_end};
use crate::command::sorted_set::range::remove_ranks;
use crate::command::timeout::read_timeout_in_seconds;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::value::sorted_set::ScoredElements;
use crate::store::value::{SortedSet, SortedSetRef};
use crate::store::{Key, Lookup};
use crate::text::bounds::ScoreRange;
use crate::text::double::write_double;

/// Number of members in each of the logged commands.
const LOGGED_AT_ONCE: usize = 512;

const COUNT_NOT_POSITIVE: &str = "count should be greater than 0";
const MEMBERS_NOT_POSITIVE: &str = "num-members should be greater than 0";
const NO_SUCH_NUMBER: &str = "The `num-members` parameter must match the number of arguments";

pub(super) fn zmove(call: &mut Call<'_>) -> Result<()> {
    let keys = KeyPair::read(call)?;
    let selection = Selection::read(&mut call.args)?;
    let count = read_count(&mut call.args)?.unwrap_or(selection.default_count());
    if !keys.move_selected(call, &selection, count)? {
        call.reply.null_array();
    }
    Ok(())
}

pub(super) fn bzmove(call: &mut Call<'_>) -> Result<()> {
    let keys = KeyPair::read(call)?;
    let selection = Selection::End(read_end(&mut call.args)?);
    let timeout = call.args.bytes()?;
    let count = read_count(&mut call.args)?.unwrap_or(selection.default_count());
    let until_ms = read_timeout_in_seconds(call, timeout)?;
    if is_served(call, &[keys.source]) && keys.move_selected(call, &selection, count)? {
        return Ok(());
    }
    if keys.is_same() {
        call.reply.null_array();
    } else {
        call.block_on_keys::<SortedSet>(until_ms, |reply| reply.null_array());
    }
    Ok(())
}

pub(super) fn zmovemember(call: &mut Call<'_>) -> Result<()> {
    let keys = KeyPair::read(call)?;
    let condition = Condition::read(&mut call.args)?;
    let count = call.args.positive(MEMBERS_NOT_POSITIVE)?;
    if count != call.args.left() {
        return Err(Error::other(NO_SUCH_NUMBER));
    }
    let moved = keys.named_members(call, condition)?;
    if moved.len() == 0 {
        call.reply.null_array();
        return Ok(());
    }
    let mut edit = call.view.edit::<SortedSet>(keys.source, ZREM)?;
    if let Some(mut set) = edit.annotate() {
        for member in moved.texts() {
            set.remove(member);
        }
    }
    edit.count_more(moved.len());
    drop(edit);
    let members: Vec<&[u8]> = moved.texts().collect();
    for members in members.chunks(LOGGED_AT_ONCE) {
        let words: Vec<&[u8]> = [&b"ZREM"[..], keys.source.bytes].into_iter().chain(members.iter().copied()).collect();
        call.log(&words);
    }
    keys.add(call, &moved)
}

/// Parses `COUNT count`, with which a request ends.
fn read_count(args: &mut Args<'_>) -> Result<Option<usize>> {
    let Some(word) = args.next_arg() else { return Ok(None) };
    if !is_word(word, "COUNT") || args.left() != 1 {
        return Err(Error::Syntax);
    }
    args.positive(COUNT_NOT_POSITIVE).map(Some)
}

/// The members to be moved.
enum Selection {
    /// Members with the lowest or the highest scores.
    End(End),
    /// Members with scores in a range, from the lowest on.
    Scores(ScoreRange),
}

impl Selection {
    fn read(args: &mut Args<'_>) -> Result<Self> {
        if args.rest().next().is_some_and(|word| is_word(word, "BYSCORE")) {
            args.next_arg();
            if args.left() < 2 {
                return Err(Error::Syntax);
            }
            return args.score_range().map(Selection::Scores);
        }
        read_end(args).map(Selection::End)
    }

    /// Returns the maximum number of members without `COUNT`.
    fn default_count(&self) -> usize {
        match self {
            Selection::End(_) => 1,
            Selection::Scores(_) => usize::MAX,
        }
    }

    /// Returns the ranks of up to `count` of the members.
    fn ranks(&self, set: SortedSetRef<'_>, count: usize) -> Range<usize> {
        let range = match self {
            Selection::End(_) => 0..set.len(),
            Selection::Scores(range) => set.ranks_by_score(range),
        };
        let count = count.min(range.len());
        match self {
            Selection::End(End::Max) => range.end - count..range.end,
            _ => range.start..range.start + count,
        }
    }
}

/// The members of the destination that may be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    None,
    /// The destination must not have the member.
    IsMissing,
    /// The destination must have the member.
    IsThere,
}

impl Condition {
    /// Parses the condition and the word `MEMBERS` behind it.
    fn read(args: &mut Args<'_>) -> Result<Self> {
        let mut condition = Condition::None;
        let mut word = args.bytes()?;
        if is_word(word, "NX") || is_word(word, "XX") {
            condition = if is_word(word, "NX") { Condition::IsMissing } else { Condition::IsThere };
            word = args.bytes()?;
        }
        if is_word(word, "MEMBERS") { Ok(condition) } else { Err(Error::Syntax) }
    }
}

/// The sorted set that members are moved from, and the one that they are moved to.
struct KeyPair<'a> {
    source: Key<'a>,
    target: Key<'a>,
}

impl<'a> KeyPair<'a> {
    fn read(call: &mut Call<'a>) -> Result<Self> {
        Ok(KeyPair { source: call.args.key()?, target: call.args.key()? })
    }

    fn is_same(&self) -> bool {
        self.source.bytes == self.target.bytes
    }

    /// Moves members and replies with them. Returns false, without a reply, if there are none.
    fn move_selected(&self, call: &mut Call<'_>, selection: &Selection, count: usize) -> Result<bool> {
        let Some(set) = call.view.get::<SortedSet>(self.source, Lookup::WRITE)? else { return Ok(false) };
        let ranks = if self.is_same() { 0..0 } else { selection.ranks(set, count) };
        let is_reversed = matches!(selection, Selection::End(End::Max));
        let moved = MovedMembers::copy(set.elements(ranks.clone(), is_reversed), ranks.len());
        call.view.get::<SortedSet>(self.target, Lookup::WRITE)?;
        if ranks.is_empty() {
            return Ok(false);
        }
        let event = match selection {
            Selection::End(end) => end.event(),
            Selection::Scores(_) => ZREM,
        };
        let mut edit = call.view.edit::<SortedSet>(self.source, event)?;
        remove_ranks(&mut edit, ranks.clone());
        drop(edit);
        let (mut first, mut last) = (itoa::Buffer::new(), itoa::Buffer::new());
        let ranks = [first.format(ranks.start).as_bytes(), last.format(ranks.end - 1).as_bytes()];
        call.log(&[b"ZREMRANGEBYRANK", self.source.bytes, ranks[0], ranks[1]]);
        self.add(call, &moved)?;
        Ok(true)
    }

    /// Copies the members at the end of the request that are to be moved, each once.
    fn named_members(&self, call: &mut Call<'_>, condition: Condition) -> Result<MovedMembers> {
        let mut moved = MovedMembers::default();
        let Some(set) = call.view.get::<SortedSet>(self.source, Lookup::WRITE)? else { return Ok(moved) };
        if self.is_same() {
            return Ok(moved);
        }
        let mut seen = HashSet::new();
        let found: Vec<(&[u8], f64)> = (call.args.rest())
            .filter_map(|member| set.score(member).map(|score| (member, score)))
            .filter(|(member, _)| seen.insert(*member))
            .collect();
        let target = call.view.get::<SortedSet>(self.target, Lookup::WRITE)?;
        for (member, score) in found {
            let is_there = target.is_some_and(|target| target.score(member).is_some());
            match condition {
                Condition::IsMissing if is_there => {}
                Condition::IsThere if !is_there => {}
                _ => moved.push(member, score),
            }
        }
        Ok(moved)
    }

    /// Adds the members to the destination, logs that, and replies with them.
    fn add(&self, call: &mut Call<'_>, moved: &MovedMembers) -> Result<()> {
        put(call, self.target, ZaddOptions::default(), &moved.scores, moved.texts())?;
        for first in (0..moved.len()).step_by(LOGGED_AT_ONCE) {
            let chunk = || moved.texts().zip(&moved.scores).skip(first).take(LOGGED_AT_ONCE);
            let scores: Vec<_> = chunk().map(|(_, score)| write_double(*score)).collect();
            let mut words: Vec<&[u8]> = vec![b"ZADD", self.target.bytes];
            for ((member, _), score) in chunk().zip(&scores) {
                words.extend([score, member]);
            }
            call.log(&words);
        }
        moved.reply(&mut call.reply);
        Ok(())
    }
}

/// Copies of members with their scores, in the order of the reply.
#[derive(Default)]
struct MovedMembers {
    /// The texts of all members, in a row.
    texts: Vec<u8>,
    /// The end of each text.
    ends: Vec<usize>,
    scores: Vec<f64>,
}

impl MovedMembers {
    fn copy(elements: ScoredElements<'_>, count: usize) -> Self {
        let mut moved =
            MovedMembers { texts: Vec::new(), ends: Vec::with_capacity(count), scores: Vec::with_capacity(count) };
        elements.for_each(|(member, score)| member.with_text(|text| moved.push(text, score.get())));
        moved
    }

    fn push(&mut self, member: &[u8], score: f64) {
        self.texts.extend_from_slice(member);
        self.ends.push(self.texts.len());
        self.scores.push(score);
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|at| &self.texts[at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]])
    }

    /// Replies with pairs of member and score, which are arrays in both protocols, as those of ZMPOP.
    fn reply(&self, reply: &mut Reply<'_>) {
        reply.array(self.len());
        for (member, score) in self.texts().zip(&self.scores) {
            reply.array(2);
            reply.bulk(member);
            reply.double(*score);
        }
    }
}
