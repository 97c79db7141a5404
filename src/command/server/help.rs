//! HELP, a subcommand of every container: derived from the declarations of the other subcommands.
//!
//! Each subcommand gets two lines: its synopsis, from its grammar, and its summary. The first line and the last two are
//! those of Redis, which tools look for.

use crate::dispatch::{Call, Command};
use crate::error::Result;
use crate::spec::{Arg, ArgKind, Declaration, Flags, LOADING, STALE};

const PLAIN: Flags = LOADING | STALE;

/// Declares the HELP of a container.
pub(crate) fn row(container: &Declaration) -> Command {
    let mut row = Command::new("HELP", help, PLAIN, container.group).categories(container.categories).docs(
        "5.0.0",
        "O(1)",
        "Describes the subcommands.",
    );
    row.declaration.since = Some(container.help_since);
    row
}

/// Describes the subcommands of the container that is called.
pub(crate) fn help(call: &mut Call<'_>) -> Result<()> {
    let name = call.args.request().name();
    let Some(container) = call.names().find(name) else { return Ok(()) };
    let mut lines = Vec::new();
    if !container.is_container {
        lines.extend(["(no subcommand)".to_owned(), format!("    {}", container.command.summary)]);
    }
    let declared = container.subcommands.iter().map(|subcommand| subcommand.command);
    for subcommand in declared.filter(|subcommand| subcommand.name != "HELP") {
        lines.extend([synopsis(subcommand), format!("    {}", subcommand.summary)]);
    }
    lines.extend(["HELP".to_owned(), "    Prints this help.".to_owned()]);
    call.reply.array(lines.len() + 1);
    let name = String::from_utf8_lossy(name).to_uppercase();
    call.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| call.reply.simple(line));
    Ok(())
}

/// Formats the synopsis of a command: `LIST [TYPE (NORMAL|PUBSUB)] [ID <client-id> [<client-id> ...]]`.
fn synopsis(command: &Declaration) -> String {
    std::iter::once(command.name.to_owned()).chain(command.args.iter().map(spell)).collect::<Vec<_>>().join(" ")
}

fn spell(arg: &Arg) -> String {
    let value = spell_value(arg);
    let with_token = |value: &str| match (arg.kind, arg.token) {
        (ArgKind::Token, _) | (_, None) => value.to_owned(),
        (_, Some(token)) => format!("{token} {value}"),
    };
    let spelt = match (arg.multiple, arg.multiple_token) {
        (true, true) => format!("{0} [{0} ...]", with_token(&value)),
        (true, false) => with_token(&format!("{value} [{value} ...]")),
        (false, _) => with_token(&value),
    };
    match (arg.optional, arg.kind, arg.token) {
        (false, ..) => spelt,
        // The brackets group the choice.
        (true, ArgKind::OneOf(choices), None) => format!("[{}]", spell_choices(choices)),
        (true, ..) => format!("[{spelt}]"),
    }
}

fn spell_value(arg: &Arg) -> String {
    match arg.kind {
        ArgKind::Token => arg.token.unwrap_or(arg.name).to_owned(),
        ArgKind::OneOf(choices) => format!("({})", spell_choices(choices)),
        ArgKind::Block(parts) => parts.iter().map(spell).collect::<Vec<_>>().join(" "),
        _ => format!("<{}>", arg.name),
    }
}

fn spell_choices(choices: &[Arg]) -> String {
    choices.iter().map(spell).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{block, integer, one_of, string, token};

    #[test]
    fn a_synopsis_spells_the_grammar() {
        const ARGS: &[Arg] = &[
            one_of("mode", &[token("on", "ON"), token("off", "OFF")]),
            one_of("type", &[token("a", "A"), token("b", "B")]).token("TYPE").optional(),
            block("id", &[integer("client-id").multiple()]).token("ID").optional(),
            string("prefix").token("PREFIX").multiple_token().optional(),
            one_of("sync", &[token("async", "ASYNC"), token("sync", "SYNC")]).optional(),
        ];
        let command = Command::new("DO", help, 0, crate::spec::Group::Server).args(ARGS);
        assert_eq!(
            synopsis(&command.declaration),
            "DO (ON|OFF) [TYPE (A|B)] [ID <client-id> [<client-id> ...]] [PREFIX <prefix> [PREFIX <prefix> ...]] [ASYNC|SYNC]"
        );
    }
}
