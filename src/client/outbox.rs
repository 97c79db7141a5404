//! The outbox of a client: frames that other tasks push to it (pub/sub messages, MONITOR lines, invalidations) and
//! signals.
//!
//! A session is touched only by its own task, so no other task writes to its output. Others push frames here, and the
//! client's task takes them out between exchanges: never inside a reply, and in order of arrival. Queued frames are
//! shared bytes, so ten thousand slow subscribers keep one copy of a message.
//!
//! A busy connection loads one atomic per exchange, [`Outbox::signals`]; an idle one registers its waker with the
//! signals it waits for. The size is limited where frames are pushed, see [`ClientInfo::push`], and counts as used
//! memory: each frame once, however many clients it is queued for.
//!
//! [`ClientInfo::push`]: crate::client::info::ClientInfo::push

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use crate::memory::heap::{SHARED_BYTES_LEN, allocation_len, list_len};
use crate::resp::{Output, Protocol, Reply};
use crate::store::{MemoryAccount, ReportedMemory};
use crate::time::clock::since_boot_ms;

/// A set of the signals below.
pub(crate) type OutboxSignals = u8;

/// Close the connection after its last replies are written.
pub(crate) const END: OutboxSignals = 1;
/// The client reads too slowly: close the connection and drop its pending output.
pub(crate) const OVERFLOW: OutboxSignals = 1 << 1;
/// Frames are queued.
pub(crate) const PUSHED: OutboxSignals = 1 << 2;
/// Clients use too much memory: close this connection and drop its pending output.
pub(crate) const EVICTED: OutboxSignals = 1 << 4;
/// Delayed frames are queued.
pub(crate) const LATE: OutboxSignals = 1 << 5;
/// The signals that close a connection.
pub(crate) const ENDS: OutboxSignals = END | OVERFLOW | EVICTED;
/// A blocked client must check whether it still is blocked.
pub(crate) const NUDGE: OutboxSignals = 1 << 3;

/// The outbox of one client.
#[derive(Default)]
pub struct Outbox {
    /// Changed only under the lock, so that a task that is about to sleep misses no signal.
    signals: AtomicU8,
    inner: Mutex<Inner>,
    /// The account that frames are reported to.
    memory_account: Arc<MemoryAccount>,
}

#[derive(Default)]
struct Inner {
    frames: VecDeque<Bytes>,
    /// The memory that is reported for the lists, without the frames.
    lists: usize,
    /// The bytes of all frames.
    len: usize,
    /// Delayed frames.
    late: Option<Box<LateFrames>>,
    protocol: Protocol,
    waker: Option<Waker>,
    /// Signals that wake the task.
    awaited: OutboxSignals,
}

impl Outbox {
    /// Creates an empty outbox; its memory is reported as used memory.
    pub fn new(memory_account: Arc<MemoryAccount>) -> Self {
        Outbox { memory_account, signals: AtomicU8::new(0), inner: Mutex::default() }
    }

    /// Returns the account that the client's memory is reported to.
    pub(crate) fn memory_account(&self) -> &Arc<MemoryAccount> {
        &self.memory_account
    }

    /// Returns the pending signals.
    #[inline]
    pub fn signals(&self) -> OutboxSignals {
        self.signals.load(Ordering::Acquire)
    }

    /// Returns true if the connection was told to close.
    pub fn is_ending(&self) -> bool {
        self.signals() & ENDS != 0
    }

    /// Raises a signal, and wakes the client's task if it waits for that signal.
    pub fn signal(&self, signal: OutboxSignals) {
        self.raise(&mut self.inner.lock(), signal);
    }

    /// Drops all frames and accepts no more: the connection is closed, and others may still know the client.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.clear(&self.memory_account);
        self.raise(&mut inner, END);
    }

    /// Clears signals that were handled.
    pub fn lower(&self, signals: OutboxSignals) {
        let _inner = self.inner.lock();
        self.signals.fetch_and(!signals, Ordering::AcqRel);
    }

    /// Queues a frame in the client's protocol. Returns false when more than `limit` bytes would be queued: all frames
    /// are then dropped and the connection is closed. A closing connection accepts no frames.
    pub fn push(&self, push_frame: &mut PushFrame<'_>, limit: u64) -> bool {
        self.push_part(push_frame, limit, usize::MAX)
    }

    /// Queues a frame like [`Outbox::push`], as decided by a rule, which can request the frame encoded in RESP3. Returns true
    /// for a lost message, too.
    #[cold]
    pub(super) fn push_by_rule(
        &self,
        push_frame: &mut PushFrame<'_>,
        limit: u64,
        rule: impl FnOnce(&mut dyn FnMut() -> Bytes) -> Delivery,
    ) -> bool {
        match rule(&mut || push_frame.in_protocol(Protocol::Resp3, &self.memory_account)) {
            Delivery::Whole => self.push(push_frame, limit),
            Delivery::Late(delay) => self.push_late(push_frame, limit, delay),
            Delivery::Lost => true,
            Delivery::CutAfter(len) => {
                let is_queued = len == 0 || self.push_part(push_frame, limit, len);
                self.signal(END);
                is_queued
            }
        }
    }

    /// Queues the first bytes of a frame like [`Outbox::push`].
    fn push_part(&self, push_frame: &mut PushFrame<'_>, limit: u64, len: usize) -> bool {
        let mut inner = self.inner.lock();
        let Some(mut frame) = self.admit(&mut inner, push_frame, limit) else { return false };
        frame.truncate(len);
        inner.len += frame.len();
        if let Some(late) = &mut inner.late {
            late.add(Duration::ZERO, frame);
            inner.count_list(&self.memory_account);
            return true;
        }
        inner.frames.push_back(frame);
        inner.count_list(&self.memory_account);
        self.raise(&mut inner, PUSHED);
        true
    }

    /// Queues a frame like [`Outbox::push`] with a delay; later frames queue behind it.
    fn push_late(&self, push_frame: &mut PushFrame<'_>, limit: u64, delay: Duration) -> bool {
        let mut inner = self.inner.lock();
        let Some(frame) = self.admit(&mut inner, push_frame, limit) else { return false };
        inner.len += frame.len();
        inner.late.get_or_insert_default().add(delay, frame);
        inner.count_list(&self.memory_account);
        self.raise(&mut inner, LATE);
        // The client's task waits for the delay.
        if let Some(waker) = &inner.waker {
            waker.wake_by_ref();
        }
        true
    }

    /// Returns a frame in the client's protocol, if the connection accepts it.
    fn admit(&self, inner: &mut Inner, push_frame: &mut PushFrame<'_>, limit: u64) -> Option<Bytes> {
        if self.is_ending() {
            return None;
        }
        let frame = push_frame.in_protocol(inner.protocol, &self.memory_account);
        if (inner.len + frame.len()) as u64 > limit {
            inner.clear(&self.memory_account);
            self.raise(inner, OVERFLOW);
            return None;
        }
        Some(frame)
    }

    /// Moves the due frames to the client's output, oldest first, until about `limit` bytes are moved. Delayed frames stay
    /// queued.
    pub fn take_into(&self, out: &mut Output, limit: usize) {
        self.take(&mut self.inner.lock(), out, limit);
    }

    /// Moves all frames to the client's output, including delayed ones, before a reply that must not overtake them.
    pub(crate) fn take_all_into(&self, out: &mut Output) {
        self.take_all(&mut self.inner.lock(), out);
    }

    /// Makes delayed frames due, before an event that they must not come long after.
    pub(crate) fn release_all_late(&self) {
        let mut inner = self.inner.lock();
        self.release_all(&mut inner);
    }

    /// Changes the protocol of later frames. Queued and delayed frames are moved to the output first; without one they
    /// become due.
    pub fn set_protocol(&self, protocol: Protocol, out: Option<&mut Output>) {
        let mut inner = self.inner.lock();
        match out {
            Some(out) => self.take_all(&mut inner, out),
            None => self.release_all(&mut inner),
        }
        inner.protocol = protocol;
    }

    /// Returns the number of queued frames and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.frames.len() + inner.late.as_ref().map_or(0, |late| late.frames.len()), inner.len)
    }

    /// Waits for any of the signals; releases delayed frames that are due.
    pub fn poll(&self, cx: &Context<'_>, awaited: OutboxSignals) -> Poll<()> {
        let mut inner = self.inner.lock();
        self.release_late(&mut inner, cx);
        // Checked under the lock: a later signal finds the waker.
        if self.signals() & awaited != 0 {
            return Poll::Ready(());
        }
        inner.awaited = awaited;
        if !inner.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            inner.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Queues the delayed frames that are due, and registers a timer for the next one.
    fn release_late(&self, inner: &mut Inner, cx: &Context<'_>) {
        let Inner { late: Some(late), frames, .. } = inner else { return };
        late.release(frames, cx);
        if late.frames.is_empty() {
            inner.late = None;
            self.signals.fetch_and(!LATE, Ordering::AcqRel);
        }
        if !inner.frames.is_empty() {
            inner.count_list(&self.memory_account);
            self.raise(inner, PUSHED);
        }
    }

    fn release_all(&self, inner: &mut Inner) {
        let Some(late) = inner.late.take() else { return };
        inner.frames.extend(late.frames.into_iter().map(|(_, frame)| frame));
        self.signals.fetch_and(!LATE, Ordering::AcqRel);
        inner.count_list(&self.memory_account);
        self.raise(inner, PUSHED);
    }

    fn take_all(&self, inner: &mut Inner, out: &mut Output) {
        self.release_all(inner);
        self.take(inner, out, usize::MAX);
    }

    fn take(&self, inner: &mut Inner, out: &mut Output, limit: usize) {
        let enough = out.len().saturating_add(limit);
        while out.len() < enough
            && let Some(frame) = inner.frames.pop_front()
        {
            inner.len -= frame.len();
            out.push_shared(frame);
        }
        if inner.frames.is_empty() {
            inner.frames = VecDeque::new();
            inner.count_list(&self.memory_account);
            self.signals.fetch_and(!PUSHED, Ordering::AcqRel);
        }
    }

    fn raise(&self, inner: &mut Inner, signal: OutboxSignals) {
        self.signals.fetch_or(signal, Ordering::AcqRel);
        if inner.awaited & signal != 0 {
            inner.awaited = 0;
            if let Some(waker) = &inner.waker {
                waker.wake_by_ref();
            }
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.inner.get_mut().clear(&self.memory_account);
    }
}

impl Inner {
    /// A list smaller than this, in bytes, is not reported: it comes and goes with every message.
    const COUNTED_MIN: usize = 4096;

    fn clear(&mut self, account: &MemoryAccount) {
        (self.frames, self.late, self.len) = (VecDeque::new(), None, 0);
        self.count_list(account);
    }

    fn count_list(&mut self, account: &MemoryAccount) {
        let late = self.late.as_ref().map_or(0, |late| list_len::<(u64, Bytes)>(late.frames.capacity()));
        let len = list_len::<Bytes>(self.frames.capacity()) + late;
        let len = if len < Self::COUNTED_MIN { 0 } else { len };
        account.report_outside(std::mem::replace(&mut self.lists, len), len);
    }
}

/// Delivery of a pushed message.
pub(crate) enum Delivery {
    /// Normal delivery.
    Whole,
    /// Delivery after this delay; later messages queue behind it.
    Late(Duration),
    /// No delivery; the connection stays open.
    Lost,
    /// Delivery of this number of bytes, after which the connection is closed.
    CutAfter(usize),
}

/// Function of a message, which it can ask for in RESP3, and the receiver's name.
type DeliveryRule = dyn Fn(&mut dyn FnMut() -> Bytes, &str) -> Delivery + Send + Sync;

/// Rule that decides on messages.
pub(crate) struct PushRule(pub(crate) Box<DeliveryRule>);

/// Delayed frames, in their order.
#[derive(Default)]
struct LateFrames {
    /// Each frame with the time at which it is due, in milliseconds since boot.
    frames: VecDeque<(u64, Bytes)>,
    /// Timer of the first frame, created by the client's task.
    wait: Option<Pin<Box<Sleep>>>,
}

impl LateFrames {
    /// Adds a frame that is due after this time, and not before the frames that are there.
    fn add(&mut self, delay: Duration, frame: Bytes) {
        let due = since_boot_ms().saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        let last = self.frames.back().map_or(0, |(last, _)| *last);
        self.frames.push_back((due.max(last), frame));
    }

    /// Moves the frames that are due to those that are sent.
    fn release(&mut self, sent: &mut VecDeque<Bytes>, cx: &Context<'_>) {
        let mut cx = Context::from_waker(cx.waker());
        while let Some((due, _)) = self.frames.front() {
            let left_ms = due.saturating_sub(since_boot_ms());
            if left_ms > 0 {
                let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(Duration::from_millis(left_ms))));
                if wait.as_mut().poll(&mut cx).is_pending() {
                    return;
                }
            }
            self.wait = None;
            sent.extend(self.frames.pop_front().map(|(_, frame)| frame));
        }
    }
}

/// A message for any number of clients, encoded at most once per protocol.
pub struct PushFrame<'a> {
    write: &'a dyn Fn(&mut Reply<'_>),
    /// The frame in RESP2 and in RESP3, encoded on demand.
    frames: [Option<Bytes>; 2],
}

impl<'a> PushFrame<'a> {
    /// Creates a message from the function that writes it.
    pub fn new(write: &'a dyn Fn(&mut Reply<'_>)) -> Self {
        PushFrame { write, frames: [None, None] }
    }

    fn in_protocol(&mut self, protocol: Protocol, memory_account: &Arc<MemoryAccount>) -> Bytes {
        let frame = &mut self.frames[usize::from(protocol == Protocol::Resp3)];
        let write = self.write;
        let written = frame.get_or_insert_with(|| {
            let mut out = Output::new();
            write(&mut Reply::new(&mut out, protocol));
            Bytes::from_owner(Counted::new(out.into_bytes(), memory_account.clone()))
        });
        written.clone()
    }
}

/// Counts bytes as used memory for as long as they are referenced.
struct Counted {
    bytes: Bytes,
    _share: ReportedMemory,
}

impl Counted {
    /// Size of the allocation that owns shared bytes, which includes a counter and a destructor.
    const OWNER_LEN: usize = allocation_len(size_of::<Counted>() + 16);
    /// A frame of this length or more, in bytes, is copied if it has spare capacity.
    const TRIMMED_MIN: usize = 1024;

    fn new(written: BytesMut, memory_account: Arc<MemoryAccount>) -> Self {
        let is_trimmed = written.len() >= Self::TRIMMED_MIN && written.capacity() > written.len();
        let (bytes, held) = if is_trimmed {
            (Bytes::copy_from_slice(&written), allocation_len(written.len()))
        } else {
            let held = allocation_len(written.capacity()) + SHARED_BYTES_LEN;
            (written.freeze(), held)
        };
        Counted { bytes, _share: ReportedMemory::of_message(memory_account, held + Self::OWNER_LEN) }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    fn take_all(outbox: &Outbox, limit: usize) -> String {
        let mut out = Output::new();
        outbox.take_into(&mut out, limit);
        String::from_utf8(out.into_bytes().to_vec()).expect("the tests write text")
    }

    #[test]
    fn a_letter_is_written_once_for_each_protocol() {
        let written = Cell::new(0);
        let write = |reply: &mut Reply<'_>| {
            written.set(written.get() + 1);
            reply.push(0);
        };
        let mut push_frame = PushFrame::new(&write);
        let boxes = [Outbox::default(), Outbox::default(), Outbox::default(), Outbox::default()];
        boxes[2..].iter().for_each(|outbox| outbox.set_protocol(Protocol::Resp3, None));
        assert!(boxes.iter().all(|outbox| outbox.push(&mut push_frame, 100)));
        let got: Vec<String> = boxes.iter().map(|outbox| take_all(outbox, 100)).collect();
        assert_eq!(got, ["*0\r\n", "*0\r\n", ">0\r\n", ">0\r\n"]);
        assert_eq!(written.get(), 2);
    }

    #[test]
    fn frames_come_out_in_order_and_in_portions() {
        let outbox = Outbox::default();
        for number in 1..=3 {
            assert!(outbox.push(&mut PushFrame::new(&|reply| reply.int(number)), 100));
        }
        assert_eq!(outbox.waiting(), (3, 12));
        assert_eq!(take_all(&outbox, 5), ":1\r\n:2\r\n");
        assert_eq!(outbox.signals(), PUSHED);
        assert_eq!(take_all(&outbox, 5), ":3\r\n");
        assert_eq!((outbox.signals(), outbox.waiting()), (0, (0, 0)));
    }

    #[test]
    fn too_much_mail_ends_the_connection_and_is_dropped() {
        let outbox = Outbox::default();
        assert!(outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 9));
        assert!(!outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 9));
        assert!(outbox.is_ending());
        assert_eq!(outbox.waiting(), (0, 0));
        assert!(!outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 9));
    }

    #[test]
    fn the_outbox_of_a_closed_client_is_empty_and_accepts_nothing() {
        let outbox = Outbox::default();
        assert!(outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 100));
        outbox.close();
        assert!(!outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 100));
        assert_eq!(outbox.waiting(), (0, 0));
    }

    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_and_only_for_what_it_waits_for() {
        let (outbox, bell) = (Outbox::default(), Arc::new(Bell(AtomicUsize::new(0))));
        let waker = Waker::from(bell.clone());
        let cx = Context::from_waker(&waker);
        assert!(outbox.poll(&cx, END).is_pending());
        outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 100);
        assert_eq!(bell.0.load(Ordering::Relaxed), 0);
        assert!(outbox.poll(&cx, END | PUSHED).is_ready());
        take_all(&outbox, 100);
        assert!(outbox.poll(&cx, END | PUSHED).is_pending());
        (0..3).for_each(|_| assert!(outbox.push(&mut PushFrame::new(&|reply| reply.ok()), 100)));
        assert_eq!(bell.0.load(Ordering::Relaxed), 1);
        outbox.signal(END);
        assert!(outbox.poll(&cx, END).is_ready());
    }
}
