//! Features that depend on the replicas' acknowledgements: WAIT, WAITAOF, `min-replicas-to-write`, `repl-timeout`.

use keylatch::Clock;
use keylatch::internals::disk::{DiskFailure, DiskFaults, DiskOperation, PlannedFaults, SimulatedDisk};

use super::nodes::{Kind, Node};
use super::parties::{Primary, RawReplica};
use crate::harness::{Client, wait_until};

#[test]
fn wait_returns_how_many_redis_servers_have_the_writes() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    client.expect(&[("WAIT 0 0", ":0"), ("SET k v", "+OK"), ("WAIT 1 10", ":0")]);
    let (Some(_first), Some(_second)) = (primary.synchronized_replica(), primary.synchronized_replica()) else {
        return;
    };
    client.expect(&[("SET k w", "+OK"), ("WAIT 2 0", ":2"), ("SET k x", "+OK"), ("WAIT 2 0", ":2")]);
    client.expect(&[("WAIT 3 10", ":2"), ("WAIT 0 0", ":2"), ("WAIT -1 0", ":2")]);
    client.expect(&[
        ("WAIT x 0", "-ERR value is not an integer or out of range"),
        ("WAIT 1 -1", "-ERR timeout is negative"),
    ]);
}

#[test]
fn wait_waits_for_the_writes_of_its_own_client_alone() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let (mut writer, mut other) = (primary.client(), primary.client());
    // The other client's write is acknowledged, the writer's is not yet.
    other.call("SET mine v");
    raw.changes_before("set mine v");
    raw.acknowledge();
    wait_until(|| other.call("WAIT 1 1") == ":1");
    writer.expect(&[("SET k v", "+OK"), ("WAIT 1 1", ":0")]);
    other.expect(&[("WAIT 1 0", ":1"), ("GET k", "$1 v"), ("WAIT 1 0", ":1")]);
    let mut blocked = primary.server.block_as(writer, "WAIT 1 0");
    raw.changes_before("set k v");
    raw.acknowledge();
    assert_eq!(blocked.reply(), ":1");
    // A change of a blocked client's own happens when the client is served.
    let mut served = primary.server.block("BLPOP q 0");
    other.call("RPUSH q x");
    assert_eq!((served.reply(), served.call("WAIT 1 1")), ("*2 $1 q $1 x".into(), ":0".into()));
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_does_not_count() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    primary.client().call("SET first v");
    raw.changes_before("set first v");
    for claim in ["9223372036854775807", "100000000", "-1", "x", "99999999999999999999"] {
        raw.send(&format!("REPLCONF ACK {claim}"));
    }
    let mut client = primary.client();
    wait_until(|| client.call("CLIENT LIST TYPE replica").contains(" tot-cmds=9 "));
    client.expect(&[("SET k v", "+OK"), ("WAIT 1 10", ":0"), ("WAITAOF 0 1 10", "*2 :0 :0")]);
    // Nor does one during the snapshot.
    let mut early = RawReplica::connect(primary.addr(), &["eof"]);
    client.call("CONFIG SET repl-diskless-sync-delay 600");
    early.send("PSYNC ? -1");
    early.send("REPLCONF ACK 1000000");
    wait_until(|| client.info("connected_slaves") == "2");
    client.call("CONFIG SET repl-diskless-sync-delay 0");
    early.full();
    client.expect(&[("SET k w", "+OK"), ("WAIT 1 10", ":0")]);
}

#[test]
fn wait_answers_at_once_in_transactions_and_scripts() {
    let primary = Primary::start(&[]);
    let _raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET k v", "+QUEUED"),
        ("WAIT 1 0", "+QUEUED"),
        ("WAITAOF 0 1 0", "+QUEUED"),
        ("EXEC", "*3 +OK :1 *2 :0 :1"),
    ]);
    #[cfg(feature = "lua")]
    assert_eq!(primary.client().call_args(&["EVAL", "return redis.call('WAIT', 2, 0)", "0"]), ":1");
}

#[test]
fn clients_that_wait_are_shown_as_blocked_and_can_be_unblocked() {
    let primary = Primary::start(&[("appendonly", "yes"), ("appendfsync", "no")]);
    let mut client = primary.client();
    for request in ["WAIT 1 0", "WAITAOF 0 1 0", "WAITAOF 1 1 0"] {
        let mut blocked = primary.server.client();
        let id = blocked.int("CLIENT ID");
        blocked.call("SET k v");
        let mut blocked = primary.server.block_as(blocked, request);
        client.expect(&[(&format!("CLIENT UNBLOCK {id} ERROR"), ":1")]);
        assert_eq!(blocked.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
        let mut blocked = primary.server.block_as(blocked, request);
        client.expect(&[(&format!("CLIENT UNBLOCK {id}"), ":1")]);
        let expected = if request.starts_with("WAIT ") { ":0".into() } else { format!("*2 :{} :0", &request[8..9]) };
        assert_eq!(blocked.reply(), expected);
    }
    assert_eq!(client.info("blocked_clients"), "0");
}

#[test]
fn waitaof_counts_replicas_that_have_the_writes_in_their_files() {
    let primary = Primary::start(&[("appendonly", "yes")]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0"), ("WAITAOF 1 1 1000", "*2 :1 :0")]);
    client.expect(&[("WAITAOF 0 1 10", "*2 :1 :0"), ("WAITAOF 0 0 0", "*2 :1 :0")]);
    let mut blocked = primary.server.block_as(client, "WAITAOF 1 1 0");
    raw.changes_before("set k v");
    let offset = raw.offset;
    raw.send(&format!("REPLCONF ACK {offset} FACK {}", offset - 1));
    let mut other = primary.client();
    wait_until(|| primary.shows(&format!("offset={offset},")));
    assert_eq!(other.info("blocked_clients"), "1");
    raw.send(&format!("REPLCONF ACK {offset} FACK {offset}"));
    assert_eq!(blocked.reply(), "*2 :1 :1");
    blocked.expect(&[("WAITAOF 0 1 0", "*2 :1 :1"), ("WAITAOF 1 2 1000", "*2 :1 :1")]);
}

#[test]
fn waitaof_says_whether_the_own_file_has_the_writes_also_where_nobody_waits_for_that() {
    let primary = Primary::start(&[("appendonly", "yes"), ("appendfsync", "no")]);
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK"), ("WAITAOF 0 0 0", "*2 :0 :0"), ("WAITAOF 0 1 10", "*2 :0 :0")]);
    client.expect(&[("MULTI", "+OK"), ("WAITAOF 1 1 0", "+QUEUED"), ("EXEC", "*1 *2 :0 :0")]);
    client.expect(&[("WAITAOF 1 0 0", "*2 :1 :0"), ("WAITAOF 0 0 0", "*2 :1 :0"), ("WAITAOF 0 1 10", "*2 :1 :0")]);
    client.expect(&[("MULTI", "+OK"), ("WAITAOF 1 1 0", "+QUEUED"), ("EXEC", "*1 *2 :1 :0")]);
    client.expect(&[("SET k w", "+OK"), ("WAITAOF 0 0 0", "*2 :0 :0")]);
    let refused = "-ERR value is out of range, value must between 0 and 1";
    client.expect(&[("WAITAOF 2 0 0", refused), ("WAITAOF -1 0 0", refused)]);
    client.expect(&[("WAITAOF 1 -1 0", "-ERR value is out of range, must be positive")]);
    client.expect(&[("WAITAOF 1 1 -1", "-ERR timeout is negative")]);
}

#[test]
fn waitaof_counts_keylatch_servers_that_have_the_writes_in_their_files() {
    for policy in ["always", "everysec"] {
        let primary = Node::keylatch(&[("appendonly", "yes")]);
        let replica = Node::replica_of(&primary, &[("appendonly", "yes"), ("appendfsync", policy)]);
        let without = Node::replica_of(&primary, &[]);
        [&replica, &without].iter().for_each(|node| node.wait_for(&primary));
        let mut client = primary.client();
        let clock = Clock::system();
        let begun_ms = clock.now().mono_ms();
        for n in 0..5 {
            client.expect(&[(&*format!("SET k{n} v"), "+OK")]);
            assert!(client.call("WAITAOF 0 1 0").ends_with(" :1"));
        }
        // The replica reports that a write is durable at that time, and not a second later.
        let took_ms = clock.now().mono_ms() - begun_ms;
        assert!(policy != "always" || took_ms < 2500, "{took_ms} ms");
        client.expect(&[("WAITAOF 1 1 0", "*2 :1 :1")]);
        client.expect(&[("WAITAOF 1 2 10", "*2 :1 :1")]);
        let on_replica = "-ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas \
            are just local and are not propagated.";
        replica.client().expect(&[("WAITAOF 1 0 0", on_replica), ("WAITAOF 0 0 0", on_replica)]);
        replica.client().expect(&[("CONFIG SET appendonly no", "+OK")]);
        wait_until(|| replica.info("aof_enabled") == "0");
        client.expect(&[("SET k w", "+OK"), ("WAIT 2 0", ":2"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
        client.expect(&[("WAITAOF 1 1 10", "*2 :1 :0")]);
        replica.client().expect(&[("CONFIG SET appendonly yes", "+OK")]);
        client.expect(&[("WAITAOF 1 1 0", "*2 :1 :1")]);
    }
}

#[test]
fn redis_counts_a_replica_that_says_what_its_file_has() {
    let Some(primary) = Node::start(Kind::Redis, &[]) else { return };
    let replica = Node::replica_of(&primary, &[("appendonly", "yes")]);
    replica.wait_for(&primary);
    primary.client().expect(&[("SET k v", "+OK"), ("WAIT 1 0", ":1")]);
    replica.assert_same(&primary);
}

const NO_REPLICAS: &str = "-NOREPLICAS Not enough good replicas to write.";

#[test]
fn writes_are_rejected_without_enough_replicas() {
    let primary = Primary::start(&[("min-replicas-to-write", "1")]);
    let mut client = primary.client();
    client.expect(&[("SET k v", NO_REPLICAS), ("GET k", "$-1")]);
    assert_eq!(client.info("min_slaves_good_slaves"), "0");
    let mut raw = RawReplica::connect(primary.addr(), &["eof"]);
    raw.synchronize();
    client.expect(&[("SET k v", NO_REPLICAS)]);
    raw.acknowledge();
    wait_until(|| client.call("SET k v") == "+OK");
    assert_eq!(client.info("min_slaves_good_slaves"), "1");
    drop(raw);
    wait_until(|| client.call("SET k w") == NO_REPLICAS);
}

#[test]
fn a_replica_that_is_silent_does_not_count_and_is_disconnected_in_the_end() {
    let settings = [("min-replicas-to-write", "1"), ("min-replicas-max-lag", "10"), ("repl-timeout", "60")];
    let primary = Primary::start_on(Clock::manual(), &settings);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    wait_until(|| client.call("SET k v") == "+OK");
    primary.server.advance_ms(9_000);
    client.call("SET k v");
    primary.server.advance_ms(2_000);
    wait_until(|| client.call("SET k w") == NO_REPLICAS);
    assert!(primary.info("slave0").ends_with("lag=11"));
    primary.server.advance_ms(48_000);
    raw.acknowledge();
    wait_until(|| client.call("SET k x") == "+OK");
    primary.server.advance_ms(61_000);
    wait_until(|| primary.info("connected_slaves") == "0");
    raw.read_to_end();
}

#[test]
fn a_replica_has_the_whole_timeout_to_acknowledge_once_it_was_sent_a_snapshot() {
    let primary = Primary::start_on(Clock::manual(), &[("repl-timeout", "60")]);
    let mut other = RawReplica::synchronized(primary.addr());
    primary.client().expect(&[("CONFIG SET repl-diskless-sync-delay 100", "+OK")]);
    let mut raw = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    raw.send("PSYNC ? -1");
    wait_until(|| primary.shows("state=wait_bgsave"));
    // A replica that is silent for too long is disconnected at the time at which the others are sent a PING.
    let mut pass_10_s = || {
        primary.server.advance_ms(10_000);
        assert_eq!(other.command(), "ping");
        other.acknowledge();
        wait_until(|| primary.info("slave0").ends_with("lag=0"));
    };
    (0..10).for_each(|_| pass_10_s());
    raw.full();
    (0..5).for_each(|_| pass_10_s());
    raw.acknowledge();
    primary.client().expect(&[("SET k v", "+OK")]);
    assert_eq!(raw.changes_before("set k v"), ["select 0"]);
}

#[test]
fn a_replica_that_loads_says_by_empty_lines_that_it_is_there() {
    let primary = Primary::start_on(Clock::manual(), &[("repl-timeout", "60")]);
    let [mut quiet, mut alive] = [(); 2].map(|()| RawReplica::connect(primary.addr(), &["eof"]));
    quiet.synchronize();
    alive.synchronize();
    assert_eq!(primary.info("connected_slaves"), "2");
    primary.server.advance_ms(50_000);
    assert_eq!(primary.info("connected_slaves"), "2");
    let heard = |primary: &Primary| -> u64 {
        let list = primary.client().call("CLIENT LIST TYPE replica");
        list.split(' ').filter_map(|part| part.strip_prefix("tot-net-in=")?.parse::<u64>().ok()).sum()
    };
    let before = heard(&primary);
    alive.send_raw(b"\n");
    wait_until(|| heard(&primary) > before);
    primary.client().call("PING"); // the line was executed with the bytes read
    primary.server.advance_ms(15_000);
    wait_until(|| primary.info("connected_slaves") == "1");
    quiet.read_to_end();
    primary.client().call("SET k v");
    alive.acknowledge();
    assert_eq!(alive.changes_before("set k v"), ["select 0"]);
}

#[test]
fn a_replica_that_does_not_read_is_disconnected_by_its_output_limit_and_can_come_back() {
    let primary = Primary::start(&[("client-output-buffer-limit", "replica 4mb 0 0")]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    let value = "x".repeat(1 << 20);
    let mut written = 0;
    wait_until(|| {
        client.call(&format!("SET k {value}"));
        written += 1;
        client.info("connected_slaves") == "0"
    });
    assert!(written > 4, "{written}");
    assert_eq!(client.info("client_output_buffer_limit_disconnections"), "1");
    raw.read_to_end();
    let mut again = RawReplica::synchronized(primary.addr());
    client.call("SET last v");
    assert_eq!(again.changes_before("set last v"), ["select 0"]);
}

#[test]
fn a_replica_that_lacks_what_the_backlog_has_is_not_disconnected_for_that() {
    let primary =
        Primary::start(&[("client-output-buffer-limit", "replica 1mb 1mb 1"), ("repl-backlog-size", "100mb")]);
    let raw = RawReplica::synchronized(primary.addr());
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    let (mut client, value) = (primary.client(), "x".repeat(1 << 20));
    (0..40).for_each(|_| _ = client.call(&format!("SET k {value}")));
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    wait_until(|| {
        client.call("CLIENT LIST TYPE replica").split(' ').any(|part| {
            part.strip_prefix("omem=").is_some_and(|len| len.parse::<usize>().is_ok_and(|len| len > 20 << 20))
        })
    });
    client.call("SET last v");
    assert_eq!(again.changes_before("set last v").len(), 41);
}

#[test]
fn a_replica_over_its_soft_limit_is_disconnected_after_its_seconds() {
    let primary = Primary::start(&[("client-output-buffer-limit", "replica 0 4mb 1")]);
    let _raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    let value = "x".repeat(1 << 20);
    (0..30).for_each(|_| _ = client.call(&format!("SET k {value}")));
    wait_until(|| client.info("connected_slaves") == "0");
}

#[test]
fn a_replica_does_not_acknowledge_what_its_file_does_not_have() {
    let primary = Primary::start(&[]);
    let disk = SimulatedDisk::new(1);
    let builder = keylatch::Server::builder().disk(disk.clone()).set("dir", "/").set("appendonly", "yes");
    let builder = builder.set("appendfsync", "always").set("repl-diskless-load", "swapdb");
    let replica = builder.set("replicaof", &*format!("127.0.0.1 {}", primary.addr().port()));
    let replica = replica.start_blocking().expect("started");
    let (mut client, mut there) = (primary.client(), Client::connect(replica.addr()));
    wait_until(|| there.info("master_link_status") == "up");
    client.expect(&[("SET k 1", "+OK"), ("WAIT 1 0", ":1")]);
    let planned = vec![PlannedFaults {
        operation: Some(DiskOperation::Sync),
        file: None,
        after: 0,
        count: usize::MAX,
        error: DiskFailure::Io,
    }];
    disk.set_faults(DiskFaults { planned, ..DiskFaults::default() });
    client.expect(&[("SET k 2", "+OK")]);
    wait_until(|| there.info("aof_last_write_status") == "err");
    client.expect(&[("WAIT 1 50", ":0")]);
    disk.set_faults(DiskFaults::default());
}

#[test]
fn a_replica_counts_once_it_has_acknowledged_its_snapshot_or_has_come_back() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    let mut raw = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    raw.synchronize();
    wait_until(|| primary.shows("state=send_bulk"));
    client.expect(&[("WAIT 1 10", ":0")]);
    raw.acknowledge();
    client.expect(&[("WAIT 1 0", ":1"), ("SET k v", "+OK")]);
    raw.changes_before("set k v");
    let (id, offset) = (raw.id.clone(), raw.offset);
    drop(raw);
    wait_until(|| primary.info("connected_slaves") == "0");
    let mut again = RawReplica::connect(primary.addr(), &["eof", "psync2"]);
    assert_eq!(again.resume(&id, offset), format!("+CONTINUE {id}"));
    again.send(&format!("REPLCONF ACK {offset}"));
    client.expect(&[("WAIT 1 0", ":1")]);
}
