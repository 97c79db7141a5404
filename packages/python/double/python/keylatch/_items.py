"""Tests of pytest that are explored."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ._explore import Exploration, Options
from ._instance import Keylatch
from ._report import Report

MARKER = "keylatch_explore"
OPTION = "--keylatch-only"
# The instance of the run that is being made of a test.
RUN = pytest.StashKey[Keylatch]()
OUTPUT = "_keylatch_output"  # the attribute of what a run has raised with what it has printed
POINT = "keylatch_point"  # the attribute of the report of a point with its name


def is_explored(item: pytest.Item) -> bool:
    """Returns whether a test is explored."""
    return isinstance(item, pytest.Function) and item.get_closest_marker(MARKER) is not None


def prepare(item: pytest.Function) -> None:
    """Has the call of a test explore it."""
    setattr(item, "runtest", functools.partial(run, item, item.runtest))


def run(item: pytest.Function, play: Callable[[], None]) -> None:
    """Explores a test; each failing point is a report of its own, before that of the test."""
    marker = item.get_closest_marker(MARKER)
    assert marker is not None
    if "keylatch" not in item.fixturenames:
        pytest.fail(f"{MARKER} is for tests that use the fixture keylatch", pytrace=False)
    if marker.args or "only" in marker.kwargs or "workers" in marker.kwargs:
        raise TypeError(f"{MARKER} takes the options of keylatch.explore by their names, but not workers and only")
    options = Options.of(**marker.kwargs, only=item.config.getoption(OPTION), workers=1)
    server = item._request.getfixturevalue("keylatch_server")
    kept = dict(item.stash._storage)  # of the setup, which fixtures use up
    exploration = Exploration(functools.partial(run_once, item, play, kept), server, options, is_exclusive=True)
    try:
        report = exploration.report()
    except BaseException as error:
        for stream, text in getattr(error, OUTPUT, ()):
            item.add_report_section("call", stream, text)
        raise
    for name, message in report.failures:
        tell(item, name, message, report.causes.pop(message, None))
    for name, difference in report.not_repeatable:
        tell(item, name, f"not repeatable: {difference}", None)
    if not report.ok:
        pytest.fail(told(item, report), pytrace=False)


def run_once(item: pytest.Function, play: Callable[[], None], kept: dict[Any, object], instance: Keylatch) -> None:
    """Runs a test once, with its fixtures of the scope of a test, in an instance."""
    state, capture = item.session._setupstate, item.config.pluginmanager.getplugin("capturemanager")
    above: Any = item.parent  # which stays set up
    item.stash[RUN] = instance
    try:
        state.teardown_exact(above)  # what the setup of the test, or a run that was interrupted, has left
        item.stash._storage.update(kept)
        item._initrequest()
        try:
            state.setup(item)
            play()
        finally:
            state.teardown_exact(above)
    except BaseException as error:
        setattr(error, OUTPUT, output(capture))
        raise
    finally:
        del item.stash[RUN]
    output(capture)  # of runs that pass nothing is shown


def output(capture: Any) -> list[tuple[str, str]]:
    """Returns what was written to the standard streams since the last time."""
    if capture is None or not capture.is_globally_capturing():
        return []
    out, err = capture.read_global_capture()
    return [(stream, text) for stream, text in (("stdout", out), ("stderr", err)) if text]


def play_coroutine(item: pytest.Function) -> bool | None:
    """Runs an explored `async def` that no plugin for asyncio runs."""
    if not is_explored(item) or not inspect.iscoroutinefunction(item.obj):
        return None
    asyncio.run(item.obj(**{name: item.funcargs[name] for name in item._fixtureinfo.argnames}))
    return True


def tell(item: pytest.Function, name: str, message: str, error: BaseException | None) -> None:
    """Reports a point at which a test fails."""
    report = pytest.TestReport.from_item_and_call(item, pytest.CallInfo.from_call(lambda: None, "call"))
    report.outcome = "failed"
    report.longrepr = message if error is None else item.repr_failure(pytest.ExceptionInfo.from_exception(error))
    printed = [(f"Captured {stream} call", text) for stream, text in getattr(error, OUTPUT, ())]
    report.sections = [*printed, ("Run it again", again(item, name))]
    setattr(report, POINT, name)
    capture = item.config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        item.ihook.pytest_runtest_logreport(report=report)


class Renaming:
    """Gives the reports of points their names; not in workers of pytest-xdist, which know only those of tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        """Names the report of a point."""
        name = getattr(report, POINT, None)
        if name is not None:
            path, line, test = report.location
            report.nodeid, report.location = f"{report.nodeid}[{name}]", (path, line, f"{test}[{name}]")
        result = yield
        if name is not None:
            # It is none of the tests of whose number the progress is a percentage.
            terminal = self._config.pluginmanager.getplugin("terminalreporter")
            counted: set[object] = getattr(terminal, "_progress_nodeids_reported", set())
            counted.difference_update({report.nodeid, getattr(report, "id", None)})
            # `--last-failed` finds the test, which has failed as well.
            getattr(self._config.pluginmanager.getplugin("lfplugin"), "lastfailed", {}).pop(report.nodeid, None)
        return result


def told(item: pytest.Function, report: Report) -> str:
    """Returns the text of a report, with a command for its first point."""
    name = (report.failures or report.not_repeatable)[0][0]
    return f"{report}\n{again(item, name)}"


def again(item: pytest.Function, name: str) -> str:
    """Returns the command that runs a test with one point."""
    return f"pytest {shlex.quote(item.nodeid)} {OPTION} {shlex.quote(name)}"
