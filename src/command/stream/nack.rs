//! XNACK: pending entries are taken from their consumers without being acknowledged.

use crate::command::stream::claim::disown;
use crate::command::stream::{GroupLog, ids, no_group};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{Effect, FAST, Group as Family, RW, UPDATE, WRITE, block, integer, key, one_of, string, token};
use crate::store::{BigStream, Event, Lookup, Stream, StreamId};

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XNACK", xnack, WRITE | FAST, Family::Stream)
        .effect(Effect::Given)
        .args(&[
            key("key", RW | UPDATE),
            string("group"),
            one_of("mode", &[token("silent", "SILENT"), token("fail", "FAIL"), token("fatal", "FATAL")]),
            block("ids", &[integer("numids"), string("id").multiple()]).token("IDS"),
            integer("count").token("RETRYCOUNT").optional(),
            token("force", "FORCE").optional(),
        ])
        .docs("8.8.0", "O(1) for each message ID processed.", "Makes pending entries available to other consumers."),
];

/// The change of the number of deliveries.
#[derive(Clone, Copy)]
enum DeliveryCount {
    /// The last delivery does not count.
    Silent,
    Fail,
    /// No delivery will succeed.
    Fatal,
    Set(u64),
}

impl DeliveryCount {
    fn count(self, before: u64) -> u64 {
        match self {
            DeliveryCount::Silent => before.saturating_sub(1),
            DeliveryCount::Fail => before,
            DeliveryCount::Fatal => BigStream::COUNT_MAX,
            DeliveryCount::Set(count) => count,
        }
    }
}

/// The entries to be released, and how.
struct Nack {
    ids: Vec<StreamId>,
    counting: DeliveryCount,
    is_forced: bool,
}

fn xnack(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let group = call.args.bytes()?;
    if call.view.get::<Stream>(key, Lookup::READ)?.is_none_or(|stream| stream.group(group).is_none()) {
        return Err(no_group(key.bytes, group, ""));
    }
    let Nack { ids, counting, is_forced } = read_nack(call)?;
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let mut log = GroupLog::default();
    if let Some(stream) = edit.annotate() {
        log.disowned.extend(ids.into_iter().filter_map(|id| {
            let count = disown(stream, group, id, is_forced, |before| counting.count(before))?;
            Some((id, count))
        }));
    }
    let count = log.disowned.len();
    if count > 0 {
        edit.wake_blocked();
    }
    edit.count_more(count);
    drop(edit);
    call.reply.int(count as i64);
    log.write(call, (key.bytes, group, b""));
    Ok(())
}

fn read_nack(call: &mut Call<'_>) -> Result<Nack> {
    let mut counting = match call.args.bytes()? {
        word if is_word(word, "SILENT") => DeliveryCount::Silent,
        word if is_word(word, "FAIL") => DeliveryCount::Fail,
        word if is_word(word, "FATAL") => DeliveryCount::Fatal,
        _ => return Err(Error::other("mode must be SILENT, FAIL, or FATAL")),
    };
    if !is_word(call.args.bytes()?, "IDS") {
        return Err(Error::other("syntax error, expected IDS keyword"));
    }
    let count = call.args.positive("numids must be a positive integer")?;
    if count > call.args.left() {
        return Err(Error::other("number of IDs doesn't match numids"));
    }
    // All IDs are checked before the first entry is released.
    let ids = (0..count).map(|_| ids::parse(call.args.bytes()?)).collect::<Result<_>>()?;
    let mut is_forced = false;
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "FORCE") {
            is_forced = true;
        } else if is_word(word, "RETRYCOUNT") && call.args.left() > 0 {
            let count = parse_int(call.args.bytes()?).and_then(|count| u64::try_from(count).ok());
            counting = DeliveryCount::Set(count.ok_or(Error::other("Invalid RETRYCOUNT value, must be >= 0"))?);
        } else {
            return Err(Error::StreamOption("XNACK", word.to_vec()));
        }
    }
    Ok(Nack { ids, counting, is_forced })
}
