//! The names that a client has set for itself.

use std::ops::Deref;
use std::sync::Arc;

use crate::memory::heap::list_len;
use crate::store::MemoryAccount;

/// Names that the client has set for itself.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// From CLIENT SETNAME or HELLO.
    pub name: Box<str>,
    /// From CLIENT SETINFO LIB-NAME.
    pub lib_name: Box<str>,
    /// From CLIENT SETINFO LIB-VER.
    pub lib_ver: Box<str>,
}

impl ClientNames {
    /// Returns the bytes allocated.
    fn memory(&self) -> usize {
        [&self.name, &self.lib_name, &self.lib_ver].map(|name| list_len::<u8>(name.len())).iter().sum()
    }
}

/// Names that are counted as used memory for as long as they are kept.
pub(super) struct CountedNames {
    names: ClientNames,
    memory_account: Arc<MemoryAccount>,
}

impl CountedNames {
    /// Creates empty names.
    pub(super) fn new(memory_account: Arc<MemoryAccount>) -> Self {
        CountedNames { names: ClientNames::default(), memory_account }
    }

    /// Changes the names; returns by how many bytes they have grown.
    pub(super) fn update(&mut self, change: impl FnOnce(&mut ClientNames)) -> isize {
        let before = self.names.memory();
        change(&mut self.names);
        let after = self.names.memory();
        self.memory_account.report_outside(before, after);
        after as isize - before as isize
    }
}

impl Deref for CountedNames {
    type Target = ClientNames;

    fn deref(&self) -> &ClientNames {
        &self.names
    }
}

impl Drop for CountedNames {
    fn drop(&mut self) {
        self.memory_account.report_outside(self.names.memory(), 0);
    }
}
