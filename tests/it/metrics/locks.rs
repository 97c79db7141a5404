//! Locks on the page: their modes, holders, queues, and hand-overs.

use serde_json::{Value, json};

use crate::harness::{Client, wait_until};
use crate::metrics::Observed;

/// Returns a lock of a state.
#[track_caller]
pub(super) fn lock(state: &Value, key: &str) -> Value {
    let locks = state["locks"].as_array().expect("a list");
    locks.iter().find(|lock| lock["key"] == key).unwrap_or_else(|| panic!("no {key} in {state}")).clone()
}

/// Queues a new client, as one of this many; returns it.
#[track_caller]
pub(super) fn waits(observed: &Observed, request: &str, waiting: usize) -> Client {
    let mut client = observed.client();
    client.send(format!("{request}\r\n").as_bytes());
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == waiting as f64);
    client
}

fn len(list: &Value) -> usize {
    list.as_array().expect("a list").len()
}

#[test]
fn a_page_shows_the_holders_of_shared_locks_and_semaphores_with_their_own_times_and_never_their_tokens() {
    let observed = Observed::start();
    let mut client = observed.client();
    for reader in 0..25 {
        let request = format!("LOCK.ACQUIRE readers secret{reader} SHARED PX 60000 META report-{reader}");
        assert!(client.int(&request) > 0);
    }
    assert!(client.int("LOCK.ACQUIRE pool secret1 PERMITS 2 OF 5 PX 90000") > 0);
    observed.server.advance_ms(1000);
    assert!(client.int("LOCK.ACQUIRE pool secret2 PERMITS 1 PX 30000") > 0);
    let state = observed.page_state();
    let readers = lock(&state, "readers");
    assert_eq!((&readers["mode"], &readers["heldBy"], len(&readers["holders"])), (&"shared".into(), &25.into(), 20));
    let (first, last) = (&readers["holders"][0], &readers["holders"][19]);
    assert_eq!((&first["meta"], &last["meta"]), (&"report-0".into(), &"report-19".into()));
    assert_eq!((&first["age"], &first["ttl"], &first["permits"]), (&1000.into(), &59_000.into(), &Value::Null));
    assert_eq!((&first["fence"], &last["fence"]), (&readers["fence"].to_string().into(), &first["fence"]));
    let pool = lock(&state, "pool");
    assert_eq!((&pool["mode"], &pool["size"], &pool["free"]), (&"permits".into(), &5.into(), &2.into()));
    let shown =
        |at: usize| json!([pool["holders"][at]["permits"], pool["holders"][at]["age"], pool["holders"][at]["ttl"]]);
    assert_eq!((shown(0), shown(1)), (json!([2, 1000, 89_000]), json!([1, 0, 30_000])));
    assert!(!state.to_string().contains("secret"), "no token: {state}");
}

#[test]
fn a_page_shows_the_first_hundred_in_the_queue_of_a_lock_with_what_each_asks_for() {
    let observed = Observed::start();
    let mut client = observed.client();
    assert!(client.int("LOCK.ACQUIRE pool t PERMITS 5 OF 5 PX 600000") > 0);
    let mut queued = vec![waits(&observed, "LOCK.ACQUIRE pool u PERMITS 3 PX 1 BLOCK 0", 1)];
    observed.server.advance_ms(700);
    queued.push(waits(&observed, "LOCK.ACQUIRE pool v SHARED PX 1 BLOCK 0", 2));
    let pool = lock(&observed.page_state(), "pool");
    let shown = |at: usize| {
        let one = &pool["queue"][at];
        json!([one["mode"], one["permits"], one["wait"], one["away"], one["client"]["addr"].is_string()])
    };
    assert_eq!(shown(0), json!(["permits", 3, 700, false, true]));
    assert_eq!(shown(1), json!(["shared", null, 0, false, true]));
    for number in 3..=120 {
        let mut waiter = observed.client();
        waiter.send(format!("LOCK.ACQUIRE pool w{number} PX 1 BLOCK 0\r\n").as_bytes());
        queued.push(waiter);
    }
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 120.0);
    let pool = lock(&observed.page_state(), "pool");
    assert_eq!((&pool["queued"], len(&pool["queue"])), (&120.into(), 100));
}

#[test]
fn of_many_long_queues_the_later_ones_are_shown_in_part() {
    let observed = Observed::start();
    let mut client = observed.client();
    let acquire: Vec<String> = (0..150)
        .flat_map(|lock| (0..20).map(move |token| format!("LOCK.ACQUIRE {lock} t{token} SHARED PX 600000")))
        .collect();
    assert!(client.pipeline(&acquire).iter().all(|reply| reply.starts_with(':')));
    let state = observed.page_state();
    let locks = state["locks"].as_array().expect("a list");
    let shown: Vec<usize> = locks.iter().map(|lock| len(&lock["holders"])).collect();
    assert_eq!((shown.len(), shown[0], shown[99], shown[101], shown[149]), (150, 20, 20, 3, 3));
    assert!(locks.iter().all(|lock| lock["heldBy"] == 20));
    assert_eq!((state["held"].as_f64(), observed.metrics()["keylatch_locks_held"]), (Some(150.0), 150.0));
}

#[test]
fn a_client_that_is_away_in_its_grace_is_shown_so_as_a_holder_and_in_the_queue() {
    let observed = Observed::start_with(&[("session-grace-ms", "60000")]);
    let mut holder = observed.client();
    assert!(holder.int("LOCK.ACQUIRE k t SESSION") > 0);
    drop(waits(&observed, "LOCK.ACQUIRE k u SESSION BLOCK 0", 1));
    let shown = || lock(&observed.page_state(), "k");
    wait_until(|| shown()["queue"][0]["away"] == true);
    assert_eq!((&shown()["queue"][0]["client"], &shown()["holders"][0]["away"]), (&Value::Null, &false.into()));
    drop(holder);
    wait_until(|| shown()["holders"][0]["away"] == true);
}

#[test]
fn a_lock_that_several_wait_for_and_nobody_holds_is_shown_as_free() {
    let observed = Observed::start();
    let mut client = observed.client();
    assert!(client.int("LOCK.ACQUIRE b t PX 600000") > 0);
    let _several = waits(&observed, "LOCK.ACQUIREMULTI 2 a b u PX 1000 BLOCK 0", 2);
    let free = lock(&observed.page_state(), "a");
    assert_eq!((&free["mode"], &free["heldBy"], &free["queued"]), (&"free".into(), &0.into(), &1.into()));
}

#[test]
fn a_page_shows_which_locks_were_handed_over_from_whom_to_whom_and_after_which_times() {
    let observed = Observed::start();
    let mut one = observed.client();
    let id = one.int("CLIENT ID");
    assert!(one.int("LOCK.ACQUIRE k t PX 600000") > 0);
    observed.server.advance_ms(500);
    let mut two = waits(&observed, "LOCK.ACQUIRE k u PX 2000 BLOCK 0", 1);
    observed.server.advance_ms(1000);
    assert_eq!((one.int("LOCK.RELEASE k t"), two.reply().starts_with(':')), (1, true));
    let mut three = waits(&observed, "LOCK.ACQUIRE k v PX 600000 BLOCK 0", 1);
    observed.server.advance_ms(2000); // the lock expires
    assert!(three.reply().starts_with(':'));
    // These wait for no other client.
    assert!(one.int("LOCK.ACQUIRE other t PX 600000") > 0 && one.int("LOCK.RELEASE other t") == 1);
    let state = observed.page_state();
    let shown: Vec<Value> = state["handovers"].as_array().expect("a list").clone();
    let times = |at: usize| json!([shown[at]["key"], shown[at]["db"], shown[at]["held"], shown[at]["waited"]]);
    assert_eq!(shown.len(), 2, "{state}");
    assert_eq!((times(1), &shown[1]["from"]["id"]), (json!(["k", 0, 1500.0, 1000.0]), &id.into()));
    assert_eq!((times(0), &shown[0]["from"]), (json!(["k", 0, 2000.0, 2000.0]), &shown[1]["to"]));
    assert_eq!(one.call("CONFIG RESETSTAT"), "+OK");
    assert_eq!(observed.page_state()["handovers"], json!([]));
}

#[test]
fn readers_that_get_a_lock_together_have_it_from_the_same_holder_and_later_ones_do_not() {
    let observed = Observed::start();
    let mut writer = observed.client();
    let id = writer.int("CLIENT ID");
    assert!(writer.int("LOCK.ACQUIRE k t PX 600000") > 0);
    let readers = [1, 2].map(|n| waits(&observed, &format!("LOCK.ACQUIRE k r{n} SHARED PX 600000 BLOCK 0"), n));
    assert_eq!(writer.int("LOCK.RELEASE k t"), 1);
    for mut reader in readers {
        assert!(reader.reply().starts_with(':'));
    }
    // A reader behind a writer that gives up gets the lock from no other holder.
    let mut queued = waits(&observed, "LOCK.ACQUIRE k w PX 600000 BLOCK 1000", 1);
    let mut late = waits(&observed, "LOCK.ACQUIRE k r3 SHARED PX 600000 BLOCK 0", 2);
    observed.server.advance_ms(1000);
    assert!(queued.reply().starts_with('$') && late.reply().starts_with(':'));
    let state = observed.page_state();
    let from: Vec<&Value> =
        state["handovers"].as_array().expect("a list").iter().map(|one| &one["from"]["id"]).collect();
    assert_eq!(from, [&Value::Null, &id.into(), &id.into()]);
}

#[test]
fn the_last_fifty_handovers_are_kept_with_the_first_bytes_of_their_keys() {
    let observed = Observed::start();
    let mut client = observed.client();
    let long = "k".repeat(300);
    for number in 0..60 {
        let key = format!("{number}:{long}");
        assert!(client.int(&format!("LOCK.ACQUIRE {key} t PX 600000")) > 0);
        let mut waiter = waits(&observed, &format!("LOCK.ACQUIRE {key} u PX 600000 BLOCK 0"), 1);
        assert_eq!((client.int(&format!("LOCK.RELEASE {key} t")), waiter.reply().starts_with(':')), (1, true));
    }
    let state = observed.page_state();
    let keys: Vec<&str> =
        state["handovers"].as_array().expect("a list").iter().filter_map(|one| one["key"].as_str()).collect();
    assert_eq!(keys.len(), 50);
    assert!(keys[0].starts_with("59:kkk") && keys[49].starts_with("10:kkk"), "{keys:?}");
    assert!(keys.iter().all(|key| key.ends_with("(175 more bytes)")), "{keys:?}");
}

#[test]
fn hostile_meta_does_not_leave_its_place() {
    let observed = Observed::start();
    let mut client = observed.client();
    assert_eq!(client.call("CLIENT SETNAME </script><img>"), "+OK");
    let meta = b"<img src=x onerror=alert(1)>\n\nevent: state\ndata: {}";
    let reply = client.call_args(&[b"LOCK.ACQUIRE", &b"k"[..], b"t", b"PX", b"60000", b"META", meta]);
    assert!(reply.starts_with(':'), "{reply}");
    let holder = lock(&observed.page_state(), "k")["holders"][0].clone();
    assert_eq!(holder["client"]["name"], "</script><img>");
    assert_eq!(holder["meta"], r#""<img src=x onerror=alert(1)>\n\nevent: state\ndata: {}""#);
}

#[test]
fn what_is_handed_over_in_a_private_instance_stays_there() {
    let observed = Observed::start_with(&[("test-mode", "yes")]);
    let (mut holder, mut waiter) = (observed.client(), observed.client());
    for client in [&mut holder, &mut waiter] {
        assert_eq!(client.call("AUTH ns-one x"), "+OK");
    }
    assert!(holder.int("LOCK.ACQUIRE k t PX 600000") > 0);
    waiter.send(b"LOCK.ACQUIRE k u PX 600000 BLOCK 0\r\n");
    wait_until(|| holder.call("INFO locks").contains("waiting:1"));
    assert_eq!((holder.int("LOCK.RELEASE k t"), waiter.reply().starts_with(':')), (1, true));
    let state = observed.page_state();
    assert_eq!((&state["handovers"], &state["locks"]), (&json!([]), &json!([])));
}
