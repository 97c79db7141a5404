//! Single bits: GETBIT and SETBIT, and parsing of bit offsets, also for BITFIELD.

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::{Classes, Event, Lookup, Str, StringHint};

/// The event of writing bits of a string.
pub(super) const SETBIT: &Event = &Event::one(Classes::STRING, "setbit");

/// Parses a bit offset, which must lie in a string of at most `len_max` bytes.
pub(super) fn bit_offset(word: &[u8], len_max: usize) -> Result<u64> {
    parse_int(word).and_then(|offset| checked_offset(offset, len_max)).ok_or(Error::BitOffset)
}

pub(super) fn checked_offset(offset: i64, len_max: usize) -> Option<u64> {
    u64::try_from(offset).ok().filter(|offset| offset / 8 < len_max as u64)
}

/// Returns the byte that contains a bit, and the mask of the bit in it.
fn byte_and_mask(offset: u64) -> (usize, u8) {
    ((offset / 8) as usize, 0x80 >> (offset % 8))
}

pub(super) fn getbit(call: &mut Call<'_>) -> Result<()> {
    let (key, word) = (call.args.key()?, call.args.bytes()?);
    let (at, mask) = byte_and_mask(bit_offset(word, call.bulk_len_max())?);
    let byte = call.view.get::<Str>(key, Lookup::READ)?.and_then(|text| text.as_slice().get(at).copied());
    call.reply.int(i64::from(byte.unwrap_or(0) & mask != 0));
    Ok(())
}

pub(super) fn setbit(call: &mut Call<'_>) -> Result<()> {
    let (key, word) = (call.args.key()?, call.args.bytes()?);
    let (at, mask) = byte_and_mask(bit_offset(word, call.bulk_len_max())?);
    let is_set = match parse_int(call.args.bytes()?) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(Error::BitValue),
    };
    let mut text = call.view.edit::<Str>(key, SETBIT)?;
    let old = text.value().as_slice().get(at).copied();
    let byte = old.unwrap_or(0);
    let new = if is_set { byte | mask } else { byte & !mask };
    // A clear bit beyond the end is written as well: it extends the string.
    if old != Some(new) {
        text.change().write_range(at, &[new]);
    } else if let Some(mut text) = text.annotate() {
        text.set_hint(StringHint::Raw);
    }
    drop(text);
    call.reply.int(i64::from(byte & mask != 0));
    Ok(())
}
