//! What asks for a file or for another server's data: SAVE, BGSAVE, BGREWRITEAOF, SYNC, PSYNC, REPLICAOF and FAILOVER.
//!
//! Data is kept in memory only, so each replies with an error that says so; only what changes nothing succeeds.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{
    ADMIN, Arg, Flags, Group, NO_ASYNC_LOADING, NO_MULTI, NO_SCRIPT, STALE, block, integer, one_of, string, token,
};

const FILES: Flags = ADMIN | NO_SCRIPT | NO_ASYNC_LOADING;
const REPLICAS: Flags = ADMIN | NO_SCRIPT | STALE;
const HOST_OR_NONE: &[Arg] = &[one_of(
    "args",
    &[
        block("host-port", &[string("host"), integer("port")]),
        block("no-one", &[token("no", "NO"), token("one", "ONE")]),
    ],
)];
const FAILOVER_ARGS: &[Arg] = &[
    block("target", &[string("host"), integer("port"), token("force", "FORCE").optional()]).token("TO").optional(),
    token("abort", "ABORT").optional(),
    integer("milliseconds").token("TIMEOUT").optional(),
];

/// Declares the commands of this file.
#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("BGREWRITEAOF", rewrite_log, FILES, Group::Server)
        .docs("1.0.0", "O(1)", "Always fails, because data is kept in memory only."),
    Command::new("BGSAVE", save_in_background, FILES, Group::Server)
        .args(&[token("schedule", "SCHEDULE").optional().since("3.2.2")])
        .docs("1.0.0", "O(1)", "Always fails, because data is kept in memory only."),
    Command::new("FAILOVER", fail_over, REPLICAS, Group::Server).args(FAILOVER_ARGS)
        .docs("6.2.0", "O(1)", "Always fails, because there are no replicas."),
    Command::new("PSYNC", synchronize, FILES | NO_MULTI, Group::Server)
        .args(&[string("replicationid"), integer("offset")]).arity(-3)
        .docs("2.8.0", "", "Always fails, because replication is not supported."),
    Command::new("REPLICAOF", replicate, REPLICAS | NO_ASYNC_LOADING, Group::Server).args(HOST_OR_NONE).arity(3)
        .docs("5.0.0", "O(1)", "Accepts NO ONE; replication is not supported."),
    Command::new("SAVE", save, FILES | NO_MULTI, Group::Server)
        .docs("1.0.0", "O(N) where N is the total number of keys in all databases", "Always fails, because data is kept in memory only."),
    Command::new("SLAVEOF", replicate, REPLICAS | NO_ASYNC_LOADING, Group::Server).args(HOST_OR_NONE).arity(3)
        .deprecated("5.0.0", "`REPLICAOF`")
        .docs("1.0.0", "O(1)", "Accepts NO ONE; replication is not supported."),
    Command::new("SYNC", synchronize, FILES | NO_MULTI, Group::Server)
        .docs("1.0.0", "", "Always fails, because replication is not supported."),
];

fn save(call: &mut Call<'_>) -> Result<()> {
    fail(&call.namespace.observed.stats.save_failed)
}

fn save_in_background(call: &mut Call<'_>) -> Result<()> {
    match (call.args.next_arg(), call.args.left()) {
        (None, _) => {}
        (Some(word), 0) if is_word(word, "SCHEDULE") => {}
        _ => return Err(Error::Syntax),
    }
    fail(&call.namespace.observed.stats.save_failed)
}

fn rewrite_log(call: &mut Call<'_>) -> Result<()> {
    fail(&call.namespace.observed.stats.rewrite_failed)
}

/// Records the failure for INFO.
fn fail(failed: &AtomicBool) -> Result<()> {
    failed.store(true, Relaxed);
    Err(Error::MemoryOnly)
}

fn synchronize(_: &mut Call<'_>) -> Result<()> {
    Err(Error::MemoryOnly)
}

fn replicate(call: &mut Call<'_>) -> Result<()> {
    let (host, port) = (call.args.bytes()?, call.args.bytes()?);
    if is_word(host, "NO") && is_word(port, "ONE") {
        call.reply.ok();
        return Ok(());
    }
    match parse_int(port) {
        Some(0..=65535) => Err(Error::MemoryOnly),
        _ => Err(Error::other("Invalid master port")),
    }
}

fn fail_over(call: &mut Call<'_>) -> Result<()> {
    let mut aborts = false;
    while let Some(word) = call.args.next_arg() {
        if is_word(word, "ABORT") {
            aborts = true;
        } else if is_word(word, "TO") {
            call.args.bytes()?;
            call.args.int()?;
        } else if is_word(word, "TIMEOUT") {
            call.args.int()?;
        } else if !is_word(word, "FORCE") {
            return Err(Error::Syntax);
        }
    }
    Err(Error::other(if aborts { "No failover in progress." } else { "FAILOVER requires connected replicas." }))
}
