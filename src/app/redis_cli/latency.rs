//! `--latency`: measurement of the latency of PING.

use std::time::Duration;

use crate::app::redis_cli::output::{pause, say};
use crate::app::redis_cli::session::CliSession;
use crate::app::redis_cli::show::ReplyForm;
use crate::time::clock::Clock;

/// Pause between two PINGs.
const PAUSE: Duration = Duration::from_millis(10);

/// Duration of the measurement without `-i`, where the output is no terminal.
const LENGTH: Duration = Duration::from_secs(1);

/// Prints the latencies in milliseconds, on a terminal until the program is ended.
///
/// # Errors
/// If the connection or standard output fails.
pub(super) fn run(session: &mut CliSession) -> Result<bool, String> {
    let (clock, form) = (Clock::system(), session.options.format.form);
    let length = if session.options.interval == Duration::ZERO { LENGTH } else { session.options.interval };
    let began_us = clock.now().mono_us();
    let (mut least, mut most, mut total, mut count) = (u64::MAX, 0, 0, 0);
    loop {
        let sent_ms = clock.now().mono_ms();
        session.ask(&[b"PING".to_vec()])?;
        let now = clock.now();
        let latency = now.mono_ms() - sent_ms;
        (least, most, total, count) = (least.min(latency), most.max(latency), total + latency, count + 1);
        let average = total as f64 / count as f64;
        let is_over = now.ms_since(began_us) > length.as_millis() as u64;
        match form {
            ReplyForm::Typed => {
                say(&format!("\x1b[0G\x1b[2Kmin: {least}, max: {most}, avg: {average:.2} ({count} samples)"))?
            }
            ReplyForm::Csv if is_over => return say(&format!("{least},{most},{average:.2},{count}\n")).map(|()| true),
            _ if is_over => return say(&format!("{least} {most} {average:.2} {count}\n")).map(|()| true),
            _ => {}
        }
        pause(PAUSE);
    }
}
