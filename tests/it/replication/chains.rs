//! Chains of servers in which each link passes through a relay, with clients that write and read meanwhile.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

use keylatch::internals::resp::Frame;
use parking_lot::Mutex;

use super::callers::Caller;
use super::links_cut::Relay;
use super::nodes::{Dir, Kind, Node};
use super::stream::blocks;
use crate::differential::random::Random;
use crate::harness::{Client, encode, wait_until};
use crate::log;

/// Number of databases that are written to.
const DATABASES: usize = 3;

/// Maximum number of random commands in a portion of a writer.
const PORTION: usize = 40;

/// Servers that replicate each other in a tree, each behind a relay.
pub(super) struct Chain {
    pub(super) random: Random,
    kinds: Vec<Kind>,
    /// `None` while the server is restarted.
    nodes: Vec<Option<Node>>,
    pub(super) relays: Vec<Relay>,
    settings: Vec<(&'static str, &'static str)>,
    /// True for servers with an append-only file.
    logged: Vec<bool>,
    /// Primary of each server in the tree.
    parents: Vec<Option<usize>>,
    seed: u64,
    /// Actions so far, with their servers.
    acts: Vec<(usize, usize)>,
}

/// State of a chain that its clients know.
pub(super) struct Known {
    addrs: Vec<Mutex<SocketAddr>>,
    /// Index of the primary.
    primary: AtomicUsize,
    /// Number of written portions.
    portions: AtomicU64,
    is_over: AtomicBool,
}

/// Guard that ends the clients of a chain, also when the test fails.
pub(super) struct Ending<'k>(pub(super) &'k Known);

impl Drop for Chain {
    #[expect(clippy::print_stderr, reason = "what has happened is asked for where a history fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Chain { seed, kinds, logged, parents, acts, .. } = self;
            eprintln!("seed {seed}, {kinds:?}, logged {logged:?}, parents {parents:?}, after {acts:?}");
        }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

impl Chain {
    /// Starts a chain whose links are not cut yet; `None` if a program for it is not installed.
    pub(super) fn start(seed: u64, kinds: &[Kind], settings: &[(&'static str, &'static str)]) -> Option<(Self, Known)> {
        let mut random = Random::new(seed);
        let relays: Vec<Relay> = (0..kinds.len()).map(|number| Relay::start(seed * 10 + number as u64, 0)).collect();
        let logged = kinds.iter().map(|kind| *kind == Kind::Keylatch && random.below(2) == 0).collect();
        let parents = (0..kinds.len()).map(|number| number.checked_sub(1)).collect();
        let nodes = kinds.iter().map(|_| None).collect();
        let (kinds, settings) = (kinds.to_vec(), settings.to_vec());
        let mut chain = Chain { random, kinds, nodes, relays, settings, logged, parents, seed, acts: Vec::new() };
        for number in 0..chain.kinds.len() {
            chain.run(number, Dir::new())?;
        }
        let known = Known {
            addrs: chain.nodes.iter().flatten().map(|node| Mutex::new(node.addr())).collect(),
            primary: AtomicUsize::new(0),
            portions: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        };
        Some((chain, known))
    }

    /// Starts a server in a directory, in its role in the tree.
    fn run(&mut self, number: usize, dir: Dir) -> Option<()> {
        let announced = self.relays[number].port().to_string();
        let replicaof = self.parents[number].map(|parent| format!("127.0.0.1 {}", self.relays[parent].port()));
        let mut settings = self.settings.clone();
        settings.push(("replica-announce-port", &announced));
        settings.push(("repl-diskless-load", ["disabled", "swapdb"][number % 2]));
        settings.push(("appendonly", if self.logged[number] { "yes" } else { "no" }));
        if let Some(replicaof) = replicaof.as_deref().filter(|_| self.kinds[number] == Kind::Keylatch) {
            settings.push(("replicaof", replicaof));
        }
        let node = Node::start_in(dir, self.kinds[number], &settings)?;
        self.relays[number].lead_to(Some(node.addr()));
        self.nodes[number] = Some(node);
        if replicaof.is_some() && self.kinds[number] != Kind::Keylatch {
            self.follow(number);
        }
        Some(())
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, number: usize) -> &Node {
        self.nodes[number].as_ref().expect("it runs")
    }

    /// Makes each relay cut more links.
    pub(super) fn allow_cuts(&self, count: u64) {
        self.relays.iter().for_each(|relay| relay.allow_cuts(count));
    }

    /// Sends a request until it is accepted: no request is while data is loaded.
    fn insist(&self, number: usize, request: &str) {
        let mut client = self.node(number).client();
        wait_until(|| client.call(request).starts_with("+OK"));
    }

    /// Makes a server replicate its parent in the tree.
    fn follow(&self, number: usize) {
        let parent = self.parents[number].expect("a replica");
        self.insist(number, &format!("REPLICAOF 127.0.0.1 {}", self.relays[parent].port()));
    }

    fn primary(&self) -> usize {
        self.parents.iter().position(Option::is_none).expect("a primary")
    }

    /// Performs a random action on a link, a server or the tree.
    pub(super) fn act(&mut self, known: &Known) {
        let (number, action) = (self.random.below(self.len()), self.random.below(14));
        self.acts.push((action, number));
        let client = || self.node(number).client();
        match action {
            0..=2 => self.relays[number].cut(),
            3 => _ = client().call("CLIENT KILL TYPE replica"),
            4 => _ = client().call("CLIENT KILL TYPE master"),
            5..=6 => self.restart(number, known),
            7..=8 => self.promote(number, known),
            9..=10 => self.fail_over(known),
            11 => _ = client().call("BGREWRITEAOF"), // refused during another rewrite
            12 if self.kinds[number] == Kind::Keylatch => {
                let is_logged = !self.logged[number];
                let value = if is_logged { "yes" } else { "no" };
                if client().call(&format!("CONFIG SET appendonly {value}")) == "+OK" {
                    self.logged[number] = is_logged;
                }
            }
            _ => {
                let size = [16_384, 200_000][self.random.below(2)];
                self.insist(number, &format!("CONFIG SET repl-backlog-size {size}"));
            }
        }
    }

    /// Ends a server, perhaps after a save, and restarts it with its files.
    fn restart(&mut self, number: usize, known: &Known) {
        if self.random.below(2) == 0 {
            self.node(number).client().call("SAVE"); // refused during another save, or a load
        }
        self.relays[number].lead_to(None);
        let dir = self.nodes[number].take().expect("it runs").stop();
        self.run(number, dir).expect("it has run");
        *known.addrs[number].lock() = self.node(number).addr();
    }

    /// Makes a server the primary, and the others its replicas, in any order.
    fn promote(&mut self, number: usize, known: &Known) {
        self.insist(number, "REPLICAOF NO ONE");
        known.primary.store(number, SeqCst);
        self.parents[number] = None;
        let first = self.random.below(self.len());
        let mut last = number;
        for other in (first..self.len()).chain(0..first).filter(|other| *other != number) {
            self.parents[other] = Some(if self.random.below(2) == 0 { number } else { last });
            last = other;
        }
        // From the primary downwards, so that there is no cycle.
        let mut above = vec![number];
        while let Some(parent) = above.pop() {
            for other in (0..self.len()).filter(|other| self.parents[*other] == Some(parent)) {
                self.follow(other);
                above.push(other);
            }
        }
    }

    /// Makes the primary hand its role over to one of its replicas, if that is available.
    fn fail_over(&mut self, known: &Known) {
        let old = self.primary();
        let Some(new) = (0..self.len()).find(|number| self.parents[*number] == Some(old)) else { return };
        let port = self.relays[new].port();
        let mut client = self.node(old).client();
        if client.call(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 2000")) != "+OK" {
            return;
        }
        wait_until(|| client.info("master_failover_state") == "no-failover");
        if client.info("role") == "slave" {
            (self.parents[old], self.parents[new]) = (Some(new), None);
            known.primary.store(new, SeqCst);
        } else {
            self.follow(new); // it may be a primary nevertheless, if its answer was cut
        }
    }

    /// Waits until all servers have the data of the primary.
    #[track_caller]
    pub(super) fn catch_up(&self) {
        self.allow_cuts(0);
        let primary = self.primary();
        let mut client = self.node(primary).client();
        wait_until(|| client.call("SET caught up") == "+OK"); // it may be loading
        for number in (0..self.len()).filter(|number| *number != primary) {
            let mut replica = self.node(number).client();
            wait_until(|| replica.info("master_link_status") == "up" && replica.call("GET caught") == "$2 up");
        }
        let nodes: Vec<&Node> = self.nodes.iter().flatten().collect();
        self.assert_same(&nodes, "the servers");
    }

    /// Asserts that the append-only files of keylatch have the data, too.
    #[track_caller]
    pub(super) fn check_files(mut self) {
        let logged: Vec<usize> = (0..self.len()).filter(|number| self.logged[*number]).collect();
        for number in &logged {
            let mut client = self.node(*number).client();
            wait_until(|| client.info("aof_rewrite_in_progress") == "0" && client.info("aof_rewrite_scheduled") == "0");
        }
        let mut alone = Vec::new();
        for number in &logged {
            let dir = self.nodes[*number].take().expect("it runs").stop();
            alone.push(Node::start_in(dir, Kind::Keylatch, &[("appendonly", "yes")]).expect("keylatch"));
        }
        let nodes: Vec<&Node> = self.nodes[self.primary()].iter().chain(&alone).collect();
        self.assert_same(&nodes, &format!("the primary and the files of {logged:?}"));
    }

    /// Asserts that servers have the same data, once they have deleted the expired keys.
    #[track_caller]
    fn assert_same(&self, nodes: &[&Node], what: &str) {
        let mut digests = Vec::new();
        let is_same = catch_unwind(AssertUnwindSafe(|| {
            wait_until(|| {
                digests = nodes.iter().map(|node| node.client().call("DEBUG DIGEST")).collect();
                digests.iter().all(|digest| *digest == digests[0] && digest.len() == 41)
            });
        }));
        let Chain { seed, kinds, acts, parents, .. } = self;
        assert!(
            is_same.is_ok(),
            "seed {seed}, {kinds:?}, parents {parents:?}, after {acts:?}: {what} have {digests:?}; {:?}",
            differences(nodes)
        );
    }
}

/// Returns the keys in which servers differ, with the values of each.
fn differences(nodes: &[&Node]) -> Vec<String> {
    let mut clients: Vec<Client> = nodes.iter().map(|node| node.client()).collect();
    let mut ask = |request: &[&[u8]]| clients.iter_mut().map(|client| client.frame(request)).collect::<Vec<Frame>>();
    let (mut found, mut keys) = (Vec::new(), BTreeSet::new());
    for db in 0..DATABASES {
        ask(&[b"SELECT", db.to_string().as_bytes()]);
        for listed in ask(&[b"KEYS", b"*"]) {
            let Frame::Array(listed) = listed else { continue };
            keys.extend(listed.into_iter().filter_map(|key| if let Frame::Bulk(key) = key { Some(key) } else { None }));
        }
        for key in &keys {
            for command in [&[&b"DEBUG"[..], b"DIGEST-VALUE", key][..], &[b"PEXPIRETIME", key], &[b"GET", key]] {
                let replies = ask(command);
                if replies.iter().any(|reply| *reply != replies[0]) {
                    let command = command.join(&b' ');
                    found.push(format!("database {db}: {}: {replies:?}", command.escape_ascii()));
                }
            }
        }
    }
    found
}

impl Known {
    pub(super) fn portions(&self) -> u64 {
        self.portions.load(SeqCst)
    }

    fn addr(&self, number: usize) -> SocketAddr {
        *self.addrs[number].lock()
    }

    /// Writes portions of random commands to the present primary.
    pub(super) fn write(&self, seed: u64, portions: u64, command: fn(&mut Random) -> Vec<Vec<u8>>) {
        let (mut caller, mut random) = (Caller::default(), Random::new(seed));
        for number in (0..portions).take_while(|_| !self.is_over.load(SeqCst)) {
            let requests = portion(&mut random, seed * 1_000_000 + number, command);
            wait_until(|| {
                let addr = self.addr(self.primary.load(SeqCst));
                self.is_over.load(SeqCst) || caller.ask(addr, &requests).is_some()
            });
            self.portions.fetch_add(1, SeqCst);
        }
    }

    /// Reads, from all servers, keys that are only changed together, until the history is over.
    pub(super) fn read(&self) {
        let mut callers: Vec<Caller> = self.addrs.iter().map(|_| Caller::default()).collect();
        while !self.is_over.load(SeqCst) {
            for (number, caller) in callers.iter_mut().enumerate() {
                for db in 0..DATABASES {
                    let requests = [encode(&["SELECT", &db.to_string()]), encode(&["MGET", "one", "two"])];
                    let Some(replies) = caller.ask(self.addr(number), &requests) else { continue };
                    if replies.iter().all(|reply| !reply.starts_with('-')) {
                        let (one, two) = replies[1].strip_prefix("*2 ").map(halves).expect("two values");
                        assert_eq!(one, two, "server {number}");
                    }
                }
            }
        }
    }
}

/// Splits a list of words in two.
fn halves(text: &str) -> (Vec<&str>, Vec<&str>) {
    let words: Vec<&str> = text.split(' ').collect();
    let (one, two) = words.split_at(words.len() / 2);
    (one.to_vec(), two.to_vec())
}

/// Generates random commands, and changes of two keys together by a transaction or a script.
fn portion(random: &mut Random, number: u64, command: fn(&mut Random) -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let text = |words: &str| encode(&words.split(' ').collect::<Vec<_>>());
    let (db, other) = (random.below(DATABASES), random.below(DATABASES));
    let mut requests = vec![text(&format!("SELECT {db}"))];
    for _ in 0..random.below(PORTION) {
        let args = command(random);
        if !blocks(&args) {
            requests.push(encode(&args));
        }
    }
    requests.push(text(&format!("SELECT {db}")));
    match random.below(4) {
        0 if cfg!(feature = "lua") => {
            let script = "redis.call('INCR', KEYS[1]) redis.call('INCR', KEYS[2])";
            requests.push(encode(&["EVAL", script, "2", "one", "two"]));
        }
        1 if cfg!(feature = "lua") => {
            let script = "for n = 1, 20 do redis.call('SET', 'one', ARGV[1] .. n) redis.call('SET', 'two', ARGV[1] .. n) \
                end redis.call('LPOP', 'one')";
            requests.push(encode(&["EVAL", script, "0", &number.to_string()]));
        }
        2 => {
            let between = format!("SELECT {other};APPEND other {number};SELECT {db}");
            let unit = format!("MULTI;SET one {number};{between};SET two {number};EXEC");
            requests.extend(unit.split(';').map(text));
        }
        _ => requests.extend("MULTI;INCR one;INCR two;EXEC".split(';').map(text)),
    }
    requests
}

/// Generates a command that Redis 7.0 has, too. EVAL is excluded: it restores the DUMP of a key, which Redis 7.0 cannot
/// read if it is a stream with a consumer that was seen after its last message.
pub(super) fn common_command(random: &mut Random) -> Vec<Vec<u8>> {
    without(&[b"PFCOUNT", b"EVAL"], || random.command())
}

/// Generates commands until one is none of these. PFCOUNT writes on a replica, too, as in Redis, and so on a server
/// that was the primary a moment before.
fn without(names: &[&[u8]], mut command: impl FnMut() -> Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    loop {
        let command = command();
        if !names.iter().any(|name| command[0].eq_ignore_ascii_case(name)) {
            return command;
        }
    }
}

/// Generates a command after which Valkey has the same digest: it writes scores with a fraction in another way.
pub(super) fn valkey_command(random: &mut Random) -> Vec<Vec<u8>> {
    let is_whole = |arg: &[u8]| {
        let number = std::str::from_utf8(arg).ok().and_then(|text| text.parse::<f64>().ok());
        number.is_none_or(|number| number.fract() == 0.0 && number.abs() < 1e9)
    };
    loop {
        let command = common_command(random);
        match command[0].to_ascii_lowercase().as_slice() {
            [b'g', b'e', b'o', ..] => {}
            [b'z', ..] if !command.iter().all(|arg| is_whole(arg)) => {}
            _ => return command,
        }
    }
}

/// Generates any command.
pub(super) fn any_command(random: &mut Random) -> Vec<Vec<u8>> {
    without(&[b"PFCOUNT"], || log::command(random))
}
