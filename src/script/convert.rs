//! Conversion between replies and Lua values.
//!
//! A reply becomes numbers, strings, booleans and tables: arrays become tables with indexes from 1, other types tables
//! with one field that names the type (`ok`, `err`, `double`, `map`, `set`, `big_number`, `verbatim_string`). A value
//! that a script returns is converted the same way back.

use bytes::Bytes;
use keylatch_lua::{ITEM_INSTRUCTIONS, Kind, Raised};

use crate::resp::{self, Protocol, Reply, parse_int};
use crate::script::arguments::truncate;
use crate::script::raise::push_counted_error;
use crate::script::shared::{VmStack, stored};
use crate::text::until_nul;

/// The depth to which tables in a reply may be nested. Redis allows as many levels as fit on Lua's stack, about eight
/// thousand.
const DEPTH_MAX: usize = 1000;

/// The maximum size of a script's reply, in bytes. A table may occur many times in a reply, so that a small value could
/// become an endless reply.
const REPLY_MAX: usize = 1 << 30;
/// The minimum size counted for a value or table, in bytes: about its memory in the interpreter.
const VALUE_LEN: usize = 16;
const TABLE_LEN: usize = 128;
/// The stack slots that a value takes while it is converted, without those of nested values.
const SLOTS: usize = 5;
/// The bytes of a string that are written in the time of an instruction.
const BYTES_PER_INSTRUCTION: usize = 32;
/// The fields that a table may get from a reply: more than fit into memory, and fewer than Lua refuses.
const FIELDS_MAX: usize = 1 << 25;

/// Pushes the value of a reply, given as its bytes.
///
/// # Errors
/// The reply is nested deeper than the stack allows, or has too many fields.
pub(super) fn push_reply(frame: &mut VmStack<'_>, reply: &[u8]) -> Result<(), Raised> {
    ReplyReader { frame, rest: reply }.value()
}

/// Pushes a status reply.
pub(super) fn push_status(frame: &mut VmStack<'_>, text: &[u8]) {
    frame.push_table(0, 1);
    let table = frame.top();
    frame.push_stored(stored::OK);
    frame.push_bytes(text);
    frame.set(table);
}

struct ReplyReader<'f, 'l, 'r> {
    frame: &'f mut VmStack<'l>,
    rest: &'r [u8],
}

impl<'r> ReplyReader<'_, '_, 'r> {
    fn value(&mut self) -> Result<(), Raised> {
        self.frame.reserve(SLOTS)?;
        let (kind, line) = self.line();
        match kind {
            b':' => self.frame.push_number(parse_int(line).unwrap_or_default() as f64),
            b'$' if line == b"-1" => self.frame.push_boolean(false),
            b'$' => {
                let string = self.take(length(line));
                self.frame.push_bytes(string);
            }
            b'+' => push_status(self.frame, line),
            b'-' => push_counted_error(self.frame, &[b"-", line].concat()),
            b'*' if line == b"-1" => self.frame.push_boolean(false),
            b'*' | b'>' => self.array(length(line))?,
            b'%' => self.map(length(line))?,
            b'~' => self.set(length(line))?,
            b'#' => self.frame.push_boolean(line == b"t"),
            b',' => self.tagged("double", |frame| frame.push_number(double(line))),
            b'(' => self.tagged("big_number", |frame| frame.push_bytes(line)),
            b'=' => self.verbatim(length(line)),
            b'|' => self.behind_attribute(length(line))?,
            _ => self.frame.push_nil(),
        }
        Ok(())
    }

    /// Takes the rest of a line: its type byte, and the text.
    fn line(&mut self) -> (u8, &'r [u8]) {
        let end = memchr::memchr(b'\r', self.rest).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((0, line), |(kind, line)| (*kind, line))
    }

    /// Takes a string and its line end.
    fn take(&mut self, len: usize) -> &'r [u8] {
        let (string, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest.get(2..).unwrap_or_default();
        string
    }

    /// Pushes a table with one field, whose value `push` pushes.
    fn tagged(&mut self, tag: &str, push: impl FnOnce(&mut VmStack<'_>)) {
        self.frame.push_table(0, 1);
        let table = self.frame.top();
        push(self.frame);
        self.frame.set_field(table, tag);
    }

    fn array(&mut self, len: usize) -> Result<(), Raised> {
        self.frame.push_table(len, 0);
        let table = self.frame.top();
        for index in 1..=len {
            self.frame.work(ITEM_INSTRUCTIONS)?;
            self.value()?;
            self.frame.set_item(table, index as i32);
        }
        Ok(())
    }

    /// Skips an attribute, which is not visible to scripts, and pushes the value behind it.
    fn behind_attribute(&mut self, len: usize) -> Result<(), Raised> {
        for _ in 0..len * 2 {
            self.value()?;
            self.frame.pop();
        }
        self.value()
    }

    /// Pushes a map. The table grows as in Redis, because the order of iteration in a script depends on that.
    fn map(&mut self, len: usize) -> Result<(), Raised> {
        self.fields("map", len, ReplyReader::value)
    }

    /// Pushes a set, whose table grows as that of a map.
    fn set(&mut self, len: usize) -> Result<(), Raised> {
        self.fields("set", len, |reader| {
            reader.frame.push_boolean(true);
            Ok(())
        })
    }

    fn fields(&mut self, tag: &str, len: usize, value: fn(&mut Self) -> Result<(), Raised>) -> Result<(), Raised> {
        if len > FIELDS_MAX {
            return Err(self.frame.plain_error("too many fields in a reply"));
        }
        self.frame.push_table(0, 1);
        self.frame.push_table(0, 0);
        let table = self.frame.top();
        for _ in 0..len {
            self.frame.work(ITEM_INSTRUCTIONS)?;
            self.value()?;
            value(self)?;
            self.frame.set(table);
        }
        self.frame.set_field(table - 1, tag);
        Ok(())
    }

    fn verbatim(&mut self, len: usize) {
        let whole = self.take(len);
        let (format, text) = whole.split_at(whole.len().min(3));
        self.tagged("verbatim_string", |frame| {
            frame.push_table(0, 2);
            let table = frame.top();
            frame.push_bytes(text.get(1..).unwrap_or_default());
            frame.set_field(table, "string");
            frame.push_bytes(format);
            frame.set_field(table, "format");
        });
    }
}

fn length(digits: &[u8]) -> usize {
    parse_int(digits).and_then(|len| usize::try_from(len).ok()).unwrap_or_default()
}

fn double(digits: &[u8]) -> f64 {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}

/// The result of writing a script's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WrittenValue {
    /// A reply.
    Done,
    /// An error that is already counted.
    CountedError,
    /// An error line that is not yet counted.
    Error(Vec<u8>),
}

/// The reason why a reply was not written, or only in part.
pub(super) enum ReplyWriteError {
    /// The reply would be too large.
    TooLarge,
    /// The output buffer of the client exceeds its limit: the client is closed.
    Unwanted,
    /// The script must end. The error is on the top.
    Ended,
}

impl From<Raised> for ReplyWriteError {
    fn from(_: Raised) -> Self {
        ReplyWriteError::Ended
    }
}

/// Writes the value on the top, returned by a script, as a reply; its conversion counts as work of the script.
///
/// # Errors
/// The reason why it was not written.
pub(super) fn write_reply(
    frame: &mut VmStack<'_>,
    script: Protocol,
    reply: &mut Reply<'_>,
) -> Result<WrittenValue, ReplyWriteError> {
    let mut writer = ReplyWriter { frame, script, reply, written: WrittenValue::Done, size: 0 };
    writer.value(0)?;
    Ok(writer.written)
}

struct ReplyWriter<'w, 'l, 'r> {
    frame: &'w mut VmStack<'l>,
    script: Protocol,
    reply: &'w mut Reply<'r>,
    written: WrittenValue,
    /// The size of the reply so far, see [`REPLY_MAX`].
    size: usize,
}

impl ReplyWriter<'_, '_, '_> {
    /// Writes the value on the top, which stays there.
    fn value(&mut self, depth: usize) -> Result<(), ReplyWriteError> {
        let at = self.frame.top();
        let kind = self.frame.kind(at);
        self.frame.work(ITEM_INSTRUCTIONS)?;
        self.size += if kind == Kind::Table { TABLE_LEN } else { VALUE_LEN };
        match kind {
            Kind::String => {
                let bytes = self.frame.bytes(at).unwrap_or_default();
                let len = bytes.len();
                self.size += len;
                if self.size <= REPLY_MAX {
                    self.reply.bulk(bytes);
                }
                self.frame.work(len / BYTES_PER_INSTRUCTION)?;
            }
            Kind::Number => self.reply.int(truncate(self.frame.raw_number(at))),
            Kind::Boolean => match (self.script, self.frame.truth(at)) {
                (Protocol::Resp3, truth) => self.reply.bool(truth),
                (Protocol::Resp2, true) => self.reply.int(1),
                (Protocol::Resp2, false) => self.reply.null(),
            },
            Kind::Table if depth >= DEPTH_MAX => self.reply.error(b"ERR reached lua stack limit"),
            Kind::Table => self.table(at, depth)?,
            _ => self.reply.null(),
        }
        match self.size {
            _ if self.reply.is_over() => Err(ReplyWriteError::Unwanted),
            ..=REPLY_MAX => Ok(()),
            _ => Err(ReplyWriteError::TooLarge),
        }
    }

    /// Pushes a field of a table; returns true if it has the type `kind`, and pops it otherwise.
    fn has(&mut self, table: usize, name: i32, kind: Kind) -> bool {
        self.frame.push_stored(name);
        self.frame.get(table);
        let is_so = self.frame.kind(self.frame.top()) == kind;
        if !is_so {
            self.frame.pop();
        }
        is_so
    }

    /// Returns the bytes of the string on the top.
    fn text(&self) -> &[u8] {
        self.frame.bytes(self.frame.top()).unwrap_or_default()
    }

    /// Writes a table by the first of its special fields, or else as an array.
    fn table(&mut self, table: usize, depth: usize) -> Result<(), ReplyWriteError> {
        if let Err(raised) = self.frame.reserve(SLOTS) {
            drop(raised);
            self.frame.set_top(table);
            self.reply.error(b"ERR reached lua stack limit");
            return Ok(());
        }
        if self.has(table, stored::ERR, Kind::String) {
            self.error(table);
        } else if self.has(table, stored::OK, Kind::String) {
            let text = Bytes::copy_from_slice(until_nul(self.text()));
            resp::Frame::Simple(text).write(self.reply);
        } else if self.has(table, stored::DOUBLE, Kind::Number) {
            self.reply.double(self.frame.raw_number(table + 1));
        } else if self.has(table, stored::BIG_NUMBER, Kind::String) {
            let is_line_end = |byte: u8| matches!(byte, b'\r' | b'\n');
            let digits = self.text().iter().map(|&byte| if is_line_end(byte) { b' ' } else { byte }).collect();
            resp::Frame::BigNumber(digits).write(self.reply);
        } else if self.has(table, stored::VERBATIM, Kind::Table) && self.verbatim(table + 1) {
        } else if self.has(table, stored::MAP, Kind::Table) {
            self.pairs(table + 1, depth, true)?;
        } else if self.has(table, stored::SET, Kind::Table) {
            self.pairs(table + 1, depth, false)?;
        } else {
            self.array(table, depth)?;
        }
        self.frame.set_top(table);
        Ok(())
    }

    fn error(&mut self, table: usize) {
        let line = until_nul(self.text()).to_vec();
        self.reply.error(&line);
        self.written = if self.has(table, stored::COUNTED, Kind::Boolean) && self.frame.truth(self.frame.top()) {
            WrittenValue::CountedError
        } else {
            WrittenValue::Error(line)
        };
    }

    /// Writes a verbatim string, if the table has its parts; otherwise drops the table.
    fn verbatim(&mut self, parts: usize) -> bool {
        let is_whole = self.has(parts, stored::FORMAT, Kind::String) && self.has(parts, stored::STRING, Kind::String);
        if is_whole {
            let mut kind = *b"   ";
            for (slot, byte) in kind.iter_mut().zip(until_nul(self.frame.bytes(parts + 1).unwrap_or_default())) {
                *slot = *byte;
            }
            let text = Bytes::copy_from_slice(self.text());
            resp::Frame::Verbatim(kind, text).write(self.reply);
        } else {
            self.frame.set_top(parts - 1);
        }
        is_whole
    }

    fn array(&mut self, table: usize, depth: usize) -> Result<(), ReplyWriteError> {
        let mut len = 0;
        loop {
            self.frame.work(ITEM_INSTRUCTIONS)?;
            self.frame.push_item(table, len + 1);
            let is_end = self.frame.kind(table + 1) == Kind::Nil;
            self.frame.pop();
            if is_end {
                break;
            }
            len += 1;
        }
        self.reply.array(len as usize);
        for index in 1..=len {
            self.frame.push_item(table, index);
            self.value(depth + 1)?;
            self.frame.set_top(table);
        }
        Ok(())
    }

    /// Writes a map, or the keys of a table as a set.
    fn pairs(&mut self, table: usize, depth: usize, is_map: bool) -> Result<(), ReplyWriteError> {
        let mut len = 0;
        self.frame.push_nil();
        while self.frame.next(table) {
            self.frame.work(ITEM_INSTRUCTIONS)?;
            self.frame.pop();
            len += 1;
        }
        if is_map {
            self.reply.map(len)
        } else {
            self.reply.set(len)
        }
        self.frame.push_nil();
        while self.frame.next(table) {
            self.frame.push_copy(table + 1);
            self.value(depth + 1)?;
            self.frame.pop();
            if is_map {
                self.value(depth + 1)?;
            }
            self.frame.pop();
        }
        Ok(())
    }
}

/// Formats the error on the top, with which a script ended, for its caller. Also returns true if it is already counted.
pub(super) fn final_error(frame: &mut VmStack<'_>, name: &str) -> (Vec<u8>, bool) {
    let error = frame.top();
    if frame.kind(error) != Kind::Table {
        let text = if frame.to_string(error) { frame.bytes(error).unwrap_or_default() } else { b"execution failure" };
        let text = &text[..text.len().min(100)];
        return ([b"ERR Error running script ", name.as_bytes(), b", ", text].concat(), false);
    }
    let mut field = |name: &str| {
        frame.push_field(error, name);
        let at = frame.top();
        let text = frame.to_string(at).then(|| until_nul(frame.bytes(at).unwrap_or_default()).to_vec());
        frame.set_top(error);
        text
    };
    // Redis crashes on an error without a text.
    let mut line = field("err").unwrap_or_else(|| b"ERR unknown error".to_vec());
    if let (Some(source), Some(number)) = (field("source"), field("line")) {
        line.extend([b" script: ", name.as_bytes(), b", on ", &source, b":", &number, b"."].concat());
    }
    frame.push_stored(stored::COUNTED);
    frame.get(error);
    let is_counted = frame.kind(error + 1) == Kind::Boolean && frame.truth(error + 1);
    frame.set_top(error);
    (line, is_counted)
}
