//! Where log lines go: standard output, or the file that `logfile` names, line by line without delay.

use std::fs::OpenOptions;
use std::io;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;

use crate::config::{Config, LogLevel};

/// Starts logging as the settings say.
///
/// # Errors
/// When the log file cannot be opened.
pub fn start(config: &Config) -> io::Result<()> {
    let level = match config.loglevel {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
    };
    let lines = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_target(false);
    match &config.logfile {
        None => lines.init(),
        Some(path) => lines.with_writer(Mutex::new(OpenOptions::new().create(true).append(true).open(path)?)).init(),
    }
    Ok(())
}
