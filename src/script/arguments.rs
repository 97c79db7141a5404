//! The arguments of a native function, converted and checked as in Lua's auxiliary library. Positions count from 1, as
//! in error messages.

use std::fmt::Display;

use keylatch_lua::{Kind, Raised};

use crate::script::shared::VmStack;

/// Creates the error for an invalid argument, as `luaL_argerror` does.
pub(super) fn argument_error(frame: &mut VmStack<'_>, position: usize, complaint: impl Display) -> Raised {
    let called = frame.level(0).unwrap_or_default();
    let name = called.name.unwrap_or_else(|| "?".into());
    frame.error(match (called.is_method, position) {
        (true, 1) => format!("calling '{name}' on bad self ({complaint})"),
        // In a method call the object before the colon is not counted.
        (true, _) => format!("bad argument #{} to '{name}' ({complaint})", position - 1),
        (false, _) => format!("bad argument #{position} to '{name}' ({complaint})"),
    })
}

/// Creates the error for an argument of the wrong type, as `luaL_typerror` does.
fn type_error(frame: &mut VmStack<'_>, position: usize, expected: &str) -> Raised {
    let given = frame.type_name(position);
    argument_error(frame, position, format!("{expected} expected, got {given}"))
}

/// Checks that an argument is a string; converts a number to one.
pub(super) fn check_string(frame: &mut VmStack<'_>, position: usize) -> Result<(), Raised> {
    if frame.to_string(position) { Ok(()) } else { Err(type_error(frame, position, "string")) }
}

/// Returns a number, or a string converted to one.
pub(super) fn number(frame: &mut VmStack<'_>, position: usize) -> Result<f64, Raised> {
    frame.number(position).ok_or_else(|| type_error(frame, position, "number"))
}

/// Returns a number truncated to an integer.
pub(super) fn integer(frame: &mut VmStack<'_>, position: usize) -> Result<i64, Raised> {
    number(frame, position).map(truncate)
}

/// Returns an integer, or `default` for a missing argument.
pub(super) fn integer_or(frame: &mut VmStack<'_>, position: usize, default: i64) -> Result<i64, Raised> {
    match frame.kind(position) {
        Kind::Nil => Ok(default),
        _ => integer(frame, position),
    }
}

/// Truncates a number to an integer as the processor does: a number out of range becomes the minimum integer.
#[inline]
pub(super) fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}
