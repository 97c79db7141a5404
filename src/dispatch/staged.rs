//! Calls of a namespace whose data is in a cluster: the decision which of them need the engine, and their execution by
//! the engine on copies of their keys.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::acl::Context;
use crate::client::caller::Caller;
use crate::client::engine::{Engine, KEYS_MAX, StagedCall, StagedOutcome};
use crate::client::registry::{Suspended, Unblocked};
use crate::client::session::{Client, Session};
use crate::client::staged::Staged;
use crate::dispatch::admission::declares_writes;
use crate::dispatch::call::{Call, CallMode, Continuation};
use crate::dispatch::checks::{Admission, Obstacle, STAGED_CHECKS};
use crate::dispatch::declared::{is_repeatable, keys_of, needs_all_keys};
use crate::dispatch::denials::record_denial;
use crate::dispatch::post_call::record_from_ns;
use crate::dispatch::run::{run, run_again};
use crate::dispatch::{BlockedRequest, Env, Handlers, Next, Wait};
use crate::error::{Denial, Error, Result};
use crate::namespace::Namespace;
use crate::resp::{Output, Reply, Request, parse_int};
use crate::spec::marks::{EXECUTES_QUEUE, NEEDS_FRESH_KEYS, OF_FUNCTIONS, SELECTS_DB};
use crate::spec::registry::Hashes;
use crate::spec::{CommandSpec, MAY_REPLICATE, READ, WRITE};
use crate::store::{BusyFlag, Cx, Lookup, View};

/// Part of the engine in a request.
pub(super) enum Need {
    /// None: the request accesses no keys, or only fails.
    Nothing,
    /// The engine has to bring the mirror up to date first.
    Fresh,
    /// The engine has to execute the request.
    Staged,
}

/// Returns the part of the engine in a request.
pub(super) fn need_of(
    namespace: &Namespace,
    client: &Client,
    command: &'static CommandSpec,
    request: Request<'_>,
) -> Need {
    let Some(transaction) = client.session.transaction.as_ref().filter(|_| command.is(EXECUTES_QUEUE)) else {
        return need_of_command(namespace, command, request);
    };
    if transaction.failed {
        return Need::Nothing;
    }
    let watches = !client.session.watch.keys.is_empty() || request.len() > 1;
    let queued = transaction.queue.iter().map(|(queued, request)| (*queued, request.as_request()));
    let needs = queued.map(|(queued, request)| need_of_command(namespace, queued, request));
    needs.fold(if watches { Need::Fresh } else { Need::Nothing }, |all, one| match (all, one) {
        (Need::Staged, _) | (_, Need::Staged) => Need::Staged,
        (Need::Fresh, _) | (_, Need::Fresh) => Need::Fresh,
        _ => Need::Nothing,
    })
}

fn need_of_command(namespace: &Namespace, command: &'static CommandSpec, request: Request<'_>) -> Need {
    // Commands that may replicate change data, too: PUBLISH, PFCOUNT, scripts that do not declare otherwise.
    if declares_writes(namespace, command, request, WRITE | MAY_REPLICATE) {
        Need::Staged
    } else if command.flags & (READ | MAY_REPLICATE) != 0 || command.is(NEEDS_FRESH_KEYS | OF_FUNCTIONS) {
        // A script that declares that it does not write is taken for a reader, whatever keys it names.
        Need::Fresh
    } else {
        Need::Nothing
    }
}

/// Takes over the client's request for the engine, with its transaction and watches. It was admitted in this
/// generation.
///
/// # Errors
/// The reason for which the engine cannot execute the request.
pub(super) fn staged_call(
    (namespace, generation): (&Namespace, u64),
    client: &mut Client,
    command: &'static CommandSpec,
    request: Request<'_>,
) -> Result<StagedCall> {
    let Client { caller, session } = client;
    let mut keys = keys_of(command, request, caller.db);
    let (mut transaction, mut watch) = (None, None);
    if command.is(EXECUTES_QUEUE) {
        let mut db = caller.db;
        for (queued, request) in session.transaction.iter().flat_map(|transaction| &transaction.queue) {
            if needs_all_keys(queued) {
                return Err(Error::UndeclaredKey(&queued.name));
            }
            if !is_repeatable(queued) {
                return Err(Error::NotRepeatable(&queued.name));
            }
            let request = request.as_request();
            if queued.is(SELECTS_DB) && request.len() > 1 {
                let selected = parse_int(request.arg(1)).and_then(|number| usize::try_from(number).ok());
                db = selected.filter(|db| namespace.store.may_use(*db)).unwrap_or(db);
            }
            keys.extend(keys_of(queued, request, db));
        }
        keys.sort_unstable();
        keys.dedup();
        check_count(command, keys.len() + session.watch.keys.len())?;
        transaction = session.transaction.take();
        caller.info.set_queued(None);
        if !session.watch.keys.is_empty() {
            watch = Some(std::mem::take(&mut session.watch));
            caller.info.session.set_watched(0);
        }
    }
    check_count(command, keys.len())?;
    let (request, caller) = (Arc::new(request.to_owned()), caller.clone());
    Ok(StagedCall { command, request, caller, keys: keys.into(), transaction, watch, generation: Some(generation) })
}

fn check_count(command: &'static CommandSpec, keys: usize) -> Result<()> {
    if keys > KEYS_MAX { Err(Error::TooManyKeysForEngine(&command.name, KEYS_MAX)) } else { Ok(()) }
}

/// The rest of a call that an engine executes.
pub(super) struct StagedRest {
    outcome: Option<oneshot::Receiver<StagedOutcome>>,
    ended: Option<StagedOutcome>,
    /// Wait of the client, once it is blocked.
    suspended: Option<Box<Suspended>>,
    /// End of that wait, if the client leaves the queue for a lock.
    leaving: Option<Leaving>,
    /// Database that the call has selected.
    selected: Option<usize>,
}

/// Departure of a client from the queue for a lock.
struct Leaving {
    /// Receiver of the confirmation.
    done: Option<oneshot::Receiver<()>>,
    /// Event that has ended the client's wait.
    woken: Unblocked,
}

impl StagedRest {
    /// Hands a call to an engine.
    pub(super) fn begin(engine: &dyn Engine, call: StagedCall) -> Self {
        let (done, outcome) = oneshot::channel();
        engine.execute(call, done);
        StagedRest { outcome: Some(outcome), ended: None, suspended: None, leaving: None, selected: None }
    }
}

impl Continuation for StagedRest {
    fn wait(&mut self) -> Wait<'_> {
        let StagedRest { outcome, ended, suspended, leaving, .. } = self;
        if let Some(Leaving { done, .. }) = leaving {
            return Wait::Commit(Box::pin(async move {
                if let Some(left) = done {
                    let _ = left.await; // it is closed if the server stops
                    *done = None;
                }
            }));
        }
        if let Some(suspended) = suspended {
            return suspended.wait();
        }
        Wait::Commit(Box::pin(async move {
            if let Some(told) = outcome {
                // The channel is closed if the server stops.
                *ended = Some(told.await.unwrap_or(StagedOutcome::Failed(Error::Uncertain)));
                *outcome = None;
            }
        }))
    }

    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, woken: Unblocked) -> Result<bool> {
        if let Some(suspended) = &mut self.suspended {
            let engine = env.namespace.engine().filter(|_| suspended.is_in_lock_queue());
            return match (self.leaving.take(), engine) {
                (Some(Leaving { done: None, woken }), _) => suspended.step(env, view, reply, woken),
                (Some(leaving), _) => {
                    self.leaving = Some(leaving);
                    Ok(false)
                }
                (None, Some(engine)) if !woken.is_reply() => {
                    let (tell, done) = oneshot::channel();
                    leave_queue(engine, suspended, Some(tell));
                    self.leaving = Some(Leaving { done: Some(done), woken });
                    Ok(false)
                }
                (None, _) => suspended.step(env, view, reply, woken),
            };
        }
        match self.ended.take() {
            None => Ok(false),
            Some(StagedOutcome::Replied(written, db)) => {
                self.selected = Some(db);
                reply.output().append(written);
                Ok(true)
            }
            Some(StagedOutcome::Failed(error)) => Err(error),
            Some(StagedOutcome::Withdrawn) => Ok(true),
            Some(StagedOutcome::Blocked(suspended)) => {
                self.suspended = Some(suspended);
                Ok(false)
            }
        }
    }

    fn finish(&mut self, caller: &mut Caller) {
        if let Some(db) = self.selected.filter(|db| *db != caller.db) {
            caller.select(db);
        }
    }

    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        // The client may have been blocked just now.
        let receive = |outcome: &mut oneshot::Receiver<StagedOutcome>| {
            outcome.close(); // the engine sees that, and a later outcome is not received
            outcome.try_recv().ok()
        };
        let outcome = self.outcome.as_mut().and_then(receive).or_else(|| self.ended.take());
        if let Some(StagedOutcome::Blocked(suspended)) = outcome {
            self.suspended = Some(suspended);
        }
        if let Some(suspended) = &mut self.suspended {
            match env.namespace.engine().filter(|_| suspended.is_in_lock_queue()) {
                Some(engine) => leave_queue(engine, suspended, None),
                None => suspended.abandon(env, view),
            }
        }
    }

    fn blocked_call(&self) -> Option<BlockedRequest<'_>> {
        self.suspended.as_ref().and_then(|suspended| suspended.blocked_call())
    }
}

/// Makes an engine end the wait of a client for a lock.
fn leave_queue(engine: &dyn Engine, suspended: &Suspended, done: Option<oneshot::Sender<()>>) {
    engine.leave_queue(suspended.awaited_locks(), suspended.blocked.number(), done);
}

/// Withheld reply of a call that has changed the admission state, until calls admitted before it are settled in the
/// cluster.
pub(super) struct SettledRest {
    settled: oneshot::Receiver<()>,
    busy_flag: Arc<BusyFlag>,
    reply: Output,
}

/// Interval of the checks for a busy script, whose end the reply does not wait for.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

impl SettledRest {
    pub(super) fn new(settled: oneshot::Receiver<()>, busy_flag: Arc<BusyFlag>, reply: Output) -> Self {
        SettledRest { settled, busy_flag, reply }
    }
}

impl Continuation for SettledRest {
    fn wait(&mut self) -> Wait<'_> {
        let SettledRest { settled, busy_flag, .. } = self;
        Wait::Commit(Box::pin(async move {
            // The channel is closed if the server stops.
            while timeout(BUSY_PAUSE, &mut *settled).await.is_err() && !busy_flag.is_occupied() {}
        }))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        reply.output().append(std::mem::take(&mut self.reply));
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Reason for which a call is not executed at present, although it was admitted before the admission state changed.
pub(crate) enum Withdrawal {
    /// The client's connection is about to be closed.
    Gone,
    /// The call is rejected by the client's present permissions; a missing permission, if that is the reason, goes to
    /// the ACL log.
    Refused(Error, Option<Denial>),
    /// The call has to wait for the end of a pause, at this time in monotonic milliseconds.
    Paused(u64),
}

/// Checks a call again if the admission state has changed since it was admitted; returns true if its permissions have
/// changed.
///
/// # Errors
/// The reason for which it is not to be executed.
pub(crate) fn admit_staged(
    namespace: &Namespace,
    handlers: &'static Handlers,
    call: &mut StagedCall,
) -> std::result::Result<bool, Withdrawal> {
    let generation = namespace.store.generation();
    if call.generation == Some(generation) {
        return Ok(false);
    }
    let caller = &mut call.caller;
    let has_changed = caller.access.is_outdated(&namespace.acl);
    caller.follow_users(&namespace.acl);
    if caller.closing || caller.info.outbox.is_ending() {
        return Err(Withdrawal::Gone);
    }
    let now = namespace.clock.now();
    match with_admission(namespace, handlers, call, |admission| admission.obstacle(&STAGED_CHECKS)) {
        None | Some(Obstacle::Injected(_)) => {}
        Some(Obstacle::Paused) => {
            let end = namespace.restrictions.pause.in_force(now);
            return Err(Withdrawal::Paused(end.map_or(now.mono_ms(), |(_, until_ms)| until_ms)));
        }
        Some(Obstacle::Refused(error, denial)) => {
            let is_exec = call.command.is(EXECUTES_QUEUE);
            return Err(Withdrawal::Refused(if is_exec { error.of_exec() } else { error }, denial));
        }
    }
    call.generation = Some(generation);
    Ok(has_changed)
}

/// Records that a call is not executed for lack of a permission.
pub(crate) fn record_withdrawal(
    namespace: &Namespace,
    handlers: &'static Handlers,
    call: &StagedCall,
    denial: Option<Denial>,
) {
    let record = |admission: &Admission<'_>| {
        if let Some(denial) = denial {
            record_denial(admission, denial, Context::TopLevel);
        }
    };
    with_admission(namespace, handlers, call, record);
}

/// Calls `look` with the admission data of a staged call.
fn with_admission<R>(
    namespace: &Namespace,
    handlers: &'static Handlers,
    call: &StagedCall,
    look: impl FnOnce(&Admission<'_>) -> R,
) -> R {
    let StagedCall { command, request, caller, transaction, .. } = call;
    let session = transaction.clone().map(Session::of_transaction);
    let (session, request, now) = (session.as_ref(), request.as_request(), namespace.clock.now());
    Env::with_present(namespace, handlers, 0, |Env { config, .. }| {
        look(&Admission { namespace, config, caller, session, command, request, now, script: None })
    })
}

/// Results of a staged call, besides the changes of its keys.
pub(crate) struct StagedEnd {
    /// Wait of the client, if it is to be blocked.
    pub(crate) suspended: Option<Box<Suspended>>,
    /// Database that is selected after the call.
    pub(crate) db: usize,
    /// Messages that the call has sent, and keys that it has read.
    pub(crate) staged: Staged,
    /// True if the call was interrupted after some of its changes.
    pub(crate) is_half_done: bool,
}

/// Executes a call on copies of its keys: for its client or, with `again`, because the client is blocked. `staged`
/// is the result of the earlier calls of the same transaction.
pub(crate) fn run_staged(
    env: Env<'_>,
    view: &mut View<'_>,
    call: &StagedCall,
    (again, staged): (Option<&mut Next>, Staged),
    out: &mut Output,
) -> StagedEnd {
    let StagedCall { command, request, keys, transaction, .. } = call;
    let (request, mut hashes) = (request.as_request(), Hashes::new());
    command.hash_keys(request, &env.namespace.store, &mut hashes);
    let mut caller = call.caller.clone();
    caller.staged = Some(Box::new(Staged { keys: keys.clone(), ..staged }));
    let mut session = transaction.clone().map(Session::of_transaction);
    let (mut suspended, is_again) = (None, again.is_some());
    let mode = CallMode::Staged { session: session.as_mut(), suspended: &mut suspended, again };
    let (db, cx) = (caller.db, view.cx());
    let view = view.lend(db, Cx { lookup: Lookup::allowed(!caller.info.flags.is_no_touch()), ..cx });
    let mut call = Call::new(env, &mut caller, view, (command, request, &hashes), mode, out);
    call.timer.set_recording(record_from_ns(call.namespace, call.caller, call.config), call.config.latency_tracking);
    if is_again {
        _ = run_again(&mut call);
    } else {
        run(&mut call);
    }
    drop(call);
    let staged = caller.staged.take().map(|staged| *staged).unwrap_or_default();
    StagedEnd { suspended, db: caller.db, staged, is_half_done: caller.is_half_done }
}
