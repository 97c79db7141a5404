//! The certificate that a server in test mode makes for itself, see the setting `test-tls`.

use std::fmt;

/// A server's certificate with its authority. The settings in force carry it to whatever opens a port, in place of the
/// files that other settings name.
pub(crate) struct TestCertificate {
    /// The certificate of the authority, in PEM.
    pub(crate) authority: String,
    /// The certificate of the server, in DER.
    pub(crate) certificate: Vec<u8>,
    /// Its private key, in the DER of PKCS #8.
    pub(crate) key: Vec<u8>,
}

impl fmt::Debug for TestCertificate {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestCertificate").finish_non_exhaustive()
    }
}
