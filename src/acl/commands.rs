//! The commands that a selector allows: a bit for each, plus first arguments of otherwise forbidden commands; and the
//! rules behind them, which are shown as they were given.
//!
//! Invariant: applied to none or all commands, the rules of [`AllowedCommands::describe`] give the same bits again.

use std::collections::BTreeMap;

use crate::acl::rules::{RuleError, has_blanks, same_word};
use crate::memory::heap::{allocation_len, list_len};
use crate::profile::Profile;
use crate::resp::Request;
use crate::spec::known;
use crate::spec::registry::CATEGORIES;
use crate::spec::{CommandSpec, CommandTable, NO_AUTH};
use crate::text::until_nul;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AllowedCommands {
    table: &'static CommandTable,
    bits: Bits,
    /// True if commands of later versions are allowed too: set by `+@all`, cleared by `-@all` only.
    future: bool,
    /// First arguments with which an otherwise forbidden command may be called, by the command's number.
    first_args: BTreeMap<usize, Vec<Box<[u8]>>>,
    /// The rules since the last about all commands, in lower case and in order, each with its sign: true allows. Rules
    /// about commands that Redis has and keylatch lacks are kept but have no effect.
    rules: Vec<(Box<[u8]>, bool)>,
}

impl AllowedCommands {
    /// Returns a set that allows nothing.
    pub(super) fn none(table: &'static CommandTable) -> Self {
        let bits = Bits::new(table, false);
        AllowedCommands { table, bits, future: false, first_args: BTreeMap::new(), rules: Vec::new() }
    }

    /// Returns a set that allows everything.
    pub(super) fn all(table: &'static CommandTable) -> Self {
        let bits = Bits::new(table, true);
        AllowedCommands { table, bits, future: true, first_args: BTreeMap::new(), rules: Vec::new() }
    }

    pub(super) fn heap_len(&self) -> usize {
        let args = self.first_args.values().map(|args| list_len::<Box<[u8]>>(args.capacity()) + boxes_len(args.iter()));
        let rules = self.rules.iter().map(|(rule, _)| rule);
        // The nodes of the map are at least half full.
        list_len::<u64>(self.bits.0.len())
            + self.first_args.len() * 2 * size_of::<(usize, Vec<Box<[u8]>>)>()
            + args.sum::<usize>()
            + list_len::<(Box<[u8]>, bool)>(self.rules.capacity())
            + boxes_len(rules)
    }

    pub(super) fn table(&self) -> &'static CommandTable {
        self.table
    }

    /// Returns true if all commands are allowed with any arguments.
    pub(super) fn are_all(&self) -> bool {
        self.bits == Bits::new(self.table, true)
    }

    /// Returns true if a request is allowed; its number of arguments fits its command.
    pub(super) fn permit(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        command.command.flags & NO_AUTH != 0
            || self.bits.has(command.number)
            || (request.len() > 1 && self.first_args_of(command).iter().any(|arg| same_word(arg, request.arg(1))))
    }

    fn first_args_of(&self, command: &CommandSpec) -> &[Box<[u8]>] {
        self.first_args.get(&command.number).map_or(&[], Vec::as_slice)
    }

    /// Returns the first command of a category that is not allowed.
    #[cfg(feature = "metrics")]
    pub(super) fn lacking_in(&self, category: &str) -> Option<&'static str> {
        let category = CATEGORIES.iter().position(|name| *name == category)?;
        let mut of_category = self.table.every().filter(|command| command.is_in(category));
        of_category.find(|command| !self.bits.has(command.number)).map(|command| &*command.name)
    }

    /// Applies the part of a rule after `+` or `-`: a command, a category, or a command with a subcommand or first
    /// argument; under a profile only what its version has.
    pub(super) fn apply(&mut self, what: &[u8], is_allowed: bool, profile: Option<&Profile>) -> Result<(), RuleError> {
        let what = until_nul(what);
        if profile.is_some_and(|profile| self.table.is_newer(what, profile)) {
            return Err(RuleError::Unknown);
        }
        if let Some(category) = what.strip_prefix(b"@") {
            let known = CATEGORIES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(category));
            self.set_category(known.ok_or(RuleError::Unknown)?, is_allowed);
        } else {
            match what.iter().rposition(|byte| *byte == b'|') {
                Some(bar) if is_allowed => self.allow_inside(what, &what[..bar], &what[bar + 1..])?,
                _ => self.set_named(what, is_allowed)?,
            }
        }
        self.note(what, is_allowed);
        Ok(())
    }

    /// Records a rule, which replaces earlier ones about the same command or category, its subcommands or first
    /// arguments.
    fn note(&mut self, what: &[u8], is_allowed: bool) {
        let what = what.to_ascii_lowercase();
        let is_inside =
            |other: &[u8]| other.strip_prefix(&what[..]).is_some_and(|rest| matches!(rest, [] | [b'|', ..]));
        self.rules.retain(|(other, _)| !is_inside(other));
        self.rules.push((what.into(), is_allowed));
    }

    /// Allows or forbids a command or subcommand by its name, which must exist in Redis.
    fn set_named(&mut self, what: &[u8], is_allowed: bool) -> Result<(), RuleError> {
        match self.find(what) {
            Ok(command) => self.set(command, is_allowed),
            Err(_) if known::is_known(what) => {}
            Err(unknown) => return Err(unknown),
        }
        Ok(())
    }

    /// Allows a subcommand, or a first argument of a command without subcommands.
    fn allow_inside(&mut self, what: &[u8], name: &[u8], inside: &[u8]) -> Result<(), RuleError> {
        // A blank would turn one rule into two when the description is parsed again.
        let is_argument = !inside.is_empty() && !has_blanks(inside);
        let command = match self.find(name) {
            Err(_) if known::is_container(name) => return self.set_named(what, true),
            Err(_) if known::is_known(name) && is_argument => return Ok(()),
            found => found?,
        };
        if command.name_args > 1 {
            return Err(RuleError::FirstArgOfSubcommand);
        }
        if inside.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !command.subcommands.is_empty() {
            return self.set_named(what, true);
        }
        if !is_argument {
            return Err(RuleError::Syntax);
        }
        let args = self.first_args.entry(command.number).or_default();
        // A repeated first argument moves to the end, as the rule itself does.
        args.retain(|arg| !same_word(arg, inside));
        args.push(inside.into());
        Ok(())
    }

    /// Allows or forbids a command with all its subcommands.
    fn set(&mut self, command: &CommandSpec, is_allowed: bool) {
        self.bits.set(command, is_allowed);
        self.first_args.remove(&command.number);
    }

    fn set_category(&mut self, category: usize, is_allowed: bool) {
        for command in self.table.every().filter(|command| command.is_in(category)) {
            self.set(command, is_allowed);
        }
    }

    /// Finds a command or subcommand by its declared name: renamed commands keep their names in rules.
    fn find(&self, name: &[u8]) -> Result<&'static CommandSpec, RuleError> {
        self.table.find_full(name).ok_or(RuleError::Unknown)
    }

    /// Returns the rules for these commands: all or none, then the later rules in order.
    pub(super) fn describe(&self) -> Vec<u8> {
        let mut described = if self.future { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for (what, is_allowed) in &self.rules {
            described.extend_from_slice(if *is_allowed { b" +" } else { b" -" });
            described.extend_from_slice(what);
        }
        described
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Box<[u64]>);

impl Bits {
    fn new(table: &CommandTable, are_in: bool) -> Self {
        let count = table.count();
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
    fn set(&mut self, command: &CommandSpec, is_in: bool) {
        for number in command.with_subcommands().map(|command| command.number) {
            let bit = 1 << (number % 64);
            if is_in { self.0[number / 64] |= bit } else { self.0[number / 64] &= !bit }
        }
    }
}

#[allow(clippy::borrowed_box, reason = "the lists have boxes")]
fn boxes_len<'a>(texts: impl Iterator<Item = &'a Box<[u8]>>) -> usize {
    texts.map(|text| allocation_len(text.len())).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::sample;

    /// Rules about categories, commands, subcommands and first arguments, as `+get` or `-@read`.
    fn rules() -> impl Strategy<Value = Vec<String>> {
        let every: Vec<String> = sample::commands().every().map(|command| command.name.clone()).collect();
        let some: Vec<String> = ["get|a", "select|0", "SELECT|B", "get", "client", "client|id", "CONFIG|get", "hget|x"]
            .into_iter()
            .map(str::to_owned)
            .chain(CATEGORIES.iter().map(|category| format!("@{category}")))
            .chain(["@all".to_owned()])
            .collect();
        let what = prop_oneof![proptest::sample::select(every), proptest::sample::select(some)];
        proptest::collection::vec((what, any::<bool>()), 0..20).prop_map(|rules| {
            rules.into_iter().map(|(what, plus)| format!("{}{what}", if plus { '+' } else { '-' })).collect()
        })
    }

    fn apply(commands: &mut AllowedCommands, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            b"+@all" => *commands = AllowedCommands::all(commands.table),
            b"-@all" => *commands = AllowedCommands::none(commands.table),
            _ => return commands.apply(&rule[1..], rule[0] == b'+', None),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn rules_described_make_the_same_bits(rules in rules()) {
            let mut commands = AllowedCommands::none(sample::commands());
            for rule in &rules {
                // A first argument cannot be forbidden; such a rule is rejected.
                let _ = apply(&mut commands, rule.as_bytes());
            }
            let mut again = AllowedCommands::none(sample::commands());
            for rule in commands.describe().split(|byte| *byte == b' ') {
                apply(&mut again, rule).expect("a description is made of rules");
            }
            prop_assert_eq!((&again.bits, again.future, &again.rules), (&commands.bits, commands.future, &commands.rules));
            let lower = |args: &BTreeMap<usize, Vec<Box<[u8]>>>| {
                args.values().map(|args| args.iter().map(|arg| arg.to_ascii_lowercase()).collect()).collect::<Vec<Vec<_>>>()
            };
            prop_assert_eq!(lower(&again.first_args), lower(&commands.first_args));
        }
    }
}
