//! Supervises the running script: marks it as busy, lets other clients be served meanwhile, and kills it.
//!
//! The interpreter calls `Control::interrupt` at intervals. When a script has run for longer than
//! `busy-reply-threshold`, all threads that wait for the store are notified (`store::BusyFlag`) and reply BUSY from
//! then on. The script continues on its thread: an interpreter cannot move to another thread in the middle of a script.
//! But the thread's other work can: tokio's multi-thread runtimes hand a worker's connections to another thread when
//! its own is blocked (`block_in_place`). For a short script all this costs a few plain stores.
//!
//! A native function that may take long counts its work as executed instructions, so that it is interrupted as well:
//! matching patterns, sorting, moving items, collecting garbage, copying long strings, JSON and MessagePack in C
//! (`lua_work` of the crate keylatch-lua), hashing and commands in Rust (`Control::spend`).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use mlua::{HookTriggers, Lua, VmState};
use parking_lot::Mutex;
use tracing::warn;

use crate::error::Error;
use crate::runtime::executor::hand_over;
use crate::script::host::HOST;
use crate::script::raise;
use crate::store::BusyFlag;
use crate::text::Dialect;
use crate::time::clock::Clock;

/// The number of instructions between two interrupts of the interpreter.
const INTERRUPT_EVERY: u32 = 100_000;
/// How long the registration of a library's functions may take, in milliseconds.
const LOAD_MS_MAX: u64 = 500;

const RUNNING: u8 = 1;
/// The script is a function.
const FUNCTION: u8 = 1 << 1;
/// The script has called a command that writes.
const WROTE: u8 = 1 << 2;
/// The script has exceeded its time limit, and others are notified.
const BUSY: u8 = 1 << 3;
/// The script must end.
const KILLED: u8 = 1 << 4;
/// A library is being loaded.
const LOADING: u8 = 1 << 5;

/// The error in a killed script or function.
const KILLED_IN_REDIS: &str = "Script killed by user with SCRIPT KILL...";
/// The same in Valkey's dialect, for a script and for a function.
const KILLED_IN_VALKEY: [&str; 2] =
    ["Script killed by user with SCRIPT KILL.", "Script killed by user with FUNCTION KILL."];

/// The state of the running script.
pub struct Control {
    clock: Clock,
    /// For time limits that must pass even while a test's clock stands still: that of scripts is one of them, or else
    /// calls and moves of the clock would wait for a script without limit.
    real_clock: Clock,
    /// Whether moving the clock does not count towards the time limit of scripts: in test mode.
    is_limit_real: bool,
    busy_flag: Arc<BusyFlag>,
    state: AtomicU8,
    started_ms: AtomicU64,
    /// By the real clock, where the other one can be moved.
    started_real_ms: AtomicU64,
    threshold_ms: AtomicU64,
    /// The instructions of native functions that were not counted yet.
    spent: AtomicU32,
    /// Set when the server stops: no script may continue.
    is_over: AtomicBool,
    /// Whether scripts get errors in Valkey's dialect.
    is_valkey: AtomicBool,
    /// Set when the script becomes busy.
    busy: Mutex<Option<Running>>,
    /// The payload of a panic in a command that the script has called.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A script that has exceeded its time limit.
#[derive(Clone, Debug)]
pub struct Running {
    /// The SHA1 of a script, or the name of a function.
    pub name: String,
    /// The command that runs it, with its arguments.
    pub args: Vec<Vec<u8>>,
    /// For how many milliseconds it has been running.
    pub duration_ms: u64,
}

impl Control {
    pub(super) fn new(clock: Clock, is_limit_real: bool, busy_flag: Arc<BusyFlag>) -> Self {
        Control {
            clock,
            real_clock: Clock::system(),
            is_limit_real,
            busy_flag,
            state: AtomicU8::new(0),
            started_ms: AtomicU64::new(0),
            started_real_ms: AtomicU64::new(0),
            threshold_ms: AtomicU64::new(0),
            spent: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            is_valkey: AtomicBool::new(false),
            busy: Mutex::new(None),
            panic: Mutex::new(None),
        }
    }

    /// Sets the dialect of errors in scripts.
    pub fn set_dialect(&self, dialect: Dialect) {
        self.is_valkey.store(dialect == Dialect::Valkey, Relaxed);
    }

    /// Returns the dialect of errors in scripts.
    pub(super) fn dialect(&self) -> Dialect {
        if self.is_valkey.load(Relaxed) { Dialect::Valkey } else { Dialect::Redis }
    }

    /// Called when a script or function starts; it becomes busy after `threshold_ms` milliseconds, or never for 0.
    pub(super) fn begin(&self, is_function: bool, now_ms: u64, threshold_ms: u64) {
        self.started_ms.store(now_ms, Relaxed);
        if self.clock.is_steered() {
            self.started_real_ms.store(self.real_clock.now().mono_ms(), Relaxed);
        }
        self.threshold_ms.store(threshold_ms, Relaxed);
        self.state.store(if is_function { RUNNING | FUNCTION } else { RUNNING }, Relaxed);
    }

    /// Returns for how many milliseconds the script has been running, by the clock that says more.
    fn passed_ms(&self) -> u64 {
        let since = |started: &AtomicU64, now_ms: u64| now_ms.saturating_sub(started.load(Relaxed));
        let by_own = if self.is_limit_real { 0 } else { since(&self.started_ms, self.clock.heading_ms()) };
        let is_steered = self.clock.is_steered();
        by_own.max(if is_steered { since(&self.started_real_ms, self.real_clock.now().mono_ms()) } else { 0 })
    }

    /// Called when it has ended. Returns whether it was killed.
    pub(super) fn end(&self) -> bool {
        if self.state.load(Relaxed) & BUSY != 0 {
            // A kill checks the state under this lock.
            *self.busy.lock() = None;
        }
        self.state.swap(0, Relaxed) & KILLED != 0
    }

    /// Ends the script because a command that it has called panicked. A normal error could be caught by the script and
    /// hide the panic; this one cannot, and [`Control::take_panic`] lets the panic continue in the script's caller.
    #[cold]
    pub(super) fn end_by_panic(self: &Arc<Self>, lua: &Lua, panic: Box<dyn Any + Send>) -> mlua::Error {
        *self.panic.lock() = Some(panic);
        self.stop(lua, "A command has panicked").err().unwrap_or_else(|| raise::reply("A command has panicked"))
    }

    /// Returns the panic that has ended the script, if any.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().take()
    }

    /// Called when a library is about to be loaded.
    pub(super) fn begin_load(&self) {
        self.started_real_ms.store(self.real_clock.now().mono_ms(), Relaxed);
        self.state.store(LOADING, Relaxed);
    }

    /// Records that the script has called a command that writes: killing it would now leave a partial change.
    #[inline]
    pub fn record_write(&self) {
        if self.state.load(Relaxed) & WROTE == 0 {
            self.state.fetch_or(WROTE, Relaxed);
        }
    }

    /// Returns the error for other clients while a busy script runs.
    pub fn busy_error(&self) -> Error {
        Error::Busy(self.dialect(), if self.state.load(Relaxed) & FUNCTION != 0 { "FUNCTION" } else { "SCRIPT" })
    }

    /// Returns the function that has exceeded its time limit, if there is one.
    ///
    /// # Errors
    /// [`Error::Busy`] when it is a script.
    pub fn busy_function(&self) -> Result<Option<Running>, Error> {
        let busy = self.busy.lock();
        let Some(running) = &*busy else { return Ok(None) };
        if self.state.load(Relaxed) & FUNCTION == 0 {
            return Err(self.busy_error());
        }
        Ok(Some(Running { duration_ms: self.passed_ms(), ..running.clone() }))
    }

    /// Kills the running script or function.
    ///
    /// # Errors
    /// When none of this kind is running, or it has written already.
    pub fn kill(&self, is_function: bool) -> Result<(), Error> {
        let busy = self.busy.lock();
        let state = self.state.load(Relaxed);
        if busy.is_none() {
            Err(Error::NotBusy)
        } else if state & WROTE != 0 {
            Err(Error::Unkillable)
        } else if (state & FUNCTION != 0) != is_function {
            Err(self.busy_error())
        } else {
            self.state.fetch_or(KILLED, Relaxed);
            Ok(())
        }
    }

    /// Ends all scripts, whatever they have done, now and later: the server stops.
    pub fn end_all(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Returns whether the running script must end.
    pub(super) fn is_killed(&self) -> bool {
        self.state.load(Relaxed) & KILLED != 0
    }

    /// Counts work of a native function as executed instructions, and interrupts at intervals.
    ///
    /// # Errors
    /// When the script must end.
    #[inline]
    pub(super) fn spend(self: &Arc<Self>, lua: &Lua, instructions: usize) -> mlua::Result<()> {
        let spent = u32::try_from(instructions).unwrap_or(u32::MAX).saturating_add(self.spent.load(Relaxed));
        if spent < INTERRUPT_EVERY {
            self.spent.store(spent, Relaxed);
            return Ok(());
        }
        self.spent.store(0, Relaxed);
        self.interrupt(lua).map(drop)
    }

    /// Makes the interpreter call [`Control::interrupt`] at intervals.
    pub(super) fn watch(self: &Arc<Self>, lua: &Lua) {
        let control = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INTERRUPT_EVERY);
        let asked = lua.set_global_hook(triggers, move |lua, _| control.interrupt(lua));
        asked.expect("a hook needs no further memory");
    }

    /// Decides whether a script may continue.
    fn interrupt(self: &Arc<Self>, lua: &Lua) -> mlua::Result<VmState> {
        let state = self.state.load(Relaxed);
        if state & LOADING != 0 {
            let passed_ms = self.real_clock.now().mono_ms().saturating_sub(self.started_real_ms.load(Relaxed));
            return if passed_ms > LOAD_MS_MAX {
                self.stop(lua, "FUNCTION LOAD timeout")
            } else {
                Ok(VmState::Continue)
            };
        }
        if state & BUSY == 0 {
            self.look_at_the_clock();
        }
        if self.state.load(Relaxed) & KILLED != 0 || self.is_over.load(Relaxed) {
            self.state.fetch_or(KILLED, Relaxed);
            return self.stop(
                lua,
                self.dialect().choose(KILLED_IN_REDIS, KILLED_IN_VALKEY[usize::from(state & FUNCTION != 0)]),
            );
        }
        Ok(VmState::Continue)
    }

    /// Raises an error now, and again at every further instruction, so that a script cannot continue by catching it.
    fn stop(self: &Arc<Self>, lua: &Lua, message: &'static str) -> mlua::Result<VmState> {
        self.state.fetch_or(KILLED, Relaxed);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, frame| {
            // The prelude must restore its state before it returns.
            match frame.source().source.is_some_and(|name| name == raise::PRELUDE_NAME) {
                true => Ok(VmState::Continue),
                false => Err(raise::reply(message)),
            }
        })?;
        Err(raise::reply(message))
    }

    fn look_at_the_clock(&self) {
        let (passed_ms, threshold_ms) = (self.passed_ms(), self.threshold_ms.load(Relaxed));
        if threshold_ms == 0 || passed_ms < threshold_ms || !HOST.is_set() {
            return;
        }
        let running = HOST.with(|host| {
            let (name, request) = host.running();
            Running { name, args: request.args().map(<[u8]>::to_vec).collect(), duration_ms: 0 }
        });
        let kind = if self.state.load(Relaxed) & FUNCTION != 0 { "FUNCTION KILL" } else { "SCRIPT KILL" };
        warn!(
            "Slow script detected: still in execution after {passed_ms} milliseconds. You can try killing the script using \
             the {kind} command. Script name is: {}.",
            running.name
        );
        *self.busy.lock() = Some(running);
        self.state.fetch_or(BUSY, Relaxed);
        self.busy_flag.stay();
        hand_over();
    }
}
