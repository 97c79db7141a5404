//! Keyspace events of other processes, as this process emits them.

use std::collections::HashMap;

use crate::store::{Classes, Event};

/// Largest number of different events: several times as many as the commands of all versions cause.
const EVENTS_MAX: usize = 1024;

/// The events received so far, each kept for ever, like those of this process' commands.
#[derive(Default)]
pub(super) struct KnownEvents(HashMap<(u32, Box<str>), &'static Event>);

impl KnownEvents {
    /// Returns the event of a class with a name; `None` beyond the largest number.
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
