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
    /// A clone of it is held by each thread that sends a replica a part of the append-only file.
    pub(super) pin: Arc<()>,
}
