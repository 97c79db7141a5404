//! The library `bit`: 32-bit operations.

use mlua::{Lua, MultiValue, Result, Table};

use crate::script::arguments::Arguments;

type Shift = fn(u32, u32) -> u32;

/// Creates the library's contents.
pub(super) fn table(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("tobit", lua.create_function(|lua, args| one(lua, args, |bits| bits))?)?;
    table.set("bnot", lua.create_function(|lua, args| one(lua, args, |bits| !bits))?)?;
    table.set("bswap", lua.create_function(|lua, args| one(lua, args, u32::swap_bytes))?)?;
    table.set("band", lua.create_function(|lua, args| fold(lua, args, |a, b| a & b))?)?;
    table.set("bor", lua.create_function(|lua, args| fold(lua, args, |a, b| a | b))?)?;
    table.set("bxor", lua.create_function(|lua, args| fold(lua, args, |a, b| a ^ b))?)?;
    let shifts: [(&str, Shift); 5] = [
        ("lshift", |bits, by| bits << by),
        ("rshift", |bits, by| bits >> by),
        ("arshift", |bits, by| (bits as i32 >> by) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    for (name, shift) in shifts {
        let function = lua.create_function(move |lua, args| {
            let args = Arguments::new(lua, args);
            Ok(result(shift(bits(&args, 1)?, bits(&args, 2)? & 31)))
        })?;
        table.set(name, function)?;
    }
    table.set("tohex", lua.create_function(to_hex)?)?;
    Ok(table)
}

/// Reads an argument modulo 2^32, rounded to the nearest integer.
fn bits(args: &Arguments<'_>, position: usize) -> Result<u32> {
    // Adding 2^52 + 2^51 leaves the integer in the lowest bits of the double.
    Ok((args.number(position)? + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn result(bits: u32) -> i64 {
    i64::from(bits as i32)
}

fn one(lua: &Lua, args: MultiValue, operation: fn(u32) -> u32) -> Result<i64> {
    Ok(result(operation(bits(&Arguments::new(lua, args), 1)?)))
}

fn fold(lua: &Lua, args: MultiValue, operation: fn(u32, u32) -> u32) -> Result<i64> {
    let args = Arguments::new(lua, args);
    let mut folded = bits(&args, 1)?;
    for position in (2..=args.len()).rev() {
        folded = operation(folded, bits(&args, position)?);
    }
    Ok(result(folded))
}

fn to_hex(lua: &Lua, args: MultiValue) -> Result<String> {
    let args = Arguments::new(lua, args);
    let number = bits(&args, 1)?;
    let digits = if args.len() < 2 { 8 } else { bits(&args, 2)? as i32 };
    let count = digits.unsigned_abs().min(8) as usize;
    let hex = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    Ok(hex[8 - count..].to_owned())
}
