//! Memory limit: commands that fail, keys that are evicted, and the limit itself.

use crate::harness::{Client, Dice, TestServer, wait_until};

const POLICIES: [&str; 9] = [
    "allkeys-random",
    "allkeys-lru",
    "allkeys-lrm",
    "allkeys-lfu",
    "volatile-lru",
    "volatile-lrm",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// Maximum amount by which memory may be below the limit after an eviction: one value more than needed, and memory that
/// counted only during the eviction: pending requests, up to one read and a value, and the spare room of their buffer.
/// It depends on how the requests arrived.
const SPARE_MAX: usize = 3 * 20_480 + 2 * 16 * 1024;

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

fn used(client: &mut Client) -> usize {
    client.info("used_memory").parse().expect("a number")
}

fn evicted(client: &mut Client) -> usize {
    client.info("evicted_keys").parse().expect("a number")
}

/// Sets the limit to the present memory usage plus this many bytes; returns it.
fn limit(client: &mut Client, more: usize) -> usize {
    let limit = used(client) + more;
    assert_eq!(client.call(&format!("CONFIG SET maxmemory {limit}")), "+OK");
    limit
}

#[test]
fn the_limit_holds_whatever_the_policy() {
    for policy in POLICIES {
        let server = TestServer::start_with(&[("maxmemory-policy", policy)]);
        let mut client = server.client();
        let limit = limit(&mut client, 600 * 1024);
        let mut dice = Dice::new(5);
        for round in 0..3 {
            for len in [1, 100, 1_000, 20_000] {
                let sets: Vec<String> = (0..100)
                    .map(|_| {
                        format!("SETEX k:{} 10000 {}", dice.roll(1 << 40), "x".repeat(1 + dice.roll(len) as usize))
                    })
                    .collect();
                assert!(client.pipeline(&sets).iter().all(|reply| reply == "+OK"), "{policy}");
                let used = used(&mut client);
                assert!(used < limit + 4096, "{policy}: {used} of {limit}");
                assert!(used > limit - SPARE_MAX || round == 0, "{policy}: {used} of {limit} is too little");
            }
        }
        assert!(evicted(&mut client) > 500, "{policy}");
    }
}

#[test]
fn many_clients_at_once_do_not_get_past_the_limit() {
    for policy in ["allkeys-lru", "volatile-ttl", "allkeys-random"] {
        let server = TestServer::start_on_workers(2);
        let mut client = server.client();
        client.call(&format!("CONFIG SET maxmemory-policy {policy}"));
        // Far more than the pending requests of the six clients, which count too.
        let limit = limit(&mut client, 1536 * 1024);
        std::thread::scope(|scope| {
            for number in 0..6 {
                let mut flood = server.client();
                scope.spawn(move || {
                    for round in 0..20 {
                        let set = |at| format!("SETEX k:{number}:{round}:{at} 1000 {}", "x".repeat(at));
                        let replies = flood.pipeline(&(0..200).map(set).collect::<Vec<_>>());
                        assert!(replies.iter().all(|reply| reply == "+OK"));
                    }
                });
            }
        });
        // The clients' buffers count until the server notices that they have disconnected.
        wait_until(|| used(&mut client) < limit + 4096);
        let used = used(&mut client);
        assert!(used > limit / 2, "{policy}: {used} of {limit}");
    }
}

#[test]
fn a_pipeline_is_refused_from_the_command_on_that_finds_no_memory() {
    let server = TestServer::start();
    let mut client = server.client();
    limit(&mut client, 350_000);
    // Short requests that make long strings. Pending requests count as used memory, too.
    let requests: Vec<String> = (0..10).map(|at| format!("SETRANGE k:{at} 99999 x")).collect();
    let replies = client.pipeline(&requests);
    assert_eq!(replies[..2], [":100000", ":100000"]);
    assert_eq!(replies[4..], [OOM; 6]);
    // Reads and deletions continue, and deletions free memory.
    client.expect(&[("STRLEN k:0", ":100000"), ("DEL k:0 k:1 k:2 k:3", &format!(":{}", client_dbsize(&server)))]);
    client.expect(&[("SET k v", "+OK")]);
}

fn client_dbsize(server: &TestServer) -> i64 {
    server.client().int("DBSIZE")
}

#[test]
fn volatile_policies_leave_keys_alone_that_do_not_end() {
    for policy in POLICIES.into_iter().filter(|policy| policy.starts_with("volatile")) {
        let server = TestServer::start_with(&[("maxmemory-policy", policy), ("maxmemory-eviction-tenacity", "100")]);
        let mut client = server.client();
        client.pipeline(&(0..1000).map(|at| format!("SET stays:{at} v")).collect::<Vec<_>>());
        client.pipeline(&(0..30).map(|at| format!("SET goes:{at} v EX 1000")).collect::<Vec<_>>());
        client.expect(&[("CONFIG SET maxmemory 1", "+OK"), ("SET new v", OOM), ("DBSIZE", ":1000")]);
        assert_eq!(evicted(&mut client), 30, "{policy}");
    }
}

#[test]
fn the_first_to_end_goes_first() {
    let server = TestServer::start_with(&[("maxmemory-policy", "volatile-ttl")]);
    let mut client = server.client();
    let mut dice = Dice::new(9);
    let sets: Vec<String> = (0..500)
        .map(|at| (dice.roll(1 << 20), at))
        .map(|(ttl, at)| format!("SET k:{at}:{ttl} v EX {}", ttl + 1000))
        .collect();
    client.pipeline(&sets);
    // A key that was given a longer TTL is not evicted by its old one.
    client.pipeline(&(0..300).map(|at| format!("SET long:{at} v EX 1")).collect::<Vec<_>>());
    client.pipeline(&(0..300).map(|at| format!("EXPIRE long:{at} 9000000")).collect::<Vec<_>>());
    client.call("SET stays v");
    let target = used(&mut client) - 8_000;
    client.expect(&[(&format!("CONFIG SET maxmemory {target}"), "+OK"), ("PING", "+PONG")]);
    let gone = evicted(&mut client);
    assert!(gone > 100 && gone < 400, "{gone}");
    let mut ends: Vec<(u64, &str)> = sets
        .iter()
        .map(|set| set.split(' ').nth(1).expect("a key"))
        .map(|key| (key.rsplit(':').next().and_then(|ttl| ttl.parse().ok()).expect("a time"), key))
        .collect();
    ends.sort_unstable();
    for (place, (_, key)) in ends.iter().enumerate() {
        assert_eq!(client.int(&format!("EXISTS {key}")), i64::from(place >= gone), "{key} at place {place} of {gone}");
    }
    client.expect(&[("EXISTS stays long:1 long:299", ":3")]);
}

/// Fills a server with old keys and 200 that are used all the time, by a command with this end of its arguments;
/// returns how many of the latter survive.
fn survivors(policy: &str, (command, end): (&str, &str), uses: usize) -> i64 {
    // More samples than the default of 5, with which a few more than 10 of the used keys are evicted now and then.
    let server = TestServer::start_with(&[("maxmemory-policy", policy), ("maxmemory-samples", "10")]);
    let mut client = server.client();
    client.pipeline(&(0..2000).map(|at| format!("SET k:{at} v EX 100000")).collect::<Vec<_>>());
    let get: Vec<String> = (0..200).map(|at| format!("{command} k:{}{end}", at * 10)).collect();
    for _ in 0..uses {
        server.advance_ms(1000);
        client.pipeline(&get);
    }
    limit(&mut client, 0);
    client.pipeline(&(0..1000).map(|at| format!("SET s:{at} v EX 100000")).collect::<Vec<_>>());
    let exists: Vec<String> = (0..200).map(|at| format!("EXISTS k:{}", at * 10)).collect();
    client.pipeline(&exists).iter().filter(|reply| *reply == ":1").count() as i64
}

#[test]
fn what_is_used_stays() {
    for (policy, uses) in [("allkeys-lru", 3), ("volatile-lru", 3), ("allkeys-lfu", 30), ("volatile-lfu", 30)] {
        let survivors = survivors(policy, ("GET", ""), uses);
        assert!(survivors >= 190, "{policy}: {survivors} of 200");
    }
    assert!(survivors("allkeys-random", ("GET", ""), 3) < 160);
}

#[test]
fn what_is_changed_stays_with_a_policy_of_changes_and_what_is_read_does_not() {
    for policy in ["allkeys-lrm", "volatile-lrm"] {
        let survivors = |using| survivors(policy, using, 3);
        let (changed, read) = (survivors(("SETRANGE", " 0 w")), survivors(("GET", "")));
        assert!(changed >= 190 && read < 160, "{policy}: {changed} and {read} of 200");
    }
}

#[test]
fn with_a_policy_of_changes_a_key_is_idle_since_its_last_change() {
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lrm"), ("enable-debug-command", "yes")]);
    let mut client = server.client();
    let prepare = ["SET s v", "SADD m a", "RPUSH l a", "HSET h f v", "SET n 1", "ZADD z 1 a", "XADD x 1-1 f v"];
    for (key, request, is_change) in [
        ("s", "GET s", false),
        ("s", "TOUCH s", false),
        ("s", "SETNX s w", false),
        ("s", "LPUSH s w", false),
        ("s", "SET s w", true),
        ("s", "APPEND s w", true),
        ("s", "EXPIRE s 1000", true),
        ("s", "PERSIST s", false),
        ("s", "RENAME s s2\r\nRENAME s2 s", true),
        ("m", "SADD m a", false),
        ("m", "SREM m b", false),
        ("m", "SADD m b", true),
        ("l", "LRANGE l 0 -1", false),
        ("l", "LSET l 0 a", true),
        ("l", "RPOPLPUSH l l", true),
        ("h", "HGETALL h", false),
        ("h", "HSET h f w", true),
        ("h", "HEXPIRE h 1000 FIELDS 1 f", true),
        ("n", "INCR n", true),
        ("z", "ZADD z NX 2 a", false),
        ("z", "ZADD z 2 a", true),
        ("x", "XRANGE x - +", false),
        ("x", "XADD x 2-1 f v", true),
    ] {
        client.call("FLUSHALL");
        prepare.iter().for_each(|request| drop(client.call(request)));
        server.advance_ms(10_000);
        request.split("\r\n").for_each(|request| drop(client.call(request)));
        let expected = if is_change { ":0" } else { ":10" };
        assert_eq!(client.call(&format!("OBJECT IDLETIME {key}")), expected, "{request}");
    }
    assert!(client.call("OBJECT FREQ s").starts_with("-ERR An LFU maxmemory policy is not selected"));
    client.expect(&[
        ("OBJECT REFCOUNT n", ":2147483647"),
        ("CONFIG SET maxmemory 1gb", "+OK"),
        ("OBJECT REFCOUNT n", ":1"),
        ("DEBUG RELOAD", "+OK"),
        ("OBJECT IDLETIME s", ":10"),
        ("CONFIG GET maxmemory-policy", "*2 $16 maxmemory-policy $11 allkeys-lrm"),
        ("CONFIG SET maxmemory-policy volatile-lrm", "+OK"),
        ("GET s", "$1 v"),
        ("OBJECT IDLETIME s", ":10"),
        ("CONFIG SET maxmemory-policy allkeys-lru", "+OK"),
        ("GET s", "$1 v"),
        ("OBJECT IDLETIME s", ":0"),
    ]);
    server.advance_ms(10_000);
    client.expect(&[("SET s v", "+OK"), ("OBJECT IDLETIME s", ":0"), ("OBJECT IDLETIME l", ":20")]);
    client.call("CONFIG SET maxmemory-policy volatile-lrm");
    assert_eq!(client.info("maxmemory_policy"), "volatile-lrm");
}

#[test]
fn a_step_evicts_few_keys_and_the_next_command_continues() {
    let server =
        TestServer::start_with(&[("maxmemory-policy", "allkeys-random"), ("maxmemory-eviction-tenacity", "0")]);
    let mut client = server.client();
    client.pipeline(&(0..1000).map(|at| format!("SET k:{at} v")).collect::<Vec<_>>());
    client.expect(&[("CONFIG SET maxmemory 1", "+OK"), ("DBSIZE", ":984"), ("DBSIZE", ":968")]);
    server.advance_ms(500);
    assert_eq!(client.info("current_eviction_exceeded_time"), "500");
    // There is more to evict, so no command fails yet.
    client.expect(&[("SET new v", "+OK"), ("CONFIG SET maxmemory-eviction-tenacity 100", "+OK"), ("DBSIZE", ":0")]);
    client.expect(&[("SET new v", OOM), ("CONFIG SET maxmemory 0", "+OK"), ("SET new v", "+OK")]);
    assert_eq!(client.info("total_eviction_exceeded_time"), "500");
    client.expect(&[("CONFIG SET maxmemory 100mb", "+OK"), ("PING", "+PONG")]);
    assert_eq!(client.info("current_eviction_exceeded_time"), "0");
    assert_eq!(client.info("maxmemory_human"), "100.00M");
    assert_eq!(client.info("maxmemory_policy"), "allkeys-random");
}

#[test]
fn keys_of_every_database_go() {
    let server = TestServer::start_with(&[("maxmemory-eviction-tenacity", "100")]);
    let mut client = server.client();
    for policy in POLICIES {
        client.call(&format!("CONFIG SET maxmemory-policy {policy}"));
        for db in [0, 3, 15] {
            client.call(&format!("SELECT {db}"));
            client.pipeline(&(0..100).map(|at| format!("SET k:{at} v EX 1000")).collect::<Vec<_>>());
        }
        client.expect(&[("CONFIG SET maxmemory 1", "+OK"), ("DBSIZE", ":0"), ("SELECT 0", "+OK"), ("DBSIZE", ":0")]);
        client.expect(&[("SELECT 3", "+OK"), ("DBSIZE", ":0"), ("CONFIG SET maxmemory 0", "+OK")]);
    }
    assert_eq!(evicted(&mut client), 300 * POLICIES.len());
}

#[test]
fn what_clients_send_and_do_not_read_counts_as_used() {
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);
    let mut client = server.client();
    client.pipeline(&(0..50).map(|at| format!("SETRANGE {at} 100000 x")).collect::<Vec<_>>());
    limit(&mut client, 1_000_000);
    let mut sending = server.client();
    sending.send(format!("*2\r\n$4\r\nECHO\r\n$3000000\r\n{}", "x".repeat(2_900_000)).as_bytes());
    wait_until(|| client.int("DBSIZE") != 50);
    sending.send(format!("{}\r\n", "x".repeat(100_000)).as_bytes());
    assert_eq!(sending.reply().len(), "$3000000 ".len() + 3_000_000);
    let mut gone = client.int("DBSIZE");
    let mut silent = server.client();
    silent.send("*2\r\n$3\r\nGET\r\n$2\r\n49\r\n".repeat(200).as_bytes());
    while client.int("DBSIZE") == gone {
        client.call("SETRANGE more 100000 x");
    }
    gone = client.int("DBSIZE");
    assert!(gone < 50);
}

#[test]
fn without_a_limit_nothing_is_counted_short_and_a_lifted_limit_is_forgotten() {
    let server = TestServer::start_with(&[("maxmemory", "1")]);
    let mut client = server.client();
    client.expect(&[("SET k v", OOM), ("CONFIG SET maxmemory 0", "+OK"), ("SET k v", "+OK")]);
    // Also within one pipeline.
    let replies = client.pipeline(&[
        "CONFIG SET maxmemory 1".into(),
        "SET k w".into(),
        "CONFIG SET maxmemory 0".into(),
        "SET k x".into(),
    ]);
    assert_eq!(replies, ["+OK", OOM, "+OK", "+OK"]);
}

#[test]
fn messages_that_wait_for_clients_count_as_used_memory_once_each() {
    const MESSAGE_LEN: usize = 100_000;
    let server = TestServer::start();
    let mut client = server.client();
    let mut slow: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut slow {
        assert_eq!(client.call("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
    }
    let before = used(&mut client);
    let publish = format!("PUBLISH news {}", "x".repeat(MESSAGE_LEN));
    // More than a socket buffers, so that most of it is pending.
    for _ in 0..300 {
        assert_eq!(client.call(&publish), ":4");
    }
    let waiting = used(&mut client) - before;
    // All 300 if none was read yet, each in an allocation of the next size class, 114,688 bytes.
    assert!((200 * MESSAGE_LEN..350 * MESSAGE_LEN).contains(&waiting), "{waiting}");
    drop(slow);
    wait_until(|| used(&mut client) < before + MESSAGE_LEN);
}

#[test]
fn messages_about_keys_that_are_evicted_do_not_make_more_of_them_go() {
    for options in ["BCAST", ""] {
        let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lru")]);
        let mut client = server.client();
        let mut listeners: Vec<Client> = (0..10).map(|_| server.client3()).collect();
        for listener in &mut listeners {
            assert_eq!(listener.call(format!("CLIENT TRACKING ON {options}").trim_end()), "+OK");
        }
        for number in 0..300 {
            let key = format!("{number}{}", "x".repeat(1_000));
            assert_eq!(client.call(&format!("SET {key} x")), "+OK");
            listeners.iter_mut().filter(|_| options.is_empty()).for_each(|listener| {
                assert_eq!(listener.call(&format!("GET {key}")), "$1 x");
            });
        }
        // Pending output counts as well, so the limit is set when there is none.
        for listener in listeners.iter_mut().filter(|_| !options.is_empty()) {
            (0..300).for_each(|_| assert!(listener.reply().starts_with(">2 $10 invalidate")));
        }
        let limit = used(&mut client) - 40_000;
        assert_eq!(client.call(&format!("CONFIG SET maxmemory {limit}")), "+OK");
        wait_until(|| evicted(&mut client) >= 10);
        for _ in 0..100 {
            assert_eq!(client.call("PING"), "+PONG");
        }
        assert!(evicted(&mut client) <= 50, "{} were evicted", evicted(&mut client));
    }
}

#[test]
fn random_eviction_takes_keys_of_every_database() {
    for policy in ["allkeys-random", "volatile-random"] {
        let server = TestServer::start_with(&[("maxmemory-policy", policy)]);
        let mut client = server.client();
        let value = "x".repeat(10_000);
        for db in [0, 3, 15] {
            client.call(&format!("SELECT {db}"));
            (0..100).for_each(|at| assert_eq!(client.call(&format!("SET k:{at} {value} EX 1000")), "+OK"));
        }
        // Half of the values: of three hundred keys in three databases, each loses about fifty.
        let limit = used(&mut client) - 150 * value.len();
        client.call(&format!("CONFIG SET maxmemory {limit}"));
        wait_until(|| used(&mut client) <= limit);
        for db in [0, 3, 15] {
            client.call(&format!("SELECT {db}"));
            let left = client.int("DBSIZE");
            assert!((20..=80).contains(&left), "{policy} leaves {left} of 100 keys in database {db}");
        }
    }
}

#[test]
fn a_candidate_that_was_used_since_it_was_sampled_is_not_evicted() {
    // All keys are sampled, so that what is evicted does not depend on chance.
    let server = TestServer::start_with(&[("maxmemory-policy", "allkeys-lru"), ("maxmemory-samples", "64")]);
    let mut client = server.client();
    let value = "x".repeat(10_000);
    let set = |client: &mut Client, keys: std::ops::Range<usize>, name: &str| {
        keys.for_each(|at| assert_eq!(client.call(&format!("SET {name}:{at} {value}")), "+OK"));
    };
    let left = |client: &mut Client| (0..30).filter(|at| client.int(&format!("EXISTS a:{at}")) == 1).count();
    set(&mut client, 0..30, "a");
    limit(&mut client, 10 * value.len());
    server.advance_ms(60_000);
    // Some are evicted, and others that were sampled with them stay candidates.
    set(&mut client, 0..20, "b");
    let before = left(&mut client);
    assert!((5..25).contains(&before));
    server.advance_ms(60_000);
    (0..30).for_each(|at| _ = client.call(&format!("GET a:{at}")));
    set(&mut client, 0..10, "c");
    assert_eq!(left(&mut client), before);
}
