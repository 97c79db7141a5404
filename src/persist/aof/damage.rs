//! What follows damage in a file: whether its place was durable when something behind it was written.

use std::io::{self, Read};

use memchr::memmem;

use crate::persist::aof::block::{ANNOTATION_MAX, HEADER_START, ReadHeader, Running, parse_header};
use crate::persist::aof::input::Input;

/// How many bytes are searched at a time.
const SEARCHED_LEN: usize = 256 * 1024;

/// What is found behind damage.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct After {
    /// A block with a right checksum says that the damaged place was durable.
    pub(super) was_durable: bool,
    /// There is the header of a block, or the begin of one at the end of the file.
    pub(super) has_headers: bool,
    /// There are only zeros.
    pub(super) is_zeros: bool,
}

/// Looks at all that comes from the damage on. `sum` is the checksum up to there.
///
/// The checksum of a block can be computed from that of the block before, whether that one is damaged or not. So damage in
/// one block leaves only that one and, if its header is gone, the next one without a check. A value of a client that looks
/// like two consecutive blocks counts as such; it can make a torn tail look corrupt, but never hides damage.
pub(super) fn examine(input: &mut Input<impl Read>, sum: Running) -> io::Result<After> {
    let begin = input.offset();
    let mut after = After { is_zeros: true, ..After::default() };
    // The checksum before the next byte, if it is known.
    let mut known = Some(sum);
    loop {
        let bytes = input.fill(SEARCHED_LEN)?;
        let found = memmem::find(bytes, HEADER_START);
        // The begin of a header may lie across two reads.
        let skipped = found.unwrap_or_else(|| bytes.len().saturating_sub(HEADER_START.len() - 1));
        if found.is_none() && (skipped == 0 || bytes.len() as u64 == input.left()) {
            let end = input.take(usize::MAX);
            after.is_zeros &= end.iter().all(|byte| *byte == 0);
            after.has_headers |= input.offset() - begin <= end.len() as u64 && is_header_start(&end);
            return Ok(after);
        }
        let skipped = input.take(skipped);
        after.is_zeros &= skipped.iter().all(|byte| *byte == 0);
        known.iter_mut().for_each(|sum| sum.add(&skipped));
        if found.is_none() {
            continue;
        }
        (after.has_headers, after.is_zeros) = (true, false);
        known = match read_header(input)? {
            Some(read) => {
                let synced = read.header.synced;
                let (is_right, next) = pass_block(input, read, known)?;
                if is_right && synced > begin {
                    return Ok(After { was_durable: true, ..after });
                }
                next
            }
            None => {
                input.take(1);
                None
            }
        };
    }
}

/// Returns whether bytes may be the begin of a header whose rest was not written.
fn is_header_start(bytes: &[u8]) -> bool {
    let len = bytes.len().min(HEADER_START.len());
    len > 0 && bytes[..len] == HEADER_START[..len]
}

/// Reads the header that the input begins with, without taking it; `None` if it is damaged.
fn read_header(input: &mut Input<impl Read>) -> io::Result<Option<ReadHeader>> {
    let bytes = input.fill(ANNOTATION_MAX)?;
    let line = &bytes[..bytes.len().min(ANNOTATION_MAX)];
    let len = line.iter().position(|byte| *byte == b'\n');
    Ok(len.and_then(|len| line[..len].strip_suffix(b"\r")).and_then(parse_header))
}

/// Takes a header, and the block behind it if it seems to be there. Returns whether the checksum is right, by that before
/// it, and what the checksum is behind what was taken.
fn pass_block(
    input: &mut Input<impl Read>,
    read: ReadHeader,
    before: Option<Running>,
) -> io::Result<(bool, Option<Running>)> {
    let line_len = read.covered + b"0123456789abcdef;\r\n".len();
    let left = input.left() - line_len as u64;
    if read.header.len > left {
        input.take(line_len);
        return Ok((false, None));
    }
    let end = line_len + read.header.len as usize;
    let bytes = input.fill(end.saturating_add(1))?;
    let Some(block) = bytes.get(line_len..end) else { return Ok((false, None)) };
    let is_right = before.is_some_and(|mut sum| {
        sum.add(&bytes[..read.covered]);
        sum.add(block);
        sum.value() == read.checksum
    });
    let is_followed = bytes.get(end).is_none_or(|next| matches!(next, b'#' | b'*'));
    let taken = if is_right || is_followed { end } else { line_len };
    input.take(taken);
    Ok((is_right, (taken == end).then(|| Running::from_value(read.checksum))))
}
