//! What the writer is asked.

use crate::persist::aof::block::Stamp;
use crate::persist::aof::error::AofError;
use crate::persist::aof::handle::NeedsRewrite;
use crate::persist::aof::policy::{Annotations, Policy};
use crate::persist::aof::writer::Writer;

impl Writer {
    /// Takes what was asked since the last step.
    pub(super) fn take_requests(&mut self) {
        let mut requests = self.shared.requests.lock();
        self.syncs.append(&mut requests.syncs);
        let (policy, rotation) = (requests.policy.take(), requests.rotation.take_if(|_| self.rotation.is_none()));
        let annotations = requests.annotations.take();
        let (restart, stop) = (requests.restart.take(), requests.stop.take_if(|_| self.stop.is_none()));
        drop(requests);
        self.rotation = self.rotation.take().or(rotation);
        self.stop = self.stop.take().or(stop);
        if let Some(former) = restart.and_then(|restart| self.restart.replace(restart)) {
            (former.done)(Err(AofError::Busy));
        }
        if let Some(Annotations { checksums, timestamps }) = annotations {
            (self.wants_checksums, self.has_timestamps) = (checksums, timestamps);
            self.last_timestamp = 0; // the next block has one
        }
        // Also if it is the present one: one that was asked for in between has changed what clients wait for.
        policy.into_iter().for_each(|policy| self.set_policy(policy));
    }

    fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
        if policy == Policy::Always {
            self.confirmed = Some(self.durable);
            self.shared.reader.set_confirmed(self.confirmed);
        }
        self.follow_workers();
    }

    /// Returns whether all is written that belongs before the next increment.
    pub(super) fn rotation_is_reached(&self) -> bool {
        self.rotation.as_ref().is_some_and(|rotation| rotation.position <= self.written.position)
    }

    /// Begins the next increment when all before is durable.
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

    /// Begins an increment that is in no manifest, if that was asked. Where that fails, who has asked is told, and does not
    /// wait for a disk that may never work again.
    pub(super) fn restart_if_asked(&mut self) -> Result<(), AofError> {
        if self.restart.is_none() || self.syncing.is_some() {
            return Ok(());
        }
        let Some(restart) = self.restart.take() else { return Ok(()) };
        let (file, seq) = match self.shared.dir.create_increment(true) {
            Ok(created) => created,
            Err(error) => {
                self.lost.get_or_insert(NeedsRewrite::LostPlace); // the log has gone on to the place of the request
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

    /// Answers those who wait for a sync that is done.
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

    /// Ends the writer if that was asked and all is durable; returns whether it has ended.
    pub(super) fn stop_if_due(&mut self, now: Stamp) -> bool {
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

    /// Appends an empty block, which says when that was.
    pub(crate) fn mark(&mut self) {
        let now = (self.clock)();
        if self.has_checksums {
            _ = self.write_block(&[], 0, now); // what is not whole is cut off before the next
        }
    }

    /// Appends an empty block that says that all before it is durable, so that damage there is not taken for a torn tail.
    fn close(&mut self, now: Stamp) {
        if !self.has_checksums || self.is_closed || self.written.len == 0 || self.lost.is_some() {
            return;
        }
        // All is durable without it; if it cannot be written, nothing is lost.
        let is_written = self.write_block(&[], 0, now).is_ok() && self.file.sync_data().is_ok();
        if !is_written {
            _ = self.file.set_len(self.synced.len);
        }
    }

    /// Tells all who wait for a result that there is none. Ends the writer if it was told to stop in any case.
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
