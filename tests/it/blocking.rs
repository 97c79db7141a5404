//! Blocked clients, with a test-only command that deletes the first of its keys that exists, or waits for one.

use std::time::Duration;

use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer, wait_until};

fn start() -> TestServer {
    start_on(2)
}

fn start_on(workers: usize) -> TestServer {
    TestServer::start_with_workers(Server::builder().clock(Clock::manual()).with_test_commands(), workers)
}

/// Blocks a client on keys without a timeout, and returns when the server has registered it.
fn block(server: &TestServer, keys: &str) -> Client {
    block_until(server, keys, 0)
}

fn block_until(server: &TestServer, keys: &str, timeout_ms: u64) -> Client {
    server.block(&format!("TEST.BGETDEL {keys} {timeout_ms}"))
}

fn blocked(client: &mut Client) -> usize {
    field(client, "blocked_clients")
}

fn field(client: &mut Client, name: &str) -> usize {
    let info = client.call("INFO clients");
    let line = info.split_whitespace().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {info}"))
}

#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    let server = start();
    let mut blocked: Vec<Client> = (0..5).map(|_| block(&server, "k")).collect();
    let mut other = server.client();
    for (at, client) in blocked.iter_mut().enumerate() {
        assert_eq!(other.call(&format!("SET k {at}")), "+OK");
        assert_eq!(client.reply(), format!("*2 $1 k $1 {at}"));
    }
    assert_eq!(other.call("SET k left"), "+OK");
    assert_eq!(other.call("GET k"), "$4 left");
}

/// Returns forty pairs of keys, with all orders of their hashes.
fn pairs() -> impl Iterator<Item = (String, String)> {
    (0..40).map(|number| (format!("p{number}"), format!("q{number}")))
}

#[test]
fn clients_are_served_in_the_order_in_which_their_keys_became_ready() {
    let server = start();
    let mut client = server.client();
    for (p, q) in pairs() {
        let _blocked = [&p, &q].map(|key| server.block(&format!("BLMOVE {key} d LEFT RIGHT 0")));
        client.expect(&[("MULTI", "+OK")]);
        // Neither a value that no client waits for nor a deleted one makes a key ready.
        for change in [format!("SET {q} x"), format!("RPUSH {p} 1"), format!("DEL {q}"), format!("RPUSH {q} 2")] {
            client.expect(&[(&change, "+QUEUED")]);
        }
        client.expect(&[("EXEC", "*4 +OK :1 :1 :1"), ("LRANGE d 0 -1", "*2 $1 1 $1 2"), ("DEL d", ":1")]);
    }
}

#[test]
fn locks_that_one_call_deletes_are_handed_over_in_the_order_in_which_clients_were_queued() {
    let server = start();
    let mut client = server.client();
    for (p, q) in pairs() {
        let (delete, exists) = (format!("DEL {q} {p}"), format!("EXISTS {p} {q}"));
        let mut release = |change: &[(&str, &str)]| {
            [&p, &q].iter().for_each(|key| client.expect(&[(&format!("SET {key} x"), "+OK")]));
            let acquire = |key: &String| server.block(&format!("LOCK.ACQUIRE {key} t PX 1000 BLOCK 0"));
            let mut blocked = [acquire(&p), acquire(&q)];
            client.expect(change);
            client.expect(&[(&exists, ":2")]);
            let [of_p, of_q] = [0, 1].map(|at| fence(&mut blocked[at]));
            assert!(of_p < of_q, "{delete}: {of_p} and {of_q}");
            client.expect(&[(&delete, ":2")]);
        };
        release(&[(&delete, ":2")]);
        release(&[("MULTI", "+OK"), (&delete, "+QUEUED"), ("EXEC", "*1 :2")]);
        #[cfg(feature = "lua")]
        release(&[(&format!("EVAL return(redis.call('DEL',unpack(KEYS))) 2 {q} {p}"), ":2")]);
    }
}

/// Reads the reply to an acquired lock; returns its fence.
fn fence(client: &mut Client) -> u64 {
    let reply = client.reply();
    reply.strip_prefix(':').and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("no fence but {reply}"))
}

#[test]
fn of_keys_in_other_shards_the_one_that_becomes_ready_serves() {
    let server = start();
    let (mut blocked, mut other) = (block(&server, "a b c d e f g h"), server.client());
    assert_eq!(other.call("SET g v"), "+OK");
    assert_eq!(other.call("EXISTS g"), ":0");
    assert_eq!(blocked.reply(), "*2 $1 g $1 v");
    // The client is in no queue any more.
    for key in ["a", "b", "h"] {
        assert_eq!(other.call(&format!("SET {key} stays")), "+OK");
        assert_eq!(other.call(&format!("GET {key}")), "$5 stays");
    }
    assert_eq!(field(&mut other, "total_blocking_keys"), 0);
}

#[test]
fn a_client_that_needs_keys_of_other_shards_too_is_served_before_those_behind_it() {
    let server = start();
    let (mut first, mut second) = (block(&server, "a b c d e f g k"), block(&server, "k"));
    let mut other = server.client();
    assert_eq!(other.call("SET k 1"), "+OK");
    assert_eq!(first.reply(), "*2 $1 k $1 1");
    assert_eq!(other.call("SET k 2"), "+OK");
    assert_eq!(second.reply(), "*2 $1 k $1 2");
}

#[test]
fn a_client_whose_connection_breaks_leaves_every_queue() {
    let server = start();
    let mut other = server.client();
    let client = block(&server, "a b c");
    // Closing the connection with unread data resets it.
    let writer = client.writer();
    let linger = socket2::SockRef::from(&writer).set_linger(Some(std::time::Duration::ZERO));
    linger.expect("SO_LINGER");
    drop((client, writer));
    wait_until(|| blocked(&mut other) == 0 && field(&mut other, "total_blocking_keys") == 0);
}

#[test]
fn a_timeout_ends_the_wait_exactly_when_it_is_over() {
    let server = start();
    let mut client = block_until(&server, "k", 100);
    let mut other = server.client();
    server.advance_ms(99);
    assert_eq!(blocked(&mut other), 1);
    server.advance_ms(1);
    assert_eq!(client.reply(), "*-1");
    assert_eq!(other.call("SET k v"), "+OK");
    assert_eq!(other.call("GET k"), "$1 v");
}

#[test]
fn a_client_that_waits_keeps_what_it_sends_for_later() {
    let server = start();
    let (mut blocked, mut other) = (block(&server, "k"), server.client());
    blocked.send(b"PING\r\n");
    assert_eq!(other.call("SET k v"), "+OK");
    assert_eq!(blocked.reply(), "*2 $1 k $1 v");
    assert_eq!(blocked.reply(), "+PONG");
}

#[test]
fn no_wait_ends_before_it_is_over() {
    let server = start();
    let mut other = server.client();
    other.expect(&[("SET held x", "+OK"), ("XGROUP CREATE s g $ MKSTREAM", "+OK")]);
    let pause = |us| server.server().advance(Duration::from_micros(us));
    let is_blocked = |other: &mut Client, id| other.call(&format!("CLIENT LIST ID {id}")).contains(" flags=b ");
    for request in [
        "LOCK.ACQUIRE held t PX 1000 BLOCK 20",
        "BLPOP k 0.02",
        "BRPOP k 0.02",
        "BLMPOP 0.02 1 k LEFT",
        "BLMOVE k l LEFT LEFT 0.02",
        "BRPOPLPUSH k l 0.02",
        "BZPOPMIN k 0.02",
        "BZMPOP 0.02 1 k MIN",
        "XREAD BLOCK 20 STREAMS k $",
        "XREADGROUP GROUP g c BLOCK 20 STREAMS s >",
        "WAIT 1 20",
        "WAITAOF 0 1 20",
        "paused",
    ] {
        for begun_us in [0, 1, 400, 999] {
            pause(begun_us);
            if request == "paused" {
                other.expect(&[("CLIENT PAUSE 20 WRITE", "+OK")]);
            }
            let mut client = server.client();
            let id = client.int("CLIENT ID");
            let mut client = server.block_as(client, if request == "paused" { "DEL nothing" } else { request });
            pause(19_999);
            assert!(is_blocked(&mut other, id), "{request} has ended too early after {begun_us} us");
            pause(2_001 - begun_us);
            client.reply();
        }
    }
}

#[test]
fn a_server_that_stops_ends_those_that_wait() {
    let server = start();
    let mut blocked = block(&server, "k");
    let mut other = server.client();
    other.send(b"SHUTDOWN NOSAVE\r\n");
    assert_eq!(blocked.read_to_end(), b"", "the connection ends without a reply");
}

#[test]
fn on_one_thread_a_pipeline_that_holds_the_whole_store_serves_between_its_commands() {
    let server = start_on(1);
    let (mut first, mut second, mut other) = (block(&server, "a b"), block(&server, "b c"), server.client());
    let pipeline = ["SET b 1", "EXISTS b", "SET b 2", "EXISTS b", "SET b 3", "EXISTS b"].map(str::to_owned);
    assert_eq!(other.pipeline(&pipeline), ["+OK", ":0", "+OK", ":0", "+OK", ":1"]);
    assert_eq!(first.reply(), "*2 $1 b $1 1");
    assert_eq!(second.reply(), "*2 $1 b $1 2");
}

#[test]
fn many_clients_that_block_and_serve_at_the_same_time_lose_and_double_nothing() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 200;
    let server = start();
    let addr = server.addr();
    let takers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(addr);
                (0..ROUNDS).map(|_| client.call("TEST.BGETDEL a b c 0")).collect::<Vec<_>>()
            })
        })
        .collect();
    let givers: Vec<_> = (0..CLIENTS)
        .map(|giver| {
            std::thread::spawn(move || {
                let mut client = Client::connect(addr);
                for round in 0..ROUNDS {
                    let key = ["a", "b", "c"][(giver + round) % 3];
                    wait_until(|| client.call(&format!("SETNX {key} {giver}-{round}")) == ":1");
                }
            })
        })
        .collect();
    givers.into_iter().for_each(|giver| giver.join().expect("no panic"));
    let taken = takers.into_iter().flat_map(|taker| taker.join().expect("no panic"));
    let mut values: Vec<String> = taken.map(|reply| reply.rsplit(' ').next().unwrap_or_default().to_owned()).collect();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), CLIENTS * ROUNDS, "every value was taken once");
}

#[test]
fn what_is_passed_on_from_list_to_list_serves_all_that_wait_for_it() {
    let server = TestServer::start();
    let mut waiting: Vec<Client> =
        (0..5).map(|at| server.block(&format!("BLMOVE l{at} l{} LEFT RIGHT 0", at + 1))).collect();
    let mut client = server.client();
    client.expect(&[("RPUSH l0 v", ":1"), ("LRANGE l5 0 -1", "*1 $1 v")]);
    waiting.iter_mut().for_each(|client| assert_eq!(client.reply(), "$1 v"));
}

#[test]
fn clients_that_wait_with_a_timeout_are_counted_until_their_wait_ends() {
    let server = TestServer::start();
    let mut client = server.client();
    let _for_ever = server.block("BLPOP l 0");
    assert_eq!(client.info("clients_in_timeout_table"), "0");
    let (mut served, mut late) = (server.block("BLPOP k 100"), server.block("BLPOP k 200"));
    assert_eq!(client.info("clients_in_timeout_table"), "2");
    client.expect(&[("RPUSH k v", ":1")]);
    assert_eq!(served.reply(), "*2 $1 k $1 v");
    wait_until(|| client.info("clients_in_timeout_table") == "1");
    server.advance_ms(200_000);
    assert_eq!(late.reply(), "*-1");
    wait_until(|| client.info("clients_in_timeout_table") == "0");
}
