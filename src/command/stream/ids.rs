//! IDs as arguments.

use crate::error::{Error, Result};
use crate::store::StreamId;
use crate::text::{parse_c_unsigned, until_nul};

/// The longest argument that is parsed.
const LEN_MAX: usize = 127;

fn invalid() -> Error {
    Error::InvalidStreamId
}

/// Parses an ID, or `-` and `+` for the smallest and the largest one. An incomplete ID, without a number, gets the
/// number `missing`.
pub(super) fn parse_any(word: &[u8], missing: u64) -> Result<StreamId> {
    match word {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => parse_with(word, missing),
    }
}

/// Parses an ID; an incomplete one gets the number 0.
pub(super) fn parse(word: &[u8]) -> Result<StreamId> {
    parse_with(word, 0)
}

fn parse_with(word: &[u8], missing: u64) -> Result<StreamId> {
    let (ms, seq) = split(word)?;
    let seq = match seq {
        Some(seq) => number(seq).ok_or_else(invalid)?,
        None => missing,
    };
    Ok(StreamId::new(ms, seq))
}

/// Parses the ID of an entry to be added: the number of `ms-*` is not given.
pub(super) fn parse_new(word: &[u8]) -> Result<(u64, Option<u64>)> {
    match split(word)? {
        (ms, Some(b"*")) => Ok((ms, None)),
        (ms, Some(seq)) => Ok((ms, Some(number(seq).ok_or_else(invalid)?))),
        (ms, None) => Ok((ms, Some(0))),
    }
}

/// Splits an ID at its first dash.
fn split(word: &[u8]) -> Result<(u64, Option<&[u8]>)> {
    if word.len() > LEN_MAX {
        return Err(invalid());
    }
    let word = until_nul(word);
    let (ms, seq) = match memchr::memchr(b'-', word) {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    Ok((number(ms).ok_or_else(invalid)?, seq))
}

/// Parses a number as Redis does: a canonical integer must not be negative; anything else is read as C's `strtoull`
/// does, which takes leading blanks and a sign.
fn number(word: &[u8]) -> Option<u64> {
    if let Some(number) = crate::resp::parse_int(word) {
        return u64::try_from(number).ok();
    }
    parse_c_unsigned(word)
}

/// Parses the start of a range; after `(` the ID is excluded.
pub(super) fn parse_start(word: &[u8]) -> Result<StreamId> {
    match word {
        [b'(', id @ ..] if !id.is_empty() => {
            parse(id)?.next().ok_or_else(|| Error::other("invalid start ID for the interval"))
        }
        _ => parse_any(word, 0),
    }
}

/// Parses the end of a range; after `(` the ID is excluded.
pub(super) fn parse_end(word: &[u8]) -> Result<StreamId> {
    match word {
        [b'(', id @ ..] if !id.is_empty() => {
            parse_with(id, u64::MAX)?.prev().ok_or_else(|| Error::other("invalid end ID for the interval"))
        }
        _ => parse_any(word, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        type Case = (&'static [u8], Option<(u64, u64)>);
        let cases: &[Case] = &[
            (b"5", Some((5, 0))),
            (b"5-7", Some((5, 7))),
            (b"05-+7", Some((5, 7))),
            (b"18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX))),
            (b"18446744073709551616", None),
            (b"5--3", None),
            (b"5--03", Some((5, 3_u64.wrapping_neg()))),
            (b"5-", None),
            (b"-5", None),
            (b"", None),
            (b"5-*", None),
            (b"5-7x", None),
            (b"5\0x", Some((5, 0))),
            (b"-", None),
            (b" 5", Some((5, 0))),
            (b" ", None),
        ];
        for (word, expected) in cases {
            let id = parse(word).ok().map(|id| (id.ms, id.seq));
            assert_eq!(id, *expected, "{}", word.escape_ascii());
        }
        assert!(parse(&[b'1'; 128]).is_err());
        assert_eq!(parse_new(b"5-*"), Ok((5, None)));
        assert_eq!(parse_start(b"(5"), Ok(StreamId::new(5, 1)));
        assert_eq!(parse_end(b"(5"), Ok(StreamId::new(5, u64::MAX - 1)));
        assert_eq!(parse_end(b"(5-0"), Ok(StreamId::new(4, u64::MAX)));
        assert!(parse_start(b"(-").is_err() && parse_end(b"(0-0").is_err() && parse_start(b"(").is_err());
    }
}
