//! The table of commands: maps names to declarations. Built once, from constants, and never changed.

use std::fmt;
use std::sync::OnceLock;

use crate::profile::{self, Profile};
use crate::spec::{CommandSpec, Declaration, Module, Row};

/// The table of commands by name: an open-addressed hash table over fingerprints, with at least four slots per command.
pub struct CommandTable {
    commands: Vec<CommandSpec>,
    /// The fingerprint and the number of the command in each slot.
    places: Box<[Option<(u64, u16)>]>,
    /// The modules of Redis whose commands there are.
    modules: Vec<&'static Module>,
    /// The tables of profiles, by their numbers, made when they are first needed.
    profiled: Box<[OnceLock<CommandTable>]>,
}

impl CommandTable {
    /// Registers all rows, adds `HELP` to every container that does not declare it, and numbers commands and
    /// subcommands. Also returns the handlers in the order of these numbers; the handler of a container is `refuse`.
    pub fn register<H: Copy>(
        families: &[&'static [Row<H>]],
        help: fn(&Declaration) -> Row<H>,
        refuse: H,
    ) -> (Self, Box<[H]>) {
        let mut rows: Vec<&'static Row<H>> = families.iter().copied().flatten().collect();
        rows.sort_by_key(|row| row.declaration.name.to_lowercase());
        let mut handlers = Vec::new();
        let mut register = |row: &'static Row<H>, container: Option<&'static Row<H>>| {
            handlers.push(row.handler.unwrap_or(refuse));
            CommandSpec::new(row, container, handlers.len() - 1)
        };
        let commands = rows.into_iter().map(|row| {
            let mut command = register(row, None);
            let inside = row.subcommands.iter().chain(missing_help(row, help));
            command.subcommands = inside.map(|sub| register(sub, Some(row))).collect();
            command
        });
        let table = CommandTable::new(commands.collect());
        let profiled = profile::ROWS.iter().map(|_| OnceLock::new()).collect();
        (CommandTable { profiled, ..table }, handlers.into())
    }

    fn new(commands: Vec<CommandSpec>) -> Self {
        let mut places = vec![None; (commands.len() * 4).next_power_of_two()].into_boxed_slice();
        for (number, command) in commands.iter().enumerate() {
            let fingerprint = fingerprint(command.name.as_bytes());
            let mut at = place(fingerprint, places.len());
            while places[at].is_some() {
                at = (at + 1) % places.len();
            }
            places[at] = Some((fingerprint, number as u16));
        }
        let mut modules = Vec::new();
        for module in commands.iter().filter_map(|command| command.command.group.module()) {
            if !modules.contains(&module) {
                modules.push(module);
            }
        }
        CommandTable { commands, places, modules, profiled: Box::default() }
    }

    /// Returns the table of the commands that a profile has.
    #[cold]
    pub(crate) fn under(&self, profile: &Profile) -> &CommandTable {
        self.profiled[profile.number()].get_or_init(|| {
            CommandTable::new(self.commands.iter().filter_map(|command| command.under(profile)).collect())
        })
    }

    /// Finds a command by its name, case-insensitive.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&CommandSpec> {
        let wanted = fingerprint(name);
        let mut at = place(wanted, self.places.len());
        loop {
            let (fingerprint, number) = self.places[at]?;
            if fingerprint == wanted {
                let command = &self.commands[usize::from(number)];
                // Nearly all clients send upper case, which is compared faster.
                if command.command.name.as_bytes() == name || command.name.as_bytes().eq_ignore_ascii_case(name) {
                    return Some(command);
                }
            }
            at = (at + 1) % self.places.len();
        }
    }

    /// Returns all commands, by name.
    pub fn all(&self) -> &[CommandSpec] {
        &self.commands
    }

    /// Returns all commands by name, each followed by its subcommands; their numbers count in this order.
    pub fn every(&self) -> impl Iterator<Item = &CommandSpec> {
        self.commands.iter().flat_map(CommandSpec::with_subcommands)
    }

    /// Returns the modules of Redis whose commands there are.
    pub(crate) fn modules(&self) -> &[&'static Module] {
        &self.modules
    }

    /// Returns the number of commands and subcommands.
    pub fn count(&self) -> usize {
        self.every().count()
    }

    /// Finds a command by its name, or one of its subcommands by `container|name`.
    pub fn find_full(&self, name: &[u8]) -> Option<&CommandSpec> {
        match name.iter().position(|byte| *byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        }
    }
}

/// Tables are equal if they are the same object.
impl PartialEq for CommandTable {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CommandTable {}

impl fmt::Debug for CommandTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandTable of {}", self.commands.len())
    }
}

/// Returns the HELP of a container that declares none. The table lives as long as the process, and so does the row.
fn missing_help<H: Copy>(container: &Row<H>, help: fn(&Declaration) -> Row<H>) -> Option<&'static Row<H>> {
    let is_missing = container.subcommands.iter().all(|sub| sub.declaration.name != "HELP");
    let help = || &*Box::leak(Box::new(help(&container.declaration)));
    (is_missing && !container.subcommands.is_empty()).then(help)
}

/// Hashes a name, case-insensitive, from its ends and its length. Names with equal fingerprints are distinguished by
/// comparing them.
#[inline]
fn fingerprint(name: &[u8]) -> u64 {
    const LOWER_CASE: u64 = 0x2020_2020_2020_2020;
    let ends = match *name {
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        _ => match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
            }
            _ => name.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        },
    };
    (ends | LOWER_CASE) ^ name.len() as u64
}

/// Returns the first slot to probe; the number of slots is a power of two.
#[inline]
fn place(fingerprint: u64, places: usize) -> usize {
    // Fibonacci hashing: the golden ratio spreads keys that differ in few bits.
    (fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (places - 1)
}
