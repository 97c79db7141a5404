//! Keys that have expired by the clock of a server that does not own expiry, or was down meanwhile.

use std::io::Write;
use std::net::{TcpListener, TcpStream};

use keylatch::Clock;

use super::links_cut::Relay;
use super::nodes::{Dir, Kind, Node};
use super::parties::{Primary, RawReplica, answer_replica_at};
use crate::differential::random::Random;
use crate::harness::{Client, TestServer, encode, wait_until};
use crate::log::first_seed;

/// Keys of the first test: each kind of record that a snapshot has.
const KEYS: [&str; 6] = ["text", "long", "many", "fields", "list", "lock"];

fn own_ms() -> i64 {
    Clock::system().now().wall_ms()
}

/// Returns the present reply to TIME.
fn time() -> Vec<u8> {
    let ms = own_ms();
    encode(&[(ms / 1000).to_string(), (ms % 1000 * 1000).to_string()])
}

/// Sends commands like a primary.
fn send(link: &mut TcpStream, commands: &[Vec<&str>]) {
    let bytes: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
    link.write_all(&bytes).expect("the replica reads");
}

/// Sends a replica keys that have expired by its clock.
fn send_expired(link: &mut TcpStream) {
    let (long, past) = ("x".repeat(100_000), (own_ms() - 3_600_000).to_string());
    let many: Vec<String> = (0..3000).map(|n| format!("element:{n}")).collect();
    let members: Vec<&str> = ["SADD", "many"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let fields = many.iter().flat_map(|name| [&**name, "value"]);
    let fields: Vec<&str> = ["HSET", "fields"].into_iter().chain(fields).collect();
    let text: Vec<Vec<&str>> = vec![
        vec!["SELECT", "0"],
        vec!["SET", "text", "v"],
        vec!["SET", "long", &long],
        members,
        fields,
        vec!["RPUSH", "list", "a", "b"],
        vec!["SET", "lock", "token"],
    ];
    send(link, &text);
    send(link, &KEYS.map(|key| vec!["PEXPIREAT", key, &past]));
    send(link, &[vec!["SET", "last", "v"]]);
}

/// Sends the commands that the primary had executed before the keys' deadlines.
fn renew(link: &mut TcpStream) {
    send(link, &KEYS.map(|key| vec!["PERSIST", key]));
    send(link, &[vec!["SET", "renewed", "v"]]);
}

#[track_caller]
fn assert_renewed(client: &mut Client, way: &str) {
    wait_until(|| client.call("EXISTS renewed") == ":1");
    for key in KEYS {
        assert_eq!(client.call(&format!("EXISTS {key}")), ":1", "{key} {way}");
    }
    client.expect(&[("SCARD many", ":3000"), ("HLEN fields", ":3000"), ("STRLEN long", ":100000")]);
}

#[test]
fn a_replica_that_is_started_again_has_the_keys_whose_renewal_is_on_its_way() {
    let id = "f".repeat(40);
    let dump = [b"REDIS0010\xff".as_slice(), &[0; 8]].concat(); // no checksum
    let full = [format!("+FULLRESYNC {id} 1000\r\n${}\r\n", dump.len()).as_bytes(), &dump].concat();
    for (way, settings) in [
        ("from its snapshot", vec![("dbfilename", "dump.rdb")]),
        ("from its append-only file", vec![("appendonly", "yes")]),
        ("from commands", vec![("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let replicaof = format!("127.0.0.1 {}", listener.local_addr().expect("an address").port());
        let settings = [&settings[..], &[("replicaof", &*replicaof)]].concat();
        let replica = Node::keylatch(&settings);
        let mut link = answer_replica_at(&listener, time, &full);
        let mut client = replica.client();
        send_expired(&mut link);
        wait_until(|| client.call("EXISTS last") == ":1");
        client.expect(&[("EXISTS text long many fields list lock", ":0"), ("SAVE", "+OK")]);
        if way != "from its snapshot" {
            let rewrites = client.info("aof_rewrites");
            assert!(client.call("BGREWRITEAOF").starts_with('+'));
            wait_until(|| client.info("aof_rewrites") != rewrites);
        }
        // Its own replicas get them, too.
        let below = Node::replica_of(&replica, &[]);
        wait_until(|| below.client().call("EXISTS last") == ":1");
        let dir = replica.stop();
        let replica = Node::start_in(dir, Kind::Keylatch, &settings).expect("keylatch");
        let mut link = answer_replica_at(&listener, time, b"+CONTINUE\r\n");
        below.follow_again(&replica);
        renew(&mut link);
        assert_renewed(&mut replica.client(), way);
        assert_renewed(&mut below.client(), &format!("below one {way}"));
    }
}

/// Starts a primary in a directory, at a wall-clock time.
fn start_at(dir: &Dir, wall_ms: i64, settings: &[(&str, &str)]) -> (TestServer, Clock) {
    let clock = Clock::manual();
    clock.set_wall_ms(wall_ms);
    let own = [("enable-debug-command", "yes"), ("repl-diskless-sync-delay", "0"), ("save", "\"\"")];
    let place = [("dir", dir.path().to_str().expect("text"))];
    (TestServer::start_on(clock.clone(), &[&own[..], &place, settings].concat()), clock)
}

#[test]
fn replicas_are_told_of_keys_that_expire_while_their_primary_is_down_or_before_its_snapshot() {
    for (settings, is_swept_before) in
        [(&[][..], true), (&[], false), (&[("appendonly", "yes")], true), (&[("appendonly", "yes")], false)]
    {
        let (dir, begin_ms) = (Dir::new(), own_ms());
        let (server, _) = start_at(&dir, begin_ms, settings);
        let mut raw = RawReplica::synchronized(server.addr());
        let mut client = server.client();
        if !is_swept_before {
            client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK")]);
        }
        client.expect(&[("SET n 5 PX 1000", "+OK"), ("RPUSH l a b", ":2"), ("PEXPIRE l 1000", ":1")]);
        client.expect(&[("SET last v", "+OK")]);
        if !is_swept_before {
            server.advance_ms(2000); // they are expired in the snapshot, and no DEL was logged
        }
        raw.changes_before("set last v");
        raw.acknowledge();
        client.expect(&[("SAVE", "+OK")]);
        server.end();
        let (server, _) = start_at(&dir, begin_ms + 5000, settings);
        let mut client = server.client();
        let (id, offset) = (raw.id.clone(), raw.offset);
        let mut raw = RawReplica::connect(server.addr(), &["eof", "psync2"]);
        let answer = raw.resume(&id, offset);
        assert!(answer.starts_with("+CONTINUE"), "{answer} with {settings:?}");
        client.expect(&[("INCR n", ":1"), ("RPUSH l c", ":1"), ("SET end v", "+OK")]);
        let changes = raw.changes_before("set end v");
        let at = |change: &str| changes.iter().position(|seen| seen == change);
        for (removal, write) in [("del n", "incr n"), ("del l", "rpush l c")] {
            assert!(at(removal).is_some() && at(removal) < at(write), "{changes:?} with {settings:?}");
        }
    }
}

#[test]
fn a_reload_tells_the_replicas_and_the_file_of_keys_that_have_expired() {
    let primary = Primary::start_on(Clock::manual(), &[("appendonly", "yes")]);
    let mut client = primary.client();
    let mut raw = RawReplica::synchronized(primary.addr());
    client.expect(&[("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"), ("SET n 5 PX 1000", "+OK")]);
    primary.server.advance_ms(2000);
    client.expect(&[("DEBUG RELOAD", "+OK"), ("INCR n", ":1"), ("SET end v", "+OK")]);
    let changes = raw.changes_before("set end v");
    assert!(changes.ends_with(&["del n".into(), "incr n".into()]), "{changes:?}");
    client.expect(&[("DEBUG LOADAOF", "+OK"), ("GET n", "$1 1")]);
}

/// Three servers in a chain whose clocks advance together and show dates that differ, and one outside of it that is
/// always up and gets the same commands.
struct Chain {
    random: Random,
    is_logged: bool,
    wall_ms: i64,
    /// Differences of the wall clocks from the first server's, in milliseconds.
    skews: [i64; LEN],
    nodes: Vec<Option<(TestServer, Dir)>>,
    /// Relay in front of each server.
    relays: Vec<Relay>,
    reference: TestServer,
}

/// Makes a server save its data. A replica cannot while it loads its primary's data, during which a link may be held, and
/// gives a snapshot up when that data arrives; the primary, which is the first server, always can.
fn save(number: usize, client: &mut Client) {
    let reply = client.call("SAVE");
    let is_replaced = reply.starts_with("-LOADING ") || reply.starts_with("-ERR operation interrupted");
    assert!(reply == "+OK" || number > 0 && is_replaced, "server {number}: {reply}");
}

/// Returns the keys that a server has, with digests of their values and their deadlines, and the digest of all of it.
fn contents(client: &mut Client) -> Vec<String> {
    let names = ["lock", "shared"].map(str::to_owned).into_iter().chain((0..8).map(|number| format!("k{number}")));
    let describe = |name| {
        let [digest, deadline] =
            ["DEBUG DIGEST-VALUE", "PEXPIRETIME"].map(|word| client.call(&format!("{word} {name}")));
        format!("{name} {digest} {deadline}")
    };
    let keys: Vec<String> = names.map(describe).collect();
    [keys, vec![client.call("DEBUG DIGEST")]].concat()
}

const LEN: usize = 3;

impl Chain {
    fn start(seed: u64, is_logged: bool) -> Self {
        let relays = (0..LEN).map(|number| Relay::start(seed * 10 + number as u64, 0)).collect();
        let (mut random, wall_ms, clock) = (Random::new(seed), own_ms(), Clock::manual());
        clock.set_wall_ms(wall_ms);
        let reference = TestServer::start_on(clock, &[("enable-debug-command", "yes")]);
        let nodes = (0..LEN).map(|_| None).collect();
        let skews = [0, random.below(400) as i64 - 200, random.below(400) as i64 - 200];
        let mut chain = Chain { random, is_logged, wall_ms, skews, nodes, relays, reference };
        (0..LEN).for_each(|number| chain.run(number, Dir::new()));
        chain
    }

    fn run(&mut self, number: usize, dir: Dir) {
        let announced = self.relays[number].port().to_string();
        let mut settings =
            vec![("replica-announce-port", &*announced), ("appendonly", ["no", "yes"][usize::from(self.is_logged)])];
        let replicaof = number.checked_sub(1).map(|parent| format!("127.0.0.1 {}", self.relays[parent].port()));
        settings.extend(replicaof.as_deref().map(|replicaof| ("replicaof", replicaof)));
        let (server, _) = start_at(&dir, self.wall_ms + self.skews[number], &settings);
        self.relays[number].lead_to(Some(server.addr()));
        self.nodes[number] = Some((server, dir));
    }

    fn server(&self, number: usize) -> &TestServer {
        &self.nodes[number].as_ref().expect("it runs").0
    }

    /// Advances time on all of them.
    fn advance(&mut self, ms: u64) {
        self.wall_ms += ms as i64;
        self.reference.advance_ms(ms);
        self.nodes.iter().flatten().for_each(|(server, _)| server.advance_ms(ms));
    }

    /// Stops a server after it has saved its data, advances time, and restarts it.
    fn restart(&mut self, number: usize) {
        let (server, dir) = self.nodes[number].take().expect("it runs");
        save(number, &mut server.client());
        self.relays[number].lead_to(None);
        server.end();
        let ms = self.random.below(80) as u64;
        self.advance(ms);
        self.run(number, dir);
    }

    /// Executes a random write at the primary and at the server outside.
    fn write(&mut self, clients: &mut [Client; 2]) {
        let key = format!("k{}", self.random.below(8));
        let ms = 1 + self.random.below(150);
        let token = self.random.below(2);
        let call = match self.random.below(11) {
            0 | 1 => format!("SET {key} 1 PX {ms}"),
            2 | 3 => format!("PEXPIRE {key} {ms}"),
            4 => format!("RPUSH {key} a"),
            5 => format!("HSET {key} f{ms} v"),
            6 => format!("PERSIST {key}"),
            7 => format!("INCR {key}"),
            8 => format!("LOCK.ACQUIRE lock token{token} PX {ms}"),
            9 => format!("LOCK.RENEW lock token{token} PX {ms}"),
            _ => format!("LOCK.ACQUIRE shared token{token} SHARED PX {ms}"),
        };
        let replies = clients.each_mut().map(|client| client.call(&call));
        let [here, there] =
            if call.starts_with("LOCK.") { replies.map(|reply| reply[..1].to_owned()) } else { replies };
        assert_eq!(here, there, "{call}"); // of a lock not the fence
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..10 => {
                let mut clients = [self.server(0).client(), self.reference.client()];
                (0..1 + self.random.below(12)).for_each(|_| self.write(&mut clients));
            }
            10..13 => {
                let ms = self.random.below(60) as u64;
                self.advance(ms);
            }
            13 => {
                let (number, is_held) = (self.random.below(2), self.random.below(3) > 0);
                self.relays[number].hold(is_held);
            }
            14 => {
                let number = self.random.below(LEN);
                save(number, &mut self.server(number).client());
            }
            _ => {
                let number = self.random.below(LEN);
                self.restart(number);
            }
        }
    }

    /// Sets the wall clocks, apart or to the same date.
    fn set_dates(&self, are_apart: bool) {
        for (number, skew_ms) in self.skews.into_iter().enumerate() {
            self.server(number).server().set_wall_ms(self.wall_ms + if are_apart { skew_ms } else { 0 });
        }
    }

    /// Asserts that all have the same data once everything has arrived. Meanwhile they show the same date: a key that
    /// is over by a replica's clock is not seen there.
    fn assert_same(&self) {
        self.relays.iter().for_each(|relay| relay.hold(false));
        let mut clients: Vec<Client> = (0..LEN).map(|number| self.server(number).client()).collect();
        let place = |client: &mut Client| [client.info("master_replid"), client.info("master_repl_offset")];
        wait_until(|| {
            let expected = place(&mut clients[0]);
            let is_up = |client: &mut Client| client.info("master_link_status") == "up";
            clients[1..].iter_mut().all(|client| is_up(client) && place(client) == expected)
        });
        self.set_dates(false);
        let expected = contents(&mut self.reference.client());
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(contents(client), expected, "server {number}, dates {:?}", self.skews);
        }
        self.set_dates(true);
    }
}

#[test]
fn servers_whose_links_are_held_and_that_are_started_again_have_the_same_keys_in_the_end() {
    let first = first_seed();
    for seed in first..first + 2 {
        for is_logged in [false, true] {
            let mut chain = Chain::start(seed, is_logged);
            for _ in 0..3 {
                (0..24).for_each(|_| chain.step());
                chain.assert_same();
            }
        }
    }
}
