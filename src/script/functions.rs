//! Libraries of functions: loaded by FUNCTION LOAD, called by FCALL.

use std::collections::HashMap;

use mlua::{Function, Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use crate::memory::heap::{COUNTED_LEN, allocation_len, hash_map_len, list_len};
use crate::memory::ordered_map::OrderedMap;
use crate::script::arguments::Arguments;
use crate::script::raise;
use crate::script::shebang;
use crate::script::shebang::Flags;
use crate::script::vm::Vm;

/// The rule for names, as an error text.
const NAME_RULE: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// All libraries.
#[derive(Default)]
pub struct Libraries {
    by_name: OrderedMap<Vec<u8>, Library>,
    /// By their names in lower case.
    functions: HashMap<Vec<u8>, Entry>,
    /// How many functions were ever linked; the next one's number in the interpreter.
    linked: usize,
    /// Memory of all libraries: texts, names and records of functions.
    library_bytes: usize,
}

/// One library.
pub(crate) struct Library {
    /// Its name.
    pub name: Vec<u8>,
    /// Its text, the first line included.
    pub code: Vec<u8>,
    /// Its functions, in the order of their registration.
    pub functions: Vec<Registered>,
}

/// A function registered by a library.
#[derive(Clone)]
pub(crate) struct Registered {
    /// Its name.
    pub name: Vec<u8>,
    /// The author's description.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: Flags,
    /// Set until the interpreter keeps the function under a number, because Rust can hold only a few Lua values.
    function: Option<Function>,
}

/// What FCALL needs to know about a function.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name as text.
    pub name: std::sync::Arc<str>,
    /// Its number in the interpreter.
    pub number: usize,
    /// Its flags.
    pub flags: Flags,
}

/// What FUNCTION RESTORE does with existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// Keeps them; a library of the same name is an error.
    Append,
    /// Keeps them, except those of the same name.
    Replace,
    /// Deletes them.
    Flush,
}

impl Libraries {
    /// Returns all libraries, by name.
    pub(crate) fn all(&self) -> &OrderedMap<Vec<u8>, Library> {
        &self.by_name
    }

    /// Finds a function by its name, case-insensitive.
    #[inline]
    pub fn function(&self, name: &[u8]) -> Option<&Entry> {
        self.functions.get(name).or_else(|| self.functions.get(&name.to_ascii_lowercase()))
    }

    /// Returns how many functions there are.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the memory of the libraries in bytes.
    pub fn bytes(&self) -> usize {
        let functions = hash_map_len::<Vec<u8>, Entry>(self.functions.capacity());
        self.library_bytes + self.by_name.memory() + functions
    }

    /// Loads a library and returns its name.
    ///
    /// # Errors
    /// What is wrong with it; the libraries are unchanged.
    pub fn load(&mut self, vm: &Vm, code: &[u8], replace: bool) -> Result<Vec<u8>, Vec<u8>> {
        let heading = shebang::of_library(code)?;
        check_heading(&heading)?;
        let name = heading.name;
        if self.by_name.contains_key(&name) && !replace {
            return Err([b"Library '", &name[..], b"' already exists"].concat());
        }
        let library = run_library(vm, &name, &code[heading.end..], code)?;
        let is_taken = |function: &&Registered| {
            let is_own = self.by_name.get(&name).is_some_and(|old| old.has(&function.name));
            self.function(&function.name).is_some() && !is_own
        };
        if let Some(taken) = library.functions.iter().find(is_taken) {
            return Err([b"Function ", &taken.name[..], b" already exists"].concat());
        }
        self.delete(vm, &name);
        self.link(vm, library);
        Ok(name)
    }

    /// Deletes a library; returns whether it existed.
    pub fn delete(&mut self, vm: &Vm, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        self.library_bytes -= library.memory();
        for function in &library.functions {
            if let Some(entry) = self.functions.remove(&function.name.to_ascii_lowercase()) {
                vm.forget(entry.number);
            }
        }
        true
    }

    /// Loads the libraries of a FUNCTION DUMP.
    ///
    /// # Errors
    /// What is wrong with them; the libraries are unchanged.
    pub fn restore(&mut self, vm: &Vm, codes: &[Vec<u8>], policy: Restore) -> Result<(), Vec<u8>> {
        let mut restored = Libraries::default();
        for code in codes {
            let heading = shebang::of_library(code)?;
            check_heading(&heading)?;
            if restored.by_name.contains_key(&heading.name) {
                return Err([b"Library '", &heading.name[..], b"' already exists"].concat());
            }
            let library = run_library(vm, &heading.name, &code[heading.end..], code)?;
            for function in &library.functions {
                let entry = Entry { name: "".into(), number: 0, flags: 0 };
                if restored.functions.insert(function.name.to_ascii_lowercase(), entry).is_some() {
                    return Err([b"Function ", &function.name[..], b" already exists"].concat());
                }
            }
            restored.by_name.insert(heading.name, library);
        }
        self.make_room(vm, &restored, policy)?;
        restored.by_name.into_values().for_each(|library| self.link(vm, library));
        Ok(())
    }

    /// Deletes libraries by the policy, unless the remaining ones conflict.
    fn make_room(&mut self, vm: &Vm, restored: &Libraries, policy: Restore) -> Result<(), Vec<u8>> {
        let goes = |name: &Vec<u8>| match policy {
            Restore::Append => false,
            Restore::Replace => restored.by_name.contains_key(name),
            Restore::Flush => true,
        };
        if let Some(name) = restored.by_name.keys().find(|name| self.by_name.contains_key(*name) && !goes(name)) {
            return Err([b"Library ", &name[..], b" already exists"].concat());
        }
        for library in self.by_name.values().filter(|library| !goes(&library.name)) {
            if let Some(taken) = library.functions.iter().find(|function| restored.function(&function.name).is_some()) {
                return Err([b"Function ", &taken.name[..], b" already exists"].concat());
            }
        }
        let gone: Vec<Vec<u8>> = self.by_name.keys().filter(|name| goes(name)).cloned().collect();
        for name in &gone {
            self.delete(vm, name);
        }
        Ok(())
    }

    fn link(&mut self, vm: &Vm, mut library: Library) {
        for function in &mut library.functions {
            self.linked += 1;
            function.function.take().into_iter().for_each(|code| vm.define(self.linked, code));
            let name = String::from_utf8_lossy(&function.name).into();
            let entry = Entry { name, number: self.linked, flags: function.flags };
            self.functions.insert(function.name.to_ascii_lowercase(), entry);
        }
        self.library_bytes += library.memory();
        self.by_name.insert(library.name.clone(), library);
    }
}

impl Library {
    fn has(&self, function: &[u8]) -> bool {
        self.functions.iter().any(|known| known.name.eq_ignore_ascii_case(function))
    }

    /// Returns the memory of its texts, and of its functions with their entries among those of all libraries. Names are
    /// also in the maps.
    fn memory(&self) -> usize {
        let function = |function: &Registered| {
            let (name, description) = (function.name.len(), function.description.as_ref().map_or(0, Vec::len));
            2 * allocation_len(name) + allocation_len(COUNTED_LEN + name) + allocation_len(description)
        };
        let functions = list_len::<Registered>(self.functions.capacity());
        let texts = 2 * allocation_len(self.name.len()) + allocation_len(self.code.len());
        texts + functions + self.functions.iter().map(function).sum::<usize>()
    }
}

fn check_heading(heading: &shebang::Heading) -> Result<(), Vec<u8>> {
    if !is_name(&heading.name) {
        return Err(NAME_RULE.into());
    }
    if !heading.engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"Engine '", &heading.engine[..], b"' not found"].concat());
    }
    Ok(())
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The functions that a library registers while its text runs.
#[derive(Default)]
struct Registrations(Mutex<Vec<Registered>>);

fn run_library(vm: &Vm, name: &[u8], text: &[u8], code: &[u8]) -> Result<Library, Vec<u8>> {
    let complain = |what: &str, complaint: Vec<u8>| [what.as_bytes(), &complaint].concat();
    let compiled =
        vm.compile(text, "@user_function").map_err(|complaint| complain("Error compiling function: ", complaint))?;
    vm.lua().set_app_data(Registrations::default());
    let ran = vm.load(compiled);
    let registered = vm.lua().remove_app_data::<Registrations>().unwrap_or_default();
    ran.map_err(|complaint| complain("Error registering functions: ", complaint))?;
    let functions = registered.0.into_inner();
    if functions.is_empty() {
        return Err(b"No functions registered".to_vec());
    }
    Ok(Library { name: name.to_vec(), code: code.to_vec(), functions })
}

/// The function `redis.register_function`.
pub(super) fn register(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    let Some(registrations) = lua.app_data_ref::<Registrations>() else {
        return Err(raise::reply_on_api(lua, "redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let args = Arguments::new(lua, args);
    let registered = match args.len() {
        1 => named(lua, &args),
        2 => positional(lua, &args),
        _ => Err("wrong number of arguments to redis.register_function"),
    };
    let registered = registered.map_err(|complaint| raise::reply_on_api(lua, complaint))?;
    let mut functions = registrations.0.lock();
    if !is_name(&registered.name) {
        return Err(raise::reply(NAME_RULE));
    }
    if functions.iter().any(|known| known.name == registered.name) {
        return Err(raise::reply("Function already exists in the library"));
    }
    functions.push(registered);
    Ok(())
}

/// Returns a string or a number as text.
fn text(lua: &Lua, value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            lua.coerce_string(value.clone()).ok().flatten().map(|text| text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn positional(lua: &Lua, args: &Arguments<'_>) -> Result<Registered, &'static str> {
    let name = text(lua, &args.value(1)).ok_or("first argument to redis.register_function must be a string")?;
    let Value::Function(function) = args.value(2) else {
        return Err("second argument to redis.register_function must be a function");
    };
    Ok(Registered { name, description: None, flags: 0, function: Some(function) })
}

fn named(lua: &Lua, args: &Arguments<'_>) -> Result<Registered, &'static str> {
    let Value::Table(named) = args.value(1) else {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named \
             arguments).",
        );
    };
    let (mut name, mut description, mut function, mut flags) = (None, None, None, 0);
    for pair in named.pairs::<Value, Value>() {
        let Ok((key, value)) = pair else { return Err("unknown argument given to redis.register_function") };
        let key = text(lua, &key).ok_or("named argument key given to redis.register_function is not a string")?;
        match &key.to_ascii_lowercase()[..] {
            b"function_name" => {
                let given = text(lua, &value);
                name = Some(given.ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            b"description" => {
                let given = text(lua, &value);
                description =
                    Some(given.ok_or("description argument given to redis.register_function must be a string")?);
            }
            b"callback" => match value {
                Value::Function(given) => function = Some(given),
                _ => return Err("callback argument given to redis.register_function must be a function"),
            },
            b"flags" => match value {
                Value::Table(names) => flags = read_flags(lua, &names).ok_or("unknown flag given")?,
                _ => {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags",
                    );
                }
            },
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let function = function.ok_or("redis.register_function must get a callback argument")?;
    Ok(Registered { name, description, flags, function: Some(function) })
}

fn read_flags(lua: &Lua, names: &Table) -> Option<Flags> {
    let mut flags = 0;
    for index in 1.. {
        match names.raw_get::<Value>(index).ok()? {
            Value::Nil => break,
            name => flags |= shebang::flag(&text(lua, &name)?.to_ascii_lowercase())?,
        }
    }
    Some(flags)
}
