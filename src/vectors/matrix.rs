//! The rows of a vector set: vectors, names and attributes, in chunks.
//!
//! A chunk is about a megabyte at most. Chunks are shared with frozen copies of the matrix, and one that is shared is copied
//! before it changes. So a search sees the set as it was when the search began, growth copies no more than a chunk, and so
//! does a change during a search.

use std::sync::Arc;

use crate::vectors::quantise::{Codes, KeptVector, Quantisation};

/// The maximum number of rows of a chunk.
const CHUNK_ROWS_MAX: usize = 1024;
/// The number of bytes of vectors that a chunk has at most, unless a single vector is longer.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// An element beside its vector's codes.
#[derive(Clone, Debug)]
pub(crate) struct VectorRow {
    pub(crate) name: Arc<[u8]>,
    /// The attributes, as the client has sent them.
    pub(crate) attributes: Option<Arc<[u8]>>,
    norm: f32,
    pub(super) range: f32,
}

impl VectorRow {
    /// Returns an element with a vector.
    pub(crate) fn new(name: Arc<[u8]>, attributes: Option<Arc<[u8]>>, vector: &KeptVector) -> Self {
        VectorRow { name, attributes, norm: vector.norm, range: vector.range }
    }
}

/// Consecutive rows.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) rows: Vec<VectorRow>,
    pub(super) codes: Codes,
}

/// The rows of a vector set.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    form: Quantisation,
    dimensions: usize,
    /// All chunks but the last are full, and none is empty.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
}

impl Matrix {
    /// Returns a matrix without rows.
    pub(crate) const fn new(form: Quantisation, dimensions: usize) -> Self {
        Matrix { form, dimensions, chunks: Vec::new(), len: 0 }
    }

    /// Returns the form of the vectors.
    pub(crate) fn form(&self) -> Quantisation {
        self.form
    }

    /// Returns the number of dimensions.
    pub(crate) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn chunks(&self) -> &[Arc<Chunk>] {
        &self.chunks
    }

    /// Returns the number of rows of a full chunk.
    fn chunk_rows(&self) -> usize {
        (CHUNK_BYTES_MAX / self.form.bytes_len(self.dimensions).max(1)).clamp(1, CHUNK_ROWS_MAX)
    }

    fn codes_len(&self) -> usize {
        self.form.codes_len(self.dimensions)
    }

    /// Returns a row.
    ///
    /// # Panics
    /// If there is no row with this number; here and below.
    pub(crate) fn row(&self, number: usize) -> &VectorRow {
        let full = self.chunk_rows();
        &self.chunks[number / full].rows[number % full]
    }

    /// Returns the vector of a row.
    pub(crate) fn vector(&self, number: usize) -> KeptVector {
        let full = self.chunk_rows();
        let chunk = &self.chunks[number / full];
        let row = &chunk.rows[number % full];
        KeptVector { codes: chunk.codes.get(number % full, self.codes_len()), norm: row.norm, range: row.range }
    }

    /// Adds a row with its vector at the end.
    pub(crate) fn push(&mut self, row: VectorRow, vector: &KeptVector) {
        if self.len.is_multiple_of(self.chunk_rows()) {
            self.chunks.push(Arc::new(Chunk { rows: Vec::new(), codes: Codes::none(self.form) }));
        }
        if let Some(chunk) = self.chunks.last_mut().map(Arc::make_mut) {
            chunk.rows.push(row);
            chunk.codes.push(&vector.codes);
            self.len += 1;
        }
    }

    /// Replaces the vector of a row.
    pub(crate) fn set_vector(&mut self, number: usize, vector: &KeptVector) {
        let (chunk, at) = self.chunk_mut(number);
        chunk.codes.put(at, &vector.codes);
        (chunk.rows[at].norm, chunk.rows[at].range) = (vector.norm, vector.range);
    }

    /// Replaces the attributes of a row; returns the former ones.
    pub(crate) fn set_attributes(&mut self, number: usize, attributes: Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
        let (chunk, at) = self.chunk_mut(number);
        std::mem::replace(&mut chunk.rows[at].attributes, attributes)
    }

    fn chunk_mut(&mut self, number: usize) -> (&mut Chunk, usize) {
        let full = self.chunk_rows();
        (Arc::make_mut(&mut self.chunks[number / full]), number % full)
    }

    /// Removes a row, whose number the last row takes over; returns the removed row.
    pub(crate) fn swap_remove(&mut self, number: usize) -> VectorRow {
        let (last, codes_len) = (self.len - 1, self.codes_len());
        let vector = self.vector(last);
        let (chunk, _) = self.chunk_mut(last);
        chunk.codes.pop(codes_len);
        let mut removed = chunk.rows.pop().expect("no chunk is empty");
        let is_empty = chunk.rows.is_empty();
        if is_empty {
            self.chunks.pop();
        }
        self.len = last;
        if number != last {
            self.set_vector(number, &vector);
            let (chunk, at) = self.chunk_mut(number);
            std::mem::swap(&mut chunk.rows[at], &mut removed);
        }
        removed
    }

    /// Returns the bytes allocated for chunks and vectors, without names and attributes.
    pub(crate) fn memory(&self, allocation_len: impl Fn(usize) -> usize) -> usize {
        let chunk = |chunk: &Arc<Chunk>| {
            allocation_len(2 * size_of::<usize>() + size_of::<Chunk>())
                + allocation_len(chunk.rows.capacity() * size_of::<VectorRow>())
                + allocation_len(chunk.codes.capacity_bytes())
        };
        // Full chunks are alike, so that one of them stands for all.
        let of_full = match self.chunks.len() {
            0 | 1 => 0,
            len => (len - 1) * chunk(&self.chunks[0]),
        };
        of_full + self.chunks.last().map_or(0, chunk) + allocation_len(self.chunks.capacity() * size_of::<Arc<Chunk>>())
    }

    /// Returns a copy that shares nothing with the original.
    pub(crate) fn copy(&self) -> Self {
        let mut copy = Matrix::new(self.form, self.dimensions);
        for number in 0..self.len {
            let (row, vector) = (self.row(number), self.vector(number));
            let attributes = row.attributes.as_deref().map(Arc::from);
            copy.push(VectorRow::new(Arc::from(&*row.name), attributes, &vector), &vector);
        }
        copy
    }
}
