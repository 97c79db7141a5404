//! Errors for unknown commands and subcommands.

use crate::error::Error;
use crate::namespace::Namespace;
use crate::profile::{Profile, RefusalReply, no_permission};
use crate::resp::Request;
use crate::spec::Names;

/// Maximum length of the part of an unknown command that its error quotes, in bytes.
const QUOTED_MAX: usize = 128;

#[cold]
pub(crate) fn unknown_command(request: Request<'_>, names: Names<'_>, user: &[u8]) -> Error {
    if let Some(profile) = names.profile() {
        return Error::Verbatim(line_of_profile(profile, request, names, user));
    }
    match names.find(request.name()) {
        Some(_) => {
            let word = clip(request.arg(1), QUOTED_MAX);
            let container = String::from_utf8_lossy(request.name()).to_ascii_uppercase();
            Error::UnknownSubcommand(word.to_vec(), container)
        }
        None => of_no_command(request),
    }
}

/// Returns the error line of a service for a command that it lacks or refuses.
fn line_of_profile(profile: &Profile, request: Request<'_>, names: Names<'_>, user: &[u8]) -> Vec<u8> {
    let refused = names.find_beyond_profile(request).filter(|command| command.is_refused_by(profile));
    let word = (request.len() > 1).then(|| request.arg(1));
    match (profile.refusal, refused, word) {
        (RefusalReply::NoPermission, Some(command), _) => no_permission(user, &command.name),
        (_, _, Some(word)) if names.find(request.name()).is_some() => profile.no_subcommand.line(word, request.name()),
        _ => profile.no_command.line(request.name(), request.args().skip(1)),
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
