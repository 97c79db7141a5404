//! DEBUG RELOAD and LOADAOF: save the data and load it again.

use std::borrow::Cow;
use std::sync::Arc;

use crate::client::registry::Unblocked;
use crate::command::keys::dump;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::memory::marked::MarkedBytes;
use crate::persist::{Order, Persistence, Reload};
use crate::rdb;
use crate::resp::Reply;
use crate::store::limits::ValueLimits;
use crate::store::{Hasher, Key, Lookup, View};
use crate::types::payload::{self, ValueTarget};

const NOT_LOADED: Error = Error::Other(Cow::Borrowed("Error trying to load the RDB dump"));
const NO_LOG_LOADED: Error = Error::Other(Cow::Borrowed("Error trying to load the AOF files, check server logs"));

/// Loads the append-only file in place of the data.
pub(super) fn load_log(call: &mut Call<'_>) -> Result<()> {
    load(call, Reload { is_of_log: true, saves: false, flushes: true, merges: false })
}

/// Saves a snapshot and loads it in place of the data. A server without files does so for each key in memory.
pub(super) fn reload(call: &mut Call<'_>) -> Result<()> {
    let mut reload = Reload { is_of_log: false, saves: true, flushes: true, merges: false };
    while let Some(option) = call.args.next_arg() {
        match option {
            option if is_word(option, "NOSAVE") => reload.saves = false,
            option if is_word(option, "NOFLUSH") => reload.flushes = false,
            option if is_word(option, "MERGE") => reload.merges = true,
            _ => return Err(Error::other("DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.")),
        }
    }
    if call.config.dbfilename.is_some() && !call.namespace.tenant.is_private() {
        return load(call, reload);
    }
    if !reload.saves {
        return Err(NOT_LOADED);
    }
    reload_in_memory(call)?;
    call.reply.ok();
    Ok(())
}

/// Orders data to be loaded, and replies when the load has ended.
fn load(call: &mut Call<'_>, reload: Reload) -> Result<()> {
    let files = call.namespace.persistence.clone();
    call.await_rest(|| {
        let failure = if reload.is_of_log { NO_LOG_LOADED } else { NOT_LOADED };
        let Ok(order) = files.order_reload(reload) else { return Err(failure) };
        Ok(Loading { files, order, failure, is_loaded: false })
    })
}

/// The continuation of a call while data is loaded.
struct Loading {
    files: Arc<Persistence>,
    order: Order,
    /// The reply if the load fails; the log has the reason.
    failure: Error,
    is_loaded: bool,
}

impl Continuation for Loading {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Work(Box::pin(async { self.is_loaded = self.files.ended(self.order).await.is_none() }))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        if !self.is_loaded {
            return Err(self.failure.clone());
        }
        reply.ok();
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Writes the value of every key and reads it again.
fn reload_in_memory(call: &mut Call<'_>) -> Result<()> {
    for db in call.view.used_databases() {
        let mut names: Vec<Vec<u8>> = Vec::new();
        call.view.in_db(db, |view| {
            let mut cursor = 0;
            loop {
                cursor = view.scan(cursor, |entry| names.push(entry.key().to_vec()));
                if cursor == 0 {
                    break;
                }
            }
        });
        let (store, options, limits) = (&call.namespace.store, dump::options(call), call.config.limits());
        names.iter().try_for_each(|name| {
            call.view.in_db(db, |view| reload_key(view, store.key(name), (limits, store.hasher()), options))
        })?;
    }
    Ok(())
}

/// Writes the value of a key and reads it again.
fn reload_key(
    view: &mut View<'_>,
    key: Key<'_>,
    (limits, hasher): (ValueLimits, &Hasher),
    options: payload::ValueOptions,
) -> Result<()> {
    let Some(entry) = view.lookup(key, Lookup::PEEK) else { return Ok(()) };
    let (mut body, deadline, usage) = (MarkedBytes::default(), entry.deadline(), entry.usage());
    payload::write(&mut body, entry, options);
    let body = body.into_bytes();
    let (kind, mut reader) = rdb::read_body(&body).ok_or(NOT_LOADED)?;
    let target = ValueTarget { key: key.bytes, deadline, limits, hasher };
    let loaded = payload::read_dump(kind, &mut reader, target, options).map_err(|_| NOT_LOADED)?;
    view.renew(key, loaded);
    view.set_usage(key, usage);
    Ok(())
}
