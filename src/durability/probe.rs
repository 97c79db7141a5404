//! The thread that owns the files, in steps that a test makes.

use std::sync::Arc;

use crate::dispatch::Handlers;
use crate::durability::save_points::SaveSchedule;
use crate::durability::worker::FilesWorker;
use crate::namespace::Namespace;
use crate::persist::disk::Disk;

fn worker(namespace: &Arc<Namespace>, handlers: &'static Handlers, disk: &Arc<dyn Disk>) -> FilesWorker {
    let (namespace, disk) = (namespace.clone(), disk.clone());
    FilesWorker { namespace, handlers, disk, due: SaveSchedule::default(), log: None, pin: Arc::default() }
}

/// Saves a snapshot.
///
/// # Errors
/// The reason for which the snapshot cannot be saved.
pub(crate) fn save(
    namespace: &Arc<Namespace>,
    handlers: &'static Handlers,
    disk: &Arc<dyn Disk>,
) -> Result<(), String> {
    worker(namespace, handlers, disk).save(None, namespace.clock.now()).map(drop)
}

/// Loads the present files, as a start of the server does.
///
/// # Errors
/// The reason for which they cannot be loaded.
pub(crate) fn load(
    namespace: &Arc<Namespace>,
    handlers: &'static Handlers,
    disk: &Arc<dyn Disk>,
) -> Result<(), String> {
    namespace.set_loading(true);
    let loaded = worker(namespace, handlers, disk).load();
    namespace.set_loading(false);
    loaded
}
