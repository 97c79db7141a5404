//! Time since the system was booted. It cannot be set, and continues while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};

pub(crate) fn since_boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1000 + nanoseconds / 1_000_000
}
