//! Versions of servers, and the commands that a version has.

/// A version: major, minor and patch.
type Version = (u16, u16, u16);

/// The version of Redis that Valkey began as: it has all that this one had.
const FORK: Version = (7, 2, 4);

/// The versions in which commands and arguments appeared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since<'s> {
    /// The version of Redis; of Valkey, where Redis never had it. Empty if always.
    pub(crate) redis: &'s str,
    /// The version of Valkey, where it is another one.
    pub(crate) valkey: Option<&'s str>,
    /// True if only Valkey has it.
    pub(crate) is_only_valkey: bool,
}

/// The server whose commands a service has, and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerRelease {
    Redis(&'static str),
    Valkey(&'static str),
}

impl ServerRelease {
    /// Returns whether this version has what appeared in these versions. What is keylatch's own no other server has.
    pub(crate) fn has(self, since: Since<'_>) -> bool {
        let first = parse(since.redis);
        if !since.redis.is_empty() && first.0 == 0 {
            return false;
        }
        match self {
            ServerRelease::Redis(version) => !since.is_only_valkey && first <= parse(version),
            ServerRelease::Valkey(version) => match since.valkey {
                Some(first) => parse(first) <= parse(version),
                None => first <= parse(version) && (since.is_only_valkey || first <= FORK),
            },
        }
    }
}

fn parse(version: &str) -> Version {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since<'s>(redis: &'s str, valkey: Option<&'s str>) -> Since<'s> {
        Since { redis, valkey, is_only_valkey: false }
    }

    #[test]
    fn a_version_has_what_appeared_before_it() {
        let (old, new) = (ServerRelease::Redis("6.2.0"), ServerRelease::Redis("8.10.0"));
        assert!(old.has(since("6.2.0", None)) && old.has(since("", None)) && !old.has(since("7.0.0", None)));
        assert!(new.has(since("8.4.0", None)) && !new.has(since("8.12.0", None)));
        assert!(!new.has(since("0.1.0", None)));
        assert!(!new.has(Since { is_only_valkey: true, ..since("8.1.0", None) }));
    }

    #[test]
    fn valkey_has_what_redis_had_until_they_parted_and_what_it_has_added() {
        let (old, new) = (ServerRelease::Valkey("7.2.4"), ServerRelease::Valkey("9.0.0"));
        assert!(new.has(since("7.2.0", None)) && !new.has(since("7.4.0", None)) && !new.has(since("8.4.0", None)));
        assert!(new.has(since("7.4.0", Some("9.0.0"))) && !old.has(since("7.4.0", Some("9.0.0"))));
        let own = Since { is_only_valkey: true, ..since("8.1.0", None) };
        assert!(new.has(own) && !old.has(own));
    }
}
