//! Data that DEBUG replaces, and data that is missing, beside replicas that have it.

use std::process::Command;

use super::nodes::{Kind, Node};
use crate::harness::{Client, wait_until};
use crate::process::{Process, binary};

#[test]
fn replicas_get_all_data_again_where_debug_has_put_a_file_in_its_place() {
    for kind in [Kind::Keylatch, Kind::Redis] {
        let primary = Node::keylatch(&[("dbfilename", "dump.rdb")]);
        let Some(replica) = Node::start(kind, &[]) else { return };
        replica.follow(&primary);
        let mut client = primary.client();
        client.expect(&[("SET k saved", "+OK"), ("SAVE", "+OK"), ("SET k later", "+OK"), ("SET l v", "+OK")]);
        replica.assert_same(&primary);
        client.expect(&[("DEBUG RELOAD NOSAVE", "+OK"), ("GET k", "$5 saved"), ("EXISTS l", ":0")]);
        replica.assert_same(&primary);
        replica.client().expect(&[("GET k", "$5 saved"), ("EXISTS l", ":0")]);
        assert_eq!(primary.info("sync_full"), "2");
        // What is saved and loaded is the same.
        client.expect(&[("SET k again", "+OK"), ("DEBUG RELOAD", "+OK"), ("SET l w", "+OK")]);
        replica.assert_same(&primary);
        assert_eq!(primary.info("sync_full"), "2");
        // A load that fails may leave a part.
        client.expect(&[("DEBUG RELOAD NOSAVE NOFLUSH", "-ERR Error trying to load the RDB dump")]);
        replica.assert_same(&primary);
        client.expect(&[("CONFIG SET appendonly yes", "+OK")]);
        wait_until(|| client.info("aof_enabled") == "1" && client.info("aof_rewrite_in_progress") == "0");
        client.expect(&[("SET k logged", "+OK"), ("DEBUG LOADAOF", "+OK"), ("GET k", "$6 logged")]);
        replica.assert_same(&primary);
        assert_eq!(primary.info("sync_full"), "4");
    }
}

#[test]
fn the_append_only_file_has_what_debug_has_put_in_the_place_of_its_data() {
    let primary = Node::keylatch(&[("dbfilename", "dump.rdb"), ("appendonly", "yes")]);
    let mut client = primary.client();
    client.expect(&[("SET k saved", "+OK"), ("SAVE", "+OK"), ("SET k later", "+OK")]);
    let rewrites: u64 = client.info("aof_rewrites").parse().expect("a number");
    client.expect(&[("DEBUG RELOAD NOSAVE", "+OK")]);
    wait_until(|| client.info("aof_rewrites") == (rewrites + 1).to_string());
    client.expect(&[("SET l v", "+OK"), ("DEBUG LOADAOF", "+OK"), ("GET k", "$5 saved"), ("GET l", "$1 v")]);
}

#[test]
fn a_replica_whose_data_debug_has_replaced_gets_that_of_its_primary_again() {
    let primary = Node::keylatch(&[]);
    let replica = Node::replica_of(&primary, &[("dbfilename", "dump.rdb")]);
    primary.client().expect(&[("SET k v", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("SAVE", "+OK")]);
    primary.client().expect(&[("SET k w", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("DEBUG RELOAD NOSAVE", "+OK")]);
    replica.assert_same(&primary);
    replica.client().expect(&[("GET k", "$1 w")]);
}

#[test]
fn a_primary_that_finds_no_data_does_not_start_and_empties_no_replica_if_it_is_to_refuse_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["--bind", "127.0.0.1", "--dir", dir.path().to_str().expect("text"), "--appendonly", "yes"];
    let mut first = Process::run(Command::new(binary()).args(args).args(["--port", "0"]));
    let addr = first.addr();
    Client::connect(addr).expect(&[("CONFIG SET repl-diskless-sync-delay 0", "+OK"), ("SET k v", "+OK")]);
    let replica = Node::keylatch(&[("replicaof", &format!("127.0.0.1 {}", addr.port()))]);
    let mut client = replica.client();
    wait_until(|| client.call("GET k") == "$1 v");
    first.signal("KILL");
    first.wait();
    std::fs::remove_dir_all(dir.path().join("appendonlydir")).expect("it was there");
    let port = addr.port().to_string();
    let again = ["--port", &port, "--refuse-empty-start", "yes"];
    let mut second = Process::run(Command::new(binary()).args(args).args(again));
    assert_eq!(second.wait().code(), Some(1));
    assert!(second.rest().contains("there is no data to load, and refuse-empty-start is yes"));
    wait_until(|| client.info("master_link_status") == "down");
    client.expect(&[("GET k", "$1 v")]);
}
