//! Databases of a cluster that are emptied.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use keylatch::Clock;

use crate::engine::Fleet;
use crate::engine::locks::{acquired, in_queue, queued};
use crate::harness::wait_until;

/// Returns the number of keys that etcd has for a fleet.
fn stored(fleet: &Fleet) -> String {
    let name = |end: &str| BASE64_STANDARD.encode(format!("{}k{end}", fleet.prefix));
    let range = format!("{{\"key\":\"{}\",\"range_end\":\"{}\",\"count_only\":true}}", name("/"), name("0"));
    let answer = fleet.etcd.ask("/v3/kv/range", &range);
    answer.split_once("\"count\":\"").map_or("0", |(_, rest)| rest.split('"').next().unwrap_or_default()).to_owned()
}

#[test]
fn keys_of_databases_that_were_emptied_are_missing_at_once_and_deleted_soon_but_not_those_set_since() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    for at in 0..100 {
        let pairs: Vec<String> = (0..50).map(|key| format!("k{} v", at * 50 + key)).collect();
        one.expect(&[(&format!("MSET {}", pairs.join(" ")), "+OK")]);
    }
    one.expect(&[("SELECT 1", "+OK"), ("SET kept v", "+OK"), ("SELECT 0", "+OK")]);
    other.expect(&[("DBSIZE", ":5000"), ("FLUSHDB", "+OK"), ("SET k1500 new", "+OK"), ("INCR k2500", ":1")]);
    one.expect(&[("DBSIZE", ":2"), ("GET k7", "$-1"), ("SETNX k9 again", ":1"), ("DEL k8", ":0"), ("DBSIZE", ":3")]);
    fleet.add(Clock::system(), &[]);
    let mut third = fleet.servers[2].client();
    third.expect(&[("DBSIZE", ":3"), ("GET k1500", "$3 new"), ("EXISTS k10", ":0")]);
    wait_until(|| stored(&fleet) == "4");
    one.expect(&[("DBSIZE", ":3"), ("GET k9", "$5 again"), ("SELECT 1", "+OK"), ("GET kept", "$1 v")]);
    other.expect(&[("FLUSHALL", "+OK"), ("FLUSHALL", "+OK")]);
    wait_until(|| stored(&fleet) == "0");
    one.expect(&[("DBSIZE", ":0")]);
    third.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn the_queue_for_a_lock_outlives_the_deletion_of_the_keys_around_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("MSET a v l t m t z v", "+OK")]);
    let mut first = queued(&fleet.servers[0], "LOCK.ACQUIRE m first PX 100000 BLOCK 0");
    let mut several = queued(&fleet.servers[1], "LOCK.ACQUIREMULTI 2 l m both PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut one, "m") == 2);
    other.expect(&[("FLUSHALL", "+OK")]);
    acquired(&mut first);
    wait_until(|| stored(&fleet) == "2"); // l, in whose queue a client waits, and m
    other.expect(&[("DBSIZE", ":1"), ("SET l late NX", "+OK"), ("DEL l", ":1")]);
    one.expect(&[("LOCK.RELEASE m first", ":1")]);
    assert!(several.reply().starts_with("*2 :"));
    other.expect(&[("MGET l m", "*2 $4 both $4 both")]);
}

#[test]
fn a_transaction_that_empties_a_database_keeps_what_it_sets_then_and_breaks_watches() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("MSET k v other v", "+OK"), ("WATCH k", "+OK"), ("MULTI", "+OK"), ("SET k mine", "+QUEUED")]);
    other.expect(&[("MULTI", "+OK"), ("FLUSHALL", "+QUEUED"), ("SET k new", "+QUEUED"), ("EXEC", "*2 +OK +OK")]);
    one.expect(&[("EXEC", "*-1"), ("MGET k other", "*2 $3 new $-1"), ("WATCH k other", "+OK"), ("MULTI", "+OK")]);
    one.expect(&[("SET k mine", "+QUEUED")]);
    other.expect(&[("FLUSHDB", "+OK")]);
    one.expect(&[("EXEC", "*-1"), ("DBSIZE", ":0")]);
}
