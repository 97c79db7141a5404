//! State of the thread that owns the files.

use std::sync::Arc;

use crate::dispatch::Handlers;
use crate::durability::log_file::LogFile;
use crate::durability::save_points::SaveSchedule;
use crate::namespace::Namespace;
use crate::persist::disk::Disk;

/// State of the thread that owns the files.
pub(super) struct FilesWorker {
    pub(super) namespace: Arc<Namespace>,
    pub(super) handlers: &'static Handlers,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) due: SaveSchedule,
    pub(super) log: Option<LogFile>,
    /// Clones are held by the threads that send a replica a part of the append-only file.
    pub(super) pin: Arc<()>,
}
