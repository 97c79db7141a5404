//! The client types by which CLIENT LIST and CLIENT KILL select.

use crate::client::info::{Class, ClientInfo};
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};

/// A client type of CLIENT LIST and CLIENT KILL; `None` is the type of the link to a primary.
#[derive(Clone, Copy)]
pub(super) struct ClientType(Option<Class>);

impl ClientType {
    pub(super) fn parse(word: &[u8]) -> Result<Self> {
        let types = [
            ("normal", Some(Class::Normal)),
            ("slave", Some(Class::Replica)),
            ("replica", Some(Class::Replica)),
            ("pubsub", Some(Class::Subscriber)),
            ("master", None),
        ];
        let found = types.into_iter().find(|(name, _)| is_word(word, name));
        found.map(|(_, class)| ClientType(class)).ok_or_else(|| Error::UnknownClientType(word.to_vec()))
    }

    pub(super) fn is_that_of(self, client: &ClientInfo) -> bool {
        self.0 == (!client.flags.is_primary()).then(|| client.session.class())
    }
}
