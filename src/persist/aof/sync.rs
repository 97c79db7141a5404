//! Syncs of a file, apart from the writes: on a slow disk, acknowledged data still reaches the system.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use parking_lot::Mutex;

use crate::persist::disk::DiskFile;

/// A syncer of one file at a time.
pub(crate) trait Syncer: Send {
    /// Begins to make a file durable, or does it at once.
    fn start(&mut self, file: Arc<dyn DiskFile>);

    /// Returns the result of the sync, once, when it has ended.
    fn poll(&mut self) -> Option<io::Result<()>>;
}

/// Syncer without a thread, which syncs in [`Syncer::start`].
#[derive(Default)]
pub(crate) struct InlineSyncer(Option<io::Result<()>>);

impl Syncer for InlineSyncer {
    fn start(&mut self, file: Arc<dyn DiskFile>) {
        self.0 = Some(file.sync_data());
    }

    fn poll(&mut self) -> Option<io::Result<()>> {
        self.0.take()
    }
}

/// Syncer with a thread of its own, which ends when the syncer is dropped.
pub(crate) struct ThreadSyncer {
    files: Sender<Arc<dyn DiskFile>>,
    result: Arc<Mutex<Option<io::Result<()>>>>,
}

impl ThreadSyncer {
    /// Starts the thread; `wake` is called after each sync.
    ///
    /// # Errors
    /// An error if the system has no thread left.
    pub(crate) fn start_thread(wake: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (files, received) = channel::<Arc<dyn DiskFile>>();
        let result = Arc::new(Mutex::new(None));
        let slot = result.clone();
        let sync = move || {
            for file in received {
                let result = file.sync_data();
                *slot.lock() = Some(result);
                wake();
            }
        };
        std::thread::Builder::new().name("aof-sync".to_owned()).spawn(sync)?;
        Ok(ThreadSyncer { files, result })
    }
}

impl Syncer for ThreadSyncer {
    fn start(&mut self, file: Arc<dyn DiskFile>) {
        if self.files.send(file).is_err() {
            *self.result.lock() = Some(Err(io::Error::other("the thread that syncs has ended")));
        }
    }

    fn poll(&mut self) -> Option<io::Result<()>> {
        self.result.lock().take()
    }
}
