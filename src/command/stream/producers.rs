//! Producers that name the entries which they add, so that none is added twice: IDMP and IDMPAUTO of XADD, XCFGSET, and
//! XIDMPRECORD, which the append-only files of Redis have.

use std::borrow::Cow;

use twox_hash::XxHash3_64;

use crate::command::stream::ids;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{
    Arg, DENY_OOM, Effect, FAST, Group, NO_ENGINE, RW, UPDATE, WRITE, block, integer, key, one_of, string,
};
use crate::store::{Event, Producers, Remembrance, SideRecord, Stream};

/// The argument of XADD for the producer of an entry.
pub(super) const IDEMPOTENCE: Arg = one_of(
    "idempotency",
    &[
        string("producer-id").token("IDMPAUTO"),
        block("idmp", &[string("producer-id"), string("idempotent-id")]).token("IDMP"),
    ],
)
.optional()
.since("8.6.0");

#[rustfmt::skip] // a paragraph for each command
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("XCFGSET", xcfgset, WRITE | FAST | NO_ENGINE, Group::Stream)
        .effect(Effect::Given)
        .arity(-2)
        .args(&[
            key("key", RW | UPDATE),
            integer("idmp-duration").token("IDMP-DURATION").optional(),
            integer("idmp-maxsize").token("IDMP-MAXSIZE").optional(),
        ])
        .docs("8.6.0", "O(1)", "Sets for how long, and how many entries of each producer, a stream recognizes."),
    Command::new("XIDMPRECORD", xidmprecord, WRITE | DENY_OOM | FAST | NO_ENGINE, Group::Stream)
        .effect(Effect::Given)
        .args(&[key("key", RW | UPDATE), string("pid"), string("iid"), string("stream-id")])
        .docs("8.8.0", "O(1)", "Makes a stream recognize an entry of a producer; for append-only files."),
];

/// The producer of an entry, and the name that it has given it.
pub(super) struct NamedBy<'a> {
    pub(super) producer: &'a [u8],
    /// `None` for a name that is computed from the entry.
    name: Option<&'a [u8]>,
}

impl<'a> NamedBy<'a> {
    /// Reads the arguments of an option; `None` if the word is not one of the two.
    pub(super) fn read(args: &mut Args<'a>, word: &[u8]) -> Result<Option<Self>> {
        let (is_auto, left) = (is_word(word, "IDMPAUTO"), args.left());
        if !(is_auto && left > 0 || is_word(word, "IDMP") && left > 1) {
            return Ok(None);
        }
        let producer = args.bytes()?;
        let name = if is_auto { None } else { Some(args.bytes()?) };
        match (producer.is_empty(), name) {
            (true, None) => Err(Error::other("syntax error, IDMPAUTO requires a non-empty producer ID")),
            (true, Some(_)) => Err(Error::other("syntax error, IDMP requires a non-empty producer ID")),
            (false, Some([])) => Err(Error::other("syntax error, IDMP requires a non-empty idempotent ID")),
            (false, name) => Ok(Some(NamedBy { producer, name })),
        }
    }

    /// Returns the name: the given one, or 128 bits that depend on the fields and values, but not on their order.
    pub(super) fn name(&self, pairs: &[&[u8]]) -> Cow<'a, [u8]> {
        if let Some(name) = self.name {
            return Cow::Borrowed(name);
        }
        let sum = |seed: u64| {
            pairs.chunks_exact(2).fold(0_u64, |sum, pair| {
                let field = XxHash3_64::oneshot_with_seed(seed, pair[0]);
                sum.wrapping_add(XxHash3_64::oneshot_with_seed(field, pair[1]))
            })
        };
        Cow::Owned([sum(0), sum(1)].map(u64::to_le_bytes).concat())
    }
}

/// Returns the limits of streams that have none of their own.
pub(super) fn remembrance(call: &Call<'_>) -> Remembrance {
    let config = call.config;
    Remembrance { duration_s: config.stream_idmp_duration, max_size: config.stream_idmp_maxsize }
}

fn xcfgset(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (mut duration, mut max_size) = (None, None);
    while let Some(word) = call.args.next_arg() {
        let has_more = call.args.left() > 0;
        let mut number = |max: u64| {
            let number = parse_int(call.args.next_arg().unwrap_or_default());
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| (1..=max).contains(number))
        };
        if has_more && is_word(word, "IDMP-DURATION") {
            if duration.is_some() {
                return Err(Error::other("IDMP-DURATION specified multiple times"));
            }
            const BOUNDS: &str = "IDMP-DURATION must be between 1 and 86400 seconds";
            duration = Some(number(Remembrance::DURATION_MAX).ok_or(Error::other(BOUNDS))?);
        } else if has_more && is_word(word, "IDMP-MAXSIZE") {
            if max_size.is_some() {
                return Err(Error::other("IDMP-MAXSIZE specified multiple times"));
            }
            const BOUNDS: &str = "IDMP-MAXSIZE must be between 1 and 10000 entries";
            max_size = Some(number(Remembrance::SIZE_MAX as u64).ok_or(Error::other(BOUNDS))? as usize);
        } else {
            return Err(Error::Syntax);
        }
    }
    if duration.is_none() && max_size.is_none() {
        return Err(Error::other("At least one parameter must be specified"));
    }
    let general = remembrance(call);
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let stream = edit.annotate().ok_or(Error::NoSuchKey)?;
    let before = stream.producers().map_or(general, Producers::limits);
    let limits = Remembrance {
        duration_s: duration.unwrap_or(before.duration_s),
        max_size: max_size.unwrap_or(before.max_size),
    };
    let producers = stream.producers_mut().get_or_insert_with(|| Box::new(Producers::new(limits)));
    producers.set_limits(limits);
    let text = producers.text(None);
    edit.count_more(1);
    drop(edit);
    call.log(&[b"PING", &SideRecord::Producers { key: key.bytes, text: &text }.word()]);
    call.reply.ok();
    Ok(())
}

fn xidmprecord(call: &mut Call<'_>) -> Result<()> {
    let (key, producer, name) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    if producer.is_empty() {
        return Err(Error::other("producer ID must be non-empty"));
    }
    if name.is_empty() {
        return Err(Error::other("idempotent ID must be non-empty"));
    }
    let id = ids::parse(call.args.bytes()?)?;
    let (general, now) = (remembrance(call), call.now().wall_ms());
    let mut edit = call.view.edit::<Stream>(key, Event::NONE)?;
    edit.keep_quiet();
    let stream = edit.annotate().ok_or(Error::NoSuchKey)?;
    if stream.get(id).is_none() {
        return Err(Error::other("No such message in stream"));
    }
    let found = stream.producers_mut().as_mut().and_then(|producers| producers.find(producer, name, now));
    if let Some(found) = found {
        drop(edit);
        if found != id {
            return Err(Error::other("IID already exists for this producer with a different stream ID"));
        }
        call.reply.ok();
        return Ok(());
    }
    let producers = stream.producers_mut().get_or_insert_with(|| Box::new(Producers::new(general)));
    producers.add(producer, name, id);
    let text = producers.text(Some((producer, name, id)));
    edit.count_more(1);
    drop(edit);
    call.log(&[b"PING", &SideRecord::Producers { key: key.bytes, text: &text }.word()]);
    call.reply.ok();
    Ok(())
}
