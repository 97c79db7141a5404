//! Errors raised by native functions in a script.
//!
//! mlua passes an error of a native function through Lua as an object. Inside is what a script would see in Redis; it
//! is unwrapped where the script can catch it (`prelude.lua`) or where the script ends (`on_error`): a text, with the
//! position in the script as C's `luaL_error` adds it, or a table with the field `err`.

use std::fmt;

use mlua::{Error, Lua, Result, Value};

use crate::script::tables;

/// The name of the prelude's chunk in debug information.
pub(super) const PRELUDE_NAME: &str = "=sandbox";

/// The error raised by a native function.
#[derive(Clone, Debug)]
pub(super) enum Raised {
    /// A string.
    Text(Vec<u8>),
    /// A table with the field `err`; holds the whole error line.
    Reply(Vec<u8>),
    /// The same, for an error that is already counted in the statistics.
    Counted(Vec<u8>),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Raised::Text(text) | Raised::Reply(text) | Raised::Counted(text)) = self;
        f.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

/// Creates an error string with the position from which the native function was called, as `luaL_error` does.
pub(super) fn text(lua: &Lua, message: impl AsRef<[u8]>) -> Error {
    text_at(lua, 1, message)
}

/// Creates an error string with the position at a level of the stack.
pub(super) fn text_at(lua: &Lua, level: usize, message: impl AsRef<[u8]>) -> Error {
    let mut line = place(lua, level).into_bytes();
    line.extend_from_slice(message.as_ref());
    plain(line)
}

/// Creates an error string without a position.
pub(super) fn plain(message: impl Into<Vec<u8>>) -> Error {
    Error::external(Raised::Text(message.into()))
}

/// Creates an error table, as `redis.call` raises it, from an error line or a message without code.
pub(super) fn reply(line: impl Into<Vec<u8>>) -> Error {
    Error::external(Raised::Reply(line.into()))
}

/// Creates an error table of an error that is already counted.
pub(super) fn counted(line: impl Into<Vec<u8>>) -> Error {
    Error::external(Raised::Counted(line.into()))
}

/// Creates the error for an invalid argument of the running native function, as `luaL_argerror` does.
pub(super) fn argument(lua: &Lua, number: usize, complaint: impl fmt::Display) -> Error {
    let names = lua.inspect_stack(0, |frame| {
        let names = frame.names();
        (names.name.map(|name| name.into_owned()), names.name_what == Some("method"))
    });
    let (name, is_method) = names.unwrap_or_default();
    let name = name.unwrap_or_else(|| "?".into());
    text(
        lua,
        match (is_method, number) {
            (true, 1) => format!("calling '{name}' on bad self ({complaint})"),
            // In a method call the object before the colon is not counted.
            (true, _) => format!("bad argument #{} to '{name}' ({complaint})", number - 1),
            (false, _) => format!("bad argument #{number} to '{name}' ({complaint})"),
        },
    )
}

/// Creates the error for an argument of the wrong type, as `luaL_typerror` does.
pub(super) fn argument_type(lua: &Lua, number: usize, expected: &str, value: Option<&Value>) -> Error {
    argument(lua, number, format!("{expected} expected, got {}", type_name(value)))
}

/// Names the type of an argument as Lua does.
pub(super) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(Value::LightUserData(_)) => "userdata",
        Some(Value::Error(_)) => "table",
        Some(value) => value.type_name(),
    }
}

/// Returns `chunk:line: ` for a level of the stack; nothing for native functions.
fn place(lua: &Lua, level: usize) -> String {
    let place = lua.inspect_stack(level, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src?))
    });
    place.flatten().unwrap_or_default()
}

/// Finds the position of an error in the script: the source and line of the function that raised it, or of its caller
/// if that is native. Must be called by an error handler.
pub(super) fn culprit(lua: &Lua) -> Option<(String, i64)> {
    let frame = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            (name, frame.current_line().map_or(-1, |line| line as i64), source.what == "C")
        })
    };
    let (name, line, is_native) = frame(1)?;
    if !is_native && name != PRELUDE_NAME {
        return Some((name, line));
    }
    // Functions of the prelude, and the native one that they have called, count as one native function.
    let mut level = if is_native { 2 } else { 1 };
    let mut was_prelude = false;
    loop {
        let (name, line, _) = frame(level)?;
        if name != PRELUDE_NAME && !(was_prelude && name == "=(tail call)") {
            return Some((name, line));
        }
        was_prelude = true;
        level += 1;
    }
}

/// Returns what a script sees of an error: what it raised itself, or the content of a native error.
pub(super) fn unwrap(lua: &Lua, error: Value) -> Result<Value> {
    let error = match error {
        Value::Error(error) => error,
        // An error of a Lua function called by the prelude names the prelude, which the script must not see.
        Value::String(text) if text.as_bytes().starts_with(PRELUDE_PLACE) => {
            return Ok(Value::String(lua.create_string(without_place(&text.as_bytes()))?));
        }
        other => return Ok(other),
    };
    match raised(&error) {
        Raised::Text(text) => Ok(Value::String(lua.create_string(text)?)),
        Raised::Reply(line) => tables::error_table(lua, &line),
        Raised::Counted(line) => tables::counted_error_table(lua, &line),
    }
}

/// The prefix of a message with a position in the prelude.
const PRELUDE_PLACE: &[u8] = b"sandbox:";

fn without_place(text: &[u8]) -> &[u8] {
    text.windows(2).position(|two| two == b": ").map_or(text, |at| &text[at + 2..])
}

/// Replaces a position in the prelude by the position in the script; must be called by an error handler.
pub(super) fn relocate(lua: &Lua, error: &Value) -> Result<Option<Value>> {
    let Value::String(text) = error else { return Ok(None) };
    if !text.as_bytes().starts_with(PRELUDE_PLACE) {
        return Ok(None);
    }
    let is_script = |level: &usize| {
        lua.inspect_stack(*level, |frame| {
            let source = frame.source();
            source.what != "C" && source.source.is_none_or(|name| name != PRELUDE_NAME)
        })
    };
    let found = (1..).map_while(|level| is_script(&level).map(|is| (level, is))).find(|(_, is)| *is);
    let place = found.map(|(level, _)| place(lua, level)).unwrap_or_default();
    let text = [place.as_bytes(), without_place(&text.as_bytes())].concat();
    Ok(Some(Value::String(lua.create_string(text)?)))
}

/// Returns the content of an error that was passed through Lua.
pub(super) fn raised(error: &Error) -> Raised {
    match error {
        Error::CallbackError { cause, .. } => raised(cause),
        Error::ExternalError(cause) => match cause.downcast_ref::<Raised>() {
            Some(raised) => raised.clone(),
            None => Raised::Text(cause.to_string().into_bytes()),
        },
        Error::MemoryError(_) => Raised::Text(b"not enough memory".to_vec()),
        Error::RuntimeError(message) => Raised::Text(message.clone().into_bytes()),
        Error::SyntaxError { message, .. } => Raised::Text(message.clone().into_bytes()),
        other => Raised::Text(other.to_string().into_bytes()),
    }
}
