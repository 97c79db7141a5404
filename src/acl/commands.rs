//! Which commands a selector allows: a bit for each, and first arguments of commands that are otherwise forbidden.
//!
//! Invariant: [`Commands::describe`] gives rules that make the same bits again, starting from none or all.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::rules::{RuleError, same_word, until_nul};
use crate::command::known;
use crate::command::registry::CATEGORIES;
use crate::command::renames::Renames;
use crate::command::{NO_AUTH, Registered, table};
use crate::resp::Request;

/// Commands of this version and later do not count when categories are chosen: the rules are those of Redis 7.0 then.
const NEWER: &str = "7.1";

/// Holds the commands that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Commands {
    bits: Bits,
    /// Whether commands that a later version brings are allowed too: set by `+@all`, cleared by `-@all` only.
    future: bool,
    /// First arguments, by the number of a forbidden command, with which it may be called nevertheless.
    first_args: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// Commands that Redis has and keylatch has not, in lower case and in the order of their rules, and whether they would
    /// be allowed: rules that were written for Redis are taken, and shown again.
    absent: Vec<(Box<[u8]>, bool)>,
}

impl Commands {
    /// Allows nothing.
    pub(super) fn none() -> Self {
        Commands { bits: Bits::new(false), future: false, first_args: BTreeMap::new(), absent: Vec::new() }
    }

    /// Allows everything.
    pub(super) fn all() -> Self {
        Commands { bits: Bits::new(true), future: true, first_args: BTreeMap::new(), absent: Vec::new() }
    }

    /// Returns whether every command may be called with any arguments.
    pub(super) fn are_all(&self) -> bool {
        self.bits == Bits::new(true)
    }

    /// Returns whether a request, whose number of words fits its command, may be made.
    pub(super) fn permit(&self, command: &Registered, request: Request<'_>) -> bool {
        command.command.flags & NO_AUTH != 0
            || self.bits.has(command.number)
            || (request.len() > 1 && self.first_args_of(command).iter().any(|arg| same_word(arg, request.arg(1))))
    }

    fn first_args_of(&self, command: &Registered) -> &[Box<[u8]>] {
        self.first_args.get(&command.number).map_or(&[], Vec::as_slice)
    }

    /// Applies what follows `+` or `-` in a rule: a command, a category, or a command with a subcommand or first
    /// argument.
    pub(super) fn apply(&mut self, what: &[u8], is_allowed: bool) -> Result<(), RuleError> {
        let what = until_nul(what);
        if let Some(category) = what.strip_prefix(b"@") {
            let known = CATEGORIES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(category));
            self.set_category(known.ok_or(RuleError::Unknown)?, is_allowed);
            return Ok(());
        }
        match what.iter().rposition(|byte| *byte == b'|') {
            Some(bar) if is_allowed => self.allow_inside(what, &what[..bar], &what[bar + 1..]),
            _ => self.set_named(what, is_allowed),
        }
    }

    /// Allows or forbids a command or subcommand by its name, which Redis must know.
    fn set_named(&mut self, what: &[u8], is_allowed: bool) -> Result<(), RuleError> {
        match find(what) {
            Ok(command) => self.set(command, is_allowed),
            Err(_) if known::is_known(what) => self.note_absent(what, is_allowed),
            Err(unknown) => return Err(unknown),
        }
        Ok(())
    }

    /// Keeps a rule about a command that keylatch does not have; it takes the place of those about the same command and
    /// what is inside it.
    fn note_absent(&mut self, what: &[u8], is_allowed: bool) {
        let what = what.to_ascii_lowercase();
        let is_inside =
            |other: &[u8]| other.strip_prefix(&what[..]).is_some_and(|rest| matches!(rest, [] | [b'|', ..]));
        self.absent.retain(|(other, _)| !is_inside(other));
        self.absent.push((what.into(), is_allowed));
    }

    /// Allows a subcommand, or a first argument of a command without subcommands.
    fn allow_inside(&mut self, what: &[u8], name: &[u8], inside: &[u8]) -> Result<(), RuleError> {
        let command = match find(name) {
            Err(_) if known::is_container(name) => return self.set_named(what, true),
            Err(_) if known::is_known(name) && !inside.is_empty() => {
                self.note_absent(what, true);
                return Ok(());
            }
            found => found?,
        };
        if command.name_words > 1 {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if inside.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !command.subcommands.is_empty() {
            return self.set_named(what, true);
        }
        let args = self.first_args.entry(command.number).or_default();
        if !args.iter().any(|arg| same_word(arg, inside)) {
            args.push(inside.into());
        }
        Ok(())
    }

    /// Allows or forbids a command with all its subcommands.
    fn set(&mut self, command: &Registered, is_allowed: bool) {
        self.bits.set(command, is_allowed);
        self.first_args.remove(&command.number);
    }

    fn set_category(&mut self, category: usize, is_allowed: bool) {
        for command in table().every().filter(|command| command.is_in(category)) {
            self.set(command, is_allowed);
        }
    }

    /// Returns the rules for these commands: all or nothing, then the categories that come nearest, each as long as it
    /// is more right than wrong, then the single commands that are still wrong.
    pub(super) fn describe(&self) -> Vec<u8> {
        let (start, sign) = if self.future { ("+@all", '-') } else { ("-@all", '+') };
        let mut rules = start.as_bytes().to_vec();
        let mut said = if self.future { Commands::all() } else { Commands::none() };
        let mut unsaid = self.clone();
        let mut categories: Vec<usize> = (0..CATEGORIES.len()).collect();
        while let Some(at) = best_category(&unsaid.bits, !self.future, &categories) {
            let category = categories.remove(at);
            said.set_category(category, !self.future);
            unsaid.set_category(category, self.future);
            rules.extend_from_slice(format!(" {sign}@{}", CATEGORIES[category]).as_bytes());
        }
        for command in table().every() {
            let is_allowed = self.bits.has(command.number);
            if is_allowed != said.bits.has(command.number) {
                said.set(command, is_allowed);
                rules.extend_from_slice(if is_allowed { b" +" } else { b" -" });
                rules.extend_from_slice(command.name.as_bytes());
            }
            for arg in self.first_args_of(command).iter().filter(|_| !is_allowed) {
                rules.extend_from_slice(&[b" +", command.name.as_bytes(), b"|", arg].concat());
            }
        }
        for (name, is_allowed) in &self.absent {
            rules.extend_from_slice(if *is_allowed { b" +" } else { b" -" });
            rules.extend_from_slice(name);
        }
        rules
    }
}

/// Finds a command or subcommand by its declared name: rules mean the same whatever names the settings give commands.
fn find(name: &[u8]) -> Result<&'static Registered, RuleError> {
    Renames::default().find_full(name).ok_or(RuleError::Unknown)
}

/// Returns the place in `categories` of the one with the fewest commands that would be wrong, and of several such the
/// first of those with the most that would be right; `None` when no category is more right than wrong.
fn best_category(unsaid: &Bits, is_additive: bool, categories: &[usize]) -> Option<usize> {
    let count = |category: usize| {
        let members = table().every().filter(|command| command.is_in(category) && command.command.since < NEWER);
        members.fold((0, 0), |(right, wrong), command| match unsaid.has(command.number) == is_additive {
            true => (right + 1, wrong),
            false => (right, wrong + 1),
        })
    };
    let counts = categories.iter().map(|category| count(*category)).enumerate();
    let useful = counts.filter(|(_, (right, wrong))| right > wrong);
    useful.min_by_key(|(_, (right, wrong))| (*wrong, Reverse(*right))).map(|(at, _)| at)
}

/// A set of commands and subcommands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Box<[u64]>);

impl Bits {
    fn new(are_in: bool) -> Self {
        let count = table().every().count();
        let mut words = vec![0; count.div_ceil(64)].into_boxed_slice();
        if are_in {
            (0..count).for_each(|number| words[number / 64] |= 1 << (number % 64));
        }
        Bits(words)
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }

    /// Adds or removes a command with all its subcommands.
    fn set(&mut self, command: &Registered, is_in: bool) {
        for number in command.with_subcommands().map(|command| command.number) {
            let bit = 1 << (number % 64);
            match is_in {
                true => self.0[number / 64] |= bit,
                false => self.0[number / 64] &= !bit,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rules_described_make_the_same_bits(
            start: bool,
            picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 0..20),
        ) {
            let every: Vec<_> = table().every().collect();
            let mut commands = if start { Commands::all() } else { Commands::none() };
            for (pick, is_category, is_allowed) in picks {
                match is_category {
                    true => commands.set_category(pick.index(CATEGORIES.len()), is_allowed),
                    false => commands.set(every[pick.index(every.len())], is_allowed),
                }
            }
            let mut again = Commands::none();
            for rule in commands.describe().split(|byte| *byte == b' ') {
                match rule {
                    b"+@all" => again = Commands::all(),
                    b"-@all" => again = Commands::none(),
                    _ => again.apply(&rule[1..], rule[0] == b'+').expect("a description is made of rules"),
                }
            }
            prop_assert_eq!(again, commands);
        }
    }
}
