//! Chains of certificates, by OpenSSL's rules.

use tokio_rustls::rustls::CertificateError;
use tokio_rustls::rustls::pki_types::SignatureVerificationAlgorithm;
use webpki::RawPublicKeyEntity;

use crate::dial::trust::certificate::{Certificate, CertificatePurpose};

/// Largest number of certificates in a chain.
const LEN_MAX: usize = 10;
/// Largest number of signatures that are checked: a peer may send many certificates with the same name.
const SIGNATURES_MAX: usize = 100;

/// A valid chain.
pub(super) struct Chain {
    /// True if the chain is one certificate, which is trusted itself.
    pub(super) is_alone: bool,
    /// True if the chain limits the names of certificates. These are not checked here.
    pub(super) limits_names: bool,
}

/// State of the search for a chain.
struct Search<'a> {
    sent: &'a [Certificate<'a>],
    trusted: &'a [Certificate<'a>],
    algorithms: &'a [&'static dyn SignatureVerificationAlgorithm],
    purpose: CertificatePurpose,
    /// The time in seconds since 1970.
    now: u64,
    /// Number of signatures that may still be checked.
    left: usize,
}

/// Checks that a chain leads from a certificate over those that were sent with it to a trusted one, and is valid for a
/// purpose at a time in seconds since 1970.
///
/// # Errors
/// The reason for which there is no such chain.
pub(super) fn verify<'a>(
    end: &'a Certificate<'a>,
    sent: &'a [Certificate<'a>],
    trusted: &'a [Certificate<'a>],
    algorithms: &'a [&'static dyn SignatureVerificationAlgorithm],
    (purpose, now): (CertificatePurpose, u64),
) -> Result<Chain, CertificateError> {
    Search { sent, trusted, algorithms, purpose, now, left: SIGNATURES_MAX }.extend(&mut vec![end])
}

impl<'a> Search<'a> {
    /// Checks the chain if it is complete, otherwise all chains that begin with it.
    fn extend(&mut self, chain: &mut Vec<&'a Certificate<'a>>) -> Result<Chain, CertificateError> {
        let Some(last) = chain.last().copied() else { return Err(CertificateError::UnknownIssuer) };
        if last.is_self_issued() && self.trusted.iter().any(|trusted| trusted.whole == last.whole) {
            return self.check(chain);
        }
        let mut refusal = CertificateError::UnknownIssuer;
        let (trusted, sent) = (self.trusted, self.sent);
        for issuer in trusted.iter().chain(sent).filter(|issuer| issuer.subject == last.issuer) {
            if chain.len() == LEN_MAX || self.left == 0 {
                return Err(refusal);
            }
            if chain.iter().any(|seen| seen.whole == issuer.whole) {
                continue;
            }
            self.left -= 1;
            if !self.is_signed_by(last, issuer) {
                refusal = CertificateError::BadSignature;
                continue;
            }
            chain.push(issuer);
            match self.extend(chain) {
                Ok(found) => return Ok(found),
                Err(other) => refusal = other,
            }
            chain.pop();
        }
        Err(refusal)
    }

    /// Checks a chain that ends with a trusted certificate.
    fn check(&self, chain: &[&Certificate<'_>]) -> Result<Chain, CertificateError> {
        let mut issuers_between = 0;
        for (at, certificate) in chain.iter().enumerate() {
            let (is_issuer, is_last) = (at > 0, at + 1 == chain.len());
            if !certificate.is_understood() {
                return Err(CertificateError::UnhandledCriticalExtension);
            }
            if !certificate.is_valid_at(self.now) {
                let is_over = certificate.has_expired(self.now);
                return Err(if is_over { CertificateError::Expired } else { CertificateError::NotValidYet });
            }
            if is_issuer && !certificate.may_issue(is_last) {
                return Err(CertificateError::UnknownIssuer);
            }
            if !certificate.is_for(self.purpose, is_issuer) {
                return Err(CertificateError::InvalidPurpose);
            }
            if at > 1 && certificate.path_len().is_some_and(|most| issuers_between > most) {
                return Err(CertificateError::UnknownIssuer);
            }
            issuers_between += u64::from(is_issuer && !certificate.is_self_issued());
        }
        let limits_names = chain.iter().any(|certificate| certificate.limits_names());
        Ok(Chain { is_alone: chain.len() == 1, limits_names })
    }

    fn is_signed_by(&self, certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> bool {
        let Ok(key) = RawPublicKeyEntity::try_from(&issuer.key) else { return false };
        let possible =
            self.algorithms.iter().filter(|algorithm| *algorithm.signature_alg_id() == *certificate.algorithm);
        let mut verified =
            possible.map(|algorithm| key.verify_signature(*algorithm, certificate.signed, certificate.signature));
        verified.any(|verified| verified.is_ok())
    }
}
