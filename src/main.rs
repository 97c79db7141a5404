//! The `keylatch` binary: read the command line, run, tell how it went.

use std::process::ExitCode;

use keylatch::app::cli::{self, Invocation};
use keylatch::app::process::{self, Console};
use keylatch::app::{healthcheck, redis_cli};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(Invocation::Run { config, config_file }) => process::run(*config, config_file, Console { say, complain }),
        Ok(Invocation::Healthcheck { question, config }) => match healthcheck::ask(&question, &config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Ok(Invocation::RedisCli(words)) => redis_cli::run(words, &cli::version("redis-cli"), complain),
        Ok(Invocation::Print(text)) => {
            say(text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}

#[expect(clippy::print_stdout, reason = "answers to the command line are for standard output")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a start that fails is told where the caller looks")]
fn complain(text: &str) {
    eprintln!("{text}");
}

fn fail(text: &str) -> ExitCode {
    complain(text);
    ExitCode::FAILURE
}
