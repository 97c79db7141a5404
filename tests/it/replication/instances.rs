//! Private instances that replicate each other in one process: TEST.INSTANCE, faults of the link, and failovers.

use keylatch::Clock;

use crate::harness::{Client, Dice, TestServer, wait_until};

fn start() -> TestServer {
    let settings = [("test-mode", "yes"), ("enable-debug-command", "yes"), ("namespace-linger", "0")];
    TestServer::start_on(Clock::system(), &settings)
}

/// Connects a client to a private instance.
fn enter(server: &TestServer, user: &str) -> Client {
    let mut client = server.client();
    client.expect(&[(&format!("AUTH {user} any"), "+OK")]);
    client
}

/// Creates a primary and its replica on a stopped clock, with a client of each.
fn pair(server: &TestServer) -> (Client, Client) {
    let mut primary = enter(server, "ns-a");
    primary.call("TEST.TIME FREEZE");
    primary.expect(&[("TEST.INSTANCE REPLICA ns-b", "+OK")]);
    (primary, enter(server, "ns-b"))
}

/// Sends a blocking request to the primary, and waits until it blocks.
fn block(server: &TestServer, mut client: Client, request: &str) -> Client {
    let mut other = enter(server, "ns-a");
    let blocked = other.info("blocked_clients");
    client.send(format!("{request}\r\n").as_bytes());
    wait_until(|| other.info("blocked_clients") != blocked);
    client
}

#[test]
fn a_replica_has_all_data_and_each_write_before_its_reply() {
    let server = start();
    let mut primary = enter(&server, "ns-a");
    primary.expect(&[
        ("SET string v PX 100000", "+OK"),
        ("RPUSH list a b c", ":3"),
        ("HSET hash f v g w", ":2"),
        ("HPEXPIRE hash 50000 FIELDS 1 f", "*1 :1"),
        ("XADD stream 1-1 f v", "$3 1-1"),
        ("SELECT 77", "+OK"),
        ("ZADD zset 1.5 m", ":1"),
    ]);
    #[cfg(feature = "lua")]
    let code = "#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 1 end, \
                flags={'no-writes'}}";
    #[cfg(feature = "lua")]
    assert_eq!(primary.call_args(&["FUNCTION", "LOAD", code]), "$3 lib");
    primary.expect(&[("TEST.INSTANCE REPLICA ns-b", "+OK")]);
    let mut replica = enter(&server, "ns-b");
    assert_eq!(primary.call("DEBUG DIGEST"), replica.call("DEBUG DIGEST"));
    #[cfg(feature = "lua")]
    replica.expect(&[("FCALL_RO f 0", ":1")]);
    replica.expect(&[("SELECT 77", "+OK"), ("ZSCORE zset m", "$3 1.5")]);
    for number in 0..300 {
        primary.expect(&[(&format!("SET k {number}"), "+OK")]);
        assert_eq!(replica.call("GET k"), format!("${} {number}", number.to_string().len()));
    }
    primary.expect(&[("WAIT 1 0", ":1")]);
    let mut subscriber = enter(&server, "ns-b");
    subscriber.call("SUBSCRIBE news");
    primary.call("PUBLISH news now");
    assert_eq!(subscriber.reply(), "*3 $7 message $4 news $3 now");
    assert!(replica.call("SET k v").starts_with("-READONLY "));
}

#[test]
fn both_ends_show_each_other() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    let port = server.addr().port().to_string();
    primary.expect(&[("SET k v", "+OK")]);
    let offset = primary.info("master_repl_offset");
    let shown = format!("slave0:ip=ns-b,port={port},state=online,offset={offset},lag=0");
    assert!(primary.call("INFO replication").contains(&shown));
    assert_eq!(
        primary.call("ROLE"),
        format!("*3 $6 master :{offset} *1 *3 $4 ns-b ${} {port} ${} {offset}", port.len(), offset.len())
    );
    assert_eq!(replica.call("ROLE"), format!("*5 $5 slave $4 ns-a :{port} $9 connected :{offset}"));
    for (field, value) in [("role", "slave"), ("master_host", "ns-a"), ("master_link_status", "up")] {
        assert_eq!(replica.info(field), value);
    }
    assert_eq!(replica.info("master_replid"), primary.info("master_replid"));
}

#[test]
fn a_delay_of_the_link_is_one_of_the_common_clock() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    replica.expect(&[("TEST.FAULT ADD LINK DELAY 500", ":1")]);
    assert!(replica.call("TEST.FAULT LIST").contains("$7 command $4 LINK"));
    primary.expect(&[("SET k v PX 60000", "+OK")]);
    replica.expect(&[("GET k", "$-1")]);
    primary.call("SET other v");
    let mut early = block(&server, enter(&server, "ns-a"), "BLPOP nothing 0.4");
    primary.call("TEST.TIME ADVANCE 400");
    assert_eq!(early.reply(), "*-1");
    replica.expect(&[("GET k", "$-1")]);
    // A client of either moves the clock of both.
    replica.call("TEST.TIME ADVANCE 99");
    replica.expect(&[("GET k", "$-1")]);
    replica.call("TEST.TIME ADVANCE 1");
    replica.expect(&[("GET k", "$1 v"), ("PTTL k", ":59500")]);
    primary.expect(&[("PTTL k", ":59500")]);
    // The primary decides an expiry, but the key is hidden at its deadline.
    primary.call("TEST.TIME ADVANCE 59500");
    primary.expect(&[("EXISTS k", ":0"), ("DBSIZE", ":1")]);
    replica.expect(&[("EXISTS k", ":0"), ("DBSIZE", ":2")]);
    primary.call("TEST.TIME ADVANCE 500");
    replica.expect(&[("DBSIZE", ":1")]);
    // Without the fault, the data in flight arrives.
    primary.call("SET k w");
    replica.expect(&[("GET k", "$-1"), ("TEST.FAULT CLEAR", "+OK"), ("GET k", "$1 w")]);
}

#[test]
fn wait_ends_when_the_delay_is_over_and_not_before() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    replica.expect(&[("TEST.FAULT ADD LINK DELAY 500", ":1")]);
    let wait = |timeout: &str| {
        let mut client = enter(&server, "ns-a");
        client.call("SET k v");
        block(&server, client, &format!("WAIT 1 {timeout}"))
    };
    let (mut patient, mut impatient, mut exact) = (wait("600"), wait("400"), wait("500"));
    primary.call("TEST.TIME ADVANCE 1000");
    assert_eq!([impatient.reply(), exact.reply(), patient.reply()], [":0", ":0", ":1"]);
    let mut holder = block(&server, enter(&server, "ns-a"), "LOCK.ACQUIRE lock mine PX 60000 BLOCK 501 REPLICAS 1");
    primary.call("TEST.TIME ADVANCE 501");
    assert!(holder.reply().starts_with(':'));
    let mut holder = block(&server, enter(&server, "ns-a"), "LOCK.ACQUIRE other mine PX 60000 BLOCK 499 REPLICAS 1");
    primary.call("TEST.TIME ADVANCE 501");
    assert_eq!(holder.reply(), "$-1");
}

#[test]
fn wait_does_not_count_what_is_on_the_way_behind_what_has_arrived() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    replica.expect(&[("TEST.FAULT ADD LINK DELAY 500", ":1")]);
    primary.call("SET first v");
    primary.call("TEST.TIME ADVANCE 250");
    let mut client = enter(&server, "ns-a");
    client.call("SET second v");
    let mut waiting = block(&server, client, "WAIT 1 400");
    primary.call("TEST.TIME ADVANCE 400");
    replica.expect(&[("EXISTS first second", ":1")]);
    assert_eq!(waiting.reply(), ":0");
    let mut waiting = block(&server, waiting, "WAIT 1 101");
    primary.call("TEST.TIME ADVANCE 100");
    assert_eq!(waiting.reply(), ":1");
}

#[test]
fn a_link_that_is_cut_is_down_until_the_fault_is_removed_and_then_continues() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("SET k v", "+OK"), ("CONFIG SET min-replicas-to-write 1", "+OK"), ("SET k w", "+OK")]);
    let id = replica.int("TEST.FAULT ADD LINK DROP");
    assert_eq!((replica.info("master_link_status"), primary.info("connected_slaves")), ("down".into(), "0".into()));
    assert!(primary.call("SET k x").starts_with("-NOREPLICAS "));
    primary.expect(&[("CONFIG SET min-replicas-to-write 0", "+OK"), ("SET k x", "+OK")]);
    primary.call("TEST.TIME ADVANCE 100000");
    replica.expect(&[("GET k", "$1 w"), (&format!("TEST.FAULT DEL {id}"), ":1"), ("GET k", "$1 x")]);
    assert_eq!((replica.info("master_link_status"), primary.info("connected_slaves")), ("up".into(), "1".into()));
    assert_eq!((primary.info("sync_full"), primary.info("sync_partial_ok")), ("1".into(), "1".into()));
    primary.expect(&[("WAIT 1 0", ":1"), ("CONFIG SET repl-backlog-size 16384", "+OK")]);
    // More is missing than the primary has retained, which has no writes to go back to.
    primary.expect(&[("CONFIG SET test-journal-max 0", "+OK")]);
    replica.call("TEST.FAULT ADD LINK DROP");
    let value = "v".repeat(10_000);
    (0..30).for_each(|number| _ = primary.call(&format!("SET k{number} {value}")));
    replica.expect(&[("DBSIZE", ":1"), ("TEST.FAULT CLEAR", "+OK"), ("DBSIZE", ":31")]);
    assert_eq!((primary.info("sync_full"), primary.info("sync_partial_ok")), ("2".into(), "1".into()));
    assert_eq!(primary.call("DEBUG DIGEST"), replica.call("DEBUG DIGEST"));
}

#[test]
fn what_is_on_the_way_when_a_link_is_cut_arrives_once_after_it_is_opened_again() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    let delay = replica.int("TEST.FAULT ADD LINK DELAY 500");
    primary.expect(&[("INCR n", ":1"), ("RPUSH l a", ":1")]);
    replica.expect(&[("TEST.FAULT ADD LINK DROP", ":2"), (&format!("TEST.FAULT DEL {delay}"), ":1")]);
    assert_eq!(replica.info("master_link_status"), "down");
    primary.expect(&[("INCR n", ":2")]);
    replica.expect(&[("EXISTS n l", ":0"), ("TEST.FAULT CLEAR", "+OK"), ("GET n", "$1 2"), ("LLEN l", ":1")]);
    assert_eq!((primary.info("sync_full"), primary.info("sync_partial_ok")), ("1".into(), "1".into()));
    primary.expect(&[("INCR n", ":3")]);
    replica.expect(&[("GET n", "$1 3")]);
}

/// Loses the writes that the replica does not have; the connections to the primary close. Returns a new client of it.
fn fail_over(server: &TestServer) -> Client {
    let mut client = enter(server, "ns-a");
    client.send(b"TEST.FAILOVER\r\n");
    assert_eq!(String::from_utf8_lossy(&client.read_to_end()), "+OK\r\n");
    enter(server, "ns-a")
}

#[test]
fn a_failover_loses_what_the_replica_does_not_have_and_nothing_else() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("SET kept v", "+OK"), ("SET both 1", "+OK")]);
    replica.expect(&[("TEST.FAULT ADD LINK DELAY 100", ":1")]);
    primary.expect(&[("SET arrived v", "+OK"), ("INCR both", ":2")]);
    primary.call("TEST.TIME ADVANCE 100");
    primary.expect(&[("INCR both", ":3"), ("SET lost v", "+OK"), ("DEL kept", ":1")]);
    let fence = primary.int("LOCK.ACQUIRE lock mine PX 60000");
    let mut primary_again = fail_over(&server);
    assert_eq!(primary.read_to_end(), b"");
    let state = [("GET kept", "$1 v"), ("GET arrived", "$1 v"), ("GET both", "$1 2"), ("EXISTS lost lock", ":0")];
    primary_again.expect(&state);
    replica.expect(&state);
    assert!(primary_again.int("LOCK.ACQUIRE lock other PX 60000") > fence);
    // The lost writes are never seen at the replica, which goes on.
    replica.expect(&state);
    primary_again.call("TEST.TIME ADVANCE 100");
    replica.expect(&[("GET lock", "$5 other"), ("GET both", "$1 2"), ("EXISTS lost", ":0")]);
    assert_eq!(primary_again.call("DEBUG DIGEST"), replica.call("DEBUG DIGEST"));
    // No data is in flight: nothing is lost.
    let mut primary = fail_over(&server);
    primary.expect(&[("GET lock", "$5 other"), ("INCR both", ":3")]);
    primary.call("TEST.TIME ADVANCE 100");
    replica.expect(&[("GET both", "$1 3")]);
}

#[test]
fn a_failover_that_would_lose_more_than_is_remembered_is_refused() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("CONFIG SET test-journal-max 3", "+OK"), ("SET kept 1", "+OK")]);
    replica.call("TEST.FAULT ADD LINK DROP");
    for number in 0..20 {
        primary.expect(&[(&format!("SET lost:{number} 1"), "+OK")]);
    }
    let refused = primary.call("TEST.FAILOVER");
    assert!(refused.starts_with("-ERR only ") && refused.ends_with(" writes are remembered"), "{refused}");
    // It has undone nothing, and closed no connection.
    primary.expect(&[("DBSIZE", ":21"), ("CONFIG SET test-journal-max 0", "+OK"), ("SET more 1", "+OK")]);
    primary.expect(&[("TEST.FAILOVER", "-ERR only 0 writes are remembered")]);
    replica.expect(&[("DBSIZE", ":1"), ("TEST.FAULT CLEAR", "+OK"), ("DBSIZE", ":22")]);
    fail_over(&server).expect(&[("DBSIZE", ":22")]);
}

#[test]
fn what_a_failover_has_undone_is_read_at_once_after_the_fault_is_removed() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    for _ in 0..20 {
        primary.expect(&[("SET k 1", "+OK")]);
        replica.call("TEST.FAULT ADD LINK DELAY 100");
        primary.expect(&[("SET k 2", "+OK")]);
        primary = fail_over(&server);
        // There are no writes that a client could wait for.
        replica.expect(&[("GET k", "$1 1"), ("TEST.FAULT CLEAR", "+OK")]);
        primary.expect(&[("GET k", "$1 1")]);
    }
}

#[test]
fn a_failover_while_the_link_is_cut_goes_back_to_what_the_replica_has() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("SET k 1", "+OK")]);
    replica.call("TEST.FAULT ADD LINK DROP");
    primary.expect(&[("SET k 2", "+OK"), ("SET l 2", "+OK")]);
    let mut primary = fail_over(&server);
    primary.expect(&[("GET k", "$1 1"), ("EXISTS l", ":0"), ("SET m 3", "+OK")]);
    replica.expect(&[("DBSIZE", ":1"), ("TEST.FAULT CLEAR", "+OK"), ("MGET k l m", "*3 $1 1 $-1 $1 3")]);
}

#[test]
fn a_replica_that_is_promoted_accepts_writes_and_the_former_primary_goes_on() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("SET k v", "+OK")]);
    replica.expect(&[("REPLICAOF NO ONE", "+OK"), ("SET k replica", "+OK")]);
    primary.expect(&[("SET k primary", "+OK"), ("GET k", "$7 primary")]);
    wait_until(|| primary.info("connected_slaves") == "0");
    replica.expect(&[("GET k", "$7 replica"), ("SET l v PX 100", "+OK")]);
    // The clock is still the same.
    primary.expect(&[("SET l v PX 100", "+OK")]);
    primary.call("TEST.TIME ADVANCE 100");
    for client in [&mut primary, &mut replica] {
        client.expect(&[("DBSIZE", ":1")]);
    }
    let refused = primary.call("TEST.FAILOVER");
    assert_eq!(refused, "-ERR TEST.FAILOVER needs LOSE where there is no replica, see TEST.INSTANCE");
}

#[test]
fn a_chain_passes_everything_on_and_delays_add_up() {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    primary.expect(&[("SET k 1", "+OK")]);
    replica.expect(&[("TEST.INSTANCE REPLICA ns-c", "+OK")]);
    let mut last = enter(&server, "ns-c");
    primary.expect(&[("SET k 2", "+OK")]);
    wait_until(|| last.call("GET k") == "$1 2");
    replica.call("TEST.FAULT ADD LINK DELAY 30");
    last.call("TEST.FAULT ADD LINK DELAY 40");
    primary.expect(&[("SET k 3", "+OK")]);
    last.call("TEST.TIME ADVANCE 69");
    last.expect(&[("GET k", "$1 2")]);
    replica.expect(&[("GET k", "$1 3")]);
    primary.call("TEST.TIME ADVANCE 1");
    last.expect(&[("GET k", "$1 3")]);
}

#[test]
fn the_main_instance_can_have_a_replica_and_an_instance_at_most_one_of_each_name() {
    let server = start();
    let mut main = server.client();
    main.expect(&[("SET k v", "+OK"), ("TEST.INSTANCE REPLICA ns-b", "+OK")]);
    let mut replica = enter(&server, "ns-b");
    replica.expect(&[("GET k", "$1 v")]);
    let name = "-ERR the name of a private instance begins with ns-";
    main.expect(&[
        ("TEST.INSTANCE REPLICA ns-b", "-ERR there is a private instance of this name"),
        ("TEST.INSTANCE REPLICA b", name),
        ("TEST.INSTANCE", "-ERR wrong number of arguments for 'test.instance' command"),
        ("SET k w", "+OK"),
    ]);
    let refused = "-ERR this command is about the whole process, which a private instance cannot change";
    replica.expect(&[("GET k", "$1 w"), ("REPLICAOF 127.0.0.1 1", refused)]);
    let refused = "-ERR a fault of LINK is DELAY or DROP, without options";
    for fault in ["ERROR x", "LOSEREPLY", "DROP COUNT 1", "DELAY 1 PROB 0.5", "DROP AFTER 1", "DROP KEY k"] {
        assert_eq!(replica.call(&format!("TEST.FAULT ADD link {fault}")), refused);
    }
}

#[test]
fn a_replica_stays_as_long_as_its_primary_is_used() {
    let server = start();
    let (mut primary, replica) = pair(&server);
    let count = || server.server().namespace().private_count();
    drop(replica);
    primary.expect(&[("SET k v", "+OK"), ("WAIT 1 0", ":1")]);
    assert_eq!(count(), 2);
    enter(&server, "ns-b").expect(&[("GET k", "$1 v")]);
    let last = enter(&server, "ns-b");
    drop(primary);
    enter(&server, "ns-a").expect(&[("GET k", "$1 v")]);
    drop(last);
    wait_until(|| count() == 0);
}

/// Runs a random history of a pair; returns all replies of both.
fn run(seed: u64) -> Vec<String> {
    let server = start();
    let (mut primary, mut replica) = pair(&server);
    let (mut random, mut replies) = (Dice::new(seed), Vec::new());
    for step in 0..150 {
        let reply = match random.roll(12) {
            0 => primary.call(&format!("TEST.TIME ADVANCE {}", random.roll(60))).len().to_string(),
            1 => replica.call(&format!("TEST.FAULT ADD LINK DELAY {}", random.roll(100))),
            2 => replica.call("TEST.FAULT ADD LINK DROP"),
            3 | 4 => replica.call("TEST.FAULT CLEAR"),
            5 if random.roll(3) == 0 => {
                let before = replica.call("DEBUG DIGEST");
                primary = fail_over(&server);
                let digests = [primary.call("DEBUG DIGEST"), replica.call("DEBUG DIGEST")];
                assert_eq!(digests, [before.clone(), before.clone()], "seed {seed}, step {step}");
                before
            }
            6 => primary.call(&format!("SET v{} x PX {}", random.roll(4), 1 + random.roll(90))),
            7 => primary.call("MULTI") + &primary.call("INCR a") + &primary.call("INCR b") + &primary.call("EXEC"),
            8 => replica.call("MGET a b v0 v1 v2 v3"),
            _ => primary.call(&format!("APPEND k{} {step}", random.roll(5))),
        };
        replies.push(reply);
        let both = replica.call("MGET a b");
        let values: Vec<&str> = both.split(' ').skip(1).collect();
        assert_eq!(values[..values.len() / 2], values[values.len() / 2..], "seed {seed}, step {step}");
    }
    replica.call("TEST.FAULT CLEAR");
    assert_eq!(primary.call("DEBUG DIGEST"), replica.call("DEBUG DIGEST"), "seed {seed}");
    replies
}

#[test]
fn a_history_of_faults_and_failovers_is_the_same_each_time_and_ends_with_equal_data() {
    for seed in 0..12 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}
