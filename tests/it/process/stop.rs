//! Wait until a process that was sent SIGSTOP is stopped.

use std::{fs, io};

use crate::harness::wait_until;

/// Waits until all threads of a process are stopped: running threads stop a little later than the signal is sent.
#[track_caller]
pub(super) fn wait_until_stopped(process: u32) {
    wait_until(|| fs::read_dir(format!("/proc/{process}/task")).expect("it exists").all(|thread| is_stopped(&thread)));
}

/// Returns whether a thread, given by its directory in `/proc`, is stopped or has ended.
fn is_stopped(thread: &io::Result<fs::DirEntry>) -> bool {
    let Ok(thread) = thread else { return true };
    let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may contain any characters.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
}
