//! Calls that are executed together: on a stage first, and then as one transaction.

use std::collections::BTreeMap;

use prost::Message as _;

use crate::client::engine::{KEYS_MAX, StagedCall};
use crate::client::registry::Suspended;
use crate::client::staged::StagedMessage;
use crate::dispatch::staged::run_staged;
use crate::dispatch::{Env, Handlers, Next};
use crate::engine::cluster::{Change, Revision, Test, Transaction};
use crate::engine::names::{KeyName, Name, Prefix};
use crate::engine::pending::{Pending, Work};
use crate::engine::reads::Reads;
use crate::engine::stage::{Changed, Cleared, Copy, Outcome, Stage};
use crate::engine::stored::{StoredMessage, StoredRecord};
use crate::error::Error;
use crate::namespace::Namespace;
use crate::resp::{Output, Reply};
use crate::spec::Group as CommandGroup;
use crate::store::{Cx, Key, Origin};
use crate::time::clock::Now;

/// How many bytes a transaction writes at most: etcd refuses requests of 1.5 MB.
const BYTES_MAX: usize = 1 << 20;

/// The outcome of a call on the stage.
pub(super) enum Ended {
    /// With a reply; the database that its client has selected since.
    Replied(Output, usize),
    /// Its client is to be blocked.
    Blocked(Box<Suspended>),
    /// Its client stays blocked, until a monotonic time at which it is to be made again.
    StaysBlocked(u64),
    /// It was no call of a client.
    Done,
}

/// Calls that are executed together.
pub(super) struct Group {
    /// The calls, each with its outcome on the stage.
    pub(super) members: Vec<(Pending, Ended)>,
    /// The revisions of the keys of which the stage had copies.
    pub(super) tests: Vec<(KeyName, Revision)>,
    /// The databases that they have emptied, before they have made the other changes.
    pub(super) cleared: Cleared,
    /// The keys that they have changed.
    pub(super) changed: Vec<Changed>,
    pub(super) record: StoredRecord,
    /// What clients have read that are to be told of changes.
    pub(super) reads: Vec<Reads>,
    /// When they were executed on the stage.
    pub(super) staged: Now,
}

/// What the engine knows of keys.
pub(super) trait Known {
    /// Returns a copy of a key.
    fn copy(&self, key: &KeyName, now: Now) -> Copy;

    /// Returns when a watched key was last changed, unless that was after the mirror's revision.
    fn watched(&self, key: &KeyName) -> Option<Revision>;
}

impl Group {
    /// Executes calls on a stage, one after the other.
    pub(super) fn stage(
        (namespace, handlers): (&Namespace, &'static Handlers),
        known: &impl Known,
        pending: Vec<Pending>,
        number: u64,
    ) -> Self {
        let now = namespace.clock.now();
        let mut stage = Stage::new(&namespace.store, now);
        let mut tests = BTreeMap::new();
        for key in pending.iter().flat_map(|pending| &*pending.keys) {
            tests.entry(key.clone()).or_insert_with(|| {
                let copy = known.copy(key, now);
                let revision = copy.mod_revision;
                stage.load(key, copy);
                revision
            });
        }
        let mut record = StoredRecord { number, ..StoredRecord::default() };
        let (mut members, mut reads) = (Vec::new(), Vec::new());
        for mut pending in pending {
            let ended = match &mut pending.work {
                Work::Expire => {
                    expire(namespace, &stage, &pending.keys, now);
                    Ended::Done
                }
                Work::Call(call, _) => match is_touched(call, (known, &stage), &mut tests) {
                    true => refuse(call),
                    false => execute((namespace, handlers), &stage, call, (None, now), (&mut record, &mut reads)),
                },
                Work::Repeat(call, _) => {
                    let mut next = Next::Done;
                    let again = (Some(&mut next), now);
                    let ended = execute((namespace, handlers), &stage, call, again, (&mut record, &mut reads));
                    match next {
                        Next::StayBlocked { retry_at_ms } => Ended::StaysBlocked(retry_at_ms),
                        _ => ended,
                    }
                }
            };
            members.push((pending, ended));
        }
        let Outcome { cleared, changed, events } = stage.end();
        match &cleared {
            Cleared::Nothing => {}
            Cleared::Databases(databases) => record.cleared = databases.iter().map(|db| *db as u64).collect(),
            Cleared::All => record.is_all_cleared = true,
        }
        record.events = events;
        Group { members, tests: tests.into_iter().collect(), cleared, changed, record, reads, staged: now }
    }

    /// Returns whether the calls have changed nothing, so that what they have read is only to be confirmed.
    pub(super) fn is_read(&self) -> bool {
        self.changed.is_empty() && self.cleared == Cleared::Nothing && self.record.messages.is_empty()
    }

    /// Returns why the cluster does not take what they have changed, if it does not.
    pub(super) fn fault(&self, value_max: usize) -> Option<Error> {
        let (mut size, mut largest, mut puts) = (self.record.encoded_len(), 0, 0);
        for Changed { key, value, has_field_ttl } in &self.changed {
            if *has_field_ttl {
                return Some(Error::FieldTtlOnEngine);
            }
            size += key.1.len();
            if let Some((stored, _)) = value {
                (size, largest, puts) = (size + stored.encoded_len(), largest.max(stored.body.len()), puts + 1);
            }
        }
        // Where a database is emptied, each of its keys that are written divides the range of those that are deleted.
        let ranges = match &self.cleared {
            Cleared::Nothing => 0,
            Cleared::Databases(databases) => databases.len() + puts,
            Cleared::All => 1 + puts,
        };
        let is_too_large = size > BYTES_MAX || largest > value_max || self.changed.len() + ranges > KEYS_MAX;
        is_too_large.then_some(Error::TooLargeForEngine)
    }

    /// Returns the transaction that makes their changes on a lane, of which the test is given.
    pub(super) fn transaction(&self, prefix: &Prefix, lane: Test) -> Transaction {
        let name = |key: &KeyName| prefix.name(&Name::Key(key.clone()));
        let Test::Version(lane_name, _) = &lane else { unreachable!("the test of a lane is one of its version") };
        let lane_name = lane_name.clone();
        let mut tests: Vec<Test> = self.tests.iter().map(|(key, at)| Test::Unchanged(name(key), *at)).collect();
        tests.push(lane);
        let was_there = |key: &KeyName| {
            let at = self.tests.binary_search_by(|(tested, _)| tested.cmp(key));
            at.is_ok_and(|at| self.tests[at].1 != 0)
        };
        let mut puts: Vec<Vec<u8>> = Vec::new();
        let change = |changed: &Changed| match &changed.value {
            Some((stored, _)) => {
                puts.push(name(&changed.key));
                Some(Change::Put(name(&changed.key), stored.encode_to_vec()))
            }
            None if self.cleared.has(changed.key.0) => None,
            // One that was created and deleted on the stage was never in the cluster.
            None => was_there(&changed.key).then(|| Change::Delete(name(&changed.key))),
        };
        let mut changes: Vec<Change> = self.changed.iter().filter_map(change).collect();
        puts.sort_unstable();
        let ranges = match &self.cleared {
            Cleared::Nothing => Vec::new(),
            Cleared::Databases(databases) => {
                databases.iter().flat_map(|db| prefix.ranges_of(Some(*db), &puts)).collect()
            }
            Cleared::All => prefix.ranges_of(None, &puts),
        };
        changes.extend(ranges.into_iter().map(|(from, end)| Change::DeleteRange(from, end)));
        changes.push(Change::PutLeased(lane_name.clone(), self.record.encode_to_vec()));
        let reads = self.tests.iter().map(|(key, _)| name(key)).chain([lane_name]).collect();
        Transaction { tests, changes, reads }
    }

    /// Returns whether any of the calls has waited for too long.
    pub(super) fn is_overdue(&self, now: Now) -> bool {
        self.members.iter().any(|(pending, _)| pending.until_ms <= now.mono_ms())
    }

    /// Returns the calls, to be executed again.
    pub(super) fn into_pending(self) -> Vec<Pending> {
        self.members.into_iter().map(|(pending, _)| pending).collect()
    }
}

/// Deletes the keys that are due.
fn expire(namespace: &Namespace, stage: &Stage, keys: &[KeyName], now: Now) {
    let mut hold = stage.hold();
    for (db, bytes) in keys {
        let key = Key { bytes, hash: namespace.store.hash(bytes) };
        hold.view(*db, Cx::new(now, Origin::Expiry)).exists(key);
    }
}

/// Returns whether one of the watched keys of a call has changed since; adds them to the tests otherwise.
fn is_touched(
    call: &StagedCall,
    (known, stage): (&impl Known, &Stage),
    tests: &mut BTreeMap<KeyName, Revision>,
) -> bool {
    let Some(watch) = &call.watch else { return false };
    if watch.flag.is_raised() {
        return true;
    }
    for (key, ()) in watch.keys.iter() {
        if stage.has_changed(key) {
            return true; // by one of the calls that are executed with it
        }
        match known.watched(key) {
            Some(revision) => _ = tests.entry(key.clone()).or_insert(revision),
            None => return true,
        }
    }
    false
}

/// Returns the reply of EXEC where a watched key has changed.
fn refuse(call: &StagedCall) -> Ended {
    let mut out = Output::new();
    Reply::new(&mut out, call.caller.protocol).null_array();
    Ended::Replied(out, call.caller.db)
}

/// Returns whether a call runs scripts.
fn runs_scripts(call: &StagedCall) -> bool {
    let queue = call.transaction.iter().flat_map(|transaction| &transaction.queue);
    let commands = queue.map(|(queued, _)| *queued).chain([call.command]);
    commands.into_iter().any(|command| command.command.group == CommandGroup::Scripting)
}

/// Executes a call on the stage, and adds its messages to the record.
fn execute(
    (namespace, handlers): (&Namespace, &'static Handlers),
    stage: &Stage,
    call: &StagedCall,
    (again, now): (Option<&mut Next>, Now),
    (record, reads): (&mut StoredRecord, &mut Vec<Reads>),
) -> Ended {
    let client = call.caller.info.id;
    record.client = client;
    // A script that takes long marks the mirror as busy, so it has to hold that.
    let _mirror = runs_scripts(call).then(|| namespace.store.exclusive());
    let (mut hold, mut out) = (stage.hold(), Output::new());
    let mut view = hold.view(call.caller.db, Cx::new(now, Origin::Client(client)));
    let end = Env::with_present(namespace, handlers, client, |env| run_staged(env, &mut view, call, again, &mut out));
    let stored = |StagedMessage { is_sharded, channel, payload }| StoredMessage { is_sharded, channel, payload };
    record.messages.extend(end.staged.messages.into_iter().map(stored));
    if !end.staged.read.is_empty() {
        reads.push((call.caller.info.clone(), end.staged.read));
    }
    match end.suspended {
        Some(suspended) => Ended::Blocked(suspended),
        None => Ended::Replied(out, end.db),
    }
}
