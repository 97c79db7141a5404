//! The library `struct`: packs numbers and strings as C structures.

use std::sync::Arc;

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value};

use crate::script::arguments::{Arguments, number_of, truncate};
use crate::script::control::Control;
use crate::script::raise;

/// The size of the largest integer, in bytes.
const INTEGER_MAX: usize = 32;
/// The alignment of `!` without a number.
const ALIGNMENT: usize = 8;

/// The maximum number of arguments and results together.
const STACK_MAX: usize = 8000;

/// Creates the library's contents.
pub(super) fn table(lua: &Lua, control: &Arc<Control>) -> Result<Table> {
    let table = lua.create_table()?;
    fn add<R: IntoLuaMulti + 'static>(
        table: &Table,
        lua: &Lua,
        control: &Arc<Control>,
        name: &str,
        act: fn(&Lua, MultiValue) -> Result<R>,
    ) -> Result<()> {
        let control = control.clone();
        let function = lua.create_function(move |lua, args: MultiValue| {
            if let Some(Value::String(format)) = args.front() {
                control.spend(lua, format.as_bytes().len())?;
            }
            act(lua, args)
        })?;
        table.set(name, function)
    }
    add(&table, lua, control, "pack", pack)?;
    add(&table, lua, control, "unpack", unpack)?;
    add(&table, lua, control, "size", size)?;
    Ok(table)
}

/// A parser of formats, option by option.
struct Format<'l> {
    lua: &'l Lua,
    text: Vec<u8>,
    at: usize,
    big_endian: bool,
    align: usize,
}

/// One option of a format.
struct Item {
    option: u8,
    size: usize,
}

impl<'l> Format<'l> {
    fn new(lua: &'l Lua, format: &LuaString) -> Self {
        let mut text = format.as_bytes().to_vec();
        text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
        Format { lua, text, at: 0, big_endian: false, align: 1 }
    }

    /// Parses the next option and its size.
    fn next(&mut self) -> Result<Option<Item>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(1)?,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_MAX {
                    let complaint = format!("integral size {size} is larger than limit of {INTEGER_MAX}");
                    return Err(raise::text(self.lua, complaint));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    fn number(&mut self, default: usize) -> Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number: i32 = 0;
        for digit in &self.text[self.at..self.at + digits] {
            let next = number.checked_mul(10).and_then(|number| number.checked_add(i32::from(digit - b'0')));
            number = next.ok_or_else(|| raise::text(self.lua, "integral size overflow"))?;
        }
        self.at += digits;
        Ok(number as usize)
    }

    /// Returns the padding before an item at `position`.
    fn padding(&self, position: usize, item: &Item) -> usize {
        if item.size == 0 || item.option == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        size.wrapping_sub(position & size.wrapping_sub(1)) & size.wrapping_sub(1)
    }

    /// Applies an option about the format itself.
    fn control(&mut self, option: u8) -> Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(raise::text(self.lua, format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let complaint = format!("invalid format option '{}'", char::from(option));
                return Err(raise::argument(self.lua, 1, complaint));
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, little_endian: &[u8]) {
        match self.big_endian {
            true => out.extend(little_endian.iter().rev()),
            false => out.extend(little_endian),
        }
    }

    fn little_endian<const N: usize>(&self, bytes: &[u8]) -> [u8; N] {
        let mut copy = [0; N];
        copy[..bytes.len()].copy_from_slice(bytes);
        if self.big_endian {
            copy[..bytes.len()].reverse();
        }
        copy
    }

    /// Decodes an integer of any size; of more than eight bytes only the lowest count.
    fn integer(&self, bytes: &[u8], is_signed: bool) -> f64 {
        let wide: [u8; INTEGER_MAX] = self.little_endian(bytes);
        let mut number = u64::from_le_bytes(*wide.first_chunk().expect("longer than eight bytes"));
        if !is_signed {
            return number as f64;
        }
        // The sign is in the highest present bit; as in C, the shift counts modulo 64.
        let mask = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
        if number & mask != 0 {
            number |= mask;
        }
        number as i64 as f64
    }
}

fn is_integer(option: u8) -> bool {
    matches!(option, b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I')
}

fn pack(lua: &Lua, mut args: MultiValue) -> Result<LuaString> {
    if !args.is_empty() {
        args.push_back(Value::Nil); // a missing value is nil
    }
    let args = Arguments::new(lua, args);
    let mut format = Format::new(lua, &args.string(1)?);
    let (mut out, mut next) = (Vec::new(), 2);
    while let Some(item) = format.next()? {
        out.resize(out.len() + format.padding(out.len(), &item), 0);
        match item.option {
            option if is_integer(option) => {
                let number = args.number(next)?;
                let value = if number < 0.0 { truncate(number) as u64 } else { to_unsigned(number) };
                let mut bytes = [0; INTEGER_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.put(&mut out, &bytes[..item.size]);
                next += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                format.put(&mut out, &(args.number(next)? as f32).to_le_bytes());
                next += 1;
            }
            b'd' => {
                format.put(&mut out, &args.number(next)?.to_le_bytes());
                next += 1;
            }
            b'c' | b's' => {
                let string = args.string(next)?;
                let string = string.as_bytes();
                next += 1;
                let size = if item.size == 0 { string.len() } else { item.size };
                if string.len() < size {
                    return Err(args.complain(next, "string too short"));
                }
                out.extend(&string[..size]);
                if item.option == b's' {
                    out.push(0);
                }
            }
            option => format.control(option)?,
        }
    }
    lua.create_string(out)
}

/// Converts as C does on x86-64, where a number out of range wraps instead of saturating.
fn to_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number < HALF { truncate(number) as u64 } else { truncate(number - HALF) as u64 ^ 1 << 63 }
}

fn unpack(lua: &Lua, args: MultiValue) -> Result<MultiValue> {
    let args = Arguments::new(lua, args);
    let mut format = Format::new(lua, &args.string(1)?);
    let data = args.string(2)?;
    let data = data.as_bytes();
    let start = args.integer_or(3, 1)? as usize;
    if start == 0 {
        return Err(args.complain(3, "offset must be 1 or greater"));
    }
    let (mut at, mut results) = (start - 1, Vec::new());
    let too_short = || args.complain(2, "data string too short");
    while let Some(item) = format.next()? {
        if args.len() + results.len() + 2 > STACK_MAX {
            return Err(raise::text(lua, "stack overflow (too many results)"));
        }
        let Item { option, mut size } = item;
        at = at.wrapping_add(format.padding(at, &item));
        let bytes = data.get(at..).and_then(|rest| rest.get(..size)).ok_or_else(too_short)?;
        match option {
            option if is_integer(option) => {
                results.push(Value::Number(format.integer(bytes, option.is_ascii_lowercase())));
            }
            b'x' => {}
            b'f' => results.push(Value::Number(f64::from(f32::from_le_bytes(format.little_endian(bytes))))),
            b'd' => results.push(Value::Number(f64::from_le_bytes(format.little_endian(bytes)))),
            b'c' => {
                if size == 0 {
                    let Some(given) = results.pop().and_then(|value| number_of(lua, &value)) else {
                        return Err(raise::text(lua, "format 'c0' needs a previous size"));
                    };
                    size = truncate(given) as usize;
                }
                let bytes = data[at..].get(..size).ok_or_else(too_short)?;
                results.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let Some(len) = memchr::memchr(0, &data[at..]) else {
                    return Err(raise::text(lua, "unfinished string in data"));
                };
                results.push(Value::String(lua.create_string(&data[at..at + len])?));
                size = len + 1;
            }
            option => format.control(option)?,
        }
        at += size;
    }
    results.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(results))
}

fn size(lua: &Lua, args: MultiValue) -> Result<usize> {
    let args = Arguments::new(lua, args);
    let mut format = Format::new(lua, &args.string(1)?);
    let mut at = 0;
    while let Some(item) = format.next()? {
        at += format.padding(at, &item);
        match item.option {
            b's' => return Err(args.complain(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(args.complain(1, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(option)?,
            _ => {}
        }
        at += item.size;
    }
    Ok(at)
}
