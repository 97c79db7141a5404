//! Histories of three servers that replicate each other over simulated links, with simulated disks, by seed.
//!
//! Bytes cross a link in pieces of any length, and a cut loses those on the way. Servers die and start again with the
//! saved data, become primaries and replicas, also of replicas. In the end all follow one server, and have the same
//! data, although none has copied data without need: a wrong decision to continue shows as a difference.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories.

use std::sync::Arc;

use bytes::BytesMut;

use crate::client::info::Peer;
use crate::command::{handlers, image};
use crate::config::{Config, HostPort};
use crate::dispatch::replay::replay;
use crate::durability::{ReceivedData, ReplicaLoader, copy, probe};
use crate::namespace::Namespace;
use crate::persist::LogReader;
use crate::persist::disk::Disk;
use crate::persist::disk::simulated::SimulatedDisk;
use crate::random::Random;
use crate::replication::stream::PrimaryStream;
use crate::resp::write_command;
use crate::time::clock::Clock;

/// Number of histories, unless `KEYLATCH_HISTORIES` is set, and number of steps of each.
const HISTORIES: u64 = 2000;
const STEPS: usize = 120;
const SERVERS: usize = 3;

/// Numbers of the events seen.
#[derive(Debug, Default)]
struct Seen {
    full: usize,
    partial: usize,
    partial_after_restart: usize,
    partial_after_promotion: usize,
    crashes: usize,
    promotions: usize,
    written: usize,
}

struct Server {
    namespace: Arc<Namespace>,
    disk: SimulatedDisk,
    /// Number of the server's primary, if it is a replica.
    primary: Option<usize>,
    link: Option<Link>,
    /// True if the data may be of the primary's history.
    continues: bool,
    is_restarted: bool,
    is_demoted: bool,
}

/// The open link of a replica.
struct Link {
    reader: LogReader,
    stream: PrimaryStream,
    on_way: Vec<u8>,
    term: u64,
}

struct World {
    random: Random,
    servers: Vec<Server>,
    seen: Seen,
    next: u64,
}

/// Starts a server with the data on a disk.
fn start(disk: &SimulatedDisk, primary: Option<usize>, backlog: u64) -> Arc<Namespace> {
    let mut config = Config::default();
    (config.dir, config.dbfilename, config.repl_backlog_size) = ("/".into(), Some("dump.rdb".into()), backlog);
    config.replicaof = primary.map(address);
    let namespace = Arc::new(Namespace::for_test(&handlers().commands, config, Clock::manual()));
    probe::load(&namespace, handlers(), &(Arc::new(disk.clone()) as Arc<dyn Disk>)).expect("what was saved is whole");
    namespace
}

fn address(number: usize) -> HostPort {
    HostPort { host: "server".into(), port: number as u16 + 1 }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let backlog = [16_384, 1 << 20][random.below(2)];
        let servers = (0..SERVERS).map(|number| {
            let disk = SimulatedDisk::new(seed ^ number as u64);
            let primary = (number > 0).then_some(0);
            let namespace = start(&disk, primary, backlog);
            Server { namespace, disk, primary, link: None, continues: false, is_restarted: false, is_demoted: false }
        });
        World { servers: servers.collect(), random, seen: Seen::default(), next: 0 }
    }

    fn number(&mut self) -> usize {
        self.random.below(SERVERS)
    }

    /// Executes a write on a server, if it is a primary.
    fn write(&mut self, number: usize) {
        if self.servers[number].primary.is_some() {
            return;
        }
        let (db, key) = (self.random.below(3).to_string(), format!("k{}", self.random.below(20)));
        self.next += 1;
        let value = format!("{}{}", self.next, "v".repeat(self.random.below(400)));
        let mut log = BytesMut::new();
        let mut add = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            let mut command = Vec::new();
            write_command(&mut command, &words);
            log.extend_from_slice(&command);
        };
        add(&["SELECT", &db]);
        match self.random.below(6) {
            0 => add(&["DEL", &key]),
            1 => add(&["APPEND", &key, &value]),
            2 => {
                add(&["MULTI"]);
                add(&["SET", &key, &value]);
                add(&["RPUSH", "list", &value]);
                add(&["EXEC"]);
            }
            3 => add(&["INCR", "counter"]),
            4 => add(&["LTRIM", "list", "-5", "-1"]),
            _ => add(&["SET", &key, &value]),
        }
        replay(&self.servers[number].namespace, handlers(), log).expect("commands");
        self.seen.written += 1;
    }

    /// Opens the link of a replica whose primary can serve it: with the next records, or with all data.
    fn connect(&mut self, number: usize) {
        let Some(at) = self.servers[number].primary else { return };
        let can_serve = self.servers[at].primary.is_none() || self.servers[at].link.is_some();
        if self.servers[number].link.is_some() || !can_serve {
            return;
        }
        let (primary, replica) = (self.servers[at].namespace.clone(), self.servers[number].namespace.clone());
        let (id, position, term) = (replica.tenant.replication_id(), replica.log.end(), replica.role.term());
        let continues = self.servers[number].continues || replica.role.continues();
        let kept = continues.then(|| primary.resume(id.as_bytes(), position)).flatten();
        let (reader, db) = match kept {
            Some(reader) => {
                let present = primary.tenant.replication_id();
                let has_changed = present != id;
                assert!(replica.continue_with_primary(term, Some(present)), "the term is the present one");
                if has_changed {
                    self.cut_replicas(number);
                }
                let server = &self.servers[number];
                self.seen.partial += 1;
                self.seen.partial_after_restart += usize::from(server.is_restarted);
                self.seen.partial_after_promotion += usize::from(server.is_demoted);
                (reader, replica.log.copied_db().unwrap_or(0))
            }
            None => {
                let (content, reader) = copy(&primary).expect("nothing stops it");
                let received = |len| ReceivedData {
                    len: Some(content.len() as u64),
                    content: &content[..len],
                    path: "all data".into(),
                    id: primary.tenant.replication_id(),
                    position: reader.position(),
                    term,
                    time: None,
                };
                let take_over = ReplicaLoader::new(&replica, handlers(), Arc::new(self.servers[number].disk.clone()));
                let loaded = match self.random.below(3) {
                    0 => take_over.replace(received(content.len())),
                    1 => take_over.swap(received(content.len())),
                    _ => {
                        let present = || (image(&replica), replica.tenant.history.ids());
                        let before = present();
                        let cut = self.random.below(content.len());
                        assert!(take_over.swap(received(cut)).is_err() && present() == before, "cut at {cut}");
                        take_over.swap(received(content.len()))
                    }
                };
                let db = loaded.expect("a whole file").expect("the term is the present one");
                self.cut_replicas(number);
                self.seen.full += 1;
                (reader, db)
            }
        };
        let peer = Peer { addr: "server:1".into(), laddr: "".into(), fd: -1, is_unix: false };
        let stream = PrimaryStream::new(&replica, peer, db);
        let server = &mut self.servers[number];
        server.link = Some(Link { reader, stream, on_way: Vec::new(), term });
        (server.continues, server.is_restarted, server.is_demoted) = (true, false, false);
    }

    /// Delivers a piece of the bytes on the way, or all of them; returns true if there were any.
    fn deliver(&mut self, number: usize, all: bool) -> bool {
        let Server { link, namespace, .. } = &mut self.servers[number];
        let Some(open) = link else { return false };
        let Ok(written) = open.reader.read_all() else {
            *link = None;
            return true;
        };
        open.on_way.extend(written);
        let len = if all { open.on_way.len() } else { self.random.below(open.on_way.len() + 1) };
        let piece: Vec<u8> = open.on_way.drain(..len).collect();
        let executed = open.stream.execute((namespace, handlers()), open.term, &piece);
        assert!(executed.expect("the log of a primary"), "the term is the present one");
        len > 0
    }

    /// Cuts the links to the replicas of a server.
    fn cut_replicas(&mut self, number: usize) {
        let replicas = self.servers.iter_mut().filter(|server| server.primary == Some(number));
        replicas.for_each(|server| server.link = None);
    }

    /// Makes a server a primary.
    fn promote(&mut self, number: usize) {
        let server = &mut self.servers[number];
        if server.primary.take().is_some() {
            server.link = None;
            let _held = server.namespace.store.exclusive();
            server.namespace.become_primary();
            self.seen.promotions += 1;
        }
        self.cut_replicas(number);
    }

    /// Makes a server a replica of another one, unless that is its own replica.
    fn follow(&mut self, number: usize, primary: usize) {
        let mut above = Some(primary);
        while let Some(at) = above {
            if at == number {
                return;
            }
            above = self.servers[at].primary;
        }
        let server = &mut self.servers[number];
        if server.primary == Some(primary) {
            return;
        }
        server.is_demoted |= server.primary.is_none();
        (server.primary, server.link, server.continues) = (Some(primary), None, true);
        let _held = server.namespace.store.exclusive();
        server.namespace.follow_primary(address(primary));
    }

    /// Ends a server at once, and starts it with the data on its disk.
    fn crash(&mut self, number: usize) {
        let is_killed = self.random.below(2) == 0;
        let server = &mut self.servers[number];
        server.disk = if is_killed { server.disk.kill() } else { server.disk.power_cut() };
        let backlog = server.namespace.settings.current().repl_backlog_size;
        server.namespace = start(&server.disk, server.primary, backlog);
        (server.link, server.continues, server.is_restarted) = (None, false, true);
        self.seen.crashes += 1;
        self.cut_replicas(number);
    }

    fn save(&mut self, number: usize) {
        let Server { namespace, disk, .. } = &self.servers[number];
        probe::save(namespace, handlers(), &(Arc::new(disk.clone()) as Arc<dyn Disk>)).expect("the disk works");
    }

    fn step(&mut self) {
        let number = self.number();
        match self.random.below(40) {
            0 => self.crash(number),
            1 => self.promote(number),
            2 | 3 => {
                let primary = self.number();
                self.follow(number, primary);
            }
            4 | 5 => self.save(number),
            6 | 7 => self.servers[number].link = None,
            8..16 => self.connect(number),
            16..26 => _ = self.deliver(number, false),
            _ => self.write(number),
        }
    }

    /// Makes all servers follow one, and compares their data.
    fn settle(&mut self) -> Result<(), String> {
        let last = self.number();
        self.promote(last);
        for number in (0..SERVERS).filter(|number| *number != last) {
            if self.servers[number].primary != Some(last) {
                self.follow(number, last);
            }
        }
        // A server that has followed a replica of this one could not be told to follow it before.
        for number in (0..SERVERS).filter(|number| *number != last) {
            self.follow(number, last);
            self.connect(number);
            while self.deliver(number, true) {}
            self.connect(number);
            while self.deliver(number, true) {}
        }
        let expected = image(&self.servers[last].namespace);
        for (number, server) in self.servers.iter().enumerate() {
            if image(&server.namespace) != expected {
                return Err(format!("server {number} has other data than {last}"));
            }
            if server.namespace.log.end() != self.servers[last].namespace.log.end() {
                return Err(format!("server {number} is not where {last} is"));
            }
        }
        Ok(())
    }
}

#[test]
fn whatever_happens_to_servers_and_links_those_that_follow_one_have_its_data_in_the_end() {
    let number = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let (first, histories) = (number("KEYLATCH_SEED", 0), number("KEYLATCH_HISTORIES", HISTORIES));
    let mut seen = Seen::default();
    for seed in first..first + histories {
        let mut world = World::new(seed);
        world.seen = std::mem::take(&mut seen);
        (0..STEPS).for_each(|_| world.step());
        world.settle().unwrap_or_else(|reason| panic!("{reason} (KEYLATCH_SEED={seed} KEYLATCH_HISTORIES=1)"));
        seen = world.seen;
    }
    let is_rare = seen.full == 0
        || seen.partial == 0
        || seen.partial_after_restart == 0
        || seen.partial_after_promotion == 0
        || seen.promotions == 0;
    assert!(histories < HISTORIES || !is_rare, "the histories do not have what they are for: {seen:?}");
}
