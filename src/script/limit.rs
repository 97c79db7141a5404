//! The limit on the memory of a running script.

use mlua::Lua;

/// The memory that a script may allocate in addition to what its interpreter uses at the start, in bytes. Redis sets no
/// limit.
const MEMORY_MAX: usize = 512 << 20;

/// Limits an interpreter's memory while a script runs. At other times there is no limit, because without one mlua
/// avoids costly precautions against failing allocations, and the memory is bounded by the request.
pub(super) struct Limited<'l>(&'l Lua);

impl<'l> Limited<'l> {
    /// Sets the limit to the memory used so far plus the script's allowance.
    pub(super) fn new(lua: &'l Lua, used: usize) -> Self {
        set_limit(lua, used + MEMORY_MAX);
        Limited(lua)
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        set_limit(self.0, 0);
    }
}

/// Runs a closure for a script without the memory limit; its memory is bounded by the size of a reply. With the limit,
/// mlua takes precautions that cost more than creating a value.
pub(super) fn without_limit<T>(lua: &Lua, act: impl FnOnce() -> T) -> T {
    let limit = set_limit(lua, 0);
    let result = act();
    set_limit(lua, limit);
    result
}

/// Sets the memory limit, or none for 0. Returns the previous one.
fn set_limit(lua: &Lua, bytes: usize) -> usize {
    lua.set_memory_limit(bytes).expect("the interpreter has mlua's allocator")
}
