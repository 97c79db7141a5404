//! The subscriptions of one client; the subscribers of a channel are in the hub.

use std::collections::HashMap;

use bytes::Bytes;

use crate::client::info::ChannelKind;

/// A map by the name of a channel or pattern.
pub(crate) type ByName<T> = HashMap<Bytes, T, ahash::RandomState>;

/// The subscriptions of one client. Allocates nothing before the first one.
#[derive(Default)]
pub struct Subscriptions(Option<Box<[ByName<u64>; 3]>>);

impl Subscriptions {
    /// Returns the names of a kind, each with its subscription's number; allocates the maps if necessary.
    pub fn of_mut(&mut self, channel_kind: ChannelKind) -> &mut ByName<u64> {
        &mut self.0.get_or_insert_default()[channel_kind as usize]
    }

    /// Returns the names of a kind; `None` before the first subscription.
    pub fn get_mut(&mut self, channel_kind: ChannelKind) -> Option<&mut ByName<u64>> {
        self.0.as_mut().map(|own| &mut own[channel_kind as usize])
    }

    /// Returns the subscribed names of a kind, oldest first.
    pub fn names(&self, channel_kind: ChannelKind) -> Vec<Bytes> {
        let Some(own) = &self.0 else { return Vec::new() };
        let mut names: Vec<(u64, &Bytes)> =
            own[channel_kind as usize].iter().map(|(name, number)| (*number, name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name.clone()).collect()
    }
}
