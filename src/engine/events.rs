//! Keyspace events that other processes have caused, as this one emits them.

use std::collections::HashMap;

use crate::store::{Classes, Event};

/// How many different events there may be: several times as many as the commands of all versions cause.
const EVENTS_MAX: usize = 1024;

/// The events that were heard of, each kept for ever, as those of this process' commands are.
#[derive(Default)]
pub(super) struct KnownEvents(HashMap<(u32, Box<str>), &'static Event>);

impl KnownEvents {
    /// Returns the event of a class with a name; `None` for more than there can be.
    pub(super) fn get(&mut self, class: u32, name: &str) -> Option<&'static Event> {
        if let Some(known) = self.0.get(&(class, name.into())) {
            return Some(known);
        }
        if self.0.len() >= EVENTS_MAX {
            return None;
        }
        let class_of = Classes::from_bits(class);
        let event: &'static Event = Box::leak(Box::new(Event::one(class_of, Box::leak(name.into()))));
        self.0.insert((class, name.into()), event);
        Some(event)
    }
}
