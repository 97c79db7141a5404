//! Writes values of Lua as JSON, table by table.

use std::sync::Arc;

use mlua::{Lua, LuaString, Result, Table, Value};

use super::super::control::Control;
use super::super::raise;
use super::{DEPTH_LIMIT, Invalid, Settings};
use crate::resp::format_general;

/// The longest text that is made, in bytes. A table may be in many places of it, so that little memory could make a text
/// that is endless.
const JSON_MAX: usize = 512 << 20;
/// After how many values the control is asked whether to go on, and how many instructions a value counts as.
const ASK_EVERY: usize = 256;
const VALUE_INSTRUCTIONS: usize = 8;
/// How deep tables are gone through in one go, which is faster, but takes the thread's own stack like a call of a native
/// function, of which Lua allows two hundred.
const WALK_DEPTH_MAX: i64 = 16;
/// How many bytes of a string are written at once.
const STRING_PART: usize = 1 << 20;

/// Which bytes of a string are written in another way.
const IS_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        special[byte] = matches!(byte as u8, 0..=31 | b'"' | b'/' | b'\\' | 127);
        byte += 1;
    }
    special
};

/// Writes a value as JSON.
pub(super) fn encode(lua: &Lua, value: &Value, settings: &Settings, control: &Arc<Control>) -> Result<LuaString> {
    let mut encoder = Encoder { lua, settings, control, json: Vec::new(), values: 0, complaint: None };
    if let Err(error) = encoder.value(value, 0) {
        return Err(encoder.complaint.map_or(error, |complaint| raise::text(lua, complaint)));
    }
    lua.create_string(encoder.json)
}

struct Encoder<'e> {
    lua: &'e Lua,
    settings: &'e Settings,
    control: &'e Arc<Control>,
    json: Vec<u8>,
    /// How many values there were.
    values: usize,
    /// Why it was given up.
    complaint: Option<String>,
}

impl Encoder<'_> {
    /// Gives up over a value.
    fn refuse(&mut self, value: &Value, reason: &str) -> mlua::Error {
        self.complain(format!("Cannot serialise {}: {reason}", raise::type_name(Some(value))))
    }

    /// Gives up. The place in the script is added later: here there may be calls of mlua's in between.
    fn complain(&mut self, complaint: String) -> mlua::Error {
        self.complaint = Some(complaint);
        mlua::Error::StackError // any error
    }

    /// Asks now and then whether to go on.
    fn step(&mut self) -> Result<()> {
        self.values += 1;
        if self.values.is_multiple_of(ASK_EVERY) {
            self.control.spend(self.lua, ASK_EVERY * VALUE_INSTRUCTIONS)?;
        }
        self.check_length()
    }

    fn check_length(&self) -> Result<()> {
        if self.json.len() <= JSON_MAX { Ok(()) } else { Err(raise::plain("not enough memory")) }
    }

    fn value(&mut self, value: &Value, depth: i64) -> Result<()> {
        self.step()?;
        match value {
            Value::String(string) => return self.string(&string.as_bytes()),
            Value::Integer(number) => return self.number(*number as f64, value),
            Value::Number(number) => return self.number(*number, value),
            Value::Boolean(true) => self.json.extend(b"true"),
            Value::Boolean(false) => self.json.extend(b"false"),
            Value::Table(table) => return self.table(table, depth + 1),
            Value::Nil => self.json.extend(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.json.extend(b"null"),
            _ => return Err(self.refuse(value, "type not supported")),
        }
        Ok(())
    }

    fn string(&mut self, string: &[u8]) -> Result<()> {
        self.json.push(b'"');
        for part in string.chunks(STRING_PART) {
            self.check_length()?;
            self.control.spend(self.lua, part.len() / 8)?;
            self.escaped(part);
        }
        self.json.push(b'"');
        Ok(())
    }

    fn escaped(&mut self, mut string: &[u8]) {
        while let Some(plain) = string.iter().position(|byte| IS_SPECIAL[usize::from(*byte)]) {
            self.json.extend_from_slice(&string[..plain]);
            match string[plain] {
                byte @ (b'"' | b'\\' | b'/') => self.json.extend([b'\\', byte]),
                b'\x08' => self.json.extend(b"\\b"),
                b'\t' => self.json.extend(b"\\t"),
                b'\n' => self.json.extend(b"\\n"),
                b'\x0c' => self.json.extend(b"\\f"),
                b'\r' => self.json.extend(b"\\r"),
                byte => {
                    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).map_or(b'0', |digit| digit as u8);
                    self.json.extend([b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
                }
            }
            string = &string[plain + 1..];
        }
        self.json.extend_from_slice(string);
    }

    fn number(&mut self, number: f64, value: &Value) -> Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refused => return Err(self.refuse(value, "must not be NaN or Inf")),
                Invalid::Null => {
                    self.json.extend(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        // What has at most fourteen digits is the same in every format, but for the sign of zero.
        if number.trunc() == number && number.abs() < 1e14 && self.settings.precision == 14 && number != 0.0 {
            self.json.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
            return Ok(());
        }
        self.json.extend(format_general(number, self.settings.precision as i32).bytes());
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<()> {
        if depth > self.settings.encode_depth_max.min(DEPTH_LIMIT) {
            return Err(self.complain(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        if table.is_empty() {
            self.json.extend_from_slice(b"{}");
            return Ok(());
        }
        if depth <= WALK_DEPTH_MAX && self.walk(table, depth)? {
            return Ok(());
        }
        match self.array_length(table)? {
            Some(len) if len > 0 => self.array(table, len, depth),
            _ => self.object(table, depth),
        }
    }

    /// Writes an array whose indices come in order, or an object that begins with a name, in one go; returns whether the
    /// table was one of these, and has written nothing if it was not.
    fn walk(&mut self, table: &Table, depth: i64) -> Result<bool> {
        let start = self.json.len();
        let (mut items, mut is_array, mut fits) = (0, false, true);
        let walked = table.for_each(|key: Value, value: Value| {
            if items == 0 {
                is_array = matches!(key, Value::Integer(1));
                fits = is_array || matches!(key, Value::String(_));
            }
            items += 1;
            fits &= !is_array || matches!(key, Value::Integer(index) if index == items);
            if !fits {
                return Err(mlua::Error::StackError); // any error ends the walk
            }
            if is_array {
                self.json.push(b',');
                self.value(&value, depth)
            } else {
                self.field(&key, &value, depth)
            }
        });
        if !fits {
            self.json.truncate(start);
            return Ok(false);
        }
        walked?;
        self.enclose(start, if is_array { *b"[]" } else { *b"{}" });
        Ok(true)
    }

    /// Puts brackets around what was written since `start`, each part of which has begun with a comma.
    fn enclose(&mut self, start: usize, [open, close]: [u8; 2]) {
        match self.json.get_mut(start) {
            Some(comma) => *comma = open,
            None => self.json.push(open),
        }
        self.json.push(close);
    }

    /// Returns the greatest index of an array; `None` for a table that is none.
    fn array_length(&mut self, table: &Table) -> Result<Option<i64>> {
        let (mut greatest, mut items, mut is_array) = (0i64, 0i64, true);
        // Of the values it is enough to know that there are some.
        let seen = table.for_each(|key: Value, _: bool| {
            let index = match key {
                Value::Integer(index) if index >= 1 => index,
                Value::Number(index) if index >= 1.0 && index.floor() == index => index as i64,
                _ => {
                    is_array = false;
                    return Err(mlua::Error::StackError); // any error ends the walk
                }
            };
            // Counted in 32 bits, as in C.
            greatest = greatest.max(i64::from(i32::try_from(index).unwrap_or(i32::MIN)));
            items += 1;
            Ok(())
        });
        if !is_array {
            return Ok(None);
        }
        seen?;
        self.control.spend(self.lua, items as usize)?;
        let Settings { sparse_ratio, sparse_safe, sparse_convert, .. } = *self.settings;
        if sparse_ratio > 0 && greatest > items.saturating_mul(sparse_ratio) && greatest > sparse_safe {
            return match sparse_convert {
                true => Ok(None),
                false => Err(self.refuse(&Value::Table(table.clone()), "excessively sparse array")),
            };
        }
        Ok(Some(greatest))
    }

    fn array(&mut self, table: &Table, len: i64, depth: i64) -> Result<()> {
        self.json.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.json.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.json.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<()> {
        let start = self.json.len();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            self.field(&key, &value, depth)?;
        }
        self.enclose(start, *b"{}");
        Ok(())
    }

    fn field(&mut self, key: &Value, value: &Value, depth: i64) -> Result<()> {
        self.json.push(b',');
        match key {
            Value::String(name) => self.string(&name.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                self.json.push(b'"');
                self.value(key, depth)?;
                self.json.push(b'"');
            }
            _ => return Err(self.refuse(key, "table key must be a number or string")),
        }
        self.json.push(b':');
        self.value(value, depth)
    }
}
