//! The counter of the processor, which is read faster than the clock of the system.

/// The kernel lists the processor's counter as a clock source only if it runs at a constant rate.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_trusted() -> bool {
    const LIST: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    std::fs::read_to_string(LIST).is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == "tsc"))
}

/// Reads the counter.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::x86_64_tick_counter()
}

/// The architecture guarantees a constant rate.
#[cfg(target_arch = "aarch64")]
pub(super) fn is_trusted() -> bool {
    true
}

/// Reads the counter.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::aarch64_tick_counter()
}

/// There is no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn is_trusted() -> bool {
    false
}

/// There is no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn read() -> u64 {
    0
}
