//! The users by name, and their memory.

use std::sync::Arc;

use crate::acl::User;
use crate::memory::ordered_map::OrderedMap;

#[derive(Default)]
pub(super) struct Users {
    by_name: OrderedMap<Arc<[u8]>, Arc<User>>,
    /// The bytes allocated by the users.
    bytes: usize,
}

impl Users {
    pub(super) fn memory(&self) -> usize {
        self.by_name.memory() + self.bytes
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<Arc<User>> {
        self.by_name.get(name).cloned()
    }

    /// Iterates over the users, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_name.values()
    }

    /// Adds a user, or replaces the user of this name.
    pub(super) fn insert(&mut self, user: User) -> Arc<User> {
        let user = Arc::new(user);
        self.bytes += user.memory();
        let replaced = self.by_name.insert(user.name.clone(), user.clone());
        self.bytes -= replaced.map_or(0, |replaced| replaced.memory());
        user
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Arc<User>> {
        let removed = self.by_name.remove(name)?;
        self.bytes -= removed.memory();
        Some(removed)
    }
}
