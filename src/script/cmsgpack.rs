//! The library `cmsgpack`: MessagePack as lua-cmsgpack writes and reads it.

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use rmp::{Marker, encode};

use super::arguments::Arguments;
use super::raise;

/// How deep tables are written; what is nested deeper becomes nil.
const WRITE_DEPTH_MAX: usize = 16;
/// How deep tables are read. Redis stops where its stack ends.
const READ_DEPTH_MAX: usize = 1000;

/// Makes the library's contents.
pub(super) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", lua.create_function(pack)?)?;
    table.set("unpack", lua.create_function(|lua, args| unpack(&Arguments::new(lua, args), lua, None, 0))?)?;
    table.set(
        "unpack_one",
        lua.create_function(|lua, args| {
            let args = Arguments::new(lua, args);
            let offset = args.integer_or(2, 0)?;
            unpack(&args, lua, Some(1), offset)
        })?,
    )?;
    table.set(
        "unpack_limit",
        lua.create_function(|lua, args| {
            let args = Arguments::new(lua, args);
            let (limit, offset) = (args.integer(2)?, args.integer_or(3, 0)?);
            unpack(&args, lua, (limit != 0 || offset != 0).then_some(limit), offset)
        })?,
    )?;
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        table.set(name, value)?;
    }
    Ok(table)
}

fn pack(lua: &Lua, args: MultiValue) -> Result<LuaString> {
    if args.is_empty() {
        return Err(raise::argument(lua, 0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in &args {
        write(&mut out, value, 0)?;
    }
    lua.create_string(out)
}

fn write(out: &mut Vec<u8>, value: &Value, depth: usize) -> Result<()> {
    match value {
        Value::String(string) => {
            let bytes = string.as_bytes();
            encode::write_str_len(out, bytes.len() as u32).map_err(mlua::Error::external)?;
            out.extend(&bytes[..]);
        }
        Value::Boolean(truth) => encode::write_bool(out, *truth)?,
        Value::Integer(number) => write_integer(out, *number)?,
        Value::Number(number) => write_number(out, *number)?,
        Value::Table(_) if depth == WRITE_DEPTH_MAX => encode::write_nil(out)?,
        Value::Table(table) => write_table(out, table, depth)?,
        _ => encode::write_nil(out)?,
    }
    Ok(())
}

fn write_integer(out: &mut Vec<u8>, number: i64) -> Result<()> {
    encode::write_sint(out, number).map_err(mlua::Error::external)?;
    Ok(())
}

fn write_number(out: &mut Vec<u8>, number: f64) -> Result<()> {
    const RANGE: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    if RANGE.contains(&number) && number.trunc() == number {
        return write_integer(out, number as i64);
    }
    match f64::from(number as f32) == number {
        true => encode::write_f32(out, number as f32).map_err(mlua::Error::external)?,
        false => encode::write_f64(out, number).map_err(mlua::Error::external)?,
    }
    Ok(())
}

fn write_table(out: &mut Vec<u8>, table: &Table, depth: usize) -> Result<()> {
    let (mut count, mut greatest, mut is_array) = (0u32, 0i64, true);
    for pair in table.pairs::<Value, Value>() {
        count += 1;
        match pair?.0 {
            Value::Integer(index @ 1..=0x7FFF_FFFF) => greatest = greatest.max(index),
            _ => is_array = false,
        }
    }
    if is_array && greatest == i64::from(count) {
        encode::write_array_len(out, count).map_err(mlua::Error::external)?;
        for index in 1..=count {
            write(out, &table.raw_get(index)?, depth + 1)?;
        }
        return Ok(());
    }
    encode::write_map_len(out, count).map_err(mlua::Error::external)?;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(out, &key, depth + 1)?;
        write(out, &value, depth + 1)?;
    }
    Ok(())
}

/// Reads values from `offset` on: all of them, or so many and then says where it stopped.
fn unpack(args: &Arguments<'_>, lua: &Lua, limit: Option<i64>, offset: i64) -> Result<MultiValue> {
    let data = args.string(1)?;
    let data = data.as_bytes();
    if offset < 0 || limit.is_some_and(|limit| limit < 0) {
        let complaint =
            format!("Invalid request to unpack with offset of {} and limit of {}.", offset as i32, data.len());
        return Err(raise::text(lua, complaint));
    }
    let Some(mut rest) = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)) else {
        let complaint = format!("Start offset {} greater than input length {}.", offset as i32, data.len());
        return Err(raise::text(lua, complaint));
    };
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut values = Vec::new();
    while !rest.is_empty() && values.len() < most {
        let value = read(lua, &mut rest, 0).map_err(|trouble| match trouble {
            Trouble::Missing => raise::text(lua, "Missing bytes in input."),
            Trouble::Format => raise::text(lua, "Bad data format in input."),
            Trouble::Lua(error) => error,
        })?;
        values.push(value);
    }
    if limit.is_some() {
        let stopped = if rest.is_empty() { -1 } else { (data.len() - rest.len()) as i64 };
        values.insert(0, Value::Integer(stopped));
    }
    Ok(MultiValue::from_vec(values))
}

/// Why no value could be read.
enum Trouble {
    Missing,
    Format,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Trouble {
    fn from(error: mlua::Error) -> Self {
        Trouble::Lua(error)
    }
}

fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> std::result::Result<Value, Trouble> {
    use Marker::*;
    let (&first, after) = rest.split_first().ok_or(Trouble::Missing)?;
    let marker = Marker::from_u8(first);
    *rest = after;
    let value = match marker {
        FixPos(number) => Value::Integer(i64::from(number)),
        FixNeg(number) => Value::Integer(i64::from(number)),
        Null => Value::Nil,
        True => Value::Boolean(true),
        False => Value::Boolean(false),
        U8 => Value::Integer(i64::from(u8::from_be_bytes(take(rest)?))),
        I8 => Value::Integer(i64::from(i8::from_be_bytes(take(rest)?))),
        U16 => Value::Integer(i64::from(u16::from_be_bytes(take(rest)?))),
        I16 => Value::Integer(i64::from(i16::from_be_bytes(take(rest)?))),
        U32 => Value::Integer(i64::from(u32::from_be_bytes(take(rest)?))),
        I32 => Value::Integer(i64::from(i32::from_be_bytes(take(rest)?))),
        // Lua 5.1 takes it for a signed one.
        U64 | I64 => Value::Number(i64::from_be_bytes(take(rest)?) as f64),
        F32 => Value::Number(f64::from(f32::from_be_bytes(take(rest)?))),
        F64 => Value::Number(f64::from_be_bytes(take(rest)?)),
        FixStr(len) => string(lua, rest, usize::from(len))?,
        Str8 => length::<1>(rest).and_then(|len| string(lua, rest, len))?,
        Str16 => length::<2>(rest).and_then(|len| string(lua, rest, len))?,
        Str32 => length::<4>(rest).and_then(|len| string(lua, rest, len))?,
        FixArray(len) => array(lua, rest, usize::from(len), depth)?,
        Array16 => length::<2>(rest).and_then(|len| array(lua, rest, len, depth))?,
        Array32 => length::<4>(rest).and_then(|len| array(lua, rest, len, depth))?,
        FixMap(len) => map(lua, rest, usize::from(len), depth)?,
        Map16 => length::<2>(rest).and_then(|len| map(lua, rest, len, depth))?,
        Map32 => length::<4>(rest).and_then(|len| map(lua, rest, len, depth))?,
        Bin8 | Bin16 | Bin32 | FixExt1 | FixExt2 | FixExt4 | FixExt8 | FixExt16 | Ext8 | Ext16 | Ext32 | Reserved => {
            return Err(Trouble::Format);
        }
    };
    Ok(value)
}

fn take<const N: usize>(rest: &mut &[u8]) -> std::result::Result<[u8; N], Trouble> {
    let (bytes, after) = rest.split_first_chunk().ok_or(Trouble::Missing)?;
    *rest = after;
    Ok(*bytes)
}

fn length<const N: usize>(rest: &mut &[u8]) -> std::result::Result<usize, Trouble> {
    Ok(take::<N>(rest)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
}

fn string(lua: &Lua, rest: &mut &[u8], len: usize) -> std::result::Result<Value, Trouble> {
    let (bytes, after) = rest.split_at_checked(len).ok_or(Trouble::Missing)?;
    *rest = after;
    Ok(Value::String(lua.create_string(bytes)?))
}

fn array(lua: &Lua, rest: &mut &[u8], len: usize, depth: usize) -> std::result::Result<Value, Trouble> {
    let table = nested(lua, depth)?;
    for index in 1..=len {
        table.raw_set(index, read(lua, rest, depth + 1)?)?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, rest: &mut &[u8], len: usize, depth: usize) -> std::result::Result<Value, Trouble> {
    let table = nested(lua, depth)?;
    for _ in 0..len {
        let (key, value) = (read(lua, rest, depth + 1)?, read(lua, rest, depth + 1)?);
        match &key {
            Value::Nil => return Err(raise::plain("table index is nil").into()),
            Value::Number(number) if number.is_nan() => return Err(raise::plain("table index is NaN").into()),
            _ => table.raw_set(key, value)?,
        }
    }
    Ok(Value::Table(table))
}

fn nested(lua: &Lua, depth: usize) -> Result<Table> {
    match depth < READ_DEPTH_MAX {
        true => lua.create_table(),
        false => Err(raise::text(lua, "stack overflow (too many nested tables)")),
    }
}
