//! The cluster as etcd: choice of the endpoint, transactions in etcd's terms, and the meaning of its errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use tonic::Code;

use crate::engine::api::messages::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyValue, OpRequest, PutRequest, RangeRequest,
    RequestOp, Response, ResponseHeader, TargetUnion, TxnRequest,
};
use crate::engine::api::{CallError, MemberAccess, MemberClient};
use crate::engine::cluster::{
    ClusterChange, ClusterFailure, ClusterTransaction, NamedValue, Revision, Test, TransactionResult,
};
use crate::observe::EngineStats;

/// Time without an answer after which another endpoint is used.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// An endpoint, which is connected at its first request.
struct Endpoint {
    url: String,
    client: Mutex<Option<MemberClient>>,
}

pub(super) struct Cluster {
    endpoints: Vec<Endpoint>,
    access: MemberAccess,
    /// Index of the endpoint in use.
    present: AtomicUsize,
    stats: Arc<EngineStats>,
}

impl Cluster {
    /// Creates the client of a cluster, without connecting to it.
    pub(super) fn new(urls: &[String], access: MemberAccess, stats: Arc<EngineStats>) -> Self {
        let endpoints = urls.iter().map(|url| Endpoint { url: url.clone(), client: Mutex::default() }).collect();
        stats.cluster.lock().members = 1;
        let cluster = Cluster { endpoints, access, present: AtomicUsize::new(0), stats };
        cluster.show_present();
        cluster
    }

    fn show_present(&self) {
        self.stats.cluster.lock().endpoint.clone_from(&self.endpoints[self.present()].url);
    }

    /// Returns the index of the endpoint in use.
    pub(super) fn present(&self) -> usize {
        self.present.load(Relaxed) % self.endpoints.len()
    }

    /// Changes to the next endpoint, if `endpoint` is still in use.
    pub(super) fn leave(&self, endpoint: usize) {
        let next = endpoint + 1;
        if self.present.compare_exchange(endpoint, next % self.endpoints.len(), Relaxed, Relaxed).is_ok() {
            self.show_present();
        }
    }

    /// Changes to the leader's endpoint, which has to ask no other member before it answers.
    pub(super) async fn follow_leader(&self) {
        let present = self.present();
        let mut others = (0..self.endpoints.len()).filter(|endpoint| *endpoint != present).peekable();
        if others.peek().is_none() {
            return;
        }
        // The present endpoint says which member leads: a member that is cut off may take itself for the leader.
        let Some((member, leader)) = self.status(present).await else { return };
        if member == leader {
            return;
        }
        for endpoint in others {
            if self.status(endpoint).await.is_some_and(|(member, _)| member == leader) {
                let _ = self.present.compare_exchange(present, endpoint, Relaxed, Relaxed); // it may have been left meanwhile
                return self.show_present();
            }
        }
    }

    /// Returns the member at an endpoint, and the leader that it knows.
    async fn status(&self, endpoint: usize) -> Option<(u64, u64)> {
        let asked = timeout(REQUEST_TIMEOUT, async { self.client(endpoint).await?.status().await });
        let status = asked.await.ok()?.ok()?;
        Some((status.header?.member_id, status.leader))
    }

    pub(super) async fn client(&self, endpoint: usize) -> Result<MemberClient, CallError> {
        let Endpoint { url, client } = &self.endpoints[endpoint];
        let mut client = client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let connected = MemberClient::connect(url, &self.access).await?;
        *client = Some(connected.clone());
        Ok(connected)
    }

    /// Sends a request to the present endpoint, and changes to another one if there is no answer.
    async fn ask<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        ask: impl FnOnce(MemberClient) -> F,
    ) -> Result<T, ClusterFailure> {
        let endpoint = self.present();
        let answer = timeout(REQUEST_TIMEOUT, async { ask(self.client(endpoint).await?).await }).await;
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failure(&error),
            Err(_) => ClusterFailure::Unknown("no answer".into()),
        };
        if let ClusterFailure::Unknown(_) = failure {
            self.leave(endpoint);
        }
        Err(failure)
    }

    /// Commits a transaction; names put with the lease of the process end with that.
    pub(super) async fn commit(
        &self,
        transaction: ClusterTransaction,
        lease: i64,
    ) -> Result<TransactionResult, ClusterFailure> {
        let asked = txn(transaction, lease);
        let response = self.ask(|client| async move { client.txn(asked).await }).await?;
        let read = response.responses.into_iter().filter_map(|answer| match answer.response {
            Some(Response::Range(mut found)) => Some(found.kvs.pop().map(pair)),
            _ => None,
        });
        Ok(TransactionResult {
            revision: revision(response.header),
            is_committed: response.succeeded,
            read: read.collect(),
        })
    }

    /// Returns the present revision of the cluster: everything acknowledged before has this revision or a smaller one.
    pub(super) async fn revision(&self, name: &[u8]) -> Result<Revision, ClusterFailure> {
        let asked = RangeRequest { key: name.to_vec(), count_only: true, ..RangeRequest::default() };
        let response = self.ask(|client| async move { client.range(asked).await }).await?;
        Ok(revision(response.header))
    }

    /// Reads names from `from` on, at a revision, 0 for the present one; returns the revision, and true if there are
    /// more names.
    pub(super) async fn page(
        &self,
        from: &[u8],
        end: &[u8],
        limit: i64,
        at: Revision,
    ) -> Result<(Vec<NamedValue>, Revision, bool), ClusterFailure> {
        let (key, range_end) = (from.to_vec(), end.to_vec());
        let asked = RangeRequest { key, range_end, limit, revision: at, count_only: false };
        let response = self.ask(|client| async move { client.range(asked).await }).await?;
        Ok((response.kvs.into_iter().map(pair).collect(), revision(response.header), response.more))
    }

    /// Grants a new lease.
    pub(super) async fn lease(&self, seconds: i64) -> Result<i64, ClusterFailure> {
        let granted = self.ask(|client| async move { client.lease_grant(seconds).await });
        Ok(granted.await?.id)
    }

    /// Revokes a lease, and with it all names put under it.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), ClusterFailure> {
        self.ask(|client| async move { client.lease_revoke(lease).await }).await.map(|_| ())
    }

    /// Renews a lease.
    ///
    /// # Errors
    /// [`ClusterFailure::LeaseExpired`] if it has expired.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<(), ClusterFailure> {
        self.ask(|client| async move { client.lease_keep_alive(lease).await }).await
    }

    /// Requests the version and the cluster state of the present endpoint; returns the version.
    pub(super) async fn look(&self) -> Result<String, ClusterFailure> {
        let status = self.ask(|client| async move { client.status().await }).await?;
        // Without an answer, the last known number stands.
        let listed = self.ask(|client| async move { client.member_list().await }).await;
        let mut known = self.stats.cluster.lock();
        known.version = status.version;
        (known.leader, known.size) = (status.leader, status.db_size);
        if let Ok(listed) = listed {
            known.members = listed.members.iter().filter(|member| !member.is_learner).count();
        }
        Ok(known.version.clone())
    }
}

/// Classifies an error of a call.
fn failure(error: &CallError) -> ClusterFailure {
    let status = match error {
        CallError::Status(status) => status,
        CallError::Settings(reason) => return ClusterFailure::Refused(reason.clone()),
        CallError::NoLease => return ClusterFailure::LeaseExpired,
    };
    if status.message().contains("requested lease not found") {
        return ClusterFailure::LeaseExpired;
    }
    let message = status.message().to_owned();
    // The client has made this status out of an error of the connection: its code is none of etcd's.
    if std::error::Error::source(status).is_some() {
        return ClusterFailure::Unknown(message);
    }
    match status.code() {
        // etcd replies with these before it proposes the transaction.
        Code::InvalidArgument
        | Code::NotFound
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unauthenticated => ClusterFailure::Refused(message),
        // The quota is checked again when a transaction has been made, and the answer is the same then.
        Code::ResourceExhausted => ClusterFailure::Exhausted(message),
        _ => ClusterFailure::Unknown(message),
    }
}

fn txn(transaction: ClusterTransaction, lease: i64) -> TxnRequest {
    let put = |key, value, lease| OpRequest::Put(PutRequest { key, value, lease });
    let changes = transaction.changes.into_iter().map(|change| match change {
        ClusterChange::Put(name, value) => put(name, value, 0),
        ClusterChange::PutLeased(name, value) => put(name, value, lease),
        ClusterChange::Delete(key) => OpRequest::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() }),
        ClusterChange::DeleteRange(key, range_end) => OpRequest::DeleteRange(DeleteRangeRequest { key, range_end }),
    });
    let reads =
        transaction.reads.into_iter().map(|key| OpRequest::Range(RangeRequest { key, ..RangeRequest::default() }));
    let operation = |request| RequestOp { request: Some(request) };
    TxnRequest {
        compare: transaction.tests.into_iter().map(compare).collect(),
        success: changes.map(operation).collect(),
        failure: reads.map(operation).collect(),
    }
}

fn compare(test: Test) -> Compare {
    let mut range_end = Vec::new();
    let (key, result, target, value) = match test {
        Test::Unchanged(name, revision) => {
            (name, CompareResult::Equal, CompareTarget::Mod, TargetUnion::ModRevision(revision))
        }
        Test::Version(name, version) => {
            (name, CompareResult::Equal, CompareTarget::Version, TargetUnion::Version(version))
        }
        Test::Exists(name) => (name, CompareResult::Greater, CompareTarget::Version, TargetUnion::Version(0)),
        Test::Older(from, end, revision) => {
            range_end = end;
            (from, CompareResult::Less, CompareTarget::Mod, TargetUnion::ModRevision(revision))
        }
    };
    Compare { result: result.into(), target: target.into(), key, target_union: Some(value), range_end }
}

/// Returns the revision of the cluster at a response.
pub(super) fn revision(header: Option<ResponseHeader>) -> Revision {
    header.map_or(0, |header| header.revision)
}

/// Converts a key-value pair of a response.
pub(super) fn pair(found: KeyValue) -> NamedValue {
    NamedValue { name: found.key, value: found.value, mod_revision: found.mod_revision, version: found.version }
}
