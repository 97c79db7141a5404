//! Logging of a call's effects, at the end of the outermost call, while its shards are still locked.
//!
//! Nested calls, as inside EXEC and scripts, only collect their effects; all of them are appended at once.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::{SmallVec, smallvec};

use crate::client::caller::Caller;
use crate::dispatch::Call;
use crate::dispatch::checks::ON_KEYS;
use crate::namespace::Namespace;
use crate::rdb::Compression;
use crate::resp::{begin_command, write_word};
use crate::spec::{Effect, Group, NO_QUEUE};
use crate::store::entry::Entry;
use crate::store::{Change, ChangeRecord, Key, SideRecord, Str};
use crate::time::clock::{Deadline, Now};
use crate::types::payload;

impl Call<'_> {
    /// Logs a command that repeats changes of this call: in place of the request if the command's effect is
    /// [`Effect::Given`], and otherwise before it.
    pub(crate) fn log(&mut self, args: &[&[u8]]) {
        if self.namespace.store.is_logged() {
            self.caller.push_effect(args);
        }
    }

    /// Logs the deadline of a key.
    pub(crate) fn log_deadline(&mut self, key: Key<'_>, deadline: Deadline) {
        let logged = self.logged_deadline(deadline);
        let mut number = itoa::Buffer::new();
        self.log(&[logged.choose(&b"PEXPIREAT"[..], b"PEXPIRE"), key.bytes, number.format(logged.ms).as_bytes()]);
    }

    /// Returns the form in which a deadline is logged.
    pub(crate) fn logged_deadline(&self, deadline: Deadline) -> LoggedDeadline {
        LoggedDeadline::of(deadline, self.namespace, self.now())
    }

    /// Sends the request, which has changed no keys, to the replicas.
    pub(crate) fn replicate_request(&mut self) {
        if self.namespace.store.is_logged() && self.namespace.log.has_backlog() {
            let request = self.args.request();
            let out = self.caller.begin_aside();
            begin_command(out, request.len());
            write_word(out, self.command.name.as_bytes());
            request.skip(1).args().for_each(|arg| write_word(out, arg));
        }
    }

    /// Logs the request itself, which has changed something other than keys. For commands whose effect is
    /// [`Effect::Given`].
    pub(crate) fn log_request(&mut self) {
        self.view.changes_mut().add();
        if self.namespace.store.is_logged() {
            push_request(self);
        }
    }
}

/// A deadline as it is logged.
pub(crate) struct LoggedDeadline {
    is_relative: bool,
    /// Milliseconds since the write if relative, since 1970 otherwise.
    pub(crate) ms: i64,
}

impl LoggedDeadline {
    fn of(deadline: Deadline, namespace: &Namespace, now: Now) -> Self {
        let left_ms = deadline.remaining_ms(now);
        let is_kept = || namespace.test_mode.is_some() && !namespace.log.is_copied();
        if !deadline.is_wall() && left_ms > 0 && is_kept() {
            LoggedDeadline { is_relative: true, ms: left_ms }
        } else {
            LoggedDeadline { is_relative: false, ms: deadline.wall_ms(now) }
        }
    }

    /// Returns the word for the kind of the deadline.
    pub(crate) fn choose<T>(&self, absolute: T, relative: T) -> T {
        if self.is_relative { relative } else { absolute }
    }
}

/// Collects the effects of a call that has returned.
#[cold]
pub(super) fn collect(call: &mut Call<'_>) {
    if !call.view.changes().is_own() {
        return;
    }
    match call.command.command.effect {
        Effect::AsIs => push_request(call),
        Effect::ValuesUnless(is_plain) if is_plain(call.args.request()) => push_request(call),
        Effect::Values | Effect::ValuesUnless(_) => push_values(call),
        Effect::Deadlines => push_deadlines(call),
        Effect::Given => {
            debug_assert!(call.caller.effects().is_some(), "{} has changed keys without effect", call.name())
        }
    }
}

/// Logs the effects of an outermost call and of the calls nested in it, if changes are logged. Must be called while its
/// shards are locked.
pub(super) fn log_outermost(call: &mut Call<'_>) {
    if call.namespace.store.is_logged() {
        collect(call);
        debug_assert_eq!(
            call.view.changes().is_empty(),
            call.caller.effects().is_none_or(|effects| effects.count() + effects.withheld() == 0),
            "the changes of {} and what it logs",
            call.name()
        );
        if call.view.may_have_changed_locks() {
            push_locks(call);
        }
        let (now, shards) = (call.view.now(), call.view.shard_numbers());
        append(call.namespace, call.caller, now, shards.as_deref());
        call.view.forget_changes();
    }
}

/// Adds the records of the locks that the call has changed.
fn push_locks(call: &mut Call<'_>) {
    for (db, key) in call.view.changed_locks() {
        if let Some(text) = call.view.locks().text(db, call.namespace.store.key(&key)) {
            call.caller.push_effect_in(db, &[b"PING", &SideRecord::Lock { key: &key, text: &text }.word()]);
        }
    }
}

/// Appends the effects of an outermost call and its nested calls, made at a time; `shards` are the changed shards, if
/// known.
pub(super) fn append(namespace: &Namespace, caller: &mut Caller, at: Now, shards: Option<&[usize]>) {
    if std::mem::take(&mut caller.is_half_done) {
        caller.forget_effects();
    }
    if let Some(effects) = caller.effects() {
        let position = namespace.record(effects, at, shards);
        caller.info.written.store(position, Relaxed);
    }
}

/// Returns the position in the log that the reply of a call depends on. Must be called while its shards are locked.
pub(super) fn dependence(call: &mut Call<'_>) -> u64 {
    let log = &call.namespace.log;
    match call.view.shard_numbers() {
        Some(shards) => log.position_of(&shards),
        // Other calls without keys depend on the server or the client alone, or are reports without a single value.
        None if call.command.flags & (ON_KEYS | NO_QUEUE) != 0 => log.end(),
        None if call.command.command.group == Group::Scripting => log.end(), // libraries of functions
        None => 0,
    }
}

/// Adds the request, with the command's declared name even if the command is renamed.
fn push_request(call: &mut Call<'_>) {
    let (command, request) = (call.command, call.args.request());
    let out = call.caller.begin_effect();
    begin_command(out, request.len());
    match command.name_args {
        1 => write_word(out, command.name.as_bytes()),
        _ => command.name.split('|').for_each(|name| write_word(out, name.as_bytes())),
    }
    request.skip(command.name_args).args().for_each(|arg| write_word(out, arg));
}

/// Adds commands that set the changed keys to their present values.
fn push_values(call: &mut Call<'_>) {
    let Call { view, caller, namespace, .. } = call;
    let now = view.now();
    view.visit_changes(true, |ChangeRecord { db, key, .. }, entry, fence| {
        let Some(entry) = entry else { return caller.push_effect_in(db, &[b"DEL", key.bytes]) };
        let deadline = entry.deadline().map(|deadline| LoggedDeadline::of(deadline, namespace, now));
        let mut number = itoa::Buffer::new();
        let Ok(text) = entry.get::<Str>() else {
            let ms = number.format(deadline.as_ref().map_or(0, |deadline| deadline.ms)).as_bytes();
            let (payload, beside) = dump(namespace, entry);
            let restore = [&b"RESTORE"[..], key.bytes, ms, &payload, b"REPLACE", b"ABSTTL"];
            let len = deadline.map_or(restore.len(), |deadline| deadline.choose(restore.len(), restore.len() - 1));
            caller.push_effect_in(db, &restore[..len]);
            if let Some(text) = beside {
                caller.push_effect_in(db, &[b"PING", &SideRecord::Producers { key: key.bytes, text: &text }.word()]);
            }
            return;
        };
        let mut set: SmallVec<[&[u8]; 5]> = smallvec![&b"SET"[..], key.bytes, text.as_slice()];
        if let Some(deadline) = &deadline {
            set.extend([deadline.choose(&b"PXAT"[..], b"PX"), number.format(deadline.ms).as_bytes()]);
        }
        caller.push_effect_in(db, &set);
        if fence != 0 {
            caller.push_effect_in(db, &[b"PING", &SideRecord::Fence { key: key.bytes, fence }.word()]);
        }
    });
}

/// Returns the value of an entry as the log has it, and what the value has beside that, if there is anything.
pub(super) fn dump(namespace: &Namespace, entry: &Entry) -> (Vec<u8>, Option<Vec<u8>>) {
    let config = namespace.settings.current();
    let options =
        payload::ValueOptions { compression: Compression::at_once_if(config.rdbcompression), len_max: usize::MAX };
    payload::dump_for_log(entry, options)
}

/// Adds commands that set the changed keys to their present deadlines.
fn push_deadlines(call: &mut Call<'_>) {
    let Call { view, caller, namespace, .. } = call;
    let now = view.now();
    view.visit_changes(false, |ChangeRecord { db, key, change, .. }, entry, _| {
        let deadline = match (change, entry) {
            (Some(Change::Deadline(deadline)), _) => deadline,
            (_, Some(entry)) => entry.deadline(),
            (_, None) => return caller.push_effect_in(db, &[b"DEL", key.bytes]),
        };
        match deadline {
            None => caller.push_effect_in(db, &[b"PERSIST", key.bytes]),
            Some(deadline) => {
                let (logged, mut number) = (LoggedDeadline::of(deadline, namespace, now), itoa::Buffer::new());
                let command = logged.choose(&b"PEXPIREAT"[..], b"PEXPIRE");
                caller.push_effect_in(db, &[command, key.bytes, number.format(logged.ms).as_bytes()]);
            }
        }
    });
}
