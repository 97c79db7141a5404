//! Lists where redis-server 7.0 is no reference: encodings since 7.2, and the state that a blocked client finds when it
//! is woken.

use crate::harness::{Client, TestServer};

/// Sends requests and compares the replies.
#[track_caller]
fn expect(client: &mut Client, script: &[(&str, &str)]) {
    for (request, reply) in script {
        assert_eq!(client.call(request), *reply, "{request}");
    }
}

#[test]
fn a_list_is_a_listpack_up_to_the_limit_and_again_from_half_of_it_on() {
    let server = TestServer::start();
    let mut client = server.client();
    expect(
        &mut client,
        &[
            ("CONFIG SET list-max-listpack-size 4", "+OK"),
            ("RPUSH k a b c d", ":4"),
            ("OBJECT ENCODING k", "$8 listpack"),
            ("RPUSH k e", ":5"),
            ("OBJECT ENCODING k", "$9 quicklist"),
            ("LPOP k", "$1 a"),
            ("LPOP k", "$1 b"),
            ("OBJECT ENCODING k", "$9 quicklist"),
            ("LREM k 0 c", ":1"),
            ("OBJECT ENCODING k", "$8 listpack"),
            ("RPUSH k f g h", ":5"),
            ("OBJECT ENCODING k", "$9 quicklist"),
            ("LTRIM k 0 0", "+OK"),
            ("OBJECT ENCODING k", "$8 listpack"),
            ("RPUSH full 1 2 3 4", ":4"),
            // A rotation does not exceed the limit.
            ("LMOVE full full LEFT RIGHT", "$1 1"),
            ("OBJECT ENCODING full", "$8 listpack"),
            ("LINSERT full BEFORE 3 x", ":5"),
            ("OBJECT ENCODING full", "$9 quicklist"),
            ("COPY full copy", ":1"),
            ("OBJECT ENCODING copy", "$9 quicklist"),
            ("CONFIG SET list-max-listpack-size -1", "+OK"),
            ("DEL k", ":1"),
            ("RPUSH k small", ":1"),
        ],
    );
    let large = "x".repeat(4096);
    assert_eq!(client.call(&format!("LSET k 0 {large}")), "+OK");
    expect(
        &mut client,
        &[
            ("OBJECT ENCODING k", "$9 quicklist"),
            ("LSET k 0 small", "+OK"),
            ("OBJECT ENCODING k", "$8 listpack"),
            ("LRANGE k 0 -1", "*1 $5 small"),
        ],
    );
}

#[test]
fn debugging_tells_the_encoding_and_sets_when_an_element_lies_alone() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes"), ("list-max-listpack-size", "2")]);
    expect(
        &mut server.client(),
        &[
            ("RPUSH short a", ":1"),
            ("RPUSH long a b c", ":3"),
            ("DEBUG LISTPACK short", "+Listpack structure printed on stdout"),
            ("DEBUG LISTPACK long", "-ERR Not a listpack encoded object."),
            ("DEBUG QUICKLIST short", "-ERR Not a quicklist encoded object."),
            ("DEBUG QUICKLIST long 1", "+Quicklist structure printed on stdout"),
            ("DEBUG QUICKLIST missing", "-ERR no such key"),
            ("DEBUG QUICKLIST-PACKED-THRESHOLD 1b", "+OK"),
            ("RPUSH long alone", ":4"),
            ("LINSERT long BEFORE b x", ":5"),
            ("LSET long 0 y", "+OK"),
            ("LRANGE long 0 -1", "*5 $1 y $1 x $1 b $1 c $5 alone"),
            ("LREM long 1 alone", ":1"),
            ("LPOP long 3", "*3 $1 y $1 x $1 b"),
            ("LPOS long c", ":0"),
            ("DEBUG QUICKLIST-PACKED-THRESHOLD 0", "+OK"),
            (
                "DEBUG QUICKLIST-PACKED-THRESHOLD 4294967295",
                "-ERR argument must be a memory value bigger than 1 and smaller than 4gb",
            ),
        ],
    );
}

#[test]
fn a_dumped_list_comes_back_with_its_long_elements() {
    let server = TestServer::start();
    let mut client = server.client();
    let large = "x".repeat(9000);
    client.call(&format!("RPUSH k a 1 {large} b"));
    let payload = client.frame(&["DUMP", "k"]);
    let payload = payload.as_bytes().expect("a payload").to_vec();
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"l", b"0", &payload]), "+OK");
    assert_eq!(client.call("LRANGE l 0 -1"), client.call("LRANGE k 0 -1"));
    assert_eq!(client.call("OBJECT ENCODING l"), "$9 quicklist");
    assert_eq!(client.call_args(&["RPUSH", "short", "a", "1", ""]), ":3");
    let payload = client.frame(&["DUMP", "short"]);
    let payload = payload.as_bytes().expect("a payload").to_vec();
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"m", b"0", &payload]), "+OK");
    assert_eq!(client.call("OBJECT ENCODING m"), "$8 listpack");
    assert_eq!(client.call("LRANGE m 0 -1"), "*3 $1 a $1 1 $0 ");
}

#[test]
fn a_client_sleeps_through_keys_of_another_type() {
    let server = TestServer::start();
    let mut other = server.client();
    let mut blocked = server.block("BLPOP a b 0");
    expect(&mut other, &[("SET a string", "+OK"), ("SET b string", "+OK"), ("DEL a b", ":2"), ("RPUSH b x", ":1")]);
    assert_eq!(blocked.reply(), "*2 $1 b $1 x");
    // Another of its keys has another type by the time it is woken.
    let mut blocked = server.block("BLPOP a b 0");
    expect(&mut other, &[("SET a string", "+OK"), ("RPUSH b x", ":1")]);
    assert_eq!(blocked.reply(), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(other.call("LLEN b"), ":1");
}

#[test]
fn of_keys_that_become_ready_together_the_first_named_serves() {
    let server = TestServer::start();
    let mut other = server.client();
    let mut blocked = server.block("BLPOP a b 0");
    let script = [("MULTI", "+OK"), ("RPUSH b 2", "+QUEUED"), ("RPUSH a 1", "+QUEUED"), ("EXEC", "*2 :1 :1")];
    expect(&mut other, &script);
    assert_eq!(blocked.reply(), "*2 $1 a $1 1");
    assert_eq!(other.call("EXISTS a b"), ":1");
}

#[test]
fn a_client_does_not_wait_for_the_list_that_it_adds_to() {
    let server = TestServer::start();
    let mut other = server.client();
    let mut blocked = server.block("BLMOVE from to LEFT LEFT 0");
    assert!(other.call("INFO clients").contains("total_blocking_keys:1"));
    expect(&mut other, &[("RPUSH to y", ":1"), ("RPUSH from x", ":1")]);
    assert_eq!(blocked.reply(), "$1 x");
    assert_eq!(other.call("LRANGE to 0 -1"), "*2 $1 x $1 y");
}

#[test]
fn a_woken_client_needs_the_permissions_that_its_user_has_by_then() {
    let server = TestServer::start();
    let mut other = server.client();
    let login = |server: &TestServer| {
        let mut client = server.client();
        assert_eq!(client.call("AUTH worker secret"), "+OK");
        client
    };
    assert_eq!(other.call("ACL SETUSER worker on >secret +@all ~*"), "+OK");
    let mut blocked = server.block_as(login(&server), "BLPOP k 0");
    expect(&mut other, &[("ACL SETUSER worker resetkeys ~other", "+OK"), ("RPUSH k x", ":1")]);
    assert_eq!(blocked.reply(), "-NOPERM this user has no permissions to access one of the keys used as arguments");
    expect(&mut other, &[("LLEN k", ":1"), ("DEL k", ":1"), ("ACL SETUSER worker ~*", "+OK")]);
    let mut blocked = server.block_as(login(&server), "BLPOP k 0");
    expect(&mut other, &[("ACL SETUSER worker -blpop", "+OK"), ("RPUSH k x", ":1")]);
    assert_eq!(blocked.reply(), "-NOPERM this user has no permissions to run the 'blpop' command");
    assert!(other.call("ACL LOG").contains("blpop"));
    expect(&mut other, &[("DEL k", ":1"), ("ACL SETUSER worker +blpop", "+OK")]);
    let mut blocked = server.block_as(login(&server), "BLPOP k 0");
    expect(&mut other, &[("ACL DELUSER worker", ":1"), ("RPUSH k x", ":1"), ("LLEN k", ":1")]);
    assert_eq!(blocked.read_to_end(), b"", "the connection ends without a reply");
}

#[test]
fn a_woken_client_that_adds_elements_fails_without_memory() {
    let server = TestServer::start();
    let mut other = server.client();
    let mut adding = server.block("BLMOVE k l LEFT LEFT 0");
    for request in ["MULTI", "RPUSH k x y", "CONFIG SET maxmemory 1", "EXEC"] {
        other.call(request);
    }
    assert_eq!(adding.reply(), "-OOM command not allowed when used memory > 'maxmemory'.");
    expect(&mut other, &[("CONFIG SET maxmemory 0", "+OK"), ("LLEN k", ":2"), ("DEL k", ":1")]);
    let mut removing = server.block("BLPOP k 0");
    for request in ["MULTI", "RPUSH k x y", "CONFIG SET maxmemory 1", "EXEC"] {
        other.call(request);
    }
    assert_eq!(removing.reply(), "*2 $1 k $1 x");
}

#[cfg(feature = "lua")]
#[test]
fn inside_scripts_blocking_commands_act_as_if_timed_out() {
    let server = TestServer::start();
    let mut client = server.client();
    for request in [
        "redis.call('blpop', KEYS[1], 0)",
        "redis.call('brpoplpush', KEYS[1], KEYS[1], 0)",
        "redis.call('blmpop', 0, 1, KEYS[1], 'left')",
        "redis.call('blmove', KEYS[1], KEYS[1], 'left', 'left', 0)",
    ] {
        assert_eq!(client.call_args(&["EVAL", &format!("return {request}"), "1", "k"]), "$-1", "{request}");
    }
    let script = "redis.call('rpush', KEYS[1], 'x') return redis.call('brpop', KEYS[1], 0)";
    assert_eq!(client.call_args(&["EVAL", script, "1", "k"]), "*2 $1 k $1 x");
}

#[test]
fn a_rank_that_cannot_be_negated_is_refused() {
    let server = TestServer::start();
    let range = "value must between -9223372036854775807 and 9223372036854775807";
    let refusal = format!("-ERR value is out of range, {range}");
    server.client().expect(&[("RPUSH k a", ":1"), ("LPOS k a RANK -9223372036854775808", &refusal)]);
}
