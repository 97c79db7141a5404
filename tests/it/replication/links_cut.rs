//! Relay in front of a server: connections through it are cut after a random number of bytes, in either direction.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::differential::random::Random;

/// Maximum number of bytes passed on at once.
const PIECE_MAX: usize = 8192;

/// Maximum number of cuts within the first bytes, the handshake of replicas: they wait for a second after each.
const EARLY_CUTS_MAX: u64 = 1;

/// Relay in front of one server, whose address may change.
pub(super) struct Relay {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Address of the server, while it is up.
    target: Mutex<Option<SocketAddr>>,
    random: Mutex<Random>,
    /// Number of connections that are still to be cut.
    cuts_left: AtomicU64,
    early_cuts: AtomicU64,
    /// Number of cut connections.
    cuts: AtomicU64,
    is_over: AtomicBool,
    /// True while bytes are held back.
    is_held: AtomicBool,
    /// Connections that pass through it, from both sides.
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Starts a relay that cuts this many connections.
    pub(super) fn start(seed: u64, cuts: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            target: Mutex::new(None),
            random: Mutex::new(Random::new(seed)),
            cuts_left: AtomicU64::new(cuts),
            early_cuts: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
            streams: Mutex::new(Vec::new()),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.is_over.load(SeqCst) {
                    return;
                }
                accepting.connect(stream);
            }
        });
        Relay { addr, shared }
    }

    /// Returns the port that replicas of the server connect to.
    pub(super) fn port(&self) -> u16 {
        self.addr.port()
    }

    /// Directs the next connections to an address, or nowhere.
    pub(super) fn lead_to(&self, target: Option<SocketAddr>) {
        *self.shared.target.lock() = target;
    }

    /// Holds back all bytes from now on, or passes them on again.
    pub(super) fn hold(&self, is_held: bool) {
        self.shared.is_held.store(is_held, SeqCst);
    }

    /// Allows this many more cuts.
    pub(super) fn allow_cuts(&self, cuts: u64) {
        self.shared.cuts_left.store(cuts, SeqCst);
    }

    pub(super) fn cuts(&self) -> u64 {
        self.shared.cuts.load(SeqCst)
    }

    /// Cuts all connections.
    pub(super) fn cut(&self) {
        self.shared.streams.lock().drain(..).for_each(|stream| _ = stream.shutdown(Shutdown::Both));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        self.cut();
        let _ = TcpStream::connect(self.addr); // wakes the accepting thread to end
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, replica: TcpStream) {
        let target = *self.target.lock();
        let Some(primary) = target.and_then(|target| TcpStream::connect(target).ok()) else { return };
        let ways = [(&replica, &primary), (&primary, &replica)];
        for (from, to) in ways {
            let (Ok(from), Ok(to), Ok(known)) = (from.try_clone(), to.try_clone(), from.try_clone()) else { return };
            _ = to.set_nodelay(true);
            self.streams.lock().push(known);
            let (shared, lifetime) = (self.clone(), self.lifetime());
            std::thread::spawn(move || shared.pass_on(&from, &to, lifetime));
        }
    }

    /// Chooses the number of bytes after which a connection is cut.
    fn lifetime(&self) -> usize {
        let mut random = self.random.lock();
        let is_early = random.below(6) == 0 && self.early_cuts.fetch_add(1, SeqCst) < EARLY_CUTS_MAX;
        let range = if is_early { 400 } else { 1000 << random.below(8) };
        range / 8 + random.below(range)
    }

    /// Passes on the bytes of one side, in pieces of random lengths.
    fn pass_on(&self, mut from: &TcpStream, mut to: &TcpStream, lifetime: usize) {
        let (mut buffer, mut left) = ([0; PIECE_MAX], lifetime);
        loop {
            let max = 1 + self.random.lock().below(PIECE_MAX);
            let Ok(len @ 1..) = from.read(&mut buffer[..max]) else { break };
            while self.is_held.load(SeqCst) && !self.is_over.load(SeqCst) {
                std::thread::park_timeout(std::time::Duration::from_millis(1));
            }
            let is_cut = len > left && self.take_cut();
            let passed = if is_cut { left } else { len };
            if to.write_all(&buffer[..passed]).is_err() || is_cut {
                break;
            }
            left = left.saturating_sub(len);
        }
        // The connection may have ended already.
        for stream in [from, to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Returns whether another connection may be cut, and counts it.
    fn take_cut(&self) -> bool {
        let is_cut = self.cuts_left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        self.cuts.fetch_add(u64::from(is_cut), SeqCst);
        is_cut
    }
}
