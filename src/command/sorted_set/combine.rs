//! Unions, intersections and differences of sorted sets and sets.
//!
//! All sources are borrowed at once. Intersections and differences are lists of borrowed members; a union needs a table
//! to find the members again, which becomes the stored value.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::command::element_expiry::unexpired_key;
use crate::command::elements::store_result;
use crate::command::set_difference::{RemovedMembers, others_cost_less};
use crate::command::sorted_set::elements::{growth, reply_elements};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::{self, parse_int};
use crate::store::entry::Entry;
use crate::store::limits::ValueLimits;
use crate::store::value::listpack::StoredElement;
use crate::store::value::sorted_set::{BigSortedSet, Score, ScoreTable};
use crate::store::value::{DataType, Set, SetRef, SetRules, SortedSet, SortedSetRef, Type};
use crate::store::{Classes, Cx, Event, Key, Lookup, Store};
use crate::text::double::parse_double;

/// The event of storing a union.
const ZUNIONSTORE: &Event = &Event::one(Classes::ZSET, "zunionstore");
/// The event of storing an intersection.
const ZINTERSTORE: &Event = &Event::one(Classes::ZSET, "zinterstore");
/// The event of storing a difference.
const ZDIFFSTORE: &Event = &Event::one(Classes::ZSET, "zdiffstore");

/// The operation that combines sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

impl Operation {
    fn event(self) -> &'static Event {
        match self {
            Operation::Union => ZUNIONSTORE,
            Operation::Intersection => ZINTERSTORE,
            Operation::Difference => ZDIFFSTORE,
        }
    }
}

/// The use of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

/// The combination of a member's scores in several sources.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
    /// The number of sources that have the member, by their weights.
    Count,
}

impl Aggregate {
    fn read(word: &[u8]) -> Result<Self> {
        match word {
            word if is_word(word, "SUM") => Ok(Aggregate::Sum),
            word if is_word(word, "MIN") => Ok(Aggregate::Min),
            word if is_word(word, "MAX") => Ok(Aggregate::Max),
            word if is_word(word, "COUNT") => Ok(Aggregate::Count),
            _ => Err(Error::Syntax),
        }
    }

    /// Returns the share of a source in the score of a member, by the source's score and weight.
    #[inline]
    fn share(self, score: f64, weight: f64) -> f64 {
        if let Aggregate::Count = self { weight } else { weight * score }
    }

    #[inline]
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum | Aggregate::Count => number(one + other),
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// Returns true if servers before Redis 8.8 know a request: it has no `AGGREGATE COUNT`.
pub(super) fn is_known_to_older_servers(request: resp::Request<'_>) -> bool {
    let words = || request.args();
    !words().zip(words().skip(1)).any(|(word, next)| is_word(word, "AGGREGATE") && is_word(next, "COUNT"))
}

/// Returns a number; 0 for the sum or product of infinities that is not a number.
#[inline]
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// A command and its options.
struct Request<'a> {
    operation: Operation,
    purpose: Purpose,
    keys: SmallVec<[Key<'a>; 4]>,
    weights: SmallVec<[f64; 4]>,
    aggregate: Aggregate,
    with_scores: bool,
    /// The number of members at which counting stops; 0 for none.
    limit: usize,
}

impl<'a> Request<'a> {
    /// Reads the keys and checks their types, and reads the options.
    fn read(call: &mut Call<'a>, operation: Operation, purpose: Purpose) -> Result<Self> {
        let numkeys = call.args.int()?;
        if numkeys < 1 {
            return Err(Error::other(format!("at least 1 input key is needed for '{}' command", call.name())));
        }
        let numkeys = usize::try_from(numkeys).ok().filter(|count| *count <= call.args.left()).ok_or(Error::Syntax)?;
        let mut keys = SmallVec::with_capacity(numkeys);
        for _ in 0..numkeys {
            let key = unexpired_key(call)?;
            let kind = call.view.lookup(key, Lookup::READ).map(Entry::kind);
            if kind.is_some_and(|kind| !matches!(kind, Type::SortedSet | Type::Set)) {
                return Err(Error::WrongType);
            }
            keys.push(key);
        }
        let mut request = Request {
            operation,
            purpose,
            weights: SmallVec::from_elem(1.0, numkeys),
            keys,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        request.read_options(call)?;
        Ok(request)
    }

    fn read_options(&mut self, call: &mut Call<'a>) -> Result<()> {
        let weighs = self.operation != Operation::Difference && self.purpose != Purpose::Count;
        let args = &mut call.args;
        while let Some(word) = args.next_arg() {
            if weighs && args.left() >= self.keys.len() && is_word(word, "WEIGHTS") {
                for weight in &mut self.weights {
                    let parsed = parse_double(args.bytes()?);
                    *weight = parsed.ok_or(Error::other("weight value is not a float"))?;
                }
            } else if weighs && args.left() >= 1 && is_word(word, "AGGREGATE") {
                self.aggregate = Aggregate::read(args.bytes()?)?;
            } else if self.purpose == Purpose::Reply && is_word(word, "WITHSCORES") {
                self.with_scores = true;
            } else if self.purpose == Purpose::Count && args.left() >= 1 && is_word(word, "LIMIT") {
                let limit = parse_int(args.bytes()?).and_then(|limit| usize::try_from(limit).ok());
                self.limit = limit.ok_or(Error::other("LIMIT can't be negative"))?;
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(())
    }
}

/// A combined value; a missing one is empty.
#[derive(Clone, Copy)]
enum Source<'e> {
    Nothing,
    SortedSet(SortedSetRef<'e>),
    /// A set, in which every member has the score 1.
    Set(SetRef<'e>),
}

impl<'e> Source<'e> {
    fn of(entry: Option<&'e Entry>, cx: &Cx) -> Self {
        let Some(entry) = entry else { return Source::Nothing };
        match entry.kind() {
            Type::SortedSet => Source::SortedSet(SortedSet::read(entry)),
            Type::Set => Source::Set(Set::read(entry).seen_by(cx)),
            _ => Source::Nothing,
        }
    }

    fn len(self) -> usize {
        match self {
            Source::Nothing => 0,
            Source::SortedSet(set) => set.len(),
            Source::Set(set) => set.len(),
        }
    }

    #[inline]
    fn score(self, member: StoredElement<'_>) -> Option<f64> {
        match self {
            Source::Nothing => None,
            Source::SortedSet(set) => member.with_text(|member| set.score(member)),
            Source::Set(set) => member.with_text(|member| set.contains(StoredElement::of(member)).then_some(1.0)),
        }
    }

    fn has(self, member: StoredElement<'_>) -> bool {
        self.score(member).is_some()
    }

    fn members(self) -> impl Iterator<Item = StoredElement<'e>> {
        let (set, sorted_set) = match self {
            Source::Nothing => (None, None),
            Source::SortedSet(set) => (None, Some(set)),
            Source::Set(set) => (Some(set), None),
        };
        let of_sorted_set = sorted_set.into_iter().flat_map(|set| set.iter().map(|(member, _)| member));
        set.into_iter().flat_map(SetRef::iter).chain(of_sorted_set)
    }

    /// Passes members and scores to a closure until it returns false.
    fn all(self, mut visit: impl FnMut(StoredElement<'e>, f64) -> bool) {
        match self {
            Source::Nothing => {}
            Source::SortedSet(set) => {
                set.iter().all(|(member, score)| visit(member, score.get()));
            }
            Source::Set(set) => {
                set.iter().all(|member| visit(member, 1.0));
            }
        }
    }
}

/// The elements of a result in ascending order.
enum Combined<'e> {
    Borrowed(Vec<(f64, StoredElement<'e>)>),
    Owned(BigSortedSet),
}

/// Returns members with their scores, in the form in which they are stored.
fn as_elements<'e>(
    elements: &[(f64, StoredElement<'e>)],
) -> impl Iterator<Item = (StoredElement<'e>, Score<'e>)> + Clone {
    elements.iter().map(|(score, member)| (*member, Score::Number(*score)))
}

/// Compares elements by the order of sorted sets.
fn order(one: &(f64, StoredElement<'_>), other: &(f64, StoredElement<'_>)) -> Ordering {
    let by_score = one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal); // scores are never NaN
    by_score.then_with(|| one.1.with_text(|one| other.1.with_text(|other| one.cmp(other))))
}

type Sources<'e> = SmallVec<[(Source<'e>, f64); 4]>;

/// Passes the members that are in all sources, with their scores, to a closure until it returns false.
fn intersect<'e>(sources: &Sources<'e>, aggregate: Aggregate, mut visit: impl FnMut(StoredElement<'e>, f64) -> bool) {
    let Some(((first, weight), others)) = sources.split_first() else { return };
    first.all(|member, score| {
        let mut sum = number(aggregate.share(score, *weight));
        for (other, weight) in others {
            let Some(score) = other.score(member) else { return true };
            sum = aggregate.of(sum, aggregate.share(score, *weight));
        }
        visit(member, sum)
    });
}

/// Passes the members of the first source that are in no other one, with their scores, to a closure.
fn subtract<'e>(
    (store, limits): (&Store, ValueLimits),
    sources: &Sources<'e>,
    mut visit: impl FnMut(StoredElement<'e>, f64),
) {
    let Some(((first, _), others)) = sources.split_first() else { return };
    let rules = SetRules::new(limits, store.hasher());
    let removed = others_cost_less(first.len(), others.iter().map(|(other, _)| other.len())).then(|| {
        RemovedMembers::from(others.iter().flat_map(|(other, _)| other.members()), rules, |member| first.has(member))
    });
    first.all(|member, score| {
        let is_removed = match &removed {
            Some(removed) => removed.has(member),
            None => others.iter().any(|(other, _)| other.has(member)),
        };
        if !is_removed {
            visit(member, score);
        }
        true
    });
    if let Some(removed) = removed {
        store.reclaimer().free(removed.into_entry());
    }
}

fn combine<'e>(store: &Store, limits: ValueLimits, request: &Request<'_>, sources: &Sources<'e>) -> Combined<'e> {
    let mut elements = Vec::new();
    match request.operation {
        Operation::Union => {
            let mut union = ScoreTable::new(store.hasher());
            for (source, weight) in sources {
                source.all(|member, score| {
                    let score = number(request.aggregate.share(score, *weight));
                    member.with_text(|member| union.add(member, score, |one, other| request.aggregate.of(one, other)));
                    true
                });
            }
            return Combined::Owned(union.finish());
        }
        Operation::Intersection => intersect(sources, request.aggregate, |member, score| {
            elements.push((score, member));
            true
        }),
        Operation::Difference => {
            subtract((store, limits), sources, |member, score| elements.push((score, member)));
        }
    }
    elements.sort_unstable_by(order);
    Combined::Borrowed(elements)
}

/// Returns the sources of a request: those of intersections and unions from the smallest to the largest, which is also
/// the order in which scores are added.
fn sources<'e>(request: &Request<'_>, entries: &[Option<&'e Entry>], cx: &Cx) -> Sources<'e> {
    let weights = request.weights.iter().copied();
    let mut sources: Sources<'e> = entries.iter().map(|entry| Source::of(*entry, cx)).zip(weights).collect();
    if request.operation != Operation::Difference {
        sources.sort_by_key(|(source, _)| source.len());
    }
    sources
}

pub(super) fn zunion(call: &mut Call<'_>) -> Result<()> {
    reply_combined(call, Operation::Union)
}

pub(super) fn zinter(call: &mut Call<'_>) -> Result<()> {
    reply_combined(call, Operation::Intersection)
}

pub(super) fn zdiff(call: &mut Call<'_>) -> Result<()> {
    reply_combined(call, Operation::Difference)
}

fn reply_combined(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let request = Request::read(call, operation, Purpose::Reply)?;
    let (store, limits) = (&call.namespace.store, call.config.limits());
    let cx = call.view.cx();
    let entries = call.view.peek_all(&request.keys);
    match combine(store, limits, &request, &sources(&request, &entries, &cx)) {
        Combined::Borrowed(elements) => {
            reply_elements(&mut call.reply, elements.len(), as_elements(&elements), request.with_scores);
        }
        Combined::Owned(set) => {
            let union = SortedSetRef::Big(&set);
            reply_elements(&mut call.reply, union.len(), union.iter(), request.with_scores);
            store.reclaimer().free(SortedSet::entry_of(b"", set, limits.zset));
        }
    }
    Ok(())
}

pub(super) fn zintercard(call: &mut Call<'_>) -> Result<()> {
    let request = Request::read(call, Operation::Intersection, Purpose::Count)?;
    let cx = call.view.cx();
    let entries = call.view.peek_all(&request.keys);
    let mut count = 0;
    intersect(&sources(&request, &entries, &cx), request.aggregate, |_, _| {
        count += 1;
        count != request.limit
    });
    call.reply.int(count as i64);
    Ok(())
}

pub(super) fn zunionstore(call: &mut Call<'_>) -> Result<()> {
    store_combined(call, Operation::Union)
}

pub(super) fn zinterstore(call: &mut Call<'_>) -> Result<()> {
    store_combined(call, Operation::Intersection)
}

pub(super) fn zdiffstore(call: &mut Call<'_>) -> Result<()> {
    store_combined(call, Operation::Difference)
}

fn store_combined(call: &mut Call<'_>, operation: Operation) -> Result<()> {
    let target = call.args.key()?;
    let request = Request::read(call, operation, Purpose::Store)?;
    let (store, limits, growth) = (&call.namespace.store, call.config.limits(), growth(call));
    let cx = call.view.cx();
    let entries = call.view.peek_all(&request.keys);
    let stored = match combine(store, limits, &request, &sources(&request, &entries, &cx)) {
        Combined::Borrowed(elements) if elements.is_empty() => None,
        Combined::Borrowed(elements) => {
            Some((SortedSet::entry(target.bytes, as_elements(&elements), growth), elements.len()))
        }
        Combined::Owned(set) if set.len() == 0 => None,
        Combined::Owned(set) => {
            let count = set.len();
            Some((SortedSet::entry_of(target.bytes, set, growth.0), count))
        }
    };
    drop(entries);
    store_result(call, target, stored, operation.event());
    Ok(())
}
