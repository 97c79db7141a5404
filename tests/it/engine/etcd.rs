//! Real etcd: a node shared by the tests of this process, with a prefix for each test, and clusters of one test.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use crate::harness::{PATIENCE, ReservedPort, wait_until};
use crate::signals::send_to;
use crate::skipped;

const ETCD: &str = "etcd";

/// Script that reports the id of the program's process, and ends it when its own input is closed by the end of the
/// tests' process.
const SUPERVISE: &str =
    "\"$@\" <&- >/dev/null 2>&1 & child=$!; echo $child; read -r _; kill -9 $child; wait $child 2>/dev/null";

/// Maximum time for the answer of a node while others are down.
const SHORT_PATIENCE: Duration = Duration::from_secs(3);

/// Member of a cluster, with its data in a directory of its own.
pub(crate) struct Node {
    process: Option<Supervised>,
    is_stopped: bool,
    command: Vec<String>,
    client_port: ReservedPort,
    _peer_port: ReservedPort,
    _dir: TempDir,
}

/// Cluster of etcd.
pub(crate) struct Etcd {
    nodes: Mutex<Vec<Node>>,
    addrs: Vec<SocketAddr>,
}

/// Node that tests share.
static SHARED: Mutex<Weak<Etcd>> = Mutex::new(Weak::new());
/// Number of assigned prefixes.
static PREFIXES: AtomicU64 = AtomicU64::new(0);

impl Etcd {
    /// Returns the node that tests share; `None` if etcd is not installed.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().expect("it was unlocked");
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Self::start(1)?);
        *shared = Arc::downgrade(&started);
        Some(started)
    }

    /// Starts a node of an unsupported version; `None` if no such version is installed.
    pub(crate) fn start_old() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&path).map(|folder| folder.join("old").join(ETCD)).find(|path| path.is_file());
        let Some(program) = found else {
            skipped::without("etcd 3.4");
            return None;
        };
        Self::start_program(program.to_str().expect("a plain path"), 1)
    }

    /// Starts a cluster with a number of nodes; `None` if etcd is not installed.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_program(ETCD, count)
    }

    fn start_program(program: &str, count: usize) -> Option<Self> {
        let etcd = Self::prepare(program, count)?;
        (0..count).for_each(|number| etcd.resume(number));
        etcd.wait_until_healthy();
        Some(etcd)
    }

    fn prepare(program: &str, count: usize) -> Option<Self> {
        let ports: Vec<_> = (0..count).map(|_| (ReservedPort::new(), ReservedPort::new())).collect();
        let peer = |number: usize, port: &ReservedPort| format!("n{number}=http://127.0.0.1:{}", port.port());
        let members = ports.iter().enumerate().map(|(number, (_, port))| peer(number, port));
        let members = members.collect::<Vec<_>>().join(",");
        let nodes = ports.into_iter().enumerate();
        let nodes: Vec<Node> = nodes.map(|(number, ports)| Node::new(program, number, ports, &members)).collect();
        if !is_installed(program) {
            skipped::without(ETCD);
            return None;
        }
        let addrs = nodes.iter().map(|node| node.client_port.addr()).collect();
        Some(Etcd { nodes: Mutex::new(nodes), addrs })
    }

    /// Starts a node with a limit on the size of its database, in bytes.
    pub(crate) fn start_small(bytes: usize) -> Option<Self> {
        let etcd = Self::prepare(ETCD, 1)?;
        let limit = ["--quota-backend-bytes".to_owned(), bytes.to_string()];
        etcd.nodes.lock().expect("it was unlocked")[0].command.extend(limit);
        etcd.resume(0);
        etcd.wait_until_healthy();
        Some(etcd)
    }

    /// Waits until every node has a leader.
    pub(crate) fn wait_until_healthy(&self) {
        wait_until(|| self.addrs.iter().all(|addr| is_healthy(*addr)));
    }

    /// Returns the addresses of the nodes in the form of the setting.
    pub(crate) fn endpoints(&self) -> String {
        self.addrs.iter().map(|addr| format!("http://{addr}")).collect::<Vec<_>>().join(",")
    }

    /// Returns a unique prefix.
    pub(crate) fn prefix() -> String {
        format!("test{}/", PREFIXES.fetch_add(1, Relaxed))
    }

    /// Kills a node.
    pub(crate) fn kill(&self, number: usize) {
        self.nodes.lock().expect("it was unlocked")[number].kill();
    }

    /// Restarts a node with its data.
    pub(crate) fn resume(&self, number: usize) {
        self.nodes.lock().expect("it was unlocked")[number].run();
    }

    /// Stops the process of a node until it is continued.
    pub(crate) fn stop(&self, number: usize) {
        self.nodes.lock().expect("it was unlocked")[number].signal("STOP");
    }

    /// Continues a stopped node.
    pub(crate) fn go_on(&self, number: usize) {
        self.nodes.lock().expect("it was unlocked")[number].signal("CONT");
    }

    /// Returns the number of the leading node, among those that are neither killed nor stopped.
    pub(crate) fn leader(&self) -> Option<usize> {
        (0..self.addrs.len()).find(|number| {
            self.ask_node(*number, "/v3/maintenance/status", "{}").is_some_and(|answer| {
                let (own, leader) = (field(&answer, "member_id"), field(&answer, "leader"));
                own.is_some() && own == leader
            })
        })
    }

    /// Makes another node the leader.
    pub(crate) fn make_leader(&self, number: usize) {
        let answer = self.ask_node(number, "/v3/maintenance/status", "{}").expect("it is running");
        let target = format!("{{\"targetID\":\"{}\"}}", field(&answer, "member_id").expect("a field"));
        let leader = self.leader().expect("it is known");
        self.ask_node(leader, "/v3/maintenance/transfer-leadership", &target).expect("it is running");
        wait_until(|| self.leader() == Some(number));
    }

    pub(crate) fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// Sends a request to the JSON gateway of a node; returns the answer, if there is one soon.
    pub(crate) fn ask_node(&self, number: usize, path: &str, body: &str) -> Option<String> {
        let is_running = self.nodes.lock().expect("it was unlocked")[number].is_running();
        is_running.then(|| http(self.addrs[number], &format!("POST {path}"), body, SHORT_PATIENCE).ok()).flatten()
    }

    /// Sends a request to the JSON gateway of the first node; returns the answer.
    pub(crate) fn ask(&self, path: &str, body: &str) -> String {
        http(self.addrs[0], &format!("POST {path}"), body, PATIENCE).expect("an answer")
    }

    /// Sets a key of etcd to a value.
    pub(crate) fn put(&self, name: &str, value: &str) {
        let [name, value] = [name, value].map(|text| BASE64_STANDARD.encode(text));
        self.ask("/v3/kv/put", &format!("{{\"key\":\"{name}\",\"value\":\"{value}\"}}"));
    }
}

impl Node {
    fn new(
        program: &str,
        number: usize,
        (client_port, peer_port): (ReservedPort, ReservedPort),
        members: &str,
    ) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let url = |port: &ReservedPort| format!("http://127.0.0.1:{}", port.port());
        let (name, path) = (format!("n{number}"), dir.path().to_str().expect("a plain path").to_owned());
        let (client, peer) = (url(&client_port), url(&peer_port));
        let options = [
            ("--name", &name[..]),
            ("--data-dir", &path),
            ("--listen-client-urls", &client),
            ("--advertise-client-urls", &client),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", members),
            ("--heartbeat-interval", "50"),
            ("--election-timeout", "500"),
            ("--log-level", "error"),
        ];
        let options = options.into_iter().flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
        // The tests lose no power, and the old version has no such option.
        let no_sync = (program == ETCD).then(|| "--unsafe-no-fsync".to_owned());
        let command = std::iter::once(program.to_owned()).chain(options).chain(no_sync).collect();
        Node { process: None, is_stopped: false, command, client_port, _peer_port: peer_port, _dir: dir }
    }

    fn run(&mut self) {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        (self.process, self.is_stopped) = (Some(Supervised::start(&command)), false);
    }

    fn is_running(&self) -> bool {
        self.process.is_some() && !self.is_stopped
    }

    /// Sends a signal to the process, if it exists.
    fn signal(&mut self, name: &str) {
        if let Some(process) = &self.process {
            send_to(name, process.number.trim().parse().expect("the number of a process"));
            self.is_stopped = name == "STOP";
        }
    }

    fn kill(&mut self) {
        self.process = None;
    }
}

/// Process that is killed when this is dropped, or when the tests' process ends.
pub(crate) struct Supervised {
    shell: Child,
    /// Id of the process.
    number: String,
}

impl Supervised {
    /// Starts a program with its arguments and environment, without output.
    pub(crate) fn start(command: &Command) -> Self {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", SUPERVISE, "sh"]).arg(command.get_program()).args(command.get_args());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut shell =
            shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a shell");
        let mut number = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut number).expect("a number");
        Supervised { shell, number }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait(); // it ends
    }
}

/// Returns whether a node knows a leader.
pub(crate) fn is_healthy(addr: SocketAddr) -> bool {
    http(addr, "GET /health", "", PATIENCE).is_ok_and(|answer| answer.contains("\"true\""))
}

fn is_installed(program: &str) -> bool {
    match Command::new(program).arg("--version").stdout(Stdio::null()).status() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{program} does not start: {error}"),
    }
}

/// Returns a numeric field of an answer.
pub(crate) fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.split(&format!("\"{name}\":\"")).nth(1)?.split('"').next()
}

/// Sends a request in HTTP 1.0, and returns the body of the answer.
fn http(addr: SocketAddr, request: &str, body: &str, patience: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(stream, "{request} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
