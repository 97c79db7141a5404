//! Keys that a request may access, their slot, and whether it can be executed more than once: determined before its
//! execution, for clusters and for data in one.

use crate::resp::Request;
use crate::spec::marks::{CHANGES_USERS, CLEARS, OF_FUNCTIONS, PUBLISHES, READS_ANY_KEY, REPEATABLE};
use crate::spec::{CommandSpec, Group, READ, WRITE};
use crate::store::KeyName;
use crate::topology::{Slot, SlotsDiffer, same_slot};

/// Returns whether a command reads all keys of a database.
pub(super) fn needs_all_keys(command: &CommandSpec) -> bool {
    let is_about_keys = command.flags & (READ | WRITE) != 0 && !command.is(CLEARS | OF_FUNCTIONS);
    let names_keys = !command.keys.is_empty() || command.command.key_search.is_some();
    command.is(READS_ANY_KEY) || is_about_keys && !names_keys
}

/// Returns the slot of the keys and channels of shards of a request, `None` without any.
///
/// # Errors
/// If their slots differ.
pub(super) fn slot_of_request(command: &CommandSpec, request: Request<'_>) -> Result<Option<Slot>, SlotsDiffer> {
    same_slot(routed_keys_of(command, request))
}

/// Returns the keys and channels of shards of a request.
pub(super) fn routed_keys_of<'r>(command: &CommandSpec, request: Request<'r>) -> impl Iterator<Item = &'r [u8]> {
    command.routed_by(request).map(move |position| request.arg(position))
}

/// Returns whether a command can be executed again after other clients have changed its keys: it changes neither the state
/// of its client nor users, after whose change calls are admitted and executed again.
pub(super) fn is_repeatable(command: &CommandSpec) -> bool {
    match command.command.group {
        Group::Connection => command.is(REPEATABLE),
        Group::PubSub => command.is(PUBLISHES),
        _ => !command.is(CHANGES_USERS),
    }
}

/// Returns the keys that a request may access if its client has selected database `db`: each with its database, sorted,
/// without duplicates.
pub(super) fn keys_of(command: &'static CommandSpec, request: Request<'_>, db: usize) -> Vec<KeyName> {
    let mut keys: Vec<KeyName> =
        command.keys_of(request).map(|(position, _)| (db, request.arg(position).into())).collect();
    let elsewhere = command.command.keys_elsewhere.map(|find| find(request)).unwrap_or_default();
    keys.extend(elsewhere.into_iter().map(|(db, position)| (db, request.arg(position).into())));
    keys.sort_unstable();
    keys.dedup();
    keys
}
