//! Commands that write files: SAVE, BGSAVE, BGREWRITEAOF and LASTSAVE.
//!
//! Commands place orders with the thread that writes files, and wait for them as continuations.

use std::sync::Arc;

use crate::client::registry::Unblocked;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::persist::{Busy, Job, Order, Persistence};
use crate::resp::Reply;
use crate::spec::{ADMIN, FAST, Flags, Group, LOADING, NO_ASYNC_LOADING, NO_ENGINE, NO_MULTI, NO_SCRIPT, STALE, token};
use crate::store::View;

const FILES: Flags = ADMIN | NO_SCRIPT | NO_ASYNC_LOADING | NO_ENGINE;

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BGREWRITEAOF", rewrite_log, FILES, Group::Server)
        .docs("1.0.0", "O(1)", "Rewrites the append-only file in the background."),
    Command::new("BGSAVE", save_in_background, FILES, Group::Server)
        .args(&[token("schedule", "SCHEDULE").optional().since("3.2.2")])
        .docs("1.0.0", "O(1)", "Saves a snapshot in the background."),
    Command::new("LASTSAVE", last_save, LOADING | STALE | FAST, Group::Server)
        .categories(&["admin", "dangerous"]).tips(&["nondeterministic_output"])
        .docs("1.0.0", "O(1)", "Returns the time of the last successful snapshot; before the first, the start time of the server."),
    Command::new("SAVE", save, FILES | NO_MULTI, Group::Server)
        .docs("1.0.0", "O(N) where N is the total number of keys in all databases", "Saves a snapshot, and replies when it is saved."),
];

const SAVING: &str = "Background save already in progress";
const REWRITING: &str = "Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to \
schedule a BGSAVE whenever possible.";
const NO_SNAPSHOT_FILE: &str = "there is no snapshot file: the setting 'dbfilename' is empty";

/// Handles SAVE: replies when the snapshot is saved. Other clients are served meanwhile.
fn save(call: &mut Call<'_>) -> Result<()> {
    if running(call) == Some(Job::Save) {
        return Err(Error::other(SAVING));
    }
    check_snapshot_file(call)?;
    let order = call.namespace.persistence.order_awaited_save().map_err(|busy| refusal(call, busy))?;
    let files = call.namespace.persistence.clone();
    call.continue_with(Saving { files, order, tells_failure: true, outcome: None })
}

/// Handles BGSAVE: replies when the snapshot has begun, so that the client's later writes are not in it.
fn save_in_background(call: &mut Call<'_>) -> Result<()> {
    let is_scheduled = match (call.args.next_arg(), call.args.left()) {
        (None, _) => false,
        (Some(word), 0) if is_word(word, "SCHEDULE") => true,
        _ => return Err(Error::Syntax),
    };
    match running(call) {
        Some(Job::Save) => return Err(Error::other(SAVING)),
        Some(Job::Rewrite) if !is_scheduled && !call.is_nested() => return Err(Error::other(REWRITING)),
        _ => {}
    }
    let order = order_save(call)?;
    begin(call, order, ["Background saving started", "Background saving scheduled"])
}

fn rewrite_log(call: &mut Call<'_>) -> Result<()> {
    if running(call) == Some(Job::Rewrite) {
        return Err(Error::other("Background append only file rewriting already in progress"));
    }
    let order = call.namespace.persistence.order(Job::Rewrite, true).map_err(|busy| refusal(call, busy))?;
    let replies = ["Background append only file rewriting started", "Background append only file rewriting scheduled"];
    begin(call, order, replies)
}

fn last_save(call: &mut Call<'_>) -> Result<()> {
    let saved_ms = call.namespace.persistence.read(|figures| figures.saved_ms);
    call.reply.int(saved_ms.div_euclid(1000));
    Ok(())
}

/// After FLUSHALL has deleted everything, cancels a snapshot in progress and, if there are save points, saves another
/// one, as Redis does before it replies: the file must not bring back deleted keys. A failure is not reported.
pub(super) fn save_nothing(call: &mut Call<'_>) -> Result<()> {
    let files = call.namespace.persistence.clone();
    files.cancel(Job::Save);
    let is_rewriting = running(call) == Some(Job::Rewrite);
    let is_due = call.config.has_snapshots() && !call.namespace.restrictions.is_loading_anything();
    // A server without the thread that takes orders has no file, either.
    let order = is_due.then(|| files.order_awaited_save().ok()).flatten();
    // A rewrite can take long, and Redis does not wait for it. EXEC and scripts cannot wait.
    let rest =
        order.filter(|_| !is_rewriting).map(|order| Saving { files, order, tells_failure: false, outcome: None });
    if rest.is_none_or(|rest| call.await_rest(|| Ok(rest)).is_err()) {
        call.reply.ok();
    }
    Ok(())
}

/// Returns the job in progress.
fn running(call: &Call<'_>) -> Option<Job> {
    call.namespace.persistence.read(|figures| figures.work.map(|work| work.job))
}

fn check_snapshot_file(call: &Call<'_>) -> Result<()> {
    if call.config.dbfilename.is_none() && !call.namespace.tenant.is_private() {
        Err(Error::other(NO_SNAPSHOT_FILE))
    } else {
        Ok(())
    }
}

/// Orders a snapshot as soon as nothing else is written.
fn order_save(call: &Call<'_>) -> Result<Order> {
    check_snapshot_file(call)?;
    call.namespace.persistence.order(Job::Save, true).map_err(|busy| refusal(call, busy))
}

/// Returns the error for a refused order.
fn refusal(call: &Call<'_>, busy: Busy) -> Error {
    match busy {
        Busy::With(Job::Save) => Error::other(SAVING),
        Busy::With(Job::Rewrite) => Error::other(REWRITING),
        Busy::Disabled if call.namespace.tenant.is_private() => Error::other("a private instance writes no files"),
        Busy::Disabled => Error::other("this server writes no files"),
    }
}

/// Replies once an order has begun. While something else is written, and in EXEC, which cannot wait, the reply is at
/// once that the order is placed.
fn begin(call: &mut Call<'_>, order: Order, [started, scheduled]: [&'static str; 2]) -> Result<()> {
    if call.is_nested() || running(call).is_some() {
        call.reply.simple(scheduled);
        return Ok(());
    }
    let files = call.namespace.persistence.clone();
    call.continue_with(Beginning { files, order, reply: started })
}

/// The continuation of SAVE, and of FLUSHALL, which does not report a failure.
struct Saving {
    files: Arc<Persistence>,
    order: Order,
    tells_failure: bool,
    /// The outcome once the job has ended; the reason if it has failed.
    outcome: Option<Option<String>>,
}

impl Continuation for Saving {
    fn wait(&mut self) -> Wait<'_> {
        let Saving { files, order, outcome, .. } = self;
        Wait::Work(Box::pin(async { *outcome = Some(files.ended(*order).await) }))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        match self.outcome.take() {
            Some(Some(reason)) if self.tells_failure => return Err(Error::other(reason)),
            Some(_) => reply.ok(),
            // The order was placed by a part of another call, which cannot wait.
            None => reply.simple("Background saving scheduled"),
        }
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// The continuation of BGSAVE and of BGREWRITEAOF.
struct Beginning {
    files: Arc<Persistence>,
    order: Order,
    reply: &'static str,
}

impl Continuation for Beginning {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Work(Box::pin(self.files.begun(self.order)))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        reply.simple(self.reply);
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}
