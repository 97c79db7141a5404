//! TLS acceptor of a listener, built from the `tls-*` settings, or from the certificate of `test-tls`.
//!
//! rustls implements the protocol; this file loads certificates and keys, and reloads them when a setting has changed.
//! It opens no socket.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{self, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::server::TlsStream;
use tracing::warn;

use crate::config::{Config, TlsAuthClients};
use crate::dial::trust::{self, Authorities, ClientVerifier};
use crate::net::test_certificate;
use crate::text::read_file;

/// The timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Acceptor of TLS connections, by the settings in force.
pub(crate) struct Acceptor {
    current: Mutex<(Arc<Config>, TlsAcceptor)>,
}

impl Acceptor {
    /// Loads the files that the settings name.
    ///
    /// # Errors
    ///
    /// If a file is missing or invalid; the error names the setting and the cause.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let made = make(config).map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;
        Ok(Acceptor { current: Mutex::new((Arc::new(config.clone()), made)) })
    }

    /// Performs the handshake with a client.
    ///
    /// # Errors
    ///
    /// If the client does not speak TLS, has no trusted certificate, or takes longer than ten seconds.
    pub(crate) async fn accept(&self, stream: TcpStream, config: &Arc<Config>) -> io::Result<TlsStream<TcpStream>> {
        let shaking = self.current(config).accept(stream);
        tokio::time::timeout(HANDSHAKE, shaking).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns the acceptor of the present settings, or the last one that could be built.
    fn current(&self, config: &Arc<Config>) -> TlsAcceptor {
        let mut current = self.current.lock();
        if !Arc::ptr_eq(&current.0, config) {
            match make(config) {
                Ok(made) => current.1 = made,
                Err(reason) => warn!(reason, "failed to reload TLS files, the previous ones stay in use"),
            }
            current.0 = config.clone();
        }
        current.1.clone()
    }
}

/// Makes a certificate for a server with these settings, which have it then. Clients need none unless the settings say so.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn certify(config: &mut Config) -> io::Result<()> {
    config.test_certificate = Some(Arc::new(test_certificate::make(config)?));
    if !config.has_named("tls-auth-clients") {
        config.tls_auth_clients = TlsAuthClients::No;
    }
    Ok(())
}

/// Builds the acceptor of the settings.
///
/// # Errors
///
/// The setting and the cause.
fn make(config: &Config) -> Result<TlsAcceptor, String> {
    let identity = match &config.test_certificate {
        Some(made) => {
            let key = PrivatePkcs8KeyDer::from(made.key.clone());
            certified(vec![made.certificate.clone().into()], key.into())?
        }
        None => identity(config)?,
    };
    let builder = ServerConfig::builder_with_protocol_versions(&versions(config)?);
    let builder = match client_verifier(config)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut server = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    server.session_storage = if config.tls_session_caching {
        ServerSessionMemoryCache::new(config.tls_session_cache_size as usize)
    } else {
        Arc::new(NoServerSessionStorage {})
    };
    Ok(TlsAcceptor::from(Arc::new(server)))
}

/// Reads the files of the certificate and its key.
fn identity(config: &Config) -> Result<CertifiedKey, String> {
    let certificates = certificates(required(&config.tls_cert_file, "tls-cert-file")?, "tls-cert-file")?;
    let key_path = required(&config.tls_key_file, "tls-key-file")?;
    if config.tls_key_file_pass.is_some() {
        return Err("tls-key-file-pass: encrypted keys are not supported; decrypt the key file".into());
    }
    let text = read_file(key_path).map_err(|cause| named("tls-key-file", key_path, &cause))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|cause| named("tls-key-file", key_path, &cause))?;
    certified(certificates, key)
}

/// Pairs the certificates with the key.
fn certified(certificates: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<CertifiedKey, String> {
    trust::certified(certificates, &key).map_err(|cause| match cause {
        rustls::Error::InconsistentKeys(_) => "tls-key-file does not match tls-cert-file".into(),
        cause => format!("tls-key-file: {cause}"),
    })
}

fn required<'a>(path: &'a Option<PathBuf>, setting: &str) -> Result<&'a Path, String> {
    path.as_deref().ok_or_else(|| format!("no {setting} configured"))
}

fn named(setting: &str, path: &Path, cause: &dyn Display) -> String {
    format!("{setting} {}: {cause}", path.display())
}

fn certificates(path: &Path, setting: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_file(path).map_err(|cause| named(setting, path, &cause))?;
    match CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(named(setting, path, &"no certificate found")),
        Err(cause) => Err(named(setting, path, &cause)),
    }
}

/// Returns the protocol versions of `tls-protocols`, both when it is empty.
fn versions(config: &Config) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let text = config.tls_protocols.as_deref().unwrap_or(b"TLSv1.2 TLSv1.3");
    let mut versions = Vec::new();
    for word in String::from_utf8_lossy(text).split_ascii_whitespace() {
        match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => versions.push(&TLS12),
            "tlsv1.3" => versions.push(&TLS13),
            // Versions that a Redis configuration may still list, and rustls does not support.
            "tlsv1" | "tlsv1.1" => {}
            _ => return Err(format!("tls-protocols: unknown protocol '{word}'")),
        }
    }
    if versions.is_empty() {
        return Err("tls-protocols: only TLSv1.2 and TLSv1.3 are supported".into());
    }
    Ok(versions)
}

/// Returns the verifier of client certificates, or `None` when clients need none.
fn client_verifier(config: &Config) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    if config.tls_auth_clients == TlsAuthClients::No {
        return Ok(None);
    }
    let mut authorities = Authorities::new();
    if let Some(path) = &config.tls_ca_cert_file {
        for certificate in certificates(path, "tls-ca-cert-file")? {
            authorities.add(certificate).map_err(|cause| named("tls-ca-cert-file", path, &cause))?;
        }
    }
    if let Some(folder) = &config.tls_ca_cert_dir {
        let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
        for entry in entries.map_err(|cause| named("tls-ca-cert-dir", folder, &cause))? {
            // The directory may also contain other files.
            let found = certificates(&entry.path(), "tls-ca-cert-dir").unwrap_or_default();
            found.into_iter().for_each(|certificate| _ = authorities.add(certificate));
        }
    }
    if authorities.is_empty() {
        return Err(
            "either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled".into()
        );
    }
    let is_mandatory = config.tls_auth_clients != TlsAuthClients::Optional;
    Ok(Some(Arc::new(ClientVerifier { authorities, is_mandatory })))
}
