//! What one session may do: its user, and whether it has proved to be that user.
//!
//! A session keeps a copy of what it needs and looks once per batch at the version of the users to see whether it is
//! still right, so that the user who may do everything pays one branch for a command.

use std::sync::Arc;

use crate::acl::{Acl, User};
use crate::error::Denial;
use crate::resp::Request;
use crate::spec::CommandSpec;

/// Holds the user of one session.
#[derive(Clone)]
pub struct Access {
    user: Arc<User>,
    is_authenticated: bool,
    /// Whether clients that have not authenticated are refused.
    must_authenticate: bool,
    is_free: bool,
    version: u64,
}

impl Access {
    /// Returns what a fresh connection may do.
    pub fn new(acl: &Acl) -> Self {
        // The version is read first: a change in between is then followed, not missed.
        let version = acl.version();
        let user = acl.default_user();
        let is_authenticated = user.admits_everybody();
        Access { must_authenticate: !is_authenticated, is_free: false, user, is_authenticated, version }.weighed()
    }

    fn weighed(mut self) -> Self {
        self.is_free = !self.needs_authentication() && self.user.is_unlimited();
        self
    }

    /// Returns whether every command may be called, with any keys and channels.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.is_free
    }

    /// Returns the user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Returns whether the client has proved to be its user, or did not need to when it connected.
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Returns whether the client must authenticate before anything else.
    pub fn needs_authentication(&self) -> bool {
        self.must_authenticate && !self.is_authenticated
    }

    /// Says what is forbidden of a request, whose number of words fits its command.
    pub fn denial(&self, command: &CommandSpec, request: Request<'_>) -> Option<Denial> {
        if self.is_free { None } else { self.user.denial(command, request) }
    }

    /// Returns whether the user may make this request, and read whatever key with it.
    pub fn reads_all_keys(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        self.is_free || self.user.reads_all_keys(command, request)
    }

    /// Takes over what has changed about the users. Returns whether the session's user still exists; when not, the
    /// session is a stranger's from now on.
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
            must_authenticate: !acl.default_user().admits_everybody(),
            is_free: false,
            version,
        };
        *self = access.weighed();
        still_exists
    }

    /// Logs in with a name and a password; returns whether they are right.
    pub fn log_in(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> bool {
        let version = acl.version();
        let Some(user) = acl.user(name).filter(|user| user.admits(password)) else { return false };
        let must_authenticate = !acl.default_user().admits_everybody();
        *self = Access { user, is_authenticated: true, must_authenticate, is_free: false, version }.weighed();
        true
    }
}
