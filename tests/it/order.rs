//! Requests of different clients are served in the order in which they arrived, also when the server was busy meanwhile.

use crate::harness::{Client, TestServer};

/// How often each sequence is tried: a scheduler that mixes some of them up is found out.
const ROUNDS: usize = 1_000;

/// Runs a claim against the two ways to run a server: embedded, and with a worker as the binary has.
fn on_one_worker(claim: impl Fn(&TestServer)) {
    claim(&TestServer::start_embedded());
    claim(&TestServer::start_on_workers(1));
}

#[test]
fn a_lock_that_was_released_first_is_free_for_the_next_client() {
    on_one_worker(|server| {
        let (mut holder, mut next) = (server.client(), server.client());
        for round in 0..ROUNDS {
            holder.expect(&[("SET lock 1", "+OK")]);
            holder.send(b"DEL lock\r\n");
            next.send(b"SET lock 2 NX\r\n");
            assert_eq!((holder.reply(), next.reply()), (":1".into(), "+OK".into()), "round {round}");
        }
    });
}

#[test]
fn a_message_reaches_a_client_that_subscribed_before_it_was_published() {
    on_one_worker(|server| {
        let (mut subscriber, mut publisher) = (server.client(), server.client());
        for round in 0..ROUNDS {
            subscriber.send(b"SUBSCRIBE news\r\n");
            publisher.send(b"PUBLISH news hello\r\n");
            assert_eq!(publisher.reply(), ":1", "round {round}");
            assert_eq!(subscriber.reply(), "*3 $9 subscribe $4 news :1");
            assert_eq!(subscriber.reply(), "*3 $7 message $4 news $5 hello");
            assert_eq!(subscriber.call("UNSUBSCRIBE news"), "*3 $11 unsubscribe $4 news :0");
        }
    });
}

#[test]
fn four_clients_append_in_the_order_in_which_they_sent() {
    on_one_worker(|server| {
        let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for round in 0..ROUNDS {
            for (number, client) in clients.iter_mut().enumerate() {
                client.send(format!("APPEND order {number}\r\n").as_bytes());
            }
            clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
            assert_eq!(clients[0].call("GETDEL order"), "$4 0123", "round {round}");
        }
    });
}

#[test]
fn requests_that_arrive_while_the_server_is_busy_are_served_first_come_first_served() {
    on_one_worker(|server| {
        let (mut busy, mut clients) = (server.client(), (0..40).map(|_| server.client()).collect::<Vec<Client>>());
        let held = server.server().namespace().store.exclusive();
        busy.send(b"APPEND order -\r\n");
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("APPEND order {number},\r\n").as_bytes());
        }
        drop(held);
        clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
        let expected: String = (0..clients.len()).map(|number| format!("{number},")).collect();
        assert_eq!(busy.reply(), ":1");
        assert_eq!(busy.call("GET order"), format!("${} -{expected}", expected.len() + 1));
    });
}

#[test]
fn a_client_that_floods_lets_the_others_have_their_turn_in_order() {
    on_one_worker(|server| {
        let (mut flood, mut first, mut second) = (server.client(), server.client(), server.client());
        let held = server.server().namespace().store.exclusive();
        flood.send(&b"APPEND order .\r\n".repeat(10_000));
        first.send(b"APPEND order 1\r\n");
        second.send(b"APPEND order 2\r\n");
        drop(held);
        assert!(first.reply().starts_with(':') && second.reply().starts_with(':'));
        (0..10_000).for_each(|_| assert!(flood.reply().starts_with(':')));
        let order = flood.call("GET order");
        assert!(order.find('1') < order.find('2'), "the second was served first");
    });
}
