//! The certificates of `test-tls`: an authority, and the certificate that it issues for the names of the server.
//!
//! Nobody keeps the authority's key: it signs once.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use sha2::{Digest, Sha256};
use x509_cert::Version;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::{CertificateInner, Raw, TbsCertificateInner};
use x509_cert::der::asn1::{Any, BitString, GeneralizedTime, Ia5String, OctetString, SetOfVec, UtcTime, Utf8StringRef};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::der::oid::db::rfc5280::ID_KP_SERVER_AUTH;
use x509_cert::der::oid::db::rfc5912::{ECDSA_WITH_SHA_256, ID_EC_PUBLIC_KEY, SECP_256_R_1};
use x509_cert::der::{self, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use crate::config::{Config, TestCertificate};
use crate::time::clock::Clock;

const AUTHORITY: &str = "keylatch test authority";
const SERVER: &str = "keylatch test server";

const DAY_S: u64 = 24 * 60 * 60;

/// For how many days before and after its making a certificate is valid, so that clients whose clock was moved take it.
/// Some take none that is valid for more than 398 days.
const VALID_DAYS: [u64; 2] = [30, 365];

/// A subject with its key.
struct Holder {
    name: Name,
    key: EcdsaKeyPair,
    /// The key in the DER of PKCS #8.
    pkcs8: Vec<u8>,
    /// The name of the key in certificates.
    key_id: OctetString,
}

/// The failure of a step, none of which depends on what users say.
#[derive(Debug)]
pub(super) struct MakingFailed(String);

impl From<der::Error> for MakingFailed {
    fn from(cause: der::Error) -> Self {
        MakingFailed(cause.to_string())
    }
}

impl From<Unspecified> for MakingFailed {
    fn from(cause: Unspecified) -> Self {
        MakingFailed(cause.to_string())
    }
}

impl From<MakingFailed> for std::io::Error {
    fn from(MakingFailed(cause): MakingFailed) -> Self {
        std::io::Error::other(format!("failed to make the certificate of test-tls: {cause}"))
    }
}

/// Makes an authority and the certificate of a server, for this machine's own addresses and those that the settings name.
///
/// # Errors
/// If there are no random numbers, or the date of the system is none that a certificate can have.
pub(super) fn make(config: &Config) -> Result<TestCertificate, MakingFailed> {
    let (authority, server) = (Holder::new(AUTHORITY)?, Holder::new(SERVER)?);
    let of_authority = [
        extension(true, &BasicConstraints { ca: true, path_len_constraint: Some(0) })?,
        extension(true, &KeyUsage(KeyUsages::KeyCertSign | KeyUsages::CRLSign))?,
        extension(false, &SubjectKeyIdentifier(authority.key_id.clone()))?,
    ];
    let issuer = AuthorityKeyIdentifier { key_identifier: Some(authority.key_id.clone()), ..Default::default() };
    let of_server = [
        extension(true, &BasicConstraints { ca: false, path_len_constraint: None })?,
        extension(true, &KeyUsage(KeyUsages::DigitalSignature.into()))?,
        extension(false, &ExtendedKeyUsage(vec![ID_KP_SERVER_AUTH]))?,
        extension(false, &SubjectKeyIdentifier(server.key_id.clone()))?,
        extension(false, &issuer)?,
        extension(false, &SubjectAltName(names(config)))?,
    ];
    Ok(TestCertificate {
        authority: pem(&authority.issue(&authority, of_authority.into())?),
        certificate: authority.issue(&server, of_server.into())?,
        key: server.pkcs8,
    })
}

impl Holder {
    fn new(name: &str) -> Result<Self, MakingFailed> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)?.as_ref().to_vec();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &random)
            .map_err(|cause| MakingFailed(cause.to_string()))?;
        let digest = Sha256::digest(key.public_key());
        let key_id = OctetString::new(&digest[..20])?;
        Ok(Holder { name: common_name(name)?, key, pkcs8, key_id })
    }

    /// Makes a certificate of a subject.
    fn issue(&self, subject: &Holder, extensions: Vec<Extension>) -> Result<Vec<u8>, MakingFailed> {
        let algorithm = AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA_256, parameters: None };
        let of_key = AlgorithmIdentifierOwned { oid: ID_EC_PUBLIC_KEY, parameters: Some(Any::from(SECP_256_R_1)) };
        let certificate = TbsCertificateInner::<Raw> {
            version: Version::V3,
            serial_number: serial_number()?,
            signature: algorithm.clone(),
            issuer: self.name.clone(),
            validity: validity()?,
            subject: subject.name.clone(),
            subject_public_key_info: SubjectPublicKeyInfoOwned {
                algorithm: of_key,
                subject_public_key: BitString::from_bytes(subject.key.public_key().as_ref())?,
            },
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(extensions),
        };
        let signature = self.key.sign(&SystemRandom::new(), &certificate.to_der()?)?;
        let signature = BitString::from_bytes(signature.as_ref())?;
        let signed = CertificateInner { tbs_certificate: certificate, signature_algorithm: algorithm, signature };
        Ok(signed.to_der()?)
    }
}

/// Returns a name with nothing but the common name. The crate's parser of names would bring a table of all object identifiers.
fn common_name(name: &str) -> der::Result<Name> {
    let value = Any::from(Utf8StringRef::new(name)?);
    let attributes = SetOfVec::try_from(vec![AttributeTypeAndValue { oid: COMMON_NAME, value }])?;
    Ok(RdnSequence(vec![RelativeDistinguishedName(attributes)]))
}

fn serial_number() -> Result<SerialNumber<Raw>, MakingFailed> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|cause| MakingFailed(cause.to_string()))?;
    Ok(SerialNumber::new(&bytes)?)
}

fn validity() -> der::Result<Validity> {
    let now_s = u64::try_from(Clock::system().wall_us() / 1_000_000).unwrap_or_default();
    let at = |s: u64| {
        let time = Duration::from_secs(s);
        // The form for dates before 2050, which it has to be for these.
        let early = UtcTime::from_unix_duration(time).map(Time::UtcTime);
        early.or_else(|_| GeneralizedTime::from_unix_duration(time).map(Time::GeneralTime))
    };
    let [before, after] = VALID_DAYS.map(|days| days * DAY_S);
    Ok(Validity { not_before: at(now_s.saturating_sub(before))?, not_after: at(now_s + after)? })
}

fn extension<T: Encode + AssociatedOid>(critical: bool, content: &T) -> der::Result<Extension> {
    Ok(Extension { extn_id: T::OID, critical, extn_value: OctetString::new(content.to_der()?)? })
}

/// Returns the names by which clients reach the server: those of the loopback interface, the addresses of `bind`, and
/// those that the settings announce.
fn names(config: &Config) -> Vec<GeneralName> {
    let announced = [&config.cluster_announce_ip, &config.cluster_announce_hostname].into_iter().flatten();
    let announced = announced.map(|name| String::from_utf8_lossy(name).into_owned());
    let bound = config.bind.iter().map(|address| address.trim_start_matches('-').to_owned());
    let mut named: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    named.extend(bound.chain(announced).filter(|name| !matches!(&**name, "" | "*" | "::*")));
    named.sort();
    named.dedup();
    named.iter().filter_map(|name| general_name(name).ok()).collect()
}

fn general_name(name: &str) -> der::Result<GeneralName> {
    match name.parse() {
        Ok(IpAddr::V4(ip)) => OctetString::new(ip.octets()).map(GeneralName::IpAddress),
        Ok(IpAddr::V6(ip)) => OctetString::new(ip.octets()).map(GeneralName::IpAddress),
        Err(_) => Ia5String::new(name).map(GeneralName::DnsName),
    }
}

fn pem(certificate: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(certificate);
    let lines: String = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n").collect();
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
}
