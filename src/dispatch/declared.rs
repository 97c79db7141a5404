//! What a request says of itself before it is executed, for data in a cluster: the keys that it may access, and whether it can be
//! executed more than once.

use crate::client::info::LockName;
use crate::dispatch::args::is_word;
use crate::resp::{Request, parse_int};
use crate::spec::{CommandSpec, Group, READ, WRITE};

/// Returns whether a command reads all keys of a database.
pub(super) fn needs_all_keys(command: &CommandSpec) -> bool {
    if command.name == "lock.info" {
        return true; // a cycle of clients that wait for each other leads through any keys
    }
    let is_about_keys = command.flags & (READ | WRITE) != 0 && !clears(command);
    is_about_keys && command.keys.is_empty() && command.command.key_search.is_none()
}

/// Returns whether a command deletes all keys of a database, or of all.
fn clears(command: &CommandSpec) -> bool {
    matches!(&command.name[..], "flushall" | "flushdb")
}

/// Returns whether a command can be executed again, because others have changed keys meanwhile: it does not change what is
/// known of its client.
pub(super) fn is_repeatable(command: &CommandSpec) -> bool {
    match command.command.group {
        Group::Connection => matches!(&command.name[..], "echo" | "ping" | "select"),
        Group::PubSub => is_message(command),
        _ => true,
    }
}

/// Returns the keys that a request may access, each with its database, once and in order, if its client has selected this
/// one.
pub(super) fn keys_of(command: &'static CommandSpec, request: Request<'_>, db: usize) -> Vec<LockName> {
    let mut keys: Vec<LockName> =
        command.keys_of(request).map(|(position, _)| (db, request.arg(position).into())).collect();
    let number = |at: usize| parse_int(request.arg(at)).and_then(|number| usize::try_from(number).ok());
    match &command.name[..] {
        "move" if request.len() > 2 => keys.extend(number(2).map(|other| (other, request.arg(1).into()))),
        "copy" if request.len() > 4 => {
            let places = (3..request.len() - 1).filter(|at| is_word(request.arg(*at), "DB"));
            keys.extend(places.filter_map(|at| Some((number(at + 1)?, request.arg(2).into()))));
        }
        _ => {}
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns whether a command sends messages to the clients of all servers.
fn is_message(command: &CommandSpec) -> bool {
    matches!(&command.name[..], "publish" | "spublish")
}
