//! String commands: every option, every error, and the bytes of every kind of reply.

use crate::harness::TestServer;

const NOT_INTEGER: &str = "-ERR value is not an integer or out of range";
const NOT_FLOAT: &str = "-ERR value is not a valid float";
const SYNTAX: &str = "-ERR syntax error";
const OVERFLOW: &str = "-ERR increment or decrement would overflow";
const TOO_LONG: &str = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";

#[test]
fn get_returns_what_set_stored_and_null_for_a_missing_key() {
    let server = TestServer::start();
    server.client().expect(&[
        ("GET k", "$-1"),
        ("SET k hello", "+OK"),
        ("GET k", "$5 hello"),
        ("set k World", "+OK"),
        ("gEt k", "$5 World"),
        ("SET k ", "+OK"),
        ("GET k", "$0 "),
        ("STRLEN k", ":0"),
    ]);
    server.client3().expect(&[("GET k", "$0 "), ("GET missing", "_"), ("SET k v XX GET", "$0 "), ("GET k", "$1 v")]);
}

#[test]
fn keys_and_values_are_binary_safe() {
    let server = TestServer::start();
    let mut client = server.client();
    let key: Vec<u8> = (0..=255).collect();
    let value: Vec<u8> = (0..=255).rev().collect();
    assert_eq!(client.call_args(&[&b"SET"[..], &key, &value]), "+OK");
    let reply = client.frame(&[&b"GET"[..], &key]);
    assert_eq!(reply.as_bytes(), Some(&value[..]));
    assert_eq!(client.call_args(&[&b"GET"[..], b""]), "$-1");
    assert_eq!(client.call_args(&[&b"SET"[..], b"", b"empty key"]), "+OK");
    assert_eq!(client.call_args(&[&b"GET"[..], b""]), "$9 empty key");
    assert_eq!(client.call_args(&[&b"GET"[..], b"\0"]), "$-1");
}

#[test]
fn values_of_every_size_class_come_back_whole_after_growing_and_shrinking() {
    let server = TestServer::start();
    let mut client = server.client();
    for len in [0, 1, 15, 16, 63, 64, 255, 256, 4095, 16_383, 16_384, 16_385, 65_536, 1 << 20, 16_384, 100, 0] {
        let value: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        assert_eq!(client.call_args(&[b"SET", &b"k"[..], &value]), "+OK");
        assert_eq!(client.frame(&["GET", "k"]).as_bytes(), Some(&value[..]), "{len} bytes");
        assert_eq!(client.int("STRLEN k"), len);
        assert_eq!(client.frame(&["GETRANGE", "k", "-3", "-1"]).as_bytes(), value.get(value.len().max(3) - 3..));
    }
}

#[test]
fn set_obeys_nx_xx_and_get() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k 1 XX", "$-1"),
        ("EXISTS k", ":0"),
        ("SET k 1 NX", "+OK"),
        ("SET k 2 NX", "$-1"),
        ("GET k", "$1 1"),
        ("SET k 2 xx", "+OK"),
        ("SET k 3 GET", "$1 2"),
        ("SET k 4 NX GET", "$1 3"),
        ("GET k", "$1 3"),
        ("SET new 1 NX GET", "$-1"),
        ("GET new", "$1 1"),
        ("SET other 1 XX GET", "$-1"),
        ("EXISTS other", ":0"),
        ("SET k 5 XX GET", "$1 3"),
        ("GET k", "$1 5"),
        ("SET k 6 GET GET XX XX", "$1 5"),
        ("SET k 7 EX 1 EX 20", "+OK"),
        ("TTL k", ":20"),
    ]);
    server.client3().expect(&[
        ("SET k 1 NX", "_"),
        ("SET none 1 XX", "_"),
        ("SET none 1 GET", "_"),
        ("SET none 2 GET", "$1 1"),
    ]);
}

#[test]
fn set_refuses_options_that_do_not_fit_together() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v NX XX", SYNTAX),
        ("SET k v XX NX", SYNTAX),
        ("SET k v EX 1 PX 1", SYNTAX),
        ("SET k v EX 1 KEEPTTL", SYNTAX),
        ("SET k v KEEPTTL EXAT 1", SYNTAX),
        ("SET k v PXAT 1 EX 1", SYNTAX),
        ("SET k v PERSIST", SYNTAX),
        ("SET k v FOO", SYNTAX),
        ("SET k v EX", SYNTAX),
        ("SET k v NX EX", SYNTAX),
        ("SET k v 10", SYNTAX),
        ("SET k", "-ERR wrong number of arguments for 'set' command"),
        ("SET k v EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v PX -1", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
        ("SET k v PXAT 0", "-ERR invalid expire time in 'set' command"),
        ("SET k v EX abc", NOT_INTEGER),
        ("SET k v EX 1.5", NOT_INTEGER),
        ("SET k v EX 99999999999999999999", NOT_INTEGER),
        ("EXISTS k", ":0"),
    ]);
}

#[test]
fn set_with_a_refused_option_leaves_the_old_value_and_its_ttl() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k old PX 5000", "+OK"),
        ("SET k new EX 0", "-ERR invalid expire time in 'set' command"),
        ("SET k new NX XX", SYNTAX),
        ("SET k new NX", "$-1"),
        ("GET k", "$3 old"),
        ("PTTL k", ":5000"),
    ]);
}

#[test]
fn set_clears_keeps_or_replaces_the_ttl_by_its_options() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v EX 10", "+OK"),
        ("PTTL k", ":10000"),
        ("SET k v KEEPTTL", "+OK"),
        ("PTTL k", ":10000"),
        ("SET k v PX 77", "+OK"),
        ("PTTL k", ":77"),
        ("SET k v", "+OK"),
        ("PTTL k", ":-1"),
        ("SET k v KEEPTTL", "+OK"),
        ("PTTL k", ":-1"),
        ("SET fresh v KEEPTTL", "+OK"),
        ("PTTL fresh", ":-1"),
        ("SET k v ex 3 nx", "$-1"),
        ("SET k v xx ex 3", "+OK"),
        ("TTL k", ":3"),
    ]);
}

#[test]
fn setnx_sets_a_key_once() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETNX mykey Hello", ":1"),
        ("SETNX mykey World", ":0"),
        ("GET mykey", "$5 Hello"),
        ("DEL mykey", ":1"),
        ("SETNX mykey World", ":1"),
        ("PTTL mykey", ":-1"),
        ("SETNX mykey", "-ERR wrong number of arguments for 'setnx' command"),
        ("SETNX a b c", "-ERR wrong number of arguments for 'setnx' command"),
    ]);
}

#[test]
fn setex_and_psetex_set_value_and_ttl_in_one_step() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETEX k 10 v", "+OK"),
        ("PTTL k", ":10000"),
        ("PSETEX k 1500 w", "+OK"),
        ("PTTL k", ":1500"),
        ("GET k", "$1 w"),
        ("SETEX k 0 v", "-ERR invalid expire time in 'setex' command"),
        ("SETEX k -10 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k 0 v", "-ERR invalid expire time in 'psetex' command"),
        ("PSETEX k -5 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX k 9223372036854775807 v", "-ERR invalid expire time in 'setex' command"),
        ("PSETEX k 9223372036854775807 v", "-ERR invalid expire time in 'psetex' command"),
        ("SETEX k x v", NOT_INTEGER),
        ("PSETEX k 1.0 v", NOT_INTEGER),
        ("SETEX k 10", "-ERR wrong number of arguments for 'setex' command"),
        ("GET k", "$1 w"),
        ("PTTL k", ":1500"),
    ]);
}

#[test]
fn getset_swaps_the_value_and_drops_the_ttl() {
    let server = TestServer::start();
    server.client().expect(&[
        ("GETSET k 1", "$-1"),
        ("GETSET k 2", "$1 1"),
        ("EXPIRE k 10", ":1"),
        ("GETSET k 3", "$1 2"),
        ("TTL k", ":-1"),
        ("GETSET k", "-ERR wrong number of arguments for 'getset' command"),
    ]);
    server.client3().expect(&[("GETSET none 1", "_"), ("GETSET none 2", "$1 1")]);
}

#[test]
fn getdel_returns_the_value_and_removes_the_key() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v EX 100", "+OK"),
        ("GETDEL k", "$1 v"),
        ("GETDEL k", "$-1"),
        ("EXISTS k", ":0"),
        ("SET k w", "+OK"),
        ("TTL k", ":-1"),
        ("GETDEL", "-ERR wrong number of arguments for 'getdel' command"),
        ("GETDEL k x", "-ERR wrong number of arguments for 'getdel' command"),
    ]);
    server.client3().expect(&[("GETDEL k", "$1 w"), ("GETDEL k", "_")]);
}

#[test]
fn getex_reads_and_changes_only_the_ttl() {
    let server = TestServer::start();
    server.client().expect(&[
        ("GETEX none EX 10", "$-1"),
        ("GETEX none EX 0", "$-1"),
        ("SET k v", "+OK"),
        ("GETEX k", "$1 v"),
        ("TTL k", ":-1"),
        ("GETEX k EX 10", "$1 v"),
        ("PTTL k", ":10000"),
        ("GETEX k", "$1 v"),
        ("PTTL k", ":10000"),
        ("GETEX k px 1500", "$1 v"),
        ("PTTL k", ":1500"),
        ("GETEX k PERSIST", "$1 v"),
        ("TTL k", ":-1"),
        ("GETEX k EXAT 99999999999", "$1 v"),
        ("EXPIRETIME k", ":99999999999"),
        ("GETEX k PXAT 99999999999999", "$1 v"),
        ("PEXPIRETIME k", ":99999999999999"),
    ]);
}

#[test]
fn getex_with_a_time_in_the_past_returns_the_value_and_removes_the_key() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v", "+OK"),
        ("GETEX k PXAT 1", "$1 v"),
        ("EXISTS k", ":0"),
        ("SET k v", "+OK"),
        ("GETEX k EXAT 1", "$1 v"),
        ("DBSIZE", ":0"),
    ]);
}

#[test]
fn getex_refuses_what_it_does_not_know() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k v", "+OK"),
        ("GETEX k KEEPTTL", SYNTAX),
        ("GETEX k EX", SYNTAX),
        ("GETEX k EX 1 PX 1", SYNTAX),
        ("GETEX k PERSIST EX 1", SYNTAX),
        ("GETEX k EX 1 PERSIST", SYNTAX),
        ("GETEX k NX", SYNTAX),
        ("GETEX k EX 0", "-ERR invalid expire time in 'getex' command"),
        ("GETEX k PX -1", "-ERR invalid expire time in 'getex' command"),
        ("GETEX k EX abc", NOT_INTEGER),
        ("GETEX", "-ERR wrong number of arguments for 'getex' command"),
        ("TTL k", ":-1"),
    ]);
}

#[test]
fn mset_sets_all_and_mget_reads_all_in_order() {
    let server = TestServer::start();
    server.client().expect(&[
        ("MSET a 1 b 2 c 3", "+OK"),
        ("MGET c missing a b a", "*5 $1 3 $-1 $1 1 $1 2 $1 1"),
        ("MSET a x a y", "+OK"),
        ("GET a", "$1 y"),
        ("EXPIRE b 10", ":1"),
        ("MSET b 3", "+OK"),
        ("TTL b", ":-1"),
        ("MSET a", "-ERR wrong number of arguments for 'mset' command"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("MGET", "-ERR wrong number of arguments for 'mget' command"),
        ("GET a", "$1 y"),
    ]);
    server.client3().expect(&[("MGET a missing", "*2 $1 y _"), ("MGET missing", "*1 _")]);
}

#[test]
fn msetnx_sets_all_or_nothing() {
    let server = TestServer::start();
    server.client().expect(&[
        ("MSETNX a 1 b 2", ":1"),
        ("MSETNX c 3 b 4", ":0"),
        ("EXISTS c", ":0"),
        ("MGET a b", "*2 $1 1 $1 2"),
        ("MSETNX d 1 d 2", ":1"),
        ("GET d", "$1 2"),
        ("MSETNX e", "-ERR wrong number of arguments for 'msetnx' command"),
        ("MSETNX e 1 f", "-ERR wrong number of arguments for 'msetnx' command"),
        ("EXISTS e f", ":0"),
    ]);
}

#[test]
fn mset_and_mget_of_a_thousand_keys_touch_every_shard_once() {
    let server = TestServer::start();
    let mut client = server.client();
    let pairs: String = (0..1000).map(|n| format!(" key:{n} {n}")).collect();
    let names: String = (0..1000).rev().map(|n| format!(" key:{n}")).collect();
    assert_eq!(client.call(&format!("MSET{pairs}")), "+OK");
    let expected: String = (0..1000).rev().map(|n| format!(" ${} {n}", n.to_string().len())).collect();
    assert_eq!(client.call(&format!("MGET{names}")), format!("*1000{expected}"));
    assert_eq!(client.int("DBSIZE"), 1000);
    assert_eq!(client.call(&format!("MSETNX fresh 1{pairs}")), ":0");
    assert_eq!(client.int(&format!("DEL{names}")), 1000);
    assert_eq!(client.call(&format!("MSETNX fresh 1{pairs}")), ":1");
}

#[test]
fn integers_count_up_and_down() {
    let server = TestServer::start();
    server.client().expect(&[
        ("INCR n", ":1"),
        ("INCR n", ":2"),
        ("DECR n", ":1"),
        ("INCRBY n 40", ":41"),
        ("DECRBY n 50", ":-9"),
        ("INCRBY n -1", ":-10"),
        ("DECRBY n -10", ":0"),
        ("GET n", "$1 0"),
        ("DECR fresh", ":-1"),
        ("DECRBY other 5", ":-5"),
        ("INCRBY third 0", ":0"),
        ("GET third", "$1 0"),
        ("SET n 9 EX 10", "+OK"),
        ("INCR n", ":10"),
        ("PTTL n", ":10000"),
        ("GET n", "$2 10"),
    ]);
}

#[test]
fn integers_never_leave_64_bits() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET n 9223372036854775806", "+OK"),
        ("INCR n", ":9223372036854775807"),
        ("INCR n", OVERFLOW),
        ("INCRBY n 1", OVERFLOW),
        ("DECRBY n -1", OVERFLOW),
        ("GET n", "$19 9223372036854775807"),
        ("SET n -9223372036854775807", "+OK"),
        ("DECR n", ":-9223372036854775808"),
        ("DECR n", OVERFLOW),
        ("INCRBY n -1", OVERFLOW),
        ("INCRBY n 9223372036854775807", ":-1"),
        ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
        ("INCRBY n 9223372036854775808", NOT_INTEGER),
        ("GET n", "$2 -1"),
    ]);
}

#[test]
fn only_canonical_integers_count() {
    let server = TestServer::start();
    let mut client = server.client();
    for value in ["abc", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "", "0x10", "9223372036854775808", "--1"] {
        client.call_args(&["SET", "n", value]);
        assert_eq!(client.call("INCR n"), NOT_INTEGER, "{value:?}");
        assert_eq!(client.call_args(&["INCRBY", "m", value]), NOT_INTEGER, "{value:?}");
        assert_eq!(client.frame(&["GET", "n"]).as_bytes(), Some(value.as_bytes()));
    }
    assert_eq!(client.call("EXISTS m"), ":0");
}

#[test]
fn incrbyfloat_adds_with_the_digits_of_a_long_double() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET f 10.50", "+OK"),
        ("INCRBYFLOAT f 0.1", "$4 10.6"),
        ("INCRBYFLOAT f -5", "$3 5.6"),
        ("SET f 5.0e3", "+OK"),
        ("INCRBYFLOAT f 2.0e2", "$4 5200"),
        ("INCRBYFLOAT fresh 0.1", "$3 0.1"),
        ("INCRBYFLOAT fresh 0.2", "$3 0.3"),
        ("INCRBYFLOAT fresh -0.3", "$1 0"),
        ("SET f 3", "+OK"),
        ("INCRBYFLOAT f 1.000000000000000005", "$19 4.00000000000000001"),
        ("SET f 4", "+OK"),
        ("INCRBYFLOAT f 0x10", "$2 20"),
        ("SET f 1 EX 10", "+OK"),
        ("INCRBYFLOAT f 0.5", "$3 1.5"),
        ("TTL f", ":10"),
        ("INCRBYFLOAT f 1e20", "$21 100000000000000000000"),
        ("SET f 17179869184", "+OK"),
        ("INCRBYFLOAT f 1.5", "$13 17179869185.5"),
        ("INCRBY f 1", NOT_INTEGER),
    ]);
}

#[test]
fn incrbyfloat_refuses_what_is_no_finite_number() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("INCRBYFLOAT f abc", NOT_FLOAT),
        ("INCRBYFLOAT f nan", NOT_FLOAT),
        ("INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT f -inf", "-ERR increment would produce NaN or Infinity"),
        ("INCRBYFLOAT f 1e5000", NOT_FLOAT),
        ("EXISTS f", ":0"),
        ("SET f abc", "+OK"),
        ("INCRBYFLOAT f 1", NOT_FLOAT),
        ("INCRBYFLOAT f", "-ERR wrong number of arguments for 'incrbyfloat' command"),
    ]);
    for value in ["", " 1", "1 ", "1.0.0", "1,5"] {
        assert_eq!(client.call_args(&["INCRBYFLOAT", "fresh", value]), NOT_FLOAT, "{value:?}");
    }
    assert_eq!(client.call_args(&["SET", "f", " 11"]), "+OK");
    assert_eq!(client.call("INCRBYFLOAT f 1"), NOT_FLOAT);
}

#[test]
fn append_creates_extends_and_counts() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("APPEND k foo", ":3"),
        ("APPEND k bar", ":6"),
        ("GET k", "$6 foobar"),
        ("APPEND k ", ":6"),
        ("EXPIRE k 10", ":1"),
        ("APPEND k !", ":7"),
        ("TTL k", ":10"),
        ("SET n 12", "+OK"),
        ("APPEND n 3", ":3"),
        ("INCR n", ":124"),
        ("APPEND empty ", ":0"),
        ("EXISTS empty", ":1"),
        ("APPEND k", "-ERR wrong number of arguments for 'append' command"),
    ]);
    let piece = "x".repeat(1000);
    (1..=100).for_each(|times| assert_eq!(client.int(&format!("APPEND long {piece}")), times * 1000));
    assert_eq!(client.frame(&["GET", "long"]).as_bytes(), Some(piece.repeat(100).as_bytes()));
}

#[test]
fn strlen_counts_bytes() {
    let server = TestServer::start();
    server.client().expect(&[
        ("STRLEN none", ":0"),
        ("SET k \u{fc}ber", "+OK"),
        ("STRLEN k", ":5"),
        ("SET k 123456789", "+OK"),
        ("STRLEN k", ":9"),
        ("STRLEN", "-ERR wrong number of arguments for 'strlen' command"),
    ]);
}

#[test]
fn getrange_cuts_and_counts_from_either_end() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k Hello,World", "+OK"),
        ("GETRANGE k 0 4", "$5 Hello"),
        ("GETRANGE k 0 -1", "$11 Hello,World"),
        ("GETRANGE k -5 -1", "$5 World"),
        ("GETRANGE k -100 4", "$5 Hello"),
        ("GETRANGE k 6 100", "$5 World"),
        ("GETRANGE k 5 5", "$1 ,"),
        ("GETRANGE k 4 3", "$0 "),
        ("GETRANGE k -1 -5", "$0 "),
        ("GETRANGE k 100 200", "$0 "),
        ("GETRANGE k 0 -100", "$0 "),
        ("SUBSTR k -100 -12", "$0 "),
        ("GETRANGE k -100 -50", "$0 "),
        ("GETRANGE none 0 -1", "$0 "),
        ("SUBSTR k 0 4", "$5 Hello"),
        ("GETRANGE k a 1", NOT_INTEGER),
        ("GETRANGE none 0 b", NOT_INTEGER),
        ("GETRANGE k 0", "-ERR wrong number of arguments for 'getrange' command"),
        ("GETRANGE k 0 9223372036854775807", "$11 Hello,World"),
        ("GETRANGE k -9223372036854775808 -1", "$11 Hello,World"),
    ]);
}

#[test]
fn setrange_overwrites_pads_with_zeros_and_grows() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k Hello,World", "+OK"),
        ("SETRANGE k 6 Redis", ":11"),
        ("GET k", "$11 Hello,Redis"),
        ("SETRANGE k 9 abcdef", ":15"),
        ("GET k", "$15 Hello,Redabcdef"),
        ("SETRANGE k 0 J", ":15"),
        ("SETRANGE pad 3 x", ":4"),
        ("GET pad", "$4 \\x00\\x00\\x00x"),
        ("SETRANGE none 5 ", ":0"),
        ("EXISTS none", ":0"),
        ("SETRANGE k 100 ", ":15"),
        ("SETRANGE k -1 x", "-ERR offset is out of range"),
        ("SETRANGE none -1 ", "-ERR offset is out of range"),
        ("SETRANGE k a x", NOT_INTEGER),
        ("EXPIRE k 10", ":1"),
        ("SETRANGE k 1 ey", ":15"),
        ("TTL k", ":10"),
        ("GET k", "$15 Jeylo,Redabcdef"),
    ]);
}

#[test]
fn no_string_grows_beyond_the_longest_bulk() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETRANGE k 536870911 xx", TOO_LONG),
        ("SETRANGE k 9223372036854775807 x", TOO_LONG),
        ("EXISTS k", ":0"),
        ("CONFIG SET proto-max-bulk-len 1mb", "+OK"),
        ("SETRANGE k 1048575 x", ":1048576"),
        ("APPEND k x", TOO_LONG),
        ("SETRANGE k 1048576 x", TOO_LONG),
        ("SETRANGE k 0 y", ":1048576"),
        ("STRLEN k", ":1048576"),
        ("GETRANGE k 0 0", "$1 y"),
        ("GETRANGE k -1 -1", "$1 x"),
    ]);
}

#[test]
fn lcs_finds_the_longest_common_subsequence() {
    let server = TestServer::start();
    server.client().expect(&[
        ("MSET a ohmytext b mynewtext", "+OK"),
        ("LCS a b", "$6 mytext"),
        ("LCS a b LEN", ":6"),
        ("LCS a b IDX", "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"),
        ("LCS a b IDX MINMATCHLEN 4", "*4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6"),
        ("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6"),
        ("LCS a none", "$0 "),
        ("LCS none none LEN", ":0"),
        ("LCS none a IDX", "*4 $7 matches *0 $3 len :0"),
        ("LCS a a", "$8 ohmytext"),
        ("LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX."),
        ("LCS a b FOO", SYNTAX),
        ("LCS a b MINMATCHLEN", SYNTAX),
        ("LCS a", "-ERR wrong number of arguments for 'lcs' command"),
    ]);
    let matches = "%2 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6";
    server.client3().expect(&[("LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", matches), ("LCS a b LEN", ":6")]);
}

#[test]
fn databases_hold_their_own_strings() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    first.expect(&[("SELECT 4", "+OK"), ("SET k four", "+OK")]);
    second.expect(&[("SELECT 5", "+OK"), ("GET k", "$-1"), ("SET k five", "+OK"), ("SELECT 4", "+OK")]);
    second.expect(&[("GET k", "$4 four")]);
    first.expect(&[("SELECT 5", "+OK"), ("GET k", "$4 five"), ("DEL k", ":1"), ("SELECT 4", "+OK"), ("DBSIZE", ":1")]);
}

#[test]
fn clients_see_each_others_writes_at_once() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for round in 0..50 {
        for turn in 0..clients.len() {
            let expected = (round * clients.len() + turn + 1) as i64;
            assert_eq!(clients[turn].int("INCR n"), expected);
        }
    }
}

#[test]
fn increments_of_many_clients_at_once_all_count() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let increments = vec!["INCR n".to_owned(); 2000];
                let replies = server.client().pipeline(&increments);
                let numbers: Vec<i64> = replies.iter().map(|reply| reply[1..].parse().expect("a number")).collect();
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
            });
        }
    });
    assert_eq!(server.client().call("GET n"), "$5 16000");
}
