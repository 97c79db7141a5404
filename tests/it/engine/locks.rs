//! `LOCK.*` on several servers of a cluster: the order of grants, lost locks, and sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use keylatch::Clock;

use crate::engine::Fleet;
use crate::engine::etcd::Etcd;
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::harness::{Client, TestServer, wait_until};

/// Returns a new client that is queued for a lock.
pub(super) fn queued(server: &TestServer, request: &str) -> Client {
    queued_as(server, server.client(), request)
}

/// Sends the request of a client that is queued for a lock.
pub(super) fn queued_as(server: &TestServer, mut client: Client, request: &str) -> Client {
    let shown = format!("CLIENT LIST ID {}", client.int("CLIENT ID"));
    client.send(format!("{request}\r\n").as_bytes());
    let mut other = server.client();
    wait_until(|| other.call(&shown).contains(" lwait=1"));
    client
}

/// Returns the fencing token in the reply to a client.
pub(super) fn acquired(client: &mut Client) -> i64 {
    let reply = client.reply();
    reply.strip_prefix(':').and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("no fence but {reply}"))
}

/// Returns a field of a section of INFO.
fn info(client: &mut Client, section: &str, name: &str) -> String {
    let info = client.call(&format!("INFO {section}"));
    let value = info.split(' ').find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

/// Returns the number of clients in the queue shown by LOCK.INFO.
pub(super) fn in_queue(client: &mut Client, key: &str) -> usize {
    client.call(&format!("LOCK.INFO {key}")).matches("waited-ms").count()
}

#[test]
fn those_in_the_queue_get_the_lock_in_order_on_whatever_server_and_no_poller_gets_in_between() {
    let Some(fleet) = Fleet::start(3) else { return };
    let mut holder = fleet.servers[0].client();
    let mut last = holder.int("LOCK.ACQUIRE k held PX 100000");
    let mut waiters: Vec<Client> = (0..9)
        .map(|at| queued(&fleet.servers[at % 3], &format!("LOCK.ACQUIRE k token{at} PX 100000 BLOCK 0")))
        .collect();
    let (is_over, mut other) = (AtomicBool::new(false), fleet.servers[2].client());
    thread::scope(|scope| {
        for server in &fleet.servers {
            let (mut poller, is_over) = (server.client(), &is_over);
            scope.spawn(move || {
                while !is_over.load(SeqCst) {
                    poller.expect(&[("SETNX k poller", ":0")]);
                }
            });
        }
        assert_eq!(holder.call("LOCK.RELEASE k held"), ":1");
        for (at, waiter) in waiters.iter_mut().enumerate() {
            let fence = acquired(waiter);
            assert!(fence > last, "{fence} after {last}");
            last = fence;
            other.expect(&[("GET k", &format!("$6 token{at}"))]);
            if at < 8 {
                // Any server, and any command, may end it.
                let ends = ["LOCK.RELEASE k token", "DELEX k IFEQ token"][at % 2];
                assert_eq!(other.call(&format!("{ends}{at}")), ":1");
            }
        }
        is_over.store(true, SeqCst);
    });
    other.expect(&[("LOCK.RELEASE k token8", ":1"), ("EXISTS k", ":0")]);
}

/// Has one server remove a lock by these requests, which a client of the other one waits for; asserts that the client gets
/// it and nobody else, and returns the number of transactions that the removing server has sent.
fn transactions_of_removal(fleet: &Fleet, removal: &str) -> u64 {
    let [mut one, mut other] = fleet.two_clients();
    one.call("FLUSHALL");
    one.int("LOCK.ACQUIRE k t PX 100000");
    let mut waiter = queued(&fleet.servers[0], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    wait_until(|| in_queue(&mut other, "k") == 1); // otherwise its transaction would be refused and repeated
    let before: u64 = info(&mut other, "engine", "engine_transactions").parse().expect("a number");
    removal.split("; ").for_each(|request| _ = other.call(request));
    acquired(&mut waiter);
    other.expect(&[("SETNX k poller", ":0"), ("GET k", "$4 next")]);
    let after: u64 = info(&mut other, "engine", "engine_transactions").parse().expect("a number");
    one.expect(&[("LOCK.RELEASE k next", ":1")]);
    after - before // SETNX changes nothing, and so is no transaction
}

#[test]
fn whatever_removes_a_lock_hands_it_over_in_the_same_transaction() {
    let Some(fleet) = Fleet::start(2) else { return };
    for removal in [
        "DEL k",
        "UNLINK k",
        "GETDEL k",
        "DELEX k IFEQ t",
        "GETEX k PXAT 1",
        "PEXPIRE k -1",
        "SET k x PXAT 1",
        "RENAME k elsewhere",
        "MOVE k 1",
        "LOCK.RELEASE k t",
        "MULTI; SET x 1; DEL k; EXEC",
        #[cfg(feature = "lua")]
        "EVAL return(redis.call('del',KEYS[1])) 1 k",
    ] {
        assert_eq!(transactions_of_removal(&fleet, removal), 1, "{removal}");
    }
}

#[test]
fn a_lock_that_a_flush_has_removed_is_handed_over_afterwards_before_anybody_else_can_take_it() {
    let Some(fleet) = Fleet::start(2) else { return };
    for removal in ["FLUSHDB", "FLUSHALL"] {
        let sent = transactions_of_removal(&fleet, removal);
        assert!((1..=2).contains(&sent), "{removal}: {sent}"); // either server hands it over
    }
}

#[test]
fn a_lock_that_expires_is_handed_over_and_the_ttl_of_the_next_counts_from_then_on() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let first = one.int("LOCK.ACQUIRE k t PX 100000");
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    one.expect(&[("PEXPIRE k 50", ":1")]);
    assert!(acquired(&mut waiter) > first);
    assert!((90_000..=100_000).contains(&one.int("PTTL k")));
    other.expect(&[("GET k", "$4 next")]);
    wait_until(|| info(&mut one, "locks", "expired_while_held_total") == "1"); // counted at its holder's server
    assert_eq!(info(&mut other, "locks", "expired_while_held_total"), "0");
}

#[test]
fn one_that_gives_up_leaves_the_queue_on_all_servers() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE k t PX 100000");
    let mut late = queued(&fleet.servers[0], "LOCK.ACQUIRE k late PX 1000 BLOCK 100");
    let mut unblocked = fleet.servers[1].client();
    let id = unblocked.int("CLIENT ID");
    unblocked = queued_as(&fleet.servers[1], unblocked, "LOCK.ACQUIRE k unblocked PX 1000 BLOCK 0");
    let gone = queued(&fleet.servers[1], "LOCK.ACQUIRE k gone PX 1000 BLOCK 0");
    let mut last = queued(&fleet.servers[0], "LOCK.ACQUIRE k last PX 100000 BLOCK 0");
    assert_eq!(late.reply(), "$-1");
    other.expect(&[(&format!("CLIENT UNBLOCK {id} ERROR"), ":1")]);
    assert_eq!(unblocked.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    drop(gone);
    wait_until(|| in_queue(&mut one, "k") == 1);
    assert_eq!(in_queue(&mut other, "k"), 1);
    one.expect(&[("LOCK.RELEASE k t", ":1")]);
    acquired(&mut last);
    late.expect(&[("LOCK.ACQUIRE k late PX 1000", "$-1"), ("PING", "+PONG")]);
}

#[test]
fn those_that_wait_with_the_same_token_are_served_together() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    one.int("LOCK.ACQUIRE k t PX 100000");
    let mut same = [0, 1].map(|server| queued(&fleet.servers[server], "LOCK.ACQUIRE k same PX 100000 BLOCK 0"));
    let mut next = queued(&fleet.servers[0], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    one.expect(&[("LOCK.RELEASE k t", ":1")]);
    let fences = same.each_mut().map(acquired);
    assert_eq!(fences[0], fences[1]);
    assert_eq!(other.int("LOCK.ACQUIRE k same PX 100000"), fences[0]);
    assert_eq!(other.int("LOCK.FENCE k same"), fences[0]);
    other.expect(&[("LOCK.RENEW k t PX 1", "$-1"), ("LOCK.RELEASE k same", ":1")]);
    assert!(acquired(&mut next) > fences[0]);
}

#[test]
fn the_end_of_a_connection_releases_its_session_locks_on_whatever_server_others_wait() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut other = fleet.servers[1].client();
    for end in ["close", "RESET"] {
        let mut holder = fleet.servers[0].client();
        holder.int("LOCK.ACQUIRE k held SESSION");
        holder.int("LOCK.ACQUIRE kept held PX 100000");
        let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next SESSION BLOCK 0");
        match end {
            "close" => drop(holder),
            reset => assert_eq!(holder.call(reset), "+RESET"),
        }
        acquired(&mut waiter);
        other.expect(&[("GET k", "$4 next"), ("GET kept", "$4 held")]);
        drop(waiter);
        wait_until(|| other.call("EXISTS k") == ":0");
    }
}

#[test]
fn a_server_that_stops_gives_back_its_sessions_and_its_places_in_queues() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let mut other = fleet.servers[1].client();
    let mut dead = fleet.servers[0].client();
    dead.int("LOCK.ACQUIRE session dead SESSION");
    dead.int("LOCK.ACQUIRE timed dead PX 100000");
    other.int("LOCK.ACQUIRE k t PX 100000");
    let gone = queued(&fleet.servers[0], "LOCK.ACQUIRE k gone PX 100000 BLOCK 0");
    let mut next = queued(&fleet.servers[2], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    let mut heir = queued(&fleet.servers[1], "LOCK.ACQUIRE session heir PX 100000 BLOCK 0");
    drop(fleet.servers.remove(0));
    drop(gone);
    acquired(&mut heir);
    wait_until(|| in_queue(&mut other, "k") == 1);
    other.expect(&[("GET timed", "$4 dead"), ("LOCK.RELEASE k t", ":1")]);
    acquired(&mut next);
}

#[test]
fn the_loss_of_a_lock_is_announced_on_all_servers_and_its_holder_is_told() {
    let Some(fleet) = Fleet::start(2) else { return };
    let mut other = fleet.servers[1].client();
    for (reason, removal) in [
        ("deleted", "DEL k"),
        ("overwritten", "SET k other"),
        ("renamed", "RENAME k elsewhere"),
        ("moved", "MOVE k 1"),
        ("flushed", "FLUSHALL"),
        ("released", "LOCK.RELEASE k t"),
        ("expired", "PEXPIRE k 5"),
    ] {
        other.call("FLUSHALL");
        let mut holder = fleet.servers[0].client3();
        let mut listeners = [0, 1].map(|server| fleet.servers[server].client());
        for listener in &mut listeners {
            assert_eq!(listener.call("SUBSCRIBE __lock__:k"), "*3 $9 subscribe $10 __lock__:k :1");
        }
        let fence = holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
        other.call(removal);
        let shown = format!(">5 $9 lock-lost $1 k $1 t :{fence} ${} {reason}", reason.len());
        assert_eq!(holder.reply(), shown, "after {removal}");
        let len = reason.len() + 1 + fence.to_string().len();
        let message = format!("*3 $7 message $10 __lock__:k ${len} {reason} {fence}");
        for listener in &mut listeners {
            assert_eq!(listener.reply(), message, "after {removal}");
        }
    }
}

#[test]
fn a_release_of_ones_own_is_not_announced() {
    let Some(fleet) = Fleet::start(1) else { return };
    let mut holder = fleet.servers[0].client3();
    holder.int("LOCK.ACQUIRE k t PX 60000 NOTIFY");
    holder.expect(&[("LOCK.RELEASE k t", ":1"), ("EXISTS k", ":0"), ("PING", "+PONG")]);
}

#[test]
fn locks_are_shown_with_the_servers_of_their_holders_and_of_those_in_the_queue() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let processes = [&mut one, &mut other].map(|client| {
        wait_until(|| info(client, "engine", "engine_process").contains(|digit: char| digit != '0'));
        info(client, "engine", "engine_process")
    });
    one.expect(&[("CLIENT SETNAME holder", "+OK")]);
    let fence = one.int("LOCK.ACQUIRE k t SESSION META note");
    let (id, addr) = (one.int("CLIENT ID"), one.local_addr().to_string());
    let mut waiter = fleet.servers[1].client();
    waiter.expect(&[("CLIENT SETNAME waiter", "+OK")]);
    let (waiter_id, waiter_addr) = (waiter.int("CLIENT ID"), waiter.local_addr().to_string());
    let _waiter = queued_as(&fleet.servers[1], waiter, "LOCK.ACQUIRE k next PX 1000 BLOCK 0");
    for client in [&mut one, &mut other] {
        let said = client.call("LOCK.INFO k");
        for part in [
            format!("*36 $5 token $1 t $5 fence :{fence} $4 pttl :-1 $6 age-ms :"),
            format!("$9 client-id :{id} $7 process $16 {} $4 addr ${} {addr}", processes[0], addr.len()),
            "$11 client-name $6 holder $3 lib $0  $4 user $7 default $4 meta $4 note $7 session :1".to_owned(),
            format!("$7 waiters *1 *14 $9 client-id :{waiter_id} $7 process $16 {}", processes[1]),
            format!("$4 addr ${} {waiter_addr} $11 client-name $6 waiter $9 waited-ms :", waiter_addr.len()),
        ] {
            assert!(said.contains(&part), "{part} is not in {said}");
        }
        let list = client.call("LOCK.LIST 0");
        let process = &processes[0];
        let shown = format!(
            "$7 waiting :1 $11 client-name $6 holder $7 process $16 {process} $4 mode $9 exclusive $7 holders :1"
        );
        assert!(list.starts_with("*2 $1 0 *1 *18 $3 key $1 k") && list.ends_with(&shown), "{list}");
        let said = ["held", "waiting", "durability"].map(|name| info(client, "locks", name));
        assert_eq!(said, ["1", "1", "etcd"]);
    }
    let mut shown = || other.call(&format!("CLIENT LIST ID {waiter_id}"));
    assert!(shown().contains(" locks=0 lwait=1"), "{}", shown());
}

#[test]
fn the_client_that_closes_a_cycle_is_refused_on_whatever_server() {
    let Some(fleet) = Fleet::start(2) else { return };
    for round in 0..20 {
        let mut clients = [0, 1].map(|server| fleet.servers[server].client());
        let keys = [0, 1].map(|number| format!("{round}:{number}"));
        for (client, key) in clients.iter_mut().zip(&keys) {
            client.int(&format!("LOCK.ACQUIRE {key} of-{key} SESSION"));
        }
        // At the same time: the cluster decides which of them is the second one.
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(format!("LOCK.ACQUIRE {} other SESSION BLOCK 0\r\n", keys[1 - at]).as_bytes());
        }
        let replies = thread::scope(|scope| {
            let ends = clients.iter_mut().map(|client| {
                scope.spawn(|| {
                    let reply = client.reply();
                    if reply.starts_with("-DEADLOCK ") {
                        assert_eq!(client.call("RESET"), "+RESET"); // then the other client is served
                    }
                    reply
                })
            });
            let ends: Vec<_> = ends.collect();
            ends.into_iter().map(|end| end.join().expect("it is answered")).collect::<Vec<String>>()
        });
        let (refused, served): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.starts_with('-'));
        assert!(refused.len() == 1 && served[0].starts_with(':'), "{refused:?} and {served:?}");
        let shown = refused[0].strip_prefix("-DEADLOCK ").expect("a cycle");
        assert!(keys.iter().all(|key| shown.contains(&**key)) && shown.contains(" of process "), "{shown}");
    }
}

#[test]
fn a_queue_for_a_watched_lock_does_not_break_the_watch_and_its_end_does() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut caching = fleet.servers[0].client3();
    caching.expect(&[("CLIENT TRACKING ON", "+OK")]);
    one.int("LOCK.ACQUIRE k t PX 100000");
    one.expect(&[("WATCH k", "+OK"), ("GET k", "$1 t")]);
    caching.expect(&[("GET k", "$1 t")]);
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    one.expect(&[("MULTI", "+OK"), ("DEL k", "+QUEUED"), ("EXEC", "*1 :1")]);
    acquired(&mut waiter);
    assert_eq!(caching.reply(), ">2 $10 invalidate *1 $1 k");
    one.expect(&[("WATCH k", "+OK"), ("GET k", "$4 next")]);
    other.expect(&[("LOCK.RELEASE k next", ":1")]);
    one.expect(&[("MULTI", "+OK"), ("SET k mine", "+QUEUED"), ("EXEC", "*-1"), ("EXISTS k", ":0")]);
}

#[test]
fn in_a_transaction_locks_have_fencing_tokens_and_nobody_waits() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    other.int("LOCK.ACQUIRE held t PX 100000");
    one.expect(&[
        ("MULTI", "+OK"),
        ("SET x 1", "+QUEUED"),
        ("LOCK.ACQUIRE a t PX 100000", "+QUEUED"),
        ("LOCK.ACQUIRE b t SESSION", "+QUEUED"),
        ("LOCK.ACQUIRE held mine PX 1000 BLOCK 0", "+QUEUED"),
        ("LOCK.FENCE a t", "+QUEUED"),
        ("GET x", "+QUEUED"),
    ]);
    let a = one.call("EXEC");
    let fences = [other.int("LOCK.FENCE a t"), other.int("LOCK.FENCE b t")];
    assert_eq!(a, format!("*6 +OK :{0} :{1} $-1 :{0} $1 1", fences[0], fences[1]));
    assert!(fences[0] < fences[1]);
    one.expect(&[
        ("LOCK.ACQUIRE k t PX 1000 REPLICAS 1", "-ERR REPLICAS must be below 1, the number of members of the etcd cluster"),
        ("MULTI", "+OK"),
        ("SET x 1", "+QUEUED"),
        ("LOCK.INFO a", "+QUEUED"),
        ("EXEC", "-EXECABORT Transaction discarded because of: 'lock.info' needs keys that are not declared, which engine etcd does not have here"),
    ]);
}

#[cfg(feature = "lua")]
#[test]
fn scripts_take_and_release_locks_whose_fencing_tokens_are_known_afterwards() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let script = |words: &str| format!("EVAL return(redis.call({words})) 1 k");
    let mut last = other.int("LOCK.ACQUIRE k t PX 100000");
    for _ in 0..5 {
        other.expect(&[("LOCK.RELEASE k t", ":1")]);
        one.expect(&[(&script("'lock.acquire',KEYS[1],'t','PX','100000'"), ":0")]);
        let fence = other.int("LOCK.FENCE k t");
        assert!(fence > last, "{fence} after {last}");
        let renewed = script("'lock.renew',KEYS[1],'t','PX','200000'");
        assert_eq!([one.int(&renewed), one.int(&script("'lock.fence',KEYS[1],'t'"))], [fence, fence]);
        last = fence;
    }
    // The first in the queue gets what a script releases, and a script never waits.
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    one.expect(&[
        (&script("'lock.acquire',KEYS[1],'other','PX','1000','BLOCK','0'"), "$-1"),
        (&script("'lock.release',KEYS[1],'t'"), ":1"),
    ]);
    assert!(acquired(&mut waiter) > last);
    let several = "EVAL return(redis.call('lock.acquiremulti',2,KEYS[1],KEYS[2],'t','PX','100000')) 2 a b";
    assert_eq!(one.call(several), "*2 :0 :0");
    assert!(other.int("LOCK.FENCE a t") != other.int("LOCK.FENCE b t"));
}

#[test]
fn a_flush_hands_over_every_lock_that_is_waited_for() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut waiters: Vec<Client> = (0..150)
        .map(|number| {
            one.int(&format!("LOCK.ACQUIRE k{number} t PX 100000"));
            one.call(&format!("SET plain{number} v"));
            queued(&fleet.servers[number % 2], &format!("LOCK.ACQUIRE k{number} next PX 100000 BLOCK 0"))
        })
        .collect();
    other.expect(&[("FLUSHALL", "+OK"), ("SET k7 late NX", "$-1")]);
    waiters.iter_mut().for_each(|waiter| _ = acquired(waiter));
    one.expect(&[("EXISTS plain3", ":0"), ("DBSIZE", ":150"), ("GET k7", "$4 next"), ("FLUSHALL", "+OK")]);
    one.expect(&[("DBSIZE", ":0")]);
    other.expect(&[("DBSIZE", ":0")]);
}

#[test]
fn a_server_that_starts_while_clients_are_queued_can_flush() {
    let Some(mut fleet) = Fleet::start(2) else { return };
    fleet.servers[0].client().int("LOCK.ACQUIRE k held PX 100000");
    let mut waiter = queued(&fleet.servers[1], "LOCK.ACQUIRE k next PX 100000 BLOCK 0");
    fleet.add(Clock::system(), &[]);
    fleet.servers[2].client().expect(&[("FLUSHALL", "+OK")]);
    acquired(&mut waiter);
}

/// Starts servers, the first of which reaches etcd over links that can be cut.
pub(super) fn linked_fleet(etcd: &Arc<Etcd>) -> Option<(Fleet, Vec<Proxy>)> {
    linked_fleet_with(etcd, Clock::system())
}

/// Starts the servers of [`linked_fleet`], the first one with a clock.
pub(super) fn linked_fleet_with(etcd: &Arc<Etcd>, clock: Clock) -> Option<(Fleet, Vec<Proxy>)> {
    let mut fleet = Fleet::start_on(etcd.clone(), 0)?;
    let links: Vec<Proxy> = etcd.addrs().iter().map(|addr| Proxy::start(*addr)).collect();
    let endpoints: Vec<String> = links.iter().map(|link| format!("http://{}", link.addr())).collect();
    fleet.add(clock, &[("etcd-endpoints", &endpoints.join(","))]);
    fleet.add(Clock::system(), &[]);
    Some((fleet, links))
}

#[test]
fn a_server_that_is_cut_off_ends_its_sessions_and_waits_before_others_take_the_locks() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some((fleet, links)) = linked_fleet(&etcd) else { return };
    let mut other = fleet.servers[1].client();
    let mut holder = fleet.servers[0].client();
    let fence = holder.int("LOCK.ACQUIRE session held SESSION");
    other.int("LOCK.ACQUIRE k t PX 100000");
    let mut waiting = queued(&fleet.servers[0], "LOCK.ACQUIRE k late PX 100000 BLOCK 0");
    let heir = queued(&fleet.servers[1], "LOCK.ACQUIRE session heir PX 100000 BLOCK 0");
    let clock = Clock::system();
    for link in &links {
        [Way::There, Way::Back].into_iter().for_each(|way| link.cut(way, Passage::Lost));
    }
    let (ended_us, taken) = thread::scope(|scope| {
        let ended = scope.spawn(|| {
            assert!(holder.read_to_end().is_empty());
            clock.now().mono_us()
        });
        let mut heir = heir;
        let taken = acquired(&mut heir);
        let taken_us = clock.now().mono_us();
        let ended_us = ended.join().expect("it ends");
        assert!(ended_us < taken_us, "the session ended at {ended_us} us, after {taken_us}");
        (ended_us, taken)
    });
    assert!(ended_us > 0 && taken > fence);
    assert_eq!(waiting.reply(), "-UNBLOCKED client unblocked via CLIENT UNBLOCK");
    links.iter().for_each(Proxy::heal);
    // It has left no waiter in the queue, and serves clients again.
    let mut back = fleet.servers[0].client();
    wait_until(|| back.call("SET x 1") == "+OK");
    wait_until(|| in_queue(&mut other, "k") == 0);
    other.expect(&[("LOCK.RELEASE k t", ":1"), ("EXISTS k", ":0")]);
    back.int("LOCK.ACQUIRE k again SESSION");
}

#[test]
fn fencing_tokens_grow_over_restarts_of_all_servers_and_a_restore_of_etcd_from_a_backup() {
    let (Some(etcd), Some(restored)) = (Etcd::start(1).map(Arc::new), Etcd::start(1).map(Arc::new)) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    let mut client = fleet.servers[0].client();
    (0..50).for_each(|_| _ = client.call("INCR n"));
    let first = client.int("LOCK.ACQUIRE k t PX 100000");
    let prefix = fleet.prefix.clone();
    drop((client, fleet));
    let mut fleet = Fleet { servers: Vec::new(), etcd, prefix: prefix.clone() };
    fleet.add(Clock::system(), &[]);
    let mut client = fleet.servers[0].client();
    assert_eq!(client.int("LOCK.FENCE k t"), first);
    let second = client.int("LOCK.ACQUIRE other t PX 100000");
    assert!(first < second && first >= 1_700_000_000_000_000, "{first} and {second}");
    // As after a restore from a backup: an early base, and smaller revisions.
    restored.put(&format!("{prefix}format"), "keylatch 1");
    restored.put(&format!("{prefix}fence"), "1700000000000000");
    let mut fleet = Fleet { servers: Vec::new(), etcd: restored, prefix };
    fleet.add(Clock::system(), &[]);
    assert!(fleet.servers[0].client().int("LOCK.ACQUIRE k t PX 100000") > second);
}

#[test]
fn a_client_that_was_told_that_the_outcome_is_not_known_does_not_stay_in_the_queue() {
    let Some(etcd) = Etcd::shared() else { return };
    let Some((fleet, links)) = linked_fleet(&etcd) else { return };
    let mut other = fleet.servers[1].client();
    other.int("LOCK.ACQUIRE k t PX 100000");
    let mut uncertain = fleet.servers[0].client();
    uncertain.expect(&[("SET x 1", "+OK"), ("CONFIG SET etcd-timeout 100", "+OK")]);
    links.iter().for_each(|link| link.cut(Way::Back, Passage::Held));
    uncertain.send(b"LOCK.ACQUIRE k late PX 100000 BLOCK 0\r\n");
    wait_until(|| in_queue(&mut other, "k") == 1);
    assert_eq!(uncertain.reply(), "-UNCERTAIN the engine has not confirmed the outcome");
    links.iter().for_each(Proxy::heal);
    wait_until(|| in_queue(&mut other, "k") == 0);
    other.expect(&[("LOCK.RELEASE k t", ":1"), ("EXISTS k", ":0")]);
}
