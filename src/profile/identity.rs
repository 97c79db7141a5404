//! The names and versions that a server reports.

use crate::text::{REDIS_VERSION, VALKEY_VERSION};

/// The names and versions that a server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The name and the version in the reply to HELLO.
    pub(crate) hello: (&'static str, &'static str),
    /// The version of Redis that INFO and scripts report.
    pub(crate) redis_version: &'static str,
    /// Fields of INFO that only this server has, or that have another value there.
    pub(crate) info: &'static [(&'static str, &'static str)],
}

impl Identity {
    /// The identity of the server without a profile.
    pub(crate) const REDIS: Identity = Identity::redis(REDIS_VERSION);
    /// The identity of the server without a profile, in Valkey's dialect.
    pub(crate) const VALKEY: Identity = Identity {
        hello: ("valkey", VALKEY_VERSION),
        redis_version: REDIS_VERSION,
        info: &[("server_name", "valkey"), ("valkey_version", VALKEY_VERSION)],
    };

    /// Describes a server of Redis.
    pub(super) const fn redis(version: &'static str) -> Identity {
        Identity { hello: ("redis", version), redis_version: version, info: &[] }
    }

    /// Returns the value of a field of INFO that is this server's own.
    pub(crate) fn field(&self, name: &str) -> Option<&'static str> {
        self.info.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}
