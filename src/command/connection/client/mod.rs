//! CLIENT: information about this connection and about other clients.

mod admin;
mod notices;
mod tracking;

use std::sync::Arc;

use crate::client::info::ClientInfo;
use crate::client::session::Replies;
use crate::command::connection::client::admin::ClientType;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::marks::{KEEPS_CACHING, OF_SENTINEL, ONLY_VALKEY};
use crate::spec::{ADMIN, Arg, Flags, Group, LOADING, NO_SCRIPT, STALE, block, integer, one_of, string, token};

const PLAIN: Flags = NO_SCRIPT | LOADING | STALE;
const RULE: Flags = PLAIN | ADMIN;
const TIPS: &[&str] = &["nondeterministic_output"];
const PER_CLIENT: &str = "O(N) where N is the number of client connections";

/// Declares CLIENT with all its subcommands.
#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::container("CLIENT", Group::Connection, &[
        Command::new("CACHING", tracking::caching, PLAIN, Group::Connection)
            .args(&[one_of("mode", &[token("yes", "YES"), token("no", "NO")])])
            .docs("6.0.0", "O(1)", "Sets whether the keys read by the next command are tracked."),
        Command::new("CAPA", capabilities, PLAIN, Group::Connection)
            .args(&[string("capability").multiple()])
            .marks(ONLY_VALKEY)
            .docs("8.0.0", "O(1)", "Declares capabilities of the client: with `redirect`, a replica sends it to the primary."),
        Command::new("GETNAME", get_name, PLAIN, Group::Connection)
            .docs("2.6.9", "O(1)", "Returns the connection's name."),
        Command::new("GETREDIR", tracking::get_redir, PLAIN, Group::Connection)
            .docs("6.0.0", "O(1)", "Returns the client id that tracking messages are redirected to."),
        Command::new("ID", id, PLAIN, Group::Connection)
            .docs("5.0.0", "O(1)", "Returns the client id of the connection."),
        Command::new("INFO", info, PLAIN, Group::Connection)
            .tips(TIPS)
            .docs("6.2.0", "O(1)", "Returns information about the connection."),
        Command::new("KILL", admin::kill, RULE, Group::Connection)
            .args(admin::KILL_ARGS)
            .arity(-3)
            .docs("2.4.0", PER_CLIENT, "Closes client connections."),
        Command::new("LIST", list, RULE, Group::Connection)
            .args(LIST_ARGS)
            .tips(TIPS)
            .docs("2.4.0", PER_CLIENT, "Lists the connected clients."),
        Command::new("MAINT_NOTIFICATIONS", notices::maint_notifications, PLAIN, Group::Connection)
            .args(notices::ARGS)
            .docs("0.2.0", "O(1)", "Sets whether the connection is told of maintenance, such as the drain of the server."),
        Command::new("NO-EVICT", no_evict, RULE, Group::Connection)
            .args(SWITCH)
            .docs("7.0.0", "O(1)", "Exempts the connection from client eviction."),
        Command::new("NO-TOUCH", no_touch, PLAIN, Group::Connection)
            .args(SWITCH)
            .docs("7.2.0", "O(1)", "Sets whether the connection's commands, except TOUCH, update the LRU or LFU of keys."),
        Command::new("PAUSE", admin::pause, RULE, Group::Connection)
            .args(admin::PAUSE_ARGS)
            .docs("2.9.50", "O(1)", "Pauses the commands of all clients for a time."),
        Command::new("REPLY", reply, PLAIN, Group::Connection)
            .args(&[one_of("on_off_skip", &[token("on", "ON"), token("off", "OFF"), token("skip", "SKIP")])])
            .docs("3.2.0", "O(1)", "Sets whether the connection gets replies."),
        Command::new("SETINFO", set_info, PLAIN, Group::Connection)
            .args(&[one_of("attr", &[string("libname").token("LIB-NAME"), string("libver").token("LIB-VER")])])
            .docs("7.2.0", "O(1)", "Sets the name or version of the client library."),
        Command::new("SETNAME", set_name_command, PLAIN, Group::Connection)
            .args(&[string("connection-name")])
            .docs("2.6.9", "O(1)", "Sets the connection's name."),
        Command::new("TRACKING", tracking::tracking, PLAIN, Group::Connection)
            .args(tracking::TRACKING_ARGS)
            .docs("6.0.0", "O(1). Some options may introduce additional complexity.", "Controls tracking for client-side caching."),
        Command::new("TRACKINGINFO", tracking::tracking_info, PLAIN, Group::Connection)
            .docs("6.2.0", "O(1)", "Returns the tracking state of the connection."),
        Command::new("UNBLOCK", admin::unblock, RULE, Group::Connection)
            .args(admin::UNBLOCK_ARGS)
            .docs("5.0.0", "O(log N) where N is the number of client connections", "Unblocks a client that is blocked by a command."),
        Command::new("UNPAUSE", admin::unpause, RULE, Group::Connection)
            .docs("6.2.0", "O(N) Where N is the number of paused clients", "Ends CLIENT PAUSE."),
    ])
    .marks(KEEPS_CACHING | OF_SENTINEL)
    .docs("2.4.0", "Depends on subcommand.", "Contains the client connection subcommands."),
];

const SWITCH: &[Arg] = &[one_of("enabled", &[token("on", "ON"), token("off", "OFF")])];
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
    call.reply.int(call.caller.info.id as i64);
    Ok(())
}

fn get_name(call: &mut Call<'_>) -> Result<()> {
    match call.caller.info.names().name {
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
        let value = library_text("lib-name", value)?;
        call.caller.info.update_names(|names| names.lib_name = value.into());
    } else if is_word(attribute, "LIB-VER") {
        let value = library_text("lib-ver", value)?;
        call.caller.info.update_names(|names| names.lib_ver = value.into());
    } else {
        return Err(Error::SetInfoOption(attribute.to_vec()));
    }
    call.reply.ok();
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    let client = call.caller.info.clone();
    reply_lines(call, &[client]);
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let clients = match call.args.next_arg() {
        None => listed(call),
        Some(option) if is_word(option, "TYPE") && call.args.left() == 1 => clients_of_type(call)?,
        Some(option) if is_word(option, "ID") && call.args.left() >= 1 => clients_by_id(call)?,
        Some(_) => return Err(Error::Syntax),
    };
    reply_lines(call, &clients);
    Ok(())
}

fn clients_of_type(call: &mut Call<'_>) -> Result<Vec<Arc<ClientInfo>>> {
    let kind = ClientType::parse(call.args.bytes()?)?;
    Ok(listed(call).into_iter().filter(|client| kind.is_that_of(client)).collect())
}

/// Returns all clients, and on a replica the link to its primary.
fn listed(call: &Call<'_>) -> Vec<Arc<ClientInfo>> {
    let mut clients = call.namespace.clients.all();
    clients.extend(call.namespace.role.client());
    clients.sort_by_key(|client| client.id);
    clients
}

fn clients_by_id(call: &mut Call<'_>) -> Result<Vec<Arc<ClientInfo>>> {
    let mut chosen = Vec::new();
    while let Some(word) = call.args.next_arg() {
        let id = parse_int(word).ok_or(Error::other("Invalid client ID"))?;
        let link = || call.namespace.role.client().filter(|link| link.id == id as u64);
        chosen.extend(call.namespace.clients.find(id as u64).or_else(link));
    }
    Ok(chosen)
}

fn reply_lines(call: &mut Call<'_>, clients: &[Arc<ClientInfo>]) {
    call.caller.show_command();
    call.caller.info.traffic.set_commands(call.caller.commands);
    let now = call.now();
    let own = call.caller.info.id;
    let argument_bytes = |client: &ClientInfo| if client.id == own { call.args.request().bytes_len() } else { 0 };
    let text: String = clients.iter().map(|client| client.line(now, argument_bytes(client)) + "\n").collect();
    call.reply.verbatim("txt", text.as_bytes());
}

/// Parses ON or OFF.
fn switch(call: &mut Call<'_>) -> Result<bool> {
    match call.args.bytes()? {
        word if is_word(word, "ON") => Ok(true),
        word if is_word(word, "OFF") => Ok(false),
        _ => Err(Error::Syntax),
    }
}

fn no_evict(call: &mut Call<'_>) -> Result<()> {
    let is_exempt = switch(call)?;
    call.caller.info.flags.set_exempt(is_exempt);
    call.reply.ok();
    Ok(())
}

fn no_touch(call: &mut Call<'_>) -> Result<()> {
    let is_silent = switch(call)?;
    call.caller.info.flags.set_no_touch(is_silent);
    call.end_batch();
    call.reply.ok();
    Ok(())
}

fn reply(call: &mut Call<'_>) -> Result<()> {
    let mode = call.args.bytes()?;
    if is_word(mode, "ON") {
        call.session()?.replies = Replies::On;
        call.reply.ok();
    } else if is_word(mode, "OFF") {
        call.session()?.replies = Replies::Off;
    } else if !is_word(mode, "SKIP") {
        return Err(Error::Syntax);
    } else if call.session()?.replies != Replies::Off {
        call.session()?.replies = Replies::SkipNext;
    }
    call.end_batch();
    Ok(())
}

/// Handles CLIENT CAPA. As in Valkey, where the command comes from, unknown capabilities are ignored.
fn capabilities(call: &mut Call<'_>) -> Result<()> {
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "REDIRECT") {
            call.session()?.is_redirected = true;
        }
    }
    call.reply.ok();
    call.end_batch();
    Ok(())
}

/// Checks a connection's name.
///
/// # Errors
/// [`Error::ClientName`] when it has bytes outside `!`..`~`, [`Error::NameTooLong`] when it is too long.
pub(crate) fn client_name(name: &[u8]) -> Result<String> {
    check_len("Client names", name)?;
    printable(name).ok_or(Error::ClientName)
}

/// Checks an attribute of the client's library.
fn library_text(attribute: &'static str, value: &[u8]) -> Result<String> {
    check_len(attribute, value)?;
    printable(value).ok_or(Error::SetInfoValue(attribute))
}

/// The maximum length of a connection's name, and of a library's name and version, in bytes. Redis has no limit.
const NAME_LEN_MAX: usize = 1024;

/// Checks the length of a name: each line of CLIENT LIST contains it, and each entry of the ACL log.
fn check_len(what: &'static str, name: &[u8]) -> Result<()> {
    if name.len() > NAME_LEN_MAX { Err(Error::NameTooLong(what, NAME_LEN_MAX)) } else { Ok(()) }
}

pub(crate) fn set_name(call: &mut Call<'_>, name: String) {
    call.caller.info.update_names(|names| names.name = name.into());
}

/// Returns the text if all its bytes are printable in a line of CLIENT LIST.
fn printable(text: &[u8]) -> Option<String> {
    let fits = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    fits.then(|| text.iter().copied().map(char::from).collect())
}
