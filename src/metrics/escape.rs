//! Names of keys and clients as a page shows them: they are bytes, which a peer has chosen.

use crate::text::quote;

/// Number of bytes of a name that are shown.
const NAME_SHOWN: usize = 64;

/// Returns a name, of which `more` bytes are left out: as it is if a person can read it, and otherwise as redis-cli
/// shows it.
pub(super) fn name(name: &[u8], more: usize) -> String {
    let readable = match std::str::from_utf8(name) {
        Ok(readable) => Some(readable),
        // The last character is cut off.
        Err(error) if more > 0 && error.error_len().is_none() => std::str::from_utf8(&name[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    let readable = readable.filter(|readable| !readable.chars().any(char::is_control));
    let mut shown = readable.map_or_else(|| quote(name), str::to_owned);
    if more > 0 {
        shown.push_str(&format!("\u{2026} ({more} more bytes)"));
    }
    shown
}

/// Returns a name, or its first bytes.
pub(super) fn short_name(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(NAME_SHOWN)];
    name(shown, bytes.len() - shown.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_can_read_are_quoted() {
        assert_eq!(name(b"</script>\"\\", 0), "</script>\"\\");
        assert_eq!(name("k\u{e4}se \u{1f512}".as_bytes(), 0), "k\u{e4}se \u{1f512}");
        assert_eq!(name(b"a\n\nevent: x", 0), r#""a\n\nevent: x""#);
        assert_eq!(name(b"\xff\0", 0), r#""\xff\x00""#);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let shown = format!("{}\u{2026} (16 more bytes)", "\u{e4}".repeat(32));
        assert_eq!(short_name("\u{e4}".repeat(40).as_bytes()), shown);
        assert_eq!(name(&"\u{e4}".as_bytes()[..1], 1), "\u{2026} (1 more bytes)");
    }
}
