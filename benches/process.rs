//! Resource use of a process, read from the kernel.

use std::fs;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the CPU time that all threads of a process have used so far, in microseconds.
///
/// # Errors
/// An error when the process does not exist any more.
pub fn cpu_us(pid: u32) -> Result<f64> {
    let mut nanoseconds = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            nanoseconds += text.split_whitespace().next().unwrap_or("0").parse::<f64>()?;
        }
    }
    Ok(nanoseconds / 1e3)
}

/// Returns the memory of a process, in bytes: its private memory, and its share of memory shared with others (Pss).
///
/// # Errors
/// An error when the process does not exist any more.
pub fn memory(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("smaps_rollup has no Pss")?;
    Ok(line.trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}
