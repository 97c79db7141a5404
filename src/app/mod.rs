//! The program around the server: command line, process, log, health check, redis-cli.

pub mod cli;
pub mod daemon;
pub mod dial;
pub mod healthcheck;
pub mod logging;
pub mod oom_score;
pub mod process;
pub mod redis_cli;
