//! Return to a snapshot, or to the state before the last writes: for servers in test mode, with the whole store locked.

use bytes::BytesMut;

use crate::client::caller::Caller;
use crate::dispatch::host::HostCall;
use crate::dispatch::interrupted::log_restored;
use crate::dispatch::replay::replay_in;
#[cfg(feature = "lua")]
use crate::dispatch::texts::library_error;
use crate::dispatch::texts::{forget_scripts, libraries, scripts, set_libraries};
use crate::dispatch::{Call, Env, Handlers};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::observe::{AllCommandStats, CallTimer};
use crate::store::{ChangeLog, Classes, Cx, LockHolder, Origin, View};
use crate::test_mode::{PreviousState, ScriptTexts, TestMode};
use crate::time::clock::Now;

/// Brings the images of keys up to date, and starts a new record of changes.
#[cold]
pub(super) fn checkpoint(namespace: &Namespace, view: &mut View<'_>) {
    let Some(test_mode) = namespace.test_mode.as_deref() else { return };
    let max_writes = namespace.settings.current().test_journal_max;
    let changes = test_mode.recorder.checkpoint();
    test_mode.history.lock().checkpoint(changes, libraries(namespace), max_writes, (&namespace.store, view));
}

/// Makes a checkpoint when the number of keys changed outside of calls has reached its limit, so that the next call
/// does not have to.
pub(crate) fn checkpoint_if_many_keys(namespace: &Namespace, now: Now) {
    if namespace.test_mode.as_ref().is_some_and(|test_mode| test_mode.recorder.has_many_keys())
        && let Some(mut exclusive) = namespace.store.try_exclusive()
    {
        checkpoint(namespace, &mut exclusive.view(0, Cx::new(now, Origin::HOST)));
    }
}

/// Begins the record of writes anew with the present data, most of which has come from a primary until now.
pub(crate) fn begin_anew(namespace: &Namespace, view: &mut View<'_>) {
    let Some(test_mode) = namespace.test_mode.as_deref() else { return };
    test_mode.recorder.record_all(None);
    checkpoint(namespace, view);
    test_mode.history.lock().forget_writes(namespace.log.end());
    test_mode.recorder.discard();
}

/// Saves the present state under a name.
///
/// # Errors
/// An error when there are too many snapshots.
pub(crate) fn snapshot(call: &mut Call<'_>, test_mode: &TestMode, name: &[u8]) -> Result<()> {
    test_mode.recorder.set_snapshots(true);
    checkpoint(call.namespace, &mut call.view);
    let mut history = test_mode.history.lock();
    history.complete(&call.namespace.store, &mut call.view);
    if history.add_snapshot(name, texts(call.namespace), &call.namespace.store) {
        Ok(())
    } else {
        Err(Error::other("there are too many snapshots"))
    }
}

/// Restores a snapshot.
///
/// # Errors
/// An error when no snapshot has this name, or a library cannot be loaded again.
pub(crate) fn restore(call: &mut Call<'_>, test_mode: &TestMode, name: &[u8]) -> Result<()> {
    let namespace = call.namespace;
    if !test_mode.history.lock().has_snapshot(name) {
        return Err(Error::other("there is no snapshot with this name"));
    }
    let clients = &namespace.clients;
    clients.unblock_keys();
    call.view.images().raise_watchers();
    checkpoint(namespace, &mut call.view);
    let mut history = test_mode.history.lock();
    let is_connected = |session: &dyn LockHolder| !session.is_gone();
    let texts = history.restore(name, (&namespace.store, &mut call.view), is_connected);
    drop(history);
    let result = set_texts(namespace, &texts.unwrap_or_default());
    log_restored(call, &libraries(namespace));
    test_mode.history.lock().forget_writes(namespace.log.end());
    test_mode.recorder.discard();
    call.view.images().raise_watchers();
    call.view.images().announce();
    result
}

/// Undoes, as [`fail_over`] does, the writes that no replica in the same process has.
///
/// # Errors
/// An error when no replica has data, and the errors of [`fail_over`].
pub(crate) fn fail_over_to_replica(call: &mut Call<'_>, test_mode: &TestMode) -> Result<()> {
    let namespace = call.namespace;
    checkpoint(namespace, &mut call.view);
    let links = namespace.links.to_replicas();
    let furthest = links.iter().filter_map(|link| link.hold()).max();
    let lost = furthest.and_then(|position| {
        if position == namespace.log.end() { Some(0) } else { test_mode.history.lock().behind(position) }
    });
    let result = match lost {
        Some(lost) => fail_over(call, test_mode, lost),
        None if furthest.is_some() => Err(forgotten(test_mode.history.lock().remembered())),
        None => Err(Error::other("TEST.FAILOVER needs LOSE where there is no replica, see TEST.INSTANCE")),
    };
    // The lost writes are not visible at a replica: they arrive together with the log records that undo them.
    let joins = result.is_ok() && lost.is_some_and(|lost| lost > 0);
    links.iter().for_each(|link| link.release(joins));
    result
}

/// Undoes the last `lost` writes, and closes every connection after its replies.
///
/// # Errors
/// An error when fewer writes are remembered.
pub(crate) fn fail_over(call: &mut Call<'_>, test_mode: &TestMode, lost: usize) -> Result<()> {
    let namespace = call.namespace;
    check_remembered(call, test_mode, lost)?;
    let clients = &namespace.clients;
    for client in clients.all() {
        if client.id != call.caller.info.id {
            clients.kill(&client);
        }
    }
    call.caller.closing = true;
    undo(call, test_mode, lost)?;
    forget_scripts(namespace); // a promoted replica has none
    Ok(())
}

/// Undoes the last `lost` writes of a namespace; its clients stay.
///
/// # Errors
/// An error when fewer writes are remembered.
pub(crate) fn lose_writes(namespace: &Namespace, handlers: &'static Handlers, lost: usize) -> Result<()> {
    let Some(test_mode) = namespace.test_mode.as_deref() else { return Ok(()) };
    let result = HostCall::begin(namespace, handlers).with(&[b"TEST.FAILOVER"], |call| {
        check_remembered(call, test_mode, lost)?;
        namespace.clients.unblock_keys();
        call.view.images().raise_watchers();
        undo(call, test_mode, lost)
    });
    result.unwrap_or(Ok(()))
}

/// Undoes the last write of a namespace whose store is locked and whose clients are being cut off; nothing if none is
/// remembered.
pub(super) fn forget_last_write(host: &mut HostCall<'_>, test_mode: &TestMode) {
    let forget = |call: &mut Call<'_>| check_remembered(call, test_mode, 1).and_then(|()| undo(call, test_mode, 1));
    let _ = host.with(&[b"TEST.FAILOVER"], forget); // where nothing is remembered, nothing is lost
}

/// Checks that so many writes are remembered.
fn check_remembered(call: &mut Call<'_>, test_mode: &TestMode, lost: usize) -> Result<()> {
    checkpoint(call.namespace, &mut call.view); // it may drop the oldest writes
    let remembered = test_mode.history.lock().remembered();
    if lost > remembered { Err(forgotten(remembered)) } else { Ok(()) }
}

/// Undoes the last `lost` writes, which are remembered.
fn undo(call: &mut Call<'_>, test_mode: &TestMode, lost: usize) -> Result<()> {
    let namespace = call.namespace;
    if lost == 0 {
        return Ok(());
    }
    let former = test_mode.history.lock().former(lost);
    namespace.store.events().set_classes(Classes::default()); // no client is left to receive them
    let result = former.map_or(Ok(()), |former| go_back(call, former));
    namespace.apply_settings();
    let changes = test_mode.recorder.checkpoint();
    test_mode.history.lock().lose(lost, changes, libraries(namespace), (&namespace.store, &mut call.view));
    log_restored(call, &libraries(namespace));
    test_mode.recorder.discard(); // changes made outside of calls until then were undone, too
    result
}

fn forgotten(remembered: usize) -> Error {
    Error::other(format!("only {remembered} writes are remembered"))
}

/// Restores a former state.
fn go_back(call: &mut Call<'_>, former: PreviousState) -> Result<()> {
    let namespace = call.namespace;
    let result = set_libraries(namespace, &former.libraries);
    for (db, key, image) in former.before.iter() {
        let mut view = call.view.lend(0, Cx::new(call.now(), Origin::Replay));
        view.images().restore(db, namespace.store.key(key), image.as_deref());
    }
    let stats = AllCommandStats::new(1, namespace.commands.count()); // repeated commands are not counted
    let timer = CallTimer::new(&stats, &namespace.clock, 0);
    let env = Env { timer: &timer, ..call.env() };
    let replayed = former.writes.iter().try_for_each(|write| {
        // No key expires in between: the repeated writes have met keys as they were, even if these have expired since.
        let mut view = call.view.lend(0, Cx::new(write.at, Origin::Replay));
        replay_in(env, &mut view, BytesMut::from(&write.effects[..]), Caller::forget_effects).map(drop)
    });
    for (db, key, lock) in former.locks.iter() {
        let key = namespace.store.key(key);
        if let Some(lock) = lock {
            _ = call.view.locks().restore(db, key, lock, |_| false);
        }
    }
    result.and(replayed.map_err(|error| Error::other(error.to_string())))
}

fn texts(namespace: &Namespace) -> ScriptTexts {
    ScriptTexts { libraries: libraries(namespace), scripts: scripts(namespace) }
}

/// Restores scripts and libraries.
#[cfg(feature = "lua")]
fn set_texts(namespace: &Namespace, texts: &ScriptTexts) -> Result<()> {
    let set = namespace.scripts.engines().set_scripts(&namespace.scripts.control, &texts.scripts);
    set.map_err(library_error).and(set_libraries(namespace, &texts.libraries))
}

#[cfg(not(feature = "lua"))]
fn set_texts(_: &Namespace, _: &ScriptTexts) -> Result<()> {
    Ok(())
}
