//! Users and their permissions (ACL), as Redis 7.0 defines them.
//!
//! Rules ([`User::apply`]) build selectors, each of which allows commands together with keys and channels. The gate
//! checks [`Access::denial`] before a command, and the ACL commands show and change users; both are elsewhere. This
//! module knows neither clients nor the wire.
//!
//! Invariant: a user is immutable. A change replaces a [`User`] with a new one and increments [`Acl::version`], by
//! which sessions notice it before their next batch.

mod access;
mod commands;
mod file;
mod log;
mod rules;
mod selector;
#[cfg(test)]
mod tests;
mod user;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use tracing::warn;

pub(crate) use access::Access;
pub(crate) use log::{AclLog, Context, DenialEntry, DenialReason};
pub use rules::RuleSettings;
pub(crate) use rules::{RuleError, has_blanks};
pub use user::User;
pub(crate) use user::{DEFAULT, ShownSelector, to_hex};
use users::Users;

use crate::spec::CommandTable;
use crate::text::{read_file, system_text};

/// The result of loading the ACL file, for the clients of the users.
#[derive(Default)]
pub struct LoadedUsers {
    /// The users that were removed.
    pub gone: Vec<Arc<User>>,
    /// The users that remain, before and after.
    pub kept: Vec<(Arc<User>, Arc<User>)>,
}

/// The users of one instance, and the ACL log.
pub struct Acl {
    commands: &'static CommandTable,
    /// Always contains the default user.
    users: RwLock<Users>,
    version: AtomicU64,
    /// The `requirepass` setting that the default user was last updated from.
    requirepass: Mutex<Option<Vec<u8>>>,
    /// The denials.
    pub log: Mutex<AclLog>,
}

/// The ACL file (`aclfile`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFile {
    /// The path.
    pub path: PathBuf,
    /// The name in the settings, and so in errors.
    pub name: Vec<u8>,
}

/// The settings about users.
pub struct UserSettings<'a> {
    /// The password of the default user.
    pub requirepass: Option<&'a [u8]>,
    /// The users that the settings declare.
    pub declared: &'a [DeclaredUser],
    /// The ACL file.
    pub file: Option<UserFile>,
    /// The settings by which their rules are read.
    pub rules: RuleSettings,
}

/// A user declared in a configuration file or on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredUser {
    /// The name.
    pub name: Vec<u8>,
    /// The rules, with selectors joined to one rule each.
    pub rules: Vec<Vec<u8>>,
}

impl DeclaredUser {
    /// Parses the arguments after the word `user`. The commands' existence is checked at startup.
    ///
    /// # Errors
    /// The cause, and the position of the word to blame, `user` being the first: Redis counts it without the two words
    /// before the rules.
    pub fn read(
        commands: &'static CommandTable,
        words: &[Vec<u8>],
        all_channels: bool,
    ) -> Result<Self, (RuleError, usize)> {
        let [name, rules @ ..] = words else { return Err((RuleError::Syntax, 0)) };
        // Redis has no error of its own for an open parenthesis here, and reports this one.
        let rules = rules::merge_selectors(rules).map_err(|at| (RuleError::Unknown, at))?;
        let mut trial = User::new(commands, name, all_channels);
        for (at, rule) in rules.iter().enumerate() {
            match trial.apply(rule, RuleSettings { all_channels, profile: None }) {
                Ok(()) | Err(RuleError::Unknown) => {}
                Err(error) => return Err((error, at)),
            }
        }
        Ok(DeclaredUser { name: name.clone(), rules })
    }
}

impl Acl {
    /// Creates the default user only, with this password.
    pub fn new(commands: &'static CommandTable, requirepass: Option<&[u8]>) -> Self {
        let (mut user, mut users) = (User::all_powerful(commands), Users::default());
        user.require(requirepass);
        users.insert(user);
        Acl {
            commands,
            users: RwLock::new(users),
            version: AtomicU64::new(0),
            requirepass: Mutex::new(requirepass.map(<[u8]>::to_vec)),
            log: Mutex::default(),
        }
    }

    /// Creates the users of the settings: the declared ones, or those of the ACL file.
    ///
    /// # Errors
    /// The reason why the server cannot start, in Redis' words.
    pub fn configured(commands: &'static CommandTable, setup: &UserSettings<'_>) -> Result<Self, String> {
        let acl = Acl::new(commands, setup.requirepass);
        if setup.file.is_some() && !setup.declared.is_empty() {
            return Err("Configuring Redis with users defined in redis.conf and at the same setting an ACL file path \
                        is invalid. This setup is very likely to lead to configuration errors and security holes, \
                        please define either an ACL file or declare users directly in your redis.conf, but not both."
                .into());
        }
        for declared in setup.declared {
            acl.declare(declared, setup.rules)?;
        }
        if let Some(file) = &setup.file {
            acl.load(file, setup.rules).map_err(|errors| {
                format!("Aborting Redis startup because of ACL errors: {}", String::from_utf8_lossy(&errors))
            })?;
        }
        Ok(acl)
    }

    fn declare(&self, declared: &DeclaredUser, by: RuleSettings) -> Result<(), String> {
        if has_blanks(&declared.name) {
            return Err("Spaces not allowed in ACL usernames".into());
        }
        let shown = String::from_utf8_lossy(&declared.name);
        let mut user = match self.user(&declared.name) {
            Some(user) => {
                let mut user = User::clone(&user);
                // "reset" is always a valid rule.
                let _ = user.apply(b"reset", by);
                user
            }
            None => User::new(self.commands, &declared.name, by.all_channels),
        };
        for rule in &declared.rules {
            user.apply(rule, by).map_err(|error| {
                let rule = String::from_utf8_lossy(rule);
                format!("Error loading ACL rule '{rule}' for the user named '{shown}': {error}")
            })?;
        }
        if !user.is_enabled() {
            warn!("The user '{shown}' is disabled (no 'on' in its rules). Make sure that this is meant.");
        }
        self.put(user);
        Ok(())
    }

    /// Returns a number that changes with every change of the users.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the user of unauthenticated clients.
    pub fn default_user(&self) -> Arc<User> {
        self.user(DEFAULT).expect("the default user is never removed")
    }

    /// Finds a user by name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name)
    }

    /// Returns all users, by name.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().iter().cloned().collect()
    }

    /// Returns the bytes allocated for all users.
    pub fn memory(&self) -> usize {
        self.users.read().memory()
    }

    /// Changes the users and increments the version.
    fn change<T>(&self, change: impl FnOnce(&mut Users) -> T) -> T {
        let mut users = self.users.write();
        let result = change(&mut users);
        // Incremented under the lock: a session that sees the new version finds the new users.
        self.version.fetch_add(1, Ordering::Release);
        result
    }

    fn put(&self, user: User) {
        self.change(|users| users.insert(user));
    }

    /// Creates a user, or changes one, by rules.
    ///
    /// # Errors
    /// The first invalid rule, in Redis' words; nothing has changed then.
    pub fn set_user(&self, name: &[u8], rules: &[impl AsRef<[u8]>], by: RuleSettings) -> Result<(), Vec<u8>> {
        self.change(|users| {
            let mut user = match users.get(name) {
                Some(user) => User::clone(&user),
                None => User::new(self.commands, name, by.all_channels),
            };
            user.apply_all(rules, by)?;
            users.insert(user);
            Ok(())
        })
    }

    /// Removes users and returns those that existed. The caller must not name the default user.
    pub fn remove<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Vec<Arc<User>> {
        self.change(|users| names.filter(|name| *name != DEFAULT).filter_map(|name| users.remove(name)).collect())
    }

    /// Sets the default user's password if `requirepass` has changed.
    pub fn follow_requirepass(&self, requirepass: Option<&[u8]>) {
        let mut known = self.requirepass.lock();
        if known.as_deref() != requirepass {
            *known = requirepass.map(<[u8]>::to_vec);
            self.change(|users| {
                let mut default = User::clone(&users.get(DEFAULT).expect("the default user is never removed"));
                default.require(requirepass);
                users.insert(default);
            });
        }
    }

    /// Replaces all users by those of the file; a user that remains keeps its identity, possibly with other rules.
    ///
    /// # Errors
    /// All errors of the file; nothing has changed then.
    pub fn load(&self, UserFile { path, name }: &UserFile, by: RuleSettings) -> Result<LoadedUsers, Vec<u8>> {
        let text = read_file(path).map_err(|cause| {
            let cause = system_text(&cause);
            [b"Error loading ACLs, opening file '", &name[..], b"': ", cause.as_bytes()].concat()
        })?;
        let mut read = file::read_users(self.commands, &text, name, by)?;
        if !read.iter().any(|user| *user.name == *DEFAULT) {
            read.push(User::all_powerful(self.commands));
        }
        Ok(self.change(|users| {
            let (mut before, mut loaded) = (std::mem::take(users), LoadedUsers::default());
            for mut user in read {
                let known = before.remove(&user.name);
                if let Some(known) = &known {
                    user.name = known.name.clone();
                }
                let user = users.insert(user);
                loaded.kept.extend(known.map(|known| (known, user)));
            }
            loaded.gone.extend(before.iter().cloned());
            loaded
        }))
    }

    /// Writes all users to the file.
    ///
    /// # Errors
    /// An I/O error if the file cannot be written; the old file is unchanged then.
    pub fn save(&self, file: &UserFile) -> std::io::Result<()> {
        let mut text = self.users().iter().map(|user| user.line()).collect::<Vec<_>>().join(&b'\n');
        text.push(b'\n');
        file::replace(&file.path, &text, self.version())
    }
}
