//! The metrics port's page of a server on a cluster.

use keylatch::Clock;
use serde_json::Value;

use crate::engine::{Fleet, engine_info};
use crate::harness::wait_until;
use crate::metrics::Observed;

impl Fleet {
    /// Starts another server, with a metrics port.
    fn observed(&self) -> Observed {
        let endpoints = self.etcd.endpoints();
        let engine = [("engine", "etcd"), ("etcd-endpoints", &endpoints), ("etcd-prefix", &self.prefix)];
        Observed::start_on(Clock::system(), &engine)
    }
}

/// Returns the lock with a key from the state of a page.
fn lock<'s>(state: &'s Value, key: &str) -> &'s Value {
    let locks = state["locks"].as_array().expect("a list");
    locks.iter().find(|lock| lock["key"] == key).unwrap_or_else(|| panic!("no lock {key} in {state}"))
}

#[test]
fn a_page_has_a_section_about_the_engine_with_the_figures_of_info() {
    let Some(fleet) = Fleet::start(0) else { return };
    let observed = fleet.observed();
    let mut client = observed.client();
    client.expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
    let shown = observed.page_state();
    let engine = &shown["engine"];
    for field in ["engine", "engine_process", "engine_endpoint", "engine_version", "engine_leader"] {
        assert_eq!(engine[field], engine_info(&mut client, field), "{field}");
    }
    assert_eq!((&engine["engine_transactions"], &engine["engine_barriers"]), (&1.0.into(), &1.0.into()));
    assert!(engine["engine_revision"].as_f64() > Some(0.0), "{engine}");
    for field in ["revisions_behind", "conflicts", "unknown_outcomes", "uncertain_replies", "reloads"] {
        assert_eq!(engine[format!("engine_{field}")], 0.0, "{field}");
    }
    for durations in ["transactions", "barriers"] {
        let shown = &engine[durations];
        assert_eq!(shown["total"], 1, "{durations}");
        assert!(shown["p50"].as_u64() > Some(0) && shown["p50"] == shown["p99"], "{shown}");
    }
}

#[test]
fn a_page_shows_how_many_transactions_and_barriers_there_are_per_second() {
    let Some(fleet) = Fleet::start(0) else { return };
    let observed = fleet.observed();
    let mut client = observed.client();
    let mut events = observed.follow("");
    wait_until(|| {
        for _ in 0..5 {
            client.expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
        }
        let engine = &events.shown()["engine"];
        let has_rate = |name: &str| engine[format!("engine_{name}_per_sec")].as_f64() > Some(0.0);
        has_rate("transactions") && has_rate("barriers")
    });
    let (name, past) = observed.follow("").next().expect("an event");
    assert_eq!(name, "history");
    let past: Value = serde_json::from_str(&past).expect("JSON");
    for name in ["transactions", "barriers"] {
        let seconds = past[name].as_array().expect("a list");
        assert!(seconds.iter().any(|second| second.as_u64() > Some(0)), "{name}: {past}");
    }
}

#[test]
fn a_page_has_no_section_about_an_engine_where_the_data_is_in_the_process() {
    let observed = Observed::start();
    let shown = observed.page_state();
    assert!(shown.get("held").is_some() && shown.get("engine").is_none(), "{shown}");
    assert!(!observed.client().call("INFO engine").contains("engine_"));
}

#[test]
fn a_page_shows_the_processes_of_clients_that_hold_and_await_locks_elsewhere() {
    let Some(fleet) = Fleet::start(1) else { return };
    let observed = fleet.observed();
    let (mut far, mut near) = (fleet.servers[0].client(), observed.client());
    let ids = [far.int("CLIENT ID"), near.int("CLIENT ID")];
    for client in [&mut far, &mut near] {
        assert_eq!(client.call("CONFIG SET lock-deadlock wait"), "+OK");
    }
    assert!(far.int("LOCK.ACQUIRE a t1 SESSION") > 0);
    assert!(near.int("LOCK.ACQUIRE b t2 SESSION") > 0);
    wait_until(|| observed.page_state()["held"] == 2.0);
    let held = observed.page_state();
    let process = engine_info(&mut far, "engine_process"); // known by now, as its session is
    let holder = &lock(&held, "a")["holders"][0]["client"];
    assert_eq!((&holder["process"], &holder["id"]), (&process.as_str().into(), &ids[0].into()));
    let holder = &lock(&held, "b")["holders"][0]["client"];
    assert_eq!((&holder["process"], &holder["id"]), (&Value::Null, &ids[1].into()));
    far.send(b"LOCK.ACQUIRE b u1 SESSION BLOCK 0\r\n");
    near.send(b"LOCK.ACQUIRE a u2 SESSION BLOCK 0\r\n");
    wait_until(|| observed.page_state()["waiting"] == 2.0);
    let awaited = observed.page_state();
    let first = &lock(&awaited, "b")["queue"][0]["client"];
    assert_eq!((&first["process"], &first["id"]), (&process.as_str().into(), &ids[0].into()));
    let first = &lock(&awaited, "a")["queue"][0]["client"];
    assert_eq!((&first["process"], &first["id"]), (&Value::Null, &ids[1].into()));
    let cycle = lock(&awaited, "a")["cycle"].as_array().expect("a list");
    let links: Vec<_> =
        cycle.iter().map(|link| (link["key"].clone(), link["id"].clone(), link["process"].clone())).collect();
    let far = (Value::from("a"), ids[0].into(), process.as_str().into());
    assert_eq!(links, [far, ("b".into(), ids[1].into(), Value::Null)]);
}
