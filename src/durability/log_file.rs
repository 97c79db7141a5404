//! The append-only file while it is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use tracing::warn;

use crate::config::Config;
use crate::persist::aof::{Annotations, AofDir, AofHandle};

/// The append-only file that is written.
pub(super) struct LogFile {
    pub(super) dir: Arc<AofDir>,
    /// The directory that the settings named for it.
    pub(super) root: PathBuf,
    pub(super) handle: AofHandle,
    pub(super) writer: JoinHandle<()>,
    pub(super) annotations: Annotations,
}

impl LogFile {
    /// Returns its directory.
    pub(super) fn dir(&self) -> Arc<AofDir> {
        self.dir.clone()
    }

    /// Makes durable what is logged, and writes no more; returns whether all of it is durable.
    pub(super) fn end(self) -> bool {
        let (tell, told) = channel();
        self.handle.stop(true, Box::new(move |result| _ = tell.send(result))); // nobody listens if this thread has ended
        match told.recv() {
            Ok(Ok(())) => {
                _ = self.writer.join(); // a panic of the writer was reported
                return true;
            }
            Ok(Err(error)) => warn!("The end of the append only file is not durable: {error}"),
            Err(_) => warn!("The writer of the append only file has ended early"),
        }
        false
    }

    /// Makes durable what is logged.
    pub(super) fn sync(&self) -> Result<(), String> {
        let (tell, told) = channel();
        self.handle.sync(Box::new(move |result| _ = tell.send(result))); // nobody listens if this thread has ended
        let synced = told.recv().map_err(|_| "the writer of the append only file has ended".to_owned())?;
        synced.map_err(|error| error.to_string())
    }
}

/// Returns what the settings want to be written beside the commands.
pub(super) fn annotations(config: &Config) -> Annotations {
    Annotations { checksums: config.aof_checksum, timestamps: config.aof_timestamp_enabled }
}
