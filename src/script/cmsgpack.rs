//! The library `cmsgpack`: MessagePack as lua-cmsgpack writes and reads it.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use rmp::{Marker, encode};

use super::arguments::Arguments;
use super::control::Control;
use super::sequence::Sequence;
use super::{raise, vm};

/// How deep tables are written; what is nested deeper becomes nil.
const WRITE_DEPTH_MAX: usize = 16;
/// How deep tables are read. Redis stops where its stack ends.
const READ_DEPTH_MAX: usize = 1000;

/// The longest string that is made, in bytes. A table may be in many places of it, so that little memory could make one
/// that is endless.
const PACKED_MAX: usize = 512 << 20;
/// After how many values the control is asked whether to go on, and how many instructions a value counts as.
const ASK_EVERY: usize = 256;
const VALUE_INSTRUCTIONS: usize = 8;
/// How many arguments and results there may be together.
const STACK_MAX: usize = 8000;
const TOO_MANY: &str = "stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)";

/// Makes the library's contents.
pub(super) fn table(lua: &Lua, control: &Arc<Control>) -> Result<Table> {
    let table = lua.create_table()?;
    let spender = control.clone();
    table.set("pack", lua.create_function(move |lua, args| pack(lua, args, &spender))?)?;
    let ranges: [(&str, RangeOf); 3] = [
        ("unpack", |_| Ok((None, 0))),
        ("unpack_one", |args| Ok((Some(1), args.integer_or(2, 0)?))),
        ("unpack_limit", |args| {
            let (limit, offset) = (args.integer(2)?, args.integer_or(3, 0)?);
            Ok(((limit != 0 || offset != 0).then_some(limit), offset))
        }),
    ];
    for (name, range_of) in ranges {
        let control = control.clone();
        let function = lua.create_function(move |lua, args| {
            let args = Arguments::new(lua, args);
            let (limit, offset) = range_of(&args)?;
            unpack(&args, lua, limit, offset, &control)
        })?;
        table.set(name, function)?;
    }
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

/// Finds the limit and the offset among the arguments of an unpacking function.
type RangeOf = fn(&Arguments<'_>) -> Result<(Option<i64>, i64)>;

fn pack(lua: &Lua, args: MultiValue, control: &Arc<Control>) -> Result<LuaString> {
    if args.is_empty() {
        return Err(raise::argument(lua, 0, "MessagePack pack needs input."));
    }
    let mut writer = Writer { lua, control, out: Vec::new(), values: 0 };
    for value in &args {
        writer.value(value, 0)?;
    }
    lua.create_string(writer.out)
}

/// Writes values one after the other.
struct Writer<'w> {
    lua: &'w Lua,
    control: &'w Arc<Control>,
    out: Vec<u8>,
    /// How many values there were.
    values: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.values += 1;
        if self.values.is_multiple_of(ASK_EVERY) {
            self.control.spend(self.lua, ASK_EVERY * VALUE_INSTRUCTIONS)?;
        }
        if self.out.len() > PACKED_MAX {
            return Err(raise::plain("not enough memory"));
        }
        let out = &mut self.out;
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
            Value::Table(table) => return self.table(table, depth),
            _ => encode::write_nil(out)?,
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        if table.is_empty() {
            encode::write_array_len(&mut self.out, 0).map_err(mlua::Error::external)?;
            return Ok(());
        }
        if self.walk(table, depth)? {
            return Ok(());
        }
        let (mut count, mut greatest, mut is_array) = (0u32, 0i64, true);
        // Of the values it is enough to know that there are some.
        table.for_each(|key: Value, _: bool| {
            count += 1;
            match key {
                Value::Integer(index @ 1..=0x7FFF_FFFF) => greatest = greatest.max(index),
                _ => is_array = false,
            }
            Ok(())
        })?;
        self.control.spend(self.lua, count as usize)?;
        if is_array && greatest == i64::from(count) {
            encode::write_array_len(&mut self.out, count).map_err(mlua::Error::external)?;
            for index in 1..=count {
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
            return Ok(());
        }
        encode::write_map_len(&mut self.out, count).map_err(mlua::Error::external)?;
        table.for_each(|key: Value, value: Value| {
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)
        })
    }

    /// Writes an array whose indices come in order, or a map that begins with a name, in one go; returns whether the table
    /// was one of these, and has written nothing if it was not.
    fn walk(&mut self, table: &Table, depth: usize) -> Result<bool> {
        let start = self.out.len();
        self.out.push(0); // the least that the number of items takes
        let (mut count, mut is_array, mut fits) = (0u32, false, true);
        let walked = table.for_each(|key: Value, value: Value| {
            if count == 0 {
                is_array = matches!(key, Value::Integer(1));
                fits = is_array || matches!(key, Value::String(_));
            }
            count += 1;
            fits &= !is_array || matches!(key, Value::Integer(index) if index == i64::from(count));
            if !fits {
                return Err(mlua::Error::StackError); // any error ends the walk
            }
            if !is_array {
                self.value(&key, depth + 1)?;
            }
            self.value(&value, depth + 1)
        });
        if !fits {
            self.out.truncate(start);
            return Ok(false);
        }
        walked?;
        let mut header = Vec::with_capacity(5);
        match is_array {
            true => encode::write_array_len(&mut header, count),
            false => encode::write_map_len(&mut header, count),
        }
        .map_err(mlua::Error::external)?;
        self.out.splice(start..=start, header);
        Ok(true)
    }
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

/// Reads values from `offset` on: all of them, or so many and then says where it stopped.
fn unpack(
    args: &Arguments<'_>,
    lua: &Lua,
    limit: Option<i64>,
    offset: i64,
    control: &Arc<Control>,
) -> Result<MultiValue> {
    let data = args.string(1)?;
    let data = data.as_bytes();
    if offset < 0 || limit.is_some_and(|limit| limit < 0) {
        let complaint =
            format!("Invalid request to unpack with offset of {} and limit of {}.", offset as i32, data.len());
        return Err(raise::text(lua, complaint));
    }
    let Some(rest) = usize::try_from(offset).ok().and_then(|offset| data.get(offset..)) else {
        let complaint = format!("Start offset {} greater than input length {}.", offset as i32, data.len());
        return Err(raise::text(lua, complaint));
    };
    let most = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut values = Vec::new();
    let mut reader = Reader { lua, control, rest, values: 0 };
    while !reader.rest.is_empty() && values.len() < most {
        if args.len() + values.len() >= STACK_MAX {
            return Err(raise::text(lua, TOO_MANY));
        }
        let value = vm::without_limit(lua, || reader.value(0)).map_err(|trouble| match trouble {
            Trouble::Missing => raise::text(lua, "Missing bytes in input."),
            Trouble::Format => raise::text(lua, "Bad data format in input."),
            Trouble::Lua(error) => error,
        })?;
        values.push(value);
    }
    if limit.is_some() {
        let rest = reader.rest;
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

/// Reads values one after the other.
struct Reader<'r> {
    lua: &'r Lua,
    control: &'r Arc<Control>,
    rest: &'r [u8],
    /// How many values there were.
    values: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> std::result::Result<Value, Trouble> {
        use Marker::*;
        self.values += 1;
        if self.values.is_multiple_of(ASK_EVERY) {
            self.control.spend(self.lua, ASK_EVERY * VALUE_INSTRUCTIONS)?;
            vm::check_limit(self.lua)?;
        }
        let (&first, after) = self.rest.split_first().ok_or(Trouble::Missing)?;
        let marker = Marker::from_u8(first);
        self.rest = after;
        let value = match marker {
            FixPos(number) => Value::Integer(i64::from(number)),
            FixNeg(number) => Value::Integer(i64::from(number)),
            Null => Value::Nil,
            True => Value::Boolean(true),
            False => Value::Boolean(false),
            U8 => Value::Integer(i64::from(u8::from_be_bytes(self.take()?))),
            I8 => Value::Integer(i64::from(i8::from_be_bytes(self.take()?))),
            U16 => Value::Integer(i64::from(u16::from_be_bytes(self.take()?))),
            I16 => Value::Integer(i64::from(i16::from_be_bytes(self.take()?))),
            U32 => Value::Integer(i64::from(u32::from_be_bytes(self.take()?))),
            I32 => Value::Integer(i64::from(i32::from_be_bytes(self.take()?))),
            // Lua 5.1 takes it for a signed one.
            U64 | I64 => Value::Number(i64::from_be_bytes(self.take()?) as f64),
            F32 => Value::Number(f64::from(f32::from_be_bytes(self.take()?))),
            F64 => Value::Number(f64::from_be_bytes(self.take()?)),
            FixStr(len) => self.string(usize::from(len))?,
            Str8 => {
                let len = self.length::<1>()?;
                self.string(len)?
            }
            Str16 => {
                let len = self.length::<2>()?;
                self.string(len)?
            }
            Str32 => {
                let len = self.length::<4>()?;
                self.string(len)?
            }
            FixArray(len) => self.array(usize::from(len), depth)?,
            Array16 => {
                let len = self.length::<2>()?;
                self.array(len, depth)?
            }
            Array32 => {
                let len = self.length::<4>()?;
                self.array(len, depth)?
            }
            FixMap(len) => self.map(usize::from(len), depth)?,
            Map16 => {
                let len = self.length::<2>()?;
                self.map(len, depth)?
            }
            Map32 => {
                let len = self.length::<4>()?;
                self.map(len, depth)?
            }
            Bin8 | Bin16 | Bin32 | FixExt1 | FixExt2 | FixExt4 | FixExt8 | FixExt16 | Ext8 | Ext16 | Ext32
            | Reserved => {
                return Err(Trouble::Format);
            }
        };
        Ok(value)
    }

    fn take<const N: usize>(&mut self) -> std::result::Result<[u8; N], Trouble> {
        let (bytes, after) = self.rest.split_first_chunk().ok_or(Trouble::Missing)?;
        self.rest = after;
        Ok(*bytes)
    }

    fn length<const N: usize>(&mut self) -> std::result::Result<usize, Trouble> {
        Ok(self.take::<N>()?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)))
    }

    fn string(&mut self, len: usize) -> std::result::Result<Value, Trouble> {
        let (bytes, after) = self.rest.split_at_checked(len).ok_or(Trouble::Missing)?;
        self.rest = after;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> std::result::Result<Value, Trouble> {
        check_depth(self.lua, depth)?;
        let mut sequence = Sequence::new(self.lua, depth);
        for _ in 0..len {
            sequence.push(self.value(depth + 1)?)?;
        }
        Ok(Value::Table(sequence.finish()?))
    }

    fn map(&mut self, len: usize, depth: usize) -> std::result::Result<Value, Trouble> {
        check_depth(self.lua, depth)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            match &key {
                Value::Nil => return Err(raise::plain("table index is nil").into()),
                Value::Number(number) if number.is_nan() => return Err(raise::plain("table index is NaN").into()),
                _ => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}

fn check_depth(lua: &Lua, depth: usize) -> Result<()> {
    match depth < READ_DEPTH_MAX {
        true => Ok(()),
        false => Err(raise::text(lua, "stack overflow (too many nested tables)")),
    }
}
