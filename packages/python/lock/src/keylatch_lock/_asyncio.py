"""The lock for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry

from ._callers import act_for
from ._terms import RELEASES, UNREACHABLE, Acquisition, LockLost, NotAcquired, Terms, is_push, listed, now


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
        for lost in self._own_lost():
            await lost.release()
        held = AsyncHeld(self)
        return held if await held._acquire_in_turn() else None

    async def release(self) -> bool:
        """Releases what this task has acquired last; returns whether it was still held.

        A task without acquisitions releases one of a task that has ended. Any task may call the acquisition's own
        `release`.
        """
        held = self._callers.released()
        return await held.release() if held is not None else False

    async def __aenter__(self) -> AsyncHeld:
        held = await self.acquire()
        if held is None:
            raise NotAcquired(self.key)
        self._callers.enter()
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        lost = [held for held in self._callers.leave() if not await held.release()]
        if lost and error is None:
            raise LockLost(lost[0].lost or "expired")


class AsyncHeld(Acquisition["redis.asyncio.Redis"]):
    """One acquisition of an `AsyncLock`. Any task may look at it, and release it."""

    async def release(self) -> bool:
        """Releases the lock; returns whether it was still held. Of several, one of them lost, the rest are released.

        A task that is cancelled meanwhile releases it as well.
        """
        if not self._begins_release():
            return False
        if self.lost is None:
            self._keeper.cancel()
        releasing = asyncio.ensure_future(self._give_back_and_close())
        releasing.add_done_callback(self._end_release)  # not before: until then it may release what another turn gets
        return await asyncio.shield(releasing)

    async def _give_back_and_close(self) -> bool:
        try:
            return await self._give_back()
        finally:
            await self._connection.disconnect(nowait=True)
            await self._close_stuck()

    def _end_release(self, releasing: asyncio.Future[bool]) -> None:
        self._is_released = True
        self._end_turn()

    async def _acquire_in_turn(self) -> bool:
        began, is_turn, is_held = now(), asyncio.Event(), False
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon_threadsafe(is_turn.set)

        if not self._take_turn(wake):
            try:
                async with asyncio.timeout(self.wait):
                    self._has_turn = await is_turn.wait()
            except asyncio.TimeoutError:
                return False
            finally:
                if not self._has_turn:
                    self.lock._callers.leave_line(wake)
        if self.wait is not None:
            self.wait = max(0.0, self.wait - (now() - began))
        try:
            is_held = await self._acquire_lock()
            return is_held
        finally:
            if not is_held:
                self._end_turn()

    def _new_connection(self) -> Any:
        pool = self.client.connection_pool
        return pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))

    async def _acquire_lock(self) -> bool:
        self._connection: Any = self._new_connection()
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
            await self._connection.disconnect()
            return False
        caller = self.lock._callers.add(self)
        self._keeper = asyncio.create_task(self._keep(caller), name="lock")
        return True

    async def _give_back(self) -> bool:
        if self.lost is not None and len(self.keys) == 1:
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
                was_held = self._is_believed()
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
                    return await self._call(*self._acquire(waited))
            except UNREACHABLE:
                await self._connection.disconnect(nowait=True)
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
                waited = now() - began

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

    async def _keep(self, caller: Any) -> None:
        """Renews the lock and listens for its loss. The connection has to outlast the release, which cancels this."""
        while self.lost is None:
            try:
                await self._listen()
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
        if self.lock.on_lost is not None:
            act_for(caller)
            told = self.lock.on_lost(self)  # at last, since it may wait for the lock
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
        if now() < self._renew_at:
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

    async def _connect(self, limit: float) -> None:
        try:
            async with until(limit):
                await self._connection.connect()
        except BaseException:
            await self._connection.disconnect(nowait=True)  # it may be open, without a login
            raise

    async def _listen(self) -> None:
        """Listens until it is time for a renewal."""
        while self.lost is None and self._notified and (left := self._renew_at - now()) > 0:
            try:
                async with asyncio.timeout(left):
                    self._hear(await self._read(None))
            except asyncio.TimeoutError:
                return

    async def _prolong(self) -> None:
        if self.lost is not None:
            return
        if not self._connection.is_connected:
            await self._connection.connect()
        since = now()
        is_known = self._notified
        if not is_known and (words := self._resume()):  # on a new connection, which the server has to know of
            try:
                is_known = self._has_moved = self._is_resumed(await self._call(*words))
            except redis.ResponseError as error:
                is_known = self._is_not_resumed(error)
        if self.lost is not None:
            return
        fences = [await self._call(*words) for words in self._renew()]
        if self._is_held(fences) and not is_known:
            fences = listed(await self._call(*self._notify()))
            for words in self._gone(fences):
                await self._call(*words)  # it went in between, and this is another
        if self._is_held(fences):
            self._held(since)
            self._notified = True
            await self._close_stuck()
        else:
            self._lose(self._absent(is_known))

    def _lose(self, reason: str) -> None:
        if self.lost is not None or self._is_released:
            return
        self.lost = reason
        if len(self.keys) == 1:
            self._end_turn()  # its release sends nothing that might release the lock of another turn


@contextlib.asynccontextmanager
async def until(limit: float | None) -> AsyncIterator[None]:
    """Fails as a connection that does not answer, at a time of `now`."""
    try:
        async with asyncio.timeout(None if limit is None else limit - now()):
            yield
    except TimeoutError as error:
        raise redis.TimeoutError("no reply about a lock") from error
