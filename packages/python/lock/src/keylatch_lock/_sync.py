"""The lock for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis
from redis.retry import Retry

from ._callers import act_for
from ._terms import RELEASES, UNREACHABLE, Acquisition, LockLost, NotAcquired, Terms, is_push, listed, now


class Lock(Terms["redis.Redis", "Held"]):
    """A lock over `redis.Redis`, renewed by a thread of its own while it is held.

    Threads may share this object, which excludes them from each other as it excludes others.
    """

    on_lost: Callable[[Held], object] | None  # is called in that thread
    _current = staticmethod(threading.current_thread)

    @staticmethod
    def _has_ended(caller: Any) -> bool:
        return not caller.is_alive()

    def acquire(self) -> Held | None:
        """Queues for the lock; returns the acquisition, or None if that was not within `wait` seconds.

        A thread that holds the lock waits for itself like for any other, but not without a limit: that is a Deadlock.
        """
        for lost in self._own_lost():
            lost.release()
        held = Held(self)
        return held if held._acquire_in_turn() else None

    def release(self) -> bool:
        """Releases what this thread has acquired last; returns whether it was still held.

        A thread without acquisitions releases one of a thread that has ended. Any thread may call the acquisition's
        own `release`.
        """
        held = self._callers.released()
        return held.release() if held is not None else False

    def __enter__(self) -> Held:
        held = self.acquire()
        if held is None:
            raise NotAcquired(self.key)
        self._callers.enter()
        return held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        lost = [held for held in self._callers.leave() if not held.release()]
        if lost and error is None:
            raise LockLost(lost[0].lost or "expired")


class Held(Acquisition["redis.Redis"]):
    """One acquisition of a `Lock`. Any thread may look at it, and release it."""

    def release(self) -> bool:
        """Releases the lock; returns whether it was still held. Of several, one of them lost, the rest are released."""
        if not self._begins_release():
            return False
        with self._ending:
            self._over.set()
        try:
            return self._give_back()
        finally:
            self._is_released = True
            self._given_back.set()
            self._end_turn()

    def _acquire_in_turn(self) -> bool:
        began, is_turn, is_held = now(), threading.Event(), False
        wake = is_turn.set
        try:
            if not self._take_turn(wake):
                try:
                    self._has_turn = is_turn.wait(self.wait)
                finally:
                    if not self._has_turn:
                        self.lock._callers.leave_line(wake)
                if not self._has_turn:
                    return False
            if self.wait is not None:
                self.wait = max(0.0, self.wait - (now() - began))
            is_held = self._acquire_lock()
            return is_held
        finally:
            if not is_held:
                self._end_turn()

    def _new_connection(self) -> Any:
        pool = self.client.connection_pool
        return pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))

    def _acquire_lock(self) -> bool:
        self._over, self._given_back = threading.Event(), threading.Event()
        self._connection: Any = self._new_connection()
        connect(self._connection, now() + self.ttl, self._patience())
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
        self._notified = True
        self._confirm(began)
        caller = self.lock._callers.add(self)
        threading.Thread(target=self._keep, args=(caller,), daemon=True, name="lock").start()
        return True

    def _give_back(self) -> bool:
        if self.lost is not None and len(self.keys) == 1:
            return False
        limit = self._release_limit()
        for attempt in range(1, RELEASES + 1):
            try:
                return self._has_released(self._send_releases(limit, attempt))
            except UNREACHABLE:
                if self.lost is not None:
                    return False  # nobody waits for the end of what is lost
                if attempt == RELEASES or now() >= limit:
                    raise
                time.sleep(self._pause() if attempt > 1 else 0)
            except redis.RedisError:
                if self.lost is None:
                    raise
                return False
        return False

    def _send_releases(self, limit: float, attempt: int) -> list[Any]:
        """Sends the releases once; returns the replies. After a connection of the client it takes new ones."""
        pool, is_first = self.client.connection_pool, attempt == 1
        connection = pool.get_connection() if is_first else self._new_connection()
        limit, was_held = min(limit, now() + self._patience()), False
        try:
            if is_first:
                connection.connect()
            else:
                connect(connection, limit, self._patience())
            was_held = self._is_believed()
            for words in self._release():
                connection.send_command(*words, check_health=False)  # which would wait without this limit
            return [reply_of(connection, limit) for _ in self.keys]
        except UNREACHABLE:
            self._is_unanswered |= was_held
            connection.disconnect()
            raise
        except BaseException:
            connection.disconnect()  # replies may follow
            raise
        finally:
            if is_first:
                pool.release(connection)
            else:
                connection.disconnect()

    def _ask(self, began: float) -> Any:
        """Queues and returns the fence. After a broken connection it queues again; a session resumes its place."""
        breaks, reached, waited = 0, began, 0.0
        while True:
            try:
                connect(self._connection, now() + self.ttl, self._patience())
                reached = now()
                return self._call(*self._acquire(waited), until=self._answer_limit(waited))
            except UNREACHABLE:
                self._connection.disconnect()
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                time.sleep(pause)
                waited = now() - began

    def _leave(self, error: BaseException) -> None:
        """Leaves the queue. A lock that was granted meanwhile is released by the commands sent behind the wait."""
        try:
            if not isinstance(error, UNREACHABLE):
                for words in self._release():
                    self._connection.send_command(*words, check_health=False)
        except UNREACHABLE:
            pass
        self._connection.disconnect()

    def _call(self, *words: Any, until: float | None) -> Any:
        if until is not None:
            # Unless it is connected: what `send_command` does then follows no failover.
            connect(self._connection, until, self._patience())
        self._connection.send_command(*words, check_health=False)
        while True:
            if not self._connection.can_read(None if until is None else max(0.0, until - now())):
                raise redis.TimeoutError("no reply about a lock")
            reply = self._read()
            if not is_push(reply):
                return reply
            self._hear(reply)

    def _read(self) -> Any:
        return self._connection.read_response(disconnect_on_error=False, push_request=True)

    def _keep(self, caller: Any) -> None:
        """Renews the lock and listens for its loss, until it is released or lost."""
        is_open, over = True, self._over
        while not over.is_set() and self.lost is None:
            try:
                if self._notified and self._connection.can_read(max(0.0, self._renew_at - now())):
                    self._hear(self._read())
                elif not over.is_set():
                    self._prolong()
                is_open = True
            except UNREACHABLE as error:
                self._part(error)
                is_open = False
                over.wait(self._disconnected())
            except redis.ResponseError:  # says nothing of the lock: the next may be answered
                over.wait(self._failed())
        if over.is_set():
            self._given_back.wait()  # else the end of the session would come before the release
        if self.session and is_open:
            self._quit()
        self._connection.disconnect()
        self._close_stuck()
        if self.lost is not None and self.lock.on_lost is not None:
            act_for(caller)
            self.lock.on_lost(self)  # at last, since it may wait for the lock

    def _quit(self) -> None:
        """Ends the session at once, with the remaining ones of several locks, which `session-grace-ms` would keep."""
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
        except UNREACHABLE as error:
            self._part(error)
            self._disconnected()
            self._held(began)
        except redis.ResponseError:
            self._held(began)

    def _part(self, error: Exception) -> None:
        """Gives up a connection. The end of one that is stuck might end the session, which the next one takes over."""
        if self._may_be_stuck(error):
            self._stuck.append(self._connection)
            self._connection = self._new_connection()
        else:
            self._connection.disconnect()

    def _close_stuck(self) -> None:
        while self._stuck:
            self._stuck.pop().disconnect()

    def _prolong(self) -> None:
        since, until = now(), self._renewal_limit()
        is_known = self._notified
        if not is_known and (words := self._resume()):  # on a new connection, which the server has to know of
            try:
                is_known = self._has_moved = self._is_resumed(self._call(*words, until=until))
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
            self._close_stuck()
        else:
            self._lose(self._absent(is_known))

    def _lose(self, reason: str) -> None:
        with self._ending:
            if self._over.is_set() or self.lost is not None:
                return
            self.lost = reason
        if len(self.keys) == 1:
            self._end_turn()  # its release sends nothing that might release the lock of another turn


def connect(connection: Any, until: float, patience: float) -> None:
    """Connects unless there is a connection; the replies that this takes come in time, or it fails.

    What comes after them may take longer than was left of that time, as far as redis-py allows it.
    """
    connection.socket_connect_timeout = connection.socket_timeout = max(0.001, until - now())
    connection.connect()
    if hasattr(connection, "update_current_socket_timeout"):  # newer versions of redis-py
        connection.update_current_socket_timeout(patience)


def reply_of(connection: Any, limit: float) -> Any:
    """Reads a reply of a connection of the client, for so long at most."""
    if not connection.can_read(max(0.0, limit - now())):
        raise redis.TimeoutError("no reply to a release")
    return connection.read_response()
