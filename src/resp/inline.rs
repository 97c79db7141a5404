//! Splits an inline request: a line as typed into telnet.
//!
//! The syntax is not that of a shell: a double quote anywhere in a word opens an escaped part (`\n \r \t \b \a \xHH`,
//! any other escaped byte stands for itself), a single quote opens a literal one (only `\'` is an escape), and the
//! closing quote ends the word, so a blank or the end of the line must follow it.
//!
//! Invariant: a word is never longer than its escaped form, so words are unescaped in place, and the spans of an inline
//! request are like those of a multibulk one.

use crate::resp::request::Span;

/// Splits `line` into words, unescaping them in place; spans are relative to `base`, the position of the line.
///
/// Returns `false` when a quote is not closed or a closing quote is not followed by a blank.
pub(super) fn split_in_place(line: &mut [u8], base: usize, spans: &mut Vec<Span>) -> bool {
    let mut read = 0;
    loop {
        while line.get(read).is_some_and(|&byte| is_blank(byte)) {
            read += 1;
        }
        if read == line.len() {
            return true;
        }
        let Some((end, len)) = unescape_word(line, read) else {
            return false;
        };
        spans.push(Span { start: base + read, len });
        read = end;
    }
}

/// Unescapes the word that begins at `start` in place, and returns the end of its escaped form and the length of the
/// result; `None` when its quotes are unbalanced.
fn unescape_word(line: &mut [u8], start: usize) -> Option<(usize, usize)> {
    let (mut read, mut write) = (start, start);
    let mut quote = None;
    while let Some(&byte) = line.get(read) {
        let (value, width) = match (quote, byte) {
            (None, b' ' | b'\n' | b'\r' | b'\t') => break,
            (None, b'"' | b'\'') => {
                quote = Some(byte);
                read += 1;
                continue;
            }
            (Some(open), close) if open == close => {
                let end = read + 1;
                let stands_alone = line.get(end).is_none_or(|&next| is_blank(next));
                return stands_alone.then_some((end, write - start));
            }
            (Some(b'"'), b'\\') => unescape(&line[read..]),
            (Some(b'\''), b'\\') if line.get(read + 1) == Some(&b'\'') => (b'\'', 2),
            _ => (byte, 1),
        };
        line[write] = value;
        write += 1;
        read += width;
    }
    quote.is_none().then_some((read, write - start))
}

/// Parses one backslash escape; returns the byte it stands for and the width of the escape.
fn unescape(escape: &[u8]) -> (u8, usize) {
    match *escape {
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex_value(high) << 4 | hex_value(low), 4)
        }
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b't', ..] => (b'\t', 2),
        [_, b'b', ..] => (0x08, 2),
        [_, b'a', ..] => (0x07, 2),
        [_, byte, ..] => (byte, 2),
        // A backslash at the end of the line escapes nothing; the quote around it is then unbalanced.
        _ => (b'\\', 1),
    }
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Tests for C's `isspace`. Such a byte separates words and may follow a closing quote, but vertical tab and form feed
/// do not end an unquoted word: Redis uses two different checks, and so does this file.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::split_in_place;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (mut line, mut spans) = (line.to_vec(), Vec::new());
        split_in_place(&mut line, 0, &mut spans).then(|| {
            let word = |span: &super::Span| line[span.start..span.start + span.len].to_vec();
            spans.iter().map(word).collect()
        })
    }

    /// Recorded from Redis 7.0.15.
    #[test]
    fn words_split_as_redis_splits_them() {
        let cases: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b" \t\x0b\x0c\r ", &[]),
            (b"SET k v", &[b"SET", b"k", b"v"]),
            (br#"ECHO "a\x41\n\q""#, &[b"ECHO", b"aA\nq"]),
            (br#"ECHO "\x4g\r\t\b\a""#, &[b"ECHO", b"x4g\r\t\x08\x07"]),
            (br"ECHO 'a\'b\n'", &[b"ECHO", br"a'b\n"]),
            (br#"ECHO a"b c" d"#, &[b"ECHO", b"ab c", b"d"]),
            (br#"ECHO "" ab''"#, &[b"ECHO", b"", b"ab"]),
            (br#"ECHO "it's" '"'"#, &[b"ECHO", b"it's", b"\""]),
            (b"\x0bECHO\x0b a\xff\xa0", &[b"ECHO\x0b", b"a\xff\xa0"]),
            (b"ECHO a\rb", &[b"ECHO", b"a", b"b"]),
            (b"ECHO \"a\"\x0b", &[b"ECHO", b"a"]),
            (br"ECHO a\n", &[b"ECHO", br"a\n"]),
        ];
        for (line, expected) in cases {
            let expected = expected.iter().map(|word| word.to_vec()).collect();
            assert_eq!(words(line), Some(expected), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        let cases: &[&[u8]] = &[
            b"ECHO \"a",
            b"ECHO 'a",
            b"ECHO \"a\"b",
            b"ECHO a\"b\"c",
            b"ECHO 'a'b",
            b"ECHO \"a\\\"",
            b"ECHO \"\\",
            b"ECHO 'a\\'",
        ];
        for line in cases {
            assert_eq!(words(line), None, "{}", line.escape_ascii());
        }
    }
}
