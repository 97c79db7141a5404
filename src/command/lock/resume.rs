//! LOCK.RESUME: a client that has reconnected takes over the locks that it holds by its token.

use crate::client::info::ClientInfo;
use crate::dispatch::Call;
use crate::error::Result;
use crate::store::{HoldGuard, LockRecord, Store, View};

pub(super) fn resume(call: &mut Call<'_>) -> Result<()> {
    let token = call.args.bytes()?;
    let mut resumed = Vec::new();
    for key in held_with(&mut call.view, &call.namespace.store, token) {
        if call.caller.access.writes_key(&key) && take_over(call, &key, token) {
            resumed.push(key);
        }
    }
    call.reply.array(resumed.len());
    resumed.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

/// Returns the keys of the locks in the database that are held with a token.
pub(crate) fn held_with(view: &mut View<'_>, store: &Store, token: &[u8]) -> Vec<Box<[u8]>> {
    let (hash, mut found) = (store.hash(token), Vec::new());
    view.locks().visit(0, |_, lock, entry| {
        if lock.held.is_some_and(|held| held.record(hash, token).is_some()) && entry.is_some() {
            found.push(lock.key.bytes.into());
        }
        true
    });
    found
}

/// Makes the caller the holder of a lock, if it is held with a token and was acquired by the caller's user.
fn take_over(call: &mut Call<'_>, bytes: &[u8], token: &[u8]) -> bool {
    let store = &call.namespace.store;
    let (db, key, token_hash) = (call.caller.db, store.key(bytes), store.hash(token));
    let (caller, mut is_taken) = (&*call.caller, false);
    call.view.locks().change_held(db, key, token, |record| {
        is_taken = is_of_user(record, &caller.info);
        if is_taken {
            record.hold = Some(HoldGuard::new(caller.as_lock_holder(), token_hash));
            if record.session.is_some() {
                record.set_session(caller.as_lock_holder(), (db, bytes));
            }
        }
    });
    if is_taken {
        call.caller.record_held(key, token);
    }
    is_taken
}

/// Returns true if a lock was acquired by the user of a client.
fn is_of_user(record: &LockRecord, client: &ClientInfo) -> bool {
    record.hold.as_ref().is_some_and(|hold| hold.holder().user() == client.user())
}
