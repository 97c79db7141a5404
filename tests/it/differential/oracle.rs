//! A real `redis-server` for each test, and connections to it and to keylatch in parallel.
//!
//! Tests with a record of its replies also run where there is no `redis-server`.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{PATIENCE, TestServer, give_up};
use crate::skipped;
use keylatch::Clock;

/// Program whose behaviour is the reference.
const REDIS: &str = "redis-server";

/// Arguments of a server without files.
const NO_LOG: &[&str] = &["--appendonly", "no"];

/// Both servers of one test.
pub(crate) struct Arena {
    keylatch: TestServer,
    /// `None` only in tests with a record.
    redis: Option<Oracle>,
    /// True if keylatch's data is in a cluster.
    pub(crate) is_on_engine: bool,
    _dir: TempDir,
}

impl Arena {
    /// Starts both servers. Returns `None`, and reports it, if there is no `redis-server`.
    pub(crate) fn open() -> Option<Self> {
        Self::open_with(&[])
    }

    /// Starts both servers like [`Arena::open`], with more settings for keylatch.
    pub(crate) fn open_with(settings: &[(&str, &str)]) -> Option<Self> {
        Some(Self::around(Some(Oracle::start()?), settings))
    }

    /// Starts both servers, or, where there is no `redis-server`, keylatch alone for a test with a record, which is
    /// reported.
    pub(super) fn open_for_record() -> Self {
        let redis = Oracle::start_with(REDIS, None, NO_LOG);
        if redis.is_none() {
            skipped::with_record_only(REDIS);
        }
        Self::around(redis, &[])
    }

    fn around(redis: Option<Oracle>, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let is_on_engine = settings.iter().any(|(name, _)| *name == "engine");
        let own = [("enable-debug-command", "yes"), ("dir", dir.path().to_str().expect("text"))];
        let keylatch = TestServer::start_on(Clock::system(), &[&own, settings].concat());
        // Expired keys are found on access only, so that no reply depends on a background task.
        redis.iter().for_each(|redis| redis.connect().expect_ok(&[b"DEBUG", b"SET-ACTIVE-EXPIRE", b"0"]));
        Arena { keylatch, redis, is_on_engine, _dir: dir }
    }

    /// Connects to both servers.
    pub(crate) fn pair(&self) -> Pair {
        let link = self.link();
        Pair { keylatch: link.keylatch, redis: link.redis.expect("only tests with a record run without it") }
    }

    /// Connects to the available servers.
    pub(super) fn link(&self) -> Link {
        Link { keylatch: Peer::to(self.keylatch.addr()), redis: self.redis.as_ref().map(Oracle::connect) }
    }

    /// Returns whether Redis is available.
    pub(super) fn has_redis(&self) -> bool {
        self.redis.is_some()
    }

    /// Returns keylatch's port.
    pub(crate) fn keylatch_port(&self) -> u16 {
        self.keylatch.addr().port()
    }

    /// Empties both servers.
    pub(crate) fn flush(&self) {
        let mut link = self.link();
        link.keylatch.expect_ok(&[b"FLUSHALL"]);
        link.redis.iter_mut().for_each(|redis| redis.expect_ok(&[b"FLUSHALL"]));
    }
}

/// Process of a real server, which ends with the test.
pub(crate) struct Oracle {
    process: Child,
    socket: PathBuf,
    _dir: TempDir,
}

impl Oracle {
    fn start() -> Option<Self> {
        Self::start_with(REDIS, None, NO_LOG).or_else(Self::is_missing)
    }

    /// Starts a server with its files in a directory, and more arguments; `None` if there is no `redis-server`.
    pub(crate) fn start_in(dir: &Path, arguments: &[&str]) -> Option<Self> {
        Self::start_with(REDIS, Some(dir), arguments).or_else(Self::is_missing)
    }

    fn is_missing() -> Option<Self> {
        skipped::without(REDIS);
        None
    }

    /// Starts a `valkey-server` in the same way; `None` if there is none.
    pub(crate) fn start_valkey_in(dir: &Path, arguments: &[&str]) -> Option<Self> {
        Self::start_with("valkey-server", Some(dir), arguments)
    }

    fn start_with(program: &str, dir: Option<&Path>, arguments: &[&str]) -> Option<Self> {
        let own = tempfile::tempdir().expect("a temporary directory");
        let socket = own.path().join("redis.sock");
        let spawned = Command::new(program)
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes"])
            .args(arguments)
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(dir.unwrap_or(own.path()))
            // SORT compares by the rules of the locale.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = match spawned {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("{program} does not start: {error}"),
        };
        let log = process.stdout.take().expect("the log is piped");
        let oracle = Oracle { process, socket, _dir: own };
        oracle.wait_until_ready(BufReader::new(log));
        Some(oracle)
    }

    /// Reads the log up to the line that shows readiness. The rest is read and dropped, or the pipe would fill up.
    fn wait_until_ready(&self, mut log: BufReader<std::process::ChildStdout>) {
        let mut seen = String::new();
        while !seen.contains("eady to accept connections") {
            let len = log.read_line(&mut seen).expect("the log is text");
            assert!(len > 0, "redis-server ended at once:\n{seen}");
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    }

    /// Returns the path of the server's Unix socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn connect(&self) -> Peer {
        let stream = UnixStream::connect(&self.socket).expect("redis-server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        Peer::over(Box::new(stream))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Stream whose sending side can be closed.
trait Stream: Read + Write + Send {
    fn shut_write(&self);

    /// Waits until a read would return at once; returns false after a timeout.
    fn is_readable_within(&self, timeout: Duration) -> bool;
}

impl Stream for TcpStream {
    fn shut_write(&self) {
        // The server may have closed the connection first.
        let _ = self.shutdown(Shutdown::Write);
    }

    fn is_readable_within(&self, timeout: Duration) -> bool {
        self.set_read_timeout(Some(timeout)).expect("a read timeout");
        let peeked = self.peek(&mut [0]);
        self.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        !peeked.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    }
}

impl Stream for UnixStream {
    fn shut_write(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }

    fn is_readable_within(&self, _timeout: Duration) -> bool {
        give_up("a Unix socket cannot be peeked at")
    }
}

/// Connection that exchanges raw bytes.
pub(crate) struct Peer {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    read: usize,
}

impl Peer {
    /// Connects over TCP.
    pub(super) fn to(addr: SocketAddr) -> Self {
        let tcp = TcpStream::connect(addr).expect("the server accepts");
        tcp.set_nodelay(true).expect("TCP_NODELAY");
        tcp.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        Peer::over(Box::new(tcp))
    }

    fn over(stream: Box<dyn Stream>) -> Self {
        Peer { stream, input: Vec::new(), read: 0 }
    }

    /// Sends bytes. A connection closed by the server is noticed by its missing reply.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Reads the bytes of one reply; `None` once the server has closed the connection.
    pub(crate) fn reply(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = end_of_reply(&self.input, self.read) {
                let reply = self.input[self.read..end].to_vec();
                self.read = end;
                return Some(reply);
            }
            self.input.drain(..std::mem::take(&mut self.read));
            if self.fill() == 0 {
                return None;
            }
        }
    }

    /// Waits until the server has sent more than was read, or has closed the connection; returns false after a timeout.
    pub(super) fn hears_within(&self, timeout: Duration) -> bool {
        self.read < self.input.len() || self.stream.is_readable_within(timeout)
    }

    /// Stops sending, and reads up to the end of the connection.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.stream.shut_write();
        while self.fill() > 0 {}
        self.input.split_off(std::mem::take(&mut self.read))
    }

    fn fill(&mut self) -> usize {
        let mut chunk = [0; 64 * 1024];
        let mut read = self.stream.read(&mut chunk);
        // As in the harness: missing programs often cause an interrupt.
        while read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted) {
            read = self.stream.read(&mut chunk);
        }
        let len = match read {
            Ok(len) => len,
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => 0,
            Err(error) => give_up(&format!("no reply after {}: {error}", self.input.escape_ascii())),
        };
        self.input.extend_from_slice(&chunk[..len]);
        len
    }

    /// Sends a request, and returns its reply.
    pub(super) fn call(&mut self, request: &str) -> String {
        self.send(&crate::harness::encode(&request.split(' ').collect::<Vec<_>>()));
        self.reply().expect("the server is there").escape_ascii().to_string()
    }

    #[track_caller]
    fn expect_ok(&mut self, args: &[&[u8]]) {
        self.send(&crate::harness::encode(args));
        assert_eq!(self.reply().as_deref(), Some(&b"+OK\r\n"[..]));
    }
}

/// Connection to each server.
pub(crate) struct Pair {
    pub(crate) keylatch: Peer,
    pub(crate) redis: Peer,
}

impl Pair {
    /// Sends the same bytes to both.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.keylatch.send(bytes);
        self.redis.send(bytes);
    }

    /// Reads a reply from each.
    pub(crate) fn replies(&mut self) -> Replies {
        Replies::of(self.keylatch.reply(), self.redis.reply())
    }

    /// Sends a command to both and returns the replies.
    pub(crate) fn call(&mut self, args: &[impl AsRef<[u8]>]) -> Replies {
        self.send(&crate::harness::encode(args));
        self.replies()
    }

    /// Selects the protocol; the reply of HELLO has its own test. The replies also show that both servers have accepted
    /// the connection, so that later changes by other connections affect it.
    pub(crate) fn speak(&mut self, protocol: u8) {
        self.call(&["HELLO", &protocol.to_string()]);
    }
}

/// Connection to keylatch, and one to Redis where it is available.
pub(super) struct Link {
    pub(super) keylatch: Peer,
    pub(super) redis: Option<Peer>,
}

/// Reply of keylatch, and one of Redis where it is available; an inner `None` stands for a closed connection.
pub(super) struct Heard {
    pub(super) keylatch: Option<Vec<u8>>,
    pub(super) redis: Option<Option<Vec<u8>>>,
}

impl Heard {
    /// Returns the replies if both servers are available.
    pub(super) fn both(self) -> Replies {
        Replies { keylatch: self.keylatch, redis: self.redis.expect("only tests with a record run without it") }
    }
}

impl Link {
    /// Reads a reply from each.
    pub(super) fn replies(&mut self) -> Heard {
        Heard { keylatch: self.keylatch.reply(), redis: self.redis.as_mut().map(Peer::reply) }
    }

    /// Sends a command to each and returns the replies.
    pub(super) fn call(&mut self, args: &[impl AsRef<[u8]>]) -> Heard {
        let bytes = crate::harness::encode(args);
        self.keylatch.send(&bytes);
        self.redis.iter_mut().for_each(|redis| redis.send(&bytes));
        self.replies()
    }

    /// Selects the protocol, as [`Pair::speak`] does.
    pub(super) fn speak(&mut self, protocol: u8) {
        self.call(&["HELLO", &protocol.to_string()]);
    }
}

/// Replaces the encoding of packed values by Redis' encoding, on every line where Redis has one of these.
pub(super) fn with_encodings(ours: &[u8], theirs: &[u8], encodings: &[&str]) -> Vec<u8> {
    let lines = |reply: &[u8]| -> Vec<Vec<u8>> { reply.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect() };
    let (mut lines, theirs) = (lines(ours), lines(theirs));
    for at in 1..lines.len() {
        let Some(line) = theirs.get(at).filter(|_| lines[at] == b"listpack\r") else { continue };
        if encodings.iter().any(|encoding| line.strip_suffix(b"\r") == Some(encoding.as_bytes())) {
            (lines[at - 1], lines[at]) = (theirs[at - 1].clone(), line.clone());
        }
    }
    lines.join(&b'\n')
}

/// Replies of both servers; `None` stands for a closed connection.
pub(crate) struct Replies {
    pub(crate) keylatch: Option<Vec<u8>>,
    pub(crate) redis: Option<Vec<u8>>,
}

impl Replies {
    /// Combines two replies. The encoding of short lists is adapted: they are listpacks since 7.2.
    pub(super) fn of(keylatch: Option<Vec<u8>>, redis: Option<Vec<u8>>) -> Self {
        let keylatch = match (keylatch, &redis) {
            (Some(ours), Some(theirs)) if ours != *theirs => Some(with_encodings(&ours, theirs, &["quicklist"])),
            (ours, _) => ours,
        };
        Replies { keylatch, redis }
    }
}

/// Finds the end of the reply that starts at `at`; `None` if it has not arrived completely.
pub(super) fn end_of_reply(bytes: &[u8], at: usize) -> Option<usize> {
    let end = at + bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")? + 2;
    let count = || -> i64 {
        let digits = std::str::from_utf8(&bytes[at + 1..end - 2]).unwrap_or_default();
        digits.parse().unwrap_or_else(|_| panic!("a length in {}", bytes[at..end].escape_ascii()))
    };
    let items = match bytes[at] {
        b'$' | b'=' | b'!' => {
            let len = usize::try_from(count()).ok();
            let end = len.map_or(end, |len| end + len + 2);
            return (end <= bytes.len()).then_some(end);
        }
        b'*' | b'~' | b'>' => count().max(0),
        b'%' => 2 * count(),
        _ => 0,
    };
    (0..items).try_fold(end, |at, _| end_of_reply(bytes, at))
}
