//! The keyspace events that several commands for strings emit.

use crate::store::{Classes, Event};

/// The event of setting a key to a string.
pub(crate) const SET: &Event = &Event::one(Classes::STRING, "set").replacing();
/// The event of setting a key to a string with a deadline.
pub(crate) const SET_EX: &Event = &Event::one(Classes::STRING, "set").then(Classes::GENERIC, "expire").replacing();
/// The event of adding an integer.
pub(super) const INCRBY: &Event = &Event::one(Classes::STRING, "incrby");
/// The event of adding a floating-point number.
pub(super) const INCRBYFLOAT: &Event = &Event::one(Classes::STRING, "incrbyfloat");
