//! The wire protocol: the arrival of requests and the delivery of replies; `differential/wire.rs` has what is refused.

use std::io::Write;

use crate::harness::{Dice, TestServer, encode, wait_until};

#[test]
fn any_split_of_the_bytes_gives_the_same_replies() {
    let server = TestServer::start();
    let requests = b"SET k 1\r\n*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n\r\n*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$5\r\na\r\nb!\r\nGET k\nNOSUCH\r\n";
    let expected = ["+OK", ":2", ":6", "$6 2a b!", "-ERR unknown command 'NOSUCH', with args beginning with: "];
    let mut client = server.client();
    for at in 0..=requests.len() {
        client.send(&requests[..at]);
        client.send(&requests[at..]);
        let replies: Vec<String> = expected.iter().map(|_| client.reply()).collect();
        assert_eq!(replies, expected, "split at {at}");
    }
    requests.iter().for_each(|byte| client.send(&[*byte]));
    let replies: Vec<String> = expected.iter().map(|_| client.reply()).collect();
    assert_eq!(replies, expected, "byte by byte");
    let mut dice = Dice::new(3);
    for _ in 0..100 {
        let mut rest = &requests[..];
        while !rest.is_empty() {
            let (piece, more) = rest.split_at((1 + dice.roll(12) as usize).min(rest.len()));
            client.send(piece);
            rest = more;
        }
        let replies: Vec<String> = expected.iter().map(|_| client.reply()).collect();
        assert_eq!(replies, expected);
    }
}

#[test]
fn a_hundred_thousand_commands_in_one_write_get_replies_although_none_is_read_until_the_end() {
    let server = TestServer::start();
    let mut client = server.client();
    let requests = encode(&["INCR", "n"]).repeat(100_000);
    let mut writer = client.writer();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&requests).expect("the server goes on reading")).join().expect("written");
        for n in 1..=100_000u64 {
            let expected = format!(":{n}\r\n");
            assert_eq!(client.take_bytes(expected.len()), expected.as_bytes());
        }
    });
}

#[test]
fn a_pipeline_whose_replies_are_far_larger_than_any_buffer_is_answered_whole() {
    let server = TestServer::start();
    let mut client = server.client();
    let value: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    client.call_args(&[&b"SET"[..], b"k", &value]);
    let mut writer = client.writer();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&encode(&["GET", "k"]).repeat(1000)).expect("written"));
        let expected = [&b"$100000\r\n"[..], &value, b"\r\n"].concat();
        for n in 0..1000 {
            assert!(client.take_bytes(expected.len()) == expected, "reply {n} is not the value");
        }
    });
}

#[test]
fn a_value_of_64_mebibytes_comes_back_whole_to_two_clients_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    let value: Vec<u8> = (0..64 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let before: i64 = client.info("used_memory").parse().expect("a number");
    client.send(&encode(&[&b"SET"[..], b"big", &value]));
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.int("STRLEN big"), 64 << 20);
    let after: i64 = client.info("used_memory").parse().expect("a number");
    assert!(after - before < (64 << 20) + 100_000, "{} bytes for 64 MiB", after - before);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                // Ten replies are queued before the first byte is read; they share one value.
                client.send(&encode(&["GET", "big"]).repeat(3));
                for _ in 0..3 {
                    assert_eq!(client.take_bytes(11), b"$67108864\r\n");
                    assert!(client.take_bytes(64 << 20) == value);
                    assert_eq!(client.take_bytes(2), b"\r\n");
                }
            });
        }
    });
    // A value that is being sent may be overwritten meanwhile.
    client.send(&[encode(&["GET", "big"]), encode(&["SET", "big", "small"]), encode(&["GET", "big"])].concat());
    client.take_bytes(11);
    assert!(client.take_bytes(64 << 20) == value);
    assert_eq!(client.take_bytes(2), b"\r\n");
    assert_eq!((client.reply(), client.reply()), ("+OK".into(), "$5 small".into()));
}

#[test]
fn a_thousand_requests_before_the_error_are_carried_out() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send(&[&encode(&["INCR", "n"]).repeat(1000)[..], b"*oops\r\n"].concat());
    let replies = String::from_utf8_lossy(&client.read_to_end()).into_owned();
    assert!(replies.ends_with(":1000\r\n-ERR Protocol error: invalid multibulk length\r\n"), "{replies}");
}

#[test]
fn a_half_closed_connection_gets_its_replies() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send(&encode(&["INCR", "n"]).repeat(5000));
    client.shut_write();
    let replies = client.read_to_end();
    let expected: String = (1..=5000).map(|n| format!(":{n}\r\n")).collect();
    assert_eq!(String::from_utf8_lossy(&replies), expected);
}

#[test]
fn a_command_with_a_hundred_thousand_arguments_is_carried_out() {
    let server = TestServer::start();
    let mut client = server.client();
    let names: String = (0..50_000).map(|n| format!(" key:{n}")).collect();
    let pairs: String = (0..50_000).map(|n| format!(" key:{n} {n}")).collect();
    assert_eq!(client.call(&format!("MSET{pairs}")), "+OK");
    assert_eq!(client.call(&format!("EXISTS{names}")), ":50000");
    assert_eq!(client.call(&format!("DEL{names}")), ":50000");
}

#[test]
fn frames_queued_before_a_change_of_protocol_come_before_its_reply() {
    for change in ["HELLO 2", "RESET"] {
        let server = TestServer::start_on_workers(2);
        let namespace = server.server().namespace();
        let mut subscriber = server.client3();
        assert!(subscriber.call("SUBSCRIBE news").starts_with(">3 "));
        let read = || namespace.observed.stats.bytes_in.load(std::sync::atomic::Ordering::Relaxed);
        let before = read();
        // The message comes while the command waits for the store, so that it is queued when the protocol changes.
        let held = namespace.store.exclusive();
        subscriber.send(format!("{change}\r\n").as_bytes());
        wait_until(|| read() > before);
        keylatch::internals::publish(namespace, b"news", b"old");
        drop(held);
        assert_eq!(subscriber.reply(), ">3 $7 message $4 news $3 old", "{change}");
        let reply = subscriber.reply();
        assert!(reply.starts_with(if change == "RESET" { "+RESET" } else { "*14 " }), "{reply}");
    }
}

#[test]
fn requests_in_a_row_of_the_same_command_are_answered_and_counted_one_by_one() {
    for server in [TestServer::start(), TestServer::start_on_workers(2)] {
        let mut client = server.client();
        client.expect(&[("SET text abc", "+OK"), ("RPUSH list a", ":1")]);
        let of_get = ["GET text", "GET missing", "GET", "GET list", "GET text text", "GET text"].map(String::from);
        let (wrong_type, wrong_arity) = (client.call("GET list"), client.call("GET"));
        assert_eq!(
            client.pipeline(&of_get),
            ["$3 abc", "$-1", &wrong_arity, &wrong_type, &wrong_arity, "$3 abc"],
            "of one key and of another"
        );
        let of_del: Vec<String> = (0..20).map(|n| format!("DEL k{n} k{} text", n % 7)).collect();
        (0..20).for_each(|n| drop(client.call(&format!("SET k{n} v"))));
        let removed: i64 =
            client.pipeline(&of_del).iter().map(|reply| reply[1..].parse::<i64>().expect("a number")).sum();
        assert_eq!(removed, 21);
        client.call("CONFIG RESETSTAT");
        let of_incr: Vec<String> = (0..50).map(|n| format!("INCR n{}", n % 10)).collect();
        assert_eq!(client.pipeline(&of_incr).last().map(String::as_str), Some(":5"));
        client.pipeline(&vec!["GET n1".to_owned(); 30]);
        client.pipeline(&vec!["GET missing".to_owned(); 20]);
        let stats = client.call("INFO commandstats");
        assert!(stats.contains("cmdstat_incr:calls=50,") && stats.contains("cmdstat_get:calls=50,"), "{stats}");
        assert_eq!([client.info("keyspace_hits"), client.info("keyspace_misses")], ["30", "20"]);
    }
}

#[test]
fn a_large_value_is_not_changed_by_what_shares_it() {
    let server = TestServer::start();
    let mut client = server.client();
    let value = vec![b'v'; 100_000];
    let requests = [
        encode(&[&b"MSET"[..], b"k", &value, b"l", &value]),
        encode(&["GET", "k"]),
        encode(&["APPEND", "k", "x"]),
        encode(&["SETRANGE", "l", "0", "y"]),
        encode(&["MULTI"]),
        encode(&[&b"SET"[..], b"m", &value]),
        encode(&["APPEND", "m", "z"]),
        encode(&["EXEC"]),
    ];
    client.send(&requests.concat());
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.read_frame().expect("a reply").as_bytes().expect("a string")[..], value);
    let rest: Vec<String> = (0..6).map(|_| client.reply()).collect();
    assert_eq!(rest, [":100001", ":100000", "+OK", "+QUEUED", "+QUEUED", "*2 +OK :100001"]);
    for (key, range, ends) in [("k", "99998 -1", "$3 vvx"), ("l", "0 2", "$3 yvv"), ("m", "99998 -1", "$3 vvz")] {
        assert_eq!(client.call(&format!("GETRANGE {key} {range}")), ends);
    }
}

#[test]
fn a_password_in_the_same_write_admits_a_long_string_after_it() {
    let server = TestServer::start_with(&[("requirepass", "secret")]);
    let mut client = server.client();
    let big = "x".repeat(50_000);
    client.send(&[encode(&["AUTH", "secret"]), encode(&["SET", "k", &big]), encode(&["STRLEN", "k"])].concat());
    assert_eq!((client.reply(), client.reply(), client.reply()), ("+OK".into(), "+OK".into(), ":50000".into()));
}
