//! The clock of a replica, which counts deadlines as its primary does: by an estimate of the primary's clock. So a
//! clock that is ahead ends no lock early, neither on the replica nor after a promotion.

use tracing::{info, warn};

use crate::namespace::Namespace;
use crate::time::estimate::{DRIFT_MAX_MS, TimeSample};

impl Namespace {
    /// Corrects the clock by a sample of the primary's, if the term is the present one. The data stays, and with it
    /// deadlines that were set by the former clock.
    pub(crate) fn hear_time(&self, term: u64, sample: TimeSample) {
        let mut step_ms = 0;
        self.role.update(term, |link| {
            let present_ms = self.clock.now().wall_offset_ms();
            let is_set_forward = !self.role.lacks_time() && sample.is_set_forward(present_ms);
            if is_set_forward && !link.is_late {
                let by_ms = sample.offset_ms().saturating_sub(present_ms);
                warn!(
                    "The clock of MASTER is {by_ms} ms ahead of what it was: its deadlines are as much later here, until \
                     all data is copied again"
                );
            }
            link.is_late = is_set_forward;
            let offset_ms =
                if self.role.lacks_time() { sample.offset_ms() } else { sample.corrected_ms(present_ms) };
            step_ms = self.count_from(Some(offset_ms));
        });
        if step_ms.abs() > DRIFT_MAX_MS {
            // The file's timestamps are by a clock other than that of the deadlines, and a start would move these.
            self.persistence.rewrite_log();
            self.disconnect_replicas(); // they have to ask for the time again
        }
    }

    /// Sets the clock to that of the primary whose data replaces the present data; `None` if the primary does not send
    /// its time.
    pub(crate) fn begin_time(&self, sample: Option<TimeSample>) {
        self.count_from(sample.map(TimeSample::offset_ms));
    }

    /// Continues the clock of a replica from the last timestamp of a file. `step_ms`: by how much this
    /// machine's clock was set since then, or its difference from the primary's clock that it now replaces.
    pub(crate) fn continue_time(&self, step_ms: i64) {
        self.role.set_lacks_time(false);
        if step_ms != 0 {
            self.count_from(Some(self.clock.now().wall_offset_ms().saturating_sub(step_ms)));
        }
    }

    /// Sets the clock by its offset; returns the change in milliseconds.
    fn count_from(&self, offset_ms: Option<i64>) -> i64 {
        let (before_ms, was_following) = (self.clock.now().wall_offset_ms(), self.clock.is_following());
        self.clock.follow(offset_ms);
        let step_ms = self.clock.now().wall_offset_ms().saturating_sub(before_ms);
        self.role.set_lacks_time(offset_ms.is_none());
        self.persistence.update(|figures| figures.shift_times(step_ms));
        if step_ms.abs() > DRIFT_MAX_MS {
            self.role.note_clock_step();
        }
        if step_ms.abs() > DRIFT_MAX_MS || was_following != self.clock.is_following() {
            let by_ms = self.clock.now().wall_offset_ms().saturating_sub(self.clock.own_offset_ms());
            let how = if by_ms < 0 { "behind" } else { "ahead of" };
            match offset_ms {
                Some(_) => info!("Time is that of MASTER, whose clock is {} ms {how} this machine's", by_ms.abs()),
                None => info!("Time is that of this machine"),
            }
        }
        step_ms
    }
}
