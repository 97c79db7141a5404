"""Runs of a scenario in threads; one that does not end is interrupted, and left to itself."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from ._clocks import monotonic
from ._points import Journal, Point
from ._resp import Connection

TICK_S = 0.1
END_S = 5.0  # for which the end of an interrupted run is waited for


@dataclass(eq=False)
class Trial:
    """A run of the scenario, with the faults of some points."""

    points: tuple[Point, ...] = ()
    number: int = 1  # which run of these points it is
    # The runs, with other arguments than expected, that are judged again after this one, which has no fault.
    judged: list[Trial] = field(default_factory=list)
    user: str = ""  # of its instance
    journal: Journal | None = None
    error: BaseException | None = None
    is_endless: bool = False

    def again(self) -> Trial:
        """Returns the next run of the same points."""
        return Trial(self.points, self.number + 1)


class Performer(Protocol):
    """What is done with trials."""

    def connect(self) -> Connection:
        """Returns a control connection for a worker."""

    def perform(self, trial: Trial, connection: Connection) -> None:
        """Makes a run."""

    def rescue(self, trial: Trial) -> None:
        """Reads the journal of a run that does not end, and closes its connections for good."""

    def judge(self, trial: Trial, is_last: bool = False) -> list[Trial]:
        """Looks at a run that has ended; for one at a time. Returns further runs that it needs, if it is not the last."""


class Interrupted(BaseException):
    """Ends a run that takes too long."""


class Worker(threading.Thread):
    """A thread that makes runs, with a control connection."""

    def __init__(self, work: Callable[[Worker], None], connection: Connection) -> None:
        super().__init__(name="keylatch-explore", daemon=True)
        self._work, self._context = work, contextvars.copy_context()
        self.connection = connection
        self.trial: Trial | None = None  # which is being made
        self.began = 0.0

    def run(self) -> None:
        with contextlib.suppress(Interrupted):
            self._context.run(self._work, self)
            self.connection.close()

    def interrupt(self) -> None:
        """Raises an exception in the thread, as soon as it executes code of Python."""
        assert self.ident is not None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(Interrupted))


class Batch:
    """Trials that are made by several workers, each within a time in seconds."""

    def __init__(self, performer: Performer, trials: list[Trial], timeout: float, until: float | None = None) -> None:
        """`until`: after which no further one is begun."""
        self._performer, self._trials, self._timeout, self._until = performer, trials, timeout, until
        self._next = 0
        self._again: collections.deque[Trial] = collections.deque()  # which come before the next one
        self._changed = threading.Condition()
        self._workers: list[Worker] = []
        self._broken: Exception | None = None
        self._is_over = False

    def run(self, workers: int, is_exclusive: bool, progress: Callable[[], None]) -> list[Trial]:
        """Makes the trials; returns those for which there was time.

        `is_exclusive`: no run begins before one that took too long has really ended.
        """
        try:
            with self._changed:
                self._begin(min(workers, len(self._trials)))
                while self._workers and self._broken is None:
                    self._changed.wait(TICK_S)
                    progress()
                    for worker in self._late():
                        self._give_up(worker, is_exclusive)
        finally:
            self._is_over = True
        if self._broken is not None:
            raise self._broken
        return self._trials[: self._next]

    def _begin(self, count: int) -> None:
        workers = [Worker(self._work, self._performer.connect()) for _ in range(count)]
        self._workers += workers
        for worker in workers:
            worker.start()

    def _work(self, worker: Worker) -> None:
        while (trial := self._take(worker)) is not None:
            try:
                self._performer.perform(trial, worker.connection)
                self._end(worker, trial)
            except Exception as error:  # of the server, or of this package
                with self._changed:
                    if worker in self._workers:
                        self._broken = error
                        self._changed.notify()

    def _take(self, worker: Worker) -> Trial | None:
        with self._changed:
            if worker not in self._workers:
                return None
            worker.began = now = monotonic()
            is_late = self._until is not None and now >= self._until
            if self._is_over or self._broken is not None:
                worker.trial = None
            elif self._again:  # of a point that was begun in time
                worker.trial = self._again.popleft()
            elif is_late or self._next == len(self._trials):
                worker.trial = None
            else:
                worker.trial = self._trials[self._next]
                self._next += 1
            if worker.trial is None:
                self._workers.remove(worker)
                self._changed.notify()
            return worker.trial

    def _end(self, worker: Worker, trial: Trial) -> None:
        with self._changed:
            if worker in self._workers:
                worker.trial = None
                self._again.extendleft(self._performer.judge(trial))

    def _late(self) -> list[Worker]:
        limit = monotonic() - self._timeout
        return [worker for worker in self._workers if worker.trial is not None and worker.began < limit]

    def _give_up(self, worker: Worker, is_exclusive: bool) -> None:
        """Leaves a run to itself, and has another worker go on."""
        assert worker.trial is not None
        self._workers.remove(worker)
        # Another object, since the thread may still change its own.
        endless = replace(worker.trial, journal=None, error=None, is_endless=True)
        worker.interrupt()
        self._performer.rescue(endless)
        end = monotonic() + END_S
        while is_exclusive and worker.is_alive() and monotonic() < end:
            self._changed.wait(TICK_S)  # without the lock, which the worker may need to end
        is_last = is_exclusive and worker.is_alive()
        self._again.extendleft(self._performer.judge(endless, is_last))
        if not is_last:
            self._begin(1)
