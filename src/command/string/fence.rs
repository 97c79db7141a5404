//! Strings that are written with a fencing token: SETIFGREATER and DELIFGREATER, whose names and replies are those of
//! Garnet. A client that has lost its lock has a smaller token than the present holder, so its late write is refused.
//!
//! The greatest token is a key's fence. A string that was never written with a token has the fence 0, as in Garnet. The
//! effects of other commands on fences are decided in [`store::fences`](crate::store).
//!
//! A key that was deleted or has expired refuses smaller tokens for a while (`fence-memory-ms`), but not an equal one:
//! its writer may create it again. So a reply with a greater fence than the request's always means that the request was
//! refused.

use crate::command::string::{SET, SET_EX, reply_text};
use crate::command::ttl::{Amount, RELATIVE_EXPIRATION, Unit};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{ACCESS, DELETE, DENY_OOM, Effect, FAST, Group, RW, UPDATE, WRITE, integer, key, string, token};
use crate::store::{Key, Lookup, SideRecord, Str, Ttl};

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("SETIFGREATER", setifgreater, WRITE | DENY_OOM, Group::String)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | ACCESS | UPDATE),
            string("value"),
            integer("fence"),
            RELATIVE_EXPIRATION,
            token("noget", "NOGET").optional(),
        ])
        .docs("0.1.0", "O(1)", "Sets a string and its fence if the fence is greater than that of the last such write."),
    Command::new("DELIFGREATER", delifgreater, WRITE | FAST, Group::String)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | DELETE), integer("fence")])
        .docs("0.1.0", "O(1)", "Deletes a string if the fence is greater than that of the last write with a fence."),
];

/// The options of SETIFGREATER.
#[derive(Default)]
struct Options<'a> {
    expiration: Option<Amount<'a>>,
    /// True if a refusal comes without the present value.
    is_brief: bool,
}

impl<'a> Options<'a> {
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let mut options = Options::default();
        while let Some(word) = args.next_arg() {
            let is_repeated = if is_word(word, "NOGET") {
                std::mem::replace(&mut options.is_brief, true)
            } else {
                let unit = Unit::of_option(word).filter(|unit| !unit.is_absolute()).ok_or(Error::Syntax)?;
                options.expiration.replace(Amount { unit, number: args.bytes()? }).is_some()
            };
            if is_repeated {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

fn read_fence(args: &mut Args<'_>) -> Result<i64> {
    let fence = parse_int(args.bytes()?).filter(|fence| *fence >= 0);
    fence.ok_or_else(|| Error::other("ETAG must be a numerical value greater than or equal to 0"))
}

/// Returns true if a write with a fence is to be refused.
fn is_refused(call: &mut Call<'_>, key: Key<'_>, fence: i64) -> Result<bool> {
    Ok(if call.view.get::<Str>(key, Lookup::WRITE)?.is_some() {
        fence <= call.view.locks().fence(key)
    } else {
        // A replayed write was not refused originally, but its replay sees another time.
        call.view.cx().expires_keys() && fence < call.view.locks().fence_or_memory(key)
    })
}

fn setifgreater(call: &mut Call<'_>) -> Result<()> {
    let (key, value) = (call.args.key()?, call.args.text()?);
    let fence = read_fence(&mut call.args)?;
    let options = Options::read(&mut call.args)?;
    let deadline = options.expiration.map(|amount| amount.deadline(call)).transpose()?;
    if is_refused(call, key, fence)? {
        return refuse(call, key, options.is_brief);
    }
    let (ttl, event) = deadline.map_or((Ttl::Keep, SET), |deadline| (Ttl::At(deadline), SET_EX));
    call.view.set(key, value, ttl, event);
    call.view.locks().set_fence(key, fence);
    // Servers other than keylatch know no fences: they are to get the value.
    call.log(&[b"SET", key.bytes, value.as_slice(), b"KEEPTTL"]);
    call.log(&[b"PING", &SideRecord::Fence { key: key.bytes, fence }.word()]);
    if let Some(deadline) = deadline {
        call.log_deadline(key, deadline);
    }
    call.reply.array(2);
    call.reply.int(fence);
    call.reply.null();
    Ok(())
}

/// Replies with the fence and the value that caused the refusal of a write; a removed key has no value.
fn refuse(call: &mut Call<'_>, key: Key<'_>, is_brief: bool) -> Result<()> {
    let fence = call.view.locks().fence_or_memory(key);
    call.reply.array(2);
    call.reply.int(fence);
    match call.view.get::<Str>(key, Lookup::PEEK)? {
        Some(text) if !is_brief => reply_text(&mut call.reply, text),
        _ => call.reply.null(),
    }
    Ok(())
}

fn delifgreater(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let fence = read_fence(&mut call.args)?;
    let is_deleted = !is_refused(call, key, fence)? && call.view.exists(key);
    if is_deleted {
        call.view.locks().set_fence(key, fence); // remembered after the removal
        call.view.remove(key);
    }
    call.reply.int(i64::from(is_deleted));
    Ok(())
}
