//! Lua scripts and functions: EVAL, FUNCTION and related commands.
//!
//! - `vm` creates an interpreter, whose globals no script can change, and runs scripts in it. The interpreter and its
//!   sandbox are a crate of their own (`lua/`), with the libraries that are written in C.
//! - `api` is the table `redis`, alias `server`; `struct_` and `bit` are libraries, `random` two functions of `math`.
//! - `convert` converts between replies and Lua values; `raise` creates the errors that scripts see.
//! - `cache` holds scripts by their SHA1, `functions` the libraries of functions, which `register` collects.
//! - `collector` controls when garbage is collected.
//! - `control` supervises the running script: a script that exceeds its time limit can be killed, and other clients get
//!   BUSY meanwhile.
//!
//! A script runs while its caller holds the whole store, on the caller's thread. Its commands go through `dispatch` as
//! those of EXEC do. The interpreter knows neither store nor session: the functions of `api` access them through the
//! trait [`Host`], while the script runs.
//!
//! Invariant: no state of a script is visible to the next one, except its writes to the store and libraries registered
//! by FUNCTION LOAD. A script sees shared tables only through read-only fronts; its arguments are tables of its own
//! (`isolation_tests`).

#[cfg(all(test, feature = "internals"))]
mod advisories_tests;
mod api;
mod arguments;
mod bit;
mod cache;
mod call_sites;
mod collector;
pub(crate) mod control;
mod convert;
mod functions;
mod host;
#[cfg(test)]
mod isolation_tests;
mod raise;
mod random;
mod register;
mod sha1;
mod shared;
mod shebang;
mod struct_;
mod vm;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::observe::stats::ScriptUsage;
use crate::resp::{Request, RequestBuffer};
use crate::spec::CommandSpec;
use crate::spec::marks::{RUNS_DIGEST, RUNS_FUNCTION, RUNS_TEXT};
use crate::store::{BusyFlag, MemoryAccount};
use crate::time::clock::Clock;

pub(crate) use cache::{Cache, CompileReason, Script};
pub(crate) use control::Control;
pub(crate) use functions::{AcceptedLibrary, FunctionEntry, Libraries, Library, Restore};
pub(crate) use host::{CallReply, Host};
pub(crate) use shared::Registered;
pub(crate) use shebang::{
    ALLOW_CROSS_SLOT_KEYS, ALLOW_OOM, ALLOW_STALE, COMPATIBLE, FLAG_NAMES, NO_CLUSTER, NO_WRITES, ScriptFlags,
    UNDECLARED_KEYS,
};
pub(crate) use vm::{ScriptCall, ScriptOutcome, Vm};

use std::sync::Arc;

/// The wait for the interpreters between two checks of the busy flag.
const SOON: Duration = Duration::from_millis(5);
/// The size in bytes from which an interpreter is freed on a thread of its own.
const FREE_IN_BACKGROUND_MIN: usize = 4 << 20;

/// The scripts of one namespace.
pub struct Scripts {
    /// The state of the running script.
    pub control: Arc<Control>,
    engines: Mutex<Engines>,
    /// The statistics as of the last change, readable while a script runs.
    counters: Counters,
    /// The account for the memory of interpreters and scripts.
    memory_account: Arc<MemoryAccount>,
}

/// The interpreters, created on first use, with their scripts and functions.
#[derive(Default)]
pub struct Engines {
    /// The interpreter of scripts.
    eval: Option<Vm>,
    /// The interpreter of functions; separate from scripts, so that neither can access the other.
    functions: Option<Vm>,
    /// Scripts by their SHA1.
    pub cache: Cache,
    /// Functions by name.
    pub libraries: Libraries,
    buffers: CallBuffers,
}

/// Everything needed to run scripts.
pub struct Evaluation<'e> {
    /// The interpreter.
    pub vm: &'e mut Vm,
    /// The scripts.
    pub cache: &'e mut Cache,
    /// Buffers, which the next script reuses.
    pub buffers: &'e mut CallBuffers,
}

/// Everything needed to run functions.
pub struct Functions<'e> {
    /// The interpreter.
    pub vm: &'e mut Vm,
    /// The functions.
    pub libraries: &'e mut Libraries,
    /// Buffers, which the next function reuses.
    pub buffers: &'e mut CallBuffers,
}

/// A lock on the interpreters. Their memory is counted when the lock is released.
pub struct EnginesGuard<'s> {
    scripts: &'s Scripts,
    engines: MutexGuard<'s, Engines>,
}

/// Buffers for the commands of a script.
#[derive(Default)]
pub struct CallBuffers {
    /// The arguments of a call.
    pub args: RequestBuffer,
    /// The reply to the call.
    pub output: crate::resp::Output,
}

#[derive(Default)]
struct Counters {
    eval_bytes: AtomicUsize,
    functions_bytes: AtomicUsize,
    scripts: AtomicUsize,
    scripts_bytes: AtomicUsize,
    functions: AtomicUsize,
    libraries: AtomicUsize,
    libraries_bytes: AtomicUsize,
}

impl Scripts {
    /// Creates the scripts of a namespace; `busy_flag` is that of its store's gate, and `memory_account` its store's.
    /// In test mode the time limit of scripts is in real time.
    pub fn new(clock: Clock, is_test_mode: bool, busy_flag: Arc<BusyFlag>, memory_account: Arc<MemoryAccount>) -> Self {
        let control = Arc::new(Control::new(clock, is_test_mode, busy_flag));
        Scripts { control, engines: Mutex::default(), counters: Counters::default(), memory_account }
    }

    /// Locks the interpreters. A running script holds the lock.
    pub fn engines(&self) -> EnginesGuard<'_> {
        EnginesGuard { scripts: self, engines: self.engines.lock() }
    }

    /// Locks the interpreters for a look-up, unless a busy script holds them, which the busy flag of the store's gate
    /// shows.
    pub fn engines_soon(&self, busy_flag: &BusyFlag) -> Option<MutexGuard<'_, Engines>> {
        loop {
            match self.engines.try_lock_for(SOON) {
                None if busy_flag.is_occupied() => return None,
                None => {}
                lent => return lent,
            }
        }
    }

    /// Returns the declared flags of the script or function that a request runs; `None` where it declares none, does
    /// not exist, or a busy script holds the interpreters.
    #[cold]
    pub fn declared_flags(
        &self,
        command: &CommandSpec,
        request: Request<'_>,
        busy_flag: &BusyFlag,
    ) -> Option<ScriptFlags> {
        self.flags_of(command, request, busy_flag).filter(|flags| flags & COMPATIBLE == 0)
    }

    /// Returns the flags of the script or function that a request runs; `None` if it runs no known one.
    pub fn flags_of(&self, command: &CommandSpec, request: Request<'_>, busy_flag: &BusyFlag) -> Option<ScriptFlags> {
        let subject = (request.len() > 1).then(|| request.arg(1))?;
        if command.is(RUNS_TEXT) {
            shebang::of_script(subject).ok().map(|(flags, _)| flags)
        } else if command.is(RUNS_DIGEST) {
            Some(self.engines_soon(busy_flag)?.cache.find(subject)?.flags)
        } else if command.is(RUNS_FUNCTION) {
            Some(self.engines_soon(busy_flag)?.libraries.function(subject)?.flags)
        } else {
            None
        }
    }

    /// Updates the statistics; the memory of the interpreters counts as used memory.
    fn refresh_stats(&self, engines: &Engines) {
        let memory = |vm: &Option<Vm>| vm.as_ref().map_or(0, Vm::memory);
        let now = [
            (&self.counters.eval_bytes, memory(&engines.eval)),
            (&self.counters.functions_bytes, memory(&engines.functions)),
            (&self.counters.scripts_bytes, engines.cache.bytes()),
            (&self.counters.libraries_bytes, engines.libraries.bytes()),
        ];
        let (mut before, mut bytes) = (0, 0);
        for (figure, now) in now {
            before += figure.load(Relaxed);
            bytes += now;
            figure.store(now, Relaxed);
        }
        if bytes != before {
            self.memory_account.report_outside(before, bytes);
        }
        self.counters.scripts.store(engines.cache.len(), Relaxed);
        self.counters.functions.store(engines.libraries.function_count(), Relaxed);
        self.counters.libraries.store(engines.libraries.all().len(), Relaxed);
    }

    /// Returns the statistics of scripts and functions, as of the start of the running script, if there is one.
    pub fn usage(&self) -> ScriptUsage {
        let counters = &self.counters;
        ScriptUsage {
            eval_bytes: counters.eval_bytes.load(Relaxed),
            functions_bytes: counters.functions_bytes.load(Relaxed),
            scripts_bytes: counters.scripts_bytes.load(Relaxed),
            scripts: counters.scripts.load(Relaxed),
            functions: counters.functions.load(Relaxed),
            libraries: counters.libraries.load(Relaxed),
            libraries_bytes: counters.libraries_bytes.load(Relaxed),
        }
    }
}

impl Deref for EnginesGuard<'_> {
    type Target = Engines;

    fn deref(&self) -> &Engines {
        &self.engines
    }
}

impl DerefMut for EnginesGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engines {
        &mut self.engines
    }
}

impl Drop for EnginesGuard<'_> {
    fn drop(&mut self) {
        self.scripts.refresh_stats(&self.engines);
    }
}

impl Engines {
    /// Returns the interpreter, scripts and buffers for running scripts.
    pub fn evaluation(&mut self, control: &Arc<Control>) -> Evaluation<'_> {
        let vm = self.eval.get_or_insert_with(|| Vm::new(shared::VmKind::Eval, control.clone()));
        Evaluation { vm, cache: &mut self.cache, buffers: &mut self.buffers }
    }

    /// Returns the interpreter, libraries and buffers for running functions.
    pub fn functions(&mut self, control: &Arc<Control>) -> Functions<'_> {
        let vm = self.functions.get_or_insert_with(|| Vm::new(shared::VmKind::Functions, control.clone()));
        Functions { vm, libraries: &mut self.libraries, buffers: &mut self.buffers }
    }

    /// Replaces the libraries by those with these texts.
    ///
    /// # Errors
    /// A description of the fault; the libraries are unchanged.
    pub(crate) fn set_libraries(&mut self, control: &Arc<Control>, codes: &[Vec<u8>]) -> Result<(), Vec<u8>> {
        if self.libraries.all().values().map(|library| &library.code).eq(codes) {
            return Ok(());
        }
        let accepted: Vec<AcceptedLibrary> = codes.iter().map(|code| (0, code.clone())).collect();
        self.accept_libraries(control, &accepted)
    }

    /// Replaces the libraries by these, given by ID and source code; a library whose ID is among them is kept.
    ///
    /// # Errors
    /// A description of the fault; the libraries are unchanged.
    pub(crate) fn accept_libraries(
        &mut self,
        control: &Arc<Control>,
        accepted: &[AcceptedLibrary],
    ) -> Result<(), Vec<u8>> {
        let Functions { vm, libraries, .. } = self.functions(control);
        libraries.set(vm, accepted)
    }

    /// Replaces the cached scripts by those with these texts; the flag of a text is true if it was loaded permanently.
    ///
    /// # Errors
    /// A description of the fault of a script.
    pub(crate) fn set_scripts(&mut self, control: &Arc<Control>, scripts: &[(Box<[u8]>, bool)]) -> Result<(), Vec<u8>> {
        if scripts.is_empty() && self.cache.is_empty() {
            return Ok(());
        }
        let Evaluation { vm, cache, .. } = self.evaluation(control);
        cache.retain(vm, scripts);
        for (text, is_loaded) in scripts {
            cache.load(vm, text, if *is_loaded { CompileReason::Load } else { CompileReason::Eval })?;
        }
        Ok(())
    }

    /// Drops all scripts together with their interpreter.
    pub fn flush_scripts(&mut self) {
        free_in_background(std::mem::take(&mut self.cache), self.eval.take());
    }

    /// Drops all libraries together with their interpreter.
    pub fn flush_functions(&mut self) {
        free_in_background(std::mem::take(&mut self.libraries), self.functions.take());
    }
}

/// Frees compiled scripts and their interpreter without blocking clients: a large one on a thread of its own.
fn free_in_background<T: Send + 'static>(compiled: T, vm: Option<Vm>) {
    if vm.as_ref().map_or(0, Vm::memory) < FREE_IN_BACKGROUND_MIN {
        return;
    }
    // When no thread can be started, the closure, and with it the interpreter, is dropped right here.
    let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop((compiled, vm)));
}
