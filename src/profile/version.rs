//! Versions of servers, and the commands that a version has.

use std::fmt;

/// A version of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u8,
    minor: u8,
    patch: u8,
}

impl Version {
    /// Names a version.
    pub(crate) const fn new(major: u8, minor: u8, patch: u8) -> Self {
        Version { major, minor, patch }
    }

    /// Parses `7.2.4` or, for `8.4.0`, `8.4`.
    ///
    /// # Panics
    ///
    /// If the text is anything else; in a table, that is an error of compilation.
    pub(crate) const fn parse(text: &str) -> Self {
        let mut parts = [0; 3];
        let (mut part, mut is_empty, mut left) = (0, true, text.as_bytes());
        while let [byte, after @ ..] = left {
            match *byte {
                digit @ b'0'..=b'9' => {
                    let number = parts[part] as u32 * 10 + (digit - b'0') as u32;
                    assert!(number <= u8::MAX as u32, "part of a version above 255");
                    (parts[part], is_empty) = (number as u8, false);
                }
                b'.' if !is_empty && part < 2 => (part, is_empty) = (part + 1, true),
                _ => panic!("not a version"),
            }
            left = after;
        }
        assert!(!is_empty && part > 0, "not a version");
        Version::new(parts[0], parts[1], parts[2])
    }

    /// Returns true if this is the version of keylatch that introduced what no other server has.
    const fn is_own(self) -> bool {
        self.major == 0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The version of Redis that Valkey began as: it has all that this one had.
const FORK: Version = Version::new(7, 2, 4);

/// The versions in which commands and arguments appeared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    /// The version of Redis; of Valkey, where Redis never had it. `None` if always.
    pub(crate) redis: Option<Version>,
    /// The version of Valkey, where it is another one.
    pub(crate) valkey: Option<Version>,
    /// True if only Valkey has it.
    pub(crate) is_only_valkey: bool,
}

/// The server whose commands a service has, and its version.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerRelease {
    Redis(Version),
    Valkey(Version),
}

impl ServerRelease {
    /// Returns whether this version has what appeared in these versions. What is keylatch's own no other server has.
    pub(crate) fn has(self, since: Since) -> bool {
        let appeared_by = |version: Version| since.redis.is_none_or(|first| first <= version);
        if since.redis.is_some_and(Version::is_own) {
            return false;
        }
        match self {
            ServerRelease::Redis(version) => !since.is_only_valkey && appeared_by(version),
            ServerRelease::Valkey(version) => match since.valkey {
                Some(first) => first <= version,
                None => appeared_by(version) && (since.is_only_valkey || appeared_by(FORK)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(redis: &str, valkey: Option<&str>) -> Since {
        let redis = Some(redis).filter(|version| !version.is_empty());
        Since { redis: redis.map(Version::parse), valkey: valkey.map(Version::parse), is_only_valkey: false }
    }

    fn redis(version: &str) -> ServerRelease {
        ServerRelease::Redis(Version::parse(version))
    }

    fn valkey(version: &str) -> ServerRelease {
        ServerRelease::Valkey(Version::parse(version))
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert_eq!(Version::parse("8.4"), Version::new(8, 4, 0));
        assert_eq!(Version::parse("2.8.13").to_string(), "2.8.13");
        let versions = ["0.1.0", "2.6.12", "2.8.4", "2.8.13", "8.4", "8.10", "255.0"].map(Version::parse);
        assert!(versions.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn nothing_else_is_a_version() {
        for text in ["", "8", "8.", ".8", "8..4", "8.4.", "8.4.0.0", "8.256", "v8.4", "8.-4", "8.4 "] {
            assert!(std::panic::catch_unwind(|| Version::parse(text)).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_version_has_what_appeared_before_it() {
        let (old, new) = (redis("6.2.0"), redis("8.10.0"));
        assert!(old.has(since("6.2.0", None)) && old.has(since("", None)) && !old.has(since("7.0.0", None)));
        assert!(new.has(since("8.4.0", None)) && !new.has(since("8.12.0", None)));
        assert!(!new.has(since("0.1.0", None)));
        assert!(!new.has(Since { is_only_valkey: true, ..since("8.1.0", None) }));
    }

    #[test]
    fn valkey_has_what_redis_had_until_they_parted_and_what_it_has_added() {
        let (old, new) = (valkey("7.2.4"), valkey("9.0.0"));
        assert!(new.has(since("7.2.0", None)) && !new.has(since("7.4.0", None)) && !new.has(since("8.4.0", None)));
        assert!(new.has(since("7.4.0", Some("9.0.0"))) && !old.has(since("7.4.0", Some("9.0.0"))));
        let own = Since { is_only_valkey: true, ..since("8.1.0", None) };
        assert!(new.has(own) && !old.has(own));
    }
}
