//! The library `bit`: 32-bit operations.

use keylatch_lua::Raised;

use crate::script::arguments::number;
use crate::script::shared::{VmStack, set_native};

/// Pushes the library.
pub(super) fn push_library(frame: &mut VmStack<'_>) {
    frame.push_table(0, 12);
    set_native(frame, "tobit", |frame| one(frame, |bits| bits));
    set_native(frame, "bnot", |frame| one(frame, |bits| !bits));
    set_native(frame, "bswap", |frame| one(frame, u32::swap_bytes));
    set_native(frame, "band", |frame| fold(frame, |a, b| a & b));
    set_native(frame, "bor", |frame| fold(frame, |a, b| a | b));
    set_native(frame, "bxor", |frame| fold(frame, |a, b| a ^ b));
    set_native(frame, "lshift", |frame| shift(frame, |bits, by| bits << by));
    set_native(frame, "rshift", |frame| shift(frame, |bits, by| bits >> by));
    set_native(frame, "arshift", |frame| shift(frame, |bits, by| (bits as i32 >> by) as u32));
    set_native(frame, "rol", |frame| shift(frame, u32::rotate_left));
    set_native(frame, "ror", |frame| shift(frame, u32::rotate_right));
    set_native(frame, "tohex", to_hex);
}

/// Reads an argument modulo 2^32, rounded to the nearest integer.
fn bits(frame: &mut VmStack<'_>, position: usize) -> Result<u32, Raised> {
    // Adding 2^52 + 2^51 leaves the integer in the lowest bits of the double.
    Ok((number(frame, position)? + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn push(frame: &mut VmStack<'_>, bits: u32) -> Result<usize, Raised> {
    frame.push_number(f64::from(bits as i32));
    Ok(1)
}

fn one(frame: &mut VmStack<'_>, operation: fn(u32) -> u32) -> Result<usize, Raised> {
    let bits = bits(frame, 1)?;
    push(frame, operation(bits))
}

fn fold(frame: &mut VmStack<'_>, operation: fn(u32, u32) -> u32) -> Result<usize, Raised> {
    let mut folded = bits(frame, 1)?;
    for position in (2..=frame.top()).rev() {
        folded = operation(folded, bits(frame, position)?);
    }
    push(frame, folded)
}

fn shift(frame: &mut VmStack<'_>, operation: fn(u32, u32) -> u32) -> Result<usize, Raised> {
    let (shifted, by) = (bits(frame, 1)?, bits(frame, 2)? & 31);
    push(frame, operation(shifted, by))
}

fn to_hex(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    let number = bits(frame, 1)?;
    let digits = if frame.top() < 2 { 8 } else { bits(frame, 2)? as i32 };
    let count = digits.unsigned_abs().min(8) as usize;
    let hex = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    frame.push_bytes(&hex.as_bytes()[8 - count..]);
    Ok(1)
}
