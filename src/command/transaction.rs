//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: several commands as one.
//!
//! Queueing is the gate's work (`dispatch`); here a transaction is opened, carried out or dropped.
//! EXEC holds the whole store, so nobody sees a state between its commands.

use super::dispatch::refuse;
use super::{ALLOW_BUSY, AT_ONCE, Call, Command, EXCLUSIVE, FAST, Group, LOADING, NO_SCRIPT, RO, STALE, acl, key};
use crate::error::{Error, Result};
use crate::session::Transaction;

/// Declares the commands of this file.
pub const COMMANDS: &[Command] = &[
    Command::new("MULTI", multi, FLAGS | FAST | AT_ONCE, Group::Transactions).docs(
        "1.2.0",
        "O(1)",
        "Opens a transaction: the commands that follow are queued until EXEC.",
    ),
    Command::new("EXEC", exec, (FLAGS | AT_ONCE | EXCLUSIVE | super::SKIP_SLOWLOG) & !ALLOW_BUSY, Group::Transactions)
        .docs("1.2.0", "Depends on commands in the transaction", "Carries out the queued commands as one."),
    Command::new("DISCARD", discard, FLAGS | FAST | AT_ONCE, Group::Transactions).docs(
        "2.0.0",
        "O(N), when N is the number of queued commands",
        "Drops the queued commands and the watches.",
    ),
    Command::new("WATCH", watch, FLAGS | FAST | AT_ONCE, Group::Transactions).args(&[key("key", RO).multiple()]).docs(
        "2.2.0",
        "O(1) for every key.",
        "Makes the next EXEC depend on these keys staying as they are.",
    ),
    Command::new("UNWATCH", unwatch, FLAGS | FAST, Group::Transactions).docs(
        "2.2.0",
        "O(1)",
        "Forgets which keys are watched.",
    ),
];

const FLAGS: super::Flags = NO_SCRIPT | LOADING | STALE | ALLOW_BUSY;

fn multi(call: &mut Call<'_>) -> Result<()> {
    if call.session.transaction.is_some() {
        return Err(Error::NestedMulti);
    }
    call.session.transaction = Some(Transaction::default());
    call.session.info.set_queued(Some(0));
    call.reply.ok();
    Ok(())
}

fn exec(call: &mut Call<'_>) -> Result<()> {
    let transaction = call.session.transaction.take().ok_or(Error::WithoutMulti("EXEC"))?;
    call.session.info.set_queued(None);
    let untouched = watched_keys_are_untouched(call);
    call.session.stop_watching(&mut call.view, &call.server.store);
    if transaction.failed {
        return Err(Error::ExecAborted);
    }
    if !untouched {
        call.reply.null_array();
        return Ok(());
    }
    call.take_mail_first();
    call.reply.array(transaction.queue.len());
    for (command, request) in &transaction.queue {
        let request = request.as_request();
        // Whoever has deleted the own user is told nothing any more, as in Redis.
        let silenced = call.session.closing.then(|| call.reply.mark());
        // The user may have changed since the command was queued, even by a command of this very transaction.
        match call.session.access.denial(command, request) {
            None => call.nested(command, request),
            Some(denial) => {
                acl::note_denial_in_multi(call, (command, request), denial);
                refuse(call.server, &mut call.reply, &Error::NoPermAtExec(denial));
            }
        }
        if let Some(mark) = silenced {
            call.reply.rollback(mark);
        }
    }
    Ok(())
}

fn discard(call: &mut Call<'_>) -> Result<()> {
    call.session.transaction.take().ok_or(Error::WithoutMulti("DISCARD"))?;
    call.session.info.set_queued(None);
    call.session.stop_watching(&mut call.view, &call.server.store);
    call.reply.ok();
    Ok(())
}

fn watch(call: &mut Call<'_>) -> Result<()> {
    if call.session.transaction.is_some() {
        return Err(Error::WatchInsideMulti);
    }
    while call.args.left() > 0 {
        let key = call.args.key()?;
        let watch = &mut call.session.watch;
        let watched = (call.session.db, Box::from(key.bytes));
        if !watch.keys.contains(&watched) {
            call.view.watch(key, &watch.flag);
            watch.keys.push(watched);
        }
    }
    call.session.info.set_watched(call.session.watch.keys.len());
    call.reply.ok();
    Ok(())
}

fn unwatch(call: &mut Call<'_>) -> Result<()> {
    call.session.stop_watching(&mut call.view, &call.server.store);
    call.reply.ok();
    Ok(())
}

/// Looks at the flag, after the keys that have ended by now were given the chance to raise it.
fn watched_keys_are_untouched(call: &mut Call<'_>) -> bool {
    for (db, key) in &call.session.watch.keys {
        call.view.whole_again(*db).exists(call.server.store.key(key));
    }
    !call.session.watch.flag.is_raised()
}
