//! `LOCK.*`: a lock in one command, and queueing for it.
//!
//! A lock is an ordinary string key whose value is its owner's token, so clients that use SET NX, scripts or these
//! commands exclude each other; a lock with several holders has another value. These commands add a record beside the
//! key, see [`LockRecord`](crate::store::LockRecord): fencing tokens, the holders, and the queued clients. The first
//! client in the queue gets the lock in the critical section in which the key goes away, whatever removes it: the key's
//! change marks it as ready, and the end of the call, or the sweeper, executes the waiting call.

mod acquire;
mod args;
pub(crate) mod claim;
pub(crate) mod deadlock;
#[cfg(feature = "metrics")]
pub(crate) mod holder_id;
mod inspect;
#[cfg(feature = "metrics")]
pub(crate) mod overview;
mod release;
mod replicated;
pub(crate) mod resume;

use crate::dispatch::Command;
use crate::spec::marks::RESUMES_LOCKS;
use crate::spec::{
    ACCESS, BLOCKING, DELETE, DENY_OOM, Effect, FAST, Group, RO, RW, UPDATE, WRITE, block, integer, key, string, token,
};

pub(crate) use inspect::COMMANDS as INSPECTION;
#[cfg(feature = "internals")]
pub(crate) use inspect::describe;

const ACQUIRE_COST: &str = "O(C), and O(N) for a client that leaves the queue, or is refused because it would wait for ever, \
where C is 1 and the number of holders that wait for one another, beginning with the lock's, and N the number of clients in the queue.";

const SEVERAL_COST: &str = "O(K), and O(K * N) for a client that leaves the queues, or is refused because it would wait for \
ever, where K is the number of keys and N the number of clients queued for each.";

const RESUME_COST: &str = "O(N) where N is the number of locks in the database.";

/// The descriptions of arguments that several commands have.
const KEY: &str = "The lock, which is a string key.";
const TOKEN: &str = "The token that the lock was acquired with.";
const BLOCK: &str = "For how many milliseconds to stay queued, at most; 0 for no limit. Not at all without it.";
const META: &str = "What the lock is for, shown by LOCK.INFO.";
const CONVERT: &str = "Changes the mode of a lock that is held with the token, in one step: with SHARED from exclusive to \
shared, without it from shared to exclusive. Null if the token does not hold the lock.";
const REPLICAS: &str = "How many replicas must have the lock before the reply. If they do not acknowledge it within the \
timeout of BLOCK, without BLOCK within a second, the lock is released, and the reply is null.";

#[rustfmt::skip] // every row has its name, its arguments and its docs on lines of their own
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("LOCK.ACQUIRE", acquire::acquire, WRITE | DENY_OOM | BLOCKING, Group::Lock)
        .effect(Effect::Values)
        .args(&[
            key("key", RW | ACCESS | UPDATE).about(KEY),
            string("token").about("Says whose the lock is: a text of the holder's own, such as a random one."),
            integer("milliseconds").token("PX").optional().about("The TTL of the lock in milliseconds; needed without SESSION."),
            integer("timeout").token("BLOCK").optional().about(BLOCK),
            token("session", "SESSION").optional().about("Releases the lock when this connection closes, or by RESET."),
            token("notify", "NOTIFY").optional().about("Announces the loss of the lock."),
            string("text").token("META").optional().about(META),
            integer("numreplicas").token("REPLICAS").optional().about(REPLICAS),
            token("shared", "SHARED").optional().about("Holds the lock together with all others who do so."),
            block(
                "permits",
                &[
                    integer("permits").token("PERMITS").about("Takes this many permits of a semaphore."),
                    integer("size").token("OF").optional().about("How many there are; needed where there is no semaphore yet."),
                ],
            )
            .optional()
            .about("Holds the lock together with others, by permits of a semaphore."),
            token("convert", "CONVERT").optional().about(CONVERT),
        ])
        .docs("0.1.0", ACQUIRE_COST, "Acquires a lock, or queues for it, and returns its fencing token."),
    Command::new("LOCK.ACQUIREMULTI", acquire::acquire_several, WRITE | DENY_OOM | BLOCKING, Group::Lock)
        .effect(Effect::Values)
        .args(&[
            integer("numkeys").about("How many locks."),
            key("key", RW | ACCESS | UPDATE).multiple().about("The locks, which are string keys."),
            string("token").about("Says whose the locks are: a text of the holder's own, such as a random one."),
            integer("milliseconds").token("PX").optional().about("The TTL of the locks in milliseconds; needed without SESSION."),
            integer("timeout").token("BLOCK").optional().about(BLOCK),
            token("session", "SESSION").optional().about("Releases the locks when this connection closes, or by RESET."),
            token("notify", "NOTIFY").optional().about("Announces the loss of a lock."),
            string("text").token("META").optional().about(META),
        ])
        .docs("0.1.0", SEVERAL_COST, "Acquires several locks at once, or queues for all of them, and returns their fencing tokens."),
    Command::new("LOCK.RENEW", release::renew, WRITE | FAST, Group::Lock)
        .effect(Effect::Deadlines)
        .args(&[
            key("key", RW | ACCESS | UPDATE).about(KEY),
            string("token").about(TOKEN),
            integer("milliseconds").token("PX").about("The new TTL in milliseconds, from now on."),
        ])
        .docs("0.1.0", "O(1)", "Sets the TTL of a lock that is held with a token."),
    Command::new("LOCK.RELEASE", release::release, WRITE | FAST, Group::Lock)
        .effect(Effect::Values)
        .args(&[key("key", RW | ACCESS | DELETE).about(KEY), string("token").about(TOKEN)])
        .docs("0.1.0", "O(1)", "Releases a lock that is held with a token: the first client in the queue gets it."),
    Command::new("LOCK.FENCE", release::fence, WRITE | FAST, Group::Lock)
        .effect(Effect::Values)
        .args(&[key("key", RO | ACCESS).about(KEY), string("token").about(TOKEN)])
        .docs("0.1.0", "O(1)", "Returns the fencing token of a lock that is held with a token."),
    Command::new("LOCK.RESIZE", release::resize, WRITE | FAST, Group::Lock)
        .effect(Effect::Values)
        .args(&[
            key("key", RW | ACCESS | UPDATE).about("The semaphore, which is a string key."),
            integer("size").about("How many permits it has from now on; those that are taken stay so."),
        ])
        .docs("0.1.0", "O(1)", "Sets how many permits a semaphore has."),
    Command::new("LOCK.RESUME", resume::resume, WRITE, Group::Lock)
        .effect(Effect::Given)
        .marks(RESUMES_LOCKS)
        .args(&[string("token").about(TOKEN)])
        .docs("0.1.0", RESUME_COST, "Takes over the locks that are held with a token, and returns their keys."),
];
