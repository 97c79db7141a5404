//! The README's example of the redis crate, which readme.py takes out of it and names at build time.
include!(env!("README_EXAMPLE"));
