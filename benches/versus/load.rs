//! The load generator: many connections on one thread of this process, in closed or in open loop.
//!
//! In closed loop a connection sends `depth` requests, waits for all their replies and repeats: this measures the
//! maximum throughput. In open loop requests are due at fixed times, whether the server keeps up or not, and a latency
//! counts from the time at which its request was due, so a stalled server is charged for all requests due meanwhile.
//! The pacer spins, since no timer is as fine as the times between requests: it keeps a core busy.
//!
//! A batch is written as a whole before its replies are read. So requests and replies must not both exceed the sockets'
//! buffers.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream as StdStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;
use crate::measure::{Sample, cpu_us};
use crate::replies::Replies;
use crate::server::{Protocol, Server};
use crate::workload::{Keys, Script, Workload};

/// Read size of a connection.
const READ_LEN: usize = 64 * 1024;
/// Maximum latency that is recorded, in nanoseconds, with three significant digits.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// Maximum number of requests, and of bytes, that a fill sends at once.
const FILL_BATCH: usize = 1_000;
const FILL_BYTES: usize = 16 * 1024 * 1024;
/// The pause of a probe, so that it measures waiting and takes no part in the load.
const PROBE_PAUSE: Duration = Duration::from_micros(200);

/// Workload and number of connections of a load.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    pub workload: &'a Workload,
    pub connections: usize,
    /// Requests per batch of a connection.
    pub depth: usize,
    /// Number of keys.
    pub keys: u64,
    pub value_len: usize,
}

/// Load that runs until it is dropped.
pub struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    pid: u32,
}

#[derive(Default)]
struct Shared {
    is_measuring: AtomicBool,
    is_over: AtomicBool,
    requests: AtomicU64,
    /// Number of connections that were served at least once.
    served: AtomicU64,
    latency: Mutex<Option<Histogram<u64>>>,
    failure: Mutex<Option<String>>,
}

/// Measurements of a load.
pub struct Outcome {
    pub per_second: f64,
    /// CPU time per request of the server, and of this process, which is the generator's.
    pub cpu_us: f64,
    pub generator_us: f64,
    pub latency: Histogram<u64>,
}

impl Outcome {
    /// Returns the latency that this share of the requests stays below, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        self.latency.value_at_quantile(share) as f64 / 1e6
    }

    pub fn sample(&self) -> Sample {
        let [p50_ms, p99_ms, p999_ms] = [0.5, 0.99, 0.999].map(|share| self.quantile_ms(share));
        Sample { per_second: self.per_second, cpu_us: self.cpu_us, p50_ms, p99_ms, p999_ms }
    }
}

impl Load {
    /// Starts a load in closed loop.
    ///
    /// # Errors
    /// An error when the server does not accept the connections.
    pub fn closed(server: &Server, spec: Spec<'_>) -> Result<Load> {
        let protocol = server.kind.protocol();
        let clients = connect(server, spec)?;
        Load::start(server, move |shared| async move {
            let mut tasks = JoinSet::new();
            for (stream, script) in clients {
                let shared = shared.clone();
                tasks.spawn(async move {
                    if let Err(error) = closed_client(stream, script, protocol, spec.depth, &shared).await {
                        shared.fail(&error);
                    }
                });
            }
            tasks.join_all().await;
        })
    }

    /// Starts a load in open loop: `per_second` requests, one by one, by the connections in turn.
    ///
    /// # Errors
    /// An error when the server does not accept the connections.
    pub fn open(server: &Server, spec: Spec<'_>, per_second: f64) -> Result<Load> {
        let protocol = server.kind.protocol();
        let clients = connect(server, Spec { depth: 1, ..spec })?;
        let interval = Duration::from_secs_f64(1.0 / per_second);
        Load::start(server, move |shared| async move {
            let mut readers = JoinSet::new();
            let mut senders = Vec::new();
            for (stream, script) in clients {
                let Ok(stream) = TcpStream::from_std(stream).map(Arc::new) else { continue };
                let due = Arc::new(Mutex::new(VecDeque::new()));
                senders.push(Sender { stream: stream.clone(), script, due: due.clone(), unsent: Vec::new() });
                let shared = shared.clone();
                readers.spawn(async move {
                    if let Err(error) = open_reader(&stream, &due, protocol, &shared).await {
                        shared.fail(&error);
                    }
                });
            }
            if let Err(error) = pace(&mut senders, interval, &shared).await {
                shared.fail(&error);
            }
            readers.shutdown().await;
        })
    }

    fn start<F>(server: &Server, run: impl FnOnce(Arc<Shared>) -> F + Send + 'static) -> Result<Load>
    where
        F: Future<Output = ()>,
    {
        let shared = Arc::new(Shared::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::spawn({
            let shared = shared.clone();
            move || runtime.block_on(run(shared))
        });
        Ok(Load { shared, thread: Some(thread), pid: server.pid() })
    }

    /// Runs the load for `warm_up`, then measures it for `window`.
    ///
    /// # Errors
    /// An error when a connection failed or the server answered with an error.
    pub fn measure(&self, warm_up: Duration, window: Duration) -> Result<Outcome> {
        let shared = &self.shared;
        thread::sleep(warm_up);
        *lock(&shared.latency) = Some(Histogram::new_with_max(LATENCY_NS_MAX, 3)?);
        let cpu = || -> Result<[f64; 2]> { Ok([cpu_us(self.pid)?, cpu_us(std::process::id())?]) };
        let (started, before, requests) = (Instant::now(), cpu()?, shared.requests.load(Ordering::Relaxed));
        shared.is_measuring.store(true, Ordering::Relaxed);
        thread::sleep(window);
        let requests = (shared.requests.load(Ordering::Relaxed) - requests) as f64;
        let (after, seconds) = (cpu()?, started.elapsed().as_secs_f64());
        shared.is_measuring.store(false, Ordering::Relaxed);
        if let Some(failure) = lock(&shared.failure).take() {
            return Err(failure.into());
        }
        let latency = lock(&shared.latency).take().ok_or("the histogram is taken once")?;
        let [cpu_us, generator_us] = [0, 1].map(|at| (after[at] - before[at]) / requests);
        Ok(Outcome { per_second: requests / seconds, cpu_us, generator_us, latency })
    }

    /// Returns the number of connections that have had a reply.
    pub fn served(&self) -> u64 {
        self.shared.served.load(Ordering::Relaxed)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A generator that panicked has printed its panic; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Records that `requests` were answered, each after `latency`.
    fn done(&self, requests: usize, latency: Duration) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        if self.is_measuring.load(Ordering::Relaxed)
            && let Some(histogram) = lock(&self.latency).as_mut()
        {
            let nanoseconds = (latency.as_nanos() as u64).min(LATENCY_NS_MAX);
            // Never out of range, as it is cut off at the limit.
            let _ = histogram.record_n(nanoseconds, requests as u64);
        }
    }

    fn fail(&self, error: &io::Error) {
        if !self.is_over() {
            lock(&self.failure).get_or_insert_with(|| error.to_string());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(server: &Server, spec: Spec<'_>) -> Result<Vec<(StdStream, Script)>> {
    let one = |number: usize| {
        let stream = server.connect()?;
        stream.set_nonblocking(true)?;
        Ok((stream, script(server, spec, Keys::random(spec.keys, number as u64))?))
    };
    (0..spec.connections).map(one).collect()
}

fn script(server: &Server, spec: Spec<'_>, keys: Keys) -> Result<Script> {
    let script = Script::new(spec.workload, server.kind.protocol(), spec.depth, spec.value_len, keys);
    script.ok_or_else(|| format!("{} has no {}", server.kind.name(), spec.workload.name).into())
}

async fn closed_client(
    stream: StdStream,
    mut script: Script,
    protocol: Protocol,
    depth: usize,
    shared: &Shared,
) -> io::Result<()> {
    let mut stream = TcpStream::from_std(stream)?;
    let (mut replies, mut buffer) = (Replies::new(protocol), vec![0; READ_LEN]);
    let mut is_first = true;
    while !shared.is_over() {
        let sent = Instant::now();
        stream.write_all(script.next_batch()).await?;
        let mut waiting = depth;
        while waiting > 0 {
            let len = stream.read(&mut buffer).await?;
            waiting -= count(&mut replies, &buffer[..len])?;
        }
        shared.done(depth, sent.elapsed());
        shared.served.fetch_add(u64::from(is_first), Ordering::Relaxed);
        is_first = false;
    }
    Ok(())
}

/// Counts the replies of a read; an empty one is the end of the connection.
fn count(replies: &mut Replies, read: &[u8]) -> io::Result<usize> {
    if read.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the server closed a connection"));
    }
    replies.count(read).map_err(|reply| io::Error::other(format!("a request was answered with {reply}")))
}

struct Sender {
    stream: Arc<TcpStream>,
    script: Script,
    /// Times at which the requests that wait for their replies were due.
    due: Arc<Mutex<VecDeque<Instant>>>,
    /// Bytes that the socket did not accept yet.
    unsent: Vec<u8>,
}

impl Sender {
    fn send(&mut self, due: Instant) -> io::Result<()> {
        lock(&self.due).push_back(due);
        self.unsent.extend_from_slice(self.script.next_batch());
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.stream.try_write(&self.unsent) {
            Ok(len) => {
                self.unsent.drain(..len);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn pace(senders: &mut [Sender], interval: Duration, shared: &Shared) -> io::Result<()> {
    let mut due = Instant::now();
    let mut next = 0;
    while !shared.is_over() {
        for sender in senders.iter_mut().filter(|sender| !sender.unsent.is_empty()) {
            sender.flush()?;
        }
        let now = Instant::now();
        while due <= now {
            senders[next].send(due)?;
            next = (next + 1) % senders.len();
            due += interval;
        }
        // Lets the readers run, without a sleep of the runtime.
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn open_reader(
    stream: &TcpStream,
    due: &Mutex<VecDeque<Instant>>,
    protocol: Protocol,
    shared: &Shared,
) -> io::Result<()> {
    let (mut replies, mut buffer) = (Replies::new(protocol), vec![0; READ_LEN]);
    loop {
        stream.readable().await?;
        let len = match stream.try_read(&mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        for _ in 0..count(&mut replies, &buffer[..len])? {
            let Some(due) = lock(due).pop_front() else { return Err(io::Error::other("a reply to no request")) };
            shared.done(1, now - due);
        }
    }
}

/// Executes a workload once for each of these keys, from one connection, as fast as possible.
///
/// # Errors
/// An error when the connection fails or the server answers with an error.
pub fn fill(server: &Server, workload: &Workload, keys: std::ops::Range<u64>, value_len: usize) -> Result<()> {
    let count_max = FILL_BATCH.min(FILL_BYTES / (value_len + 1)).max(1) as u64;
    let depth = count_max.min(keys.end - keys.start) as usize;
    let batches = (keys.end - keys.start).div_ceil(depth as u64);
    let spec = Spec { workload, connections: 1, depth, keys: keys.end, value_len };
    let mut from_start = script(server, spec, Keys::From(keys.start))?;
    // The last batch is a whole one too: it begins earlier instead of exceeding the end.
    let mut to_end = script(server, spec, Keys::From(keys.end - depth as u64))?;
    let mut stream = server.connect()?;
    let (mut replies, mut buffer) = (Replies::new(server.kind.protocol()), vec![0; READ_LEN]);
    let mut waiting = 0;
    for batch in 1..=batches {
        stream.write_all(if batch == batches { to_end.next_batch() } else { from_start.next_batch() })?;
        waiting += depth;
        // One batch stays in flight, so that the server need not wait for us.
        let under_way = if batch == batches { 0 } else { depth };
        while waiting > under_way {
            let len = stream.read(&mut buffer)?;
            waiting -= count(&mut replies, &buffer[..len])?;
        }
    }
    Ok(())
}

/// Sends requests from one connection, as fast as possible, and waits for all replies.
///
/// # Errors
/// An error when the connection fails or the server answers with an error.
pub fn send(server: &Server, requests: impl Iterator<Item = String>) -> Result<()> {
    let mut stream = server.connect()?;
    let (mut replies, mut buffer) = (Replies::new(server.kind.protocol()), vec![0; READ_LEN]);
    let (mut requests, mut waiting) = (requests.peekable(), 0);
    while requests.peek().is_some() || waiting > 0 {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for request in requests.by_ref().take(FILL_BATCH) {
            let words = request.split(' ');
            bytes.extend_from_slice(format!("*{}\r\n", words.clone().count()).as_bytes());
            words.for_each(|word| bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
            count += 1;
        }
        stream.write_all(&bytes)?;
        waiting += count;
        // One batch stays in flight, so that the server need not wait for us.
        while waiting > count {
            let len = stream.read(&mut buffer)?;
            waiting -= self::count(&mut replies, &buffer[..len])?;
        }
    }
    Ok(())
}

/// Returns whether a server supports a workload, with values of this length.
pub fn is_able(server: &Server, workload: &Workload, value_len: usize) -> bool {
    // A refusal by a server that should support everything is an error, which the load itself reports.
    server.kind.is_complete() || fill(server, workload, 0..workload.steps.len() as u64, value_len).is_ok()
}

/// Sends single requests from one connection, with a short pause between them, until `work` is done.
///
/// # Errors
/// The error of `work`, or of a connection that fails.
pub fn beside<T>(
    server: &Server,
    workload: &Workload,
    work: impl FnOnce() -> Result<T>,
) -> Result<(Histogram<u64>, T)> {
    let spec = Spec { workload, connections: 1, depth: 1, keys: 1, value_len: 3 };
    let mut script = script(server, spec, Keys::random(1, 0))?;
    let mut stream = server.connect()?;
    let protocol = server.kind.protocol();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let probe = scope.spawn(|| -> Result<Histogram<u64>> {
            let mut latency = Histogram::new_with_max(LATENCY_NS_MAX, 3)?;
            let (mut replies, mut buffer) = (Replies::new(protocol), vec![0; READ_LEN]);
            while !is_over.load(Ordering::Relaxed) {
                let sent = Instant::now();
                stream.write_all(script.next_batch())?;
                let mut waiting = 1;
                while waiting > 0 {
                    let len = stream.read(&mut buffer)?;
                    waiting -= count(&mut replies, &buffer[..len])?;
                }
                latency.record(sent.elapsed().as_nanos() as u64)?;
                thread::sleep(PROBE_PAUSE);
            }
            Ok(latency)
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        let latency = probe.join().map_err(|_| "the probe panicked")??;
        Ok((latency, done?))
    })
}
