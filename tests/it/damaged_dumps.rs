//! Damaged dumps with a valid checksum: RESTORE rejects them, or creates a value that every command can work with.

use keylatch::internals::rdb;
use keylatch::internals::resp::Frame;

use crate::harness::{Client, Dice, TestServer, encode};
use crate::probabilistic::rows as probabilistic;

/// Number of damaged dumps of all values together, unless set by `KEYLATCH_DUMPS`.
const DUMPS: u64 = 1_500;

/// Commands that create values of every type and encoding.
const VALUES: &[&str] = &[
    "RPUSH list a 7 -300 70000 5000000000 hello-hello-hello-hello-hello-hello-hello-hello-hello-hello-hello-hello",
    "RPUSH list:large 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 a b c d e f",
    "SADD ints 1 2 300 -70000 5000000000",
    "SADD set a b 7 -1 hello",
    "SADD set:large a b c d e f g h i j k l m n o p 1 2 3",
    "HSET hash f v 7 1 g -300",
    "HSET hash:large a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10",
    "HSET fields f v g w h x",
    "HPEXPIRE fields 1000000 FIELDS 2 f g",
    "HSET fields:large a 1 b 2 c 3 d 4 e 5 f 6 g 7 h 8 i 9 j 10",
    "HPEXPIRE fields:large 1000000 FIELDS 2 a b",
    "ZADD sorted 1 f 2.5 g inf h -7 i 70000 j",
    "ZADD sorted:large 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h 9 i 10 j",
    #[cfg(feature = "vectors")]
    "VADD vectors VALUES 3 1 2 3 a",
    #[cfg(feature = "vectors")]
    "VADD vectors VALUES 3 -1 2 5 b SETATTR {}",
    #[cfg(feature = "vectors")]
    "VADD vectors:reduced REDUCE 2 VALUES 3 -1 2 5 b NOQUANT",
    "XADD stream 1-1 f v g w",
    "XADD stream 1-2 f v g w",
    "XADD stream 2-1 h x",
    "XADD stream 7-1 f 1 g 70000",
    "XDEL stream 2-1",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group one COUNT 2 STREAMS stream >",
    "XREADGROUP GROUP group two COUNT 1 STREAMS stream >",
];

/// Settings under which small values have large encodings.
const SETTINGS: &[(&str, &str)] = &[
    ("list-max-listpack-size", "8"),
    ("set-max-listpack-entries", "8"),
    ("hash-max-listpack-entries", "8"),
    ("zset-max-listpack-entries", "8"),
    ("stream-node-max-entries", "2"),
    ("enable-debug-command", "yes"),
];

/// Bodies in the formats of earlier versions, which are read but never written.
const OLD_BODIES: &[&[u8]] = &[
    // A list, a set, sorted sets with scores as text and as numbers, and a hash, element by element.
    b"\x01\x02\x01a\xc0\x07",
    b"\x02\x02\x01a\xc0\x07",
    b"\x03\x02\x01a\x031.5\x01b\xfe",
    b"\x05\x02\x01a\x00\x00\x00\x00\x00\x00\xf8?\x01b\x00\x00\x00\x00\x00\x00\xf0\xbf",
    b"\x04\x02\x01f\x01v\x01g\xc0\x07",
    // A zipmap, and ziplists: a list, a sorted set, a hash, and a list of them.
    b"\x09\x0c\x02\x01f\x01\x00v\x01g\x01\x00w\xff",
    b"\x0a\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf8\xff",
    b"\x0c\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf8\xff",
    b"\x0d\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf8\xff",
    b"\x0e\x01\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01a\x03\xf8\xff",
];

/// Commands applied to every restored value; most of them are of another type and fail.
const COMMANDS: &[&str] = &[
    "TYPE k",
    "OBJECT ENCODING k",
    "MEMORY USAGE k",
    "DEBUG DIGEST-VALUE k",
    "COPY k copy REPLACE",
    "LRANGE k 0 -1",
    "LINDEX k -2",
    "LINSERT k BEFORE a new",
    "LSET k 1 changed",
    "LPOS k 7 RANK -1",
    "LREM k 0 changed",
    "RPUSH k 1 x",
    "LPUSH k y",
    "LPOP k",
    "RPOP k 2",
    "LTRIM k 1 -2",
    "SMEMBERS k",
    "SISMEMBER k 300",
    "SADD k new 12345 a",
    "SRANDMEMBER k -5",
    "SREM k a 7 new",
    "SUNIONSTORE other k copy",
    "SPOP k",
    "HGETALL k",
    "HSET k f changed new v",
    "HINCRBY k 7 5",
    "HTTL k FIELDS 3 f g new",
    "HPEXPIRE k 5000 FIELDS 2 g h",
    "HPERSIST k FIELDS 1 g",
    "HRANDFIELD k -5 WITHVALUES",
    "HDEL k f g",
    "ZRANGE k 0 -1 WITHSCORES",
    "ZADD k 5 new 6 f",
    "ZINCRBY k 1.5 g",
    "ZRANGEBYSCORE k (1 +inf",
    "ZRANK k new",
    "ZUNIONSTORE other 2 k copy",
    "ZPOPMIN k",
    "ZREMRANGEBYRANK k 0 0",
    "XRANGE k - +",
    "XREVRANGE k + - COUNT 2",
    "XADD k * f v",
    "XINFO STREAM k FULL",
    "XPENDING k group - + 10",
    "XREADGROUP GROUP group three COUNT 2 STREAMS k >",
    "XREADGROUP GROUP group one STREAMS k 0",
    "XAUTOCLAIM k group two 0 0",
    "XACK k group 1-1",
    "XDEL k 1-2",
    "XTRIM k MAXLEN 2",
    "XGROUP DELCONSUMER k group one",
    "VINFO k",
    "VEMB k a",
    "VSIM k ELE a WITHSCORES FILTER 1",
    "VSIM k VALUES 3 1 2 3",
    "VLINKS k b WITHSCORES",
    "VADD k VALUES 3 1 1 1 new",
    "VADD k REDUCE 2 VALUES 3 1 1 1 new NOQUANT",
    "VSETATTR k a changed",
    "VRANDMEMBER k -3",
    "VRANGE k - +",
    "VREM k b",
    "SORT k ALPHA",
    "GETRANGE k 0 -1",
    "APPEND k x",
    "DEBUG DIGEST",
];

#[test]
fn a_damaged_dump_is_refused_or_is_a_value_like_any_other() {
    let server = TestServer::start_with(SETTINGS);
    let mut client = server.client();
    let values = || VALUES.iter().chain(probabilistic::VALUES);
    values().for_each(|command| assert!(!client.call(command).starts_with('-'), "{command}"));
    let names: Vec<&str> = values().filter_map(|command| command.split(' ').nth(1)).collect();
    let keys = names.iter().filter(|name| !["CREATE", "GROUP"].contains(name));
    let mut bodies: Vec<Vec<u8>> = keys.map(|key| body(&mut client, key)).collect();
    bodies.extend(OLD_BODIES.iter().map(|body| body.to_vec()));
    client.call("FLUSHALL");
    for body in &bodies {
        assert_eq!(restore(&mut client, body), "+OK", "{}", body.escape_ascii());
        work_with(&mut client, body);
    }
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let mut dice = Dice::new(number("KEYLATCH_SEED", 11));
    let mut accepted = 0;
    let count = number("KEYLATCH_DUMPS", DUMPS);
    for at in 0..count {
        let mut damaged = bodies[at as usize % bodies.len()].clone();
        (0..=dice.roll(3)).for_each(|_| damage(&mut dice, &mut damaged));
        if restore(&mut client, &damaged) == "+OK" {
            accepted += 1;
            work_with(&mut client, &damaged);
        }
        assert_eq!(client.call("FLUSHALL"), "+OK", "{}", damaged.escape_ascii());
    }
    assert_eq!(client.info("caught_panics"), "0");
    assert!(accepted > count / 50 && accepted < count, "{accepted} of {count} are accepted");
}

/// Returns the dump of a key without its version and checksum.
fn body(client: &mut Client, key: &str) -> Vec<u8> {
    let Frame::Bulk(dump) = client.frame(&["DUMP", key]) else { panic!("{key} has no dump") };
    dump[..dump.len() - 10].to_vec()
}

fn restore(client: &mut Client, body: &[u8]) -> String {
    let sealed = rdb::seal(body.to_vec(), rdb::VERSION_7_4);
    client.call_args(&[&b"RESTORE"[..], b"k", b"0", &sealed, b"REPLACE"])
}

/// Executes every command on the value, in one pipeline; a broken connection fails the test.
fn work_with(client: &mut Client, body: &[u8]) {
    let commands = || COMMANDS.iter().chain(probabilistic::COMMANDS);
    let requests: Vec<Vec<u8>> = commands().map(|command| encode(&command.split(' ').collect::<Vec<_>>())).collect();
    client.send(&requests.concat());
    for command in commands() {
        assert!(client.read_frame().is_some(), "{command} after {}", body.escape_ascii());
    }
    // The rest can be dumped and restored, and has the same content then.
    let before = client.call("DEBUG DIGEST-VALUE k");
    if let Frame::Bulk(dump) = client.frame(&["DUMP", "k"]) {
        let restored = client.call_args(&[&b"RESTORE"[..], b"k", b"0", &dump, b"REPLACE"]);
        assert_eq!(restored, "+OK", "{}", body.escape_ascii());
    }
    assert_eq!(client.call("DEBUG DIGEST-VALUE k"), before, "{}", body.escape_ascii());
}

/// Changes, removes, inserts or duplicates a few bytes after the type.
fn damage(dice: &mut Dice, body: &mut Vec<u8>) {
    let at = 1 + dice.roll(body.len() as u64 - 1) as usize;
    let end = (at + 1 + dice.roll(8) as usize).min(body.len());
    match dice.roll(9) {
        0 => body[at] ^= 1 << dice.roll(8),
        1 => body[at] = dice.roll(256) as u8,
        2 => body[at] = [0, 0x7f, 0x80, 0xff, 0xc0, 0xfe][dice.roll(6) as usize],
        3 => body[at] = body[at].wrapping_add(1),
        4 => body[at] = body[at].wrapping_sub(1),
        5 => drop(body.drain(at..end)),
        6 => body.insert(at, dice.roll(256) as u8),
        7 => {
            let doubled = body[at..end].to_vec();
            body.splice(at..at, doubled);
        }
        // NaN as a score, or an excessive length.
        _ => {
            let word: &[u8] = [&[0xff; 8][..], b"\x81nan", &[0, 0, 0, 0, 0, 0, 0xf8, 0x7f]][dice.roll(3) as usize];
            let end = (at + word.len()).min(body.len());
            body.splice(at..end, word.iter().copied());
        }
    }
    if body.len() < 2 {
        body.push(0);
    }
}
