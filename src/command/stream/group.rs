//! XGROUP: consumer groups.

use crate::command::stream::{CONSUMER_CREATED, ids, no_group_of_key};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::spec::{
    Arg, DELETE, DENY_OOM, Group as Family, INSERT, RW, UPDATE, WRITE, integer, key, one_of, string, token,
};
use crate::store::{Classes, ConsumerGroup, Event, Key, Stream, StreamId};

const ID: Arg = one_of("id", &[string("id"), token("new_id", "$")]);
const DESTROY_COST: &str = "O(N) where N is the number of entries in the group's pending entries list (PEL).";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[Command::container(
    "XGROUP",
    Family::Stream,
    &[
        Command::new("CREATE", create, WRITE | DENY_OOM, Family::Stream)
            .args(&[
                key("key", RW | INSERT),
                string("groupname"),
                ID,
                token("mkstream", "MKSTREAM").optional(),
                integer("entries_read").token("ENTRIESREAD").optional(),
            ])
            .docs("5.0.0", "O(1)", "Creates a consumer group."),
        Command::new("SETID", set_id, WRITE, Family::Stream)
            .args(&[
                key("key", RW | UPDATE),
                string("groupname"),
                ID,
                integer("entries_read").token("ENTRIESREAD").optional(),
            ])
            .docs("5.0.0", "O(1)", "Sets the last delivered ID of a consumer group."),
        Command::new("DESTROY", destroy, WRITE, Family::Stream)
            .args(&[key("key", RW | DELETE), string("groupname")])
            .docs("5.0.0", DESTROY_COST, "Deletes a consumer group."),
        Command::new("CREATECONSUMER", create_consumer, WRITE | DENY_OOM, Family::Stream)
            .args(&[key("key", RW | INSERT), string("groupname"), string("consumername")])
            .docs("6.2.0", "O(1)", "Creates a consumer in a consumer group."),
        Command::new("DELCONSUMER", delete_consumer, WRITE, Family::Stream)
            .args(&[key("key", RW | DELETE), string("groupname"), string("consumername")])
            .docs("5.0.0", "O(1)", "Deletes a consumer of a consumer group."),
    ],
)
.docs("5.0.0", "Depends on subcommand.", "A container for commands on consumer groups.")];

const CREATE: &Event = &Event::one(Classes::STREAM, "xgroup-create");
const SET_ID: &Event = &Event::one(Classes::STREAM, "xgroup-setid");
const DESTROY: &Event = &Event::one(Classes::STREAM, "xgroup-destroy");
const DELETE_CONSUMER: &Event = &Event::one(Classes::STREAM, "xgroup-delconsumer");

const NO_KEY: &str = "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
MKSTREAM option to create an empty stream automatically.";

/// The options of CREATE and SETID.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

fn read_options(call: &mut Call<'_>, is_create: bool) -> Result<Options> {
    let mut options = Options::default();
    let too_many = call.args.left() > 3;
    while let Some(word) = call.args.next_arg() {
        if is_create && is_word(word, "MKSTREAM") {
            options.makes_stream = true;
        } else if is_word(word, "ENTRIESREAD") && call.args.left() > 0 {
            options.read = match call.args.int()? {
                -1 => None,
                read => Some(
                    u64::try_from(read).map_err(|_| Error::other("value for ENTRIESREAD must be positive or -1"))?,
                ),
            };
        } else {
            return Err(syntax(call));
        }
    }
    if too_many { Err(syntax(call)) } else { Ok(options) }
}

fn syntax(call: &Call<'_>) -> Error {
    Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "XGROUP")
}

/// Parses the ID after which a group reads.
fn position(word: &[u8], last: StreamId, parse: fn(&[u8]) -> Result<StreamId>) -> Result<StreamId> {
    if word == b"$" { Ok(last) } else { parse(word) }
}

fn create(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, id) = (call.args.bytes()?, call.args.bytes()?);
    let options = read_options(call, true)?;
    let mut edit = call.view.edit::<Stream>(key, CREATE)?;
    edit.keep_quiet();
    if !edit.exists() && !options.makes_stream {
        return Err(Error::other(NO_KEY));
    }
    let stream = edit.value();
    let last = position(id, stream.last(), ids::parse)?;
    if stream.group(name).is_some() {
        return Err(Error::BusyGroup);
    }
    let read = options.read.map(|read| read.min(stream.added()));
    edit.change().add_group(name, ConsumerGroup::new(last, read));
    drop(edit);
    call.reply.ok();
    Ok(())
}

fn set_id(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, id) = (call.args.bytes()?, call.args.bytes()?);
    let options = read_options(call, false)?;
    let mut edit = call.view.edit::<Stream>(key, SET_ID)?;
    edit.keep_quiet();
    if !edit.exists() {
        return Err(Error::other(NO_KEY));
    }
    let stream = edit.value();
    if stream.group(name).is_none() {
        return Err(no_group_of_key(key.bytes, name));
    }
    let last = position(id, stream.last(), |word| ids::parse_any(word, 0))?;
    let read = options.read.map(|read| read.min(stream.added()));
    if let Some(mut group) = edit.change().group_mut(name) {
        (group.last, group.read) = (last, read);
    }
    drop(edit);
    call.reply.ok();
    Ok(())
}

fn destroy(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let name = call.args.bytes()?;
    let mut edit = call.view.edit::<Stream>(key, DESTROY)?;
    if !edit.exists() {
        return Err(Error::other(NO_KEY));
    }
    let exists = edit.value().group(name).is_some();
    if exists {
        edit.keep_quiet();
        edit.wake_blocked();
        edit.change().remove_group(name);
    }
    drop(edit);
    call.reply.int(i64::from(exists));
    Ok(())
}

/// Changes the consumers of a group; `change` returns true if any has changed, and a result.
fn change_group<R>(
    call: &mut Call<'_>,
    (key, name): (Key<'_>, &[u8]),
    event: &'static Event,
    change: impl FnOnce(&mut ConsumerGroup) -> (bool, R),
) -> Result<R> {
    let mut edit = call.view.edit::<Stream>(key, event)?;
    edit.keep_quiet();
    let stream = edit.annotate().ok_or(Error::other(NO_KEY))?;
    let mut group = stream.group_mut(name).ok_or_else(|| no_group_of_key(key.bytes, name))?;
    let (is_changed, result) = change(&mut group);
    drop(group);
    edit.count_more(usize::from(is_changed));
    Ok(result)
}

fn create_consumer(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, consumer) = (call.args.bytes()?, call.args.bytes()?);
    let now = call.now().wall_ms();
    let is_new = change_group(call, (key, name), CONSUMER_CREATED, |group| {
        let (_, is_new) = group.create_consumer(consumer, now);
        (is_new, is_new)
    })?;
    call.reply.int(i64::from(is_new));
    Ok(())
}

fn delete_consumer(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (name, consumer) = (call.args.bytes()?, call.args.bytes()?);
    let pending = change_group(call, (key, name), DELETE_CONSUMER, |group| {
        let pending = group.delete_consumer(consumer);
        (pending.is_some(), pending.unwrap_or(0))
    })?;
    call.reply.int(pending as i64);
    Ok(())
}
