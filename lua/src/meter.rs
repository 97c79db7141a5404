//! Resources of an interpreter: memory, and the work until the next interrupt.
//!
//! All memory of an interpreter comes from [`allocate`], which counts it and enforces the limit. Work is counted in
//! executed instructions: by Lua's count hook, by native functions ([`lua_work`]), and by the allocator, since an
//! instruction that copies a long string takes as long as many others. A single instruction may take milliseconds
//! (comparing long strings, going through a large table, or through keys that collide); so the number of instructions
//! between two interrupts follows the time that they took, and is bounded by the memory in use.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::ffi::{self, State};

/// Maximum number of instructions between two interrupts, and the number before the first one.
const INTERVAL_MAX: usize = 100_000;
pub(crate) const INTERVAL_FIRST: usize = 4096;
/// Memory in use, in bytes, from which on each doubling halves the maximum interval.
const INTERVAL_MEMORY: usize = 512 << 10;
/// Maximum duration of an interval, and duration below which the interval is made longer, in microseconds.
const INTERVAL_US_MAX: u64 = 1000;
const INTERVAL_US_MIN: u64 = 300;
/// Number of allocated bytes that count as an instruction.
const BYTES_PER_INSTRUCTION: usize = 32;
/// Alignment of all blocks, the same as that of C's `malloc`.
const ALIGNMENT: usize = 16;

/// Error of a script that exceeds its memory, in Lua's words.
pub(crate) const NO_MEMORY: &str = "not enough memory";

/// The counters of one interpreter. Lua passes their address to the allocator; [`of`] finds them through it.
pub(crate) struct Meter {
    /// Bytes that the allocator holds for the interpreter.
    pub(crate) used: Cell<usize>,
    /// Limit of these bytes.
    pub(crate) limit: Cell<usize>,
    /// True while memory is allocated beyond the limit: while Rust code runs, which no error may unwind.
    pub(crate) is_exempt: Cell<bool>,
    /// Work between two interrupts.
    interval: Cell<usize>,
    /// Time of the last interrupt in microseconds; 0 if there was none in this script.
    interrupted_us: Cell<u64>,
    /// Work left until the next interrupt.
    left: Cell<isize>,
    /// True if the hook is set to interrupt at the next instruction.
    is_due: Cell<bool>,
    /// The running coroutine, or the main thread; null while the interpreter is created.
    pub(crate) running: Cell<*mut State>,
    /// Reason why all scripts must end, as an error line.
    pub(crate) stopped: Cell<Option<&'static str>>,
    /// Payload of a panic in a native function.
    pub(crate) panic: Cell<Option<Box<dyn Any + Send>>>,
    supervisor: Asks,
}

/// Calls to the supervisor, given the address of the counters.
pub(crate) struct Asks {
    pub(crate) interrupt: unsafe fn(*const c_void) -> Result<(), &'static str>,
    pub(crate) now_us: unsafe fn(*const c_void) -> u64,
}

impl Meter {
    pub(crate) fn new(supervisor: Asks) -> Self {
        Meter {
            used: Cell::new(0),
            limit: Cell::new(usize::MAX),
            is_exempt: Cell::new(true),
            interval: Cell::new(INTERVAL_FIRST),
            interrupted_us: Cell::new(0),
            left: Cell::new(INTERVAL_FIRST as isize),
            is_due: Cell::new(false),
            running: Cell::new(null_mut()),
            stopped: Cell::new(None),
            panic: Cell::new(None),
            supervisor,
        }
    }

    /// Returns true if more memory is in use than allowed.
    pub(crate) fn is_over(&self) -> bool {
        self.used.get() > self.limit.get()
    }

    /// Counts work; returns true if an interrupt is due.
    #[inline]
    pub(crate) fn count(&self, units: usize) -> bool {
        let left = self.left.get().saturating_sub_unsigned(units);
        self.left.set(left);
        left < 0
    }

    /// Begins a script, with the number of instructions before its first interrupt.
    ///
    /// # Safety
    /// The state belongs to these counters.
    #[inline]
    pub(crate) unsafe fn begin(&self, state: *mut State, interval: usize) {
        self.interval.set(interval);
        self.interrupted_us.set(0);
        // SAFETY: the same state.
        unsafe { self.set_hook(state) };
    }

    /// Sets the hook to run after the next interval, or after the next instruction of a script that must end.
    ///
    /// # Safety
    /// The state belongs to these counters.
    pub(crate) unsafe fn set_hook(&self, state: *mut State) {
        let most = INTERVAL_MAX / (1 + self.used.get() / INTERVAL_MEMORY);
        let interval = if self.stopped.get().is_some() { 1 } else { self.interval.get().min(most).max(1) };
        self.interval.set(interval);
        self.left.set(interval as isize);
        self.is_due.set(false);
        // SAFETY: the hook takes any state of an interpreter whose memory comes from `allocate`.
        unsafe { ffi::lua_sethook(state, Some(hook), ffi::MASK_COUNT, interval as c_int) };
    }

    /// Makes the interval shorter if the last one took long, and longer if it took little.
    fn adapt(&self, now_us: u64) {
        let (before_us, interval) = (self.interrupted_us.replace(now_us), self.interval.get());
        let took_us = now_us.saturating_sub(before_us);
        if before_us == 0 {
        } else if took_us > INTERVAL_US_MAX {
            self.interval.set(usize::try_from(interval as u64 * INTERVAL_US_MAX / took_us).unwrap_or(1));
        } else if took_us < INTERVAL_US_MIN {
            self.interval.set(interval * 2);
        }
    }

    /// Asks the supervisor for permission to continue the script.
    ///
    /// # Errors
    /// The line of the error that ends the script.
    ///
    /// # Safety
    /// The state belongs to these counters.
    #[cold]
    pub(crate) unsafe fn interrupt(&self, state: *mut State) -> Result<(), &'static str> {
        if self.stopped.get().is_none() {
            let context = (&raw const *self).cast();
            // SAFETY: the counters are the first field of the struct that the supervisor's functions take.
            unsafe {
                self.adapt((self.supervisor.now_us)(context));
                self.stopped.set((self.supervisor.interrupt)(context).err());
            }
        }
        // SAFETY: the same state.
        unsafe { self.set_hook(state) };
        self.stopped.get().map_or(Ok(()), Err)
    }

    /// Checks an allocation of `more` bytes against the limit, and counts them as work.
    #[inline]
    fn admit(&self, more: usize) -> bool {
        if !self.is_exempt.get() && more > self.limit.get().saturating_sub(self.used.get()) {
            return false;
        }
        if self.count(more / BYTES_PER_INSTRUCTION) && !self.is_due.get() && !self.running.get().is_null() {
            self.is_due.set(true);
            // SAFETY: the running thread belongs to these counters; a hook may be set at any time.
            unsafe { ffi::lua_sethook(self.running.get(), Some(hook), ffi::MASK_COUNT, 1) };
        }
        true
    }
}

/// Returns the counters of an interpreter.
///
/// # Safety
/// The state is one of an interpreter whose memory comes from [`allocate`], and outlives the reference.
#[inline]
pub(crate) unsafe fn of<'m>(state: *mut State) -> &'m Meter {
    let mut context = null_mut();
    // SAFETY: the context of the allocator is the address of a `Meter`, which lives as long as the interpreter.
    unsafe {
        ffi::lua_getallocf(state, &raw mut context);
        &*context.cast::<Meter>()
    }
}

/// Returns the bytes that allocators hold for a block: multiples of 16, and from 128 on four sizes per doubling. All of
/// them are requested, so that the counted memory is the held memory.
#[inline]
fn held(size: usize) -> usize {
    let unit = match size {
        0..=128 => 16,
        // A request beyond the address space is rejected by the limit, or else by the allocator.
        _ => 1_usize << (61 - (size - 1).leading_zeros()),
    };
    size.checked_next_multiple_of(unit).unwrap_or(size)
}

/// Allocates, resizes or frees a block of an interpreter.
///
/// # Safety
/// Called only by Lua: `context` is the address of a `Meter`, `block` came from here with `old` bytes.
pub(crate) unsafe extern "C-unwind" fn allocate(
    context: *mut c_void,
    block: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: see above.
    let meter = unsafe { &*context.cast::<Meter>() };
    let (old, new) = (held(old), held(new));
    if new == old {
        return block;
    }
    if new > old && !meter.admit(new - old) {
        return null_mut();
    }
    let Ok(layout) = Layout::from_size_align(new, ALIGNMENT) else { return null_mut() };
    // SAFETY: blocks have the size `held` and this alignment; a size of zero is not passed on.
    let moved = unsafe {
        let previous = Layout::from_size_align_unchecked(old, ALIGNMENT);
        match (old, new) {
            (_, 0) => {
                dealloc(block.cast(), previous);
                null_mut()
            }
            (0, _) => alloc(layout),
            _ => realloc(block.cast(), previous, new),
        }
    };
    if moved.is_null() && new > 0 {
        if meter.is_exempt.get() {
            handle_alloc_error(layout);
        }
        return null_mut();
    }
    meter.used.set(meter.used.get() + new - old);
    moved.cast()
}

/// Runs at intervals, between two instructions of a script.
///
/// # Safety
/// Called only by Lua, with a state of such an interpreter.
unsafe extern "C-unwind" fn hook(state: *mut State, _: *mut ffi::Debug) {
    // SAFETY: only states of interpreters with such counters have this hook; nothing here is dropped by the error.
    unsafe {
        if let Err(line) = of(state).interrupt(state) {
            raise(state, line);
        }
    }
}

/// Counts work of a native function in C as executed instructions. Raises an error if the script must end.
///
/// # Safety
/// Called only by a native function in C.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lua_work(state: *mut State, units: usize) {
    // SAFETY: see `hook`.
    unsafe {
        let meter = of(state);
        if (meter.count(units) || meter.stopped.get().is_some())
            && let Err(line) = meter.interrupt(state)
        {
            raise(state, line);
        }
    }
}

/// Returns true if a script must end.
///
/// # Safety
/// Called only by a native function in C.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lua_is_stopped(state: *mut State) -> c_int {
    // SAFETY: see `hook`.
    unsafe { c_int::from(of(state).stopped.get().is_some()) }
}

/// Resumes a coroutine, which becomes the running thread meanwhile.
///
/// # Safety
/// The same as of `lua_resume`; `state` is the thread that resumes it.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn lua_resume_counted(state: *mut State, coroutine: *mut State, args: c_int) -> c_int {
    // SAFETY: both belong to the same interpreter.
    unsafe {
        let meter = of(state);
        meter.running.set(coroutine);
        let status = ffi::lua_resume(coroutine, args);
        meter.running.set(state);
        status
    }
}

/// Pushes the table of an error with this line.
///
/// # Safety
/// There are two free slots on the stack, and memory, or nothing that an error would have to drop.
pub(crate) unsafe fn push_error(state: *mut State, line: &[u8]) {
    // SAFETY: see above.
    unsafe {
        ffi::lua_createtable(state, 0, 1);
        ffi::lua_pushlstring(state, c"err".as_ptr(), 3);
        ffi::lua_pushlstring(state, line.as_ptr().cast(), line.len());
        ffi::lua_rawset(state, -3);
    }
}

/// Raises the error that ends a script.
///
/// # Safety
/// No value on the way to Lua needs to be dropped.
unsafe fn raise(state: *mut State, line: &'static str) -> ! {
    // SAFETY: see above; there is always a little stack beyond the part that a function may use.
    unsafe {
        let meter = of(state);
        meter.is_exempt.set(true);
        ffi::lua_checkstack(state, 3);
        push_error(state, line.as_bytes());
        meter.is_exempt.set(false);
        ffi::lua_error(state);
    }
    unreachable!("lua_error does not return")
}
