//! Calls of several clients that share a transaction.

use std::sync::Arc;

use crate::engine::engine_info;
use crate::engine::etcd::Etcd;
use crate::engine::locks::linked_fleet;
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::harness::{Client, encode, wait_until};

/// Number of transactions that are in flight before calls wait for each other, at most.
const IN_FLIGHT: usize = 2;

fn count(client: &mut Client, name: &str) -> usize {
    engine_info(client, name).parse().expect("a number")
}

#[test]
fn calls_that_wait_together_share_a_transaction_and_one_that_fails_takes_no_other_along() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some((fleet, links)) = linked_fleet(&etcd) else { return };
    let mut admin = fleet.servers[0].client();
    admin.expect(&[("SET lost v", "+OK"), ("CONFIG SET etcd-value-max 10kb", "+OK")]);
    let mut requests: Vec<Vec<String>> = (0..IN_FLIGHT).map(|at| words(&format!("SET first{at} v"))).collect();
    requests.extend((0..30).map(|at| words(&format!("SET k{at} v"))));
    requests.push(vec!["SET".into(), "large".into(), "x".repeat(20_000)]);
    requests.extend((0..10).map(|at| words(&format!("INCR n{}", at % 2))));
    links.iter().for_each(|link| link.cut(Way::There, Passage::Held));
    let (calls, transactions) = (count(&mut admin, "engine_calls"), count(&mut admin, "engine_transactions"));
    let mut clients: Vec<Client> = Vec::new();
    for request in &requests {
        let mut client = fleet.servers[0].client();
        client.send(&encode(&request.iter().map(String::as_str).collect::<Vec<_>>()));
        clients.push(client);
        wait_until(|| count(&mut admin, "engine_calls") == calls + clients.len());
    }
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

fn words(request: &str) -> Vec<String> {
    request.split(' ').map(str::to_owned).collect()
}
