//! What the thread that owns the files works with.

use std::sync::Arc;

use crate::dispatch::Handlers;
use crate::durability::due::Due;
use crate::durability::log_file::LogFile;
use crate::namespace::Namespace;
use crate::persist::disk::Disk;

/// What the thread works with.
pub(super) struct Worker {
    pub(super) namespace: Arc<Namespace>,
    pub(super) handlers: &'static Handlers,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) due: Due,
    pub(super) log: Option<LogFile>,
    /// The version of snapshots for replicas, if a later one than the lowest was needed.
    pub(super) sync_version: Option<u16>,
}
