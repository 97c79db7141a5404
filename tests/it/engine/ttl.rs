//! TTLs: a key never ends early, whatever the clocks of the servers show, and in the end it is gone everywhere.

use std::time::Duration;

use keylatch::Clock;

use crate::engine::Fleet;
use crate::harness::wait_until;

#[test]
fn a_key_with_a_ttl_is_there_until_its_ttl_is_over_and_then_gone_at_all_servers() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let clock = Clock::system();
    let before_ms = clock.now().mono_ms();
    one.expect(&[("SET k v PX 150", "+OK"), ("SET stays v", "+OK")]);
    wait_until(|| other.call("EXISTS k") == ":0");
    assert!(clock.now().mono_ms() - before_ms >= 150);
    one.expect(&[("EXISTS k stays", ":1"), ("PTTL k", ":-2"), ("SET k w NX", "+OK")]);
}

#[test]
fn a_ttl_counts_by_the_clock_of_the_server_that_has_learned_of_it_latest() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    let clocks = [Clock::manual(), Clock::manual()];
    clocks.iter().for_each(|clock| fleet.add(clock.clone(), &[]));
    let [mut one, mut other] = fleet.two_clients();
    fleet.servers[0].advance_ms(3_600_000); // far ahead
    clocks.iter().for_each(|clock| clock.advance(Duration::from_micros(300))); // not shown: a part of a millisecond
    one.expect(&[("SET lock token NX PX 1000", "+OK"), ("PTTL lock", ":1000")]);
    other.expect(&[("PTTL lock", ":1000")]);
    // Keys live longer by a thousandth and ten milliseconds.
    fleet.servers[0].advance_ms(1010);
    one.expect(&[("GET lock", "$5 token"), ("SET lock other NX", "$-1")]);
    other.expect(&[("GET lock", "$5 token")]);
    fleet.servers[0].advance_ms(2);
    wait_until(|| other.call("GET lock") == "$-1");
    one.expect(&[("SET lock other NX", "+OK")]);
}

#[cfg(feature = "lua")]
#[test]
fn a_ttl_that_a_long_script_sets_is_on_no_server_longer_than_that() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let script = "for n = 1, 1e6 do end return redis.call('SET', KEYS[1], 'v', 'PX', 100000)";
    assert_eq!(one.call_args(&["EVAL", script, "1", "k"]), "+OK");
    assert!((1..=100_000).contains(&other.int("PTTL k")));
}

#[test]
fn a_server_other_than_the_writers_ends_a_key_whose_writer_has_ended() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    (0..2).for_each(|_| fleet.add(Clock::manual(), &[]));
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SET k v EX 100000", "+OK")]);
    other.expect(&[("TTL k", ":100000")]);
    drop(fleet.servers.remove(0));
    fleet.servers[0].advance_ms(100_000_000 + 100_010 + 49);
    other.expect(&[("GET k", "$1 v")]);
    fleet.servers[0].advance_ms(2);
    wait_until(|| other.call("GET k") == "$-1");
}

#[test]
fn a_write_that_keeps_a_ttl_neither_extends_nor_shortens_it() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    (0..2).for_each(|_| fleet.add(Clock::manual(), &[]));
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SET n 1 PX 10000", "+OK"), ("PTTL n", ":10000")]);
    other.expect(&[("PTTL n", ":10000")]);
    fleet.servers.iter().for_each(|server| server.advance_ms(4000));
    other.expect(&[("INCR n", ":2"), ("PTTL n", ":6000")]);
    one.expect(&[("PTTL n", ":6000"), ("APPEND n 0", ":2"), ("SET n 5 KEEPTTL", "+OK"), ("PTTL n", ":6000")]);
    other.expect(&[("PTTL n", ":6000"), ("PERSIST n", ":1"), ("PTTL n", ":-1")]);
    one.expect(&[("PTTL n", ":-1"), ("EXPIRE n 100", ":1"), ("RENAME n m", "+OK"), ("PTTL m", ":100000")]);
}

#[test]
fn a_key_that_is_due_is_no_obstacle_for_who_writes_it_before_it_is_deleted() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    fleet.add(Clock::manual(), &[]);
    let mut client = fleet.servers[0].client();
    for _ in 0..20 {
        client.expect(&[("DEL lock", ":0"), ("SET lock first NX PX 100", "+OK"), ("SET lock second NX", "$-1")]);
        fleet.servers[0].advance_ms(200);
        client.expect(&[
            ("SET lock second NX", "+OK"),
            ("GET lock", "$6 second"),
            ("PTTL lock", ":-1"),
            ("DEL lock", ":1"),
        ]);
    }
}

#[test]
fn a_server_that_starts_counts_a_ttl_again_unless_it_may_trust_the_wall_clocks() {
    const WALL_MS: i64 = 1_800_000_000_000;
    let Some(mut fleet) = Fleet::start(0) else { return };
    let clock_at = |wall_ms| {
        let clock = Clock::manual();
        clock.set_wall_ms(wall_ms);
        clock
    };
    fleet.add(clock_at(WALL_MS), &[]);
    fleet.servers[0].client().expect(&[("SET k v PX 60000", "+OK"), ("PTTL k", ":60000")]);
    for (skew, left) in [("-1", 60_000), ("5000", 25_000), ("0", 20_000)] {
        fleet.add(clock_at(WALL_MS + 40_000), &[("etcd-clock-skew-max", skew)]);
        fleet.servers.last().expect("it was added").client().expect(&[("PTTL k", &format!(":{left}"))]);
    }
}

#[test]
fn ttls_that_are_set_again_and_again_are_kept_once() {
    let Some(mut fleet) = Fleet::start(0) else { return };
    fleet.add(Clock::manual(), &[]);
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET stays v PX 5000", "+OK"), ("SET k v", "+OK")]);
    let requests: String = (0..3000).map(|number| format!("PEXPIRE k {}\r\n", 1_000_000 + number)).collect();
    client.send(requests.as_bytes());
    (0..3000).for_each(|_| assert_eq!(client.reply(), ":1"));
    client.expect(&[("PTTL k", ":1002999")]);
    fleet.servers[0].advance_ms(5100);
    wait_until(|| client.call("EXISTS stays k") == ":1");
    fleet.servers[0].advance_ms(1_100_000);
    wait_until(|| client.call("EXISTS stays k") == ":0");
}
