//! CLIENT: what the server and other clients know about this connection.

use std::sync::Arc;

use super::args::is_word;
use super::{
    ADMIN, Arg, Call, Command, Flags, Group, LOADING, NO_SCRIPT, STALE, block, integer, one_of, string, token,
};
use crate::clients::ClientInfo;
use crate::error::{Error, Result};
use crate::resp::parse_int;

const PLAIN: Flags = NO_SCRIPT | LOADING | STALE;

/// Declares the commands of this file.
pub const COMMANDS: &[Command] =
    &[Command::container(
        "CLIENT",
        Group::Connection,
        &[
            Command::new("GETNAME", get_name, PLAIN, Group::Connection).docs(
                "2.6.9",
                "O(1)",
                "Returns the connection's name.",
            ),
            Command::new("ID", id, PLAIN, Group::Connection).docs("5.0.0", "O(1)", "Returns the connection's number."),
            Command::new("INFO", info, PLAIN, Group::Connection).tips(&["nondeterministic_output"]).docs(
                "6.2.0",
                "O(1)",
                "Returns this connection's line of CLIENT LIST.",
            ),
            Command::new("LIST", list, PLAIN | ADMIN, Group::Connection)
                .args(LIST_ARGS)
                .tips(&["nondeterministic_output"])
                .docs("2.4.0", "O(N) where N is the number of client connections", "Lists who is connected."),
            Command::new("SETINFO", set_info, PLAIN, Group::Connection)
                .args(&[one_of("attr", &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")])])
                .docs("7.2.0", "O(1)", "Notes which client library uses the connection."),
            Command::new("SETNAME", set_name_command, PLAIN, Group::Connection)
                .args(&[string("connection-name")])
                .docs("2.6.9", "O(1)", "Names the connection."),
        ],
    )
    .docs("2.4.0", "Depends on subcommand.", "Holds the commands about client connections.")];

const LIST_ARGS: &[Arg] = &[
    one_of(
        "normal_master_replica_pubsub",
        &[token("normal", "NORMAL"), token("master", "MASTER"), token("replica", "REPLICA"), token("pubsub", "PUBSUB")],
    )
    .token("TYPE")
    .optional()
    .since("5.0.0"),
    block("id", &[integer("client-id").multiple()]).token("ID").optional().since("6.2.0"),
];

fn id(call: &mut Call<'_>) -> Result<()> {
    call.reply.int(call.session.info.id as i64);
    Ok(())
}

fn get_name(call: &mut Call<'_>) -> Result<()> {
    match call.session.info.names().name {
        name if name.is_empty() => call.reply.null(),
        name => call.reply.bulk(name.as_bytes()),
    }
    Ok(())
}

fn set_name_command(call: &mut Call<'_>) -> Result<()> {
    let name = client_name(call.args.bytes()?)?;
    set_name(call, name);
    call.reply.ok();
    Ok(())
}

fn set_info(call: &mut Call<'_>) -> Result<()> {
    let (attribute, value) = (call.args.bytes()?, call.args.bytes()?);
    if is_word(attribute, "LIB-NAME") {
        let value = printable(value).ok_or(Error::SetInfoValue("lib-name"))?;
        call.session.info.update_names(|names| names.lib_name = value);
    } else if is_word(attribute, "LIB-VER") {
        let value = printable(value).ok_or(Error::SetInfoValue("lib-ver"))?;
        call.session.info.update_names(|names| names.lib_ver = value);
    } else {
        return Err(Error::SetInfoOption(attribute.to_vec()));
    }
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let client = call.session.info.clone();
    reply_lines(call, &[client]);
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let clients = match call.args.next_word() {
        None => call.server.clients.all(),
        Some(option) if is_word(option, "TYPE") && call.args.left() == 1 => clients_of_type(call)?,
        Some(option) if is_word(option, "ID") && call.args.left() >= 1 => clients_by_id(call)?,
        Some(_) => return Err(Error::Syntax),
    };
    reply_lines(call, &clients);
    Ok(())
}

/// Every client is a normal one as long as there is neither replication nor pub/sub.
fn clients_of_type(call: &mut Call<'_>) -> Result<Vec<Arc<ClientInfo>>> {
    let word = call.args.bytes()?;
    let is = |name| is_word(word, name);
    if is("normal") {
        Ok(call.server.clients.all())
    } else if is("slave") || is("replica") || is("pubsub") || is("master") {
        Ok(Vec::new())
    } else {
        Err(Error::UnknownClientType(word.to_vec()))
    }
}

fn clients_by_id(call: &mut Call<'_>) -> Result<Vec<Arc<ClientInfo>>> {
    let all = call.server.clients.all();
    let mut chosen = Vec::new();
    while let Some(word) = call.args.next_word() {
        let id = parse_int(word).ok_or(Error::other("Invalid client ID"))?;
        chosen.extend(all.iter().find(|client| client.id == id as u64).cloned());
    }
    Ok(chosen)
}

fn reply_lines(call: &mut Call<'_>, clients: &[Arc<ClientInfo>]) {
    call.session.info.set_last_command(call.command);
    let now = call.now();
    let text: String = clients.iter().map(|client| client.line(now) + "\n").collect();
    call.reply.verbatim("txt", text.as_bytes());
}

/// Checks a connection's name.
///
/// # Errors
/// [`Error::ClientName`] when it has bytes outside `!`..`~`.
pub(super) fn client_name(name: &[u8]) -> Result<String> {
    printable(name).ok_or(Error::ClientName)
}

/// Names the connection.
pub(super) fn set_name(call: &mut Call<'_>, name: String) {
    call.session.info.update_names(|names| names.name = name);
}

/// Returns the text if all its bytes can stand in a line of CLIENT LIST.
fn printable(text: &[u8]) -> Option<String> {
    let fits = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    fits.then(|| text.iter().copied().map(char::from).collect())
}
