//! The stream that replicas get after the snapshot.

use keylatch::internals::resp::Frame;

use super::parties::{Primary, RawReplica};
use super::snapshots::fill;
use crate::differential::random::Random;
use crate::harness::{encode, wait_until};
use crate::log::first_seed;

/// Number of random commands of each client.
const COMMANDS: usize = 1500;

#[test]
fn random_commands_of_several_clients_leave_a_redis_server_the_same_data() {
    let primary = Primary::start(&[]);
    fill(&mut primary.client());
    let Some(replica) = primary.synchronized_replica() else { return };
    std::thread::scope(|scope| {
        for number in 0..3 {
            let primary = &primary;
            scope.spawn(move || {
                let (mut client, mut random) = (primary.client(), Random::new(first_seed() * 3 + number));
                for _ in 0..COMMANDS / 50 {
                    // Commands that would block for ever do so only in a transaction.
                    let requests: Vec<Vec<u8>> = (0..50)
                        .map(|_| random.command())
                        .filter(|args| !blocks(args))
                        .map(|args| encode(&args))
                        .collect();
                    client.send(&requests.concat());
                    requests.iter().for_each(|_| drop(client.read_frame()));
                }
            });
        }
    });
    primary.assert_same(&replica);
    assert_eq!((primary.info("sync_full"), replica.info("master_link_status")), ("1".into(), "up".into()));
}

/// Returns whether a command may block.
pub(super) fn blocks(args: &[Vec<u8>]) -> bool {
    let name = args[0].to_ascii_lowercase();
    name.starts_with(b"b") && name.ends_with(b"pop")
        || ["blmove", "brpoplpush", "bzpopmin", "bzpopmax", "blmpop", "bzmpop", "wait", "waitaof"]
            .iter()
            .any(|known| name == known.as_bytes())
        || name.starts_with(b"xread") && args.iter().any(|arg| arg.eq_ignore_ascii_case(b"block"))
}

#[test]
fn a_redis_server_has_what_commands_that_it_does_not_know_have_written() {
    let primary = Primary::start(&[]);
    let Some(replica) = primary.synchronized_replica() else { return };
    let mut client = primary.client();
    let many: Vec<String> = (0..500).map(|n| format!("ZADD many {n} m{n}")).collect();
    client.pipeline(&many);
    client.expect(&[
        ("ZADD a 5 x 7 y", ":2"),
        ("ZADD b 9 y", ":1"),
        ("ZUNIONSTORE small 2 a b AGGREGATE COUNT", ":2"),
        ("ZINTERSTORE both 2 a b weights 2 0.5 aggregate count", ":1"),
        ("ZUNIONSTORE large 2 many a AGGREGATE COUNT", ":502"),
        ("SET gone v PX 100000", "+OK"),
        ("ZUNIONSTORE gone 1 missing AGGREGATE COUNT", ":0"),
        ("SET there v PX 100000", "+OK"),
        ("ZUNIONSTORE there 1 a AGGREGATE COUNT", ":2"),
        ("ZUNIONSTORE a 2 a b AGGREGATE COUNT", ":2"),
        ("MULTI", "+OK"),
        ("ZUNIONSTORE queued 1 b AGGREGATE COUNT", "+QUEUED"),
        ("ZUNIONSTORE plain 1 b AGGREGATE MAX", "+QUEUED"),
        ("EXEC", "*2 :1 :1"),
        ("INCREX n BYINT 5", "*2 :5 :5"),
        ("DELEX n IFEQ 5", ":1"),
        ("MSETEX 2 k 1 l 2 PX 100000", ":1"),
        ("RPUSH list 1 2 3 4 5 6", ":6"),
        ("PEXPIRE list 100000", ":1"),
        ("LMOVEM list moved LEFT LEFT COUNT 2 BULK", "*2 $1 1 $1 2"),
        ("LMOVEM list list RIGHT RIGHT COUNT 9 OBO", "*4 $1 6 $1 5 $1 4 $1 3"),
        ("LMOVEM list list LEFT RIGHT COUNT 4 OBO", "*4 $1 6 $1 5 $1 4 $1 3"),
        ("LMOVEM list list RIGHT LEFT EXACTLY 3 BULK", "*3 $1 5 $1 4 $1 3"),
        ("LMOVEM moved other RIGHT RIGHT COUNT 2 OBO", "*2 $1 2 $1 1"),
    ]);
    client.expect(&[
        ("HIMPORT PREPARE f a b", "+OK"),
        ("HIMPORT SET hash f 1 2", "+OK"),
        ("GEOADD places 1 1 a 5 5 b", ":2"),
        ("GEOSEARCHSTORE near places BYPOLYGON 3 0 0 3 0 0 3", ":1"),
        ("GEOSEARCHSTORE far places BYPOLYGON 3 0 0 20 0 0 20 STOREDIST", ":2"),
        ("ZADD from 0.1 x 2 y -inf z 1e17 w", ":4"),
        ("PEXPIRE from 100000", ":1"),
        ("ZADD to 9 x", ":1"),
        ("ZMOVE from to BYSCORE -inf 1", "*2 *2 $1 z $4 -inf *2 $1 x $3 0.1"),
        ("ZMOVE from to MAX", "*1 *2 $1 w $18 100000000000000000"),
        ("ZMOVEMEMBER to from XX MEMBERS 2 x y", "*-1"),
        ("ZMOVEMEMBER to from NX MEMBERS 3 x x none", "*1 *2 $1 x $3 0.1"),
        ("BZMOVE from third MIN 0 COUNT 9", "*2 *2 $1 x $3 0.1 *2 $1 y $1 2"),
    ]);
    for _ in 0..2 {
        client.call("XADD stream IDMP p n * f v");
        client.call("XADD stream IDMPAUTO p MAXLEN 5 * g w");
        client.call("XCFGSET stream IDMP-MAXSIZE 9");
    }
    client.expect(&[("XADD recorded 1-1 f v", "$3 1-1"), ("XIDMPRECORD recorded p n 1-1", "+OK")]);
    client.expect(&[("XGROUP CREATE recorded g $", "+OK"), ("XNACK recorded g FAIL IDS 1 1-1 FORCE", ":1")]);
    let Frame::Bulk(dump) = client.frame(&["DUMP", "recorded"]) else { panic!("no dump") };
    assert_eq!((dump[0], dump[dump.len() - 10]), (27, 14), "type and version");
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK");
    #[cfg(feature = "lua")]
    client.expect(&[("EVAL return(redis.call('zunionstore',KEYS[1],1,KEYS[2],'AGGREGATE','COUNT')) 2 s many", ":500")]);
    primary.assert_same(&replica);
    assert_eq!((replica.info("unexpected_error_replies"), primary.info("sync_full")), ("0".into(), "1".into()));
}

#[test]
fn entries_without_a_consumer_are_those_of_one_without_a_name_at_an_older_replica() {
    let primary = Primary::start(&[]);
    let mut client = primary.client();
    client.expect(&[
        ("XADD s 1-1 f v", "$3 1-1"),
        ("XADD s 1-2 f v", "$3 1-2"),
        ("XGROUP CREATE s g $", "+OK"),
        ("XNACK s g FATAL IDS 1 1-1 FORCE", ":1"),
    ]);
    let Some(replica) = primary.synchronized_replica() else { return };
    client.expect(&[("XNACK s g FAIL IDS 1 1-2 RETRYCOUNT 5 FORCE", ":1")]);
    assert!(client.call("XREADGROUP GROUP g c MAXCOUNT 9 CLAIM 1 STREAMS s >").starts_with("*1 *2 $1 s *2 "));
    client.expect(&[("XNACK s g SILENT IDS 1 1-2", ":1")]);
    primary.assert_same(&replica);
    let shown = replica.client().call("XPENDING s g - + 9");
    let expected = ["*2 *4 $3 1-1 $1 c :", ":9223372036854775807 *4 $3 1-2 $0  :"];
    assert!(shown.starts_with(expected[0]) && shown.contains(expected[1]) && shown.ends_with(":5"), "{shown}");
    assert_eq!((replica.info("unexpected_error_replies"), primary.info("sync_full")), ("0".into(), "1".into()));
}

#[test]
fn transactions_scripts_expiry_and_served_clients_come_in_the_order_of_execution() {
    let primary = Primary::start(&[]);
    let Some(replica) = primary.synchronized_replica() else { return };
    let mut raw = RawReplica::synchronized(primary.addr());
    let mut client = primary.client();
    let mut blocked = primary.server.block("BLPOP queue 0");
    client.expect(&[
        ("MULTI", "+OK"),
        ("SET a 1", "+QUEUED"),
        ("SELECT 3", "+QUEUED"),
        ("INCR b", "+QUEUED"),
        ("EXEC", "*3 +OK +OK :1"),
        ("RPUSH queue x", ":1"),
    ]);
    client.call("SELECT 0");
    client.call("RPUSH queue y");
    assert_eq!(blocked.reply(), "*2 $5 queue $1 y");
    let expected = ["select 0", "multi", "set a 1", "select 3", "incr b", "exec", "rpush queue x", "select 0"];
    for command in expected.iter().chain(&["rpush queue y", "lpop queue"]) {
        assert_eq!(raw.change(), *command);
    }
    client.call("SET short v PX 20");
    assert!(raw.change().starts_with("set short v pxat "));
    assert_eq!(raw.change(), "del short", "when its time is over, without a request");
    #[cfg(feature = "lua")]
    {
        client.call_args(&["EVAL", "redis.call('SET', 'c', '1'); redis.call('INCR', 'c')", "0"]);
        assert_eq!([(); 4].map(|()| raw.change()), ["multi", "set c 1", "incr c", "exec"]);
    }
    primary.assert_same(&replica);
}

#[test]
fn evicted_keys_are_deleted_at_the_replicas() {
    let primary = Primary::start(&[("maxmemory-policy", "allkeys-random")]);
    let Some(replica) = primary.synchronized_replica() else { return };
    let mut client = primary.client();
    let value = "x".repeat(1000);
    let fill: Vec<String> = (0..2000).map(|n| format!("SET {n} {value}")).collect();
    client.pipeline(&fill);
    let limit = client.info("used_memory").parse::<usize>().expect("a number") - 500_000;
    client.call(&format!("CONFIG SET maxmemory {limit}"));
    client.pipeline(&fill);
    assert_ne!(client.info("evicted_keys"), "0");
    client.call("CONFIG SET maxmemory 0");
    primary.assert_same(&replica);
}

#[test]
fn messages_reach_the_subscribers_of_a_replica_behind_the_writes_of_their_transaction() {
    let primary = Primary::start(&[]);
    let Some(replica) = primary.synchronized_replica() else { return };
    let (mut subscriber, mut other) = (replica.client(), replica.client());
    let mut raw = RawReplica::synchronized(primary.addr());
    subscriber.call("SUBSCRIBE news");
    other.call("SSUBSCRIBE shard");
    let mut client = primary.client();
    client.expect(&[("PUBLISH news one", ":0"), ("SPUBLISH shard two", ":0")]);
    client.expect(&[
        ("MULTI", "+OK"),
        ("PUBLISH news three", "+QUEUED"),
        ("SET k v", "+QUEUED"),
        ("EXEC", "*2 :0 +OK"),
    ]);
    assert_eq!(
        [(); 2].map(|()| subscriber.reply()),
        ["*3 $7 message $4 news $3 one", "*3 $7 message $4 news $5 three"]
    );
    assert_eq!(other.reply(), "*3 $8 smessage $5 shard $3 two");
    let expected = ["publish news one", "spublish shard two", "select 0", "set k v", "publish news three"];
    assert_eq!(expected.map(|_| raw.change()), expected);
    primary.assert_same(&replica);
}

#[test]
fn the_offset_counts_the_bytes_that_a_replica_is_sent() {
    let primary = Primary::start(&[("repl-ping-replica-period", "1")]);
    let mut raw = RawReplica::synchronized(primary.addr());
    let begin = raw.offset;
    let mut client = primary.client();
    client.expect(&[("SET k v", "+OK"), ("PUBLISH c m", ":0"), ("SELECT 2", "+OK"), ("SET k v", "+OK")]);
    client.expect(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("SET b 1", "+QUEUED"), ("EXEC", "*2 +OK +OK")]);
    client.call("WAIT 1 1");
    while raw.command() != "ping" {}
    client.call("SET last v");
    while raw.command() != "set last v" {}
    let (end, pings) = (raw.offset, "*1\r\n$4\r\nPING\r\n".len() as u64);
    // Another PING may have been sent since.
    let offset: u64 = primary.info("master_repl_offset").parse().expect("a number");
    assert!(end > begin + 100 && (offset - end).is_multiple_of(pings) && offset - end <= 5 * pings, "{end} {offset}");
    assert_eq!(primary.info("repl_backlog_first_byte_offset"), (begin + 1).to_string());
    raw.acknowledge();
    wait_until(|| primary.shows(&format!(",offset={end},")));
    let role = client.call("ROLE");
    assert!(
        role.starts_with("*3 $6 master :") && role.contains(&format!("$9 127.0.0.1 $1 0 ${}", end.to_string().len()))
    );
}
