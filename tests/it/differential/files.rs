//! Files exchanged between both servers: each loads the files of the other one, and has the same data.

use std::path::{Path, PathBuf};
use std::process::Command;

use keylatch::Clock;

use crate::differential::oracle::{Oracle, Peer};
use crate::harness::{Client, TestServer, wait_until};

/// Requests, known to both servers, that create keys of all types in all encodings.
const REQUESTS: [&str; 24] = [
    "SET text value",
    "SET number 12345",
    "SET until v PXAT 4000000000000",
    "SET soon v PX 100000000",
    "APPEND text more",
    "RPUSH list a 1 -2 b 99999999999",
    "SADD integers 1 2 300 70000 5000000000",
    "SADD words a b c",
    "ZADD scores 1 a 2.5 b -inf c",
    "HSET fields a 1 b 2",
    "XADD stream 1-1 f v",
    "XADD stream 2-1 f v g w",
    "XDEL stream 1-1",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
    "PFADD log a b c",
    "GEOADD places 13.361389 38.115556 palermo",
    "SETBIT bits 1000 1",
    "SELECT 7",
    "SET text elsewhere",
    "EXPIREAT text 4000000000",
    "SELECT 0",
    "LPUSH popped a b c",
    "RPOP popped",
];

/// Returns requests that create large keys.
fn large() -> Vec<String> {
    let long = "x".repeat(20_000);
    let one = |n: usize| {
        [
            format!("RPUSH longlist {n}:{long:.40}"),
            format!("SADD manywords {n}w"),
            format!("SADD manynumbers {}", n * 7),
            format!("ZADD manyscores {n} {n}m"),
            format!("HSET manyfields {n}f {n}"),
            format!("XADD longstream {}-1 n {n}", n + 1),
            format!("SET key:{n} {long:.50}"),
        ]
    };
    (0..1000).flat_map(one).chain([format!("SET long {long}"), format!("RPUSH withlong {long} b")]).collect()
}

/// Connection to either server.
enum Either {
    Redis(Peer),
    Keylatch(Client),
}

impl Either {
    fn call(&mut self, request: &str) -> String {
        match self {
            Either::Redis(peer) => peer.call(request),
            Either::Keylatch(client) => client.call(request),
        }
    }

    /// Creates keys of all types.
    fn fill(&mut self) {
        for request in REQUESTS.iter().map(|request| (*request).to_owned()).chain(large()) {
            let reply = self.call(&request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
    }

    /// Rewrites the append-only file.
    fn rewrite(&mut self) {
        self.call("BGREWRITEAOF");
        wait_until(|| {
            let info = self.call("INFO persistence");
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
    }

    /// Returns a digest of the data.
    fn digest(&mut self) -> String {
        let digest = self.call("DEBUG DIGEST");
        digest.trim_end_matches("\\r\\n").to_owned()
    }
}

fn keylatch(dir: &Path, appendonly: &'static str) -> (TestServer, Either) {
    let settings = [
        ("dir", dir.to_str().expect("text")),
        ("dbfilename", "dump.rdb"),
        ("appendonly", appendonly),
        ("enable-debug-command", "yes"),
    ];
    let server = TestServer::start_on(Clock::system(), &settings);
    let client = Either::Keylatch(server.client());
    (server, client)
}

/// Asserts that one of Redis' tools accepts a file.
#[track_caller]
fn check(tool: &str, file: PathBuf) {
    let output = Command::new(tool).arg(&file).output().expect("it is installed with redis-server");
    assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn snapshots_of_redis_and_of_keylatch_are_loaded_by_the_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(redis) = Oracle::start_in(dir.path(), &[]) else { return };
    let mut there = Either::Redis(redis.connect());
    there.fill();
    let digest = there.digest();
    assert_eq!(there.call("SAVE"), "+OK\\r\\n");
    drop(redis);
    let (server, mut here) = keylatch(dir.path(), "no");
    assert_eq!(here.digest(), digest);
    here.call("SET more v");
    // The fence of a removed key is a field of the file that Redis does not know.
    here.call("SETIFGREATER gone v 7");
    here.call("DEL gone");
    let digest = here.digest();
    assert_eq!(here.call("SAVE"), "+OK");
    let file = std::fs::read(dir.path().join("dump.rdb")).expect("a file");
    assert!(file.windows(22).any(|name| name == b"keylatch-retired-fence"));
    server.end();
    check("redis-check-rdb", dir.path().join("dump.rdb"));
    let redis = Oracle::start_in(dir.path(), &[]).expect("it was there");
    assert_eq!(Either::Redis(redis.connect()).digest(), digest);
}

/// Settings with which a rewritten append-only file begins with a snapshot, and with commands.
const FORMS: [&str; 2] = ["yes", "no"];

#[test]
fn rewritten_append_only_files_of_redis_and_of_keylatch_are_loaded_by_the_other_in_both_forms() {
    for form in FORMS {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = ["--appendonly", "yes", "--aof-use-rdb-preamble", form];
        let Some(redis) = Oracle::start_in(dir.path(), &settings) else { return };
        let mut there = Either::Redis(redis.connect());
        there.fill();
        there.rewrite();
        let digest = there.digest();
        drop(redis);
        let (server, mut here) = keylatch(dir.path(), "yes");
        assert_eq!(here.digest(), digest);
        here.call(&format!("CONFIG SET aof-use-rdb-preamble {form}"));
        here.call("SET more v");
        here.rewrite();
        let digest = here.digest();
        server.end();
        let kind = if form == "yes" { "rdb" } else { "aof" };
        let base = dir.path().join(format!("appendonlydir/appendonly.aof.3.base.{kind}"));
        assert!(base.exists(), "{form}");
        check("redis-check-aof", dir.path().join("appendonlydir/appendonly.aof.manifest"));
        let redis = Oracle::start_in(dir.path(), &settings).expect("it was there");
        assert_eq!(Either::Redis(redis.connect()).digest(), digest);
    }
}

#[test]
fn append_only_files_of_redis_and_of_keylatch_are_loaded_and_continued_by_the_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(redis) = Oracle::start_in(dir.path(), &["--appendonly", "yes"]) else { return };
    let mut there = Either::Redis(redis.connect());
    there.fill();
    let digest = there.digest();
    drop(redis);
    let (server, mut here) = keylatch(dir.path(), "yes");
    assert_eq!(here.digest(), digest);
    // From now on, the records are in an incremental file that Redis has begun.
    for request in ["FLUSHDB", "MULTI", "SET one 1", "LPUSH two 2", "EXEC", "XADD three * f v", "SELECT 7", "DEL text"]
    {
        here.call(request);
    }
    here.fill();
    let digest = here.digest();
    server.end();
    check("redis-check-aof", dir.path().join("appendonlydir/appendonly.aof.manifest"));
    let redis = Oracle::start_in(dir.path(), &["--appendonly", "yes"]).expect("it was there");
    let mut there = Either::Redis(redis.connect());
    assert_eq!(there.digest(), digest);
    there.call("SET last v");
    let digest = there.digest();
    drop(redis);
    let (_server, mut here) = keylatch(dir.path(), "yes");
    assert_eq!(here.digest(), digest);
}

#[test]
fn a_manifest_with_a_checksum_is_read_by_redis_and_by_its_tool() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let Some(_) = Oracle::start_in(dir.path(), &[]) else { return };
    let (server, mut here) = keylatch(dir.path(), "yes");
    here.fill();
    assert_eq!(here.call("BGREWRITEAOF"), "+Background append only file rewriting started");
    wait_until(|| server.client().info("aof_rewrite_in_progress") == "0");
    here.call("SET last v");
    let digest = here.digest();
    server.end();
    let path = dir.path().join("appendonlydir/appendonly.aof.manifest");
    let text = std::fs::read_to_string(&path).expect("a manifest");
    let last = text.lines().last().expect("a line");
    assert!(last.starts_with("#checksum:") && last.len() == 27, "{text}");
    check("redis-check-aof", path.clone());
    let redis = Oracle::start_in(dir.path(), &["--appendonly", "yes"]).expect("it was there");
    let mut there = Either::Redis(redis.connect());
    assert_eq!(there.digest(), digest);
    // Redis writes a manifest without a checksum, which counts as valid.
    assert_eq!(there.call("BGREWRITEAOF"), "+Background append only file rewriting started\\r\\n");
    wait_until(|| there.call("INFO persistence").contains("aof_rewrite_in_progress:0"));
    there.call("SET later v");
    let digest = there.digest();
    drop(redis);
    assert!(!std::fs::read_to_string(&path).expect("a manifest").contains("#checksum"));
    let (_server, mut here) = keylatch(dir.path(), "yes");
    assert_eq!(here.digest(), digest);
}
