//! The SHA1 of a text, which names a script.

use sha1::{Digest, Sha1};

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let nibbles = |byte: &u8| [byte >> 4, byte & 0xF].map(|nibble| char::from(DIGITS[usize::from(nibble)]));
    Sha1::digest(bytes).iter().flat_map(nibbles).collect()
}
