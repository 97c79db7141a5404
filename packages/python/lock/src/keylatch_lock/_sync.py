"""The lock for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis
from redis.retry import Retry

from ._terms import UNREACHABLE, LockLost, NotAcquired, Terms, is_push, listed, now


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
        began = now()
        try:
            granted = self._granted(self._ask(began))
        except redis.ResponseError as error:
            self._connection.disconnect()  # not granted, so there is nothing to give back
            raise self._refusal(error) from None
        except BaseException as error:
            self.fence = None
            self._leave(error)
            raise
        if not granted:
            self._connection.disconnect()
            return False
        self._notified, self._over, self._given_back = True, threading.Event(), threading.Event()
        self._confirm(began)
        ends = self._over, self._given_back
        self._keeper = threading.Thread(target=self._keep, args=ends, daemon=True, name="lock")
        self._keeper.start()
        return True

    def release(self) -> bool:
        """Releases the lock; returns whether it was still held. What is left of several, of which one is lost, too."""
        if self.fence is None:
            return False
        self._over.set()
        try:
            return self._give_back()
        finally:
            self._given_back.set()

    def _give_back(self) -> bool:
        if len(self.keys) == 1:
            return self.lost is None and bool(self.client.execute_command(*self._release()[0]))
        pipeline = self.client.pipeline(transaction=False)
        for words in self._release():
            pipeline.execute_command(*words)
        try:
            return all(pipeline.execute()) and self.lost is None
        except redis.RedisError:
            if self.lost is None:
                raise
            return False  # nobody waits for the end of what is lost

    def __enter__(self) -> Lock:
        if not self.acquire():
            raise NotAcquired(self.key)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.release() and error is None:
            raise LockLost(self.lost or "expired")

    def _ask(self, began: float) -> Any:
        """Queues and returns the fence; again if the connection breaks, which takes up the place of a session."""
        breaks, reached, waited = 0, began, 0.0
        while True:
            try:
                self._connection.connect()
                reached = now()
                return self._call(*self._acquire(waited))
            except (redis.ConnectionError, redis.TimeoutError):
                self._connection.disconnect()
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                time.sleep(pause)
                waited = now() - began

    def _leave(self, error: BaseException) -> None:
        """Leaves the queue; a lock that was granted meanwhile is released by what stands behind the wait."""
        try:
            if not isinstance(error, UNREACHABLE):
                for words in self._release():
                    self._connection.send_command(*words, check_health=False)
        except UNREACHABLE:
            pass
        self._connection.disconnect()

    def _call(self, *words: Any, until: float | None = None) -> Any:
        self._connection.send_command(*words, check_health=False)
        while True:
            if until is not None and not self._connection.can_read(max(0.0, until - now())):
                raise redis.TimeoutError("no reply to a renewal")
            reply = self._read()
            if not is_push(reply):
                return reply
            self._hear(reply)

    def _read(self) -> Any:
        return self._connection.read_response(disconnect_on_error=False, push_request=True)

    def _keep(self, over: threading.Event, given_back: threading.Event) -> None:
        """Renews the lock and listens for its loss, until it is released or lost."""
        is_open = True
        while not over.is_set() and self.lost is None:
            try:
                if self._notified and self._connection.can_read(max(0.0, self._renew_at - now())):
                    self._hear(self._read())
                elif not over.is_set():
                    self._prolong()
                is_open = True
            except UNREACHABLE:
                self._connection.disconnect()
                is_open = False
                over.wait(self._disconnected())
            except redis.ResponseError:  # says nothing of the lock: the next may be answered
                over.wait(self._failed())
        if over.is_set():
            given_back.wait()  # else the end of the session would come before the release
        if self.session and is_open:
            self._quit()
        self._connection.disconnect()

    def _quit(self) -> None:
        """Ends the session at once, with what is left of several locks, which `session-grace-ms` would keep."""
        try:
            self._connection.send_command("QUIT", check_health=False)
        except UNREACHABLE:
            pass

    def _confirm(self, began: float) -> None:
        """Renews a lock that may have been granted a while ago: its time counts from before a command was sent."""
        self._held(began)
        if now() < self._renew_at:
            return
        self._held(now())
        try:
            self._prolong()
        except UNREACHABLE:
            self._connection.disconnect()
            self._disconnected()
            self._held(began)
        except redis.ResponseError:
            self._held(began)

    def _prolong(self) -> None:
        since, until = now(), self._valid_until
        is_known = self._notified
        if not is_known and (words := self._resume()):  # on a new connection, which the server has to know of
            try:
                is_known = self._is_resumed(self._call(*words, until=until))
            except redis.ResponseError as error:
                is_known = self._is_not_resumed(error)
        if self.lost is not None:
            return
        fences = [self._call(*words, until=until) for words in self._renew()]
        if self._is_held(fences) and not is_known:
            fences = listed(self._call(*self._notify(), until=until))
            for words in self._gone(fences):
                self._call(*words, until=until)  # it went in between, and this is another
        if self._is_held(fences):
            self._held(since)
            self._notified = True
        else:
            self._lose(self._absent(is_known))

    def _lose(self, reason: str) -> None:
        if not self._over.is_set() and self.lost is None:
            self.lost = reason
            if self.on_lost is not None:
                self.on_lost(self)
