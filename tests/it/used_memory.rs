//! `used_memory` matches the allocator's figure for any content. The test uses the binary, which knows its allocator.

use std::io::Write;

use crate::harness::{Client, Dice, encode, wait_until};
use crate::process::Process;

/// Returns the memory counted by the server, and by its allocator, in bytes.
fn figures(client: &mut Client) -> (f64, f64) {
    let info = client.call("INFO memory");
    let figure = |name: &str| {
        let value = info.split(' ').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    (figure("used_memory"), figure("allocator_allocated"))
}

/// Asserts that the memory added since `before` is counted to within five per cent, once all of it has arrived.
fn expect_counted(what: &str, client: &mut Client, before: (f64, f64)) {
    const ENOUGH: f64 = 15e6;
    expect_counted_from(ENOUGH, what, client, before);
}

/// Asserts the same for additions of at least this many bytes.
fn expect_counted_from(enough: f64, what: &str, client: &mut Client, before: (f64, f64)) {
    let mut last = (0.0, 0.0);
    for _ in 0..100_000 {
        let (used, held) = figures(client);
        last = (used - before.0, held - before.1);
        if last.1 > enough && (last.0 / last.1 - 1.0).abs() < 0.05 {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(1)); // yields the processor to the server
    }
    panic!("{what}: counted {} of {} bytes", last.0, last.1);
}

/// Waits until the server has read this many more bytes.
fn wait_for_input(client: &mut Client, before: usize, more: usize) {
    wait_until(|| input_len(client) >= before + more);
}

fn input_len(client: &mut Client) -> usize {
    client.info("total_net_input_bytes").parse().expect("a number")
}

fn run(client: &mut Client, commands: impl Iterator<Item = String>) {
    let commands: Vec<String> = commands.collect();
    for portion in commands.chunks(500) {
        assert!(client.pipeline(portion).iter().all(|reply| !reply.starts_with('-')));
    }
}

#[test]
fn strings_that_grew_and_shrank_count_with_all_that_they_hold() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    run(&mut client, (0..2000).map(|n| format!("SET warm:{n} 1")));
    let before = figures(&mut client);
    run(&mut client, (0..700).map(|n| format!("SET k:{n} {}", "x".repeat(17_000 + n * 20))));
    run(&mut client, (0..700).map(|n| format!("APPEND k:{n} {}", "x".repeat(100 + n * 17))));
    expect_counted("long strings that grew", &mut client, before);
    run(&mut client, (0..700).map(|n| format!("SETRANGE k:{n} 60000 x")));
    run(&mut client, (0..700).map(|n| format!("COPY k:{n} copy:{n}")));
    expect_counted("strings that were copied", &mut client, before);
    run(&mut client, (0..700).map(|n| format!("SET k:{n} {}", "x".repeat(n))));
    expect_counted("strings that shrank", &mut client, before);
    run(&mut client, (0..60_000).map(|n| format!("APPEND s:{n} {}", "x".repeat(n % 200))));
    run(&mut client, (0..60_000).map(|n| format!("APPEND s:{n} {}", "x".repeat(n % 90))));
    expect_counted("short strings that grew", &mut client, before);
}

#[test]
fn a_limit_on_memory_holds_for_strings_that_grow() {
    const LIMIT: f64 = 30.0 * 1024.0 * 1024.0;
    let mut process = Process::start(&["--maxmemory", "30mb", "--maxmemory-policy", "allkeys-random"]);
    let mut client = process.client();
    for round in 0..6 {
        run(&mut client, (0..400).map(|n| format!("SET k:{round}:{n} {}", "x".repeat(17_000 + n * 100))));
        run(&mut client, (0..400).map(|n| format!("APPEND k:{round}:{n} {}", "x".repeat(10 + n * 10))));
        let (_, held) = figures(&mut client);
        assert!(held < LIMIT * 1.05, "{held} bytes are held");
    }
}

#[test]
fn values_of_other_sizes_find_the_memory_that_evicted_ones_have_left() {
    const LIMIT: usize = 40 << 20;
    let mut process = Process::start(&["--maxmemory", "40mb", "--maxmemory-policy", "allkeys-random"]);
    let (mut client, mut dice) = (process.client(), Dice::new(3));
    let value = "x".repeat(4000);
    for (least, most) in [(10, 100), (250, 1000), (2000, 4000)] {
        let count = LIMIT / (60 + (least + most) / 2);
        let mut len = || least + dice.roll((most - least) as u64) as usize;
        run(&mut client, (0..count).map(|n| format!("SET k:{most}:{} {}", n * 7919 % (4 * count), &value[..len()])));
    }
    // Without defragmentation, two thirds of the keys would have to be evicted to compensate partly empty pages.
    let (used, _) = figures(&mut client);
    assert!(used > LIMIT as f64 * 0.8, "only {used} bytes are used");
    let active: f64 = client.info("allocator_active").parse().expect("a number");
    assert!(active < LIMIT as f64 * 1.3, "{active} bytes of pages");
}

#[test]
fn subscriptions_and_messages_that_wait_count_as_used_memory() {
    let mut process = Process::start(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let (mut client, mut listener) = (process.client(), Client::connect(process.known_addr()));
    let before = figures(&mut client);
    run(&mut listener, (0..40_000).map(|n| format!("SUBSCRIBE {n}:{}", "c".repeat(200))));
    expect_counted("subscriptions", &mut client, before);
    run(&mut listener, (0..40_000).map(|n| format!("UNSUBSCRIBE {n}:{}", "c".repeat(200))));
    let before = figures(&mut client);
    run(&mut listener, (0..20_000).map(|n| format!("PSUBSCRIBE {n}:{}*", "c".repeat(600))));
    expect_counted("patterns", &mut client, before);
    drop(listener);
    wait_until(|| client.info("pubsub_patterns") == "0");

    let mut deaf = Client::connect(process.known_addr());
    deaf.call("SUBSCRIBE news");
    let before = figures(&mut client);
    run(&mut client, (0..300).map(|n| format!("PUBLISH news {}", "m".repeat(100_000 + n))));
    expect_counted("long messages", &mut client, before);
    run(&mut client, (0..200_000).map(|n| format!("PUBLISH news {n}")));
    expect_counted("short messages", &mut client, before);
}

#[test]
fn what_is_tracked_counts_as_used_memory() {
    let mut process = Process::start(&[]);
    let (mut client, mut tracker) = (process.client(), Client::connect(process.known_addr()));
    let mut others: Vec<Client> = (0..5).map(|_| Client::connect(process.known_addr())).collect();
    for tracker in others.iter_mut().chain([&mut tracker]) {
        tracker.call("HELLO 3");
        assert_eq!(tracker.call("CLIENT TRACKING ON"), "+OK");
    }
    let before = figures(&mut client);
    run(&mut tracker, (0..100_000).map(|n| format!("GET key:{n}:{}", "k".repeat(n % 200))));
    expect_counted("keys that were read", &mut client, before);
    for other in &mut others {
        run(other, (0..100_000).map(|n| format!("GET key:{n}:{}", "k".repeat(n % 200))));
    }
    expect_counted("keys that many have read", &mut client, before);
    client.expect(&[("FLUSHALL", "+OK")]);

    let mut broadcast = Client::connect(process.known_addr());
    broadcast.call("HELLO 3");
    let before = figures(&mut client);
    let prefixes: Vec<String> = (10_000..40_000).map(|n| format!("PREFIX {n}:{}", "p".repeat(500))).collect();
    let words = format!("CLIENT TRACKING ON BCAST {}", prefixes.join(" "));
    assert_eq!(broadcast.call(&words), "+OK");
    expect_counted("prefixes", &mut client, before);
}

#[test]
fn requests_that_are_not_complete_count_as_used_memory() {
    let mut process = Process::start(&[]);
    let (mut client, addr) = (process.client(), process.known_addr());
    let started = [
        ("one long argument", [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$40000000\r\n"[..], &vec![b'x'; 39_000_000]].concat()),
        ("many short arguments", [&b"*1000001\r\n"[..], &b"$3\r\nkey\r\n".repeat(900_000)].concat()),
        ("many of 20 KB", [&b"*3000\r\n"[..], &[&b"$20000\r\n"[..], &[b'x'; 20_002]].concat().repeat(1500)].concat()),
    ];
    for (what, bytes) in started {
        let (before, input) = (figures(&mut client), input_len(&mut client));
        let mut sender = Client::connect(addr);
        sender.send(&bytes);
        wait_for_input(&mut client, input, bytes.len());
        expect_counted(what, &mut client, before);
        drop(sender);
        wait_until(|| client.info("connected_clients") == "1");
    }
    let before = figures(&mut client);
    let mut queueing = Client::connect(addr);
    queueing.call("MULTI");
    run(&mut queueing, (0..30_000).map(|n| format!("SET k:{n} {}", "x".repeat(n % 1000))));
    expect_counted("a queue of MULTI", &mut client, before);
    queueing.call("DISCARD");
    wait_until(|| client.info("lazyfree_pending_objects") == "0");
    let before = figures(&mut client);
    run(&mut queueing, (0..4_000).map(|n| format!("WATCH {n}:{}", "w".repeat(3_000))));
    expect_counted("watched keys", &mut client, before);
}

#[test]
fn an_argument_that_has_come_in_part_takes_and_counts_as_what_has_come() {
    let mut process = Process::start(&[]);
    let (mut client, addr) = (process.client(), process.known_addr());
    let bytes = |client: &mut Client, field: &str| client.info(field).parse::<f64>().expect("a number");
    let mut figures = || ["used_memory", "used_memory_rss"].map(|field| bytes(&mut client, field));
    let before = figures();
    let mut sender = Client::connect(addr);
    sender.send(&[&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$400000000\r\n"[..], &vec![b'x'; 50_000_000]].concat());
    let mut grown = || figures().iter().zip(before).map(|(now, before)| now - before).collect::<Vec<_>>();
    wait_until(|| grown().iter().all(|bytes| *bytes > 49_000_000.0));
    assert!(grown().iter().all(|bytes| *bytes < 65_000_000.0), "{:?}", grown());
}

#[cfg(feature = "lua")]
#[test]
fn scripts_and_functions_count_with_all_that_they_hold() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    client.expect(&[("EVAL return(1) 0", ":1")]);
    let script =
        |n: usize| format!("local key = KEYS[1] or 'key:{n}' if redis.call('GET', key) == ARGV[1] then return {n} end");
    let library = |n: usize, more: &str| {
        format!("#!lua name=l{n}\n{more}\nredis.register_function('f{n}', function(keys, args) return t and {n} end)")
    };
    let filler = |len: usize| "x".repeat(len);
    let mut load = |what: &str, count: usize, words: &[&str], text: &dyn Fn(usize) -> String| {
        let before = figures(&mut client);
        for first in (0..count).step_by(500) {
            let mut texts: Vec<String> = (first..(first + 500).min(count)).map(text).collect();
            // Loading a library may take half a second of real time, in which a busy machine may do nothing for it.
            for tries_left in (0..100).rev() {
                let request_of = |text: &String| {
                    encode(&words.iter().map(|word| if *word == "TEXT" { text } else { *word }).collect::<Vec<_>>())
                };
                client.send(&texts.iter().flat_map(request_of).collect::<Vec<u8>>());
                texts.retain(|_| {
                    let reply = client.reply();
                    let is_late = tries_left > 0 && reply.contains("FUNCTION LOAD timeout");
                    assert!(is_late || !reply.starts_with('-'), "{reply}");
                    is_late
                });
                if texts.is_empty() {
                    break;
                }
            }
        }
        expect_counted(what, &mut client, before);
    };
    load("short scripts", 30_000, &["SCRIPT", "LOAD", "TEXT"], &|n| format!("return {n}"));
    load("scripts", 25_000, &["SCRIPT", "LOAD", "TEXT"], &script);
    load("long scripts", 3_000, &["SCRIPT", "LOAD", "TEXT"], &|n| format!("return '{}'", filler(n * 3)));
    load("scripts that were run", 500, &["EVAL", "TEXT", "0"], &|n| format!("return '{}'", filler(20_000 + n * 50)));
    load("libraries", 16_000, &["FUNCTION", "LOAD", "TEXT"], &|n| library(n, "local t = {}"));
    load("libraries with tables", 20, &["FUNCTION", "LOAD", "REPLACE", "TEXT"], &|n| {
        library(n, "local t = {} for i = 1, 10000 do t[i] = {i, 'value:' .. i} end")
    });
    // Not in place of libraries with tables, whose memory would be free for these.
    load("libraries with names", 80, &["FUNCTION", "LOAD", "REPLACE", "TEXT"], &|n| {
        library(20 + n, "local t = {} for i = 1, 5000 do t['key:' .. i .. ':' .. #t] = 'value:' .. i end")
    });
}

#[test]
fn replies_that_wait_and_the_slow_log_count_as_used_memory() {
    let mut process = Process::start(&["--slowlog-max-len", "100000"]);
    let (mut client, addr) = (process.client(), process.known_addr());
    run(&mut client, (0..1).map(|_| format!("SET k {}", "x".repeat(5_000))));
    let before = figures(&mut client);
    let deaf = Client::connect(addr);
    let mut writer = deaf.writer();
    writer.write_all(&encode(&["GET", "k"]).repeat(12_000)).expect("the server reads");
    wait_until(|| figures(&mut client).1 - before.1 > 30e6);
    expect_counted("replies", &mut client, before);
    drop((deaf, writer));
    wait_until(|| client.info("connected_clients") == "1");

    client.expect(&[("CONFIG SET slowlog-log-slower-than 0", "+OK")]);
    let before = figures(&mut client);
    let words = vec!["w".repeat(100); 20].join(" ");
    run(&mut client, (0..8_000).map(|n| format!("ECHO {n} {words}")).map(|line| line.replacen("ECHO", "EXISTS", 1)));
    expect_counted("the slow log", &mut client, before);
    client.expect(&[("SLOWLOG RESET", "+OK")]);
}

#[test]
fn a_set_that_grows_in_a_command_which_adds_nothing_is_counted_until_it_is_deleted() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    let members: Vec<String> = (0..100).map(|n| format!("member-{n}")).collect();
    let once = format!("SADD many {}", members.join(" "));
    let twice = format!("{once} {}", members.join(" "));
    client.call("DEL many");
    let before: i64 = client.info("used_memory").parse().expect("a number");
    for _ in 0..100 {
        assert_eq!(client.call(&once), ":100");
        assert_eq!(client.call("OBJECT ENCODING many"), "$8 listpack");
        assert_eq!(client.call(&twice), ":0");
        assert_eq!(client.call("OBJECT ENCODING many"), "$9 hashtable");
        assert_eq!(client.call("DEL many"), ":1");
    }
    let after: i64 = client.info("used_memory").parse().expect("a number");
    assert!((after - before).abs() < 100_000, "{before} bytes before, {after} after");
}

#[test]
fn what_a_stream_keeps_in_order_counts_as_used_memory() {
    let mut process = Process::start(&[]);
    let mut client = process.client();
    run(&mut client, (0..200_000).map(|n| format!("XADD s {}-1 f {n}", 1_700_000_000_000_u64 + n)));
    client.expect(&[("XGROUP CREATE s g 0", "+OK")]);
    let before = figures(&mut client);
    run(&mut client, (0..200).map(|_| "XREADGROUP GROUP g c COUNT 1000 STREAMS s >".into()));
    expect_counted("pending entries", &mut client, before);
    // Deletions of every other entry leave the chunks half full; later times lie behind all others.
    let ids = |n: u64| (0..200).map(|at| format!(" {}-1", 1_700_000_000_000 + n * 400 + at * 2)).collect::<String>();
    run(&mut client, (0..500).map(|n| format!("XCLAIM s g d 0{} JUSTID", ids(n))));
    expect_counted("pending entries of two consumers", &mut client, before);
    client.expect(&[("CONFIG SET stream-node-max-entries 1", "+OK")]);
    let before = figures(&mut client);
    run(&mut client, (0..300_000).map(|n| format!("XADD many {}-1 f {n}", n + 1)));
    expect_counted("nodes of one entry", &mut client, before);
    let before = figures(&mut client);
    run(&mut client, (0..80_000).map(|n| format!("XGROUP CREATECONSUMER s g consumer:{n:05}")));
    expect_counted("consumers", &mut client, before);
    let before = figures(&mut client);
    run(&mut client, (0..60_000).map(|n| format!("XGROUP CREATE s group:{n:05} 0")));
    expect_counted("groups", &mut client, before);
}

#[test]
fn short_names_that_come_in_order_count_as_used_memory() {
    let mut process = Process::start(&[]);
    let (mut client, addr) = (process.client(), process.known_addr());
    let (mut watcher, mut holder, mut tracker) = (Client::connect(addr), Client::connect(addr), Client::connect(addr));
    tracker.call("HELLO 3");
    let before = figures(&mut client);
    let keys = |n: usize| (0..1000).map(|at| format!(" {n:03}{at:03}")).collect::<String>();
    run(&mut watcher, (0..100).map(|n| format!("WATCH{}", keys(n))));
    expect_counted("watched keys", &mut client, before);
    let before = figures(&mut client);
    run(&mut holder, (0..60_000).map(|n| format!("LOCK.ACQUIRE lock:{n:05} t PX 1000000 SESSION")));
    expect_counted("locks of a connection", &mut client, before);
    let before = figures(&mut client);
    let prefixes: Vec<String> = (0..120_000).map(|n| format!("PREFIX {n:06}")).collect();
    assert_eq!(tracker.call(&format!("CLIENT TRACKING ON BCAST {}", prefixes.join(" "))), "+OK");
    expect_counted("prefixes", &mut client, before);
    let before = figures(&mut client);
    run(&mut holder, (0..50_000).map(|n| format!("SUBSCRIBE {n:06}")));
    expect_counted("channels", &mut client, before);
}

#[test]
fn names_of_clients_blocked_calls_and_users_count_as_used_memory() {
    let mut process = Process::start(&[]);
    let (mut client, addr) = (process.client(), process.known_addr());
    let mut others: Vec<Client> = (0..300).map(|_| Client::connect(addr)).collect();
    let ids: Vec<i64> = others.iter_mut().map(|other| other.int("CLIENT ID")).collect();
    let (before, name) = (figures(&mut client), "n".repeat(1000));
    let memory_of_first = |client: &mut Client| -> usize {
        let line = client.call(&format!("CLIENT LIST ID {}", ids[0]));
        let digits = line.split_once(" tot-mem=").and_then(|(_, rest)| rest.split(' ').next());
        digits.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    for other in &mut others {
        let set = format!("CLIENT SETNAME {name} | CLIENT SETINFO LIB-NAME {name} | CLIENT SETINFO LIB-VER {name}");
        set.split(" | ").for_each(|words| assert_eq!(other.call(words), "+OK"));
    }
    expect_counted_from(800e3, "names of clients", &mut client, before);
    let named = memory_of_first(&mut client);
    assert!(named > 3000, "{named} bytes are counted for a client with names of 3000");

    client.expect(&[("SET lock held PX 1000000", "+OK")]);
    for (what, len, command) in [("clients in line", 14_000, "LOCK.ACQUIRE"), ("blocked clients", 40_000, "BLPOP")] {
        let before = figures(&mut client);
        for (at, other) in others.iter_mut().enumerate() {
            other.send(&match command {
                "BLPOP" => encode(&[command, &"k".repeat(len), "0"]),
                _ => encode(&[command, "lock", &format!("{at}{}", "t".repeat(len)), "PX", "1000", "BLOCK", "0"]),
            });
        }
        wait_until(|| client.info("blocked_clients") == "300");
        let (used, held) = figures(&mut client);
        let (used, held) = (used - before.0, held - before.1);
        assert!(used > held * 0.85 && used < held * 1.2, "{what}: counted {used} of {held} bytes");
        let all = (len * others.len()) as f64;
        assert!(command != "BLPOP" || held < all * 1.5, "{what}: {held} bytes are held for names of {all}");
        let blocked = memory_of_first(&mut client);
        assert!(blocked > named + len, "{what}: {blocked} bytes are counted for one");
        for (id, other) in ids.iter().zip(&mut others) {
            assert_eq!(client.call(&format!("CLIENT UNBLOCK {id}")), ":1");
            other.reply();
        }
        wait_until(|| client.info("blocked_clients") == "0");
    }
    drop(others);
    wait_until(|| client.info("connected_clients") == "1");

    let before = figures(&mut client);
    let patterns = |n: usize| (0..50).map(|at| format!(" ~{n}:{at}:{}", "p".repeat(1000))).collect::<String>();
    run(&mut client, (0..300).map(|n| format!("ACL SETUSER user:{n} on >{n}{} (+get ~{n})", patterns(n))));
    expect_counted("users", &mut client, before);
    run(&mut client, (0..300).map(|n| format!("ACL DELUSER user:{n}")));
    let (used, _) = figures(&mut client);
    assert!(used - before.0 < 1e6, "{} bytes of deleted users are counted", used - before.0);
}

#[test]
fn who_deletes_large_values_faster_than_they_are_freed_waits() {
    let mut process = Process::start(&["--enable-debug-command", "yes"]);
    let mut client = process.client();
    // 41 MB each: enough pages to be freed in the background.
    run(&mut client, (0..4).map(|n| format!("SETRANGE large:{n} 41000000 x")));
    client.expect(&[("SELECT 1", "+OK"), ("DEBUG POPULATE 500000", "+OK")]);
    let mut commands = vec!["FLUSHDB".to_owned(), "SELECT 0".into()];
    commands.extend((0..4).map(|n| format!("DEL large:{n}")));
    commands.push("INFO memory".into());
    let replies = client.pipeline(&commands);
    let info = replies.last().expect("there are replies");
    let field = info.split(' ').find_map(|line| line.strip_prefix("lazyfree_pending_objects:"));
    let pending: usize = field.and_then(|digits| digits.parse().ok()).expect("a number");
    assert!(pending <= 1, "{pending} keys are still to be freed");
}

/// Returns the peak memory of the server's process, in bytes.
fn most_memory(client: &mut Client) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", client.info("process_id")))
        .expect("the state of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its most memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[cfg(feature = "lua")]
#[test]
fn one_transaction_script_or_sort_keeps_no_more_replies_than_the_output_limit() {
    let mut process = Process::start(&["--client-output-buffer-limit", "normal 10mb 0 0"]);
    let mut client = process.client();
    client.expect(&[("SETRANGE large 999999 x", ":1000000")]);
    for _ in 0..20 {
        let items = vec!["v".repeat(1000); 100];
        client.call(&format!("RPUSH list {}", items.join(" ")));
    }
    let script = "local value, all = redis.call('GET', KEYS[1]), {} for i = 1, 400 do all[i] = value end return all";
    let transaction = ["MULTI".to_owned()].into_iter().chain((0..200).map(|_| "LRANGE list 0 -1".to_owned()));
    let transaction: Vec<String> = transaction.chain(["EXEC".to_owned()]).collect();
    let requests = [
        transaction.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect(),
        encode(&["EVAL", script, "1", "large"]),
        encode(&[&["SORT", "list", "BY", "nosort"][..], &["GET", "#"].repeat(200)].concat()),
    ];
    for (number, request) in requests.iter().enumerate() {
        let before = most_memory(&mut client);
        let mut greedy = Client::connect(process.known_addr());
        greedy.send(&[&request[..], b"SET done 1\r\n"].concat());
        let got = greedy.read_to_end();
        assert!(got.len() < 10_000 && !got.ends_with(b"+OK\r\n"), "{} bytes of request {number}", got.len());
        let more = most_memory(&mut client) - before;
        assert!(more < 60 << 20, "request {number} took {more} bytes");
        assert_eq!(client.info("client_output_buffer_limit_disconnections"), (number + 1).to_string());
    }
    client.expect(&[("EXISTS done", ":0")]);
}
