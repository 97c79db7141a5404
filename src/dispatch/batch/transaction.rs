//! Transactions in a batch: requests are queued, and with several workers EXEC locks only the shards of their keys where
//! it can.

use crate::client::session::Client;
use crate::dispatch::Next;
use crate::dispatch::batch::BatchRun;
use crate::resp::{Output, Reply, Request};
use crate::spec::marks::EXECUTES_QUEUE;
use crate::spec::registry::Hashes;
use crate::spec::{BLOCKING, CONTROL, CommandSpec, EXCLUSIVE, Group, MOVABLE_KEYS, READ, WRITE};

/// Maximum number of keys whose shards are locked one by one: the locks of 32 shards cost as much as locking the whole
/// store.
const KEYS_MAX: usize = 16;

impl BatchRun<'_> {
    /// Queues a request until EXEC.
    pub(super) fn queue(
        client: &mut Client,
        command: &'static CommandSpec,
        request: Request<'_>,
        out: &mut Output,
    ) -> Next {
        let Client { caller, session } = client;
        if let Some(transaction) = &mut session.transaction {
            transaction.push(command, request);
            caller.info.set_queued(Some(transaction.queue.len()));
            caller.info.buffers.add_queued_bytes(request.bytes_len() + request.len() * size_of::<usize>());
            Reply::new(out, caller.protocol).simple("QUEUED");
        }
        Next::Done
    }

    /// Returns the hashes of all keys that a transaction reads, changes or watches, if EXEC need lock their shards
    /// only: there are several workers, and each queued command accesses just the keys that its row declares, in the
    /// database of its client.
    pub(super) fn locks_of_transaction(
        &self,
        client: &Client,
        command: &CommandSpec,
        request: Request<'_>,
    ) -> Option<Hashes> {
        let (namespace, session) = (self.env.namespace, &client.session);
        let transaction = session.transaction.as_ref().filter(|_| command.is(EXECUTES_QUEUE))?;
        let is_plain = !namespace.store.has_single_worker()
            && namespace.test_mode.is_none()
            && namespace.engine().is_none()
            && session.watches_in(client.caller.db);
        if !is_plain || transaction.queue.len() + session.watch.keys.len() > KEYS_MAX {
            return None;
        }
        let mut hashes = Hashes::new();
        hashes.extend(command.keys_of(request).map(|(position, _)| namespace.store.hash(request.arg(position))));
        hashes.extend(session.watch.keys.keys().map(|(_, key)| namespace.store.hash(key)));
        for (command, request) in &transaction.queue {
            let before = hashes.len();
            if accesses_declared_keys(command) {
                command.hash_keys(request.as_request(), &namespace.store, &mut hashes);
            }
            if !(before + 1..=KEYS_MAX).contains(&hashes.len()) {
                return None;
            }
        }
        (!hashes.is_empty()).then_some(hashes)
    }
}

/// Returns whether a command accesses nothing but keys at positions that its row declares. Commands on locks may look
/// at the locks that other clients wait for.
fn accesses_declared_keys(command: &CommandSpec) -> bool {
    command.flags & (READ | WRITE) != 0
        && command.flags & (EXCLUSIVE | CONTROL | BLOCKING | MOVABLE_KEYS) == 0
        && command.command.group != Group::Lock
}
