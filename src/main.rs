//! The `keylatch` binary: read the command line, run, tell how it went.

use std::fmt::Display;
use std::process::ExitCode;

use keylatch::cli::{self, Invocation};
use keylatch::{healthcheck, process};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match cli::parse(std::env::args_os()) {
        Ok(Invocation::Print(text)) => {
            say(text.trim_end());
            return ExitCode::SUCCESS;
        }
        Ok(Invocation::Run { config, config_file }) => process::run(*config, config_file, say),
        Ok(Invocation::Healthcheck(config)) => healthcheck::ask(&config),
        Err(error) => return fail(&error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stdout, reason = "answers to the command line are for standard output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a start that fails is told where the caller looks")]
fn fail(error: &dyn Display) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}
