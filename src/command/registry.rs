//! What follows from the declarations: names to commands, arity, key positions, categories.
//!
//! Computed once per process from [`FAMILIES`] and never changed afterwards.

use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

use super::{ADMIN, Arg, BLOCKING, Command, FAMILIES, FAST, Group, KeyFlags, Kind, READ, WRITE};
use crate::resp::Request;
use crate::store::{Key, Store};

/// The longest command name that is looked up; any longer word is unknown.
const NAME_LEN_MAX: usize = 32;

/// Joins a declaration with all that is derived from it.
pub struct Registered {
    /// The row it comes from.
    pub command: &'static Command,
    /// Lower-case name as errors and COMMAND show it: `get`, `client|list`.
    pub name: String,
    /// The number of words, or its negative where that is only the least.
    pub arity: i32,
    /// Where the keys are.
    pub keys: Vec<KeySpec>,
    /// Commands inside this one, in the order of their declaration.
    pub subcommands: Vec<Registered>,
}

/// Says where some of a command's keys are, and what it does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The first key's position, counting the command's name as 0.
    pub first: usize,
    /// The last key's position relative to the first; negative counts from the end of the request.
    pub last: i32,
    /// How far apart keys are.
    pub step: usize,
    /// What is done with them.
    pub flags: KeyFlags,
}

/// Keys, hashed.
pub type Keys<'a> = SmallVec<[Key<'a>; 4]>;

impl Registered {
    fn new(command: &'static Command, container: Option<&'static str>) -> Self {
        let (name, words_before) = match container {
            Some(container) => (format!("{container}|{}", command.name).to_lowercase(), 2),
            None => (command.name.to_lowercase(), 1),
        };
        Registered {
            name,
            arity: command.arity.unwrap_or_else(|| arity(command.args, words_before)),
            keys: key_specs(command.args, words_before),
            subcommands: command.subcommands.iter().map(|sub| Registered::new(sub, Some(command.name))).collect(),
            command,
        }
    }

    /// Returns whether a request has a number of words that the command accepts.
    #[inline]
    pub fn accepts(&self, words: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exact) => words == exact,
            Err(_) => words >= self.arity.unsigned_abs() as usize,
        }
    }

    /// Finds the keys of a request and hashes each once.
    #[inline]
    pub fn keys_of<'a>(&self, request: Request<'a>, store: &Store, keys: &mut impl Extend<Key<'a>>) {
        for spec in &self.keys {
            let last = match usize::try_from(spec.last) {
                Ok(after_first) => spec.first + after_first,
                Err(_) => (request.len()).saturating_sub(spec.last.unsigned_abs() as usize),
            };
            let positions = (spec.first..=last.min(request.len() - 1)).step_by(spec.step);
            keys.extend(positions.map(|position| store.key(request.arg(position))));
        }
    }

    /// Returns the ACL categories, with `@`, in Redis' order.
    pub fn categories(&self) -> Vec<String> {
        let (command, flags) = (self.command, self.command.flags);
        // A container of subcommands is in no category of its own; what it holds is.
        let group = command.handler.map(|_| command.group);
        let is = |name: &str| -> bool {
            command.categories.contains(&name)
                || match name {
                    "keyspace" => group == Some(Group::Generic),
                    "string" => group == Some(Group::String),
                    "connection" => group == Some(Group::Connection),
                    "transaction" => group == Some(Group::Transactions),
                    "read" => flags & READ != 0,
                    "write" => flags & WRITE != 0,
                    "admin" | "dangerous" => flags & ADMIN != 0,
                    "blocking" => flags & BLOCKING != 0,
                    "fast" => flags & FAST != 0,
                    "slow" => flags & FAST == 0,
                    _ => false,
                }
        };
        CATEGORIES.iter().filter(|name| is(name)).map(|name| format!("@{name}")).collect()
    }

    /// Finds a subcommand by its word, whatever its case.
    pub fn subcommand(&self, word: &[u8]) -> Option<&Registered> {
        self.subcommands.iter().find(|sub| word.eq_ignore_ascii_case(sub.command.name.as_bytes()))
    }
}

/// The ACL categories in the order in which Redis lists them.
pub const CATEGORIES: &[&str] = &[
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Finds commands by name.
pub struct Table {
    commands: Vec<Registered>,
    by_name: HashMap<Box<[u8]>, usize, ahash::RandomState>,
}

impl Table {
    /// Finds a command by its name in any case.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&Registered> {
        let mut lower = [0; NAME_LEN_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.by_name.get(&*lower).map(|index| &self.commands[*index])
    }

    /// Finds a command by `name` or a subcommand by `container|name`.
    pub fn find_full(&self, name: &[u8]) -> Option<&Registered> {
        match name.iter().position(|byte| *byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        }
    }

    /// Returns all commands, by name.
    pub fn all(&self) -> &[Registered] {
        &self.commands
    }
}

/// Returns the table of all commands.
pub fn table() -> &'static Table {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let mut commands: Vec<_> =
            FAMILIES.iter().copied().flatten().map(|command| Registered::new(command, None)).collect();
        commands.sort_by(|a, b| a.name.cmp(&b.name));
        let by_name = commands.iter().enumerate().map(|(index, command)| (command.name.as_bytes().into(), index));
        Table { by_name: by_name.collect(), commands }
    });
    &TABLE
}

/// Counts the words a command takes at least; negative when it may take more.
fn arity(args: &[Arg], words_before: i32) -> i32 {
    let least = words_before + args.iter().map(least_words).sum::<i32>();
    if args.iter().any(|arg| arg.optional || arg.multiple || is_variable(arg)) { -least } else { least }
}

fn least_words(arg: &Arg) -> i32 {
    if arg.optional {
        return 0;
    }
    match arg.kind {
        Kind::Token => 1,
        Kind::Block(parts) => i32::from(arg.token.is_some()) + parts.iter().map(least_words).sum::<i32>(),
        Kind::OneOf(choices) => choices.iter().map(least_words).min().unwrap_or(0),
        _ => 1 + i32::from(arg.token.is_some()),
    }
}

fn is_variable(arg: &Arg) -> bool {
    match arg.kind {
        Kind::Block(parts) => parts.iter().any(|part| part.optional || part.multiple || is_variable(part)),
        Kind::OneOf(choices) => {
            let mut lengths = choices.iter().map(least_words);
            let first = lengths.next();
            lengths.any(|length| Some(length) != first) || choices.iter().any(is_variable)
        }
        _ => false,
    }
}

/// Finds the keys among the arguments that stand at fixed places. Neighbours used alike share one spec.
fn key_specs(args: &[Arg], words_before: i32) -> Vec<KeySpec> {
    let mut specs: Vec<KeySpec> = Vec::new();
    let mut position = words_before as usize;
    for arg in args.iter().take_while(|arg| !arg.optional) {
        let (flags, step) = match arg.kind {
            Kind::Key(flags) => (Some(flags), 1),
            Kind::Block([Arg { kind: Kind::Key(flags), .. }, ..]) => (Some(*flags), least_words(arg) as usize),
            _ => (None, 1),
        };
        if let Some(flags) = flags {
            let last = if arg.multiple { -1 } else { 0 };
            match specs.last_mut() {
                Some(spec) if spec.flags == flags && spec.first + spec.last as usize + 1 == position && last == 0 => {
                    spec.last += 1;
                }
                _ => specs.push(KeySpec { first: position, last, step, flags }),
            }
        }
        if arg.multiple {
            break; // what comes after stands at no fixed place
        }
        position += least_words(arg) as usize;
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_handler_docs_and_a_name_of_its_own() {
        let mut names = std::collections::HashSet::new();
        for registered in table().all() {
            let mut rows = vec![registered];
            rows.extend(&registered.subcommands);
            for row in rows {
                let command = row.command;
                assert!(names.insert(&row.name), "{} is declared twice", row.name);
                assert!(row.name.len() <= NAME_LEN_MAX + NAME_LEN_MAX, "{}", row.name);
                assert!(command.handler.is_some() != (!command.subcommands.is_empty() && command.arity == Some(-2)));
                assert!(!command.since.is_empty() && !command.summary.is_empty(), "{} lacks docs", row.name);
                assert_eq!(command.name, command.name.to_uppercase());
            }
        }
    }

    #[test]
    fn arity_and_key_positions_follow_from_the_grammar() {
        let facts = |name: &[u8]| table().find(name).map(|found| (found.arity, found.keys.clone())).expect("known");
        assert_eq!(facts(b"get").0, 2);
        let (arity, keys) = facts(b"mset");
        assert_eq!((arity, keys[0].first, keys[0].last, keys[0].step), (-3, 1, -1, 2));
        let (arity, keys) = facts(b"lcs");
        assert_eq!((arity, keys.len(), keys[0].last), (-3, 1, 1));
        assert_eq!(facts(b"rename").1.len(), 2);
    }
}
