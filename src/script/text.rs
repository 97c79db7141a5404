//! Replacements for functions of Lua's library `string` that could block the thread for ever, or crash it.

use mlua::{Lua, LuaString, MultiValue, Result, Table};

use crate::script::arguments::Arguments;
use crate::script::raise;

/// The maximum length of a result of `string.rep`, in bytes.
const REPEATED_MAX: usize = 512 << 20;

/// Creates the functions.
pub(super) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("rep", lua.create_function(repeat)?)?;
    Ok(table)
}

/// Repeats a string. Lua's own function loops for ever when an empty string is repeated very often.
fn repeat(lua: &Lua, args: MultiValue) -> Result<LuaString> {
    let args = Arguments::new(lua, args);
    let string = args.string(1)?;
    let count = usize::try_from(args.integer(2)? as i32).unwrap_or(0);
    let string = string.as_bytes();
    match string.len().checked_mul(count) {
        Some(len) if len <= REPEATED_MAX => lua.create_string(string.repeat(count)),
        _ => Err(raise::plain("not enough memory")),
    }
}
