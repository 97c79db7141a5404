//! The `keylatch` binary: sets up the allocator and standard output, and calls the library.

use std::io::{self, Write};
use std::process::ExitCode;

use keylatch::Console;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: keylatch::Jemalloc = keylatch::Jemalloc;

fn main() -> ExitCode {
    keylatch::run_binary(Console { say, complain })
}

fn say(text: &str) {
    // A reader that has gone, as in `keylatch --help | head -1`, is no reason to panic.
    let _ = writeln!(io::stdout(), "{text}");
}

fn complain(text: &str) {
    // Nor is standard error that is full, or whose reader has gone: the exit status tells as well.
    let _ = writeln!(io::stderr(), "{text}");
}
