//! An interpreter with Lua's own libraries.

#![allow(unsafe_code)] // the interface of Lua

use std::ffi::{CStr, c_char, c_int, c_void};

type Function = unsafe extern "C" fn(*mut c_void) -> c_int;

unsafe extern "C" {
    fn luaL_newstate() -> *mut c_void;
    fn lua_close(state: *mut c_void);
    fn luaopen_base(state: *mut c_void) -> c_int;
    fn luaopen_string(state: *mut c_void) -> c_int;
    fn luaopen_table(state: *mut c_void) -> c_int;
    fn lua_pushcclosure(state: *mut c_void, function: Function, upvalues: c_int);
    fn lua_pushlstring(state: *mut c_void, bytes: *const c_char, len: usize);
    fn lua_call(state: *mut c_void, arguments: c_int, results: c_int);
    fn lua_pcall(state: *mut c_void, arguments: c_int, results: c_int, handler: c_int) -> c_int;
    fn luaL_loadbuffer(state: *mut c_void, bytes: *const c_char, len: usize, name: *const c_char) -> c_int;
    fn lua_getfield(state: *mut c_void, index: c_int, name: *const c_char);
    fn lua_tolstring(state: *mut c_void, index: c_int, len: *mut usize) -> *const c_char;
    fn lua_settop(state: *mut c_void, index: c_int);
}

const GLOBALS: c_int = -10002;

/// An interpreter with the base library, `string` and `table`.
pub struct Stock(*mut c_void);

impl Stock {
    /// An interpreter in which a text has run.
    pub fn new(prelude: &str) -> Stock {
        unsafe {
            let state = luaL_newstate();
            let libraries: [(Function, &CStr); 3] =
                [(luaopen_base, c""), (luaopen_string, c"string"), (luaopen_table, c"table")];
            for (open, name) in libraries {
                lua_pushcclosure(state, open, 0);
                lua_pushlstring(state, name.as_ptr(), name.count_bytes());
                lua_call(state, 1, 0);
            }
            let mut this = Stock(state);
            assert_eq!(this.run(None, prelude.as_bytes()), b"", "the prelude runs");
            this
        }
    }

    /// Runs a text, or calls a global function with it once it is compiled; returns the result or error as a string.
    pub fn run(&mut self, function: Option<&CStr>, text: &[u8]) -> Vec<u8> {
        unsafe {
            let state = self.0;
            if let Some(function) = function {
                lua_getfield(state, GLOBALS, function.as_ptr());
            }
            if luaL_loadbuffer(state, text.as_ptr().cast(), text.len(), c"=case".as_ptr()) == 0 {
                lua_pcall(state, c_int::from(function.is_some()), 1, 0);
            }
            let mut len = 0;
            let bytes = lua_tolstring(state, -1, &raw mut len);
            let result =
                if bytes.is_null() { Vec::new() } else { std::slice::from_raw_parts(bytes.cast::<u8>(), len).to_vec() };
            lua_settop(state, 0);
            result
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        unsafe { lua_close(self.0) };
    }
}
