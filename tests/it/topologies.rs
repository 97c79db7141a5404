//! Clusters in one process (TEST.CLUSTER): what clients see of nodes, faults, failovers and slots that move.

use std::net::{SocketAddr, TcpStream};

use keylatch::{Clock, TestNode};

use crate::harness::{Client, TestServer, wait_until};

/// A cluster, with the connection that has made it.
struct TestCluster {
    server: TestServer,
    control: Client,
    /// The part of TEST.CLUSTER or TEST.SENTINEL behind the point.
    kind: &'static str,
    ports: Vec<u16>,
    ids: Vec<String>,
}

/// A key in the slots of the first, the second and the third of three primaries.
const KEYS: [&str; 3] = ["b", "c", "a"];

impl TestCluster {
    /// Makes three primaries with one replica each, on a clock that stands still.
    fn new() -> Self {
        Self::of("PRIMARIES 3 REPLICAS 1")
    }

    fn of(plan: &str) -> Self {
        Self::made_by(&format!("TEST.CLUSTER CREATE c {plan}"), "CLUSTER")
    }

    fn made_by(request: &str, kind: &'static str) -> Self {
        let server = TestServer::start_with(&[("test-mode", "yes")]);
        let mut control = server.client();
        let made = control.call(request.trim_end());
        let words: Vec<&str> = made.split(' ').collect();
        let after = |name: &str| {
            let found = words.windows(3).filter(|window| window[1] == name);
            found.map(|window| window[2].trim_start_matches(':').to_owned()).collect::<Vec<_>>()
        };
        let ports = after("port").iter().map(|port| port.parse().expect("a port")).collect();
        let found = words.windows(4).filter(|window| window[1] == "id");
        let ids = found.map(|window| window[3].to_owned()).collect();
        TestCluster { server, control, kind, ports, ids }
    }

    /// Connects to a node.
    fn node(&self, number: usize) -> Client {
        Client::connect(self.addr(number))
    }

    fn addr(&self, number: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[number]))
    }

    /// Calls a subcommand of TEST.CLUSTER or TEST.SENTINEL for this topology.
    fn test(&mut self, name: &str, rest: &str) -> String {
        let kind = self.kind;
        self.control.call(format!("TEST.{kind} {name} c {rest}").trim_end())
    }

    fn ok(&mut self, name: &str, rest: &str) {
        assert_eq!(self.test(name, rest), "+OK", "{name} {rest}");
    }

    fn advance(&mut self, ms: u64) {
        assert!(self.control.call(&format!("TEST.TIME ADVANCE {ms}")).starts_with(':'));
    }

    fn role(&self, number: usize) -> String {
        self.node(number).call("ROLE").split(' ').nth(2).expect("a role").to_owned()
    }

    fn moved(&self, slot: u16, to: usize) -> String {
        format!("-MOVED {slot} 127.0.0.1:{}", self.ports[to])
    }
}

const DOWN: &str = "-CLUSTERDOWN The cluster is down";

#[test]
fn every_node_tells_the_same_slots_and_redirects_calls_to_the_node_that_has_them() {
    let cluster = TestCluster::new();
    assert_eq!(cluster.ports.len(), 6);
    let slots = cluster.node(0).call("CLUSTER SLOTS");
    for number in 1..6 {
        assert_eq!(cluster.node(number).call("CLUSTER SLOTS"), slots);
        assert!(cluster.node(number).call("CLUSTER INFO").contains("cluster_state:ok"));
    }
    for (number, (key, slot)) in KEYS.iter().zip([3300, 7365, 15495]).enumerate() {
        assert_eq!(cluster.node(number).call(&format!("SET {key} v")), "+OK");
        for other in (0..6).filter(|other| *other != number) {
            assert_eq!(cluster.node(other).call(&format!("GET {key}")), cluster.moved(slot, number));
        }
        let mut replica = cluster.node(number + 3);
        replica.expect(&[
            ("READONLY", "+OK"),
            (&format!("GET {key}"), "$1 v"),
            (&format!("SET {key} w"), &cluster.moved(slot, number)),
            ("READWRITE", "+OK"),
            (&format!("GET {key}"), &cluster.moved(slot, number)),
        ]);
    }
    cluster.node(0).expect(&[
        ("MGET b c", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("MULTI", "+OK"),
        ("SET b 1", "+QUEUED"),
        ("SET c 1", &cluster.moved(7365, 1)),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
    ]);
}

#[test]
fn a_failover_loses_nothing_and_all_nodes_know_of_it_before_it_is_answered() {
    let mut cluster = TestCluster::new();
    cluster.node(0).expect(&[("SET b 1", "+OK"), ("INCR b", ":2")]);
    cluster.ok("FAILOVER", "3");
    assert_eq!((cluster.role(3), cluster.role(0)), ("master".into(), "slave".into()));
    for number in [0, 1, 2, 4, 5] {
        assert_eq!(cluster.node(number).call("GET b"), cluster.moved(3300, 3));
    }
    cluster.node(3).expect(&[("GET b", "$1 2"), ("SET b 3", "+OK")]);
    cluster.node(0).expect(&[("READONLY", "+OK"), ("GET b", "$1 3")]);
    assert_eq!(cluster.test("FAILOVER", "3"), "-ERR node 3 is a primary");
}

#[test]
fn a_failover_loses_as_many_writes_as_it_is_told_to() {
    let mut cluster = TestCluster::new();
    cluster.node(0).expect(&[("SET b 1", "+OK"), ("INCR b", ":2"), ("INCR b", ":3")]);
    assert_eq!(cluster.test("FAILOVER", "3 LOSE 4"), "-ERR only 3 writes are remembered");
    assert_eq!(cluster.role(0), "master");
    cluster.ok("FAILOVER", "3 LOSE 2");
    assert_eq!(cluster.node(3).call("GET b"), "$1 1");
    cluster.node(0).expect(&[("READONLY", "+OK"), ("GET b", "$1 1")]);
}

#[test]
fn the_replica_of_a_stopped_primary_is_elected_when_the_node_timeout_is_over() {
    let mut cluster = TestCluster::new();
    assert!(cluster.control.call("TEST.TIME FREEZE").starts_with(':'));
    let mut client = cluster.node(0);
    assert_eq!(client.call("SET b 1"), "+OK");
    cluster.ok("STOP", "0");
    assert_eq!(client.read_frame(), None);
    assert!(TcpStream::connect(cluster.addr(0)).is_err());
    assert_eq!(cluster.test("STOP", "0"), "-ERR node 0 is stopped");
    cluster.advance(14_999);
    assert_eq!(cluster.role(3), "slave");
    cluster.advance(1);
    cluster.node(3).expect(&[("GET b", "$1 1"), ("SET b 2", "+OK")]);
    assert_eq!(cluster.node(1).call("GET b"), cluster.moved(3300, 3));
    cluster.ok("START", "0");
    cluster.node(0).expect(&[("READONLY", "+OK"), ("GET b", "$1 2")]);
    assert_eq!(cluster.role(0), "slave");
    assert_eq!(cluster.test("START", "0"), "-ERR node 0 is up");
}

#[test]
fn without_a_replica_the_cluster_is_down_until_the_node_is_back_with_its_data() {
    let mut cluster = TestCluster::of("PRIMARIES 3 REPLICAS 0 NODE-TIMEOUT 1000");
    assert_eq!(cluster.node(0).call("SET b 1"), "+OK");
    cluster.ok("STOP", "0");
    cluster.advance(1000);
    for request in ["GET c", "SET c 1", "GET b"] {
        assert_eq!(cluster.node(1).call(request), DOWN);
    }
    let mut other = cluster.node(1);
    other.expect(&[
        ("CONFIG SET cluster-allow-reads-when-down yes", "+OK"),
        ("GET c", "$-1"),
        ("SET c 1", "-CLUSTERDOWN The cluster is down and only accepts read commands"),
        ("CONFIG SET cluster-require-full-coverage no", "+OK"),
    ]);
    cluster.ok("START", "0");
    assert_eq!(cluster.node(1).call("SET c 1"), "+OK");
    assert_eq!(cluster.node(0).call("GET b"), "$1 1");
}

#[test]
fn a_suspended_node_accepts_connections_and_answers_when_it_continues() {
    let mut cluster = TestCluster::new();
    let mut before = cluster.node(0);
    assert_eq!(before.call("SET b 1"), "+OK");
    cluster.ok("PAUSE", "0");
    let mut during = cluster.node(0);
    before.send(b"GET b\r\n");
    during.send(b"INCR b\r\n");
    assert_eq!(cluster.node(1).call("PING"), "+PONG"); // time in which the others could be answered
    assert_eq!(cluster.test("PAUSE", "0"), "-ERR node 0 is paused");
    for client in [&before, &during] {
        let stream = client.writer();
        stream.set_nonblocking(true).expect("a socket");
        assert!(stream.peek(&mut [0]).is_err(), "nothing is answered");
        stream.set_nonblocking(false).expect("a socket");
    }
    cluster.ok("RESUME", "0");
    assert!(before.reply().starts_with('$'));
    assert_eq!(during.reply(), ":2");
    assert_eq!(cluster.test("RESUME", "0"), "-ERR node 0 is up");
}

#[test]
fn a_primary_in_a_minority_loses_what_it_takes_until_the_node_timeout() {
    let mut cluster = TestCluster::new();
    assert!(cluster.control.call("TEST.TIME FREEZE").starts_with(':'));
    cluster.ok("PARTITION", "0");
    assert_eq!(cluster.node(0).call("SET b lost"), "+OK");
    cluster.advance(15_000);
    assert_eq!(cluster.node(0).call("SET b late"), DOWN);
    assert_eq!(cluster.node(3).call("SET b kept"), "+OK");
    cluster.ok("HEAL", "");
    assert_eq!(cluster.node(0).call("GET b"), cluster.moved(3300, 3));
    cluster.node(0).expect(&[("READONLY", "+OK"), ("GET b", "$4 kept")]);
}

#[test]
fn writes_on_their_way_to_a_replica_are_lost_with_their_primary() {
    let mut cluster = TestCluster::new();
    assert!(cluster.control.call("TEST.TIME FREEZE").starts_with(':'));
    assert_eq!(cluster.test("LAG", "0 5"), "-ERR node 0 is a primary");
    assert_eq!(cluster.node(0).call("SET b early"), "+OK");
    cluster.ok("LAG", "3 100");
    assert_eq!(cluster.node(0).call("SET b late"), "+OK");
    let mut replica = cluster.node(3);
    replica.expect(&[("READONLY", "+OK"), ("GET b", "$5 early")]);
    cluster.advance(100);
    assert_eq!(replica.call("GET b"), "$4 late");
    assert_eq!(cluster.node(0).call("SET b gone"), "+OK");
    cluster.ok("STOP", "0");
    cluster.advance(15_000);
    assert_eq!(cluster.node(3).call("GET b"), "$4 late");
}

#[test]
fn a_slot_that_moves_is_served_by_two_nodes_until_it_has_moved() {
    let mut cluster = TestCluster::new();
    cluster.node(0).expect(&[("MSET {b}1 1 {b}2 2 {b}3 3", "+OK"), ("PEXPIRE {b}1 90000", ":1")]);
    cluster.ok("MIGRATE", "3300 1 KEYS 1");
    let ask = format!("-ASK 3300 127.0.0.1:{}", cluster.ports[1]);
    let again = "-TRYAGAIN Multiple keys request during rehashing of slot";
    cluster.node(0).expect(&[
        ("GET {b}1", &ask),
        ("GET {b}2", "$1 2"),
        ("MGET {b}1 {b}2", again),
        ("MGET {b}2 {b}3", "*2 $1 2 $1 3"),
        ("SET {b}new 1", &ask),
    ]);
    cluster.node(1).expect(&[
        ("GET {b}1", &cluster.moved(3300, 0)),
        ("ASKING", "+OK"),
        ("GET {b}1", "$1 1"),
        ("GET {b}1", &cluster.moved(3300, 0)),
        ("ASKING", "+OK"),
        ("MGET {b}1 {b}2", again),
        ("ASKING", "+OK"),
        ("MULTI", "+OK"),
        ("GET {b}1", "+QUEUED"),
        ("EXEC", "*1 $1 1"),
    ]);
    cluster.ok("MIGRATE", "3300 1");
    assert_eq!(cluster.node(0).call("GET {b}1"), cluster.moved(3300, 1));
    let mut owner = cluster.node(1);
    owner.expect(&[("MGET {b}1 {b}2 {b}3", "*3 $1 1 $1 2 $1 3"), ("CLUSTER COUNTKEYSINSLOT 3300", ":3")]);
    assert!((89_000..=90_000).contains(&owner.int("PTTL {b}1")));
    cluster.node(4).expect(&[("READONLY", "+OK"), ("GET {b}3", "$1 3")]);
    assert_eq!(cluster.node(0).call("DBSIZE"), ":0");
    assert_eq!(cluster.node(3).call("DBSIZE"), ":0");
    assert_eq!(cluster.test("MIGRATE", "3300 1"), "-ERR node 1 has slot 3300 already");
}

#[test]
fn nodes_join_and_leave() {
    let mut cluster = TestCluster::new();
    let added = cluster.test("ADD", "REPLICA-OF 0");
    assert!(added.starts_with("*14 $4 node :6 ") && added.contains("$7 replica "), "{added}");
    assert_eq!(cluster.node(0).info("connected_slaves"), "2");
    assert!(cluster.test("ADD", "").contains("$7 primary "));
    assert!(cluster.node(0).call("CLUSTER INFO").contains("cluster_known_nodes:8"));
    assert_eq!(cluster.test("REMOVE", "0"), "-ERR node 0 has slots");
    cluster.ok("MIGRATE", "0-100 7");
    assert_eq!(cluster.test("REMOVE", "7"), "-ERR node 7 has slots");
    cluster.ok("MIGRATE", "0-100 0");
    cluster.ok("REMOVE", "7");
    assert!(cluster.node(0).call("CLUSTER INFO").contains("cluster_known_nodes:7"));
    assert_eq!(cluster.test("STOP", "7"), "-ERR there is no node 7");
}

#[test]
fn messages_reach_the_clients_of_all_nodes_and_those_of_shards_those_of_the_shard() {
    let cluster = TestCluster::new();
    let mut everywhere: Vec<Client> = (0..6).map(|number| cluster.node(number)).collect();
    for client in &mut everywhere {
        client.call("SUBSCRIBE news");
    }
    assert_eq!(cluster.node(2).call("PUBLISH news hot"), ":1");
    for client in &mut everywhere {
        assert_eq!(client.reply(), "*3 $7 message $4 news $3 hot");
    }
    let mut replica = cluster.node(3);
    assert_eq!(replica.call("SSUBSCRIBE b"), "*3 $10 ssubscribe $1 b :1");
    assert_eq!(cluster.node(1).call("SSUBSCRIBE b"), cluster.moved(3300, 0));
    assert_eq!(cluster.node(0).call("SPUBLISH b x"), ":0");
    assert_eq!(replica.reply(), "*3 $8 smessage $1 b $1 x");
}

#[test]
fn blocked_clients_are_told_when_their_key_goes_to_another_node() {
    let mut cluster = TestCluster::new();
    let mut client = cluster.node(0);
    client.send(b"BLPOP b 0\r\n");
    wait_until(|| cluster.node(0).info("blocked_clients") == "1");
    cluster.ok("MIGRATE", "3300 1");
    assert_eq!(client.reply(), cluster.moved(3300, 1));
    let mut client = cluster.node(1);
    client.send(b"BLPOP c 0\r\n");
    wait_until(|| cluster.node(1).info("blocked_clients") == "1");
    cluster.ok("FAILOVER", "4");
    let told = "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
    assert_eq!(client.reply(), told);
    assert_eq!(client.read_frame(), None);
}

#[test]
fn nodes_ask_for_a_password_if_there_is_one() {
    let cluster = TestCluster::of("PRIMARIES 1 REPLICAS 1 PASSWORD secret");
    cluster.node(0).expect(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH secret", "+OK"),
        ("SET a 1", "+OK"),
    ]);
    cluster.node(1).expect(&[("AUTH secret", "+OK"), ("READONLY", "+OK"), ("GET a", "$1 1")]);
    let cluster = TestCluster::of("PRIMARIES 1 REPLICAS 0 USER app PASSWORD secret");
    cluster.node(0).expect(&[
        ("GET a", "-NOAUTH Authentication required."),
        ("AUTH app secret", "+OK"),
        ("GET a", "$-1"),
    ]);
}

#[test]
fn a_topology_lasts_as_long_as_the_client_that_made_it_and_those_of_its_nodes() {
    let mut cluster = TestCluster::of("PRIMARIES 1 REPLICAS 0");
    assert_eq!(cluster.control.call("TEST.CLUSTER CREATE c"), "-ERR there is a topology of this name");
    assert_eq!(cluster.control.call("TEST.TOPOLOGY LIST"), "*1 $1 c");
    assert_eq!(cluster.node(0).call("TEST.TOPOLOGY LIST"), "*1 $1 c");
    assert_eq!(cluster.control.call("TEST.TOPOLOGY DROP c"), "+OK");
    assert!(TcpStream::connect(cluster.addr(0)).is_err());
    assert_eq!(cluster.control.call("TEST.TOPOLOGY LIST"), "*0");
    assert_eq!(cluster.test("NODES", ""), "-ERR there is no topology 'c'");
    cluster.control.expect(&[("CONFIG SET namespace-linger 0", "+OK")]);
    assert!(cluster.control.call("TEST.CLUSTER CREATE d PRIMARIES 1").starts_with("*2 "));
    let mut other = cluster.server.client();
    assert_eq!(other.call("TEST.TOPOLOGY LIST"), "*1 $1 d");
    drop(cluster.control);
    wait_until(|| other.call("TEST.TOPOLOGY LIST") == "*0");
}

#[test]
fn topologies_of_private_instances_do_not_see_each_other_and_follow_the_clock_of_theirs() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let mut own = server.client();
    own.expect(&[("AUTH ns-a x", "+OK"), ("TEST.TOPOLOGY LIST", "*0")]);
    let made = own.call("TEST.CLUSTER CREATE c PRIMARIES 1 REPLICAS 0");
    let port = made.split(" $4 port :").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port");
    let mut node = Client::connect(SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a port"))));
    assert_eq!(server.client().call("TEST.TOPOLOGY LIST"), "*0");
    own.call("TEST.TIME FREEZE");
    assert_eq!(node.call("SET a 1 PX 1000"), "+OK");
    own.call("TEST.TIME ADVANCE 1000");
    assert_eq!(node.call("GET a"), "$-1");
    assert!(node.call("TEST.CLUSTER NODES c").contains("$5 state $2 up"));
}

#[test]
fn nodes_that_know_nothing_of_each_other_are_made_a_cluster_by_their_own_commands() {
    let cluster = TestCluster::of("EMPTY 3");
    let mut nodes: Vec<Client> = (0..3).map(|number| cluster.node(number)).collect();
    assert!(nodes[0].call("CLUSTER INFO").contains("cluster_known_nodes:1"));
    assert_eq!(nodes[0].call("GET b"), "-CLUSTERDOWN Hash slot not served");
    for (number, (range, node)) in ["0 9999", "10000 16383"].iter().zip(&mut nodes).enumerate() {
        assert_eq!(node.call(&format!("CLUSTER ADDSLOTSRANGE {range}")), "+OK");
        assert_eq!(node.call(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1)), "+OK");
    }
    for other in 1..3 {
        assert_eq!(nodes[0].call(&format!("CLUSTER MEET 127.0.0.1 {}", cluster.ports[other])), "+OK");
    }
    assert_eq!(nodes[2].call(&format!("CLUSTER REPLICATE {}", cluster.ids[0])), "+OK");
    assert_eq!(nodes[0].call("SET b 1"), "+OK");
    assert_eq!(nodes[1].call("GET b"), cluster.moved(3300, 0));
    nodes[2].expect(&[("READONLY", "+OK"), ("GET b", "$1 1"), ("CLUSTER FAILOVER", "+OK"), ("SET b 2", "+OK")]);
    assert_eq!(cluster.role(0), "slave");
}

#[test]
fn a_history_has_one_outcome() {
    let outcome = || {
        let mut cluster = TestCluster::of("PRIMARIES 3 REPLICAS 2 NODE-TIMEOUT 1000");
        cluster.control.call("TEST.TIME FREEZE");
        cluster.ok("LAG", "3 10");
        assert_eq!(cluster.node(0).call("SET b 1"), "+OK");
        cluster.ok("STOP", "0");
        cluster.advance(1000);
        cluster.ok("START", "0");
        cluster.ok("PARTITION", "1 4");
        cluster.advance(2000);
        cluster.ok("HEAL", "");
        let report = cluster.test("NODES", "");
        cluster.ports.iter().fold(report, |report, port| report.replace(&format!(":{port} "), ":port "))
    };
    let first = outcome();
    for _ in 0..20 {
        assert_eq!(outcome(), first);
    }
}

#[test]
fn ports_are_of_the_range_that_is_published() {
    let free = crate::harness::ReservedPort::new().port();
    let range = format!("{free}-{free}");
    let server = TestServer::start_on(Clock::system(), &[("test-mode", "yes"), ("topology-ports", &range)]);
    let mut control = server.client();
    assert!(control.call("TEST.CLUSTER CREATE c PRIMARIES 1 REPLICAS 0").contains(&format!("$4 port :{free} ")));
    assert_eq!(
        control.call("TEST.CLUSTER CREATE d PRIMARIES 1 REPLICAS 0"),
        format!("-ERR no port of {range} is free")
    );
    assert_eq!(control.call("TEST.TOPOLOGY LIST"), "*1 $1 c");
}

#[test]
fn subscribers_of_a_shard_are_told_when_its_slot_goes_to_another_one() {
    let mut cluster = TestCluster::new();
    let mut client = cluster.node(0);
    assert_eq!(client.call("SSUBSCRIBE b"), "*3 $10 ssubscribe $1 b :1");
    cluster.ok("MIGRATE", "3300 1");
    assert_eq!(client.reply(), "*3 $12 sunsubscribe $1 b :0");
    assert_eq!(client.call("SSUBSCRIBE b"), cluster.moved(3300, 1));
}

#[test]
fn a_replica_that_became_a_primary_remembers_its_own_writes() {
    let mut cluster = TestCluster::of("PRIMARIES 1 REPLICAS 1");
    cluster.node(0).expect(&[("SET b 0", "+OK"), ("SET b 1", "+OK"), ("SET c 1", "+OK")]);
    cluster.ok("FAILOVER", "1");
    cluster.node(1).expect(&[("GET b", "$1 1"), ("SET b 2", "+OK")]);
    assert_eq!(cluster.test("FAILOVER", "0 LOSE 2"), "-ERR only 1 writes are remembered");
    cluster.ok("FAILOVER", "0 LOSE 1");
    cluster.node(0).expect(&[("GET b", "$1 1"), ("GET c", "$1 1"), ("SET b 3", "+OK"), ("SET b 4", "+OK")]);
    cluster.ok("FAILOVER", "1 LOSE 1");
    assert_eq!(cluster.node(1).call("GET b"), "$1 3");
}

/// A Sentinel deployment: node 0 is the master, 1 and 2 are replicas, 3 to 5 sentinels.
fn sentinels(plan: &str) -> TestCluster {
    TestCluster::made_by(&format!("TEST.SENTINEL CREATE c {plan}"), "SENTINEL")
}

fn master_of(topology: &TestCluster, sentinel: usize) -> String {
    topology.node(sentinel).call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster")
}

fn address(topology: &TestCluster, node: usize) -> String {
    let port = topology.ports[node].to_string();
    format!("*2 $9 127.0.0.1 ${} {port}", port.len())
}

#[test]
fn sentinels_name_the_master_and_fail_it_over_when_it_is_down_for_long_enough() {
    let mut topology = sentinels("");
    topology.control.call("TEST.TIME FREEZE");
    assert_eq!(topology.node(0).call("SET b 1"), "+OK");
    topology
        .node(1)
        .expect(&[("GET b", "$1 1"), ("SET b 2", "-READONLY You can't write against a read only replica.")]);
    let mut events = topology.node(4);
    events.call("SUBSCRIBE +switch-master");
    for sentinel in 3..6 {
        assert_eq!(master_of(&topology, sentinel), address(&topology, 0));
        assert!(topology.node(sentinel).call("SENTINEL CKQUORUM mymaster").starts_with("+OK 3 usable Sentinels."));
    }
    topology.ok("STOP", "0");
    topology.advance(29_999);
    assert_eq!(master_of(&topology, 3), address(&topology, 0));
    topology.advance(1);
    let event = events.reply();
    let [old, new] = [0, 1].map(|node| format!("127.0.0.1 {}", topology.ports[node]));
    assert!(event.ends_with(&format!(" mymaster {old} {new}")), "{event}");
    for sentinel in 3..6 {
        assert_eq!(master_of(&topology, sentinel), address(&topology, 1));
    }
    topology.node(1).expect(&[("GET b", "$1 1"), ("SET b 2", "+OK")]);
    topology.ok("START", "0");
    assert_eq!(topology.role(0), "slave");
    assert_eq!(topology.node(0).call("GET b"), "$1 2");
}

#[test]
fn sentinels_without_a_quorum_or_a_majority_do_not_fail_over() {
    for cut in ["4 5", "0 3"] {
        let mut topology = sentinels("DOWN-AFTER 1000");
        topology.control.call("TEST.TIME FREEZE");
        let down = if cut == "4 5" { "STOP" } else { "PARTITION" };
        if down == "STOP" {
            topology.ok("STOP", "4");
            topology.ok("STOP", "5");
            topology.ok("STOP", "0");
        } else {
            topology.ok("PARTITION", "0 1 2 3");
        }
        topology.advance(5000);
        assert_eq!(master_of(&topology, 3), address(&topology, 0), "{cut}");
    }
}

#[test]
fn a_failover_by_command_is_known_to_all_sentinels_and_can_lose_writes() {
    let mut topology = sentinels("REPLICAS 2");
    topology.node(0).expect(&[("SET b 1", "+OK"), ("SET b 2", "+OK")]);
    assert_eq!(topology.test("FAILOVER", "TO 4"), "-ERR node 4 is a sentinel");
    topology.ok("FAILOVER", "TO 2 LOSE 1");
    for sentinel in 3..6 {
        assert_eq!(master_of(&topology, sentinel), address(&topology, 2));
    }
    assert_eq!(topology.node(2).call("GET b"), "$1 1");
    assert_eq!(
        (topology.role(0), topology.role(1), topology.role(2)),
        ("slave".into(), "slave".into(), "master".into())
    );
    topology.ok("FAILOVER", "");
    assert_eq!(topology.node(0).call("GET b"), "$1 1");
}

#[test]
fn a_sentinel_knows_its_own_commands_only() {
    let topology = sentinels("SENTINEL-PASSWORD secret PASSWORD other");
    topology.node(3).expect(&[
        ("SENTINEL MYID", "-NOAUTH Authentication required."),
        ("AUTH secret", "+OK"),
        ("PING", "+PONG"),
    ]);
    let mut sentinel = topology.node(3);
    sentinel.call("AUTH secret");
    assert!(sentinel.call("GET a").starts_with("-ERR unknown command 'GET', with args beginning with: 'a'"));
    sentinel.expect(&[
        ("ROLE", "*2 $8 sentinel *1 $8 mymaster"),
        ("PUBLISH a b", "-ERR Only HELLO messages are accepted by Sentinel instances."),
        ("SENTINEL MASTER other", "-ERR No such master with that name"),
    ]);
    assert!(sentinel.call("SENTINEL MASTER mymaster").starts_with("*40 $4 name $8 mymaster $2 ip $9 127.0.0.1 "));
    assert!(sentinel.call("HELLO 3").contains("$4 mode $8 sentinel"));
    let info = sentinel.call("INFO");
    assert!(info.contains("# Sentinel sentinel_masters:1 ") && info.contains("redis_mode:sentinel"), "{info}");
    assert!(!info.contains("# Keyspace"));
    let mut master = topology.node(0);
    master.call("AUTH other");
    assert!(master.call("SENTINEL MASTERS").starts_with("-ERR unknown command 'SENTINEL'"));
}

#[test]
fn a_program_makes_clusters_of_its_embedded_server() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let cluster = server.server().cluster(3, 1).expect("free ports");
    assert_eq!(cluster.urls().len(), 6);
    let primary = cluster.primary_of("b").expect("it has an owner");
    assert_eq!(Client::connect(primary.addr).call("SET b 1"), "+OK");
    cluster.stop(primary.number).expect("it is up");
    assert!(cluster.stop(primary.number).is_err());
    server.advance_ms(15_000);
    let successor = cluster.primary_of("b").filter(|node| node.state == "up").expect("its replica");
    assert_eq!(successor.primary, None);
    assert_eq!(Client::connect(successor.addr).call("GET b"), "$1 1");
    let addr = successor.addr;
    drop(cluster);
    assert!(TcpStream::connect(addr).is_err());
    assert!(server.server().cluster(0, 1).is_err());
}

#[test]
fn a_program_makes_sentinels_of_its_embedded_server() {
    let server = TestServer::start_with(&[("test-mode", "yes")]);
    let topology = server.server().sentinel(2, 3).expect("free ports");
    let roles: Vec<&str> = topology.nodes().iter().map(|node| node.role).collect();
    assert_eq!(roles, ["master", "replica", "replica", "sentinel", "sentinel", "sentinel"]);
    assert_eq!(topology.urls().len(), 3);
    let mut sentinel = Client::connect(topology.nodes()[3].addr);
    let mut asked = || sentinel.call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
    let shown =
        |node: &TestNode| format!("*2 $9 127.0.0.1 ${} {}", node.addr.port().to_string().len(), node.addr.port());
    let master = topology.master().expect("it is up");
    assert_eq!(asked(), shown(&master));
    assert_eq!(Client::connect(master.addr).call("SET k v"), "+OK");
    topology.stop(master.number).expect("it is up");
    assert_eq!(topology.master().map(|node| node.number), None);
    server.advance_ms(30_000);
    let successor = topology.master().expect("the sentinels agree");
    assert_ne!(successor.number, master.number);
    assert_eq!(asked(), shown(&successor));
    assert_eq!(Client::connect(successor.addr).call("GET k"), "$1 v");
    topology.failover_losing(if successor.number == 1 { 2 } else { 1 }, 0).expect("it is up");
    assert_ne!(asked(), shown(&successor));
    assert!(topology.migrate(0..=1, 2).is_err());
    assert!(server.server().sentinel(2, 0).is_err() && server.server().sentinel(2, 101).is_err());
    let many = server.client().call("TEST.SENTINEL CREATE s SENTINELS 101");
    assert_eq!(many, "-ERR a topology has at most 100 sentinels");
}

#[test]
fn a_replica_without_failover_is_not_elected() {
    let mut cluster = TestCluster::new();
    cluster.node(3).expect(&[("CONFIG SET cluster-replica-no-failover yes", "+OK")]);
    cluster.ok("STOP", "0");
    cluster.advance(15_000);
    cluster.node(1).expect(&[("SET c 1", DOWN)]);
    assert!(cluster.node(1).call("CLUSTER NODES").contains(" slave,nofailover "));
    cluster.node(3).expect(&[("CONFIG SET cluster-replica-no-failover no", "+OK")]);
    cluster.advance(1);
    cluster.node(1).expect(&[("SET c 1", "+OK")]);
    assert_eq!(cluster.role(3), "master");
}

#[test]
fn a_replica_moves_to_a_primary_that_has_none_left() {
    // The replicas of node 0 are 2 and 4, those of node 1 are 3 and 5.
    let mut cluster = TestCluster::of("PRIMARIES 2 REPLICAS 2");
    let primary_of = |cluster: &mut TestCluster, node: usize| {
        let nodes = cluster.test("NODES", "");
        let of = nodes.split(" primary :").nth(node + 1).and_then(|rest| rest.split(' ').next());
        of.expect("a number").to_owned()
    };
    cluster.ok("STOP", "3");
    cluster.ok("STOP", "5");
    cluster.advance(15_000);
    cluster.advance(4_999);
    assert_eq!([2, 4].map(|node| primary_of(&mut cluster, node)), ["0", "0"]);
    cluster.advance(1);
    let moved = [2, 4].map(|node| primary_of(&mut cluster, node));
    assert!(moved == ["1", "0"] || moved == ["0", "1"], "{moved:?}");
}

#[test]
fn a_clock_that_moves_while_a_cluster_ends_comes_to_its_target() {
    let mut cluster = TestCluster::new();
    cluster.control.int("TEST.TIME FREEZE");
    for round in 0..20 {
        let name = format!("t{round}");
        assert!(cluster.control.call(&format!("TEST.CLUSTER CREATE {name}")).starts_with('*'));
        assert_eq!(cluster.control.call(&format!("TEST.CLUSTER STOP {name} 0")), "+OK");
        let both = format!("TEST.TOPOLOGY DROP {name}\r\nTEST.TIME ADVANCE 100000\r\n");
        cluster.control.send(both.as_bytes());
        assert_eq!(cluster.control.reply(), "+OK");
        assert!(cluster.control.reply().starts_with(':'));
    }
    cluster.node(1).expect(&[("SET c 1", "+OK")]);
}

#[test]
fn a_cluster_whose_only_clients_are_at_a_suspended_node_ends() {
    let mut cluster = TestCluster::new();
    cluster.control.expect(&[("CONFIG SET namespace-linger 0", "+OK")]);
    let mut maker = cluster.server.client();
    assert!(maker.call("TEST.CLUSTER CREATE d PRIMARIES 1 REPLICAS 0").starts_with('*'));
    let nodes = maker.call("TEST.CLUSTER NODES d");
    let port = nodes.split(" port :").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port");
    let port = port.parse::<u16>().expect("a number");
    let mut client = Client::connect(SocketAddr::from(([127, 0, 0, 1], port)));
    client.expect(&[("PING", "+PONG")]);
    assert_eq!(maker.call("TEST.CLUSTER PAUSE d 0"), "+OK");
    drop((maker, client));
    wait_until(|| cluster.control.call("TEST.TOPOLOGY LIST") == "*1 $1 c");
}
