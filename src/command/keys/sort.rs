//! SORT and SORT_RO: the elements of a list or set, ordered by themselves or by the values of keys that they name.

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use crate::command::element_expiry::unexpired_key;
use crate::command::elements::{reply_item, store_as};
use crate::command::list::node_limit;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::{ACCESS, Arg, DENY_OOM, EXCLUSIVE, Group, KeyFlags, MOVABLE_KEYS, OW, READ, RO, UPDATE, WRITE};
use crate::spec::{block, integer, key, one_of, pattern, token};
use crate::store::entry::Entry;
use crate::store::value::{
    DataType, Hash, List, ListRef, Set, SetRef, SortedSet, SortedSetRef, StoredElement, Str, Type, VisibleHash,
};
use crate::store::{Classes, Cx, Event, ListBuilder, Lookup};
use crate::text::double::parse_double;
use crate::text::until_nul;
use crate::topology::{hash_tag, slot_of};

const COST: &str = "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of \
returned elements. When the elements are not sorted, complexity is O(N).";

const CATEGORIES: &[&str] = &["set", "sortedset", "list", "dangerous"];

const OF_ELEMENTS: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the \
content of the key we sort";
const ANYWHERE: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in \
the argument array";

const BY: Arg = pattern("pattern").token("BY").optional().unplaced(RO | ACCESS, OF_ELEMENTS);
const LIMIT: Arg = block("offset_count", &[integer("offset"), integer("count")]).token("LIMIT").optional();
const GET: Arg = pattern("pattern").token("GET").optional().multiple_token().unplaced(RO | ACCESS, OF_ELEMENTS);
const ORDER: Arg = one_of("order", &[token("asc", "ASC"), token("desc", "DESC")]).optional();
const ALPHA: Arg = token("sorting", "ALPHA").optional();
const STORE: Arg = key("destination", OW | UPDATE).token("STORE").optional().unplaced(OW | UPDATE, ANYWHERE);

const CROSSING_BY: &str =
    "BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";
const CROSSING_GET: &str =
    "GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";

/// The event of storing the sorted elements.
const SORTSTORE: &Event = &Event::one(Classes::LIST, "sortstore");

/// The number of elements from which those that cannot be in the result are dropped early.
const SELECTED_MIN: usize = 100;

/// Declares the commands of this file. The keys that BY and GET name are not known in advance, so with them both
/// commands hold the whole store.
#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SORT", sort, WRITE | DENY_OOM | MOVABLE_KEYS | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA, STORE])
        .key_search(sorted_and_stored)
        .exclusive_if(needs_other_keys)
        .categories(CATEGORIES)
        .docs("1.0.0", COST, "Sorts the elements of a list, set or sorted set, and stores the result if asked to."),
    Command::new("SORT_RO", sort_ro, READ | MOVABLE_KEYS | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA])
        .exclusive_if(needs_other_keys)
        .categories(CATEGORIES)
        .docs("7.0.0", COST, "Sorts the elements of a list, set or sorted set."),
];

/// Finds the key that is sorted and the key of STORE, of which the last occurrence counts, for the check of
/// permissions.
fn sorted_and_stored(request: Request<'_>) -> Vec<(usize, KeyFlags)> {
    let mut stored = None;
    let mut at = 2;
    while at + 1 < request.len() {
        let word = request.arg(at);
        at += match () {
            () if is_word(word, "LIMIT") => 3,
            () if is_word(word, "BY") || is_word(word, "GET") => 2,
            () if is_word(word, "STORE") => {
                stored = Some((at + 1, OW | UPDATE));
                2
            }
            () => 1,
        };
    }
    std::iter::once((1, RO | ACCESS)).chain(stored).collect()
}

/// Returns true if a request may need other keys besides the sorted one.
fn needs_other_keys(request: Request<'_>) -> bool {
    request.skip(2).args().any(names_other_keys)
}

fn names_other_keys(word: &[u8]) -> bool {
    ["BY", "GET", "STORE"].iter().any(|option| is_word(word, option))
}

fn sort(call: &mut Call<'_>) -> Result<()> {
    sort_or_store(call, true)
}

fn sort_ro(call: &mut Call<'_>) -> Result<()> {
    sort_or_store(call, false)
}

/// The options of SORT.
#[derive(Default)]
struct Options<'a> {
    is_descending: bool,
    is_alphabetic: bool,
    /// The index of the first element of the result and the number of elements, either of which may be negative.
    limit: Option<(i64, i64)>,
    /// The pattern that names the values by which elements are compared.
    by: Option<&'a [u8]>,
    /// True if the elements stay in their order: a pattern of BY has no `*`, so that it names the same key for all. As
    /// in Redis, a later BY does not change that.
    keeps_order: bool,
    /// The patterns that name the values returned for each element.
    get: SmallVec<[&'a [u8]; 4]>,
    target: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Parses the options. The keys that patterns refer to are not known in advance, so patterns need permission to
    /// read all keys.
    fn read(call: &mut Call<'a>, may_store: bool) -> Result<Self> {
        let mut options = Options::default();
        let reads_all = call.caller.access.reads_all_keys(call.command, call.args.request());
        while let Some(word) = call.args.next_arg() {
            let left = call.args.left();
            match () {
                () if is_word(word, "ASC") => options.is_descending = false,
                () if is_word(word, "DESC") => options.is_descending = true,
                () if is_word(word, "ALPHA") => options.is_alphabetic = true,
                () if is_word(word, "LIMIT") && left >= 2 => {
                    options.limit = Some((call.args.int()?, call.args.int()?));
                }
                () if may_store && is_word(word, "STORE") && left >= 1 => options.target = Some(call.args.bytes()?),
                () if is_word(word, "BY") && left >= 1 => {
                    let pattern = call.args.bytes()?;
                    let is_constant = !until_nul(pattern).contains(&b'*');
                    if !is_constant && !may_reach(call, pattern) {
                        return Err(Error::other(CROSSING_BY));
                    }
                    if !is_constant && !reads_all {
                        return Err(Error::other("BY option of SORT denied due to insufficient ACL permissions."));
                    }
                    options.by = Some(pattern);
                    options.keeps_order |= is_constant;
                }
                () if is_word(word, "GET") && left >= 1 => {
                    let pattern = call.args.bytes()?;
                    if !may_reach(call, pattern) {
                        return Err(Error::other(CROSSING_GET));
                    }
                    if !reads_all {
                        return Err(Error::other("GET option of SORT denied due to insufficient ACL permissions."));
                    }
                    options.get.push(pattern);
                }
                () => return Err(Error::Syntax),
            }
        }
        Ok(options)
    }

    /// Returns true if patterns name other keys.
    fn names_other_keys(&self) -> bool {
        (self.by.is_some() && !self.keeps_order) || self.get.iter().any(|pattern| *pattern != b"#")
    }

    /// Returns the range of the result among `len` elements in order.
    fn range(&self, len: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// Returns whether all keys that a pattern may name are in the slot of the sorted key, as they have to be in a cluster: the
/// pattern has no wildcard, or a hash tag before it.
fn may_reach(call: &Call<'_>, pattern: &[u8]) -> bool {
    if !call.is_in_cluster() || pattern == b"#" {
        return true;
    }
    let wildcard = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    let fixed = &pattern[..wildcard.unwrap_or(pattern.len())];
    let is_in_one_slot = wildcard.is_none() || hash_tag(fixed).len() < fixed.len();
    is_in_one_slot && slot_of(fixed) == slot_of(call.args.request().arg(1))
}

/// An element, and the value by which it is compared.
struct Sorted<'e> {
    element: StoredElement<'e>,
    score: f64,
    by: Option<Box<[u8]>>,
    /// The position before sorting: equal elements keep their order.
    position: usize,
}

fn sort_or_store(call: &mut Call<'_>, may_store: bool) -> Result<()> {
    let key = unexpired_key(call)?;
    let mut options = Options::read(call, may_store)?;
    if call.caller.staged.is_some() && options.names_other_keys() {
        return Err(Error::UndeclaredKey(&call.command.name));
    }
    let cx = call.view.cx();
    let elements = match call.view.lookup(key, Lookup::READ) {
        None => Vec::new(),
        Some(entry) => {
            let source = Source::of(entry, &cx)?;
            if let Source::Set(_) = source
                && options.keeps_order
                && (options.target.is_some() || call.caller.is_in_script)
            {
                // A set has no order that could stay, and a stored result must not depend on chance.
                (options.keeps_order, options.by, options.is_alphabetic) = (false, None, true);
            }
            match options.by.filter(|_| !options.keeps_order) {
                Some(pattern) => {
                    let elements = copies(source.all());
                    sorted_by(call, pattern, &elements, &options)?
                }
                None => {
                    let result = if options.keeps_order { source.result(&options) } else { source.sorted(&options)? };
                    if options.target.is_none() && options.get.is_empty() {
                        call.reply.array(result.len());
                        result.into_iter().for_each(|element| reply_item(&mut call.reply, element));
                        return Ok(());
                    }
                    copies(result)
                }
            }
        }
    };
    match options.target {
        Some(target) => store(call, target, &elements, &options),
        None => {
            call.reply.array(elements.len() * options.get.len().max(1));
            for_each_result(call, &elements, &options, |call, found| match found {
                Some(text) => call.reply.bulk(text),
                None => call.reply.null(),
            });
        }
    }
    Ok(())
}

/// A value with elements.
#[derive(Clone, Copy)]
enum Source<'e> {
    List(ListRef<'e>),
    Set(SetRef<'e>),
    SortedSet(SortedSetRef<'e>),
}

impl<'e> Source<'e> {
    fn of(entry: &'e Entry, cx: &Cx) -> Result<Self> {
        match entry.kind() {
            Type::List => Ok(Source::List(List::read(entry))),
            Type::Set => Ok(Source::Set(Set::read(entry).seen_by(cx))),
            Type::SortedSet => Ok(Source::SortedSet(SortedSet::read(entry))),
            _ => Err(Error::WrongType),
        }
    }

    fn len(self) -> usize {
        match self {
            Source::List(list) => list.len(),
            Source::Set(set) => set.len(),
            Source::SortedSet(set) => set.len(),
        }
    }

    /// Passes the elements to a closure.
    fn each(self, visit: impl FnMut(StoredElement<'e>) -> Result<()>) -> Result<()> {
        match self {
            Source::List(list) => list.iter().try_for_each(visit),
            Source::Set(set) => set.iter().try_for_each(visit),
            Source::SortedSet(set) => set.iter().map(|(member, _)| member).try_for_each(visit),
        }
    }

    /// Returns the elements of the result, sorted by themselves.
    fn sorted(self, options: &Options<'_>) -> Result<Vec<StoredElement<'e>>> {
        let mut selection = Selection::new(options, self.len());
        self.each(|element| {
            let score = if options.is_alphabetic { 0.0 } else { score_of_element(element)? };
            selection.add(element, score, None);
            Ok(())
        })?;
        Ok(selection.finish())
    }

    /// Returns all elements, in no particular order.
    fn all(self) -> Vec<StoredElement<'e>> {
        match self {
            Source::List(list) => list.iter().collect(),
            Source::Set(set) => set.iter().collect(),
            Source::SortedSet(set) => set.iter().map(|(member, _)| member).collect(),
        }
    }

    /// Returns the elements of the result in their present order. No others are visited, except in a set, whose order
    /// DESC does not reverse either.
    fn result(self, options: &Options<'_>) -> Vec<StoredElement<'e>> {
        let is_reversed = options.is_descending;
        match self {
            Source::List(list) => {
                let range = options.range(list.len());
                if is_reversed {
                    list.iter_to(list.len() - range.start).rev().take(range.len()).collect()
                } else {
                    list.iter_from(range.start).take(range.len()).collect()
                }
            }
            Source::Set(set) => {
                let range = options.range(set.len());
                set.iter().skip(range.start).take(range.len()).collect()
            }
            Source::SortedSet(set) => {
                let (len, range) = (set.len(), options.range(set.len()));
                let ranks = if is_reversed { len - range.end..len - range.start } else { range };
                set.elements(ranks, is_reversed).map(|(member, _)| member).collect()
            }
        }
    }
}

fn copies(elements: Vec<StoredElement<'_>>) -> Vec<Vec<u8>> {
    elements.into_iter().map(|element| element.with_text(<[u8]>::to_vec)).collect()
}

/// Returns the elements of the result, sorted by the values that a pattern names.
fn sorted_by(call: &mut Call<'_>, pattern: &[u8], elements: &[Vec<u8>], options: &Options<'_>) -> Result<Vec<Vec<u8>>> {
    let mut selection = Selection::new(options, elements.len());
    for element in elements {
        let found = value_of(call, pattern, element);
        let score = match &found {
            Some(found) if !options.is_alphabetic => score_of(found)?,
            _ => 0.0,
        };
        let by = found.filter(|_| options.is_alphabetic).map(Vec::into_boxed_slice);
        selection.add(StoredElement::Text(element), score, by);
    }
    Ok(copies(selection.finish()))
}

/// Selects the elements in a range of an order without sorting the others: up to twice as many elements as the end of
/// the range are kept, and none that is greater than the greatest of the first `range.end` known so far.
struct Selection<'o, 'p, 'e> {
    options: &'o Options<'p>,
    range: Range<usize>,
    kept: Vec<Sorted<'e>>,
    /// The number of elements added.
    seen: usize,
    /// True if the last of the first `range.end` kept elements is the greatest of them.
    has_bound: bool,
}

impl<'o, 'p, 'e> Selection<'o, 'p, 'e> {
    fn new(options: &'o Options<'p>, len: usize) -> Self {
        Selection { options, range: options.range(len), kept: Vec::new(), seen: 0, has_bound: false }
    }

    fn add(&mut self, element: StoredElement<'e>, score: f64, by: Option<Box<[u8]>>) {
        let (options, max_count) = (self.options, self.range.end);
        let sorted = Sorted { element, score, by, position: self.seen };
        self.seen += 1;
        let is_behind = self.has_bound && compare(&sorted, &self.kept[max_count - 1], options).is_gt();
        if max_count == 0 || is_behind {
            return;
        }
        self.kept.push(sorted);
        if self.kept.len() >= 2 * max_count.max(SELECTED_MIN) {
            self.kept.select_nth_unstable_by(max_count - 1, |one, other| compare(one, other, options));
            self.kept.truncate(max_count);
            self.has_bound = true;
        }
    }

    fn finish(mut self) -> Vec<StoredElement<'e>> {
        let (options, Range { start, end }) = (self.options, self.range);
        let order = |one: &Sorted<'_>, other: &Sorted<'_>| compare(one, other, options);
        if (1..self.kept.len()).contains(&end) {
            self.kept.select_nth_unstable_by(end - 1, order);
            self.kept.truncate(end);
        }
        if (1..self.kept.len()).contains(&start) {
            self.kept.select_nth_unstable_by(start, order);
        }
        let part = self.kept.get_mut(start..).unwrap_or_default();
        part.sort_unstable_by(order);
        part.iter().map(|sorted| sorted.element).collect()
    }
}

fn score_of_element(element: StoredElement<'_>) -> Result<f64> {
    match element {
        StoredElement::Int(number) => Ok(number as f64),
        StoredElement::Text(text) => score_of(text),
    }
}

/// Reads a number as Redis does for SORT: the text ends at the first NUL, and an empty one is 0.
fn score_of(text: &[u8]) -> Result<f64> {
    match until_nul(text) {
        b"" => Ok(0.0),
        digits => parse_double(digits).ok_or(Error::other("One or more scores can't be converted into double")),
    }
}

fn compare(one: &Sorted<'_>, other: &Sorted<'_>, options: &Options<'_>) -> Ordering {
    // A stored result does not depend on the locale, whose rules see a text up to its first NUL.
    let texts = |one: &[u8], other: &[u8]| match options.target {
        Some(_) => one.cmp(other),
        None => until_nul(one).cmp(until_nul(other)),
    };
    let elements = |compare: &dyn Fn(&[u8], &[u8]) -> Ordering| {
        one.element.with_text(|one| other.element.with_text(|other| compare(one, other)))
    };
    let order = match (options.is_alphabetic, options.by) {
        (false, _) => {
            let scores = one.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
            scores.then_with(|| elements(&|one, other| one.cmp(other)))
        }
        (true, None) => elements(&texts),
        (true, Some(_)) => match (&one.by, &other.by) {
            (Some(one), Some(other)) => texts(one, other),
            (one, other) => one.is_some().cmp(&other.is_some()),
        },
    };
    let order = if options.is_descending { order.reverse() } else { order };
    order.then(one.position.cmp(&other.position))
}

/// Visits the results for the elements: the elements themselves, or the values that the patterns of GET name.
fn for_each_result<'a>(
    call: &mut Call<'a>,
    elements: &[Vec<u8>],
    options: &Options<'_>,
    mut visit: impl FnMut(&mut Call<'a>, Option<&[u8]>),
) {
    for element in elements {
        if options.get.is_empty() {
            visit(call, Some(element));
        }
        for pattern in &options.get {
            let found = value_of(call, pattern, element);
            visit(call, found.as_deref());
        }
    }
}

/// Stores the result as a list; an empty result deletes the target.
fn store(call: &mut Call<'_>, target: &[u8], elements: &[Vec<u8>], options: &Options<'_>) {
    let mut list = ListBuilder::new(node_limit(call));
    for_each_result(call, elements, options, |_, found| list.push(found.unwrap_or_default()));
    let (target, len) = (call.namespace.store.key(target), list.len());
    let stored = (len > 0).then(|| (list.finish(target.bytes, None), len));
    store_as(call, target, stored, SORTSTORE, len);
}

/// Returns the value that a pattern names for an element: of the key whose name is the pattern with the element in
/// place of `*`, or of the field behind `->` in the hash with that name. `#` is the element itself.
fn value_of(call: &mut Call<'_>, pattern: &[u8], element: &[u8]) -> Option<Vec<u8>> {
    if until_nul(pattern) == b"#" {
        return Some(element.to_vec());
    }
    let star = until_nul(pattern).iter().position(|byte| *byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow =
        until_nul(behind).windows(2).position(|two| two == b"->").filter(|at| *at + 2 < until_nul(behind).len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let name = [before, element, behind].concat();
    let (cx, key) = (call.view.cx(), call.namespace.store.key(&name));
    if field.is_some() {
        call.view.expire_fields(key, call.command.flags & WRITE != 0); // a replay must not find them, either
    }
    let entry = call.view.lookup(key, Lookup::READ)?;
    match field {
        None => entry.get::<Str>().ok().map(|text| text.as_slice().to_vec()),
        Some(field) => {
            let hash = VisibleHash::new(entry.get::<Hash>().ok()?, &cx);
            hash.get(field).map(|value| value.with(<[u8]>::to_vec))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_name_other_keys_need_the_whole_store() {
        let words = |text: &'static str| text.split(' ').map(str::as_bytes).any(names_other_keys);
        assert!(!words("ALPHA LIMIT 0 10 DESC"));
        assert!(words("ALPHA by w_*") && words("GET #") && words("STORE l"));
    }
}
