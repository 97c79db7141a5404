//! Reading DER: values with definite lengths, each with its tag.

/// Tags.
pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const SEQUENCE: u8 = 0x30;

/// A value.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// With tag and length.
    pub(super) whole: &'a [u8],
}

/// The values that are left of a text.
pub(super) struct Values<'a>(pub(super) &'a [u8]);

impl<'a> Values<'a> {
    /// Returns the next value.
    pub(super) fn any(&mut self) -> Option<Value<'a>> {
        let (head, rest) = self.0.split_first_chunk::<2>()?;
        let [tag, first] = *head;
        if tag & 0x1f == 0x1f {
            return None; // a tag of several bytes, of which a certificate has none
        }
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
                let is_shortest = len >= 0x80 && bytes[0] != 0;
                (is_shortest.then_some(len)?, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some(Value { tag, content, whole })
    }

    /// Returns the next value, which has a tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<Value<'a>> {
        self.any().filter(|value| value.tag == tag)
    }

    /// Returns the next value if it has a tag.
    pub(super) fn next_if(&mut self, tag: u8) -> Option<Value<'a>> {
        if self.0.first() == Some(&tag) { self.any() } else { None }
    }

    /// Returns something, if nothing is left.
    pub(super) fn end<T>(&self, result: T) -> Option<T> {
        self.0.is_empty().then_some(result)
    }
}

impl<'a> Value<'a> {
    /// Returns the values that it consists of.
    pub(super) fn values(self) -> Values<'a> {
        Values(self.content)
    }

    /// Returns the bytes of a bit string of whole bytes.
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        self.content.split_first().filter(|(unused, _)| **unused == 0).map(|(_, bytes)| bytes)
    }

    /// Returns the first bits of a bit string, the first of them as the highest.
    pub(super) fn bits(self) -> Option<u16> {
        let (unused, bytes) = self.content.split_first()?;
        let is_right = *unused < 8 && (*unused == 0 || !bytes.is_empty());
        let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
        is_right.then_some(byte(0) << 8 | byte(1))
    }

    /// Returns a time in seconds since 1970.
    pub(super) fn seconds(self) -> Option<i64> {
        let (year, rest) = match self.tag {
            UTC_TIME => {
                let (year, rest) = digits(self.content, 2)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => digits(self.content, 4)?,
            _ => return None,
        };
        let (month, rest) = digits(rest, 2)?;
        let (day, rest) = digits(rest, 2)?;
        let (hour, rest) = digits(rest, 2)?;
        let (minute, rest) = digits(rest, 2)?;
        let (second, rest) = digits(rest, 2)?;
        let is_time = (1..=12).contains(&month) && day >= 1 && day <= days_of(year, month);
        let is_time = is_time && hour < 24 && minute < 60 && second < 60 && rest == b"Z";
        let days = days_before(year) - days_before(1970) + (1..month).map(|month| days_of(year, month)).sum::<i64>();
        is_time.then_some((((days + day - 1) * 24 + hour) * 60 + minute) * 60 + second)
    }
}

/// Returns a number of so many digits, and what follows.
fn digits(text: &[u8], count: usize) -> Option<(i64, &[u8])> {
    let (digits, rest) = text.split_at_checked(count)?;
    let number = digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))?;
    Some((number, rest))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && year % 100 != 0 || year % 400 == 0
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns how many days the years before this one have.
fn days_before(year: i64) -> i64 {
    let before = year - 1;
    365 * year + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_stand_in_certificates() {
        let read = |tag: u8, text: &str| {
            let whole = [&[tag, text.len() as u8], text.as_bytes()].concat();
            Values(&whole).any().and_then(Value::seconds)
        };
        assert_eq!(read(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(read(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(read(GENERALIZED_TIME, "20000301000001Z"), Some(951_868_801));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z"), Some(253_402_300_799));
        for (tag, text) in [
            (UTC_TIME, "700101000000"),
            (UTC_TIME, "7001010000Z"),
            (UTC_TIME, "700101000000+0100"),
            (UTC_TIME, "700230000000Z"),
            (UTC_TIME, "70010100000xZ"),
            (GENERALIZED_TIME, "19000229000000Z"),
            (INTEGER, "700101000000Z"),
        ] {
            assert_eq!(read(tag, text), None, "{text}");
        }
    }

    #[test]
    fn a_value_whose_length_is_not_the_shortest_or_goes_beyond_the_end_is_refused() {
        let read = |bytes: &[u8]| Values(bytes).any().map(|value| value.content.len());
        assert_eq!([read(&[4, 0]), read(&[4, 1, 9])], [Some(0), Some(1)]);
        assert_eq!(read(&[&[4, 0x81, 0x80], &[0; 0x80][..]].concat()), Some(0x80));
        for bytes in [&[][..], &[4], &[4, 1], &[4, 0x80], &[4, 0x81, 1, 9], &[4, 0x82, 0, 1, 9], &[4, 0x84, 0, 0, 0, 0]]
        {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
        assert_eq!(read(&[0x1f, 1, 9]), None, "a long tag");
    }
}
