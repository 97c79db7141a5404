//! Shared locks, permits, and several locks at once on several servers of a cluster.

use std::thread;

use crate::engine::locks::{acquired, in_queue, queued, queued_as};
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, TestServer, wait_until};

/// Returns the fencing tokens in the reply to a client that has asked for several locks.
fn several(reply: &str) -> Vec<i64> {
    let words = reply.split(' ').skip(1);
    words.map(|word| word.strip_prefix(':').and_then(|fence| fence.parse().ok()).expect("fencing tokens")).collect()
}

/// Sends the requests of some clients at the same time.
fn send(clients: &mut [Client], request: impl Fn(usize) -> String) {
    for (at, client) in clients.iter_mut().enumerate() {
        client.send(format!("{}\r\n", request(at)).as_bytes());
    }
}

#[test]
fn readers_on_all_servers_hold_a_lock_together_with_one_fence_and_a_writer_alone() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let before = one.int("LOCK.ACQUIRE k w PX 100000");
    other.expect(&[("LOCK.ACQUIRE k r SHARED PX 100000", "$-1"), ("LOCK.RELEASE k w", ":1")]);
    let period = one.int("LOCK.ACQUIRE k r1 SHARED PX 100000");
    assert!(period > before);
    assert_eq!(other.int("LOCK.ACQUIRE k r2 SHARED PX 900000"), period);
    assert_eq!(other.int("LOCK.FENCE k r1"), period);
    assert!((100_001..=900_000).contains(&one.int("PTTL k")));
    other.expect(&[
        ("GET k", "$7 shared:"),
        ("SETNX k x", ":0"),
        ("LOCK.ACQUIRE k w PX 1000", "$-1"),
        ("LOCK.ACQUIRE k r1 PERMITS 1 OF 2 PX 1000", "-ERR token holds this lock in another mode"),
        ("LOCK.RELEASE k r2", ":1"),
        ("LOCK.RELEASE k r2", ":0"),
    ]);
    assert!((1..=100_000).contains(&one.int("PTTL k")));
    other.expect(&[("LOCK.RELEASE k r1", ":1"), ("EXISTS k", ":0")]);
    assert!(one.int("LOCK.ACQUIRE k r1 SHARED PX 100000") > period, "a period without holders is over");
}

#[test]
fn a_waiting_writer_stops_later_readers_and_readers_next_to_each_other_are_served_in_one_transaction() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE k r0 SHARED PX 100000");
    let mut writer = queued(&fleet.servers[1], "LOCK.ACQUIRE k w PX 100000 BLOCK 0");
    let mut readers: Vec<Client> = (1..=6)
        .map(|at| queued(&fleet.servers[at % 2], &format!("LOCK.ACQUIRE k r{at} SHARED PX 100000 BLOCK 0")))
        .collect();
    let mut last = queued(&fleet.servers[0], "LOCK.ACQUIRE k last PX 100000 BLOCK 0");
    other.expect(&[("LOCK.ACQUIRE k late SHARED PX 100000", "$-1"), ("LOCK.RELEASE k r0", ":1")]);
    let fence = acquired(&mut writer);
    wait_until(|| in_queue(&mut one, "k") == 7);
    let before: u64 = engine_info(&mut one, "engine_transactions").parse().expect("a number");
    one.expect(&[("LOCK.RELEASE k w", ":1")]);
    let fences: Vec<i64> = readers.iter_mut().map(acquired).collect();
    assert!(fences[0] > fence && fences.iter().all(|other| *other == fences[0]), "{fences:?} after {fence}");
    let after: u64 = engine_info(&mut one, "engine_transactions").parse().expect("a number");
    assert_eq!(after - before, 1);
    (1..=6).for_each(|at| assert_eq!(other.call(&format!("LOCK.RELEASE k r{at}")), ":1"));
    assert!(acquired(&mut last) > fences[0]);
}

#[test]
fn a_holder_changes_the_mode_of_its_lock_on_any_server_and_waits_for_that_before_all_others() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let first = one.int("LOCK.ACQUIRE k t PX 100000 META text");
    let mut reader = queued(&fleet.servers[1], "LOCK.ACQUIRE k r SHARED PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut one, "k") == 1);
    let shared = one.int("LOCK.ACQUIRE k t SHARED CONVERT SESSION");
    assert!(shared > first);
    assert_eq!(acquired(&mut reader), shared);
    assert_eq!(other.int("LOCK.ACQUIRE k t SHARED CONVERT PX 200000"), shared, "a retry after a lost reply");
    assert!(one.call("LOCK.INFO k").contains("$4 meta $4 text"));
    assert!((100_001..=200_000).contains(&other.int("PTTL k")));
    one.expect(&[("LOCK.ACQUIRE k none CONVERT PX 1000", "$-1"), ("LOCK.ACQUIRE k t CONVERT PX 1000", "$-1")]);
    let mut writer = queued(&fleet.servers[0], "LOCK.ACQUIRE k w PX 100000 BLOCK 0");
    let mut upgrade = queued(&fleet.servers[1], "LOCK.ACQUIRE k t CONVERT PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut one, "k") == 2);
    assert!(other.call("LOCK.ACQUIRE k r CONVERT PX 1000 BLOCK 0").starts_with("-DEADLOCK k held by client "));
    one.expect(&[("LOCK.RELEASE k r", ":1")]);
    let alone = acquired(&mut upgrade);
    assert!(alone > shared);
    wait_until(|| one.call("GET k") == "$1 t");
    one.expect(&[("LOCK.RELEASE k t", ":1")]);
    assert!(acquired(&mut writer) > alone);
}

#[test]
fn whoever_waits_to_have_a_lock_alone_is_refused_on_its_server_when_its_share_is_lost_on_another_one() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    for loss in ["SET k x", "DEL k", "LOCK.RELEASE k t", "FLUSHALL"] {
        one.int("LOCK.ACQUIRE k t SHARED PX 100000");
        one.int("LOCK.ACQUIRE k r SHARED PX 100000");
        let mut upgrade = queued(&fleet.servers[1], "LOCK.ACQUIRE k t CONVERT PX 100000 BLOCK 0");
        wait_until(|| in_queue(&mut one, "k") == 1);
        one.call(loss);
        assert_eq!(upgrade.reply(), "$-1", "{loss}");
        wait_until(|| in_queue(&mut other, "k") == 0);
        one.call("DEL k");
    }
}

#[test]
fn permits_are_given_while_they_last_in_order_and_a_change_of_their_number_serves_or_refuses_those_who_wait() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let first = one.int("LOCK.ACQUIRE s a PERMITS 2 OF 3 PX 100000");
    assert!(other.int("LOCK.ACQUIRE s b PERMITS 1 PX 100000") > first);
    other.expect(&[
        ("GET s", "$9 permits:3"),
        ("LOCK.ACQUIRE s c PERMITS 1 OF 4 PX 1000", "-ERR the semaphore has 3 permits"),
        ("LOCK.ACQUIRE s c PERMITS 4 PX 1000", "-ERR the semaphore has 3 permits"),
        ("LOCK.ACQUIRE t c PERMITS 1 PX 1000", "-ERR PERMITS needs OF where there is no semaphore"),
    ]);
    let mut two = queued(&fleet.servers[1], "LOCK.ACQUIRE s two PERMITS 2 PX 100000 BLOCK 0");
    let mut single = queued(&fleet.servers[0], "LOCK.ACQUIRE s single PERMITS 1 PX 100000 BLOCK 0");
    one.expect(&[("LOCK.RELEASE s b", ":1"), ("LOCK.ACQUIRE s late PERMITS 1 PX 1000", "$-1")]);
    one.expect(&[("LOCK.RESIZE s 5", ":1")]);
    assert!(acquired(&mut two) < acquired(&mut single));
    let mut three = queued(&fleet.servers[1], "LOCK.ACQUIRE s three PERMITS 3 PX 100000 BLOCK 0");
    let mut last = queued(&fleet.servers[0], "LOCK.ACQUIRE s last PERMITS 1 PX 100000 BLOCK 0");
    one.expect(&[("LOCK.RESIZE s 2", ":1"), ("GET s", "$9 permits:2")]);
    assert_eq!(three.reply(), "-ERR the semaphore has 2 permits");
    one.expect(&[("LOCK.RELEASE s a", ":1"), ("LOCK.RELEASE s two", ":1")]);
    acquired(&mut last);
    one.expect(&[("LOCK.RESIZE none 2", "$-1"), ("SET none x", "+OK"), ("LOCK.RESIZE none 2", "$-1")]);
}

#[test]
fn more_permits_than_one_transaction_gives_are_given_by_several() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE s held PERMITS 1 OF 1 PX 100000");
    let mut waiters: Vec<Client> = (0..150).map(|at| fleet.servers[at % 2].client()).collect();
    send(&mut waiters, |at| format!("LOCK.ACQUIRE s t{at} PERMITS 1 PX 100000 BLOCK 0"));
    wait_until(|| in_queue(&mut one, "s") == 150);
    other.expect(&[("LOCK.RESIZE s 151", ":1")]);
    let mut fences: Vec<i64> = waiters.iter_mut().map(acquired).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 150);
    assert_eq!(in_queue(&mut one, "s"), 0);
}

#[test]
fn a_lock_that_is_released_beside_many_that_are_taken_goes_to_the_first_in_the_queue_at_once() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE k t PX 100000");
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut one, "k") == 1);
    one.expect(&[("MULTI", "+OK")]);
    for at in 0..60 {
        one.expect(&[(&format!("LOCK.ACQUIRE other{at} t PX 100000"), "+QUEUED")]);
    }
    one.expect(&[("LOCK.RELEASE k t", "+QUEUED")]);
    let done = one.call("EXEC");
    assert!(done.starts_with("*61 :") && done.ends_with(" :1"), "{done}");
    other.expect(&[("SETNX k poller", ":0"), ("GET k", "$4 next")]);
    acquired(&mut waiter);
}

#[test]
fn each_holder_has_a_ttl_of_its_own_which_ends_its_hold_alone() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE k r1 SHARED PX 100000");
    let fence = other.int("LOCK.ACQUIRE k r2 SHARED PX 100000");
    let mut writer = queued(&fleet.servers[1], "LOCK.ACQUIRE k w PX 100000 BLOCK 0");
    assert_eq!(other.int("LOCK.RENEW k r1 PX 20"), fence);
    wait_until(|| one.call("LOCK.FENCE k r1") == "$-1");
    assert_eq!(one.int("LOCK.FENCE k r2"), fence);
    assert_eq!(in_queue(&mut one, "k"), 1);
    one.expect(&[("PEXPIRE k 30", ":1")]);
    assert!(acquired(&mut writer) > fence);
    other.expect(&[("GET k", "$1 w")]);
    // The TTL of the holder that lasts longest is the key's, whatever becomes of the value.
    one.expect(&[
        ("MULTI", "+OK"),
        ("LOCK.ACQUIRE s r1 SHARED PX 100000", "+QUEUED"),
        ("LOCK.RELEASE s none", "+QUEUED"),
    ]);
    one.call("EXEC");
    one.expect(&[("MULTI", "+OK"), ("LOCK.ACQUIRE s r2 SHARED PX 200000", "+QUEUED"), ("SET s v KEEPTTL", "+QUEUED")]);
    one.call("EXEC");
    assert!((100_001..=200_000).contains(&one.int("PTTL s")) && (100_001..=200_000).contains(&other.int("PTTL s")));
}

#[test]
fn several_locks_are_taken_together_or_not_at_all_by_those_that_wait_on_any_server() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let fences = several(&one.call("LOCK.ACQUIREMULTI 2 a b t PX 100000"));
    assert!(fences.len() == 2 && fences[0] != fences[1]);
    assert_eq!(several(&other.call("LOCK.ACQUIREMULTI 2 a b t PX 100000")), fences);
    other.expect(&[
        ("LOCK.ACQUIREMULTI 2 b c u PX 100000", "*-1"),
        ("EXISTS c", ":0"),
        ("LOCK.ACQUIREMULTI 2 c c u PX 1", "-ERR key 'c' is named twice"),
    ]);
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIREMULTI 2 c a both PX 100000 BLOCK 0");
    // A free lock with a queue is free for ordinary commands alone.
    wait_until(|| in_queue(&mut one, "c") == 1);
    one.expect(&[("EXISTS c", ":0"), ("LOCK.ACQUIRE c u PX 100000", "$-1"), ("DBSIZE", ":2")]);
    assert!(one.call("LOCK.INFO c").contains("$4 mode $4 free"));
    one.expect(&[("SETNX c poller", ":1"), ("LOCK.RELEASE a t", ":1"), ("EXISTS a", ":0"), ("DEL c", ":1")]);
    let fences = several(&waiter.reply());
    other.expect(&[("GET a", "$4 both"), ("GET c", "$4 both")]);
    assert_eq!([other.int("LOCK.FENCE c both"), other.int("LOCK.FENCE a both")], fences[..]);
    // Calls with names in any order do not block each other.
    let mut waiters: Vec<Client> = (0..20).map(|at| fleet.servers[at % 2].client()).collect();
    send(&mut waiters, |at| {
        let names = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]][at % 3].join(" ");
        format!("LOCK.ACQUIREMULTI 3 {names} w{at} PX 100000 BLOCK 0")
    });
    other.expect(&[("LOCK.RELEASE a both", ":1"), ("LOCK.RELEASE b t", ":1"), ("LOCK.RELEASE c both", ":1")]);
    thread::scope(|scope| {
        for (at, waiter) in waiters.iter_mut().enumerate() {
            scope.spawn(move || {
                assert_eq!(several(&waiter.reply()).len(), 3);
                for key in ["a", "b", "c"] {
                    assert_eq!(waiter.call(&format!("LOCK.RELEASE {key} w{at}")), ":1");
                }
            });
        }
    });
    one.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn a_client_that_has_one_of_several_locks_waits_for_the_others_only() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE c holder PX 600000");
    let mut next = queued(&fleet.servers[1], "LOCK.ACQUIRE c next PX 600000 BLOCK 0");
    other.expect(&[("SET a plain", "+OK")]);
    let mut holder = queued(&fleet.servers[0], "LOCK.ACQUIREMULTI 2 c a holder PX 600000 BLOCK 0");
    other.expect(&[("DEL a", ":1")]);
    assert_eq!(several(&holder.reply()).len(), 2);
    other.expect(&[("LOCK.RELEASE c holder", ":1")]);
    assert!(next.reply().starts_with(':'));
}

#[test]
fn clients_that_wait_for_several_locks_with_one_token_are_served_once_each_in_their_order() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE a t PX 100000");
    other.int("LOCK.ACQUIRE b x PX 100000");
    let mut waiters: Vec<Client> = (0..2)
        .map(|at| {
            let mut client = fleet.servers[at].client();
            client.call(&format!("CLIENT SETNAME waiter-{at}"));
            let client = queued_as(&fleet.servers[at], client, "LOCK.ACQUIREMULTI 2 a b t PX 100000 BLOCK 0");
            wait_until(|| in_queue(&mut one, "b") == at + 1);
            client
        })
        .collect();
    other.expect(&[("LOCK.RELEASE b x", ":1")]);
    waiters.iter_mut().for_each(|waiter| assert_eq!(several(&waiter.reply()).len(), 2));
    for key in ["a", "b"] {
        let info = one.call(&format!("LOCK.INFO {key}"));
        assert!(info.contains("waiter-1"), "the last one stands as the holder: {info}");
    }
}

#[test]
fn one_that_gives_up_several_locks_leaves_all_queues_and_lets_the_next_in() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE a t PX 100000");
    let both = queued(&fleet.servers[1], "LOCK.ACQUIREMULTI 2 a b both PX 100000 BLOCK 0");
    let mut next = queued(&fleet.servers[0], "LOCK.ACQUIRE b next PX 100000 BLOCK 0");
    drop(both);
    acquired(&mut next);
    wait_until(|| in_queue(&mut other, "a") == 0);
    other.expect(&[("LOCK.RELEASE a t", ":1"), ("LOCK.RELEASE b next", ":1"), ("DBSIZE", ":0")]);
    one.expect(&[("LOCK.INFO a", "*-1"), ("LOCK.INFO b", "*-1")]);
}

#[test]
fn sessions_of_readers_end_with_their_connections_and_with_their_server() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let mut other = fleet.servers[1].client();
    let mut dead = fleet.servers[0].client();
    let mut closing = fleet.servers[2].client();
    dead.int("LOCK.ACQUIRE k dead SHARED SESSION");
    closing.int("LOCK.ACQUIRE k closing SHARED SESSION");
    other.int("LOCK.ACQUIRE k timed SHARED PX 100000");
    let gone = queued(&fleet.servers[0], "LOCK.ACQUIRE k gone PX 100000 BLOCK 0");
    let mut heir = queued(&fleet.servers[1], "LOCK.ACQUIRE k heir SHARED PX 100000 BLOCK 0");
    drop(closing);
    wait_until(|| other.call("LOCK.FENCE k closing") == "$-1");
    other.int("LOCK.FENCE k dead");
    drop(fleet.servers.remove(0));
    drop(gone);
    // The reader behind the writer of the dead server joins the others.
    let period = acquired(&mut heir);
    assert_eq!(other.int("LOCK.FENCE k timed"), period);
    wait_until(|| other.call("LOCK.FENCE k dead") == "$-1");
    drop(dead);
}

#[test]
fn locks_of_a_session_are_taken_over_at_another_server_while_its_grace_lasts() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let mut other = fleet.servers[1].client();
    let set_graces = |fleet: &Fleet, ms: u64| {
        let set = format!("CONFIG SET session-grace-ms {ms}");
        fleet.servers.iter().for_each(|server| assert_eq!(server.client().call(&set), "+OK"));
    };
    set_graces(&fleet, 100_000_000);
    let take = |client: &mut Client| {
        let alone = client.int("LOCK.ACQUIRE alone t SESSION META note");
        let shared = client.int("LOCK.ACQUIRE shared t SHARED SESSION");
        let permit = client.int("LOCK.ACQUIRE permit t PERMITS 1 OF 2 PX 100000");
        [alone, shared, permit]
    };
    let mut holder = fleet.servers[0].client();
    let fences = take(&mut holder);
    other.int("LOCK.ACQUIRE shared u SHARED SESSION");
    drop(holder);
    // The user has to be the same, and may take over only what it may write.
    let mut another = fleet.servers[1].client();
    another.expect(&[
        ("ACL SETUSER another on nopass ~* +@all", "+OK"),
        ("AUTH another x", "+OK"),
        ("LOCK.RESUME t", "*0"),
    ]);
    let mut narrow = fleet.servers[1].client();
    narrow.expect(&[
        ("MULTI", "+OK"),
        ("LOCK.RESUME t", "+QUEUED"),
        ("SET x 1", "+QUEUED"),
        ("EXEC", "-EXECABORT Transaction discarded because of: 'lock.resume' needs keys that are not declared, which engine etcd does not have here"),
        ("ACL SETUSER default resetkeys %R~alone %R~shared ~permit", "+OK"),
        ("LOCK.RESUME t", "*1 $6 permit"),
        ("ACL SETUSER default allkeys", "+OK"),
    ]);
    // After the end of a connection, and after that of its server.
    for end in 0..2 {
        let mut heir = fleet.servers[2 - end].client();
        let resumed = heir.call("LOCK.RESUME t");
        let names = ["alone", "shared", "permit"];
        assert!(resumed.starts_with("*3 ") && names.iter().all(|name| resumed.contains(name)), "{resumed}");
        assert_eq!(names.map(|name| heir.int(&format!("LOCK.FENCE {name} t"))), fences);
        heir.expect(&[("LOCK.RESUME nobody", "*0")]);
        if end == 0 {
            drop(fleet.servers.remove(2));
            continue;
        }
        set_graces(&fleet, 5);
        drop(heir);
        wait_until(|| other.call("EXISTS alone") == ":0" && other.call("LOCK.FENCE shared t") == "$-1");
        other.int("LOCK.FENCE shared u");
        other.int("LOCK.FENCE permit t");
    }
}

#[test]
fn the_loss_of_a_shared_lock_is_announced_to_each_of_its_holders() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut other = fleet.servers[1].client();
    for (reason, removal) in [("deleted", "DEL k"), ("overwritten", "SET k shared:"), ("flushed", "FLUSHALL")] {
        other.call("FLUSHALL");
        let mut holders = [0, 1].map(|server| fleet.servers[server].client3());
        let fence = holders[0].int("LOCK.ACQUIRE k t0 SHARED PX 60000 NOTIFY");
        assert_eq!(holders[1].int("LOCK.ACQUIRE k t1 SHARED PX 60000 NOTIFY"), fence);
        other.call(removal);
        for (at, holder) in holders.iter_mut().enumerate() {
            let shown = format!(">5 $9 lock-lost $1 k $2 t{at} :{fence} ${} {reason}", reason.len());
            assert_eq!(holder.reply(), shown, "after {removal}");
        }
    }
}

#[test]
fn a_transaction_takes_shared_locks_permits_and_several_locks_with_their_fences() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[
        ("MULTI", "+OK"),
        ("LOCK.ACQUIRE r t SHARED PX 100000", "+QUEUED"),
        ("LOCK.ACQUIREMULTI 2 a b t PX 100000", "+QUEUED"),
        ("LOCK.ACQUIRE s t PERMITS 1 OF 2 PX 100000", "+QUEUED"),
        ("LOCK.RESIZE s 3", "+QUEUED"),
    ]);
    let done = one.call("EXEC");
    let fence = |other: &mut Client, key: &str| other.int(&format!("LOCK.FENCE {key} t"));
    let [r, a, b, s] = ["r", "a", "b", "s"].map(|key| fence(&mut other, key));
    assert_eq!(done, format!("*4 :{r} *2 :{a} :{b} :{s} :1"));
    other.expect(&[("GET s", "$9 permits:3")]);
}

#[test]
fn readers_that_come_and_go_on_all_servers_never_hold_beside_a_writer() {
    let Some(fleet) = Fleet::start(3) else { return };
    let inside = parking::Inside::default();
    thread::scope(|scope| {
        for at in 0..9 {
            let (server, inside): (&TestServer, _) = (&fleet.servers[at % 3], &inside);
            scope.spawn(move || {
                let mut client = server.client();
                for round in 0..12 {
                    let (mode, is_writer) = if (at + round) % 3 == 0 { ("", true) } else { (" SHARED", false) };
                    let fence = client.int(&format!("LOCK.ACQUIRE k t{at}{mode} PX 100000 BLOCK 0"));
                    inside.enter(is_writer, fence);
                    inside.leave(is_writer);
                    assert_eq!(client.call(&format!("LOCK.RELEASE k t{at}")), ":1");
                }
            });
        }
    });
    fleet.servers[0].client().expect(&[("EXISTS k", ":0")]);
}

mod parking {
    //! The clients that hold a lock at the same time.

    use std::sync::Mutex;

    /// Numbers of readers and writers, and the largest fencing token of a writer.
    #[derive(Default)]
    pub(super) struct Inside(Mutex<(usize, usize, i64)>);

    impl Inside {
        pub(super) fn enter(&self, is_writer: bool, fence: i64) {
            let mut inside = self.0.lock().expect("no panic");
            if is_writer {
                assert_eq!((inside.0, inside.1), (0, 0), "a writer beside others");
                assert!(fence > inside.2, "{fence} after {}", inside.2);
                (inside.1, inside.2) = (1, fence);
            } else {
                assert_eq!(inside.1, 0, "a reader beside a writer");
                assert!(fence > inside.2, "{fence} after {}", inside.2);
                inside.0 += 1;
            }
        }

        pub(super) fn leave(&self, is_writer: bool) {
            let mut inside = self.0.lock().expect("no panic");
            if is_writer { inside.1 -= 1 } else { inside.0 -= 1 }
        }
    }
}

#[test]
fn who_waits_for_several_locks_that_are_flushed_goes_on_to_wait_for_the_one_that_another_client_gets() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.expect(&[("SET a t", "+OK"), ("SET c t", "+OK")]);
    let mut first = queued(&fleet.servers[1], "LOCK.ACQUIRE a u SHARED PX 100000 BLOCK 0 SESSION");
    let mut several = queued(&fleet.servers[0], "LOCK.ACQUIREMULTI 3 a c b w PX 100000 BLOCK 0");
    let mut behind = queued(&fleet.servers[1], "LOCK.ACQUIRE b u PERMITS 1 OF 2 PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut one, "b") == 2);
    one.expect(&[("FLUSHALL", "+OK")]);
    acquired(&mut first);
    wait_until(|| in_queue(&mut other, "b") == 2 && in_queue(&mut one, "b") == 2);
    one.expect(&[("LOCK.RELEASE a u", ":1")]);
    several.reply();
    one.expect(&[("DEL b", ":1")]);
    acquired(&mut behind);
}
