//! Servers with the same data as nodes of a cluster: which nodes and slots their clients are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keylatch::Clock;

use crate::engine::etcd::Etcd;
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, wait_until};
#[cfg(feature = "binary")]
use crate::process::Process;

const IN_CLUSTER: &[(&str, &str)] = &[("cluster-enabled", "yes")];
const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

/// Address and slots of a node.
type Node = (String, BTreeSet<u16>);

fn is_id(word: &str) -> bool {
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the nodes in the reply of CLUSTER NODES, by their ids.
fn nodes(client: &mut Client) -> BTreeMap<String, Node> {
    let reply = client.call("CLUSTER NODES");
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    let mut words = reply.split_whitespace().skip(1).peekable();
    while let Some(id) = words.next() {
        assert!(is_id(id), "{reply}");
        let [address, flags, primary, _, _, _, link] = std::array::from_fn(|_| words.next().expect("a field"));
        assert_eq!((flags.trim_start_matches("myself,"), primary, link), ("master", "-", "connected"), "{reply}");
        let mut slots = BTreeSet::new();
        while let Some(range) = words.next_if(|word| !is_id(word)) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            slots.extend(first.parse::<u16>().expect("a slot")..=last.parse().expect("a slot"));
        }
        nodes.insert(id.to_owned(), (address.to_owned(), slots));
    }
    nodes
}

/// Returns the number of slots of all nodes together, each of which has one owner.
fn dealt(nodes: &BTreeMap<String, Node>) -> usize {
    let all: BTreeSet<u16> = nodes.values().flat_map(|(_, slots)| slots).copied().collect();
    assert_eq!(all.len(), nodes.values().map(|(_, slots)| slots.len()).sum::<usize>());
    all.len()
}

/// Starts servers that are nodes, and waits until each knows all; `None` without etcd.
fn fleet(count: usize) -> Option<Fleet> {
    let mut fleet = Fleet::start(0)?;
    (0..count).for_each(|_| fleet.add(Clock::system(), IN_CLUSTER));
    fleet.servers.iter().for_each(|server| wait_until(|| is_complete(&mut server.client(), count)));
    Some(fleet)
}

fn is_complete(client: &mut Client, count: usize) -> bool {
    client.call("CLUSTER INFO").contains("cluster_state:ok") && nodes(client).len() == count
}

#[test]
fn all_servers_tell_of_the_same_slots_and_each_serves_every_key() {
    let Some(fleet) = fleet(3) else { return };
    let mut clients: Vec<Client> = fleet.servers.iter().map(|server| server.client()).collect();
    let known = nodes(&mut clients[0]);
    assert_eq!(dealt(&known), 16384);
    let addresses: BTreeSet<String> = known.values().map(|(address, _)| address.clone()).collect();
    let own =
        fleet.servers.iter().map(|server| format!("{}@{}", server.addr(), server.addr().port().wrapping_add(10_000)));
    assert_eq!(addresses, own.collect());
    let [first, ..] = &mut clients[..] else { unreachable!() };
    let (slots, shards) = (first.call("CLUSTER SLOTS"), first.call("CLUSTER SHARDS"));
    for client in &mut clients {
        let id = client.call("CLUSTER MYID").split_once(' ').expect("text").1.to_owned();
        assert_eq!(nodes(client), known);
        assert_eq!((client.call("CLUSTER SLOTS"), client.call("CLUSTER SHARDS")), (slots.clone(), shards.clone()));
        for (id, (address, _)) in &known {
            let port = address.split([':', '@']).nth(1).expect("a port");
            assert!(slots.contains(&format!("*4 $9 127.0.0.1 :{port} $40 {id} *0")), "{slots}");
            assert!(shards.contains(&format!("$2 id $40 {id} $4 port :{port} $2 ip $9 127.0.0.1")), "{shards}");
        }
        let info = client.call("CLUSTER INFO");
        for said in ["slots_assigned:16384", "slots_ok:16384", "known_nodes:3", "size:3"] {
            assert!(info.contains(&format!("cluster_{said} ")), "{info}");
        }
        let key = format!("key:{id}");
        assert_eq!(client.call(&format!("SET {key} {id}")), "+OK");
        assert!(client.call(&format!("CLUSTER COUNT-FAILURE-REPORTS {id}")) == ":0");
    }
    for client in &mut clients {
        for id in known.keys() {
            assert_eq!(client.call(&format!("GET key:{id}")), format!("$40 {id}"));
        }
    }
}

#[test]
fn calls_on_several_slots_are_refused_and_keys_of_slots_are_found_as_in_any_cluster() {
    let Some(fleet) = fleet(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[
        ("MSET a 1 b 2", CROSS_SLOT),
        ("MSET {a}1 1 {a}2 2", "+OK"),
        ("MGET a b", CROSS_SLOT),
        ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("SET b 1", "+QUEUED"),
        ("EXEC", CROSS_SLOT),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("INCR {a}1", "+QUEUED"),
        ("EXEC", "*2 +OK :2"),
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("CLUSTER COUNTKEYSINSLOT 1", "+QUEUED"),
    ]);
    let exec = one.call("EXEC");
    assert!(exec.contains("'cluster|countkeysinslot' needs keys that are not declared"), "{exec}");
    other.expect(&[("CLUSTER COUNTKEYSINSLOT 15495", ":3"), ("CLUSTER COUNTKEYSINSLOT 1", ":0")]);
    one.expect(&[("DEL a {a}1", ":2")]);
    other.expect(&[("CLUSTER GETKEYSINSLOT 15495 10", "*1 $4 {a}2")]);
    one.expect(&[("SET b v", "+OK")]);
    let found = other.call("CLUSTERSCAN 0 COUNT 1000");
    assert!(found.contains("$4 {a}2") && found.contains("$1 b"), "{found}");
    other.expect(&[
        ("CLUSTER SLOT-STATS SLOTSRANGE 15495 15495", "*1 *2 :15495 *2 $9 key-count :1"),
        (
            "CLUSTER MEET 127.0.0.1 1",
            "-ERR 'cluster|meet' is not possible: the nodes are the processes with this data in etcd, to which the slots \
             are dealt",
        ),
        ("READONLY", "+OK"),
        ("ASKING", "+OK"),
    ]);
    assert!(other.call("HELLO 3").contains("$4 mode $7 cluster"));
}

#[test]
#[cfg(feature = "lua")]
fn a_script_keeps_its_slot_when_it_is_executed_for_a_cluster() {
    let Some(fleet) = fleet(1) else { return };
    let mut client = fleet.servers[0].client();
    let twice = "#!lua\nredis.call('SET',KEYS[1],'1') return redis.call('SET',KEYS[2],'2')";
    assert_eq!(client.call_args(&["EVAL", twice, "2", "a", "b"]), CROSS_SLOT);
    assert_eq!(client.call_args(&["EVAL", twice, "2", "a", "{a}"]), "+OK");
    let one = "#!lua\nreturn redis.call('SET',KEYS[1],'1')";
    client.expect(&[("MULTI", "+OK")]);
    for key in ["a", "b"] {
        assert_eq!(client.call_args(&["EVAL", one, "1", key]), "+QUEUED");
    }
    client.expect(&[("EXEC", CROSS_SLOT)]);
}

#[test]
fn a_server_that_stops_leaves_its_slots_to_the_others_at_once() {
    let Some(mut fleet) = fleet(3) else { return };
    let mut client = fleet.servers[0].client();
    let before = nodes(&mut client);
    let gone = fleet.servers.pop().expect("the last server");
    let id = gone.client().call("CLUSTER MYID").split_once(' ').expect("text").1.to_owned();
    gone.end();
    wait_until(|| nodes(&mut client).len() == 2);
    let after = nodes(&mut client);
    assert_eq!((dealt(&after), after.contains_key(&id)), (16384, false));
    for (id, (address, slots)) in &after {
        assert!(before[id].0 == *address && before[id].1.is_subset(slots), "{id} has lost slots");
    }
    assert_eq!(nodes(&mut fleet.servers[1].client()), after);
}

#[test]
#[cfg(feature = "binary")]
fn a_server_that_is_killed_has_no_slots_once_its_lease_is_over() {
    let Some(etcd) = Etcd::shared() else { return };
    let Some(mut fleet) = Fleet::start_on(etcd, 0) else { return };
    (0..2).for_each(|_| fleet.add(Clock::system(), IN_CLUSTER));
    let endpoints = fleet.etcd.endpoints();
    let mut options = vec!["--engine", "etcd", "--etcd-endpoints", &endpoints, "--etcd-prefix", &fleet.prefix];
    options.extend(["--cluster-enabled", "yes"]);
    let mut process = Process::start(&options);
    let [mut one, mut other] = fleet.two_clients();
    let mut third = process.client();
    for client in [&mut one, &mut other, &mut third] {
        wait_until(|| is_complete(client, 3));
    }
    let (before, id) = (nodes(&mut third), third.call("CLUSTER MYID").split_once(' ').expect("text").1.to_owned());
    assert_eq!((nodes(&mut one), dealt(&before)), (before.clone(), 16384));
    process.signal("KILL");
    process.wait();
    wait_until(|| nodes(&mut one).len() == 2 && nodes(&mut other).len() == 2);
    let after = nodes(&mut one);
    assert_eq!((nodes(&mut other), dealt(&after), after.contains_key(&id)), (after.clone(), 16384, false));
    assert!(after.iter().all(|(id, (_, slots))| before[id].1.is_subset(slots)));
}

#[test]
fn processes_of_another_kind_are_no_nodes() {
    let Some(mut fleet) = fleet(1) else { return };
    let mut client = fleet.servers[0].client();
    let before = nodes(&mut client);
    let marker = |number: u64| format!("{}p/{number:016x}", fleet.prefix);
    fleet.etcd.put(&marker(1), "");
    fleet.etcd.put(&marker(2), "a later version");
    fleet.add(Clock::system(), &[]);
    let mut other = fleet.servers[1].client();
    other.expect(&[("SET k v", "+OK"), ("CLUSTER NODES", "-ERR This instance has cluster support disabled")]);
    client.expect(&[("GET k", "$1 v")]); // so it has seen all of these markers
    assert_eq!(nodes(&mut client), before);
}

#[test]
fn other_servers_hear_what_a_server_announces() {
    let Some(fleet) = fleet(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let before = nodes(&mut one);
    other.expect(&[("CONFIG SET cluster-announce-ip 192.0.2.7 cluster-announce-hostname b.example", "+OK")]);
    let announced = format!("192.0.2.7:{}", fleet.servers[1].addr().port());
    let is_heard = |client: &mut Client| {
        nodes(client).values().any(|(at, _)| at.starts_with(&announced) && at.ends_with(",b.example"))
    };
    wait_until(|| is_heard(&mut one) && is_heard(&mut other));
    let slots = |nodes: &BTreeMap<String, Node>| nodes.values().map(|(_, slots)| slots.clone()).collect::<Vec<_>>();
    assert_eq!(slots(&nodes(&mut one)), slots(&before));
}

#[test]
fn a_server_that_is_registered_again_has_its_slots_again() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(mut fleet) = Fleet::start_on(etcd.clone(), 0) else { return };
    (0..2).for_each(|_| fleet.add(Clock::system(), IN_CLUSTER));
    let mut clients = fleet.two_clients();
    clients.iter_mut().for_each(|client| wait_until(|| is_complete(client, 2)));
    let before = nodes(&mut clients[0]);
    let former = clients.each_mut().map(|client| engine_info(client, "engine_process"));
    for lease in etcd.ask("/v3/lease/leases", "{}").split("\"ID\":\"").skip(1) {
        let lease = lease.split('"').next().expect("a number");
        etcd.ask("/v3/lease/revoke", &format!("{{\"ID\":\"{lease}\"}}"));
    }
    for (client, former) in clients.iter_mut().zip(&former) {
        wait_until(|| engine_info(client, "engine_process") != *former && is_complete(client, 2));
        wait_until(|| nodes(client) == before);
    }
}

#[test]
fn keys_of_other_databases_prevent_the_start() {
    let Some(fleet) = Fleet::start(1) else { return };
    fleet.servers[0].client().expect(&[("SELECT 1", "+OK"), ("SET k v", "+OK")]);
    let settings = format!(
        "engine etcd\ncluster-enabled yes\netcd-endpoints {}\netcd-prefix {}\n",
        fleet.etcd.endpoints(),
        fleet.prefix
    );
    let error = keylatch::Server::builder().settings(&settings).start_blocking().err().expect("refused").to_string();
    assert_eq!(error, "engine etcd: the data has keys in database 1, and a cluster has database 0 only");
}
