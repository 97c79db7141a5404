//! Conversion between replies and Lua values.
//!
//! A reply becomes numbers, strings, booleans and tables: arrays become tables with indexes from 1, other types tables
//! with one field that names the type (`ok`, `err`, `double`, `map`, `set`, `big_number`, `verbatim_string`). A value
//! that a script returns is converted the same way back.

use bytes::Bytes;
use mlua::{Lua, LuaString, Result, Table, Value};

use crate::resp::{Frame, Protocol, Reply, parse_int};
use crate::script::arguments::truncate;
use crate::script::raise;
use crate::script::tables::{COUNTED, error_line, tagged};
use crate::text::until_nul;

/// How deep tables in a reply may be nested. Redis allows as many levels as fit on Lua's stack, about eight thousand.
const DEPTH_MAX: usize = 1000;

/// The maximum size of a script's reply, in bytes. A table may occur many times in it, so that a small value could
/// become an endless reply.
const REPLY_MAX: usize = 1 << 30;
/// The minimum size counted for a value or table, in bytes: about its memory in the interpreter.
const VALUE_LEN: usize = 16;
const TABLE_LEN: usize = 128;

/// Converts the bytes of a reply to a Lua value.
pub(super) fn from_reply(lua: &Lua, reply: &[u8]) -> Result<Value> {
    ReplyReader { lua, rest: reply }.value()
}

struct ReplyReader<'l, 'r> {
    lua: &'l Lua,
    rest: &'r [u8],
}

impl<'r> ReplyReader<'_, 'r> {
    fn value(&mut self) -> Result<Value> {
        let (kind, line) = self.line();
        let lua = self.lua;
        Ok(match kind {
            b':' => number(line),
            b'$' if line == b"-1" => Value::Boolean(false),
            b'$' => Value::String(lua.create_string(self.take(length(line)))?),
            b'+' => Value::Table(tagged(lua, "ok", lua.create_string(line)?)?),
            b'-' => reply_error(lua, line)?,
            b'*' if line == b"-1" => Value::Boolean(false),
            b'*' | b'>' => self.array(length(line))?,
            b'%' => self.map(length(line))?,
            b'~' => self.set(length(line))?,
            b'_' => Value::Nil,
            b'#' => Value::Boolean(line == b"t"),
            b',' => Value::Table(tagged(lua, "double", double(line))?),
            b'(' => Value::Table(tagged(lua, "big_number", lua.create_string(line)?)?),
            b'=' => self.verbatim(length(line))?,
            b'|' => self.behind_attribute(length(line))?,
            _ => Value::Nil,
        })
    }

    /// Takes the rest of a line: its type byte, and what follows.
    fn line(&mut self) -> (u8, &'r [u8]) {
        let end = memchr::memchr(b'\r', self.rest).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((0, line), |(kind, line)| (*kind, line))
    }

    /// Takes a string and its line end.
    fn take(&mut self, len: usize) -> &'r [u8] {
        let (string, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest.get(2..).unwrap_or_default();
        string
    }

    fn array(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table_with_capacity(len, 0)?;
        for index in 1..=len {
            table.raw_set(index, self.value()?)?;
        }
        Ok(Value::Table(table))
    }

    /// Attributes are not visible to scripts.
    fn behind_attribute(&mut self, len: usize) -> Result<Value> {
        for _ in 0..len * 2 {
            self.value()?;
        }
        self.value()
    }

    /// The table grows as in Redis, because the order of iteration in a script depends on that.
    fn map(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let (key, value) = (self.value()?, self.value()?);
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(tagged(self.lua, "map", table)?))
    }

    /// See `map`.
    fn set(&mut self, len: usize) -> Result<Value> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            table.raw_set(self.value()?, true)?;
        }
        Ok(Value::Table(tagged(self.lua, "set", table)?))
    }

    fn verbatim(&mut self, len: usize) -> Result<Value> {
        let whole = self.take(len);
        let (format, text) = whole.split_at(whole.len().min(3));
        let table = tagged(self.lua, "string", self.lua.create_string(text.get(1..).unwrap_or_default())?)?;
        table.raw_set("format", self.lua.create_string(format)?)?;
        Ok(Value::Table(tagged(self.lua, "verbatim_string", table)?))
    }
}

fn number(digits: &[u8]) -> Value {
    // Lua's numbers are doubles: large integers lose precision.
    Value::Number(parse_int(digits).unwrap_or_default() as f64)
}

fn length(digits: &[u8]) -> usize {
    parse_int(digits).and_then(|len| usize::try_from(len).ok()).unwrap_or_default()
}

fn double(digits: &[u8]) -> f64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}

/// Creates the table of an error replied by a command. The command has counted it already, hence the second field.
fn reply_error(lua: &Lua, line: &[u8]) -> Result<Value> {
    let table = tagged(lua, "err", lua.create_string(error_line(&[b"-", line].concat()))?)?;
    table.raw_set(COUNTED, true)?;
    Ok(Value::Table(table))
}

/// The result of writing a script's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A reply.
    Done,
    /// An error that is already counted.
    CountedError,
    /// An error with this line, not yet counted.
    Error(Vec<u8>),
}

/// Writes the value returned by a script as a reply. `script` is the protocol that the script has selected.
///
/// # Errors
/// When memory runs out.
pub(super) fn write_reply(names: &Names, value: &Value, script: Protocol, reply: &mut Reply<'_>) -> Result<Written> {
    let mut writer = ReplyWriter { names, script, reply, written: Written::Done, size: 0 };
    writer.value(value, 0)?;
    Ok(writer.written)
}

/// Field names as strings of one interpreter.
pub(super) struct Names {
    err: LuaString,
    counted: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    format: LuaString,
    string: LuaString,
    map: LuaString,
    set: LuaString,
}

impl Names {
    pub(super) fn new(lua: &Lua) -> Result<Self> {
        Ok(Names {
            err: lua.create_string("err")?,
            counted: lua.create_string(COUNTED)?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            format: lua.create_string("format")?,
            string: lua.create_string("string")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
        })
    }
}

fn text(table: &Table, field: &LuaString) -> Result<Option<LuaString>> {
    match table.raw_get(field)? {
        Value::String(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}

struct ReplyWriter<'w, 'r> {
    names: &'w Names,
    script: Protocol,
    reply: &'w mut Reply<'r>,
    written: Written,
    /// The size of the reply so far, see [`REPLY_MAX`].
    size: usize,
}

impl ReplyWriter<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.size += match value {
            Value::String(string) => VALUE_LEN + string.as_bytes().len(),
            Value::Table(_) => TABLE_LEN,
            _ => VALUE_LEN,
        };
        if self.size > REPLY_MAX {
            return Err(raise::plain("reply of the script is too large"));
        }
        match value {
            Value::String(string) => self.reply.bulk(&string.as_bytes()),
            Value::Integer(number) => self.reply.int(*number),
            Value::Number(number) => self.reply.int(truncate(*number)),
            Value::Boolean(truth) => match (self.script, truth) {
                (Protocol::Resp3, truth) => self.reply.bool(*truth),
                (Protocol::Resp2, true) => self.reply.int(1),
                (Protocol::Resp2, false) => self.reply.null(),
            },
            Value::Table(_) if depth >= DEPTH_MAX => self.reply.error(b"ERR reached lua stack limit"),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    /// Writes a table by the first of its special fields, or else as an array.
    fn table(&mut self, table: &Table, depth: usize) -> Result<()> {
        let names = self.names;
        if let Some(text) = text(table, &names.err)? {
            return self.error(table, &text.as_bytes());
        }
        if let Some(text) = text(table, &names.ok)? {
            Frame::Simple(Bytes::copy_from_slice(until_nul(&text.as_bytes()))).write(self.reply);
            return Ok(());
        }
        let double = match table.raw_get(&names.double)? {
            Value::Integer(number) => Some(number as f64),
            Value::Number(number) => Some(number),
            _ => None,
        };
        if let Some(number) = double {
            self.reply.double(number);
            return Ok(());
        }
        if let Some(digits) = text(table, &names.big_number)? {
            let is_line_end = |byte: u8| matches!(byte, b'\r' | b'\n');
            let digits = digits.as_bytes().iter().map(|&byte| if is_line_end(byte) { b' ' } else { byte }).collect();
            Frame::BigNumber(digits).write(self.reply);
            return Ok(());
        }
        if let Value::Table(parts) = table.raw_get(&names.verbatim_string)?
            && let (Some(format), Some(string)) = (text(&parts, &names.format)?, text(&parts, &names.string)?)
        {
            self.verbatim(&format.as_bytes(), &string.as_bytes());
            return Ok(());
        }
        if let Value::Table(map) = table.raw_get(&names.map)? {
            return self.map(&map, depth);
        }
        if let Value::Table(set) = table.raw_get(&names.set)? {
            return self.set(&set, depth);
        }
        self.array(table, depth)
    }

    fn error(&mut self, table: &Table, text: &[u8]) -> Result<()> {
        self.reply.error(until_nul(text));
        self.written = match table.raw_get(&self.names.counted)? {
            Value::Boolean(true) => Written::CountedError,
            _ => Written::Error(until_nul(text).to_vec()),
        };
        Ok(())
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        let mut kind = *b"   ";
        for (slot, byte) in kind.iter_mut().zip(until_nul(format)) {
            *slot = *byte;
        }
        Frame::Verbatim(kind, Bytes::copy_from_slice(text)).write(self.reply);
    }

    fn array(&mut self, table: &Table, depth: usize) -> Result<()> {
        let mut len = 0;
        while !table.raw_get::<Value>(len + 1)?.is_nil() {
            len += 1;
        }
        self.reply.array(len);
        for index in 1..=len {
            self.value(&table.raw_get(index)?, depth + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, table: &Table, depth: usize) -> Result<()> {
        let len = table.pairs::<Value, Value>().count();
        self.reply.map(len);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, table: &Table, depth: usize) -> Result<()> {
        let len = table.pairs::<Value, Value>().count();
        self.reply.set(len);
        for pair in table.pairs::<Value, Value>() {
            self.value(&pair?.0, depth + 1)?;
        }
        Ok(())
    }
}

/// Formats the error that a script ended with, for its caller. Also returns whether it is already counted.
pub(super) fn final_error(lua: &Lua, error: &Value, name: &str) -> Result<(Vec<u8>, bool)> {
    let Value::Table(table) = error else {
        let text = match lua.coerce_string(error.clone())? {
            Some(text) => text.as_bytes().to_vec(),
            None => b"execution failure".to_vec(),
        };
        let text = &text[..text.len().min(100)];
        return Ok(([b"ERR Error running script ", name.as_bytes(), b", ", text].concat(), false));
    };
    let field = |name: &str| -> Result<Option<Vec<u8>>> {
        let value = lua.coerce_string(table.raw_get(name)?)?;
        Ok(value.map(|text| until_nul(&text.as_bytes()).to_vec()))
    };
    // Redis crashes on an error without a text.
    let mut line = field("err")?.unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(number)) = (field("source")?, field("line")?) {
        line.extend([b" script: ", name.as_bytes(), b", on ", &source, b":", &number, b"."].concat());
    }
    let counted = matches!(table.raw_get(COUNTED)?, Value::Boolean(true));
    Ok((line, counted))
}

/// The error handler: records the position in the script.
pub(super) fn on_error(lua: &Lua, error: Value) -> Result<Value> {
    let error = match raise::relocate(lua, &error)? {
        Some(relocated) => relocated,
        None => raise::unwrap(lua, error)?,
    };
    let table = match error {
        Value::Table(table) => table,
        other => {
            let text = lua.coerce_string(other.clone())?;
            let text = match text {
                Some(text) => text.as_bytes().to_vec(),
                None => other.to_string()?.into_bytes(),
            };
            tagged(lua, "err", lua.create_string([b"ERR ", &text[..]].concat())?)?
        }
    };
    if let Some((source, line)) = raise::culprit(lua) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(Value::Table(table))
}
