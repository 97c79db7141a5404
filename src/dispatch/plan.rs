//! The plan of a batch: commands and key hashes, computed before the first request is executed.

use crate::dispatch::Call;
use crate::resp::{Batch, Request};
use crate::spec::{BLOCKING, CONTROL, CommandSpec, EXCLUSIVE, Names};
use crate::store::{PrefetchElement, Store};

/// Commands and key hashes of the requests of a batch.
#[derive(Default)]
pub struct Plan {
    steps: Vec<Step>,
    /// Hashes of all keys, in the order of the requests.
    hashes: Vec<u64>,
    /// True if requests name elements of collections.
    has_elements: bool,
}

struct Step {
    /// `None` for an unknown command.
    command: Option<&'static CommandSpec>,
    /// End of this request's hashes in the plan's list. They begin at the end of the previous request's hashes.
    hashes_end: usize,
}

/// Requests of a batch from a certain one on, with their plan. They are numbered as in the plan.
#[derive(Clone, Copy)]
pub(crate) struct PlannedRequests<'b> {
    batch: &'b Batch,
    first: usize,
    plan: &'b Plan,
}

impl<'b> PlannedRequests<'b> {
    #[inline]
    pub(super) fn request(self, index: usize) -> Request<'b> {
        self.batch.get(self.first + index)
    }

    #[inline]
    pub(super) fn command(self, index: usize) -> Option<&'static CommandSpec> {
        self.plan.steps[index].command
    }

    #[inline]
    pub(super) fn hashes_of(self, index: usize) -> &'b [u64] {
        self.plan.hashes_of(index)
    }

    /// Moves a call on to the next request, if that has the same command and its keys can be locked in the same way.
    #[inline]
    pub(super) fn advance(self, index: &mut usize, call: &mut Call<'b>) -> bool {
        let next = *index + 1;
        let Some(request) = self.another(next, call.command) else { return false };
        let hashes = self.hashes_of(next);
        let has_moved = call.view.move_on(hashes);
        if has_moved {
            call.renew(request, hashes);
            *index = next;
        }
        has_moved
    }

    /// Returns a request if it has this command and a valid number of arguments.
    #[inline]
    fn another(self, index: usize, command: &'static CommandSpec) -> Option<Request<'b>> {
        let is_same = self.plan.steps.get(index)?.command.is_some_and(|other| std::ptr::eq(other, command));
        let request = is_same.then(|| self.request(index))?;
        command.accepts(request.len()).then_some(request)
    }
}

/// Consecutive requests of a batch that have the same command.
pub(super) struct RequestRun<'r> {
    pub(super) command: &'static CommandSpec,
    pub(super) planned: PlannedRequests<'r>,
    /// Number of the first request to be executed; afterwards, of the last one that was executed.
    pub(super) index: &'r mut usize,
    /// True if the requests after it may be executed with it.
    pub(super) may_go_on: bool,
    /// Hashes of the keys to be locked, if they differ from the keys that the request names.
    pub(super) locks: Option<&'r [u64]>,
}

impl<'r> RequestRun<'r> {
    /// Begins a run with a request of this command. Further requests may follow unless the command needs work or a
    /// check after each call.
    #[inline]
    pub(super) fn begin(planned: PlannedRequests<'r>, index: &'r mut usize, command: &'static CommandSpec) -> Self {
        let may_go_on = command.flags & (CONTROL | BLOCKING | EXCLUSIVE) == 0;
        RequestRun { command, planned, index, may_go_on, locks: None }
    }

    /// Reduces a run to its first request.
    pub(super) fn alone(self) -> Self {
        RequestRun { may_go_on: false, ..self }
    }
}

impl Plan {
    /// Returns the requests of a batch from request `first` on, from which this plan was made.
    pub(crate) fn of<'b>(&'b self, batch: &'b Batch, first: usize) -> PlannedRequests<'b> {
        PlannedRequests { batch, first, plan: self }
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    #[inline]
    fn hashes_of(&self, index: usize) -> &[u64] {
        let start = index.checked_sub(1).map_or(0, |before| self.steps[before].hashes_end);
        &self.hashes[start..self.steps[index].hashes_end]
    }

    pub(super) fn has_elements(&self) -> bool {
        self.has_elements
    }

    /// Returns the elements, with their keys, that the requests of the batch look up from request `first` on.
    pub(super) fn elements<'r>(
        &self,
        batch: &'r Batch,
        first: usize,
    ) -> impl Iterator<Item = PrefetchElement<'r>> + use<'_, 'r> {
        let requests = self.steps.iter().enumerate();
        requests.flat_map(move |(index, step)| {
            let named = step.command.filter(|command| command.has_elements());
            let named = named.and_then(|command| Some((command, *self.hashes_of(index).first()?)));
            named.into_iter().flat_map(move |(command, key)| {
                command.elements_of(batch.get(first + index)).map(move |text| PrefetchElement { key, text })
            })
        })
    }

    /// Looks up the commands of a batch from request `first` on and hashes their keys.
    #[inline]
    pub(super) fn make(&mut self, batch: &Batch, first: usize, names: Names<'_>, store: &Store) {
        self.steps.clear();
        self.hashes.clear();
        self.has_elements = false;
        // Pipelines mostly repeat a command in the same case.
        let mut before: (&[u8], Option<&'static CommandSpec>) = (b"", None);
        for request in batch.iter_from(first) {
            let name = request.name();
            let command = if before.1.is_some() && name == before.0 { before.1 } else { find(request, names) };
            // A container's name alone does not determine the command.
            before = (name, command.filter(|command| command.name_args == 1 && command.subcommands.is_empty()));
            if let Some(command) = command
                && command.accepts(request.len())
            {
                command.hash_keys(request, store, &mut self.hashes);
                self.has_elements |= command.has_elements();
            }
            self.steps.push(Step { command, hashes_end: self.hashes.len() });
        }
    }
}

/// Finds the command or subcommand of a request.
#[inline]
pub(crate) fn find(request: Request<'_>, names: Names<'_>) -> Option<&'static CommandSpec> {
    let command = names.find(request.name())?;
    if command.subcommands.is_empty() || request.len() == 1 {
        Some(command)
    } else {
        command.subcommand(request.arg(1))
    }
}
