//! Generic commands and behaviour common to all commands; `differential/keys.rs` has every option and error of the
//! former.

use crate::harness::TestServer;

#[test]
fn a_renamed_key_keeps_a_long_value_and_an_awkward_name() {
    let server = TestServer::start();
    let mut client = server.client();
    let (value, name) = (vec![7u8; 200_000], vec![0u8, 13, 10, 255]);
    assert_eq!(client.call_args(&[&b"SET"[..], b"from", &value]), "+OK");
    assert_eq!(client.call_args(&[&b"RENAME"[..], b"from", &name]), "+OK");
    assert_eq!(client.frame(&[&b"GET"[..], &name]).as_bytes(), Some(&value[..]));
    assert_eq!(client.call_args(&[&b"RENAME"[..], &name, b""]), "+OK");
    assert_eq!(client.call_args(&[&b"STRLEN"[..], b""]), ":200000");
}

#[test]
fn flushall_empties_every_database() {
    let server = TestServer::start();
    let mut client = server.client();
    for db in 0..16 {
        client.expect(&[(&format!("SELECT {db}"), "+OK"), ("SET k v EX 100", "+OK")]);
    }
    client.expect(&[("FLUSHALL NOW", "-ERR syntax error"), ("DBSIZE", ":1"), ("FLUSHALL", "+OK")]);
    for db in 0..16 {
        client.expect(&[(&format!("SELECT {db}"), "+OK"), ("DBSIZE", ":0"), ("GET k", "$-1")]);
    }
    client.expect(&[("SET k v", "+OK"), ("FLUSHALL ASYNC", "+OK"), ("SET k v", "+OK"), ("FLUSHALL SYNC", "+OK")]);
    server.advance_ms(200_000);
    assert_eq!(client.info("expired_keys"), "0");
}

#[test]
fn info_keyspace_lists_databases_that_have_keys() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.call("INFO keyspace"), "$12 # Keyspace ");
    client.expect(&[("SET a 1", "+OK"), ("SET b 1 EX 10", "+OK"), ("SELECT 9", "+OK"), ("SET c 1", "+OK")]);
    assert_eq!(client.info("db0"), "keys=2,expires=1,avg_ttl=10000,subexpiry=0");
    assert_eq!(client.info("db9"), "keys=1,expires=0,avg_ttl=0,subexpiry=0");
    server.advance_ms(10_000);
    assert_eq!(client.info("db0"), "keys=1,expires=0,avg_ttl=0,subexpiry=0");
}

#[test]
fn info_gives_the_sections_asked_for() {
    let server = TestServer::start();
    let mut client = server.client();
    let everything = client.call("INFO");
    for section in ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Cluster", "Keyspace"]
    {
        assert!(everything.contains(&format!("# {section} ")), "{section}");
        let alone = client.call(&format!("INFO {}", section.to_uppercase()));
        assert!(alone.contains(&format!(" # {section} ")) && alone.matches('#').count() == 1, "{alone}");
    }
    let two = client.call("INFO stats server");
    assert!(two.contains("# Server") && two.contains("# Stats") && two.matches('#').count() == 2);
    assert_eq!(client.call("INFO nosuch"), "$0 ");
    for (field, value) in [("loading", "0"), ("role", "master"), ("redis_mode", "standalone"), ("cluster_enabled", "0")]
    {
        assert_eq!(client.info(field), value);
    }
    assert_eq!(client.info("tcp_port"), server.addr().port().to_string());
    assert_eq!(client.info("process_id"), std::process::id().to_string());
    let text = server.client3().call("INFO server");
    assert!(text.starts_with('=') && text.contains(" txt:# Server "), "{text}");
}

#[test]
fn info_counts_what_happens() {
    let server = TestServer::start();
    let mut client = server.client();
    let before: u64 = client.info("total_commands_processed").parse().expect("a number");
    client.pipeline(&vec!["PING".to_owned(); 100]);
    let after: u64 = client.info("total_commands_processed").parse().expect("a number");
    assert_eq!(after - before, 101);
    client.call("INCR");
    client.call("NOSUCH");
    assert_eq!(client.info("total_error_replies"), "2");
    let (used, _other) = (client.info("used_memory"), server.client().call("PING"));
    assert_eq!(client.info("total_connections_received"), "2");
    client.call(&format!("SET big {}", "x".repeat(100_000)));
    let grown: u64 = client.info("used_memory").parse().expect("a number");
    assert!(grown >= used.parse::<u64>().expect("a number") + 100_000);
    assert!(client.info("total_net_input_bytes").parse::<u64>().expect("a number") > 100_000);
}

#[test]
fn memory_in_use_returns_to_what_it_was_when_keys_go() {
    let server = TestServer::start();
    let mut client = server.client();
    let used = |client: &mut crate::harness::Client| client.info("used_memory").parse::<i64>().expect("a number");
    // A shard does not free its first buckets once it has had a key.
    client.pipeline(&(0..2000).map(|n| format!("SET warm:{n} 1 EX 5")).collect::<Vec<_>>());
    server.advance_ms(5000);
    let before = used(&mut client);
    for len in [1, 100, 20_000, 300_000] {
        client.call(&format!("SET k:{len} {} EX 10", "x".repeat(len)));
        client.call(&format!("APPEND k:{len} {}", "y".repeat(len)));
    }
    assert!(used(&mut client) - before > 640_000);
    client.expect(&[("RENAME k:100 renamed", "+OK"), ("DEL k:20000", ":1"), ("SET k:300000 short EX 10", "+OK")]);
    server.advance_ms(10_000);
    assert_eq!(client.call("DBSIZE"), ":0");
    assert_eq!(used(&mut client), before);
}

#[test]
fn time_is_the_servers_wall_clock() {
    let server = TestServer::start();
    server.server().set_wall_ms(1_700_000_000_123);
    let mut client = server.client();
    assert_eq!(client.call("TIME"), "*2 $10 1700000000 $6 123000");
    server.advance_ms(1_877);
    assert_eq!(client.call("TIME"), "*2 $10 1700000002 $1 0");
}

#[test]
fn command_describes_the_table_it_is_computed_from() {
    let server = TestServer::start();
    let mut client = server.client();
    let all = keylatch::internals::table().all();
    assert_eq!(client.call("COMMAND COUNT"), format!(":{}", all.len()));
    let every: Vec<_> = all.iter().flat_map(|row| row.with_subcommands()).collect();
    let names: String = every.iter().map(|row| format!(" ${} {}", row.name.len(), row.shown_name())).collect();
    assert_eq!(client.call("COMMAND LIST"), format!("*{}{names}", every.len()));
    assert!(client.call("COMMAND").starts_with(&format!("*{} *10 $", all.len())));
    assert!(client.call("COMMAND DOCS get").starts_with("*2 $3 get *"));
}

#[test]
fn every_command_rejects_too_few_and_too_many_arguments_before_it_does_anything() {
    let server = TestServer::start();
    let mut client = server.client();
    for row in keylatch::internals::table().all() {
        let commands = if row.subcommands.is_empty() { vec![row] } else { row.subcommands.iter().collect() };
        for command in commands {
            let mut words: Vec<&str> = command.name.split('|').collect();
            // Those of modules are named in capitals there.
            let is_of_module = command.command.group.name() == "vector_set";
            let name = if is_of_module { command.name.to_uppercase() } else { command.name.clone() };
            let refusal = format!("-ERR wrong number of arguments for '{name}' command");
            if command.arity.unsigned_abs() as usize > words.len() {
                assert_eq!(client.call_args(&words), refusal, "{}", command.name);
            }
            if command.arity > 0 {
                words.resize(command.arity as usize + 1, "x");
                assert_eq!(client.call_args(&words), refusal, "{}", command.name);
            }
        }
    }
    assert_eq!(client.call("DBSIZE"), ":0");
}

#[test]
fn random_keys_are_living_ones_and_in_time_each_of_them() {
    let server = TestServer::start();
    let mut client = server.client();
    for count in [7, 1_000] {
        client.call("FLUSHALL");
        let calls: Vec<String> = (0..count).map(|key| format!("SET key:{key} v")).collect();
        client.pipeline(&calls);
        client.expect(&[("SET ended v PX 1", "+OK")]);
        server.advance_ms(1);
        let alone: std::collections::HashSet<String> = (0..100).map(|_| client.call("RANDOMKEY")).collect();
        let calls = vec!["RANDOMKEY".to_owned(); 20_000];
        let together: std::collections::HashSet<String> = client.pipeline(&calls).into_iter().collect();
        assert!(together.iter().all(|reply| reply.contains(" key:")));
        assert!(alone.len() >= 5 && together.len() > count * 9 / 10, "{} and {}", alone.len(), together.len());
    }
}

#[test]
fn keys_that_change_their_database_keep_their_deadline() {
    let server = TestServer::start();
    let mut client = server.client();
    client.expect(&[("SET moved v PX 100", "+OK"), ("MOVE moved 1", ":1"), ("SET copied v PX 200", "+OK")]);
    client.expect(&[("COPY copied copied DB 1", ":1"), ("SET swapped v PX 300", "+OK"), ("SWAPDB 0 2", "+OK")]);
    client.expect(&[("DBSIZE", ":0"), ("SELECT 1", "+OK"), ("PTTL moved", ":100"), ("PTTL copied", ":200")]);
    server.advance_ms(100);
    client.expect(&[("DBSIZE", ":1"), ("SELECT 2", "+OK"), ("DBSIZE", ":2")]);
    server.advance_ms(100);
    client.expect(&[("DBSIZE", ":1"), ("PTTL swapped", ":100"), ("SELECT 1", "+OK"), ("DBSIZE", ":0")]);
    server.advance_ms(100);
    client.expect(&[("SELECT 2", "+OK"), ("DBSIZE", ":0"), ("SWAPDB 0 2", "+OK"), ("DBSIZE", ":0")]);
}

#[test]
fn a_key_is_idle_from_its_last_use_on_and_looking_at_it_from_outside_is_no_use() {
    let server = TestServer::start();
    let mut client = server.client();
    let looks =
        ["TYPE k", "EXISTS k", "TTL k", "PEXPIRETIME k", "OBJECT ENCODING k", "OBJECT REFCOUNT k", "MEMORY USAGE k"];
    let uses = [
        "GET k",
        "TOUCH k",
        "STRLEN k",
        "GETRANGE k 0 0",
        "SET k w",
        "APPEND k x",
        "SETRANGE k 0 y",
        "EXPIRE k 1000",
        "MGET x k",
        "COPY k l REPLACE",
        "RENAME k k2",
        "RENAME k2 k",
        "DUMP k",
    ];
    client.expect(&[("SET k v", "+OK"), ("OBJECT IDLETIME missing", "$-1")]);
    for used in uses {
        server.advance_ms(10_000);
        looks.iter().for_each(|look| drop(client.call(look)));
        if client.call("EXISTS k") == ":1" {
            client.expect(&[("OBJECT IDLETIME k", ":10")]);
        }
        client.call(used);
        if client.call("EXISTS k") == ":1" {
            assert_eq!(client.call("OBJECT IDLETIME k"), ":0", "after {used}");
        }
    }
    client.expect(&[("TOUCH k missing", ":1")]);
}

#[test]
fn keys_of_all_lengths_are_found_renamed_and_remember_their_use() {
    let server = TestServer::start();
    let mut client = server.client();
    for len in [0, 1, 254, 255, 256, 257, 1000, 70_000] {
        let (key, other) = ("k".repeat(len), "o".repeat(511 - len.min(510)));
        let call = |client: &mut crate::harness::Client, words: &[&str]| client.call_args(words);
        assert_eq!(call(&mut client, &["SET", &key, "v", "EX", "1000"]), "+OK");
        assert_eq!(call(&mut client, &["APPEND", &key, "w"]), ":2");
        assert_eq!(call(&mut client, &["RENAME", &key, &other]), "+OK");
        server.advance_ms(7_000);
        assert_eq!(call(&mut client, &["OBJECT", "IDLETIME", &other]), ":7");
        assert_eq!(call(&mut client, &["PERSIST", &other]), ":1");
        assert_eq!(call(&mut client, &["GETDEL", &other]), "$2 vw");
        assert_eq!(client.call("DBSIZE"), ":0");
    }
}

#[test]
fn a_flush_leaves_no_ttls_behind() {
    let server = TestServer::start();
    let mut client = server.client();
    for flush in ["FLUSHDB", "FLUSHALL", "FLUSHALL ASYNC"] {
        client.expect(&[("SET a v PX 1000", "+OK"), ("SET b v PX 1000", "+OK"), (flush, "+OK"), ("SET c v", "+OK")]);
        let info = client.call("INFO keyspace");
        assert!(info.contains("db0:keys=1,expires=0,avg_ttl=0"), "{flush}: {info}");
    }
}
