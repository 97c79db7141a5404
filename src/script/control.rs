//! Watches over the running script: says that it is busy, lets others be served meanwhile, and kills it.
//!
//! The interpreter asks `Control::interrupt` every so many instructions. When a script has run for longer than
//! `busy-reply-threshold`, everybody who waits for the store is told (`store::BusyFlag`) and answers BUSY from then on. The
//! script goes on where it is: an interpreter in the middle of something cannot move to another thread. But the thread's
//! other work can, and does: tokio's runtimes with threads of their own hand a worker's connections to another thread
//! when its own is kept (`block_in_place`). So the cost of all this for a short script is a few plain stores.
//!
//! A native function that may take long counts what it does as executed instructions, so that the interpreter asks in
//! the middle of it too: matching patterns, sorting, moving items, collecting garbage, copying long strings, JSON and
//! MessagePack in C (`lua_work` of the crate keylatch-lua), hashing and commands in Rust (`Control::spend`).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use mlua::{HookTriggers, Lua, VmState};
use parking_lot::Mutex;
use tracing::warn;

use crate::error::Error;
use crate::runtime::executor::hand_over;
use crate::script::{HOST, raise};
use crate::store::BusyFlag;
use crate::text::Dialect;
use crate::time::clock::Clock;

/// After how many instructions the interpreter asks whether to go on.
const INTERRUPT_EVERY: u32 = 100_000;
/// How long a library may take to register its functions, in milliseconds.
const LOAD_MS_MAX: u64 = 500;

const RUNNING: u8 = 1;
/// The script is a function.
const FUNCTION: u8 = 1 << 1;
/// A command that writes was called.
const WROTE: u8 = 1 << 2;
/// The script has run for too long, and others know.
const BUSY: u8 = 1 << 3;
/// The script is to end.
const KILLED: u8 = 1 << 4;
/// A library is being loaded.
const LOADING: u8 = 1 << 5;

/// What a killed script is told, of whatever kind it is.
const KILLED_IN_REDIS: &str = "Script killed by user with SCRIPT KILL...";
/// The same for a script and for a function.
const KILLED_IN_VALKEY: [&str; 2] =
    ["Script killed by user with SCRIPT KILL.", "Script killed by user with FUNCTION KILL."];

/// Knows the running script.
pub struct Control {
    clock: Clock,
    /// For what must end also while a test's clock stands still.
    real_clock: Clock,
    busy_flag: Arc<BusyFlag>,
    state: AtomicU8,
    started_ms: AtomicU64,
    threshold_ms: AtomicU64,
    /// How many instructions native functions stand for that have not been accounted for yet.
    spent: AtomicU32,
    /// Set once the server stops: no script may go on.
    is_over: AtomicBool,
    /// Whether scripts are told of errors in Valkey's words.
    is_valkey: AtomicBool,
    /// Filled in when the script turns busy.
    busy: Mutex<Option<Running>>,
    /// What a command that the script has called panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Describes a script that has run for too long.
#[derive(Clone, Debug)]
pub struct Running {
    /// The SHA1 of a script, or the name of a function.
    pub name: String,
    /// The command that runs it.
    pub words: Vec<Vec<u8>>,
    /// For how many milliseconds it has been running.
    pub duration_ms: u64,
}

impl Control {
    pub(super) fn new(clock: Clock, busy_flag: Arc<BusyFlag>) -> Self {
        Control {
            clock,
            real_clock: Clock::system(),
            busy_flag,
            state: AtomicU8::new(0),
            started_ms: AtomicU64::new(0),
            threshold_ms: AtomicU64::new(0),
            spent: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            is_valkey: AtomicBool::new(false),
            busy: Mutex::new(None),
            panic: Mutex::new(None),
        }
    }

    /// Chooses the words in which scripts are told of errors.
    pub fn set_dialect(&self, dialect: Dialect) {
        self.is_valkey.store(dialect == Dialect::Valkey, Relaxed);
    }

    /// Returns in whose words scripts are told of errors.
    pub(super) fn dialect(&self) -> Dialect {
        if self.is_valkey.load(Relaxed) { Dialect::Valkey } else { Dialect::Redis }
    }

    /// Notes that a script or a function starts; it turns busy after so many milliseconds, or never for 0.
    pub(super) fn begin(&self, is_function: bool, now_ms: u64, threshold_ms: u64) {
        self.started_ms.store(now_ms, Relaxed);
        self.threshold_ms.store(threshold_ms, Relaxed);
        self.state.store(if is_function { RUNNING | FUNCTION } else { RUNNING }, Relaxed);
    }

    /// Notes that it has ended. Returns whether it was killed.
    pub(super) fn end(&self) -> bool {
        if self.state.load(Relaxed) & BUSY != 0 {
            // Whoever kills it looks at the state under this lock.
            *self.busy.lock() = None;
        }
        self.state.swap(0, Relaxed) & KILLED != 0
    }

    /// Ends the script because a command that it has called panicked. An error that it could catch would hide the panic;
    /// this one it cannot, and [`Control::take_panic`] has the panic go on where the script was run.
    #[cold]
    pub(super) fn end_by_panic(self: &Arc<Self>, lua: &Lua, panic: Box<dyn Any + Send>) -> mlua::Error {
        *self.panic.lock() = Some(panic);
        self.stop(lua, "A command has panicked").err().unwrap_or_else(|| raise::reply("A command has panicked"))
    }

    /// Returns the panic that has ended the script, if one has.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.lock().take()
    }

    /// Notes that a library is about to be loaded.
    pub(super) fn begin_load(&self) {
        self.started_ms.store(self.real_clock.now().mono_ms(), Relaxed);
        self.state.store(LOADING, Relaxed);
    }

    /// Notes that the script has called a command that writes: it cannot be killed any more without leaving half a change.
    #[inline]
    pub fn note_write(&self) {
        if self.state.load(Relaxed) & WROTE == 0 {
            self.state.fetch_or(WROTE, Relaxed);
        }
    }

    /// Returns what clients are told while a script runs for too long.
    pub fn busy_error(&self) -> Error {
        Error::Busy(self.dialect(), if self.state.load(Relaxed) & FUNCTION != 0 { "FUNCTION" } else { "SCRIPT" })
    }

    /// Returns the function that has been running for too long, if there is one.
    ///
    /// # Errors
    /// [`Error::Busy`] when it is a script.
    pub fn busy_function(&self) -> Result<Option<Running>, Error> {
        let busy = self.busy.lock();
        let Some(running) = &*busy else { return Ok(None) };
        if self.state.load(Relaxed) & FUNCTION == 0 {
            return Err(self.busy_error());
        }
        let duration_ms = self.clock.now().mono_ms().saturating_sub(self.started_ms.load(Relaxed));
        Ok(Some(Running { duration_ms, ..running.clone() }))
    }

    /// Ends the running script or function.
    ///
    /// # Errors
    /// When there is none of the kind, or it has written already.
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

    /// Ends any script, whatever it has done, now and later: the server stops.
    pub fn end_all(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Returns whether the running script is to end, whatever it does.
    pub(super) fn is_killed(&self) -> bool {
        self.state.load(Relaxed) & KILLED != 0
    }

    /// Counts what a native function does as executed instructions, and asks from time to time whether to go on.
    ///
    /// # Errors
    /// When the script is to end.
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

    /// Has the interpreter ask every so often whether to go on.
    pub(super) fn watch(self: &Arc<Self>, lua: &Lua) {
        let control = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INTERRUPT_EVERY);
        let asked = lua.set_global_hook(triggers, move |lua, _| control.interrupt(lua));
        asked.expect("a hook needs no memory but its own");
    }

    /// Decides whether a script may go on.
    fn interrupt(self: &Arc<Self>, lua: &Lua) -> mlua::Result<VmState> {
        let state = self.state.load(Relaxed);
        if state & LOADING != 0 {
            let passed_ms = self.real_clock.now().mono_ms().saturating_sub(self.started_ms.load(Relaxed));
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

    /// Raises an error now, and again at every instruction from here on, so that a script that catches it gets nowhere.
    fn stop(self: &Arc<Self>, lua: &Lua, message: &'static str) -> mlua::Result<VmState> {
        self.state.fetch_or(KILLED, Relaxed);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(1), move |_, frame| {
            // The prelude has to put things back before it returns.
            match frame.source().source.is_some_and(|name| name == raise::PRELUDE_NAME) {
                true => Ok(VmState::Continue),
                false => Err(raise::reply(message)),
            }
        })?;
        Err(raise::reply(message))
    }

    fn look_at_the_clock(&self) {
        let passed_ms = self.clock.now().mono_ms().saturating_sub(self.started_ms.load(Relaxed));
        let threshold_ms = self.threshold_ms.load(Relaxed);
        if threshold_ms == 0 || passed_ms < threshold_ms || !HOST.is_set() {
            return;
        }
        let running = HOST.with(|host| {
            let (name, request) = host.running();
            Running { name, words: request.args().map(<[u8]>::to_vec).collect(), duration_ms: 0 }
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
