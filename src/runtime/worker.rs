//! Threads that serve connections: one runtime with one thread each; no work moves between them.
//!
//! docs/decisions/03-one-thread-per-worker.md has the measurement that chose this over one runtime with many threads.
//! The runtimes are of tokio's multi-thread kind, which can replace a blocked thread: when a script runs for too long,
//! another thread takes over its connections (see `executor::hand_over`).

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::runtime::batched_notify;

/// Starts `count` worker threads, or one for every two cores when `count` is 0; returns their runtimes.
///
/// The other half of the cores is for the kernel's network work and for clients on the same machine: a worker without
/// work after every request sleeps and is woken again, which costs more than a second thread gains.
///
/// # Errors
/// An error when a thread or a runtime cannot be created.
pub fn start(count: usize) -> io::Result<Vec<Handle>> {
    let count = match count {
        0 => (thread::available_parallelism()?.get() / 2).max(1),
        count => count,
    };
    (0..count).map(start_one).collect()
}

/// Creates the runtime of one worker, with its thread.
///
/// # Errors
/// An error when the thread or the runtime cannot be created.
pub fn runtime(number: usize) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name(format!("worker-{number}")).enable_all();
    builder.on_thread_park(batched_notify::before_worker_waits).build()
}

fn start_one(number: usize) -> io::Result<Handle> {
    let runtime = runtime(number)?;
    let handle = runtime.handle().clone();
    // The runtime needs no owner: it ends with the process.
    std::mem::forget(runtime);
    Ok(handle)
}
