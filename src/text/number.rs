//! Numbers and amounts of memory, parsed as Redis does in config files and `CONFIG SET`, and as C's functions do.

use crate::text::until_nul;

/// Length of the longest text of a [`u64`].
pub(crate) const DIGITS_MAX: usize = 20;

/// The digits of the numbers below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// Writes the decimal digits of a number before the offset `end` of `text`; returns the offset of the first digit.
/// Written in place, because a copy from itoa's buffer costs every integer reply 35 instructions.
#[inline]
pub(crate) fn put_digits(text: &mut [u8], end: usize, mut number: u64) -> usize {
    let mut at = end;
    while number >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    let [tens, ones] = PAIRS[number as usize];
    text[at - 1] = ones;
    if number < 10 {
        return at - 1;
    }
    text[at - 2] = tens;
    at - 2
}

/// Reads an integer as Redis does: no blanks, no plus sign, no leading zeros.
pub(crate) fn parse_integer(word: &[u8]) -> Option<i64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let canonical = match digits {
        [b'0'] => word == b"0",
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    canonical.then(|| std::str::from_utf8(word).ok()?.parse().ok())?
}

/// Reads an integer as C's `strtoll` does, but the whole text must be a number: blanks and a sign may precede the
/// digits, empty text is 0, and a number out of range is clamped.
pub(crate) fn parse_c_integer(word: &[u8], base: u32) -> Option<i64> {
    let word = until_nul(word);
    if word.is_empty() {
        return Some(0);
    }
    let (is_negative, digits) = sign_and_digits(word.trim_ascii_start())?;
    digits.iter().try_fold(0_i64, |sum, byte| {
        let digit = i64::from(char::from(*byte).to_digit(base)?);
        Some(sum.saturating_mul(i64::from(base)).saturating_add(if is_negative { -digit } else { digit }))
    })
}

/// Reads an integer as C's `strtoull` does, but the whole text must be a number: blanks and a sign may precede the
/// digits, and a negative number counts down from 2^64. Returns `None` for a number out of range, too.
pub(crate) fn parse_c_unsigned(word: &[u8]) -> Option<u64> {
    let start = word.iter().position(|byte| !is_c_blank(*byte))?;
    let (is_negative, digits) = sign_and_digits(&word[start..])?;
    let number = digits.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// Returns true if a byte is a blank for C's `isspace`.
pub(crate) fn is_c_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Splits a sign off; returns true for a minus, and the text after the sign, which must not be empty.
fn sign_and_digits(word: &[u8]) -> Option<(bool, &[u8])> {
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    (!digits.is_empty()).then_some((is_negative, digits))
}

/// Parses an amount of memory: digits and a unit (`1k` is 1000, `1kb` is 1024), case-insensitive.
///
/// No digits mean 0, a number that is too large is clamped, and a product with the unit that overflows wraps around, as
/// in Redis.
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
    fn digits_are_written_up_to_an_offset() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        for number in
            powers.flat_map(|power| [power - 1, power, power + 1, power.saturating_mul(7) / 3]).chain([u64::MAX])
        {
            let mut text = [b'.'; DIGITS_MAX + 2];
            let start = put_digits(&mut text, DIGITS_MAX + 1, number);
            assert_eq!(text[start..=DIGITS_MAX], *number.to_string().as_bytes());
            assert!(text[..start].iter().chain(&text[DIGITS_MAX + 1..]).all(|byte| *byte == b'.'));
        }
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
