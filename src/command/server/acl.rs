//! ACL: shows and changes users and their permissions, and shows the log of denials.
//!
//! Rules and checks are in [`crate::acl`]; permissions are among the checks of `dispatch`.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::warn;

use crate::acl::{DEFAULT, DenialEntry, ShownSelector, User, has_blanks, to_hex};
use crate::client::info::{ChannelKind, ClientInfo};
use crate::client::outbox::END;
use crate::dispatch::args::is_word;
use crate::dispatch::plan::find;
use crate::dispatch::{Call, Command};
use crate::error::{Denial, Error, Result};
use crate::resp::{Reply, parse_int};
use crate::spec::marks::{CHANGES_USERS, OF_SENTINEL};
use crate::spec::registry::CATEGORIES;
use crate::spec::{
    ADMIN, Arg, Flags, Group, LOADING, NO_SCRIPT, OF_PROCESS, STALE, integer, one_of, redact_all_of_subcommand, string,
    token,
};
use crate::text::until_nul;

const PLAIN: Flags = NO_SCRIPT | LOADING | STALE;
const ADMINISTRATION: Flags = PLAIN | ADMIN;
const PER_USER: &str = "O(N). Where N is the number of configured users.";
const RULES_COST: &str = "O(N). Where N is the number of rules provided.";
const SHOW_COST: &str = "O(N). Where N is the number of password, command and pattern rules that the user has.";
const CATEGORIES_COST: &str = "O(1) since the categories and commands are a fixed set.";

/// The default number of entries that ACL LOG shows.
const LOG_SHOWN: i64 = 10;
/// The maximum length of a password of ACL GENPASS, in bits.
const PASSWORD_BITS_MAX: i64 = 4096;
/// The default length of a password, in bits.
const PASSWORD_BITS: i64 = 256;

pub(crate) const COMMANDS: &[Command] = &[Command::container("ACL", Group::Server, SUBCOMMANDS)
    .marks(OF_SENTINEL)
    .help_since("6.0.0")
    .docs("6.0.0", "Depends on subcommand.", "Contains the subcommands for users and permissions (ACL).")];

#[rustfmt::skip] // one command, the same few lines
const SUBCOMMANDS: &[Command] = &[
    Command::new("CAT", cat, PLAIN, Group::Server)
        .args(&[string("categoryname").optional()])
        .docs("6.0.0", CATEGORIES_COST, "Lists the ACL categories, or the commands of one."),
    Command::new("DELUSER", delete_users, ADMINISTRATION, Group::Server)
        .marks(CHANGES_USERS)
        .args(&[string("username").multiple()])
        .redact(redact_all_of_subcommand)
        .docs("6.0.0", "O(1) amortized time considering the typical user.", "Deletes users and disconnects their clients."),
    Command::new("DRYRUN", dry_run, ADMINISTRATION, Group::Server)
        .args(&[string("username"), string("command"), string("arg").optional().multiple()])
        .docs("7.0.0", "O(1).", "Checks a user's permission for a command without calling it."),
    Command::new("GENPASS", generate_password, PLAIN, Group::Server)
        .args(&[integer("bits").optional()])
        .docs("6.0.0", "O(1)", "Generates a secure random password."),
    Command::new("GETUSER", get_user, ADMINISTRATION, Group::Server)
        .args(&[string("username")])
        .redact(redact_all_of_subcommand)
        .docs("6.0.0", SHOW_COST, "Returns the ACL rules of a user."),
    Command::new("LIST", list, ADMINISTRATION, Group::Server)
        .docs("6.0.0", PER_USER, "Lists the users in the format of an ACL file."),
    Command::new("LOAD", load, ADMINISTRATION | OF_PROCESS, Group::Server)
        .marks(CHANGES_USERS)
        .docs("6.0.0", PER_USER, "Reloads the users from the ACL file."),
    Command::new("LOG", log, ADMINISTRATION, Group::Server)
        .args(&[one_of("operation", &[integer("count"), token("reset", "RESET")]).optional()])
        .docs("6.0.0", "O(N) with N being the number of entries shown.", "Returns the latest denials for lack of permission."),
    Command::new("SAVE", save, ADMINISTRATION | OF_PROCESS, Group::Server)
        .docs("6.0.0", PER_USER, "Saves the users to the ACL file."),
    Command::new("SETUSER", set_user, ADMINISTRATION, Group::Server)
        .marks(CHANGES_USERS)
        .args(&[string("username"), RULES])
        .redact(redact_all_of_subcommand)
        .docs("6.0.0", RULES_COST, "Creates or changes a user."),
    Command::new("USERS", users, ADMINISTRATION, Group::Server)
        .docs("6.0.0", PER_USER, "Lists the user names."),
    Command::new("WHOAMI", who_am_i, PLAIN, Group::Server)
        .docs("6.0.0", "O(1)", "Returns the user name of the connection."),
];

const RULES: Arg = string("rule").optional().multiple();

fn set_user(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    if has_blanks(name) {
        return Err(Error::other("Usernames can't contain spaces or null characters"));
    }
    broadcast_changed_keys(call);
    let before = call.namespace.acl.user(name);
    let rules: Vec<_> = call.args.request().args().skip(3).collect();
    call.namespace.acl.set_user(name, &rules, call.config.rule_settings()).map_err(Error::AclRefused)?;
    call.namespace.count_users();
    call.caller.follow_users(&call.namespace.acl);
    disconnect_subscribers(call, &before.into_iter().zip(call.namespace.acl.user(name)).collect::<Vec<_>>());
    call.namespace.store.renew_generation();
    call.reply.ok();
    Ok(())
}

/// Broadcasts the changed keys to the clients that track them, before the users change: each client is sent the names
/// that its user may read at that time.
fn broadcast_changed_keys(call: &Call<'_>) {
    call.namespace.push.broadcast(&call.namespace.settings, call.now());
}

/// Disconnects clients with subscriptions for which their user has lost the permission; the users are given before and
/// after.
fn disconnect_subscribers(call: &mut Call<'_>, users: &[(Arc<User>, Arc<User>)]) {
    let by_name: HashMap<&[u8], _> = users.iter().map(|(before, after)| (&*after.name, (before, after))).collect();
    let is_revoked = |channel_kind, channel: &[u8], client: &ClientInfo| {
        let Some(name) = client.user() else { return false };
        let Some((before, after)) = by_name.get(&*name).filter(|(_, after)| after.is(&name)) else { return false };
        let is_pattern = channel_kind == ChannelKind::Pattern;
        before.permits_channel(channel, is_pattern) && !after.permits_channel(channel, is_pattern)
    };
    if !by_name.is_empty() && call.namespace.push.hub.has_subscribers() {
        call.namespace.push.hub.subscribers_where(is_revoked).iter().for_each(|client| client.outbox.signal(END));
    }
}

fn delete_users(call: &mut Call<'_>) -> Result<()> {
    let names = || call.args.request().args().skip(2);
    if names().any(|name| until_nul(name) == DEFAULT) {
        return Err(Error::other("The 'default' user cannot be removed"));
    }
    broadcast_changed_keys(call);
    let removed = call.namespace.acl.remove(names());
    call.namespace.count_users();
    disconnect(call, &removed);
    call.namespace.store.renew_generation();
    call.reply.int(removed.len() as i64);
    Ok(())
}

/// Disconnects clients whose users were removed; a caller among them still gets its reply.
fn disconnect(call: &mut Call<'_>, gone: &[Arc<User>]) {
    call.caller.follow_users(&call.namespace.acl);
    let by_name: HashMap<&[u8], _> = gone.iter().map(|user| (&*user.name, user)).collect();
    for client in call.namespace.clients.all() {
        let is_gone = client.user().is_some_and(|name| by_name.get(&*name).is_some_and(|user| user.is(&name)));
        if is_gone && client.id != call.caller.info.id {
            client.outbox.signal(END);
        }
    }
}

fn get_user(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    let Some(user) = call.namespace.acl.user(name) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut call.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let hashes = user.hashes();
    reply.array(hashes.len());
    hashes.for_each(|digits| reply.bulk(digits.as_bytes()));
    let mut selectors = user.shown().into_iter();
    if let Some(root) = selectors.next() {
        show_selector(reply, &root);
    }
    reply.bulk(b"selectors");
    reply.array(selectors.len());
    for selector in selectors {
        reply.map(3);
        show_selector(reply, &selector);
    }
    Ok(())
}

fn show_selector(reply: &mut Reply<'_>, shown: &ShownSelector) {
    for (field, rules) in [("commands", &shown.commands), ("keys", &shown.keys), ("channels", &shown.channels)] {
        reply.bulk(field.as_bytes());
        reply.bulk(rules);
    }
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let users = call.namespace.acl.users();
    call.reply.array(users.len());
    users.iter().for_each(|user| call.reply.bulk(&user.line()));
    Ok(())
}

fn users(call: &mut Call<'_>) -> Result<()> {
    let users = call.namespace.acl.users();
    call.reply.array(users.len());
    users.iter().for_each(|user| call.reply.bulk(&user.name));
    Ok(())
}

fn who_am_i(call: &mut Call<'_>) -> Result<()> {
    call.reply.bulk(&call.caller.access.user().name);
    Ok(())
}

fn load(call: &mut Call<'_>) -> Result<()> {
    let config = call.namespace.settings.current();
    let file = config.user_file().ok_or(Error::NoAclFile)?;
    broadcast_changed_keys(call);
    let loaded = call.namespace.acl.load(&file, config.rule_settings()).map_err(Error::AclRefused)?;
    call.namespace.count_users();
    disconnect(call, &loaded.gone);
    disconnect_subscribers(call, &loaded.kept);
    call.namespace.store.renew_generation();
    call.reply.ok();
    Ok(())
}

fn save(call: &mut Call<'_>) -> Result<()> {
    let file = call.namespace.settings.current().user_file().ok_or(Error::NoAclFile)?;
    call.namespace.acl.save(&file).map_err(|error| {
        warn!(cause = %error, "failed to write the ACL file");
        Error::other("There was an error trying to save the ACLs. Please check the server logs for more information")
    })?;
    call.reply.ok();
    Ok(())
}

fn cat(call: &mut Call<'_>) -> Result<()> {
    let Some(category) = call.args.next_arg() else {
        call.reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        return Ok(());
    };
    reject_surplus(call)?;
    let known = CATEGORIES.iter().position(|name| is_word(category, name));
    let known = known.ok_or_else(|| Error::UnknownCategory(category.to_vec()))?;
    let members: Vec<_> = call.namespace.commands.every().filter(|command| command.is_in(known)).collect();
    call.reply.array(members.len());
    members.iter().for_each(|command| call.reply.bulk(command.shown_name().as_bytes()));
    Ok(())
}

/// Rejects surplus arguments of a subcommand.
fn reject_surplus(call: &Call<'_>) -> Result<()> {
    match call.args.left() {
        0 => Ok(()),
        _ => Err(Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "ACL")),
    }
}

fn generate_password(call: &mut Call<'_>) -> Result<()> {
    let word = call.args.next_arg();
    reject_surplus(call)?;
    let bits = word.map_or(Some(PASSWORD_BITS), parse_int).ok_or(Error::NotInteger)?;
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        return Err(Error::other(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        )));
    }
    let digits = (bits as usize).div_ceil(4);
    let mut random = vec![0; digits.div_ceil(2)];
    getrandom::fill(&mut random).map_err(|error| Error::other(format!("no random numbers are available: {error}")))?;
    call.reply.bulk(&to_hex(&random).as_bytes()[..digits]);
    Ok(())
}

fn log(call: &mut Call<'_>) -> Result<()> {
    let word = call.args.next_arg();
    reject_surplus(call)?;
    let mut log = call.namespace.acl.log.lock();
    if word.is_some_and(|word| is_word(word, "RESET")) {
        log.clear();
        call.reply.ok();
        return Ok(());
    }
    let count = word.map_or(Some(LOG_SHOWN), parse_int).ok_or(Error::NotInteger)?;
    let shown = log.entries().take(usize::try_from(count).unwrap_or(0));
    let now_ms = call.view.now().wall_ms();
    call.reply.array(shown.len());
    shown.for_each(|entry| show_entry(&mut call.reply, entry, now_ms));
    Ok(())
}

fn show_entry(reply: &mut Reply<'_>, entry: &DenialEntry, now_ms: i64) {
    reply.map(10);
    reply.bulk(b"count");
    reply.int(entry.count as i64);
    let texts = [
        ("reason", entry.reason.name().as_bytes()),
        ("context", entry.context.name().as_bytes()),
        ("object", &entry.object),
        ("username", &entry.user),
    ];
    for (field, text) in texts {
        reply.bulk(field.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.double((now_ms - entry.wall_ms) as f64 / 1000.0);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.as_bytes());
    let numbers = [
        ("entry-id", entry.id as i64),
        ("timestamp-created", entry.created_ms),
        ("timestamp-last-updated", entry.wall_ms),
    ];
    for (field, number) in numbers {
        reply.bulk(field.as_bytes());
        reply.int(number);
    }
}

fn dry_run(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    let user = call.namespace.acl.user(name).ok_or_else(|| Error::UserNotFound(name.to_vec()))?;
    let request = call.args.request().starting_at(3);
    let command = find(request, call.names()).ok_or_else(|| Error::CommandNotFound(request.name().to_vec()))?;
    if !command.accepts(request.len()) {
        return Err(Error::WrongArity(command.shown_name().into()));
    }
    let (what, kind) = match user.denial(command, request) {
        None => {
            call.reply.ok();
            return Ok(());
        }
        Some(Denial::Command) => {
            let text = format!("This user has no permissions to run the '{}' command", command.shown_name());
            call.reply.bulk(text.as_bytes());
            return Ok(());
        }
        Some(Denial::Key(at)) => (request.arg(at), "key"),
        Some(Denial::Channel(at)) => (request.arg(at), "channel"),
    };
    let end = format!("' {kind}");
    let parts = [b"This user has no permissions to access the '", until_nul(what), end.as_bytes()];
    call.reply.bulk(&parts.concat());
    Ok(())
}
