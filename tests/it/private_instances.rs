//! Private instances: the clients of a user `ns-*` share one with each other and with no other client.

use std::collections::HashSet;
use std::thread;

use keylatch::Clock;

use crate::harness::{Client, TestServer, wait_until};

const TEST_MODE: (&str, &str) = ("test-mode", "yes");
/// Setting with which an empty private instance is removed at once.
const NO_LINGER: (&str, &str) = ("namespace-linger", "0");

fn start() -> TestServer {
    TestServer::start_on(Clock::system(), &[TEST_MODE])
}

/// Connects a client to the private instance of a user.
fn enter(server: &TestServer, user: &str) -> Client {
    let mut client = server.client();
    client.expect(&[(&format!("AUTH {user} any"), "+OK")]);
    client
}

fn enter3(server: &TestServer, user: &str) -> Client {
    let mut client = server.client();
    assert!(client.call(&format!("HELLO 3 AUTH {user} any")).contains("$5 proto :3"));
    client
}

/// Starts a server with a client in the main instance and one in each of two private ones.
fn three() -> (TestServer, Client, Client, Client) {
    let server = start();
    let (main, a, b) = (server.client(), enter(&server, "ns-a"), enter(&server, "ns-b"));
    (server, main, a, b)
}

/// Returns the number of private instances.
fn instances(server: &TestServer) -> usize {
    server.server().namespace().private_count()
}

/// Waits until this many clients are blocked in a client's instance.
fn await_blocked(client: &mut Client, count: &str) {
    wait_until(|| client.info("blocked_clients") == count);
}

#[test]
fn each_instance_has_keys_databases_and_a_version_of_its_own() {
    let (server, mut main, mut a, mut b) = three();
    main.expect(&[("SET k main", "+OK")]);
    a.expect(&[("GET k", "$-1"), ("SET k a", "+OK"), ("SELECT 3", "+OK"), ("SET k a3", "+OK"), ("DBSIZE", ":1")]);
    b.expect(&[("DBSIZE", ":0"), ("SET k b PX 100000", "+OK")]);
    main.expect(&[("GET k", "$4 main"), ("SELECT 3", "+OK"), ("GET k", "$-1")]);
    let mut again = enter(&server, "ns-a");
    again.expect(&[("GET k", "$1 a"), ("SWAPDB 0 3", "+OK"), ("GET k", "$2 a3"), ("MOVE k 5", ":1")]);
    b.expect(&[("GET k", "$1 b"), ("FLUSHALL", "+OK"), ("DBSIZE", ":0")]);
    a.expect(&[("SELECT 5", "+OK"), ("GET k", "$2 a3")]);
    assert_eq!(main.call("INFO keyspace").matches("db").count(), 1);
}

#[test]
fn databases_of_an_instance_are_unlimited_and_made_on_first_use() {
    let server = start();
    let mut client = enter(&server, "ns-a");
    for db in ["16", "99", "1000", "1064", "2147483647"] {
        client.expect(&[(&format!("SELECT {db}"), "+OK"), ("GET k", "$-1"), (&format!("SET k {db}"), "+OK")]);
    }
    client.expect(&[("SELECT 1000", "+OK"), ("GET k", "$4 1000"), ("SWAPDB 99 1064", "+OK"), ("PEXPIRE k 100", ":1")]);
    client.expect(&[("COPY k l DB 77", ":1"), ("MOVE k 5000", ":1"), ("DBSIZE", ":0"), ("SELECT 99", "+OK")]);
    client.expect(&[("GET k", "$4 1064"), ("SELECT 5000", "+OK"), ("GET k", "$4 1000"), ("SELECT -1", OUT_OF_RANGE)]);
    let info = client.call("INFO keyspace");
    for db in ["db16:", "db77:", "db99:", "db1064:", "db5000:", "db2147483647:"] {
        assert!(info.contains(db), "{db} in {info}");
    }
    client.call("TEST.TIME ADVANCE 100");
    client.expect(&[("DBSIZE", ":0"), ("FLUSHALL", "+OK"), ("SELECT 16", "+OK"), ("DBSIZE", ":0")]);
    client.expect(&[("MULTI", "+OK"), ("SELECT 300", "+QUEUED"), ("SET k 1", "+QUEUED"), ("EXEC", "*2 +OK +OK")]);
    client.expect(&[("GET k", "$1 1"), ("CLIENT KILL TYPE pubsub", ":0")]);
    server.client().expect(&[("SELECT 16", OUT_OF_RANGE), ("SWAPDB 0 16", OUT_OF_RANGE)]);
    // Back in the main instance, a database that it lacks is not selected.
    client.expect(&[("AUTH default x", "+OK"), ("SET k main", "+OK"), ("SELECT 0", "+OK"), ("GET k", "$4 main")]);
}

const OUT_OF_RANGE: &str = "-ERR DB index is out of range";
const WRONG_PASSWORD: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

#[test]
fn an_instance_has_at_most_a_thousand_databases_beyond_the_first_ones() {
    let server = start();
    let mut client = enter(&server, "ns-a");
    let requests: String = (16..1016).map(|db| format!("SELECT {db}\r\nSET k {db}\r\n")).collect();
    client.send(requests.as_bytes());
    (0..2000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    client.expect(&[("SELECT 1016", OUT_OF_RANGE), ("GET k", "$4 1015"), ("SELECT 0", "+OK"), ("PING", "+PONG")]);
    assert_eq!(client.call("INFO keyspace").matches("keys=1,").count(), 1000);
}

#[test]
fn any_password_enters_and_another_user_leads_back() {
    let server = TestServer::start_on(Clock::system(), &[TEST_MODE, ("requirepass", "secret")]);
    let mut client = server.client();
    client.expect(&[("GET k", "-NOAUTH Authentication required."), ("AUTH ns-a", WRONG_PASSWORD)]);
    client.expect(&[("AUTH ns-a x", "+OK"), ("ACL WHOAMI", "$4 ns-a"), ("SET k a", "+OK"), ("AUTH ns-a y", "+OK")]);
    client.expect(&[("GET k", "$1 a"), ("AUTH ns-b x", "+OK"), ("GET k", "$-1"), ("ACL WHOAMI", "$4 ns-b")]);
    client.expect(&[("AUTH default wrong", WRONG_PASSWORD), ("ACL WHOAMI", "$4 ns-b"), ("AUTH secret", "+OK")]);
    client.expect(&[("ACL WHOAMI", "$7 default"), ("SET k main", "+OK"), ("AUTH ns-a \"\"", "+OK"), ("GET k", "$1 a")]);
    // RESET logs out, and so returns to the main instance, too.
    client.expect(&[("RESET", "+RESET"), ("GET k", "-NOAUTH Authentication required."), ("AUTH ns-a x", "+OK")]);
    client.expect(&[("HELLO 2 AUTH default wrong", WRONG_PASSWORD), ("GET k", "$1 a")]);
    assert!(client.call("HELLO 3 AUTH default secret SETNAME me").contains("proto :3"));
    client.expect(&[("GET k", "$4 main"), ("CLIENT GETNAME", "$2 me")]);
    assert!(client.call("HELLO 2 AUTH ns-a x").contains("proto :2"));
    client.expect(&[("CLIENT GETNAME", "$2 me"), ("GET k", "$1 a")]);
    for name in [format!("ns-{}", "x".repeat(126)), "ns-a b".to_owned()] {
        let refused = "-ERR the name of a private instance has at most 128 bytes and no spaces";
        assert_eq!(client.call_args(&["AUTH", &name, "x"]), refused);
    }
}

#[test]
fn without_test_mode_such_a_user_is_unknown() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("AUTH ns-a x", WRONG_PASSWORD), ("HELLO 3 AUTH ns-a x", WRONG_PASSWORD)]);
    client.expect(&[("ACL SETUSER ns-a on >x allcommands", "+OK"), ("AUTH ns-a x", "+OK")]);
}

#[test]
fn requests_after_auth_in_one_pipeline_are_executed_in_the_new_instance() {
    let server = start();
    let mut client = server.client();
    client.send(b"SET k main\r\nAUTH ns-a x\r\nSET k a\r\nGET k\r\nAUTH ns-b x\r\nGET k\r\nRESET\r\nGET k\r\n");
    let replies: Vec<String> = (0..8).map(|_| client.reply()).collect();
    assert_eq!(replies, ["+OK", "+OK", "+OK", "$1 a", "+OK", "$-1", "+RESET", "$4 main"]);
}

#[test]
fn an_instance_is_not_entered_in_a_transaction() {
    let (_server, mut main, mut a, _b) = three();
    let refused = "-ERR a private instance is not entered or left in a transaction";
    main.expect(&[("MULTI", "+OK"), ("AUTH ns-a x", "+QUEUED"), ("SET k 1", "+QUEUED")]);
    main.expect(&[("EXEC", &format!("*2 {refused} +OK")), ("GET k", "$1 1")]);
    a.expect(&[("MULTI", "+OK"), ("HELLO 2 AUTH ns-b x SETNAME b", "+QUEUED"), ("SET k 2", "+QUEUED")]);
    a.expect(&[("EXEC", &format!("*2 {refused} +OK")), ("GET k", "$1 2"), ("CLIENT GETNAME", "$-1")]);
    main.expect(&[("GET k", "$1 1")]);
}

#[test]
fn what_a_connection_has_begun_ends_when_it_enters_another_instance() {
    let server = start();
    let (mut other, mut client) = (server.client(), server.client3());
    client.call("SUBSCRIBE c");
    client.expect(&[("WATCH k", "+OK"), ("CLIENT TRACKING on", "+OK")]);
    client.int("LOCK.ACQUIRE l token SESSION");
    other.expect(&[("EXISTS l", ":1")]);
    client.expect(&[("AUTH ns-a x", "+OK")]);
    other.expect(&[("EXISTS l", ":0"), ("PUBLISH c m", ":0"), ("SET k v", "+OK")]);
    assert_eq!(other.info("tracking_clients"), "0");
    client.expect(&[("MULTI", "+OK"), ("GET k", "+QUEUED"), ("EXEC", "*1 _"), ("PING", "+PONG")]);
}

#[test]
fn channels_and_keyspace_events_stay_inside() {
    let (_server, mut main, mut a, mut b) = three();
    main.expect(&[("CONFIG SET notify-keyspace-events KEA", "+OK")]);
    a.call("SUBSCRIBE c");
    a.call("PSUBSCRIBE __key*");
    main.expect(&[("PUBLISH c m", ":0"), ("SET k v", "+OK"), ("PUBSUB NUMSUB c", "*2 $1 c :0")]);
    b.expect(&[("PUBLISH c m", ":0"), ("SET k v", "+OK"), ("PUBSUB CHANNELS", "*0"), ("PUBSUB NUMPAT", ":0")]);
    let mut writer = enter(&_server, "ns-a");
    writer.expect(&[("PUBLISH c mine", ":1"), ("SELECT 2000", "+OK"), ("SET own v", "+OK")]);
    assert_eq!(a.reply(), "*3 $7 message $1 c $4 mine");
    assert_eq!(a.reply(), "*4 $8 pmessage $6 __key* $21 __keyspace@2000__:own $3 set");
}

#[test]
fn each_instance_has_a_clock_of_its_own() {
    let (_server, mut main, mut a, mut b) = three();
    for client in [&mut main, &mut a, &mut b] {
        client.call("TEST.TIME FREEZE");
        client.expect(&[("SET k v PX 1000", "+OK")]);
    }
    let (main_ms, b_ms) = (main.int("TEST.TIME GET"), b.int("TEST.TIME GET"));
    a.call("TEST.TIME ADVANCE 86400000");
    a.expect(&[("EXISTS k", ":0")]);
    main.expect(&[("PTTL k", ":1000"), ("TEST.TIME GET", &format!(":{main_ms}"))]);
    b.expect(&[("PTTL k", ":1000"), ("TEST.TIME SET 86400000", ":86400000"), ("TEST.TIME GET", ":86400000")]);
    main.expect(&[("TEST.TIME GET", &format!(":{main_ms}"))]);
    b.expect(&[(&format!("TEST.TIME SET {b_ms}"), &format!(":{b_ms}"))]);
    assert!(a.int("TEST.TIME GET") > main_ms + 86_000_000);
}

#[test]
fn a_running_clock_of_an_instance_expires_keys_by_itself() {
    let server = start();
    let mut client = enter(&server, "ns-a");
    client.expect(&[("SET k v PX 1", "+OK")]);
    wait_until(|| client.info("expired_keys") == "1");
}

#[test]
fn faults_and_calls_belong_to_their_instance() {
    let (_server, mut main, mut a, mut b) = three();
    a.expect(&[("TEST.FAULT ADD GET ERROR mine", ":1"), ("GET k", "-mine")]);
    main.expect(&[("GET k", "$-1"), ("TEST.FAULT LIST", "*0")]);
    b.expect(&[("GET k", "$-1"), ("TEST.FAULT CLEAR", "+OK")]);
    a.expect(&[("GET k", "-mine")]);
    let calls = a.call("TEST.CALLS");
    assert_eq!((calls.matches("$3 GET").count(), calls.matches("AUTH").count()), (2, 0), "{calls}");
    a.expect(&[("TEST.CALLS RESET", "+OK"), ("TEST.CALLS", "*0")]);
    assert_eq!(b.call("TEST.CALLS").matches("$3 GET").count(), 1);
    assert_eq!(main.call("TEST.CALLS").matches("$4 AUTH").count(), 2);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_and_functions_stay_inside() {
    const LIBRARY: &str = "#!lua name=lib\nredis.register_function('f', function() return 'mine' end)";
    let (server, mut main, mut a, mut b) = three();
    let sha = a.call_args(&["SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])"]).replace("$40 ", "");
    a.call_args(&["FUNCTION", "LOAD", LIBRARY]);
    a.expect(&[("FCALL f 0", "$4 mine"), ("SET k a", "+OK"), (&format!("EVALSHA {sha} 1 k"), "$1 a")]);
    for client in [&mut main, &mut b] {
        client.expect(&[(&format!("SCRIPT EXISTS {sha}"), "*1 :0"), ("FCALL f 0", "-ERR Function not found")]);
        client.expect(&[("SCRIPT FLUSH", "+OK"), ("FUNCTION FLUSH", "+OK")]);
    }
    a.expect(&[("FCALL f 0", "$4 mine"), (&format!("SCRIPT EXISTS {sha}"), "*1 :1")]);
    // An endless script keeps its own instance busy, and no other.
    main.expect(&[("CONFIG SET busy-reply-threshold 1", "+OK")]);
    let mut busy = enter(&server, "ns-a");
    busy.send(b"EVAL \"while true do end\" 0\r\n");
    let is_busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    wait_until(|| a.call("GET k") == is_busy);
    main.expect(&[("SET k v", "+OK"), ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now.")]);
    b.expect(&[("SET k v", "+OK")]);
    a.expect(&[("SCRIPT KILL", "+OK")]);
    assert!(busy.reply().contains("Script killed by user"));
}

#[cfg(feature = "lua")]
#[test]
fn an_instance_with_a_busy_script_is_entered_and_left_all_the_same() {
    const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    let (server, mut main, mut a, mut b) = three();
    main.expect(&[("CONFIG SET busy-reply-threshold 1", "+OK")]);
    let mut busy = enter(&server, "ns-a");
    busy.send(b"EVAL \"while true do end\" 0\r\n");
    wait_until(|| a.call("GET k") == BUSY);
    drop((busy, a)); // no client is left that could end it
    let mut late = enter(&server, "ns-a");
    late.expect(&[("GET k", BUSY), ("RESET", "+RESET"), ("GET k", "$-1"), ("AUTH ns-a x", "+OK"), ("GET k", BUSY)]);
    late.expect(&[("AUTH default x", "+OK")]);
    enter3(&server, "ns-a").expect(&[("SCRIPT KILL", "+OK")]);
    let mut busy = server.client();
    busy.send(b"EVAL \"while true do end\" 0\r\n");
    wait_until(|| main.call("GET k") == BUSY);
    b.expect(&[("AUTH default x", "+OK"), ("GET k", BUSY), ("AUTH ns-b x", "+OK"), ("GET k", "$-1")]);
    b.expect(&[("RESET", "+RESET"), ("SCRIPT KILL", "+OK")]);
    assert!(busy.reply().contains("Script killed by user"));
}

#[test]
fn tracking_and_monitor_see_their_own_instance() {
    let (server, mut main, mut a, mut b) = three();
    let mut tracker = enter3(&server, "ns-a");
    tracker.expect(&[("CLIENT TRACKING on", "+OK"), ("GET k", "_")]);
    let mut monitor = enter(&server, "ns-a");
    monitor.expect(&[("MONITOR", "+OK")]);
    main.expect(&[("SET k v", "+OK")]);
    b.expect(&[("SET k v", "+OK"), ("FLUSHALL", "+OK")]);
    a.expect(&[("SET k mine", "+OK")]);
    assert_eq!(tracker.reply(), ">2 $10 invalidate *1 $1 k");
    assert!(monitor.reply().contains("\"SET\" \"k\" \"mine\""));
    let id = tracker.int("CLIENT ID");
    let missing = "-ERR The client ID you want redirect to does not exist";
    main.expect(&[(&format!("CLIENT TRACKING on REDIRECT {id}"), missing)]);
}

#[test]
fn client_commands_reach_the_clients_of_their_instance() {
    let (_server, mut main, mut a, mut b) = three();
    let ids: HashSet<i64> = [&mut main, &mut a, &mut b].map(|client| client.int("CLIENT ID")).into();
    assert_eq!(ids.len(), 3);
    for client in [&mut main, &mut a, &mut b] {
        assert_eq!(
            (client.call("CLIENT LIST").matches("id=").count(), client.info("connected_clients")),
            (1, "1".into())
        );
    }
    let (main_id, b_id) = (main.int("CLIENT ID"), b.int("CLIENT ID"));
    assert!(a.call("CLIENT LIST").contains(" user=ns-a "));
    a.expect(&[(&format!("CLIENT KILL ID {main_id}"), ":0"), ("CLIENT KILL SKIPME yes", ":0")]);
    b.send(b"BLPOP k 0\r\n");
    a.expect(&[(&format!("CLIENT UNBLOCK {b_id}"), ":0"), ("CLIENT PAUSE 100000 WRITE", "+OK")]);
    main.expect(&[("SET k v", "+OK")]);
    a.expect(&[("CLIENT UNPAUSE", "+OK"), ("GET k", "$-1")]);
    let mut pusher = enter(&_server, "ns-b");
    await_blocked(&mut pusher, "1");
    pusher.expect(&[("RPUSH k v", ":1")]);
    assert_eq!(b.reply(), "*2 $1 k $1 v");
}

#[test]
fn watched_keys_are_those_of_the_instance() {
    let (_server, mut main, mut a, mut b) = three();
    a.expect(&[("WATCH k", "+OK"), ("MULTI", "+OK"), ("SET k a", "+QUEUED")]);
    main.expect(&[("SET k main", "+OK")]);
    b.expect(&[("FLUSHALL", "+OK")]);
    a.expect(&[("EXEC", "*1 +OK"), ("WATCH k", "+OK"), ("MULTI", "+OK"), ("SET k a", "+QUEUED")]);
    enter(&_server, "ns-a").expect(&[("FLUSHALL", "+OK")]);
    a.expect(&[("EXEC", "*-1")]);
}

#[test]
fn figures_and_logs_count_only_the_own_calls() {
    let (_server, mut main, mut a, _b) = three();
    main.expect(&[
        ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
        ("HGET k", "-ERR wrong number of arguments for 'hget' command"),
    ]);
    (0..10).for_each(|_| main.expect(&[("INCR k", ":1"), ("DEL k", ":1")]));
    let stats = a.call("INFO commandstats");
    assert!(!stats.contains("cmdstat_incr") && !stats.contains("cmdstat_auth"), "{stats}");
    assert_eq!((a.info("total_connections_received"), a.info("keyspace_hits")), ("1".into(), "0".into()));
    assert!(!a.call("INFO errorstats").contains("errorstat_ERR"));
    assert!(!a.call("SLOWLOG GET -1").contains("INCR"));
    a.expect(&[("CONFIG RESETSTAT", "+OK"), ("SLOWLOG RESET", "+OK")]);
    assert!(main.call("INFO commandstats").contains("cmdstat_incr:calls=10"));
    assert!(main.int("SLOWLOG LEN") > 0);
}

#[test]
fn locks_and_fences_are_those_of_the_instance() {
    let (_server, mut main, mut a, mut b) = three();
    for client in [&mut main, &mut a, &mut b] {
        assert!(client.int("LOCK.ACQUIRE l token PX 100000") > 0, "each gets the lock");
    }
    assert_eq!(a.call("LOCK.LIST").matches("token").count(), main.call("LOCK.LIST").matches("token").count());
    a.expect(&[("LOCK.RELEASE l token", ":1"), ("EXISTS l", ":0")]);
    main.expect(&[("EXISTS l", ":1")]);
    b.expect(&[("EXISTS l", ":1")]);
}

#[test]
fn what_is_of_the_process_cannot_be_changed_from_a_private_instance() {
    let server = TestServer::start_on(Clock::system(), &[TEST_MODE, ("enable-debug-command", "local")]);
    let (mut main, mut a) = (server.client(), enter(&server, "ns-a"));
    let refused = "-ERR this command is about the whole process, which a private instance cannot change";
    for command in ["CONFIG REWRITE", "SHUTDOWN NOSAVE", "ACL LOAD", "ACL SAVE"] {
        a.expect(&[(command, refused)]);
    }
    for command in ["DEBUG PANIC", "DEBUG SEGFAULT", "DEBUG INJECT-PANIC SWEEP", "DEBUG CONFIG-REWRITE-FORCE-ALL"] {
        a.expect(&[(command, refused)]);
    }
    a.expect(&[("MULTI", "+OK"), ("SET k v", "+QUEUED"), ("CONFIG REWRITE", refused)]);
    a.expect(&[("EXEC", "-EXECABORT Transaction discarded because of previous errors."), ("GET k", "$-1")]);
    let of_process = |name: &str| {
        let reason = "a private instance cannot change a setting of the whole process";
        format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    for name in ["port", "maxclients", "requirepass", "loglevel", "protected-mode", "tls-port", "hz"] {
        a.expect(&[(&format!("CONFIG SET timeout 7 {name} 0"), &of_process(name))]);
    }
    a.expect(&[("CONFIG GET timeout", "*2 $7 timeout $1 0"), ("CONFIG SET port x", &of_process("port"))]);
    main.expect(&[("CONFIG SET maxclients 99", "+OK")]);
    a.expect(&[("CONFIG GET maxclients", "*2 $10 maxclients $2 99")]);
}

#[test]
fn an_instance_follows_the_settings_of_the_process_but_for_those_that_it_has_changed() {
    let (server, mut main, mut a, mut b) = three();
    a.expect(&[("CONFIG SET maxmemory 1mb hash-max-listpack-entries 1", "+OK"), ("HSET h a 1 b 2", ":2")]);
    a.expect(&[("OBJECT ENCODING h", "$9 hashtable"), ("CONFIG GET maxmemory", "*2 $9 maxmemory $7 1048576")]);
    let mut again = enter(&server, "ns-a");
    again.expect(&[("HSET g a 1 b 2", ":2"), ("OBJECT ENCODING g", "$9 hashtable")]);
    for client in [&mut main, &mut b] {
        client.expect(&[("CONFIG GET maxmemory", "*2 $9 maxmemory $1 0"), ("HSET h a 1 b 2", ":2")]);
        client.expect(&[("OBJECT ENCODING h", "$8 listpack")]);
    }
    main.expect(&[("CONFIG SET maxmemory 2mb hash-max-listpack-value 2", "+OK")]);
    a.expect(&[("CONFIG GET maxmemory", "*2 $9 maxmemory $7 1048576")]);
    for client in [&mut a, &mut b] {
        client.expect(&[("CONFIG GET hash-max-listpack-value", "*2 $23 hash-max-listpack-value $1 2")]);
    }
    assert_eq!((a.info("maxmemory"), b.info("maxmemory")), ("1048576".into(), "2097152".into()));
    let mut c = enter(&server, "ns-c");
    c.expect(&[("CONFIG GET maxmemory", "*2 $9 maxmemory $7 2097152")]);
    // A connection that enters another instance uses the settings of that one.
    c.expect(&[("CONFIG SET hash-max-listpack-entries 0", "+OK"), ("AUTH ns-b x", "+OK"), ("HSET f a 1", ":1")]);
    c.expect(&[("OBJECT ENCODING f", "$8 listpack"), ("AUTH ns-c x", "+OK"), ("HSET f a 1", ":1")]);
    c.expect(&[("OBJECT ENCODING f", "$9 hashtable"), ("AUTH default x", "+OK"), ("HSET f a 1", ":1")]);
    c.expect(&[("OBJECT ENCODING f", "$8 listpack")]);
}

#[test]
fn events_and_logs_are_switched_on_for_an_instance_alone() {
    let (server, mut main, mut a, mut b) = three();
    let mut listener = enter(&server, "ns-a");
    listener.call("PSUBSCRIBE __key*");
    a.expect(&[("CONFIG SET notify-keyspace-events K$ slowlog-log-slower-than 0", "+OK"), ("SET k v", "+OK")]);
    assert_eq!(listener.reply(), "*4 $8 pmessage $6 __key* $16 __keyspace@0__:k $3 set");
    for client in [&mut main, &mut b] {
        client.call("PSUBSCRIBE __key*");
        client.expect(&[("PING", "*2 $4 pong $0 ")]);
    }
    let (mut other, mut writer) = (enter(&server, "ns-b"), server.client());
    other.expect(&[("SET k v", "+OK"), ("SLOWLOG LEN", ":0")]);
    writer.expect(&[("SET k v", "+OK"), ("SLOWLOG LEN", ":0")]);
    assert!(a.int("SLOWLOG LEN") > 0);
    for client in [&mut main, &mut b] {
        client.expect(&[("PING", "*2 $4 pong $0 ")]);
    }
    a.expect(&[("CONFIG SET slowlog-max-len 0", "+OK"), ("SLOWLOG LEN", ":0"), ("CONFIG RESETSTAT", "+OK")]);
}

/// Covers the commands that client libraries and frameworks send when they start.
#[test]
fn the_first_calls_of_frameworks_succeed_in_a_private_instance() {
    let server = start();
    let starts: &[(&str, &[&str])] = &[
        (
            "Spring Session",
            &[
                "CONFIG GET notify-keyspace-events",
                "CONFIG SET notify-keyspace-events Egx",
                "PSUBSCRIBE __keyevent@0__:del __keyevent@0__:expired spring:session:event:0:created:*",
            ],
        ),
        (
            "Socket.IO",
            &["CLIENT SETNAME socket.io", "INFO", "PSUBSCRIBE socket.io#/#*", "SUBSCRIBE socket.io-request#/#"],
        ),
        ("Laravel Echo", &["CLIENT SETNAME echo", "INFO", "CONFIG SET notify-keyspace-events Ex", "PSUBSCRIBE *"]),
        (
            "Celery",
            &[
                "CLIENT SETINFO LIB-NAME redis-py",
                "CLIENT SETINFO LIB-VER 6.0",
                "INFO",
                "SADD _kombu.binding.celery x",
                "LPUSH celery task",
                "BRPOP celery unacked 1",
                "SUBSCRIBE /0.celery.pidbox",
            ],
        ),
        (
            "BullMQ",
            &[
                "INFO",
                "CLIENT SETNAME bull:cXVldWU=",
                "CONFIG GET maxmemory-policy",
                "CONFIG SET maxmemory-policy noeviction",
            ],
        ),
        (
            "Sidekiq",
            &[
                "CLIENT SETNAME Sidekiq",
                "INFO",
                "CONFIG GET maxmemory-policy",
                "CONFIG GET maxmemory",
                "SMEMBERS queues",
            ],
        ),
        (
            "Lettuce",
            &[
                "CLIENT SETINFO lib-name Lettuce",
                "COMMAND",
                "CLIENT TRACKING ON",
                "CONFIG SET lazyfree-lazy-eviction yes",
            ],
        ),
        (
            "test containers",
            &["CONFIG SET appendonly no", "CONFIG SET timeout 0 slowlog-log-slower-than -1", "FLUSHALL"],
        ),
    ];
    for (at, (framework, commands)) in starts.iter().enumerate() {
        let mut client = enter3(&server, &format!("ns-{at}"));
        for command in *commands {
            let reply = client.call(command);
            assert!(!reply.starts_with('-'), "{framework}: {command}: {reply}");
        }
    }
    assert_eq!(enter(&server, "ns-tests").call_args(&["CONFIG", "SET", "save", "", "appendonly", "no"]), "+OK");
    #[cfg(feature = "lua")]
    {
        let mut client = enter(&server, "ns-scripts");
        let sha = client.call_args(&["SCRIPT", "LOAD", "return 1"]);
        let sha = sha.rsplit(' ').next().expect("the digest");
        client.expect(&[(&format!("EVALSHA {sha} 0"), ":1")]);
    }
}

#[test]
fn users_are_those_of_the_instance() {
    let (_server, mut main, mut a, mut b) = three();
    a.expect(&[("ACL SETUSER alice on nopass", "+OK"), ("ACL USERS", "*3 $5 alice $7 default $4 ns-a")]);
    main.expect(&[("ACL USERS", "*1 $7 default"), ("ACL SETUSER bob on nopass allcommands", "+OK")]);
    b.expect(&[("ACL USERS", "*2 $7 default $4 ns-b"), ("AUTH bob x", "+OK"), ("ACL WHOAMI", "$3 bob")]);
    a.expect(&[("AUTH alice x", WRONG_PASSWORD)]);
    // The user of the instance needs a password once it has one.
    a.expect(&[("ACL SETUSER ns-a resetpass >secret", "+OK"), ("AUTH ns-a x", WRONG_PASSWORD)]);
    main.expect(&[("AUTH ns-a x", WRONG_PASSWORD), ("SET k main", "+OK"), ("AUTH ns-a secret", "+OK")]);
    main.expect(&[("ACL WHOAMI", "$4 ns-a"), ("GET k", "$-1"), ("ACL SETUSER ns-a off", "+OK")]);
    main.expect(&[("AUTH ns-a secret", WRONG_PASSWORD), ("ACL WHOAMI", "$4 ns-a"), ("RESET", "+RESET")]);
    main.expect(&[("GET k", "$4 main"), ("AUTH ns-a secret", WRONG_PASSWORD), ("GET k", "$4 main")]);
    let log = main.call("ACL LOG");
    assert!(log.contains("$4 auth $7 context $8 toplevel $6 object $4 AUTH $8 username $4 ns-a"), "{log}");
    // A user that has deleted itself exists again for the next client.
    a.send(b"ACL DELUSER ns-a\r\n");
    assert_eq!(a.reply(), ":1");
    enter(&_server, "ns-a").expect(&[("ACL WHOAMI", "$4 ns-a")]);
}

#[test]
fn maxclients_counts_the_clients_of_all_instances() {
    let server = TestServer::start_on(Clock::system(), &[TEST_MODE, ("maxclients", "2")]);
    let (mut a, mut b) = (enter(&server, "ns-a"), enter(&server, "ns-b"));
    assert_eq!(server.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    a.expect(&[("AUTH ns-b x", "+OK"), ("RESET", "+RESET")]);
    b.send(b"QUIT\r\n");
    b.read_to_end();
    wait_until(|| server.client().call("PING") == "+PONG");
}

#[test]
fn an_instance_outlives_its_connections_for_the_time_of_namespace_linger() {
    let server = TestServer::start_on(Clock::system(), &[TEST_MODE, ("namespace-linger", "2147483647")]);
    enter(&server, "ns-a").expect(&[("SET k a", "+OK")]);
    let mut client = server.client();
    wait_until(|| client.info("connected_clients") == "1" && instances(&server) == 1);
    enter(&server, "ns-a").expect(&[("GET k", "$1 a"), ("TEST.FAULT ADD GET DROP COUNT 1", ":1")]);
    let mut client = enter(&server, "ns-a");
    client.send(b"GET k\r\n");
    assert_eq!(client.read_to_end(), b"");
    enter(&server, "ns-a").expect(&[("GET k", "$1 a")]);
}

#[test]
fn an_instance_is_dropped_once_nobody_has_been_in_it_for_that_time() {
    let server = TestServer::start_on(Clock::system(), &[TEST_MODE, NO_LINGER]);
    let (mut stays, mut goes) = (enter(&server, "ns-a"), enter(&server, "ns-b"));
    stays.expect(&[("SET k a", "+OK")]);
    goes.expect(&[("SET k b", "+OK")]);
    assert_eq!(instances(&server), 2);
    drop(goes);
    wait_until(|| instances(&server) == 1);
    enter(&server, "ns-b").expect(&[("GET k", "$-1")]);
    stays.expect(&[("GET k", "$1 a"), ("AUTH ns-c x", "+OK")]);
    wait_until(|| instances(&server) == 1);
    stays.expect(&[("RESET", "+RESET")]);
    wait_until(|| instances(&server) == 0);
}

#[test]
fn a_stopping_server_closes_the_connections_of_all_instances() {
    let (server, mut main, mut a, mut b) = three();
    b.send(b"BLPOP k 0\r\n");
    main.send(b"SHUTDOWN NOSAVE\r\n");
    for client in [&mut main, &mut a, &mut b] {
        assert_eq!(client.read_to_end(), b"");
    }
    drop(server);
}

#[test]
fn two_hundred_workers_share_a_process_without_interference() {
    const WORKERS: usize = 200;
    let server = TestServer::start_with_workers(builder(), 2);
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let server = &server;
            scope.spawn(move || work(server, worker));
        }
    });
    server.client().expect(&[("DBSIZE", ":0"), ("TEST.FAULT LIST", "*0")]);
    assert_eq!(instances(&server), WORKERS);
}

fn builder() -> keylatch::Builder {
    keylatch::Server::builder().test_mode().set("namespace-linger", 2_147_483_647u32)
}

/// Performs the work of one worker: each has another order of times, with other faults and values, all under the same
/// names.
fn work(server: &TestServer, worker: usize) {
    let mut client = enter(server, &format!("ns-worker-{worker}"));
    client.call("TEST.TIME FREEZE");
    client.expect(&[("TEST.TIME SET 2000000000000", ":2000000000000"), ("DBSIZE", ":0")]);
    for round in 1..=5u64 {
        let ms = 1000 + worker as u64 * 10 + round;
        client.expect(&[(&format!("SET k {worker} PX {ms}"), "+OK"), ("INCR count", &format!(":{round}"))]);
        client.call(&format!("TEST.TIME ADVANCE {}", ms - 1));
        client.expect(&[("PTTL k", ":1"), ("GET k", &format!("${} {worker}", worker.to_string().len()))]);
        client.call("TEST.TIME ADVANCE 1");
        let fault = format!("TEST.FAULT ADD GET ERROR FAULT-{worker} COUNT 1");
        client.expect(&[("EXISTS k", ":0"), (&fault, &format!(":{round}")), ("GET k", &format!("-FAULT-{worker}"))]);
        client.expect(&[("GET k", "$-1")]);
    }
    client.expect(&[("GET count", "$1 5"), ("DBSIZE", ":1")]);
    assert_eq!(client.call("CLIENT LIST").matches("id=").count(), 1);
}

#[test]
fn a_client_takes_its_database_and_its_modes_into_another_instance() {
    let server = start();
    let (mut client, mut other) = (server.client(), enter(&server, "ns-a"));
    client.expect(&[("SELECT 3", "+OK"), ("CLIENT NO-TOUCH ON", "+OK"), ("AUTH ns-a any", "+OK"), ("SET k v", "+OK")]);
    let line = client.call("CLIENT INFO");
    assert!(line.contains(" db=3 ") && line.contains(" flags=T "), "{line}");
    other.expect(&[("EXISTS k", ":0"), ("SELECT 3", "+OK"), ("EXISTS k", ":1")]);
}

#[test]
fn a_client_stays_exempt_from_eviction_in_another_instance() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("CLIENT NO-EVICT ON", "+OK"), ("AUTH ns-a any", "+OK")]);
    let line = client.call("CLIENT INFO");
    assert!(line.contains(" flags=e "), "{line}");
}
