//! A lock that is held.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use redis::{ErrorKind, RedisResult};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex as AsyncMutex, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::convert::{Order, convert};
use crate::error::{AcquireError, LockLost};
use crate::terms::{Mode, Terms};
use crate::wire::Source;

/// A lock that is held, until it is released or lost. Dropping it releases it, too, without waiting for that.
#[derive(Debug)]
pub struct Held {
    hold: Arc<Hold>,
    is_ended: AtomicBool,
}

/// The hold of a lock, which several acquisitions of one owner may have in common.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) source: Arc<Source>,
    /// Terms of the acquisition.
    pub(crate) terms: Arc<Terms>,
    fences: Mutex<Vec<Option<i64>>>,
    since: Instant,
    life: watch::Sender<Life>,
    /// Number of acquisitions that are not ended.
    count: Mutex<usize>,
    orders: UnboundedSender<Order>,
    /// Turn of a conversion: locked until the mode is known.
    pub(crate) turn: Arc<AsyncMutex<()>>,
}

/// Channel for the outcome of a release.
pub(crate) type Answer = oneshot::Sender<RedisResult<bool>>;

/// State of a hold.
#[derive(Clone, Debug)]
struct Life {
    /// Time until which the lock is held, if it is not renewed again.
    until: Instant,
    lost: Option<LockLost>,
    is_released: bool,
    /// True if nothing is sent for it any more.
    is_over: bool,
}

impl Hold {
    /// Creates the hold of a lock that was requested at a time.
    pub(crate) fn new(
        source: Arc<Source>,
        terms: Arc<Terms>,
        fences: Vec<Option<i64>>,
        since: Instant,
        orders: UnboundedSender<Order>,
    ) -> Self {
        let (life, _) =
            watch::channel(Life { until: since + terms.ttl, lost: None, is_released: false, is_over: false });
        let (fences, count, turn) = (Mutex::new(fences), Mutex::new(1), Arc::default());
        Hold { source, terms, fences, since, life, count, orders, turn }
    }

    /// Returns the first acquisition.
    pub(crate) fn first(self: Arc<Self>) -> Held {
        Held { hold: self, is_ended: AtomicBool::new(false) }
    }

    /// Adds an acquisition; none if the lock is lost or released.
    pub(crate) fn join(self: &Arc<Self>) -> Option<Held> {
        let mut count = lock(&self.count);
        if self.is_released() || self.check().is_err() {
            return None;
        }
        *count += 1;
        Some(self.clone().first())
    }

    /// Returns the fences of the names.
    pub(crate) fn fences(&self) -> Vec<Option<i64>> {
        lock(&self.fences).clone()
    }

    /// Notes the fences of a lock whose mode has changed.
    pub(crate) fn converted(&self, fences: Vec<Option<i64>>) {
        *lock(&self.fences) = fences;
    }

    /// Returns true if the mode, and with it the fence, may be another than the one that is known.
    pub(crate) fn is_converting(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// Gives an order to the task that renews; without it nothing happens.
    pub(crate) fn order(&self, order: Order) {
        _ = self.orders.send(order);
    }

    /// Returns the time until which the lock is held, if it is not renewed again.
    pub(crate) fn until(&self) -> Instant {
        self.life.borrow().until
    }

    /// Notes that the server held the lock at a time, with its whole TTL to come.
    pub(crate) fn renewed(&self, at: Instant) {
        self.life.send_modify(|life| life.until = life.until.max(at + self.terms.ttl));
    }

    /// Notes the loss, unless it was released, or lost before.
    pub(crate) fn lose(&self, reason: &str) {
        self.life.send_if_modified(|life| {
            let is_first = life.lost.is_none() && !life.is_released;
            if is_first {
                let (names, age) = (self.terms.shown(), self.since.elapsed());
                life.lost = Some(LockLost { names, reason: reason.to_owned(), at: SystemTime::now(), age });
            }
            is_first
        });
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.life.borrow().lost.is_some()
    }

    pub(crate) fn is_released(&self) -> bool {
        self.life.borrow().is_released
    }

    /// Notes that nothing is sent for the lock any more.
    pub(crate) fn end(&self) {
        self.life.send_modify(|life| life.is_over = true);
    }

    /// Returns true if nothing is sent for the lock any more.
    pub(crate) fn is_over(&self) -> bool {
        self.life.borrow().is_over
    }

    /// Waits until a release that has begun is over: a lock that is acquired with the same token meanwhile would go with it.
    pub(crate) async fn released(&self) {
        _ = self.life.subscribe().wait_for(|life| life.is_over || !life.is_released).await;
    }

    /// Returns the loss, also if only its time has passed.
    pub(crate) fn check(&self) -> Result<(), LockLost> {
        if !self.is_released() && Instant::now() >= self.until() {
            self.lose("expired");
        }
        self.life.borrow().lost.clone().map_or(Ok(()), Err)
    }

    /// Waits for the release to begin.
    pub(crate) async fn leaves(&self) {
        _ = self.life.subscribe().wait_for(|life| life.is_released).await;
    }

    /// Waits for the loss; for ever if the lock is released.
    pub(crate) async fn lost(&self) -> LockLost {
        let mut life = self.life.subscribe();
        loop {
            let (until, is_released) = {
                let life = life.borrow_and_update();
                if let Some(lost) = &life.lost {
                    return lost.clone();
                }
                (life.until, life.is_released)
            };
            tokio::select! {
                _ = life.changed() => {}
                () = sleep_until(until), if !is_released => drop(self.check()),
            }
        }
    }

    /// Ends an acquisition; the last one orders the release, and gets a channel for its outcome.
    fn leave(&self) -> Option<oneshot::Receiver<RedisResult<bool>>> {
        let mut count = lock(&self.count);
        *count -= 1;
        if *count > 0 {
            return None;
        }
        // What is over before the release is asked for is lost, not released.
        _ = self.check();
        self.life.send_modify(|life| life.is_released = true);
        let (answer, outcome) = oneshot::channel();
        self.order(Order::Release(answer));
        Some(outcome)
    }
}

impl Held {
    /// Returns the fencing token, which increases from holder to holder. That of several locks is the greatest of them, and
    /// serves for each. None on Redis and Valkey, which have no fences.
    pub fn fence(&self) -> Option<i64> {
        self.hold.fences().into_iter().max().flatten()
    }

    /// Returns the fence of one of the names.
    pub fn fence_of(&self, name: impl AsRef<[u8]>) -> Option<i64> {
        let at = self.hold.terms.names.iter().position(|known| known == name.as_ref())?;
        self.hold.fences().get(at).copied().flatten()
    }

    /// Returns the token that the lock is held with.
    pub fn token(&self) -> &str {
        &self.hold.terms.token
    }

    /// Returns the names.
    pub fn names(&self) -> Vec<String> {
        self.hold.terms.shown()
    }

    /// Returns the loss, once the lock is known to be lost or its time has passed without a renewal.
    ///
    /// # Errors
    /// If the lock is lost.
    pub fn check(&self) -> Result<(), LockLost> {
        self.hold.check()
    }

    /// Waits until the lock is lost; for ever if it is released. The future needs no longer life of this value.
    pub fn lost(&self) -> impl Future<Output = LockLost> + Send + use<> {
        let hold = self.hold.clone();
        async move { hold.lost().await }
    }

    /// Runs a future while the lock is held; drops it when the lock is lost.
    ///
    /// # Errors
    /// If the lock is lost before the future has ended.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Shares the lock that is held alone, which takes no wait: readers that are next in the queue get it, and nobody writes
    /// in between. The fence is another one from then on. If the future is dropped, or the server is not reached, the lock
    /// is held in its former mode; it stays shared if others share it already.
    ///
    /// # Errors
    /// If the lock is released or lost, of several names, with permits or of an owner, or the server does not do this. The
    /// lock is held on unless it is lost.
    pub async fn downgrade(&self) -> Result<(), AcquireError> {
        convert(&self.hold, Mode::Shared, Some(Duration::ZERO)).await
    }

    /// Has the lock that is shared alone, with another fence, once nobody else shares it: before all who are queued. The lock is
    /// shared until then, and renewed. Without a wait it takes as long as it takes, and zero is for not at all. If the
    /// future is dropped, the lock is shared on.
    ///
    /// # Errors
    /// If others share the lock until the wait is over; if one of them waits in the same way
    /// ([`AcquireError::Deadlock`]); and as [`downgrade`](Self::downgrade). The lock is shared on unless it is lost.
    pub async fn upgrade(&self, wait: Option<Duration>) -> Result<(), AcquireError> {
        convert(&self.hold, Mode::Exclusive, wait).await
    }

    /// Releases the lock, of several acquisitions of one owner with the last. Returns whether it was still held. A second
    /// release returns false, and releases nothing. What is left of several, of which one is lost, is released, too.
    ///
    /// # Errors
    /// If the server did not answer while the lock lasted, or has refused: then the lock ends by its TTL.
    pub async fn release(&self) -> RedisResult<bool> {
        if self.is_ended.swap(true, Ordering::Relaxed) {
            return Ok(false);
        }
        match self.hold.leave() {
            None => Ok(self.check().is_ok()),
            Some(outcome) => {
                let gone = || (ErrorKind::Client, "the runtime that renews the lock is gone").into();
                outcome.await.unwrap_or_else(|_| Err(gone()))
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_ended.swap(true, Ordering::Relaxed) {
            self.hold.leave();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
