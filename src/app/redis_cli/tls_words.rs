//! The options for TLS.

use std::path::PathBuf;

use crate::dial::TlsOptions;

/// The TLS options while they are parsed.
#[derive(Default)]
pub(super) struct TlsWords {
    /// True if TLS is used.
    pub wanted: bool,
    /// The other options.
    pub options: TlsOptions,
    /// File of the client certificate.
    pub cert: Option<PathBuf>,
    /// File of the certificate's key.
    pub key: Option<PathBuf>,
}

impl TlsWords {
    /// Returns the options, if TLS is used.
    ///
    /// # Errors
    /// If a certificate or a key lacks the other.
    pub(super) fn finish(mut self) -> Result<Option<TlsOptions>, String> {
        if self.cert.is_some() != self.key.is_some() {
            return Err("--cert and --key must be used together".into());
        }
        self.options.identity = self.cert.zip(self.key);
        Ok(self.wanted.then_some(self.options))
    }
}
