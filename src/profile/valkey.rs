//! Versions of Valkey.
//!
//! Valkey began as Redis 7.2.4; what it has added since stands on the rows of the commands, whose source is
//! <https://valkey.io/commands/>. Modules are not part of it: <https://valkey.io/topics/modules-intro/>

use crate::profile::identity::Identity;
use crate::profile::service::Profile;
use crate::profile::version::{ServerRelease, Version};
use crate::text::Dialect;

/// The version of Redis that INFO reports in all versions of Valkey:
/// <https://github.com/valkey-io/valkey/blob/unstable/src/version.h>
const COMPATIBLE_WITH: &str = "7.2.4";

/// Valkey 7.2, which says in HELLO that it is Redis 7.2.4 and has Redis' error messages; INFO has its own name:
/// <https://github.com/valkey-io/valkey/releases/tag/7.2.4-rc1>
pub(super) const fn of_7_2(name: &'static str, info: &'static [(&'static str, &'static str)]) -> Profile {
    let identity = Identity { hello: ("redis", COMPATIBLE_WITH), redis_version: COMPATIBLE_WITH, info };
    Profile::of_version(name, identity, Dialect::Redis, ServerRelease::Valkey(Version::parse(COMPATIBLE_WITH)))
}

/// Valkey from 8.0 on, which says its own name and version in HELLO unless `extended-redis-compatibility` is set:
/// <https://github.com/valkey-io/valkey/blob/8.0/src/networking.c>
pub(super) const fn version(
    name: &'static str,
    version: &'static str,
    info: &'static [(&'static str, &'static str)],
) -> Profile {
    let identity = Identity { hello: ("valkey", version), redis_version: COMPATIBLE_WITH, info };
    Profile::of_version(name, identity, Dialect::Valkey, ServerRelease::Valkey(Version::parse(version)))
}

pub(super) static VALKEY_7_2: Profile =
    of_7_2("valkey-7.2", &[("server_name", "valkey"), ("valkey_version", "7.2.11")]);
pub(super) static VALKEY_8_1: Profile =
    version("valkey-8.1", "8.1.0", &[("server_name", "valkey"), ("valkey_version", "8.1.0")]);
pub(super) static VALKEY_9_0: Profile =
    version("valkey-9.0", "9.0.0", &[("server_name", "valkey"), ("valkey_version", "9.0.0")]);
