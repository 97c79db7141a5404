//! The log of effects: the records of a call, and equality of the keys of a second server that replays them.

pub(crate) mod commands;
mod moved;
mod readers;
pub(crate) mod rows;
mod streams;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use bytes::BytesMut;
use keylatch::internals::replay;
use keylatch::internals::resp::{Codec, Frame, RequestLimits};
use tokio_util::codec::Decoder;

use self::commands::{field_command, member_command, stream_command};
use crate::differential::random::Random;
use crate::harness::{Client, TestServer, encode, wait_until};

/// Starts a server on a manual clock, with its log enabled.
pub(crate) fn start() -> TestServer {
    start_with(&[])
}

fn start_with(settings: &[(&str, &str)]) -> TestServer {
    let settings = [&[("enable-debug-command", "yes")], settings].concat();
    logging(TestServer::start_with(&settings))
}

/// Date on which the clocks of these tests begin, in milliseconds since 1970.
pub(crate) const BEGIN_MS: i64 = 1_700_000_000_000;

fn logging(server: TestServer) -> TestServer {
    server.server().set_wall_ms(BEGIN_MS);
    server.begin_log();
    server
}

/// Returns the log as text, one command after the other.
fn take(server: &TestServer) -> String {
    let (mut codec, mut log) = (Codec::new(RequestLimits::default()), server.take_log());
    let mut text = Vec::new();
    while let Some(batch) = codec.decode(&mut log).expect("a log is a sequence of requests") {
        let spell = |arg: &[u8]| arg.escape_ascii().to_string();
        text.extend(batch.iter().map(|request| request.args().map(spell).collect::<Vec<_>>().join(" ")));
    }
    text.join("; ")
}

/// Asserts the log records of each request in database 0, which the log has selected before.
#[track_caller]
pub(crate) fn expect(server: &TestServer, script: &[(&str, &str)]) {
    let mut client = server.client();
    client.call("SET the:first command");
    take(server);
    for (request, logged) in script {
        client.call(request);
        assert_eq!(take(server), *logged, "{request}");
    }
}

/// Asserts that a new server that replays a log, at the same time, has the same keys as the server that wrote it.
#[track_caller]
fn assert_replayed(server: &TestServer, log: BytesMut, passed_ms: u64) {
    let twin = start();
    twin.advance_ms(passed_ms);
    let shown = log.clone();
    let outcome = replay(twin.server().namespace(), log);
    assert!(outcome.is_ok(), "{outcome:?} in {}", shown.escape_ascii());
    let (mut one, mut other) = (server.client(), twin.client());
    for db in 0..16 {
        let (here, there) = (keys(&mut one, db), keys(&mut other, db));
        assert_eq!(here, there, "database {db}");
    }
    let (here, there) = (one.call("DEBUG DIGEST"), other.call("DEBUG DIGEST"));
    assert_eq!(here, there);
    assert_eq!(here.len(), 41, "{here}");
    if cfg!(feature = "lua") {
        assert_eq!(one.call("FUNCTION DUMP"), other.call("FUNCTION DUMP"));
    }
}

/// Lists the keys of a database with their values and deadlines.
pub(crate) fn keys(client: &mut Client, db: usize) -> Vec<[String; 3]> {
    client.call(&format!("SELECT {db}"));
    let mut known: Vec<[String; 3]> = elements(client, &[b"KEYS", b"*"])
        .iter()
        .map(|key| {
            let [mut value, deadline] = ["GET", "PEXPIRETIME"].map(|name| client.call_args(&[name.as_bytes(), key]));
            // The command returns the fence of a string without a change.
            value.push_str(&client.call_args(&[&b"SETIFGREATER"[..], key, b"", b"0", b"NOGET"]));
            if client.call_args(&[&b"TYPE"[..], key]) == "+stream" {
                let group = client.call_args(&[&b"XINFO"[..], b"GROUPS", key]);
                value = client.call_args(&[&b"XINFO"[..], b"STREAM", key, b"FULL", b"COUNT", b"0"]);
                // The time when consumers were last seen is not logged.
                value.truncate(value.find("$9 consumers").unwrap_or(value.len()));
                value.push_str(&group);
            }
            let mut fields = elements(client, &[b"HKEYS", key]);
            fields.sort();
            for field in &fields {
                value.push_str(&client.call_args(&[&b"HPEXPIRETIME"[..], key, b"FIELDS", b"1", field]));
            }
            [key.escape_ascii().to_string(), value, deadline]
        })
        .collect();
    known.sort();
    known
}

/// Returns the elements of a reply; none for an error.
fn elements(client: &mut Client, args: &[&[u8]]) -> Vec<Vec<u8>> {
    match client.frame(args) {
        Frame::Array(elements) => elements.iter().filter_map(Frame::as_bytes).map(<[u8]>::to_vec).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_request_that_does_the_same_at_any_time_is_logged_as_it_came() {
    expect(
        &start(),
        &[
            ("SET k v", "set k v"),
            ("append k x", "append k x"),
            ("SETRANGE k 1 y", "setrange k 1 y"),
            ("INCR n", "incr n"),
            ("SETBIT b 7 1", "setbit b 7 1"),
            ("PFADD h a b", "pfadd h a b"),
            ("MSET a 1 b 2", "mset a 1 b 2"),
            ("MSETNX c 1 d 2", "msetnx c 1 d 2"),
            ("RENAME a e", "rename a e"),
            ("COPY e f DB 1", "copy e f DB 1"),
            ("MOVE e 1", "move e 1"),
            ("SWAPDB 0 1", "swapdb 0 1"),
            ("DEL e nothing", "del e nothing"),
            ("FLUSHALL ASYNC", "flushall ASYNC"),
        ],
    );
}

#[test]
fn changes_of_hashes_are_logged_as_they_came_except_sums_of_floats() {
    expect(
        &start(),
        &[
            ("HSET h a 1 b 2", "hset h a 1 b 2"),
            ("HMSET h a 1 b 2", "hmset h a 1 b 2"),
            ("HSETNX h c 3", "hsetnx h c 3"),
            ("HSETNX h c 4", ""),
            ("HINCRBY h a 5", "hincrby h a 5"),
            ("HINCRBYFLOAT h a 0.5", "HSET h a 6.5"),
            ("HINCRBY h a 5", ""),
            ("HSETEX h FXX FIELDS 1 a 7", "HSET h a 7"),
            ("HSETEX h KEEPTTL FIELDS 2 a 8 b 9", "HSET h a 8 b 9"),
            ("HSETEX h FNX FIELDS 1 a 9", ""),
            ("HSETEX h PXAT 1700000009000 FIELDS 1 t 1", "HSETEX h PXAT 1700000009000 FIELDS 1 t 1"),
            ("HSETEX h KEEPTTL FIELDS 1 a 9", "HSETEX h KEEPTTL FIELDS 1 a 9"),
            ("HDEL h nothing", ""),
            ("HDEL h a nothing", "hdel h a nothing"),
            ("HDEL h b c", "hdel h b c"),
            ("HGET h a", ""),
        ],
    );
}

#[test]
fn changes_of_sorted_sets_are_logged_as_they_came_except_pops_from_several_keys() {
    expect(
        &start(),
        &[
            ("ZADD z NX CH 1 a 2 b 3 c 4 d", "zadd z NX CH 1 a 2 b 3 c 4 d"),
            ("ZADD z NX 5 a", ""),
            ("ZADD z INCR 0.5 a", "zadd z INCR 0.5 a"),
            ("ZINCRBY z 0.1 a", "zincrby z 0.1 a"),
            ("ZINCRBY z 0 a", ""),
            ("ZREM z missing", ""),
            ("ZREM z a missing", "zrem z a missing"),
            ("ZRANGESTORE t z 0 -1", "zrangestore t z 0 -1"),
            ("ZUNIONSTORE t 2 z t WEIGHTS 2 1", "zunionstore t 2 z t WEIGHTS 2 1"),
            ("ZDIFFSTORE t 2 z z", "zdiffstore t 2 z z"),
            ("ZDIFFSTORE t 2 z z", ""),
            ("ZPOPMIN z", "zpopmin z"),
            ("ZMPOP 2 missing z MAX COUNT 1", "ZPOPMAX z 1"),
            ("BZPOPMIN missing z 0", "ZPOPMIN z"),
            ("ZADD z 1 a 2 b 3 c", "zadd z 1 a 2 b 3 c"),
            ("BZMPOP 0 2 missing z MIN COUNT 2", "ZPOPMIN z 2"),
            ("ZPOPMAX z 0", ""),
            ("ZMPOP 1 missing MIN", ""),
            ("ZREMRANGEBYRANK z 5 6", ""),
            ("ZREMRANGEBYSCORE z -inf +inf", "zremrangebyscore z -inf +inf"),
            ("ZRANDMEMBER z", ""),
        ],
    );
}

#[test]
fn what_lists_lose_is_logged_without_waiting_and_without_choosing() {
    expect(
        &start(),
        &[
            ("RPUSH k a b c d e f g h", "rpush k a b c d e f g h"),
            ("LPOP k", "lpop k"),
            ("RPOP k 2", "rpop k 2"),
            ("LPOP k 0", ""),
            ("LMPOP 2 missing k LEFT COUNT 2", "LPOP k 2"),
            ("LMPOP 1 missing LEFT", ""),
            ("BLPOP missing k 0", "LPOP k"),
            ("BRPOP k 0", "RPOP k"),
            ("BLPOP k 0", "LPOP k"),
            ("RPUSH k a b c d", "rpush k a b c d"),
            ("BLMPOP 0 1 k RIGHT COUNT 1", "RPOP k 1"),
            ("BLMOVE k l LEFT RIGHT 0", "LMOVE k l LEFT RIGHT"),
            ("BRPOPLPUSH k l 0", "RPOPLPUSH k l"),
            ("LMOVE k l LEFT LEFT", "lmove k l LEFT LEFT"),
            ("LSET l 0 x", "lset l 0 x"),
            ("LREM l 0 nosuch", ""),
            ("LREM l 1 a", "lrem l 1 a"),
            ("LTRIM l 0 -1", ""),
            ("LTRIM l 0 0", "ltrim l 0 0"),
            ("LINSERT l AFTER x y", "linsert l AFTER x y"),
            ("LINSERT l AFTER nosuch y", ""),
        ],
    );
}

#[test]
fn a_served_client_of_a_list_is_logged_as_one_that_has_not_waited() {
    let server = start();
    let (mut blocked, mut other) = (server.client(), server.client());
    other.call("SET the:first command");
    take(&server);
    blocked.send(b"BLMOVE k l LEFT RIGHT 0\r\n");
    wait_until(|| other.call("INFO clients").contains("blocked_clients:1"));
    assert_eq!(other.call("RPUSH k x"), ":1");
    assert_eq!(blocked.reply(), "$1 x");
    assert_eq!(take(&server), "rpush k x; LMOVE k l LEFT RIGHT");
}

#[test]
fn a_request_that_changes_nothing_is_not_logged() {
    let requests = [
        "GET k",
        "DEL k",
        "SET k v XX",
        "GETEX k EX 10",
        "EXPIRE k 10",
        "PERSIST k",
        "RENAME k l",
        "INCRBY k x",
        "SETNX the:first command",
        "SET the:first x IFEQ y",
        "MSETNX the:first 1 second 2",
        "PERSIST the:first",
        "EXEC",
        "PFCOUNT k",
        "SORT nothing",
    ];
    expect(&start(), &requests.map(|request| (request, "")));
}

#[test]
fn what_debug_populate_adds_is_not_logged_as_in_redis() {
    expect(&start(), &[("DEBUG POPULATE 3", ""), ("INCR n", "incr n"), ("DEL key:0 key:1", "del key:0 key:1")]);
}

#[test]
fn what_depends_on_the_time_is_logged_with_a_date() {
    let server = start();
    let at = |seconds: i64| (BEGIN_MS + seconds * 1000).to_string();
    let set = |value: &str, seconds| format!("SET k {value} PXAT {}", at(seconds));
    let expire = |seconds| format!("PEXPIREAT k {}", at(seconds));
    expect(
        &server,
        &[
            ("SET k v EX 10", &set("v", 10)),
            ("SET k v PX 20000 KEEPTTL", ""),
            ("SET k w KEEPTTL", &set("w", 10)),
            ("SETEX k 30 v", &set("v", 30)),
            ("PSETEX k 40000 v", &set("v", 40)),
            ("GETEX k EX 50", &expire(50)),
            ("GETEX k PERSIST", "PERSIST k"),
            ("EXPIRE k 60", &expire(60)),
            ("EXPIREAT k 5 LT", "DEL k"),
            ("MSETEX 2 k 1 l 2 EX 70", &format!("MULTI; {}; SET l 2 PXAT {}; EXEC", set("1", 70), at(70))),
            ("INCRBYFLOAT k 0.5", &set("1.5", 70)),
            ("SET k 1 EX 80 GET", &set("1", 80)),
            ("PERSIST k", "persist k"),
            ("EXPIRE k -1", "DEL k"),
            ("INCRBYFLOAT k 3", "SET k 3"),
            // For an expired key, and for the effect of the call.
            ("SET l 1 PXAT 1", "DEL l; DEL l"),
        ],
    );
}

#[test]
fn what_depends_on_a_condition_is_logged_as_what_it_came_to() {
    expect(
        &start(),
        &[
            ("SETNX k 1", "SET k 1"),
            ("SET k 2 XX GET", "SET k 2"),
            ("SET k 3 IFEQ 2", "SET k 3"),
            ("GETSET k 4", "SET k 4"),
            ("DELEX k IFEQ 4", "DEL k"),
            ("SET k 5 NX", "SET k 5"),
            ("GETDEL k", "DEL k"),
        ],
    );
}

#[test]
fn members_of_sets_that_are_chosen_at_random_are_logged_by_their_names() {
    let server = start();
    expect(
        &server,
        &[
            ("SADD s a b a", "sadd s a b a"),
            ("SADD s a", ""),
            ("SREM s b x", "srem s b x"),
            ("SREM s x", ""),
            ("SPOP s", "SREM s a"),
            ("SPOP s", ""),
            ("SADD s a b", "sadd s a b"),
            ("SPOP s 0", ""),
            ("SPOP s 2", "DEL s"),
            ("SADD s 7", "sadd s 7"),
            ("SPOP s 5", "DEL s"),
            ("SADD s x y", "sadd s x y"),
            ("SRANDMEMBER s 1", ""),
            ("SMOVE s t x", "smove s t x"),
            ("SMOVE s t x", ""),
            ("SUNIONSTORE u s t", "sunionstore u s t"),
            ("SINTERSTORE u s t", "sinterstore u s t"),
            ("SDIFFSTORE u s s", ""),
        ],
    );
    let mut client = server.client();
    let members: Vec<String> = (0..3000).map(|number| number.to_string()).collect();
    client.call(&format!("SADD many {}", members.join(" ")));
    client.call("SADD few a b c d e f 1 2 3");
    let before = take(&server);
    client.call("SPOP many 2500");
    client.call("SPOP few 4");
    let logged = take(&server);
    let commands: Vec<usize> = logged.split("; ").map(|command| command.split(' ').count()).collect();
    assert_eq!(commands, [1, 1026, 1026, 454, 1, 6], "several commands are logged as a transaction");
    assert!(logged.contains("; SREM many ") && logged.contains("; SREM few "));
    let log: Vec<u8> = [before, logged]
        .iter()
        .flat_map(|text| text.split("; "))
        .flat_map(|command| encode(&["SELECT", "0"]).into_iter().chain(encode(&command.split(' ').collect::<Vec<_>>())))
        .collect();
    // The earlier requests have left these sets.
    client.call("DEL t s the:first");
    assert_replayed(&server, BytesMut::from(&log[..]), 0);
}

#[test]
fn a_restored_key_is_logged_with_its_date() {
    let server = start();
    let mut client = server.client();
    client.call("SET k v");
    let Frame::Bulk(dump) = client.frame(&["DUMP", "k"]) else { panic!("no dump") };
    take(&server);
    client.frame(&[b"RESTORE", &b"l"[..], b"5000", &dump]);
    let shown = dump.escape_ascii().to_string();
    assert_eq!(take(&server), format!("RESTORE l {} {shown} REPLACE ABSTTL", BEGIN_MS + 5000));
    client.frame(&[b"RESTORE", &b"m"[..], b"0", &dump, b"IDLETIME", b"7"]);
    assert_eq!(take(&server), format!("RESTORE m 0 {shown} REPLACE ABSTTL"));
    client.frame(&[b"RESTORE", &b"m"[..], b"1", &dump, b"REPLACE", b"ABSTTL"]);
    assert_eq!(take(&server), "DEL m");
    client.frame(&[b"RESTORE", &b"m"[..], b"1", &dump, b"ABSTTL"]);
    assert_eq!(take(&server), "");
}

#[test]
fn a_transaction_is_logged_as_one_without_what_changes_nothing() {
    let server = start();
    let mut client = server.client();
    let mut log_of = |commands: &[&str]| {
        commands.iter().for_each(|command| drop(client.call(command)));
        take(&server)
    };
    assert_eq!(
        log_of(&["MULTI", "SET a 1", "GET a", "SELECT 3", "INCR b", "INCR b", "EXEC"]),
        "SELECT 0; MULTI; set a 1; SELECT 3; incr b; incr b; EXEC"
    );
    assert_eq!(log_of(&["MULTI", "SELECT 0", "DEL nothing", "DEL a", "EXEC"]), "SELECT 0; del a");
    assert_eq!(log_of(&["MULTI", "GET a", "EXEC", "MULTI", "SET a 1", "DISCARD"]), "");
}

#[cfg(feature = "lua")]
#[test]
fn a_script_is_logged_as_what_it_has_changed_even_if_it_fails_then() {
    let server = start();
    let mut client = server.client();
    let script =
        "redis.call('SET', KEYS[1], redis.call('TIME')[1], 'EX', 5) redis.call('INCR', 'n') return redis.call('NO')";
    client.call("SET the:first command");
    take(&server);
    assert!(client.call_args(&["EVAL", script, "1", "k"]).starts_with("-ERR"));
    assert_eq!(take(&server), format!("MULTI; SET k {} PXAT {}; incr n; EXEC", BEGIN_MS / 1000, BEGIN_MS + 5000));
    let library = "#!lua name=l\nredis.register_function('f', function(keys) return redis.call('DEL', keys[1]) end)";
    client.call_args(&["FUNCTION", "LOAD", library]);
    assert_eq!(take(&server), format!("function load {}", library.escape_default()));
    client.call("FCALL f 1 k");
    assert_eq!(take(&server), "del k");
    client.call("FUNCTION DELETE l");
    assert_eq!(take(&server), "function delete l");
}

#[test]
fn keys_that_expire_are_logged_as_removed_before_what_finds_them_missing() {
    let server = start();
    server.client().call("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut client = server.client();
    ["a", "b", "c"].iter().for_each(|key| assert_eq!(client.call(&format!("SET {key} v PX 10")), "+OK"));
    take(&server);
    server.advance_ms(1000);
    client.call("GET a");
    assert_eq!(take(&server), "DEL a");
    client.call("APPEND b x");
    assert_eq!(take(&server), "DEL b; append b x");
    client.call("DEBUG SET-ACTIVE-EXPIRE 1");
    server.advance_ms(0);
    assert_eq!(take(&server), "DEL c");
}

#[test]
fn a_key_that_had_not_expired_yet_is_changed_again_in_the_replay() {
    let server = start();
    let mut client = server.client();
    for command in ["SET k a PX 10", "APPEND k b", "SET l a PX 10", "PEXPIRE l 20", "APPEND l b", "SET m a PX 10"] {
        client.call(command);
    }
    server.advance_ms(15);
    client.call("APPEND k c");
    client.call("APPEND l c");
    client.call("PEXPIRE l 1000");
    client.call("SETNX m b");
    let log = server.take_log();
    assert_replayed(&server, log, 15);
    assert_eq!([client.call("GET k"), client.call("GET l"), client.call("GET m")], ["$1 c", "$3 abc", "$1 b"]);
}

#[test]
fn keys_that_are_evicted_are_logged_as_removed() {
    let server = start_with(&[("maxmemory-policy", "allkeys-random")]);
    let mut client = server.client();
    for at in 0..50 {
        client.call(&format!("SET k:{at} {}", "x".repeat(1000)));
    }
    client.call("CONFIG SET maxmemory 1");
    client.call("SET too much");
    let log = server.take_log();
    assert_eq!(client.info("evicted_keys"), "50");
    client.call("CONFIG SET maxmemory 0");
    assert_replayed(&server, log, 0);
}

#[test]
fn a_key_that_was_migrated_is_logged_as_removed() {
    let (server, target) = (start(), TestServer::start());
    let mut client = server.client();
    client.call("MSET k v l v");
    take(&server);
    let port = target.addr().port().to_string();
    let mut migrate = |args: &[&str]| client.call_args(&[&["MIGRATE", "127.0.0.1", &port], args].concat());
    assert_eq!(migrate(&["k", "0", "5000", "COPY"]), "+OK");
    assert_eq!(take(&server), "");
    assert_eq!(migrate(&["", "0", "5000", "REPLACE", "KEYS", "k", "l"]), "+OK");
    assert_eq!(take(&server), "DEL k; DEL l");
}

#[test]
fn an_embedding_program_that_flushes_is_logged() {
    let server = start();
    server.client().call("SET k v");
    server.server().flush();
    assert_eq!(take(&server), "SELECT 0; set k v; FLUSHALL");
}

#[test]
fn the_log_has_the_names_of_the_table_whatever_a_command_is_called() {
    let server = start_with(&[("rename-command", "APPEND add")]);
    server.client().call("add k v");
    let log = server.take_log();
    assert_replayed(&server, log, 0);
    assert_eq!(server.client().call("GET k"), "$1 v");
}

#[test]
fn a_log_that_is_cut_short_or_damaged_is_refused() {
    let replayed = |log: &[u8]| {
        let twin = TestServer::start();
        let outcome = replay(twin.server().namespace(), BytesMut::from(log));
        let outcome = outcome.map(|replayed| (replayed.commands, replayed.failed));
        (format!("{outcome:?}"), twin.client().int("DBSIZE"))
    };
    assert_eq!(replayed(&encode(&["SET", "k", "v"])), ("Ok((1, 0))".into(), 1));
    let unit = [encode(&["SET", "a", "v"]), encode(&["MULTI"]), encode(&["SET", "b", "v"])].concat();
    assert_eq!(replayed(&unit), ("Err(Truncated)".into(), 1));
    assert_eq!(replayed(&unit[..unit.len() - 3]), ("Err(Truncated)".into(), 1));
    assert_eq!(replayed(b"*1\r\n+SET\r\n").0, "Err(Format)");
    assert_eq!(replayed(&encode(&["EXEC"])).0, "Err(Format)");
    assert_eq!(replayed(&[unit.clone(), encode(&["MULTI"])].concat()), ("Err(Format)".into(), 1));
    assert!(replayed(&encode(&["NOSUCH"])).0.starts_with("Err(Unknown("));
    assert_eq!(replayed(&encode(&["INCRBY", "k", "x"])).0, "Ok((1, 1))");
}

/// Number of commands that each client sends in a row, and number of rounds.
const CHUNK: usize = 40;
const ROUNDS: usize = 40;
const CLIENTS: u64 = 3;

/// Generates a command of the random differential stream, or one that expires soon or changes several keys at once.
pub(crate) fn command(random: &mut Random) -> Vec<Vec<u8>> {
    let soon = (1 + random.below(40)).to_string();
    let key = [&b"k"[..], b"l", b"key:3", b"{tag}4", b""][random.below(5)];
    let fence = random.below(20).to_string();
    let args: &[&[u8]] = match random.below(18) {
        0 => &[b"SET", key, b"soon", b"PX", soon.as_bytes()],
        1 => &[b"PEXPIRE", key, soon.as_bytes()],
        2 => &[b"GETEX", key, b"PX", soon.as_bytes()],
        3 if cfg!(feature = "lua") => {
            const SCRIPT: &[u8] = b"redis.call('SET', KEYS[1], 's', 'PX', ARGV[1]) redis.call('SELECT', ARGV[1] % 3) \
                redis.pcall('INCR', KEYS[2]) redis.call('APPEND', KEYS[1], 'x') return redis.pcall('INCR', KEYS[1])";
            &[b"EVAL", SCRIPT, b"2", key, b"l", soon.as_bytes()]
        }
        4 => &[b"MSETEX", b"2", key, b"1", b"l", b"2", b"PX", soon.as_bytes()],
        6..=7 => return stream_command(random, key),
        8 => return field_command(random, key),
        12 => return member_command(random, key, b"l"),
        9 => &[b"SETIFGREATER", key, b"7", fence.as_bytes(), b"PX", soon.as_bytes()],
        10 => &[b"SETIFGREATER", key, b"8", fence.as_bytes()],
        11 => &[b"DELIFGREATER", key, fence.as_bytes()],
        5 => &[b"INCREX", key, b"BYINT", b"3", b"UBOUND", b"20", b"SATURATE", b"PX", soon.as_bytes(), b"ENX"],
        _ => return random.command(),
    };
    args.iter().map(|arg| arg.to_vec()).collect()
}

/// Plays random commands of several clients concurrently, and advances time.
fn play(server: &TestServer, seed: u64) -> u64 {
    let mut clients: Vec<(Client, Random)> =
        (0..CLIENTS).map(|number| (server.client(), Random::new(seed * CLIENTS + number))).collect();
    let (mut passed_ms, mut observer) = (0, server.client());
    for round in 0..ROUNDS {
        let finished = &AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (client, random) in &mut clients {
                scope.spawn(move || {
                    let requests: Vec<Vec<u8>> = (0..CHUNK).map(|_| encode(&command(random))).collect();
                    client.send(&requests.concat());
                    requests.iter().for_each(|_| drop(client.read_frame()));
                    finished.fetch_add(1, SeqCst);
                });
            }
            // Blocking commands do so until their timeout.
            wait_until(|| {
                if observer.info("blocked_clients") != "0" {
                    server.advance_ms(1);
                    passed_ms += 1;
                }
                finished.load(SeqCst) == CLIENTS
            });
        });
        server.advance_ms(round as u64 % 9);
        passed_ms += round as u64 % 9;
    }
    passed_ms
}

/// Returns the first seed, which `KEYLATCH_SEED` moves.
pub(crate) fn first_seed() -> u64 {
    std::env::var("KEYLATCH_SEED").map_or(0, |text| text.parse().expect("KEYLATCH_SEED is a number"))
}

#[test]
fn the_log_of_random_commands_of_several_clients_gives_another_server_the_same_keys() {
    for seed in first_seed()..first_seed() + 30 {
        let server = start();
        let passed_ms = play(&server, seed);
        let log = server.take_log();
        assert_replayed(&server, log, passed_ms);
    }
}

#[test]
fn the_log_of_random_commands_does_so_too_where_keys_are_evicted_and_nothing_looks_for_expired_ones() {
    let mut evicted = 0;
    for seed in first_seed() + 1000..first_seed() + 1020 {
        let server = start_with(&[("maxmemory-policy", "allkeys-random")]);
        let mut client = server.client();
        client.call("DEBUG SET-ACTIVE-EXPIRE 0");
        let limit: usize = client.info("used_memory").parse().expect("a number of bytes");
        client.call(&format!("CONFIG SET maxmemory {}", limit + 60_000));
        let passed_ms = play(&server, seed);
        client.call("CONFIG SET maxmemory 0");
        evicted += client.info("evicted_keys").parse::<usize>().expect("a number");
        let log = server.take_log();
        assert_replayed(&server, log, passed_ms);
    }
    assert_ne!(evicted, 0);
}

#[test]
fn an_expired_key_that_a_pause_keeps_is_logged_as_removed_when_it_is_created_again() {
    let server = start();
    let mut client = server.client();
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET k v PX 10", "+OK")]);
    server.advance_ms(10);
    take(&server);
    client.expect(&[("MULTI", "+OK"), ("CLIENT PAUSE 1000 WRITE", "+QUEUED"), ("RPUSH k a", "+QUEUED")]);
    client.expect(&[("EXEC", "*2 +OK :1")]);
    assert_eq!(take(&server), "DEL k; rpush k a");
}

#[test]
fn in_test_mode_the_log_for_a_reader_has_dates_too() {
    let server = start_with(&[("test-mode", "yes")]);
    expect(&server, &[("SET k v PX 1000", &format!("SET k v PXAT {}", BEGIN_MS + 1000))]);
}
