//! Numbers with the range and precision of C's `long double` on x86: 80 bits, 64 of them significand.
//!
//! INCRBYFLOAT is defined by `strtold`, one addition and `printf("%.17Lf")` on that type, so it is calculated in
//! software: the result is the same on every machine, and the same as Redis'. Scores and geographic coordinates are
//! plain doubles, see [`double`](crate::text::double).

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round};

/// The 80-bit type.
pub(crate) type LongDouble = X87DoubleExtended;

/// Length in bytes from which on a text is rejected regardless of its content: the size of the buffer that Redis copies
/// it to.
const TEXT_LEN_MAX: usize = 5 * 1024;

/// Limit to which larger exponents are clamped: no text is long enough to compensate such an exponent.
const EXPONENT_MAX: i32 = 100_000;

/// Number of decimals that are written, before trailing zeros are removed, and ten to the power of it.
const DECIMALS: usize = 17;
const DECIMALS_SCALE: u128 = 10u128.pow(DECIMALS as u32);

/// Number to subtract from the stored exponent when the significand is interpreted as an integer.
const EXPONENT_BIAS: i32 = 16_383 + 63;

/// Reads a number as `strtold` does: decimal or hexadecimal, or infinity; rounds to nearest, ties to even.
///
/// Returns `None` for blanks or anything else around the number, for NaN, and for a number that overflows to infinity
/// or underflows to zero.
pub(crate) fn parse(text: &[u8]) -> Option<LongDouble> {
    if text.len() >= TEXT_LEN_MAX {
        return None;
    }
    let (negative, magnitude) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let value = match magnitude {
        [b'0', b'x' | b'X', digits @ ..] => parse_finite(digits, true)?,
        word if word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity") => LongDouble::INFINITY,
        digits => parse_finite(digits, false)?,
    };
    Some(if negative { -value } else { value })
}

/// Returns true if a number is finite.
pub(crate) fn is_finite(value: LongDouble) -> bool {
    value.is_finite()
}

/// Adds two numbers; returns `None` if the sum is NaN or infinite.
pub(crate) fn add(a: LongDouble, b: LongDouble) -> Option<LongDouble> {
    Some((a + b).value).filter(|sum| sum.is_finite())
}

/// Returns the smallest integer that is not below the product of a number and an integer, clamped to 64 bits.
pub(crate) fn ceil_of_product(value: LongDouble, factor: u32) -> i64 {
    let product = (value * LongDouble::from_u128(u128::from(factor)).value).value;
    product.to_i128_r(64, Round::TowardPositive, &mut false).value as i64
}

/// Writes a finite number in decimal, rounded half to even after the 17th decimal, without trailing zeros.
pub(crate) fn format(value: LongDouble) -> Vec<u8> {
    let bits = value.to_bits();
    let (significand, exponent) = (bits as u64, (bits >> 64) as i32 & 0x7fff);
    // Numbers too small to be normalized are scaled as the smallest normalized ones.
    let scale = exponent.max(1) - EXPONENT_BIAS;
    let mut text = match u32::try_from(scale) {
        Ok(doublings) => format_integer(significand, doublings),
        Err(_) => format_fraction(significand, scale.unsigned_abs()),
    };
    if value.is_negative() && text != "0" {
        text.insert(0, '-');
    }
    text.into_bytes()
}

/// Writes a number times two to the power of `doublings` in decimal.
fn format_integer(significand: u64, mut doublings: u32) -> String {
    /// Value range of a limb: nine decimal digits.
    const BASE: u64 = 1_000_000_000;
    /// Number of doublings at once: a limb and a carry still fit into 64 bits then.
    const STEP: u32 = 34;
    let mut limbs = vec![significand % BASE, significand / BASE % BASE, significand / BASE / BASE]; // the lowest first
    while doublings > 0 {
        let step = doublings.min(STEP);
        let mut carry = 0;
        for limb in &mut limbs {
            let value = (*limb << step) + carry;
            (*limb, carry) = (value % BASE, value / BASE);
        }
        limbs.extend([carry % BASE, carry / BASE]);
        limbs.truncate(limbs.iter().rposition(|limb| *limb != 0).map_or(1, |last| last + 1));
        doublings -= step;
    }
    let digits: String = limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }
}

/// Reads digits with at most one point, and an exponent; hexadecimal digits come without their `0x`.
///
/// Returns `None` if that is not all of the text, or if the number overflows to infinity or underflows to zero.
pub(super) fn parse_finite<F: Float>(text: &[u8], hex: bool) -> Option<F> {
    let (prefix, mark) = if hex { ("0x", b'p') } else { ("", b'e') };
    let (mantissa, exponent) = match text.iter().position(|byte| byte.to_ascii_lowercase() == mark) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (mut digits, mut points, mut zero) = (0, 0, true);
    for &byte in mantissa {
        match byte {
            b'.' => points += 1,
            b'0'..=b'9' => digits += 1,
            b'a'..=b'f' | b'A'..=b'F' if hex => digits += 1,
            _ => return None,
        }
        zero &= matches!(byte, b'0' | b'.');
    }
    if digits == 0 || points > 1 {
        return None;
    }
    let mantissa = std::str::from_utf8(mantissa).ok()?;
    let spelled = format!("{prefix}{mantissa}{}{exponent}", char::from(mark));
    let value = F::from_str_r(&spelled, Round::NearestTiesToEven).ok()?.value;
    (value.is_finite() && value.is_zero() == zero).then_some(value)
}

/// Reads the exponent after the `e` or `p`: an optional sign, and at least one digit.
fn parse_exponent(text: &[u8]) -> Option<i32> {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let mut exponent = 0;
    for byte in digits {
        let digit = byte.is_ascii_digit().then(|| i32::from(byte - b'0'))?;
        exponent = (exponent * 10 + digit).min(EXPONENT_MAX);
    }
    Some(sign * exponent)
}

/// Writes `significand` halved `halvings` times, at least once.
fn format_fraction(significand: u64, halvings: u32) -> String {
    // Below 2^121, so it fits; and 128 halvings or more leave nothing to round up.
    let scaled = u128::from(significand) * DECIMALS_SCALE;
    let rounded = match halvings {
        0..128 => {
            let (quotient, half) = (scaled >> halvings, 1u128 << (halvings - 1));
            let rest = scaled & (half | (half - 1));
            quotient + u128::from(rest > half || rest == half && quotient & 1 == 1)
        }
        _ => 0,
    };
    let (whole, fraction) = (rounded / DECIMALS_SCALE, rounded % DECIMALS_SCALE);
    let text = format!("{whole}.{fraction:0width$}", width = DECIMALS);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of Redis 7.0.15 on x86-64 to INCRBYFLOAT: value, increment, sum.
    const SUMS: &[(&str, &str, &str)] = &[
        ("0.1", "0.2", "0.3"),
        ("10.5", "0.1", "10.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("3", "-3", "0"),
        ("-1", "1", "0"),
        ("-0", "-0", "0"),
        ("0", "-1e-18", "0"),
        ("0", "4e-18", "0"),
        ("0", "6e-18", "0.00000000000000001"),
        ("0", "0x1p-18", "0.00000381469726562"),
        ("0", "0x3p-18", "0.00001144409179688"),
        ("0", "-0x5p-18", "-0.00001907348632812"),
        ("1", "0x1p-17", "1.00000762939453125"),
        ("0", "9223372036854775807", "9223372036854775807"),
        ("18446744073709551615", "1", "18446744073709551616"),
        ("18446744073709551616", "1", "18446744073709551616"),
        ("18446744073709551617", "0", "18446744073709551616"),
        ("18446744073709551615.5", "0", "18446744073709551616"),
        ("1e22", "1", "10000000000000000000000"),
        ("1e30", "-1", "1000000000000000000024696061952"),
        ("+.5", "5.", "5.5"),
        ("0x1.8", "0X10", "17.5"),
        ("0x.8p1", "0x1P-1", "1.5"),
        ("1E+2", "1e-2", "100.01"),
        ("3.6e-4951", "0", "0"),
        ("0e99999999999", "0x0p-99999999999", "0"),
        ("0.00000000000000000499999", "0", "0"),
        ("0.00000000000000000500001", "0", "0.00000000000000001"),
        ("123456789.123456789123456789", "0", "123456789.12345678912242875"),
        ("0.99999999999999999", "0.00000000000000001", "1"),
        ("1e4932", "-1e4932", "0"),
        ("-5.5", "0.25", "-5.25"),
        ("3.0000000000000000001", "0", "3"),
    ];

    /// Texts that Redis 7.0.15 rejects as "not a valid float", as value and as increment.
    const REFUSED: &[&str] = &[
        "",
        " 1",
        "1 ",
        "\t1",
        "a",
        "1a",
        ".",
        "-",
        "+-1",
        "--1",
        "e5",
        "1e",
        "1e+",
        "1e5.0",
        "1.2.3",
        "0x",
        "0x.",
        "0xp1",
        "0x1p",
        "0x1.8p1.0",
        "0xg",
        "1p3",
        "nan",
        "-NaN",
        "nan(1)",
        "infinit",
        "in",
        "1_0",
        "1,5",
        "1e5000",
        "-1e5000",
        "1e-5000",
        "1.8e-4951",
        "0x1p99999999999",
        "0x1p-99999999999",
        "1\0",
    ];

    #[test]
    fn large_integers_are_written_exactly() {
        for number in 0..300_u32 {
            let (significand, doublings) = (u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), number * 54);
            let text = format_integer(significand, doublings);
            for prime in [1_000_000_007, 998_244_353, 4_294_967_291_u128] {
                let rest =
                    |text: &str| text.bytes().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % prime);
                let product = (0..doublings).fold(u128::from(significand) % prime, |product, _| product * 2 % prime);
                assert_eq!(rest(&text), product, "{significand} << {doublings}");
            }
            let bits = f64::from(64 - significand.leading_zeros() + doublings);
            let len = (bits * 2f64.log10()).ceil() as usize;
            assert!((len - 1..=len).contains(&text.len()), "{significand} << {doublings}: {text}");
        }
        assert_eq!(
            (format_integer(0, 9), format_integer(5, 0), format_integer(1, 70)),
            ("0".into(), "5".into(), (1u128 << 70).to_string())
        );
    }

    #[test]
    fn products_are_rounded_up_and_clamped() {
        let ceil = |text: &str| ceil_of_product(parse(text.as_bytes()).expect("a number"), 1000);
        let cases = [
            ("0", 0),
            ("1.5", 1500),
            ("0.0001", 1),
            ("-0.0001", 0),
            ("-1", -1000),
            ("9223372036854775.807", i64::MAX),
            ("9223372036854775.806", i64::MAX - 1),
            ("1e300", i64::MAX),
            ("inf", i64::MAX),
            ("-inf", i64::MIN),
        ];
        for (text, expected) in cases {
            assert_eq!(ceil(text), expected, "{text}");
        }
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (value, increment, sum) in SUMS {
            let read = |text: &str| parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"));
            let ours = add(read(value), read(increment)).map(format);
            assert_eq!(ours.as_deref(), Some(sum.as_bytes()), "{value} + {increment}");
        }
    }

    #[test]
    fn what_is_not_quite_a_number_is_refused() {
        for text in REFUSED {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(&[b'1'; TEXT_LEN_MAX]), None);
        assert!(parse(&[b'0'; TEXT_LEN_MAX - 1]).is_some());
    }

    #[test]
    fn a_sum_that_is_not_finite_is_refused() {
        for (value, increment) in [("inf", "1"), ("-Infinity", "inf"), ("1.18e4932", "1.18e4932")] {
            let (value, increment) = (parse(value.as_bytes()), parse(increment.as_bytes()));
            assert_eq!(value.zip(increment).and_then(|(value, increment)| add(value, increment)), None);
        }
    }
}
