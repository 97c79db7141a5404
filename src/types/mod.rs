//! The data types above the store: a file for each, with the formats of its values. How values are stored is in
//! `store/value/`.

mod distinct;
mod empty;
mod hash;
mod list;
mod options;
pub(crate) mod payload;
mod set;
mod sorted_set;
mod stream;
