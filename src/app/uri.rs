//! Addresses of servers as `redis://user:password@host:port/database`.

/// The user and the password in an address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Login {
    /// Text before the colon, unless it is empty.
    pub user: Option<Vec<u8>>,
    /// Text after the colon.
    pub password: Option<Vec<u8>>,
    /// A login without a colon. For redis-cli it is a password, for others a user.
    pub word: Option<Vec<u8>>,
}

impl Login {
    /// Parses a login.
    pub(crate) fn read(login: &str) -> Self {
        match login.split_once(':') {
            Some((user, password)) => {
                Login { user: (!user.is_empty()).then(|| decoded(user)), password: Some(decoded(password)), word: None }
            }
            None => Login { word: Some(decoded(login)), ..Login::default() },
        }
    }
}

/// The parts of a `redis://` address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Uri {
    /// True if the address begins with `rediss://`.
    pub is_tls: bool,
    pub login: Login,
    pub host: Option<String>,
    pub port: Option<u16>,
    /// Number of the database.
    pub database: Option<u32>,
}

impl Uri {
    /// Parses an address; `None` if it is invalid.
    pub(crate) fn read(uri: &str) -> Option<Self> {
        let (is_tls, rest) = match (uri.strip_prefix("redis://"), uri.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return None,
        };
        let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        // The colons of an IPv6 address are in brackets.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (place, None),
        };
        let host = host.trim_matches(['[', ']']);
        let database = if database.is_empty() { None } else { Some(database.parse().ok()?) };
        let host = (!host.is_empty()).then(|| host.to_owned());
        Some(Uri { is_tls, login: login.map(Login::read).unwrap_or_default(), host, port, database })
    }
}

/// Percent-decodes a text.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let escaped = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    plain
}
