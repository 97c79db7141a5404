//! A server that is a cluster of one node, with all slots (`cluster-enabled yes`), where redis-server 7.0.15 is no reference:
//! `differential/clusters.rs` has the rest.

use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer};

fn cluster() -> (TestServer, Client) {
    let server = TestServer::start_with(&[("cluster-enabled", "yes")]);
    let client = server.client();
    (server, client)
}

const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

#[test]
fn clients_learn_that_the_node_has_all_slots_at_the_address_that_they_have_reached() {
    let (server, mut client) = cluster();
    let (ip, port) = (server.addr().ip(), server.addr().port());
    let id = client.call("CLUSTER MYID").split_once(' ').expect("text").1.to_owned();
    assert_eq!(client.call("CLUSTER SLOTS"), format!("*1 *3 :0 :16383 *4 $9 {ip} :{port} $40 {id} *0"));
    let bus = port.wrapping_add(10_000);
    let line = format!("{id} {ip}:{port}@{bus} myself,master - 0 0 0 connected 0-16383 ");
    assert!(client.call("CLUSTER NODES").ends_with(&line), "{}", client.call("CLUSTER NODES"));
    let shard = client.call("CLUSTER MYSHARDID");
    assert!(shard.starts_with("$40 ") && !shard.contains(&id), "{shard}");
    for (field, value) in [("redis_mode", "cluster"), ("cluster_enabled", "1")] {
        assert_eq!(client.info(field), value);
    }
    assert!(client.call("HELLO 3").contains("$4 mode $7 cluster"));
    client.expect(&[
        (&format!("CLUSTER REPLICAS {id}"), "*0"),
        (&format!("CLUSTER COUNT-FAILURE-REPORTS {id}"), ":0"),
        ("CLUSTER REPLICAS x", "-ERR Unknown node x"),
    ]);
    assert!(client.call("CLUSTER HELP").contains("MYSHARDID"));
}

#[test]
fn nothing_changes_the_slots_or_the_nodes() {
    let (_server, mut client) = cluster();
    for request in [
        "MEET 127.0.0.1 1",
        "ADDSLOTS 1",
        "ADDSLOTSRANGE 0 1",
        "DELSLOTS 1",
        "DELSLOTSRANGE 0 1",
        "FLUSHSLOTS",
        "FORGET x",
        "REPLICATE x",
        "RESET",
        "FAILOVER",
        "BUMPEPOCH",
        "SET-CONFIG-EPOCH 1",
        "SETSLOT 1 STABLE",
    ] {
        let name = request.split(' ').next().expect("a name").to_lowercase();
        let error =
            format!("-ERR 'cluster|{name}' is not possible: this server is a cluster of one node, which has all slots");
        assert_eq!(client.call(&format!("CLUSTER {request}")), error);
    }
}

#[test]
fn keys_of_one_call_are_in_one_slot_whoever_makes_it() {
    let (server, mut client) = cluster();
    client.expect(&[
        ("LOCK.ACQUIREMULTI 2 a b token", CROSS_SLOT),
        ("ZADD {z}a 1 m", ":1"),
        ("ZUNION 2 {z}a {y}a", CROSS_SLOT),
        ("COPY {z}a {z}b DB 1", "-ERR DB index is out of range"),
        ("COPY {z}a {z}b DB 0", ":1"),
        ("LMOVEM a b LEFT LEFT", CROSS_SLOT),
    ]);
    // A user of few rights is told of the right that it lacks first, as in Redis.
    client.expect(&[("ACL SETUSER u on nopass ~a +mget", "+OK"), ("AUTH u x", "+OK")]);
    assert!(client.call("MGET a b").starts_with("-NOPERM"));
    // A blocked client is served in its slot.
    let mut blocked = server.block("BLPOP {q}1 {q}2 0");
    server.client().expect(&[("RPUSH {q}2 x", ":1")]);
    assert_eq!(blocked.reply(), "*2 $4 {q}2 $1 x");
}

#[test]
#[cfg(feature = "lua")]
fn a_script_is_told_which_of_its_calls_crosses_slots() {
    let (_server, mut client) = cluster();
    let crossing = |name: &str| {
        format!("-ERR Command '{name}' in script attempted to access keys that don't hash to the same slot script: ")
    };
    for (text, name) in [
        ("return redis.call('MSET','a','1','b','2')", "mset"),
        ("#!lua flags=allow-cross-slot-keys\nreturn redis.call('DEL','a','b')", "del"),
        ("return redis.call('COPY','a','b')", "copy"),
    ] {
        let reply = client.call_args(&["EVAL", text, "0"]);
        assert!(reply.starts_with(&crossing(name)), "{reply}");
    }
    // The slot of one call is not that of the next.
    let set = |key: &str| format!("#!lua\nreturn redis.call('SET','{key}','1')");
    for key in ["a", "b", "c"] {
        assert_eq!(client.call_args(&["EVAL", &set(key), "0"]), "+OK");
    }
}

#[test]
fn sort_reads_other_keys_of_its_slot_only() {
    let (_server, mut client) = cluster();
    let denied = |option: &str| {
        let rest = "denied in Cluster mode when keys formed by the pattern may be in different slots.";
        format!("-ERR {option} option of SORT {rest}")
    };
    client.expect(&[("RPUSH {x}l 2 1", ":2"), ("MSET {x}w_1 2 {x}w_2 1 {x}o_1 one", "+OK")]);
    client.expect(&[
        ("SORT {x}l BY w_*", &denied("BY")),
        ("SORT {x}l BY w_*{x}", &denied("BY")),
        ("SORT {x}l BY {y}w_*", &denied("BY")),
        ("SORT_RO {x}l BY w_*", &denied("BY")),
        ("SORT {x}l GET o_*", &denied("GET")),
        ("SORT {x}l GET o", &denied("GET")),
        ("SORT {x}l BY {x}w_*", "*2 $1 2 $1 1"),
        ("SORT {x}l GET # GET {x}o_*", "*4 $1 1 $3 one $1 2 $-1"),
        ("SORT {x}l BY nosort", "*2 $1 2 $1 1"),
    ]);
}

#[test]
fn keys_of_slots_are_counted_and_listed() {
    let (server, mut client) = cluster();
    let many = (0..5000).map(|number| format!("SET {{other}}{number} v"));
    client.pipeline(&many.collect::<Vec<_>>());
    client.expect(&[("SET {a}1 v PX 1000", "+OK"), ("SET {a}2 v", "+OK"), ("SET b v", "+OK")]);
    client.expect(&[("CLUSTER COUNTKEYSINSLOT 15495", ":2"), ("CLUSTER GETKEYSINSLOT 15495 0", "*0")]);
    assert!(client.call("CLUSTER GETKEYSINSLOT 15495 1").starts_with("*1 $4 {a}"));
    server.advance_ms(1000);
    client.expect(&[
        ("CLUSTER COUNTKEYSINSLOT 15495", ":1"),
        ("CLUSTER GETKEYSINSLOT 15495 10", "*1 $4 {a}2"),
        ("CLUSTER SLOT-STATS SLOTSRANGE 15495 15495", "*1 *2 :15495 *2 $9 key-count :1"),
    ]);
    let counted = client.call("CLUSTER SLOT-STATS SLOTSRANGE 0 16383");
    let sum: u64 = counted
        .split("key-count :")
        .skip(1)
        .map(|rest| rest.split(' ').next().unwrap_or(""))
        .map(|count| count.parse::<u64>().expect("a number"))
        .sum();
    assert_eq!(sum, 5002);
}

/// Makes a walk of CLUSTERSCAN; returns the keys, sorted, with duplicates, and the slots of the cursors.
fn walk(client: &mut Client, options: &str) -> (Vec<String>, Vec<String>) {
    let (mut cursor, mut keys, mut slots) = ("0".to_owned(), Vec::new(), Vec::new());
    loop {
        let reply = client.call(format!("CLUSTERSCAN {cursor} {options}").trim_end());
        let words: Vec<&str> = reply.split(' ').collect();
        assert_eq!(words[0], "*2", "{reply}");
        cursor = words[2].to_owned();
        keys.extend(words[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
        if cursor == "0" {
            keys.sort();
            return (keys, slots);
        }
        slots.push(client.call(&format!("CLUSTER KEYSLOT {cursor}")));
    }
}

#[test]
fn clusterscan_finds_all_keys_or_those_of_a_slot() {
    let (_server, mut client) = cluster();
    let mut all: Vec<String> = (0..300).map(|number| format!("key:{number}")).collect();
    client.pipeline(&all.iter().map(|key| format!("SET {key} v")).collect::<Vec<_>>());
    client.expect(&[("MSET {a}1 v {a}2 v", "+OK"), ("RPUSH {a}list v", ":1")]);
    all.extend(["{a}1", "{a}2", "{a}list"].map(str::to_owned));
    all.sort();
    for options in ["", "COUNT 1", "COUNT 100", "COUNT 100000"] {
        let (keys, slots) = walk(&mut client, options);
        assert_eq!(keys, all, "{options}");
        assert!(slots.iter().all(|slot| slot == ":0"), "{slots:?}");
    }
    for options in ["SLOT 15495", "SLOT 15495 COUNT 1", "COUNT 1000 SLOT 15495 MATCH {a}*"] {
        let (keys, slots) = walk(&mut client, options);
        assert_eq!(keys, ["{a}1", "{a}2", "{a}list"], "{options}");
        assert!(slots.iter().all(|slot| slot == ":15495"), "{slots:?}");
    }
    assert_eq!(walk(&mut client, "TYPE list").0, ["{a}list"]);
    assert_eq!(walk(&mut client, "MATCH key:77").0, ["key:77"]);
    assert_eq!(walk(&mut client, "SLOT 1").0, Vec::<String>::new());
}

#[test]
fn a_clusterscan_of_one_slot_may_go_on_with_those_after_it() {
    let (_server, mut client) = cluster();
    client.expect(&[("MSET {b}1 v {b}2 v {b}3 v", "+OK"), ("SET a v", "+OK"), ("SET {before}1 v", "+OK")]);
    let (b, a) = (3300, 15495);
    let first = client.call(&format!("CLUSTERSCAN 0 SLOT {b} COUNT 1"));
    let mut cursor = first.split(' ').nth(2).expect("a cursor").to_owned();
    let mut keys: Vec<String> = first.split(' ').filter(|word| word.starts_with('{')).map(str::to_owned).collect();
    assert_eq!(client.call(&format!("CLUSTERSCAN {cursor} SLOT {a}")), "-ERR the cursor is in another slot than SLOT");
    while cursor != "0" {
        let reply = client.call(&format!("CLUSTERSCAN {cursor} COUNT 1"));
        let words: Vec<&str> = reply.split(' ').collect();
        keys.extend(words[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
        cursor = words[2].to_owned();
    }
    keys.sort();
    let before = client.int("CLUSTER KEYSLOT {before}1") > b;
    let expected: Vec<&str> =
        ["a"].into_iter().chain(before.then_some("{before}1")).chain(["{b}1", "{b}2", "{b}3"]).collect();
    assert_eq!(keys, expected);
}

#[test]
fn wrong_cursors_and_slots_of_clusterscan_are_refused_and_old_ones_begin_again() {
    let (_server, mut client) = cluster();
    client.call("SET {a}1 v");
    const INVALID: &str = "-ERR invalid cursor";
    for (request, reply) in [
        ("x", INVALID),
        ("1", INVALID),
        ("f-{a}", INVALID),
        ("f-{a}-x", INVALID),
        ("f{a}-1", INVALID),
        ("-{a}-1", INVALID),
        ("f-{}-1", INVALID),
        ("0 SLOT 16384", "-ERR Invalid slot"),
        ("0 SLOT -1", "-ERR Invalid slot"),
        ("0 SLOT x", "-ERR value is not an integer or out of range"),
        ("0 SLOT 1 SLOT 1", "-ERR syntax error"),
        ("0 COUNT 0", "-ERR syntax error"),
        ("0 SLOT", "-ERR syntax error"),
        ("0 WITH", "-ERR syntax error"),
        ("of-before-s-{a}-77 SLOT 15495", "*2 $1 0 *1 $4 {a}1"),
        ("of-before-a-{a}-77", "*2 $1 0 *1 $4 {a}1"),
    ] {
        assert_eq!(client.call(&format!("CLUSTERSCAN {request}")), reply, "{request}");
    }
}

/// The errors are those of Valkey 8.1, which has the command in the same form.
#[test]
fn slots_are_ordered_by_their_keys() {
    let (_server, mut client) = cluster();
    client.expect(&[("MSET {a}1 v {a}2 v", "+OK"), ("SET b v", "+OK")]);
    const LIMIT: &str = "-ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
    const TWICE: &str = "-ERR Multiple filters of the same type are disallowed.";
    const RANGE: &str = "-ERR Invalid or out of range slot";
    const UNKNOWN: &str = "-ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.";
    for (options, reply) in [
        (
            "ORDERBY key-count LIMIT 3",
            "*3 *2 :15495 *2 $9 key-count :2 *2 :3300 *2 $9 key-count :1 *2 :0 *2 $9 key-count :0",
        ),
        ("ORDERBY KEY-COUNT asc limit 1", "*1 *2 :0 *2 $9 key-count :0"),
        ("ORDERBY key-count DESC LIMIT 1", "*1 *2 :15495 *2 $9 key-count :2"),
        ("ORDERBY key-count ASC LIMIT 2 DESC", TWICE),
        ("ORDERBY key-count LIMIT 1 LIMIT 2", TWICE),
        ("ORDERBY key-count LIMIT 0", LIMIT),
        ("ORDERBY key-count LIMIT 16385", LIMIT),
        ("ORDERBY key-count LIMIT x", LIMIT),
        ("ORDERBY key-count LIMIT", "-ERR syntax error"),
        ("ORDERBY key-count y", "-ERR syntax error"),
        ("ORDERBY cpu-usec", "-ERR Unrecognized sort metric for ORDERBY."),
        ("SLOTSRANGE 1 0", "-ERR Start slot number 1 is greater than end slot number 0"),
        ("SLOTSRANGE 0 16384", RANGE),
        ("SLOTSRANGE -1 1", RANGE),
        ("SLOTSRANGE x 1", RANGE),
        ("SLOTSRANGE 0 1 2", UNKNOWN),
        ("x 1", UNKNOWN),
    ] {
        assert_eq!(client.call(&format!("CLUSTER SLOT-STATS {options}")), reply, "{options}");
    }
}

#[test]
fn the_ids_of_a_node_are_kept_in_its_file_and_those_of_redis_taken_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_str().expect("text");
    let start = || {
        let settings =
            [("cluster-enabled", "yes"), ("dir", path), ("cluster-config-file", "nodes.conf"), ("save", "''")];
        let server = TestServer::start_on(Clock::system(), &settings);
        let mut client = server.client();
        ["CLUSTER MYID", "CLUSTER MYSHARDID"].map(|request| client.call(request))
    };
    let ids = start();
    assert_eq!(start(), ids);
    let file = dir.path().join("nodes.conf");
    let id = "cf94cc81097749666020548dacd2f1742e05a485";
    let of_redis =
        format!("{id} :7301@17301 myself,master - 0 0 1 connected 0-16383\nvars currentEpoch 1 lastVoteEpoch 0\n");
    std::fs::write(&file, &of_redis).expect("written");
    assert_eq!(start()[0], format!("$40 {id}"));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), of_redis);
    std::fs::write(&file, "").expect("written"); // as after a crash at the first start
    assert_ne!(start()[0], format!("$40 {id}"));
    assert!(std::fs::read_to_string(&file).expect("a file").contains("myself"));
    for (text, reason) in [
        (format!("{of_redis}{id} :1@2 master - 0 0 2 connected\n"), "it has another node"),
        ("nonsense\n".to_owned(), "no line about a node"),
    ] {
        std::fs::write(&file, text).expect("written");
        let settings = format!("cluster-enabled yes\ncluster-config-file nodes.conf\ndir {path}\nport 0");
        let error = Server::builder().settings(&settings).start_blocking().err().expect("refused").to_string();
        assert!(error.contains("nodes.conf") && error.contains(reason), "{error}");
    }
}

#[test]
fn a_private_instance_is_a_node_of_its_own() {
    let server = TestServer::start_with(&[("cluster-enabled", "yes"), ("test-mode", "yes")]);
    let (mut main, mut private) = (server.client(), server.client());
    private.expect(&[("AUTH ns-a any", "+OK"), ("MSET a 1 b 2", CROSS_SLOT)]);
    assert_ne!(main.call("CLUSTER MYID"), private.call("CLUSTER MYID"));
    assert_eq!(private.call("SELECT 1"), "-ERR SELECT is not allowed in cluster mode");
}

#[test]
fn what_a_cluster_of_one_node_cannot_be_prevents_the_start() {
    let settings = "cluster-enabled yes\nreplicaof localhost 1";
    let error = Server::builder().settings(settings).start_blocking().err().expect("refused").to_string();
    assert!(error.contains("replicaof directive not allowed in cluster mode"), "{error}");
}

#[test]
fn data_of_other_databases_prevents_the_start_and_a_log_of_before_is_replayed() {
    let start = |dir: &str, more: &str| {
        let settings = format!("dir {dir}\nport 0\nappendonly yes\nsave ''\n{more}");
        Server::builder().settings(&settings).start_blocking()
    };
    for is_refused in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("text");
        let before = start(path, "").expect("it starts");
        let mut client = Client::connect(before.addr());
        client.expect(&[("SELECT 1", "+OK"), ("SET k v", "+OK"), ("MOVE k 0", ":1"), ("SWAPDB 0 1", "+OK")]);
        client.expect(&[("SWAPDB 0 1", "+OK"), ("SELECT 1", "+OK")]);
        if is_refused {
            assert_eq!(client.call("SET k v"), "+OK");
        }
        drop(before);
        match start(path, "cluster-enabled yes") {
            Ok(server) => {
                assert!(!is_refused);
                Client::connect(server.addr())
                    .expect(&[("GET k", "$1 v"), ("SELECT 1", "-ERR SELECT is not allowed in cluster mode")]);
            }
            Err(error) => {
                assert!(is_refused, "{error}");
                assert!(error.to_string().contains("keys in database 1"), "{error}");
            }
        }
    }
}
