//! The section `engine` of INFO.

use std::sync::atomic::Ordering::Relaxed;

use crate::command::server::info::field::{InfoField, InfoValue, field, optional};
use crate::command::server::info::keyspace::percentiles;
use crate::command::server::info::reading::Reading;
use crate::observe::EngineStats;

/// The fields of the section; all but the first exist only where the data is in a cluster.
#[rustfmt::skip] // a table
pub(super) const ENGINE: &[InfoField] = &[
    field("engine", |from| if from.namespace().engine().is_some() { "etcd" } else { "memory" }.into()),
    optional("engine_process", |from| stats(from).map(|stats| format!("{:016x}", stats.process.load(Relaxed)).into())),
    optional("engine_endpoint", |from| stats(from).map(|stats| stats.cluster.lock().endpoint.clone().into())),
    optional("engine_version", |from| stats(from).map(|stats| stats.cluster.lock().version.clone().into())),
    optional("engine_leader", |from| stats(from).map(|stats| format!("{:x}", stats.cluster.lock().leader).into())),
    optional("engine_members", |from| stats(from).map(|stats| (stats.cluster.lock().members as u64).into())),
    optional("engine_size", |from| stats(from).map(|stats| InfoValue::Int(stats.cluster.lock().size))),
    optional("engine_revision", |from| stats(from).map(|stats| InfoValue::Int(stats.revision.load(Relaxed)))),
    optional("engine_revisions_behind", |from| stats(from).map(|stats| {
        InfoValue::Int((stats.cluster_revision.load(Relaxed) - stats.revision.load(Relaxed)).max(0))
    })),
    optional("engine_calls", |from| stats(from).map(|stats| stats.calls.load(Relaxed).into())),
    optional("engine_transactions", |from| stats(from).map(|stats| stats.transactions.load(Relaxed).into())),
    optional("engine_transactions_per_sec", |from| stats(from).map(|_| from.rates().transactions.into())),
    optional("engine_transaction_usec", |from| stats(from).map(|stats| percentiles(&stats.transaction_durations()))),
    optional("engine_barriers", |from| stats(from).map(|stats| stats.barriers.load(Relaxed).into())),
    optional("engine_barriers_per_sec", |from| stats(from).map(|_| from.rates().barriers.into())),
    optional("engine_barrier_usec", |from| stats(from).map(|stats| percentiles(&stats.barrier_durations()))),
    optional("engine_conflicts", |from| stats(from).map(|stats| stats.conflicts.load(Relaxed).into())),
    optional("engine_unknown_outcomes", |from| stats(from).map(|stats| stats.unknown.load(Relaxed).into())),
    optional("engine_uncertain_replies", |from| stats(from).map(|stats| stats.uncertain.load(Relaxed).into())),
    optional("engine_watches", |from| stats(from).map(|stats| stats.watches.load(Relaxed).into())),
    optional("engine_reloads", |from| stats(from).map(|stats| stats.reloads.load(Relaxed).into())),
];

fn stats<'n>(from: &Reading<'_, 'n>) -> Option<&'n EngineStats> {
    let namespace = from.namespace();
    namespace.engine().map(|_| &*namespace.observed.engine)
}
