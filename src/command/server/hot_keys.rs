//! HOTKEYS: a session that finds the keys which cost most. They are counted in `observe::hot_keys`.

use crate::command::server::info::cpu_seconds;
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call, Command};
use crate::error::{Error, Result};
use crate::observe::hot_keys::{HotKeyOptions, HotKeySession};
use crate::resp::{Reply, parse_int};
use crate::spec::{ADMIN, Flags, Group, NO_SCRIPT, block, integer, token};

const FLAGS: Flags = ADMIN | NO_SCRIPT;

/// The number of keys shown by default, and at most.
const SHOWN: usize = 10;
const SHOWN_MAX: i64 = 64;

pub(crate) const COMMANDS: &[Command] = &[Command::container(
    "HOTKEYS",
    Group::Server,
    &[
        Command::new("GET", get, FLAGS, Group::Server).docs(
            "8.6.0",
            "O(K) where K is the number of hotkeys returned.",
            "Returns the keys that have cost most, and totals.",
        ),
        Command::new("RESET", reset, FLAGS, Group::Server).docs("8.6.0", "O(1)", "Forgets a session that has ended."),
        Command::new("START", start, FLAGS, Group::Server)
            .arity(-2)
            .args(&[
                block("metrics", &[integer("count"), token("cpu", "CPU").optional(), token("net", "NET").optional()])
                    .token("METRICS"),
                integer("k").token("COUNT").optional(),
                integer("seconds").token("DURATION").optional(),
                integer("ratio").token("SAMPLE").optional(),
                block("slots", &[integer("count"), integer("slot").multiple()]).token("SLOTS").optional(),
            ])
            .docs("8.6.0", "O(1)", "Begins to track the keys that cost most."),
        Command::new("STOP", stop, FLAGS, Group::Server).docs("8.6.0", "O(1)", "Ends a session, whose results stay."),
    ],
)
.help_since("8.6.0")
.docs("8.6.0", "Depends on subcommand.", "Contains the subcommands that track the keys which cost most.")];

/// Returns the seconds of the process in user mode and in the kernel.
fn process_seconds() -> [f64; 2] {
    let [user, kernel, ..] = cpu_seconds("/proc/self/stat");
    [user, kernel]
}

fn start(call: &mut Call<'_>) -> Result<()> {
    let mut options = HotKeyOptions { cpu: false, net: false, count: SHOWN, sample_ratio: 1, duration_ms: None };
    let mut has_metrics = false;
    while let Some(word) = call.args.next_arg() {
        let left = call.args.left();
        if left > 0 && !has_metrics && is_word(word, "METRICS") {
            has_metrics = true;
            read_metrics(&mut call.args, &mut options)?;
        } else if left > 0 && is_word(word, "COUNT") {
            let count = parse_int(call.args.bytes()?).filter(|count| (1..=SHOWN_MAX).contains(count));
            options.count = count.ok_or(Error::other("COUNT must be between 1 and 64"))? as usize;
        } else if left > 0 && is_word(word, "DURATION") {
            let seconds = parse_int(call.args.bytes()?).filter(|seconds| *seconds >= 0);
            let seconds = seconds.ok_or(Error::other("DURATION must be a positive integer"))?;
            options.duration_ms = Some(seconds.saturating_mul(1000)).filter(|ms| *ms > 0);
        } else if left > 0 && is_word(word, "SAMPLE") {
            options.sample_ratio = call.args.positive("SAMPLE ratio must be positive")? as u64;
        } else if left > 0 && is_word(word, "SLOTS") {
            let is_in_cluster = call.namespace.restrictions.is_in_cluster();
            let refusal = "SLOTS is not possible: the keys of all slots are tracked";
            return Err(Error::other(if is_in_cluster {
                refusal
            } else {
                "SLOTS parameter cannot be used in non-cluster mode"
            }));
        } else {
            return Err(Error::Syntax);
        }
    }
    if !has_metrics {
        return Err(Error::other("METRICS parameter is required"));
    }
    let namespace = call.namespace;
    if !namespace.observed.hot_keys.start(options, call.now().wall_ms(), process_seconds()) {
        return Err(Error::other("hotkey tracking session already in progress"));
    }
    namespace.store.renew_generation(); // a batch checks only once if calls are recorded
    call.update_recording();
    call.reply.ok();
    Ok(())
}

/// Reads the number of metrics and their names, of which one has to be known.
fn read_metrics(args: &mut Args<'_>, options: &mut HotKeyOptions) -> Result<()> {
    let count = args.positive("METRICS count must be positive")?;
    if count > args.left() {
        return Err(Error::other("METRICS count does not match number of metric types provided"));
    }
    for _ in 0..count {
        let word = args.bytes()?;
        for (name, is_set, twice) in [
            ("CPU", &mut options.cpu, "METRICS CPU defined more than once"),
            ("NET", &mut options.net, "METRICS NET defined more than once"),
        ] {
            if is_word(word, name) && std::mem::replace(is_set, true) {
                return Err(Error::other(twice));
            }
        }
    }
    if options.cpu || options.net { Ok(()) } else { Err(Error::other("METRICS no valid metrics passed")) }
}

fn stop(call: &mut Call<'_>) -> Result<()> {
    if !call.namespace.observed.hot_keys.stop(call.now().wall_ms(), process_seconds()) {
        return Err(Error::other("no hotkey tracking session in progress"));
    }
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Result<()> {
    if !call.namespace.observed.hot_keys.reset(call.now().wall_ms()) {
        return Err(Error::other("hotkey tracking session in progress, stop tracking first"));
    }
    call.reply.ok();
    Ok(())
}

fn get(call: &mut Call<'_>) -> Result<()> {
    let (now_ms, reply) = (call.now().wall_ms(), &mut call.reply);
    let hot_keys = &call.namespace.observed.hot_keys;
    if hot_keys.read(now_ms, process_seconds(), |session| report(reply, session, now_ms)).is_none() {
        reply.null_array();
    }
    Ok(())
}

fn report(reply: &mut Reply<'_>, session: &HotKeySession, now_ms: i64) {
    let HotKeyOptions { cpu, net, sample_ratio, .. } = session.options;
    let number = |reply: &mut Reply<'_>, name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.int(number);
    };
    let keys = |reply: &mut Reply<'_>, name: &str, keys: Vec<(&[u8], u64)>, unit: u64| {
        reply.bulk(name.as_bytes());
        reply.array(2 * keys.len());
        for (key, count) in keys {
            reply.bulk(key);
            reply.int((count / unit) as i64);
        }
    };
    reply.array(1);
    reply.map(7 + 3 * usize::from(cpu) + 2 * usize::from(net));
    number(reply, "tracking-active", i64::from(session.is_active()));
    number(reply, "sample-ratio", sample_ratio as i64);
    reply.bulk(b"selected-slots");
    reply.array(0);
    number(reply, "all-commands-all-slots-us", (session.total_ns / 1000) as i64);
    number(reply, "net-bytes-all-commands-all-slots", session.total_bytes as i64);
    number(reply, "collection-start-time-unix-ms", session.started_ms);
    number(reply, "collection-duration-ms", session.duration_ms(now_ms));
    if cpu {
        let [user_ms, kernel_ms] = session.cpu_ms();
        number(reply, "total-cpu-time-user-ms", user_ms);
        number(reply, "total-cpu-time-sys-ms", kernel_ms);
    }
    if net {
        number(reply, "total-net-bytes", session.total_bytes as i64);
    }
    if cpu {
        keys(reply, "by-cpu-time-us", session.top_by_ns(), 1000);
    }
    if net {
        keys(reply, "by-net-bytes", session.top_by_bytes(), 1);
    }
}
