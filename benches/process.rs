//! Readings of a process from the kernel.

use std::fs;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the CPU time that all threads of a process have used so far, in microseconds.
///
/// # Errors
/// When the process is gone.
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

/// Returns the memory of a process in bytes: what it has alone, and its share of what it has with others (Pss).
///
/// # Errors
/// When the process is gone.
pub fn memory(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).ok_or("smaps_rollup has no Pss")?;
    Ok(line.trim_end_matches("kB").trim().parse::<f64>()? * 1024.0)
}
