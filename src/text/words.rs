//! Quoting: splits lines into words and quotes words, as Redis does in config files, on the command line and in ACL
//! rules.
//!
//! Invariant: `split_words` returns the very bytes that were passed to `quote`.

/// Splits a line into words by Redis' quoting rules; returns `None` if the quotes are unbalanced.
///
/// `'...'` knows only `\'`; `"..."` knows `\n \r \t \b \a \xHH` and `\` before any other byte. A closing quote must
/// be followed by a blank or the end of the line.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if matches!(rest, [] | [0, ..]) {
            return Some(words);
        }
        let (word, used) = take_word(rest)?;
        words.push(word);
        rest = &rest[used..];
    }
}

/// Parses one word; returns it with the number of bytes consumed.
fn take_word(line: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut word = Vec::new();
    let mut at = 0;
    loop {
        match line.get(at) {
            None | Some(b' ' | b'\n' | b'\r' | b'\t' | 0) => return Some((word, at)),
            Some(quote @ (b'"' | b'\'')) => {
                at += 1 + take_quoted(&line[at + 1..], *quote, &mut word)?;
                let closed = line.get(at).is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0);
                return closed.then_some((word, at));
            }
            Some(&byte) => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// Parses a quoted part up to its closing quote; returns the number of bytes consumed.
fn take_quoted(text: &[u8], quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let (byte, used) = match &text[at..] {
            [] => return None,
            [byte, ..] if *byte == quote => return Some(at + 1),
            [b'\\', b'\'', ..] if quote == b'\'' => (b'\'', 2),
            [b'\\', b'x', high, low, ..] if quote == b'"' && is_hex(*high) && is_hex(*low) => {
                (hex_value(*high) << 4 | hex_value(*low), 4)
            }
            [b'\\', escaped, ..] if quote == b'"' => (unescape(*escaped), 2),
            [byte, ..] => (*byte, 1),
        };
        word.push(byte);
        at += used;
    }
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit.to_ascii_lowercase() - b'a') + 10,
    }
}

fn unescape(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// Writes `text` in double quotes, escaped so that [`split_words`] reads it back.
pub fn quote(text: &[u8]) -> String {
    let mut quoted = String::from('"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => quoted.extend(['\\', char::from(byte)]),
            b'\n' => quoted.push_str("\\n"),
            b'\r' => quoted.push_str("\\r"),
            b'\t' => quoted.push_str("\\t"),
            0x07 => quoted.push_str("\\a"),
            0x08 => quoted.push_str("\\b"),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_into_words_by_the_quoting_rules() {
        let cases: &[(&str, Option<&[&str]>)] = &[
            ("", Some(&[])),
            ("  a\tb ", Some(&["a", "b"])),
            ("save ''", Some(&["save", ""])),
            (r#"a "b c" 'd "e'"#, Some(&["a", "b c", "d \"e"])),
            (r#""\x41\n\t\q\"""#, Some(&["A\n\tq\""])),
            (r"'a\'b\n'", Some(&["a'b\\n"])),
            (r#"pre"fix""#, Some(&["prefix"])),
            (r#""\xZZ""#, Some(&["xZZ"])),
            ("a\0b", Some(&["a"])),
            ("\"abc", None),
            ("5\"", None),
            ("'a", None),
            (r#""a"b"#, None),
            (r#""a\"#, None),
        ];
        for (line, expected) in cases {
            let words = split_words(line.as_bytes());
            let expected: Option<Vec<Vec<u8>>> =
                expected.map(|words| words.iter().map(|word| word.as_bytes().to_vec()).collect());
            assert_eq!(words, expected, "{line:?}");
        }
    }

    #[test]
    fn quoting_any_bytes_and_splitting_gives_them_back() {
        let every_byte: Vec<u8> = (0..=255).collect();
        assert_eq!(split_words(quote(&every_byte).as_bytes()), Some(vec![every_byte]));
        assert_eq!(quote(b"3\xff\x01\n\t\x07\""), r#""3\xff\x01\n\t\a\"""#);
    }
}
