//! Random commands on locks, closing connections and time, against a simple model of what each of them does.
//!
//! The clock is a manual one, and one thing happens at a time, so every reply and the whole state are known: who holds
//! which lock since when and until when, and who waits for it in which order. `KEYLATCH_LOCK_SEED` replays one seed.
//!
//! The same commands go to the servers of a cluster, each client to one of them. Nobody waits for time to pass there.

use std::collections::BTreeMap;

use keylatch::internals::resp::Frame;

use super::locks_info;
#[cfg(feature = "etcd")]
use crate::engine::Fleet;
use crate::harness::{Client, Dice, TestServer, encode, show, wait_until};

const KEYS: [&str; 3] = ["a", "b", "c"];
const TOKENS: [&str; 4] = ["t", "u", "v", "w"];
const CLIENTS: usize = 6;
const SEEDS: u64 = 12;
const STEPS: usize = 250;
/// By how much the ids of the clients of two servers differ in the model.
const IDS_OF_A_SERVER: u64 = 1_000_000;

/// A fence, by the order in which locks were acquired; its number is known once a client was told.
type Fence = usize;

/// What a client is told.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Text(&'static str),
    Deadlock,
    Fence(Fence),
}

#[derive(Clone, Debug)]
struct Record {
    fence: Fence,
    since_ms: u64,
    /// The numbers of connections.
    holder: Option<u64>,
    session: Option<u64>,
}

#[derive(Clone, Debug)]
struct Value {
    text: String,
    deadline_ms: Option<u64>,
    record: Option<Record>,
}

/// The options of LOCK.ACQUIRE.
#[derive(Clone, Debug)]
struct Acquire {
    client: u64,
    token: &'static str,
    px: Option<u64>,
    is_session: bool,
    /// Until when it waits, at most; `None` if it does not wait, and `Some(None)` if for ever.
    until_ms: Option<Option<u64>>,
    since_ms: u64,
}

/// A command of a client that is not blocked.
#[derive(Clone, Debug)]
enum Command {
    Acquire(Acquire),
    Renew(&'static str, u64),
    Release(&'static str),
    Fence(&'static str),
    /// SET, without and with NX PX.
    Set(&'static str),
    SetNx(&'static str, u64),
    GetSet(&'static str),
    Append,
    Delete,
    Expire(u64),
    Persist,
    Rename(usize),
    Replace(&'static str),
    FlushAll,
    Reset,
}

#[derive(Default)]
struct Model {
    now_ms: u64,
    values: BTreeMap<usize, Value>,
    lines: [Vec<Acquire>; KEYS.len()],
    fences: usize,
    /// What clients are told that were blocked.
    told: Vec<(u64, Told)>,
}

impl Model {
    fn new_fence(&mut self) -> Fence {
        self.fences += 1;
        self.fences - 1
    }

    /// Returns the record of an existing value, making one if there is none.
    fn record(&mut self, key: usize) -> &mut Record {
        if self.values[&key].record.is_none() {
            let record = Record { fence: self.new_fence(), since_ms: self.now_ms, holder: None, session: None };
            self.values.get_mut(&key).expect("it exists").record = Some(record);
        }
        self.values.get_mut(&key).and_then(|value| value.record.as_mut()).expect("it was made")
    }

    fn is_held_with(&self, key: usize, token: &str) -> bool {
        self.values.get(&key).is_some_and(|value| value.text == token)
    }

    /// Sets a value, whose record stays if the lock still has its token.
    fn set(&mut self, key: usize, text: &str, deadline_ms: Option<u64>) {
        let before = self.values.remove(&key).filter(|value| value.text == text);
        let record = before.and_then(|value| value.record);
        self.values.insert(key, Value { text: text.to_owned(), deadline_ms, record });
    }

    /// Lets a client acquire a lock that is free, or has its token.
    fn hold(&mut self, key: usize, acquire: &Acquire) -> Told {
        let deadline_ms = acquire.px.map(|px| self.now_ms + px);
        match self.values.get_mut(&key) {
            Some(value) => value.deadline_ms = deadline_ms.or(value.deadline_ms),
            None => self.set(key, acquire.token, deadline_ms),
        }
        let record = self.record(key);
        record.holder = Some(acquire.client);
        if acquire.is_session {
            record.session = Some(acquire.client);
        }
        Told::Fence(record.fence)
    }

    /// Hands locks that are free over to those in line.
    fn serve(&mut self) {
        for key in 0..KEYS.len() {
            if self.values.contains_key(&key) || self.lines[key].is_empty() {
                continue;
            }
            let line = std::mem::take(&mut self.lines[key]);
            let token = line[0].token;
            let (served, waiting): (Vec<_>, Vec<_>) = line.into_iter().partition(|waiter| waiter.token == token);
            self.lines[key] = waiting;
            for waiter in served {
                let told = self.hold(key, &waiter);
                self.told.push((waiter.client, told));
            }
        }
    }

    /// Returns whether a client that began to wait would close a cycle: every lock that it would wait for, directly or
    /// through holders, is held by clients that wait, and it is one of them.
    fn waits_for_ever(&self, key: usize, newcomer: &Acquire) -> bool {
        let waiting = |at: usize| self.lines[at].iter().chain((at == key).then_some(newcomer));
        let (mut awaited, mut closes) = (vec![key], false);
        for next in 0.. {
            let Some(&lock) = awaited.get(next) else { break };
            let value = &self.values[&lock];
            let Some(record) = value.record.as_ref().filter(|record| record.holder.is_some()) else { return false };
            let holds = |waiter: &Acquire| record.session == Some(waiter.client) || waiter.token == value.text;
            let held_up: Vec<usize> = (0..KEYS.len()).filter(|at| waiting(*at).any(holds)).collect();
            if held_up.is_empty() {
                return false;
            }
            closes |= holds(newcomer);
            let more: Vec<usize> = held_up.into_iter().filter(|at| !awaited.contains(at)).collect();
            awaited.extend(more);
        }
        closes
    }

    /// Executes a command of a client; returns its reply, or `None` if it blocks.
    fn execute(&mut self, client: u64, key: usize, command: &Command) -> Option<Told> {
        let exists = self.values.contains_key(&key);
        let number = |is_so: bool| Told::Text(if is_so { ":1" } else { ":0" });
        Some(match command {
            Command::Acquire(acquire) if !exists || self.is_held_with(key, acquire.token) => self.hold(key, acquire),
            Command::Acquire(Acquire { until_ms: None, .. }) => Told::Text("$-1"),
            Command::Acquire(acquire) if self.waits_for_ever(key, acquire) => Told::Deadlock,
            Command::Acquire(acquire) => {
                self.lines[key].push(acquire.clone());
                return None;
            }
            Command::Renew(token, _) | Command::Fence(token) if !self.is_held_with(key, token) => Told::Text("$-1"),
            Command::Renew(_, px) => {
                let deadline_ms = Some(self.now_ms + px);
                self.values.get_mut(&key).expect("it exists").deadline_ms = deadline_ms;
                Told::Fence(self.record(key).fence)
            }
            Command::Fence(_) => Told::Fence(self.record(key).fence),
            Command::Release(token) => {
                let is_held = self.is_held_with(key, token);
                if is_held {
                    self.values.remove(&key);
                }
                number(is_held)
            }
            Command::Set(text) | Command::Replace(text) => {
                if matches!(command, Command::Replace(_)) {
                    self.values.remove(&key);
                }
                self.set(key, text, None);
                Told::Text(if matches!(command, Command::Set(_)) { "+OK" } else { "*2 :1 +OK" })
            }
            Command::SetNx(..) if exists => Told::Text("$-1"),
            Command::SetNx(text, px) => {
                self.set(key, text, Some(self.now_ms + px));
                Told::Text("+OK")
            }
            Command::GetSet(text) => {
                self.set(key, text, None);
                Told::Text("") // whatever the value was
            }
            Command::Append => {
                let before = self.values.remove(&key);
                let (text, deadline_ms) = before.map_or((String::new(), None), |value| (value.text, value.deadline_ms));
                self.values.insert(key, Value { text: text + "x", deadline_ms, record: None });
                Told::Text("")
            }
            Command::Delete => {
                self.values.remove(&key);
                Told::Text("")
            }
            Command::Expire(ms) => {
                let deadline_ms = Some(self.now_ms + ms);
                self.values.get_mut(&key).into_iter().for_each(|value| value.deadline_ms = deadline_ms);
                number(exists)
            }
            Command::Persist => {
                let value = self.values.get_mut(&key);
                number(value.and_then(|value| value.deadline_ms.take()).is_some())
            }
            Command::Rename(_) if !exists => Told::Text("-ERR no such key"),
            Command::Rename(to) => {
                let value = self.values.remove(&key).expect("it exists");
                self.set(*to, &value.text, value.deadline_ms);
                Told::Text("+OK")
            }
            Command::FlushAll => {
                self.values.clear();
                Told::Text("+OK")
            }
            Command::Reset => {
                self.end_session(client);
                Told::Text("+RESET")
            }
        })
    }

    fn end_session(&mut self, client: u64) {
        self.values.retain(|_, value| value.record.as_ref().is_none_or(|record| record.session != Some(client)));
    }

    /// A connection closes.
    fn close(&mut self, client: u64) {
        self.leave(client);
        self.end_session(client);
        self.serve();
    }

    fn leave(&mut self, client: u64) {
        self.lines.iter_mut().for_each(|line| line.retain(|waiter| waiter.client != client));
    }

    /// Returns when the next lock expires, or the next wait ends.
    fn next_ms(&self) -> Option<u64> {
        let deadlines = self.values.values().filter_map(|value| value.deadline_ms);
        let timeouts = self.lines.iter().flatten().filter_map(|waiter| waiter.until_ms.flatten());
        deadlines.chain(timeouts).min()
    }

    /// Sets the time. At most one kind of thing is due: locks expire at even times, and waits end at odd ones.
    fn advance_to(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.values.retain(|_, value| value.deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms));
        self.serve();
        for line in &mut self.lines {
            let is_over = |waiter: &Acquire| waiter.until_ms.flatten().is_some_and(|until_ms| until_ms <= now_ms);
            self.told
                .extend(line.iter().filter(|waiter| is_over(waiter)).map(|waiter| (waiter.client, Told::Text("$-1"))));
            line.retain(|waiter| !is_over(waiter));
        }
    }
}

/// A connection and its number in the model.
struct Connection {
    id: u64,
    /// The server that it is a connection of.
    server: usize,
    client: Client,
    is_blocked: bool,
}

/// The model beside the server.
struct Run {
    servers: Vec<TestServer>,
    admins: Vec<Client>,
    /// The numbers of the servers as LOCK.INFO shows them, if they serve a cluster.
    processes: Vec<String>,
    connections: Vec<Connection>,
    model: Model,
    /// The fences that clients were told.
    fences: BTreeMap<Fence, i64>,
    greatest: i64,
    dice: Dice,
    /// What has happened, for the message of a failure.
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
            // It has none before it is registered.
            let mut number = String::new();
            wait_until(|| {
                number = process(&admin.call("INFO engine")).unwrap_or_default();
                number.contains(|digit: char| digit != '0')
            });
            Some(number)
        });
        let (model, story, processes) = (Model::default(), vec![format!("seed {seed}")], processes.collect());
        let (fences, greatest) = (BTreeMap::new(), 0);
        Run { servers, admins, processes, connections, model, fences, greatest, dice, story }
    }

    fn is_clustered(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Returns a time in milliseconds as it is named in commands: in a cluster none passes while the test runs.
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

    /// Returns a command and its text.
    fn command(&mut self, client: u64) -> (usize, Command, String) {
        let (key, token) = (self.dice.roll(KEYS.len() as u64) as usize, self.pick(&TOKENS));
        let (name, even) = (KEYS[key], 2 * (1 + self.dice.roll(10)));
        let named = self.named_ms(even);
        let (command, text) = match self.dice.roll(30) {
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
            _ => (Command::Reset, "RESET".to_owned()),
        };
        (key, command, text)
    }

    fn acquire(&mut self, client: u64, key: usize, token: &'static str) -> (usize, Command, String) {
        let (kind, now_ms) = (self.dice.roll(3), self.model.now_ms);
        let px = (kind > 0).then(|| 2 * (1 + self.dice.roll(20)));
        let block = (self.dice.roll(4) > 0).then(|| if self.dice.roll(2) > 0 { 0 } else { 1 + 2 * self.dice.roll(20) });
        let until_ms = block.map(|ms| (ms > 0).then_some(now_ms + ms));
        let acquire = Acquire { client, token, px, is_session: kind < 2, until_ms, since_ms: now_ms };
        let mut text = format!("LOCK.ACQUIRE {} {token}", KEYS[key]);
        text.extend(px.map(|px| format!(" PX {}", self.named_ms(px))));
        text.extend(block.map(|ms| format!(" BLOCK {}", self.named_ms(ms))));
        text.push_str(if acquire.is_session { " SESSION" } else { "" });
        (key, Command::Acquire(acquire), text)
    }

    fn step(&mut self) {
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
            return wait_until(|| self.is_listed(at, " lwait=1"));
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

    fn unblock(&mut self, at: usize) {
        let Connection { id, server, .. } = self.connections[at];
        self.story.push(format!("{} ms, {id} is unblocked", self.model.now_ms));
        let unblock = format!("CLIENT UNBLOCK {} ERROR", id % IDS_OF_A_SERVER);
        assert_eq!(self.admins[server].call(&unblock), ":1", "{:#?}", self.story);
        self.model.leave(id);
        self.model.told.push((id, Told::Text("-UNBLOCKED client unblocked via CLIENT UNBLOCK")));
    }

    /// Lets time pass until something happens, or for a short while, and in any case to an even time.
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

    /// Reads what blocked clients were told.
    fn hear(&mut self) {
        for (id, told) in std::mem::take(&mut self.model.told) {
            let at = self.connections.iter().position(|connection| connection.id == id).expect("it is connected");
            self.expect(at, &told);
            self.connections[at].is_blocked = false;
        }
        self.greatest = self.fences.values().copied().max().unwrap_or(0);
    }

    fn expect(&mut self, at: usize, told: &Told) {
        let reply = self.connections[at].client.reply();
        let is_right = match told {
            Told::Text(text) => text.is_empty() || reply == *text,
            Told::Deadlock => reply.starts_with("-DEADLOCK "),
            Told::Fence(number) => {
                let fence: i64 = reply.strip_prefix(':').and_then(|fence| fence.parse().ok()).unwrap_or(0);
                // A new one is greater than all that were known before the command.
                let is_new = !self.fences.contains_key(number);
                let is_taken = self.fences.iter().any(|(other, taken)| other != number && *taken == fence);
                let known = *self.fences.entry(*number).or_insert(fence);
                fence > 0 && fence == known && (!is_new || fence > self.greatest) && !is_taken
            }
        };
        assert!(is_right, "{reply} and not {told:?}: {:#?}", self.story);
    }

    /// Compares the state of the server with the model's.
    fn compare(&mut self) {
        if self.is_clustered() {
            // A server follows what ends with a connection soon after.
            wait_until(|| (0..self.servers.len()).all(|server| self.said(server) == self.expected()));
        }
        for server in 0..self.servers.len() {
            assert_eq!(self.said(server), self.expected(), "server {server}: {:#?}", self.story);
        }
    }

    /// Returns what a server says of all locks.
    fn said(&mut self, server: usize) -> (Vec<String>, [i64; 2]) {
        let admin = &mut self.admins[server];
        let locks = KEYS.map(|name| described(&admin.frame(&["LOCK.INFO", name]), &self.processes));
        (locks.to_vec(), ["held", "waiting"].map(|name| locks_info(admin, name)))
    }

    /// Returns what a server is to say of all locks.
    fn expected(&self) -> (Vec<String>, [i64; 2]) {
        let held = self.model.values.values().filter(|value| value.record.is_some()).count();
        let waiting: usize = self.model.lines.iter().map(Vec::len).sum();
        ((0..KEYS.len()).map(|key| self.shown(key)).collect(), [held as i64, waiting as i64])
    }

    /// Returns what LOCK.INFO is to say of a key, in the form of [`described`].
    fn shown(&self, key: usize) -> String {
        let Some(value) = self.model.values.get(&key) else { return "none".to_owned() };
        let now_ms = self.model.now_ms;
        let time = |ms: u64| if self.is_clustered() { "?".to_owned() } else { ms.to_string() };
        let pttl = value.deadline_ms.map_or("-1".to_owned(), |deadline_ms| time(deadline_ms - now_ms));
        let known = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
        let record = value.record.as_ref();
        let mut text = format!(
            "{} {} {pttl} {} {} {}",
            value.text,
            known(record.map(|record| self.fences[&record.fence])),
            record.map_or("-".to_owned(), |record| time(now_ms - record.since_ms)),
            known(record.and_then(|record| record.holder).map(|id| id as i64)),
            known(record.map(|record| i64::from(record.session.is_some()))),
        );
        for waiter in &self.model.lines[key] {
            text.push_str(&format!(" {}:{}", waiter.client, time(now_ms - waiter.since_ms)));
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

/// Shows the token, fence, TTL, age, holder and session of LOCK.INFO, and the clients in line with how long they wait. Of
/// a cluster no times are shown.
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
    let names = ["token", "fence", "pttl", "age-ms", "client-id", "session"];
    let mut text = names.map(|name| shown(info, name)).join(" ");
    let Frame::Array(waiters) = field(info, "waiters") else { panic!("{info:?}") };
    for waiter in waiters {
        text.push_str(&format!(" {}:{}", shown(waiter, "client-id"), shown(waiter, "waited-ms")));
    }
    text
}

#[test]
fn random_commands_deaths_and_time_do_what_the_model_says() {
    let chosen = std::env::var("KEYLATCH_LOCK_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in chosen.map_or(1..=SEEDS, |seed| seed..=seed) {
        try_commands(seed, vec![TestServer::start()], STEPS);
    }
}

/// Executes random commands, and lets everybody in the end be served who waits.
fn try_commands(seed: u64, servers: Vec<TestServer>, steps: usize) {
    let mut run = Run::new(seed, servers);
    (0..steps).for_each(|_| run.step());
    while run.model.lines.iter().any(|line| !line.is_empty()) {
        run.story.push("FLUSHALL".to_owned());
        assert_eq!(run.admins[0].call("FLUSHALL"), "+OK");
        run.model.values.clear();
        run.model.serve();
        run.hear();
        run.compare();
    }
    assert!(run.model.fences > steps / 20, "only {} locks with seed {seed}", run.model.fences);
}

#[cfg(feature = "etcd")]
#[test]
fn random_commands_and_deaths_on_three_servers_of_a_cluster_do_what_the_model_says() {
    let chosen = std::env::var("KEYLATCH_LOCK_SEED").ok().map(|seed| seed.parse::<u64>().expect("a number"));
    for seed in chosen.map_or(1..=3, |seed| seed..=seed) {
        let Some(fleet) = Fleet::start(3) else { return };
        try_commands(seed, fleet.servers, 400);
    }
}
