//! Tables with one field that names their type, and those of errors.

use mlua::{Lua, Result, Table, Value};

use crate::text::until_nul;

pub(super) fn tagged(lua: &Lua, tag: &str, value: impl mlua::IntoLua) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(tag, value)?;
    Ok(table)
}

/// The field that marks errors already counted in the statistics.
pub(super) const COUNTED: &str = "ignore_error_stats_update";

/// Creates the table of an error from its line, which may lack the code.
pub(super) fn error_table(lua: &Lua, line: &[u8]) -> Result<Value> {
    Ok(Value::Table(tagged(lua, "err", lua.create_string(error_line(line))?)?))
}

/// Creates the table of an error that is already counted.
pub(super) fn counted_error_table(lua: &Lua, line: &[u8]) -> Result<Value> {
    let table = tagged(lua, "err", lua.create_string(error_line(line))?)?;
    table.raw_set(COUNTED, true)?;
    Ok(Value::Table(table))
}

/// Formats an error as scripts see it: with a code, and without line ends around the message.
///
/// A leading `-` marks the first word as the code. As in C, the line ends at its first NUL.
pub(super) fn error_line(line: &[u8]) -> Vec<u8> {
    let line = until_nul(line);
    let (code, message) = match line.strip_prefix(b"-") {
        None => (&b"ERR"[..], line),
        Some(line) => match line.iter().position(|byte| *byte == b' ') {
            Some(blank) => (&line[..blank], &line[blank + 1..]),
            None => (&b"ERR"[..], line),
        },
    };
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message.iter().position(|byte| !is_line_end(byte)).unwrap_or(message.len());
    let end = message.iter().rposition(|byte| !is_line_end(byte)).map_or(start, |last| last + 1);
    [code, b" ", &message[start..end]].concat()
}
