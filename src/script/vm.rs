//! One interpreter: creates it, sandboxes it, and runs scripts.

use std::panic::resume_unwind;
use std::sync::Arc;

use keylatch_lua as _; // the interpreter itself
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::resp::{Protocol, Reply, Request};
use crate::script::collector::Collector;
use crate::script::control::Control;
use crate::script::convert::{Names, Written};
use crate::script::host::{HOST, Host};
use crate::script::limit::Limited;
use crate::script::{api, bit, convert, raise, register, struct_, text};

/// The position of the first key in the request that runs a script: after the command, the script and the number of
/// keys.
const FIRST_KEY: usize = 3;

/// The purpose of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Scripts, by EVAL.
    Eval,
    /// Functions, by FCALL.
    Functions,
}

/// Runs Lua.
pub struct Vm {
    lua: Lua,
    names: Names,
    control: Arc<Control>,
    collector: Collector,
    define: Function,
    run: Function,
    call: Function,
    load: Function,
    kind: Kind,
}

/// A call of a script or function.
pub struct Invocation<'i> {
    /// The request, whose arguments from the fourth on are keys and other arguments.
    pub request: Request<'i>,
    /// The number of keys.
    pub keys: usize,
    /// The start time, in monotonic milliseconds.
    pub now_ms: u64,
    /// The time in milliseconds after which it is busy; 0 is never.
    pub threshold_ms: u64,
}

/// The result of a script or function: whether it succeeded, and its value or error.
pub struct Ended(mlua::Result<(bool, Value)>);

/// The result of a script or function for its caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its reply was written.
    Replied,
    /// An error was written, with this line unless it is already counted.
    ErrorReplied(Option<Vec<u8>>),
    /// It failed; holds the error line.
    Failed(Vec<u8>),
}

impl Vm {
    /// Creates an interpreter.
    pub(super) fn new(kind: Kind, control: Arc<Control>) -> Self {
        Vm::make(kind, control).expect("the prelude runs, and there is memory for an interpreter")
    }

    fn make(kind: Kind, control: Arc<Control>) -> mlua::Result<Self> {
        let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS, LuaOptions::new())?;
        lua.set_app_data(control.clone()); // it holds the dialect of errors
        let prelude = lua.load(include_str!("prelude.lua")).set_name(raise::PRELUDE_NAME).set_mode(ChunkMode::Text);
        let api: Table =
            prelude.into_function()?.call((natives(&lua, kind, &control)?, lua.globals(), kind == Kind::Eval))?;
        control.watch(&lua);
        Ok(Vm {
            names: Names::new(&lua)?,
            define: api.get("define")?,
            run: api.get("run")?,
            call: api.get("call")?,
            load: api.get("load")?,
            control,
            collector: Collector::default(),
            kind,
            lua,
        })
    }

    /// Returns the memory of the interpreter in bytes.
    pub fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// The compilation error.
    pub fn compile(&self, text: &[u8], name: &str) -> Result<Function, Vec<u8>> {
        let chunk = self.lua.load(text).set_name(name).set_mode(ChunkMode::Text);
        match text.first() {
            // Bytecode; the parser would report its first byte as an unexpected symbol.
            Some(27) => {
                Err(format!("{}:1: unexpected symbol near 'char(27)'", name.trim_start_matches('@')).into_bytes())
            }
            _ => chunk.into_function().map_err(|error| message(&error)),
        }
    }

    /// Returns the interpreter itself.
    pub(super) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Stores a function under a number.
    pub fn define(&self, number: usize, function: Function) {
        self.define.call::<()>((number, function)).expect("a table accepts another entry");
    }

    /// Removes a function.
    pub fn forget(&self, number: usize) {
        self.define.call::<()>((number, Value::Nil)).expect("an entry can be removed from a table");
    }

    /// Runs the text of a library, which registers functions.
    ///
    /// # Errors
    /// The error that the text raised.
    pub fn load(&self, library: Function) -> Result<(), Vec<u8>> {
        self.control.begin_load();
        let ended = {
            let _watched = Watched(self);
            let _limited = Limited::new(&self.lua, self.memory());
            self.load.call::<(bool, Value)>(library)
        };
        match ended {
            Ok((true, _)) => Ok(()),
            Ok((false, error)) => Err(loading_error(&self.lua, &error)),
            Err(error) => Err(message(&error)),
        }
    }

    /// Runs the script or function with a number on behalf of `host`.
    ///
    /// # Panics
    /// When a command that it calls panics.
    pub fn run(&self, number: usize, script: Invocation<'_>, host: &mut dyn Host) -> Ended {
        let function = if self.kind == Kind::Eval { &self.run } else { &self.call };
        let memory_before = self.memory();
        self.control.begin(self.kind == Kind::Functions, script.now_ms, script.threshold_ms);
        let watched = Watched(self);
        let ended = self.tables(script.request, script.keys).and_then(|(keys, args)| {
            let _limited = Limited::new(&self.lua, memory_before);
            HOST.set(host, || function.call::<(bool, Value)>((number, keys, args)))
        });
        drop(watched);
        if let Some(panic) = self.control.take_panic() {
            resume_unwind(panic);
        }
        self.collector.follow(&self.lua, memory_before);
        Ended(ended)
    }

    /// Writes the reply of a script that has ended; `protocol` is the one it has selected.
    pub fn finish(&self, ended: Ended, name: &str, protocol: Protocol, reply: &mut Reply<'_>) -> Outcome {
        let mark = reply.mark();
        let written = ended.0.and_then(|(ok, value)| match ok {
            true => convert::write_reply(&self.names, &value, protocol, reply),
            false => self.fail(&value, name, reply),
        });
        match written {
            Ok(Written::Done) => Outcome::Replied,
            Ok(Written::CountedError) => Outcome::ErrorReplied(None),
            Ok(Written::Error(line)) => Outcome::ErrorReplied(Some(line)),
            Err(error) => {
                reply.rollback(mark);
                Outcome::Failed([b"ERR ", &message(&error)[..]].concat())
            }
        }
    }

    /// Creates the tables KEYS and ARGV from the arguments of a request.
    fn tables(&self, args: Request<'_>, keys: usize) -> mlua::Result<(Table, Table)> {
        let strings = |first: usize, end: usize| {
            let args = (first..end).map(|at| args.arg(at));
            let table = self.lua.create_table_with_capacity(end - first, 0)?;
            for word in args {
                table.raw_push(self.lua.create_string(word)?)?;
            }
            Ok::<_, mlua::Error>(table)
        };
        let keys_end = FIRST_KEY + keys;
        Ok((strings(FIRST_KEY, keys_end)?, strings(keys_end, args.len())?))
    }

    /// Writes the error that a script ended with.
    fn fail(&self, error: &Value, name: &str, reply: &mut Reply<'_>) -> mlua::Result<Written> {
        let (line, is_counted) = convert::final_error(&self.lua, error, name)?;
        reply.error(&line);
        Ok(if is_counted { Written::CountedError } else { Written::Error(line) })
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Destructors must not run during a collection. This fails only for lack of memory, which is over now.
        let _ = self.lua.gc_collect();
    }
}

/// Marks the end of a running script when it is dropped, also after a panic.
struct Watched<'v>(&'v Vm);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.0.control.end() {
            self.0.control.watch(&self.0.lua);
        }
    }
}

/// Returns the message of an error, as Lua would print it.
fn message(error: &mlua::Error) -> Vec<u8> {
    match raise::raised(error) {
        raise::Raised::Text(text) | raise::Raised::Reply(text) | raise::Raised::Counted(text) => text,
    }
}

/// Formats the error that a library's text raised.
fn loading_error(lua: &Lua, error: &Value) -> Vec<u8> {
    let text = |value: Value| lua.coerce_string(value).ok().flatten().map(|text| text.as_bytes().to_vec());
    match error {
        Value::Table(table) => table.raw_get("err").ok().and_then(text).unwrap_or_default(),
        other => [b"ERR ", &text(other.clone()).unwrap_or_default()[..]].concat(),
    }
}

/// Collects the native functions for the prelude, which installs them.
fn natives(lua: &Lua, kind: Kind, control: &Arc<Control>) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    let (asked, spender) = (control.clone(), control.clone());
    natives.set("is_killed", lua.create_function(move |_, ()| Ok(asked.is_killed()))?)?;
    natives.set("spend", lua.create_function(move |lua, instructions: usize| spender.spend(lua, instructions))?)?;
    natives.set("unwrap", lua.create_function(raise::unwrap)?)?;
    natives.set("on_error", lua.create_function(convert::on_error)?)?;
    natives.set("missing", lua.create_function(missing)?)?;
    natives.set("refuse", lua.create_function(|_, ()| Err::<(), _>(raise::plain(READ_ONLY)))?)?;
    natives.set("refuse_here", lua.create_function(|lua, _: MultiValue| Err::<(), _>(raise::text(lua, READ_ONLY)))?)?;
    natives.set(
        "fail",
        lua.create_function(|lua, text: mlua::LuaString| Err::<(), _>(raise::text_at(lua, 2, &*text.as_bytes())))?,
    )?;
    natives.set(
        "fail_above",
        lua.create_function(|lua, text: mlua::LuaString| Err::<(), _>(raise::text_at(lua, 3, &*text.as_bytes())))?,
    )?;
    natives.set("argument_error", lua.create_function(argument_error)?)?;
    natives.set("redis", api::table(lua, control)?)?;
    natives.set("valkey_field", lua.create_function(api::valkey_field)?)?;
    if kind == Kind::Functions {
        natives.set("register_function", lua.create_function(register::register)?)?;
    }
    for (name, functions) in [
        ("bit", bit::table(lua)?),
        ("math", api::math(lua)?),
        ("string", text::table(lua)?),
        ("struct", struct_::table(lua, control)?),
    ] {
        natives.set(name, functions)?;
    }
    Ok(natives)
}

const READ_ONLY: &str = "Attempt to modify a readonly table";

/// Raises the error for an unknown global variable: the `__index` of the globals.
fn missing(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 2 {
        return Err(raise::text(lua, "Wrong number of arguments to luaProtectedTableError"));
    }
    match lua.coerce_string(args[1].clone())? {
        Some(name) => {
            let message =
                [b"Script attempted to access nonexistent global variable '", &*name.as_bytes(), b"'"].concat();
            Err(raise::text(lua, message))
        }
        None => Err(raise::text(lua, "Second argument to luaProtectedTableError must be a string or number")),
    }
}

/// Raises the error for an argument of a prelude function: its position, the function's name, and either the expected
/// type and the value or a complete message.
fn argument_error(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    let text = |at: usize| args.get(at).and_then(|value| value.to_string().ok()).unwrap_or_default();
    let complaint = match args.get(3) {
        None if args.len() == 3 => text(2),
        value => format!("{} expected, got {}", text(2), raise::type_name(value)),
    };
    Err(raise::text_at(lua, 2, format!("bad argument #{} to '{}' ({complaint})", text(0), text(1))))
}
