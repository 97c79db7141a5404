"""The lock for threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis
from redis.retry import Retry

from ._terms import UNREACHABLE, LockLost, NotAcquired, Terms, deadlock, now


class Lock(Terms["redis.Redis"]):
    """A lock over `redis.Redis`, renewed by a thread of its own while it is held."""

    on_lost: Callable[[Lock], object] | None  # is called in that thread
    _keeper: threading.Thread | None = None

    def acquire(self) -> bool:
        """Queues for the lock; returns whether it was obtained within `wait` seconds."""
        if self._keeper is not None:
            self._keeper.join()  # of the time before, which has been woken by the release
        pool = self.client.connection_pool
        self._begin()
        self._connection: Any = pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))
        self._connection.connect()
        try:
            self.fence = self._ask()
        except redis.ResponseError as error:
            self._connection.disconnect()  # not granted, so there is nothing to give back
            raise deadlock(error) or error
        except BaseException as error:
            self._leave(error)
            raise
        if self.fence is None:
            self._connection.disconnect()
            return False
        self._held(now())
        self._notified, self._over = True, threading.Event()
        self._keeper = threading.Thread(target=self._keep, args=(self._over,), daemon=True, name="lock")
        self._keeper.start()
        return True

    def release(self) -> bool:
        """Releases the lock; returns whether it was still held."""
        if self.fence is None:
            return False
        self._over.set()
        return self.lost is None and bool(self.client.execute_command(*self._release()))

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise NotAcquired(self.key)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.release() and error is None:
            raise LockLost(self.lost or "expired")

    def _ask(self) -> Any:
        """Queues and returns the fence; a second time if the connection breaks."""
        began = now()
        try:
            return self._call(*self._acquire(0))
        except redis.ConnectionError:  # its reply may be all that was lost
            self._connection.disconnect()
            return self._call(*self._acquire(now() - began))

    def _leave(self, error: BaseException) -> None:
        """Leaves the queue; a lock that was granted meanwhile is released by what stands behind the wait."""
        try:
            if not isinstance(error, UNREACHABLE):
                self._connection.send_command(*self._release(), check_health=False)
        except UNREACHABLE:
            pass
        self._connection.disconnect()

    def _call(self, *words: Any, until: float | None = None) -> Any:
        self._connection.send_command(*words, check_health=False)
        while True:
            if until is not None and not self._connection.can_read(max(0.0, until - now())):
                raise redis.TimeoutError("no reply to a renewal")
            reply = self._read()
            if not isinstance(reply, list):
                return reply
            self._hear(reply)

    def _read(self) -> Any:
        return self._connection.read_response(disconnect_on_error=False, push_request=True)

    def _keep(self, over: threading.Event) -> None:
        """Renews the lock and listens for its loss, until it is released or lost."""
        while not over.is_set() and self.lost is None:
            try:
                if self._notified and self._connection.can_read(max(0.0, self._renew_at - now())):
                    self._hear(self._read())
                elif not over.is_set():
                    self._prolong()
            except UNREACHABLE:
                self._connection.disconnect()
                over.wait(self._disconnected() or 0)
        self._connection.disconnect()

    def _prolong(self) -> None:
        since = now()
        fence = self._call(*self._renew(), until=self._valid_until)
        if fence == self.fence and not self._notified:  # on a new connection, which the server has to know of
            fence = self._call(*self._notify(), until=self._valid_until)
            if fence not in (None, self.fence):
                self._call(*self._release(), until=self._valid_until)  # it went in between, and this is another
        if fence == self.fence:
            self._held(since)
            self._notified = True
        else:
            self._lose("expired")

    def _lose(self, reason: str) -> None:
        if not self._over.is_set() and self.lost is None:
            self.lost = reason
            if self.on_lost is not None:
                self.on_lost(self)
