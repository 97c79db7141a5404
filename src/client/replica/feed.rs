//! Feed of a replica: a snapshot, unless the replica continues by a partial resynchronisation, and then the log.
//!
//! The replica's connection fills its output from the feed when the output is empty, as it takes pushed frames for
//! other clients, and executes what the replica sends as requests.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep};

use crate::client::replica::SyncPart;
use crate::client::replica::{Replica, ReplicaState};
use crate::persist::LogReader;
use crate::resp::Output;

/// Interval at which a replica that waits for its snapshot is sent a line, so that it knows that the link is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// Number of bytes in the output from which on no further piece of the log is added.
const PORTION: usize = 256 << 10;

/// Data that is sent to a replica.
pub(crate) struct Feed {
    stage: Stage,
    replica: Arc<Replica>,
}

enum Stage {
    /// Parts of a snapshot. Before the first bytes, the replica is sent lines from time to time.
    Snapshot {
        parts: mpsc::Receiver<SyncPart>,
        reader: Option<LogReader>,
        alive: Option<Pin<Box<Sleep>>>,
        /// True if the replica has acknowledged something since it was sent the last part.
        is_acknowledged: bool,
    },
    /// A line, if there is one, and the log, once the replica has acknowledged its snapshot.
    Log { line: Option<Bytes>, reader: LogReader, is_acknowledged: bool },
    /// Nothing: the replica has asked for a snapshot alone.
    Nothing,
}

/// Reason for which a feed has ended.
#[derive(Debug)]
pub(crate) enum FeedEnded {
    /// The replica has what it has asked for.
    Complete,
    /// The snapshot has failed, or the log has not waited for the replica.
    Failed,
}

impl Feed {
    /// Creates the feed of a replica that gets a snapshot.
    pub(crate) fn snapshot(replica: Arc<Replica>, parts: mpsc::Receiver<SyncPart>) -> Self {
        let alive = Box::pin(sleep(ALIVE_EVERY));
        Feed { stage: Stage::Snapshot { parts, reader: None, alive: Some(alive), is_acknowledged: false }, replica }
    }

    /// Creates the feed of a replica that continues by a partial resynchronisation, which `line` tells it.
    pub(crate) fn log(replica: Arc<Replica>, line: Bytes, reader: LogReader) -> Self {
        replica.set_position(reader.position());
        replica.set_state(ReplicaState::Online);
        Feed { stage: Stage::Log { line: Some(line), reader, is_acknowledged: true }, replica }
    }

    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Returns how many bytes of the log wait to be sent.
    pub(crate) fn waiting(&self) -> u64 {
        let reader = match &self.stage {
            Stage::Snapshot { reader, .. } => reader.as_ref(),
            Stage::Log { reader, .. } => Some(reader),
            Stage::Nothing => None,
        };
        reader.map_or(0, |reader| reader.end() - reader.position())
    }

    /// Records that the replica has acknowledged the data that it has.
    pub(crate) fn acknowledged(&mut self) {
        match &mut self.stage {
            // The replica may have the last part before the feed knows that it was the last.
            Stage::Snapshot { is_acknowledged, .. } => *is_acknowledged = true,
            Stage::Log { is_acknowledged, .. } => {
                *is_acknowledged = true;
                self.replica.set_state(ReplicaState::Online);
            }
            Stage::Nothing => {}
        }
    }

    /// Adds the next data to the output; pending if there is none yet.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Output) -> Poll<Result<(), FeedEnded>> {
        match &mut self.stage {
            Stage::Snapshot { parts, reader, alive, is_acknowledged } => match parts.poll_recv(cx) {
                Poll::Ready(Some(SyncPart::Begin(line, begin))) => {
                    self.replica.set_position(begin.position());
                    self.replica.set_state(ReplicaState::Snapshot);
                    *reader = Some(begin);
                    out.push_shared(line);
                }
                Poll::Ready(Some(SyncPart::File(line))) => {
                    self.replica.set_state(ReplicaState::File);
                    (*alive, *is_acknowledged) = (None, false);
                    out.push_shared(line);
                }
                Poll::Ready(Some(SyncPart::Bytes(bytes))) => {
                    (*alive, *is_acknowledged) = (None, false);
                    out.push_shared(bytes);
                }
                Poll::Ready(Some(SyncPart::End { waits })) => {
                    let reader = reader.take().ok_or(FeedEnded::Failed)?;
                    if self.replica.is_snapshot_only.load(Relaxed) {
                        self.stage = Stage::Nothing;
                        return Poll::Ready(Err(FeedEnded::Complete));
                    }
                    let may_follow = !waits || *is_acknowledged;
                    self.replica.set_state(ReplicaState::Loading);
                    self.stage = Stage::Log { line: None, reader, is_acknowledged: false };
                    if may_follow {
                        self.acknowledged();
                    }
                    return self.poll_fill(cx, out);
                }
                Poll::Ready(None) => return Poll::Ready(Err(FeedEnded::Failed)),
                Poll::Pending => {
                    let Some(alive) = alive else { return Poll::Pending };
                    if alive.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    *alive = Box::pin(sleep(ALIVE_EVERY));
                    out.push_shared(Bytes::from_static(b"\n"));
                }
            },
            Stage::Log { is_acknowledged: false, .. } => return Poll::Pending,
            Stage::Log { line, reader, .. } => {
                if let Some(line) = line.take() {
                    out.push_shared(line);
                    return Poll::Ready(Ok(()));
                }
                if reader.poll_readable(cx).is_pending() {
                    return Poll::Pending;
                }
                while out.len() < PORTION {
                    match reader.read().map_err(|_| FeedEnded::Failed)? {
                        bytes if bytes.is_empty() => break,
                        bytes => out.push_shared(bytes),
                    }
                }
                self.replica.set_position(reader.position());
            }
            Stage::Nothing => return Poll::Ready(Err(FeedEnded::Complete)),
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::persist::{Effects, Log, ReaderPurpose};

    #[tokio::test]
    async fn an_acknowledgement_during_a_snapshot_does_not_release_the_log() {
        let log = Arc::new(Log::default());
        let (send, parts) = mpsc::channel(8);
        let mut feed = Feed::snapshot(Arc::new(Replica::new(1, "127.0.0.1", 0)), parts);
        let (mut out, mut cx) = (Output::new(), Context::from_waker(Waker::noop()));
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let reader = log.reader(ReaderPurpose::Replicate);
        log.append(&mut Effects::one(0, &[b"DEL", b"key"]));
        for part in [SyncPart::Begin(bytes("begin"), reader), SyncPart::Bytes(bytes("first"))] {
            assert!(send.send(part).await.is_ok() && feed.poll_fill(&mut cx, &mut out).is_ready());
        }
        feed.acknowledged(); // of what came before the last part
        for part in [SyncPart::Bytes(bytes("last")), SyncPart::End { waits: true }] {
            assert!(send.send(part).await.is_ok());
        }
        assert!(feed.poll_fill(&mut cx, &mut out).is_ready() && feed.poll_fill(&mut cx, &mut out).is_pending());
        assert_eq!((feed.replica().state(), out.len()), (ReplicaState::Loading, "beginfirstlast".len()));
        feed.acknowledged();
        assert!(feed.poll_fill(&mut cx, &mut out).is_ready());
        assert_eq!((feed.replica().state(), out.len() > 40), (ReplicaState::Online, true));
    }
}
