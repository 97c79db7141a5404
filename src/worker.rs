//! The threads that serve connections: one current-thread runtime each, no work moves between them.
//!
//! ARCHITECTURE.md has the measurement that chose this over one multi-thread runtime.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};

/// Starts `count` worker threads, or one for every two cores when `count` is 0; returns their runtimes.
///
/// The other half of the cores is for the kernel's network work and for the clients beside: a worker that finds
/// nothing to do after every request goes to sleep and is woken again, which costs more than a second thread gains.
///
/// # Errors
/// When a thread or a runtime cannot be created.
pub fn start(count: usize) -> io::Result<Vec<Handle>> {
    let count = match count {
        0 => (thread::available_parallelism()?.get() / 2).max(1),
        count => count,
    };
    (0..count).map(start_one).collect()
}

fn start_one(number: usize) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name(format!("worker-{number}"))
        // The runtime runs its tasks as long as the thread waits for what never comes; both end with the process.
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}
