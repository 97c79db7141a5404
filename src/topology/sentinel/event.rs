//! Changes that the sentinels make, and events that they publish, with the words of Redis' Sentinel.

use crate::topology::sentinel::place::{Addresses, NodeNumber, Place};

/// A change that the caller applies, in the order of the list. A data node whose role changes closes the connections of
/// its clients and subscribers, as Redis' Sentinel tells it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SentinelChange {
    /// A replica becomes a master.
    Promoted { node: NodeNumber },
    /// A data node becomes a replica of another one, or of another one than before.
    Follows { node: NodeNumber, primary: NodeNumber },
    /// A sentinel ends itself, as `SENTINEL SIMULATE-FAILURE` has asked it to.
    Crashed { sentinel: NodeNumber },
    /// A sentinel publishes an event.
    SentinelEvent(Box<SentinelEvent>),
}

/// An event: a message on a channel of the same name as its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentinelEvent {
    pub(crate) sentinel: NodeNumber,
    pub(crate) channel: &'static str,
    pub(super) subject: Option<Subject>,
    pub(super) detail: Detail,
}

/// The instance that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) kind: SubjectKind,
    pub(super) place: Place,
    pub(super) master_name: String,
    pub(super) master_place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubjectKind {
    Master,
    Replica,
    /// A sentinel, with its id.
    Sentinel(String),
}

/// The part of a message behind its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    None,
    Text(String),
    /// Addresses of a master before and after a change.
    Switch {
        name: String,
        from: Place,
        to: Place,
    },
    /// The address that a sentinel of this id announces.
    Announced {
        place: Place,
        id: String,
    },
}

impl SentinelEvent {
    pub(super) fn new(
        sentinel: NodeNumber,
        channel: &'static str,
        subject: impl Into<Option<Subject>>,
        detail: Detail,
    ) -> Self {
        SentinelEvent { sentinel, channel, subject: subject.into(), detail }
    }

    /// Returns the message, in which nodes have these addresses.
    pub(crate) fn message(&self, addresses: &dyn Addresses) -> String {
        let subject = self.subject.as_ref().map(|subject| subject.text(addresses)).unwrap_or_default();
        let detail = self.detail.text(addresses);
        let separator = if subject.is_empty() || detail.is_empty() { "" } else { " " };
        format!("{subject}{separator}{detail}")
    }
}

impl Subject {
    fn text(&self, addresses: &dyn Addresses) -> String {
        let place = self.place.spaced(addresses);
        let of = || format!(" @ {} {}", self.master_name, self.master_place.spaced(addresses));
        match &self.kind {
            SubjectKind::Master => format!("master {} {place}", self.master_name),
            SubjectKind::Replica => format!("slave {} {place}{}", self.place.joined(addresses), of()),
            SubjectKind::Sentinel(id) => format!("sentinel {id} {place}{}", of()),
        }
    }
}

impl Detail {
    fn text(&self, addresses: &dyn Addresses) -> String {
        match self {
            Detail::None => String::new(),
            Detail::Text(text) => text.clone(),
            Detail::Switch { name, from, to } => {
                format!("{name} {} {}", from.spaced(addresses), to.spaced(addresses))
            }
            Detail::Announced { place, id } => {
                let (host, port) = place.address(addresses);
                format!("ip {host} port {port} for {id}")
            }
        }
    }
}
