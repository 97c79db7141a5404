//! Calls of several clients that share a transaction.

use std::sync::Arc;

use keylatch::Clock;

use crate::engine::etcd::Etcd;
use crate::engine::locks::linked_fleet_with;
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, encode, wait_until};

/// Number of transactions that are in flight before calls wait for each other, at most.
const IN_FLIGHT: usize = 2;

fn count(client: &mut Client, name: &str) -> usize {
    engine_info(client, name).parse().expect("a number")
}

/// Sends each request by a client of its own to the first server, once that has the one before.
fn send_in_order(fleet: &Fleet, admin: &mut Client, requests: &[Vec<String>]) -> Vec<Client> {
    let calls = count(admin, "engine_calls");
    let mut clients: Vec<Client> = Vec::new();
    for request in requests {
        let mut client = fleet.servers[0].client();
        client.send(&encode(&request.iter().map(String::as_str).collect::<Vec<_>>()));
        clients.push(client);
        wait_until(|| count(admin, "engine_calls") == calls + clients.len());
    }
    clients
}

#[test]
fn calls_that_wait_together_share_a_transaction_and_one_that_fails_takes_no_other_along() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some((fleet, links)) = linked_fleet_with(&etcd, Clock::manual()) else { return };
    let mut admin = fleet.servers[0].client();
    admin.expect(&[("SET lost v", "+OK"), ("CONFIG SET etcd-value-max 10kb", "+OK")]);
    let mut requests: Vec<Vec<String>> = (0..IN_FLIGHT).map(|at| words(&format!("SET first{at} v"))).collect();
    requests.extend((0..30).map(|at| words(&format!("SET k{at} v"))));
    requests.push(vec!["SET".into(), "large".into(), "x".repeat(20_000)]);
    requests.extend((0..10).map(|at| words(&format!("INCR n{}", at % 2))));
    links.iter().for_each(|link| link.cut(Way::There, Passage::Held));
    let transactions = count(&mut admin, "engine_transactions");
    let mut clients = send_in_order(&fleet, &mut admin, &requests);
    // Another process changes a key of one of the calls, which is executed again apart from the others.
    fleet.servers[1].client().expect(&[("INCR n0", ":1")]);
    links.iter().for_each(Proxy::heal);
    let replies: Vec<String> = clients.iter_mut().map(Client::reply).collect();
    let (ordinary, rest) = replies.split_at(IN_FLIGHT + 30);
    assert!(ordinary.iter().all(|reply| reply == "+OK"), "{replies:?}");
    assert_eq!(rest[0], "-ERR what is written is larger than engine etcd takes, see etcd-value-max");
    let mut numbers = rest[1..].to_vec();
    numbers.sort_unstable();
    assert_eq!(numbers, [":1", ":2", ":2", ":3", ":3", ":4", ":4", ":5", ":5", ":6"]);
    let transactions = count(&mut admin, "engine_transactions") - transactions;
    assert!(transactions <= IN_FLIGHT + 12, "{transactions} transactions of {} calls", requests.len());
}

#[test]
fn scripts_that_were_quick_before_share_a_transaction_and_have_their_own_keys_only() {
    const INCREMENT: &str = "return redis.call('incr', KEYS[1])";
    const OTHERS: &str = "redis.call('set', KEYS[1], 'v') return redis.call('get', 'n1')";
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some((fleet, links)) = linked_fleet_with(&etcd, Clock::manual()) else { return };
    let mut admin = fleet.servers[0].client();
    assert_eq!(admin.call_args(&["EVAL", INCREMENT, "1", "n0"]), ":1");
    assert!(admin.call_args(&["EVAL", OTHERS, "1", "own"]).starts_with("-ERR"));
    let new = |at: usize| format!("return redis.call('incr', KEYS[1]) + {at}");
    let mut requests: Vec<Vec<String>> = (0..IN_FLIGHT).map(|at| words(&format!("SET first{at} v"))).collect();
    let eval = |script: &str, key: &str| ["EVAL", script, "1", key].map(str::to_owned).to_vec();
    requests.extend((1..30).map(|at| eval(INCREMENT, &format!("n{at}"))));
    requests.push(eval(OTHERS, "own"));
    requests.push(words("INCR n1"));
    requests.extend((0..3).map(|at| eval(&new(at), &format!("new{at}"))));
    links.iter().for_each(|link| link.cut(Way::There, Passage::Held));
    let transactions = count(&mut admin, "engine_transactions");
    let mut clients = send_in_order(&fleet, &mut admin, &requests);
    // Another process changes a key of one of the scripts, which is executed again apart from the others.
    fleet.servers[1].client().expect(&[("INCR n2", ":1")]);
    links.iter().for_each(Proxy::heal);
    let replies: Vec<String> = clients.iter_mut().map(Client::reply).collect();
    let of = |key: usize| IN_FLIGHT + key - 1;
    for key in (1..30).filter(|key| *key != 2) {
        assert_eq!(replies[of(key)], ":1", "n{key}");
    }
    assert_eq!([&replies[of(2)], &replies[of(31)]], [":2", ":2"], "{replies:?}");
    assert!(replies[of(30)].starts_with("-ERR") && replies[of(30)].contains("declare"), "{replies:?}");
    assert_eq!(replies[of(32)..], [":1", ":2", ":3"], "{replies:?}");
    admin.expect(&[("GET own", "$1 v"), ("GET n1", "$1 2")]);
    let transactions = count(&mut admin, "engine_transactions") - transactions;
    assert!((IN_FLIGHT + 4..IN_FLIGHT + 10).contains(&transactions), "{transactions} transactions");
}

#[test]
fn a_script_that_takes_long_although_it_was_quick_before_takes_no_other_call_along() {
    const SCRIPT: &str = "while ARGV[1] == 'long' do end return redis.call('incr', KEYS[1])";
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some((fleet, links)) = linked_fleet_with(&etcd, Clock::manual()) else { return };
    let mut admin = fleet.servers[0].client();
    admin.call("CONFIG SET busy-reply-threshold 100");
    for run in 1..=20 {
        assert_eq!(admin.call_args(&["EVAL", SCRIPT, "1", "warm", ""]), format!(":{run}"));
    }
    let mut requests: Vec<Vec<String>> = (0..IN_FLIGHT).map(|at| words(&format!("SET first{at} v"))).collect();
    requests.extend((0..5).map(|at| words(&format!("INCR before{at}"))));
    requests.push(["EVAL", SCRIPT, "1", "looped", "long"].map(str::to_owned).to_vec());
    requests.extend((0..5).map(|at| words(&format!("INCR after{at}"))));
    links.iter().for_each(|link| link.cut(Way::There, Passage::Held));
    let mut clients = send_in_order(&fleet, &mut admin, &requests);
    links.iter().for_each(Proxy::heal);
    wait_until(|| admin.call("SCRIPT KILL") == "+OK");
    let mut replies: Vec<String> = clients.iter_mut().map(Client::reply).collect();
    assert!(replies.remove(IN_FLIGHT + 5).starts_with("-ERR"), "{replies:?}");
    assert!(replies[IN_FLIGHT..].iter().all(|reply| reply == ":1"), "{replies:?}");
    admin.expect(&[("EXISTS looped", ":0"), ("GET before4", "$1 1"), ("GET after4", "$1 1")]);
}

fn words(request: &str) -> Vec<String> {
    request.split(' ').map(str::to_owned).collect()
}
