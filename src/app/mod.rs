//! The program around the server: command line, process, log, health check, redis-cli, copy, lock,
//! drain.

pub(crate) mod cli;
pub(crate) mod copy;
pub(crate) mod daemon;
pub(crate) mod drain;
pub(crate) mod endpoint;
pub(crate) mod healthcheck;
mod json;
pub(crate) mod link;
pub(crate) mod lock;
pub(crate) mod logging;
pub(crate) mod oom_score;
pub(crate) mod process;
mod ready;
pub(crate) mod redis_cli;
pub(crate) mod uri;

use std::process::ExitCode;

use cli::CommandLine;
pub use process::Console;

/// Executes the request of the command line; returns the exit status of the process.
pub fn main(console: Console) -> ExitCode {
    let fail = |text: &str| {
        (console.complain)(text);
        ExitCode::FAILURE
    };
    match cli::parse(std::env::args_os()) {
        Ok(CommandLine::Run { config, config_file }) => process::run(*config, config_file, console),
        Ok(CommandLine::Healthcheck { target, config }) => match healthcheck::check(&target, &config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        },
        Ok(CommandLine::RedisCli(args)) => redis_cli::run(args, &cli::version("redis-cli"), console.complain),
        Ok(CommandLine::Copy(args)) => copy::run(args, console),
        Ok(CommandLine::Lock(args)) => lock::run(args, console),
        Ok(CommandLine::Drain(args)) => drain::run(args, console),
        Ok(CommandLine::Print(text)) => {
            (console.say)(text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}
