//! Commands on keys of any type.

pub mod databases;
pub mod dump;
pub mod expire;
pub mod generic;
pub mod migrate;
pub mod object;
pub mod scan;
pub mod sort;
pub mod wait;
