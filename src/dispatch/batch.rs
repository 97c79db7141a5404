//! Execution of one batch of requests of a client.

mod call;
mod engine;
mod examine;
#[cfg(test)]
pub(crate) mod probe;
mod resume;
mod store_gate;
mod test_mode;
mod transaction;

use crate::client::session::Client;
use crate::dispatch::checks::{closed_to_client, is_open};
use crate::dispatch::plan::{Plan, PlannedRequests, RequestRun};
use crate::dispatch::{Env, Next, post_call};
use crate::resp::{Batch, Output, Request};
use crate::spec::{CommandSpec, Flags};
use crate::store::{Cx, GateGuard, Lookup, Origin};
use crate::time::clock::Now;

pub(super) use call::end_call;

/// Time for which calls share one reading of the clock, in ns: a key may be found for that long after its deadline.
const TIME_KEPT_NS: u32 = 100_000;

/// Number of keys in a batch from which prefetching pays.
const PREFETCH_MIN: usize = 2;

/// Execution of one batch of requests. The store's gate is acquired once and held until other threads have waited for
/// it long enough; the time is read once for as long as it is accurate.
///
/// Invariant: no call is made with an admission state that was outdated when the gate was acquired, see
/// [`Store::generation`](crate::store::Store::generation).
pub(crate) struct BatchRun<'n> {
    env: Env<'n>,
    guard: Option<GateGuard<'n>>,
    /// Generation of the admission state that the client's requests are checked against.
    generation: u64,
    now: Now,
    /// Tick counter when the time was read.
    read_at: u64,
    /// Tick counter from which the time must be read again.
    stale_at: u64,
    /// Tick counter since which this batch has not let another thread pass at the gate.
    held_from: u64,
    /// Flags of the commands that must run through the checks.
    closed: Flags,
    /// True if there is a memory limit, which is then checked before each command.
    has_limit: bool,
    origin: Origin,
    lookup: Lookup,
    /// True if the client's calls need extra work, such as writing push messages between replies.
    has_extra_work: bool,
    /// Position in the log that the replies so far depend on.
    dependence: u64,
}

impl<'n> BatchRun<'n> {
    /// Starts a batch of a client at the present time. `generation` was read before the settings, the client's user and
    /// its close flag.
    #[inline(always)] // for a single request the call would cost a hundredth of all instructions
    pub(crate) fn new(env: Env<'n>, generation: u64, client: &Client) -> Self {
        let Env { namespace, config, timer, .. } = env;
        // Read after the counter: the time since then is overestimated rather than underestimated.
        let (read_at, now) = (timer.begin(), namespace.clock.now());
        namespace.store.memory_account().follow_clock(now);
        timer.set_recording(namespace.observed.record_from_ns(config), config.latency_tracking);
        let stale_at = timer.ticks_after(read_at, TIME_KEPT_NS);
        let has_limit = namespace.store.memory_account().has_limit();
        if has_limit {
            namespace.record_shortage(now);
        }
        let has_extra_work = client.needs_attention();
        // Built in place: the struct is large, and moving it costs as much as a look-up.
        BatchRun {
            env,
            guard: None,
            generation,
            now,
            read_at,
            stale_at,
            held_from: read_at,
            closed: closed_to_client(namespace, client, has_extra_work),
            has_limit,
            origin: Origin::Client(client.caller.info.id),
            lookup: Lookup::ALL,
            has_extra_work,
            dependence: 0,
        }
    }

    /// Sets up a client with [`Client::needs_attention`]: look-ups that do not count as accesses (CLIENT NO-TOUCH), and
    /// the recording of every call for tracking.
    #[inline]
    pub(crate) fn set_up_extra_work(&mut self, client: &Client) {
        if self.has_extra_work {
            self.set_up_attention(client);
        }
    }

    #[cold]
    fn set_up_attention(&mut self, client: &Client) {
        self.lookup = Lookup::allowed(!client.caller.info.flags.is_no_touch());
        let record_from_ns = post_call::record_from_ns(self.env.namespace, &client.caller, self.env.config);
        self.env.timer.set_recording(record_from_ns, self.env.config.latency_tracking);
    }

    #[inline]
    fn cx(&self) -> Cx {
        Cx { now: self.now, origin: self.origin, lookup: self.lookup }
    }

    /// Reads the time again after a wait or a slow call.
    #[cold]
    fn read_time(&mut self) {
        self.read_at = self.env.namespace.clock.ticks();
        self.stale_at = self.env.timer.ticks_after(self.read_at, TIME_KEPT_NS);
        self.now = self.env.namespace.clock.now();
        self.env.namespace.store.memory_account().follow_clock(self.now);
    }

    /// Returns the position in the log that the replies depend on. Push messages between the replies depend on the
    /// whole log.
    #[cold]
    pub(crate) fn dependence(&self) -> u64 {
        if self.has_extra_work { self.env.namespace.log.end() } else { self.dependence }
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    /// Looks up the commands of a batch from request `first` on, hashes their keys and prefetches their entries.
    #[inline(always)] // as BatchRun::new
    pub(crate) fn plan(&mut self, batch: &Batch, first: usize, db: usize, plan: &mut Plan) {
        plan.make(batch, first, self.env.namespace.names(self.env.config), &self.env.namespace.store);
        if plan.hashes().len() >= PREFETCH_MIN {
            self.acquire_gate(|store| store.hold(plan.len()));
            self.guard.iter_mut().for_each(|guard| guard.prefetch(db, plan.hashes()));
            if plan.has_elements() {
                self.prefetch_elements(batch, first, db, plan);
            }
        }
        self.env.timer.record_requests(plan.len());
        if plan.len() > 1 {
            self.env.timer.begin_now();
        }
    }

    /// Prefetches the fields and members that the requests of a plan look up in large collections.
    #[inline(never)] // keeps the plans of strings short
    fn prefetch_elements(&mut self, batch: &Batch, first: usize, db: usize, plan: &Plan) {
        self.guard.iter_mut().for_each(|guard| guard.prefetch_elements(db, plan.elements(batch, first)));
    }

    /// Executes, queues or rejects request `index`, and executes the requests of the same command that directly follow
    /// it and need no other check; `index` is then the last of them. Returns the work that remains before the next
    /// request.
    #[inline(always)] // its only caller that counts
    pub(crate) fn execute(
        &mut self,
        client: &mut Client,
        planned: PlannedRequests<'_>,
        index: &mut usize,
        out: &mut Output,
    ) -> Next {
        let request = planned.request(*index);
        if let Some(command) = planned.command(*index)
            && self.passes_unchecked(command, request)
        {
            if !self.acquire_gate_for(command, request, None) {
                return Next::Again;
            }
            client.caller.called = Some(command);
            let run = RequestRun::begin(planned, index, command);
            let run = if self.has_limit { run.alone() } else { run }; // the limit is checked for each request
            return self.call(client, run, out);
        }
        self.examine(client, planned, index, out)
    }

    /// Returns whether a request needs no check and no work besides its execution.
    #[inline(always)] // its only caller
    fn passes_unchecked(&self, command: &CommandSpec, request: Request<'_>) -> bool {
        is_open(self.closed, command, request)
            && !(self.has_limit && self.env.namespace.store.memory_account().is_over())
    }
}
