//! Units that the clients of these tests send: commands on few keys, alone or several at once.

use crate::differential::random::Random;
use crate::log::commands::{field_command, stream_command};

/// Commands that take effect together or not at all.
pub(super) struct Unit {
    pub(super) commands: Vec<Vec<Vec<u8>>>,
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn one_of<'a>(random: &mut Random, choices: &[&'a str]) -> &'a str {
    choices[random.below(choices.len())]
}

/// Generates a command that changes one or two keys.
fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let (number, ms) = (random.below(30), 1 + random.below(5000));
    let key = one_of(random, &["a", "b", "c", "d", "e"]);
    let other = one_of(random, &["a", "b", "l", "s"]);
    let field = one_of(random, &["f", "g", "7", "field"]);
    let long = "x".repeat([0, 0, 10, 300, 5000][random.below(5)] * random.below(3));
    words(&match random.below(36) {
        0..=2 => format!("SET {key} {number}{long}"),
        3 => format!("SET {key} {number} PX {ms}"),
        4 => format!("APPEND {key} {number}{long}"),
        5 => format!("INCR {key}"),
        6 => format!("INCRBYFLOAT {key} 0.5"),
        7 => format!("PEXPIRE {other} {ms}"),
        8 => format!("PERSIST {key}"),
        9 => format!("GETEX {key} PX {ms}"),
        10 => format!("DEL {other}"),
        11 => format!("RENAME {key} {other}"),
        12 => format!("COPY {key} {other} REPLACE"),
        13 => format!("MSET a {number} b {number} c {number}"),
        14 => format!("SETIFGREATER {key} {number} {number}"),
        15 => format!("SETBIT {key} {number} 1"),
        16 => format!("RPUSH l {number} {field}{long}"),
        17 => format!("LPUSH l {number}"),
        18 => "LPOP l".into(),
        19 => format!("LTRIM l 0 {number}"),
        20 => "LMOVE l l LEFT RIGHT".into(),
        21 => format!("HSET h {field} {number}"),
        22 => format!("HINCRBY h {field} {number}"),
        23..=24 => return field_command(random, b"h"),
        25 => format!("SADD s {number} {field}"),
        26 => "SPOP s".into(),
        27 => format!("SMOVE s t {number}"),
        28 => format!("ZADD z {number} {field} {ms} {number}"),
        29 => format!("ZINCRBY z 1.5 {field}"),
        30 => "ZPOPMIN z".into(),
        31 => format!("PFADD p {number} {ms}"),
        _ => {
            let command = stream_command(random, b"x");
            // A blocking command would delay the next commands of its client.
            return if command.iter().any(|word| word == b"BLOCK") { words("XADD x * f v") } else { command };
        }
    })
}

/// Generates a unit.
pub(super) fn unit(random: &mut Random) -> Unit {
    let (lock, ms) = (one_of(random, &["lock:a", "lock:b"]), 1 + random.below(5000));
    let token = one_of(random, &["one", "two"]);
    let several =
        |first: &str, middle: Vec<Vec<Vec<u8>>>, last: &str| [vec![words(first)], middle, vec![words(last)]].concat();
    let commands = match random.below(28) {
        24 => vec![words(&format!("LOCK.ACQUIRE {lock} {token} SHARED PX {ms}"))],
        25 => vec![words(&format!("LOCK.ACQUIRE {lock} {token} PERMITS 1 OF 2 PX {ms} META text"))],
        26 => vec![words(&format!("LOCK.ACQUIREMULTI 2 lock:a lock:b {token} PX {ms}"))],
        27 => vec![words(&format!("LOCK.RESIZE {lock} {}", 1 + random.below(4)))],
        0 => vec![words(&format!("LOCK.ACQUIRE {lock} {token} PX {ms}"))],
        1 => vec![words(&format!("LOCK.RELEASE {lock} {token}"))],
        2 => vec![words(&format!("LOCK.RENEW {lock} {token} PX {ms}"))],
        3..=5 => several("MULTI", (0..2 + random.below(4)).map(|_| command(random)).collect(), "EXEC"),
        6 => several("MULTI", vec![words("SELECT 1"), command(random), words("SELECT 0"), command(random)], "EXEC"),
        7 => several("SELECT 1", vec![command(random)], "SELECT 0"),
        8..=9 if cfg!(feature = "lua") => {
            let script = "redis.pcall('SET', 'a', ARGV[1]) redis.pcall('RPUSH', 'l', ARGV[1]) \
                redis.pcall('HSET', 'h', 'f', ARGV[1]) redis.pcall('INCR', 'b') return redis.call('INCR', 'n')";
            let (number, keys) = (random.below(100).to_string(), [&b"5"[..], b"a", b"l", b"h", b"b", b"n"]);
            let start = [&b"EVAL"[..], script.as_bytes()].into_iter().chain(keys).chain([number.as_bytes()]);
            vec![start.map(<[u8]>::to_vec).collect()]
        }
        10 if cfg!(feature = "lua") => {
            let (name, number) = (one_of(random, &["m", "n"]), random.below(9));
            let code = format!("#!lua name={name}\nredis.register_function('{name}', function() return {number} end)");
            vec![[&b"FUNCTION"[..], b"LOAD", b"REPLACE", code.as_bytes()].map(<[u8]>::to_vec).to_vec()]
        }
        11 => vec![words(match random.below(8) {
            0 => "FLUSHALL",
            1 => "FLUSHDB ASYNC",
            2..=3 => "SWAPDB 0 1",
            4 if cfg!(feature = "lua") => "FUNCTION DELETE m",
            5 => "MOVE a 1",
            _ => "SORT s ALPHA STORE l",
        })],
        _ => vec![command(random)],
    };
    Unit { commands }
}
