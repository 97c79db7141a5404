//! The checks that may reject a call, in one list for each kind of caller.
//!
//! A row of a list names the commands that a check concerns, and the conditions of the server, the client or the script
//! under which it may reject one. The masks of closed commands are computed from the rows; nothing else knows which
//! checks are needed: [`closed_to_client`] for the requests of a batch, [`closed_in_exec`] and [`closed_to_script`] for
//! nested calls. A request passes unchecked when its command has none of the flags of the mask, see [`is_open`]; all
//! others run through the list, [`CHECKS`], [`EXEC_CHECKS`] or [`SCRIPT_CHECKS`], in Redis' order.
//!
//! Invariant: a call that a list would reject does run through the list. `command/checks_tests.rs` compares the two for
//! every command in random states.

use crate::client::caller::Caller;
use crate::client::pause::PauseScope;
use crate::client::session::Client;
use crate::dispatch::admission::declares_writes;
pub(crate) use crate::dispatch::admission::{Admission, Obstacle, ScriptLimits};
use crate::dispatch::declared::{keys_of, needs_all_keys, slot_of_request};
use crate::dispatch::profile::{newer_word, of_service, undeclared_key};
use crate::dispatch::routing::route;
use crate::dispatch::unknown::of_no_command;
use crate::error::{Denial, Error};
use crate::namespace::Namespace;
use crate::namespace::files::SaveFailure;
use crate::namespace::member::Member;
use crate::namespace::restrictions::{
    FAILS_TO_SAVE, HAS_PROFILE, IN_CLUSTER, IN_TEST_MODE, IN_TOPOLOGY, IS_PRIVATE, IS_READ_ONLY, IS_STALE,
    LACKS_REPLICAS, LOADING_BESIDE, LOADING_DATA, ON_ENGINE, RESTARTING, RESTRICTION_BITS,
};
use crate::resp::Request;
use crate::spec::marks::{DROPS_QUEUE, EXECUTES_QUEUE, HEALTH_CHECK, OF_NODE, SCRIPTS_IN_DEBUGGING};
use crate::spec::{
    ALLOW_BUSY, ALLOW_SUBSCRIBED, CONTROL, CommandSpec, DENY_OOM, EVERY, Flags, Group, LOADING, MANY_KEYS,
    MAY_REPLICATE, NARROWED, NO_ASYNC_LOADING, NO_AUTH, NO_ENGINE, NO_MULTI, NO_QUEUE, NO_SCRIPT, OF_PROCESS,
    ONLY_SENTINEL, READ, SKIP_MONITOR, STALE, WRITE,
};
use crate::text::Dialect;

/// Check for one reason of rejection.
type Check = fn(&Admission<'_>) -> Option<Obstacle>;

/// Row of a list: the flags of the commands that a check concerns, [`EVERY`] for all; the conditions under which the
/// check may reject a call, or [`EACH_TIME`]; the check.
pub(crate) type CheckRow = (Flags, Conditions, Check);

/// Set of conditions that checks depend on: the [restrictions](Namespace::restrictions) of the namespace, and the
/// conditions below.
pub(crate) type Conditions = u32;

/// Mark of a check that is not in the mask, because its result may differ for the next request of the same batch. The
/// batch evaluates it for each request, see [`is_open`] and [`BatchRun`](super::batch::BatchRun).
const EACH_TIME: Conditions = 0;
/// CLIENT PAUSE may be in force.
const PAUSED: Conditions = 1 << RESTRICTION_BITS;
/// The user has to authenticate, or has restricted permissions.
const LIMITED_USER: Conditions = PAUSED << 1;
/// The client is between MULTI and EXEC.
const IN_TRANSACTION: Conditions = PAUSED << 2;
/// The client's calls need more than a reply, see [`Client::needs_attention`]; every subscriber's calls do.
const EXTRA_WORK: Conditions = PAUSED << 3;
/// The client runs MONITOR.
const IN_MONITOR: Conditions = PAUSED << 4;
/// The client follows redirections.
const REDIRECTED: Conditions = PAUSED << 8;
/// A script calls.
const IN_SCRIPT: Conditions = PAUSED << 5;
/// A script calls that must not write.
const IN_READ_ONLY_SCRIPT: Conditions = PAUSED << 6;
/// A script calls that began without enough memory.
const IN_SHORT_SCRIPT: Conditions = PAUSED << 7;

/// Conditions under which a batch has more work for every request than to check it: queue it, write push messages to
/// the client, inject a fault and record the call, or ask an engine.
const EXAMINED: Conditions = IN_TRANSACTION | EXTRA_WORK | IN_TEST_MODE | ON_ENGINE;

/// Commands that may write, or run other commands that do: EXEC and scripts.
const MAY_WRITE: Flags = WRITE | CONTROL;

/// Commands that Redis rejects from a client in MONITOR, because it treats it as a kind of replica. Scripts execute
/// commands on keys, so they are included.
pub(super) const ON_KEYS: Flags = READ | WRITE | MAY_REPLICATE | SKIP_MONITOR;

/// The checks of a client's request, in Redis' order: the first failing one determines the error.
pub(crate) const CHECKS: [CheckRow; 22] = [
    (ONLY_SENTINEL, IN_TEST_MODE, of_sentinel),
    (EVERY, EACH_TIME, arity),
    (EVERY, LIMITED_USER, login),
    (NO_MULTI, IN_TRANSACTION, no_multi),
    (EVERY, LIMITED_USER, permission),
    (OF_PROCESS, IS_PRIVATE, of_process),
    (NO_ENGINE, ON_ENGINE, on_engine),
    (READ | MAY_WRITE, REDIRECTED, redirected),
    (MANY_KEYS | CONTROL, IN_CLUSTER, one_slot),
    (EVERY, IN_TOPOLOGY, routed),
    (EVERY, HAS_PROFILE, of_service),
    (EVERY, EACH_TIME, memory),
    (EVERY, FAILS_TO_SAVE, saving),
    (MAY_WRITE, LACKS_REPLICAS, replicas),
    (MAY_WRITE, IS_READ_ONLY, read_only),
    (EVERY, EXTRA_WORK, subscribed),
    (EVERY, IS_STALE, stale),
    (EVERY, RESTARTING | LOADING_DATA, loading),
    (NO_ASYNC_LOADING | CONTROL, LOADING_BESIDE, loading_beside),
    (EVERY, EACH_TIME, script_runs),
    (ON_KEYS, IN_MONITOR, monitor),
    (EVERY, PAUSED, pause),
];

/// Last check of a client's request, made while the store's gate is held: a fault counts the calls that this check lets
/// pass, so each call must be checked once.
pub(crate) const FAULTS: [CheckRow; 1] = [(EVERY, IN_TEST_MODE, fault)];

/// Checks of a command in EXEC; it has passed [`CHECKS`] when it was queued.
pub(crate) const EXEC_CHECKS: [CheckRow; 3] = [
    (EVERY, LIMITED_USER, permission_at_exec),
    (EVERY, ON_ENGINE, declared_on_engine),
    (NARROWED, HAS_PROFILE, newer_word),
];

/// Checks of a blocked call when it is executed again, all of them each time; it has passed [`CHECKS`] when it blocked.
pub(crate) const WAKE_CHECKS: [CheckRow; 7] = [
    (EVERY, EACH_TIME, login),
    (EVERY, EACH_TIME, permission),
    (EVERY, EACH_TIME, routed),
    (EVERY, EACH_TIME, memory),
    (EVERY, EACH_TIME, saving),
    (EVERY, EACH_TIME, replicas),
    (EVERY, EACH_TIME, read_only),
];

/// Checks of a call that waits for an engine, after a change of the admission state; it has passed [`CHECKS`] before.
pub(crate) const STAGED_CHECKS: [CheckRow; 3] =
    [(EVERY, EACH_TIME, login), (EVERY, EACH_TIME, permission), (EVERY, EACH_TIME, pause)];

/// The checks of a command that a script calls.
pub(crate) const SCRIPT_CHECKS: [CheckRow; 13] = [
    (EVERY, EACH_TIME, arity_in_script),
    (NO_SCRIPT, IN_SCRIPT, not_for_scripts),
    (EVERY, ON_ENGINE, declared_on_engine),
    (EVERY, IS_STALE, stale_in_script),
    (EVERY, LIMITED_USER, permission_in_script),
    (WRITE | MAY_REPLICATE, IN_READ_ONLY_SCRIPT, read_only_script),
    (WRITE, IS_READ_ONLY, read_only_in_script),
    (WRITE, FAILS_TO_SAVE, saving_in_script),
    (WRITE, LACKS_REPLICAS, replicas_in_script),
    (DENY_OOM, IN_SHORT_SCRIPT, memory_in_script),
    (EVERY, IN_CLUSTER, one_slot_in_script),
    (EVERY, HAS_PROFILE, undeclared_key),
    (NARROWED, HAS_PROFILE, newer_word),
];

/// Checks of a command called by a replayed script: the script has run on the server that logged it, whatever the state
/// of this one.
pub(crate) const REPLAY_CHECKS: [CheckRow; 3] = [
    (EVERY, EACH_TIME, arity_in_script),
    (NO_SCRIPT, IN_SCRIPT, not_for_scripts),
    (WRITE | MAY_REPLICATE, IN_READ_ONLY_SCRIPT, read_only_script),
];

/// Returns the flags of commands that must be checked when a client calls them: none for a plain client of a server
/// without restrictions.
#[inline]
pub(crate) fn closed_to_client(namespace: &Namespace, client: &Client, has_extra_work: bool) -> Flags {
    let Client { caller, session } = client;
    let conditions = namespace.restrictions.bits()
        | when(PAUSED, namespace.restrictions.pause.may_be_on())
        | when(LIMITED_USER, !caller.access.is_free())
        | when(IN_TRANSACTION, session.transaction.is_some())
        | when(EXTRA_WORK, has_extra_work)
        | when(IN_MONITOR, session.is_monitor)
        | when(REDIRECTED, session.is_redirected);
    if conditions == 0 { 0 } else { closed_under(conditions) }
}

#[cold]
fn closed_under(conditions: Conditions) -> Flags {
    mask(&CHECKS, conditions) | if conditions & EXAMINED != 0 { EVERY } else { 0 }
}

/// Returns the flags of commands that must be checked when EXEC executes them.
#[inline]
pub(crate) fn closed_in_exec(caller: &Caller) -> Flags {
    let is_staged = when(ON_ENGINE, caller.staged.is_some());
    // Without a profile no command is narrowed.
    mask(&EXEC_CHECKS, HAS_PROFILE | is_staged | when(LIMITED_USER, !caller.access.is_free()))
}

/// Returns the flags of commands that must be checked when a script calls them.
#[inline]
pub(crate) fn closed_to_script(namespace: &Namespace, caller: &Caller, script: ScriptLimits) -> Flags {
    let conditions = namespace.restrictions.bits()
        | IN_SCRIPT
        | when(LIMITED_USER, !caller.access.is_free())
        | when(IN_READ_ONLY_SCRIPT, script.is_read_only)
        | when(IN_SHORT_SCRIPT, script.lacks_memory);
    mask(&SCRIPT_CHECKS, conditions)
}

#[inline]
fn when(condition: Conditions, holds: bool) -> Conditions {
    if holds { condition } else { 0 }
}

/// Returns the flags of the commands that a list must check under these conditions.
#[inline(always)] // the list is a constant of the caller
fn mask(checks: &[CheckRow], conditions: Conditions) -> Flags {
    let armed = checks.iter().filter(|(_, on, _)| conditions & on != 0);
    armed.fold(0, |closed, (concerned, ..)| closed | concerned)
}

/// Returns whether a request passes unchecked where commands with these flags are closed.
#[inline]
pub(crate) fn is_open(closed: Flags, command: &CommandSpec, request: Request<'_>) -> bool {
    command.flags & closed == 0 && command.accepts(request.len())
}

impl Admission<'_> {
    /// Returns the obstacle reported by the first failing check.
    pub(crate) fn obstacle(&self, checks: &[CheckRow]) -> Option<Obstacle> {
        checks.iter().find_map(|(.., check)| check(self))
    }
}

fn arity(call: &Admission<'_>) -> Option<Obstacle> {
    (!call.command.accepts(call.request.len()))
        .then(|| Error::WrongArity(call.command.shown_name().to_owned().into()).into())
}

fn login(call: &Admission<'_>) -> Option<Obstacle> {
    (call.caller.access.needs_authentication() && !call.has(NO_AUTH)).then(|| Error::NoAuth.into())
}

fn no_multi(call: &Admission<'_>) -> Option<Obstacle> {
    (call.is_in_transaction() && call.has(NO_MULTI)).then(|| Error::NotInMulti.into())
}

fn permission(call: &Admission<'_>) -> Option<Obstacle> {
    let denial = denial(call)?;
    Some(Obstacle::Refused(Error::NoPerm(denial, call.command.shown_name()), Some(denial)))
}

fn of_process(call: &Admission<'_>) -> Option<Obstacle> {
    let is_of_process = call.has(OF_PROCESS) && call.namespace.tenant.is_private();
    let answers = call.command.is(OF_NODE) && call.namespace.member().is_some();
    (is_of_process && !answers).then(|| Error::NotInPrivate.into())
}

/// Rejects commands that a cluster does not support, or whose keys are not known beforehand.
fn on_engine(call: &Admission<'_>) -> Option<Obstacle> {
    let is_refused = call.namespace.engine().is_some() && call.has(NO_ENGINE);
    is_refused.then(|| Error::NotOnEngine(&call.command.name).into())
}

/// Rejects keys that a script has not declared: a script that may write has copies of its declared keys only.
fn declared_on_engine(call: &Admission<'_>) -> Option<Obstacle> {
    call.namespace.engine()?;
    if call.has(NO_ENGINE) {
        return Some(Error::NotOnEngine(&call.command.name).into());
    }
    let declared = &call.caller.staged.as_deref()?.keys;
    let keys = keys_of(call.command, call.request, call.caller.db);
    let is_met = !needs_all_keys(call.command) && keys.iter().all(|key| declared.binary_search(key).is_ok());
    (!is_met).then(|| Error::UndeclaredKey(&call.command.name).into())
}

/// Redirects clients that follow redirections from a replica to its primary, as in Valkey.
fn redirected(call: &Admission<'_>) -> Option<Obstacle> {
    call.session.filter(|session| session.is_redirected)?;
    let primary = call.namespace.role.primary()?;
    let needs_primary = |command: &'static CommandSpec, request: Request<'_>| {
        !call.caller.reads_replica && command.flags & READ != 0
            || declares_writes(call.namespace, command, request, WRITE)
    };
    call.executes(needs_primary).then(|| Error::Redirected(primary.host.into(), primary.port).into())
}

/// Rejects keys in different slots, where the server is a node of a cluster, and notes the slot for scripts, which have to
/// stay in it.
fn one_slot(call: &Admission<'_>) -> Option<Obstacle> {
    if !call.namespace.restrictions.is_in_cluster() {
        return None;
    }
    let slot = call.slot();
    if call.namespace.member().is_some() {
        call.caller.slot.set(slot.unwrap_or(None));
        return None; // an unassigned slot comes first, see `routed`
    }
    call.caller.slot.set(slot.unwrap_or(None));
    slot.err().map(|_| Error::CrossSlot.into())
}

/// Redirects a call whose keys another node of the topology has, and notes their slot as [`one_slot`] does.
fn routed(call: &Admission<'_>) -> Option<Obstacle> {
    let table = call.namespace.member()?.routes()?;
    let redirection = route(call, &table).err()?;
    Some(redirection.error(call).into())
}

/// Rejects what only a sentinel knows. What a sentinel does not know has no name there.
fn of_sentinel(call: &Admission<'_>) -> Option<Obstacle> {
    let in_test_mode = call.namespace.restrictions.bits() & IN_TEST_MODE != 0;
    let is_unknown = in_test_mode && call.has(ONLY_SENTINEL) && !call.namespace.restrictions.is_sentinel();
    is_unknown.then(|| of_no_command(call.request).into())
}

/// Rejects a call for lack of memory, by the result of the eviction before the call. Queueing needs memory, and EXEC
/// needs it if one of its commands does.
fn memory(call: &Admission<'_>) -> Option<Obstacle> {
    let is_short = call.caller.is_short_of_memory;
    let is_queued = || call.is_in_transaction() && !call.command.is(EXECUTES_QUEUE);
    let needs_memory = || {
        if is_queued() {
            !call.command.is(DROPS_QUEUE)
        } else {
            call.executes(|command, _| command.flags & DENY_OOM != 0)
        }
    };
    (is_short && needs_memory()).then(|| Error::OutOfMemory.into())
}

/// Rejects writes while data cannot be saved. As in Redis, PING fails too, which tells a monitoring client.
fn saving(call: &Admission<'_>) -> Option<Obstacle> {
    if !call.namespace.restrictions.fails_to_save() {
        return None;
    }
    let writes =
        |command: &'static CommandSpec, request: Request<'_>| declares_writes(call.namespace, command, request, WRITE);
    let is_check = call.command.is(HEALTH_CHECK);
    if !is_check && !call.executes(writes) {
        return None;
    }
    let is_script = !is_check && !call.has(WRITE) && !call.command.is(EXECUTES_QUEUE);
    let dialect = call.config.dialect();
    Some(match call.namespace.save_failure()? {
        failure if !is_script => not_saved(failure, dialect),
        SaveFailure::Snapshot => Error::ScriptNotSaved(dialect, None).into(),
        SaveFailure::Log(reason) => Error::ScriptNotSaved(dialect, Some(reason)).into(),
    })
}

fn not_saved(failure: SaveFailure, dialect: Dialect) -> Obstacle {
    match failure {
        SaveFailure::Snapshot => Error::SnapshotFails(dialect).into(),
        SaveFailure::Log(reason) => Error::LogFails(reason).into(),
    }
}

fn replicas(call: &Admission<'_>) -> Option<Obstacle> {
    let writes =
        |command: &'static CommandSpec, request: Request<'_>| declares_writes(call.namespace, command, request, WRITE);
    (call.namespace.restrictions.lacks_replicas() && call.executes(writes)).then(|| Error::NoReplicas.into())
}

fn read_only(call: &Admission<'_>) -> Option<Obstacle> {
    let writes =
        |command: &'static CommandSpec, request: Request<'_>| declares_writes(call.namespace, command, request, WRITE);
    (call.namespace.restrictions.is_read_only() && call.executes(writes)).then(|| Error::ReadOnlyReplica.into())
}

/// Rejects reads of old data at a replica without its primary, unless the settings allow them.
fn stale(call: &Admission<'_>) -> Option<Obstacle> {
    let needs_keys =
        |command: &'static CommandSpec, request: Request<'_>| needs_fresh_data(call.namespace, command, request);
    let is_refused =
        call.namespace.restrictions.is_stale() && (needs_keys(call.command, call.request) || call.executes(needs_keys));
    is_refused.then(|| Error::StaleReplica.into())
}

fn subscribed(call: &Admission<'_>) -> Option<Obstacle> {
    let is_refused = call.caller.is_subscribed_in_resp2() && !call.has(ALLOW_SUBSCRIBED);
    is_refused.then(|| Error::NotWhileListening(call.command.name.clone()).into())
}

/// Rejects access to keys while they are loaded and, after a crash, for a grace period.
fn loading(call: &Admission<'_>) -> Option<Obstacle> {
    let restrictions = &call.namespace.restrictions;
    if !restrictions.is_loading() {
        restrictions.grace_left_ms(call.now)?;
    }
    let needs_keys = |command: &CommandSpec| command.flags & LOADING == 0;
    let is_refused = needs_keys(call.command) || call.executes(|command, _| needs_keys(command));
    is_refused.then(|| Error::Loading.into())
}

/// Rejects commands that conflict with a load beside the present data, such as snapshots and changes of the role.
fn loading_beside(call: &Admission<'_>) -> Option<Obstacle> {
    let comes_between = |command: &CommandSpec| command.flags & NO_ASYNC_LOADING != 0;
    let is_refused =
        call.namespace.restrictions.is_loading_beside() && call.executes(|command, _| comes_between(command));
    is_refused.then(|| Error::Loading.into())
}

fn script_runs(call: &Admission<'_>) -> Option<Obstacle> {
    let is_refused = call.namespace.store.busy_flag().is_occupied() && !call.has(ALLOW_BUSY);
    is_refused.then(|| busy(call.namespace).into())
}

/// Rejects commands on keys from a monitor, which Redis treats as a kind of replica.
fn monitor(call: &Admission<'_>) -> Option<Obstacle> {
    let is_replica = call.session.is_some_and(|session| session.is_monitor || session.feed.is_some());
    let is_refused = is_replica && call.has(ON_KEYS);
    is_refused.then(|| Error::other("Replica can't interact with the keyspace").into())
}

/// Pauses a call during CLIENT PAUSE, except commands that control tests: one of them may end the pause.
fn pause(call: &Admission<'_>) -> Option<Obstacle> {
    if call.command.command.group == Group::Test {
        return None;
    }
    let may_write = |command: &'static CommandSpec, request: Request<'_>| {
        declares_writes(call.namespace, command, request, WRITE | MAY_REPLICATE)
    };
    let is_held = match call.namespace.restrictions.pause.in_force(call.now)?.0 {
        PauseScope::Everything => true,
        PauseScope::Writes => call.executes(may_write),
    };
    is_held.then_some(Obstacle::Paused)
}

/// Injects a fault. A fault counts the calls that would be executed; it is injected into EXEC, not into the calls of
/// its transaction unless it says so.
fn fault(call: &Admission<'_>) -> Option<Obstacle> {
    let test_mode = call.namespace.test_mode.as_deref()?;
    let is_queueing = call.is_in_transaction() && !call.command.is(EXECUTES_QUEUE) && !call.has(NO_QUEUE);
    let name = call.caller.info.names().name;
    test_mode.faults.lock().fault_of(call.command, call.request, (&name, is_queueing)).map(Obstacle::Injected)
}

fn permission_at_exec(call: &Admission<'_>) -> Option<Obstacle> {
    let denial = denial(call)?;
    Some(Obstacle::Refused(Error::NoPermAtExec(denial), Some(denial)))
}

fn arity_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    (!call.command.accepts(call.request.len())).then(|| {
        said_by(
            call.config.dialect(),
            "Wrong number of args calling Redis command from script",
            "Wrong number of args calling command from script",
        )
    })
}

fn said_by(dialect: Dialect, redis: &'static str, valkey: &'static str) -> Obstacle {
    Error::other(dialect.choose(redis, valkey)).into()
}

/// Rejects commands that scripts must not call. DEBUG SET-DISABLE-DENY-SCRIPTS allows them DEBUG.
fn not_for_scripts(call: &Admission<'_>) -> Option<Obstacle> {
    let may_debug = call.namespace.debug.may_scripts_debug.load(std::sync::atomic::Ordering::Relaxed);
    let is_refused = call.has(NO_SCRIPT) && !(may_debug && call.command.is(SCRIPTS_IN_DEBUGGING));
    is_refused.then(|| Error::other("This Redis command is not allowed from script").into())
}

fn permission_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    const COMMAND: &str = "The user executing the script can't run this command or subcommand";
    const KEY: &str =
        "The user executing the script can't access at least one of the keys mentioned in the command arguments";
    const CHANNEL: &str = "The user executing the script can't publish to the channel mentioned in the command";
    let denial = denial(call)?;
    let text = match denial {
        Denial::Command => COMMAND,
        Denial::Key(_) => KEY,
        Denial::Channel(_) => CHANNEL,
    };
    Some(Obstacle::Refused(Error::other(text), Some(denial)))
}

fn read_only_script(call: &Admission<'_>) -> Option<Obstacle> {
    let is_refused = call.script?.is_read_only && call.has(WRITE | MAY_REPLICATE);
    is_refused.then(|| Error::other("Write commands are not allowed from read-only scripts.").into())
}

fn stale_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    let is_refused = call.namespace.restrictions.is_stale() && !call.has(STALE);
    is_refused.then(|| Error::other("Can not execute the command on a stale replica").into())
}

fn read_only_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    (call.has(WRITE) && call.namespace.restrictions.is_read_only()).then(|| Error::ReadOnlyReplica.into())
}

fn saving_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    if !call.has(WRITE) || !call.namespace.restrictions.fails_to_save() {
        return None;
    }
    Some(not_saved(call.namespace.save_failure()?, call.config.dialect()))
}

fn replicas_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    (call.has(WRITE) && call.namespace.restrictions.lacks_replicas()).then(|| Error::NoReplicas.into())
}

fn memory_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    (call.script?.lacks_memory && call.has(DENY_OOM)).then(|| Error::OutOfMemory.into())
}

/// Rejects calls of a script in another slot than its first one, unless it declares that it crosses slots; no call has keys
/// in different ones.
fn one_slot_in_script(call: &Admission<'_>) -> Option<Obstacle> {
    if !call.namespace.restrictions.is_in_cluster() {
        return None;
    }
    if let Some(redirection) =
        call.namespace.member().and_then(Member::routes).and_then(|table| route(call, &table).err())
    {
        return Some(Error::other(redirection.text_for_scripts(&call.command.name)).into());
    }
    let Ok(slot) = slot_of_request(call.command, call.request) else {
        let name = &call.command.name;
        let text = format!("Command '{name}' in script attempted to access keys that don't hash to the same slot");
        return Some(Error::other(text).into());
    };
    let slot = slot.filter(|_| call.script.is_some_and(|script| !script.crosses_slots))?;
    let first = call.caller.slot.get().unwrap_or(slot);
    call.caller.slot.set(Some(first));
    (first != slot).then(|| Error::other("Script attempted to access keys that do not hash to the same slot").into())
}

fn denial(call: &Admission<'_>) -> Option<Denial> {
    call.caller.access.denial(call.command, call.request)
}

/// Returns whether a request must not see old data, by the declaration of the script that it runs, or by the command's
/// flags.
#[cold]
fn needs_fresh_data(namespace: &Namespace, command: &'static CommandSpec, request: Request<'_>) -> bool {
    #[cfg(feature = "lua")]
    if let Some(flags) = namespace.scripts.flags_of(command, request, namespace.store.busy_flag()) {
        return flags & crate::script::ALLOW_STALE == 0;
    }
    let _ = (namespace, request);
    command.flags & STALE == 0
}

#[cold]
pub(crate) fn busy(namespace: &Namespace) -> Error {
    #[cfg(feature = "lua")]
    return namespace.scripts.control.busy_error();
    #[cfg(not(feature = "lua"))]
    return {
        let _ = namespace;
        Error::Busy(Default::default(), "SCRIPT")
    };
}
