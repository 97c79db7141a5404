"""The clock of the process, which time-machine or freezegun may have replaced; and a clock that they leave alone."""

from __future__ import annotations

import sys
import time
from datetime import timedelta


def advance(ms: int) -> None:
    """Moves the clock of the process, if it is a fake one: the innermost of those that are active.

    Only a library that is imported already can have replaced it.
    """
    machine, freezegun = sys.modules.get("time_machine"), sys.modules.get("freezegun.api")
    delta = timedelta(milliseconds=ms)
    # Freezegun's first: time-machine does not begin within it.
    if factories := getattr(freezegun, "freeze_factories", None):
        # What `tick` does, but that of a clock that runs takes away the time since it was frozen.
        factories[-1].time_to_freeze += delta
    # The second is its name in version 2.
    elif travels := getattr(machine, "traveller_stack", None) or getattr(machine, "coordinates_stack", None):
        travels[-1].shift(delta)


def monotonic() -> float:
    """Returns the seconds of a clock that nobody replaces; freezegun stops `time.monotonic`."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)
