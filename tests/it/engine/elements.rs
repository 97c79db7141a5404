//! Fields of hashes and members of sets with TTLs of their own: dates, at which all servers hide them, and after which one
//! deletes them.

use std::time::Duration;

use keylatch::Clock;

use crate::engine::Fleet;
use crate::engine::links::behind_a_link;
use crate::engine::proxy::{Passage, Way};
use crate::harness::{Client, wait_until};

/// Starts servers on one clock, which is moved by hand.
fn fleet(count: usize) -> Option<(Fleet, Clock)> {
    let (mut fleet, clock) = (Fleet::start(0)?, Clock::manual());
    (0..count).for_each(|_| fleet.add(clock.clone(), &[]));
    Some((fleet, clock))
}

/// Reads events, each with its key, until one of them was seen.
fn see_until(seen: &mut Vec<String>, event: &str, events: &mut Client) {
    while !seen.iter().any(|known| known == event) {
        let message = events.reply();
        let words: Vec<&str> = message.split(' ').collect();
        seen.push(format!("{} {}", words[6].rsplit(':').next().expect("an event"), words[8]));
    }
}

#[test]
fn a_field_and_a_member_with_a_ttl_end_at_the_same_time_at_all_servers() {
    let Some((fleet, _)) = fleet(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[
        ("HSET h f 1 g 2", ":2"),
        ("HEXPIRE h 10 FIELDS 1 f", "*1 :1"),
        ("SADD s a b", ":2"),
        ("SPEXPIRE s 10000 MEMBERS 1 a", "*1 :1"),
        ("HSETEX x EX 10 FIELDS 1 only v", ":1"),
    ]);
    other.expect(&[
        ("HPTTL h FIELDS 2 f g", "*2 :10000 :-1"),
        ("STTL s MEMBERS 2 a b", "*2 :10 :-1"),
        ("HPERSIST h FIELDS 1 f", "*1 :1"),
        ("HPEXPIRE h 10000 FIELDS 1 f", "*1 :1"),
    ]);
    fleet.servers[0].advance_ms(9_999);
    one.expect(&[("HGET h f", "$1 1"), ("SISMEMBER s a", ":1"), ("HLEN x", ":1")]);
    fleet.servers[0].advance_ms(1);
    for client in [&mut one, &mut other] {
        client.expect(&[("HGETALL h", "*2 $1 g $1 2"), ("SMEMBERS s", "*1 $1 b"), ("EXISTS x h s", ":2")]);
    }
    one.expect(&[("HSET h f 3", ":1"), ("HTTL h FIELDS 1 f", "*1 :-1"), ("SADD s a", ":1")]);
    other.expect(&[("HGET h f", "$1 3"), ("STTL s MEMBERS 1 a", "*1 :-1")]);
}

#[test]
fn expired_fields_and_members_are_deleted_in_the_cluster_once_and_announced_everywhere() {
    let Some((fleet, _)) = fleet(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    other.expect(&[("CONFIG SET notify-keyspace-events KEA", "+OK")]);
    let mut events = fleet.servers[1].client();
    events.expect(&[("PSUBSCRIBE __keyevent@0__:*", "*3 $10 psubscribe $16 __keyevent@0__:* :1")]);
    one.expect(&[
        ("HSETEX h PX 100 FIELDS 2 f 1 g 2", ":1"),
        ("SADD s a b", ":2"),
        ("SPEXPIRE s 50 MEMBERS 1 b", "*1 :1"),
    ]);
    fleet.servers[1].advance_ms(200);
    wait_until(|| one.call("DBSIZE") == ":1" && other.call("DBSIZE") == ":1");
    let mut seen = Vec::new();
    see_until(&mut seen, "sexpired s", &mut events);
    see_until(&mut seen, "del h", &mut events);
    one.expect(&[("SET last v", "+OK")]);
    see_until(&mut seen, "set last", &mut events);
    seen.sort_unstable();
    let all = ["del h", "hexpire h", "hexpired h", "hset h", "sadd s", "set last", "sexpire s", "sexpired s"];
    assert_eq!(seen, all);
}

#[test]
fn a_server_that_is_cut_off_hides_what_has_expired_and_announces_it_once() {
    let Some((fleet, link)) = behind_a_link() else { return };
    let [mut cut, mut other] = fleet.two_clients();
    cut.expect(&[("CONFIG SET notify-keyspace-events KEA", "+OK"), ("CONFIG SET etcd-reads local", "+OK")]);
    let mut events = fleet.servers[0].client();
    events.expect(&[("PSUBSCRIBE __keyevent@0__:*", "*3 $10 psubscribe $16 __keyevent@0__:* :1")]);
    other.expect(&[("HSETEX h PX 500 FIELDS 1 f v", ":1"), ("HSET h stays v", ":1")]);
    wait_until(|| cut.call("HLEN h") == ":2");
    let mut seen = Vec::new();
    see_until(&mut seen, "hexpire h", &mut events);
    link.cut(Way::Back, Passage::Held);
    wait_until(|| cut.call("HGET h f") == "$-1");
    link.heal();
    see_until(&mut seen, "hexpired h", &mut events);
    other.expect(&[("SET last v", "+OK")]);
    see_until(&mut seen, "set last", &mut events);
    assert_eq!(seen, ["hset h", "hexpire h", "hset h", "hexpired h", "set last"]);
}

#[test]
fn a_server_that_starts_knows_the_ttls_and_deletes_what_has_expired_while_none_ran() {
    let Some((mut fleet, clock)) = fleet(1) else { return };
    fleet.servers[0].client().expect(&[
        ("HSETEX h PX 1000 FIELDS 1 f v", ":1"),
        ("HSET h stays v", ":1"),
        ("HSETEX h PX 9000 FIELDS 1 later v", ":1"),
    ]);
    fleet.servers.clear();
    clock.advance(Duration::from_millis(2000));
    fleet.add(clock, &[]);
    let mut client = fleet.servers[0].client();
    client.expect(&[("HLEN h", ":2"), ("HPTTL h FIELDS 2 later f", "*2 :7000 :-2"), ("HSTRLEN h stays", ":1")]);
    client.expect(&[("COPY h c", ":1"), ("RENAME c d", "+OK"), ("HPTTL d FIELDS 2 stays later", "*2 :-1 :7000")]);
    fleet.servers[0].advance_ms(7000);
    client.expect(&[("HKEYS h", "*1 $5 stays"), ("HKEYS d", "*1 $5 stays")]);
}
