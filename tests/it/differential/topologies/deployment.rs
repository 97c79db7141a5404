//! A deployment, real or simulated: its nodes, what can be done to them, and what is asked of them in between.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::super::oracle::Peer;
use super::real::RealCluster;
use super::real_sentinels::RealSentinels;
use super::real_strangers::RealStrangers;
use super::simulated::Simulated;
use crate::harness::wait_for;

/// Time that a test waits for what real nodes find out by their timeouts, on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// Kind of a deployment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Cluster,
    Sentinels,
    /// Nodes of no cluster yet, and a server that is no node.
    Strangers,
}

impl Kind {
    /// Starts processes, between which a test may cut connections; `None` if there is no `redis-server`.
    pub(super) fn start_real(self, has_cuts: bool) -> Option<Box<dyn Deployment>> {
        Some(match self {
            Kind::Cluster => Box::new(RealCluster::start(has_cuts)?),
            Kind::Sentinels => Box::new(RealSentinels::start()?),
            Kind::Strangers => Box::new(RealStrangers::start()?),
        })
    }

    /// Starts a server that simulates it.
    pub(super) fn start_simulated(self) -> Box<dyn Deployment> {
        Box::new(Simulated::start(self))
    }

    /// Returns the names of the nodes in the order in which they are created.
    pub(super) fn names(self) -> Vec<&'static str> {
        match self {
            Kind::Cluster => vec!["p0", "p1", "p2", "r0", "r1", "r2"],
            Kind::Sentinels => vec!["m", "r0", "r1", "s0", "s1", "s2"],
            Kind::Strangers => vec!["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "x"],
        }
    }
}

/// Node of a deployment.
#[derive(Clone, Debug)]
pub(in super::super) struct Node {
    pub(super) name: &'static str,
    /// Its id; empty for a server under sentinels, which has none that stays.
    pub(super) id: String,
    pub(super) addr: SocketAddr,
    /// Port of the bus; 0 where there is none.
    pub(super) bus: u16,
    /// Ports that it announces in place of its own, where a test can cut the connections between nodes.
    pub(super) relays: Option<[u16; 2]>,
    /// True while its process runs and answers.
    pub(super) is_up: bool,
}

impl Node {
    /// Returns the port that other nodes know.
    pub(super) fn port(&self) -> u16 {
        self.relays.map_or(self.addr.port(), |[data, _]| data)
    }
}

/// Fails a story that does to nodes what their deployment knows no way for.
fn is_not_told() -> ! {
    panic!("no story of this deployment does that")
}

/// Nodes, and what can be done to them; all of it has had its consequences on return.
pub(in super::super) trait Deployment {
    fn nodes(&self) -> &[Node];

    /// Returns the time after which what is waited for will not happen.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Ends processes as `kill -9` does.
    fn stop(&mut self, _names: &[&str]) {
        is_not_told()
    }

    /// Starts a process again.
    fn start(&mut self, _name: &str) {
        is_not_told()
    }

    /// Suspends processes.
    fn pause(&mut self, _names: &[&str]) {
        is_not_told()
    }

    /// Continues a process.
    fn resume(&mut self, _name: &str) {
        is_not_told()
    }

    /// Cuts nodes off from the others.
    fn cut(&mut self, _names: &[&str]) {
        is_not_told()
    }

    /// Returns once both sides of a cut have found that the other one does not answer.
    fn find_out(&mut self, _names: &[&str]) {
        is_not_told()
    }

    /// Ends a cut.
    fn heal(&mut self) {
        is_not_told()
    }

    /// Makes a replica the primary.
    fn fail_over(&mut self, _name: &str) {
        is_not_told()
    }

    /// Waits for some time; where nobody moves the clock, it passes while replies are waited for.
    fn pass(&mut self, _ms: u32) {}

    /// Returns once all nodes see the same cluster.
    fn agree(&mut self) {
        wait_for(self.patience(), || self.agrees());
    }

    /// Returns once the replicas have what their primaries have.
    fn catch_up(&mut self) {
        wait_for(self.patience(), || self.is_caught_up());
    }

    fn node(&self, name: &str) -> &Node {
        self.nodes().iter().find(|node| node.name == name).unwrap_or_else(|| panic!("{name} is a node"))
    }

    /// Asks a node over a new connection; empty if it does not answer.
    fn ask(&self, name: &str, request: &str) -> String {
        let addr = self.node(name).addr;
        if TcpStream::connect(addr).is_err() {
            return String::new();
        }
        let mut peer = Peer::to(addr);
        peer.send(&crate::harness::encode(&request.split(' ').collect::<Vec<_>>()));
        peer.reply().map(|reply| String::from_utf8_lossy(&reply).into_owned()).unwrap_or_default()
    }

    /// Returns whether the reply to a request has a text.
    fn shows(&self, name: &str, request: &str, text: &str) -> bool {
        self.ask(name, request).contains(text)
    }

    /// Returns a field of INFO.
    fn info(&self, name: &str, field: &str) -> String {
        let text = self.ask(name, "INFO");
        let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_default().to_owned()
    }

    fn blocked_clients(&self, name: &str) -> u64 {
        self.info(name, "blocked_clients").parse().expect("a number")
    }

    /// Returns the names of the nodes that answer.
    fn up(&self) -> Vec<&'static str> {
        self.nodes().iter().filter(|node| node.is_up).map(|node| node.name).collect()
    }

    /// Returns the cluster as a node sees it: for each node its id, flags and host name, primary, epoch and slots, sorted.
    fn view(&self, name: &str) -> Vec<[String; 5]> {
        let text = self.ask(name, "CLUSTER NODES");
        let lines = text.lines().filter(|line| line.contains('@'));
        let mut view: Vec<[String; 5]> = lines
            .map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                let slots: Vec<&str> = fields[8..].iter().filter(|slots| !slots.starts_with('[')).copied().collect();
                let mut flags = fields[2].replace("myself,", "");
                if fields[7] == "disconnected" && !flags.contains("fail") {
                    flags += ",disconnected";
                }
                let host_name = fields[1].split_once(',').map(|(_, host_name)| host_name);
                flags += host_name.unwrap_or_default();
                [fields[0].into(), flags, fields[3].into(), fields[6].into(), slots.join(" ")]
            })
            .collect();
        view.sort();
        view
    }

    fn agrees(&self) -> bool {
        let views: Vec<_> = self.up().into_iter().map(|name| self.view(name)).collect();
        let is_met = |flags: &str| !["handshake", "disconnected"].iter().any(|state| flags.contains(state));
        views
            .iter()
            .all(|view| *view == views[0] && !view.is_empty() && view.iter().all(|[_, flags, ..]| is_met(flags)))
    }

    /// Returns whether every replica that is up has the position of its primary, and whether all nodes have heard of it.
    fn is_caught_up(&self) -> bool {
        self.up().into_iter().filter(|name| self.info(name, "role") == "slave").all(|name| {
            let port = self.info(name, "master_port");
            let primary = self.nodes().iter().find(|node| node.port().to_string() == port);
            let offset = self.info(name, "slave_repl_offset");
            let is_same = |primary: &Node| self.info(primary.name, "master_repl_offset") == offset;
            self.info(name, "master_link_status") == "up"
                && primary.is_some_and(is_same)
                && (offset == "0" || self.node(name).bus == 0 || self.up().iter().all(|at| self.lists(at, name)))
        })
    }

    /// Returns whether a node lists another among those that serve slots.
    fn lists(&self, at: &str, listed: &str) -> bool {
        let port = format!("\r\n:{}\r\n", self.node(listed).port());
        self.shows(at, "CLUSTER SLOTS", &port) || self.view(at).iter().all(|node| node[4].is_empty())
    }
}

/// Returns once all nodes that have met others see the same cluster, and take its state for the same.
pub(super) fn agree_if_met(deployment: &dyn Deployment) {
    let is_settled = |[_, flags, ..]: &[String; 5]| !flags.contains("handshake") && !flags.contains("disconnected");
    wait_for(deployment.patience(), || {
        let seen: Vec<_> = deployment.up().into_iter().map(|name| (name, deployment.view(name))).collect();
        let met: Vec<_> = seen.iter().filter(|(_, view)| view.len() > 1).collect();
        let is_ok = |name: &str| deployment.shows(name, "CLUSTER INFO", "cluster_state:ok");
        met.iter()
            .all(|(name, view)| *view == met[0].1 && view.iter().all(is_settled) && is_ok(name) == is_ok(met[0].0))
    });
}
