//! Glob patterns as Redis reads them: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET`, ACL rules.
//!
//! Not a path matcher: `/` and a leading dot have no special meaning. The quirks of Redis' own matcher are kept to the
//! byte (an unterminated class ends with the pattern, ranges compare signed bytes, nothing but the empty pattern
//! matches the empty text), because a client may depend on any of them.
//!
//! A pattern is compiled once, and may be matched often: a class that is longer than a set of bytes becomes such a set.
//! Nothing else needs it, so a pattern takes at most twice the memory of its text, and short ones cost no allocation.
//!
//! Invariant: to match takes at most `pattern.len() * text.len()` steps of constant time, whatever a peer sends; without
//! `*` at most `text.len()`.

/// A set of bytes.
type ByteSet = [u64; 4];

/// The length of a class, with its brackets, up to which it is read anew for each byte that is compared with it.
const SHORT_CLASS_MAX: usize = size_of::<LongClass>();

/// A compiled pattern; `T` is its text, borrowed or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern<T> {
    text: T,
    ignores_case: bool,
    /// The long classes, in the order of their positions.
    long_classes: Box<[LongClass]>,
}

/// A class that was read once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LongClass {
    /// The position of its opening bracket.
    start: usize,
    /// Its length, with the brackets.
    len: usize,
    matching: ByteSet,
}

impl<T: AsRef<[u8]>> Pattern<T> {
    /// Compiles a pattern.
    pub(crate) fn new(text: T) -> Self {
        Pattern::compile(text, false)
    }

    /// Compiles a pattern that ignores the case of ASCII letters.
    pub(crate) fn ignoring_case(text: T) -> Self {
        Pattern::compile(text, true)
    }

    fn compile(text: T, ignores_case: bool) -> Self {
        let long_classes = long_classes(text.as_ref(), ignores_case);
        Pattern { text, ignores_case, long_classes }
    }

    /// Returns its text.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.as_ref()
    }

    /// Returns the bytes allocated besides those of the text.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.long_classes)
    }

    /// Returns the most steps that matching a text of this length takes.
    pub(crate) fn cost(&self, text_len: usize) -> usize {
        let pattern = self.text();
        text_len * if pattern.contains(&b'*') { pattern.len().min(text_len).max(1) } else { 1 }
    }

    /// Tells whether it matches all of `text`.
    ///
    /// Only the empty pattern matches the empty text, as in Redis: `KEYS *` and `SCAN` treat a lone `*` as "every key"
    /// before they come here.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.text();
        if text.is_empty() {
            return pattern.is_empty();
        }
        let (mut p, mut t) = (0, 0);
        // Every pattern element but `*` takes exactly one byte, so only the last star needs backtracking: where the
        // rest failed after it, an earlier star that takes more bytes fails as well.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                retry = Some((p, t));
                continue;
            }
            match self.match_one(p, text[t]) {
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

    /// Matches the element at a position of the pattern against one byte; returns the length of the element on a match.
    fn match_one(&self, at: usize, byte: u8) -> Option<usize> {
        let fold = self.ignores_case;
        let (used, matched) = match &self.text()[at..] {
            [] => return None,
            [b'?', ..] => (1, true),
            [b'[', class @ ..] => self.match_long_class(at, byte).unwrap_or_else(|| {
                let (used, matched) = match_class(class, byte, fold);
                (used + 1, matched)
            }),
            [b'\\', escaped, ..] => (2, same(*escaped, byte, fold)),
            [literal, ..] => (1, same(*literal, byte, fold)),
        };
        matched.then_some(used)
    }

    /// Matches the class at a position against one byte if it is a long one; returns its length, and whether it matched.
    fn match_long_class(&self, at: usize, byte: u8) -> Option<(usize, bool)> {
        let found = self.long_classes.binary_search_by_key(&at, |class| class.start).ok()?;
        let LongClass { len, matching, .. } = &self.long_classes[found];
        Some((*len, matching[usize::from(byte / 64)] >> (byte % 64) & 1 == 1))
    }
}

/// Returns the long classes of a pattern.
fn long_classes(pattern: &[u8], fold: bool) -> Box<[LongClass]> {
    let (mut start, mut found) = (0, Vec::new());
    while start < pattern.len() {
        start += match &pattern[start..] {
            [b'[', class @ ..] => {
                let len = 1 + read_class(class, |_| {});
                if len > SHORT_CLASS_MAX {
                    found.push(LongClass { start, len, matching: bytes_of_class(class, fold) });
                }
                len
            }
            [b'\\', _, ..] => 2,
            _ => 1,
        };
    }
    found.into_boxed_slice()
}

/// A part of a class.
enum Part {
    /// A byte behind a backslash.
    Escaped(u8),
    Literal(u8),
    Range(u8, u8),
}

/// Visits the parts of the inside of `[...]`, which starts after the opening bracket and, if there is one, the `^`;
/// returns the bytes consumed, including the closing bracket.
fn read_class(class: &[u8], mut visit: impl FnMut(Part)) -> usize {
    let mut at = usize::from(is_negated(class));
    loop {
        match &class[at..] {
            // Without a closing bracket the class ends where the pattern ends.
            [] => return at,
            [b'\\', escaped, ..] => {
                visit(Part::Escaped(*escaped));
                at += 2;
            }
            [b']', ..] => return at + 1,
            [low, b'-', high, ..] => {
                visit(Part::Range(*low, *high));
                at += 3;
            }
            [literal, ..] => {
                visit(Part::Literal(*literal));
                at += 1;
            }
        }
    }
}

fn is_negated(class: &[u8]) -> bool {
    class.first() == Some(&b'^')
}

/// Matches the inside of `[...]` against one byte; returns the bytes consumed, including the closing bracket, and
/// whether it matched.
fn match_class(class: &[u8], byte: u8, fold: bool) -> (usize, bool) {
    let mut matched = false;
    let used = read_class(class, |part| {
        matched |= match part {
            // Redis compares an escaped byte as it is, even when it folds case.
            Part::Escaped(escaped) => escaped == byte,
            Part::Literal(literal) => same(literal, byte, fold),
            Part::Range(low, high) => {
                let (low, high) = bounds(low, high, fold);
                (low..=high).contains(&folded(byte, fold))
            }
        }
    });
    (used, matched != is_negated(class))
}

/// Returns the bytes that the inside of `[...]` matches, in time that is proportional to its length.
fn bytes_of_class(class: &[u8], fold: bool) -> ByteSet {
    let position = |value: i8| usize::from(value.cast_unsigned() ^ 0x80); // in the order of signed bytes
    // How many more parts match a value than the one before it, and which bytes match as they are.
    let (mut changes, mut escaped) = ([0isize; 257], [false; 256]);
    read_class(class, |part| {
        let (low, high) = match part {
            Part::Escaped(byte) => return escaped[usize::from(byte)] = true,
            Part::Literal(byte) => (folded(byte, fold), folded(byte, fold)),
            Part::Range(low, high) => bounds(low, high, fold),
        };
        if low <= high {
            changes[position(low)] += 1;
            changes[position(high) + 1] -= 1;
        }
    });
    let mut matching_parts = [0; 256];
    let mut sum = 0;
    for (count, change) in matching_parts.iter_mut().zip(changes) {
        sum += change;
        *count = sum;
    }
    let mut matching = ByteSet::default();
    for byte in 0..=u8::MAX {
        let is_in = escaped[usize::from(byte)] || matching_parts[position(folded(byte, fold))] > 0;
        if is_in != is_negated(class) {
            matching[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }
    matching
}

/// Returns the bounds of a range. They compare as C's `char` does on x86: signed; a reversed range is swapped.
fn bounds(low: u8, high: u8, fold: bool) -> (i8, i8) {
    let (low, high) = if low.cast_signed() > high.cast_signed() { (high, low) } else { (low, high) };
    (folded(low, fold), folded(high, fold))
}

/// Returns the value by which a byte is compared in a class.
fn folded(byte: u8, fold: bool) -> i8 {
    if fold { byte.to_ascii_lowercase() } else { byte }.cast_signed()
}

fn same(a: u8, b: u8, fold: bool) -> bool {
    a == b || (fold && a.eq_ignore_ascii_case(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
        Pattern::compile(pattern, ignores_case).matches(text)
    }

    /// Redis' `stringmatchlen`, line by line, and so its nested stars: for short patterns.
    fn as_in_redis(mut pattern: &[u8], mut text: &[u8], fold: bool) -> bool {
        let lower = |byte: u8| if fold { byte.to_ascii_lowercase() } else { byte };
        while !pattern.is_empty() && !text.is_empty() {
            match pattern[0] {
                b'*' => {
                    while pattern.get(1) == Some(&b'*') {
                        pattern = &pattern[1..];
                    }
                    return pattern.len() == 1
                        || (0..text.len()).any(|skipped| as_in_redis(&pattern[1..], &text[skipped..], fold));
                }
                b'?' => text = &text[1..],
                b'[' => {
                    pattern = &pattern[1..];
                    let negated = pattern.first() == Some(&b'^');
                    if negated {
                        pattern = &pattern[1..];
                    }
                    let mut matched = false;
                    loop {
                        match pattern {
                            [b'\\', escaped, ..] => {
                                pattern = &pattern[1..];
                                matched |= *escaped == text[0];
                            }
                            [b']', ..] | [] => break,
                            [start, b'-', end, ..] => {
                                let (start, end) = (start.cast_signed(), end.cast_signed());
                                let (start, end) = (start.min(end), start.max(end));
                                let value = |byte: i8| lower(byte.cast_unsigned()).cast_signed();
                                let byte = value(text[0].cast_signed());
                                pattern = &pattern[2..];
                                matched |= byte >= value(start) && byte <= value(end);
                            }
                            [literal, ..] => matched |= lower(*literal) == lower(text[0]),
                        }
                        pattern = &pattern[1..];
                    }
                    if matched == negated {
                        return false;
                    }
                    text = &text[1..];
                }
                _ => {
                    if pattern[0] == b'\\' && pattern.len() >= 2 {
                        pattern = &pattern[1..];
                    }
                    if lower(pattern[0]) != lower(text[0]) {
                        return false;
                    }
                    text = &text[1..];
                }
            }
            pattern = pattern.get(1..).unwrap_or_default();
            if text.is_empty() {
                while pattern.first() == Some(&b'*') {
                    pattern = &pattern[1..];
                }
                break;
            }
        }
        pattern.is_empty() && text.is_empty()
    }

    /// Bytes of which most patterns are unusual.
    fn bytes_of_patterns(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
        let common = prop::sample::select(b"[]^-\\\\*?aAbBzZ_@\x80\xff\x7f\0".to_vec());
        proptest::collection::vec(prop_oneof![9 => common, 1 => any::<u8>()], len)
    }

    proptest! {
        #[test]
        fn a_compiled_pattern_matches_what_redis_matches(
            pattern in bytes_of_patterns(0..12),
            text in bytes_of_patterns(0..6),
            fold in any::<bool>(),
        ) {
            prop_assert_eq!(matches(&pattern, &text, fold), as_in_redis(&pattern, &text, fold));
        }

        #[test]
        fn so_does_a_class_that_was_compiled_to_a_set(
            class in bytes_of_patterns(SHORT_CLASS_MAX..2 * SHORT_CLASS_MAX),
            before in bytes_of_patterns(0..3),
            text in bytes_of_patterns(1..4),
            fold in any::<bool>(),
        ) {
            let pattern = [&before[..], b"[", &class, b"]*"].concat();
            prop_assert_eq!(matches(&pattern, &text, fold), as_in_redis(&pattern, &text, fold));
        }

        #[test]
        fn the_bytes_of_a_class_are_those_that_it_matches_one_by_one(
            class in bytes_of_patterns(0..40),
            fold in any::<bool>(),
        ) {
            let set = bytes_of_class(&class, fold);
            for byte in 0..=u8::MAX {
                let is_in = set[usize::from(byte / 64)] >> (byte % 64) & 1 == 1;
                prop_assert_eq!(is_in, match_class(&class, byte, fold).1, "{}", byte);
            }
        }
    }

    /// A class of a megabyte is read once, not for each of the million bytes that are compared with it.
    #[test]
    fn a_class_of_a_megabyte_costs_no_more_than_a_short_one() {
        let class = [&b"["[..], &b"b-c".repeat(350_000), b"]"].concat();
        let pattern = Pattern::new([&class[..], b"*", &class].concat());
        assert_eq!(pattern.memory(), 2 * size_of::<LongClass>());
        let text = [b"b".repeat(100_000), b"d".to_vec()].concat();
        for _ in 0..10 {
            assert!(!pattern.matches(&text));
        }
    }

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
