//! MIGRATE: moves keys to another server, by RESTORE there and deletion here.
//!
//! A handler must not wait for another server while it holds shards. So the handler only takes the values, without
//! copying long ones, and watches their keys; the connection then runs the exchange ([`Migration::exchange`]), while
//! other clients are served; and a last step ([`Continuation`]) deletes the keys that the target has accepted.
//!
//! Invariant: a key is deleted only if the target has confirmed that it has the value and the key was not changed since
//! the value was taken.

use std::time::Duration;

use bytes::Bytes;

use crate::client::registry::Unblocked;
use crate::command::keys::dump;
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::resp::{Reply, Request};
use crate::spec::marks::MOVES_KEYS;
use crate::spec::{
    ACCESS, Arg, DELETE, Group, KeyFlags, MOVABLE_KEYS, NO_ENGINE, REDACTED, RW, WRITE, block, integer, key, one_of,
    string, token,
};
use crate::store::{Key, Lookup, View, WatchFlag};
use crate::time::clock::{Clock, Deadline};

mod exchange;

const COST: &str = "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target \
instance. See the pages of these commands for time complexity. Also an O(N) data transfer between the two instances is \
performed.";

const MOVED: KeyFlags = RW | ACCESS | DELETE;
const AUTH2: Arg = block("username_password", &[string("username"), string("password")]);

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("MIGRATE", migrate, WRITE | MOVABLE_KEYS | NO_ENGINE, Group::Generic)
        .args(&[
            string("host"),
            integer("port"),
            one_of("key_or_empty_string", &[key("key", MOVED), token("empty_string", "")]),
            integer("destination-db"),
            integer("timeout"),
            token("copy", "COPY").optional().since("3.0.0"),
            token("replace", "REPLACE").optional().since("3.0.0"),
            one_of("authentication", &[
                string("password").token("AUTH").optional().since("4.0.7"),
                AUTH2.token("AUTH2").optional().since("6.0.0"),
            ]).optional(),
            key("key", MOVED).token("KEYS").optional().multiple().since("3.0.6"),
        ])
        .key_search(moved_keys)
        .marks(MOVES_KEYS)
        .redact(redact_passwords)
        .categories(&["dangerous"])
        .tips(&["nondeterministic_output"])
        .docs("2.6.0", COST, "Moves keys to another server."),
];

/// The positions of the key, which may be an empty string, and of the first option.
const KEY_AT: usize = 3;
const OPTIONS_AT: usize = 6;

/// Finds the keys: either a single one at its position, or all after KEYS. Unknown arguments are skipped; the command
/// itself rejects them.
fn moved_keys(request: Request<'_>) -> Vec<(usize, KeyFlags)> {
    let mut at = OPTIONS_AT;
    // As in Redis, KEYS as the last argument does not count.
    while at + 1 < request.len() {
        let word = request.arg(at);
        if is_word(word, "KEYS") {
            let first = if request.arg(KEY_AT).is_empty() { at + 1 } else { request.len() };
            return (first..request.len()).map(|position| (position, MOVED)).collect();
        }
        at += 1 + secret_words(word);
    }
    vec![(KEY_AT, MOVED)]
}

/// Returns the number of secret arguments of an option.
fn secret_words(option: &[u8]) -> usize {
    if is_word(option, "AUTH") { 1 } else { 2 * usize::from(is_word(option, "AUTH2")) }
}

/// Redacts the passwords of AUTH and AUTH2.
fn redact_passwords(words: &mut [&[u8]]) {
    let mut at = OPTIONS_AT;
    while at < words.len() {
        let secrets = secret_words(words[at]);
        let is_plain = ["COPY", "REPLACE"].iter().any(|option| is_word(words[at], option));
        if !is_plain && secrets == 0 || at + secrets >= words.len() {
            return;
        }
        words[at + 1..=at + secrets].fill(REDACTED);
        at += 1 + secrets;
    }
}

#[derive(Default)]
struct Options {
    /// True if the keys stay here (COPY).
    copies: bool,
    /// True if existing keys are overwritten at the target (REPLACE).
    replaces: bool,
    /// The arguments of AUTH for the target: a password, or a name and a password.
    login: Vec<Bytes>,
    /// The position of the first key.
    first_key: usize,
    /// The position after the last key.
    end_of_keys: usize,
}

impl Options {
    fn read(request: Request<'_>) -> Result<Self> {
        let mut options = Options { first_key: KEY_AT, end_of_keys: KEY_AT + 1, ..Options::default() };
        let mut at = OPTIONS_AT;
        while at < request.len() {
            let word = request.arg(at);
            let secrets = secret_words(word);
            if is_word(word, "COPY") {
                options.copies = true;
            } else if is_word(word, "REPLACE") {
                options.replaces = true;
            } else if secrets > 0 && at + secrets < request.len() {
                let words = (at + 1..=at + secrets).map(|position| Bytes::copy_from_slice(request.arg(position)));
                // As in Redis, a user name given before stays in effect until another one is given.
                let name = options.login.first().filter(|_| options.login.len() == 2 && secrets == 1).cloned();
                options.login = name.into_iter().chain(words).collect();
            } else if is_word(word, "KEYS") {
                if !request.arg(KEY_AT).is_empty() {
                    return Err(Error::other(KEY_AND_KEYS));
                }
                (options.first_key, options.end_of_keys) = (at + 1, request.len());
                break;
            } else {
                return Err(Error::Syntax);
            }
            at += 1 + secrets;
        }
        Ok(options)
    }
}

const KEY_AND_KEYS: &str = "When using MIGRATE KEYS option, the key argument must be set to the empty string";
const NESTED: &str = "MIGRATE waits for another server, so it cannot be called by EXEC or a script";

/// The default timeout of a step.
const TIMEOUT_MS: u64 = 1000;

/// A MIGRATE in progress.
pub(crate) struct Migration {
    /// The name or address of the target.
    host: Bytes,
    /// The port as the caller wrote it.
    port: Bytes,
    timeout: Duration,
    login: Vec<Bytes>,
    target_db: i64,
    copies: bool,
    replaces: bool,
    clock: Clock,
    /// True if the server is a node of a topology, where other calls find a key either here or at the target.
    is_in_topology: bool,
    /// True once the exchange was started.
    was_sent: bool,
    parcels: Vec<Parcel>,
    /// The indexes of the parcels that the target has accepted.
    accepted: Vec<usize>,
    /// The first error.
    failure: Option<Error>,
}

/// A key with its value.
struct Parcel {
    key: Bytes,
    hash: u64,
    value: dump::Parcel,
    deadline: Option<Deadline>,
    /// Raised when the key has changed since its value was taken.
    changed: WatchFlag,
}

impl Parcel {
    fn key(&self) -> Key<'_> {
        Key { bytes: &self.key, hash: self.hash }
    }
}

fn migrate(call: &mut Call<'_>) -> Result<()> {
    let request = call.args.request();
    let word = |position| Bytes::copy_from_slice(request.arg(position));
    let options = Options::read(request)?;
    let int = |position| crate::resp::parse_int(request.arg(position)).ok_or(Error::NotInteger);
    let (timeout_ms, target_db) = (int(5)?, int(4)?);
    let positions = options.first_key..options.end_of_keys;
    let (mut found, saving) = (Vec::new(), dump::options(call));
    for key in positions.map(|position| call.namespace.store.key(request.arg(position))) {
        if let Some(entry) = call.view.lookup(key, Lookup::READ) {
            found.push((key, dump::Parcel::new(entry, saving), entry.deadline()));
        }
    }
    if found.is_empty() {
        call.reply.simple("NOKEY");
        return Ok(());
    }
    if call.is_nested() {
        return Err(Error::other(NESTED));
    }
    let parcels = found.into_iter().map(|(key, value, deadline)| {
        let changed = WatchFlag::default();
        call.view.waiting().watch(key, &changed);
        Parcel { key: Bytes::copy_from_slice(key.bytes), hash: key.hash, value, deadline, changed }
    });
    let migration = Migration {
        parcels: parcels.collect(),
        host: word(1),
        port: word(2),
        timeout: Duration::from_millis(u64::try_from(timeout_ms).ok().filter(|ms| *ms > 0).unwrap_or(TIMEOUT_MS)),
        login: options.login,
        target_db,
        copies: options.copies,
        replaces: options.replaces,
        clock: call.namespace.clock.clone(),
        is_in_topology: call.namespace.member().is_some(),
        was_sent: false,
        accepted: Vec::new(),
        failure: None,
    };
    call.continue_with(migration)
}

/// Runs the exchange, and then completes the migration, whatever the result, in one step: deleting a key takes less
/// time than sending it did.
impl Continuation for Migration {
    fn wait(&mut self) -> Wait<'_> {
        if std::mem::replace(&mut self.was_sent, true) { Wait::Turn } else { Wait::Work(Box::pin(self.exchange())) }
    }

    fn step(&mut self, env: Env<'_>, view: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        self.abandon(env, view);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => {
                reply.ok();
                Ok(true)
            }
        }
    }

    fn needs_whole_store(&self) -> bool {
        self.is_in_topology
    }

    /// Deletes the keys that the target has accepted, even when the client has disconnected; not on a replica, whose
    /// keys are those of its primary.
    fn abandon(&mut self, env: Env<'_>, view: &mut View<'_>) {
        let keeps = self.copies || env.namespace.restrictions.is_read_only();
        if self.is_in_topology {
            env.namespace.store.renew_generation(); // calls that were admitted while the keys were here are routed again
        }
        for &index in self.accepted.iter().filter(|_| !keeps) {
            let parcel = &self.parcels[index];
            view.waiting().remove_unchanged(parcel.key(), &parcel.changed);
        }
        for parcel in &self.parcels {
            view.waiting().forget(parcel.key(), &parcel.changed);
        }
    }
}
