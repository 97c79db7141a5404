//! Model of a few locks for the checker: the effect of each request, and the correctness of its reply.
//!
//! Fencing tokens are taken from the replies. A new one is greater than all before, in every life of the server; a
//! token that was in no reply is unknown until it is in one.

use std::collections::VecDeque;

use todc_utils::{Action, History, Specification, WGLChecker};

pub(super) const KEYS: [&str; 2] = ["a", "b"];
pub(super) const TOKENS: [&str; 4] = ["t", "u", "v", "w"];
/// TTL of each lock, which does not end while a test runs.
pub(super) const PX_MS: u64 = 600_000;

/// Stand-in for the connections of former lives.
const FORMER: u64 = u64::MAX;

/// Mode in which a lock is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exclusive,
    /// Both keys, the named one first.
    Several,
    Shared,
    Permits {
        count: u64,
        of: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Acquires a lock. Where some requests wait, all do: otherwise null could also mean that others are queued.
    Acquire {
        key: usize,
        token: usize,
        mode: Mode,
        is_session: bool,
        block_ms: Option<u64>,
    },
    Release(usize, usize),
    Renew(usize, usize),
    Fence(usize, usize),
    Resize(usize, u64),
    Delete(usize),
    Get(usize),
    Info(usize),
    Resume(usize),
    /// Closes the connection, without a grace for its session.
    Close,
    /// Kills the server, which ends its sessions unless there is a grace.
    Kill {
        has_grace: bool,
    },
}

/// Operation: its life of the server, its connection, and the times of its call and reply, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) life: u64,
    pub(super) connection: u64,
    pub(super) called: u64,
    pub(super) request: Request,
    /// Reply and its time. Without a reply, the operation may have been executed in this life, or never.
    pub(super) reply: Option<(u64, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Exclusive,
    /// Shared lock, with the fence of the period.
    Shared(Option<i64>),
    Permits(u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    token: usize,
    fence: Option<i64>,
    permits: u64,
    session: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Lock {
    kind: Kind,
    holders: Vec<Holder>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    life: u64,
    /// Greatest fence in any reply.
    last: i64,
    locks: [Option<Lock>; KEYS.len()],
}

/// Fences in a reply, in order; `None` if there is no reply.
struct Told {
    fences: Option<VecDeque<i64>>,
    is_right: bool,
}

impl Told {
    /// Returns the fence of a lock that is acquired now.
    fn new_fence(&mut self, last: &mut i64) -> Option<i64> {
        let fence = self.fences.as_mut()?.pop_front();
        self.is_right &= fence.is_some_and(|fence| fence > *last);
        *last = fence.unwrap_or(0).max(*last);
        fence
    }

    /// Compares the fence of a lock that was acquired before, if it is known.
    fn same_fence(&mut self, known: &mut Option<i64>, last: &mut i64) {
        let Some(fences) = &mut self.fences else { return };
        let fence = fences.pop_front();
        self.is_right &= fence.is_some() && known.is_none_or(|known| Some(known) == fence);
        *known = fence;
        *last = fence.unwrap_or(0).max(*last);
    }
}

/// Expected reply.
#[derive(PartialEq)]
enum Answer {
    Text(String),
    /// Fences, which were compared.
    Fences,
}

fn text(text: &str) -> Answer {
    Answer::Text(text.to_owned())
}

fn number(is_so: bool) -> Answer {
    text(if is_so { ":1" } else { ":0" })
}

impl Lock {
    fn at(&self, token: usize) -> Option<usize> {
        self.holders.iter().position(|holder| holder.token == token)
    }

    fn value(&self) -> String {
        match self.kind {
            Kind::Exclusive => TOKENS[self.holders[0].token].to_owned(),
            Kind::Shared(_) => "shared:".to_owned(),
            Kind::Permits(size) => format!("permits:{size}"),
        }
    }
}

/// Availability of a lock for a client.
enum Standing {
    Free,
    Held,
    Taken,
}

impl State {
    fn standing(&self, key: usize, token: usize, mode: Mode, is_queued: bool) -> Result<Standing, Answer> {
        let Some(lock) = &self.locks[key] else { return Ok(Standing::Free) };
        if let Some(at) = lock.at(token) {
            let is_same = match (&lock.kind, mode) {
                (Kind::Exclusive, Mode::Exclusive | Mode::Several) | (Kind::Shared(_), Mode::Shared) => true,
                (Kind::Permits(_), Mode::Permits { count, .. }) => lock.holders[at].permits == count,
                _ => false,
            };
            return if is_same { Ok(Standing::Held) } else { Err(text("-ERR token holds this lock in another mode")) };
        }
        match (&lock.kind, mode) {
            (Kind::Shared(_), Mode::Shared) => Ok(Standing::Free),
            (Kind::Permits(size), Mode::Permits { count, of }) => {
                // A waiter may have made its request when the size was another one.
                if count > *size || of != *size && !is_queued {
                    return Err(text(&format!("-ERR the semaphore has {size} permits")));
                }
                let taken: u64 = lock.holders.iter().map(|holder| holder.permits).sum();
                Ok(if taken + count <= *size { Standing::Free } else { Standing::Taken })
            }
            _ => Ok(Standing::Taken),
        }
    }

    fn take(&mut self, key: usize, token: usize, (mode, session): (Mode, Option<u64>), told: &mut Told) {
        let State { last, locks, .. } = self;
        let lock = locks[key].get_or_insert_with(|| {
            let kind = match mode {
                Mode::Exclusive | Mode::Several => Kind::Exclusive,
                Mode::Shared => Kind::Shared(None),
                Mode::Permits { of, .. } => Kind::Permits(of),
            };
            Lock { kind, holders: Vec::new() }
        });
        if let Some(at) = lock.at(token) {
            let holder = &mut lock.holders[at];
            holder.session = session.or(holder.session);
            let known = if let Kind::Shared(fence) = &mut lock.kind { fence } else { &mut holder.fence };
            return told.same_fence(known, last);
        }
        let mut holder = Holder { token, fence: None, permits: 0, session };
        match (&mut lock.kind, mode) {
            (Kind::Shared(fence), _) if lock.holders.is_empty() => *fence = told.new_fence(last),
            (Kind::Shared(fence), _) => told.same_fence(fence, last),
            (Kind::Permits(_), Mode::Permits { count, .. }) => {
                (holder.permits, holder.fence) = (count, told.new_fence(last));
            }
            _ => holder.fence = told.new_fence(last),
        }
        lock.holders.push(holder);
    }

    /// Removes the holders that match; returns whether there were any.
    fn end(&mut self, key: usize, is_over: impl Fn(&Holder) -> bool) -> bool {
        let Some(lock) = &mut self.locks[key] else { return false };
        let before = lock.holders.len();
        lock.holders.retain(|holder| !is_over(holder));
        let is_any = lock.holders.len() < before;
        self.locks[key].take_if(|lock| lock.holders.is_empty());
        is_any
    }

    /// Executes a request, and compares the fences in its reply.
    fn run(&mut self, span: &Span, told: &mut Told) -> Answer {
        match span.request {
            Request::Acquire { key, token, mode, is_session, block_ms } => {
                let is_refused = span.reply.as_ref().is_some_and(|(_, reply)| reply.starts_with("-ERR"));
                let is_queued = block_ms.is_some() && !is_refused;
                let keys = if mode == Mode::Several { vec![key, 1 - key] } else { vec![key] };
                let mut is_taken = false;
                for key in &keys {
                    match self.standing(*key, token, mode, is_queued) {
                        Ok(standing) => is_taken |= matches!(standing, Standing::Taken),
                        Err(error) => return error,
                    }
                }
                if is_taken {
                    return text(if mode == Mode::Several { "*-1" } else { "$-1" });
                }
                let session = is_session.then_some(span.connection);
                keys.iter().for_each(|key| self.take(*key, token, (mode, session), told));
                Answer::Fences
            }
            Request::Release(key, token) => number(self.end(key, |holder| holder.token == token)),
            Request::Renew(key, token) | Request::Fence(key, token) => {
                let State { last, locks, .. } = self;
                let held = locks[key].as_mut().and_then(|lock| lock.at(token).zip(Some(lock)));
                let Some((at, lock)) = held else { return text("$-1") };
                let holder = &mut lock.holders[at];
                let known = if let Kind::Shared(fence) = &mut lock.kind { fence } else { &mut holder.fence };
                told.same_fence(known, last);
                Answer::Fences
            }
            Request::Resize(key, size) => match &mut self.locks[key] {
                Some(Lock { kind: Kind::Permits(present), .. }) => {
                    *present = size;
                    text(":1")
                }
                _ => text("$-1"),
            },
            Request::Delete(key) => number(self.locks[key].take().is_some()),
            Request::Get(key) => {
                let value = self.locks[key].as_ref().map(Lock::value);
                value.map_or(text("$-1"), |value| text(&format!("${} {value}", value.len())))
            }
            Request::Info(key) => self.describe(key, told),
            Request::Resume(token) => {
                let held = self.locks.iter_mut().zip(KEYS);
                let resumed = held.filter_map(|(lock, name)| {
                    let lock = lock.as_mut()?;
                    let holder = lock.at(token).map(|at| &mut lock.holders[at])?;
                    holder.session = holder.session.map(|_| span.connection);
                    Some(name)
                });
                Answer::Text(resumed.collect::<Vec<_>>().join(" "))
            }
            Request::Close => {
                (0..KEYS.len()).for_each(|key| _ = self.end(key, |holder| holder.session == Some(span.connection)));
                text("")
            }
            Request::Kill { has_grace } => {
                self.life += 1;
                if !has_grace {
                    (0..KEYS.len()).for_each(|key| _ = self.end(key, |holder| holder.session.is_some()));
                }
                let holders = self.locks.iter_mut().flatten().flat_map(|lock| &mut lock.holders);
                holders.for_each(|holder| holder.session = holder.session.map(|_| FORMER));
                text("")
            }
        }
    }

    /// Describes a lock in the form of [`described`], without the fences, which are compared.
    fn describe(&mut self, key: usize, told: &mut Told) -> Answer {
        let State { last, locks, .. } = self;
        let Some(lock) = &mut locks[key] else { return text("") };
        let mut shown = match lock.kind {
            Kind::Exclusive => "exclusive".to_owned(),
            Kind::Shared(_) => "shared".to_owned(),
            Kind::Permits(size) => format!("permits {size}"),
        };
        for holder in &mut lock.holders {
            let known = if let Kind::Shared(fence) = &mut lock.kind { fence } else { &mut holder.fence };
            told.same_fence(known, last);
            let is_session = u8::from(holder.session.is_some());
            shown.push_str(&format!(", {} {is_session} {}", TOKENS[holder.token], holder.permits));
        }
        Answer::Text(shown)
    }
}

/// Parses the reply of LOCK.INFO for a lock: its mode and size, and for each holder the token, the session and the
/// permits; with the fences and the TTLs.
pub(super) fn described(info: &str) -> (String, Vec<i64>, Vec<i64>) {
    let words: Vec<&str> = info.split(' ').collect();
    let after = |name: &str, from: usize| {
        let at = from + words[from..].iter().position(|word| *word == name).expect("a field");
        // A bulk string follows its length.
        if words[at + 1].starts_with('$') && words[at + 1] != "$-1" { words[at + 2] } else { words[at + 1] }
    };
    let number = |word: &str| word.trim_start_matches(':').parse::<i64>().unwrap_or(0);
    let (mut fences, mut ttls) = (Vec::new(), Vec::new());
    if info == "*-1" || after("mode", 0) == "free" {
        return (String::new(), fences, ttls);
    }
    let mut shown = after("mode", 0).to_owned();
    if shown == "permits" {
        shown.push_str(&format!(" {}", number(after("permits", 1 + position(&words, "mode") + 2))));
    }
    let (begin, end) = (position(&words, "holders"), position(&words, "waiters"));
    for at in (begin..end).filter(|at| words[*at] == "token") {
        fences.push(number(after("fence", at)));
        ttls.push(number(after("pttl", at)));
        let (session, permits) = (number(after("session", at)), number(after("permits", at)));
        shown.push_str(&format!(", {} {session} {permits}", after("token", at)));
    }
    (shown, fences, ttls)
}

fn position(words: &[&str], name: &str) -> usize {
    words.iter().position(|word| *word == name).expect("a field")
}

/// Returns the integers of a reply that contains nothing else.
fn fences(reply: &str) -> Option<VecDeque<i64>> {
    let words = reply.split(' ').filter(|word| !word.starts_with('*'));
    words.map(|word| word.strip_prefix(':')?.parse().ok()).collect()
}

impl Specification for State {
    type State = State;
    type Operation = Span;

    fn init() -> State {
        State::default()
    }

    fn apply(span: &Span, state: &State) -> (bool, State) {
        if span.life != state.life {
            return (span.reply.is_none(), state.clone());
        }
        let mut after = state.clone();
        let Some((_, reply)) = &span.reply else {
            after.run(span, &mut Told { fences: None, is_right: true });
            return (true, after);
        };
        // Another client may have been queued before it.
        let is_given_up = reply == "$-1" || reply == "*-1" || reply.starts_with("-DEADLOCK ");
        if is_given_up && matches!(span.request, Request::Acquire { block_ms: Some(_), .. }) {
            return (true, after);
        }
        let (said, told) = match span.request {
            Request::Info(_) => {
                let (shown, fences, _) = described(reply);
                (shown, fences.into())
            }
            Request::Resume(_) => {
                let mut names: Vec<&str> = reply.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect();
                names.sort_unstable();
                (names.join(" "), VecDeque::new())
            }
            _ => (reply.clone(), fences(reply).unwrap_or_default()),
        };
        let mut told = Told { fences: Some(told), is_right: true };
        let is_right = match after.run(span, &mut told) {
            Answer::Text(text) => text == said && told.is_right,
            Answer::Fences => told.is_right && told.fences.is_some_and(|left| left.is_empty()),
        };
        if is_right { (true, after) } else { (false, state.clone()) }
    }
}

/// Returns whether one order of the operations explains all replies. Operations without a reply may be ordered up to
/// the end of their life, or not at all, which counts as after it.
pub(super) fn is_linearizable(spans: &[Span]) -> bool {
    let deaths: Vec<u64> = spans
        .iter()
        .filter(|span| matches!(span.request, Request::Kill { .. }))
        .filter_map(|span| span.reply.as_ref().map(|(tick, _)| *tick))
        .collect();
    let mut events = Vec::new();
    for (number, span) in spans.iter().enumerate() {
        let death = deaths.get(span.life as usize).copied().unwrap_or(u64::MAX - 1);
        let (replied, is_late) = span.reply.as_ref().map_or((death, true), |(tick, _)| (*tick, false));
        if span.called < replied {
            events.push((span.called, false, number, Action::Call(span.clone())));
            events.push((replied, is_late, number, Action::Response(span.clone())));
        }
    }
    events.sort_by_key(|(tick, is_late, number, _)| (*tick, *is_late, *number));
    let actions = events.into_iter().map(|(.., number, action)| (number, action)).collect();
    WGLChecker::<State>::is_linearizable(History::from_actions(actions))
}
