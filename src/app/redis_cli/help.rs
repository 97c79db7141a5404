//! Text of `help` at the prompt.

use crate::app::redis_cli::hints::{KnownCommand, ServerCommands};

/// The help without a topic, after the version.
const GENERAL: &str = "\
To get help about Redis commands type:
      \"help @<group>\" to get a list of commands in <group>
      \"help <command>\" for help on <command>
      \"help <tab>\" to get a list of possible help topics
      \"quit\" to exit

To set redis-cli preferences:
      \":set hints\" enable online hints
      \":set nohints\" disable online hints
Set your preferences in ~/.redisclirc
";

/// Returns the help on a topic: nothing, a group with `@` in front, or a command.
pub(super) fn text(topic: &[Vec<u8>], commands: &ServerCommands, version: &str) -> String {
    let Some(first) = topic.first() else { return format!("{}\n{GENERAL}", version.trim_end()) };
    let group = first.strip_prefix(b"@");
    let group =
        group.and_then(|group| commands.groups.iter().find(|known| group.eq_ignore_ascii_case(known.as_bytes())));
    let shown = match group {
        Some(group) => {
            commands.list.iter().filter(|known| known.group == *group).map(|known| entry(known, false)).collect()
        }
        None => commands
            .list
            .iter()
            .filter(|known| known.is_named(topic))
            .map(|known| entry(known, true))
            .collect::<String>(),
    };
    format!("{shown}\r\n")
}

fn entry(command: &KnownCommand, has_group: bool) -> String {
    let KnownCommand { name, arguments, summary, since, group } = command;
    let group = if has_group { format!("  \x1b[33mgroup:\x1b[0m {group}\r\n") } else { String::new() };
    format!(
        "\r\n  \x1b[1m{name}\x1b[0m \x1b[90m{arguments}\x1b[0m\r\n  \x1b[33msummary:\x1b[0m {summary}\r\n  \
         \x1b[33msince:\x1b[0m {since}\r\n{group}"
    )
}
