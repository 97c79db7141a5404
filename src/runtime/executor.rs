//! Runs the connections of one worker in the order in which they became ready.
//!
//! tokio's scheduler for several threads runs the task that was woken last first. Requests of several clients that arrive
//! while a worker is busy would be served from the last to the first, and a lock would go to the client that asked last.
//! So the connections of a worker are no tasks of tokio's: one task, the *pump*, polls them from a queue, first in, first
//! out. The kernel reports sockets in the order in which they became readable, so this is the order of arrival.
//!
//! A script that runs for long keeps its connection's poll from returning, and with it the pump. [`hand_over`] then starts
//! another pump on another thread; the first one ends with the poll that it is in.
//!
//! A connection that panics ends alone: its future is dropped, which undoes what it was registered for.

use std::cell::RefCell;
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

use crate::runtime::panics::Panics;

/// How many polls the pump does before it lets timers, the sweeper and new connections have their turn.
const POLLS_PER_ROUND: usize = 32;

/// How long a task of the server that has panicked waits before it is restarted, so that one that always panics does not
/// keep a processor busy.
const RESTART_PAUSE: Duration = Duration::from_millis(100);

/// Waits to be woken.
const IDLE: u8 = 0;
/// Stands in the queue.
const QUEUED: u8 = 1;
/// Is being polled.
const RUNNING: u8 = 2;
/// Is being polled, and was woken since that began.
const WOKEN: u8 = 3;
/// Has finished; nothing wakes it any more.
const DONE: u8 = 4;

thread_local! {
    /// The executor whose pump is being polled on this thread.
    static CURRENT: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

/// Polls tasks, first woken, first served. When it is dropped it ends with its last task.
pub(crate) struct Executor(Arc<Queue>);

struct Queue {
    runtime: Handle,
    panics: Arc<Panics>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    ready: VecDeque<Arc<Task>>,
    /// All tasks that have not finished, so that they can be dropped with the runtime.
    tasks: Slab<Arc<Task>>,
    /// The waker of a pump that has found the queue empty.
    idle: Option<Waker>,
    /// The number of the latest pump: the only one that may go on.
    pump: u64,
    /// Whether no more tasks will come.
    is_closed: bool,
}

struct Task {
    state: AtomicU8,
    /// Where it stands among the queue's tasks.
    index: usize,
    queue: Arc<Queue>,
    /// `None` once it has finished. Locked only by the pump that polls it, and by the runtime's end.
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Executor {
    /// Creates an executor whose tasks run on a runtime, one at a time; their panics are reported to `panics`.
    pub(crate) fn new(runtime: Handle, panics: Arc<Panics>) -> Self {
        let queue = Arc::new(Queue { runtime, panics, inner: Mutex::default() });
        queue.start_pump();
        Executor(queue)
    }

    /// Runs a future to its end; from any thread.
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
        idle.into_iter().for_each(Waker::wake);
    }
}

impl Queue {
    /// Puts a task to the end of the queue.
    fn push(&self, task: Arc<Task>) {
        let mut inner = self.inner.lock();
        inner.ready.push_back(task);
        let idle = inner.idle.take();
        drop(inner);
        if let Some(idle) = idle {
            idle.wake();
        }
    }

    /// Starts another pump; the one before, if there is one, ends with the poll that it is in.
    fn start_pump(self: &Arc<Self>) {
        let mut inner = self.inner.lock();
        inner.pump += 1;
        inner.idle = None;
        let pump = Pump { queue: self.clone(), number: inner.pump };
        drop(inner);
        // tokio's own bound on what a task may do at a time would put the tasks out of order.
        self.runtime.spawn(tokio::task::unconstrained(pump.run()));
    }
}

/// Polls the tasks of a queue.
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

    /// Polls tasks until none is ready or a round is over; false ends the pump.
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
    /// The runtime may end before its tasks do: what they hold is given back then.
    fn drop(&mut self) {
        let mut inner = self.queue.inner.lock();
        if inner.pump != self.number {
            return;
        }
        let (tasks, ready) = (std::mem::take(&mut inner.tasks), std::mem::take(&mut inner.ready));
        drop((inner, ready));
        for (_, task) in tasks {
            task.state.store(DONE, Release);
            // One that is being polled right now ends by itself.
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

/// Notes whose pump is polled on this thread, until it is dropped.
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

/// Lets another thread go on with the other work of this one, and returns once it does: the caller is about to keep this
/// thread for long.
///
/// On a runtime that has but the thread it was started on there is no other thread: the other clients that are served
/// there wait.
pub(crate) fn hand_over() {
    let Ok(runtime) = Handle::try_current() else { return };
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return;
    }
    if let Some(queue) = CURRENT.with_borrow(Option::clone) {
        queue.start_pump();
    }
    // The new thread has taken over when it runs this; until then the old one would take its work back.
    let (taken, over) = mpsc::channel();
    runtime.spawn(async move { taken.send(()) });
    // The sender is gone without a word only when the runtime is shutting down.
    let _ = tokio::task::block_in_place(|| over.recv());
}

/// Runs what `work` makes until it finishes by itself; one that panics is reported and made again.
pub(crate) async fn supervise<F>(panics: Arc<Panics>, name: &'static str, mut work: impl FnMut() -> F)
where
    F: Future<Output = ()>,
{
    loop {
        let mut future = pin!(work());
        let outcome = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        });
        match outcome.await {
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

    /// How long a test waits for what must come.
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
                executor.spawn(poll_fn(move |cx| match std::mem::take(&mut is_first) {
                    true => {
                        registered.send(cx.waker().clone()).expect("the test waits for it");
                        Poll::Pending
                    }
                    false => {
                        order.send(number).expect("the test waits for it");
                        Poll::Ready(())
                    }
                }));
                waker.recv_timeout(PATIENCE).expect("it is polled")
            })
            .collect();
        let ((busy, is_busy), (go_on, may_go_on)) = (channel(), channel::<()>());
        executor.spawn(async move {
            busy.send(()).expect("the test waits for it");
            let _ = may_go_on.recv_timeout(PATIENCE);
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
        let ((done, is_done), (go_on, may_go_on)) = (channel(), channel::<()>());
        let last = done.clone();
        executor.spawn(async move {
            hand_over();
            let _ = may_go_on.recv_timeout(PATIENCE);
            last.send("the one that handed over").expect("the test waits for it");
        });
        executor.spawn(async move { done.send("another").expect("the test waits for it") });
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok("another"));
        go_on.send(()).expect("it waits for that");
        assert_eq!(is_done.recv_timeout(PATIENCE), Ok("the one that handed over"));
        runtime.shutdown_background();
    }
}
