//! Strings of JSON, for programs that read what this one prints.

use std::fmt::Write;

/// Returns a string of JSON, in ASCII; bytes that are no text become U+FFFD.
pub(super) fn json(text: &[u8]) -> String {
    let mut string = String::from('"');
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '"' | '\\' => string.extend(['\\', c]),
            ' '..='~' => string.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(string, "\\u{unit:04x}")),
        }
    }
    string.push('"');
    string
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_ascii_without_control_characters() {
        assert_eq!(json(b"a\"\\\x1b\xff"), r#""a\"\\\u001b\ufffd""#);
        assert_eq!(json("\u{fc}\u{1f512}".as_bytes()), r#""\u00fc\ud83d\udd12""#);
    }
}
