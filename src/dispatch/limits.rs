//! What a request needs that there may be too little of: memory, and replicas to write to.

use crate::client::session::Session;
use crate::namespace::Namespace;
use crate::resp::Request;
use crate::spec::{CommandSpec, DENY_OOM, WRITE};

/// Returns whether a command may take memory. Queueing does, and EXEC as much as what it carries out.
#[cold]
pub(crate) fn needs_memory(session: &Session, command: &CommandSpec) -> bool {
    let needs = |command: &CommandSpec| command.command.flags & DENY_OOM != 0;
    match &session.transaction {
        None => needs(command),
        Some(transaction) if command.name == "exec" => transaction.queue.iter().any(|(queued, _)| needs(queued)),
        Some(_) => !matches!(&command.name[..], "discard" | "quit" | "reset"),
    }
}

/// Returns whether a request writes: by its command, by what a script says of itself, or as EXEC by what was queued.
#[cold]
pub(crate) fn writes(namespace: &Namespace, session: &Session, command: &CommandSpec, request: Request<'_>) -> bool {
    #[cfg(feature = "lua")]
    if let Some(flags) = crate::command::scripting::declared_flags(namespace, command, request) {
        return flags & crate::script::NO_WRITES == 0;
    }
    let _ = (namespace, request);
    let writes = |command: &CommandSpec| command.command.flags & WRITE != 0;
    match &session.transaction {
        Some(transaction) if command.name == "exec" => transaction.queue.iter().any(|(queued, _)| writes(queued)),
        _ => writes(command),
    }
}
