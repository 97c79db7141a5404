//! Handling of requests to the writer.

use crate::persist::aof::block::BlockStamp;
use crate::persist::aof::error::AofError;
use crate::persist::aof::handle::NeedsRewrite;
use crate::persist::aof::policy::{Annotations, FsyncPolicy};
use crate::persist::aof::writer::Writer;

impl Writer {
    /// Takes all requests since the last step.
    pub(super) fn take_requests(&mut self) {
        let mut requests = self.shared.requests.lock();
        self.syncs.append(&mut requests.syncs);
        let (policy, rotation) = (requests.policy.take(), requests.rotation.take_if(|_| self.rotation.is_none()));
        let annotations = requests.annotations.take();
        let is_attached = std::mem::take(&mut requests.is_attached);
        let (restart, stop) = (requests.restart.take(), requests.stop.take_if(|_| self.stop.is_none()));
        drop(requests);
        self.rotation = self.rotation.take().or(rotation);
        self.stop = self.stop.take().or(stop);
        if let Some(former) = restart.and_then(|restart| self.restart.replace(restart)) {
            (former.done)(Err(AofError::Busy));
        }
        if let Some(Annotations { checksums, timestamps }) = annotations {
            (self.wants_checksums, self.has_timestamps) = (checksums, timestamps);
            self.last_timestamp = 0; // the next block has a timestamp
        }
        if is_attached {
            self.confirmed.get_or_insert(0); // replies wait already: the next confirmation is to move or to end that
        }
        // Even if this is the present policy: one requested in between has changed the positions that clients wait for.
        if let Some(policy) = policy {
            self.set_policy(policy);
        }
    }

    fn set_policy(&mut self, policy: FsyncPolicy) {
        self.policy = policy;
        if policy == FsyncPolicy::Always {
            self.confirmed = Some(self.durable);
            self.shared.reader.set_confirmed(self.confirmed);
        }
        self.follow_workers();
    }

    /// Returns true if all records before the next increment are written.
    pub(super) fn rotation_is_reached(&self) -> bool {
        self.rotation.as_ref().is_some_and(|rotation| rotation.position <= self.written.position)
    }

    /// Begins the next increment once everything before it is durable.
    pub(super) fn rotate_if_due(&mut self) {
        if !self.rotation_is_reached() || !self.is_durable() {
            return;
        }
        let Some(rotation) = self.rotation.take() else { return };
        let created = self.shared.dir.create_increment(self.shared.dir.is_detached());
        self.shared.reader.pass(rotation.position);
        let result = created.map(|(file, seq)| {
            self.switch_to(file, rotation.position, rotation.db);
            seq
        });
        self.publish();
        (rotation.done)(result);
    }

    /// Begins an increment that is in no manifest, if that was requested. On failure the caller is told at once, and
    /// does not wait for a disk that may never work again.
    pub(super) fn restart_if_asked(&mut self) -> Result<(), AofError> {
        if self.restart.is_none() || self.syncing.is_some() {
            return Ok(());
        }
        let Some(restart) = self.restart.take() else { return Ok(()) };
        let (file, seq) = match self.shared.dir.create_increment(true) {
            Ok(created) => created,
            Err(error) => {
                self.lost.get_or_insert(NeedsRewrite::LostPlace); // the reader has moved to the requested position
                (restart.done)(Err(error.clone()));
                return Err(error);
            }
        };
        // Positions may have begun again, with the data of a primary.
        let has_lost_place = self.lost == Some(NeedsRewrite::LostPlace);
        if let Some(rotation) = self.rotation.take_if(|rotation| has_lost_place || rotation.position < restart.position)
        {
            (rotation.done)(Err(AofError::Busy));
        }
        self.lost = None;
        self.switch_to(file, restart.position, restart.db);
        self.publish();
        (restart.done)(Ok(seq));
        Ok(())
    }

    /// Answers the sync requests whose positions are durable.
    pub(super) fn answer_syncs(&mut self) {
        self.confirm();
        if self.syncs.is_empty() {
            return;
        }
        let position = self.durable;
        let (done, waiting) = std::mem::take(&mut self.syncs).into_iter().partition(|sync| sync.position <= position);
        self.syncs = waiting;
        let done: Vec<_> = done;
        if !done.is_empty() {
            self.publish();
        }
        done.into_iter().for_each(|sync| (sync.done)(Ok(())));
    }

    /// Ends the writer if that was requested and everything is durable; returns true if the writer has ended.
    pub(super) fn stop_if_due(&mut self, now: BlockStamp) -> bool {
        let is_due = self.stop.as_ref().is_some_and(|stop| stop.position <= self.synced.position);
        if !is_due || !self.is_durable() {
            return false;
        }
        if self.shared.dir.is_detached() {
            self.fail_requests(&AofError::NeedsRewrite);
            return self.has_ended;
        }
        self.close(now);
        self.publish();
        self.shared.requests.lock().is_closed = true;
        self.take_requests();
        if let Some(stop) = self.stop.take() {
            (stop.done)(Ok(()));
        }
        self.fail_requests(&AofError::Stopped);
        true
    }

    /// Appends an empty block as a timestamp.
    pub(crate) fn mark(&mut self) {
        let now = (self.clock)();
        if self.has_checksums {
            _ = self.write_block(&[], 0, now); // an incomplete block is cut off before the next one
        }
    }

    /// Appends an empty block which says that everything before it is durable, so that damage there is not taken for a
    /// torn tail.
    fn close(&mut self, now: BlockStamp) {
        if !self.has_checksums || self.is_closed || self.written.len == 0 || self.lost.is_some() {
            return;
        }
        // Everything is durable without this block; if it cannot be written, nothing is lost.
        let is_written = self.write_block(&[], 0, now).is_ok() && self.file.sync_data().is_ok();
        if !is_written {
            _ = self.file.set_len(self.synced.len);
        }
    }

    /// Answers all waiting requests with an error. Ends the writer if its stop was forced.
    pub(super) fn fail_requests(&mut self, error: &AofError) {
        if let Some(rotation) = self.rotation.take() {
            self.shared.reader.pass(rotation.position);
            (rotation.done)(Err(error.clone()));
        }
        let is_stopped = matches!(error, AofError::Stopped);
        if let Some(restart) = self.restart.take_if(|_| is_stopped) {
            (restart.done)(Err(error.clone()));
        }
        self.syncs.drain(..).for_each(|sync| (sync.done)(Err(error.clone())));
        if let Some(stop) = self.stop.take() {
            if stop.is_forced {
                self.has_ended = true;
                self.shared.requests.lock().is_closed = true;
                self.take_requests();
                self.fail_requests(&AofError::Stopped);
            }
            (stop.done)(Err(error.clone()));
        }
    }
}
