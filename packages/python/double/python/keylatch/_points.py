"""What can go wrong in a scenario: the calls of two runs without a fault, and the points that follow from them."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._resp import CONTROL

DEFAULT_KINDS = ("lost-reply", "not-executed", "cut-all", "late", "expired", "noscript")
ERRORS = {
    "readonly": "READONLY You can't write against a read only replica.",
    "oom": "OOM command not allowed when used memory > 'maxmemory'.",
    "loading": "LOADING Redis is loading the dataset in memory",
    "busy": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
}
KINDS = (*DEFAULT_KINDS, "evicted", "failover", *ERRORS)
EFFECTS = {
    "lost-reply": "LOSEREPLY",
    "not-executed": "DROP",
    "cut-all": "DROPALL",
    "late": "ADVANCE",
    "expired": "EXPIRE",
    "noscript": "NOSCRIPT",
    "evicted": "EVICT",
    "failover": "FAILOVER",
}
SCRIPTS = {"evalsha", "evalsha_ro", "fcall", "fcall_ro"}
LOADERS = {"script|load", "script|exists", "function|load"}
HANDSHAKES = {"hello", "auth", "select"}  # and all of `client|`
UNFAULTED = {"hello", "auth", "reset", "quit"}  # which a server answers while it loads
DATE_SCALES = {10: 1000, 13: 1, 16: 0.001}  # milliseconds in a unit of a Unix time with so many digits
DATES_WITHIN_MS = 400 * 24 * 3_600_000
ARG_MAX = 60  # characters that are shown
HINT = (
    "; connections are used at the same time: name each by CLIENT SETNAME, connect before threads or tasks start, "
    "or use a pool of one connection"
)


def shown(text: str) -> str:
    r"""Shows a text of the server: `"` and `\` behind a `\`, bytes that are not printable UTF-8 as \xhh."""
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def literal(name: str) -> str:
    """Returns a name as a string literal."""
    return '"{}"'.format(name.replace("\\", "\\\\").replace('"', '\\"'))


def ordinal(number: int) -> str:
    """Returns 1st, 2nd, 3rd, 4th, 11th, 21st."""
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def title(command: str) -> str:
    """Returns the name of a command as people write it."""
    return shown(command.upper().replace("|", " "))


def of_name(group: str) -> str:
    """Returns the end of a phrase that names a client."""
    return f' of "{shown(group)}"' if group else ""


@dataclass(slots=True)
class Recorded:
    """A call of a scenario, as the journal has it."""

    group: str  # the name of the client
    client_id: int  # of its connection
    command: str  # `client|setinfo`
    args: list[str]
    fault: str | None
    keys: list[str]  # those that existed when it arrived
    expiring: list[str]  # those of them with a TTL
    at: int  # its place in the journal
    unix_ms: int  # when it arrived
    index: int = 0  # its place among the calls of the group
    nth: int = 0  # which call of this command of the group it is, from 1
    is_loaded: bool = False  # whether it, or its transaction, comes right after a load of scripts in its group
    is_behind_write: bool = False
    has_written: bool = False

    @property
    def is_handshake(self) -> bool:
        """Whether a client that has no name yet, or never has one, sends it of itself when it connects."""
        return not self.group and (self.command in HANDSHAKES or self.command.startswith("client|"))

    def is_like(self, other: Recorded) -> bool:
        """Returns whether it is the same call, with whatever arguments."""
        return self.command == other.command and len(self.args) == len(other.args)

    def text(self, masked: Collection[int] = ()) -> str:
        """Shows the call; arguments at masked places as `*`."""
        words = [title(self.command)]
        for place in range(2 if "|" in self.command else 1, len(self.args)):
            word = "*" if place in masked else shown(self.args[place])
            words.append(word if len(word) <= ARG_MAX else f"{word[:ARG_MAX]}...")
        return " ".join(words)


class Journal:
    """The calls of a run, in the order of their arrival, and those of each group."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """`entries` is the reply to TEST.CALLS FULL."""
        self.calls: list[Recorded] = []
        self.groups: dict[str, list[Recorded]] = {}
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for at, entry in enumerate(entries):
            group, command = entry["client-name"], entry["command"]
            if group == CONTROL or entry["refused"] or command is None:
                continue
            struck = entry["args"], entry["fault"], entry["keys"], entry["expiring"]
            call = Recorded(group, entry["client-id"], command, *struck, at, entry["time-ms"])
            calls = self.groups.setdefault(group, [])
            counts[group, command] += 1
            call.index, call.nth = len(calls), counts[group, command]
            if at > 0:
                before = entries[at - 1]
                call.is_behind_write = before["client-name"] != CONTROL and entry["offset"] > before["offset"]
            if at + 1 < len(entries):
                call.has_written = entries[at + 1]["offset"] > entry["offset"]
            calls.append(call)
            self.calls.append(call)
        for calls in self.groups.values():
            _mark_loaded(calls)

    def connections(self, named: bool) -> set[int]:
        """Returns the connections that send something with a name, or without one."""
        return {call.client_id for call in self.calls if bool(call.group) == named}

    def of(self, group: str) -> list[Recorded]:
        """Returns the calls of a group."""
        return self.groups.get(group, [])

    def has_other_key(self, point: Point) -> bool:
        """Returns whether the struck call does not name the key of a point: it has another name in this run."""
        call = self.struck(point)
        return point.key is not None and call is not None and point.key not in call.args

    def struck(self, point: Point) -> Recorded | None:
        """Returns the call that the fault of a point has struck."""
        same = (call for call in self.of(point.group) if call.command == point.command)
        call = next(itertools.islice(same, point.nth - 1, None), None)
        return call if call is not None and call.fault is not None else None


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that goes wrong at one call."""

    name: str
    kind: str
    group: str
    command: str
    nth: int  # among the calls of this command of the group
    index: int  # among all calls of the group
    at: int  # the call's place among all
    key: str | None = None

    @classmethod
    def of(cls, kind: str, call: Recorded, at: int, key: str | None = None) -> Point:
        """Makes a point at a call."""
        name = f"{kind}: {ordinal(call.nth)} {title(call.command)}{of_name(call.group)}"
        name += "" if key is None else f', key "{shown(key)}"'
        return cls(name, kind, call.group, call.command, call.nth, call.index, at, key)

    def fault(self, late_by: int) -> tuple[object, ...]:
        """Returns the request that injects its fault."""
        effect: tuple[object, ...] = ("ERROR", ERRORS[self.kind]) if self.kind in ERRORS else (EFFECTS[self.kind],)
        effect += () if self.key is None else (self.key,)
        effect += (late_by,) if self.kind == "late" else ()
        which = (self.command, "CLIENT", self.group, "QUEUED", "AFTER", self.nth - 1, "COUNT", 1)
        return ("TEST.FAULT", "ADD", *which, *effect)


class Baseline:
    """What runs without a fault have in common: two, and those that are made later."""

    def __init__(self, first: Journal, second: Journal) -> None:
        self.journal, self._second = first, second
        self.difference = self._difference(second)
        # Of each call, the places of the arguments that are not the same in each run.
        self._masks: dict[str, list[set[int]]] = {group: [set() for _ in calls] for group, calls in first.groups.items()}
        if self.difference is None:
            self._mask(self._pairs(second))
        has_many = any(len(run.connections(named=False)) > 1 for run in (first, second))
        self.hint = HINT if has_many else ""  # the end of the message that a run is another one

    def points(self, kinds: Collection[str], flags: Mapping[str, Collection[str]]) -> tuple[list[Point], int]:
        """Returns the points of some kinds in their order, and the number of those that are another in each run.

        These are points whose keys differ, and, where several connections have names, what they send before they have
        them. `flags` has the flags of each command.
        """
        points, left_out = [], 0
        others = {(call.group, call.index): other for call, other in self._pairs(self._second)}
        is_shuffled = len(self.journal.connections(named=True)) > 1
        for at, call in enumerate(self.journal.calls):
            here: list[Point] = []
            for kind in KINDS:
                if kind not in kinds:
                    continue
                if kind in ("expired", "evicted"):
                    keys, differing = _keys(call, others.get((call.group, call.index)), kind)
                    here += [Point.of(kind, call, at, key) for key in keys]
                    left_out += differing
                elif _is_at(kind, call, flags):
                    here.append(Point.of(kind, call, at))
            if is_shuffled and call.is_handshake:
                left_out += len(here)
            else:
                points += here
        return points, left_out

    def commands(self) -> list[str]:
        """Returns the names of the commands that are called."""
        return sorted({call.command for call in self.journal.calls})

    def learn(self, run: Journal) -> None:
        """Masks the arguments that have other numbers in a run without a fault, if it makes the same calls."""
        if self._difference(run) is None:
            pairs = list(self._pairs(run))
            if all(_other_than_numbers(*pair) <= self._masks[pair[0].group][pair[0].index] for pair in pairs):
                self._mask(pairs)

    def _mask(self, pairs: Iterable[tuple[Recorded, Recorded]]) -> None:
        """Masks the arguments that differ."""
        for call, other in pairs:
            self._masks[call.group][call.index] |= _unlike(call, other)

    def difference_to(self, run: Journal, points: Sequence[Point], with_numbers: bool = True) -> str | None:
        """Returns how a run differs up to the first call that a point has struck; None if it does not.

        `with_numbers`: numbers within arguments are compared, too.
        """
        struck = [(call, point) for point in points if (call := run.struck(point)) is not None]
        if not struck:
            point = points[0]
            which, expected = self._which(point.group, point.group), self.journal.of(point.group)[: point.index + 1]
            calls = run.of(point.group)[: len(expected)]
            return self._difference_in(which, calls, expected, with_numbers) or "its fault has not fired"
        first, point = min(struck, key=lambda pair: pair[0].at)
        found = None
        for group in (point.group, *run.groups.keys() - {point.group}):
            calls, expected = [call for call in run.of(group) if call.at <= first.at], self.journal.of(group)
            if group == point.group:
                expected = expected[: point.index + 1]
            else:
                calls = _without_handshakes(calls)
                expected = _without_handshakes(expected)[: len(calls)]
            found = found or self._difference_in(self._which(group, point.group), calls, expected, with_numbers)
        return found

    def _pairs(self, run: Journal) -> Iterator[tuple[Recorded, Recorded]]:
        """Returns the calls of the first run with those of another one that makes the same calls."""
        for group, calls in self.journal.groups.items():
            others = run.of(group)
            if len(calls) != len(others) or not all(map(Recorded.is_like, calls, others)):
                calls, others = _without_handshakes(calls), _without_handshakes(others)
            yield from zip(calls, others)

    def _difference(self, run: Journal) -> str | None:
        """Compares all calls of a run without a fault, but for their arguments."""
        groups = dict.fromkeys((*self.journal.groups, *run.groups))
        for group in groups:
            calls, expected = run.of(group), self.journal.of(group)
            if any(groups):
                calls, expected = _without_handshakes(calls), _without_handshakes(expected)
            which, alike = self._which(group, None), map(Recorded.is_like, calls, expected)
            if found := _first_difference(which, calls, expected, alike, Recorded.text):
                return found
        return None

    def _difference_in(
        self, which: Callable[[int], str], calls: Sequence[Recorded], expected: Sequence[Recorded], with_numbers: bool
    ) -> str | None:
        """Compares calls of a run with those of the same group that are expected."""

        def masked(call: Recorded) -> set[int]:
            return self._masks[call.group][call.index]

        def is_alike(call: Recorded, other: Recorded) -> bool:
            if not call.is_like(other):
                return False
            unlike = _unlike if with_numbers else _other_than_numbers
            return unlike(call, other) <= masked(other) | _dated(call, other)

        alike = map(is_alike, calls, expected)
        return _first_difference(which, calls, expected, alike, lambda call: call.text(masked(call)))

    def _which(self, group: str, struck: str | None) -> Callable[[int], str]:
        """Returns what names a call of a group, where another one is the struck one."""
        if group == struck:
            return lambda number: f"its {ordinal(number)} call"
        return lambda number: f"the {ordinal(number)} call{of_name(group)}"


def _mark_loaded(calls: Iterable[Recorded]) -> None:
    """Finds the calls of a group that come right after a load, or in a transaction that does."""
    is_loaded = is_in_transaction = False
    for call in calls:
        call.is_loaded = is_loaded
        if call.command in ("multi", "exec", "discard"):
            is_in_transaction = call.command == "multi"
        is_loaded = call.command in LOADERS or (is_loaded and is_in_transaction)


def _without_handshakes(calls: Iterable[Recorded]) -> list[Recorded]:
    return [call for call in calls if not call.is_handshake]


def _keys(call: Recorded, other: Recorded | None, kind: str) -> tuple[list[str], int]:
    """Returns the keys of a call that both runs have, and the number of others."""
    if other is None:
        return [], 0
    ours, theirs = (each.expiring if kind == "expired" else each.keys for each in (call, other))
    keys = list(dict.fromkeys(ours))
    same = [key for key in keys if key in theirs and dateless(key, call.unix_ms) == key]
    return same, len(keys) - len(same)


def _unlike(call: Recorded, other: Recorded) -> set[int]:
    return {place for place, (one, two) in enumerate(zip(call.args, other.args)) if one != two and place > 0}


def _other_than_numbers(call: Recorded, other: Recorded) -> set[int]:
    """Returns the places of arguments that are not alike but for numbers."""
    return {place for place in _unlike(call, other) if numberless(call.args[place]) != numberless(other.args[place])}


def numberless(text: str) -> str:
    """Returns a text with `*` for each number in it."""
    return re.sub("[0-9]+", "*", text)


def _dated(call: Recorded, other: Recorded) -> set[int]:
    """Returns the places of arguments that are alike but for dates, as the client's clock has them."""
    pairs = enumerate(zip(call.args, other.args))
    return {at for at, (one, two) in pairs if dateless(one, other.unix_ms) == dateless(two, other.unix_ms)}


def dateless(text: str, near_ms: int) -> str:
    """Returns a text with `*` for each date in it.

    A date is a number that is a Unix time, in seconds, milliseconds or microseconds, within 400 days of another one;
    or the id of an entry of a stream that begins with such a time.
    """

    def mask(found: re.Match[str]) -> str:
        number, dash, rest = found[0].partition("-")
        scale = DATE_SCALES.get(len(number))
        if scale is not None and abs(int(number) * scale - near_ms) < DATES_WITHIN_MS:
            return "*"
        return number + dash + dateless(rest, near_ms) if dash else number

    return re.sub("[0-9]{13}-[0-9]+|[0-9]+", mask, text)


def _first_difference(
    which: Callable[[int], str],
    calls: Sequence[Recorded],
    expected: Sequence[Recorded],
    alike: Iterable[bool],
    show: Callable[[Recorded], str],
) -> str | None:
    """Returns the first call that is another than expected, or is missing, or is one more."""
    at = next((at for at, is_alike in enumerate(alike) if not is_alike), min(len(calls), len(expected)))
    if at >= len(expected):
        return f"{which(at + 1)} was one more: {calls[at].text()}" if at < len(calls) else None
    if at >= len(calls):
        return f"{which(at + 1)} did not come: {show(expected[at])}"
    return f"{which(at + 1)} was {calls[at].text()}, not {show(expected[at])}"


def _is_at(kind: str, call: Recorded, flags: Mapping[str, Collection[str]]) -> bool:
    """Returns whether there is a point of a kind at a call."""
    if kind == "noscript":
        return call.command in SCRIPTS and not call.is_loaded
    if kind == "failover":
        return call.is_behind_write
    if kind == "readonly":
        return "write" in flags.get(call.command, ()) or call.has_written
    if kind == "oom":
        return "denyoom" in flags.get(call.command, ())
    return kind not in ("loading", "busy") or call.command not in UNFAULTED
