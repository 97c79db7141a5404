//! Locks in the form that a page is sent: with their holders and queues, and the latest hand-overs.
//!
//! Keys, names and META are shown as texts, shortened; the exact bytes of a key are sent only where a lock can be
//! released, because a release names the lock by them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::info::RemoteClient;
use crate::client::registry::Clients;
use crate::command::lock::deadlock::CycleLink;
use crate::command::lock::overview::{ShownHolder, ShownLock, ShownWaiter};
use crate::metrics::escape::{name, short_name};
use crate::observe::handovers::Handover;

/// Number of bytes of a key that are shown.
const KEY_SHOWN: usize = 128;

/// Returns a lock as JSON.
pub(super) fn shown_lock(lock: &ShownLock, clients: &Clients, may_release: bool) -> Value {
    let is_whole = lock.key.len() == lock.key_len;
    let key = &lock.key[..lock.key.len().min(KEY_SHOWN)];
    json!({
        "key": name(key, lock.key_len - key.len()),
        "exact": (may_release && is_whole).then(|| STANDARD.encode(&lock.key)),
        "db": lock.db,
        "mode": lock.mode,
        "size": lock.permits.map(|(size, _)| size),
        "free": lock.permits.map(|(_, free)| free),
        "ttl": lock.pttl_ms,
        "queued": lock.queued,
        "wait": lock.wait_ms,
        "age": lock.age_ms,
        "fence": lock.fence,
        "heldBy": lock.held_by,
        "holders": lock.holders.iter().map(shown_holder).collect::<Value>(),
        "queue": lock.queue.iter().map(|waiter| shown_waiter(waiter, clients)).collect::<Value>(),
        "cycle": lock.cycle.as_ref().map(|cycle| cycle.iter().map(|link| shown_link(link, clients)).collect::<Value>()),
    })
}

/// Returns a holder as JSON; its fence is a text, because it may have more digits than a number of a browser.
fn shown_holder(holder: &ShownHolder) -> Value {
    json!({
        "number": holder.number,
        "client": holder.client.as_ref().map(shown_client),
        "gone": holder.is_gone,
        "away": holder.is_away,
        "meta": holder.meta.as_ref().map(|meta| name(meta, holder.meta_rest)),
        "age": holder.age_ms,
        "ttl": holder.pttl_ms,
        "fence": holder.fence.to_string(),
        "permits": holder.permits,
    })
}

fn shown_waiter(waiter: &ShownWaiter, clients: &Clients) -> Value {
    json!({
        "client": clients.shown(waiter.client).as_ref().map(shown_client),
        "wait": waiter.wait_ms,
        "mode": waiter.mode,
        "permits": waiter.permits,
        "away": waiter.is_away,
    })
}

/// Returns a link of a cycle as JSON: a lock, and the client that holds it and waits for the next one.
fn shown_link(link: &CycleLink, clients: &Clients) -> Value {
    let (id, process) = clients.shown(link.client).map_or((link.client, None), |client| (client.id, client.process));
    json!({ "key": short_name(&link.key), "id": id, "process": process.map(process_name) })
}

/// Returns a hand-over as JSON.
pub(super) fn shown_handover(handover: &Handover) -> Value {
    json!({
        "at": handover.unix_ms,
        "key": name(&handover.key, handover.key_rest),
        "db": handover.db,
        "from": handover.from.as_ref().map(shown_client),
        "held": handover.held_us.map(|us| us as f64 / 1000.0),
        "to": shown_client(&handover.to),
        "waited": handover.waited_us as f64 / 1000.0,
    })
}

fn shown_client(client: &RemoteClient) -> Value {
    json!({
        "id": client.id,
        "name": short_name(client.name.as_bytes()),
        "addr": client.addr,
        "process": client.process.map(process_name),
    })
}

/// Returns the number of a process as INFO shows it, as a text, because it has more digits than a number of a browser.
fn process_name(process: u64) -> String {
    format!("{process:016x}")
}
