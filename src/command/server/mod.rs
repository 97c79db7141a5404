//! Commands about the server as a whole: CONFIG, FLUSHALL, FLUSHDB, INFO, SHUTDOWN, TIME.

pub(crate) mod acl;
pub(crate) mod command_log;
pub(crate) mod debug;
mod drain;
pub(crate) mod help;
pub(crate) mod hot_keys;
pub(crate) mod info;
pub(crate) mod introspect;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod monitor;
pub(crate) mod persistence;
mod shutdown;
pub(crate) mod slowlog;

use tracing::{Level, debug, enabled, info, warn};

use crate::command::server::shutdown::Stopping;
use crate::config::{Requester, Setting, ShutdownOptions, rewrite_file};
use crate::dispatch::args::is_word;
use crate::dispatch::checks::busy;
use crate::dispatch::{Call, Command, post_call};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::namespace::shutdown::Shutdown;
use crate::spec::marks::{CHANGES_USERS, CLEARS, CONFIGURES, OF_NODE, OF_SENTINEL};
use crate::spec::{
    ADMIN, ALLOW_BUSY, Arg, EXCLUSIVE, FAST, Flags, Group, LOADING, NO_MULTI, NO_SCRIPT, OF_PROCESS, REDACTED, STALE,
    WRITE, block, integer, one_of, string, token,
};
use crate::store::{NEVER, Totals};
use crate::text::{quote, system_text};

const ADMINISTRATION: Flags = ADMIN | NO_SCRIPT | LOADING | STALE;
const FLUSH_TIPS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const FLUSH_ARGS: &[Arg] =
    &[one_of("async", &[token("async", "ASYNC").since("4.0.0"), token("sync", "SYNC").since("6.2.0")]).optional()];

pub(crate) const COMMANDS: &[Command] = &[
    Command::container(
        "CONFIG",
        Group::Server,
        &[
            Command::new("GET", config_get, ADMINISTRATION, Group::Server)
                .marks(CONFIGURES)
                .args(&[block("parameter", &[string("parameter")]).multiple()])
                .docs(
                    "2.0.0",
                    "O(N) when N is the number of configuration parameters provided",
                    "Returns the settings whose names match a pattern.",
                ),
            Command::new("REWRITE", config_rewrite, ADMINISTRATION | OF_PROCESS, Group::Server).marks(OF_NODE).docs(
                "2.8.0",
                "O(1)",
                "Writes the present settings into the config file.",
            ),
            Command::new("RESETSTAT", reset_statistics, ADMINISTRATION | EXCLUSIVE, Group::Server).docs(
                "2.0.0",
                "O(1)",
                "Resets the statistics of INFO.",
            ),
            Command::new("SET", config_set, ADMINISTRATION, Group::Server)
                .marks(CONFIGURES)
                .marks(CHANGES_USERS) // the password of the default user is a setting
                .args(&[block("parameter_value", &[string("parameter"), string("value")]).multiple()])
                .redact(redact_settings)
                .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
                .docs(
                    "2.0.0",
                    "O(N) when N is the number of configuration parameters provided",
                    "Changes settings atomically: all or none.",
                ),
        ],
    )
    .docs("2.0.0", "Depends on subcommand.", "Contains the configuration subcommands."),
    Command::new("FLUSHALL", flush_all, WRITE | EXCLUSIVE, Group::Server)
        .marks(CLEARS)
        .args(FLUSH_ARGS)
        .categories(&["keyspace", "dangerous"])
        .tips(FLUSH_TIPS)
        .docs(
            "1.0.0",
            "O(N) where N is the total number of keys in all databases",
            "Deletes all keys of all databases.",
        ),
    Command::new("FLUSHDB", flush_db, WRITE | EXCLUSIVE, Group::Server)
        .marks(CLEARS)
        .args(FLUSH_ARGS)
        .categories(&["keyspace", "dangerous"])
        .tips(FLUSH_TIPS)
        .docs(
            "1.0.0",
            "O(N) where N is the number of keys in the selected database",
            "Deletes all keys of the selected database.",
        ),
    Command::new("INFO", info_command, LOADING | STALE | EXCLUSIVE, Group::Server)
        .marks(OF_SENTINEL)
        .args(&[string("section").optional().multiple()])
        .categories(&["dangerous"])
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .docs("1.0.0", "O(1)", "Returns the state and the statistics of the server, by section."),
    Command::new("SHUTDOWN", shutdown, ADMINISTRATION | NO_MULTI | ALLOW_BUSY | OF_PROCESS, Group::Server)
        .marks(OF_SENTINEL)
        .args(&[
            one_of("nosave_save", &[token("nosave", "NOSAVE"), token("save", "SAVE")]).optional(),
            token("now", "NOW").optional().since("7.0.0"),
            token("force", "FORCE").optional().since("7.0.0"),
            token("abort", "ABORT").optional().since("7.0.0"),
            block("drain", &[string("address").token("DRAIN"), integer("seconds").optional()])
                .optional()
                .since("0.2.0"),
        ])
        .docs(
            "1.0.0",
            "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
            "Shuts down the server, with save points after a snapshot.",
        ),
    Command::new("TIME", time, LOADING | STALE | FAST, Group::Server).tips(&["nondeterministic_output"]).docs(
        "2.6.0",
        "O(1)",
        "Returns the server's wall-clock time.",
    ),
];

fn time(call: &mut Call<'_>) -> Result<()> {
    let now_us = call.namespace.clock.wall_us();
    let us = if call.is_nested() { *call.caller.frozen_us.get_or_insert(now_us) } else { now_us };
    call.reply.array(2);
    call.reply.bulk(us.div_euclid(1_000_000).to_string().as_bytes());
    call.reply.bulk(us.rem_euclid(1_000_000).to_string().as_bytes());
    Ok(())
}

/// Handles SHUTDOWN, with a reply only to failures: when the server stops, the connection closes.
fn shutdown(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() > 0 && is_word(call.args.request().arg(1), "DRAIN") {
        call.args.next_arg();
        return drain::begin(call);
    }
    let (mut options, mut abort) = (ShutdownOptions::default(), false);
    while let Some(word) = call.args.next_arg() {
        let chosen = [
            ("NOSAVE", &mut options.nosave),
            ("SAVE", &mut options.save),
            ("NOW", &mut options.now),
            ("FORCE", &mut options.force),
            ("ABORT", &mut abort),
        ]
        .into_iter()
        .find(|(name, _)| is_word(word, name));
        *chosen.ok_or(Error::Syntax)?.1 = true;
    }
    if abort && options != ShutdownOptions::default() || options.nosave && options.save {
        return Err(Error::Syntax);
    }
    if abort {
        return if call.namespace.abort_shutdown() {
            info!("Shutdown manually aborted.");
            accepted(call)
        } else {
            Err(Error::other("No shutdown in progress."))
        };
    }
    // A running script would be aborted half-way, which needs NOSAVE.
    if !options.nosave && call.namespace.store.busy_flag().is_occupied() {
        return Err(busy(call.namespace));
    }
    match call.namespace.shut_down(options) {
        Shutdown::Refused => return Err(shutdown::failed()),
        Shutdown::Waiting(goes_on) => {
            let stopping = Stopping::new(goes_on, &call.namespace.clients, &call.caller.info);
            return call.continue_with(stopping);
        }
        // No further request of the batch is executed, and the connection closes when the ports are closed.
        Shutdown::Begun => call.wait_until(NEVER, |_| {}),
    }
    Ok(())
}

fn accepted(call: &mut Call<'_>) -> Result<()> {
    call.reply.ok();
    Ok(())
}

fn flush_all(call: &mut Call<'_>) -> Result<()> {
    flush(call, true)
}

fn flush_db(call: &mut Call<'_>) -> Result<()> {
    flush(call, false)
}

/// Deletes keys. SYNC and ASYNC have the same effect: the keys are gone at once, their memory is freed in the
/// background.
fn flush(call: &mut Call<'_>, all_databases: bool) -> Result<()> {
    match (call.args.next_arg(), call.args.left()) {
        (None, _) => {}
        (Some(word), 0) if is_word(word, "SYNC") || is_word(word, "ASYNC") => {}
        _ => return Err(Error::Syntax),
    }
    call.view.clear(all_databases);
    if all_databases {
        return persistence::save_nothing(call);
    }
    call.reply.ok();
    Ok(())
}

fn info_command(call: &mut Call<'_>) -> Result<()> {
    let sections: Vec<_> = call.args.request().args().skip(1).map(<[u8]>::to_ascii_lowercase).collect();
    let text = info::text(call, &sections);
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Resets the statistics. The slow log and latency events have their own commands for that.
fn reset_statistics(call: &mut Call<'_>) -> Result<()> {
    let (namespace, now) = (call.namespace, call.now());
    let mut totals = Totals::default();
    call.view.used_databases().into_iter().for_each(|db| totals += call.view.in_db(db, |view| view.totals()));
    namespace.observed.clear(&namespace.clients, &totals, now.mono_ms());
    namespace.store.reclaimer().reset_freed();
    namespace.persistence.reset_statistics();
    call.reply.ok();
    Ok(())
}

fn config_get(call: &mut Call<'_>) -> Result<()> {
    let patterns: Vec<_> = call.args.request().args().skip(2).collect();
    let found = call.namespace.settings.current().get(&patterns);
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(&value);
    }
    Ok(())
}

/// Error text of CONFIG REWRITE.
const NO_CONFIG_FILE: &str = "The server is running without a config file";

/// Sentinels ask for it in the transaction by which they change the role of a server: a node of a topology answers as a server
/// without a file.
fn config_rewrite(call: &mut Call<'_>) -> Result<()> {
    if call.namespace.member().is_some() {
        return Err(Error::other(NO_CONFIG_FILE));
    }
    rewrite_config(call, false)
}

/// Writes the settings into the config file: those that it names and those that differ from their defaults, or `all`.
pub(crate) fn rewrite_config(call: &mut Call<'_>, all: bool) -> Result<()> {
    let missing = || Error::other(NO_CONFIG_FILE);
    let path = call.namespace.instance.config_file.as_deref().ok_or_else(missing)?;
    let config = call.namespace.settings.current();
    // Users in an ACL file are not written to the config file as well.
    let users = if config.aclfile.is_some() { Vec::new() } else { call.namespace.acl.users() };
    match rewrite_file(&config, users.iter().map(|user| user.line()).collect(), path, all) {
        Ok(()) => {
            warn!("CONFIG REWRITE executed with success.");
            call.reply.ok();
            Ok(())
        }
        Err(cause) => {
            warn!(%cause, "CONFIG REWRITE failed");
            Err(Error::other(format!("Rewriting config file: {}", system_text(&cause))))
        }
    }
}

/// Logs the changed settings with client and new values, except secrets.
fn log_change(call: &Call<'_>) {
    if enabled!(Level::DEBUG) {
        let words = post_call::visible(call.command, call.args.request());
        let pairs = words[2..].chunks_exact(2);
        let shown: Vec<_> = pairs.map(|pair| format!("{} {}", pair[0].escape_ascii(), quote(pair[1]))).collect();
        debug!("CONFIG SET by {}: {}", call.caller.info.peer.addr, shown.join(", "));
    }
}

fn config_set(call: &mut Call<'_>) -> Result<()> {
    let words: Vec<_> = call.args.request().args().skip(2).collect();
    if words.len() % 2 != 0 {
        return Err(Error::Syntax);
    }
    let pairs: Vec<_> = words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    let is_private = call.namespace.tenant.is_private();
    let by = Requester { is_local: call.caller.info.peer.is_local(), is_private };
    let is_fixed = |name: &[u8]| Setting::find(name).is_some_and(|(_, setting)| setting.fixed_in_loading);
    if call.namespace.restrictions.is_loading_anything() && pairs.iter().any(|(name, _)| is_fixed(name)) {
        return Err(Error::Loading);
    }
    let changed = call.namespace.settings.update(|config| config.set(&pairs, by));
    changed.map_err(|error| Error::Config(error.to_string()))?;
    log_change(call);
    if !is_private {
        call.namespace.acl.follow_requirepass(call.namespace.settings.current().requirepass.as_deref());
    }
    call.namespace.follow_settings();
    warn_of_small_memory(call.namespace, &words);
    call.caller.follow_users(&call.namespace.acl);
    call.update_recording();
    call.reply.ok();
    Ok(())
}

/// Warns of a memory limit below the present usage.
fn warn_of_small_memory(namespace: &Namespace, changed: &[&[u8]]) {
    let (limit, used) = (namespace.settings.current().maxmemory, namespace.store.memory_account().used());
    if limit != 0 && limit < used as u64 && changed.iter().step_by(2).any(|name| is_word(name, "maxmemory")) {
        warn!("maxmemory is now {limit} bytes, less than the {used} that are used: keys are evicted, or writes fail");
    }
}

/// Redacts the values of settings that are secrets.
fn redact_settings(args: &mut [&[u8]]) {
    for pair in args[2..].chunks_exact_mut(2) {
        if Setting::find(pair[0]).is_some_and(|(_, setting)| setting.secret) {
            pair[1] = REDACTED;
        }
    }
}
