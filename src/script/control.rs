//! Supervises the running script: marks it as busy, notifies other clients meanwhile, and kills it.
//!
//! The interpreter calls `Control::interrupt` at intervals. When a script has run for longer than
//! `busy-reply-threshold`, all threads that wait for the store are notified (`store::BusyFlag`) and reply BUSY from
//! then on. The script continues on its thread: an interpreter cannot move to another thread in the middle of a script.
//! But the thread's other work can: tokio's multi-thread runtimes hand a worker's connections to another thread when
//! its own is blocked (`block_in_place`). For a short script all this costs a few plain stores.
//!
//! A native function that may take long counts its work as executed instructions, so that it is interrupted as well:
//! matching patterns, sorting, moving items, collecting garbage, JSON and MessagePack in C, hashing, commands and the
//! reply of the script in Rust (`Frame::work`); allocated memory counts, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use tracing::warn;

use crate::error::Error;
use crate::profile::Identity;
use crate::runtime::executor::move_worker_to_new_thread;
use crate::script::host::HOST;
use crate::store::BusyFlag;
use crate::text::Dialect;
use crate::time::clock::Clock;

/// The time limit for the registration of a library's functions, in milliseconds.
pub(super) const LOAD_MS_MAX: u64 = 500;
/// The same for a library that a server has accepted before, in milliseconds: only one that never ends takes so long.
pub(super) const ACCEPTED_LOAD_MS_MAX: u64 = 60_000;

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
/// The script ends because the server stops, after some of its changes.
const HALF_DONE: u8 = 1 << 6;

/// The error in a killed script or function.
const KILLED_IN_REDIS: &str = "ERR Script killed by user with SCRIPT KILL...";
/// The errors in Valkey's dialect, for a script and for a function.
const KILLED_IN_VALKEY: [&str; 2] =
    ["ERR Script killed by user with SCRIPT KILL.", "ERR Script killed by user with FUNCTION KILL."];

/// The state of the running script.
pub struct Control {
    clock: Clock,
    /// The clock for time limits that must pass even while a test's clock stands still. The limit of scripts is one of
    /// them: otherwise calls, and moves of the clock, would wait for a script without limit.
    real_clock: Clock,
    /// True if moving the clock does not count towards the time limit of scripts: in test mode.
    is_limit_real: bool,
    busy_flag: Arc<BusyFlag>,
    state: AtomicU8,
    started_ms: AtomicU64,
    /// The start by the real clock, where the other clock can be moved.
    started_real_ms: AtomicU64,
    threshold_ms: AtomicU64,
    /// Set when the server stops: no script may continue.
    is_over: AtomicBool,
    /// True if scripts get errors in Valkey's dialect.
    is_valkey: AtomicBool,
    /// The names and versions that scripts see.
    identity: Mutex<&'static Identity>,
    /// Number of the changes of the names and versions, and of the commands with them.
    changes: AtomicU64,
    /// The busy script; set when the script becomes busy.
    busy: Mutex<Option<RunningScript>>,
    /// The instruction at which a test kills the script; 0 for none.
    #[cfg(test)]
    killed_at: std::sync::atomic::AtomicUsize,
}

/// A script that has exceeded its time limit.
#[derive(Clone, Debug)]
pub struct RunningScript {
    /// The SHA1 of a script, or the name of a function.
    pub name: String,
    /// The request that runs the script or function.
    pub args: Vec<Vec<u8>>,
    /// The running time in milliseconds.
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
            is_over: AtomicBool::new(false),
            is_valkey: AtomicBool::new(false),
            identity: Mutex::new(&Identity::REDIS),
            changes: AtomicU64::new(0),
            busy: Mutex::new(None),
            #[cfg(test)]
            killed_at: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Kills the next script at an instruction, counted from 1; never for 0.
    #[cfg(test)]
    pub(super) fn kill_at(&self, instruction: usize) {
        self.killed_at.store(instruction, Relaxed);
    }

    /// Returns the number of instructions before the first interrupt: 1 if the script is to be killed at an
    /// instruction, so that each one is interrupted.
    #[cfg(test)]
    pub(super) fn first_interval(&self) -> usize {
        if self.killed_at.load(Relaxed) > 0 { 1 } else { 4096 }
    }

    /// Counts down to the instruction at which the script is killed; returns true if it is reached.
    #[cfg(test)]
    fn is_killed_here(&self) -> bool {
        let before = self.killed_at.load(Relaxed);
        self.killed_at.store(before.saturating_sub(1), Relaxed);
        before == 1
    }

    /// Sets the dialect of errors in scripts, and the names and versions that they see.
    pub(crate) fn answer_as(&self, dialect: Dialect, identity: &'static Identity) {
        self.is_valkey.store(dialect == Dialect::Valkey, Relaxed);
        let before = std::mem::replace(&mut *self.identity.lock(), identity);
        if !std::ptr::eq(before, identity) {
            self.changes.fetch_add(1, Relaxed);
        }
    }

    /// Returns the names and versions that scripts see.
    pub(super) fn identity(&self) -> &'static Identity {
        *self.identity.lock()
    }

    /// Returns a number that differs after each change of the names and versions.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Returns the dialect of errors in scripts.
    pub(super) fn dialect(&self) -> Dialect {
        if self.is_valkey.load(Relaxed) { Dialect::Valkey } else { Dialect::Redis }
    }

    /// Records the start of a script or function; it becomes busy after `threshold_ms` milliseconds, or never for 0.
    pub(super) fn begin(&self, is_function: bool, now_ms: u64, threshold_ms: u64) {
        self.started_ms.store(now_ms, Relaxed);
        if self.clock.is_steered() {
            self.started_real_ms.store(self.real_clock.now().mono_ms(), Relaxed);
        }
        self.threshold_ms.store(threshold_ms, Relaxed);
        self.state.store(if is_function { RUNNING | FUNCTION } else { RUNNING }, Relaxed);
    }

    /// Returns the script's running time in milliseconds, by the clock that shows more.
    fn passed_ms(&self) -> u64 {
        let since = |started: &AtomicU64, now_ms: u64| now_ms.saturating_sub(started.load(Relaxed));
        let by_own = if self.is_limit_real { 0 } else { since(&self.started_ms, self.clock.heading_ms()) };
        let is_steered = self.clock.is_steered();
        by_own.max(if is_steered { since(&self.started_real_ms, self.real_clock.now().mono_ms()) } else { 0 })
    }

    /// Makes the running script busy now, as if it had exceeded its time limit, so that no client waits for it.
    pub fn make_busy(&self) {
        self.threshold_ms.store(1, Relaxed);
    }

    /// Records the end of the script.
    pub(super) fn end(&self) {
        if self.state.load(Relaxed) & BUSY != 0 {
            // A kill checks the state under this lock.
            *self.busy.lock() = None;
        }
        self.state.store(0, Relaxed);
    }

    /// Records that a library is about to be loaded, in at most `limit_ms` milliseconds.
    pub(super) fn begin_load(&self, limit_ms: u64) {
        self.threshold_ms.store(limit_ms, Relaxed);
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
    /// [`Error::Busy`] when a script is busy.
    pub fn busy_function(&self) -> Result<Option<RunningScript>, Error> {
        let busy = self.busy.lock();
        let Some(running) = &*busy else { return Ok(None) };
        if self.state.load(Relaxed) & FUNCTION == 0 {
            return Err(self.busy_error());
        }
        Ok(Some(RunningScript { duration_ms: self.passed_ms(), ..running.clone() }))
    }

    /// Kills the running script or function.
    ///
    /// # Errors
    /// No script or function of this kind is running, or it has written already.
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

    /// Ends all scripts, now and later, because the server stops. A script that has written may go on until it is busy.
    pub fn end_all(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Returns true if [`Control::end_all`] interrupted the present script after some of its changes.
    pub(crate) fn is_half_done(&self) -> bool {
        self.state.load(Relaxed) & HALF_DONE != 0
    }

    /// Decides if a script may continue; the interpreter calls it at intervals.
    ///
    /// # Errors
    /// The error line that ends the script.
    pub(super) fn interrupt(&self) -> Result<(), &'static str> {
        #[cfg(test)]
        if self.is_killed_here() {
            return Err(KILLED_IN_REDIS);
        }
        let state = self.state.load(Relaxed);
        if state & LOADING != 0 {
            let passed_ms = self.real_clock.now().mono_ms().saturating_sub(self.started_real_ms.load(Relaxed));
            let is_late = passed_ms > self.threshold_ms.load(Relaxed) || self.is_over.load(Relaxed);
            return if is_late { Err("ERR FUNCTION LOAD timeout") } else { Ok(()) };
        }
        if state & BUSY == 0 {
            self.look_at_the_clock();
        }
        let state = self.state.load(Relaxed);
        let may_finish = state & WROTE != 0 && state & BUSY == 0 && self.threshold_ms.load(Relaxed) != 0;
        if state & KILLED == 0 && (may_finish || !self.is_over.load(Relaxed)) {
            return Ok(());
        }
        if state & WROTE != 0 {
            self.state.fetch_or(HALF_DONE, Relaxed);
        }
        Err(self.dialect().choose(KILLED_IN_REDIS, KILLED_IN_VALKEY[usize::from(state & FUNCTION != 0)]))
    }

    /// Returns the real time since an arbitrary moment, in microseconds.
    pub(super) fn now_us(&self) -> u64 {
        #[cfg(test)]
        if self.killed_at.load(Relaxed) > 0 {
            return 0; // the interval stays what it is
        }
        self.real_clock.now().mono_us()
    }

    fn look_at_the_clock(&self) {
        let (passed_ms, threshold_ms) = (self.passed_ms(), self.threshold_ms.load(Relaxed));
        if threshold_ms == 0 || passed_ms < threshold_ms || !HOST.is_set() {
            return;
        }
        let running = HOST.with(|host| {
            let (name, request) = host.running();
            RunningScript { name, args: request.args().map(<[u8]>::to_vec).collect(), duration_ms: 0 }
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
        move_worker_to_new_thread();
    }
}
