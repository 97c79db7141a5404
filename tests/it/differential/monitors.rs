//! Stories beside a monitor: the lines that it is shown of each command, without times and addresses.

use super::oracle::{Heard, Peer};
use super::record;
use super::script::words;
use crate::harness::show;

/// Word of a call after which the lines of a command are complete.
const MARK: &str = "the-line-is-over";

/// Compares what a monitor is shown of each line with Redis and with the record of that name.
#[track_caller]
fn tell_beside_monitor(name: &str, stories: &str) {
    record::compare(name, &[2], stories, |arena, _, story, ledger| {
        let (mut monitor, mut client, mut talker) = (arena.link(), arena.link(), arena.link());
        monitor.call(&["MONITOR"]);
        for line in record::lines(story) {
            ledger.tell(line);
            client.call(&words(line));
            talker.call(&["ECHO", MARK]);
            let keylatch = Some(up_to_mark(&mut monitor.keylatch));
            ledger.hear(Heard { keylatch, redis: monitor.redis.as_mut().map(|peer| Some(up_to_mark(peer))) }, false);
        }
    });
}

fn up_to_mark(peer: &mut Peer) -> Vec<u8> {
    let lines = std::iter::from_fn(|| {
        let line = show(&peer.reply().expect("the monitor is not closed"));
        (!line.contains(MARK)).then(|| masked(&line))
    });
    lines.collect::<String>().into_bytes()
}

fn masked(line: &str) -> String {
    let (time, rest) = line.split_once(" [").expect("a caller");
    let micros = time.strip_prefix('+').and_then(|time| time.split_once('.')).map(|(_, micros)| micros.len());
    assert_eq!(micros, Some(6), "{line}");
    let (caller, words) = rest.split_once(']').expect("a caller");
    let (db, from) = caller.split_once(' ').expect("a database");
    format!("[{db}{}]{words}\r\n", if from == "lua" { " lua" } else { "" })
}

#[test]
fn a_monitor_is_shown_what_redis_shows() {
    tell_beside_monitor("shown", SHOWN);
}

#[cfg(feature = "lua")]
#[test]
fn a_monitor_is_shown_scripts_and_their_calls_as_by_redis() {
    tell_beside_monitor("scripts", SCRIPTS);
}

const SHOWN: &str = r#"
    SET k "a \"quoted\" \\ \r\n\t\x00\xff word"
    SET K ""
    ECHO "a \"b\" \\ \r\n\t\x07\x08\x01 \xc3\xa9"
    GET k
    GET
    NOSUCH
    SELECT 2
    SELECT 99
    INCR k
    SET k v
    INCR k
    MULTI
    SET k v
    MONITOR
    EXEC
    MULTI
    SET k v
    INCR k
    EXEC
    MULTI
    SET
    EXEC
    MULTI
    NOSUCH
    EXEC
    CONFIG GET port
    SLOWLOG LEN
    DEBUG SLEEP 0
    AUTH secret
    AUTH name secret
    HELLO 2 AUTH name secret
    CONFIG SET requirepass secret
    AUTH secret
    CONFIG SET requirepass ""
    CLIENT LIST
    CLIENT ID
    CLIENT SETNAME me
    LASTSAVE
    ROLE
    INFO nosuch
    LOLWUT VERSION 9
    PING end
"#;

#[cfg(feature = "lua")]
const SCRIPTS: &str = r#"
    EVAL "redis.call('set', KEYS[1], ARGV[1]) return redis.call('get', KEYS[1])" 1 k v
    EVALSHA 0000000000000000000000000000000000000000 0
    PING
"#;
