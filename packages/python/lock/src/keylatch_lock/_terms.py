"""Options, state of an acquisition, and words on the wire, which locks for threads and for asyncio have in common."""

from __future__ import annotations

import builtins
import datetime
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError, TimeoutError

from ._callers import Callers

Client = TypeVar("Client")
Held = TypeVar("Held", bound="Acquisition")
Key = str | bytes | Sequence[str | bytes]
now = time.monotonic
UNREACHABLE = (ConnectionError, TimeoutError, OSError)
PARTS = 3  # of a TTL: a renewal is sent after one, and no reply is waited for longer than another
RELEASES = 3  # how often a release is sent that is not answered
LEAVE_S = 2.0  # how long the release of a lock takes at most that is lost
POLL_S = 0.05  # at least, between two tries on a server without queue; up to twice that is added by chance

# For servers without LOCK commands.
HELD = "if redis.call('GET', KEYS[1]) == ARGV[1] then return"
RENEW = f"{HELD} redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
LOOK = f"{HELD} 1 end return 0"
RELEASE = f"{HELD} redis.call('DEL', KEYS[1]) end return 0"


class LockError(Exception):
    """The base of the errors that this module raises."""


@dataclass(frozen=True)
class Holder:
    """The holder of a lock: what it has given as `meta`, the name of its connection, and its address."""

    meta: str
    client_name: str
    addr: str

    def __str__(self) -> str:
        return ", ".join(part for part in (self.meta, self.client_name, self.addr) if part)


class NotAcquired(LockError):
    """The lock was not obtained within `wait` seconds. The fields say who held it then, where the server has LOCK.INFO.

    key: the name, of several the first that was held. holder: of those who share the lock one. age: the seconds for
    which it had been held. ttl: the seconds that its time to live still was.
    """

    def __init__(
        self, key: Key, holder: Holder | None = None, age: float | None = None, ttl: float | None = None
    ) -> None:
        super().__init__(key, holder, age, ttl)
        self.key, self.holder, self.age, self.ttl = key, holder, age, ttl

    def __str__(self) -> str:
        held = f"; it is held by {self.holder} for {self.age or 0:.1f} s" if self.holder is not None else ""
        left = f"; its TTL is over in {self.ttl:.1f} s" if self.ttl is not None else ""
        return f"the lock {shown(self.key)} was not obtained in time{held}{left}"


class Deadlock(LockError):
    """The wait would never end: clients before it wait for a lock of the same owner. The argument names the cycle."""


class LockLost(LockError):
    """The lock was lost before it was released.

    reason: as in `lost`. age: the seconds for which it was held until then. at: when this process has noticed it.
    """

    def __init__(self, key: Key, reason: str, age: float) -> None:
        super().__init__(key, reason, age)
        self.key, self.reason, self.age = key, reason, age
        self.at = datetime.datetime.now(datetime.timezone.utc)

    def __str__(self) -> str:
        return f"the lock {shown(self.key)} was lost after {self.age:.1f} s: {self.reason}"


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
        key: Key,
        *,
        ttl: float = 30.0,
        wait: float | None = None,
        renew_every: float | None = None,
        renew_for: float | None = None,
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
        ttl: seconds that the lock outlives its holder's last renewal.
        wait: seconds to queue; None for as long as it takes, 0 for not at all.
        renew_every: seconds from one renewal to the next; None for a third of `ttl`.
        renew_for: seconds for which the lock is renewed, from its acquisition, so that work which never ends does not
            hold it for ever; None for as long as it is held, 0 for not at all.
        shared: the lock is shared with other such holders; otherwise it is exclusive.
        permits: the number of permits of a semaphore to acquire.
        of: the size of the semaphore; not needed if it exists.
        session: the server releases the lock when the connection closes, after its `session-grace-ms`, in which a
            broken connection is made again.
        meta: a text for LOCK.INFO, which tells others what the lock is for.
        owner: the token of all locks of one thread of work, of its own: a wait that would never end because of a lock of
            the same owner raises Deadlock at once. A lock that its owner holds by the same client is acquired again at
            once, by any thread or task, on the terms of the first time, and released with the last.
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
        if renew_every is not None and not 0 < renew_every < ttl:
            raise ValueError("a lock has to be renewed before its TTL is over")
        self.client, self.key, self.ttl, self.wait = client, key, ttl, wait
        self.shared, self.permits, self.of = shared, permits, of
        self.session, self.meta, self.owner, self.on_lost = session, meta, owner, on_lost
        self.renew_every, self.renew_for = renew_every, renew_for
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
            raise LockLost(self.key, "forked", 0.0)

    def _left(self, began: float) -> float | None:
        """Returns the seconds that an acquisition which has begun may still take; None without a limit."""
        return left_of(self.wait, began)

    def _own_lost(self) -> list[Held]:
        """Returns the acquisitions of this thread or task that are lost; raises Deadlock if it would wait for itself."""
        own = self._callers.own()
        held = [each for each in own if each.lost is None]
        fits = None not in (self.permits, self.of) and (self.permits or 0) * (len(held) + 1) <= (self.of or 0)
        if held and self.wait is None and self.owner is None and not fits:
            raise Deadlock(f"the caller holds {self.key!r} itself, and waits for it without a limit")
        return [each for each in own if each.lost is not None]


class Acquisition:
    """One acquisition of a lock, until it is released or lost. Any thread or task may use it."""

    def __init__(self, hold: Hold[Any], lock: Terms[Any, Any]) -> None:
        self.lock, self.key = lock, lock.key
        self._hold, self._is_released = hold, False
        self._caller: Any = None

    @property
    def token(self) -> str:
        """The token that the lock is held with."""
        return self._hold.token

    @property
    def fence(self) -> int | None:
        """The fencing token, which increases from holder to holder; None on Redis and Valkey, which have none."""
        return self._hold.fence

    @property
    def fences(self) -> dict[str | bytes, int]:
        """The fence of each name; `fence` is the greatest, and serves for each of them."""
        return self._hold.fences

    @property
    def lost(self) -> str | None:
        """How the lock was lost: a reason of NOTIFY, "expired" or "disconnected"."""
        return self._hold.lost

    def check(self) -> None:
        """Raises LockLost once the lock is known to be lost, or its time has passed without a renewal."""
        if self._hold.is_forked():
            raise self._hold.loss("forked")  # it is held by the process that has acquired it
        if self.lost is not None:
            raise self._hold.loss(self.lost)
        if not self._is_released and not self._hold.is_held():
            raise self._hold.loss("expired")

    def _begins_conversion(self) -> None:
        """Raises the error of a lock whose mode cannot be changed."""
        if self._is_released:
            raise self._hold.released()
        self.check()
        self._hold.checks_mode()

    def _ends_conversion(self, former: Hold[Any], error: BaseException) -> None:
        """Keeps a lock in its mode after a request for another one that was refused, or whose outcome is unknown."""
        if isinstance(error, Unsupported):
            former._is_converting = False
        else:
            self._hold.returns_to(former, is_unsure=not isinstance(error, LockError))

    def _begins_release(self) -> bool:
        """Records that the lock is being released; returns whether this call has to do it."""
        begins = not self._hold.is_forked() and self.lock._callers.remove(self)
        self._is_released |= begins
        return begins


class Hold(Generic[Client]):
    """What the server holds for an acquisition, or for those of one owner that share it.

    In another mode the lock is held by another one, with the same token, which takes over from its `former` one.
    """

    def __init__(
        self, lock: Terms[Client, Any], wait: float | None, former: Any = None, shared: bool | None = None
    ) -> None:
        self.client, self.key, self.keys, self.ttl, self.wait = lock.client, lock.key, lock.keys, lock.ttl, wait
        self.shared = lock.shared if shared is None else shared
        self.permits, self.of = lock.permits, lock.of
        self.session, self.meta, self.owner = lock.session, lock.meta, lock.owner
        self.renew_every = lock.renew_every if lock.renew_every is not None else lock.ttl / PARTS
        self.renew_for = lock.renew_for
        self._former = former  # until this one is bound to its connection
        self.token = lock.owner or uuid.uuid4().hex if former is None else former.token
        self.fence: int | None = None  # increases from holder to holder; None until the lock is acquired
        self.fences: dict[str | bytes, int] = {}  # by name; `fence` is the greatest, and serves for each of the names
        self.lost: str | None = None  # how the lock was lost: a reason of NOTIFY, "expired" or "disconnected"
        self._loss: LockLost | None = None
        self._acquisitions: list[Any] = []  # those that are not released
        self.share: Any = None  # with other acquisitions of the owner
        self._since: float | None = former._since if former is not None else None  # when it was granted
        self._is_plain = False  # the server has no LOCK commands: the lock is a key
        self._valid_until = self._renew_at = 0.0
        self._notified = False  # the server knows which connection to tell
        self._has_moved = False  # to the connection, whose end may be that of the session
        self._process, self._is_released = os.getpid(), False
        # Of its loss or release, and of the turn from one to the next.
        self._ending: threading.Lock = former._ending if former is not None else threading.Lock()
        self._stuck: list[Any] = []  # former connections that are not closed before another one has the lock
        self._is_unanswered = False  # a release was sent while the lock was held, and its reply is lost
        self._is_converting = False  # a request for another mode is under way
        self._was_converted = former is not None  # or may be, late: then another fence is no loss
        self._may_share = False  # by a request that was given up, others may have the lock as well
        self._given_up: Any = None  # a request for another mode: the hold, with its mode, that was to be converted
        self._is_unsure = False  # the server may have done it, and tell another connection of a loss
        self._must_ask = False  # whether, and how, the lock is held

    def is_forked(self) -> bool:
        """Returns whether this process is not the one that has acquired the lock."""
        return os.getpid() != self._process

    def is_held(self) -> bool:
        """Returns whether the lock is neither known to be lost nor beyond its time."""
        return self.lost is None and now() < self._valid_until

    def loss(self, reason: str) -> LockLost:
        """Returns the error of a lost lock."""
        if self._loss is not None:
            return self._loss.with_traceback(None)
        return LockLost(self.key, reason, now() - (self._since if self._since is not None else now()))

    def released(self) -> LockError:
        """Returns the error of a lock that is released."""
        return LockError(f"the lock {shown(self.key)} is released")

    def checks_mode(self) -> None:
        """Raises the error of a lock that has no other mode."""
        if len(self.keys) > 1 or self.permits is not None or self.owner is not None:
            raise ValueError("a lock of several names, with permits or of an owner keeps its mode")
        if self._is_plain:
            raise Unsupported("the server cannot change the mode of a lock")

    def converts(self) -> None:
        """Records that a request for another mode begins; has to have the turn to ask."""
        self._begins_to_ask()
        self._is_converting = True

    def returns_to(self, former: Any, is_unsure: bool) -> None:
        """Returns to the mode of the former hold, or of this one itself.

        is_unsure: the server may have given the lock another one.
        """
        self._given_up, self._is_unsure = former, is_unsure
        self.asks()

    def asks(self) -> None:
        """Asks whether the lock is held, without waiting for the time of the next renewal."""
        self._must_ask = True
        self.wake()

    def wake(self) -> None:
        """Wakes what listens for the loss of the lock."""
        raise NotImplementedError

    def _begins_to_ask(self) -> None:
        """Takes note of a request that was given up; has to have the turn to ask."""
        self._must_ask = False
        former, self._given_up = self._given_up, None
        if former is not None:
            self.shared, self.fence, self.fences = former.shared, former.fence, former.fences
            self._may_share = not self.shared
            self._is_converting, self._was_converted = False, True

    def _takes_over(self, held: Any, former: Any, began: float) -> bool:
        """Makes this the hold of an acquisition; returns False if the former one is over."""
        former._notices_expiry()
        if held._is_released or former.lost is not None:
            return False
        self._valid_until = max(former._valid_until, began + self.ttl)
        self._acquisitions = [held]
        held._hold = self
        return True

    def _end_of(self, held: Any) -> Exception:
        """Returns the error of an acquisition that was released or lost while it was to have another mode."""
        if held._is_released:
            return self.released()
        self._lose("expired")  # unless the reason is known
        return self.loss("expired")

    def _notices_expiry(self) -> None:
        """Records the loss of a lock whose time is over, so that its release frees nothing of the owner's next one."""
        if self.lost is None and now() >= self._valid_until:
            self._records_loss("expired")

    def _records_loss(self, reason: str) -> None:
        self._loss = self.loss(reason)
        self.lost = reason

    def _joins(self) -> bool:
        """Returns whether another acquisition of the owner can share the lock."""
        return not self.is_forked() and bool(self._acquisitions) and self.is_held()

    def _gives_back(self) -> bool:
        """Returns whether a release has to be sent: of several that are lost the rest has to, unless they have an owner,
        who may have acquired it again."""
        return self.lost is None or len(self.keys) > 1 and self.owner is None

    def _release_limit(self) -> float:
        """Returns the time at which a release is given up: then the lock has expired, or it was lost before."""
        return now() + LEAVE_S if self.lost is not None else max(self._valid_until, now() + self._pause())

    def _has_released(self, replies: list[Any]) -> bool:
        """Returns whether the lock was held until its release. If it is gone, an unanswered release may be why."""
        return self.lost is None and (self._is_unanswered or all(replies))

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
        if self._former is not None:
            return words + ["CONVERT"]  # SESSION stays where it is, so that nothing is lost if this is given up
        return words + ["SESSION"] * self.session + (["META", self.meta] if self.meta is not None else [])

    def _first_words(self, size: int | None) -> list[Any]:
        end = [self.token, "PX", self._ttl_ms(), "NOTIFY"]
        if len(self.keys) > 1:
            return ["LOCK.ACQUIREMULTI", len(self.keys), *self.keys, *end]
        words = ["LOCK.ACQUIRE", self.keys[0], *end] + ["SHARED"] * self.shared
        words += ["PERMITS", self.permits] if self.permits is not None else []
        return words + (["OF", size] if size is not None else [])

    def _set(self) -> list[Any]:
        return ["SET", self.keys[0], self.token, "NX", "PX", self._ttl_ms()]

    def _can_be_plain(self, error: ResponseError) -> bool:
        """Returns whether the server has no LOCK commands, and can grant this lock without them."""
        plain = len(self.keys) == 1 and not self.shared and self.permits is None and not self.session
        return plain and self._former is None and "unknown command" in str(error).lower()

    def _not_acquired(self, key: str | bytes, info: dict[Any, Any] | None) -> NotAcquired | None:
        """Returns the error that tells of a lock that is held; none of a free one."""
        fields = {text(name): value for name, value in (info or {}).items()}
        if not fields or text(fields.get("mode")) == "free":
            return None
        holders = fields.get("holders") or [fields]
        of = {text(name): text(value) for name, value in holders[0].items()}
        holder = Holder(*(of.get(name) or "" for name in ("meta", "client-name", "addr")))
        age, ttl = fields.get("age-ms"), fields.get("pttl")
        return NotAcquired(key, holder, age and age / 1000, ttl / 1000 if ttl is not None and ttl > 0 else None)

    def _notify(self) -> list[Any]:
        """Builds the command that tells the server of a new connection. The size of a semaphore may be another now.

        What takes over from another hold acquires nothing, should that have been released meanwhile.
        """
        if self._former is not None:
            return self._rebind()
        return self._first_words(None) + ["SESSION"] * self.session

    def _rebind(self) -> list[Any]:
        """Builds the command that gives a lock which is held its mode again, and tells the server of the connection."""
        return self._first_words(None) + ["SESSION"] * self.session + ["CONVERT"]

    def _yields(self, reply: Any) -> bool:
        """Returns whether others share the lock by now, and so does this."""
        yields = reply is None and self._may_share
        self.shared |= yields
        return yields

    def _resume(self) -> list[Any] | None:
        """Builds the command that moves the lock to a new connection, if no other lock has this token.

        It would also move other locks of the same owner, away from working connections. What takes over from another
        hold has not been lost with a connection.
        """
        if self.owner is not None or self._is_plain or self._former is not None:
            return None
        return ["LOCK.RESUME", self.token]

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

    def _extends(self, since: float) -> bool:
        """Returns whether a renewal extends the lock, because the time of all of them is not over."""
        return self._since is None or self.renew_for is None or since - self._since < self.renew_for

    def _renew(self, extends: bool) -> list[list[Any]]:
        """Builds the renewals, or only the questions whether the lock is held."""
        if self._is_plain:
            return [["EVAL", RENEW if extends else LOOK, 1, self.keys[0], self.token, self._ttl_ms()]]
        if not extends:
            return [["LOCK.FENCE", key, self.token] for key in self.keys]
        return [["LOCK.RENEW", key, self.token, "PX", self._ttl_ms()] for key in self.keys]

    def _release(self) -> list[list[Any]]:
        if self._is_plain:
            return [["EVAL", RELEASE, 1, self.keys[0], self.token]]
        return [["LOCK.RELEASE", key, self.token] for key in self.keys]

    def _granted(self, reply: Any) -> bool:
        """Records the fences; returns whether there are any."""
        if reply is not None and not self._is_plain:
            self.fences = dict(zip(self.keys, listed(reply)))
            self.fence = max(self.fences.values())
        return reply is not None

    def _gone(self, fences: list[Any]) -> list[list[Any]]:
        """Builds the releases of locks that were lost and granted again, as the fences show."""
        pairs = zip(self._release(), fences, self.fences.values())
        return [release for release, fence, ours in pairs if fence not in (None, ours)]

    def _is_own(self, fences: list[Any]) -> bool:
        return fences == ([1] if self._is_plain else list(self.fences.values()))

    def _is_held(self, fences: list[Any]) -> bool:
        """Returns whether the lock is held; a request for another mode that is under way may have been granted."""
        return self._is_own(fences) or self._is_converting and None not in fences

    def _is_in_doubt(self, fences: list[Any]) -> bool:
        """Returns whether a request for another mode that was given up may be executed, as another fence shows."""
        may_be = self._was_converted and not self._is_converting
        return may_be and None not in fences and (self._is_unsure or not self._is_own(fences))

    def _refusal(self, error: ResponseError) -> Exception:
        """Returns the exception for an error of the server."""
        code, _, cycle = str(error).partition(" ")
        if code == "DEADLOCK":
            return Deadlock(cycle)
        told = str(error).lower()
        if "unknown command" not in told and "syntax error" not in told:
            return error
        if self._former is not None:
            return Unsupported(f"the server cannot change the mode of a lock: {error}")
        if len(self.keys) > 1:
            return Unsupported(f"the server cannot lock several names at once: {error}")
        if self.permits is not None:
            return Unsupported(f"the server has no permits: {error}")
        if self.shared:
            return Unsupported(f"the server has no shared locks: {error}")
        if self.session and "unknown command" in told:
            return Unsupported(f"the server has no sessions: {error}")
        return error

    def _ttl_ms(self) -> int:
        return int(self.ttl * 1000)

    def _held(self, since: float) -> None:
        """Records that the server held the lock for this client at a time, with its whole TTL to come."""
        self._valid_until = since + self.ttl
        self._plan(since)

    def _plan(self, since: float) -> None:
        """Plans the next renewal; when their time is over, the lock is lost without one."""
        self._renew_at = min(since + self.renew_every, self._valid_until)
        if not self._extends(self._renew_at):
            self._renew_at = self._valid_until

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
        self._must_ask = True
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


def left_of(wait: float | None, began: float) -> float | None:
    """Returns the seconds that are left of a wait which has begun; None without a limit."""
    return None if wait is None else max(0.0, wait - (now() - began))


def is_push(reply: Any) -> bool:
    """Returns whether this is a push message: a reply contains only fences or only names."""
    if not isinstance(reply, list):
        return False
    return not any(all(isinstance(word, kind) for word in reply) for kind in (int, (bytes, str)))


def listed(reply: Any) -> list[Any]:
    """Returns the fences of one lock or several."""
    return reply if isinstance(reply, list) else [reply]


def shown(key: Key) -> str:
    """Returns a name, or the names of several locks."""
    keys = [key] if isinstance(key, (str, bytes)) else key
    return ", ".join(str(text(each)) for each in keys)


def text(word: Any) -> Any:
    """Decodes a word, which is text already where the client decodes replies."""
    return word.decode(errors="replace") if isinstance(word, bytes) else word
