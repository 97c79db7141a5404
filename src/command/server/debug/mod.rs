//! DEBUG: commands for tests of servers and clients, disabled unless `enable-debug-command` allows them.
//!
//! Subcommands for parts of Redis that do not exist here are accepted where their effect would not be visible, and
//! rejected where it would.

mod digest;
mod reload;

#[cfg(feature = "internals")]
pub(crate) use digest::image;

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tracing::{error, warn};

use crate::client::info::ClientInfo;
use crate::client::session::Client;
use crate::command::keys::dump;
use crate::command::server::rewrite_config;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::memory::marked::MarkedBytes;
use crate::rdb::Compression;
use crate::resp::{Protocol, parse_int};
use crate::runtime::panics::Site;
use crate::spec::marks::{NEEDS_FRESH_KEYS, SCRIPTS_IN_DEBUGGING};
use crate::spec::{ADMIN, CommandSpec, EXCLUSIVE, Group, LOADING, NO_SCRIPT, STALE};
use crate::store::{Event, Lookup, Shard, Ttl, usage};
use crate::time::clock::Deadline;
use crate::types::{self, payload, string};

/// Declares the commands of this file. DEBUG holds the store exclusively, because some subcommands affect the whole
/// server.
pub(crate) const COMMANDS: &[Command] =
    &[Command::new("DEBUG", debug, ADMIN | NO_SCRIPT | LOADING | STALE | EXCLUSIVE, Group::Server)
        .marks(NEEDS_FRESH_KEYS | SCRIPTS_IN_DEBUGGING)
        .arity(-2)
        .internal()
        .docs("1.0.0", "Depends on subcommand.", "Contains the debugging subcommands.")];

/// The handler of a subcommand; the arguments follow its name.
type Subcommand = fn(&mut Call<'_>) -> Result<()>;

/// The subcommands: name, minimum and maximum number of arguments, handler.
#[rustfmt::skip] // a table
const SUBCOMMANDS: &[(&str, usize, usize, Subcommand)] = &[
    ("AOF-FLUSH-SLEEP", 1, 1, accept),
    ("ASSERT", 0, usize::MAX, |call| simulate_crash(call, "assertion failed")),
    ("CHANGE-REPL-ID", 0, 0, |call| check_is_own_data(call).and_then(|()| change_replication_id(call))),
    ("CLIENT-EVICTION", 0, 0, |_| Err(Error::other("maxmemory-clients is disabled."))),
    ("CONFIG-REWRITE-FORCE-ALL", 0, 0, |call| check_is_main(call).and_then(|()| rewrite_config(call, true))),
    ("DICT-RESIZING", 1, 1, accept),
    ("DIGEST", 0, 0, digest::all),
    ("DIGEST-VALUE", 0, usize::MAX, digest::values),
    ("DROP-CLUSTER-PACKET-FILTER", 1, 1, accept),
    ("ERROR", 1, 1, reply_error),
    ("HELP", 0, 0, help),
    ("HTSTATS", 1, 1, table_statistics),
    ("HTSTATS-KEY", 1, 1, |call| refuse_key(call, "The value stored at the specified key is not represented using an hash table")),
    ("INJECT-PANIC", 1, 2, inject_panic),
    ("LEAK", 1, 1, accept),
    ("LISTPACK", 1, 1, |call| show_structure(call, &["listpack", "listpackex"], ["Listpack", "listpack"])),
    ("LOADAOF", 0, usize::MAX, |call| check_is_own_data(call).and_then(|()| reload::load_log(call))),
    ("LOG", 1, 1, log),
    ("OBJECT", 1, 2, object),
    ("OOM", 0, usize::MAX, |call| simulate_crash(call, "out of memory")),
    ("PANIC", 0, usize::MAX, |call| simulate_crash(call, "panic")),
    ("PAUSE-CRON", 1, 1, accept),
    ("POPULATE", 1, 3, |call| check_is_own_data(call).and_then(|()| populate(call))),
    ("PROTOCOL", 1, 1, protocol),
    ("QUICKLIST", 1, 2, |call| show_structure(call, &["quicklist"], ["Quicklist", "quicklist"])),
    ("QUICKLIST-PACKED-THRESHOLD", 1, 1, packed_threshold),
    ("RELOAD", 0, usize::MAX, |call| check_is_own_data(call).and_then(|()| reload::reload(call))),
    ("REPLICATE", 1, usize::MAX, |call| check_is_own_data(call).and_then(|()| replicate(call))),
    ("REPLYBUFFER", 2, 2, reply_buffer),
    ("SEGFAULT", 0, usize::MAX, |call| simulate_crash(call, "crashed by signal: 11")),
    ("SET-ACTIVE-EXPIRE", 1, 1, set_active_expire),
    ("SET-DISABLE-DENY-SCRIPTS", 1, 1, let_scripts_debug),
    ("SET-SKIP-CHECKSUM-VALIDATION", 1, 1, skip_checksums),
    ("SLEEP", 1, 1, sleep),
    ("STRUCTSIZE", 0, 0, structure_sizes),
    ("STRINGMATCH-TEST", 0, 0, |call| { call.reply.simple("Apparently Redis did not crash: test passed"); Ok(()) }),
];

fn debug(call: &mut Call<'_>) -> Result<()> {
    call.check_allowed("DEBUG", call.config.enable_debug_command)?;
    let (word, left) = (call.args.bytes()?, call.args.left());
    let found = SUBCOMMANDS
        .iter()
        .find(|(name, min_args, max_args, _)| is_word(word, name) && (*min_args..=*max_args).contains(&left));
    match found {
        Some((_, _, _, subcommand)) => subcommand(call),
        None => Err(Error::SubcommandSyntax(word.to_vec(), "DEBUG")),
    }
}

/// Refuses a subcommand about the process in a private instance, as the checks do for commands with the flag
/// `OF_PROCESS`.
fn check_is_main(call: &Call<'_>) -> Result<()> {
    if call.namespace.tenant.is_private() { Err(Error::NotInPrivate) } else { Ok(()) }
}

/// Refuses a subcommand that changes data by other means than the cluster, where the data is in one.
fn check_is_own_data(call: &Call<'_>) -> Result<()> {
    if call.namespace.engine().is_some() { Err(Error::NotOnEngine(&call.command.name)) } else { Ok(()) }
}

/// Accepts a subcommand without visible effect.
fn accept(call: &mut Call<'_>) -> Result<()> {
    call.reply.ok();
    Ok(())
}

/// Blocks all clients. A text that is not a number counts as 0, as for C's `strtod`.
fn sleep(call: &mut Call<'_>) -> Result<()> {
    let seconds = leading_number(call.args.bytes()?).max(0.0);
    if let Ok(time) = Duration::try_from_secs_f64(seconds) {
        call.namespace.clock.pass(time);
    }
    call.reply.ok();
    Ok(())
}

/// Parses the number at the start of an argument; 0 without one.
fn leading_number(word: &[u8]) -> f64 {
    let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.".contains(byte);
    let text: String = word.iter().take_while(is_part).copied().map(char::from).collect();
    text.parse().unwrap_or(0.0)
}

/// Causes a panic: in this call; in a task of the server at its next round; or, in builds for tests, half-way in the
/// next creation of a key, or in every change of a key from now on (without a key, in none).
fn inject_panic(call: &mut Call<'_>) -> Result<()> {
    let place = call.args.bytes()?;
    #[cfg(feature = "internals")]
    if is_word(place, "CHANGE") {
        let hash = if call.args.left() == 0 { 0 } else { call.namespace.store.hash(call.args.bytes()?) };
        call.namespace.store.events().arm(hash);
        return accept(call);
    }
    #[cfg(feature = "internals")]
    if is_word(place, "CREATION") {
        let hash = call.namespace.store.hash(call.args.bytes()?);
        call.namespace.store.events().arm_once(hash);
        return accept(call);
    }
    if call.args.left() != 0 {
        return Err(Error::Syntax);
    }
    let sites = [("SWEEP", Site::Sweep), ("HOUSEKEEPING", Site::Housekeeping), ("ACCEPT", Site::Accept)];
    if is_word(place, "HANDLER") {
        panic!("injected by DEBUG INJECT-PANIC");
    }
    check_is_main(call)?;
    let Some((_, site)) = sites.into_iter().find(|(name, _)| is_word(place, name)) else { return Err(Error::Syntax) };
    call.namespace.instance.panics.inject(site);
    call.namespace.upkeep.sweep_notify.notify_one();
    call.reply.ok();
    Ok(())
}

fn set_active_expire(call: &mut Call<'_>) -> Result<()> {
    let is_on = leading_number(call.args.bytes()?) != 0.0;
    call.namespace.upkeep.set_sweeping(is_on);
    call.reply.ok();
    Ok(())
}

/// Makes RESTORE accept wrong checksums, or not.
fn skip_checksums(call: &mut Call<'_>) -> Result<()> {
    let is_on = leading_number(call.args.bytes()?) != 0.0;
    call.namespace.debug.skips_checksums.store(is_on, Relaxed);
    accept(call)
}

/// Allows scripts to call DEBUG, or not; in Redis, any command.
fn let_scripts_debug(call: &mut Call<'_>) -> Result<()> {
    let is_on = leading_number(call.args.bytes()?) != 0.0;
    call.namespace.debug.may_scripts_debug.store(is_on, Relaxed);
    call.reply.ok();
    Ok(())
}

/// Lists the subcommands with their minimum number of arguments, marking those that take more.
fn help(call: &mut Call<'_>) -> Result<()> {
    let shown = |(name, min_args, max_args, _): &(&str, usize, usize, Subcommand)| {
        let optional = if max_args > min_args { " [<arg> ...]" } else { "" };
        format!("{name}{}{optional}", " <arg>".repeat(*min_args))
    };
    call.reply.array(SUBCOMMANDS.len() + 1);
    call.reply.simple("DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    SUBCOMMANDS.iter().for_each(|subcommand| call.reply.simple(&shown(subcommand)));
    Ok(())
}

fn log(call: &mut Call<'_>) -> Result<()> {
    let text = call.args.bytes()?;
    warn!("DEBUG LOG: {}", String::from_utf8_lossy(text));
    call.reply.ok();
    Ok(())
}

/// Replies with the given error, which is not counted.
fn reply_error(call: &mut Call<'_>) -> Result<()> {
    let line = call.args.bytes()?;
    call.reply.error(line);
    Ok(())
}

/// Sends the replicas a command that is not executed here.
fn replicate(call: &mut Call<'_>) -> Result<()> {
    let words: Vec<&[u8]> = std::iter::from_fn(|| call.args.next_arg()).collect();
    call.namespace.send_replicas(&words);
    call.reply.ok();
    Ok(())
}

fn change_replication_id(call: &mut Call<'_>) -> Result<()> {
    call.namespace.tenant.history.begin();
    call.reply.ok();
    Ok(())
}

/// Ends the process as a crash would, for tests.
fn simulate_crash(call: &Call<'_>, reason: &str) -> Result<()> {
    check_is_main(call)?;
    error!("DEBUG simulates a crash: {reason}");
    if let Some(queue) = &call.namespace.instance.log_queue {
        queue.flush();
    }
    std::process::abort()
}

/// Creates keys `<prefix>:0` and so on, except existing ones; a value contains its number, cut or padded with zero
/// bytes to a length if one is given. The keys are not logged.
fn populate(call: &mut Call<'_>) -> Result<()> {
    let count = positive(call.args.bytes()?)?;
    let prefix = call.args.next_arg().unwrap_or(b"key");
    let len = call.args.next_arg().map(positive).transpose()?.unwrap_or(0);
    if len > call.bulk_len_max() {
        return Err(Error::StringTooLong);
    }
    let (db, cx) = (call.caller.db, call.view.cx());
    let mut view = call.view.lend(db, cx); // its changes do not count as changes of the call
    for number in 0..count {
        let name = [prefix, format!(":{number}").as_bytes()].concat();
        let key = call.namespace.store.key(&name);
        if !view.exists(key) {
            let mut value = format!("value:{number}").into_bytes();
            if len > 0 {
                value.resize(len, 0);
            }
            view.set(key, &value, Ttl::Clear, Event::NONE);
        }
    }
    call.reply.ok();
    Ok(())
}

fn positive(word: &[u8]) -> Result<usize> {
    parse_int(word).and_then(|number| usize::try_from(number).ok()).ok_or(Error::NotPositive)
}

/// Replies with a value of each protocol type, for tests of clients.
#[expect(clippy::approx_constant, reason = "Redis replies with this number, not with pi")]
fn protocol(call: &mut Call<'_>) -> Result<()> {
    let is_resp3 = call.reply.protocol() == Protocol::Resp3;
    let (word, reply) = (call.args.bytes()?, &mut call.reply);
    match word.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(3.141),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.int(number);
                reply.bool(number == 1);
            }
        }
        b"attrib" => {
            if is_resp3 {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !is_resp3 => return Err(Error::other("RESP2 is not supported by this command")),
        b"push" => {
            reply.push(2);
            reply.bulk(b"server-cpu-usage");
            reply.int(42);
            reply.bulk(b"Some real reply following the push reply");
        }
        b"verbatim" => reply.verbatim("txt", b"This is a verbatim\nstring"),
        b"true" => reply.bool(true),
        b"false" => reply.bool(false),
        _ => return Err(Error::other(PROTOCOL_TYPES)),
    }
    Ok(())
}

const PROTOCOL_TYPES: &str = "Wrong protocol type name. Please use one of the following: \
    string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false";

/// Sets the length from which an element of a long list is a node of its own; 0 for the default.
fn packed_threshold(call: &mut Call<'_>) -> Result<()> {
    const MOST: u64 = (4 << 30) - (1 << 20);
    const REFUSAL: Error =
        Error::Other(Cow::Borrowed("argument must be a memory value bigger than 1 and smaller than 4gb"));
    let bytes = crate::text::parse_memory(call.args.bytes()?).filter(|bytes| *bytes <= MOST).ok_or(REFUSAL)?;
    call.namespace.debug.large_element_min.store(usize::try_from(bytes).unwrap_or(0), Relaxed);
    accept(call)
}

fn reply_buffer(call: &mut Call<'_>) -> Result<()> {
    let (topic, value) = (call.args.bytes()?, call.args.bytes()?);
    if is_word(topic, "PEAK-RESET-TIME") {
        if !is_word(value, "NEVER") && !is_word(value, "RESET") {
            parse_int(value).ok_or(Error::NotInteger)?;
        }
    } else if !is_word(topic, "RESIZING") {
        return Err(Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "DEBUG"));
    }
    accept(call)
}

/// Accepts a key with one of these encodings. Redis prints the structure, which is useless here.
fn show_structure(call: &mut Call<'_>, encodings: &[&str], [title, name]: [&str; 2]) -> Result<()> {
    let key = call.namespace.store.key(call.args.bytes()?);
    let entry = call.view.lookup(key, Lookup::PEEK).ok_or(Error::NoSuchKey)?;
    if !encodings.contains(&types::encoding_of(entry)) {
        return Err(Error::other(format!("Not a {name} encoded object.")));
    }
    call.reply.simple(&format!("{title} structure printed on stdout"));
    Ok(())
}

/// Refuses every existing key, because no value is a hash table of Redis; a missing key gets [`Error::NoSuchKey`].
fn refuse_key(call: &mut Call<'_>, text: &'static str) -> Result<()> {
    let name = call.args.bytes()?;
    if call.view.exists(call.namespace.store.key(name)) { Err(Error::other(text)) } else { Err(Error::NoSuchKey) }
}

/// Lists the sizes of the structures per key, client and so on.
fn structure_sizes(call: &mut Call<'_>) -> Result<()> {
    let sizes = [
        ("bits", usize::BITS as usize),
        ("client", size_of::<ClientInfo>()),
        ("session", size_of::<Client>()),
        ("shard", size_of::<Shard>()),
        ("deadline", size_of::<Deadline>()),
        ("command", size_of::<CommandSpec>()),
    ];
    let text: Vec<String> = sizes.iter().map(|(name, bytes)| format!("{name}:{bytes}")).collect();
    call.reply.bulk(text.join(" ").as_bytes());
    Ok(())
}

/// Describes a value as Redis does, even an expired one that was not deleted yet. The address is not real, and the
/// length is that of an uncompressed value.
fn object(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    let key = call.namespace.store.key(name);
    let options = payload::ValueOptions { compression: Compression::Never, ..dump::options(call) };
    let entry = call.view.find_undeleted(key).ok_or(Error::NoSuchKey)?;
    let encoding = types::encoding_of(entry);
    let len = string::saved_len(entry).unwrap_or_else(|| {
        let mut body = MarkedBytes::default();
        payload::write(&mut body, entry, options);
        body.len() - 1
    });
    let usage = entry.usage();
    let idle_s =
        if call.namespace.store.memory_account().rule().counts() { 0 } else { usage::idle_s(usage, call.now()) };
    let lru = usage::second(usage);
    let line = format!(
        "Value at:{:#x} refcount:1 encoding:{encoding} serializedlength:{len} lru:{lru} lru_seconds_idle:{idle_s}",
        key.hash >> 16
    );
    call.reply.simple(&line);
    Ok(())
}

fn table_statistics(call: &mut Call<'_>) -> Result<()> {
    let db = parse_int(call.args.bytes()?).ok_or(Error::NotInteger)?;
    let db = usize::try_from(db).ok().filter(|db| call.namespace.store.may_use(*db));
    let db = db.ok_or(Error::other("Out of range database"))?;
    let totals = call.view.in_db(db, |view| view.totals());
    let mut text = String::new();
    for (title, count) in [("Dictionary", totals.keys), ("Expires", totals.with_ttl)] {
        text.push_str(&format!("[{title} HT]\nHash table 0 stats (main hash table):\n"));
        text.push_str(&match count {
            0 => "No stats available for empty dictionaries\n".to_owned(),
            count => format!(" number of elements: {count}\n"),
        });
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}
