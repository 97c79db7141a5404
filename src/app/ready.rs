//! The message for the program that has started the server, once it is ready: address, process, authority to trust.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};
use std::process;
use std::sync::Arc;

use crate::app::json::json;
use crate::config::TestCertificate;
use crate::net::server::Server;
use crate::text::system_text;

/// The authority of `test-tls` as a file for clients, in a directory of its own; both are removed on drop.
pub(super) struct AuthorityFile {
    folder: PathBuf,
    path: PathBuf,
}

impl AuthorityFile {
    /// Writes the file into the directory for temporary files, if the server has made such an authority.
    ///
    /// # Errors
    /// If that is not writable.
    pub(super) fn of(server: &Server, temporary: &Path) -> io::Result<Option<Self>> {
        let Some(made) = certificate(server) else { return Ok(None) };
        let number = getrandom::u64().map_err(|cause| io::Error::other(cause.to_string()))?;
        let folder = temporary.join(format!("keylatch-{number:016x}"));
        let path = folder.join("ca.crt");
        let failed = |cause: io::Error| {
            let reason = format!("Can't write the authority {}: {}", path.display(), system_text(&cause));
            io::Error::new(cause.kind(), reason)
        };
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        let file = AuthorityFile { folder, path: path.clone() };
        fs::write(&path, &made.authority).map_err(failed)?;
        Ok(Some(file))
    }

    /// Returns the path, for the log.
    pub(super) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }
}

impl Drop for AuthorityFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // somebody may have removed it
    }
}

/// Returns the directory for temporary files: an empty TMPDIR is none, and a relative one is made absolute, because the working
/// directory changes with `dir`.
pub(super) fn temporary_folder() -> PathBuf {
    let named = std::env::temp_dir();
    let folder = if named.as_os_str().is_empty() { "/tmp".into() } else { named };
    absolute(&folder).unwrap_or(folder)
}

fn certificate(server: &Server) -> Option<Arc<TestCertificate>> {
    server.namespace().settings.current().test_certificate.clone()
}

/// Returns the line of JSON.
pub(super) fn line(server: &Server, authority_file: Option<&AuthorityFile>) -> String {
    let (addr, pid) = (server.addr(), process::id());
    let mut line = format!(r#"{{"ready":true,"host":"{}","port":{},"pid":{pid}"#, reachable(addr.ip()), addr.port());
    if let Some((file, made)) = authority_file.zip(certificate(server)) {
        let port = server.namespace().settings.current().tls_port;
        let (file, text) = (json(file.path.as_os_str().as_encoded_bytes()), json(made.authority.as_bytes()));
        line += &format!(r#","tls_port":{port},"tls_ca_file":{file},"tls_ca":{text}"#);
    }
    line + "}"
}

/// Returns an address of this machine that a listening address accepts.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}
