//! TEST.TIME: moves, stops and starts the clock.

use std::time::Duration;

use crate::client::registry::Unblocked;
use crate::command::test_mode::controls::CONTROLS;
use crate::dispatch::{Call, Command, Continuation, Env, TimeTravel, Wait};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{FAST, Group, integer};
use crate::store::View;
use crate::time::clock::END_MS;

/// The maximum by which a clock can be moved at once, in milliseconds: three hundred years.
const MS_MAX: i64 = 300 * 366 * 24 * 60 * 60 * 1000;

pub(super) const COMMANDS: &[Command] = &[Command::container(
    "TEST.TIME",
    Group::Test,
    &[
        Command::new("ADVANCE", advance, CONTROLS, Group::Test)
            .args(&[integer("milliseconds").about("How far; not negative.")])
            .docs(
                "0.1.0",
                "O(N) where N is the number of instants at which something is due",
                "Moves the clock forward, and returns the time when everything due has happened.",
            ),
        Command::new("FREEZE", freeze, CONTROLS, Group::Test).docs("0.1.0", "O(1)", "Stops the clock."),
        Command::new("GET", get, CONTROLS | FAST, Group::Test).docs("0.1.0", "O(1)", "Returns the time."),
        Command::new("RUN", run, CONTROLS, Group::Test).docs("0.1.0", "O(1)", "Lets the clock run on at real pace."),
        Command::new("SET", set, CONTROLS, Group::Test)
            .args(&[integer("unix-time-milliseconds").about("The new time, since 1970.")])
            .docs(
                "0.1.0",
                "O(N) where N is the number of instants at which something is due",
                "Moves the clock forward to a time, or sets only the wall clock back.",
            ),
    ],
)
.help_since("0.1.0")
.docs("0.1.0", "Depends on subcommand.", "Contains the subcommands that steer time.")];

/// The continuation that replies with the time once the clock was moved.
struct Journey(TimeTravel);

impl Continuation for Journey {
    fn wait(&mut self) -> Wait<'_> {
        Wait::TimeTravel(self.0)
    }

    fn step(&mut self, _: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        reply.int(view.now().wall_ms());
        Ok(true)
    }
}

fn advance(call: &mut Call<'_>) -> Result<()> {
    let ms = u64::try_from(read_ms(call)?).map_err(|_| Error::other("milliseconds must not be negative"))?;
    let now = call.present();
    check_end(now.wall_ms().checked_add_unsigned(ms))?;
    check_end(i64::try_from(now.mono_ms()).ok().and_then(|now_ms| now_ms.checked_add_unsigned(ms)))?;
    call.continue_with(Journey(TimeTravel::By(Duration::from_millis(ms))))
}

fn set(call: &mut Call<'_>) -> Result<()> {
    let (unix_ms, now) = (read_ms(call)?, call.present());
    let ahead_ms = unix_ms.saturating_sub(now.wall_ms());
    check_end(i64::try_from(now.mono_ms()).ok().and_then(|now_ms| now_ms.checked_add(ahead_ms)))?;
    call.continue_with(Journey(TimeTravel::To { unix_ms }))
}

fn freeze(call: &mut Call<'_>) -> Result<()> {
    call.continue_with(Journey(TimeTravel::Stop))
}

fn run(call: &mut Call<'_>) -> Result<()> {
    call.continue_with(Journey(TimeTravel::Run))
}

fn get(call: &mut Call<'_>) -> Result<()> {
    call.reply.int(call.present().wall_ms());
    Ok(())
}

/// Checks that a clock can be moved to a time, in milliseconds.
fn check_end(end_ms: Option<i64>) -> Result<()> {
    if end_ms.is_some_and(|end_ms| end_ms <= END_MS) { Ok(()) } else { Err(out_of_range()) }
}

fn out_of_range() -> Error {
    Error::other("milliseconds are out of range")
}

/// Parses a number of milliseconds.
fn read_ms(call: &mut Call<'_>) -> Result<i64> {
    let ms = call.args.int()?;
    if ms.unsigned_abs() > MS_MAX as u64 { Err(out_of_range()) } else { Ok(ms) }
}
