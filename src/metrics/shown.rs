//! JSON as a page needs it: written, never read.

use std::fmt::Write;

use crate::text::quote;

/// How many bytes of a name are shown.
const NAME_SHOWN: usize = 64;

/// Appends text in quotes.
pub(super) fn text(json: &mut String, text: &str) {
    json.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            // Writing to a string cannot fail.
            c if c.is_control() => write!(json, "\\u{:04x}", u32::from(c)).unwrap_or_default(),
            c => json.push(c),
        }
    }
    json.push('"');
}

/// Appends the bytes of a name in quotes, of which `more` are left out: as they are if a person can read them, and as
/// redis-cli shows them otherwise.
pub(super) fn name(json: &mut String, name: &[u8], more: usize) {
    let readable = match std::str::from_utf8(name) {
        Ok(readable) => Some(readable),
        // The last character is cut.
        Err(error) if more > 0 && error.error_len().is_none() => std::str::from_utf8(&name[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    let readable = readable.filter(|readable| !readable.chars().any(char::is_control));
    let mut shown = readable.map_or_else(|| quote(name), str::to_owned);
    if more > 0 {
        shown.push_str(&format!("\u{2026} ({more} more bytes)"));
    }
    text(json, &shown);
}

/// Appends the bytes of a name in quotes, or the first of them.
pub(super) fn short_name(json: &mut String, bytes: &[u8]) {
    let shown = &bytes[..bytes.len().min(NAME_SHOWN)];
    name(json, shown, bytes.len() - shown.len());
}

/// Appends a list; `write` appends an element.
pub(super) fn list<T>(json: &mut String, elements: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut String, T)) {
    json.push('[');
    for (number, element) in elements.into_iter().enumerate() {
        if number > 0 {
            json.push(',');
        }
        write(json, element);
    }
    json.push(']');
}

/// Appends a number.
pub(super) fn number(json: &mut String, number: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = write!(json, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_inside_their_quotes() {
        let shown = |bytes: &[u8]| {
            let mut json = String::new();
            name(&mut json, bytes, 0);
            json
        };
        assert_eq!(shown(b"</script>\"\\"), r#""</script>\"\\""#);
        assert_eq!(shown("k\u{e4}se \u{1f512}".as_bytes()), "\"k\u{e4}se \u{1f512}\"");
        assert_eq!(shown(b"a\n\nevent: x"), r#""\"a\\n\\nevent: x\"""#);
        assert_eq!(shown(b"\xff\0"), r#""\"\\xff\\x00\"""#);
        let mut json = String::new();
        text(&mut json, "\u{1}\n");
        assert_eq!(json, r#""\u0001\u000a""#);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let mut json = String::new();
        short_name(&mut json, "\u{e4}".repeat(40).as_bytes());
        name(&mut json, &"\u{e4}".as_bytes()[..1], 1);
        assert_eq!(json, format!("\"{}\u{2026} (16 more bytes)\"\"\u{2026} (1 more bytes)\"", "\u{e4}".repeat(32)));
    }

    #[test]
    fn lists_have_commas_between_their_elements() {
        let mut json = String::new();
        list(&mut json, [1, 2, 3], number);
        list(&mut json, [0; 0], number);
        assert_eq!(json, "[1,2,3][]");
    }
}
