//! X.509 certificates of all versions, as far as the check of a chain needs them.

use std::collections::BTreeSet;

use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use x509_cert::Version;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::asn1::{AnyRef, BitStringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5280::{
    ID_CE_BASIC_CONSTRAINTS, ID_CE_CERTIFICATE_POLICIES, ID_CE_CRL_DISTRIBUTION_POINTS, ID_CE_EXT_KEY_USAGE,
    ID_CE_INHIBIT_ANY_POLICY, ID_CE_KEY_USAGE, ID_CE_NAME_CONSTRAINTS, ID_CE_POLICY_CONSTRAINTS, ID_CE_POLICY_MAPPINGS,
    ID_CE_SUBJECT_ALT_NAME, ID_KP_CLIENT_AUTH, ID_KP_SERVER_AUTH,
};
use x509_cert::der::{self, Decode, Reader, SliceReader};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages};
use x509_cert::time::Validity;

#[derive(Clone, Copy)]
pub(super) enum CertificatePurpose {
    /// Authentication of a server.
    Server,
    /// Authentication of a client.
    Client,
}

/// Netscape's certificate type, which `openssl` still writes as nsCertType, and two of its bits.
const NETSCAPE_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.113730.1.1");
const NETSCAPE_CLIENT: usize = 0;
const NETSCAPE_SERVER: usize = 1;

/// Tag of the version.
const VERSION: u8 = 0xa0;
/// The bit in the tag of a value that consists of others.
const CONSTRUCTED: u8 = 0x20;

/// A certificate, with the original bytes of parts that are compared, signed or passed on.
pub(super) struct Certificate<'a> {
    /// The whole certificate.
    pub(super) whole: &'a [u8],
    /// The signed part.
    pub(super) signed: &'a [u8],
    /// The algorithm of the signature.
    pub(super) algorithm: &'a [u8],
    pub(super) signature: &'a [u8],
    pub(super) issuer: &'a [u8],
    pub(super) subject: &'a [u8],
    pub(super) key: SubjectPublicKeyInfoDer<'a>,
    version: Version,
    validity: Validity,
    extensions: Extensions,
}

/// Content of the extensions; `None` for missing ones.
#[derive(Default)]
struct Extensions {
    basic: Option<BasicConstraints>,
    key_usage: Option<KeyUsage>,
    purposes: Option<ExtendedKeyUsage>,
    /// The first two bits of Netscape's type.
    netscape: Option<Vec<bool>>,
    has_name_constraints: bool,
    has_unknown_critical: bool,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate; `None` if it is malformed.
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        if !is_whole(der) {
            return None;
        }
        let CertificateInner::<Raw> { tbs_certificate: read, signature_algorithm, .. } = Decode::from_der(der).ok()?;
        let [signed, algorithm, signature] = parts(der).ok()?[..] else { return None };
        let fields = parts(signed).ok()?;
        let has_version = fields.first().is_some_and(|field| field[0] == VERSION);
        let [_, _, issuer, _, subject, key, ref optional @ ..] = fields[usize::from(has_version)..] else {
            return None;
        };
        let unique_ids = [&read.issuer_unique_id, &read.subject_unique_id].into_iter().flatten().count();
        // The crate skips further fields where a field is optional.
        let has_others = optional.len() != unique_ids + usize::from(read.extensions.is_some());
        if has_others || read.version == Version::V1 && unique_ids > 0 || read.signature != signature_algorithm {
            return None;
        }
        let extensions = read.extensions.filter(|_| read.version == Version::V3).unwrap_or_default();
        Some(Certificate {
            whole: der,
            signed,
            algorithm: AnyRef::from_der(algorithm).ok()?.value(),
            signature: BitStringRef::from_der(signature).ok()?.as_bytes()?,
            issuer,
            subject,
            key: SubjectPublicKeyInfoDer::from(key),
            version: read.version,
            validity: read.validity,
            extensions: Extensions::read(&extensions)?,
        })
    }

    /// Returns true if the certificate names itself as its issuer.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// Returns true if the certificate is valid at a time in seconds since 1970.
    pub(super) fn is_valid_at(&self, seconds: u64) -> bool {
        self.validity.not_before.to_unix_duration().as_secs() <= seconds && !self.has_expired(seconds)
    }

    /// Returns true if the certificate has expired at a time in seconds since 1970.
    pub(super) fn has_expired(&self, seconds: u64) -> bool {
        self.validity.not_after.to_unix_duration().as_secs() < seconds
    }

    /// Returns true if all critical extensions are known.
    pub(super) fn is_understood(&self) -> bool {
        !self.extensions.has_unknown_critical
    }

    /// Returns true if the certificate limits the names of those below it.
    pub(super) fn limits_names(&self) -> bool {
        self.extensions.has_name_constraints
    }

    /// Returns the number of authorities that may stand between the certificate and the end.
    pub(super) fn path_len(&self) -> Option<u64> {
        self.extensions.basic.as_ref().and_then(|basic| basic.path_len_constraint).map(u64::from)
    }

    /// Returns true if the certificate may issue others, by OpenSSL's rules: one that is trusted itself needs no
    /// statement of this if it is of version 1, or has a key usage that permits it.
    pub(super) fn may_issue(&self, is_trusted: bool) -> bool {
        let Extensions { basic, key_usage, .. } = &self.extensions;
        if key_usage.is_some_and(|usage| !usage.key_cert_sign()) {
            return false;
        }
        match basic {
            Some(basic) => basic.ca,
            None => is_trusted && (self.version == Version::V1 && self.is_self_issued() || key_usage.is_some()),
        }
    }

    /// Returns true if the certificate is for a purpose, as that of the peer or as that of an issuer.
    pub(super) fn is_for(&self, purpose: CertificatePurpose, is_issuer: bool) -> bool {
        let Extensions { key_usage, purposes, netscape, .. } = &self.extensions;
        use KeyUsages::{DigitalSignature, KeyAgreement, KeyEncipherment};
        let (named, usages, kind) = match purpose {
            CertificatePurpose::Server => {
                (ID_KP_SERVER_AUTH, DigitalSignature | KeyEncipherment | KeyAgreement, NETSCAPE_SERVER)
            }
            CertificatePurpose::Client => (ID_KP_CLIENT_AUTH, DigitalSignature | KeyAgreement, NETSCAPE_CLIENT),
        };
        let is_named = purposes.as_ref().is_none_or(|purposes| purposes.0.contains(&named));
        is_named
            && (is_issuer
                || key_usage.is_none_or(|usage| !usage.0.is_disjoint(usages))
                    && netscape.as_ref().is_none_or(|types| types.get(kind) == Some(&true)))
    }
}

impl Extensions {
    fn read(listed: &[Extension]) -> Option<Self> {
        let (mut found, mut seen) = (Extensions::default(), BTreeSet::new());
        for extension in listed {
            if !seen.insert(extension.extn_id) {
                return None;
            }
            found.add(extension).ok()?;
        }
        Some(found)
    }

    fn add(&mut self, extension: &Extension) -> der::Result<()> {
        let text = extension.extn_value.as_bytes();
        match extension.extn_id {
            ID_CE_BASIC_CONSTRAINTS => self.basic = Some(Decode::from_der(text)?),
            ID_CE_KEY_USAGE => self.key_usage = Some(Decode::from_der(text)?),
            ID_CE_EXT_KEY_USAGE => self.purposes = Some(Decode::from_der(text)?),
            NETSCAPE_TYPE => self.netscape = Some(BitStringRef::from_der(text)?.bits().take(2).collect()),
            ID_CE_NAME_CONSTRAINTS => self.has_name_constraints = true,
            // Alternative names, locations of revocation lists, and policies are not evaluated here.
            ID_CE_SUBJECT_ALT_NAME
            | ID_CE_CRL_DISTRIBUTION_POINTS
            | ID_CE_CERTIFICATE_POLICIES
            | ID_CE_POLICY_MAPPINGS
            | ID_CE_POLICY_CONSTRAINTS
            | ID_CE_INHIBIT_ANY_POLICY => {}
            _ => self.has_unknown_critical |= extension.critical,
        }
        Ok(())
    }
}

/// Returns the values that a value consists of, each with its tag and length.
fn parts(whole: &[u8]) -> der::Result<Vec<&[u8]>> {
    let mut reader = SliceReader::new(AnyRef::from_der(whole)?.value())?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.tlv_bytes()?);
    }
    Ok(parts)
}

/// Returns true if no value claims to be longer than the one that contains it: the crate allocates before it checks.
fn is_whole(der: &[u8]) -> bool {
    let mut left = vec![der];
    while let Some(whole) = left.pop() {
        let Ok(parts) = parts(whole) else { return false };
        left.extend(parts.into_iter().filter(|part| part[0] & CONSTRUCTED != 0));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: [u8; 5] = [6, 3, 0x2a, 3, 4];
    const KEY_USAGE: [u8; 5] = [6, 3, 0x55, 0x1d, 15];
    const TRUE: [u8; 3] = [1, 1, 0xff];

    /// Encodes a value that consists of others.
    fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let len = content.len() as u8;
        let head = if len < 0x80 { vec![tag, len] } else { vec![tag, 0x81, len] };
        [head, content].concat()
    }

    /// Returns the required fields of a certificate.
    fn fields(version: u8) -> Vec<Vec<u8>> {
        let (version, bits) = (value(0xa0, &[&[2, 1, version]]), [3, 2, 0, 1]);
        let time = |year: &str| value(0x17, &[year.as_bytes(), b"0101000000Z"]);
        let (algorithm, validity) = (value(0x30, &[&OBJECT]), value(0x30, &[&time("20"), &time("40")]));
        let (serial, key) = (value(2, &[&[7; 40]]), value(0x30, &[&algorithm, &bits]));
        vec![version, serial, algorithm, vec![0x30, 0], validity, vec![0x30, 0], key]
    }

    fn extension(parts: &[&[u8]]) -> Vec<u8> {
        value(0x30, parts)
    }

    fn extensions(listed: &[&[u8]]) -> Vec<u8> {
        value(0xa3, &[&value(0x30, listed)])
    }

    fn certificate(fields: &[Vec<u8>], algorithm: &[u8]) -> Vec<u8> {
        let fields: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
        value(0x30, &[&value(0x30, &fields), &value(0x30, &[algorithm]), &[3, 2, 0, 9]])
    }

    /// Returns true if a certificate with further fields behind the required ones is parsed.
    fn is_read(version: u8, more: &[&[u8]]) -> bool {
        let fields = [fields(version), more.iter().map(|field| field.to_vec()).collect()].concat();
        Certificate::read(&certificate(&fields, &OBJECT)).is_some()
    }

    #[test]
    fn a_certificate_has_each_field_once_and_in_order() {
        let (first, second): ([u8; 4], [u8; 4]) = ([0x81, 2, 0, 1], [0x82, 2, 0, 1]);
        let last = extensions(&[&extension(&[&OBJECT, &[4, 0]])]);
        assert!((0..=2).all(|version| is_read(version, &[])) && !is_read(3, &[]));
        assert!(is_read(2, &[&first, &second, &last]) && is_read(1, &[&second]));
        assert!(!is_read(0, &[&first]), "version 1 has no unique identifiers");
        for more in [
            &[&first[..], &first][..],
            &[&second, &second],
            &[&second, &first],
            &[&[0xa0, 3, 2, 1, 2]],
            &[&first, &[0xa0, 0], &last],
            &[&[0x80, 0], &last],
            &[&last, &last],
            &[&last, &[5, 0]],
        ] {
            assert!(!is_read(2, more), "{more:?}");
        }
    }

    #[test]
    fn nothing_follows_a_certificate_and_it_names_one_algorithm() {
        let whole = certificate(&fields(2), &OBJECT);
        let read = Certificate::read(&whole).expect("a certificate");
        assert_eq!([read.algorithm, read.signature], [&OBJECT[..], &[9]]);
        assert!(!read.is_valid_at(1_577_836_799) && read.is_valid_at(1_577_836_800));
        assert!(read.is_valid_at(2_208_988_800) && read.has_expired(2_208_988_801));
        assert!(Certificate::read(&[&whole[..], &[0]].concat()).is_none());
        assert!(Certificate::read(&whole[..whole.len() - 1]).is_none());
        assert!(Certificate::read(&certificate(&fields(2), &[6, 3, 0x2a, 3, 5])).is_none());
        assert!(Certificate::read(&certificate(&fields(2), &[&OBJECT[..], &[5, 0]].concat())).is_none());
    }

    #[test]
    fn an_extension_stands_once_and_is_understood_if_it_is_critical() {
        let understood = |listed: &[&[u8]]| {
            let whole = certificate(&[fields(2), vec![extensions(listed)]].concat(), &OBJECT);
            Certificate::read(&whole).map(|read| read.is_understood())
        };
        let (unknown, critical) = (extension(&[&OBJECT, &[4, 0]]), extension(&[&OBJECT, &TRUE, &[4, 0]]));
        assert_eq!([understood(&[&unknown]), understood(&[&critical])], [Some(true), Some(false)]);
        assert_eq!(understood(&[&unknown, &unknown]), None);
        let usage = |text: &[u8]| extension(&[&KEY_USAGE, &TRUE, &value(4, &[text])]);
        assert_eq!(understood(&[&usage(&[3, 2, 2, 4])]), Some(true));
        assert_eq!(understood(&[&usage(&[3, 2, 2, 4, 0])]), None, "something follows");
        assert_eq!(understood(&[&usage(&[3, 2, 2, 4]), &unknown, &usage(&[3, 2, 2, 4])]), None);
    }

    #[test]
    fn a_value_that_is_longer_than_what_it_is_part_of_is_found_before_it_is_read() {
        let text = |len: &[u8]| value(0x30, &[&value(0x31, &[&[4], len, &[9]])]);
        assert!(is_whole(&text(&[1])) && is_whole(&certificate(&fields(2), &OBJECT)));
        assert!(!is_whole(&text(&[2])) && !is_whole(&text(&[0x84, 0x0f, 0xff, 0xff, 0xff])));
        let deep = (0..60).fold(vec![0x30, 0x80], |inner, _| value(0x30, &[&inner]));
        assert!(!is_whole(&deep));
    }
}
