//! X.509 certificates of all versions, as far as they are looked at when a chain of them is checked.

use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;

use crate::dial::trust::der::{BIT_STRING, BOOLEAN, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, Value, Values};

/// What a certificate is shown for.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// To be a server.
    Server,
    /// To be a client.
    Client,
}

/// Bits of the key usage.
const DIGITAL_SIGNATURE: u16 = 1 << 15;
const KEY_ENCIPHERMENT: u16 = 1 << 13;
const KEY_AGREEMENT: u16 = 1 << 11;
const CERTIFICATE_SIGN: u16 = 1 << 10;
/// Bits of Netscape's certificate type.
const NETSCAPE_CLIENT: u16 = 1 << 15;
const NETSCAPE_SERVER: u16 = 1 << 14;

/// Purposes of the extended key usage, as OIDs.
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

/// The version of certificates that have no extensions.
const V1: u8 = 0;
const V3: u8 = 2;

/// A certificate.
pub(super) struct Certificate<'a> {
    /// All of it.
    pub(super) whole: &'a [u8],
    /// What is signed.
    pub(super) signed: &'a [u8],
    /// By which algorithm.
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) key: SubjectPublicKeyInfoDer<'a>,
    version: u8,
    /// When it is valid, from the first second to the last, since 1970.
    not_before: i64,
    not_after: i64,
    extensions: Extensions<'a>,
}

/// What extensions say; `None` of those that are not there.
#[derive(Default)]
struct Extensions<'a> {
    /// Whether it is the certificate of an authority, and how many authorities may follow.
    basic: Option<(bool, Option<u64>)>,
    key_usage: Option<u16>,
    /// The purposes, each as an OID.
    purposes: Option<Vec<&'a [u8]>>,
    netscape: Option<u16>,
    has_name_constraints: bool,
    has_unknown_critical: bool,
}

impl<'a> Certificate<'a> {
    /// Reads a certificate; `None` if it is none.
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        let mut all = Values(der);
        let mut parts = all.expect(SEQUENCE)?.values();
        all.end(())?;
        let (signed, algorithm) = (parts.expect(SEQUENCE)?, parts.expect(SEQUENCE)?);
        let signature = parts.expect(BIT_STRING)?.bytes()?;
        parts.end(())?;
        let mut fields = signed.values();
        let version = match fields.next_if(0xa0) {
            Some(version) => {
                let mut inner = version.values();
                let number = inner.expect(INTEGER)?;
                inner.end(())?;
                let &[version @ V1..=V3] = number.content else { return None };
                version
            }
            None => V1,
        };
        fields.expect(INTEGER)?; // the serial number
        let inner_algorithm = fields.expect(SEQUENCE)?;
        let issuer = fields.expect(SEQUENCE)?;
        let mut validity = fields.expect(SEQUENCE)?.values();
        let (not_before, not_after) = (validity.any()?.seconds()?, validity.any()?.seconds()?);
        validity.end(())?;
        let (subject, key) = (fields.expect(SEQUENCE)?, fields.expect(SEQUENCE)?);
        if version > V1 {
            fields.next_if(0x81); // unique identifiers
            fields.next_if(0x82);
        }
        let extensions = match fields.next_if(0xa3).filter(|_| version == V3) {
            Some(listed) => Extensions::read(listed)?,
            None => Extensions::default(),
        };
        fields.end(())?;
        (inner_algorithm.content == algorithm.content).then_some(Certificate {
            whole: der,
            signed: signed.whole,
            algorithm: algorithm.content,
            signature,
            issuer: issuer.whole,
            subject: subject.whole,
            key: SubjectPublicKeyInfoDer::from(key.whole),
            version,
            not_before,
            not_after,
            extensions,
        })
    }

    /// Returns whether it names itself as its issuer.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// Returns whether it is valid at a time in seconds since 1970.
    pub(super) fn is_valid_at(&self, seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&seconds)
    }

    /// Returns whether it was valid before then, and is not any more.
    pub(super) fn has_expired(&self, seconds: i64) -> bool {
        self.not_after < seconds
    }

    /// Returns whether everything that has to be understood is.
    pub(super) fn is_understood(&self) -> bool {
        !self.extensions.has_unknown_critical
    }

    /// Returns whether names are limited that those below it may have.
    pub(super) fn limits_names(&self) -> bool {
        self.extensions.has_name_constraints
    }

    /// Returns how many authorities may stand between it and the end.
    pub(super) fn path_len(&self) -> Option<u64> {
        self.extensions.basic.and_then(|(_, path_len)| path_len)
    }

    /// Returns whether it may issue others, as OpenSSL says: one that is trusted itself need not say that it may if it is of
    /// the first version, or has a key usage with that.
    pub(super) fn may_issue(&self, is_trusted: bool) -> bool {
        let Extensions { basic, key_usage, .. } = &self.extensions;
        if key_usage.is_some_and(|usage| usage & CERTIFICATE_SIGN == 0) {
            return false;
        }
        match basic {
            Some((is_authority, _)) => *is_authority,
            None => is_trusted && (self.version == V1 && self.is_self_issued() || key_usage.is_some()),
        }
    }

    /// Returns whether it is for a purpose, as the certificate of the peer or as that of an issuer.
    pub(super) fn is_for(&self, purpose: Purpose, is_issuer: bool) -> bool {
        let Extensions { key_usage, purposes, netscape, .. } = &self.extensions;
        let (named, usages, kind) = match purpose {
            Purpose::Server => (SERVER_AUTH, DIGITAL_SIGNATURE | KEY_ENCIPHERMENT | KEY_AGREEMENT, NETSCAPE_SERVER),
            Purpose::Client => (CLIENT_AUTH, DIGITAL_SIGNATURE | KEY_AGREEMENT, NETSCAPE_CLIENT),
        };
        let is_named = purposes.as_ref().is_none_or(|purposes| purposes.contains(&named));
        is_named
            && (is_issuer
                || key_usage.is_none_or(|usage| usage & usages != 0) && netscape.is_none_or(|types| types & kind != 0))
    }
}

impl<'a> Extensions<'a> {
    fn read(listed: Value<'a>) -> Option<Self> {
        let mut outer = listed.values();
        let mut all = outer.expect(SEQUENCE)?.values();
        outer.end(())?;
        let mut found = Extensions::default();
        let mut seen: Vec<&[u8]> = Vec::new();
        while !all.0.is_empty() {
            let mut parts = all.expect(SEQUENCE)?.values();
            let name = parts.expect(OBJECT)?.content;
            let is_critical = parts.next_if(BOOLEAN).is_some_and(|flag| flag.content != [0]);
            let text = parts.expect(OCTET_STRING)?.content;
            parts.end(())?;
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
            found.add(name, is_critical, text)?;
        }
        Some(found)
    }

    fn add(&mut self, name: &[u8], is_critical: bool, text: &'a [u8]) -> Option<()> {
        let mut text = Values(text);
        match name {
            [0x55, 0x1d, 15] => self.key_usage = Some(text.expect(BIT_STRING)?.bits()?),
            [0x55, 0x1d, 19] => {
                let mut parts = text.expect(SEQUENCE)?.values();
                let is_authority = parts.next_if(BOOLEAN).is_some_and(|flag| flag.content != [0]);
                let path_len = match parts.next_if(INTEGER) {
                    Some(number) => Some(small_number(number.content)?),
                    None => None,
                };
                self.basic = parts.end(Some((is_authority, path_len)))?;
            }
            [0x55, 0x1d, 37] => {
                let mut parts = text.expect(SEQUENCE)?.values();
                let mut purposes = Vec::new();
                while !parts.0.is_empty() {
                    purposes.push(parts.expect(OBJECT)?.content);
                }
                self.purposes = Some(purposes);
            }
            // Netscape's certificate type, which `openssl` still writes as nsCertType.
            [0x60, 0x86, 0x48, 0x01, 0x86, 0xf8, 0x42, 0x01, 0x01] => {
                self.netscape = Some(text.expect(BIT_STRING)?.bits()?);
            }
            [0x55, 0x1d, 30] => (self.has_name_constraints, text) = (true, Values(&[])),
            // Names, where revocations stand, and policies, which nobody here asks for.
            [0x55, 0x1d, 17 | 31 | 32 | 33 | 36 | 54] => text = Values(&[]),
            _ => (self.has_unknown_critical, text) = (self.has_unknown_critical || is_critical, Values(&[])),
        }
        text.end(())
    }
}

/// Returns a number that is not negative, if it is a small one.
fn small_number(content: &[u8]) -> Option<u64> {
    let is_small = (1..=4).contains(&content.len()) && content[0] < 0x80;
    is_small.then(|| content.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
