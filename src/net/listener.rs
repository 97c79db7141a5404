//! The ports of a server: opened at startup, and reopened when CONFIG SET changes them.
//!
//! Connections are accepted elsewhere. Invariant: a port that cannot be changed stays as it was.

use std::error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::{Config, SetError, Setting, SettingEffect};
#[cfg(feature = "tls")]
use crate::net::tls::{self, Acceptor};
#[cfg(not(feature = "tls"))]
use crate::net::tls_disabled::{self as tls, Acceptor};
use crate::text::system_text;

const NOT_LISTENING: &str = "Unable to listen on this port. Check server logs.";
const NOT_BOUND: &str = "Failed to bind to specified addresses.";
const NO_TLS: &str = "Unable to update TLS configuration. Check server logs.";

/// Returns true if a server with these settings starts with a port for plain TCP connections. With port 0 there is none
/// if TLS or a Unix socket is configured, as in Redis; otherwise, where Redis refuses to start, a free port is used. TLS
/// of `test-tls` is beside that port.
pub(crate) fn has_plain_port(config: &Config) -> bool {
    config.port != 0 || takes_free_port(config)
}

/// Returns true if the operating system chooses the port.
pub(crate) fn takes_free_port(config: &Config) -> bool {
    config.port == 0 && (config.tls_port == 0 || config.test_tls) && config.unixsocket.is_none()
}

/// The error of a startup that cannot listen at an address.
#[derive(Debug)]
pub(crate) struct ListenError {
    /// The address, or the path of the Unix socket.
    pub place: String,
    /// The port; none for a Unix socket.
    pub port: Option<u16>,
    cause: String,
}

impl ListenError {
    fn wrap(place: String, port: Option<u16>, cause: &io::Error) -> io::Error {
        io::Error::new(cause.kind(), ListenError { place, port, cause: system_text(cause) })
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { place, port, cause } = self;
        match port {
            Some(port) => write!(f, "could not listen on {place}:{port}: {cause}"),
            None => write!(f, "could not listen on {place}: {cause}"),
        }
    }
}

impl error::Error for ListenError {}

/// One port, open at every address of `bind`.
#[derive(Default)]
pub(crate) struct ListeningPort {
    /// The sockets until [`ListeningPort::take`].
    fresh: Vec<Arc<TcpListener>>,
    /// The sockets that were taken by accepting tasks. Only the tasks own them, so when their runtime ends, nothing is
    /// left open.
    taken: Vec<Weak<TcpListener>>,
    addr: Option<SocketAddr>,
    /// The TLS acceptor, on a TLS port.
    pub acceptor: Option<Arc<Acceptor>>,
    /// Cancelled when the port is closed, for the accepting tasks.
    pub closed: CancellationToken,
}

impl ListeningPort {
    /// Opens a port for plain connections; 0 takes a free one.
    ///
    /// # Errors
    /// If an address cannot be bound.
    pub(crate) fn plain(config: &Config, port: u16) -> io::Result<Self> {
        Ok(ListeningPort::at(bind_all(config, port)?))
    }

    /// Opens a port for TLS connections; 0 opens none.
    ///
    /// # Errors
    /// If an address cannot be bound; [`io::ErrorKind::InvalidInput`] if certificate or key cannot be used.
    pub(crate) fn tls(config: &Config, port: u16) -> io::Result<Self> {
        if port == 0 {
            return Ok(ListeningPort::default());
        }
        ListeningPort::with_tls(config, port)
    }

    /// Opens the port for TLS connections with which a server starts, if any. With `test-tls` the certificate is made, and
    /// the port may be a free one; the settings have both then.
    ///
    /// # Errors
    /// The errors of [`ListeningPort::tls`].
    pub(crate) fn first_tls(config: &mut Config) -> io::Result<Self> {
        if !config.test_tls {
            return ListeningPort::tls(config, config.tls_port);
        }
        tls::certify(config)?;
        let opened = ListeningPort::with_tls(config, config.tls_port)?;
        if let Some(addr) = opened.addr().filter(|_| config.tls_port == 0) {
            config.choose_tls_port(addr.port());
        }
        Ok(opened)
    }

    fn with_tls(config: &Config, port: u16) -> io::Result<Self> {
        let acceptor = Acceptor::new(config)
            .map_err(|error| io::Error::new(error.kind(), format!("Failed to configure TLS: {error}")))?;
        Ok(ListeningPort { acceptor: Some(Arc::new(acceptor)), ..ListeningPort::at(bind_all(config, port)?) })
    }

    fn at(listeners: Vec<Arc<TcpListener>>) -> Self {
        let addr = listeners.first().and_then(|first| first.local_addr().ok());
        ListeningPort { fresh: listeners, addr, ..ListeningPort::default() }
    }

    /// Hands the sockets over to the accepting tasks.
    pub(crate) fn take(&mut self) -> Vec<Arc<TcpListener>> {
        let fresh = std::mem::take(&mut self.fresh);
        self.taken.extend(fresh.iter().map(Arc::downgrade));
        fresh
    }

    /// Returns the first address.
    pub(crate) fn addr(&self) -> Option<SocketAddr> {
        self.addr
    }

    /// Stops accepting connections, although accepting tasks may still hold the sockets.
    fn close(&mut self) {
        self.closed.cancel();
        self.fresh.clear();
        self.addr = None;
        for listener in self.taken.iter().filter_map(Weak::upgrade) {
            // On Linux this cannot fail for a listening socket; elsewhere the port closes with its last owner.
            let _ = SockRef::from(&*listener).shutdown(Shutdown::Both);
        }
    }

    /// Closes the port for good.
    pub(crate) fn shut(&mut self) {
        self.close();
    }

    /// Closes this port and opens it in the second of `ways`. The old port is closed first, because an address is in
    /// use even by ourselves; if the new one cannot be opened, the port is reopened in the first way.
    fn reopen(&mut self, open: impl Fn(&Config, u16) -> io::Result<Self>, ways: [(&Config, u16); 2]) -> io::Result<()> {
        self.close();
        let [(old, old_port), (new, new_port)] = ways;
        let opened = open(new, new_port);
        let failure = match opened {
            Ok(opened) => {
                *self = opened;
                return Ok(());
            }
            Err(failure) => failure,
        };
        match open(old, old_port) {
            Ok(opened) => *self = opened,
            Err(cause) => warn!(%cause, "failed to reopen the previous port"),
        }
        Err(failure)
    }
}

/// All ports of a server.
#[derive(Default)]
pub(crate) struct Ports {
    plain: ListeningPort,
    tls: ListeningPort,
    /// The plain port, kept while `bind` is empty.
    last_plain: u16,
}

impl Ports {
    /// Combines the ports opened at startup.
    pub(crate) fn new(plain: ListeningPort, tls: ListeningPort) -> Self {
        let last_plain = plain.addr().map_or(0, |addr| addr.port());
        Ports { plain, tls, last_plain }
    }

    pub(crate) fn all(&mut self) -> [&mut ListeningPort; 2] {
        [&mut self.plain, &mut self.tls]
    }

    /// Returns the port for plain connections; 0 when there is none.
    pub(crate) fn plain_port(&self) -> u16 {
        self.plain.addr().map_or(0, |addr| addr.port())
    }

    /// Returns the first address of the port for TLS.
    pub(crate) fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls.addr()
    }

    /// Applies new settings to the ports; must be called inside a runtime. Connections stay.
    ///
    /// # Errors
    /// The setting that cannot be applied; all ports are then as before.
    pub(crate) fn follow(&mut self, old: &Config, new: &Config) -> Result<(), SetError> {
        if self.tls.acceptor.is_some()
            && new.tls_port != 0
            && let Some(name) = changed_tls(old, new)
        {
            Acceptor::new(new).map_err(|cause| refused(name, NO_TLS, &cause))?;
        }
        let (moves, changes_port) = (old.bind != new.bind, old.port != new.port);
        let (was, tls_was) = (self.plain_port(), self.tls.addr().map_or(0, |addr| addr.port()));
        if was != 0 {
            self.last_plain = was;
        }
        let becomes = match changes_port {
            // With an empty `bind` there was no socket that could tell the port.
            false if old.bind.is_empty() && new.port == 0 => self.last_plain,
            false if !old.bind.is_empty() => was,
            _ => new.port,
        };
        let plain = |config: &Config, port| match port {
            0 => Ok(ListeningPort::default()),
            port => ListeningPort::plain(config, port),
        };
        if changes_port {
            // A port that was closed explicitly is not reopened when `bind` gets an address again.
            self.last_plain = becomes;
        }
        if moves || changes_port {
            let (name, reason) = if changes_port { ("port", NOT_LISTENING) } else { ("bind", NOT_BOUND) };
            let reopened = self.plain.reopen(plain, [(old, was), (new, becomes)]);
            reopened.map_err(|cause| refused(name, reason, &cause))?;
        }
        if !(moves && new.tls_port != 0 || old.tls_port != new.tls_port) {
            return Ok(());
        }
        let reopened = self.tls.reopen(ListeningPort::tls, [(old, tls_was), (new, new.tls_port)]);
        reopened.map_err(|cause| {
            if moves || changes_port {
                // Whether or not this succeeds, the first failure is the one reported.
                let _ = self.plain.reopen(plain, [(new, becomes), (old, was)]);
            }
            let reason = if cause.kind() == io::ErrorKind::InvalidInput { NO_TLS } else { NOT_LISTENING };
            refused("tls-port", reason, &cause)
        })
    }
}

/// Returns the first TLS setting that differs, other than the port.
pub(crate) fn changed_tls(old: &Config, new: &Config) -> Option<&'static str> {
    let is_supported = |setting: &&Setting| setting.effect == SettingEffect::Supported && setting.name != "tls-port";
    Setting::all()
        .filter(|setting| setting.name.starts_with("tls-") && is_supported(setting))
        .find(|setting| setting.get(old) != setting.get(new))
        .map(|setting| setting.name)
}

fn refused(name: &str, reason: &str, cause: &io::Error) -> SetError {
    warn!(%cause, "failed to apply a change of the setting '{name}'");
    SetError::Refused { name: name.to_owned(), reason: reason.to_owned() }
}

/// Opens the Unix socket.
///
/// # Errors
/// If its directory is missing or not writable.
pub(crate) fn bind_unix(path: &Path, permissions: Option<u32>) -> io::Result<(UnixListener, SocketFile)> {
    let failed = |error| ListenError::wrap(path.display().to_string(), None, &error);
    if is_stale_socket(path) {
        // A stale socket would refuse the bind; Redis removes it too.
        let _ = std::fs::remove_file(path);
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile::at(path)?;
    if let Some(mode) = permissions {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok((listener, file))
}

/// Returns true if a path is a socket on which no server listens: one that an earlier run has left behind.
fn is_stale_socket(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let connect = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&SockAddr::unix(path)?)
    };
    is_socket && connect().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// File of a Unix socket; removed on drop, unless another server has replaced it.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        // The working directory may change.
        let path = std::path::absolute(path)?;
        Ok(SocketFile { identity: identity(&path)?, path })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|identity| identity == self.identity) {
            let _ = std::fs::remove_file(&self.path); // somebody may have removed it just now
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Binds every address of `bind`.
fn bind_all(config: &Config, port: u16) -> io::Result<Vec<Arc<TcpListener>>> {
    bind_addresses(&config.bind, port, config.tcp_backlog)
}

/// Binds every address; one with a leading `-` may be missing on this machine. Must be called inside a runtime.
///
/// # Errors
/// If an address cannot be bound, or the machine has none of them.
pub(crate) fn bind_addresses(addresses: &[String], port: u16, backlog: u32) -> io::Result<Vec<Arc<TcpListener>>> {
    let mut listeners: Vec<Arc<TcpListener>> = Vec::new();
    for address in addresses {
        let (address, may_be_missing) = match address.strip_prefix('-') {
            Some(address) => (address, true),
            None => (address.as_str(), false),
        };
        // With port 0 every address gets the same port as the first.
        let port = match listeners.first() {
            Some(first) => first.local_addr()?.port(),
            None => port,
        };
        match resolve(address).and_then(|ip| bind_tcp(SocketAddr::new(ip, port), backlog)) {
            Ok(listener) => listeners.push(Arc::new(listener)),
            Err(error) if may_be_missing && is_unavailable(&error) => {
                info!(address, cause = %error, "skipped an address that this machine does not have");
            }
            Err(error) => {
                return Err(ListenError::wrap(address.to_owned(), Some(port), &error));
            }
        }
    }
    if listeners.is_empty() && !addresses.is_empty() {
        let cause = io::Error::new(io::ErrorKind::AddrNotAvailable, "none of these addresses is available");
        return Err(ListenError::wrap(addresses.join(" "), Some(port), &cause));
    }
    Ok(listeners)
}

fn resolve(address: &str) -> io::Result<IpAddr> {
    match address {
        "*" => Ok(Ipv4Addr::UNSPECIFIED.into()),
        "::*" => Ok(Ipv6Addr::UNSPECIFIED.into()),
        other => other.parse().or_else(|_| {
            let mut found = std::net::ToSocketAddrs::to_socket_addrs(&(other, 0))?;
            found.next().map(|addr| addr.ip()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
        }),
    }
}

fn is_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrNotAvailable | io::ErrorKind::Unsupported)
        || error.raw_os_error() == Some(EAFNOSUPPORT)
}

/// "Address family not supported", for which the standard library has no error kind.
const EAFNOSUPPORT: i32 = 97;

/// Reserves a port at every address of `bind`, on which nobody listens yet; 0 takes a free one. The port belongs to this
/// process as long as the sockets are open.
///
/// # Errors
/// If an address cannot be bound.
pub(crate) fn reserve_port(config: &Config, port: u16) -> io::Result<(Vec<Socket>, u16)> {
    let (mut sockets, mut port) = (Vec::new(), port);
    for address in &config.bind {
        let (address, may_be_missing) =
            address.strip_prefix('-').map_or((address.as_str(), false), |rest| (rest, true));
        match resolve(address).and_then(|ip| bound_socket(SocketAddr::new(ip, port))) {
            Ok(socket) => {
                port = socket.local_addr()?.as_socket().map_or(port, |addr| addr.port());
                sockets.push(socket);
            }
            Err(error) if may_be_missing && is_unavailable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    if sockets.is_empty() { Err(io::ErrorKind::AddrNotAvailable.into()) } else { Ok((sockets, port)) }
}

fn bind_tcp(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = bound_socket(addr)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}

fn bound_socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}
