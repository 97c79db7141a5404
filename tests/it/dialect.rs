//! Names and error messages in both dialects: exactly Redis', or Valkey's.

use crate::harness::{Client, TestServer};

/// Starts a server that replies as Redis does, and one that replies as Valkey does.
fn both() -> [TestServer; 2] {
    [TestServer::start(), TestServer::start_with(&[("extended-redis-compatibility", "no")])]
}

/// Sends commands to a new client of each server; each command has the expected replies of Redis and Valkey.
fn tell(story: &[(&[&str], &str, &str)]) {
    for (at, server) in both().iter().enumerate() {
        let mut client = server.client();
        for (words, redis, valkey) in story {
            let expected = if at == 0 { redis } else { valkey };
            let reply = client.call_args(words);
            match expected.strip_suffix("...") {
                Some(start) => assert!(reply.starts_with(start), "{words:?}: {reply}"),
                None => assert_eq!(reply, **expected, "{words:?}"),
            }
        }
    }
}

/// Returns the names of fields in INFO's first section, up to the system's.
fn first_fields(client: &mut Client) -> Vec<String> {
    let reply = client.frame(&["INFO", "server"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("a string")).into_owned();
    let names = text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned());
    names.take_while(|name| name != "os").collect()
}

#[test]
fn the_server_has_the_name_and_version_of_whom_it_answers_as() {
    for (mut client, name, version, fields) in [
        (
            both()[0].client(),
            "redis",
            "8.4.0",
            "redis_version redis_git_sha1 redis_git_dirty redis_build_id redis_mode keylatch_version",
        ),
        (
            both()[1].client(),
            "valkey",
            "8.1.0",
            "redis_version server_name valkey_version redis_git_sha1 redis_git_dirty redis_build_id server_mode \
             keylatch_version",
        ),
    ] {
        let greeting = client.call("HELLO");
        assert!(greeting.starts_with(&format!("*14 $6 server ${} {name} $7 version $5 {version} ", name.len())));
        assert_eq!(first_fields(&mut client).join(" "), fields);
        assert_eq!(client.info("redis_version"), "8.4.0");
    }
}

#[test]
fn options_of_valkey_alone_are_taken_in_its_dialect() {
    tell(&[
        (&["SET", "k", "ab"], "+OK", "+OK"),
        (&["BITCOUNT", "k", "1"], "-ERR syntax error", ":3"),
        (&["ZADD", "z", "1", "a", "2", "b"], ":2", ":2"),
        (&["ZSCAN", "z", "0", "NOSCORES"], "-ERR syntax error", "*2 $1 0 *2 $1 a $1 b"),
        (&["ZSCAN", "z", "0", "MATCH", "b", "noscores"], "-ERR syntax error", "*2 $1 0 *1 $1 b"),
        (&["ZSCAN", "z", "0"], "*2 $1 0 *4 $1 a $1 1 $1 b $1 2", "*2 $1 0 *4 $1 a $1 1 $1 b $1 2"),
        (&["SADD", "s", "a"], ":1", ":1"),
        (&["SSCAN", "s", "0", "NOSCORES"], "-ERR syntax error", "-ERR syntax error"),
    ]);
}

#[test]
fn the_dialect_changes_while_clients_are_connected() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("CONFIG GET extended-redis-compatibility", "*2 $28 extended-redis-compatibility $3 yes"),
        ("BITCOUNT k 0", "-ERR syntax error"),
        ("CONFIG SET extended-redis-compatibility no", "+OK"),
        ("BITCOUNT k 0", ":0"),
        ("CONFIG SET extended-redis-compatibility yes", "+OK"),
        ("BITCOUNT k 0", "-ERR syntax error"),
    ]);
}

#[test]
fn bits_are_counted_from_a_start_only_as_valkey() {
    tell(&[
        (&["SET", "k", "foobar"], "+OK", "+OK"),
        (&["BITCOUNT", "k"], ":26", ":26"),
        (&["BITCOUNT", "k", "1"], "-ERR syntax error", ":22"),
        (&["BITCOUNT", "k", "-1"], "-ERR syntax error", ":4"),
        (&["BITCOUNT", "k", "1000"], "-ERR syntax error", ":0"),
        (&["BITCOUNT", "k", "x"], "-ERR syntax error", "-ERR value is not an integer or out of range"),
        (&["BITCOUNT", "k", "1", "-1"], ":22", ":22"),
    ]);
}

#[test]
fn multi_and_watch_inside_a_transaction_discard_it_as_valkey() {
    const NOT_INSIDE: &str = "-ERR Command not allowed inside a transaction";
    const DISCARDED: &str = "-EXECABORT Transaction discarded because of previous errors.";
    tell(&[
        (&["MULTI"], "+OK", "+OK"),
        (&["MULTI"], "-ERR MULTI calls can not be nested", NOT_INSIDE),
        (&["EXEC"], "*0", DISCARDED),
        (&["MULTI"], "+OK", "+OK"),
        (&["WATCH", "k"], "-ERR WATCH inside MULTI is not allowed", NOT_INSIDE),
        (&["EXEC"], "*0", DISCARDED),
    ]);
}

#[test]
fn who_listens_to_nothing_has_nothing_to_give_up_as_valkey() {
    tell(&[
        (
            &["UNSUBSCRIBE", "c"],
            "*3 $11 unsubscribe $1 c :0",
            "-NOSUB 'unsubscribe' command executed not in subscribed mode",
        ),
        (
            &["PUNSUBSCRIBE"],
            "*3 $12 punsubscribe $-1 :0",
            "-NOSUB 'punsubscribe' command executed not in subscribed mode",
        ),
        (
            &["SUNSUBSCRIBE", "c"],
            "*3 $12 sunsubscribe $1 c :0",
            "-NOSUB 'sunsubscribe' command executed not in subscribed mode",
        ),
        (&["SUBSCRIBE", "c"], "*3 $9 subscribe $1 c :1", "*3 $9 subscribe $1 c :1"),
        (&["UNSUBSCRIBE", "d"], "*3 $11 unsubscribe $1 d :1", "*3 $11 unsubscribe $1 d :1"),
        (&["UNSUBSCRIBE", "c"], "*3 $11 unsubscribe $1 c :0", "*3 $11 unsubscribe $1 c :0"),
    ]);
}

#[test]
fn a_bad_port_of_a_primary_is_named_as_each_names_primaries() {
    let refusal = |lines: &str| {
        let refused = keylatch::internals::config::load(None, None, lines.as_bytes());
        refused.expect_err("no port").to_string()
    };
    assert!(refusal("replicaof 127.0.0.1 abc\n").ends_with("\nInvalid master port"));
    let refused = refusal("extended-redis-compatibility no\nreplicaof 127.0.0.1 abc\n");
    assert!(refused.ends_with("\nInvalid primary port"), "{refused}");
}

#[cfg(feature = "lua")]
#[test]
fn scripts_get_errors_in_the_selected_dialect() {
    let pcall = |call: &str| format!("return {{pcall(function() {call} end)}}");
    let (log, repl) = (pcall("redis.log(1)"), pcall("server.set_repl()"));
    tell(&[
        (&["SCRIPT", "SHOW", &"a".repeat(40)], "-NOSCRIPT ...", "-NOSCRIPT ..."),
        (&["EVAL", "return server.call('PING')", "0"], "+PONG", "+PONG"),
        (
            &["EVAL", "return redis.call('nosuch')", "0"],
            "-ERR Unknown Redis command called from script script: ...",
            "-ERR Unknown command called from script script: ...",
        ),
        (
            &["EVAL", "return redis.call('get')", "0"],
            "-ERR Wrong number of args calling Redis command from script script: ...",
            "-ERR Wrong number of args calling command from script script: ...",
        ),
        (
            &["EVAL", "return redis.pcall()", "0"],
            "-ERR Please specify at least one argument for this redis lib call",
            "-ERR Please specify at least one argument for this call",
        ),
        (
            &["EVAL", "return redis.call({})", "0"],
            "-ERR Lua redis lib command arguments must be strings or integers script: ...",
            "-ERR Command arguments must be strings or integers script: ...",
        ),
        (
            &["EVAL", "return redis.acl_check_cmd('nosuch')", "0"],
            "-ERR Invalid command passed to redis.acl_check_cmd() script: ...",
            "-ERR Invalid command passed to server.acl_check_cmd() script: ...",
        ),
        (
            &["EVAL", &log, "0"],
            "*2 $-1 $47 ERR redis.log() requires two arguments or more.",
            "*2 $-1 $48 ERR server.log() requires two arguments or more.",
        ),
        (
            &["EVAL", &repl, "0"],
            "*2 $-1 $44 ERR redis.set_repl() requires two arguments.",
            "*2 $-1 $45 ERR server.set_repl() requires two arguments.",
        ),
        (
            &["EVAL", "return redis.setresp()", "0"],
            "-ERR redis.setresp() requires one argument. script: ...",
            "-ERR server.setresp() requires one argument. script: ...",
        ),
        // Texts of the script itself are not changed.
        (&["EVAL", "return redis.error_reply('ERR redis.x')", "0"], "-ERR redis.x", "-ERR redis.x"),
        (&["EVAL", "return redis.SERVER_NAME", "0"], "$-1", "$6 valkey"),
        (&["EVAL", "return {server.VALKEY_VERSION, server.VALKEY_VERSION_NUM}", "0"], "*0", "*2 $5 8.1.0 :524544"),
        (&["EVAL", "return redis.REDIS_VERSION", "0"], "$5 8.4.0", "$5 8.4.0"),
    ]);
}

#[cfg(feature = "lua")]
#[test]
fn libraries_get_errors_in_the_selected_dialect() {
    let load = |text: &str| format!("#!lua name=l\n{text}");
    for (text, complaint) in [
        ("redis.register_function()", "wrong number of arguments to redis.register_function"),
        ("server.register_function('f')", "calling redis.register_function with a single argument is only applicable "),
        ("redis.register_function({}, 1)", "first argument to redis.register_function must be a string"),
        ("redis.register_function('f', 1)", "second argument to redis.register_function must be a function"),
        ("redis.register_function{f=1}", "unknown argument given to redis.register_function"),
        ("redis.register_function{function_name='f'}", "redis.register_function must get a callback argument"),
    ] {
        let redis = format!("-ERR Error registering functions: ERR {complaint}...");
        let valkey = redis.replace("redis.", "server.");
        tell(&[(&["FUNCTION", "LOAD", &load(text)], &redis, &valkey)]);
    }
}

#[test]
fn info_counts_hash_fields_with_deadlines_under_the_names_that_each_has() {
    for (server, field) in both().iter().zip(["subexpiry=1", "keys_with_volatile_items=1"]) {
        let mut client = server.client();
        client.expect(&[("HSET h a 1 b 2", ":2"), ("HPEXPIRE h 50 FIELDS 1 a", "*1 :1")]);
        assert!(client.info("db0").ends_with(field));
        server.advance_ms(50);
        assert_eq!(client.call("HLEN h"), ":1");
        assert_eq!(client.info("expired_subkeys"), "1");
    }
    assert!(!both()[0].client().call("INFO stats").contains("expired_fields"));
    assert!(both()[1].client().call("INFO stats").contains("expired_fields:0"));
}
