//! LOCK.ACQUIREMULTI: several locks at once, or none of them.

use super::{acquired, block, fence, locks_info};
use crate::harness::{Client, TestServer};

/// Queues a new client for several locks.
fn wait_for(server: &TestServer, keys: &str, token: &str) -> Client {
    let count = keys.split(' ').count();
    block(server, server.client(), &format!("LOCK.ACQUIREMULTI {count} {keys} {token} PX 60000 BLOCK 0"))
}

/// Returns the fences in a reply.
fn fences(reply: &str) -> Vec<i64> {
    let words = reply.split(' ').filter_map(|word| word.strip_prefix(':'));
    words.map(|fence| fence.parse().expect("a number")).collect()
}

#[test]
fn several_locks_are_acquired_together_or_none_of_them() {
    let server = TestServer::start();
    let mut client = server.client();
    let got = fences(&client.call("LOCK.ACQUIREMULTI 3 a b c t PX 1000 META all"));
    assert!(got.len() == 3 && got[0] < got[1] && got[1] < got[2], "{got:?}");
    assert_eq!(fences(&client.call("LOCK.ACQUIREMULTI 3 c a b t PX 5000")), [got[2], got[0], got[1]]);
    client.expect(&[
        ("PTTL a", ":5000"),
        ("LOCK.ACQUIREMULTI 2 d c u PX 1000", "*-1"),
        ("EXISTS d", ":0"),
        ("LOCK.RELEASE b t", ":1"),
        ("LOCK.RELEASE a t", ":1"),
        ("LOCK.RELEASE c t", ":1"),
    ]);
    // A lock that the token holds already counts as free, keeps its fence, and stays when the others are not obtained.
    let own = fence(&mut client, "LOCK.ACQUIRE a t PX 9000");
    fence(&mut client, "LOCK.ACQUIRE b another PX 9000");
    assert_eq!(client.call("LOCK.ACQUIREMULTI 2 a b t PX 1000"), "*-1");
    client.expect(&[("PTTL a", ":9000"), ("DEL b", ":1")]);
    assert_eq!(fences(&client.call("LOCK.ACQUIREMULTI 2 a b t PX 1000"))[0], own);
}

#[test]
fn wrong_requests_for_several_locks_are_rejected() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("LOCK.ACQUIREMULTI 0 a t PX 1000", "-ERR invalid numkeys value"),
        ("LOCK.ACQUIREMULTI x a t PX 1000", "-ERR invalid numkeys value"),
        ("LOCK.ACQUIREMULTI 9223372036854775807 a t PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 4 a t PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 2 a b", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 2 a b t", "-ERR LOCK.ACQUIREMULTI needs PX or SESSION"),
        ("LOCK.ACQUIREMULTI 2 a b t SHARED PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 2 a b t PERMITS 1 OF 1 PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 2 a b t REPLICAS 1 PX 1000", "-ERR syntax error"),
        ("LOCK.ACQUIREMULTI 2 a b t PX 0", "-ERR invalid expire time in 'lock.acquiremulti' command"),
        ("LOCK.ACQUIREMULTI 3 a b a t PX 1000", "-ERR key 'a' is named twice"),
        ("LOCK.ACQUIREMULTI 2 a", "-ERR wrong number of arguments for 'lock.acquiremulti' command"),
        ("LPUSH list a", ":1"),
        ("LOCK.ACQUIREMULTI 2 a list t PX 1000", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("EXISTS a b", ":0"),
    ]);
    let twice = client.call_args(&["LOCK.ACQUIREMULTI", "2", "a\r\n+OK", "a\r\n+OK", "t", "SESSION"]);
    assert_eq!(twice, r#"-ERR key '"a\\r\\n+OK"' is named twice"#);
    client.expect(&[("ACL SETUSER u on nopass ~w* %W~* +@all", "+OK"), ("AUTH u x", "+OK")]);
    assert_eq!(
        client.call("LOCK.ACQUIREMULTI 2 a a t SESSION"),
        "-NOPERM this user has no permissions to access one of the keys used as arguments"
    );
    client.expect(&[("LOCK.ACQUIREMULTI 2 w w t SESSION", "-ERR key 'w' is named twice")]);
}

#[test]
fn a_client_waits_in_all_queues_at_once_and_holds_none_of_the_locks_meanwhile() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a x PX 60000");
    fence(&mut one, "LOCK.ACQUIRE c x PX 60000");
    let mut all = wait_for(&server, "a b c", "t");
    let mut behind = block(&server, server.client(), "LOCK.ACQUIRE b y PX 60000 BLOCK 0");
    // b has no holder, but LOCK.* does not come before the waiters.
    other.expect(&[("EXISTS b", ":0"), ("LOCK.ACQUIRE b z PX 1000", "$-1")]);
    let info = other.call("LOCK.INFO b");
    assert!(info.starts_with("*34 $5 token $-1 $5 fence $-1 $4 pttl $-1 $6 age-ms $-1 $9 client-id $-1 "), "{info}");
    assert!(info.contains("$4 mode $4 free $7 permits $-1 $4 free $-1 $7 holders *0 $7 waiters *2 "), "{info}");
    let list = other.call("LOCK.LIST 0 WAITING COUNT 100");
    assert!(list.contains("$3 key $1 b $5 fence $-1 $6 age-ms $-1 $4 pttl $-1 $7 waiting :2 "), "{list}");
    assert_eq!(other.call("LOCK.RELEASE a x"), ":1");
    assert_eq!(locks_info(&mut other, "waiting"), 4);
    // The last one is freed in another way, and by an ordinary command.
    assert_eq!(other.call("DEL c"), ":1");
    assert_eq!(fences(&all.reply()).len(), 3);
    assert_eq!(locks_info(&mut other, "waiting"), 1);
    assert_eq!(other.call("LOCK.RELEASE b t"), ":1");
    acquired(&mut behind);
    other.expect(&[("GET a", "$1 t"), ("GET c", "$1 t")]);
}

#[test]
fn set_nx_may_take_a_lock_that_is_free_while_others_wait_for_more() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a x PX 60000");
    let mut all = wait_for(&server, "a b", "t");
    other.expect(&[("SET b plain NX PX 5000", "+OK"), ("LOCK.RELEASE a x", ":1"), ("EXISTS a", ":0")]);
    server.advance_ms(5000);
    assert_eq!(fences(&all.reply()).len(), 2);
}

#[test]
fn two_clients_that_name_the_same_locks_in_any_order_do_not_block_each_other_for_ever() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE b x PX 60000");
    let mut first = wait_for(&server, "a b", "t");
    let mut second = wait_for(&server, "b a", "u");
    assert_eq!(other.call("LOCK.RELEASE b x"), ":1");
    assert_eq!(fences(&first.reply()).len(), 2);
    other.expect(&[("LOCK.RELEASE a t", ":1"), ("LOCK.RELEASE b t", ":1")]);
    assert_eq!(fences(&second.reply()).len(), 2);
}

#[test]
fn those_behind_a_client_that_waits_for_several_locks_are_served_when_it_is_gone() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a x PX 60000");
    let all = wait_for(&server, "a b", "t");
    let mut behind = block(&server, server.client(), "LOCK.ACQUIRE b y PX 60000 BLOCK 0");
    drop(all);
    acquired(&mut behind);
    let mut all = block(&server, server.client(), "LOCK.ACQUIREMULTI 2 a c t PX 1000 BLOCK 300");
    let mut behind = block(&server, server.client(), "LOCK.ACQUIRE c y PX 60000 BLOCK 0");
    server.advance_ms(300);
    assert_eq!(all.reply(), "*-1");
    acquired(&mut behind);
    assert_eq!(locks_info(&mut other, "waiting"), 0);
}

#[test]
fn the_locks_of_a_session_end_with_it_also_when_they_were_acquired_together() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    assert_eq!(fences(&one.call("LOCK.ACQUIREMULTI 2 a b t SESSION")).len(), 2);
    let mut waiting = wait_for(&server, "b c", "u");
    drop(one);
    assert_eq!(fences(&waiting.reply()).len(), 2);
    assert_eq!(other.call("EXISTS a"), ":0");
}

#[test]
fn in_a_transaction_and_a_script_nobody_waits_for_several_locks() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    fence(&mut one, "LOCK.ACQUIRE a x PX 60000");
    other.expect(&[("MULTI", "+OK"), ("LOCK.ACQUIREMULTI 2 a b t PX 1000 BLOCK 0", "+QUEUED"), ("EXEC", "*1 *-1")]);
    if cfg!(feature = "lua") {
        let script = "return redis.call('LOCK.ACQUIREMULTI', 2, KEYS[1], KEYS[2], 't', 'PX', 1000, 'BLOCK', 0)";
        assert_eq!(other.call_args(&["EVAL", script, "2", "a", "b"]), "$-1");
    }
}

#[test]
fn a_cycle_through_a_client_that_waits_for_several_locks_is_refused() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.client(), server.client());
    let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
    one.int("LOCK.ACQUIRE b of-one SESSION");
    // It is the first in the queue for a, which has no holder, and waits for b.
    let mut two = block(&server, two, "LOCK.ACQUIREMULTI 2 a b of-two PX 1000 BLOCK 0");
    let deadlock = format!("-DEADLOCK a awaited by client {second} waits for b held by client {first}");
    assert_eq!(one.call("LOCK.ACQUIRE a one PX 1000 BLOCK 0"), deadlock);
    assert_eq!(one.call("LOCK.RELEASE b of-one"), ":1");
    assert_eq!(fences(&two.reply()).len(), 2);
}

#[test]
fn a_client_that_has_one_of_several_locks_waits_for_the_others_only() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    fence(&mut holder, "LOCK.ACQUIRE c holder PX 60000");
    fence(&mut other, "LOCK.ACQUIRE d other PX 60000");
    other.expect(&[("SET a plain", "+OK")]);
    let mut queued = wait_for(&server, "c d", "queued");
    let mut holder = block(&server, holder, "LOCK.ACQUIREMULTI 2 c a holder PX 60000 BLOCK 0");
    other.expect(&[("DEL a", ":1")]);
    assert_eq!(fences(&holder.reply()).len(), 2);
    holder.expect(&[("LOCK.RELEASE c holder", ":1")]);
    other.expect(&[("LOCK.RELEASE d other", ":1")]);
    assert_eq!(fences(&queued.reply()).len(), 2);
}
