//! Writes values of Lua as JSON, table by table.

use mlua::{Lua, LuaString, Result, Table, Value};

use super::super::raise;
use super::{DEPTH_LIMIT, Invalid, Settings};
use crate::resp::format_general;

/// Writes a value as JSON.
pub(super) fn encode(lua: &Lua, value: &Value, settings: &Settings) -> Result<LuaString> {
    let mut encoder = Encoder { lua, settings, json: Vec::new() };
    encoder.value(value, 0)?;
    lua.create_string(encoder.json)
}

struct Encoder<'e> {
    lua: &'e Lua,
    settings: &'e Settings,
    json: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse(&self, value: &Value, reason: &str) -> mlua::Error {
        raise::text(self.lua, format!("Cannot serialise {}: {reason}", raise::type_name(Some(value))))
    }

    fn value(&mut self, value: &Value, depth: i64) -> Result<()> {
        match value {
            Value::String(string) => self.string(&string.as_bytes()),
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

    fn string(&mut self, string: &[u8]) {
        self.json.push(b'"');
        for &byte in string {
            match byte {
                b'"' | b'\\' | b'/' => self.json.extend([b'\\', byte]),
                b'\x08' => self.json.extend(b"\\b"),
                b'\t' => self.json.extend(b"\\t"),
                b'\n' => self.json.extend(b"\\n"),
                b'\x0c' => self.json.extend(b"\\f"),
                b'\r' => self.json.extend(b"\\r"),
                0..=31 | 127 => self.json.extend(format!("\\u{byte:04x}").bytes()),
                _ => self.json.push(byte),
            }
        }
        self.json.push(b'"');
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
        self.json.extend(format_general(number, self.settings.precision as i32).bytes());
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<()> {
        if depth > self.settings.encode_depth_max.min(DEPTH_LIMIT) {
            return Err(raise::text(self.lua, format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_length(table)? {
            Some(len) if len > 0 => self.array(table, len, depth),
            _ => self.object(table, depth),
        }
    }

    /// Returns the greatest index of an array; `None` for a table that is none.
    fn array_length(&self, table: &Table) -> Result<Option<i64>> {
        let (mut greatest, mut items) = (0i64, 0i64);
        for pair in table.pairs::<Value, Value>() {
            let index = match pair?.0 {
                Value::Integer(index) if index >= 1 => index,
                Value::Number(index) if index >= 1.0 && index.floor() == index => index as i64,
                _ => return Ok(None),
            };
            // Counted in 32 bits, as in C.
            greatest = greatest.max(i64::from(i32::try_from(index).unwrap_or(i32::MIN)));
            items += 1;
        }
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
        self.json.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.json.push(b',');
            }
            match &key {
                Value::String(name) => self.string(&name.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.json.push(b'"');
                    self.value(&key, depth)?;
                    self.json.push(b'"');
                }
                _ => return Err(self.refuse(&key, "table key must be a number or string")),
            }
            self.json.push(b':');
            self.value(&value, depth)?;
        }
        self.json.push(b'}');
        Ok(())
    }
}
