//! Words, quotes and numbers as Redis writes them in config files, on the command line and in `CONFIG SET`.
//!
//! Pure text: nothing here knows a setting. Invariant: `split_words` of what `quote` wrote is the same bytes again.

/// Splits a line into words by Redis' quoting rules; `None` when the quotes are unbalanced.
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

/// Takes one word; returns it with the number of bytes it used.
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

/// Takes the inside of a quoted part and its closing quote; returns the number of bytes used.
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

/// Reads an integer as Redis does: no blanks, no plus sign, no leading zeros.
pub(super) fn parse_integer(word: &[u8]) -> Option<i64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => word == b"0",
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    canonical.then(|| std::str::from_utf8(word).ok()?.parse().ok())?
}

/// Reads an integer as C's `strtoll` does, the whole of a word: blanks and a sign may come before the digits, nothing
/// at all is 0, and what does not fit becomes the nearest number.
pub(super) fn parse_c_integer(word: &[u8], base: u32) -> Option<i64> {
    let word = until_nul(word);
    if word.is_empty() {
        return Some(0);
    }
    let digits = word.trim_ascii_start();
    let (is_negative, digits) = match digits {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_i64, |sum, byte| {
        let digit = i64::from(char::from(*byte).to_digit(base)?);
        Some(sum.saturating_mul(i64::from(base)).saturating_add(if is_negative { -digit } else { digit }))
    })
}

/// Cuts a word where C's strings end: before the first zero byte.
pub(super) fn until_nul(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}

/// Reads an amount of memory: digits and a unit (`1k` is 1000, `1kb` is 1024) in any case.
///
/// As in Redis, no digits mean 0, too large a number becomes the largest, and units that make it overflow wrap around.
pub(crate) fn parse_memory(word: &[u8]) -> Option<u64> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = word.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = number.iter().fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(number.wrapping_mul(factor))
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

    #[test]
    fn integers_are_read_strictly() {
        let cases: &[(&str, Option<i64>)] = &[
            ("0", Some(0)),
            ("-12", Some(-12)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("007", None),
            (" 1", None),
            ("1.5", None),
            ("1x", None),
        ];
        for (word, expected) in cases {
            assert_eq!(parse_integer(word.as_bytes()), *expected, "{word:?}");
        }
    }

    #[test]
    fn memory_has_decimal_and_binary_units() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("", Some(0)),
            ("1b", Some(1)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("2m", Some(2_000_000)),
            ("2Mb", Some(2 << 20)),
            ("3g", Some(3_000_000_000)),
            ("3GB", Some(3 << 30)),
            ("18446744073709551616", Some(u64::MAX)),
            ("-1", None),
            ("1q", None),
            ("1 mb", None),
            ("1.5k", None),
            ("1tb", None),
        ];
        for (word, expected) in cases {
            assert_eq!(parse_memory(word.as_bytes()), *expected, "{word:?}");
        }
    }
}
