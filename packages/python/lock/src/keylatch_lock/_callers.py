"""The threads or tasks that share a lock object, and their acquisitions."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

Held = TypeVar("Held")

_acts_for: ContextVar[Any] = ContextVar("acts_for", default=None)  # a weak reference to a thread or task


def act_for(caller: Any) -> None:
    """Makes this thread or task act for the one that has acquired a lock, as its callbacks do."""
    _acts_for.set(caller)


def reference(caller: Any) -> Callable[[], Any]:
    """Returns a weak reference to a thread or task, or to none."""
    return weakref.ref(caller) if caller is not None else lambda: None


class Callers(Generic[Held]):
    """The acquisitions of one lock object that are not released, by threads or tasks.

    An acquisition belongs to its thread or task until that ends; then to any that has none. A process that was
    forked has none of its parent's acquisitions.
    """

    def __init__(self, current: Callable[[], Any], has_ended: Callable[[Any], bool]) -> None:
        self._current, self._has_ended = current, has_ended
        self._are_forked = False  # the parent of this process had acquisitions, or one before it
        self._forget()

    def _forget(self) -> None:
        self._process, self._mutex = os.getpid(), threading.Lock()
        self._open: list[tuple[Any, Held]] = []  # in the order in which they were acquired
        self._latest: weakref.WeakKeyDictionary[Any, Held] = weakref.WeakKeyDictionary()
        self._depths: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()  # of `with` statements
        self._last: Held | None = None

    def _caller(self) -> Any:
        if os.getpid() != self._process:
            self._are_forked |= bool(self._open)
            self._forget()
        acts_for = _acts_for.get()
        caller = acts_for() if acts_for is not None else None
        return self._current() if caller is None else caller

    def add(self, held: Held) -> Any:
        """Adds an acquisition of the caller, to which it returns a weak reference."""
        caller = self._caller()
        with self._mutex:
            self._open.append((reference(caller), held))
            self._last = held
            if caller is not None:
                self._latest[caller] = held
        return reference(caller)

    def remove(self, held: Held) -> bool:
        """Removes an acquisition; returns whether it was there."""
        self._caller()
        with self._mutex:
            for at, (_, other) in enumerate(self._open):
                if other is held:
                    del self._open[at]
                    return True
        return False

    def own(self) -> list[Held]:
        """Returns the caller's acquisitions, the oldest first."""
        caller = self._caller()
        with self._mutex:
            return [held for whose, held in self._open if caller is not None and whose() is caller]

    def released(self) -> Held | None:
        """Returns the acquisition that a release by the caller is for."""
        own = self.own()
        if own:
            return own[-1]
        with self._mutex:
            for whose, held in reversed(self._open):
                caller = whose()
                if caller is None or self._has_ended(caller):
                    return held
        return None

    def shown(self) -> Held | None:
        """Returns the acquisition that the lock's attributes describe to the caller."""
        own = self.own()
        if own:
            return own[-1]
        caller = self._caller()
        latest = self._latest.get(caller) if caller is not None else None
        return latest if latest is not None else self._last

    def is_forked(self) -> bool:
        """Returns whether the parent of this process had acquisitions, and this one has made none."""
        self._caller()
        return self._are_forked and self._last is None

    def enter(self) -> None:
        """Records that a `with` statement has begun by the caller's latest acquisition."""
        self._depths.setdefault(self._caller(), []).append(len(self.own()) - 1)

    def leave(self) -> list[Held]:
        """Records that a `with` statement ends; returns its unreleased acquisitions, the newest first."""
        own = self.own()
        depths = self._depths.get(self._caller())
        if depths:
            return own[depths.pop() :][::-1]
        with self._mutex:
            return [held for _, held in self._open[-1:]]  # another task has begun it
