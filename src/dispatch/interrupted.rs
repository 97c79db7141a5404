//! Logging of the present values of keys whose changes the log lacks: a panic has ended the call that changed them
//! before it logged them, or a call has restored their former state.

use crate::dispatch::Call;
use crate::dispatch::effects::dump;
use crate::namespace::Namespace;
use crate::persist::Effects;
use crate::store::entry::Entry;
use crate::store::{ChangeRecords, Cx, Key, Origin, SideRecord, Str, View};
use crate::time::clock::Now;

/// Logs the keys of calls that have panicked. While a busy script holds the gate, the next sweep does it.
pub(crate) fn log_interrupted(namespace: &Namespace) {
    let Some(interrupted) = namespace.store.take_interrupted() else { return };
    let Some(mut exclusive) = namespace.store.try_exclusive() else {
        return namespace.store.put_back_interrupted(&interrupted);
    };
    let now = namespace.clock.now();
    let mut effects = states(namespace, &mut exclusive.view(0, Cx::new(now, Origin::HOST)), interrupted);
    namespace.record(&mut effects, now, None);
}

/// Logs the values of the keys that a call has restored, and the libraries of functions, if the log is copied.
pub(super) fn log_restored(call: &mut Call<'_>, libraries: &[Vec<u8>]) {
    let namespace = call.namespace;
    let restored = call.view.take_changes();
    if !namespace.log.is_copied() {
        return;
    }
    let mut effects = states(namespace, &mut call.view, restored);
    // A server without scripts does not have this command, and neither do its copies.
    if cfg!(feature = "lua") {
        effects.push(0, &[b"FUNCTION", b"FLUSH"]);
        libraries.iter().for_each(|code| effects.push(0, &[b"FUNCTION", b"LOAD", code]));
    }
    let position = namespace.log.append(&mut effects);
    namespace.log.note_change(None, position);
}

/// Returns commands that set the changed keys to their present values.
fn states(namespace: &Namespace, view: &mut View<'_>, mut changed: ChangeRecords) -> Effects {
    let mut effects = Effects::default();
    if changed.is_all() {
        effects.push(0, &[b"FLUSHALL"]);
        changed = all_keys(namespace, view);
    }
    for record in changed.iter() {
        view.in_db(record.db, |view| push_state(namespace, (record.db, record.key), view, &mut effects));
    }
    effects
}

/// Returns all keys, as if each had changed.
fn all_keys(namespace: &Namespace, view: &mut View<'_>) -> ChangeRecords {
    let mut keys = ChangeRecords::default();
    for db in view.used_databases() {
        view.in_db(db, |view| {
            let mut cursor = 0;
            loop {
                cursor = view.scan(cursor, |entry| keys.push(db, namespace.store.key(entry.key())));
                if cursor == 0 {
                    return;
                }
            }
        });
    }
    keys
}

/// Adds commands that set a key to its present value.
fn push_state(namespace: &Namespace, (db, key): (usize, Key<'_>), view: &mut View<'_>, effects: &mut Effects) {
    let (fence, lock, now) = (view.locks().fence(key), view.locks().text(db, key), view.now());
    let Some(entry) = view.peek_all(&[key]).pop().flatten() else {
        return effects.push(db, &[b"DEL", key.bytes]);
    };
    let ((payload, beside), mut number) = (dump(namespace, entry), itoa::Buffer::new());
    let end_ms = number.format(end_ms(entry, now)).as_bytes();
    effects.push(db, &[b"RESTORE", key.bytes, end_ms, &payload, b"REPLACE", b"ABSTTL"]);
    if let Some(text) = beside {
        effects.push(db, &[b"PING", &SideRecord::Producers { key: key.bytes, text: &text }.word()]);
    }
    if fence != 0
        && let Ok(text) = entry.get::<Str>()
    {
        let mut number = itoa::Buffer::new();
        let fence = number.format(fence).as_bytes();
        effects.push(db, &[b"SETIFGREATER", key.bytes, text.as_slice(), fence]);
    }
    if let Some(lock) = lock {
        effects.push(db, &[b"PING", &SideRecord::Lock { key: key.bytes, text: &lock }.word()]);
    }
}

/// Returns the deadline of an entry, in milliseconds since 1970; 0 if it has none.
fn end_ms(entry: &Entry, now: Now) -> i64 {
    entry.deadline().map_or(0, |deadline| deadline.wall_ms(now))
}
