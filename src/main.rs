//! The `keylatch` binary: sets up the allocator and standard output, and calls the library.

use std::process::ExitCode;

use keylatch::Console;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: keylatch::Jemalloc = keylatch::Jemalloc;

fn main() -> ExitCode {
    keylatch::run_binary(Console { say, complain })
}

#[expect(clippy::print_stdout, reason = "answers to the command line are for standard output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a start that fails is told where the caller looks")]
fn complain(text: &str) {
    eprintln!("{text}");
}
