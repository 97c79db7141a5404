//! Data that one server writes and all read: every type, transactions, scripts, blocking commands.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::differential::random::try_commands_on;
use crate::engine::etcd::Etcd;
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, wait_until};
use crate::lock_pattern::{release, try_acquire};

const OK: &str = "+OK";
const QUEUED: &str = "+QUEUED";

#[test]
fn what_one_server_writes_the_other_reads_whatever_its_type() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[
        ("SET string v", OK),
        ("RPUSH list a b c", ":3"),
        ("HSET hash f v g w", ":2"),
        ("SADD set x y", ":2"),
        ("ZADD sorted 1 a 2.5 b", ":2"),
        ("XADD stream 1-1 f v", "$3 1-1"),
        ("XGROUP CREATE stream group 0", OK),
        ("PFADD sketch a b c", ":1"),
        ("GEOADD places 13.36 38.11 Palermo", ":1"),
        ("SETBIT bits 7 1", ":0"),
    ]);
    other.expect(&[
        ("GET string", "$1 v"),
        ("LRANGE list 0 -1", "*3 $1 a $1 b $1 c"),
        ("HMGET hash f g", "*2 $1 v $1 w"),
        ("SMISMEMBER set x y z", "*3 :1 :1 :0"),
        ("ZRANGE sorted 0 -1 WITHSCORES", "*4 $1 a $1 1 $1 b $3 2.5"),
        ("XLEN stream", ":1"),
        ("XREADGROUP GROUP group consumer STREAMS stream >", "*1 *2 $6 stream *1 *2 $3 1-1 *2 $1 f $1 v"),
        ("PFCOUNT sketch", ":3"),
        ("GEOPOS places Nowhere", "*1 *-1"),
        ("GETBIT bits 7", ":1"),
        ("DBSIZE", ":9"),
    ]);
    one.expect(&[("XPENDING stream group", "*4 :1 $3 1-1 $3 1-1 *1 *2 $8 consumer $1 1"), ("DEL string", ":1")]);
    other.expect(&[("EXISTS string", ":0"), ("SELECT 3", OK), ("SET string three", OK)]);
    one.expect(&[("GET string", "$-1"), ("SELECT 3", OK), ("GET string", "$5 three")]);
}

/// Number of random commands compared with redis-server.
const COMMANDS: usize = 12_000;

#[test]
fn random_commands_on_a_cluster_get_the_replies_of_redis_and_leave_its_data() {
    compare_with_redis(false);
}

#[test]
fn random_commands_on_a_cluster_tell_the_events_of_redis() {
    compare_with_redis(true);
}

fn compare_with_redis(hears_events: bool) {
    let Some(etcd) = Etcd::shared() else { return };
    let (endpoints, prefix) = (etcd.endpoints(), Etcd::prefix());
    let engine = [("engine", "etcd"), ("etcd-endpoints", &endpoints), ("etcd-prefix", &prefix)];
    try_commands_on(&engine, COMMANDS, hears_events);
}

#[test]
fn a_server_that_starts_has_what_the_others_have_written() {
    let Some(mut fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    for number in 0..2500 {
        client.send(format!("SET key:{number} {number}\r\n").as_bytes());
    }
    (0..2500).for_each(|_| assert_eq!(client.reply(), OK));
    fleet.add(keylatch::Clock::system(), &[]);
    let mut other = fleet.servers[1].client();
    other.expect(&[("DBSIZE", ":2500"), ("GET key:2499", "$4 2499")]);
}

#[test]
fn increments_of_many_clients_at_three_servers_are_all_counted() {
    let Some(fleet) = Fleet::start(3) else { return };
    thread::scope(|scope| {
        for number in 0..12 {
            let mut client = fleet.servers[number % 3].client();
            scope.spawn(move || (0..50).for_each(|_| assert!(client.int("INCR counter") > 0)));
        }
    });
    assert_eq!(fleet.servers[0].client().call("GET counter"), "$3 600");
}

#[test]
fn optimistic_increments_at_three_servers_lose_no_update() {
    let Some(fleet) = Fleet::start(3) else { return };
    thread::scope(|scope| {
        for number in 0..6 {
            let mut client = fleet.servers[number % 3].client();
            scope.spawn(move || (0..20).for_each(|_| increment_by_watch(&mut client)));
        }
    });
    assert_eq!(fleet.servers[0].client().call("GET n"), "$3 120");
}

/// Increments a key like a client without INCR.
fn increment_by_watch(client: &mut Client) {
    loop {
        client.call("WATCH n");
        let old: i64 = client.call("GET n").split_once(' ').map_or(0, |(_, digits)| digits.parse().expect("a number"));
        client.expect(&[("MULTI", OK), (&format!("SET n {}", old + 1), QUEUED)]);
        if client.call("EXEC") == "*1 +OK" {
            return;
        }
    }
}

#[test]
fn exec_is_made_whole_and_seen_whole_by_the_other_server() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("MSET a 500 b 500", OK)]);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                one.expect(&[("MULTI", OK), ("DECR a", QUEUED), ("INCR b", QUEUED)]);
                assert!(one.call("EXEC").starts_with("*2"));
            }
        });
        for _ in 0..200 {
            let reply = other.call("MGET a b");
            let sum: i64 = reply.split(' ').skip(1).filter(|word| !word.starts_with('$')).map(number).sum();
            assert_eq!(sum, 1000, "{reply}");
        }
    });
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

#[test]
fn exec_selects_and_clears_databases_as_without_an_engine() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[
        ("MSET a 1 b 2", OK),
        ("MULTI", OK),
        ("FLUSHDB", QUEUED),
        ("SET c 3", QUEUED),
        ("SELECT 1", QUEUED),
        ("SET d 4", QUEUED),
        ("EXEC", "*4 +OK +OK +OK +OK"),
        ("GET d", "$1 4"),
    ]);
    other.expect(&[("KEYS *", "*1 $1 c"), ("SELECT 1", OK), ("KEYS *", "*1 $1 d"), ("FLUSHALL", OK)]);
    one.expect(&[("DBSIZE", ":0"), ("SELECT 0", OK), ("DBSIZE", ":0")]);
}

#[test]
fn a_database_that_a_transaction_cannot_select_is_not_that_of_what_follows() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[
        ("SET k v", OK),
        ("MULTI", OK),
        ("SELECT 16", QUEUED),
        ("STRLEN k", QUEUED),
        ("SET l w", QUEUED),
        ("EXEC", "*3 -ERR DB index is out of range :1 +OK"),
    ]);
}

#[test]
fn the_documented_lock_pattern_grants_the_lock_to_one_client_of_three_servers() {
    let Some(fleet) = Fleet::start(3) else { return };
    let (holders, granted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (holders, granted) = (&holders, &granted);
    thread::scope(|scope| {
        for number in 0..9 {
            let mut client = fleet.servers[number % 3].client();
            scope.spawn(move || {
                while granted.load(SeqCst) < 60 {
                    let Some(held) = try_acquire(&mut client, 0) else { continue };
                    assert_eq!(holders.fetch_add(1, SeqCst), 0, "two hold the lock");
                    granted.fetch_add(1, SeqCst);
                    holders.fetch_sub(1, SeqCst);
                    assert!(release(&mut client, &held, 0));
                }
            });
        }
    });
}

#[test]
fn a_lock_that_has_expired_is_taken_over_by_one_client_of_three_servers() {
    let Some(fleet) = Fleet::start(3) else { return };
    for round in 0..20 {
        let now_s = round * 100;
        let won: usize = thread::scope(|scope| {
            let clients = (0..6).map(|number| fleet.servers[number % 3].client());
            let threads: Vec<_> = clients
                .map(|mut client| scope.spawn(move || usize::from(try_acquire(&mut client, now_s).is_some())))
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
        });
        assert_eq!(won, 1, "in round {round}");
    }
}

#[cfg(feature = "lua")]
#[test]
fn scripts_change_the_keys_that_they_declare_and_no_others() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let release = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    one.expect(&[("SET lock token NX PX 60000", OK)]);
    assert_eq!(other.call_args(&["EVAL", release, "1", "lock", "another"]), ":0");
    assert_eq!(other.call_args(&["EVAL", release, "1", "lock", "token"]), ":1");
    one.expect(&[("EXISTS lock", ":0")]);
    let reply = one.call_args(&["EVAL", "return redis.call('SET', 'other', 1)", "0"]);
    assert!(reply.contains("needs keys that are not declared"), "{reply}");
    let reply = one.call_args(&["EVAL", "return redis.call('GET', ARGV[1])", "0", "lock"]);
    assert!(reply.contains("needs keys that are not declared"), "{reply}");
    one.expect(&[("SET lock v", OK)]);
    let read_only = "#!lua flags=no-writes\nreturn redis.call('GET', ARGV[1])";
    let before = figure(&mut other, "engine_barriers");
    assert_eq!(other.call_args(&["EVAL", read_only, "0", "lock"]), "$1 v");
    assert_eq!(figure(&mut other, "engine_barriers"), before + 1);
}

#[cfg(feature = "lua")]
#[test]
fn a_script_that_counts_is_executed_once_for_each_call() {
    let Some(fleet) = Fleet::start(2) else { return };
    let script = "local n = redis.call('INCR', KEYS[1]); redis.call('RPUSH', KEYS[2], n); return n";
    thread::scope(|scope| {
        for number in 0..6 {
            let mut client = fleet.servers[number % 2].client();
            scope.spawn(move || (0..20).for_each(|_| _ = client.call_args(&["EVAL", script, "2", "n", "all"])));
        }
    });
    let numbers: Vec<String> = (1..=120).map(|n| format!("${} {n}", n.to_string().len())).collect();
    assert_eq!(fleet.servers[0].client().call("LRANGE all 0 -1"), format!("*120 {}", numbers.join(" ")));
}

#[test]
fn a_client_that_is_blocked_at_one_server_is_served_by_a_push_at_the_other() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut waiting = fleet.servers[0].block("BLPOP empty list 0");
    let mut moving = fleet.servers[0].block("BLMOVE source target LEFT LEFT 0");
    let mut other = fleet.servers[1].client();
    other.expect(&[("RPUSH list v w", ":2"), ("RPUSH source s", ":1")]);
    assert_eq!(waiting.reply(), "*2 $4 list $1 v");
    assert_eq!(moving.reply(), "$1 s");
    other.expect(&[("LRANGE list 0 -1", "*1 $1 w"), ("LRANGE target 0 -1", "*1 $1 s"), ("EXISTS source", ":0")]);
}

#[test]
fn an_element_is_given_to_one_of_the_clients_that_are_blocked_at_several_servers() {
    let Some(fleet) = Fleet::start(3) else { return };
    let mut waiting: Vec<Client> = (0..6).map(|number| fleet.servers[number % 3].block("BLPOP list 0")).collect();
    let mut pushing = fleet.servers[0].client();
    (0..6).for_each(|number| assert!(pushing.int(&format!("RPUSH list {number}")) > 0));
    let mut given: Vec<String> = waiting.iter_mut().map(Client::reply).collect();
    given.sort();
    assert_eq!(given, (0..6).map(|number| format!("*2 $4 list $1 {number}")).collect::<Vec<_>>());
}

#[test]
fn a_blocked_client_times_out_and_can_be_unblocked() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[("BLPOP list 0.05", "*-1"), ("BRPOPLPUSH a b 0.05", "*-1")]);
    let mut waiting = fleet.servers[0].client();
    let id = waiting.int("CLIENT ID");
    let mut waiting = fleet.servers[0].block_as(waiting, "BLPOP list 0");
    client.expect(&[(&format!("CLIENT UNBLOCK {id} ERROR"), ":1")]);
    assert!(waiting.reply().starts_with("-UNBLOCKED"));
    // The client does not wait any more.
    client.expect(&[("RPUSH list v", ":1"), ("LLEN list", ":1")]);
}

#[test]
fn a_stream_is_read_by_clients_that_are_blocked_at_the_other_server() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut reader = fleet.servers[0].block("XREAD BLOCK 0 STREAMS stream $");
    let mut other = fleet.servers[1].client();
    other.expect(&[("XADD stream 5-1 f v", "$3 5-1")]);
    assert_eq!(reader.reply(), "*1 *2 $6 stream *1 *2 $3 5-1 *2 $1 f $1 v");
}

#[test]
fn a_client_sees_what_it_has_written_and_what_another_was_told() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    for number in 0..100 {
        one.expect(&[(&format!("SET k {number}"), OK)]);
        let shown = format!("${} {number}", number.to_string().len());
        assert_eq!(other.call("GET k"), shown);
        assert_eq!(one.call("GET k"), shown);
    }
}

#[test]
fn reads_declared_as_local_are_answered_without_asking_the_cluster() {
    let Some(mut fleet) = Fleet::start(1) else { return };
    fleet.add(keylatch::Clock::system(), &[("etcd-reads", "local")]);
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SET k v", OK)]);
    wait_until(|| other.call("GET k") == "$1 v");
    let barriers = |client: &mut Client| figure(client, "engine_barriers");
    let before = barriers(&mut other);
    (0..10).for_each(|_| other.expect(&[("GET k", "$1 v")]));
    assert_eq!(barriers(&mut other), before);
    let before = barriers(&mut one);
    (0..10).for_each(|_| one.expect(&[("GET k", "$1 v")]));
    assert_eq!(barriers(&mut one), before + 10);
}

/// Returns a number of the section `engine` of INFO.
fn figure(client: &mut Client, name: &str) -> u64 {
    engine_info(client, name).parse().expect("a number")
}

#[test]
fn info_shows_the_cluster_and_what_was_asked_of_it() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET k v", OK), ("SET k w", OK), ("GET k", "$1 w")]);
    let text = client.call("INFO engine");
    for field in ["engine:etcd ", "engine_endpoint:http://127.0.0.1:", "engine_version:3.5.", "engine_transactions:2 "]
    {
        assert!(text.contains(field), "{field} in {text}");
    }
    assert_eq!((figure(&mut client, "engine_barriers"), figure(&mut client, "engine_revisions_behind")), (1, 0));
    assert!(figure(&mut client, "engine_revision") > 0);
    client.expect(&[("CONFIG RESETSTAT", OK)]);
    assert_eq!(figure(&mut client, "engine_transactions"), 0);
}
