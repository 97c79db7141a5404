//! The manifest: the list of files of an append-only file, in the form of Redis 7.
//!
//! A line for each file, `file <name> seq <n> type <b|h|i>`: the base, former files that are to be removed (history),
//! and the increments in the order in which they are read. Further pairs may follow; unknown ones are ignored.
//! `startoffset` and `endoffset` are of newer Redis. `basesize` is keylatch's own: the size of the whole when the base
//! was written. The growth that makes a rewrite due is measured from it, so that a restart does not reset the growth.
//! Redis ignores the pair.
//!
//! A damaged manifest can look intact: one flipped bit makes an increment history. So the last line is one that Redis
//! skips, `#checksum:<16 hexadecimal digits>;`, with the CRC-64 of all bytes before it. A manifest without this line is
//! accepted, as Redis writes none; if the line exists, it must be correct and the last one.

use std::fmt::Write as _;

use crate::rdb::checksum;
use crate::text::{quote, split_words};

/// Largest length of a line for Redis, with its line end.
pub(super) const LINE_MAX: usize = 1024;

/// Start of the line with the checksum.
const CHECKSUM_START: &str = "#checksum:";

/// Type of a file in the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartType {
    /// The data at the time when the first increment was begun.
    Base,
    /// A former base or increment that is to be removed.
    History,
    /// Commands.
    Increment,
}

/// A file of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestFile {
    /// File name, without a directory.
    pub(crate) name: String,
    /// Number of the file among those of its type.
    pub(crate) seq: u64,
    pub(crate) kind: PartType,
    /// Offset from which on the file counts.
    pub(crate) start: Option<u64>,
    /// Offset up to which the file counts.
    pub(crate) end: Option<u64>,
    /// For a base, the size of the whole when it was written.
    pub(crate) base_size: Option<u64>,
}

/// The list of files of an append-only file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) base: Option<ManifestFile>,
    /// Files that are to be removed.
    pub(crate) history: Vec<ManifestFile>,
    /// The increments, with rising numbers.
    pub(crate) increments: Vec<ManifestFile>,
}

/// Error of a manifest that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ManifestError {
    /// Line number, from 1 on.
    pub(crate) line: usize,
    /// Reason; in the words of Redis, if Redis refuses the line, too.
    pub(crate) reason: &'static str,
}

/// Keys whose values are read.
const KEYS: [&[u8]; 6] = [b"file", b"seq", b"type", b"startoffset", b"endoffset", b"basesize"];

/// Reason for a malformed line.
const FORMAT: &str = "Invalid AOF manifest file format";
/// Reason for a checksum that is wrong, or not at the end.
const CHECKSUM: &str = "the manifest is damaged, or was edited: its checksum is wrong. Restore it from a backup; if it \
was edited on purpose, remove the line that begins with #checksum";

impl ManifestFile {
    /// Creates a part without offsets, all of which counts.
    pub(crate) fn new(name: String, seq: u64, kind: PartType) -> Self {
        ManifestFile { name, seq, kind, start: None, end: None, base_size: None }
    }

    fn parse(line: &[u8]) -> Result<Self, &'static str> {
        let words = split_words(line).filter(|words| words.len() >= 6 && words.len() % 2 == 0).ok_or(FORMAT)?;
        let (mut name, mut seq, mut kind) = (None, None, None);
        let (mut start, mut end, mut base_size) = (None, None, None);
        let keys = words.iter().step_by(2).map(|key| key.to_ascii_lowercase());
        let keys: Vec<Vec<u8>> = keys.filter(|key| KEYS.contains(&&key[..])).collect();
        // Two lines with a damaged line end between them would look like one, and a file would be missing from the
        // data.
        if (1..keys.len()).any(|at| keys[..at].contains(&keys[at])) || line.iter().any(is_no_text) {
            return Err(FORMAT);
        }
        for pair in words.chunks_exact(2) {
            let number = || std::str::from_utf8(&pair[1]).ok()?.parse::<u64>().ok();
            match &*pair[0].to_ascii_lowercase() {
                b"file" => name = Some(parse_name(&pair[1])?),
                b"seq" => seq = number().filter(|seq| *seq > 0),
                b"type" => kind = Some(parse_type(&pair[1])?),
                b"startoffset" => start = Some(number().ok_or(FORMAT)?),
                b"endoffset" => end = Some(number().ok_or(FORMAT)?),
                b"basesize" => base_size = Some(number().ok_or(FORMAT)?),
                _ => {}
            }
        }
        let (name, seq, kind) = name.zip(seq).zip(kind).map(|((name, seq), kind)| (name, seq, kind)).ok_or(FORMAT)?;
        Ok(ManifestFile { name, seq, kind, start, end, base_size })
    }

    fn write(&self, text: &mut String) {
        let kind = match self.kind {
            PartType::Base => 'b',
            PartType::History => 'h',
            PartType::Increment => 'i',
        };
        let name = if needs_quotes(&self.name) { quote(self.name.as_bytes()) } else { self.name.clone() };
        _ = write!(text, "file {name} seq {} type {kind}", self.seq); // a string takes everything
        let pairs = [("startoffset", self.start), ("endoffset", self.end), ("basesize", self.base_size)];
        for (key, value) in pairs {
            if let Some(value) = value {
                _ = write!(text, " {key} {value}");
            }
        }
        text.push('\n');
    }
}

fn is_no_text(byte: &u8) -> bool {
    byte.is_ascii_control() && *byte != b'\t'
}

fn parse_name(word: &[u8]) -> Result<String, &'static str> {
    match String::from_utf8(word.to_vec()) {
        Ok(name) if name.contains('/') || matches!(&*name, "" | "." | "..") => {
            Err("File can't be a path, just a filename")
        }
        Ok(name) => Ok(name),
        Err(_) => Err(FORMAT),
    }
}

fn parse_type(word: &[u8]) -> Result<PartType, &'static str> {
    match word.first() {
        Some(b'b') => Ok(PartType::Base),
        Some(b'h') => Ok(PartType::History),
        Some(b'i') => Ok(PartType::Increment),
        _ => Err("Unknown AOF file type"),
    }
}

fn needs_quotes(name: &str) -> bool {
    name.bytes().any(|byte| !byte.is_ascii_graphic() || matches!(byte, b'"' | b'\'' | b'\\')) || name.is_empty()
}

/// Returns the line with the checksum of all bytes before it.
fn checksum_line(before: &[u8]) -> String {
    format!("{CHECKSUM_START}{:016x};\n", checksum::of(before))
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// The first line that is refused, with the reason.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Manifest::default();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let (mut count, mut offset) = (0, 0);
        for (line, number) in lines.zip(1..) {
            let (before, rest) = text.split_at(offset);
            let is_wrong = line.starts_with(CHECKSUM_START.as_bytes()) && *rest != *checksum_line(before).as_bytes();
            let parsed = if is_wrong { Err(CHECKSUM) } else { manifest.parse_line(line) };
            parsed.map_err(|reason| ManifestError { line: number, reason })?;
            (count, offset) = (number, offset + line.len());
        }
        if manifest == Manifest::default() {
            Err(ManifestError { line: count, reason: "Found an empty AOF manifest" })
        } else {
            Ok(manifest)
        }
    }

    fn parse_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        if line.starts_with(b"#") && line.len() <= LINE_MAX {
            return Ok(());
        }
        if line.len() > LINE_MAX || !line.ends_with(b"\n") {
            return Err("The AOF manifest file contains too long line");
        }
        let part = ManifestFile::parse(line.trim_ascii())?;
        match part.kind {
            PartType::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            PartType::Base => self.base = Some(part),
            PartType::History => self.history.push(part),
            PartType::Increment if self.increments.last().is_some_and(|last| part.seq <= last.seq) => {
                return Err("Found a non-monotonic sequence number");
            }
            PartType::Increment => self.increments.push(part),
        }
        Ok(())
    }

    /// Formats the manifest, with its checksum if `has_checksum` is set.
    pub(crate) fn to_text(&self, has_checksum: bool) -> String {
        let mut text = String::new();
        self.parts().for_each(|part| part.write(&mut text));
        if has_checksum {
            text.push_str(&checksum_line(text.as_bytes()));
        }
        text
    }

    /// Returns all files: the base, history, the increments.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &ManifestFile> {
        self.base.iter().chain(&self.history).chain(&self.increments)
    }

    /// Returns the manifest after a rewrite: with another base, the increments from a number on, and the rest as
    /// history.
    pub(crate) fn with_base(&self, base: ManifestFile, first_increment: u64) -> Manifest {
        let (old, increments): (Vec<ManifestFile>, Vec<ManifestFile>) =
            self.increments.iter().cloned().partition(|part| part.seq < first_increment);
        let old = self.base.iter().cloned().chain(old);
        let history =
            self.history.iter().cloned().chain(old.map(|part| ManifestFile { kind: PartType::History, ..part }));
        Manifest { base: Some(base), history: history.collect(), increments }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, (usize, &'static str)> {
        Manifest::parse(text.as_bytes()).map_err(|error| (error.line, error.reason))
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let text = "file appendonly.aof.2.base.rdb seq 2 type b basesize 88\n\
                    file appendonly.aof.1.base.rdb seq 1 type h\n\
                    file \"a\\x20file\\\"\" seq 4 type i startoffset 0 endoffset 77\n\
                    file appendonly.aof.5.incr.aof seq 5 type i\n";
        let manifest = parse(text).expect("a manifest");
        assert_eq!(manifest.increments[0].name, "a file\"");
        assert_eq!((manifest.increments[0].start, manifest.increments[0].end), (Some(0), Some(77)));
        assert_eq!(manifest.base.as_ref().and_then(|base| base.base_size), Some(88));
        for has_checksum in [false, true] {
            assert_eq!(parse(&manifest.to_text(has_checksum)), Ok(manifest.clone()));
        }
        assert_eq!(manifest.to_text(false), text.replace("\\x20", " "));
    }

    /// Returns a manifest with files of all types, and its text.
    fn summed() -> (Manifest, String) {
        let lines =
            "file b.2 seq 2 type b basesize 88\nfile b.1 seq 1 type h\nfile i.4 seq 4 type i\nfile i.5 seq 5 type i\n";
        let manifest = parse(lines).expect("a manifest");
        let text = manifest.to_text(true);
        (manifest, text)
    }

    #[test]
    fn a_bit_that_flips_is_found_or_changes_nothing() {
        let (manifest, text) = summed();
        assert_eq!(parse(&text), Ok(manifest.clone()));
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = Manifest::parse(&flipped) {
                assert_eq!(read, manifest, "bit {bit}: {}", flipped.escape_ascii());
            }
        }
        // The most important flip.
        assert_eq!(parse(&text.replace("seq 5 type i", "seq 5 type h")), Err((5, CHECKSUM)));
    }

    #[test]
    fn whatever_a_manifest_lacks_or_has_behind_its_checksum_is_found() {
        let (_, text) = summed();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for missing in 0..lines.len() - 1 {
            let others = lines.iter().enumerate().filter(|(number, _)| *number != missing);
            let left: String = others.map(|(_, line)| *line).collect();
            assert_eq!(parse(&left), Err((lines.len() - 1, CHECKSUM)), "line {missing}");
        }
        for behind in ["\n", "#\n", "file i.6 seq 6 type i\n", lines[4]] {
            assert_eq!(parse(&format!("{text}{behind}")), Err((5, CHECKSUM)), "{behind:?}");
        }
        let first = text.len() - lines[4].len();
        for end in first + CHECKSUM_START.len()..text.len() {
            assert_eq!(parse(&text[..end]), Err((5, CHECKSUM)), "{end} bytes");
        }
    }

    #[test]
    fn comments_and_unknown_pairs_are_ignored() {
        let text = "# a comment\nSEQ 3 File 'x' unknown 5 TYPE incr\r\n#\n";
        let manifest = parse(text).expect("a manifest");
        assert_eq!(manifest.increments, [ManifestFile::new("x".to_owned(), 3, PartType::Increment)]);
        assert_eq!(manifest.base, None);
    }

    #[test]
    fn what_redis_refuses_is_refused_with_its_words_and_the_line() {
        let ok = "file x seq 1 type b\n";
        for (text, error) in [
            ("", (0, "Found an empty AOF manifest")),
            ("\n", (1, FORMAT)),
            ("file x seq 1 type\n", (1, FORMAT)),
            ("file x seq 1\n", (1, FORMAT)),
            ("file x seq 0 type b\n", (1, FORMAT)),
            ("file x seq -1 type b\n", (1, FORMAT)),
            ("file 'x seq 1 type b\n", (1, FORMAT)),
            ("seq 1 type b other x\n", (1, FORMAT)),
            (&format!("{ok}file x seq 1 type b\n"), (2, "Found duplicate base file information")),
            ("file x seq 2 type i\nfile y seq 2 type i\n", (2, "Found a non-monotonic sequence number")),
            // Redis accepts these.
            ("# a comment\n", (1, "Found an empty AOF manifest")),
            ("file x seq 1 type b basesize 5 file y seq 2 type i\n", (1, FORMAT)),
            ("file x seq 1 type b basesize 59file y seq 2 type i\n", (1, FORMAT)),
            ("file x seq 1 type b other 5\x0bfile y seq 2 type i\n", (1, FORMAT)),
            ("file x seq 2 type x\n", (1, "Unknown AOF file type")),
            ("file a/x seq 2 type i\n", (1, "File can't be a path, just a filename")),
            ("file .. seq 2 type i\n", (1, "File can't be a path, just a filename")),
            ("file x seq 1 type b", (1, "The AOF manifest file contains too long line")),
            (&format!("file {} seq 1 type b\n", "x".repeat(1024)), (1, "The AOF manifest file contains too long line")),
        ] {
            assert_eq!(parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Manifest::parse(b"file \xff seq 1 type b\n").map_err(|error| error.reason), Err(FORMAT));
    }

    #[test]
    fn a_new_base_makes_history_of_all_before() {
        let manifest = parse("file b1 seq 1 type b\nfile h seq 1 type h\nfile i1 seq 1 type i\nfile i2 seq 2 type i\n");
        let manifest =
            manifest.expect("a manifest").with_base(ManifestFile::new("b2".to_owned(), 2, PartType::Base), 2);
        let expected = "file b2 seq 2 type b\nfile h seq 1 type h\nfile b1 seq 1 type h\nfile i1 seq 1 type h\n\
                        file i2 seq 2 type i\n";
        assert_eq!(manifest.to_text(false), expected);
    }
}
