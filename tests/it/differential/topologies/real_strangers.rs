//! Processes of redis-server that are nodes of no cluster yet, and one that is no node: for tools that make clusters of them.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::deployment::{Deployment, Kind, Node, PATIENCE, agree_if_met};
use super::directory_of;
use super::real::{Processes, log};
use crate::harness::{ReservedPort, wait_for};

/// Nodes that have not met.
pub(super) struct RealStrangers {
    nodes: Vec<Node>,
    // Ended before their directories are removed.
    _processes: Processes,
    _ports: Vec<[ReservedPort; 2]>,
    _dir: TempDir,
}

impl RealStrangers {
    /// Starts them; `None` if there is no `redis-server`.
    pub(super) fn start() -> Option<Self> {
        let names = Kind::Strangers.names();
        let ports: Vec<[ReservedPort; 2]> = names.iter().map(|_| [ReservedPort::new(), ReservedPort::new()]).collect();
        let nodes = names.into_iter().zip(&ports).map(|(name, [port, bus])| Node {
            name,
            id: if name == "x" { String::new() } else { name.replace('n', "a").repeat(20) },
            addr: port.addr(),
            bus: if name == "x" { 0 } else { bus.port() },
            relays: None,
            is_up: true,
        });
        let nodes: Vec<Node> = nodes.collect();
        let (dir, mut processes) = (tempfile::tempdir().expect("a temporary directory"), Processes::default());
        for Node { name, id, addr, bus, .. } in &nodes {
            let (own, port, bus) = (directory_of(&dir, name), addr.port().to_string(), bus.to_string());
            let mut command = Command::new("redis-server");
            command.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--repl-diskless-sync-delay", "0"]);
            command.args(["--enable-debug-command", "yes"]);
            if !id.is_empty() {
                let file = format!("{id} :0@0 myself,master - 0 0 0 connected\nvars currentEpoch 0 lastVoteEpoch 0\n");
                fs::write(own.join("nodes.conf"), file).expect("a writable directory");
                command.args(["--cluster-enabled", "yes", "--cluster-port", &bus]);
            }
            if !processes.run(name, log(&dir, name), command.arg("--dir").arg(own).env("LC_ALL", "C")) {
                return None;
            }
        }
        let all = RealStrangers { nodes, _processes: processes, _ports: ports, _dir: dir };
        wait_for(PATIENCE, || all.up().iter().all(|name| !all.ask(name, "PING").is_empty()));
        Some(all)
    }
}

impl Deployment for RealStrangers {
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    fn agree(&mut self) {
        agree_if_met(self);
    }
}
