//! Two clients that send arbitrary commands to a server of their own while its clock is moved.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use keylatch::internals::config;
use keylatch::internals::config::Config;
use keylatch::internals::disk::SimulatedDisk;
use keylatch::internals::resp::FrameDecoder;
use keylatch::internals::table;
use keylatch::{Clock, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_util::codec::Decoder;

/// Maximum time of any step. Commands that wait end with their connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of commands of one input.
const COMMANDS_MAX: usize = 64;

/// Words that arguments are made of, besides numbers and arbitrary bytes.
const WORDS: &[&str] = &[
    "k1",
    "k2",
    "k3",
    "lock.foo",
    "*",
    "k?",
    "",
    "0",
    "1",
    "-1",
    "3.5",
    "1e400",
    "9223372036854775807",
    "inf",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "NX",
    "XX",
    "GT",
    "LT",
    "GET",
    "PERSIST",
    "MATCH",
    "COUNT",
    "TYPE",
    "string",
    "LIMIT",
    "ASC",
    "DESC",
    "ALPHA",
    "STORE",
    "BY",
    "REPLACE",
    "ABSTTL",
    "IDLETIME",
    "FREQ",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "BYTE",
    "BIT",
    "u8",
    "i64",
    "u63",
    "#1",
    "OVERFLOW",
    "SAT",
    "WRAP",
    "FAIL",
    "SET",
    "INCRBY",
    "ASYNC",
    "SYNC",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "DB",
    "ON",
    "OFF",
    "SKIP",
    "YES",
    "NO",
    "ID",
    "ADDR",
    "LADDR",
    "USER",
    "SKIPME",
    "NORMAL",
    "PUBSUB",
    "AUTH",
    "SETNAME",
    "default",
    "secret",
    "nobody",
    "allkeys",
    "~*",
    "&*",
    "+@all",
    "-@all",
    "nopass",
    ">pw",
    "reset",
    "resetkeys",
    "(~k1 +get)",
    "%R~k*",
    "timeout",
    "maxmemory",
    "100mb",
    "maxmemory-policy",
    "allkeys-lru",
    "volatile-ttl",
    "requirepass",
    "notify-keyspace-events",
    "KEA",
    "FILTERBY",
    "ACLCAT",
    "PATTERN",
    "MODULE",
    "SAMPLES",
    "RESET",
    "return 1",
    "return redis.call('set',KEYS[1],ARGV[1])",
    "return {1,{2,'x'},false}",
    "local t={} t[1]=t return t",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "MAXLEN",
    "WITHSCORES",
    "WITHSCORE",
    "WITHVALUES",
    "BYSCORE",
    "BYLEX",
    "REV",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "CH",
    "INCR",
    "MIN",
    "MAX",
    "FIELDS",
    "FNX",
    "FXX",
    "GROUP",
    "g",
    "c",
    "STREAMS",
    ">",
    "$",
    "-",
    "+",
    "(1",
    "[a",
    "1-1",
    "~",
    "=",
    "MINID",
    "MKSTREAM",
    "BLOCK",
    "0.001",
    "CLAIM",
    "IDS",
    "DELREF",
    "ACKED",
    "FORCE",
    "JUSTID",
    "FROMLONLAT",
    "FROMMEMBER",
    "BYRADIUS",
    "BYBOX",
    "km",
    "STOREDIST",
];

/// Sends the commands of an input. Expects only well-formed replies, and an end.
pub fn dispatcher(data: &[u8]) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let exchange = tokio::time::timeout(PATIENCE, exchange(data));
        assert!(exchange.await.is_ok(), "the server does not come to an end");
    });
}

async fn exchange(data: &[u8]) {
    let mut input = Input(data);
    // Files that the input makes the server save are dropped with this disk.
    let builder = Server::builder().clock(Clock::manual()).disk(SimulatedDisk::new(1));
    let server = builder.config(settings(input.byte())).start().await.expect("a server on a free port");
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (read, write) = TcpStream::connect(server.addr()).await.expect("the server accepts").into_split();
        clients.push((tokio::spawn(read_replies(read)), write));
    }
    for _ in 0..COMMANDS_MAX {
        if input.0.is_empty() {
            break;
        }
        let (choice, which) = (input.byte(), usize::from(input.byte()));
        match choice {
            250.. => server.advance(Duration::from_millis(u64::from(input.byte()) * u64::from(input.byte()))),
            240..250 => tokio::task::yield_now().await,
            _ => {
                let request = input.request();
                // A disconnected client no longer accepts anything.
                let _ = clients[which % 2].1.write_all(&request).await;
            }
        }
    }
    // The server ends with its clients, whatever they wait for.
    for (_, mut write) in &mut clients.drain(..).map(|(reader, write)| (drop(reader), write)) {
        let _ = write.shutdown().await;
    }
    server.shutdown().await;
}

/// Returns the settings that the first byte of an input chooses.
fn settings(flags: u8) -> Config {
    let mut text =
        String::from("port 0\nbind 127.0.0.1\ndir /\nproto-max-bulk-len 1mb\nclient-query-buffer-limit 1mb\n");
    let lines = ["requirepass secret\n", "maxmemory 3mb\nmaxmemory-policy allkeys-lru\n", "databases 2\n", "hz 100\n"];
    lines.iter().enumerate().filter(|(bit, _)| flags & 1 << bit != 0).for_each(|(_, line)| text.push_str(line));
    config::load(None, Some(text.as_bytes()), b"").expect("valid settings")
}

/// Reads replies until the connection ends; each is a frame.
async fn read_replies(mut read: impl AsyncReadExt + Unpin) {
    let (mut decoder, mut buffer) = (FrameDecoder::new(), BytesMut::new());
    while matches!(read.read_buf(&mut buffer).await, Ok(1..)) {
        while let Some(_frame) = decoder.decode(&mut buffer).expect("the server sends frames") {}
    }
    buffer.advance(buffer.len());
}

/// Input that is read piece by piece.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Returns an encoded command: usually an existing one, with arguments that are often valid.
    fn request(&mut self) -> Vec<u8> {
        let all = table().all();
        let number = usize::from(self.byte()) << 8 | usize::from(self.byte());
        // A fuzzer must not connect to other servers: MIGRATE is replaced by its neighbour.
        let command = all.iter().cycle().skip(number % all.len()).find(|command| command.name != "migrate");
        let command = command.expect("there are others");
        let mut words: Vec<Vec<u8>> = vec![command.name.clone().into_bytes()];
        if !command.subcommands.is_empty() {
            let chosen = usize::from(self.byte()) % command.subcommands.len();
            let name = command.subcommands[chosen].name.rsplit('|').next().unwrap_or_default();
            words.push(name.as_bytes().to_vec());
        }
        let count = usize::from(self.byte() % 8);
        words.extend((0..count).map(|_| self.argument()));
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(&word);
            request.extend_from_slice(b"\r\n");
        }
        request
    }

    fn argument(&mut self) -> Vec<u8> {
        match self.byte() {
            choice @ 0..128 => WORDS[usize::from(choice) % WORDS.len()].into(),
            128..160 => i8::from_ne_bytes([self.byte()]).to_string().into_bytes(),
            160..192 => WORDS[usize::from(self.byte()) % WORDS.len()].into(),
            192..208 => vec![self.byte(); usize::from(self.byte()) * 16],
            _ => {
                let len = usize::from(self.byte() % 24).min(self.0.len());
                let (taken, rest) = self.0.split_at(len);
                self.0 = rest;
                taken.to_vec()
            }
        }
    }
}
