//! Follows the changes of the cluster from a revision on, and reports them revision by revision.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::api::messages::{EventType, WatchCreateRequest, WatchEvent, WatchRequest, WatchUnion};
use crate::engine::cluster::{ReportedChange, Revision, RevisionChanges};
use crate::engine::etcd::{Cluster, pair, revision};
use crate::engine::names::{NamePrefix, range_end};

/// A message of a watch.
#[derive(Debug)]
pub(super) enum WatchMessage {
    /// Changes, in order.
    Steps(Vec<RevisionChanges>),
    /// There are no further changes up to a revision.
    Progress(Revision),
    /// The next changes were compacted.
    Compacted,
    /// The watch has ended, with the reason.
    Ended(String),
}

/// A running watch. Dropping it ends the watch.
pub(super) struct EtcdWatch {
    task: JoinHandle<()>,
    asks: mpsc::Sender<()>,
    /// The index of the endpoint that is watched.
    pub(super) endpoint: usize,
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl EtcdWatch {
    /// Begins to follow the changes after a revision at the present endpoint.
    pub(super) fn begin(
        cluster: Arc<Cluster>,
        prefix: &NamePrefix,
        after: Revision,
        tell: impl Fn(WatchMessage) + Send + Sync + 'static,
    ) -> Self {
        let (asks, asked) = mpsc::channel(1);
        let endpoint = cluster.present();
        let prefix = prefix.bytes().to_vec();
        let task = tokio::spawn(async move {
            let reason = follow(&cluster, endpoint, (&prefix, after), asked, &tell).await;
            if let Err(reason) = reason {
                cluster.leave(endpoint);
                tell(WatchMessage::Ended(reason));
            }
        });
        EtcdWatch { task, asks, endpoint }
    }

    /// Requests the revision up to which there are no further changes.
    pub(super) fn ask_progress(&self) {
        let _ = self.asks.try_send(()); // full if a request is pending
    }
}

async fn follow(
    cluster: &Cluster,
    endpoint: usize,
    (prefix, after): (&[u8], Revision),
    mut asked: mpsc::Receiver<()>,
    tell: &(impl Fn(WatchMessage) + Sync),
) -> Result<(), String> {
    let from = WatchCreateRequest { key: prefix.to_vec(), range_end: range_end(prefix), start_revision: after + 1 };
    let client = cluster.client(endpoint).await.map_err(|error| error.to_string())?;
    let first = WatchRequest { request_union: Some(WatchUnion::CreateRequest(from)) };
    let mut watching = client.watch(first).await.map_err(|error| error.to_string())?;
    loop {
        let answer = tokio::select! {
            answer = watching.next() => answer.map_err(|error| error.to_string())?,
            Some(()) = asked.recv() => {
                watching.ask_progress();
                continue;
            }
        };
        let Some(answer) = answer else { return Err("the stream has ended".into()) };
        if answer.compact_revision > 0 {
            tell(WatchMessage::Compacted);
            return Ok(());
        }
        if answer.canceled {
            return Err(format!("canceled: {}", answer.cancel_reason));
        }
        if answer.events.is_empty() {
            // The answer to the create request has the present revision, although no changes were reported yet.
            if !answer.created {
                tell(WatchMessage::Progress(revision(answer.header)));
            }
            continue;
        }
        tell(WatchMessage::Steps(steps(answer.events)));
    }
}

/// Groups the changes of an answer by revision.
fn steps(events: Vec<WatchEvent>) -> Vec<RevisionChanges> {
    let mut steps: Vec<RevisionChanges> = Vec::new();
    for event in events {
        let kind = event.r#type();
        let Some(found) = event.kv else { continue };
        let revision = found.mod_revision;
        let news = match kind {
            EventType::Delete => ReportedChange::Deleted(found.key),
            EventType::Put => ReportedChange::Put(pair(found)),
        };
        match steps.last_mut().filter(|step| step.revision == revision) {
            Some(step) => step.news.push(news),
            None => steps.push(RevisionChanges { revision, news: vec![news] }),
        }
    }
    steps
}
