"""The clock of the process, which time-machine or freezegun may have replaced; and a clock that they leave alone."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta


def moving(ms: int) -> Callable[[], None]:
    """Returns what moves the clock of the process, if it is a fake one: the innermost of those that are active.

    Only a library that is imported already can have replaced it. Raises OverflowError where the clock would pass the year
    9999.
    """
    machine, freezegun = sys.modules.get("time_machine"), sys.modules.get("freezegun.api")
    delta = timedelta(milliseconds=ms)
    # Freezegun's first: time-machine does not begin within it.
    if factories := getattr(freezegun, "freeze_factories", None):
        clock = factories[-1]
        clock.time_to_freeze + delta

        def move() -> None:
            # What `tick` does, but that of a clock that runs takes away the time since it was frozen.
            clock.time_to_freeze += delta

        return move
    # The second is its name in version 2.
    if travels := getattr(machine, "traveller_stack", None) or getattr(machine, "coordinates_stack", None):
        datetime.now() + delta
        return functools.partial(travels[-1].shift, delta)
    return lambda: None


def monotonic() -> float:
    """Returns the seconds of a clock that nobody replaces; freezegun stops `time.monotonic`."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
