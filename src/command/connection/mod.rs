//! Commands about this connection: AUTH, ECHO, HELLO, PING, QUIT, RESET, SELECT.

pub(crate) mod client;

use crate::acl::{Access, DEFAULT, has_blanks};
use crate::client::info::NoticeMode;
use crate::client::registry::Unblocked;
use crate::client::session::Replies;
use crate::command::connection::client::{client_name, set_name};
use crate::command::hash::import::forget_all;
use crate::command::keys::databases::read_selected;
use crate::command::server::modules::write_modules;
use crate::command::server::monitor;
use crate::dispatch::args::is_word;
use crate::dispatch::denials::record_failed_login;
use crate::dispatch::{Call, Command, Continuation, Destination, Env, NamespaceEntry, Wait};
use crate::error::{Error, Result};
use crate::profile::Identity;
use crate::resp::{Protocol, Reply, parse_int};
use crate::spec::marks::{DROPS_QUEUE, HEALTH_CHECK, OF_LINK, OF_SENTINEL, REPEATABLE, SELECTS_DB, SPARED_BY_FAULTS};
use crate::spec::{
    ALLOW_BUSY, ALLOW_SUBSCRIBED, Arg, CommandTable, FAST, Flags, Group, LOADING, NO_AUTH, NO_QUEUE, NO_SCRIPT,
    REDACTED, STALE, block, integer, redact_all, string,
};
use crate::store::View;

/// The prefix of the names of users whose clients are in a private namespace, in test mode.
const PRIVATE_USER: &[u8] = b"ns-";
/// The maximum length of such a name, in bytes.
const PRIVATE_USER_LEN_MAX: usize = 128;

const SESSION: Flags = NO_SCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY;

pub(crate) const COMMANDS: &[Command] = &[
    Command::new("AUTH", auth, SESSION, Group::Connection)
        .marks(OF_SENTINEL)
        .args(&[string("username").optional().since("6.0.0"), string("password")])
        .redact(redact_all)
        .marks(SPARED_BY_FAULTS)
        .docs("1.0.0", "O(N) where N is the number of passwords defined for the user", "Authenticates the connection."),
    Command::new("ECHO", echo, LOADING | STALE | FAST, Group::Connection)
        .marks(REPEATABLE)
        .args(&[string("message")])
        .docs("1.0.0", "O(1)", "Returns the message."),
    Command::new("HELLO", hello, SESSION, Group::Connection)
        .marks(OF_SENTINEL)
        .marks(SPARED_BY_FAULTS)
        .args(HELLO_ARGS)
        .redact(redact_password)
        .docs("6.0.0", "O(1)", "Selects the protocol version, optionally authenticates, and describes the server."),
    Command::new("PING", ping, FAST | ALLOW_SUBSCRIBED, Group::Connection)
        .marks(OF_SENTINEL)
        .marks(HEALTH_CHECK | OF_LINK | REPEATABLE)
        .args(&[string("message").optional()])
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .docs("1.0.0", "O(1)", "Checks that the server responds."),
    Command::new("QUIT", quit, SESSION | NO_QUEUE | ALLOW_SUBSCRIBED, Group::Connection)
        .marks(DROPS_QUEUE | SPARED_BY_FAULTS)
        .arity(-1)
        .docs("1.0.0", "O(1)", "Closes the connection."),
    Command::new("RESET", reset, SESSION | NO_QUEUE | ALLOW_SUBSCRIBED, Group::Connection)
        .marks(DROPS_QUEUE | SPARED_BY_FAULTS)
        .docs("6.2.0", "O(1)", "Resets the connection to its initial state."),
    Command::new("SELECT", select, LOADING | STALE | FAST, Group::Connection)
        .marks(SELECTS_DB | REPEATABLE)
        .args(&[integer("index")])
        .docs("1.0.0", "O(1)", "Selects the database of the connection."),
];

const HELLO_ARGS: &[Arg] = &[block(
    "arguments",
    &[
        integer("protover"),
        block("username_password", &[string("username"), string("password")]).token("AUTH").optional(),
        string("clientname").token("SETNAME").optional(),
    ],
)
.optional()];

fn ping(call: &mut Call<'_>) -> Result<()> {
    if call.caller.is_subscribed_in_resp2() && call.args.left() <= 1 {
        let message = call.args.next_arg().unwrap_or_default();
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(message);
        return Ok(());
    }
    match (call.args.next_arg(), call.args.left()) {
        (None, _) => call.reply.simple("PONG"),
        (Some(message), 0) => call.reply.bulk(message),
        _ => return Err(Error::WrongArity(call.name().into())),
    }
    Ok(())
}

fn echo(call: &mut Call<'_>) -> Result<()> {
    let message = call.args.bytes()?;
    call.reply.bulk(message);
    Ok(())
}

fn quit(call: &mut Call<'_>) -> Result<()> {
    call.take_pushed();
    call.caller.info.flags.set_quit();
    call.caller.closing = true;
    call.reply.ok();
    Ok(())
}

fn select(call: &mut Call<'_>) -> Result<()> {
    let db = read_selected(call)?;
    call.caller.select(db);
    call.reply.ok();
    Ok(())
}

fn auth(call: &mut Call<'_>) -> Result<()> {
    let first = call.args.bytes()?;
    let (user, password) = match (call.args.next_arg(), call.args.left()) {
        (None, _) if call.namespace.login_users().default_user().needs_no_password() => {
            return Err(Error::NoPasswordSet);
        }
        (None, _) => (DEFAULT, first),
        (Some(password), 0) => (first, password),
        _ => return Err(Error::Syntax),
    };
    let destination = authenticate(call, user, password)?;
    enter(call, destination, (None, None), |reply| reply.ok())
}

/// Checks the name of the user of a private namespace.
///
/// # Errors
/// The name is not that of a private namespace.
pub(crate) fn check_private_user(user: &[u8]) -> Result<()> {
    if !user.starts_with(PRIVATE_USER) {
        return Err(Error::other("the name of a private instance begins with ns-"));
    }
    if user.len() > PRIVATE_USER_LEN_MAX || has_blanks(user) {
        return Err(Error::other("the name of a private instance has at most 128 bytes and no spaces"));
    }
    Ok(())
}

/// Authenticates the client. Returns the namespace that the client has to enter for that, if any: the private namespace
/// of the user, or the main namespace, to which all other users belong.
fn authenticate(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Result<Option<Destination>> {
    let (namespace, acl) = (call.namespace, call.namespace.login_users());
    namespace.push.broadcast(&namespace.settings, call.now()); // by the permissions of the present user
    let is_node = namespace.member().is_some();
    if namespace.test_mode.is_some() && user.starts_with(PRIVATE_USER) && !is_node {
        check_private_user(user)?;
        if namespace.tenant.name() != Some(user) {
            return may_leave(call, Destination::Private { user: user.into(), password: password.into() });
        }
        if let Some(access) = namespace.admit_user(user, password) {
            call.caller.access = access;
            return Ok(None);
        }
        record_failed_login(call, user);
        return Err(Error::WrongPass);
    }
    if !namespace.tenant.is_private() || is_node {
        if call.caller.log_in(acl, user, password) {
            return Ok(None);
        }
    } else {
        let mut access = Access::new(acl);
        if access.log_in(acl, user, password) {
            return may_leave(call, Destination::Main(access));
        }
    }
    record_failed_login(call, user);
    Err(Error::WrongPass)
}

/// Returns the namespace to be entered.
///
/// # Errors
/// The call is in a transaction, all of whose commands are for one namespace.
fn may_leave(call: &Call<'_>, destination: Destination) -> Result<Option<Destination>> {
    if call.is_nested() {
        Err(Error::other("a private instance is not entered or left in a transaction"))
    } else {
        Ok(Some(destination))
    }
}

/// Replies after the client has entered a namespace, or at once if there is none to enter.
fn enter(
    call: &mut Call<'_>,
    destination: Option<Destination>,
    chosen: (Option<String>, Option<Protocol>),
    reply: impl FnOnce(&mut Reply<'_>) + Send + 'static,
) -> Result<()> {
    match destination {
        None => {
            reply(&mut call.reply);
            Ok(())
        }
        Some(destination) => call.continue_with(Arrival {
            entry: NamespaceEntry { destination, chosen, refusal: None },
            reply: Some(reply),
        }),
    }
}

/// The continuation of a command that replies from another namespace.
struct Arrival<R> {
    entry: NamespaceEntry,
    reply: Option<R>,
}

impl<R: FnOnce(&mut Reply<'_>) + Send> Continuation for Arrival<R> {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Entry(&mut self.entry)
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        if let Some(refusal) = self.entry.refusal.take() {
            return Err(refusal);
        }
        if let Some(write) = self.reply.take() {
            write(reply);
        }
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

fn hello(call: &mut Call<'_>) -> Result<()> {
    let protocol = match call.args.next_arg() {
        None => None,
        Some(version) => Some(match parse_int(version).ok_or(Error::ProtoNotInteger)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Error::NoProto),
        }),
    };
    // Nothing is applied before all options are checked; of a repeated option the last occurrence counts.
    let (mut login, mut chosen_name) = (None, None);
    while let Some(option) = call.args.next_arg() {
        if is_word(option, "AUTH") && call.args.left() >= 2 {
            login = Some((call.args.bytes()?, call.args.bytes()?));
        } else if is_word(option, "SETNAME") && call.args.left() >= 1 {
            chosen_name = Some(client_name(call.args.bytes()?)?);
        } else {
            return Err(Error::HelloOption(option.to_vec()));
        }
    }
    let destination = match login {
        Some((user, password)) => authenticate(call, user, password)?,
        None => None,
    };
    if destination.is_none() && !call.caller.access.is_authenticated() {
        return Err(Error::NoAuthHello);
    }
    let mut chosen = (chosen_name, protocol);
    if destination.is_none() {
        choose(call, std::mem::take(&mut chosen));
    }
    let (id, identity, namespace) = (call.caller.info.id as i64, call.config.identity(), call.namespace);
    let (mode, commands) = (namespace.mode(), call.names().table());
    let is_replica = destination.is_none() && namespace.role.is_replica();
    let role = if is_replica { "replica" } else { "master" };
    let role = Some(role).filter(|_| !namespace.restrictions.is_sentinel());
    enter(call, destination, chosen, move |reply| introduce_server(reply, id, identity, (mode, role), commands))
}

/// Gives the client the name and the protocol that it has asked for.
fn choose(call: &mut Call<'_>, (name, protocol): (Option<String>, Option<Protocol>)) {
    if let Some(name) = name {
        set_name(call, name);
    }
    if let Some(protocol) = protocol {
        call.set_protocol(protocol);
        call.end_batch(); // a subscribed client may call more or fewer commands in the new protocol
    }
}

fn introduce_server(
    reply: &mut Reply<'_>,
    id: i64,
    identity: &Identity,
    (mode, role): (&str, Option<&str>),
    commands: &CommandTable,
) {
    let version = if reply.protocol() == Protocol::Resp3 { 3 } else { 2 };
    reply.map(6 + usize::from(role.is_some()));
    for (field, value) in [("server", identity.hello.0), ("version", identity.hello.1)] {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", version), ("id", id)] {
        reply.bulk(field.as_bytes());
        reply.int(value);
    }
    for (field, value) in std::iter::once(("mode", mode)).chain(role.map(|role| ("role", role))) {
        reply.bulk(field.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    write_modules(reply, commands);
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    call.session()?.transaction = None;
    forget_all(call)?;
    call.caller.info.set_queued(None);
    call.stop_watching()?;
    call.caller.select(0);
    call.namespace.push.tracking.leave(&call.caller.info, call.namespace.store.events());
    let namespace = call.namespace;
    namespace.end_session(&call.caller.info, &mut call.view, true);
    let (caller, session) = call.connection()?;
    namespace.push.hub.leave(&caller.info, &mut session.subscriptions);
    if call.session()?.replies == Replies::Off {
        call.session()?.replies = Replies::On; // a reply that CLIENT REPLY SKIP suppresses stays suppressed
    }
    (call.caller.reads_replica, call.caller.is_asking) = (false, false);
    call.caller.info.flags.set_no_touch(false);
    call.caller.info.flags.set_notices(NoticeMode::Off);
    call.set_protocol(Protocol::Resp2); // messages of the former subscriptions are written first
    call.caller.log_out(&namespace.acl);
    set_name(call, String::new());
    monitor::stop(call)?;
    let leaves = namespace.tenant.is_private() && namespace.member().is_none();
    let main = leaves.then(|| Destination::Main(Access::new(&namespace.instance.acl)));
    enter(call, main, (None, None), |reply| reply.simple("RESET"))
}

/// Redacts the two arguments of AUTH in HELLO at any position: a call without a version is an error, and is shown, too.
fn redact_password(args: &mut [&[u8]]) {
    let mut at = 1;
    while at < args.len() {
        if is_word(args[at], "AUTH") {
            let end = args.len().min(at + 3);
            args[at + 1..end].fill(REDACTED);
            at = end;
        } else {
            at += 1;
        }
    }
}
