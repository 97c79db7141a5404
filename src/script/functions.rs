//! Libraries of functions: loaded by FUNCTION LOAD, called by FCALL.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::memory::heap::{allocation_len, hash_map_len, list_len};
use crate::memory::ordered_map::OrderedMap;
use crate::script::control::{ACCEPTED_LOAD_MS_MAX, LOAD_MS_MAX};
use crate::script::register::{NAME_RULE, is_name};
use crate::script::shared::Registered;
use crate::script::shebang;
use crate::script::shebang::{ScriptFlags, Shebang};
use crate::script::vm::{Unused, Vm};

/// The libraries of functions of an interpreter; a copy shares them.
#[derive(Clone, Default)]
pub struct Libraries {
    by_name: OrderedMap<Vec<u8>, Arc<Library>>,
    /// The functions by their names in lower case.
    functions: HashMap<Vec<u8>, FunctionEntry, ahash::RandomState>,
    /// Memory of all libraries: texts, names and records of functions.
    library_bytes: usize,
}

/// A library, whose functions are in an interpreter as long as this exists.
pub(crate) struct Library {
    /// Random ID, given when the library was loaded at first.
    id: u64,
    pub name: Vec<u8>,
    /// The text, the first line included.
    pub code: Vec<u8>,
    /// The functions, in the order of their registration.
    pub functions: Vec<Registered>,
    unused: Unused,
}

/// The text of a library that a server has accepted, and the library's ID; 0 if it is not known.
pub(crate) type AcceptedLibrary = (u64, Vec<u8>);

/// The attributes of a function that FCALL needs.
#[derive(Clone, Debug)]
pub struct FunctionEntry {
    /// The name as text.
    pub name: Box<str>,
    /// The number in the interpreter.
    pub number: usize,
    /// The flags.
    pub flags: ScriptFlags,
}

/// The treatment of existing libraries by FUNCTION RESTORE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// All are kept; a library of the same name is an error.
    Append,
    /// Libraries of the same name are replaced, others kept.
    Replace,
    /// All are deleted.
    Flush,
}

impl Libraries {
    /// Returns all libraries, by name.
    pub(crate) fn all(&self) -> &OrderedMap<Vec<u8>, Arc<Library>> {
        &self.by_name
    }

    /// Returns the texts of all libraries with their IDs, in the order of their names.
    pub(crate) fn accepted(&self) -> Vec<AcceptedLibrary> {
        self.by_name.values().map(|library| (library.id, library.code.clone())).collect()
    }

    /// Returns true if these are other libraries than others, or were loaded again.
    pub(crate) fn differ_from(&self, others: &Libraries) -> bool {
        !self.by_name.values().map(|library| library.id).eq(others.by_name.values().map(|library| library.id))
    }

    /// Returns the texts of all libraries, in the order of their names.
    pub(crate) fn texts(&self) -> Vec<Vec<u8>> {
        self.by_name.values().map(|library| library.code.clone()).collect()
    }

    /// Finds a function by its name, case-insensitive.
    #[inline]
    pub fn function(&self, name: &[u8]) -> Option<&FunctionEntry> {
        self.functions.get(name).or_else(|| self.functions.get(&name.to_ascii_lowercase()))
    }

    /// Returns the number of functions.
    pub fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Returns the memory of the libraries in bytes.
    pub fn bytes(&self) -> usize {
        let functions = hash_map_len::<Vec<u8>, FunctionEntry>(self.functions.capacity());
        self.library_bytes + self.by_name.memory() + functions
    }

    /// Loads a library and returns its name.
    ///
    /// # Errors
    /// A description of the fault; the libraries are unchanged.
    pub fn load(&mut self, vm: &mut Vm, code: &[u8], replace: bool) -> Result<Vec<u8>, Vec<u8>> {
        let shebang = shebang::of_library(code)?;
        check_shebang(&shebang)?;
        let name = shebang.name;
        if self.by_name.contains_key(&name) && !replace {
            return Err([b"Library '", &name[..], b"' already exists"].concat());
        }
        let library =
            run_library(vm, (&name, getrandom::u64().unwrap_or_default()), (&code[shebang.end..], code), LOAD_MS_MAX)?;
        let is_taken = |function: &&Registered| {
            let is_own = self.by_name.get(&name).is_some_and(|old| old.has(&function.name));
            self.function(&function.name).is_some() && !is_own
        };
        if let Some(taken) = library.functions.iter().find(is_taken) {
            return Err([b"Function ", &taken.name[..], b" already exists"].concat());
        }
        self.delete(vm, &name);
        self.link(Arc::new(library));
        Ok(name)
    }

    /// Deletes a library; returns true if it existed.
    pub fn delete(&mut self, vm: &mut Vm, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        self.library_bytes -= library.memory();
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        drop(library);
        vm.forget_unused();
        true
    }

    /// Loads the libraries of a FUNCTION DUMP.
    ///
    /// # Errors
    /// A description of the fault; the libraries are unchanged.
    pub fn restore(&mut self, vm: &mut Vm, codes: &[Vec<u8>], policy: Restore) -> Result<(), Vec<u8>> {
        let mut restored = Libraries::default();
        codes
            .iter()
            .try_for_each(|code| restored.add(vm, code, (getrandom::u64().unwrap_or_default(), LOAD_MS_MAX)))?;
        let names: HashSet<Vec<u8>> = restored.by_name.keys().cloned().collect();
        let is_gone = |library: &Library| match policy {
            Restore::Append => false,
            Restore::Replace => names.contains(&library.name),
            Restore::Flush => true,
        };
        self.join(vm, restored, is_gone)
    }

    /// Deletes libraries and adds loaded ones, unless these conflict with the remaining ones.
    fn join(&mut self, vm: &mut Vm, added: Libraries, is_gone: impl Fn(&Library) -> bool) -> Result<(), Vec<u8>> {
        self.make_room(vm, &added, is_gone)?;
        added.by_name.into_values().for_each(|library| self.link(library));
        Ok(())
    }

    /// Replaces the libraries by these, which a server has accepted before: a slow machine must not change the outcome. A
    /// library whose ID is among them is kept.
    ///
    /// # Errors
    /// A description of the fault; the libraries are unchanged.
    pub(super) fn set(&mut self, vm: &mut Vm, accepted: &[AcceptedLibrary]) -> Result<(), Vec<u8>> {
        let wanted: HashSet<u64> = accepted.iter().map(|(id, _)| *id).collect();
        let known: HashSet<u64> = self.by_name.values().map(|library| library.id).filter(|id| *id != 0).collect();
        let mut added = Libraries::default();
        for (id, text) in accepted.iter().filter(|(id, _)| !known.contains(id)) {
            added.add(vm, text, (*id, ACCEPTED_LOAD_MS_MAX))?;
        }
        self.join(vm, added, |library| library.id == 0 || !wanted.contains(&library.id))
    }

    /// Loads a library next to others that are restored with it; none of them is linked yet.
    fn add(&mut self, vm: &mut Vm, code: &[u8], (id, limit_ms): (u64, u64)) -> Result<(), Vec<u8>> {
        let shebang = shebang::of_library(code)?;
        check_shebang(&shebang)?;
        if self.by_name.contains_key(&shebang.name) {
            return Err([b"Library '", &shebang.name[..], b"' already exists"].concat());
        }
        let library = run_library(vm, (&shebang.name, id), (&code[shebang.end..], code), limit_ms)?;
        for function in &library.functions {
            let entry = FunctionEntry { name: "".into(), number: 0, flags: 0 };
            if self.functions.insert(function.name.to_ascii_lowercase(), entry).is_some() {
                return Err([b"Function ", &function.name[..], b" already exists"].concat());
            }
        }
        self.by_name.insert(shebang.name, Arc::new(library));
        Ok(())
    }

    /// Deletes libraries, unless the remaining ones conflict with those to be added.
    fn make_room(&mut self, vm: &mut Vm, added: &Libraries, is_gone: impl Fn(&Library) -> bool) -> Result<(), Vec<u8>> {
        for library in self.by_name.values().filter(|library| !is_gone(library)) {
            if added.by_name.contains_key(&library.name) {
                return Err([b"Library ", &library.name[..], b" already exists"].concat());
            }
        }
        for library in self.by_name.values().filter(|library| !is_gone(library)) {
            if let Some(taken) = library.functions.iter().find(|function| added.function(&function.name).is_some()) {
                return Err([b"Function ", &taken.name[..], b" already exists"].concat());
            }
        }
        let gone: Vec<Vec<u8>> =
            self.by_name.values().filter(|library| is_gone(library)).map(|library| library.name.clone()).collect();
        for name in &gone {
            self.delete(vm, name);
        }
        Ok(())
    }

    fn link(&mut self, library: Arc<Library>) {
        for function in &library.functions {
            let name = String::from_utf8_lossy(&function.name).into();
            let entry = FunctionEntry { name, number: function.number, flags: function.flags };
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

    /// Returns the memory of the library's texts and functions. Names of the library and of functions are counted again
    /// for the keys of the maps.
    fn memory(&self) -> usize {
        let function = |function: &Registered| {
            let (name, description) = (function.name.len(), function.description.as_ref().map_or(0, Vec::len));
            3 * allocation_len(name) + allocation_len(description)
        };
        let functions = list_len::<Registered>(self.functions.capacity());
        let own = allocation_len(size_of::<Self>() + 2 * size_of::<usize>()); // in an `Arc`
        let texts = own + 2 * allocation_len(self.name.len()) + allocation_len(self.code.len());
        texts + functions + self.functions.iter().map(function).sum::<usize>()
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.unused.lock().extend(self.functions.iter().map(|function| function.number));
    }
}

fn check_shebang(shebang: &Shebang) -> Result<(), Vec<u8>> {
    if !is_name(&shebang.name) {
        return Err(NAME_RULE.into());
    }
    if !shebang.engine.eq_ignore_ascii_case(b"lua") {
        return Err([b"Engine '", &shebang.engine[..], b"' not found"].concat());
    }
    Ok(())
}

fn run_library(
    vm: &mut Vm,
    (name, id): (&[u8], u64),
    (text, code): (&[u8], &[u8]),
    limit_ms: u64,
) -> Result<Library, Vec<u8>> {
    let complain = |what: &str, complaint: Vec<u8>| [what.as_bytes(), &complaint].concat();
    let compiled =
        vm.compile(text, "@user_function").map_err(|complaint| complain("Error compiling function: ", complaint))?;
    let functions =
        vm.load(compiled, limit_ms).map_err(|complaint| complain("Error registering functions: ", complaint))?;
    if functions.is_empty() {
        return Err(b"No functions registered".to_vec());
    }
    Ok(Library { id, name: name.to_vec(), code: code.to_vec(), functions, unused: vm.unused() })
}
