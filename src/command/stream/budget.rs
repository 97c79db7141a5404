//! MAXCOUNT and MAXSIZE: how much a call may read from all its streams together.

use crate::store::{StreamEntry, StreamId};

/// The rest of the limits of a call.
pub(super) struct Budget {
    count: usize,
    size: usize,
    /// Bytes that announce the present stream, to be subtracted with its first entry.
    header: usize,
    /// True until the first entry, which is admitted whatever its size.
    is_unused: bool,
}

impl Budget {
    /// Creates the limits: of entries, and of bytes in the reply.
    pub(super) fn new(max_count: Option<usize>, max_size: Option<usize>) -> Self {
        Budget {
            count: max_count.unwrap_or(usize::MAX),
            size: max_size.unwrap_or(usize::MAX),
            header: 0,
            is_unused: true,
        }
    }

    /// Returns true if no further entry is admitted.
    pub(super) fn is_spent(&self) -> bool {
        self.count == 0
    }

    /// Goes on to the entries of another stream.
    pub(super) fn begin(&mut self, key: &[u8]) {
        self.header = header_len(2) + bulk_len(key.len()) + header_len(1);
    }

    /// Subtracts an entry; returns false, also from then on, if there is no room for it.
    pub(super) fn admits(&mut self, entry: &StreamEntry<'_>) -> bool {
        // Without limits, the length need not be known.
        let len = if self.size == usize::MAX { 0 } else { entry_len(entry) };
        self.subtract(len)
    }

    /// Subtracts the ID of a deleted entry, as [`Budget::admits`] does.
    pub(super) fn admits_id(&mut self, id: StreamId) -> bool {
        let len = if self.size == usize::MAX { 0 } else { header_len(2) + bulk_len(id.text().len()) + header_len(0) };
        self.subtract(len)
    }

    fn subtract(&mut self, len: usize) -> bool {
        let len = self.header + len;
        if self.count == 0 || len > self.size && !self.is_unused {
            self.count = 0;
            return false;
        }
        (self.count, self.header, self.is_unused) = (self.count - 1, 0, false);
        if self.size != usize::MAX {
            self.size = self.size.saturating_sub(len);
        }
        true
    }
}

/// Returns the number of bytes of an entry in a reply.
fn entry_len(entry: &StreamEntry<'_>) -> usize {
    let texts = entry.fields.clone().map(|(field, value)| bulk_len(field.len()) + bulk_len(value.len()));
    header_len(2) + bulk_len(entry.id.text().len()) + header_len(2 * entry.fields.len()) + texts.sum::<usize>()
}

/// Returns the number of bytes of a line with a length.
fn header_len(number: usize) -> usize {
    "*\r\n".len() + itoa::Buffer::new().format(number).len()
}

fn bulk_len(len: usize) -> usize {
    header_len(len) + len + "\r\n".len()
}
