//! `LOCK.*`: locks, their queues, sessions, notifications, and the effects of other commands on a lock.

mod contention;
mod convert;
mod deadlock;
mod files;
mod graphs;
#[cfg(feature = "binary")]
mod killed;
mod model;
mod mutants;
mod permits;
mod proof;
mod queues;
mod reference;
mod sessions;
mod several;
mod shared;
mod shown;

use keylatch::Server;

use crate::harness::{Client, TestServer, wait_until};

/// Sends a request that blocks, and returns when the server has registered the client as blocked.
fn block(server: &TestServer, client: Client, request: &str) -> Client {
    server.block_as(client, request)
}

/// Queues a new client for lock `k` with a token.
fn wait_for(server: &TestServer, token: &str) -> Client {
    block(server, server.client(), &format!("LOCK.ACQUIRE k {token} PX 1000 BLOCK 0"))
}

fn fence(client: &mut Client, request: &str) -> i64 {
    client.int(request)
}

/// Asserts that the reply, if it has arrived, is that of an acquired lock; returns the fence.
fn acquired(client: &mut Client) -> i64 {
    let reply = client.reply();
    reply.strip_prefix(':').and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("no fence but {reply}"))
}

fn locks_info(client: &mut Client, name: &str) -> i64 {
    let info = client.call("INFO locks");
    let value = info.split(' ').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
}

#[test]
fn a_lock_is_a_string_key_with_the_token_for_its_value() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let first = fence(&mut one, "LOCK.ACQUIRE k mine PX 1000");
    assert!(first > 0);
    other.expect(&[
        ("GET k", "$4 mine"),
        ("PTTL k", ":1000"),
        ("SETNX k other", ":0"),
        ("LOCK.ACQUIRE k other PX 1000", "$-1"),
        ("LOCK.RELEASE k other", ":0"),
        ("LOCK.RENEW k other PX 1000", "$-1"),
        ("LOCK.FENCE k other", "$-1"),
    ]);
    assert_eq!(fence(&mut other, "LOCK.FENCE k mine"), first);
    assert_eq!(fence(&mut other, "LOCK.RENEW k mine PX 5000"), first);
    other.expect(&[
        ("PTTL k", ":5000"),
        ("LOCK.RELEASE k mine", ":1"),
        ("EXISTS k", ":0"),
        ("LOCK.RELEASE k mine", ":0"),
    ]);
    assert!(fence(&mut one, "LOCK.ACQUIRE k mine PX 1000") > first);
}

#[test]
fn acquiring_again_with_the_same_token_keeps_the_fence_and_renews_the_ttl() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let first = fence(&mut one, "LOCK.ACQUIRE k mine PX 1000 META one");
    server.advance_ms(400);
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k mine PX 2000"), first);
    assert_eq!(other.call("PTTL k"), ":2000");
    assert_eq!(fence(&mut other, "LOCK.ACQUIRE k mine SESSION META two"), first);
    let info = other.call("LOCK.INFO k");
    assert!(info.contains("age-ms :400") && info.contains("meta $3 two") && info.contains("session :1"), "{info}");
}

#[test]
fn a_lock_that_was_taken_by_set_nx_has_a_fence_as_soon_as_it_is_asked_for() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k mine NX PX 1000", "+OK"), ("LOCK.LIST 0", "*2 $1 0 *0")]);
    let first = fence(&mut client, "LOCK.FENCE k mine");
    assert_eq!(fence(&mut client, "LOCK.FENCE k mine"), first);
    assert_eq!(fence(&mut client, "LOCK.ACQUIRE k mine PX 1000"), first);
    assert_eq!(client.call("LOCK.RELEASE k mine"), ":1");
}

#[test]
fn wrong_requests_are_rejected_before_the_key_is_looked_at() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[
        ("LPUSH list a", ":1"),
        ("LOCK.ACQUIRE list t", "-ERR LOCK.ACQUIRE needs PX or SESSION"),
        ("LOCK.ACQUIRE list t BLOCK 0", "-ERR LOCK.ACQUIRE needs PX or SESSION"),
        ("LOCK.ACQUIRE list t PX x", "-ERR value is not an integer or out of range"),
        ("LOCK.ACQUIRE list t PX 0", "-ERR invalid expire time in 'lock.acquire' command"),
        ("LOCK.ACQUIRE list t PX 9223372036854775807", "-ERR invalid expire time in 'lock.acquire' command"),
        ("LOCK.ACQUIRE list t PX 1 BLOCK x", "-ERR timeout is not an integer or out of range"),
        ("LOCK.ACQUIRE list t PX 1 BLOCK -1", "-ERR timeout is negative"),
        ("LOCK.ACQUIRE list t PX 1 PX 2", "-ERR syntax error"),
        ("LOCK.ACQUIRE list t SESSION SESSION", "-ERR syntax error"),
        ("LOCK.ACQUIRE list t PX 1 NOTIFY NOTIFY", "-ERR syntax error"),
        ("LOCK.ACQUIRE list t PX 1 META a META a", "-ERR syntax error"),
        ("LOCK.ACQUIRE list t PX", "-ERR syntax error"),
        ("LOCK.ACQUIRE list t PX 1 NX", "-ERR syntax error"),
        ("LOCK.RENEW list t EX 1", "-ERR syntax error"),
        ("LOCK.ACQUIRE k", "-ERR wrong number of arguments for 'lock.acquire' command"),
        ("LOCK.RENEW k t PX", "-ERR wrong number of arguments for 'lock.renew' command"),
        ("LOCK.RELEASE k", "-ERR wrong number of arguments for 'lock.release' command"),
        ("LOCK.ACQUIRE list t PX 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LOCK.RENEW list t PX 1", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LOCK.RELEASE list t", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LOCK.FENCE list t", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LOCK.INFO list", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("LOCK.INFO none", "*-1"),
        ("LOCK.LIST x", "-ERR invalid cursor"),
        ("LOCK.LIST 0 COUNT 0", "-ERR syntax error"),
    ]);
}

#[test]
fn those_in_line_are_served_in_the_order_in_which_they_came() {
    let server = TestServer::start();
    let mut holder = server.client();
    let mut last = fence(&mut holder, "LOCK.ACQUIRE k t PX 60000");
    let mut line: Vec<Client> = (0..5).map(|at| wait_for(&server, &format!("t{at}"))).collect();
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    for (at, client) in line.iter_mut().enumerate() {
        let fence = acquired(client);
        assert!(fence > last);
        last = fence;
        assert_eq!(client.call("GET k"), format!("$2 t{at}"));
        assert_eq!(client.call("PTTL k"), ":1000");
        assert_eq!(client.call(&format!("LOCK.RELEASE k t{at}")), ":1");
    }
    assert_eq!(holder.call("EXISTS k"), ":0");
    assert_eq!(locks_info(&mut holder, "waiting"), 0);
}

#[test]
fn whatever_removes_the_key_hands_the_lock_over_before_anyone_else_can_take_it() {
    let server = TestServer::start_with(&[("databases", "4")]);
    for removal in [
        "DEL k",
        "UNLINK k",
        "GETDEL k",
        "DELEX k IFEQ t",
        "DELIFEQ k t",
        "GETEX k PXAT 1",
        "SET k x PXAT 1",
        "PEXPIREAT k 1",
        "RENAME k elsewhere",
        "MOVE k 1",
        "FLUSHDB",
        "FLUSHALL",
        "SWAPDB 0 2",
        "LOCK.RELEASE k t",
        #[cfg(feature = "lua")]
        "EVAL return(redis.call('del','k')) 0",
        "RESTORE k 1 x REPLACE ABSTTL",
    ] {
        let (mut other, mut holder) = (server.client(), server.client());
        assert_eq!(other.call("FLUSHALL"), "+OK");
        holder.int("LOCK.ACQUIRE k t PX 60000");
        let mut first = wait_for(&server, "first");
        let mut second = wait_for(&server, "second");
        match removal.strip_prefix("RESTORE k 1 x") {
            Some(options) => {
                let dump = other.frame(&["DUMP", "k"]);
                let payload = match dump {
                    keylatch::internals::resp::Frame::Bulk(bytes) => bytes.to_vec(),
                    other => panic!("{other:?}"),
                };
                let mut request: Vec<Vec<u8>> = vec![b"RESTORE".to_vec(), b"k".to_vec(), b"1".to_vec(), payload];
                request.extend(options.split_whitespace().map(|word| word.as_bytes().to_vec()));
                other.call_args(&request);
            }
            None => {
                other.call(removal);
            }
        }
        assert_eq!(other.call("SETNX k poller"), ":0", "after {removal}");
        assert_eq!(other.call("GET k"), "$5 first", "after {removal}");
        acquired(&mut first);
        assert_eq!(other.call("MULTI"), "+OK");
        assert_eq!(other.call("DEL k"), "+QUEUED");
        assert_eq!(other.call("EXEC"), "*1 :1");
        acquired(&mut second);
        assert_eq!(other.call("GET k"), "$6 second");
    }
}

#[test]
fn an_expired_lock_goes_to_the_first_in_line_and_not_to_a_poller_that_comes_first() {
    let server = TestServer::start_on_workers(2);
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 100");
    let mut first = wait_for(&server, "first");
    // Time passes without a sweep: the poller's own call finds the expired key.
    server.server().namespace().clock.advance(std::time::Duration::from_millis(200));
    let mut poller = server.client();
    assert_eq!(poller.call("SETNX k poller"), ":0");
    acquired(&mut first);
    holder.int("LOCK.RENEW k first PX 100");
    let mut second = wait_for(&server, "second");
    server.server().namespace().clock.advance(std::time::Duration::from_millis(200));
    poller.expect(&[("MULTI", "+OK"), ("SETNX k poller", "+QUEUED"), ("EXEC", "*1 :0"), ("GET k", "$6 second")]);
    acquired(&mut second);
    server.advance_ms(2000);
    assert_eq!(poller.call("SETNX k poller"), ":1");
}

#[test]
fn neither_a_transaction_queued_before_nor_a_script_takes_an_expired_lock_before_the_first_in_line() {
    let takers: &[&str] = &[
        "EXEC",
        #[cfg(feature = "lua")]
        "EVAL return(redis.call('setnx',KEYS[1],'poller')) 1 k",
        #[cfg(feature = "lua")]
        "EVAL return(redis.call('setnx','k','poller')) 0",
    ];
    for taker in takers {
        let server = TestServer::start_on_workers(2);
        let (mut holder, mut poller) = (server.client(), server.client());
        holder.int("LOCK.ACQUIRE k t PX 100");
        let mut first = wait_for(&server, "first");
        if *taker == "EXEC" {
            poller.expect(&[("MULTI", "+OK"), ("SETNX k poller", "+QUEUED")]);
        }
        server.server().namespace().clock.advance(std::time::Duration::from_millis(200));
        let expected = if *taker == "EXEC" { "*1 :0" } else { ":0" };
        poller.expect(&[(taker, expected), ("GET k", "$5 first")]);
        acquired(&mut first);
    }
}

#[test]
fn commands_take_the_short_way_again_when_the_last_client_has_left_the_line() {
    let server = TestServer::start();
    let has_lock_queues = || server.server().namespace().store.has_lock_queues();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 60000");
    assert!(!has_lock_queues());
    // By a timeout, by CLIENT UNBLOCK, by a disconnect, and by being served.
    let mut waiter = block(&server, server.client(), "LOCK.ACQUIRE k a PX 1000 BLOCK 50");
    wait_until(has_lock_queues);
    server.advance_ms(50);
    assert_eq!(waiter.reply(), "$-1");
    assert!(!has_lock_queues());
    let mut waiter = server.client();
    let id = waiter.int("CLIENT ID");
    let mut waiter = block(&server, waiter, "LOCK.ACQUIRE k a PX 1000 BLOCK 0");
    assert_eq!(holder.int(&format!("CLIENT UNBLOCK {id}")), 1);
    assert_eq!(waiter.reply(), "$-1");
    wait_until(|| !has_lock_queues());
    drop(wait_for(&server, "a"));
    wait_until(|| !has_lock_queues());
    let (mut first, mut second) = (wait_for(&server, "a"), wait_for(&server, "b"));
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    acquired(&mut first);
    assert!(has_lock_queues());
    assert_eq!(first.call("LOCK.RELEASE k a"), ":1");
    acquired(&mut second);
    assert!(!has_lock_queues());
}

#[test]
fn the_sweeper_hands_an_expired_lock_over() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 100");
    let mut first = wait_for(&server, "first");
    server.advance_ms(100);
    acquired(&mut first);
    assert_eq!(holder.call("PTTL k"), ":1000");
    assert_eq!(locks_info(&mut holder, "expired_while_held_total"), 1);
}

#[test]
fn those_that_wait_with_the_same_token_get_the_lock_together_and_others_wait_on() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 60000");
    let mut line: Vec<Client> = ["a", "b", "a", "b"].map(|token| wait_for(&server, token)).into();
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    let fence = acquired(&mut line[0]);
    assert_eq!(acquired(&mut line[2]), fence);
    assert_eq!(locks_info(&mut holder, "waiting"), 2);
    assert_eq!(holder.call("LOCK.RELEASE k a"), ":1");
    let next = acquired(&mut line[1]);
    assert!(next > fence);
    assert_eq!(acquired(&mut line[3]), next);
}

#[test]
fn a_wait_ends_by_its_timeout_by_client_unblock_and_by_a_disconnect() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    holder.int("LOCK.ACQUIRE k t PX 60000");
    let mut timed = block(&server, server.client(), "LOCK.ACQUIRE k a PX 1000 BLOCK 50");
    let unblocked = server.client();
    let mut unblocked = block(&server, unblocked, "LOCK.ACQUIRE k b PX 1000 BLOCK 0");
    let gone = wait_for(&server, "c");
    let mut last = wait_for(&server, "d");
    server.advance_ms(50);
    assert_eq!(timed.reply(), "$-1");
    assert_eq!(locks_info(&mut other, "timed_out_total"), 1);
    let list = other.call("CLIENT LIST");
    let id = list.split("id=").find(|line| line.contains("lwait=1")).and_then(|line| line.split(' ').next());
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {} ERROR", id.expect("a waiting client"))), ":1");
    assert_eq!(unblocked.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    drop(gone);
    wait_until(|| locks_info(&mut other, "waiting") == 1);
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    acquired(&mut last);
}

#[test]
fn the_ttl_of_one_in_line_counts_from_the_moment_in_which_it_gets_the_lock() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 60000");
    let mut first = wait_for(&server, "first");
    server.advance_ms(10_000);
    holder.call("LOCK.RELEASE k t");
    acquired(&mut first);
    assert_eq!(holder.call("PTTL k"), ":1000");
}

#[test]
fn a_session_lock_is_released_when_its_connection_closes_and_by_reset() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    holder.int("LOCK.ACQUIRE k t SESSION");
    holder.int("LOCK.ACQUIRE stays t PX 60000");
    assert_eq!(other.call("PTTL k"), ":-1");
    let mut first = block(&server, server.client(), "LOCK.ACQUIRE k first SESSION BLOCK 0");
    drop(holder);
    acquired(&mut first);
    other.expect(&[("GET k", "$5 first"), ("GET stays", "$1 t")]);
    let mut second = wait_for(&server, "second");
    assert_eq!(first.call("RESET"), "+RESET");
    acquired(&mut second);
    assert_eq!(other.call("LOCK.RELEASE k second"), ":1");
    // Locks that it held before are not released a second time.
    second.int("LOCK.ACQUIRE k again PX 1000");
    drop(first);
    wait_until(|| !other.call("CLIENT LIST").contains("cmd=reset"));
    assert_eq!(other.call("GET k"), "$5 again");
}

#[test]
fn a_session_moves_to_the_connection_that_acquires_with_the_same_token() {
    let server = TestServer::start();
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    let first = fence(&mut one, "LOCK.ACQUIRE k t SESSION");
    assert_eq!(fence(&mut two, "LOCK.ACQUIRE k t SESSION"), first);
    let shown = format!("CLIENT LIST ID {}", one.int("CLIENT ID"));
    assert!(other.call(&shown).contains(" locks=0 "));
    drop(one);
    wait_until(|| !other.call(&shown).contains("id="));
    assert_eq!(other.call("GET k"), "$1 t");
    drop(two);
    wait_until(|| other.call("EXISTS k") == ":0");
}

#[test]
fn a_session_releases_only_locks_that_it_still_owns() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    one.int("LOCK.ACQUIRE k t SESSION");
    one.int("LOCK.ACQUIRE j t SESSION");
    let shown = format!("CLIENT LIST ID {}", one.int("CLIENT ID"));
    assert!(other.call(&shown).contains(" locks=2 "));
    other.expect(&[("SET k another", "+OK"), ("DEL j", ":1"), ("SET j t", "+OK")]);
    assert!(other.call(&shown).contains(" locks=0 "));
    drop(one);
    wait_until(|| !other.call(&shown).contains("id="));
    other.expect(&[("GET k", "$7 another"), ("GET j", "$1 t")]);
}

#[test]
fn the_loss_of_a_lock_is_announced_with_its_reason() {
    let server = TestServer::start_with(&[("databases", "4")]);
    for (reason, removal) in [
        ("deleted", "DEL k"),
        ("deleted", "GETDEL k"),
        ("overwritten", "SET k other"),
        ("overwritten", "APPEND k x"),
        ("renamed", "RENAME k elsewhere"),
        ("moved", "MOVE k 1"),
        ("flushed", "FLUSHALL"),
        ("swapped", "SWAPDB 0 2"),
        ("released", "LOCK.RELEASE k t"),
        ("deleted", "PEXPIREAT k 1"),
        ("expired", "PEXPIRE k 5"),
    ] {
        let (mut other, mut holder, mut listener) = (server.client(), server.client3(), server.client());
        other.call("FLUSHALL");
        assert_eq!(listener.call("SUBSCRIBE __lock__:k"), "*3 $9 subscribe $10 __lock__:k :1");
        let fence = holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
        other.call(removal);
        server.advance_ms(5);
        let fence_len = fence.to_string().len();
        assert_eq!(
            holder.reply(),
            format!(">5 $9 lock-lost $1 k $1 t :{fence} ${} {reason}", reason.len()),
            "after {removal}"
        );
        let len = reason.len() + 1 + fence_len;
        assert_eq!(listener.reply(), format!("*3 $7 message $10 __lock__:k ${len} {reason} {fence}"));
    }
}

#[test]
fn a_release_of_ones_own_is_not_announced_and_neither_is_a_lock_without_notify() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client3(), server.client());
    holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    holder.int("LOCK.ACQUIRE k t PX 60000");
    assert_eq!(other.call("DEL k"), ":1");
    assert_eq!(holder.call("PING"), "+PONG");
}

#[test]
fn a_lock_acquired_once_with_notify_is_announced_also_after_it_was_acquired_again_without_it() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client3(), server.client());
    let fence = holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
    assert_eq!(holder.int("LOCK.ACQUIRE k t PX 60000"), fence);
    assert_eq!(other.call("DEL k"), ":1");
    assert_eq!(holder.reply(), format!(">5 $9 lock-lost $1 k $1 t :{fence} $7 deleted"));
}

#[test]
fn commands_that_leave_the_token_in_place_leave_the_lock_held() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client3(), server.client());
    let fence = holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
    other.expect(&[
        ("PEXPIRE k 5000", ":1"),
        ("PERSIST k", ":1"),
        ("SET k t", "+OK"),
        ("SETRANGE k 0 t", ":1"),
        ("GETEX k PX 7000", "$1 t"),
    ]);
    server.advance_ms(10);
    assert_eq!(other.int("LOCK.FENCE k t"), fence);
    assert!(other.call("LOCK.INFO k").contains("age-ms :10 "));
    assert_eq!(other.call("RENAME k j"), "+OK");
    assert!(other.int("LOCK.FENCE j t") > fence);
}

#[test]
fn waiting_for_an_overwritten_lock_goes_on() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    holder.int("LOCK.ACQUIRE k t PX 60000");
    let mut first = wait_for(&server, "first");
    assert_eq!(other.call("SET k plain"), "+OK");
    assert_eq!(locks_info(&mut other, "waiting"), 1);
    assert_eq!(other.call("DEL k"), ":1");
    acquired(&mut first);
}

#[test]
fn info_describes_holder_line_and_deadlock() {
    let server = TestServer::start_with(&[("lock-deadlock", "wait")]);
    let (mut one, mut two, mut other) = (server.client(), server.client(), server.client());
    one.call("CLIENT SETNAME one");
    two.call("CLIENT SETNAME two");
    let (first, second) = (one.int("CLIENT ID"), two.int("CLIENT ID"));
    let fence = one.int("LOCK.ACQUIRE a t1 PX 60000 META note");
    two.int("LOCK.ACQUIRE b t2 SESSION");
    let (one_addr, two_addr) = (one.local_addr(), two.local_addr());
    let mut one = block(&server, one, "LOCK.ACQUIRE b t1 PX 1000 BLOCK 0");
    server.advance_ms(30);
    assert!(other.call("LOCK.INFO a").ends_with("$8 deadlock *-1"));
    let mut two = block(&server, two, "LOCK.ACQUIRE a t2 PX 1000 BLOCK 0");
    server.advance_ms(5);
    let addr_of = |addr: std::net::SocketAddr| format!("${} {addr}", addr.to_string().len());
    let holder = format!(
        "$5 token $2 t1 $5 fence :{fence} $4 pttl :59965 $6 age-ms :35 $9 client-id :{first} $4 addr {} \
         $11 client-name $3 one $3 lib $0  $4 user $7 default $4 meta $4 note $7 session :0",
        addr_of(one_addr)
    );
    assert_eq!(
        other.call("LOCK.INFO a"),
        format!(
            "*34 {holder} $4 mode $9 exclusive $7 permits $-1 $4 free $-1 $7 holders *1 *24 {holder} $7 permits $-1 \
             $7 waiters *1 *12 $9 client-id :{second} $4 addr {} $11 client-name $3 two $9 waited-ms :5 \
             $4 mode $9 exclusive $7 permits $-1 $8 deadlock *4 $1 a :{first} $1 b :{second}",
            addr_of(two_addr),
        )
    );
    assert_eq!(locks_info(&mut other, "longest_wait_ms"), 35);
    assert_eq!(other.call("DEL a"), ":1");
    acquired(&mut two);
    assert_eq!(two.call("LOCK.RELEASE b t2"), ":1");
    acquired(&mut one);
    other.expect(&[("SET plain x", "+OK")]);
    let holder = "$5 token $1 x $5 fence $-1 $4 pttl :-1 $6 age-ms $-1 $9 client-id $-1 $4 addr $-1 $11 client-name $-1 \
                  $3 lib $-1 $4 user $-1 $4 meta $-1 $7 session $-1";
    assert_eq!(
        other.call("LOCK.INFO plain"),
        format!(
            "*34 {holder} $4 mode $9 exclusive $7 permits $-1 $4 free $-1 $7 holders *1 *24 {holder} $7 permits $-1 \
             $7 waiters *0 $8 deadlock *-1"
        )
    );
}

#[test]
fn list_iterates_over_all_locks_with_a_record() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call("CLIENT SETNAME me");
    for n in 0..200 {
        client.int(&format!("LOCK.ACQUIRE key:{n} t PX 60000"));
    }
    other.call("SET plain x");
    let (mut cursor, mut keys) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let page = other.call(&format!("LOCK.LIST {cursor} COUNT 7"));
        let words: Vec<&str> = page.split(' ').collect();
        cursor = words[2].to_owned();
        let names = words.windows(4).filter(|window| window[1] == "key").map(|window| window[3].to_owned());
        let before = keys.len();
        keys.extend(names);
        assert!(keys.len() - before <= 7, "{page}");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(keys.len(), 200);
    assert_eq!(locks_info(&mut other, "held"), 200);
    let one = other.call("LOCK.LIST 0 MATCH key:17 COUNT 1000");
    assert!(one.starts_with("*2 $1 0 *1 *16 $3 key $6 key:17 $5 fence :"), "{one}");
    assert!(one.ends_with("$11 client-name $2 me $4 mode $9 exclusive $7 holders :1"), "{one}");
    assert_eq!(other.call("LOCK.LIST 0 COUNT 1000 WAITING"), "*2 $1 0 *0");
    let _first = block(&server, server.client(), "LOCK.ACQUIRE key:5 first PX 1000 BLOCK 0");
    let waiting = other.call("LOCK.LIST 0 COUNT 1000 WAITING");
    assert!(waiting.contains("*1 *16 $3 key $5 key:5 ") && waiting.contains("$7 waiting :1"), "{waiting}");
}

#[test]
fn what_locks_take_is_given_back() {
    let server = TestServer::start();
    let mut client = server.client();
    client.int("LOCK.ACQUIRE warm t PX 60000");
    client.call("LOCK.RELEASE warm t");
    let before: i64 = client.info("used_memory").parse().expect("a number");
    for n in 0..1000 {
        client.int(&format!("LOCK.ACQUIRE key:{n} token PX 60000 META {}", "x".repeat(100)));
    }
    let held: i64 = client.info("used_memory").parse().expect("a number");
    assert!(held - before > 200_000, "{before} before, {held} with 1000 locks");
    for n in 0..1000 {
        assert_eq!(client.call(&format!("LOCK.RELEASE key:{n} token")), ":1");
    }
    let after: i64 = client.info("used_memory").parse().expect("a number");
    assert!(after - before < 60_000, "{before} before, {after} after");
    assert_eq!(locks_info(&mut client, "held"), 0);
}

#[test]
fn a_user_needs_permission_for_the_category_of_locks() {
    let server = TestServer::start();
    let (mut admin, mut user) = (server.client(), server.client());
    assert_eq!(admin.call("ACL SETUSER u on nopass ~* +@all -@lock"), "+OK");
    assert_eq!(user.call("AUTH u x"), "+OK");
    assert!(user.call("LOCK.ACQUIRE k t PX 1000").starts_with("-NOPERM"));
    assert!(admin.call("ACL CAT lock").contains("lock.acquire"));
    assert_eq!(admin.call("ACL SETUSER u +@lock resetkeys ~mine:*"), "+OK");
    assert!(user.call("LOCK.ACQUIRE k t PX 1000").starts_with("-NOPERM"));
    user.int("LOCK.ACQUIRE mine:k t PX 1000");
}

#[test]
fn the_log_has_a_lock_as_the_set_that_it_is_and_what_is_known_of_it_as_a_ping() {
    let server = TestServer::start_with_workers(Server::builder().clock(keylatch::Clock::manual()), 1);
    server.begin_log();
    let mut client = server.client();
    client.int("LOCK.ACQUIRE k t PX 1000");
    client.int("LOCK.ACQUIRE k t PX 2000");
    client.int("LOCK.RENEW k t PX 3000");
    client.int("LOCK.FENCE k t");
    client.call("LOCK.RELEASE k t");
    client.int("LOCK.ACQUIRE s t SESSION");
    drop(client);
    let mut other = server.client();
    wait_until(|| other.call("EXISTS s") == ":0");
    let log = String::from_utf8_lossy(&server.take_log()).into_owned();
    let words: Vec<&str> = log.split("\r\n").filter(|line| !line.starts_with(['*', '$'])).collect();
    let is_shown = |word: &&str| word.parse::<i64>().is_err() && !matches!(*word, "MULTI" | "EXEC");
    let words: Vec<&str> =
        words.into_iter().filter(is_shown).map(|word| word.split(' ').next().unwrap_or(word)).collect();
    assert_eq!(
        words.join(" ").trim(),
        "SELECT SET k t PXAT PING keylatch-lock:1 SET k t PXAT PING keylatch-lock:1 PEXPIREAT k PING keylatch-lock:1 \
         PING keylatch-lock:1 DEL k SET s t PING keylatch-lock:1 DEL s"
    );
}

#[test]
fn what_a_client_remembers_of_its_session_locks_counts_as_its_memory() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    let shown = format!("CLIENT LIST ID {}", holder.int("CLIENT ID"));
    let mut memory = || -> usize {
        let line = other.call(&shown);
        let figure = line.split(' ').find_map(|word| word.strip_prefix("tot-mem="));
        figure.and_then(|figure| figure.parse().ok()).expect("a number")
    };
    let before = memory();
    for n in 0..100 {
        holder.int(&format!("LOCK.ACQUIRE key:{n} t SESSION"));
        holder.int(&format!("LOCK.ACQUIRE key:{n} t SESSION"));
    }
    assert!((2_000..20_000).contains(&(memory() - before)));
    for n in 0..100 {
        assert_eq!(holder.call(&format!("LOCK.RELEASE key:{n} t")), ":1");
    }
    assert_eq!(memory(), before);
}

#[test]
fn a_lock_that_has_moved_to_another_session_is_no_memory_of_the_former_one() {
    let server = TestServer::start();
    let (mut one, mut other) = (server.client(), server.client());
    let shown = format!("CLIENT LIST ID {}", one.int("CLIENT ID"));
    let memory = |client: &mut Client| {
        let line = client.call(&shown);
        let memory = line.split(' ').find_map(|field| field.strip_prefix("tot-mem="));
        memory.and_then(|memory| memory.parse::<usize>().ok()).unwrap_or_else(|| panic!("no memory in {line}"))
    };
    let (before, acquire) = (memory(&mut other), format!("LOCK.ACQUIRE {} token SESSION", "k".repeat(10_000)));
    fence(&mut one, &acquire);
    wait_until(|| (before + 10_000..before + 11_000).contains(&memory(&mut other)));
    fence(&mut other, &acquire);
    assert_eq!(memory(&mut other), before);
}

#[test]
fn a_program_that_finds_a_lock_expired_hands_it_over() {
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut holder = server.client();
    holder.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")]);
    let first = fence(&mut holder, "LOCK.ACQUIRE k mine PX 10");
    let mut next = wait_for(&server, "next");
    server.advance_ms(10);
    assert_eq!(server.server().get("k").expect("a string"), None);
    assert!(acquired(&mut next) > first);
}
