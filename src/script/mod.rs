//! Scripts and functions in Lua: EVAL, FUNCTION and their kin.
//!
//! - `vm` makes an interpreter whose globals no script can change (`prelude.lua`), and runs scripts in it.
//! - `api` is the table `redis`, alias `server`; `struct_`, `bit` and `text` are libraries. `cjson` and `cmsgpack`, which go
//!   through large tables, are written in C and come with the interpreter (`lua/src`).
//! - `convert` translates between replies and Lua's values; `raise` makes the errors that scripts see.
//! - `cache` keeps scripts by their SHA1, `functions` the libraries of functions.
//! - `collector` decides when the memory that scripts have left is collected.
//! - `control` watches over the running script: who runs for too long lets others be told so, and can be killed.
//!
//! A script runs while its caller holds the whole store, on the caller's thread. Its commands go through `dispatch` as
//! those of EXEC do. The interpreter knows neither store nor session: what the functions of `api` need reaches them
//! through the trait [`Host`], for as long as the script runs.
//!
//! Invariant: nothing of one script is left for the next, but what it wrote to the store and the libraries that
//! FUNCTION LOAD registered.

mod api;
mod arguments;
mod bit;
mod cache;
mod collector;
pub(crate) mod control;
mod convert;
mod functions;
mod raise;
mod shebang;
mod struct_;
mod text;
mod vm;

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::observe::stats::ScriptUsage;
use crate::resp::{Protocol, Request, RequestBuffer};
use crate::spec::CommandSpec;
use crate::store::{BusyFlag, MemoryAccount};
use crate::time::clock::Clock;

pub(crate) use cache::{Cache, Origin, Script};
pub(crate) use control::Control;
pub(crate) use functions::{Libraries, Library, Registered, Restore};
pub(crate) use shebang::{ALLOW_OOM, COMPATIBLE, FLAG_NAMES, Flags, NO_WRITES};
pub(crate) use vm::{Invocation, Outcome, Vm};

use std::sync::Arc;

/// What a running script may do to the world outside: call commands as its caller.
pub trait Host {
    /// Lends the words of the next call, to be filled.
    fn words(&mut self) -> &mut RequestBuffer;

    /// Carries out the command whose words were filled in, and returns its reply's bytes.
    ///
    /// # Errors
    /// Why the command may not be called from this script, as its error says after `ERR`.
    fn call(&mut self) -> Result<Cow<'_, [u8]>, Cow<'static, str>>;

    /// Returns whether the caller's user may call the command whose words were filled in; `None` for an unknown command.
    fn may_call(&mut self) -> Option<bool>;

    /// Returns the protocol of the replies to the script.
    fn protocol(&self) -> Protocol;

    /// Chooses the protocol of the replies to the script.
    fn set_protocol(&mut self, protocol: Protocol);

    /// Returns the name of the script or function, and the request that runs it.
    fn running(&self) -> (String, Request<'_>);
}

scoped_tls_hkt::scoped_thread_local! {
    // Not state, but an argument: the functions of `api` live as long as the interpreter, and what they act on lives as
    // long as one script. It is there while the script runs, on its thread, and for nobody else.
    static mut HOST: for<'a> &'a mut (dyn Host + 'a)
}

/// How long to wait for the interpreters before looking whether that will take long.
const SOON: Duration = Duration::from_millis(5);
/// From how many bytes on it pays to free an interpreter on a thread of its own.
const FREE_ASIDE_MIN: usize = 4 << 20;

/// Holds all about scripts that one namespace owns.
pub struct Scripts {
    /// The running script.
    pub control: Arc<Control>,
    engines: Mutex<Engines>,
    /// The figures as of the last change, for a script that asks and for those who ask while one runs.
    figures: Figures,
    /// Told how much memory the interpreters and their scripts take.
    memory_account: Arc<MemoryAccount>,
}

/// The interpreters, made when they are first used, and what they keep.
#[derive(Default)]
pub struct Engines {
    /// Runs scripts.
    eval: Option<Vm>,
    /// Runs functions; apart from scripts, so that neither can get at the other.
    functions: Option<Vm>,
    /// Scripts by their SHA1.
    pub cache: Cache,
    /// Functions by name.
    pub libraries: Libraries,
    /// Working memory that one script leaves to the next.
    pub buffers: CallBuffers,
}

/// Lends the interpreters. When they are given back, what they take is counted.
pub struct Lent<'s> {
    scripts: &'s Scripts,
    engines: MutexGuard<'s, Engines>,
}

/// Holds buffers for the commands of a script.
#[derive(Default)]
pub struct CallBuffers {
    /// The words of a call.
    pub words: RequestBuffer,
    /// Its reply.
    pub output: crate::resp::Output,
}

#[derive(Default)]
struct Figures {
    eval_bytes: AtomicUsize,
    functions_bytes: AtomicUsize,
    scripts: AtomicUsize,
    scripts_bytes: AtomicUsize,
    functions: AtomicUsize,
    libraries: AtomicUsize,
    libraries_bytes: AtomicUsize,
}

impl Scripts {
    /// Creates the scripts of an instance; the busy_flag is that of its store's gate, and the memory_account its store's.
    pub fn new(clock: Clock, busy_flag: Arc<BusyFlag>, memory_account: Arc<MemoryAccount>) -> Self {
        let control = Arc::new(Control::new(clock, busy_flag));
        Scripts { control, engines: Mutex::default(), figures: Figures::default(), memory_account }
    }

    /// Lends the interpreters. A script keeps them while it runs.
    pub fn engines(&self) -> Lent<'_> {
        Lent { scripts: self, engines: self.engines.lock() }
    }

    /// Lends the interpreters to look something up, unless a script keeps them for longer than others are to wait: the
    /// busy_flag of the store's gate tells.
    pub fn engines_soon(&self, busy_flag: &BusyFlag) -> Option<MutexGuard<'_, Engines>> {
        loop {
            match self.engines.try_lock_for(SOON) {
                None if busy_flag.is_occupied() => return None,
                None => {}
                lent => return lent,
            }
        }
    }

    /// Returns what the script or function that a request runs declares of itself; `None` where it declares nothing, where
    /// there is none, and while another one keeps the interpreters for long.
    #[cold]
    pub fn declared_flags(&self, command: &CommandSpec, request: Request<'_>, busy_flag: &BusyFlag) -> Option<Flags> {
        let subject = (request.len() > 1).then(|| request.arg(1))?;
        let flags = match &command.name[..] {
            "eval" | "eval_ro" => shebang::of_script(subject).ok().map(|(flags, _)| flags)?,
            "evalsha" | "evalsha_ro" => self.engines_soon(busy_flag)?.cache.find(subject)?.flags,
            "fcall" | "fcall_ro" => self.engines_soon(busy_flag)?.libraries.function(subject)?.flags,
            _ => return None,
        };
        (flags & COMPATIBLE == 0).then_some(flags)
    }

    /// Counts what the interpreters keep; all of it is used memory.
    fn refresh_stats(&self, engines: &Engines) {
        let memory = |vm: &Option<Vm>| vm.as_ref().map_or(0, Vm::memory);
        let now = [
            (&self.figures.eval_bytes, memory(&engines.eval)),
            (&self.figures.functions_bytes, memory(&engines.functions)),
            (&self.figures.scripts_bytes, engines.cache.bytes()),
            (&self.figures.libraries_bytes, engines.libraries.bytes()),
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
        self.figures.scripts.store(engines.cache.len(), Relaxed);
        self.figures.functions.store(engines.libraries.function_count(), Relaxed);
        self.figures.libraries.store(engines.libraries.all().len(), Relaxed);
    }

    /// Sums up scripts and functions, as they were when the running script began, if there is one.
    pub fn usage(&self) -> ScriptUsage {
        let figures = &self.figures;
        ScriptUsage {
            eval_bytes: figures.eval_bytes.load(Relaxed),
            functions_bytes: figures.functions_bytes.load(Relaxed),
            scripts_bytes: figures.scripts_bytes.load(Relaxed),
            scripts: figures.scripts.load(Relaxed),
            functions: figures.functions.load(Relaxed),
            libraries: figures.libraries.load(Relaxed),
            libraries_bytes: figures.libraries_bytes.load(Relaxed),
        }
    }
}

impl Deref for Lent<'_> {
    type Target = Engines;

    fn deref(&self) -> &Engines {
        &self.engines
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Engines {
        &mut self.engines
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.scripts.refresh_stats(&self.engines);
    }
}

impl Engines {
    /// Returns the interpreter of scripts.
    pub fn eval(&mut self, control: &Arc<Control>) -> &Vm {
        self.eval.get_or_insert_with(|| Vm::new(vm::Kind::Eval, control.clone()))
    }

    /// Compiles a script, unless that has been done, and returns it.
    ///
    /// # Errors
    /// What is wrong with the script.
    pub fn load_script(&mut self, control: &Arc<Control>, text: &[u8], origin: Origin) -> Result<Arc<Script>, Vec<u8>> {
        let vm = self.eval.get_or_insert_with(|| Vm::new(vm::Kind::Eval, control.clone()));
        self.cache.load(vm, text, origin)
    }

    /// Returns the interpreter of functions and the libraries.
    pub fn libraries(&mut self, control: &Arc<Control>) -> (&Vm, &mut Libraries) {
        let vm = self.functions.get_or_insert_with(|| Vm::new(vm::Kind::Functions, control.clone()));
        (vm, &mut self.libraries)
    }

    /// Drops all scripts, and with them the interpreter that has compiled them.
    pub fn flush_scripts(&mut self) {
        free_aside(std::mem::take(&mut self.cache), self.eval.take());
    }

    /// Drops all libraries, and with them the interpreter that has compiled them.
    pub fn flush_functions(&mut self) {
        free_aside(std::mem::take(&mut self.libraries), self.functions.take());
    }
}

/// Frees what was compiled and its interpreter where that holds nobody up: a large one on a thread of its own.
fn free_aside<T: Send + 'static>(compiled: T, vm: Option<Vm>) {
    if vm.as_ref().map_or(0, Vm::memory) < FREE_ASIDE_MIN {
        return;
    }
    // When no thread can be had, the closure and with it the interpreter are dropped right here.
    let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop((compiled, vm)));
}
