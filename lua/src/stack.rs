//! An interpreter and its stack, for safe code.
//!
//! Lua raises errors by `longjmp`, which passes Rust's frames without dropping their values. Three rules make that
//! impossible, or harmless:
//!
//! - While Rust code runs, memory is not limited (`Meter::is_exempt`), so none of the functions that a [`Frame`] calls
//!   raises an error; functions that could for another reason (keys that are nil, tables that are too large) are not
//!   called with such arguments. If a native function has exceeded the limit, this is an error after its return.
//! - A native function returns its error; `trampoline` raises it when everything is dropped.
//! - Lua code is called in protected mode only ([`Frame::call`]).
//!
//! A panic in a native function does not unwind Lua's frames: it ends the script, and [`Lua::take_panic`] returns it.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::ffi::{self, State};
use crate::meter::{self, Asks, Meter, NO_MEMORY, allocate};

/// Number of slots of a native function beyond its arguments.
const SLOTS: usize = 20;
/// Number of instructions that an item of a list counts as, when it becomes a value.
pub const ITEM_INSTRUCTIONS: usize = 4;
/// Maximum number of fields that a table is created for.
const FIELDS_MAX: usize = 1 << 24;

/// Callbacks of an interpreter while scripts run.
pub trait Supervisor: 'static {
    /// Decides at intervals if the script may continue.
    ///
    /// # Errors
    /// The line of the error that ends the script, and all scripts until [`Lua::begin`].
    fn interrupt(&self) -> Result<(), &'static str>;

    /// Returns the time since an arbitrary moment, in microseconds.
    fn now_us(&self) -> u64;

    /// Returns the number of instructions before the first interrupt of a script.
    fn first_interval(&self) -> usize {
        meter::INTERVAL_FIRST
    }
}

/// The counters, which the allocator finds by their address, and the data shared by native functions.
#[repr(C)]
struct Shared<D> {
    meter: Meter,
    data: D,
}

/// An interpreter.
pub struct Lua<D: Supervisor> {
    state: NonNull<State>,
    shared: NonNull<Shared<D>>,
}

// SAFETY: the interpreter uses no thread-local state, and is only used through exclusive references, or its counters.
unsafe impl<D: Supervisor + Send> Send for Lua<D> {}

/// The part of the stack that belongs to a native function, or to the code that holds the interpreter. Positions count
/// from 1, the first argument. A position without a value reads as nil.
pub struct Frame<'l, D> {
    state: *mut State,
    shared: &'l Shared<D>,
    /// Number of values, and number of slots for values.
    top: usize,
    end: usize,
}

/// An error whose value is on the top of the stack.
#[derive(Debug)]
#[must_use]
pub struct Raised(PhantomData<*const ()>);

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value, or nil.
    Nil,
    /// True or false.
    Boolean,
    /// A number.
    Number,
    /// A string.
    String,
    /// A table.
    Table,
    /// A function.
    Function,
    /// A coroutine or an object.
    Other,
}

/// A string or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'s> {
    /// The bytes of a string.
    String(&'s [u8]),
    /// A number.
    Number(f64),
}

/// An active function.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The name of the chunk, `=` or `@` first.
    pub source: String,
    /// The name of the chunk in the form of error messages.
    pub short_source: String,
    /// The current line; -1 in a function that is not written in Lua.
    pub line: i32,
    /// True if the function is not written in Lua.
    pub is_native: bool,
    /// The function's name where it was called, if it has one there.
    pub name: Option<String>,
    /// True if the function was called as a method.
    pub is_method: bool,
}

/// A native function: its arguments are on the stack, and it returns the number of results on the top.
pub trait Native<D>: Fn(&mut Frame<'_, D>) -> Result<usize, Raised> + Copy + 'static {}

impl<D, F: Fn(&mut Frame<'_, D>) -> Result<usize, Raised> + Copy + 'static> Native<D> for F {}

/// Returns the calls to the supervisor in a `Shared<D>`, given the address of its counters.
fn asks<D: Supervisor>() -> Asks {
    // SAFETY: the address is the address of the counters.
    unsafe fn shared<'s, D>(context: *const c_void) -> &'s Shared<D> {
        unsafe { &*context.cast() }
    }
    Asks {
        // SAFETY: see above.
        interrupt: |context| unsafe { shared::<D>(context) }.data.interrupt(),
        now_us: |context| unsafe { shared::<D>(context) }.data.now_us(),
    }
}

impl<D: Supervisor> Lua<D> {
    /// Creates an interpreter with the libraries that scripts may use; returns `None` if there is not enough memory.
    pub fn new(data: D) -> Option<Self> {
        let shared = NonNull::from(Box::leak(Box::new(Shared { meter: Meter::new(asks::<D>()), data })));
        // SAFETY: the counters live until the interpreter is closed, below or in `drop`.
        unsafe {
            let Some(state) = NonNull::new(ffi::lua_newstate(allocate, shared.as_ptr().cast())) else {
                drop(Box::from_raw(shared.as_ptr()));
                return None;
            };
            ffi::sandbox_open(state.as_ptr());
            let lua = Lua { state, shared };
            lua.meter().running.set(state.as_ptr());
            lua.meter().set_hook(state.as_ptr());
            Some(lua)
        }
    }

    fn shared(&self) -> &Shared<D> {
        // SAFETY: it lives as long as the interpreter, and is never borrowed mutably.
        unsafe { self.shared.as_ref() }
    }

    fn meter(&self) -> &Meter {
        &self.shared().meter
    }

    /// Returns the data shared by native functions.
    pub fn data(&self) -> &D {
        &self.shared().data
    }

    /// Returns the memory of the interpreter in bytes, as its allocator holds it.
    #[inline]
    pub fn used(&self) -> usize {
        self.meter().used.get()
    }

    /// Begins a script, even if the last one had to end, with `memory_max` bytes of memory beyond the memory in use.
    #[inline]
    pub fn begin(&mut self, memory_max: usize) {
        let meter = self.meter();
        meter.limit.set(meter.used.get().saturating_add(memory_max));
        meter.stopped.set(None);
        // SAFETY: the main thread of this interpreter.
        unsafe { meter.begin(self.state.as_ptr(), self.data().first_interval()) };
    }

    /// Returns the panic that has stopped a script, if there is one.
    #[inline]
    pub fn take_panic(&mut self) -> Option<Box<dyn Any + Send>> {
        self.meter().panic.take()
    }

    /// Collects all garbage.
    pub fn collect(&mut self) {
        // SAFETY: the main thread of this interpreter; no object of scripts has a finalizer.
        unsafe { ffi::lua_gc(self.state.as_ptr(), ffi::GC_COLLECT, 0) };
    }

    /// Sets the collector's pause before a cycle and the size of its steps, in percent, as `collectgarbage` takes them.
    pub fn set_collector(&mut self, pause: i32, step: i32) {
        // SAFETY: see `collect`.
        unsafe {
            ffi::lua_gc(self.state.as_ptr(), ffi::GC_SET_PAUSE, pause);
            ffi::lua_gc(self.state.as_ptr(), ffi::GC_SET_STEP, step);
        }
    }

    /// Returns the stack outside of any script.
    #[inline]
    pub fn frame(&mut self) -> Frame<'_, D> {
        let state = self.state.as_ptr();
        // SAFETY: the main thread of this interpreter.
        let top = unsafe { ffi::lua_gettop(state) } as usize;
        Frame { state, shared: self.shared(), top, end: top }
    }
}

impl<D: Supervisor> Drop for Lua<D> {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the interpreter any more; its memory came from the counters, which go last.
        unsafe {
            ffi::lua_close(self.state.as_ptr());
            drop(Box::from_raw(self.shared.as_ptr()));
        }
    }
}

/// Calls a native function, whose address is its type.
///
/// # Safety
/// Called only by Lua, in an interpreter with data of this type.
unsafe extern "C-unwind" fn trampoline<D: Supervisor, F: Native<D>>(state: *mut State) -> c_int {
    // SAFETY: after an error, its value is on the top, and everything else was dropped.
    unsafe {
        match run_native::<D, F>(state) {
            Some(results) => results,
            None => ffi::lua_error(state),
        }
    }
}

/// Returns the number of results, or `None` for an error.
///
/// # Safety
/// See `trampoline`.
#[inline]
unsafe fn run_native<D: Supervisor, F: Native<D>>(state: *mut State) -> Option<c_int> {
    const { assert!(size_of::<F>() == 0, "a native function captures nothing") };
    // SAFETY: the counters are the first field of the shared struct; a value without size may have any address.
    let (shared, native) = unsafe {
        let meter: *const Meter = meter::of(state);
        (&*meter.cast::<Shared<D>>(), NonNull::<F>::dangling().as_ref())
    };
    shared.meter.is_exempt.set(true);
    // SAFETY: the state that Lua has called with.
    let top = unsafe { ffi::lua_gettop(state) } as usize;
    let mut frame = Frame { state, shared, top, end: top + SLOTS };
    let ended = catch_unwind(AssertUnwindSafe(|| native(&mut frame)));
    let ended = match ended {
        Ok(Ok(results)) if !shared.meter.is_over() => Some(results.min(frame.top) as c_int),
        Ok(Err(Raised(_))) => None,
        Ok(Ok(_)) => {
            frame.push_bytes(NO_MEMORY.as_bytes());
            None
        }
        Err(panic) => {
            shared.meter.panic.set(Some(panic));
            shared.meter.stopped.set(Some("ERR A command has panicked"));
            frame.set_top(0);
            frame.work(0).map_or(None, |()| Some(0))
        }
    };
    shared.meter.is_exempt.set(false);
    ended
}

impl<D: Supervisor> Frame<'_, D> {
    /// Returns the data shared by native functions.
    #[inline]
    pub fn data(&self) -> &D {
        &self.shared.data
    }

    /// Returns the number of values, which is the position of the last one.
    #[inline]
    pub fn top(&self) -> usize {
        self.top
    }

    /// Drops all values after a position.
    #[inline]
    pub fn set_top(&mut self, top: usize) {
        if top < self.top {
            self.top = top;
            // SAFETY: there are more values.
            unsafe { ffi::lua_settop(self.state, top as c_int) };
        }
    }

    /// Drops the value on the top.
    #[inline]
    pub fn pop(&mut self) {
        self.set_top(self.top.saturating_sub(1));
    }

    /// Reserves slots for `slots` more values.
    ///
    /// # Errors
    /// If the stack would be longer than Lua allows.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Raised> {
        if self.top + slots <= self.end || self.grow(slots) {
            return Ok(());
        }
        self.set_top(self.end.saturating_sub(SLOTS / 2)); // the message takes the place of dropped values
        Err(self.plain_error("stack overflow"))
    }

    #[cold]
    fn grow(&mut self, slots: usize) -> bool {
        let slots = slots.max(SLOTS);
        // SAFETY: only the number of slots matters.
        let is_grown = c_int::try_from(slots).is_ok_and(|slots| unsafe { ffi::lua_checkstack(self.state, slots) } != 0);
        if is_grown {
            self.end = self.top + slots;
        }
        is_grown
    }

    /// Counts a value that is about to be pushed.
    ///
    /// # Panics
    /// If the stack is longer than Lua allows: pushing many values takes a `reserve`.
    #[inline]
    fn count(&mut self) {
        assert!(self.top < self.end || self.grow(1), "a stack with slots for a few more values");
        self.top += 1;
    }

    /// Returns a position in Lua's form; the first position for 0, which is not a position.
    #[inline]
    fn at(position: usize) -> c_int {
        c_int::try_from(position).unwrap_or(c_int::MAX / 32).clamp(1, c_int::MAX / 32)
    }

    /// Returns the type of a value.
    #[inline]
    pub fn kind(&self, position: usize) -> Kind {
        // SAFETY: any positive position may be asked for.
        match unsafe { ffi::lua_type(self.state, Self::at(position)) } {
            ..=ffi::TYPE_NIL => Kind::Nil,
            ffi::TYPE_BOOLEAN => Kind::Boolean,
            ffi::TYPE_NUMBER => Kind::Number,
            ffi::TYPE_STRING => Kind::String,
            ffi::TYPE_TABLE => Kind::Table,
            ffi::TYPE_FUNCTION => Kind::Function,
            _ => Kind::Other,
        }
    }

    /// Returns a number, or a string converted to one.
    pub fn number(&self, position: usize) -> Option<f64> {
        let at = Self::at(position);
        // SAFETY: any positive position may be asked for.
        unsafe { (ffi::lua_isnumber(self.state, at) != 0).then(|| ffi::lua_tonumber(self.state, at)) }
    }

    /// Returns a number without converting strings; 0 for anything else.
    #[inline]
    pub fn raw_number(&self, position: usize) -> f64 {
        // SAFETY: any positive position may be asked for.
        unsafe { ffi::lua_tonumber(self.state, Self::at(position)) }
    }

    /// Returns true if a value is neither nil nor false.
    pub fn truth(&self, position: usize) -> bool {
        // SAFETY: any positive position may be asked for.
        unsafe { ffi::lua_toboolean(self.state, Self::at(position)) != 0 }
    }

    /// Returns the bytes of a string; `None` for anything else.
    #[inline]
    pub fn bytes(&self, position: usize) -> Option<&[u8]> {
        (self.kind(position) == Kind::String).then(|| self.text(position))
    }

    /// Returns the bytes of a string at a position that has one.
    #[inline]
    fn text(&self, position: usize) -> &[u8] {
        let mut len = 0;
        // SAFETY: it is a string, which does not move; it stays on the stack while the frame is borrowed.
        unsafe {
            let bytes = ffi::lua_tolstring(self.state, Self::at(position), &raw mut len);
            if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes.cast(), len) }
        }
    }

    /// Returns a string or a number without conversion.
    #[inline]
    pub fn scalar(&self, position: usize) -> Option<Scalar<'_>> {
        match self.kind(position) {
            Kind::String => Some(Scalar::String(self.text(position))),
            Kind::Number => Some(Scalar::Number(self.raw_number(position))),
            _ => None,
        }
    }

    /// Converts a number in place to a string. Returns true if the value is a string afterwards.
    pub fn to_string(&mut self, position: usize) -> bool {
        match self.kind(position) {
            Kind::String => true,
            Kind::Number => {
                self.text(position);
                true
            }
            _ => false,
        }
    }

    /// Returns the name of a value's type, in the form of error messages.
    pub fn type_name(&self, position: usize) -> &'static str {
        // SAFETY: names of types are constants.
        let name =
            unsafe { CStr::from_ptr(ffi::lua_typename(self.state, ffi::lua_type(self.state, Self::at(position)))) };
        name.to_str().unwrap_or_default()
    }

    /// Pushes nil.
    #[inline]
    pub fn push_nil(&mut self) {
        self.count();
        // SAFETY: there is a slot, as below.
        unsafe { ffi::lua_pushnil(self.state) };
    }

    /// Pushes a boolean.
    #[inline]
    pub fn push_boolean(&mut self, truth: bool) {
        self.count();
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(truth)) };
    }

    /// Pushes a number.
    #[inline]
    pub fn push_number(&mut self, number: f64) {
        self.count();
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushnumber(self.state, number) };
    }

    /// Pushes a string.
    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.count();
        // SAFETY: there is a slot; Lua copies the bytes, and memory is not limited here.
        unsafe { ffi::lua_pushlstring(self.state, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Pushes a part of the string at a position; returns false if there is no such part.
    pub fn push_part(&mut self, position: usize, start: usize, len: usize) -> bool {
        self.count();
        let part = self.bytes(position).and_then(|bytes| bytes.get(start..)).and_then(|rest| rest.get(..len));
        let Some(part) = part else {
            self.top -= 1;
            return false;
        };
        // SAFETY: there is a slot; the string stays where it is.
        unsafe { ffi::lua_pushlstring(self.state, part.as_ptr().cast(), part.len()) };
        true
    }

    /// Replaces the value at a position by a copy of another one.
    pub fn replace(&mut self, position: usize, from: usize) {
        assert!(position <= self.top, "a value to replace");
        self.push_copy(from);
        // SAFETY: there is a value at the position.
        unsafe { ffi::lua_replace(self.state, Self::at(position)) };
        self.top -= 1;
    }

    /// Pushes a copy of a value.
    #[inline]
    pub fn push_copy(&mut self, position: usize) {
        self.count();
        // SAFETY: there is a slot; any positive position may be asked for.
        unsafe { ffi::lua_pushvalue(self.state, Self::at(position)) };
    }

    /// Pushes a native function.
    pub fn push_native<F: Native<D>>(&mut self, _: F) {
        self.count();
        // SAFETY: there is a slot; the function belongs to interpreters with this data.
        unsafe { ffi::lua_pushcclosure(self.state, trampoline::<D, F>, 0) };
    }

    /// Pushes a table with slots for items and fields.
    #[inline]
    pub fn push_table(&mut self, items: usize, fields: usize) {
        self.count();
        let slots = |wanted: usize| wanted.min(FIELDS_MAX) as c_int;
        // SAFETY: there is a slot; memory is not limited here, and the numbers are small enough.
        unsafe { ffi::lua_createtable(self.state, slots(items), slots(fields)) };
    }

    /// Pushes a table of strings, from the first index on. Counts work for each string, since strings can be made to
    /// collide.
    ///
    /// # Errors
    /// If the script must end.
    #[inline]
    pub fn push_list<'b>(&mut self, items: impl ExactSizeIterator<Item = &'b [u8]>) -> Result<(), Raised> {
        self.push_table(items.len(), 0);
        let at = Self::at(self.top);
        self.count();
        self.top -= 1;
        for (index, item) in (1..).zip(items) {
            self.work(ITEM_INSTRUCTIONS)?;
            // SAFETY: there is a slot for the string, and a table at the position.
            unsafe {
                ffi::lua_pushlstring(self.state, item.as_ptr().cast(), item.len());
                ffi::lua_rawseti(self.state, at, index);
            }
        }
        Ok(())
    }

    /// Pushes the table of all globals.
    pub fn push_globals(&mut self) {
        self.count();
        // SAFETY: there is a slot.
        unsafe { ffi::lua_pushvalue(self.state, ffi::GLOBALS) };
    }

    /// Replaces all tables of the globals, and the globals themselves, by fronts: code that is compiled from then on
    /// sees the fronts.
    pub fn close_sandbox(&mut self) {
        let top = self.top;
        assert!(self.top + 10 <= self.end || self.grow(10), "a stack with slots for a few more values");
        // SAFETY: there are slots; nothing in the globals could raise an error.
        unsafe {
            ffi::sandbox_close(self.state);
            ffi::lua_settop(self.state, top as c_int);
        }
    }

    /// Pushes the value that was stored under a number.
    #[inline]
    pub fn push_stored(&mut self, number: i32) {
        self.count();
        // SAFETY: there is a slot; the registry is a table.
        unsafe { ffi::lua_rawgeti(self.state, ffi::REGISTRY, number) };
    }

    /// Pops the value on the top and stores it under a number.
    pub fn store(&mut self, number: i32) {
        assert!(self.top > 0, "a value to store");
        // SAFETY: there is a value; the registry is a table.
        unsafe { ffi::lua_rawseti(self.state, ffi::REGISTRY, number) };
        self.top -= 1;
    }

    /// Pushes an item of the table at a position, without metamethods; nil where there is no table.
    #[inline]
    pub fn push_item(&mut self, table: usize, index: i32) {
        self.count();
        // SAFETY: there is a slot; it is a table.
        unsafe {
            match ffi::lua_type(self.state, Self::at(table)) {
                ffi::TYPE_TABLE => ffi::lua_rawgeti(self.state, Self::at(table), index),
                _ => ffi::lua_pushnil(self.state),
            }
        }
    }

    /// Pops the value on the top into an item of the table at a position.
    ///
    /// # Panics
    /// If there is no table.
    #[inline]
    pub fn set_item(&mut self, table: usize, index: i32) {
        assert!(table < self.top && self.kind(table) == Kind::Table, "a table for an item");
        // SAFETY: it is a table, and there is a value above it.
        unsafe { ffi::lua_rawseti(self.state, Self::at(table), index) };
        self.top -= 1;
    }

    /// Replaces the key on the top by its value in the table at a position, without metamethods.
    #[inline]
    pub fn get(&mut self, table: usize) {
        if table < self.top && self.kind(table) == Kind::Table {
            // SAFETY: it is a table, and there is a key above it.
            unsafe { ffi::lua_rawget(self.state, Self::at(table)) };
        } else {
            self.pop();
            self.push_nil();
        }
    }

    /// Pushes a field of the table at a position, without metamethods.
    pub fn push_field(&mut self, table: usize, name: &str) {
        self.push_bytes(name.as_bytes());
        self.get(table);
    }

    /// Pops a value and the key below it into the table at a position, without metamethods.
    ///
    /// # Panics
    /// If there is no table.
    #[inline]
    pub fn set(&mut self, table: usize) {
        assert!(table + 1 < self.top && self.kind(table) == Kind::Table, "a table for a field");
        let key = self.top - 1;
        match self.kind(key) {
            Kind::Nil => {}
            Kind::Number if self.raw_number(key).is_nan() => {}
            _ => {
                // SAFETY: it is a table; above it are a valid key and a value.
                unsafe { ffi::lua_rawset(self.state, Self::at(table)) };
                self.top -= 2;
                return;
            }
        }
        self.set_top(self.top - 2);
    }

    /// Pops the value on the top into a field of the table at a position, without metamethods.
    pub fn set_field(&mut self, table: usize, name: &str) {
        assert!(self.top > 0, "a value for a field");
        self.push_bytes(name.as_bytes());
        // SAFETY: there are two values.
        unsafe { ffi::lua_insert(self.state, -2) };
        self.set(table);
    }

    /// Replaces the key on the top by the next key of the table at a position and its value, or pops it at the end; the
    /// first key comes after nil. Returns true if there is a next key. The table must not get new keys meanwhile.
    ///
    /// # Panics
    /// If there is no table.
    pub fn next(&mut self, table: usize) -> bool {
        assert!(table < self.top && self.kind(table) == Kind::Table, "a table to go through");
        self.count();
        // SAFETY: it is a table, there is a key, and a slot for the value.
        let is_found = unsafe { ffi::lua_next(self.state, Self::at(table)) } != 0;
        self.top -= if is_found { 0 } else { 2 };
        is_found
    }

    /// Pushes the metatable of a value, or nil.
    pub fn push_metatable(&mut self, position: usize) {
        self.count();
        // SAFETY: there is a slot; any positive position may be asked for.
        unsafe {
            if ffi::lua_getmetatable(self.state, Self::at(position)) == 0 {
                ffi::lua_pushnil(self.state);
            }
        }
    }

    /// Pops the table on the top and makes it the metatable of the table at a position.
    ///
    /// # Panics
    /// If there is no table.
    pub fn set_metatable(&mut self, table: usize) {
        let are_tables = self.kind(table) == Kind::Table && self.kind(self.top) == Kind::Table;
        assert!(table < self.top && are_tables, "a table and a metatable");
        // SAFETY: both are tables.
        unsafe { ffi::lua_setmetatable(self.state, Self::at(table)) };
        self.top -= 1;
    }

    /// Replaces the table on the top by a read-only proxy, its front; see `sandbox.h`.
    ///
    /// # Panics
    /// If there is no table.
    pub fn protect(&mut self) {
        assert_eq!(self.kind(self.top), Kind::Table, "a table to protect");
        assert!(self.top + 4 <= self.end || self.grow(4), "a stack with slots for a few more values");
        // SAFETY: there is a table, and there are slots.
        unsafe { ffi::sandbox_protect(self.state) };
    }

    /// Compiles a text, and pushes the function.
    ///
    /// # Errors
    /// The message of the compiler is on the top.
    pub fn compile(&mut self, text: &[u8], name: &str) -> Result<(), Raised> {
        self.push_bytes(name.as_bytes());
        assert!(self.top + 4 <= self.end || self.grow(4), "a stack with slots for a few more values");
        // SAFETY: the name is on the top, and is replaced; there are slots.
        match unsafe { ffi::chunk_load(self.state, text.as_ptr().cast(), text.len()) } {
            0 => Ok(()),
            _ => Err(Raised(PhantomData)),
        }
    }

    /// Calls the function below `args` values on the top, which are popped, and pushes its only result. `handler` is
    /// the position of a function that replaces the value of an error when it is raised; 0 for none.
    ///
    /// # Errors
    /// The value of the error is on the top instead.
    ///
    /// # Panics
    /// If there are fewer values.
    #[inline]
    pub fn call(&mut self, args: usize, handler: usize) -> Result<(), Raised> {
        assert!(args < self.top && handler < self.top - args, "a function and its arguments");
        self.shared.meter.is_exempt.set(false);
        // SAFETY: the function and its arguments are there, the handler is below them; errors end here.
        let status = unsafe { ffi::lua_pcall(self.state, args as c_int, 1, handler as c_int) };
        self.shared.meter.is_exempt.set(true);
        self.shared.meter.running.set(self.state);
        self.top -= args;
        if status == 0 { Ok(()) } else { Err(Raised(PhantomData)) }
    }

    /// Counts work as executed instructions.
    ///
    /// # Errors
    /// If the script must end.
    #[inline]
    pub fn work(&mut self, units: usize) -> Result<(), Raised> {
        let meter = &self.shared.meter;
        if !meter.count(units) && meter.stopped.get().is_none() {
            return Ok(());
        }
        // SAFETY: the state of this interpreter.
        match unsafe { meter.interrupt(self.state) } {
            Ok(()) => Ok(()),
            Err(line) => Err(self.error_table(line.as_bytes())),
        }
    }

    /// Creates an error from the value on the top.
    pub fn raise(&mut self) -> Raised {
        assert!(self.top > 0, "a value to raise");
        Raised(PhantomData)
    }

    /// Creates an error whose value is a table with this line in its field `err`.
    pub fn error_table(&mut self, line: &[u8]) -> Raised {
        self.count();
        assert!(self.top + 2 <= self.end || self.grow(2), "a stack with slots for a few more values");
        // SAFETY: there are slots.
        unsafe { meter::push_error(self.state, line) };
        Raised(PhantomData)
    }

    /// Creates an error whose value is a text without the position in the script.
    pub fn plain_error(&mut self, message: impl AsRef<[u8]>) -> Raised {
        self.push_bytes(message.as_ref());
        Raised(PhantomData)
    }

    /// Creates an error whose value is a text after the position in the script that has called the native function.
    pub fn error(&mut self, message: impl AsRef<[u8]>) -> Raised {
        self.count();
        assert!(self.top < self.end || self.grow(1), "a stack with a slot for the parts of a message");
        // SAFETY: there are slots.
        unsafe { ffi::luaL_where(self.state, 1) };
        let line = [self.text(self.top), message.as_ref()].concat();
        self.plain_error(line)
    }

    /// Returns an active function: 0 is the running one, 1 its caller.
    pub fn level(&self, level: usize) -> Option<Level> {
        // SAFETY: plain data, for which zeros are values.
        let mut debug: ffi::Debug = unsafe { std::mem::zeroed() };
        // SAFETY: Lua fills in the requested fields; its strings live while the function is active.
        unsafe {
            if ffi::lua_getstack(self.state, Self::at(level.max(1)) - c_int::from(level == 0), &raw mut debug) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.state, c"nSl".as_ptr(), &raw mut debug);
            let text =
                |text: *const c_char| (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
            Some(Level {
                source: text(debug.source).unwrap_or_default(),
                short_source: text(debug.short_source.as_ptr()).unwrap_or_default(),
                line: debug.current_line,
                is_native: text(debug.what).is_some_and(|what| what == "C"),
                name: text(debug.name),
                is_method: text(debug.name_what).is_some_and(|what| what == "method"),
            })
        }
    }
}
