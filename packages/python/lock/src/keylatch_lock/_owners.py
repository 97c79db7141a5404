"""The locks of owners, who hold a lock once however often they acquire it."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ._terms import Terms

Turn = TypeVar("Turn")


class Share(Generic[Turn]):
    """What the acquisitions of one lock by one owner have in common: whose turn it is to acquire, and what is held."""

    def __init__(self, turn: Turn) -> None:
        self.turn, self.users = turn, 0
        self.hold: Any = None

    def is_unused(self) -> bool:
        return self.users == 0 and (self.hold is None or self.hold.is_over())


class Shares(Generic[Turn]):
    """The locks of all owners, by the client that they are acquired with."""

    def __init__(self, new_turn: Callable[[], Turn]) -> None:
        self._new_turn = new_turn
        self._forget()
        os.register_at_fork(after_in_child=self._forget)  # which holds none of them

    def _forget(self) -> None:
        self._mutex = threading.Lock()
        self._all: weakref.WeakKeyDictionary[Any, dict[Any, Share[Turn]]] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def use(self, lock: Terms[Any, Any]) -> Iterator[Share[Turn]]:
        """Yields what the acquisitions of a lock have in common."""
        which = (lock.owner, tuple(lock.keys), lock.shared, lock.permits)
        with self._mutex:
            shares = self._all.setdefault(lock.client, {})
            for other in [other for other, share in shares.items() if share.is_unused()]:
                del shares[other]
            share = shares.setdefault(which, Share(self._new_turn()))
            share.users += 1
        try:
            yield share
        finally:
            with self._mutex:
                share.users -= 1
