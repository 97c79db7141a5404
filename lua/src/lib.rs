//! Lua 5.1, in which scripts run, with what a server asks of it beyond its own: a sandbox, limits and interrupts.
//!
//! [`Lua`] is an interpreter, [`Frame`] its stack for safe code. The interpreter is the unchanged one of the package
//! `lua-src`; whatever is different for scripts is done through its public interface: functions of its libraries that
//! could take long are replaced by some in C that count their work, and none can read or change what other scripts see.

#[allow(unsafe_code, reason = "declarations of foreign functions")]
mod ffi;
#[allow(unsafe_code, reason = "memory for Lua, and the errors that its hook raises")]
mod meter;
#[allow(unsafe_code, reason = "the only calls of Lua's interface")]
mod stack;

pub use stack::{Frame, ITEM_INSTRUCTIONS, Kind, Level, Lua, Native, Raised, Scalar, Supervisor};
