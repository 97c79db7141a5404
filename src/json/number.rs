//! Numbers: an integer stays an integer as long as it can, everything else is a double.

use super::form::{DECIMAL, DOUBLE, INTEGER, LAST_DECIMAL, LAST_INTEGER, SMALL, UNSIGNED, byte_at};

/// A number of a document.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum JsonNumber {
    /// An integer with a sign.
    Integer(i64),
    /// An integer above these.
    Unsigned(u64),
    /// A finite number with a fraction, or out of the range of integers.
    Double(f64),
}

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

impl JsonNumber {
    /// Reads the number of a token that follows JSON's grammar; `None` if it is out of the range of doubles.
    pub(super) fn of_token(token: &str) -> Option<Self> {
        if !token.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) && token != "-0" {
            if let Ok(integer) = token.parse() {
                return Some(Self::Integer(integer));
            }
            if let Ok(integer) = token.parse() {
                return Some(Self::Unsigned(integer));
            }
        }
        token.parse().ok().and_then(Self::of_double)
    }

    /// Returns a double as a number, unless it is not finite.
    pub(crate) fn of_double(double: f64) -> Option<Self> {
        double.is_finite().then_some(Self::Double(double))
    }

    /// Returns the closest double.
    pub(crate) fn as_double(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Unsigned(integer) => integer as f64,
            Self::Double(double) => double,
        }
    }

    /// Appends the number as text.
    pub(crate) fn print(self, to: &mut Vec<u8>) {
        match self {
            Self::Integer(integer) => to.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
            Self::Unsigned(integer) => to.extend_from_slice(itoa::Buffer::new().format(integer).as_bytes()),
            Self::Double(double) => {
                let mut buffer = zmij::Buffer::new();
                let text = buffer.format_finite(double).as_bytes();
                to.extend(text.iter().filter(|byte| **byte != b'+')); // Redis writes no sign of a positive exponent
            }
        }
    }

    /// Returns the document of the number.
    pub(crate) fn document(self) -> Vec<u8> {
        let mut document = Vec::with_capacity(9);
        self.write(&mut document);
        document
    }

    /// Appends the number in its form.
    pub(super) fn write(self, to: &mut Vec<u8>) {
        match self {
            Self::Integer(integer @ 0..=63) => to.push(SMALL + integer as u8),
            Self::Integer(integer) => {
                let length = bytes_of(integer);
                to.push(INTEGER + (length - 1) as u8);
                to.extend_from_slice(&integer.to_le_bytes()[..length]);
            }
            Self::Unsigned(integer) => {
                to.push(UNSIGNED);
                to.extend_from_slice(&integer.to_le_bytes());
            }
            Self::Double(double) => match decimal_of(double) {
                Some((integer, power)) => {
                    let length = bytes_of(integer);
                    to.push(DECIMAL + (length - 1) as u8);
                    to.push(power as u8);
                    to.extend_from_slice(&integer.to_le_bytes()[..length]);
                }
                None => {
                    to.push(DOUBLE);
                    to.extend_from_slice(&double.to_le_bytes());
                }
            },
        }
    }

    /// Reads the number at an offset, if there is one.
    pub(super) fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let tag = byte_at(bytes, at);
        Some(match tag {
            SMALL.. => Self::Integer(i64::from(tag - SMALL)),
            INTEGER..=LAST_INTEGER => Self::Integer(integer_at(bytes, at + 1, usize::from(tag - INTEGER) + 1)),
            DECIMAL..=LAST_DECIMAL => {
                let integer = integer_at(bytes, at + 2, usize::from(tag - DECIMAL) + 1);
                Self::Double(of_decimal(integer, byte_at(bytes, at + 1) as i8))
            }
            UNSIGNED => Self::Unsigned(integer_at(bytes, at + 1, 8) as u64),
            DOUBLE => Self::Double(f64::from_bits(integer_at(bytes, at + 1, 8) as u64)),
            _ => return None,
        })
    }
}

/// Returns how many bytes an integer needs, with its sign.
fn bytes_of(integer: i64) -> usize {
    let bits = 65 - (if integer < 0 { !integer } else { integer }).leading_zeros() as usize;
    bits.div_ceil(8)
}

/// Reads an integer of 1 to 8 bytes.
fn integer_at(bytes: &[u8], at: usize, length: usize) -> i64 {
    let mut buffer = [0; 8];
    for (to, from) in buffer.iter_mut().zip(at..at.saturating_add(length)) {
        *to = byte_at(bytes, from);
    }
    let unused = 64 - 8 * length as u32;
    (i64::from_le_bytes(buffer) << unused) >> unused
}

/// Returns a double as an integer and a power of ten, if that is exact and shorter than the double.
fn decimal_of(double: f64) -> Option<(i64, i8)> {
    if !double.is_finite() {
        return None;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(double);
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.len() + fraction.len() > 16 {
        return None;
    }
    let mut integer: i64 = whole.parse().ok()?;
    for digit in fraction.bytes() {
        let digit = i64::from(digit - b'0');
        integer = integer * 10 + if double < 0.0 { -digit } else { digit };
    }
    let mut power = exponent.parse::<i32>().ok()? - fraction.len() as i32;
    while integer != 0 && integer % 10 == 0 && power < 22 {
        (integer, power) = (integer / 10, power + 1);
    }
    let power = i8::try_from(power).ok().filter(|power| power.unsigned_abs() <= 22)?;
    (bytes_of(integer) <= 6 && of_decimal(integer, power).to_bits() == double.to_bits()).then_some((integer, power))
}

/// Returns an integer times a power of ten.
fn of_decimal(integer: i64, power: i8) -> f64 {
    let ten = POWERS.get(usize::from(power.unsigned_abs())).copied().unwrap_or(1.0);
    if power < 0 { integer as f64 / ten } else { integer as f64 * ten }
}
