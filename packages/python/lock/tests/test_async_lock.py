"""The lock for asyncio."""

import asyncio
import contextlib
import time

import pytest
import redis.asyncio
from conftest import PATIENCE_S, wait

from keylatch_lock import AsyncLock, Deadlock, LockLost, NotAcquired


@contextlib.asynccontextmanager
async def client_of(server):
    client = redis.asyncio.Redis.from_url(server.url)
    try:
        yield client
    finally:
        await client.aclose()


def with_client(body):
    """Makes a coroutine over a server and a client into a test, which may take so long at most."""

    def test(server):
        async def run():
            async with asyncio.timeout(PATIENCE_S), client_of(server) as client:
                await body(server, client)

        asyncio.run(run())

    return test


async def until(condition):
    """Waits until a condition holds; the test's own time limit bounds it."""
    while not condition():
        await asyncio.sleep(0.002)


@with_client
async def test_tasks_exclude_each_other_and_their_fences_increase(server, client):
    inside, fences = [], []

    async def work():
        for _ in range(10):
            async with AsyncLock(client, "lock") as lock:
                inside.append(lock)
                await client.ping()
                assert inside == [lock]
                fences.append(lock.fence)
                inside.remove(lock)

    await asyncio.gather(*(work() for _ in range(5)))
    assert fences == sorted(set(fences)) and len(fences) == 50


@with_client
async def test_a_wait_that_would_never_end_is_refused_at_once_if_the_locks_have_an_owner(server, client):
    async with AsyncLock(client, "a", owner="one"), AsyncLock(client, "b", owner="two") as two:
        waiting = asyncio.create_task(AsyncLock(client, "b", owner="one").acquire())
        await until(lambda: server.waiting("b") == 1)
        with pytest.raises(Deadlock, match="^a held by client [0-9]+ waits for b held by client [0-9]+$"):
            await AsyncLock(client, "a", owner="two").acquire()
        assert two.lost is None and not waiting.done()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting


@with_client
async def test_waiters_are_served_in_the_order_of_their_arrival(server, client):
    served, tasks = [], []

    async def wait_in_line(number):
        async with AsyncLock(client, "lock"):
            served.append(number)

    async with AsyncLock(client, "lock"):
        for number in range(5):
            tasks.append(asyncio.create_task(wait_in_line(number)))
            await until(lambda: server.waiting("lock") == number + 1)
    await asyncio.gather(*tasks)
    assert served == [0, 1, 2, 3, 4]


@with_client
async def test_a_lock_that_is_held_is_refused_without_waiting_or_after_waiting(server, client):
    async with AsyncLock(client, "lock"):
        assert not await AsyncLock(client, "lock", wait=0).acquire()
        assert not await AsyncLock(client, "lock", wait=0.01).acquire()
        with pytest.raises(NotAcquired):
            async with AsyncLock(client, "lock", wait=0):
                pass


@with_client
async def test_renewal_keeps_a_lock_past_its_ttl(server, client):
    async with AsyncLock(client, "lock", ttl=6) as lock:
        await until(lambda: server.info("lock")["age-ms"] > 6500)
        assert server.info("lock")["fence"] == lock.fence
        lock.check()


@with_client
async def test_a_loss_is_told_at_once_and_can_cancel_the_body(server, client):
    async def body():
        task = asyncio.current_task()
        async with AsyncLock(client, "lock", ttl=PATIENCE_S * 10, on_lost=lambda lock: task.cancel(lock.lost)):
            server.client.delete("lock")
            await asyncio.Event().wait()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(body())


@with_client
async def test_a_body_that_ends_without_the_lock_fails(server, client):
    with pytest.raises(LockLost, match="deleted"):
        async with AsyncLock(client, "lock", ttl=PATIENCE_S * 10) as lock:
            server.client.delete("lock")
            await until(lambda: lock.lost)
            with pytest.raises(LockLost):
                lock.check()


@with_client
async def test_a_lock_that_cannot_be_renewed_is_lost_when_its_time_is_over(server, client):
    lock = AsyncLock(client, "lock", ttl=0.3)
    assert await lock.acquire()
    server.client.client_pause(PATIENCE_S * 1000, all=False)
    await until(lambda: lock.lost == "expired")
    assert not await lock.release()


@with_client
async def test_an_exception_in_the_body_releases(server, client):
    with pytest.raises(ZeroDivisionError):
        async with AsyncLock(client, "lock"):
            1 / 0
    assert server.client.get("lock") is None


@with_client
async def test_a_cancelled_holder_releases(server, client):
    async def hold():
        async with AsyncLock(client, "lock"):
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await until(lambda: server.client.get("lock"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait(lambda: server.client.get("lock") is None)


@with_client
async def test_a_cancelled_waiter_leaves_the_line(server, client):
    async def wait_in_line():
        async with AsyncLock(client, "lock"):
            raise AssertionError("a cancelled waiter has the lock")

    async with AsyncLock(client, "lock"):
        task = asyncio.create_task(wait_in_line())
        await until(lambda: server.waiting("lock") == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.waiting("lock") == 0)
    assert server.client.get("lock") is None


@with_client
async def test_a_waiter_that_is_cancelled_as_it_is_granted_the_lock_leaves_it_free(server, client):
    for _ in range(20):
        server.client.execute_command("LOCK.ACQUIRE", "lock", "first", "PX", PATIENCE_S * 1000)
        task = asyncio.create_task(AsyncLock(client, "lock", ttl=PATIENCE_S * 10).acquire())
        await until(lambda: server.waiting("lock") == 1)
        server.client.execute_command("LOCK.RELEASE", "lock", "first")
        assert server.client.get("lock") not in ("first", None)  # granted, and the task has not run since
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not server.client.get("lock"))


@with_client
async def test_a_lock_outlives_its_connection_and_is_told_of_its_loss_over_the_next(server, client):
    lock = AsyncLock(client, "lock", ttl=PATIENCE_S)
    assert await lock.acquire()
    killed = server.kill_holder("lock")
    await until(lambda: server.info("lock")["client-id"] not in (killed, None))
    assert server.info("lock")["fence"] == lock.fence
    lock.check()
    server.client.delete("lock")
    await until(lambda: lock.lost == "deleted")


@with_client
async def test_a_session_ends_with_its_connection_and_frees_the_lock(server, client):
    lock = AsyncLock(client, "lock", ttl=PATIENCE_S, session=True)
    assert await lock.acquire()
    server.kill_holder("lock")
    await until(lambda: lock.lost == "disconnected")
    async with AsyncLock(client, "lock"):
        assert not await lock.release()


@with_client
async def test_the_rest_of_a_session_that_has_lost_a_lock_is_free_at_once_whatever_the_grace_is(server, client):
    server.client.config_set("session-grace-ms", PATIENCE_S * 10_000)
    lock = AsyncLock(client, ["lock", "other"], ttl=PATIENCE_S * 10, session=True)
    assert await lock.acquire()
    server.client.delete("lock")
    await until(lambda: lock.lost == "deleted" and not server.info("other"))
    assert not await lock.release()


def test_an_acquisition_whose_reply_is_lost_is_found_out_by_asking_again(server, lossy):
    async def run():
        client = redis.asyncio.Redis.from_url(lossy.url)
        lock = AsyncLock(client, "lock", ttl=PATIENCE_S * 10, wait=0)
        assert await lock.acquire() and lossy.has_lost
        assert server.info("lock")["fence"] == lock.fence and server.client.get("lock") == lock.token
        await client.aclose()

    asyncio.run(run())


@with_client
async def test_tasks_that_share_a_lock_object_exclude_each_other(server, client):
    lock, inside, fences = AsyncLock(client, "lock"), [], []

    async def work(number):
        for _ in range(10):
            async with lock as held:
                inside.append(number)
                await client.ping()
                assert inside == [number] and lock.fence == held.fence
                fences.append(held.fence)
                inside.remove(number)

    await asyncio.gather(*(work(number) for number in range(5)))
    assert fences == sorted(set(fences)) and len(fences) == 50 and server.client.get("lock") is None


@with_client
async def test_tasks_that_name_the_same_owner_hold_a_lock_together_and_its_last_release_frees_it(server, client):
    lock, together = AsyncLock(client, "lock", owner="worker"), asyncio.Barrier(4)

    async def work():
        for _ in range(10):
            async with lock:
                async with AsyncLock(client, "lock", owner="worker") as inner:
                    await together.wait()
                    assert inner.fence == lock.fence
                assert server.client.get("lock") == "worker"
                await together.wait()

    await asyncio.gather(*(work() for _ in range(4)))
    assert server.client.get("lock") is None


@with_client
async def test_a_task_that_waits_for_another_of_its_owner_gives_up_in_time_or_when_it_is_cancelled(server, client):
    server.client.set("lock", "other")
    lock, hasty = AsyncLock(client, "lock", owner="worker"), AsyncLock(client, "lock", owner="worker", wait=0.01)
    first = asyncio.create_task(lock.acquire())
    await asyncio.to_thread(wait, lambda: server.waiting("lock") == 1)
    assert await hasty.acquire() is None
    second = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    server.client.delete("lock")
    held = await first
    assert (await hasty.acquire()).fence == held.fence
    assert await held.release() and await hasty.release()
    assert server.client.get("lock") is None


@with_client
async def test_who_does_not_wait_is_refused_at_once_also_as_the_turn_of_the_owner_passes_to_another_task(server, client):
    server.client.set("lock", "other")
    hasty = AsyncLock(client, "lock", owner="worker", wait=0.2)
    first = asyncio.create_task(hasty.acquire())
    await until(lambda: server.waiting("lock") == 1)
    second = asyncio.create_task(AsyncLock(client, "lock", owner="worker").acquire())
    assert await first is None
    assert await AsyncLock(client, "lock", owner="worker", wait=0).acquire() is None
    server.client.delete("lock")
    assert await (await second).release()


def test_an_owner_has_nothing_of_what_it_has_acquired_in_a_loop_that_is_closed(server):
    client = redis.asyncio.Redis.from_url(server.url)

    async def acquire():
        async with asyncio.timeout(PATIENCE_S):
            held = await AsyncLock(client, "lock", owner="worker", ttl=PATIENCE_S).acquire()
            await client.aclose()
            return held.fence

    first = asyncio.run(acquire())
    server.client.delete("lock")
    assert asyncio.run(acquire()) > first  # its own, of the server


@with_client
async def test_a_lock_of_an_owner_whose_time_is_over_ends_no_later_one_when_it_is_released(server, client):
    get_connection = client.connection_pool.get_connection

    async def get_late(*arguments):
        await asyncio.sleep(0.02)  # so that a release would come behind the acquisition
        return await get_connection(*arguments)

    client.connection_pool.get_connection = get_late
    old = await AsyncLock(client, "lock", owner="worker", ttl=0.3, renew_for=0).acquire()
    time.sleep(0.4)  # the loop stands still, so that nobody has noticed
    lock = AsyncLock(client, "lock", owner="worker", ttl=PATIENCE_S)
    was_held, new = await asyncio.gather(old.release(), lock.acquire())
    assert not was_held
    new.check()
    assert server.client.get("lock") == "worker" and await new.release()


def test_an_owner_acquires_again_when_its_release_has_ended_also_one_that_was_cancelled(server, moving):
    async def run():
        async with asyncio.timeout(PATIENCE_S), moving.client(redis.asyncio, asks=False) as client:
            await client.ping()
            lock = AsyncLock(client, "lock", ttl=3, owner="worker")
            first = await lock.acquire()
            moving.stall()
            releasing = asyncio.create_task(first.release())
            next_one = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0.01)
            releasing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await releasing
            second = await next_one
            assert second.fence > first.fence  # else the same lock, which the first release would end
            assert await second.release()

    asyncio.run(run())


@with_client
async def test_a_task_that_was_refused_releases_nothing_of_another_one_with_the_same_object(server, client):
    lock = AsyncLock(client, "lock", wait=0)

    async def refused():
        assert not await lock.acquire() and not await lock.release()

    async with lock as held:
        await asyncio.create_task(refused())
        held.check()
        assert server.info("lock")["fence"] == held.fence


@with_client
async def test_a_task_that_holds_a_lock_is_refused_it_or_told_that_it_would_wait_for_itself(server, client):
    for wait_s in 0, 0.01:
        lock = AsyncLock(client, "lock", wait=wait_s)
        async with lock as held:
            assert not await lock.acquire()
            held.check()
    lock = AsyncLock(client, "lock")
    async with lock as held:
        with pytest.raises(Deadlock, match="itself"):
            await lock.acquire()
        held.check()
    assert server.client.get("lock") is None


@with_client
async def test_an_early_release_in_the_body_is_no_loss(server, client):
    lock = AsyncLock(client, "lock")
    async with lock:
        assert await lock.release() and not await lock.release()
    async with lock:
        assert await lock.release() and await lock.acquire()
    assert server.client.get("lock") is None


@with_client
async def test_a_lock_is_released_by_the_task_that_has_waited_for_its_acquisition_in_another(server, client):
    lock = AsyncLock(client, "lock")
    await asyncio.create_task(lock.acquire())  # as `asyncio.wait_for` of Python 3.11 does
    assert await lock.release() and server.client.get("lock") is None


@with_client
async def test_who_is_told_of_a_loss_can_acquire_again_for_the_body_whose_end_releases(server, client):
    acquired = asyncio.Queue()

    async def acquire(held):
        await acquired.put(await lock.acquire())

    lock = AsyncLock(client, "lock", ttl=PATIENCE_S * 10, on_lost=acquire)
    async with lock as first:
        server.client.delete("lock")
        second = await acquired.get()
        assert second.fence > first.fence and lock.fence == second.fence and first.lost == "deleted"
    assert server.client.get("lock") is None
