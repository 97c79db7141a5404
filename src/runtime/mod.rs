//! Threads of the server: worker runtimes that execute commands, the order in which they poll connections, caught
//! panics, and the thread that writes the log.

pub(crate) mod batched_notify;
pub(crate) mod executor;
pub(crate) mod log_queue;
pub(crate) mod panics;
pub mod worker;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until a future is ready. Other threads make it ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
