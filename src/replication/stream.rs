//! Executes the log of a primary, and appends it to the own log as it is.

use bytes::BytesMut;

use crate::dispatch::replay::{Repeated, Replay};
use crate::dispatch::serve::serve_remaining_keys;
use crate::dispatch::{Env, Handlers};
use crate::namespace::Namespace;
use crate::store::{Cx, Origin};

/// The log of a primary that is being executed.
pub(super) struct Stream {
    replay: Replay,
    /// What was received and is not decoded.
    input: BytesMut,
    /// What was received and is not executed; `appended` bytes of the log come before it.
    raw: BytesMut,
    appended: u64,
    received: u64,
}

impl Stream {
    /// Begins where a database is selected.
    pub(super) fn new(namespace: &Namespace, db: usize) -> Self {
        let replay = Replay::of_primary(namespace, db);
        Stream { replay, input: BytesMut::new(), raw: BytesMut::new(), appended: 0, received: 0 }
    }

    /// Executes the whole commands and transactions in what was received; returns whether the term is the present one.
    ///
    /// # Errors
    /// Why the log cannot be executed.
    pub(super) fn execute(
        &mut self,
        (namespace, handlers): (&Namespace, &'static Handlers),
        term: u64,
        bytes: &[u8],
    ) -> Result<bool, String> {
        self.input.extend_from_slice(bytes);
        self.raw.extend_from_slice(bytes);
        self.received += bytes.len() as u64;
        let _data = namespace.persistence.keep_data();
        let mut held = namespace.store.exclusive();
        if namespace.role.term() != term {
            return Ok(false);
        }
        let mut view = held.view(0, Cx::new(namespace.clock.now(), Origin::Replay));
        let Stream { replay, input, raw, appended, received } = self;
        // The commands that were executed and are not appended: where they end, and which database they have selected.
        let mut pending = (*appended, 0);
        let log = &namespace.log;
        let executed = Env::with_present(namespace, handlers, 0, |env| {
            replay.go_on(env, &mut view, input, |Repeated { caller, executed, is_aside }| {
                caller.forget_effects();
                if is_aside {
                    append_copy(namespace, raw, appended, pending);
                    log.append_aside(&raw.split_to((executed - *appended) as usize));
                    *appended = executed;
                }
                pending = (executed, caller.db);
            })
        });
        append_copy(namespace, raw, appended, pending);
        executed.map_err(|error| error.to_string())?;
        if replay.read() + replay.pending_len(input) as u64 != *received {
            return Err("it is not written as servers write it".into()); // nobody would know its position
        }
        drop(view);
        drop(held);
        serve_remaining_keys(namespace, handlers);
        Ok(true)
    }

    /// Returns whether the primary has asked what was executed, and forgets that.
    pub(super) fn take_question(&mut self) -> bool {
        std::mem::take(&mut self.replay.is_asked)
    }
}

/// Appends the commands up to an end to the own log.
fn append_copy(namespace: &Namespace, raw: &mut BytesMut, appended: &mut u64, (end, db): (u64, usize)) {
    if end > *appended {
        namespace.log.append_copy(&raw.split_to((end - *appended) as usize), db);
        *appended = end;
    }
}
