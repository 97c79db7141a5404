//! A deployment that keylatch simulates in one process, with a clock of its own that only the test moves.

use std::time::Duration;

use keylatch::internals::resp::Frame;

use super::deployment::{Deployment, Kind, Node, agree_if_met};
use crate::harness::{Client, TestServer, wait_for};

/// Name of the deployment.
const NAME: &str = "it";

/// Milliseconds after which a node of a cluster that does not answer has failed, and one that sentinels watch is down.
const NODE_TIMEOUT: u32 = 15_000;
const DOWN_AFTER: u32 = 30_000;

/// Nodes in one server.
pub(super) struct Simulated {
    kind: Kind,
    nodes: Vec<Node>,
    /// Connection that keeps the deployment, and gives the orders.
    control: Client,
    _server: TestServer,
}

impl Simulated {
    pub(super) fn start(kind: Kind) -> Self {
        let settings = [("test-mode", "yes"), ("enable-debug-command", "yes")];
        let server = TestServer::start_with(&settings);
        let mut control = server.client();
        let (timeout, ms) = match kind {
            Kind::Cluster => ("NODE-TIMEOUT", NODE_TIMEOUT.to_string()),
            Kind::Strangers => ("EMPTY", (kind.names().len() - 1).to_string()),
            Kind::Sentinels => ("DOWN-AFTER", DOWN_AFTER.to_string()),
        };
        let made = control.frame(&[command(kind), "CREATE", NAME, timeout, &ms]);
        let Frame::Array(maps) = &made else { panic!("an array: {made:?}") };
        let nodes = kind.names().into_iter().zip(maps).map(|(name, map)| {
            let port: u16 = field(map, "port").parse().expect("a port");
            let id = match kind {
                Kind::Cluster | Kind::Strangers => field(map, "id"),
                Kind::Sentinels => id_of_sentinel(name, port),
            };
            let bus = if kind == Kind::Sentinels { 0 } else { port.wrapping_add(10_000) };
            Node { name, id, addr: ([127, 0, 0, 1], port).into(), bus, relays: None, is_up: true }
        });
        let mut nodes: Vec<Node> = nodes.collect();
        if kind == Kind::Strangers {
            let (id, addr) = (String::new(), server.addr());
            nodes.push(Node { name: "x", id, addr, bus: 0, relays: None, is_up: true });
        }
        Simulated { kind, nodes, control, _server: server }
    }

    /// Gives an order about a node.
    fn order(&mut self, verb: &str, name: &str) {
        let number = self.kind.names().iter().position(|known| *known == name).expect("a node");
        let to = if (self.kind, verb) == (Kind::Sentinels, "FAILOVER") { "TO " } else { "" };
        let order = format!("{} {verb} {NAME} {to}{number}", command(self.kind));
        assert_eq!(self.control.call(&order), "+OK", "{order}");
        self.nodes[number].is_up = !matches!(verb, "STOP" | "PAUSE");
    }
}

/// Returns the command for orders.
fn command(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster | Kind::Strangers => "TEST.CLUSTER",
        Kind::Sentinels => "TEST.SENTINEL",
    }
}

/// Asks a sentinel for its id; empty for a server, whose id is not known to clients of a real one.
fn id_of_sentinel(name: &str, port: u16) -> String {
    if !name.starts_with('s') {
        return String::new();
    }
    let reply = Client::connect(([127, 0, 0, 1], port).into()).call("SENTINEL MYID");
    reply.split_once(' ').expect("text").1.to_owned()
}

/// Returns the value of a field in a map of RESP2; empty without it.
fn field(map: &Frame, name: &str) -> String {
    let Frame::Array(fields) = map else { panic!("a map: {map:?}") };
    let text = |frame: &Frame| match frame {
        Frame::Bulk(text) | Frame::Simple(text) => String::from_utf8_lossy(text).into_owned(),
        Frame::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let found = fields.chunks(2).find(|pair| text(&pair[0]) == name);
    found.map(|pair| text(&pair[1])).unwrap_or_default()
}

impl Simulated {
    /// Waits as long as it takes until nodes that do not answer have been found and replaced; sentinels look for
    /// a primary that is gone again once it has become a replica in their eyes.
    fn pass_timeouts(&mut self) {
        match self.kind {
            Kind::Cluster | Kind::Strangers => self.pass(NODE_TIMEOUT),
            Kind::Sentinels => (0..2).for_each(|_| self.pass(DOWN_AFTER)),
        }
    }
}

impl Deployment for Simulated {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn agree(&mut self) {
        match self.kind {
            Kind::Strangers => agree_if_met(self),
            Kind::Cluster | Kind::Sentinels => wait_for(self.patience(), || self.agrees()),
        }
    }

    fn stop(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.order("STOP", name));
        self.pass_timeouts();
    }

    fn start(&mut self, name: &str) {
        self.order("START", name);
    }

    fn pause(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.order("PAUSE", name));
        self.pass_timeouts();
    }

    fn resume(&mut self, name: &str) {
        self.order("RESUME", name);
    }

    fn cut(&mut self, names: &[&str]) {
        let number_of = |name: &&str| self.kind.names().iter().position(|known| known == name).expect("a node");
        let numbers: Vec<String> = names.iter().map(|name| number_of(name).to_string()).collect();
        let order = format!("{} PARTITION {NAME} {}", command(self.kind), numbers.join(" "));
        assert_eq!(self.control.call(&order), "+OK", "{order}");
    }

    fn find_out(&mut self, _names: &[&str]) {
        self.pass_timeouts();
    }

    fn heal(&mut self) {
        let order = format!("{} HEAL {NAME}", command(self.kind));
        assert_eq!(self.control.call(&order), "+OK", "{order}");
    }

    fn fail_over(&mut self, name: &str) {
        self.order("FAILOVER", name);
    }

    fn pass(&mut self, ms: u32) {
        self.control.int(&format!("TEST.TIME ADVANCE {ms}"));
    }
}
