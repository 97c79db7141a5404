//! What the engine asks of the cluster: transactions, reads, and the changes since a revision. Of etcd's terms, but without
//! its client, so that tests have a simulated cluster.

/// A number of the cluster's changes, larger for each.
pub(super) type Revision = i64;

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// When it was last changed.
    pub(super) mod_revision: Revision,
    /// How often it was changed since it was created.
    pub(super) version: i64,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The name was last changed at this revision; 0 for one that is missing.
    Unchanged(Vec<u8>, Revision),
    /// How often the name was changed since it was created; 0 for one that is missing.
    Version(Vec<u8>, i64),
    /// The name is there.
    Exists(Vec<u8>),
}

/// A change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Sets a name to a value.
    Put(Vec<u8>, Vec<u8>),
    /// Sets a name to a value, until the lease of the process ends.
    PutLeased(Vec<u8>, Vec<u8>),
    /// Removes a name.
    Delete(Vec<u8>),
    /// Removes all names from the first one up to the second one.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Changes that are made if all tests hold; otherwise names are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) tests: Vec<Test>,
    pub(super) changes: Vec<Change>,
    pub(super) reads: Vec<Vec<u8>>,
}

/// What a transaction has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    /// The revision that it has made, or at which it has read.
    pub(super) revision: Revision,
    /// Whether all tests did hold.
    pub(super) is_committed: bool,
    /// What it has read.
    pub(super) read: Vec<Option<Pair>>,
}

/// Why a request to the cluster has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was refused, and has changed nothing.
    Refused(String),
    /// The lease of the process has expired; the request has changed nothing.
    LeaseExpired,
    /// A limit of the cluster is exceeded, which it may have noticed after it has made the change. What it has not made by now
    /// it never makes.
    Exhausted(String),
    /// It is not known whether it has changed anything, or is going to.
    Unknown(String),
}

impl Failure {
    /// Returns the reason in words.
    pub(super) fn reason(&self) -> &str {
        match self {
            Failure::Refused(reason) | Failure::Exhausted(reason) | Failure::Unknown(reason) => reason,
            Failure::LeaseExpired => "the lease has expired",
        }
    }
}

/// A change that the cluster tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A name has a value.
    Put(Pair),
    /// A name was removed.
    Deleted(Vec<u8>),
}

/// All changes of a revision, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) revision: Revision,
    pub(super) news: Vec<News>,
}
