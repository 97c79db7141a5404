//! OBJECT: how Redis would keep the value of a key.
//!
//! keylatch keeps strings its own way. It remembers how a string came to be, which is all that Redis' encodings
//! depend on besides the bytes.

use super::{Arg, Call, Command, Group, READ, RO, key};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::{Form, Key};

const TIPS: &[&str] = &["nondeterministic_output"];
const KEY: &[Arg] = &[key("key", RO)];

/// Declares the commands of this file.
#[rustfmt::skip] // one command, the same few lines
pub const COMMANDS: &[Command] = &[
    Command::container("OBJECT", Group::Generic, &[
        Command::new("ENCODING", encoding, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Names how Redis would keep the value of a key."),
        Command::new("FREQ", freq, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("4.0.0", "O(1)", "Tells how often a key was used; not tracked."),
        Command::new("IDLETIME", idletime, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Tells how long ago a key was used; not tracked, so always 0."),
        Command::new("REFCOUNT", refcount, READ, Group::Generic).args(KEY).tips(TIPS)
            .docs("2.2.3", "O(1)", "Tells how many references Redis would have to the value of a key."),
    ])
    .help_since("6.2.0")
    .docs("2.2.3", "Depends on subcommand.", "Holds the commands about the inside of values."),
];

/// The longest string that Redis keeps in one piece with what it notes about it.
const EMBEDDED_MAX: usize = 44;

/// Redis makes the integers from 0 up to this one once, and shares them among all keys.
const SHARED_INTEGERS: i64 = 10_000;

/// What Redis counts for a shared integer.
const SHARED_COUNT: i64 = i32::MAX as i64;

const NOT_TRACKED: &str = "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
    when switching between policies at runtime LRU and LFU data will take some time to adjust.";

fn encoding(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match encoding_of(call, key)? {
        Some(Encoding::Integer(_)) => call.reply.bulk(b"int"),
        Some(Encoding::Embedded) => call.reply.bulk(b"embstr"),
        Some(Encoding::Raw) => call.reply.bulk(b"raw"),
        None => call.reply.null(),
    }
    Ok(())
}

fn refcount(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match encoding_of(call, key)? {
        Some(Encoding::Integer(number)) if (0..SHARED_INTEGERS).contains(&number) => call.reply.int(SHARED_COUNT),
        Some(_) => call.reply.int(1),
        None => call.reply.null(),
    }
    Ok(())
}

fn idletime(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    match call.view.exists(key) {
        true => call.reply.int(0),
        false => call.reply.null(),
    }
    Ok(())
}

fn freq(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    if call.view.exists(key) {
        return Err(Error::other(NOT_TRACKED));
    }
    call.reply.null();
    Ok(())
}

/// How Redis would keep a string.
enum Encoding {
    Integer(i64),
    Embedded,
    Raw,
}

fn encoding_of(call: &mut Call<'_>, key: Key<'_>) -> Result<Option<Encoding>> {
    let Some(form) = call.view.form(key) else { return Ok(None) };
    let text = call.view.string(key)?.map_or(&b""[..], |text| text.as_slice());
    Ok(Some(match (form, parse_int(text)) {
        (Form::Whole, Some(number)) => Encoding::Integer(number),
        (Form::Whole | Form::Text, _) if text.len() <= EMBEDDED_MAX => Encoding::Embedded,
        _ => Encoding::Raw,
    }))
}
