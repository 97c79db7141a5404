//! Scripts generated from an input: Lua's grammar and the sandbox's own names, in any order, on a server of their own.

use std::fmt::Write;
use std::time::Duration;

use bytes::BytesMut;
use keylatch::Server;
use keylatch::internals::config;
use keylatch::internals::resp::{Frame, FrameDecoder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_util::codec::Decoder;

/// Time after which a script is killed.
const ENOUGH: Duration = Duration::from_millis(300);
/// Maximum time until the server ends, whatever its script does, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum nesting depth of the generated Lua, and its maximum length in bytes.
const DEPTH_MAX: u32 = 5;
const SCRIPT_MAX: usize = 4096;

const ATOMS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "nil",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "3.7",
    "1e308*10",
    "0/0",
    "2^53",
    "2^31-1",
    "-2^31",
    "2^31",
    "-2^31-1",
    "2^32",
    "-2^63",
    "1/0",
    "-1/0",
    "-1e9",
    "1e8",
    "7998",
    "8000",
    "''",
    "'a'",
    "'10'",
    "KEYS",
    "ARGV",
    "KEYS[1]",
    "ARGV[1]",
    "ARGV[2]",
    "_G",
    "{}",
    "{1,2,3}",
    "{a={}}",
    "{err='E x'}",
    "{ok='fine'}",
    "{double=3.5}",
    "{map={a=1}}",
    "'%s%d%5.3f%q'",
    "'(a*)*b'",
    "'>I4s0bH'",
    "string.rep('ab',99)",
    "redis",
    "string",
    "getmetatable('')",
    "'\\0\\255'",
    "cjson.null",
    "{{{{}}}}",
    "'return 1'",
    "redis.REDIS_VERSION",
    "...",
];

const FUNCTIONS: &[&str] = &[
    "redis.call",
    "redis.pcall",
    "redis.error_reply",
    "redis.status_reply",
    "redis.sha1hex",
    "redis.log",
    "redis.setresp",
    "redis.set_repl",
    "redis.acl_check_cmd",
    "redis.breakpoint",
    "redis.debug",
    "cjson.encode",
    "cjson.decode",
    "cjson.encode_max_depth",
    "cjson.decode_max_depth",
    "cjson.encode_sparse_array",
    "cjson.encode_keep_buffer",
    "cjson.new",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_one",
    "cmsgpack.unpack_limit",
    "struct.pack",
    "struct.unpack",
    "struct.size",
    "bit.tobit",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "bit.bswap",
    "string.rep",
    "string.format",
    "string.find",
    "string.gsub",
    "string.gmatch",
    "string.match",
    "string.sub",
    "string.byte",
    "string.char",
    "string.dump",
    "string.reverse",
    "table.insert",
    "table.remove",
    "table.concat",
    "table.sort",
    "table.getn",
    "table.maxn",
    "table.foreach",
    "math.floor",
    "math.random",
    "math.randomseed",
    "math.fmod",
    "math.ldexp",
    "setmetatable",
    "getmetatable",
    "rawset",
    "rawget",
    "rawequal",
    "next",
    "pairs",
    "ipairs",
    "select",
    "unpack",
    "tostring",
    "tonumber",
    "type",
    "pcall",
    "xpcall",
    "error",
    "assert",
    "loadstring",
    "load",
    "collectgarbage",
    "gcinfo",
    "coroutine.create",
    "coroutine.wrap",
    "coroutine.resume",
    "coroutine.yield",
    "coroutine.status",
    "a",
    "b",
    "c",
    "print",
    "setfenv",
    "os.clock",
    "loadstring('return ...')",
];

/// Functions whose last arguments are two indices, a count or a position.
const RANGED: &[&str] = &[
    "unpack({1,2,3}, ",
    "unpack({}, ",
    "string.sub('abc', ",
    "string.byte('abc', ",
    "string.rep('ab', ",
    "string.find('aXbXc', 'X', ",
    "string.format('%d %5.1f', ",
    "string.gsub('aaa', 'a', 'b', ",
    "table.concat({1,2,3}, ',', ",
    "table.insert({1,2,3}, ",
    "table.insert({}, ",
    "table.remove({1,2,3}, ",
    "select(",
    "rawset({}, ",
    "math.random(",
    "math.ldexp(",
    "bit.tohex(",
    "bit.rol(",
    "bit.arshift(",
    "struct.unpack('i4', 'abcdefgh', ",
    "struct.pack('>I8i1', ",
    "cmsgpack.unpack_one('abc', ",
    "cmsgpack.unpack_limit('abc', ",
    "cmsgpack.pack(",
    "cjson.encode_sparse_array(false, ",
    "cjson.encode_max_depth(",
    "collectgarbage('step', ",
    "tonumber('10', ",
    "redis.call('getrange', 'k', ",
    "redis.call('setrange', 'k', ",
];

/// Numbers at the limits of counts, indices and doubles.
const NUMBERS: &[&str] = &[
    "0", "1", "2", "-1", "-2", "2^31-1", "2^31-2", "2^31", "-2^31", "-2^31+1", "-2^31-1", "2^32-1", "2^32", "2^53",
    "-2^53", "2^63", "-2^63", "1/0", "-1/0", "0/0", "-1e9", "1e8", "1e308", "0.5", "-0.5", "7997", "7998", "7999",
    "8000", "8001",
];

const COMMANDS: &[&str] = &[
    "'get'",
    "'set'",
    "'incr'",
    "'del'",
    "'append'",
    "'setrange'",
    "'eval'",
    "'multi'",
    "'subscribe'",
    "'publish'",
    "'expire'",
    "'flushall'",
    "'keys'",
    "'config'",
    "'mget'",
    "'lcs'",
    "'command'",
    "'select'",
    "'debug'",
    "'script'",
];

const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "<", "<=", "and", "or", "~="];

/// Script that describes the sandbox: the contents of every table of the globals. No script may change it.
const PROBE: &str = "local seen = {} \
    for name, value in pairs(_G) do \
      seen[#seen + 1] = name .. '=' .. type(value) \
      if type(value) == 'table' and value ~= _G and name ~= 'KEYS' and name ~= 'ARGV' then \
        for key, inner in pairs(value) do seen[#seen + 1] = name .. '.' .. key .. '=' .. type(inner) end \
      end \
    end \
    for key, value in pairs(getmetatable('').__index) do seen[#seen + 1] = 'text.' .. key .. '=' .. type(value) end \
    table.sort(seen) return table.concat(seen, ' ')";

/// Runs one script. The server must survive it with an unchanged sandbox, and end.
pub fn script(data: &[u8]) {
    let text = Writer { data, text: String::new() }.script();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let settings = "port 0\nbind 127.0.0.1\nbusy-reply-threshold 20\nproto-max-bulk-len 1mb\nmaxmemory 64mb\n";
        let settings = config::load(None, Some(settings.as_bytes()), b"").expect("valid settings");
        let server = Server::builder().config(settings).start().await.expect("a server on a free port");
        let mut client = Client::connect(&server).await;
        let before = client.call(&["EVAL", PROBE, "0"]).await;
        let ended = timeout(ENOUGH, client.call(&["EVAL", &text, "1", "k", "x", "10"])).await;
        if ended.is_ok() {
            // Selected or not: state that the script has left must not hinder the probe.
            let after = client.call(&["EVAL", PROBE, "0"]).await;
            assert_eq!(before, after, "the sandbox has changed");
        } else {
            let _ = timeout(ENOUGH, async { Client::connect(&server).await.call(&["SCRIPT", "KILL"]).await }).await;
            sleep(Duration::from_millis(1)).await;
        }
        assert!(timeout(PATIENCE, server.shutdown()).await.is_ok(), "the server does not come to an end");
    });
    runtime.shutdown_timeout(PATIENCE);
}

struct Client {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.addr()).await.expect("the server accepts");
        Client { stream, buffer: BytesMut::new() }
    }

    async fn call(&mut self, words: &[&str]) -> Option<Frame> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            write!(request, "${}\r\n{word}\r\n", word.len()).expect("a string takes all");
        }
        self.stream.write_all(request.as_bytes()).await.expect("still connected");
        loop {
            let mut whole = self.buffer.clone();
            if let Some(frame) = FrameDecoder::new().decode(&mut whole).expect("the server sends frames") {
                self.buffer = whole;
                return Some(frame);
            }
            if self.stream.read_buf(&mut self.buffer).await.expect("still connected") == 0 {
                return None;
            }
        }
    }
}

/// Generator of Lua from an input.
struct Writer<'a> {
    data: &'a [u8],
    text: String,
}

impl Writer<'_> {
    fn script(mut self) -> String {
        if self.roll(16) == 0 {
            return String::from_utf8_lossy(self.data).into_owned();
        }
        self.text.push_str("local a,b,c,d = KEYS[1],ARGV[1],{},redis.call ");
        while !self.data.is_empty() && self.text.len() < SCRIPT_MAX {
            self.text.push_str("do ");
            self.statement(0);
            self.text.push_str("end ");
        }
        self.text
    }

    fn roll(&mut self, sides: usize) -> usize {
        let Some((&first, rest)) = self.data.split_first() else { return 0 };
        self.data = rest;
        usize::from(first) % sides
    }

    fn pick(&mut self, words: &[&str]) {
        let word = words[self.roll(words.len())];
        self.text.push_str(word);
    }

    fn block(&mut self, depth: u32) {
        for _ in 0..=self.roll(3) {
            self.statement(depth + 1);
        }
    }

    fn statement(&mut self, depth: u32) {
        let choice = if depth > DEPTH_MAX { 0 } else { self.roll(13) };
        match choice {
            0 | 1 => self.framed("local _ = ", depth, " "),
            2 | 3 => {
                self.pick(&[
                    "a = ",
                    "b = ",
                    "c = ",
                    "d = ",
                    "c[1] = ",
                    "c[a] = ",
                    "local a = ",
                    "_G.x = ",
                    "string.x = ",
                ]);
                self.framed("", depth, " ");
            }
            4 => {
                self.framed("if ", depth, " then ");
                self.block(depth);
                self.text.push_str("else ");
                self.block(depth);
                self.text.push_str("end ");
            }
            5 => self.looped("for i = 1, 20 do ", depth, "end "),
            6 => {
                self.framed("for k, v in pairs(", depth, ") do ");
                self.looped("a = k ", depth, "end ");
            }
            7 => {
                self.framed("while ", depth, " do ");
                self.looped("", depth, "end ");
            }
            8 => self.looped("local function a(b, ...) ", depth, "end "),
            9 => self.looped("pcall(function(...) ", depth, "end) "),
            10 => self.looped("c = setmetatable({}, {__index = function(b, d) ", depth, "end}) "),
            11 => self.framed("do return ", depth, " end "),
            _ => self.looped("c = coroutine.wrap(function(...) ", depth, "end) "),
        }
    }

    fn looped(&mut self, begin: &str, depth: u32, end: &str) {
        self.text.push_str(begin);
        self.block(depth);
        self.text.push_str(end);
    }

    fn framed(&mut self, begin: &str, depth: u32, end: &str) {
        self.text.push_str(begin);
        self.expression(depth);
        self.text.push_str(end);
    }

    fn expression(&mut self, depth: u32) {
        let choice = if depth > DEPTH_MAX { 0 } else { self.roll(8) };
        match choice {
            0 | 1 => self.pick(ATOMS),
            2 => {
                self.framed("(", depth + 1, " ");
                self.pick(OPERATORS);
                self.framed(" ", depth + 1, ")");
            }
            3 => {
                self.framed("{", depth + 1, ", ");
                self.framed("[", depth + 1, "] = ");
                self.framed("", depth + 1, "}");
            }
            4 => {
                self.pick(&["redis.call(", "redis.pcall("]);
                self.pick(COMMANDS);
                self.arguments(depth, ", ");
            }
            5 => {
                self.pick(RANGED);
                let (from, to) = (self.roll(NUMBERS.len()), self.roll(NUMBERS.len()));
                let _ = write!(self.text, "{}, {})", NUMBERS[from], NUMBERS[to]);
            }
            _ => {
                self.pick(FUNCTIONS);
                self.text.push('(');
                self.arguments(depth, "");
            }
        }
    }

    fn arguments(&mut self, depth: u32, mut separator: &str) {
        for _ in 0..self.roll(4) {
            self.text.push_str(separator);
            self.expression(depth + 1);
            separator = ", ";
        }
        self.text.push(')');
    }
}
