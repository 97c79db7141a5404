//! The functions of `math` that Redis has replaced, so that a seed gives the same numbers everywhere.

use keylatch_lua::Raised;

use crate::script::arguments::{argument_error, integer};
use crate::script::host::HOST;
use crate::script::shared::{VmStack, set_native};

/// Sets the functions of the table on the top.
pub(super) fn set_functions(frame: &mut VmStack<'_>) {
    set_native(frame, "random", random);
    set_native(frame, "randomseed", seed);
}

fn seed(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if !HOST.is_set() {
        return Err(frame.error("math.randomseed can only be called inside a script invocation"));
    }
    let seed = integer(frame, 1)?;
    frame.data().dice.set(u64::from(seed as u32) << 16 | 0x330E);
    Ok(0)
}

fn random(frame: &mut VmStack<'_>) -> Result<usize, Raised> {
    if !HOST.is_set() {
        return Err(frame.error("math.random can only be called inside a script invocation"));
    }
    // Invalid arguments consume a number, too.
    let (dice, roll) = roll(frame.data().dice.get());
    frame.data().dice.set(dice);
    let (low, high) = match frame.top() {
        0 => (0, 0),
        1 => (1, integer(frame, 1)? as i32),
        2 => (integer(frame, 1)? as i32, integer(frame, 2)? as i32),
        _ => return Err(frame.error("wrong number of arguments")),
    };
    let number = match frame.top() {
        0 => roll,
        count if low > high => return Err(argument_error(frame, count, "interval is empty")),
        1 => (roll * f64::from(high)).floor() + 1.0,
        _ => (roll * f64::from(high.wrapping_sub(low).wrapping_add(1))).floor() + f64::from(low),
    };
    frame.push_number(number);
    Ok(1)
}

/// Returns the next state of the generator, `lrand48`, and a number from 0 up to, but not including, 1.
fn roll(dice: u64) -> (u64, f64) {
    const RANGE: u64 = i32::MAX as u64;
    let dice = (dice.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB)) & 0xFFFF_FFFF_FFFF;
    (dice, (dice >> 17 & RANGE) as f64 % RANGE as f64 / RANGE as f64)
}
