//! Errors for unknown commands and subcommands.

use crate::error::Error;
use crate::namespace::Namespace;
use crate::resp::Request;
use crate::spec::Names;

/// Maximum length of the part of an unknown command that its error quotes, in bytes.
const QUOTED_MAX: usize = 128;

#[cold]
pub(crate) fn unknown_command(request: Request<'_>, names: Names<'_>) -> Error {
    match names.find(request.name()) {
        Some(_) => {
            let word = clip(request.arg(1), QUOTED_MAX);
            let container = String::from_utf8_lossy(request.name()).to_ascii_uppercase();
            Error::UnknownSubcommand(word.to_vec(), container)
        }
        None => of_no_command(request),
    }
}

/// Logs an unknown command, once per name.
#[cold]
pub(crate) fn note(namespace: &Namespace, names: Names<'_>, request: Request<'_>, addr: &str) {
    let name = match names.find(request.name()) {
        Some(_) if request.len() > 1 => [request.name(), b"|", request.arg(1)].concat(),
        _ => request.name().to_vec(),
    };
    namespace.observed.unknown.note(&name, addr);
}

/// Returns the error that quotes the name and the first arguments of an unknown command.
pub(super) fn of_no_command(request: Request<'_>) -> Error {
    let mut args = Vec::new();
    for arg in request.args().skip(1) {
        if args.len() >= QUOTED_MAX {
            break;
        }
        let room = QUOTED_MAX - args.len();
        args.push(b'\'');
        args.extend_from_slice(clip(arg, room));
        args.extend_from_slice(b"' ");
    }
    let name = clip(request.name(), QUOTED_MAX);
    Error::UnknownCommand([b"'", name, b"', with args beginning with: ", &args].concat())
}

/// Truncates as C's `%.*s` would: after `max_len` bytes or before a NUL.
fn clip(word: &[u8], max_len: usize) -> &[u8] {
    let word = &word[..word.len().min(max_len)];
    word.split(|byte| *byte == 0).next().unwrap_or(word)
}
