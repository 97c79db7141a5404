//! `keylatch drain`: sends the clients of a server to another one, and ends it, by `SHUTDOWN DRAIN`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::app::endpoint::{Endpoint, TlsArgs};
use crate::app::link::RespConnection;
use crate::app::process::Console;
use crate::resp::Frame;
use crate::text::system_text;

/// The environment variable with the password of the server.
const PASSWORD: &str = "KEYLATCH_AUTH";

const DETAILS: &str = "\
SERVER is redis://[user[:password]@]host[:port], rediss://..., or unix:///path. A password can also come from the
environment, KEYLATCH_AUTH, which other users cannot see.

Clients that have asked for notices of maintenance (CLIENT MAINT_NOTIFICATIONS, as current client libraries do)
are told to go to HOST:PORT. The server ends when they have gone, or when the time is over. It takes its data
along: let a replica take over (FAILOVER, then drain), or copy the keys, before.

Exit status: 0 when the server has shut down, 1 when it returns an error, 2 when there is no connection.";

/// The arguments, as parsed by clap.
#[derive(Debug, Parser)]
#[command(
    about = "Sends the clients of a server to another one, and ends it.",
    override_usage = "keylatch drain [options] SERVER --to HOST:PORT",
    after_help = DETAILS,
    no_binary_name = true
)]
struct Words {
    /// The server to drain and shut down
    #[arg(value_name = "SERVER")]
    server: OsString,
    /// The server that its clients connect to instead
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// The time that they have
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u32,
    #[command(flatten)]
    tls: TlsArgs,
}

/// The exit status when the server refuses, and when it cannot be reached.
const STATUS: [u8; 2] = [1, 2];

/// Runs with the arguments after `drain`; returns the exit status.
pub(crate) fn run(words: Vec<Vec<u8>>, console: Console) -> ExitCode {
    let words = match Words::try_parse_from(words.into_iter().map(OsString::from_vec)) {
        Ok(words) => words,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            (console.say)(error.to_string().trim_end());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            (console.complain)(error.to_string().trim_start_matches("error: ").trim_end());
            return STATUS[1].into();
        }
    };
    match drain(words) {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(refusal)) => {
            (console.complain)(&refusal);
            STATUS[0].into()
        }
        Err(reason) => {
            (console.complain)(&reason);
            STATUS[1].into()
        }
    }
}

/// Drains the server; returns its refusal, if any.
fn drain(words: Words) -> Result<Option<String>, String> {
    let password = std::env::var_os(PASSWORD).map(OsString::into_vec);
    let endpoint = Endpoint::read(&words.server.to_string_lossy(), password)
        .map_err(|reason| format!("SERVER: {}", reason.replace("PASSWORD", PASSWORD)))?;
    let (name, tls) = (endpoint.address.to_string(), words.tls.options());
    let lost = |cause: io::Error| format!("{name}: {}", system_text(&cause));
    let mut link = RespConnection::connect(&endpoint.address, endpoint.is_tls.then_some(&tls)).map_err(lost)?;
    if let Some(login) = &endpoint.login {
        link.send(&login.words()).map_err(lost)?;
        if let Frame::Error(text) = link.receive().map_err(lost)? {
            return Ok(Some(format!("{name}: {}", String::from_utf8_lossy(&text))));
        }
    }
    let seconds = words.seconds.to_string();
    link.send(&[b"SHUTDOWN", b"DRAIN", words.to.as_bytes(), seconds.as_bytes()]).map_err(lost)?;
    match link.receive() {
        Ok(Frame::Error(text)) => Ok(Some(format!("{name}: {}", String::from_utf8_lossy(&text)))),
        Ok(_) => Ok(Some(format!("{name}: it has replied, and goes on"))),
        // It says nothing more when it ends.
        Err(cause) if matches!(cause.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => Ok(None),
        Err(cause) => Err(lost(cause)),
    }
}
