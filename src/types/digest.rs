//! The digest of DEBUG DIGEST, computed as in Redis, to compare two servers.
//!
//! A digest is twenty bytes that start at zero. To *add* bytes is to XOR their SHA-1 into it, which does not depend on
//! the order; to *mix* them is to add them and then to replace the digest by its own SHA-1, which does.

use sha1::{Digest as _, Sha1};

/// Digest of data.
#[derive(Default)]
pub(crate) struct Digest([u8; 20]);

impl Digest {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.iter_mut().zip(Sha1::digest(bytes)).for_each(|(byte, other)| *byte ^= other);
    }

    pub(crate) fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    /// Adds another digest.
    pub(crate) fn add_digest(&mut self, other: &Digest) {
        self.add(&other.0);
    }

    /// Mixes in the number that a type has in Redis.
    pub(super) fn mix_type(&mut self, number: u32) {
        self.mix(&number.to_be_bytes());
    }

    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
