//! Commands that read single members, or count them: ZSCORE, ZRANK, ZCOUNT, ZSCAN and related commands.

use crate::command::elements::reply_item;
use crate::command::scan_elements::{ElementScan, NO_SCORES, read_cursor, reply_nothing};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::{Reply, format_general};
use crate::store::Lookup;
use crate::store::value::SortedSet;
use crate::store::value::listpack::StoredElement;
use crate::store::value::sorted_set::{BigSortedSet, Score, SortedSetRef};

/// The significant digits of scores that ZSCAN reads from a big sorted set.
const SCAN_DIGITS: i32 = 17;

pub(super) fn zcard(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = call.view.get::<SortedSet>(key, Lookup::READ)?.map_or(0, SortedSetRef::len);
    call.reply.int(len as i64);
    Ok(())
}

pub(super) fn zscore(call: &mut Call<'_>) -> Result<()> {
    let (key, member) = (call.args.key()?, call.args.bytes()?);
    match call.view.get::<SortedSet>(key, Lookup::READ)?.and_then(|set| set.score(member)) {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

pub(super) fn zmscore(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    call.reply.array(call.args.left());
    while let Some(member) = call.args.next_arg() {
        match set.and_then(|set| set.score(member)) {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn zcount(call: &mut Call<'_>) -> Result<()> {
    let (key, range) = (call.args.key()?, call.args.score_range()?);
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    call.reply.int(set.map_or(0, |set| set.ranks_by_score(&range).len()) as i64);
    Ok(())
}

pub(super) fn zlexcount(call: &mut Call<'_>) -> Result<()> {
    let (key, range) = (call.args.key()?, call.args.lex_range()?);
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    call.reply.int(set.map_or(0, |set| set.ranks_by_member(&range, false).len()) as i64);
    Ok(())
}

pub(super) fn zrank(call: &mut Call<'_>) -> Result<()> {
    rank(call, |rank, _| rank)
}

pub(super) fn zrevrank(call: &mut Call<'_>) -> Result<()> {
    rank(call, |rank, len| len - 1 - rank)
}

/// Replies with the rank of a member, computed by `count` from its rank by lowest score and the number of members.
fn rank(call: &mut Call<'_>, count: fn(usize, usize) -> usize) -> Result<()> {
    let (key, member) = (call.args.key()?, call.args.bytes()?);
    let with_score = match (call.args.next_arg(), call.args.left()) {
        (None, _) => false,
        (Some(_), 1..) => return Err(Error::WrongArity(call.name().into())),
        (Some(word), 0) if is_word(word, "WITHSCORE") => true,
        (Some(_), 0) => return Err(Error::Syntax),
    };
    let set = call.view.get::<SortedSet>(key, Lookup::READ)?;
    let found = set.and_then(|set| set.rank(member).map(|(rank, score)| (count(rank, set.len()), score)));
    match (found, with_score) {
        (Some((rank, _)), false) => call.reply.int(rank as i64),
        (Some((rank, score)), true) => {
            call.reply.array(2);
            call.reply.int(rank as i64);
            call.reply.double(score);
        }
        (None, false) => call.reply.null(),
        (None, true) => call.reply.null_array(),
    }
    Ok(())
}

pub(super) fn zscan(call: &mut Call<'_>) -> Result<()> {
    let (key, cursor) = (call.args.key()?, read_cursor(&mut call.args)?);
    let Some(set) = call.view.get::<SortedSet>(key, Lookup::READ)? else {
        reply_nothing(&mut call.reply);
        return Ok(());
    };
    let bare = call.config.dialect().choose(None, Some(NO_SCORES));
    let scan = ElementScan::read(cursor, &mut call.args, bare)?;
    match set {
        SortedSetRef::Packed(_) => scan.reply_packed(&mut call.reply, |reply| {
            let admitted = set.iter().filter(|(member, _)| member.with_text(|member| scan.admits(member)));
            admitted.map(|(member, score)| reply_stored(reply, &scan, member, score)).sum()
        }),
        SortedSetRef::Big(set) => {
            scan.reply_table(&mut call.reply, |reply, position| scan_bucket(reply, &scan, set, position));
        }
    }
    Ok(())
}

/// Replies with a member and, if requested, its score in the stored form, both as strings; returns the number of values
/// written.
fn reply_stored(reply: &mut Reply<'_>, scan: &ElementScan<'_>, member: StoredElement<'_>, score: Score<'_>) -> usize {
    reply_item(reply, member);
    if scan.is_bare {
        return 1;
    }
    match score {
        Score::Packed(score) => reply_item(reply, score),
        Score::Number(score) => reply.bulk(format_general(score, SCAN_DIGITS).as_bytes()),
    }
    2
}

/// Replies with the elements at a scan position.
fn scan_bucket(
    reply: &mut Reply<'_>,
    scan: &ElementScan<'_>,
    set: &BigSortedSet,
    position: u64,
) -> (usize, usize, Option<u64>) {
    let (mut visited, mut written) = (0, 0);
    let next = set.scan(position, |member, score| {
        visited += 1;
        if scan.admits(member) {
            written += reply_stored(reply, scan, StoredElement::Text(member), Score::Number(score));
        }
    });
    (visited, written, next)
}
