//! Records of a call after it has returned: in the slow log, as a latency event, for MONITOR, and for clients that
//! track its keys.
//!
//! Calls are recorded only if the [`CallTimer`](crate::observe::CallTimer) asks for it; a fast call that is not
//! observed costs one comparison.

use crate::client::caller::Caller;
use crate::client::info::ClientInfo;
use crate::config::Config;
use crate::dispatch::{Call, Env};
use crate::namespace::Namespace;
use crate::observe::hot_keys::CallCost;
use crate::observe::latency::{COMMAND, FAST_COMMAND};
use crate::observe::{monitor, slow_log};
use crate::resp::{Mark, Request};
use crate::spec::{ADMIN, CommandSpec, FAST, Group, READ, SKIP_MONITOR, SKIP_SLOWLOG};

/// Records a call that has just ended, took `ns` nanoseconds, and has its reply behind `mark`.
#[cold]
pub(crate) fn record(call: &mut Call<'_>, ns: u64, mark: Mark) {
    // The present settings: the call may have changed them.
    let config = call.namespace.settings.current();
    let (flags, us) = (call.command.command.flags, ns / 1000);
    let is_blocked = call.caller.info.flags.is_blocked();
    if is_blocked || call.needs_whole_store {
        call.timer.take_back(call.command, ns);
        call.caller.commands -= 1;
    }
    if call.needs_whole_store {
        return; // it is recorded when it is made again
    }
    // A read-only script itself has read nothing; the reads of its commands are recorded when these end.
    if flags & READ != 0 && call.command.command.group != Group::Scripting {
        record_read(call);
    }
    let threshold_ms = config.latency_monitor_threshold;
    if threshold_ms != 0 && us / 1000 >= threshold_ms {
        let event = if flags & FAST != 0 { FAST_COMMAND } else { COMMAND };
        call.namespace.observed.latency.note(event, call.namespace.clock.wall_us().div_euclid(1_000_000), us / 1000);
    }
    if !is_blocked {
        let reply_len = call.reply.output().len_since(mark);
        record_in_logs(call.namespace, (call.command, call.args.request()), &call.caller.info, (us, reply_len));
        if call.namespace.observed.hot_keys.is_active() {
            note_keys(call, ns, reply_len);
        }
    }
    if flags & (SKIP_MONITOR | ADMIN) == 0 && !call.namespace.observed.monitors.is_empty() {
        show(call, &config);
    }
    call.timer.set_recording(record_from_ns(call.namespace, call.caller, &config), config.latency_tracking);
}

/// Returns the duration in nanoseconds from which a client's calls are recorded; 0 if the client tracks its reads.
pub(crate) fn record_from_ns(namespace: &Namespace, caller: &Caller, config: &Config) -> u64 {
    if caller.info.tracking.is_on() { 0 } else { namespace.observed.record_from_ns(config) }
}

/// Records, for client-side caching, that a call has read its keys, whose shards are still locked.
fn record_read(call: &mut Call<'_>) {
    let (command, request) = (call.command, call.args.request());
    if !call.caller.info.tracking.remembers() {
        return;
    }
    let mut keys = command.keys_of(request).map(|(position, _)| request.arg(position)).peekable();
    if keys.peek().is_some() {
        if let Some(staged) = &mut call.caller.staged {
            staged.read.extend(command.keys_of(request).map(|(position, _)| Box::from(request.arg(position))));
        }
        let max_keys = call.config.tracking_table_max_keys;
        call.namespace.push.tracking.remember(&call.caller.info, keys, max_keys, (call.config, call.now()));
    }
}

/// Counts the keys of a call whose keys are tracked by HOTKEYS. Those of transactions and scripts are counted with the
/// calls that they make.
#[cold]
fn note_keys(call: &Call<'_>, ns: u64, reply_len: u64) {
    let (command, request) = (call.command, call.args.request());
    if matches!(command.command.group, Group::Scripting | Group::Transactions) {
        return;
    }
    let cost = CallCost { ns, bytes: wire_len(request) + reply_len };
    let keys = command.keys_of(request).map(|(position, _)| request.arg(position));
    call.namespace.observed.hot_keys.note(keys, cost, call.now().wall_ms());
}

/// Counts a blocked call when it finishes, because it was served, has timed out, or was unblocked.
pub(super) fn count_unblocked(env: Env<'_>, call: (&CommandSpec, Request<'_>), client: &ClientInfo, ns: u64) {
    let tracks = env.namespace.settings.current().latency_tracking;
    env.timer.count_unblocked(call.0, ns, tracks);
    record_in_logs(env.namespace, call, client, (ns / 1000, 0));
}

/// Adds a call to the slow log, if it took long enough, and to the logs of large requests and replies.
fn record_in_logs(
    namespace: &Namespace,
    (command, request): (&CommandSpec, Request<'_>),
    client: &ClientInfo,
    (duration_us, reply_len): (u64, u64),
) {
    let (config, observed) = (namespace.settings.current(), &namespace.observed);
    if command.command.flags & SKIP_SLOWLOG != 0 {
        return;
    }
    let request_len = if config.commandlog_request_larger_than < 0 { 0 } else { wire_len(request) };
    for (log, measure, threshold, max_len) in [
        (&observed.slow_log, duration_us, config.slowlog_log_slower_than, config.slowlog_max_len),
        (
            &observed.large_requests,
            request_len,
            config.commandlog_request_larger_than,
            config.commandlog_large_request_max_len,
        ),
        (
            &observed.large_replies,
            reply_len,
            config.commandlog_reply_larger_than,
            config.commandlog_large_reply_max_len,
        ),
    ] {
        if u64::try_from(threshold).is_ok_and(|threshold| measure >= threshold) {
            let args = visible(command, request);
            let entry = slow_log::SlowLogEntry {
                id: 0,
                unix_s: namespace.clock.wall_us().div_euclid(1_000_000),
                measure,
                args: slow_log::clip(args.iter().copied()),
                addr: client.peer.addr.to_string(),
                name: client.names().name.into(),
            };
            log.push(entry, max_len);
        }
    }
}

/// Returns the number of bytes of a request, as an array of strings.
fn wire_len(request: Request<'_>) -> u64 {
    let header_len = |number: usize| "*\r\n".len() + itoa::Buffer::new().format(number).len();
    let words = request.args().map(|arg| header_len(arg.len()) + arg.len() + "\r\n".len());
    (header_len(request.len()) + words.sum::<usize>()) as u64
}

/// Shows a script's call to the monitors when it begins, before the calls that it makes. Other calls are shown when
/// they end.
#[cfg(feature = "lua")]
pub(crate) fn show_ahead(call: &mut Call<'_>) {
    if !call.namespace.observed.monitors.is_empty() {
        show(call, &call.namespace.settings.current());
    }
}

/// Shows the call to all monitors. The caller, if it is a monitor, gets the line between its replies.
fn show(call: &mut Call<'_>, config: &Config) {
    let args = visible(call.command, call.args.request());
    let client = call.caller.info.clone();
    let caller = if call.caller.is_in_script { "lua".into() } else { client.peer.shown_addr() };
    let line = monitor::line(call.namespace.clock.wall_us(), call.caller.db, &caller, args.into_iter());
    let monitors = &call.namespace.observed.monitors;
    monitors.show(&line, client.id, config, call.view.now());
    // The replies to a script's commands belong to the script; a client in MONITOR cannot run one.
    if monitors.has(client.id) && !call.caller.is_in_script {
        client.outbox.take_into(call.reply.output(), usize::MAX);
        call.reply.raw(&line);
    }
}

/// Returns the arguments of a call with its secrets redacted.
pub(crate) fn visible<'r>(command: &CommandSpec, request: Request<'r>) -> Vec<&'r [u8]> {
    let mut args: Vec<&[u8]> = request.args().collect();
    if let Some(redact) = command.command.redact {
        redact(&mut args);
    }
    args
}
