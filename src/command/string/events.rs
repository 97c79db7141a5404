//! The keyspace events that several commands for strings emit.

use crate::store::{Classes, Event};

/// A key was set to a string.
pub(crate) const SET: &Event = &Event::one(Classes::STRING, "set").replacing();
/// A key was set to a string with a deadline.
pub(crate) const SET_EX: &Event = &Event::one(Classes::STRING, "set").then(Classes::GENERIC, "expire").replacing();
/// An integer was added.
pub(super) const INCRBY: &Event = &Event::one(Classes::STRING, "incrby");
/// A floating-point number was added.
pub(super) const INCRBYFLOAT: &Event = &Event::one(Classes::STRING, "incrbyfloat");
