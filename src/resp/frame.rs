//! Replies as owned values, for the embedding API, the program's own clients, tests, and pushes. Handlers do not use
//! frames; they write through [`Reply`].
//!
//! [`FrameDecoder`] reads the server's side of the wire. The open aggregates are on an explicit stack, without
//! recursion, so the decoder resumes at the end of the last input and scans each byte once.
//!
//! Invariant: a claimed length or count allocates nothing; a length or count above its [`FrameLimits`] is rejected at
//! once.

use std::{error, fmt, io};

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use tokio_util::codec::Decoder;

use crate::resp::decode::parse_int;
use crate::resp::output::{Output, Protocol};
use crate::resp::reply::Reply;

/// The deepest nesting of aggregates that a [`FrameDecoder`] accepts by default.
pub const FRAME_DEPTH_MAX: usize = 32;

/// The limits of the frames that a [`FrameDecoder`] accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    /// The nesting depth of aggregates.
    pub(crate) depth: usize,
    /// The items of an aggregate.
    pub(crate) items: usize,
    /// The length of a string or a line, in bytes.
    pub(crate) len: usize,
}

impl Default for FrameLimits {
    /// Returns the default limits of Redis for a value.
    fn default() -> Self {
        FrameLimits { depth: FRAME_DEPTH_MAX, items: i32::MAX as usize, len: 512 * 1024 * 1024 }
    }
}

/// A value of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A short status such as `OK`.
    Simple(Bytes),
    /// An error line, code first.
    Error(Bytes),
    /// A 64-bit integer.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Bytes),
    /// The absent value.
    Null,
    /// The absent array of RESP2; RESP3 has [`Frame::Null`] only.
    NullArray,
    /// A truth value.
    Boolean(bool),
    /// A double-precision number.
    Double(f64),
    /// A double-precision number as it was sent; only the decoder of the program's own redis-cli makes it.
    #[doc(hidden)]
    SentDouble(Bytes),
    /// An integer of any size, as decimal digits.
    BigNumber(Bytes),
    /// Text with a three-byte format, such as `txt`.
    Verbatim([u8; 3], Bytes),
    /// Values in order.
    Array(Vec<Frame>),
    /// Pairs of key and value, in the order sent.
    Map(Vec<(Frame, Frame)>),
    /// Values in no order.
    Set(Vec<Frame>),
    /// A push message.
    Push(Vec<Frame>),
}

impl Frame {
    /// Creates a bulk string by copying `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Bytes::copy_from_slice(bytes.as_ref()))
    }

    /// Creates a simple string by copying `text`.
    pub fn simple(text: &str) -> Self {
        Self::Simple(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// Creates an error from its full line, code first.
    pub fn error(line: impl AsRef<[u8]>) -> Self {
        Self::Error(Bytes::copy_from_slice(line.as_ref()))
    }

    /// Returns the bytes of a frame that is text: simple, error, bulk, big number or verbatim.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes)
            | Self::Error(bytes)
            | Self::Bulk(bytes)
            | Self::SentDouble(bytes)
            | Self::BigNumber(bytes)
            | Self::Verbatim(_, bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Writes the frame in `reply`'s protocol; large strings are shared, not copied.
    pub fn write(&self, reply: &mut Reply<'_>) {
        match self {
            Self::Simple(text) => reply.line(b'+', text),
            Self::Error(line) => reply.error(line),
            Self::Integer(value) => reply.int(*value),
            Self::Bulk(bytes) => reply.bulk_shared(bytes.clone()),
            Self::Null => reply.null(),
            Self::NullArray => reply.null_array(),
            Self::Boolean(value) => reply.bool(*value),
            Self::Double(value) => reply.double(*value),
            Self::SentDouble(text) => reply.double(parse_double(text).unwrap_or(f64::NAN)),
            Self::BigNumber(digits) => match reply.protocol() {
                Protocol::Resp2 => reply.bulk(digits),
                Protocol::Resp3 => reply.line(b'(', digits),
            },
            // A format that is not text is replaced by blanks.
            Self::Verbatim(kind, text) => {
                reply.verbatim(std::str::from_utf8(kind).unwrap_or_default(), text);
            }
            Self::Array(items) => {
                reply.array(items.len());
                write_all(items, reply);
            }
            Self::Set(items) => {
                reply.set(items.len());
                write_all(items, reply);
            }
            Self::Push(items) => {
                reply.push(items.len());
                write_all(items, reply);
            }
            Self::Map(pairs) => {
                reply.map(pairs.len());
                for (key, value) in pairs {
                    key.write(reply);
                    value.write(reply);
                }
            }
        }
    }

    /// Appends the frame to `dst`, encoded in `protocol`.
    pub fn encode(&self, protocol: Protocol, dst: &mut BytesMut) {
        let mut out = Output::append_to(std::mem::take(dst));
        self.write(&mut Reply::new(&mut out, protocol));
        *dst = out.into_bytes();
    }
}

fn write_all(items: &[Frame], reply: &mut Reply<'_>) {
    for item in items {
        item.write(reply);
    }
}

/// The reason why bytes from a server are not frames.
#[derive(Debug)]
pub enum FrameError {
    /// Bytes that are not RESP; holds a description.
    Invalid(&'static str),
    /// Aggregates nested too deeply.
    TooDeep,
    /// A failure of the stream.
    Io(io::Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(what) => write!(f, "invalid reply: {what}"),
            Self::TooDeep => f.write_str("invalid reply: nested too deeply"),
            Self::Io(err) => err.fmt(f),
        }
    }
}

impl error::Error for FrameError {}

impl From<io::Error> for FrameError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

/// Decodes frames sent by a server, in RESP2 or RESP3.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    limits: FrameLimits,
    /// Aggregates that still lack items, outermost first.
    open: Vec<Aggregate>,
    /// The type byte and the length of a string whose header has been read.
    string: Option<(u8, usize)>,
    /// The position before which the current line is known not to end.
    scanned: usize,
    /// True if doubles are returned as they were sent.
    has_sent_doubles: bool,
}

/// An aggregate being received.
#[derive(Debug)]
struct Aggregate {
    kind: u8,
    items_left: usize,
    items: Vec<Frame>,
}

impl Aggregate {
    fn into_frame(self) -> Frame {
        match self.kind {
            b'%' => {
                let mut items = self.items.into_iter();
                let pair = || Some((items.next()?, items.next()?));
                Frame::Map(std::iter::from_fn(pair).collect())
            }
            b'~' => Frame::Set(self.items),
            b'>' => Frame::Push(self.items),
            _ => Frame::Array(self.items),
        }
    }
}

/// The result of parsing one line or string.
enum Token {
    Value(Frame),
    /// A header; its items or bytes follow.
    Header,
}

impl FrameDecoder {
    /// Creates a decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a decoder with limits of its own.
    pub(crate) fn with_limits(limits: FrameLimits) -> Self {
        FrameDecoder { limits, ..Self::default() }
    }

    /// Makes the decoder return doubles as they are sent: [`Frame::SentDouble`].
    pub(crate) fn with_sent_doubles(self) -> Self {
        FrameDecoder { has_sent_doubles: true, ..self }
    }

    fn next_token(&mut self, src: &mut BytesMut) -> Result<Option<Token>, FrameError> {
        if let Some((kind, len)) = self.string {
            if src.len() < len + 2 {
                return Ok(None);
            }
            self.string = None;
            return string_frame(kind, len, src).map(|frame| Some(Token::Value(frame)));
        }
        match self.take_line(src)? {
            Some(line) => self.read_line(line).map(Some),
            None => Ok(None),
        }
    }

    /// Takes the next line off `src`, without its CRLF.
    fn take_line(&mut self, src: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        match memchr(b'\n', &src[self.scanned..]) {
            Some(offset) => {
                let line = src.split_to(self.scanned + offset + 1).freeze();
                self.scanned = 0;
                match line.strip_suffix(b"\r\n") {
                    Some(text) if !text.is_empty() => Ok(Some(line.slice(..text.len()))),
                    _ => Err(FrameError::Invalid("a line is empty or ends without CR")),
                }
            }
            None if src.len() > self.limits.len => Err(FrameError::Invalid("endless line")),
            None => {
                self.scanned = src.len();
                Ok(None)
            }
        }
    }

    fn read_line(&mut self, line: Bytes) -> Result<Token, FrameError> {
        let kind = line[0];
        let text = line.slice(1..);
        let frame = match kind {
            b'+' => Frame::Simple(text),
            b'-' => Frame::Error(text),
            b'(' => Frame::BigNumber(text),
            b':' => Frame::Integer(parse_int(&text).ok_or(FrameError::Invalid("integer"))?),
            b',' => match parse_double(&text) {
                Some(_) if self.has_sent_doubles => Frame::SentDouble(text),
                Some(value) => Frame::Double(value),
                None => return Err(FrameError::Invalid("double")),
            },
            b'_' if text.is_empty() => Frame::Null,
            b'#' if *text == *b"t" => Frame::Boolean(true),
            b'#' if *text == *b"f" => Frame::Boolean(false),
            b'$' if *text == *b"-1" => Frame::Null,
            b'*' if *text == *b"-1" => Frame::NullArray,
            b'$' | b'!' | b'=' => {
                self.string = Some((kind, parse_len(&text, self.limits.len)?));
                return Ok(Token::Header);
            }
            b'*' | b'%' | b'~' | b'>' => return self.open_aggregate(kind, &text),
            _ => return Err(FrameError::Invalid("unknown type")),
        };
        Ok(Token::Value(frame))
    }

    fn open_aggregate(&mut self, kind: u8, text: &[u8]) -> Result<Token, FrameError> {
        let len = parse_len(text, self.limits.items)?;
        if self.open.len() == self.limits.depth {
            return Err(FrameError::TooDeep);
        }
        let aggregate = Aggregate { kind, items_left: if kind == b'%' { len * 2 } else { len }, items: Vec::new() };
        if len == 0 {
            return Ok(Token::Value(aggregate.into_frame()));
        }
        self.open.push(aggregate);
        Ok(Token::Header)
    }

    /// Adds a value to the innermost open aggregate, and returns the outermost one it completes.
    fn add(&mut self, mut frame: Frame) -> Option<Frame> {
        while let Some(mut aggregate) = self.open.pop() {
            aggregate.items.push(frame);
            aggregate.items_left -= 1;
            if aggregate.items_left > 0 {
                self.open.push(aggregate);
                return None;
            }
            frame = aggregate.into_frame();
        }
        Some(frame)
    }
}

impl Decoder for FrameDecoder {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        while let Some(token) = self.next_token(src)? {
            if let Token::Value(value) = token
                && let Some(frame) = self.add(value)
            {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

/// Takes a string of `len` bytes and its CRLF off `src`.
fn string_frame(kind: u8, len: usize, src: &mut BytesMut) -> Result<Frame, FrameError> {
    let mut bytes = src.split_to(len).freeze();
    if !src.starts_with(b"\r\n") {
        return Err(FrameError::Invalid("a string does not end with CRLF"));
    }
    src.advance(2);
    match (kind, bytes.get(..4)) {
        (b'=', Some(&[a, b, c, b':'])) => {
            bytes.advance(4);
            Ok(Frame::Verbatim([a, b, c], bytes))
        }
        (b'=', _) => Err(FrameError::Invalid("verbatim string without a kind")),
        (b'!', _) => Ok(Frame::Error(bytes)),
        _ => Ok(Frame::Bulk(bytes)),
    }
}

fn parse_len(text: &[u8], max: usize) -> Result<usize, FrameError> {
    parse_int(text)
        .and_then(|len| usize::try_from(len).ok())
        .filter(|&len| len <= max)
        .ok_or(FrameError::Invalid("length"))
}

fn parse_double(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
