//! TLS for clients, with the checks of redis-cli: the server's certificate must be signed by a trusted authority, but
//! need not match the host name, because such servers are mostly addressed by IP.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};

use crate::dial::address::TlsOptions;

/// Where Linux distributions keep the system's trusted authorities.
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

/// Returns how to speak TLS with a host, and its name.
fn client(host: &str, options: &TlsOptions) -> io::Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match options.insecure {
        true => Arc::new(AnyCertificate(provider.clone())),
        false => Arc::new(TrustedAuthority(verifier(options.cacert.as_deref(), provider.clone())?)),
    };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(verifier);
    let config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|cause| bad_file(key, &cause))?;
            builder.with_client_auth_cert(certificates(certificate)?, key).map_err(io::Error::other)?
        }
    };
    let name = ServerName::try_from(options.sni.as_deref().unwrap_or(host).to_owned()).map_err(io::Error::other)?;
    Ok((Arc::new(config), name))
}

/// Returns whether this error is an alert of the server.
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

fn verifier(cacert: Option<&Path>, provider: Arc<CryptoProvider>) -> io::Result<Arc<WebPkiServerVerifier>> {
    let system = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let mut roots = RootCertStore::empty();
    match cacert {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|cause| bad_file(path, &cause))?;
            }
        }
        None => {
            // A bundle of a hundred authorities may contain one that cannot be parsed.
            let found = system().map(certificates).transpose()?.unwrap_or_default();
            roots.add_parsable_certificates(found);
        }
    }
    if roots.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no trusted authority found: name one with --cacert"));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(io::Error::other)
}

/// Accepts certificates signed by a trusted authority, for any name.
#[derive(Debug)]
struct TrustedAuthority(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for TrustedAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked last, when everything else is valid.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts any certificate: for the health check, which sends no secret, and for `--insecure`.
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
