//! The incremental decoder of client requests: multibulk (`*2\r\n$3\r\nGET\r\n...`) and inline lines.
//!
//! The decoder locates the arguments and enforces the protocol limits; it knows no command and does not interpret
//! arguments. Behaviour and texts follow Redis 7.0, quirks included: the byte after a header's `\r` and the two bytes
//! after a bulk are skipped unchecked, and a NUL hides the rest of a line (Redis searches with `strchr`), so such a
//! line fails once it is too long.
//!
//! Invariant: parsing progress is kept as positions relative to the start of the buffer, so every byte is examined once
//! however small the pieces are, and the pieces do not change the outcome. Redis itself accepts an over-long line when
//! its end happens to arrive in the same read; here 64 KiB is the limit in every split.

use std::{error, fmt, io};

use bytes::buf::Limit;
use bytes::{Buf, BytesMut};
use memchr::memchr2;
use tokio_util::codec::Decoder;

use crate::resp::inline;
use crate::resp::large::{LARGE_LEN, LargeArg, WholeArgs};
use crate::resp::request::{Batch, Span};

/// The most requests one batch holds: enough to amortize a batch, few enough to keep clients fair.
pub const BATCH_REQUESTS_MAX: usize = 128;

/// The longest inline request or header line, without its terminator.
const LINE_MAX: usize = 64 * 1024;
/// The largest argument count a client may claim.
const ARGS_MAX: i64 = i32::MAX as i64;
/// The largest argument count before authentication, so that unauthenticated clients cannot make the server buffer
/// much.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
/// The longest argument before authentication.
const UNAUTHENTICATED_BULK_LEN_MAX: i64 = 16 * 1024;

/// The limits on a client's requests, by its session and the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// The longest argument in bytes (`proto-max-bulk-len`).
    pub bulk_len_max: usize,
    /// True if the client has authenticated, or does not need to.
    pub authenticated: bool,
}

impl Default for RequestLimits {
    /// Returns the limits of a server without a password: bulks of up to 512 MiB.
    fn default() -> Self {
        Self { bulk_len_max: 512 * 1024 * 1024, authenticated: true }
    }
}

/// A client's violation of the protocol; the connection answers with the text and closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The line with the argument count does not end within 64 KiB.
    TooBigMultibulkCount,
    /// The argument count is not a number or too large.
    InvalidMultibulkLength,
    /// More than 10 arguments from a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// The line with an argument's length does not end within 64 KiB.
    TooBigBulkCount,
    /// A byte found where an argument should begin.
    ExpectedBulk(u8),
    /// The argument's length is not a number, negative or above the limit.
    InvalidBulkLength,
    /// An argument above 16 KiB from a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// The inline request does not end within 64 KiB.
    TooBigInline,
    /// The quotes of the inline request do not match.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// Returns the error line for [`crate::resp::Reply::error`], the offending byte unescaped as in Redis.
    pub fn wire_text(self) -> Vec<u8> {
        let mut line = format!("ERR Protocol error: {}", self.reason()).into_bytes();
        if let Self::ExpectedBulk(got) = self {
            line.extend_from_slice(&[b'\'', got, b'\'']);
        }
        line
    }

    /// Returns the text after "Protocol error: ", up to the offending byte where there is one.
    fn reason(self) -> &'static str {
        match self {
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::ExpectedBulk(_) => "expected '$', got ",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::TooBigInline => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
        }
    }
}

impl fmt::Display for ProtocolError {
    /// Writes the text after "ERR " for a log: an unprintable byte is escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protocol error: {}", self.reason())?;
        match self {
            Self::ExpectedBulk(got) => write!(f, "'{}'", got.escape_ascii()),
            _ => Ok(()),
        }
    }
}

impl error::Error for ProtocolError {}

/// The reason why no more requests can be decoded from a connection.
#[derive(Debug)]
pub enum DecodeError {
    /// The client broke the protocol.
    Protocol(ProtocolError),
    /// The stream failed; only framed transports produce this.
    Io(io::Error),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(err) => err.fmt(f),
            Self::Io(err) => err.fmt(f),
        }
    }
}

impl error::Error for DecodeError {}

impl From<io::Error> for DecodeError {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

impl From<ProtocolError> for DecodeError {
    fn from(err: ProtocolError) -> Self {
        Self::Protocol(err)
    }
}

/// Decodes requests from a buffer that grows piece by piece.
#[derive(Debug, Default)]
pub struct RequestDecoder {
    limits: RequestLimits,
    /// The start of the current request; everything before belongs to complete requests.
    start: usize,
    /// The position of the next byte to parse.
    pos: usize,
    /// The position before which the current line is known not to end.
    scanned: usize,
    /// The missing arguments of the current multibulk request; 0 between requests.
    args_left: usize,
    /// The length of the argument being received, once its header has been read.
    bulk_len: Option<usize>,
    /// The argument being received, if it is large.
    large: Option<Box<LargeArg>>,
    /// The large arguments of the complete requests, then of the current one.
    whole: WholeArgs,
    /// Bytes of the arguments that the current multibulk request has so far.
    args_len: usize,
    /// Arguments of the complete requests, then of the current one.
    spans: Vec<Span>,
    /// The end of the spans of each complete request.
    ends: Vec<usize>,
    /// The numbers of the complete requests that follow empty requests.
    empties: Vec<usize>,
    /// True if the last call of `decode` stopped inside a request.
    mid_request: bool,
    /// The protocol error, which is final: it is reported after the requests before it, and on every later call.
    failure: Option<ProtocolError>,
}

/// The outcome of one parsing step: `true` when the item is complete, `false` when bytes are missing.
type Step = Result<bool, ProtocolError>;

impl RequestDecoder {
    /// Creates a decoder that enforces `limits`.
    pub fn new(limits: RequestLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Replaces the limits; they hold for every header read from now on.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Returns true if the last `decode` needs more bytes to complete a request.
    pub fn is_mid_request(&self) -> bool {
        self.mid_request
    }

    /// Forgets the empty requests after the last batch; returns true if there were any. The next batch does not know of
    /// them.
    pub fn take_empties(&mut self) -> bool {
        let has_any = !self.empties.is_empty();
        self.empties.clear();
        has_any
    }

    /// Returns the buffer for the next bytes while a large argument is received; these bytes bypass the buffer that is
    /// decoded.
    #[inline]
    pub fn large_buffer(&mut self) -> Option<Limit<&mut Vec<u8>>> {
        self.large.as_mut()?.buffer()
    }

    /// Makes room for the next bytes of a large argument.
    pub fn prepare_large(&mut self) {
        if let Some(large) = &mut self.large {
            large.prepare();
        }
    }

    /// Returns true if a large argument is being received.
    #[inline]
    pub fn is_receiving_large(&self) -> bool {
        self.large.is_some()
    }

    /// Returns the bytes of large arguments, with their line ends, that have been received for the current request,
    /// outside the buffer that is decoded.
    #[inline]
    pub fn separate_len(&self) -> usize {
        self.large.as_ref().map_or(0, |large| large.received_len()) + self.whole.len()
    }

    /// Returns the number of unparsed bytes, in the buffer that is decoded and of a partly received argument.
    pub fn unparsed_len(&self, src: &BytesMut) -> usize {
        src.len() - self.pos + self.large.as_ref().map_or(0, |large| large.received_len())
    }

    /// Returns the bytes of the arguments of an incomplete request, and the memory that the request has outside the
    /// buffer that is decoded.
    pub fn pending_args(&self) -> (usize, usize) {
        if self.args_left == 0 {
            return (self.args_len, 0);
        }
        let large = self.large.as_ref().map_or(0, |large| large.memory());
        (self.args_len, self.spans.capacity() * size_of::<Span>() + large + self.whole.memory())
    }

    /// Returns true if the decoder has no state of a request, so that it may serve another client.
    pub fn is_between_requests(&self) -> bool {
        self.pos == 0 && self.args_left == 0 && self.failure.is_none() && self.empties.is_empty()
    }

    /// Moves the complete requests of `src` to `batch`, which is empty; returns true if there are any. Otherwise more
    /// bytes are needed.
    ///
    /// # Errors
    ///
    /// A protocol violation of the client, after every request before that has been returned.
    pub fn decode_into(&mut self, src: &mut BytesMut, batch: &mut Batch) -> Result<bool, DecodeError> {
        debug_assert!(batch.is_empty(), "requests would be lost");
        // AUTH changes the limits of the requests after it, so unauthenticated clients get one request per batch.
        let requests_max = if self.limits.authenticated { BATCH_REQUESTS_MAX } else { 1 };
        self.mid_request = false;
        while self.failure.is_none() && self.ends.len() < requests_max {
            if self.read_short_request(src) {
                self.finish_request();
                continue;
            }
            match self.read_request(src) {
                Ok(true) => self.finish_request(),
                Ok(false) if self.receive_large(src) => {}
                Ok(false) => break,
                Err(err) => self.failure = Some(err),
            }
        }
        if !self.ends.is_empty() {
            self.cut(src, batch);
            return Ok(true);
        }
        if let Some(err) = self.failure {
            return Err(err.into());
        }
        self.skip_empty_requests(src);
        self.mid_request = !src.is_empty();
        Ok(false)
    }

    /// Reads a whole request whose headers are all short, as nearly all are. Anything else, invalid or incomplete input
    /// included, is left for [`RequestDecoder::read_request`].
    fn read_short_request(&mut self, src: &[u8]) -> bool {
        let (before, mut at) = (self.spans.len(), self.pos);
        if self.args_left > 0 || !self.limits.authenticated {
            return false;
        }
        let Some((count, width)) = src.get(at..).and_then(|rest| short_header(b'*', rest)) else { return false };
        at += width;
        for _ in 0..count {
            let Some((len, width)) = short_header(b'$', &src[at..]) else { break };
            let end = at + width + len as usize;
            if end + 2 > src.len() || len as usize > self.limits.bulk_len_max {
                break;
            }
            self.spans.push(Span { start: at + width, len: len as usize });
            at = end + 2;
        }
        let is_whole = self.spans.len() == before + count as usize;
        if is_whole {
            self.move_to(at);
        } else {
            self.spans.truncate(before);
        }
        is_whole
    }

    /// Parses the current request up to the end of the input.
    fn read_request(&mut self, src: &mut [u8]) -> Step {
        if self.args_left == 0 {
            match src.get(self.pos) {
                None => return Ok(false),
                Some(b'*') => {
                    if !self.read_count(src)? {
                        return Ok(false);
                    }
                }
                Some(_) => return self.read_inline(src),
            }
        }
        while self.args_left > 0 {
            let is_read = if self.large.is_some() { self.read_large() } else { self.read_argument(src)? };
            if !is_read {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_count(&mut self, src: &[u8]) -> Step {
        let count = match short_header(b'*', &src[self.pos..]) {
            Some((count, width)) => {
                self.move_to(self.pos + width);
                i64::from(count)
            }
            None => {
                let Some(end) = self.header_end(src, ProtocolError::TooBigMultibulkCount)? else {
                    return Ok(false);
                };
                let count = parse_int(&src[self.pos + 1..end]);
                self.move_to(end + 2);
                count.ok_or(ProtocolError::InvalidMultibulkLength)?
            }
        };
        if count > ARGS_MAX {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS_MAX && !self.limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        // A count of zero or below is an empty request, which is skipped.
        self.args_left = usize::try_from(count).unwrap_or(0);
        Ok(true)
    }

    fn read_argument(&mut self, src: &[u8]) -> Step {
        let len = match self.bulk_len {
            Some(len) => len,
            None => match self.read_bulk_len(src)? {
                Some(len) => len,
                None => return Ok(false),
            },
        };
        // The two bytes after the bulk are CRLF by convention only: Redis skips them unchecked.
        let received = src.len() - self.pos;
        if received < 2 || received - 2 < len {
            self.bulk_len = Some(len);
            return Ok(false);
        }
        self.end_argument(Span { start: self.pos, len });
        self.move_to(self.pos + len + 2);
        Ok(true)
    }

    fn end_argument(&mut self, span: Span) {
        self.spans.push(span);
        self.bulk_len = None;
        self.args_left -= 1;
        self.args_len = if self.args_left == 0 { 0 } else { self.args_len + span.len };
    }

    /// Completes a large argument once it has been received with the line end; see [`Self::receive_large`].
    fn read_large(&mut self) -> bool {
        let Some(large) = self.large.take_if(|large| large.is_received()) else { return false };
        let bytes = large.into_bytes();
        let len = bytes.len();
        let number = self.whole.push(bytes);
        self.end_argument(Span::whole(number, len));
        true
    }

    /// Moves the received bytes of a large argument out of the buffer, once everything before the argument is parsed;
    /// returns true if any were moved.
    fn receive_large(&mut self, src: &mut BytesMut) -> bool {
        let Some(len) = self.bulk_len.filter(|len| *len >= LARGE_LEN) else { return false };
        let large = self.large.get_or_insert_with(|| Box::new(LargeArg::new(len)));
        let taken = large.take_from(&src[self.pos..]);
        if taken > 0 {
            // Bytes rarely follow the argument: the connection reads into the argument's own buffer.
            src.copy_within(self.pos + taken.., self.pos);
            src.truncate(src.len() - taken);
        }
        taken > 0
    }

    fn read_bulk_len(&mut self, src: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let len = match short_header(b'$', &src[self.pos..]) {
            Some((len, width)) => {
                self.move_to(self.pos + width);
                i64::from(len)
            }
            None => {
                let Some(end) = self.header_end(src, ProtocolError::TooBigBulkCount)? else {
                    return Ok(None);
                };
                if src[self.pos] != b'$' {
                    return Err(ProtocolError::ExpectedBulk(src[self.pos]));
                }
                let len = parse_int(&src[self.pos + 1..end]);
                self.move_to(end + 2);
                len.ok_or(ProtocolError::InvalidBulkLength)?
            }
        };
        let within_limit = usize::try_from(len).ok().filter(|&len| len <= self.limits.bulk_len_max);
        if within_limit.is_some() && len > UNAUTHENTICATED_BULK_LEN_MAX && !self.limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        match within_limit {
            Some(len) => Ok(Some(len)),
            None => Err(ProtocolError::InvalidBulkLength),
        }
    }

    fn read_inline(&mut self, src: &mut [u8]) -> Step {
        let Some(newline) = self.line_end(src, b'\n', ProtocolError::TooBigInline)? else {
            return Ok(false);
        };
        let line = &mut src[self.pos..newline];
        let len = line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
        if !inline::split_in_place(&mut line[..len], self.pos, &mut self.spans) {
            return Err(ProtocolError::UnbalancedQuotes);
        }
        self.move_to(newline + 1);
        Ok(true)
    }

    /// Finds the `\r` that ends a header, once the byte after it has arrived too.
    fn header_end(&mut self, src: &[u8], too_long: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        let end = self.line_end(src, b'\r', too_long)?;
        Ok(end.filter(|end| end + 1 < src.len()))
    }

    /// Finds the terminator of the line at `pos`, or fails with `too_long`.
    fn line_end(
        &mut self,
        src: &[u8],
        terminator: u8,
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let window = src.len().min(self.pos + LINE_MAX + 1);
        let hit = memchr2(terminator, 0, &src[self.scanned..window]);
        // The search never passes a NUL, however many bytes follow.
        self.scanned = hit.map_or(window, |offset| self.scanned + offset);
        if hit.is_some() && src[self.scanned] == terminator {
            return Ok(Some(self.scanned));
        }
        if src.len() - self.pos > LINE_MAX {
            return Err(too_long);
        }
        Ok(None)
    }

    fn move_to(&mut self, pos: usize) {
        self.pos = pos;
        self.scanned = pos;
    }

    /// Completes the current request; of a request without arguments only the position is recorded.
    fn finish_request(&mut self) {
        self.start = self.pos;
        if self.spans.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.spans.len());
        } else if self.empties.last() != Some(&self.ends.len()) {
            self.empties.push(self.ends.len());
        }
    }

    /// Moves the complete requests from `src` to `batch`; the current request stays and its positions are
    /// adjusted. When no further request has begun, `batch` gets the buffer, and nothing is shared.
    fn cut(&mut self, src: &mut BytesMut, batch: &mut Batch) {
        let cut = self.start;
        let complete = self.ends.last().copied().unwrap_or(0);
        if cut == src.len() {
            batch.bytes = std::mem::take(src);
        } else {
            batch.bytes = src.split_to(cut);
            batch.spans.extend(self.spans.drain(complete..));
        }
        if !self.whole.is_empty() {
            let current = &mut batch.spans;
            batch.whole = self.whole.take_before(current.iter().filter(|span| span.is_whole()).count());
        }
        let taken = batch.whole.as_ref().map_or(0, |whole| whole.len());
        batch.spans.iter_mut().for_each(|span| span.move_by(cut, taken));
        self.rebase(cut);
        batch.empties = self.cut_empties();
        std::mem::swap(&mut self.spans, &mut batch.spans);
        std::mem::swap(&mut self.ends, &mut batch.ends);
    }

    /// Splits off the positions of empty requests; those behind the last request precede the first request of the next
    /// batch.
    #[allow(clippy::box_collection, reason = "rare, and part of every batch")]
    fn cut_empties(&mut self) -> Option<Box<Vec<usize>>> {
        if self.empties.is_empty() {
            return None;
        }
        let is_last = self.empties.pop_if(|before| *before == self.ends.len()).is_some();
        let left = if is_last { vec![0] } else { Vec::new() };
        Some(Box::new(std::mem::replace(&mut self.empties, left)))
    }

    fn rebase(&mut self, cut: usize) {
        self.start -= cut;
        self.pos -= cut;
        self.scanned -= cut;
    }

    /// Drops empty requests from the front, so that a stream of bare newlines does not accumulate.
    fn skip_empty_requests(&mut self, src: &mut BytesMut) {
        let cut = self.start;
        if cut == 0 {
            return;
        }
        src.advance(cut);
        self.spans.iter_mut().for_each(|span| span.move_by(cut, 0));
        self.rebase(cut);
    }
}

impl Decoder for RequestDecoder {
    type Item = Batch;
    type Error = DecodeError;

    /// Returns the complete requests of `src`, or `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// The errors of [`RequestDecoder::decode_into`].
    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Batch>, DecodeError> {
        let mut batch = Batch::default();
        Ok(self.decode_into(src, &mut batch)?.then_some(batch))
    }

    /// Decodes the remaining input after the client has closed the connection; an incomplete request is dropped, as in
    /// Redis.
    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Batch>, DecodeError> {
        let batch = self.decode(src)?;
        if batch.is_none() {
            src.clear();
            *self = Self::new(self.limits);
        }
        Ok(batch)
    }
}

/// Parses a header of one to three digits, as nearly all are; returns the number and the header's width.
///
/// The byte after `\r` is skipped and not looked at. Anything else, a leading zero and the last bytes of the buffer
/// included, is left to the strict, slower path.
#[inline]
fn short_header(kind: u8, src: &[u8]) -> Option<(u32, usize)> {
    let digit = |byte: u8| u32::from(byte - b'0');
    match *src.first_chunk::<6>()? {
        [first, a @ b'0'..=b'9', b'\r', ..] if first == kind => Some((digit(a), 4)),
        [first, a @ b'1'..=b'9', b @ b'0'..=b'9', b'\r', ..] if first == kind => Some((digit(a) * 10 + digit(b), 5)),
        [first, a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', b'\r', _] if first == kind => {
            Some((digit(a) * 100 + digit(b) * 10 + digit(c), 6))
        }
        _ => None,
    }
}

/// Parses a decimal 64-bit integer as strictly as Redis: no sign but `-`, no leading zero, no blank.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Summing negatively reaches i64::MIN, which has no positive counterpart.
    let below_zero = digits.iter().try_fold(0i64, |sum, &byte| {
        let digit = byte.is_ascii_digit().then(|| i64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_sub(digit)
    })?;
    if negative { Some(below_zero) } else { below_zero.checked_neg() }
}
