//! Trusted certificates: those that OpenSSL accepts by default, which redis-server and redis-cli use.
//!
//! webpki, which checks chains for the Web, accepts no peer certificate that is an authority's or of version 1. People
//! create such certificates for their own servers, by `openssl req -x509` and `openssl x509 -req`. So chains are
//! checked here by OpenSSL's rules: they lead to a trusted certificate that is its own issuer; all certificates are
//! valid now; each but the first may issue others, and is of version 3 unless it is trusted itself; each is for the
//! purpose. Certificates that webpki refuses for reasons other than those two are refused, too. Names are not checked,
//! as Redis' clients and servers do not check them.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::crypto::{
    WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{
    self, CertificateError, DigitallySignedStruct, DistinguishedName, InconsistentKeys, OtherError, SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage, RawPublicKeyEntity, anchor_from_trusted_cert};

use crate::dial::trust::certificate::{Certificate, CertificatePurpose};
use crate::dial::trust::chain::Chain;

mod certificate;
mod chain;

/// The trusted certificates.
#[derive(Debug)]
pub(crate) struct Authorities {
    algorithms: WebPkiSupportedAlgorithms,
    certificates: Vec<CertificateDer<'static>>,
    /// The same certificates in the form of webpki.
    anchors: Vec<TrustAnchor<'static>>,
    names: Vec<DistinguishedName>,
}

impl Authorities {
    pub(crate) fn new() -> Self {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Authorities { algorithms, certificates: Vec::new(), anchors: Vec::new(), names: Vec::new() }
    }

    /// Adds a certificate.
    ///
    /// # Errors
    /// If it cannot be parsed.
    pub(crate) fn add(&mut self, certificate: CertificateDer<'static>) -> Result<(), rustls::Error> {
        let Some(read) = Certificate::read(&certificate) else { return Err(CertificateError::BadEncoding.into()) };
        self.names.push(DistinguishedName::from(read.subject.to_vec()));
        self.anchors.extend(anchor_from_trusted_cert(&certificate).map(|anchor| anchor.to_owned()));
        self.certificates.push(certificate);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Verifies the certificate of a peer, with further ones that it has sent.
    fn verify(
        &self,
        purpose: CertificatePurpose,
        (end, others): (&CertificateDer<'_>, &[CertificateDer<'_>]),
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let found = self.verify_as_openssl(purpose, (end, others), now)?;
        if found.is_alone {
            return Ok(()); // the certificate is trusted itself
        }
        match self.verify_for_the_web(purpose, (end, others), now) {
            Ok(()) => Ok(()),
            Err(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnsupportedCertVersion) if !found.limits_names => {
                Ok(())
            }
            Err(refusal) => Err(in_words(refusal).into()),
        }
    }

    fn verify_for_the_web(
        &self,
        purpose: CertificatePurpose,
        (end, others): (&CertificateDer<'_>, &[CertificateDer<'_>]),
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let end = EndEntityCert::try_from(end)?;
        let usage = match purpose {
            CertificatePurpose::Server => KeyUsage::server_auth(),
            CertificatePurpose::Client => KeyUsage::client_auth(),
        };
        end.verify_for_usage(self.algorithms.all, &self.anchors, others, now, usage, None, None).map(|_| ())
    }

    fn verify_as_openssl(
        &self,
        purpose: CertificatePurpose,
        (end, others): (&CertificateDer<'_>, &[CertificateDer<'_>]),
        now: UnixTime,
    ) -> Result<Chain, CertificateError> {
        let trusted: Vec<Certificate<'_>> = self.certificates.iter().filter_map(|der| Certificate::read(der)).collect();
        let sent: Vec<Certificate<'_>> = others.iter().filter_map(|der| Certificate::read(der)).collect();
        let end = Certificate::read(end).ok_or(CertificateError::BadEncoding)?;
        chain::verify(&end, &sent, &trusted, self.algorithms.all, (purpose, now.as_secs()))
    }

    /// Verifies a signature made with the key of a peer's certificate.
    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        is_tls13: bool,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.algorithms;
        // For a certificate that webpki does not parse, its key is used.
        let unread = match EndEntityCert::try_from(certificate) {
            Ok(_) => None,
            Err(_) => Certificate::read(certificate),
        };
        match (is_tls13, unread) {
            (true, None) => verify_tls13_signature(message, certificate, signed, algorithms),
            (false, None) => verify_tls12_signature(message, certificate, signed, algorithms),
            (true, Some(read)) => verify_tls13_signature_with_raw_key(message, &read.key, signed, algorithms),
            (false, Some(read)) => verify_tls12_signature_with_key(message, &read, signed, algorithms),
        }
    }
}

/// Verifies a signature of TLS 1.2, where a scheme leaves the curve open.
fn verify_tls12_signature_with_key(
    message: &[u8],
    certificate: &Certificate<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    let key = RawPublicKeyEntity::try_from(&certificate.key).map_err(in_words)?;
    let schemes = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
    let mut possible = schemes.flat_map(|(_, algorithms)| algorithms.iter());
    if possible.any(|algorithm| key.verify_signature(*algorithm, message, signed.signature()).is_ok()) {
        Ok(HandshakeSignatureValid::assertion())
    } else {
        Err(CertificateError::BadSignature.into())
    }
}

/// Converts webpki's reason for a refusal to that of rustls.
fn in_words(error: webpki::Error) -> CertificateError {
    match error {
        webpki::Error::UnknownIssuer => CertificateError::UnknownIssuer,
        webpki::Error::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        webpki::Error::CertNotValidYet { time, not_before } => {
            CertificateError::NotValidYetContext { time, not_before }
        }
        webpki::Error::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        other => CertificateError::Other(OtherError(Arc::new(other))),
    }
}

/// Pairs certificates of any version with a key.
///
/// # Errors
/// A key of no supported kind, or of another certificate.
pub(crate) fn certified(
    certificates: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    let certified = CertifiedKey::new(certificates, any_supported_type(key)?);
    let read = certified.cert.first().and_then(|certificate| Certificate::read(certificate));
    let is_of_another = match (read, certified.key.public_key()) {
        (Some(certificate), Some(key)) => certificate.key != key,
        _ => false,
    };
    if is_of_another { Err(InconsistentKeys::KeyMismatch.into()) } else { Ok(certified) }
}

/// Verifier of clients' certificates.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) authorities: Authorities,
    /// True if each client has to send a certificate.
    pub(crate) is_mandatory: bool,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.is_mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities.names
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.authorities
            .verify(CertificatePurpose::Client, (end, others), now)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_signature(message, certificate, signed, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_signature(message, certificate, signed, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.algorithms.supported_schemes()
    }
}

/// Verifier of a server's certificate, which may have any name.
#[derive(Debug)]
pub(crate) struct ServerVerifier(pub(crate) Authorities);

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0.verify(CertificatePurpose::Server, (end, others), now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_signature(message, certificate, signed, false)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_signature(message, certificate, signed, true)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.algorithms.supported_schemes()
    }
}
