//! COMMAND and its subcommands, computed from the declarations.

use std::ops::BitAnd;

use crate::dispatch::args::is_word;
use crate::dispatch::plan::find;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::resp::Reply;
use crate::spec::marks::OF_SENTINEL;
use crate::spec::registry::{CATEGORIES, KeySpec};
use crate::spec::{
    Arg, ArgKind, CommandSpec, FLAG_NAMES, Flags, Group, KEY_FLAG_NAMES, LOADING, NO_MANDATORY_KEYS, STALE, one_of,
    pattern, string,
};

const PLAIN: Flags = LOADING | STALE;
const TIPS: &[&str] = &["nondeterministic_output_order"];
const NAMES: &[Arg] = &[string("command-name").optional().multiple()];
const FILTER: &[Arg] = &[one_of(
    "filterby",
    &[string("module-name").token("MODULE"), string("category").token("ACLCAT"), pattern("pattern").token("PATTERN")],
)
.token("FILTERBY")
.optional()];

pub(crate) const COMMANDS: &[Command] = &[Command::new("COMMAND", command, PLAIN, Group::Server)
    .marks(OF_SENTINEL)
    .categories(&["connection"])
    .tips(TIPS)
    .arity(-1)
    .docs("2.8.13", "O(N) where N is the total number of Redis commands", "Returns details of all commands.")
    .subcommands(&[
        Command::new("COUNT", count, PLAIN, Group::Server).categories(&["connection"]).docs(
            "2.8.13",
            "O(1)",
            "Returns the number of commands.",
        ),
        Command::new("DOCS", docs, PLAIN, Group::Server).args(NAMES).categories(&["connection"]).tips(TIPS).docs(
            "7.0.0",
            "O(N) where N is the number of commands to look up",
            "Documents commands.",
        ),
        Command::new("GETKEYS", get_keys, PLAIN, Group::Server).arity(-4).categories(&["connection"]).docs(
            "2.8.13",
            "O(N) where N is the number of arguments to the command",
            "Returns the keys of a full command.",
        ),
        Command::new("GETKEYSANDFLAGS", get_keys_and_flags, PLAIN, Group::Server)
            .arity(-4)
            .categories(&["connection"])
            .docs(
                "7.0.0",
                "O(N) where N is the number of arguments to the command",
                "Returns the keys of a full command with their access flags.",
            ),
        Command::new("INFO", info, PLAIN, Group::Server).args(NAMES).categories(&["connection"]).tips(TIPS).docs(
            "2.8.13",
            "O(N) where N is the number of commands to look up",
            "Returns details of the given commands.",
        ),
        Command::new("LIST", list, PLAIN, Group::Server).args(FILTER).categories(&["connection"]).tips(TIPS).docs(
            "7.0.0",
            "O(N) where N is the total number of Redis commands",
            "Lists the command names, optionally filtered.",
        ),
    ])];

fn command(call: &mut Call<'_>) -> Result<()> {
    let commands: Vec<&CommandSpec> = call.names().all().collect();
    call.reply.array(commands.len());
    commands.iter().for_each(|command| describe(&mut call.reply, command));
    Ok(())
}

fn count(call: &mut Call<'_>) -> Result<()> {
    call.reply.int(call.names().all().count() as i64);
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<()> {
    if call.args.left() == 0 {
        return command(call);
    }
    call.reply.array(call.args.left());
    while let Some(name) = call.args.next_arg() {
        match call.names().find_full(name) {
            Some(command) => describe(&mut call.reply, command),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn docs(call: &mut Call<'_>) -> Result<()> {
    let names = call.names();
    let commands: Vec<&CommandSpec> = match call.args.left() {
        0 => names.all().collect(),
        _ => call.args.request().args().skip(2).filter_map(|name| names.find_full(name)).collect(),
    };
    call.reply.map(commands.len());
    for command in commands {
        call.reply.bulk(command.shown_name().as_bytes());
        document(&mut call.reply, command);
    }
    Ok(())
}

fn get_keys(call: &mut Call<'_>) -> Result<()> {
    reply_keys(call, false)
}

fn get_keys_and_flags(call: &mut Call<'_>) -> Result<()> {
    reply_keys(call, true)
}

/// Replies with the keys of the request that follows the subcommand's name.
fn reply_keys(call: &mut Call<'_>, with_flags: bool) -> Result<()> {
    let request = call.args.request().skip(2);
    let command = find(request, call.names()).ok_or(Error::other("Invalid command specified"))?;
    if command.keys.is_empty() && command.command.key_search.is_none() {
        return Err(Error::other("The command has no key arguments"));
    }
    if !command.accepts(request.len()) {
        return Err(Error::other("Invalid number of arguments specified for command"));
    }
    let keys: Vec<_> = command.keys_of(request).collect();
    let may_be_none = command.command.flags & NO_MANDATORY_KEYS != 0;
    let is_lacking = keys.is_empty() && !may_be_none;
    let has_places = command.command.key_search.is_none();
    let is_missing = |spec: &KeySpec| {
        if spec.counted {
            !may_be_none && spec.positions_in(request).next().is_none()
        } else {
            !spec.unplaced && spec.positions(request.len()).next().is_none()
        }
    };
    if is_lacking || has_places && command.keys.iter().any(is_missing) {
        return Err(Error::other("Invalid arguments specified for command"));
    }
    call.reply.array(keys.len());
    for (position, flags) in keys {
        if with_flags {
            call.reply.array(2);
        }
        call.reply.bulk(request.arg(position));
        if with_flags {
            words(&mut call.reply, &names_of(flags, KEY_FLAG_NAMES));
        }
    }
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let names = match (call.args.next_arg(), call.args.left()) {
        (None, _) => matching(call, |_| true),
        (Some(filterby), 2) if is_word(filterby, "FILTERBY") => {
            let (filter, value) = (call.args.bytes()?, call.args.bytes()?);
            if is_word(filter, "MODULE") {
                matching(call, |command| {
                    command.command.group.module().is_some_and(|module| is_word(value, module.name))
                })
            } else if is_word(filter, "ACLCAT") {
                in_category(call, value)
            } else if is_word(filter, "PATTERN") {
                let pattern = Pattern::ignoring_case(value);
                matching(call, |command| pattern.matches(command.name.as_bytes()))
            } else {
                return Err(Error::Syntax);
            }
        }
        _ => return Err(Error::Syntax),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn in_category(call: &Call<'_>, category: &[u8]) -> Vec<&'static str> {
    match CATEGORIES.iter().find(|name| is_word(category, name)) {
        None => Vec::new(),
        Some(name) => matching(call, |command| command.categories().contains(&format!("@{name}"))),
    }
}

/// Returns the names of the commands and subcommands that meet a condition.
fn matching(call: &Call<'_>, fits: impl Fn(&CommandSpec) -> bool) -> Vec<&'static str> {
    let every = call.names().all().flat_map(CommandSpec::with_subcommands);
    every.filter(|command| fits(command)).map(CommandSpec::shown_name).collect()
}

/// Writes a command as COMMAND INFO shows it.
fn describe(reply: &mut Reply<'_>, command: &CommandSpec) {
    let (first, last, step) = key_range(&command.keys);
    reply.array(10);
    reply.bulk(command.shown_name().as_bytes());
    reply.int(i64::from(command.arity));
    words(reply, &names_of(command.flags, FLAG_NAMES));
    reply.int(first);
    reply.int(last);
    reply.int(step);
    words(reply, &command.categories());
    reply.set(command.command.tips.len());
    command.command.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    reply.set(command.keys.len());
    command.keys.iter().for_each(|spec| describe_keys(reply, spec));
    reply.set(command.subcommands.len());
    command.subcommands.iter().for_each(|sub| describe(reply, sub));
}

/// Summarises key specs in the old form: first key, last key, step.
fn key_range(specs: &[KeySpec]) -> (i64, i64, i64) {
    let fixed = || specs.iter().filter(|spec| !spec.counted && spec.keyword.is_none() && !spec.unplaced);
    let (Some(first), Some(last)) = (fixed().next(), fixed().next_back()) else { return (0, 0, 0) };
    let last_key = if last.last < 0 { i64::from(last.last) } else { last.first as i64 + i64::from(last.last) };
    (first.first as i64, last_key, first.step as i64)
}

fn describe_keys(reply: &mut Reply<'_>, spec: &KeySpec) {
    reply.map(3 + usize::from(spec.notes.is_some()));
    if let Some(notes) = spec.notes {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    reply.bulk(b"flags");
    words(reply, &names_of(spec.flags, KEY_FLAG_NAMES));
    reply.bulk(b"begin_search");
    match spec.keyword {
        _ if spec.unplaced => search(reply, "unknown", &[]),
        None => search(reply, "index", &[("index", spec.first as i64)]),
        Some(keyword) => search_word(reply, keyword, spec.search_from),
    }
    reply.bulk(b"find_keys");
    if spec.unplaced {
        return search(reply, "unknown", &[]);
    }
    if spec.counted {
        return search(reply, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", spec.step as i64)]);
    }
    let range = [("lastkey", i64::from(spec.last)), ("keystep", spec.step as i64), ("limit", spec.parts)];
    search(reply, "range", &range);
}

fn search(reply: &mut Reply<'_>, kind: &str, numbers: &[(&str, i64)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(*number);
    }
}

/// Writes a key search by keyword.
fn search_word(reply: &mut Reply<'_>, keyword: &str, from: i64) {
    reply.map(2);
    text_field(reply, "type", "keyword");
    reply.bulk(b"spec");
    reply.map(2);
    text_field(reply, "keyword", keyword);
    reply.bulk(b"startfrom");
    reply.int(from);
}

fn names_of<F: Copy + BitAnd<Output = F> + PartialEq>(flags: F, names: &[(F, &'static str)]) -> Vec<&'static str> {
    names.iter().filter(|(flag, _)| flags & *flag == *flag).map(|(_, name)| *name).collect()
}

/// Writes a set of simple strings.
fn words<W: AsRef<str>>(reply: &mut Reply<'_>, words: &[W]) {
    reply.set(words.len());
    words.iter().for_each(|word| reply.simple(word.as_ref()));
}

/// Returns the names whose flags are set.
fn set_names(flags: &[(bool, &'static str)]) -> Vec<&'static str> {
    flags.iter().filter_map(|(is_set, name)| is_set.then_some(*name)).collect()
}

fn text_field(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// Writes a command as COMMAND DOCS shows it.
fn document(reply: &mut Reply<'_>, registered: &CommandSpec) {
    let command = registered.command;
    let module = command.group.module();
    let fields = 3
        + usize::from(!command.complexity.is_empty())
        + usize::from(module.is_some())
        + usize::from(command.deprecated.is_some() || command.internal)
        + 2 * usize::from(command.deprecated.is_some())
        + usize::from(!command.args.is_empty())
        + usize::from(!registered.subcommands.is_empty());
    reply.map(fields);
    text_field(reply, "summary", command.summary);
    text_field(reply, "since", &command.since.map(|since| since.to_string()).unwrap_or_default());
    text_field(reply, "group", module.map_or(command.group.name(), |_| "module"));
    if !command.complexity.is_empty() {
        text_field(reply, "complexity", command.complexity);
    }
    if let Some(module) = module {
        text_field(reply, "module", module.name);
    }
    let flags = [(command.deprecated.is_some(), "deprecated"), (command.internal, "syscmd")];
    if flags.iter().any(|(is_set, _)| *is_set) {
        reply.bulk(b"doc_flags");
        words(reply, &set_names(&flags));
    }
    if let Some((since, instead)) = command.deprecated {
        text_field(reply, "deprecated_since", since);
        text_field(reply, "replaced_by", instead);
    }
    if !command.args.is_empty() {
        reply.bulk(b"arguments");
        document_args(reply, command.args, &mut KeyCounter::new(registered));
    }
    if !registered.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(registered.subcommands.len());
        for sub in &registered.subcommands {
            reply.bulk(sub.name.as_bytes());
            document(reply, sub);
        }
    }
}

/// Assigns key arguments, in order, to key specs.
struct KeyCounter<'a> {
    registered: &'a CommandSpec,
    keys_seen: usize,
}

impl<'a> KeyCounter<'a> {
    fn new(registered: &'a CommandSpec) -> Self {
        KeyCounter { registered, keys_seen: 0 }
    }

    fn index_of(&mut self, arg: &Arg) -> i64 {
        let is_of_keyword = |spec: &KeySpec| spec.keyword.is_some() && spec.keyword == arg.token;
        let is_unplaced = |spec: &KeySpec| arg.unplaced.is_some() && spec.unplaced && spec.notes == arg.key_notes;
        let found = self.registered.keys.iter().position(|spec| is_of_keyword(spec) || is_unplaced(spec));
        if let Some(found) = found {
            return found as i64;
        }
        let position = self.registered.keys.first().map_or(0, |spec| spec.first) + self.keys_seen;
        self.keys_seen += 1;
        let specs = &self.registered.keys;
        let found = specs
            .iter()
            .position(|spec| spec.first <= position && (spec.last < 0 || position <= spec.first + spec.last as usize));
        found.unwrap_or(0) as i64
    }
}

fn document_args(reply: &mut Reply<'_>, args: &[Arg], keys: &mut KeyCounter<'_>) {
    reply.array(args.len());
    for arg in args {
        let flags = set_names(&[
            (arg.optional, "optional"),
            (arg.multiple, "multiple"),
            (arg.multiple_token, "multiple_token"),
        ]);
        let (kind, parts) = match arg.kind {
            ArgKind::Key(_) => ("key", None),
            ArgKind::String | ArgKind::Channel | ArgKind::ShardChannel => ("string", None),
            ArgKind::Integer => ("integer", None),
            ArgKind::Double => ("double", None),
            ArgKind::UnixTime => ("unix-time", None),
            ArgKind::Pattern | ArgKind::ChannelPattern => ("pattern", None),
            ArgKind::Token => ("pure-token", None),
            ArgKind::OneOf(parts) => ("oneof", Some(parts)),
            ArgKind::Block(parts) => ("block", Some(parts)),
        };
        let is_key = kind == "key" || arg.unplaced.is_some();
        let has_summary = !arg.summary.is_empty();
        let optional_fields =
            [is_key, arg.token.is_some(), has_summary, arg.since.is_some(), !flags.is_empty(), parts.is_some()];
        reply.map(2 + optional_fields.into_iter().filter(|is_there| *is_there).count());
        text_field(reply, "name", arg.name);
        text_field(reply, "type", kind);
        if is_key {
            reply.bulk(b"key_spec_index");
            reply.int(keys.index_of(arg));
        }
        if let Some(token) = arg.token {
            text_field(reply, "token", token);
        }
        if has_summary {
            text_field(reply, "summary", arg.summary);
        }
        if let Some(since) = arg.since {
            text_field(reply, "since", &since.to_string());
        }
        if !flags.is_empty() {
            reply.bulk(b"flags");
            words(reply, &flags);
        }
        if let Some(parts) = parts {
            reply.bulk(b"arguments");
            document_args(reply, parts, keys);
        }
    }
}
