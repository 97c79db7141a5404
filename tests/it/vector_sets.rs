//! Vector sets. What can be compared exactly is compared with Redis 8, where such a server is installed.

mod commands;
mod files;
mod filters;
mod redis_8;
mod searches;

/// Splits a request into words; `"..."` is a word in which a backslash escapes the next byte, or begins `\\x` and a byte in
/// hexadecimal digits.
fn words(request: &str) -> Vec<Vec<u8>> {
    let (mut words, mut bytes) = (Vec::new(), request.bytes().peekable());
    while let Some(first) = bytes.next() {
        let (mut word, is_quoted) = (Vec::new(), first == b'"');
        if !is_quoted {
            word.push(first);
        }
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' if is_quoted => break,
                b' ' if !is_quoted => break,
                b'\\' if is_quoted => match bytes.next() {
                    Some(b'x') => {
                        let mut digit =
                            || bytes.next().and_then(|digit| char::from(digit).to_digit(16)).expect("a digit");
                        word.push((digit() << 4 | digit()) as u8);
                    }
                    escaped => word.push(escaped.expect("an escaped byte")),
                },
                _ => word.push(byte),
            }
        }
        if is_quoted {
            bytes.next_if_eq(&b' ');
        }
        words.push(word);
    }
    words
}
