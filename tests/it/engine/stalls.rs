//! Effects on other clients of a server that is held up: by a script, by a link with late changes, by a cluster without
//! space.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use keylatch::Clock;

use crate::engine::etcd::{Etcd, field};
use crate::engine::locks::{acquired, linked_fleet, queued};
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, TestServer, encode, wait_until};

/// Size of the values that nearly fill the cluster, in bytes, and their number.
const FILLER: usize = 900_000;
const FILLERS: usize = 12;
/// Size of the values that are set then, in bytes. Etcd checks its size every tenth of a second; the sum of the values
/// accepted in between is far below the space freed by the others.
const VALUE: usize = 20_000;

/// Starts an endless script, and waits until it blocks all other clients.
fn hold_up(server: &TestServer, command: &str) -> Client {
    let mut script = server.client();
    script.send(format!("{command} \"while true do end\" 1 held:up\r\n").as_bytes());
    loop {
        let mut other = server.client();
        other.stream_mut().set_read_timeout(Some(Duration::from_millis(300))).expect("a socket");
        other.send(b"GET held:up\r\n");
        let mut byte = [0];
        match other.stream_mut().peek(&mut byte) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return script,
            Ok(1) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_lease_of_a_server_is_kept_alive_while_a_script_runs() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let mut fleet = Fleet::start_on(etcd.clone(), 0).expect("etcd runs");
    fleet.add(Clock::system(), &[("busy-reply-threshold", "0")]);
    fleet.servers[0].client().expect(&[("SET k v", "+OK")]); // it is registered
    let _script = hold_up(&fleet.servers[0], "EVAL");
    let leases = etcd.ask("/v3/lease/leases", "{}");
    let lease = leases.split("\"ID\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a lease").to_owned();
    let (mut renewals, mut before_s) = (0, u64::MAX);
    wait_until(|| {
        let answer = etcd.ask("/v3/lease/timetolive", &format!("{{\"ID\":\"{lease}\"}}"));
        let left_s = field(&answer, "TTL").and_then(|seconds| seconds.parse().ok());
        let left_s = left_s.expect("the lease is there");
        renewals += u64::from(left_s > before_s);
        before_s = left_s;
        renewals == 2
    });
}

#[test]
fn sessions_end_before_others_take_their_locks_although_a_script_runs() {
    // A script that only reads keeps what the cluster has from the mirror.
    for command in ["EVAL", "EVAL_RO"] {
        let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
        let Some((fleet, links)) = linked_fleet(&etcd) else { return };
        fleet.servers[0].client().expect(&[("CONFIG SET busy-reply-threshold 0", "+OK")]);
        let mut holder = fleet.servers[0].client();
        let fence = holder.int("LOCK.ACQUIRE session held SESSION");
        let mut heir = queued(&fleet.servers[1], "LOCK.ACQUIRE session heir PX 100000 BLOCK 0");
        let _script = hold_up(&fleet.servers[0], command);
        fleet.servers[1].client().expect(&[("SET elsewhere v", "+OK")]);
        let clock = Clock::system();
        for link in &links {
            [Way::There, Way::Back].into_iter().for_each(|way| link.cut(way, Passage::Lost));
        }
        thread::scope(|scope| {
            let ended = scope.spawn(|| {
                assert!(holder.read_to_end().is_empty());
                clock.now().mono_us()
            });
            let taken = acquired(&mut heir);
            let taken_us = clock.now().mono_us();
            let ended_us = ended.join().expect("it ends");
            assert!(ended_us < taken_us, "{command}: the session ended at {ended_us} us, after {taken_us}");
            assert!(taken > fence);
        });
        links.iter().for_each(Proxy::heal);
    }
}

#[test]
fn a_client_that_was_handed_a_lock_is_not_told_of_it_when_another_one_has_it() {
    let Some(etcd) = Etcd::shared() else { return };
    let Some((fleet, links)) = linked_fleet(&etcd) else { return };
    let mut other = fleet.servers[1].client();
    other.int("LOCK.ACQUIRE k first PX 100000");
    let mut late = queued(&fleet.servers[0], "LOCK.ACQUIRE k late PX 500 BLOCK 0");
    links.iter().for_each(|link| link.cut(Way::Back, Passage::Held));
    assert_eq!(other.call("LOCK.RELEASE k first"), ":1");
    wait_until(|| other.call("LOCK.ACQUIRE k other PX 100000").starts_with(':'));
    links.iter().for_each(Proxy::heal);
    assert_eq!(late.reply(), "$-1");
    other.expect(&[("GET k", "$5 other")]);
}

#[test]
fn what_is_refused_for_want_of_space_was_not_done_and_everything_goes_on_afterwards() {
    let Some(etcd) = Etcd::start_small(12 << 20).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    let mut client = fleet.servers[0].client();
    let mut holder = fleet.servers[0].client();
    holder.int("LOCK.ACQUIRE session held SESSION");
    let process = engine_info(&mut client, "engine_process");
    (0..FILLERS).for_each(|number| etcd.put(&format!("filler{number}"), &"f".repeat(FILLER)));
    let value = "v".repeat(VALUE);
    let mut refused = Vec::new();
    for round in 0.. {
        let mut clients: Vec<Client> = (0..8).map(|_| fleet.servers[0].client()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&encode(&["SETNX", &format!("k{round}:{at}"), &value]));
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let reply = client.reply();
            if reply.contains("database space exceeded") {
                refused.push(format!("k{round}:{at}"));
            } else {
                assert_eq!(reply, ":1")
            }
        }
        if !refused.is_empty() {
            break;
        }
    }
    for key in &refused {
        client.expect(&[(&format!("EXISTS {key}"), ":0")]);
    }
    wait_until(|| {
        free(&etcd); // once more, in case it has filled again before the alarm ended
        client.call("SET after v") == "+OK"
    });
    client.expect(&[("GET after", "$1 v")]);
    holder.expect(&[("LOCK.RELEASE session held", ":1")]);
    assert_eq!(engine_info(&mut client, "engine_process"), process);
}

/// Frees the space of the first values.
fn free(etcd: &Etcd) {
    etcd.ask("/v3/kv/deleterange", "{\"key\":\"ZmlsbGVy\",\"range_end\":\"ZmlsbGVz\"}"); // filler
    let status = etcd.ask("/v3/maintenance/status", "{}");
    let revision = field(&status, "revision").expect("a revision");
    etcd.ask("/v3/kv/compaction", &format!("{{\"revision\":\"{revision}\",\"physical\":true}}"));
    etcd.ask("/v3/maintenance/defragment", "{}");
    let member = field(&status, "member_id").expect("a number");
    let alarm = format!("{{\"action\":\"DEACTIVATE\",\"memberID\":\"{member}\",\"alarm\":\"NOSPACE\"}}");
    etcd.ask("/v3/maintenance/alarm", &alarm);
}

#[test]
fn slow_scripts_and_quick_calls_on_one_key_take_turns_and_are_never_uncertain() {
    let Some(etcd) = Etcd::shared() else { return };
    let mut fleet = Fleet::start_on(etcd, 0).expect("etcd runs");
    (0..2).for_each(|_| fleet.add(Clock::system(), &[("etcd-timeout", "1500")]));
    let is_over = AtomicBool::new(false);
    let script = "local from=os.clock() while os.clock()-from<0.1 do end return redis.call('incr',KEYS[1])";
    thread::scope(|scope| {
        let quick: Vec<_> = (0..3)
            .map(|_| {
                let (mut client, is_over) = (fleet.servers[1].client(), &is_over);
                scope.spawn(move || {
                    let mut made = 0;
                    while !is_over.load(SeqCst) {
                        assert!(client.int("INCR k") > 0);
                        made += 1;
                    }
                    made
                })
            })
            .collect();
        let mut slow = fleet.servers[0].client();
        let replies: Vec<String> = (0..5).map(|_| slow.call_args(&["EVAL", script, "1", "k"])).collect();
        is_over.store(true, SeqCst);
        let made: i64 = quick.into_iter().map(|quick| quick.join().expect("it counts")).sum();
        assert!(replies.iter().all(|reply| reply.starts_with(':')), "{replies:?}");
        assert!(made >= 5, "{made} quick calls beside 5 slow ones");
        slow.expect(&[("GET k", &format!("${} {}", (made + 5).to_string().len(), made + 5))]);
    });
}
