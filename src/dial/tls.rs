//! TLS for clients, with the checks of redis-cli: the server's certificate must be signed by a trusted authority, but
//! need not match the host name, because such servers are mostly addressed by IP.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{self, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::dial::address::TlsOptions;
use crate::dial::stream::Transport;
use crate::dial::trust::{Authorities, ServerVerifier, certified};

/// Paths of the system's trusted authorities in Linux distributions.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Performs the handshake.
pub(super) fn secure(
    mut stream: TcpStream,
    host: &str,
    options: &TlsOptions,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let (config, name) = client(host, options)?;
    let mut connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

impl Transport for StreamOwned<ClientConnection, TcpStream> {
    #[cfg(feature = "binary")]
    fn socket(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.sock)
    }
}

/// Performs the handshake without blocking.
#[cfg(feature = "binary")]
pub(super) async fn secure_async(
    stream: tokio::net::TcpStream,
    host: &str,
    options: &TlsOptions,
) -> io::Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let (config, name) = client(host, options)?;
    tokio_rustls::TlsConnector::from(config).connect(name, stream).await
}

/// Returns the TLS configuration for a host, and the name to send.
fn client(host: &str, options: &TlsOptions) -> io::Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = if options.insecure {
        Arc::new(AnyCertificate(provider.clone()))
    } else {
        Arc::new(ServerVerifier(authorities(options.cacert.as_deref())?))
    };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(verifier);
    let config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|cause| bad_file(key, &cause))?;
            let certified = certified(certificates(certificate)?, &key).map_err(io::Error::other)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
        }
    };
    let name = ServerName::try_from(options.sni.as_deref().unwrap_or(host).to_owned()).map_err(io::Error::other)?;
    Ok((Arc::new(config), name))
}

/// Returns true if the error is an alert of the server.
#[cfg(feature = "binary")]
pub(super) fn is_alert(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(cause, Some(rustls::Error::AlertReceived(_)))
}

fn bad_file(path: &Path, cause: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {cause}", path.display()))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|cause| bad_file(path, &cause))
}

/// Returns the authorities in a file, or those of the system.
fn authorities(cacert: Option<&Path>) -> io::Result<Authorities> {
    let system = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let mut authorities = Authorities::new();
    match cacert {
        Some(path) => {
            for certificate in certificates(path)? {
                authorities.add(certificate).map_err(|cause| bad_file(path, &cause))?;
            }
        }
        None => {
            // A bundle of a hundred authorities may contain one that cannot be parsed.
            let found = system().map(certificates).transpose()?.unwrap_or_default();
            found.into_iter().for_each(|certificate| _ = authorities.add(certificate));
        }
    }
    if authorities.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no trusted authority found: name one with --cacert"));
    }
    Ok(authorities)
}

/// Verifier that accepts any certificate: for the health check, which sends no secret, and for `--insecure`.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
