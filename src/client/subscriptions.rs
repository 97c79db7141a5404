//! What one client has subscribed to; who is subscribed to a channel is known to the hub.

use std::collections::HashMap;

use bytes::Bytes;

use crate::client::registry::ChannelKind;

/// A map from names of channels or patterns.
pub(crate) type Names<T> = HashMap<Bytes, T, ahash::RandomState>;

/// Remembers what one client is subscribed to. Allocates nothing before the first subscription.
#[derive(Default)]
pub struct Subscriptions(Option<Box<[Names<u64>; 3]>>);

impl Subscriptions {
    /// Returns the names of a kind, each with the number of its subscription; makes room for them.
    pub fn of_mut(&mut self, topic: ChannelKind) -> &mut Names<u64> {
        &mut self.0.get_or_insert_default()[topic as usize]
    }

    /// Returns the names of a kind; `None` before the first subscription.
    pub fn get_mut(&mut self, topic: ChannelKind) -> Option<&mut Names<u64>> {
        self.0.as_mut().map(|own| &mut own[topic as usize])
    }

    /// Returns the names that the client has subscribed to, the oldest first.
    pub fn names(&self, topic: ChannelKind) -> Vec<Bytes> {
        let Some(own) = &self.0 else { return Vec::new() };
        let mut names: Vec<(u64, &Bytes)> = own[topic as usize].iter().map(|(name, number)| (*number, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name.clone()).collect()
    }
}
