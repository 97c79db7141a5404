//! A minimal redis-cli, used when the binary has that name: it sends one command, or the lines of standard input, and
//! prints the replies as redis-cli does. Health checks and scripts of containers expect such a program, and an image
//! without a shell has no other. It is not part of the server.
//!
//! It has no interactive mode.

mod options;
mod show;

use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

use crate::app::link::{Link, lost};
use crate::resp::Frame;
use crate::text::{split_words, system_text};

use options::{Options, Request};

/// Commands after which messages arrive until the connection closes.
const STREAMING: [&[u8]; 4] = [b"monitor", b"psubscribe", b"ssubscribe", b"subscribe"];

/// Commands whose reply is human-readable text, which is printed verbatim.
const TEXTS: [&[&[u8]]; 12] = [
    &[b"info"],
    &[b"lolwut"],
    &[b"debug", b"htstats"],
    &[b"debug", b"htstats-key"],
    &[b"memory", b"malloc-stats"],
    &[b"memory", b"doctor"],
    &[b"cluster", b"nodes"],
    &[b"cluster", b"info"],
    &[b"client", b"list"],
    &[b"client", b"info"],
    &[b"latency", b"graph"],
    &[b"latency", b"doctor"],
];

/// Runs with the arguments after the program name; returns the exit status.
pub(crate) fn run(words: Vec<Vec<u8>>, version: &str, complain: fn(&str)) -> ExitCode {
    let password = std::env::var_os("REDISCLI_AUTH").map(std::os::unix::ffi::OsStringExt::into_vec);
    let outcome = match options::read(words, version, password) {
        Ok(Request::Print(text)) => print(text.as_bytes()).map_err(|cause| system_text(&cause)).map(|()| true),
        Ok(Request::Talk(options)) => talk(*options, complain),
        Err(reason) => Err(reason),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            complain(&reason);
            ExitCode::FAILURE
        }
    }
}

/// Connects and sends the commands; returns whether the exit status is 0.
fn talk(mut options: Options, complain: fn(&str)) -> Result<bool, String> {
    if options.command.is_empty() && io::stdin().is_terminal() {
        return Err("redis-cli of keylatch has no interactive mode: give a command, as in 'redis-cli ping', or pipe \
                    commands to it, one in a line"
            .into());
    }
    if options.last_from_stdin {
        let mut last = Vec::new();
        io::stdin().read_to_end(&mut last).map_err(|cause| system_text(&cause))?;
        options.command.push(last);
    }
    let address = &options.address;
    let link = Link::connect(address, options.tls.as_ref())
        .map_err(|cause| format!("Could not connect to Redis at {address}: {}", system_text(&cause)))?;
    let mut session = Session {
        link,
        is_raw: options.raw.unwrap_or_else(|| !io::stdout().is_terminal()),
        error_status: options.error_status,
    };
    session.prepare(&options, complain)?;
    if !options.command.is_empty() {
        return session.command(&options.command, complain);
    }
    for line in io::stdin().lines() {
        let line = line.map_err(|cause| system_text(&cause))?;
        match split_words(line.as_bytes()) {
            None => print(b"Invalid argument(s)\n").map_err(|cause| system_text(&cause))?,
            Some(words) if words.is_empty() => {}
            Some(words) if is(&words[0], b"quit") || is(&words[0], b"exit") => break,
            Some(words) => {
                if !session.command(&words, complain)? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// One connection.
struct Session {
    link: Link,
    is_raw: bool,
    error_status: bool,
}

impl Session {
    /// Authenticates and selects the database by the options. An error is printed, and the command is sent
    /// nevertheless.
    fn prepare(&mut self, options: &Options, complain: fn(&str)) -> Result<(), String> {
        let database = options.database.to_string();
        let mut first: Vec<(String, Vec<&[u8]>)> = Vec::new();
        if let Some(password) = &options.password {
            let user = options.user.as_deref();
            first.push(("AUTH".into(), [&b"AUTH"[..]].into_iter().chain(user).chain([&password[..]]).collect()));
        }
        if options.resp3 {
            first.push(("HELLO 3".into(), vec![b"HELLO", b"3"]));
        }
        if options.database != 0 {
            first.push((format!("SELECT {database}"), vec![b"SELECT", database.as_bytes()]));
        }
        for (name, words) in first {
            self.link.send(&words).map_err(|cause| failed(&cause))?;
            if let Frame::Error(text) = self.link.receive().map_err(|cause| failed(&cause))? {
                complain(&format!("{name} failed: {}", String::from_utf8_lossy(&text)));
            }
        }
        Ok(())
    }

    /// Sends a command and prints the reply; returns whether the exit status stays 0.
    fn command(&mut self, words: &[Vec<u8>], complain: fn(&str)) -> Result<bool, String> {
        let request: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.link.send(&request).map_err(|cause| failed(&cause))?;
        let is_text =
            TEXTS.iter().any(|text| words.len() >= text.len() && text.iter().zip(words).all(|(a, b)| is(b, a)));
        let is_streaming = STREAMING.iter().any(|name| is(&words[0], name));
        loop {
            let frame = match self.link.receive() {
                Ok(frame) => frame,
                // SHUTDOWN closes the connection, as requested.
                Err(_) if is(&words[0], b"shutdown") => return Ok(true),
                Err(cause) => return Err(failed(&cause)),
            };
            if let Frame::Error(text) = &frame
                && self.error_status
            {
                complain(&String::from_utf8_lossy(text));
                return Ok(false);
            }
            // A push message is not the reply.
            if matches!(frame, Frame::Push(_)) && !is_streaming {
                continue;
            }
            let shown = match (is_text, self.is_raw) {
                (true, _) => show::raw(&frame),
                (false, true) => [show::raw(&frame), b"\n".to_vec()].concat(),
                (false, false) => show::typed(&frame, 0),
            };
            // If standard output is closed, there is nothing more to print.
            if print(&shown).is_err() || !is_streaming || matches!(frame, Frame::Error(_)) {
                return Ok(true);
            }
        }
    }
}

fn is(word: &[u8], name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

fn failed(cause: &io::Error) -> String {
    format!("Error: {}", lost(cause))
}

fn print(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}
