//! SORT and SORT_RO: the elements of a list or set, in the order of themselves or of what keys named by them hold.

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use crate::command::list::node_limit;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::spec::{ACCESS, Arg, DENY_OOM, EXCLUSIVE, Group, KeyFlags, MOVABLE_KEYS, OW, READ, RO, UPDATE, WRITE};
use crate::spec::{block, integer, key, one_of, pattern, token};
use crate::store::{Classes, Event, Key, ListBuilder, Lookup, ValueRef, WrongType};
use crate::text::double::parse_double;
use crate::text::until_nul;

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

/// The sorted elements were stored.
const SORTSTORE: &Event = &Event::one(Classes::LIST, "sortstore");

/// Declares the commands of this file. The keys that BY and GET name are not known before, so both hold the whole store.
#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SORT", sort, WRITE | DENY_OOM | MOVABLE_KEYS | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA, STORE])
        .key_search(sorted_and_stored)
        .categories(CATEGORIES)
        .docs("1.0.0", COST, "Sorts the elements of a list, set or sorted set, and stores the result if asked to."),
    Command::new("SORT_RO", sort_ro, READ | MOVABLE_KEYS | EXCLUSIVE, Group::Generic)
        .args(&[key("key", RO | ACCESS), BY, LIMIT, GET, ORDER, ALPHA])
        .categories(CATEGORIES)
        .docs("7.0.0", COST, "Sorts the elements of a list, set or sorted set."),
];

/// Finds the key that is sorted and that of STORE, of which the last counts, for the check of permissions.
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
    /// The first element of the result and how many there are, which may be negative.
    limit: Option<(i64, i64)>,
    /// The pattern that names what is compared.
    by: Option<&'a [u8]>,
    /// The patterns that name what is returned for each element.
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
                    if until_nul(pattern).contains(&b'*') && !reads_all {
                        return Err(Error::other("BY option of SORT denied due to insufficient ACL permissions."));
                    }
                    // A pattern that names the same for all elements counts even if another one follows.
                    if !options.keeps_order() {
                        options.by = Some(pattern);
                    }
                }
                () if is_word(word, "GET") && left >= 1 => {
                    if !reads_all {
                        return Err(Error::other("GET option of SORT denied due to insufficient ACL permissions."));
                    }
                    options.get.push(call.args.bytes()?);
                }
                () => return Err(Error::Syntax),
            }
        }
        Ok(options)
    }

    /// Returns whether the elements stay in their order: what they would be compared by is the same for all.
    fn keeps_order(&self) -> bool {
        self.by.is_some_and(|pattern| !until_nul(pattern).contains(&b'*'))
    }

    /// Returns which of `len` sorted elements are the result.
    fn range(&self, len: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}

/// An element, and what it is compared by.
struct Sorted {
    text: Vec<u8>,
    score: f64,
    by: Option<Vec<u8>>,
}

fn sort_or_store(call: &mut Call<'_>, may_store: bool) -> Result<()> {
    let key = call.args.key()?;
    let mut options = Options::read(call, may_store)?;
    let Some(mut elements) = elements_of(call, key, &mut options)? else { return Err(WrongType.into()) };
    let range = options.range(elements.len());
    match options.keeps_order() {
        true if options.is_descending => elements.reverse(),
        true => {}
        false => {
            weigh(call, &mut elements, &options)?;
            elements.sort_by(|one, other| compare(one, other, &options));
        }
    }
    let elements = &elements[range];
    match options.target {
        Some(target) => store(call, target, elements, &options),
        None => {
            call.reply.array(elements.len() * options.get.len().max(1));
            for_each_result(call, elements, &options, |call, found| match found {
                Some(text) => call.reply.bulk(text),
                None => call.reply.null(),
            });
        }
    }
    Ok(())
}

/// Returns the elements of a key; none of a missing one, and `None` for a type that has none.
fn elements_of(call: &mut Call<'_>, key: Key<'_>, options: &mut Options<'_>) -> Result<Option<Vec<Sorted>>> {
    let element = |text: &[u8]| Sorted { text: text.to_vec(), score: 0.0, by: None };
    let Some(entry) = call.view.lookup(key, Lookup::READ) else { return Ok(Some(Vec::new())) };
    Ok(match entry.contents() {
        ValueRef::List(list) => Some(list.iter().map(|item| item.with_text(element)).collect()),
        ValueRef::Set(set) => {
            // A set has no order that could stay, and what is stored must not depend on chance.
            if options.keeps_order() && (options.target.is_some() || call.caller.is_in_script) {
                (options.by, options.is_alphabetic) = (None, true);
            }
            Some(set.iter().map(|member| member.with_text(element)).collect())
        }
        ValueRef::SortedSet(set) => Some(set.iter().map(|(member, _)| member.with_text(element)).collect()),
        ValueRef::String(..) | ValueRef::Hash(_) | ValueRef::Stream(_) => None,
    })
}

/// Looks up what the elements are compared by.
fn weigh(call: &mut Call<'_>, elements: &mut [Sorted], options: &Options<'_>) -> Result<()> {
    let mut are_numbers = true;
    for element in elements {
        let found = match options.by {
            Some(pattern) => match value_of(call, pattern, &element.text) {
                Some(found) => Some(found),
                None => continue,
            },
            None => None,
        };
        if options.is_alphabetic {
            element.by = found;
        } else {
            match score_of(found.as_deref().unwrap_or(&element.text)) {
                Some(score) => element.score = score,
                None => are_numbers = false,
            }
        }
    }
    match are_numbers {
        true => Ok(()),
        false => Err(Error::other("One or more scores can't be converted into double")),
    }
}

/// Reads a number as Redis does for SORT: it ends at the first NUL, and nothing is 0.
fn score_of(text: &[u8]) -> Option<f64> {
    match until_nul(text) {
        b"" => Some(0.0),
        digits => parse_double(digits),
    }
}

fn compare(one: &Sorted, other: &Sorted, options: &Options<'_>) -> Ordering {
    // What is stored does not depend on the locale, whose rules see a text up to its first NUL.
    let texts = |one: &[u8], other: &[u8]| match options.target {
        Some(_) => one.cmp(other),
        None => until_nul(one).cmp(until_nul(other)),
    };
    let order = match (options.is_alphabetic, options.by) {
        (false, _) => {
            let scores = one.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
            scores.then_with(|| one.text.cmp(&other.text))
        }
        (true, None) => texts(&one.text, &other.text),
        (true, Some(_)) => match (&one.by, &other.by) {
            (Some(one), Some(other)) => texts(one, other),
            (one, other) => one.is_some().cmp(&other.is_some()),
        },
    };
    if options.is_descending { order.reverse() } else { order }
}

/// Visits what is returned for the elements: themselves, or what the patterns of GET name.
fn for_each_result<'a>(
    call: &mut Call<'a>,
    elements: &[Sorted],
    options: &Options<'_>,
    mut visit: impl FnMut(&mut Call<'a>, Option<&[u8]>),
) {
    for element in elements {
        if options.get.is_empty() {
            visit(call, Some(&element.text));
        }
        for pattern in &options.get {
            let found = value_of(call, pattern, &element.text);
            visit(call, found.as_deref());
        }
    }
}

/// Stores the result as a list; an empty one deletes the target.
fn store(call: &mut Call<'_>, target: &[u8], elements: &[Sorted], options: &Options<'_>) {
    let mut list = ListBuilder::new(node_limit(call));
    for_each_result(call, elements, options, |_, found| list.push(found.unwrap_or_default()));
    let (target, len) = (call.namespace.store.key(target), list.len());
    match len {
        0 => drop(call.view.discard(target)),
        _ => {
            call.view.overwrite(target, list.finish(target.bytes, None), SORTSTORE);
            call.view.count_more(target, len - 1);
        }
    }
    call.reply.int(len as i64);
}

/// Returns the value that a pattern names for an element: that of the key whose name is the pattern with the element
/// for its `*`, or of the field behind `->` of the hash with that name. `#` is the element itself.
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
    let entry = call.view.lookup(call.namespace.store.key(&name), Lookup::READ)?;
    match (entry.contents(), field) {
        (ValueRef::String(text, _), None) => Some(text.as_slice().to_vec()),
        (ValueRef::Hash(hash), Some(field)) => hash.get(field).map(|value| value.with(<[u8]>::to_vec)),
        _ => None,
    }
}
