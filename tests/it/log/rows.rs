//! Every command that writes, taken from the table of commands: its changes are in the log, and a second server that
//! replays the log has the same keys, fences and functions.

use std::collections::BTreeSet;

use super::{assert_replayed, start, take};
use keylatch::internals::resp::Frame;

use crate::harness::{Client, TestServer};
use crate::probabilistic::rows as probabilistic;

/// Name in the table of commands, the requests before it, and the request: words separated by blanks, requests by `; `.
pub(crate) type Story = (&'static str, &'static str, &'static str);

#[rustfmt::skip] // a table
pub(crate) const STORIES: &[Story] = &[
    ("append", "", "APPEND k x"),
    ("bitfield", "", "BITFIELD k SET u8 0 200"),
    ("bitop", "SET a abc", "BITOP NOT k a"),
    ("blmove", "RPUSH l a b", "BLMOVE l k LEFT RIGHT 1"),
    ("blmovem", "RPUSH l a b c", "BLMOVEM l k LEFT LEFT 1 COUNT 2 OBO"),
    ("blmpop", "RPUSH l a b", "BLMPOP 1 2 missing l LEFT COUNT 1"),
    ("blpop", "RPUSH l a b", "BLPOP missing l 1"),
    ("brpop", "RPUSH l a b", "BRPOP l 1"),
    ("brpoplpush", "RPUSH l a b", "BRPOPLPUSH l k 1"),
    ("bzmove", "ZADD z 1 a 2 b", "BZMOVE z k MAX 1"),
    ("bzmpop", "ZADD z 1 a 2 b", "BZMPOP 1 1 z MIN COUNT 1"),
    ("bzpopmax", "ZADD z 1 a 2 b", "BZPOPMAX z 1"),
    ("bzpopmin", "ZADD z 1 a 2 b", "BZPOPMIN z 1"),
    ("copy", "SET a v PX 9000", "COPY a k"),
    ("decr", "", "DECR k"),
    ("decrby", "", "DECRBY k 3"),
    ("del", "SET k v", "DEL k missing"),
    ("delex", "SET k v", "DELEX k IFEQ v"),
    ("delifeq", "SET k v", "DELIFEQ k v"),
    ("delifgreater", "SETIFGREATER k v 3", "DELIFGREATER k 4"),
    ("expire", "SET k v", "EXPIRE k 9"),
    ("expireat", "SET k v", "EXPIREAT k 1700000009"),
    ("flushall", "SET k v; SELECT 1; SET k v", "FLUSHALL"),
    ("flushdb", "SET k v; SELECT 1; SET k v", "FLUSHDB"),
    ("geoadd", "", "GEOADD g 13.361389 38.115556 a"),
    ("georadius", "GEOADD g 13.361389 38.115556 a", "GEORADIUS g 15 37 200 km STORE k"),
    ("georadiusbymember", "GEOADD g 13.361389 38.115556 a", "GEORADIUSBYMEMBER g a 200 km STOREDIST k"),
    ("geosearchstore", "GEOADD g 13.361389 38.115556 a", "GEOSEARCHSTORE k g FROMLONLAT 15 37 BYRADIUS 200 km"),
    ("getdel", "SET k v", "GETDEL k"),
    ("getex", "SET k v", "GETEX k EX 9"),
    ("getset", "SET k v PX 9000", "GETSET k w"),
    ("hdel", "HSET h a 1 b 2", "HDEL h a"),
    ("hexpire", "HSET h a 1 b 2", "HEXPIRE h 9 FIELDS 1 a"),
    ("hexpireat", "HSET h a 1 b 2", "HEXPIREAT h 1700000009 FIELDS 1 a"),
    ("hgetdel", "HSET h a 1 b 2", "HGETDEL h FIELDS 1 a"),
    ("hgetex", "HSET h a 1 b 2", "HGETEX h PX 9000 FIELDS 1 a"),
    ("himport|set", "HIMPORT PREPARE f a b; HSET k x y; PEXPIRE k 9000", "HIMPORT SET k f 1 2"),
    ("hincrby", "", "HINCRBY h a 2"),
    ("hincrbyfloat", "HSET h a 1", "HINCRBYFLOAT h a 0.1"),
    ("hmset", "", "HMSET h a 1 b 2"),
    ("hpersist", "HSET h a 1; HEXPIRE h 9 FIELDS 1 a", "HPERSIST h FIELDS 1 a"),
    ("hpexpire", "HSET h a 1 b 2", "HPEXPIRE h 9000 FIELDS 2 a b"),
    ("hpexpireat", "HSET h a 1 b 2", "HPEXPIREAT h 1600000009000 FIELDS 2 a b"),
    ("hset", "", "HSET h a 1"),
    ("hsetex", "", "HSETEX h PX 9000 FIELDS 1 a 1"),
    ("hsetnx", "", "HSETNX h a 1"),
    ("incr", "", "INCR k"),
    ("incrby", "", "INCRBY k 3"),
    ("incrbyfloat", "SET k 0.1 PX 9000", "INCRBYFLOAT k 0.2"),
    ("increx", "", "INCREX k BYINT 3 PX 9000"),
    #[cfg(feature = "json")]
    ("json.arrappend", "JSON.SET j $ [1]", "JSON.ARRAPPEND j $ 2"),
    #[cfg(feature = "json")]
    ("json.arrinsert", "JSON.SET j $ [1]", "JSON.ARRINSERT j $ 0 2"),
    #[cfg(feature = "json")]
    ("json.arrpop", "JSON.SET j $ [1,2]", "JSON.ARRPOP j"),
    #[cfg(feature = "json")]
    ("json.arrtrim", "JSON.SET j $ [1,2]", "JSON.ARRTRIM j . 0 0"),
    #[cfg(feature = "json")]
    ("json.clear", "JSON.SET j $ [1,2]", "JSON.CLEAR j"),
    #[cfg(feature = "json")]
    ("json.del", "JSON.SET j $ [1,2]", "JSON.DEL j $[0]"),
    #[cfg(feature = "json")]
    ("json.forget", "JSON.SET j $ [1,2]", "JSON.FORGET j"),
    #[cfg(feature = "json")]
    ("json.merge", "JSON.SET j $ {\"a\":1}", "JSON.MERGE j $ {\"a\":null,\"b\":2}"),
    #[cfg(feature = "json")]
    ("json.mset", "", "JSON.MSET j $ 1 k $ 2"),
    #[cfg(feature = "json")]
    ("json.numincrby", "JSON.SET j $ 1.5", "JSON.NUMINCRBY j $ 0.1"),
    #[cfg(feature = "json")]
    ("json.nummultby", "JSON.SET j $ 3", "JSON.NUMMULTBY j $ 7"),
    #[cfg(feature = "json")]
    ("json.numpowby", "JSON.SET j $ 3", "JSON.NUMPOWBY j $ 7"),
    #[cfg(feature = "json")]
    ("json.set", "", "JSON.SET j $ [1]"),
    #[cfg(feature = "json")]
    ("json.strappend", "JSON.SET j $ \"a\"", "JSON.STRAPPEND j \"b\""),
    #[cfg(feature = "json")]
    ("json.toggle", "JSON.SET j $ true", "JSON.TOGGLE j $"),
    ("linsert", "RPUSH l a b", "LINSERT l BEFORE b x"),
    ("lmove", "RPUSH l a b", "LMOVE l k LEFT RIGHT"),
    ("lmovem", "RPUSH l a b c; EXPIRE l 9", "LMOVEM l l LEFT LEFT EXACTLY 3 OBO"),
    ("lmpop", "RPUSH l a b", "LMPOP 1 l RIGHT COUNT 2"),
    ("lock.acquire", "LOCK.ACQUIRE k other SHARED PX 9000", "LOCK.ACQUIRE k token SHARED PX 5000 META text"),
    ("lock.acquiremulti", "", "LOCK.ACQUIREMULTI 2 k l token PX 9000 META text"),
    ("lock.fence", "SET k token PX 9000", "LOCK.FENCE k token"),
    ("lock.release", "LOCK.ACQUIRE k token PX 9000", "LOCK.RELEASE k token"),
    ("lock.renew", "LOCK.ACQUIRE k token PX 9000", "LOCK.RENEW k token PX 20000"),
    ("lock.resize", "LOCK.ACQUIRE k token PERMITS 2 OF 3 PX 9000", "LOCK.RESIZE k 9"),
    ("lock.resume", "LOCK.ACQUIRE k token PX 9000", "LOCK.RESUME token"),
    ("lpop", "RPUSH l a b", "LPOP l"),
    ("lpush", "", "LPUSH l a b"),
    ("lpushx", "RPUSH l a", "LPUSHX l b"),
    ("lrem", "RPUSH l a b a", "LREM l 0 a"),
    ("lset", "RPUSH l a b", "LSET l 0 x"),
    ("ltrim", "RPUSH l a b c", "LTRIM l 1 1"),
    ("move", "SET k v PX 9000", "MOVE k 1"),
    ("mset", "", "MSET k 1 l 2"),
    ("msetex", "", "MSETEX 2 k 1 l 2 EX 9"),
    ("msetnx", "", "MSETNX k 1 l 2"),
    ("persist", "SET k v PX 9000", "PERSIST k"),
    ("pexpire", "SET k v", "PEXPIRE k 9000"),
    ("pexpireat", "SET k v", "PEXPIREAT k 1700000009000"),
    ("pfadd", "", "PFADD k a b"),
    ("pfdebug", "PFADD k a b", "PFDEBUG TODENSE k"),
    ("pfmerge", "PFADD a x; PFADD b y", "PFMERGE k a b"),
    ("psetex", "", "PSETEX k 9000 v"),
    ("rename", "SET a v PX 9000", "RENAME a k"),
    ("renamenx", "SETIFGREATER a v 3", "RENAMENX a k"),
    ("rpop", "RPUSH l a b", "RPOP l 2"),
    ("rpoplpush", "RPUSH l a b", "RPOPLPUSH l k"),
    ("rpush", "", "RPUSH l a b"),
    ("rpushx", "RPUSH l a", "RPUSHX l b"),
    ("sadd", "", "SADD s a b"),
    ("saddex", "SADDEX s EX 9 MEMBERS 1 b", "SADDEX s PX 9000 MEMBERS 2 a b"),
    ("sdiffstore", "SADD s a b; SADD t b", "SDIFFSTORE k s t"),
    ("set", "", "SET k v PX 9000"),
    ("setbit", "", "SETBIT k 7 1"),
    ("setex", "", "SETEX k 9 v"),
    ("setifgreater", "", "SETIFGREATER k v 3"),
    ("setnx", "", "SETNX k v"),
    ("setrange", "SET k abc", "SETRANGE k 1 x"),
    ("sexpire", "SADD s a b", "SEXPIRE s 9 MEMBERS 1 a"),
    ("sexpireat", "SADD s a b", "SEXPIREAT s 1700000009 MEMBERS 1 a"),
    ("sinterstore", "SADD s a b; SADD t b", "SINTERSTORE k s t"),
    ("smove", "SADD s a b", "SMOVE s k a"),
    ("spersist", "SADDEX s EX 9 MEMBERS 2 a b", "SPERSIST s MEMBERS 1 a"),
    ("spexpire", "SADD s a b", "SPEXPIRE s 9000 MEMBERS 2 a b"),
    ("spexpireat", "SADD s a b", "SPEXPIREAT s 1600000009000 MEMBERS 2 a b"),
    ("sort", "RPUSH l 3 1 2", "SORT l STORE k"),
    ("spop", "SADD s a b c", "SPOP s 2"),
    ("srem", "SADD s a b", "SREM s a"),
    ("sunionstore", "SADD s a b; SADD t c", "SUNIONSTORE k s t"),
    ("swapdb", "SET k v", "SWAPDB 0 1"),
    ("unlink", "SET k v", "UNLINK k"),
    #[cfg(feature = "vectors")]
    ("vadd", "", "VADD k VALUES 3 1 2 3 a SETATTR {}"),
    #[cfg(feature = "vectors")]
    ("vrem", "VADD k VALUES 3 1 2 3 a; VADD k VALUES 3 1 2 4 b", "VREM k a"),
    #[cfg(feature = "vectors")]
    ("vsetattr", "VADD k VALUES 3 1 2 3 a", "VSETATTR k a {}"),
    ("xack", "XADD s 1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >", "XACK s g 1-0"),
    ("xackdel", "XADD s 1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >", "XACKDEL s g IDS 1 1-0"),
    ("xadd", "", "XADD s * f v"),
    ("xautoclaim", "XADD s 1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >", "XAUTOCLAIM s g d 0 0"),
    ("xcfgset", "XADD s 1 f v", "XCFGSET s IDMP-MAXSIZE 5"),
    ("xclaim", "XADD s 1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >", "XCLAIM s g d 0 1-0"),
    ("xdel", "XADD s 1 f v; XADD s 2 f v", "XDEL s 1-0"),
    ("xdelex", "XADD s 1 f v; XADD s 2 f v", "XDELEX s IDS 1 1-0"),
    ("xgroup|create", "", "XGROUP CREATE s g $ MKSTREAM"),
    ("xgroup|createconsumer", "XGROUP CREATE s g $ MKSTREAM", "XGROUP CREATECONSUMER s g c"),
    ("xgroup|delconsumer", "XGROUP CREATE s g $ MKSTREAM; XGROUP CREATECONSUMER s g c", "XGROUP DELCONSUMER s g c"),
    ("xgroup|destroy", "XGROUP CREATE s g $ MKSTREAM", "XGROUP DESTROY s g"),
    ("xgroup|setid", "XADD s 1 f v; XGROUP CREATE s g 0", "XGROUP SETID s g 1-0"),
    ("xidmprecord", "XADD s 1 f v", "XIDMPRECORD s p n 1-0"),
    ("xnack", "XADD s 1 f v; XGROUP CREATE s g 0; XREADGROUP GROUP g c STREAMS s >", "XNACK s g FAIL IDS 1 1-0"),
    ("xreadgroup", "XADD s 1 f v; XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"),
    ("xsetid", "XADD s 1 f v", "XSETID s 9-0"),
    ("xtrim", "XADD s 1 f v; XADD s 2 f v", "XTRIM s MAXLEN = 1"),
    ("zadd", "", "ZADD z 1 a 2 b"),
    ("zdiffstore", "ZADD z 1 a 2 b; ZADD y 1 a", "ZDIFFSTORE k 2 z y"),
    ("zincrby", "", "ZINCRBY z 0.1 a"),
    ("zinterstore", "ZADD z 1 a 2 b; ZADD y 1 a", "ZINTERSTORE k 2 z y"),
    ("zmove", "ZADD z 1 a 2 b 3 c; ZADD k 9 b; EXPIRE k 9", "ZMOVE z k BYSCORE (1 3"),
    ("zmovemember", "ZADD z 1 a 2 b; ZADD k 9 b", "ZMOVEMEMBER z k XX MEMBERS 2 a b"),
    ("zmpop", "ZADD z 1 a 2 b", "ZMPOP 2 missing z MAX"),
    ("zpopmax", "ZADD z 1 a 2 b", "ZPOPMAX z"),
    ("zpopmin", "ZADD z 1 a 2 b", "ZPOPMIN z 2"),
    ("zrangestore", "ZADD z 1 a 2 b", "ZRANGESTORE k z 0 0"),
    ("zrem", "ZADD z 1 a 2 b", "ZREM z a"),
    ("zremrangebylex", "ZADD z 0 a 0 b", "ZREMRANGEBYLEX z - [a"),
    ("zremrangebyrank", "ZADD z 1 a 2 b", "ZREMRANGEBYRANK z 0 0"),
    ("zremrangebyscore", "ZADD z 1 a 2 b", "ZREMRANGEBYSCORE z 2 +inf"),
    ("zunionstore", "ZADD z 1 a 2 b; ZADD y 1 a", "ZUNIONSTORE k 2 z y"),
];

/// Commands with a test of their own below.
const WITH_BYTES: [&str; 4] = ["function|restore", "migrate", "restore", "restore-asking"];

/// Commands of scripts, whose text has blanks.
const OF_FUNCTIONS: [&str; 3] = ["function|delete", "function|flush", "function|load"];

#[cfg(feature = "lua")]
const LIBRARY: &str = "#!lua name=mylib\nredis.register_function('f', function() return 1 end)";

/// Sends requests of the story of a command; none of them may fail.
#[track_caller]
pub(crate) fn call_all(client: &mut Client, name: &str, requests: &str) {
    for request in requests.split("; ").filter(|request| !request.is_empty()) {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{name}: {request}: {reply}");
    }
}

/// Asserts that the log has a record of a request, which `act` sends, and that the whole log creates the same keys
/// elsewhere.
#[track_caller]
fn assert_recorded(name: &str, before: &str, act: impl FnOnce(&TestServer, &mut Client) -> String) {
    let server = start();
    let mut client = server.client();
    call_all(&mut client, name, before);
    let mut log = server.take_log();
    let reply = act(&server, &mut client);
    assert!(!reply.starts_with('-'), "{name}: {reply}");
    let written = server.take_log();
    assert!(!written.is_empty(), "{name} has changed something, and the log is empty");
    log.extend_from_slice(&written);
    assert_replayed(&server, log, 0);
}

#[test]
fn every_command_that_writes_is_in_the_log_and_its_replay_makes_the_same_keys() {
    for (name, before, request) in STORIES.iter().chain(probabilistic::STORIES) {
        assert_recorded(name, before, |_, client| client.call(request));
    }
}

#[test]
fn every_command_that_writes_has_a_story() {
    let names = start().client().call("COMMAND LIST FILTERBY ACLCAT write").to_lowercase();
    let known: BTreeSet<&str> = names.split(' ').filter_map(|word| word.strip_prefix("+").or(Some(word))).collect();
    let table: BTreeSet<&str> =
        known.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    let functions = OF_FUNCTIONS.iter().chain(&WITH_BYTES).chain(probabilistic::WITH_BYTES).copied();
    let stories: BTreeSet<&str> =
        STORIES.iter().chain(probabilistic::STORIES).map(|(name, ..)| *name).chain(functions).collect();
    let is_there = |name: &&str| cfg!(feature = "lua") || !name.starts_with("function");
    assert_eq!(table, stories.into_iter().filter(is_there).collect());
}

#[test]
fn what_is_given_as_bytes_is_recorded_too() {
    for name in ["restore", "restore-asking"] {
        assert_recorded(name, "RPUSH l a b", |_, client| {
            let dump = client.frame(&["DUMP", "l"]).as_bytes().expect("a payload").to_vec();
            client.call_args(&[name.to_ascii_uppercase().as_bytes(), b"k", b"9000", &dump])
        });
    }
    for (name, before, request) in probabilistic::CHUNKS {
        assert_recorded(name, before, |_, client| {
            let Frame::Array(parts) = client.frame(&request.split(' ').collect::<Vec<_>>()) else { panic!("no dump") };
            let header = parts[1].as_bytes().expect("a header").to_vec();
            client.call_args(&[name.to_uppercase().as_bytes(), b"new", b"1", &header])
        });
    }
    assert_recorded("migrate", "SET k v PX 9000; RPUSH l a b", |_, client| {
        let other = start();
        let port = other.addr().port().to_string();
        client.call(&format!("MIGRATE 127.0.0.1 {port} k 0 5000"))
    });
}

#[cfg(feature = "lua")]
#[test]
fn every_change_of_the_functions_is_recorded() {
    let load = |client: &mut Client| client.call_args(&["FUNCTION", "LOAD", LIBRARY]);
    let dump = |client: &mut Client| client.frame(&["FUNCTION", "DUMP"]).as_bytes().expect("a payload").to_vec();
    assert_recorded("function|load", "", |_, client| load(client));
    for request in ["FUNCTION DELETE mylib", "FUNCTION FLUSH"] {
        assert_recorded(request, "", |_, client| {
            load(client);
            client.call(request)
        });
    }
    assert_recorded("function|restore", "", |_, client| {
        load(client);
        let payload = dump(client);
        client.call("FUNCTION FLUSH");
        client.call_args(&[&b"FUNCTION"[..], b"RESTORE", &payload])
    });
}

#[test]
fn what_no_command_changes_is_recorded_too() {
    assert_recorded("Namespace::flush", "SET k v; RPUSH l a", |server, _| {
        server.server().namespace().flush();
        String::new()
    });
    assert_recorded("expiry", "SET k v PX 10; SET l v", |server, client| {
        server.advance_ms(10);
        client.call("PING")
    });
    assert_recorded("the expiry of a field", "HSETEX h PX 10 FIELDS 1 a 1; HSET h b 1", |server, client| {
        server.advance_ms(10);
        client.call("HLEN h")
    });
    assert_recorded("the expiry of a member", "SADDEX s PX 10 MEMBERS 1 a; SADD s b", |server, client| {
        server.advance_ms(10);
        client.call("SCARD s")
    });
    assert_recorded("the end of a session", "", |server, client| {
        let mut holder = server.client();
        holder.call("LOCK.ACQUIRE k token SESSION");
        drop(holder);
        crate::harness::wait_until(|| client.call("EXISTS k") == ":0");
        String::new()
    });
}

#[test]
fn a_call_that_panics_leaves_what_its_keys_hold_to_the_log() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("SET a v", "+OK"), ("SETIFGREATER b v 7", "*2 :7 $-1")]);
    take(&server);
    client.send(b"MULTI\r\nSET a w PX 9000\r\nRPUSH l x y\r\nDEL b\r\nSETIFGREATER c v 9\r\nLOCK.ACQUIRE m t PX 9000\r\nDEBUG INJECT-PANIC handler\r\nEXEC\r\n");
    client.read_to_end();
    let mut other = server.client();
    crate::harness::wait_until(|| other.call("EXISTS l") == ":1");
    let logged = take(&server);
    for part in
        ["RESTORE a", "RESTORE l", "DEL b", "RESTORE c", "SETIFGREATER c v 9", "RESTORE m", "PING keylatch-lock:"]
    {
        assert!(logged.contains(part), "{part} in {logged}");
    }
}

#[test]
fn what_a_panic_keeps_from_the_log_follows_wherever_the_panic_is_caught() {
    type Act = fn(&TestServer, &mut Client);
    let mut cases: Vec<(&str, &str, Act)> = vec![
        ("a transaction", "SET k v; RPUSH c a", |server, _| {
            server.client().send(b"MULTI\r\nSET k w\r\nDEL x\r\nRPUSH c b\r\nEXEC\r\n");
        }),
        ("a blocked call that the call serves", "", |server, client| {
            let _blocked = server.block("BLMOVE s c LEFT RIGHT 0");
            assert_eq!(client.call("RPUSH s x y"), ":2");
        }),
        ("a blocked call that a transaction serves", "", |server, client| {
            let _blocked = server.block("BLMOVE s c LEFT RIGHT 0");
            call_all(client, "a transaction", "MULTI; RPUSH s x y; EXEC");
        }),
        ("a blocked call for a lock that has expired", "LOCK.ACQUIRE c one PX 100", |server, client| {
            let _blocked = server.block("LOCK.ACQUIRE c two PX 600000 BLOCK 0");
            client.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK"), ("DEBUG INJECT-PANIC CREATION c", "+OK")]);
            server.advance_ms(100);
        }),
        ("the end of a session", "LOCK.ACQUIRE k token PX 5000", |server, client| {
            client.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK")]);
            let mut holder = server.client();
            assert!(holder.call("LOCK.ACQUIRE c token SESSION").starts_with(':'));
            client.expect(&[("DEBUG INJECT-PANIC CHANGE c", "+OK")]);
        }),
        ("the expiry of a key", "SET c v PX 10; SET k v PX 10", |server, _| server.advance_ms(10)),
        ("the expiry of a field", "HSETEX c PX 10 FIELDS 1 a 1; HSET c b 1", |server, _| server.advance_ms(10)),
        ("a read that finds an expired key", "SET c v PX 10", |server, client| {
            client.call("DEBUG SET-ACTIVE-EXPIRE 0");
            server.advance_ms(10);
            server.client().send(b"GET c\r\n");
            crate::harness::wait_until(|| client.info("caught_panics") == "1");
            client.call("DEBUG SET-ACTIVE-EXPIRE 1");
        }),
    ];
    if cfg!(feature = "lua") {
        cases.push(("a script", "SET k v", |server, _| {
            let script = "redis.call('SET', KEYS[1], 'w', 'PX', 9000) redis.call('INCR', 'c')";
            server.client().send(&crate::harness::encode(&["EVAL", script, "1", "k"]));
        }));
    }
    for (name, before, act) in cases {
        let server = start();
        let mut client = server.client();
        call_all(&mut client, name, before);
        client.expect(&[("DEBUG INJECT-PANIC CHANGE c", "+OK")]);
        act(&server, &mut client);
        crate::harness::wait_until(|| client.info("caught_panics") != "0");
        client.expect(&[("DEBUG INJECT-PANIC CHANGE", "+OK")]);
        crate::harness::wait_until(|| client.info("blocked_clients") == "0");
        server.advance_ms(120_000); // a sweep logs what the panic has left, and a later one tries again to expire a key
        let passed_ms = server.server().namespace().clock.now().wall_ms() - super::BEGIN_MS;
        assert_replayed(&server, server.take_log(), passed_ms.unsigned_abs());
    }
}

#[test]
fn a_write_before_which_an_expired_lock_was_handed_over_is_logged_after_the_lock() {
    for write in ["GETSET l other", "EXPIRE l 5", "SET l other PX 9000", "LOCK.RELEASE l q", "DELEX l", "SET l x NX"] {
        let server = start();
        let mut client = server.client();
        call_all(&mut client, write, "DEBUG SET-ACTIVE-EXPIRE 0; LOCK.ACQUIRE l t PX 100");
        let acquire = "LOCK.ACQUIRE s a PX 600000 PERMITS 1 OF 2; LOCK.ACQUIRE s b PX 600000 PERMITS 1 OF 2";
        call_all(&mut client, write, acquire);
        let _for_permits = server.block("LOCK.ACQUIRE s c PX 600000 BLOCK 0 PERMITS 2");
        let mut next = server.block("LOCK.ACQUIRE l q PX 600000 BLOCK 0");
        server.advance_ms(200);
        // In one batch: what the first call does to the queue for permits is no change of the second.
        client.send(format!("LOCK.RELEASE s a\r\n{write}\r\n").as_bytes());
        assert_eq!(client.reply(), ":1");
        client.reply();
        assert!(next.reply().starts_with(':'));
        assert_replayed(&server, server.take_log(), 200);
    }
}
