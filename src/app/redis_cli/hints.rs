//! Known commands of the server, to complete their names, and to show arguments while a command is typed.

use std::collections::BTreeSet;

use crate::app::redis_cli::syntax::{arguments, field, pairs, text};
use crate::resp::Frame;
use crate::text::split_words;

/// The commands of a server, by name.
#[derive(Debug, Default)]
pub(super) struct ServerCommands {
    pub list: Vec<KnownCommand>,
    /// Groups of the commands.
    pub groups: BTreeSet<String>,
}

/// A command or subcommand.
#[derive(Debug)]
pub(super) struct KnownCommand {
    /// The name in capitals, such as `CONFIG GET`.
    pub name: String,
    pub arguments: String,
    pub summary: String,
    /// Version that introduced the command.
    pub since: String,
    pub group: String,
}

impl ServerCommands {
    /// Reads the reply to COMMAND DOCS; any other reply contains no commands.
    pub(super) fn of(docs: &Frame) -> Self {
        let mut known = ServerCommands::default();
        for (name, command) in pairs(docs) {
            known.add(name, command);
            for (name, subcommand) in field(command, b"subcommands").map(pairs).unwrap_or_default() {
                known.add(name, subcommand);
            }
        }
        known.list.sort_by(|a, b| a.name.cmp(&b.name));
        known
    }

    fn add(&mut self, name: &Frame, command: &Frame) {
        let name = String::from_utf8_lossy(name.as_bytes().unwrap_or_default()).to_uppercase().replace('|', " ");
        let group = text(command, b"group");
        self.groups.insert(group.clone());
        let arguments = field(command, b"arguments").map(|list| arguments(list, " ")).unwrap_or_default();
        let (summary, since) = (text(command, b"summary"), text(command, b"since"));
        self.list.push(KnownCommand { name, arguments, summary, since, group });
    }

    /// Returns true if no command is known.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the possible completions of a line.
    pub(super) fn complete(&self, line: &str) -> Vec<String> {
        let lower = line.to_ascii_lowercase();
        let (typed, is_help) = lower.strip_prefix("help ").map_or((&lower[..], false), |topic| (topic, true));
        let given = &line[..line.len() - typed.len()];
        let typed = typed.trim_start();
        let groups = self.groups.iter().filter(|_| is_help).map(|group| format!("@{group}"));
        let names = groups.chain(self.list.iter().map(|command| command.name.clone()));
        let fitting = names.filter(|name| name.to_ascii_lowercase().starts_with(typed));
        fitting.map(|name| format!("{given}{name}")).collect()
    }

    /// Returns the arguments that a line still lacks, with a blank in front unless the line ends with one.
    pub(super) fn hint(&self, line: &str) -> Option<String> {
        let words = split_words(line.as_bytes())?;
        let (command, len) = self.find(&words)?;
        let mut rest = &command.arguments[..];
        // Optional arguments stay: which ones were given is not known.
        for _ in len..words.len() {
            if rest.starts_with('[') {
                break;
            }
            rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
        }
        let gap = if line.ends_with([' ', '\t']) { "" } else { " " };
        (!rest.is_empty()).then(|| format!("{gap}{rest}"))
    }

    /// Returns the command of a line with the longest name, and the number of words of this name.
    fn find(&self, words: &[Vec<u8>]) -> Option<(&KnownCommand, usize)> {
        let found = self.list.iter().filter_map(|command| {
            let len = command.name.split(' ').count();
            (words.len() >= len && command.is_named(&words[..len])).then_some((command, len))
        });
        found.max_by_key(|(_, len)| *len)
    }
}

impl KnownCommand {
    /// Returns true if the words are the name, or its beginning.
    pub(super) fn is_named(&self, words: &[Vec<u8>]) -> bool {
        let mut name = self.name.split(' ');
        words.iter().all(|word| name.next().is_some_and(|part| word.eq_ignore_ascii_case(part.as_bytes())))
    }
}
