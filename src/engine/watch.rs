//! Follows the changes of the cluster from a revision on, and tells them revision by revision.

use std::sync::Arc;

use etcd_client::{EventType, WatchOptions, WatchResponse};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::engine::cluster::{News, Pair, Revision, Step};
use crate::engine::etcd::Cluster;
use crate::engine::names::{Prefix, range_end};

/// What a watch tells.
#[derive(Debug)]
pub(super) enum Seen {
    /// Changes, in order.
    Steps(Vec<Step>),
    /// There is nothing else up to a revision.
    Progress(Revision),
    /// The changes that are next are not known any more.
    Compacted,
    /// It has ended, for this reason.
    Ended(String),
}

/// A watch on the way; it ends when this is dropped.
pub(super) struct Watch {
    task: JoinHandle<()>,
    asks: mpsc::Sender<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    /// Begins to follow the changes after a revision at the present endpoint.
    pub(super) fn begin(
        cluster: Arc<Cluster>,
        prefix: &Prefix,
        after: Revision,
        tell: impl Fn(Seen) + Send + Sync + 'static,
    ) -> Self {
        let (asks, asked) = mpsc::channel(1);
        let prefix = prefix.bytes().to_vec();
        let task = tokio::spawn(async move {
            let endpoint = cluster.present();
            let reason = follow(&cluster, endpoint, (&prefix, after), asked, &tell).await;
            if let Err(reason) = reason {
                cluster.leave(endpoint);
                tell(Seen::Ended(reason));
            }
        });
        Watch { task, asks }
    }

    /// Asks to be told up to which revision there is nothing else.
    pub(super) fn ask_progress(&self) {
        let _ = self.asks.try_send(()); // it is asked already
    }
}

async fn follow(
    cluster: &Cluster,
    endpoint: usize,
    (prefix, after): (&[u8], Revision),
    mut asked: mpsc::Receiver<()>,
    tell: &(impl Fn(Seen) + Sync),
) -> Result<(), String> {
    let options = WatchOptions::new().with_range(range_end(prefix)).with_start_revision(after + 1);
    let client = cluster.client(endpoint).await.map_err(|error| error.to_string())?;
    let mut watching = client.watch_client().max_decoding_message_size(super::etcd::MESSAGE_MAX);
    let stream = watching.watch(prefix, Some(options)).await.map_err(|error| error.to_string())?;
    let (mut requests, mut answers) = stream.split();
    loop {
        let answer = tokio::select! {
            answer = answers.message() => answer.map_err(|error| error.to_string())?,
            Some(()) = asked.recv() => {
                requests.request_progress().await.map_err(|error| error.to_string())?;
                continue;
            }
        };
        let Some(answer) = answer else { return Err("the stream has ended".into()) };
        if answer.compact_revision() > 0 {
            tell(Seen::Compacted);
            return Ok(());
        }
        if answer.canceled() {
            return Err(format!("canceled: {}", answer.cancel_reason()));
        }
        if answer.events().is_empty() {
            // The answer to the request to begin has the present revision, of which nothing was told yet.
            let revision = answer.header().map_or(0, |header| header.revision());
            if !answer.created() {
                tell(Seen::Progress(revision));
            }
            continue;
        }
        tell(Seen::Steps(steps(&answer)));
    }
}

/// Returns the changes of an answer, by their revisions.
fn steps(answer: &WatchResponse) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for event in answer.events() {
        let Some(found) = event.kv() else { continue };
        let revision = found.mod_revision();
        let news = match event.event_type() {
            EventType::Delete => News::Deleted(found.key().to_vec()),
            EventType::Put => News::Put(Pair {
                name: found.key().to_vec(),
                value: found.value().to_vec(),
                mod_revision: revision,
                version: found.version(),
            }),
        };
        match steps.last_mut().filter(|step| step.revision == revision) {
            Some(step) => step.news.push(news),
            None => steps.push(Step { revision, news: vec![news] }),
        }
    }
    steps
}
