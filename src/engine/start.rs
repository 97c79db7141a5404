//! The start of the engine, and its end.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tracing::{info, warn};

use crate::config::{Config, EngineKind};
use crate::dispatch::Handlers;
use crate::engine::api::MemberAccess;
use crate::engine::cluster::{ClusterChange, ClusterFailure, ClusterTransaction, NamedValue, Revision, Test};
use crate::engine::core::Core;
use crate::engine::driver::{Driver, DriverInput, Handle};
use crate::engine::etcd::{Cluster, REQUEST_TIMEOUT};
use crate::engine::keeper::LeaseKeeper;
use crate::engine::load::read_all;
use crate::engine::locks::FENCES_OF_A_REVISION;
use crate::engine::mirror::Mirror;
use crate::engine::names::{EtcdName, NamePrefix, range_end};
use crate::engine::nodes::Announcement;
use crate::engine::stored::{FORMAT, FORMER_FORMAT};
use crate::namespace::Namespace;

/// The first usable version of etcd: earlier ones may revoke a lease that is renewed, and may report progress before
/// the changes.
const VERSION_MIN: [u32; 3] = [3, 5, 13];

/// Largest number of revisions that a cluster is expected to keep.
const HISTORY_MAX: Revision = 10_000_000;

/// The engine of a server. Dropping it ends the engine.
pub(crate) struct RunningEngine {
    tell: mpsc::UnboundedSender<DriverInput>,
    ended: Option<oneshot::Receiver<()>>,
}

impl RunningEngine {
    /// Ends the engine, and waits for that.
    pub(crate) async fn end(&mut self) {
        let _ = self.tell.send(DriverInput::Stop); // the engine may have ended
        if let Some(ended) = self.ended.take() {
            let _ = ended.await; // closed when the thread has ended
        }
    }
}

impl Drop for RunningEngine {
    fn drop(&mut self) {
        let _ = self.tell.send(DriverInput::Stop); // the engine may have ended
    }
}

/// The end of the engine's preparation.
pub(crate) struct Ready(oneshot::Receiver<Result<(), String>>);

impl Ready {
    /// Waits until the mirror has all keys.
    ///
    /// # Errors
    /// The reason for which the cluster cannot be used, in one line.
    pub(crate) async fn wait(self) -> io::Result<()> {
        let prepared = self.0.await.unwrap_or_else(|_| Err("the server was stopped".into()));
        prepared.map_err(|reason| io::Error::other(format!("engine etcd: {reason}")))
    }
}

/// Starts the engine that the settings ask for, if any.
///
/// # Errors
/// The reason for which the engine cannot be started.
pub(crate) fn begin(
    namespace: &Arc<Namespace>,
    handlers: &'static Handlers,
) -> io::Result<(Option<RunningEngine>, Option<Ready>)> {
    match namespace.settings.current().engine {
        EngineKind::Memory => Ok((None, None)),
        EngineKind::Etcd => start(namespace, handlers).map(|(running, ready)| (Some(running), Some(ready))),
    }
}

/// Starts the engine in the settings. Calls wait until it is prepared.
///
/// # Errors
/// The reason for which the engine cannot be started, in one line.
fn start(namespace: &Arc<Namespace>, handlers: &'static Handlers) -> io::Result<(RunningEngine, Ready)> {
    let config = namespace.settings.current();
    let stats = namespace.observed.engine.clone();
    let urls = endpoints(&config)?;
    let cluster = Arc::new(Cluster::new(&urls, access(&config)?, stats));
    let prefix = NamePrefix::new(config.etcd_prefix.as_deref().unwrap_or_default());
    let (tell, inputs) = mpsc::unbounded_channel();
    let ((tell_ready, ready), (tell_ended, ended)) = (oneshot::channel(), oneshot::channel());
    let mirror = Mirror::new(namespace.clone(), prefix.clone());
    let core = Core::new((namespace.clone(), handlers), prefix.clone(), mirror);
    let (keeper, asked) = mpsc::unbounded_channel();
    let granted = Cell::new(None);
    let (lease, kept) = (core.mirror.locks.lease.clone(), Cluster::new(&urls, access(&config)?, Arc::default()));
    let announcement = Announcement::new(namespace.clone(), urls);
    let (namespace_of, prefix_of) = (namespace.clone(), prefix.clone());
    LeaseKeeper {
        namespace: namespace_of,
        cluster: kept,
        prefix: prefix_of,
        lease,
        tell: tell.clone(),
        granted,
        announcement,
    }
    .start(asked)?;
    let handle = Handle::new(&core, tell.clone());
    let driver = Driver::new(core, cluster, prefix, (tell.clone(), inputs), keeper);
    let (patience, served) = (Duration::from_millis(config.etcd_timeout_ms), namespace.clone());
    // Current-thread, like those of the workers: etcd's client shares it with the core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().name("engine".into()).spawn(move || {
        let _ended = tell_ended;
        runtime.block_on(async move {
            let mut driver = driver;
            let result = prepare(&mut driver, &served, patience).await;
            let is_ready = result.is_ok();
            let _ = tell_ready.send(result); // the receiver is gone when the server was stopped
            if is_ready {
                driver.run().await;
            }
        });
    })?;
    namespace.set_engine(Arc::new(handle));
    Ok((RunningEngine { tell, ended: Some(ended) }, Ready(ready)))
}

/// Returns the URLs of the cluster's members.
fn endpoints(config: &Config) -> io::Result<Vec<String>> {
    let text = String::from_utf8_lossy(config.etcd_endpoints.as_deref().unwrap_or_default()).into_owned();
    let urls: Vec<String> = text.split(',').map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect();
    let is_url = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if !urls.is_empty() && urls.iter().all(is_url) {
        Ok(urls)
    } else {
        Err(io::Error::other("engine etcd: etcd-endpoints must be URLs that begin with http:// or https://"))
    }
}

/// Returns the options of connections to the endpoints.
fn access(config: &Config) -> io::Result<MemberAccess> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| io::Error::other(format!("engine etcd: {}: {error}", path.display())))
    };
    let user = match (&config.etcd_user, &config.etcd_password_file) {
        (Some(user), Some(file)) => {
            let password = String::from_utf8_lossy(&read(file)?).trim_end_matches(['\r', '\n']).to_owned();
            Some((String::from_utf8_lossy(user).into_owned(), password))
        }
        (None, None) => None,
        _ => return Err(io::Error::other("engine etcd: etcd-user and etcd-password-file need each other")),
    };
    let uses_tls = endpoints(config)?.iter().any(|url| url.starts_with("https://"));
    let mut tls = uses_tls.then(ClientTlsConfig::new);
    if let Some(file) = &config.etcd_cacert {
        let ca = Certificate::from_pem(read(file)?);
        tls = tls.map(|tls| tls.ca_certificate(ca));
    }
    if let (Some(cert), Some(key)) = (&config.etcd_cert, &config.etcd_key) {
        let identity = Identity::from_pem(read(cert)?, read(key)?);
        tls = tls.map(|tls| tls.identity(identity));
    }
    Ok(MemberAccess { user, tls, connect_timeout: REQUEST_TIMEOUT })
}

/// Prepares the engine: checks that the cluster can be used, and loads the mirror. The cluster has `patience` to answer.
///
/// # Errors
/// The reason for which it cannot be used.
async fn prepare(driver: &mut Driver, namespace: &Namespace, patience: Duration) -> Result<(), String> {
    let (pairs, revision) = within(patience, read(driver)).await?;
    let is_key = |pair: &&NamedValue| matches!(driver.prefix.parse(&pair.name), Some(EtcdName::Key(_)));
    let keys = pairs.iter().filter(is_key).count();
    driver.core.replace(pairs, revision); // for as long as libraries of functions take
    namespace.check_databases()?;
    within(patience, raise_fences(driver, revision)).await?;
    info!("etcd: {keys} keys loaded at revision {revision}");
    let name = driver.prefix.name(&EtcdName::Format);
    let _ = timeout(patience, warn_of_history(&driver.cluster, &name, revision)).await; // only a warning
    Ok(())
}

/// Waits for answers of the cluster.
///
/// # Errors
/// The error of `asking`, or that there is no answer.
async fn within<T>(patience: Duration, asking: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(patience, asking).await.unwrap_or_else(|_| Err("no majority of the cluster answers".to_owned()))
}

/// Checks version and format of what the cluster has, and reads all of it.
async fn read(driver: &Driver) -> Result<(Vec<NamedValue>, Revision), String> {
    let cluster = driver.cluster.clone();
    check_version(&cluster).await?;
    let format = driver.prefix.name(&EtcdName::Format);
    let fence = driver.prefix.name(&EtcdName::Fence);
    let done = persist(|| {
        let created = ClusterTransaction {
            tests: vec![Test::Unchanged(format.clone(), 0)],
            changes: vec![
                ClusterChange::Put(format.clone(), FORMAT.to_vec()),
                ClusterChange::Put(fence.clone(), driver.core.first_fence().to_string().into_bytes()),
            ],
            reads: vec![format.clone()],
        };
        cluster.commit(created, 0)
    });
    let done = done.await?;
    let found = done.read.first().and_then(Option::as_ref);
    let format_found = found.map(|pair| &pair.value[..]).filter(|_| !done.is_committed).unwrap_or(FORMAT);
    if ![FORMAT, FORMER_FORMAT].contains(&format_found) {
        let shown = String::from_utf8_lossy(format_found).into_owned();
        let prefix = String::from_utf8_lossy(driver.prefix.bytes()).into_owned();
        return Err(format!("what is under the prefix {prefix} has another format: {shown}"));
    }
    let (pairs, revision) = persist(|| read_all(&cluster, &driver.prefix)).await?;
    if format_found == FORMER_FORMAT {
        let is_process = |pair: &NamedValue| matches!(driver.prefix.parse(&pair.name), Some(EtcdName::Process(_)));
        if pairs.iter().any(is_process) {
            return Err("processes of an earlier version of keylatch are running: stop all of them first".into());
        }
        raise_format(&cluster, &format, found.map_or(0, |pair| pair.mod_revision)).await?;
    }
    Ok((pairs, revision))
}

/// Raises the version of the format, found at a revision: processes of an earlier version cannot start any more.
async fn raise_format(cluster: &Cluster, format: &[u8], found: Revision) -> Result<(), String> {
    let raise = || {
        let tests = vec![Test::Unchanged(format.to_vec(), found)]; // otherwise another process has just done so
        let changes = vec![ClusterChange::Put(format.to_vec(), FORMAT.to_vec())];
        cluster.commit(ClusterTransaction { tests, changes, reads: Vec::new() }, 0)
    };
    persist(raise).await.map(|_| ())
}

/// Raises the base so that fencing tokens are no less than the microseconds since 1970, like those of a server without
/// a cluster. So they are larger than that server's, and than those before etcd was restored from a backup, which sets
/// its revision back.
async fn raise_fences(driver: &Driver, revision: Revision) -> Result<(), String> {
    let (base, changed) = driver.core.mirror.locks.fence_base;
    let wanted = driver.core.first_fence().saturating_sub(revision.saturating_mul(FENCES_OF_A_REVISION));
    if base >= wanted {
        return Ok(());
    }
    let fence = driver.prefix.name(&EtcdName::Fence);
    let raise = || {
        let tests = vec![Test::Unchanged(fence.clone(), changed)]; // otherwise another process has just done so
        let changes = vec![ClusterChange::Put(fence.clone(), wanted.to_string().into_bytes())];
        driver.cluster.commit(ClusterTransaction { tests, changes, reads: Vec::new() }, 0)
    };
    persist(raise).await.map(|_| ())
}

/// Warns of a cluster that keeps its whole history, until it is full.
async fn warn_of_history(cluster: &Cluster, name: &[u8], revision: Revision) {
    let is_old = revision > HISTORY_MAX;
    if is_old && cluster.page(name, &range_end(name), 1, revision - HISTORY_MAX).await.is_ok() {
        warn!(
            "etcd is not compacted by itself: its database grows until it refuses writes (--auto-compaction-retention)"
        );
    }
}

/// Repeats a request until there is an answer; the caller limits the time.
async fn persist<T, F: Future<Output = Result<T, ClusterFailure>>>(mut ask: impl FnMut() -> F) -> Result<T, String> {
    let mut logged = String::new();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(ClusterFailure::Refused(reason) | ClusterFailure::Exhausted(reason)) => return Err(reason),
            Err(failure) => {
                if failure.reason() != logged {
                    logged = failure.reason().to_owned();
                    warn!("etcd does not answer yet: {logged}");
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

async fn check_version(cluster: &Cluster) -> Result<(), String> {
    let version = persist(|| cluster.look()).await?;
    let numbers: Vec<u32> = version.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    if numbers[..] >= VERSION_MIN[..] {
        Ok(())
    } else {
        Err(format!("etcd {version} cannot be used, only 3.5.13 and later"))
    }
}
