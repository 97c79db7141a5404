//! Stories of raw bytes: protocol errors, pipelines, replies before the connection closes, and inline requests.

use crate::harness::encode;

use super::oracle::{Heard, Peer};
use super::record::{self, escaped};
use super::script::words;

/// Size of one read in Redis; a longer line without an end is rejected.
const INLINE_MAX: usize = 64 * 1024;

/// Compares the replies to each input, which is a story of one line.
#[track_caller]
fn compare(name: &str, inputs: impl IntoIterator<Item = Vec<u8>>) {
    let stories: Vec<String> = inputs.into_iter().map(|input| format!("\"{}\"", escaped(&input))).collect();
    exchange(name, &stories.join("\n\n"));
}

/// Sends the bytes of each line of every story on a connection of its own, closes the sending side, and compares all
/// received bytes with Redis and with the record of that name.
#[track_caller]
fn exchange(name: &str, stories: &str) {
    record::compare(name, &[2], stories, |arena, _, story, ledger| {
        for line in record::lines(story) {
            ledger.tell(line);
            let (mut link, bytes) = (arena.link(), words(line).concat());
            link.keylatch.send(&bytes);
            link.redis.iter_mut().for_each(|redis| redis.send(&bytes));
            let finish = |peer: &mut Peer| Some(peer.finish());
            let heard = Heard { keylatch: finish(&mut link.keylatch), redis: link.redis.as_mut().map(finish) };
            ledger.hear(heard, false);
        }
    });
}

#[test]
fn malformed_requests_are_refused_with_the_texts_of_redis() {
    // A request follows each; it must get a reply only if the connection stays open.
    let inputs = MALFORMED.iter().map(|input| [input, &b"PING\r\n"[..]].concat());
    compare("malformed", inputs);
}

#[test]
fn requests_before_a_malformed_one_are_answered_first() {
    let inputs = MALFORMED.iter().map(|input| [&b"*1\r\n$4\r\nPING\r\nSET k v\r\n"[..], input].concat());
    compare("before-malformed", inputs);
}

#[test]
fn inline_requests_are_split_as_redis_splits_them() {
    compare("inline", INLINE.iter().map(|line| [line, &b"\r\nPING\r\n"[..]].concat()));
}

#[test]
fn requests_cut_off_by_the_client_are_not_carried_out() {
    let whole = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    compare("cut-off", (1..whole.len()).map(|len| [&b"GET k\r\n"[..], &whole[..len]].concat()));
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
    compare("large", lens.iter().map(|len| requests(*len, b"\r\n")));
    compare("large-unended", lens.iter().map(|len| requests(*len, b"xy"))); // the bytes after an argument are not checked
    let before_malformed = lens.iter().map(|len| [&requests(*len, b"\r\n")[..], b"*1\r\n#\r\n"].concat());
    compare("large-before-malformed", before_malformed);
    compare("large-cut-off", lens.iter().map(|len| requests(*len, b"\r\n")[..len + 40].to_vec()));
}

#[test]
fn long_lines_and_counts_are_refused_at_the_limits_of_redis() {
    let digits = |kind: u8, len: usize| [vec![kind], vec![b'0'; len]].concat();
    let inputs = [
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
        b"*1\r\n$99999999999999999999\r\n".to_vec(),
        b"*9999999999999999999999\r\n".to_vec(),
    ];
    compare("limits", inputs);
}

#[test]
fn clients_may_send_only_small_requests_before_authentication() {
    exchange("strangers", STRANGERS);
}

#[test]
fn an_empty_request_counts_as_the_one_whose_reply_is_skipped_as_in_redis() {
    compare("skipped", SKIPPED.iter().map(|rest| format!("CLIENT REPLY SKIP\r\n{rest}ECHO end\r\n").into_bytes()));
}

#[test]
fn the_longest_bulk_is_that_of_redis_from_the_next_request_on() {
    exchange("longest-bulk", LONGEST_BULK);
}

#[test]
fn pipelines_are_carried_out_as_far_as_by_redis() {
    exchange("pipelines", PIPELINES);
}

const STRANGERS: &str = r#"
    "CONFIG SET requirepass secret\r\n"
    "*10\r\n"
    "*11\r\n"
    "*1\r\n$16384\r\n"
    "*1\r\n$16385\r\n"
    "*2\r\n$3\r\nGET\r\n$16385\r\n"
    "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n*11\r\n"
    "*11\r\n$4\r\nPING\r\n"
    "GET k\r\nAUTH secret\r\nGET k\r\nQUIT\r\nPING\r\n"
    "*2\r\n$4\r\nECHO\r\n$16384\r\nx\{16384}\r\n"
    "DEL 1 2 3 4 5 6 7 8 9 10 11 12\r\n" "*10\r\n$3\r\nDEL\r\n" "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\r\n"
    "AUTH secret\r\n" "*11\r\n$3\r\nDEL\r\n" "$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n$1\r\nf\r\n$1\r\ng\r\n$1\r\nh\r\n$1\r\ni\r\n$1\r\nj\r\n"
    "AUTH secret\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nx\{100000}\r\n"
    "AUTH secret\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$50000\r\nx\{50000}\r\nSTRLEN k\r\n"
    "AUTH secret\r\nCONFIG SET requirepass ''\r\n"
"#;

/// Requests behind `CLIENT REPLY SKIP`: an empty one uses it up.
const SKIPPED: &[&str] = &[
    "\r\nPING\r\n",
    "   \r\nPING\r\n",
    "*0\r\nPING\r\n",
    "*-1\r\nPING\r\n",
    "*0\r\n\r\n*-5\r\nPING\r\n",
    "*0\r\nCLIENT REPLY SKIP\r\nPING\r\n",
    "CLIENT REPLY SKIP\r\n*0\r\nPING\r\n",
    "PING\r\n*0\r\nPING\r\n",
    "MULTI\r\n*0\r\nPING\r\nEXEC\r\n",
    "CLIENT REPLY OFF\r\n*0\r\nPING\r\nCLIENT REPLY ON\r\n",
    "RESET\r\nPING\r\n",
    "*0\r\nRESET\r\nPING\r\n",
    "CLIENT REPLY OFF\r\nRESET\r\nPING\r\n",
    "*0\r\n*x\r\n",
    "\r\nECHO a\r\n\r\nCLIENT REPLY SKIP\r\nECHO b\r\n\r\n",
    "*0\r\nECHO a\r\n*0\r\nCLIENT REPLY SKIP\r\nECHO b\r\n*0\r\n",
    "*-1\r\n\r\nECHO a\r\n*-1\r\n\r\nCLIENT REPLY SKIP\r\nECHO b\r\n*-1\r\n\r\n",
];

const LONGEST_BULK: &str = r#"
    "CONFIG SET proto-max-bulk-len 1mb\r\n"
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\nx\{1048576}\r\n"
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n"
    "STRLEN k\r\nCONFIG SET proto-max-bulk-len 2mb\r\n"
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\nx\{1048577}\r\n"
    "STRLEN k\r\nCONFIG SET proto-max-bulk-len 512mb\r\n"
"#;

const PIPELINES: &str = r#"
    "SET a 1\r\nINCR\r\nNOSUCH\r\nINCR a\r\n"

    "\r\n\n\r\n   \r\n*0\r\n*-1\r\n*-7\r\nPING\r\n\n*1\r\n$4\r\nPING\r\nECHO next\r\n"

    # lines and arrays may be mixed
    "SET k 1\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\nINCR k\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

    # requests before an error are carried out, and those after it are not
    "SET k 1\r\nINCR k\r\n*1\r\n!\r\nINCR k\r\n"
    "GET k\r\n"

    "SET k 1\r\nINCR k\r\nQUIT\r\nINCR k\r\nINCR k\r\n"
    "GET k\r\n"

    # a request cut short by the end is not carried out
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nabc"
    "*3\r\n$3\r\nSET\r\n"
    "SET k v"
    "*"
    "DBSIZE\r\n"

    "INCR n\r\nINCR n\r\nMULTI\r\nINCR n\r\nINCR n\r\nEXEC\r\nINCR n\r\nINCR n\r\n"
"#;

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
    b"*2\r\n$4\r\nPING\r\nx\r\n",
    b"*1\r\n+PING\r\n",
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
    b"  SET   k\tv  \r\nget k",
    b"SET k \"a b\\x41\\n\\\"\"\r\nGET k",
    b"SET k 'a\\n\\'b'\r\nGET k",
    b"SET \"\" ''\r\nEXISTS \"\"",
    b"SET k",
];
