//! The permissions of one session: its user, and its state of authentication.
//!
//! A session caches the derived flags and compares the version of the users once per batch, so that a user with all
//! permissions costs one branch per command.

use std::sync::Arc;

use crate::acl::{Acl, User};
use crate::error::Denial;
use crate::resp::Request;
use crate::spec::CommandSpec;

/// The user of one session.
#[derive(Clone)]
pub struct Access {
    user: Arc<User>,
    is_authenticated: bool,
    /// True if unauthenticated clients are rejected.
    must_authenticate: bool,
    is_free: bool,
    version: u64,
}

impl Access {
    /// Returns the permissions of a new connection.
    pub fn new(acl: &Acl) -> Self {
        // The version is read first, so that a concurrent change is noticed late instead of missed.
        let version = acl.version();
        let user = acl.default_user();
        let is_authenticated = user.accepts_any_password();
        Access { must_authenticate: !is_authenticated, is_free: false, user, is_authenticated, version }.weighed()
    }

    fn weighed(mut self) -> Self {
        self.is_free = !self.needs_authentication() && self.user.is_unlimited();
        self
    }

    /// Returns true if every command may be called, with any keys and channels.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// Returns the user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Returns true if the client has authenticated, or did not need to when it connected.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Returns whether the client must authenticate before anything else.
    pub fn needs_authentication(&self) -> bool {
        self.must_authenticate && !self.is_authenticated
    }

    /// Returns the missing permission of a request whose number of arguments fits its command.
    pub fn denial(&self, command: &CommandSpec, request: Request<'_>) -> Option<Denial> {
        if self.is_free { None } else { self.user.denial(command, request) }
    }

    /// Returns true if the user may make this request and read any key.
    pub fn reads_all_keys(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        self.is_free || self.user.reads_all_keys(command, request)
    }

    /// Returns whether the user may read a key, by some command.
    pub fn reads_key(&self, key: &[u8]) -> bool {
        self.is_free || self.user.reads_key(key)
    }

    /// Returns whether the user may change a key, by some command.
    pub(crate) fn writes_key(&self, key: &[u8]) -> bool {
        self.is_free || self.user.writes_key(key)
    }

    /// Applies changes of the users. Returns true if the session's user still exists; otherwise the session is
    /// unauthenticated from now on.
    #[inline]
    pub fn follow(&mut self, acl: &Acl) -> bool {
        self.version == acl.version() || self.refresh(acl)
    }

    #[cold]
    fn refresh(&mut self, acl: &Acl) -> bool {
        let version = acl.version();
        let present = acl.user(&self.user.name).filter(|user| user.is(&self.user.name));
        let still_exists = present.is_some();
        let access = Access {
            user: present.unwrap_or_else(|| acl.default_user()),
            is_authenticated: self.is_authenticated && still_exists,
            must_authenticate: !acl.default_user().accepts_any_password(),
            is_free: false,
            version,
        };
        *self = access.weighed();
        still_exists
    }

    /// Returns true if the users have changed since the session last looked.
    pub fn is_outdated(&self, acl: &Acl) -> bool {
        self.version != acl.version()
    }

    /// Authenticates with a name and a password; returns true if they are right.
    pub fn log_in(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> bool {
        let version = acl.version();
        let Some(user) = acl.user(name).filter(|user| user.admits(password)) else { return false };
        let must_authenticate = !acl.default_user().accepts_any_password();
        *self = Access { user, is_authenticated: true, must_authenticate, is_free: false, version }.weighed();
        true
    }
}
