//! Redis Sentinels watch servers that are processes, and make a replica the primary.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use keylatch::internals::resp::Frame;
use tempfile::TempDir;

use crate::harness::{Client, ReservedPort, encode, wait_for};
use crate::process::{Process, binary};
use crate::skipped;

const SERVERS: usize = 3;
const SENTINELS: usize = 3;
/// Several times the pause of a sentinel after its timer was late, as on a busy machine: 30 seconds.
const PATIENCE: Duration = Duration::from_secs(150);

/// Sentinel that is killed when the test ends.
pub(crate) struct Sentinel(Child);

impl Sentinel {
    /// Starts a sentinel that watches a primary; `None` if there is no `redis-server`.
    pub(crate) fn start(dir: &TempDir, port: u16, primary: SocketAddr) -> Option<Self> {
        let path = dir.path().join(format!("sentinel-{port}.conf"));
        let settings = [
            format!("port {port}"),
            "bind 127.0.0.1".to_owned(),
            format!("sentinel monitor it 127.0.0.1 {} 2", primary.port()),
            "sentinel down-after-milliseconds it 2000".to_owned(),
            "sentinel failover-timeout it 10000".to_owned(),
        ];
        fs::write(&path, settings.join("\n")).expect("a file of settings");
        let mut command = Command::new("redis-server");
        command.arg(&path).arg("--sentinel").stdin(Stdio::null()).stdout(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Sentinel(child)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                skipped::without("redis-server");
                None
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        }
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Servers, of which the first is the primary in the beginning, and the sentinels that watch them.
struct Watched {
    servers: BTreeMap<u16, Process>,
    sentinels: Vec<ReservedPort>,
    watching: Vec<Sentinel>,
    ports: Vec<ReservedPort>,
    dir: TempDir,
}

impl Watched {
    /// Starts all of them, and waits until every sentinel knows the others and the replicas; `None` if there is no
    /// `redis-server`.
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let reserve = |count| (0..count).map(|_| ReservedPort::new()).collect::<Vec<_>>();
        let (ports, sentinels) = (reserve(SERVERS), reserve(SENTINELS));
        let primary = ports[0].addr();
        let mut watched = Watched { servers: BTreeMap::new(), sentinels, watching: Vec::new(), ports, dir };
        let numbers: Vec<u16> = watched.ports.iter().map(ReservedPort::port).collect();
        for port in numbers {
            let replicaof = (port != primary.port()).then_some(primary);
            watched.run(port, replicaof);
        }
        for port in &watched.sentinels {
            watched.watching.push(Sentinel::start(&watched.dir, port.port(), primary)?);
        }
        wait_for(PATIENCE, || {
            let states = watched.sentinels.iter().map(|port| state(port.addr()));
            let others = (SENTINELS - 1).to_string();
            states.into_iter().all(|state| {
                let shows = |field: &str, value: &str| state.get(field).is_some_and(|found| found == value);
                shows("num-other-sentinels", &others) && shows("num-slaves", "2") && shows("flags", "master")
            })
        });
        Some(watched)
    }

    /// Starts a server on a port, with its own settings file, which sentinels make it rewrite.
    fn run(&mut self, port: u16, replicaof: Option<SocketAddr>) {
        let dir = self.dir.path().join(port.to_string());
        if replicaof.is_some() || !dir.exists() {
            fs::create_dir_all(&dir).expect("a directory");
            let mut settings = format!("port {port}\nbind 127.0.0.1\nrepl-diskless-sync-delay 0\n");
            if let Some(primary) = replicaof {
                settings.push_str(&format!("replicaof 127.0.0.1 {}\n", primary.port()));
            }
            fs::write(dir.join("keylatch.conf"), settings).expect("a file of settings");
        }
        let mut process = Process::run(Command::new(binary()).current_dir(&dir).arg("keylatch.conf"));
        process.read_until("Ready to accept connections");
        self.servers.insert(port, process);
    }

    /// Ends a server by kill -9.
    fn kill(&mut self, port: u16) {
        let mut process = self.servers.remove(&port).expect("it runs");
        process.signal("KILL");
        process.wait();
    }

    /// Returns the port of the new primary once all sentinels agree on it, and all other running servers replicate it.
    fn primary_after(&self, former: u16) -> u16 {
        let mut present = former;
        wait_for(PATIENCE, || {
            let seen: Vec<u16> = self.sentinels.iter().map(|port| primary(port.addr())).collect();
            present = seen[0];
            seen.iter().all(|port| *port == present) && present != former
        });
        wait_for(PATIENCE, || self.servers.keys().all(|port| *port == present || self.replicates(*port, present)));
        present
    }

    /// Returns whether a server is a replica of a primary, with a link that is up.
    fn replicates(&self, port: u16, primary: u16) -> bool {
        let shown = replication(port).unwrap_or_default();
        shown.contains(&format!("master_port:{primary}\r\n")) && shown.contains("master_link_status:up")
    }

    fn client(&self, port: u16) -> Client {
        Client::connect(SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

/// Returns a server's INFO replication. A sentinel that changes the role closes the connections of clients.
fn replication(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(&encode(&["INFO", "replication"]))?;
    stream.shutdown(Shutdown::Write)?;
    let mut shown = String::new();
    stream.read_to_string(&mut shown)?;
    Ok(shown)
}

/// Returns a sentinel's description of the primary; empty if it does not answer yet.
pub(crate) fn state(sentinel: SocketAddr) -> BTreeMap<String, String> {
    if TcpStream::connect(sentinel).is_err() {
        return BTreeMap::new();
    }
    let reply = Client::connect(sentinel).frame(&["SENTINEL", "MASTER", "it"]);
    let Frame::Array(fields) = reply else { return BTreeMap::new() };
    let text = |frame: &Frame| match frame {
        Frame::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("a text: {other:?}"),
    };
    fields.chunks(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

/// Returns the port of the primary that a sentinel knows.
pub(crate) fn primary(sentinel: SocketAddr) -> u16 {
    state(sentinel)["port"].parse().expect("a port")
}

#[test]
fn sentinels_replace_a_killed_primary_and_nothing_is_lost_that_a_replica_has_acknowledged() {
    let Some(mut watched) = Watched::start() else { return };
    let first = watched.ports[0].port();
    let mut client = watched.client(first);
    for n in 0..100 {
        client.expect(&[(&format!("SET key:{n} {n}"), "+OK")]);
    }
    assert!(client.int("WAIT 1 10000") >= 1);
    watched.kill(first);
    let second = watched.primary_after(first);
    let mut client = watched.client(second);
    for n in 0..100 {
        assert_eq!(client.call(&format!("GET key:{n}")), format!("${} {n}", n.to_string().len()));
    }
    client.expect(&[("SET later 1", "+OK"), ("WAIT 1 10000", ":1")]);
    // The former primary comes back as one, and the sentinels make it a replica: of the third server, if they have
    // found the second one too slow meanwhile.
    watched.run(first, None);
    wait_for(PATIENCE, || watched.replicates(first, primary(watched.sentinels[0].addr())));
    wait_for(PATIENCE, || watched.client(first).call("GET later") == "$1 1");
    assert!(watched.client(first).call("SET key 1").starts_with("-READONLY"));
}

#[test]
fn sentinel_failover_makes_the_primary_a_replica_with_the_same_data() {
    let Some(watched) = Watched::start() else { return };
    let first = watched.ports[0].port();
    watched.client(first).expect(&[("SET key value", "+OK"), ("WAIT 2 10000", ":2")]);
    // It is refused until the sentinel knows the replicas that may become the primary.
    wait_for(PATIENCE, || Client::connect(watched.sentinels[0].addr()).call("SENTINEL FAILOVER it") == "+OK");
    let second = watched.primary_after(first);
    watched.client(second).expect(&[("GET key", "$5 value"), ("SET key other", "+OK"), ("WAIT 2 10000", ":2")]);
    assert_eq!(watched.client(first).call("GET key"), "$5 other");
}

#[test]
fn a_primary_that_stood_still_is_replaced_and_has_the_data_of_the_new_one_when_it_goes_on() {
    let Some(mut watched) = Watched::start() else { return };
    let first = watched.ports[0].port();
    let mut client = watched.client(first);
    client.expect(&[("SET key 1", "+OK"), ("WAIT 2 10000", ":2")]);
    let stopped = watched.servers.remove(&first).expect("it runs");
    stopped.signal("STOP");
    // It is executed when the server continues, which does not know yet that it is not the primary any more.
    client.send(b"SET key 2\r\n");
    let second = watched.primary_after(first);
    watched.client(second).expect(&[("GET key", "$1 1"), ("SET later 1", "+OK")]);
    stopped.signal("CONT");
    watched.servers.insert(first, stopped);
    wait_for(PATIENCE, || watched.replicates(first, second));
    wait_for(PATIENCE, || watched.client(first).call("MGET key later") == "*2 $1 1 $1 1");
}
