//! Documents as values of keys: generic commands, events, dumps, files, replication, scripts, transactions, users.

use keylatch::Clock;

use super::{MISSING, WRONG_TYPE};
use crate::harness::{TestServer, wait_until};

const TEXT: &str = "{\"a\":1,\"b\":[1.5,null,\"x\"],\"c\":{\"d\":18446744073709551615}}";

/// Sets two documents, one of them long.
fn fill(client: &mut crate::harness::Client) {
    assert_eq!(client.call(&format!("JSON.SET d $ {TEXT}")), "+OK");
    let long = format!("[{}]", vec![TEXT; 2000].join(","));
    assert_eq!(client.call(&format!("JSON.SET long $ {long}")), "+OK");
}

#[test]
fn generic_commands_know_the_type() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    fill(&mut client);
    client.expect(&[
        ("TYPE d", "+ReJSON-RL"),
        ("OBJECT ENCODING d", "$3 raw"),
        ("SCAN 0 TYPE rejson-rl COUNT 1000 MATCH d", "*2 $1 0 *1 $1 d"),
        ("GET d", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("COPY d e", ":1"),
        ("JSON.GET e", &format!("${} {TEXT}", TEXT.len())),
        ("JSON.SET e $.a 2", "+OK"),
        ("JSON.GET d $.a", "$3 [1]"),
        ("RENAME e f", "+OK"),
        ("JSON.TYPE f", "$6 object"),
        ("EXPIRE f 100", ":1"),
        ("JSON.SET f $.a 3", "+OK"),
        ("JSON.SET f $ {\"n\":1}", "+OK"),
        ("TTL f", ":100"),
        ("UNLINK f", ":1"),
        ("LPUSH l x", ":1"),
        ("JSON.GET l", WRONG_TYPE),
        ("JSON.ARRPOP l", WRONG_TYPE),
    ]);
    let usage = client.int("MEMORY USAGE long");
    assert!((60_000..70_000).contains(&usage), "{usage}");
    let digest = client.call("DEBUG DIGEST");
    for key in ["d", "long"] {
        let dump = client.frame(&["DUMP", key]).as_bytes().expect("a dump").to_vec();
        assert_eq!(client.call(&format!("DEL {key}")), ":1");
        assert_eq!(client.call_args(&[&b"RESTORE"[..], key.as_bytes(), b"0", &dump]), "+OK");
    }
    assert_eq!(client.call("DEBUG DIGEST"), digest);
}

#[test]
fn a_dump_of_redis_is_read_and_a_damaged_one_is_not() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("JSON.SET d $ {\"a\":1}", "+OK")]);
    let dump = client.frame(&["DUMP", "d"]).as_bytes().expect("a dump").to_vec();
    // Number 7, the name ReJSON-RL and version 3 in 64 bits, a string of seven bytes, the end.
    let expected = [&[7, 0x81][..], &0x45e2_5238_df91_2c03_u64.to_be_bytes(), &[5, 7], b"{\"a\":1}", &[0]].concat();
    assert_eq!(dump[..20], expected);
    for at in 10..dump.len() - 10 {
        let mut damaged = dump.clone();
        damaged[at] ^= 0x55;
        let reply = client.call_args(&[&b"RESTORE"[..], b"e", b"0", &damaged]);
        assert!(reply.starts_with("-ERR DUMP payload version or checksum are wrong"), "{at}: {reply}");
    }
}

#[test]
fn a_dump_of_the_first_version_is_read() {
    let server = TestServer::start();
    let mut client = server.client();
    // An object of a null, a text, a double, an integer, a boolean and an array, as parts.
    let member = |name: &str, value: &[u8]| [&[2, 0x40, 0x80, 5, name.len() as u8], name.as_bytes(), value].concat();
    let body = [
        &[2, 0x20, 2, 6][..],
        &member("a", &[2, 1]),
        &member("b", &[2, 2, 5, 2, b'"', b'x']),
        &member("c", &[&[2, 4, 4][..], &1.5_f64.to_le_bytes()].concat()),
        &member("d", &[&[2, 8, 2, 0x81][..], &(-7_i64).to_be_bytes()].concat()),
        &member("e", &[2, 0x10, 5, 0xc0, 1]),
        &member("f", &[2, 0x40, 0x40, 2, 2, 2, 8, 2, 5, 2, 0x20, 2, 0]),
        &[0],
    ]
    .concat();
    let id = 0x45e2_5238_df91_2c00_u64.to_be_bytes();
    let payload = |body: &[u8]| keylatch::internals::rdb::seal([&[7, 0x81][..], &id, body].concat(), 9);
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"d", b"0", &payload(&body)]), "+OK");
    let text = "{\"a\":null,\"b\":\"\\\"x\",\"c\":1.5,\"d\":-7,\"e\":true,\"f\":[5,{}]}";
    assert_eq!(client.frame(&["JSON.GET", "d"]).as_bytes(), Some(text.as_bytes()));
    for end in 0..body.len() {
        let reply = client.call_args(&[&b"RESTORE"[..], b"e", b"0", &payload(&body[..end])]);
        assert_eq!(reply, "-ERR Bad data format", "{end}");
    }
}

#[test]
fn each_change_has_its_event_and_calls_that_change_nothing_have_none() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KEA")]);
    let mut listener = server.client();
    assert!(listener.call("PSUBSCRIBE __keyevent@0__:*").starts_with("*3"));
    let mut client = server.client();
    for (request, event) in [
        ("JSON.SET d $ {\"a\":[1,2,3],\"n\":1,\"s\":\"x\",\"b\":true,\"o\":{}}", "json.set"),
        ("JSON.SET d $.n.x 1", ""),
        ("JSON.SET d $.n 2", "json.set"),
        ("JSON.MSET d $.n 3", "json.mset"),
        ("JSON.MERGE d $.o {\"k\":1}", "json.merge"),
        ("JSON.NUMINCRBY d $.n 1", "json.numincrby"),
        ("JSON.NUMINCRBY d $.s 1", ""),
        ("JSON.NUMMULTBY d $.n 2", "json.nummultby"),
        ("JSON.NUMPOWBY d $.n 2", "json.numpowby"),
        ("JSON.STRAPPEND d $.s \"y\"", "json.strappend"),
        ("JSON.TOGGLE d $.b", "json.toggle"),
        ("JSON.ARRAPPEND d $.a 4", "json.arrappend"),
        ("JSON.ARRINSERT d $.a 0 0", "json.arrinsert"),
        ("JSON.ARRPOP d $.a", "json.arrpop"),
        ("JSON.ARRTRIM d $.a 0 1", "json.arrtrim"),
        ("JSON.ARRTRIM d $.n 0 1", ""),
        ("JSON.CLEAR d $.a", "json.clear"),
        ("JSON.CLEAR d $.a", ""),
        ("JSON.ARRPOP d $.a", ""),
        ("JSON.GET d", ""),
        ("JSON.DEL d $.none", ""),
        ("JSON.DEL d $.a", "json.del"),
        ("JSON.FORGET d", "json.del"),
    ] {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
        assert_eq!(client.call("PUBLISH __keyevent@0__:end x"), ":1");
        let mut events = Vec::new();
        loop {
            let message = listener.reply();
            let channel =
                message.split(' ').nth(6).expect("a channel").trim_start_matches("__keyevent@0__:").to_owned();
            if channel == "end" {
                break;
            }
            events.push(channel);
        }
        let expected: Vec<&str> = Some(event).filter(|event| !event.is_empty()).into_iter().collect();
        assert_eq!(events, expected, "{request}");
    }
}

#[test]
fn documents_come_back_from_snapshots_and_from_the_append_only_file() {
    for (appendonly, preamble) in [("no", "yes"), ("yes", "yes"), ("yes", "no")] {
        let dir = tempfile::tempdir().expect("a directory");
        let start = || {
            TestServer::start_with(&[
                ("dir", dir.path().to_str().expect("text")),
                ("appendonly", appendonly),
                ("aof-use-rdb-preamble", preamble),
                ("enable-debug-command", "yes"),
            ])
        };
        let server = start();
        let mut client = server.client();
        fill(&mut client);
        client.expect(&[("JSON.SET d $.a {\"new\":[]}", "+OK"), ("JSON.NUMINCRBY long $[0].a 4", "$3 [5]")]);
        let digest = client.call("DEBUG DIGEST");
        if appendonly == "yes" {
            assert!(client.call("BGREWRITEAOF").starts_with('+'));
            wait_until(|| client.info("aof_rewrite_in_progress") == "0");
            client.expect(&[("JSON.ARRAPPEND d $.a.new 1", "*1 :1"), ("JSON.DEL long $[0].b", ":1")]);
        } else {
            assert_eq!(client.call("SAVE"), "+OK");
        }
        let changed = client.call("DEBUG DIGEST");
        server.end();
        let server = start();
        let expected = if appendonly == "yes" { changed } else { digest };
        assert_eq!(server.client().call("DEBUG DIGEST"), expected, "{appendonly} {preamble}");
    }
}

#[test]
fn a_replica_has_the_documents_of_its_primary() {
    let settings = [("enable-debug-command", "yes"), ("repl-diskless-sync-delay", "0"), ("save", "\"\"")];
    let primary = TestServer::start_on(Clock::system(), &settings);
    let mut client = primary.client();
    fill(&mut client);
    let port = primary.addr().port();
    let replicaof = format!("127.0.0.1 {port}");
    let replica = TestServer::start_on(Clock::system(), &[&settings[..], &[("replicaof", &replicaof)]].concat());
    let mut reader = replica.client();
    wait_until(|| reader.info("master_link_status") == "up");
    client.expect(&[
        ("JSON.SET d $.a 5", "+OK"),
        ("JSON.NUMINCRBY d $..a 2", "$3 [7]"),
        ("JSON.MERGE d $ {\"b\":null,\"z\":{\"y\":1}}", "+OK"),
        ("JSON.ARRPOP long $ 7", &format!("*1 ${} {TEXT}", TEXT.len())),
        ("JSON.MSET x $ 1 d $.w 2", "+OK"),
        ("JSON.DEL d $.c", ":1"),
        ("WAIT 1 0", ":1"),
    ]);
    assert_eq!(reader.call("DEBUG DIGEST"), client.call("DEBUG DIGEST"));
    reader.expect(&[("JSON.GET d", "$25 {\"a\":7,\"w\":2,\"z\":{\"y\":1}}")]);
}

#[test]
fn transactions_watch_documents() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.expect(&[
        ("JSON.SET d $ {\"a\":1}", "+OK"),
        ("WATCH d", "+OK"),
        ("MULTI", "+OK"),
        ("JSON.SET d $.a 2", "+QUEUED"),
        ("JSON.GET d $.a", "+QUEUED"),
        ("JSON.SET d", "-ERR wrong number of arguments for 'json.set' command"),
        ("DISCARD", "+OK"),
        ("MULTI", "+OK"),
        ("JSON.SET d $.a 2", "+QUEUED"),
        ("JSON.NUMINCRBY missing $ 1", "+QUEUED"),
        ("JSON.GET d $.a", "+QUEUED"),
        ("EXEC", &format!("*3 +OK {MISSING} $3 [2]")),
        ("WATCH d", "+OK"),
    ]);
    other.expect(&[("JSON.NUMINCRBY d $.a 1", "$3 [3]")]);
    client.expect(&[("MULTI", "+OK"), ("JSON.GET d", "+QUEUED"), ("EXEC", "*-1")]);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_call_the_commands() {
    let server = TestServer::start();
    let mut client = server.client();
    let script = "redis.call('JSON.SET', KEYS[1], '$', ARGV[1]) return redis.call('JSON.GET', KEYS[1], '$.a')";
    assert_eq!(client.call_args(&["EVAL", script, "1", "d", "{\"a\":[1]}"]), "$5 [[1]]");
    let script = "return redis.pcall('JSON.GET', KEYS[1], '.none')";
    assert_eq!(client.call_args(&["EVAL", script, "1", "d"]), "-ERR Path '$.none' does not exist");
}

#[test]
fn a_category_has_all_commands() {
    let server = TestServer::start();
    let mut client = server.client();
    let names = client.call("ACL CAT json");
    let mut names: Vec<&str> = names.split(' ').filter(|word| word.starts_with("json.")).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "json.arrappend",
            "json.arrindex",
            "json.arrinsert",
            "json.arrlen",
            "json.arrpop",
            "json.arrtrim",
            "json.clear",
            "json.debug",
            "json.del",
            "json.forget",
            "json.get",
            "json.merge",
            "json.mget",
            "json.mset",
            "json.numincrby",
            "json.nummultby",
            "json.numpowby",
            "json.objkeys",
            "json.objlen",
            "json.resp",
            "json.set",
            "json.strappend",
            "json.strlen",
            "json.toggle",
            "json.type",
        ]
    );
    client.expect(&[
        ("JSON.SET d $ {}", "+OK"),
        ("ACL SETUSER reader on nopass ~* +@json -@write", "+OK"),
        ("AUTH reader x", "+OK"),
        ("JSON.GET d", "$2 {}"),
        ("JSON.SET d $ 1", "-NOPERM this user has no permissions to run the 'json.set' command"),
        ("GET d", "-NOPERM this user has no permissions to run the 'get' command"),
    ]);
    let info = server.client().call("COMMAND INFO json.get");
    assert!(info.contains("+@json") && info.contains("+@read") && info.contains("+@slow"), "{info}");
    let docs = server.client().call("COMMAND DOCS json.set");
    assert!(docs.contains("$5 group $6 module") && docs.contains("$5 since $5 1.0.0"), "{docs}");
}
