//! Counter of the processor, which is faster to read than the system's clock.

/// Returns whether the counter runs at a constant rate. Only then does the kernel list it as a clock source.
#[cfg(target_arch = "x86_64")]
pub(super) fn is_trusted() -> bool {
    const LIST: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    std::fs::read_to_string(LIST).is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == "tsc"))
}

#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::x86_64_tick_counter()
}

/// Returns true: the architecture guarantees a constant rate.
#[cfg(target_arch = "aarch64")]
pub(super) fn is_trusted() -> bool {
    true
}

#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) fn read() -> u64 {
    tick_counter::aarch64_tick_counter()
}

/// Returns false: there is no counter.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn is_trusted() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn read() -> u64 {
    0
}
