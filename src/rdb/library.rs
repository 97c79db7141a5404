//! Libraries of functions as FUNCTION DUMP writes them and FUNCTION RESTORE reads them.
//!
//! ```text
//! 245, the code as a string   for every library
//! version, CRC-64             of all that, as behind a value
//! ```

use crate::memory::marked::MarkedBytes;
use crate::rdb::{Compression, Reader, VERSION, body_of, seal, write_string};

/// The opcode that precedes a library.
pub(crate) const LIBRARY: u8 = 245;
/// The opcode of release candidates of Redis 7.0.
pub(crate) const LIBRARY_BEFORE_RELEASE: u8 = 246;
/// The maximum length of a library's code once decompressed, in bytes.
const CODE_MAX: usize = 512 << 20;

/// Serialises libraries, given by their codes. Strings are compressed only if `compresses`.
pub fn dump<'c>(codes: impl Iterator<Item = &'c [u8]>, compresses: bool) -> Vec<u8> {
    let mut payload = MarkedBytes::default();
    for code in codes {
        write(&mut payload, code, Compression::at_once_if(compresses));
    }
    seal(payload.into_bytes(), VERSION)
}

/// Appends a library.
pub(crate) fn write(out: &mut MarkedBytes, code: &[u8], compression: Compression) {
    out.push(LIBRARY);
    write_string(out, code, compression);
}

/// Returns the codes of the serialised libraries.
///
/// # Errors
/// A description of the fault, in Redis' words.
pub fn parse(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let body = body_of(payload, true).ok_or("DUMP payload version or checksum are wrong")?;
    let (mut reader, mut codes) = (Reader::new(body), Vec::new());
    while let Some((kind, rest)) = reader.rest().split_first() {
        match *kind {
            LIBRARY => {}
            LIBRARY_BEFORE_RELEASE => return Err("Pre-GA function format not supported"),
            _ => return Err("given type is not a function"),
        }
        reader = Reader::new(rest);
        codes.push(reader.string(CODE_MAX).ok_or("Failed loading library data")?.into_owned());
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_damage_is_found() {
        let codes = [vec![b'a'; 10], vec![b'b'; 1000], vec![b'c'; 100_000]];
        for compresses in [false, true] {
            let mut payload = dump(codes.iter().map(|code| &code[..]), compresses);
            assert_eq!(parse(&payload).as_deref(), Ok(&codes[..]));
            payload[5] ^= 1;
            assert!(parse(&payload).is_err());
        }
    }
}
