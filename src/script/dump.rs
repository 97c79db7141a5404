//! Libraries as the bytes that FUNCTION DUMP writes and FUNCTION RESTORE reads: part of a Redis database file.
//!
//! ```text
//! 245 <length> <code>   for every library; the code may be compressed (LZF) when Redis has written it
//! 10 0 <CRC64>          version and checksum of all that, both with the low byte first
//! ```

/// Says that a library follows.
const LIBRARY: u8 = 245;
/// Said the same before Redis 7.0 was released.
const LIBRARY_BEFORE_RELEASE: u8 = 246;
/// The version of the format that Redis 7.0 writes.
const VERSION: u16 = 10;
/// The bytes of version and checksum.
const FOOTER_LEN: usize = 10;
/// The longest text that is unpacked, in bytes.
const UNPACKED_MAX: usize = 512 << 20;

/// Writes libraries.
pub fn dump<'c>(codes: impl Iterator<Item = &'c [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for code in codes {
        payload.push(LIBRARY);
        match code.len() {
            len @ 0..64 => payload.push(len as u8),
            len @ 64..16384 => payload.extend([0x40 | (len >> 8) as u8, len as u8]),
            len => {
                payload.push(0x80);
                payload.extend((len as u32).to_be_bytes());
            }
        }
        payload.extend(code);
    }
    payload.extend(VERSION.to_le_bytes());
    let checksum = crc64(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// Reads libraries.
///
/// # Errors
/// What is wrong with the bytes.
pub fn parse(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const WRONG: &str = "DUMP payload version or checksum are wrong";
    let end = payload.len().checked_sub(FOOTER_LEN).ok_or(WRONG)?;
    let (body, footer) = payload.split_at(end);
    let (version, checksum) = footer.split_at(2);
    if version[1] != 0 || u16::from(version[0]) > VERSION || crc64(&payload[..end + 2]).to_le_bytes() != *checksum {
        return Err(WRONG);
    }
    let (mut rest, mut codes) = (body, Vec::new());
    while let Some((kind, after)) = rest.split_first() {
        match *kind {
            LIBRARY => {}
            LIBRARY_BEFORE_RELEASE => return Err("Pre-GA function format not supported"),
            _ => return Err("given type is not a function"),
        }
        rest = after;
        codes.push(string(&mut rest).ok_or("Failed loading library data")?);
    }
    Ok(codes)
}

/// A length, or the number of a special encoding.
enum Length {
    Bytes(usize),
    Special(u8),
}

fn length(rest: &mut &[u8]) -> Option<Length> {
    let first = *take(rest, 1)?.first()?;
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    Some(match first >> 6 {
        0 => Length::Bytes(usize::from(first)),
        1 => Length::Bytes(usize::from(first & 0x3F) << 8 | number(take(rest, 1)?)),
        2 if first == 0x80 => Length::Bytes(number(take(rest, 4)?)),
        2 if first == 0x81 => Length::Bytes(number(take(rest, 8)?)),
        3 => Length::Special(first & 0x3F),
        _ => return None,
    })
}

fn take<'r>(rest: &mut &'r [u8], len: usize) -> Option<&'r [u8]> {
    let (taken, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(taken)
}

fn string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    match length(rest)? {
        Length::Bytes(len) => Some(take(rest, len)?.to_vec()),
        // Numbers are no code.
        Length::Special(0..=2) => None,
        Length::Special(3) => {
            let (Length::Bytes(packed), Length::Bytes(len)) = (length(rest)?, length(rest)?) else { return None };
            unpack(take(rest, packed)?, len)
        }
        Length::Special(_) => None,
    }
}

/// Unpacks what LZF has packed: runs of bytes as they are, and copies of what came before.
fn unpack(mut packed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > UNPACKED_MAX {
        return None;
    }
    let mut text = Vec::new();
    while let Some((&control, after)) = packed.split_first() {
        packed = after;
        if control < 32 {
            text.extend(take(&mut packed, usize::from(control) + 1)?);
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(*take(&mut packed, 1)?.first()?);
            }
            let distance = usize::from(control & 0x1F) << 8 | usize::from(*take(&mut packed, 1)?.first()?);
            let start = text.len().checked_sub(distance + 1)?;
            // The copy may overlap with what it appends.
            for at in start..start + count + 2 {
                text.push(text[at]);
            }
        }
        if text.len() > len {
            return None;
        }
    }
    (text.len() == len).then_some(text)
}

/// Computes the checksum that Redis puts behind its data: CRC64 after Jones, reflected, starting from 0.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_written_is_read_again_and_damage_is_found() {
        let codes = [vec![b'a'; 10], vec![b'b'; 1000], vec![b'c'; 100_000]];
        let mut payload = dump(codes.iter().map(|code| &code[..]));
        assert_eq!(parse(&payload).as_deref(), Ok(&codes[..]));
        payload[5] ^= 1;
        assert!(parse(&payload).is_err());
    }

    #[test]
    fn packed_text_is_unpacked() {
        // "abc" as it is, then nine bytes from three back.
        assert_eq!(unpack(&[2, b'a', b'b', b'c', 0xE0, 0, 2], 12).as_deref(), Some(&b"abcabcabcabc"[..]));
        assert_eq!(unpack(&[0x20, 9], 3), None);
    }
}
