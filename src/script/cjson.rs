//! The library `cjson`: JSON as lua-cjson reads and writes it, settings and complaints included.

mod decode;
mod encode;

use std::sync::Arc;

use mlua::{Lua, MultiValue, Result, Table, Value};
use parking_lot::Mutex;

use super::arguments::Arguments;
use super::control::Control;

/// How deep tables may be nested whatever the settings say, because the reader and the writer call themselves.
const DEPTH_LIMIT: i64 = 1000;

/// Holds the settings of one copy of the library.
#[derive(Clone, Copy)]
struct Settings {
    /// Whether very sparse arrays become objects instead of an error.
    sparse_convert: bool,
    /// How many times larger than the number of items the greatest index may be; 0 for any.
    sparse_ratio: i64,
    /// Up to which index an array may be as sparse as it likes.
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    encode_invalid: Invalid,
    decode_invalid: bool,
    /// Significant digits of numbers.
    precision: i64,
    /// Has no effect here.
    keep_buffer: bool,
}

/// What becomes of numbers that JSON does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
            precision: 14,
            keep_buffer: true,
        }
    }
}

type Shared = Arc<Mutex<Settings>>;
type Setting = fn(&Arguments<'_>, &mut Settings) -> Result<MultiValue>;

/// Makes the library's contents, with settings of their own.
pub(super) fn table(lua: &Lua, control: &Arc<Control>) -> Result<Table> {
    let table = lua.create_table()?;
    let settings = Shared::default();
    let (for_encode, for_decode) = (settings.clone(), settings.clone());
    let (encoding, decoding, copying) = (control.clone(), control.clone(), control.clone());
    table.set(
        "encode",
        lua.create_function(move |lua, args: MultiValue| {
            let args = one_argument(lua, args)?;
            let settings = *for_encode.lock();
            encode::encode(lua, &args.value(1), &settings, &encoding)
        })?,
    )?;
    table.set(
        "decode",
        lua.create_function(move |lua, args: MultiValue| {
            let args = one_argument(lua, args)?;
            let settings = *for_decode.lock();
            decode::decode(lua, &args.string(1)?.as_bytes(), &settings, &decoding)
        })?,
    )?;
    for (name, most, set) in SETTINGS {
        let settings = settings.clone();
        let function = lua.create_function(move |lua, args: MultiValue| {
            let args = Arguments::new(lua, args);
            match args.len() <= *most {
                true => set(&args, &mut settings.lock()),
                false => Err(args.complain(most + 1, "found too many arguments")),
            }
        })?;
        table.set(*name, function)?;
    }
    table.set("new", lua.create_function(move |lua, _: MultiValue| self::table(lua, &copying))?)?;
    table.set("null", Value::NULL)?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    Ok(table)
}

fn one_argument(lua: &Lua, args: MultiValue) -> Result<Arguments<'_>> {
    let args = Arguments::new(lua, args);
    if args.len() == 1 { Ok(args) } else { Err(args.complain(1, "expected 1 argument")) }
}

/// The functions that change settings: name, most arguments, what they do.
const SETTINGS: &[(&str, usize, Setting)] = &[
    ("encode_sparse_array", 3, |args, settings| {
        let convert = switch(args, &mut settings.sparse_convert)?;
        let ratio = integer(args, 2, &mut settings.sparse_ratio, 0, i64::from(i32::MAX))?;
        let safe = integer(args, 3, &mut settings.sparse_safe, 0, i64::from(i32::MAX))?;
        Ok(MultiValue::from_vec(vec![convert, ratio, safe]))
    }),
    ("encode_max_depth", 1, |args, settings| {
        one(integer(args, 1, &mut settings.encode_depth_max, 1, i64::from(i32::MAX)))
    }),
    ("decode_max_depth", 1, |args, settings| {
        one(integer(args, 1, &mut settings.decode_depth_max, 1, i64::from(i32::MAX)))
    }),
    ("encode_number_precision", 1, |args, settings| one(integer(args, 1, &mut settings.precision, 1, 14))),
    ("encode_keep_buffer", 1, |args, settings| one(switch(args, &mut settings.keep_buffer))),
    ("encode_invalid_numbers", 1, |args, settings| one(invalid_numbers(args, &mut settings.encode_invalid))),
    ("decode_invalid_numbers", 1, |args, settings| one(switch(args, &mut settings.decode_invalid))),
];

fn one(value: Result<Value>) -> Result<MultiValue> {
    value.map(|value| MultiValue::from_vec(vec![value]))
}

fn integer(args: &Arguments<'_>, position: usize, setting: &mut i64, least: i64, most: i64) -> Result<Value> {
    if !args.is_nil(position) {
        let value = i64::from(args.integer(position)? as i32);
        if !(least..=most).contains(&value) {
            return Err(args.complain(1, &format!("expected integer between {least} and {most}")));
        }
        *setting = value;
    }
    Ok(Value::Integer(*setting))
}

fn switch(args: &Arguments<'_>, setting: &mut bool) -> Result<Value> {
    match args.get(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(on)) => *setting = *on,
        Some(_) => *setting = option(args, &["off", "on"])? == 1,
    }
    Ok(Value::Boolean(*setting))
}

fn invalid_numbers(args: &Arguments<'_>, setting: &mut Invalid) -> Result<Value> {
    match args.get(1) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(true)) => *setting = Invalid::Written,
        Some(Value::Boolean(false)) => *setting = Invalid::Refused,
        Some(_) => {
            *setting = [Invalid::Refused, Invalid::Written, Invalid::Null][option(args, &["off", "on", "null"])?]
        }
    }
    Ok(match setting {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Written => Value::Boolean(true),
        Invalid::Null => args.text("null")?,
    })
}

/// Finds the first argument among some words, as `luaL_checkoption` does.
fn option(args: &Arguments<'_>, words: &[&str]) -> Result<usize> {
    let word = args.string(1)?;
    let word = word.as_bytes();
    let found = words.iter().position(|known| known.as_bytes() == &word[..]);
    found.ok_or_else(|| args.complain(1, &format!("invalid option '{}'", String::from_utf8_lossy(&word))))
}
