//! SLOWLOG: the latest slow calls. The conditions and the form of recording are decided in `observe::slow_log`.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::observe::slow_log::SlowLogEntry;
use crate::resp::{Reply, parse_int};
use crate::spec::{ADMIN, Flags, Group, LOADING, STALE, integer};

const FLAGS: Flags = ADMIN | LOADING | STALE;

/// The number of entries shown by default.
const SHOWN: usize = 10;

pub(crate) const COMMANDS: &[Command] = &[Command::container(
    "SLOWLOG",
    Group::Server,
    &[
        Command::new("GET", get, FLAGS, Group::Server)
            .args(&[integer("count").optional()])
            .tips(&["request_policy:all_nodes", "nondeterministic_output"])
            .docs(
                "2.2.12",
                "O(N) where N is the number of entries returned",
                "Returns the latest entries of the slow log.",
            ),
        Command::new("LEN", len, FLAGS, Group::Server)
            .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
            .docs("2.2.12", "O(1)", "Returns the number of entries in the slow log."),
        Command::new("RESET", reset, FLAGS, Group::Server)
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .docs(
                "2.2.12",
                "O(N) where N is the number of entries in the slowlog",
                "Deletes all entries of the slow log.",
            ),
    ],
)
.help_since("6.2.0")
.docs("2.2.12", "Depends on subcommand.", "Contains the slow log subcommands.")];

fn get(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() > 1 {
        return Err(Error::SubcommandSyntax(call.args.request().arg(1).to_vec(), "SLOWLOG"));
    }
    let count = match call.args.next_arg() {
        None => SHOWN,
        Some(word) => read_count(word)?,
    };
    let entries = call.namespace.observed.slow_log.latest(count, call.config.slowlog_max_len);
    call.reply.array(entries.len());
    for entry in entries {
        reply_entry(&mut call.reply, &entry);
    }
    Ok(())
}

/// Writes an entry of a log of calls.
pub(super) fn reply_entry(reply: &mut Reply<'_>, entry: &SlowLogEntry) {
    reply.array(6);
    reply.int(entry.id);
    reply.int(entry.unix_s);
    reply.int(entry.measure as i64);
    reply.array(entry.args.len());
    entry.args.iter().for_each(|word| reply.bulk(word));
    reply.bulk(entry.addr.as_bytes());
    reply.bulk(entry.name.as_bytes());
}

/// Reads a number of entries; -1 is all of them.
pub(super) fn read_count(word: &[u8]) -> Result<usize> {
    let count = parse_int(word).filter(|count| *count >= -1);
    let count = count.ok_or(Error::other("count should be greater than or equal to -1"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn len(call: &mut Call<'_>) -> Result<()> {
    call.reply.int(call.namespace.observed.slow_log.len(call.config.slowlog_max_len) as i64);
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    call.namespace.observed.slow_log.clear();
    call.reply.ok();
    Ok(())
}
