//! SPOP and SRANDMEMBER.

use crate::command::element_expiry::unexpired_key;
use crate::command::elements::{RandomSample, reply_item, reply_repeated};
use crate::command::set::members::reply_set;
use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::store::value::member::OwnedMember;
use crate::store::value::{Set, SetRef};
use crate::store::{Classes, Event, Key, Lookup};

/// The event of removing random members.
const SPOP: &Event = &Event::one(Classes::SET, "spop");

/// The number of members logged in one command.
const LOGGED_TOGETHER: usize = 1024;

pub(super) fn spop(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let count = match call.args.left() {
        0 => return pop_one(call, key),
        1 => call.args.count()?,
        _ => return Err(Error::Syntax),
    };
    let len = call.view.get::<Set>(key, Lookup::WRITE)?.map_or(0, SetRef::len);
    match count {
        _ if len == 0 || count == 0 => call.reply.set(0),
        count if count >= len => pop_all(call, key)?,
        count => pop_some(call, key, count)?,
    }
    Ok(())
}

fn pop_one(call: &mut Call<'_>, key: Key<'_>) -> Result<()> {
    let mut dice = call.view.dice(key);
    let mut edit = call.view.edit::<Set>(key, SPOP)?;
    let mut popped = None;
    if edit.exists() {
        edit.change().pop(1, &mut dice, |member| popped = Some(OwnedMember::of(member)));
    }
    drop(edit);
    match popped {
        Some(member) => {
            reply_item(&mut call.reply, member.item());
            log_removed(call, key, &[member]);
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// Removes all members at once, together with the key.
fn pop_all(call: &mut Call<'_>, key: Key<'_>) -> Result<()> {
    let mut edit = call.view.edit::<Set>(key, SPOP)?;
    reply_set(&mut call.reply, edit.value());
    edit.empty(edit.value().len());
    drop(edit);
    call.log(&[b"DEL", key.bytes]);
    Ok(())
}

fn pop_some(call: &mut Call<'_>, key: Key<'_>, count: usize) -> Result<()> {
    let (mut dice, is_logged) = (call.view.dice(key), call.namespace.store.is_logged());
    let mut popped = Vec::new();
    call.reply.set(count);
    let mut edit = call.view.edit::<Set>(key, SPOP)?;
    edit.change().pop(count, &mut dice, |member| {
        reply_item(&mut call.reply, member);
        if is_logged {
            popped.push(OwnedMember::of(member));
        }
    });
    edit.count_more(count - 1);
    drop(edit);
    popped.chunks(LOGGED_TOGETHER).for_each(|members| log_removed(call, key, members));
    Ok(())
}

/// Logs the removal of randomly chosen members.
fn log_removed(call: &mut Call<'_>, key: Key<'_>, members: &[OwnedMember]) {
    if call.namespace.store.is_logged() {
        let texts: Vec<_> = members.iter().map(|member| member.item().to_cow()).collect();
        let words: Vec<&[u8]> = [&b"SREM"[..], key.bytes].into_iter().chain(texts.iter().map(|text| &**text)).collect();
        call.log(&words);
    }
}

pub(super) fn srandmember(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    let sample = match call.args.left() {
        0 => None,
        1 => Some(RandomSample::of(call.args.symmetric_int()?)),
        _ => return Err(Error::Syntax),
    };
    let mut dice = call.view.dice(key);
    let (set, reply) = (call.view.get_set(key, Lookup::READ)?, &mut call.reply);
    match (set, sample) {
        (None, None) => reply.null(),
        (None, Some(_)) => reply.array(0),
        (Some(set), None) => {
            if let Some(member) = set.random(&mut dice) {
                reply_item(reply, member);
            }
        }
        (Some(set), Some(RandomSample::Repeated(count))) => {
            let each = |reply: &mut Reply<'_>| {
                if let Some(member) = set.random(&mut dice) {
                    reply_item(reply, member);
                }
            };
            reply_repeated(reply, count, |reply, count| reply.array(count), each)?;
        }
        (Some(set), Some(RandomSample::Different(count))) => {
            let count = count.min(set.len());
            reply.array(count);
            set.sample(count, &mut dice, |member| reply_item(reply, member));
        }
    }
    Ok(())
}
