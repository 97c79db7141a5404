//! The append-only file while it is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use tracing::warn;

use crate::config::Config;
use crate::persist::aof::{Annotations, AofDir, AofHandle};

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
        self.handle.stop(true, Box::new(move |result| _ = tell.send(result))); // unread if this thread has ended
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

    /// Makes the logged records durable.
    pub(super) fn sync(&self) -> Result<(), String> {
        let (tell, told) = channel();
        self.handle.sync(Box::new(move |result| _ = tell.send(result))); // unread if this thread has ended
        let synced = told.recv().map_err(|_| "the writer of the append only file has ended".to_owned())?;
        synced.map_err(|error| error.to_string())
    }
}

/// Returns the annotations that the settings want.
pub(super) fn annotations(config: &Config) -> Annotations {
    Annotations { checksums: config.aof_checksum, timestamps: config.aof_timestamp_enabled }
}
