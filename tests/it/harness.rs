//! The test harness: a server on port 0 for each test, and a client that shows the bytes of replies.
//!
//! Replies are compared in wire form: [`Client::call`] returns the reply's bytes with every line end shown as a blank,
//! so `*2 $1 a :1` is an array of `"a"` and 1. Time is the server's manual clock; no test sleeps.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use keylatch::internals::config::Config;
use keylatch::internals::resp::{Frame, FrameDecoder};
use keylatch::internals::{LogReader, ReaderPurpose};
use keylatch::{Clock, Server};
use tokio::runtime::Runtime;
use tokio_util::codec::Decoder;

/// Time that a test waits for a reply before it fails instead of hanging: much longer than any reply takes on a busy
/// machine, and much shorter than CI's limit for all tests, which would end without naming the waiting one.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Read size of a client, in bytes.
const READ_LEN: usize = 256 * 1024;

/// Server of one test, which stops when the test ends.
pub struct TestServer {
    server: Server,
    /// Reader of the log, once it is enabled.
    log: Mutex<Option<LogReader>>,
    // Dropped after the server, whose tasks they run.
    _workers: Vec<Runtime>,
}

impl TestServer {
    /// Starts a server on a manual clock, moved only by [`TestServer::advance_ms`].
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with some settings, by name, on a manual clock.
    pub fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_on(Clock::manual(), settings)
    }

    /// Starts a server that follows the system's clock.
    pub fn start_in_real_time() -> Self {
        Self::start_on(Clock::system(), &[])
    }

    /// Starts a server on a manual clock whose connections are served by this many worker threads.
    pub fn start_on_workers(count: usize) -> Self {
        Self::start_with_workers(Server::builder().clock(Clock::manual()), count)
    }

    /// Starts a server with some settings on a clock of the caller's choice, with two worker threads.
    pub fn start_on(clock: Clock, settings: &[(&str, &str)]) -> Self {
        let options: String = settings.iter().map(|(name, value)| format!("{name} {value}\n")).collect();
        let mut config: Config =
            keylatch::internals::config::load(None, None, options.as_bytes()).expect("valid settings");
        config.port = 0;
        config.bind = vec!["127.0.0.1".into()];
        Self::start_with_workers(Server::builder().clock(clock).config(config), 2)
    }

    /// Starts a server as an embedding program does: on a thread of its own, on a manual clock.
    pub fn start_embedded() -> Self {
        Self::start_with_workers(Server::builder().clock(Clock::manual()), 0)
    }

    /// Starts a server whose connections are served by this many worker threads, like the binary's. With none, it runs
    /// on a thread of its own.
    pub fn start_with_workers(builder: keylatch::Builder, count: usize) -> Self {
        let workers: Vec<Runtime> =
            (0..count).map(|number| keylatch::internals::worker::runtime(number).expect("a worker thread")).collect();
        let handles = workers.iter().map(|worker| worker.handle().clone()).collect();
        let _inside = workers.first().map(Runtime::enter);
        let server = builder.workers(handles).start_blocking().expect("a server that listens");
        TestServer { server, log: Mutex::default(), _workers: workers }
    }

    /// Stops the server, and returns when it has ended and written all its data.
    pub fn end(self) {
        self.server.shutdown_blocking();
    }

    /// Returns the server's address.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Returns the server itself.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Enables the log of changes, which [`TestServer::take_log`] returns from then on.
    pub fn begin_log(&self) {
        *self.log.lock().expect("no panic") = Some(self.server.namespace().read_log(ReaderPurpose::Copy));
    }

    /// Returns the records logged since the last call.
    pub fn take_log(&self) -> BytesMut {
        let log = self.log.lock().expect("no panic");
        BytesMut::from(&log.as_ref().expect("a log").read_all().expect("its place")[..])
    }

    /// Connects a client.
    pub fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// Connects a client that speaks RESP3.
    pub fn client3(&self) -> Client {
        let mut client = self.client();
        assert!(client.call("HELLO 3").starts_with('%'));
        client
    }

    /// Sends a request that blocks its client, and returns when the server has registered that.
    pub fn block(&self, request: &str) -> Client {
        self.block_as(self.client(), request)
    }

    /// Blocks an existing client.
    pub fn block_as(&self, mut client: Client, request: &str) -> Client {
        let mut other = self.client();
        // Not by the number of blocked clients: some of them may be about to leave.
        let shown = format!("CLIENT LIST ID {}", client.int("CLIENT ID"));
        client.send(format!("{request}\r\n").as_bytes());
        wait_until(|| {
            let line = other.call(&shown);
            let flags = line.split(' ').find_map(|field| field.strip_prefix("flags="));
            flags.is_some_and(|flags| flags.contains('b'))
        });
        client
    }

    /// Advances time. All due work is done when this returns.
    pub fn advance_ms(&self, ms: u64) {
        self.server.advance(Duration::from_millis(ms));
    }
}

/// RESP client for any server, over any stream.
pub struct Client<S = TcpStream> {
    stream: S,
    replies: Replies,
    chunk: Box<[u8]>,
}

/// Received replies, each as a value and as its bytes.
#[derive(Default)]
pub struct Replies {
    decoder: FrameDecoder,
    /// Bytes that the decoder has not consumed yet.
    undecoded: BytesMut,
    /// Bytes from the first unreturned reply on.
    bytes: BytesMut,
}

impl Replies {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.undecoded.extend_from_slice(bytes);
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next reply once it has arrived completely.
    #[track_caller]
    pub fn next(&mut self) -> Option<(Frame, Vec<u8>)> {
        let frame = self.decoder.decode(&mut self.undecoded).expect("a well-formed reply")?;
        Some((frame, self.bytes.split_to(self.bytes.len() - self.undecoded.len()).to_vec()))
    }

    /// Takes `len` bytes after the last reply, or as many as have arrived. A reply may begin with the remaining bytes.
    fn take(&mut self, len: usize) -> Vec<u8> {
        let bytes = self.bytes.split_to(len.min(self.bytes.len()));
        // The decoder may have consumed the first part of a reply.
        (self.decoder, self.undecoded) = (FrameDecoder::new(), self.bytes.clone());
        bytes.to_vec()
    }
}

impl Client {
    /// Connects over TCP.
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the server accepts");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        Client::over(stream)
    }

    /// Waits ten times as long for replies as other clients, for requests that take seconds of computing.
    #[cfg(feature = "lua")]
    pub fn patient(self) -> Self {
        self.stream.set_read_timeout(Some(PATIENCE * 10)).expect("a read timeout");
        self
    }

    /// Shuts down the sending side; replies can still be read.
    pub fn shut_write(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("still connected");
    }

    /// Returns a second handle on the connection, for a thread that only writes.
    pub fn writer(&self) -> TcpStream {
        self.stream.try_clone().expect("a handle to spare")
    }

    /// Returns the client's own address.
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().expect("still connected")
    }
}

impl Client<UnixStream> {
    /// Connects to a Unix socket.
    pub fn connect_unix(path: impl AsRef<Path>) -> Self {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        Client::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    /// Creates a client on a connected stream.
    pub fn over(stream: S) -> Self {
        Client { stream, replies: Replies::default(), chunk: vec![0; READ_LEN].into() }
    }

    /// Returns the stream itself, for bytes other than RESP.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a command, given as words separated by blanks, and returns the reply in wire form.
    #[track_caller]
    pub fn call(&mut self, words: &str) -> String {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.call_args(&words)
    }

    /// Sends a command of arbitrary arguments and returns the reply's wire form.
    #[track_caller]
    pub fn call_args(&mut self, args: &[impl AsRef<[u8]>]) -> String {
        self.send(&encode(args));
        self.reply()
    }

    /// Sends a command of arbitrary arguments and returns the reply as a value.
    #[track_caller]
    pub fn frame(&mut self, args: &[impl AsRef<[u8]>]) -> Frame {
        self.send(&encode(args));
        self.read_frame().expect("a reply")
    }

    /// Sends a command and returns its integer reply.
    #[track_caller]
    pub fn int(&mut self, words: &str) -> i64 {
        let reply = self.call(words);
        reply.strip_prefix(':').and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{words}: {reply}"))
    }

    /// Returns a field of INFO.
    #[track_caller]
    pub fn info(&mut self, field: &str) -> String {
        let text = self.call("INFO");
        let value = text.split(' ').find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {field} in {text}")).to_owned()
    }

    /// Asserts that each command, in turn, gets its reply.
    #[track_caller]
    pub fn expect(&mut self, script: &[(&str, &str)]) {
        for (words, reply) in script {
            assert_eq!(self.call(words), *reply, "after {words}");
        }
    }

    /// Sends any number of commands, and returns their replies.
    #[track_caller]
    pub fn pipeline(&mut self, commands: &[String]) -> Vec<String> {
        let mut replies = Vec::with_capacity(commands.len());
        // In portions whose replies fit into the sockets' buffers, because replies are not read during a write.
        for portion in commands.chunks(1000) {
            let words = portion.iter().map(|command| command.split(' ').collect::<Vec<_>>());
            self.send(&words.flat_map(|words| encode(&words)).collect::<Vec<u8>>());
            replies.extend(portion.iter().map(|_| self.reply()));
        }
        replies
    }

    /// Sends raw bytes.
    #[track_caller]
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server reads");
    }

    /// Reads one reply and returns its wire form.
    #[track_caller]
    pub fn reply(&mut self) -> String {
        show(&self.read_raw().expect("a reply, not the end of the connection"))
    }

    /// Reads one reply as a value; `None` when the server has closed the connection.
    #[track_caller]
    pub fn read_frame(&mut self) -> Option<Frame> {
        self.read_with_bytes().map(|(frame, _)| frame)
    }

    /// Reads one reply as its bytes; `None` when the server has closed the connection.
    #[track_caller]
    pub fn read_raw(&mut self) -> Option<Vec<u8>> {
        self.read_with_bytes().map(|(_, bytes)| bytes)
    }

    #[track_caller]
    fn read_with_bytes(&mut self) -> Option<(Frame, Vec<u8>)> {
        loop {
            let reply = self.replies.next();
            if reply.is_some() {
                return reply;
            }
            match self.stream.read(&mut self.chunk) {
                Ok(0) => return None,
                Ok(len) => self.replies.push(&self.chunk[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                // When a process ends while its parent thread starts another one, any thread of the tests may be
                // interrupted.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => give_up(&format!("no reply: {error}")),
            }
        }
    }

    /// Reads `len` bytes as they arrive.
    #[track_caller]
    pub fn take_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = self.replies.take(len);
        let ready = bytes.len();
        bytes.resize(len, 0);
        self.stream.read_exact(&mut bytes[ready..]).expect("that many bytes");
        bytes
    }

    /// Reads up to the end of the connection, and returns all bytes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = self.replies.take(usize::MAX);
        // A reset after the last reply counts as the end.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }
}

/// Reserves a free port of a loopback address for a server that will listen on it.
///
/// The socket is bound, but does not listen: the kernel does not hand out its port as a free one, and a server can bind
/// it explicitly, because both set `SO_REUSEADDR`.
pub struct ReservedPort {
    _socket: socket2::Socket,
    addr: SocketAddr,
}

impl ReservedPort {
    /// Reserves a port of `127.0.0.1`.
    pub fn new() -> Self {
        Self::on([127, 0, 0, 1])
    }

    /// Reserves a port of an address.
    pub fn on(ip: [u8; 4]) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.bind(&SocketAddr::from((ip, 0)).into()).expect("a free port");
        let addr = socket.local_addr().ok().and_then(|addr| addr.as_socket()).expect("an address");
        ReservedPort { _socket: socket, addr }
    }

    /// Returns the address with the port.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }
}

/// Polls until a condition holds, and fails after the timeout for replies.
#[track_caller]
pub fn wait_until(holds: impl FnMut() -> bool) {
    wait_for(PATIENCE, holds);
}

/// Waits for the end of a process, and fails after the timeout for replies.
#[track_caller]
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until(|| {
        status = child.try_wait().expect("a child of ours");
        status.is_some()
    });
    status.expect("it was waited for")
}

/// Polls until a condition holds, and fails after a timeout.
#[track_caller]
pub fn wait_for(patience: Duration, mut holds: impl FnMut() -> bool) {
    let clock = Clock::system();
    let started = clock.now().mono_ms();
    while !holds() {
        let waited = Duration::from_millis(clock.now().mono_ms() - started);
        if waited >= patience {
            give_up(&format!("what is waited for has not happened within {patience:?}"));
        }
        std::thread::park_timeout(Duration::from_millis(1)); // yields the processor to the awaited threads
    }
}

/// Fails a test that has waited in vain, by its name: the message may be all that is left of an interrupted run.
#[track_caller]
pub fn give_up(why: &str) -> ! {
    panic!("{}: {why}", std::thread::current().name().unwrap_or("a thread of a test"));
}

#[test]
fn a_wait_in_vain_ends_and_names_its_test() {
    let waited = std::panic::catch_unwind(|| wait_for(Duration::ZERO, || false)).expect_err("it waits in vain");
    let message = waited.downcast_ref::<String>().expect("a message");
    let (_, module) = module_path!().split_once("::").expect("a crate and a module");
    let named = format!("{module}::a_wait_in_vain_ends_and_names_its_test");
    assert_eq!(*message, format!("{named}: what is waited for has not happened within 0ns"));
}

/// Encodes a command as an array of bulk strings.
pub fn encode(args: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Formats a reply on one line: line ends become blanks, other bytes that are not text are escaped.
pub fn show(reply: &[u8]) -> String {
    let reply = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    let mut shown = String::with_capacity(reply.len());
    for (at, &byte) in reply.iter().enumerate() {
        match byte {
            b'\r' if reply.get(at + 1) == Some(&b'\n') => {}
            b'\n' => shown.push(' '),
            b'\'' | b'"' => shown.push(byte.into()),
            _ => shown.extend(byte.escape_ascii().map(char::from)),
        }
    }
    shown
}

/// Sends a request, and serves another client until its reply begins. Returns the number of times that the other was
/// served.
pub fn served_until_reply(walker: &mut Client, other: &mut Client, request: &[u8]) -> usize {
    walker.send(request);
    walker.writer().set_nonblocking(true).expect("a socket");
    let (mut served, mut first) = (0, [0]);
    loop {
        match walker.writer().read(&mut first) {
            Ok(len) => break assert_eq!((len, first), (1, *b"*")),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert_eq!(other.call("PING"), "+PONG");
        served += 1;
    }
    walker.writer().set_nonblocking(false).expect("a socket");
    served
}

/// Pseudo-random generator, the same in every run of a test (xorshift).
pub struct Dice(u64);

impl Dice {
    /// Creates a generator. The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Returns a number from 0 up to, but not including, `below`.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % below
    }
}
