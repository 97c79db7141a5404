//! Programs of Redis at the nodes of simulated topologies: redis-benchmark, redis-cli, Sentinels, a replica.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use keylatch::Clock;
use keylatch::internals::resp::Frame;

use crate::harness::{Client, ReservedPort, TestServer, wait_for, wait_until};
use crate::process::text;
use crate::sentinel::{Sentinel, primary, state};
use crate::skipped;

/// Time within which Sentinels find and replace a master, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A topology on a clock that runs, with the connection that has made it.
struct Nodes {
    ports: Vec<u16>,
    control: Client,
    _server: TestServer,
}

impl Nodes {
    fn of(request: &str) -> Self {
        let server = TestServer::start_on(Clock::system(), &[("test-mode", "yes")]);
        let mut control = server.client();
        let words: Vec<&str> = request.split(' ').collect();
        let Frame::Array(nodes) = control.frame(&words) else { panic!("{request}: an array") };
        let port_of = |node: &Frame| {
            let Frame::Array(fields) = node else { panic!("a map") };
            let at = fields.iter().position(|field| *field == Frame::Bulk(b"port".as_slice().into())).expect("a port");
            let Frame::Integer(port) = fields[at + 1] else { panic!("a number") };
            u16::try_from(port).expect("a port")
        };
        Nodes { ports: nodes.iter().map(port_of).collect(), control, _server: server }
    }

    fn addr(&self, number: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[number]).into()
    }

    fn client(&self, number: usize) -> Client {
        Client::connect(self.addr(number))
    }

    /// Returns a field of INFO; empty if the node closes the connection, as it does when its role changes.
    fn info(&self, number: usize, field: &str) -> String {
        let mut text = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.addr(number)) {
            let asked = stream.write_all(b"INFO\r\nQUIT\r\n").and_then(|()| stream.read_to_string(&mut text));
            let _ = asked; // what has come until then is read
        }
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().trim().to_owned()
    }

    fn has_role(&self, number: usize, role: &str) -> bool {
        self.info(number, "role") == role
    }

    /// Returns whether a node is a replica of another one, with its data.
    fn follows(&self, number: usize, primary: usize) -> bool {
        self.has_role(number, "slave")
            && self.info(number, "master_port") == self.ports[primary].to_string()
            && self.info(number, "master_link_status") == "up"
    }
}

/// Runs a program, which may ask something that is answered by yes; `None` if it is not installed.
fn run(program: &'static str, args: &[&str]) -> Option<Output> {
    let (answer, mut pipe) = std::io::pipe().expect("a pipe");
    pipe.write_all(b"yes\n").expect("a pipe");
    drop(pipe);
    match Command::new(program).args(args).stdin(answer).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped::without(program);
            None
        }
        Err(error) => panic!("{program} does not start: {error}"),
    }
}

#[test]
fn redis_benchmark_finds_every_primary_of_a_cluster() {
    let cluster = Nodes::of("TEST.CLUSTER CREATE c PRIMARIES 3 REPLICAS 1");
    let port = cluster.ports[0].to_string();
    let args = ["--cluster", "-h", "127.0.0.1", "-p", &port, "-t", "set,get", "-n", "2000", "-r", "1000000", "--csv"];
    let Some(output) = run("redis-benchmark", &args) else { return };
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    for test in ["\"SET\"", "\"GET\""] {
        assert!(text(&output.stdout).contains(test), "{}", text(&output.stdout));
    }
    let (mut keys, mut calls) = (0, 0);
    for number in 0..3 {
        let mut client = cluster.client(number);
        let size = client.int("DBSIZE");
        assert!(size > 400, "node {number} has {size} keys");
        keys += size;
        let stats = client.call("INFO commandstats");
        let shown = stats.split_once("cmdstat_set:calls=").expect("calls of SET").1;
        calls += shown.split(',').next().expect("a number").parse::<i64>().expect("a number");
        assert_eq!(client.info("total_error_replies"), "0");
    }
    assert_eq!(calls, 2000);
    assert!((1900..=2000).contains(&keys), "{keys} of 2000 random keys");
}

#[test]
fn redis_cli_gives_each_primary_a_replica() {
    let nodes = Nodes::of("TEST.CLUSTER CREATE c EMPTY 6");
    let addrs: Vec<String> = (0..6).map(|number| nodes.addr(number).to_string()).collect();
    let mut args = vec!["--cluster", "create", "--cluster-replicas", "1"];
    args.extend(addrs.iter().map(String::as_str));
    let Some(made) = run("redis-cli", &args) else { return };
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stdout));
    assert!(text(&made.stdout).contains("[OK] All 16384 slots covered."), "{}", text(&made.stdout));
    for number in 0..3 {
        assert_eq!(nodes.client(number).info("connected_slaves"), "1");
        assert!(nodes.client(number).call("CLUSTER INFO").contains("cluster_state:ok"));
    }
    for number in 3..6 {
        assert!(nodes.has_role(number, "slave") && (0..3).any(|primary| nodes.follows(number, primary)));
    }
}

#[test]
fn redis_cli_covers_slots_that_nobody_has_by_any_node() {
    let cluster = Nodes::of("TEST.CLUSTER CREATE c PRIMARIES 3 REPLICAS 0");
    let addr = cluster.addr(0).to_string();
    for number in 0..3 {
        assert_eq!(cluster.client(number).call("CLUSTER DELSLOTS 7 8"), "+OK");
    }
    let Some(check) = run("redis-cli", &["--cluster", "check", &addr]) else { return };
    assert_eq!(check.status.code(), Some(1), "{}", text(&check.stdout));
    for command in ["fix", "check"] {
        let done = run("redis-cli", &["--cluster", command, &addr]).expect("it was there before");
        assert_eq!(done.status.code(), Some(0), "{command}: {}", text(&done.stdout));
    }
    assert!(cluster.client(1).call("CLUSTER INFO").contains("cluster_slots_assigned:16384"));
}

#[test]
fn sentinels_of_redis_replace_a_master_that_is_stopped_and_take_it_back_as_a_replica() {
    let mut nodes = Nodes::of("TEST.SENTINEL CREATE s REPLICAS 2 SENTINELS 1");
    let (dir, ports) = (tempfile::tempdir().expect("a directory"), [(); 3].map(|()| ReservedPort::new()));
    let mut sentinels = Vec::new();
    for port in &ports {
        let Some(sentinel) = Sentinel::start(&dir, port.port(), nodes.addr(0)) else { return };
        sentinels.push(sentinel);
    }
    wait_for(PATIENCE, || {
        ports.iter().all(|port| {
            let state = state(port.addr());
            let shows = |field: &str, value: &str| state.get(field).is_some_and(|found| found == value);
            shows("num-slaves", "2") && shows("num-other-sentinels", "2") && shows("flags", "master")
        })
    });
    let periods = "info-period 500 ping-period 250 ask-period 250 publish-period 500 tilt-trigger 20000";
    for port in &ports {
        assert_eq!(Client::connect(port.addr()).call(&format!("SENTINEL DEBUG {periods}")), "+OK");
    }
    nodes.client(0).expect(&[("SET k 1", "+OK"), ("WAIT 2 10000", ":2")]);
    assert_eq!(nodes.control.call("TEST.SENTINEL STOP s 0"), "+OK");
    let now_at = |port: &ReservedPort| nodes.ports.iter().position(|known| *known == primary(port.addr()));
    wait_for(PATIENCE, || ports.iter().all(|port| now_at(port).is_some_and(|node| [1, 2].contains(&node))));
    let second = now_at(&ports[0]).expect("a node");
    let other = 3 - second;
    wait_for(PATIENCE, || nodes.has_role(second, "master") && nodes.follows(other, second));
    nodes.client(second).expect(&[("GET k", "$1 1"), ("SET k 2", "+OK"), ("WAIT 1 10000", ":1")]);
    assert_eq!(nodes.control.call("TEST.SENTINEL START s 0"), "+OK");
    wait_for(PATIENCE, || nodes.follows(0, second) && nodes.client(0).call("GET k") == "$1 2");
}

#[test]
fn a_node_takes_its_role_in_the_transaction_of_a_sentinel() {
    let nodes = Nodes::of("TEST.SENTINEL CREATE s REPLICAS 2 SENTINELS 1");
    let no_file = "-ERR The server is running without a config file";
    let (mut killed, mut sentinel) = (nodes.client(1), nodes.client(1));
    assert_eq!(killed.call("PING"), "+PONG");
    sentinel.expect(&[
        ("MULTI", "+OK"),
        ("REPLICAOF NO ONE", "+QUEUED"),
        ("CONFIG REWRITE", "+QUEUED"),
        ("CLIENT KILL TYPE normal", "+QUEUED"),
        ("EXEC", &format!("*3 +OK {no_file} :1")),
        ("CONFIG REWRITE", no_file),
        ("SET k v", "+OK"),
    ]);
    assert_eq!(killed.read_frame(), None);
    let mut follower = nodes.client(2);
    follower.expect(&[
        ("MULTI", "+OK"),
        (&format!("REPLICAOF 127.0.0.1 {}", nodes.ports[1]), "+QUEUED"),
        ("REPLICAOF 127.0.0.1 1", "+QUEUED"),
        ("PING", "+QUEUED"),
        ("EXEC", "*3 +OK -ERR no node of this topology is at port 1 +PONG"),
    ]);
    wait_until(|| nodes.client(2).call("GET k") == "$1 v");
}

#[test]
fn a_server_of_redis_is_a_replica_of_a_node() {
    let cluster = Nodes::of("TEST.CLUSTER CREATE c PRIMARIES 1 REPLICAS 0");
    let (dir, port) = (tempfile::tempdir().expect("a directory"), ReservedPort::new());
    cluster.client(0).expect(&[("SET k 1", "+OK")]);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.port().to_string(), "--dir"]).arg(dir.path());
    command.args(["--replicaof", "127.0.0.1", &cluster.ports[0].to_string()]).stdout(Stdio::null());
    let mut server = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return skipped::without("redis-server"),
        Err(error) => panic!("redis-server does not start: {error}"),
    };
    let answers = |key: &str, expected: &str| {
        let there = std::net::TcpStream::connect(port.addr()).is_ok();
        there && Client::connect(port.addr()).call(&format!("GET {key}")) == expected
    };
    wait_until(|| answers("k", "$1 1"));
    cluster.client(0).expect(&[("SET l 2", "+OK")]);
    wait_until(|| answers("l", "$1 2"));
    server.kill().expect("a process of ours");
    server.wait().expect("a process of ours");
}
