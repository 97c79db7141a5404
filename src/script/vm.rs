//! An interpreter: its creation, the environment of its scripts, and their execution.

use std::panic::resume_unwind;
use std::sync::Arc;

use keylatch_lua::Lua;
use parking_lot::Mutex;

use crate::resp::{Protocol, Reply, Request};
use crate::script::collector::Collector;
use crate::script::control::Control;
use crate::script::convert::{ReplyWriteError, WrittenValue};
use crate::script::host::{HOST, Host};
use crate::script::shared::{Registered, VmKind, VmShared, VmStack, base, set_native, stored};
use crate::script::{api, bit, convert, raise, random, register, struct_};

/// The position of the first key in the request that runs a script: after the command, the script and the number of
/// keys.
const FIRST_KEY: usize = 3;

/// The memory that a script may allocate in addition to what its interpreter uses at the start, in bytes. Redis sets no
/// limit.
const MEMORY_MAX: usize = 512 << 20;

/// The numbers of functions of an interpreter that no library has any more.
pub(super) type Unused = Arc<Mutex<Vec<usize>>>;

/// An interpreter of Lua.
pub struct Vm {
    lua: Lua<VmShared>,
    collector: Collector,
    kind: VmKind,
    /// See [`Control::changes`]: as of when the interpreter knows the versions.
    changes: u64,
    unused: Unused,
}

/// A call of a script or function.
pub struct ScriptCall<'i> {
    /// The request, whose arguments from the fourth on are keys and other arguments.
    pub request: Request<'i>,
    /// The number of keys.
    pub keys: usize,
    /// The start time, in monotonic milliseconds.
    pub now_ms: u64,
    /// The time in milliseconds after which the script is busy; 0 for never.
    pub threshold_ms: u64,
}

/// A compiled text, which lies on the interpreter's stack.
#[must_use]
pub(super) struct Compiled(());

/// An executed script or function. Its value, or its error, is on the interpreter's stack, and the script counts as
/// running until that is written.
#[must_use]
pub struct Executed {
    is_done: bool,
    /// The memory of the interpreter before the execution.
    memory_before: usize,
}

/// The result of a script or function for its caller.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// A reply was written.
    Replied,
    /// An error was written; holds its line unless it is already counted.
    ErrorReplied(Option<Vec<u8>>),
    /// A failure without a reply; holds the error line.
    Failed(Vec<u8>),
}

impl Vm {
    pub(super) fn new(kind: VmKind, control: Arc<Control>) -> Self {
        let mut lua = Lua::new(VmShared::new(control)).expect("there is memory for an interpreter");
        let mut frame = lua.frame();
        store_values(&mut frame);
        set_globals(&mut frame, kind);
        frame.close_sandbox();
        frame.push_stored(stored::GLOBALS);
        frame.push_field(1, "redis");
        frame.set_field(1, "server");
        frame.push_globals();
        frame.push_metatable(2);
        frame.store(stored::ENVIRONMENT);
        if kind == VmKind::Functions {
            register::store_environment(&mut frame);
        }
        push_base(&mut frame);
        let changes = frame.data().control.changes();
        Vm { lua, collector: Collector::default(), kind, changes, unused: Unused::default() }
    }

    /// Has scripts see the present versions, and look up commands again.
    #[cold]
    fn follow_changes(&mut self) {
        let mut frame = self.lua.frame();
        self.changes = frame.data().control.changes();
        frame.data().call_sites.forget();
        frame.push_stored(stored::GLOBALS);
        let base = frame.top();
        frame.push_field(base, "redis");
        frame.push_metatable(base + 1);
        frame.push_field(base + 2, "__index");
        api::set_version(&mut frame, base + 3);
        frame.set_top(base::TOP);
    }

    /// Returns the memory of the interpreter in bytes.
    pub fn memory(&self) -> usize {
        self.lua.used()
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// The compilation error.
    pub(super) fn compile(&mut self, text: &[u8], name: &str) -> Result<Compiled, Vec<u8>> {
        let mut frame = self.lua.frame();
        frame.set_top(base::TOP);
        match frame.compile(text, name) {
            Ok(()) => Ok(Compiled(())),
            Err(_) => Err(frame.bytes(frame.top()).unwrap_or_default().to_vec()),
        }
    }

    pub(super) fn define(&mut self, number: usize, _: Compiled) {
        self.lua.frame().set_item(base::FUNCTIONS, number as i32);
    }

    pub(super) fn forget(&mut self, number: usize) {
        let mut frame = self.lua.frame();
        frame.push_nil();
        frame.set_item(base::FUNCTIONS, number as i32);
    }

    /// Returns the place for the numbers of functions that no library has any more.
    pub(super) fn unused(&self) -> Unused {
        self.unused.clone()
    }

    /// Removes the functions that no library has any more.
    pub(super) fn forget_unused(&mut self) {
        let unused = std::mem::take(&mut *self.unused.lock());
        unused.into_iter().for_each(|number| self.forget(number));
    }

    /// Runs the text of a library, and returns the functions that it has registered. The caller removes them by way of
    /// [`Vm::unused`] when no library has them any more.
    ///
    /// # Errors
    /// The error that the text raised.
    pub(super) fn load(&mut self, _: Compiled, limit_ms: u64) -> Result<Vec<Registered>, Vec<u8>> {
        self.forget_unused();
        self.lua.begin(MEMORY_MAX);
        self.lua.data().control.begin_load(limit_ms);
        self.lua.data().registered.replace(Some(Vec::new()));
        let mut frame = self.lua.frame();
        set_index(&mut frame, stored::WHILE_LOADING);
        let ended = frame.call(0, 0);
        set_index(&mut frame, stored::GLOBALS);
        let ended = ended.map_err(|_| register::loading_error(&mut frame));
        frame.set_top(base::TOP);
        let registered = frame.data().registered.take().unwrap_or_default();
        self.end();
        match ended {
            Ok(()) => Ok(registered),
            Err(error) => {
                registered.iter().for_each(|function| self.forget(function.number));
                Err(error)
            }
        }
    }

    /// Executes the script or function with a number on behalf of `host`; [`Vm::finish`] must follow.
    ///
    /// # Panics
    /// Panics when a command that the script calls panics.
    pub fn run(&mut self, number: usize, script: ScriptCall<'_>, host: &mut dyn Host) -> Executed {
        let memory_before = self.memory();
        if self.lua.data().control.changes() != self.changes {
            self.follow_changes();
        }
        self.lua.begin(MEMORY_MAX);
        self.lua.data().control.begin(self.kind == VmKind::Functions, script.now_ms, script.threshold_ms);
        let mut frame = self.lua.frame();
        frame.set_top(base::TOP);
        frame.push_item(base::FUNCTIONS, number as i32);
        let args = script.request.skip(FIRST_KEY);
        let (keys, argv) = (args.args().take(script.keys), args.skip(script.keys).args());
        let kind = self.kind;
        let ended = HOST.set(host, || match kind {
            VmKind::Functions => {
                frame.push_list(keys)?;
                frame.push_list(argv)?;
                frame.call(2, base::ON_ERROR)
            }
            VmKind::Eval => {
                frame.push_copy(base::KEYS);
                frame.push_list(keys)?;
                frame.set(base::GLOBALS);
                frame.push_copy(base::ARGV);
                frame.push_list(argv)?;
                frame.set(base::GLOBALS);
                frame.call(0, base::ON_ERROR)
            }
        });
        let is_done = ended.is_ok();
        self.pass_panic_on();
        Executed { is_done, memory_before }
    }

    /// Records the end of a script, function or library.
    fn end(&mut self) {
        self.lua.data().control.end();
        self.pass_panic_on();
    }

    fn pass_panic_on(&mut self) {
        if let Some(panic) = self.lua.take_panic() {
            self.lua.data().control.end();
            resume_unwind(panic);
        }
    }

    /// Writes the reply of an executed script, which ends it; `protocol` is the protocol that the script has selected.
    pub fn finish(
        &mut self,
        executed: Executed,
        protocol: Protocol,
        host: &mut dyn Host,
        reply: &mut Reply<'_>,
    ) -> ScriptOutcome {
        let mark = reply.mark();
        let mut frame = self.lua.frame();
        let written = if executed.is_done {
            HOST.set(&mut *host, || convert::write_reply(&mut frame, protocol, reply))
        } else {
            Err(ReplyWriteError::Ended)
        };
        let outcome = match written {
            Ok(WrittenValue::Done) | Err(ReplyWriteError::Unwanted) => ScriptOutcome::Replied,
            Ok(WrittenValue::CountedError) => ScriptOutcome::ErrorReplied(None),
            Ok(WrittenValue::Error(line)) => ScriptOutcome::ErrorReplied(Some(line)),
            Err(ReplyWriteError::Ended) => {
                reply.rollback(mark);
                let (line, is_counted) = convert::final_error(&mut frame, &host.running().0);
                reply.error(&line);
                ScriptOutcome::ErrorReplied((!is_counted).then_some(line))
            }
            Err(ReplyWriteError::TooLarge) => {
                reply.rollback(mark);
                ScriptOutcome::Failed(b"ERR reply of the script is too large".to_vec())
            }
        };
        frame.set_top(base::TOP);
        self.end();
        self.collector.follow(&mut self.lua, executed.memory_before);
        outcome
    }
}

/// Replaces the stack by the values below all scripts.
fn push_base(frame: &mut VmStack<'_>) {
    frame.set_top(0);
    frame.push_native(raise::on_error);
    frame.push_stored(stored::FUNCTIONS);
    frame.push_stored(stored::GLOBALS);
    frame.push_bytes(b"KEYS");
    frame.push_bytes(b"ARGV");
}

fn store_values(frame: &mut VmStack<'_>) {
    frame.push_table(0, 0);
    frame.store(stored::FUNCTIONS);
    frame.push_globals();
    frame.push_field(1, "tostring");
    frame.store(stored::TO_STRING);
    frame.store(stored::GLOBALS);
    for (number, name) in stored::NAMES {
        frame.push_bytes(name.as_bytes());
        frame.store(number);
    }
}

/// Sets the globals that Redis has besides Lua's.
fn set_globals(frame: &mut VmStack<'_>, kind: VmKind) {
    frame.push_globals();
    api::push_table(frame, kind);
    frame.set_field(1, "redis");
    bit::push_library(frame);
    frame.set_field(1, "bit");
    struct_::push_library(frame);
    frame.set_field(1, "struct");
    frame.push_field(1, "math");
    random::set_functions(frame);
    frame.pop();
    if kind == VmKind::Eval {
        set_native(frame, "__redis__err__handler", raise::on_error);
    }
    frame.pop();
}

/// Makes a stored table the globals that scripts see.
fn set_index(frame: &mut VmStack<'_>, globals: i32) {
    frame.push_stored(stored::ENVIRONMENT);
    let environment = frame.top();
    frame.push_stored(globals);
    frame.set_field(environment, "__index");
    frame.pop();
}
