//! Interface of the engine to the cluster: transactions, reads, and the changes since a revision. In etcd's terms, but
//! without its client, so that tests have a simulated cluster.

/// Number of a change of the cluster, which rises with each.
pub(super) type Revision = i64;

/// A name and its value, a key-value pair of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedValue {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// Revision of the last change.
    pub(super) mod_revision: Revision,
    /// Number of changes since the name was created.
    pub(super) version: i64,
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The name was last changed at this revision; 0 for a missing name.
    Unchanged(Vec<u8>, Revision),
    /// The name was changed this often since it was created; 0 for a missing name.
    Version(Vec<u8>, i64),
    /// The name exists.
    Exists(Vec<u8>),
    /// All names from the first one up to the second one were last changed before this revision.
    Older(Vec<u8>, Vec<u8>, Revision),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClusterChange {
    /// Assignment of a value to a name.
    Put(Vec<u8>, Vec<u8>),
    /// Assignment of a value to a name, until the lease of the process ends.
    PutLeased(Vec<u8>, Vec<u8>),
    /// Removal of a name.
    Delete(Vec<u8>),
    /// Removal of all names from the first one up to the second one.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Changes that are applied if all tests hold; otherwise names are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterTransaction {
    pub(super) tests: Vec<Test>,
    pub(super) changes: Vec<ClusterChange>,
    pub(super) reads: Vec<Vec<u8>>,
}

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TransactionResult {
    /// The revision of the transaction, or that of its reads.
    pub(super) revision: Revision,
    /// True if all tests have held.
    pub(super) is_committed: bool,
    pub(super) read: Vec<Option<NamedValue>>,
}

/// Reason for which a request to the cluster has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClusterFailure {
    /// The request was refused, and has changed nothing.
    Refused(String),
    /// The lease of the process has expired; the request has changed nothing.
    LeaseExpired,
    /// A limit of the cluster is exceeded, which the cluster may have noticed after the change. A change that was not
    /// applied by now never will be.
    Exhausted(String),
    /// Unknown outcome: the request may have changed something, or still will.
    Unknown(String),
}

impl ClusterFailure {
    pub(super) fn reason(&self) -> &str {
        match self {
            ClusterFailure::Refused(reason) | ClusterFailure::Exhausted(reason) | ClusterFailure::Unknown(reason) => {
                reason
            }
            ClusterFailure::LeaseExpired => "the lease has expired",
        }
    }
}

/// A change reported by the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportedChange {
    /// A name has a value.
    Put(NamedValue),
    /// A name was removed.
    Deleted(Vec<u8>),
}

/// All changes of a revision, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RevisionChanges {
    pub(super) revision: Revision,
    pub(super) news: Vec<ReportedChange>,
}
