//! Calls whose link to the cluster is cut at a certain time, and the lease of an idle server.

use std::sync::Arc;

use keylatch::Clock;

use crate::engine::etcd::{Etcd, field};
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, wait_until};

/// Starts a server that reaches the cluster through a link, and one with a direct connection.
pub(super) fn behind_a_link() -> Option<(Fleet, Proxy)> {
    let etcd = Etcd::shared()?;
    let link = Proxy::start(etcd.addrs()[0]);
    let mut fleet = Fleet::start_on(etcd, 0)?;
    let endpoint = format!("http://{}", link.addr());
    fleet.add(Clock::system(), &[("etcd-endpoints", &endpoint), ("etcd-timeout", "400")]);
    fleet.add(Clock::system(), &[]);
    // The server follows the changes of the other one.
    let [mut one, mut other] = fleet.two_clients();
    other.expect(&[("SET k v", "+OK")]);
    wait_until(|| one.call("GET k") == "$1 v");
    Some((fleet, link))
}

fn uncertain(client: &mut Client) -> u64 {
    let text = client.call("INFO engine");
    let field = text.split(' ').find_map(|field| field.strip_prefix("engine_uncertain_replies:"));
    field.expect("a field").parse().expect("a number")
}

#[test]
fn a_blocked_client_is_given_one_element_when_the_link_was_cut_while_it_was_served() {
    let Some((fleet, link)) = behind_a_link() else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut waiting = fleet.servers[0].block("BLPOP list 20");
    // Work begun before these reads has ended: the client waits for its key.
    one.expect(&[("GET k", "$1 v"), ("GET k", "$1 v")]);
    link.cut(Way::There, Passage::Held);
    other.expect(&[("RPUSH list a b", ":2")]);
    wait_until(|| uncertain(&mut one) > 0);
    link.heal();
    let given = waiting.reply();
    wait_until(|| one.call("INCR n").starts_with(':'));
    let left = other.call("LRANGE list 0 -1");
    let is_known = given == "*2 $4 list $1 a" && left == "*1 $1 b";
    let is_uncertain = given.starts_with("-UNCERTAIN ") && ["*1 $1 b", "*2 $1 a $1 b"].contains(&&left[..]);
    assert!(is_known || is_uncertain, "{given}: {left}");
}

#[test]
fn a_blocked_client_that_times_out_while_the_link_is_cut_is_given_nothing() {
    let Some((fleet, link)) = behind_a_link() else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut waiting = fleet.servers[0].block("BLPOP list 2");
    // Work begun before these reads has ended: the client waits for its key.
    one.expect(&[("GET k", "$1 v"), ("GET k", "$1 v")]);
    link.cut(Way::There, Passage::Held);
    other.expect(&[("RPUSH list a b", ":2")]);
    wait_until(|| uncertain(&mut one) > 0);
    let given = waiting.reply();
    link.heal();
    wait_until(|| one.call("INCR n").starts_with(':'));
    let left = other.call("LRANGE list 0 -1");
    assert!(given.starts_with("-UNCERTAIN") || given == "*-1" && left == "*2 $1 a $1 b", "{given}: {left}");
}

/// HTTP/2 frame that ends a connection for too many pings, before any of its requests was processed.
const TOO_MANY_PINGS: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

#[test]
fn a_write_is_made_on_another_connection_when_a_node_ends_one_for_too_many_pings() {
    let Some((fleet, link)) = behind_a_link() else { return };
    let mut client = fleet.servers[0].client();
    link.cut(Way::There, Passage::Lost);
    let sent = link.lost();
    client.send(b"SET k w\r\n");
    wait_until(|| link.lost() > sent);
    link.say(&TOO_MANY_PINGS);
    link.heal();
    assert_eq!(client.reply(), "+OK");
}

/// Returns the leases of a cluster, and the remaining seconds of the first one.
fn leases(etcd: &Etcd) -> (Vec<String>, Option<u64>) {
    let answer = etcd.ask("/v3/lease/leases", "{}");
    let ids = answer.split("\"ID\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    let left_s = ids.first().and_then(|id| {
        let answer = etcd.ask("/v3/lease/timetolive", &format!("{{\"ID\":\"{id}\"}}"));
        field(&answer, "TTL").and_then(|seconds| seconds.parse().ok())
    });
    (ids, left_s)
}

/// Returns the number of the node that a server uses.
fn endpoint(client: &mut Client, etcd: &Etcd) -> Option<usize> {
    let text = client.call("INFO engine");
    let used = text.split(' ').find_map(|field| field.strip_prefix("engine_endpoint:http://")).expect("a field");
    etcd.addrs().iter().position(|addr| addr.to_string() == used)
}

#[test]
fn a_server_whose_lease_is_kept_alive_stays_at_the_leader() {
    let Some(etcd) = Etcd::start(3).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    let mut client = fleet.servers[0].client();
    let leader = etcd.leader();
    wait_until(|| endpoint(&mut client, &etcd) == leader);
    let (mut renewals, mut before_s) = (0, u64::MAX);
    wait_until(|| {
        let left_s = leases(&etcd).1.unwrap_or(u64::MAX);
        renewals += u64::from(left_s > before_s);
        before_s = left_s;
        renewals == 2
    });
    assert_eq!(endpoint(&mut client, &etcd), leader);
}

#[test]
fn servers_use_another_node_when_that_leads_and_miss_no_change() {
    let Some(etcd) = Etcd::start(3).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let leader = etcd.leader().expect("it is known");
    wait_until(|| [&mut one, &mut other].into_iter().all(|client| endpoint(client, &etcd) == Some(leader)));
    let mut waiting = fleet.servers[0].block("BLPOP list 0");
    let next = (leader + 1) % 3;
    etcd.make_leader(next);
    let mut written = 0;
    wait_until(|| {
        written += 1;
        one.expect(&[("INCR count", &format!(":{written}"))]);
        other.expect(&[("GET count", &format!("${} {written}", written.to_string().len()))]);
        [&mut one, &mut other].into_iter().all(|client| endpoint(client, &etcd) == Some(next))
    });
    etcd.stop(leader);
    other.expect(&[("RPUSH list a", ":1")]);
    assert_eq!(waiting.reply(), "*2 $4 list $1 a");
    etcd.go_on(leader);
}

#[test]
fn a_server_without_calls_learns_of_changes_although_its_node_hangs_before_its_lease_is_to_be_renewed() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let links = [0, 1].map(|_| Proxy::start(etcd.addrs()[0]));
    let Some(mut fleet) = Fleet::start_on(etcd.clone(), 0) else { return };
    let endpoints = links.each_ref().map(|link| format!("http://{}", link.addr())).join(",");
    fleet.add(Clock::system(), &[("etcd-endpoints", &endpoints)]);
    fleet.servers[0].client().expect(&[("SET k v", "+OK")]); // it is registered
    let mut waiting = fleet.servers[0].block("BLPOP list 0");
    let (mut before_s, mut is_renewed) = (u64::MAX, false);
    wait_until(|| {
        let left_s = leases(&etcd).1.unwrap_or(u64::MAX);
        is_renewed = left_s > before_s;
        before_s = left_s;
        is_renewed
    });
    [Way::There, Way::Back].into_iter().for_each(|way| links[0].cut(way, Passage::Held));
    fleet.add(Clock::system(), &[]);
    fleet.servers[1].client().expect(&[("RPUSH list a", ":1")]);
    assert_eq!(waiting.reply(), "*2 $4 list $1 a");
    // Only the changes are followed there: the request to renew the lease has not been given up yet.
    assert_eq!(links[1].connections(), 1);
}

#[test]
fn a_server_without_clients_notices_that_its_lease_has_ended() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    fleet.servers[0].client().expect(&[("SET k v", "+OK")]); // it is registered
    let lease = leases(&etcd).0.remove(0);
    etcd.ask("/v3/lease/revoke", &format!("{{\"ID\":\"{lease}\"}}"));
    wait_until(|| leases(&etcd).0.first().is_some_and(|present| *present != lease));
}

#[test]
fn a_cluster_that_refuses_connections_is_asked_again_with_pauses() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(mut fleet) = Fleet::start_on(etcd.clone(), 0) else { return };
    fleet.add(Clock::system(), &[("etcd-timeout", "1000")]);
    let mut client = fleet.servers[0].client();
    client.expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
    let reads = |client: &mut Client| engine_info(client, "engine_barriers").parse::<u64>().expect("a number");
    let before = reads(&mut client);
    etcd.kill(0);
    assert!(client.call("GET k").starts_with("-NOQUORUM"));
    let reads = reads(&mut client) - before;
    assert!((1..300).contains(&reads), "{reads} in a second");
}
