//! Controls when the interpreter's garbage is collected.
//!
//! Lua collects incrementally while it allocates, and begins a cycle when memory has doubled since the end of the last
//! one. With hundreds of megabytes of loaded scripts that is too late, and a cycle takes too long; so with more memory
//! in use, the collector begins earlier and takes larger steps. Only the garbage of a single script with large tables
//! is collected at once, when that script has ended: the time is proportional to the memory that the script has
//! allocated.

use keylatch_lua::{Lua, Supervisor};

/// The garbage of a single script that is left to the incremental collector, in bytes, unless a quarter of the memory
/// before the script is more.
const LEFT_MAX: usize = 64 << 20;
/// The bytes that may be allocated before a cycle begins, and during it, once this much is in use.
const GROWTH: usize = 64 << 20;
/// Lua's own setting for both parameters, in percent.
const DEFAULT_PERCENT: usize = 200;

/// Tracks the memory of an interpreter.
#[derive(Default)]
pub(super) struct Collector {
    /// The memory for which the parameters were last set, in units of [`GROWTH`].
    level: usize,
}

impl Collector {
    /// Adapts the collector at the end of a script; `before` is the memory in bytes at its start.
    #[inline]
    pub(super) fn follow<D: Supervisor>(&mut self, lua: &mut Lua<D>, before: usize) {
        let used = lua.used();
        if used / GROWTH != self.level || used.saturating_sub(before) > LEFT_MAX {
            self.adapt(lua, before, used);
        }
    }

    #[cold]
    fn adapt<D: Supervisor>(&mut self, lua: &mut Lua<D>, before: usize, used: usize) {
        if used.saturating_sub(before) > LEFT_MAX.max(before / 4) {
            lua.collect();
        }
        let used = lua.used();
        self.level = used / GROWTH;
        // A pause of 110 % begins a cycle when a tenth more is in use. A step multiplier of 500 % processes five bytes
        // for each allocated one, so that the cycle ends when a fifth more is in use.
        let pause = (100 + 100 * GROWTH / used.max(1)).min(DEFAULT_PERCENT);
        let step = (100 * used / GROWTH).max(DEFAULT_PERCENT);
        let percent = |value: usize| value.try_into().unwrap_or(i32::MAX);
        lua.set_collector(percent(pause), percent(step));
    }
}
