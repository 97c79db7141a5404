//! The globals of scripts that only read (see `access`): the tables themselves instead of fronts.

use keylatch_lua::Kind;

use crate::script::access::Access;
use crate::script::shared::{Frame, base};

/// Pushes these globals.
pub(super) fn push_direct(frame: &mut Frame<'_>) {
    frame.push_table(0, 64);
    let direct = frame.top();
    frame.push_nil();
    while frame.next(base::GLOBALS) {
        let (name, value) = (direct + 1, direct + 2);
        frame.push_copy(name);
        match frame.kind(value) {
            Kind::Table if frame.bytes(name) != Some(b"_G") => {
                frame.push_metatable(value);
                frame.push_field(value + 2, "__index");
                frame.replace(value + 2, value + 3);
                frame.pop();
            }
            _ => frame.push_copy(value),
        }
        frame.set(direct);
        frame.pop();
    }
    frame.push_metatable(base::GLOBALS);
    frame.set_metatable(direct);
}

/// Returns what the function on the top, which has just been compiled, may do to tables that are globals.
pub(super) fn access(frame: &mut Frame<'_>) -> Access {
    let code = frame.dump();
    Access::of(&code, |name| {
        frame.push_bytes(name);
        frame.get(base::DIRECT);
        let is_table = frame.kind(frame.top()) == Kind::Table;
        frame.pop();
        is_table
    })
}

/// Lets the function on the top see these globals, if it is written in Lua.
pub(super) fn give_direct(frame: &mut Frame<'_>) {
    frame.push_copy(base::DIRECT);
    frame.set_environment();
}
