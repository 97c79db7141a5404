//! Dumps exchanged between both servers: DUMP returns the same bytes, RESTORE has the same result.

use super::oracle::{Arena, Pair};
use super::script::{Differences, tell};
use crate::harness::{Dice, encode};

#[test]
fn dumps_are_made_and_restored_as_by_redis() {
    tell("dumps", DUMPS);
}

#[test]
fn sorting_without_anything_to_sort_is_as_in_redis() {
    tell("sorts", SORTS);
}

#[test]
fn sort_reads_other_keys_for_the_users_for_whom_redis_does() {
    let rules = ["~own:*", "%R~own:* %W~*", "~own:* (%R~* +get)", "allkeys", "%R~* %W~own:*"];
    let stories = rules.map(|rules| SORTS_OF_A_USER.replace("RULES", rules));
    tell("sorts-of-users", &stories.join("\n"));
}

const SORTS_OF_A_USER: &str = r#"
    ACL DELUSER eve
    ACL SETUSER eve on nopass +@all RULES
    RPUSH own:list 1 2
    MSET secret:1 a secret:2 b own:1 c own:2 d
    AUTH eve x
    SORT own:list
    SORT own:list BY secret:* ALPHA
    SORT own:list GET secret:*
    SORT_RO own:list BY secret:* ALPHA
    SORT_RO own:list GET secret:*
    MULTI
    SORT own:list GET secret:*
    SORT_RO own:list GET secret:*
    EXEC
    AUTH default x
    ACL DELUSER eve
"#;

const DUMPS: &str = r#"
    SET s bar
    DUMP s
    DUMP missing
    DUMP
    DUMP s s
    SET i 12
    DUMP i
    SET i -200
    DUMP i
    SET i 70000
    DUMP i
    SET i 5000000000
    DUMP i
    SET i 007
    DUMP i
    APPEND s 123
    DUMP s
    SETRANGE n 0 12
    DUMP n
    SET z aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    DUMP z
    CONFIG SET rdbcompression no
    DUMP z
    CONFIG SET rdbcompression yes
    DUMP z

    RESTORE k 0 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17"
    GET k
    RESTORE k 5000000000 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" REPLACE
    PEXPIRETIME k
    RESTORE k 4102444800000 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" REPLACE ABSTTL IDLETIME 7
    PEXPIRETIME k
    OBJECT IDLETIME k
    WATCH k
    b: RESTORE k 1 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" REPLACE ABSTTL
    EXISTS k
    MULTI
    PING
    EXEC
    RESTORE k 0 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5"
    OBJECT ENCODING k
    OBJECT REFCOUNT k
    SET k v
    RESTORE k 0 x
    RESTORE k x x
    RESTORE k 0 x FOO
    RESTORE k 0 x IDLETIME
    RESTORE k 0 x FREQ
    RESTORE k 0 x IDLETIME x
    RESTORE k 0 x IDLETIME -1
    RESTORE k 0 x FREQ -1
    RESTORE k 0 x FREQ 256
    RESTORE k 0 x FREQ x
    RESTORE k 0 x FREQ 1 IDLETIME 1
    RESTORE k 0 x IDLETIME 1 FREQ 1
    RESTORE k 0 x replace absttl idletime 5 idletime 6
    RESTORE k 0 x REPLACE
    RESTORE k -1 x REPLACE
    RESTORE k x x REPLACE
    RESTORE new -1 x
    RESTORE new 9223372036854775808 x
    RESTORE new 0 ""
    RESTORE new 0 0123456789
    RESTORE new 0
    RESTORE new
    EXISTS new
    GET k

    MSET k v other w
    RESTORE new 1 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" ABSTTL
    RESTORE other 1 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" ABSTTL REPLACE
    EXISTS new other
    DBSIZE
    RESTORE k 9223372036854775807 "\x00\x03bar\n\x00\xe6\xbeI`\xeef\xfd\x17" REPLACE
    DBSIZE

    RESTORE k 0 "\x00\x01v\x0a\x00wrongsum" REPLACE
    DEBUG SET-SKIP-CHECKSUM-VALIDATION 1
    RESTORE k 0 "\x00\x01v\x0a\x00wrongsum" REPLACE
    GET k
    DEBUG SET-SKIP-CHECKSUM-VALIDATION 0
    RESTORE k 0 "\x00\x01v\x0a\x00wrongsum" REPLACE
"#;

const SORTS: &str = r#"
    SORT missing
    SORT missing ASC DESC ALPHA
    SORT missing LIMIT 0 10 BY w_* GET # GET o_*->f
    SORT missing LIMIT 0
    SORT missing LIMIT x 0
    SORT missing LIMIT 0 x
    SORT missing LIMIT 0 9223372036854775808
    SORT missing LIMIT -5 -5
    SORT missing BY
    SORT missing GET
    SORT missing STORE
    SORT missing FOO
    SORT missing BY x ALPHA FOO
    SORT
    SORT_RO
    SORT_RO missing
    SORT_RO missing ALPHA LIMIT 1 2
    SORT_RO missing STORE t
    SET s v
    SORT s
    SORT s FOO
    SORT s STORE t
    SORT_RO s
    MSET t 1 u 2
    SORT missing STORE t
    EXISTS t
    SORT missing STORE t
    SORT missing STORE t STORE u
    EXISTS u
    SET w 1
    WATCH w
    b: SORT missing STORE w
    MULTI
    SORT missing
    EXEC

    ACL DELUSER sorter
    ACL SETUSER sorter on nopass ~a* +sort +sort_ro
    AUTH sorter x
    SORT a BY constant
    SORT a BY w_*
    SORT_RO a BY w_*
    SORT a BY w_* FOO
    SORT a FOO BY w_*
    SORT a GET #
    SORT a GET w_*
    SORT a GET
    SORT a LIMIT x 0 GET #
    SORT a BY w_* GET #
    SORT b BY constant
    SORT a STORE b
    AUTH default x
    ACL SETUSER sorter %R~*
    AUTH sorter x
    SORT a BY w_* GET #
    SORT_RO b GET w_*
    SORT a STORE b BY w_*
    AUTH default x
    ACL SETUSER sorter reset on nopass %W~* ~a* +sort (~* +sort_ro)
    AUTH sorter x
    SORT a BY w_*
    SORT_RO a BY w_* GET #
    AUTH default x
    ACL DELUSER sorter
"#;

/// Returns values that compress well, badly and not at all, of every relevant length.
fn value(dice: &mut Dice) -> Vec<u8> {
    let len = match dice.roll(4) {
        0 => dice.roll(30),
        1 => dice.roll(300),
        2 => dice.roll(5_000),
        _ => 20 + dice.roll(60),
    };
    let letters = [1, 2, 4, 26, 256][dice.roll(5) as usize];
    let mut value: Vec<u8> = (0..len).map(|_| b'a'.wrapping_add(dice.roll(letters) as u8)).collect();
    // Repetitions at short and long distances, longer than one reference can express.
    for _ in 0..dice.roll(4) {
        let (from, len) = (dice.roll(value.len() as u64 + 1) as usize, dice.roll(700) as usize);
        let piece = value[from..(from + len).min(value.len())].to_vec();
        value.extend(piece);
    }
    value
}

#[test]
fn every_dump_is_the_same_bytes_and_is_restored_by_the_other() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut pair, mut differing) = (Dice::new(11), arena.pair(), 0);
    const VALUES: usize = 3_000;
    for _ in 0..VALUES {
        let value = value(&mut dice);
        pair.call(&[b"SET", &b"k"[..], &value]);
        let dumps = pair.call(&["DUMP", "k"]);
        let (ours, theirs) = (bulk(dumps.keylatch), bulk(dumps.redis));
        // Redis leaves the table of its compressor uninitialised, so that it occasionally finds more repetitions by
        // chance.
        differing += usize::from(ours != theirs);
        assert!(ours == theirs || theirs.len() <= ours.len(), "of {}", value.escape_ascii());
        pair.keylatch.send(&encode(&[b"RESTORE", &b"k"[..], b"0", &theirs, b"REPLACE"]));
        pair.redis.send(&encode(&[b"RESTORE", &b"k"[..], b"0", &ours, b"REPLACE"]));
        let restored = pair.replies();
        assert_eq!(restored.keylatch.as_deref(), Some(&b"+OK\r\n"[..]));
        assert_eq!(restored.redis.as_deref(), Some(&b"+OK\r\n"[..]));
        let read = pair.call(&["GET", "k"]);
        assert_eq!((bulk(read.keylatch), bulk(read.redis)), (value.clone(), value));
    }
    assert!(differing <= VALUES / 100, "{differing} of {VALUES} dumps differ");
}

#[test]
fn damaged_dumps_get_the_same_verdict() {
    let Some(arena) = Arena::open() else { return };
    let (mut dice, mut pair, mut found) = (Dice::new(12), arena.pair(), Differences::default());
    for _ in 0..3_000 {
        let value = value(&mut dice);
        pair.call(&[b"SET", &b"k"[..], &value]);
        let dumped = bulk(pair.call(&["DUMP", "k"]).keylatch);
        let mut body = dumped[..dumped.len() - 10].to_vec();
        for _ in 0..=dice.roll(3) {
            // Mostly among the first bytes, which contain the lengths. Byte 0 is the type, and only one occurs here.
            let reach = if dice.roll(3) == 0 { 5_000 } else { 8 };
            let at = 1 + dice.roll(reach.min(body.len() as u64 - 1)) as usize;
            body[at] = dice.roll(256) as u8;
        }
        if dice.roll(4) == 0 {
            body.truncate(1 + dice.roll(body.len() as u64) as usize);
        }
        judge(&mut pair, &body, 10 - dice.roll(2) as u16, &mut found);
    }
    let bodies: [&[u8]; 14] = [
        b"\0",
        b"\0\x0a",
        b"\0\x0b",
        b"\0\xc0",
        b"\0\xc3\0\0",
        b"\0\xc3\x01\0\0",
        b"\0\xc3\x01\0\xff",
        b"\0\xc3\xc5\x05\x04hello",
        b"\0\xc4a",
        b"\0\xff",
        b"\0\x40\x01a",
        b"\0\x80\0\0\0\x01a",
        b"\0\x81\0\0\0\0\0\0\0\x01a",
        b"\0\x81\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for body in bodies {
        for version in [0, 6, 9, 10, 16, 80] {
            judge(&mut pair, body, version, &mut found);
        }
    }
    for kind in [8, 100, 255] {
        judge(&mut pair, &[kind, 0], 10, &mut found);
    }
    found.report();
}

/// Restores a dump with this content in both servers, and compares the results.
fn judge(pair: &mut Pair, body: &[u8], version: u16, found: &mut Differences) {
    let mut payload = [body, &version.to_le_bytes()].concat();
    payload.extend_from_slice(&checksum(&payload).to_le_bytes());
    let restored = pair.call(&[b"RESTORE", &b"k"[..], b"0", &payload, b"REPLACE"]);
    let told = payload.escape_ascii().to_string();
    if !restored.agree() {
        found.add(&told, &restored);
    }
    for question in [&["GET", "k"][..], &["OBJECT", "ENCODING", "k"]] {
        let replies = pair.call(question);
        if !replies.agree() {
            found.add(&told, &replies);
        }
    }
}

/// Returns the string of a reply.
fn bulk(reply: Option<Vec<u8>>) -> Vec<u8> {
    let reply = reply.expect("a reply");
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a length") + 1;
    reply[start..reply.len() - 2].to_vec()
}

/// Computes the CRC-64 of a dump bit by bit, from the polynomial alone.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ REFLECTED } else { sum >> 1 })
    })
}
