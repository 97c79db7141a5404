//! Locks that change their mode: futures that are dropped, releases in between, and sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use keylatch_lock::{AcquireError, Connect, Held, Lock, Locks};
use redis::Value;
use tokio::task::JoinHandle;

use crate::admin::{Admin, client, server, until};
use crate::moving::Moving;

const LONG: Duration = Duration::from_secs(600);

fn lock() -> Lock {
    Locks::new(client(&server())).lock("report").ttl(LONG)
}

/// Describes a lock whose first connection goes to the server, and the further ones by an address at which they can be stuck.
fn lock_by(moving: &Moving) -> Lock {
    let (opened, moving) = (Arc::new(AtomicUsize::new(0)), moving.clone());
    let locks = Locks::new(move || {
        let (is_first, moving) = (opened.fetch_add(1, SeqCst) == 0, moving.clone());
        async move { if is_first { Ok(client(&server())) } else { moving.client().await } }
    });
    locks.lock("report").ttl(LONG)
}

/// Begins an upgrade that waits for another reader.
async fn upgrade(admin: &mut Admin, held: &Arc<Held>) -> JoinHandle<Result<(), AcquireError>> {
    let held = held.clone();
    let waiting = tokio::spawn(async move { held.upgrade(None).await });
    until!("in the queue", admin.queued().await == 1);
    waiting
}

async fn is_mode(admin: &mut Admin, mode: &str) -> bool {
    admin.info("report").await.is_some_and(|info| info["mode"] == Value::BulkString(mode.into()))
}

/// Waits for two more renewals, of which the second was begun after this.
async fn renewed(admin: &mut Admin) {
    admin.call(&["TEST.CALLS", "RESET"]).await.unwrap();
    until!("renewed", {
        let calls = admin.call(&["TEST.CALLS", "MATCH", "LOCK.RENEW"]).await.unwrap();
        matches!(calls, Value::Array(calls) if calls.len() > 1)
    });
}

#[tokio::test]
async fn an_upgrade_that_is_dropped_leaves_the_lock_shared() {
    let mut admin = Admin::new().await;
    let one = Arc::new(lock().shared().renew_every(Duration::from_millis(20)).acquire().await.unwrap());
    let two = lock().shared().acquire().await.unwrap();
    let waiting = upgrade(&mut admin, &one).await;
    waiting.abort();
    until!("out of the queue", admin.queued().await == 0);
    assert!(two.release().await.unwrap());
    let three = lock().shared().wait(Duration::ZERO).acquire().await.unwrap();
    renewed(&mut admin).await;
    one.check().unwrap();
    assert_eq!(one.fence(), three.fence());
    assert!(three.release().await.unwrap());
    let late = ["LOCK.ACQUIRE", "report", one.token(), "CONVERT", "PX", "600000"]; // a request that was on its way
    assert!(matches!(admin.call(&late).await, Ok(Value::Int(_))));
    until!("shared again", is_mode(&mut admin, "shared").await);
    one.upgrade(Some(Duration::ZERO)).await.unwrap();
    assert!(one.release().await.unwrap());
}

#[tokio::test]
async fn an_upgrade_that_is_granted_to_a_future_that_is_dropped_is_undone() {
    let mut admin = Admin::new().await;
    let moving = Moving::new().await;
    let one = Arc::new(lock_by(&moving).shared().session().acquire().await.unwrap());
    let two = lock().shared().acquire().await.unwrap();
    let waiting = upgrade(&mut admin, &one).await;
    moving.stall(true);
    assert!(two.release().await.unwrap());
    until!("granted", is_mode(&mut admin, "exclusive").await);
    waiting.abort();
    until!("shared", is_mode(&mut admin, "shared").await);
    let three = lock().shared().wait(Duration::ZERO).acquire().await.unwrap();
    assert!(three.release().await.unwrap());
    one.upgrade(Some(LONG)).await.unwrap();
    one.check().unwrap();
    assert!(one.fence() > three.fence());
    assert!(one.release().await.unwrap());
}

#[tokio::test]
async fn a_downgrade_whose_future_is_dropped_is_undone_unless_others_share_the_lock() {
    let mut admin = Admin::new().await;
    for is_shared in [false, true] {
        let one = Arc::new(lock().acquire().await.unwrap());
        let reader = is_shared.then(|| tokio::spawn(async { lock().shared().acquire().await }));
        until!("in the queue", admin.queued().await == u64::from(is_shared));
        let before = one.fence();
        admin.call(&["TEST.FAULT", "ADD", "LOCK.ACQUIRE", "DELAY", "600000", "COUNT", "1"]).await.unwrap();
        let converting = tokio::spawn({
            let one = one.clone();
            async move { one.downgrade().await }
        });
        until!("shared", is_mode(&mut admin, "shared").await);
        converting.abort();
        if let Some(reader) = reader {
            let reader = reader.await.unwrap().unwrap();
            until!("known", one.fence() == reader.fence());
            one.check().unwrap();
            assert!(reader.release().await.unwrap());
        } else {
            until!("alone", is_mode(&mut admin, "exclusive").await);
        }
        assert!(one.fence() > before);
        assert!(one.release().await.unwrap());
    }
}

#[tokio::test]
async fn a_release_ends_an_upgrade() {
    let mut admin = Admin::new().await;
    let one = Arc::new(lock().shared().acquire().await.unwrap());
    let two = lock().shared().acquire().await.unwrap();
    let waiting = upgrade(&mut admin, &one).await;
    assert!(one.release().await.unwrap());
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(AcquireError::Released)), "{ended:?}");
    until!("out of the queue", admin.queued().await == 0);
    let three = lock().shared().wait(Duration::ZERO).acquire().await.unwrap();
    assert!(two.release().await.unwrap() && three.release().await.unwrap());
    assert!(admin.info("report").await.is_none());
}

#[tokio::test]
async fn a_release_as_the_lock_changes_its_mode_finds_it_held() {
    let mut admin = Admin::new().await;
    for _ in 0..20 {
        let one = Arc::new(lock().shared().session().acquire().await.unwrap());
        let two = lock().shared().acquire().await.unwrap();
        let waiting = upgrade(&mut admin, &one).await;
        assert!(two.release().await.unwrap());
        assert!(one.release().await.unwrap());
        _ = waiting.await.unwrap();
        assert!(admin.info("report").await.is_none());
    }
}

#[tokio::test]
async fn who_cannot_have_the_lock_alone_is_told_who_shares_it() {
    let _admin = Admin::new().await;
    let one = lock().shared().meta("one").acquire().await.unwrap();
    let two = lock().shared().meta("two").acquire().await.unwrap();
    for (held, other) in [(&one, "two"), (&two, "one")] {
        let refused = held.upgrade(Some(Duration::ZERO)).await;
        let Err(AcquireError::NotAcquired(told)) = refused else { panic!("{refused:?}") };
        assert_eq!(told.holder.unwrap().meta, other);
    }
}

#[tokio::test]
async fn a_lock_changes_its_mode_once_at_a_time() {
    let _admin = Admin::new().await;
    let held = lock().shared().acquire().await.unwrap();
    let before = held.fence();
    let (up, down) = tokio::join!(held.upgrade(None), held.downgrade());
    up.unwrap();
    down.unwrap();
    assert!(held.fence() > before);
    held.check().unwrap();
    assert!(lock().shared().wait(Duration::ZERO).acquire().await.unwrap().release().await.unwrap());
    assert!(held.release().await.unwrap());
}

#[tokio::test]
async fn a_session_that_was_made_again_goes_on_in_another_mode() {
    let mut admin = Admin::new().await;
    admin.call(&["CONFIG", "SET", "session-grace-ms", "60000"]).await.unwrap();
    let held = lock().session().acquire().await.unwrap();
    let first = Admin::clients(&admin.info("report").await.unwrap(), "holders");
    admin.call(&["CLIENT", "KILL", "ID", &first[0].to_string()]).await.unwrap();
    let away = [vec![0], first];
    until!("resumed", !away.contains(&Admin::clients(&admin.info("report").await.unwrap(), "holders")));
    admin.call(&["CONFIG", "SET", "session-grace-ms", "0"]).await.unwrap();
    held.downgrade().await.unwrap();
    held.upgrade(None).await.unwrap();
    held.check().unwrap();
    assert!(held.release().await.unwrap());
}
