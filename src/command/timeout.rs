//! The timeouts of commands that wait: in milliseconds, or in seconds with a fraction.

use crate::dispatch::Call;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::NEVER;
use crate::text::long_double;
use crate::time::clock::Now;

/// Parses a timeout in milliseconds, 0 for none; returns the deadline, or [`NEVER`].
pub(crate) fn read_timeout(call: &mut Call<'_>) -> Result<u64> {
    let now = call.present();
    let timeout = call.args.bytes()?;
    let ms = parse_int(timeout).ok_or(Error::other("timeout is not an integer or out of range"))?;
    deadline(ms, now)
}

/// Parses a timeout in seconds, which may have a fraction; 0 for none. Returns the deadline, or [`NEVER`].
pub(crate) fn read_timeout_in_seconds(call: &Call<'_>, timeout: &[u8]) -> Result<u64> {
    let now = call.present();
    let seconds = long_double::parse(timeout).ok_or(Error::other("timeout is not a float or out of range"))?;
    deadline(long_double::ceil_of_product(seconds, 1000), now)
}

/// Returns the deadline of a timeout in milliseconds, rounded up, so that no wait ends early.
fn deadline(timeout_ms: i64, now: Now) -> Result<u64> {
    if timeout_ms < 0 {
        return Err(Error::other("timeout is negative"));
    }
    // Redis adds the wall-clock time, which must not overflow.
    if timeout_ms > i64::MAX - now.wall_ms() {
        return Err(Error::other("timeout is out of range"));
    }
    Ok(if timeout_ms > 0 { now.ms_later(timeout_ms as u64) } else { NEVER })
}
