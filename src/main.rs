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
    // A closed reader, as in `keylatch --help | head -1`, is no reason to panic.
    let _ = writeln!(io::stdout(), "{text}");
}

fn complain(text: &str) {
    // A full or closed standard error is no reason either: the exit status reports the failure, too.
    let _ = writeln!(io::stderr(), "{text}");
}
