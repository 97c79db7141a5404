//! Commands over all keys of a database: KEYS, SCAN, DBSIZE, RANDOMKEY.
//!
//! KEYS and SCAN are the same walk with different limits. The walk visits bucket by bucket, in slices between which
//! other clients are served, so neither ten million keys nor a huge COUNT block other clients. A key whose comparison
//! with the pattern takes longer than a slice is copied, and compared in several.
//!
//! Invariant: a key that exists from the first slice to the last is visited; see [`View::scan`].

use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::client::registry::Unblocked;
use crate::config::Config;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command, Continuation, Env};
use crate::error::{Error, Result};
use crate::glob::{Comparison, Pattern};
use crate::profile::Version;
use crate::resp::{Output, Protocol, Reply};
use crate::spec::{FAST, Group, READ, integer, pattern, string};
use crate::store::entry::Entry;
use crate::store::value::Type;
use crate::store::{SCAN_CURSORS, View};
use crate::text::{is_c_blank, parse_c_unsigned, until_nul};
use crate::topology::{Slot, slot_of};

/// The number of keys that SCAN visits without COUNT.
pub(crate) const COUNT_DEFAULT: usize = 10;

/// The maximum number of buckets SCAN visits per key of COUNT, so that a sparse table costs no more than a full one.
const BUCKETS_PER_KEY: usize = 10;

/// The minimum of that number: with it, a small COUNT crosses a database that has lost nearly all its keys, 64 shards
/// of 64 buckets each, in a few calls instead of hundreds.
const BUCKETS_MIN: usize = 1000;

/// The effort of a slice, in [steps of a comparison](Comparison::advance): below a millisecond, cache misses included.
pub(crate) const SLICE_STEPS: usize = 2000 * STEPS_PER_KEY;

/// The cost of visiting a key or an empty bucket, in the same steps; comparing and copying the name is counted on top.
pub(crate) const STEPS_PER_KEY: usize = 512;

/// The length from which a piece of the reply is full; more than [`SHARED_MIN`](crate::resp::SHARED_MIN), so that the
/// piece is passed on without a copy.
const PIECE_LEN: usize = 64 * 1024;

/// The number of keys up to which RANDOMKEY chooses uniformly.
const CHOICE_MAX: usize = 100;

const KEYS_COMPLEXITY: &str = "O(N) with N being the number of keys in the database, under the assumption that the \
key names in the database and the given pattern have limited length.";

const SCAN_COMPLEXITY: &str = "O(1) for every call. O(N) for a complete iteration, including enough command calls for \
the cursor to return back to 0. N is the number of elements inside the collection.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("KEYS", keys, READ, Group::Generic)
        .args(&[pattern("pattern")])
        .categories(&["dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"])
        .docs("1.0.0", KEYS_COMPLEXITY, "Lists the keys that match a pattern."),
    Command::new("RANDOMKEY", randomkey, READ, Group::Generic)
        .tips(&["request_policy:all_shards", "nondeterministic_output"])
        .docs("1.0.0", "O(1)", "Returns a random key."),
    Command::new("SCAN", scan, READ, Group::Generic)
        .args(&[
            integer("cursor"),
            pattern("pattern").token("MATCH").optional(),
            integer("count").token("COUNT").optional(),
            string("type").token("TYPE").optional().since("6.0.0"),
        ])
        .tips(&["nondeterministic_output", "request_policy:special"])
        .docs("2.8.0", SCAN_COMPLEXITY, "Iterates over the keys of the selected database."),
    Command::new("DBSIZE", dbsize, READ | FAST, Group::Server)
        .categories(&["keyspace"])
        .tips(&["request_policy:all_shards", "response_policy:agg_sum"])
        .docs("1.0.0", "O(1)", "Returns the number of keys in the selected database."),
];

fn keys(call: &mut Call<'_>) -> Result<()> {
    let mut filter = Filter::default();
    filter.match_pattern(call.args.bytes()?);
    call.run_incrementally(Walk::over_all_keys(filter))
}

fn scan(call: &mut Call<'_>) -> Result<()> {
    let cursor = parse_cursor(call.args.bytes()?).ok_or(Error::InvalidCursor)?;
    let options = Options::read(&mut call.args, call.config, |_, _| Err(Error::Syntax))?;
    call.run_incrementally(Walk::some_way(cursor, options))
}

fn dbsize(call: &mut Call<'_>) -> Result<()> {
    let keys = call.view.key_count();
    call.reply.int(keys as i64);
    Ok(())
}

fn randomkey(call: &mut Call<'_>) -> Result<()> {
    // No two calls have the same number, so the keyed hash of the number is as good as random.
    let calls = call.namespace.observed.command_stats.calls(call.command).count;
    let dice = call.namespace.store.hash(&[call.caller.info.id.to_le_bytes(), calls.to_le_bytes()].concat());
    match random_key(&mut call.view, dice) {
        Some(key) => call.reply.bulk(&key),
        None => call.reply.null(),
    }
    Ok(())
}

/// Chooses a random key that has not expired: among few keys uniformly; among many, one from a random bucket.
fn random_key(view: &mut View<'_>, dice: u64) -> Option<Vec<u8>> {
    let is_small = view.key_count() <= CHOICE_MAX;
    let mut cursor = if is_small { 0 } else { dice % SCAN_CURSORS };
    let mut keys: Vec<Vec<u8>> = Vec::new();
    // At most one cycle: from the cursor to the end, and then from the beginning.
    for _ in 0..2 {
        while is_small || keys.is_empty() {
            cursor = view.scan(cursor, |entry| keys.push(entry.key().to_vec()));
            if cursor == 0 {
                break;
            }
        }
        if !keys.is_empty() {
            break;
        }
    }
    let chosen = (dice >> 32) as usize % keys.len().max(1);
    (chosen < keys.len()).then(|| keys.swap_remove(chosen))
}

/// The options of SCAN.
pub(crate) struct Options {
    filter: Filter,
    count: usize,
}

impl Options {
    /// Parses the options to the end of the request, `other` those that SCAN has not; of a repeated option the last occurrence
    /// counts.
    pub(crate) fn read<'a>(
        args: &mut Args<'a>,
        config: &Config,
        mut other: impl FnMut(&'a [u8], &mut Args<'a>) -> Result<()>,
    ) -> Result<Self> {
        let mut options = Options { filter: Filter::default(), count: COUNT_DEFAULT };
        while let Some(word) = args.next_arg() {
            match word {
                word if is_word(word, "COUNT") => options.count = read_count(args)?,
                word if is_word(word, "MATCH") => options.filter.match_pattern(args.bytes()?),
                word if is_word(word, "TYPE") => options.filter.kinds = read_type(args.bytes()?, config)?,
                word => other(word, args)?,
            }
        }
        Ok(options)
    }
}

pub(crate) fn read_count(args: &mut Args<'_>) -> Result<usize> {
    match usize::try_from(args.int()?) {
        Ok(0) | Err(_) => Err(Error::Syntax),
        Ok(count) => Ok(count),
    }
}

fn read_type(word: &[u8], config: &Config) -> Result<Kinds> {
    let found = Type::ALL.into_iter().find(|kind| is_word(word, kind.name()));
    match found {
        Some(kind) => Ok(Kinds::Only(kind)),
        None if config.answers_since(Version::new(8, 0, 0), Some(Version::new(8, 0, 0))) => {
            Err(Error::other(format!("unknown type name '{}'", String::from_utf8_lossy(until_nul(word)))))
        }
        None => Ok(Kinds::None),
    }
}

/// Parses a cursor as C's `strtoul` does, because Redis calls it, see [`parse_c_unsigned`]; but a blank before it is an
/// error, empty text is 0, and the text ends at a zero byte.
pub(crate) fn parse_cursor(text: &[u8]) -> Option<u64> {
    match until_nul(text) {
        b"" => Some(0),
        [first, ..] if is_c_blank(*first) => None,
        text => parse_c_unsigned(text),
    }
}

/// The data types of the keys that are returned.
#[derive(Clone, Copy, Default)]
enum Kinds {
    #[default]
    All,
    Only(Type),
    /// None: there is no type of the name.
    None,
}

/// The filter of the visited keys.
#[derive(Default)]
struct Filter {
    /// The pattern of the name; `None` matches every name.
    pattern: Option<Pattern<Box<[u8]>>>,
    /// The data types.
    kinds: Kinds,
    /// The slots of the keys; other keys do not count as visited.
    slots: Option<RangeInclusive<Slot>>,
}

impl Filter {
    fn match_pattern(&mut self, pattern: &[u8]) {
        self.pattern = (pattern != b"*").then(|| Pattern::new(pattern.into()));
    }

    /// Continues the comparison of a key with the pattern; returns the result once it is known.
    fn compare(&self, comparison: &mut Comparison, key: &[u8], left: &mut usize) -> Option<bool> {
        self.pattern.as_ref().map_or(Some(true), |pattern| comparison.advance(pattern, key, left))
    }

    fn has_slot(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.contains(&slot_of(key)))
    }

    fn is_kind(&self, entry: &Entry) -> bool {
        match self.kinds {
            Kinds::All => true,
            Kinds::Only(kind) => entry.kind() == kind,
            Kinds::None => false,
        }
    }
}

/// A key whose comparison with the pattern is not finished.
struct Compared {
    key: Box<[u8]>,
    comparison: Comparison,
}

/// Function that writes a cursor.
type CursorText = Box<dyn Fn(u64) -> String + Send>;

/// Walks over keys and collects the matching ones.
pub(crate) struct Walk {
    filter: Filter,
    /// The position to continue at; 0 before the first bucket and after the last.
    cursor: u64,
    /// The number of keys, matching or not, that may still be visited.
    keys_left: usize,
    /// The number of buckets that may still be visited.
    buckets_left: usize,
    /// True if the reply contains the cursor.
    resumable: bool,
    cursor_text: CursorText,
    /// The visited keys whose comparison is not finished.
    compared: Vec<Compared>,
    found: FoundKeys,
}

impl Walk {
    fn over_all_keys(filter: Filter) -> Self {
        Walk {
            filter,
            cursor: 0,
            keys_left: usize::MAX,
            buckets_left: usize::MAX,
            resumable: false,
            cursor_text: Box::new(|cursor| cursor.to_string()),
            compared: Vec::new(),
            found: FoundKeys::default(),
        }
    }

    fn some_way(cursor: u64, options: Options) -> Self {
        Walk {
            cursor,
            keys_left: options.count,
            buckets_left: options.count.saturating_mul(BUCKETS_PER_KEY).max(BUCKETS_MIN),
            resumable: true,
            ..Walk::over_all_keys(options.filter)
        }
    }

    /// Walks over the keys of some slots, until `COUNT` keys in them were visited.
    pub(crate) fn over_slots(
        cursor: u64,
        options: Options,
        slots: RangeInclusive<Slot>,
        cursor_text: CursorText,
    ) -> Self {
        let mut walk = Walk { buckets_left: usize::MAX, cursor_text, ..Walk::some_way(cursor, options) };
        walk.filter.slots = Some(slots);
        walk
    }

    /// Visits one bucket.
    fn visit_bucket(&mut self, view: &mut View<'_>, left: &mut usize) {
        let (mut visited, mut passed, is_resumable) = (0, 0, self.resumable);
        self.cursor = view.scan_undeleted(self.cursor, |entry, is_expired| {
            let (key, mut comparison) = (entry.key(), Comparison::default());
            if !self.filter.has_slot(key) {
                passed += 1;
                return false;
            }
            visited += 1;
            let matched =
                if self.filter.is_kind(entry) { self.filter.compare(&mut comparison, key, left) } else { Some(false) };
            if matched != Some(false) {
                *left = left.saturating_sub(key.len());
            }
            match matched {
                Some(true) if !is_expired => self.found.push(key),
                None if !is_expired => self.compared.push(Compared { key: key.into(), comparison }),
                _ => {}
            }
            matched == Some(true) && is_resumable // SCAN deletes an expired key, as look-ups do; KEYS does not
        });
        *left = left.saturating_sub((1 + visited + passed) * STEPS_PER_KEY);
        self.keys_left = self.keys_left.saturating_sub(visited);
        self.buckets_left -= 1;
    }

    /// Continues the comparison of a visited key; returns true if there was one.
    fn compare_visited(&mut self, left: &mut usize) -> bool {
        let Some(Compared { key, comparison }) = self.compared.last_mut() else { return false };
        if let Some(matched) = self.filter.compare(comparison, key, left) {
            let compared = self.compared.pop().filter(|_| matched);
            if let Some(compared) = compared {
                self.found.push(&compared.key);
            }
        }
        true
    }

    fn is_finished(&self) -> bool {
        self.compared.is_empty() && (self.cursor == 0 || self.keys_left == 0 || self.buckets_left == 0)
    }

    fn write(&mut self, reply: &mut Reply<'_>) {
        if self.resumable {
            reply.array(2);
            reply.bulk((self.cursor_text)(self.cursor).as_bytes());
        }
        self.found.write(reply);
    }
}

impl Continuation for Walk {
    fn step(&mut self, _: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let mut left = SLICE_STEPS;
        while left > 0 {
            if !self.compare_visited(&mut left) {
                self.visit_bucket(view, &mut left);
            }
            if self.is_finished() {
                self.write(reply);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Collects encoded keys, or replies about them, until their number is known, which is written before them.
///
/// The reply is kept in pieces, because a single buffer of a gigabyte would stall all clients whenever it is
/// reallocated.
#[derive(Default)]
pub(crate) struct FoundKeys {
    count: usize,
    full: Vec<Bytes>,
    last: Output,
}

impl FoundKeys {
    fn push(&mut self, key: &[u8]) {
        self.add(Protocol::default(), |reply| reply.bulk(key));
    }

    /// Adds a reply that `write` writes.
    pub(crate) fn add(&mut self, protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) {
        write(&mut Reply::new(&mut self.last, protocol));
        self.count += 1;
        if self.last.len() >= PIECE_LEN {
            self.full.push(std::mem::take(&mut self.last).into_bytes().freeze());
        }
    }

    /// Writes everything as an array.
    pub(crate) fn write(&mut self, reply: &mut Reply<'_>) {
        reply.array(self.count);
        for piece in self.full.drain(..) {
            reply.output().push_shared(piece);
        }
        reply.raw(&std::mem::take(&mut self.last).into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Redis 7.0.15.
    #[test]
    fn cursors_are_read_as_redis_reads_them() {
        let cases: &[(&[u8], Option<u64>)] = &[
            (b"0", Some(0)),
            (b"00", Some(0)),
            (b"", Some(0)),
            (b"+5", Some(5)),
            (b"-0", Some(0)),
            (b"-1", Some(u64::MAX)),
            (b"-18446744073709551615", Some(1)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"5\0abc", Some(5)),
            (b"\0", Some(0)),
            (b"18446744073709551616", None),
            (b"-18446744073709551616", None),
            (b" 1", None),
            (b"1 ", None),
            (b"1\n", None),
            (b"-", None),
            (b"+", None),
            (b"--1", None),
            (b"- 1", None),
            (b"0x10", None),
            (b"a", None),
        ];
        for (text, cursor) in cases {
            assert_eq!(parse_cursor(text), *cursor, "{}", text.escape_ascii());
        }
    }
}
