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

    def __init__(self, turn: Turn, owner: str | None, names: frozenset[bytes]) -> None:
        self.turn, self.owner, self.names, self.users = turn, owner, names, 0
        self.hold: Any = None

    def is_unused(self) -> bool:
        return self.users == 0 and (self.hold is None or self.hold.is_over())

    def forget(self, hold: Any) -> None:
        """Forgets a hold that is over, and its client with it."""
        if self.hold is hold:
            self.hold = None


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
    def use(self, lock: Terms[Any, Any], where: Any = None) -> Iterator[Share[Turn]]:
        """Yields what the acquisitions of a lock have in common; `where` is the loop of tasks.

        Raises ValueError if the owner has other locks with one of the names, which would be released with these.
        """
        names = frozenset(key.encode() if isinstance(key, str) else key for key in lock.keys)
        with self._mutex:
            shares = self._all.setdefault(lock.client, {})
            for unused in [which for which, share in shares.items() if share.is_unused()]:
                del shares[unused]
            for other in shares.values():
                if other.owner == lock.owner and other.names != names and other.names & names:
                    name = min(other.names & names).decode(errors="replace")
                    raise ValueError(f"an owner cannot have the lock {name} alone and with others at a time")
            which = (lock.owner, names, lock.shared, lock.permits, where)
            share = shares.setdefault(which, Share(self._new_turn(), lock.owner, names))
            share.users += 1
        try:
            yield share
        finally:
            with self._mutex:
                share.users -= 1
