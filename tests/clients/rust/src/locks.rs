//! The claims about rslock, as `locks.py` describes them.

use std::time::{Duration, Instant};

use redis::TypedCommands;
use rslock::{Lock, LockManager};

use crate::Server;

const WORKERS: usize = 4;
const SECTIONS: usize = 20; // of each worker
const LONG: Duration = Duration::from_secs(60); // a time to live that never passes here
const SHORT: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(60);

/// Sleeps between two attempts; the clock is real, and the wait is bounded.
pub async fn pause(began: Instant, what: &str) {
    assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
    // Randomised: simultaneous attempts would prevent a quorum.
    tokio::time::sleep(Duration::from_millis(3 + u64::from(began.elapsed().subsec_micros()) % 17)).await;
}

/// A manager with connections of its own that tries once.
fn manager(servers: &[Server]) -> LockManager {
    let mut manager = LockManager::new(servers.iter().map(|server| server.url.as_str()).collect());
    manager.set_retry(1, Duration::from_millis(1));
    manager
}

async fn acquire(manager: &LockManager, key: &str, ttl: Duration) -> Lock {
    let began = Instant::now();
    loop {
        match manager.lock(key, ttl).await {
            Ok(lock) => return lock,
            Err(_) => pause(began, key).await,
        }
    }
}

/// Reads a key from every server that is up.
fn state(servers: &[Server], key: &str) -> Vec<Option<Vec<u8>>> {
    let live = servers.iter().filter_map(Server::connect);
    live.map(|mut con| redis::cmd("GET").arg(key).query(&mut con).expect("a reply")).collect()
}

/// Makes all claims, and says so.
pub async fn claims(servers: &[Server]) {
    let began = Instant::now();
    let over = if servers.len() == 5 { ", over 5 servers, two of them killed" } else { "" };
    if servers.len() == 5 {
        survival(servers).await;
    }
    exclusion(servers).await;
    takeover(servers).await;
    refusal(servers).await;
    println!("rslock: exclusion, takeover, refusal{over}: {:.1} s", began.elapsed().as_secs_f32());
}

/// Adds to the counter a number of times, each time under the lock; returns how often another was there too.
async fn work(manager: LockManager, mut con: redis::Connection) -> usize {
    let mut overlaps = 0;
    for _ in 0..SECTIONS {
        let lock = acquire(&manager, "contended", LONG).await;
        overlaps += usize::from(!con.set_nx("inside", 1).expect("a reply"));
        let count = con.get_int("counter").expect("a reply").unwrap_or(0);
        tokio::task::yield_now().await;
        con.set("counter", count + 1).expect("a reply");
        overlaps += usize::from(con.del("inside").expect("a reply") != 1);
        lock.release().await;
    }
    overlaps
}

async fn exclusion(servers: &[Server]) {
    let workers = (0..WORKERS).map(|_| tokio::spawn(work(manager(servers), servers[0].connect().expect("it is up"))));
    for worker in workers.collect::<Vec<_>>() {
        assert_eq!(worker.await.expect("no panic"), 0, "sections overlap");
    }
    let count = servers[0].connect().expect("it is up").get_int("counter").expect("a reply");
    assert_eq!(count, Some(isize::try_from(WORKERS * SECTIONS).expect("a small number")));
}

async fn takeover(servers: &[Server]) {
    let (first, second) = (manager(servers), manager(servers));
    let began = Instant::now();
    acquire(&first, "passing", SHORT).await;
    let lock = acquire(&second, "passing", LONG).await;
    assert!(began.elapsed() + Duration::from_millis(2) >= SHORT, "taken over before its time");
    lock.release().await;
}

async fn refusal(servers: &[Server]) {
    let (first, second) = (manager(servers), manager(servers));
    let robbed = acquire(&first, "robbed", LONG).await;
    assert!(second.lock("robbed", LONG).await.is_err(), "two have the lock");
    for mut con in servers.iter().filter_map(Server::connect) {
        con.flushall().expect("a reply");
    }
    let held = acquire(&second, "robbed", LONG).await;
    let before = state(servers, "robbed");
    assert!(before.iter().all(|value| value.as_deref() == Some(&held.val[..])));
    // An extension that fails releases what it can; neither reaches the lock of another.
    assert!(first.extend(&robbed, LONG).await.is_err(), "extended the lock of another");
    robbed.release().await;
    assert_eq!(state(servers, "robbed"), before, "the holder has lost its lock");
    let held = second.extend(&held, LONG).await.expect("the holder can extend its lock");
    held.release().await;
    assert!(state(servers, "robbed").iter().all(Option::is_none), "a lock is left behind");
}

/// Kills two of five servers while the lock is held.
async fn survival(servers: &[Server]) {
    let (first, second) = (manager(servers), manager(servers));
    let held = acquire(&first, "survivor", LONG).await;
    for server in &servers[3..] {
        server.kill().await;
    }
    assert!(second.lock("survivor", LONG).await.is_err(), "two have the lock");
    let held = first.extend(&held, LONG).await.expect("three of five are a quorum");
    held.release().await;
    acquire(&second, "survivor", LONG).await.release().await;
}
