//! Reads a file from its source, item by item.
//!
//! Keys are read in place, in the buffer. A key that is not in the buffer as a whole is first measured, see
//! [`grammar`](crate::persist::rdb_file::grammar), and read when it is complete.

use std::io::Read;

#[cfg(feature = "internals")]
use crate::memory::marked::MarkedBytes;
use crate::persist::rdb_file::buffer::Buffer;
use crate::persist::rdb_file::error::{FileDefect, FileError};
use crate::persist::rdb_file::grammar::{Extent, Measure, is_value};
use crate::persist::rdb_file::{
    CHECKSUMS_SINCE, FENCE, Family, HEADER_LEN, LOCK, PRODUCERS, RETIRED_FENCE, RetiredFence, Usage, opcode,
};
#[cfg(feature = "internals")]
use crate::persist::rdb_file::{
    FileOptions, KeyMeta, aux, end, entry as write_entry, header, library, replace_version, resize, retired_fence,
    select,
};
#[cfg(feature = "internals")]
use crate::rdb::checksum::Checksum;
use crate::rdb::module::{self, ModuleId};
use crate::rdb::{Compression, Reader, VERSION_MAX, checksum, kind};
#[cfg(feature = "internals")]
use crate::rdb::{VERSION, compressed};
use crate::resp::parse_int;
use crate::store::Hasher;
use crate::store::entry::Entry;
use crate::store::limits::ValueLimits;
use crate::store::value::Type;
use crate::time::clock::Deadline;
use crate::types;
use crate::types::hash_template::{HashTemplate, HashTemplates};
use crate::types::payload::{self, ValueOptions, ValueTarget};
use crate::types::set_deadlines::{self, MEMBERS};

/// The versions of Valkey whose files are read.
const VALKEY: std::ops::RangeInclusive<u16> = 80..=81;

/// The value of a deadline that means none.
const NEVER_MS: i64 = -1;

/// Options for reading a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOptions<'a> {
    /// The sizes up to which values are packed.
    pub limits: ValueLimits,
    /// The hasher for fields and members of large values.
    pub hasher: &'a Hasher,
    /// True if the checksum is compared.
    pub checks: bool,
}

/// An item of a file.
pub(crate) enum FileItem {
    /// A name and a value about the file.
    Aux { key: Box<[u8]>, value: Box<[u8]> },
    /// The number of the database that the next keys belong to.
    Select(u64),
    /// The number of keys that follow.
    Resize {
        /// The number of keys in the database.
        keys: u64,
        /// The number of keys with a deadline.
        with_ttl: u64,
    },
    /// The code of a library of functions.
    Library(Box<[u8]>),
    /// A key. It may have expired.
    Entry {
        /// The key with its value and its deadline, by the wall clock.
        entry: Entry,
        /// The use of the key.
        usage: Option<Usage>,
        /// The largest fencing token that the key was written with; 0 without one.
        fence: i64,
        /// The state of the lock that the key is, as text.
        lock: Option<Box<[u8]>>,
    },
    /// The fence of a removed key.
    RetiredFence(RetiredFence<Box<[u8]>>),
    /// A key without elements, which cannot be loaded.
    Skipped {
        /// The key.
        key: Box<[u8]>,
    },
    /// The end of the file. Bytes behind it belong to something else, see [`FileReader::into_rest`].
    End {
        /// True if the file has a checksum, and it was compared.
        is_checked: bool,
    },
}

/// A piece that is read at once: an item, or a part of the next one.
enum Piece {
    Item(FileItem),
    ExpiresMs(i64),
    Usage(Usage),
    Fence(i64),
    Lock(Box<[u8]>),
    Producers(Box<[u8]>),
    Template(HashTemplate),
    /// Deadlines of members of the set before.
    Members(Box<[u8]>),
    Key(Entry),
    Nothing,
    /// The end, with the checksum that follows it; 0 without.
    End(u64),
}

/// Attributes of the next key, read before it.
#[derive(Default)]
struct Ahead {
    deadline: Option<Deadline>,
    usage: Option<Usage>,
    fence: i64,
    lock: Option<Box<[u8]>>,
    producers: Option<Box<[u8]>>,
}

pub(crate) struct FileReader<'a, R> {
    buffer: Buffer<R>,
    options: ReadOptions<'a>,
    family: Family,
    version: u16,
    ahead: Ahead,
    templates: HashTemplates,
    /// A set whose members may have deadlines in the records behind it.
    set: Option<FileItem>,
    /// The item behind such a set.
    next: Option<FileItem>,
}

impl<'a, R: Read> FileReader<'a, R> {
    /// Begins to read a file; `len` is its length, if that is known, and bounds every length in it.
    ///
    /// # Errors
    /// The source is not an RDB file, has an unknown version, or cannot be read.
    pub(crate) fn new(source: R, len: Option<u64>, options: ReadOptions<'a>) -> Result<Self, FileError> {
        let mut buffer = Buffer::new(source, len, options.checks);
        let (family, version) = read_header(&mut buffer).map_err(|reason| FileError { offset: 0, reason })?;
        Ok(FileReader {
            buffer,
            options,
            family,
            version,
            ahead: Ahead::default(),
            templates: HashTemplates::default(),
            set: None,
            next: None,
        })
    }

    pub(crate) fn version(&self) -> u16 {
        self.version
    }

    /// Returns the number of bytes of the file that were read.
    pub(crate) fn offset(&self) -> u64 {
        self.buffer.offset()
    }

    /// Returns a reader of everything behind the items that were read.
    pub(crate) fn into_rest(self) -> impl Read + use<R> {
        self.buffer.into_rest()
    }

    /// Reads the next item. Nothing may be read after the end.
    ///
    /// # Errors
    /// The file violates the format or cannot be read; nothing may be read after an error, either.
    pub(crate) fn read(&mut self) -> Result<FileItem, FileError> {
        if let Some(item) = self.next.take() {
            return Ok(item);
        }
        loop {
            let offset = self.buffer.offset();
            let item = self.read_piece().and_then(|piece| self.follow(piece));
            if let Some(item) = item.map_err(|reason| FileError { offset, reason })? {
                return Ok(item);
            }
        }
    }

    /// Returns the item that a piece completes: a set that the piece follows, or the piece itself.
    fn follow(&mut self, piece: Piece) -> Result<Option<FileItem>, FileDefect> {
        let Some(mut set) = self.set.take() else { return self.item_of(piece) };
        if let (Piece::Members(value), FileItem::Entry { entry, .. }) = (&piece, &mut set) {
            let ReadOptions { limits, hasher, .. } = self.options;
            let target = ValueTarget { key: b"", deadline: None, limits, hasher };
            set_deadlines::adopt(entry, value, target).ok_or(FileDefect::Record(opcode::AUX))?;
            self.set = Some(set);
            return Ok(None);
        }
        self.next = self.item_of(piece)?;
        Ok(Some(set))
    }

    /// Reads a piece; loads as much of it as is needed.
    fn read_piece(&mut self) -> Result<Piece, FileDefect> {
        loop {
            let unread = self.buffer.unread();
            let mut reader = Reader::new(unread);
            match self.parse(&mut reader) {
                Ok(piece) => {
                    let len = match piece {
                        Piece::End(_) => 1, // the checksum is not part of what is summed
                        _ => unread.len() - reader.rest().len(),
                    };
                    self.buffer.consume(len);
                    return Ok(piece);
                }
                Err(reason) => match reader.missing() {
                    0 => return Err(reason),
                    missing => self.complete(missing as u64)?,
                },
            }
        }
    }

    /// Loads the rest of a record of which at least `missing` bytes are missing.
    fn complete(&mut self, missing: u64) -> Result<(), FileDefect> {
        let measure = self.buffer.unread().first().and_then(|first| Measure::new(*first, self.family));
        let Some(mut measure) = measure else { return self.buffer.fill(missing) };
        self.buffer.fill(missing)?;
        loop {
            match measure.advance(self.buffer.unread(), self.buffer.left(), &self.templates) {
                Extent::Missing(missing) => self.buffer.fill(missing)?,
                Extent::Whole(_) | Extent::Malformed => return Ok(()),
            }
        }
    }

    /// Parses a piece in the buffer. If the buffer has too few bytes, [`Reader::missing`] is not 0, and the error is
    /// meaningless.
    fn parse(&self, reader: &mut Reader<'_>) -> Result<Piece, FileDefect> {
        let Some([first]) = reader.array() else { return Err(FileDefect::Record(0)) };
        if first == kind::MODULE_2 && !is_known_module(reader.clone()) || first == kind::MODULE {
            return Err(refused_module(reader));
        }
        if is_value(first, self.family) {
            return self.parse_key(first, reader);
        }
        match first {
            opcode::LIBRARY_BEFORE_RELEASE => return Err(FileDefect::OldLibrary),
            opcode::SLOT_IMPORT_OR_KEY_META if self.family == Family::Valkey => return Err(FileDefect::SlotImport),
            opcode::SLOT_IMPORT_OR_KEY_META => {
                return match module::skip_key_meta(reader) {
                    Ok(()) => Ok(Piece::Nothing),
                    Err(Some(class)) => Err(FileDefect::KeyMeta(class)),
                    Err(None) => Err(FileDefect::Record(first)),
                };
            }
            opcode::HASH_TEMPLATE if self.family == Family::Redis => {}
            opcode::SLOT_INFO..=opcode::END => {}
            _ => {
                let name = kind::unsupported(first).filter(|_| self.family == Family::Redis);
                return Err(name.map_or(FileDefect::Type(first), |name| FileDefect::Unsupported(first, name)));
            }
        }
        let has_checksum = self.version >= CHECKSUMS_SINCE;
        parse_other(first, has_checksum, reader).ok_or(FileDefect::Record(first))
    }

    /// Reads a key with its value.
    fn parse_key(&self, of: u8, reader: &mut Reader<'_>) -> Result<Piece, FileDefect> {
        let options = ValueOptions { compression: Compression::Never, len_max: usize::MAX };
        let Some(key) = reader.string(options.len_max) else { return Err(FileDefect::Record(of)) };
        let ReadOptions { limits, hasher, .. } = self.options;
        let target = ValueTarget { key: &key, deadline: self.ahead.deadline, limits, hasher };
        let mut again = reader.clone();
        let entry = match of {
            kind::HASH_VALKEY => payload::read_hash_of_valkey(reader, target, options),
            kind::HASH_TEMPLATE_LISTPACK_REF | kind::HASH_TEMPLATE_ARRAY_REF => {
                self.templates.read(of, reader, target, options)
            }
            _ => payload::read(of, reader, target, options).ok(),
        };
        match entry {
            Some(entry) => Ok(Piece::Key(entry)),
            None if reader.missing() == 0 && payload::skip_empty(of, &mut again) => {
                *reader = again;
                Ok(Piece::Item(FileItem::Skipped { key: key.into() }))
            }
            None => Err(FileDefect::Value { kind: of, key: key.into() }),
        }
    }

    /// Returns the item that a piece is, or completes.
    fn item_of(&mut self, piece: Piece) -> Result<Option<FileItem>, FileDefect> {
        match piece {
            Piece::Item(item) => {
                if let FileItem::Skipped { .. } = item {
                    self.ahead = Ahead::default();
                }
                return Ok(Some(item));
            }
            Piece::Key(mut entry) => {
                let Ahead { usage, fence, lock, producers, .. } = std::mem::take(&mut self.ahead);
                if let Some(text) = producers {
                    types::adopt_beside_value(&mut entry, &text);
                }
                let is_set = entry.is_of(Type::Set);
                let item = FileItem::Entry { entry, usage, fence, lock };
                if !is_set {
                    return Ok(Some(item));
                }
                self.set = Some(item);
            }
            Piece::Template(template) => {
                if !self.templates.add(template) {
                    return Err(FileDefect::Record(opcode::HASH_TEMPLATE));
                }
            }
            Piece::End(expected) => return self.end(expected).map(Some),
            Piece::ExpiresMs(ms) => self.ahead.deadline = (ms != NEVER_MS).then(|| Deadline::at_wall_ms(ms)),
            Piece::Usage(usage) => self.ahead.usage = Some(usage),
            Piece::Fence(fence) => self.ahead.fence = fence,
            Piece::Lock(text) => self.ahead.lock = Some(text),
            Piece::Producers(text) => self.ahead.producers = Some(text),
            Piece::Nothing | Piece::Members(_) => {}
        }
        Ok(None)
    }

    /// Returns true if the source has bytes behind those that were consumed.
    fn has_more(&mut self) -> Result<bool, FileDefect> {
        if !self.buffer.unread().is_empty() {
            return Ok(true);
        }
        match self.buffer.fill(1) {
            Ok(()) => Ok(true),
            Err(FileDefect::Truncated { .. }) => Ok(false),
            Err(reason) => Err(reason),
        }
    }

    /// Compares the checksum, and consumes it.
    fn end(&mut self, expected: u64) -> Result<FileItem, FileDefect> {
        let computed = self.buffer.checksum().filter(|_| expected != 0);
        if let Some(computed) = computed
            && computed != expected
        {
            return Err(FileDefect::Checksum { expected, computed });
        }
        if self.version >= CHECKSUMS_SINCE {
            self.buffer.consume(checksum::LEN);
        } else if self.has_more()? {
            return Err(FileDefect::Record(opcode::END)); // a newer file whose version is damaged
        }
        Ok(FileItem::End { is_checked: computed.is_some() })
    }
}

/// Reads magic and version.
fn read_header(buffer: &mut Buffer<impl Read>) -> Result<(Family, u16), FileDefect> {
    buffer.fill(HEADER_LEN as u64).map_err(|reason| match reason {
        FileDefect::Truncated { .. } => FileDefect::Magic,
        reason => reason,
    })?;
    let (magic, _) = buffer.unread().split_first_chunk::<HEADER_LEN>().ok_or(FileDefect::Magic)?;
    let (family, digits) = match magic {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (Family::Redis, &digits[..]),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (Family::Valkey, &digits[..]),
        _ => return Err(FileDefect::Magic),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(FileDefect::Magic);
    }
    let version = digits.iter().fold(0, |version, digit| 10 * version + u16::from(digit - b'0'));
    let is_known = match family {
        Family::Redis => (1..=VERSION_MAX).contains(&version),
        Family::Valkey => VALKEY.contains(&version),
    };
    if !is_known {
        return Err(FileDefect::Version(version));
    }
    buffer.consume(HEADER_LEN);
    Ok((family, version))
}

/// Reads the start of a module's key, and returns the reason why it cannot be loaded.
fn refused_module(reader: &mut Reader<'_>) -> FileDefect {
    let id = reader.skip_string().and_then(|()| ModuleId::read(reader));
    id.map_or(FileDefect::Record(kind::MODULE_2), |id| FileDefect::Module(id.name()))
}

/// Returns true if a module's key, from its name on, holds a value of a known type.
fn is_known_module(mut reader: Reader<'_>) -> bool {
    let id = reader.skip_string().and_then(|()| ModuleId::read(&mut reader));
    id.is_some_and(payload::is_known_module)
}

/// Reads a record other than a key; `None` if it violates the format.
fn parse_other(of: u8, has_checksum: bool, reader: &mut Reader<'_>) -> Option<Piece> {
    let piece = match of {
        opcode::EXPIRES_MS => Piece::ExpiresMs(i64::from_le_bytes(reader.array()?)),
        opcode::EXPIRES_S => Piece::ExpiresMs(expiry_of_seconds(i32::from_le_bytes(reader.array()?))),
        opcode::IDLE => Piece::Usage(Usage::Idle(reader.length()?)),
        opcode::FREQUENCY => {
            let [count] = reader.array()?;
            Piece::Usage(Usage::Frequency(count))
        }
        opcode::AUX => {
            let (key, value) = (reader.string(usize::MAX)?, reader.string(usize::MAX)?);
            match &*key {
                FENCE => Piece::Fence(parse_int(&value)?),
                LOCK => Piece::Lock(value.into()),
                PRODUCERS => Piece::Producers(value.into()),
                MEMBERS => Piece::Members(value.into()),
                RETIRED_FENCE => Piece::Item(FileItem::RetiredFence(parse_retired(&value)?)),
                key => Piece::Item(FileItem::Aux { key: key.into(), value: value.into() }),
            }
        }
        opcode::SELECT => Piece::Item(FileItem::Select(reader.length()?)),
        opcode::RESIZE => Piece::Item(FileItem::Resize { keys: reader.length()?, with_ttl: reader.length()? }),
        opcode::LIBRARY => Piece::Item(FileItem::Library(reader.string(usize::MAX)?.into())),
        opcode::HASH_TEMPLATE => Piece::Template(HashTemplate::read(reader)?),
        opcode::SLOT_INFO => {
            (0..3).try_for_each(|_| reader.length().map(drop))?;
            Piece::Nothing
        }
        opcode::MODULE_AUX => {
            module::skip(reader)?;
            Piece::Nothing
        }
        opcode::END if has_checksum => Piece::End(u64::from_le_bytes(reader.array()?)),
        opcode::END => Piece::End(0),
        _ => return None,
    };
    Some(piece)
}

/// Parses the fence of a removed key.
fn parse_retired(value: &[u8]) -> Option<RetiredFence<Box<[u8]>>> {
    let mut words = value.splitn(4, |byte| *byte == b' ');
    let mut number = || words.next().and_then(parse_int);
    let (db, fence, removed_ms) = (number()?, number()?, number()?);
    let key = words.next()?.into();
    Some(RetiredFence { db: u64::try_from(db).ok()?, fence, removed_ms, key })
}

/// Returns a deadline that was written in seconds.
fn expiry_of_seconds(seconds: i32) -> i64 {
    if seconds == -1 { NEVER_MS } else { 1000 * i64::from(seconds) }
}

/// Reads a file and writes its content; returns the new file.
///
/// # Errors
/// A description of the fault of the file.
#[cfg(feature = "internals")]
pub fn rewrite(source: impl Read, len: Option<u64>) -> Result<Vec<u8>, String> {
    let hasher = Hasher::new();
    let options = ReadOptions { limits: ValueLimits::default(), hasher: &hasher, checks: true };
    let write = FileOptions { version: VERSION_MAX, compresses: false };
    let mut reader = FileReader::new(source, len, options).map_err(|error| error.to_string())?;
    let (mut out, mut version) = (MarkedBytes::default(), VERSION);
    header(&mut out, version);
    loop {
        match reader.read().map_err(|error| error.to_string())? {
            FileItem::Aux { key, value } => aux(&mut out, &key, &value),
            FileItem::Select(db) => select(&mut out, usize::try_from(db).unwrap_or(usize::MAX)),
            FileItem::Resize { keys, with_ttl } => {
                let number = |count| usize::try_from(count).unwrap_or(usize::MAX);
                resize(&mut out, number(keys), number(with_ttl));
            }
            FileItem::Library(code) => library(&mut out, &code, write),
            FileItem::Entry { entry, usage, fence, lock } => {
                let (expires_ms, lock) = (entry.deadline().map(Deadline::absolute_ms), lock.as_deref());
                let meta = KeyMeta { expires_ms, usage, fence, lock };
                version = version.max(write_entry(&mut out, &entry, meta, write));
            }
            FileItem::RetiredFence(RetiredFence { db, fence, removed_ms, key }) => {
                retired_fence(&mut out, &RetiredFence { db, fence, removed_ms, key: &key });
            }
            FileItem::Skipped { .. } => {}
            FileItem::End { .. } => break,
        }
    }
    end(&mut out);
    let mut out = compressed(out);
    let mut sum = Checksum::new();
    sum.update(&out);
    replace_version(&mut sum, VERSION, version);
    let mut start = Vec::new();
    header(&mut start, version);
    out[..HEADER_LEN].copy_from_slice(&start);
    out.extend_from_slice(&sum.value().to_le_bytes());
    Ok(out)
}
