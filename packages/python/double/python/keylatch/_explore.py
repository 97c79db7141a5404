"""Exploration: a scenario runs once for each thing that can go wrong at one of its calls."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import itertools
import math
import os
import random
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from ._clocks import monotonic
from ._instance import Keylatch
from ._points import DEFAULT_KINDS, KINDS, Baseline, Journal, Point, literal
from ._report import ExploreError, Report, counted, message_of
from ._resp import Connection, milliseconds
from ._runs import Batch, Trial
from ._server import RunningServer, shared_server

PAIRS_S = 10.0  # for which pairs are tried if there is no budget
PAIRS_MAX = 100_000
LINGER_MS = 5000
RUNS = 3  # of a point, and pairs of runs without a fault, until one makes the calls that are expected
CHECKS = 5  # further runs without a fault in an exploration
GRACE_S = 1.0  # which a coroutine has to end when it is cancelled

# They keep the instances of runs that have not ended, so that nothing that is left of these runs connects again.
_kept: list[Connection] = []

Scenario = Callable[[Keylatch], Awaitable[object] | object]


def explore(
    scenario: Scenario,
    *,
    kinds: Iterable[str] | None = None,
    budget: float | None = None,
    workers: int | None = None,
    only: str | Iterable[str] | None = None,
    pairs: bool = False,
    seed: int | None = None,
    late_by: float | timedelta = 60_000,
    timeout: float = 10.0,
    raises: bool = True,
    server: RunningServer | None = None,
) -> Report:
    """Runs a scenario once for each point: a call that it makes, and something that goes wrong at this call.

    The scenario, a function or an `async def`, gets a private instance as tests get it by the fixture `keylatch`, a new
    one in each run. It connects to its `url`, asserts what must hold, and passes if nothing goes wrong.
    Raises ExploreError if it fails at a point, or three times does something else before it than without a fault.

    kinds: what goes wrong: `lost-reply`, `not-executed`, `cut-all`, `late`, `expired` and `noscript`, which are tried
    without this option; `evicted`, `failover`, `readonly`, `oom`, `loading`, `busy`.
    budget: seconds after which no further point is begun.
    workers: the number of threads in which the scenario runs; by default one for each core.
    only: the names of points, as the report has them: just these are tried.
    pairs: whether two points at once are tried as well, a random sample by `seed`, for the budget or ten seconds.
    late_by: by how much the clock moves before a reply that is late, in milliseconds or as a timedelta.
    timeout: seconds of real time within which a run has to end.
    raises: False to have the report returned whatever it says.
    server: the server of the instances; by default that of the fixtures.
    """
    options = Options.of(kinds, budget, workers, only, pairs, seed, late_by, timeout)
    report = Exploration(scenario, server or shared_server(), options).report()
    if raises and not report.ok:
        raise ExploreError(str(report), report) from next(iter(report.causes.values()), None)
    return report


@dataclass(frozen=True)
class Options:
    """The options of an exploration."""

    kinds: tuple[str, ...] | None
    budget: float | None
    workers: int
    only: tuple[str, ...]
    pairs: bool
    seed: int | None
    late_by: int
    timeout: float

    @classmethod
    def of(
        cls,
        kinds: Iterable[str] | None = None,
        budget: float | None = None,
        workers: int | None = None,
        only: str | Iterable[str] | None = None,
        pairs: bool = False,
        seed: int | None = None,
        late_by: float | timedelta = 60_000,
        timeout: float = 10.0,
    ) -> Options:
        """Makes them of those of `explore`."""
        chosen = None if kinds is None else tuple([kinds] if isinstance(kinds, str) else kinds)
        for kind in chosen or ():
            if kind not in KINDS:
                raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
        names = tuple([only] if isinstance(only, str) else only or ())
        return cls(chosen, budget, workers or cores(), names, pairs, seed, milliseconds(late_by), timeout)


def cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Endless(Exception):
    """A coroutine has not ended within its time."""


class Explored(Keylatch):
    """The instance of a run, by the control connection of a worker."""

    def __init__(self, server: RunningServer, connection: Connection, user: str, moves_process: bool) -> None:
        super().__init__(server.host, server.port, user, ended=server.ended, tls=server.tls, ca_file=server.ca_file)
        self._connection, self._moves_process = connection, moves_process

    def failover(self, lose: int | None = 0) -> None:
        """Forgets the last `lose` writes and closes every connection; the instance stays meanwhile."""
        self.command("CONFIG", "SET", "namespace-linger", LINGER_MS)
        super().failover(lose)
        self.command("CONFIG", "SET", "namespace-linger", 0)

    def close(self) -> None:
        """Leaves the connection open, which is the worker's."""


class Exploration:
    """The exploration of one scenario."""

    def __init__(self, scenario: Scenario, server: RunningServer, options: Options, is_exclusive: bool = False) -> None:
        """`is_exclusive`: no run may begin before the last has ended, even if that takes too long.

        Then the clock of the process is that of the run, and moves with its `advance`.
        """
        self._scenario, self._server, self._options, self._is_exclusive = scenario, server, options, is_exclusive
        self._name, self._numbers = f"ns-explore-{uuid.uuid4().hex}", itertools.count()
        self._start, self._began = round(time.time() * 1000), monotonic()
        self._report, self._baseline = Report(), Baseline(Journal([]), Journal([]))
        self._clean = Trial()  # the last run for the baseline
        self._check: Trial | None = None  # the run without a fault that is being made
        self._checks = self._settled = 0
        self._too_long = f"did not end within {options.timeout:g} s"

    def report(self) -> Report:
        """Makes all runs."""
        options, report = self._options, self._report
        self._baseline = self._without_fault()
        points, left_out = self._baseline.points(*self._kinds())
        until = None if options.budget is None else self._began + options.budget
        if options.only:
            self._try(list(chosen(options.only, points)), until)
        else:
            report.left_out = left_out
            report.not_tried = self._try([(point,) for point in points], until)
        if options.pairs and not options.only:
            report.seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
            self._try(list(pairs_of(points, report.seed)), until or monotonic() + PAIRS_S)
        report.seconds = monotonic() - self._began
        return report

    def _without_fault(self) -> Baseline:
        for _ in range(RUNS):
            baseline = Baseline(self._journal_without_fault(), self._journal_without_fault())
            if baseline.difference is None:
                break
        problem = None if baseline.difference is None else f"not repeatable: {baseline.difference}{baseline.hint}"
        if not baseline.journal.calls:
            problem = "the scenario has called nothing: its clients connect to the `url` of what it gets"
        if problem is not None:
            self._report.seconds = monotonic() - self._began
            raise ExploreError(f"explore: {problem}", self._report)
        return baseline

    def _journal_without_fault(self) -> Journal:
        self._batch([Trial()]).run(1, self._is_exclusive, lambda: None)
        trial = self._clean
        if trial.is_endless:
            raise TimeoutError(f"without a fault the scenario {self._too_long}")
        if trial.error is not None:
            raise trial.error
        assert trial.journal is not None
        return trial.journal

    def _kinds(self) -> tuple[Collection[str], dict[str, list[str]]]:
        """Returns the kinds that are tried, and the flags of the commands if they matter."""
        kinds = KINDS if self._options.only else self._options.kinds or DEFAULT_KINDS
        if not {"readonly", "oom"} & set(kinds):
            return kinds, {}
        with self._server.instance() as instance:
            told = instance.command("COMMAND", "INFO", *self._baseline.commands())
        return kinds, {info[0]: info[2] for info in told if info is not None}

    def _try(self, chosen: Sequence[tuple[Point, ...]], until: float | None) -> int:
        """Runs the scenario with the faults of each; returns the number of those for which there was no time."""
        report, is_told = self._report, sys.stderr.isatty()

        def progress() -> None:
            if is_told:
                failed = len(report.failures) + len(report.not_repeatable)
                sys.stderr.write(f"\rexplore: {self._settled} of {counted(len(chosen), 'point', 'points')}, {failed} failed")
                sys.stderr.flush()

        self._settled = 0
        trials = [Trial(points) for points in chosen]
        batch = self._batch(trials, until)
        try:
            tried = batch.run(self._options.workers, self._is_exclusive, progress)
        finally:
            if is_told:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
        report.points += len(tried)
        # They were found in the order in which the runs have ended.
        order = {name_of(trial.points): at for at, trial in enumerate(tried)}
        for found in report.failures, report.not_repeatable:
            found.sort(key=lambda pair: order.get(pair[0], -1))
        return len(trials) - len(tried)

    def _batch(self, trials: list[Trial], until: float | None = None) -> Batch:
        grace = GRACE_S if inspect.iscoroutinefunction(self._scenario) else 0.0
        return Batch(self, trials, self._options.timeout + grace, until)

    def connect(self) -> Connection:
        """Returns a control connection for a worker."""
        return Connection(self._server.host, self._server.port, None, "any", self._server.tls)

    def perform(self, trial: Trial, connection: Connection) -> None:
        """Makes a run, in an instance of its own, which ends when the connection enters another."""
        trial.user = f"{self._name}-{next(self._numbers)}"
        instance = Explored(self._server, connection, trial.user, self._is_exclusive)
        start = ("CONFIG", "SET", "namespace-linger", 0), ("TEST.TIME", "SET", self._start)
        # Of two faults the one that fires hides the call from those behind it: the earlier call's is the last.
        faults = [point.fault(self._options.late_by) for point in reversed(trial.points)]
        instance._pipeline(*start, *faults, user=trial.user)
        try:
            self._play(instance)
        except Endless:
            trial.is_endless = True
        except BaseException as error:  # pytest's are no Exception
            trial.error = error
        # PING shows where the log ended after the last call.
        trial.journal = Journal(instance._pipeline(("PING",), ("TEST.CALLS", "FULL"))[1])

    def rescue(self, trial: Trial) -> None:
        """Reads the journal of a run that does not end, and closes its connections; it can open no others."""
        connection = self.connect()
        _kept.append(connection)
        refusal = ("TEST.FAULT", "ADD", "CONNECT", "DROP")
        calls, _ = connection.pipeline(("TEST.CALLS", "FULL"), refusal, user=trial.user)
        trial.journal = Journal(calls)
        Explored(self._server, connection, trial.user, self._is_exclusive).failover()

    def judge(self, trial: Trial, is_last: bool = False) -> list[Trial]:
        """Adds what a run has shown to the report, or returns the runs that must be made to know it."""
        if trial.judged:
            self._check = None
            if trial.error is None and not trial.is_endless:
                assert trial.journal is not None
                self._baseline.learn(trial.journal)
            return [run for each in trial.judged for run in self._judge(each, is_last, is_checked=True)]
        if not trial.points:
            self._clean = trial
            return []
        return self._judge(trial, is_last, is_checked=False)

    def _judge(self, trial: Trial, is_last: bool, is_checked: bool) -> list[Trial]:
        """`is_checked`: a run without a fault was made since, or `is_last`: no further run can be made."""
        assert trial.journal is not None
        difference = self._baseline.difference_to(trial.journal, trial.points)
        if difference is None or is_last:
            self._settle(trial, difference)
            return []
        if not is_checked and self._baseline.difference_to(trial.journal, trial.points, with_numbers=False) is None:
            if self._check is not None:
                self._check.judged.append(trial)
                return []
            if self._checks < CHECKS:
                self._checks += 1
                self._check = Trial(judged=[trial])
                return [self._check]
        if trial.number < RUNS:
            return [trial.again()]
        self._settle(trial, difference)
        return []

    def _settle(self, trial: Trial, difference: str | None) -> None:
        """Adds what the last run of a point has shown."""
        report, name = self._report, name_of(trial.points)
        self._settled += 1
        if difference is not None:
            report.not_repeatable.append((name, f"{difference}{self._baseline.hint}"))
        elif trial.journal is not None and any(map(trial.journal.has_other_key, trial.points)):
            report.left_out += 1  # and nothing has happened to that key
            report.points -= 1
        elif trial.is_endless or trial.error is not None:
            message = self._too_long if trial.error is None else message_of(trial.error)
            report.failures.append((name, message))
            if trial.error is not None:
                report.causes.setdefault(message, trial.error)
        trial.journal = trial.error = None  # which may keep much alive

    def _play(self, instance: Keylatch) -> None:
        result = self._scenario(instance)
        if inspect.isawaitable(result):
            asyncio.run(self._within_time(result))

    async def _within_time(self, result: Awaitable[object]) -> None:
        try:
            async with asyncio.timeout(self._options.timeout) as scope:
                await result
        except TimeoutError:
            if scope.expired():
                raise Endless from None
            raise


def name_of(points: Iterable[Point]) -> str:
    """Returns the name of points that are tried together."""
    return " + ".join(point.name for point in points)


def chosen(names: Iterable[str], points: Iterable[Point]) -> Iterator[tuple[Point, ...]]:
    """Returns the points of these names, each of which may be that of a pair."""
    named = {point.name: point for point in points}
    for name in names:
        parts = name.split(" + ")
        ways = [[name], *([" + ".join(parts[:at]), " + ".join(parts[at:])] for at in range(1, len(parts)))]
        found = next((way for way in ways if all(part in named for part in way)), None)
        if found is None:
            similar = [part for way in ways for part in way if part not in named][:1]
            near = difflib.get_close_matches(similar[0], named, 5, 0.5)
            raise ValueError(f"there is no point {literal(name)}{'; similar are' if near else ''}{listed(near)}")
        yield tuple(sorted((named[part] for part in found), key=lambda point: point.at))


def listed(names: Iterable[str]) -> str:
    """Returns names as string literals, in lines."""
    return "".join(f"\n  {literal(name)}" for name in names)


def pairs_of(points: Sequence[Point], seed: int) -> Iterator[tuple[Point, ...]]:
    """Returns pairs of points of different calls, by chance."""
    total = len(points) * (len(points) - 1) // 2
    for number in random.Random(seed).sample(range(total), min(total, PAIRS_MAX)):
        second = (1 + math.isqrt(1 + 8 * number)) // 2
        first = number - second * (second - 1) // 2
        if points[first].at != points[second].at:
            yield points[first], points[second]
