//! A primary, its replicas, and comparisons of their data.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use keylatch::Clock;
use keylatch::internals::resp::{Codec, RequestLimits};
use tempfile::TempDir;
use tokio_util::codec::Decoder;

use crate::differential::oracle::Oracle;
use crate::harness::{Client, PATIENCE, TestServer, encode, give_up, wait_until};

/// Primary with its directory.
pub(super) struct Primary {
    pub(super) server: TestServer,
    pub(super) dir: TempDir,
}

impl Primary {
    /// Starts a primary that sends snapshots at once.
    pub(super) fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_on(Clock::system(), settings)
    }

    /// Starts a primary on a clock of the caller's choice.
    pub(super) fn start_on(clock: Clock, settings: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let own = [("enable-debug-command", "yes"), ("repl-diskless-sync-delay", "0"), ("save", "\"\"")];
        let place = [("dir", dir.path().to_str().expect("text"))];
        let server = TestServer::start_on(clock, &[&own[..], &place, settings].concat());
        Primary { server, dir }
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    pub(super) fn client(&self) -> Client {
        self.server.client()
    }

    /// Returns a field of INFO.
    pub(super) fn info(&self, field: &str) -> String {
        self.client().info(field)
    }

    /// Returns whether INFO replication contains a text.
    pub(super) fn shows(&self, text: &str) -> bool {
        self.client().call("INFO replication").contains(text)
    }

    /// Starts a redis-server as its replica; `None` if it is not installed.
    pub(super) fn replica(&self, settings: &[&str]) -> Option<Replica> {
        let primary = format!("127.0.0.1 {}", self.addr().port());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let own = ["--replicaof", &primary, "--repl-diskless-load", "swapdb"];
        let process = Oracle::start_in(dir.path(), &[&own[..], settings].concat())?;
        Some(Replica { process, _dir: dir })
    }

    /// Starts a replica, and waits until it has the data.
    pub(super) fn synchronized_replica(&self) -> Option<Replica> {
        let replica = self.replica(&[])?;
        self.wait_for(&replica);
        Some(replica)
    }

    /// Waits until a replica has executed everything.
    pub(super) fn wait_for(&self, replica: &Replica) {
        let (mut here, mut there) = (self.client(), replica.client());
        wait_until(|| there.info("master_link_status") == "up");
        wait_until(|| here.info("master_repl_offset") == there.info("slave_repl_offset"));
    }

    /// Asserts that a replica has the same keys, once it has executed everything.
    #[track_caller]
    pub(super) fn assert_same(&self, replica: &Replica) {
        self.wait_for(replica);
        let (here, there) = (self.client().call("DEBUG DIGEST"), replica.client().call("DEBUG DIGEST"));
        assert_eq!(here, there);
        assert_eq!(here.len(), 41, "{here}");
    }
}

/// redis-server that is a replica.
pub(super) struct Replica {
    process: Oracle,
    _dir: TempDir,
}

impl Replica {
    pub(super) fn client(&self) -> Client<UnixStream> {
        Client::connect_unix(self.process.socket())
    }

    pub(super) fn info(&self, field: &str) -> String {
        self.client().info(field)
    }
}

/// Client that requests the data like a replica.
pub(super) struct RawReplica {
    stream: TcpStream,
    read: BytesMut,
    /// Id of the data, and the offset up to which it has read.
    pub(super) id: String,
    pub(super) offset: u64,
}

impl RawReplica {
    /// Connects, and announces its capabilities.
    pub(super) fn connect(addr: SocketAddr, capabilities: &[&str]) -> Self {
        let stream = TcpStream::connect(addr).expect("the server accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let mut replica = RawReplica { stream, read: BytesMut::new(), id: String::new(), offset: 0 };
        for capability in capabilities {
            assert_eq!(replica.call(&format!("REPLCONF capa {capability}")), "+OK");
        }
        replica
    }

    /// Connects as a present-day replica. It has all data when this returns, and has acknowledged it.
    pub(super) fn synchronized(addr: SocketAddr) -> Self {
        let mut replica = Self::connect(addr, &["eof", "psync2"]);
        replica.synchronize();
        replica.acknowledge();
        let mut client = Client::connect(addr);
        wait_until(|| {
            !["wait_bgsave", "send_bulk"].iter().any(|state| client.call("INFO replication").contains(state))
        });
        replica
    }

    /// Sends a request.
    pub(super) fn send(&mut self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        self.stream.write_all(&encode(&words)).expect("the server reads");
    }

    /// Sends bytes as they are.
    pub(super) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Sends a request; returns the line of its reply.
    pub(super) fn call(&mut self, words: &str) -> String {
        self.send(words);
        self.line()
    }

    /// Reads more bytes; returns false at the end of the connection.
    pub(super) fn fill(&mut self) -> bool {
        let mut chunk = [0; 64 << 10];
        match self.stream.read(&mut chunk) {
            Ok(len) => {
                self.read.extend_from_slice(&chunk[..len]);
                len > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => give_up(&format!("nothing comes: {error}")),
        }
    }

    /// Reads a line. Empty ones only show that the connection is alive.
    pub(super) fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    return line;
                }
            } else {
                assert!(self.fill(), "the connection has ended behind {}", self.read.escape_ascii());
            }
        }
    }

    /// Reads the payload of a full synchronisation, and the line before it.
    pub(super) fn payload(&mut self) -> (String, Vec<u8>) {
        let framing = self.line();
        let mark = framing.strip_prefix("$EOF:").map(|mark| mark.as_bytes().to_vec());
        let mut searched: usize = 0;
        loop {
            let end = match &mark {
                Some(mark) => {
                    let begin = searched.saturating_sub(mark.len());
                    let found = self.read[begin..].windows(mark.len()).position(|window| window == &mark[..]);
                    found.map(|at| begin + at)
                }
                None => Some(framing[1..].parse().expect("a length")).filter(|len| *len <= self.read.len()),
            };
            if let Some(end) = end {
                let payload = self.read.split_to(end).to_vec();
                _ = self.read.split_to(mark.map_or(0, |mark| mark.len()));
                return (framing, payload);
            }
            searched = self.read.len();
            assert!(self.fill(), "the connection has ended within the payload");
        }
    }

    /// Requests all data; returns the payload.
    pub(super) fn synchronize(&mut self) -> Vec<u8> {
        self.send("PSYNC ? -1");
        self.full()
    }

    /// Reads a full synchronisation; returns the payload.
    pub(super) fn full(&mut self) -> Vec<u8> {
        self.begin_full();
        self.payload().1
    }

    /// Reads the line before the payload of a full synchronisation, which is sent when the snapshot was cut.
    pub(super) fn begin_full(&mut self) {
        let line = self.line();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[1].len(), words.len()), ("+FULLRESYNC", 40, 3), "{line}");
        (self.id, self.offset) = (words[1].to_owned(), words[2].parse().expect("an offset"));
    }

    /// Requests the stream after its offset; returns the line of the reply.
    pub(super) fn resume(&mut self, id: &str, offset: u64) -> String {
        self.send(&format!("PSYNC {id} {}", offset + 1));
        self.line()
    }

    /// Acknowledges its offset.
    pub(super) fn acknowledge(&mut self) {
        let offset = self.offset;
        self.send(&format!("REPLCONF ACK {offset}"));
    }

    /// Returns the next command of the stream, in lower case.
    pub(super) fn command(&mut self) -> String {
        loop {
            let mut codec = Codec::new(RequestLimits::default());
            let mut rest = self.read.clone();
            if let Some(batch) = codec.decode(&mut rest).expect("the stream is a sequence of requests")
                && !batch.is_empty()
            {
                let spell = |arg: &[u8]| arg.escape_ascii().to_string();
                let words: Vec<String> = batch.get(0).args().map(spell).collect();
                let args: Vec<&[u8]> = batch.get(0).args().collect();
                let len = encode(&args).len();
                _ = self.read.split_to(len);
                self.offset += len as u64;
                return words.join(" ").to_lowercase();
            }
            assert!(self.fill(), "the connection has ended behind {}", self.read.escape_ascii());
        }
    }

    /// Returns the next command that is not one of the link's own.
    pub(super) fn change(&mut self) -> String {
        loop {
            let command = self.command();
            match command.as_str() {
                "ping" => {}
                "replconf getack *" => self.acknowledge(),
                _ => return command,
            }
        }
    }

    /// Reads commands up to one; returns those before it.
    pub(super) fn changes_before(&mut self, last: &str) -> Vec<String> {
        std::iter::from_fn(|| Some(self.change()).filter(|change| change != last)).collect()
    }

    /// Reads up to the end of the connection.
    pub(super) fn read_to_end(&mut self) -> Vec<u8> {
        while self.fill() {}
        self.read.split().to_vec()
    }
}

/// Accepts a replica, replies to its handshake, and answers its request for data with some bytes.
pub(super) fn answer_replica(listener: &TcpListener, answer: &[u8]) -> TcpStream {
    answer_replica_at(listener, no_time, answer)
}

/// Returns an invalid reply to TIME.
pub(super) fn no_time() -> Vec<u8> {
    b"+OK\r\n".to_vec()
}

/// Answers a replica as [`answer_replica`] does, and replies to TIME.
pub(super) fn answer_replica_at(listener: &TcpListener, time: impl Fn() -> Vec<u8>, answer: &[u8]) -> TcpStream {
    let (mut link, _) = hear_replica(listener, time);
    let _ = link.write_all(answer);
    link
}

/// Accepts a replica, and replies to its handshake and to TIME; returns the link, and the requests up to the one for
/// data.
pub(super) fn hear_replica(listener: &TcpListener, time: impl Fn() -> Vec<u8>) -> (TcpStream, String) {
    let accept = || listener.accept().expect("a link").0;
    let (mut link, mut seen, mut replied, mut times) = (accept(), Vec::new(), 0, 0);
    loop {
        let mut chunk = [0; 4096];
        let len = link.read(&mut chunk).unwrap_or(0);
        if len == 0 {
            (link, seen, replied, times) = (accept(), Vec::new(), 0, 0); // that was a link of a former term
            continue;
        }
        seen.extend_from_slice(&chunk[..len]);
        let text = String::from_utf8_lossy(&seen);
        // One line for each request.
        let requests = text.matches("PING\r\n").count() + text.matches("REPLCONF\r\n").count();
        let lines = "+OK\r\n".repeat(requests - replied);
        replied = requests;
        let _ = link.write_all(lines.as_bytes()); // it may have disconnected
        if text.matches("TIME\r\n").count() > times {
            times += 1;
            let _ = link.write_all(&time());
        }
        if text.contains("PSYNC") && text.ends_with('\n') {
            return (link, text.into_owned());
        }
    }
}
