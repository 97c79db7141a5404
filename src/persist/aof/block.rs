//! Blocks: commands of an append-only file with a header, so that damage is found.
//!
//! A *block* is the commands that are written at once. Before it there is a header line that every Redis since version
//! 7 skips, like all lines between commands that begin with `#`:
//!
//! ```text
//! #HDR:v1;off:<n>;len:<n>;boot:<id>;at:<wall ms>,<ms since boot>;fence:<n>;sync:<n>;checksum:<16 hexadecimal digits>;\r\n
//! ```
//!
//! | field | content |
//! |---|---|
//! | `off` | the log position at which the block begins |
//! | `len` | the length of the commands, in bytes |
//! | `boot` | the system's number of the boot in which the block was written; `-` if there is none |
//! | `at` | the time of the write, by the wall clock and since that boot |
//! | `fence` | the last fencing token of a lock by then, so that the next token is larger whatever the clock shows |
//! | `end` | the log position behind the block, if it is not `off` + `len`, because the block has a SELECT that the log does not have there |
//! | `repl` | the replication ID of the data, if other servers may have the same data |
//! | `sync` | the number of bytes of this file that were known to be durable when the block was written |
//! | `checksum` | the CRC-64 of Redis over all bytes of the file before this line, without the digits of checksums and the `;\r\n` behind them, then this line up to `checksum:`, then the block |
//!
//! The checksum continues from block to block: a missing, duplicate or misplaced block is found, and so is a change of a
//! header, of a `#TS:` line, or of commands that Redis has appended in between. `sync` separates data that a power cut
//! may have lost from data that it cannot have lost. Further fields may come before the checksum; readers ignore unknown
//! ones.

use crate::rdb::checksum;

/// Start of a header.
pub(super) const HEADER_START: &[u8] = b"#HDR:v1;";
/// Last field name of a header, before the checksum.
pub(super) const CHECKSUM_FIELD: &[u8] = b"checksum:";
/// Largest length of an annotation, as in Redis, with its line end.
pub(super) const ANNOTATION_MAX: usize = 1024;
/// Stand-in for the number of a boot without one.
pub(crate) const NO_BOOT: &str = "-";
/// Largest length of the number of a boot.
const BOOT_MAX: usize = 64;

/// ID of a history of the data (replication ID), in hexadecimal digits.
pub(crate) type HistoryId = [u8; 40];

/// Timestamp of a block by two clocks, with the last fencing token and the history of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockStamp {
    /// Milliseconds since 1970, by the wall clock.
    pub(crate) wall_ms: i64,
    /// Milliseconds since the system was booted; they never decrease, whatever is done to the wall clock.
    pub(crate) boot_ms: u64,
    /// The last fencing token of a lock at that time.
    pub(crate) fence: i64,
    /// The history of the data, if other servers may have the same data.
    pub(crate) history: Option<HistoryId>,
}

/// A checksum that continues from block to block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunningChecksum(u64);

impl RunningChecksum {
    /// Continues from the checksum in a header.
    pub(super) fn from_value(value: u64) -> Self {
        RunningChecksum(value)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0 = checksum::continued(self.0, bytes);
    }

    /// Returns the checksum of all bytes added.
    pub(super) fn value(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The position in the log at which the block begins.
    pub(crate) position: u64,
    /// The length of the commands.
    pub(crate) len: u64,
    /// The position in the log behind the block.
    pub(crate) end: u64,
    /// The boot of the system in which the block was written.
    pub(crate) boot: String,
    /// Time of the write.
    pub(crate) at: BlockStamp,
    /// Number of bytes of the file known to be durable when the block was written.
    pub(crate) synced: u64,
}

/// A header that was read, with the checksum and the number of bytes needed to check it.
#[derive(Debug)]
pub(super) struct ReadHeader {
    pub(super) header: Header,
    pub(super) checksum: u64,
    /// Number of bytes of the line that the checksum covers.
    pub(super) covered: usize,
}

impl Header {
    /// Formats the part that the checksum covers.
    fn covered(&self) -> String {
        let Header { position, len, end, boot, at, synced } = self;
        let BlockStamp { wall_ms, boot_ms, fence, history } = at;
        let end = if *end == position.wrapping_add(*len) { String::new() } else { format!("end:{end};") };
        let history = history.map_or(String::new(), |id| format!("repl:{};", id.escape_ascii()));
        format!(
            "#HDR:v1;off:{position};len:{len};{end}boot:{boot};at:{wall_ms},{boot_ms};fence:{fence};{history}sync:{synced};\
             checksum:"
        )
    }

    /// Formats the header line of a block, and adds both to the checksum.
    pub(super) fn write<'a>(&self, block: impl IntoIterator<Item = &'a [u8]>, sum: &mut RunningChecksum) -> Vec<u8> {
        let mut line = self.covered().into_bytes();
        sum.add(&line);
        block.into_iter().for_each(|bytes| sum.add(bytes));
        line.extend_from_slice(format!("{:016x};\r\n", sum.value()).as_bytes());
        line
    }
}

/// Parses a header line without its line end; `None` if it is damaged.
pub(super) fn parse_header(line: &[u8]) -> Option<ReadHeader> {
    let covered = line.len().checked_sub(b"0123456789abcdef;".len())?;
    let (fields, digits) = (line[..covered].strip_suffix(CHECKSUM_FIELD)?, line[covered..].strip_suffix(b";")?);
    let fields = std::str::from_utf8(fields.strip_prefix(HEADER_START)?).ok()?;
    let checksum = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let (mut position, mut len, mut boot, mut at, mut synced, mut fence) = (None, None, None, None, 0, 0);
    let (mut end, mut history) = (None, None);
    for field in fields.split_terminator(';') {
        let (name, value) = field.split_once(':')?;
        match name {
            "off" => position = Some(value.parse().ok()?),
            "len" => len = Some(value.parse().ok()?),
            "boot" => boot = Some(value.to_owned()),
            "at" => {
                let (wall_ms, boot_ms) = value.split_once(',')?;
                let (wall_ms, boot_ms) = (wall_ms.parse().ok()?, boot_ms.parse().ok()?);
                at = Some(BlockStamp { wall_ms, boot_ms, ..BlockStamp::default() });
            }
            "fence" => fence = value.parse().ok()?,
            "sync" => synced = value.parse().ok()?,
            "end" => end = Some(value.parse().ok()?),
            "repl" => history = Some(value.as_bytes().try_into().ok()?),
            _ => {}
        }
    }
    let (position, len): (u64, u64) = (position?, len?);
    let end = end.unwrap_or(position.wrapping_add(len));
    let header = Header { position, len, end, boot: boot?, at: BlockStamp { fence, history, ..at? }, synced };
    Some(ReadHeader { header, checksum, covered })
}

/// Returns the number of a boot in the form that a header can contain.
pub(super) fn boot_field(id: &str) -> String {
    let id: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(BOOT_MAX).collect();
    if id.is_empty() { NO_BOOT.to_owned() } else { id }
}

/// Formats the timestamp line before a block, as Redis does.
pub(super) fn timestamp(wall_ms: i64) -> Vec<u8> {
    format!("#TS:{}\r\n", wall_ms.div_euclid(1000)).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let at = BlockStamp { wall_ms: 1_700_000_000_123, boot_ms: 55_000, fence: 9, history: None };
        Header { position: 1234, len: 9, end: 1243, boot: boot_field("0f9b;\n5f0e-7d5e"), at, synced: 17 }
    }

    #[test]
    fn a_checksum_that_runs_on_is_that_of_all_bytes() {
        let mut sum = RunningChecksum::default();
        [&b"1234"[..], b"", b"56789"].iter().for_each(|bytes| sum.add(bytes));
        assert_eq!(sum.value(), 0xe9c6_d914_c4b8_d9ca);
        let mut resumed = RunningChecksum::from_value(0xe9c6_d914_c4b8_d9ca);
        [&mut sum, &mut resumed].into_iter().for_each(|sum| sum.add(b"abc"));
        assert_eq!(sum, resumed);
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut sum = RunningChecksum::default();
        let line = header().write([&b"12345"[..], b"6789"], &mut sum);
        let text = String::from_utf8(line).expect("text");
        let start = "#HDR:v1;off:1234;len:9;boot:0f9b5f0e-7d5e;at:1700000000123,55000;fence:9;sync:17;checksum:";
        assert_eq!(text, format!("{start}{:016x};\r\n", sum.value()));
        let read = parse_header(text.trim_end().as_bytes()).expect("a header");
        assert_eq!((read.header, read.checksum, read.covered), (header(), sum.value(), start.len()));
        let mut expected = RunningChecksum::default();
        expected.add(format!("{start}123456789").as_bytes());
        assert_eq!(sum, expected);
    }

    #[test]
    fn unknown_fields_are_ignored_and_damaged_headers_refused() {
        let parse = |line: &str| parse_header(line.as_bytes());
        let rest = "off:1;len:2;boot:-;at:-3,4;";
        let read = parse(&format!("#HDR:v1;new:5;{rest}checksum:00000000000000ff;")).expect("a header");
        assert_eq!((read.header.at.wall_ms, read.header.synced, read.checksum), (-3, 0, 255));
        for line in [
            "",
            "#HDR:v1;",
            "#HDR:v1;checksum:00000000000000ff;",
            "#HDR:v1;off:1;len:2;boot:-;at:3,4;checksum:00000000000000ff",
            "#HDR:v1;off:1;len:2;boot:-;at:3,4;checksum:0000000000000xff;",
            "#HDR:v1;off:1;len:-2;boot:-;at:3,4;checksum:00000000000000ff;",
            "#HDR:v1;off:1;len:2;boot:-;at:3;checksum:00000000000000ff;",
            "#HDR:v1;off:1;len:99999999999999999999;boot:-;at:3,4;checksum:00000000000000ff;",
            "#HDR:v1;off:1;len:2;at:3,4;checksum:00000000000000ff;",
            "#HDR:v1;off:1;len;boot:-;at:3,4;checksum:00000000000000ff;",
        ] {
            assert!(parse(line).is_none(), "{line}");
        }
        assert!(parse_header(b"#HDR:v1;off:1;boot:\xff;len:2;at:3,4;checksum:00000000000000ff;").is_none());
    }

    #[test]
    fn the_number_of_a_boot_fits_a_header() {
        assert_eq!(boot_field(" ;:\n"), "-");
        assert_eq!(boot_field(&"a".repeat(1000)).len(), BOOT_MAX);
        let longest =
            Header { position: u64::MAX, len: u64::MAX, boot: "a".repeat(BOOT_MAX), synced: u64::MAX, ..header() };
        assert!(longest.write([], &mut RunningChecksum::default()).len() < ANNOTATION_MAX / 2);
        assert_eq!(timestamp(1_700_000_000_999), b"#TS:1700000000\r\n");
    }
}
