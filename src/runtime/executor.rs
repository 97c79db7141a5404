//! Executor of one worker's connections, in the order in which they became ready.
//!
//! tokio's multi-thread scheduler runs the task that was woken last first. Requests of several clients that arrive
//! while a worker is busy would be served from the last to the first, and a lock would go to the client that asked
//! last. So the connections of a worker are not tokio tasks: one task, the *pump*, polls them from a queue, first in,
//! first out. The kernel reports sockets in the order in which they became readable, so this is the order of arrival.
//!
//! A long-running script keeps its connection's poll from returning, which blocks the pump. [`move_worker_to_new_thread`] then starts
//! another pump on another thread; the first one stops when its current poll returns.
//!
//! A panic ends only its own connection: the future is dropped, which removes all its registrations.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use slab::Slab;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::runtime::batched_notify;
use crate::runtime::panics::{Panics, caught};

/// Number of polls after which the pump lets timers, the sweeper and new connections run.
const POLLS_PER_ROUND: usize = 32;

/// Pause before a server task that panicked is restarted, so that one that always panics does not use up a core.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// State of a task that is not ready; a wakeup queues it.
const IDLE: u8 = 0;
/// State of a task in the queue.
const QUEUED: u8 = 1;
/// State of a task that is being polled.
const RUNNING: u8 = 2;
/// State of a task that is being polled, and was woken again since the poll began.
const WOKEN: u8 = 3;
/// State of a finished task; wakeups are ignored.
const DONE: u8 = 4;

thread_local! {
    /// Queue of the executor whose pump is being polled on this thread.
    static CURRENT: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

thread_local! {
    /// True if the task being polled on this thread has answered another client's task.
    static HAS_ANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Records that the task being polled on this thread has answered a blocked client.
pub(crate) fn record_answer() {
    HAS_ANSWERED.set(true);
}

/// Yields to ready tasks if the calling task has answered a blocked client since the last call: the blocked client is
/// sent its reply before the client that has released the lock.
pub(crate) async fn yield_to_answered() {
    if HAS_ANSWERED.take() {
        let mut has_yielded = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_yielded, true) {
                Poll::Ready(())
            } else {
                // Not tokio's `yield_now`, which lets the worker poll for input first.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }
}

/// Returns whether this thread's executor has no other ready task.
pub(crate) fn has_no_other_task() -> bool {
    CURRENT.with_borrow(|queue| queue.as_ref().is_some_and(|queue| queue.inner.lock().ready.is_empty()))
}

/// Executor that polls tasks in the order in which they were woken. When dropped, it stops after its last task.
pub(crate) struct Executor(Arc<Queue>);

struct Queue {
    runtime: Handle,
    panics: Arc<Panics>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ready: VecDeque<Arc<Task>>,
    /// Unfinished tasks, to be dropped together with the runtime.
    tasks: Slab<Arc<Task>>,
    /// Waker of a pump that has found the queue empty.
    idle: Option<Waker>,
    /// Number of the latest pump; an earlier one stops.
    pump: u64,
    /// True once no more tasks are accepted.
    is_closed: bool,
}

struct Task {
    state: AtomicU8,
    /// Index of the task in the queue's slab.
    index: usize,
    queue: Arc<Queue>,
    /// `None` once the task has finished. Locked only by the pump that polls it, and when the runtime shuts down.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Executor {
    /// Creates an executor whose tasks run on a runtime, one at a time; their panics are reported to `panics`.
    pub(crate) fn new(runtime: Handle, panics: Arc<Panics>) -> Self {
        let queue = Arc::new(Queue { runtime, panics, inner: Mutex::default() });
        queue.start_pump();
        Executor(queue)
    }

    /// Runs a future to completion. May be called from any thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let future = Mutex::new(Some(Box::pin(future) as Pin<Box<dyn Future<Output = ()> + Send>>));
        let mut inner = self.0.inner.lock();
        let entry = inner.tasks.vacant_entry();
        let task = Task { state: AtomicU8::new(QUEUED), index: entry.key(), queue: self.0.clone(), future };
        let task = Arc::new(task);
        entry.insert(task.clone());
        drop(inner);
        self.0.push(task);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let mut inner = self.0.inner.lock();
        inner.is_closed = true;
        let idle = inner.idle.take();
        drop(inner);
        if let Some(idle) = idle {
            idle.wake();
        }
    }
}

impl Queue {
    fn push(&self, task: Arc<Task>) {
        let mut inner = self.inner.lock();
        inner.ready.push_back(task);
        let idle = inner.idle.take();
        drop(inner);
        if let Some(idle) = idle {
            idle.wake();
        }
    }

    /// Starts another pump. The previous one, if any, stops when its current poll returns.
    fn start_pump(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.pump += 1;
        inner.idle = None;
        let pump = Pump { queue: self.clone(), number: inner.pump };
        drop(inner);
        // tokio's cooperative budget would change the order of the tasks.
        self.runtime.spawn(tokio::task::unconstrained(pump.run()));
    }
}

/// Poller of a queue's tasks.
struct Pump {
    queue: Arc<Queue>,
    number: u64,
}

impl Pump {
    async fn run(self) {
        while poll_fn(|cx| self.poll_round(cx)).await {
            tokio::task::yield_now().await;
        }
    }

    /// Polls tasks until none is ready or the round is over. Ready with false, it stops the pump.
    fn poll_round(&self, cx: &Context<'_>) -> Poll<bool> {
        let _current = Current::enter(&self.queue);
        for _ in 0..POLLS_PER_ROUND {
            let mut inner = self.queue.inner.lock();
            if inner.pump != self.number {
                return Poll::Ready(false);
            }
            let Some(task) = inner.ready.pop_front() else {
                if inner.is_closed && inner.tasks.is_empty() {
                    return Poll::Ready(false);
                }
                inner.idle = Some(cx.waker().clone());
                return Poll::Pending;
            };
            drop(inner);
            task.poll();
        }
        Poll::Ready(true)
    }
}

impl Drop for Pump {
    /// Releases the tasks' resources if the runtime shuts down before they finish.
    fn drop(&mut self) {
        let mut inner = self.queue.inner.lock();
        if inner.pump != self.number {
            return;
        }
        let (tasks, ready) = (std::mem::take(&mut inner.tasks), std::mem::take(&mut inner.ready));
        drop((inner, ready));
        for (_, task) in tasks {
            task.state.store(DONE, Release);
            // A future that is being polled right now is dropped by its pump.
            let future = task.future.try_lock().and_then(|mut future| future.take());
            drop(future);
        }
    }
}

impl Task {
    fn poll(self: Arc<Self>) {
        if self.state.swap(RUNNING, AcqRel) == DONE {
            return self.state.store(DONE, Release);
        }
        let waker = Waker::from(self.clone());
        let mut slot = self.future.lock();
        let Some(future) = slot.as_mut() else { return };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker)))) {
            Ok(Poll::Pending) => {
                drop(slot);
                if self.state.compare_exchange(RUNNING, IDLE, AcqRel, Acquire) == Err(WOKEN) {
                    self.state.store(QUEUED, Release);
                    self.queue.push(self.clone());
                }
            }
            Ok(Poll::Ready(())) => self.finish(slot.take()),
            Err(panic) => {
                self.queue.panics.report("connection", &*panic);
                self.finish(slot.take());
            }
        }
    }

    fn finish(&self, future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>) {
        self.state.store(DONE, Release);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            self.queue.panics.report("end of a connection", &*panic);
        }
        self.queue.inner.lock().tasks.try_remove(self.index);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        match self.state.compare_exchange(IDLE, QUEUED, AcqRel, Acquire) {
            Ok(_) => self.queue.clone().push(self),
            Err(RUNNING) if self.state.compare_exchange(RUNNING, WOKEN, AcqRel, Acquire) == Err(IDLE) => self.wake(),
            Err(_) => {}
        }
    }
}

/// Mark of the executor that is polled on this thread, until it is dropped.
struct Current;

impl Current {
    fn enter(queue: &Arc<Queue>) -> Self {
        CURRENT.set(Some(queue.clone()));
        Current
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

/// Moves the other work of this thread to another thread, and returns once that runs: the caller is about to block this
/// thread for long.
///
/// A current-thread runtime has no other thread: its other clients wait.
pub(crate) fn move_worker_to_new_thread() {
    let Ok(runtime) = Handle::try_current() else { return };
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return;
    }
    if let Some(queue) = CURRENT.with_borrow(Option::clone) {
        queue.start_pump();
    }
    batched_notify::leave_worker();
    // The new thread has taken over when it runs this task; until then the old one would take back its work.
    let (taken, over) = mpsc::channel();
    runtime.spawn(async move { taken.send(()) });
    // Without a message, the channel is closed only when the runtime shuts down.
    let _ = tokio::task::block_in_place(|| over.recv());
}

/// Runs the future made by `work` to completion. When it panics, the panic is reported and a new future is made.
pub(crate) async fn supervise<F>(panics: Arc<Panics>, name: &'static str, mut work: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    loop {
        match caught(pin!(work())).await {
            Ok(()) => return,
            Err(panic) => panics.report(name, &*panic),
        }
        tokio::time::sleep(RESTART_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::runtime::worker;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn tasks_are_polled_in_the_order_in_which_they_were_woken_while_another_kept_the_thread_busy() {
        let runtime = worker::runtime(0).expect("a thread");
        let executor = Executor::new(runtime.handle().clone(), Arc::default());
        let (order, polled) = channel();
        let wakers: Vec<_> = (0..40)
            .map(|number| {
                let (order, (registered, waker)) = (order.clone(), channel());
                let mut is_first = true;
                executor.spawn(poll_fn(move |cx| {
                    if std::mem::take(&mut is_first) {
                        registered.send(cx.waker().clone()).expect("the test waits for it");
                        Poll::Pending
                    } else {
                        order.send(number).expect("the test waits for it");
                        Poll::Ready(())
                    }
                }));
                waker.recv_timeout(PATIENCE).expect("it is polled")
            })
            .collect();
        let ((busy, is_busy), (go_on, may_continue)) = (channel(), channel::<()>());
        executor.spawn(async move {
            busy.send(()).expect("the test waits for it");
            let _ = may_continue.recv_timeout(PATIENCE);
        });
        is_busy.recv_timeout(PATIENCE).expect("it is polled");
        let expected: Vec<usize> = (0..40).map(|number| number * 7 % 40).collect();
        expected.iter().for_each(|&number| wakers[number].wake_by_ref());
        go_on.send(()).expect("it waits for that");
        let served: Vec<usize> = (0..40).map(|_| polled.recv_timeout(PATIENCE).expect("it is polled")).collect();
        assert_eq!(served, expected);
        runtime.shutdown_background();
    }

    #[test]
    fn another_thread_polls_the_others_once_a_task_has_handed_over() {
        let runtime = worker::runtime(0).expect("a thread");
        let executor = Executor::new(runtime.handle().clone(), Arc::default());
        let ((done, is_done), (go_on, may_continue)) = (channel(), channel::<()>());
        let last = done.clone();
        executor.spawn(async move {
            move_worker_to_new_thread();
            let _ = may_continue.recv_timeout(PATIENCE);
            last.send("the one that handed over").expect("the test waits for it");
        });
        executor.spawn(async move { done.send("another").expect("the test waits for it") });
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok("another"));
        go_on.send(()).expect("it waits for that");
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok("the one that handed over"));
        runtime.shutdown_background();
    }
}
