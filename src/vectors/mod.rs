//! Vector sets without the store: how vectors are quantised and kept, how the nearest ones are found, and the expressions
//! that select elements by their attributes.
//!
//! Vectors are normalised when they are added, so that the similarity of two is their dot product. The search is exact: it
//! compares all rows, a slice at a time, on a frozen copy of the [`Matrix`], which shares its chunks with the original
//! until these change.
//!
//! All arithmetic is that of Redis, in single precision and in the same order, so that scores and vectors are the same to
//! the last digit.

mod attributes;
pub(crate) mod filter;
mod matrix;
mod projection;
mod quantise;
mod search;
#[cfg(test)]
mod tests;

pub(crate) use filter::Filter;
pub(crate) use matrix::{Matrix, VectorRow};
pub(crate) use projection::{PROJECTION_MAX, Projection};
pub(crate) use quantise::{KeptVector, Quantisation, floats};
pub(crate) use search::{Neighbour, Search};

/// Maximum number of dimensions of a vector.
pub(crate) const DIMENSIONS_MAX: usize = 1 << 16;
