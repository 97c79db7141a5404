//! Visitors over HTTP: their users, and what these may see.
//!
//! The users are those of ACL. A page shows what INFO, LOCK.LIST, CLIENT LIST and SLOWLOG GET show, so its user must be
//! allowed to call these commands; the metrics of Prometheus require INFO. Attempts with a wrong password go into the
//! ACL log. Locks are released only by the user that the settings name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::acl::{Access, DEFAULT};
use crate::client::caller::Caller;
use crate::client::info::Peer;
use crate::dispatch::denials::record_refused_visit;
use crate::dispatch::plan::find;
use crate::metrics::auth_rate_limit::AuthRateLimit;
use crate::namespace::Namespace;
use crate::resp::RequestBuffer;
use crate::spec::{Names, Renames};

/// Error of AUTH by which a wrong password is counted.
const WRONG_PASSWORD: &[u8] = b"WRONGPASS invalid username-password pair or user is disabled.";

/// A command on which an answer is based.
type Source = &'static [&'static str];

/// Commands on which the metrics of Prometheus are based.
pub(super) const METRICS: &[Source] = &[&["INFO", "all"]];
/// Commands on which the page is based.
pub(super) const PAGE: &[Source] = &[&["INFO", "all"], &["LOCK.LIST", "0"], &["CLIENT", "LIST"], &["SLOWLOG", "GET"]];

/// Reason for which a visitor is refused.
pub(super) enum Refusal {
    /// User name and password are missing or wrong.
    Unknown,
    /// The user may not call this command.
    Forbidden(String),
    /// The user who may release locks has no password.
    NoPassword,
    /// Too many wrong passwords were tried.
    TooMany,
}

/// A peer and its user.
pub(super) struct PageVisitor {
    access: Access,
    /// True if the peer gave a name and a password.
    is_named: bool,
}

impl PageVisitor {
    /// Authenticates a peer by the `Authorization` header of its request, if there is one, and checks that its user may
    /// call the commands on which the answer is based.
    ///
    /// # Errors
    /// The reason for which the peer may not see the answer.
    pub(super) fn admit(
        namespace: &Namespace,
        authorization: Option<&[u8]>,
        peer: Peer,
        (sources, guesses): (&[Source], &AuthRateLimit),
    ) -> Result<Self, Refusal> {
        let info = namespace.clients.visitor(peer, namespace.clock.now());
        let mut caller = Caller::new(info, &namespace.acl);
        if let Some(header) = authorization {
            let (user, password) = read_basic(header).ok_or(Refusal::Unknown)?;
            log_in(namespace, &mut caller, (&user, &password), guesses)?;
        }
        let visitor = PageVisitor { access: caller.access.clone(), is_named: authorization.is_some() };
        if visitor.access.needs_authentication() {
            return Err(Refusal::Unknown);
        }
        if let Some(command) = visitor.first_denied(namespace, sources) {
            record_refused_visit(namespace, &caller, &caller.access.user().name, Some(&command));
            // A peer that gave no name may have another user to name.
            return Err(if visitor.is_named { Refusal::Forbidden(command) } else { Refusal::Unknown });
        }
        Ok(visitor)
    }

    /// Returns true if a page of this visitor may still be shown, after changes of the users.
    pub(super) fn may_still_follow(&mut self, namespace: &Namespace) -> bool {
        let acl = &namespace.acl;
        if self.is_named {
            self.access.follow(acl) && self.access.user().is_enabled() && self.first_denied(namespace, PAGE).is_none()
        } else {
            self.access = Access::new(acl);
            !self.access.needs_authentication() && self.first_denied(namespace, PAGE).is_none()
        }
    }

    /// Returns the first command of the sources that the user may not call.
    fn first_denied(&self, namespace: &Namespace, sources: &[Source]) -> Option<String> {
        let renames = Renames::default();
        sources.iter().find_map(|source| {
            let mut words = RequestBuffer::default();
            source.iter().for_each(|word| words.push(word.as_bytes()));
            let request = words.as_request()?;
            let command = find(request, Names::new(namespace.commands, &renames))?;
            self.access.denial(command, request).map(|_| command.name.clone())
        })
    }
}

/// Returns the name of the user who may release locks from the page, if the settings name one; `None` where an engine
/// keeps the locks, because its calls are not executed here.
pub(super) fn releaser(namespace: &Namespace) -> Option<Vec<u8>> {
    let user = namespace.settings.current().metrics_release_user.clone();
    user.filter(|user| !user.is_empty() && namespace.engine().is_none())
}

/// Authenticates a visitor who wants to release a lock: only as the user that the settings name, and with a password.
///
/// # Errors
/// The reason for which the visitor may not release locks.
pub(super) fn admit_to_release(
    namespace: &Namespace,
    authorization: Option<&[u8]>,
    peer: Peer,
    guesses: &AuthRateLimit,
) -> Result<Caller, Refusal> {
    let (user, password) = authorization.and_then(read_basic).ok_or(Refusal::Unknown)?;
    // Browsers first send the user that they have for the page: whatever its password is, they have to ask for another
    // one.
    if releaser(namespace).as_deref() != Some(&user) {
        return Err(Refusal::Unknown);
    }
    let info = namespace.clients.visitor(peer, namespace.clock.now());
    let mut caller = Caller::new(info, &namespace.acl);
    if let Err(refusal) = log_in(namespace, &mut caller, (&user, &password), guesses) {
        namespace.observed.errors.count(WRONG_PASSWORD);
        return Err(refusal);
    }
    if caller.access.user().accepts_any_password() {
        return Err(Refusal::NoPassword);
    }
    if let Some(command) = caller.access.user().lacking_in("admin") {
        record_refused_visit(namespace, &caller, &user, Some(command));
        return Err(Refusal::Forbidden(command.to_owned()));
    }
    Ok(caller)
}

/// Authenticates a caller. Attempts at the password of the user who may release locks are limited.
fn log_in(
    namespace: &Namespace,
    caller: &mut Caller,
    (user, password): (&[u8], &[u8]),
    guesses: &AuthRateLimit,
) -> Result<(), Refusal> {
    let is_guarded = releaser(namespace).as_deref() == Some(user);
    if is_guarded && !guesses.take(namespace.clock.now().mono_us()) {
        return Err(Refusal::TooMany);
    }
    if !caller.log_in(&namespace.acl, user, password) {
        record_refused_visit(namespace, caller, user, None);
        return Err(Refusal::Unknown);
    }
    if is_guarded {
        guesses.give_back();
    }
    Ok(())
}

/// Parses user and password of HTTP Basic; an empty name stands for the default user.
fn read_basic(header: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = header.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = memchr::memchr(b':', &decoded)?;
    let (user, password) = (&decoded[..colon], &decoded[colon + 1..]);
    Some((if user.is_empty() { DEFAULT } else { user }.to_vec(), password.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_is_read_with_and_without_a_name_and_nothing_else_is() {
        let pair = |user: &str, password: &str| Some((user.as_bytes().to_vec(), password.as_bytes().to_vec()));
        assert_eq!(read_basic(b"Basic YTpiOmM="), pair("a", "b:c"));
        assert_eq!(read_basic(b"basic  OnNlY3JldA=="), pair("default", "secret"));
        for wrong in [&b""[..], b"Basic", b"Basic YQ==", b"Basic !!", b"Bearer YTpi", b"Basic YTpi=", b"\xff\xff"] {
            assert_eq!(read_basic(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
