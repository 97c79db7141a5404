//! Crashes of the whole server, on a simulated disk: at any power cut or death of the process, with any disk errors
//! before, the next start has a state that the data has had, not older than the state acknowledged as durable.
//!
//! A seed is a history of several lives of a server. Clients send commands one after the other, so that the state after
//! each is known; replies may be read much later. Durability is known by replies alone: with `appendfsync always` by
//! the replies to writes, otherwise by those of WAITAOF and SAVE, and by the end of CONFIG SET appendonly yes.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories; with `KEYLATCH_TRACE` all actions
//! and replies are printed.

#![allow(clippy::print_stderr, reason = "what a history has done is asked for where it fails")]

mod conversation;
mod units;

use std::path::Path;
use std::time::Duration;

use keylatch::internals::disk::{CrashKind, DiskFailure, DiskFaults, DiskOperation, PlannedFaults, SimulatedDisk};
use keylatch::internals::{calls, image};
use keylatch::{Clock, Server};

use self::conversation::{Asked, Conversation};
use self::units::{Unit, unit};
use crate::differential::random::Random;
use crate::harness::{Client, PATIENCE, encode, give_up};
use crate::log::{BEGIN_MS, first_seed};

/// Number of histories, unless set by `KEYLATCH_HISTORIES`, and number of lives of each.
const HISTORIES: u64 = 120;
const LIVES: usize = 8;
/// Number of writing clients.
const CLIENTS: usize = 3;

/// Prints an event if tracing is enabled.
macro_rules! trace {
    ($($part:tt)*) => {
        if std::env::var_os("KEYLATCH_TRACE").is_some() {
            eprintln!($($part)*);
        }
    };
}

/// Counters of events.
#[derive(Debug, Default)]
struct Seen {
    lives: usize,
    units: usize,
    killed: usize,
    cut: usize,
    ended_in_start: usize,
    stopped: usize,
    failed_starts: usize,
    lost_units: usize,
    healed: usize,
    rejected: usize,
    toggled: usize,
}

/// Knowledge about the data over all lives of a history.
struct History {
    seed: u64,
    random: Random,
    disk: SimulatedDisk,
    wall_ms: i64,
    /// Settings with which the next life starts.
    is_logged: bool,
    policy: &'static str,
    /// True if files have checksums. Without them the remains of a power cut cannot be recognised, so only the process
    /// dies.
    has_checksums: bool,
    /// States that the data has had, in order, and the first of them that the next start may find.
    states: Vec<Vec<String>>,
    least: usize,
    /// Greatest fence that a client was told.
    greatest_fence: i64,
    seen: Seen,
}

/// Life of a server.
struct Life<'a> {
    history: &'a mut History,
    server: Server,
    clients: Vec<Conversation>,
    /// Client that asks about files and settings, which may wait for the disk, and one that does not wait.
    control: Conversation,
    operator: Conversation,
    /// Number of sent units, each of which ends with an ECHO.
    sent: u64,
    /// Greatest fence of former lives.
    former_fence: i64,
    has_faults: bool,
    /// True if the reply to a write means that it is durable.
    is_always: bool,
}

impl History {
    fn new(seed: u64, seen: Seen) -> Self {
        let mut random = Random::new(seed);
        let (policy, has_checksums) = (["always", "everysec", "no"][random.below(3)], random.below(4) > 0);
        History {
            seed,
            disk: SimulatedDisk::new(seed).without_boot_ids(), // its clock runs independently of the server's
            is_logged: random.below(4) > 0,
            random,
            wall_ms: BEGIN_MS,
            policy,
            has_checksums,
            states: vec![Vec::new()],
            least: 0,
            greatest_fence: 0,
            seen,
        }
    }

    fn start(&mut self) -> std::io::Result<Server> {
        let clock = Clock::manual();
        clock.set_wall_ms(self.wall_ms);
        let delay = [0, 0, 40][self.random.below(3)];
        let builder = Server::builder().clock(clock).disk(self.disk.clone()).set("dir", "/");
        let builder = builder.set("dbfilename", "dump.rdb").set("save", "").set("rdb-key-save-delay", delay);
        let builder = builder.set("appendonly", if self.is_logged { "yes" } else { "no" });
        let builder = builder.set("appendfsync", self.policy);
        let timestamps = if self.random.below(4) == 0 { "yes" } else { "no" };
        let builder = builder.set("aof-checksum", if self.has_checksums { "yes" } else { "no" });
        builder.set("aof-timestamp-enabled", timestamps).start_blocking()
    }

    /// Plans the end of the life, and the errors while the server starts.
    fn plan(&mut self) -> bool {
        let is_killed = self.random.below(2) == 0 || !self.has_checksums;
        let end = if is_killed { CrashKind::Kill } else { CrashKind::PowerCut };
        let range = [8, 40, 200, 600][self.random.below(4)];
        let operations = self.random.below(range);
        self.disk.end_after(operations, end);
        let has_faults = self.random.below(8) == 0;
        if has_faults {
            self.disk.set_faults(DiskFaults { per_thousand: 80, short_per_thousand: 200, ..DiskFaults::default() });
        }
        has_faults
    }

    /// Runs a life, up to the disk that the next start finds.
    fn live(&mut self, number: usize) {
        self.seen.lives += 1;
        let has_faults = self.plan();
        trace!("life {number}, is logged: {}, {}, faults at the start: {has_faults}", self.is_logged, self.policy);
        let server = match self.start() {
            Ok(server) => server,
            Err(error) => {
                let found = self.disk.found();
                assert!(
                    found.is_some() || has_faults,
                    "seed {}, life {number}: the start is refused: {error}",
                    self.seed
                );
                self.seen.ended_in_start += usize::from(found.is_some());
                self.seen.failed_starts += usize::from(found.is_none());
                self.disk = found.unwrap_or_else(|| self.disk.kill());
                return;
            }
        };
        self.disk.set_faults(DiskFaults::default());
        server.advance(Duration::ZERO);
        self.check(number, image(server.namespace()), has_faults);
        let mut life = Life::begin(self, server);
        life.run();
        life.end();
    }

    /// Checks the state that a start has found, with or without faults.
    #[track_caller]
    fn check(&mut self, number: usize, found: Vec<String>, has_faults: bool) {
        let (seed, least, last) = (self.seed, self.least, self.states.len() - 1);
        let Some(place) = self.states.iter().rposition(|state| *state == found) else {
            let expected = &self.states[last];
            let more: Vec<_> = found.iter().filter(|line| !expected.contains(line)).collect();
            let less: Vec<_> = expected.iter().filter(|line| !found.contains(line)).collect();
            let nearest = self.states.iter().enumerate().min_by_key(|(_, state)| {
                state.iter().filter(|line| !found.contains(line)).count()
                    + found.iter().filter(|line| !state.contains(line)).count()
            });
            panic!(
                "seed {seed}, life {number}: no state of {least}..={last} is found; the last one has {less:#?}, which \
                is missing, and not {more:#?}; the nearest is {:?}",
                nearest.map(|(place, _)| place)
            );
        };
        assert!(
            place >= least,
            "seed {seed}, life {number}: state {place} is found, {least} was durable, {last} is the last"
        );
        self.seen.lost_units += last - place;
        if self.is_logged || !has_faults && self.disk.found().is_none() {
            // The state found by a start is durable.
            (self.states, self.least) = (vec![found], 0);
        } else {
            self.states.push(found); // a former snapshot may still come back
        }
    }
}

impl<'a> Life<'a> {
    fn begin(history: &'a mut History, server: Server) -> Self {
        let clients = (0..CLIENTS).map(|_| Conversation::connect(server.addr())).collect();
        let [control, operator] = [(); 2].map(|()| Conversation::connect(server.addr()));
        let former_fence = history.greatest_fence;
        let is_always = history.is_logged && history.policy == "always";
        Life { history, server, clients, control, operator, sent: 0, former_fence, has_faults: false, is_always }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.history.random.below(limit)
    }

    fn has_ended(&self) -> bool {
        self.history.disk.found().is_some()
    }

    /// Returns the index of the present state.
    fn present(&self) -> usize {
        self.history.states.len() - 1
    }

    /// Waits until a condition holds or the machine has ended; returns whether the condition holds.
    #[track_caller]
    fn wait(&mut self, what: &str, mut is_true: impl FnMut(&mut Self) -> bool) -> bool {
        let clock = Clock::system();
        let began_ms = clock.now().mono_ms();
        loop {
            if is_true(self) {
                return true;
            }
            if self.has_ended() {
                return false;
            }
            if clock.now().mono_ms() - began_ms > PATIENCE.as_millis() as u64 {
                give_up(&format!("seed {}: {what}", self.history.seed));
            }
            std::thread::yield_now();
        }
    }

    /// Sends a unit from a client, and records the state after it.
    fn send(&mut self, client: usize, unit: &Unit) {
        self.history.seen.units += 1;
        self.sent += 1;
        let spelled = unit.commands.iter().map(|command| command.join(&b' ').escape_ascii().to_string());
        trace!("{client}> {}", spelled.collect::<Vec<_>>().join("; "));
        self.clients[client].send_unit(&unit.commands);
        let sent = self.sent;
        let clock = Clock::system();
        let began_ms = clock.now().mono_ms();
        while calls(self.server.namespace(), "echo") < sent {
            if clock.now().mono_ms() - began_ms > PATIENCE.as_millis() as u64 {
                give_up(&format!("seed {}: commands are not executed", self.history.seed));
            }
            std::thread::yield_now();
        }
        // The reply to a unit without changes waits for nothing.
        if self.note_state() && self.is_always {
            self.clients[client].last_asked_is_durable(self.history.states.len() - 1);
        }
    }

    /// Records the present state; returns whether it differs from the last one.
    fn note_state(&mut self) -> bool {
        let state = image(self.server.namespace());
        let is_new = self.history.states.last() != Some(&state);
        self.history.states.push(state);
        is_new
    }

    /// Reads the replies that have arrived.
    fn listen(&mut self) {
        for conversation in self.clients.iter_mut().chain([&mut self.control, &mut self.operator]) {
            for (asked, reply) in conversation.replies() {
                let history = &mut *self.history;
                trace!("{asked:?}: {reply}");
                match asked {
                    Asked::Durable(state) => history.least = history.least.max(state),
                    Asked::Sync(state) if reply == "*2 :1 :0" => history.least = history.least.max(state),
                    Asked::Save(state) if reply == "+OK" && !history.is_logged => {
                        history.least = history.least.max(state);
                    }
                    Asked::Lock => {
                        let fence = reply.strip_prefix(':').and_then(|digits| digits.parse().ok());
                        if let Some(fence) = fence.filter(|fence: &i64| *fence > 0) {
                            let former = self.former_fence;
                            // A kept fence was given before, and is in the data.
                            let is_kept =
                                || history.states.iter().flatten().any(|line| line.contains(&fence.to_string()));
                            assert!(fence > former || is_kept(), "seed {}: fence {fence} after {former}", history.seed);
                            history.greatest_fence = history.greatest_fence.max(fence);
                        }
                    }
                    Asked::Write => history.seen.rejected += usize::from(reply.starts_with("-MISCONF")),
                    _ => {}
                }
            }
        }
    }

    /// Asks about files or settings, and waits for the reply; `None` if the machine ends before it.
    fn ask(&mut self, request: &str, asked: Asked) -> Option<String> {
        self.control.send(request, asked);
        let waits = |life: &mut Self| {
            life.listen();
            !life.control.waits()
        };
        self.wait(&format!("no reply to {request}"), waits).then(|| self.control.last().to_owned())
    }

    /// Makes all changes durable; returns whether they are.
    fn sync(&mut self) -> bool {
        let present = self.present();
        let reply = if self.history.is_logged {
            self.ask("WAITAOF 1 0 0", Asked::Sync(present))
        } else {
            self.ask("SAVE", Asked::Save(present))
        };
        reply.is_some() && self.history.least == present
    }

    fn run(&mut self) {
        // The fence may be that of a lost lock, if it was given in the same millisecond.
        self.advance(1);
        let units = self.below(60);
        for _ in 0..units {
            if self.has_ended() {
                return;
            }
            self.act();
            self.listen();
        }
    }

    fn act(&mut self) {
        let present = self.present();
        match self.below(40) {
            0 => self.control.send("BGSAVE", Asked::Other),
            1..=2 => self.control.send("BGREWRITEAOF", Asked::Other),
            13..=16 if self.has_faults => self.control.send("BGREWRITEAOF", Asked::Other),
            3 => self.control.send("WAITAOF 1 0 0", Asked::Sync(present)),
            4 if !self.history.is_logged => self.control.send("SAVE", Asked::Save(present)),
            5 => self.begin_faults(),
            6 if self.has_faults => self.heal(),
            7..=8 if !self.has_faults => {
                let ms = [1, 100, 1500, 3000][self.below(4)];
                self.advance(ms);
            }
            9 => {
                let ms = self.below(1200) as u64;
                self.history.disk.advance_ms(ms);
            }
            10 if !self.has_faults => self.set_policy(),
            11 if !self.has_faults && self.below(2) == 0 => self.toggle(),
            12 => _ = self.wait("replies", |life| life.hears_all() || life.has_faults),
            _ => {
                let (client, unit) = (self.below(CLIENTS), unit(&mut self.history.random));
                self.send(client, &unit);
            }
        }
    }

    /// Returns whether all replies have arrived.
    fn hears_all(&mut self) -> bool {
        self.listen();
        !self.control.waits() && !self.operator.waits() && !self.clients.iter().any(Conversation::waits)
    }

    /// Advances time once everything is durable: keys that expire are gone from all states that may be found.
    fn advance(&mut self, ms: u64) {
        if self.sync() {
            self.server.advance(Duration::from_millis(ms));
            self.history.disk.advance_ms(ms);
            self.history.wall_ms += ms as i64;
            self.note_state();
        }
    }

    /// Starts disk errors: of any operation, of writes beyond the free space, or of a few operations of one kind.
    fn begin_faults(&mut self) {
        const KINDS: [DiskOperation; 6] = [
            DiskOperation::Write,
            DiskOperation::Sync,
            DiskOperation::Sync,
            DiskOperation::SyncDir,
            DiskOperation::Name,
            DiskOperation::Create,
        ];
        let used: usize = self.history.disk.contents().iter().map(|(_, content)| content.len()).sum();
        let room = self.below(3000) as u64;
        let faults = match self.below(4) {
            0 => DiskFaults { per_thousand: [20, 200, 1000][self.below(3)], ..DiskFaults::default() },
            1 => DiskFaults { capacity: Some(used as u64 + room), ..DiskFaults::default() },
            _ => {
                let planned = |life: &mut Self| PlannedFaults {
                    operation: Some(KINDS[life.below(KINDS.len())]),
                    file: None,
                    after: life.below(4),
                    count: 1 + life.below(2),
                    error: [DiskFailure::Full, DiskFailure::Io][life.below(2)],
                };
                DiskFaults { planned: (0..1 + self.below(3)).map(|_| planned(self)).collect(), ..DiskFaults::default() }
            }
        };
        trace!("{faults:?}");
        self.history.disk.set_faults(DiskFaults { short_per_thousand: 200, ..faults });
        self.has_faults = true;
    }

    /// Ends the faults, and waits until the server has recovered: it has replied to everything, and accepts writes.
    fn heal(&mut self) {
        trace!("no faults");
        self.history.disk.set_faults(DiskFaults::default());
        self.history.disk.advance_ms(2000); // the writer of the file has waited long enough
        self.history.seen.healed += 1;
        for attempt in 0..200 {
            if self.has_ended() {
                return;
            }
            self.history.disk.advance_ms(50); // after an error the writer of the file pauses
            let setting = if self.history.is_logged { "CONFIG SET appendonly yes" } else { "CONFIG SET appendonly no" };
            self.operator.send(setting, Asked::Other); // makes the server look
            let present = self.present();
            match attempt {
                _ if !self.history.is_logged => {}
                // Makes the writer of the file retry at once. A rewrite would hide its errors.
                0..4 => self.control.send("WAITAOF 1 0 0", Asked::Sync(present)),
                _ => self.operator.send("BGREWRITEAOF", Asked::Other), // its own retry comes much later
            }
            for _ in 0..50 {
                std::thread::park_timeout(Duration::from_millis(1));
                if self.hears_all() || self.has_ended() {
                    break;
                }
            }
            if !self.hears_all() {
                continue;
            }
            let unit = Unit { commands: vec![[&b"SET"[..], b"probe", b"1"].map(<[u8]>::to_vec).to_vec()] };
            self.send(0, &unit);
            if self.hears_all_in_time() && self.clients[0].last_write() == "+OK" {
                self.has_faults = !self.sync();
                return;
            }
        }
        give_up(&format!("seed {}: writes are rejected after faults", self.history.seed));
    }

    /// Waits for all replies, and advances the disk's time meanwhile: failed writes are retried after a pause. Returns
    /// false if the machine has ended.
    fn hears_all_in_time(&mut self) -> bool {
        for _ in 0..400 {
            for _ in 0..50 {
                if self.hears_all() || self.has_ended() {
                    return !self.has_ended();
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            self.history.disk.advance_ms(100);
            if self.history.is_logged {
                self.operator.send("BGREWRITEAOF", Asked::Other); // its own rewrite comes later, by the server's clock
            }
        }
        self.wait("a reply after faults", Self::hears_all)
    }

    /// Records that replies come before durability from now on.
    fn leave_always(&mut self) {
        self.is_always = false;
        self.clients.iter_mut().for_each(Conversation::nothing_is_durable);
    }

    fn set_policy(&mut self) {
        let policy = ["always", "everysec", "no"][self.below(3)];
        self.leave_always();
        if self.ask(&format!("CONFIG SET appendfsync {policy}"), Asked::Other).is_some() {
            self.history.policy = policy;
            self.is_always = self.history.is_logged && policy == "always";
        }
    }

    /// Disables or enables the append-only file. The configuration file is changed only if the other kind of
    /// persistence has the data.
    fn toggle(&mut self) {
        self.history.seen.toggled += 1;
        let present = self.present();
        if self.history.is_logged {
            self.leave_always();
            if self.ask("SAVE", Asked::Other).is_some_and(|reply| reply == "+OK") {
                (self.history.is_logged, self.history.least) = (false, present);
                self.ask("CONFIG SET appendonly no", Asked::Other);
            }
            return;
        }
        if self.ask("CONFIG SET appendonly yes", Asked::Other).is_none() {
            return;
        }
        for _ in 0..10_000 {
            let Some(info) = self.ask("INFO persistence", Asked::Other) else { return };
            let has = |field: &str| info.contains(field);
            let is_begun = has("aof_rewrite_in_progress:0") && has("aof_rewrite_scheduled:0");
            if has("aof_enabled:1") && is_begun && has("aof_last_bgrewrite_status:ok") {
                (self.history.is_logged, self.history.least) = (true, present);
                self.is_always = self.history.policy == "always";
                return;
            }
        }
        give_up(&format!("seed {}: the append-only file is not begun", self.history.seed));
    }

    /// Ends the life as planned, or now.
    fn end(mut self) {
        if !self.has_ended() && self.below(4) == 0 {
            if self.has_faults {
                self.heal();
            }
            self.history.disk.end_after(usize::MAX, CrashKind::PowerCut);
        }
        self.listen();
        let is_stopped = !self.has_ended() && !self.has_faults && self.below(4) == 0;
        let Life { history, server, .. } = self;
        if is_stopped {
            server.shutdown_blocking();
            if history.disk.found().is_none() && history.is_logged {
                history.least = history.states.len() - 1;
            }
            history.seen.stopped += 1;
        }
        let is_killed = history.random.below(2) == 0 || !history.has_checksums;
        trace!("the end, planned: {}, stopped: {is_stopped}, killed: {is_killed}", history.disk.found().is_some());
        history.seen.killed += usize::from(is_killed);
        history.seen.cut += usize::from(!is_killed);
        history.disk = match history.disk.found() {
            Some(found) => found,
            None if is_killed => history.disk.kill(),
            None => history.disk.power_cut(),
        };
    }
}

fn run(seed: u64, seen: Seen) -> Seen {
    let mut history = History::new(seed, seen);
    for number in 0..LIVES {
        history.live(number);
    }
    history.seen
}

#[test]
fn whenever_the_machine_ends_the_next_start_has_what_was_acknowledged_and_nothing_else() {
    let count = std::env::var("KEYLATCH_HISTORIES").map_or(HISTORIES, |text| text.parse().expect("a number"));
    let first = first_seed();
    let seen = (first..first + count).fold(Seen::default(), |seen, seed| run(seed, seen));
    trace!("{seen:?}");
    if count >= HISTORIES {
        let Seen { ended_in_start, stopped, failed_starts, lost_units, healed, rejected, toggled, .. } = seen;
        let least = [ended_in_start, stopped, failed_starts, lost_units, healed, rejected, toggled].into_iter().min();
        assert!(least >= Some(3), "too little was tried: {seen:?}");
    }
}

/// Starts a server on a disk; returns it with its digest.
fn start_on(disk: &SimulatedDisk, appendonly: &str) -> (Server, String) {
    let builder = Server::builder().disk(disk.clone()).set("dir", "/").set("dbfilename", "dump.rdb").set("save", "");
    let builder = builder.set("appendonly", appendonly).set("enable-debug-command", "yes");
    let server = builder.start_blocking().expect("started");
    let digest = Client::connect(server.addr()).call("DEBUG DIGEST");
    (server, digest)
}

#[test]
fn a_snapshot_that_a_start_has_loaded_is_durable_though_the_process_before_died_early() {
    let mut seen = [0, 0];
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let (server, _) = start_on(&disk, "no");
        let mut client = Client::connect(server.addr());
        client.expect(&[("SET k old", "+OK"), ("SAVE", "+OK"), ("SET k new", "+OK")]);
        disk.end_after(seed as usize % 10, CrashKind::Kill);
        client.call("SAVE"); // it may fail
        let found = disk.found().unwrap_or_else(|| disk.kill());
        let (server, digest) = start_on(&found, "no");
        seen[usize::from(Client::connect(server.addr()).call("GET k") == "$3 new")] += 1;
        let (_again, later) = start_on(&found.power_cut(), "no");
        assert_eq!(later, digest, "seed {seed}");
    }
    assert!(seen.into_iter().min() >= Some(20), "too little was tried: {seen:?}");
}

#[test]
fn all_parts_of_an_append_only_file_that_a_start_has_loaded_are_durable() {
    let manifest = "file base.aof seq 1 type b\nfile one.aof seq 1 type i\nfile two.aof seq 2 type i\n";
    let parts = [("base.aof", "a"), ("one.aof", "b"), ("two.aof", "c")];
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        disk.create_durable_dir(Path::new("/appendonlydir")).expect("created");
        let write = |name: &str, content: &[u8]| disk.write_unsynced(&Path::new("/appendonlydir").join(name), content);
        parts.iter().for_each(|(name, key)| write(name, &encode(&["SET", key, "v"])));
        write("appendonly.aof.manifest", manifest.as_bytes());
        let (server, _) = start_on(&disk, "yes");
        Client::connect(server.addr()).expect(&[("MGET a b c", "*3 $1 v $1 v $1 v")]);
        let (again, _) = start_on(&disk.power_cut(), "yes");
        Client::connect(again.addr()).expect(&[("MGET a b c", "*3 $1 v $1 v $1 v")]);
    }
}

#[test]
fn what_cannot_be_made_durable_is_served_all_the_same() {
    for (appendonly, written) in [("no", ("SAVE", "+OK")), ("yes", ("WAITAOF 1 0 0", "*2 :1 :0"))] {
        let disk = SimulatedDisk::new(1);
        let (server, _) = start_on(&disk, appendonly);
        Client::connect(server.addr()).expect(&[("SET k v", "+OK"), written]);
        let found = disk.kill();
        let fails = PlannedFaults {
            operation: Some(DiskOperation::Sync),
            file: None,
            after: 0,
            count: 1,
            error: DiskFailure::Io,
        };
        found.set_faults(DiskFaults { planned: vec![fails], ..DiskFaults::default() });
        let (again, _) = start_on(&found, appendonly);
        Client::connect(again.addr()).expect(&[("GET k", "$1 v")]);
    }
}
