//! BITFIELD: integers of 1 to 64 bits that begin at any bit of a string.
//!
//! Invariant: all arguments are parsed and checked before the string is changed.

use smallvec::SmallVec;

use crate::command::bitmap::single::{SETBIT, bit_offset, checked_offset};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::spec::{ACCESS, KeyFlags, RO, RW, UPDATE};
use crate::store::{Key, Lookup, Str, StringHint};

/// The size of the window of bytes around a field; a field of 64 bits touches at most 9 bytes.
const WINDOW: usize = size_of::<u128>();

pub(crate) fn bitfield(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len_max = call.bulk_len_max();
    let operations = read_operations(&mut call.args, len_max)?;
    run(call, key, &operations)
}

pub(crate) fn bitfield_ro(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let len_max = call.bulk_len_max();
    let operations = read_operations(&mut call.args, len_max)?;
    if operations.iter().any(Operation::is_write) {
        return Err(Error::other("BITFIELD_RO only supports the GET subcommand"));
    }
    run(call, key, &operations)
}

/// Returns the key flags of BITFIELD: read-only if all operations are GET; an unknown argument counts as a write.
pub(crate) fn bitfield_key_use(request: Request<'_>) -> KeyFlags {
    let mut at = 2;
    while at < request.len() {
        let (word, left) = (request.arg(at), request.len() - at - 1);
        at += match (is_word(word, "GET"), is_word(word, "OVERFLOW")) {
            (true, _) if left >= 2 => 3,
            (_, true) if left >= 1 => 2,
            _ => return RW | ACCESS | UPDATE,
        };
    }
    RO | ACCESS
}

fn run(call: &mut Call<'_>, key: Key<'_>, operations: &[Operation]) -> Result<()> {
    if !operations.iter().any(Operation::is_write) {
        let text = call.view.get::<Str>(key, Lookup::READ)?.map_or(&b""[..], Str::as_slice);
        call.reply.array(operations.len());
        for Operation { field, .. } in operations {
            call.reply.int(Window::over(text, *field).get(*field));
        }
        return Ok(());
    }
    let mut text = call.view.edit::<Str>(key, SETBIT)?;
    let old_len = text.value().len();
    // The string grows up to the farthest field, even if in the end nothing is written there.
    let len = operations.iter().filter(|operation| operation.is_write()).map(|operation| operation.field.end()).max();
    let grows = len.is_some_and(|len| len > old_len);
    if !grows && let Some(mut text) = text.annotate() {
        text.set_hint(StringHint::Raw);
    }
    call.reply.array(operations.len());
    for operation in operations {
        let field = operation.field;
        let window = Window::over(text.value().as_slice(), field);
        let old = window.get(field);
        let (reply, new) = match operation.action {
            Action::Get => (Some(old), old),
            Action::Set(value) => match field.fit(value, operation.overflow) {
                Some(new) => (Some(old), new),
                None => (None, old),
            },
            Action::Add(increment) => match field.add(old, increment, operation.overflow) {
                Some(new) => (Some(new), new),
                None => (None, old),
            },
        };
        // A string that grows counts as changed by every operation that writes, whatever the value.
        if new != old || grows && operation.is_write() && reply.is_some() {
            let window = window.with(field, new);
            text.change().write_range(field.first_byte(), window.bytes_of(field));
        }
        match reply {
            Some(value) => call.reply.int(value),
            None => call.reply.null(),
        }
    }
    if let Some(len) = len.filter(|len| text.value().len() < *len) {
        text.change().write_range(len, b"");
    }
    Ok(())
}

/// The treatment of a number that does not fit its field.
#[derive(Clone, Copy)]
enum Overflow {
    /// The upper bits are dropped.
    Wrap,
    /// The number is clamped to the nearest one that fits.
    Saturate,
    /// The field stays unchanged.
    Fail,
}

enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct Operation {
    field: Field,
    action: Action,
    overflow: Overflow,
}

impl Operation {
    fn is_write(&self) -> bool {
        !matches!(self.action, Action::Get)
    }
}

fn read_operations(args: &mut Args<'_>, len_max: usize) -> Result<SmallVec<[Operation; 4]>> {
    let mut operations = SmallVec::new();
    let mut overflow = Overflow::Wrap;
    while let Some(word) = args.next_arg() {
        let has = |name: &str, words: usize| is_word(word, name) && args.left() >= words;
        let (is_get, is_set, is_add) = (has("GET", 2), has("SET", 3), has("INCRBY", 3));
        if has("OVERFLOW", 1) {
            overflow = Overflow::read(args.bytes()?)?;
            continue;
        }
        if !is_get && !is_set && !is_add {
            return Err(Error::Syntax);
        }
        let field = Field::read(args.bytes()?, args.bytes()?, len_max)?;
        let action = match (is_get, is_set) {
            (true, _) => Action::Get,
            (_, true) => Action::Set(args.int()?),
            _ => Action::Add(args.int()?),
        };
        operations.push(Operation { field, action, overflow });
    }
    Ok(operations)
}

impl Overflow {
    fn read(word: &[u8]) -> Result<Self> {
        let all = [("WRAP", Self::Wrap), ("SAT", Self::Saturate), ("FAIL", Self::Fail)];
        let found = all.into_iter().find(|(name, _)| is_word(word, name));
        found.map(|(_, overflow)| overflow).ok_or_else(|| Error::other("Invalid OVERFLOW type specified"))
    }
}

/// An integer inside a string: its type and the position of its first bit.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u32,
    offset: u64,
}

impl Field {
    /// Parses a type, such as `i16`, and an offset, such as `100` or, counted in fields of this type, `#5`.
    fn read(kind: &[u8], place: &[u8], len_max: usize) -> Result<Self> {
        let invalid = || {
            Error::other("Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
        };
        let is_signed = match kind.first() {
            Some(b'i') => true,
            Some(b'u') => false,
            _ => return Err(invalid()),
        };
        // As in Redis, the argument ends at its first NUL.
        let digits = kind[1..].split(|byte| *byte == 0).next().unwrap_or_default();
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = parse_int(digits).filter(|bits| (1..=bits_max).contains(bits)).ok_or_else(invalid)?;
        let offset = match place.strip_prefix(b"#") {
            None => bit_offset(place, len_max)?,
            // A product that is too large wraps around, as Redis' does.
            Some(number) => parse_int(number)
                .and_then(|number| checked_offset(number.wrapping_mul(bits), len_max))
                .ok_or(Error::BitOffset)?,
        };
        Ok(Field { is_signed, bits: bits as u32, offset })
    }

    fn first_byte(self) -> usize {
        (self.offset / 8) as usize
    }

    /// Returns the end of the bytes that contain the field.
    fn end(self) -> usize {
        (self.offset + u64::from(self.bits)).div_ceil(8) as usize
    }

    fn max(self) -> i128 {
        (1 << (self.bits - u32::from(self.is_signed))) - 1
    }

    fn min(self) -> i128 {
        if self.is_signed { -self.max() - 1 } else { 0 }
    }

    /// Returns the number that SET writes; `None` where it does not fit and OVERFLOW is FAIL.
    fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        // An unsigned field takes a negative number for a very large one. So does a signed field when Redis finds the
        // number too far below the minimum: the distance to the maximum does not fit 64 bits.
        let is_large = self.bits < 64 && self.max() - i128::from(value) > i128::from(i64::MAX);
        match (self.is_signed, overflow) {
            (false, _) => self.limit(i128::from(value as u64), overflow),
            (true, Overflow::Saturate) if is_large => Some(self.max() as i64),
            (true, _) => self.limit(i128::from(value), overflow),
        }
    }

    /// Returns the number that INCRBY writes; `None` where it does not fit and OVERFLOW is FAIL.
    fn add(self, old: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.limit(i128::from(old) + i128::from(increment), overflow)
    }

    fn limit(self, number: i128, overflow: Overflow) -> Option<i64> {
        if (self.min()..=self.max()).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.interpret(number as u64)),
            Overflow::Saturate => Some(number.clamp(self.min(), self.max()) as i64),
            Overflow::Fail => None,
        }
    }

    /// Interprets the lowest bits of `raw` as a number of this field.
    fn interpret(self, raw: u64) -> i64 {
        let unused = u64::BITS - self.bits;
        let raw = raw << unused;
        if self.is_signed { raw as i64 >> unused } else { (raw >> unused) as i64 }
    }
}

/// The bytes around a field, the first the highest; bytes beyond the string are zero.
#[derive(Clone, Copy)]
struct Window([u8; WINDOW]);

impl Window {
    fn over(text: &[u8], field: Field) -> Self {
        let mut window = [0; WINDOW];
        let bytes = text.get(field.first_byte()..text.len().min(field.end())).unwrap_or_default();
        window[..bytes.len()].copy_from_slice(bytes);
        Window(window)
    }

    /// Returns the distance from the window's lowest bit to the field's.
    fn shift(field: Field) -> u32 {
        u128::BITS - (field.offset % 8) as u32 - field.bits
    }

    fn get(self, field: Field) -> i64 {
        field.interpret((u128::from_be_bytes(self.0) >> Self::shift(field)) as u64)
    }

    fn with(self, field: Field, value: i64) -> Self {
        let mask = u128::from(u64::MAX >> (u64::BITS - field.bits)) << Self::shift(field);
        let value = u128::from(value as u64) << Self::shift(field) & mask;
        Window((u128::from_be_bytes(self.0) & !mask | value).to_be_bytes())
    }

    fn bytes_of(&self, field: Field) -> &[u8] {
        &self.0[..field.end() - field.first_byte()]
    }
}
