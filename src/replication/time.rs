//! The time of the primary, by which a replica counts deadlines.
//!
//! The replica asks for it in each handshake, and again each minute by a short connection of its own, because a replica
//! gets no replies on the connection of its link.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{debug, info};

use crate::config::HostPort;
use crate::namespace::Namespace;
use crate::namespace::role::WantedPrimary;
use crate::replication::wire::Wire;
use crate::resp::{Frame, FrameLimits, parse_int};
use crate::text::system_text;
use crate::time::clock::{Clock, END_MS};
use crate::time::estimate::TimeSample;

/// Interval of the requests.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(60);

/// Time for which the primary may be silent on that connection. A wait makes the estimate worse, and the thread may
/// outlive its term.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Limits of the primary's reply: several times the length of a time, or the length of an error.
const REPLY_LIMITS: FrameLimits = FrameLimits { depth: 1, items: 16, len: 1024 };
/// Number of characters of a reply without a time that are logged.
const SHOWN_MAX: usize = 100;

/// Asks the primary for its time; `None` if the primary does not send it, or the own clock is steered.
///
/// # Errors
/// If the connection has ended, or the reply is not RESP or exceeds [`REPLY_LIMITS`].
pub(super) fn ask_time(wire: &mut Wire, clock: &Clock) -> io::Result<Option<TimeSample>> {
    if clock.is_steered() {
        return Ok(None);
    }
    let sent_us = clock.now().mono_us();
    wire.send(&[b"TIME"])?;
    let reply = wire.read_reply(REPLY_LIMITS)?;
    let received_us = clock.now().mono_us();
    let sample = time_us(&reply).map(|time_us| TimeSample { sent_us, time_us, received_us });
    if sample.is_none() {
        info!("(Non critical) Master does not say what its time is: {}", shown(&reply));
    }
    Ok(sample)
}

/// Asks the primary for its time again, on a thread and by a connection of its own, if the link is up and the primary
/// has sent its time before.
pub(super) fn ask_apart(namespace: &Arc<Namespace>, wanted: WantedPrimary) {
    let (WantedPrimary { term, primary, .. }, link) = (wanted, namespace.role.link());
    let Some(primary) = primary.filter(|_| link.is_up() && link.tells_time) else { return };
    let namespace = namespace.clone();
    let ask = move || {
        let asked = namespace.instance.panics.catch("time of the primary", || ask_once(&namespace, term, &primary));
        if let Some(Err(cause)) = asked {
            debug!("The primary was not asked for its time: {}", system_text(&cause));
        }
    };
    if let Err(cause) = thread::Builder::new().name("time".into()).spawn(ask) {
        debug!("The primary is not asked for its time: {}", system_text(&cause));
    }
}

/// Asks the primary of a term for its time by a connection of its own, and corrects the clock.
fn ask_once(namespace: &Namespace, term: u64, primary: &HostPort) -> io::Result<()> {
    let config = namespace.settings.current();
    let mut wire = Wire::connect_within(primary, &config, TIMEOUT)?;
    wire.log_in(&config)?;
    if let Some(sample) = ask_time(&mut wire, &namespace.clock)?
        && !namespace.tenant.stop.is_cancelled()
    {
        namespace.hear_time(term, sample);
    }
    Ok(())
}

/// Returns the time in a reply, in microseconds since 1970, unless it is out of range for a deadline.
fn time_us(reply: &Frame) -> Option<i64> {
    let number = |frame: &Frame| match frame {
        Frame::Integer(number) => Some(*number),
        Frame::Bulk(text) => parse_int(text),
        _ => None,
    };
    let Frame::Array(parts) = reply else { return None };
    let [seconds, us] = &parts[..] else { return None };
    let (seconds, us) = (number(seconds)?, number(us)?);
    let is_time = (0..END_MS / 1000).contains(&seconds) && (0..1_000_000).contains(&us);
    is_time.then(|| seconds * 1_000_000 + us)
}

/// Returns a reply without a time as it is logged.
fn shown(reply: &Frame) -> String {
    let text = match reply {
        Frame::Error(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    text.chars().take(SHOWN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{Shutdown, TcpListener};

    use bytes::BytesMut;
    use tokio_util::codec::Decoder;

    use super::*;
    use crate::command::handlers;
    use crate::config::Config;
    use crate::resp::FrameDecoder;

    #[test]
    fn a_time_is_an_array_of_two_numbers_that_a_deadline_may_have() {
        for (text, expected) in [
            (&b"*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"[..], 1_700_000_000_123_456),
            (b"*2\r\n$1\r\n0\r\n$1\r\n0\r\n", 0),
            (b"*2\r\n:5\r\n:7\r\n", 5_000_007),
            (b"*2\r\n$13\r\n4611686018426\r\n$6\r\n999999\r\n", 4_611_686_018_426_999_999),
        ] {
            let frame = FrameDecoder::new().decode(&mut BytesMut::from(text)).expect("RESP").expect("whole");
            assert_eq!(time_us(&frame), Some(expected), "{}", text.escape_ascii());
        }
    }

    /// Returns a namespace that is to be a replica, with the clock of the system.
    fn replica() -> Namespace {
        let mut config = Config::default();
        config.replicaof = Some(HostPort { host: "primary".into(), port: 1 });
        Namespace::for_test(&handlers().commands, config, Clock::system())
    }

    #[test]
    fn what_is_no_time_changes_nothing() {
        let namespace = replica();
        let long = format!("+{}", "x".repeat(REPLY_LIMITS.len - 3));
        for text in [
            "+OK",
            "-NOPERM User has no permissions to run the 'time' command",
            "-ERR unknown command 'TIME'",
            ":5",
            "$2\r\nab",
            "$2\r\n\n\n",
            "$-1",
            "*-1",
            "*0",
            "*1\r\n:5",
            "*3\r\n:5\r\n:6\r\n:7",
            "*2\r\n+5\r\n+6",
            "*2\r\n$-1\r\n:6",
            "*2\r\n$2\r\n-5\r\n$1\r\n0",
            "*2\r\n:-5\r\n:0",
            "*2\r\n$0\r\n\r\n$1\r\n0",
            "*2\r\n$1\r\nx\r\n$1\r\n0",
            "*2\r\n:5\r\n:1000000",
            "*2\r\n:4611686018427\r\n:0",
            "*2\r\n:9223372036854775807\r\n:0",
            "*2\r\n$20\r\n99999999999999999999\r\n:0",
            &long,
        ] {
            let (result, _) = ask(&namespace, namespace.role.term(), format!("{text}\r\n").as_bytes());
            assert!(result.is_ok() && !namespace.clock.is_following(), "{text}: {result:?}");
        }
    }

    #[test]
    fn what_has_no_end_or_is_long_is_refused() {
        let namespace = replica();
        let line = format!("+{}\r\n", "x".repeat(REPLY_LIMITS.len));
        let endless = "x".repeat(2 * REPLY_LIMITS.len);
        let strings = format!("*2\r\n{}", format!("$1000\r\n{}\r\n", "x".repeat(1000)).repeat(2));
        for (text, refusal) in [
            ("", ErrorKind::UnexpectedEof),
            ("*2\r\n:5\r\n", ErrorKind::UnexpectedEof),
            ("*2\r\n$10\r\n17", ErrorKind::UnexpectedEof),
            // These are refused without waiting for the bytes that they claim.
            ("\r\n", ErrorKind::InvalidData),
            ("*17\r\n", ErrorKind::InvalidData),
            ("*2\r\n*1\r\n", ErrorKind::InvalidData),
            ("*9223372036854775807\r\n", ErrorKind::InvalidData),
            ("*99999999999999999999\r\n", ErrorKind::InvalidData),
            ("*x\r\n", ErrorKind::InvalidData),
            ("*2\r\n:99999999999999999999\r\n", ErrorKind::InvalidData),
            ("$9223372036854775807\r\n", ErrorKind::InvalidData),
            ("$99999999999999999999\r\n", ErrorKind::InvalidData),
            ("$1025\r\n", ErrorKind::InvalidData),
            ("%17\r\n", ErrorKind::InvalidData),
            ("\u{e9}\r\n", ErrorKind::InvalidData),
            (&line, ErrorKind::InvalidData),
            (&endless, ErrorKind::InvalidData),
            (&strings, ErrorKind::InvalidData),
        ] {
            let (result, _) = ask(&namespace, namespace.role.term(), text.as_bytes());
            let kind = result.expect_err(text).kind();
            assert!(kind == refusal && !namespace.clock.is_following(), "{kind:?}: {text}");
        }
    }

    /// Makes a replica ask a server that answers with the given bytes; returns the bytes that the server received.
    fn ask(namespace: &Namespace, term: u64, answer: &[u8]) -> (io::Result<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let primary = HostPort { host: "127.0.0.1".into(), port: listener.local_addr().expect("an address").port() };
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                let (mut link, mut asked) = (listener.accept().expect("a connection").0, String::new());
                link.write_all(answer).expect("it is connected");
                link.shutdown(Shutdown::Write).expect("it is connected");
                let _ = link.read_to_string(&mut asked); // the connection is reset if a part was not read
                asked
            });
            let result = ask_once(namespace, term, &primary);
            (result, served.join().expect("it was served"))
        })
    }

    #[test]
    fn the_primary_is_asked_again_by_a_connection_of_its_own_and_believed_in_its_term() {
        let namespace = replica();
        let (clock, term, time) = (&namespace.clock, namespace.role.term(), "*1\r\n$4\r\nTIME\r\n");
        let reply = |by_ms: i64| {
            let ms = clock.own_offset_ms() + clock.now().mono_ms() as i64 + by_ms;
            format!("*2\r\n:{}\r\n:{}\r\n", ms / 1000, ms % 1000 * 1000)
        };
        let ahead_ms = || clock.now().wall_offset_ms() - clock.own_offset_ms();
        let hour_ms = 3_600_000;
        for answer in ["-NOPERM no", "+OK", "*2\r\n:5\r\n:1000000"] {
            let (result, asked) = ask(&namespace, term, format!("{answer}\r\n").as_bytes());
            assert!(result.is_ok() && asked == time && !clock.is_following(), "{answer}: {asked}");
        }
        assert!(ask(&namespace, term, b"*2\r\n:5\r\n%").0.is_err() && !clock.is_following());
        assert!(ask(&namespace, term + 1, reply(hour_ms).as_bytes()).0.is_ok() && !clock.is_following());
        // The primary is ahead at first, then set back, and then set forward.
        for (by_ms, expected_ms) in [(hour_ms, hour_ms), (-hour_ms, -hour_ms), (hour_ms, -hour_ms)] {
            ask(&namespace, term, reply(by_ms).as_bytes()).0.expect("asked");
            assert!(clock.is_following() && ahead_ms().abs_diff(expected_ms) < 60_000, "{by_ms}: {}", ahead_ms());
        }
        let changed = namespace.settings.update(|config| {
            let mut config = config.clone();
            config.masterauth = Some(b"secret"[..].into());
            Ok(config)
        });
        changed.expect("no check refuses it");
        let (result, asked) = ask(&namespace, term, b"-WRONGPASS no\r\n");
        assert!(result.is_err() && asked.ends_with("AUTH\r\n$6\r\nsecret\r\n"), "{asked}");
        let (result, asked) = ask(&namespace, term, format!("+OK\r\n{}", reply(-2 * hour_ms)).as_bytes());
        assert!(result.is_ok() && asked.ends_with(time) && ahead_ms().abs_diff(-2 * hour_ms) < 60_000, "{asked}");
    }
}
