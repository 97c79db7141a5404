//! Sections of INFO about clients and the threads that serve them.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use crate::client::info::Class;
use crate::command::server::info::field::{InfoField, field, parts, zero};
use crate::dispatch::Call;

#[rustfmt::skip] // a table
pub(super) const CLIENTS: &[InfoField] = &[
    field("connected_clients", |from| {
        let namespace = from.namespace();
        let others = namespace.clients.len().saturating_sub(namespace.replica_clients().len());
        (others + usize::from(namespace.role.client().is_some())).into()
    }),
    zero("cluster_connections"),
    field("maxclients", |from| {
        let of_profile = from.call.config.profile.and_then(|profile| profile.limits.clients);
        of_profile.unwrap_or(from.call.config.maxclients).into()
    }),
    field("client_recent_max_input_buffer", |from| {
        from.clients().iter().map(|client| client.buffers.query_buffer_capacity()).max().unwrap_or(0).into()
    }),
    field("client_recent_max_output_buffer", |from| {
        from.clients().iter().map(|client| client.waiting()).max().unwrap_or(0).into()
    }),
    field("blocked_clients", |from| from.namespace().clients.blocked().into()),
    field("tracking_clients", |from| from.namespace().push.tracking.tracked().clients.into()),
    field("pubsub_clients", |from| from.namespace().clients.count_of(Class::Subscriber).into()),
    field("watching_clients", |from| from.clients().iter().filter(|client| client.session.watched() > 0).count().into()),
    field("clients_in_timeout_table", |from| from.namespace().clients.timed().into()),
    field("total_watched_keys", |from| from.totals().watched.into()),
    field("total_blocking_keys", |from| from.totals().blocking.into()),
    field("total_blocking_keys_on_nokey", |from| keys_awaited_even_absent(from.call).into()),
];

/// The fields of threads: all clients are served by the threads of `worker-threads`, which are not listed separately.
pub(super) const THREADS: &[InfoField] = &[field("io_thread_0", |from| {
    let (stats, clients) = (from.stats(), from.namespace().clients.len());
    let (reads, writes) = (stats.reads.load(Relaxed), stats.writes.load(Relaxed));
    parts([("clients", clients.into()), ("reads", reads.into()), ("writes", writes.into())])
})];

/// Returns the number of keys with blocked clients that are also to be woken by the key's deletion.
fn keys_awaited_even_absent(call: &Call<'_>) -> usize {
    let mut keys: HashSet<(usize, Vec<u8>)> = HashSet::new();
    call.namespace.clients.each_blocked_call(|blocked| {
        if blocked.wake_on_delete {
            let request = blocked.request.as_request();
            let named = blocked.command.keys_of(request).map(|(position, _)| request.arg(position).to_vec());
            keys.extend(named.map(|key| (blocked.caller.db, key)));
        }
    });
    keys.len()
}
