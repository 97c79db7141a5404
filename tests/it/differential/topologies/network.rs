//! The connections between the nodes of a real cluster, which a test can cut.
//!
//! Each node announces the ports of two relays in place of its own: one of its bus, whose first message names the sender,
//! and one of its data, where only the other node of its shard connects. Clients use the ports of the nodes themselves.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Place of the sender's id in a message of the bus.
const SENDER: std::ops::Range<usize> = 40..80;

/// Relays of a cluster.
pub(super) struct Network {
    shared: Arc<Shared>,
    relays: Vec<SocketAddr>,
}

struct Shared {
    ids: Vec<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The nodes on one side of the cut.
    apart: BTreeSet<usize>,
    has_ended: bool,
    /// Relayed connections: the nodes, and a handle on each end.
    open: Vec<([usize; 2], [TcpStream; 2])>,
}

impl Shared {
    /// Relays a connection, unless its nodes are apart.
    fn relay(&self, nodes: [usize; 2], first: &[u8], mut from: TcpStream, to: SocketAddr) -> io::Result<()> {
        let mut target = TcpStream::connect(to)?;
        target.write_all(first)?;
        let (mut back, mut answer) = (target.try_clone()?, from.try_clone()?);
        {
            let mut state = self.state.lock().expect("no panic");
            if state.has_ended || state.apart.contains(&nodes[0]) != state.apart.contains(&nodes[1]) {
                return Ok(());
            }
            state.open.push((nodes, [from.try_clone()?, target.try_clone()?]));
        }
        thread::spawn(move || {
            // The end of either direction is the end of both.
            let _ = io::copy(&mut back, &mut answer);
            let _ = (back.shutdown(Shutdown::Both), answer.shutdown(Shutdown::Both));
        });
        let copied = io::copy(&mut from, &mut target);
        let _ = (from.shutdown(Shutdown::Both), target.shutdown(Shutdown::Both));
        copied.map(drop)
    }

    fn close(&self, is_closed: impl Fn([usize; 2]) -> bool) {
        let state = &mut *self.state.lock().expect("no panic");
        state.open.retain(|(nodes, ends)| {
            if is_closed(*nodes) {
                // It may have ended already.
                ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
            !is_closed(*nodes)
        });
    }
}

impl Network {
    /// Creates a network of nodes, by their ids.
    pub(super) fn new(ids: Vec<String>) -> Self {
        Network { shared: Arc::new(Shared { ids, state: Mutex::default() }), relays: Vec::new() }
    }

    /// Relays the bus of a node; returns the port to be announced.
    pub(super) fn relay_bus(&mut self, node: usize, bus: SocketAddr) -> u16 {
        self.relay(move |shared, mut from| {
            let mut first = [0; SENDER.end];
            from.read_exact(&mut first)?;
            let sender = shared.ids.iter().position(|id| id.as_bytes() == &first[SENDER]).expect("a node");
            shared.relay([sender, node], &first, from, bus)
        })
    }

    /// Relays the data of a node to the other one of its shard; returns the port to be announced.
    pub(super) fn relay_data(&mut self, node: usize, partner: usize, data: SocketAddr) -> u16 {
        self.relay(move |shared, from| shared.relay([partner, node], &[], from, data))
    }

    fn relay(&mut self, serve: impl Fn(&Shared, TcpStream) -> io::Result<()> + Send + Sync + 'static) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let (shared, serve) = (self.shared.clone(), Arc::new(serve));
        self.relays.push(addr);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.state.lock().expect("no panic").has_ended {
                    break;
                }
                let (shared, serve) = (shared.clone(), serve.clone());
                thread::spawn(move || drop(serve(&shared, stream))); // a connection may fail at any time
            }
        });
        addr.port()
    }

    /// Cuts nodes off from the others.
    pub(super) fn cut(&self, nodes: &[usize]) {
        self.shared.state.lock().expect("no panic").apart = nodes.iter().copied().collect();
        self.shared.close(|[one, other]| nodes.contains(&one) != nodes.contains(&other));
    }

    /// Ends the cut.
    pub(super) fn heal(&self) {
        self.shared.state.lock().expect("no panic").apart.clear();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.state.lock().expect("no panic").has_ended = true;
        self.shared.close(|_| true);
        // The relays wake up, and see that.
        self.relays.iter().for_each(|relay| drop(TcpStream::connect(relay)));
    }
}
