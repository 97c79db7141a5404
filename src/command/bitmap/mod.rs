//! Bitmaps: strings as rows of bits, of which the first is the highest bit of the first byte.
//!
//! BITFIELD has its row here and its handler in `bitmap/field.rs`, GETBIT and SETBIT in `bitmap/single.rs`; the
//! operations on many bits are in `bitmap/bits.rs` and `bitmap/combine.rs`.
//!
//! Invariant: a string is read in place; only BITOP creates a new one.

mod bits;
mod combine;
mod field;
mod single;

use std::ops::Range;

use crate::command::string::SET;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::resp::Request;
use crate::resp::parse_int;
use crate::spec::{
    ACCESS, Arg, DENY_OOM, Effect, FAST, Group, OW, READ, RO, RW, UPDATE, VARIABLE, WRITE, block, integer, key, one_of,
    string, token,
};
use crate::store::{Lookup, Str, Ttl};
use crate::text::Dialect;
use combine::{Combination, Operator};

const UNIT: Arg = one_of("index_unit", &[token("byte", "BYTE"), token("bit", "BIT")]).optional().since("7.0.0");
const FIELD: &[Arg] = &[string("encoding"), integer("offset")];
const FIELD_COST: &str = "O(1) for each subcommand specified";
const FIELD_NOTES: &str = "This command allows both access and modification of the key";

const FIELD_OPERATION: Arg = one_of("operation", &[block("encoding_offset", FIELD).token("GET"), FIELD_WRITE]);

const FIELD_WRITE: Arg = block(
    "write",
    &[
        one_of("wrap_sat_fail", &[token("wrap", "WRAP"), token("sat", "SAT"), token("fail", "FAIL")])
            .token("OVERFLOW")
            .optional(),
        one_of(
            "write_operation",
            &[
                block("encoding_offset_value", &[string("encoding"), integer("offset"), integer("value")]).token("SET"),
                block("encoding_offset_increment", &[string("encoding"), integer("offset"), integer("increment")])
                    .token("INCRBY"),
            ],
        ),
    ],
);

const OPERATION: Arg = one_of(
    "operation",
    &[
        token("and", "AND"),
        token("or", "OR"),
        token("xor", "XOR"),
        token("not", "NOT"),
        token("diff", "DIFF").since("8.2.0"),
        token("diff1", "DIFF1").since("8.2.0"),
        token("andor", "ANDOR").since("8.2.0"),
        token("one", "ONE").since("8.2.0"),
    ],
);

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BITCOUNT", bitcount, READ, Group::Bitmap)
        .args(&[key("key", RO | ACCESS), block("index", &[integer("start"), integer("end"), UNIT]).optional()])
        .docs("2.6.0", "O(N)", "Counts the set bits of a string."),
    Command::new("BITFIELD", field::bitfield, WRITE | DENY_OOM, Group::Bitmap)
        .args(&[
            key("key", RW | ACCESS | UPDATE | VARIABLE).key_notes(FIELD_NOTES),
            FIELD_OPERATION.optional().multiple(),
        ])
        .key_use(field::bitfield_key_use)
        .docs("3.2.0", FIELD_COST, "Reads and changes integers of any width at any bit of a string."),
    Command::new("BITFIELD_RO", field::bitfield_ro, READ | FAST, Group::Bitmap)
        .args(&[
            key("key", RO | ACCESS),
            block("encoding_offset", FIELD).token("GET").optional().multiple_token(),
        ])
        .docs("6.0.0", FIELD_COST, "Reads integers of any width at any bit of a string."),
    Command::new("BITOP", bitop, WRITE | DENY_OOM, Group::Bitmap)
        .effect(Effect::ValuesUnless(has_old_operation))
        .args(&[OPERATION, key("destkey", OW | UPDATE), key("key", RO | ACCESS).multiple()])
        .docs("2.6.0", "O(N)", "Combines strings bitwise and stores the result."),
    Command::new("BITPOS", bitpos, READ, Group::Bitmap)
        .args(&[
            key("key", RO | ACCESS),
            integer("bit"),
            block("index", &[
                integer("start"),
                block("end_index", &[integer("end"), UNIT]).optional(),
            ]).optional(),
        ])
        .docs("2.8.7", "O(N)", "Finds the first bit of a string that is set, or clear."),
    Command::new("GETBIT", single::getbit, READ | FAST, Group::Bitmap)
        .args(&[key("key", RO | ACCESS), integer("offset")])
        .docs("2.2.0", "O(1)", "Returns one bit of a string."),
    Command::new("SETBIT", single::setbit, WRITE | DENY_OOM, Group::Bitmap)
        .args(&[key("key", RW | ACCESS | UPDATE), integer("offset"), integer("value")])
        .docs("2.2.0", "O(1)", "Sets or clears one bit of a string, extending it if necessary."),
];

fn bitcount(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let stretch = match call.args.left() {
        0 => Stretch::WHOLE,
        1 if call.config.dialect() == Dialect::Valkey => Stretch { start: call.args.int()?, ..Stretch::WHOLE },
        2 | 3 => {
            let (start, end) = (call.args.int()?, call.args.int()?);
            Stretch { start, end: Some(end), unit: Unit::read(call.args.next_arg())? }
        }
        _ => return Err(Error::Syntax),
    };
    // A missing key counts as an empty string, which has no bits set.
    let text = call.view.get::<Str>(key, Lookup::READ)?.map_or(&b""[..], Str::as_slice);
    let range = if stretch.is_reversed() { 0..0 } else { stretch.resolve(text.len()) };
    call.reply.int(bits::count(text, range) as i64);
    Ok(())
}

fn bitpos(call: &mut Call<'_>) -> Result<()> {
    let (key, bit) = (call.args.key()?, call.args.int()?);
    if bit != 0 && bit != 1 {
        return Err(Error::other("The bit argument must be 1 or 0."));
    }
    let is_set = bit == 1;
    let stretch = Stretch::read(&mut call.args)?;
    let Some(text) = call.view.get::<Str>(key, Lookup::READ)?.map(Str::as_slice) else {
        call.reply.int(if is_set { -1 } else { 0 });
        return Ok(());
    };
    let range = stretch.resolve(text.len());
    let position = match bits::find(text, is_set, range.clone()) {
        Some(position) => position as i64,
        // Beyond the string all bits are clear, but with an explicit end the search stops at the string's end.
        None if !is_set && stretch.end.is_none() && !range.is_empty() => range.end as i64,
        None => -1,
    };
    call.reply.int(position);
    Ok(())
}

/// An unresolved range: first and last index, negative ones counted from the end of the string.
#[derive(Clone, Copy)]
struct Stretch {
    start: i64,
    /// The last index; without one, the range extends to the end of the string.
    end: Option<i64>,
    unit: Unit,
}

impl Stretch {
    const WHOLE: Stretch = Stretch { start: 0, end: None, unit: Unit::Byte };

    /// Parses `[start [end [BYTE|BIT]]]`.
    fn read(args: &mut Args<'_>) -> Result<Self> {
        match args.left() {
            0 => Ok(Stretch::WHOLE),
            1 => Ok(Stretch { start: args.int()?, ..Stretch::WHOLE }),
            2 | 3 => {
                // As in Redis, the unit, which comes last, is checked before the end.
                let (start, end) = (args.int()?, args.bytes()?);
                let unit = Unit::read(args.next_arg())?;
                let end = parse_int(end).ok_or(Error::NotInteger)?;
                Ok(Stretch { start, end: Some(end), unit })
            }
            _ => Err(Error::Syntax),
        }
    }

    /// Returns true if both indexes count from the end and the last lies before the first: the range is empty then,
    /// even if both would be clamped to the first byte.
    fn is_reversed(self) -> bool {
        self.start < 0 && self.end.is_some_and(|end| end < 0 && self.start > end)
    }

    /// Resolves the indexes to a range of bits in a string of `len` bytes.
    fn resolve(self, len: usize) -> Range<u64> {
        let (total, bits) = match self.unit {
            Unit::Byte => (len as i64, 8),
            Unit::Bit => (len as i64 * 8, 1),
        };
        let resolve = |index: i64| if index < 0 { (total + index).max(0) } else { index };
        let (start, end) = (resolve(self.start), resolve(self.end.unwrap_or(-1)).min(total - 1));
        if start > end { 0..0 } else { start as u64 * bits..(end as u64 + 1) * bits }
    }
}

#[derive(Clone, Copy)]
enum Unit {
    Byte,
    Bit,
}

impl Unit {
    fn read(word: Option<&[u8]>) -> Result<Self> {
        match word {
            None => Ok(Unit::Byte),
            Some(word) if is_word(word, "BYTE") => Ok(Unit::Byte),
            Some(word) if is_word(word, "BIT") => Ok(Unit::Bit),
            Some(_) => Err(Error::Syntax),
        }
    }
}

/// Returns true if the operation of a request is supported by servers before Redis 8.2.
fn has_old_operation(request: Request<'_>) -> bool {
    ["AND", "OR", "XOR", "NOT"].iter().any(|name| is_word(request.arg(1), name))
}

fn bitop(call: &mut Call<'_>) -> Result<()> {
    let operator = Operator::read(call.args.bytes()?)?;
    let target = call.args.key()?;
    operator.check_count(call.args.left())?;
    let mut combination = Combination::new(operator);
    while call.args.left() > 0 {
        let key = call.args.key()?;
        combination.add(call.view.get::<Str>(key, Lookup::READ)?.unwrap_or(Str::Inline(b"")));
    }
    // The combination shares no string any more when the target, which may be one of them, is replaced and freed.
    let result = combination.finish();
    call.reply.int(result.len() as i64);
    if result.is_empty() {
        call.view.discard(target);
    } else {
        call.view.set_bytes(target, result.into(), Ttl::Clear, SET);
    }
    Ok(())
}
