"""What the lock for threads and the one for asyncio have in common: options, state, and the words on the wire."""

from __future__ import annotations

import time
import uuid
from typing import Any, Generic, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

Client = TypeVar("Client")
now = time.monotonic
UNREACHABLE = (ConnectionError, TimeoutError, OSError)


class LockError(Exception):
    """What this module raises."""


class NotAcquired(LockError):
    """The lock was not obtained within `wait` seconds."""


class Deadlock(LockError):
    """The wait would never end: the owner holds a lock that those before it wait for. The argument names the cycle."""


class LockLost(LockError):
    """The lock went before it was released; the argument says how, as `lost` does."""


def deadlock(error: ResponseError) -> Deadlock | None:
    """Returns the deadlock that an error of LOCK.ACQUIRE tells of."""
    code, _, cycle = str(error).partition(" ")
    return Deadlock(cycle) if code == "DEADLOCK" else None


class Terms(Generic[Client]):
    """The terms of a lock, and what is known of it."""

    def __init__(
        self,
        client: Client,
        key: str,
        *,
        ttl: float = 30.0,
        wait: float | None = None,
        session: bool = False,
        meta: str | None = None,
        owner: str | None = None,
        on_lost: Any = None,
    ) -> None:
        """Describes a lock; nothing is sent.

        ttl: seconds that the lock outlives its holder's last renewal; it is renewed after a third of them.
        wait: seconds to queue; None for as long as it takes, 0 for not at all.
        session: the server releases the lock as soon as the connection closes, so a broken connection loses it.
        meta: a text for LOCK.INFO, which tells others what the lock is for.
        owner: the token of all locks of one thread of work, of its own: a wait that would never end because of a lock of
            the same owner raises Deadlock at once. A lock that its owner holds is granted to it again.
        on_lost: is called with the lock when it is lost.
        """
        if ttl < 0.001:
            raise ValueError("ttl must be at least a millisecond")
        self.client, self.key, self.ttl, self.wait = client, key, ttl, wait
        self.session, self.meta, self.owner, self.on_lost = session, meta, owner, on_lost
        self.token = ""
        self.fence: int | None = None  # increases from holder to holder; None until the lock is acquired
        self.lost: str | None = None  # how the lock was lost: a reason of NOTIFY, "expired" or "disconnected"
        self._valid_until = self._renew_at = 0.0
        self._notified = False  # the server knows which connection to tell

    def check(self) -> None:
        """Raises LockLost once the lock is known to be lost, or its time has passed without a renewal."""
        if self.lost is None and self.fence is not None and now() >= self._valid_until:
            raise LockLost("expired")
        if self.lost is not None:
            raise LockLost(self.lost)

    def _kwargs(self, given: dict[str, Any], retry: Any) -> dict[str, Any]:
        """Says how to connect for this lock alone: it waits for as long as it has to, and it is told of its loss."""
        of_connection = {"protocol": 3, "socket_timeout": None, "socket_connect_timeout": self.ttl}
        if "path" not in given:  # a Unix socket tells at once when its peer is gone
            of_connection["socket_keepalive"] = True
        return {**given, **of_connection, "retry": retry(NoBackoff(), 0)}

    def _begin(self) -> None:
        self.token, self.fence, self.lost = self.owner or uuid.uuid4().hex, None, None

    def _acquire(self, waited: float) -> list[Any]:
        """Words the command. The same token again is safe: a lock that is held with it is granted again."""
        words: list[Any] = ["LOCK.ACQUIRE", self.key, self.token, "PX", self._ttl_ms(), "NOTIFY"]
        if self.wait is None:
            words += ["BLOCK", 0]
        elif self.wait > waited:
            words += ["BLOCK", max(1, int((self.wait - waited) * 1000))]
        return words + ["SESSION"] * self.session + (["META", self.meta] if self.meta is not None else [])

    def _notify(self) -> list[Any]:
        return ["LOCK.ACQUIRE", self.key, self.token, "PX", self._ttl_ms(), "NOTIFY"]

    def _renew(self) -> list[Any]:
        return ["LOCK.RENEW", self.key, self.token, "PX", self._ttl_ms()]

    def _release(self) -> list[Any]:
        return ["LOCK.RELEASE", self.key, self.token]

    def _ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def _held(self, since: float) -> None:
        """Notes that the server held the lock for this client at a time, with its whole TTL to come."""
        self._valid_until, self._renew_at = since + self.ttl, since + self.ttl / 3

    def _disconnected(self) -> float | None:
        """Notes that the connection broke. Returns the seconds until the next attempt, or None if the lock is lost."""
        self._notified = False
        if self.session:
            self._lose("disconnected")
        elif now() >= self._valid_until:
            self._lose("expired")
        else:
            return min(0.1, self.ttl / 10)
        return None

    def _hear(self, push: Any) -> None:
        reason = self._is_loss(push) if isinstance(push, list) else None
        if reason is not None:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        raise NotImplementedError

    def _is_loss(self, push: list[Any]) -> str | None:
        """Returns the reason if a push reports the loss of this very lock."""
        if len(push) != 5 or [text(push[0]), text(push[2]), push[3]] != ["lock-lost", self.token, self.fence]:
            return None
        return str(text(push[4]))


def text(word: Any) -> Any:
    """Decodes a word, which is text already where the client decodes replies."""
    return word.decode(errors="replace") if isinstance(word, bytes) else word
