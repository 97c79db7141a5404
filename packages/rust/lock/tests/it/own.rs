//! What is Rust's own: futures that are dropped, owners, and what a holder is told.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use keylatch_lock::{AcquireError, Connect, Locks};
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{FromRedisValue, Value};
use tokio::sync::{Mutex, Semaphore};

use crate::admin::{Admin, Info, client, server, until};
use crate::moving::Moving;

const LONG: Duration = Duration::from_secs(600);

fn locks() -> Locks {
    Locks::new(client(&server()))
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_the_queue() {
    let mut admin = Admin::new().await;
    let held = locks().lock("report").acquire().await.unwrap();
    let waiting = tokio::spawn(async { locks().lock("report").acquire().await });
    until!("in the queue", admin.queued().await == 1);
    waiting.abort();
    until!("out of the queue", admin.queued().await == 0);
    assert!(held.release().await.unwrap());
    assert!(admin.info("report").await.is_none());
}

#[tokio::test]
async fn a_lock_that_is_granted_to_a_future_that_is_dropped_is_given_back() {
    let mut admin = Admin::new().await;
    admin.call(&["SET", "report", "other"]).await.unwrap();
    let moving = Moving::new().await;
    let locks = Locks::new(moving.clone());
    let waiting = tokio::spawn(async move { locks.lock("report").ttl(LONG).acquire().await });
    until!("in the queue", admin.queued().await == 1);
    moving.stall(true);
    admin.call(&["DEL", "report"]).await.unwrap();
    until!("granted", admin.info("report").await.is_some());
    waiting.abort();
    until!("given back", admin.info("report").await.is_none());
}

#[tokio::test]
async fn a_lock_that_is_dropped_is_released() {
    let mut admin = Admin::new().await;
    let held = locks().lock("report").ttl(LONG).acquire().await.unwrap();
    assert!(admin.info("report").await.is_some());
    drop(held);
    until!("released", admin.info("report").await.is_none());
}

#[tokio::test]
async fn who_acquires_the_lock_of_its_owner_has_it_at_once_and_the_last_release_frees_it() {
    let mut admin = Admin::new().await;
    let lock = locks().lock("report").owner("mine").wait(Duration::ZERO);
    let outer = lock.acquire().await.unwrap();
    let inner = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    let inner = inner.await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    assert!(outer.release().await.unwrap());
    assert!(!outer.release().await.unwrap());
    assert!(admin.info("report").await.is_some());
    inner.check().unwrap();
    drop(inner);
    let next = lock.wait(LONG).acquire().await.unwrap(); // after the release that the drop has begun
    assert!(next.fence() > outer.fence());
    next.check().unwrap();
    assert!(next.release().await.unwrap());
}

#[tokio::test]
async fn an_owner_whose_wait_is_dropped_acquires_again_when_the_queue_is_left() {
    let mut admin = Admin::new().await;
    let opened = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(1));
    let open = {
        let (opened, gate) = (opened.clone(), gate.clone());
        move || {
            let (is_second, gate) = (opened.fetch_add(1, SeqCst) == 1, gate.clone());
            async move {
                if is_second {
                    gate.acquire().await.unwrap().forget(); // the connection that leaves the queue is slow
                }
                Ok(client(&server()))
            }
        }
    };
    gate.acquire().await.unwrap().forget();
    let other = locks().lock("report").ttl(LONG).acquire().await.unwrap();
    let lock = Locks::new(open).lock("report").owner("mine").ttl(LONG);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    until!("in the queue", admin.queued().await == 1);
    waiting.abort();
    until!("it leaves", opened.load(SeqCst) == 2);
    other.release().await.unwrap();
    let again = lock.clone().wait(Duration::ZERO).acquire().await;
    assert!(matches!(again, Err(AcquireError::NotAcquired(_))), "{again:?}");
    gate.add_permits(1);
    let held = lock.acquire().await.unwrap();
    admin.call(&["PING"]).await.unwrap();
    held.check().unwrap();
    assert!(held.release().await.unwrap());
}

#[tokio::test]
async fn the_time_of_a_lock_that_was_waited_for_is_known_before_it_is_believed() {
    let mut admin = Admin::new().await;
    admin.call(&["SET", "report", "other"]).await.unwrap();
    let moving = Moving::new().await;
    let lock = Locks::new(moving.clone()).lock("report").ttl(LONG).renew_for(Duration::ZERO);
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until!("in the queue", admin.queued().await == 1);
    tokio::time::sleep(Duration::from_millis(150)).await; // more than what a reply takes
    admin.call(&["TEST.CALLS", "RESET"]).await.unwrap();
    admin.call(&["DEL", "report"]).await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    let renewals = admin.call(&["TEST.CALLS", "MATCH", "LOCK.RENEW"]).await.unwrap();
    assert!(matches!(renewals, Value::Array(calls) if calls.len() == 1));
    assert!(held.release().await.unwrap());
}

#[tokio::test]
async fn times_beyond_all_measure_are_a_century() {
    let _admin = Admin::new().await;
    let lock = locks().lock("report").wait(Duration::MAX).renew_for(Duration::MAX).ttl(Duration::MAX);
    assert!(lock.acquire().await.unwrap().release().await.unwrap());
}

#[tokio::test]
async fn a_lock_is_renewed_no_longer_than_it_is_to_be() {
    let mut admin = Admin::new().await;
    admin.call(&["TEST.TIME", "FREEZE"]).await.unwrap();
    let lock = locks().lock("report").ttl(Duration::from_millis(400)).renew_for(Duration::ZERO);
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.lost().await.reason, "expired");
    assert!(!held.release().await.unwrap());
    let reply = admin.call(&["TEST.TIME", "ADVANCE", "400"]).await;
    assert!(reply.is_ok(), "{reply:?}");
    let renewed = lock.renew_every(Duration::from_millis(50)).renew_for(LONG).acquire().await.unwrap();
    admin.call(&["TEST.TIME", "ADVANCE", "300"]).await.unwrap();
    let is_renewed = |info: Option<Info>| info.is_some_and(|info| info["pttl"] == Value::Int(400));
    until!("renewed", is_renewed(admin.info("report").await));
    assert!(renewed.release().await.unwrap());
}

#[tokio::test]
async fn who_does_not_obtain_a_lock_is_told_who_has_it() {
    let mut admin = Admin::new().await;
    let held = locks().lock("report").meta("nightly").ttl(LONG).acquire().await.unwrap();
    admin.call(&["TEST.TIME", "ADVANCE", "1000"]).await.unwrap();
    let several = locks().several(["ledger", "report"]).wait(Duration::ZERO).acquire().await;
    let Err(AcquireError::NotAcquired(told)) = several else { panic!("{several:?}") };
    assert_eq!((&told.name[..], &told.holder.as_ref().unwrap().meta[..]), ("report", "nightly"));
    assert!(told.age >= Some(Duration::from_secs(1)) && told.ttl <= Some(LONG), "{told:?}");
    let text = told.to_string();
    assert!(text.starts_with("the lock report was not obtained in time; it is held by nightly, 127.0.0.1:"), "{text}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn work_ends_when_its_lock_is_lost() {
    let mut admin = Admin::new().await;
    let held = locks().lock("report").ttl(LONG).acquire().await.unwrap();
    assert_eq!(held.run(async { 1 }).await, Ok(1));
    admin.call(&["DEL", "report"]).await.unwrap();
    let lost = held.run(pending::<()>()).await.unwrap_err();
    assert_eq!((&lost.reason[..], &lost.names[..]), ("deleted", &["report".to_owned()][..]));
    assert!(lost.to_string().starts_with("the lock report was lost after "), "{lost}");
}

#[tokio::test]
async fn a_server_without_lock_commands_has_plain_locks() {
    let mut admin = Admin::new().await;
    admin.call(&["TEST.TIME", "FREEZE"]).await.unwrap();
    for command in ["LOCK.ACQUIRE", "LOCK.RENEW", "LOCK.RELEASE", "LOCK.RESUME", "LOCK.INFO"] {
        admin.call(&["TEST.FAULT", "ADD", command, "ERROR", "ERR unknown command"]).await.unwrap();
    }
    let lock = locks().lock("report").ttl(Duration::from_secs(3));
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.fence(), None);
    let refused = lock.clone().wait(Duration::ZERO).acquire().await;
    let Err(AcquireError::NotAcquired(told)) = refused else { panic!("{refused:?}") };
    assert_eq!((told.holder, told.ttl), (None, Some(Duration::from_secs(3))));
    admin.call(&["TEST.TIME", "ADVANCE", "2000"]).await.unwrap();
    until!("renewed", admin.call(&["PTTL", "report"]).await.unwrap() == Value::Int(3000));
    let next = tokio::spawn(async move { lock.acquire().await });
    assert!(held.release().await.unwrap());
    let next = next.await.unwrap().unwrap();
    admin.call(&["SET", "report", "other"]).await.unwrap();
    assert_eq!(next.lost().await.reason, "expired");
    assert!(!next.release().await.unwrap());
    let session = locks().lock("report").session().acquire().await;
    assert!(matches!(session, Err(AcquireError::Unsupported("the server has no sessions"))), "{session:?}");
}

/// Makes a cluster, or a primary with sentinels, of a new name.
async fn create(admin: &mut Admin, command: &str) -> (String, Vec<Info>) {
    let topology = format!("{}-{}", &command[5..], std::process::id());
    let nodes = admin.call(&[command, "CREATE", &topology]).await.unwrap();
    (topology, Vec::from_redis_value(nodes).unwrap())
}

#[tokio::test]
async fn a_lock_is_found_at_its_node_of_a_cluster_and_at_the_next_one() {
    let mut admin = Admin::new().await;
    let (topology, nodes) = create(&mut admin, "TEST.CLUSTER").await;
    let port = |node: usize| u16::from_redis_value(nodes[node]["port"].clone()).unwrap();
    let locks = Locks::new(client(&format!("127.0.0.1:{}", port(0))));
    for name in ["a", "b", "c"] {
        let held = locks.lock(name).ttl(LONG).acquire().await.unwrap();
        let again = locks.lock(name).wait(Duration::ZERO).acquire().await;
        assert!(matches!(again, Err(AcquireError::NotAcquired(_))), "{again:?}");
        assert!(held.release().await.unwrap());
    }
    admin.call(&["TEST.CLUSTER", "MIGRATE", &topology, "3300", "1"]).await.unwrap();
    let held = locks.lock("b").ttl(LONG).acquire().await.unwrap(); // which was at the first node
    assert!(held.release().await.unwrap());
}

#[tokio::test]
async fn a_lock_follows_the_primary_that_sentinel_names() {
    let mut admin = Admin::new().await;
    let (topology, nodes) = create(&mut admin, "TEST.SENTINEL").await;
    let is_sentinel = |node: &&Info| node["role"] == Value::BulkString(b"sentinel".to_vec());
    let url = |node: &Info| format!("redis://127.0.0.1:{}", u16::from_redis_value(node["port"].clone()).unwrap());
    let sentinels: Vec<String> = nodes.iter().filter(is_sentinel).map(url).collect();
    let found = SentinelClient::build(sentinels, "mymaster".into(), None, SentinelServerType::Master).unwrap();
    let locks = Locks::new(Mutex::new(found));
    let held = locks.lock("report").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    admin.call(&["TEST.SENTINEL", "FAILOVER", &topology]).await.unwrap();
    let other = locks.lock("report").wait(Duration::ZERO).acquire().await;
    assert!(matches!(other, Err(AcquireError::NotAcquired(_))), "{other:?}");
    held.check().unwrap();
    assert!(held.release().await.unwrap());
    let next = locks.lock("report").acquire().await.unwrap();
    assert!(next.fence() > held.fence());
    assert!(next.release().await.unwrap());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_at_once() {
    let lost = Locks::new(client("127.0.0.1:1")).lock("report").acquire().await;
    assert!(matches!(lost, Err(AcquireError::Redis(_))), "{lost:?}");
    fn is_connect(_: &impl Connect) {}
    is_connect(&|| async { Ok(client("127.0.0.1:1")) });
}
