//! Pub/Sub: the receivers and the order of messages, and slow subscribers.

use crate::harness::{Client, TestServer, encode, wait_until};

#[test]
fn each_listener_gets_messages_in_its_own_protocol() {
    let server = TestServer::start();
    let (mut old, mut new, mut talker) = (server.client(), server.client3(), server.client());
    old.expect(&[("PSUBSCRIBE n*", "*3 $10 psubscribe $2 n* :1")]);
    new.expect(&[("PSUBSCRIBE n*", ">3 $10 psubscribe $2 n* :1"), ("SET k v", "+OK"), ("GET k", "$1 v")]);
    talker.expect(&[("PUBLISH news hello", ":2")]);
    assert_eq!(old.reply(), "*4 $8 pmessage $2 n* $4 news $5 hello");
    assert_eq!(new.reply(), ">4 $8 pmessage $2 n* $4 news $5 hello");
}

#[test]
fn a_listener_that_changes_its_protocol_is_held_to_the_new_one_at_once() {
    let server = TestServer::start();
    let (mut listener, mut talker) = (server.client3(), server.client());
    listener.expect(&[("SUBSCRIBE c", ">3 $9 subscribe $1 c :1"), ("GET k", "_")]);
    listener.send(b"HELLO 2\r\nGET k\r\nPING\r\n");
    assert!(listener.reply().starts_with("*14 $6 server"));
    assert!(listener.reply().starts_with("-ERR Can't execute 'get': only (P|S)SUBSCRIBE"));
    assert_eq!(listener.reply(), "*2 $4 pong $0 ");
    assert_eq!(talker.call("PUBLISH c hello"), ":1");
    assert_eq!(listener.reply(), "*3 $7 message $1 c $5 hello");
}

#[test]
fn who_listens_to_itself_gets_the_message_after_the_reply() {
    let server = TestServer::start();
    let mut client = server.client3();
    let heard = |text: &str| format!(">3 $7 message $1 a ${} {text}", text.len());
    client.expect(&[("SUBSCRIBE a", ">3 $9 subscribe $1 a :1"), ("PUBLISH a self", ":1")]);
    assert_eq!(client.reply(), heard("self"));
    client.send(b"PUBLISH a 1\r\nGET x\r\nPUBLISH a 2\r\nUNSUBSCRIBE a\r\nPUBLISH a 3\r\nPING\r\n");
    for expected in [":1", &heard("1"), "_", ":1", &heard("2"), ">3 $11 unsubscribe $1 a :0", ":0", "+PONG"] {
        assert_eq!(client.reply(), expected);
    }
    client.expect(&[("SSUBSCRIBE s", ">3 $10 ssubscribe $1 s :1"), ("PSUBSCRIBE a*", ">3 $10 psubscribe $2 a* :1")]);
    client.expect(&[("MULTI", "+OK"), ("PUBLISH a x", "+QUEUED"), ("SPUBLISH s y", "+QUEUED"), ("EXEC", "*2 :1 :1")]);
    assert_eq!(client.reply(), ">4 $8 pmessage $2 a* $1 a $1 x");
    assert_eq!(client.reply(), ">3 $8 smessage $1 s $1 y");
    #[cfg(feature = "lua")]
    {
        assert_eq!(client.call_args(&["EVAL", "return redis.call('publish', 'a', 'z')", "0"]), ":1");
        assert_eq!(client.reply(), ">4 $8 pmessage $2 a* $1 a $1 z");
    }
}

#[test]
fn messages_never_come_inside_a_reply() {
    let server = TestServer::start_on_workers(2);
    let (mut listener, mut talker) = (server.client3(), server.client());
    listener.expect(&[("SUBSCRIBE c", ">3 $9 subscribe $1 c :1")]);
    listener.call(&format!("SET k {}", "x".repeat(50_000)));
    let talking = std::thread::spawn(move || {
        let commands: Vec<String> = (0..5_000).map(|number| format!("PUBLISH c {number}")).collect();
        talker.pipeline(&commands).iter().for_each(|reply| assert_eq!(reply, ":1"));
    });
    let (mut asked, mut answered, mut heard) = (0, 0, 0);
    while heard < 5_000 || answered < asked {
        if asked < 200 && asked - answered < 5 {
            listener.send(&encode(&["GET", "k"]));
            asked += 1;
        }
        let reply = listener.read_raw().expect("not closed");
        if reply.starts_with(b">") {
            let text = format!(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${}\r\n{heard}\r\n", heard.to_string().len());
            assert_eq!(reply, text.as_bytes(), "messages come whole and in order");
            heard += 1;
        } else {
            assert_eq!(reply.len(), 50_000 + 10);
            answered += 1;
        }
    }
    talking.join().expect("the talker was answered");
}

#[test]
fn all_listeners_of_a_channel_get_its_messages_in_the_same_order() {
    let server = TestServer::start_on_workers(2);
    let mut listeners: Vec<Client> = (0..4).map(|_| server.client()).collect();
    listeners.iter_mut().for_each(|client| assert!(client.call("SUBSCRIBE c").ends_with(":1")));
    let talkers: Vec<_> = (0..4)
        .map(|talker| {
            let mut client = server.client();
            std::thread::spawn(move || {
                let commands: Vec<String> = (0..500).map(|number| format!("PUBLISH c {talker}-{number}")).collect();
                client.pipeline(&commands);
            })
        })
        .collect();
    let heard: Vec<Vec<String>> =
        listeners.iter_mut().map(|client| (0..2_000).map(|_| client.reply()).collect()).collect();
    talkers.into_iter().for_each(|talker| talker.join().expect("answered"));
    assert!(heard.iter().all(|messages| *messages == heard[0]));
}

#[test]
fn five_hundred_listeners_are_listed_served_and_closed() {
    let server = TestServer::start();
    let mut listeners: Vec<Client> = (0..500).map(|_| server.client()).collect();
    listeners.iter_mut().for_each(|client| assert!(client.call("SUBSCRIBE c").ends_with(":1")));
    let mut talker = server.client();
    assert_eq!(talker.call("CLIENT LIST TYPE pubsub").matches("flags=P").count(), 500);
    talker.expect(&[("PUBSUB NUMSUB c", "*2 $1 c :500"), ("PUBLISH c hello", ":500")]);
    listeners.iter_mut().for_each(|client| assert_eq!(client.reply(), "*3 $7 message $1 c $5 hello"));
    talker.expect(&[("CLIENT KILL TYPE pubsub", ":500"), ("PUBLISH c hello", ":0")]);
    assert_eq!(talker.info("connected_clients"), "1");
    listeners.iter_mut().for_each(|client| assert!(client.read_raw().is_none()));
    wait_until(|| talker.call("PUBSUB NUMSUB c") == "*2 $1 c :0");
}

#[test]
fn a_listener_that_does_not_read_is_cut_off_and_others_are_served() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "pubsub 1mb 0 0")]);
    let (mut slow, mut quick, mut talker) = (server.client(), server.client(), server.client());
    slow.call("SUBSCRIBE c");
    quick.call("SUBSCRIBE c");
    let message = format!("PUBLISH c {}", "x".repeat(100_000));
    let mut sent = 0;
    while talker.call(&message) == ":2" {
        sent += 1;
        assert!(quick.reply().ends_with("xxx"));
        assert!(sent < 1_000, "a client that does not read is kept for ever");
    }
    assert!(quick.reply().ends_with("xxx"));
    assert_eq!(talker.info("client_output_buffer_limit_disconnections"), "1");
    talker.expect(&[("PUBSUB NUMSUB c", "*2 $1 c :1"), (&message, ":1")]);
    assert!(slow.read_to_end().len() < 100_000 * sent);
}

#[test]
fn the_soft_limit_of_listeners_needs_time_to_pass() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "pubsub 0 100kb 10")]);
    let (mut slow, mut talker) = (server.client(), server.client());
    slow.call("SUBSCRIBE c");
    let message = format!("PUBLISH c {}", "x".repeat(1_000_000));
    // More than the sockets buffer.
    (0..20).for_each(|_| assert_eq!(talker.call(&message), ":1"));
    server.advance_ms(10_000);
    assert_eq!(talker.call(&message), ":1");
    server.advance_ms(1_000);
    assert_eq!(talker.call(&message), ":0");
    wait_until(|| talker.info("connected_clients") == "1");
}

#[test]
fn the_last_messages_precede_the_confirmation_of_unsubscribe() {
    let server = TestServer::start_on_workers(2);
    let (mut listener, mut talker) = (server.client(), server.client());
    let talking = std::thread::spawn(move || {
        let commands: Vec<String> = (0..3_000).map(|number| format!("PUBLISH c {number}")).collect();
        talker.pipeline(&commands);
    });
    for _ in 0..200 {
        listener.send(b"SUBSCRIBE c\r\nUNSUBSCRIBE c\r\nECHO end\r\n");
        assert_eq!(listener.reply(), "*3 $9 subscribe $1 c :1");
        loop {
            let reply = listener.reply();
            if reply == "*3 $11 unsubscribe $1 c :0" {
                break;
            }
            assert!(reply.starts_with("*3 $7 message"), "{reply}");
        }
        assert_eq!(listener.reply(), "$3 end");
    }
    talking.join().expect("the talker was answered");
}

#[test]
fn a_message_that_was_published_before_its_reader_is_killed_arrives() {
    let server = TestServer::start();
    let mut client = server.client();
    for _ in 0..200 {
        let mut listener = server.client();
        assert_eq!(listener.call("SUBSCRIBE news"), "*3 $9 subscribe $4 news :1");
        client.send(b"PUBLISH news hello\r\nCLIENT KILL TYPE pubsub\r\n");
        assert_eq!((client.reply(), client.reply()), (":1".into(), ":1".into()));
        assert_eq!(listener.reply(), "*3 $7 message $4 news $5 hello");
        assert_eq!(listener.read_raw(), None);
    }
}
