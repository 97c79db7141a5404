//! EVAL, EVALSHA, their read-only forms, SCRIPT: Lua scripts.
//!
//! A script holds the whole store, so no other client sees an intermediate state, and its commands pass the checks like
//! those of EXEC (`Caller`).

pub(crate) mod function;

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use crate::dispatch::args::is_word;
use crate::dispatch::checks::ScriptLimits;
use crate::dispatch::plan::find;
use crate::dispatch::post_call::show_ahead;
use crate::dispatch::{Call, Command, unknown};
use crate::error::{Error, Result};
use crate::resp::{Kept, Output, Protocol, Reply, Request, RequestBuffer, parse_int};
use crate::script::{
    ALLOW_CROSS_SLOT_KEYS, ALLOW_OOM, COMPATIBLE, CallBuffers, CallReply, CompileReason, Evaluation, Host, NO_CLUSTER,
    NO_WRITES, Script, ScriptCall, ScriptOutcome, UNDECLARED_KEYS, Vm,
};
use crate::spec::marks::{ENSURES_SCRIPTS, ONLY_VALKEY, RUNS_DIGEST, RUNS_TEXT};
use crate::spec::{
    ACCESS, ALLOW_BUSY, Arg, CommandSpec, EXCLUSIVE, Flags, Group, MAY_REPLICATE, MOVABLE_KEYS, NO_MANDATORY_KEYS,
    NO_SCRIPT, READ, RO, RW, SKIP_MONITOR, STALE, UPDATE, WRITE, integer, key, one_of, string, token,
};

/// The flags common to commands that run scripts.
pub(crate) const RUNS: Flags = NO_SCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLE_KEYS | EXCLUSIVE;
const ANY_USE: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const ANY_READ: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";
const NO_MEMORY: &str = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";
const COST: &str = "Depends on the script that is executed.";

/// Declares the arguments of a command that runs a script.
pub(crate) const fn run_args(script: &'static str, is_read_only: bool, with_notes: bool) -> [Arg; 4] {
    let keys = key("key", if is_read_only { RO | ACCESS } else { RW | ACCESS | UPDATE }).optional().multiple();
    let keys = match (with_notes, is_read_only) {
        (false, _) => keys,
        (true, false) => keys.key_notes(ANY_USE),
        (true, true) => keys.key_notes(ANY_READ),
    };
    [string(script), integer("numkeys"), keys, string("arg").optional().multiple()]
}

pub(crate) const COMMANDS: &[Command] = &[
    Command::new("EVAL", eval, RUNS | MAY_REPLICATE, Group::Scripting)
        .marks(RUNS_TEXT)
        .args(&run_args("script", false, true))
        .docs("2.6.0", COST, "Executes a script."),
    Command::new("EVALSHA", eval_sha, RUNS | MAY_REPLICATE, Group::Scripting)
        .marks(RUNS_DIGEST)
        .args(&run_args("sha1", false, false))
        .docs("2.6.0", COST, "Executes a cached script by its SHA1 digest."),
    Command::new("EVAL_RO", eval_ro, RUNS | READ, Group::Scripting)
        .marks(RUNS_TEXT)
        .args(&run_args("script", true, true))
        .docs("7.0.0", COST, "Executes a read-only script."),
    Command::new("EVALSHA_RO", eval_sha_ro, RUNS | READ, Group::Scripting)
        .marks(RUNS_DIGEST)
        .args(&run_args("sha1", true, false))
        .docs("7.0.0", COST, "Executes a cached read-only script by its SHA1 digest."),
    Command::container("SCRIPT", Group::Scripting, SUBCOMMANDS).docs(
        "2.6.0",
        "Depends on subcommand.",
        "Contains the script cache subcommands.",
    ),
];

const SUBCOMMANDS: &[Command] = &[
    Command::new("DEBUG", debug, NO_SCRIPT, Group::Scripting)
        .args(&[one_of("mode", &[token("yes", "YES"), token("sync", "SYNC"), token("no", "NO")])])
        .docs("3.2.0", "O(1)", "Only NO is accepted, because the script debugger is not supported."),
    Command::new("EXISTS", exists, NO_SCRIPT, Group::Scripting)
        .marks(ENSURES_SCRIPTS)
        .args(&[string("sha1").multiple()])
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"])
        .docs(
            "2.6.0",
            "O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).",
            "Checks which scripts are in the cache.",
        ),
    Command::new("FLUSH", flush, NO_SCRIPT, Group::Scripting)
        .args(&[one_of("async", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional().since("6.2.0")])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .docs("2.6.0", "O(N) with N being the number of scripts in cache", "Removes all scripts from the cache."),
    Command::new("KILL", kill, NO_SCRIPT | ALLOW_BUSY, Group::Scripting)
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .docs("2.6.0", "O(1)", "Kills the running script."),
    Command::new("LOAD", load, NO_SCRIPT | STALE, Group::Scripting)
        .marks(ENSURES_SCRIPTS)
        .args(&[string("script")])
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"])
        .docs(
            "2.6.0",
            "O(N) with N being the length in bytes of the script body.",
            "Compiles a script and adds it to the cache for EVALSHA.",
        ),
    Command::new("SHOW", show, NO_SCRIPT, Group::Scripting).args(&[string("sha1")]).marks(ONLY_VALKEY).docs(
        "8.0.0",
        "O(1)",
        "Returns the text of a cached script.",
    ),
];

fn eval(call: &mut Call<'_>) -> Result<()> {
    run_text(call, false)
}

fn eval_ro(call: &mut Call<'_>) -> Result<()> {
    run_text(call, true)
}

fn eval_sha(call: &mut Call<'_>) -> Result<()> {
    run_sha(call, false)
}

fn eval_sha_ro(call: &mut Call<'_>) -> Result<()> {
    run_sha(call, true)
}

fn run_text(call: &mut Call<'_>, is_read_only: bool) -> Result<()> {
    show_ahead(call);
    let text = call.args.bytes()?;
    let keys = key_count(call, || Error::NotInteger)?;
    let scripts = &call.namespace.scripts;
    let mut engines = scripts.engines();
    let Evaluation { vm, cache, buffers } = engines.evaluation(&scripts.control);
    let script = cache.load(vm, text, CompileReason::Eval).map_err(script_error)?;
    call.namespace.observed.stats.evicted_scripts.fetch_add(cache.take_evicted(), Relaxed);
    run(call, vm, ScriptRun::script(&script, keys, is_read_only), buffers)
}

fn run_sha(call: &mut Call<'_>, is_read_only: bool) -> Result<()> {
    show_ahead(call);
    let sha = call.args.bytes()?;
    if sha.len() != 40 {
        return Err(Error::NoScript);
    }
    let keys = key_count(call, || Error::NotInteger)?;
    let scripts = &call.namespace.scripts;
    let mut engines = scripts.engines();
    let Evaluation { vm, cache, buffers } = engines.evaluation(&scripts.control);
    let script = cache.find_to_run(sha).ok_or(Error::NoScript)?;
    run(call, vm, ScriptRun::script(script, keys, is_read_only), buffers)
}

/// Builds an error reply from the interpreter's message, which lacks the code.
pub(crate) fn script_error(complaint: Vec<u8>) -> Error {
    Error::Script([b"ERR ", &complaint[..]].concat())
}

/// Parses the number of keys among the following arguments.
pub(crate) fn key_count(call: &mut Call<'_>, not_a_number: fn() -> Error) -> Result<usize> {
    let count = parse_int(call.args.bytes()?).ok_or_else(not_a_number)?;
    match usize::try_from(count) {
        Ok(count) if count <= call.args.left() => Ok(count),
        Ok(_) => Err(Error::other("Number of keys can't be greater than number of args")),
        Err(_) => Err(Error::other("Number of keys can't be negative")),
    }
}

/// A script or function to run.
pub(crate) struct ScriptRun<'r> {
    /// The SHA1 of a script, or a function's name.
    pub(crate) name: &'r str,
    /// The number in the interpreter.
    pub(crate) number: usize,
    /// The flags that the script or library declares.
    pub(crate) flags: crate::script::ScriptFlags,
    /// The number of keys passed.
    pub(crate) keys: usize,
    /// True if the call comes from a read-only command.
    pub(crate) is_read_only: bool,
}

impl<'r> ScriptRun<'r> {
    fn script(script: &'r Script, keys: usize, is_read_only: bool) -> Self {
        let Script { name, number, flags, .. } = script;
        ScriptRun { name, number: *number, flags: *flags, keys, is_read_only }
    }
}

/// Runs a script or function for the caller, and writes its reply.
pub(crate) fn run(call: &mut Call<'_>, vm: &mut Vm, run: ScriptRun<'_>, buffers: &mut CallBuffers) -> Result<()> {
    let may_write = run.flags & NO_WRITES == 0;
    if run.flags & (COMPATIBLE | NO_CLUSTER) == NO_CLUSTER {
        call.require_standalone("Can not run script on cluster, 'no-cluster' flag is set.")?;
    }
    if run.flags & COMPATIBLE == 0 && may_write && run.is_read_only {
        return Err(Error::other("Can not execute a script with write flag using *_ro command."));
    }
    let is_short = call.caller.is_short_of_memory && call.namespace.store.memory_account().has_limit();
    if is_short && run.flags & (COMPATIBLE | NO_WRITES | ALLOW_OOM) == 0 {
        return Err(Error::Script(NO_MEMORY.into()));
    }
    let lacks_memory = is_short && run.flags & ALLOW_OOM == 0;
    let (db, protocol) = (call.caller.db, call.caller.protocol);
    call.caller.protocol = Protocol::Resp2;
    let invocation = ScriptCall {
        request: call.args.request(),
        keys: run.keys,
        now_ms: call.now().mono_ms(),
        threshold_ms: call.config.busy_reply_threshold_ms,
    };
    let is_read_only = run.is_read_only || !may_write;
    let crosses_slots = run.flags & (COMPATIBLE | ALLOW_CROSS_SLOT_KEYS) != 0;
    let takes_any_key = run.flags & UNDECLARED_KEYS != 0;
    let limits =
        ScriptLimits { is_read_only, lacks_memory, crosses_slots, presence: (0, 0), takes_any_key, undeclared: None };
    let mut caller = ScriptCaller { call, buffers, name: run.name, limits };
    if caller.call.caller.has_called(caller.call.command) {
        caller.call.caller.frozen_us = None;
    }
    caller.call.caller.is_in_script = true;
    let executed = vm.run(run.number, invocation, &mut caller);
    let call = &mut *caller.call;
    call.caller.is_in_script = false;
    call.caller.is_half_done |= call.namespace.scripts.control.is_half_done();
    call.caller.withhold_effects(false);
    let chosen = std::mem::replace(&mut call.caller.protocol, protocol);
    if call.caller.db != db {
        call.caller.select(db);
    }
    // The output is separate while the reply is written to it, because the script owns the call until then.
    let protocol = call.reply.protocol();
    let mut output = std::mem::take(call.reply.output());
    let outcome = vm.finish(executed, chosen, &mut caller, &mut Reply::new(&mut output, protocol));
    *caller.call.reply.output() = output;
    let call = caller.call;
    match outcome {
        ScriptOutcome::Replied => Ok(()),
        ScriptOutcome::ErrorReplied(line) => {
            if let Some(line) = &line {
                call.namespace.observed.errors.count_made_up(line);
            }
            call.timer.fail(call.command);
            Ok(())
        }
        ScriptOutcome::Failed(line) => Err(Error::Script(line)),
    }
}

/// The host of a script: calls commands on behalf of the client that runs it.
struct ScriptCaller<'c, 'a> {
    call: &'c mut Call<'a>,
    buffers: &'c mut CallBuffers,
    name: &'c str,
    limits: ScriptLimits,
}

impl ScriptCaller<'_, '_> {
    /// Checks that this script may call a command.
    fn admit(&mut self, command: Option<&'static CommandSpec>) -> Result<&'static CommandSpec> {
        let (Some(command), Some(request)) = (command, self.buffers.args.as_request()) else {
            let unknown = ("Unknown Redis command called from script", "Unknown command called from script");
            return Err(Error::other(self.call.config.dialect().choose(unknown.0, unknown.1)));
        };
        self.call.check_for_script(command, request, self.limits)?;
        if command.flags & WRITE != 0 {
            self.limits.lacks_memory = false; // a script that has written may continue to write
            self.call.namespace.scripts.control.record_write();
        }
        Ok(command)
    }

    /// Counts an error that a script gets instead of a reply; returns its text, with a dash if it has a code of its
    /// own.
    #[cold]
    fn refuse(&self, error: &Error) -> Cow<'static, str> {
        let Call { namespace, config, caller, .. } = &*self.call;
        let line = error.wire_text();
        namespace.observed.errors.count(&line);
        if let Some(request) = self.buffers.args.as_request() {
            match find(request, namespace.names(config)) {
                Some(command) => namespace.observed.command_stats.reject(command),
                None => unknown::note(namespace, namespace.names(config), request, &caller.info.peer.addr),
            }
        }
        let line = String::from_utf8_lossy(&line);
        line.strip_prefix("ERR ").map_or_else(|| format!("-{line}"), str::to_owned).into()
    }
}

impl Host for ScriptCaller<'_, '_> {
    fn args(&mut self) -> &mut RequestBuffer {
        &mut self.buffers.args
    }

    fn find(&self) -> Option<&'static CommandSpec> {
        find(self.buffers.args.as_request()?, self.call.names())
    }

    fn call(&mut self, command: Option<&'static CommandSpec>) -> std::result::Result<CallReply<'_>, Cow<'static, str>> {
        let command = match self.admit(command) {
            Ok(command) => command,
            Err(error) => return Err(self.refuse(&error)),
        };
        let CallBuffers { args, output } = &mut *self.buffers;
        output.keep_next();
        if let Some(request) = args.as_request() {
            self.call.execute_for_script(command, request, output);
        }
        Ok(match output.take_kept() {
            Kept::Encoded | Kept::Nothing => CallReply::Encoded(reply_bytes(output)),
            kept => CallReply::Kept(kept, output.as_slice().unwrap_or_default()),
        })
    }

    fn may_call(&mut self) -> Option<bool> {
        let command = self.find()?;
        let request = self.buffers.args.as_request()?;
        Some(self.call.caller.access.denial(command, request).is_none())
    }

    fn protocol(&self) -> Protocol {
        self.call.caller.protocol
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.call.caller.protocol = protocol;
    }

    fn log_changes(&mut self, are_logged: bool) {
        self.call.caller.withhold_effects(!are_logged);
    }

    fn running(&self) -> (String, Request<'_>) {
        (self.name.to_owned(), self.call.args.request())
    }
}

/// Returns a reply as one slice, copied only when it holds large values.
fn reply_bytes(output: &mut Output) -> Cow<'_, [u8]> {
    if output.as_slice().is_none() {
        return Cow::Owned(std::mem::take(output).into_bytes().to_vec());
    }
    Cow::Borrowed(output.as_slice().unwrap_or_default())
}

fn load(call: &mut Call<'_>) -> Result<()> {
    let text = call.args.bytes()?;
    let scripts = &call.namespace.scripts;
    let mut engines = scripts.engines();
    let Evaluation { vm, cache, .. } = engines.evaluation(&scripts.control);
    let script = cache.load(vm, text, CompileReason::Load).map_err(script_error)?;
    call.reply.bulk(script.name.as_bytes());
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Result<()> {
    let engines = call.namespace.scripts.engines();
    call.reply.array(call.args.left());
    while let Some(sha) = call.args.next_arg() {
        call.reply.int(i64::from(engines.cache.find(sha).is_some()));
    }
    Ok(())
}

fn show(call: &mut Call<'_>) -> Result<()> {
    let engines = call.namespace.scripts.engines();
    let script = engines.cache.find(call.args.bytes()?).ok_or(Error::NoScript)?;
    call.reply.bulk(&script.text);
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Result<()> {
    match (call.args.next_arg(), call.args.left()) {
        (None, _) => {}
        (Some(mode), 0) if is_word(mode, "SYNC") || is_word(mode, "ASYNC") => {}
        _ => return Err(Error::other("SCRIPT FLUSH only support SYNC|ASYNC option")),
    }
    call.namespace.scripts.engines().flush_scripts();
    call.reply.ok();
    Ok(())
}

fn kill(call: &mut Call<'_>) -> Result<()> {
    call.namespace.scripts.control.kill(false)?;
    call.reply.ok();
    Ok(())
}

fn debug(call: &mut Call<'_>) -> Result<()> {
    let mode = call.args.bytes()?;
    if is_word(mode, "NO") {
        call.reply.ok();
        Ok(())
    } else if is_word(mode, "YES") || is_word(mode, "SYNC") {
        Err(Error::other("SCRIPT DEBUG is not supported: there is no script debugger"))
    } else {
        Err(Error::other("Use SCRIPT DEBUG YES/SYNC/NO"))
    }
}
