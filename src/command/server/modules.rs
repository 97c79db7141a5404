//! MODULE and LOLWUT.

use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::{Reply, parse_int};
use crate::spec::{
    ADMIN, Arg, CommandTable, FAST, Flags, Group, Module, NO_ASYNC_LOADING, NO_SCRIPT, READ, block, integer, string,
};

const MODULE_FLAGS: Flags = ADMIN | NO_SCRIPT;
const LOAD_FLAGS: Flags = MODULE_FLAGS | NO_ASYNC_LOADING;
const LOADEX_ARGS: &[Arg] = &[
    string("path"),
    block("configs", &[string("name"), string("value")]).token("CONFIG").optional().multiple_token(),
    block("args", &[string("arg")]).token("ARGS").optional().multiple(),
];

#[rustfmt::skip] // one command, the same few lines
pub(crate) const COMMANDS: &[Command] = &[
    Command::new("LOLWUT", lolwut, READ | FAST, Group::Server)
        .args(&[integer("version").token("VERSION").optional()])
        .docs("5.0.0", "", "Draws a picture and shows the version."),
    Command::container("MODULE", Group::Server, &[
        Command::new("LIST", module_list, MODULE_FLAGS, Group::Server).tips(&["nondeterministic_output_order"])
            .docs("4.0.0", "O(N) where N is the number of loaded modules.", "Lists the modules of Redis whose commands are built in."),
        Command::new("LOAD", module_load, LOAD_FLAGS, Group::Server)
            .args(&[string("path"), string("arg").optional().multiple()])
            .docs("4.0.0", "O(1)", "Always fails, because no module can be loaded."),
        Command::new("LOADEX", module_load, LOAD_FLAGS, Group::Server).args(LOADEX_ARGS).arity(-3)
            .docs("7.0.0", "O(1)", "Always fails, because no module can be loaded."),
        Command::new("UNLOAD", module_unload, LOAD_FLAGS, Group::Server).args(&[string("name")])
            .docs("4.0.0", "O(1)", "Always fails, because no module can be unloaded."),
    ])
    .docs("4.0.0", "Depends on subcommand.", "Contains the module subcommands."),
];

fn module_list(call: &mut Call<'_>) -> Result<()> {
    let commands = call.names().table();
    write_modules(&mut call.reply, commands);
    Ok(())
}

/// Writes an array of maps that describe the built-in modules.
pub(crate) fn write_modules(reply: &mut Reply<'_>, commands: &CommandTable) {
    let modules = commands.modules();
    reply.array(modules.len());
    for Module { name, version } in modules {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(name.as_bytes());
        reply.bulk(b"ver");
        reply.int(*version);
        reply.bulk(b"path");
        reply.bulk(b"");
        reply.bulk(b"args");
        reply.array(0);
    }
}

fn module_load(call: &mut Call<'_>) -> Result<()> {
    call.check_allowed("MODULE", call.config.enable_module_command)?;
    Err(Error::other("Error loading the extension. Please check the server logs."))
}

fn module_unload(call: &mut Call<'_>) -> Result<()> {
    call.check_allowed("MODULE", call.config.enable_module_command)?;
    Err(Error::other("Error unloading module: no such module with that name"))
}

/// The number of keys that LOLWUT draws.
const KEYS: u32 = 4;
/// The number of teeth of a key, at most four high and low.
const TEETH: u32 = 10;

/// Draws a bunch of random keys, then the line that clients look for.
fn lolwut(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() >= 2 && call.args.next_arg().is_some_and(|word| is_word(word, "VERSION")) {
        parse_int(call.args.bytes()?).ok_or(Error::NotInteger)?;
    }
    let calls = call.namespace.observed.command_stats.calls(call.command).count;
    let cut = call.namespace.store.hash(&calls.to_le_bytes());
    let mut text: String = (0..KEYS).map(|number| one_key(cut.rotate_left(number * 16))).collect();
    text.push_str(&format!("Redis ver. {}\n", call.config.identity().redis_version));
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Draws a key whose teeth are given by the bits of a number.
fn one_key(cut: u64) -> String {
    let tooth = |at: u32| if cut >> at & 1 == 1 { "|_" } else { "  " };
    let teeth: String = (0..TEETH).map(tooth).collect();
    let shaft = "_".repeat(TEETH as usize * 2 + 2);
    format!(" .--.\n/  o \\{shaft}\n\\____/--{}\n", teeth.trim_end())
}
