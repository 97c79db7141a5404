//! HGETDEL, HGETEX and HSETEX: values and deadlines of fields in one call.

use crate::command::hash::expire::{
    HPERSIST, MISSING_FIELDS, NOT_POSITIVE, TWO_FIELDS, log_deadline, read_fields, set_deadlines, take_words,
};
use crate::command::hash::fields::{HDEL, HSET, growth, hash_key, reply_text};
use crate::command::ttl::{DeadlineCondition, OtherTtlOption, Time, TtlOption, Unit};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::value::Hash;
use crate::store::{Classes, Event, Key, Lookup};

/// The event of fields that were set and got a deadline.
const HSET_HEXPIRE: &Event = &Event::one(Classes::HASH, "hset").then(Classes::HASH, "hexpire");
/// The event of fields that were set with a deadline in the past.
const HSET_HDEL: &Event = &Event::one(Classes::HASH, "hset").then(Classes::HASH, "hdel");

const TWO_CONDITIONS: &str = "Only one of FXX or FNX arguments can be specified";
const NO_TIME: &str = "missing expire time";
const INVALID_COUNT: &str = "invalid number of fields";

/// Parses the time of an option that sets a deadline.
fn read_deadline(call: &mut Call<'_>, unit: Unit) -> Result<i64> {
    let Some(time) = call.args.next_arg() else { return Err(Error::other(NO_TIME)) };
    Time::of_field(call, unit, time)
}

/// Replies with the values of fields.
fn reply_values(call: &mut Call<'_>, key: Key<'_>, fields: &[&[u8]]) -> Result<()> {
    let hash = call.view.get::<Hash>(key, Lookup::READ)?;
    call.reply.array(fields.len());
    for field in fields {
        match hash.and_then(|hash| hash.get(field)) {
            Some(value) => reply_text(&mut call.reply, value),
            None => call.reply.null(),
        }
    }
    Ok(())
}

pub(super) fn hgetdel(call: &mut Call<'_>) -> Result<()> {
    let key = hash_key(call)?;
    call.view.get::<Hash>(key, Lookup::PEEK)?;
    read_fields(call, NOT_POSITIVE)?;
    let fields: Vec<&[u8]> = call.args.rest().collect();
    call.view.get::<Hash>(key, Lookup::READ)?; // counts the look-up, and removes an expired key
    let mut edit = call.view.edit::<Hash>(key, HDEL)?;
    call.reply.array(fields.len());
    let mut removed = Vec::new();
    // The fields are removed one by one: a field that is named twice is gone the second time.
    for field in fields {
        match edit.value().get(field) {
            Some(value) => reply_text(&mut call.reply, value),
            None => call.reply.null(),
        }
        if edit.annotate().is_some_and(|mut hash| hash.remove(field)) {
            removed.push(field);
        }
    }
    edit.count_more(removed.len());
    drop(edit);
    if !removed.is_empty() {
        // Servers before Redis 8.0 know HDEL, too.
        call.log(&[&[b"HDEL", key.bytes], &removed[..]].concat());
    }
    Ok(())
}

pub(super) fn hgetex(call: &mut Call<'_>) -> Result<()> {
    let key = hash_key(call)?;
    call.view.get::<Hash>(key, Lookup::PEEK)?;
    let Options { ttl, words: fields, .. } = Options::read(call, &HGETEX)?;
    reply_values(call, key, &fields)?;
    match ttl {
        TtlOption::Expire(end_ms) => _ = set_deadlines(call, key, end_ms, DeadlineCondition::default(), &fields)?,
        TtlOption::Persist => persist(call, key, &fields)?,
        TtlOption::Absent | TtlOption::Keep => {}
    }
    Ok(())
}

/// Removes the deadlines of fields.
fn persist(call: &mut Call<'_>, key: Key<'_>, fields: &[&[u8]]) -> Result<()> {
    let mut edit = call.view.edit::<Hash>(key, HPERSIST)?;
    for field in fields {
        if edit.value().deadline(field).flatten().is_some() {
            edit.change().set_deadline(field, None);
        }
    }
    let is_changed = edit.is_changed();
    drop(edit);
    if is_changed {
        let mut count = itoa::Buffer::new();
        let head: [&[u8]; 4] = [b"HPERSIST", key.bytes, b"FIELDS", count.format(fields.len()).as_bytes()];
        call.log(&[&head[..], fields].concat());
    }
    Ok(())
}

/// The options of a command.
struct Syntax {
    /// The option that a command has besides those that set a time.
    other: OtherTtlOption,
    two_times: &'static str,
    /// True if values follow the fields, and conditions are allowed.
    sets: bool,
}

const HGETEX: Syntax = Syntax {
    other: OtherTtlOption::Persist,
    two_times: "Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
    sets: false,
};
const HSETEX: Syntax = Syntax {
    other: OtherTtlOption::KeepTtl,
    two_times: "Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
    sets: true,
};

/// The arguments of HGETEX and HSETEX after the key. Options may stand on either side of the fields.
struct Options<'a> {
    /// The change of the deadlines; a new one is in milliseconds since 1970.
    ttl: TtlOption<i64>,
    /// True if all fields must exist, false if none may.
    must_exist: Option<bool>,
    /// The fields, or fields and values.
    words: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn read(call: &mut Call<'a>, syntax: &Syntax) -> Result<Self> {
        let mut options = Options { ttl: TtlOption::Absent, must_exist: None, words: Vec::new() };
        while let Some(word) = call.args.next_arg() {
            if is_word(word, "FIELDS") {
                options.read_words(call, syntax)?;
            } else if syntax.sets && (is_word(word, "FNX") || is_word(word, "FXX")) {
                if options.must_exist.is_some() {
                    return Err(Error::other(TWO_CONDITIONS));
                }
                options.must_exist = Some(is_word(word, "FXX"));
            } else {
                options.choose(word, call, syntax)?;
            }
        }
        if options.words.is_empty() {
            return Err(Error::other(MISSING_FIELDS));
        }
        Ok(options)
    }

    /// Reads the number of fields, and the fields.
    fn read_words(&mut self, call: &mut Call<'a>, syntax: &Syntax) -> Result<()> {
        if !self.words.is_empty() {
            return Err(Error::other(TWO_FIELDS));
        }
        let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
        let count = count.ok_or(Error::other(INVALID_COUNT))?;
        let words = count.checked_mul(if syntax.sets { 2 } else { 1 }).and_then(|count| take_words(call, count));
        self.words = words.ok_or_else(|| Error::WrongArity(call.name().into()))?;
        Ok(())
    }

    /// Reads an option about the deadline.
    fn choose(&mut self, word: &[u8], call: &mut Call<'_>, syntax: &Syntax) -> Result<()> {
        let option = TtlOption::of_word(word, syntax.other).ok_or_else(|| Error::UnknownArgument(word.to_vec()))?;
        if self.ttl != TtlOption::Absent {
            return Err(Error::other(syntax.two_times));
        }
        self.ttl = option.with_time(|unit| read_deadline(call, unit))?;
        Ok(())
    }

    /// Returns the fields with their values.
    fn pairs(&self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + Clone + '_ {
        self.words.chunks_exact(2).map(|pair| (pair[0], pair[1]))
    }
}

pub(super) fn hsetex(call: &mut Call<'_>) -> Result<()> {
    let key = hash_key(call)?;
    let options = Options::read(call, &HSETEX)?;
    let growth = growth(call);
    let end_ms = if let TtlOption::Expire(end_ms) = options.ttl { Some(end_ms) } else { None };
    let expires_keys = call.view.cx().expires_keys();
    let is_past = expires_keys && end_ms.is_some_and(|end_ms| end_ms <= call.now().wall_ms());
    let event = match (end_ms, is_past) {
        (None, _) => HSET,
        (Some(_), false) => HSET_HEXPIRE,
        (Some(_), true) => HSET_HDEL,
    };
    let mut edit = call.view.edit::<Hash>(key, event)?;
    let meets = |must_exist| options.pairs().all(|(field, _)| edit.value().contains(field) == must_exist);
    if !options.must_exist.is_none_or(meets) {
        drop(edit);
        call.reply.int(0);
        return Ok(());
    }
    let has_deadlines = edit.value().nearest_deadline().is_some();
    let mut hash = edit.change();
    for (field, value) in options.pairs() {
        match options.ttl {
            TtlOption::Keep => hash.set_keeping_deadline(field, value, growth),
            TtlOption::Absent | TtlOption::Persist | TtlOption::Expire(_) => hash.set(field, value, growth),
        };
        if is_past {
            hash.remove(field);
        } else if end_ms.is_some() {
            hash.set_deadline(field, end_ms);
        }
    }
    edit.count_more(options.pairs().len() - 1);
    // A missing key that gets only fields which have expired exists for a moment.
    edit.show_passing();
    drop(edit);
    log_set(call, key, &options, (is_past, has_deadlines));
    call.reply.int(1);
    Ok(())
}

/// Logs the fields that HSETEX has set, with its time as an absolute one, without its condition, and where no time is
/// concerned as HSET, which servers before Redis 8.0 know.
fn log_set(call: &mut Call<'_>, key: Key<'_>, options: &Options<'_>, (is_past, has_deadlines): (bool, bool)) {
    if is_past {
        let fields: Vec<&[u8]> = options.pairs().map(|(field, _)| field).collect();
        return log_deadline(call, key, None, &fields);
    }
    let (mut time, mut count) = (itoa::Buffer::new(), itoa::Buffer::new());
    let count = count.format(options.pairs().len()).as_bytes();
    let mut args: Vec<&[u8]> = match options.ttl {
        TtlOption::Expire(end_ms) => {
            vec![b"HSETEX", key.bytes, b"PXAT", time.format(end_ms).as_bytes(), b"FIELDS", count]
        }
        TtlOption::Keep if has_deadlines => vec![b"HSETEX", key.bytes, b"KEEPTTL", b"FIELDS", count],
        TtlOption::Keep | TtlOption::Absent | TtlOption::Persist => vec![b"HSET", key.bytes],
    };
    args.extend(&options.words);
    call.log(&args);
}
