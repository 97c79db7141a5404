//! The page for browsers, which may load and run nothing but itself.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::HeaderValue;
use sha2::{Digest, Sha256};

/// Text of the page.
pub(super) const HTML: &str = include_str!("page.html");

/// The page, and the policy of what it may load.
pub(super) struct Page {
    policy: HeaderValue,
}

impl Page {
    /// Computes the policy, from the hashes of the page's script and style.
    pub(super) fn new() -> Self {
        let hash_of = |element: &str| {
            let inside = HTML.split_once(&format!("<{element}>")).and_then(|(_, rest)| rest.split_once("</"));
            STANDARD.encode(Sha256::digest(inside.map_or("", |(inside, _)| inside)))
        };
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash_of("script"),
            hash_of("style")
        );
        Page { policy: HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'")) }
    }
    /// Returns the header `Content-Security-Policy`.
    pub(super) fn policy(&self) -> HeaderValue {
        self.policy.clone()
    }
}
