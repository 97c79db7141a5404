//! Sections of INFO about databases and locks.

use std::sync::atomic::Ordering::Relaxed;

use crate::command::server::info::field::{InfoField, InfoValue, family, field, parts};
use crate::command::server::info::reading::Reading;
use crate::dispatch::Call;
use crate::observe::histogram::Counts;
use crate::observe::locks::LockStats;
use crate::store::Totals;

pub(super) const KEYSPACE: &[InfoField] = &[family("db", databases)];

#[rustfmt::skip] // a table
pub(super) const LOCKS: &[InfoField] = &[
    field("held", |from| from.totals().locks.into()),
    field("waiting", |from| from.totals().queued.into()),
    field("acquired_total", |from| locks(from).acquired.load(Relaxed).into()),
    field("contended_total", |from| locks(from).contended.load(Relaxed).into()),
    field("timed_out_total", |from| locks(from).timed_out.load(Relaxed).into()),
    field("deadlocks_total", |from| locks(from).deadlocks.load(Relaxed).into()),
    field("deadlock_steps_total", |from| locks(from).deadlock_steps.load(Relaxed).into()),
    field("expired_while_held_total", |from| locks(from).expired.load(Relaxed).into()),
    field("longest_wait_ms", |from| {
        let since_us = if from.totals().queued > 0 { longest_waiting_since_us(from.call) } else { None };
        since_us.map_or(0, |since_us| from.call.now().ms_since(since_us)).into()
    }),
    field("remembered_fences", |from| from.totals().retired_fences.into()),
    field("remembered_fences_bytes", |from| from.totals().retired_fence_bytes.into()),
    field("kept_places", |from| from.namespace().lock_holders.kept_places().0.into()),
    field("kept_places_bytes", |from| from.namespace().lock_holders.kept_places().1.into()),
    field("durability", |from| durability(from).into()),
    field("lock_wait_usec", |from| percentiles(&locks(from).waits())),
    field("lock_hold_usec", |from| percentiles(&locks(from).holds())),
];

/// Returns the databases that have keys, by number.
fn databases(from: &mut Reading<'_, '_>) -> Vec<(String, InfoValue)> {
    let (view, with_deadlines) =
        (&mut from.call.view, from.call.config.dialect().choose("subexpiry", "keys_with_volatile_items"));
    let mut databases = Vec::new();
    for db in view.used_databases() {
        let (Totals { keys, with_ttl, with_field_ttl, with_member_ttl, .. }, mean_ttl_ms) = view.in_db(db, |view| {
            let totals = view.totals();
            (totals, if totals.with_ttl > 0 { view.mean_ttl_ms() } else { 0 })
        });
        if keys > 0 {
            let facts = [
                ("keys", keys.into()),
                ("expires", with_ttl.into()),
                ("avg_ttl", mean_ttl_ms.into()),
                (with_deadlines, (with_field_ttl + with_member_ttl).into()),
            ];
            databases.push((db.to_string(), parts(facts)));
        }
    }
    databases
}

fn locks<'n>(from: &Reading<'_, 'n>) -> &'n LockStats {
    &from.namespace().observed.locks
}

/// Returns the place in which locks survive the end of the server.
fn durability(from: &mut Reading<'_, '_>) -> &'static str {
    if from.namespace().engine().is_some() {
        "etcd"
    } else if from.files().log.is_some() {
        "file"
    } else if from.namespace().replicas.is_any_online() {
        "replicas"
    } else if from.settings().has_snapshots() {
        "snapshot"
    } else {
        "memory"
    }
}

pub(super) fn percentiles(durations: &Counts) -> InfoValue {
    parts(
        [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)]
            .map(|(name, percent)| (name, durations.at_percentile(percent).into())),
    )
}

/// Returns the time since which the first client in a queue for a lock has waited, the earliest of all, in monotonic
/// microseconds.
fn longest_waiting_since_us(call: &mut Call<'_>) -> Option<u64> {
    let mut longest = None;
    for db in call.view.used_databases() {
        call.view.in_db(db, |view| {
            view.locks().for_each(|lock, _| {
                let firsts = longest.into_iter().chain(lock.queue.front().map(|waiter| waiter.since_us));
                longest = firsts.min();
            });
        });
    }
    longest
}
