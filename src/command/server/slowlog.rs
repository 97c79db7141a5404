//! SLOWLOG: the latest slow calls. The conditions and the form of recording are decided in `observe::slow_log`.

use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::{ADMIN, Flags, Group, LOADING, STALE, integer};

const FLAGS: Flags = ADMIN | LOADING | STALE;

/// The number of entries shown by default.
const SHOWN: i64 = 10;

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
        Some(word) => parse_int(word)
            .filter(|count| *count >= -1)
            .ok_or(Error::other("count should be greater than or equal to -1"))?,
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries = call.namespace.observed.slow_log.latest(count, call.config.slowlog_max_len);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.int(entry.id);
        call.reply.int(entry.unix_s);
        call.reply.int(entry.duration_us as i64);
        call.reply.array(entry.args.len());
        entry.args.iter().for_each(|word| call.reply.bulk(word));
        call.reply.bulk(entry.addr.as_bytes());
        call.reply.bulk(entry.name.as_bytes());
    }
    Ok(())
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
