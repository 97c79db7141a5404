//! redis-cli, used when the binary has that name: it sends one command, or the lines of standard input, and prints the
//! replies as redis-cli does; on a terminal it is interactive. Health checks and scripts of containers expect such a
//! program, and an image without a shell has no other. It is not part of the server.

mod big_keys;
mod help;
mod hints;
mod history;
mod interrupts;
mod json;
mod latency;
mod lines;
mod options;
mod output;
mod pipe;
mod prompt;
mod scan;
mod session;
mod show;
mod stat;
mod syntax;
mod tls_words;
mod usage;

use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;

use crate::text::system_text;

use lines::Lines;
use options::{CliInvocation, CliMode, CliOptions};
use output::{is, print, unwritten};
use session::CliSession;

/// Runs with the arguments after the program name; returns the exit status.
pub(crate) fn run(words: Vec<Vec<u8>>, version: &str, complain: fn(&str)) -> ExitCode {
    let password = std::env::var_os("REDISCLI_AUTH").map(std::os::unix::ffi::OsStringExt::into_vec);
    let outcome = match options::read(words, version, password) {
        Ok(CliInvocation::Print(text)) => print(text.as_bytes()).map_err(|cause| unwritten(&cause)).map(|()| true),
        Ok(CliInvocation::Talk(options)) => talk(*options, version, complain),
        Err(reason) => Err(reason),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            if !reason.is_empty() {
                complain(&reason);
            }
            ExitCode::FAILURE
        }
    }
}

/// Executes the options; returns true for exit status 0.
fn talk(mut options: CliOptions, version: &str, complain: fn(&str)) -> Result<bool, String> {
    if options.last_from_stdin {
        let mut last = Vec::new();
        io::stdin().read_to_end(&mut last).map_err(|cause| system_text(&cause))?;
        options.command.push(last);
    }
    if options.mode == CliMode::Pipe {
        return pipe::run(&options, complain);
    }
    let (mode, command) = (options.mode, std::mem::take(&mut options.command));
    let repeat = options.repeat;
    let mut session = CliSession::new(options, complain);
    let connected = session.connect();
    match command.first() {
        _ if mode != CliMode::Commands => {}
        None => {
            // A later line connects again.
            connected.map_or_else(|reason| complain(&reason), drop);
            session.options.error_status = false;
            let run = if io::stdin().is_terminal() { prompt::run } else { lines::run };
            return run(session, version);
        }
        Some(first) if is(first, b"help") || is(first, b"?") => {
            return Lines::new(session, version).help(&command[1..]);
        }
        Some(_) => return connected.and_then(|_| session.repeat(&command, repeat)),
    }
    if !connected? {
        return Ok(false);
    }
    match mode {
        CliMode::BigKeys => big_keys::run(&mut session),
        CliMode::Stat => stat::run(&mut session),
        CliMode::Latency => latency::run(&mut session),
        CliMode::Scan | CliMode::Commands | CliMode::Pipe => scan::run(&mut session),
    }
}
