"""What an exploration has found."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ._points import literal

MESSAGE_MAX = 500
# What is another in each run, so that failures of the same cause have the same message.
CHANGING = ((re.compile(r"\bns-explore-[0-9a-f]+-\d+"), "ns-explore"), (re.compile(r"\b0x[0-9a-f]{6,}"), "0x"))


@dataclass
class Report:
    """The outcome of an exploration; as a text it has the names of points as `only=` takes them."""

    points: int = 0  # that were tried, pairs included
    failures: list[tuple[str, str]] = field(default_factory=list)  # names, and what was raised
    not_repeatable: list[tuple[str, str]] = field(default_factory=list)  # names, and what was different before the fault
    # Points whose keys differ from run to run, and those at which one of several clients connects that have a name later.
    left_out: int = 0
    not_tried: int = 0  # points for which the budget was too small
    seconds: float = 0.0
    seed: int | None = None  # by which pairs were chosen
    # Of each message what was raised first.
    causes: dict[str, BaseException] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.failures and not self.not_repeatable

    def __str__(self) -> str:
        told = [f"{len(self.failures)} failed"]
        if self.not_repeatable:
            told.append(counted(len(self.not_repeatable), "is not repeatable", "are not repeatable"))
        if self.not_tried:
            told.append(f"{counted(self.not_tried, 'was', 'were')} not tried (budget)")
        lines = [f"explore: {counted(self.points, 'point', 'points')} in {self.seconds:.1f} s: {', '.join(told)}"]
        for message in dict.fromkeys(message for _, message in self.failures):
            lines.append(message)
            lines += [f"  only={literal(name)}" for name, other in self.failures if other == message]
        for name, difference in self.not_repeatable:
            lines += [f"not repeatable: {literal(name)}", f"  {difference}"]
        if self.left_out:
            points = counted(self.left_out, "point has", "points have")
            lines.append(f"{points} keys or connections that differ from run to run: left out")
        if self.seed is not None:
            lines.append(f"pairs: seed {self.seed}")
        return "\n".join(lines)


class ExploreError(AssertionError):
    """A scenario fails at some point, or is not repeatable; `report` has all of it."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def counted(number: int, one: str, many: str) -> str:
    """Returns a number with what it counts."""
    return f"{number} {one if number == 1 else many}"


def message_of(error: BaseException) -> str:
    """Returns the kind and the text of an error in one line; of an assertion's the first, behind which pytest has values."""
    whole = str(error)
    text = " ".join((whole.partition("\n")[0] if isinstance(error, AssertionError) else whole).split())
    for pattern, same in CHANGING:
        text = pattern.sub(same, text)
    return f"{type(error).__name__}: {text}"[:MESSAGE_MAX] if text else type(error).__name__
