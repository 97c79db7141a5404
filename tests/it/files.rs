//! Snapshots: saved data survives a restart, and a snapshot has the data at the time when it was ordered.

use std::path::Path;

use keylatch::Clock;
use tempfile::TempDir;

use crate::harness::{Client, TestServer, wait_until};
use crate::log::rows::{STORIES, call_all};
use crate::log::{BEGIN_MS, keys};
use crate::probabilistic::rows as probabilistic;

pub(crate) fn dir() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Returns the settings of a server with its files in a directory, and more settings.
fn settings<'a>(dir: &'a Path, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let dir = dir.to_str().expect("text");
    [&[("dir", dir), ("dbfilename", "dump.rdb"), ("enable-debug-command", "yes")], more].concat()
}

/// Starts a server with its files in a directory, on a clock that always starts at the same date.
pub(crate) fn start_in(dir: &Path, more: &[(&str, &str)]) -> TestServer {
    start_at(dir, 0, more)
}

/// Starts such a server at a date that is this many milliseconds later.
pub(crate) fn start_at(dir: &Path, ms: i64, more: &[(&str, &str)]) -> TestServer {
    let clock = Clock::manual();
    clock.set_wall_ms(BEGIN_MS + ms);
    TestServer::start_on(clock, &settings(dir, more))
}

/// Asserts that two servers have the same keys, deadlines, fences and functions.
#[track_caller]
pub(crate) fn assert_same(one: &TestServer, other: &TestServer) {
    let (mut one, mut other) = (one.client(), other.client());
    for db in 0..16 {
        assert_eq!(keys(&mut one, db), keys(&mut other, db), "database {db}");
    }
    assert_eq!(one.call("DEBUG DIGEST"), other.call("DEBUG DIGEST"));
    if cfg!(feature = "lua") {
        assert_eq!(one.call("FUNCTION DUMP"), other.call("FUNCTION DUMP"));
    }
}

/// Waits until no snapshot is being written.
fn wait_for_end(client: &mut Client) {
    wait_until(|| client.info("rdb_bgsave_in_progress") == "0");
}

/// Adds keys of all types in all encodings, with deadlines and fences, in two databases.
pub(crate) fn fill(client: &mut Client) {
    for request in [
        "SET text value",
        "SET number 12345",
        "SET until v PXAT 1700000100000",
        "SETIFGREATER fenced v 7",
        "RPUSH list a 1 2 b",
        "SADD integers 1 2 300",
        "SADD words a b c",
        "ZADD scores 1 a 2.5 b",
        "HSET fields a 1 b 2",
        "HSET timed a 1 b 2",
        "HPEXPIREAT timed 1700000200000 FIELDS 1 a",
        "SADD timedset a 2",
        "SPEXPIREAT timedset 1700000200000 MEMBERS 1 a",
        "XADD stream 1-1 f v",
        "XADD stream 2-1 f v g w",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "PFADD log a b c",
        "GEOADD places 13.361389 38.115556 palermo",
        "SELECT 7",
        "SET text elsewhere",
        "SELECT 0",
    ] {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    let long = "x".repeat(20_000);
    let many: Vec<String> = (0..2000)
        .flat_map(|n| {
            [
                format!("RPUSH longlist {n}:{long:.40}"),
                format!("SADD manywords {n}w"),
                format!("ZADD manyscores {n} {n}m"),
                format!("HSET manyfields {n}f {n}"),
                format!("SET key:{n} {long:.50}"),
            ]
        })
        .collect();
    client.pipeline(&many);
    client.call(&format!("SET long {long}"));
    client.call(&format!("RPUSH withlong {long} b"));
    client.call("HPEXPIREAT manyfields 1700000300000 FIELDS 1 7f");
    #[cfg(feature = "lua")]
    client.call_args(&["FUNCTION", "LOAD", "#!lua name=mylib\nredis.register_function('f', function() return 1 end)"]);
}

#[test]
fn what_is_saved_is_there_after_a_restart_whatever_its_type() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    fill(&mut client);
    client.expect(&[("SAVE", "+OK")]);
    assert_eq!(client.info("rdb_changes_since_last_save"), "0");
    let again = start_in(dir.path(), &[]);
    assert_same(&server, &again);
    let mut other = again.client();
    for (key, encoding) in [("integers", "intset"), ("list", "listpack"), ("manywords", "hashtable"), ("number", "int")]
    {
        let asked = format!("OBJECT ENCODING {key}");
        assert_eq!(
            (client.call(&asked), other.call(&asked)),
            (format!("${} {encoding}", encoding.len()), client.call(&asked))
        );
    }
    assert_eq!(other.info("rdb_changes_since_last_save"), "0");
    assert_ne!(other.info("rdb_last_load_keys_loaded"), "0");
}

#[test]
fn what_every_command_writes_is_there_after_a_restart() {
    for (name, before, request) in STORIES.iter().chain(probabilistic::STORIES) {
        let dir = dir();
        let server = start_in(dir.path(), &[]);
        let mut client = server.client();
        call_all(&mut client, name, before);
        call_all(&mut client, name, request);
        assert_eq!(client.call("SAVE"), "+OK", "{name}");
        assert_same(&server, &start_in(dir.path(), &[]));
    }
}

#[test]
fn what_has_expired_meanwhile_is_not_loaded() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    server.client().expect(&[
        ("SET a v PX 100", "+OK"),
        ("SET b v PX 101", "+OK"),
        ("SET c v", "+OK"),
        ("SAVE", "+OK"),
    ]);
    let clock = Clock::manual();
    clock.set_wall_ms(BEGIN_MS + 100);
    let again = TestServer::start_on(clock, &settings(dir.path(), &[]));
    let mut client = again.client();
    client.expect(&[("EXISTS a b c", ":2"), ("PTTL b", ":1"), ("DBSIZE", ":2")]);
    assert_eq!(
        (client.info("rdb_last_load_keys_loaded"), client.info("rdb_last_load_keys_expired")),
        ("2".into(), "1".into())
    );
    again.advance_ms(1);
    client.expect(&[("EXISTS a b c", ":1")]);
}

#[test]
fn a_background_save_has_what_there_was_when_it_was_ordered_whatever_happens_then() {
    let dir = dir();
    let (server, twin) = (start_in(dir.path(), &[]), start_in(self::dir().path(), &[]));
    let mut client = server.client();
    for server in [&server, &twin] {
        fill(&mut server.client());
    }
    client.expect(&[("BGSAVE", "+Background saving started")]);
    let changes: Vec<String> = (0..2000)
        .flat_map(|n| [format!("SET key:{n} changed"), format!("HDEL manyfields {n}f"), format!("SET new:{n} v")])
        .collect();
    client.pipeline(&changes);
    client.expect(&[
        ("SWAPDB 0 7", "+OK"),
        ("DEL text", ":1"),
        ("FLUSHDB", "+OK"),
        ("SET new v", "+OK"),
        ("SELECT 7", "+OK"),
        ("FLUSHDB", "+OK"),
    ]);
    wait_for_end(&mut client);
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
    assert_same(&twin, &start_in(dir.path(), &[]));
}

#[test]
fn flushall_and_a_shutdown_end_a_save_that_takes_long() {
    // Long strings are written separately from other keys.
    for value in ["1", &"x".repeat(100_000)] {
        let dir = dir();
        let server = start_in(dir.path(), &[("rdb-key-save-delay", "1000000000")]);
        let mut client = server.client();
        let set = format!("MSET a {value} b {value}");
        client.expect(&[(&set, "+OK"), ("BGSAVE", "+Background saving started"), ("FLUSHALL", "+OK")]);
        wait_for_end(&mut client);
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok");
        client.expect(&[(&set, "+OK"), ("BGSAVE", "+Background saving started")]);
        server.end();
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0, "no file is left");
    }
}

#[test]
fn a_save_point_saves_after_so_many_seconds_and_changes() {
    let dir = dir();
    let server = start_in(dir.path(), &[("save", "60 2")]);
    let mut client = server.client();
    let started = client.int("LASTSAVE");
    client.expect(&[("SET a v", "+OK"), ("SET b v", "+OK"), ("CONFIG GET save", "*2 $4 save $4 60 2")]);
    server.advance_ms(61_000);
    wait_until(|| client.int("LASTSAVE") > started && client.info("rdb_bgsave_in_progress") == "0");
    assert_eq!((client.info("rdb_saves"), client.info("rdb_changes_since_last_save")), ("1".into(), "0".into()));
    assert_same(&server, &start_in(dir.path(), &[]));
}

#[test]
fn a_background_save_that_fails_says_why_rejects_writes_and_the_next_success_ends_that() {
    let dir = dir();
    let server = start_in(dir.path(), &[("save", "60 100"), ("enable-protected-configs", "yes")]);
    let mut client = server.client();
    client.expect(&[("SET a v", "+OK"), ("CONFIG SET dbfilename folder", "+OK")]);
    std::fs::create_dir(dir.path().join("folder")).expect("a directory");
    let reply = client.call("SAVE");
    assert!(reply.starts_with("-ERR") && reply.contains("Is a directory"), "{reply}");
    assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "who has asked for it was told");
    client.expect(&[("SET a v", "+OK"), ("BGSAVE", "+Background saving started")]);
    wait_for_end(&mut client);
    assert_eq!(client.info("rdb_last_bgsave_status"), "err");
    for request in ["SET a w", "PING", "LPUSH l a"] {
        let reply = client.call(request);
        assert!(reply.starts_with("-MISCONF Redis is configured to save RDB snapshots"), "{request}: {reply}");
    }
    client.expect(&[("GET a", "$1 v"), ("CONFIG SET dbfilename dump.rdb", "+OK"), ("SAVE", "+OK"), ("SET a w", "+OK")]);
    assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 2, "no temporary file is left");
}

#[test]
fn a_damaged_file_is_refused_with_its_name_and_place_and_stays_as_it_is() {
    let dir = dir();
    let path = dir.path().join("dump.rdb");
    {
        let server = start_in(dir.path(), &[]);
        fill(&mut server.client());
        server.client().expect(&[("SAVE", "+OK")]);
    }
    let whole = std::fs::read(&path).expect("a file");
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    for damaged in
        [&whole[..whole.len() - 1], &whole[..whole.len() / 2], &flipped[..], b"REDIS0099", b"no such thing", b""]
    {
        std::fs::write(&path, damaged).expect("writable");
        let builder = keylatch::Server::builder().set("dir", dir.path().display());
        let error = builder.start_blocking().err().expect("refused").to_string();
        assert!(error.contains("dump.rdb"), "{error}");
        assert_eq!(std::fs::read(&path).expect("a file"), damaged);
    }
}

#[test]
fn a_file_that_announces_more_keys_than_it_has_takes_no_memory_for_them() {
    let dir = dir();
    let announced = [&[0xfb, 0x81][..], &(1_u64 << 62).to_be_bytes(), &[0]].concat();
    let file = [&b"REDIS0009\xfe\0"[..], &announced, b"\0\x01k\x01v\xff", &[0; 8]].concat();
    std::fs::write(dir.path().join("dump.rdb"), file).expect("writable");
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    client.expect(&[("GET k", "$1 v"), ("DBSIZE", ":1")]);
    let used: u64 = client.info("used_memory").parse().expect("a number");
    assert!(used < 10_000_000, "{used} bytes");
}

#[test]
fn a_reload_replies_when_the_data_is_there_and_loses_no_write_that_was_acknowledged_meanwhile() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let (mut client, mut writer) = (server.client(), server.client());
    client.expect(&[
        ("DEBUG POPULATE 5000", "+OK"),
        ("MULTI", "+OK"),
        ("DEBUG RELOAD", "+QUEUED"),
        ("EXEC", "*1 -ERR This command waits for a file and is not supported in MULTI"),
    ]);
    for round in 0..20 {
        client.send(b"DEBUG RELOAD\r\n");
        let mut written = 0;
        for number in 0..50 {
            match &*writer.call(&format!("SET written:{number} {round}")) {
                "+OK" => written += 1,
                refused => assert!(refused.starts_with("-LOADING"), "{refused}"),
            }
        }
        assert_eq!(client.reply(), "+OK");
        let keys: Vec<String> = (0..50).map(|number| format!("GET written:{number}")).collect();
        let value = format!("${} {round}", round.to_string().len());
        let found = client.pipeline(&keys).into_iter().filter(|found| *found == value).count();
        assert_eq!(found, written, "round {round}");
    }
    assert_eq!(client.info("rdb_bgsave_in_progress"), "0");
}

#[cfg(feature = "lua")]
#[test]
fn a_reload_that_keeps_what_is_there_refuses_or_replaces_what_is_there_twice() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    let load = |client: &mut Client, name: &str| {
        let code = format!("#!lua name={name}\nredis.register_function('{name}', function() return 1 end)");
        assert_eq!(client.call_args(&["FUNCTION", "LOAD", &code]), format!("${} {name}", name.len()));
    };
    let failed = "-ERR Error trying to load the RDB dump";
    client.expect(&[("SET a v", "+OK"), ("DEBUG RELOAD NOFLUSH", failed), ("DEBUG RELOAD NOFLUSH MERGE", "+OK")]);
    client.expect(&[("GET a", "$1 v"), ("DEL a", ":1")]);
    load(&mut client, "one");
    client.expect(&[("DEBUG RELOAD NOFLUSH", failed), ("DEBUG RELOAD NOFLUSH MERGE", "+OK"), ("FCALL one 0", ":1")]);
    load(&mut client, "two");
    client.expect(&[("SET b v", "+OK"), ("DEBUG RELOAD NOSAVE NOFLUSH MERGE", "+OK")]);
    client.expect(&[("FCALL one 0", ":1"), ("FCALL two 0", ":1"), ("GET b", "$1 v")]);
    client.expect(&[("DEBUG RELOAD NOSAVE", "+OK"), ("FCALL one 0", ":1"), ("FCALL two 0", "-ERR Function not found")]);
}

#[test]
fn flushall_replies_when_the_empty_data_is_saved() {
    let dir = dir();
    let server = start_in(dir.path(), &[("save", "60 100")]);
    let mut client = server.client();
    client.expect(&[("SET a v", "+OK"), ("SAVE", "+OK"), ("SET b v", "+OK"), ("FLUSHALL", "+OK")]);
    assert_eq!(client.info("rdb_changes_since_last_save"), "0");
    assert_same(&server, &start_in(dir.path(), &[]));
    client.expect(&[("SET a v", "+OK"), ("MULTI", "+OK"), ("FLUSHALL", "+QUEUED"), ("EXEC", "*1 +OK")]);
    wait_until(|| client.info("rdb_changes_since_last_save") == "0");
}

#[test]
fn what_says_which_files_are_loaded_does_not_change_meanwhile() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    client.expect(&[("MSET a 1 b 2", "+OK"), ("CONFIG SET key-load-delay 1000000000", "+OK")]);
    let mut other = server.client();
    client.send(b"DEBUG RELOAD\r\n");
    wait_until(|| other.info("loading") == "1");
    let loading = "-LOADING Redis is loading the dataset in memory";
    other.expect(&[("CONFIG SET dir .", loading), ("CONFIG SET loglevel debug appendonly yes", loading)]);
    other.expect(&[("CONFIG SET loglevel notice", "+OK")]);
    server.end();
}

#[test]
fn fences_of_locks_grow_over_a_restart_from_a_snapshot_though_the_clock_was_set_back() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    server.server().set_wall_ms(BEGIN_MS + 1_000_000_000);
    let mut client = server.client();
    // Regardless of the key that is read last.
    let before = (0..100).map(|at| client.int(&format!("LOCK.ACQUIRE lock{at} token PX 9000000000"))).max();
    client.expect(&[("SAVE", "+OK")]);
    let after = start_in(dir.path(), &[]).client().int("LOCK.ACQUIRE other token PX 1000");
    assert!(Some(after) > before, "{after} after {before:?}");
}
