//! Services shared by all shards of a store.

use std::sync::Arc;

use crate::store::event::EventSink;
use crate::store::expire::SweepTimer;
use crate::store::memory_account::MemoryAccount;
use crate::store::reclaim::Reclaimer;
use crate::store::table::Hasher;
use crate::store::tail_work::TailWork;

/// Services shared by all shards of a store.
#[derive(Clone)]
pub(crate) struct Services {
    pub(super) hasher: Hasher,
    pub(super) sweep_timer: Arc<SweepTimer>,
    pub(super) memory_account: Arc<MemoryAccount>,
    pub(super) events: Arc<EventSink>,
    pub(super) reclaimer: Arc<Reclaimer>,
    pub(super) tail_work: Arc<TailWork>,
}
