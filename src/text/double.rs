//! Double-precision numbers as Redis reads and writes them: scores, distances, coordinates and replies with them.

use std::ops::Deref;

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Double;

use crate::text::long_double::parse_finite;

/// Room for the text of a double: the longest is a sign and 17 digits followed by 7 zeros.
const TEXT_LEN_MAX: usize = 32;

/// The text of a double, on the stack.
#[derive(Clone, Copy)]
pub struct DoubleText {
    bytes: [u8; TEXT_LEN_MAX],
    len: usize,
}

impl DoubleText {
    const EMPTY: DoubleText = DoubleText { bytes: [0; TEXT_LEN_MAX], len: 0 };

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    fn push_zeros(&mut self, count: usize) {
        self.bytes[self.len..self.len + count].fill(b'0');
        self.len += count;
    }
}

impl Deref for DoubleText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes a double with the fewest digits that identify it, as Redis does since 7.2: integers of up to 62 bits in full,
/// other numbers with an exponent if they would be long otherwise.
///
/// NaN is written as `nan` whatever its sign: Redis keeps NaN out of its values, so no reply shows one.
pub fn write_double(value: f64) -> DoubleText {
    let mut text = DoubleText::EMPTY;
    match value {
        _ if value.is_nan() => text.push(b"nan"),
        f64::INFINITY => text.push(b"inf"),
        f64::NEG_INFINITY => text.push(b"-inf"),
        0.0 => text.push(if value.is_sign_negative() { b"-0" } else { b"0" }),
        _ => match as_integer(value) {
            Some(integer) => text.push(itoa::Buffer::new().format(integer).as_bytes()),
            None => write_digits(value, &mut text),
        },
    }
    text
}

/// Returns a number as an integer, if it is one of up to 62 bits: such scores are written in full, and packed as
/// integers.
#[inline]
pub(crate) fn as_integer(value: f64) -> Option<i64> {
    const MAX: f64 = (i64::MAX / 2) as f64;
    (value.abs() <= MAX && value as i64 as f64 == value).then_some(value as i64)
}

/// Writes a finite number other than 0.
fn write_digits(value: f64, text: &mut DoubleText) {
    if value < 0.0 {
        text.push(b"-");
    }
    let (digits, exponent) = shortest_digits(value.abs());
    // Exponent of the power of ten of the last digit.
    let last = exponent - digits.len as i32 + 1;
    let is_plain = if last >= 0 { last < 8 } else { last > -7 || exponent.abs() < 4 };
    if is_plain && last >= 0 {
        text.push(&digits);
        text.push_zeros(last as usize);
    } else if is_plain && exponent >= 0 {
        let (whole, fraction) = digits.split_at(exponent as usize + 1);
        text.push(whole);
        text.push(b".");
        text.push(fraction);
    } else if is_plain {
        text.push(b"0.");
        text.push_zeros(exponent.unsigned_abs() as usize - 1);
        text.push(&digits);
    } else {
        let (first, rest) = digits.split_at(1);
        text.push(first);
        if !rest.is_empty() {
            text.push(b".");
            text.push(rest);
        }
        text.push(if exponent < 0 { b"e-" } else { b"e+" });
        text.push(itoa::Buffer::new().format(exponent.unsigned_abs()).as_bytes());
    }
}

/// Returns the fewest digits that identify a positive number, nearest to it, and the exponent of the power of ten of
/// the first digit.
fn shortest_digits(value: f64) -> (DoubleText, i32) {
    let (digits, exponent) = split_decimal(zmij::Buffer::new().format_finite(value));
    // A number that lies half a unit of the last digit away from two texts has two nearest texts. Redis takes the
    // larger one, as std does; the crate takes the even one.
    let may_be_tie = lowest_bit(value) == exponent - digits.len as i32;
    if may_be_tie { split_decimal(&format!("{value:e}")) } else { (digits, exponent) }
}

/// Returns the exponent of the power of two of the lowest set bit of a positive number.
fn lowest_bit(value: f64) -> i32 {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let (mantissa, exponent) =
        (value.to_bits() & ((1 << MANTISSA_BITS) - 1), (value.to_bits() >> MANTISSA_BITS) as i32);
    let zeros = if mantissa == 0 && exponent > 0 { MANTISSA_BITS } else { mantissa.trailing_zeros() };
    exponent.max(1) - f64::MAX_EXP + 1 - MANTISSA_BITS as i32 + zeros as i32
}

/// Splits a decimal text, such as `12.5`, `0.001` or `1.5e-9`, into its digits without the zeros around them, and the
/// exponent of the power of ten of the first digit.
fn split_decimal(text: &str) -> (DoubleText, i32) {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().expect("an exponent is a number");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut all = DoubleText::EMPTY;
    all.push(whole.as_bytes());
    all.push(fraction.as_bytes());
    let zeros = all.iter().take_while(|digit| **digit == b'0').count();
    let end = all.iter().rposition(|digit| *digit != b'0').map_or(zeros, |last| last + 1);
    let mut digits = DoubleText::EMPTY;
    digits.push(&all[zeros..end]);
    (digits, power + whole.len() as i32 - 1 - zeros as i32)
}

/// Reads a double as C's `strtod` does, but the whole text must be a number: decimal or hexadecimal, or infinity.
///
/// Returns `None` for blanks or anything else around the number, for NaN, and for a number that overflows to infinity
/// or underflows to zero.
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let (sign, magnitude) = match text {
        [b'-', rest @ ..] => (-1.0, rest),
        [b'+', rest @ ..] => (1.0, rest),
        rest => (1.0, rest),
    };
    match magnitude {
        [b'0', b'x' | b'X', digits @ ..] => {
            let value: Double = parse_finite(digits, true)?;
            Some(sign * f64::from_bits(value.to_bits() as u64))
        }
        [b'0'..=b'9' | b'.', ..] => {
            let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
            (value.is_finite() && (value != 0.0 || is_zero(magnitude))).then_some(value)
        }
        word if word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity") => {
            Some(sign * f64::INFINITY)
        }
        _ => None,
    }
}

/// Returns true if a decimal number that reads as zero is zero, and not merely too small.
fn is_zero(magnitude: &[u8]) -> bool {
    magnitude.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_short_as_they_can_be_read_again() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-3.1, "-3.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (3.25, "3.25"),
            (100.0, "100"),
            (1e15, "1000000000000000"),
            (1e17, "100000000000000000"),
            (-123456789012345680.0, "-123456789012345680"),
            (2f64.powi(60) + 256.0, "1152921504606847232"),
            (2f64.powi(62), "4611686018427387904"),
            (-(2f64.powi(62)), "-4611686018427387904"),
            (2f64.powi(63), "9223372036854776000"),
            (-(2f64.powi(63)), "-9223372036854776000"),
            (4.7e18, "4.7e+18"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (123456789012345680000.0, "123456789012345680000"),
            (123456789012345690000000.0, "123456789012345690000000"),
            (1.2345678901234568e24, "1.2345678901234568e+24"),
            (1.5e300, "1.5e+300"),
            (123.4567890123, "123.4567890123"),
            (12345.678901234, "1.2345678901234e+4"),
            (12345.678901, "12345.678901"),
            (1234.5678901234567, "1234.5678901234567"),
            (1.7e15 + 0.25, "1700000000000000.3"),
            (1.7e15 + 0.75, "1700000000000000.8"),
            (0.5, "0.5"),
            (0.0012345678901234567, "0.0012345678901234567"),
            (0.00012345678901234567, "1.2345678901234567e-4"),
            (0.00001, "0.00001"),
            (0.00001234, "1.234e-5"),
            (0.000012, "0.000012"),
            (0.000001, "0.000001"),
            (-0.0000001, "-1e-7"),
            (5e-324, "5e-324"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN, "-1.7976931348623157e+308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&write_double(value)), expected);
        }
    }

    #[test]
    fn every_double_reads_back_as_it_was_written() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..200_000_u64 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(round | 1);
            // All magnitudes in turn, then magnitudes at which the notation changes.
            let value = match round % 3 {
                0 => f64::from_bits(bits),
                1 => (bits >> 12) as f64 / 10f64.powi((bits % 30) as i32),
                _ => (bits as i64 >> (bits % 64)) as f64,
            };
            if value.is_nan() {
                continue;
            }
            let text = write_double(value);
            let digits = |text: &[u8]| -> Vec<u8> {
                let mantissa = text.split(|byte| *byte == b'e').next().unwrap_or_default();
                let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
                let text = String::from_utf8_lossy(&digits);
                text.trim_matches('0').as_bytes().to_vec()
            };
            // An integer is written with all its digits, not the fewest.
            if as_integer(value).is_none() {
                assert_eq!(digits(&text), digits(format!("{value:e}").as_bytes()), "{value:e}");
            }
            let read = parse_double(&text).map(f64::to_bits);
            assert_eq!(read, Some(value.to_bits()), "{}", String::from_utf8_lossy(&text));
        }
    }

    /// Texts that redis-server 7.0.15 accepts as scores, and their values.
    const READ: &[(&str, f64)] = &[
        ("0", 0.0),
        ("-0", -0.0),
        ("+1", 1.0),
        ("007", 7.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5e1", -5.0),
        ("1E2", 100.0),
        ("1e+2", 100.0),
        ("1e-2", 0.01),
        ("1e0000000000000000000000002", 100.0),
        ("0e99999999999", 0.0),
        ("0e-99999999999", 0.0),
        ("inf", f64::INFINITY),
        ("+InF", f64::INFINITY),
        ("-infinity", f64::NEG_INFINITY),
        ("INFINITY", f64::INFINITY),
        ("0x10", 16.0),
        ("-0X1P-1", -0.5),
        ("0x.8", 0.5),
        ("0x1.8p1", 3.0),
        ("0x1.fffffffffffffp1023", f64::MAX),
        ("0x1p-1074", 5e-324),
        ("0x0p-99999999999", 0.0),
        ("0x20000000000001", 9007199254740992.0),
        ("1.7976931348623157e308", f64::MAX),
        ("1.7976931348623158e308", f64::MAX),
        ("4.9e-324", 5e-324),
        ("3e-324", 5e-324),
        ("9007199254740993", 9007199254740992.0),
        ("9007199254740993.0000000000000000000000000000001", 9007199254740994.0),
        ("0.1000000000000000055511151231257827021181583404541015625", 0.1),
    ];

    /// Texts that redis-server rejects as scores.
    const REFUSED: &[&str] = &[
        "",
        " ",
        " 1",
        "\t1",
        "1 ",
        "1\n",
        "1\0",
        "\0",
        "a",
        "1a",
        ".",
        "-",
        "+",
        "-.",
        "+-1",
        "--1",
        "-+inf",
        "e5",
        "1e",
        "1e+",
        "1e5.0",
        "1.2.3",
        "0x",
        "0x.",
        "0xp1",
        "0x1p",
        "0x1p+",
        "0x1.8p1.0",
        "0xg",
        "1p3",
        "0x-1",
        "nan",
        "NaN",
        "-nan",
        "nan(1)",
        "infinit",
        "in",
        "infinityx",
        "- 1",
        "1_0",
        "1,5",
        "1e400",
        "-1e400",
        "1.8e308",
        "1e-400",
        "2e-324",
        "-1e-99999999999",
        "1e99999999999",
        "0x1p1024",
        "0x1p-1080",
        "\u{661}",
        "0x1p99999999999",
        "0x1p-99999999999",
    ];

    #[test]
    fn texts_are_read_as_strtod_reads_them() {
        for (text, value) in READ {
            assert_eq!(parse_double(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
        for text in REFUSED {
            assert_eq!(parse_double(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_double(b"\xff1"), None);
        let long = [vec![b'1'; 300], b".".to_vec(), vec![b'0'; 100_000]].concat();
        assert_eq!(parse_double(&long), "1".repeat(300).parse().ok());
    }
}
