//! A user: a name, passwords and permissions. Users are immutable; a changed one replaces the old one.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::acl::rules::{RuleError, RuleSettings, merge_selectors};
use crate::acl::selector::Selector;
use crate::error::Denial;
use crate::memory::heap::{COUNTED_LEN, allocation_len, list_len};
use crate::resp::Request;
use crate::spec::{ACCESS, CommandSpec, CommandTable, UPDATE};
use crate::text::until_nul;

/// The name of the user of unauthenticated clients.
pub(crate) const DEFAULT: &[u8] = b"default";

/// One user.
#[derive(Clone, Debug)]
pub struct User {
    /// The name. The address of the allocation distinguishes a user from a later one with the same name, see
    /// [`User::is`].
    pub name: Arc<[u8]>,
    is_enabled: bool,
    needs_no_password: bool,
    /// True if RESTORE payloads are checked in depth.
    sanitizes_payload: bool,
    passwords: Vec<Hash>,
    root: Selector,
    selectors: Vec<Selector>,
}

/// The SHA-256 of a password.
type Hash = [u8; 32];

/// A selector for ACL GETUSER, as the rules that build it.
pub struct ShownSelector {
    /// The rules about commands.
    pub commands: Vec<u8>,
    /// The rules about keys.
    pub keys: Vec<u8>,
    /// The rules about channels.
    pub channels: Vec<u8>,
}

impl User {
    /// Creates a user without any permission, not even to authenticate.
    pub fn new(commands: &'static CommandTable, name: &[u8], all_channels: bool) -> Self {
        User {
            name: name.into(),
            is_enabled: false,
            needs_no_password: false,
            sanitizes_payload: true,
            passwords: Vec::new(),
            root: Selector::new(commands, all_channels),
            selectors: Vec::new(),
        }
    }

    /// Creates the default user in its initial state: without password, with all permissions.
    pub fn all_powerful(commands: &'static CommandTable) -> Self {
        let mut user = User::new(commands, DEFAULT, true);
        (user.is_enabled, user.needs_no_password) = (true, true);
        for rule in [&b"+@all"[..], b"~*"] {
            // These are valid rules.
            let _ = user.root.apply(rule, None);
        }
        user
    }

    /// Returns the bytes allocated, including the user itself.
    pub(super) fn memory(&self) -> usize {
        allocation_len(COUNTED_LEN + size_of::<User>())
            + allocation_len(COUNTED_LEN + self.name.len())
            + list_len::<Hash>(self.passwords.capacity())
            + list_len::<Selector>(self.selectors.capacity())
            + self.root.heap_len()
            + self.selectors.iter().map(Selector::heap_len).sum::<usize>()
    }

    /// Returns true if this is any version of the user whose name has this allocation.
    pub fn is(&self, name: &Arc<[u8]>) -> bool {
        Arc::ptr_eq(&self.name, name)
    }

    /// Returns true if any password is accepted without authentication.
    pub fn accepts_any_password(&self) -> bool {
        self.is_enabled && self.needs_no_password
    }

    /// Returns true if no password is required; a disabled user is rejected nevertheless.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Returns true if the user may authenticate at all.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns true if the user accepts this password. The comparison takes constant time.
    pub fn admits(&self, password: &[u8]) -> bool {
        let hash = hash(password);
        let is_right = |known: &Hash| known.ct_eq(&hash);
        let any = self.passwords.iter().map(is_right).fold(Choice::from(0), |any, one| any | one);
        self.is_enabled && (self.needs_no_password || any.into())
    }

    /// Applies the rules of ACL SETUSER, all or none.
    ///
    /// # Errors
    /// The reason, in Redis' words.
    pub fn apply_all(&mut self, words: &[impl AsRef<[u8]>], by: RuleSettings) -> Result<(), Vec<u8>> {
        let quoting =
            |start: &str, word: &[u8], end: &str| [start.as_bytes(), until_nul(word), end.as_bytes()].concat();
        let rules = merge_selectors(words)
            .map_err(|at| quoting("Unmatched parenthesis in acl selector starting at '", words[at].as_ref(), "'."))?;
        let mut changed = self.clone();
        for rule in rules {
            changed
                .apply(&rule, by)
                .map_err(|error| quoting("Error in ACL SETUSER modifier '", &rule, &format!("': {error}")))?;
        }
        *self = changed;
        Ok(())
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// The reason; the user is unchanged then.
    pub fn apply(&mut self, rule: &[u8], by: RuleSettings) -> Result<(), RuleError> {
        match until_nul(rule).to_ascii_lowercase().as_slice() {
            _ if rule.is_empty() => {}
            b"on" => self.is_enabled = true,
            b"off" => self.is_enabled = false,
            b"skip-sanitize-payload" => self.sanitizes_payload = false,
            b"sanitize-payload" => self.sanitizes_payload = true,
            b"nopass" => self.set_passwords(true),
            b"resetpass" => self.set_passwords(false),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => {
                let empty = User::new(self.root.table(), b"", by.all_channels);
                *self = User { name: self.name.clone(), ..empty };
            }
            _ => return self.apply_sign(rule, by),
        }
        Ok(())
    }

    /// Applies a rule whose kind is given by its first byte.
    fn apply_sign(&mut self, rule: &[u8], by: RuleSettings) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(hash(password)),
            [b'#', digits @ ..] => self.add_password(read_hash(digits)?),
            [b'<', password @ ..] => return self.remove_password(&hash(password)),
            [b'!', digits @ ..] => return self.remove_password(&read_hash(digits)?),
            [b'(', inside @ .., b')'] => self.selectors.push(Selector::read(self.root.table(), inside, by)?),
            _ => return self.root.apply(rule, by.profile),
        }
        Ok(())
    }

    fn set_passwords(&mut self, none_needed: bool) {
        self.passwords.clear();
        self.needs_no_password = none_needed;
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, hash: &Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash).ok_or(RuleError::NoSuchPassword)?;
        self.passwords.remove(at);
        Ok(())
    }

    /// Sets a single password, or none (`requirepass`).
    pub fn require(&mut self, password: Option<&[u8]>) {
        self.set_passwords(password.is_none());
        self.passwords.extend(password.map(hash));
    }

    /// Returns true if nothing at all is forbidden, which makes further checks unnecessary.
    pub fn is_unlimited(&self) -> bool {
        self.selectors().any(Selector::is_unlimited)
    }

    /// Returns the missing permission for a request whose number of arguments fits its command; `None` if one selector
    /// allows all of it.
    pub fn denial(&self, command: &CommandSpec, request: Request<'_>) -> Option<Denial> {
        let mut told = Denial::Command;
        for selector in self.selectors() {
            told = told.max(selector.denial(command, request)?);
        }
        Some(told)
    }

    /// Returns the first command of a category that the root selector forbids for all keys; other selectors are
    /// ignored.
    #[cfg(feature = "metrics")]
    pub(crate) fn lacking_in(&self, category: &str) -> Option<&'static str> {
        self.root.lacking_in(category)
    }

    /// Returns true if this request is allowed and may read any key.
    pub fn reads_all_keys(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        self.selectors().any(|selector| selector.reads_all_keys(command, request))
    }

    /// Returns true if the user may read a key, by some command.
    pub fn reads_key(&self, key: &[u8]) -> bool {
        self.selectors().any(|selector| selector.permits_key(key, ACCESS))
    }

    /// Returns true if the user may change a key, by some command.
    pub(crate) fn writes_key(&self, key: &[u8]) -> bool {
        self.selectors().any(|selector| selector.permits_key(key, UPDATE))
    }

    /// Returns true if the user may stay subscribed to a channel, or to a pattern of channels.
    pub fn permits_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors().any(|selector| selector.permits_channel(channel, is_pattern))
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Returns the names of the flags, in Redis' order.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.is_enabled { "on" } else { "off" }];
        flags.extend(self.needs_no_password.then_some("nopass"));
        flags.push(if self.sanitizes_payload { "sanitize-payload" } else { "skip-sanitize-payload" });
        flags
    }

    /// Returns the hashes of the passwords in hexadecimal, oldest first.
    pub fn hashes(&self) -> impl ExactSizeIterator<Item = String> {
        self.passwords.iter().map(|hash| to_hex(hash))
    }

    /// Returns the root selector, then the others.
    pub fn shown(&self) -> Vec<ShownSelector> {
        let show = |selector: &Selector| ShownSelector {
            commands: selector.describe_commands(),
            keys: selector.describe_keys(),
            channels: selector.describe_channels(),
        };
        self.selectors().map(show).collect()
    }

    /// Returns the user's line in a file of rules: `user`, the name, and the rules that build this user from a new one.
    pub fn line(&self) -> Vec<u8> {
        let mut words = vec![b"user".to_vec(), self.name.to_vec()];
        words.extend(self.flags().into_iter().map(Into::into));
        words.extend(self.hashes().map(|digits| format!("#{digits}").into()));
        words.push(self.root.describe());
        words.extend(self.selectors.iter().map(|selector| [b"(", &selector.describe()[..], b")"].concat()));
        words.join(&b' ')
    }
}

fn hash(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

/// Writes bytes in lower-case hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses 64 lower-case hexadecimal digits.
fn read_hash(digits: &[u8]) -> Result<Hash, RuleError> {
    let mut hash = Hash::default();
    if digits.len() != 2 * hash.len() {
        return Err(RuleError::BadHash);
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(RuleError::BadHash),
    };
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(hash)
}
