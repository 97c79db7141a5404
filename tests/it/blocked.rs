//! Clients blocked on lists, sorted sets and streams: the commands that serve them, and other ends of their wait.

use crate::harness::{Client, TestServer, wait_until};
use keylatch::internals::resp::Frame;

/// Asserts that each maker serves each blocked request with its reply. Before each maker, `source` has the value in
/// database 0, and `k` in database 1.
fn expect_served(value: &str, makers: &[&str], requests: &[(&str, &str)]) {
    let server = TestServer::start_on_workers(2);
    let mut client = server.client();
    for maker in makers {
        for (request, reply) in requests {
            client.call("FLUSHALL");
            client.call(&value.replace("KEY", "source"));
            client.call("SELECT 1");
            client.call(&value.replace("KEY", "k"));
            client.call("SELECT 0");
            let mut blocked = server.block(request);
            maker.split("; ").for_each(|command| assert!(!client.call(command).starts_with('-'), "{command}"));
            assert_eq!(blocked.reply(), *reply, "{request} after {maker}");
            client.call("SELECT 0");
        }
    }
}

#[test]
fn a_sorted_set_serves_those_that_block_on_it_whatever_makes_it() {
    expect_served(
        "ZADD KEY 1 a",
        &[
            "ZADD k 1 a",
            "ZINCRBY k 1 a",
            "ZADD k INCR 1 a",
            "ZUNIONSTORE k 1 source",
            "ZINTERSTORE k 1 source",
            "ZDIFFSTORE k 1 source",
            "ZRANGESTORE k source 0 -1",
            "RENAME source k",
            "RENAMENX source k",
            "COPY source k",
            "SELECT 1; MOVE k 0",
            "SWAPDB 0 1",
            "MULTI; DEL k; ZADD k 5 x; ZADD k 1 a; ZREM k x; EXEC",
            "SADD k x; DEL k; ZADD k 1 a",
            "SORT source ALPHA STORE k; DEL k; RENAME source k",
            "SET k x; ZUNIONSTORE k 1 source",
        ],
        &[
            ("BZPOPMIN nothing k 0", "*3 $1 k $1 a $1 1"),
            ("BZPOPMAX k nothing 0", "*3 $1 k $1 a $1 1"),
            ("BZMPOP 0 2 nothing k MIN COUNT 3", "*2 $1 k *1 *2 $1 a $1 1"),
            ("BZMPOP 0 1 k MAX", "*2 $1 k *1 *2 $1 a $1 1"),
        ],
    );
}

#[test]
fn a_list_serves_those_that_block_on_it_whatever_makes_it() {
    expect_served(
        "RPUSH KEY a",
        &[
            "RPUSH k a",
            "LPUSH k a",
            "LMOVE source k LEFT RIGHT",
            "RPOPLPUSH source k",
            "SORT source ALPHA STORE k",
            "RENAME source k",
            "COPY source k",
            "SELECT 1; MOVE k 0",
            "SWAPDB 0 1",
            "MULTI; RPUSH k x a; LPOP k; EXEC",
            "ZADD k 1 x; DEL k; RPUSH k a",
            "XADD k * f v; RENAME source k",
        ],
        &[
            ("BLPOP nothing k 0", "*2 $1 k $1 a"),
            ("BRPOP k nothing 0", "*2 $1 k $1 a"),
            ("BLMPOP 0 2 nothing k LEFT COUNT 3", "*2 $1 k *1 $1 a"),
            ("BLMOVE k other LEFT LEFT 0", "$1 a"),
            ("BRPOPLPUSH k other 0", "$1 a"),
        ],
    );
}

#[test]
fn a_restored_key_serves_those_that_wait_for_its_type() {
    let server = TestServer::start();
    let mut client = server.client();
    for (value, request, reply) in [
        ("RPUSH source a", "BLPOP k 0", "*2 $1 k $1 a"),
        ("ZADD source 1 a", "BZPOPMIN k 0", "*3 $1 k $1 a $1 1"),
        ("XADD source 1-1 f v", "XREAD BLOCK 0 STREAMS k 0", "*1 *2 $1 k *1 *2 $3 1-1 *2 $1 f $1 v"),
    ] {
        client.call("FLUSHALL");
        client.call(value);
        let Frame::Bulk(dump) = client.frame(&["DUMP", "source"]) else { panic!("no dump") };
        let mut blocked = server.block(request);
        assert_eq!(client.call_args(&[&b"RESTORE"[..], b"k", b"0", &dump]), "+OK");
        assert_eq!(blocked.reply(), reply);
    }
}

#[cfg(feature = "lua")]
#[test]
fn a_script_serves_with_what_is_there_when_it_ends() {
    let server = TestServer::start();
    let mut client = server.client();
    let (mut list, mut sorted) = (server.block("BLPOP k 0"), server.block("BZMPOP 0 1 z MIN COUNT 2"));
    let script = "redis.call('RPUSH', 'k', 'x', 'a') redis.call('LPOP', 'k') \
        redis.call('ZADD', 'z', 1, 'a', 2, 'b', 0, 'c') return redis.call('ZREM', 'z', 'c')";
    assert_eq!(client.call_args(&["EVAL", script, "2", "k", "z"]), ":1");
    assert_eq!([list.reply(), sorted.reply()], ["*2 $1 k $1 a", "*2 $1 z *2 *2 $1 a $1 1 *2 $1 b $1 2"]);
}

#[test]
fn a_client_sleeps_through_a_flush_and_a_consumer_does_not() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("XGROUP CREATE s g $ MKSTREAM", "+OK"), ("SET other v", "+OK")]);
    let (mut list, mut sorted) = (server.block("BLPOP k z 0"), server.block("BZPOPMIN k z 0"));
    let mut consumer = server.block("XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    client.expect(&[("FLUSHALL", "+OK")]);
    assert!(consumer.reply().starts_with("-NOGROUP"));
    client.expect(&[("RPUSH k a", ":1"), ("ZADD z 1 a", ":1")]);
    assert_eq!([list.reply(), sorted.reply()], ["*2 $1 k $1 a", "*3 $1 z $1 a $1 1"]);
}

#[test]
fn a_client_whose_user_may_no_longer_call_is_told_so_when_its_key_is_ready() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("XGROUP CREATE s g $ MKSTREAM", "+OK")]);
    for (request, command, push) in [
        ("BZPOPMIN k 0", "bzpopmin", "ZADD k 1 a"),
        ("BLMPOP 0 1 k LEFT", "blmpop", "RPUSH k a"),
        ("XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "xreadgroup", "XADD s 1-1 f v"),
    ] {
        client.expect(&[("ACL SETUSER bob on nopass ~* +@all", "+OK"), ("DEL k", ":0")]);
        let mut waiting = server.client();
        assert_eq!(waiting.call("AUTH bob x"), "+OK");
        let mut blocked = server.block_as(waiting, request);
        assert_eq!(client.call(&format!("ACL SETUSER bob -{command}")), "+OK");
        client.call(push);
        assert!(blocked.reply().starts_with("-NOPERM"), "{request}");
        client.call("DEL k");
    }
    client.expect(&[("XLEN s", ":1"), ("XPENDING s g", "*4 :0 $-1 $-1 *-1")]);
}

#[test]
fn what_concerns_no_blocked_client_ends_no_wait() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut blocked: Vec<Client> = (0..500).map(|_| server.client()).collect();
    blocked.iter_mut().for_each(|client| client.send(b"BLPOP k l 0\r\n"));
    wait_until(|| client.info("blocked_clients") == "500");
    for at in 0..100 {
        client.expect(&[("SET k v", "+OK"), ("DEL k", ":1"), ("MULTI", "+OK"), ("RPUSH k a", "+QUEUED")]);
        client.expect(&[("DEL k", "+QUEUED"), ("EXEC", "*2 :1 :1")]);
        server.advance_ms(at);
    }
    assert_eq!(client.info("blocked_clients"), "500");
    client.expect(&[("RPUSH k a", ":1"), ("EXISTS k", ":0")]);
    wait_until(|| client.info("blocked_clients") == "499");
}
