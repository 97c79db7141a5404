//! Cycles of clients queued that wait for each other's locks.
//!
//! A lock may be released at any time, on any connection, unless the client that has to do it queues itself. That
//! is known of two kinds of clients: the one whose session the lock is bound to, and those that wait with its token. So a
//! client waits for ever if every lock that it waits for, directly or through such clients, is held by one that waits.
//! Timeouts and TTLs do not count: they end the wait, but not the mistake.
//!
//! A client is examined when it begins to wait. First it is recorded that it is about to, and then whether the lock that
//! it wants is held by one that waits: so of the clients of a cycle at least the last one finds the next. The rest needs
//! the records of other keys, so that one is examined again, with the whole store locked: nobody can begin or end to wait
//! then, and of two clients that close a cycle at the same moment the second one is refused.

use std::any::Any;
use std::collections::{HashMap, HashSet};

use crate::client::info::{ClientCopy, ClientInfo, LockName};
use crate::config::OnDeadlock;
use crate::dispatch::Call;
use crate::store::{Key, LockRecord};
use crate::text::quote;

/// How many bytes of a key are shown in an error.
const KEY_SHOWN: usize = 64;
/// How many locks of a cycle are shown in an error.
const LINKS_SHOWN: usize = 16;

/// What is to be expected of a client that is about to queue.
pub(super) enum Prospect {
    /// It waits until it is served.
    Waits,
    /// It depends on locks that the call has not locked.
    Unknown,
    /// It would wait for ever; the cycle in words.
    Deadlock(String),
}

/// A lock of a cycle, and the client that holds it and waits for the next one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    /// The lock's key.
    pub(crate) key: Box<[u8]>,
    /// The client's id.
    pub(crate) client: u64,
}

/// Returns what is to be expected of the caller when it waits for a lock that another token holds, and records that it is
/// about to.
pub(super) fn prospect(call: &mut Call<'_>, key: Key<'_>, token: &[u8]) -> Prospect {
    if call.config.lock_deadlock == OnDeadlock::Wait {
        return Prospect::Waits;
    }
    let (clients, info) = (&call.namespace.clients, call.caller.info.clone());
    let token = call.namespace.store.hash(token);
    clients.queued.enter(&info, token);
    let prospect = match call.view.is_whole() {
        false if may_hang(call, key) => Prospect::Unknown,
        false => Prospect::Waits,
        true => Search::new(call, (call.caller.db, key.bytes.into()), Some(info.id))
            .run()
            .map_or(Prospect::Waits, |cycle| Prospect::Deadlock(in_words(call, &cycle))),
    };
    if !matches!(prospect, Prospect::Waits) {
        clients.queued.leave(&info, token);
    }
    prospect
}

/// Returns the cycle that the holder of a lock is in, or that its wait leads into, if it is held for ever; for calls that
/// need the whole store, and those that declare no keys.
pub(super) fn cycle_from(call: &mut Call<'_>, lock: LockName) -> Option<Vec<Link>> {
    Search::new(call, lock, None).run()
}

/// Returns whether the release of a lock depends on a client that waits, the caller included.
fn may_hang(call: &mut Call<'_>, key: Key<'_>) -> bool {
    let Call { view, namespace, caller, .. } = call;
    let Some(record) = view.locks().record(key).filter(|record| record.hold.is_some()) else { return false };
    let session = record.session.as_deref().and_then(|session| (session as &dyn Any).downcast_ref::<ClientInfo>());
    session.is_some_and(|session| session.id == caller.info.id || session.flags.is_queued())
        || namespace.clients.queued.has_token(namespace.store.hash(&record.token))
}

/// Who may have to release a lock: the client that it is bound to, and those that wait with the token of this hash.
/// `None` if it is nobody's, as when it was taken by SET NX.
fn holders(record: &LockRecord, hash: impl Fn(&[u8]) -> u64) -> Option<(Option<u64>, u64)> {
    record.hold.as_ref()?;
    Some((record.session.as_ref().map(|session| session.id()), hash(&record.token)))
}

/// A walk from a lock along its holders to the locks that they wait for.
struct Search<'c, 'v> {
    call: &'c mut Call<'v>,
    /// The client that is about to wait for the first lock.
    newcomer: Option<u64>,
    steps: Vec<Step>,
    /// The steps by their locks.
    places: HashMap<LockName, usize>,
    /// The step that is reached first through the clients that wait with a token, with the client.
    tokens: HashMap<u64, Option<(u64, usize)>>,
    /// Where the first lock is waited for again: the step whose holder waits for it, and that holder.
    closing: Option<(usize, u64)>,
}

/// A lock that is waited for.
struct Step {
    lock: LockName,
    /// The step whose holder waits for it, and that holder; `None` for the first one.
    from: Option<(usize, u64)>,
    /// A holder that waits, and the step of the lock that it waits for.
    next: Option<(u64, usize)>,
}

impl<'c, 'v> Search<'c, 'v> {
    fn new(call: &'c mut Call<'v>, first: LockName, newcomer: Option<u64>) -> Self {
        let steps = vec![Step { lock: first.clone(), from: None, next: None }];
        let places = HashMap::from([(first, 0)]);
        Search { call, newcomer, steps, places, tokens: HashMap::new(), closing: None }
    }

    /// Returns the cycle, unless one of the locks may still be released. A newcomer is only concerned by one that it
    /// closes itself.
    fn run(mut self) -> Option<Vec<Link>> {
        let mut at = 0;
        while at < self.steps.len() {
            self.visit(at);
            self.steps[at].next?;
            at += 1;
        }
        match (self.closing, self.newcomer) {
            (Some(closing), _) => Some(self.back_from(closing)),
            (None, Some(_)) => None,
            (None, None) => Some(self.onward()),
        }
    }

    /// Finds the clients that a lock hangs on, and what they wait for.
    fn visit(&mut self, at: usize) {
        let (db, bytes) = self.steps[at].lock.clone();
        let store = &self.call.namespace.store;
        let hash = |token: &[u8]| store.hash(token);
        let found = self.call.view.locks().inspect(db, store.key(&bytes), |record, _| holders(record, hash));
        let Some((session, token)) = found.flatten() else { return };
        if let Some(session) = session {
            self.follow(at, session);
        }
        match self.tokens.get(&token) {
            Some(known) => self.steps[at].next = self.steps[at].next.or(*known),
            None => {
                let known = self
                    .call
                    .namespace
                    .clients
                    .queued
                    .with_token(token)
                    .into_iter()
                    .map(|client| self.follow(at, client));
                let known = known.fold(None, Option::or);
                self.tokens.insert(token, known);
            }
        }
    }

    /// Follows a holder of a lock to the one that it waits for, if it does; returns the holder and that step.
    fn follow(&mut self, at: usize, client: u64) -> Option<(u64, usize)> {
        let is_newcomer = self.newcomer == Some(client);
        let awaited = match is_newcomer {
            true => self.steps[0].lock.clone(),
            false => self.call.namespace.clients.awaited_lock(client)?,
        };
        let place = *self.places.entry(awaited).or_insert_with_key(|lock| {
            self.steps.push(Step { lock: lock.clone(), from: Some((at, client)), next: None });
            self.steps.len() - 1
        });
        if place == 0 && (is_newcomer || self.newcomer.is_none()) {
            self.closing = self.closing.or(Some((at, client)));
        }
        let found = Some((client, place));
        self.steps[at].next = self.steps[at].next.or(found);
        found
    }

    /// Returns the locks from the first one to the one whose holder waits for the first one.
    fn back_from(&self, closing: (usize, u64)) -> Vec<Link> {
        let mut links = Vec::new();
        let mut left = Some(closing);
        while let Some((at, client)) = left {
            links.push(Link { key: self.steps[at].lock.1.clone(), client });
            left = self.steps[at].from;
        }
        links.reverse();
        links
    }

    /// Returns the cycle that the first lock leads into, which is not in it.
    fn onward(&self) -> Vec<Link> {
        let (mut at, mut seen, mut links) = (0, HashSet::new(), Vec::new());
        // Once around to get into the cycle, and once to name its locks.
        for names in [false, true] {
            seen.clear();
            while seen.insert(at)
                && let Some((client, next)) = self.steps[at].next
            {
                if names {
                    links.push(Link { key: self.steps[at].lock.1.clone(), client });
                }
                at = next;
            }
        }
        links
    }
}

/// Describes a cycle for an error: a line in which no key can pretend to be more than a key, and none is shown that the
/// caller may not read.
fn in_words(call: &Call<'_>, cycle: &[Link]) -> String {
    let describe = |link: &Link| {
        let key = match call.caller.access.reads_key(&link.key) {
            true => shown_key(&link.key),
            false => "?".to_owned(),
        };
        match call.namespace.clients.shown(link.client) {
            Some(ClientCopy { id, process: Some(process), .. }) => {
                format!("{key} held by client {id} of process {process:016x}")
            }
            _ => format!("{key} held by client {}", link.client),
        }
    };
    let mut words: Vec<String> = cycle.iter().map(describe).collect();
    if words.len() > LINKS_SHOWN {
        words.splice(LINKS_SHOWN - 1..words.len() - 1, ["..".to_owned()]);
    }
    words.join(" waits for ")
}

fn shown_key(key: &[u8]) -> String {
    let key = &key[..key.len().min(KEY_SHOWN)];
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    match !key.is_empty() && key.iter().all(is_plain) {
        true => String::from_utf8_lossy(key).into_owned(),
        false => quote(key),
    }
}
