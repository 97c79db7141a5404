//! A primary and two replicas under three sentinels, as processes of redis-server.
//!
//! The sentinels find each other and the replicas in their files, so that nobody waits for their messages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::deployment::{Deployment, Kind, Node, PATIENCE};
use super::directory_of;
use super::real::{Processes, log};
use crate::harness::{ReservedPort, wait_for};

const SERVERS: [&str; 3] = ["m", "r0", "r1"];
const SENTINELS: [&str; 3] = ["s0", "s1", "s2"];

/// Milliseconds without an answer after which a server counts as down: while one is, and at all other times.
pub(super) const SHORT: &str = "2000";
pub(super) const LONG: &str = "30000";

/// Primary with replicas and sentinels.
pub(super) struct RealSentinels {
    nodes: Vec<Node>,
    // Ended before their directories are removed.
    processes: Processes,
    _ports: Vec<ReservedPort>,
    dir: TempDir,
}

impl RealSentinels {
    /// Starts them; `None` if there is no `redis-server`.
    pub(super) fn start() -> Option<Self> {
        let ports: Vec<ReservedPort> = Kind::Sentinels.names().iter().map(|_| ReservedPort::new()).collect();
        let nodes = Kind::Sentinels.names().into_iter().zip(&ports).map(|(name, port)| Node {
            name,
            id: if name.starts_with('s') { name.replace('s', "c").repeat(20) } else { String::new() },
            addr: port.addr(),
            bus: 0,
            relays: None,
            is_up: true,
        });
        let nodes = nodes.collect();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut all = RealSentinels { nodes, processes: Processes::default(), _ports: ports, dir };
        for name in Kind::Sentinels.names() {
            fs::write(all.file_of(name), all.settings_of(name)).expect("a writable directory");
            if !all.run(name) {
                return None;
            }
        }
        all.wait_until_settled();
        Some(all)
    }

    fn file_of(&self, name: &str) -> PathBuf {
        directory_of(&self.dir, name).join("settings.conf")
    }

    /// Writes the settings of a node, with what it is to know at its start.
    fn settings_of(&self, own: &str) -> String {
        let (port, dir) = (self.node(own).port(), directory_of(&self.dir, own));
        let mut text = format!("port {port}\nbind 127.0.0.1\ndir {}\n", dir.display());
        let primary = self.node("m").port();
        if SERVERS.contains(&own) {
            text.push_str("save \"\"\nappendonly yes\nrepl-diskless-sync-delay 0\nenable-debug-command yes\n");
            // The first replica is the better one.
            match own {
                "m" => text.push_str("replica-priority 90\n"),
                "r0" => text.push_str(&format!("replica-priority 80\nreplicaof 127.0.0.1 {primary}\n")),
                _ => text.push_str(&format!("replica-priority 100\nreplicaof 127.0.0.1 {primary}\n")),
            }
            return text;
        }
        let id = &self.node(own).id;
        text.push_str(&format!("sentinel myid {id}\nsentinel monitor mymaster 127.0.0.1 {primary} 2\n"));
        text.push_str(&format!("sentinel down-after-milliseconds mymaster {LONG}\n"));
        text.push_str("sentinel failover-timeout mymaster 180000\n");
        for replica in ["r0", "r1"] {
            text.push_str(&format!("sentinel known-replica mymaster 127.0.0.1 {}\n", self.node(replica).port()));
        }
        for Node { id, addr, .. } in SENTINELS.iter().filter(|name| **name != own).map(|name| self.node(name)) {
            text.push_str(&format!("sentinel known-sentinel mymaster 127.0.0.1 {} {id}\n", addr.port()));
        }
        text
    }

    /// Starts the process of a node; returns false if there is no `redis-server`.
    fn run(&mut self, name: &'static str) -> bool {
        let mut command = Command::new("redis-server");
        command.arg(self.file_of(name)).env("LC_ALL", "C");
        if SENTINELS.contains(&name) {
            command.arg("--sentinel");
        }
        self.processes.run(name, log(&self.dir, name), &mut command)
    }

    /// Returns whether a sentinel is connected to all others that are up, and takes nobody else for up.
    fn is_settled(&self, sentinel: &str) -> bool {
        let has = |request: &str, text: &str, count: usize| self.ask(sentinel, request).matches(text).count() == count;
        let up = |names: &[&str]| names.iter().filter(|name| self.node(name).is_up).count();
        let (servers, sentinels) = (up(&SERVERS), up(&SENTINELS));
        has("SENTINEL MASTER mymaster", "flags\r\n$6\r\nmaster\r\n", 1)
            && has("SENTINEL MASTER mymaster", "role-reported\r\n$6\r\nmaster\r\n", 1)
            && has("SENTINEL REPLICAS mymaster", "flags\r\n$5\r\nslave\r\n", servers - 1)
            && has("SENTINEL REPLICAS mymaster", "master-link-status\r\n$2\r\nok\r\n", servers - 1)
            && has("SENTINEL SENTINELS mymaster", "flags\r\n$8\r\nsentinel\r\n", sentinels - 1)
    }

    /// Gives a setting of what they watch to sentinels that are up.
    fn set(&self, sentinels: &[&str], setting: &str) {
        for sentinel in sentinels.iter().filter(|name| self.node(name).is_up) {
            assert_eq!(self.ask(sentinel, &format!("SENTINEL SET mymaster {setting}")), "+OK\r\n");
        }
    }

    /// Returns whether all sentinels that are up name the same primary, which is one, and whether all servers that are up
    /// are its replicas.
    fn has_one_primary(&self) -> bool {
        let request = "SENTINEL GET-MASTER-ADDR-BY-NAME mymaster";
        let up = self.up();
        let (sentinels, servers): (Vec<&str>, Vec<&str>) = up.iter().partition(|name| SENTINELS.contains(name));
        let seen: Vec<String> = sentinels.iter().map(|name| self.ask(name, request)).collect();
        let port = seen[0].split("\r\n").nth(4).unwrap_or_default();
        let is_right = |name: &&str| {
            if self.node(name).port().to_string() == port {
                return self.info(name, "role") == "master";
            }
            self.info(name, "master_port") == port && self.info(name, "master_link_status") == "up"
        };
        seen.iter().all(|reply| *reply == seen[0]) && servers.iter().all(is_right)
    }

    fn set_up(&mut self, names: &[&str], is_up: bool) {
        self.nodes.iter_mut().filter(|node| names.contains(&node.name)).for_each(|node| node.is_up = is_up);
    }

    /// Waits until the sentinels that are up have found that others are not, and have replaced the primary if they can.
    ///
    /// The first one leads: the second takes more for a quorum, and the third does not look until it is over.
    fn wait_until_found(&mut self, names: &[&str]) {
        self.set_up(names, false);
        let has_majority = SENTINELS.iter().filter(|name| self.node(name).is_up).count() * 2 > SENTINELS.len();
        self.set(&SENTINELS[1..], "quorum 3");
        self.set(&SENTINELS[..2], &format!("down-after-milliseconds {SHORT}"));
        wait_for(PATIENCE, || !has_majority || self.has_one_primary());
        self.set(&SENTINELS, &format!("down-after-milliseconds {SHORT}"));
        wait_for(PATIENCE, || {
            let is_marked = |sentinel: &str| names.iter().all(|name| self.is_marked(sentinel, name));
            self.up().into_iter().filter(|name| SENTINELS.contains(name)).all(is_marked)
        });
        self.set(&SENTINELS, "quorum 2");
    }

    /// Returns whether a sentinel says that a node is down.
    fn is_marked(&self, sentinel: &str, name: &str) -> bool {
        let port = format!("\r\nport\r\n$5\r\n{}\r\n", self.node(name).port());
        ["MASTERS", "REPLICAS mymaster", "SENTINELS mymaster"].iter().any(|list| {
            let reply = self.ask(sentinel, &format!("SENTINEL {list}"));
            let mut described = reply.split("\r\nname\r\n").filter(|node| node.contains(&port));
            described.any(|node| node.contains("s_down"))
        })
    }

    fn wait_until_back(&mut self, name: &str) {
        wait_for(PATIENCE, || !self.ask(name, "PING").is_empty());
        self.set_up(&[name], true);
        self.wait_until_settled();
        self.set(&SENTINELS, &format!("down-after-milliseconds {LONG}"));
    }

    /// Waits until the sentinels that are up see the servers and sentinels that are up as such.
    fn wait_until_settled(&self) {
        let sentinels: Vec<&str> = SENTINELS.into_iter().filter(|name| self.node(name).is_up).collect();
        wait_for(PATIENCE, || sentinels.iter().all(|sentinel| self.hurries(sentinel)));
        wait_for(PATIENCE, || {
            self.has_one_primary() && sentinels.iter().all(|name| self.is_settled(name)) && self.is_caught_up()
        });
    }

    /// Makes a sentinel ask more often than every ten seconds, and not take a busy machine for a change of the clock.
    fn hurries(&self, sentinel: &str) -> bool {
        let periods = "info-period 500 ping-period 250 ask-period 250 publish-period 500 tilt-trigger 20000";
        self.ask(sentinel, &format!("SENTINEL DEBUG {periods}")) == "+OK\r\n"
    }
}

impl Deployment for RealSentinels {
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

    fn cut(&mut self, _names: &[&str]) {
        panic!("sentinels learn the addresses of replicas from the servers, and so reach them directly");
    }

    fn find_out(&mut self, _names: &[&str]) {
        panic!("see `cut`");
    }

    fn heal(&mut self) {
        panic!("see `cut`");
    }

    fn fail_over(&mut self, _name: &str) {
        assert_eq!(self.ask("s0", "SENTINEL FAILOVER mymaster"), "+OK\r\n");
        wait_for(PATIENCE, || {
            self.info("m", "role") == "slave"
                && self.shows("s0", "SENTINEL MASTER mymaster", "flags\r\n$6\r\nmaster\r\n")
        });
        self.wait_until_settled();
    }

    fn agree(&mut self) {
        wait_for(PATIENCE, || self.has_one_primary());
    }
}
