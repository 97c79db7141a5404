//! DUMP and RESTORE: serialised values.
//!
//! The format is Redis' own (`rdb`): a dump of either server can be restored by the other.

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use tracing::debug;

use crate::command::ttl::{Time, Unit};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::memory::marked::MarkedBytes;
use crate::rdb::{self, Compression, PayloadError};
use crate::resp::parse_int;
use crate::spec::{
    ACCESS, ASKING, Arg, DENY_OOM, Effect, Group, OW, READ, RO, UPDATE, WRITE, integer, key, string, token,
};
use crate::store::entry::Entry;
use crate::store::{Classes, Event, Lookup, Origin, SideRecord, Str, WrongType, remove_expired_elements, usage};
use crate::types::payload::{self, ValueTarget};

const DUMP_COST: &str = "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis \
objects composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) \
where M is small, so simply O(1).";

const RESTORE_COST: &str = "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where \
N is the number of Redis objects composing the value and M their average size. For small string values the time \
complexity is thus O(1)+O(1*M) where M is small, so simply O(1). However for sorted set values the complexity is \
O(N*M*log(N)) because inserting values into sorted sets is O(log(N)).";

const RESTORE_ARGS: &[Arg] = &[
    key("key", OW | UPDATE),
    integer("ttl"),
    string("serialized-value"),
    token("replace", "REPLACE").optional().since("3.0.0"),
    token("absttl", "ABSTTL").optional().since("5.0.0"),
    integer("seconds").token("IDLETIME").optional().since("5.0.0"),
    integer("frequency").token("FREQ").optional().since("5.0.0"),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("DUMP", dump, READ, Group::Generic)
        .args(&[key("key", RO | ACCESS)])
        .tips(&["nondeterministic_output"])
        .docs("2.6.0", DUMP_COST, "Serialises the value of a key for RESTORE."),
    Command::new("RESTORE", restore, WRITE | DENY_OOM, Group::Generic)
        .effect(Effect::Given)
        .args(RESTORE_ARGS)
        .categories(&["dangerous"])
        .docs("2.6.0", RESTORE_COST, "Creates a key from a payload of DUMP."),
    Command::new("RESTORE-ASKING", restore, WRITE | DENY_OOM | ASKING, Group::Server)
        .effect(Effect::Given)
        .args(RESTORE_ARGS)
        .categories(&["keyspace", "dangerous"])
        .internal()
        .docs("3.0.0", RESTORE_COST, "Creates a key that MIGRATE has moved between nodes of a cluster."),
];

/// The event of creating a key from a dump.
const RESTORE: &Event = &Event::one(Classes::GENERIC, "restore");

fn dump(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let options = options(call);
    match call.view.lookup(key, Lookup::READ) {
        Some(entry) => {
            let dump = Parcel::new(entry, options).dump();
            call.reply.bulk_shared(dump);
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns this server's options for writing and reading values.
pub(crate) fn options(call: &Call<'_>) -> payload::ValueOptions {
    payload::ValueOptions {
        compression: Compression::at_once_if(call.config.rdbcompression),
        // A record of the log may have a value that grew beyond what a client may send at once.
        len_max: if call.view.cx().origin == Origin::Replay { usize::MAX } else { call.bulk_len_max() },
    }
}

/// A value to be dumped, taken while its shard is locked. A string is serialised later, and a long string is shared
/// until then, not copied.
pub(crate) struct Parcel {
    value: Taken,
    options: payload::ValueOptions,
}

enum Taken {
    Text(Bytes),
    /// Any other value, as DUMP writes it.
    Dumped(Bytes),
}

impl Parcel {
    /// Takes the value of an entry.
    pub(crate) fn new(entry: &Entry, options: payload::ValueOptions) -> Self {
        let value = match entry.get::<Str>() {
            Ok(text) => Taken::Text(text.to_bytes()),
            Err(WrongType) => {
                let mut body = MarkedBytes::default();
                let version = payload::write(&mut body, entry, options);
                Taken::Dumped(rdb::seal(body.into_bytes(), version).into())
            }
        };
        Parcel { value, options }
    }

    /// Returns the value as DUMP writes it.
    pub(crate) fn dump(&self) -> Bytes {
        match &self.value {
            Taken::Text(text) => {
                let mut body = MarkedBytes::from(Vec::with_capacity(text.len() + 32));
                body.push(rdb::kind::STRING);
                rdb::write_string(&mut body, text, self.options.compression);
                rdb::seal(body.into_bytes(), rdb::VERSION).into()
            }
            Taken::Dumped(dumped) => dumped.clone(),
        }
    }
}

struct Options {
    replaces: bool,
    /// The unit and origin of the TTL: since 1970 with ABSTTL.
    unit: Unit,
    idle_s: Option<u64>,
    frequency: Option<u8>,
}

impl Options {
    fn read(call: &mut Call<'_>) -> Result<Self> {
        let mut options = Options { replaces: false, unit: Unit::Milliseconds, idle_s: None, frequency: None };
        while let Some(word) = call.args.next_arg() {
            let has_value = call.args.left() > 0;
            if is_word(word, "REPLACE") {
                options.replaces = true;
            } else if is_word(word, "ABSTTL") {
                options.unit = Unit::UnixMilliseconds;
            } else if is_word(word, "IDLETIME") && has_value && options.frequency.is_none() {
                let idle_s = u64::try_from(call.args.int()?);
                options.idle_s = Some(idle_s.map_err(|_| Error::other("Invalid IDLETIME value, must be >= 0"))?);
            } else if is_word(word, "FREQ") && has_value && options.idle_s.is_none() {
                let frequency = u8::try_from(call.args.int()?);
                let refusal = "Invalid FREQ value, must be >= 0 and <= 255";
                options.frequency = Some(frequency.map_err(|_| Error::other(refusal))?);
            } else {
                return Err(Error::Syntax);
            }
        }
        Ok(options)
    }
}

/// Handles RESTORE. As in Redis, the options are checked first, then the existence of the key, the TTL, and the
/// payload.
fn restore(call: &mut Call<'_>) -> Result<()> {
    let (key, ttl, payload) = (call.args.key()?, call.args.bytes()?, call.args.bytes()?);
    let options = Options::read(call)?;
    if !options.replaces && call.view.exists(key) {
        return Err(Error::BusyKey);
    }
    let ttl_ms = parse_int(ttl).ok_or(Error::NotInteger)?;
    if ttl_ms < 0 {
        return Err(Error::other("Invalid TTL value, must be >= 0"));
    }
    let life = Time::of_restored_key(call, options.unit, ttl_ms);
    let target = ValueTarget {
        key: key.bytes,
        deadline: life.flatten(),
        limits: call.config.limits(),
        hasher: call.namespace.store.hasher(),
    };
    let checks = !call.namespace.debug.skips_checksums.load(Relaxed);
    let read = rdb::open(payload, checks)
        .and_then(|(kind, mut reader)| payload::read_dump(kind, &mut reader, target, self::options(call)));
    let mut entry = read.inspect_err(|error| log_damage(*error, key.bytes, payload)).map_err(refusal)?;
    let now = call.now();
    // Neither the key nor the log gets elements that have expired; their removal could only be logged before this call.
    let has_lost = call.view.cx().expires_keys() && remove_expired_elements(&mut entry, now);
    match life.filter(|_| !has_lost || !entry.is_empty()) {
        None => {
            if call.view.discard(key) {
                call.log(&[b"DEL", key.bytes]);
            }
        }
        Some(deadline) => {
            let logged = logged(call, &entry, payload, has_lost);
            call.view.put(key, entry, RESTORE);
            let (deadline, mut number) = (deadline.map(|deadline| call.logged_deadline(deadline)), itoa::Buffer::new());
            let ms = number.format(deadline.as_ref().map_or(0, |deadline| deadline.ms)).as_bytes();
            let (payload, beside) = (logged.as_ref().map_or(payload, |(payload, _)| payload), logged.as_ref());
            let args: [&[u8]; 6] = [b"RESTORE", key.bytes, ms, payload, b"REPLACE", b"ABSTTL"];
            call.log(&args[..deadline.map_or(6, |deadline| deadline.choose(6, 5))]);
            if let Some((_, Some(text))) = beside {
                call.log(&[b"PING", &SideRecord::Producers { key: key.bytes, text }.word()]);
            }
        }
    }
    let rule = call.namespace.store.memory_account().rule();
    let usage = match options {
        Options { frequency: Some(count), .. } if rule.counts() => usage::used_often(count, now),
        Options { idle_s: Some(idle_s), .. } if !rule.counts() => usage::idle_for(idle_s, now),
        _ => rule.fresh(now),
    };
    call.view.set_usage(key, usage);
    call.reply.ok();
    Ok(())
}

/// Returns the value as the log has it, and what it has beside that, unless the payload itself is logged: one that is
/// not the value any more, or of a version that replicas may be too old for, is not.
fn logged(call: &Call<'_>, entry: &Entry, payload: &[u8], is_other: bool) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let is_new = is_other || rdb::version_of(payload).is_some_and(|version| version > rdb::VERSION_7_4);
    let options = payload::ValueOptions { len_max: usize::MAX, ..options(call) };
    (is_new && call.namespace.store.is_logged()).then(|| payload::dump_for_log(entry, options))
}

/// Logs that a value is damaged, in Redis' words.
fn log_damage(error: PayloadError, key: &[u8], payload: &[u8]) {
    if let (PayloadError::Format, Some(kind)) = (error, payload.first()) {
        let name = rdb::kind::name(*kind);
        debug!("{name} integrity check failed: RESTORE of the key '{}' is refused", key.escape_ascii());
    }
}

fn refusal(error: PayloadError) -> Error {
    match error {
        PayloadError::Footer => Error::other("DUMP payload version or checksum are wrong"),
        PayloadError::Format => Error::other("Bad data format"),
        PayloadError::Type(kind) => {
            let name = rdb::kind::unsupported(kind).unwrap_or("unknown");
            Error::other(format!("Bad data format: a value of type {kind} ({name}), which is not supported"))
        }
        PayloadError::KeyMeta(class) => {
            let class = class.escape_ascii();
            Error::other(format!(
                "Bad data format: key metadata of modules, of the class \"{class}\", which is not supported"
            ))
        }
    }
}
