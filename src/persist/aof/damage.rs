//! Search behind damage in a file: was the damaged place durable when a later block was written?

use std::io::{self, Read};

use memchr::memmem;

use crate::persist::aof::block::{ANNOTATION_MAX, HEADER_START, ReadHeader, RunningChecksum, parse_header};
use crate::persist::aof::reader::FileInput;

/// Number of bytes that are searched at a time.
const SEARCHED_LEN: usize = 256 * 1024;

/// Results of the search behind damage.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AfterDamage {
    /// True if a block with a correct checksum says that the damaged place was durable.
    pub(super) was_durable: bool,
    /// True if there is the header of a block, or the start of one at the end of the file.
    pub(super) has_headers: bool,
    /// True if there are only zeros.
    pub(super) is_zeros: bool,
    /// True if other bytes follow the last block that has a header: Redis has cut a block and appended to it, or has
    /// appended behind it.
    pub(super) has_more: bool,
}

/// Examines the rest of a file from the damage on. `sum` is the checksum up to there.
///
/// The checksum of a block can be computed from that of the block before, whether that one is damaged or not. So damage
/// in one block leaves only this block and, if its header is gone, the next one unchecked. A value of a client that
/// looks like two consecutive blocks counts as such; it can make a torn tail look corrupt, but never hides damage.
pub(super) fn examine(input: &mut FileInput<impl Read>, sum: RunningChecksum) -> io::Result<AfterDamage> {
    let begin = input.offset();
    let after = AfterDamage { is_zeros: true, ..AfterDamage::default() };
    let mut search = Search { input, after, known: Some(sum) };
    loop {
        search.input.fill(SEARCHED_LEN)?;
        let bytes = search.input.bytes();
        let found = memmem::find(bytes, HEADER_START);
        // The start of a header may lie across two reads.
        let skipped = found.unwrap_or_else(|| bytes.len().saturating_sub(HEADER_START.len() - 1));
        if found.is_none() && (skipped == 0 || bytes.len() as u64 == search.input.left()) {
            search.after.has_headers |= search.input.offset() == begin && is_header_start(bytes);
            search.skip(usize::MAX);
            return Ok(search.after);
        }
        search.skip(skipped);
        if found.is_some() {
            search.after.has_headers = true;
            if search.pass_header()?.is_some_and(|synced| synced > begin) {
                return Ok(AfterDamage { was_durable: true, ..search.after });
            }
        }
    }
}

/// The rest of a file in which headers are searched.
struct Search<'a, R> {
    input: &'a mut FileInput<R>,
    after: AfterDamage,
    /// The checksum before the next byte, if it is known.
    known: Option<RunningChecksum>,
}

impl<R: Read> Search<'_, R> {
    /// Skips bytes that contain no header.
    fn skip(&mut self, count: usize) {
        let bytes = self.input.take(count);
        self.after.is_zeros &= bytes.iter().all(|byte| *byte == 0);
        if let Some(sum) = &mut self.known {
            sum.add(&bytes);
        }
    }

    /// Skips an apparent header, with its block if the block seems to be there. Returns the number of bytes that were
    /// durable by the header, if its checksum is correct after the previous one.
    fn pass_header(&mut self) -> io::Result<Option<u64>> {
        let Some(read) = read_header(self.input)? else {
            self.skip(1);
            self.known = None;
            return Ok(None);
        };
        let line_len = read.covered + b"0123456789abcdef;\r\n".len();
        let end = line_len as u64 + read.header.len.min(u64::MAX / 2);
        let bytes = if end <= self.input.left() { self.input.fill(end as usize + 1)? } else { self.input.bytes() };
        let block = usize::try_from(end).ok().and_then(|end| bytes.get(line_len..end));
        let is_right = block.zip(self.known).is_some_and(|(block, mut sum)| {
            sum.add(&bytes[..read.covered]);
            sum.add(block);
            sum.value() == read.checksum
        });
        let next = block.and_then(|_| bytes.get(end as usize).copied());
        let is_passed = is_right || block.is_some() && next.is_none_or(|next| matches!(next, b'#' | b'*'));
        // Where a header was lost, there are zeros.
        self.after.has_more = next.is_some_and(|next| !matches!(next, b'#' | 0));
        self.after.is_zeros = false;
        self.input.take(if is_passed { end as usize } else { line_len });
        self.known = is_passed.then(|| RunningChecksum::from_value(read.checksum));
        Ok(is_right.then_some(read.header.synced))
    }
}

/// Returns true if bytes may be the start of a header whose rest was not written.
fn is_header_start(bytes: &[u8]) -> bool {
    let len = bytes.len().min(HEADER_START.len());
    len > 0 && bytes[..len] == HEADER_START[..len]
}

/// Reads the header at the start of the input, without taking it; `None` if it is damaged. The start of one header and
/// the end of the next, with an unwritten part between them, are no header.
fn read_header(input: &mut FileInput<impl Read>) -> io::Result<Option<ReadHeader>> {
    let bytes = input.fill(ANNOTATION_MAX)?;
    let line = &bytes[..bytes.len().min(ANNOTATION_MAX)];
    let len = line.iter().position(|byte| matches!(byte, b'\n' | 0)).filter(|len| line[*len] != 0);
    Ok(len.and_then(|len| line[..len].strip_suffix(b"\r")).and_then(parse_header))
}
