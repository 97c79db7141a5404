//! A lock in the cluster, transaction by transaction: its holders, the time until which no other token may have it, and
//! its queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message as _;

use crate::engine::flushes::Flushes;
use crate::engine::model::cluster::SimulatedCluster;
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::stored::{ABSENT, StoredHolder, StoredKey, StoredLock, StoredTtl, StoredWaiter};
use crate::engine::value::decode;
use crate::namespace::Namespace;
use crate::store::Str;

/// Key of the lock.
pub(super) const LOCK: &str = "l";
/// Key of the other lock, where clients acquire two at once.
pub(super) const OTHER_LOCK: &str = "m";

/// A grant of the lock to one token.
#[derive(Clone, Copy)]
pub(super) struct LedgerGrant {
    /// The fencing token; `None` for a lock taken by SET.
    fence: Option<i64>,
    /// True if the lock is shared with other readers.
    is_shared: bool,
    /// Number of permits.
    permits: u32,
    /// Time of the grant in the cluster, in milliseconds.
    at_ms: u64,
    /// TTL in milliseconds, and its ID; 0 for none.
    ttl_ms: u64,
    ttl_id: u64,
    /// True if the end of the TTL was noted.
    is_over: bool,
    /// True if the lock was handed over: a client that is gone gives it back then.
    was_queued: bool,
}

/// Record of the lock's history.
pub(super) struct Ledger {
    /// The key.
    pub(super) lock: &'static str,
    reader: Arc<Namespace>,
    prefix: NamePrefix,
    /// The tokens of the holders: one, or readers.
    holders: BTreeSet<i64>,
    grants: BTreeMap<i64, LedgerGrant>,
    last_fence: i64,
    /// True if the last fencing token was that of readers.
    is_last_shared: bool,
    /// Tokens that were queued and have not had the lock, in the order of their revisions, with their processes.
    queue: Vec<(i64, u64)>,
    /// A reader that waited to hold the lock alone before the present transaction, with its process.
    upgrading: Option<(i64, u64)>,
    /// The processes that were alive before the present transaction.
    living: BTreeSet<u64>,
    /// The tokens whose clients have requested the release, or are gone.
    pub(super) given_up: BTreeSet<i64>,
    /// Given-up tokens whose processes have died: their locks end by their TTLs.
    pub(super) orphaned: BTreeSet<i64>,
    /// True if other clients may take the lock away (DEL).
    pub(super) is_rough: bool,
    pub(super) hand_overs: usize,
}

/// Reads the value of a key as a number.
fn number(reader: &Namespace, stored: &StoredKey) -> Option<i64> {
    let limits = reader.settings.current().limits();
    let entry = decode(stored, LOCK.as_bytes(), None, limits, reader.store.hasher())?;
    number_in(entry.get::<Str>().ok()?.as_slice())
}

fn number_in(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn token_of(waiter: &StoredWaiter) -> i64 {
    number_in(&waiter.token).unwrap_or(0)
}

impl Ledger {
    pub(super) fn new(reader: Arc<Namespace>, prefix: &NamePrefix, lock: &'static str) -> Self {
        Ledger {
            lock,
            reader,
            prefix: prefix.clone(),
            holders: BTreeSet::new(),
            grants: BTreeMap::new(),
            last_fence: 0,
            is_last_shared: false,
            queue: Vec::new(),
            upgrading: None,
            living: BTreeSet::new(),
            given_up: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            is_rough: false,
            hand_overs: 0,
        }
    }

    /// Examines the cluster after a change.
    ///
    /// # Errors
    /// The violated rule.
    pub(super) fn observe(&mut self, cluster: &SimulatedCluster, now_ms: u64) -> Result<(), String> {
        let found = cluster.read(&self.prefix.name(&EtcdName::Key((0, self.lock.as_bytes().into()))));
        let stored =
            found.as_ref().map(|pair| (StoredKey::decode(&pair.value[..]).unwrap_or_default(), pair.mod_revision));
        let flushes = cluster.read(&self.prefix.name(&EtcdName::Flushes)).as_ref().map(Flushes::of).unwrap_or_default();
        let present = match &stored {
            Some((stored, revision)) if stored.kind != ABSENT && *revision >= flushes.at(0) => {
                self.present(stored, *revision, now_ms)?
            }
            _ => BTreeMap::new(),
        };
        let gone: Vec<i64> = self.holders.iter().filter(|token| !present.contains_key(token)).copied().collect();
        gone.into_iter().try_for_each(|token| self.check_end(token, now_ms))?;
        let mut new: Vec<(i64, LedgerGrant)> = present
            .iter()
            .filter(|(token, _)| !self.holders.contains(token))
            .map(|(token, grant)| (*token, *grant))
            .collect();
        new.sort_by_key(|(token, grant)| {
            let place = self.queue.iter().position(|(known, _)| known == token);
            (place.unwrap_or(usize::MAX), grant.fence) // after those in the queue
        });
        let stayed = present.iter().filter(|(token, _)| self.holders.contains(token));
        let is_changed = |(token, grant): &(&i64, &LedgerGrant)| {
            self.grants.get(token).is_none_or(|known| (known.fence, known.ttl_id) != (grant.fence, grant.ttl_id))
        };
        let converted: Vec<(i64, LedgerGrant)> =
            stayed.filter(is_changed).map(|(token, grant)| (*token, *grant)).collect();
        self.check_upgrade(&present, &new)?;
        self.holders = present.into_keys().collect();
        // A writer that becomes a reader lets the readers in the queue in.
        for (token, grant) in converted {
            self.check_new(token, grant)?;
            self.grants.insert(token, grant);
        }
        new.into_iter().try_for_each(|(token, grant)| self.check_grant(token, grant))?;
        let stored = stored.map(|(stored, _)| stored);
        self.upgrading = None;
        for waiter in stored.iter().flat_map(|stored| &stored.queue) {
            let token = token_of(waiter);
            if self.holders.contains(&token) {
                self.upgrading.get_or_insert((token, waiter.wait.process));
            }
            if self.queue.iter().all(|(known, _)| *known != token) && !self.grants.contains_key(&token) {
                self.queue.push((token, waiter.wait.process));
            }
        }
        self.living = cluster.leases.keys().copied().collect();
        Ok(())
    }

    /// Returns the present holders, each with its grant as of now.
    fn present(&self, stored: &StoredKey, revision: i64, now_ms: u64) -> Result<BTreeMap<i64, LedgerGrant>, String> {
        let grant = |lock: Option<&StoredLock>, ttl: Option<StoredTtl>, is_shared| LedgerGrant {
            fence: lock.map(|lock| lock.at(revision).fence),
            is_shared,
            permits: 0,
            at_ms: now_ms,
            ttl_ms: ttl.map_or(0, |ttl| ttl.left_ms),
            ttl_id: ttl.map_or(0, |ttl| ttl.id),
            is_over: false,
            was_queued: false,
        };
        if let Some(holders) = &stored.holders {
            let holder = |holder: &StoredHolder| {
                let grant = grant(Some(&holder.lock), holder.ttl, holders.size == 0);
                (number_in(&holder.token).unwrap_or(0), LedgerGrant { permits: holder.permits, ..grant })
            };
            let taken: u32 = holders.holders.iter().map(|holder| holder.permits).sum();
            if taken > holders.size {
                return Err(format!("{taken} of {} permits are taken", holders.size));
            }
            return Ok(holders.holders.iter().map(holder).collect());
        }
        let token =
            number(&self.reader, stored).ok_or_else(|| format!("the lock has a value that is no token: {stored:?}"))?;
        Ok(BTreeMap::from([(token, grant(stored.lock.as_ref(), stored.ttl, false))]))
    }

    /// Checks that a former holder's time is over, or that it has given the lock up.
    fn check_end(&self, token: i64, now_ms: u64) -> Result<(), String> {
        let Some(grant) = self.grants.get(&token) else { return Ok(()) };
        if self.is_rough || self.given_up.contains(&token) {
            return Ok(());
        }
        match grant.ttl_ms {
            0 => Err(format!("the lock of token {token} has ended although its holder is there")),
            ttl_ms if now_ms < grant.at_ms + ttl_ms => {
                let early_ms = grant.at_ms + ttl_ms - now_ms;
                Err(format!("the lock of token {token} has ended {early_ms} ms before its time"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a token may have the lock now, and notes that it has.
    fn check_grant(&mut self, token: i64, mut grant: LedgerGrant) -> Result<(), String> {
        let place = self.queue.iter().position(|(known, _)| *known == token);
        let before = &self.queue[..place.unwrap_or(self.queue.len())];
        let is_waiting =
            |(token, process): &&(i64, u64)| self.living.contains(process) && !self.given_up.contains(token);
        if let Some((first, _)) = before.iter().find(is_waiting) {
            let how = if place.is_some() { "before its turn" } else { "without having queued" };
            return Err(format!("token {token} has got the lock {how}: {first} is the first in the queue"));
        }
        grant.was_queued = place.is_some();
        self.hand_overs += usize::from(grant.was_queued);
        self.queue.retain(|(known, _)| *known != token);
        self.check_new(token, grant)?;
        if self.grants.insert(token, grant).is_some() && !self.is_rough {
            return Err(format!("token {token} has got the lock twice"));
        }
        Ok(())
    }

    /// Checks the fencing token of a new holder, or of one in a new mode, and that a writer is alone.
    fn check_new(&mut self, token: i64, grant: LedgerGrant) -> Result<(), String> {
        if !grant.is_shared && grant.permits == 0 && self.holders.len() > 1 {
            return Err(format!("token {token} is to hold the lock alone, and {:?} hold it", self.holders));
        }
        let known = self.grants.get(&token).and_then(|grant| grant.fence);
        if let Some(fence) = grant.fence.filter(|fence| known != Some(*fence)) {
            // Readers have the same one as long as there is one, within the transaction at least.
            let is_joint = grant.is_shared && fence == self.last_fence && self.is_last_shared;
            if fence <= self.last_fence && !is_joint {
                return Err(format!("the fencing token {fence} comes after {}", self.last_fence));
            }
            (self.last_fence, self.is_last_shared) = (fence, grant.is_shared);
        }
        Ok(())
    }

    /// Checks that nobody joins the readers while one of them waits to be alone.
    fn check_upgrade(&self, present: &BTreeMap<i64, LedgerGrant>, new: &[(i64, LedgerGrant)]) -> Result<(), String> {
        let Some((token, process)) = self.upgrading else { return Ok(()) };
        let known = self.grants.get(&token).and_then(|grant| grant.fence);
        let is_unchanged = present.get(&token).is_some_and(|grant| grant.is_shared && grant.fence == known);
        let waits = self.living.contains(&process) && !self.given_up.contains(&token) && !self.is_rough;
        match new.first() {
            Some((joined, _)) if is_unchanged && waits => {
                Err(format!("token {joined} shares the lock, while the reader {token} waits to hold it alone"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a token has the lock, or has had it.
    pub(super) fn has_had(&self, token: i64) -> bool {
        self.grants.contains_key(&token)
    }

    /// Checks a reply that makes a client believe from now on that it has the lock, which it has requested at
    /// `asked_ms`.
    ///
    /// # Errors
    /// The reason for which the reply is wrong.
    pub(super) fn check_told(
        &self,
        token: i64,
        fence: Option<i64>,
        (asked_ms, now_ms): (u64, u64),
    ) -> Result<(), String> {
        let Some(grant) = self.grants.get(&token) else {
            // The lock may have been taken away by the same transaction.
            return if self.is_rough {
                Ok(())
            } else {
                Err(format!("token {token} is told that it has the lock, which it never had"))
            };
        };
        if fence.is_some() && fence != grant.fence && !self.is_rough {
            return Err(format!("token {token} is told the fencing token {fence:?}, which is {:?}", grant.fence));
        }
        let thinks_so = grant.ttl_ms == 0 || now_ms < asked_ms + grant.ttl_ms;
        let has_it = self.holders.is_empty() || self.holders.contains(&token);
        if !has_it && thinks_so && !self.is_rough && !self.given_up.contains(&token) {
            return Err(format!("token {token} is told that it has the lock, while {:?} have it", self.holders));
        }
        Ok(())
    }

    /// Takes the tokens whose time is over by now.
    pub(super) fn take_over(&mut self, now_ms: u64) -> Vec<i64> {
        let is_due = |grant: &LedgerGrant| grant.ttl_ms > 0 && !grant.is_over && grant.at_ms + grant.ttl_ms <= now_ms;
        let due = self.grants.iter_mut().filter(|(_, grant)| is_due(grant));
        due.map(|(token, grant)| {
            grant.is_over = true;
            *token
        })
        .collect()
    }

    /// Returns true if the present lock is over by a time, at the latest, or is free.
    pub(super) fn is_over_by(&self, ms: u64) -> bool {
        self.holders.iter().all(|token| self.grants.get(token).is_none_or(|grant| self.ends_by(*token, grant, ms)))
    }

    fn ends_by(&self, token: i64, grant: &LedgerGrant, ms: u64) -> bool {
        let is_taken_back = grant.ttl_ms == 0 || grant.was_queued && !self.orphaned.contains(&token);
        let is_given_back = self.given_up.contains(&token) && is_taken_back;
        is_given_back || grant.ttl_ms > 0 && grant.at_ms + grant.ttl_ms <= ms
    }

    /// Describes the lock.
    pub(super) fn shown(&self) -> String {
        let queue: Vec<i64> = self.queue.iter().map(|(token, _)| *token).collect();
        format!("{}, held by {:?}, queued are {queue:?}", self.lock, self.holders)
    }
}
