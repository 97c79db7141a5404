"""The lock for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry

from ._terms import UNREACHABLE, LockLost, NotAcquired, Terms, is_push, listed, now


class AsyncLock(Terms["redis.asyncio.Redis"]):
    """A lock over `redis.asyncio.Redis`, renewed by a task of its own while it is held."""

    on_lost: Callable[[AsyncLock], object] | None  # is called in that task

    async def acquire(self) -> bool:
        """Queues for the lock; returns whether it was obtained within `wait` seconds."""
        pool = self.client.connection_pool
        self._begin()
        self._connection: Any = pool.connection_class(**self._kwargs(pool.connection_kwargs, Retry))
        await self._connection.connect()
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
        self._keeper = asyncio.create_task(self._keep(), name="lock")
        return True

    async def release(self) -> bool:
        """Releases the lock; returns whether it was still held. What is left of several, of which one is lost, too.

        A task that is cancelled meanwhile releases it as well.
        """
        if self.fence is None:
            return False
        self._keeper.cancel()
        held, connection = self.lost is None, self._connection
        try:
            return await asyncio.shield(self._give_back(held)) and held
        finally:
            await connection.disconnect(nowait=True)

    async def _give_back(self, held: bool) -> bool:
        if len(self.keys) == 1:
            return held and bool(await self.client.execute_command(*self._release()[0]))
        pipeline = self.client.pipeline(transaction=False)
        for words in self._release():
            pipeline.execute_command(*words)
        try:
            return all(await pipeline.execute())
        except redis.RedisError:
            if held:
                raise
            return False  # nobody waits for the end of what is lost

    async def __aenter__(self) -> AsyncLock:
        if not await self.acquire():
            raise NotAcquired(self.key)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if not await self.release() and error is None:
            raise LockLost(self.lost or "expired")

    async def _ask(self, began: float) -> Any:
        """Queues and returns the fence; again if the connection breaks, which takes up the place of a session."""
        breaks, reached, waited = 0, began, 0.0
        while True:
            try:
                await self._connection.connect()
                reached = now()
                return await self._call(*self._acquire(waited))
            except (redis.ConnectionError, redis.TimeoutError):
                await self._connection.disconnect(nowait=True)
                breaks += 1
                pause = self._queue_again(breaks, began, reached)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
                waited = now() - began

    async def _leave(self) -> None:
        """Leaves the queue; a lock that was granted meanwhile is released by what stands behind the wait."""
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
        connection = self._connection
        while self.lost is None:
            try:
                await self._listen()
                await self._prolong_in_time()
            except UNREACHABLE:
                await connection.disconnect(nowait=True)
                await asyncio.sleep(self._disconnected())
            except redis.ResponseError:  # says nothing of the lock: the next may be answered
                await asyncio.sleep(self._failed())
        if self.session:
            await self._quit()
        await connection.disconnect(nowait=True)

    async def _quit(self) -> None:
        """Ends the session at once, with what is left of several locks, which `session-grace-ms` would keep."""
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
        except UNREACHABLE:
            await self._connection.disconnect(nowait=True)
            self._disconnected()
            self._held(began)
        except redis.ResponseError:
            self._held(began)

    async def _prolong_in_time(self) -> None:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + self._valid_until - now()):
            await self._prolong()

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
                is_known = self._is_resumed(await self._call(*words))
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
        else:
            self._lose(self._absent(is_known))

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            if self.on_lost is not None:
                self.on_lost(self)
