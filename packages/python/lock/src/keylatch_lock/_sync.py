"""The lock for threads."""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis
from redis.retry import Retry

from ._callers import act_for
from ._owners import Shares
from ._terms import (
    POLL_S,
    RELEASES,
    UNREACHABLE,
    Acquisition,
    Key,
    NotAcquired,
    Terms,
    is_push,
    left_of,
    listed,
    now,
)
from ._terms import Hold as AnyHold

OWNED: Shares[threading.Lock] = Shares(threading.Lock)
LISTEN_S = 86400.0  # at most, without a renewal
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


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
        try:
            return self._obtain(tells=False)
        except NotAcquired:
            return None

    def _obtain(self, tells: bool) -> Held:
        """Returns the acquisition, or raises NotAcquired, which tells who holds the lock if that is asked for."""
        for lost in self._own_lost():
            lost.release()
        began = now()
        if self.owner is None:
            return self._begin(began, tells)[1]
        with OWNED.use(self) as share:
            take(share.turn, self.wait, self.key)
            try:
                former: Hold | None = share.hold
                if former is not None:
                    held = former.join(self)
                    if held is not None:
                        return held
                    if not former.ends_within(self._left(began)):
                        raise NotAcquired(self.key)
                share.hold, held = self._begin(began, tells)
                share.hold.share = share
                return held
            finally:
                share.turn.release()

    def _begin(self, began: float, tells: bool) -> tuple[Hold, Held]:
        hold = Hold(self, self._left(began))
        hold.acquire(tells)
        held = hold.add(self)
        hold.start()
        return hold, held

    def release(self) -> bool:
        """Releases what this thread has acquired last; returns whether it was still held.

        A thread without acquisitions releases one of a thread that has ended. Any thread may call the acquisition's
        own `release`.
        """
        held = self._callers.released()
        return held.release() if held is not None else False

    def __enter__(self) -> Held:
        held = self._obtain(tells=True)
        self._callers.enter()
        return held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        lost = [held for held in self._callers.leave() if not held.release()]
        if lost and error is None:
            raise lost[0]._hold.loss("expired")


class Held(Acquisition):
    """One acquisition of a `Lock`. Any thread may look at it, change its mode, and release it."""

    lock: Lock
    _hold: Hold

    def __init__(self, hold: Hold, lock: Lock) -> None:
        super().__init__(hold, lock)
        self._turn = threading.Lock()  # to have another mode

    def downgrade(self) -> None:
        """Shares the lock from now on, with a new fence: others that share it are let in. Does not wait.

        Raises LockLost if the lock is lost. After any other exception it is held as before, or shared with others who
        were let in meanwhile.
        """
        self._convert(True, 0.0)

    def upgrade(self, wait: float | None = None) -> None:
        """Waits until nobody else shares the lock, and has it alone from then on, with a new fence.

        wait: seconds to wait, before all who are queued; None for as long as it takes, 0 for not at all.

        Raises NotAcquired after the wait, and Deadlock if another holder waits so already: it would never end. Then the
        lock is shared as before, and so after any other exception than LockLost.
        """
        self._convert(False, wait)

    def _convert(self, shared: bool, wait: float | None) -> None:
        self._begins_conversion()
        began, limit = now(), None if shared else wait
        take(self._turn, limit, self.key)
        try:
            former = self._hold
            former.awaits_binding(left_of(limit, began))
            self._begins_conversion()  # it may have ended meanwhile
            try:
                with former.turn:
                    former.converts()
                Hold(self.lock, left_of(wait, began), former, shared).convert(self)
            except BaseException as error:
                self._ends_conversion(former, error)
                raise
        finally:
            self._turn.release()

    def release(self) -> bool:
        """Releases the lock, of several acquisitions of one owner with the last; returns whether it was still held.

        Of several locks, one of them lost, the rest are released.
        """
        if not self._begins_release():
            return False
        hold, is_last = self._hold.leave(self)
        return hold.release() if is_last else hold.is_held()


class Hold(AnyHold["redis.Redis"]):
    """What the server holds for an acquisition, or for those of one owner that share it."""

    _former: Hold | None
    _waker: Any = None  # a pair of sockets, while the thread runs

    def __init__(self, lock: Lock, wait: float | None, former: Hold | None = None, shared: bool | None = None) -> None:
        super().__init__(lock, wait, former, shared)
        self._connection: Any = self._new_connection()
        self.turn = threading.Lock()  # to ask whether the lock is held
        self._over, self._given_back, self._is_quiet = threading.Event(), threading.Event(), threading.Event()
        self._is_replaced, self._is_kept = False, threading.Lock()  # by one thread
        self._binding = threading.Lock()  # to its connection; an event fails if a wait for it is interrupted
        self._binding.acquire()

    def add(self, lock: Lock) -> Held:
        """Adds an acquisition by this thread."""
        held = Held(self, lock)
        self._acquisitions.append(held)
        held._caller = lock._callers.add(held)
        return held

    def join(self, lock: Lock) -> Held | None:
        """Adds an acquisition by this thread; None if the lock is lost or released."""
        with self._ending:
            if self._joins():
                return self.add(lock)
            if not self._over.is_set():
                self._notices_expiry()
            return None

    def leave(self, held: Held) -> tuple[Hold, bool]:
        """Ends an acquisition; returns its hold, which may be another one by now, and whether it was the last one."""
        with self._ending:
            hold = held._hold
            hold._notices_expiry()
            hold._acquisitions.remove(held)
            if not hold._acquisitions:
                hold._over.set()
            return hold, not hold._acquisitions

    def is_over(self) -> bool:
        """Returns whether nothing is sent for the lock any more."""
        return self._given_back.is_set()

    def ends_within(self, limit: float | None) -> bool:
        """Waits until nothing is sent for the lock that could release what is acquired with the same token."""
        until = None if limit is None else now() + limit
        for ending in [self._given_back] * self._over.is_set() + [self._is_quiet]:
            is_own = ending is self._is_quiet and threading.current_thread() is self._keeper  # which calls back
            if not is_own and not ending.wait(None if until is None else max(0.0, until - now())):
                return False
        return True

    def release(self) -> bool:
        """Releases the lock; returns whether it was still held."""
        try:
            return self._give_back()
        finally:
            self._is_released = True
            self._given_back.set()
            if self.share is not None:
                self.share.forget(self)

    def _new_connection(self) -> Any:
        pool = self.client.connection_pool
        return pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))

    def acquire(self, tells: bool) -> None:
        """Queues for the lock, or raises NotAcquired, which tells who holds the lock if that is asked for."""
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
            try:
                raise self._refused() if tells else NotAcquired(self.key)
            finally:
                self._connection.disconnect()
        self._notified = True
        self._confirm(began)
        self._since = now()
        self._plan(self._valid_until - self.ttl)

    def convert(self, held: Held) -> None:
        """Asks for the lock of an acquisition in the mode of this hold, and takes over from the former one.

        Nothing else has to be given back if it fails: a request that waits ends with its connection.
        """
        former = held._hold
        try:
            connect(self._connection, now() + self.ttl, self._patience())
            began = now()
            if not self._granted(self._ask(began)):
                raise self._unconverted(held, former)
            if not self._replaces(held, former, began):
                if former.lost is not None:
                    self._leave(None)  # else the release takes this along
                raise former._end_of(held)
        except redis.ResponseError as error:
            raise self._refusal(error) from None
        except UNREACHABLE:
            if held._is_released or former.lost is not None:
                raise former._end_of(held) from None
            raise
        finally:
            if held._hold is not self:
                self._connection.disconnect()
        with contextlib.suppress(NotAcquired):
            self.awaits_binding(self._patience())

    def awaits_binding(self, limit: float | None) -> None:
        """Waits until this is bound to its connection, or over; raises NotAcquired if that takes longer than it may."""
        if self._former is not None:
            take(self._binding, limit, self.key)

    def _replaces(self, held: Held, former: Hold, began: float) -> bool:
        """Takes over from the former hold; returns False if that is over. The rest is done where nothing interrupts."""
        with self._ending:
            if not self._takes_over(held, former, began):
                return False
        self.start()
        return True

    def _retires(self) -> None:
        """Lets nothing more be sent for a lock that is held by another one from now on."""
        with self.turn:
            self._is_replaced = True
            self._over.set()

    def _unconverted(self, held: Held, former: Hold) -> Exception:
        """Returns the error of another mode that is not granted: the wait is over, or the lock is not held any more."""
        if not held._is_released and former.lost is None:
            until = now() + self._patience()
            if not self.shared and self._call("LOCK.FENCE", self.keys[0], self.token, until=until) is not None:
                return NotAcquired(self.key)
            former.asks()  # and is told the reason
            former._is_quiet.wait(self._patience())
        return former._end_of(held)

    def start(self) -> None:
        """Starts the thread that renews the lock."""
        self._keeper = threading.Thread(target=self._keep, daemon=True, name="lock")
        self._keeper.start()

    def wake(self) -> None:
        """Wakes the thread that listens for the loss of the lock."""
        with self._ending:
            if self._waker is not None:
                self._waker[1].send(b"!")
        if not self._is_kept.locked():
            self.start()  # which was interrupted

    def _refused(self) -> NotAcquired:
        """Asks who holds the lock."""
        until = now() + self._patience()
        try:
            if self._is_plain:
                ttl = self._call("PTTL", self.keys[0], until=until)
                return NotAcquired(self.key, ttl=ttl / 1000 if ttl > 0 else None)
            for key in self.keys:
                told = self._not_acquired(key, self._call("LOCK.INFO", key, until=until))
                if told is not None:
                    return told
        except (*UNREACHABLE, redis.ResponseError, UnicodeDecodeError):
            pass  # then nothing more is known
        return NotAcquired(self.key)

    def _give_back(self) -> bool:
        if not self._gives_back():
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
            was_held = self.is_held()
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
                if self._is_plain:
                    return self._poll(began)
                return self._call(*self._acquire(waited), until=self._answer_limit(waited))
            except redis.ResponseError as error:
                if self._is_plain or not self._can_be_plain(error):
                    raise
                self._is_plain = True
            except UNREACHABLE:
                self._connection.disconnect()
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                time.sleep(pause)
                waited = now() - began

    def _poll(self, began: float) -> Any:
        """Sets the key as soon as it is free, on a server without LOCK commands."""
        while True:
            until = now() + self._patience()
            # A request whose reply was lost may have set it.
            if self._call(*self._set(), until=until) or self._call(*self._renew(True)[0], until=until):
                return True
            left = POLL_S + random.random() * 2 * POLL_S
            if self.wait is not None:
                left = min(left, self.wait - (now() - began))
            if left <= 0:
                return None
            time.sleep(left)

    def _leave(self, error: BaseException | None) -> None:
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

    def _keep(self) -> None:
        """Renews the lock and listens for its loss, until it is released or lost."""
        if not self._is_kept.acquire(blocking=False):
            return  # it was started twice
        is_open, over = True, self._over
        with contextlib.suppress(OSError):  # else what wakes it is seen by the next renewal
            self._waker = socket.socketpair()
        if self._former is not None:
            self._former._retires()
        while not over.is_set() and self.lost is None:
            try:
                if self._notified and not self._must_ask and self._hears(max(0.0, self._renew_at - now())):
                    self._hear(self._read())
                else:
                    self._prolong_in_turn()
                is_open = True
            except UNREACHABLE as error:
                self._part(error)
                is_open = False
                over.wait(self._disconnected())
            except redis.ResponseError:  # says nothing of the lock: the next may be answered
                over.wait(self._failed())
        if over.is_set():
            self._given_back.wait()  # else the end of the session would come before the release
        if self.session and is_open and not self._is_replaced:
            self._quit()
        self._close()
        if self.lost is not None:
            with self._ending:
                first, *others = self._acquisitions or [None]
            for held in others:
                threading.Thread(target=self._tell, args=(held,), daemon=True, name="lock").start()
            self._tell(first)

    def _hears(self, limit: float) -> bool:
        """Returns whether there is something to read within a time, which may end early."""
        if self._waker is None or self._connection.can_read(0):
            return bool(self._connection.can_read(limit))
        woken = self._waker[0]
        with Selector() as selector:
            selector.register(self._connection._sock, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            if any(key.fileobj is woken for key, _ in selector.select(min(limit, LISTEN_S))):
                woken.recv(4096)
        return bool(self._connection.can_read(0))

    def _close(self) -> None:
        self._connection.disconnect()
        self._close_stuck()
        with self._ending:
            for end in self._waker or ():
                end.close()
            self._waker = None
        self._is_quiet.set()

    def _tell(self, held: Held | None) -> None:
        """Calls back, on behalf of the thread that has acquired the lock. It may wait for a lock."""
        if held is not None and held._hold is self and held.lock.on_lost is not None:
            act_for(held._caller)
            held.lock.on_lost(held)

    def _quit(self) -> None:
        """Ends the session at once, with the remaining ones of several locks, which `session-grace-ms` would keep."""
        try:
            self._connection.send_command("QUIT", check_health=False)
        except UNREACHABLE:
            pass

    def _confirm(self, began: float) -> None:
        """Renews a lock that may have been granted a while ago: its time counts from before a command was sent."""
        self._held(began)
        if now() < began + self._patience():
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
        former, self._former = self._former, None
        if former is not None:
            former._given_back.set()
            former.wake()
            self._binding.release()

    def _prolong_in_turn(self) -> None:
        with self.turn:
            if not self._over.is_set():
                self._begins_to_ask()
                self._prolong()

    def _prolong(self) -> None:
        since, until = now(), self._renewal_limit()
        if since >= self._valid_until:
            return self._lose("expired")
        is_known, extends = self._notified or self._is_plain, self._extends(since)
        if not is_known and (words := self._resume()):  # on a new connection, which the server has to know of
            try:
                is_known = self._has_moved = self._is_resumed(self._call(*words, until=until))
            except redis.ResponseError as error:
                is_known = self._is_not_resumed(error)
        if self.lost is not None:
            return
        fences = [self._call(*words, until=until) for words in self._renew(extends)]
        if self._is_in_doubt(fences):
            fences = self._settle(until)
        elif self._is_own(fences) and not is_known and self.lost is None:
            fences = listed(self._call(*self._notify(), until=until))
            for words in self._gone(fences):
                self._call(*words, until=until)  # it went in between, and this is another
                fences = [None]
        if self._is_held(fences):
            self._held(since) if extends else self._plan(since)
            self._notified = True
            self._close_stuck()
        else:
            self._lose(self._absent(is_known))

    def _settle(self, until: float) -> list[Any]:
        """Asks for the lock in its mode again, and returns the fence from then on."""
        self._is_unsure = False
        reply = self._call(*self._rebind(), until=until)
        if self._yields(reply):
            reply = self._call(*self._rebind(), until=until)
        self._granted(reply)
        return [reply]

    def _lose(self, reason: str) -> None:
        with self._ending:
            if not self._over.is_set() and self.lost is None:
                self._records_loss(reason)


def take(turn: threading.Lock, wait: float | None, key: Key) -> None:
    """Waits for a turn, for so many seconds at most; raises NotAcquired after them."""
    if not turn.acquire(timeout=-1.0 if wait is None else min(max(0.0, wait), threading.TIMEOUT_MAX)):
        raise NotAcquired(key)


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
