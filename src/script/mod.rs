//! Scripts and functions in Lua: EVAL, FUNCTION and their kin.
//!
//! - `vm` makes an interpreter whose globals no script can change (`prelude.lua`), and runs scripts in it.
//! - `api` is the table `redis`, alias `server`; `cjson`, `cmsgpack`, `struct_`, `bit` and `text` are the libraries.
//! - `convert` translates between replies and Lua's values; `raise` makes the errors that scripts see.
//! - `cache` keeps scripts by their SHA1, `functions` the libraries of functions.
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
mod cjson;
mod cmsgpack;
pub mod control;
mod convert;
mod functions;
mod raise;
mod sequence;
mod shebang;
mod struct_;
mod text;
mod vm;

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::clock::Clock;
use crate::namespace::ScriptUsage;
use crate::resp::{Protocol, Request, RequestBuffer};
use crate::store::Seat;

pub use cache::{Cache, Script, Sha};
pub use control::{Control, Running};
pub use functions::{Entry, Libraries, Library, Registered, Restore};
pub use shebang::{ALLOW_OOM, COMPATIBLE, FLAG_NAMES, Flags, NO_WRITES};
pub use vm::{Ended, Invocation, Outcome, Vm};

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

/// Returns the flags in a script's first line; `None` where that is wrong.
pub fn flags_of(script: &[u8]) -> Option<Flags> {
    shebang::of_script(script).ok().map(|(flags, _)| flags)
}

/// Holds all about scripts that one namespace owns.
pub struct Scripts {
    /// The running script.
    pub control: Arc<Control>,
    engines: Mutex<Engines>,
    /// The figures as of the last change, so that a script can ask for them too.
    figures: Figures,
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
    pub scratch: Scratch,
}

/// Holds buffers for the commands of a script.
#[derive(Default)]
pub struct Scratch {
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
}

impl Scripts {
    /// Creates the scripts of an instance; the seat is that of its store's gate.
    pub fn new(clock: Clock, seat: Arc<Seat>) -> Self {
        Scripts { control: Arc::new(Control::new(clock, seat)), engines: Mutex::default(), figures: Figures::default() }
    }

    /// Lends the interpreters. A script keeps them while it runs.
    pub fn engines(&self) -> MutexGuard<'_, Engines> {
        self.engines.lock()
    }

    /// Lends the interpreters like [`Scripts::engines`], unless a script keeps them for longer than others are to wait:
    /// the seat of the store's gate tells.
    pub fn engines_soon(&self, seat: &Seat) -> Option<MutexGuard<'_, Engines>> {
        loop {
            match self.engines.try_lock_for(SOON) {
                None if seat.is_occupied() => return None,
                None => {}
                lent => return lent,
            }
        }
    }

    fn take_stock(&self, engines: &Engines) {
        let Figures { eval_bytes, functions_bytes, scripts, scripts_bytes, functions, libraries } = &self.figures;
        eval_bytes.store(engines.eval.as_ref().map_or(0, Vm::memory), Relaxed);
        functions_bytes.store(engines.functions.as_ref().map_or(0, Vm::memory), Relaxed);
        scripts.store(engines.cache.len(), Relaxed);
        scripts_bytes.store(engines.cache.bytes(), Relaxed);
        functions.store(engines.libraries.function_count(), Relaxed);
        libraries.store(engines.libraries.all().len(), Relaxed);
    }

    /// Sums up scripts and functions; to a running script, as they were when somebody last asked.
    pub fn usage(&self) -> ScriptUsage {
        if let Some(engines) = self.engines.try_lock() {
            self.take_stock(&engines);
        }
        let figures = &self.figures;
        ScriptUsage {
            eval_bytes: figures.eval_bytes.load(Relaxed),
            functions_bytes: figures.functions_bytes.load(Relaxed),
            scripts_bytes: figures.scripts_bytes.load(Relaxed),
            scripts: figures.scripts.load(Relaxed),
            functions: figures.functions.load(Relaxed),
            libraries: figures.libraries.load(Relaxed),
        }
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
    pub fn load_script(&mut self, control: &Arc<Control>, text: &[u8]) -> Result<Script, Vec<u8>> {
        let vm = self.eval.get_or_insert_with(|| Vm::new(vm::Kind::Eval, control.clone()));
        self.cache.load(vm, text).cloned()
    }

    /// Returns the interpreter of functions and the libraries.
    pub fn libraries(&mut self, control: &Arc<Control>) -> (&Vm, &mut Libraries) {
        let vm = self.functions.get_or_insert_with(|| Vm::new(vm::Kind::Functions, control.clone()));
        (vm, &mut self.libraries)
    }

    /// Drops all scripts, and with them the interpreter that has compiled them.
    pub fn flush_scripts(&mut self) {
        self.cache = Cache::default();
        self.eval = None;
    }

    /// Drops all libraries, and with them the interpreter that has compiled them.
    pub fn flush_functions(&mut self) {
        self.libraries = Libraries::default();
        self.functions = None;
    }
}
