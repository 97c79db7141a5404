//! Source texts of scripts and of libraries of functions, for snapshots and for files.

use std::sync::Arc;

#[cfg(feature = "lua")]
use parking_lot::Mutex;

use crate::client::staged::ChangedFunctions;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
#[cfg(feature = "lua")]
use crate::script::{Functions, Libraries, Restore};

/// Returns the source code of all libraries of functions.
#[cfg(feature = "lua")]
pub(crate) fn libraries(namespace: &Namespace) -> Arc<Vec<Vec<u8>>> {
    Arc::new(namespace.scripts.engines().libraries.texts())
}

/// Returns the IDs and the source code of all libraries of functions as staged calls have changed them, if they have.
#[cfg(feature = "lua")]
pub(crate) fn changed_libraries(namespace: &Namespace, functions: &ChangedFunctions) -> Option<Vec<(u64, Vec<u8>)>> {
    let changed = functions.downcast_ref::<Mutex<Libraries>>()?.lock();
    changed.differ_from(&namespace.scripts.engines().libraries).then(|| changed.accepted())
}

#[cfg(feature = "lua")]
pub(super) fn scripts(namespace: &Namespace) -> Arc<Vec<(Box<[u8]>, bool)>> {
    Arc::new(namespace.scripts.engines().cache.texts())
}

/// Returns none: this build has no scripts.
#[cfg(not(feature = "lua"))]
pub(crate) fn libraries(_: &Namespace) -> Arc<Vec<Vec<u8>>> {
    Arc::default()
}

#[cfg(not(feature = "lua"))]
pub(crate) fn changed_libraries(_: &Namespace, _: &ChangedFunctions) -> Option<Vec<(u64, Vec<u8>)>> {
    None
}

#[cfg(not(feature = "lua"))]
pub(super) fn scripts(_: &Namespace) -> Arc<Vec<(Box<[u8]>, bool)>> {
    Arc::default()
}

/// Forgets all scripts, not the libraries of functions.
#[cfg(feature = "lua")]
pub(super) fn forget_scripts(namespace: &Namespace) {
    namespace.scripts.engines().flush_scripts();
}

#[cfg(not(feature = "lua"))]
pub(super) fn forget_scripts(_: &Namespace) {}

#[cfg(feature = "lua")]
pub(super) fn library_error(text: Vec<u8>) -> Error {
    Error::other(String::from_utf8_lossy(&text).into_owned())
}

/// Replaces the libraries of functions by libraries with this source code.
///
/// # Errors
/// An error when a library cannot be loaded.
#[cfg(feature = "lua")]
pub(crate) fn set_libraries(namespace: &Namespace, libraries: &[Vec<u8>]) -> Result<()> {
    let set = namespace.scripts.engines().set_libraries(&namespace.scripts.control, libraries);
    set.map_err(library_error)
}

#[cfg(not(feature = "lua"))]
pub(crate) fn set_libraries(_: &Namespace, _: &[Vec<u8>]) -> Result<()> {
    Ok(())
}

/// Replaces the libraries of functions by these, given by ID and source code; a library whose ID is among them is kept.
///
/// # Errors
/// An error when a library cannot be loaded.
#[cfg(feature = "lua")]
pub(crate) fn accept_libraries(namespace: &Namespace, libraries: &[(u64, Vec<u8>)]) -> Result<()> {
    let accepted = namespace.scripts.engines().accept_libraries(&namespace.scripts.control, libraries);
    accepted.map_err(library_error)
}

#[cfg(not(feature = "lua"))]
pub(crate) fn accept_libraries(_: &Namespace, _: &[(u64, Vec<u8>)]) -> Result<()> {
    Ok(())
}

/// Adds libraries of functions with this source code. An existing library of the same name is replaced, or is an error.
///
/// # Errors
/// An error when a library cannot be loaded; then none is added.
#[cfg(feature = "lua")]
pub(crate) fn add_libraries(namespace: &Namespace, libraries: &[Vec<u8>], replaces: bool) -> Result<()> {
    let mut engines = namespace.scripts.engines();
    let Functions { vm, libraries: all, .. } = engines.functions(&namespace.scripts.control);
    let policy = if replaces { Restore::Replace } else { Restore::Append };
    all.restore(vm, libraries, policy).map_err(library_error)
}

#[cfg(not(feature = "lua"))]
pub(crate) fn add_libraries(_: &Namespace, _: &[Vec<u8>], _: bool) -> Result<()> {
    Ok(())
}
