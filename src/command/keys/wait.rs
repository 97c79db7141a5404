//! WAIT and WAITAOF: block until replicas, or the append-only file, have this connection's writes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::watch;

use crate::client::engine::Engine;
use crate::client::info::ClientInfo;
use crate::client::registry::{Blocked, Blocking, Unblocked};
use crate::client::replica::{AwaitedReplicas, WaitingForReplicas};
use crate::command::timeout::read_timeout;
use crate::dispatch::{Call, Command, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::role::WantedPrimary;
use crate::persist::{FileFigures, Persistence};
use crate::resp::Reply;
use crate::spec::{BLOCKING, Group, integer};
use crate::store::View;
use crate::time::clock::Clock;

const TIPS: &[&str] = &["request_policy:all_shards", "response_policy:agg_min"];

const NOT_ON_REPLICAS: &str = "WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a \
replica is configured to be writable (which is not the default) writes to replicas are just local and are not propagated.";
const NO_FILES_OF_REPLICAS: &str = "WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
are just local and are not propagated.";
const NO_FILE: &str = "WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("WAIT", wait, BLOCKING, Group::Generic)
        .args(&[integer("numreplicas"), integer("timeout")])
        .categories(&["connection"])
        .tips(TIPS)
        .docs("3.0.0", "O(1)", "Waits until replicas have acknowledged all writes of the connection."),
    Command::new("WAITAOF", wait_aof, BLOCKING, Group::Generic)
        .args(&[integer("numlocal"), integer("numreplicas"), integer("timeout")])
        .categories(&["connection"])
        .tips(TIPS)
        .docs("7.2.0", "O(1)", "Waits until all writes of the connection are fsynced to the append-only files of this server and of replicas."),
];

fn wait(call: &mut Call<'_>) -> Result<()> {
    if call.namespace.role.is_replica() {
        return Err(Error::other(NOT_ON_REPLICAS));
    }
    let (replicas, until_ms) = (call.args.int()?, read_timeout(call)?);
    if let Some(engine) = call.namespace.engine() {
        wait_for_majority(call, engine, (replicas, until_ms));
        return Ok(());
    }
    let position = call.caller.info.written.load(Relaxed);
    let awaited = AwaitedReplicas { count: usize::try_from(replicas).unwrap_or(0), position, must_be_synced: false };
    wait_for_replicas(call, awaited, until_ms, |reply, reached| reply.int(reached as i64));
    Ok(())
}

/// Replies with the number of members of a cluster, besides one, that certainly have all changes so far; 0 if the
/// outcome of one of them is not known by the timeout, in a transaction, which cannot wait for that, and to a client
/// that asks for no replica, which does not wait in Redis either.
fn wait_for_majority(call: &mut Call<'_>, engine: &dyn Engine, (replicas, until_ms): (i64, u64)) {
    if replicas > 0
        && let Some(wait) = call.wait_for_answer(until_ms, |reply| reply.int(0))
    {
        engine.confirm(wait);
    } else {
        call.reply.int(0);
    }
}

/// Replies with the number of replicas that have the client's changes: once it is reached, or on timeout.
fn wait_for_replicas(
    call: &mut Call<'_>,
    awaited: AwaitedReplicas,
    until_ms: u64,
    reply: impl Fn(&mut Reply<'_>, usize) + Send + 'static,
) {
    let (replicas, clients) = (&call.namespace.replicas, &call.namespace.clients);
    let reached = replicas.count(&awaited);
    if reached >= awaited.count || call.is_nested() {
        return reply(&mut call.reply, reached);
    }
    call.namespace.ask_replicas();
    let client = call.caller.info.id;
    let (waiting, counted) = (replicas.wait(client, awaited), replicas.clone());
    call.wait_until(until_ms, move |out| reply(out, waiting.count()));
    // An acknowledgement before the client was blocked has not woken it.
    if counted.count(&awaited) >= awaited.count {
        clients.unblock(client, Unblocked::InTime);
    }
}

fn wait_aof(call: &mut Call<'_>) -> Result<()> {
    let waits_for_file = call.args.zero_or_one()?;
    let replicas = call.args.int()?;
    if replicas < 0 {
        return Err(Error::NotPositive);
    }
    let until_ms = read_timeout(call)?;
    if call.namespace.role.is_replica() {
        return Err(Error::other(NO_FILES_OF_REPLICAS));
    }
    if waits_for_file && !has_file(call.namespace) {
        return Err(Error::other(NO_FILE));
    }
    let position = call.caller.info.written.load(Relaxed);
    let awaited =
        AwaitedReplicas { count: usize::try_from(replicas).unwrap_or(usize::MAX), position, must_be_synced: true };
    if !waits_for_file || call.is_nested() {
        let files = call.namespace.persistence.clone();
        let reply = move |reply: &mut Reply<'_>, reached| reply_synced(reply, is_synced(&files, position), reached);
        wait_for_replicas(call, awaited, until_ms, reply);
        return Ok(());
    }
    call.namespace.ask_replicas();
    let info = call.caller.info.clone();
    let (term, role) = (call.namespace.role.term(), call.namespace.role.follow());
    call.continue_with(Syncing {
        term,
        role,
        files: call.namespace.persistence.clone(),
        clock: call.namespace.clock.clone(),
        waiting: call.namespace.replicas.wait(info.id, awaited),
        info,
        position,
        until_ms,
        outcome: Outcome::Unsynced,
        blocked: None,
    })
}

/// Returns true if there is an append-only file, or one is being started. A file that is turned off does not count,
/// even if it ends a little later: the next start does not load it.
fn has_file(namespace: &Namespace) -> bool {
    namespace.settings.current().appendonly && namespace.persistence.read(FileFigures::has_log)
}

/// Returns true if the file of this server durably contains the changes before a position.
fn is_synced(files: &Persistence, position: u64) -> bool {
    files.synced_position().is_some_and(|synced| synced >= position)
}

/// Replies with the state of this server's file, 1 if it is fsynced, and the number of replicas with a fsynced file.
fn reply_synced(reply: &mut Reply<'_>, is_synced: bool, replicas: usize) {
    reply.array(2);
    reply.int(i64::from(is_synced));
    reply.int(replicas as i64);
}

/// The outcome of the wait for this server's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Unsynced,
    Synced,
    /// The append-only file does not exist any more.
    NoFile,
}

/// The continuation of WAITAOF for a client that waits for this server's file: first for the file, then for replicas.
struct Syncing {
    /// The term of the role: in another term, the file begins again without the client's changes.
    term: u64,
    role: watch::Receiver<WantedPrimary>,
    files: Arc<Persistence>,
    clock: Clock,
    info: Arc<ClientInfo>,
    waiting: WaitingForReplicas,
    /// The log position at which the client's changes end.
    position: u64,
    /// The end of the timeout, in monotonic milliseconds.
    until_ms: u64,
    outcome: Outcome,
    /// The blocked client, once it waits for replicas.
    blocked: Option<Blocked>,
}

impl Syncing {
    /// Waits until the file is fsynced, until the timeout, or until the role changes.
    async fn run(&mut self) {
        let Syncing { files, clock, until_ms, outcome, role, term, .. } = self;
        let synced = async { *outcome = if files.synced().await { Outcome::Synced } else { Outcome::NoFile } };
        tokio::select! {
            biased;
            _ = role.wait_for(|wanted| wanted.term != *term) => {}
            () = synced => {}
            () = clock.reach(*until_ms) => {}
        }
    }
}

impl Continuation for Syncing {
    fn wait(&mut self) -> Wait<'_> {
        if self.blocked.is_some() {
            self.blocked.as_ref().map_or(Wait::Turn, Wait::Blocked)
        } else {
            Wait::Work(Box::pin(self.run()))
        }
    }

    fn step(&mut self, env: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        if env.namespace.role.term() != self.term {
            return Err(Error::RoleChanged);
        }
        if self.outcome == Outcome::NoFile || !has_file(env.namespace) {
            return Err(Error::other(NO_FILE));
        }
        if matches!(woken, Unblocked::WithError) {
            return Err(Error::Unblocked);
        }
        if self.outcome == Outcome::Synced && self.blocked.is_none() && !self.waiting.is_over() {
            let clients = &env.namespace.clients;
            self.blocked = Some(clients.block(&self.info, Blocking::Time, self.until_ms));
            if self.waiting.is_over() {
                clients.unblock(self.info.id, Unblocked::InTime); // as in `wait_for_replicas`
            }
            return Ok(false);
        }
        let is_synced = self.outcome == Outcome::Synced || is_synced(&self.files, self.position);
        reply_synced(reply, is_synced, self.waiting.count());
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}
