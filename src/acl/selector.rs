//! A selector: allowed commands, with the keys and channels they may use. A user has a root selector and may have more.

use crate::acl::commands::AllowedCommands;
use crate::acl::rules::{RuleError, RuleSettings, has_blanks};
use crate::error::Denial;
use crate::glob::Pattern;
use crate::memory::heap::{allocation_len, list_len};
use crate::profile::Profile;
use crate::resp::Request;
use crate::spec::{ACCESS, CommandSpec, CommandTable, DELETE, INSERT, KeyFlags, UPDATE};
use crate::text::{split_words, until_nul};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    commands: AllowedCommands,
    keys: Keys,
    channels: Channels,
}

/// The keys that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Keys {
    All,
    Matching(Vec<KeyPattern>),
}

/// The channels that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Channels {
    All,
    Matching(Vec<Pattern<Box<[u8]>>>),
}

/// A pattern of keys and the access it allows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    may: Access,
    pattern: Pattern<Box<[u8]>>,
}

/// The access to keys that is allowed or needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Access {
    read: bool,
    write: bool,
}

impl Access {
    /// Returns the access that a command needs.
    fn needed_for(flags: KeyFlags) -> Self {
        Access { read: flags & ACCESS != 0, write: flags & (INSERT | DELETE | UPDATE) != 0 }
    }

    fn covers(self, needed: Access) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write)
    }

    fn prefix(self) -> &'static [u8] {
        match (self.read, self.write) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        }
    }
}

impl Selector {
    /// Creates a selector that allows nothing, except all channels where `acl-pubsub-default` says so.
    pub(super) fn new(table: &'static CommandTable, all_channels: bool) -> Self {
        let channels = if all_channels { Channels::All } else { Channels::Matching(Vec::new()) };
        Selector { commands: AllowedCommands::none(table), keys: Keys::Matching(Vec::new()), channels }
    }

    /// Parses the text of a selector between parentheses.
    pub(super) fn read(table: &'static CommandTable, text: &[u8], by: RuleSettings) -> Result<Self, RuleError> {
        let mut selector = Selector::new(table, by.all_channels);
        // As in Redis, a text with unbalanced quotes counts as empty.
        for rule in split_words(text).unwrap_or_default() {
            selector.apply(&rule, by.profile)?;
        }
        Ok(selector)
    }

    pub(super) fn heap_len(&self) -> usize {
        let of_keys = match &self.keys {
            Keys::All => 0,
            Keys::Matching(patterns) => {
                list_len::<KeyPattern>(patterns.capacity()) + patterns_len(patterns.iter().map(|known| &known.pattern))
            }
        };
        let of_channels = match &self.channels {
            Channels::All => 0,
            Channels::Matching(patterns) => {
                list_len::<Pattern<Box<[u8]>>>(patterns.capacity()) + patterns_len(patterns.iter())
            }
        };
        self.commands.heap_len() + of_keys + of_channels
    }

    /// Returns the first command of a category that is not allowed.
    #[cfg(feature = "metrics")]
    pub(super) fn lacking_in(&self, category: &str) -> Option<&'static str> {
        self.commands.lacking_in(category)
    }

    pub(super) fn table(&self) -> &'static CommandTable {
        self.commands.table()
    }

    /// Applies a rule about commands, keys or channels.
    pub(super) fn apply(&mut self, rule: &[u8], profile: Option<&Profile>) -> Result<(), RuleError> {
        match until_nul(rule).to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.keys = Keys::All,
            b"resetkeys" => self.keys = Keys::Matching(Vec::new()),
            b"allchannels" | b"&*" => self.channels = Channels::All,
            b"resetchannels" => self.channels = Channels::Matching(Vec::new()),
            b"allcommands" | b"+@all" => self.commands = AllowedCommands::all(self.table()),
            b"nocommands" | b"-@all" => self.commands = AllowedCommands::none(self.table()),
            _ => return self.apply_sign(rule, profile),
        }
        Ok(())
    }

    /// Applies a rule whose kind is given by its first byte.
    fn apply_sign(&mut self, rule: &[u8], profile: Option<&Profile>) -> Result<(), RuleError> {
        match rule {
            [b'~' | b'%', ..] => self.add_keys(rule),
            [b'&', pattern @ ..] => self.add_channels(pattern),
            [sign @ (b'+' | b'-'), what @ ..] => self.commands.apply(what, *sign == b'+', profile),
            _ => Err(RuleError::Syntax),
        }
    }

    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        let Keys::Matching(patterns) = &mut self.keys else { return Err(RuleError::KeysAreAll) };
        let (may, pattern) = read_key_rule(rule)?;
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        match patterns.iter_mut().find(|known| *known.pattern.text() == *pattern) {
            Some(known) => {
                known.may.read |= may.read;
                known.may.write |= may.write;
            }
            None => patterns.push(KeyPattern { may, pattern: Pattern::new(pattern.into()) }),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        let Channels::Matching(patterns) = &mut self.channels else { return Err(RuleError::ChannelsAreAll) };
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        if !patterns.iter().any(|known| known.text() == pattern) {
            patterns.push(Pattern::new(pattern.into()));
        }
        Ok(())
    }

    /// Returns true if nothing is forbidden.
    pub(super) fn is_unlimited(&self) -> bool {
        self.commands.are_all() && self.keys == Keys::All && self.channels == Channels::All
    }

    /// Returns the missing permission of a request; `None` if nothing is forbidden.
    pub(super) fn denial(&self, command: &CommandSpec, request: Request<'_>) -> Option<Denial> {
        if !self.commands.permit(command, request) {
            return Some(Denial::Command);
        }
        let mut keys = command.keys_of(request);
        if let Some((at, _)) = keys.find(|(at, flags)| !self.permits_key(request.arg(*at), *flags)) {
            return Some(Denial::Key(at));
        }
        let mut channels = command.channels_of(request);
        let denied = channels.find(|(at, is_pattern)| !self.permits_channel(request.arg(*at), *is_pattern));
        denied.map(|(at, _)| Denial::Channel(at))
    }

    /// Returns true if a request is allowed and may read any key.
    pub(super) fn reads_all_keys(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        self.commands.permit(command, request)
            && match &self.keys {
                Keys::All => true,
                Keys::Matching(patterns) => patterns.iter().any(|known| known.may.read && known.pattern.text() == b"*"),
            }
    }

    /// Returns true if a command with these key flags may access a key.
    pub(super) fn permits_key(&self, key: &[u8], flags: KeyFlags) -> bool {
        let needed = Access::needed_for(flags);
        match &self.keys {
            Keys::All => true,
            Keys::Matching(patterns) => {
                patterns.iter().any(|known| known.may.covers(needed) && known.pattern.matches(key))
            }
        }
    }

    /// Returns true if a channel may be published or subscribed to. A pattern must be allowed literally.
    pub(super) fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        match &self.channels {
            Channels::All => true,
            Channels::Matching(patterns) => patterns
                .iter()
                .any(|known| if is_pattern { *known.text() == *until_nul(channel) } else { known.matches(channel) }),
        }
    }

    pub(super) fn describe_commands(&self) -> Vec<u8> {
        self.commands.describe()
    }

    pub(super) fn describe_keys(&self) -> Vec<u8> {
        match &self.keys {
            Keys::All => b"~*".to_vec(),
            Keys::Matching(patterns) => {
                let rules: Vec<_> =
                    patterns.iter().map(|known| [known.may.prefix(), known.pattern.text()].concat()).collect();
                rules.join(&b' ')
            }
        }
    }

    pub(super) fn describe_channels(&self) -> Vec<u8> {
        match &self.channels {
            Channels::All => b"&*".to_vec(),
            Channels::Matching(patterns) => {
                let rules: Vec<_> = patterns.iter().map(|known| [b"&", known.text()].concat()).collect();
                rules.join(&b' ')
            }
        }
    }

    /// Returns all rules; applied to a new selector, they build an equal one.
    pub(super) fn describe(&self) -> Vec<u8> {
        let reset = if self.channels == Channels::All { b"".to_vec() } else { b"resetchannels".to_vec() };
        let parts = [self.describe_keys(), reset, self.describe_channels(), self.describe_commands()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(&b' ')
    }
}

/// Splits a rule about keys into the access and the pattern. `%R` without `~` has an empty pattern, as in Redis.
fn read_key_rule(rule: &[u8]) -> Result<(Access, &[u8]), RuleError> {
    let [b'%', rest @ ..] = rule else { return Ok((Access { read: true, write: true }, &rule[1..])) };
    let mut may = Access { read: false, write: false };
    let mut pattern: &[u8] = b"";
    for (at, letter) in rest.iter().enumerate() {
        match letter {
            b'R' | b'r' if !may.read => may.read = true,
            b'W' | b'w' if !may.write => may.write = true,
            b'~' => {
                pattern = &rest[at + 1..];
                break;
            }
            _ => return Err(RuleError::Syntax),
        }
    }
    // Redis accepts a rule without either letter and crashes when it has to describe it.
    if may.read || may.write { Ok((may, pattern)) } else { Err(RuleError::Syntax) }
}

fn patterns_len<'a>(patterns: impl Iterator<Item = &'a Pattern<Box<[u8]>>>) -> usize {
    patterns.map(|pattern| allocation_len(pattern.text().len()) + pattern.memory()).sum()
}
