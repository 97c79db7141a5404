//! Calls of a namespace whose data is in a cluster: which of them an engine has to execute or to be asked before, and how
//! it executes one on copies of its keys.

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
use crate::dispatch::call::{Call, Continuation, Mode};
use crate::dispatch::declared::{is_repeatable, keys_of, needs_all_keys};
use crate::dispatch::denials::record_denial;
use crate::dispatch::gate::{Admission, Obstacle, STAGED_CHECKS, declares_writes};
use crate::dispatch::post_call::record_from_ns;
use crate::dispatch::run::{run, run_again};
use crate::dispatch::{BlockedRequest, Env, Handlers, Next, Wait};
use crate::error::{Denial, Error, Result};
use crate::namespace::Namespace;
use crate::resp::{Output, Reply, Request, parse_int};
use crate::spec::marks::{EXECUTES_QUEUE, NEEDS_FRESH_KEYS, SELECTS_DB};
use crate::spec::registry::Hashes;
use crate::spec::{CommandSpec, MAY_REPLICATE, READ, WRITE};
use crate::store::{BusyFlag, Cx, Lookup, View};

/// What a request needs of the engine.
pub(super) enum Need {
    /// Nothing: it concerns no keys, or only fails.
    Nothing,
    /// The mirror has to be up to date.
    Fresh,
    /// The engine has to execute it.
    Staged,
}

/// Returns what a request needs of the engine.
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
    // What may replicate changes data, too: scripts that do not say otherwise, PUBLISH, PFCOUNT.
    if declares_writes(namespace, command, request, WRITE | MAY_REPLICATE) {
        Need::Staged
    } else if command.flags & (READ | MAY_REPLICATE) != 0 || command.is(NEEDS_FRESH_KEYS) {
        // A script that says that it writes nothing reads, whatever keys it declares.
        Need::Fresh
    } else {
        Need::Nothing
    }
}

/// Takes what the engine has to execute of a client's request, which was admitted in a generation.
///
/// # Errors
/// Why it does not execute that.
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
    /// Receives the outcome of the call.
    outcome: Option<oneshot::Receiver<StagedOutcome>>,
    ended: Option<StagedOutcome>,
    /// The wait of its client, once it is blocked.
    suspended: Option<Box<Suspended>>,
    /// The end of that wait, if its client leaves the queue for a lock.
    leaving: Option<Leaving>,
    /// The database that its client has selected since.
    selected: Option<usize>,
}

/// A client leaves the queue for a lock.
struct Leaving {
    /// Receives that it has.
    done: Option<oneshot::Receiver<()>>,
    /// What ended its wait.
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
                // It is closed if the server stops.
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
        self.selected.filter(|db| *db != caller.db).into_iter().for_each(|db| caller.select(db));
    }

    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        // The client may have been blocked at this moment.
        let receive = |outcome: &mut oneshot::Receiver<StagedOutcome>| {
            outcome.close(); // what comes later is not received, which the engine sees
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

/// Lets an engine end the wait of a client for a lock.
fn leave_queue(engine: &dyn Engine, suspended: &Suspended, done: Option<oneshot::Sender<()>>) {
    if let Some(lock) = suspended.awaited_lock() {
        engine.leave_queue(lock, suspended.blocked.number(), done);
    }
}

/// The reply of a call that has published something, while calls are on the way to the cluster that were admitted before.
pub(super) struct SettledRest {
    settled: oneshot::Receiver<()>,
    busy_flag: Arc<BusyFlag>,
    reply: Output,
}

/// The interval at which it looks whether a script keeps the server busy, whose end is not waited for.
const BUSY_PAUSE: Duration = Duration::from_millis(10);

impl SettledRest {
    /// Creates the rest of a call with this reply.
    pub(super) fn new(settled: oneshot::Receiver<()>, busy_flag: Arc<BusyFlag>, reply: Output) -> Self {
        SettledRest { settled, busy_flag, reply }
    }
}

impl Continuation for SettledRest {
    fn wait(&mut self) -> Wait<'_> {
        let SettledRest { settled, busy_flag, .. } = self;
        Wait::Commit(Box::pin(async move {
            // It is closed if the server stops.
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

/// Why a call is not executed at present that was admitted before something was published.
pub(crate) enum Withdrawal {
    /// Its client is about to be closed.
    Gone,
    /// It is refused by what its client may do now; a missing permission, if that is the reason, goes to the ACL log.
    Refused(Error, Option<Denial>),
    /// It has to wait for the end of a pause, at this time in monotonic milliseconds.
    Paused(u64),
}

/// Looks at what a call is admitted by that was published since, if anything was; returns whether it is executed by other
/// permissions from now on.
///
/// # Errors
/// Why it is not to be executed.
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
        denial.iter().for_each(|denial| record_denial(admission, *denial, Context::TopLevel));
    };
    with_admission(namespace, handlers, call, record);
}

/// Calls `look` with what a staged call is checked by.
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

/// What a call has left on the stage, besides what its keys are.
pub(crate) struct StagedEnd {
    /// The wait of its client, if that is to be blocked.
    pub(crate) suspended: Option<Box<Suspended>>,
    /// The database that its client has selected since.
    pub(crate) db: usize,
    /// What it has sent and read.
    pub(crate) staged: Staged,
}

/// Executes a call on copies of its keys: for its client or, with `again`, because that is blocked. Others of the same
/// transaction have given some fencing tokens before.
pub(crate) fn run_staged(
    env: Env<'_>,
    view: &mut View<'_>,
    call: &StagedCall,
    (again, given_fences): (Option<&mut Next>, u32),
    out: &mut Output,
) -> StagedEnd {
    let StagedCall { command, request, keys, transaction, .. } = call;
    let (request, mut hashes) = (request.as_request(), Hashes::new());
    command.hash_keys(request, &env.namespace.store, &mut hashes);
    let mut caller = call.caller.clone();
    caller.staged = Some(Box::new(Staged { keys: keys.clone(), given_fences, ..Staged::default() }));
    let mut session = transaction.clone().map(Session::of_transaction);
    let (mut suspended, is_again) = (None, again.is_some());
    let mode = Mode::Staged { session: session.as_mut(), suspended: &mut suspended, again };
    let (db, cx) = (caller.db, view.cx());
    let view = view.lend(db, Cx { lookup: Lookup::allowed(!caller.info.flags.is_no_touch()), ..cx });
    let mut call = Call::new(env, &mut caller, view, (command, request, &hashes), mode, out);
    call.timer.set_recording(record_from_ns(call.namespace, call.caller, call.config), call.config.latency_tracking);
    match is_again {
        true => _ = run_again(&mut call),
        false => run(&mut call),
    }
    drop(call);
    let staged = caller.staged.take().map(|staged| *staged).unwrap_or_default();
    StagedEnd { suspended, db: caller.db, staged }
}
