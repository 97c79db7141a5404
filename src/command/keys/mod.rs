//! Commands on keys of any type.

pub(crate) mod databases;
pub(crate) mod dump;
pub(crate) mod expire;
pub(crate) mod generic;
pub(crate) mod migrate;
pub(crate) mod object;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod wait;
