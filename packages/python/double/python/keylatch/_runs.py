"""Runs of a scenario in threads; one that does not end is interrupted, and left to itself."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
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
    user: str = ""  # of its instance
    journal: Journal | None = None
    error: BaseException | None = None
    is_endless: bool = False


class Performer(Protocol):
    """What is done with trials."""

    def connect(self) -> Connection:
        """Returns a control connection for a worker."""

    def perform(self, trial: Trial, connection: Connection) -> None:
        """Makes a run."""

    def rescue(self, trial: Trial) -> None:
        """Reads the journal of a run that does not end, and closes its connections."""

    def judge(self, trial: Trial) -> None:
        """Looks at a run that has ended; for one at a time."""


class Interrupted(BaseException):
    """Ends a run that takes too long."""


class Worker(threading.Thread):
    """A thread that makes runs, with a control connection."""

    def __init__(self, work: Callable[[Worker], None], connection: Connection) -> None:
        super().__init__(name="keylatch-explore", daemon=True)
        self._work, self._context = work, contextvars.copy_context()
        self.connection = connection
        self.at: int | None = None  # the place of the trial that is being made
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
        self._next = self._done = 0
        self._changed = threading.Condition()
        self._workers: list[Worker] = []
        self._broken: Exception | None = None
        self._is_over = False

    def run(self, workers: int, is_exclusive: bool, progress: Callable[[int], None]) -> list[Trial]:
        """Makes the trials; returns those for which there was time.

        `is_exclusive`: no run begins before one that took too long has really ended.
        """
        try:
            with self._changed:
                self._begin(min(workers, len(self._trials)))
                while self._workers and self._broken is None:
                    self._changed.wait(TICK_S)
                    progress(self._done)
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
            now = monotonic()
            is_over = self._is_over or self._broken is not None or (self._until is not None and now >= self._until)
            if is_over or self._next == len(self._trials):
                self._workers.remove(worker)
                self._changed.notify()
                return None
            worker.at, worker.began = self._next, now
            self._next += 1
            return self._trials[worker.at]

    def _end(self, worker: Worker, trial: Trial) -> None:
        with self._changed:
            if worker in self._workers:
                worker.at = None
                self._done += 1
                self._performer.judge(trial)

    def _late(self) -> list[Worker]:
        limit = monotonic() - self._timeout
        return [worker for worker in self._workers if worker.at is not None and worker.began < limit]

    def _give_up(self, worker: Worker, is_exclusive: bool) -> None:
        """Leaves a run to itself, and has another worker go on."""
        assert worker.at is not None
        self._workers.remove(worker)
        given_up = self._trials[worker.at]
        # Another object, since the thread may still change its own.
        self._trials[worker.at] = endless = Trial(given_up.points, given_up.user, is_endless=True)
        worker.interrupt()
        self._performer.rescue(endless)
        self._done += 1
        self._performer.judge(endless)
        if is_exclusive:
            worker.join(END_S)
            if worker.is_alive():
                return
        self._begin(1)
