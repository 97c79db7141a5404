//! Requests of a replica to its primary: REPLCONF, PSYNC and SYNC.
//!
//! A client becomes a replica when it asks for the data. From then on [`Feed`] writes to its connection, and its
//! requests get no replies.

pub(super) mod role;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::client::replica::feed::Feed;
use crate::client::replica::{LaggingReplica, Replica, WaitingReplica, WantedData};
use crate::client::session::Replies;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Request, parse_int};
use crate::spec::marks::{OF_LINK, OF_NODE};
use crate::spec::{
    ADMIN, ALLOW_BUSY, CONTROL, EXCLUSIVE, Flags, Group, LOADING, NO_ASYNC_LOADING, NO_ENGINE, NO_MULTI, NO_SCRIPT,
    OF_PROCESS, STALE, integer, string,
};
use crate::text::split_words;

const SYNCHRONIZES: Flags = ADMIN | NO_SCRIPT | NO_ASYNC_LOADING | NO_MULTI | OF_PROCESS | NO_ENGINE;

/// The number of parts of a snapshot that may wait for a replica that reads them more slowly than they are written.
const PARTS_MAX: usize = 16;

/// The longest address that a replica may announce, in bytes.
const ADDRESS_MAX: usize = 255;

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("PSYNC", continue_or_synchronize, SYNCHRONIZES | EXCLUSIVE | CONTROL, Group::Server)
        .exclusive_if(asks_for_failover)
        .marks(OF_NODE)
        .args(&[string("replicationid"), integer("offset")]).arity(-3)
        .docs("2.8.0", "", "Makes the client a replica, which is sent what it lacks and then every change."),
    Command::new("REPLCONF", configure, ADMIN | NO_SCRIPT | LOADING | STALE | ALLOW_BUSY | NO_ENGINE, Group::Server)
        .marks(OF_LINK)
        .arity(-1)
        .internal()
        .docs("3.0.0", "O(1)", "Tells a primary about its replica, and acknowledges changes."),
    Command::new("SYNC", synchronize, SYNCHRONIZES, Group::Server)
        .marks(OF_NODE)
        .docs("1.0.0", "", "Makes the client a replica, which is sent all data and then every change."),
];

/// Returns the client's state as a replica.
fn replica(call: &mut Call<'_>) -> Result<Arc<Replica>> {
    let (info, clock_steps) = (call.caller.info.clone(), call.namespace.role.clock_steps());
    let known = call.session()?.replica.get_or_insert_with(|| {
        let ip = info.peer.addr.rsplit_once(':').map_or("", |(ip, _)| ip);
        Arc::new(Replica::new(info.id, ip.trim_matches(['[', ']']), clock_steps))
    });
    Ok(known.clone())
}

fn configure(call: &mut Call<'_>) -> Result<()> {
    if !call.args.left().is_multiple_of(2) {
        return Err(Error::Syntax);
    }
    let replica = replica(call)?;
    while call.args.left() > 0 {
        let option = call.args.bytes()?;
        if is_word(option, "LISTENING-PORT") {
            replica.port.store(call.args.int()?, Relaxed);
            replica.clock_steps.store(call.namespace.role.clock_steps(), Relaxed);
        } else if is_word(option, "RDB-ONLY") {
            replica.is_snapshot_only.store(call.args.zero_or_one()?, Relaxed);
        } else if is_word(option, "ACK") {
            return acknowledge(call, &replica);
        } else if is_word(option, "GETACK") {
            return Ok(()); // a request of a primary to its replica
        } else {
            let value = call.args.bytes()?;
            describe(&replica, option, value)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Records one option that a replica sends about itself.
fn describe(replica: &Replica, option: &[u8], value: &[u8]) -> Result<()> {
    if is_word(option, "IP-ADDRESS") {
        if value.len() > ADDRESS_MAX {
            let len = value.len();
            return Err(Error::other(format!(
                "REPLCONF ip-address provided by replica instance is too long: {len} bytes"
            )));
        }
        // INFO shows it in a line, as one of several parts.
        let shown = |byte: &u8| if byte.is_ascii_graphic() && *byte != b',' { char::from(*byte) } else { '?' };
        *replica.ip.lock() = value.iter().map(shown).collect();
    } else if is_word(option, "CAPA") {
        replica.has_eof.fetch_or(is_word(value, "EOF"), Relaxed); // others are ignored, as in Redis
        replica.has_psync2.fetch_or(is_word(value, "PSYNC2"), Relaxed);
    } else if is_word(option, "RDB-FILTER-ONLY") {
        let words = split_words(value).ok_or_else(|| Error::other("Missing rdb-filter-only values"))?;
        let mut wanted = WantedData { keys: false, libraries: false };
        for word in words {
            if !is_word(&word, "FUNCTIONS") {
                let word = String::from_utf8_lossy(&word);
                return Err(Error::other(format!("Unsupported rdb-filter-only option: {word}")));
            }
            wanted.libraries = true;
        }
        *replica.wanted.lock() = wanted;
    } else if !is_word(option, "VERSION") {
        let option = String::from_utf8_lossy(option);
        return Err(Error::other(format!("Unrecognized REPLCONF option: {option}")));
    }
    Ok(())
}

/// Records the position that a replica has executed, and the one it has in a fsynced file. There is no reply.
fn acknowledge(call: &mut Call<'_>, replica: &Replica) -> Result<()> {
    let position = |value: &[u8]| parse_int(value).and_then(|position| u64::try_from(position).ok());
    let Some(executed) = position(call.args.bytes()?) else { return Ok(()) };
    let synced =
        if call.args.left() > 0 && is_word(call.args.bytes()?, "FACK") { position(call.args.bytes()?) } else { None };
    let now = call.now();
    if let Some(feed) = &mut call.session()?.feed {
        feed.acknowledged();
        replica.acknowledge(executed, synced, now);
        call.namespace.replicas.unblock_waiters(&call.namespace.clients);
        call.namespace.follow_replicas(now);
    }
    Ok(())
}

/// Returns the client as a replica that asks for the data; `None` if it is a replica already, or runs MONITOR: Redis
/// does not reply to these.
fn asking(call: &mut Call<'_>) -> Result<Option<Arc<Replica>>> {
    let session = call.session()?;
    if session.feed.is_some() || session.is_monitor {
        return Ok(None);
    }
    let is_failover = asks_for_failover(call.args.request());
    if is_failover {
        if call.namespace.member().is_some() {
            return Err(Error::NotInPrivate);
        }
        take_role_over(call)?;
    }
    let role = &call.namespace.role;
    if role.is_replica() && !role.link().is_up() {
        return Err(Error::NoPrimaryLink);
    }
    if !call.reply.output().is_empty() {
        return Err(Error::other("SYNC and PSYNC are invalid with pending output"));
    }
    let (replica, clock_steps) = (replica(call)?, call.namespace.role.clock_steps());
    if replica.clock_steps.load(Relaxed) != clock_steps && !is_failover {
        return Err(Error::NoPrimaryLink); // it may have been told another time, and has to introduce itself again
    }
    if *replica.wanted.lock() != WantedData::ALL && !replica.has_eof.load(Relaxed) {
        return Err(Error::other("Filtered replica requires EOF capability"));
    }
    Ok(Some(replica))
}

/// Returns true if a request of PSYNC asks a replica to become the primary.
fn asks_for_failover(request: Request<'_>) -> bool {
    request.len() > 3 && is_word(request.arg(3), "FAILOVER")
}

/// Makes a replica the primary at the request of its primary.
fn take_role_over(call: &mut Call<'_>) -> Result<()> {
    let (namespace, id) = (call.namespace, call.args.request().arg(1));
    warn!("Failover request received for replid {}.", id.escape_ascii());
    if !namespace.role.is_replica() {
        return Err(Error::other("PSYNC FAILOVER can't be sent to a master."));
    }
    if !namespace.tenant.replication_id().as_bytes().eq_ignore_ascii_case(id) {
        return Err(Error::other("PSYNC FAILOVER replid must match my replid."));
    }
    namespace.become_primary();
    info!("MASTER MODE enabled (failover request from '{}')", call.caller.info.line(call.now(), 0));
    Ok(())
}

fn continue_or_synchronize(call: &mut Call<'_>) -> Result<()> {
    let Some(replica) = asking(call)? else { return Ok(()) };
    let id = call.args.bytes()?;
    let offset = call.args.int().inspect_err(|_| {
        warn!("Replica {} asks for synchronization but with a wrong offset", call.caller.info.peer.addr);
    })?;
    let position = u64::try_from(offset).ok().and_then(|offset| offset.checked_sub(1));
    let namespace = call.namespace;
    if let Some(reader) = position.and_then(|position| namespace.resume(id, position)) {
        namespace.observed.stats.partial_syncs.fetch_add(1, Relaxed);
        let line = replica.continue_line(&namespace.tenant.replication_id());
        return add(call, &replica, Feed::log(replica.clone(), line, reader));
    }
    if let Some((position, reader)) = position.and_then(|at| Some((at, namespace.resume_late(id, at)?))) {
        let waiting = wait(call, &replica)?;
        namespace.replicas.await_missing(LaggingReplica { waiting, position, reader });
        namespace.persistence.look();
        return Ok(());
    }
    if !id.starts_with(b"?") {
        namespace.observed.stats.refused_partial_syncs.fetch_add(1, Relaxed); // it was not asked for just anything
    }
    begin(call, replica)
}

fn synchronize(call: &mut Call<'_>) -> Result<()> {
    let Some(replica) = asking(call)? else { return Ok(()) };
    replica.is_old.store(true, Relaxed);
    begin(call, replica)
}

/// Begins a full synchronisation: the client is to receive the next snapshot.
fn begin(call: &mut Call<'_>, replica: Arc<Replica>) -> Result<()> {
    call.namespace.observed.stats.full_syncs.fetch_add(1, Relaxed);
    let waiting = wait(call, &replica)?;
    call.namespace.replicas.await_snapshot(waiting);
    match call.namespace.member().and_then(|member| Some((member.number, member.topology()?))) {
        Some((at, topology)) => topology.send_snapshots(at),
        None => call.namespace.persistence.look(),
    }
    Ok(())
}

/// Makes the client a replica that waits for a snapshot from the thread that writes files.
fn wait(call: &mut Call<'_>, replica: &Arc<Replica>) -> Result<WaitingReplica> {
    let (parts, received) = mpsc::channel(PARTS_MAX);
    add(call, replica, Feed::snapshot(replica.clone(), received))?;
    Ok(WaitingReplica { replica: replica.clone(), parts, since_ms: call.now().mono_ms() })
}

/// Makes the client a replica.
fn add(call: &mut Call<'_>, replica: &Arc<Replica>, feed: Feed) -> Result<()> {
    let session = call.session()?;
    session.feed = Some(Box::new(feed));
    session.replies = Replies::Off; // a reply would be read as a part of the stream
    call.caller.info.session.set_replica();
    call.namespace.replicas.add(replica.clone(), call.now());
    call.namespace.keep_backlog_of_replica();
    call.end_batch();
    Ok(())
}
