//! Introspection of locks: durations, pages of LOCK.LIST, and the fields of CLIENT LIST.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{acquired, locks_info, wait_for};
use crate::harness::{Client, TestServer, encode, served_until_reply, wait_until};

#[test]
fn waits_and_holds_are_measured_in_microseconds() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.int("LOCK.ACQUIRE k t PX 1000");
    let mut first = wait_for(&server, "first");
    server.server().advance(Duration::from_micros(1250));
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    acquired(&mut first);
    let info = holder.call("INFO locks");
    assert!(info.contains("lock_wait_usec:p50=1,p99=1255,p99.9=1255 "), "{info}");
    assert!(info.contains("lock_hold_usec:p50=1255,p99=1255,p99.9=1255"), "{info}");
    let (wait, hold) = (
        "$9 lock-wait *4 $5 calls :2 $14 histogram_usec *4 :1 :1 :2063 :2",
        "$9 lock-hold *4 $5 calls :1 $14 histogram_usec *2 :2063 :1",
    );
    holder.expect(&[
        ("LATENCY HISTOGRAM lock-wait", &format!("*2 {wait}")),
        ("LATENCY HISTOGRAM LOCK-HOLD nosuch", &format!("*2 {hold}")),
        ("LATENCY HISTOGRAM lock-hold lock-wait", &format!("*4 {hold} {wait}")),
    ]);
    assert!(holder.call("LATENCY HISTOGRAM").ends_with(&format!(" {wait} {hold}")));
    holder.expect(&[("CONFIG RESETSTAT", "+OK"), ("LATENCY HISTOGRAM lock-wait lock-hold", "*0")]);
}

/// Returns the next cursor of a page of LOCK.LIST, and its keys.
fn page(client: &mut Client, cursor: &str, count: usize) -> (String, Vec<String>) {
    let reply = client.call(&format!("LOCK.LIST {cursor} COUNT {count}"));
    let words: Vec<&str> = reply.split(' ').collect();
    let keys = words.windows(4).filter(|window| window[1] == "key").map(|window| window[3].to_owned()).collect();
    (words[2].to_owned(), keys)
}

#[test]
fn a_list_has_every_lock_that_is_held_all_the_time() {
    let server = TestServer::start();
    let (mut holder, mut other) = (server.client(), server.client());
    for n in 0..100 {
        holder.int(&format!("LOCK.ACQUIRE stays:{n} t PX 60000"));
    }
    for count in [1, 2, 5, 1000] {
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        for n in 0.. {
            holder.int(&format!("LOCK.ACQUIRE goes:{n} t PX 60000"));
            let (next, keys) = page(&mut other, &cursor, count);
            assert!(keys.len() <= count);
            seen.extend(keys.into_iter().filter(|key| key.starts_with("stays:")));
            holder.call(&format!("LOCK.RELEASE goes:{} t", n / 2));
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(seen.len(), 100, "with COUNT {count}");
        let (_, left) = page(&mut other, "0", 10_000);
        left.iter().for_each(|key| {
            holder.call(&format!("LOCK.RELEASE {key} {}", if key.starts_with("goes:") { "t" } else { "x" }));
        });
    }
    assert_eq!(locks_info(&mut other, "held"), 100);
}

/// Covers the cooperation of LOCK.LIST: on one thread, a request sent after it is answered first only if it yields.
#[test]
fn other_clients_are_served_while_a_hundred_thousand_locks_are_listed() {
    const LOCKS: usize = 100_000;
    let server = TestServer::start_embedded();
    let (mut holder, mut other) = (server.client(), server.client());
    for portion in (0..LOCKS).collect::<Vec<_>>().chunks(1000) {
        let calls: Vec<String> = portion.iter().map(|n| format!("LOCK.ACQUIRE lock:{n} t PX 60000")).collect();
        holder.pipeline(&calls);
    }
    let request = encode(&["LOCK.LIST", "0", "COUNT", "1000000000"]);
    let served = served_until_reply(&mut holder, &mut other, &request);
    assert!(served >= 5, "only {served} clients were served while the locks were listed");
    assert_eq!(holder.take_bytes(17), b"2\r\n$1\r\n0\r\n*100000");
}

#[test]
fn a_client_that_a_pause_holds_back_is_not_in_line() {
    let server = TestServer::start();
    let (mut holder, mut client, mut other) = (server.client(), server.client(), server.client());
    holder.int("LOCK.ACQUIRE k t PX 60000");
    let shown = format!("CLIENT LIST ID {}", client.int("CLIENT ID"));
    assert_eq!(other.call("CLIENT PAUSE 100000 WRITE"), "+OK");
    client.send(b"LOCK.ACQUIRE k u PX 1000 BLOCK 0\r\n");
    wait_until(|| other.call(&shown).contains(" flags=b "));
    assert!(other.call(&shown).contains(" lwait=0"));
    assert_eq!(other.call("CLIENT UNPAUSE"), "+OK");
    wait_until(|| other.call(&shown).contains(" lwait=1"));
    assert_eq!(holder.call("LOCK.RELEASE k t"), ":1");
    acquired(&mut client);
    assert!(other.call(&shown).contains(" lwait=0"));
}
