//! A cluster of six processes of redis-server.
//!
//! It starts as `redis-cli --cluster create` would leave it, but by files: each node finds a `nodes.conf` that has all six,
//! with ids of ours. What Redis still takes is two seconds, the delay of a restarted primary.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::deployment::{Deployment, Kind, Node, PATIENCE};
use super::directory_of;
use super::network::Network;
use crate::harness::{ReservedPort, wait_for};

/// Slots of the primaries.
const SLOTS: [&str; 3] = ["0-5460", "5461-10922", "10923-16383"];

/// Node timeouts in milliseconds: while a failure is to be found, and at all other times, so that a busy machine is not
/// taken for one.
const SHORT: &str = "1500";
const LONG: &str = "15000";

/// Processes by the names of their nodes, which end with the test.
#[derive(Default)]
pub(super) struct Processes(BTreeMap<&'static str, Child>);

impl Processes {
    /// Starts a redis-server; returns false if there is none.
    pub(super) fn run(&mut self, name: &'static str, log: File, command: &mut Command) -> bool {
        let log = log.try_clone().map(|again| command.stdout(log).stderr(again).stdin(Stdio::null()).spawn());
        match log.expect("a file of one's own") {
            Ok(child) => self.0.insert(name, child),
            Err(error) if error.kind() == ErrorKind::NotFound => return false,
            Err(error) => panic!("redis-server does not start: {error}"),
        };
        true
    }

    /// Ends a process as `kill -9` does.
    pub(super) fn kill(&mut self, name: &str) {
        let mut child = self.0.remove(name).expect("it runs");
        child.kill().expect("a process of ours");
        child.wait().expect("a process of ours");
    }

    /// Sends a signal to a process.
    pub(super) fn signal(&self, name: &str, signal: &str) {
        let id = self.0[name].id().to_string();
        assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("kill").success());
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for child in self.0.values_mut() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Opens the log of a process, after what an earlier one has written.
pub(super) fn log(dir: &TempDir, name: &str) -> File {
    let path = directory_of(dir, name).join("log");
    File::options().create(true).append(true).open(path).expect("a writable directory")
}

/// Cluster of three primaries and three replicas.
pub(super) struct RealCluster {
    nodes: Vec<Node>,
    // Ended before their directories are removed.
    processes: Processes,
    network: Option<Network>,
    _ports: Vec<[ReservedPort; 2]>,
    dir: TempDir,
}

impl RealCluster {
    /// Starts a cluster, whose connections can be cut if `has_cuts` is set; `None` if there is no `redis-server`.
    pub(super) fn start(has_cuts: bool) -> Option<Self> {
        loop {
            let mut cluster = Self::new();
            if has_cuts {
                cluster.relay_connections();
            }
            for name in Kind::Cluster.names() {
                fs::write(directory_of(&cluster.dir, name).join("nodes.conf"), cluster.file_of(name)).expect("written");
                if !cluster.run(name) {
                    return None;
                }
            }
            cluster.wait_until_ready();
            cluster.set_timeout(LONG);
            // Unless the machine was so busy that a replica has taken over.
            if cluster.up().iter().all(|name| cluster.shows(name, "CLUSTER INFO", "cluster_current_epoch:6")) {
                return Some(cluster);
            }
        }
    }

    fn new() -> Self {
        let ports: Vec<[ReservedPort; 2]> =
            Kind::Cluster.names().iter().map(|_| [ReservedPort::new(), ReservedPort::new()]).collect();
        let nodes = Kind::Cluster.names().into_iter().zip(&ports).map(|(name, [port, bus])| Node {
            name,
            id: name.replace('p', "a").replace('r', "b").repeat(20),
            addr: port.addr(),
            bus: bus.port(),
            relays: None,
            is_up: true,
        });
        let nodes = nodes.collect();
        let dir = tempfile::tempdir().expect("a temporary directory");
        RealCluster { nodes, processes: Processes::default(), network: None, _ports: ports, dir }
    }

    /// Puts relays between the nodes.
    fn relay_connections(&mut self) {
        let mut network = Network::new(self.nodes.iter().map(|node| node.id.clone()).collect());
        for (at, node) in self.nodes.iter_mut().enumerate() {
            let partner = (at + SLOTS.len()) % (2 * SLOTS.len());
            let bus = (node.addr.ip(), node.bus).into();
            node.relays = Some([network.relay_data(at, partner, node.addr), network.relay_bus(at, bus)]);
        }
        self.network = Some(network);
    }

    /// Writes the cluster as a node is to find it at its start.
    fn file_of(&self, own: &str) -> String {
        let mut text = String::new();
        for (at, node @ Node { name, id, bus, relays, .. }) in self.nodes.iter().enumerate() {
            let (port, bus) = (node.port(), relays.map_or(*bus, |[_, bus]| bus));
            let (myself, shard) = (if *name == own { "myself," } else { "" }, at % SLOTS.len());
            let (role, primary, slots) = match at {
                0..3 => ("master", "-", format!(" {}", SLOTS[shard])),
                _ => ("slave", &*self.nodes[shard].id, String::new()),
            };
            let epoch = shard + 1;
            text.push_str(&format!(
                "{id} 127.0.0.1:{port}@{bus} {myself}{role} {primary} 0 0 {epoch} connected{slots}\n"
            ));
        }
        text + "vars currentEpoch 6 lastVoteEpoch 0\n"
    }

    /// Starts the process of a node; returns false if there is no `redis-server`.
    fn run(&mut self, name: &'static str) -> bool {
        let dir = directory_of(&self.dir, name);
        let Node { addr, bus, relays, .. } = self.node(name);
        let (port, bus) = (addr.port().to_string(), bus.to_string());
        let mut command = Command::new("redis-server");
        for (setting, port) in
            ["--cluster-announce-port", "--cluster-announce-bus-port"].iter().zip(relays.iter().flatten())
        {
            command.args([*setting, &port.to_string()]);
        }
        command
            .args(["--bind", "127.0.0.1", "--port", &port, "--cluster-enabled", "yes", "--cluster-port", &bus])
            .args(["--cluster-node-timeout", SHORT, "--repl-diskless-sync-delay", "0", "--save", ""])
            // Data outlives a process that is killed.
            .args(["--appendonly", "yes", "--enable-debug-command", "yes", "--dir"])
            .arg(dir)
            .env("LC_ALL", "C");
        self.processes.run(name, log(&self.dir, name), &mut command)
    }

    fn wait_until_ready(&self) {
        wait_for(PATIENCE, || self.up().iter().all(|name| self.shows(name, "CLUSTER INFO", "cluster_state:ok")));
        // Replicas whose position is 0 are not listed among those that serve slots.
        for name in ["p0", "p1", "p2"] {
            assert_eq!(self.ask(name, "FLUSHALL"), "+OK\r\n");
        }
        wait_for(PATIENCE, || {
            let is_listed = |at: &&str| ["r0", "r1", "r2"].iter().all(|replica| self.lists(at, replica));
            self.up().iter().all(is_listed) && self.is_caught_up()
        });
    }

    /// Sets the node timeout of all nodes that are up.
    fn set_timeout(&self, ms: &str) {
        for name in self.up() {
            assert_eq!(self.ask(name, &format!("CONFIG SET cluster-node-timeout {ms}")), "+OK\r\n");
        }
    }

    /// Waits until the nodes that are up have found that others are not, and have elected their successors.
    fn wait_until_found(&mut self, names: &[&str]) {
        self.nodes.iter_mut().filter(|node| names.contains(&node.name)).for_each(|node| node.is_up = false);
        let up = self.up();
        self.wait_until_missed(&up, names);
        if self.is_majority(&up) {
            self.agree();
        }
    }

    /// Returns whether nodes are the majority of the primaries that have slots, as the first of them sees it.
    fn is_majority(&self, names: &[&str]) -> bool {
        let voters: Vec<_> = self.view(names[0]).into_iter().filter(|[.., slots]| !slots.is_empty()).collect();
        let is_there = |voter: &&[String; 5]| names.iter().any(|name| self.node(name).id == voter[0]);
        voters.iter().filter(is_there).count() * 2 > voters.len()
    }

    /// Waits until nodes have found that others do not answer: those of a majority mark them as failed and replace them, the
    /// others serve nothing any more.
    fn wait_until_missed(&self, by: &[&str], missing: &[&str]) {
        self.set_timeout(SHORT);
        let ids: Vec<&String> = missing.iter().map(|name| &self.node(name).id).collect();
        let has_majority = self.is_majority(by);
        wait_for(PATIENCE, || {
            by.iter().all(|name| {
                let view = self.view(name);
                let has_replica = |id: &str| {
                    let is_replica = |node: &&[String; 5]| node[2] == id && !ids.contains(&&node[0]);
                    view.iter().any(|node| is_replica(&node) && !node[1].contains("fail"))
                };
                let mut missed = view.iter().filter(|node| ids.contains(&&node[0]));
                if has_majority {
                    missed.all(|node| {
                        node[1].split(',').any(|flag| flag == "fail") && (node[4].is_empty() || !has_replica(&node[0]))
                    })
                } else {
                    missed.all(|node| node[1].contains("fail"))
                        && self.shows(name, "CLUSTER INFO", "cluster_state:fail")
                }
            })
        });
        self.set_timeout(LONG);
    }

    /// Waits until the others take a node for one that is up.
    fn wait_until_back(&mut self, name: &str) {
        let addr = self.node(name).addr;
        wait_for(PATIENCE, || TcpStream::connect(addr).is_ok());
        self.nodes.iter_mut().filter(|node| node.name == name).for_each(|node| node.is_up = true);
        self.wait_until_healed();
    }

    /// Waits until all nodes that are up see each other.
    fn wait_until_healed(&mut self) {
        // They wait for twice the node timeout.
        self.set_timeout(SHORT);
        self.agree();
        self.catch_up();
        self.set_timeout(LONG);
    }
}

impl Deployment for RealCluster {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn stop(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.processes.kill(name));
        self.wait_until_found(names);
    }

    fn start(&mut self, name: &str) {
        let name = self.node(name).name;
        assert!(self.run(name));
        self.wait_until_back(name);
    }

    fn pause(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.processes.signal(name, "STOP"));
        self.wait_until_found(names);
    }

    fn resume(&mut self, name: &str) {
        self.processes.signal(name, "CONT");
        self.wait_until_back(name);
    }

    fn cut(&mut self, names: &[&str]) {
        let numbers: Vec<usize> =
            (0..self.nodes.len()).filter(|number| names.contains(&self.nodes[*number].name)).collect();
        self.network.as_ref().expect("a network that can be cut").cut(&numbers);
    }

    fn find_out(&mut self, names: &[&str]) {
        let others: Vec<&str> = self.up().into_iter().filter(|name| !names.contains(name)).collect();
        self.wait_until_missed(&others, names);
        self.wait_until_missed(names, &others);
    }

    fn heal(&mut self) {
        self.network.as_ref().expect("a network that can be cut").heal();
        self.wait_until_healed();
    }

    fn fail_over(&mut self, name: &str) {
        assert_eq!(self.ask(name, "CLUSTER FAILOVER"), "+OK\r\n");
        wait_for(PATIENCE, || self.info(name, "role") == "master");
        self.agree();
        self.catch_up();
    }
}
