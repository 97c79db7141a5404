//! The cluster as etcd: its client, which endpoint is asked, and what its errors mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, Error, GetOptions, KeyValue, LeaseGrantOptions,
    PutOptions, Txn, TxnOp, TxnOpResponse,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::engine::cluster::{Change, Done, Failure, Pair, Revision, Test, Transaction};
use crate::observe::EngineStats;

/// For how long a request may stay without an answer before another endpoint is asked.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a connection with a watch is asked whether it is alive, and how long it may take to answer. etcd closes one that is
/// asked more often than every five seconds.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(2));
/// The largest message that is received, in bytes: a page of keys, or what has changed while a watch was behind.
pub(super) const MESSAGE_MAX: usize = 256 << 20;

/// How the endpoints are reached.
#[derive(Clone, Default)]
pub(super) struct Access {
    pub(super) user: Option<(String, String)>,
    pub(super) tls: Option<etcd_client::TlsOptions>,
}

/// An endpoint, which is connected when it is first asked.
struct Endpoint {
    url: String,
    client: Mutex<Option<Client>>,
}

/// The cluster.
pub(super) struct Cluster {
    endpoints: Vec<Endpoint>,
    access: Access,
    /// The endpoint that is asked.
    present: AtomicUsize,
    stats: Arc<EngineStats>,
}

impl Cluster {
    /// Creates the client of a cluster, which connects to nothing yet.
    pub(super) fn new(urls: &[String], access: Access, stats: Arc<EngineStats>) -> Self {
        let endpoints = urls.iter().map(|url| Endpoint { url: url.clone(), client: Mutex::default() }).collect();
        let cluster = Cluster { endpoints, access, present: AtomicUsize::new(0), stats };
        cluster.show_present();
        cluster
    }

    fn show_present(&self) {
        self.stats.cluster.lock().endpoint.clone_from(&self.endpoints[self.present()].url);
    }

    /// Returns the endpoint that is asked.
    pub(super) fn present(&self) -> usize {
        self.present.load(Relaxed) % self.endpoints.len()
    }

    /// Asks another endpoint from now on, if it is still this one that is asked.
    pub(super) fn leave(&self, endpoint: usize) {
        let next = endpoint + 1;
        if self.present.compare_exchange(endpoint, next % self.endpoints.len(), Relaxed, Relaxed).is_ok() {
            self.show_present();
        }
    }

    /// Returns the client of an endpoint.
    pub(super) async fn client(&self, endpoint: usize) -> Result<Client, Error> {
        let Endpoint { url, client } = &self.endpoints[endpoint];
        let mut client = client.lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let mut options = ConnectOptions::new()
            .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
            .with_keep_alive_while_idle(false)
            .with_connect_timeout(REQUEST_TIMEOUT)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((user, password)) = &self.access.user {
            options = options.with_user(user, password);
        }
        if let Some(tls) = &self.access.tls {
            options = options.with_tls(tls.clone());
        }
        let connected = Client::connect([url], Some(options)).await?;
        *client = Some(connected.clone());
        Ok(connected)
    }

    /// Asks the present endpoint, and another one from then on if it does not answer.
    async fn ask<T, F: Future<Output = Result<T, Error>>>(&self, ask: impl FnOnce(Client) -> F) -> Result<T, Failure> {
        let endpoint = self.present();
        let answer = timeout(REQUEST_TIMEOUT, async { ask(self.client(endpoint).await?).await }).await;
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failure(&error),
            Err(_) => Failure::Unknown("no answer".into()),
        };
        if let Failure::Unknown(_) = failure {
            self.leave(endpoint);
        }
        Err(failure)
    }

    /// Makes a transaction; what is put with the lease of the process ends with that.
    pub(super) async fn commit(&self, transaction: Transaction, lease: i64) -> Result<Done, Failure> {
        let asked = txn(transaction, lease);
        let response = self
            .ask(|client| async move { client.kv_client().max_decoding_message_size(MESSAGE_MAX).txn(asked).await });
        let mut response = response.await?;
        let revision = response.take_header().map_or(0, |header| header.revision());
        let is_committed = response.succeeded();
        let read = response.op_responses().into_iter().filter_map(|answer| match answer {
            TxnOpResponse::Get(mut found) => Some(found.take_kvs().pop().map(pair)),
            _ => None,
        });
        Ok(Done { revision, is_committed, read: read.collect() })
    }

    /// Returns the present revision of the cluster: everything that was acknowledged before has it, or a smaller one.
    pub(super) async fn revision(&self, name: &[u8]) -> Result<Revision, Failure> {
        let (name, options) = (name.to_vec(), GetOptions::new().with_count_only());
        let response = self.ask(|client| async move { client.kv_client().get(name, Some(options)).await });
        Ok(response.await?.header().map_or(0, |header| header.revision()))
    }

    /// Reads some names from one on, as they were at a revision, 0 for the present one; returns the revision, and whether
    /// there are more.
    pub(super) async fn page(
        &self,
        from: &[u8],
        end: &[u8],
        limit: i64,
        revision: Revision,
    ) -> Result<(Vec<Pair>, Revision, bool), Failure> {
        let (from, options) =
            (from.to_vec(), GetOptions::new().with_range(end).with_limit(limit).with_revision(revision));
        let response = self.ask(|client| async move {
            client.kv_client().max_decoding_message_size(MESSAGE_MAX).get(from, Some(options)).await
        });
        let mut response = response.await?;
        let at = response.header().map_or(0, |header| header.revision());
        let has_more = response.more();
        Ok((response.take_kvs().into_iter().map(pair).collect(), at, has_more))
    }

    /// Returns a new lease of some seconds.
    pub(super) async fn lease(&self, seconds: i64) -> Result<i64, Failure> {
        let granted =
            self.ask(|client| async move { client.lease_client().grant(seconds, None::<LeaseGrantOptions>).await });
        Ok(granted.await?.id())
    }

    /// Ends a lease, and with it what was put until then.
    pub(super) async fn revoke(&self, lease: i64) -> Result<(), Failure> {
        self.ask(|client| async move { client.lease_client().revoke(lease).await }).await.map(|_| ())
    }

    /// Keeps a lease alive.
    ///
    /// # Errors
    /// [`Failure::LeaseExpired`] if it has expired.
    pub(super) async fn keep_alive(&self, lease: i64) -> Result<(), Failure> {
        // The client has read the answer when this returns; nothing else comes unless it is asked for.
        self.ask(|client| async move { client.lease_client().keep_alive(lease).await }).await.map(|_| ())
    }

    /// Asks the present endpoint for its version and what it knows of the cluster; returns the version.
    pub(super) async fn look(&self) -> Result<String, Failure> {
        let status = self.ask(|client| async move { client.maintenance_client().status().await }).await?;
        let mut known = self.stats.cluster.lock();
        known.version = status.version().to_owned();
        (known.leader, known.size) = (status.leader(), status.db_size());
        Ok(known.version.clone())
    }
}

/// Returns what an error of the client means for a request.
pub(super) fn failure(error: &Error) -> Failure {
    // The numbers of gRPC: etcd replies with these before it proposes anything.
    const INVALID_ARGUMENT: i32 = 3;
    const NOT_FOUND: i32 = 5;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const FAILED_PRECONDITION: i32 = 9;
    const UNAUTHENTICATED: i32 = 16;
    match error {
        Error::GRpcStatus(status) if status.message().contains("requested lease not found") => Failure::LeaseExpired,
        // One that the client has made out of an error of the connection: its code is none of etcd's.
        Error::GRpcStatus(status) if std::error::Error::source(status).is_some() => {
            Failure::Unknown(status.message().to_owned())
        }
        Error::GRpcStatus(status) => match i32::from(status.code()) {
            INVALID_ARGUMENT | NOT_FOUND | PERMISSION_DENIED | RESOURCE_EXHAUSTED | FAILED_PRECONDITION
            | UNAUTHENTICATED => Failure::Refused(status.message().to_owned()),
            _ => Failure::Unknown(status.message().to_owned()),
        },
        // The answer had no TTL.
        Error::LeaseKeepAliveError(_) => Failure::LeaseExpired,
        Error::InvalidArgs(_) | Error::InvalidUri(_) => Failure::Refused(error.to_string()),
        _ => Failure::Unknown(error.to_string()),
    }
}

fn txn(transaction: Transaction, lease: i64) -> Txn {
    let tests = transaction.tests.into_iter().map(|test| match test {
        Test::Unchanged(name, revision) => Compare::mod_revision(name, CompareOp::Equal, revision),
        Test::Version(name, version) => Compare::version(name, CompareOp::Equal, version),
        Test::Exists(name) => Compare::version(name, CompareOp::Greater, 0),
    });
    let changes = transaction.changes.into_iter().map(|change| match change {
        Change::Put(name, value) => TxnOp::put(name, value, None),
        Change::PutLeased(name, value) => TxnOp::put(name, value, Some(PutOptions::new().with_lease(lease))),
        Change::Delete(name) => TxnOp::delete(name, None),
        Change::DeleteRange(from, end) => TxnOp::delete(from, Some(DeleteOptions::new().with_range(end))),
    });
    let reads = transaction.reads.into_iter().map(|name| TxnOp::get(name, None));
    Txn::new().when(tests.collect::<Vec<_>>()).and_then(changes.collect::<Vec<_>>()).or_else(reads.collect::<Vec<_>>())
}

/// Returns a name and its value, taken out of an answer.
pub(super) fn pair(found: KeyValue) -> Pair {
    let (mod_revision, version) = (found.mod_revision(), found.version());
    let (name, value) = found.into_key_value();
    Pair { name, value, mod_revision, version }
}
