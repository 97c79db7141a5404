//! Who asks over HTTP, and what they may see.
//!
//! The users are those of ACL. A page shows what INFO, LOCK.LIST, CLIENT LIST and SLOWLOG GET show, so its user must be
//! allowed to call these, and the metrics of Prometheus are INFO. Attempts with a wrong password go into the ACL log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::acl::{Access, DEFAULT};
use crate::client::caller::Caller;
use crate::client::info::Peer;
use crate::dispatch::denials::record_refused_visit;
use crate::dispatch::plan::find;
use crate::namespace::Namespace;
use crate::resp::RequestBuffer;
use crate::spec::{Names, Renames};

/// A command on which an answer is based.
type Source = &'static [&'static str];

/// What the metrics of Prometheus are based on.
pub(super) const METRICS: &[Source] = &[&["INFO", "all"]];
/// What the page is based on.
pub(super) const PAGE: &[Source] = &[&["INFO", "all"], &["LOCK.LIST", "0"], &["CLIENT", "LIST"], &["SLOWLOG", "GET"]];

/// Why somebody may not see something.
pub(super) enum Refusal {
    /// User name and password are missing or wrong.
    Unknown,
    /// The user may not call this command.
    Forbidden(String),
}

/// A peer and its user.
pub(super) struct Visitor {
    access: Access,
    /// Whether it gave a name and a password.
    is_named: bool,
}

impl Visitor {
    /// Authenticates a peer by the `Authorization` header of its request, if there is one, and checks that it may call
    /// what its answer is based on.
    ///
    /// # Errors
    /// Why it may not see the answer.
    pub(super) fn admit(
        namespace: &Namespace,
        authorization: Option<&[u8]>,
        peer: Peer,
        sources: &[Source],
    ) -> Result<Self, Refusal> {
        let info = namespace.clients.visitor(peer, namespace.clock.now());
        let mut caller = Caller::new(info, &namespace.acl);
        if let Some(header) = authorization {
            let (user, password) = read_basic(header).ok_or(Refusal::Unknown)?;
            if !caller.log_in(&namespace.acl, &user, &password) {
                record_refused_visit(namespace, &caller, &user, None);
                return Err(Refusal::Unknown);
            }
        }
        let visitor = Visitor { access: caller.access.clone(), is_named: authorization.is_some() };
        if visitor.access.needs_authentication() {
            return Err(Refusal::Unknown);
        }
        if let Some(command) = visitor.lacking(namespace, sources) {
            record_refused_visit(namespace, &caller, &caller.access.user().name, Some(&command));
            // Without a name, it may have another user to name.
            return Err(if visitor.is_named { Refusal::Forbidden(command) } else { Refusal::Unknown });
        }
        Ok(visitor)
    }

    /// Returns whether a page of this visitor may still be shown, after changes of the users.
    pub(super) fn may_still_follow(&mut self, namespace: &Namespace) -> bool {
        let acl = &namespace.acl;
        match self.is_named {
            true => {
                self.access.follow(acl) && self.access.user().is_enabled() && self.lacking(namespace, PAGE).is_none()
            }
            false => {
                self.access = Access::new(acl);
                !self.access.needs_authentication() && self.lacking(namespace, PAGE).is_none()
            }
        }
    }

    /// Returns the first command that the user may not call.
    fn lacking(&self, namespace: &Namespace, sources: &[Source]) -> Option<String> {
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

/// Parses user and password of HTTP Basic; without a name, it is the default user.
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
