//! Writes commands as clients send them: arrays of bulk strings.

use crate::text::{DIGITS_MAX, put_digits};

/// The most bytes that a bulk string has besides its text.
const HEADER_MAX: usize = 1 + DIGITS_MAX + 2 + 2;

/// Appends a command.
pub(crate) fn write_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    write_words(out, args.len(), args);
}

/// Appends the header of a command with `count` arguments, and the first of these.
pub(crate) fn write_words(out: &mut Vec<u8>, count: usize, first: &[&[u8]]) {
    begin_command(out, count);
    first.iter().for_each(|text| write_word(out, text));
}

/// Appends the command that selects a database.
pub(crate) fn write_select(out: &mut Vec<u8>, db: usize) {
    write_command(out, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
}

/// Appends the header of a command with `count` arguments.
#[inline]
pub(crate) fn begin_command(out: &mut Vec<u8>, count: usize) {
    write_header(b'*', count as u64, |header| out.extend_from_slice(header));
}

/// Appends a word of a command.
#[inline]
pub(crate) fn write_word(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + HEADER_MAX);
    begin_word(out, text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header of a word, which precedes its bytes.
#[inline]
pub(crate) fn begin_word(out: &mut Vec<u8>, len: usize) {
    write_header(b'$', len as u64, |header| out.extend_from_slice(header));
}

/// Writes a header line: a type byte and a number. Numbers below 100, the most frequent ones, are copies of constant
/// length: a copy of variable length is a call of memcpy.
#[inline]
pub(super) fn write_header(kind: u8, number: u64, append: impl FnOnce(&[u8])) {
    match number as u8 {
        ones if number < 10 => append(&[kind, b'0' + ones, b'\r', b'\n']),
        two if number < 100 => append(&[kind, b'0' + two / 10, b'0' + two % 10, b'\r', b'\n']),
        _ => write_long_header(kind, number, append),
    }
}

/// Writes the same line as [`write_header`] for a number of any length, by one copy.
#[inline(never)] // keeps the path of short numbers short
fn write_long_header(kind: u8, number: u64, append: impl FnOnce(&[u8])) {
    let mut line = [b'\n'; 1 + DIGITS_MAX + 2];
    let end = line.len() - 2;
    line[end] = b'\r';
    let start = put_digits(&mut line, end, number) - 1;
    line[start] = kind;
    append(&line[start..]);
}
