//! Values of probabilistic types in dumps, copies, files, logs and replicas, and who may use them.

use keylatch::Clock;
use keylatch::internals::resp::Frame;

use super::rows::{COMMANDS, VALUES};
use crate::files::{assert_same, dir, start_in};
use crate::harness::{Client, Dice, TestServer, wait_until};

/// Creates values of every type, some with a history.
fn fill(client: &mut Client) -> Vec<String> {
    for command in VALUES {
        assert!(!client.call(command).starts_with('-'), "{command}");
    }
    let mut dice = Dice::new(5);
    for _ in 0..300 {
        let item = dice.roll(1000);
        client.expect(&[("TDIGEST.ADD digest:large 1", "+OK")]);
        client.call(&format!("TDIGEST.ADD digest:large {item} {}", item % 10));
        client.call(&format!("TOPK.ADD top:large {} {item}", "x".repeat(item as usize % 20)));
        client.call(&format!("TOPK.INCRBY top {item} 9"));
        client.call(&format!("CF.ADD cuckoo {item}"));
        client.call(&format!("BF.ADD bloom {item}"));
    }
    let mut keys: Vec<String> =
        VALUES.iter().filter_map(|command| command.split(' ').nth(1)).map(str::to_owned).collect();
    keys.dedup();
    keys
}

fn digest(client: &mut Client, key: &str) -> String {
    client.call(&format!("DEBUG DIGEST-VALUE {key}"))
}

fn debuggable() -> TestServer {
    TestServer::start_with(&[("enable-debug-command", "yes")])
}

#[test]
fn dumps_and_copies_are_the_same_value_and_go_on_alike() {
    let server = debuggable();
    let mut client = server.client();
    for key in fill(&mut client) {
        let Frame::Bulk(dump) = client.frame(&["DUMP", &key]) else { panic!("{key} has no dump") };
        assert_eq!(client.call_args(&[&b"RESTORE"[..], b"restored", b"0", &dump]), "+OK", "{key}");
        client.expect(&[(&format!("COPY {key} copied"), ":1"), (&format!("RENAME {key} k"), "+OK")]);
        let expected = digest(&mut client, "k");
        let usage = client.int("MEMORY USAGE k");
        assert!(usage > 50 && usage < 100_000, "{key}: {usage}");
        for twin in ["restored", "copied"] {
            assert_eq!(digest(&mut client, twin), expected, "{key}");
        }
        for command in COMMANDS.iter().filter(|command| !command.contains("MERGE") && !command.contains("TDIGEST.INFO"))
        {
            let reply = client.call(command);
            for twin in ["restored", "copied"] {
                let words: Vec<&str> = command.split(' ').map(|word| if word == "k" { twin } else { word }).collect();
                assert_eq!(client.call_args(&words), reply, "{command} of {key}");
            }
        }
        let expected = digest(&mut client, "k");
        for twin in ["restored", "copied"] {
            assert_eq!(digest(&mut client, twin), expected, "{key}");
        }
        client.call("DEL k restored copied");
    }
}

#[test]
fn values_come_back_from_snapshots_and_from_append_only_files_of_both_kinds() {
    for preamble in ["yes", "no"] {
        let dir = dir();
        let settings = [("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)];
        let server = start_in(dir.path(), &settings);
        let mut client = server.client();
        fill(&mut client);
        client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
        wait_until(|| client.info("aof_rewrite_in_progress") == "0");
        for command in
            ["TOPK.INCRBY top a 5 z 90", "TDIGEST.ADD digest:large 7 8", "CF.DEL cuckoo a", "BF.MADD bloom 1 q"]
        {
            assert!(!client.call(command).starts_with('-'), "{command}");
        }
        let before = client.call("DEBUG DIGEST");
        client.expect(&[("DEBUG RELOAD", "+OK"), ("DEBUG DIGEST", &before), ("WAITAOF 1 0 0", "*2 :1 :0")]);
        server.end();
        let restarted = start_in(dir.path(), &settings);
        assert_eq!(restarted.client().call("DEBUG DIGEST"), before, "with preamble {preamble}");
        let twin = start_in(dir.path(), &[]);
        drop(restarted);
        drop(twin);
    }
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    fill(&mut server.client());
    server.client().expect(&[("SAVE", "+OK")]);
    assert_same(&server, &start_in(dir.path(), &[]));
}

#[test]
fn a_replica_has_the_same_values_from_its_first_copy_and_from_the_stream() {
    let dir = dir();
    let settings = [
        ("enable-debug-command", "yes"),
        ("repl-diskless-sync-delay", "0"),
        ("dir", dir.path().to_str().expect("text")),
    ];
    let primary = TestServer::start_on(Clock::system(), &settings);
    let mut client = primary.client();
    fill(&mut client);
    let of = format!("127.0.0.1 {}", primary.addr().port());
    let replica = TestServer::start_on(Clock::system(), &[&settings[..], &[("replicaof", &*of)]].concat());
    let mut reader = replica.client();
    wait_until(|| reader.info("master_link_status") == "up");
    let mut dice = Dice::new(6);
    for _ in 0..700 {
        let item = dice.roll(500);
        client.call(&format!("TDIGEST.ADD digest:large {item}"));
        client.call(&format!("TOPK.ADD top:large {item}"));
        client.call(&format!("TOPK.INCRBY top {item} 7"));
        client.call(&format!("CF.ADD cuckoo {item}"));
        client.call(&format!("CF.DEL cuckoo {}", item / 2));
        client.call(&format!("BF.ADD bloom new:{item}"));
        client.call(&format!("CMS.INCRBY sketch:large {item} {item}"));
    }
    client.expect(&[
        ("CMS.MERGE sketch:large 1 sketch:large WEIGHTS 2", "+OK"),
        ("TDIGEST.MERGE merged 2 digest digest:large", "+OK"),
    ]);
    let expected = client.call("DEBUG DIGEST");
    wait_until(|| reader.call("DEBUG DIGEST") == expected);
    assert_eq!(
        reader.call("TDIGEST.QUANTILE digest:large 0.1 0.5 0.9"),
        client.call("TDIGEST.QUANTILE digest:large 0.1 0.5 0.9")
    );
    assert_eq!(reader.call("TOPK.LIST top:large WITHCOUNT"), client.call("TOPK.LIST top:large WITHCOUNT"));
    drop(replica);
}

/// Copies a filter by the parts of its dump; returns the number of parts.
fn copy_in_chunks(client: &mut Client, family: &str, from: &str, to: &str) -> usize {
    let (mut iterator, mut count) = ("0".to_owned(), 0);
    loop {
        let Frame::Array(parts) = client.frame(&[&format!("{family}.SCANDUMP"), from, &iterator]) else {
            panic!("no dump")
        };
        let [Frame::Integer(next), part] = &parts[..] else { panic!("{parts:?}") };
        if *next == 0 {
            return count;
        }
        iterator = next.to_string();
        let part = part.as_bytes().expect("a part");
        let load = format!("{family}.LOADCHUNK");
        assert_eq!(client.call_args(&[load.as_bytes(), to.as_bytes(), iterator.as_bytes(), part]), "+OK");
        count += 1;
    }
}

#[test]
fn a_filter_is_copied_in_chunks() {
    let server = debuggable();
    let mut client = server.client();
    fill(&mut client);
    client.expect(&[("BF.RESERVE large 0.01 20000000", "+OK"), ("CF.RESERVE wide 40000000", "+OK")]);
    client.expect(&[("BF.ADD large a", ":1"), ("CF.ADD wide a", ":1")]);
    for (family, key, least) in [("BF", "bloom", 3), ("BF", "large", 3), ("CF", "cuckoo", 3), ("CF", "wide", 4)] {
        let count = copy_in_chunks(&mut client, family, key, "copy");
        assert!(count >= least, "{key}: {count}");
        assert_eq!(digest(&mut client, "copy"), digest(&mut client, key), "{key}");
        client.call("DEL copy");
    }
}

#[test]
fn no_chunk_does_harm() {
    let server = debuggable();
    let mut client = server.client();
    fill(&mut client);
    let mut dice = Dice::new(7);
    let (mut loaded, rounds) = (0, 2000);
    for round in 0..rounds {
        let (family, key) = [("BF", "bloom"), ("CF", "cuckoo")][round % 2];
        let Frame::Array(parts) = client.frame(&[&format!("{family}.SCANDUMP"), key, "0"]) else { panic!("no dump") };
        let mut header = parts[1].as_bytes().expect("a header").to_vec();
        for _ in 0..dice.roll(3) {
            let at = dice.roll(header.len() as u64) as usize;
            header[at] = [header[at] ^ 1 << dice.roll(8), 0, 0xff, dice.roll(256) as u8][dice.roll(4) as usize];
        }
        let load = format!("{family}.LOADCHUNK");
        let reply = client.call_args(&[load.as_bytes(), b"k", b"1", &header]);
        loaded += usize::from(reply == "+OK");
        let chunk = vec![dice.roll(256) as u8; dice.roll(300) as usize];
        let iterator = [dice.roll(1000) as i64, -1, i64::MAX, 1 << 40][dice.roll(4) as usize].to_string();
        client.call_args(&[load.as_bytes(), b"k", iterator.as_bytes(), &chunk]);
        for command in ["INFO k", "EXISTS k a", "MEXISTS k a b", "SCANDUMP k 1", "ADD k new", "DEL k a"] {
            if command != "SCANDUMP k 1" || client.call("MEMORY USAGE k").len() < 8 {
                client.call(&format!("{family}.{command}"));
            }
        }
        client.call("DEL k");
    }
    assert!(loaded > rounds / 10, "{loaded}");
    assert_eq!(client.info("caught_panics"), "0");
}

#[test]
fn the_commands_are_in_categories_of_their_own_and_of_the_module() {
    let server = TestServer::start();
    let mut client = server.client();
    for (category, prefix, count) in [
        ("bloom", "bf.", 11),
        ("cuckoo", "cf.", 14),
        ("cms", "cms.", 6),
        ("topk", "topk.", 7),
        ("tdigest", "tdigest.", 14),
    ] {
        let listed = client.call(&format!("ACL CAT {category}"));
        assert!(listed.starts_with(&format!("*{count} ")), "{listed}");
        assert_eq!(listed.matches(&format!(" {prefix}")).count(), count, "{listed}");
        let docs = client.call(&format!("COMMAND DOCS {prefix}info"));
        assert!(docs.contains(" $5 group $6 module ") && docs.contains(" $6 module $2 bf "), "{docs}");
    }
    client.expect(&[
        ("ACL SETUSER u on nopass ~* +@bloom", "+OK"),
        ("AUTH u any", "+OK"),
        ("BF.ADD k a", ":1"),
        ("CF.ADD f a", "-NOPERM this user has no permissions to run the 'cf.add' command"),
    ]);
}

#[test]
fn a_digest_whose_counter_is_at_its_end_goes_on_and_is_loaded_again() {
    const PAYLOAD: &str = "07814c3212f9360f100004000000000000f03f04000000000000f03f04000000000000084002100202020002817fffffffffff\
        ffff04000000000000000004000000000000000004000000000000f03f04000000000000004004000000000000f03f04000000000000f03f000a00b5\
        60f9bb5357d4dc";
    let byte = |at: usize| u8::from_str_radix(&PAYLOAD[at..at + 2], 16).expect("hexadecimal");
    let payload: Vec<u8> = (0..PAYLOAD.len()).step_by(2).map(byte).collect();
    let server = debuggable();
    let mut client = server.client();
    assert_eq!(client.call_args(&[&b"RESTORE"[..], b"d", b"0", &payload]), "+OK");
    let observations: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    for _ in 0..3 {
        client.expect(&[(&format!("TDIGEST.ADD d {}", observations.join(" ")), "+OK")]);
    }
    let before = digest(&mut client, "d");
    client.expect(&[("DEBUG RELOAD", "+OK")]);
    assert_eq!(digest(&mut client, "d"), before);
}

#[test]
fn a_filter_of_more_filters_than_are_searched_in_time_is_refused() {
    let server = TestServer::start();
    let mut client = server.client();
    for (filters, reply) in [(64_u64, "+OK"), (65, "-Couldn't create filter!"), (65535, "-Couldn't create filter!")] {
        let head = [0, 1, 0, filters].map(u64::to_le_bytes).concat();
        let header = [head, [2_u16, 1, 1].map(u16::to_le_bytes).concat()].concat();
        assert_eq!(client.call_args(&[&b"CF.LOADCHUNK"[..], format!("f{filters}").as_bytes(), b"1", &header]), reply);
    }
    client.expect(&[("TOPK.RESERVE t 1 1 65 0.9", "-ERR Insufficient memory to create topk data structure")]);
}
