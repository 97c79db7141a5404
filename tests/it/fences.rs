//! SETIFGREATER and DELIFGREATER: a write with a smaller fencing token than the last one is refused. No redis-server
//! has these commands, so the expected replies follow Garnet's documentation.

use std::path::Path;

use keylatch::Clock;

use crate::harness::{Client, TestServer, wait_until};
use crate::log;

/// Returns the fence of an existing string, by a request that does not change it; 0 without a fence.
fn fence_of(client: &mut Client, key: &str) -> i64 {
    let reply = client.call(&format!("SETIFGREATER {key} x 0 NOGET"));
    let fence = reply.strip_prefix("*2 :").and_then(|rest| rest.strip_suffix(" $-1"));
    fence.and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("no fence but {reply}"))
}

#[test]
fn a_write_is_refused_unless_its_fence_is_greater_than_the_last_one() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SETIFGREATER k a 5", "*2 :5 $-1"),
        ("GET k", "$1 a"),
        ("SETIFGREATER k late 4", "*2 :5 $1 a"),
        ("SETIFGREATER k same 5", "*2 :5 $1 a"),
        ("SETIFGREATER k late 4 NOGET", "*2 :5 $-1"),
        ("GET k", "$1 a"),
        ("setifgreater k b 9223372036854775807", "*2 :9223372036854775807 $-1"),
        ("SETIFGREATER k c 9223372036854775806", "*2 :9223372036854775807 $1 b"),
        ("DELIFGREATER k 9223372036854775807", ":0"),
        ("GET k", "$1 b"),
        ("SET k c", "+OK"),
        ("SETIFGREATER k c 1", "*2 :1 $-1"),
    ]);
    server.client3().expect(&[("SETIFGREATER k d 1", "*2 :1 $1 c"), ("SETIFGREATER k d 2", "*2 :2 _")]);
}

#[test]
fn a_string_without_a_fence_has_the_fence_0() {
    let server = TestServer::start();
    server.client().expect(&[
        ("SET k plain", "+OK"),
        ("SETIFGREATER k a 0", "*2 :0 $5 plain"),
        ("DELIFGREATER k 0", ":0"),
        ("SETIFGREATER k a 1", "*2 :1 $-1"),
        ("SETIFGREATER new a 0", "*2 :0 $-1"),
        ("SETIFGREATER new b 0", "*2 :0 $1 a"),
        ("DELIFGREATER new 1", ":1"),
        ("DELIFGREATER new 1", ":0"),
        ("EXISTS new", ":0"),
    ]);
}

#[test]
fn a_delete_is_refused_unless_its_fence_is_greater() {
    let server = TestServer::start();
    server.client().expect(&[
        ("DELIFGREATER k 9", ":0"),
        ("SETIFGREATER k a 5", "*2 :5 $-1"),
        ("DELIFGREATER k 5", ":0"),
        ("DELIFGREATER k 6", ":1"),
        ("EXISTS k", ":0"),
        ("DELIFGREATER k 7", ":0"),
        ("SETIFGREATER k late 5", "*2 :6 $-1"),
        ("EXISTS k", ":0"),
        ("SETIFGREATER k again 6", "*2 :6 $-1"),
        ("GET k", "$5 again"),
    ]);
}

#[test]
fn a_late_write_is_refused_also_after_the_key_is_gone_for_as_long_as_fence_memory_ms_says() {
    for gone in
        ["DEL k", "UNLINK k", "DELIFGREATER k 8", "EXPIRE k 0", "PEXPIRE k 1", "GETDEL k", "MOVE k 3", "RENAME k x"]
    {
        let server = TestServer::start_with(&[("fence-memory-ms", "1000")]);
        let mut client = server.client();
        client.expect(&[("SETIFGREATER k a 7", "*2 :7 $-1")]);
        client.call(gone);
        server.advance_ms(1);
        let fence = if gone.starts_with("DELIF") { 8 } else { 7 };
        let refused = format!("*2 :{fence} $-1");
        client.expect(&[("SETIFGREATER k late 6", &refused), ("EXISTS k", ":0")]);
        server.advance_ms(998);
        client.expect(&[("SETIFGREATER k late 6", &refused), ("EXISTS k", ":0")]);
        server.advance_ms(2);
        client.expect(&[("SETIFGREATER k late 6", "*2 :6 $-1"), ("GET k", "$4 late")]);
    }
    let server = TestServer::start_with(&[("fence-memory-ms", "0")]);
    let mut client = server.client();
    client.expect(&[("SETIFGREATER k a 7", "*2 :7 $-1"), ("DEL k", ":1"), ("SETIFGREATER k b 6", "*2 :6 $-1")]);
}

/// Starts a server with its files in a directory, this many milliseconds after the first one.
fn start_after(dir: &Path, appendonly: &str, ms: i64) -> TestServer {
    let clock = Clock::manual();
    clock.set_wall_ms(log::BEGIN_MS + ms);
    let dir = dir.to_str().expect("text");
    let settings = [
        ("dir", dir),
        ("dbfilename", "dump.rdb"),
        ("appendonly", appendonly),
        ("fence-memory-ms", "1000"),
        ("save", ""),
        ("enable-debug-command", "yes"),
    ];
    TestServer::start_on(clock, &settings)
}

#[test]
fn a_late_write_is_refused_also_after_a_restart_until_the_time_is_over() {
    let saves: [(&str, &[&str]); 2] = [("no", &["SAVE"]), ("yes", &["BGREWRITEAOF"])];
    for (appendonly, saves) in saves {
        let dir = tempfile::tempdir().expect("a directory");
        let server = start_after(dir.path(), appendonly, 0);
        let mut client = server.client();
        client.expect(&[
            ("SETIFGREATER deleted a 7", "*2 :7 $-1"),
            ("DEL deleted", ":1"),
            ("SETIFGREATER expired a 8 PX 1", "*2 :8 $-1"),
            ("SETIFGREATER expires a 9 PX 300", "*2 :9 $-1"),
            ("SETIFGREATER again a 10", "*2 :10 $-1"),
            ("DEL again", ":1"),
            ("SET again b", "+OK"),
            ("SELECT 9", "+OK"),
            ("SETIFGREATER deleted a 11", "*2 :11 $-1"),
            ("DEL deleted", ":1"),
        ]);
        server.advance_ms(10);
        for save in saves {
            let reply = client.call(save);
            assert!(reply.starts_with('+'), "{reply}");
        }
        wait_until(|| client.info("aof_rewrite_in_progress") == "0");
        let refused = [
            ("SETIFGREATER deleted late 6", "*2 :7 $-1"),
            ("SETIFGREATER expired late 6", "*2 :8 $-1"),
            ("SETIFGREATER expires late 6", "*2 :9 $-1"),
            ("SETIFGREATER again c 6", "*2 :6 $-1"),
            ("SELECT 9", "+OK"),
            ("SETIFGREATER deleted late 6", "*2 :11 $-1"),
            ("DBSIZE", ":0"),
        ];
        server.end();
        let again = start_after(dir.path(), appendonly, 500);
        again.client().expect(&[("DEBUG RELOAD", "+OK"), ("EXISTS deleted expired expires", ":0")]);
        again.client().expect(&refused);
        again.advance_ms(498);
        again.client().expect(&refused[..1]);
        again.advance_ms(2);
        again.client().expect(&[("SETIFGREATER deleted late 6", "*2 :6 $-1"), refused[2]]);
    }
}

#[test]
fn what_a_file_says_of_a_removed_key_is_forgotten_when_its_time_is_over_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start_after(dir.path(), "no", 0);
    server.client().expect(&[("SETIFGREATER k a 7", "*2 :7 $-1"), ("DEL k", ":1"), ("SAVE", "+OK")]);
    server.end();
    for (ms, reply) in [(-5000, "*2 :7 $-1"), (999, "*2 :7 $-1"), (1000, "*2 :6 $-1")] {
        let again = start_after(dir.path(), "no", ms);
        assert_eq!(again.client().call("SETIFGREATER k late 6"), reply, "{ms}");
    }
}

#[test]
fn what_changes_while_a_snapshot_is_written_is_not_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = start_after(dir.path(), "no", 0);
    let mut client = server.client();
    let all = |of: &dyn Fn(usize) -> String| (0..300).map(of).collect::<Vec<String>>();
    client.pipeline(&all(&|at| format!("SETIFGREATER gone:{at} a 7")));
    client.pipeline(&all(&|at| format!("DEL gone:{at}")));
    client.pipeline(&all(&|at| format!("SETIFGREATER there:{at} a 7")));
    client.expect(&[("CONFIG SET rdb-key-save-delay 200", "+OK"), ("BGSAVE", "+Background saving started")]);
    client.pipeline(&all(&|at| format!("SETIFGREATER gone:{at} b 9")));
    client.pipeline(&all(&|at| format!("DEL gone:{at} there:{at}")));
    client.pipeline(&all(&|at| format!("SET gone:{at} c")));
    wait_until(|| client.info("rdb_bgsave_in_progress") == "0");
    server.end();
    let again = start_after(dir.path(), "no", 500);
    let mut client = again.client();
    for at in 0..300 {
        let [gone, there] = ["gone", "there"].map(|name| format!("SETIFGREATER {name}:{at} late 6"));
        client.expect(&[(&gone, "*2 :7 $-1"), (&there, "*2 :7 $1 a")]);
    }
}

#[test]
fn what_creates_a_key_without_a_fence_forgets_the_one_before_and_so_does_a_flush() {
    let server = TestServer::start();
    let mut client = server.client();
    for (request, is_known) in [
        ("PING", true),
        ("SET k v; DEL k", false),
        ("RPUSH k v; DEL k", false),
        ("COPY other k; DEL k", false),
        ("FLUSHDB", false),
        ("FLUSHALL", false),
        ("SWAPDB 0 1; SWAPDB 0 1", true),
        ("SWAPDB 0 1", false),
        ("CONFIG SET fence-memory-ms 0; CONFIG SET fence-memory-ms 300000", true),
    ] {
        client.expect(&[
            ("FLUSHALL", "+OK"),
            ("SET other v", "+OK"),
            ("SETIFGREATER k a 7", "*2 :7 $-1"),
            ("DEL k", ":1"),
        ]);
        for request in request.split("; ") {
            let reply = client.call(request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
        let reply = client.call("SETIFGREATER k late 6");
        assert_eq!(reply, if is_known { "*2 :7 $-1" } else { "*2 :6 $-1" }, "{request}");
    }
}

#[test]
fn remembered_fences_are_used_memory_of_a_bounded_size_and_given_back() {
    let server = TestServer::start_with(&[("fence-memory-ms", "1000")]);
    let mut client = server.client();
    let used = |client: &mut Client| client.info("used_memory").parse::<i64>().expect("a number");
    client.call("SETIFGREATER k a 7");
    let before = used(&mut client);
    let write = |at: usize| [format!("SETIFGREATER key:{at} v 1"), format!("DEL key:{at}")];
    client.pipeline(&(0..20_000).flat_map(write).collect::<Vec<String>>());
    assert!((20_000 * 40..20_000 * 150).contains(&(used(&mut client) - before)), "{}", used(&mut client) - before);
    server.advance_ms(1001);
    assert!((used(&mut client) - before).abs() < 150_000, "{}", used(&mut client) - before);
}

/// Returns a statistic about the fences of removed keys.
fn remembered(client: &mut Client, name: &str) -> u64 {
    let info = client.call("INFO locks");
    let figure = info.split(' ').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    figure.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
}

#[test]
fn no_key_is_evicted_for_the_fences_of_removed_keys_with_long_names() {
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);
    let mut client = server.client();
    for number in 0..1000 {
        client.call(&format!("SET key:{number} {}", "v".repeat(1000)));
    }
    let used: u64 = client.info("used_memory").parse().expect("a number");
    assert_eq!(client.call(&format!("CONFIG SET maxmemory {}", used + (4 << 20))), "+OK");
    for number in 0..300 {
        let name = format!("{number}:{}", "n".repeat(200_000));
        client.call(&format!("SETIFGREATER {name} v 1"));
        client.call(&format!("DEL {name}"));
    }
    client.expect(&[("DBSIZE", ":1000"), ("SET more v", "+OK")]);
    assert_eq!(client.info("evicted_keys"), "0");
    let bytes = remembered(&mut client, "remembered_fences_bytes");
    assert!(bytes <= 4 << 20, "{bytes} bytes of names");
}

#[test]
fn a_key_that_is_written_and_deleted_again_and_again_takes_the_fence_of_no_other() {
    let server = TestServer::start();
    let mut client = server.client();
    let remove = |key: String, fence: usize| [format!("SETIFGREATER {key} v {fence}"), format!("DEL {key}")];
    client.pipeline(&(0..400).flat_map(|number| remove(format!("key:{number}"), 7)).collect::<Vec<String>>());
    client.pipeline(&(8..10_000).flat_map(|fence| remove("key:0".into(), fence)).collect::<Vec<String>>());
    assert_eq!(remembered(&mut client, "remembered_fences"), 400);
    for number in 1..400 {
        assert_eq!(client.call(&format!("SETIFGREATER key:{number} late 6")), "*2 :7 $-1");
    }
}

#[test]
fn wrong_requests_are_rejected_before_the_key_is_looked_at() {
    const WRONGTYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    const NO_FENCE: &str = "-ERR ETAG must be a numerical value greater than or equal to 0";
    let server = TestServer::start();
    server.client().expect(&[
        ("LPUSH list a", ":1"),
        ("SETIFGREATER list v x", NO_FENCE),
        ("SETIFGREATER list v -1", NO_FENCE),
        ("SETIFGREATER list v 9223372036854775808", NO_FENCE),
        ("SETIFGREATER list v 1.5", NO_FENCE),
        ("DELIFGREATER list -1", NO_FENCE),
        ("DELIFGREATER list -9223372036854775808", NO_FENCE),
        ("SETIFGREATER list v 1 EX 0", "-ERR invalid expire time in 'setifgreater' command"),
        ("SETIFGREATER list v 1 PX 9223372036854775807", "-ERR invalid expire time in 'setifgreater' command"),
        ("SETIFGREATER list v 1 EX x", "-ERR value is not an integer or out of range"),
        ("SETIFGREATER list v 1 EX", "-ERR syntax error"),
        ("SETIFGREATER list v 1 EX 1 PX 1", "-ERR syntax error"),
        ("SETIFGREATER list v 1 PXAT 1", "-ERR syntax error"),
        ("SETIFGREATER list v 1 KEEPTTL", "-ERR syntax error"),
        ("SETIFGREATER list v 1 NOGET NOGET", "-ERR syntax error"),
        ("SETIFGREATER list v", "-ERR wrong number of arguments for 'setifgreater' command"),
        ("DELIFGREATER list", "-ERR wrong number of arguments for 'delifgreater' command"),
        ("DELIFGREATER list 1 2", "-ERR wrong number of arguments for 'delifgreater' command"),
        ("SETIFGREATER list v 1", WRONGTYPE),
        ("DELIFGREATER list 1", WRONGTYPE),
    ]);
}

#[test]
fn the_ttl_is_kept_unless_another_one_is_given() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SETIFGREATER k a 1 PX 500", "*2 :1 $-1"),
        ("PTTL k", ":500"),
        ("SETIFGREATER k b 2", "*2 :2 $-1"),
        ("PTTL k", ":500"),
        ("SETIFGREATER k c 3 ex 9", "*2 :3 $-1"),
        ("TTL k", ":9"),
        ("SETIFGREATER k d 3 PX 1", "*2 :3 $1 c"),
        ("TTL k", ":9"),
    ]);
    server.advance_ms(9000);
    client.expect(&[("GET k", "$-1"), ("SETIFGREATER k late 1", "*2 :3 $-1")]);
}

#[test]
fn a_value_that_is_replaced_loses_its_fence_and_one_that_is_changed_in_place_keeps_it() {
    let server = TestServer::start_with(&[("databases", "4"), ("enable-debug-command", "yes")]);
    let mut client = server.client();
    let long = "x".repeat(20_000);
    for (request, kept) in [
        ("APPEND k 1", true),
        ("SETRANGE k 0 77", true),
        ("INCR k", true),
        ("INCRBYFLOAT k 0.5", true),
        ("INCREX k BYINT 5", true),
        ("SETBIT k 6 1", true),
        ("BITFIELD k SET u8 0 49", true),
        ("GETEX k EX 100", true),
        ("EXPIRE k 100", true),
        ("PERSIST k", true),
        ("DEBUG RELOAD", true),
        ("SWAPDB 0 0", true),
        ("SET k 1", false),
        ("SET k 1 KEEPTTL", false),
        ("SET k 1 XX", false),
        ("SETEX k 10 1", false),
        ("GETSET k 1", false),
        ("MSET k 1", false),
        ("MSETEX 1 k 1", false),
        ("BITOP NOT k k", false),
        ("COPY other k REPLACE", false),
        ("RENAME other k", false),
        ("RPUSH list 1; SORT list STORE k; DEL k; SET k 1", false),
        ("DEL k; SET k 1", false),
        ("RENAME k elsewhere; RENAME elsewhere k", false),
        ("MOVE k 1; SELECT 1; MOVE k 0; SELECT 0", false),
        ("FLUSHDB; SET k 1", false),
        ("FLUSHALL; SET k 1", false),
        ("PEXPIREAT k 1; SET k 1", false),
    ] {
        client.expect(&[("FLUSHALL", "+OK"), ("SET other 1", "+OK"), ("SETIFGREATER k 12 7", "*2 :7 $-1")]);
        for request in request.split("; ") {
            let reply = client.call(request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
        assert_eq!(fence_of(&mut client, "k"), if kept { 7 } else { 0 }, "{request}");
    }
    // A value with an allocation of its own is replaced by a new one when it is changed.
    client.expect(&[("DEL k", ":1"), (&format!("SETIFGREATER k {long} 7"), "*2 :7 $-1"), ("APPEND k y", ":20001")]);
    assert_eq!(fence_of(&mut client, "k"), 7);
}

#[test]
fn fences_move_with_the_keys_of_their_database_and_are_not_dumped() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SETIFGREATER k a 7", "*2 :7 $-1"),
        ("SETIFGREATER gone a 7 PX 5", "*2 :7 $-1"),
        ("SWAPDB 0 1", "+OK"),
        ("SETIFGREATER k new 1", "*2 :1 $-1"),
        ("COPY k copy", ":1"),
        ("COPY k k DB 2", ":1"),
        ("SELECT 1", "+OK"),
        ("SETIFGREATER k late 6", "*2 :7 $1 a"),
        ("COPY k copy", ":1"),
        ("SETIFGREATER copy new 1", "*2 :1 $-1"),
    ]);
    let dump = client.frame(&["DUMP", "k"]).as_bytes().expect("a dump").to_vec();
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK");
    client.expect(&[("SETIFGREATER restored new 1", "*2 :1 $-1")]);
    server.advance_ms(10);
    client.expect(&[("SETIFGREATER gone new 1", "*2 :7 $-1")]);
}

#[test]
fn a_late_holder_of_a_lock_cannot_write_any_more() {
    let server = TestServer::start();
    let (mut late, mut present) = (server.client(), server.client());
    let first = late.int("LOCK.ACQUIRE lock one PX 100");
    assert_eq!(late.call(&format!("SETIFGREATER file one {first}")), format!("*2 :{first} $-1"));
    server.advance_ms(100);
    let second = present.int("LOCK.ACQUIRE lock other PX 100");
    assert_eq!(present.call(&format!("SETIFGREATER file other {second}")), format!("*2 :{second} $-1"));
    assert_eq!(late.call(&format!("SETIFGREATER file late {first}")), format!("*2 :{second} $5 other"));
    assert_eq!(late.call(&format!("DELIFGREATER file {first}")), ":0");
}

#[test]
fn refused_writes_change_nothing_that_others_could_notice() {
    let server = TestServer::start_with(&[("notify-keyspace-events", "KA")]);
    let (mut client, mut events) = (server.client(), server.client());
    client.call("SETIFGREATER k a 5");
    assert_eq!(events.call("PSUBSCRIBE *"), "*3 $10 psubscribe $1 * :1");
    client.expect(&[
        ("WATCH k", "+OK"),
        ("SETIFGREATER k b 5", "*2 :5 $1 a"),
        ("DELIFGREATER k 5", ":0"),
        ("MULTI", "+OK"),
        ("SETIFGREATER k c 6 EX 10", "+QUEUED"),
        ("DELIFGREATER k 7", "+QUEUED"),
        ("EXEC", "*2 *2 :6 $-1 :1"),
    ]);
    for event in ["set", "expire", "del"] {
        let message = format!("*4 $8 pmessage $1 * $16 __keyspace@0__:k ${} {event}", event.len());
        assert_eq!(events.reply(), message);
    }
}

#[test]
fn a_user_needs_to_read_and_to_write_the_key() {
    const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("SETIFGREATER k secret 5", "*2 :5 $-1"),
        ("ACL SETUSER writer on nopass +@all %W~*", "+OK"),
        ("ACL SETUSER reader on nopass +@all %R~*", "+OK"),
        ("ACL SETUSER both on nopass -@all +@write %RW~*", "+OK"),
        ("AUTH writer any", "+OK"),
        ("SETIFGREATER k x 4", NO_KEY),
        ("DELIFGREATER k 4", NO_KEY),
        ("AUTH reader any", "+OK"),
        ("SETIFGREATER k x 4", NO_KEY),
        ("DELIFGREATER k 4", NO_KEY),
        ("AUTH both any", "+OK"),
        ("SETIFGREATER k x 4", "*2 :5 $6 secret"),
        ("DELIFGREATER k 6", ":1"),
    ]);
}

#[test]
fn fences_count_as_used_memory_and_take_none_when_they_are_gone() {
    let server = TestServer::start();
    let mut client = server.client();
    let used = |client: &mut Client| client.info("used_memory").parse::<i64>().expect("a number");
    let requests = |of: &dyn Fn(usize) -> String| (0..20_000).map(of).collect::<Vec<String>>();
    client.pipeline(&requests(&|at| format!("SET key:{at} value")));
    let plain = used(&mut client);
    client.pipeline(&requests(&|at| format!("SETIFGREATER key:{at} value 1")));
    let fenced = used(&mut client);
    assert!((20_000 * 32..20_000 * 100).contains(&(fenced - plain)), "{}", fenced - plain);
    client.pipeline(&requests(&|at| format!("SET key:{at} value")));
    let after = used(&mut client);
    assert!((after - plain).abs() < 100_000, "{}", after - plain);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_write_with_fences() {
    let server = TestServer::start();
    server.client().expect(&[
        ("EVAL return(redis.call('setifgreater',KEYS[1],'a','5')) 1 k", "*2 :5 $-1"),
        ("EVAL return(redis.call('setifgreater',KEYS[1],'b','5')) 1 k", "*2 :5 $1 a"),
    ]);
}

#[test]
fn writes_with_fences_are_logged_with_the_fence_and_the_deadline() {
    log::expect(
        &log::start(),
        &[
            ("SETIFGREATER k v 5", "MULTI; SET k v KEEPTTL; PING keylatch-fence:5 k; EXEC"),
            ("SETIFGREATER k w 5", ""),
            (
                "SETIFGREATER k w 6 PX 100",
                "MULTI; SET k w KEEPTTL; PING keylatch-fence:6 k; PEXPIREAT k 1700000000100; EXEC",
            ),
            ("SETIFGREATER k 1 007", ""),
            ("SETIFGREATER k 1 7 NOGET", "MULTI; SET k 1 KEEPTTL; PING keylatch-fence:7 k; EXEC"),
            ("INCRBYFLOAT k 1", "MULTI; SET k 2 PXAT 1700000000100; PING keylatch-fence:7 k; EXEC"),
            ("DELIFGREATER k 7", ""),
            ("DELIFGREATER k 8", "DEL k"),
            ("SETIFGREATER k late 7", ""),
        ],
    );
}
