//! Histories of processes: primaries and replicas are killed or stopped at random, and acknowledged writes survive.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;
use tempfile::TempDir;

use super::callers::Caller;
use crate::differential::random::Random;
use crate::harness::{Client, ReservedPort, encode, wait_until};
use crate::log::first_seed;
use crate::process::{Process, binary};

/// Number of histories for each kind of persistence, unless set by `KEYLATCH_HISTORIES`.
const HISTORIES: u64 = 1;

const WRITERS: usize = 2;

/// Number of successive primaries in each history.
const REIGNS: usize = 4;

/// Two servers as processes, one of which is the primary.
struct Pair {
    random: Random,
    ports: [ReservedPort; 2],
    processes: [Option<Process>; 2],
    dir: TempDir,
    is_logged: bool,
}

/// Replies and acknowledgements known to the clients.
struct Told {
    addrs: [SocketAddr; 2],
    primary: AtomicUsize,
    is_over: AtomicBool,
    /// Numbers that the replica has acknowledged in the present reign.
    acknowledged: Mutex<Vec<u64>>,
}

/// Guard that ends the clients, also when the test fails.
struct Ending<'t>(&'t Told);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

impl Pair {
    fn start(seed: u64, is_logged: bool) -> Self {
        let ports = [(); 2].map(|()| ReservedPort::new());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut pair = Pair { random: Random::new(seed), ports, processes: [None, None], dir, is_logged };
        pair.run(0, None);
        pair.run(1, Some(0));
        pair
    }

    /// Starts a server with its files.
    fn run(&mut self, number: usize, primary: Option<usize>) {
        let dir = self.dir.path().join(number.to_string());
        std::fs::create_dir_all(&dir).expect("a directory");
        let port = self.ports[number].port().to_string();
        let mut command = Command::new(binary());
        command.current_dir(dir).args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"]);
        command.args(["--appendonly", if self.is_logged { "yes" } else { "no" }]);
        if let Some(primary) = primary {
            command.args(["--replicaof", &format!("127.0.0.1 {}", self.ports[primary].port())]);
        }
        let mut process = Process::run(&mut command);
        process.read_until("Ready to accept connections");
        self.processes[number] = Some(process);
    }

    fn process(&self, number: usize) -> &Process {
        self.processes[number].as_ref().expect("it runs")
    }

    fn client(&self, number: usize) -> Client {
        Client::connect(self.ports[number].addr())
    }

    fn kill(&mut self, number: usize) {
        let mut process = self.processes[number].take().expect("it runs");
        process.signal("KILL");
        process.wait();
    }

    /// Waits until a replica follows the primary.
    fn wait_for(&self, replica: usize) {
        let mut client = self.client(replica);
        wait_until(|| client.info("role") == "slave" && client.info("master_link_status") == "up");
    }

    /// Disturbs the replica, or the primary, without a loss of data.
    fn disturb(&mut self, primary: usize) {
        let replica = 1 - primary;
        match self.random.below(4) {
            0 => {
                self.kill(replica);
                self.run(replica, Some(primary));
            }
            1 => {
                self.process(replica).signal("STOP");
                let position = self.client(primary).info("master_repl_offset");
                wait_until(|| self.client(primary).info("master_repl_offset") != position);
                self.process(replica).signal("CONT");
            }
            2 => {
                self.process(primary).signal("STOP");
                self.client(replica).info("role");
                self.process(primary).signal("CONT");
            }
            _ => _ = self.client(primary).call("CLIENT KILL TYPE replica"),
        }
        self.wait_for(replica);
    }

    /// Ends the reign of a primary: it dies, only seems to be dead, or hands over; the replica takes its place.
    fn replace(&mut self, primary: usize, told: &Told) {
        let (next, end) = (1 - primary, self.random.below(3));
        match end {
            0 => self.kill(primary),
            1 => self.process(primary).signal("STOP"),
            _ => {
                self.client(primary).expect(&[("FAILOVER", "+OK")]);
                wait_until(|| self.client(next).info("role") == "master");
            }
        }
        // Acknowledged up to now. The former primary acknowledges no later number that is in the new one.
        let acknowledged = std::mem::take(&mut *told.acknowledged.lock());
        let mut client = self.client(next);
        wait_until(|| client.call("REPLICAOF NO ONE") == "+OK");
        for number in &acknowledged {
            assert_eq!(client.call(&format!("GET number:{number}")), format!("${} {number}", number.to_string().len()));
        }
        assert!(!acknowledged.is_empty());
        told.primary.store(next, SeqCst);
        match end {
            0 => self.run(primary, Some(next)),
            1 => {
                self.process(primary).signal("CONT");
                let request = format!("REPLICAOF 127.0.0.1 {}", self.ports[next].port());
                self.client(primary).expect(&[(&request, "+OK")]);
            }
            _ => {}
        }
        self.wait_for(primary);
    }
}

impl Told {
    /// Writes numbers, and records those that the replica has acknowledged.
    fn write(&self, first: u64) {
        let mut caller = Caller::default();
        for number in (first..).step_by(WRITERS).take_while(|_| !self.is_over.load(SeqCst)) {
            let primary = self.primary.load(SeqCst);
            let set = encode(&["SET", &format!("number:{number}"), &number.to_string()]);
            let wait = encode(&["WAIT", "1", "200"]);
            let replies = caller.ask(self.addrs[primary], &[set, wait]);
            let Some([set, wait]) = replies.as_deref() else { continue };
            // A reply after the end of the reign does not concern the next one.
            let mut acknowledged = self.acknowledged.lock();
            if set == "+OK" && wait == ":1" && self.primary.load(SeqCst) == primary {
                acknowledged.push(number);
            }
        }
    }
}

fn run(seed: u64, is_logged: bool) {
    let mut pair = Pair::start(seed, is_logged);
    pair.wait_for(1);
    let told = Told {
        addrs: [pair.ports[0].addr(), pair.ports[1].addr()],
        primary: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        acknowledged: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let _ending = Ending(&told);
        let told = &told;
        for first in 0..WRITERS as u64 {
            scope.spawn(move || told.write(first));
        }
        for reign in 0..REIGNS {
            let primary = reign % 2;
            pair.disturb(primary);
            let before = told.acknowledged.lock().len();
            wait_until(|| told.acknowledged.lock().len() > before + 20);
            pair.replace(primary, told);
        }
    });
    let primary = told.primary.load(SeqCst);
    pair.client(primary).expect(&[("SET last write", "+OK")]);
    wait_until(|| pair.client(1 - primary).call("GET last") == "$5 write");
    let digests = [0, 1].map(|number| pair.client(number).call("DEBUG DIGEST"));
    assert_eq!(digests[0], digests[1], "seed {seed}");
}

#[test]
fn what_a_replica_has_acknowledged_is_there_when_it_takes_the_place_of_a_killed_or_stopped_primary() {
    let count = std::env::var("KEYLATCH_HISTORIES").map_or(HISTORIES, |text| text.parse().expect("a number"));
    for seed in first_seed()..first_seed() + count {
        [false, true].into_iter().for_each(|is_logged| run(seed, is_logged));
    }
}
