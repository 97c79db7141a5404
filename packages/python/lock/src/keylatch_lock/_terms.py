"""Options, state of an acquisition, and words on the wire, which locks for threads and for asyncio have in common."""

from __future__ import annotations

import builtins
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError, TimeoutError

from ._callers import Callers

Client = TypeVar("Client")
Held = TypeVar("Held", bound="Acquisition[Any]")
now = time.monotonic
UNREACHABLE = (ConnectionError, TimeoutError, OSError)
PARTS = 3  # of a TTL: a renewal is sent after one, and no reply is waited for longer than another
RELEASES = 3  # how often a release is sent that is not answered
LEAVE_S = 2.0  # how long the release of a lock takes at most that is lost


class LockError(Exception):
    """The base of the errors that this module raises."""


class NotAcquired(LockError):
    """The lock was not obtained within `wait` seconds."""


class Deadlock(LockError):
    """The wait would never end: clients before it wait for a lock of the same owner. The argument names the cycle."""


class LockLost(LockError):
    """The lock was lost before it was released; the argument is the reason, as in `lost`."""


class Unsupported(LockError):
    """The server has no locks of this kind: it is no keylatch server, or an older one."""


class Terms(Generic[Client, Held]):
    """The terms of a lock, and its acquisitions by the threads or tasks that share this object.

    `fence`, `fences`, `lost`, `token` and `check` describe the latest acquisition of the calling thread or task; if it
    has made none, of the latest one of any.
    """

    _current: Callable[[], Any]
    _has_ended: Callable[[Any], bool]

    def __init__(
        self,
        client: Client,
        key: str | bytes | Sequence[str | bytes],
        *,
        ttl: float = 30.0,
        wait: float | None = None,
        shared: bool = False,
        permits: int | None = None,
        of: int | None = None,
        session: bool = False,
        meta: str | None = None,
        owner: str | None = None,
        on_lost: Any = None,
    ) -> None:
        """Describes a lock; nothing is sent.

        key: the name, or several: all of them are obtained at once, or none.
        ttl: seconds that the lock outlives its holder's last renewal; it is renewed after a third of them.
        wait: seconds to queue; None for as long as it takes, 0 for not at all.
        shared: the lock is shared with other such holders; otherwise it is exclusive.
        permits: the number of permits of a semaphore to acquire.
        of: the size of the semaphore; not needed if it exists.
        session: the server releases the lock when the connection closes, after its `session-grace-ms`, in which a
            broken connection is made again.
        meta: a text for LOCK.INFO, which tells others what the lock is for.
        owner: the token of all locks of one thread of work, of its own: a wait that would never end because of a lock of
            the same owner raises Deadlock at once. A lock that its owner holds is granted to it again. Threads or tasks
            that share this object have the same owner, and are let in one at a time.
        on_lost: is called with the acquisition when it is lost; may acquire the lock again, for the same thread or task.
        """
        if ttl < 0.001:
            raise ValueError("ttl must be at least a millisecond")
        self.keys = [key] if isinstance(key, (str, bytes)) else list(key)
        if not self.keys:
            raise ValueError("a lock needs a name")
        if len(self.keys) > 1 and (shared or permits is not None):
            raise ValueError("several locks at once are exclusive")
        if shared and permits is not None:
            raise ValueError("a lock is shared or has permits, not both")
        if of is not None and permits is None:
            raise ValueError("a size needs permits")
        self.client, self.key, self.ttl, self.wait = client, key, ttl, wait
        self.shared, self.permits, self.of = shared, permits, of
        self.session, self.meta, self.owner, self.on_lost = session, meta, owner, on_lost
        self._callers: Callers[Held] = Callers(self._current, self._has_ended)

    @property
    def token(self) -> str:
        """The token that the lock is held with."""
        held = self._callers.shown()
        return held.token if held is not None else ""

    @property
    def fence(self) -> int | None:
        """The fencing token, which increases from holder to holder; None until the lock is acquired."""
        held = self._callers.shown()
        return held.fence if held is not None else None

    @property
    def fences(self) -> dict[str | bytes, int]:
        """The fence of each name; `fence` is the greatest, and serves for each of them."""
        held = self._callers.shown()
        return held.fences if held is not None else {}

    @property
    def lost(self) -> str | None:
        """How the lock was lost: a reason of NOTIFY, "expired" or "disconnected"."""
        held = self._callers.shown()
        return held.lost if held is not None else None

    def check(self) -> None:
        """Raises LockLost once the lock is known to be lost, or its time has passed without a renewal."""
        held = self._callers.shown()
        if held is not None:
            held.check()
        elif self._callers.is_forked():
            raise LockLost("forked")

    def _own_lost(self) -> list[Held]:
        """Returns the acquisitions of this thread or task that are lost; raises Deadlock if it would wait for itself."""
        own = self._callers.own()
        held = [each for each in own if each.lost is None]
        fits = None not in (self.permits, self.of) and (self.permits or 0) * (len(held) + 1) <= (self.of or 0)
        if held and self.wait is None and self.owner is None and not fits:
            raise Deadlock(f"the caller holds {self.key!r} itself, and waits for it without a limit")
        return [each for each in own if each.lost is not None]


class Acquisition(Generic[Client]):
    """One acquisition of a lock, until it is released or lost. Any thread or task may use it."""

    def __init__(self, lock: Terms[Client, Any]) -> None:
        self.lock = lock
        self.client, self.key, self.keys, self.ttl, self.wait = lock.client, lock.key, lock.keys, lock.ttl, lock.wait
        self.shared, self.permits, self.of = lock.shared, lock.permits, lock.of
        self.session, self.meta, self.owner = lock.session, lock.meta, lock.owner
        self.token = lock.owner or uuid.uuid4().hex
        self.fence: int | None = None  # increases from holder to holder; None until the lock is acquired
        self.fences: dict[str | bytes, int] = {}  # by name; `fence` is the greatest, and serves for each of the names
        self.lost: str | None = None  # how the lock was lost: a reason of NOTIFY, "expired" or "disconnected"
        self._valid_until = self._renew_at = 0.0
        self._notified = False  # the server knows which connection to tell
        self._has_moved = False  # to the connection, whose end may be that of the session
        self._process, self._is_released = os.getpid(), False
        self._has_turn, self._ending = False, threading.Lock()  # of its loss or release
        self._stuck: list[Any] = []  # former connections that are not closed before another one has the lock
        self._is_unanswered = False  # a release was sent while the lock was held, and its reply is lost

    def check(self) -> None:
        """Raises LockLost once the lock is known to be lost, or its time has passed without a renewal."""
        if os.getpid() != self._process:
            raise LockLost("forked")  # it is held by the process that has acquired it
        if self.lost is None and not self._is_released and now() >= self._valid_until:
            raise LockLost("expired")
        if self.lost is not None:
            raise LockLost(self.lost)

    def _take_turn(self, wake: Callable[[], object]) -> bool:
        """Returns whether it is the turn of this thread or task; others of this object have the same token."""
        self._has_turn = self.owner is None or self.lock._callers.take_turn(wake)
        return self._has_turn

    def _end_turn(self) -> None:
        with self._ending:
            had_turn, self._has_turn = self._has_turn, False
        if had_turn and self.owner is not None:
            self.lock._callers.end_turn()

    def _begins_release(self) -> bool:
        """Records that the lock is being released; returns whether this call has to do it."""
        return os.getpid() == self._process and self.lock._callers.remove(self)

    def _release_limit(self) -> float:
        """Returns the time at which a release is given up: then the lock has expired, or it was lost before."""
        return now() + LEAVE_S if self.lost is not None else max(self._valid_until, now() + self._pause())

    def _has_released(self, replies: list[Any]) -> bool:
        """Returns whether the lock was held until its release. If it is gone, an unanswered release may be why."""
        return self.lost is None and (self._is_unanswered or all(replies))

    def _is_believed(self) -> bool:
        return self.lost is None and now() < self._valid_until

    def _kwargs(self, given: dict[str, Any], retry: Any) -> dict[str, Any]:
        """Returns the options of a connection for this lock alone: no timeout for replies, and push messages."""
        of_connection = {"protocol": 3, "socket_timeout": None, "socket_connect_timeout": self.ttl}
        if "path" not in given:  # a Unix socket tells at once when its peer is gone
            of_connection["socket_keepalive"] = True
        return {**given, **of_connection, "retry": retry(NoBackoff(), 0)}

    def _acquire(self, waited: float) -> list[Any]:
        """Builds the command. The same token again is safe: a lock that is held with it is granted again."""
        words = self._first_words(self.of)
        if self.wait is None:
            words += ["BLOCK", 0]
        elif self.wait > waited:
            words += ["BLOCK", max(1, int((self.wait - waited) * 1000))]
        return words + ["SESSION"] * self.session + (["META", self.meta] if self.meta is not None else [])

    def _first_words(self, size: int | None) -> list[Any]:
        end = [self.token, "PX", self._ttl_ms(), "NOTIFY"]
        if len(self.keys) > 1:
            return ["LOCK.ACQUIREMULTI", len(self.keys), *self.keys, *end]
        words = ["LOCK.ACQUIRE", self.keys[0], *end] + ["SHARED"] * self.shared
        words += ["PERMITS", self.permits] if self.permits is not None else []
        return words + (["OF", size] if size is not None else [])

    def _notify(self) -> list[Any]:
        """Builds the command that tells the server of a new connection. The size of a semaphore may be another now."""
        return self._first_words(None) + ["SESSION"] * self.session

    def _resume(self) -> list[Any] | None:
        """Builds the command that moves the lock to a new connection, if no other lock has this token.

        It would also move other locks of the same owner, away from working connections.
        """
        return ["LOCK.RESUME", self.token] if self.owner is None else None

    def _is_resumed(self, keys: list[Any]) -> bool:
        """Returns whether all locks have moved. No other lock has this token, so their number is enough."""
        if len(keys) == len(self.keys):
            return True
        if self.session:
            self._lose("disconnected")
        return False

    def _is_not_resumed(self, error: ResponseError) -> bool:
        """Returns whether the server cannot move locks, so that those of a session are lost; raises any other error."""
        if "unknown command" not in str(error).lower() and not isinstance(error, NoPermissionError):
            raise error
        return self._is_resumed([])

    def _renew(self) -> list[list[Any]]:
        return [["LOCK.RENEW", key, self.token, "PX", self._ttl_ms()] for key in self.keys]

    def _release(self) -> list[list[Any]]:
        return [["LOCK.RELEASE", key, self.token] for key in self.keys]

    def _granted(self, reply: Any) -> bool:
        """Records the fences; returns whether there are any."""
        if reply is not None:
            self.fences = dict(zip(self.keys, listed(reply)))
            self.fence = max(self.fences.values())
        return reply is not None

    def _gone(self, fences: list[Any]) -> list[list[Any]]:
        """Builds the releases of locks that were lost and granted again, as the fences show."""
        pairs = zip(self._release(), fences, self.fences.values())
        return [release for release, fence, ours in pairs if fence not in (None, ours)]

    def _is_held(self, fences: list[Any]) -> bool:
        return fences == list(self.fences.values())

    def _refusal(self, error: ResponseError) -> Exception:
        """Returns the exception for an error of the server."""
        code, _, cycle = str(error).partition(" ")
        if code == "DEADLOCK":
            return Deadlock(cycle)
        told = str(error).lower()
        if "unknown command" not in told and "syntax error" not in told:
            return error
        if len(self.keys) > 1:
            return Unsupported(f"the server cannot lock several names at once: {error}")
        if self.permits is not None:
            return Unsupported(f"the server has no permits: {error}")
        return Unsupported(f"the server has no shared locks: {error}") if self.shared else error

    def _ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def _held(self, since: float) -> None:
        """Records that the server held the lock for this client at a time, with its whole TTL to come."""
        self._valid_until, self._renew_at = since + self.ttl, since + self._patience()

    def _patience(self) -> float:
        """Returns the seconds in which a reply comes, or the connection is stuck and another one is tried."""
        return self.ttl / PARTS

    def _answer_limit(self, waited: float) -> float | None:
        """Returns the time until which a request for the lock is answered; None if it waits without a limit."""
        return None if self.wait is None else now() + max(0.0, self.wait - waited) + self._patience()

    def _renewal_limit(self) -> float:
        return min(now() + self._patience(), self._valid_until)

    def _disconnected(self) -> float:
        """Records that the connection broke. Returns the seconds until the next attempt: none for the first."""
        is_first, self._notified = self._notified, False
        return min(self._failed(), 0.0 if is_first else self.ttl)

    def _may_be_stuck(self, error: Exception) -> bool:
        """Returns whether a connection that is given up has to be kept until the lock has moved to the next one."""
        is_bound, self._has_moved = self._notified or self._has_moved, False
        return is_bound and isinstance(error, (TimeoutError, builtins.TimeoutError))

    def _failed(self) -> float:
        """Records that a renewal failed. Returns the seconds until the next attempt."""
        if now() >= self._valid_until:
            self._lose("expired")
        return self._pause()

    def _pause(self) -> float:
        return min(0.1, self.ttl / 10)

    def _absent(self, is_known: bool) -> str:
        """Returns the reason for the loss of a lock that the server does not have; it may know the connection."""
        return "disconnected" if self.session and not is_known else "expired"

    def _queue_again(self, breaks: int, began: float, reached: float) -> float | None:
        """Returns the seconds until a request whose connection broke is sent again; None if it is not.

        The first time it always is: perhaps only its reply was lost. Later, while the wait lasts, and unless the
        server has not been reached for a TTL.
        """
        if breaks == 1:
            return 0.0
        is_over = self.wait is not None and now() - began >= self.wait
        return None if is_over or now() - reached >= self.ttl else self._pause()

    def _hear(self, push: Any) -> None:
        reason = self._is_loss(push) if isinstance(push, list) else None
        if reason is not None:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        raise NotImplementedError

    def _is_loss(self, push: list[Any]) -> str | None:
        """Returns the reason if a push reports the loss of one of these very locks."""
        if len(push) != 5 or [text(push[0]), text(push[2])] != ["lock-lost", self.token]:
            return None
        return str(text(push[4])) if push[3] in self.fences.values() else None


def is_push(reply: Any) -> bool:
    """Returns whether this is a push message: a reply contains only fences or only names."""
    if not isinstance(reply, list):
        return False
    return not any(all(isinstance(word, kind) for word in reply) for kind in (int, (bytes, str)))


def listed(reply: Any) -> list[Any]:
    """Returns the fences of one lock or several."""
    return reply if isinstance(reply, list) else [reply]


def text(word: Any) -> Any:
    """Decodes a word, which is text already where the client decodes replies."""
    return word.decode(errors="replace") if isinstance(word, bytes) else word
