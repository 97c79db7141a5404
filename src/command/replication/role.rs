//! The role of the server: ROLE, REPLICAOF and FAILOVER.

use std::sync::atomic::Ordering::Relaxed;

use tracing::info;

use crate::client::replica::ReplicaState;
use crate::command::sentinel::forward as ask_sentinel;
use crate::command::topology::perform;
use crate::config::HostPort;
use crate::dispatch::args::is_word;
use crate::dispatch::history::begin_anew;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::namespace::failover::FailoverOptions;
use crate::namespace::member::{Operation, Question};
use crate::resp::parse_int;
use crate::spec::marks::OF_SENTINEL;
use crate::spec::{
    ADMIN, Arg, CONTROL, EXCLUSIVE, FAST, Flags, Group, LOADING, NO_ASYNC_LOADING, NO_ENGINE, NO_SCRIPT, STALE, block,
    integer, one_of, string, token,
};

const REPLICAS: Flags = ADMIN | NO_SCRIPT | STALE | NO_ENGINE;
/// The flags of commands that lock the whole store, so that no write is under way when the role changes.
const CHANGES_ROLE: Flags = REPLICAS | NO_ASYNC_LOADING | EXCLUSIVE | CONTROL;
const HOST_OR_NONE: &[Arg] = &[one_of(
    "args",
    &[
        block("host-port", &[string("host"), integer("port")]),
        block("no-one", &[token("no", "NO"), token("one", "ONE")]),
    ],
)];
const FAILOVER_ARGS: &[Arg] = &[
    block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()]).token("TO").optional(),
    token("abort", "ABORT").optional(),
    integer("milliseconds").token("TIMEOUT").optional(),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("FAILOVER", fail_over, REPLICAS | EXCLUSIVE | CONTROL, Group::Server).args(FAILOVER_ARGS)
        .docs("6.2.0", "O(1)", "Hands the role of the primary over to a replica that has everything."),
    Command::new("REPLICAOF", replicate, CHANGES_ROLE, Group::Server).args(HOST_OR_NONE).arity(3)
        .docs("5.0.0", "O(1)", "Makes the server a replica of another one, or a primary."),
    Command::new("ROLE", role, NO_SCRIPT | LOADING | STALE | FAST, Group::Server)
        .marks(OF_SENTINEL)
        .categories(&["admin", "dangerous"])
        .docs("2.8.12", "O(1)", "Returns the replication role, with the replicas of a primary, or the link of a replica."),
    Command::new("SLAVEOF", replicate, CHANGES_ROLE, Group::Server).args(HOST_OR_NONE).arity(3)
        .deprecated("5.0.0", "`REPLICAOF`")
        .docs("1.0.0", "O(1)", "Makes the server a replica of another one, or a primary."),
];

fn role(call: &mut Call<'_>) -> Result<()> {
    if call.namespace.restrictions.is_sentinel() {
        return ask_sentinel(call, Question::Role, Vec::new());
    }
    match call.namespace.role.primary() {
        Some(primary) => show_link(call, &primary),
        None => show_replicas(call),
    }
    Ok(())
}

/// Shows a primary with its replicas.
fn show_replicas(call: &mut Call<'_>) {
    let mut replicas = call.namespace.replicas.all();
    replicas.retain(|replica| replica.state() == ReplicaState::Online);
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.int(call.namespace.log.end() as i64);
    call.reply.array(replicas.len());
    for replica in replicas {
        call.reply.array(3);
        call.reply.bulk(replica.ip.lock().as_bytes());
        call.reply.bulk(replica.port.load(Relaxed).to_string().as_bytes());
        call.reply.bulk(replica.acknowledged().to_string().as_bytes());
    }
}

/// Shows a replica with its link.
fn show_link(call: &mut Call<'_>, primary: &HostPort) {
    let link = call.namespace.role.link();
    call.reply.array(5);
    call.reply.bulk(b"slave");
    call.reply.bulk(primary.host.as_bytes());
    call.reply.int(i64::from(primary.port));
    call.reply.bulk(link.state.name().as_bytes());
    call.reply.int(if link.is_up() { call.namespace.log.end() as i64 } else { -1 });
}

fn replicate(call: &mut Call<'_>) -> Result<()> {
    call.require_standalone("REPLICAOF not allowed in cluster mode.")?;
    let (host, port) = (call.args.bytes()?, call.args.bytes()?);
    if call.namespace.failover.stage().is_some() {
        return Err(Error::other("REPLICAOF not allowed while failing over."));
    }
    let topology = call.namespace.member().and_then(|member| Some((member.number, member.topology()?)));
    if let Some((at, topology)) = topology {
        let port = if is_word(host, "NO") && is_word(port, "ONE") { None } else { Some(read_port(port)?) };
        return perform(call, topology, Operation::Replicate { at, port });
    }
    if is_word(host, "NO") && is_word(port, "ONE") {
        if call.namespace.role.is_replica() {
            call.namespace.become_primary();
            begin_anew(call.namespace, &mut call.view);
            info!("MASTER MODE enabled (user request from '{}')", client(call));
        }
        call.reply.ok();
        return Ok(());
    }
    if call.session().is_ok_and(|session| session.feed.is_some()) {
        return Err(Error::other("Command is not valid when client is a replica."));
    }
    let port = read_port(port)?;
    if call.namespace.tenant.is_private() {
        return Err(Error::NotInPrivate);
    }
    let primary = HostPort { host: String::from_utf8_lossy(host).into_owned(), port };
    let is_same = |present: HostPort| present.port == port && present.host.eq_ignore_ascii_case(&primary.host);
    if call.namespace.role.primary().is_some_and(is_same) {
        call.reply.simple("OK Already connected to specified master");
        return Ok(());
    }
    info!("REPLICAOF {}:{port} enabled (user request from '{}')", primary.host, client(call));
    call.namespace.follow_primary(primary);
    call.caller.forget_effects(); // those of the transaction, which are logged neither now nor later
    call.reply.ok();
    Ok(())
}

fn read_port(text: &[u8]) -> Result<u16> {
    let port = parse_int(text).and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| Error::other("Invalid master port"))
}

/// Returns the description of the client for the log.
fn client(call: &Call<'_>) -> String {
    call.caller.info.line(call.now(), 0)
}

fn fail_over(call: &mut Call<'_>) -> Result<()> {
    call.require_standalone("FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.")?;
    let is_abort = call.args.left() == 1 && is_word(call.args.request().arg(1), "ABORT");
    if is_abort {
        if !call.namespace.abort_failover("Failover manually aborted") {
            return Err(Error::other("No failover in progress."));
        }
        call.reply.ok();
        return Ok(());
    }
    let terms = read_terms(call)?;
    let namespace = call.namespace;
    if namespace.failover.stage().is_some() {
        return Err(Error::other("FAILOVER already in progress."));
    }
    if namespace.role.is_replica() {
        return Err(Error::other("FAILOVER is not valid when server is a replica."));
    }
    if namespace.replicas.is_empty() {
        return Err(Error::other("FAILOVER requires connected replicas."));
    }
    if terms.is_forced && (terms.until_ms.is_none() || terms.target.is_none()) {
        return Err(Error::other("FAILOVER with force option requires both a timeout and target HOST and IP."));
    }
    match &terms.target {
        Some(target) => {
            let replica = namespace.find_replica(target);
            let replica = replica.ok_or(Error::other("FAILOVER target HOST and PORT is not a replica."))?;
            if replica.state() != ReplicaState::Online {
                return Err(Error::other("FAILOVER target replica is not online."));
            }
            info!("FAILOVER requested to {}:{}.", target.host, target.port);
        }
        None => info!("FAILOVER requested to any replica."),
    }
    namespace.begin_failover(terms);
    call.reply.ok();
    Ok(())
}

fn read_terms(call: &mut Call<'_>) -> Result<FailoverOptions> {
    let (mut timeout_ms, mut target, mut is_forced) = (None, None, false);
    while let Some(word) = call.args.next_arg() {
        let left = call.args.left();
        if is_word(word, "TIMEOUT") && left >= 1 && timeout_ms.is_none() {
            let ms = call.args.int()?;
            let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
            timeout_ms = Some(ms.ok_or(Error::other("FAILOVER timeout must be greater than 0"))?);
        } else if is_word(word, "TO") && left >= 2 && target.is_none() {
            let (host, port) = (call.args.bytes()?, call.args.int()?);
            let host = String::from_utf8_lossy(host).into_owned();
            // A number that is no port matches no replica.
            target = Some(HostPort { host, port: u16::try_from(port).unwrap_or(0) });
        } else if is_word(word, "FORCE") && !is_forced {
            is_forced = true;
        } else {
            return Err(Error::Syntax);
        }
    }
    let now = call.now();
    Ok(FailoverOptions { target, until_ms: timeout_ms.map(|ms| now.ms_later(ms)), is_forced })
}
