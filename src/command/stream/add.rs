//! XADD, XTRIM, XSETID and XLEN.

use smallvec::SmallVec;

use crate::command::stream::producers::{self, NamedBy};
use crate::command::stream::{find, ids};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::marks::EXPECTS_ID;
use crate::spec::{
    Arg, DELETE, DENY_OOM, Effect, FAST, Group, READ, RO, RW, UPDATE, WRITE, block, integer, key, one_of, string, token,
};
use crate::store::{
    Bound, Classes, Event, Key, Origin, Producers, References, SideRecord, Stream, StreamId, Trim, Trimmed,
};

const ADD_COST: &str = "O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.";
const ADD_NOTES: &str = "UPDATE instead of INSERT because of the optional trimming feature";
const TRIM_COST: &str = "O(N), with N being the number of evicted entries. Constant times are very small however, since \
entries are organized in macro nodes containing multiple entries that can be released with a single deallocation.";

/// The argument for the treatment of references by a deletion.
pub(super) const REFERENCES: Arg =
    one_of("condition", &[token("keepref", "KEEPREF"), token("delref", "DELREF"), token("acked", "ACKED")])
        .optional()
        .since("8.2.0");

const TRIM: &[Arg] = &[
    one_of("strategy", &[token("maxlen", "MAXLEN"), token("minid", "MINID").since("6.2.0")]),
    one_of("operator", &[token("equal", "="), token("approximately", "~")]).optional(),
    string("threshold"),
    integer("count").token("LIMIT").optional().since("6.2.0"),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XADD", xadd, WRITE | DENY_OOM | FAST, Group::Stream)
        .effect(Effect::Given)
        .marks(EXPECTS_ID)
        .args(&[
            key("key", RW | UPDATE).key_notes(ADD_NOTES),
            token("nomkstream", "NOMKSTREAM").optional().since("6.2.0"),
            REFERENCES,
            producers::IDEMPOTENCE,
            block("trim", TRIM).optional(),
            one_of("id_or_auto", &[token("auto_id", "*"), string("id")]),
            block("field_value", &[string("field"), string("value")]).multiple(),
        ])
        .tips(&["nondeterministic_output"])
        .docs("5.0.0", ADD_COST, "Appends an entry to a stream, which is created if it does not exist."),
    Command::new("XTRIM", xtrim, WRITE, Group::Stream)
        .effect(Effect::Given)
        .args(&[key("key", RW | DELETE), block("trim", TRIM), REFERENCES])
        .tips(&["nondeterministic_output"])
        .docs("5.0.0", TRIM_COST, "Deletes the oldest entries of a stream."),
    Command::new("XSETID", xsetid, WRITE | DENY_OOM | FAST, Group::Stream)
        .args(&[
            key("key", RW | UPDATE),
            string("last-id"),
            integer("entries_added").token("ENTRIESADDED").optional().since("7.0.0"),
            string("max_deleted_entry_id").token("MAXDELETEDID").optional().since("7.0.0"),
        ])
        .docs("5.0.0", "O(1)", "Sets the largest ID of a stream, and its counters."),
    Command::new("XLEN", xlen, READ | FAST, Group::Stream)
        .args(&[key("key", RO)])
        .docs("5.0.0", "O(1)", "Returns the number of entries of a stream."),
];

const XADD: &Event = &Event::one(Classes::STREAM, "xadd");
const XADD_XTRIM: &Event = &Event::one(Classes::STREAM, "xadd").then(Classes::STREAM, "xtrim");
const XTRIM: &Event = &Event::one(Classes::STREAM, "xtrim");
const XSETID: &Event = &Event::one(Classes::STREAM, "xsetid");

/// The maximum length of all fields and values of an entry.
const ENTRY_LEN_MAX: usize = 1 << 30;

/// The maximum number of entries that an approximate trim deletes by default, if the size of chunks does not determine
/// it.
const LIMIT_DEFAULT: i64 = 10_000;
const LIMIT_MAX: i64 = 1_000_000;

/// The ID requested of XADD.
#[derive(Clone, Copy)]
enum NewId {
    Auto,
    /// An ID of this time without a sequence number.
    At(u64),
    Given(StreamId),
}

/// The options of XADD and XTRIM.
#[derive(Default)]
struct Options<'a> {
    bound: Option<Bound>,
    is_approximate: bool,
    limit: Option<i64>,
    references: Option<References>,
    no_mkstream: bool,
    /// The producer of the entry.
    named: Option<NamedBy<'a>>,
}

impl<'a> Options<'a> {
    /// Reads an option; returns false if the word is not one.
    fn read(&mut self, call: &mut Call<'a>, word: &[u8], is_add: bool) -> Result<bool> {
        let has_more = call.args.left() > 0;
        if has_more && (is_word(word, "MAXLEN") || is_word(word, "MINID")) {
            if self.bound.is_some() {
                const BOTH: &str = "syntax error, MAXLEN and MINID options at the same time are not compatible";
                return Err(Error::other(BOTH));
            }
            let mut threshold = call.args.bytes()?;
            self.is_approximate = threshold == b"~" && call.args.left() > 0;
            if (threshold == b"~" || threshold == b"=") && call.args.left() > 0 {
                threshold = call.args.bytes()?;
            }
            self.bound = Some(if is_word(word, "MAXLEN") {
                let max_len = parse_int(threshold).ok_or(Error::NotInteger)?;
                let max_len = usize::try_from(max_len);
                Bound::Len(max_len.map_err(|_| Error::other("The MAXLEN argument must be >= 0."))?)
            } else {
                Bound::MinId(ids::parse(threshold)?)
            });
        } else if has_more && is_word(word, "LIMIT") {
            let limit = call.args.int()?;
            if limit < 0 {
                return Err(Error::other("The LIMIT argument must be >= 0."));
            }
            self.limit = Some(limit);
        } else if is_add && let Some(named) = NamedBy::read(&mut call.args, word)? {
            if self.named.is_some() {
                return Err(Error::other("syntax error, IDMP/IDMPAUTO specified multiple times"));
            }
            self.named = Some(named);
        } else if is_add && is_word(word, "NOMKSTREAM") {
            self.no_mkstream = true;
        } else if let Some(references) = parse_references(word).filter(|_| self.references.is_none()) {
            self.references = Some(references);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Checks the options together; returns the requested trim.
    fn trim(&self, call: &Call<'_>, is_add: bool) -> Result<Option<Trim>> {
        let Some(bound) = self.bound else {
            if self.limit.is_some_and(|limit| limit > 0) {
                const ALONE: &str = "syntax error, LIMIT cannot be used without specifying a trimming strategy";
                return Err(Error::other(ALONE));
            }
            const NO_STRATEGY: &str = "syntax error, XTRIM must be called with a trimming strategy";
            return if is_add { Ok(None) } else { Err(Error::other(NO_STRATEGY)) };
        };
        // Redis logs an approximate trim as an exact one that keeps its LIMIT. The entries to delete are fixed there,
        // so a limit is accepted in a log, and has no effect.
        let is_replayed = call.view.cx().origin == Origin::Replay;
        if self.limit.is_some() && !self.is_approximate && !is_replayed {
            return Err(Error::other("syntax error, LIMIT cannot be used without the special ~ option"));
        }
        let default = || match (call.config.limits().stream.entries as i64).saturating_mul(100) {
            ..=0 => LIMIT_DEFAULT,
            limit => limit.min(LIMIT_MAX),
        };
        let limit = if self.is_approximate && !is_replayed { self.limit.unwrap_or_else(default) } else { 0 };
        let references = self.references.unwrap_or_default();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Some(Trim { bound, is_approximate: self.is_approximate, limit, references }))
    }
}

/// The options for the treatment of references by a deletion.
const REFERENCES_BY_WORD: [(&str, References); 3] =
    [("KEEPREF", References::Keep), ("DELREF", References::Delete), ("ACKED", References::Acknowledged)];

/// Parses the treatment of references by a deletion.
pub(super) fn parse_references(word: &[u8]) -> Option<References> {
    REFERENCES_BY_WORD.into_iter().find(|(name, _)| is_word(word, name)).map(|(_, references)| references)
}

/// Returns the arguments of an exact trim that has the same result as an executed trim.
fn words_of(trim: &Trim, len: usize, rest: Option<StreamId>) -> Vec<Vec<u8>> {
    let (strategy, threshold) = match trim.bound {
        Bound::Len(max_len) => ("MAXLEN", if trim.is_approximate { len } else { max_len }.to_string().into_bytes()),
        Bound::MinId(min) => ("MINID", rest.filter(|_| trim.is_approximate).unwrap_or(min).text().to_vec()),
    };
    let is_said =
        |(_, references): &(_, References)| *references == trim.references && trim.references != References::Keep;
    let references = REFERENCES_BY_WORD.into_iter().find(is_said).map(|(word, _)| word.as_bytes().to_vec());
    references.into_iter().chain([strategy.as_bytes().to_vec(), b"=".to_vec(), threshold]).collect()
}

fn xadd(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut options, mut id) = (Options::default(), NewId::Auto);
    while let Some(word) = call.args.next_arg() {
        if word == b"*" {
            break;
        }
        if !options.read(call, word, true)? {
            id = match ids::parse_new(word)? {
                (ms, Some(seq)) => NewId::Given(StreamId::new(ms, seq)),
                (ms, None) => NewId::At(ms),
            };
            break;
        }
    }
    let is_replayed = call.view.cx().origin == Origin::Replay;
    if options.named.is_some() && !matches!(id, NewId::Auto) && !is_replayed {
        return Err(Error::other("syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs"));
    }
    if options.named.is_some() && call.namespace.engine().is_some() {
        return Err(Error::NotOnEngine(&call.command.name)); // the cluster stores no producers
    }
    let trim = options.trim(call, true)?;
    let pairs: SmallVec<[&[u8]; 16]> = call.args.rest().collect();
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(Error::WrongArity(call.name().into()));
    }
    if matches!(id, NewId::Given(StreamId::MIN)) {
        return Err(Error::other("The ID specified in XADD must be greater than 0-0"));
    }
    append(call, key, id, &pairs, &options, trim)
}

/// Appends an entry and trims the stream.
fn append(
    call: &mut Call<'_>,
    key: Key<'_>,
    id: NewId,
    pairs: &[&[u8]],
    options: &Options<'_>,
    trim: Option<Trim>,
) -> Result<()> {
    let (limit, now) = (call.config.limits().stream, call.now().wall_ms());
    let name = options.named.as_ref().map(|named| (named.producer, named.name(pairs)));
    let remembrance = producers::remembrance(call);
    let mut edit = call.view.edit::<Stream>(key, XADD)?;
    if !edit.exists() && options.no_mkstream {
        drop(edit);
        call.reply.null();
        return Ok(());
    }
    if let Some((producer, name)) = &name
        && let Some(producers) = edit.annotate().and_then(|stream| stream.producers_mut().as_mut())
        && let Some(id) = producers.find_again(producer, name, now)
    {
        drop(edit);
        call.reply.bulk(&id.text());
        return Ok(());
    }
    let id = next_id(edit.value().last(), id, now)?;
    if pairs.iter().map(|part| part.len()).sum::<usize>() > ENTRY_LEN_MAX {
        return Err(Error::other("Elements are too large to be stored"));
    }
    let stream = edit.change();
    stream.append(id, pairs, limit);
    let record = name.map(|(producer, name)| {
        let producers = stream.producers_mut().get_or_insert_with(|| Box::new(Producers::new(remembrance)));
        producers.add(producer, &name, id);
        producers.text(Some((producer, &name, id)))
    });
    let trimmed = trim.map(|trim| {
        let trimmed = stream.trim(&trim);
        (trim, trimmed, stream.len())
    });
    if trimmed.as_ref().is_some_and(|(_, trimmed, _)| trimmed.deleted > 0) {
        edit.set_event(XADD_XTRIM);
    }
    drop(edit);
    let text = id.text();
    call.reply.bulk(&text);
    if call.namespace.store.is_logged() {
        // Servers before Redis 8.2 know nothing of references: they are to get the entry, if not the trim.
        let is_old = trimmed.as_ref().is_none_or(|(trim, ..)| trim.references == References::Keep);
        let trim = trimmed.map_or_else(Vec::new, |(trim, trimmed, len)| words_of(&trim, len, trimmed.rest));
        let mut trim: Vec<&[u8]> = trim.iter().map(Vec::as_slice).collect();
        let apart = if is_old { Vec::new() } else { std::mem::take(&mut trim) };
        call.log(&[&[b"XADD", key.bytes], &trim[..], &[&text[..]], pairs].concat());
        if !apart.is_empty() {
            call.log(&[&[b"XTRIM", key.bytes], &apart[..]].concat());
        }
        if let Some(text) = record {
            call.log(&[b"PING", &SideRecord::Producers { key: key.bytes, text: &text }.word()]);
        }
    }
    Ok(())
}

/// Returns the ID of a new entry, which is greater than `last`.
fn next_id(last: StreamId, wanted: NewId, now: i64) -> Result<StreamId> {
    if last == StreamId::MAX {
        return Err(Error::other("The stream has exhausted the last possible ID, unable to add more items"));
    }
    let too_small = || Error::other("The ID specified in XADD is equal or smaller than the target stream top item");
    let id = match wanted {
        NewId::Auto => {
            let ms = now.max(0) as u64;
            if ms > last.ms { StreamId::new(ms, 0) } else { last.next().ok_or_else(too_small)? }
        }
        NewId::At(ms) if ms == last.ms => StreamId::new(ms, last.seq.checked_add(1).ok_or_else(too_small)?),
        NewId::At(ms) => StreamId::new(ms, 0),
        NewId::Given(id) => id,
    };
    if id > last { Ok(id) } else { Err(too_small()) }
}

fn xtrim(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut options = Options::default();
    while let Some(word) = call.args.next_arg() {
        if !options.read(call, word, false)? {
            return Err(Error::Syntax);
        }
    }
    let Some(trim) = options.trim(call, false)? else { return Err(Error::Syntax) };
    let mut edit = call.view.edit::<Stream>(key, XTRIM)?;
    let Some(stream) = edit.annotate() else {
        drop(edit);
        call.reply.int(0);
        return Ok(());
    };
    let Trimmed { deleted, has_forgotten, rest } = stream.trim(&trim);
    let len = stream.len();
    edit.count_more(deleted);
    let has_changed = deleted > 0 || has_forgotten;
    if has_changed && deleted == 0 {
        edit.record();
        edit.keep_quiet();
    }
    drop(edit);
    if has_changed && call.namespace.store.is_logged() {
        let words = words_of(&trim, len, rest);
        let words: Vec<&[u8]> = [b"XTRIM", key.bytes].into_iter().chain(words.iter().map(Vec::as_slice)).collect();
        call.log(&words);
    }
    call.reply.int(deleted as i64);
    Ok(())
}

fn xsetid(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (last, mut added, mut max_deleted) = (ids::parse(call.args.bytes()?)?, None, None);
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "ENTRIESADDED") && call.args.left() > 0 {
            let number = u64::try_from(call.args.int()?);
            added = Some(number.map_err(|_| Error::other("entries_added must be positive"))?);
        } else if is_word(word, "MAXDELETEDID") && call.args.left() > 0 {
            let id = ids::parse(call.args.bytes()?)?;
            if last < id {
                return Err(Error::other(
                    "The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
            max_deleted = Some(id).filter(|id| *id != StreamId::MIN);
        } else {
            return Err(Error::Syntax);
        }
    }
    let mut edit = call.view.edit::<Stream>(key, XSETID)?;
    edit.keep_quiet();
    if !edit.exists() {
        return Err(Error::NoSuchKey);
    }
    let stream = edit.value();
    if last < stream.max_deleted() {
        return Err(Error::other("The ID specified in XSETID is smaller than current max_deleted_entry_id"));
    }
    if stream.last_entry().is_some_and(|top| last < top) {
        return Err(Error::other("The ID specified in XSETID is smaller than the target stream top item"));
    }
    if stream.len() > 0 && added.is_some_and(|added| added < stream.len() as u64) {
        return Err(Error::other("The entries_added specified in XSETID is smaller than the target stream length"));
    }
    edit.change().set_last(last, added, max_deleted);
    drop(edit);
    call.reply.ok();
    Ok(())
}

fn xlen(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = find(call, key)?.map_or(0, |stream| stream.len());
    call.reply.int(len as i64);
    Ok(())
}
