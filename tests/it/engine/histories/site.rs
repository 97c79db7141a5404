//! Nodes, a link from each server to each node, and servers: in this process, or as processes of the binary.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
#[cfg(feature = "binary")]
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use keylatch::Clock;

use super::{NODES, SERVERS};
use crate::engine::etcd::Etcd;
use crate::engine::proxy::Proxy;
#[cfg(feature = "binary")]
use crate::harness::ReservedPort;
use crate::harness::{Client, Dice, TestServer, encode, show, wait_until};
#[cfg(feature = "binary")]
use crate::process::{Process, binary};

/// Time after which a client gives up the reply and its connection.
const REPLY_TIMEOUT: Duration = Duration::from_secs(4);

/// Library that makes a program see another date than the machine's.
#[cfg(feature = "binary")]
const FAKE_TIME: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// Place of the servers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the test's process.
    Inside,
    /// Each in a process of its own.
    #[cfg(feature = "binary")]
    Processes,
}

/// Servers, links and nodes.
pub(super) struct Site {
    pub(super) etcd: Arc<Etcd>,
    /// Links of each server to each node.
    links: Vec<Vec<Proxy>>,
    addrs: Vec<SocketAddr>,
    /// Servers in this process, dropped with the site.
    _inside: Vec<TestServer>,
    #[cfg(feature = "binary")]
    processes: Vec<Mutex<Supervised>>,
}

impl Site {
    /// Starts servers on a cluster.
    pub(super) fn start(etcd: Arc<Etcd>, kind: Kind, dice: &mut Dice) -> Self {
        etcd.wait_until_healthy(); // after the faults of the previous history
        let links = (0..SERVERS).map(|_| etcd.addrs().iter().map(|addr| Proxy::start(*addr)).collect());
        let links: Vec<Vec<Proxy>> = links.collect();
        let prefix = Etcd::prefix();
        let timeout_ms = [600, 1000, 2500][dice.roll(3) as usize].to_string();
        let settings = links.iter().enumerate().map(|(server, links)| {
            // Each server asks another node first.
            let nodes = (0..NODES).map(|number| (server + number) % NODES);
            let endpoints: Vec<String> = nodes.map(|node| format!("http://{}", links[node].addr())).collect();
            [
                ("engine", "etcd".to_owned()),
                ("etcd-endpoints", endpoints.join(",")),
                ("etcd-prefix", prefix.clone()),
                ("busy-reply-threshold", "0".to_owned()), // all calls wait for a script
            ]
        });
        let settings: Vec<_> = settings.collect();
        let mut site = Site {
            etcd,
            links,
            addrs: Vec::new(),
            _inside: Vec::new(),
            #[cfg(feature = "binary")]
            processes: Vec::new(),
        };
        match kind {
            Kind::Inside => {
                for settings in settings {
                    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, &value[..])).collect();
                    let server = TestServer::start_on(Clock::system(), &settings);
                    site.addrs.push(server.addr());
                    site._inside.push(server);
                }
            }
            #[cfg(feature = "binary")]
            Kind::Processes => {
                site.processes = settings.iter().map(|settings| Mutex::new(Supervised::start(settings))).collect();
                site.addrs = (0..SERVERS).map(|server| site.process(server).port.addr()).collect();
            }
        }
        // Not before they have started: that may take longer on a busy machine.
        for server in 0..SERVERS {
            wait_until(|| {
                let mut session = site.session(server);
                let reply =
                    session.as_mut().and_then(|session| session.call(&["CONFIG", "SET", "etcd-timeout", &timeout_ms]));
                reply.as_deref() == Some("+OK")
            });
        }
        site
    }

    /// Returns the link of a server to a node.
    pub(super) fn link(&self, server: usize, node: usize) -> &Proxy {
        &self.links[server][node]
    }

    /// Heals all links of a server.
    pub(super) fn heal(&self, server: usize) {
        (0..NODES).for_each(|node| self.link(server, node).heal());
    }

    /// Connects to a server.
    pub(super) fn session(&self, server: usize) -> Option<Session> {
        Session::connect(self.addrs[server])
    }

    #[cfg(feature = "binary")]
    fn process(&self, server: usize) -> MutexGuard<'_, Supervised> {
        self.processes[server].lock().expect("it was unlocked")
    }

    /// Returns whether the servers are processes, which can be killed and stopped.
    pub(super) fn has_processes(&self) -> bool {
        #[cfg(feature = "binary")]
        return !self.processes.is_empty();
        #[cfg(not(feature = "binary"))]
        false
    }

    /// Restarts processes that have ended by themselves because no majority of the nodes has answered at their start.
    pub(super) fn tend(&self) {
        #[cfg(feature = "binary")]
        self.processes.iter().for_each(|process| process.lock().expect("it was unlocked").tend());
    }

    /// Applies a treatment to the process of a server, if it has one.
    #[cfg_attr(not(feature = "binary"), expect(unused_variables, reason = "there are no processes"))]
    pub(super) fn treat(&self, server: usize, treatment: Treatment) {
        #[cfg(feature = "binary")]
        self.process(server).treat(treatment);
    }
}

/// Treatment of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Kills the process for good.
    Kill,
    /// Starts a new process in its place.
    Start,
    /// Stops the process.
    Stop,
    /// Continues the process.
    Continue,
    /// Moves the date that the process sees by a number of seconds.
    MoveDate(i64),
}

/// Process of the binary that is restarted when it has ended.
#[cfg(feature = "binary")]
struct Supervised {
    port: ReservedPort,
    args: Vec<String>,
    process: Option<Process>,
    /// Library and file that determine the date that it sees.
    date: Option<(&'static str, tempfile::NamedTempFile)>,
}

#[cfg(feature = "binary")]
impl Supervised {
    /// Starts a process on a port that stays the same.
    fn start(settings: &[(&str, String)]) -> Self {
        let port = ReservedPort::new();
        let own = [("port", port.port().to_string()), ("bind", "127.0.0.1".to_owned())];
        let args = own.iter().chain(settings).flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
        let library = FAKE_TIME.into_iter().find(|path| std::path::Path::new(path).exists());
        let date = library.map(|library| (library, tempfile::NamedTempFile::new().expect("a file")));
        let args = args.collect();
        let mut supervised = Supervised { port, args, process: None, date };
        supervised.treat(Treatment::MoveDate(0));
        supervised.treat(Treatment::Start);
        supervised
    }

    /// Starts the program.
    fn run(&self) -> Process {
        let mut command = std::process::Command::new(binary());
        command.args(&self.args).env_remove("KEYLATCH_SEED").env_remove("KEYLATCH_HISTORIES");
        if let Some((library, file)) = &self.date {
            command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file.path());
            command.env("FAKETIME_NO_CACHE", "1").env("DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        Process::run(&mut command)
    }

    /// Restarts the process if it has ended by itself.
    fn tend(&mut self) {
        let has_ended = |process: &mut Process| process.child.try_wait().expect("a child of ours").is_some();
        if self.process.as_mut().is_some_and(has_ended) {
            self.process = Some(self.run());
        }
    }

    /// Applies a treatment to the process.
    fn treat(&mut self, treatment: Treatment) {
        match treatment {
            Treatment::Kill => self.process = None,
            Treatment::Start => self.process = Some(self.run()),
            Treatment::Stop | Treatment::Continue => {
                let name = if treatment == Treatment::Stop { "STOP" } else { "CONT" };
                self.process.iter_mut().filter_map(running).for_each(|process| process.signal(name));
            }
            Treatment::MoveDate(seconds) => {
                let text = format!("{seconds:+}s\n");
                self.date.iter().for_each(|(_, file)| std::fs::write(file.path(), &text).expect("ours"));
            }
        }
    }
}

/// Returns the process, which must be running.
#[cfg(feature = "binary")]
fn running(process: &mut Process) -> Option<&mut Process> {
    process.child.try_wait().expect("a child of ours").is_none().then_some(process)
}

/// Returns whether a reply means that a request was not executed, and never will be.
pub(super) fn is_refusal(reply: &str) -> bool {
    let reply = reply.strip_prefix("-EXECABORT Transaction discarded because of: ").unwrap_or(reply);
    let is_full = reply.starts_with("-ERR etcd: ") && reply.ends_with("database space exceeded");
    is_full || ["NOQUORUM ", "LOADING "].iter().any(|code| reply.trim_start_matches('-').starts_with(code))
}

/// Stream on which an error counts as its end.
struct Frail(TcpStream);

impl Read for Frail {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        Ok(self.0.read(bytes).unwrap_or(0))
    }
}

impl Write for Frail {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Connection to a server that may end at any time.
pub(super) struct Session(Client<Frail>);

impl Session {
    /// Connects to a server; `None` if that fails.
    fn connect(addr: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&addr, REPLY_TIMEOUT).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT)).ok()?;
        Some(Session(Client::over(Frail(stream))))
    }

    /// Sends a command, and does not wait for its reply.
    pub(super) fn send(&mut self, words: &[&str]) {
        self.0.send(&encode(words));
    }

    /// Sends a command and returns its reply; `None` if the connection is lost.
    pub(super) fn call(&mut self, words: &[&str]) -> Option<String> {
        self.request(&encode(words), &[])
    }

    /// Sends commands and returns the last reply, or an earlier one that is unexpected; `None` if the connection is
    /// lost.
    pub(super) fn request(&mut self, bytes: &[u8], before: &[&str]) -> Option<String> {
        self.0.send(bytes);
        let mut strange = None;
        for expected in before {
            let reply = show(&self.0.read_raw()?);
            strange = strange.or((reply != *expected).then_some(reply));
        }
        let last = show(&self.0.read_raw()?);
        Some(strange.unwrap_or(last))
    }
}
