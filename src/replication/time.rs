//! What time it is at the primary: a replica counts deadlines by that.
//!
//! It is asked for in each handshake, and again each minute by a short connection of its own, because a replica gets no
//! replies on that of its link.

use std::io::{self, Error, ErrorKind, Read};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{debug, info};

use crate::config::Address;
use crate::namespace::Namespace;
use crate::namespace::role::Wanted;
use crate::replication::wire::Wire;
use crate::text::system_text;
use crate::time::clock::{Clock, END_MS};
use crate::time::estimate::Sample;

/// How often to ask.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(60);

/// For how long the primary may be silent then. The estimate becomes worse by that, and the thread may outlive its term.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a line of a reply may be, and a part of it, and how many parts it may have.
const LINE_MAX: usize = 1024;
const PART_MAX: usize = 1024;
const PARTS_MAX: usize = 16;

/// A reply to TIME.
#[derive(Debug, PartialEq, Eq)]
enum Reply {
    /// The time in microseconds since 1970.
    Time(i64),
    /// Anything else, in short.
    Other(String),
}

/// Asks the primary for its time; `None` where that does not say it, or the own clock follows none.
///
/// # Errors
/// When the connection has ended, or the reply is not RESP or longer than one to TIME can be.
pub(super) fn ask_time(wire: &mut Wire, clock: &Clock) -> io::Result<Option<Sample>> {
    if clock.is_steered() {
        return Ok(None);
    }
    let sent_us = clock.now().mono_us();
    wire.send(&[b"TIME"])?;
    let reply = read_reply(wire)?;
    let received_us = clock.now().mono_us();
    match reply {
        Reply::Time(time_us) => Ok(Some(Sample { sent_us, time_us, received_us })),
        Reply::Other(text) => {
            info!("(Non critical) Master does not say what its time is: {text}");
            Ok(None)
        }
    }
}

/// Asks the primary for its time once more, on a thread and by a connection of its own, if the link is up and it has said
/// it before.
pub(super) fn ask_apart(namespace: &Arc<Namespace>, wanted: Wanted) {
    let (Wanted { term, primary, .. }, link) = (wanted, namespace.role.link());
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
fn ask_once(namespace: &Namespace, term: u64, primary: &Address) -> io::Result<()> {
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

/// Reads a reply to its end: no more than it may be long, whatever it says of its length.
fn read_reply(source: &mut impl Read) -> io::Result<Reply> {
    let head = read_line(source)?;
    let other = || Reply::Other(head.chars().take(100).collect());
    let Some(count) = head.strip_prefix('*') else {
        read_part(source, &head)?;
        return Ok(other());
    };
    let count: i64 = count.parse().map_err(|_| unreadable())?;
    let count = usize::try_from(count).unwrap_or(0); // there may be none
    if count > PARTS_MAX {
        return Err(unreadable());
    }
    let mut parts = Vec::new();
    for _ in 0..count {
        let head = read_line(source)?;
        parts.push(read_part(source, &head)?);
    }
    let time_us = match &parts[..] {
        [Some(seconds), Some(us)] => time_us(seconds, us),
        _ => None,
    };
    Ok(time_us.map_or_else(other, Reply::Time))
}

/// Reads what follows the first line of a reply that is no array; returns it if it is a bulk string or a number.
fn read_part(source: &mut impl Read, head: &str) -> io::Result<Option<Vec<u8>>> {
    let (kind, text) = head.split_at_checked(1).ok_or_else(unreadable)?;
    match kind {
        "+" | "-" => Ok(None),
        ":" => Ok(Some(text.into())),
        "$" => match text.parse::<i64>().map(usize::try_from) {
            Ok(Err(_)) => Ok(None), // there is none
            Ok(Ok(len)) if len <= PART_MAX => {
                let mut part = vec![0; len + 2];
                source.read_exact(&mut part)?;
                part.truncate(len);
                Ok(Some(part))
            }
            _ => Err(unreadable()),
        },
        _ => Err(unreadable()),
    }
}

/// Reads a line, without its end.
fn read_line(source: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        source.read_exact(&mut byte)?;
        match byte {
            [b'\n'] => return Ok(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned()),
            _ if line.len() == LINE_MAX => return Err(unreadable()),
            [byte] => line.push(byte),
        }
    }
}

/// Returns the time that seconds and microseconds say, unless no deadline is at such a time.
fn time_us(seconds: &[u8], us: &[u8]) -> Option<i64> {
    let number = |text: &[u8]| -> Option<i64> {
        let is_plain = (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
    };
    let (seconds, us) = (number(seconds)?, number(us)?);
    (seconds < END_MS / 1000 && us < 1_000_000).then(|| seconds * 1_000_000 + us)
}

fn unreadable() -> Error {
    Error::new(ErrorKind::InvalidData, "the reply to TIME cannot be read")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::command::handlers;
    use crate::config::Config;

    /// Reads a reply; returns also what follows it.
    fn read(mut text: &[u8]) -> (Option<Reply>, &[u8]) {
        let reply = read_reply(&mut text).ok();
        (reply, text)
    }

    #[test]
    fn a_time_is_an_array_of_two_numbers_that_a_deadline_may_have() {
        for (text, expected) in [
            (&b"*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"[..], 1_700_000_000_123_456),
            (b"*2\r\n$1\r\n0\r\n$1\r\n0\r\n", 0),
            (b"*2\r\n:5\r\n:7\r\n", 5_000_007),
            (b"*2\r\n$13\r\n4611686018426\r\n$6\r\n999999\r\n", 4_611_686_018_426_999_999),
        ] {
            assert_eq!(read(text), (Some(Reply::Time(expected)), &b""[..]), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_time_is_read_to_its_end() {
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
            "*2\r\n:99999999999999999999999\r\n:0",
        ] {
            let whole = format!("{text}\r\n+next\r\n");
            let (reply, rest) = read(whole.as_bytes());
            assert!(matches!(reply, Some(Reply::Other(_))) && rest == b"+next\r\n", "{text}: {reply:?}");
        }
    }

    #[test]
    fn what_has_no_end_or_claims_to_be_long_is_refused() {
        let long = format!("+{}\r\n", "x".repeat(2000));
        for text in [
            "",
            "\r\n",
            "*2\r\n:5\r\n",
            "*2\r\n$10\r\n17",
            "*17\r\n",
            "*9223372036854775807\r\n",
            "*99999999999999999999\r\n",
            "*x\r\n",
            "*2\r\n*2\r\n:1\r\n:2\r\n:3\r\n",
            "$9223372036854775807\r\n",
            "$99999999999999999999\r\n",
            "$1025\r\n",
            "%1\r\n",
            "\u{e9}\r\n",
            &long,
        ] {
            assert_eq!(read(text.as_bytes()).0, None, "{text}");
        }
    }

    /// Lets a replica ask a server that answers with some bytes; returns what that was sent.
    fn ask(namespace: &Namespace, term: u64, answer: &[u8]) -> (io::Result<()>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let primary = Address { host: "127.0.0.1".into(), port: listener.local_addr().expect("an address").port() };
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                let (mut link, mut asked) = (listener.accept().expect("a connection").0, String::new());
                link.write_all(answer).expect("it is connected");
                link.read_to_string(&mut asked).expect("it hangs up");
                asked
            });
            let result = ask_once(namespace, term, &primary);
            (result, served.join().expect("it was served"))
        })
    }

    #[test]
    fn the_primary_is_asked_again_by_a_connection_of_its_own_and_believed_in_its_term() {
        let mut config = Config::default();
        config.replicaof = Some(Address { host: "primary".into(), port: 1 });
        let namespace = Namespace::for_test(&handlers().commands, config, Clock::system());
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
        // Ahead at first, then set back, and then set forward.
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
