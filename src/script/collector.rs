//! Decides when the memory that scripts have left is collected.
//!
//! Lua collects in small steps while it allocates, and begins a cycle when twice as much is in use as was found alive at
//! the end of the last one. With hundreds of megabytes of loaded scripts alive that is too late, and a cycle takes too
//! long; so the collector is set to begin earlier and to take longer steps the more is in use. Only what a single script
//! has left of large tables is collected at once, when that script has ended: the time is in proportion to what it took.

use std::cell::Cell;

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

/// How much a single script may leave to the steps of the collector, in bytes; or a quarter of what was there before.
const LEFT_MAX: usize = 64 << 20;
/// How much may be allocated until a cycle begins, and while it goes on, in bytes, once that much is in use.
const GROWTH: usize = 64 << 20;
/// Lua's own setting for both parameters, in percent.
const DEFAULT_PERCENT: usize = 200;

/// Follows how much memory an interpreter uses.
#[derive(Default)]
pub(super) struct Collector {
    /// The memory that the parameters were last set for, as a multiple of [`GROWTH`].
    level: Cell<usize>,
}

impl Collector {
    /// Takes note of the end of a script, before which so many bytes were in use.
    #[inline]
    pub(super) fn follow(&self, lua: &Lua, before: usize) {
        let used = lua.used_memory();
        if used / GROWTH != self.level.get() || used.saturating_sub(before) > LEFT_MAX {
            self.adapt(lua, before, used);
        }
    }

    #[cold]
    fn adapt(&self, lua: &Lua, before: usize, used: usize) {
        if used.saturating_sub(before) > LEFT_MAX.max(before / 4) {
            // Fails only for lack of memory, of which the next script is granted some more.
            let _ = lua.gc_collect();
        }
        let used = lua.used_memory();
        self.level.set(used / GROWTH);
        // A pause of 110 % begins a cycle when a tenth more is in use. A step multiplier of 500 % looks at five bytes for
        // each that is allocated, so that the cycle ends when a fifth more is in use.
        let pause = (100 + 100 * GROWTH / used.max(1)).min(DEFAULT_PERCENT);
        let step_multiplier = (100 * used / GROWTH).max(DEFAULT_PERCENT);
        let percent = |value: usize| value.try_into().unwrap_or(i32::MAX);
        let params = GcIncParams::default().pause(percent(pause)).step_multiplier(percent(step_multiplier));
        lua.gc_set_mode(GcMode::Incremental(params));
    }
}
