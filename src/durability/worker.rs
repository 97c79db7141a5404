//! State of the thread that owns the files, with the append-only file while it is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use tracing::warn;

use crate::config::Config;
use crate::dispatch::Handlers;
use crate::durability::save_points::SaveSchedule;
use crate::namespace::Namespace;
use crate::persist::aof::{Annotations, AofDir, AofHandle};
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

pub(super) struct LogFile {
    pub(super) dir: Arc<AofDir>,
    /// The `dir` setting at the begin of the file.
    pub(super) root: PathBuf,
    pub(super) handle: AofHandle,
    pub(super) writer: JoinHandle<()>,
    pub(super) annotations: Annotations,
}

impl LogFile {
    pub(super) fn dir(&self) -> Arc<AofDir> {
        self.dir.clone()
    }

    /// Makes the logged records durable, and ends writing; returns true if all of them are durable.
    pub(super) fn end(self) -> bool {
        let (tell, told) = channel();
        self.handle.stop(true, Box::new(move |result| _ = tell.send(result))); // nobody receives it once this thread has ended
        match told.recv() {
            Ok(Ok(())) => {
                _ = self.writer.join(); // a panic of the writer was reported
                return true;
            }
            Ok(Err(error)) => warn!("The end of the append only file is not durable: {error}"),
            Err(_) => warn!("The thread that writes the append only file has ended unexpectedly"),
        }
        false
    }

    /// Makes the logged records durable.
    pub(super) fn sync(&self) -> Result<(), String> {
        let (tell, told) = channel();
        self.handle.sync(Box::new(move |result| _ = tell.send(result))); // nobody receives it once this thread has ended
        let synced = told.recv().map_err(|_| "the writer of the append only file has ended".to_owned())?;
        synced.map_err(|error| error.to_string())
    }
}

/// Returns the annotations that the settings want.
pub(super) fn annotations(config: &Config) -> Annotations {
    Annotations { checksums: config.aof_checksum, timestamps: config.aof_timestamp_enabled }
}
