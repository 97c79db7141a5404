//! The search for the vectors nearest to another: all rows are compared, a slice at a time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::vectors::filter::Filter;
use crate::vectors::matrix::{Chunk, Matrix, VectorRow};
use crate::vectors::quantise::{Codes, KeptVector, bit_distance, byte_distance, byte_product, float_distance};

/// Number of bytes of vectors that take as long to compare as one byte of attributes to read.
const FILTER_WEIGHT: usize = 4;

/// A search in the rows of a set as they were when it began.
pub(crate) struct Search {
    rows: Matrix,
    query: Query,
    filter: Option<Filter>,
    /// Number of rows wanted.
    count: usize,
    /// The nearest rows so far, the farthest of them at the top.
    nearest: BinaryHeap<Near>,
    /// Numbers of the next chunk and of the next row in it.
    next: (usize, usize),
    /// The number of the first row of the next chunk.
    first: usize,
}

/// The vector that rows are compared with, in the form of the set.
enum Query {
    Floats(Vec<f32>),
    /// Bytes, widened, and their range.
    Bytes(Vec<i16>, f32),
    Bits(Vec<u64>),
}

/// A row and its distance.
#[derive(Clone, Copy, Debug)]
struct Near {
    distance: f32,
    number: usize,
}

impl Ord for Near {
    fn cmp(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}

/// A row that was found.
#[derive(Debug)]
pub(crate) struct Neighbour<'s> {
    /// The element.
    pub(crate) row: &'s VectorRow,
    /// The distance from the query: 0 for the same direction, 2 for the opposite.
    pub(crate) distance: f32,
}

impl Neighbour<'_> {
    /// Returns the similarity: 1 for the same direction, 0 for the opposite.
    pub(crate) fn score(&self) -> f64 {
        1.0 - f64::from(self.distance) / 2.0
    }
}

impl Search {
    /// Begins a search for the `count` rows that are nearest to a vector, among those whose attributes the filter admits.
    pub(crate) fn new(rows: &Matrix, query: &KeptVector, count: usize, filter: Option<Filter>) -> Self {
        let query = match &query.codes {
            Codes::Floats(codes) => Query::Floats(codes.clone()),
            Codes::Bytes(codes) => Query::Bytes(codes.iter().map(|code| i16::from(*code)).collect(), query.range),
            Codes::Bits(codes) => Query::Bits(codes.clone()),
        };
        let count = count.min(rows.len());
        Search { rows: rows.clone(), query, filter, count, nearest: BinaryHeap::new(), next: (0, 0), first: 0 }
    }

    /// Compares rows until about `bytes` bytes of vectors and attributes were read; returns true if none is left.
    pub(crate) fn step(&mut self, bytes: usize) -> bool {
        let row_len = self.rows.form().bytes_len(self.rows.dimensions()) + size_of::<VectorRow>();
        let mut left = bytes;
        while let Some(chunk) = self.rows.chunks().get(self.next.0) {
            if left == 0 {
                return false;
            }
            let chunk = chunk.clone();
            let from = self.next.1;
            let to = chunk.rows.len().min(from + (left / row_len).max(1));
            left = left.saturating_sub((to - from) * row_len);
            let (to, filtered) = self.compare(&chunk, from, to, left);
            left = left.saturating_sub(filtered);
            if to == chunk.rows.len() {
                self.first += to;
                self.next = (self.next.0 + 1, 0);
            } else {
                self.next.1 = to;
            }
        }
        true
    }

    /// Compares rows of a chunk, until attributes of `left` bytes were read; returns the number of the next row, and the
    /// number of bytes of the attributes.
    fn compare(&mut self, chunk: &Chunk, from: usize, to: usize, left: usize) -> (usize, usize) {
        let dimensions = self.rows.dimensions();
        let codes_len = self.rows.form().codes_len(dimensions);
        let mut filtered = 0;
        for at in from..to {
            let codes = at * codes_len..(at + 1) * codes_len;
            let distance = match (&self.query, &chunk.codes) {
                (Query::Floats(query), Codes::Floats(rows)) => float_distance(query, &rows[codes]),
                (Query::Bytes(query, range), Codes::Bytes(rows)) => {
                    byte_distance(byte_product(query, &rows[codes]), *range, chunk.rows[at].range)
                }
                (Query::Bits(query), Codes::Bits(rows)) => bit_distance(query, &rows[codes], dimensions),
                _ => unreachable!("the query has the form of the set"),
            };
            let near = Near { distance, number: self.first + at };
            if !self.admits(near) {
                continue;
            }
            if let Some(filter) = &self.filter {
                let Some(attributes) = &chunk.rows[at].attributes else { continue };
                filtered += FILTER_WEIGHT * filter.cost(attributes.len());
                if filter.admits(attributes) {
                    self.keep(near);
                }
                if filtered > left {
                    return (at + 1, filtered);
                }
            } else {
                self.keep(near);
            }
        }
        (to, filtered)
    }

    /// Returns true if a row is nearer than the farthest of the rows that are kept.
    #[inline]
    fn admits(&self, near: Near) -> bool {
        self.nearest.len() < self.count || self.nearest.peek().is_some_and(|farthest| near < *farthest)
    }

    fn keep(&mut self, near: Near) {
        if self.nearest.len() == self.count {
            self.nearest.pop();
        }
        self.nearest.push(near);
    }

    /// Returns the rows that were found, the nearest first.
    pub(crate) fn found(&mut self) -> impl ExactSizeIterator<Item = Neighbour<'_>> {
        let nearest = std::mem::take(&mut self.nearest).into_sorted_vec();
        let rows = &self.rows;
        nearest.into_iter().map(|near| Neighbour { row: rows.row(near.number), distance: near.distance })
    }
}

/// Assertion that a search may go on in another thread than it began in.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Search>();
    is_send::<Arc<Chunk>>();
};
