//! Locks on a primary, and their records at a replica that takes its place.

use keylatch::Clock;

use super::nodes::{Kind, Node};
use super::parties::{Primary, RawReplica};
use crate::harness::{Client, TestServer, wait_until};

#[test]
fn a_lock_is_held_at_a_replica_that_is_promoted_until_its_own_deadline() {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[]);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.wait_for(&primary);
        let mut holder = primary.client();
        assert!(holder.int("LOCK.ACQUIRE held mine PX 60000") > 0);
        assert!(holder.int("LOCK.ACQUIRE released mine PX 60000") > 0);
        holder.expect(&[("LOCK.RELEASE released mine", ":1"), ("WAIT 1 0", ":1")]);
        let mut other = replica.client();
        other.expect(&[("REPLICAOF NO ONE", "+OK"), ("GET held", "$4 mine"), ("SET held other NX PX 1000", "$-1")]);
        // The deadline is logged in whole milliseconds, rounded up. The rest depends on the round trip in which the
        // replica learned of its primary's clock.
        let late_ms = other.int("PEXPIRETIME held") - holder.int("PEXPIRETIME held");
        assert!((0..=1).contains(&late_ms), "{late_ms}");
        other.expect(&[("SET released other NX PX 1000", "+OK")]);
        if kind == Kind::Keylatch {
            other.expect(&[("LOCK.ACQUIRE held other PX 1000", "$-1"), ("LOCK.RELEASE held mine", ":1")]);
        }
    }
}

#[test]
fn a_replica_takes_no_string_for_a_shared_lock_and_each_shared_lock_for_one() {
    let primary = Node::keylatch(&[]);
    let mut client = primary.client();
    for key in ["early", "early:overwritten"] {
        assert!(client.int(&format!("LOCK.ACQUIRE {key} r SHARED PX 60000")) > 0);
    }
    client.expect(&[("SET early:overwritten shared:", "+OK"), ("SET early:plain shared:", "+OK")]);
    // By the full synchronisation, and by the stream after it.
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    for key in ["late", "late:overwritten"] {
        assert!(client.int(&format!("LOCK.ACQUIRE {key} r SHARED PX 60000")) > 0);
    }
    client.expect(&[("SET late:overwritten shared:", "+OK"), ("SET late:plain shared:", "+OK"), ("WAIT 1 0", ":1")]);
    let mut there = replica.client();
    there.expect(&[("REPLICAOF NO ONE", "+OK")]);
    for time in ["early", "late"] {
        for kind in ["overwritten", "plain"] {
            there.expect(&[
                (&format!("LOCK.FENCE {time}:{kind} r"), "$-1"),
                (&format!("LOCK.FENCE {time}:{kind} shared:"), "$-1"),
                (&format!("LOCK.RENEW {time}:{kind} shared: PX 1"), "$-1"),
                (&format!("LOCK.RELEASE {time}:{kind} shared:"), ":0"),
                (&format!("GET {time}:{kind}"), "$7 shared:"),
            ]);
        }
        there.expect(&[(&format!("LOCK.RELEASE {time} shared:"), ":0"), (&format!("LOCK.RELEASE {time} r"), ":1")]);
    }
}

#[test]
fn subscribers_at_a_replica_hear_of_the_losses_that_those_at_the_primary_hear_of_and_of_no_others() {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[]);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        replica.wait_for(&primary);
        let mut subscribers = [primary.client(), replica.client()];
        for subscriber in &mut subscribers {
            subscriber.expect(&[("PSUBSCRIBE __lock__:*", "*3 $10 psubscribe $10 __lock__:* :1")]);
        }
        let mut holder = primary.client();
        let mut fence = |request: &str| holder.int(&format!("{request} PX 60000 NOTIFY"));
        fence("LOCK.ACQUIRE released t");
        let pool = fence("LOCK.ACQUIRE pool t PERMITS 1 OF 2");
        fence("LOCK.ACQUIRE k t");
        fence("LOCK.ACQUIRE k t CONVERT SHARED");
        let alone = fence("LOCK.ACQUIRE k t CONVERT");
        let renamed = fence("LOCK.ACQUIRE renamed t");
        let flushed = fence("LOCK.ACQUIRE flushed t");
        for request in ["LOCK.RELEASE released t", "LOCK.RESIZE pool 3", "DEL pool", "SET k x", "RENAME renamed r"] {
            holder.call(request);
        }
        holder.expect(&[("FLUSHALL", "+OK")]);
        for (key, text) in [
            ("pool", format!("deleted {pool}")),
            ("k", format!("overwritten {alone}")),
            ("renamed", format!("renamed {renamed}")),
            ("flushed", format!("flushed {flushed}")),
        ] {
            let channel = format!("__lock__:{key}");
            let message = format!("*4 $8 pmessage $10 __lock__:* ${} {channel} ${} {text}", channel.len(), text.len());
            assert_eq!(subscribers.each_mut().map(|client| client.reply()), [message.clone(), message], "{kind:?}");
        }
    }
}

#[test]
fn fences_increase_over_a_failover_to_a_server_whose_clock_is_behind() {
    let ahead = TestServer::start_on(Clock::manual(), &[("repl-diskless-sync-delay", "0")]);
    ahead.server().set_wall_ms(Clock::system().now().wall_ms() + 1_000_000_000);
    let mut client = ahead.client();
    let first = client.int("LOCK.ACQUIRE before mine PX 60000");
    // By the full synchronisation, and by the stream after it.
    let [early, late] = [(); 2].map(|()| Node::keylatch(&[]));
    let mut fences = Vec::new();
    for replica in [&early, &late] {
        let mut there = replica.client();
        there.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", ahead.addr().port()), "+OK")]);
        wait_until(|| there.info("master_link_status") == "up");
        if fences.is_empty() {
            there.expect(&[("REPLICAOF NO ONE", "+OK")]);
            fences.push((first, there.int("LOCK.ACQUIRE after mine PX 60000")));
        }
    }
    ahead.server().set_wall_ms(Clock::system().now().wall_ms() + 2_000_000_000);
    let given = client.int("LOCK.ACQUIRE between mine PX 60000");
    let mut there = late.client();
    wait_until(|| there.call("EXISTS between") == ":1");
    there.expect(&[("REPLICAOF NO ONE", "+OK")]);
    fences.push((given, there.int("LOCK.ACQUIRE after mine PX 60000")));
    for (before, after) in fences {
        assert!(after > before, "{after} after {before}");
    }
}

#[test]
fn a_replica_that_was_sent_all_data_gives_greater_fences_than_its_primary_gives_unheard() {
    let ahead = TestServer::start_on(Clock::manual(), &[("repl-diskless-sync-delay", "0")]);
    ahead.server().set_wall_ms(Clock::system().now().wall_ms() + 1_000_000_000);
    let _first = RawReplica::synchronized(ahead.addr()); // only this one is told the bound of fences
    let mut client = ahead.client();
    let before = client.int("LOCK.ACQUIRE before mine PX 60000");
    let replica = Node::keylatch(&[]);
    let mut there = replica.client();
    there.expect(&[(&format!("REPLICAOF 127.0.0.1 {}", ahead.addr().port()), "+OK")]);
    wait_until(|| there.info("master_link_status") == "up");
    there.expect(&[("REPLICAOF NO ONE", "+OK")]);
    ahead.advance_ms(5000);
    let given = client.int("LOCK.ACQUIRE unheard mine PX 60000");
    let after = there.int("LOCK.ACQUIRE after mine PX 60000");
    assert!(before < given && given < after, "{after} after {given}");
}

#[test]
fn a_primary_that_was_a_replica_in_between_tells_its_replicas_of_fences_again() {
    let (node, other) = (Node::keylatch(&[]), Node::keylatch(&[]));
    let raw = RawReplica::synchronized(node.addr());
    assert!(node.client().int("LOCK.ACQUIRE before mine PX 60000") > 0);
    drop(raw);
    node.follow(&other);
    node.wait_for(&other);
    let mut client = node.client();
    client.expect(&[("REPLICAOF NO ONE", "+OK")]);
    let mut raw = RawReplica::synchronized(node.addr());
    assert!(client.int("LOCK.ACQUIRE after mine PX 60000") > 0);
    let told = std::iter::from_fn(|| Some(raw.command())).find(|command| command != "ping").expect("the lock");
    assert!(told.starts_with("ping keylatch-fences-up-to:"), "{told}");
}

#[test]
fn a_former_primary_keeps_no_places_for_clients_that_have_gone() {
    let primary = Node::keylatch(&[("session-grace-ms", "600000")]);
    let mut client = primary.client();
    assert!(client.int("LOCK.ACQUIRE k mine PX 60000") > 0);
    let mut waiter = primary.client();
    waiter.send(b"LOCK.ACQUIRE k other SESSION BLOCK 0\r\n");
    wait_until(|| primary.info("blocked_clients") == "1");
    drop(waiter);
    wait_until(|| client.call("INFO locks").contains("kept_places:1 "));
    client.expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    assert!(client.call("INFO locks").contains("kept_places:0 "));
}

#[test]
fn who_waits_for_a_lock_is_told_when_the_primary_becomes_a_replica() {
    let primary = Node::keylatch(&[]);
    assert!(primary.client().int("LOCK.ACQUIRE k mine PX 60000") > 0);
    let mut waiter = primary.client();
    waiter.send(b"LOCK.ACQUIRE k other PX 1000 BLOCK 0\r\n");
    wait_until(|| primary.info("blocked_clients") == "1");
    primary.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    assert!(waiter.reply().starts_with("-UNBLOCKED "));
    assert_eq!(waiter.read_raw(), None);
}

#[test]
fn a_session_at_a_former_primary_ends_after_the_grace_on_the_new_one() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("session-grace-ms", "50")]);
    replica.wait_for(&primary);
    let mut holder = primary.client();
    assert!(holder.int("LOCK.ACQUIRE k mine SESSION") > 0);
    replica.wait_for(&primary);
    let mut there = replica.client();
    there.expect(&[("EXISTS k", ":1"), ("REPLICAOF NO ONE", "+OK")]);
    wait_until(|| there.call("EXISTS k") == ":0");
}

#[test]
fn a_session_that_ends_on_a_former_primary_releases_nothing() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("session-grace-ms", "60000")]);
    let mut holder = primary.client();
    assert!(holder.int("LOCK.ACQUIRE k mine PX 60000 SESSION") > 0);
    replica.wait_for(&primary);
    replica.client().expect(&[("REPLICAOF NO ONE", "+OK")]);
    primary.follow(&replica);
    primary.wait_for(&replica);
    let id = holder.int("CLIENT ID");
    drop(holder);
    wait_until(|| primary.client().call(&format!("CLIENT LIST ID {id}")).trim() == "$0");
    replica.client().expect(&[("SET k other NX", "$-1"), ("SET marker v", "+OK")]);
    wait_until(|| primary.client().call("GET marker") == "$1 v");
    assert_eq!(primary.client().call("GET k"), "$4 mine");
}

#[test]
fn under_the_same_fault_a_lock_by_set_is_given_twice_and_one_with_replicas_is_not_granted() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[]);
    replica.wait_for(&primary);
    let (mut one, mut other) = (primary.client(), replica.client());
    assert!(one.int("LOCK.ACQUIRE before one PX 60000 REPLICAS 1") > 0);
    // The network between the two has failed.
    other.expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    wait_until(|| primary.info("connected_slaves") == "0");
    one.expect(&[("SET by-set one NX PX 60000", "+OK"), ("WAIT 1 50", ":0")]);
    one.expect(&[("LOCK.ACQUIRE replicated one PX 60000 BLOCK 50 REPLICAS 1", "$-1")]);
    other.expect(&[
        ("REPLICAOF NO ONE", "+OK"),
        ("SET by-set other NX PX 60000", "+OK"),
        ("LOCK.ACQUIRE before other PX 60000", "$-1"),
    ]);
    assert!(other.int("LOCK.ACQUIRE replicated other PX 60000") > 0);
    one.expect(&[("GET by-set", "$3 one"), ("GET replicated", "$-1"), ("GET before", "$3 one")]);
}

/// Sends a request that acquires a lock, waits until the client is blocked, and makes the replica read the lock.
fn begin(primary: &Primary, raw: &mut RawReplica, request: &str) -> Client {
    let client = primary.server.block(request);
    read_lock(raw);
    client
}

/// Makes a replica read that a lock was acquired: the key and its record.
fn read_lock(raw: &mut RawReplica) {
    wait_until(|| raw.change().starts_with("set k "));
    wait_until(|| raw.change() == "exec");
}

/// Makes replicas read all data, and acknowledge it when asked, until no client waits for acknowledgements.
fn acknowledge_all(primary: &Primary, replicas: &mut [&mut RawReplica]) {
    wait_until(|| {
        primary.client().expect(&[("SET marker v", "+OK")]);
        replicas.iter_mut().for_each(|raw| _ = raw.changes_before("set marker v"));
        primary.info("blocked_clients") == "0"
    });
}

#[test]
fn a_lock_with_replicas_is_granted_when_as_many_have_acknowledged_it() {
    let primary = Primary::start_on(Clock::manual(), &[]);
    let [mut first, mut second] = [(); 2].map(|()| RawReplica::synchronized(primary.addr()));
    let mut holder = begin(&primary, &mut first, "LOCK.ACQUIRE k mine PX 60000 REPLICAS 2");
    assert_eq!(primary.client().call("GET k"), "$4 mine");
    first.acknowledge();
    wait_until(|| primary.shows("port=0,state=online,offset="));
    assert_eq!(primary.client().call("LOCK.ACQUIRE k other PX 1"), "$-1");
    read_lock(&mut second);
    second.acknowledge();
    let fence = holder.reply();
    assert_eq!(holder.call("LOCK.FENCE k mine"), fence);
    // Asked again, by another client after the reply was lost.
    let mut again = primary.server.block("LOCK.ACQUIRE k mine SESSION REPLICAS 2");
    acknowledge_all(&primary, &mut [&mut first, &mut second]);
    assert_eq!(again.reply(), fence);
    holder.expect(&[("LOCK.RELEASE k mine", ":1")]);
    // Without replicas the reply waits for nothing.
    assert!(holder.int("LOCK.ACQUIRE k mine PX 60000 REPLICAS 0") > 0);
}

#[test]
fn a_lock_that_replicas_do_not_acknowledge_in_time_is_released() {
    let primary = Primary::start_on(Clock::manual(), &[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    for (options, within_ms) in
        [("PX 60000", 1000), ("PX 60000 BLOCK 5000", 5000), ("PX 500", 500), ("PX 700 BLOCK 0", 700), ("SESSION", 1000)]
    {
        let mut holder = begin(&primary, &mut raw, &format!("LOCK.ACQUIRE k mine {options} REPLICAS 1"));
        primary.server.advance_ms(within_ms - 1);
        primary.client().expect(&[("EXISTS k", ":1")]);
        primary.server.advance_ms(1);
        assert_eq!(holder.reply(), "$-1", "{options}");
        primary.client().expect(&[("EXISTS k", ":0")]);
        raw.changes_before("del k");
    }
    assert!(primary.client().call("INFO locks").contains("timed_out_total:5 "));
}

#[test]
fn a_lock_that_replicas_do_not_acknowledge_goes_to_the_next_in_the_queue() {
    let primary = Primary::start_on(Clock::manual(), &[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut first = begin(&primary, &mut raw, "LOCK.ACQUIRE k first PX 60000 REPLICAS 1");
    let mut second = primary.server.block("LOCK.ACQUIRE k second PX 60000 BLOCK 3000 REPLICAS 1");
    let mut third = primary.server.block("LOCK.ACQUIRE k third PX 60000 BLOCK 9000 REPLICAS 1");
    primary.server.advance_ms(1000);
    assert_eq!(first.reply(), "$-1");
    wait_until(|| primary.client().call("GET k") == "$6 second");
    // Its time counts from the request on.
    primary.server.advance_ms(1999);
    assert_eq!(primary.client().call("GET k"), "$6 second");
    primary.server.advance_ms(1);
    assert_eq!(second.reply(), "$-1");
    wait_until(|| primary.client().call("GET k") == "$5 third");
    acknowledge_all(&primary, &mut [&mut raw]);
    let fence = third.reply();
    assert_eq!(third.call("LOCK.FENCE k third"), fence);
}

#[test]
fn a_lock_whose_client_leaves_before_replicas_acknowledge_it_is_released() {
    let primary = Primary::start_on(Clock::manual(), &[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let holder = begin(&primary, &mut raw, "LOCK.ACQUIRE k mine PX 60000 BLOCK 0 REPLICAS 1");
    drop(holder);
    raw.changes_before("del k");
    let mut holder = begin(&primary, &mut raw, "LOCK.ACQUIRE k mine PX 60000 BLOCK 0 REPLICAS 1");
    let id = primary.client().call("LOCK.INFO k");
    let id: u64 = id.split("client-id :").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("an id");
    primary.client().expect(&[(&format!("CLIENT UNBLOCK {id} ERROR"), ":1")]);
    assert!(holder.reply().starts_with("-UNBLOCKED "));
    raw.changes_before("del k");
    holder.expect(&[("EXISTS k", ":0")]);
}

#[test]
fn who_waits_for_replicas_of_a_lock_is_told_when_the_primary_becomes_a_replica() {
    let primary = Primary::start(&[]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut holder = begin(&primary, &mut raw, "LOCK.ACQUIRE k mine PX 60000 BLOCK 0 REPLICAS 1");
    primary.client().expect(&[("REPLICAOF 127.0.0.1 1", "+OK")]);
    assert!(holder.reply().starts_with("-UNBLOCKED "));
    assert_eq!(holder.read_raw(), None);
    // The new primary decides about the lock.
    primary.client().expect(&[("GET k", "$4 mine")]);
}

#[test]
fn replicas_of_a_lock_are_refused_where_they_cannot_be_waited_for() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("replica-read-only", "no")]);
    replica.wait_for(&primary);
    let nested = "-ERR REPLICAS makes LOCK.ACQUIRE wait, which is not possible in MULTI and in scripts";
    let mut client = primary.client();
    client.expect(&[
        ("LOCK.ACQUIRE k mine PX 1000 REPLICAS -1", "-ERR value is out of range, must be positive"),
        ("LOCK.ACQUIRE k mine PX 1000 REPLICAS x", "-ERR value is not an integer or out of range"),
        ("LOCK.ACQUIRE k mine PX 1000 REPLICAS", "-ERR syntax error"),
        ("LOCK.ACQUIRE k mine PX 1000 REPLICAS 1 REPLICAS 1", "-ERR syntax error"),
        ("MULTI", "+OK"),
        ("LOCK.ACQUIRE k mine PX 1000 REPLICAS 1", "+QUEUED"),
        ("EXEC", &format!("*1 {nested}")),
        ("EXISTS k", ":0"),
    ]);
    if cfg!(feature = "lua") {
        let script = "return redis.pcall('LOCK.ACQUIRE', 'k', 'mine', 'PX', 1000, 'REPLICAS', 1)";
        assert_eq!(client.call_args(&["EVAL", script, "1", "k"]), nested);
    }
    let refused = "-ERR REPLICAS cannot be used with replica instances";
    replica.client().expect(&[("LOCK.ACQUIRE k mine PX 1000 REPLICAS 1", refused)]);
}

#[test]
fn info_says_that_locks_are_at_replicas() {
    let primary = Primary::start(&[]);
    assert!(primary.client().call("INFO locks").contains("durability:memory "));
    let _raw = RawReplica::synchronized(primary.addr());
    assert!(primary.client().call("INFO locks").contains("durability:replicas "));
}
