//! Versions of Redis.
//!
//! Their commands follow from the versions on the rows of the commands, whose source is Redis' own reference:
//! <https://redis.io/docs/latest/commands/>.

use crate::profile::identity::Identity;
use crate::profile::service::Profile;
use crate::profile::texts::{NoCommand, NoSubcommand};
use crate::profile::version::{ServerRelease, Version};
use crate::text::Dialect;

/// The groups of modules that are part of Redis since 8.0: <https://redis.io/docs/latest/develop/whats-new/8-0/>
const SINCE_8: &[&str] = &["json", "bf", "cf", "cms", "topk", "tdigest"];

/// Describes a version of Redis.
pub(super) const fn version(name: &'static str, version: &'static str) -> Profile {
    let engine = ServerRelease::Redis(Version::parse(version));
    Profile::of_version(name, Identity::redis(version), Dialect::Redis, engine)
}

/// Describes a version of Redis before 7.0. It quotes unknown commands between backquotes, and has one text for
/// subcommands: <https://github.com/redis/go-redis/issues/3352>, <https://github.com/redis/redis/blob/6.2/src/server.c>
pub(super) const fn old_version(name: &'static str, number: &'static str) -> Profile {
    Profile { no_command: NoCommand::Backquoted, no_subcommand: NoSubcommand::OrArguments, ..version(name, number) }
}

pub(super) static REDIS_6_2: Profile = old_version("redis-6.2", "6.2.14");
pub(super) static REDIS_7_2: Profile = version("redis-7.2", "7.2.4");
pub(super) static REDIS_7_4: Profile = version("redis-7.4", "7.4.0");
pub(super) static REDIS_8_0: Profile = Profile { modules: SINCE_8, ..version("redis-8.0", "8.0.0") };
pub(super) static REDIS_8_4: Profile = Profile { modules: SINCE_8, ..version("redis-8.4", "8.4.0") };
