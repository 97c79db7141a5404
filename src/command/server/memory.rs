//! MEMORY: the memory usage of keys and of the server.
//!
//! The figures are those of the binary's allocator, jemalloc, whose size classes are known; a test compares them with
//! the allocator's statistics.

use crate::command::server::info::{MemoryReport, difference, ratio};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{Arg, EXCLUSIVE, Group, READ, RO, integer, key};

/// The arguments of MEMORY USAGE. Redis samples the elements of large collections; for a string the number has no
/// effect.
const USAGE: &[Arg] = &[key("key", RO), integer("count").token("SAMPLES").optional()];
const REPORT_TIPS: &[&str] = &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::container("MEMORY", Group::Server, &[
        Command::new("DOCTOR", doctor, EXCLUSIVE, Group::Server).tips(REPORT_TIPS)
            .docs("4.0.0", "O(1)", "Explains the memory usage in plain text."),
        Command::new("MALLOC-STATS", malloc_stats, 0, Group::Server).tips(REPORT_TIPS)
            .docs("4.0.0", "Depends on how much memory is allocated, could be slow", "Returns the allocator's statistics."),
        Command::new("PURGE", purge, 0, Group::Server)
            .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
            .docs("4.0.0", "Depends on how much memory is allocated, could be slow", "Makes the allocator return unused memory to the system."),
        Command::new("STATS", stats, EXCLUSIVE, Group::Server).tips(REPORT_TIPS)
            .docs("4.0.0", "O(1)", "Returns the memory usage by purpose."),
        Command::new("USAGE", usage, READ, Group::Server).args(USAGE)
            .docs("4.0.0", "O(N) where N is the number of samples.", "Returns the memory usage of a key in bytes."),
    ])
    .help_since("4.0.0")
    .docs("4.0.0", "Depends on subcommand.", "Contains the memory subcommands."),
];

fn usage(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    while let Some(word) = call.args.next_arg() {
        if !is_word(word, "SAMPLES") || call.args.left() == 0 || call.args.int()? < 0 {
            return Err(Error::Syntax);
        }
    }
    match call.view.memory(key) {
        Some(bytes) => call.reply.int(bytes as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Result<()> {
    const FIELDS: usize = 31;
    let report = MemoryReport::new(call);
    let (tables, scripts) = (table_overheads(call), call.namespace.script_usage());
    let all_tables = tables.iter().map(|(_, overhead)| overhead).sum();
    call.reply.map(FIELDS + tables.len());
    let reply = &mut call.reply;
    bytes(reply, "peak.allocated", report.peak);
    bytes(reply, "total.allocated", report.used);
    bytes(reply, "startup.allocated", report.startup);
    bytes(reply, "replication.backlog", report.backlog);
    bytes(reply, "clients.slaves", report.replicas);
    bytes(reply, "clients.normal", report.clients);
    bytes(reply, "cluster.links", 0);
    bytes(reply, "aof.buffer", 0);
    bytes(reply, "lua.caches", scripts.scripts_bytes);
    bytes(reply, "functions.caches", scripts.libraries_bytes);
    for (db, overhead) in tables {
        reply.bulk(format!("db.{db}").as_bytes());
        reply.map(2);
        bytes(reply, "overhead.hashtable.main", overhead);
        bytes(reply, "overhead.hashtable.expires", 0);
    }
    // Tables grow by a bucket at a time and are never rehashed.
    bytes(reply, "overhead.db.hashtable.lut", all_tables);
    bytes(reply, "overhead.db.hashtable.rehashing", 0);
    bytes(reply, "overhead.total", report.overhead());
    bytes(reply, "db.dict.rehashing.count", 0);
    bytes(reply, "keys.count", report.keys);
    bytes(reply, "keys.bytes-per-key", report.net().checked_div(report.keys).unwrap_or(0));
    bytes(reply, "dataset.bytes", report.dataset);
    share(reply, "dataset.percentage", ratio(report.dataset * 100, report.net()));
    share(reply, "peak.percentage", ratio(report.used * 100, report.peak));
    bytes(reply, "allocator.allocated", report.allocated);
    bytes(reply, "allocator.active", report.active);
    bytes(reply, "allocator.resident", report.resident);
    bytes(reply, "allocator.muzzy", report.muzzy);
    loss(reply, "allocator-fragmentation.ratio", "allocator-fragmentation.bytes", report.active, report.allocated);
    loss(reply, "allocator-rss.ratio", "allocator-rss.bytes", report.resident, report.active);
    loss(reply, "rss-overhead.ratio", "rss-overhead.bytes", report.rss, report.resident);
    loss(reply, "fragmentation", "fragmentation.bytes", report.rss, report.used);
    Ok(())
}

/// Returns the databases that have had keys, each with the memory of its tables.
fn table_overheads(call: &mut Call<'_>) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for db in call.view.used_databases() {
        call.view.in_db(db, |view| {
            if view.totals().changes > 0 {
                found.push((db, view.overhead()));
            }
        });
    }
    found
}

fn bytes(reply: &mut Reply<'_>, name: &str, value: usize) {
    reply.bulk(name.as_bytes());
    reply.int(value as i64);
}

fn share(reply: &mut Reply<'_>, name: &str, value: f64) {
    reply.bulk(name.as_bytes());
    reply.double(value);
}

/// Writes the ratio of a whole to its used part, and the difference in bytes.
fn loss(reply: &mut Reply<'_>, ratio_name: &str, bytes_name: &str, whole: usize, part: usize) {
    share(reply, ratio_name, ratio(whole, part));
    reply.bulk(bytes_name.as_bytes());
    reply.int(difference(whole, part));
}

/// The memory in bytes below which the ratios are meaningless.
const SMALL: usize = 5 << 20;
/// The loss in bytes up to which none is reported.
const NEGLIGIBLE: i64 = 10 << 20;

fn doctor(call: &mut Call<'_>) -> Result<()> {
    let report = MemoryReport::new(call);
    let is_lost = |whole, part, factor| ratio(whole, part) > factor && difference(whole, part) > NEGLIGIBLE;
    let mut text = String::new();
    if report.used < SMALL {
        text.push_str("Too little memory is in use for a diagnosis.\n");
    } else {
        let findings = [
            (
                ratio(report.peak, report.used) > 1.5,
                "Peak memory was more than 1.5 times the present usage; freed memory may take a while to return to the system.",
            ),
            (
                is_lost(report.active, report.allocated, 1.1),
                "The memory is fragmented: pages are partly empty because values of many sizes were deleted. New values reuse them.",
            ),
            (
                is_lost(report.resident, report.active, 1.1),
                "The allocator holds unused pages. MEMORY PURGE returns them to the system.",
            ),
            (
                is_lost(report.rss, report.resident, 1.1),
                "The process uses more memory than its allocator accounts for.",
            ),
        ];
        text.extend(findings.iter().filter(|(is_found, _)| *is_found).map(|(_, finding)| format!("- {finding}\n")));
        if text.is_empty() {
            text.push_str("No problem with the memory usage was found.\n");
        }
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

fn malloc_stats(call: &mut Call<'_>) -> Result<()> {
    match call.namespace.instance.allocator.map(|stats| (stats().report)()) {
        Some(report) => call.reply.verbatim("txt", report.as_bytes()),
        None => call.reply.bulk(b"Stats not supported for the current allocator"),
    }
    Ok(())
}

fn purge(call: &mut Call<'_>) -> Result<()> {
    let is_purged = call.namespace.instance.allocator.is_none_or(|stats| (stats().purge)());
    if !is_purged {
        return Err(Error::other("Error purging dirty pages"));
    }
    call.reply.ok();
    Ok(())
}
