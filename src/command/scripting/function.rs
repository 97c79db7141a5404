//! FCALL, FCALL_RO, FUNCTION: libraries of functions that are loaded once and called by name.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::command::scripting::{RUNS, ScriptRun, key_count, run, run_args, script_error};
use crate::dispatch::args::is_word;
use crate::dispatch::post_call::show_ahead;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::rdb::library;
use crate::resp::Reply;
use crate::script::{FLAG_NAMES, FunctionEntry, Functions, Libraries, Library, Registered, Restore, Vm};
use crate::spec::marks::{ENSURES_SCRIPTS, OF_FUNCTIONS, RUNS_FUNCTION};
use crate::spec::{
    ALLOW_BUSY, DENY_OOM, EXCLUSIVE, Effect, Flags, Group, MAY_REPLICATE, NO_SCRIPT, READ, WRITE, one_of, string, token,
};

const COST: &str = "Depends on the function that is executed.";
/// The flags of commands that are alone in the store, so that the log has changes of libraries in the order in which
/// they were made.
const CHANGES_LIBRARIES: Flags = WRITE | NO_SCRIPT | EXCLUSIVE;
const WRITES_ALL: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];

pub(crate) const COMMANDS: &[Command] = &[
    Command::new("FCALL", fcall, RUNS | MAY_REPLICATE, Group::Scripting)
        .marks(RUNS_FUNCTION | OF_FUNCTIONS)
        .args(&run_args("function", false, true))
        .docs("7.0.0", COST, "Calls a function."),
    Command::new("FCALL_RO", fcall_ro, RUNS | READ, Group::Scripting)
        .marks(RUNS_FUNCTION | OF_FUNCTIONS)
        .args(&run_args("function", true, true))
        .docs("7.0.0", COST, "Calls a read-only function."),
    Command::container("FUNCTION", Group::Scripting, SUBCOMMANDS).help_since("7.0.0").docs(
        "7.0.0",
        "Depends on subcommand.",
        "Contains the function subcommands.",
    ),
];

const SUBCOMMANDS: &[Command] = &[
    Command::new("DELETE", delete, CHANGES_LIBRARIES, Group::Scripting)
        .marks(OF_FUNCTIONS)
        .effect(Effect::Given)
        .args(&[string("library-name")])
        .tips(WRITES_ALL)
        .docs("7.0.0", "O(1)", "Deletes a library and its functions."),
    Command::new("DUMP", dump_libraries, NO_SCRIPT, Group::Scripting).marks(OF_FUNCTIONS).docs(
        "7.0.0",
        "O(N) where N is the number of functions",
        "Serialises all libraries for FUNCTION RESTORE.",
    ),
    Command::new("FLUSH", flush, CHANGES_LIBRARIES, Group::Scripting)
        .marks(OF_FUNCTIONS)
        .effect(Effect::Given)
        .args(&[one_of("async", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional()])
        .tips(WRITES_ALL)
        .docs("7.0.0", "O(N) where N is the number of functions deleted", "Deletes all libraries."),
    Command::new("KILL", kill, NO_SCRIPT | ALLOW_BUSY, Group::Scripting)
        .tips(&["request_policy:all_shards", "response_policy:one_succeeded"])
        .docs("7.0.0", "O(1)", "Kills the running function."),
    Command::new("LIST", list, NO_SCRIPT, Group::Scripting)
        .marks(OF_FUNCTIONS)
        .args(&[
            string("library-name-pattern").token("LIBRARYNAME").optional(),
            token("withcode", "WITHCODE").optional(),
        ])
        .tips(&["nondeterministic_output_order"])
        .docs("7.0.0", "O(N) where N is the number of functions", "Lists the libraries and their functions."),
    Command::new("LOAD", load, CHANGES_LIBRARIES | DENY_OOM, Group::Scripting)
        .marks(ENSURES_SCRIPTS | OF_FUNCTIONS)
        .effect(Effect::Given)
        .args(&[token("replace", "REPLACE").optional(), string("function-code")])
        .tips(WRITES_ALL)
        .docs("7.0.0", "O(1) (considering compilation time is redundant)", "Loads a library."),
    Command::new("RESTORE", restore, CHANGES_LIBRARIES | DENY_OOM, Group::Scripting)
        .marks(OF_FUNCTIONS)
        .effect(Effect::Given)
        .args(&[
            string("serialized-value"),
            one_of("policy", &[token("flush", "FLUSH"), token("append", "APPEND"), token("replace", "REPLACE")])
                .optional(),
        ])
        .tips(WRITES_ALL)
        .docs(
            "7.0.0",
            "O(N) where N is the number of functions on the payload",
            "Restores libraries from a payload of FUNCTION DUMP.",
        ),
    Command::new("STATS", stats, NO_SCRIPT | ALLOW_BUSY, Group::Scripting)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .docs("7.0.0", "O(1)", "Returns the running function and the number of functions and libraries."),
];

fn fcall(call: &mut Call<'_>) -> Result<()> {
    call_function(call, false)
}

fn fcall_ro(call: &mut Call<'_>) -> Result<()> {
    call_function(call, true)
}

fn call_function(call: &mut Call<'_>, is_read_only: bool) -> Result<()> {
    show_ahead(call);
    let name = call.args.bytes()?;
    let changed = changed_libraries(call);
    let changed = changed.as_ref().map(|changed| changed.lock());
    let scripts = &call.namespace.scripts;
    let mut engines = scripts.engines();
    let Functions { vm, libraries, buffers } = engines.functions(&scripts.control);
    let libraries = changed.as_deref().unwrap_or(libraries);
    let FunctionEntry { name, number, flags } =
        libraries.function(name).ok_or_else(|| Error::other("Function not found"))?;
    let keys = key_count(call, || Error::other("Bad number of keys provided"))?;
    run(call, vm, ScriptRun { name, number: *number, flags: *flags, keys, is_read_only }, buffers)
}

/// Returns the libraries as earlier commands of a transaction have changed them, if the cluster does not have them yet.
fn changed_libraries(call: &Call<'_>) -> Option<Arc<Mutex<Libraries>>> {
    let changed = call.caller.staged.as_ref()?.functions.clone()?;
    changed.downcast().ok()
}

/// Changes the libraries. Where the data is in a cluster, that is the cluster's decision: a copy is changed, in the same
/// interpreter.
fn change(call: &mut Call<'_>, change: &mut dyn FnMut(&mut Vm, &mut Libraries) -> Result<()>) -> Result<()> {
    let scripts = &call.namespace.scripts;
    let mut engines = scripts.engines();
    let Functions { vm, libraries, .. } = engines.functions(&scripts.control);
    if call.caller.staged.is_none() {
        change(vm, libraries)?;
        call.log_request();
        return Ok(());
    }
    let changed = changed_libraries(call).unwrap_or_else(|| Arc::new(Mutex::new(libraries.clone())));
    change(vm, &mut changed.lock())?;
    if let Some(staged) = &mut call.caller.staged {
        staged.functions = Some(changed);
    }
    Ok(())
}

fn load(call: &mut Call<'_>) -> Result<()> {
    let mut replace = false;
    while call.args.left() > 1 {
        let option = call.args.bytes()?;
        if !is_word(option, "REPLACE") {
            return Err(script_error([b"Unknown option given: ", option].concat()));
        }
        replace = true;
    }
    let code = call.args.next_arg().ok_or(Error::other("Function code is missing"))?;
    let mut name = Vec::new();
    change(call, &mut |vm, libraries| {
        name = libraries.load(vm, code, replace).map_err(script_error)?;
        Ok(())
    })?;
    call.reply.bulk(&name);
    Ok(())
}

fn delete(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.bytes()?;
    change(call, &mut |vm, libraries| {
        let is_deleted = libraries.delete(vm, name);
        is_deleted.then_some(()).ok_or(Error::other("Library not found"))
    })?;
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Result<()> {
    match (call.args.next_arg(), call.args.left()) {
        (None, _) => {}
        (Some(_), 1..) => return Err(surplus_error(call)),
        (Some(mode), _) if is_word(mode, "SYNC") || is_word(mode, "ASYNC") => {}
        _ => return Err(Error::other("FUNCTION FLUSH only supports SYNC|ASYNC option")),
    }
    if let Some(staged) = &mut call.caller.staged {
        staged.functions = Some(Arc::new(Mutex::new(Libraries::default())));
    } else {
        call.namespace.scripts.engines().flush_functions();
        call.log_request();
    }
    call.reply.ok();
    Ok(())
}

/// Returns the error for too many arguments of a subcommand.
fn surplus_error(call: &Call<'_>) -> Error {
    let word = call.args.request().arg(1);
    let text = [b"unknown subcommand or wrong number of arguments for '", word, b"'. Try FUNCTION HELP."].concat();
    script_error(text)
}

fn kill(call: &mut Call<'_>) -> Result<()> {
    call.namespace.scripts.control.kill(true)?;
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let (mut pattern, mut with_code) = (None, false);
    while let Some(option) = call.args.next_arg() {
        if !with_code && is_word(option, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is_word(option, "LIBRARYNAME") {
            let name = call.args.next_arg().ok_or(Error::other("library name argument was not given"))?;
            pattern = Some(Pattern::ignoring_case(name));
        } else {
            return Err(script_error([b"Unknown argument ", option].concat()));
        }
    }
    let (changed, engines) = (changed_libraries(call), call.namespace.scripts.engines());
    let changed = changed.as_ref().map(|changed| changed.lock());
    let libraries = changed.as_deref().unwrap_or(&engines.libraries);
    let fits = |library: &&Arc<Library>| pattern.as_ref().is_none_or(|pattern| pattern.matches(&library.name));
    let libraries: Vec<&Arc<Library>> = libraries.all().values().filter(fits).collect();
    call.reply.array(libraries.len());
    libraries.iter().for_each(|library| describe(&mut call.reply, library, with_code));
    Ok(())
}

fn describe(reply: &mut Reply<'_>, library: &Library, with_code: bool) {
    reply.map(3 + usize::from(with_code));
    for (field, value) in [("library_name", &library.name[..]), ("engine", b"LUA")] {
        reply.bulk(field.as_bytes());
        reply.bulk(value);
    }
    reply.bulk(b"functions");
    reply.array(library.functions.len());
    library.functions.iter().for_each(|function| describe_function(reply, function));
    if with_code {
        reply.bulk(b"library_code");
        reply.bulk(&library.code);
    }
}

fn describe_function(reply: &mut Reply<'_>, function: &Registered) {
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(&function.name);
    reply.bulk(b"description");
    match &function.description {
        Some(description) => reply.bulk(description),
        None => reply.null(),
    }
    reply.bulk(b"flags");
    let flags = || FLAG_NAMES.iter().filter(|(flag, _)| function.flags & flag != 0);
    reply.set(flags().count());
    flags().for_each(|(_, name)| reply.simple(name));
}

fn dump_libraries(call: &mut Call<'_>) -> Result<()> {
    let texts = match changed_libraries(call) {
        Some(changed) => changed.lock().texts(),
        None => call.namespace.scripts.engines().libraries.texts(),
    };
    let payload = library::dump(texts.iter().map(Vec::as_slice), call.config.rdbcompression);
    call.reply.bulk(&payload);
    Ok(())
}

fn restore(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() > 2 {
        return Err(surplus_error(call));
    }
    let payload = call.args.bytes()?;
    let policy = match call.args.next_arg() {
        None => Restore::Append,
        Some(word) if is_word(word, "APPEND") => Restore::Append,
        Some(word) if is_word(word, "REPLACE") => Restore::Replace,
        Some(word) if is_word(word, "FLUSH") => Restore::Flush,
        Some(_) => {
            return Err(Error::other("Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."));
        }
    };
    let codes = library::parse(payload).map_err(Error::other)?;
    change(call, &mut |vm, libraries| libraries.restore(vm, &codes, policy).map_err(script_error))?;
    call.reply.ok();
    Ok(())
}

fn stats(call: &mut Call<'_>) -> Result<()> {
    let running = call.namespace.scripts.control.busy_function()?;
    let usage = call.namespace.scripts.usage();
    let (libraries, functions) = match changed_libraries(call) {
        Some(changed) => {
            let changed = changed.lock();
            (changed.all().len(), changed.function_count())
        }
        None => (usage.libraries, usage.functions),
    };
    let reply = &mut call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    match running {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(running.name.as_bytes());
            reply.bulk(b"command");
            reply.array(running.args.len());
            running.args.iter().for_each(|word| reply.bulk(word));
            reply.bulk(b"duration_ms");
            reply.int(running.duration_ms as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (field, count) in [("libraries_count", libraries), ("functions_count", functions)] {
        reply.bulk(field.as_bytes());
        reply.int(count as i64);
    }
    Ok(())
}
