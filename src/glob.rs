//! Glob patterns as Redis reads them: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET`, ACL rules.
//!
//! Not a path matcher: `/` and a leading dot have no special meaning. The quirks of Redis' own matcher are kept to the
//! byte (an unterminated class ends with the pattern, ranges compare signed bytes, nothing but the empty pattern
//! matches the empty text), because a client may depend on any of them.
//!
//! Invariant: one call does at most `pattern.len() * text.len()` steps, whatever a peer sends.

/// Tells whether `pattern` matches all of `text`; `case_insensitive` folds ASCII letters.
///
/// Only the empty pattern matches the empty text, as in Redis: `KEYS *` and `SCAN` treat a lone `*` as "every key"
/// before they come here.
pub(crate) fn matches(pattern: &[u8], text: &[u8], case_insensitive: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // Every pattern element but `*` takes exactly one byte, so only the last star needs backtracking: where the rest
    // failed after it, an earlier star that takes more bytes fails as well.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        match match_one(&pattern[p..], text[t], case_insensitive) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => {
                let Some((after_star, taken)) = retry else { return false };
                (p, t) = (after_star, taken + 1);
                retry = Some((p, t));
            }
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Matches the element at the start of `pattern` against one byte; returns the length of the element on a match.
fn match_one(pattern: &[u8], byte: u8, fold: bool) -> Option<usize> {
    let (used, matched) = match pattern {
        [] => return None,
        [b'?', ..] => (1, true),
        [b'[', class @ ..] => {
            let (used, matched) = match_class(class, byte, fold);
            (used + 1, matched)
        }
        [b'\\', escaped, ..] => (2, same(*escaped, byte, fold)),
        [literal, ..] => (1, same(*literal, byte, fold)),
    };
    matched.then_some(used)
}

/// Matches the inside of `[...]`, which starts after the opening bracket; returns the bytes consumed, including the
/// closing bracket, and whether it matched.
fn match_class(class: &[u8], byte: u8, fold: bool) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut matched = false;
    loop {
        match &class[at..] {
            // Without a closing bracket the class ends where the pattern ends.
            [] => break,
            // Redis compares an escaped byte as it is, even when it folds case.
            [b'\\', escaped, ..] => {
                matched |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [low, b'-', high, ..] => {
                matched |= in_range(*low, *high, byte, fold);
                at += 3;
            }
            [literal, ..] => {
                matched |= same(*literal, byte, fold);
                at += 1;
            }
        }
    }
    (at, matched != negated)
}

/// Compares as C's `char` does on x86: signed; a reversed range is swapped.
fn in_range(low: u8, high: u8, byte: u8, fold: bool) -> bool {
    let (low, high) = if low.cast_signed() > high.cast_signed() { (high, low) } else { (low, high) };
    let value = |byte: u8| if fold { byte.to_ascii_lowercase() } else { byte }.cast_signed();
    (value(low)..=value(high)).contains(&value(byte))
}

fn same(a: u8, b: u8, fold: bool) -> bool {
    a == b || (fold && a.eq_ignore_ascii_case(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases: &[(&str, &str, bool)] = &[
            ("", "", true),
            ("*", "", false),
            ("**", "", false),
            ("", "a", false),
            ("*", "a", true),
            ("a*", "a", true),
            ("a**", "a", true),
            ("a*b", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("*llo", "hello", true),
            ("*l*o*", "hello", true),
            ("*x*", "hello", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("h[a-c]llo", "hdllo", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("\\", "\\", true),
            ("a\\", "a\\", true),
            ("[", "[", false),
            ("[^", "x", true),
            ("[a", "a", true),
            ("[a-", "-", true),
            ("[a-]", "b", false),
            ("[a-]", "_", true),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("[]", "a", false),
            ("[^]", "a", true),
            ("[]a]", "a]", false),
            ("*[a-c]?z", "xxxbyz", true),
        ];
        for &(pattern, text, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn case_is_folded_on_request_except_behind_a_backslash_in_a_class() {
        assert!(matches(b"MAX*[A-Z]", b"maxclients", true));
        assert!(!matches(b"MAX*", b"maxclients", false));
        assert!(matches(b"\\A", b"a", true));
        assert!(!matches(b"[\\A]", b"a", true));
        assert!(matches(b"[B]", b"b", true));
    }

    #[test]
    fn ranges_compare_signed_bytes() {
        assert!(matches(b"[\x80-a]", b"\xff", false));
        assert!(matches(b"[\x80-a]", b"A", false));
        assert!(!matches(b"[a-\xff]", b"z", false));
    }

    #[test]
    fn a_pattern_of_many_stars_is_answered_at_once() {
        let pattern = b"a*".repeat(2_000);
        let text = [b"a".repeat(20_000), b"b".to_vec()].concat();
        assert!(!matches(&[pattern.clone(), b"c".to_vec()].concat(), &text, false));
        assert!(matches(&pattern, &text, false));
    }
}
