//! `LOCK.ACQUIRE .. REPLICAS`: a lock that is granted when replicas have it, and released otherwise.
//!
//! SET followed by WAIT only reports that too few replicas have the lock, which is held all the same. Here the lock is
//! acquired as without REPLICAS, at once or in its turn, and the reply is withheld until the replicas have acknowledged
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::info::ClientInfo;
use crate::client::registry::{Blocked, Blocking, Unblocked};
use crate::client::replica::{AwaitedReplicas, WaitingForReplicas};
use crate::dispatch::{BlockedRequest, Call, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::resp::{Output, Reply};
use crate::store::{HeldLock, Key, View};

/// The time limit for replicas without BLOCK, in milliseconds.
const PATIENCE_MS: u64 = 1000;

/// Parses the number of replicas that have to be waited for: none where a majority of a cluster has every lock.
///
/// # Errors
/// The call must not wait; the cluster has too few members; or the server is a replica, whose writes are its own alone.
pub(super) fn read_replicas(call: &mut Call<'_>) -> Result<usize> {
    let replicas = usize::try_from(call.args.int()?).map_err(|_| Error::NotPositive)?;
    if call.namespace.engine().is_some() {
        let members = call.namespace.observed.engine.cluster.lock().members;
        let refusal =
            || Error::other(format!("REPLICAS must be below {members}, the number of members of the etcd cluster"));
        return if replicas < members { Ok(0) } else { Err(refusal()) };
    }
    if replicas > 0 && call.is_nested() {
        return Err(Error::other("REPLICAS makes LOCK.ACQUIRE wait, which is not possible in MULTI and in scripts"));
    }
    if replicas > 0 && call.namespace.role.is_replica() {
        return Err(Error::other("REPLICAS cannot be used with replica instances"));
    }
    Ok(replicas)
}

/// Makes a call that has acquired a lock, or waits for it in `queued`, reply with the fencing token when enough
/// replicas have the lock; `until_ms` limits the wait, in monotonic milliseconds.
pub(super) fn reply_when_acknowledged(
    call: &mut Call<'_>,
    (key, token): (Key<'_>, &[u8]),
    (replicas, until_ms): (usize, Option<u64>),
    queued: Option<Box<dyn Continuation>>,
) -> Result<()> {
    let until_ms = until_ms.unwrap_or_else(|| call.now().mono_ms().saturating_add(PATIENCE_MS));
    let (db, info) = (call.caller.db, call.caller.info.clone());
    let (key, hash, token) = (key.bytes.into(), key.hash, token.into());
    call.continue_with(Replicated { queued, db, key, hash, token, info, replicas, until_ms, acknowledged: None })
}

/// The continuation of such a call.
struct Replicated {
    /// The wait in the queue for the lock, if it was not free.
    queued: Option<Box<dyn Continuation>>,
    db: usize,
    key: Box<[u8]>,
    hash: u64,
    token: Box<[u8]>,
    info: Arc<ClientInfo>,
    replicas: usize,
    until_ms: u64,
    /// The wait for the replicas, once the client has the lock.
    acknowledged: Option<(WaitingForReplicas, Blocked)>,
}

impl Replicated {
    fn key(&self) -> Key<'_> {
        Key { bytes: &self.key, hash: self.hash }
    }

    /// Returns the fencing token and the deadline, in monotonic milliseconds, of the lock while the client holds it.
    fn held(&self, env: Env<'_>, view: &mut View<'_>) -> Option<(i64, Option<u64>)> {
        let now = env.namespace.clock.now();
        let client = self.info.id;
        let (key, token) = (self.key(), &self.token);
        let hash = env.namespace.store.hash(token);
        view.locks().inspect(self.db, key, |lock, deadline| {
            let (record, until_ms) = match lock {
                HeldLock::Exclusive(record) => (record, deadline.map(|deadline| deadline.mono_ms(now))),
                HeldLock::Shared(holders) => {
                    let holder = holders.get(holders.find(hash, token)?)?;
                    (&holder.record, Some(holder.until_ms))
                }
            };
            record.is_held_by(client, token).then_some((record.fence, until_ms))
        })?
    }

    /// Begins to wait for the replicas.
    fn begin(&mut self, env: Env<'_>, expires_ms: Option<u64>) {
        let namespace = env.namespace;
        // This is beyond the lock's own position: it may have been acquired by another client with the same token.
        let awaited = AwaitedReplicas { count: self.replicas, position: namespace.log.end(), must_be_synced: false };
        namespace.ask_replicas();
        let acknowledged = namespace.replicas.wait(self.info.id, awaited);
        let until_ms = self.until_ms.min(expires_ms.unwrap_or(u64::MAX));
        let blocked = namespace.clients.block(&self.info, Blocking::Time, until_ms);
        // An acknowledgement before the client was blocked has not woken it.
        if acknowledged.is_over() {
            namespace.clients.unblock(self.info.id, Unblocked::InTime);
        }
        self.acknowledged = Some((acknowledged, blocked));
    }

    /// Continues when the wait in the queue has ended or made progress: ends with its reply if the client does not have
    /// the lock, otherwise begins to wait for the replicas.
    fn acquire(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        let mut answer = Output::new();
        let mut own = Reply::new(&mut answer, reply.protocol());
        let is_over = match &mut self.queued {
            Some(queued) => queued.step(env, view, &mut own, woken)?,
            None => {
                own.null();
                true
            }
        };
        if !is_over {
            return Ok(false);
        }
        let Some((_, expires_ms)) = self.held(env, view) else {
            reply.output().append(answer);
            return Ok(true);
        };
        self.queued = None; // before the client begins another wait
        self.begin(env, expires_ms);
        Ok(false)
    }
}

impl Continuation for Replicated {
    fn wait(&mut self) -> Wait<'_> {
        match (&self.acknowledged, &mut self.queued) {
            (Some((_, blocked)), _) => Wait::Blocked(blocked),
            (None, Some(queued)) => queued.wait(),
            (None, None) => Wait::Turn,
        }
    }

    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        let Some((acknowledged, _)) = &self.acknowledged else { return self.acquire(env, view, reply, woken) };
        let is_replicated = acknowledged.is_over();
        match self.held(env, view) {
            Some((fence, _)) if is_replicated => reply.int(fence),
            _ => {
                self.abandon(env, view);
                if let Unblocked::WithError = woken {
                    return Err(Error::Unblocked);
                }
                env.namespace.observed.locks.timed_out.fetch_add(1, Relaxed);
                reply.null();
            }
        }
        Ok(true)
    }

    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        if let Some(queued) = &mut self.queued {
            queued.abandon(env, view);
        }
        env.namespace.take_back_lock((self.db, self.key()), &self.token, (self.info.id, 0), view);
    }

    fn blocked_call(&self) -> Option<BlockedRequest<'_>> {
        self.queued.as_ref()?.blocked_call()
    }
}
