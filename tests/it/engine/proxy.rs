//! Link from a server to a node: a proxy that can be slow, hold bytes back, lose them, and end its connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

/// Direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the server to the node.
    There,
    /// From the node to the server.
    Back,
}

/// Treatment of the bytes of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Passage {
    /// Pass the bytes.
    #[default]
    Open,
    /// Hold the bytes until the link is healed, however late that is.
    Held,
    /// Lose the bytes. The connection has a gap then, and ends when the link is healed.
    Lost,
}

/// Present state of a link.
#[derive(Default)]
struct State {
    latency: Duration,
    passages: [Passage; 2],
    connections: Vec<Weak<Connection>>,
    is_over: bool,
}

/// Connection through the link: the end towards the server and the end towards the node.
struct Connection {
    ends: [TcpStream; 2],
    has_lost: AtomicBool,
}

impl Connection {
    /// Ends the connection for both sides; held bytes are lost.
    fn end(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both); // it may have ended
        }
    }
}

struct Link {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    /// Number of lost bytes.
    lost: AtomicU64,
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("it was unlocked")
    }

    /// Changes the state, and wakes waiting threads.
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits while bytes of a direction are held; returns whether they arrive.
    fn pass(&self, way: Way) -> bool {
        let latency = self.state().latency;
        if !latency.is_zero() {
            let waited = self.changed.wait_timeout_while(self.state(), latency, |state| !state.is_over);
            drop(waited.expect("it was unlocked"));
        }
        let is_held = |state: &mut State| !state.is_over && state.passages[way as usize] == Passage::Held;
        let state = self.changed.wait_while(self.state(), is_held).expect("it was unlocked");
        state.is_over || state.passages[way as usize] == Passage::Open
    }

    /// Waits while the end of a connection would be lost.
    fn pass_end(&self, way: Way) {
        let is_cut = |state: &mut State| !state.is_over && state.passages[way as usize] != Passage::Open;
        drop(self.changed.wait_while(self.state(), is_cut).expect("it was unlocked"));
    }

    /// Copies the bytes of one direction of a connection.
    fn pump(&self, connection: &Connection, way: Way) {
        let (mut from, mut to) = match way {
            Way::There => (&connection.ends[0], &connection.ends[1]),
            Way::Back => (&connection.ends[1], &connection.ends[0]),
        };
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            if !self.pass(way) {
                connection.has_lost.store(true, SeqCst);
                self.lost.fetch_add(len as u64, SeqCst);
            } else if connection.has_lost.load(SeqCst) || to.write_all(&bytes[..len]).is_err() {
                return connection.end();
            }
        }
        self.pass_end(way);
        let _ = to.shutdown(Shutdown::Write); // it may have ended
    }

    /// Serves a connection until it ends.
    fn serve(self: &Arc<Self>, near: TcpStream) {
        let Ok(far) = TcpStream::connect(self.target) else { return };
        for end in [&near, &far] {
            end.set_nodelay(true).expect("TCP_NODELAY");
        }
        let connection = Arc::new(Connection { ends: [near, far], has_lost: AtomicBool::new(false) });
        self.change(|state| {
            state.connections.retain(|known| known.strong_count() > 0);
            state.connections.push(Arc::downgrade(&connection));
        });
        for way in [Way::There, Way::Back] {
            let (link, connection) = (self.clone(), connection.clone());
            thread::spawn(move || link.pump(&connection, way));
        }
    }
}

/// Listening link, which ends when this is dropped.
pub(super) struct Proxy {
    addr: SocketAddr,
    link: Arc<Link>,
}

impl Proxy {
    /// Starts a link to an address.
    pub(super) fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let link = Arc::new(Link { target, state: Mutex::default(), changed: Condvar::new(), lost: AtomicU64::new(0) });
        let serving = link.clone();
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if serving.state().is_over {
                    return;
                }
                serving.serve(near);
            }
        });
        Proxy { addr, link }
    }

    /// Returns the address on which it listens.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Delays all bytes.
    pub(super) fn delay(&self, latency: Duration) {
        self.link.change(|state| state.latency = latency);
    }

    /// Holds or loses the bytes of a direction, while connections stay open.
    pub(super) fn cut(&self, way: Way, passage: Passage) {
        self.link.change(|state| state.passages[way as usize] = passage);
    }

    /// Returns the number of open connections.
    pub(super) fn connections(&self) -> usize {
        self.link.state().connections.iter().filter(|known| known.strong_count() > 0).count()
    }

    /// Returns the number of lost bytes.
    pub(super) fn lost(&self) -> u64 {
        self.link.lost.load(SeqCst)
    }

    /// Sends bytes to the servers' ends of all connections, as if they came from the node.
    pub(super) fn say(&self, bytes: &[u8]) {
        let connections: Vec<_> = self.link.state().connections.iter().filter_map(Weak::upgrade).collect();
        for connection in connections {
            let _ = (&connection.ends[0]).write_all(bytes); // it may have ended
        }
    }

    /// Ends all connections.
    pub(super) fn reset(&self) {
        let connections: Vec<_> = self.link.state().connections.iter().filter_map(Weak::upgrade).collect();
        connections.iter().for_each(|connection| connection.end());
    }

    /// Passes all bytes again, held ones first. Connections that have lost bytes end.
    pub(super) fn heal(&self) {
        let connections: Vec<_> = self.link.state().connections.iter().filter_map(Weak::upgrade).collect();
        self.link.change(|state| (state.latency, state.passages) = (Duration::ZERO, [Passage::Open; 2]));
        connections.iter().filter(|known| known.has_lost.load(SeqCst)).for_each(|connection| connection.end());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.link.change(|state| state.is_over = true);
        self.reset();
        let _ = TcpStream::connect(self.addr); // wakes it to see the end
    }
}

/// Returns a link to an echo server, with a client whose connection works.
fn echo() -> (Proxy, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let proxy = Proxy::start(listener.local_addr().expect("an address"));
    let mut client = TcpStream::connect(proxy.addr()).expect("it listens");
    client.set_read_timeout(Some(crate::harness::PATIENCE)).expect("a read timeout");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = std::io::copy(&mut stream.try_clone().expect("a handle to spare"), &mut stream); // to its end
    });
    assert_eq!(exchange(&mut client, b"1"), Some(b'1'));
    (proxy, client)
}

/// Sends a byte; returns the echoed byte.
fn exchange(client: &mut TcpStream, byte: &[u8; 1]) -> Option<u8> {
    client.write_all(byte).ok()?;
    read(client)
}

/// Reads a byte; `None` at the end of the connection.
fn read(client: &mut TcpStream) -> Option<u8> {
    let mut back = [0];
    client.read_exact(&mut back).ok().map(|()| back[0])
}

/// Asserts that no byte arrives.
fn assert_silent(client: &TcpStream) {
    client.set_nonblocking(true).expect("a mode");
    let error = (&mut &*client).read(&mut [0]).expect_err("nothing comes");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    client.set_nonblocking(false).expect("a mode");
}

#[test]
fn what_a_link_holds_back_arrives_when_it_is_healed_even_after_its_sender_has_left() {
    for way in [Way::There, Way::Back] {
        let (proxy, mut client) = echo();
        proxy.cut(way, Passage::Held);
        client.write_all(b"2").expect("it is taken");
        assert_silent(&client);
        client.shutdown(Shutdown::Write).expect("still connected");
        proxy.heal();
        assert_eq!(read(&mut client), Some(b'2'), "{way:?}");
        assert_eq!(read(&mut client), None, "the end comes after it");
    }
}

#[test]
fn what_a_link_loses_never_arrives_and_the_connection_ends_when_it_is_healed() {
    for way in [Way::There, Way::Back] {
        let (proxy, mut client) = echo();
        proxy.cut(way, Passage::Lost);
        client.write_all(b"2").expect("it is taken");
        crate::harness::wait_until(|| {
            let connections: Vec<_> = proxy.link.state().connections.iter().filter_map(Weak::upgrade).collect();
            connections.iter().any(|connection| connection.has_lost.load(SeqCst))
        });
        assert_silent(&client);
        proxy.heal();
        assert_eq!(read(&mut client), None, "{way:?}");
    }
}

#[test]
fn a_link_that_is_reset_ends_its_connections_and_serves_new_ones() {
    let (proxy, mut client) = echo();
    proxy.delay(Duration::from_millis(1));
    assert_eq!(exchange(&mut client, b"3"), Some(b'3'));
    proxy.reset();
    assert_eq!(exchange(&mut client, b"4"), None);
    TcpStream::connect(proxy.addr()).expect("it listens");
}
