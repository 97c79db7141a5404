//! Decoded requests: a batch owns its bytes, a request is a view into it.
//!
//! A batch has one buffer and two flat lists, so a request costs no allocation of its own:
//!
//! ```text
//! bytes  *2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n
//! spans             GET        k    PING
//! ends                         2       3      (request i owns spans[ends[i - 1]..ends[i]])
//! ```
//!
//! A large argument has bytes of its own, which a value may share.
//!
//! Invariant: every span lies inside the bytes or names a large argument, and every request has at least one argument.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len, list_len};

/// The position of one argument in the bytes of its batch, or the number of a large argument, marked by [`WHOLE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Lists with more capacity than this are freed instead of recycled, so that one huge request does not keep its memory.
const RECYCLED_SPANS_MAX: usize = 4096;

/// The bit that marks the number of a large argument; no position has it.
const WHOLE: usize = 1 << (usize::BITS - 1);

impl Span {
    /// Creates the span of a large argument.
    pub(super) fn whole(number: usize, len: usize) -> Self {
        Span { start: WHOLE | number, len }
    }

    /// Returns true if this is the span of a large argument.
    pub(super) fn is_whole(self) -> bool {
        self.start & WHOLE != 0
    }

    /// Adjusts the span to the removal of the first bytes, or of the first large arguments.
    pub(super) fn move_by(&mut self, bytes: usize, whole: usize) {
        self.start -= if self.is_whole() { whole } else { bytes };
    }
}

/// Large arguments, by number. They are rare, and part of every batch: an empty list is one word, and nothing to drop.
#[allow(clippy::box_collection, reason = "as said")]
pub(super) type Whole = Option<Box<Vec<Bytes>>>;

/// Complete requests in order of arrival, with the bytes they point into.
#[derive(Default)]
pub struct Batch {
    pub(super) bytes: BytesMut,
    pub(super) whole: Whole,
    pub(super) spans: Vec<Span>,
    pub(super) ends: Vec<usize>,
    /// The numbers of the requests that follow empty requests.
    #[allow(clippy::box_collection, reason = "rare, and part of every batch")]
    pub(super) empties: Option<Box<Vec<usize>>>,
}

impl Batch {
    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch holds no request; the decoder never returns such a batch.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns true if an empty request, which is not part of the batch, was sent before request `index`.
    pub fn follows_empty(&self, index: usize) -> bool {
        self.empties.as_ref().is_some_and(|empties| empties.binary_search(&index).is_ok())
    }

    /// Removes all requests. The lists are kept, and `input`, from which they were decoded, gets the buffer back if the
    /// requests have taken it as a whole: a steady connection allocates nothing.
    #[inline]
    pub fn recycle(&mut self, input: &mut BytesMut) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if input.capacity() == 0 {
            bytes.clear();
            *input = bytes;
        }
        if self.spans.capacity() > RECYCLED_SPANS_MAX {
            self.spans = Vec::new();
        }
        self.spans.clear();
        self.ends.clear();
        (self.whole, self.empties) = (None, None);
    }

    /// Returns the number of bytes that fit behind the requests, into a buffer that they have taken as a whole.
    #[inline]
    pub fn spare_len(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// Returns the bytes of all requests as they were sent.
    pub fn buffer_len(&self) -> usize {
        self.bytes.len() + self.whole.iter().flat_map(|whole| whole.iter()).map(Bytes::len).sum::<usize>()
    }

    /// Returns request `index`.
    ///
    /// # Panics
    ///
    /// Panics when `index` is not below [`Batch::len`].
    pub fn get(&self, index: usize) -> Request<'_> {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        Request { bytes: &self.bytes, spans: &self.spans[start..self.ends[index]], whole: self.whole.as_deref() }
    }

    /// Iterates over the requests in the order they arrived.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Request<'_>> {
        self.iter_from(0)
    }

    /// Iterates over the requests from number `first` on.
    ///
    /// # Panics
    ///
    /// Panics when there are fewer requests than `first`.
    #[inline]
    pub fn iter_from(&self, first: usize) -> impl ExactSizeIterator<Item = Request<'_>> {
        let mut start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends[first..].iter().map(move |&end| {
            let spans = &self.spans[start..end];
            start = end;
            Request { bytes: &self.bytes, spans, whole: self.whole.as_deref() }
        })
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One request: a command name and its arguments, borrowed from a batch or an owned request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
    whole: Option<&'a Vec<Bytes>>,
}

// Redis counts the name as an argument, so a request always has one: "empty" has no meaning here.
#[allow(clippy::len_without_is_empty)]
impl<'a> Request<'a> {
    /// Returns the number of arguments, the name included.
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Returns argument `index`; argument 0 is the name.
    ///
    /// # Panics
    ///
    /// Panics when `index` is not below [`Request::len`].
    pub fn arg(self, index: usize) -> &'a [u8] {
        self.bytes_of(self.spans[index])
    }

    /// Returns argument `index` for sharing, if it is a large one with bytes of its own.
    ///
    /// # Panics
    ///
    /// Panics when `index` is not below [`Request::len`].
    #[inline]
    pub fn shared(self, index: usize) -> Option<&'a Bytes> {
        let span = self.spans[index];
        span.is_whole().then(|| self.whole_of(span))
    }

    #[inline]
    fn bytes_of(self, span: Span) -> &'a [u8] {
        match self.bytes.get(span.start..span.start + span.len) {
            Some(bytes) => bytes,
            None => self.whole_of(span),
        }
    }

    #[cold]
    fn whole_of(self, span: Span) -> &'a Bytes {
        let whole = self.whole.expect("a span lies inside the bytes or names a large argument");
        &whole[span.start & !WHOLE]
    }

    /// Returns the command name as sent, in any case.
    pub fn name(self) -> &'a [u8] {
        self.arg(0)
    }

    /// Returns the request that consists of the arguments from `index` on.
    ///
    /// # Panics
    ///
    /// Panics when `index` is not below [`Request::len`].
    pub fn starting_at(self, index: usize) -> Self {
        assert!(index < self.len(), "a request has a name");
        Request { spans: &self.spans[index..], ..self }
    }

    /// Iterates over all arguments, including the name.
    pub fn args(self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone {
        self.spans.iter().map(move |span| self.bytes_of(*span))
    }

    /// Returns the request without its first arguments.
    ///
    /// # Panics
    ///
    /// Panics when there are fewer.
    pub fn skip(self, count: usize) -> Request<'a> {
        Request { spans: &self.spans[count..], ..self }
    }

    /// Returns the bytes of all arguments together, without protocol headers.
    pub fn bytes_len(self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }

    /// Copies the request out of its batch, so that it may wait in a MULTI queue; large arguments are shared.
    pub fn to_owned(self) -> OwnedRequest {
        let mut bytes =
            Vec::with_capacity(self.spans.iter().filter(|span| !span.is_whole()).map(|span| span.len).sum());
        let (mut spans, mut whole) = (Vec::with_capacity(self.len()), Vec::new());
        for (index, arg) in self.args().enumerate() {
            if let Some(shared) = self.shared(index) {
                spans.push(Span::whole(whole.len(), arg.len()));
                whole.push(shared.clone());
            } else {
                spans.push(Span { start: bytes.len(), len: arg.len() });
                bytes.extend_from_slice(arg);
            }
        }
        let whole = (!whole.is_empty()).then(|| Box::new(whole));
        OwnedRequest { bytes: bytes.into_boxed_slice(), spans: spans.into_boxed_slice(), whole }
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.args().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

/// A request that owns its arguments: one allocation for the bytes, one for the spans; large arguments may be shared.
#[derive(Clone)]
pub struct OwnedRequest {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
    whole: Whole,
}

impl OwnedRequest {
    /// Returns the memory of the request.
    pub fn memory(&self) -> usize {
        let whole = self.whole.iter().flat_map(|whole| whole.iter());
        let whole: usize = whole.map(|bytes| allocation_len(bytes.len()) + SHARED_BYTES_LEN + size_of::<Bytes>()).sum();
        allocation_len(self.bytes.len()) + list_len::<Span>(self.spans.len()) + whole
    }

    /// Borrows the request as handlers take it.
    pub fn as_request(&self) -> Request<'_> {
        Request { bytes: &self.bytes, spans: &self.spans, whole: self.whole.as_deref() }
    }
}

impl fmt::Debug for OwnedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_request().fmt(f)
    }
}

/// A reusable buffer that builds requests, for calls that do not come from a client's bytes.
#[derive(Clone, Debug, Default)]
pub struct RequestBuffer {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl RequestBuffer {
    /// The capacity in bytes that is kept for the next request.
    const KEPT_MAX: usize = 64 * 1024;

    /// Removes all arguments.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > Self::KEPT_MAX {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.spans.clear();
    }

    /// Adds an argument.
    pub fn push(&mut self, word: &[u8]) {
        self.spans.push(Span { start: self.bytes.len(), len: word.len() });
        self.bytes.extend_from_slice(word);
    }

    /// Borrows the request; `None` while it has no argument.
    pub fn as_request(&self) -> Option<Request<'_>> {
        (!self.spans.is_empty()).then_some(Request { bytes: &self.bytes, spans: &self.spans, whole: None })
    }
}
