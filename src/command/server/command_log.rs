//! COMMANDLOG of Valkey: the slow log, and the logs of calls with large requests and replies.

use crate::command::server::slowlog::{read_count, reply_entry};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::observe::SlowLog;
use crate::spec::marks::ONLY_VALKEY;
use crate::spec::{ADMIN, Arg, Flags, Group, LOADING, STALE, integer, one_of, token};

const FLAGS: Flags = ADMIN | LOADING | STALE;

const TYPE: Arg = one_of(
    "type",
    &[token("slow", "SLOW"), token("large-request", "LARGE-REQUEST"), token("large-reply", "LARGE-REPLY")],
);

pub(crate) const COMMANDS: &[Command] = &[Command::container(
    "COMMANDLOG",
    Group::Server,
    &[
        Command::new("GET", get, FLAGS, Group::Server)
            .args(&[integer("count"), TYPE])
            .tips(&["request_policy:all_nodes", "nondeterministic_output"])
            .docs(
                "8.1.0",
                "O(N) where N is the number of entries returned",
                "Returns the latest entries of a log of calls; -1 for all.",
            ),
        Command::new("LEN", len, FLAGS, Group::Server)
            .args(&[TYPE])
            .tips(&["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"])
            .docs("8.1.0", "O(1)", "Returns the number of entries in a log of calls."),
        Command::new("RESET", reset, FLAGS, Group::Server)
            .args(&[TYPE])
            .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
            .docs(
                "8.1.0",
                "O(N) where N is the number of entries in the log",
                "Deletes all entries of a log of calls.",
            ),
    ],
)
.marks(ONLY_VALKEY)
.help_since("8.1.0")
.docs("8.1.0", "Depends on subcommand.", "Contains the subcommands about logs of calls.")];

/// Reads the type of a log; returns the log, and how many entries it may have.
fn read_log<'a>(call: &mut Call<'a>) -> Result<(&'a SlowLog, usize)> {
    let (word, observed, config) = (call.args.bytes()?, &call.namespace.observed, call.config);
    match word {
        _ if is_word(word, "SLOW") => Ok((&observed.slow_log, config.slowlog_max_len)),
        _ if is_word(word, "LARGE-REQUEST") => Ok((&observed.large_requests, config.commandlog_large_request_max_len)),
        _ if is_word(word, "LARGE-REPLY") => Ok((&observed.large_replies, config.commandlog_large_reply_max_len)),
        _ => Err(Error::other("type should be one of the following: slow, large-request, large-reply")),
    }
}

fn get(call: &mut Call<'_>) -> Result<()> {
    let count = read_count(call.args.bytes()?)?;
    let (log, max_len) = read_log(call)?;
    let entries = log.latest(count, max_len);
    call.reply.array(entries.len());
    entries.iter().for_each(|entry| reply_entry(&mut call.reply, entry));
    Ok(())
}

fn len(call: &mut Call<'_>) -> Result<()> {
    let (log, max_len) = read_log(call)?;
    call.reply.int(log.len(max_len) as i64);
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    read_log(call)?.0.clear();
    call.reply.ok();
    Ok(())
}
