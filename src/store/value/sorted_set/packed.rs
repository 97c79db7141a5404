//! Packed sorted sets: listpacks in which members and scores alternate, in the order of scores.

use std::cmp::Ordering;
use std::ops::Range;

use crate::store::value::listpack::{Blob, Encoded, HEADER_LEN, Items, Listpack, ListpackMut, StoredElement};
use crate::store::value::score::{ScoreText, read_score};
use crate::text::bounds::{LexRange, ScoreRange};

/// Returns the rank of the element at a position.
pub(super) fn rank_at(listpack: Listpack<'_>, at: usize) -> usize {
    Items::within(listpack.bytes(), HEADER_LEN..at).count() / 2
}

/// Iterates over the members and scores at a range of ranks.
pub(super) fn items(listpack: Listpack<'_>, ranks: Range<usize>) -> Items<'_> {
    let offset = |rank: usize| listpack.seek(2 * rank as isize).unwrap_or(listpack.end());
    let range = if ranks.is_empty() { HEADER_LEN..HEADER_LEN } else { offset(ranks.start)..offset(ranks.end) };
    Items::within(listpack.bytes(), range)
}

/// Iterates over members and scores.
fn pairs(listpack: Listpack<'_>) -> impl Iterator<Item = (StoredElement<'_>, StoredElement<'_>)> {
    let mut items = listpack.iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}

/// Returns the ranks of the elements whose scores are in a range.
pub(super) fn ranks_by_score(listpack: Listpack<'_>, range: &ScoreRange) -> Range<usize> {
    let (mut start, mut end) = (0, 0);
    for (_, score) in pairs(listpack) {
        let score = read_score(score);
        if !range.admits_below(score) {
            break;
        }
        end += 1;
        if !range.admits_above(score) {
            start += 1;
        }
    }
    start..end
}

/// Returns the ranks of the first run of members in a range, or of the last one. As in Redis, the result is empty if
/// the last member is below the range or the first member above it.
pub(super) fn ranks_by_member(listpack: Listpack<'_>, range: &LexRange<'_>, is_reversed: bool) -> Range<usize> {
    let member_at = |at: Option<usize>| at.map(|at| listpack.get(at));
    let above = |member: StoredElement<'_>| member.with_text(|text| range.admits_above(text));
    let below = |member: StoredElement<'_>| member.with_text(|text| range.admits_below(text));
    let last = listpack.last().and_then(|at| listpack.prev(at));
    if !member_at(last).is_some_and(above) || !member_at(listpack.first()).is_some_and(below) {
        return 0..0;
    }
    if !is_reversed {
        let start = pairs(listpack).position(|(member, _)| above(member)).unwrap_or(0);
        let run = pairs(listpack).skip(start).take_while(|(member, _)| below(*member)).count();
        return start..start + run;
    }
    let mut items = listpack.iter();
    let mut reversed = std::iter::from_fn(|| items.next_back().and_then(|_| items.next_back()));
    let len = listpack.len() / 2;
    let (mut end, mut start) = (len, len);
    while let Some(member) = reversed.next()
        && !below(member)
    {
        end -= 1;
        start -= 1;
    }
    // The last member that is not above the range is at `end - 1`; the run goes down from there.
    let mut items = items_before(listpack, end);
    while let Some(_score) = items.next_back()
        && items.next_back().is_some_and(above)
    {
        start -= 1;
    }
    start..end
}

fn items_before(listpack: Listpack<'_>, rank: usize) -> Items<'_> {
    items(listpack, 0..rank)
}

/// Inserts an element whose member is missing.
pub(super) fn insert<B: Blob>(listpack: &mut ListpackMut<B>, score: f64, encoded: Encoded<'_>, member: &[u8]) {
    let at = place_of(listpack.as_listpack(), score, member);
    listpack.insert_all_before(at, &[encoded, ScoreText::new(score).encoded()]);
}

/// Changes the score of the element at a position, and moves the element if the order requires it.
pub(super) fn change_score<B: Blob>(listpack: &mut ListpackMut<B>, at: usize, score: f64) {
    let borrowed = listpack.as_listpack();
    let Some(score_at) = borrowed.next(at) else { return };
    // The member's text is copied, because the listpack changes.
    let member = borrowed.get(at).to_cow().into_owned();
    let precedes = |other: usize| order(borrowed, other, score, &member) == Ordering::Less;
    let previous = borrowed.prev(at).and_then(|score_at| borrowed.prev(score_at));
    let stays = previous.is_none_or(precedes) && borrowed.next(score_at).is_none_or(|next| !precedes(next));
    if stays {
        return listpack.replace(score_at, ScoreText::new(score).encoded());
    }
    listpack.remove_range(at, 2);
    insert(listpack, score, Encoded::of(&member), &member);
}

/// Returns the position of the first element after an element with this score and member, or the end.
fn place_of(listpack: Listpack<'_>, score: f64, member: &[u8]) -> usize {
    // Scores often ascend.
    let last = listpack.last().and_then(|at| listpack.prev(at));
    if last.is_none_or(|last| order(listpack, last, score, member) == Ordering::Less) {
        return listpack.end();
    }
    let mut next = listpack.first();
    while let Some(at) = next {
        if order(listpack, at, score, member) != Ordering::Less {
            return at;
        }
        next = listpack.next(at).and_then(|score| listpack.next(score));
    }
    listpack.end()
}

/// Compares the element at a position with a score and a member.
fn order(listpack: Listpack<'_>, at: usize, score: f64, member: &[u8]) -> Ordering {
    let own = listpack.next(at).map_or(0.0, |at| read_score(listpack.get(at)));
    if own != score {
        return if own < score { Ordering::Less } else { Ordering::Greater };
    }
    listpack.get(at).with_text(|text| text.cmp(member))
}
