//! A wire: two network namespaces of this machine, joined by a pair of virtual interfaces (veth).
//!
//! On the loopback the system call of a sender does the receiver's work, too, up to waking it: what a server costs
//! depends on who sends. Across a wire a thread of the kernel receives the packets (NAPI in its threaded form), which
//! can be pinned and whose CPU time can be read. The server and its thread are pinned to one core, the generator and
//! its thread to another.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, id};

use crate::Result;
use crate::server::on_path;

/// Name of the namespace with the servers.
const NAMESPACE: &str = "keylatch-versus";
/// Names of the interfaces: the generator's, and the servers'.
const INTERFACES: [&str; 2] = ["klw0", "klw1"];
/// Cores of the generator and of the servers.
const CORES: [&str; 2] = ["1", "0"];

/// A wire; it is removed when this is dropped.
pub struct Wire {
    /// Threads of the kernel that receive the servers' packets.
    pub receivers: Vec<u32>,
    /// Cores that this process has used before.
    cores: String,
}

impl Wire {
    /// Address of the servers; 198.18.0.0/15 is for benchmarks.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

    /// Returns what this machine lacks for a wire, if anything.
    pub fn lacking() -> Option<&'static str> {
        let is_missing = |program: &&str| on_path(program).is_none();
        let missing = ["ip", "ethtool", "taskset"].into_iter().find(is_missing);
        missing.or_else(|| (!rustix::process::geteuid().is_root()).then_some("the rights of root"))
    }

    /// Makes a wire, and pins this process.
    ///
    /// # Errors
    /// An error when the system refuses a step.
    pub fn make() -> Result<Wire> {
        let output = run(&["taskset", "-pc", &id().to_string()])?;
        let cores = output.rsplit(' ').next().unwrap_or_default().trim().to_owned();
        let mut wire = Wire { receivers: Vec::new(), cores };
        let [generator, server] = INTERFACES;
        run(&["ip", "netns", "add", NAMESPACE])?;
        run(&["ip", "link", "add", generator, "type", "veth", "peer", "name", server, "netns", NAMESPACE])?;
        for (within, interface, addr) in [(false, generator, "198.18.0.1/30"), (true, server, "198.18.0.2/30")] {
            let threaded = format!("echo 1 > /sys/class/net/{interface}/threaded");
            for words in [
                &["ip", "addr", "add", addr, "dev", interface][..],
                &["ip", "link", "set", interface, "up"],
                // With GRO the receiver works by NAPI; without TSO packets are as large as a network's.
                &["ethtool", "-K", interface, "gro", "on", "tso", "off"],
                &["sh", "-c", &threaded],
            ] {
                let prefix: &[&str] = if within { &["ip", "netns", "exec", NAMESPACE] } else { &[] };
                run(&[prefix, words].concat())?;
            }
        }
        pin(&[id()], CORES[0])?;
        pin(&receivers(generator)?, CORES[0])?;
        wire.receivers = receivers(server)?;
        pin(&wire.receivers, CORES[1])?;
        Ok(wire)
    }

    /// Returns the command that starts a program at the servers' end, on their core. The program has the process of the
    /// command.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", NAMESPACE, "taskset", "-c", CORES[1]]).arg(program);
        command
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // What was not made cannot be removed, which is well.
        let _ = run(&["ip", "netns", "del", NAMESPACE]);
        let _ = pin(&[id()], &self.cores);
    }
}

/// Returns the threads that receive the packets of an interface.
fn receivers(interface: &str) -> Result<Vec<u32>> {
    let name = format!("napi/{interface}-");
    let mut threads = Vec::new();
    for process in fs::read_dir("/proc")? {
        let path = process?.path();
        let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.starts_with(&name) {
            threads.extend(path.file_name().and_then(|number| number.to_str()?.parse::<u32>().ok()));
        }
    }
    if threads.is_empty() {
        Err(format!("no thread of the kernel receives for {interface}").into())
    } else {
        Ok(threads)
    }
}

/// Pins all threads of some processes to cores.
fn pin(processes: &[u32], cores: &str) -> Result<()> {
    processes.iter().try_for_each(|process| run(&["taskset", "-apc", cores, &process.to_string()]).map(drop))
}

/// Runs a command; returns its output.
fn run(words: &[&str]) -> Result<String> {
    let shown = words.join(" ");
    let output = Command::new(words[0]).args(&words[1..]).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}
