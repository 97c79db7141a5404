//! Tests that patterns match as in Redis' own matcher, and of their cost.

use proptest::prelude::*;

use super::{Comparison, LongClass, Pattern, SHORT_CLASS_MAX, bytes_of_class, match_class};

fn matches(pattern: &[u8], text: &[u8], ignores_case: bool) -> bool {
    Pattern::compile(pattern, ignores_case).matches(text)
}

/// Redis' `stringmatchlen`, line by line, including its recursion for stars; for short patterns.
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

/// Strategy for bytes that often make unusual patterns.
fn bytes_of_patterns(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<u8>> {
    let common = prop::sample::select(b"[]^-\\\\*?aAbBzZ_@\x80\xff\x7f\0".to_vec());
    proptest::collection::vec(prop_oneof![9 => common, 1 => any::<u8>()], len)
}

/// Elements that match most of the bytes of a text of `a`.
const NEAR_MISSES: &[&[u8]] = &[
    b"a",
    b"a",
    b"aaa",
    b"?",
    b"???",
    b"[^b]",
    b"[a-c]",
    b"\\a",
    b"[\\a]",
    b"A",
    b"b",
    b"[b-cd-ef-gh-ij-kl-mn-op-qr-st-uv-wx-ya-a]",
];

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
    fn so_does_a_pattern_that_is_compared_with_many_places_of_a_long_text_in_parts(
        segment in proptest::collection::vec(prop::sample::select(NEAR_MISSES.to_vec()), 1..25),
        text in proptest::collection::vec(prop::sample::select(b"aaaaaaab".to_vec()), 300..700),
        ending in prop::sample::select(vec![&b""[..], b"b", b"*", b"*?b", b"*[ab]a*"]),
        fold in any::<bool>(),
        steps in 0usize..5000,
    ) {
        let pattern = [b"?*", &segment.concat()[..], ending].concat();
        let compiled = Pattern::compile(&pattern, fold);
        let (mut comparison, mut parts) = (Comparison::default(), 0);
        let matched = loop {
            parts += 1;
            if let Some(matched) = comparison.advance(&compiled, &text, &mut { steps * usize::from(parts > 1) + 1 }) {
                break matched;
            }
        };
        prop_assert_eq!(matched, as_in_redis(&pattern, &text, fold));
        prop_assert_eq!(matched, compiled.matches(&text));
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

/// A class of a megabyte is parsed once, not for each of the million bytes that are compared with it.
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

/// Returns the number of steps to find that a pattern of 100,000 elements is nowhere in a text of 200,000 bytes.
fn steps_of(element: &[u8]) -> usize {
    let pattern = [b"*", &element.repeat(50_000)[..], b"b*"].concat();
    let text = b"a".repeat(200_000);
    let (matched, steps) = Pattern::new(pattern).matches_counted(&text);
    assert!(!matched);
    steps
}

#[test]
fn a_literal_is_found_in_linear_time() {
    assert!(steps_of(b"aa") < 200_000);
}

/// The steps of a part are limited, however long the whole takes.
#[test]
fn a_comparison_that_takes_long_is_interrupted() {
    const STEPS: usize = 1 << 20;
    let pattern = Pattern::new([b"*", &b"a?".repeat(5_000)[..], b"b*"].concat());
    let text = b"a".repeat(20_000);
    let (matched, steps) = pattern.matches_counted(&text);
    assert!(!matched && steps > 4 * STEPS, "{steps}");
    assert!(steps < 10_001 * 10_000 / 8, "{steps}");
    let (mut comparison, mut spent) = (Comparison::default(), 0);
    loop {
        let mut left = STEPS;
        let matched = comparison.advance(&pattern, &text, &mut left);
        spent += STEPS - left;
        match matched {
            Some(matched) => break assert!(!matched),
            None => assert_eq!(left, 0),
        }
    }
    assert_eq!(spent / STEPS, steps / STEPS);
}
