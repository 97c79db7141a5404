//! The table `redis`, alias `server`: the functions that scripts call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mlua::{IntoLua, Lua, MultiValue, Result, Table, Value};
use parking_lot::Mutex;
use tracing::{debug, info, trace, warn};

use crate::resp::{Protocol, RequestBuffer, write_double};
use crate::script::arguments::{Arguments, number_of, truncate};
use crate::script::control::Control;
use crate::script::host::HOST;
use crate::script::limit::without_limit;
use crate::script::sha1::hex;
use crate::script::{convert, dialect, raise, tables};
use crate::text::{Dialect, REDIS_VERSION};

/// How many instructions a command counts as, so that the time limit is checked after a few commands.
const CALL_INSTRUCTIONS: usize = 6000;

/// The levels of `redis.log`, from the lowest to the highest.
const LOG_LEVELS: [&str; 4] = ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"];
/// The flags of `redis.set_repl`.
const REPLICATION: [(&str, i64); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// Creates the table's contents.
pub(super) fn table(lua: &Lua, control: &Arc<Control>) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, raises) in [("call", true), ("pcall", false)] {
        let control = control.clone();
        let function = lua.create_function(move |lua, args| {
            control.spend(lua, CALL_INSTRUCTIONS)?;
            call(lua, args, raises, &control)
        })?;
        table.set(name, function)?;
    }
    table.set("error_reply", lua.create_function(error_reply)?)?;
    table.set("status_reply", lua.create_function(status_reply)?)?;
    let spender = control.clone();
    table.set("sha1hex", lua.create_function(move |lua, args| sha1hex(lua, args, &spender))?)?;
    table.set("log", lua.create_function(log)?)?;
    table.set("setresp", lua.create_function(set_resp)?)?;
    table.set("set_repl", lua.create_function(set_repl)?)?;
    table.set("acl_check_cmd", lua.create_function(acl_check_cmd)?)?;
    table.set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    table.set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    table.set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    for (level, name) in LOG_LEVELS.into_iter().enumerate() {
        table.set(name, level)?;
    }
    for (name, flag) in REPLICATION {
        table.set(name, flag)?;
    }
    table.set("REDIS_VERSION", REDIS_VERSION)?;
    table.set("REDIS_VERSION_NUM", version_number(REDIS_VERSION))?;
    Ok(table)
}

/// Returns a field that only Valkey's table has, with Valkey's dialect: the `__index` of the table.
pub(super) fn valkey_field(lua: &Lua, (_, name): (Value, Value)) -> Result<Value> {
    let dialect = dialect::of(lua);
    let Value::String(name) = name else { return Ok(Value::Nil) };
    if dialect == Dialect::Redis {
        return Ok(Value::Nil);
    }
    match &*name.as_bytes() {
        b"SERVER_NAME" => dialect.name().into_lua(lua),
        b"VALKEY_VERSION" => dialect.version().into_lua(lua),
        b"VALKEY_VERSION_NUM" => version_number(dialect.version()).into_lua(lua),
        _ => Ok(Value::Nil),
    }
}

/// Packs a version as Redis does: a byte for each of major, minor and patch.
fn version_number(version: &str) -> u32 {
    version.split('.').fold(0, |number, part| number << 8 | part.parse::<u32>().unwrap_or_default())
}

/// Returns the error for a function that may only be called while a script runs.
fn outside(what: &str) -> mlua::Error {
    raise::reply(format!("{what} can only be called inside a script invocation"))
}

fn call(lua: &Lua, args: MultiValue, raises: bool, control: &Arc<Control>) -> Result<Value> {
    if !HOST.is_set() {
        return Err(outside("redis.call/pcall"));
    }
    let refuse = |message: &str| match raises {
        true => Err(raise::reply(message)),
        false => tables::error_table(lua, message.as_bytes()),
    };
    HOST.with(|host| {
        if let Err(complaint) = fill(lua, host.args(), &args) {
            return refuse(complaint);
        }
        let answer = AssertUnwindSafe(|| {
            let host = host;
            host.call()
        });
        without_limit(lua, || match catch_unwind(answer) {
            Ok(Ok(reply)) if raises && reply.first() == Some(&b'-') => Err(raise::counted(reply.trim_ascii_end())),
            Ok(Ok(reply)) => convert::from_reply(lua, &reply),
            Ok(Err(complaint)) if raises => Err(raise::counted(complaint.as_bytes())),
            Ok(Err(complaint)) => tables::counted_error_table(lua, complaint.as_bytes()),
            Err(panic) => Err(control.end_by_panic(lua, panic)),
        })
    })
}

/// Converts the arguments of a call to a request.
fn fill(lua: &Lua, request: &mut RequestBuffer, args: &MultiValue) -> std::result::Result<(), &'static str> {
    request.clear();
    if args.is_empty() {
        return Err(dialect::of(lua).choose(
            "Please specify at least one argument for this redis lib call",
            "Please specify at least one argument for this call",
        ));
    }
    for word in args {
        match word {
            Value::String(word) => request.push(&word.as_bytes()),
            Value::Integer(number) => request.push(itoa::Buffer::new().format(*number).as_bytes()),
            // As C's printf does, which prints the sign of NaN.
            Value::Number(number) if number.is_nan() && number.is_sign_negative() => request.push(b"-nan"),
            Value::Number(number) => request.push(&write_double(*number)),
            _ => {
                return Err(dialect::of(lua).choose(
                    "Lua redis lib command arguments must be strings or integers",
                    "Command arguments must be strings or integers",
                ));
            }
        }
    }
    Ok(())
}

fn error_reply(lua: &Lua, args: MultiValue) -> Result<Value> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => {
            let text = text.as_bytes();
            let dash: &[u8] = if text.first() == Some(&b'-') { b"" } else { b"-" };
            tables::error_table(lua, &[dash, &text[..]].concat())
        }
        _ => tables::error_table(lua, b"wrong number or type of arguments"),
    }
}

fn status_reply(lua: &Lua, args: MultiValue) -> Result<Value> {
    match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("ok", text)?;
            Ok(Value::Table(table))
        }
        _ => tables::error_table(lua, b"wrong number or type of arguments"),
    }
}

fn sha1hex(lua: &Lua, args: MultiValue, control: &Arc<Control>) -> Result<String> {
    match (args.len(), args.front()) {
        (1, Some(value)) => {
            let text = lua.coerce_string(value.clone())?;
            control.spend(lua, text.as_ref().map_or(0, |text| text.as_bytes().len()) / 4)?;
            Ok(text.map_or_else(|| hex(b""), |text| hex(&text.as_bytes())))
        }
        _ => Err(raise::reply("wrong number of arguments")),
    }
}

fn log(lua: &Lua, args: MultiValue) -> Result<()> {
    if args.len() < 2 {
        return Err(dialect::reply_on_api(lua, "redis.log() requires two arguments or more."));
    }
    let Some(level) = args.front().and_then(|level| number_of(lua, level)) else {
        return Err(raise::reply("First argument must be a number (log level)."));
    };
    let level = usize::try_from(truncate(level)).ok().filter(|level| *level < LOG_LEVELS.len());
    let Some(level) = level else { return Err(raise::reply("Invalid debug level.")) };
    let mut words = Vec::new();
    for value in args.iter().skip(1) {
        if let Some(word) = lua.coerce_string(value.clone())? {
            words.push(String::from_utf8_lossy(&word.as_bytes()).into_owned());
        }
    }
    let line = words.join(" ");
    match level {
        0 => trace!("{line}"),
        1 => debug!("{line}"),
        2 => info!("{line}"),
        _ => warn!("{line}"),
    }
    Ok(())
}

fn set_resp(lua: &Lua, args: MultiValue) -> Result<()> {
    if !HOST.is_set() {
        return Err(outside("redis.setresp"));
    }
    let protocol = match (args.len(), args.front().and_then(|version| number_of(lua, version)).map(truncate)) {
        (1, Some(2)) => Protocol::Resp2,
        (1, Some(3)) => Protocol::Resp3,
        (1, _) => return Err(raise::reply("RESP version must be 2 or 3.")),
        _ => return Err(dialect::reply_on_api(lua, "redis.setresp() requires one argument.")),
    };
    HOST.with(|host| host.set_protocol(protocol));
    Ok(())
}

/// Validates its argument; a script's writes are not replicated anyway.
fn set_repl(lua: &Lua, args: MultiValue) -> Result<()> {
    if !HOST.is_set() {
        return Err(outside("redis.set_repl"));
    }
    if args.len() != 1 {
        return Err(dialect::reply_on_api(lua, "redis.set_repl() requires two arguments."));
    }
    let flags = args.front().and_then(|flags| number_of(lua, flags)).map_or(0, truncate);
    match flags & !3 {
        0 => Ok(()),
        _ => Err(raise::reply("Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")),
    }
}

fn acl_check_cmd(lua: &Lua, args: MultiValue) -> Result<bool> {
    if !HOST.is_set() {
        return Err(outside("redis.acl_check_cmd"));
    }
    HOST.with(|host| {
        fill(lua, host.args(), &args).map_err(raise::reply)?;
        host.may_call().ok_or_else(|| dialect::reply_on_api(lua, "Invalid command passed to redis.acl_check_cmd()"))
    })
}

/// Creates the functions of `math` that Redis has replaced, so that a seed gives the same numbers everywhere.
pub(super) fn math(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let dice = Arc::new(Mutex::new(Dice::default()));
    let seeded = dice.clone();
    table.set("random", lua.create_function(move |lua, args| random(lua, args, &mut dice.lock()))?)?;
    table.set(
        "randomseed",
        lua.create_function(move |lua, args: MultiValue| {
            if !HOST.is_set() {
                return Err(raise::text(lua, "math.randomseed can only be called inside a script invocation"));
            }
            let seed = Arguments::new(lua, args).integer(1)?;
            *seeded.lock() = Dice::seeded(seed as u32);
            Ok(())
        })?,
    )?;
    Ok(table)
}

fn random(lua: &Lua, args: MultiValue, dice: &mut Dice) -> Result<f64> {
    if !HOST.is_set() {
        return Err(raise::text(lua, "math.random can only be called inside a script invocation"));
    }
    let args = Arguments::new(lua, args);
    let (low, high) = match args.len() {
        0 => return Ok(dice.roll()),
        1 => (1, args.integer(1)? as i32),
        2 => (args.integer(1)? as i32, args.integer(2)? as i32),
        _ => {
            dice.roll();
            return Err(raise::text(lua, "wrong number of arguments"));
        }
    };
    let roll = dice.roll();
    if low > high {
        return Err(args.complain(args.len(), "interval is empty"));
    }
    let sides = if args.len() == 1 { high } else { high.wrapping_sub(low).wrapping_add(1) };
    Ok((roll * f64::from(sides)).floor() + f64::from(low))
}

/// The generator of `lrand48`.
struct Dice(u64);

impl Default for Dice {
    fn default() -> Self {
        Dice(0x1234_ABCD_330E)
    }
}

impl Dice {
    fn seeded(seed: u32) -> Self {
        Dice(u64::from(seed) << 16 | 0x330E)
    }

    /// Returns a number from 0 up to, but not including, 1.
    fn roll(&mut self) -> f64 {
        const RANGE: u64 = i32::MAX as u64;
        self.0 = (self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & 0xFFFF_FFFF_FFFF;
        (self.0 >> 17 & RANGE) as f64 % RANGE as f64 / RANGE as f64
    }
}
