//! Servers under test: finds, starts and stops them.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;
use tempfile::TempDir;

use crate::Result;
use crate::measure::cpu_us;
use crate::wire::Wire;

/// Maximum time until a server answers for the first time.
const START_MAX: Duration = Duration::from_secs(20);
/// Interval of the attempts to reach a server that starts.
const START_POLL: Duration = Duration::from_micros(100);

/// Protocol that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Resp,
    Memcached,
}

/// Every server with a column, in the order of the tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Keylatch,
    /// Another build of keylatch, compared with this one.
    Earlier,
    Redis,
    Null,
    Valkey,
    Pogocache,
    Memcached,
}

/// Variable with the path of the binary for [`Kind::Earlier`].
const EARLIER: &str = "KEYLATCH_EARLIER";

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Keylatch, Kind::Earlier, Kind::Redis, Kind::Null, Kind::Valkey, Kind::Pogocache, Kind::Memcached];

    /// Returns the name in tables, plots and figures.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Keylatch => "keylatch",
            Kind::Earlier => "earlier",
            Kind::Redis => "redis",
            Kind::Null => "null",
            Kind::Valkey => "valkey",
            Kind::Pogocache => "pogocache",
            Kind::Memcached => "memcached",
        }
    }

    pub fn protocol(self) -> Protocol {
        if self == Kind::Memcached { Protocol::Memcached } else { Protocol::Resp }
    }

    /// Returns whether the server keeps all data. memcached does not: it evicts keys beyond 64 MB.
    pub fn is_store(self) -> bool {
        !matches!(self, Kind::Null | Kind::Memcached)
    }

    /// Returns whether the server supports every command and any number of clients; others leave cells empty.
    pub fn is_complete(self) -> bool {
        !matches!(self, Kind::Pogocache | Kind::Memcached)
    }

    /// Returns the maximum number of clients of a server: some accept 1024 by default, and count disconnected clients
    /// for a while.
    pub fn clients_max(self) -> usize {
        if self.is_complete() { usize::MAX } else { 500 }
    }

    /// Returns the name of the program to be found on the PATH, for servers that this project does not build.
    fn program(self) -> Option<&'static str> {
        match self {
            Kind::Keylatch | Kind::Earlier | Kind::Null => None,
            Kind::Redis => Some("redis-server"),
            Kind::Valkey => Some("valkey-server"),
            Kind::Pogocache => Some("pogocache"),
            Kind::Memcached => Some("memcached"),
        }
    }

    /// Returns the options: the server's defaults, except this address, to which anybody may connect, and no snapshots.
    fn options(self, addr: SocketAddr) -> Vec<String> {
        let (host, port, addr) = (addr.ip().to_string(), addr.port().to_string(), addr.to_string());
        let options: &[&str] = match self {
            Kind::Keylatch | Kind::Earlier => &["--port", &port, "--bind", &host, "--protected-mode", "no"],
            Kind::Redis | Kind::Valkey => {
                &["--port", &port, "--bind", &host, "--protected-mode", "no", "--save", "", "--appendonly", "no"]
            }
            Kind::Null => &[&addr],
            Kind::Pogocache => &["-h", &host, "-p", &port],
            // It does not start as root without a user to switch to; for other users the option has no effect.
            Kind::Memcached => &["-l", &host, "-p", &port, "-u", "root"],
        };
        options.iter().map(|&option| option.to_owned()).collect()
    }
}

/// Server that can be started.
pub struct Peer {
    pub kind: Kind,
    pub program: PathBuf,
    /// Version that the program reports, on one line.
    pub version: String,
}

impl Peer {
    /// Finds the servers of this machine. keylatch and redis-server are required.
    ///
    /// # Errors
    /// An error when a required server is missing.
    pub fn find_all() -> Result<Vec<Peer>> {
        let mut peers = Vec::new();
        for kind in Kind::ALL {
            let program = match (kind, kind.program()) {
                (Kind::Null, _) => Some(build_null_server()?),
                (Kind::Earlier, _) => std::env::var_os(EARLIER).map(PathBuf::from),
                (_, None) => Some(PathBuf::from(env!("CARGO_BIN_EXE_keylatch"))),
                (_, Some(name)) => on_path(name),
            };
            match program {
                Some(program) => peers.push(Peer { kind, version: version(kind, &program), program }),
                None if kind == Kind::Redis => return Err("redis-server is not on the PATH: install it".into()),
                None => {}
            }
        }
        Ok(peers)
    }

    /// Returns the server's name with its version.
    pub fn shown(&self) -> String {
        format!("{} {}", self.kind.name(), self.version)
    }

    /// Starts the server in a directory of its own and waits for its first answer.
    ///
    /// # Errors
    /// An error when the server cannot be started or does not answer.
    pub fn start(&self) -> Result<Server> {
        self.start_with(&[])
    }

    /// Starts the server with options in addition to those of [`Peer::start`].
    ///
    /// # Errors
    /// The errors of [`Peer::start`].
    pub fn start_with(&self, options: &[&str]) -> Result<Server> {
        self.start_by(Command::new(&self.program), Ipv4Addr::LOCALHOST, options, Vec::new())
    }

    /// Starts the server at the other end of a wire.
    ///
    /// # Errors
    /// The errors of [`Peer::start`].
    pub fn start_across(&self, wire: &Wire) -> Result<Server> {
        self.start_by(wire.command(&self.program), Wire::SERVER, &[], wire.receivers.clone())
    }

    fn start_by(&self, mut command: Command, host: Ipv4Addr, options: &[&str], receivers: Vec<u32>) -> Result<Server> {
        let name = self.kind.name();
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let addr = SocketAddr::from((host, port));
        command.args(self.kind.options(addr)).args(options).current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let process = command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        let mut server =
            Server { kind: self.kind, addr, start: Duration::ZERO, receivers, process, _directory: directory };
        while !server.answers() {
            if let Some(status) = server.process.try_wait()? {
                return Err(format!("{name} ended while it started: {status}").into());
            }
            if started.elapsed() > START_MAX {
                return Err(format!("{name} did not answer within {START_MAX:?}").into());
            }
            thread::sleep(START_POLL);
        }
        server.start = started.elapsed();
        Ok(server)
    }
}

/// A running server; it is killed when this is dropped.
pub struct Server {
    pub kind: Kind,
    pub addr: SocketAddr,
    /// Time from the server's start to its first answer.
    pub start: Duration,
    /// Threads of the kernel that receive the server's packets, if the CPU time of these can be told.
    receivers: Vec<u32>,
    process: Child,
    /// Working directory, removed after the server.
    _directory: TempDir,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the CPU time used so far by the server, and by the kernel for the packets that it receives, in
    /// microseconds. On the loopback the latter is a part of the sender's.
    ///
    /// # Errors
    /// An error when the server has ended.
    pub fn cpu_us(&self) -> Result<f64> {
        self.receivers.iter().try_fold(cpu_us(self.pid())?, |sum, &thread| Ok(sum + cpu_us(thread)?))
    }

    /// Opens a connection with Nagle's algorithm disabled.
    ///
    /// # Errors
    /// An error when the server does not accept the connection.
    pub fn connect(&self) -> Result<TcpStream> {
        let refused = |error| format!("connecting to {}: {error}", self.kind.name());
        let stream = TcpStream::connect(self.addr).map_err(refused)?;
        stream.set_nodelay(true)?;
        // A reset on drop: tens of thousands of closed connections would otherwise linger for a minute.
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        Ok(stream)
    }

    fn answers(&self) -> bool {
        let ask = || -> Result<bool> {
            let mut stream = self.connect()?;
            say_hello(&mut stream, self.kind.protocol())?;
            Ok(true)
        };
        ask().unwrap_or(false)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends the smallest request and waits for its answer.
///
/// # Errors
/// An error when no answer arrives, or not the expected one.
pub fn say_hello(stream: &mut TcpStream, protocol: Protocol) -> Result<()> {
    let (hello, answers): (&[u8], &[&[u8]]) = match protocol {
        Protocol::Resp => (b"PING\r\n", &[b"+PONG\r\n", b"+OK\r\n"]),
        Protocol::Memcached => (b"version\r\n", &[b"VERSION"]),
    };
    let mut reply = [0; 64];
    stream.write_all(hello)?;
    let len = stream.read(&mut reply)?;
    let is_expected = answers.iter().any(|answer| reply[..len].starts_with(answer));
    if is_expected { Ok(()) } else { Err(format!("{:?}", String::from_utf8_lossy(&reply[..len])).into()) }
}

/// Returns cargo's target directory.
pub fn target_dir() -> &'static Path {
    // target/release/keylatch
    Path::new(env!("CARGO_BIN_EXE_keylatch")).ancestors().nth(2).unwrap_or(Path::new("target"))
}

/// Builds the null server with cargo, as a benchmark cannot depend on an example; returns its path.
fn build_null_server() -> Result<PathBuf> {
    let built = target_dir().join("release/examples/null_server");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--release", "--example", "null_server", "--target-dir"]).arg(target_dir());
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    // The variables that cargo sets for this benchmark would make it rebuild other packages, now and the next time.
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")).for_each(|name| {
        command.env_remove(name);
    });
    match command.status() {
        Ok(status) if status.success() => Ok(built),
        outcome => Err(format!("cargo build --release --example null_server: {outcome:?}").into()),
    }
}

/// Finds a program in the directories of the PATH.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(|candidate| candidate.is_file())
}

/// Returns the version of a program: the first word of its answer that begins with a digit. keylatch first names the
/// Redis version that it emulates.
fn version(kind: Kind, program: &Path) -> String {
    let options: &[&OsStr] = if kind == Kind::Null { return String::new() } else { &[OsStr::new("--version")] };
    let Ok(output) = Command::new(program).args(options).output() else { return String::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    let own = text.split_once("keylatch=").map_or(&*text, |(_, own)| own);
    let mut words = own.split([' ', '=', '\n']).map(|word| word.trim_start_matches('v'));
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or_default().to_owned()
}
