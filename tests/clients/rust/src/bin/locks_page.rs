//! The example of the redis crate in docs/LOCKS.md, which locks_page.py takes out of it and names at build time.
include!(env!("LOCKS_PAGE_EXAMPLE"));
