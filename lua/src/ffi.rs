//! Declarations of the parts of Lua's public interface (`lua.h`, `lauxlib.h`) that are used, and of this crate's own C.

use std::ffi::{c_char, c_int, c_void};

/// A thread of an interpreter; only Lua knows its contents.
#[repr(C)]
pub(crate) struct State {
    _opaque: [u8; 0],
}

pub(crate) type CFunction = unsafe extern "C-unwind" fn(*mut State) -> c_int;
pub(crate) type Hook = unsafe extern "C-unwind" fn(*mut State, *mut Debug);
pub(crate) type Allocator = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, usize, usize) -> *mut c_void;

pub(crate) const REGISTRY: c_int = -10_000;
pub(crate) const GLOBALS: c_int = -10_002;
pub(crate) const MASK_COUNT: c_int = 8;

pub(crate) const TYPE_NIL: c_int = 0;
pub(crate) const TYPE_BOOLEAN: c_int = 1;
pub(crate) const TYPE_NUMBER: c_int = 3;
pub(crate) const TYPE_STRING: c_int = 4;
pub(crate) const TYPE_TABLE: c_int = 5;
pub(crate) const TYPE_FUNCTION: c_int = 6;

pub(crate) const GC_COLLECT: c_int = 2;
pub(crate) const GC_SET_PAUSE: c_int = 6;
pub(crate) const GC_SET_STEP: c_int = 7;

/// Size of `short_src`, including the NUL at its end.
pub(crate) const SOURCE_LEN: usize = 60;

/// Description of an active function.
#[repr(C)]
pub(crate) struct Debug {
    pub(crate) event: c_int,
    pub(crate) name: *const c_char,
    pub(crate) name_what: *const c_char,
    pub(crate) what: *const c_char,
    pub(crate) source: *const c_char,
    pub(crate) current_line: c_int,
    pub(crate) upvalues: c_int,
    pub(crate) line_defined: c_int,
    pub(crate) last_line_defined: c_int,
    pub(crate) short_source: [c_char; SOURCE_LEN],
    _private: c_int,
}

unsafe extern "C-unwind" {
    pub(crate) fn lua_newstate(allocator: Allocator, context: *mut c_void) -> *mut State;
    pub(crate) fn lua_close(state: *mut State);
    pub(crate) fn lua_getallocf(state: *mut State, context: *mut *mut c_void) -> Option<Allocator>;
    pub(crate) fn lua_gettop(state: *mut State) -> c_int;
    pub(crate) fn lua_settop(state: *mut State, index: c_int);
    pub(crate) fn lua_pushvalue(state: *mut State, index: c_int);
    pub(crate) fn lua_replace(state: *mut State, index: c_int);
    pub(crate) fn lua_insert(state: *mut State, index: c_int);
    pub(crate) fn lua_checkstack(state: *mut State, slots: c_int) -> c_int;
    pub(crate) fn lua_type(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_typename(state: *mut State, kind: c_int) -> *const c_char;
    pub(crate) fn lua_isnumber(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_tonumber(state: *mut State, index: c_int) -> f64;
    pub(crate) fn lua_toboolean(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_tolstring(state: *mut State, index: c_int, len: *mut usize) -> *const c_char;
    pub(crate) fn lua_pushnil(state: *mut State);
    pub(crate) fn lua_pushnumber(state: *mut State, number: f64);
    pub(crate) fn lua_pushlstring(state: *mut State, bytes: *const c_char, len: usize);
    pub(crate) fn lua_pushboolean(state: *mut State, truth: c_int);
    pub(crate) fn lua_pushcclosure(state: *mut State, function: CFunction, upvalues: c_int);
    pub(crate) fn lua_createtable(state: *mut State, items: c_int, fields: c_int);
    pub(crate) fn lua_rawget(state: *mut State, index: c_int);
    pub(crate) fn lua_rawgeti(state: *mut State, index: c_int, item: c_int);
    pub(crate) fn lua_rawset(state: *mut State, index: c_int);
    pub(crate) fn lua_rawseti(state: *mut State, index: c_int, item: c_int);
    pub(crate) fn lua_getmetatable(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_setmetatable(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_next(state: *mut State, index: c_int) -> c_int;
    pub(crate) fn lua_pcall(state: *mut State, args: c_int, results: c_int, handler: c_int) -> c_int;
    pub(crate) fn lua_error(state: *mut State) -> c_int;
    pub(crate) fn lua_resume(state: *mut State, args: c_int) -> c_int;
    pub(crate) fn lua_gc(state: *mut State, what: c_int, data: c_int) -> c_int;
    pub(crate) fn lua_sethook(state: *mut State, hook: Option<Hook>, mask: c_int, count: c_int) -> c_int;
    pub(crate) fn lua_getstack(state: *mut State, level: c_int, debug: *mut Debug) -> c_int;
    pub(crate) fn lua_getinfo(state: *mut State, what: *const c_char, debug: *mut Debug) -> c_int;
    pub(crate) fn luaL_where(state: *mut State, level: c_int);

    /// Opens the libraries that scripts may use, and replaces the functions that they must not use; see `sandbox.h`.
    pub(crate) fn sandbox_open(state: *mut State);
    /// Replaces the table on the top by a read-only proxy, its front.
    pub(crate) fn sandbox_protect(state: *mut State);
    /// Replaces the globals by fronts.
    pub(crate) fn sandbox_close(state: *mut State);
    /// Compiles a text, whose name is on the top; see `chunk.h`.
    pub(crate) fn chunk_load(state: *mut State, text: *const c_char, len: usize) -> c_int;
}
