//! Requests of different clients are served in order of arrival, also when the server was busy meanwhile.
//!
//! The order of the executor is tested in `src/runtime/executor.rs`. Here the kernel is involved as well: it may delay
//! a segment, because its connection is being written to, and let a later one of another connection pass. So a few
//! rounds may fail; a scheduler that serves the last first fails many of them.

use crate::harness::{Client, TestServer};

/// Number of repetitions of each sequence.
const ROUNDS: usize = 1_000;
/// Maximum number of them that the kernel may reorder; the busier the machine, the more often it does.
const MIXED_UP_MAX: usize = ROUNDS / 20;
const MIXED_UP_WHILE_BUSY_MAX: usize = 5;

/// Tests a property with both kinds of servers: embedded, and with a worker as in the binary.
fn on_one_worker(claim: impl Fn(&TestServer)) {
    claim(&TestServer::start_embedded());
    claim(&TestServer::start_on_workers(1));
}

/// Connects a client and serves it once, so that the connection itself causes no further events.
fn client(server: &TestServer) -> Client {
    let mut client = server.client();
    client.expect(&[("PING", "+PONG")]);
    client
}

#[test]
fn a_lock_that_was_released_first_is_free_for_the_next_client() {
    on_one_worker(|server| {
        let (mut holder, mut next) = (client(server), client(server));
        let is_mixed_up = |_: &usize| {
            holder.expect(&[("SET lock 1", "+OK")]);
            holder.send(b"DEL lock\r\n");
            next.send(b"SET lock 2 NX\r\n");
            assert_eq!(holder.reply(), ":1");
            next.reply() != "+OK"
        };
        assert!((0..ROUNDS).filter(is_mixed_up).count() <= MIXED_UP_MAX);
    });
}

#[test]
fn a_message_reaches_a_client_that_subscribed_before_it_was_published() {
    on_one_worker(|server| {
        let (mut subscriber, mut publisher) = (client(server), client(server));
        let is_mixed_up = |_: &usize| {
            subscriber.send(b"SUBSCRIBE news\r\n");
            publisher.send(b"PUBLISH news hello\r\n");
            let is_received = publisher.reply() == ":1";
            assert_eq!(subscriber.reply(), "*3 $9 subscribe $4 news :1");
            if is_received {
                assert_eq!(subscriber.reply(), "*3 $7 message $4 news $5 hello");
            }
            assert_eq!(subscriber.call("UNSUBSCRIBE news"), "*3 $11 unsubscribe $4 news :0");
            !is_received
        };
        assert!((0..ROUNDS).filter(is_mixed_up).count() <= MIXED_UP_MAX);
    });
}

#[test]
fn four_clients_append_in_the_order_in_which_they_sent() {
    on_one_worker(|server| {
        let mut clients: Vec<Client> = (0..4).map(|_| client(server)).collect();
        let is_mixed_up = |_: &usize| {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(format!("APPEND order {number}\r\n").as_bytes());
            }
            clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
            clients[0].call("GETDEL order") != "$4 0123"
        };
        assert!((0..ROUNDS).filter(is_mixed_up).count() <= MIXED_UP_MAX);
    });
}

#[test]
fn requests_that_arrive_while_the_server_is_busy_are_served_first_come_first_served() {
    on_one_worker(|server| {
        let (mut busy, mut clients) = (client(server), (0..40).map(|_| client(server)).collect::<Vec<Client>>());
        let held = server.server().namespace().store.exclusive();
        busy.send(b"APPEND order -\r\n");
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("APPEND order ,{number}\r\n").as_bytes());
        }
        drop(held);
        clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
        assert!(busy.reply().starts_with(':'));
        let order = busy.call("GET order");
        let numbers: Vec<usize> = order.split(',').filter_map(|number| number.parse().ok()).collect();
        let mixed_up = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(numbers.len() == clients.len() && mixed_up <= MIXED_UP_WHILE_BUSY_MAX, "{order}");
    });
}

#[test]
fn a_client_that_floods_does_not_starve_the_others() {
    on_one_worker(|server| {
        let (mut flood, mut other) = (client(server), client(server));
        let held = server.server().namespace().store.exclusive();
        flood.send(&b"APPEND order .\r\n".repeat(10_000));
        other.send(b"APPEND order 1\r\n");
        drop(held);
        assert!(other.reply().starts_with(':'));
        (0..10_000).for_each(|_| assert!(flood.reply().starts_with(':')));
        assert!(!flood.call("GET order").ends_with('1'), "the other was served last");
    });
}
