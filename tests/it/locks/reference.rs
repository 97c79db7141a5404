//! A simple implementation of the effects of `LOCK.*` and ordinary commands on locks: the reference of the
//! [model](super::model).

mod deadlock;

use std::collections::{BTreeMap, BTreeSet};

/// Fence, numbered by the order of acquisitions; its value is known once it was in a reply.
pub type Fence = usize;

/// Stand-in for the clients of before a restart.
const FORMER: u64 = 0;

/// Reply to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Text(String),
    Deadlock,
    Fence(Fence),
    Fences(Vec<Fence>),
    /// Keys in any order.
    Keys(BTreeSet<usize>),
}

/// Mode in which a lock is requested. A semaphore's size is that of OF, or its size when the client began to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Alone,
    Several,
    Shared,
    Permits(u64, Option<u64>),
    /// From shared to exclusive.
    Upgrade,
    /// From exclusive to shared.
    Downgrade,
}

/// Request of LOCK.ACQUIRE or LOCK.ACQUIREMULTI.
#[derive(Clone, Debug)]
pub struct Ask {
    pub client: u64,
    pub token: &'static str,
    pub keys: Vec<usize>,
    pub mode: Mode,
    pub px: Option<u64>,
    pub is_session: bool,
    /// End of the wait; `None` if the client does not wait, `Some(None)` if it waits for ever.
    pub until_ms: Option<Option<u64>>,
    pub since_ms: u64,
    /// End of the reserved place of a client that is away.
    pub kept_until_ms: Option<u64>,
}

impl Ask {
    pub fn is_away(&self) -> bool {
        self.kept_until_ms.is_some()
    }

    /// Returns whether another request is the same.
    fn is_same(&self, other: &Ask) -> bool {
        let is_same_mode = match (self.mode, other.mode) {
            (Mode::Permits(count, _), Mode::Permits(others, _)) => count == others,
            (mode, others) => mode == others,
        };
        is_same_mode && self.token == other.token && self.keys == other.keys
    }
}

/// Command of a client that is not blocked.
#[derive(Clone, Debug)]
pub enum Command {
    Acquire(Ask),
    Renew(&'static str, u64),
    Release(&'static str),
    Fence(&'static str),
    Resize(u64),
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
    Resume(&'static str),
    Reset,
}

/// Holder of a lock; a plain lock has none.
#[derive(Clone, Debug)]
pub struct Holder {
    pub token: String,
    pub fence: Fence,
    pub since_ms: u64,
    /// Number of the connection.
    pub client: Option<u64>,
    pub session: Option<u64>,
    pub permits: u64,
    /// Deadline of one of several holders.
    pub deadline_ms: Option<u64>,
}

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One holder at most, whose token is the value.
    Exclusive,
    /// Readers, since a time and with a fence.
    Shared(u64, Fence),
    /// Holders of permits, since a time, with the total number of permits.
    Permits(u64, u64),
}

#[derive(Clone, Debug)]
pub struct Value {
    pub text: String,
    pub deadline_ms: Option<u64>,
    pub kind: Kind,
    pub holders: Vec<Holder>,
}

enum Standing {
    Free,
    Held,
    Taken,
    /// The lock whose mode is to be changed is not held.
    NotHeld,
}

#[derive(Default)]
pub struct Model {
    pub now_ms: u64,
    pub values: BTreeMap<usize, Value>,
    /// Waiters in order of arrival.
    pub waiting: Vec<Ask>,
    /// Keys whose queues may be served.
    ready: BTreeSet<usize>,
    pub fences: usize,
    /// Replies to blocked clients.
    pub told: Vec<(u64, Told)>,
    /// Time for which the locks of a session stay after its connection, and the clients with such locks, with their
    /// end.
    pub grace_ms: u64,
    departed: Vec<(u64, u64)>,
}

pub fn text(text: &str) -> Told {
    Told::Text(text.to_owned())
}

fn number(is_so: bool) -> Told {
    text(if is_so { ":1" } else { ":0" })
}

/// Returns the later of two times; `None` is never.
fn later(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.max(other))
}

impl Value {
    fn plain(text: &str, deadline_ms: Option<u64>) -> Self {
        Value { text: text.to_owned(), deadline_ms, kind: Kind::Exclusive, holders: Vec::new() }
    }

    pub fn free(&self) -> Option<u64> {
        let Kind::Permits(_, size) = self.kind else { return None };
        Some(size.saturating_sub(self.holders.iter().map(|holder| holder.permits).sum()))
    }

    pub fn is_held_with(&self, token: &str) -> bool {
        match self.kind {
            Kind::Exclusive => self.text == token,
            _ => self.holder(token).is_some(),
        }
    }

    fn holder(&self, token: &str) -> Option<usize> {
        self.holders.iter().position(|holder| holder.token == token)
    }
}

impl Model {
    fn new_fence(&mut self) -> Fence {
        self.fences += 1;
        self.fences - 1
    }

    pub fn queue(&self, key: usize) -> impl Iterator<Item = &Ask> {
        self.waiting.iter().filter(move |ask| ask.keys.contains(&key))
    }

    fn remove(&mut self, key: usize) {
        self.values.remove(&key);
        self.ready.insert(key);
    }

    /// Sets a value: an exclusive lock stays one if the value is still its token.
    fn set(&mut self, key: usize, text: &str, deadline_ms: Option<u64>) {
        let before = self.values.remove(&key).filter(|value| value.text == text && value.kind == Kind::Exclusive);
        let holders = before.map_or_else(Vec::new, |value| value.holders);
        self.values.insert(key, Value { holders, ..Value::plain(text, deadline_ms) });
        self.follow_value(key, text);
    }

    /// Serves waiters for several locks that hold this one now, and those that have lost their share of it.
    fn follow_value(&mut self, key: usize, text: &str) {
        let concerns = |ask: &Ask| ask.mode == Mode::Several && ask.token == text || ask.mode == Mode::Upgrade;
        if self.queue(key).any(concerns) {
            self.ready.insert(key);
        }
    }

    /// Removes the holders of a lock that match.
    fn end_holders(&mut self, key: usize, is_over: impl Fn(&Holder) -> bool) {
        let Some(value) = self.values.get_mut(&key) else { return };
        let before = value.holders.len();
        value.holders.retain(|holder| !is_over(holder));
        if value.holders.len() == before {
            return;
        }
        self.ready.insert(key);
        if value.holders.is_empty() {
            self.remove(key);
        } else {
            value.deadline_ms = value.holders.iter().map(|holder| holder.deadline_ms).reduce(later).flatten();
        }
    }

    /// Returns the record of the holder of a lock with a token, and creates one for a plain lock.
    fn record(&mut self, key: usize, token: &str) -> &mut Holder {
        let (fence, now_ms) = (self.fences, self.now_ms);
        let value = self.values.get_mut(&key).expect("it exists");
        if value.holder(token).is_none() {
            let (token, deadline_ms) = (token.to_owned(), None);
            value.holders.push(Holder {
                token,
                fence,
                since_ms: now_ms,
                client: None,
                session: None,
                permits: 0,
                deadline_ms,
            });
            self.fences += 1;
        }
        let at = value.holder(token).expect("it was made");
        &mut value.holders[at]
    }

    fn is_held_with(&self, key: usize, token: &str) -> bool {
        self.values.get(&key).is_some_and(|value| value.is_held_with(token))
    }

    /// Returns the availability of a key for a client: at its request, or with its place in the queue.
    fn standing(&self, key: usize, ask: &mut Ask, place: Option<usize>) -> Result<Standing, Told> {
        let is_turn = self.is_first(key, place.unwrap_or(self.waiting.len()));
        let free = |fits: bool| if fits && is_turn { Standing::Free } else { Standing::Taken };
        let is_alone = matches!(ask.mode, Mode::Alone | Mode::Several);
        let no_size = || text("-ERR PERMITS needs OF where there is no semaphore");
        let is_conversion = matches!(ask.mode, Mode::Upgrade | Mode::Downgrade);
        if is_conversion && !self.is_held_with(key, ask.token) {
            return Ok(Standing::NotHeld);
        }
        let Some(value) = self.values.get(&key) else {
            return if let Mode::Permits(_, None) = ask.mode { Err(no_size()) } else { Ok(free(true)) };
        };
        if self.is_held_with(key, ask.token) {
            let held = value.holder(ask.token).map_or(0, |at| value.holders[at].permits);
            match (value.kind, ask.mode) {
                (Kind::Exclusive, Mode::Upgrade) | (Kind::Shared(..), Mode::Downgrade) => return Ok(Standing::Held),
                (Kind::Shared(..), Mode::Upgrade) if value.holders.len() > 1 => return Ok(Standing::Taken),
                (Kind::Exclusive, Mode::Downgrade) | (Kind::Shared(..), Mode::Upgrade) => return Ok(Standing::Free),
                _ => {}
            }
            let is_same = match (value.kind, ask.mode) {
                (Kind::Exclusive, _) => is_alone,
                (Kind::Shared(..), mode) => mode == Mode::Shared,
                (Kind::Permits(..), mode) => matches!(mode, Mode::Permits(count, _) if count == held),
            };
            return if is_same { Ok(Standing::Held) } else { Err(text("-ERR token holds this lock in another mode")) };
        }
        match (value.kind, &mut ask.mode) {
            (Kind::Shared(..), Mode::Shared) => Ok(free(true)),
            (Kind::Permits(_, size), Mode::Permits(count, of)) => {
                let is_request = place.is_none_or(|place| self.waiting[place].is_away());
                if *count > size || is_request && of.is_some_and(|of| of != size) {
                    return Err(text(&format!("-ERR the semaphore has {size} permits")));
                }
                *of = Some(size);
                Ok(free(value.free().is_some_and(|free| free >= *count)))
            }
            (_, Mode::Permits(_, None)) => Err(no_size()),
            _ => Ok(Standing::Taken),
        }
    }

    /// Returns the place of a client that begins to wait: one that converts its lock comes before all others.
    fn end_of_queue(&self, ask: &Ask) -> usize {
        let upgrades = self.waiting.iter().take_while(|other| other.mode == Mode::Upgrade).count();
        if ask.mode == Mode::Upgrade { upgrades } else { self.waiting.len() }
    }

    /// Returns whether no client waits for a key before a place.
    fn is_first(&self, key: usize, place: usize) -> bool {
        self.waiting[..place].iter().all(|other| other.is_away() || !other.keys.contains(&key))
    }

    /// Grants a client's request if possible; `None` if it has to wait.
    fn attempt(&mut self, ask: &mut Ask, place: Option<usize>) -> Option<Told> {
        let mut is_taken = false;
        for key in ask.keys.clone() {
            match self.standing(key, ask, place) {
                Ok(Standing::NotHeld) => return Some(text("$-1")),
                Ok(standing) => is_taken |= matches!(standing, Standing::Taken),
                Err(error) => return Some(error),
            }
        }
        if is_taken {
            return None;
        }
        let mut fences: Vec<Fence> = ask.keys.iter().map(|key| self.take(*key, ask)).collect();
        Some(if ask.mode == Mode::Several { Told::Fences(fences) } else { Told::Fence(fences.remove(0)) })
    }

    /// Makes a client the holder of a lock that is available to it, or that it holds; returns the fence.
    fn take(&mut self, key: usize, ask: &Ask) -> Fence {
        let until_ms = ask.px.map(|px| self.now_ms + px);
        let is_held = self.is_held_with(key, ask.token);
        if !self.values.contains_key(&key) {
            let (kind, text) = match ask.mode {
                Mode::Alone | Mode::Several => (Kind::Exclusive, ask.token.to_owned()),
                Mode::Shared => (Kind::Shared(self.now_ms, self.new_fence()), "shared:".to_owned()),
                Mode::Permits(_, size) => {
                    let size = size.expect("it is known");
                    (Kind::Permits(self.now_ms, size), format!("permits:{size}"))
                }
                Mode::Upgrade | Mode::Downgrade => unreachable!("only a held lock is converted"),
            };
            self.values.insert(key, Value { text, deadline_ms: until_ms, kind, holders: Vec::new() });
        }
        self.convert(key, ask);
        let kind = self.values[&key].kind;
        let holder = self.record(key, ask.token);
        holder.client = Some(ask.client);
        if ask.is_session {
            holder.session = Some(ask.client);
        }
        if !is_held || until_ms.is_some() {
            holder.deadline_ms = until_ms;
        }
        match (ask.mode, kind) {
            (Mode::Permits(count, _), _) => holder.permits = count,
            (_, Kind::Shared(_, fence)) => holder.fence = fence,
            _ => {}
        }
        let fence = holder.fence;
        let value = self.values.get_mut(&key).expect("it exists");
        value.deadline_ms = match kind {
            Kind::Exclusive => until_ms.or(value.deadline_ms),
            _ => value.holders.iter().map(|holder| holder.deadline_ms).reduce(later).flatten(),
        };
        fence
    }

    /// Changes the mode of a lock that is held in the other one: it keeps its TTL, and has a new fence.
    fn convert(&mut self, key: usize, ask: &Ask) {
        let fence = self.fences;
        self.record(key, ask.token);
        let value = self.values.get_mut(&key).expect("it is held");
        match (ask.mode, value.kind) {
            (Mode::Upgrade, Kind::Shared(..)) => (value.kind, value.text) = (Kind::Exclusive, ask.token.to_owned()),
            (Mode::Downgrade, Kind::Exclusive) => {
                (value.kind, value.text) = (Kind::Shared(value.holders[0].since_ms, fence), "shared:".to_owned());
                self.ready.insert(key);
            }
            _ => return,
        }
        (value.holders[0].fence, value.holders[0].deadline_ms) = (fence, value.deadline_ms);
        self.fences = fence + 1;
    }

    /// Serves the waiters for locks that are ready.
    pub fn serve(&mut self) {
        let is_first = |model: &Self, place: usize, key: &usize| {
            let is_open = model.values.get(key).is_none_or(|value| value.kind != Kind::Exclusive);
            model.ready.contains(key) && is_open && model.is_first(*key, place)
        };
        let mut place = 0;
        while place < self.waiting.len() {
            let ask = &self.waiting[place];
            let has_one = |key: &usize| self.ready.contains(key) && self.is_held_with(*key, ask.token);
            let is_turn = ask.keys.iter().any(|key| is_first(self, place, key))
                || ask.mode == Mode::Several && ask.keys.iter().any(has_one)
                || ask.mode == Mode::Upgrade && self.ready.contains(&ask.keys[0])
                || self.is_excessive(ask);
            if is_turn && !self.waiting[place].is_away() && self.answer(place) {
                place = 0;
            } else {
                place += 1;
            }
        }
        self.ready.clear();
    }

    /// Returns whether a client waits for more permits than a semaphore has that may have become smaller.
    fn is_excessive(&self, ask: &Ask) -> bool {
        let kind = self.values.get(&ask.keys[0]).map(|value| value.kind);
        matches!((ask.mode, kind), (Mode::Permits(count, _), Some(Kind::Permits(_, size))) if count > size)
            && self.ready.contains(&ask.keys[0])
    }

    /// Answers a waiter if its request can be granted now, or never, and the waiters with the same token.
    fn answer(&mut self, place: usize) -> bool {
        let mut ask = self.waiting[place].clone();
        let Some(told) = self.attempt(&mut ask, Some(place)) else { return false };
        let (token, mut keys) = (ask.token, Vec::new());
        self.tell(place, told, &mut keys);
        let is_same = |other: &Ask, keys: &[usize]| {
            !other.is_away() && other.token == token && other.keys.iter().any(|key| keys.contains(key))
        };
        while let Some(same) =
            (0..self.waiting.len()).find(|place| is_same(&self.waiting[*place], &keys) && self.attempt_in_vain(*place))
        {
            let mut other = self.waiting[same].clone();
            let told = self.attempt(&mut other, Some(same)).expect("it was tried");
            self.tell(same, told, &mut keys);
        }
        true
    }

    /// Answers a waiter, and adds its locks, which waiters behind it may get if it was refused.
    fn tell(&mut self, place: usize, told: Told, keys: &mut Vec<usize>) {
        let ask = self.waiting.remove(place);
        self.told.push((ask.client, told));
        let is_open = |key: &&usize| self.values.get(*key).is_none_or(|value| value.kind != Kind::Exclusive);
        self.ready.extend(ask.keys.iter().filter(is_open));
        keys.extend(ask.keys);
    }

    /// Returns whether a waiter would be answered.
    fn attempt_in_vain(&self, place: usize) -> bool {
        let mut ask = self.waiting[place].clone();
        let standings = ask.keys.clone().into_iter().map(|key| self.standing(key, &mut ask, Some(place)));
        let standings: Vec<_> = standings.collect();
        standings.iter().any(Result::is_err)
            || !standings.iter().any(|standing| matches!(standing, Ok(Standing::Taken)))
    }

    /// Executes a command of a client; returns its reply, or `None` if it blocks.
    pub fn execute(&mut self, client: u64, key: usize, command: &Command) -> Option<Told> {
        let exists = self.values.contains_key(&key);
        Some(match command {
            Command::Acquire(ask) => {
                let mut ask = ask.clone();
                let is_kept = |other: &Ask| ask.until_ms.is_some() && other.is_away() && other.is_same(&ask);
                let kept = self.waiting.iter().position(is_kept);
                match self.attempt(&mut ask, kept) {
                    Some(error @ Told::Text(_)) => return Some(error),
                    Some(told) => {
                        kept.map(|kept| self.waiting.remove(kept));
                        return Some(told);
                    }
                    None if ask.until_ms.is_none() => {
                        return Some(text(if ask.mode == Mode::Several { "*-1" } else { "$-1" }));
                    }
                    None => {}
                }
                let place = kept.unwrap_or_else(|| self.end_of_queue(&ask));
                if self.is_cycle(&ask, place) {
                    return Some(Told::Deadlock);
                }
                match kept {
                    Some(kept) => self.waiting[kept] = ask,
                    None => self.waiting.insert(place, ask),
                }
                return None;
            }
            Command::Renew(token, _) | Command::Fence(token) if !self.is_held_with(key, token) => text("$-1"),
            Command::Renew(token, px) => {
                let until_ms = Some(self.now_ms + px);
                let holder = self.record(key, token);
                holder.deadline_ms = until_ms;
                let fence = holder.fence;
                let value = self.values.get_mut(&key).expect("it exists");
                let last = value.holders.iter().map(|holder| holder.deadline_ms).reduce(later).flatten();
                value.deadline_ms = if value.kind == Kind::Exclusive { until_ms } else { last };
                Told::Fence(fence)
            }
            Command::Fence(token) => Told::Fence(self.record(key, token).fence),
            Command::Release(token) => {
                let is_held = self.is_held_with(key, token);
                match self.values.get(&key).map(|value| value.kind) {
                    Some(Kind::Exclusive) if is_held => self.remove(key),
                    _ => self.end_holders(key, |holder| holder.token == *token),
                }
                number(is_held)
            }
            Command::Resize(size) => match self.values.get_mut(&key) {
                Some(Value { kind: Kind::Permits(_, old), text: value, .. }) => {
                    (*old, *value) = (*size, format!("permits:{size}"));
                    self.ready.insert(key);
                    text(":1")
                }
                _ => text("$-1"),
            },
            Command::Set(value) | Command::Replace(value) => {
                if matches!(command, Command::Replace(_)) {
                    self.values.remove(&key);
                }
                self.set(key, value, None);
                text(if matches!(command, Command::Set(_)) { "+OK" } else { "*2 :1 +OK" })
            }
            Command::SetNx(..) if exists => text("$-1"),
            Command::SetNx(value, px) => {
                self.set(key, value, Some(self.now_ms + px));
                text("+OK")
            }
            Command::GetSet(value) => {
                self.set(key, value, None);
                text("") // whatever the value was
            }
            Command::Append => {
                let before = self.values.remove(&key);
                let (value, deadline_ms) =
                    before.map_or((String::new(), None), |value| (value.text, value.deadline_ms));
                self.values.insert(key, Value::plain(&(value + "x"), deadline_ms));
                self.follow_value(key, "");
                text("")
            }
            Command::Delete => {
                self.remove(key);
                text("")
            }
            Command::Expire(ms) => {
                let deadline_ms = Some(self.now_ms + ms);
                self.set_deadline(key, deadline_ms);
                number(exists)
            }
            Command::Persist => {
                let had_one = self.values.get(&key).is_some_and(|value| value.deadline_ms.is_some());
                if had_one {
                    self.set_deadline(key, None);
                }
                number(had_one)
            }
            Command::Rename(_) if !exists => text("-ERR no such key"),
            Command::Rename(to) => {
                let value = self.values[&key].clone();
                self.remove(key);
                self.set(*to, &value.text, value.deadline_ms);
                text("+OK")
            }
            Command::FlushAll => {
                self.flush();
                text("+OK")
            }
            Command::Resume(token) => Told::Keys(self.resume(client, token)),
            Command::Reset => {
                self.end_session(client);
                text("+RESET")
            }
        })
    }

    fn set_deadline(&mut self, key: usize, deadline_ms: Option<u64>) {
        let Some(value) = self.values.get_mut(&key) else { return };
        value.deadline_ms = deadline_ms;
        if value.kind != Kind::Exclusive {
            value.holders.iter_mut().for_each(|holder| holder.deadline_ms = deadline_ms);
        }
    }

    /// Removes all keys.
    pub fn flush(&mut self) {
        self.ready.extend(self.values.keys());
        self.values.clear();
    }

    fn end_session(&mut self, client: u64) {
        for key in self.values.keys().copied().collect::<Vec<_>>() {
            self.end_holders(key, |holder| holder.session == Some(client));
        }
    }

    /// Makes a client take over the locks held with a token, except plain locks; returns the keys.
    fn resume(&mut self, client: u64, token: &str) -> BTreeSet<usize> {
        let mut resumed = BTreeSet::new();
        for (key, value) in &mut self.values {
            for holder in value.holders.iter_mut().filter(|holder| holder.token == token && holder.client.is_some()) {
                (holder.client, holder.session) = (Some(client), holder.session.map(|_| client));
                resumed.insert(*key);
            }
        }
        resumed
    }

    /// Closes a connection.
    pub fn close(&mut self, client: u64) {
        let until_ms = self.now_ms + self.grace_ms;
        if self.grace_ms == 0 {
            self.end_session(client);
        } else {
            self.departed.push((client, until_ms));
            for ask in self.waiting.iter_mut().filter(|ask| ask.client == client && ask.is_session) {
                (ask.client, ask.until_ms, ask.kept_until_ms) = (FORMER, Some(None), Some(until_ms));
                self.ready.extend(&ask.keys);
            }
        }
        self.leave(client);
    }

    /// Ends the server, and restarts it with its files some time later: there are no waiters any more, and all sessions
    /// have a grace, unless the server was stopped, and has ended them.
    pub fn restart(&mut self, is_killed: bool, down_ms: u64, grace_ms: u64) {
        self.waiting.clear();
        self.departed.clear();
        if !is_killed && self.grace_ms == 0 {
            let keys: Vec<usize> = self.values.keys().copied().collect();
            keys.into_iter().for_each(|key| self.end_holders(key, |holder| holder.session.is_some()));
        }
        for holder in self.values.values_mut().flat_map(|value| &mut value.holders) {
            holder.client = holder.client.map(|_| FORMER);
            holder.session = holder.session.map(|_| FORMER);
        }
        self.advance_to(self.now_ms + down_ms);
        self.grace_ms = grace_ms;
        self.close(FORMER);
    }

    /// Returns the client that holds a lock, if it is known; `None` if its session is in its grace.
    pub fn shown_client(&self, holder: &Holder) -> Option<u64> {
        let is_gone = |session: u64| self.departed.iter().any(|(client, _)| *client == session);
        holder.client.filter(|client| *client != FORMER && !holder.session.is_some_and(is_gone))
    }

    /// Removes a client from the waiters.
    pub fn leave(&mut self, client: u64) {
        self.leave_queues(|ask| ask.client == client);
        self.serve();
    }

    fn leave_queues(&mut self, is_over: impl Fn(&Ask) -> bool) {
        let over: Vec<Ask> = self.waiting.extract_if(.., |ask| is_over(ask)).collect();
        let is_open = |key: &usize| self.values.get(key).is_none_or(|value| value.kind != Kind::Exclusive);
        self.ready.extend(over.iter().flat_map(|ask| &ask.keys).filter(|key| is_open(key)));
    }

    /// Returns the time when the next lock or holder expires, or the next wait ends.
    pub fn next_ms(&self) -> Option<u64> {
        let deadlines = self.values.values().filter_map(|value| value.deadline_ms);
        let holders =
            self.values.values().filter(|value| value.kind != Kind::Exclusive).flat_map(|value| &value.holders);
        let timeouts = self.waiting.iter().filter_map(|ask| ask.until_ms.flatten());
        let departures = self.departed.iter().map(|(_, until_ms)| *until_ms);
        deadlines.chain(holders.filter_map(|holder| holder.deadline_ms)).chain(timeouts).chain(departures).min()
    }

    /// Sets the time. At most one kind of event is due: locks and sessions end at even times, and waits at odd ones.
    pub fn advance_to(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        for key in self.values.keys().copied().collect::<Vec<_>>() {
            let value = &self.values[&key];
            if value.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
                self.remove(key);
            } else if value.kind != Kind::Exclusive {
                self.end_holders(key, |holder| holder.deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms));
            }
        }
        for (client, _) in self.departed.extract_if(.., |(_, until_ms)| *until_ms <= now_ms).collect::<Vec<_>>() {
            self.end_session(client);
        }
        self.waiting.retain(|ask| ask.kept_until_ms.is_none_or(|until_ms| until_ms > now_ms));
        self.serve();
        let is_over = |ask: &Ask| ask.until_ms.flatten().is_some_and(|until_ms| until_ms <= now_ms);
        for ask in self.waiting.iter().filter(|ask| is_over(ask)) {
            self.told.push((ask.client, text(if ask.mode == Mode::Several { "*-1" } else { "$-1" })));
        }
        self.leave_queues(is_over);
        self.serve();
    }
}
