//! What replaces functions of Lua's library `string` that could keep the thread for ever, or crash it.

use mlua::{Lua, LuaString, MultiValue, Result, Table};

use crate::script::arguments::Arguments;
use crate::script::raise;

/// The longest string that `string.rep` makes, in bytes.
const REPEATED_MAX: usize = 512 << 20;

/// Makes the functions.
pub(super) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("rep", lua.create_function(repeat)?)?;
    Ok(table)
}

/// Repeats a string. Lua's own function goes round for ever when asked for a great many copies of nothing.
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
