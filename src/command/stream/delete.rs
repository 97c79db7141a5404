//! XDEL, XDELEX and XACKDEL.

use std::collections::BTreeMap;

use crate::command::stream::add::{REFERENCES, parse_references};
use crate::command::stream::ids;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{DELETE, Effect, FAST, Group, RW, UPDATE, WRITE, block, integer, key, string};
use crate::store::{BigStream, Classes, Event, Key, References, Stream, StreamId};

const DEL_COST: &str = "O(1) for each single item to delete in the stream, regardless of the stream size.";
const EACH_COST: &str = "O(1) for each ID.";

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XDEL", xdel, WRITE | FAST, Group::Stream)
        .args(&[key("key", RW | DELETE), string("id").multiple()])
        .docs("5.0.0", DEL_COST, "Deletes entries of a stream."),
    Command::new("XDELEX", xdelex, WRITE | FAST, Group::Stream)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | DELETE),
            REFERENCES,
            block("ids", &[integer("numids"), string("id").multiple()]).token("IDS"),
        ])
        .docs("8.2.0", EACH_COST, "Deletes entries of a stream, and says what becomes of references to them."),
    Command::new("XACKDEL", xackdel, WRITE | FAST, Group::Stream)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | UPDATE | DELETE),
            string("group"),
            REFERENCES,
            block("ids", &[integer("numids"), string("id").multiple()]).token("IDS"),
        ])
        .docs("8.2.0", EACH_COST, "Acknowledges entries and deletes them, and says what becomes of references to them."),
];

const XDEL: &Event = &Event::one(Classes::STREAM, "xdel");

// The replies of XDELEX and XACKDEL for an ID.
const ABSENT: i64 = -1;
const DELETED: i64 = 1;
const REFERRED_TO: i64 = 2;

fn xdel(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut edit = call.view.edit::<Stream>(key, XDEL)?;
    if !edit.exists() {
        drop(edit);
        call.reply.int(0);
        return Ok(());
    }
    // All IDs are checked before the first entry is deleted.
    let mut wanted = Vec::with_capacity(call.args.left());
    while let Some(word) = call.args.next_arg() {
        wanted.push(ids::parse(word)?);
    }
    let deleted = match edit.annotate() {
        Some(stream) => wanted.into_iter().filter(|id| stream.delete(*id)).count(),
        None => 0,
    };
    edit.count_more(deleted);
    drop(edit);
    call.reply.int(deleted as i64);
    Ok(())
}

/// Reads the options of XDELEX and XACKDEL, in any order.
fn read_options(args: &mut Args<'_>) -> Result<(References, Vec<StreamId>)> {
    let (mut references, mut wanted) = (None, None);
    while let Some(word) = args.next_arg() {
        if let Some(other) = parse_references(word) {
            if references.replace(other).is_some() {
                return Err(Error::Syntax);
            }
        } else if is_word(word, "IDS") && wanted.is_none() {
            let count = args.next_arg().and_then(parse_int).filter(|count| *count > 0);
            let count = count.ok_or(Error::other("Number of IDs must be a positive integer"))?;
            let Some(count) = usize::try_from(count).ok().filter(|count| *count <= args.left()) else {
                return Err(Error::other("The `numids` parameter must match the number of arguments"));
            };
            let words: Vec<&[u8]> = (0..count).filter_map(|_| args.next_arg()).collect();
            wanted = Some(words);
        } else {
            return Err(Error::Syntax);
        }
    }
    let Some(words) = wanted else { return Err(Error::other("IDS option is required")) };
    let wanted: Result<Vec<StreamId>> = words.into_iter().map(ids::parse).collect();
    Ok((references.unwrap_or_default(), wanted?))
}

fn xdelex(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut edit = call.view.edit::<Stream>(key, XDEL)?; // the type is checked before the options
    let (references, wanted) = read_options(&mut call.args)?;
    let (mut deleted, mut forgotten) = (Vec::new(), Forgotten::new());
    call.reply.array(wanted.len());
    let Some(stream) = edit.annotate() else {
        wanted.iter().for_each(|_| call.reply.int(ABSENT));
        return Ok(());
    };
    for id in &wanted {
        let outcome = delete(stream, *id, references, &mut forgotten);
        deleted.extend((outcome == DELETED).then_some(*id));
        call.reply.int(outcome);
    }
    edit.count_more(deleted.len());
    if !forgotten.is_empty() && deleted.is_empty() {
        edit.record();
        edit.keep_quiet();
    }
    drop(edit);
    log_ids(call, &[b"XDEL", key.bytes], &deleted);
    log_forgotten(call, key, &forgotten);
    Ok(())
}

/// Logs a command for some IDs, if there are any.
fn log_ids(call: &mut Call<'_>, command: &[&[u8]], ids: &[StreamId]) {
    if !ids.is_empty() && call.namespace.store.is_logged() {
        let texts: Vec<_> = ids.iter().map(|id| id.text()).collect();
        let words: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        call.log(&[command, &words].concat());
    }
}

/// Entries that are pending no more, by the names of their groups.
type Forgotten = BTreeMap<Box<[u8]>, Vec<StreamId>>;

/// Logs that the references to entries are gone, in a word that servers before Redis 8.2 have, too.
fn log_forgotten(call: &mut Call<'_>, key: Key<'_>, forgotten: &Forgotten) {
    forgotten.iter().for_each(|(group, ids)| log_ids(call, &[b"XACK", key.bytes, group], ids));
}

/// Deletes an entry unless it must stay, and the references to it, which may exist even if the entry was deleted
/// before; returns the reply for the entry.
fn delete(stream: &mut BigStream, id: StreamId, references: References, forgotten: &mut Forgotten) -> i64 {
    if references == References::Acknowledged && stream.is_referred_to(id) {
        return REFERRED_TO;
    }
    let is_deleted = stream.delete(id);
    if references == References::Delete {
        stream.forget(id).into_iter().for_each(|group| forgotten.entry(group).or_default().push(id));
    }
    if is_deleted { DELETED } else { ABSENT }
}

fn xackdel(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?; // the type is checked before the options
    let name = call.args.bytes()?;
    let (references, wanted) = read_options(&mut call.args)?;
    let (mut released, mut deleted, mut forgotten) = (Vec::new(), Vec::new(), Forgotten::new());
    call.reply.array(wanted.len());
    if let Some(stream) = edit.annotate() {
        for id in &wanted {
            if stream.group_mut(name).and_then(|mut group| group.release(*id)).is_none() {
                call.reply.int(ABSENT);
                continue;
            }
            released.push(*id);
            let outcome = delete(stream, *id, references, &mut forgotten);
            deleted.extend((outcome == DELETED).then_some(*id));
            call.reply.int(if outcome == REFERRED_TO { REFERRED_TO } else { DELETED });
        }
    } else {
        wanted.iter().for_each(|_| call.reply.int(ABSENT));
    }
    edit.count_more(released.len());
    if deleted.is_empty() {
        edit.keep_quiet()
    } else {
        edit.set_event(XDEL)
    }
    drop(edit);
    log_ids(call, &[b"XACK", key.bytes, name], &released);
    log_ids(call, &[b"XDEL", key.bytes], &deleted);
    log_forgotten(call, key, &forgotten);
    Ok(())
}
