//! Acquisition and release of the store's gate by a batch, with the check of the admission state.

use crate::dispatch::Next;
use crate::dispatch::batch::BatchRun;
use crate::resp::Request;
use crate::spec::CommandSpec;
use crate::store::{GateGuard, Store};

/// Time for which a batch holds the gate while others wait for it, in nanoseconds. A call is not interrupted.
const GATE_KEPT_NS: u64 = 500_000;

impl<'n> BatchRun<'n> {
    /// Acquires the gate of the store, unless it is held. Returns false, without the gate, if the admission state has
    /// changed since this batch has read it.
    #[inline]
    pub(super) fn acquire_gate(&mut self, take: impl FnOnce(&'n Store) -> GateGuard<'n>) -> bool {
        if self.guard.is_some() {
            return true;
        }
        // Created in place: a guard is large, and moving it costs as much as acquiring it.
        let has_waited = self.guard.get_or_insert_with(|| take(&self.env.namespace.store)).has_waited();
        if has_waited {
            self.read_time();
            self.held_from = self.read_at;
        }
        let is_current = self.env.namespace.store.generation() == self.generation;
        if !is_current {
            self.release_gate();
        }
        is_current
    }

    /// Releases the gate before the end of the batch.
    pub(super) fn release_gate(&mut self) {
        self.guard = None;
    }

    /// Acquires the gate for a call of a command: exclusively for a command that needs the whole store, unless the keys
    /// to be locked are known. Returns false as [`BatchRun::acquire_gate`] does.
    #[inline(always)] // as BatchRun::execute
    pub(super) fn acquire_gate_for(
        &mut self,
        command: &CommandSpec,
        request: Request<'_>,
        locks: Option<&[u64]>,
    ) -> bool {
        if self.env.timer.begin() >= self.stale_at {
            self.refresh();
        }
        let is_exclusive = locks.is_none() && command.is_exclusive(request);
        if is_exclusive && !self.guard.as_ref().is_some_and(GateGuard::is_exclusive) {
            self.release_gate(); // the gate is not reentrant
            return self.acquire_gate(Store::lock_exclusive);
        }
        self.acquire_gate(|store| store.hold(1))
    }

    /// Reads the time again after a call that took long, and releases the gate if others have waited long enough.
    #[cold]
    fn refresh(&mut self) {
        self.read_time();
        let is_shared = self.guard.as_ref().is_some_and(GateGuard::is_shared);
        if is_shared && self.env.namespace.store.is_awaited() {
            self.yield_gate();
        }
    }

    /// Releases the gate and lets another thread pass, if this one has had it for long enough.
    pub(super) fn yield_gate(&mut self) {
        if self.env.timer.ns_since(self.held_from) >= GATE_KEPT_NS {
            self.release_gate();
            self.env.namespace.store.yield_to_waiter();
            self.read_time();
            self.held_from = self.read_at;
        }
    }

    /// Waits until all calls of other threads are over that were admitted before this call has changed the admission
    /// state: its reply is not written before. A change of the settings of the process concerns all namespaces.
    #[cold]
    pub(super) fn pass_barrier(&mut self, command: &CommandSpec, next: &mut Next) {
        self.release_gate(); // the gate is not reentrant
        match self.env.namespace.tenant.name() {
            None => self.env.namespace.each(|namespace| namespace.store.pass_barrier()),
            Some(_) => self.env.namespace.store.pass_barrier(),
        }
        if let Next::Done | Next::EndBatch = next {
            *next = self.settle(command).map_or(Next::EndBatch, Next::Settle);
        }
    }
}
