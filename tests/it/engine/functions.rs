//! Libraries of functions, which are the same at all servers.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use keylatch::Clock;

use crate::engine::Fleet;
use crate::harness::{Client, wait_until};

/// Returns the text of a library with one function, which returns a value.
fn library(name: &str, function: &str, value: usize) -> String {
    format!("#!lua name={name}\nredis.register_function('{function}',function() return {value} end)")
}

fn load(client: &mut Client, text: &str) -> String {
    client.call_args(&["FUNCTION", "LOAD", "REPLACE", text])
}

/// Returns the number of libraries.
fn count(client: &mut Client) -> usize {
    client.call("FUNCTION LIST").matches("library_name").count()
}

#[test]
fn a_library_that_one_server_has_loaded_is_there_at_all_servers_at_once_and_at_those_that_start_later() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    for version in 1..=100 {
        assert_eq!(load(&mut one, &library("lib", "f", version)), "$3 lib");
        let code = format!("return {version} end");
        assert!(other.call("FUNCTION LIST WITHCODE").contains(&code), "version {version}");
        other.expect(&[("FCALL f 0", &format!(":{version}"))]);
    }
    other.expect(&[("FCALL_RO f 0", "-ERR Can not execute a script with write flag using *_ro command.")]);
    one.expect(&[("FLUSHALL", "+OK"), ("FCALL f 0", ":100")]);
    fleet.add(Clock::system(), &[]);
    let mut late = fleet.servers[2].client();
    late.expect(&[
        ("FCALL f 0", ":100"),
        ("FUNCTION DELETE lib", "+OK"),
        ("FUNCTION DELETE lib", "-ERR Library not found"),
    ]);
    one.expect(&[("FCALL f 0", "-ERR Function not found"), ("FUNCTION LIST", "*0")]);
    assert_eq!(load(&mut one, &library("a", "f", 1)), "$1 a");
    assert_eq!(load(&mut late, &library("b", "f", 2)), "-ERR Function f already exists");
    assert!(load(&mut late, "#!lua name=b\nnonsense").starts_with("-ERR Error compiling function"));
    assert_eq!(other.call_args(&["FUNCTION", "LOAD", &library("a", "g", 1)]), "-ERR Library 'a' already exists");
    assert_eq!(load(&mut late, &library("b", "g", 2)), "$1 b");
    assert_eq!((count(&mut one), count(&mut other)), (2, 2));
    one.expect(&[("FUNCTION FLUSH", "+OK"), ("FUNCTION LIST", "*0")]);
    other.expect(&[("FUNCTION LIST", "*0"), ("FCALL g 0", "-ERR Function not found")]);
}

#[test]
fn a_library_keeps_its_state_until_it_is_loaded_again() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let counting = "#!lua name=count\nlocal n=0\nredis.register_function('count',function() n=n+1 return n end)";
    load(&mut one, counting);
    one.expect(&[("FCALL count 0", ":1"), ("FCALL count 0", ":2")]);
    load(&mut other, &library("more", "f", 1));
    one.expect(&[
        ("FCALL f 0", ":1"),
        ("FCALL count 0", ":3"),
        ("FUNCTION DELETE more", "+OK"),
        ("FCALL count 0", ":4"),
    ]);
    load(&mut other, counting);
    one.expect(&[("FCALL count 0", ":1")]);
}

#[test]
fn a_dump_is_restored_for_all_servers_by_its_policy() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    load(&mut one, &library("a", "f", 1));
    load(&mut one, &library("b", "g", 2));
    let dump = other.frame(&["FUNCTION", "DUMP"]).as_bytes().expect("a payload").to_vec();
    other.expect(&[("FUNCTION DELETE a", "+OK")]);
    load(&mut one, &library("b", "g", 3));
    let mut restore = |policy: &[u8]| other.call_args(&[b"FUNCTION", &b"RESTORE"[..], &dump, policy]);
    assert_eq!(restore(b"APPEND"), "-ERR Library b already exists");
    one.expect(&[("FCALL f 0", "-ERR Function not found"), ("FCALL g 0", ":3")]);
    assert_eq!(restore(b"REPLACE"), "+OK");
    one.expect(&[("FCALL f 0", ":1"), ("FCALL g 0", ":2")]);
    load(&mut one, &library("c", "h", 4));
    assert_eq!(restore(b"FLUSH"), "+OK");
    one.expect(&[("FCALL f 0", ":1"), ("FCALL h 0", "-ERR Function not found")]);
}

#[test]
fn libraries_that_several_servers_load_at_the_same_time_are_all_there() {
    let Some(fleet) = Fleet::start(2) else { return };
    thread::scope(|scope| {
        for (at, server) in fleet.servers.iter().enumerate() {
            scope.spawn(move || {
                let mut client = server.client();
                for number in 0..15 {
                    let name = format!("lib_{at}_{number}");
                    assert_eq!(load(&mut client, &library(&name, &name, number)), format!("${} {name}", name.len()));
                }
            });
        }
    });
    let [mut one, mut other] = fleet.two_clients();
    assert_eq!((count(&mut one), count(&mut other)), (30, 30));
    one.expect(&[("FCALL lib_1_14 0", ":14"), ("FCALL lib_0_7 0", ":7")]);
}

#[test]
fn no_call_executes_a_function_that_was_replaced_before_it() {
    let Some(fleet) = Fleet::start(3) else { return };
    let is_over = AtomicBool::new(false);
    let pushes = |version| {
        let push = format!("redis.call('rpush',keys[1],{version})");
        format!("#!lua name=lib\nredis.register_function('push',function(keys) {push} end)")
    };
    load(&mut fleet.servers[0].client(), &pushes(0));
    thread::scope(|scope| {
        for server in &fleet.servers[1..] {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut client = server.client();
                while !is_over.load(SeqCst) {
                    client.expect(&[("FCALL push 1 log", "$-1")]);
                }
            });
        }
        let mut loader = fleet.servers[0].client();
        for version in 1..=60 {
            load(&mut loader, &pushes(version));
            loader.expect(&[("FCALL push 1 log", "$-1")]);
        }
        is_over.store(true, SeqCst);
    });
    let log = fleet.servers[0].client().call("LRANGE log 0 -1");
    let versions: Vec<u32> = log.split(' ').skip(2).step_by(2).map(|text| text.parse().expect("a number")).collect();
    assert!(versions.len() > 60 && versions.is_sorted(), "{versions:?}");
}

#[test]
fn a_transaction_calls_the_functions_that_it_has_loaded_and_others_see_all_of_it_or_nothing() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    load(&mut one, &library("lib", "f", 1));
    one.expect(&[("MULTI", "+OK"), ("FCALL f 0", "+QUEUED")]);
    assert_eq!(load(&mut one, &library("lib", "f", 2)), "+QUEUED");
    one.expect(&[("FCALL f 0", "+QUEUED"), ("SET k v", "+QUEUED")]);
    assert_eq!(load(&mut one, &library("more", "g", 3)), "+QUEUED");
    one.expect(&[("FUNCTION DELETE none", "+QUEUED"), ("FCALL g 0", "+QUEUED")]);
    other.expect(&[("FCALL f 0", ":1")]);
    one.expect(&[("EXEC", "*7 :1 $3 lib :2 +OK $4 more -ERR Library not found :3")]);
    other.expect(&[("FCALL f 0", ":2"), ("FCALL g 0", ":3"), ("GET k", "$1 v")]);
    one.expect(&[
        ("MULTI", "+OK"),
        ("FUNCTION FLUSH", "+QUEUED"),
        ("FCALL f 0", "+QUEUED"),
        ("FUNCTION LIST", "+QUEUED"),
    ]);
    one.expect(&[("EXEC", "*3 +OK -ERR Function not found *0")]);
    other.expect(&[("FUNCTION LIST", "*0")]);
}

#[test]
fn functions_keep_their_state_in_a_transaction_that_changes_other_libraries() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    load(&mut one, "#!lua name=count\nlocal n=0\nredis.register_function('count',function() n=n+1 return n end)");
    one.expect(&[("FCALL count 0", ":1"), ("MULTI", "+OK"), ("FCALL count 0", "+QUEUED")]);
    assert_eq!(load(&mut one, &library("more", "f", 1)), "+QUEUED");
    one.expect(&[("FCALL count 0", "+QUEUED"), ("FCALL count 0", "+QUEUED"), ("FUNCTION STATS", "+QUEUED")]);
    assert_eq!(load(&mut one, &library("most", "g", 1)), "+QUEUED");
    one.expect(&[("FCALL count 0", "+QUEUED")]);
    let stats = "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :2 $15 functions_count :2";
    one.expect(&[("EXEC", &format!("*7 :2 $4 more :3 :4 {stats} $4 most :5"))]);
    one.expect(&[("FCALL count 0", ":6")]);
    other.expect(&[("FCALL count 0", ":1"), ("FCALL g 0", ":1")]);
}

#[test]
fn libraries_that_transactions_with_a_common_key_load_at_the_same_time_are_all_there() {
    let Some(fleet) = Fleet::start(1) else { return };
    thread::scope(|scope| {
        for at in 0..6 {
            let mut client = fleet.servers[0].client();
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("lib_{at}_{number}");
                    client.expect(&[("MULTI", "+OK"), ("INCR k", "+QUEUED")]);
                    assert_eq!(load(&mut client, &library(&name, &name, number)), "+QUEUED");
                    assert!(client.call("EXEC").ends_with(&name));
                    client.expect(&[(&format!("FCALL {name} 1 k"), &format!(":{number}"))]);
                }
            });
        }
    });
    let mut client = fleet.servers[0].client();
    client.expect(&[("GET k", "$2 60")]);
    assert_eq!(count(&mut client), 60);
}

#[test]
fn nothing_is_left_of_a_transaction_in_whose_middle_the_server_stops() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let half = "redis.call('set',keys[1],2) while true do end";
    load(&mut one, &format!("#!lua name=lib\nredis.register_function('half',function(keys) {half} end)"));
    one.expect(&[
        ("CONFIG SET busy-reply-threshold 1", "+OK"),
        ("SET k 1", "+OK"),
        ("MULTI", "+OK"),
        ("SET before 1", "+QUEUED"),
        ("FCALL half 1 k", "+QUEUED"),
        ("SET after 1", "+QUEUED"),
    ]);
    one.send(b"EXEC\r\n");
    let mut same = fleet.servers[0].client();
    wait_until(|| same.call("PING") != "+PONG");
    fleet.servers.remove(0).end();
    other.expect(&[("GET k", "$1 1"), ("EXISTS before after", ":0"), ("SET k 3", "+OK")]);
}

#[test]
fn libraries_larger_than_a_value_may_be_are_refused_and_change_nothing() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    fleet.add(Clock::system(), &[("etcd-value-max", "2000")]);
    fleet.add(Clock::system(), &[]);
    let [mut one, mut other] = fleet.two_clients();
    let padded = |name: &str, len| format!("{}\n--{}", library(name, name, 1), "x".repeat(len));
    assert_eq!(load(&mut one, &padded("a", 1200)), "$1 a");
    let refused = "-ERR what is written is larger than engine etcd takes, see etcd-value-max";
    assert_eq!(load(&mut one, &padded("b", 1200)), refused);
    one.expect(&[("FCALL b 0", "-ERR Function not found"), ("FCALL a 0", ":1")]);
    assert_eq!((count(&mut one), count(&mut other)), (1, 1));
}
