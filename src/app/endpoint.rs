//! Servers that the clients in this binary connect to: addresses, credentials, and the options of TLS.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use clap::Args;

use crate::app::uri::{Login, Uri};
use crate::dial::{Address, TlsOptions};

/// The port of a server whose address names none.
pub(crate) const DEFAULT_PORT: u16 = 6379;

/// The host of a server whose address names none.
pub(crate) const DEFAULT_HOST: &str = "127.0.0.1";

/// The options of TLS, as parsed by clap.
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// Trusted authorities for TLS (default: those of the system)
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Client certificate for TLS
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Server name for TLS (SNI)
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Accept any server certificate
    #[arg(long)]
    insecure: bool,
}

impl TlsArgs {
    /// Converts the arguments to options.
    pub(crate) fn options(self) -> TlsOptions {
        TlsOptions { insecure: self.insecure, cacert: self.cacert, identity: self.cert.zip(self.key), sni: self.sni }
    }
}

/// A server, and the credentials to log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub address: Address,
    /// True if the server speaks TLS.
    pub is_tls: bool,
    /// Credentials for AUTH, if it is sent.
    pub login: Option<Credentials>,
    /// Number of the only database to use.
    pub database: Option<u32>,
}

/// Credentials for AUTH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// The user; `None` for the default user.
    pub user: Option<Vec<u8>>,
    pub password: Vec<u8>,
}

impl Credentials {
    /// Returns AUTH with its arguments.
    pub(crate) fn words(&self) -> Vec<&[u8]> {
        [&b"AUTH"[..]].into_iter().chain(self.user.as_deref()).chain([&self.password[..]]).collect()
    }
}

impl Endpoint {
    /// Parses an address. A password of the environment is used if the address has none.
    ///
    /// # Errors
    /// The reason for which the address is invalid; `PASSWORD` in it stands for the name of the environment variable.
    pub(crate) fn read(text: &str, password: Option<Vec<u8>>) -> Result<Self, String> {
        let invalid = || {
            "an address is redis://[user[:password]@]host[:port][/database], rediss://..., or unix:///path".to_owned()
        };
        if let Some(rest) = text.strip_prefix("unix://") {
            let (login, path) = rest.split_at(rest.find('/').ok_or_else(invalid)?);
            let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
            let database = match query {
                Some(query) => Some(query.strip_prefix("db=").and_then(|db| db.parse().ok()).ok_or_else(invalid)?),
                None => None,
            };
            let login = match login.strip_suffix('@') {
                Some(login) => Login::read(login),
                None if login.is_empty() => Login::default(),
                None => return Err(invalid()),
            };
            let address = Address::Unix(PathBuf::from(OsString::from_vec(path.as_bytes().to_vec())));
            return Ok(Endpoint { address, is_tls: false, login: credentials(login, password)?, database });
        }
        let uri = Uri::read(text).ok_or_else(invalid)?;
        let address = Address::Tcp(uri.host.unwrap_or_else(|| DEFAULT_HOST.into()), uri.port.unwrap_or(DEFAULT_PORT));
        Ok(Endpoint { address, is_tls: uri.is_tls, login: credentials(uri.login, password)?, database: uri.database })
    }
}

/// Returns the user and the password. A user without a password is refused, because it might be a password.
fn credentials(login: Login, password: Option<Vec<u8>>) -> Result<Option<Credentials>, String> {
    let user = login.user.or(login.word);
    match login.password.or(password) {
        Some(password) => Ok(Some(Credentials { user, password })),
        None if user.is_some() => Err("a user without a password: write user:password@, or set PASSWORD".into()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint_of(text: &str) -> Result<Endpoint, String> {
        Endpoint::read(text, None)
    }

    fn plain(address: Address, database: Option<u32>) -> Endpoint {
        Endpoint { address, is_tls: false, login: None, database }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let tcp = |host: &str, port| Address::Tcp(host.into(), port);
        let cases = [
            ("redis://db", plain(tcp("db", 6379), None)),
            ("redis://db:7/3", plain(tcp("db", 7), Some(3))),
            ("rediss://[::1]", Endpoint { is_tls: true, ..plain(tcp("::1", 6379), None) }),
            ("unix:///run/a b.sock", plain(Address::Unix("/run/a b.sock".into()), None)),
            ("unix:///run/s?db=2", plain(Address::Unix("/run/s".into()), Some(2))),
        ];
        for (text, expected) in cases {
            assert_eq!(endpoint_of(text), Ok(expected), "{text}");
        }
        for bad in ["db", "http://db", "redis://db/x", "unix://run", "unix://a/b", "unix:///s?x=1", "redis://bob@db"] {
            assert!(endpoint_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_comes_from_the_address_or_else_from_the_environment() {
        let cases = [
            ("redis://db", None),
            ("redis://:a%40b@db", Some((None, "a@b"))),
            ("redis://bob:pw@db", Some((Some("bob"), "pw"))),
            ("unix://bob:pw@/run/s", Some((Some("bob"), "pw"))),
        ];
        let bytes = |text: &str| text.as_bytes().to_vec();
        for (text, expected) in cases {
            let expected = expected.map(|(user, password): (Option<&str>, &str)| Credentials {
                user: user.map(bytes),
                password: bytes(password),
            });
            assert_eq!(endpoint_of(text).map(|found| found.login), Ok(expected), "{text}");
        }
        let found = Endpoint::read("redis://bob@db", Some(bytes("env"))).map(|found| found.login);
        assert_eq!(found, Ok(Some(Credentials { user: Some(bytes("bob")), password: bytes("env") })));
    }
}
