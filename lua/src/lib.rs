//! Lua 5.1 for the scripts of a server, with a sandbox, limits and interrupts.
//!
//! [`Lua`] is an interpreter, [`Frame`] its stack for safe code. The interpreter is the unchanged one of the package
//! `lua-src`; all differences for scripts are made through its public interface: library functions that could take long
//! are replaced by functions in C that count their work, and no function can read or change data that other scripts
//! see.

#[allow(unsafe_code, reason = "declarations of foreign functions")]
mod ffi;
#[allow(unsafe_code, reason = "memory for Lua, and the errors that its hook raises")]
mod meter;
#[allow(unsafe_code, reason = "the only calls of Lua's interface")]
mod stack;

pub use stack::{Frame, ITEM_INSTRUCTIONS, Kind, Level, Lua, Native, Raised, Scalar, Supervisor};
