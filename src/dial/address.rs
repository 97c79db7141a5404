//! Address of a server, and TLS options of a connection to it.

#[cfg(feature = "binary")]
use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "binary")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host, by name or address, and a port.
    Tcp(String, u16),
    Unix(PathBuf),
}

#[cfg(feature = "binary")]
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// The TLS options of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    /// True to accept any server certificate.
    pub insecure: bool,
    /// A PEM file with trusted authorities; without one, those of the system are used.
    pub cacert: Option<PathBuf>,
    /// PEM files with the client's own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The SNI name; without one, that of the host.
    pub sni: Option<String>,
}
