//! Raw bytes: protocol errors, replies before the connection closes, and inline requests.

use crate::harness::encode;

use super::oracle::Arena;
use super::script::Differences;

/// Size of one read in Redis; a longer line without an end is rejected.
const INLINE_MAX: usize = 64 * 1024;

/// Sends each input on a connection of its own, closes the sending side and compares all received bytes.
#[track_caller]
fn compare(inputs: impl IntoIterator<Item = Vec<u8>>) {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    for input in inputs {
        arena.flush();
        let mut pair = arena.pair();
        pair.send(&input);
        let replies =
            super::oracle::Replies { keylatch: Some(pair.keylatch.finish()), redis: Some(pair.redis.finish()) };
        if !replies.agree() {
            found.add(&input[..input.len().min(200)].escape_ascii().to_string(), &replies);
        }
    }
    found.report();
}

#[test]
fn malformed_requests_are_refused_with_the_texts_of_redis() {
    // A request follows each; it must get a reply only if the connection stays open.
    let inputs = MALFORMED.iter().map(|input| [input, &b"PING\r\n"[..]].concat());
    compare(inputs);
}

#[test]
fn requests_before_a_malformed_one_are_answered_first() {
    let inputs = MALFORMED.iter().map(|input| [&b"*1\r\n$4\r\nPING\r\nSET k v\r\n"[..], input].concat());
    compare(inputs);
}

#[test]
fn inline_requests_are_split_as_redis_splits_them() {
    compare(INLINE.iter().map(|line| [line, &b"\r\nPING\r\n"[..]].concat()));
}

#[test]
fn requests_cut_off_by_the_client_are_not_carried_out() {
    let whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    compare((1..whole.len()).map(|len| [&b"GET k\r\n"[..], &whole[..len]].concat()));
}

#[test]
fn large_arguments_are_received_as_in_redis_whatever_follows_them() {
    // Around the lengths from which on an argument has a buffer of its own, and from which on that needs more memory
    // with the line end. Replies are short: Redis drops unwritten replies when the client closes its side.
    let requests = |len: usize, end: &[u8]| {
        let value = "v".repeat(len);
        let mut set = encode(&["MSET", "a", &value, &value, "short", "b", &value]);
        set.truncate(set.len() - 2);
        let calls = [
            encode(&["APPEND", "a", &value]),
            encode(&["SETRANGE", "b", "1", &value]),
            encode(&["MULTI"]),
            encode(&["GETSET", "c", &value]),
            encode(&["SETNX", "c", &value]),
            encode(&["SET", "c", &value, "EX", "0"]),
            encode(&["APPEND", "c", "w"]),
            encode(&["EXEC"]),
            encode(&["GET", &value]),
            encode(&["GETRANGE", "a", "-3", "-1"]),
            encode(&["GETRANGE", "c", "-3", "-1"]),
            encode(&[&value[..], "is", "no", "command"]),
            encode(&["STRLEN", "b"]),
        ];
        [&set[..], end, &calls.concat()].concat()
    };
    let lens = [16_381, 16_383, 16_384, 16_385, 20_478, 20_479, 20_480, 32_767, 32_768, 100_000, 1_048_575, 1_048_577];
    compare(lens.iter().map(|len| requests(*len, b"\r\n")));
    compare(lens.iter().map(|len| requests(*len, b"xy"))); // the bytes after an argument are not checked
    compare(lens.iter().map(|len| [&requests(*len, b"\r\n")[..], b"*1\r\n#\r\n"].concat()));
    compare(lens.iter().map(|len| requests(*len, b"\r\n")[..len + 40].to_vec()));
}

#[test]
fn long_lines_and_counts_are_refused_at_the_limits_of_redis() {
    let digits = |kind: u8, len: usize| [vec![kind], vec![b'0'; len]].concat();
    compare([
        vec![b'x'; INLINE_MAX + 1000],
        digits(b'*', INLINE_MAX + 1000),
        [&b"*1\r\n"[..], &digits(b'$', INLINE_MAX + 1000)].concat(),
        [b"ECHO ".to_vec(), vec![b'x'; 60_000], b"\r\nPING\r\n".to_vec()].concat(),
        b"*1048577\r\n".to_vec(),
        b"*1048576\r\n".to_vec(),
        b"*2147483647\r\n".to_vec(),
        b"*2147483648\r\n".to_vec(),
        b"*1\r\n$536870912\r\n".to_vec(),
        b"*1\r\n$536870913\r\n".to_vec(),
        b"*1\r\n$9223372036854775808\r\n".to_vec(),
    ]);
}

#[test]
fn clients_may_send_only_small_requests_before_authentication() {
    let Some(arena) = Arena::open() else { return };
    let mut found = Differences::default();
    arena.pair().call(&["CONFIG", "SET", "requirepass", "secret"]);
    let inputs: [&[u8]; 7] = [
        b"*10\r\n",
        b"*11\r\n",
        b"*1\r\n$16384\r\n",
        b"*1\r\n$16385\r\n",
        b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n",
        b"*11\r\n$4\r\nPING\r\n",
        b"GET k\r\nAUTH secret\r\nGET k\r\nQUIT\r\nPING\r\n",
    ];
    for input in inputs {
        let mut pair = arena.pair();
        pair.send(input);
        let replies =
            super::oracle::Replies { keylatch: Some(pair.keylatch.finish()), redis: Some(pair.redis.finish()) };
        if !replies.agree() {
            found.add(&input.escape_ascii().to_string(), &replies);
        }
    }
    found.report();
}

const MALFORMED: &[&[u8]] = &[
    b"*x\r\n",
    b"*\r\n",
    b"*-1\r\n",
    b"*-2\r\n",
    b"*-2147483648\r\n",
    b"*0\r\n",
    b"*00\r\n",
    b"*+1\r\n$4\r\nPING\r\n",
    b"*01\r\n$4\r\nPING\r\n",
    b"* 1\r\n$4\r\nPING\r\n",
    b"*1 \r\n$4\r\nPING\r\n",
    b"*1.0\r\n",
    b"*1\n$4\r\nPING\r\n",
    b"*1\r\n$4\nPING\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n:4\r\n",
    b"*1\r\n\xff\r\n",
    b"*1\r\n\r\n",
    b"*1\r\n\x00\r\n",
    b"*1\r\n$\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$-2\r\n",
    b"*1\r\n$+4\r\nPING\r\n",
    b"*1\r\n$04\r\nPING\r\n",
    b"*1\r\n$4x\r\nPING\r\n",
    b"*1\r\n$0\r\n\r\n",
    b"*1\r\n$4\r\nPINGxx",
    b"*1\r\n$4\r\nPING\n\n",
    b"*1\r\n$3\r\nPING\r\n",
    b"*2\r\n$4\r\nECHO\r\n*1\r\n",
    b"*2\r\n$4\r\nECHO\r\n$1\r\na\r\n$1\r\nb\r\n",
    b"$4\r\nPING\r\n",
    b"+PING\r\n",
    b":1\r\n",
    b"~1\r\n",
    b"\r\n",
    b"\n",
    b"\n\n\r\n\r\n",
    b"PING\n",
    b"PING\r\n*1\r\n$4\r\nPING\r\nPING\n",
    b"*1\r\n$4\r\nQUIT\r\n*1\r\n$4\r\nPING\r\n",
    b"QUIT\r\n*x\r\n",
    b"*9223372036854775807\r\n",
    b"*9223372036854775808\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-1\r\n",
    b"MULTI\r\nSET k v\r\n*x\r\n",
];

const INLINE: &[&[u8]] = &[
    b"PING",
    b"  PING  ",
    b"\tPING\t",
    b"ping hello",
    b"ECHO \"a b\"",
    b"ECHO 'a b'",
    b"ECHO a\"b c\"",
    b"ECHO a'b c'",
    b"ECHO \"a\"b",
    b"ECHO 'a'b",
    b"ECHO \"a",
    b"ECHO 'a",
    b"ECHO a\"b",
    b"ECHO \"\"",
    b"ECHO ''",
    b"ECHO \"\\x41\\x4a\\xfF\\x00\"",
    b"ECHO \"\\x4\"",
    b"ECHO \"\\xzz\"",
    b"ECHO \"\\n\\r\\t\\b\\a\\\\\\\"\\q\"",
    b"ECHO 'a\\'b'",
    b"ECHO 'a\\nb'",
    b"ECHO 'a\\\\'",
    b"ECHO a\\nb",
    b"ECHO \"\\",
    b"ECHO \"\\\"",
    b"ECHO \"it's\"",
    b"ECHO 'say \"hi\"'",
    b"ECHO \x0ba\x0b",
    b"ECHO \x0ca",
    b"ECHO a\rb",
    b"ECHO a\x00b",
    b"ECHO \"a\x00b\"",
    b"\x00PING",
    b"PING\x00",
    b"ECHO \xff\xfe",
    b"ECHO \"a\"\x0bb",
    b"ECHO \"a\"\r",
    b"SET k \"\r",
    b"\"PING\"",
    b"'PING'",
    b"GET \"k\" \"\"",
    b"NOSUCH \"a b\" 'c'",
    b"POST / HTTP/1.1",
    b"Host: example.org",
    b"GET / HTTP/1.1\r\nHost: example.org",
    b"host: x",
    b"POST",
    b"SET k v EX x\r\nSET k v NX\r\nGET k",
];
