//! The services and versions that the server can answer as (`profile`), a row each.
//!
//! A row says what a client sees of a service and what the service refuses. The commands, subcommands and arguments that a
//! version lacks are not listed: they follow from the versions on the rows of the commands. Beside each fact stands its
//! public source; what no public source says is not claimed, and docs/PROFILES.md says what is unknown.

mod amazon;
mod google;
mod identity;
mod microsoft;
mod others;
mod redis;
mod service;
mod texts;
mod valkey;
mod version;

pub(crate) use identity::Identity;
pub(crate) use service::Profile;
pub(crate) use service::{SETTING, Slots};
pub(crate) use texts::{RefusalReply, no_permission};
pub(crate) use version::{Since, Version};

/// All profiles.
pub(crate) const ROWS: [&Profile; 17] = [
    &redis::REDIS_6_2,
    &redis::REDIS_7_2,
    &redis::REDIS_7_4,
    &redis::REDIS_8_0,
    &redis::REDIS_8_4,
    &valkey::VALKEY_7_2,
    &valkey::VALKEY_8_1,
    &valkey::VALKEY_9_0,
    &amazon::ELASTICACHE,
    &amazon::ELASTICACHE_SERVERLESS,
    &amazon::MEMORYDB,
    &google::MEMORYSTORE,
    &google::MEMORYSTORE_CLUSTER,
    &microsoft::AZURE_CACHE,
    &microsoft::AZURE_MANAGED_REDIS,
    &others::UPSTASH,
    &others::DRAGONFLY,
];

/// The values of the setting: no profile, and the names of all.
pub(crate) const WORDS: &[&str] = &{
    let mut words = [""; ROWS.len() + 1];
    let mut at = 0;
    while at < ROWS.len() {
        words[at + 1] = ROWS[at].name;
        at += 1;
    }
    words
};

impl Profile {
    /// Returns the position in [`ROWS`].
    pub(crate) fn number(&self) -> usize {
        ROWS.iter().position(|row| std::ptr::eq(*row, self)).unwrap_or_default()
    }

    /// Finds a profile by its name.
    pub(crate) fn find(name: &[u8]) -> Option<&'static Profile> {
        ROWS.iter().copied().find(|row| row.name.as_bytes() == name)
    }
}
