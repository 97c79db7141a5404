//! Primaries that become replicas and replicas that become primaries: by REPLICAOF, by FAILOVER, in chains.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use keylatch::Clock;

use super::nodes::{Kind, Node};
use super::parties::{Primary, RawReplica, hear_replica, no_time};
use super::snapshots::fill;
use crate::harness::{Client, Dice, wait_until};

/// Starts a replica of keylatch and one of Redis, with the same primary.
fn replicas_of_both_kinds(settings: &[(&str, &str)]) -> Option<(Node, [Node; 2])> {
    let primary = Node::start(Kind::Redis, &[])?;
    fill(&mut primary.client());
    let replicas = [Node::replica_of(&primary, settings), Node::start(Kind::Redis, settings)?];
    replicas[1].follow(&primary);
    replicas.iter().for_each(|replica| replica.assert_same(&primary));
    Some((primary, replicas))
}

/// Asserts that both replicas give the same reply to each request.
#[track_caller]
fn compare(replicas: &[Node; 2], requests: &[&[&str]]) {
    let mut clients = [replicas[0].client(), replicas[1].client()];
    for request in requests {
        let [here, there] = clients.each_mut().map(|client| client.call_args(request));
        assert_eq!(here, there, "after {request:?}");
    }
}

#[test]
fn a_read_only_replica_rejects_what_redis_rejects_in_the_same_words() {
    let Some((_primary, replicas)) = replicas_of_both_kinds(&[]) else { return };
    compare(
        &replicas,
        &[
            &["SET", "k", "v"],
            &["GET", "text"],
            &["DEL", "text"],
            &["SET", "k"],
            &["FLUSHALL"],
            &["BLPOP", "list", "0"],
            &["BLPOP", "missing", "0"],
            &["EXPIRE", "text", "1"],
            &["GETEX", "text"],
            &["PFCOUNT", "log"],
            &["SORT", "integers"],
            &["SORT", "integers", "STORE", "d"],
            &["GEOSEARCH", "places", "FROMMEMBER", "palermo", "BYRADIUS", "1", "km"],
            &["MIGRATE", "127.0.0.1", "1", "text", "0", "10"],
            &["RESTORE", "k", "0", "x"],
            &["XREADGROUP", "GROUP", "group", "c", "STREAMS", "stream", ">"],
            &["PUBLISH", "channel", "m"],
            &["WAIT", "0", "0"],
            &["MULTI"],
            &["GET", "text"],
            &["SET", "k", "v"],
            &["EXEC"],
            &["MULTI"],
            &["GET", "text"],
            &["EXEC"],
            &["FAILOVER"],
            &["FAILOVER", "ABORT"],
            &["CONFIG", "GET", "replica-read-only"],
        ],
    );
    #[cfg(feature = "lua")]
    compare(
        &replicas,
        &[
            &["EVAL", "return redis.call('get', KEYS[1])", "1", "text"],
            &["EVAL", "return redis.pcall('set', KEYS[1], 1)", "1", "text"],
            &["EVAL", "#!lua\nreturn 1", "0"],
            &["EVAL", "#!lua flags=no-writes\nreturn redis.call('get', KEYS[1])", "1", "text"],
            &["EVAL_RO", "return redis.call('get', KEYS[1])", "1", "text"],
            &["FCALL", "f", "0"],
            &["FCALL_RO", "f", "0"],
            &["FUNCTION", "DELETE", "mylib"],
            &["FUNCTION", "FLUSH"],
            &["SCRIPT", "LOAD", "return 1"],
        ],
    );
    compare(
        &replicas,
        &[
            &["CONFIG", "SET", "replica-read-only", "no"],
            &["SET", "own", "v"],
            &["GET", "own"],
            &["INCR", "number"],
            &["CONFIG", "SET", "slave-read-only", "yes"],
            &["INCR", "number"],
        ],
    );
}

#[test]
fn without_a_link_a_replica_shows_what_redis_shows() {
    let Some((primary, replicas)) = replicas_of_both_kinds(&[("replica-serve-stale-data", "no")]) else { return };
    drop(primary);
    replicas.iter().for_each(|replica| wait_until(|| replica.info("master_link_status") == "down"));
    compare(
        &replicas,
        &[
            &["GET", "text"],
            &["SET", "k", "v"],
            &["PING"],
            &["MULTI"],
            &["GET", "text"],
            &["EXEC"],
            &["SUBSCRIBE", "c"],
            &["UNSUBSCRIBE", "c"],
            &["PUBLISH", "c", "m"],
            &["PSYNC", "?", "-1"],
            &["CONFIG", "GET", "replica-serve-stale-data"],
        ],
    );
    #[cfg(feature = "lua")]
    compare(
        &replicas,
        &[
            &["EVAL", "return 1", "0"],
            &["EVAL", "return redis.call('get', KEYS[1])", "1", "text"],
            &["EVAL", "#!lua\nreturn 1", "0"],
            &["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
            &["EVAL", "#!lua flags=no-writes,allow-stale\nreturn 1", "0"],
            &["FCALL", "f", "0"],
        ],
    );
    compare(&replicas, &[&["CONFIG", "SET", "replica-serve-stale-data", "yes"], &["GET", "text"]]);
}

#[test]
fn what_is_wrong_with_a_change_of_the_role_is_said_as_by_redis() {
    let Some(redis) = Node::start(Kind::Redis, &[]) else { return };
    let servers = [Node::keylatch(&[]), redis];
    compare(
        &servers,
        &[
            &["REPLICAOF", "h"],
            &["REPLICAOF", "h", "x"],
            &["REPLICAOF", "h", "65536"],
            &["REPLICAOF", "h", "-1"],
            &["SLAVEOF", "no", "one"],
            &["ROLE"],
            &["FAILOVER"],
            &["FAILOVER", "ABORT"],
            &["FAILOVER", "ABORT", "x"],
            &["FAILOVER", "TIMEOUT", "0"],
            &["FAILOVER", "TIMEOUT", "x"],
            &["FAILOVER", "TO", "h"],
            &["FAILOVER", "TO", "h", "x"],
            &["FAILOVER", "FORCE"],
            &["FAILOVER", "FORCE", "FORCE"],
            &["FAILOVER", "TO", "h", "1", "FORCE", "TIMEOUT", "1"],
            &["WAIT", "0", "0"],
            &["PSYNC", "?", "-1", "FAILOVER"],
            &["REPLICAOF", "127.0.0.1", "1"],
            &["REPLICAOF", "127.0.0.1", "1"],
            &["SLAVEOF", "127.0.0.1", "2"],
            &["SET", "k", "v"],
            &["CONFIG", "GET", "slaveof"],
            &["CONFIG", "SET", "replicaof", "h 1"],
            &["REPLICAOF", "NO", "ONE"],
            &["CONFIG", "GET", "replicaof"],
            &["SET", "k", "v"],
        ],
    );
}

#[test]
fn a_transaction_may_change_the_role_in_its_middle() {
    let server = Node::keylatch(&[]);
    let mut client = server.client();
    client.expect(&[("CONFIG SET replica-read-only no", "+OK")]);
    let queue = |client: &mut Client, requests: &[&str]| {
        assert_eq!(client.call("MULTI"), "+OK");
        requests.iter().for_each(|request| assert_eq!(client.call(request), "+QUEUED"));
        client.call("EXEC")
    };
    let done = queue(
        &mut client,
        &["SET before v", "REPLICAOF 127.0.0.1 1", "SET between v", "REPLICAOF NO ONE", "SET after v"],
    );
    assert_eq!(done, "*5 +OK +OK +OK +OK +OK");
    let done = queue(&mut client, &["SET before w", "REPLICAOF 127.0.0.1 1", "SET between w"]);
    assert_eq!(done, "*3 +OK +OK +OK");
    let done = queue(&mut client, &["SET between x", "REPLICAOF NO ONE"]);
    assert_eq!(done, "*2 +OK +OK");
    client.expect(&[("GET between", "$1 x"), ("SET k v", "+OK")]);
    let replica = Node::replica_of(&server, &[]);
    replica.assert_same(&server);
}

#[test]
fn clients_that_are_blocked_when_a_primary_becomes_a_replica_are_told_and_closed() {
    let Some(redis) = Node::start(Kind::Redis, &[]) else { return };
    for server in [Node::keylatch(&[]), redis] {
        let requests = ["BLPOP l 0", "XREAD BLOCK 0 STREAMS s $", "WAIT 1 0"];
        let mut blocked = requests.map(|request| {
            let mut client = server.client();
            client.send(format!("{request}\r\n").as_bytes());
            client
        });
        wait_until(|| server.info("blocked_clients") == "3");
        server.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
        for client in &mut blocked {
            let text = "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
            assert_eq!(client.reply(), text);
            assert_eq!(client.read_raw(), None);
        }
    }
}

#[test]
fn in_a_chain_everyone_has_the_same_positions_and_continues_after_a_promotion() {
    for [first, middle, last] in [
        [Kind::Keylatch, Kind::Keylatch, Kind::Keylatch],
        [Kind::Redis, Kind::Keylatch, Kind::Redis],
        [Kind::Keylatch, Kind::Redis, Kind::Keylatch],
        [Kind::Redis, Kind::Keylatch, Kind::Keylatch],
    ] {
        // A PING that only the first one has would be more than the history of the others.
        let silent = [("repl-ping-replica-period", "3600")];
        let nodes = [first, middle, last].map(|kind| Node::start(kind, &silent));
        let [Some(top), Some(middle), Some(last)] = nodes else { return };
        fill(&mut top.client());
        middle.follow(&top);
        middle.assert_same(&top);
        last.follow(&middle);
        last.assert_same(&middle);
        let mut client = top.client();
        client.pipeline(&(0..500).map(|n| format!("SET key:{n} {n}")).collect::<Vec<_>>());
        client.expect(&[("SELECT 6", "+OK"), ("SET k v", "+OK")]);
        middle.assert_same(&top);
        last.assert_same(&middle);
        assert_eq!(last.info("master_repl_offset"), middle.info("master_repl_offset"));
        // The link in the middle is cut, and the chain goes on.
        assert_eq!(middle.client().call("CLIENT KILL TYPE master"), ":1");
        client.expect(&[("SET k w", "+OK")]);
        middle.assert_same(&top);
        last.assert_same(&middle);
        // The middle becomes a primary: the server below it stays, and the one above can become its replica.
        assert_eq!(middle.client().call("REPLICAOF NO ONE"), "+OK");
        middle.client().expect(&[("SELECT 2", "+OK"), ("SET promoted yes", "+OK")]);
        last.assert_same(&middle);
        top.follow(&middle);
        top.assert_same(&middle);
        top.client().expect(&[("SELECT 2", "+OK"), ("GET promoted", "$3 yes")]);
        let full = [&top, &middle, &last].map(|node| node.info("sync_full"));
        assert_eq!(full, ["1", "1", "0"], "{first:?}");
        assert_eq!(middle.info("sync_partial_ok"), "2");
    }
}

#[test]
fn once_a_primary_is_a_replica_no_write_is_accepted_that_its_replicas_do_not_have() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    for _ in 0..5 {
        let (counted, is_over) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        primary.client().expect(&[("SET counter 0", "+OK")]);
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, counted, is_over) = (primary.client(), counted.clone(), is_over.clone());
                std::thread::spawn(move || {
                    let requests = vec!["INCR counter".to_owned(); 50];
                    loop {
                        let was_over = is_over.load(Relaxed);
                        let accepted = client.pipeline(&requests).iter().filter(|reply| reply.starts_with(':')).count();
                        counted.fetch_add(accepted as i64, Relaxed);
                        assert!(!was_over || accepted == 0, "{accepted} writes of a replica");
                        if was_over {
                            return;
                        }
                    }
                })
            })
            .collect();
        wait_until(|| counted.load(Relaxed) > 500);
        primary.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
        is_over.store(true, Relaxed);
        let position = primary.info("master_repl_offset");
        writers.into_iter().for_each(|writer| writer.join().expect("it counts"));
        assert_eq!(primary.info("master_repl_offset"), position);
        let value = primary.client().int_text("GET counter");
        assert_eq!(value, counted.load(Relaxed));
        wait_until(|| replica.info("slave_repl_offset") == position);
        assert_eq!(replica.client().int_text("GET counter"), value);
        primary.client().expect(&[("REPLICAOF NO ONE", "+OK")]);
        replica.wait_for(&primary);
    }
    assert_eq!(primary.info("sync_full"), "1");
}

/// Numbers in strings.
trait Numbers {
    fn int_text(&mut self, request: &str) -> i64;
}

impl Numbers for Client {
    fn int_text(&mut self, request: &str) -> i64 {
        let reply = self.call(request);
        reply.split(' ').next_back().and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
    }
}

#[test]
fn a_failover_hands_the_role_over_without_losing_a_write() {
    for [old, new] in [[Kind::Keylatch, Kind::Keylatch], [Kind::Keylatch, Kind::Redis], [Kind::Redis, Kind::Keylatch]] {
        let [Some(old), Some(new)] = [old, new].map(|kind| Node::start(kind, &[])) else { return };
        fill(&mut old.client());
        new.follow(&old);
        new.assert_same(&old);
        let mut writer = old.client();
        writer.expect(&[("SET before it", "+OK")]);
        assert_eq!(old.client().call(&format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 20000", new.port())), "+OK");
        writer.send(b"SET during it\r\n"); // it waits, and is rejected then
        old.wait_for(&new);
        assert_eq!(writer.reply(), "-READONLY You can't write against a read only replica.");
        assert_eq!((new.info("role"), new.info("connected_slaves")), ("master".into(), "1".into()));
        assert_eq!(old.info("master_failover_state"), "no-failover");
        new.client().expect(&[("GET before", "$2 it"), ("SET after it", "+OK")]);
        old.assert_same(&new);
        assert_eq!((old.info("sync_full"), new.info("sync_full")), ("1".into(), "0".into()));
    }
}

#[test]
fn nothing_is_added_to_what_a_replica_lacks_while_a_failover_waits_for_it() {
    let primary = Primary::start_on(Clock::manual(), &[]);
    let mut silent = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK")]); // the replica never acknowledges this
    let offset = || primary.info("master_repl_offset").parse::<u64>().expect("a number");
    let begun = offset();
    primary.server.advance_ms(10_000);
    wait_until(|| offset() > begun);
    client.expect(&[("FAILOVER", "+OK")]);
    let waiting = offset();
    (0..4).for_each(|_| primary.server.advance_ms(10_000));
    client.expect(&[("FAILOVER ABORT", "+OK")]);
    primary.server.advance_ms(10_000);
    wait_until(|| offset() > waiting);
    assert_eq!(offset() - waiting, "*1\r\n$4\r\nPING\r\n".len() as u64);
    assert_eq!(silent.changes_before("set k v"), ["select 0"]);
}

#[test]
fn a_failover_that_takes_too_long_is_given_up_and_one_that_is_forced_can_be_aborted() {
    let primary = Node::keylatch(&[]);
    let mut client = primary.client();
    let mut silent = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(silent.call("REPLCONF listening-port 1"), "+OK");
    silent.synchronize();
    silent.acknowledge();
    wait_until(|| primary.info("slave0").contains("state=online"));
    client.expect(&[
        ("SET k v", "+OK"),
        (
            "FAILOVER TO 127.0.0.1 1 FORCE",
            "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
        ("FAILOVER TO 127.0.0.1 2", "-ERR FAILOVER target HOST and PORT is not a replica."),
        ("FAILOVER TIMEOUT 50", "+OK"),
    ]);
    let mut writer = primary.client();
    writer.expect(&[("SET k w", "+OK")]); // once the failover is given up
    assert_eq!(primary.info("master_failover_state"), "no-failover");
    client.expect(&[
        ("FAILOVER", "+OK"),
        ("FAILOVER", "-ERR FAILOVER already in progress."),
        ("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed while failing over."),
        ("REPLICAOF h 1", "-ERR REPLICAOF not allowed while failing over."),
    ]);
    assert_eq!(primary.info("master_failover_state"), "waiting-for-sync");
    client.expect(&[("FAILOVER ABORT", "+OK"), ("SET k x", "+OK"), ("FAILOVER TO 127.0.0.1 1 TIMEOUT 1 FORCE", "+OK")]);
    wait_until(|| primary.info("master_failover_state") == "failover-in-progress");
    assert_eq!(primary.info("role"), "slave");
    client.expect(&[("FAILOVER ABORT", "+OK"), ("SET k y", "+OK")]);
    assert_eq!((primary.info("role"), primary.info("master_failover_state")), ("master".into(), "no-failover".into()));
}

#[test]
fn a_failover_is_given_up_if_its_replica_refuses_to_be_the_primary() {
    let primary = Node::keylatch(&[("repl-ping-replica-period", "3600")]); // nothing follows on what is acknowledged
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let mut refusing = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(refusing.call(&format!("REPLCONF listening-port {port}")), "+OK");
    refusing.synchronize();
    refusing.acknowledge();
    wait_until(|| primary.info("slave0").contains("state=online"));
    let mut client = primary.client();
    client.expect(&[(&format!("FAILOVER TO 127.0.0.1 {port}"), "+OK")]);
    let (mut link, said) = hear_replica(&listener, no_time);
    assert!(said.ends_with("FAILOVER\r\n"), "{said}");
    assert_eq!(primary.info("master_failover_state"), "failover-in-progress");
    link.write_all(b"-ERR PSYNC FAILOVER can't be sent to a master.\r\n").expect("it reads");
    wait_until(|| primary.info("master_failover_state") == "no-failover");
    client.expect(&[("SET k v", "+OK")]);
    assert_eq!(primary.info("role"), "master");
}

#[test]
fn chains_with_links_that_are_cut_at_random_end_with_the_same_data() {
    for (seed, kinds) in [
        (1, [Kind::Keylatch, Kind::Keylatch, Kind::Keylatch]),
        (2, [Kind::Keylatch, Kind::Redis, Kind::Keylatch]),
        (3, [Kind::Redis, Kind::Keylatch, Kind::Redis]),
    ] {
        let settings = [("repl-backlog-size", "16384")];
        let nodes = kinds.map(|kind| Node::start(kind, &settings));
        let [Some(top), Some(middle), Some(last)] = nodes else { return };
        middle.follow(&top);
        last.follow(&middle);
        let mut dice = Dice::new(seed);
        let mut below = |max: u64| dice.roll(max);
        let mut client = top.client();
        for _ in 0..40 {
            let mut requests = Vec::new();
            for _ in 0..below(400) {
                let (db, key, n) = (below(3), below(50), below(1_000_000));
                requests.push(match below(12) {
                    0 => format!("SELECT {db}"),
                    1 => format!("DEL s{key}"),
                    2 => format!("SET s{key} {n} PX {}", 1 + below(50)),
                    3 => format!("RPUSH l{key} {n}"),
                    4 => format!("LPOP l{key}"),
                    5 => format!("ZADD z{key} {n} m{}", below(20)),
                    6 => format!("SADD t{key} {n}"),
                    7 => format!("SPOP t{key}"),
                    8 => format!("HINCRBY h{key} f {n}"),
                    9 => format!("APPEND s{key} {n}"),
                    10 => format!("XADD x{key} MAXLEN ~ 100 * f {n}"),
                    _ => format!("SET s{key} {n}"),
                });
                if below(20) == 0 {
                    requests.extend([
                        "MULTI".into(),
                        format!("INCR c{key}"),
                        format!("RPUSH l{key} {n}"),
                        "EXEC".into(),
                    ]);
                }
            }
            client.pipeline(&requests);
            match below(6) {
                0 => _ = top.client().call("CLIENT KILL TYPE replica"),
                1 => _ = middle.client().call("CLIENT KILL TYPE master"),
                2 => _ = middle.client().call("CLIENT KILL TYPE replica"),
                3 => _ = last.client().call("CLIENT KILL TYPE master"),
                _ => {}
            }
        }
        middle.wait_for(&top);
        last.wait_for(&middle);
        // Keys that expire by themselves have expired at the primary.
        wait_until(|| {
            let digests = [&top, &middle, &last].map(|node| node.client().call("DEBUG DIGEST"));
            digests[0] == digests[1] && digests[1] == digests[2]
        });
    }
}
