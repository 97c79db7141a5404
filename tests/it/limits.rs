//! Limits of clients, and the treatment of clients that exceed them.

use std::io::{Read, Write};

use crate::harness::{Client, Dice, TestServer, encode, wait_until};

#[test]
fn clients_beyond_the_limit_get_an_error_and_are_closed() {
    let server = TestServer::start_with(&[("maxclients", "3")]);
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.call("PING"), "+PONG"));
    for _ in 0..5 {
        assert_eq!(server.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    }
    assert_eq!(clients[0].info("rejected_connections"), "5");
    clients.iter_mut().for_each(|client| assert_eq!(client.call("PING"), "+PONG"));
}

#[test]
fn a_place_that_becomes_free_is_given_away_again() {
    let server = TestServer::start_with(&[("maxclients", "2")]);
    let (mut first, mut second) = (server.client(), server.client());
    second.expect(&[("PING", "+PONG")]); // it was accepted, and so counts
    drop(second);
    wait_until(|| first.info("connected_clients") == "1");
    assert_eq!(server.client().call("PING"), "+PONG");
}

#[test]
fn the_number_of_clients_may_be_changed_at_run_time() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    first.expect(&[("PING", "+PONG"), ("CONFIG SET maxclients 1", "+OK")]);
    second.expect(&[("PING", "+PONG")]);
    assert_eq!(server.client().read_to_end(), b"-ERR max number of clients reached\r\n");
    first.expect(&[("CONFIG SET maxclients 3", "+OK"), ("INFO nosuch", "$0 ")]);
    assert_eq!(server.client().call("PING"), "+PONG");
    assert_eq!(first.info("maxclients"), "3");
}

#[test]
fn an_unfinished_request_beyond_the_limit_closes_its_client() {
    let server = TestServer::start_with(&[("client-query-buffer-limit", "1mb")]);
    let mut client = server.client();
    let mut writer = client.writer();
    // The server may reset the connection before everything is written.
    let sent =
        writer.write_all(b"*2\r\n$3\r\nGET\r\n$10000000\r\n").and_then(|()| writer.write_all(&vec![b'x'; 5_000_000]));
    drop(sent);
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    assert_eq!(client.call(&format!("SET k {}", "x".repeat(900_000))), "+OK");
    assert_eq!(client.int("STRLEN k"), 900_000);
}

#[test]
fn a_client_that_does_not_read_is_cut_off_while_others_are_served() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "normal 1mb 0 0")]);
    let mut other = server.client();
    other.call(&format!("SET k {}", "x".repeat(100_000)));
    let mut greedy = server.client();
    let mut writer = greedy.writer();
    let sent = std::thread::spawn(move || writer.write_all(&encode(&["GET", "k"]).repeat(2000)).is_ok());
    wait_until(|| other.info("connected_clients") == "1");
    let got = greedy.read_to_end();
    assert!(got.len() < 100_000_000, "{} bytes were kept for a client that does not read", got.len());
    drop(sent.join());
    other.expect(&[("PING", "+PONG"), ("STRLEN k", ":100000")]);
}

#[test]
fn replies_within_the_output_limit_are_kept_for_a_slow_reader() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "normal 64mb 0 0")]);
    let mut client = server.client();
    client.call(&format!("SET k {}", "x".repeat(100_000)));
    client.send(&encode(&["GET", "k"]).repeat(200));
    server.client().call("PING");
    for _ in 0..200 {
        assert_eq!(client.take_bytes(9), b"$100000\r\n");
        assert!(client.take_bytes(100_002).starts_with(b"xxx"));
    }
}

#[test]
fn no_output_limit_is_lower_than_16_kib() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "normal 10 0 0")]);
    let mut client = server.client();
    assert!(client.call("INFO everything").len() > 1_000);
    client.call(&format!("SET short {}", "x".repeat(16_000)));
    assert!(client.call("GET short").starts_with("$16000 "));
    client.call(&format!("SET long {}", "x".repeat(17_000)));
    client.send(&encode(&["GET", "long"]));
    assert_eq!(client.read_to_end(), b"");
    let mut client = server.client();
    let limit = ["CONFIG", "SET", "client-output-buffer-limit", "normal 17000 0 0"];
    assert_eq!(client.call_args(&limit), "+OK");
    client.send(&encode(&["GET", "long"]));
    assert_eq!(client.read_to_end(), b"");
    assert_eq!(server.client().info("client_output_buffer_limit_disconnections"), "2");
}

#[test]
fn no_client_is_evicted_for_output_beyond_another_clients_limit() {
    let limits = [("client-output-buffer-limit", "normal 1mb 0 0"), ("maxmemory-clients", "3mb")];
    let server = TestServer::start_with(&limits);
    let (mut other, mut waiting, mut greedy) = (server.client(), server.client(), server.client());
    other.call("SETRANGE k 1500000 x");
    // Half a request, which takes the larger part of the common limit.
    waiting.call("CLIENT SETNAME waiting");
    waiting.send(format!("*1\r\n$2000000\r\n{}", "v".repeat(1_800_000)).as_bytes());
    wait_until(|| other.call("CLIENT LIST").contains(" qbuf=1800000 "));
    greedy.send(&encode(&["GET", "k"]));
    assert_eq!(greedy.read_to_end(), b"");
    assert_eq!(other.info("evicted_clients"), "0");
    assert_eq!(other.info("client_output_buffer_limit_disconnections"), "1");
    assert!(other.call("CLIENT LIST").contains(" name=waiting "));
}

#[test]
fn the_soft_output_limit_counts_from_when_it_was_first_exceeded() {
    let server = TestServer::start_with(&[("client-output-buffer-limit", "normal 0 100000 10")]);
    let mut other = server.client();
    other.call(&format!("SET k {}", "x".repeat(5_000_000)));
    let mut slow = server.client();
    // More than the sockets buffer, so that some of it is pending in the server.
    slow.send(&encode(&["GET", "k"]).repeat(10));
    wait_until(|| {
        let list = other.call("CLIENT LIST");
        list.contains("cmd=get") && list.matches(" omem=0 ").count() == 1
    });
    server.advance_ms(1); // from now on housekeeping sees it
    server.advance_ms(9_999);
    slow.send(b"PING\r\n");
    wait_until(|| other.call("CLIENT LIST").contains("cmd=ping"));
    server.advance_ms(1_000); // it is closed although it sends no more
    wait_until(|| other.info("connected_clients") == "1");
    assert!(slow.read_to_end().len() < 50_000_000);
}

#[test]
fn claims_of_huge_requests_take_no_memory() {
    let server = TestServer::start();
    let before = resident_kib();
    let claims =
        ["*2\r\n$3\r\nGET\r\n$536870912\r\n", "*2147483647\r\n$3\r\nDEL\r\n", "*1000000000\r\n$536870912\r\nx"];
    let mut claimants: Vec<Client> = Vec::new();
    for claim in claims.iter().cycle().take(150) {
        let mut client = server.client();
        client.send(claim.as_bytes());
        claimants.push(client);
    }
    let mut client = server.client();
    for _ in 0..100 {
        assert_eq!(client.call("PING"), "+PONG");
    }
    wait_until(|| client.call("CLIENT LIST").matches("id=").count() == 151);
    // 50 claims of 512 MiB and 100 of a billion arguments: 25 GiB if they were allocated.
    assert!(resident_kib() - before < 500_000, "{} KiB more", resident_kib() - before);
}

/// Returns the resident memory, by the kernel, of this process, which includes the server.
fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a VmRSS line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn garbage_of_many_kinds_does_the_server_no_harm() {
    let server = TestServer::start();
    let mut witness = server.client();
    witness.call("SET k precious");
    let mut dice = Dice::new(2024);
    for round in 0..300 {
        let len = 1 + dice.roll(3000) as usize;
        let mut garbage: Vec<u8> = (0..len).map(|_| dice.roll(256) as u8).collect();
        match round % 4 {
            0 => garbage.splice(0..0, *b"*3\r\n$3\r\nGET\r\n").for_each(drop),
            1 => garbage.iter_mut().for_each(|byte| *byte = b"*$0123456789\r\n-"[*byte as usize % 15]),
            2 => garbage.splice(0..0, *b"*1\r\n$100\r\n").for_each(drop),
            _ => {}
        }
        let client = server.client();
        let mut stream = client.writer();
        // The server may close the connection before the last byte arrives.
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut replies = Vec::new();
        let _ = stream.read_to_end(&mut replies);
        witness.expect(&[("GET k", "$8 precious")]);
    }
    wait_until(|| witness.info("connected_clients") == "1");
    assert_eq!(witness.call("DBSIZE"), ":1");
}

#[test]
fn mutated_requests_get_a_reply_or_an_error_and_never_hang_the_connection() {
    let server = TestServer::start();
    let mut dice = Dice::new(77);
    let valid = [encode(&["SET", "k", "v"]), encode(&["GET", "k"]), encode(&["MSET", "a", "1", "b", "2"])].concat();
    for _ in 0..500 {
        let mut bytes = valid.clone();
        for _ in 0..1 + dice.roll(4) {
            let at = dice.roll(bytes.len() as u64) as usize;
            match dice.roll(3) {
                0 => bytes[at] = dice.roll(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, dice.roll(256) as u8),
            }
        }
        let mut client = server.client();
        client.send(&bytes);
        client.shut_write();
        let replies = client.read_to_end();
        assert!(replies.is_empty() || replies.ends_with(b"\r\n"), "{}", replies.escape_ascii());
    }
    assert_eq!(server.client().call("PING"), "+PONG");
}

#[test]
fn connections_that_send_nothing_leave_nothing_behind() {
    let server = TestServer::start();
    let mut witness = server.client();
    for _ in 0..500 {
        drop(server.client());
    }
    wait_until(|| witness.info("connected_clients") == "1");
    assert_eq!(witness.info("rejected_connections"), "0");
}

#[test]
fn clients_that_take_too_much_memory_together_lose_the_largest_of_them() {
    let server = TestServer::start_with(&[("maxmemory-clients", "3mb")]);
    let (mut small, mut large) = (server.client(), server.client());
    small.expect(&[("SET k v", "+OK")]);
    assert_eq!(large.call(&format!("SET l {}", "x".repeat(1_000_000))), "+OK");
    // The rest of this request need not arrive.
    let mut writer = large.writer();
    let argument = "x".repeat(4_000_000);
    let sent = std::thread::spawn(move || writer.write_all(&encode(&["SET", "m", &argument])).is_ok());
    assert_eq!(large.read_to_end(), b"");
    drop(sent.join());
    small.expect(&[("GET k", "$1 v"), ("EXISTS m", ":0")]);
    assert_eq!((small.info("evicted_clients"), small.info("connected_clients")), ("1".into(), "1".into()));
    assert!(small.info("mem_clients_normal").parse::<usize>().expect("a number") < 100_000);
}

#[test]
fn queued_commands_and_unread_replies_count_as_a_clients_memory() {
    let server = TestServer::start_with(&[("maxmemory-clients", "3mb")]);
    let (mut small, mut queueing, mut deaf) = (server.client(), server.client(), server.client());
    queueing.call("MULTI");
    let set = encode(&["SET", "k", &"x".repeat(750_000)]);
    let mut writer = queueing.writer();
    let sent = std::thread::spawn(move || (0..5).all(|_| writer.write_all(&set).is_ok()));
    queueing.read_to_end();
    drop(sent.join());
    small.call(&format!("SET k {}", "x".repeat(100_000)));
    let mut writer = deaf.writer();
    let sent = std::thread::spawn(move || writer.write_all(&encode(&["GET", "k"]).repeat(500)).is_ok());
    wait_until(|| small.info("evicted_clients") == "2");
    deaf.read_to_end();
    drop(sent.join());
    assert_eq!(small.call("STRLEN k"), ":100000");
}

#[test]
fn who_is_exempt_is_not_closed_for_its_memory() {
    let server = TestServer::start_with(&[("maxmemory", "10mb"), ("maxmemory-clients", "20%")]);
    let (mut exempt, mut other) = (server.client(), server.client());
    exempt.expect(&[("CLIENT NO-EVICT ON", "+OK")]);
    assert!(exempt.call("CLIENT INFO").contains(" flags=e "));
    assert_eq!(exempt.call(&format!("SET k {}", "x".repeat(4_000_000))), "+OK");
    let mut writer = other.writer();
    let argument = "x".repeat(4_000_000);
    let sent = std::thread::spawn(move || writer.write_all(&encode(&["SET", "m", &argument])).is_ok());
    assert_eq!(other.read_to_end(), b"");
    drop(sent.join());
    exempt.expect(&[("STRLEN k", ":4000000"), ("EXISTS m", ":0")]);
}

#[test]
fn clients_that_wait_for_something_are_not_idle() {
    let server = TestServer::start_with(&[("timeout", "10")]);
    let (mut idle, mut listener, mut blocked) = (server.client(), server.client(), server.client());
    idle.call("PING");
    listener.call("SUBSCRIBE c");
    blocked.send(b"WAIT 1 0\r\n");
    let mut busy = server.client();
    wait_until(|| busy.info("blocked_clients") == "1");
    server.advance_ms(11_000);
    assert_eq!(idle.read_to_end(), b"");
    let mut other = server.client();
    other.expect(&[("PUBLISH c hello", ":1"), ("CLIENT UNBLOCK 3", ":1")]);
    assert_eq!(listener.reply().matches("hello").count(), 1);
    assert_eq!(blocked.reply(), ":0");
}

#[test]
fn waits_and_pauses_follow_the_clock_that_is_moved_by_hand() {
    let server = TestServer::start();
    let (mut waiting, mut held, mut other) = (server.client(), server.client(), server.client());
    waiting.send(b"WAIT 1 5000\r\n");
    wait_until(|| other.info("clients_in_timeout_table") == "1");
    server.advance_ms(4_999);
    assert_eq!(other.info("blocked_clients"), "1");
    server.advance_ms(1);
    assert_eq!(waiting.reply(), ":0");
    other.expect(&[("CLIENT PAUSE 1000 WRITE", "+OK"), ("GET k", "$-1")]);
    held.send(b"SET k v\r\n");
    wait_until(|| other.info("blocked_clients") == "1");
    assert!(other.call("CLIENT LIST").contains("flags=b"));
    server.advance_ms(1_000);
    assert_eq!(held.reply(), "+OK");
}

#[test]
fn five_hundred_clients_are_held_back_and_served_again() {
    let server = TestServer::start();
    let mut clients: Vec<Client> = (0..500).map(|_| server.client()).collect();
    let mut other = server.client();
    other.expect(&[("CLIENT PAUSE 100000 WRITE", "+OK")]);
    clients.iter_mut().for_each(|client| client.send(b"INCR k\r\n"));
    wait_until(|| other.info("blocked_clients") == "500");
    other.expect(&[("GET k", "$-1"), ("CLIENT UNPAUSE", "+OK")]);
    clients.iter_mut().for_each(|client| assert!(client.reply().starts_with(':')));
    other.expect(&[("GET k", "$3 500"), ("CLIENT KILL TYPE normal", ":500")]);
    assert_eq!(other.call("CLIENT LIST").matches("id=").count(), 1);
    clients.iter_mut().for_each(|client| assert!(client.read_raw().is_none()));
}

#[test]
fn keys_that_end_during_a_pause_are_removed_after_it() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET k v PX 100", "+OK"), ("SET l v PX 100", "+OK"), ("CLIENT PAUSE 1000 WRITE", "+OK")]);
    server.advance_ms(500);
    client.expect(&[("GET k", "$-1"), ("RANDOMKEY", "$-1"), ("DBSIZE", ":2")]);
    assert_eq!(client.info("expired_keys"), "0");
    server.advance_ms(500);
    client.expect(&[("DBSIZE", ":0")]);
    assert_eq!(client.info("expired_keys"), "2");
}

#[test]
fn a_client_that_has_to_authenticate_is_closed_when_it_leaves_replies_unread() {
    let server = TestServer::start_with(&[("requirepass", "secret")]);
    let mut few = server.client();
    let refused = |count: usize| "GET k\r\n".repeat(count);
    few.send(format!("{}AUTH secret\r\n", refused(100)).as_bytes());
    (0..100).for_each(|_| assert_eq!(few.reply(), "-NOAUTH Authentication required."));
    assert_eq!(few.reply(), "+OK");
    let mut many = server.client();
    many.send(refused(2000).as_bytes());
    let replies = many.read_to_end();
    assert!(replies.len() < 2000 * "-NOAUTH Authentication required.\r\n".len());
    // After authentication as many replies are fine.
    few.send(refused(2000).as_bytes());
    (0..2000).for_each(|_| assert_eq!(few.reply(), "$-1"));
    assert_eq!(few.info("client_output_buffer_limit_disconnections"), "1");
}

#[test]
fn names_of_clients_and_libraries_have_a_limit() {
    let server = TestServer::start();
    let (mut client, longest) = (server.client(), "n".repeat(1024));
    for words in ["CLIENT SETNAME", "CLIENT SETINFO LIB-NAME", "CLIENT SETINFO LIB-VER", "HELLO 2 SETNAME"] {
        assert!(!client.call(&format!("{words} {longest}")).starts_with('-'));
        let what = match words {
            "CLIENT SETINFO LIB-NAME" => "lib-name",
            "CLIENT SETINFO LIB-VER" => "lib-ver",
            _ => "Client names",
        };
        let refused = client.call(&format!("{words} {longest}n"));
        assert_eq!(refused, format!("-ERR {what} cannot be longer than 1024 bytes."));
    }
    assert!(client.call("CLIENT INFO").contains(&format!(" name={longest} ")));
}

#[test]
fn prefixes_given_up_no_longer_count_as_the_memory_of_their_client() {
    let server = TestServer::start();
    let mut client = server.client3();
    let memory = |client: &mut Client| -> usize {
        let line = client.call("CLIENT INFO");
        let digits = line.split_once(" tot-mem=").and_then(|(_, rest)| rest.split(' ').next());
        digits.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    let before = memory(&mut client);
    for round in 0..500 {
        client.expect(&[(&format!("CLIENT TRACKING ON BCAST PREFIX {round}:"), "+OK")]);
        assert!(memory(&mut client) > before + 200, "a prefix counts");
        client.expect(&[("CLIENT TRACKING OFF", "+OK")]);
    }
    assert_eq!(memory(&mut client), before);
}

#[test]
fn unread_replies_of_any_size_stay_within_the_limit_of_memory_of_clients() {
    // More than the buffers of a socket take.
    const LEN: usize = 16_000_000;
    let server = TestServer::start_with(&[("maxmemory-clients", "30mb")]);
    let mut other = server.client();
    other.call(&format!("SETRANGE large {} x", LEN - 1));
    let executed = |client: &mut Client| client.call("INFO commandstats").contains("cmdstat_get:calls=1,");
    let deaf: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &deaf {
        other.call("CONFIG RESETSTAT");
        client.writer().write_all(&encode(&["GET", "large"])).expect("the server reads");
        wait_until(|| executed(&mut other));
        let held = other.info("mem_clients_normal").parse::<usize>().expect("a number");
        assert!(held < (30 << 20) + LEN, "{held} bytes of replies are unread");
    }
    assert!(other.info("connected_clients").parse::<usize>().is_ok_and(|count| count < deaf.len()), "some are closed");
}

#[test]
fn watched_keys_given_up_no_longer_count_as_the_memory_of_their_client() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let shown = format!("CLIENT LIST ID {}", client.int("CLIENT ID"));
    let mut memory = || {
        let line = other.call(&shown);
        let memory = line.split(' ').find_map(|field| field.strip_prefix("tot-mem="));
        memory.and_then(|memory| memory.parse::<usize>().ok()).unwrap_or_else(|| panic!("no memory in {line}"))
    };
    client.expect(&[("UNWATCH", "+OK")]);
    let before = memory();
    for end in ["UNWATCH", "MULTI\r\nDISCARD", "MULTI\r\nEXEC"] {
        client.expect(&[(&format!("WATCH {}", "k".repeat(10_000)), "+OK")]);
        wait_until(|| (before + 10_000..before + 11_000).contains(&memory()));
        client.send(format!("{end}\r\n").as_bytes());
        end.lines().for_each(|_| drop(client.reply()));
        wait_until(|| memory() == before);
    }
}

#[test]
fn messages_that_wait_for_a_subscriber_count_as_its_memory() {
    let server = TestServer::start_with(&[("maxmemory-clients", "3mb")]);
    let (mut deaf, mut publisher) = (server.client(), server.client());
    deaf.call("SUBSCRIBE c");
    let publish = format!("PUBLISH c {}", "x".repeat(100_000));
    // More than the sockets' buffers and the limit take, and less than a subscriber's own limit.
    let reached = (0..250).map(|_| publisher.int(&publish)).sum::<i64>();
    assert!(reached < 250, "all of them wait");
    assert_eq!(publisher.info("evicted_clients"), "1");
}

#[test]
fn a_call_that_has_blocked_takes_no_memory_once_it_has_ended() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    let id = client.int("CLIENT ID");
    let own = |other: &mut Client| {
        let line = other.call(&format!("CLIENT LIST ID {id}"));
        let memory = line.split(' ').find_map(|field| field.strip_prefix("tot-mem="));
        memory.and_then(|memory| memory.parse::<usize>().ok()).unwrap_or_else(|| panic!("no memory in {line}"))
    };
    let used = |other: &mut Client| other.info("used_memory").parse::<usize>().expect("bytes");
    let before = (own(&mut other), used(&mut other));
    let request = format!("BLPOP {} 0", "k".repeat(60_000));
    for _ in 0..60 {
        client = server.block_as(client, &request);
        assert!(own(&mut other) > before.0 + 60_000);
        other.expect(&[(&format!("CLIENT UNBLOCK {id}"), ":1")]);
        assert_eq!(client.reply(), "*-1");
    }
    wait_until(|| own(&mut other) == before.0);
    assert!(used(&mut other) < before.1 + 3_000_000, "{} bytes are left", used(&mut other) - before.1);
}
