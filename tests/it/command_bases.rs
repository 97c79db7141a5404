//! Base files of append-only files in the form of commands, as with `aof-use-rdb-preamble no`.

use std::fs;
use std::path::Path;

use crate::append_only::copy;
use crate::files::{assert_same, dir, fill, start_in};
use crate::harness::{Client, wait_until};
use crate::log::BEGIN_MS;
use crate::log::rows::{STORIES, call_all};
use crate::probabilistic::rows as probabilistic;

const ON: [(&str, &str); 2] = [("appendonly", "yes"), ("aof-use-rdb-preamble", "no")];

const STARTED: &str = "+Background append only file rewriting started";

/// Rewrites the file, and waits until that is done.
fn rewrite(client: &mut Client) {
    client.expect(&[("BGREWRITEAOF", STARTED)]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
}

/// Returns the content of the base files, by the ends of their names.
fn bases(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir.join("appendonlydir")).expect("a directory").map(|entry| entry.expect("an entry"));
    let bases = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().expect("text");
        let content = fs::read(entry.path()).expect("a file");
        name.contains(".base.").then(|| (name.trim_start_matches("appendonly.aof.").to_owned(), content))
    });
    bases.collect()
}

/// Returns the only base file as its commands and annotations, with a space between the words.
fn only_base(dir: &Path) -> Vec<String> {
    let bases = bases(dir);
    let [(name, content)] = &bases[..] else { panic!("bases: {}", bases.len()) };
    assert!(name.ends_with(".base.aof"), "{name}");
    let mut lines = content.split(|byte| *byte == b'\n').map(|line| line.escape_ascii().to_string());
    let (mut commands, mut next) = (Vec::new(), || lines.next().map(|line| line.trim_end_matches("\\r").to_owned()));
    while let Some(line) = next().filter(|line| !line.is_empty()) {
        commands.push(match line.strip_prefix('*') {
            None => line,
            Some(count) => {
                let words = (0..count.parse().expect("a number")).map(|_| next().and_then(|_| next()).expect("a word"));
                words.collect::<Vec<_>>().join(" ")
            }
        });
    }
    commands
}

#[test]
fn a_base_of_commands_has_all_that_there_was() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    fill(&mut client);
    rewrite(&mut client);
    assert!(bases(dir.path())[0].0 == "2.base.aof");
    client.expect(&[("SET since v", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    let twin = start_in(copy(dir.path()).path(), &ON);
    assert_same(&server, &twin);
    server.end();
    assert_same(&twin, &start_in(dir.path(), &ON));
}

#[test]
fn what_every_command_writes_is_in_a_base_of_commands() {
    for (name, before, request) in STORIES.iter().chain(probabilistic::STORIES) {
        let dir = dir();
        let server = start_in(dir.path(), &ON);
        let mut client = server.client();
        call_all(&mut client, name, before);
        call_all(&mut client, name, request);
        rewrite(&mut client);
        assert_same(&server, &start_in(copy(dir.path()).path(), &ON));
    }
}

#[test]
fn each_type_has_its_commands_with_up_to_64_elements() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ON[1], ("aof-checksum", "no")]);
    let mut client = server.client();
    for request in [
        "SET text value PXAT 1700000100000",
        "SETIFGREATER fenced v 7",
        "RPUSH list a 1 b",
        "SADD set 1 2",
        "SADDEX timed PXAT 1700000200000 MEMBERS 2 a 7",
        "SPERSIST timed MEMBERS 1 a",
        "ZADD zset 2.5 b 1 a",
        "HSET hash f 1 g 2",
        "HPEXPIREAT hash 1700000200000 FIELDS 1 f",
        "XADD stream 1-1 f v",
        "XADD stream 2-1 f w x y",
        "XADD stream 3-1 f v",
        "XDEL stream 3-1",
        "XGROUP CREATE stream g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS stream >",
        "XGROUP CREATECONSUMER stream g d",
        "XADD empty MAXLEN 0 5-5 f v",
        "XGROUP CREATE made g $ MKSTREAM",
        "SELECT 3",
        "SET there v",
    ] {
        let reply = client.call(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    rewrite(&mut client);
    let commands = only_base(dir.path());
    let claim = format!("XCLAIM stream g c 0 1-1 TIME {BEGIN_MS} RETRYCOUNT 1 JUSTID FORCE");
    let expected: [&[&str]; 10] = [
        &["SET text value", "PEXPIREAT text 1700000100000"],
        &["SETIFGREATER fenced v 7"],
        &["RPUSH list a 1 b"],
        &["SADD set 1 2"],
        &["SADD timed 7 a", "SPEXPIREAT timed 1700000200000 MEMBERS 1 7"],
        &["ZADD zset 1 a 2.5 b"],
        &["HMSET hash f 1 g 2", "HPEXPIREAT hash 1700000200000 FIELDS 1 f"],
        &[
            "XADD stream 1-1 f v",
            "XADD stream 2-1 f w x y",
            "XSETID stream 3-1 ENTRIESADDED 3 MAXDELETEDID 3-1",
            "XGROUP CREATE stream g 1-1 ENTRIESREAD -1",
            "XGROUP CREATECONSUMER stream g c",
            &claim,
            "XGROUP CREATECONSUMER stream g d",
        ],
        &["XADD empty MAXLEN 0 5-5 x y", "XSETID empty 5-5 ENTRIESADDED 1 MAXDELETEDID 0-0"],
        &[
            "XADD made MAXLEN 0 0-1 x y",
            "XSETID made 0-0 ENTRIESADDED 0 MAXDELETEDID 0-0",
            "XGROUP CREATE made g 0-0 ENTRIESREAD -1",
        ],
    ];
    for expected in expected {
        assert!(commands.windows(expected.len()).any(|commands| commands == expected), "{expected:?}: {commands:#?}");
    }
    assert!(commands.ends_with(&["SELECT 3".to_owned(), "SET there v".to_owned()]), "{commands:#?}");
    assert_same(&server, &start_in(copy(dir.path()).path(), &ON));
    client.expect(&[("FLUSHALL", "+OK")]);
    let many = |name: &str, first: &str| {
        let elements: Vec<String> = (100..230).map(|n| format!("{first}{n}")).collect();
        format!("{name} key:{name} {}", elements.join(" "))
    };
    for request in [many("RPUSH", ""), many("SADD", ""), many("ZADD", "1 "), many("HSET", "")] {
        client.call(&request);
    }
    rewrite(&mut client);
    let lens = |name: &str| -> Vec<usize> {
        let commands = only_base(dir.path());
        commands.iter().filter(|line| line.starts_with(name)).map(|line| line.split(' ').count()).collect()
    };
    assert_eq!(lens("RPUSH"), [66, 66, 4]);
    assert_eq!(lens("SADD"), [66, 66, 4]);
    assert_eq!(lens("ZADD"), [130, 130, 6]);
    assert_eq!(lens("HMSET"), [130, 4]);
}

#[test]
fn a_base_of_commands_is_what_there_was_though_it_changes_meanwhile() {
    let (dir, other) = (dir(), dir());
    let server = start_in(dir.path(), &ON);
    let twin = start_in(other.path(), &ON);
    let long = "x".repeat(300_000);
    for server in [&server, &twin] {
        let mut client = server.client();
        fill(&mut client);
        for n in 0..3000 {
            client.call(&format!("XADD longstream {}-1 n {n:040}", n + 1));
        }
        client.call(&format!("SET shared {long}"));
        client.call("SETRANGE longest 20000000 y");
    }
    let mut client = server.client();
    let base = bases(dir.path());
    client.expect(&[("BGREWRITEAOF", STARTED)]);
    let changes: Vec<String> = (0..2000)
        .flat_map(|n| {
            [
                format!("SET key:{n} changed"),
                format!("HDEL manyfields {n}f"),
                format!("SREM manywords {n}w"),
                format!("ZREM manyscores {n}m"),
                "RPOP longlist".to_owned(),
                format!("XDEL longstream {}-1", n + 1),
                format!("SETRANGE longest {} z", n * 9000),
            ]
        })
        .collect();
    client.pipeline(&changes);
    client.expect(&[("APPEND shared z", ":300001"), ("DEL text", ":1"), ("SWAPDB 0 7", "+OK"), ("FLUSHDB", "+OK")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
    let rewritten = bases(dir.path());
    assert!(base != rewritten);
    // Without later changes.
    server.end();
    let increments = fs::read_dir(dir.path().join("appendonlydir")).expect("a directory");
    for entry in increments.map(|entry| entry.expect("an entry").path()) {
        if entry.to_str().expect("text").ends_with(".incr.aof") {
            fs::write(entry, b"").expect("writable");
        }
    }
    assert_same(&twin, &start_in(dir.path(), &ON));
}

#[test]
fn fences_of_locks_grow_over_a_restart_from_a_base_of_commands_though_the_clock_was_set_back() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    server.server().set_wall_ms(BEGIN_MS + 1_000_000_000);
    let mut client = server.client();
    let before = client.int("LOCK.ACQUIRE lock token PX 1000");
    client.expect(&[("LOCK.RELEASE lock token", ":1")]);
    rewrite(&mut client);
    assert!(only_base(dir.path())[0].contains(&format!("fence:{before};")));
    server.end();
    let after = start_in(dir.path(), &ON).client().int("LOCK.ACQUIRE other token PX 1000");
    assert!(after > before, "{after} after {before}");
}

#[test]
fn the_form_of_a_base_follows_the_setting_and_the_time_is_told_where_that_is_asked_for() {
    let dir = dir();
    let server = start_in(dir.path(), &[("appendonly", "yes"), ("aof-timestamp-enabled", "yes")]);
    let mut client = server.client();
    client.expect(&[("SET k v", "+OK"), ("CONFIG SET aof-use-rdb-preamble no", "+OK")]);
    assert!(bases(dir.path())[0].0.ends_with("1.base.rdb"));
    rewrite(&mut client);
    assert_eq!(only_base(dir.path())[0], format!("#TS:{}", BEGIN_MS / 1000));
    server.end();
    let server = start_in(dir.path(), &[("appendonly", "yes")]);
    let mut client = server.client();
    client.expect(&[("GET k", "$1 v")]);
    rewrite(&mut client);
    assert!(bases(dir.path())[0].0.ends_with("3.base.rdb"));
}

#[test]
fn a_base_of_commands_leaves_the_fences_of_removed_keys() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    client.expect(&[
        ("SETIFGREATER gone v 7", "*2 :7 $-1"),
        ("DEL gone", ":1"),
        ("SELECT 3", "+OK"),
        ("SETIFGREATER gone v 9", "*2 :9 $-1"),
        ("DEL gone", ":1"),
        ("SET there v", "+OK"),
    ]);
    rewrite(&mut client);
    server.end();
    start_in(dir.path(), &ON).client().expect(&[
        ("SETIFGREATER gone late 6", "*2 :7 $-1"),
        ("SELECT 3", "+OK"),
        ("SETIFGREATER gone late 6", "*2 :9 $-1"),
        ("KEYS *", "*1 $5 there"),
    ]);
}

#[cfg(feature = "probabilistic")]
#[test]
fn a_value_longer_than_a_client_may_send_comes_back() {
    let (dir, short) = (dir(), ("proto-max-bulk-len", "1048576"));
    let settings = [ON[0], ON[1], short];
    let server = start_in(dir.path(), &settings);
    let mut client = server.client();
    client.expect(&[("CMS.INITBYDIM big 1000000 1", "+OK"), ("CMS.INCRBY big a 5", "*1 :5")]);
    rewrite(&mut client);
    drop(server);
    let server = start_in(dir.path(), &settings);
    server.client().expect(&[("CMS.QUERY big a", "*1 :5")]);
}
