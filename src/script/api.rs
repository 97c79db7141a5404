//! The table `redis`, alias `server`: the functions that scripts call.

use keylatch_lua::{Kind, Raised, Scalar};
use tracing::{Level, debug, enabled, info, trace, warn};

use crate::resp::{Kept, Protocol, RequestBuffer, write_double};
use crate::script::arguments::truncate;
use crate::script::host::{CallReply, HOST};
use crate::script::raise::{push_counted_error, push_error};
use crate::script::sha1::hex;
use crate::script::shared::{self, VmStack, set_native, stored};
use crate::script::{convert, raise};
use crate::spec::CommandSpec;
use crate::text::Dialect;

/// The instructions that a command counts as, so that the time limit is checked after a few commands.
const CALL_INSTRUCTIONS: usize = 1000;

/// The levels of `redis.log`, from the lowest to the highest.
const LOG_LEVELS: [&str; 4] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
/// The length in bytes to which `redis.log` cuts a line. Redis writes whole lines, but the queue to the log holds just
/// a megabyte.
const LOG_LINE_MAX: usize = 64 * 1024;
/// The bytes of a line that are written in the time of an instruction.
const LOG_BYTES_PER_INSTRUCTION: usize = 4;
/// The flags of `redis.set_repl`.
const REPLICATION: [(&str, i32); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];
/// The bound below which integers are exact, so that their digits are the fewest.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn push_table(frame: &mut VmStack<'_>, kind: shared::VmKind) {
    frame.push_table(0, 32);
    let table = frame.top();
    set_native(frame, "call", |frame| call(frame, true));
    set_native(frame, "pcall", |frame| call(frame, false));
    set_native(frame, "error_reply", error_reply);
    set_native(frame, "status_reply", status_reply);
    set_native(frame, "sha1hex", sha1hex);
    set_native(frame, "log", log);
    set_native(frame, "setresp", set_resp);
    set_native(frame, "set_repl", set_repl);
    set_native(frame, "acl_check_cmd", acl_check_cmd);
    if kind == shared::VmKind::Eval {
        set_native(frame, "replicate_commands", |frame| boolean(frame, true));
        set_native(frame, "breakpoint", |frame| boolean(frame, false));
        set_native(frame, "debug", |_| Ok(0));
    }
    for (level, name) in (0..).zip(LOG_LEVELS) {
        frame.push_number(f64::from(level));
        frame.set_field(table, name);
    }
    for (name, flag) in REPLICATION {
        frame.push_number(f64::from(flag));
        frame.set_field(table, name);
    }
    set_version(frame, table);
    frame.push_table(0, 1);
    set_native(frame, "__index", valkey_field);
    frame.set_metatable(table);
}

/// Sets the fields of a table with the version that scripts see.
pub(super) fn set_version(frame: &mut VmStack<'_>, table: usize) {
    let version = frame.data().control.identity().redis_version;
    frame.push_bytes(version.as_bytes());
    frame.set_field(table, "REDIS_VERSION");
    frame.push_number(version_number(version));
    frame.set_field(table, "REDIS_VERSION_NUM");
}

fn boolean(frame: &mut VmStack<'_>, truth: bool) -> Result<usize, Raised> {
    frame.push_boolean(truth);
    Ok(1)
}

/// Pushes a field that only Valkey's table has, with Valkey's dialect: the `__index` of the table.
fn valkey_field(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    let control = &frame.data().control;
    let (dialect, (server, version)) = (control.dialect(), control.identity().hello);
    let name = if dialect == Dialect::Valkey { frame.bytes(2) } else { None };
    match name {
        Some(b"SERVER_NAME") => frame.push_bytes(server.as_bytes()),
        Some(b"VALKEY_VERSION") => frame.push_bytes(version.as_bytes()),
        Some(b"VALKEY_VERSION_NUM") => frame.push_number(version_number(version)),
        _ => frame.push_nil(),
    }
    Ok(1)
}

/// Packs a version as Redis does: a byte for each of major, minor and patch.
fn version_number(version: &str) -> f64 {
    f64::from(version.split('.').fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or_default()))
}

/// Creates the error for a function that may only be called while a script runs.
fn outside(frame: &mut VmStack<'_>, what: &str) -> Raised {
    raise::reply(frame, format!("{what} can only be called inside a script invocation"))
}

fn call(frame: &mut VmStack<'_>, raises: bool) -> Result<usize, Raised> {
    frame.work(CALL_INSTRUCTIONS)?;
    if !HOST.is_set() {
        return Err(outside(frame, "redis.call/pcall"));
    }
    HOST.with(|host| {
        let mut command = match fill(frame, host.args()) {
            Ok(command) => command,
            Err(complaint) => return refuse(frame, raises, complaint),
        };
        if command.is_none() {
            command = host.find();
            remember(frame, command);
        }
        match host.call(command) {
            Ok(CallReply::Kept(value, bytes)) => push_kept(frame, value, bytes),
            Ok(CallReply::Encoded(reply)) => {
                if raises && reply.first() == Some(&b'-') {
                    return Err(raise::counted(frame, reply.trim_ascii_end()));
                }
                convert::push_reply(frame, &reply)?;
            }
            Err(complaint) if raises => return Err(raise::counted(frame, complaint.as_bytes())),
            Err(complaint) => push_counted_error(frame, complaint.as_bytes()),
        }
        Ok(1)
    })
}

#[inline]
fn push_kept(frame: &mut VmStack<'_>, value: Kept, bytes: &[u8]) {
    match value {
        Kept::Int(number) => frame.push_number(number as f64), // larger ones lose precision
        Kept::Bulk => frame.push_bytes(bytes),
        Kept::Simple => convert::push_status(frame, bytes),
        Kept::Null(Protocol::Resp2) => frame.push_boolean(false),
        Kept::Null(Protocol::Resp3) | Kept::Nothing | Kept::Encoded => frame.push_nil(),
    }
}

/// Records the command that the first argument names among the commands called last.
#[cold]
fn remember(frame: &mut VmStack<'_>, command: Option<&'static CommandSpec>) {
    let (Some(command), Some(name)) = (command, frame.bytes(1)) else { return };
    if let Some(slot) = frame.data().call_sites.remember(name, command) {
        frame.push_copy(1);
        frame.store(stored::CALLED + slot);
    }
}

#[cold]
fn refuse(frame: &mut VmStack<'_>, raises: bool, complaint: &str) -> Result<usize, Raised> {
    push_error(frame, complaint.as_bytes());
    if raises { Err(frame.raise()) } else { Ok(1) }
}

/// Converts the arguments of a call to a request; returns the command if it is among the commands called last.
fn fill(frame: &VmStack<'_>, request: &mut RequestBuffer) -> Result<Option<&'static CommandSpec>, &'static str> {
    request.clear();
    if frame.top() == 0 {
        return Err(frame.data().control.dialect().choose(
            "Please specify at least one argument for this redis lib call",
            "Please specify at least one argument for this call",
        ));
    }
    let mut command = None;
    for position in 1..=frame.top() {
        match frame.scalar(position) {
            Some(Scalar::String(word)) => {
                if position == 1 {
                    command = frame.data().call_sites.find(word);
                }
                request.push(word);
            }
            Some(Scalar::Number(number)) => push_number(request, number),
            None => {
                return Err(frame.data().control.dialect().choose(
                    "Lua redis lib command arguments must be strings or integers",
                    "Command arguments must be strings or integers",
                ));
            }
        }
    }
    Ok(command)
}

/// Adds a number, with the fewest digits that identify it.
fn push_number(request: &mut RequestBuffer, number: f64) {
    let is_integer = number.trunc() == number && number.abs() < INTEGER_MAX && number.is_sign_positive();
    if is_integer {
        request.push(itoa::Buffer::new().format(number as u64).as_bytes());
    } else if number.is_nan() && number.is_sign_negative() {
        request.push(b"-nan"); // C prints the sign of NaN
    } else {
        request.push(&write_double(number));
    }
}

const NOT_ONE_STRING: &[u8] = b"wrong number or type of arguments";

fn error_reply(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    let line = match frame.bytes(1) {
        Some(text) if frame.top() == 1 => {
            let dash: &[u8] = if text.first() == Some(&b'-') { b"" } else { b"-" };
            [dash, text].concat()
        }
        _ => NOT_ONE_STRING.to_vec(),
    };
    push_error(frame, &line);
    Ok(1)
}

fn status_reply(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    match frame.kind(1) {
        Kind::String if frame.top() == 1 => {
            frame.push_table(0, 1);
            frame.push_copy(1);
            frame.set_field(2, "ok");
        }
        _ => push_error(frame, NOT_ONE_STRING),
    }
    Ok(1)
}

fn sha1hex(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if frame.top() != 1 {
        return Err(raise::reply(frame, "wrong number of arguments"));
    }
    frame.to_string(1);
    frame.work(frame.bytes(1).map_or(0, <[u8]>::len) / 4)?;
    let digest = hex(frame.bytes(1).unwrap_or_default());
    frame.push_bytes(digest.as_bytes());
    Ok(1)
}

fn log(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if frame.top() < 2 {
        return Err(raise::reply_on_api(frame, "redis.log() requires two arguments or more."));
    }
    let Some(level) = frame.number(1) else {
        return Err(raise::reply(frame, "First argument must be a number (log level)."));
    };
    let level = usize::try_from(truncate(level)).ok().filter(|level| *level < LOG_LEVELS.len());
    let Some(level) = level else { return Err(raise::reply(frame, "Invalid debug level.")) };
    let is_written = match level {
        0 => enabled!(Level::TRACE),
        1 => enabled!(Level::DEBUG),
        2 => enabled!(Level::INFO),
        _ => enabled!(Level::WARN),
    };
    if !is_written {
        return Ok(0);
    }
    let mut line = Vec::new();
    for position in 2..=frame.top() {
        if frame.to_string(position) {
            let blank = if line.is_empty() { &b""[..] } else { b" " };
            for part in [blank, frame.bytes(position).unwrap_or_default()] {
                line.extend(&part[..part.len().min(LOG_LINE_MAX - line.len())]);
            }
        }
    }
    frame.work(line.len() / LOG_BYTES_PER_INSTRUCTION)?;
    let line = String::from_utf8_lossy(&line);
    match level {
        0 => trace!("{line}"),
        1 => debug!("{line}"),
        2 => info!("{line}"),
        _ => warn!("{line}"),
    }
    Ok(0)
}

fn set_resp(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if !HOST.is_set() {
        return Err(outside(frame, "redis.setresp"));
    }
    let protocol = match (frame.top(), frame.number(1).map(truncate)) {
        (1, Some(2)) => Protocol::Resp2,
        (1, Some(3)) => Protocol::Resp3,
        (1, _) => return Err(raise::reply(frame, "RESP version must be 2 or 3.")),
        _ => return Err(raise::reply_on_api(frame, "redis.setresp() requires one argument.")),
    };
    HOST.with(|host| host.set_protocol(protocol));
    Ok(0)
}

/// Sets the recipients of the following changes: both the append-only file and replicas, or neither. Both read one log,
/// so a script cannot select a single one.
fn set_repl(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if !HOST.is_set() {
        return Err(outside(frame, "redis.set_repl"));
    }
    if frame.top() != 1 {
        return Err(raise::reply_on_api(frame, "redis.set_repl() requires two arguments."));
    }
    match frame.number(1).map_or(0, truncate) {
        flags @ (0 | 3) => {
            HOST.with(|host| host.log_changes(flags != 0));
            Ok(0)
        }
        1 | 2 => Err(raise::reply(frame, "REPL_AOF and REPL_REPLICA are possible only together, as REPL_ALL.")),
        _ => Err(raise::reply(frame, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
    }
}

fn acl_check_cmd(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if !HOST.is_set() {
        return Err(outside(frame, "redis.acl_check_cmd"));
    }
    HOST.with(|host| {
        if let Err(complaint) = fill(frame, host.args()) {
            return Err(raise::reply(frame, complaint));
        }
        match host.may_call() {
            Some(may) => boolean(frame, may),
            None => Err(raise::reply_on_api(frame, "Invalid command passed to redis.acl_check_cmd()")),
        }
    })
}
