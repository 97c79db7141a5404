//! A server that is a cluster of one node, beside redis-server as one.

use crate::differential::oracle::{Oracle, Peer};
use crate::harness::{Client, ReservedPort, TestServer, encode, wait_until};

/// Requests, sent over one connection. What redis-server 7.0.15 answers otherwise than 8.0 is in `cluster_mode.rs`.
const REQUESTS: &str = r"
    MSET a 1 b 2|MSET {x}a 1 {x}b 2|SET a 1|SET b 1|DEL a a|DEL a b|EXISTS a b|TOUCH a b|UNLINK a b|MGET a b
    COPY a b|COPY {x}a {x}c DB 0|COPY {x}a {x}d|RENAME a b|SUNION a b|SINTERCARD 2 a b|SMOVE a b c|LCS a b
    PFCOUNT a b|PFMERGE a b|BITOP AND a b c|MSETNX a 1 b 2|XREAD STREAMS a b 0 0|XREAD STREAMS a b|BLPOP a b 1
    LMPOP 2 a b LEFT|ZUNIONSTORE d 2 a b|ZUNIONSTORE {a}d 2 a {a}b|GEORADIUS a 1 1 1 km STORE b|SORT a STORE b
    SORT {x}l BY nosort|OBJECT ENCODING a|DBSIZE|KEYS a
    SELECT 0|SELECT 1|SELECT 99|SELECT x|MOVE a 1|MOVE a 0|SWAPDB 0 1|SWAPDB 0 0
    REPLICAOF localhost 1|REPLICAOF NO ONE|SLAVEOF NO ONE|FAILOVER|READONLY|READWRITE|ASKING
    MULTI|SET a 1|SET b 2|EXEC|MULTI|MSET a 1 b 2|PING|EXEC|MULTI|SET a 1|SELECT 1|EXEC
    MULTI|SET a 1|SET {a}b 1|MGET a {a}b|EXEC|MULTI|EXEC|MULTI|PING|EXEC
    WATCH a b|WATCH a|MULTI|SET b 1|EXEC|MULTI|SPUBLISH a 1|SPUBLISH b 1|EXEC|MULTI|SPUBLISH a 1|SET b 1|EXEC
    SSUBSCRIBE a b|SPUBLISH a 1|PUBLISH a 1|PUBSUB SHARDNUMSUB a b
    CLUSTER KEYSLOT a|CLUSTER KEYSLOT {user1000}.following|CLUSTER KEYSLOT foo{}{bar}|CLUSTER KEYSLOT foo{{bar}}zap
    CLUSTER COUNTKEYSINSLOT 15495|CLUSTER COUNTKEYSINSLOT 16384|CLUSTER COUNTKEYSINSLOT -1|CLUSTER COUNTKEYSINSLOT x
    CLUSTER GETKEYSINSLOT 3300 10|CLUSTER GETKEYSINSLOT 3300 0|CLUSTER GETKEYSINSLOT 3300 -1
    CLUSTER GETKEYSINSLOT 16384 1|CLUSTER GETKEYSINSLOT x 1|CLUSTER GETKEYSINSLOT 1 x
    CLUSTER LINKS|CLUSTER COUNT-FAILURE-REPORTS x|CLUSTER REPLICAS x|CLUSTER SLAVES x|CLUSTER SAVECONFIG|CLUSTER INFO
    CLUSTER X|CLUSTER|CONFIG GET cluster-enabled|CONFIG SET cluster-enabled no|INFO cluster";

/// Requests that run scripts: the command, the text of the script, if there is one, and the rest.
#[cfg(feature = "lua")]
const SCRIPTS: &[(&str, &str, &str)] = &[
    ("EVAL", "return 1", "2 a b"),
    ("EVAL", "redis.call('SET','a','1') return redis.call('SET','b','2')", "0"),
    ("EVAL", "redis.call('SET','a','1') return redis.call('SET','b','2')", "1 a"),
    ("EVAL", "#!lua\nredis.call('SET','a','1') return redis.call('SET','b','2')", "0"),
    ("EVAL", "#!lua\nredis.pcall('SET','a','1') return redis.pcall('SET','b','2')", "0"),
    ("EVAL", "#!lua\nreturn redis.call('SET','b','2')", "1 a"),
    ("EVAL", "#!lua\nreturn redis.call('SET','a','2')", "1 a"),
    ("EVAL", "#!lua\nreturn redis.call('PING')", "1 a"),
    ("EVAL", "#!lua\nreturn redis.call('SPUBLISH','b','2')", "1 a"),
    ("EVAL", "#!lua\nreturn redis.call('PUBLISH','b','2')", "1 a"),
    ("EVAL", "#!lua\nreturn redis.call('DEL')", "0"),
    ("EVAL", "#!lua flags=allow-cross-slot-keys\nredis.call('SET','a','1') return redis.call('SET','b','2')", "0"),
    ("EVAL", "#!lua flags=allow-cross-slot-keys\nreturn redis.call('SET','b','2')", "2 a b"),
    ("EVAL", "return redis.call('SELECT',1)", "0"),
    ("EVAL", "return redis.call('SELECT',0)", "0"),
    (
        "FUNCTION LOAD",
        "#!lua name=l\nredis.register_function('f',function() redis.call('SET','a','1') return redis.call('SET','b','2') end)",
        "",
    ),
    (
        "FUNCTION LOAD",
        "#!lua name=m\nredis.register_function{function_name='g',callback=function() redis.call('SET','a','1') \
         return redis.call('SET','b','2') end,flags={'allow-cross-slot-keys'}}",
        "",
    ),
    ("FCALL", "f", "0"),
    ("FCALL", "f", "1 a"),
    ("FCALL", "f", "2 a b"),
    ("FCALL", "g", "0"),
    ("MULTI", "", ""),
    ("FCALL", "f", "0"),
    ("SET b 1", "", ""),
    ("EXEC", "", ""),
    ("MULTI", "", ""),
    ("EVAL", "#!lua\nreturn redis.call('SET','b','2')", "0"),
    ("EVAL", "#!lua\nreturn redis.call('SET','a','2')", "0"),
    ("EXEC", "", ""),
];

struct Nodes {
    _dir: tempfile::TempDir,
    _redis: Oracle,
    there: Peer,
    _server: TestServer,
    here: Client,
}

impl Nodes {
    /// Starts both servers; `None` without redis-server.
    fn start() -> Option<Self> {
        let (port, bus, dir) = (ReservedPort::new(), ReservedPort::new(), tempfile::tempdir().expect("a directory"));
        let (port, bus) = (port.port().to_string(), bus.port().to_string());
        let redis = Oracle::start_in(
            dir.path(),
            &["--cluster-enabled", "yes", "--port", &port, "--cluster-port", &bus, "--bind", "127.0.0.1"],
        )?;
        let server = TestServer::start_with(&[("cluster-enabled", "yes")]);
        let (there, here) = (redis.connect(), server.client());
        let mut nodes = Nodes { _dir: dir, _redis: redis, there, _server: server, here };
        nodes.ask_there(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        wait_until(|| nodes.ask_there(&["CLUSTER", "INFO"]).windows(16).any(|text| text == b"cluster_state:ok"));
        Some(nodes)
    }

    fn ask_there(&mut self, words: &[&str]) -> Vec<u8> {
        self.there.send(&encode(words));
        self.there.reply().expect("redis-server answers")
    }

    fn compare(&mut self, words: &[&str]) {
        let theirs = self.ask_there(words);
        self.here.send(&encode(words));
        let ours = self.here.read_raw().expect("keylatch answers");
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{words:?}");
    }
}

#[test]
fn a_cluster_of_one_node_answers_as_redis_does() {
    let Some(mut nodes) = Nodes::start() else { return };
    for request in REQUESTS.lines().flat_map(|line| line.trim().split('|')).filter(|request| !request.is_empty()) {
        nodes.compare(&request.split(' ').collect::<Vec<_>>());
    }
}

#[test]
#[cfg(feature = "lua")]
fn scripts_in_a_cluster_of_one_node_reach_the_keys_that_they_reach_in_redis() {
    let Some(mut nodes) = Nodes::start() else { return };
    for (command, text, rest) in SCRIPTS {
        let text = Some(*text).filter(|text| !text.is_empty());
        nodes.compare(&command.split(' ').chain(text).chain(rest.split_whitespace()).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_settings_announce_is_in_the_replies_that_redis_gives() {
    let Some(mut nodes) = Nodes::start() else { return };
    let own = |nodes: &mut Nodes, words: &[&str]| nodes.here.call(&words.join(" "));
    let set = |nodes: &mut Nodes, name: &str, value: &str| nodes.compare(&["CONFIG", "SET", name, value]);
    let their_id = String::from_utf8_lossy(&nodes.ask_there(&["CLUSTER", "MYID"])[5..45]).into_owned();
    let our_id = own(&mut nodes, &["CLUSTER", "MYID"]).split_once(' ').expect("text").1.to_owned();
    assert_eq!(our_id.len(), 40);
    for (name, value) in [
        ("cluster-announce-ip", "192.0.2.7"),
        ("cluster-announce-port", "77"),
        ("cluster-announce-bus-port", "79"),
        ("cluster-announce-hostname", "node.example"),
        ("cluster-preferred-endpoint-type", "hostname"),
        ("cluster-preferred-endpoint-type", "unknown-endpoint"),
        ("cluster-announce-hostname", ""),
        ("cluster-preferred-endpoint-type", "hostname"),
        ("cluster-preferred-endpoint-type", "ip"),
    ] {
        set(&mut nodes, name, value);
        for (protocol, question) in
            [("2", "NODES"), ("2", "SLOTS"), ("2", "SHARDS"), ("3", "NODES"), ("3", "SLOTS"), ("3", "SHARDS")]
        {
            nodes.ask_there(&["HELLO", protocol]);
            own(&mut nodes, &["HELLO", protocol]);
            let theirs = nodes.ask_there(&["CLUSTER", question]);
            nodes.here.send(&encode(&["CLUSTER", question]));
            let ours = nodes.here.read_raw().expect("keylatch answers");
            let shown = |reply: &[u8], id: &str| String::from_utf8_lossy(reply).replace(id, "ID");
            if name != "cluster-announce-ip" && name != "cluster-announce-port" {
                assert_eq!(shown(&ours, &our_id), shown(&theirs, &their_id), "{name} {value}: {question}");
            }
        }
    }
}
