//! Waits of other clients during every command whose cost grows with the data: on collections of a million elements, a
//! million keys, and strings of 128 bytes for each; in keylatch, and in the redis-server on the PATH.
//!
//! ```text
//! cargo bench --bench waits [-- [ELEMENTS] [WORD[,WORD]]]    # only the commands that contain one of these
//! cargo bench --bench waits -- types                         # only those on the types of Redis 8
//! ```
//!
//! The types of Redis 8 are measured with keylatch alone: an object of a million members, a hundred thousand vectors of
//! 768 dimensions, a thousand t-digests.
//!
//! Both servers execute commands on one thread. During the command a probe sends `GET` on its own connection without
//! pause; printed is the worst of its round trips, in milliseconds. It is the smallest of up to three repetitions,
//! because delays by the server occur every time, and other delays by the machine do not. The row `idle` is the
//! machine's own noise. Rows above the limit, 5 ms, or 20 with ten million elements, are marked.

#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures and prints"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use peer::Server;
use probe::{beside, connect};

mod peer;
#[allow(dead_code, reason = "other benchmarks use more of it")]
mod probe;

/// Maximum number of measurements of each command.
const REPETITIONS: usize = 3;
/// Worst wait that needs no repetition, in milliseconds.
const GOOD_MS: f64 = 3.0;
/// Time that the probe continues after the reply: memory may be freed only then.
const AFTER: Duration = Duration::from_millis(100);
/// Number of elements that a command adds while the collections are loaded.
const PIECE: usize = 1_000;
/// Number of keys or commands of a request that names many.
const MANY: usize = 100_000;
/// Number of keys of WATCH.
const SOME: usize = 10_000;
/// Bytes of a long string for each element, within the maximum of a string.
const BYTES_PER_ELEMENT: usize = 128;
/// Length of the longest string.
const MAX_BYTES: usize = 512 << 20;

/// Preparation before each repetition, and the measured command; `|` separates several. `{n}` stands for the number of
/// elements, `{half}` for half of it, and so on: see [`Bench::request`].
type Case = (&'static str, &'static str);

const CASES: &[Case] = &[
    ("", "PING"), // the row "idle"
    ("", "LRANGE list 0 -1"),
    ("", "LINDEX list {half}"),
    ("", "LPOS list nosuch"),
    ("", "LPOS list {middle} COUNT 0"),
    ("COPY list victim REPLACE", "LREM victim 0 nosuch"),
    ("COPY list victim REPLACE", "LINSERT victim BEFORE {middle} x"),
    ("COPY list victim REPLACE", "LSET victim {half} x"),
    ("COPY list victim REPLACE", "LTRIM victim {half} -1"),
    ("COPY list victim REPLACE", "LPOP victim {half}"),
    ("", "SORT list ALPHA"),
    ("", "SORT list ALPHA LIMIT 0 10"),
    ("", "SORT list ALPHA LIMIT {half} 10"),
    ("", "SORT list BY nosort GET #"),
    ("", "SORT list ALPHA STORE victim"),
    ("", "SORT ints"),
    ("", "HGETALL hash"),
    ("", "HKEYS hash"),
    ("", "HVALS hash"),
    ("", "HRANDFIELD hash {n}"),
    ("", "HRANDFIELD hash -{n} WITHVALUES"),
    ("", "HSCAN hash 0 COUNT {n}"),
    ("", "SMEMBERS set"),
    ("", "SMEMBERS ints"),
    ("", "SRANDMEMBER set {n}"),
    ("", "SRANDMEMBER set -{n}"),
    ("COPY set victim REPLACE", "SPOP victim {half}"),
    ("", "SSCAN set 0 COUNT {n}"),
    ("", "SINTER set ints"),
    ("", "SINTER set set"),
    ("", "SINTERCARD 2 set set"),
    ("", "SINTERSTORE victim set set"),
    ("", "SUNION set ints"),
    ("", "SUNIONSTORE victim set ints"),
    ("", "SDIFF set ints"),
    ("", "SDIFF set {singles}"),
    ("", "SDIFFSTORE victim set ints"),
    ("", "ZRANGE zset 0 -1 WITHSCORES"),
    ("", "ZRANGE zset -inf +inf BYSCORE"),
    ("", "ZRANGE zset - + BYLEX"),
    ("", "ZRANGE zset 0 {n} BYSCORE LIMIT {half} 10"),
    ("", "ZRANGESTORE victim zset 0 -1"),
    ("", "ZCOUNT zset -inf +inf"),
    ("", "ZLEXCOUNT zset - +"),
    ("", "ZRANDMEMBER zset {n}"),
    ("", "ZRANDMEMBER zset -{n} WITHSCORES"),
    ("", "ZSCAN zset 0 COUNT {n}"),
    ("COPY zset victim REPLACE", "ZPOPMIN victim {half}"),
    ("COPY zset victim REPLACE", "ZREMRANGEBYRANK victim 0 {half}"),
    ("COPY zset victim REPLACE", "ZREMRANGEBYSCORE victim 0 {half}"),
    ("", "ZUNION 2 zset set"),
    ("", "ZUNIONSTORE victim 2 zset set"),
    ("", "ZINTER 2 zset set"),
    ("", "ZINTERSTORE victim 2 zset set"),
    ("", "ZINTERCARD 2 zset set"),
    ("", "ZDIFF 2 zset ints"),
    ("", "ZDIFFSTORE victim 2 zset ints"),
    ("", "GEOSEARCH geo FROMLONLAT 0 0 BYRADIUS 20000 km COUNT 10"),
    ("", "GEOSEARCH geo FROMLONLAT 0 0 BYRADIUS 20000 km"),
    ("", "GEOSEARCHSTORE victim geo FROMLONLAT 0 0 BYRADIUS 20000 km"),
    ("", "XRANGE stream - +"),
    ("", "XREAD STREAMS stream 0"),
    ("", "XINFO STREAM stream FULL COUNT 0"),
    ("COPY stream victim REPLACE", "XTRIM victim MAXLEN 0"),
    ("COPY stream victim REPLACE", "XTRIM victim MAXLEN {half}"),
    ("XGROUP DESTROY stream group|XGROUP CREATE stream group 0", "XREADGROUP GROUP group consumer STREAMS stream >"),
    ("", "XPENDING stream group - + {n}"),
    ("", "XAUTOCLAIM stream group other 0 0 COUNT {n}"),
    (
        "XGROUP DESTROY stream group|XGROUP CREATE stream group 0|XREADGROUP GROUP group consumer STREAMS stream >",
        "XGROUP DESTROY stream group",
    ),
    ("COPY list victim REPLACE", "DEL victim"),
    ("COPY hash victim REPLACE", "DEL victim"),
    ("COPY hash victim REPLACE", "UNLINK victim"),
    ("COPY set victim REPLACE", "SET victim x"),
    ("COPY zset victim REPLACE", "PEXPIRE victim 0"),
    ("COPY stream victim REPLACE", "DEL victim"),
    (
        "CONFIG SET maxmemory-policy volatile-ttl|COPY zset victim REPLACE|EXPIRE victim 100000",
        "CONFIG SET maxmemory 1|PING|CONFIG SET maxmemory 0", // evicts the only key with a time to live
    ),
    ("SET small x|COPY zset victim REPLACE", "RENAME small victim"),
    ("DEL victim", "COPY list victim"),
    ("DEL victim", "COPY hash victim"),
    ("DEL victim", "COPY set victim"),
    ("DEL victim", "COPY zset victim"),
    ("DEL victim", "COPY stream victim"),
    ("", "DUMP list"),
    ("", "DUMP hash"),
    ("", "DUMP set"),
    ("", "DUMP zset"),
    ("", "DUMP stream"),
    ("DEL victim", "RESTORE victim 0 {dump list}"),
    ("DEL victim", "RESTORE victim 0 {dump hash}"),
    ("DEL victim", "RESTORE victim 0 {dump set}"),
    ("DEL victim", "RESTORE victim 0 {dump zset}"),
    ("DEL victim", "RESTORE victim 0 {dump stream}"),
    ("DEL victim", "MEMORY USAGE hash SAMPLES 0"),
    ("", "OBJECT ENCODING hash"),
    ("", "DEBUG DIGEST-VALUE hash"),
    ("", "GET text"),
    ("", "GETRANGE text 0 {half}"),
    ("COPY text victim REPLACE", "APPEND victim x"),
    ("COPY text victim REPLACE", "SETRANGE victim {last} x"),
    ("DEL victim", "SETRANGE victim {last} x"),
    ("DEL victim", "SETBIT victim {last} 1"),
    ("", "BITCOUNT text"),
    ("", "BITPOS text 0"),
    ("", "BITOP NOT victim text"),
    ("", "BITOP AND victim text text"),
    ("DEL victim", "COPY text victim"),
    ("", "DUMP text"),
    ("COPY text victim REPLACE", "DEL victim"),
    ("", "PFCOUNT {sketches}"),
    ("", "PFMERGE victim {sketches}"),
    ("", "MSET {pairs}"),
    ("", "MGET {keys}"),
    ("", "EXISTS {keys}"),
    ("MSET {pairs}", "DEL {keys}"),
    ("", "WATCH {some}"),
    ("", "SUBSCRIBE {keys}"),
    ("", "{transaction}"),
    ("", "EVAL {script} 0"),
    ("SELECT 1", "KEYS nosuchkey*"),
    ("SELECT 1", "KEYS *"),
    ("SELECT 3|MSET {hundred}", "KEYS {class}"),
    ("SELECT 1", "SCAN 0 COUNT {n}"),
    ("SELECT 1", "RANDOMKEY"),
    ("", "INFO"),
    ("", "SWAPDB 1 2|SWAPDB 1 2"),
    ("", "DEBUG DIGEST"),
    ("SELECT 2|{refill hash}|{refill zset}", "FLUSHDB"),
    ("SELECT 2|{refill hash}|{refill zset}", "FLUSHDB ASYNC"),
    ("SELECT 1|{refill keys}", "FLUSHDB"),
    ("SELECT 2|{refill keys due}", "DBSIZE"),
];

/// Cases on the types of Redis 8, which the other server does not have.
const TYPES: &[Case] = &[
    ("", "JSON.GET wide"),
    ("", "JSON.GET wide $..nosuch"),
    ("", "JSON.GET wide $.*"),
    ("", "JSON.OBJKEYS wide"),
    ("JSON.SET victim $ {object}", "JSON.NUMINCRBY victim $.* 1"),
    ("JSON.SET victim $ {object}", "JSON.SET victim $.m{half} 7"),
    ("JSON.SET victim $ {object}", "JSON.DEL victim $.*"),
    ("DEL victim", "JSON.SET victim $ {object}"),
    ("", "JSON.MERGE wide $ {object}"),
    ("DEL victim", "BF.RESERVE victim 0.0001 {n}"),
    ("DEL victim|BF.RESERVE victim 0.01 100 EXPANSION {100th}", "BF.MADD victim {101}"),
    ("DEL victim", "CF.RESERVE victim {n}"),
    ("DEL victim|CF.RESERVE victim 64 BUCKETSIZE 1 EXPANSION 32768", "CF.INSERT victim ITEMS {101}"),
    ("DEL victim", "CMS.INITBYDIM victim {n} 5"),
    ("DEL victim", "TOPK.RESERVE victim 10 {n} 5 0.9"),
    ("DEL victim", "TDIGEST.MERGE victim 1000 {digests}"),
    ("DEL victim", "TDIGEST.MERGE victim 1000 {digests} COMPRESSION 10000"),
    ("", "VADD vectors FP32 {vector} another"),
    ("", "VSIM vectors FP32 {vector} COUNT 10"),
    ("", "VSIM vectors FP32 {vector} COUNT {100th}"),
    ("", "VSIM vectors FP32 {vector} COUNT {n} WITHSCORES"),
    ("", "VSIM vectors FP32 {vector} COUNT 10 FILTER .a==1"),
    ("", "VLINKS vectors e7"),
    ("", "VRANDMEMBER vectors {n}"),
    ("", "VRANDMEMBER vectors -{n}"),
    ("DEL victim", "COPY vectors victim"),
    ("", "DUMP vectors"),
    ("COPY vectors victim REPLACE", "DEL victim"),
    ("DEL victim", "COPY wide victim"),
    ("COPY wide victim REPLACE", "DEL victim"),
];

/// Dimensions of a vector.
const DIMENSIONS: usize = 768;
/// Number of elements for each vector.
const ELEMENTS_PER_VECTOR: usize = 10;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let elements = args.iter().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_000_000);
    let words = args.iter().find(|arg| arg.parse::<usize>().is_err());
    if words.is_some_and(|words| words == "types") {
        return measure_types(elements);
    }
    let chosen: Vec<&Case> = CASES
        .iter()
        .filter(|(_, command)| words.is_none_or(|words| words.split(',').any(|word| command.contains(word))))
        .collect();
    let debug = ["--enable-debug-command", "yes"];
    let keylatch = (env!("CARGO_BIN_EXE_keylatch"), [&debug[..], &["--worker-threads", "1"]].concat());
    let waits = [keylatch, ("redis-server", debug.to_vec())].map(|(program, options)| {
        let server = Server::start(program, &options);
        let mut bench = Bench { elements, addr: server.addr, client: Client::new(server.addr) };
        bench.load();
        let waits: Vec<f64> = chosen.iter().map(|case| bench.worst_ms(case)).collect();
        waits
    });
    let limit_ms = if elements > 1_000_000 { 20.0 } else { 5.0 };
    println!("| {elements} elements | keylatch ms | redis-server ms | |\n|---|---|---|---|");
    for (at, (before, command)) in chosen.iter().enumerate() {
        let [keylatch, redis] = [waits[0][at], waits[1][at]];
        let mark = if keylatch > limit_ms { "above the limit" } else { "" };
        println!("| `{}` | {keylatch:.1} | {redis:.1} | {mark} |", name(before, command));
    }
}

/// Prints the waits during the commands on the types of Redis 8.
fn measure_types(elements: usize) {
    let server = Server::start(env!("CARGO_BIN_EXE_keylatch"), &["--worker-threads", "1"]);
    let mut bench = Bench { elements, addr: server.addr, client: Client::new(server.addr) };
    bench.load_types();
    println!("| {elements} elements | keylatch ms |\n|---|---|");
    for case in [("", "PING")].iter().chain(TYPES) {
        let worst_ms = bench.worst_ms(case);
        println!("| `{}` | {worst_ms:.1} |", name(case.0, case.1));
    }
}

/// Returns the name of a row.
fn name(before: &str, command: &str) -> String {
    match (before, command) {
        ("", "PING") => "idle".into(),
        (before, command) if before.contains("{refill") => format!("{command} of {}", before.replace(['{', '}'], "")),
        (before, command) if before.starts_with("COPY") && command.ends_with("victim") => {
            format!("{command}: {}", before.split(' ').nth(1).unwrap_or_default())
        }
        (_, command) => command.into(),
    }
}

/// Server with its data.
struct Bench {
    elements: usize,
    addr: SocketAddr,
    client: Client,
}

impl Bench {
    fn load(&mut self) {
        let name = |at: usize| format!("element:{at:08}").into_bytes();
        for (kind, key) in [("list", "list"), ("hash", "hash"), ("set", "set"), ("zset", "zset")] {
            self.fill(kind, key, name);
        }
        self.fill("set", "ints", |at| (at * 7).to_string().into_bytes());
        self.fill("geo", "geo", name);
        self.client.unanswered(|send| {
            (0..self.elements).for_each(|at| send(&words(&format!("XADD stream {}-1 field value", at + 1))));
            (0..1_000).for_each(|at| send(&words(&format!("SADD single:{at} element:{at:08}"))));
            (0..1_000).for_each(|at| send(&words(&format!("PFADD sketch:{at} a{at} b{at} c{at}"))));
        });
        let text = vec![0xff; self.text_len()];
        self.client.call(&[b"SET".to_vec(), b"text".to_vec(), text]);
        self.refill("keys", 1);
    }

    /// Creates values of the types of Redis 8.
    fn load_types(&mut self) {
        let object = self.request("JSON.SET wide $ {object}");
        self.client.call(&object);
        self.client.unanswered(|send| {
            for at in 0..self.elements / ELEMENTS_PER_VECTOR {
                let mut request = words("VADD vectors FP32");
                request.extend([vector(at), format!("e{at}").into_bytes()]);
                send(&request);
            }
            for at in 0..1_000 {
                send(&words(&format!("TDIGEST.CREATE digest:{at}")));
                let values: Vec<String> = (0..1_000).map(|value| (value * at % 997).to_string()).collect();
                send(&words(&format!("TDIGEST.ADD digest:{at} {}", values.join(" "))));
            }
        });
    }

    fn text_len(&self) -> usize {
        MAX_BYTES.min(self.elements * BYTES_PER_ELEMENT)
    }

    /// Adds all elements to a collection.
    fn fill(&mut self, kind: &str, key: &str, name: impl Fn(usize) -> Vec<u8>) {
        let command = match kind {
            "list" => "RPUSH",
            "hash" => "HSET",
            "set" => "SADD",
            "zset" => "ZADD",
            _ => "GEOADD",
        };
        self.client.unanswered(|send| {
            for first in (0..self.elements).step_by(PIECE) {
                let mut request = vec![command.into(), key.into()];
                for at in first..self.elements.min(first + PIECE) {
                    match kind {
                        "zset" => request.extend([at.to_string().into_bytes(), name(at)]),
                        "hash" => request.extend([name(at), b"value".to_vec()]),
                        "geo" => {
                            let (longitude, latitude) = (at * 7 % 340, at * 13 % 160);
                            let place = [longitude as f64 - 170.0, latitude as f64 - 80.0];
                            request.extend(place.map(|degrees| degrees.to_string().into_bytes()));
                            request.push(name(at));
                        }
                        _ => request.push(name(at)),
                    }
                }
                send(&request);
            }
        });
    }

    /// Fills a database with small keys, or adds a collection to the selected one.
    fn refill(&mut self, what: &str, db: usize) {
        let ttl = if what == "keys due" { " PX 3000" } else { "" };
        match what {
            "keys" | "keys due" => {
                self.client.call(&words(&format!("SELECT {db}")));
                self.client.unanswered(|send| {
                    (0..self.elements).for_each(|at| send(&words(&format!("SET key:{at:08} value{ttl}"))));
                });
                self.client.call(&words("SELECT 0"));
            }
            kind => self.fill(kind, kind, |at| format!("element:{at:08}").into_bytes()),
        }
    }

    /// Returns the worst wait of the probe during a command.
    fn worst_ms(&mut self, (before, command): &Case) -> f64 {
        let after = if before.contains("due") { Duration::from_secs(4) } else { AFTER };
        let mut least = f64::INFINITY;
        for _ in 0..REPETITIONS {
            let mut client = Client::new(self.addr); // with its own database, transaction and subscriptions
            std::mem::swap(&mut client, &mut self.client);
            for request in before.split('|').filter(|request| !request.is_empty()) {
                match request.strip_prefix("{refill ").and_then(|rest| rest.strip_suffix('}')) {
                    Some(what) if what.starts_with("keys") => {
                        let db = if before.contains("SELECT 2") { 2 } else { 1 };
                        self.refill(what, db);
                        self.client.call(&words(&format!("SELECT {db}")));
                    }
                    Some(what) => self.refill(what, 2),
                    None => {
                        let request = self.request(request);
                        self.client.call(&request);
                    }
                }
            }
            let requests: Vec<_> = command.split('|').map(|request| self.request(request)).collect();
            let waits = beside(self.addr, || {
                requests.iter().for_each(|request| self.client.ask(request));
                thread::park_timeout(after);
            });
            self.client = client;
            least = least.min(waits.worst_ms());
            if least < GOOD_MS {
                break;
            }
        }
        eprintln!("{:>9.1} ms  {}", least, name(before, command));
        least
    }

    /// Returns a request with its placeholders replaced. A transaction is returned as its encoded commands.
    fn request(&mut self, template: &str) -> Vec<Vec<u8>> {
        let (elements, half) = (self.elements, self.elements / 2);
        let many = |of: &dyn Fn(usize) -> String, count: usize| (0..count).map(of).collect::<Vec<_>>().join(" ");
        let text = template
            .replace("{n}", &elements.to_string())
            .replace("{half}", &half.to_string())
            .replace("{middle}", &format!("element:{half:08}"))
            .replace("{last}", &(self.text_len() - 1).to_string())
            .replace("{100th}", &(elements / 100).to_string())
            .replace("{101}", &many(&|at| format!("item:{at}"), 101))
            .replace("{digests}", &many(&|at| format!("digest:{at}"), 1_000))
            .replace("{singles}", &many(&|at| format!("single:{at}"), 1_000))
            .replace("{sketches}", &many(&|at| format!("sketch:{at}"), 1_000))
            .replace("{keys}", &many(&|at| format!("many:{at}"), MANY))
            .replace("{some}", &many(&|at| format!("many:{at}"), SOME)) // redis-server's cost is quadratic in them
            .replace("{pairs}", &many(&|at| format!("many:{at} value"), MANY))
            .replace("{hundred}", &many(&|at| format!("many:{at} value"), 100))
            .replace("{class}", &format!("[{}]*", "a-b".repeat(350_000)));
        if text == "{transaction}" {
            return [words("MULTI")]
                .into_iter()
                .chain((0..MANY).map(|_| words("INCR n")))
                .chain([words("EXEC")])
                .flatten()
                .collect();
        }
        let dumped = |client: &mut Client, word: &str| client.call(&words(&format!("DUMP {word}")));
        let script = format!("for i = 1, {MANY} do redis.call('incr', 'n') end");
        let mut request = Vec::new();
        let mut parts = text.split(' ');
        while let Some(word) = parts.next() {
            match word {
                "{dump" => {
                    let key = parts.next().unwrap().trim_end_matches('}');
                    request.push(dumped(&mut self.client, key));
                }
                "{script}" => request.push(script.clone().into_bytes()),
                "{vector}" => request.push(vector(elements)),
                "{object}" => request.push(object(elements)),
                word => request.push(word.into()),
            }
        }
        request
    }
}

/// Returns the bytes of a vector, another one for each seed.
fn vector(seed: usize) -> Vec<u8> {
    let mut state = seed as u32 ^ 0x9e37_79b9;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((state >> 8) as f32 / (1 << 24) as f32 - 0.5).to_le_bytes()
    };
    (0..DIMENSIONS).flat_map(next).collect()
}

/// Returns an object with this number of members.
fn object(members: usize) -> Vec<u8> {
    let all: Vec<String> = (0..members).map(|at| format!("\"m{at}\":{at}")).collect();
    format!("{{{}}}", all.join(",")).into_bytes()
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn encode(request: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend(format!("*{}\r\n", request.len()).bytes());
    for arg in request {
        out.extend(format!("${}\r\n", arg.len()).bytes());
        out.extend(arg);
        out.extend(b"\r\n");
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(addr: SocketAddr) -> Self {
        Client(BufReader::with_capacity(1 << 20, connect(addr)))
    }

    fn send(&mut self, request: &[Vec<u8>]) {
        let mut bytes = Vec::new();
        encode(request, &mut bytes);
        self.0.get_mut().write_all(&bytes).unwrap();
    }

    /// Sends a request and returns the reply, if it is a bulk string.
    fn call(&mut self, request: &[Vec<u8>]) -> Vec<u8> {
        self.send(request);
        self.read_reply()
    }

    /// Sends a request, or the parts of a transaction, and reads all replies.
    fn ask(&mut self, request: &[Vec<u8>]) {
        match &*request[0] {
            b"MULTI" => {
                let mut bytes = Vec::new();
                let queued = (request.len() - 2) / 2;
                encode(&request[..1], &mut bytes);
                request[1..=2 * queued].chunks(2).for_each(|command| encode(command, &mut bytes));
                encode(&request[request.len() - 1..], &mut bytes);
                self.0.get_mut().write_all(&bytes).unwrap();
                (0..queued + 2).for_each(|_| drop(self.read_reply()));
            }
            b"SUBSCRIBE" => {
                self.send(request);
                (1..request.len()).for_each(|_| drop(self.read_reply()));
            }
            _ => drop(self.call(request)),
        }
    }

    /// Sends many requests without reading their replies.
    fn unanswered(&mut self, requests: impl FnOnce(&mut dyn FnMut(&[Vec<u8>]))) {
        self.send(&words("CLIENT REPLY OFF"));
        let mut bytes = Vec::new();
        let stream = self.0.get_mut();
        requests(&mut |request| {
            encode(request, &mut bytes);
            if bytes.len() > 1 << 16 {
                stream.write_all(&bytes).unwrap();
                bytes.clear();
            }
        });
        stream.write_all(&bytes).unwrap();
        self.call(&words("CLIENT REPLY ON"));
    }

    fn read_reply(&mut self) -> Vec<u8> {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let (kind, rest) = line.split_at(1);
        match (kind, rest.trim_end().parse::<usize>()) {
            ("$", Ok(len)) => {
                let mut bulk = vec![0; len + 2];
                self.0.read_exact(&mut bulk).unwrap();
                bulk.truncate(len);
                bulk
            }
            ("*", Ok(len)) => {
                (0..len).for_each(|_| drop(self.read_reply()));
                Vec::new()
            }
            ("-", _) => panic!("{}", line.trim_end()),
            _ => Vec::new(), // null has a length of -1 and nothing after it
        }
    }
}
