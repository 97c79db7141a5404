"""The lock for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry

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

OWNED: Shares[asyncio.Lock] = Shares(asyncio.Lock)


class AsyncLock(Terms["redis.asyncio.Redis", "AsyncHeld"]):
    """A lock over `redis.asyncio.Redis`, renewed by a task of its own while it is held.

    Tasks may share this object, which excludes them from each other as it excludes others.
    """

    on_lost: Callable[[AsyncHeld], object] | None  # is called in that task, and awaited if it is a coroutine function

    @staticmethod
    def _current() -> asyncio.Task[Any] | None:
        try:
            return asyncio.current_task()
        except RuntimeError:  # outside of a loop
            return None

    @staticmethod
    def _has_ended(caller: Any) -> bool:
        return caller.done()

    async def acquire(self) -> AsyncHeld | None:
        """Queues for the lock; returns the acquisition, or None if that was not within `wait` seconds.

        A task that holds the lock waits for itself like for any other, but not without a limit: that is a Deadlock.
        """
        try:
            return await self._obtain(tells=False)
        except NotAcquired:
            return None

    async def _obtain(self, tells: bool) -> AsyncHeld:
        """Returns the acquisition, or raises NotAcquired, which tells who holds the lock if that is asked for."""
        for lost in self._own_lost():
            await lost.release()
        began = now()
        if self.owner is None:
            return (await self._begin(began, tells))[1]
        with OWNED.use(self, asyncio.get_running_loop()) as share:
            await in_time(share.turn.acquire(), self.wait, self.key)
            try:
                former: AsyncHold | None = share.hold
                if former is not None:
                    held = former.join(self)
                    if held is not None:
                        return held
                    await former.ends_within(self._left(began))
                share.hold, held = await self._begin(began, tells)
                share.hold.share = share
                return held
            finally:
                share.turn.release()

    async def _begin(self, began: float, tells: bool) -> tuple[AsyncHold, AsyncHeld]:
        hold = AsyncHold(self, self._left(began))
        await hold.acquire(tells)
        held = hold.add(self)
        hold.start()
        return hold, held

    async def release(self) -> bool:
        """Releases what this task has acquired last; returns whether it was still held.

        A task without acquisitions releases one of a task that has ended. Any task may call the acquisition's own
        `release`.
        """
        held = self._callers.released()
        return await held.release() if held is not None else False

    async def __aenter__(self) -> AsyncHeld:
        held = await self._obtain(tells=True)
        self._callers.enter()
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        lost = [held for held in self._callers.leave() if not await held.release()]
        if lost and error is None:
            raise lost[0]._hold.loss("expired")


class AsyncHeld(Acquisition):
    """One acquisition of an `AsyncLock`. Any task may look at it, change its mode, and release it."""

    lock: AsyncLock
    _hold: AsyncHold

    def __init__(self, hold: AsyncHold, lock: AsyncLock) -> None:
        super().__init__(hold, lock)
        self._turn = asyncio.Lock()  # to have another mode

    async def downgrade(self) -> None:
        """Shares the lock from now on, with a new fence: others that share it are let in. Does not wait.

        Raises LockLost if the lock is lost. After any other exception, also in a task that is cancelled, it is held as
        before, or shared with others who were let in meanwhile.
        """
        await self._convert(True, 0.0)

    async def upgrade(self, wait: float | None = None) -> None:
        """Waits until nobody else shares the lock, and has it alone from then on, with a new fence.

        wait: seconds to wait, before all who are queued; None for as long as it takes, 0 for not at all.

        Raises NotAcquired after the wait, and Deadlock if another holder waits so already: it would never end. Then the
        lock is shared as before, and so after any other exception than LockLost, also in a task that is cancelled.
        """
        await self._convert(False, wait)

    async def _convert(self, shared: bool, wait: float | None) -> None:
        self._begins_conversion()
        began, limit = now(), None if shared else wait
        await in_time(self._turn.acquire(), limit, self.key)
        try:
            former = self._hold
            await in_time(former.is_bound.wait(), left_of(limit, began), self.key)
            self._begins_conversion()  # it may have ended meanwhile
            try:
                async with former.turn:
                    former.converts()
                await AsyncHold(self.lock, left_of(wait, began), former, shared).convert(self)
            except BaseException as error:
                self._ends_conversion(former, error)
                raise
        finally:
            self._turn.release()

    async def release(self) -> bool:
        """Releases the lock, of several acquisitions of one owner with the last; returns whether it was still held.

        Of several locks, one of them lost, the rest are released. A task that is cancelled meanwhile releases it as well.
        """
        if not self._begins_release():
            return False
        if not self._hold.leave(self):
            return self._hold.is_held()
        return await asyncio.shield(self._hold.release())


class AsyncHold(AnyHold["redis.asyncio.Redis"]):
    """What the server holds for an acquisition, or for those of one owner that share it."""

    _former: AsyncHold | None
    _releasing: asyncio.Future[bool] | None = None
    _listening: asyncio.Timeout | None = None

    def __init__(
        self, lock: AsyncLock, wait: float | None, former: AsyncHold | None = None, shared: bool | None = None
    ) -> None:
        super().__init__(lock, wait, former, shared)
        self._connection: Any = self._new_connection()
        self.turn = asyncio.Lock()  # to ask whether the lock is held
        self._is_over = asyncio.Event()  # lost or released
        self.is_bound = asyncio.Event()  # to its connection, or ended
        if former is None:
            self.is_bound.set()

    def add(self, lock: AsyncLock) -> AsyncHeld:
        """Adds an acquisition by this task."""
        held = AsyncHeld(self, lock)
        self._acquisitions.append(held)
        held._caller = lock._callers.add(held)
        return held

    def join(self, lock: AsyncLock) -> AsyncHeld | None:
        """Adds an acquisition by this task; None if the lock is lost or released."""
        if self._joins():
            return self.add(lock)
        if self._releasing is None:
            self._notices_expiry()
        return None

    def leave(self, held: AsyncHeld) -> bool:
        """Ends an acquisition; returns whether it was the last one."""
        self._notices_expiry()
        self._acquisitions.remove(held)
        return not self._acquisitions

    def is_over(self) -> bool:
        """Returns whether nothing is sent for the lock any more."""
        return self._keeper.get_loop().is_closed() or self._releasing is not None and self._releasing.done()

    async def ends_within(self, limit: float | None) -> None:
        """Waits for a release that has begun: it would take along what is acquired with the same token."""
        if self._releasing is not None and not (await asyncio.wait([self._releasing], timeout=limit))[0]:
            raise NotAcquired(self.key)

    def release(self) -> asyncio.Future[bool]:
        """Begins to release the lock; returns whether it was still held."""
        if self.lost is None:
            self._keeper.cancel()
        self._is_over.set()
        self._releasing = asyncio.ensure_future(self._give_back_and_close())
        return self._releasing

    async def _give_back_and_close(self) -> bool:
        try:
            return await self._give_back()
        finally:
            self._is_released = True
            if self.share is not None:
                self.share.forget(self)
            await self._connection.disconnect(nowait=True)
            await self._close_stuck()

    def _new_connection(self) -> Any:
        pool = self.client.connection_pool
        return pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))

    async def acquire(self, tells: bool) -> None:
        """Queues for the lock, or raises NotAcquired, which tells who holds the lock if that is asked for."""
        await self._connect(now() + self.ttl)
        began = now()
        try:
            granted = self._granted(await self._ask(began))
            if granted:
                self._notified = True
                await self._confirm(began)
        except redis.ResponseError as error:
            await self._connection.disconnect()  # not granted, so there is nothing to give back
            raise self._refusal(error) from None
        except BaseException:
            self.fence = None
            await self._leave()
            raise
        if not granted:
            try:
                raise await self._refused() if tells else NotAcquired(self.key)
            finally:
                await self._connection.disconnect()
        self._since = now()
        self._plan(self._valid_until - self.ttl)

    async def convert(self, held: AsyncHeld) -> None:
        """Asks for the lock of an acquisition in the mode of this hold, and takes over from the former one.

        Nothing else has to be given back if it fails: a request that waits ends with its connection.
        """
        former = held._hold
        try:
            await self._connect(now() + self.ttl)
            began = now()
            if not self._granted(await self._ask(began)):
                raise await self._unconverted(held, former)
            if not await self._replaces(held, former, began):
                if former.lost is not None:
                    await self._leave()  # else the release takes this along
                raise former._end_of(held)
        except redis.ResponseError as error:
            raise self._refusal(error) from None
        except UNREACHABLE:
            if held._is_released or former.lost is not None:
                raise former._end_of(held) from None
            raise
        finally:
            if held._hold is not self:
                await self._connection.disconnect(nowait=True)
        with contextlib.suppress(NotAcquired):
            await in_time(self.is_bound.wait(), self._patience(), self.key)

    async def _replaces(self, held: AsyncHeld, former: AsyncHold, began: float) -> bool:
        """Takes over from the former hold, which sends nothing any more; returns False if that is over."""
        async with former.turn:
            if not self._takes_over(held, former, began):
                return False
            former._keeper.cancel()
            self._stuck = [former._connection, *former._stuck]
            self.start()
            return True

    async def _unconverted(self, held: AsyncHeld, former: AsyncHold) -> Exception:
        """Returns the error of another mode that is not granted: the wait is over, or the lock is not held any more."""
        if not held._is_released and former.lost is None:
            async with until(now() + self._patience()):
                if not self.shared and await self._call("LOCK.FENCE", self.keys[0], self.token) is not None:
                    return NotAcquired(self.key)
            former.asks()  # and is told the reason
            with contextlib.suppress(NotAcquired):
                await in_time(former._is_over.wait(), self._patience(), self.key)
        return former._end_of(held)

    def start(self) -> None:
        """Starts the task that renews the lock."""
        self._keeper = asyncio.create_task(self._keep(), name="lock")

    def wake(self) -> None:
        """Wakes the task that listens for the loss of the lock."""
        if self._listening is not None and not self._listening.expired():
            self._listening.reschedule(0)

    async def _refused(self) -> NotAcquired:
        """Asks who holds the lock."""
        try:
            async with until(now() + self._patience()):
                if self._is_plain:
                    ttl = await self._call("PTTL", self.keys[0])
                    return NotAcquired(self.key, ttl=ttl / 1000 if ttl > 0 else None)
                for key in self.keys:
                    told = self._not_acquired(key, await self._call("LOCK.INFO", key))
                    if told is not None:
                        return told
        except (*UNREACHABLE, redis.ResponseError, UnicodeDecodeError):
            pass  # then nothing more is known
        return NotAcquired(self.key)

    async def _give_back(self) -> bool:
        if not self._gives_back():
            return False
        limit = self._release_limit()
        for attempt in range(1, RELEASES + 1):
            try:
                return self._has_released(await self._send_releases(limit, attempt))
            except UNREACHABLE:
                if self.lost is not None:
                    return False  # nobody waits for the end of what is lost
                if attempt == RELEASES or now() >= limit:
                    raise
                await asyncio.sleep(self._pause() if attempt > 1 else 0)
            except redis.RedisError:
                if self.lost is None:
                    raise
                return False
        return False

    async def _send_releases(self, limit: float, attempt: int) -> list[Any]:
        """Sends the releases once; returns the replies. After a connection of the client it takes new ones."""
        pool, is_first = self.client.connection_pool, attempt == 1
        limit, was_held = min(limit, now() + self._patience()), False
        connection: Any = None
        try:
            async with until(limit):
                connection = await pool.get_connection() if is_first else self._new_connection()
                await connection.connect()
                was_held = self.is_held()
                for words in self._release():
                    await connection.send_command(*words)
                return [await connection.read_response(timeout=max(0.001, limit - now())) for _ in self.keys]
        except UNREACHABLE:
            self._is_unanswered |= was_held
            if connection is not None:
                await connection.disconnect(nowait=True)
            raise
        except BaseException:
            if connection is not None:
                await connection.disconnect(nowait=True)  # replies may follow
            raise
        finally:
            if connection is not None:
                await (pool.release(connection) if is_first else connection.disconnect(nowait=True))

    async def _ask(self, began: float) -> Any:
        """Queues and returns the fence. After a broken connection it queues again; a session resumes its place."""
        breaks, reached, waited = 0, began, 0.0
        while True:
            try:
                await self._connect(now() + self.ttl)
                reached = now()
                async with until(self._answer_limit(waited)):
                    if not self._is_plain:
                        return await self._call(*self._acquire(waited))
                return await self._poll(began)
            except redis.ResponseError as error:
                if self._is_plain or not self._can_be_plain(error):
                    raise
                self._is_plain = True
            except UNREACHABLE:
                await self._connection.disconnect(nowait=True)
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
                waited = now() - began

    async def _poll(self, began: float) -> Any:
        """Sets the key as soon as it is free, on a server without LOCK commands."""
        while True:
            async with until(now() + self._patience()):
                # A request whose reply was lost may have set it.
                if await self._call(*self._set()) or await self._call(*self._renew(True)[0]):
                    return True
            left = POLL_S + random.random() * 2 * POLL_S
            if self.wait is not None:
                left = min(left, self.wait - (now() - began))
            if left <= 0:
                return None
            await asyncio.sleep(left)

    async def _leave(self) -> None:
        """Leaves the queue. A lock that was granted meanwhile is released by the commands sent behind the wait."""
        try:
            if self._connection.is_connected:
                for words in self._release():
                    await self._connection.send_command(*words, check_health=False)
        except UNREACHABLE:
            pass
        await self._connection.disconnect(nowait=True)

    async def _call(self, *words: Any) -> Any:
        await self._connection.send_command(*words, check_health=False)
        while is_push(reply := await self._read(None)):
            self._hear(reply)
        return reply

    async def _read(self, timeout: float | None) -> Any:
        return await self._connection.read_response(timeout=timeout, disconnect_on_error=False, push_request=True)

    async def _keep(self) -> None:
        """Renews the lock and listens for its loss. The connection has to outlast the release, which cancels this."""
        while self.lost is None:
            try:
                await self._listen()
                async with self.turn:
                    self._begins_to_ask()
                    await self._prolong_in_time()
            except UNREACHABLE as error:
                await self._part(error)
                await asyncio.sleep(self._disconnected())
            except redis.ResponseError:  # says nothing of the lock: the next may be answered
                await asyncio.sleep(self._failed())
        if self.session:
            await self._quit()
        await self._connection.disconnect(nowait=True)
        await self._close_stuck()
        await asyncio.gather(*(self._tell(held) for held in self._acquisitions))

    async def _tell(self, held: AsyncHeld) -> None:
        """Calls back, on behalf of the task that has acquired the lock. It may wait for a lock."""
        if held._hold is self and held.lock.on_lost is not None:
            act_for(held._caller)
            told = held.lock.on_lost(held)
            if inspect.isawaitable(told):
                await told

    async def _quit(self) -> None:
        """Ends the session at once, with the remaining ones of several locks, which `session-grace-ms` would keep."""
        try:
            if self._connection.is_connected:
                await self._connection.send_command("QUIT", check_health=False)
        except UNREACHABLE:
            pass

    async def _confirm(self, began: float) -> None:
        """Renews a lock that may have been granted a while ago: its time counts from before a command was sent."""
        self._held(began)
        if now() < began + self._patience():
            return
        self._held(now())
        try:
            await self._prolong_in_time()
        except UNREACHABLE as error:
            await self._part(error)
            self._disconnected()
            self._held(began)
        except redis.ResponseError:
            self._held(began)

    async def _prolong_in_time(self) -> None:
        async with until(self._renewal_limit()):
            await self._prolong()

    async def _part(self, error: Exception) -> None:
        """Gives up a connection. The end of one that is stuck might end the session, which the next one takes over."""
        if self._may_be_stuck(error):
            self._stuck.append(self._connection)
            self._connection = self._new_connection()
        else:
            await self._connection.disconnect(nowait=True)

    async def _close_stuck(self) -> None:
        while self._stuck:
            await self._stuck.pop().disconnect(nowait=True)
        self._former = None
        self.is_bound.set()

    async def _connect(self, limit: float) -> None:
        try:
            async with until(limit):
                await self._connection.connect()
        except BaseException:
            await self._connection.disconnect(nowait=True)  # it may be open, without a login
            raise

    async def _listen(self) -> None:
        """Listens until it is time for a renewal."""
        while self.lost is None and self._notified and not self._must_ask and (left := self._renew_at - now()) > 0:
            try:
                async with asyncio.timeout(left) as self._listening:
                    self._hear(await self._read(None))
            except asyncio.TimeoutError:
                return
            finally:
                self._listening = None

    async def _prolong(self) -> None:
        if self.lost is not None:
            return
        if not self._connection.is_connected:
            await self._connection.connect()
        since = now()
        if since >= self._valid_until:
            return self._lose("expired")
        is_known, extends = self._notified or self._is_plain, self._extends(since)
        if not is_known and (words := self._resume()):  # on a new connection, which the server has to know of
            try:
                is_known = self._has_moved = self._is_resumed(await self._call(*words))
            except redis.ResponseError as error:
                is_known = self._is_not_resumed(error)
        if self.lost is not None:
            return
        fences = [await self._call(*words) for words in self._renew(extends)]
        if self._is_in_doubt(fences):
            fences = await self._settle()
        elif self._is_own(fences) and not is_known and self.lost is None:
            fences = listed(await self._call(*self._notify()))
            for words in self._gone(fences):
                await self._call(*words)  # it went in between, and this is another
                fences = [None]
        if self._is_held(fences):
            self._held(since) if extends else self._plan(since)
            self._notified = True
            await self._close_stuck()
        else:
            self._lose(self._absent(is_known))

    async def _settle(self) -> list[Any]:
        """Asks for the lock in its mode again, and returns the fence from then on."""
        self._is_unsure = False
        reply = await self._call(*self._rebind())
        if self._yields(reply):
            reply = await self._call(*self._rebind())
        self._granted(reply)
        return [reply]

    def _lose(self, reason: str) -> None:
        if self.lost is None and not self._is_released and self._releasing is None:
            self._records_loss(reason)
            self._is_over.set()


async def in_time(coming: Awaitable[object], wait: float | None, key: Key) -> None:
    """Waits for something, for so many seconds at most; raises NotAcquired after them."""
    try:
        async with asyncio.timeout(wait):
            await coming  # at once if it is there, also with a timeout of 0
    except asyncio.TimeoutError:
        raise NotAcquired(key) from None


@contextlib.asynccontextmanager
async def until(limit: float | None) -> AsyncIterator[None]:
    """Fails as a connection that does not answer, at a time of `now`."""
    try:
        async with asyncio.timeout(None if limit is None else limit - now()):
            yield
    except TimeoutError as error:
        raise redis.TimeoutError("no reply about a lock") from error
