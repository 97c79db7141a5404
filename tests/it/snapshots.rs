//! TEST.SNAPSHOT and TEST.RESTORE: back to a state between tests.

use crate::differential::random::Random;
use crate::harness::{Client, TestServer, wait_until};
use crate::log;

/// Starts a server in test mode, on a manual clock.
pub(crate) fn start() -> TestServer {
    start_with(&[])
}

pub(crate) fn start_with(settings: &[(&str, &str)]) -> TestServer {
    let server = TestServer::start_with(&[&[("test-mode", "yes"), ("enable-debug-command", "yes")], settings].concat());
    server.server().set_wall_ms(log::BEGIN_MS);
    server
}

/// Returns the visible state of the keys of all databases, with their TTLs, fields and fences.
pub(crate) fn state(server: &TestServer) -> (String, Vec<[String; 3]>) {
    let mut client = server.client();
    let keys = (0..3).flat_map(|db| log::keys(&mut client, db)).collect();
    (client.call("DEBUG DIGEST"), keys)
}

/// Fills a server with keys of all types.
pub(crate) fn fill(client: &mut Client) {
    let big = "x".repeat(100_000);
    client.expect(&[
        ("SET text v", "+OK"),
        ("SET number 7 PX 100000", "+OK"),
        ("SETIFGREATER fenced v 12", "*2 :12 $-1"),
        ("RPUSH list a b c", ":3"),
        ("SADD set a b 3", ":3"),
        ("SADD numbers 1 2 3", ":3"),
        ("ZADD zset 1 a 2.5 b", ":2"),
        ("HSET hash f 1 g 2", ":2"),
        ("HPEXPIRE hash 50000 FIELDS 1 f", "*1 :1"),
        ("PEXPIRE hash 90000", ":1"),
        ("XADD stream 1-1 f v", "$3 1-1"),
        ("XGROUP CREATE stream g 0", "+OK"),
        ("PFADD hll a b", ":1"),
        ("SETBIT bits 9 1", ":0"),
        ("GEOADD geo 1 2 here", ":1"),
    ]);
    client.call(&format!("SET big {big}"));
    for at in 0..300 {
        client.call(&format!("RPUSH list:big {at}-{}", "y".repeat(40)));
        client.call(&format!("SADD set:big {at}-{}", "y".repeat(80)));
        client.call(&format!("ZADD zset:big {at} {at}-{}", "y".repeat(80)));
        client.call(&format!("HSET hash:big {at} {}", "y".repeat(80)));
        client.call(&format!("XADD stream:big * {at} {}", "y".repeat(80)));
    }
    client.expect(&[
        ("HPEXPIRE hash:big 70000 FIELDS 1 7", "*1 :1"),
        ("SELECT 2", "+OK"),
        ("SET elsewhere v", "+OK"),
        ("SELECT 0", "+OK"),
    ]);
}

/// Changes all these keys, and others.
fn spoil(client: &mut Client) {
    for request in [
        "APPEND text x",
        "PERSIST number",
        "SETIFGREATER fenced w 13",
        "LPUSH list z",
        "SREM set a",
        "SADD numbers x",
        "ZINCRBY zset 1 a",
        "HSET hash f 2",
        "XREADGROUP GROUP g c STREAMS stream >",
        "DEL hll bits",
        "RENAME geo moved",
        "SETRANGE big 50000 there",
        "RPOP list:big 100",
        "SPOP set:big 100",
        "ZREMRANGEBYRANK zset:big 0 100",
        "HDEL hash:big 7",
        "XTRIM stream:big MAXLEN 10",
        "SET new v",
        "MOVE text 1",
        "SELECT 2",
        "DEL elsewhere",
        "SELECT 0",
    ] {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
}

fn restore(client: &mut Client, name: &str) {
    assert_eq!(client.call(&format!("TEST.RESTORE {name}")), "+OK");
}

#[test]
fn every_type_is_restored_with_its_ttls_again_and_again() {
    let server = start();
    let mut client = server.client();
    fill(&mut client);
    let before = state(&server);
    client.expect(&[("TEST.SNAPSHOT filled", "+OK")]);
    for wreck in [
        spoil,
        |client: &mut Client| drop(client.call("FLUSHALL")),
        |client: &mut Client| {
            client.expect(&[("SWAPDB 0 2", "+OK"), ("FLUSHDB", "+OK")]);
        },
    ] {
        wreck(&mut client);
        assert_ne!(state(&server), before);
        restore(&mut client, "filled");
        assert_eq!(state(&server), before);
        restore(&mut client, "filled");
        assert_eq!(state(&server), before);
    }
    client.expect(&[("OBJECT ENCODING numbers", "$6 intset"), ("OBJECT ENCODING hash:big", "$9 hashtable")]);
    client.expect(&[("FLUSHALL", "+OK"), ("TEST.SNAPSHOT empty", "+OK"), ("SET k v", "+OK")]);
    restore(&mut client, "empty");
    client.expect(&[("DBSIZE", ":0")]);
    restore(&mut client, "filled");
    assert_eq!(state(&server), before);
    restore(&mut client, "empty");
    client.expect(&[("DBSIZE", ":0"), ("TEST.SNAPSHOT filled", "+OK"), ("SET k v", "+OK")]);
    restore(&mut client, "filled");
    client.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn ttls_are_instants_that_the_clock_may_have_passed() {
    let server = start();
    let mut client = server.client();
    client.expect(&[
        ("SET short 1 PX 1000", "+OK"),
        ("SET long 1 PX 5000", "+OK"),
        ("HSET h f 1 g 2", ":2"),
        ("HPEXPIRE h 1000 FIELDS 1 f", "*1 :1"),
        ("SET dated 1", "+OK"),
    ]);
    client.call(&format!("PEXPIREAT dated {}", log::BEGIN_MS + 3000));
    client.expect(&[("TEST.SNAPSHOT s", "+OK"), ("DEL long h dated", ":3")]);
    server.advance_ms(2000);
    restore(&mut client, "s");
    client.expect(&[
        ("EXISTS short", ":0"),
        ("PTTL long", ":3000"),
        ("HGETALL h", "*2 $1 g $1 2"),
        ("PTTL dated", ":1000"),
        ("DBSIZE", ":3"),
    ]);
    server.server().set_wall_ms(log::BEGIN_MS);
    client.expect(&[("PTTL dated", ":3000"), ("DEL dated", ":1")]);
    server.server().set_wall_ms(log::BEGIN_MS + 10_000);
    restore(&mut client, "s");
    client.expect(&[("EXISTS dated", ":0"), ("PTTL long", ":3000")]);
    server.server().set_wall_ms(log::BEGIN_MS);
    restore(&mut client, "s");
    client.expect(&[("PTTL dated", ":3000")]);
}

#[cfg(feature = "lua")]
#[test]
fn functions_and_cached_scripts_are_restored() {
    let server = start();
    let mut client = server.client();
    let library = |name: &str, value: u32| {
        format!("#!lua name={name}\nredis.register_function('{name}', function() return {value} end)")
    };
    let load = |client: &mut Client, name: &str, value: u32| {
        client.call_args(&["FUNCTION", "LOAD", "REPLACE", &library(name, value)]);
    };
    load(&mut client, "f", 1);
    let kept = client.call("SCRIPT LOAD return(1)").split_off(4);
    let other = client.call_args(&["EVAL", "return 2", "0"]);
    assert_eq!(other, ":2");
    client.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    for flushes in [true, false] {
        if flushes {
            client.expect(&[("FUNCTION FLUSH", "+OK"), ("SCRIPT FLUSH", "+OK")]);
        }
        load(&mut client, "f", 7);
        load(&mut client, "g", 8);
        let new = client.call("SCRIPT LOAD return(3)").split_off(4);
        client.expect(&[("FCALL f 0", ":7")]);
        restore(&mut client, "s");
        client.expect(&[("FCALL f 0", ":1"), ("FCALL g 0", "-ERR Function not found")]);
        client.expect(&[(&format!("SCRIPT EXISTS {kept} {new}"), "*2 :1 :0"), (&format!("EVALSHA {kept} 0"), ":1")]);
        assert_eq!(client.info("number_of_cached_scripts"), "2");
    }
}

#[test]
fn locks_are_held_again_by_clients_that_are_connected() {
    let server = start();
    let (mut one, mut gone, mut control) = (server.client(), server.client(), server.client());
    let held = one.int("LOCK.ACQUIRE held one PX 60000 META why");
    let bound = one.int("LOCK.ACQUIRE bound one SESSION NOTIFY");
    gone.int("LOCK.ACQUIRE left gone PX 60000");
    gone.int("LOCK.ACQUIRE over gone SESSION");
    let shown = |control: &mut Client, key: &str| control.call(&format!("LOCK.INFO {key}"));
    let infos = ["held", "bound"].map(|key| shown(&mut control, key));
    control.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    one.expect(&[("LOCK.RELEASE held one", ":1"), ("LOCK.RELEASE bound one", ":1")]);
    gone.call("QUIT");
    wait_until(|| control.info("connected_clients") == "2");
    control.expect(&[("EXISTS over", ":0")]);
    let between = control.int("LOCK.ACQUIRE held other PX 60000");
    assert!(between > bound);
    for _ in 0..2 {
        restore(&mut control, "s");
        assert_eq!(["held", "bound"].map(|key| shown(&mut control, key)), infos);
        control.expect(&[("EXISTS left over", ":1"), ("GET left", "$4 gone"), ("PTTL held", ":60000")]);
        assert_eq!([one.int("LOCK.FENCE held one"), one.int("LOCK.FENCE bound one")], [held, bound]);
        assert_eq!(one.call("CLIENT INFO").split(" locks=").nth(1).map(|rest| rest.starts_with('2')), Some(true));
    }
    assert!(control.call("INFO locks").contains(" held:3 "));
    drop(one);
    wait_until(|| control.call("EXISTS held bound") == ":1");
    control.expect(&[("LOCK.RELEASE held one", ":1")]);
    assert!(control.int("LOCK.ACQUIRE held other PX 1") > between);
}

#[test]
fn a_lock_of_a_session_is_released_if_its_client_has_been_elsewhere_since() {
    let server = start();
    let (mut owner, mut control) = (server.client(), server.client());
    owner.int("LOCK.ACQUIRE lock one SESSION");
    control.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    owner.expect(&[("AUTH ns-other x", "+OK"), ("RESET", "+RESET")]);
    restore(&mut control, "s");
    control.expect(&[("EXISTS lock", ":0")]);
    assert!(control.int("LOCK.ACQUIRE lock other PX 10") > 0);
}

#[test]
fn blocked_clients_get_an_error_and_those_in_line_too() {
    let server = start();
    let mut control = server.client();
    control.int("LOCK.ACQUIRE lock me PX 60000");
    control.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    let mut blocked = ["BLPOP q 0", "LOCK.ACQUIRE lock other PX 1000 BLOCK 0", "XREAD BLOCK 0 STREAMS x 0"]
        .map(|request| server.block(request));
    let mut timed = server.block("WAIT 1 0");
    restore(&mut control, "s");
    for client in &mut blocked {
        assert_eq!(client.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    }
    wait_until(|| control.info("blocked_clients") == "1");
    control.expect(&[("RPUSH q v", ":1"), ("LOCK.RELEASE lock me", ":1"), ("EXISTS q lock", ":1")]);
    let id = timed.local_addr();
    control.expect(&[(&format!("CLIENT KILL ADDR {id}"), ":1")]);
    assert_eq!(timed.read_to_end(), b"");
}

#[test]
fn watchers_and_caches_are_told_and_no_event_is_emitted() {
    let server = start_with(&[("notify-keyspace-events", "KEA")]);
    let (mut control, mut client, mut cache) = (server.client(), server.client(), server.client3());
    control.expect(&[("SET k v", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("SET l v", "+OK")]);
    for (watched, is_changed) in [("l", true), ("k", true), ("missing", false)] {
        client.expect(&[(&format!("WATCH {watched}"), "+OK")]);
        restore(&mut control, "s");
        let outcome = if is_changed { "*-1" } else { "*1 +PONG" };
        client.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", outcome)]);
        control.call("SET l v");
    }
    cache.expect(&[("CLIENT TRACKING ON", "+OK"), ("GET k", "$1 v")]);
    let mut listener = server.client();
    listener.call("PSUBSCRIBE __key*");
    restore(&mut control, "s");
    assert_eq!(cache.reply(), ">2 $10 invalidate _");
    control.call("PUBLISH __key_end x");
    assert!(listener.reply().contains("__key_end"), "an event came first");
}

#[test]
fn a_lock_that_the_snapshot_does_not_have_is_lost() {
    let server = start();
    let (mut control, mut holder) = (server.client(), server.client3());
    control.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    let fence = holder.int("LOCK.ACQUIRE k me PX 60000 NOTIFY");
    restore(&mut control, "s");
    let told = holder.reply();
    assert!(told.contains(&fence.to_string()) && told.contains("flushed"), "{told}");
    assert!(holder.call("CLIENT INFO").contains(" locks=0 "));
}

#[test]
fn names_are_bounded_and_unknown_ones_refused() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("TEST.RESTORE none", "-ERR there is no snapshot with this name")]);
    for at in 0..100 {
        client.expect(&[(&format!("SET n {at}"), "+OK"), (&format!("TEST.SNAPSHOT s{at}"), "+OK")]);
    }
    client.expect(&[("TEST.SNAPSHOT more", "-ERR there are too many snapshots"), ("TEST.SNAPSHOT s7", "+OK")]);
    for at in [7, 50, 99, 0, 98, 50] {
        restore(&mut client, &format!("s{at}"));
        let value = if at == 7 { 99 } else { at }.to_string();
        client.expect(&[("GET n", &format!("${} {value}", value.len()))]);
    }
    client.expect(&[
        ("MULTI", "+OK"),
        ("TEST.RESTORE s1", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
    let other = TestServer::start();
    assert!(other.client().call("TEST.SNAPSHOT s").starts_with("-ERR unknown command"));
}

#[test]
fn snapshots_work_while_no_writes_are_remembered() {
    let server = start_with(&[("test-journal-max", "0")]);
    let mut client = server.client();
    fill(&mut client);
    client.expect(&[("TEST.SNAPSHOT s", "+OK")]);
    let before = state(&server);
    spoil(&mut client);
    restore(&mut client, "s");
    assert_eq!(state(&server), before);
    client.expect(&[("CONFIG SET test-journal-max 10", "+OK"), ("SET k v", "+OK"), ("DEL k", ":1")]);
    client.expect(&[("CONFIG SET test-journal-max 0", "+OK"), ("SET k v", "+OK")]);
    restore(&mut client, "s");
    assert_eq!(state(&server), before);
}

/// Executes random commands in a transaction, in which none blocks.
pub(crate) fn transact(client: &mut Client, random: &mut Random, count: usize) {
    client.call("MULTI");
    for command in (0..count).map(|_| log::command(random)) {
        let name = command[0].to_ascii_lowercase();
        if ![&b"multi"[..], b"exec", b"discard"].contains(&&name[..]) {
            client.frame(&command);
        }
    }
    client.frame(&["EXEC"]);
}

#[test]
fn random_commands_are_undone() {
    for seed in log::first_seed()..log::first_seed() + 10 {
        let (server, mut random) = (start(), Random::new(seed));
        let mut client = server.client();
        let mut states = Vec::new();
        for name in 0..4 {
            (0..20).for_each(|_| transact(&mut client, &mut random, 10));
            client.expect(&[(&format!("TEST.SNAPSHOT {name}"), "+OK")]);
            states.push(state(&server));
        }
        for _ in 0..20 {
            (0..random.below(12)).for_each(|_| transact(&mut client, &mut random, 5));
            let name = random.below(4);
            restore(&mut client, &name.to_string());
            assert_eq!(state(&server), states[name], "seed {seed}");
        }
    }
}

#[test]
fn what_changed_before_a_later_snapshot_was_replaced_or_restored_is_undone_as_well() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET k old", "+OK"), ("TEST.SNAPSHOT a", "+OK"), ("TEST.SNAPSHOT b", "+OK")]);
    client.expect(&[("SET k new", "+OK"), ("TEST.SNAPSHOT b", "+OK"), ("SET j v", "+OK"), ("TEST.SNAPSHOT b", "+OK")]);
    restore(&mut client, "a");
    client.expect(&[("GET k", "$3 old"), ("EXISTS j", ":0")]);
    restore(&mut client, "b");
    client.expect(&[("GET k", "$3 new"), ("GET j", "$1 v"), ("SET j w", "+OK")]);
    restore(&mut client, "b");
    restore(&mut client, "a");
    client.expect(&[("GET k", "$3 old"), ("EXISTS j", ":0")]);
}

#[test]
fn a_snapshot_has_large_values_and_so_has_a_restored_one() {
    let server = start_with(&[("test-journal-max", "1")]);
    let mut client = server.client();
    client.expect(&[("SETRANGE large 20000000 x", ":20000001"), ("SETRANGE other 20000000 x", ":20000001")]);
    // Each write is a checkpoint, at which these values are too large to be copied.
    client.expect(&[("SET k v", "+OK"), ("SET k w", "+OK"), ("TEST.SNAPSHOT s", "+OK")]);
    for _ in 0..2 {
        client.expect(&[("APPEND large y", ":20000002"), ("SET k x", "+OK"), ("SET k y", "+OK")]);
        client.expect(&[("DEL other", ":1"), ("SETRANGE new 20000000 x", ":20000001"), ("SET k z", "+OK")]);
        client.expect(&[("TEST.RESTORE s", "+OK"), ("STRLEN large", ":20000001"), ("STRLEN other", ":20000001")]);
        client.expect(&[("GETRANGE large 20000000 -1", "$1 x"), ("GET k", "$1 w"), ("EXISTS new", ":0")]);
    }
    client.expect(&[("SWAPDB 0 1", "+OK"), ("SET k v", "+OK"), ("SET k w", "+OK"), ("TEST.RESTORE s", "+OK")]);
    client.expect(&[("STRLEN large", ":20000001"), ("SELECT 1", "+OK"), ("DBSIZE", ":0")]);
}

#[test]
fn who_watches_a_missing_key_that_a_restore_brings_back_is_told() {
    let server = start();
    let (mut control, mut client) = (server.client(), server.client());
    control.expect(&[("SET k v", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("DEL k", ":1")]);
    client.expect(&[("WATCH k", "+OK")]);
    restore(&mut control, "s");
    client.expect(&[("MULTI", "+OK"), ("PING", "+QUEUED"), ("EXEC", "*-1")]);
}

#[test]
fn a_snapshot_has_all_keys_also_when_writes_are_not_remembered_any_more() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET k v", "+OK"), ("TEST.SNAPSHOT one", "+OK"), ("CONFIG SET test-journal-max 0", "+OK")]);
    client.expect(&[("TEST.SNAPSHOT two", "+OK"), ("DEL k", ":1")]);
    restore(&mut client, "two");
    client.expect(&[("GET k", "$1 v")]);
}

#[test]
fn what_a_panic_has_left_of_a_change_is_undone() {
    let server = start();
    let (mut control, mut client) = (server.client(), server.client());
    control.expect(&[("SET k old", "+OK"), ("TEST.SNAPSHOT s", "+OK"), ("DEBUG INJECT-PANIC CHANGE k", "+OK")]);
    client.send(b"SET k new\r\n");
    assert_eq!(client.read_to_end(), b"");
    control.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK"), ("GET k", "$3 new")]);
    restore(&mut control, "s");
    control.expect(&[("GET k", "$3 old")]);
}

#[test]
fn what_is_known_of_a_lock_is_restored_also_if_its_key_has_not_changed() {
    let server = start();
    let (mut holder, mut control) = (server.client(), server.client());
    holder.int("LOCK.ACQUIRE k mine PX 60000 META one");
    control.expect(&[("SET plain mine", "+OK"), ("TEST.SNAPSHOT s", "+OK")]);
    let before = control.call("LOCK.INFO k");
    holder.int("LOCK.ACQUIRE k mine SESSION META two");
    holder.int("LOCK.FENCE plain mine");
    assert_ne!(control.call("LOCK.INFO k"), before);
    restore(&mut control, "s");
    assert_eq!(control.call("LOCK.INFO k"), before);
    assert!(control.call("LOCK.INFO plain").contains("$5 fence $-1"));
}
