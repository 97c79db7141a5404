//! Random commands on locks, closing connections and time, compared with a simple model of their effects, the
//! [reference](super::reference).
//!
//! The clock is a manual one, and the events happen one at a time, so every reply and the whole state are known: the
//! holders of each lock with their begin and end, and the waiters in order. `KEYLATCH_LOCK_SEED` replays one seed; with
//! `KEYLATCH_HISTORIES` it is the first of this many seeds.
//!
//! A server with files is also stopped or killed, and restarted some time later, with or without a grace for sessions.
//!
//! The same commands go to the servers of a cluster, each client to one of them. No test waits for time to pass there.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use keylatch::internals::disk::SimulatedDisk;
use keylatch::internals::resp::Frame;
use keylatch::{Clock, Server};

use super::locks_info;
use super::reference::{Ask, Command, Fence, Kind, Mode, Model, Told, text};
#[cfg(feature = "etcd")]
use crate::engine::Fleet;
use crate::harness::{Client, Dice, TestServer, encode, show, wait_until};
use crate::log::BEGIN_MS;

const KEYS: [&str; 3] = ["a", "b", "c"];
const TOKENS: [&str; 4] = ["t", "u", "v", "w"];
const CLIENTS: usize = 6;
const SEEDS: u64 = 12;
/// Values of session-grace-ms.
const GRACES_MS: [u64; 3] = [0, 6, 30];
/// Number of seeds with restarts.
const RESTARTED_SEEDS: u64 = 10;
const STEPS: usize = 250;
/// Difference between the client ids of two servers in the model.
const IDS_OF_A_SERVER: u64 = 1_000_000;

/// Connection with its number in the model.
struct Connection {
    id: u64,
    /// Index of its server.
    server: usize,
    client: Client,
    is_blocked: bool,
}

/// Files of a server that is restarted.
struct Files {
    disk: SimulatedDisk,
    /// Settings for the kind of files.
    settings: [(&'static str, &'static str); 3],
}

impl Files {
    fn new(dice: &mut Dice) -> Self {
        const SNAPSHOT: [(&str, &str); 3] = [("appendonly", "no"), ("save", "3600 1"), ("aof-use-rdb-preamble", "yes")];
        let settings = match dice.roll(4) {
            0 => SNAPSHOT,
            1 => [("appendonly", "yes"), ("save", ""), ("aof-use-rdb-preamble", "no")],
            _ => [("appendonly", "yes"), ("save", ""), ("aof-use-rdb-preamble", "yes")],
        };
        Files { disk: SimulatedDisk::new(1).without_boot_ids(), settings }
    }

    fn is_log(&self) -> bool {
        self.settings[0].1 == "yes"
    }

    /// Starts a server with the files, this many milliseconds after the first one.
    fn start(&self, now_ms: u64, grace_ms: u64) -> TestServer {
        let clock = Clock::manual();
        clock.set_wall_ms(BEGIN_MS + now_ms as i64);
        let builder = Server::builder().clock(clock).disk(self.disk.clone()).set("dir", "/");
        let builder = builder.set("dbfilename", "dump.rdb").set("session-grace-ms", grace_ms);
        let with_setting = |builder: keylatch::Builder, (name, value): &(&str, &str)| builder.set(name, *value);
        TestServer::start_with_workers(self.settings.iter().fold(builder, with_setting), 2)
    }
}

/// Comparison of the model with the server.
struct Run {
    servers: Vec<TestServer>,
    admins: Vec<Client>,
    /// Names of the servers in LOCK.INFO, if they serve a cluster.
    processes: Vec<String>,
    connections: Vec<Connection>,
    model: Model,
    /// Fences that clients were told.
    fences: BTreeMap<Fence, i64>,
    greatest: i64,
    dice: Dice,
    files: Option<Files>,
    /// Events so far, for the message of a failure.
    story: Vec<String>,
}

impl Run {
    fn new(seed: u64, servers: Vec<TestServer>) -> Self {
        let (mut admins, mut dice): (Vec<Client>, _) =
            (servers.iter().map(TestServer::client).collect(), Dice::new(seed));
        dice.roll(2);
        let connections = (0..CLIENTS).map(|at| connect(&servers, at % servers.len())).collect();
        let processes = admins.iter_mut().filter_map(|admin| {
            let process = |info: &str| Some(info.split_once("engine_process:")?.1.split(' ').next()?.to_owned());
            process(&admin.call("INFO engine"))?;
            // A client has no id before it is registered.
            let mut number = String::new();
            wait_until(|| {
                number = process(&admin.call("INFO engine")).unwrap_or_default();
                number.contains(|digit: char| digit != '0')
            });
            Some(number)
        });
        let (model, story, processes) = (Model::default(), vec![format!("seed {seed}")], processes.collect());
        let (fences, greatest, files) = (BTreeMap::new(), 0, None);
        Run { servers, admins, processes, connections, model, fences, greatest, dice, files, story }
    }

    /// Starts with a server that has files.
    fn with_files(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let (files, grace_ms) = (Files::new(&mut dice), GRACES_MS[dice.roll(3) as usize]);
        let mut run = Run::new(seed, vec![files.start(0, grace_ms)]);
        run.story.push(format!("{:?}, a grace of {grace_ms} ms", files.settings));
        (run.model.grace_ms, run.files) = (grace_ms, Some(files));
        run
    }

    fn is_clustered(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Returns the time in milliseconds for a command: in a cluster no time passes while the test runs.
    fn named_ms(&self, ms: u64) -> u64 {
        if self.is_clustered() { ms * 1_000_000 } else { ms }
    }

    fn is_listed(&mut self, at: usize, text: &str) -> bool {
        let Connection { id, server, .. } = self.connections[at];
        self.admins[server].call(&format!("CLIENT LIST ID {}", id % IDS_OF_A_SERVER)).contains(text)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.dice.roll(choices.len() as u64) as usize]
    }

    /// Returns a random command and its text.
    fn command(&mut self, client: u64) -> (usize, Command, String) {
        let (key, token) = (self.dice.roll(KEYS.len() as u64) as usize, self.pick(&TOKENS));
        let (name, even) = (KEYS[key], 2 * (1 + self.dice.roll(10)));
        let named = self.named_ms(even);
        let (command, text) = match self.dice.roll(33) {
            0..=11 => return self.acquire(client, key, token),
            12..=13 => (Command::Renew(token, even), format!("LOCK.RENEW {name} {token} PX {named}")),
            14..=16 => (Command::Release(token), format!("LOCK.RELEASE {name} {token}")),
            17 => (Command::Fence(token), format!("LOCK.FENCE {name} {token}")),
            18 => (Command::Set(token), format!("SET {name} {token}")),
            19 => (Command::SetNx(token, even), format!("SET {name} {token} NX PX {named}")),
            20 => (Command::GetSet(token), format!("GETSET {name} {token}")),
            21 => (Command::Append, format!("APPEND {name} x")),
            22..=23 => {
                const SCRIPT: &str = "EVAL return(redis.call('del',KEYS[1])) 1";
                let script = if cfg!(feature = "lua") { SCRIPT } else { "DEL" };
                let words = self.pick(&["DEL", "UNLINK", "GETDEL", "DELEX", script]);
                (Command::Delete, format!("{words} {name}"))
            }
            24 => (Command::Expire(even), format!("PEXPIRE {name} {named}")),
            25 => (Command::Persist, format!("PERSIST {name}")),
            26 => {
                let to = (key + 1) % KEYS.len();
                (Command::Rename(to), format!("RENAME {name} {}", KEYS[to]))
            }
            27 if self.model.values.contains_key(&key) => {
                (Command::Replace(token), format!("MULTI; DEL {name}; SET {name} {token}; EXEC"))
            }
            28 if self.dice.roll(3) == 0 => (Command::FlushAll, "FLUSHALL".to_owned()),
            29..=30 => {
                let size = 1 + self.dice.roll(4);
                (Command::Resize(size), format!("LOCK.RESIZE {name} {size}"))
            }
            31..=32 => (Command::Resume(token), format!("LOCK.RESUME {token}")),
            _ => (Command::Reset, "RESET".to_owned()),
        };
        (key, command, text)
    }

    fn acquire(&mut self, client: u64, key: usize, token: &'static str) -> (usize, Command, String) {
        let (kind, now_ms) = (self.dice.roll(3), self.model.now_ms);
        let px = (kind > 0).then(|| 2 * (1 + self.dice.roll(20)));
        let block = (self.dice.roll(4) > 0).then(|| if self.dice.roll(2) > 0 { 0 } else { 1 + 2 * self.dice.roll(20) });
        let until_ms = block.map(|ms| (ms > 0).then_some(now_ms + ms));
        let away = self.model.waiting.iter().find(|ask| ask.is_away());
        let away = away.map(|ask| (ask.token, (ask.mode, ask.keys.clone())));
        // A client that comes back makes the same request.
        let is_back = away.is_some() && self.dice.roll(3) == 0;
        let (token, (mode, keys)) = away.filter(|_| is_back).unwrap_or_else(|| match self.dice.roll(4) {
            0 => self.conversion(key).unwrap_or_else(|| (token, self.mode(key))),
            _ => (token, self.mode(key)),
        });
        let names: Vec<&str> = keys.iter().map(|key| KEYS[*key]).collect();
        let mut text = match mode {
            Mode::Several => format!("LOCK.ACQUIREMULTI {} {} {token}", keys.len(), names.join(" ")),
            _ => format!("LOCK.ACQUIRE {} {token}", names[0]),
        };
        match mode {
            Mode::Shared => text.push_str(" SHARED"),
            Mode::Permits(count, None) => text.push_str(&format!(" PERMITS {count}")),
            Mode::Permits(count, Some(size)) => text.push_str(&format!(" PERMITS {count} OF {size}")),
            Mode::Upgrade => text.push_str(" CONVERT"),
            Mode::Downgrade => text.push_str(" CONVERT SHARED"),
            Mode::Alone | Mode::Several => {}
        }
        let (is_session, kept_until_ms) = (kind < 2, None);
        let ask = Ask { client, token, keys, mode, px, is_session, until_ms, since_ms: now_ms, kept_until_ms };
        text.extend(px.map(|px| format!(" PX {}", self.named_ms(px))));
        text.extend(block.map(|ms| format!(" BLOCK {}", self.named_ms(ms))));
        text.push_str(if ask.is_session { " SESSION" } else { "" });
        (key, Command::Acquire(ask), text)
    }

    /// Returns a change of the mode of a lock by one of its holders, with the key, if it is held.
    fn conversion(&mut self, key: usize) -> Option<(&'static str, (Mode, Vec<usize>))> {
        let value = self.model.values.get(&key)?;
        let held: Vec<&'static str> = TOKENS.iter().copied().filter(|token| value.is_held_with(token)).collect();
        let token = held.get(self.dice.roll(held.len().max(1) as u64) as usize)?;
        Some((token, (self.pick(&[Mode::Upgrade, Mode::Upgrade, Mode::Downgrade]), vec![key])))
    }

    /// Returns a random mode for a lock, and the keys.
    fn mode(&mut self, key: usize) -> (Mode, Vec<usize>) {
        let others = [(key + 1) % KEYS.len(), (key + 2) % KEYS.len()];
        match self.dice.roll(12) {
            0..=2 => (Mode::Shared, vec![key]),
            3..=4 => {
                let size = 1 + self.dice.roll(4);
                (Mode::Permits(1 + self.dice.roll(size), Some(size)), vec![key])
            }
            5 => (Mode::Permits(1 + self.dice.roll(3), None), vec![key]),
            6 => (Mode::Several, vec![key, others[0]]),
            7 => (Mode::Several, vec![key, others[1], others[0]]),
            _ => (Mode::Alone, vec![key]),
        }
    }

    /// Makes a random step; returns false if the model does not know its outcome.
    fn step(&mut self) -> bool {
        if self.files.is_some() && self.dice.roll(40) == 0 {
            if !self.restart() {
                return false;
            }
            self.compare();
            return true;
        }
        let at = self.dice.roll(CLIENTS as u64) as usize;
        match self.dice.roll(10) {
            0 => self.close(at),
            1..=2 if self.is_clustered() => {}
            1..=2 => self.pass(),
            3 if self.connections[at].is_blocked => self.unblock(at),
            _ if self.connections[at].is_blocked => {}
            _ => self.call(at),
        }
        self.hear();
        self.compare();
        true
    }

    fn call(&mut self, at: usize) {
        let id = self.connections[at].id;
        let (key, command, text) = self.command(id);
        self.story.push(format!("{} ms, {id}: {}", self.model.now_ms, text));
        let told = self.model.execute(id, key, &command);
        self.model.serve();
        for request in text.split("; ") {
            let words: Vec<&str> = request.split(' ').collect();
            self.connections[at].client.send(&encode(&words));
        }
        let Some(told) = told else {
            self.connections[at].is_blocked = true;
            // A waiter is marked as waiting for a lock before it is queued, and as blocked at the same time.
            let waits = || wait_until(|| self.is_listed(at, " lwait=1") && self.is_listed(at, " flags=b "));
            return catch_unwind(AssertUnwindSafe(waits)).unwrap_or_else(|_| panic!("no wait: {:#?}", self.story));
        };
        let queued = if matches!(command, Command::Replace(_)) { 3 } else { 0 };
        (0..queued).for_each(|_| drop(self.connections[at].client.reply()));
        self.expect(at, &told);
    }

    fn close(&mut self, at: usize) {
        let Connection { id: old, server, .. } = self.connections[at];
        let new = connect(&self.servers, server);
        self.story.push(format!("{} ms, {old} closes, {} comes", self.model.now_ms, new.id));
        self.connections[at] = new;
        let shown = format!("CLIENT LIST ID {}", old % IDS_OF_A_SERVER);
        wait_until(|| !self.admins[server].call(&shown).contains("id="));
        self.model.close(old);
    }

    /// Stops or kills the server, and starts another one with its files; returns false if the contents of the files are
    /// unknown.
    fn restart(&mut self) -> bool {
        let (is_killed, is_rewritten) = (self.dice.roll(2) == 0, self.dice.roll(3) == 0);
        let (down_ms, grace_ms) = (2 * self.dice.roll(8), self.pick(&GRACES_MS));
        let (mut files, admin) = (self.files.take().expect("there are files"), &mut self.admins[0]);
        if is_rewritten && files.is_log() {
            assert!(admin.call("BGREWRITEAOF").starts_with('+'));
            wait_until(|| admin.info("aof_rewrite_in_progress") == "0");
        }
        // Changes that are not durable may be lost.
        let (durable, reply) = if files.is_log() { ("WAITAOF 1 0 0", "*2 :1 :0") } else { ("SAVE", "+OK") };
        if is_killed || !files.is_log() {
            assert_eq!(admin.call(durable), reply);
        }
        if is_killed {
            files.disk = files.disk.kill();
        }
        self.servers.drain(..).for_each(TestServer::end);
        // As connections end one after the other, a client may have been served that was next at that time.
        let mut blocked = self.connections.iter_mut().filter(|connection| connection.is_blocked && !is_killed);
        if blocked.any(|connection| connection.client.read_raw().is_some()) {
            return false;
        }
        // A snapshot was made before the stop.
        self.model.restart(is_killed || !files.is_log(), down_ms, grace_ms);
        let how = if is_killed { "killed" } else { "stopped" };
        let rewritten = if is_rewritten { "rewritten, " } else { "" };
        self.story.push(format!("{rewritten}{how}, started at {} ms, a grace of {grace_ms} ms", self.model.now_ms));
        self.servers = vec![files.start(self.model.now_ms, grace_ms)];
        self.admins = vec![self.servers[0].client()];
        self.connections = (0..CLIENTS).map(|_| connect(&self.servers, 0)).collect();
        self.files = Some(files);
        true
    }

    fn unblock(&mut self, at: usize) {
        let Connection { id, server, .. } = self.connections[at];
        self.story.push(format!("{} ms, {id} is unblocked", self.model.now_ms));
        let unblock = format!("CLIENT UNBLOCK {} ERROR", id % IDS_OF_A_SERVER);
        assert_eq!(self.admins[server].call(&unblock), ":1", "{:#?}", self.story);
        self.model.leave(id);
        self.model.told.push((id, text("-UNBLOCKED client unblocked via CLIENT UNBLOCK")));
    }

    /// Advances time to the next event, or for a short while, and in any case to an even time.
    fn pass(&mut self) {
        let target = self.model.now_ms + 2 * (1 + self.dice.roll(8));
        loop {
            let next_ms = self.model.next_ms().filter(|next_ms| *next_ms <= target).unwrap_or(target);
            self.servers[0].advance_ms(next_ms - self.model.now_ms);
            self.model.advance_to(next_ms);
            self.story.push(format!("{next_ms} ms"));
            self.hear();
            if next_ms == target {
                return;
            }
        }
    }

    /// Reads the replies to blocked clients.
    fn hear(&mut self) {
        for (id, told) in std::mem::take(&mut self.model.told) {
            let at = self.connections.iter().position(|connection| connection.id == id).expect("it is connected");
            self.expect(at, &told);
            self.connections[at].is_blocked = false;
        }
        self.greatest = self.fences.values().copied().max().unwrap_or(0);
    }

    fn expect(&mut self, at: usize, told: &Told) {
        let client = &mut self.connections[at].client;
        let reply = catch_unwind(AssertUnwindSafe(|| client.reply()));
        let reply = reply.unwrap_or_else(|_| panic!("nothing and not {told:?}: {:#?}", self.story));
        let is_right = match told {
            Told::Text(text) => text.is_empty() || reply == *text,
            Told::Deadlock => reply.starts_with("-DEADLOCK "),
            Told::Keys(keys) => {
                let names = reply.split(' ').skip(1).filter(|word| !word.starts_with('$'));
                let found: Vec<_> = names.map(|name| KEYS.iter().position(|key| *key == name)).collect();
                found.len() == keys.len() && keys.iter().all(|key| found.contains(&Some(*key)))
            }
            Told::Fence(number) => reply.strip_prefix(':').is_some_and(|fence| self.is_fence(*number, fence)),
            Told::Fences(numbers) => {
                let fences = reply.strip_prefix(&format!("*{} ", numbers.len())).unwrap_or_default();
                let fences: Vec<&str> = fences.split(' ').map(|fence| fence.trim_start_matches(':')).collect();
                fences.len() == numbers.len()
                    && numbers.iter().zip(fences).all(|(number, fence)| self.is_fence(*number, fence))
            }
        };
        assert!(is_right, "{reply} and not {told:?}: {:#?}", self.story);
    }

    /// Returns whether a fence is the one with this number, or may be if the number is new.
    fn is_fence(&mut self, number: Fence, fence: &str) -> bool {
        let fence: i64 = fence.parse().unwrap_or(0);
        // A new fence is greater than all that were known before the command.
        let is_new = !self.fences.contains_key(&number);
        let is_taken = self.fences.iter().any(|(other, taken)| *other != number && *taken == fence);
        let known = *self.fences.entry(number).or_insert(fence);
        fence > 0 && fence == known && (!is_new || fence > self.greatest) && !is_taken
    }

    /// Compares the state of the server with the model's.
    fn compare(&mut self) {
        if self.is_clustered() {
            // A server processes the end of a connection a little later.
            let is_same = || wait_until(|| (0..self.servers.len()).all(|server| self.said(server) == self.expected()));
            let _ = catch_unwind(AssertUnwindSafe(is_same)); // what differs is told below
        }
        for server in 0..self.servers.len() {
            assert_eq!(self.said(server), self.expected(), "server {server}: {:#?}", self.story);
        }
    }

    /// Returns a server's description of all locks.
    fn said(&mut self, server: usize) -> (Vec<String>, [i64; 2]) {
        let admin = &mut self.admins[server];
        let locks = KEYS.map(|name| described(&admin.frame(&["LOCK.INFO", name]), &self.processes));
        (locks.to_vec(), ["held", "waiting"].map(|name| locks_info(admin, name)))
    }

    /// Returns the model's description of all locks.
    fn expected(&self) -> (Vec<String>, [i64; 2]) {
        let held = self.model.values.values().filter(|value| !value.holders.is_empty()).count();
        let waiting: usize = self.model.waiting.iter().map(|ask| ask.keys.len()).sum();
        ((0..KEYS.len()).map(|key| self.shown(key)).collect(), [held as i64, waiting as i64])
    }

    /// Returns the model's description of a key, in the form of [`described`].
    fn shown(&self, key: usize) -> String {
        let now_ms = self.model.now_ms;
        let time = |ms: u64| if self.is_clustered() { "?".to_owned() } else { ms.to_string() };
        let pttl =
            |deadline_ms: Option<u64>| deadline_ms.map_or("-1".to_owned(), |deadline_ms| time(deadline_ms - now_ms));
        let known = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
        let mut text = match self.model.values.get(&key) {
            None if self.model.queue(key).next().is_none() => return "none".to_owned(),
            None => "- - - free - -".to_owned(),
            Some(value) => {
                let (mode, token, fence, size) = match value.kind {
                    Kind::Exclusive => {
                        ("exclusive", &*value.text, value.holders.first().map(|holder| holder.fence), None)
                    }
                    Kind::Shared(_, fence) => ("shared", "-", Some(fence), None),
                    Kind::Permits(_, size) => ("permits", "-", None, Some(size)),
                };
                let fence = known(fence.map(|fence| self.fences[&fence]));
                let free = known(value.free().map(|free| free as i64));
                let size = known(size.map(|size| size as i64));
                format!("{token} {fence} {} {mode} {size} {free}", pttl(value.deadline_ms))
            }
        };
        let value = self.model.values.get(&key);
        for holder in value.iter().flat_map(|value| &value.holders) {
            let exclusive = value.filter(|value| value.kind == Kind::Exclusive).map(|value| value.deadline_ms);
            text.push_str(&format!(
                " [{} {} {} {} {} {} {}]",
                holder.token,
                self.fences[&holder.fence],
                pttl(exclusive.unwrap_or(holder.deadline_ms)),
                time(now_ms - holder.since_ms),
                known(self.model.shown_client(holder).map(|id| id as i64)),
                i64::from(holder.session.is_some()),
                known((holder.permits > 0).then_some(holder.permits as i64)),
            ));
        }
        for ask in self.model.queue(key) {
            let mode = match ask.mode {
                Mode::Alone | Mode::Several => "exclusive -".to_owned(),
                Mode::Shared => "shared -".to_owned(),
                Mode::Permits(count, _) => format!("permits {count}"),
                Mode::Upgrade | Mode::Downgrade => "upgrade -".to_owned(),
            };
            let client = known((!ask.is_away()).then_some(ask.client as i64));
            text.push_str(&format!(" {client}:{} {mode}", time(now_ms - ask.since_ms)));
        }
        text
    }
}

fn connect(servers: &[TestServer], server: usize) -> Connection {
    let mut client = servers[server].client();
    let id = client.int("CLIENT ID") as u64 + server as u64 * IDS_OF_A_SERVER;
    Connection { id, server, client, is_blocked: false }
}

/// Returns the value of a field of a map, which RESP2 sends as an array.
fn field<'a>(map: &'a Frame, name: &str) -> &'a Frame {
    let Frame::Array(parts) = map else { panic!("{map:?}") };
    let at = parts.chunks(2).find(|pair| pair[0].as_bytes() == Some(name.as_bytes()));
    &at.unwrap_or_else(|| panic!("no {name} in {map:?}"))[1]
}

/// Formats the reply of LOCK.INFO for a lock, its holders, and its waiters with their waiting times. Times are left out
/// in a cluster.
fn described(info: &Frame, processes: &[String]) -> String {
    if *info == Frame::NullArray {
        return "none".to_owned();
    }
    let text_of = |frame: &Frame| match frame {
        Frame::Integer(number) => number.to_string(),
        Frame::Null => "-".to_owned(),
        other => show(other.as_bytes().unwrap_or(b"?")),
    };
    let shown = |map: &Frame, name: &str| match (name, text_of(field(map, name))) {
        ("pttl" | "age-ms" | "waited-ms", ms) if !processes.is_empty() && ms != "-" && ms != "-1" => "?".to_owned(),
        ("client-id", id) if !processes.is_empty() && id != "-" => {
            let process = text_of(field(map, "process"));
            let server = processes.iter().position(|known| *known == process).expect("one of the servers");
            (id.parse::<u64>().expect("a number") + server as u64 * IDS_OF_A_SERVER).to_string()
        }
        (_, value) => value,
    };
    let words = |map: &Frame, names: &[&str]| names.iter().map(|name| shown(map, name)).collect::<Vec<_>>().join(" ");
    let mut text = words(info, &["token", "fence", "pttl", "mode", "permits", "free"]);
    let Frame::Array(holders) = field(info, "holders") else { panic!("{info:?}") };
    // A lock that was acquired by another command has no known holder.
    for holder in holders.iter().filter(|holder| *field(holder, "fence") != Frame::Null) {
        let names = ["token", "fence", "pttl", "age-ms", "client-id", "session", "permits"];
        text.push_str(&format!(" [{}]", words(holder, &names)));
    }
    let Frame::Array(waiters) = field(info, "waiters") else { panic!("{info:?}") };
    for waiter in waiters {
        let (times, mode) = (shown(waiter, "waited-ms"), words(waiter, &["mode", "permits"]));
        text.push_str(&format!(" {}:{times} {mode}", shown(waiter, "client-id")));
    }
    text
}

#[test]
fn random_commands_deaths_and_time_do_what_the_model_says() {
    for seed in seeds(SEEDS) {
        try_commands(seed, Run::new(seed, vec![TestServer::start()]), STEPS);
    }
}

#[test]
fn random_commands_and_restarts_with_files_do_what_the_model_says() {
    for seed in seeds(RESTARTED_SEEDS) {
        try_commands(seed, Run::with_files(seed), STEPS);
    }
}

/// Returns the seeds to try: this many, unless others are requested.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (first, asked) = (number("KEYLATCH_LOCK_SEED"), number("KEYLATCH_HISTORIES"));
    let begin = first.unwrap_or(1);
    begin..begin + asked.unwrap_or(if first.is_some() { 1 } else { count })
}

/// Executes random commands, and serves all waiters in the end.
fn try_commands(seed: u64, mut run: Run, steps: usize) {
    if !(0..steps).all(|_| run.step()) {
        return;
    }
    while run.model.waiting.iter().any(|ask| !ask.is_away()) {
        run.story.push("FLUSHALL".to_owned());
        assert_eq!(run.admins[0].call("FLUSHALL"), "+OK");
        run.model.flush();
        run.model.serve();
        run.hear();
        run.compare();
    }
    assert!(run.model.fences > steps / 20, "only {} locks with seed {seed}", run.model.fences);
}

#[cfg(feature = "etcd")]
#[test]
fn random_commands_and_deaths_on_three_servers_of_a_cluster_do_what_the_model_says() {
    for seed in seeds(3) {
        let Some(fleet) = Fleet::start(3) else { return };
        try_commands(seed, Run::new(seed, fleet.servers), 400);
    }
}
