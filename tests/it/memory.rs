//! Memory of clients: pending requests and replies, a client's names, and the limit of all clients together.

use std::io::Write;

use crate::harness::{Client, TestServer, encode, wait_until};

/// Returns a field of the line that CLIENT LIST has for the client with a name.
fn field_of(client: &mut Client, name: &str, field: &str) -> usize {
    let list = client.call("CLIENT LIST");
    let (_, line) = list.split_once(&format!(" name={name} ")).unwrap_or_else(|| panic!("no {name} in {list}"));
    let value = line.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    value.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {field} in {line}"))
}

#[test]
fn what_a_client_has_half_sent_is_shown_and_takes_hardly_more_than_it_is() {
    let server = TestServer::start();
    let (mut client, mut sender) = (server.client(), server.client());
    sender.call("CLIENT SETNAME sender");
    let before: usize = client.info("used_memory").parse().expect("a number");
    sender.send(b"*3\r\n$3\r\nSET\r\n$1\r\nm\r\n$20000000\r\n");
    sender.send(&vec![b'x'; 10_000_000]);
    wait_until(|| field_of(&mut client, "sender", "qbuf") == 10_000_000);
    assert_eq!(field_of(&mut client, "sender", "argv-mem"), 4);
    let total = field_of(&mut client, "sender", "tot-mem");
    assert!((10_000_000..13_500_000).contains(&total), "{total} for 10 MB");
    let used = client.info("used_memory").parse::<usize>().expect("a number") - before;
    assert!((10_000_000..13_500_000).contains(&used), "{used} counted for 10 MB");
    sender.send(&vec![b'x'; 9_999_999]);
    wait_until(|| field_of(&mut client, "sender", "qbuf") == 19_999_999);
    let total = field_of(&mut client, "sender", "tot-mem");
    assert!((20_000_000..21_100_000).contains(&total), "{total} for 20 MB");
    // A limit that is set later applies to it.
    client.expect(&[("CONFIG SET maxmemory-clients 5mb", "+OK")]);
    assert_eq!(sender.read_to_end(), b"");
    client.expect(&[("EXISTS m", ":0")]);
    assert_eq!(client.info("evicted_clients"), "1");
}

#[test]
fn the_room_that_was_made_for_an_argument_is_its_clients_from_the_beginning() {
    let server = TestServer::start();
    let (mut client, mut sender) = (server.client(), server.client());
    sender.call("CLIENT SETNAME sender");
    sender.send(b"*2\r\n$220000\r\n");
    let mut total_of = |sender: &mut Client, len: usize, sent: usize| {
        sender.send(&vec![b'x'; len - sent]);
        wait_until(|| field_of(&mut client, "sender", "qbuf") == len);
        field_of(&mut client, "sender", "tot-mem")
    };
    let totals =
        [(100_000, 0), (150_000, 100_000), (220_000, 150_000)].map(|(len, sent)| total_of(&mut sender, len, sent));
    assert!(totals[0] >= 220_000 && totals.iter().all(|total| *total == totals[0]), "{totals:?}");
}

#[test]
fn an_announced_argument_does_not_take_what_has_not_arrived() {
    let server = TestServer::start();
    let (mut client, mut sender) = (server.client(), server.client());
    sender.call("CLIENT SETNAME sender");
    sender.send(b"*3\r\n$3\r\nSET\r\n$1\r\nm\r\n$500000000\r\nx");
    wait_until(|| field_of(&mut client, "sender", "qbuf") == 1);
    let total = field_of(&mut client, "sender", "tot-mem");
    assert!(total < 1_500_000, "{total} for one byte of 500 MB");
}

#[test]
fn the_limit_on_what_waits_to_be_executed_is_exact_and_asked_before() {
    const LIMIT: usize = 1 << 20;
    let server = TestServer::start_with(&[("client-query-buffer-limit", "1mb")]);
    for (len, is_taken) in [(LIMIT - 2, true), (LIMIT - 1, false), (LIMIT, false), (LIMIT + 9_000, false)] {
        let mut client = server.client();
        let mut writer = client.writer();
        let _ = writer.write_all(&encode(&["SET", &format!("k:{len}"), &"x".repeat(len)]));
        client.shut_write();
        assert_eq!(client.read_to_end(), if is_taken { &b"+OK\r\n"[..] } else { b"" }, "{len}");
        assert_eq!(server.client().int(&format!("EXISTS k:{len}")), i64::from(is_taken));
    }
    let mut client = server.client();
    // The limit applies to one argument, not to the request, but the queue of a transaction counts, too.
    let value = "x".repeat(600_000);
    assert_eq!(client.call_args(&["MSET", "a", &value, "b", &value]), "+OK");
    client.expect(&[("MULTI", "+OK")]);
    assert_eq!(client.call_args(&["SET", "c", &value]), "+QUEUED");
    let _ = client.writer().write_all(&encode(&["SET", "d", &value]));
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    client.expect(&[("EXISTS a b c d", ":2")]);
    assert_eq!(client.info("client_query_buffer_limit_disconnections"), "4");
}

#[test]
fn prefixes_and_names_count_as_the_memory_of_the_client_that_has_them_remembered() {
    let server = TestServer::start_with(&[("maxmemory-clients", "2mb")]);
    let mut client = server.client();
    let name = "n".repeat(1000);
    let track = |n: usize| {
        let prefixes: Vec<String> = (0..100).map(|at| format!("PREFIX {n:03}:{at:03}:{name}")).collect();
        format!("CLIENT TRACKING ON BCAST {}", prefixes.join(" "))
    };
    let requests: [&dyn Fn(usize) -> String; 3] =
        [&track, &|n| format!("SUBSCRIBE {n}:{name}"), &|n| format!("WATCH {n}:{name}")];
    for (evicted, request) in requests.into_iter().enumerate() {
        let mut hog = server.client3();
        // Each request is small, and its reply is read.
        let is_closed = (0..4000).any(|n| {
            let words = request(n);
            let sent = hog.writer().write_all(&encode(&words.split(' ').collect::<Vec<_>>()));
            sent.is_err() || hog.read_raw().is_none()
        });
        assert!(is_closed);
        assert_eq!(client.info("evicted_clients"), (evicted + 1).to_string());
    }
}

#[test]
fn clients_that_read_nothing_share_one_limit_and_go_on_when_others_leave() {
    const VALUE_LEN: usize = 4 << 20;
    const LIMIT: usize = 512 << 20;
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call_args(&[&b"SET"[..], b"k", &vec![b'x'; VALUE_LEN]]), "+OK");
    let mut deaf: Vec<Client> = (0..3)
        .map(|n| {
            let mut deaf = server.client();
            deaf.call(&format!("CLIENT SETNAME deaf:{n}"));
            deaf.send(&encode(&["GET", "k"]).repeat(200));
            deaf
        })
        .collect();
    let waiting = |client: &mut Client, n: usize| field_of(client, &format!("deaf:{n}"), "omem");
    // Each uses half of the memory left by the others.
    wait_until(|| (0..3).map(|n| waiting(&mut client, n)).sum::<usize>() > LIMIT * 3 / 4 - 8 * VALUE_LEN);
    let sum: usize = (0..3).map(|n| waiting(&mut client, n)).sum();
    assert!(sum <= LIMIT + 3 * VALUE_LEN, "{sum} bytes wait");
    assert_eq!(client.call("PING"), "+PONG");
    let last = waiting(&mut client, 2);
    assert!(last < LIMIT / 3, "{last} bytes wait for the last");
    drop(deaf.drain(..2));
    wait_until(|| waiting(&mut client, 2) > LIMIT / 2 - 8 * VALUE_LEN);
}

#[test]
fn what_takes_long_to_free_is_freed_in_the_background_whatever_removes_it() {
    const LARGE: &str = "SETRANGE large 41000000 x";
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let mut client = server.client();
    let is_freed = |client: &mut Client, objects: usize| {
        wait_until(|| client.info("lazyfreed_objects") == objects.to_string());
        client.info("lazyfree_pending_objects") == "0"
    };
    client.expect(&[("SET small x", "+OK"), ("DEL small", ":1")]);
    assert!(is_freed(&mut client, 0));
    let removals = ["UNLINK large", "DEL large", "SET large small", "COPY small large REPLACE", "PEXPIRE large 10"];
    for (before, removal) in removals.iter().enumerate() {
        client.expect(&[("SET small x", "+OK"), (LARGE, ":41000001")]);
        client.call(removal);
        server.advance_ms(10);
        wait_until(|| is_freed(&mut client, before + 1));
    }
    client.expect(&[
        ("CONFIG RESETSTAT", "+OK"),
        ("FLUSHALL", "+OK"),
        ("DEBUG POPULATE 12000", "+OK"),
        ("FLUSHALL", "+OK"),
    ]);
    wait_until(|| is_freed(&mut client, 12_000));
    // Their elements count, not the keys: 10,000 fields each.
    for flush in ["FLUSHALL", "FLUSHDB ASYNC"] {
        client.expect(&[("CONFIG RESETSTAT", "+OK")]);
        for hash in 0..2 {
            let fields: Vec<String> = (0..10_000).map(|field| format!("field:{field:05} value")).collect();
            let fields: Vec<&str> = fields.iter().flat_map(|pair| pair.split(' ')).collect();
            client.call_args(&[&["HSET", &format!("h{hash}")], &fields[..]].concat());
        }
        client.expect(&[("DBSIZE", ":2"), (flush, "+OK")]);
        wait_until(|| is_freed(&mut client, 2));
    }
    // Several hashes of a thousand fields are freed at once while the queue is short, the others with one DEL in the
    // background.
    client.expect(&[("CONFIG RESETSTAT", "+OK")]);
    let names: Vec<String> = (0..50).map(|hash| format!("h{hash}")).collect();
    for name in &names {
        let fields: Vec<String> = (0..1_000).map(|field| format!("field:{field:05} value")).collect();
        let fields: Vec<&str> = fields.iter().flat_map(|pair| pair.split(' ')).collect();
        client.call_args(&[&["HSET", name], &fields[..]].concat());
    }
    assert_eq!(client.call(&format!("DEL {}", names.join(" "))), ":50");
    wait_until(|| client.info("lazyfreed_objects").parse::<usize>().is_ok_and(|freed| (30..50).contains(&freed)));
}
