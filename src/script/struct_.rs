//! The library `struct`: packs numbers and strings as C structures.

use keylatch_lua::Raised;

use crate::script::arguments::{argument_error, check_string, integer_or, number, truncate};
use crate::script::shared::{VmStack, set_native};

type Result<T> = std::result::Result<T, Raised>;

/// The size of the largest integer, in bytes.
const INTEGER_MAX: usize = 32;
/// The longest string that is packed, in bytes.
const PACKED_MAX: usize = 512 << 20;
/// The alignment of `!` without a number.
const ALIGNMENT: usize = 8;

/// Pushes the library.
pub(super) fn push_library(frame: &mut VmStack<'_>) {
    frame.push_table(0, 3);
    set_native(frame, "pack", pack);
    set_native(frame, "unpack", unpack);
    set_native(frame, "size", size);
}

/// A parser of formats, option by option.
struct Format {
    text: Vec<u8>,
    at: usize,
    big_endian: bool,
    align: usize,
}

struct Item {
    option: u8,
    size: usize,
}

impl Format {
    /// Creates a parser of the first argument, and counts its length as work.
    fn new(frame: &mut VmStack<'_>) -> Result<Self> {
        check_string(frame, 1)?;
        let mut text = frame.bytes(1).unwrap_or_default().to_vec();
        text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
        frame.work(text.len())?;
        Ok(Format { text, at: 0, big_endian: false, align: 1 })
    }

    /// Parses the next option and its size.
    fn next(&mut self, frame: &mut VmStack<'_>) -> Result<Option<Item>> {
        let Some(&option) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match option {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'f' => 4,
            b'L' | b'l' | b'T' | b'd' => 8,
            b'c' => self.number(frame, 1)?,
            b'i' | b'I' => {
                let size = self.number(frame, 4)?;
                if size > INTEGER_MAX {
                    let complaint = format!("integral size {size} is larger than limit of {INTEGER_MAX}");
                    return Err(frame.error(complaint));
                }
                size
            }
            _ => 0,
        };
        Ok(Some(Item { option, size }))
    }

    fn number(&mut self, frame: &mut VmStack<'_>, default: usize) -> Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number: i32 = 0;
        for digit in &self.text[self.at..self.at + digits] {
            let next = number.checked_mul(10).and_then(|number| number.checked_add(i32::from(digit - b'0')));
            number = next.ok_or_else(|| frame.error("integral size overflow"))?;
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

    /// Applies an option that concerns the format itself.
    fn control(&mut self, frame: &mut VmStack<'_>, option: u8) -> Result<()> {
        match option {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let align = self.number(frame, ALIGNMENT)?;
                if !align.is_power_of_two() {
                    return Err(frame.error(format!("alignment {align} is not a power of 2")));
                }
                self.align = align;
            }
            _ => {
                let complaint = format!("invalid format option '{}'", char::from(option));
                return Err(argument_error(frame, 1, complaint));
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, little_endian: &[u8]) {
        if self.big_endian { out.extend(little_endian.iter().rev()) } else { out.extend(little_endian) }
    }

    fn little_endian<const N: usize>(&self, bytes: &[u8]) -> [u8; N] {
        let mut copy = [0; N];
        copy[..bytes.len()].copy_from_slice(bytes);
        if self.big_endian {
            copy[..bytes.len()].reverse();
        }
        copy
    }

    /// Decodes an integer of any size; of more than eight bytes only the lowest eight count.
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

fn pack(frame: &mut VmStack<'_>) -> Result<usize> {
    let mut format = Format::new(frame)?;
    frame.push_nil(); // a missing value is nil
    let (mut out, mut next) = (Vec::new(), 2);
    while let Some(item) = format.next(frame)? {
        out.resize(out.len() + format.padding(out.len(), &item), 0);
        match item.option {
            option if is_integer(option) => {
                let number = number(frame, next)?;
                let value = if number < 0.0 { truncate(number) as u64 } else { to_unsigned(number) };
                let mut bytes = [0; INTEGER_MAX];
                bytes[..8].copy_from_slice(&value.to_le_bytes());
                format.put(&mut out, &bytes[..item.size]);
                next += 1;
            }
            b'x' => out.push(0),
            b'f' => {
                format.put(&mut out, &(number(frame, next)? as f32).to_le_bytes());
                next += 1;
            }
            b'd' => {
                format.put(&mut out, &number(frame, next)?.to_le_bytes());
                next += 1;
            }
            b'c' | b's' => {
                check_string(frame, next)?;
                let string = frame.bytes(next).unwrap_or_default();
                next += 1;
                let size = if item.size == 0 { string.len() } else { item.size };
                if string.len() < size {
                    return Err(argument_error(frame, next, "string too short"));
                }
                if size > PACKED_MAX.saturating_sub(out.len()) {
                    return Err(frame.plain_error("not enough memory"));
                }
                out.extend(&string[..size]);
                if item.option == b's' {
                    out.push(0);
                }
                frame.work(size / 16)?;
            }
            option => format.control(frame, option)?,
        }
    }
    frame.push_bytes(&out);
    Ok(1)
}

/// Converts as C does on x86-64, where a number out of range wraps instead of saturating.
fn to_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number < HALF { truncate(number) as u64 } else { truncate(number - HALF) as u64 ^ 1 << 63 }
}

fn unpack(frame: &mut VmStack<'_>) -> Result<usize> {
    let mut format = Format::new(frame)?;
    check_string(frame, 2)?;
    let start = integer_or(frame, 3, 1)? as usize;
    if start == 0 {
        return Err(argument_error(frame, 3, "offset must be 1 or greater"));
    }
    // Positions in the data may wrap, and then lie behind it.
    let (mut at, args) = (start - 1, frame.top());
    while let Some(item) = format.next(frame)? {
        if frame.reserve(2).is_err() {
            return Err(frame.error("stack overflow (too many results)"));
        }
        let Item { option, mut size } = item;
        at = at.wrapping_add(format.padding(at, &item));
        let data = frame.bytes(2).unwrap_or_default();
        let Some(bytes) = data.get(at..).and_then(|rest| rest.get(..size)) else { return Err(too_short(frame)) };
        match option {
            option if is_integer(option) => {
                let number = format.integer(bytes, option.is_ascii_lowercase());
                frame.push_number(number);
            }
            b'x' => {}
            b'f' => {
                let number = f32::from_le_bytes(format.little_endian(bytes));
                frame.push_number(f64::from(number));
            }
            b'd' => {
                let number = f64::from_le_bytes(format.little_endian(bytes));
                frame.push_number(number);
            }
            b'c' => {
                if size == 0 {
                    let given = (frame.top() > args).then(|| frame.number(frame.top())).flatten();
                    let Some(given) = given else { return Err(frame.error("format 'c0' needs a previous size")) };
                    size = truncate(given) as usize;
                    frame.pop();
                }
                push_part(frame, at, size)?;
            }
            b's' => {
                let Some(len) = memchr::memchr(0, &data[at..]) else {
                    return Err(frame.error("unfinished string in data"));
                };
                push_part(frame, at, len)?;
                size = len + 1;
            }
            option => format.control(frame, option)?,
        }
        at += size;
    }
    frame.push_number((at + 1) as f64);
    Ok(frame.top() - args)
}

fn too_short(frame: &mut VmStack<'_>) -> Raised {
    argument_error(frame, 2, "data string too short")
}

/// Pushes a part of the data.
fn push_part(frame: &mut VmStack<'_>, at: usize, len: usize) -> Result<()> {
    let is_inside = frame.push_part(2, at, len);
    if is_inside { Ok(()) } else { Err(too_short(frame)) }
}

fn size(frame: &mut VmStack<'_>) -> Result<usize> {
    let mut format = Format::new(frame)?;
    let mut at = 0;
    while let Some(item) = format.next(frame)? {
        at += format.padding(at, &item);
        match item.option {
            b's' => return Err(argument_error(frame, 1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => return Err(argument_error(frame, 1, "option 'c0' has no fixed size")),
            option if !option.is_ascii_alphanumeric() => format.control(frame, option)?,
            _ => {}
        }
        at += item.size;
    }
    frame.push_number(at as f64);
    Ok(1)
}
