//! Strings: GET, SET and related commands.
//!
//! Events, expiry and locking happen elsewhere: a handler reads and changes keys only through the call's view. LCS has
//! its row here and its handler in [`lcs`].
//!
//! Invariant: checks are made in Redis' order, so that a call with two errors gets the same error as in Redis.

mod events;
pub(crate) mod fence;
mod increx;
mod multiple;

pub(crate) mod lcs;

pub(crate) use events::{SET, SET_EX};

use smallvec::SmallVec;

use crate::command::condition::{IFDEQ, IFDNE, IFEQ, IFNE, StringCondition, digest, is_conditional};
use crate::command::string::events::{INCRBY, INCRBYFLOAT};
use crate::command::ttl::{
    Amount, EXPIRATION_OR_KEEPTTL, EXPIRATION_OR_PERSIST, OtherTtlOption, SET_EXPIRATION, TtlOption, Unit,
};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Reply, Request, parse_int};
use crate::spec::marks::ONLY_VALKEY;
use crate::spec::{
    ACCESS, Arg, DELETE, DENY_OOM, Effect, FAST, Group, INSERT, KeyFlags, MOVABLE_KEYS, OW, READ, RM, RO, RW, UPDATE,
    VARIABLE, WRITE, block, double, integer, key, one_of, string, token,
};
use crate::store::{Classes, Event, Key, Lookup, Str, StringHint, Ttl};
use crate::text::long_double;

const DELEX_COST: &str = "O(1) for IFEQ/IFNE, O(N) for IFDEQ/IFDNE where N is the length of the string value.";
const DIGEST_COST: &str = "O(N) where N is the length of the string value.";
const PAIRS: Arg = block("key_value", &[key("key", OW | UPDATE), string("value")]).multiple();
const PAIRS_NX: Arg = block("key_value", &[key("key", OW | INSERT), string("value")]).multiple();
const RANGE_COST: &str = "\
    O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned \
    length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for \
    small strings.";
const APPEND_COST: &str = "\
    O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value \
    is of any size, since the dynamic string library used by Redis will double the free space available on every \
    reallocation.";
const SETRANGE_COST: &str = "\
    O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the \
    amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.";
const MGET_COST: &str = "O(N) where N is the number of keys to retrieve.";
const MSET_COST: &str = "O(N) where N is the number of keys to set.";
const LCS_COST: &str = "O(N*M) where N and M are the lengths of s1 and s2, respectively";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("APPEND", append, WRITE | DENY_OOM | FAST, Group::String)
        .args(&[key("key", RW | INSERT), string("value")])
        .docs("2.0.0", APPEND_COST, "Adds a value at the end of a string, creating the key if needed."),
    Command::new("DECR", decr, WRITE | DENY_OOM | FAST, Group::String)
        .args(&[key("key", RW | ACCESS | UPDATE)])
        .docs("1.0.0", "O(1)", "Subtracts one from the integer of a key; a missing key counts as 0."),
    Command::new("DECRBY", decrby, WRITE | DENY_OOM | FAST, Group::String)
        .args(&[key("key", RW | ACCESS | UPDATE), integer("decrement")])
        .docs("1.0.0", "O(1)", "Subtracts a number from the integer of a key; a missing key counts as 0."),
    Command::new("DELEX", delex, WRITE | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[
            key("key", RW | DELETE | VARIABLE),
            one_of("condition", &[IFEQ, IFNE, IFDEQ, IFDNE]).optional(),
        ])
        .key_use(delex_key_use)
        .docs("8.4.0", DELEX_COST, "Deletes a key, optionally only if its string meets a condition."),
    Command::new("DELIFEQ", delifeq, WRITE | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | DELETE), string("value")])
        .marks(ONLY_VALKEY)
        .docs("9.0.0", "O(1)", "Deletes a key if it holds this string, so that only its owner releases a lock."),
    Command::new("DIGEST", digest_command, READ | FAST, Group::String)
        .args(&[key("key", RO | ACCESS)])
        .docs("8.4.0", DIGEST_COST, "Returns a digest of a string, to be compared in a condition."),
    Command::new("GET", get, READ | FAST, Group::String)
        .args(&[key("key", RO | ACCESS)])
        .docs("1.0.0", "O(1)", "Returns the string of a key."),
    Command::new("GETDEL", getdel, WRITE | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | DELETE)])
        .docs("6.2.0", "O(1)", "Returns a string and deletes its key."),
    Command::new("GETEX", getex, WRITE | FAST, Group::String)
        .effect(Effect::Deadlines)
        .args(&[
            key("key", RW | ACCESS | UPDATE).key_notes("RW and UPDATE because it changes the TTL"),
            EXPIRATION_OR_PERSIST,
        ])
        .docs("6.2.0", "O(1)", "Returns a string, optionally setting or removing the expiration of its key."),
    Command::new("GETRANGE", getrange, READ, Group::String)
        .args(&[key("key", RO | ACCESS), integer("start"), integer("end")])
        .docs("2.4.0", RANGE_COST, "Returns a part of the string of a key."),
    Command::new("GETSET", getset, WRITE | DENY_OOM | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | UPDATE), string("value")])
        .docs("1.0.0", "O(1)", "Overwrites a string and returns its previous value.")
        .deprecated("6.2.0", "`SET` with the `!GET` argument"),
    Command::new("INCR", incr, WRITE | DENY_OOM | FAST, Group::String)
        .args(&[key("key", RW | ACCESS | UPDATE)])
        .docs("1.0.0", "O(1)", "Adds one to the integer of a key; a missing key counts as 0."),
    Command::new("INCRBY", incrby, WRITE | DENY_OOM | FAST, Group::String)
        .args(&[key("key", RW | ACCESS | UPDATE), integer("increment")])
        .docs("1.0.0", "O(1)", "Adds a number to the integer of a key; a missing key counts as 0."),
    Command::new("INCRBYFLOAT", incrbyfloat, WRITE | DENY_OOM | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | UPDATE), double("increment")])
        .docs("2.6.0", "O(1)", "Adds a number to the floating-point number of a key; a missing key counts as 0."),
    Command::new("INCREX", increx::increx, WRITE | DENY_OOM | FAST, Group::String)
        .effect(Effect::Values)
        .args(increx::ARGS)
        .docs("8.8.0", "O(1)", "Adds to a number, optionally within bounds and with an expiration."),
    Command::new("LCS", lcs::lcs, READ, Group::String)
        .args(&[
            key("key1", RO | ACCESS),
            key("key2", RO | ACCESS),
            token("len", "LEN").optional(),
            token("idx", "IDX").optional(),
            integer("len").token("MINMATCHLEN").optional(),
            token("withmatchlen", "WITHMATCHLEN").optional(),
        ])
        .docs("7.0.0", LCS_COST, "Finds the longest common subsequence of two strings."),
    Command::new("MGET", mget, READ | FAST, Group::String)
        .args(&[key("key", RO | ACCESS).multiple()])
        .docs("1.0.0", MGET_COST, "Returns the strings of several keys.")
        .tips(&["request_policy:multi_shard"]),
    Command::new("MSET", mset, WRITE | DENY_OOM, Group::String)
        .args(&[PAIRS])
        .docs("1.0.1", MSET_COST, "Sets several keys at once.")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Command::new("MSETEX", multiple::msetex, WRITE | DENY_OOM | MOVABLE_KEYS, Group::String)
        .effect(Effect::Values)
        .args(&[integer("numkeys"), multiple::PAIRS, multiple::CONDITION, EXPIRATION_OR_KEEPTTL])
        .valkey("9.1.0")
        .docs("8.4.0", MSET_COST, "Sets several keys at once, optionally under a condition and with an expiration.")
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Command::new("MSETNX", msetnx, WRITE | DENY_OOM, Group::String)
        .args(&[PAIRS_NX])
        .docs("1.0.1", MSET_COST, "Sets several keys at once unless one of them exists.")
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"]),
    Command::new("PSETEX", psetex, WRITE | DENY_OOM, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", OW | UPDATE), integer("milliseconds"), string("value")])
        .docs("2.6.0", "O(1)", "Sets a key that expires after a number of milliseconds."),
    Command::new("SET", set, WRITE | DENY_OOM, Group::String)
        .effect(Effect::ValuesUnless(is_plain_set))
        .args(&[
            key("key", RW | ACCESS | UPDATE | VARIABLE).key_notes("RW and ACCESS due to the optional `GET` argument"),
            string("value"),
            one_of("condition", &[
                token("nx", "NX"),
                token("xx", "XX"),
                IFEQ.since("8.4.0").valkey("8.1.0"),
                IFNE.since("8.4.0"),
                IFDEQ.since("8.4.0"),
                IFDNE.since("8.4.0"),
            ])
            .optional()
            .since("2.6.12"),
            token("get", "GET").optional().since("6.2.0"),
            SET_EXPIRATION,
        ])
        .key_use(set_key_use)
        .docs("1.0.0", "O(1)", "Sets a key to a string, optionally under a condition and with an expiration."),
    Command::new("SETEX", setex, WRITE | DENY_OOM, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", OW | UPDATE), integer("seconds"), string("value")])
        .docs("2.0.0", "O(1)", "Sets a key that expires after a number of seconds."),
    Command::new("SETNX", setnx, WRITE | DENY_OOM | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", OW | INSERT), string("value")])
        .docs("1.0.0", "O(1)", "Sets a key to a string unless it exists."),
    Command::new("SETRANGE", setrange, WRITE | DENY_OOM, Group::String)
        .args(&[key("key", RW | UPDATE), integer("offset"), string("value")])
        .docs("2.2.0", SETRANGE_COST, "Overwrites a part of a string, filling any gap before it with zero bytes."),
    Command::new("STRLEN", strlen, READ | FAST, Group::String)
        .args(&[key("key", RO)])
        .docs("2.2.0", "O(1)", "Returns the length of the string of a key, in bytes."),
    Command::new("SUBSTR", getrange, READ, Group::String)
        .args(&[key("key", RO | ACCESS), integer("start"), integer("end")])
        .docs("1.0.0", RANGE_COST, "Returns a part of the string of a key.")
        .deprecated("2.0.0", "`GETRANGE`"),
];

/// Replies with a stored string: a short string is copied, a long one shared.
pub(crate) fn reply_text(reply: &mut Reply<'_>, text: Str<'_>) {
    match text {
        Str::Inline(slice) => reply.bulk(slice),
        Str::Shared(bytes) => reply.bulk_shared(bytes.clone()),
    }
}

/// The event of making a string longer.
const APPEND: &Event = &Event::one(Classes::STRING, "append");
/// The event of overwriting part of a string.
const SETRANGE: &Event = &Event::one(Classes::STRING, "setrange");
fn get(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    reply_value(call, key)
}

/// Deletes a key of any type, or, with a condition, a string that meets it.
fn delex(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    if !matches!(call.args.left(), 0 | 2) {
        return Err(Error::WrongArity(call.name().into()));
    }
    let is_met = match (call.args.next_arg(), call.view.get::<Str>(key, Lookup::WRITE)) {
        (None, _) => true,
        // If the key is missing, not even the condition is parsed.
        (Some(_), Ok(None)) => false,
        (Some(_), Err(_)) => return Err(Error::other("Key should be of string type if conditions are specified")),
        (Some(word), Ok(Some(text))) => match StringCondition::read(word, &mut call.args)? {
            Some(condition) => condition.is_met_by(text.as_slice())?,
            None => return Err(Error::other("Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")),
        },
    };
    let removed = is_met && call.view.remove(key);
    call.reply.int(i64::from(removed));
    Ok(())
}

/// Returns the key flags of DELEX, which does not read the key that it deletes without a condition.
fn delex_key_use(request: Request<'_>) -> KeyFlags {
    if request.len() == 2 { RM | DELETE } else { RW | ACCESS | DELETE }
}

fn digest_command(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match call.view.get::<Str>(key, Lookup::READ)? {
        Some(text) => call.reply.bulk(&digest(text.as_slice())),
        None => call.reply.null(),
    }
    Ok(())
}

/// Handles DELIFEQ: compares and deletes in one step. The command is Valkey's; Redis 8.4 has `DELEX` for it.
fn delifeq(call: &mut Call<'_>) -> Result<()> {
    let (key, expected) = (call.args.key()?, call.args.bytes()?);
    let is_equal = call.view.get::<Str>(key, Lookup::WRITE)?.is_some_and(|text| text.as_slice() == expected);
    let removed = is_equal && call.view.remove(key);
    call.reply.int(i64::from(removed));
    Ok(())
}

fn getdel(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    reply_value(call, key)?;
    call.view.remove(key);
    Ok(())
}

fn getset(call: &mut Call<'_>) -> Result<()> {
    let (key, value) = (call.args.key()?, call.args.text()?);
    reply_value(call, key)?;
    call.view.set(key, value, Ttl::Clear, SET);
    Ok(())
}

fn getex(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut ttl = TtlOption::Absent;
    while let Some(word) = call.args.next_arg() {
        ttl.choose(TtlOption::read(word, OtherTtlOption::Persist, &mut call.args)?)?;
    }
    reply_value(call, key)?;
    ttl.apply(call, key)
}

fn mget(call: &mut Call<'_>) -> Result<()> {
    call.reply.array(call.args.left());
    while call.args.left() > 0 {
        let key = call.args.key()?;
        match call.view.get::<Str>(key, Lookup::READ) {
            Ok(Some(text)) => reply_text(&mut call.reply, text),
            // MGET treats another type like a missing key.
            _ => call.reply.null(),
        }
    }
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len = call.view.get::<Str>(key, Lookup::READ)?.map_or(0, |text| text.as_slice().len());
    call.reply.int(len as i64);
    Ok(())
}

fn getrange(call: &mut Call<'_>) -> Result<()> {
    let (key, start, end) = (call.args.key()?, call.args.int()?, call.args.int()?);
    let Some(text) = call.view.get::<Str>(key, Lookup::READ)? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let range = resolve_range(start, end, text.as_slice().len());
    match text {
        Str::Inline(slice) => call.reply.bulk(&slice[range]),
        Str::Shared(bytes) => call.reply.bulk_shared(bytes.slice(range)),
    }
    Ok(())
}

/// Resolves first and last index, negative ones counted from the end, to a range within `len` bytes.
fn resolve_range(start: i64, end: i64, len: usize) -> std::ops::Range<usize> {
    let len = len as i64;
    let resolve = |index: i64| if index < 0 { len + index } else { index };
    let (start, end) = (resolve(start).max(0), resolve(end).min(len - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// Replies with the string of a key, or null.
fn reply_value(call: &mut Call<'_>, key: Key<'_>) -> Result<()> {
    match call.view.get::<Str>(key, Lookup::READ)? {
        Some(text) => reply_text(&mut call.reply, text),
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns true for a SET without options, which has the same effect whenever it is executed.
fn is_plain_set(request: Request<'_>) -> bool {
    request.len() == 3
}

fn set(call: &mut Call<'_>) -> Result<()> {
    let (key, value) = (call.args.key()?, call.args.text()?);
    let options = SetOptions::read(&mut call.args)?;
    let ttl = options.ttl.of_written_key(call, Ttl::Clear)?;
    if options.get {
        reply_value(call, key)?;
    }
    let met = match options.when {
        When::Always => true,
        When::Exists(expected) => call.view.exists(key) == expected,
        When::Matches(condition) => match call.view.get::<Str>(key, Lookup::WRITE)? {
            Some(text) => condition.is_met_by(text.as_slice())?,
            None => condition.is_met_by_nothing(),
        },
    };
    if met {
        let event = if matches!(ttl, Ttl::At(_)) { SET_EX } else { SET };
        call.view.set(key, value, ttl, event);
    }
    match (options.get, met) {
        (true, _) => {}
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

/// Returns the key flags of SET: the key is read only with GET or a condition among the arguments after the value, even
/// if such an argument is a value.
fn set_key_use(request: Request<'_>) -> KeyFlags {
    if request.args().skip(3).any(|word| is_word(word, "GET")) || is_conditional(request, 3) {
        RW | ACCESS | UPDATE
    } else {
        OW | UPDATE
    }
}

fn setnx(call: &mut Call<'_>) -> Result<()> {
    let (key, value) = (call.args.key()?, call.args.text()?);
    let free = !call.view.exists(key);
    if free {
        call.view.set(key, value, Ttl::Clear, SET);
    }
    call.reply.int(i64::from(free));
    Ok(())
}

fn setex(call: &mut Call<'_>) -> Result<()> {
    set_for(call, Unit::Seconds)
}

fn psetex(call: &mut Call<'_>) -> Result<()> {
    set_for(call, Unit::Milliseconds)
}

fn set_for(call: &mut Call<'_>, unit: Unit) -> Result<()> {
    let (key, number, value) = (call.args.key()?, call.args.bytes()?, call.args.text()?);
    let deadline = Amount { unit, number }.deadline(call)?;
    call.view.set(key, value, Ttl::At(deadline), SET_EX);
    call.reply.ok();
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Result<()> {
    check_pairs(call)?;
    while call.args.left() > 0 {
        let (key, value) = (call.args.key()?, call.args.text()?);
        call.view.set(key, value, Ttl::Clear, SET);
    }
    call.reply.ok();
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Result<()> {
    check_pairs(call)?;
    let mut pairs: SmallVec<[(Key<'_>, Str<'_>); 8]> = SmallVec::new();
    while call.args.left() > 0 {
        pairs.push((call.args.key()?, call.args.text()?));
    }
    let free = !pairs.iter().any(|(key, _)| call.view.exists(*key));
    if free {
        for (key, value) in pairs {
            call.view.set(key, value, Ttl::Clear, SET);
        }
    }
    call.reply.int(i64::from(free));
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Result<()> {
    match call.args.left() % 2 {
        0 => Ok(()),
        _ => Err(Error::WrongArity(call.name().into())),
    }
}

fn append(call: &mut Call<'_>) -> Result<()> {
    let (key, value) = (call.args.key()?, call.args.text()?);
    let len_max = call.bulk_len_max();
    let mut text = call.view.edit::<Str>(key, APPEND)?;
    let len = if text.exists() {
        let old_len = text.value().len();
        let len = check_len(old_len, value.len(), len_max)?;
        text.change().write_range(old_len, value.as_slice());
        len
    } else {
        drop(text);
        call.view.set(key, value, Ttl::Clear, APPEND);
        value.len()
    };
    call.reply.int(len as i64);
    Ok(())
}

fn setrange(call: &mut Call<'_>) -> Result<()> {
    let (key, offset, patch) = (call.args.key()?, call.args.int()?, call.args.bytes()?);
    let offset = usize::try_from(offset).map_err(|_| Error::OffsetOutOfRange)?;
    let len_max = call.bulk_len_max();
    let mut text = call.view.edit::<Str>(key, SETRANGE)?;
    let mut len = text.value().len();
    // An empty patch is not a change, whatever the offset: the key is not even created.
    if !patch.is_empty() {
        len = len.max(check_len(offset, patch.len(), len_max)?);
        text.change().write_range(offset, patch);
    }
    drop(text);
    call.reply.int(len as i64);
    Ok(())
}

/// Returns the length of a string that grows from `len` bytes by `more`, unless that exceeds the limit.
fn check_len(len: usize, more: usize, len_max: usize) -> Result<usize> {
    len.checked_add(more).filter(|total| *total <= len_max).ok_or(Error::StringTooLong)
}

fn incr(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    add_int(call, key, 1)
}

fn decr(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    add_int(call, key, -1)
}

fn incrby(call: &mut Call<'_>) -> Result<()> {
    let (key, increment) = (call.args.key()?, call.args.int()?);
    add_int(call, key, increment)
}

fn decrby(call: &mut Call<'_>) -> Result<()> {
    let (key, decrement) = (call.args.key()?, call.args.int()?);
    add_int(call, key, decrement.checked_neg().ok_or(Error::DecrementOverflow)?)
}

fn add_int(call: &mut Call<'_>, key: Key<'_>, increment: i64) -> Result<()> {
    let mut digits = itoa::Buffer::new();
    let mut text = call.view.edit::<Str>(key, INCRBY)?;
    let new = if text.exists() {
        let old = parse_int(text.value().as_slice()).ok_or(Error::NotInteger)?;
        let new = old.checked_add(increment).ok_or(Error::Overflow)?;
        text.change().set(digits.format(new).as_bytes());
        new
    } else {
        drop(text);
        call.view.set(key, digits.format(increment), Ttl::Clear, INCRBY);
        increment
    };
    call.reply.int(new);
    Ok(())
}

fn incrbyfloat(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let old = match call.view.get::<Str>(key, Lookup::WRITE)? {
        Some(text) => long_double::parse(text.as_slice()).ok_or(Error::NotFloat)?,
        None => long_double::LongDouble::default(),
    };
    let increment = call.args.long_double()?;
    let new = long_double::format(long_double::add(old, increment).ok_or(Error::NotFinite)?);
    call.view.set(key, &new, Ttl::Keep, INCRBYFLOAT);
    call.view.set_hint(key, StringHint::NotInt);
    call.reply.bulk(&new);
    Ok(())
}

/// The options of SET.
struct SetOptions<'a> {
    when: When<'a>,
    /// True if the reply is the old string.
    get: bool,
    ttl: TtlOption<Amount<'a>>,
}

/// The condition under which a key is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When<'a> {
    /// No condition.
    Always,
    /// Existence (XX, true) or absence (NX, false) of the key.
    Exists(bool),
    /// A condition on the present string.
    Matches(StringCondition<'a>),
}

impl<'a> SetOptions<'a> {
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let mut options = SetOptions { when: When::Always, get: false, ttl: TtlOption::Absent };
        while let Some(word) = args.next_arg() {
            if is_word(word, "NX") {
                options.choose(When::Exists(false))?;
            } else if is_word(word, "XX") {
                options.choose(When::Exists(true))?;
            } else if is_word(word, "GET") {
                options.get = true;
            } else if let Some(condition) = StringCondition::read(word, args)? {
                options.choose(When::Matches(condition))?;
            } else {
                options.ttl.choose(TtlOption::read(word, OtherTtlOption::KeepTtl, args)?)?;
            }
        }
        Ok(options)
    }

    /// Adds a condition. NX and XX may be repeated; a condition on the string may not.
    fn choose(&mut self, when: When<'a>) -> Result<()> {
        let is_repeated = matches!(when, When::Exists(_)) && self.when == when;
        if self.when != When::Always && !is_repeated {
            return Err(Error::Syntax);
        }
        self.when = when;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::resolve_range;

    #[test]
    fn ranges_are_cut_to_the_string_and_count_from_its_end() {
        let cases = [
            ((0, -1), 0..5),
            ((0, 0), 0..1),
            ((-3, -2), 2..4),
            ((-2, -3), 0..0),
            ((-9, 1), 0..2),
            ((3, 99), 3..5),
            ((5, 9), 0..0),
            ((3, 1), 0..0),
            ((-9, -8), 0..0),
            ((0, -6), 0..0),
            ((0, -5), 0..1),
            ((i64::MIN, i64::MAX), 0..5),
            ((i64::MAX, i64::MIN), 0..0),
        ];
        for ((start, end), expected) in cases {
            assert_eq!(resolve_range(start, end, 5), expected, "{start} {end}");
        }
        assert_eq!(resolve_range(0, -1, 0), 0..0);
        assert_eq!(resolve_range(-5, 5, 0), 0..0);
    }
}
