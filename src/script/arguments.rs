//! The arguments of a native function, converted and checked as in Lua's auxiliary library.

use mlua::{Lua, LuaString, MultiValue, Result, Value};

use crate::script::raise;

/// The arguments of one call. Positions count from 1, as in error messages.
pub(super) struct Arguments<'l> {
    lua: &'l Lua,
    values: MultiValue,
}

impl<'l> Arguments<'l> {
    pub(super) fn new(lua: &'l Lua, values: MultiValue) -> Self {
        Arguments { lua, values }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns an argument, if there is one at this position.
    pub(super) fn get(&self, position: usize) -> Option<&Value> {
        self.values.get(position - 1)
    }

    /// Returns an argument, nil where there is none.
    pub(super) fn value(&self, position: usize) -> Value {
        self.get(position).cloned().unwrap_or(Value::Nil)
    }

    /// Returns whether the argument at this position is missing or nil.
    pub(super) fn is_nil(&self, position: usize) -> bool {
        matches!(self.get(position), None | Some(Value::Nil))
    }

    /// Returns a string, or a number as a string.
    pub(super) fn string(&self, position: usize) -> Result<LuaString> {
        match self.get(position) {
            Some(Value::String(string)) => Ok(string.clone()),
            Some(number @ (Value::Integer(_) | Value::Number(_))) => {
                let string = self.lua.coerce_string(number.clone())?;
                string.ok_or_else(|| raise::argument_type(self.lua, position, "string", Some(number)))
            }
            other => Err(raise::argument_type(self.lua, position, "string", other)),
        }
    }

    /// Returns a number, or a string converted to one.
    pub(super) fn number(&self, position: usize) -> Result<f64> {
        let value = self.get(position);
        value
            .and_then(|value| number_of(self.lua, value))
            .ok_or_else(|| raise::argument_type(self.lua, position, "number", value))
    }

    /// Returns a number truncated to an integer.
    pub(super) fn integer(&self, position: usize) -> Result<i64> {
        self.number(position).map(truncate)
    }

    /// Returns an integer, or `default` for a missing argument.
    pub(super) fn integer_or(&self, position: usize, default: i64) -> Result<i64> {
        if self.is_nil(position) { Ok(default) } else { self.integer(position) }
    }

    /// Returns the error for an invalid argument.
    pub(super) fn complain(&self, position: usize, complaint: &str) -> mlua::Error {
        raise::argument(self.lua, position, complaint)
    }
}

/// Converts a value to a number, if it is one or a string of one.
pub(super) fn number_of(lua: &Lua, value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(_) => lua.coerce_number(value.clone()).ok().flatten(),
        _ => None,
    }
}

/// Truncates a number to an integer as the processor does: one out of range becomes the minimum integer.
pub(super) fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
